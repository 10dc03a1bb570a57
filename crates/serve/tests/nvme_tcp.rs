//! NVMe over TCP as bytes: what a host sends, and what it must get, however the bytes come.

use std::io::IoSlice;
use std::time::Duration;

use proptest::prelude::*;
use strobe_serve::nvme_tcp::{DISCOVERY_NQN, NQN, Options, Session, Subsystem};
use strobe_serve::{Engine, Pace};
use strobe_ssd::DriveConfig;
use strobe_types::SimTime;

const SECTORS_OF_UNIT: u32 = 8;
const UNIT: usize = 4096;

fn drive() -> Engine {
    let config = serde_json::json!({
        "nand": {
            "channels": 1, "dies_per_channel": 1, "planes_per_die": 1, "blocks_per_plane": 64, "pages_per_block": 32,
            "page_bytes": 4096, "read_ns": 1000, "program_ns": 10_000, "erase_ns": 100_000, "channel_mb_s": 100,
            "endurance_pe": 1000, "data": "bytes",
        },
        "ftl": { "mapping": "page", "mapping_unit_bytes": 4096, "logical_pages": 1700, "copy_mode": "logical" },
        "controller": { "command_ns": 1000, "link_mb_s": 500, "write_buffer_bytes": 65_536 },
    });
    let config: DriveConfig = serde_json::from_value(config).expect("a configuration");
    Engine::new(strobe_ssd::build(&config, true, 1).expect("a drive"), SimTime::ZERO, Pace::None)
}

/// A target with its connections, by number.
struct Target {
    engine: Engine,
    subsystem: Subsystem,
    sessions: Vec<Session>,
    now: Duration,
}

/// What a target has sent: PDUs without their lengths: type, flags, header behind the common one, data.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pdu {
    kind: u8,
    flags: u8,
    header: Vec<u8>,
    data: Vec<u8>,
}

impl Pdu {
    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.header[at..at + 4].try_into().expect("four bytes"))
    }

    /// Status of a completion, and dword 0.
    fn status(&self) -> (u16, u32) {
        assert_eq!(self.kind, 5, "a completion: {self:?}");
        (
            self.word(12).to_le_bytes()[2..].iter().rev().fold(0, |all, &byte| all << 8 | u16::from(byte))
                >> 1,
            self.word(0),
        )
    }
}

/// A host's end of a connection.
#[derive(Clone, Copy, Default)]
struct Wire {
    session: usize,
    header_digest: bool,
    data_digest: bool,
    /// Bytes sent at a time; 0: all at once.
    piece: usize,
}

impl Target {
    fn new() -> Self {
        Self::with(Options::default())
    }

    fn with(options: Options) -> Self {
        let subsystem = Subsystem::new(NQN, options);
        Self { engine: drive(), subsystem, sessions: Vec::new(), now: Duration::ZERO }
    }

    /// Sends bytes as far as they are wanted; returns what comes back.
    fn say(&mut self, wire: Wire, mut bytes: &[u8]) -> Vec<u8> {
        let mut got = Vec::new();
        loop {
            self.turn(wire.session, &mut got);
            let session = &mut self.sessions[wire.session];
            if bytes.is_empty() || session.is_full() {
                return got;
            }
            let room = session.room();
            let most = if wire.piece == 0 { usize::MAX } else { wire.piece };
            let count = room.len().min(bytes.len()).min(most);
            room[..count].copy_from_slice(&bytes[..count]);
            session.received(count);
            bytes = &bytes[count..];
        }
    }

    fn turn(&mut self, at: usize, got: &mut Vec<u8>) {
        let Self { engine, subsystem, sessions, now } = self;
        sessions[at].submit(at as u32, subsystem, engine, *now);
        let mut answers = Vec::new();
        engine.advance(&mut answers);
        for (tag, result) in answers {
            sessions[(tag >> 32) as usize].answer(tag as u32, result, subsystem, engine);
        }
        while sessions[at].output_bytes() > 0 {
            let mut parts = [IoSlice::new(&[]); 8];
            let count = sessions[at].output(&mut parts);
            let sent: Vec<u8> = parts[..count].iter().flat_map(|part| part.to_vec()).collect();
            sessions[at].sent(sent.len());
            got.extend(sent);
        }
    }

