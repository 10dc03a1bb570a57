//! Host requests and their latencies: tables and a picture.

use strobe_lab::numbers::{count, duration, rate};
use strobe_lab::result::{Clat, Job, JobOp};

use super::{Table, row, table};
use crate::chart::{self, Distribution};

/// Histogram of latencies.
pub(super) fn picture(job: &Job) -> Option<String> {
    let kinds = [
        ("read", &job.read.clat_ns),
        ("write", &job.write.clat_ns),
        ("trim", &job.trim.clat_ns),
        ("flush", &job.sync.lat_ns),
    ];
    let shown: Vec<Distribution<'_>> = kinds
        .iter()
        .filter(|(_, latency)| latency.max > 0)
        .map(|&(name, latency)| {
            let at = |key: &str| latency.percentile.get(key).copied().unwrap_or(0);
            let marks = vec![
                ("p50", at("50.000000")),
                ("p99", at("99.000000")),
                ("p99.9", at("99.900000")),
                ("max", latency.max),
            ];
            Distribution { name, counts: &latency.counts, marks }
        })
        .collect();
    chart::latencies(&shown)
}

/// True if a latency was measured.
pub(super) fn is_measured(job: &Job) -> bool {
    [&job.read, &job.write, &job.trim].iter().any(|op| op.clat_ns.n > 0) || job.sync.lat_ns.n > 0
}

/// Latencies of one job by kind, with those from arrival where requests waited for a place in the queue.
pub(super) fn by_kind(job: &Job, virtual_ns: u64) -> Table {
    let mut table = table(&["host", "requests", "IOPS", "MB/s", "mean", "p50", "p99", "p99.9", "max"]);
    let seconds = virtual_ns as f64 / 1e9;
    let sync_rate = if seconds > 0.0 { job.sync.total_ios as f64 / seconds } else { 0.0 };
    let bandwidth = |op: &JobOp| format!("{:.1}", op.bw_bytes as f64 / 1e6);
    let rows = [
        (
            "read",
            job.read.total_ios,
            job.read.iops,
            bandwidth(&job.read),
            &job.read.clat_ns,
            &job.read.lat_ns,
        ),
        (
            "write",
            job.write.total_ios,
            job.write.iops,
            bandwidth(&job.write),
            &job.write.clat_ns,
            &job.write.lat_ns,
        ),
        ("trim", job.trim.total_ios, job.trim.iops, "-".to_owned(), &job.trim.clat_ns, &job.trim.lat_ns),
        ("flush", job.sync.total_ios, sync_rate, "-".to_owned(), &job.sync.lat_ns, &None),
    ];
    for (name, total, iops, bandwidth, latency, from_arrival) in rows {
        if total == 0 {
            continue;
        }
        let cells = [count(total), rate(iops), bandwidth].into_iter();
        table.add_row(row(name, cells.chain(times(latency))));
        if let Some(waited) = from_arrival.as_ref().filter(|all| all.mean > 1.01 * latency.mean) {
            let cells = ["from".to_owned(), "arrival".to_owned(), String::new()].into_iter();
            table.add_row(row("", cells.chain(times(waited))));
        }
    }
    table
}

/// Mean, percentiles and the longest.
fn times(latency: &Clat) -> [String; 5] {
    let percentile = |key| duration(latency.percentile.get(key).copied().unwrap_or(0) as f64);
    [
        duration(latency.mean),
        percentile("50.000000"),
        percentile("99.000000"),
        percentile("99.900000"),
        duration(latency.max as f64),
    ]
}

/// Lines that the table of jobs has at most.
const LINES_MAX: usize = 24;
/// Characters of a job's name that it shows.
const NAME_MAX: usize = 16;

/// Each job by itself; nothing for one alone.
pub(super) fn by_job(jobs: &[Job]) -> Option<String> {
    if jobs.len() < 2 {
        return None;
    }
    let mut table = table(&["job", "", "IOPS", "p50", "p99", "p99.9", "max"]);
    let kinds = |job: &Job| {
        [("read", job.read.clone()), ("write", job.write.clone()), ("trim", job.trim.clone())]
            .into_iter()
            .filter(|(_, op)| op.total_ios > 0)
            .collect::<Vec<_>>()
    };
    let lines: Vec<_> = jobs
        .iter()
        .flat_map(|job| kinds(job).into_iter().map(|(kind, op)| (job.jobname.clone(), kind, op)))
        .collect();
    let mut before = String::new();
    for (name, kind, op) in lines.iter().take(LINES_MAX) {
        let shown: String =
            if *name == before { String::new() } else { name.chars().take(NAME_MAX).collect() };
        let cells = [(*kind).to_owned(), rate(op.iops)].into_iter();
        table.add_row(row(&shown, cells.chain(times(&op.clat_ns).into_iter().skip(1))));
        before.clone_from(name);
    }
    let more = match lines.len().saturating_sub(LINES_MAX) {
        0 => String::new(),
        more => format!("\nand {more} more lines, in the JSON"),
    };
    Some(format!("{table}{more}"))
}
