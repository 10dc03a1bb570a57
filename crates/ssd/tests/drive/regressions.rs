use strobe_nand::NoMedium;
use strobe_ssd::{Command, DataMode, Hint, NvramPolicyName, Range, build};
use strobe_types::{Lba, Request, SimTime};

use crate::setup::{
    Host as _, PROGRAM, T0, TRANSFER, UNIT, buffered, cached, closed, config, shaped, timed, unit_writes,
    write, write_unit,
};

/// A page that joined a multi-plane group did not wait for the registers: its transfer overlapped the array
/// operation of the die.
#[test]
fn without_cache_program_no_plane_loads_while_the_die_programs() {
    let mut drive = timed::<NoMedium>(&shaped(1, 1, 2));
    for n in 1..=5 {
        let done = drive.request(T0, write(u64::from((n - 1) * 2 * UNIT), 2 * UNIT)).expect("runs");
        assert_eq!(done.as_ns(), u64::from(n) * (2 * TRANSFER + PROGRAM), "stripe {n}");
    }
}

/// The reserve did not include `net_blocks`: a drive was accepted that could not gain that number of blocks,
/// and the run ended with `NoProgress`.
#[test]
fn a_drive_that_cannot_gain_net_blocks_is_refused_or_makes_progress() {
    for net_blocks in [2, 4, 16, 1000] {
        let mut config = config();
        config.ftl.gc.net_blocks = net_blocks;
        config.ftl.logical_pages = Some(223); // the most that `Capacity` accepts here
        if let Ok(mut engine) = build(&config, false, 1) {
            let result = engine.run(&unit_writes(223, 20_000, 1), &[], &mut closed(1));
            assert_eq!(result, Ok(()), "net_blocks = {net_blocks}");
        }
    }
}

/// A block to retire started a collection even with enough free blocks, with a target that a drive without
/// invalid data could not reach.
#[test]
fn a_failed_program_on_a_fresh_drive_does_not_end_the_run() {
    for seed in 0..50 {
        let mut config = config();
        config.nand.blocks_per_plane = 200;
        config.nand.program_fail_rate = 0.01;
        let mut engine = build(&config, false, seed).expect("fits");
        let requests: Vec<Request> = (0..160).map(write_unit).collect();
        assert_eq!(engine.run(&requests, &[], &mut closed(1)), Ok(()), "seed {seed}");
        engine.check().expect("state");
    }
}

/// A partial write of a unit that stalled for a buffer slot kept the rest of the unit from before the stall.
/// Changes by other commands were undone.
#[test]
fn a_write_that_waits_for_a_place_leaves_the_sectors_beside_it_alone() {
    let mut config = buffered(config(), 2);
    config.nand.data = DataMode::Bytes;
    let mut drive = build(&config, true, 1).expect("a drive");
    let unit = u64::from(UNIT);
    let now = drive.write_bytes(T0, Lba::new(9 * unit), &[7; 4096]).expect("runs");
    let now = drive.settle(now).expect("runs");
    let range = |lba, sectors| Range::new(Lba::new(lba), sectors);
    for at in 0..4 {
        drive.submit(now, at, &Command::write(range(at * unit, UNIT)), None);
    }
    drive.submit(now, 4, &Command::write(range(9 * unit, 1)), Some(&[8; 512]));
    drive.submit(now, 5, &Command::WriteZeroes { range: range(9 * unit + 1, 1), deallocate: false }, None);
    let mut done = Vec::new();
    drive.advance(now + 100 * PROGRAM, &mut done);
    assert_eq!(done.len(), 6);
    assert!(
        done.iter().position(|done| done.tag == 5) < done.iter().position(|done| done.tag == 4),
        "{done:?}"
    );
    let mut read = [0; 3 * 512];
    drive.read_bytes(SimTime::from_ns(u64::MAX / 2), Lba::new(9 * unit), &mut read).expect("runs");
    assert_eq!(read.chunks(512).map(|sector| sector[0]).collect::<Vec<_>>(), [8, 0, 7]);
}

