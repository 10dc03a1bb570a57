//! Guest made of a memory file and event files.

mod inflight;

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;

use proptest::prelude::*;
use rustix::event::{EventfdFlags, eventfd};
use strobe_ssd::DriveConfig;
use strobe_types::SimTime;
use strobe_virtio::message::Header;
use strobe_virtio::vm_memory::{Bytes as _, FileOffset, GuestAddress};
use strobe_virtio::{Block, BlockOptions, GuestMemoryMmap, Message};

use super::{IN_FLIGHT_MAX, OWED_BYTES_MAX, RINGS, Session};
use crate::clock::Pace;
use crate::engine::Engine;
use crate::session::Session as _;

const MEMORY_BYTES: usize = 64 << 20;
/// Size of a ring: descriptors, used and available entries.
const RING_BYTES: u64 = 0x1000;
const USED: u64 = 0x400;
const AVAILABLE: u64 = 0x800;
const HEADERS: u64 = 0x1_0000;
const STATUS: u64 = 0x1_1000;
const DATA: u64 = 0x2_0000;
const SIZE: u16 = 16;
const PLACES: u16 = 5;
const PLACE_BYTES: u64 = 0x1_0000;
const NEXT: u16 = 1;
const WRITE: u16 = 2;

const IN: u32 = 0;
const OUT: u32 = 1;
const FLUSH: u32 = 4;
const DISCARD: u32 = 11;
const WRITE_ZEROES: u32 = 13;
/// Version 1, flush, several rings, protocol features.
const FEATURES: u64 = 1 << 32 | 1 << 9 | 1 << 12 | 1 << 30;

fn engine() -> Engine {
    let config = serde_json::json!({
        "nand": {
            "channels": 1, "dies_per_channel": 1, "planes_per_die": 1, "blocks_per_plane": 64, "pages_per_block": 32,
            "page_bytes": 4096, "read_ns": 1000, "program_ns": 10_000, "erase_ns": 100_000, "channel_mb_s": 100,
            "endurance_pe": 1000, "data": "bytes",
        },
        "ftl": { "mapping": "page", "mapping_unit_bytes": 4096, "logical_pages": 1700 },
        "controller": { "command_ns": 1000, "link_mb_s": 500, "write_buffer_bytes": 65_536 },
    });
    let config: DriveConfig = serde_json::from_value(config).expect("a configuration");
    let drive = strobe_ssd::build(&config, true, 1).expect("a drive");
    Engine::new(drive, SimTime::ZERO, Pace::None)
}

struct Guest {
    session: Session,
    memory: GuestMemoryMmap,
    file: File,
    inflight: Option<(File, Vec<u8>)>,
    calls: Vec<File>,
    entries: Vec<u16>,
}

