//! Latency and jitter of commands, which occupy nothing.

use strobe_nand::NoMedium;
use strobe_ssd::{Command, Completion, Device, DriveConfig, Range, build};
use strobe_types::{Lba, SimTime};

use crate::setup::{Host as _, PROGRAM, READ, T0, TRANSFER, config, read_unit, timed, write_unit};

fn ns(n: u64) -> SimTime {
    SimTime::from_ns(n)
}

#[test]
fn every_command_is_complete_so_much_later_and_keeps_nobody_waiting() {
    let mut config = config();
    config.controller.latency_ns = 7_000;
    let mut drive = timed::<NoMedium>(&config);
    assert_eq!(drive.request(T0, write_unit(3)), Ok(ns(TRANSFER + PROGRAM + 7_000)));
    let at = ns(10_000_000);
    assert_eq!(drive.request(at, read_unit(3)), Ok(at + (READ + TRANSFER + 7_000)));
    // Of two at once, the second waits for the die only.
    let range = |unit: u64| Range::new(Lba::new(8 * unit), 8);
    let at = ns(20_000_000);
    for tag in 0..2 {
        drive.submit(at, tag, &Command::Read { range: range(3) }, None);
    }
    let mut done = Vec::new();
    drive.advance(ns(30_000_000), &mut done);
    let times: Vec<u64> = done.iter().map(|done: &Completion| done.at.since(at)).collect();
    assert_eq!(times, [READ + TRANSFER + 7_000, 2 * (READ + TRANSFER) + 7_000]);
}

fn variations(config: &DriveConfig, seed: u64, count: usize) -> Vec<u64> {
    let mut drive = build(config, true, seed).expect("valid");
    let read = Command::Read { range: Range::new(Lba::new(0), 8) };
    let mut now = T0;
    (0..count)
        .map(|_| {
            let done = drive.execute(now, &read).expect("reads");
            let latency = done.since(now);
            now = done;
            latency - config.controller.latency_ns
        })
        .collect()
}

#[test]
fn the_variation_is_exponential_and_that_of_the_seed() {
    let mut config = config();
    (config.controller.latency_ns, config.controller.jitter_ns) = (9_000, 1_000);
    let mut found = variations(&config, 1, 40_000);
    assert_eq!(found, variations(&config, 1, 40_000));
    assert_ne!(found, variations(&config, 2, 40_000));
    let mean = found.iter().sum::<u64>() as f64 / found.len() as f64;
    assert!((mean - 1_000.0).abs() < 20.0, "{mean}");
    found.sort_unstable();
    // Quantiles of an exponential distribution, in multiples of the mean.
    for (share, means) in [(0.5, 0.693), (0.9, 2.303), (0.99, 4.605), (0.999, 6.908)] {
        let percentile = found[(share * found.len() as f64) as usize] as f64 / 1_000.0;
        assert!((percentile / means - 1.0).abs() < 0.12, "{share}: {percentile}, {means}");
    }
}

#[test]
fn writes_vary_by_more() {
    let mut config = config();
    config.controller.write_buffer_bytes = 1 << 20;
    (config.controller.latency_ns, config.controller.write_jitter_ns) = (9_000, 4_000);
    // Reads do not.
    assert!(variations(&config, 1, 100).windows(2).all(|two| two[0] == two[1]));
    let mut sums = Vec::new();
    for jitter_ns in [0, 1_000] {
        config.controller.jitter_ns = jitter_ns;
        let mut drive = build(&config, true, 1).expect("valid");
        let latency = |at: u64| {
            // Far enough apart that each finds an idle drive.
            let (now, range) = (ns(at * 100_000_000), Range::new(Lba::new(8 * (at % 16)), 8));
            drive.execute(now, &Command::write(range)).expect("writes").since(now)
        };
        let found: Vec<u64> = (0..20_000).map(latency).collect();
        let least = found.iter().min().expect("some");
        sums.push(found.iter().map(|latency| latency - least).sum::<u64>() as f64 / found.len() as f64);
    }
    assert!((sums[0] / 4_000.0 - 1.0).abs() < 0.03 && (sums[1] / 5_000.0 - 1.0).abs() < 0.03, "{sums:?}");
}

#[test]
fn runs_that_only_count_take_no_time() {
    let mut config = config();
    (config.controller.latency_ns, config.controller.jitter_ns) = (9_000, 1_000);
    let mut drive = build(&config, false, 1).expect("valid");
    let write = Command::write(Range::new(Lba::new(0), 8));
    assert_eq!(drive.execute(T0, &write).map(SimTime::as_ns), Ok(0));
}
