//! A client: its socket and its session.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use super::listen::Stream;
use crate::engine::Engine;
use crate::nbd::{Export, Failed, Op, Session};

/// Parts of one write to a socket.
const PARTS: usize = 64;

/// A connected client.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) session: Session,
    /// Time of the server at which it connected.
    since: Duration,
    /// True once the other end has gone.
    is_gone: bool,
}

impl Connection {
    pub(super) fn new(stream: Stream, export: Arc<Export>, since: Duration) -> Self {
        Self { stream, session: Session::new(export), since, is_gone: false }
    }

    /// True if it can be forgotten: the client has gone, is done, or has not got through the handshake in time.
    pub(super) fn is_over(&self, now: Duration, patience: Duration) -> bool {
        let is_idle = !self.session.is_ready() && self.session.in_flight() == 0;
        self.is_gone || self.session.is_over() || is_idle && now.saturating_sub(self.since) > patience
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

    /// Submits the requests at hand; `id` is the number of this connection. Returns how many there were.
    pub(super) fn submit(&mut self, id: u32, engine: &mut Engine) -> usize {
        let mut count = 0;
        while let Some(request) = self.session.next_request() {
            count += 1;
            if let Op::Status { one } = request.op {
                let runs = engine.status(request.range, one);
                let slot = request.slot;
                self.session.answer_status(slot, &runs);
            } else {
                let tag = u64::from(id) << 32 | u64::from(request.slot);
                engine.submit(tag, request.op, request.range, request.data);
            }
        }
        count
    }

    /// Takes the answer to a request.
    pub(super) fn answer(&mut self, slot: u32, result: Result<Vec<u8>, Failed>) {
        self.session.answer(slot, result);
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
