//! The SLC cache in virtual time, against closed forms.

use std::collections::BTreeMap;

use strobe_ssd::{DriveConfig, HostQueue, Isolation, Pacing, SchemeName, Simulated, WhenFull, build};
use strobe_types::{Lpn, Request, SimTime};

use crate::setup::{Host as _, T0, closed, read_unit, shaped, write_unit};

const SLC_READ: u64 = 4_000;
const SLC_PROGRAM: u64 = 75_000;
/// 4096 bytes at 3200 MB/s.
const TRANSFER: u64 = 1_280;
const IDLE: u64 = 50_000_000;

/// Two dies of two planes, 96 blocks of 12 pages of three bits each; cache programs hide transfers. Eight
/// blocks, two on each plane, are always in SLC mode: 32 pages.
fn config() -> DriveConfig {
    let mut config = shaped(2, 1, 2);
    let (nand, ftl) = (&mut config.nand, &mut config.ftl);
    (nand.blocks_per_plane, nand.pages_per_block) = (96, 12);
    (nand.channel_mb_s, nand.cache_program) = (3_200, true);
    (nand.slc.read_ns, nand.slc.program_ns, nand.slc.erase_ns) = (SLC_READ, SLC_PROGRAM, 2_000_000);
    ftl.logical_pages = Some(2_000);
    ftl.gc.mode = Default::default();
    ftl.slc_cache.static_blocks = 8;
    ftl.slc_cache.fold_idle_ns = IDLE;
    config
}

const CACHE: u64 = 8 * 4;

fn burst(drive: &mut dyn Simulated, from: u64, units: std::ops::Range<u64>) -> u64 {
    let requests: Vec<Request> = units.map(write_unit).collect();
    let mut queue = HostQueue::new(Pacing::Closed { depth: 16, interval_ns: 0 }, SimTime::from_ns(from));
    drive.run(&requests, &[], &mut queue).expect("runs");
    queue.finished().as_ns()
}

fn within_2_percent(given: u64, expected: u64) -> bool {
    given.abs_diff(expected) * 50 <= expected
}

fn pause(drive: &mut dyn Simulated, until: u64) {
    drive.advance(SimTime::from_ns(until), &mut Vec::new());
}

#[test]
fn a_burst_of_the_size_of_the_cache_is_written_at_its_speed_and_the_next_after_a_pause() {
    let config = config();
    let mut drive = build(&config, true, 1).expect("valid");
    // 32 pages on four planes, and the first transfers.
    let fast = CACHE / 4 * SLC_PROGRAM;
    let first = burst(&mut *drive, 0, 0..CACHE);
    assert!((fast..fast + 4 * TRANSFER).contains(&first), "{first} ns, not {fast}");
    // Beyond it, at the speed of normal blocks.
    let direct = 256 / 4 * crate::setup::PROGRAM;
    let now = burst(&mut *drive, first, CACHE..CACHE + 256);
    let took = now - first;
    assert!(within_2_percent(took, direct), "{took} ns, not {direct}");
    let slc = drive.stats().slc.expect("a cache");
    assert_eq!((slc.units_cached, slc.units_direct, slc.blocks_folded), (CACHE, 256, 0));
    assert_eq!(drive.slc_blocks(), Some(8));
    // A pause that is too short changes nothing.
    pause(&mut *drive, now + IDLE / 2);
    let now = burst(&mut *drive, now + IDLE / 2, 500..501);
    assert_eq!(drive.stats().slc.expect("a cache").blocks_folded, 0);
    // A pause that is long enough empties it.
    let now = now + 10 * IDLE;
    pause(&mut *drive, now);
    let slc = drive.stats().slc.expect("a cache");
    assert_eq!((slc.blocks_folded, slc.units_folded, slc.blocks_erased), (8, CACHE, 8));
    assert_eq!(drive.slc_blocks(), Some(0));
    let took = burst(&mut *drive, now, 1000..1000 + CACHE) - now;
    assert!((fast..fast + 4 * TRANSFER).contains(&took), "{took} ns, not {fast}");
    drive.check().expect("sound");
}

