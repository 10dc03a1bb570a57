//! Bugs found in other crates: each test fails today and says where. With the fix, remove the `ignore`
//! and move the test beside the code.

use strobe_nand::NoMedium;
use strobe_ssd::build;
use strobe_types::Request;

use crate::setup::{
    PROGRAM, T0, TRANSFER, UNIT, closed, config, shaped, timed, unit_writes, write, write_unit,
};

/// strobe-nand, `ArrayTiming::program`: a page that joins a multi-plane group takes
/// `register_free = now`, so without cache program its transfer overlaps the array operation that
/// the die is still doing. Only the first plane of the group waits.
#[test]
#[ignore = "bug in strobe-nand: ArrayTiming::program"]
fn without_cache_program_no_plane_loads_while_the_die_programs() {
    let mut drive = timed::<NoMedium>(&shaped(1, 1, 2));
    for n in 1..=5 {
        let done = drive.execute(T0, write(u64::from((n - 1) * 2 * UNIT), 2 * UNIT)).expect("runs");
        assert_eq!(done.as_ns(), u64::from(n) * (2 * TRANSFER + PROGRAM), "stripe {n}");
    }
}

/// strobe-ftl, `PageMap::capacity`: the reserve does not include `net_blocks`, so a drive is
/// accepted that cannot gain so many blocks, and the run ends with `NoProgress`.
#[test]
#[ignore = "bug in strobe-ftl: PageMap::capacity ignores net_blocks"]
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

/// strobe-ftl, `PageMap::collect`: a block to retire starts a collection whatever is free, with
/// a target above what is free; on a drive that holds nothing invalid yet it cannot be reached.
#[test]
#[ignore = "bug in strobe-ftl: PageMap::collect after a failed program"]
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
