mod placement;

use proptest::prelude::*;
use strobe_ssd::{DriveConfig, DurableMap};
use strobe_types::{Lba, SimTime};
use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};

use super::controller::Controller;
use super::pci::Message;
use super::prp::Pieces;
use super::{BYTES_MAX, Nvme};
use crate::attached::{Attached, DiskOptions};
use strobe_nvme::{DATA_BYTES_MAX, PAGE_BYTES, Status};

const MEMORY_BYTES: usize = 1 << 20;
const QUEUES: [[u64; 2]; 2] = [[0x1000, 0x2000], [0x3000, 0x5000]];
const DATA: u64 = 0x8000;
const ENTRIES: u32 = 16;

fn config() -> DriveConfig {
    let config = serde_json::json!({
        "nand": {
            "channels": 1, "dies_per_channel": 1, "planes_per_die": 1, "blocks_per_plane": 64, "pages_per_block": 32,
            "page_bytes": 4096, "read_ns": 1000, "program_ns": 10_000, "erase_ns": 100_000, "channel_mb_s": 100,
            "endurance_pe": 1000, "data": "bytes",
        },
        "ftl": { "mapping": "page", "mapping_unit_bytes": 4096, "logical_pages": 1700, "copy_mode": "logical" },
        "controller": { "command_ns": 1000, "link_mb_s": 500, "write_buffer_bytes": 65_536 },
    });
    serde_json::from_value(config).expect("a configuration")
}

fn drive() -> Attached {
    let drive = strobe_ssd::build(&config(), true, 1).expect("a drive");
    Attached::new(drive, SimTime::ZERO)
}

fn memory() -> GuestMemoryMmap {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)]).expect("memory")
}

struct Host {
    memory: GuestMemoryMmap,
    controller: Controller,
    drive: Attached,
    now: u64,
    tails: [u32; 2],
    heads: [u32; 2],
}

impl Host {
    fn new() -> Self {
        Self::of(drive())
    }

    fn of(drive: Attached) -> Self {
        let mut host = Self {
            memory: memory(),
            controller: Controller::new(DiskOptions::default()),
            drive,
            now: 0,
            tails: [0; 2],
            heads: [0; 2],
        };
        host.start();
        host
    }

    fn start(&mut self) {
        (self.tails, self.heads) = ([0; 2], [0; 2]);
        let host = self;
        host.register(0x24, (ENTRIES - 1) << 16 | (ENTRIES - 1));
        for (at, base) in [(0x28, QUEUES[0][0]), (0x30, QUEUES[0][1])] {
            host.register(at, base as u32);
            host.register(at + 4, (base >> 32) as u32);
        }
        host.register(0x14, 0x0046_0001);
        assert_eq!(host.controller.read(0x1c, 1), [1], "ready");
        let size = (ENTRIES - 1) << 16 | 1;
        assert_eq!(host.ask(0, 0x05, 0, QUEUES[1][1], [size, 3, 0]), (0, 0));
        assert_eq!(host.ask(0, 0x01, 0, QUEUES[1][0], [size, 1 << 16 | 1, 0]), (0, 0));
    }

    fn register(&mut self, at: u64, word: u32) {
        self.controller.write(at, &word.to_le_bytes(), self.now, &self.memory, &mut self.drive);
    }

    fn ask<const N: usize>(
        &mut self,
        queue: usize,
        opcode: u8,
        namespace: u32,
        data: u64,
        words: [u32; N],
    ) -> (u32, u16) {
        let mut entry = [0; 64];
        entry[0] = opcode;
        entry[2] = 7;
        entry[4..8].copy_from_slice(&namespace.to_le_bytes());
        entry[24..32].copy_from_slice(&data.to_le_bytes());
        entry[32..40].copy_from_slice(&(data + PAGE_BYTES as u64).to_le_bytes());
        for (at, word) in words.iter().enumerate() {
            entry[40 + 4 * at..44 + 4 * at].copy_from_slice(&word.to_le_bytes());
        }
        let at = QUEUES[queue][0] + 64 * u64::from(self.tails[queue]);
        self.memory.write_slice(&entry, GuestAddress(at)).expect("in memory");
        self.tails[queue] = (self.tails[queue] + 1) % ENTRIES;
        self.register(0x1000 + 8 * queue as u64, self.tails[queue]);
        let mut interrupts = false;
        while !interrupts && let Some(next) = self.drive.next_event() {
            self.now = next;
            interrupts = self.controller.advance(next, Some(&self.memory), &mut self.drive);
        }
        assert!(interrupts, "there is an answer");
        let at = QUEUES[queue][1] + 16 * u64::from(self.heads[queue]);
        let done: [u8; 16] = self.memory.read_obj(GuestAddress(at)).expect("in memory");
        self.heads[queue] = (self.heads[queue] + 1) % ENTRIES;
        self.register(0x1004 + 8 * queue as u64, self.heads[queue]);
        assert_eq!(done[12], 7, "its name");
        let word = |at: usize| u32::from_le_bytes([done[at], done[at + 1], done[at + 2], done[at + 3]]);
        (word(0), (word(12) >> 17) as u16)
    }

