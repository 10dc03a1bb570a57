//! Throughput and latency under fio's names.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_types::Op;

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

/// The flushes of a job.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct JobSync {
    /// Requests.
    pub total_ios: u64,
    /// Latency: issue to completion.
    pub lat_ns: Clat,
}

/// One direction of a job.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct JobOp {
    /// Bytes transferred.
    pub io_bytes: u64,
    /// Bytes per second of virtual time; 0 when only counting.
    pub bw_bytes: u64,
    /// Requests per second of virtual time; 0 when only counting.
    pub iops: f64,
    /// Virtual time in ms.
    pub runtime: u64,
    /// Requests.
    pub total_ios: u64,
    /// Completion latency: issue to completion.
    pub clat_ns: Clat,
    /// Latency from the arrival of a request, so with the time that it waited for a place in the queue; not there in
    /// closed loop, where requests arrive when they are issued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lat_ns: Option<Clat>,
}

/// Completion latency in ns.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Clat {
    /// Shortest.
    pub min: u64,
    /// Longest.
    pub max: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stddev: f64,
    /// Requests.
    #[serde(rename = "N")]
    pub n: u64,
    /// Percentiles, keyed as fio keys them ("99.000000"); exact to three digits, never beyond min and max.
    pub percentile: std::collections::BTreeMap<String, u64>,
    /// With run.latency_bins: each latency in ns, exact to three digits, with the number of requests that had it, as in
    /// fio's json+.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<std::collections::BTreeMap<String, u64>>")]
    pub bins: Option<std::collections::BTreeMap<u64, u64>>,
    /// Latencies in ns, exact to three digits, and how many requests had each.
    #[serde(skip)]
    pub counts: Vec<(u64, u64)>,
}

/// fio's default percentile list.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

impl Job {
    /// Result of the only job of a drive, which has counted for it.
    pub fn of_drive(name: &str, stats: &DriveStats, latency: &Latency, virtual_ns: u64) -> Self {
        Self::of(&Record::of_drive(name, stats, latency), virtual_ns)
    }

    /// Result of one job, or of the sum of several.
    pub(crate) fn of(record: &Record, virtual_ns: u64) -> Self {
        let seconds = virtual_ns as f64 / 1e9;
        let op = |op: Op| {
            let OpRecord { requests, bytes, latency, from_arrival, .. } = &record.ops[op as usize];
            let rate = |amount: u64| if virtual_ns > 0 { amount as f64 / seconds } else { 0.0 };
            JobOp {
                io_bytes: *bytes,
                bw_bytes: rate(*bytes) as u64,
                iops: rate(*requests),
                runtime: virtual_ns / 1_000_000,
                total_ios: *requests,
                clat_ns: Clat::of(latency),
                lat_ns: record.is_open_loop.then(|| Clat::of(from_arrival)),
            }
        };
        let flushes = &record.ops[Op::Flush as usize];
        let sync = JobSync { total_ios: flushes.requests, lat_ns: Clat::of(&flushes.latency) };
        let (read, write, trim) = (op(Op::Read), op(Op::Write), op(Op::Trim));
        Self { jobname: record.name.clone(), read, write, trim, sync, load: JobLoad::of(record) }
    }

    /// Adds every latency that was measured, as fio's json+ has them.
    #[must_use]
    pub(crate) fn with_bins(mut self) -> Self {
        let Self { read, write, trim, sync, .. } = &mut self;
        for op in [read, write, trim] {
            op.clat_ns.add_bins();
            if let Some(latency) = &mut op.lat_ns {
                latency.add_bins();
            }
        }
        sync.lat_ns.add_bins();
        self
    }
}

impl Clat {
    fn of(latency: &Latencies) -> Self {
        let (min, max) = latency.extremes();
        let percentile = |p: f64| (format!("{p:.6}"), latency.percentile(p));
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

    fn add_bins(&mut self) {
        self.bins = Some(self.counts.iter().copied().collect());
    }
}
