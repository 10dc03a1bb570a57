//! A connection's protocol as a function of bytes, whichever it is.

use std::io::IoSlice;

use crate::buffers::{Input, Output};

/// Bytes of a connection on their way in and out, and its end.
#[derive(Debug, Default)]
pub struct Buffers {
    pub(crate) input: Input,
    /// Bytes that the message at hand needs to be understood.
    pub(crate) needed: usize,
    pub(crate) output: Output,
    /// True once no more is read; what is owed is still sent.
    pub(crate) has_ended: bool,
}

/// A connection of a client.
pub trait Session {
    /// Its bytes.
    fn buffers(&self) -> &Buffers;
    /// Its bytes, to be filled or sent.
    fn buffers_mut(&mut self) -> &mut Buffers;
    /// True once the client has found what it wants.
    fn is_ready(&self) -> bool;
    /// True if the session wants no more bytes now: too much is under way or waits to be sent.
    fn is_busy(&self) -> bool;
    /// Requests without an answer.
    fn in_flight(&self) -> usize;

    /// Room for bytes from the client; [`Session::received`] says how many have come.
    fn room(&mut self) -> &mut [u8] {
        let Buffers { input, needed, .. } = self.buffers_mut();
        input.room(*needed)
    }

    /// `count` bytes have come into the room.
    fn received(&mut self, count: usize) {
        self.buffers_mut().input.filled(count);
    }

    /// The next bytes to send, in at most `slices.len()` parts; returns how many parts there are.
    fn output<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.buffers().output.slices(slices)
    }

    /// Bytes to send.
    fn output_bytes(&self) -> usize {
        self.buffers().output.len()
    }

    /// `count` bytes have been sent.
    fn sent(&mut self, count: usize) {
        self.buffers_mut().output.consume(count);
    }

    /// True if no more bytes are wanted now.
    fn is_full(&self) -> bool {
        self.has_ended() || self.is_busy()
    }

    /// Takes no more requests.
    fn end(&mut self) {
        self.buffers_mut().has_ended = true;
    }

    /// True once no more requests are taken.
    fn has_ended(&self) -> bool {
        self.buffers().has_ended
    }

    /// True if the connection has done its work and can be closed.
    fn is_over(&self) -> bool {
        self.has_ended() && self.in_flight() == 0 && self.output_bytes() == 0
    }
}
