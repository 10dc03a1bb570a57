//! Measurements of a job.

use strobe_ssd::{DriveStats, Latency};
use strobe_types::{Op, SimTime};

use strobe_ssd::Latencies;

/// Requests of one kind.
#[derive(Clone, Debug)]
pub(crate) struct OpRecord {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    /// From issue to completion.
    pub(crate) latency: Latencies,
    /// From arrival to completion; empty in closed loop, where both are the same.
    pub(crate) from_arrival: Latencies,
    /// Latencies of requests that were issued when they arrived, and so are both; until the window ends.
    prompt: Latencies,
}

impl OpRecord {
    fn new(requests: u64, bytes: u64, latency: Latencies) -> Self {
        Self { requests, bytes, latency, from_arrival: Latencies::new(), prompt: Latencies::new() }
    }
}

/// Requests that came at their own times.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offered {
    /// Requests that arrived within the window.
    pub(crate) arrived: u64,
    /// Requests that had arrived at its end and were not issued.
    pub(crate) backlog: u64,
    /// Time for which the oldest of those had waited, in ns.
    pub(crate) behind_ns: u64,
}

/// A job within the measured window: requests that completed in it.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) ops: [OpRecord; Op::ALL.len()],
    pub(crate) is_open_loop: bool,
    pub(crate) begin: SimTime,
    pub(crate) end: SimTime,
    /// Arrivals; `None` for jobs together.
    pub(crate) offered: Option<Offered>,
    /// Arrivals before the window.
    before: u64,
}

impl Record {
    pub(crate) fn new(name: String, is_open_loop: bool) -> Self {
        Self {
            name,
            ops: Op::ALL.map(|_| OpRecord::new(0, 0, Latencies::new())),
            is_open_loop,
            begin: SimTime::ZERO,
            end: SimTime::ZERO,
            offered: None,
            before: 0,
        }
    }

    /// The only job of a drive, which has counted for it.
    pub(crate) fn of_drive(name: &str, stats: &DriveStats, latency: &Latency) -> Self {
        let op =
            |op: Op| OpRecord::new(stats.host.commands(op), stats.host.bytes(op), latency.of(op).clone());
        Self { ops: Op::ALL.map(op), ..Self::new(name.to_owned(), false) }
    }

    /// Begins the window, before which `arrived` requests have arrived.
    pub(crate) fn begin(&mut self, begin: SimTime, arrived: u64) {
        (self.begin, self.before) = (begin, arrived);
    }

    /// Ends the window: `arrived` requests have arrived in all, and `backlog` of them wait, the oldest for `behind_ns`.
    pub(crate) fn end(&mut self, end: SimTime, arrived: u64, backlog: u64, behind_ns: u64) {
        self.end = end.max(self.begin);
        self.offered = Some(Offered { arrived: arrived.saturating_sub(self.before), backlog, behind_ns });
        for record in &mut self.ops {
            record.latency.add(&record.prompt);
            if self.is_open_loop {
                record.from_arrival.add(&record.prompt);
            }
            record.prompt.clear();
        }
    }

    /// Requests completed, without flushes: those come with the request before them and not by themselves.
    pub(crate) fn served(&self) -> u64 {
        [Op::Read, Op::Write, Op::Trim].map(|op| self.ops[op as usize].requests).iter().sum()
    }

    /// Counts a request of `bytes` that has completed.
    #[inline]
    pub(crate) fn complete(&mut self, op: Op, bytes: u64, latency_ns: u64, from_arrival_ns: u64) {
        let record = &mut self.ops[op as usize];
        record.requests += 1;
        record.bytes += bytes;
        // Mostly one histogram instead of two.
        if latency_ns == from_arrival_ns {
            record.prompt.record(latency_ns);
        } else {
            record.latency.record(latency_ns);
            record.from_arrival.record(from_arrival_ns);
        }
    }

    /// Virtual time in which it ran within the window, in ns.
    pub(crate) fn span_ns(&self) -> u64 {
        self.end.since(self.begin)
    }

    /// All of `jobs` together.
    pub(crate) fn total(jobs: &[Self]) -> Option<Self> {
        let mut total = jobs.first()?.clone();
        total.name = "total".to_owned();
        total.offered = None;
        jobs[1..].iter().for_each(|job| total.add(job));
        Some(total)
    }

    fn add(&mut self, other: &Self) {
        for (ours, theirs) in self.ops.iter_mut().zip(&other.ops) {
            ours.requests += theirs.requests;
            ours.bytes += theirs.bytes;
            ours.latency.add(&theirs.latency);
            ours.from_arrival.add(&theirs.from_arrival);
        }
        // Of jobs of which some wait for the drive there is no latency from arrival.
        self.is_open_loop &= other.is_open_loop;
        (self.begin, self.end) = (self.begin.min(other.begin), self.end.max(other.end));
    }
}
