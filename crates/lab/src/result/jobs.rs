//! Throughput and latency under fio's names.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_ssd::{DriveStats, Latency};
use strobe_types::Op;

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
    /// Latencies in ns, exact to three digits, and how many requests had each.
    #[serde(skip)]
    pub counts: Vec<(u64, u64)>,
}

/// fio's default percentile list.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

impl Job {
    pub(crate) fn of(name: &str, stats: &DriveStats, latency: &Latency, virtual_ns: u64) -> Self {
        let seconds = virtual_ns as f64 / 1e9;
        let op = |op: Op| {
            let rate = |amount: u64| if virtual_ns > 0 { amount as f64 / seconds } else { 0.0 };
            JobOp {
                io_bytes: stats.host.bytes(op),
                bw_bytes: rate(stats.host.bytes(op)) as u64,
                iops: rate(stats.host.commands(op)),
                runtime: virtual_ns / 1_000_000,
                total_ios: stats.host.commands(op),
                clat_ns: Clat::of(latency, op),
            }
        };
        let sync =
            JobSync { total_ios: stats.host.commands(Op::Flush), lat_ns: Clat::of(latency, Op::Flush) };
        Self { jobname: name.to_owned(), read: op(Op::Read), write: op(Op::Write), trim: op(Op::Trim), sync }
    }
}

impl Clat {
    fn of(latency: &Latency, op: Op) -> Self {
        let histogram = latency.of(op);
        let empty = histogram.is_empty();
        let (min, max) = latency.extremes_ns(op).unwrap_or((0, 0));
        let percentile = |p: f64| (format!("{p:.6}"), histogram.value_at_quantile(p / 100.0).clamp(min, max));
        Self {
            min,
            max,
            mean: latency.mean_ns(op),
            stddev: if empty { 0.0 } else { histogram.stdev() },
            n: histogram.len(),
            percentile: if empty { Default::default() } else { PERCENTILES.map(percentile).into() },
            counts: histogram
                .iter_recorded()
                .map(|step| (step.value_iterated_to(), step.count_at_value()))
                .collect(),
        }
    }
}
