//! Completion times against closed forms, to the nanosecond.

use strobe_nand::{Cause, NandOp, NoMedium};
use strobe_ssd::{Command, Device, DriveConfig, HostQueue, Inspect, Pacing, Range, build};
use strobe_types::{Lba, Op, Prng, Request, SimTime};

use crate::setup::{
    ERASE, Host as _, PROGRAM, READ, T0, TRANSFER, UNIT, buffered, closed, config, mixed_requests, read,
    read_unit, shaped, timed, unit_writes, write, write_unit,
};

fn ns(n: u64) -> SimTime {
    SimTime::from_ns(n)
}

fn finish(config: &DriveConfig, depth: u32, requests: &[Request]) -> u64 {
    let mut engine = build(config, true, 1).expect("valid");
    let mut queue = closed(depth);
    engine.run(requests, &[], &mut queue).expect("runs");
    queue.finished().as_ns()
}

fn fill(count: u64) -> Vec<Request> {
    (0..count).map(write_unit).collect()
}

/// Firmware 3 µs per command and 500 ns per range, link 1000 MB/s: 4096 ns per unit.
fn with_controller(mut config: DriveConfig) -> DriveConfig {
    config.controller.command_ns = 3_000;
    config.controller.range_ns = 500;
    config.controller.link_mb_s = 1_000;
    config
}

const COMMAND: u64 = 3_500;
const LINK: u64 = 4_096;

#[test]
fn a_write_takes_bus_and_program_time() {
    let mut drive = timed::<NoMedium>(&config());
    assert_eq!(drive.request(T0, write_unit(3)), Ok(ns(TRANSFER + PROGRAM)));
    assert_eq!(drive.request(ns(10_000_000), write_unit(3)), Ok(ns(10_000_000 + TRANSFER + PROGRAM)));
}

#[test]
fn a_write_pays_firmware_link_bus_and_program() {
    let mut drive = timed::<NoMedium>(&with_controller(config()));
    assert_eq!(drive.request(T0, write_unit(3)), Ok(ns(COMMAND + LINK + TRANSFER + PROGRAM)));
}

#[test]
fn spare_bytes_travel_with_a_programmed_page() {
    let mut config = config();
    config.nand.spare_bytes = 224;
    // 4320 bytes at 800 MB/s.
    assert_eq!(timed::<NoMedium>(&config).request(T0, write_unit(0)), Ok(ns(5_400 + PROGRAM)));
}

#[test]
fn transfers_round_up_to_whole_nanoseconds() {
    let mut config = config();
    config.nand.channel_mb_s = 3_000;
    config.controller.link_mb_s = 7_000;
    // 4096 / 3 = 1365.3, 4096 / 7 = 585.1.
    assert_eq!(timed::<NoMedium>(&config).request(T0, write_unit(0)), Ok(ns(586 + 1_366 + PROGRAM)));
}

#[test]
fn a_rate_of_zero_means_no_transfer_time() {
    let mut config = config();
    config.nand.channel_mb_s = 0;
    let mut drive = timed::<NoMedium>(&config);
    assert_eq!(drive.request(T0, write_unit(0)), Ok(ns(PROGRAM)));
    assert_eq!(drive.request(ns(PROGRAM), read_unit(0)), Ok(ns(PROGRAM + READ)));
}

#[test]
fn a_read_takes_sensing_and_bus_time() {
    let mut drive = timed::<NoMedium>(&with_controller(config()));
    drive.request(T0, write_unit(3)).expect("runs");
    let now = 10_000_000;
    let expected = ns(now + COMMAND + READ + TRANSFER + LINK);
    assert_eq!(drive.request(ns(now), read_unit(3)), Ok(expected));
}

#[test]
fn a_read_of_one_sector_takes_a_whole_unit_from_flash_and_one_sector_over_the_link() {
    let mut drive = timed::<NoMedium>(&with_controller(config()));
    drive.request(T0, write_unit(3)).expect("runs");
    let now = 10_000_000;
    let expected = ns(now + COMMAND + READ + TRANSFER + 512);
    assert_eq!(drive.request(ns(now), read(3 * 8 + 5, 1)), Ok(expected));
}