    /// A connection that has agreed on the form of PDUs.
    fn open(&mut self, header_digest: bool, data_digest: bool, piece: usize) -> Wire {
        self.sessions.push(Session::new());
        let wire = Wire { session: self.sessions.len() - 1, header_digest, data_digest, piece };
        let mut hello = vec![0, 0, 128, 0, 128, 0, 0, 0];
        hello.resize(128, 0);
        hello[11] = u8::from(header_digest) | u8::from(data_digest) << 1;
        let got = self.say(wire, &hello);
        assert_eq!((got.len(), got[0], got[11]), (128, 1, hello[11]));
        wire
    }

    /// PDUs that answer `pdu`.
    fn ask(&mut self, wire: Wire, pdu: &[u8]) -> Vec<Pdu> {
        let got = self.say(wire, pdu);
        pdus(wire, &got)
    }

    /// Sends a command, with data in PDUs if it is asked for; returns its data and completion.
    fn command(&mut self, wire: Wire, entry: Entry, data: &[u8]) -> (Vec<u8>, (u16, u32)) {
        let mut answers = self.ask(wire, &capsule(wire, &entry, &[]));
        if let Some(Pdu { kind: 9, .. }) = answers.first() {
            let (tag, wanted) = (answers[0].word(0) >> 16, answers[0].word(8) as usize);
            assert_eq!((answers[0].word(4), wanted), (0, data.len()), "asked for all of it");
            answers.clear();
            for (at, part) in data.chunks(5000).enumerate() {
                let from = 5000 * at;
                let is_last = from + part.len() == data.len();
                let pdu = h2c(wire, entry.id(), tag as u16, from as u32, part, is_last);
                answers = self.ask(wire, &pdu);
            }
        }
        finished(answers)
    }

    /// An admin queue of a controller that is ready.
    fn admin(&mut self, digests: (bool, bool), piece: usize) -> (Wire, u16) {
        let wire = self.open(digests.0, digests.1, piece);
        let (data, (status, id)) = self.command(wire, connect(0, 31), &hello(NQN, 0xffff));
        assert_eq!((data.len(), status), (0, 0));
        let mut set = Entry::new(0x7f).word(10, 0).word(11, 0x14).word(12, 0x0046_0001);
        set.0[4] = 0;
        assert_eq!(self.command(wire, set, &[]).1, (0, 0));
        let mut get = Entry::new(0x7f).word(11, 0x1c);
        get.0[4] = 4;
        assert_eq!(self.command(wire, get, &[]).1, (0, 1), "ready");
        (wire, id as u16)
    }

    /// An admin and an I/O queue.
    fn queues(&mut self, digests: (bool, bool), piece: usize) -> (Wire, Wire) {
        let (admin, id) = self.admin(digests, piece);
        let io = self.open(digests.0, digests.1, piece);
        assert_eq!(self.command(io, connect(1, 127), &hello(NQN, id)).1, (0, id.into()));
        (admin, io)
    }
}

/// Data and completion of a command, also where the data says that it was a success.
fn finished(answers: Vec<Pdu>) -> (Vec<u8>, (u16, u32)) {
    match &answers[..] {
        [data, done] if data.kind == 7 => (data.data.clone(), done.status()),
        [data] if data.kind == 7 && data.flags & 8 != 0 => (data.data.clone(), (0, 0)),
        [done] => (Vec::new(), done.status()),
        other => panic!("data, then a completion: {other:?}"),
    }
}

fn pdus(wire: Wire, mut bytes: &[u8]) -> Vec<Pdu> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let length = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes")) as usize;
        let (pdu, rest) = bytes.split_at(length);
        bytes = rest;
        let (header, offset) = (usize::from(pdu[2]), usize::from(pdu[3]));
        let is_plain = pdu[0] == 3;
        let has_digest = wire.header_digest && !is_plain;
        assert_eq!(pdu[1] & 1 != 0, has_digest, "the flag of the header's digest");
        if has_digest {
            assert_eq!(pdu[header..header + 4], crc32c::crc32c(&pdu[..header]).to_le_bytes());
        }
        let mut data = if offset > 0 { &pdu[offset..] } else { &[] };
        if wire.data_digest && !data.is_empty() {
            let (own, digest) = data.split_at(data.len() - 4);
            assert_eq!(digest, crc32c::crc32c(own).to_le_bytes());
            data = own;
        }
        all.push(Pdu { kind: pdu[0], flags: pdu[1], header: pdu[8..header].to_vec(), data: data.to_vec() });
    }
    all
}

