//! Interface of a connection to its protocol: received bytes in, bytes to send out.

use std::io::IoSlice;

use crate::buffers::{Input, Output};

/// Input and output buffers of a connection.
#[derive(Debug, Default)]
pub struct Buffers {
    pub(crate) input: Input,
    pub(crate) needed: usize,
    pub(crate) output: Output,
    /// True once reading has ended. Pending output is still sent.
    pub(crate) has_ended: bool,
}

/// Connection of a client.
pub trait Session {
    /// Buffers.
    fn buffers(&self) -> &Buffers;
    /// Mutable buffers.
    fn buffers_mut(&mut self) -> &mut Buffers;
    /// True once the handshake is complete.
    fn is_ready(&self) -> bool;
    /// True if the session accepts no bytes now, because too much is in flight or unsent.
    fn is_busy(&self) -> bool;
    /// Number of in-flight requests.
    fn in_flight(&self) -> usize;

    /// Returns space for received bytes. Call [`Session::received`] afterwards.
    fn free_space(&mut self) -> &mut [u8] {
        let Buffers { input, needed, .. } = self.buffers_mut();
        input.free_space(*needed)
    }

    /// Records `count` received bytes.
    fn received(&mut self, count: usize) {
        self.buffers_mut().input.filled(count);
    }

    /// Stores the next bytes to send in up to `slices.len()` parts. Returns the number of parts.
    fn output<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.buffers().output.slices(slices)
    }

    /// Number of bytes to send.
    fn output_bytes(&self) -> usize {
        self.buffers().output.len()
    }

    /// Records `count` sent bytes.
    fn sent(&mut self, count: usize) {
        self.buffers_mut().output.consume(count);
    }

    /// True if no more bytes are accepted now.
    fn is_full(&self) -> bool {
        self.has_ended() || self.is_busy()
    }

    /// Stops accepting requests.
    fn end(&mut self) {
        self.buffers_mut().has_ended = true;
    }

    /// True once no more requests are accepted.
    fn has_ended(&self) -> bool {
        self.buffers().has_ended
    }

    /// True if the connection is done and can be closed.
    fn is_over(&self) -> bool {
        self.has_ended() && self.in_flight() == 0 && self.output_bytes() == 0
    }
}
