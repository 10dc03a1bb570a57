//! Time at which the write buffer completes host writes.

use strobe_nand::{NandOp, NoMedium, StampMedium};
use strobe_ssd::{Command, Device, DriveConfig, Inspect, Range, build};
use strobe_types::{Lba, Op, Request, SimTime};

use crate::setup::{
    Host as _, PROGRAM, READ, T0, TRANSFER, UNIT, buffered, closed, config, mixed_requests, read_unit,
    shaped, timed, unit_writes, write, write_unit,
};

fn ns(n: u64) -> SimTime {
    SimTime::from_ns(n)
}

const SERVICE: u64 = TRANSFER + PROGRAM;

/// `config` with 1 µs of firmware and 1 µs of link per written unit.
fn with_controller(mut config: DriveConfig) -> DriveConfig {
    config.controller.command_ns = 1_000;
    config.controller.link_mb_s = 4_096;
    config
}

#[test]
fn a_buffered_write_takes_firmware_and_link_until_the_buffer_is_full() {
    for capacity in [1u64, 2, 8, 33] {
        let mut drive = timed::<NoMedium>(&with_controller(buffered(config(), capacity)));
        let mut now = T0;
        for unit in 0..capacity {
            let done = drive.request(now, write_unit(unit)).expect("runs");
            assert_eq!(done.since(now), 2_000, "write {unit} into {capacity} places");
            now = done;
        }
        let done = drive.request(now, write_unit(capacity)).expect("runs");
        assert!(done.since(now) > 100_000, "the buffer of {capacity} is full, yet a write took no longer");
    }
}

#[test]
fn a_full_buffer_passes_writes_at_the_pace_of_flash() {
    for capacity in [1, 2, 8, 33] {
        for depth in [1, 4] {
            let mut drive = timed::<NoMedium>(&with_controller(buffered(config(), capacity)));
            let mut queue = closed(depth);
            let done: Vec<u64> = (0..120)
                .map(|unit| {
                    let done = drive.request(queue.issue(None), write_unit(unit)).expect("runs");
                    queue.complete(done);
                    done.as_ns()
                })
                .collect();
            for pair in done[capacity as usize + 4..].windows(2) {
                assert_eq!(pair[1] - pair[0], SERVICE, "{capacity} places, depth {depth}");
            }
        }
    }
}

#[test]
fn rewriting_a_waiting_unit_is_free() {
    let mut drive = timed::<NoMedium>(&buffered(config(), 8));
    for n in 0..1000 {
        assert_eq!(drive.request(ns(n), write_unit(5)), Ok(ns(n)));
    }
    assert_eq!(drive.stats().nand.total(NandOp::Program), 0);
}

#[test]
fn a_waiting_unit_is_read_from_the_buffer() {
    let mut drive = timed::<StampMedium>(&with_controller(buffered(config(), 8)));
    drive.request(T0, write_unit(5)).expect("runs");
    let now = 10_000;
    assert_eq!(drive.request(ns(now), read_unit(5)), Ok(ns(now + 2_000)));
    assert_eq!(drive.last_read(), [1]);
    assert_eq!(drive.stats().nand.total(NandOp::Read), 0);
}

#[test]
fn a_partial_write_to_a_waiting_unit_reads_no_flash() {
    let mut drive = timed::<NoMedium>(&buffered(config(), 8));
    drive.request(T0, write_unit(5)).expect("runs");
    assert_eq!(drive.request(ns(7), write(5 * 8 + 1, 3)), Ok(ns(7)));
    assert_eq!(drive.stats().nand.total(NandOp::Read), 0);
}

#[test]
fn a_partial_write_is_complete_when_buffered_and_only_its_write_back_waits_for_the_read() {
    let mut drive = timed::<NoMedium>(&buffered(config(), 8));
    drive.request(T0, write_unit(5)).expect("runs");
    drive.request(T0, Request::FLUSH).expect("runs");
    let now = 10_000_000;
    assert_eq!(drive.request(ns(now), write(5 * 8 + 1, 3)), Ok(ns(now)));
    let written = now + READ + TRANSFER + TRANSFER + PROGRAM;
    assert_eq!(drive.request(ns(now), Request::FLUSH), Ok(ns(written)));
}

#[test]
fn a_flush_waits_for_every_program() {
    for waiting in [1u64, 3, 4, 8] {
        let mut drive = timed::<NoMedium>(&with_controller(buffered(config(), 8)));
        for unit in 0..waiting {
            drive.request(T0, write_unit(unit)).expect("runs");
        }
        let now = 50_000;
        let done = drive.request(ns(now), Request::FLUSH).expect("runs").as_ns();
        // Half of the buffer is written back as units arrive, the rest by the flush. One die does all of it
        // serially.
        let first = if waiting > 4 { 1_000 * 5 + 1_000 } else { now + 1_000 };
        assert_eq!(done, first + waiting * SERVICE, "{waiting} units waiting");
        assert_eq!(drive.stats().nand.total(NandOp::Program), waiting);
        let again = 100_000_000;
        assert_eq!(drive.request(ns(again), Request::FLUSH), Ok(ns(again + 1_000)), "nothing is left");
        assert_eq!(drive.settle(ns(again + 1_000)), Ok(ns(again + 1_000)));
    }
}

#[test]
fn a_flush_also_waits_for_programs_that_are_under_way_already() {
    let mut drive = timed::<NoMedium>(&buffered(config(), 1));
    drive.request(T0, write_unit(0)).expect("runs");
    assert_eq!(drive.stats().nand.total(NandOp::Program), 1, "written back at once");
    assert_eq!(drive.request(ns(5), Request::FLUSH), Ok(ns(SERVICE)));
    assert_eq!(drive.request(ns(6), Request::FLUSH), Ok(ns(SERVICE)), "a second flush waits as well");
}