fn message(request: u32, payload: &[u8], files: Vec<OwnedFd>) -> Message {
    (Header { request, needs_reply: false, bytes: payload.len() }, payload.to_vec(), files)
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn event() -> File {
    File::from(eventfd(0, EventfdFlags::NONBLOCK).expect("an event file descriptor"))
}

fn clone(file: &File) -> OwnedFd {
    file.try_clone().expect("another of it").into()
}

impl Guest {
    fn new(engine: &Engine, rings: usize) -> Self {
        let mut guest = Self::boot(rings);
        guest.connect(engine);
        guest
    }

    fn boot(rings: usize) -> Self {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(MEMORY_BYTES as u64).expect("memory");
        let offset = FileOffset::new(file.try_clone().expect("another of it"), 0);
        let memory = GuestMemoryMmap::from_ranges_with_files([(GuestAddress(0), MEMORY_BYTES, Some(offset))]);
        Self {
            session: Session::new(false).expect("a session"),
            memory: memory.expect("it maps"),
            file,
            inflight: None,
            calls: (0..rings).map(|_| event()).collect(),
            entries: vec![0; rings],
        }
    }

    /// Connects a new device, whose rings continue at their used index, as with QEMU.
    fn connect(&mut self, engine: &Engine) {
        self.connect_to(engine, Session::new(false).expect("a session"));
    }

    fn connect_to(&mut self, engine: &Engine, device: Session) {
        self.session = device;
        self.say(engine, 3, &[], Vec::new());
        self.say(engine, 2, &words(&[FEATURES]), Vec::new());
        if let Some((file, area)) = &self.inflight {
            let (file, area) = (clone(file), area.clone());
            self.say(engine, 32, &area, vec![file]);
        }
        let table = words(&[1, 0, MEMORY_BYTES as u64, 0, 0]);
        let files = vec![clone(&self.file)];
        self.say(engine, 5, &table, files);
        for ring in 0..self.calls.len() as u64 {
            let at = ring * RING_BYTES;
            let index = ring as u32;
            self.say(engine, 8, &[index.to_le_bytes(), u32::from(SIZE).to_le_bytes()].concat(), Vec::new());
            self.say(engine, 10, &words(&[ring | u64::from(self.used(ring)) << 32]), Vec::new());
            self.say(engine, 9, &words(&[ring, at, at + USED, at + AVAILABLE, 0]), Vec::new());
            self.say(engine, 12, &words(&[ring]), vec![event().into()]);
            let call = vec![clone(&self.calls[ring as usize])];
            self.say(engine, 13, &words(&[ring]), call);
            self.say(engine, 18, &words(&[ring | 1 << 32]), Vec::new());
        }
    }

    fn used(&self, ring: u64) -> u16 {
        u16::from_le_bytes(self.get::<2>(ring * RING_BYTES + USED + 2))
    }

    fn say(&mut self, engine: &Engine, request: u32, payload: &[u8], files: Vec<OwnedFd>) {
        let heard = self.session.hear(message(request, payload, files), engine.drive());
        assert!(heard.expect("a good message").is_none());
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(at)).expect("memory");
    }

    fn get<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.memory.read_slice(&mut bytes, GuestAddress(at)).expect("memory");
        bytes
    }

    fn ask(&mut self, ring: usize, kind: u32, sector: u64, bytes: u32) {
        self.ask_in(0, ring, kind, sector, bytes);
    }

    /// Offers a request at `place`, one of [`PLACES`].
    fn ask_in(&mut self, place: u16, ring: usize, kind: u32, sector: u64, bytes: u32) {
        assert!(place < PLACES);
        let at = u64::from(place);
        let (base, header) = (ring as u64 * RING_BYTES, HEADERS + 0x100 * at + 16 * ring as u64);
        let (status, buffer, first) = (STATUS + at, DATA + PLACE_BYTES * at, 3 * place);
        self.put(header, &[&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat());
        self.put(status, &[0xff]);
        let data = if kind == IN { WRITE } else { 0 };
        let parts =
            [(header, 16, NEXT, first + 1), (buffer, bytes, NEXT | data, first + 2), (status, 1, WRITE, 0)];
        for (at, (address, length, flags, next)) in (u64::from(first)..).zip(parts) {
            let descriptor =
                [&address.to_le_bytes()[..], &u32::to_le_bytes(length), &u16::to_le_bytes(flags)];
            self.put(base + 16 * at, &[&descriptor.concat()[..], &u16::to_le_bytes(next)].concat());
        }
        self.offer(ring, first);
    }

    fn offer(&mut self, ring: usize, head: u16) {
        let (base, entry) = (ring as u64 * RING_BYTES, self.entries[ring]);
        self.put(base + AVAILABLE + 4 + 2 * u64::from(entry % SIZE), &head.to_le_bytes());
        self.entries[ring] = entry.wrapping_add(1);
        self.put(base + AVAILABLE + 2, &self.entries[ring].to_le_bytes());
    }

    fn kick(&mut self, engine: &mut Engine, ring: usize) -> Result<usize, String> {
        {
            let kicks = self.session.kicks();
            let (_, kick) = kicks.iter().find(|(of, _)| *of == ring).expect("a kick");
            rustix::io::write(kick, &1_u64.to_ne_bytes()).expect("it takes a signal");
        }
        self.session.kicked(ring)?;
        self.work(engine)
    }

    fn work(&mut self, engine: &mut Engine) -> Result<usize, String> {
        let (mut count, mut answers) = (0, Vec::new());
        loop {
            let taken = self.session.take(7, engine)?;
            assert!(self.session.in_flight() <= IN_FLIGHT_MAX);
            engine.advance(&mut answers);
            for (tag, result) in answers.drain(..) {
                assert_eq!(tag >> 32, 7, "the connection's number");
                self.session.finish(tag as u32, result)?;
            }
            count += taken;
            if taken == 0 {
                self.session.tell()?;
                return Ok(count);
            }
        }
    }

    fn run(&mut self, engine: &mut Engine, ring: usize, kind: u32, sector: u64, bytes: u32) -> u8 {
        self.ask(ring, kind, sector, bytes);
        assert_eq!(self.kick(engine, ring), Ok(1));
        let mut told = [0; 8];
        self.calls[ring].read_exact(&mut told).expect("the guest is told");
        assert_eq!(u64::from_ne_bytes(told), 1, "once");
        let used = self.get::<2>(ring as u64 * RING_BYTES + USED + 2);
        assert_eq!(u16::from_le_bytes(used), self.entries[ring]);
        self.get::<1>(STATUS)[0]
    }
}