/// A PDU with `header` behind the common one.
fn pdu(wire: Wire, kind: u8, flags: u8, header: &[u8], data: &[u8]) -> Vec<u8> {
    let bytes = 8 + header.len();
    let digest = if wire.header_digest { 4 } else { 0 };
    let trailer = if wire.data_digest && !data.is_empty() { 4 } else { 0 };
    let flags = flags | u8::from(wire.header_digest) | u8::from(trailer > 0) << 1;
    let offset = if data.is_empty() { 0 } else { bytes + digest };
    let length = bytes + digest + data.len() + trailer;
    let mut out = vec![kind, flags, bytes as u8, offset as u8];
    out.extend((length as u32).to_le_bytes());
    out.extend(header);
    if digest > 0 {
        out.extend(crc32c::crc32c(&out).to_le_bytes());
    }
    out.extend(data);
    if trailer > 0 {
        out.extend(crc32c::crc32c(data).to_le_bytes());
    }
    out
}

fn capsule(wire: Wire, entry: &Entry, data: &[u8]) -> Vec<u8> {
    pdu(wire, 4, 0, &entry.0, data)
}

fn h2c(wire: Wire, id: u16, tag: u16, from: u32, data: &[u8], is_last: bool) -> Vec<u8> {
    let mut header = id.to_le_bytes().to_vec();
    header.extend(tag.to_le_bytes());
    header.extend(from.to_le_bytes());
    header.extend((data.len() as u32).to_le_bytes());
    header.extend([0; 4]);
    pdu(wire, 6, u8::from(is_last) << 2, &header, data)
}

/// A command with any number of bytes for data, by PDUs.
#[derive(Clone, Copy)]
struct Entry([u8; 64]);

impl Entry {
    fn new(opcode: u8) -> Self {
        let mut entry = [0; 64];
        (entry[0], entry[1], entry[2], entry[39]) = (opcode, 0x40, 7, 0x5a);
        entry[32..36].copy_from_slice(&(2_u32 << 20).to_le_bytes());
        Self(entry)
    }

    /// A command on namespace 1 and sectors.
    fn io(opcode: u8, lba: u32, sectors: u32) -> Self {
        Self::new(opcode).word(1, 1).word(10, lba).word(12, sectors - 1)
    }

    fn word(mut self, at: usize, word: u32) -> Self {
        self.0[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
        self
    }

    fn id(&self) -> u16 {
        u16::from_le_bytes([self.0[2], self.0[3]])
    }
}

fn connect(queue: u16, last_entry: u16) -> Entry {
    let mut entry = Entry::new(0x7f);
    entry.0[4] = 1;
    entry.0[42..44].copy_from_slice(&queue.to_le_bytes());
    entry.0[44..46].copy_from_slice(&last_entry.to_le_bytes());
    entry.0[46] = 4;
    entry
}

/// Data of Connect.
fn hello(subsystem: &str, controller: u16) -> Vec<u8> {
    let mut data = vec![0; 1024];
    data[16..18].copy_from_slice(&controller.to_le_bytes());
    data[256..256 + subsystem.len()].copy_from_slice(subsystem.as_bytes());
    data
}

fn text(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8 ^ seed).collect()
}

#[test]
fn a_host_connects_and_finds_the_drive() {
    let mut target = Target::new();
    let (admin, io) = target.queues((false, false), 0);
    let (page, done) = target.command(admin, Entry::new(6).word(10, 1), &[]);
    assert_eq!((page.len(), done), (4096, (0, 0)));
    assert_eq!((&page[4..10], page[111], page[78]), (&b"strobe"[..], 1, 1));
    assert_eq!(page[536] & 3, 1, "SGLs");
    assert_eq!(u32::from_le_bytes(page[1792..1796].try_into().expect("four")), (64 + 8192) / 16);
    assert_eq!(&page[768..768 + NQN.len()], NQN.as_bytes());
    let (page, _) = target.command(admin, Entry::new(6).word(1, 1), &[]);
    assert_eq!(page[..8], target.engine.drive().sectors().to_le_bytes());
    assert_eq!(target.command(admin, Entry::new(0x18), &[]).1, (0, 0), "keep alive");
    assert_eq!(target.command(admin, Entry::new(0x99), &[]).1.0, 0x001);
    assert_eq!(target.command(io, Entry::io(0x99, 0, 1), &[]).1.0, 0x001);
    assert_eq!(target.command(io, Entry::new(6).word(10, 1), &[]).1.0, 0x00b, "no command of this queue");
}