    fn data(&self, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; bytes];
        self.memory.read_slice(&mut data, GuestAddress(DATA)).expect("in memory");
        data
    }

    fn put(&self, data: &[u8]) {
        self.memory.write_slice(data, GuestAddress(DATA)).expect("in memory");
    }
}

#[test]
fn a_driver_finds_the_drive_and_its_limits() {
    let mut host = Host::new();
    assert_eq!(host.ask(0, 0x06, 0, DATA, [1, 0, 0]), (0, 0));
    let page = host.data(PAGE_BYTES);
    assert_eq!((&page[4..10], page[512], page[513]), (&b"strobe"[..], 0x66, 0x44));
    assert_eq!(host.ask(0, 0x06, 1, DATA, [0, 0, 0]), (0, 0));
    let page = host.data(PAGE_BYTES);
    let sectors = host.drive.target.drive().sectors();
    assert_eq!((&page[..8], page[130], page[80]), (&sectors.to_le_bytes()[..], 9, 255));
    host.ask(0, 0x06, 0, DATA, [2, 0, 0]);
    assert_eq!(host.data(8), [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(host.ask(0, 0x06, 2, DATA, [0, 0, 0]).1, Status::INVALID_NAMESPACE.0);
    assert_eq!(host.ask(0, 0x06, 0, DATA, [0x99, 0, 0]).1, Status::INVALID_FIELD.0);
    assert_eq!(host.ask(0, 0x09, 0, 0, [7, 0, 0]), (63 << 16 | 63, 0), "queues");
    assert_eq!(host.ask(0, 0x99, 0, 0, [0; 3]).1, Status::INVALID_OPCODE.0);
}

#[test]
fn writes_that_come_often_are_hot() {
    let mut host = Host::new();
    host.drive = {
        let mut config = config();
        let nvram = serde_json::json!({ "bytes": 65_536, "policy": "hint", "read_ns": 100, "write_ns": 100 });
        config.controller.nvram = serde_json::from_value(nvram).expect("a cache");
        Attached::new(strobe_ssd::build(&config, true, 1).expect("a drive"), SimTime::ZERO)
    };
    host.put(&[1; PAGE_BYTES]);
    let mut taken = Vec::new();
    for frequency in 0..16 {
        assert_eq!(host.ask(1, 0x01, 1, DATA, [8 * frequency, 0, 7, 0xf0 | frequency]), (0, 0));
        let stats = host.drive.target.drive().stats();
        taken.push(stats.nvram.as_ref().expect("a cache").write_units);
    }
    // Frequent writes with few reads, with many reads, and imminent overwrites.
    assert_eq!(taken, [0, 0, 0, 0, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3]);
}

#[test]
fn data_is_written_read_copied_zeroed_and_unmapped() {
    let mut host = Host::new();
    let text: Vec<u8> = (0..2 * PAGE_BYTES).map(|at| (at % 251) as u8).collect();
    host.put(&text);
    assert_eq!(host.ask(1, 0x01, 1, DATA, [8, 0, 15]), (0, 0));
    assert!(host.now > 0, "it takes time");
    let mut source = [0; 32];
    source[8] = 8;
    source[16] = 15;
    host.put(&source);
    assert_eq!(host.ask(1, 0x19, 1, DATA, [80, 0, 0]), (0, 0));
    let mut range = [0; 16];
    (range[4], range[8]) = (8, 8);
    host.put(&range);
    assert_eq!(host.ask(1, 0x09, 1, DATA, [0, 4, 0]), (0, 0));
    assert_eq!(host.ask(1, 0x08, 1, 0, [16, 0, 7]), (0, 0));
    assert_eq!(host.ask(1, 0x00, 1, 0, [0; 3]), (0, 0));
    assert_eq!(host.ask(1, 0x02, 1, DATA, [8, 0, 15]), (0, 0));
    assert_eq!(host.data(2 * PAGE_BYTES), vec![0; 2 * PAGE_BYTES]);
    assert_eq!(host.ask(1, 0x02, 1, DATA, [80, 0, 15]), (0, 0));
    assert_eq!(host.data(2 * PAGE_BYTES), text);
    assert_eq!(host.ask(0, 0x02, 0, DATA, [127 << 16 | 2, 0, 0]), (0, 0));
    let health = host.data(512);
    assert_eq!((health[64], health[80]), (2, 3), "two reads; a write, zeros and a copy");
    assert_eq!(host.ask(1, 0x02, 1, DATA, [u32::MAX, u32::MAX, 0]).1, 0x80, "outside of the drive");
    assert_eq!(host.ask(1, 0x02, 1, DATA, [0, 0, 0xffff]).1, Status::INVALID_FIELD.0, "too much");
}

#[test]
fn forced_commands_are_durable_when_they_complete() {
    const FUA: u32 = 1 << 30;
    let mut config = config();
    (config.ftl.durable_map, config.nand.blocks_per_plane) = (DurableMap::Journal, 160);
    let after_cut = |host: &Host| {
        let cut = host.drive.target.drive().freeze().cut_now();
        let (mut drive, found) = cut.drive.restart(host.drive.time(host.now)).expect("it recovers");
        let mut data = vec![0; 4096];
        drive.read_bytes(found.finished, Lba::new(0), &mut data).expect("a read");
        data
    };
    for (opcode, expected) in [(2, 7), (5, 7), (8, 0)] {
        let drive = strobe_ssd::build(&config, true, 1).expect("a drive");
        let mut host = Host::of(Attached::new(drive, SimTime::ZERO));
        host.put(&[7; 4096]);
        assert_eq!(host.ask(1, 1, 1, DATA, [0, 0, 7]), (0, 0));
        if opcode == 8 {
            assert_eq!(host.ask(1, 0, 1, DATA, [0, 0, 0]), (0, 0), "flush");
        }
        assert_ne!(after_cut(&host), [expected; 4096], "without the command");
        assert_eq!(host.ask(1, opcode, 1, DATA, [0, 0, 7 | FUA]), (0, 0), "command {opcode}");
        assert_eq!(host.data(4096), [7; 4096]);
        assert_eq!(after_cut(&host), [expected; 4096], "command {opcode}");
    }
}

#[test]
fn lists_of_pages_are_followed_and_wrong_ones_refused() {
    let host = Host::new();
    let list: Vec<u8> = [0x20_000_u64, 0x10_000].iter().flat_map(|page| page.to_le_bytes()).collect();
    host.put(&list);
    let bytes = 3 * PAGE_BYTES - 512;
    let place = Pieces::of(&host.memory, [0x30_200, DATA], bytes, PAGE_BYTES).expect("well formed");
    let data: Vec<u8> = (0..bytes).map(|at| (at / 512) as u8).collect();
    place.write(&host.memory, &data).expect("in memory");
    assert_eq!(place.read(&host.memory).expect("in memory"), data);
    let second: u8 = host.memory.read_obj(GuestAddress(0x20_000)).expect("in memory");
    assert_eq!(second, 7, "the first page had room for seven sectors");
    for pointers in [[1, DATA], [0, 4], [0, u64::MAX - 7], [u64::MAX - 3, u64::MAX]] {
        let place = Pieces::of(&host.memory, pointers, DATA_BYTES_MAX, PAGE_BYTES);
        assert!(place.and_then(|place| place.read(&host.memory)).is_err(), "{pointers:?}");
    }
}

#[derive(Clone, Debug)]
enum Act {
    Memory { at: u64, bytes: Vec<u8> },
    Command { queue: usize, opcode: u8, namespace: u32, pointers: [u64; 2], words: [u32; 6] },
    Register { at: u64, bytes: Vec<u8> },
    Read { at: u64, bytes: usize },
    Wait { ns: u64 },
}

fn any_word() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0_u32..20, 1 => (0_u32..20, 0_u32..20).prop_map(|(high, low)| high << 16 | low), 1 => any::<u32>()]
}

