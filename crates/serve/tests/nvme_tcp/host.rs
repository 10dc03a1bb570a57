//! A minimal NVMe over TCP host, and its target.

use std::io::IoSlice;
use std::time::Duration;

use strobe_serve::nvme_tcp::{NQN, Options, Session, Subsystem};
use strobe_serve::{Engine, Pace, Session as _};
use strobe_ssd::DriveConfig;
use strobe_types::{Lba, SimTime};

pub(crate) const SECTORS_OF_UNIT: u32 = 8;
pub(crate) const UNIT: usize = 4096;

pub(crate) fn config() -> DriveConfig {
    let config = serde_json::json!({
        "nand": {
            "channels": 1, "dies_per_channel": 1, "planes_per_die": 1, "blocks_per_plane": 160, "pages_per_block": 32,
            "page_bytes": 4096, "read_ns": 1000, "program_ns": 10_000, "erase_ns": 100_000, "channel_mb_s": 100,
            "endurance_pe": 1000, "data": "bytes",
        },
        "ftl": { "mapping": "page", "mapping_unit_bytes": 4096, "logical_pages": 1700, "copy_mode": "logical", "durable_map": true },
        "controller": { "command_ns": 1000, "link_mb_s": 500, "write_buffer_bytes": 65_536 },
    });
    serde_json::from_value(config).expect("a configuration")
}

pub(crate) fn drive() -> Engine {
    Engine::new(strobe_ssd::build(&config(), true, 1).expect("a drive"), SimTime::ZERO, Pace::None)
}

pub(crate) struct Target {
    pub(crate) engine: Engine,
    pub(crate) subsystem: Subsystem,
    pub(crate) sessions: Vec<Session>,
    /// True if the drive completes nothing.
    pub(crate) is_paused: bool,
    pub(crate) now: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pdu {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) header: Vec<u8>,
    pub(crate) data: Vec<u8>,
}

impl Pdu {
    pub(crate) fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.header[at..at + 4].try_into().expect("four bytes"))
    }

    pub(crate) fn status(&self) -> (u16, u32) {
        assert_eq!(self.kind, 5, "a completion: {self:?}");
        (
            self.word(12).to_le_bytes()[2..].iter().rev().fold(0, |all, &byte| all << 8 | u16::from(byte))
                >> 1,
            self.word(0),
        )
    }
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Wire {
    pub(crate) session: usize,
    pub(crate) header_digest: bool,
    pub(crate) data_digest: bool,
    /// 0 sends everything at once.
    pub(crate) piece: usize,
}