#[test]
fn data_goes_there_and_back_in_every_form() {
    for digests in [(false, false), (true, false), (false, true), (true, true)] {
        for piece in [0, 1, 1000] {
            let mut target = Target::new();
            let (_, io) = target.queues(digests, piece);
            let large = text(16 * UNIT, 3);
            assert_eq!(target.command(io, Entry::io(1, 8, 16 * SECTORS_OF_UNIT), &large).1, (0, 0));
            // Along with the command.
            let small = text(UNIT, 9);
            let mut entry = Entry::io(1, 16, SECTORS_OF_UNIT).word(8, UNIT as u32);
            entry.0[39] = 1;
            assert_eq!(finished(target.ask(io, &capsule(io, &entry, &small))).1, (0, 0));
            let (read, done) = target.command(io, Entry::io(2, 8, 16 * SECTORS_OF_UNIT), &[]);
            let mut expected = large.clone();
            expected[UNIT..2 * UNIT].copy_from_slice(&small);
            assert!(read == expected && done == (0, 0), "{digests:?} {piece}");
            assert_eq!(target.command(io, Entry::io(5, 16, SECTORS_OF_UNIT), &small).1, (0, 0), "equal");
            assert_eq!(target.command(io, Entry::io(5, 16, SECTORS_OF_UNIT), &large[..UNIT]).1.0, 0x285);
        }
    }
}

#[test]
fn a_copy_programs_nothing_and_trim_and_zeroes_clear() {
    let mut target = Target::new();
    let (_, io) = target.queues((false, false), 0);
    let data = text(4 * UNIT, 1);
    assert_eq!(target.command(io, Entry::io(1, 0, 32), &data).1, (0, 0));
    assert_eq!(target.command(io, Entry::new(0).word(1, 1), &[]).1, (0, 0), "flush");
    let programs = |target: &Target| target.engine.drive().stats().nand.total(strobe_nand::NandOp::Program);
    let before = programs(&target);
    let mut source = [0; 32];
    source[16] = 31;
    let copy = Entry::new(0x19).word(1, 1).word(10, 320).word(12, 0);
    assert_eq!(target.command(io, copy, &source).1, (0, 0));
    assert_eq!(programs(&target), before);
    assert_eq!(target.command(io, Entry::io(2, 320, 32), &[]).0, data);
    let mut range = [0; 16];
    (range[4], range[8]) = (8, 8);
    let trim = Entry::new(9).word(1, 1).word(10, 0).word(11, 4);
    assert_eq!(target.command(io, trim, &range).1, (0, 0));
    assert_eq!(target.command(io, Entry::io(8, 0, 8), &[]).1, (0, 0));
    let mut expected = data;
    expected[..2 * UNIT].fill(0);
    assert_eq!(target.command(io, Entry::io(2, 0, 32), &[]).0, expected);
}

#[test]
fn discovery_names_the_subsystem() {
    let mut target = Target::new();
    target.subsystem.set_address("127.0.0.1:4420".parse().expect("an address"));
    let wire = target.open(false, false, 0);
    assert_eq!(target.command(wire, connect(0, 31), &hello(DISCOVERY_NQN, 0xffff)).1, (0, 1));
    let mut set = Entry::new(0x7f).word(11, 0x14).word(12, 1);
    set.0[4] = 0;
    target.command(wire, set, &[]);
    let (page, _) = target.command(wire, Entry::new(6).word(10, 1), &[]);
    assert_eq!(page[111], 2, "a discovery controller");
    let (log, done) = target.command(wire, Entry::new(2).word(10, 511 << 16 | 0x70), &[]);
    assert_eq!((log.len(), done, log[8]), (2048, (0, 0), 1));
    let entry = &log[1024..];
    assert_eq!(
        (entry[0], entry[1], entry[2], &entry[32..37], &entry[512..522]),
        (3, 1, 2, &b"4420 "[..], &b"127.0.0.1 "[..])
    );
    assert_eq!(&entry[256..256 + NQN.len()], NQN.as_bytes());
    let (part, _) = target.command(wire, Entry::new(2).word(10, 255 << 16 | 0x70).word(12, 1024), &[]);
    assert_eq!(part, entry);
    let io = target.open(false, false, 0);
    assert_eq!(target.command(io, connect(1, 31), &hello(DISCOVERY_NQN, 1)).1.0, 0x182);
}