fn any_pointer() -> impl Strategy<Value = u64> {
    let page = (0..MEMORY_BYTES as u64 / PAGE_BYTES as u64 + 2).prop_map(|page| page * PAGE_BYTES as u64);
    prop_oneof![4 => page.clone(), 1 => (page, 0_u64..4096).prop_map(|(page, at)| page + at), 1 => any::<u64>()]
}

fn any_act() -> impl Strategy<Value = Act> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..24);
    let opcodes = vec![0x00, 0x01, 0x02, 0x04, 0x05, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x12, 0x19, 0x1a, 0x1d];
    let opcode = prop_oneof![6 => prop::sample::select(opcodes), 1 => any::<u8>()];
    let namespace = prop_oneof![4 => 0_u32..3, 1 => any::<u32>()];
    let words = proptest::array::uniform6(any_word());
    let pointers = [any_pointer(), any_pointer()];
    let register = prop_oneof![
        4 => prop::sample::select(vec![0x14_u64, 0x24, 0x28, 0x2c, 0x30, 0x34, 0x1000, 0x1004, 0x1008, 0x100c, 0x1010, 0x1014]),
        1 => 0_u64..0x4000, 1 => any::<u64>(),
    ];
    let value = prop_oneof![
        3 => any_word().prop_map(|word| word.to_le_bytes().to_vec()),
        2 => prop::sample::select(vec![0x0046_0001_u32, 0x0046_0000, 0x0046_4001, 0x0046_0000])
            .prop_map(|word| word.to_le_bytes().to_vec()),
        1 => bytes(),
    ];
    prop_oneof![
        2 => (any_pointer(), bytes()).prop_map(|(at, bytes)| Act::Memory { at, bytes }),
        8 => (0_usize..2, opcode, namespace, pointers, words).prop_map(|(queue, opcode, namespace, pointers, words)| {
            Act::Command { queue, opcode, namespace, pointers, words }
        }),
        4 => (register.clone(), value).prop_map(|(at, bytes)| Act::Register { at, bytes }),
        1 => (register, 0_usize..4097).prop_map(|(at, bytes)| Act::Read { at, bytes }),
        2 => (0_u64..1_000_000).prop_map(|ns| Act::Wait { ns }),
    ]
}

