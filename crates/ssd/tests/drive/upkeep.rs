//! Processor time of the drive's own work, and the number of its calls.

use crate::setup::{ERASE, Host as _, PROGRAM, READ, T0, TRANSFER, closed, config, unit_writes, write_unit};
use strobe_ssd::{
    AllocationName, DriveConfig, DriveStats, GcStreamName, POLICIES, SchemeName, Simulated, UpkeepTable,
    build,
};

/// Random writes one at a time to a drive that was filled: what they cost, and when the last one was complete.
fn random_writes(config: &DriveConfig, count: usize) -> (DriveStats, u64) {
    let units = config.ftl.logical_pages.expect("given");
    let mut engine = build(config, true, 1).expect("valid");
    let mut queue = closed(1);
    let fill: Vec<_> = (0..u64::from(units)).map(write_unit).collect();
    engine.run(&fill, &[], &mut queue).expect("fills");
    engine.run(&unit_writes(units, count, 3), &[], &mut queue).expect("runs");
    engine.check().expect("whole");
    (engine.stats(), queue.finished().as_ns())
}

#[test]
fn sorting_takes_the_time_of_each_call_and_of_each_unit_moved() {
    let sorted = |upkeep| {
        let mut config = config();
        config.ftl.placement.scheme = SchemeName::Sorted;
        config.ftl.gc.net_blocks = 1;
        config.controller.upkeep = upkeep;
        random_writes(&config, 3000)
    };
    let (free, without) = sorted(UpkeepTable::default());
    assert_eq!(free.gc.firmware_ns, 0);
    let (costly, with) =
        sorted(UpkeepTable { sort_ns: 1_000_003, sort_unit_ns: 70_001, ..UpkeepTable::default() });
    assert_eq!((costly.gc.runs, costly.gc.units_moved), (free.gc.runs, free.gc.units_moved));
    let expected = costly.gc.runs * 1_000_003 + costly.gc.units_moved * 70_001;
    assert_eq!(costly.gc.firmware_ns, expected);
    // The world stands still while it collects, and one write is under way: nothing overlaps.
    assert_eq!(with - without, expected, "{:?}", costly.gc);
    assert!(costly.gc.runs > 100 && costly.gc.units_moved > 1000, "{:?}", costly.gc);
}

fn log_block(upkeep: UpkeepTable) -> DriveConfig {
    let mut config = config();
    config.ftl.mapping = "log-block".to_owned();
    (config.ftl.log_blocks, config.ftl.logical_pages) = (2, Some(128));
    config.controller.upkeep = upkeep;
    config
}

#[test]
fn merges_take_the_time_of_each_merge() {
    let (free, without) = random_writes(&log_block(UpkeepTable::default()), 800);
    let (costly, with) =
        random_writes(&log_block(UpkeepTable { merge_ns: 3_000_017, ..UpkeepTable::default() }), 800);
    assert_eq!(free.merges, costly.merges);
    let merges = costly.merges.expect("it merges");
    let count = merges.switched + merges.partial + merges.full;
    assert_eq!((costly.gc.firmware_ns, with - without), (count * 3_000_017, count * 3_000_017));
    assert!(count > 500, "{merges:?}");
}

/// Sectors are copied as fast as the slowest of reads, processor and programs: here the processor.
#[test]
fn a_merge_takes_the_time_of_each_sector_that_it_copies() {
    const MERGE: u64 = 1_000_000;
    const SECTOR: u64 = 20_000_000;
    let upkeep = UpkeepTable { merge_ns: MERGE, merge_unit_ns: SECTOR, ..UpkeepTable::default() };
    let mut drive: Box<dyn Simulated> = build(&log_block(upkeep), true, 1).expect("valid");
    let mut now = T0;
    for unit in (0..24).chain([1, 9]) {
        now = drive.request(now, write_unit(unit)).expect("writes");
    }
    // A third log: that of the first block, which is out of order, is merged.
    let done = drive.request(now, write_unit(17)).expect("writes");
    let copies = READ + TRANSFER + 8 * SECTOR + TRANSFER + PROGRAM;
    let expected = MERGE + copies + 2 * ERASE + TRANSFER + PROGRAM;
    assert_eq!(done, now + expected, "{:?}", drive.stats().merges);
    assert_eq!(drive.stats().gc.firmware_ns, MERGE + 8 * SECTOR);
}

/// DiskSim's SSD extension (`ssd_clean`) begins to clean at `low` erased blocks and stops at more than `low` + 1, whatever
/// chooses the victims: with `net_blocks` = 2 every second block of the host begins a collection.
#[test]
fn a_collection_gains_net_blocks_whatever_the_policy() {
    for policy in POLICIES {
        for migration in [SchemeName::None, SchemeName::HotCold] {
            for net_blocks in [1, 2, 4] {
                let mut config = config();
                config.ftl.gc.victim = policy.name.to_owned();
                config.ftl.placement.scheme = migration;
                config.ftl.gc.stream = GcStreamName::Own;
                config.ftl.allocation = AllocationName::LeastErased;
                // Begins with less than 8, that is at 7.
                config.ftl.gc.min_free_blocks = 8;
                config.ftl.gc.net_blocks = net_blocks;
                config.ftl.logical_pages = Some(130);
                let mut drive = build(&config, false, 1).expect("valid");
                for unit in 0..130 {
                    drive.request(T0, write_unit(unit)).expect("fills");
                }
                let (mut blocks, mut runs, mut seen) = (0, 0, Vec::new());
                for (at, request) in unit_writes(130, 4000, 9).into_iter().enumerate() {
                    let before = (drive.free_blocks(), drive.stats().gc.runs);
                    drive.request(T0, request).expect("runs");
                    // A block of the host has 8 pages; the fill left its last one with 2.
                    blocks += u32::from(at % 8 == 6);
                    if drive.stats().gc.runs > before.1 && at > 1000 {
                        runs += 1;
                        seen.push((before.0, drive.free_blocks()));
                    }
                    if at <= 1000 {
                        blocks = 0;
                    }
                }
                // The host opens one of those gained at once.
                let expected = (7, 7 + net_blocks - 1);
                let what = format!("{} {migration:?} net {net_blocks}", policy.name);
                assert!(seen.iter().all(|&seen| seen == expected), "{what}: {seen:?}, not {expected:?}");
                assert!(runs * net_blocks <= blocks + 4 && blocks <= runs * net_blocks + 4, "{what}: {runs}");
            }
        }
    }
}
