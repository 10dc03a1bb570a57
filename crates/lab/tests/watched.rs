//! Traces and file systems recorded in intervals: nothing else changes, and the intervals add up.

use std::fmt::Write as _;
use std::path::Path;

use strobe_lab::{Experiment, RunResult, runner};
use strobe_ssd::{Command, DriveConfig, Range, Simulated, build};
use strobe_types::{Lba, Op, Prng, Request, SimTime};

const DRIVE: &str = "
[drive.nand]
channels = 2
dies_per_channel = 2
planes_per_die = 1
blocks_per_plane = 20
pages_per_block = 32
page_bytes = 4096
read_ns = 60_000
program_ns = 400_000
erase_ns = 3_000_000
channel_mb_s = 400
[drive.ftl]
over_provisioning = 0.6
";

type Row = (u64, &'static str, u64, u64);

fn rows(seed: u64, count: u32, gap_ns: u64) -> Vec<Row> {
    let mut rng = Prng::new(seed);
    let mut now = 0;
    let row = |_| {
        if rng.below(4) > 0 {
            now += rng.below_u64(2 * gap_ns);
        }
        let (sector, sectors) = (rng.below_u64(11_000), 1 + rng.below_u64(24));
        match rng.below(16) {
            0..=3 => (now, "read", sector, sectors),
            4 => (now, "trim", sector / 8 * 8, 64),
            5 => (now, "flush", 0, 0),
            6 => (now, "meta", sector / 8 * 8, 8),
            _ => (now, "write", sector / 8 * 8, 8 + sectors / 8 * 8),
        }
    };
    (0..count).map(row).collect()
}

fn trace(rows: &[Row]) -> String {
    let mut out = "strobe trace 1\n".to_owned();
    for (time, op, sector, sectors) in rows {
        let _ = match *op {
            "flush" => writeln!(out, "{time} flush"),
            _ => writeln!(out, "{time} {op} {} {}", sector * 512, sectors * 512),
        };
    }
    out
}

fn run(text: &str, folder: &Path) -> RunResult {
    let experiment = Experiment::from_table(text.parse().expect("TOML"), &[], folder);
    let experiment = experiment.unwrap_or_else(|error| panic!("{error}\n{text}"));
    runner::run(&experiment, &mut ()).unwrap_or_else(|error| panic!("{error}\n{text}")).reproducible()
}

fn both(text: &str, interval: &str, folder: &Path) -> RunResult {
    let plain = run(text, folder);
    let watched = run(&text.replace("[run]", &format!("[run]\ninterval = \"{interval}\"")), folder);
    let mut same = watched.clone();
    (same.config, same.config_hash) = (plain.config.clone(), plain.config_hash.clone());
    same.intervals.clear();
    assert_eq!(same, plain, "{text}");
    assert!(!watched.intervals.is_empty());
    watched
}

fn assert_sum(what: &str, found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{what}: {found}, not {expected}");
}

const DEPTH_MAX: f64 = 9.0;

fn assert_adds_up(result: &RunResult, has_copies: bool) {
    let all = &result.intervals;
    assert!(all.windows(2).all(|pair| pair[0].end_ns == pair[1].start_ns));
    assert!(all.iter().all(|interval| interval.backlog == 0));
    let warm = all.iter().take_while(|interval| !interval.measured).count();
    let all = &all[warm..];
    assert!(all.iter().all(|interval| interval.measured));
    let span = all.last().expect("intervals").end_ns - all[0].start_ns;
    assert_eq!(span, result.time.virtual_ns);
    let seconds = |at: usize| (all[at].end_ns - all[at].start_ns) as f64 / 1e9;
    let sum = |value: &dyn Fn(usize) -> f64| (0..all.len()).map(|at| value(at) * seconds(at)).sum::<f64>();
    let job = &result.jobs[0];
    assert_sum("reads", sum(&|at| all[at].read.iops), job.read.total_ios as f64);
    assert_sum("writes", sum(&|at| all[at].write.iops), job.write.total_ios as f64);
    assert_sum("trims", sum(&|at| all[at].trim.iops), job.trim.total_ios as f64);
    assert_sum("flushes", sum(&|at| all[at].sync.iops), job.sync.total_ios as f64);
    let bytes = sum(&|at| all[at].write.bw_bytes as f64);
    // Bytes per second are rounded to whole numbers.
    assert!((bytes - job.write.io_bytes as f64).abs() <= all.len() as f64, "{bytes}");
    if !has_copies {
        let [read, write, trim] =
            [&job.read, &job.write, &job.trim].map(|op| op.clat_ns.mean * op.total_ios as f64);
        let sync = job.sync.lat_ns.mean * job.sync.total_ios as f64;
        let outstanding = sum(&|at| all[at].queue_depth * 1e9);
        let latencies = read + write + trim + sync;
        // Requests outstanding at the begin count with all of their time, those at the end with none.
        let longest = [&job.read.clat_ns, &job.write.clat_ns, &job.trim.clat_ns, &job.sync.lat_ns];
        let longest = longest.map(|latency| latency.max).into_iter().max().unwrap_or(0);
        let straddling =
            if warm > 0 || result.partial { DEPTH_MAX * longest as f64 } else { 1e-9 * latencies };
        assert!((outstanding - latencies).abs() <= straddling, "{outstanding} ns outstanding, {latencies}");
    }
    let held = sum(&|at| all[at].busy_dies * 1e9);
    assert_sum("time of dies", held, result.dies.as_ref().expect("times").held_ns as f64);
}

#[test]
fn a_trace_runs_as_it_does_unwatched_and_its_intervals_add_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let drives = [
        "",
        "die_allocation = 'free-first'\n[drive.controller]\nwrite_buffer_bytes = 65536\ncommand_ns = 1000",
        "copy_mode = 'logical'\n[drive.ftl.gc]\nmode = 'stop-the-world'",
        "[drive.controller]\nlink_mb_s = 1000\n[drive.controller.nvram]\nbytes = 65536\npolicy = 'hint'",
        "mapping = 'dftl'\n[drive.ftl.translation]\ncached_entries = 50",
    ];
    let hosts = [
        "",
        "repeat = 3\ntrim_ranges = 4",
        "pacing = 'closed'",
        "pacing = 'closed'\nqueue_depth = 7\nrepeat = 2",
        "pacing = 'closed'\nqueue_depth = 3\nrate_iops = 4000",
    ];
    let mut collected = 0;
    for (at, (drive, host)) in drives.iter().flat_map(|drive| hosts.map(|host| (drive, host))).enumerate() {
        let rows = rows(at as u64, 3000, 300_000);
        std::fs::write(folder.path().join("it.trace"), trace(&rows)).expect("written");
        let text = format!(
            "{DRIVE}{drive}\n[workload]\nkind = 'trace'\npath = 'it.trace'\nformat = 'strobe'\n{host}\n\
             [run]\nprefill = true\nprecondition = '1x'\n{}",
            // In open loop a warm-up leaves any number of requests outstanding.
            if host.contains("closed") && at % 2 == 0 { "warmup = '1000 requests'" } else { "" }
        );
        let result = both(&text, ["10ms", "777us", "1s"][at % 3], folder.path());
        assert_adds_up(&result, false);
        collected += u32::from(result.gc.victims > 0);
    }
    assert!(collected > 20, "garbage was collected in {collected} runs");
}