#[test]
fn requests_of_several_rings_reach_the_drive_and_a_guest_that_comes_back_finds_its_data() {
    let mut engine = engine();
    let mut guest = Guest::new(&engine, 2);
    guest.put(DATA, &[7; 8192]);
    assert_eq!(guest.run(&mut engine, 0, OUT, 8, 8192), 0);
    assert_eq!(guest.run(&mut engine, 1, FLUSH, 0, 0), 0);
    // A guest that vanishes does not stop its rings.
    let mut guest = Guest::new(&engine, 2);
    assert_eq!(guest.run(&mut engine, 1, IN, 8, 8192), 0);
    assert_eq!(guest.get::<8192>(DATA), [7; 8192]);
    let segment =
        |sector: u64, sectors: u32| [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &[0; 4]].concat();
    guest.put(DATA, &segment(8, 8));
    assert_eq!(guest.run(&mut engine, 0, DISCARD, 0, 16), 0);
    guest.put(DATA, &segment(17, 2));
    assert_eq!(guest.run(&mut engine, 0, WRITE_ZEROES, 0, 16), 0);
    assert_eq!(guest.run(&mut engine, 1, IN, 8, 8192), 0);
    let mut expected = [7; 8192];
    expected[..4096].fill(0);
    expected[4096 + 512..4096 + 1536].fill(0);
    assert_eq!(guest.get::<8192>(DATA), expected);
    assert_eq!(guest.run(&mut engine, 0, IN, 1 << 40, 512), 1, "beyond the end");
    assert_eq!(guest.run(&mut engine, 0, 99, 0, 512), 2, "unknown");
    let requests = engine.requests();
    assert_eq!((requests.write, requests.flush, requests.discard, requests.write_zeroes), (1, 1, 1, 1));
}

#[test]
fn a_read_only_device_fails_what_changes_data_with_an_error_of_io() {
    let mut engine = engine();
    let mut guest = Guest::boot(1);
    guest.connect_to(&engine, Session::new(true).expect("a session"));
    assert_eq!(guest.run(&mut engine, 0, OUT, 0, 4096), 1);
    // A read-only device offers neither discard nor write zeroes.
    let offered = |read_only| {
        let options = BlockOptions { read_only, ..BlockOptions::default() };
        Block::new(options).offered_features()
    };
    let (changes, only_read) = (1 << 13 | 1 << 14, 1 << 5);
    assert_eq!(offered(true) & (changes | only_read), only_read);
    assert_eq!(offered(false) & (changes | only_read), changes);
    assert_eq!(guest.run(&mut engine, 0, IN, 0, 4096), 0);
}

