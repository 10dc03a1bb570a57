//! A run over time: throughput, latencies and the state of the drive in intervals of equal length.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;
use strobe_ssd::{DriveStats, Simulated};
use strobe_types::{Geometry, Op, SimTime};

use crate::experiment::INTERVALS_MAX;
use strobe_ssd::Latencies;

/// Activity in an interval of virtual time. A request belongs to the interval in which it completes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// Begin of the interval, in ns since the start of the simulation.
    pub start_ns: u64,
    /// End of the interval, in ns; events at that instant belong to it.
    pub end_ns: u64,
    /// True if the interval belongs to the measured window.
    pub measured: bool,
    /// Reads.
    pub read: IntervalOp,
    /// Writes.
    pub write: IntervalOp,
    /// Trims.
    pub trim: IntervalOp,
    /// Flushes.
    pub sync: IntervalOp,
    /// Requests outstanding, as a mean over time.
    pub queue_depth: f64,
    /// Requests that had arrived at the end and were not issued: they wait for a slot in their job's queue.
    pub backlog: u64,
    /// Write amplification within the interval; null if the host wrote nothing.
    pub waf: Option<f64>,
    /// Erased blocks at the end.
    pub free_blocks: u32,
    /// Dies at work, as a mean over time.
    pub busy_dies: f64,
    /// Share of all dies' time used by background work: copies and erases of garbage collection, merges and
    /// wear levelling. From 0 to 1.
    pub collecting: f64,
}

/// Requests of one kind within an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct IntervalOp {
    /// Requests per second.
    pub iops: f64,
    /// Bytes per second.
    pub bw_bytes: u64,
    /// Median latency from issue, in ns. Null with fewer than two requests.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the latency from issue, in ns. Null with fewer than 100 requests.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile of the latency from issue, in ns. Null with fewer than 1000 requests.
    pub p99_9_ns: Option<u64>,
    /// Longest latency from issue, in ns. Null without requests.
    pub max_ns: Option<u64>,
}

impl IntervalOp {
    fn of(measured: &Measured, length_ns: u64) -> Self {
        let rate = |amount: u64| amount as f64 * 1e9 / length_ns as f64;
        let latency = &measured.latency;
        let at = |percent: f64| latency.known_percentile(percent);
        Self {
            iops: rate(latency.count()),
            bw_bytes: rate(measured.bytes) as u64,
            p50_ns: at(50.0),
            p99_ns: at(99.0),
            p99_9_ns: at(99.9),
            max_ns: (latency.count() > 0).then(|| latency.extremes().1),
        }
    }
}

#[derive(Clone, Debug)]
struct Measured {
    bytes: u64,
    latency: Latencies,
}

/// Collects intervals during a run.
#[derive(Clone, Debug)]
pub struct Timeline {
    length_ns: u64,
    start: SimTime,
    end: SimTime,
    ops: [Measured; Op::ALL.len()],
    /// Integral of outstanding requests over ns, until `depth_at`.
    depth_ns: u128,
    depth_at: SimTime,
    outstanding: u32,
    before: DriveStats,
    intervals: Vec<Interval>,
    /// Number of intervals that doubles `length_ns`.
    longer_at: usize,
}

/// State of the drive at the end of an interval.
pub struct AtEnd<'a> {
    stats: DriveStats,
    geometry: &'a Geometry,
    free_blocks: u32,
    backlog: u64,
    measured: bool,
}

impl<'a> AtEnd<'a> {
    /// State of `drive` at `now`.
    pub fn of(drive: &'a dyn Simulated, now: SimTime, backlog: u64, measured: bool) -> Self {
        let (geometry, free_blocks) = (drive.geometry(), drive.free_blocks());
        Self { stats: drive.stats_at(now), geometry, free_blocks, backlog, measured }
    }
}

impl Timeline {
    /// Creates a series from `start`; `before` are the drive's counters at that time.
    pub fn new(length_ns: u64, start: SimTime, before: DriveStats) -> Self {
        Self {
            length_ns,
            start,
            end: start + length_ns,
            ops: Op::ALL.map(|_| Measured { bytes: 0, latency: Latencies::new() }),
            depth_ns: 0,
            depth_at: start,
            outstanding: 0,
            before,
            intervals: Vec::new(),
            longer_at: INTERVALS_MAX as usize + 1,
        }
    }

    /// End of the current interval.
    #[inline]
    pub fn due(&self) -> SimTime {
        self.end
    }