type Counts = ([u64; 4], u64);

fn by_hand(config: &DriveConfig, rows: &[Row], length_ns: u64) -> Vec<Counts> {
    let mut drive = build(config, true, 1).expect("builds");
    let mut issued = Vec::new();
    let mut bins: Vec<Counts> = Vec::new();
    let mut take = |drive: &mut Box<dyn Simulated>, until, issued: &[(u64, Op)]| {
        let mut done = Vec::new();
        drive.advance(until, &mut done);
        for completion in done {
            completion.result.expect("served");
            let (at, op) = issued[completion.tag as usize];
            let bin = (completion.at.as_ns() / length_ns) as usize;
            bins.resize(bins.len().max(bin + 1), Counts::default());
            bins[bin].0[op as usize] += 1;
            bins[bin].1 = bins[bin].1.max(completion.at.as_ns() - at);
        }
    };
    for &(time, op, sector, sectors) in rows {
        let now = SimTime::from_ns(time);
        while let Some(next) = drive.next_event().filter(|&next| next < now) {
            take(&mut drive, next, &issued);
        }
        let range = [Range::new(Lba::new(sector), sectors as u32)];
        let op = match op {
            "read" => Op::Read,
            "trim" => Op::Trim,
            "flush" => Op::Flush,
            _ => Op::Write,
        };
        issued.push((time, op));
        let request = Request::new(op, range[0].lba, range[0].sectors);
        drive.submit(now, issued.len() as u64 - 1, &Command::of_request(&request, &range), None);
        while drive.has_completion(now) {
            take(&mut drive, now, &issued);
        }
    }
    while let Some(next) = drive.next_event() {
        take(&mut drive, next, &issued);
    }
    bins
}

