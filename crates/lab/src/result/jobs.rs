//! Throughput and latency under fio's names.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_types::{Op, is_default};

use crate::numbers::per_second;
use crate::record::{OpRecord, Record};
use crate::verdict::JobLoad;
use strobe_ssd::{DriveStats, Latencies, Latency};

/// One job with fio's names.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Job {
    /// Name of the workload.
    pub jobname: String,
    /// Reads.
    pub read: JobOp,
    /// Writes.
    pub write: JobOp,
    /// Trims.
    pub trim: JobOp,
    /// Flushes.
    pub sync: JobSync,
    /// Load: offered against served requests. Absent in closed loop, where requests wait for the drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<JobLoad>,
}

/// Flushes of a job.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct JobSync {
    /// Number of flushes.
    pub total_ios: u64,
    /// Latency from issue to completion, in ns.
    pub lat_ns: Clat,
}

/// One direction of a job.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct JobOp {
    /// Bytes transferred.
    pub io_bytes: u64,
    /// Bytes per second of virtual time; null if no time passed, as without timing.
    pub bw_bytes: Option<u64>,
    /// Requests per second of virtual time; null if no time passed.
    pub iops: Option<f64>,
    /// Virtual time that the job ran, in ms.
    pub runtime: u64,
    /// Number of successful requests.
    pub total_ios: u64,
    /// Requests that ended with an unrecovered read error; other figures here exclude them. Absent if 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub errors: u64,
    /// Completion latency: from issue to completion, in ns.
    pub clat_ns: Clat,
    /// Latency from arrival to completion, in ns, which includes the wait for a queue slot. Absent in closed
    /// loop, where requests arrive when they are issued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lat_ns: Option<Clat>,
}

/// Latency statistics in ns.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Clat {
    /// Shortest latency.
    pub min: u64,
    /// Longest latency.
    pub max: u64,
    /// Mean latency.
    pub mean: f64,
    /// Standard deviation.
    pub stddev: f64,
    /// Number of requests.
    #[serde(rename = "N")]
    pub n: u64,
    /// Percentiles under fio's keys ("99.000000"); exact to three digits, within min and max. Null with too
    /// few requests: the 99th percentile needs 100, the 99.9th 1000.
    pub percentile: std::collections::BTreeMap<String, Option<u64>>,
    /// Number of requests by latency in ns, exact to three digits, as in fio's json+. Present with
    /// run.latency_bins.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<std::collections::BTreeMap<String, u64>>")]
    pub bins: Option<std::collections::BTreeMap<u64, u64>>,
    /// Latencies in ns, exact to three digits, with the number of requests for each.
    #[serde(skip)]
    pub counts: Vec<(u64, u64)>,
}

const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

impl Job {
    /// Result of a drive's only job, from the drive's counters.
    pub fn of_drive(name: &str, stats: &DriveStats, latency: &Latency, virtual_ns: u64) -> Self {
        Self::of(&Record::of_drive(name, stats, latency), virtual_ns)
    }

    pub(crate) fn of(record: &Record, virtual_ns: u64) -> Self {
        let op = |op: Op| {
            let OpRecord { requests, errors, bytes, latency, from_arrival, .. } = &record.ops[op as usize];
            JobOp {
                io_bytes: *bytes,
                bw_bytes: per_second(*bytes, virtual_ns).map(|rate| rate as u64),
                iops: per_second(*requests, virtual_ns),
                runtime: virtual_ns / 1_000_000,
                total_ios: *requests,
                errors: *errors,
                clat_ns: Clat::of(latency),
                lat_ns: record.is_open_loop.then(|| Clat::of(from_arrival)),
            }
        };
        let flushes = &record.ops[Op::Flush as usize];
        let sync = JobSync { total_ios: flushes.requests, lat_ns: Clat::of(&flushes.latency) };
        let (read, write, trim) = (op(Op::Read), op(Op::Write), op(Op::Trim));
        Self { jobname: record.name.clone(), read, write, trim, sync, load: JobLoad::of(record) }
    }

    #[must_use]
    pub(crate) fn with_bins(mut self) -> Self {
        self.latencies().for_each(Clat::add_bins);
        self
    }

    #[must_use]
    pub(crate) fn without_bins(mut self) -> Self {
        self.latencies().for_each(|latency| latency.bins = None);
        self
    }

    fn latencies(&mut self) -> impl Iterator<Item = &mut Clat> {
        let Self { read, write, trim, sync, .. } = self;
        let ops = [read, write, trim].into_iter();
        ops.flat_map(|op| [&mut op.clat_ns].into_iter().chain(&mut op.lat_ns)).chain([&mut sync.lat_ns])
    }
}

impl Clat {
    fn of(latency: &Latencies) -> Self {
        let (min, max) = latency.extremes();
        let percentile = |p: f64| (format!("{p:.6}"), latency.known_percentile(p));
        let empty = latency.count() == 0;
        Self {
            min,
            max,
            mean: latency.mean(),
            stddev: latency.stddev(),
            n: latency.count(),
            percentile: if empty { Default::default() } else { PERCENTILES.map(percentile).into() },
            bins: None,
            counts: latency.counts(),
        }
    }

    /// Percentile called `key`; `None` with too few requests.
    pub fn percentile(&self, key: &str) -> Option<u64> {
        self.percentile.get(key).copied().flatten()
    }

    fn add_bins(&mut self) {
        self.bins = Some(self.counts.iter().copied().collect());
    }
}
