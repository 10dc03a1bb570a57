//! Warm-up, measured window and part of a trace, against runs of its beginnings.
//!
//! The trace and the drive are drawn at random, and nothing has a time, so a window from request a to request b
//! has the counts of the first b requests minus those of the first a.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;
use strobe_lab::{Experiment, RunError, RunResult, runner};
use strobe_types::Prng;

fn experiment(text: &str) -> Experiment {
    let table = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    Experiment::from_table(table, &[], Path::new("")).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A request with its bytes, the time in the trace and the pages that it writes.
struct Drawn {
    lines: Vec<String>,
    bytes: u64,
    time_ns: u64,
    pages: u64,
}

fn draw(rng: &mut Prng) -> Vec<Drawn> {
    let mut time_ns = 0;
    let mut draw = || {
        time_ns += u64::from(rng.below(3)) * 1000;
        let (first, pages) = (u64::from(rng.below(500)), u64::from(1 + rng.below(4)));
        let (offset, bytes) = (first * 4096, pages * 4096);
        let (lines, bytes, pages) = match rng.below(20) {
            0 => (vec![format!("{time_ns} flush")], 0, 0),
            1 => (vec![format!("{time_ns} trim {offset} {bytes}")], bytes, 0),
            2 => {
                let more = format!("{time_ns} + {} 4096", (first + 9) * 4096);
                (vec![format!("{time_ns} trim {offset} {bytes}"), more], bytes + 4096, 0)
            }
            3..8 => (vec![format!("{time_ns} read {offset} {bytes}")], bytes, 0),
            _ => (vec![format!("{time_ns} write {offset} {bytes}")], bytes, pages),
        };
        Drawn { lines, bytes, time_ns, pages }
    };
    (0..3000).map(|_| draw()).collect()
}

fn write(path: &Path, requests: &[Drawn], repeats: usize) {
    let mut text = "strobe trace 1\n".to_owned();
    for _ in 0..repeats {
        for line in requests.iter().flat_map(|request| &request.lines) {
            // Nothing has a time here, and the times of a second pass are not needed.
            writeln!(text, "{line}").expect("text");
        }
    }
    fs::write(path, text).expect("written");
}

fn drive(rng: &mut Prng) -> String {
    let mapping = ["page", "dftl", "page"][rng.below(3) as usize];
    let victim = ["greedy", "fifo", "cost-benefit"][rng.below(3) as usize];
    format!(
        "[drive.nand]\nchannels = 1\ndies_per_channel = 1\nplanes_per_die = 1\nblocks_per_plane = 48\n\
         pages_per_block = 16\npage_bytes = 4096\n[drive.ftl]\nmapping = '{mapping}'\nlogical_pages = 512\n\
         gc.victim = '{victim}'\n"
    )
}

fn run(drive: &str, path: &Path, workload: &str, run: &str) -> Result<RunResult, RunError> {
    let text = format!(
        "{drive}[workload]\nkind = 'trace'\nformat = 'strobe'\nlate = 'issue'\npath = '{}'\n{workload}\n[run]\n\
         timing = false\nprefill = true\ncheck = true\n{run}\n",
        path.display()
    );
    runner::run(&experiment(&text), &mut ())
}

/// Numbers of commands, bytes, programs, reads and erases.
fn counts(result: &RunResult) -> Vec<i64> {
    let json = serde_json::to_value(result).expect("plain data");
    let mut out = Vec::new();
    for op in ["read", "write", "trim", "flush"] {
        out.extend(["commands", "bytes"].map(|key| json["host"][op][key].as_i64().unwrap_or(0)));
    }
    fn numbers(value: &Value, out: &mut Vec<i64>) {
        match value {
            Value::Object(fields) => fields.values().for_each(|value| numbers(value, out)),
            other => out.push(other.as_i64().unwrap_or(0)),
        }
    }
    numbers(&json["nand"], &mut out);
    out
}

#[test]
fn windows_are_the_difference_of_two_beginnings() {
    let mut rng = Prng::new(7);
    let folder = tempfile::tempdir().expect("a folder");
    let (path, whole) = (folder.path().join("t"), folder.path().join("whole"));
    let mut windows = 0;
    for case in 0..60 {
        let requests = draw(&mut rng);
        let drive = drive(&mut rng);
        let repeats = 1 + rng.below(3) as usize;
        write(&path, &requests, 1);
        write(&whole, &requests, repeats);
        let all: Vec<&Drawn> = (0..repeats).flat_map(|_| &requests).collect();
        let duration = requests.last().map_or(0, |request| request.time_ns);
        let sum = |of: fn(&Drawn) -> u64, to: usize| all[..to].iter().map(|request| of(request)).sum::<u64>();
        // Finds the first request before which `total` of the amount has passed since request `from`.
        let first = |from: usize, total: u64, of: fn(&Drawn) -> u64| {
            (from..all.len()).find(|&to| sum(of, to) - sum(of, from) >= total)
        };
        let time = |at: usize| (at / requests.len()) as u64 * duration + all[at].time_ns;
        // A phase begins before request `from`, at `from_ns` of the trace.
        let part = |rng: &mut Prng, from: usize, from_ns: u64| {
            let share = |rng: &mut Prng, total: u64| 1 + u64::from(rng.below((total / 3) as u32));
            match rng.below(6) {
                0 => {
                    let count = share(rng, all.len() as u64);
                    (format!("'{count} requests'"), Some(from + count as usize))
                }
                1 => {
                    let bytes = share(rng, sum(|r| r.bytes, all.len()));
                    (format!("'{bytes}B'"), first(from, bytes, |r| r.bytes))
                }
                2 => {
                    let ns = share(rng, duration * repeats as u64);
                    (format!("'{ns}ns'"), (from..all.len()).find(|&to| time(to) - from_ns >= ns))
                }
                3 => {
                    // The first end of a pass after the phase began.
                    let ends = (from + 1).div_ceil(requests.len()) * requests.len();
                    ("'1 repeats'".to_owned(), Some(ends))
                }
                4 => {
                    let pages = share(rng, sum(|r| r.pages, all.len()));
                    (pages.to_string(), first(from, pages, |r| r.pages))
                }
                _ => {
                    let times = 1.0 + f64::from(rng.below(4)) / 4.0;
                    (format!("'{times}x'"), first(from, (times * 512.0) as u64, |r| r.pages))
                }
            }
        };
        let (warmup, begin) = part(&mut rng, 0, time(0));
        let begin = begin.filter(|&begin| begin < all.len());
        // A warm-up of a length in time ends at that time, others at the next request.
        let in_time: Option<u64> = warmup.strip_suffix("ns'").and_then(|ns| ns.get(1..)?.parse().ok());
        let begin_ns = in_time.map_or_else(|| begin.map_or(0, time), |ns| time(0) + ns);
        let (measure, end) = part(&mut rng, begin.unwrap_or(0), begin_ns);
        let label = format!("case {case}, {repeats} x, warm-up {warmup}, measure {measure}\n{drive}");
        let result = run(
            &drive,
            &path,
            &format!("repeat = {repeats}"),
            &format!("warmup = {warmup}\nmeasure = {measure}"),
        );
        let Some(begin) = begin else {
            let error = result.err().unwrap_or_else(|| panic!("{label}")).to_string();
            assert!(error.contains("the trace ended before the measurement"), "{label}{error}");
            continue;
        };
        let result = result.unwrap_or_else(|error| panic!("{label}{error}"));
        let end = end.unwrap_or(all.len()).min(all.len());
        let beginning = |length: usize| {
            let take = format!("take = '{length} requests'");
            run(&drive, &whole, &take, "").unwrap_or_else(|error| panic!("{label}{error}"))
        };
        let before = counts(&beginning(begin));
        let expected: Vec<i64> =
            counts(&beginning(end)).iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(counts(&result), expected, "{label}requests {begin} to {end} of {}", all.len());
        assert_eq!(result.trace.map(|trace| trace.warmup_requests), Some(begin as u64), "{label}");
        windows += 1;
    }
    assert!(windows > 40, "{windows}");
}

#[test]
fn a_part_is_replayed_as_a_file_with_that_part() {
    let mut rng = Prng::new(11);
    let folder = tempfile::tempdir().expect("a folder");
    let (path, other) = (folder.path().join("t"), folder.path().join("part"));
    for _ in 0..10 {
        let requests = draw(&mut rng);
        let drive = drive(&mut rng);
        let (skip, take) = (1 + rng.below(1000) as usize, 1 + rng.below(1000) as usize);
        write(&path, &requests, 1);
        write(&other, &requests[skip..skip + take], 1);
        let part = format!("skip = '{skip} requests'\ntake = '{take} requests'");
        let part = run(&drive, &path, &part, "").expect("runs");
        assert_eq!(counts(&part), counts(&run(&drive, &other, "", "").expect("runs")));
    }
}

/// Runs a trace with times on a small drive.
fn timed(lines: &str, workload: &str, run: &str) -> Result<RunResult, RunError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t");
    fs::write(&path, format!("strobe trace 1\n{lines}")).expect("written");
    let text = format!(
        "[drive.nand]\nchannels = 1\ndies_per_channel = 1\nplanes_per_die = 1\nblocks_per_plane = 48\n\
         pages_per_block = 16\npage_bytes = 4096\n[drive.ftl]\nlogical_pages = 512\n[workload]\n\
         kind = 'trace'\nformat = 'strobe'\npath = '{}'\n{workload}\n[run]\n{run}\n",
        path.display()
    );
    runner::run(&experiment(&text), &mut ())
}