/// A FUA write took the slot of a unit that was still on its way to flash.
#[test]
fn what_leaves_the_non_volatile_cache_for_a_forced_write_survives_a_cut() {
    let mut config = cached(buffered(config(), 2), 2);
    (config.nand.data, config.ftl.durable_map) = (DataMode::Bytes, true.into());
    let mut drive = build(&config, true, 1).expect("a drive");
    let mut now = T0;
    for unit in 0..2 {
        now = drive.write_bytes(now, Lba::new(unit * u64::from(UNIT)), &[7; 4096]).expect("runs");
    }
    drive.cut_everywhere();
    let range = Range::new(Lba::new(5 * u64::from(UNIT)), UNIT);
    drive.submit(now, 0, &Command::Write { range, fua: true, tag: Hint::None.into() }, Some(&[8; 4096]));
    let mut cuts = vec![drive.cut_now()];
    drive.advance(now + 10 * PROGRAM, &mut Vec::new());
    cuts.extend(drive.take_cuts());
    assert!(cuts.len() > 2 && cuts[0].in_flight.leaving_units > 0);
    for cut in cuts {
        let (mut back, recovery) = cut.drive.restart(now).expect("recovers");
        back.check().expect("state");
        let mut read = [0; 2 * 4096];
        back.read_bytes(recovery.finished, Lba::new(0), &mut read).expect("runs");
        assert_eq!(read, [7; 2 * 4096], "cut at {}", cut.operation);
    }
}

/// The newer version, written past the cache, arrived first. A power cut brought the older one back.
#[test]
fn a_newer_version_does_not_overtake_the_one_that_leaves_the_non_volatile_cache() {
    // Reads keep one die or the other busy.
    for busy in [20, 21] {
        let mut config = cached(shaped(2, 1, 1), 2);
        config.controller.nvram.policy = NvramPolicyName::Hint;
        (config.nand.data, config.ftl.durable_map) = (DataMode::Bytes, true.into());
        let mut drive = build(&config, true, 1).expect("a drive");
        let range = |unit: u64| Range::new(Lba::new(unit * u64::from(UNIT)), UNIT);
        let write = |unit, hint: Hint| Command::Write { range: range(unit), fua: false, tag: hint.into() };
        for (unit, hint) in [(20, Hint::None), (21, Hint::None), (0, Hint::Metadata), (1, Hint::Metadata)] {
            drive.submit(T0, unit, &write(unit, hint), Some(&[1; 4096]));
        }
        let now = drive.settle(SimTime::from_ns(10 * PROGRAM)).expect("runs");
        drive.cut_everywhere();
        for tag in 100..150 {
            drive.submit(now, tag, &Command::Read { range: range(busy) }, None);
        }
        // A copy evicts its units from the cache; this one adds none.
        drive.submit(now, 2, &Command::Copy { destination: Lba::new(0), sources: &[range(50)] }, None);
        drive.submit(now, 3, &write(0, Hint::None), Some(&[2; 4096]));
        let (mut done, mut is_complete) = (Vec::new(), false);
        while let Some(next) = drive.next_event() {
            drive.advance(next, &mut done);
            is_complete |= done.drain(..).any(|done| done.tag == 3);
            if is_complete {
                let (mut back, recovery) = drive.cut_now().drive.restart(next).expect("recovers");
                let mut read = [0; 4096];
                back.read_bytes(recovery.finished, Lba::new(0), &mut read).expect("runs");
                assert_eq!(read, [2; 4096], "at {next:?}");
            }
        }
        assert!(is_complete);
    }
}

/// A restart let in-flight programs end and reported them to the write buffer, which was empty by then.
#[test]
fn programs_that_end_with_a_restart_are_not_reported_to_it() {
    let mut config = buffered(config(), 4);
    (config.nand.data, config.ftl.durable_map) = (DataMode::Bytes, true.into());
    let mut drive = build(&config, true, 1).expect("a drive");
    for unit in 0..16 {
        let range = Range::new(Lba::new(unit * u64::from(UNIT)), UNIT);
        drive.submit(
            T0,
            unit,
            &Command::Write { range, fua: false, tag: Hint::None.into() },
            Some(&[7; 4096]),
        );
    }
    // Until units are on their way to flash.
    drive.advance(SimTime::from_ns(PROGRAM / 2), &mut Vec::new());
    let (mut back, recovery) = drive.restart(SimTime::from_ns(PROGRAM / 2)).expect("recovers");
    let range = Range::new(Lba::new(0), UNIT);
    for _ in 0..16 {
        back.execute(recovery.finished, &Command::write(range)).expect("runs");
    }
    back.execute(recovery.finished, &Command::Flush).expect("runs");
    back.check().expect("sound");
}
