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

const PARTS: usize = 64;

pub(super) struct Shared<'a> {
    pub(super) engine: &'a mut Engine,
    pub(super) subsystem: &'a mut Subsystem,
    pub(super) now: Duration,
}

pub(super) trait Client: Session {
    /// Reads bytes from `stream`. Returns 0 if the peer has closed it.
    fn receive(&mut self, stream: &mut Stream) -> io::Result<usize> {
        let count = stream.read(self.free_space())?;
        self.received(count);
        Ok(count)
    }
    // File descriptor to send with the next output byte.
    fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    // Event files to poll in addition to the stream, with numbers for `signalled`.
    fn signals(&self) -> Vec<(usize, BorrowedFd<'_>)> {
        Vec::new()
    }
    fn signalled(&mut self, _number: usize) {}
    // True if `submit` can make progress without any further event.
    fn has_pending(&self) -> bool {
        false
    }
    fn wants_encryption(&self) -> bool {
        false
    }
    fn set_encrypted(&mut self) {}
    /// True if the client is gone although its connection is open.
    fn is_deserted(&self, _shared: &mut Shared<'_>) -> bool {
        false
    }
    // Submits complete requests with tags of connection `id`. Returns their number.
    fn submit(&mut self, id: u32, shared: &mut Shared<'_>) -> usize;
    fn answer(&mut self, slot: u32, result: Result<Vec<u8>, CommandError>, shared: &mut Shared<'_>);
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

pub(super) struct Guest {
    session: vhost::Session,
    receiver: Receiver,
    message: Option<Message>,
}

impl Guest {
    pub(super) fn new(session: vhost::Session) -> Self {
        Self { session, receiver: Receiver::default(), message: None }
    }

    fn judge<T: Default>(&mut self, outcome: Result<T, String>) -> T {
        outcome.unwrap_or_else(|_| {
            // A protocol violation ends the connection. No client could read the message.
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
        // A message may have ended the session. Completions are announced in any case.
        let taken = if self.has_ended() { Ok(0) } else { self.session.take(id, shared.engine) };
        let notified = self.session.tell();
        self.judge(notified);
        self.judge(taken)
    }

    fn answer(&mut self, slot: u32, result: Result<Vec<u8>, CommandError>, _shared: &mut Shared<'_>) {
        let finished = self.session.finish(slot, result);
        self.judge(finished);
    }
}

pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) session: Box<dyn Client>,
    /// `None` without encryption.
    tls: Option<Tls>,
    /// Server time at which the connection was accepted or, later, its session ended.
    since: Duration,
    had_ended: bool,
    is_gone: bool,
}

impl Connection {
    pub(super) fn new(stream: Stream, session: Box<dyn Client>, tls: Option<Tls>, since: Duration) -> Self {
        Self { stream, session, tls, since, had_ended: false, is_gone: false }
    }

    /// True if the connection can be dropped: the client is gone, done or late.
    ///
    /// A client has `idle_max` for its handshake, and again to receive the last answers.
    pub(super) fn check_over(&mut self, shared: &mut Shared<'_>, idle_max: Duration) -> bool {
        let has_ended = self.session.has_ended();
        if has_ended && !self.had_ended {
            (self.had_ended, self.since) = (true, shared.now);
        }
        let is_idle = (has_ended || !self.session.is_ready()) && self.session.in_flight() == 0;
        let is_late = is_idle && shared.now.saturating_sub(self.since) > idle_max;
        self.is_gone || is_late || self.is_done() || self.session.is_deserted(shared)
    }

    fn is_done(&self) -> bool {
        self.session.is_over() && !self.stream.has_output()
    }

    /// Reads from the client. `is_cut` is true if the peer has closed the connection.
    pub(super) fn receive(&mut self, is_cut: bool) {
        // A full session does not read, so only `is_cut` tells that the peer is gone.
        if self.session.is_full() {
            self.is_gone |= is_cut;
            return;
        }
        match self.session.receive(&mut self.stream) {
            // In-flight requests still complete, but their answers are dropped.
            Ok(0) => self.is_gone = true,
            Ok(_) => {}
            Err(error) if is_late(&error) => {}
            Err(_) => self.is_gone = true,
        }
    }

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
        // The reply to STARTTLS must be sent unencrypted.
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
