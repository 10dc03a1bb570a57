//! Host requests and their latencies: tables and a histogram.

use strobe_lab::numbers::{count, duration, per_second, rate};
use strobe_lab::result::{Clat, Job, JobOp};

use super::{Table, known, row, table};
use crate::chart::{self, Distribution};

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
            let mark = |(name, key)| Some((name, latency.percentile(key)?));
            let marks = [("p50", "50.000000"), ("p99", "99.000000"), ("p99.9", "99.900000")];
            let marks = marks.into_iter().filter_map(mark).chain([("max", latency.max)]).collect();
            Distribution { name, counts: &latency.counts, marks }
        })
        .collect();
    chart::latencies(&shown)
}

pub(super) fn is_measured(job: &Job) -> bool {
    [&job.read, &job.write, &job.trim].iter().any(|op| op.clat_ns.n > 0) || job.sync.lat_ns.n > 0
}

/// Latencies by kind of request; also from arrival, where requests waited for a queue slot.
pub(super) fn by_kind(job: &Job, virtual_ns: u64) -> Table {
    let mut table = table(&["host", "requests", "IOPS", "MB/s", "mean", "p50", "p99", "p99.9", "max"]);
    let sync_rate = per_second(job.sync.total_ios, virtual_ns);
    let bandwidth = |op: &JobOp| known(op.bw_bytes, |bytes| format!("{:.1}", bytes as f64 / 1e6));
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
        let cells = [count(total), known(iops, rate), bandwidth].into_iter();
        table.add_row(row(name, cells.chain(times(latency))));
        // Shown only if waiting for a queue slot adds more than 1 %.
        if let Some(waited) = from_arrival.as_ref().filter(|all| all.mean > 1.01 * latency.mean) {
            let cells = ["from".to_owned(), "arrival".to_owned(), String::new()].into_iter();
            table.add_row(row("", cells.chain(times(waited))));
        }
    }
    table
}

fn times(latency: &Clat) -> [String; 5] {
    let percentile = |key| known(latency.percentile(key), |ns| duration(ns as f64));
    [
        duration(latency.mean),
        percentile("50.000000"),
        percentile("99.000000"),
        percentile("99.900000"),
        duration(latency.max as f64),
    ]
}

const LINES_MAX: usize = 24;
const NAME_MAX: usize = 16;

/// `None` for a single job.
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
    // A job's name is shown once, in front of its first kind of request.
    for (name, kind, op) in lines.iter().take(LINES_MAX) {
        let shown: String =
            if *name == before { String::new() } else { name.chars().take(NAME_MAX).collect() };
        let cells = [(*kind).to_owned(), known(op.iops, rate)].into_iter();
        table.add_row(row(&shown, cells.chain(times(&op.clat_ns).into_iter().skip(1))));
        before.clone_from(name);
    }
    let more = match lines.len().saturating_sub(LINES_MAX) {
        0 => String::new(),
        more => format!("\nand {more} more lines, in the JSON"),
    };
    Some(format!("{table}{more}"))
}
