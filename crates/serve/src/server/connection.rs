//! A client: its socket and its session.

use std::io::{self, IoSlice};
use std::time::Duration;

use strobe_ssd::CommandError;

use super::listen::Stream;
use crate::engine::Engine;
use crate::nbd::{self, Failed, Op};
use crate::nvme_tcp::{self, Subsystem};

/// Parts of one write to a socket.
const PARTS: usize = 64;

/// Engine, controllers and time, which sessions share.
pub(super) struct Shared<'a> {
    pub(super) engine: &'a mut Engine,
    pub(super) subsystem: &'a mut Subsystem,
    /// Time of the server.
    pub(super) now: Duration,
}

/// A connection's protocol, at work.
pub(super) trait Session {
    /// Room for bytes from the client.
    fn room(&mut self) -> &mut [u8];
    /// `count` bytes have come into the room.
    fn received(&mut self, count: usize);
    /// The next bytes to send, in at most `slices.len()` parts; returns how many parts there are.
    fn output<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize;
    /// Bytes to send.
    fn output_bytes(&self) -> usize;
    /// `count` bytes have been sent.
    fn sent(&mut self, count: usize);
    /// True once the client has found what it wants.
    fn is_ready(&self) -> bool;
    /// True if no more bytes are wanted now.
    fn is_full(&self) -> bool;
    /// True if the connection has done its work and can be closed.
    fn is_over(&self) -> bool;
    /// Requests without an answer.
    fn in_flight(&self) -> usize;
    /// Takes no more requests.
    fn end(&mut self);
    /// True if nobody is there any more, although the connection is.
    fn is_deserted(&self, _shared: &mut Shared<'_>) -> bool {
        false
    }
    /// Submits the requests at hand; `id` is the number of the connection. Returns how many there were.
    fn submit(&mut self, id: u32, shared: &mut Shared<'_>) -> usize;
    /// Takes the answer to the request in `slot`.
    fn answer(&mut self, slot: u32, result: Result<Vec<u8>, CommandError>, shared: &mut Shared<'_>);
    /// The connection is closed.
    fn leave(&self, _shared: &mut Shared<'_>) {}
}

/// The methods of a [`Session`] that both kinds have themselves.
macro_rules! own {
    ($kind:ty) => {
        fn room(&mut self) -> &mut [u8] {
            <$kind>::room(self)
        }

        fn received(&mut self, count: usize) {
            <$kind>::received(self, count);
        }

        fn output<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
            <$kind>::output(self, slices)
        }

        fn output_bytes(&self) -> usize {
            <$kind>::output_bytes(self)
        }

        fn sent(&mut self, count: usize) {
            <$kind>::sent(self, count);
        }

        fn is_ready(&self) -> bool {
            <$kind>::is_ready(self)
        }

        fn is_full(&self) -> bool {
            <$kind>::is_full(self)
        }

        fn is_over(&self) -> bool {
            <$kind>::is_over(self)
        }

        fn in_flight(&self) -> usize {
            <$kind>::in_flight(self)
        }

        fn end(&mut self) {
            <$kind>::end(self);
        }
    };
}

impl Session for nbd::Session {
    own!(nbd::Session);

    fn submit(&mut self, id: u32, shared: &mut Shared<'_>) -> usize {
        let mut count = 0;
        while let Some(request) = self.next_request() {
            count += 1;
            if let Op::Status { one } = request.op {
                let runs = shared.engine.status(request.range, one);
                let slot = request.slot;
                self.answer_status(slot, &runs);
            } else {
                let tag = u64::from(id) << 32 | u64::from(request.slot);
                shared.engine.submit(tag, request.op, request.range, request.data);
            }
        }
        count
    }

    fn answer(&mut self, slot: u32, result: Result<Vec<u8>, CommandError>, _shared: &mut Shared<'_>) {
        nbd::Session::answer(self, slot, result.map_err(|error| Failed::from(&error)));
    }
}

impl Session for nvme_tcp::Session {
    own!(nvme_tcp::Session);

    fn is_deserted(&self, shared: &mut Shared<'_>) -> bool {
        nvme_tcp::Session::is_deserted(self, shared.subsystem, shared.now)
    }

    fn submit(&mut self, id: u32, shared: &mut Shared<'_>) -> usize {
        nvme_tcp::Session::submit(self, id, shared.subsystem, shared.engine, shared.now)
    }

    fn answer(&mut self, slot: u32, result: Result<Vec<u8>, CommandError>, shared: &mut Shared<'_>) {
        nvme_tcp::Session::answer(self, slot, result, shared.subsystem, shared.engine);
    }

    fn leave(&self, shared: &mut Shared<'_>) {
        nvme_tcp::Session::leave(self, shared.subsystem);
    }
}

/// A connected client.
pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) session: Box<dyn Session>,
    /// Time of the server at which it connected.
    since: Duration,
    /// True once the other end has gone.
    is_gone: bool,
}

impl Connection {
    pub(super) fn new(stream: Stream, session: Box<dyn Session>, since: Duration) -> Self {
        Self { stream, session, since, is_gone: false }
    }

    /// True if it can be forgotten: the client has gone, is done, or has not got through the handshake in time.
    pub(super) fn is_over(&self, shared: &mut Shared<'_>, patience: Duration) -> bool {
        let is_idle = !self.session.is_ready() && self.session.in_flight() == 0;
        let is_late = is_idle && shared.now.saturating_sub(self.since) > patience;
        self.is_gone || is_late || self.session.is_over() || self.session.is_deserted(shared)
    }

    /// Takes bytes that have come, if there is room for them; `is_cut` is true if the other end is closed.
    pub(super) fn receive(&mut self, is_cut: bool) {
        if self.session.is_full() {
            self.is_gone |= is_cut;
            return;
        }
        match self.stream.read(self.session.room()) {
            // What is under way is still done, and answered to nobody.
            Ok(0) => self.is_gone = true,
            Ok(count) => self.session.received(count),
            Err(error) if is_late(&error) => {}
            Err(_) => self.is_gone = true,
        }
    }

    /// Sends what the socket takes.
    pub(super) fn send(&mut self) {
        while self.session.output_bytes() > 0 && !self.is_gone {
            let mut parts = [IoSlice::new(&[]); PARTS];
            let count = self.session.output(&mut parts);
            match self.stream.write(&parts[..count]) {
                Ok(0) => self.is_gone = true,
                Ok(sent) => self.session.sent(sent),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.is_gone = true,
            }
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