#[test]
fn reads_of_unmapped_units_cost_only_firmware_and_link() {
    let mut drive = timed::<NoMedium>(&with_controller(config()));
    assert_eq!(drive.request(T0, read_unit(3)), Ok(ns(COMMAND + LINK)));
    assert_eq!(drive.stats().nand.total(NandOp::Read), 0);
}

#[test]
fn trims_and_flushes_without_a_buffer_cost_only_firmware() {
    let mut drive = timed::<NoMedium>(&with_controller(config()));
    drive.request(T0, write_unit(0)).expect("runs");
    let now = 10_000_000;
    assert_eq!(drive.request(ns(now), Request::new(Op::Trim, Lba::new(0), 80)), Ok(ns(now + COMMAND)));
    let now = 20_000_000;
    assert_eq!(drive.request(ns(now), Request::FLUSH), Ok(ns(now + 3_000)), "no range to pay for");
}

#[test]
fn the_firmware_handles_one_command_at_a_time() {
    let mut config = config();
    config.controller.command_ns = 10_000;
    let mut drive = timed::<NoMedium>(&config);
    for n in 1..=5 {
        assert_eq!(drive.request(T0, read_unit(0)), Ok(ns(n * 10_000)));
    }
}

#[test]
fn the_link_carries_one_transfer_at_a_time_in_each_direction() {
    let mut config = config();
    config.controller.link_mb_s = 1_000;
    let mut drive = timed::<NoMedium>(&config);
    let unit = Range::new(Lba::new(0), UNIT);
    // The other direction is free.
    for (tag, command) in
        (0..).zip([Command::Read { range: unit }, Command::Read { range: unit }, Command::write(unit)])
    {
        drive.submit(T0, tag, &command, None);
    }
    let mut done = Vec::new();
    drive.advance(ns(1_000_000_000), &mut done);
    let at: Vec<SimTime> = done.iter().map(|completion| completion.at).collect();
    assert_eq!(at, [ns(LINK), ns(2 * LINK), ns(LINK + TRANSFER + PROGRAM)]);
}

#[test]
fn units_of_one_page_are_read_together() {
    let mut config = config();
    config.nand.page_bytes = 16_384;
    config.ftl.logical_pages = Some(160);
    let mut drive = timed::<NoMedium>(&config);
    assert_eq!(drive.request(T0, write(0, 32)), Ok(ns(4 * TRANSFER + PROGRAM)));
    let now = 10_000_000;
    assert_eq!(drive.request(ns(now), read(0, 32)), Ok(ns(now + READ + 4 * TRANSFER)));
    assert_eq!(drive.request(ns(2 * now), read(8, 16)), Ok(ns(2 * now + READ + 2 * TRANSFER)));
    assert_eq!(drive.stats().nand.get(NandOp::Read, Cause::Host), 2);
}

#[test]
fn a_partial_write_waits_for_the_read_of_the_old_content() {
    let mut drive = timed::<NoMedium>(&with_controller(config()));
    drive.request(T0, write_unit(0)).expect("runs");
    drive.request(ns(5_000_000), write_unit(1)).expect("runs");
    let now = 10_000_000;
    let received = now + COMMAND + 512;
    let expected = received + READ + TRANSFER + TRANSFER + PROGRAM;
    assert_eq!(drive.request(ns(now), write(2, 1)), Ok(ns(expected)));
    // Both ends of a range are read, one after the other on one die, before the programs start.
    let now = 20_000_000;
    let received = now + COMMAND + 1_024;
    let expected = received + 2 * (READ + TRANSFER) + 2 * (TRANSFER + PROGRAM);
    assert_eq!(drive.request(ns(now), write(7, 2)), Ok(ns(expected)));
    assert_eq!(drive.stats().host.read_modify_writes, 3);
    assert_eq!(drive.stats().nand.get(NandOp::Read, Cause::Host), 3);
}

#[test]
fn a_partial_write_waits_for_its_read_even_on_another_die() {
    let mut drive = timed::<NoMedium>(&shaped(2, 1, 1));
    // Unit 0 is on the first die, so the third write uses that die and the fourth the second.
    for unit in [0, 1, 2] {
        drive.request(ns(unit * 5_000_000), write_unit(unit)).expect("runs");
    }
    let now = 50_000_000;
    let expected = now + READ + TRANSFER + TRANSFER + PROGRAM;
    assert_eq!(drive.request(ns(now), write(3, 2)), Ok(ns(expected)));
}