impl Target {
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        let subsystem = Subsystem::new(NQN, options);
        Self { engine: drive(), subsystem, sessions: Vec::new(), is_paused: false, now: Duration::ZERO }
    }

    pub(crate) fn after_cut(&self, lba: u64, bytes: usize) -> Vec<u8> {
        let cut = self.engine.drive().freeze().cut_now();
        let (mut drive, found) = cut.drive.restart(self.engine.now()).expect("it recovers");
        let mut data = vec![0; bytes];
        drive.read_bytes(found.finished, Lba::new(lba), &mut data).expect("a read");
        data
    }

    pub(crate) fn say(&mut self, wire: Wire, mut bytes: &[u8]) -> Vec<u8> {
        let mut got = Vec::new();
        loop {
            self.turn(wire.session, &mut got);
            let session = &mut self.sessions[wire.session];
            if bytes.is_empty() || session.is_full() {
                return got;
            }
            let free_space = session.free_space();
            let most = if wire.piece == 0 { usize::MAX } else { wire.piece };
            let count = free_space.len().min(bytes.len()).min(most);
            free_space[..count].copy_from_slice(&bytes[..count]);
            session.received(count);
            bytes = &bytes[count..];
        }
    }

    pub(crate) fn turn(&mut self, at: usize, got: &mut Vec<u8>) {
        let Self { engine, subsystem, sessions, is_paused, now } = self;
        sessions[at].submit(at as u32, subsystem, engine, *now);
        let mut answers = Vec::new();
        if !*is_paused {
            engine.advance(&mut answers);
        }
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

    pub(crate) fn open(&mut self, header_digest: bool, data_digest: bool, piece: usize) -> Wire {
        self.sessions.push(Session::new());
        let wire = Wire { session: self.sessions.len() - 1, header_digest, data_digest, piece };
        let mut hello = vec![0, 0, 128, 0, 128, 0, 0, 0];
        hello.resize(128, 0);
        hello[11] = u8::from(header_digest) | u8::from(data_digest) << 1;
        let got = self.say(wire, &hello);
        assert_eq!((got.len(), got[0], got[11]), (128, 1, hello[11]));
        wire
    }

    pub(crate) fn ask(&mut self, wire: Wire, pdu: &[u8]) -> Vec<Pdu> {
        let got = self.say(wire, pdu);
        pdus(wire, &got)
    }

    pub(crate) fn command(&mut self, wire: Wire, entry: Entry, data: &[u8]) -> (Vec<u8>, (u16, u32)) {
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

    pub(crate) fn admin(&mut self, digests: (bool, bool), piece: usize) -> (Wire, u16) {
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

    pub(crate) fn queues(&mut self, digests: (bool, bool), piece: usize) -> (Wire, Wire) {
        let (admin, id) = self.admin(digests, piece);
        let io = self.open(digests.0, digests.1, piece);
        assert_eq!(self.command(io, connect(1, 127), &hello(NQN, id)).1, (0, id.into()));
        (admin, io)
    }
}

/// A data PDU may signal success itself.
pub(crate) fn finished(answers: Vec<Pdu>) -> (Vec<u8>, (u16, u32)) {
    match &answers[..] {
        [data, done] if data.kind == 7 => (data.data.clone(), done.status()),
        [data] if data.kind == 7 && data.flags & 8 != 0 => (data.data.clone(), (0, 0)),
        [done] => (Vec::new(), done.status()),
        other => panic!("data, then a completion: {other:?}"),
    }
}

pub(crate) fn pdus(wire: Wire, mut bytes: &[u8]) -> Vec<Pdu> {
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

/// `header` follows the common header.
pub(crate) fn pdu(wire: Wire, kind: u8, flags: u8, header: &[u8], data: &[u8]) -> Vec<u8> {
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

pub(crate) fn capsule(wire: Wire, entry: &Entry, data: &[u8]) -> Vec<u8> {
    pdu(wire, 4, 0, &entry.0, data)
}

pub(crate) fn h2c(wire: Wire, id: u16, tag: u16, from: u32, data: &[u8], is_last: bool) -> Vec<u8> {
    let mut header = id.to_le_bytes().to_vec();
    header.extend(tag.to_le_bytes());
    header.extend(from.to_le_bytes());
    header.extend((data.len() as u32).to_le_bytes());
    header.extend([0; 4]);
    pdu(wire, 6, u8::from(is_last) << 2, &header, data)
}

#[derive(Clone, Copy)]
pub(crate) struct Entry(pub(crate) [u8; 64]);

impl Entry {
    pub(crate) fn new(opcode: u8) -> Self {
        let mut entry = [0; 64];
        (entry[0], entry[1], entry[2], entry[39]) = (opcode, 0x40, 7, 0x5a);
        entry[32..36].copy_from_slice(&(2_u32 << 20).to_le_bytes());
        Self(entry)
    }

    /// Command on sectors of namespace 1.
    pub(crate) fn io(opcode: u8, lba: u32, sectors: u32) -> Self {
        Self::new(opcode).word(1, 1).word(10, lba).word(12, sectors - 1)
    }

    pub(crate) fn word(mut self, at: usize, word: u32) -> Self {
        self.0[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
        self
    }

    pub(crate) fn id(&self) -> u16 {
        u16::from_le_bytes([self.0[2], self.0[3]])
    }
}

pub(crate) fn connect(queue: u16, last_entry: u16) -> Entry {
    let mut entry = Entry::new(0x7f);
    entry.0[4] = 1;
    entry.0[42..44].copy_from_slice(&queue.to_le_bytes());
    entry.0[44..46].copy_from_slice(&last_entry.to_le_bytes());
    entry.0[46] = 4;
    entry
}

pub(crate) fn hello(subsystem: &str, controller: u16) -> Vec<u8> {
    let mut data = vec![0; 1024];
    data[16..18].copy_from_slice(&controller.to_le_bytes());
    data[256..256 + subsystem.len()].copy_from_slice(subsystem.as_bytes());
    data
}

/// Connect data of another host.
pub(crate) fn hello_of(host: &str, subsystem: &str, controller: u16) -> Vec<u8> {
    let mut data = hello(subsystem, controller);
    data[512..512 + host.len()].copy_from_slice(host.as_bytes());
    data
}

pub(crate) fn text(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8 ^ seed).collect()
}