#[test]
fn wrong_connects_name_the_parameter() {
    let mut target = Target::new();
    let (_, id) = target.admin((false, false), 0);
    for (entry, data, place) in [
        (connect(0, 31), hello("nqn.other", 0xffff), 1 << 16 | 256),
        (connect(0, 31), hello(NQN, 5), 1 << 16 | 16),
        (connect(1, 31), hello(NQN, 99), 1 << 16 | 16),
        (connect(0, 0), hello(NQN, 0xffff), 44),
        (connect(0, 128), hello(NQN, 0xffff), 44),
        (connect(65, 31), hello(NQN, id), 42),
    ] {
        let wire = target.open(false, false, 0);
        assert_eq!(target.command(wire, entry, &data).1, (0x182, place));
        let early = target.command(wire, Entry::io(2, 0, 1), &[]);
        assert_eq!(early.1.0, 0x00c, "nothing goes before Connect");
    }
}

#[test]
fn a_read_only_drive_refuses_changes() {
    let mut target = Target::with(Options { read_only: true, ..Options::default() });
    let (admin, io) = target.queues((false, false), 0);
    assert_eq!(target.command(io, Entry::io(1, 0, 8), &text(UNIT, 0)).1.0, 0x020);
    assert_eq!(target.command(io, Entry::io(8, 0, 8), &[]).1.0, 0x020);
    assert_eq!(target.command(io, Entry::io(2, 0, 8), &[]).1, (0, 0));
    assert_eq!(target.command(admin, Entry::new(6).word(1, 1), &[]).0[99], 1, "the namespace says so");
}

#[test]
fn a_host_that_is_silent_or_gone_loses_its_controller() {
    let mut target = Target::new();
    let wire = target.open(false, false, 0);
    let id = target.command(wire, connect(0, 31).word(12, 10_000), &hello(NQN, 0xffff)).1.1 as u16;
    let mut set = Entry::new(0x7f).word(11, 0x14).word(12, 1);
    set.0[4] = 0;
    target.command(wire, set, &[]);
    let io = target.open(false, false, 0);
    target.command(io, connect(1, 31), &hello(NQN, id));
    let is_deserted = |target: &mut Target, wire: Wire, seconds| {
        target.sessions[wire.session].is_deserted(&mut target.subsystem, Duration::from_secs(seconds))
    };
    assert!(!is_deserted(&mut target, wire, 10));
    assert!(is_deserted(&mut target, wire, 12));
    target.now = Duration::from_secs(9);
    target.command(wire, Entry::new(0x18), &[]);
    assert!(!is_deserted(&mut target, wire, 12));
    assert!(!is_deserted(&mut target, io, 12));
    target.sessions[wire.session].leave(&mut target.subsystem);
    assert_eq!(target.subsystem.controllers(), 0);
    assert!(is_deserted(&mut target, io, 12), "its queues go with it");
}

#[test]
fn a_shutdown_makes_data_durable_first() {
    let mut target = Target::new();
    let (admin, io) = target.queues((false, false), 0);
    target.command(io, Entry::io(1, 0, 8), &text(UNIT, 0));
    let mut set = Entry::new(0x7f).word(11, 0x14).word(12, 0x0046_4001);
    set.0[4] = 0;
    assert_eq!(target.command(admin, set, &[]).1, (0, 0));
    assert_eq!(target.engine.requests().flush, 1);
    let mut get = Entry::new(0x7f).word(11, 0x1c);
    get.0[4] = 4;
    assert_eq!(target.command(admin, get, &[]).1, (0, 0b1001), "shut down");
}

/// The reason of a termination request.
fn reason(answers: &[Pdu]) -> (u16, u32) {
    let last = answers.last().expect("a reason");
    assert_eq!(last.kind, 3, "{answers:?}");
    let info = [last.header[2], last.header[3], last.header[4], last.header[5]];
    (u16::from_le_bytes([last.header[0], last.header[1]]), u32::from_le_bytes(info))
}