fn requests(result: &RunResult) -> (u64, u64) {
    let trace = result.trace.as_ref().expect("a trace");
    (trace.warmup_requests, trace.requests.values().sum::<u64>() - trace.warmup_requests)
}

#[test]
fn a_warm_up_may_end_at_a_completion_before_a_command() {
    let lines = "0 write 0 4096\n9000000 trim 8192 4096\n9000000 + 65536 4096\n9000000 write 0 4096\n";
    let result = timed(lines, "", "warmup = 1").expect("runs");
    assert_eq!(requests(&result), (1, 2));
    assert_eq!((result.host.trim.commands, result.host.write.commands), (1, 1));
}

#[test]
fn a_window_in_requests_has_that_many_after_any_warm_up() {
    let lines: String = (0..200).map(|at| format!("{} write {} 4096\n", at * 2_000_000, at * 4096)).collect();
    for warmup in ["50", "'50 requests'", "'200KiB'", "'99ms'", "'0.1x'"] {
        for host in ["", "pacing = 'closed'\nqueue_depth = 4"] {
            let keys = format!("warmup = {warmup}\nmeasure = '10 requests'");
            let result = timed(&lines, host, &keys).expect("runs");
            let (before, measured) = requests(&result);
            assert_eq!(measured, 10, "{warmup} {host}");
            assert!((50..=56).contains(&before), "{before}: {warmup} {host}");
        }
    }
    let last = timed(&lines, "", "warmup = 199\nmeasure = '1 requests'").expect("runs");
    assert_eq!(requests(&last), (199, 1));
}

