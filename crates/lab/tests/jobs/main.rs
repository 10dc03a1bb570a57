//! Several jobs on one drive: checked against closed forms, a naive host, and each other.

mod naive;
mod ticking;

use strobe_lab::result::{Job, RunResult};
use strobe_lab::timeline::Interval;
use strobe_lab::{Experiment, Time, runner};
use strobe_workload::oracle::md1_wait_ns;

/// One die that serves every read in 60 µs: a single server of queueing theory.
const SERVER: &str = "
[drive]
preset = \"generic-8g\"
[drive.nand]
blocks_per_plane = 64
channel_mb_s = 0
";
const SERVICE_NS: u64 = 60_000;

fn experiment(text: &str) -> Experiment {
    // Keys of the bus are refused without timing.
    let counts = text.contains("timing = false");
    let text =
        format!("{}{text}", if counts { SERVER.replace("channel_mb_s = 0", "") } else { SERVER.to_owned() });
    Experiment::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn run(text: &str) -> RunResult {
    let result = runner::run(&experiment(text), &mut ()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    result.reproducible()
}

fn assert_near(what: &str, found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() <= tolerance, "{what}: {found}, expected {expected}");
}

#[test]
fn poisson_reads_on_one_die_wait_as_long_as_in_an_m_d_1_queue() {
    for (rho, requests) in [(0.3, 400_000), (0.6, 1_000_000), (0.8, 3_000_000)] {
        let rate_iops = (rho * 1e9 / SERVICE_NS as f64).round() as u32;
        let result = run(&format!(
            "[workload]\nrw = \"randread\"\niodepth = 65536\nrate_iops = {rate_iops}\nrate_process = \"poisson\"\n\
             [run]\nwarmup = 10000\nmeasure = {requests}"
        ));
        let read = &result.jobs[0].read;
        let waited = read.clat_ns.mean - SERVICE_NS as f64;
        let rho = f64::from(rate_iops) * SERVICE_NS as f64 / 1e9;
        let expected = md1_wait_ns(rho, SERVICE_NS as f64).expect("a share");
        assert_near(&format!("waiting at {rho}"), waited, expected, 0.01);
        // The queue is deep enough that no request waits outside the drive.
        let lat_ns = read.lat_ns.as_ref().expect("an open loop");
        assert_eq!(lat_ns, &read.clat_ns);
        let load = result.load.expect("an open loop");
        assert!(load.kept_up && load.backlog == Some(0), "{load:?}");
        assert_near("requests per second", load.completed_iops, f64::from(rate_iops), 0.01);
    }
}

#[test]
fn jobs_end_with_their_bytes_and_a_stonewall_waits_for_them() {
    let text = "[workload]\nrw = \"read\"\n[[jobs]]\nname = \"first\"\nio_bytes = 409600\nend_flush = true\n\
         [[jobs]]\nname = \"late\"\nstonewall = true\nstartdelay = \"1ms\"\nio_bytes = 204800\n\
         [[jobs]]\nname = \"soon\"\nio_bytes = 40960\n";
    let result = run(text);
    let of = |job: &Job| (job.jobname.clone(), job.read.total_ios, job.sync.total_ios, job.read.runtime);
    let jobs: Vec<_> = result.jobs.iter().map(of).collect();
    let expected = [("first", 100, 1, 6), ("late", 50, 0, 3), ("soon", 10, 0, 0)];
    assert_eq!(jobs, expected.map(|(name, reads, flushes, ms)| (name.to_owned(), reads, flushes, ms)));
    // 100 reads, and a millisecond later 50 more, which overlap with the ten others.
    assert_eq!(result.time.virtual_ns, 100 * SERVICE_NS + 1_000_000 + 50 * SERVICE_NS);
    // The window may begin in either group.
    for (warmup, reads) in [("3ms", [51, 50, 10]), ("8ms", [0, 34, 0])] {
        let result = run(&format!("{text}[run]\nwarmup = \"{warmup}\"\n"));
        let counts: Vec<u64> = result.jobs.iter().map(|job| job.read.total_ios).collect();
        assert_eq!(counts, reads, "{warmup}");
    }
    let late = "[[jobs]]\nname = \"late\"\nrw = \"read\"\nstartdelay = \"1s\"\nio_bytes = 4096000\n";
    assert_eq!(run(late).jobs[0].read.runtime, 1000 * SERVICE_NS / 1_000_000, "without its delay");
    for (job, cure) in [("stonewall = true", "jobs[0].runtime"), ("end_flush = true", "jobs[1].end_flush")] {
        let text = format!("[[jobs]]\nname = \"a\"\n[[jobs]]\nname = \"b\"\n{job}\n");
        assert!(Experiment::from_toml(&text).expect_err("no end").to_string().contains(cure), "{job}");
    }
}

#[test]
fn a_deeper_queue_moves_the_waiting_to_the_drive_and_no_more() {
    let with_depth = |depth: u32| {
        run(&format!(
            "[workload]\nrw = \"randread\"\niodepth = {depth}\nrate_iops = 12000\nrate_process = \"poisson\"\n\
             [run]\nmeasure = 200000"
        ))
    };
    let (one, many) = (with_depth(1), with_depth(1000));
    let latency = |result: &RunResult| result.jobs[0].read.lat_ns.clone().expect("an open loop");
    assert_eq!(latency(&one), latency(&many), "one server, one line");
    assert_eq!(one.jobs[0].read.clat_ns.max, SERVICE_NS);
    assert!(many.jobs[0].read.clat_ns.max > SERVICE_NS);
}

#[test]
fn a_burst_is_caught_up_with() {
    // Three times the drive's capacity for 10 ms, then a third of it.
    let points =
        "[{ at = \"0s\", iops = 50_000 }, { at = \"10ms\", iops = 50_000 }, { at = \"10ms\", iops = 5000 }]";
    let text = format!(
        "[workload]\nrw = \"randread\"\niodepth = 4\nrate_points = {points}\nrate_repeat = \"100ms\"\n\
         [run]\nmeasure = \"10s\"\ninterval = \"5ms\""
    );
    let result = run(&text);
    let load = result.jobs[0].load.expect("an open loop");
    assert_eq!(load.offered, 100 * (500 + 450));
    assert_eq!((load.served, load.backlog, load.kept_up), (load.offered, 0, true));
    let lat_ns = result.jobs[0].read.lat_ns.as_ref().expect("an open loop");
    // 500 requests arrive in 10 ms, and 166 of them complete: the last waits for 20 ms.
    assert!((19_000_000..21_500_000).contains(&lat_ns.max), "{}", lat_ns.max);
    assert!(result.jobs[0].read.clat_ns.max <= 4 * SERVICE_NS, "four at the drive, the others wait outside");
    let most = result.intervals.iter().map(|interval| interval.backlog).max();
    assert!((300..340).contains(&most.expect("intervals")), "{most:?}");
}

#[test]
fn an_overloaded_drive_is_said_to_be_one() {
    let result = run("[workload]\nrw = \"randread\"\nrate_process = \"poisson\"\n\
                      [[jobs]]\nname = \"calm\"\nrate_iops = 100\n[[jobs]]\nname = \"wild\"\nrate_iops = 40000\n\
                      [run]\nmeasure = \"2s\"");
    let load = result.load.as_ref().expect("open loops");
    assert!(!load.kept_up && load.late_jobs == ["wild"], "{load:?}");
    assert_near("offered", load.offered_iops, 40_100.0, 0.01);
    // Each job has one place in the queue, and the die alternates between them.
    assert_near("served", load.completed_iops, 1e9 / SERVICE_NS as f64, 0.01);
    let wild = result.jobs[1].load.expect("an open loop");
    // One request is at the drive when the window ends.
    assert_eq!(wild.backlog + 1, wild.offered - wild.served);
    assert_near("behind", wild.behind_ns as f64, 2e9 * (1.0 - 16_567.0 / 40_000.0), 0.01);
    let note = &result.notes[0];
    assert!(note.contains("DID NOT KEEP UP") && note.contains("behind: wild"), "{note}");
}

fn counts(job: &Job) -> Vec<u64> {
    let ops = [&job.read, &job.write, &job.trim];
    let ops = ops.into_iter().flat_map(|op| [op.total_ios, op.io_bytes, op.clat_ns.n]);
    ops.chain([job.sync.total_ios, job.sync.lat_ns.n]).collect()
}

const MIXED: &str = "
[workload]
iodepth = 4
bs = \"4k\"
[[jobs]]
name = \"probe\"
rwmixread = 50
rate_iops = 500
rate_process = \"poisson\"
[[jobs]]
name = \"log\"
rw = \"write\"
bssplit = \"4k/80:16k/20\"
flush_every = 7
thinktime = \"3ms\"
thinktime_blocks = 5
size = \"8m\"
[[jobs]]
name = \"reader\"
rw = \"randread\"
numjobs = 2
rate_points = [{ at = \"0s\", iops = 0 }, { at = \"1s\", iops = 800 }]
startdelay = \"300ms\"
runtime = \"1500ms\"
[run]
warmup = \"200ms\"
measure = \"2s\"
interval = \"100ms\"
latency_bins = true
";

#[test]
fn jobs_add_up_to_the_total_and_to_what_the_drive_counted() {
    let result = run(MIXED);
    let names: Vec<&str> = result.jobs.iter().map(|job| job.jobname.as_str()).collect();
    assert_eq!(names, ["probe", "log", "reader.0", "reader.1"]);
    let total = result.total.as_ref().expect("several jobs");
    let mut sums = vec![0; 11];
    for job in &result.jobs {
        counts(job).iter().zip(&mut sums).for_each(|(count, sum)| *sum += count);
    }
    assert_eq!(counts(total), sums);
    let host = &result.host;
    let drive = [host.read, host.write, host.trim].map(|op| [op.commands, op.bytes, op.commands]);
    assert_eq!(sums, [drive.concat(), vec![host.flush.commands; 2]].concat());
    assert!(host.flush.commands > 10 && host.read.commands > 500, "{host:?}");
    for job in &result.jobs {
        let bins = job.read.clat_ns.bins.as_ref().expect("asked for");
        assert_eq!(bins.values().sum::<u64>(), job.read.clat_ns.n);
    }
    // The log is a separate job; the readers have equal settings and different requests.
    assert_eq!(result.jobs[1].read.total_ios, 0);
    assert_ne!(result.jobs[2].read.clat_ns, result.jobs[3].read.clat_ns);
    // From 300 ms to 1.8 s on a ramp that reaches 800 after a second: 800 requests.
    assert!(result.jobs[2].load.is_some_and(|load| (600..=800).contains(&load.served)));
    assert_eq!(result, run(MIXED), "the same again");
}

#[test]
fn intervals_add_up_to_the_window() {
    let result = run(MIXED);
    let measured: Vec<_> = result.intervals.iter().filter(|interval| interval.measured).collect();
    assert_eq!((result.intervals.len(), measured.len()), (22, 20));
    assert!(result.intervals.windows(2).all(|pair| pair[0].end_ns == pair[1].start_ns));
    assert!(measured.iter().all(|interval| interval.end_ns - interval.start_ns == 100_000_000));
    let done: f64 = measured.iter().map(|interval| interval.read.iops * 0.1).sum();
    let issued = result.jobs.iter().map(|job| job.read.total_ios).sum::<u64>() as f64;
    // Some requests are outstanding at either end.
    assert!((done - issued).abs() < 20.0, "{done} {issued}");
    assert!(measured.iter().any(|interval| interval.queue_depth > 0.1 && interval.read.p99_ns.is_some()));
    let csv = strobe_lab::timeline::csv(&result.intervals);
    let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(columns, vec![3 + 4 * 6 + 6; 23]);
}

#[test]
fn dies_are_held_for_no_longer_than_the_window() {
    // Many requests are outstanding at the end, and intervals end during programs.
    let result =
        run("[workload]\niodepth = 64\n[run]\nwarmup = \"10ms\"\nmeasure = \"50ms\"\ninterval = \"7ms\"");
    let dies = result.dies.expect("times");
    assert_eq!((dies.held_ns, dies.busy), (50_000_000, Some(1.0)));
    let held = |interval: &Interval| interval.busy_dies * (interval.end_ns - interval.start_ns) as f64;
    let measured = result.intervals.iter().filter(|interval| interval.measured);
    assert_eq!(measured.map(held).sum::<f64>().round() as u64, dies.held_ns);
}

#[test]
fn dies_are_held_for_no_longer_than_a_batch_runs() {
    // A write buffer full of data that is written back after the window.
    let keys =
        "[workload]\niodepth = 64\n[drive.controller]\nwrite_buffer_bytes = 1048576\n[run]\nmeasure = \"1x\"";
    let result = run(keys);
    let dies = result.dies.expect("times");
    let busy = dies.busy.expect("a window");
    assert!(
        dies.held_ns <= result.time.virtual_ns && busy > 0.95,
        "{dies:?} in {} ns",
        result.time.virtual_ns
    );
}

#[test]
fn one_job_is_the_same_as_that_workload_alone() {
    let keys = "rw = \"randrw\"\niodepth = 8\nrate_iops = 900\nrate_process = \"poisson\"\n";
    let rest = "[run]\nwarmup = \"1s\"\nmeasure = \"3s\"";
    let alone = run(&format!("[workload]\n{keys}{rest}"));
    let job = run(&format!("[[jobs]]\nname = \"uniform\"\n{keys}{rest}"));
    assert_eq!(alone.jobs, job.jobs);
    assert_eq!((alone.nand, alone.load), (job.nand, job.load));
}

#[test]
fn a_closed_loop_is_the_same_in_batches_and_event_by_event() {
    for depth in [1, 2, 16] {
        // In batches only, background collection after the end of the run counts in its window.
        let mode = "[drive.ftl.gc]\nmode = \"stop-the-world\"";
        let keys = format!("rwmixread = 30\niodepth = {depth}\n[run]\nmeasure = 30000\n");
        let batches = run(&format!("{mode}\n[workload]\n{keys}"));
        let events = run(&format!("{mode}\n[[jobs]]\nname = \"uniform\"\n{keys}"));
        assert_eq!(batches.jobs, events.jobs, "queue depth {depth}");
        assert_eq!((batches.nand, batches.waf), (events.nand, events.waf), "queue depth {depth}");
        assert_eq!(batches.time.virtual_ns, events.time.virtual_ns, "queue depth {depth}");
    }
}

#[test]
fn pauses_come_after_so_many_requests_are_complete() {
    for (blocks, depth, busy_ns) in [(1, 8, SERVICE_NS), (5, 1, 5 * SERVICE_NS), (5, 8, 5 * SERVICE_NS)] {
        let result = run(&format!(
            "[workload]\nrw = \"randread\"\niodepth = {depth}\nthinktime = \"1ms\"\nthinktime_blocks = {blocks}\n\
             [run]\nmeasure = \"10s\""
        ));
        let expected = 1e9 * f64::from(blocks) / (busy_ns + 1_000_000) as f64;
        assert_near(
            &format!("{blocks} at depth {depth}"),
            result.jobs[0].read.iops.unwrap_or(0.0),
            expected,
            0.001,
        );
        assert!(result.jobs[0].lat_ns_is_absent(), "a closed loop");
    }
}

trait Closed {
    fn lat_ns_is_absent(&self) -> bool;
}

impl Closed for Job {
    fn lat_ns_is_absent(&self) -> bool {
        self.read.lat_ns.is_none() && self.load.is_none()
    }
}

#[test]
fn a_pause_past_the_runtime_ends_with_it() {
    let job = "[[jobs]]\nname = \"a\"\nrw = \"randread\"\nthinktime = \"10s\"\nruntime = \"50ms\"\n";
    for end in ["io_bytes = 8192\n", ""] {
        let result = run(&format!("{job}{end}"));
        let read = &result.jobs[0].read;
        assert_eq!((result.time.virtual_ns, read.total_ios, read.runtime), (50_000_000, 1, 50), "{end}");
        assert_eq!(read.iops, Some(20.0), "{end}");
    }
    // A job behind a stonewall begins at the end of the runtime, or when the first has read all its bytes.
    let next = "[[jobs]]\nname = \"b\"\nrw = \"randread\"\nio_bytes = 4096\nstonewall = true\n";
    let result = run(&format!("{job}{next}"));
    assert_eq!(result.time.virtual_ns, 50_000_000 + SERVICE_NS);
    let result = run(&format!("{job}io_bytes = 4096\n{next}"));
    assert_eq!(result.time.virtual_ns, 2 * SERVICE_NS);
}

#[test]
fn rounds_go_on_until_something_is_steady() {
    // After a sequential fill, write amplification takes a while to reach the level of random writes.
    let keys = "[workload]\nkind = \"uniform\"\n[run]\nuntil_steady = \"waf\"\nmeasure = \"1x\"\n";
    let counted = run(&format!("{keys}timing = false"));
    let steady = counted.until_steady.expect("asked for");
    assert!(steady.reached && (5..25).contains(&steady.rounds), "{steady:?}");
    assert_near("the window", counted.waf.expect("writes"), steady.mean.expect("reached"), 0.1);
    let few = run(&format!("{keys}timing = false\nsteady_rounds = 5\nsteady_interval = \"0.3x\""));
    let steady = few.until_steady.expect("asked for");
    assert!(!steady.reached && steady.rounds == 5, "{steady:?}");
    assert!(few.notes[0].contains("NOT STEADY"), "{:?}", few.notes);
    for metric in ["iops", "bandwidth", "latency"] {
        let keys = keys.replace("\"waf\"", &format!("\"{metric}\""));
        let timed = run(&format!("{keys}steady_interval = \"2s\"\nsteady_rounds = 100"));
        let steady = timed.until_steady.expect("asked for");
        assert!(steady.reached && steady.values.len() == 5, "{steady:?}");
    }
}

#[test]
fn amounts_of_time_are_kept_to_the_nanosecond() {
    let result =
        run("[workload]\nrw = \"randread\"\nrate_iops = 1000\n[run]\nwarmup = \"1500ms\"\nmeasure = \"2s\"");
    assert_eq!(result.time.virtual_ns, 2_000_000_000);
    assert_eq!(result.jobs[0].read.total_ios, 2000);
    assert_eq!(result.config.run.measure.and_then(|amount| amount.ns()), Some(2_000_000_000));
    assert_eq!(Time::parse("2s").map(Time::as_ns), Some(2_000_000_000));
}

#[test]
fn a_drive_that_takes_no_time_does_not_hold_up_a_run_of_seconds() {
    let text = "[workload]\nrw = \"randread\"\n[run]\nprefill = false\nmeasure = \"1s\"";
    let error = runner::run(&experiment(text), &mut ()).expect_err("reads of nothing take no time");
    assert!(error.to_string().contains("took no virtual time"), "{error}");
}

#[test]
fn a_drive_that_wears_out_under_jobs_leaves_what_was_measured() {
    let result = run("endurance_pe = 8\n[workload]\niodepth = 8\n\
                      [[jobs]]\nname = \"a\"\nrate_iops = 3000\n[[jobs]]\nname = \"b\"\nrwmixread = 50\n\
                      [run]\nuntil_end_of_life = true");
    assert_eq!((result.ended_by, result.partial), (strobe_lab::EndedBy::EndOfLife, false));
    let writes = result.total.as_ref().map(|total| (total.write.total_ios, total.write.clat_ns.n));
    let done = result.host.write.commands;
    assert_eq!(writes, Some((done, done)));
    assert!(done > 10_000 && !result.wear.bad_block_curve.is_empty());
}

#[test]
fn a_hopeless_rate_is_counted_and_ends() {
    let result = run("[workload]\nrw = \"randread\"\nrate_iops = 1000000000\nrate_process = \"poisson\"\n\
                      [run]\nmeasure = \"2s\"\ninterval = \"10ms\"");
    let load = result.jobs[0].load.expect("an open loop");
    assert_near("offered", load.offered as f64, 2e9, 0.001);
    assert!(!load.kept_up && load.served < 40_000);
}

#[test]
fn power_cuts_meet_jobs_and_nothing_is_lost() {
    let result = run("data = \"stamp\"\n[drive.ftl]\ndurable_map = true\nlogical_pages = 8000\n\
                      [workload]\niodepth = 8\n[[jobs]]\nname = \"a\"\nrate_iops = 800\nflush_every = 50\n\
                      [[jobs]]\nname = \"b\"\nrwmixread = 50\nthinktime = \"1ms\"\n\
                      [power]\ncut_every = 900\n[run]\nmeasure = \"4s\"");
    assert!(result.power_cuts.len() > 2, "{}", result.power_cuts.len());
    assert!(result.power_cuts.iter().all(|cut| cut.verified.wrong == 0));
}
