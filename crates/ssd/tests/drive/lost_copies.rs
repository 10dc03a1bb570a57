use strobe_nand::NandOp;
use strobe_ssd::{Command, CopyMode, DataMode, FaultAt, GcMode, GcStream, Hint, Range, build};
use strobe_types::{Lba, Prng};

use crate::setup::{PROGRAM, T0, UNIT, config};

const SECTORS: u64 = UNIT as u64;

fn unit(lpn: u64) -> Range {
    Range::new(Lba::new(lpn * SECTORS), UNIT)
}

fn write(range: Range) -> Command<'static> {
    Command::Write { range, fua: false, tag: Hint::None.into() }
}

#[test]
fn a_lost_unit_is_lost_while_its_copy_is_on_its_way() {
    reads_meet_copies(GcMode::Background, GcStream::Own);
    // Copies wait behind host programs, and their sources are already erased in the tables.
    reads_meet_copies(GcMode::StopTheWorld, GcStream::Host);
}

fn reads_meet_copies(mode: GcMode, stream: GcStream) {
    let mut config = config();
    config.nand.data = DataMode::Bytes;
    config.nand.blocks_per_plane = 26;
    (config.ftl.gc.mode, config.ftl.gc.stream) = (mode, stream);
    let mut drive = build(&config, true, 1).expect("a drive");
    let mut now = T0;
    for lpn in 0..160 {
        now = drive.execute(now, &write(unit(lpn))).expect("written");
    }
    let mut rng = Prng::new(5);
    let is_lost = |lpn: u64| lpn.is_multiple_of(5);
    (0..160).filter(|&lpn| is_lost(lpn)).for_each(|lpn| assert!(drive.fail_reads(Lba::new(lpn * SECTORS))));
    let (mut failed, mut writes, mut completions) = (0, 0, Vec::new());
    for tag in 0..6_000 {
        let lpn = rng.below_u64(160);
        let command = if is_lost(lpn) {
            Command::Read { range: unit(lpn) }
        } else {
            writes += 1;
            write(unit(lpn))
        };
        drive.submit(now, 2 * tag + u64::from(is_lost(lpn)), &command, None);
        // Mostly to the next event, so reads overlap copies at every stage.
        let next = drive.next_event().expect("a command is outstanding");
        now = if drive.outstanding() > 8 { next + PROGRAM } else { next.max(now) };
        drive.advance(now, &mut completions);
        for done in completions.drain(..) {
            let is_read = done.tag % 2 == 1;
            assert_eq!(done.result.is_err(), is_read, "{done:?}");
            failed += u64::from(is_read);
        }
    }
    assert!(failed > 500 && writes > 3_000, "{failed} reads, {writes} writes");
    let moved = drive.stats().gc.units_moved;
    assert!(moved > 2_000, "{moved} units moved");
}

#[test]
fn a_fault_that_waits_comes_with_a_logical_copy_to_its_place() {
    let mut config = config();
    config.nand.data = DataMode::Bytes;
    (config.ftl.copy_mode, config.ftl.virtual_map_entries) = (CopyMode::Logical, 40);
    config.ftl.durable_map = true.into();
    config.nand.faults.at = vec![FaultAt { unit: Some(5), ..FaultAt::default() }];
    let mut drive = build(&config, true, 1).expect("a drive");
    let mut now = drive.execute(T0, &write(unit(1))).expect("written");
    now = drive.execute(now, &Command::Flush).expect("flushed");
    now = drive.execute(now, &Command::Read { range: unit(1) }).expect("the fault waits");
    let programs = drive.stats().nand.total(NandOp::Program);
    let copy = Command::Copy { destination: Lba::new(5 * SECTORS), sources: &[unit(1)] };
    now = drive.execute(now, &copy).expect("copied");
    assert_eq!(drive.stats().nand.total(NandOp::Program), programs, "a logical copy");
    drive.execute(now, &Command::Read { range: unit(5) }).expect_err("the fault has come");
    // If power is cut before the next command, the fault occurs with the first command afterwards.
    let mut drive = build(&config, true, 1).expect("a drive");
    now = drive.execute(T0, &write(unit(2))).expect("written");
    now = drive.execute(now, &write(unit(5))).expect("written");
    let (mut drive, recovery) = drive.restart(now).expect("recovers");
    drive.execute(recovery.finished, &Command::Read { range: unit(5) }).expect_err("the fault has come");
}