#[test]
fn a_window_in_time_has_that_length() {
    let lines = "0 write 0 4096\n100000000000 write 4096 4096\n";
    let result = timed(lines, "", "measure = '60s'").expect("runs");
    assert_eq!((result.time.virtual_ns, result.host.write.commands), (60_000_000_000, 1));
    let fast = timed(lines, "speed = 10.0", "measure = '60s'").expect("runs");
    assert_eq!((fast.time.virtual_ns, fast.host.write.commands), (6_000_000_000, 1));
    // The pause belongs to the warm-up.
    let late = timed(lines, "", "warmup = '99s'").expect("runs");
    assert_eq!(requests(&late), (1, 1));
    assert!((1_000_000_000..1_100_000_000).contains(&late.time.virtual_ns), "{}", late.time.virtual_ns);
    let none = timed(lines, "", "warmup = '10s'\nmeasure = '20s'").expect("runs");
    assert_eq!((requests(&none), none.time.virtual_ns), ((1, 0), 20_000_000_000));
}

#[test]
fn joined_trims_end_with_their_phase() {
    let lines: String = (0..9).map(|at| format!("{at} trim {} 4096\n", at * 8192)).collect();
    let result = timed(&lines, "trim_ranges = 8", "timing = false\nmeasure = '3 requests'").expect("runs");
    assert_eq!((result.host.trim.commands, result.host.trim.bytes), (1, 3 * 4096));
    let keys = "timing = false\nwarmup = '2 requests'\nmeasure = '3 requests'";
    let result = timed(&lines, "trim_ranges = 8", keys).expect("runs");
    assert_eq!((result.host.trim.commands, result.host.trim.bytes), (1, 3 * 4096));
}

#[test]
fn a_backlog_leaves_no_write_amplification() {
    let lines: String =
        (0..3000).map(|at| format!("{} write {} 4096\n", at * 1000, at % 500 * 4096)).collect();
    let window = timed(&lines, "", "measure = '1000 requests'").expect("runs");
    assert_eq!((window.waf, window.waf_bytes), (None, None));
    let notes = window.notes.join("\n");
    assert!(notes.contains("is unknown: 0 commands were outstanding at its begin and 9"), "{notes}");
    for (host, run) in [("", ""), ("pacing = 'closed'", "measure = '1000 requests'")] {
        assert!(timed(&lines, host, run).expect("runs").waf.is_some(), "{host} {run}");
    }
}
