//! A client: its socket and its session.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use strobe_ssd::CommandError;
use strobe_virtio::{Message, Received, Receiver};

use super::listen::Stream;
use super::tls::Tls;
use crate::engine::Engine;
use crate::nbd::{self, Failed, Op};
use crate::nvme_tcp::{self, Subsystem};
use crate::session::{Buffers, Session};
use crate::vhost;

/// Parts of one write to a socket.
const PARTS: usize = 64;

/// Engine, controllers and time, which sessions share.
pub(super) struct Shared<'a> {
    pub(super) engine: &'a mut Engine,
    pub(super) subsystem: &'a mut Subsystem,
    /// Time of the server.
    pub(super) now: Duration,
}

/// A session whose requests the drive carries out.
pub(super) trait Client: Session {
    /// Takes bytes that have come at `stream`; none if the other end is closed.
    fn receive(&mut self, stream: &mut Stream) -> io::Result<usize> {
        let count = stream.read(self.room())?;
        self.received(count);
        Ok(count)
    }
    /// File that goes with the first byte of the output.
    fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Files by which the client signals, with their numbers.
    fn signals(&self) -> Vec<(usize, BorrowedFd<'_>)> {
        Vec::new()
    }
    /// The client has signalled by the file `number`.
    fn signalled(&mut self, _number: usize) {}
    /// True if requests wait that nothing will announce.
    fn has_pending(&self) -> bool {
        false
    }
    /// True if the connection is to be encrypted as soon as the output is sent.
    fn wants_encryption(&self) -> bool {
        false
    }
    /// The connection is encrypted from here on.
    fn set_encrypted(&mut self) {}
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

impl Client for nbd::Session {
    fn wants_encryption(&self) -> bool {
        nbd::Session::wants_encryption(self)
    }

    fn set_encrypted(&mut self) {
        nbd::Session::set_encrypted(self);
    }

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

impl Client for nvme_tcp::Session {
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

/// A guest's device at a socket.
pub(super) struct Guest {
    session: vhost::Session,
    receiver: Receiver,
    /// A message to be served.
    message: Option<Message>,
}

impl Guest {
    pub(super) fn new(session: vhost::Session) -> Self {
        Self { session, receiver: Receiver::default(), message: None }
    }

    /// Ends the connection if the guest has broken a rule.
    fn judge<T: Default>(&mut self, outcome: Result<T, String>) -> T {
        outcome.unwrap_or_else(|_| {
            self.end();
            T::default()
        })
    }
}

impl Session for Guest {
    fn buffers(&self) -> &Buffers {
        self.session.buffers()
    }

    fn buffers_mut(&mut self) -> &mut Buffers {
        self.session.buffers_mut()
    }

    fn is_ready(&self) -> bool {
        self.session.is_ready()
    }

    fn is_busy(&self) -> bool {
        self.message.is_some() || self.session.is_busy()
    }

    fn in_flight(&self) -> usize {
        self.session.in_flight()
    }

    fn sent(&mut self, count: usize) {
        self.session.sent(count);
    }
}

impl Client for Guest {
    fn receive(&mut self, stream: &mut Stream) -> io::Result<usize> {
        match self.receiver.receive(&*stream)? {
            Received::Message(message) => self.message = Some(message),
            Received::Part => {}
            Received::Closed => return Ok(0),
            Received::Broken(what) => return Err(io::Error::other(what)),
        }
        Ok(1)
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        self.session.file()
    }

    fn signals(&self) -> Vec<(usize, BorrowedFd<'_>)> {
        self.session.kicks()
    }

    fn signalled(&mut self, number: usize) {
        let kicked = self.session.kicked(number);
        self.judge(kicked);
    }

    fn has_pending(&self) -> bool {
        self.session.has_pending()
    }

    fn submit(&mut self, id: u32, shared: &mut Shared<'_>) -> usize {
        if let Some(message) = self.message.take() {
            let heard = self.session.hear(message, shared.engine.drive());
            self.message = self.judge(heard);
        }
        let taken = if self.has_ended() { Ok(0) } else { self.session.take(id, shared.engine) };
        let told = self.session.tell();
        self.judge(told);
        self.judge(taken)
    }

    fn answer(&mut self, slot: u32, result: Result<Vec<u8>, CommandError>, _shared: &mut Shared<'_>) {
        let finished = self.session.finish(slot, result);
        self.judge(finished);
    }
}

/// A connected client.
pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) session: Box<dyn Client>,
    /// Certificate of a connection that is to be encrypted.
    tls: Option<Tls>,
    /// Time of the server at which it connected, or since which no more requests are taken.
    since: Duration,
    had_ended: bool,
    /// True once the other end has gone.
    is_gone: bool,
}

impl Connection {
    pub(super) fn new(stream: Stream, session: Box<dyn Client>, tls: Option<Tls>, since: Duration) -> Self {
        Self { stream, session, tls, since, had_ended: false, is_gone: false }
    }

    /// True if it can be forgotten: the client has gone, is done, or has neither got through the handshake nor taken its last
    /// answers in time.
    pub(super) fn check_over(&mut self, shared: &mut Shared<'_>, patience: Duration) -> bool {
        let has_ended = self.session.has_ended();
        if has_ended && !self.had_ended {
            (self.had_ended, self.since) = (true, shared.now);
        }
        let is_idle = (has_ended || !self.session.is_ready()) && self.session.in_flight() == 0;
        let is_late = is_idle && shared.now.saturating_sub(self.since) > patience;
        self.is_gone || is_late || self.is_done() || self.session.is_deserted(shared)
    }

    /// True if the session is over and all of its bytes are sent.
    fn is_done(&self) -> bool {
        self.session.is_over() && !self.stream.has_output()
    }

    /// Takes bytes that have come, if there is room for them; `is_cut` is true if the other end is closed.
    pub(super) fn receive(&mut self, is_cut: bool) {
        if self.session.is_full() {
            self.is_gone |= is_cut;
            return;
        }
        match self.session.receive(&mut self.stream) {
            // What is under way is still done, and answered to nobody.
            Ok(0) => self.is_gone = true,
            Ok(_) => {}
            Err(error) if is_late(&error) => {}
            Err(_) => self.is_gone = true,
        }
    }

    /// Sends what the socket takes.
    pub(super) fn send(&mut self) {
        self.is_gone |= self.stream.flush().is_err();
        while self.session.output_bytes() > 0 && !self.is_gone {
            let mut parts = [IoSlice::new(&[]); PARTS];
            let count = self.session.output(&mut parts);
            let sent = match self.session.file() {
                Some(file) => self.stream.write_with_file(&parts[..count], file),
                None => self.stream.write(&parts[..count]),
            };
            match sent {
                Ok(0) => self.is_gone = true,
                Ok(sent) => self.session.sent(sent),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.is_gone = true,
            }
        }
        if self.session.wants_encryption() && self.session.output_bytes() == 0 {
            let encrypted = self.tls.as_ref().map(|tls| self.stream.encrypt(tls));
            self.is_gone |= !matches!(encrypted, Some(Ok(())));
            self.session.set_encrypted();
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