impl Host {
    fn act(&mut self, act: &Act) {
        match act {
            Act::Memory { at, bytes } => {
                let _ = self.memory.write_slice(bytes, GuestAddress(*at));
            }
            Act::Command { queue, opcode, namespace, pointers, words } => {
                let mut entry = vec![*opcode, 0, 9, 0];
                entry.extend(namespace.to_le_bytes());
                entry.resize(24, 0);
                entry.extend(pointers.iter().flat_map(|pointer| pointer.to_le_bytes()));
                entry.extend(words.iter().flat_map(|word| word.to_le_bytes()));
                let at = QUEUES[*queue][0] + 64 * u64::from(self.tails[*queue]);
                self.memory.write_slice(&entry, GuestAddress(at)).expect("in memory");
                self.tails[*queue] = (self.tails[*queue] + 1) % ENTRIES;
                self.register(0x1000 + 8 * *queue as u64, self.tails[*queue]);
            }
            Act::Register { at, bytes } => {
                self.controller.write(*at, bytes, self.now, &self.memory, &mut self.drive);
            }
            Act::Read { at, bytes } => assert_eq!(self.controller.read(*at, *bytes).len(), *bytes),
            Act::Wait { ns } => {
                self.now += ns;
                self.controller.advance(self.now, Some(&self.memory), &mut self.drive);
            }
        }
    }
}

proptest! {
    #[test]
    fn a_message_of_any_bytes_has_as_many_as_it_asks_for(
        messages in proptest::collection::vec((
            any::<[u8; 16]>(), prop_oneof![0_u64..0x4100, Just(u64::MAX), any::<u64>()], 0_u32..5000,
            proptest::collection::vec(any::<u8>(), 0..40),
        ), 0..40),
    ) {
        let mut nvme = Nvme::new(drive(), DiskOptions::default());
        for (mut header, address, bytes, data) in messages {
            (header[0], header[1]) = (header[0] % 8, header[1] % 3);
            header[4..8].copy_from_slice(&bytes.to_le_bytes());
            header[8..].copy_from_slice(&address.to_le_bytes());
            let message = Message::parse(header);
            let answer = nvme.carry_out(message, &data, 0, &memory());
            prop_assert_eq!(answer.is_some(), [1, 3].contains(&header[0]));
            prop_assert!(answer.is_none_or(|answer| answer.len() == (bytes as usize).min(BYTES_MAX)));
        }
        prop_assert_eq!(nvme.space.read(0x09, 3), [0x02, 0x08, 0x01], "NVM Express");
    }

    #[test]
    fn whatever_a_guest_does_the_controller_starts_again(
        acts in proptest::collection::vec(any_act(), 0..60), has_handles in any::<bool>(),
    ) {
        let mut host = if has_handles { placement::host() } else { Host::new() };
        acts.iter().for_each(|act| host.act(act));
        // A reset requires an enabled controller.
        host.register(0x14, 0x0046_0001);
        host.register(0x14, 0x0046_0000);
        prop_assert_eq!(host.controller.read(0x1c, 4), [0, 0, 0, 0]);
        host.act(&Act::Wait { ns: 1_000_000_000 });
        host.start();
        prop_assert_eq!(host.controller.read(0x1c, 4), [1, 0, 0, 0]);
        host.put(&[3; PAGE_BYTES]);
        prop_assert_eq!(host.ask(1, 0x01, 1, DATA, [80, 0, 7]), (0, 0));
        host.put(&[0; PAGE_BYTES]);
        prop_assert_eq!(host.ask(1, 0x02, 1, DATA, [80, 0, 7]), (0, 0));
        prop_assert_eq!(host.data(PAGE_BYTES), [3; PAGE_BYTES]);
    }
}
