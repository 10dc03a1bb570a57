//! The calendar: scheduling of one guest in virtual time.
//!
//! The protocol is in `docs/MECHANISMS.md` and in Linux, `um_timetravel.h` (version 2 of the shared memory).
//!
//! Kernels before 6.12 share no memory, and ask before time advances. The simulator stores their REQUEST and
//! UPDATE messages in the page on their behalf.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use vm_memory::{FileOffset, MmapRegion, VolatileMemory};

use crate::LinuxError;
use crate::time::{TimeMessage, TimeOp};

const VERSION: u32 = 2;
const HEADER_BYTES: usize = 4096;
const CLIENT_BYTES: usize = 128;
/// Client numbers. Because the simulator is a client, the guest leaves its requests in the page instead of
/// sending them.
const CONTROLLER: u16 = 0;
const GUEST: u16 = 1;
const CLIENTS: u16 = 2;
const TIME_SHARE: u32 = 1;
const WANTS_TO_RUN: u32 = 1;
/// Time after all others: the kernel panics at S64_MAX.
const NEVER: u64 = i64::MAX as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    Nothing,
    /// The guest waits, and the simulator controls the time.
    Waits,
    Gone,
}

pub(crate) struct Calendar {
    link: UnixStream,
    epoch_ns: u64,
    page: Page,
    has_started: bool,
    seq: u32,
    messages: u64,
}

struct Page {
    file: File,
    region: MmapRegion,
}

impl Page {
    fn new() -> io::Result<Self> {
        let bytes = HEADER_BYTES + CLIENT_BYTES * usize::from(CLIENTS);
        let file = File::from(memfd_create("strobe-calendar", MemfdFlags::CLOEXEC)?);
        ftruncate(&file, bytes as u64)?;
        let region =
            MmapRegion::from_file(FileOffset::new(file.try_clone()?, 0), bytes).map_err(io::Error::other)?;
        let page = Self { file, region };
        page.u32(0).store(VERSION, Ordering::Relaxed);
        page.u32(4).store(bytes as u32, Ordering::Relaxed);
        page.free_until().store(NEVER, Ordering::Relaxed);
        page.running().store(GUEST, Ordering::Relaxed);
        page.u16(26).store(CLIENTS, Ordering::Relaxed);
        page.u32(HEADER_BYTES).store(TIME_SHARE, Ordering::Release);
        Ok(page)
    }

    fn u16(&self, at: usize) -> &AtomicU16 {
        self.region.get_atomic_ref(at).expect("aligned and inside the page")
    }

    fn u32(&self, at: usize) -> &AtomicU32 {
        self.region.get_atomic_ref(at).expect("aligned and inside the page")
    }

    fn u64(&self, at: usize) -> &AtomicU64 {
        self.region.get_atomic_ref(at).expect("aligned and inside the page")
    }

    fn free_until(&self) -> &AtomicU64 {
        self.u64(8)
    }

    fn now(&self) -> &AtomicU64 {
        self.u64(16)
    }

    fn running(&self) -> &AtomicU16 {
        self.u16(24)
    }

    fn guest_capabilities(&self) -> &AtomicU32 {
        self.u32(HEADER_BYTES + CLIENT_BYTES)
    }

    fn guest_flags(&self) -> &AtomicU32 {
        self.u32(HEADER_BYTES + CLIENT_BYTES + 4)
    }

    fn guest_request(&self) -> &AtomicU64 {
        self.u64(HEADER_BYTES + CLIENT_BYTES + 8)
    }
}

impl Calendar {
    /// Guest time starts at Unix time `epoch_ns`.
    pub(crate) fn new(link: UnixStream, epoch_ns: u64) -> Result<Self, LinuxError> {
        Ok(Self { link, epoch_ns, page: Page::new()?, has_started: false, seq: 0, messages: 0 })
    }

    pub(crate) fn link(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }

    /// Current time in ns. While the guest runs, the time of its last message or disk request.
    pub(crate) fn now(&self) -> u64 {
        self.page.now().load(Ordering::Acquire)
    }