#[test]
fn a_cached_unit_is_read_with_the_times_of_slc_and_a_folded_one_is_not() {
    let mut drive = build(&config(), true, 1).expect("valid");
    burst(&mut *drive, 0, 0..CACHE);
    let now = SimTime::from_ns(10_000_000);
    let read = drive.request(now, read_unit(3)).expect("reads");
    assert_eq!(read.since(now), SLC_READ + TRANSFER);
    pause(&mut *drive, 10 * IDLE);
    let now = SimTime::from_ns(10 * IDLE);
    let read = drive.request(now, read_unit(3)).expect("reads");
    assert_eq!(read.since(now), crate::setup::READ + TRANSFER);
}

#[test]
fn dynamic_blocks_make_the_cache_larger_as_long_as_there_is_room() {
    let mut config = config();
    config.ftl.slc_cache.static_blocks = 0;
    config.ftl.slc_cache.dynamic_blocks = 40;
    config.ftl.logical_pages = Some(4_200);
    let mut drive = build(&config, true, 1).expect("valid");
    let took = burst(&mut *drive, 0, 0..160);
    assert!(within_2_percent(took, 160 / 4 * SLC_PROGRAM), "{took} ns");
    assert_eq!(drive.stats().slc.expect("a cache").units_cached, 160);
    // The whole drive at random: even a long idle time then erases no more than collection keeps.
    let requests = crate::setup::unit_writes(4_200, 12_000, 7);
    let mut queue = HostQueue::new(Pacing::Closed { depth: 16, interval_ns: 0 }, SimTime::from_ns(took));
    drive.run(&requests, &[], &mut queue).expect("runs");
    let now = queue.finished().as_ns() + 100 * IDLE;
    pause(&mut *drive, now);
    let cached = drive.stats().slc.expect("a cache").units_cached;
    burst(&mut *drive, now, 0..160);
    assert_eq!(drive.stats().slc.expect("a cache").units_cached, cached);
    drive.check().expect("sound");
}

#[test]
fn writes_that_wait_for_folding_all_go_through_the_cache() {
    let mut config = config();
    config.ftl.slc_cache.when_full = WhenFull::Fold;
    let mut drive = build(&config, true, 1).expect("valid");
    let took = burst(&mut *drive, 0, 0..1_024);
    let slc = drive.stats().slc.expect("a cache");
    assert_eq!((slc.units_cached, slc.units_direct), (1_024, 0));
    // Each page is programmed twice, once in either mode, and each block of four is erased.
    let direct = 1_024 / 4 * crate::setup::PROGRAM;
    assert!(took > direct, "{took} ns, faster than {direct} without a cache");
    pause(&mut *drive, took + 100 * IDLE);
    let stats = drive.stats();
    assert_eq!(stats.nand.total(strobe_nand::NandOp::Program), 2 * 1_024);
    drive.check().expect("sound");
}

#[test]
fn folding_goes_on_beside_the_host_from_its_mark_on() {
    let mut config = config();
    config.ftl.slc_cache.fold_at = 5;
    let mut drive = build(&config, true, 1).expect("valid");
    let mut now = 0;
    for unit in 0..400 {
        now += 1_000_000;
        drive.request(SimTime::from_ns(now), write_unit(unit)).expect("writes");
        assert!(drive.slc_blocks().expect("a cache") <= 8, "unit {unit}");
    }
    let slc = drive.stats().slc.expect("a cache");
    assert_eq!(slc.units_direct, 0, "the mark keeps room");
    assert!(slc.blocks_folded > 80, "{slc:?}");
}

#[test]
fn a_world_that_stops_folds_while_the_host_is_away() {
    let mut config = config();
    config.ftl.gc.mode = strobe_ssd::GcMode::StopTheWorld;
    let mut drive = build(&config, true, 1).expect("valid");
    burst(&mut *drive, 0, 0..CACHE + 10);
    pause(&mut *drive, 10 * IDLE);
    assert_eq!((drive.slc_blocks(), drive.stats().slc.expect("a cache").units_folded), (Some(0), CACHE));
    drive.check().expect("sound");
}

