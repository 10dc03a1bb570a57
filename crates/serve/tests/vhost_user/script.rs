//! A guest that follows a script of bytes: messages with files, writes to its memory, ring entries, kicks. The
//! fuzz target `vhost_user` compiles this file, too.
//!
//! The first byte selects the set-up: bit 0 starts two rings, bit 1 makes the device read-only, bit 2
//! negotiates event indices. Each step starts with a byte that selects one of [`Guest::step`]'s actions. Two
//! rules are asserted after each step:
//!
//! 1. In-flight requests and unread output stay within their limits.
//! 2. Once the drive has answered everything, no request is in flight.

use std::fs::File;
use std::io::{IoSlice, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use strobe_serve::vhost::{IN_FLIGHT_MAX, OUTPUT_BYTES_MAX, Session};
use strobe_serve::{Engine, Pace, Session as _};
use strobe_types::SimTime;
use strobe_virtio::message::Header;
use strobe_virtio::vm_memory::{Bytes as _, FileOffset, GuestAddress};
use strobe_virtio::{GuestMemoryMmap, Message, Received, Receiver};

const MEMORY_BYTES: usize = 1 << 20;
const RING_BYTES: u64 = 0x1000;
const USED: u64 = 0x400;
const AVAILABLE: u64 = 0x800;
const RINGS: u64 = 2;
const SIZE: u16 = 16;
const HEADERS: u64 = 0x1_0000;
const DATA: u64 = 0x2_0000;
const NEXT: u16 = 1;
const WRITE: u16 = 2;
/// Request types: read, write, flush, discard, write zeroes, serial number, unknown.
const KINDS: [u32; 7] = [0, 1, 4, 11, 13, 8, 99];
const FEATURES: u64 = 1 << 32 | 1 << 9 | 1 << 12 | 1 << 30;
const EVENT_INDEX: u64 = 1 << 29;
const ROUNDS_MAX: usize = 64;

pub(crate) fn follow(bytes: &[u8]) -> usize {
    let mut script = Script(bytes);
    let Some(options) = script.byte() else { return 0 };
    let mut guest = Guest::new(options);
    while !guest.session.has_ended() && guest.step(&mut script).is_some() {
        guest.check();
    }
    guest.finish();
    guest.answered
}

pub(crate) struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn word(&mut self) -> Option<u16> {
        self.bytes(2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }
}

pub(crate) struct Guest {
    there: UnixStream,
    here: UnixStream,
    receiver: Receiver,
    message: Option<Message>,
    pub(crate) session: Session,
    engine: Engine,
    memory: GuestMemoryMmap,
    file: File,
    events: Vec<File>,
    entries: [u16; RINGS as usize],
    pub(crate) answered: usize,
}

fn engine() -> Engine {
    let config = serde_json::json!({
        "nand": {
            "channels": 1, "dies_per_channel": 1, "planes_per_die": 1, "blocks_per_plane": 16, "pages_per_block": 8,
            "page_bytes": 4096, "read_ns": 1000, "program_ns": 10_000, "erase_ns": 100_000, "channel_mb_s": 100,
            "endurance_pe": 100_000, "data": "bytes",
        },
        "ftl": { "mapping": "page", "mapping_unit_bytes": 4096, "logical_pages": 64 },
        "controller": { "command_ns": 1000, "link_mb_s": 500, "write_buffer_bytes": 65_536 },
    });
    let config = serde_json::from_value(config).expect("a configuration");
    let drive = strobe_ssd::build(&config, true, 1).expect("a drive");
    Engine::new(drive, SimTime::ZERO, Pace::None)
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl Guest {
    pub(crate) fn new(options: u8) -> Self {
        let file = File::from(memfd_create("guest", MemfdFlags::CLOEXEC).expect("a file of memory"));
        file.set_len(MEMORY_BYTES as u64).expect("memory");
        let offset = FileOffset::new(file.try_clone().expect("another of it"), 0);
        let memory = GuestMemoryMmap::from_ranges_with_files([(GuestAddress(0), MEMORY_BYTES, Some(offset))]);
        let (there, here) = UnixStream::pair().expect("a socket");
        for socket in [&there, &here] {
            socket.set_nonblocking(true).expect("a socket that does not block");
        }
        let event = || File::from(eventfd(0, EventfdFlags::NONBLOCK).expect("an event file descriptor"));
        let mut guest = Self {
            there,
            here,
            receiver: Receiver::default(),
            message: None,
            session: Session::new(options & 2 != 0).expect("a session"),
            engine: engine(),
            memory: memory.expect("it maps"),
            file,
            // Kicks, then calls.
            events: (0..2 * RINGS).map(|_| event()).collect(),
            entries: [0; RINGS as usize],
            answered: 0,
        };
        if options & 1 != 0 {
            guest.start(FEATURES | if options & 4 != 0 { EVENT_INDEX } else { 0 });
        }
        guest
    }

    fn start(&mut self, features: u64) {
        self.say(3, &[], 0);
        self.say(2, &words(&[features]), 0);
        self.say(5, &words(&[1, 0, MEMORY_BYTES as u64, 0, 0]), 1);
        for ring in 0..RINGS {
            let at = ring * RING_BYTES;
            self.say(8, &[(ring as u32).to_le_bytes(), u32::from(SIZE).to_le_bytes()].concat(), 0);
            self.say(10, &words(&[ring]), 0);
            self.say(9, &words(&[ring, at, at + USED, at + AVAILABLE, 0]), 0);
            self.say(12, &words(&[ring]), 2 + ring as u8);
            self.say(13, &words(&[ring]), 2 + (RINGS + ring) as u8);
            self.say(18, &words(&[ring | 1 << 32]), 0);
        }
        assert!(!self.session.has_ended(), "good messages");
    }

    fn step(&mut self, script: &mut Script<'_>) -> Option<()> {
        match script.byte()? % 16 {
            0 => {
                let count = usize::from(script.byte()?);
                self.send(script.bytes(count)?, 0);
            }
            1 => {
                let (request, count, files) = (script.byte()? % 40, script.byte()? % 80, script.byte()?);
                self.say(request.into(), script.bytes(count.into())?, files);
            }
            2..=3 => {
                let (at, count) = (u64::from(script.word()?), script.byte()? % 32);
                self.put(at, script.bytes(count.into())?);
            }
            4..=8 => {
                let (ring, kind) = (u64::from(script.byte()?) % RINGS, script.byte()?);
                let (sector, bytes) = (script.word()? % 1024, script.word()?);
                self.ask(ring, KINDS[usize::from(kind) % KINDS.len()], sector.into(), bytes);
            }
            9 => {
                let (ring, head) = (u64::from(script.byte()?) % RINGS, script.word()?);
                self.offer(ring, head);
            }
            10..=13 => {
                let ring = usize::from(script.byte()?) % RINGS as usize;
                rustix::io::write(&self.events[ring], &1_u64.to_ne_bytes()).expect("it takes a signal");
            }
            14 => self.read_output(),
            _ => {
                let (ring, entry) = (u64::from(script.byte()?) % RINGS, script.word()?);
                self.put(ring * RING_BYTES + AVAILABLE + 2, &entry.to_le_bytes());
            }
        }
        self.turn();
        Some(())
    }

    pub(crate) fn say(&mut self, request: u32, payload: &[u8], files: u8) {
        let header = [request, 1, payload.len() as u32].map(u32::to_le_bytes).concat();
        self.send(&[&header, payload].concat(), files);
        self.turn();
    }

    /// Files: none (0), the memory (1), an event file descriptor (2 to 5), or the memory eight times.
    fn send(&mut self, bytes: &[u8], files: u8) {
        let files: Vec<BorrowedFd<'_>> = match files % 7 {
            0 => Vec::new(),
            1 => vec![self.file.as_fd()],
            event @ 2..6 => vec![self.events[usize::from(event) - 2].as_fd()],
            _ => vec![self.file.as_fd(); 8],
        };
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        }
        // A device that has stopped reading leaves its socket full.
        let _ = sendmsg(&self.there, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(at)).expect("in memory");
    }

    fn ask(&mut self, ring: u64, kind: u32, sector: u64, bytes: u16) {
        let (base, header) = (ring * RING_BYTES, HEADERS + 32 * ring);
        self.put(header, &[&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat());
        let data = if matches!(kind, 0 | 8) { WRITE } else { 0 };
        let parts = [(header, 16, NEXT, 1), (DATA, bytes, NEXT | data, 2), (header + 16, 1, WRITE, 0)];
        for (at, (address, length, flags, next)) in (0..).zip(parts) {
            let length = u32::from(length).to_le_bytes();
            let descriptor = [&u64::to_le_bytes(address)[..], &length, &u16::to_le_bytes(flags)].concat();
            self.put(base + 16 * at, &[&descriptor[..], &u16::to_le_bytes(next)].concat());
        }
        self.offer(ring, 0);
    }

    fn offer(&mut self, ring: u64, head: u16) {
        let (base, entry) = (ring * RING_BYTES, self.entries[ring as usize]);
        self.put(base + AVAILABLE + 4 + 2 * u64::from(entry % SIZE), &head.to_le_bytes());
        self.entries[ring as usize] = entry.wrapping_add(1);
        self.put(base + AVAILABLE + 2, &entry.wrapping_add(1).to_le_bytes());
    }

    fn read_output(&mut self) {
        let bytes = self.session.output_bytes();
        self.session.sent(bytes);
        while self.there.read(&mut [0; 512]).is_ok_and(|count| count > 0) {}
    }

    fn turn(&mut self) {
        while self.message.is_none() && !self.session.is_full() {
            match self.receiver.receive(&self.here) {
                Ok(Received::Message(message)) => self.message = Some(message),
                Ok(Received::Part) => {}
                Ok(Received::Closed | Received::Broken(_)) => self.session.end(),
                Err(_) => break,
            }
            self.serve();
        }
        let rings: Vec<_> = self.session.kicks().iter().map(|(ring, _)| *ring).collect();
        for ring in rings {
            let kicked = self.session.kicked(ring);
            self.judge(kicked);
        }
        self.serve();
    }

    fn serve(&mut self) {
        for _ in 0..ROUNDS_MAX {
            if let Some(message) = self.message.take() {
                let heard = self.session.hear(message, self.engine.drive());
                self.message = self.judge(heard);
            }
            let taken = if self.session.has_ended() { Ok(0) } else { self.session.take(7, &mut self.engine) };
            let taken = self.judge(taken);
            let told = self.session.tell();
            self.judge(told);
            self.check();
            self.answer();
            if taken == 0 {
                break;
            }
        }
    }

    fn answer(&mut self) {
        let mut answers = Vec::new();
        self.engine.advance(&mut answers);
        for (tag, result) in answers {
            assert_eq!(tag >> 32, 7, "the connection's number");
            let finished = self.session.finish(tag as u32, result);
            self.judge(finished);
            self.answered += 1;
        }
    }

    fn judge<T: Default>(&mut self, outcome: Result<T, String>) -> T {
        outcome.unwrap_or_else(|_| {
            self.session.end();
            T::default()
        })
    }

    fn check(&self) {
        assert!(self.session.in_flight() <= IN_FLIGHT_MAX);
        // One answer may exceed the limit.
        let most = OUTPUT_BYTES_MAX + Header::BYTES + Header::PAYLOAD_MAX;
        assert!(self.session.output_bytes() <= most, "{} bytes of output", self.session.output_bytes());
    }

    fn finish(&mut self) {
        self.answer();
        assert_eq!(self.engine.outstanding(), 0);
        assert_eq!(self.session.in_flight(), 0, "each request was answered");
    }
}