    /// True if the guest shares the page. Such a guest acknowledges an interrupt without a time message.
    pub(crate) fn is_shared(&self) -> bool {
        self.page.guest_capabilities().load(Ordering::Acquire) & TIME_SHARE != 0
    }

    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }

    pub(crate) fn limit(&self, until: u64) {
        self.page.free_until().store(until.min(NEVER), Ordering::Release);
    }

    pub(crate) fn request(&self) -> Option<u64> {
        let wants = self.page.guest_flags().load(Ordering::Acquire) & WANTS_TO_RUN != 0;
        let request = self.page.guest_request().load(Ordering::Acquire);
        (wants && request < NEVER).then_some(request)
    }

    pub(crate) fn advance(&self, now: u64) {
        self.page.running().store(CONTROLLER, Ordering::Release);
        self.page.now().store(now.max(self.now()), Ordering::Release);
        self.page.free_until().store(NEVER, Ordering::Release);
    }

    pub(crate) fn run(&mut self, now: u64, until: u64) -> Result<(), LinuxError> {
        // The page must be complete before RUN is sent, because the guest reads the page when it wakes.
        let now = now.max(self.now());
        self.page.now().store(now, Ordering::Release);
        self.page.running().store(GUEST, Ordering::Release);
        self.page.guest_flags().fetch_and(!WANTS_TO_RUN, Ordering::AcqRel);
        self.limit(until);
        self.seq = self.seq.wrapping_add(1);
        self.send(TimeMessage::new(TimeOp::Run, self.seq, now))
    }

    fn send(&mut self, message: TimeMessage) -> Result<(), LinuxError> {
        self.messages += 1;
        match self.link.write_all(&message.to_bytes()) {
            // The end of the guest is detected by the next read.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => Ok(result?),
        }
    }

    pub(crate) fn serve(&mut self) -> Result<Served, LinuxError> {
        let mut bytes = [0; TimeMessage::BYTES];
        match self.link.read_exact(&mut bytes) {
            Ok(()) => {}
            Err(error)
                if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) =>
            {
                return Ok(Served::Gone);
            }
            Err(error) => return Err(error.into()),
        }
        self.messages += 1;
        let message = TimeMessage::from_bytes(bytes);
        let ack = |time| TimeMessage::new(TimeOp::Ack, message.seq, time);
        match message.op {
            Ok(TimeOp::Start) if !self.has_started => {
                self.has_started = true;
                self.start(ack(GUEST.into()))?;
            }
            Ok(TimeOp::Wait) => {
                // Guests that share the page expect no ACK of WAIT.
                if !self.is_shared() {
                    self.send(ack(0))?;
                }
                self.page.running().store(CONTROLLER, Ordering::Release);
                return Ok(Served::Waits);
            }
            Ok(TimeOp::Get) => self.send(ack(self.now()))?,
            Ok(TimeOp::GetTimeOfDay) => self.send(ack(self.epoch_ns + self.now()))?,
            Ok(TimeOp::Broadcast) => self.send(ack(0))?,
            Ok(TimeOp::Ack) => {}
            // Only guests without shared memory send these.
            Ok(TimeOp::Request) => {
                self.page.guest_request().store(message.time, Ordering::Release);
                self.page.guest_flags().fetch_or(WANTS_TO_RUN, Ordering::AcqRel);
                self.send(ack(0))?;
            }
            Ok(TimeOp::Update) => {
                // Time never moves backwards.
                self.page.now().fetch_max(message.time.min(NEVER), Ordering::AcqRel);
                self.send(ack(0))?;
            }
            Ok(op) => return Err(LinuxError::Protocol(format!("time message {op:?} from the guest"))),
            Err(number) => return Err(LinuxError::Protocol(format!("time message {number} from the guest"))),
        }
        Ok(Served::Nothing)
    }

    fn start(&mut self, ack: TimeMessage) -> Result<(), LinuxError> {
        // The ACK of START carries the page. The second file is for logs; the kernel closes it.
        let files = [self.page.file.as_fd(), self.page.file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fits = control.push(SendAncillaryMessage::ScmRights(&files));
        debug_assert!(fits, "two files fit");
        let bytes = ack.to_bytes();
        self.messages += 1;
        let sent = sendmsg(&self.link, &[IoSlice::new(&bytes)], &mut control, SendFlags::empty());
        sent.map_err(io::Error::from)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Guest(UnixStream);

    impl Guest {
        fn says(&mut self, op: TimeOp, seq: u32, time: u64) {
            self.0.write_all(&TimeMessage::new(op, seq, time).to_bytes()).expect("sent");
        }

        fn hears(&mut self) -> (TimeOp, u32, u64) {
            let mut bytes = [0; TimeMessage::BYTES];
            self.0.read_exact(&mut bytes).expect("an answer");
            let message = TimeMessage::from_bytes(bytes);
            (message.op.expect("a known message"), message.seq, message.time)
        }
    }

    #[test]
    fn a_guest_without_shared_memory_asks_by_messages() {
        let (link, guest) = UnixStream::pair().expect("a pair");
        let (mut calendar, mut guest) = (Calendar::new(link, 1000).expect("a calendar"), Guest(guest));
        let mut asks = |calendar: &mut Calendar, op, seq, time| {
            guest.says(op, seq, time);
            let served = calendar.serve().expect("served");
            (served, guest.hears())
        };
        let ack = |seq, time| (TimeOp::Ack, seq, time);
        assert_eq!(asks(&mut calendar, TimeOp::Start, 1, 7), (Served::Nothing, ack(1, 1)));
        assert_eq!(asks(&mut calendar, TimeOp::GetTimeOfDay, 2, 0), (Served::Nothing, ack(2, 1000)));
        assert_eq!(calendar.request(), None);
        for (seq, at) in [(3, 900), (4, 50)] {
            assert_eq!(asks(&mut calendar, TimeOp::Request, seq, at), (Served::Nothing, ack(seq, 0)));
        }
        assert_eq!(calendar.request(), Some(50));
        assert_eq!(asks(&mut calendar, TimeOp::Wait, 5, u64::MAX), (Served::Waits, ack(5, 0)));
        calendar.advance(20);
        assert_eq!(asks(&mut calendar, TimeOp::Get, 6, 0), (Served::Nothing, ack(6, 20)));
        assert_eq!(asks(&mut calendar, TimeOp::Request, 7, 20), (Served::Nothing, ack(7, 0)));
        calendar.run(20, 100).expect("sent");
        assert_eq!(calendar.request(), None);
        assert_eq!(guest.hears(), (TimeOp::Run, 1, 20));
        for (seq, time, now) in [(8, 30, 30), (9, 25, 30)] {
            guest.says(TimeOp::Update, seq, time);
            assert_eq!(calendar.serve().expect("served"), Served::Nothing);
            assert_eq!((guest.hears(), calendar.now()), (ack(seq, 0), now));
        }
    }
}