#[test]
fn messages_are_answered_as_the_protocol_says() {
    let engine = engine();
    let mut guest = Guest::new(&engine, 1);
    let mut answer = |request: u32, payload: &[u8]| {
        guest.say(&engine, request, payload, Vec::new());
        let output = &mut guest.session.buffers_mut().output;
        let mut slices = [std::io::IoSlice::new(&[])];
        let bytes = if output.slices(&mut slices) > 0 { slices[0].to_vec() } else { Vec::new() };
        output.consume(bytes.len());
        bytes
    };
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes[12..20].try_into().expect("eight bytes"));
    assert_eq!(word(&answer(1, &[])) & FEATURES, FEATURES);
    assert_eq!(word(&answer(15, &[])), 1 | 1 << 3 | 1 << 9 | 1 << 12);
    assert_eq!(word(&answer(17, &[])), u64::from(RINGS));
    let config = answer(24, &[&[0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0][..], &[0; 60]].concat());
    assert_eq!(config.len(), 12 + 12 + 60);
    assert_eq!(u64::from_le_bytes(config[24..32].try_into().expect("eight bytes")), engine.drive().sectors());
    assert_eq!(config[24 + 34..24 + 36], RINGS.to_le_bytes());
    assert_eq!(answer(11, &[0; 8])[12..20], [0; 8], "ring 0 goes on at its first entry");
    assert!(guest.session.kicks().is_empty(), "it is stopped");
}

#[test]
fn a_ring_is_stopped_when_its_requests_are_answered() {
    let mut engine = engine();
    let mut guest = Guest::new(&engine, 1);
    guest.ask(0, IN, 0, 512);
    let stop = || message(11, &[0; 8], Vec::new());
    guest.session.take(7, &mut engine).expect("a good request");
    let heard = guest.session.hear(stop(), engine.drive()).expect("a good message");
    assert_eq!(heard.expect("it waits").0, stop().0);
    guest.work(&mut engine).expect("the answer is written");
    guest.say(&engine, 11, &[0; 8], Vec::new());
    let mut slices = [std::io::IoSlice::new(&[])];
    guest.session.buffers().output.slices(&mut slices);
    assert_eq!(slices[0][12..20], [0, 0, 0, 0, 1, 0, 0, 0], "one entry is served");
    assert_eq!(guest.get::<1>(STATUS), [0]);
}

#[test]
fn broken_messages_and_rings_say_what_is_wrong() {
    let mut engine = engine();
    let refused = |engine: &Engine, request: u32, payload: &[u8], files: Vec<OwnedFd>, text: &str| {
        let mut guest = Guest::new(engine, 1);
        let error =
            guest.session.hear(message(request, payload, files), engine.drive()).expect_err("refused");
        assert!(error.contains(text), "{error}");
    };
    let small = tempfile::tempfile().expect("a file");
    refused(
        &engine,
        5,
        &words(&[1, 0, 4096, 0, 0]),
        vec![small.into()],
        "a region of 4096 bytes at offset 0 of a file of 0 bytes",
    );
    refused(&engine, 5, &words(&[1, 0, 4096, 0, 0]), Vec::new(), "1 regions of memory with 0 files");
    refused(
        &engine,
        8,
        &[[64, 0, 0, 0], [16, 0, 0, 0]].concat(),
        Vec::new(),
        "ring 64 of a device that has 64",
    );
    refused(&engine, 8, &[[0, 0, 0, 0], [3, 0, 0, 0]].concat(), Vec::new(), "a power of two");
    refused(&engine, 9, &words(&[0, 1 << 30, 0, 0, 0]), Vec::new(), "outside of the guest's memory");
    refused(&engine, 12, &words(&[0x100]), Vec::new(), "requires polling");
    refused(&engine, 12, &words(&[0]), Vec::new(), "the file for ring 0 is missing");
    refused(&engine, 16, &words(&[1 << 14]), Vec::new(), "offered");
    refused(&engine, 35, &words(&[0]), Vec::new(), "was not offered");
    let mut guest = Guest::new(&engine, 1);
    guest.put(AVAILABLE + 2, &1000_u16.to_le_bytes());
    assert!(guest.kick(&mut engine, 0).is_err(), "more entries than the ring has");
    let mut guest = Guest::new(&engine, 1);
    let (here, there) = std::io::pipe().expect("a pipe");
    drop(there);
    guest.say(&engine, 12, &words(&[0]), vec![here.into()]);
    assert!(guest.session.kicked(0).expect_err("closed").contains("not an event file descriptor"));
}