#[test]
fn writes_beside_a_flush_wait_for_the_places_it_frees() {
    let mut drive = timed::<NoMedium>(&buffered(config(), 4));
    let write = |unit: u64| Command::write(Range::new(Lba::new(unit * u64::from(UNIT)), UNIT));
    for unit in 0..4 {
        drive.submit(T0, unit, &write(unit), None);
    }
    drive.submit(T0, 99, &Command::Flush, None);
    for unit in 4..8 {
        drive.submit(T0, unit, &write(unit), None);
    }
    let mut done = Vec::new();
    drive.advance(ns(100 * SERVICE), &mut done);
    let at = |tag: u64| done.iter().find(|completion| completion.tag == tag).map(|completion| completion.at);
    assert!((0..4).all(|unit| at(unit) == Some(T0)));
    assert_eq!(at(99), Some(ns(4 * SERVICE)));
    for unit in 4..8 {
        assert_eq!(at(unit), Some(ns((unit - 3) * SERVICE)), "unit {unit}");
    }
}

#[test]
fn writes_issued_together_into_a_full_buffer_all_wait() {
    let mut drive = timed::<NoMedium>(&buffered(shaped(4, 1, 1), 4));
    let done: Vec<u64> =
        (0..8).map(|unit| drive.request(T0, write_unit(unit)).expect("runs").as_ns()).collect();
    // Four slots, four dies: the first four units enter at once. Three start together when the third arrives,
    // and no other unit enters before they are on flash.
    assert_eq!(done[..4], [0; 4]);
    for (unit, &at) in done.iter().enumerate().skip(4) {
        assert!(at >= SERVICE, "unit {unit} entered a full buffer at {at} ns");
    }
}

#[test]
fn a_trimmed_unit_gives_its_place_back_at_once_and_never_reaches_flash() {
    let mut drive = timed::<NoMedium>(&buffered(config(), 8));
    for round in 0..1000 {
        let now = ns(round);
        assert_eq!(drive.request(now, write_unit(round % 20)), Ok(now));
        let trim = Request::new(Op::Trim, Lba::new(round % 20 * 8), UNIT);
        assert_eq!(drive.request(now, trim), Ok(now));
    }
    assert_eq!(drive.stats().nand.total(NandOp::Program), 0);
    assert_eq!(drive.request(ns(2000), Request::FLUSH), Ok(ns(2000)));
}

#[test]
fn a_buffer_larger_than_the_drive_writes_back_only_on_flush() {
    let mut engine = build(&buffered(config(), 1000), true, 1).expect("valid");
    let mut queue = closed(1);
    engine.run(&unit_writes(160, 5000, 3), &[], &mut queue).expect("runs");
    assert_eq!(queue.finished(), T0);
    assert_eq!(engine.stats().nand.total(NandOp::Program), 0);
    let requests: Vec<Request> = (0..160).map(write_unit).collect();
    engine.run(&requests, &[], &mut queue).expect("runs");
    assert_eq!(engine.settle(T0), Ok(ns(160 * SERVICE)));
    assert_eq!(engine.mapped_units(), 160);
}

#[test]
fn a_buffer_lets_queue_depth_one_use_every_die() {
    let config = buffered(shaped(4, 1, 1), 64);
    let mut engine = build(&config, true, 1).expect("valid");
    let mut queue = closed(1);
    let requests: Vec<Request> = (0..160).map(write_unit).collect();
    engine.run(&requests, &[], &mut queue).expect("runs");
    assert_eq!(engine.settle(queue.finished()), Ok(ns(40 * SERVICE)));
}

#[test]
fn write_back_fills_whole_pages() {
    for (channels, buffer_units) in [(1, 1), (1, 4), (1, 5), (1, 16), (1, 61), (2, 10), (4, 10), (4, 27)] {
        let mut config = buffered(shaped(channels, 1, 1), buffer_units);
        config.nand.page_bytes = 16_384;
        let mut engine = build(&config, true, 1).expect("valid");
        let requests: Vec<Request> = (0..160).map(write_unit).collect();
        engine.run(&requests, &[], &mut closed(1)).expect("runs");
        engine.settle(T0).expect("runs");
        let programs = engine.stats().nand.total(NandOp::Program);
        assert_eq!(programs, 40, "{channels} channels, buffer of {buffer_units}");
    }
}

/// The contract of `HostCounts`: units count at the host's writes, programs as they happen.
#[test]
fn a_buffer_never_adds_programs_of_host_data() {
    let requests = mixed_requests(160 * 8, UNIT, 5000, 12);
    let programs = |buffer_units| {
        let mut engine = build(&buffered(config(), buffer_units), false, 1).expect("valid");
        engine.run(&requests, &[], &mut closed(1)).expect("runs");
        engine.settle(T0).expect("runs");
        let stats = engine.stats();
        (stats.host, stats.nand.get(NandOp::Program, strobe_nand::Cause::Host))
    };
    let (host, without) = programs(0);
    assert_eq!(host.units_written, without);
    let mut last = without;
    for buffer_units in [1, 16, 320] {
        let (same, fewer) = programs(buffer_units);
        assert_eq!(same.units_written, host.units_written);
        assert!(fewer <= last, "{buffer_units} places: {fewer} programs");
        last = fewer;
    }
}