#[test]
fn a_new_latency_window_forgets_the_old_one() {
    let mut engine = build(&config(), true, 1).expect("valid");
    let mut queue = closed(1);
    engine.run(&fill(20), &[], &mut queue).expect("runs");
    engine.clear_latency();
    assert_eq!((engine.latency().of(Op::Write).count(), engine.latency().of(Op::Write).mean()), (0, 0.0));
    engine.run(&[read_unit(0), read_unit(100)], &[], &mut queue).expect("runs");
    assert_eq!(engine.latency().of(Op::Read).count(), 2);
    assert_eq!(engine.latency().of(Op::Read).mean(), (READ + TRANSFER) as f64 / 2.0, "one is unmapped");
    engine.run(&[write_unit(0)], &[], &mut queue).expect("runs");
    assert_eq!(engine.latency().of(Op::Write).mean(), (TRANSFER + PROGRAM) as f64);
}

#[test]
fn a_partial_write_of_an_unmapped_unit_reads_no_flash() {
    let mut drive = timed::<NoMedium>(&config());
    assert_eq!(drive.request(T0, write(2, 1)), Ok(ns(TRANSFER + PROGRAM)));
}

#[test]
fn one_die_serves_any_queue_depth_serially() {
    for depth in [1, 2, 7, 64] {
        assert_eq!(finish(&config(), depth, &fill(100)), 100 * (TRANSFER + PROGRAM), "depth {depth}");
    }
}

#[test]
fn n_dies_on_n_channels_give_n_times_the_throughput() {
    for dies in [2, 3, 8] {
        let config = shaped(dies, 1, 1);
        let rounds = 12;
        let requests = fill(u64::from(dies) * rounds);
        assert_eq!(finish(&config, dies, &requests), rounds * (TRANSFER + PROGRAM), "{dies} dies");
        let serial = u64::from(dies) * rounds * (TRANSFER + PROGRAM);
        assert_eq!(finish(&config, 1, &requests), serial, "{dies} dies at queue depth 1");
    }
}

#[test]
fn n_dies_on_one_free_bus_give_n_times_the_throughput() {
    let mut config = shaped(1, 4, 1);
    config.nand.channel_mb_s = 0;
    assert_eq!(finish(&config, 4, &fill(40)), 10 * PROGRAM);
}

#[test]
fn reads_on_n_dies_give_n_times_the_throughput() {
    for dies in [1, 2, 8] {
        let mut engine = build(&shaped(dies, 1, 1), true, 1).expect("valid");
        let units = u64::from(dies) * 12;
        let mut queue = closed(dies);
        engine.run(&fill(units), &[], &mut queue).expect("runs");
        let mut queue = HostQueue::new(Pacing::Closed { depth: dies, interval_ns: 0 }, ns(1_000_000_000));
        let reads: Vec<Request> = (0..units).map(read_unit).collect();
        engine.run(&reads, &[], &mut queue).expect("runs");
        assert_eq!(queue.finished().since(ns(1_000_000_000)), 12 * (READ + TRANSFER), "{dies} dies");
    }
}

#[test]
fn many_dies_on_one_channel_are_bound_by_its_bus() {
    for dies in [3, 8] {
        let mut config = shaped(1, dies, 1);
        // 81,920 ns per page: the bus is busier than the dies as soon as three share it.
        config.nand.channel_mb_s = 50;
        config.nand.program_ns = 150_000.into();
        let count = u64::from(dies) * 10;
        assert_eq!(finish(&config, dies, &fill(count)), count * 81_920 + 150_000, "{dies} dies");
        assert_eq!(finish(&config, 4 * dies, &fill(count)), count * 81_920 + 150_000, "{dies} dies, deep");
    }
}

#[test]
fn planes_multiply_the_throughput_when_the_bus_is_free() {
    for planes in [2, 4] {
        let mut config = shaped(1, 1, planes);
        config.nand.channel_mb_s = 0;
        assert_eq!(finish(&config, planes, &fill(u64::from(planes) * 16)), 16 * PROGRAM, "{planes} planes");
    }
}