#[test]
fn intervals_of_a_trace_hold_what_is_counted_by_hand() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = rows(7, 5000, 200_000);
    std::fs::write(folder.path().join("it.trace"), trace(&rows)).expect("written");
    let text = format!(
        "{DRIVE}[workload]\nkind = 'trace'\npath = 'it.trace'\nformat = 'strobe'\n[run]\nprefill = false\n\
         interval = '5ms'\n"
    );
    let result = run(&text, folder.path());
    let config = &result.config.drive;
    let bins = by_hand(config, &rows, 5_000_000);
    assert!(bins.len() > 100);
    let found: Vec<Counts> = result
        .intervals
        .iter()
        .map(|interval| {
            let ops = [&interval.read, &interval.write, &interval.trim, &interval.sync];
            let seconds = (interval.end_ns - interval.start_ns) as f64 / 1e9;
            let counts = ops.map(|op| (op.iops * seconds).round() as u64);
            (counts, ops.iter().filter_map(|op| op.max_ns).max().unwrap_or(0))
        })
        .collect();
    // Latencies are exact to three digits; the drive may settle in an extra interval.
    for (at, (counted, longest)) in found.iter().enumerate() {
        let (expected, most) = bins.get(at).copied().unwrap_or_default();
        assert_eq!(counted, &expected, "interval {at}");
        assert!(longest.abs_diff(most) <= most / 100, "interval {at}: {longest} ns, not {most}");
    }
    assert!(found.len() >= bins.len());
}

#[test]
fn a_file_system_runs_as_it_does_unwatched() {
    for cleaning in ["move", "copy"] {
        let text = format!(
            "[drive]\npreset = 'jasmine-4g'\n[drive.nand]\nblocks_per_plane = 76\npages_per_block = 16\n\
             endurance_pe = 0\n[drive.ftl]\nlogical_pages = 16_384\ncopy_mode = 'logical'\n\
             virtual_map_entries = 1024\n[workload]\nkind = 'lfs'\nsegment_bytes = 131_072\n\
             cleaned_segments = 8\nutilization = 0.7\ncleaning = '{cleaning}'\n[run]\nwarmup = '1x'\n\
             measure = '0.5x'\n"
        );
        let result = both(&text, "100ms", Path::new(""));
        assert_adds_up(&result, true);
    }
}

#[test]
fn power_cuts_come_at_the_same_operations_when_somebody_looks() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = rows(3, 4000, 300_000);
    std::fs::write(folder.path().join("it.trace"), trace(&rows)).expect("written");
    let drive = DRIVE.replace("[drive.ftl]", "data = 'stamp'\n[drive.ftl]\ndurable_map = true");
    let text = format!(
        "{drive}[workload]\nkind = 'trace'\npath = 'it.trace'\nformat = 'strobe'\n[run]\nprefill = true\n\
         [power]\ncut_every = 500\n"
    );
    let result = both(&text, "10ms", folder.path());
    assert!(result.power_cuts.len() > 3, "{}", result.power_cuts.len());
}

#[test]
fn a_run_that_is_stopped_keeps_the_intervals_that_it_had() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("it.trace"), trace(&rows(5, 60_000, 300_000))).expect("written");
    let text = format!(
        "{DRIVE}[workload]\nkind = 'trace'\npath = 'it.trace'\nformat = 'strobe'\n[run]\ninterval = '10ms'\n"
    );
    struct Impatient;
    impl runner::Observer for Impatient {
        fn progress(&mut self, progress: runner::Progress) -> std::ops::ControlFlow<()> {
            if progress.phase == "measure" {
                std::ops::ControlFlow::Break(())
            } else {
                std::ops::ControlFlow::Continue(())
            }
        }
    }
    let experiment = Experiment::from_table(text.parse().expect("TOML"), &[], folder.path()).expect("valid");
    let result = runner::run(&experiment, &mut Impatient).expect("runs");
    assert!(result.partial);
    assert_adds_up(&result, false);
}

#[test]
fn a_generator_runs_as_it_does_unwatched_from_its_warm_up_on() {
    for (at, rest) in [
        "",
        "queue_depth = 9\nwrite_fraction = 0.7\nflush_every = 11",
        "queue_depth = 4\ntrim_fraction = 0.2\ntrim_ranges = 5",
    ]
    .iter()
    .enumerate()
    {
        let drive = format!("{DRIVE}[drive.controller]\nwrite_buffer_bytes = 131072\n");
        let text =
            format!("{drive}[workload]\nkind = 'uniform'\n{rest}\n[run]\nwarmup = '1x'\nmeasure = '2x'\n");
        let result = both(&text, ["20ms", "3ms", "7ms"][at], Path::new(""));
        let measured = result.intervals.iter().filter(|interval| interval.measured).count();
        let warm = result.intervals.len() - measured;
        assert!(warm > 10 && measured > 10, "{warm} {measured}");
        assert_adds_up(&result, false);
    }
}
