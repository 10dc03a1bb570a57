//! Bugs that were found by testing the whole drive, each pinned down.

use strobe_nand::NoMedium;
use strobe_ssd::build;
use strobe_types::Request;

use crate::setup::{
    Host as _, PROGRAM, T0, TRANSFER, UNIT, closed, config, shaped, timed, unit_writes, write, write_unit,
};

/// A page that joined a multi-plane group did not wait for the registers: without cache program its
/// transfer overlapped the array operation that the die was still doing.
#[test]
fn without_cache_program_no_plane_loads_while_the_die_programs() {
    let mut drive = timed::<NoMedium>(&shaped(1, 1, 2));
    for n in 1..=5 {
        let done = drive.request(T0, write(u64::from((n - 1) * 2 * UNIT), 2 * UNIT)).expect("runs");
        assert_eq!(done.as_ns(), u64::from(n) * (2 * TRANSFER + PROGRAM), "stripe {n}");
    }
}

/// The reserve did not include `net_blocks`: a drive was accepted that could not gain so many
/// blocks, and the run ended with `NoProgress`.
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

/// A block to retire started a collection whatever was free, with a target above what was free; on a
/// drive that held nothing invalid yet it could not be reached.
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