#[test]
fn memory_for_requests_is_bounded() {
    let mut engine = engine();
    let mut guest = Guest::new(&engine, 2);
    assert_eq!(guest.run(&mut engine, 0, IN, 0, 33 << 20), 1, "too large");
    assert_eq!(guest.run(&mut engine, 0, OUT, 0, 33 << 20), 1, "too large");
    // The guest offers the same request three times.
    guest.ask(1, IN, 0, 20 << 20);
    (0..3).for_each(|_| guest.offer(1, 0));
    let kick = guest.session.kicks()[1].1.try_clone_to_owned().expect("another of it");
    rustix::io::write(kick, &1_u64.to_ne_bytes()).expect("it takes a signal");
    guest.session.kicked(1).expect("a signal");
    assert_eq!(guest.session.take(7, &mut engine), Ok(2), "more than {OWED_BYTES_MAX} bytes are owed");
    assert!(!guest.session.has_pending(), "not before some are answered");
    assert_eq!(guest.work(&mut engine), Ok(0), "two are answered");
    assert_eq!(guest.work(&mut engine), Ok(2));
    // Many descriptors name the same buffer.
    let buffers = 14;
    let mut table = vec![(HEADERS, 16_u32, NEXT, 1_u16)];
    table.extend((0..buffers).map(|at| (0, MEMORY_BYTES as u32, NEXT | WRITE, at + 2)));
    table.push((STATUS, 1, WRITE, 0));
    for (at, (address, length, flags, next)) in (0..).zip(table) {
        let (address, length) = (u64::to_le_bytes(address), length.to_le_bytes());
        guest.put(16 * at, &[&address[..], &length, &flags.to_le_bytes(), &next.to_le_bytes()].concat());
    }
    guest.offer(0, 0);
    assert!(guest.kick(&mut engine, 0).expect_err("too large").contains("more data than its memory"));
    assert_eq!(guest.session.in_flight(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_guest_harms_the_device(
        noise in proptest::collection::vec((0..0x1_2000_u64, any::<[u8; 8]>()), 0..64),
        indices in proptest::collection::vec(0..40_u16, 2),
        messages in proptest::collection::vec((0..40_u32, proptest::collection::vec(any::<u8>(), 0..64), any::<bool>()), 0..8),
    ) {
        let mut engine = engine();
        let mut guest = Guest::new(&engine, 2);
        guest.ask(0, OUT, 0, 4096);
        guest.ask(1, IN, 0, 4096);
        for (at, bytes) in noise {
            guest.put(at, &bytes);
        }
        for (ring, index) in (0..).zip(indices) {
            guest.put(ring * RING_BYTES + AVAILABLE + 2, &index.to_le_bytes());
        }
        let mut messages = messages.into_iter();
        loop {
            let running = guest.session.kicks().len();
            for ring in 0..running.min(2) {
                let _ = guest.session.kicked(ring);
            }
            if guest.work(&mut engine).is_err() {
                break;
            }
            let Some((request, payload, has_file)) = messages.next() else { break };
            let files = if has_file { vec![clone(&guest.file)] } else { Vec::new() };
            if guest.session.hear(message(request, &payload, files), engine.drive()).is_err() {
                break;
            }
        }
    }
}
