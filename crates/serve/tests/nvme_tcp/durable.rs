//! Durability over NVMe/TCP: effects of a power cut on completed commands.

use strobe_nand::NandOp;
use strobe_serve::{Engine, Pace};
use strobe_ssd::{Command, Simulated};
use strobe_types::{Lba, SimTime};

use crate::host::{Entry, SECTORS_OF_UNIT, Target, UNIT, Wire, config, text};

/// Force unit access, in dword 12.
const FUA: u32 = 1 << 30;
const OTHER: u32 = 40 * SECTORS_OF_UNIT;

fn set_cache(target: &mut Target, admin: Wire, is_on: bool) {
    let set = Entry::new(9).word(10, 6).word(11, is_on.into());
    assert_eq!(target.command(admin, set, &[]).1, (0, 0));
}

fn cache(target: &mut Target, admin: Wire) -> u32 {
    target.command(admin, Entry::new(0xa).word(10, 6), &[]).1.1
}

fn fill(target: &mut Target, io: Wire) {
    for (lba, seed) in [(0, 1), (OTHER, 2)] {
        assert_eq!(target.command(io, Entry::io(1, lba, SECTORS_OF_UNIT), &text(UNIT, seed)).1, (0, 0));
    }
    assert_eq!(target.command(io, Entry::new(0).word(1, 1), &[]).1, (0, 0), "flush");
}

/// Commands with their data and the resulting content.
fn changes(flags: u32) -> [(Entry, Vec<u8>, Vec<u8>); 4] {
    let last = SECTORS_OF_UNIT - 1;
    let mut source = vec![0; 32];
    source[8..12].copy_from_slice(&OTHER.to_le_bytes());
    source[16] = last as u8;
    let mut range = vec![0; 16];
    range[4] = SECTORS_OF_UNIT as u8;
    let copy = Entry::new(0x19).word(1, 1).word(12, flags);
    let deallocate = Entry::new(9).word(1, 1).word(11, 4);
    [
        (Entry::io(1, 0, SECTORS_OF_UNIT).word(12, last | flags), text(UNIT, 3), text(UNIT, 3)),
        (Entry::io(8, 0, SECTORS_OF_UNIT).word(12, last | flags), Vec::new(), vec![0; UNIT]),
        (copy, source, text(UNIT, 2)),
        (deallocate, range, vec![0; UNIT]),
    ]
}

#[test]
fn changes_of_a_host_without_a_cache_survive_a_power_cut_whatever_another_host_sets() {
    for (entry, data, expected) in changes(0) {
        let mut target = Target::new();
        let ((admin, io), (other, _)) = (target.queues((false, false), 0), target.queues((false, false), 0));
        set_cache(&mut target, admin, false);
        set_cache(&mut target, other, true);
        assert_eq!((cache(&mut target, admin), cache(&mut target, other)), (0, 1));
        fill(&mut target, io);
        assert_eq!(target.command(io, entry, &data).1, (0, 0));
        assert!(target.after_cut(0, UNIT) == expected, "command {:#x}", entry.0[0]);
    }
}

#[test]
fn the_cache_of_one_host_is_not_that_of_another() {
    let mut target = Target::new();
    let (admin, _) = target.queues((false, false), 0);
    set_cache(&mut target, admin, false);
    let (other, io) = target.queues((false, false), 0);
    assert_eq!(cache(&mut target, other), 1);
    let programs = |target: &Target| target.engine.drive().stats().nand.total(NandOp::Program);
    let before = programs(&target);
    for unit in 0..8 {
        let write = Entry::io(1, unit * SECTORS_OF_UNIT, SECTORS_OF_UNIT);
        assert_eq!(target.command(io, write, &text(UNIT, 1)).1, (0, 0));
    }
    assert_eq!(programs(&target), before, "they wait in the cache");
}

/// Drive with cached data, on flash too worn to store it.
fn worn_out() -> (Box<dyn Simulated>, SimTime) {
    let mut config = config();
    config.nand.endurance_pe = 2;
    let mut drive = strobe_ssd::build(&config, true, 1).expect("a drive");
    let mut now = SimTime::ZERO;
    loop {
        now = drive.write_bytes(now, Lba::new(0), &[7; UNIT]).expect("the cache is empty");
        let before = drive.freeze();
        match drive.execute(now, &Command::Flush) {
            Ok(done) => now = done,
            Err(_) => return (before, now),
        }
    }
}

#[test]
fn a_shutdown_whose_flush_fails_is_not_complete() {
    let (drive, now) = worn_out();
    let mut target = Target::new();
    target.engine = Engine::new(drive, now, Pace::None);
    let (admin, _) = target.queues((false, false), 0);
    let mut set = Entry::new(0x7f).word(11, 0x14).word(12, 0x0046_4001);
    set.0[4] = 0;
    assert_ne!(target.command(admin, set, &[]).1.0, 0);
    let mut get = Entry::new(0x7f).word(11, 0x1c);
    get.0[4] = 4;
    assert_eq!(target.command(admin, get, &[]).1, (0, 0b0101), "it occurs");
}

#[test]
fn forced_changes_survive_a_power_cut() {
    for (entry, data, expected) in changes(FUA).into_iter().take(3) {
        let mut target = Target::new();
        let (_, io) = target.queues((false, false), 0);
        fill(&mut target, io);
        assert_eq!(target.command(io, entry, &data).1, (0, 0), "command {:#x}", entry.0[0]);
        assert!(target.after_cut(0, UNIT) == expected, "command {:#x}", entry.0[0]);
    }
}

#[test]
fn data_of_forced_reads_and_compares_survives_a_power_cut() {
    for opcode in [2, 5] {
        let mut target = Target::new();
        let (_, io) = target.queues((false, false), 0);
        fill(&mut target, io);
        let data = text(UNIT, 3);
        assert_eq!(target.command(io, Entry::io(1, 0, SECTORS_OF_UNIT), &data).1, (0, 0));
        assert!(target.after_cut(0, UNIT) != data, "in the cache alone");
        let forced = Entry::io(opcode, 0, SECTORS_OF_UNIT).word(12, (SECTORS_OF_UNIT - 1) | FUA);
        let (read, done) = target.command(io, forced, if opcode == 5 { &data } else { &[] });
        assert!(done == (0, 0) && (opcode == 5 || read == data), "{done:?}");
        assert!(target.after_cut(0, UNIT) == data, "command {opcode}");
    }
}