#[test]
fn one_command_over_all_planes_pays_each_transfer_and_one_program() {
    for planes in [2, 4] {
        let mut drive = timed::<NoMedium>(&shaped(1, 1, planes));
        let stripe = u64::from(planes) * TRANSFER + PROGRAM;
        let mut now = T0;
        for n in 0..10 {
            let request = write(u64::from(n * planes * UNIT), planes * UNIT);
            let done = drive.request(now, request).expect("runs");
            assert_eq!(done.since(now), stripe, "{planes} planes");
            now = done;
        }
        // Reads of the same page on all planes sense together.
        let done = drive.request(now, read(0, planes * UNIT)).expect("runs");
        assert_eq!(done.since(now), READ + u64::from(planes) * TRANSFER);
    }
}

#[test]
fn cache_program_hides_all_transfers_but_the_first() {
    let mut config = config();
    config.nand.cache_program = true;
    assert_eq!(finish(&config, 4, &fill(100)), TRANSFER + 100 * PROGRAM);
    // At queue depth 1 nothing overlaps.
    assert_eq!(finish(&config, 1, &fill(100)), 100 * (TRANSFER + PROGRAM));
}

#[test]
fn a_rate_limit_spaces_the_requests() {
    let interval_ns = 1_000_000;
    for depth in [0, 1, 2, 16] {
        let mut engine = build(&config(), true, 1).expect("valid");
        let mut queue = HostQueue::new(Pacing::Closed { depth, interval_ns }, T0);
        engine.run(&fill(50), &[], &mut queue).expect("runs");
        assert_eq!(queue.now(), ns(49 * interval_ns), "depth {depth}");
        assert_eq!(queue.finished(), ns(49 * interval_ns + TRANSFER + PROGRAM), "depth {depth}");
        assert_eq!(engine.latency().of(Op::Write).mean(), (TRANSFER + PROGRAM) as f64, "depth {depth}");
    }
}

#[test]
fn a_rate_above_what_the_drive_can_do_limits_nothing() {
    for depth in [1, 4] {
        let mut engine = build(&config(), true, 1).expect("valid");
        let mut queue = HostQueue::new(Pacing::Closed { depth, interval_ns: 1_000 }, T0);
        engine.run(&fill(50), &[], &mut queue).expect("runs");
        assert_eq!(queue.finished(), ns(50 * (TRANSFER + PROGRAM)), "depth {depth}");
    }
}

#[test]
fn queue_depth_zero_is_queue_depth_one() {
    let latency = |depth| {
        let mut engine = build(&config(), true, 1).expect("valid");
        engine.run(&fill(50), &[], &mut closed(depth)).expect("runs");
        engine.latency().of(Op::Write).mean()
    };
    assert_eq!(latency(0), latency(1));
    assert_eq!(latency(1), (TRANSFER + PROGRAM) as f64);
}

#[test]
fn mean_latency_grows_with_the_queue_on_one_die() {
    // Little's law: with depth q always outstanding, latency is q times the service time, except for the
    // first q requests, which find fewer before them.
    let service = (TRANSFER + PROGRAM) as f64;
    for depth in [1u32, 2, 8] {
        let mut engine = build(&config(), true, 1).expect("valid");
        engine.run(&fill(100), &[], &mut closed(depth)).expect("runs");
        let depth = f64::from(depth);
        let expected = (depth * (depth + 1.0) / 2.0 + (100.0 - depth) * depth) * service / 100.0;
        assert_eq!(engine.latency().of(Op::Write).mean(), expected);
    }
}

#[test]
fn open_loop_latency_is_waiting_plus_service() {
    let service = TRANSFER + PROGRAM;
    let mut engine = build(&config(), true, 1).expect("valid");
    let arrivals: Vec<SimTime> = (0..10).map(|n| ns(n * service / 2)).collect();
    let mut queue = HostQueue::new(Pacing::Open, T0);
    engine.run(&fill(10), &arrivals, &mut queue).expect("runs");
    assert_eq!(queue.finished(), ns(10 * service));
    // Request n completes at (n + 1) services and arrived at n / 2.
    let expected = (0..10).map(|n| (n + 1) * service - n * service / 2).sum::<u64>() as f64 / 10.0;
    assert_eq!(engine.latency().of(Op::Write).mean(), expected);
}