#[test]
fn a_host_that_comes_back_ends_the_pause() {
    let mut config = config();
    config.ftl.slc_cache.static_blocks = 40;
    let mut drive = build(&config, true, 1).expect("valid");
    let mut now = burst(&mut *drive, 0, 0..160) + IDLE + 1_000_000;
    pause(&mut *drive, now);
    // From now on the host is never idle for long: folds in progress finish, and no others begin.
    for unit in 0..200 {
        now += IDLE / 4;
        drive.request(SimTime::from_ns(now), read_unit(unit)).expect("reads");
    }
    let folded = drive.stats().slc.expect("a cache").blocks_folded;
    assert!((1..20).contains(&folded), "{folded} of 40 blocks");
    let mut queue = closed(1);
    drive.run(&[write_unit(0)], &[], &mut queue).expect("writes");
    assert!(queue.finished() > T0);
}

/// Share of the handles' units that lie in blocks with units of the other handle, once all are folded.
fn mixed_by_folds(scheme: &str) -> f64 {
    let mut config = config();
    config.ftl.placement.scheme = scheme.into();
    config.ftl.placement.handles = 2;
    config.ftl.placement.isolation = Isolation::Persistent;
    let mut drive = build(&config, true, 1).expect("valid");
    let handle = |unit: u64| if scheme == "handles" { (unit % 2) as u16 } else { 0 };
    let mut now = 0;
    for round in 0..12 {
        let units = round * CACHE..(round + 1) * CACHE;
        let requests: Vec<Request> = units.map(|unit| write_unit(unit).placed(handle(unit))).collect();
        let mut queue = HostQueue::new(Pacing::Closed { depth: 16, interval_ns: 0 }, SimTime::from_ns(now));
        drive.run(&requests, &[], &mut queue).expect("runs");
        now = queue.finished().as_ns() + 10 * IDLE;
        pause(&mut *drive, now);
    }
    let slc = drive.stats().slc.expect("a cache");
    assert!(slc.units_folded > 10 * CACHE, "{scheme}: {slc:?}");
    drive.check().expect("sound");
    let mut counts = BTreeMap::<_, [u64; 2]>::new();
    for unit in 0..12 * CACHE {
        let (block, _) = drive.locate(Lpn::new(unit as u32)).expect("written");
        counts.entry(block).or_default()[(unit % 2) as usize] += 1;
    }
    let mixed: u64 = counts.values().map(|[even, odd]| 2 * even.min(odd)).sum();
    mixed as f64 / (12 * CACHE) as f64
}

#[test]
fn folds_keep_the_units_of_placement_handles_apart() {
    assert!(mixed_by_folds("none") > 0.5);
    assert_eq!(mixed_by_folds("handles"), 0.0);
}

#[test]
fn folded_units_go_to_the_stream_that_the_placement_chose_at_their_write() {
    let mut config = config();
    config.ftl.placement.scheme = SchemeName::Sepbit.into();
    let mut drive = build(&config, true, 1).expect("valid");
    let mut now = 0;
    let mut write = |drive: &mut dyn Simulated, units| {
        now = burst(drive, now, units) + 10 * IDLE;
        pause(drive, now);
    };
    let of_stream = |drive: &dyn Simulated, number: u8| -> u32 {
        let blocks = drive.blocks();
        let of_it = blocks.iter().filter(|block| block.number.is_some_and(|stream| stream.get() == number));
        of_it.map(|block| block.valid).sum()
    };
    // New units are long-lived: stream 1.
    write(&mut *drive, 0..CACHE);
    assert_eq!((of_stream(&*drive, 0), of_stream(&*drive, 1)), (0, CACHE as u32));
    // Units written again soon are short-lived: stream 0.
    write(&mut *drive, 16..32);
    assert_eq!((of_stream(&*drive, 0), of_stream(&*drive, 1)), (16, CACHE as u32 - 16));
    drive.check().expect("sound");
}