    /// Sets the number of outstanding requests from `now` on.
    #[inline]
    pub fn outstanding(&mut self, now: SimTime, outstanding: u32) {
        self.depth_ns += u128::from(self.outstanding) * u128::from(now.since(self.depth_at));
        (self.depth_at, self.outstanding) = (now, outstanding);
    }

    /// Counts a completed request.
    #[inline]
    pub fn complete(&mut self, op: Op, bytes: u64, latency_ns: u64) {
        let measured = &mut self.ops[op as usize];
        measured.bytes += bytes;
        measured.latency.record(latency_ns);
    }

    /// Ends the current interval at `now` and begins the next.
    pub fn close(&mut self, now: SimTime, at_end: AtEnd<'_>) {
        // The clock of a guest in real time may be behind the drive's.
        let now = now.max(self.start);
        self.outstanding(now, self.outstanding);
        let length_ns = now.since(self.start);
        // Two calls at the same time give one interval.
        if length_ns > 0 {
            let window = at_end.stats.since(&self.before);
            let die_ns = length_ns as f64 * f64::from(at_end.geometry.dies());
            let [read, write, trim, sync] = [Op::Read, Op::Write, Op::Trim, Op::Flush]
                .map(|op| IntervalOp::of(&self.ops[op as usize], length_ns));
            self.intervals.push(Interval {
                start_ns: self.start.as_ns(),
                end_ns: now.as_ns(),
                measured: at_end.measured,
                read,
                write,
                trim,
                sync,
                queue_depth: self.depth_ns as f64 / length_ns as f64,
                backlog: at_end.backlog,
                waf: window.waf(at_end.geometry),
                free_blocks: at_end.free_blocks,
                busy_dies: window.occupancy.total_ns() as f64 / length_ns as f64,
                collecting: window.background_ns() as f64 / die_ns,
            });
            for measured in &mut self.ops {
                measured.bytes = 0;
                if measured.latency.count() > 0 {
                    measured.latency.clear();
                }
            }
            (self.depth_ns, self.before) = (0, at_end.stats);
        }
        // Bounds memory in a run of unknown length: later intervals are longer, earlier ones stay.
        if self.intervals.len() >= self.longer_at {
            self.length_ns = self.length_ns.saturating_mul(2);
            self.longer_at += INTERVALS_MAX as usize / 2;
        }
        (self.start, self.end) = (now, now + self.length_ns);
    }

    /// Returns the intervals, and true if later ones are longer than requested.
    pub fn take_intervals(&mut self) -> (Vec<Interval>, bool) {
        let is_longer = self.longer_at > INTERVALS_MAX as usize + 1;
        (std::mem::take(&mut self.intervals), is_longer)
    }

    pub(crate) fn into_intervals(mut self) -> (Vec<Interval>, bool) {
        self.take_intervals()
    }
}

/// Column names of [`csv`].
pub const CSV_NAMES: &str = "start_ns,end_ns,measured,\
    read_iops,read_bw_bytes,read_p50_ns,read_p99_ns,read_p99_9_ns,read_max_ns,\
    write_iops,write_bw_bytes,write_p50_ns,write_p99_ns,write_p99_9_ns,write_max_ns,\
    trim_iops,trim_bw_bytes,trim_p50_ns,trim_p99_ns,trim_p99_9_ns,trim_max_ns,\
    sync_iops,sync_bw_bytes,sync_p50_ns,sync_p99_ns,sync_p99_9_ns,sync_max_ns,\
    queue_depth,backlog,waf,free_blocks,busy_dies,collecting";

/// Formats the intervals as CSV. Unknown values are empty.
pub fn csv(intervals: &[Interval]) -> String {
    let rows = intervals.iter().map(|interval| csv_row(interval) + "\n");
    CSV_NAMES.to_owned() + "\n" + &rows.collect::<String>()
}

/// One line of [`csv`], without the line break.
pub fn csv_row(interval: &Interval) -> String {
    let whole = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    let Interval { start_ns, end_ns, measured, queue_depth, backlog, waf, free_blocks, .. } = interval;
    let mut out = format!("{start_ns},{end_ns},{measured}");
    for op in [&interval.read, &interval.write, &interval.trim, &interval.sync] {
        let [p50, p99, p99_9, max] = [op.p50_ns, op.p99_ns, op.p99_9_ns, op.max_ns].map(whole);
        let _ = write!(out, ",{},{},{p50},{p99},{p99_9},{max}", op.iops, op.bw_bytes);
    }
    let waf = waf.map_or(String::new(), |waf| waf.to_string());
    let (busy, collecting) = (interval.busy_dies, interval.collecting);
    let _ = write!(out, ",{queue_depth},{backlog},{waf},{free_blocks},{busy},{collecting}");
    out
}