/// Transfers are one unit per read and one page per program.
#[test]
fn virtual_time_of_a_single_die_is_the_sum_of_its_operations() {
    for (victim, stream_host) in
        [("greedy", false), ("fifo", true), ("cost-benefit", false), ("random", true)]
    {
        for depth in [1, 5] {
            let mut config = config();
            config.ftl.gc.victim = victim.to_owned();
            if stream_host {
                config.ftl.gc.stream = strobe_ssd::GcStream::Host;
            }
            let mut requests = unit_writes(160, 4000, 6);
            requests.extend(mixed_requests(160 * 8, UNIT, 2000, 7));
            let mut engine = build(&config, true, 1).expect("valid");
            let mut queue = closed(depth);
            engine.run(&requests, &[], &mut queue).expect("runs");
            let nand = engine.stats().nand;
            let busy = nand.total(NandOp::Read) * (READ + TRANSFER)
                + nand.total(NandOp::Program) * (TRANSFER + PROGRAM)
                + nand.total(NandOp::Erase) * ERASE;
            assert!(nand.total(NandOp::Erase) > 300);
            assert_eq!(queue.finished().as_ns(), busy, "{victim}, depth {depth}");
        }
    }
}

#[test]
fn garbage_collection_lengthens_the_latency_of_the_write_that_needs_it() {
    let mut drive = timed::<NoMedium>(&config());
    let mut now = T0;
    let mut longest = 0;
    for request in unit_writes(160, 3000, 8) {
        let before = drive.stats();
        let done = drive.request(now, request).expect("runs");
        let work = drive.stats().since(&before);
        let expected = work.nand.total(NandOp::Read) * (READ + TRANSFER)
            + work.nand.total(NandOp::Program) * (TRANSFER + PROGRAM)
            + work.nand.total(NandOp::Erase) * ERASE;
        assert_eq!(done.since(now), expected, "the latency of each write is its own work");
        assert_eq!(work.background_ns(), expected - (TRANSFER + PROGRAM));
        longest = longest.max(done.since(now));
        now = done;
    }
    assert!(longest > ERASE + PROGRAM);
}

fn shapes() -> Vec<DriveConfig> {
    let mut shapes = Vec::new();
    for (channels, dies, planes) in [(1, 1, 1), (2, 2, 1), (1, 2, 2), (3, 1, 4)] {
        for (buffer_units, page_bytes) in [(0, 4096), (1, 4096), (13, 4096), (0, 8192), (40, 16384)] {
            let mut config = with_controller(buffered(shaped(channels, dies, planes), buffer_units));
            config.nand.page_bytes = page_bytes;
            config.nand.cache_program = planes == 2;
            shapes.push(config);
        }
    }
    shapes
}

#[test]
fn nothing_completes_before_it_is_issued() {
    for config in shapes() {
        let mut drive = timed::<NoMedium>(&config);
        let mut rng = Prng::new(2);
        let mut now = T0;
        for request in mixed_requests(160 * 8, UNIT, 4000, 2) {
            let done = drive.request(now, request).expect("runs");
            assert!(done >= now + 3_000, "{request:?}: the firmware alone takes longer");
            // Bursts and pauses.
            if rng.chance(0.3) {
                now = if rng.chance(0.5) { now.max(done) } else { now + u64::from(rng.below(3_000_000)) };
            }
        }
    }
}

#[test]
fn the_same_run_takes_the_same_times() {
    for config in shapes() {
        let requests = mixed_requests(160 * 8, UNIT, 2000, 3);
        let times = || {
            let mut drive = timed::<NoMedium>(&config);
            let mut queue = closed(6);
            let step = |request: &Request| {
                let done = drive.request(queue.issue(None), *request).expect("runs");
                queue.complete(done);
                done
            };
            requests.iter().map(step).collect::<Vec<SimTime>>()
        };
        assert_eq!(times(), times());
    }
}

#[test]
fn latencies_and_elapsed_time_agree_at_queue_depth_one() {
    for config in shapes() {
        let mut engine = build(&config, true, 1).expect("valid");
        let mut queue = closed(1);
        engine.run(&mixed_requests(160 * 8, UNIT, 3000, 4), &[], &mut queue).expect("runs");
        let total: f64 = Op::ALL
            .iter()
            .map(|&op| engine.latency().of(op).mean() * engine.latency().of(op).count() as f64)
            .sum();
        let elapsed = queue.finished().as_ns() as f64;
        assert!((total / elapsed - 1.0).abs() < 1e-9, "{total} against {elapsed}");
    }
}
