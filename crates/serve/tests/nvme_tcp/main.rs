//! NVMe over TCP as bytes: the answers to a host, for any partition of its bytes.

#[cfg(target_os = "linux")]
#[path = "../common/mod.rs"]
mod common;
mod durable;
mod host;
#[cfg(target_os = "linux")]
mod sockets;

use std::time::Duration;

use proptest::prelude::*;
use strobe_serve::nvme_tcp::{DISCOVERY_NQN, NQN, Options, Session};
use strobe_serve::{Engine, Pace, Session as _};
use strobe_ssd::Command;
use strobe_types::{Lba, SimTime};

use host::{
    Entry, Pdu, SECTORS_OF_UNIT, Target, UNIT, Wire, capsule, connect, finished, h2c, hello, hello_of, text,
};

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
    let capacity = (u128::from(target.engine.drive().sectors()) * 512).to_le_bytes();
    assert_eq!((&page[280..296], &page[296..312]), (&capacity[..], &[0; 16][..]), "all of it is in use");
    assert_eq!(u16::from_le_bytes([page[520], page[521]]) & 0b1100, 0b1100, "deallocate, write zeroes");
    let (page, _) = target.command(admin, Entry::new(6).word(1, 1), &[]);
    assert_eq!(page[..8], target.engine.drive().sectors().to_le_bytes());
    assert_eq!(page[48..64], capacity);
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
            // In-capsule data.
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
    let (page, _) = target.command(admin, Entry::new(6).word(10, 1), &[]);
    assert_eq!(u16::from_le_bytes([page[520], page[521]]), 1, "it offers no change");
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
    // A wrong header digest ends the connection. A wrong data digest only fails the command.
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
    // The queue is full.
    let mut last = Vec::new();
    for at in 100..200_u16 {
        let mut entry = Entry::io(1, 0, 4096);
        entry.0[2..4].copy_from_slice(&at.to_le_bytes());
        last.extend(target.ask(io, &capsule(io, &entry, &[])));
    }
    assert_eq!(reason(&last).0, 2);
}

/// Only `bytes` arrive of writes of 2 MiB, while the drive completes none. Returns the number of requests for
/// data.
fn write_much(target: &mut Target, io: Wire, bytes: usize) -> usize {
    const PART: usize = 256 << 10;
    let (data, mut asked) = (text(bytes, 1), 0);
    for at in 0..100_u16 {
        let mut entry = Entry::io(1, 0, 4096);
        entry.0[2..4].copy_from_slice(&at.to_le_bytes());
        let Some(answer) = target.ask(io, &capsule(io, &entry, &[])).into_iter().next() else { break };
        asked += 1;
        let tag = (answer.word(0) >> 16) as u16;
        for (number, part) in data.chunks(PART).enumerate() {
            let from = number * PART;
            let is_last = from + part.len() == 2 << 20;
            assert_eq!(target.ask(io, &h2c(io, at, tag, from as u32, part, is_last)), []);
        }
    }
    asked
}

#[test]
fn data_of_writes_that_are_not_whole_is_bounded() {
    let mut target = Target::new();
    let (_, io) = target.queues((false, false), 0);
    assert_eq!(write_much(&mut target, io, (2 << 20) - 512), 4, "of 2 MiB each");
}

#[test]
fn data_of_writes_under_way_is_bounded() {
    let mut target = Target::new();
    let (_, io) = target.queues((false, false), 0);
    target.is_paused = true;
    assert_eq!(write_much(&mut target, io, 2 << 20), 17, "32 MiB and one more");
    assert!(target.sessions[io.session].is_full());
    target.is_paused = false;
    target.turn(io.session, &mut Vec::new());
    assert!(!target.sessions[io.session].is_full());
}

#[test]
fn a_queue_is_connected_once() {
    let mut target = Target::new();
    let (_, id) = target.admin((false, false), 0);
    let connect = |target: &mut Target| {
        let wire = target.open(false, false, 0);
        (wire, target.command(wire, connect(1, 31), &hello(NQN, id)).1)
    };
    let (first, status) = connect(&mut target);
    assert_eq!(status.0, 0);
    assert_eq!(connect(&mut target).1.0, 0x00c, "command sequence error");
    target.sessions[first.session].leave(&mut target.subsystem);
    assert_eq!(connect(&mut target).1.0, 0, "its connection is closed");
}

#[test]
fn a_queue_belongs_to_the_host_of_its_controller() {
    let mut target = Target::new();
    let (_, id) = target.admin((false, false), 0);
    let wire = target.open(false, false, 0);
    let other = hello_of("nqn.2014-08.org.nvmexpress:uuid:other", NQN, id);
    assert_eq!(target.command(wire, connect(1, 31), &other).1.0, 0x184, "connect invalid host");
    let wire = target.open(false, false, 0);
    assert_eq!(target.command(wire, connect(1, 31), &hello(NQN, id)).1.0, 0, "its own host");
}

#[test]
fn reads_that_fail_are_counted_as_media_errors() {
    let mut target = Target::new();
    let mut drive = target.engine.drive().freeze();
    let data = text(UNIT, 1);
    let (at, lba) = (SimTime::ZERO, Lba::new(0));
    let at = drive.write_bytes(at, lba, &data).expect("a write");
    let at = drive.execute(at, &Command::Flush).expect("a flush");
    assert!(drive.fail_reads(lba));
    target.engine = Engine::new(drive, at, Pace::None);
    let (admin, io) = target.queues((false, false), 0);
    let media_errors = |target: &mut Target| {
        let (page, _) = target.command(admin, Entry::new(2).word(10, 127 << 16 | 2), &[]);
        u64::from_le_bytes(page[160..168].try_into().expect("eight bytes"))
    };
    assert_eq!(media_errors(&mut target), 0);
    assert_eq!(target.command(io, Entry::io(2, 0, SECTORS_OF_UNIT), &[]).1.0, 0x281);
    assert_eq!(media_errors(&mut target), 1);
}

proptest! {
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
        // Well-formed commands with any content come first, then arbitrary bytes.
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