#[test]
fn malformed_pdus_end_the_connection_with_a_reason() {
    let read = Entry::io(2, 0, 8);
    type Change = fn(&mut Vec<u8>);
    let cases: [(Change, (u16, u32)); 6] = [
        (|pdu| pdu[0] = 9, (1, 0)),
        (|pdu| pdu[2] = 71, (1, 2)),
        (|pdu| pdu[4..8].copy_from_slice(&u32::MAX.to_le_bytes()), (1, 4)),
        (|pdu| pdu[4..8].copy_from_slice(&71_u32.to_le_bytes()), (1, 4)),
        (|pdu| pdu[1] |= 1, (1, 1)),
        (|pdu| pdu[0..8].copy_from_slice(&[0, 0, 128, 0, 128, 0, 0, 0]), (2, 0)),
    ];
    for (change, expected) in cases {
        let mut target = Target::new();
        let (_, io) = target.queues((false, false), 0);
        let mut pdu = capsule(io, &read, &[]);
        change(&mut pdu);
        pdu.resize(200, 0);
        assert_eq!(reason(&target.ask(io, &pdu)), expected);
        assert!(target.sessions[io.session].is_over());
    }
    // A wrong digest of a header; of data, which the command survives as a failed one.
    let mut target = Target::new();
    let (_, io) = target.queues((true, true), 0);
    let mut entry = Entry::io(1, 0, 8).word(8, UNIT as u32);
    entry.0[39] = 1;
    let mut wrong = capsule(io, &entry, &text(UNIT, 0));
    *wrong.last_mut().expect("a digest") ^= 1;
    assert_eq!(finished(target.ask(io, &wrong)).1.0, 0x022, "transient transport error");
    let mut wrong = capsule(io, &read, &[]);
    wrong[20] ^= 1;
    assert_eq!(reason(&target.ask(io, &wrong)).0, 3);
}

#[test]
fn data_that_nobody_asked_for_ends_the_connection() {
    type Data = fn(Wire, u16) -> Vec<u8>;
    let cases: [(Data, u16); 5] = [
        (|wire, tag| h2c(wire, 7, tag + 1, 0, &[0; 512], false), 1),
        (|wire, tag| h2c(wire, 8, tag, 0, &[0; 512], false), 1),
        (|wire, tag| h2c(wire, 7, tag, 512, &[0; 512], false), 4),
        (|wire, tag| h2c(wire, 7, tag, 0, &[0; UNIT + 512], true), 4),
        (|wire, tag| h2c(wire, 7, tag, 0, &[0; 512], true), 2),
    ];
    for (data, status) in cases {
        let mut target = Target::new();
        let (_, io) = target.queues((false, false), 0);
        let asked = target.ask(io, &capsule(io, &Entry::io(1, 0, 8), &[]));
        assert_eq!(asked[0].kind, 9);
        let tag = (asked[0].word(0) >> 16) as u16;
        assert_eq!(reason(&target.ask(io, &data(io, tag))).0, status);
    }
}

#[test]
fn much_data_is_asked_for_bit_by_bit() {
    let mut target = Target::new();
    let (_, io) = target.queues((false, false), 0);
    let mut asked = 0;
    for at in 0..100_u16 {
        let mut entry = Entry::io(1, 0, 4096);
        entry.0[2..4].copy_from_slice(&at.to_le_bytes());
        asked += target.ask(io, &capsule(io, &entry, &[])).len();
    }
    assert_eq!(asked, 4, "of 2 MiB each");
    // A queue has no more entries.
    let mut last = Vec::new();
    for at in 100..200_u16 {
        let mut entry = Entry::io(1, 0, 4096);
        entry.0[2..4].copy_from_slice(&at.to_le_bytes());
        last.extend(target.ask(io, &capsule(io, &entry, &[])));
    }
    assert_eq!(reason(&last).0, 2);
}

proptest! {
    /// Nothing that a host sends is more than an error, and another host is served as before.
    #[test]
    fn bytes_of_any_kind_harm_nobody_else(
        bytes in proptest::collection::vec(any::<u8>(), 0..600), is_open in any::<bool>(), is_connected in any::<bool>(),
        cut in 0_usize..600,
    ) {
        let mut target = Target::new();
        let wire = match (is_open, is_connected) {
            (false, _) => {
                target.sessions.push(Session::new());
                Wire::default()
            }
            (true, false) => target.open(false, false, 0),
            (true, true) => target.queues((false, false), 0).1,
        };
        // Well formed commands with any content come first, then anything.
        let mut sent = Vec::new();
        for content in bytes.chunks_exact(64) {
            let mut entry = [0; 64];
            entry.copy_from_slice(content);
            if content[9] % 2 == 0 {
                (entry[1], entry[39]) = (0x40, 0x5a);
                entry[0] %= 0x20;
            }
            sent.extend(capsule(wire, &Entry(entry), &[]));
        }
        sent.truncate(sent.len().saturating_sub(cut));
        sent.extend(&bytes);
        target.say(wire, &sent);
        let (_, io) = target.queues((false, false), 0);
        let data = text(UNIT, 5);
        prop_assert_eq!(target.command(io, Entry::io(1, 80, 8), &data).1, (0, 0));
        prop_assert_eq!(target.command(io, Entry::io(2, 80, 8), &[]).0, data);
    }
}
