use strobe_ssd::{DriveStats, Latency};
use strobe_types::{Op, SimTime};

use strobe_ssd::Latencies;

#[derive(Clone, Debug)]
pub(crate) struct OpRecord {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) bytes: u64,
    pub(crate) latency: Latencies,
    /// From arrival to completion; empty in closed loop, where both are equal.
    pub(crate) from_arrival: Latencies,
    /// Latencies of requests issued on arrival. They join `latency`, and in open loop `from_arrival`, at the
    /// end of the window.
    prompt: Latencies,
}

impl OpRecord {
    fn new([requests, errors, bytes]: [u64; 3], latency: Latencies) -> Self {
        Self { requests, errors, bytes, latency, from_arrival: Latencies::new(), prompt: Latencies::new() }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offered {
    pub(crate) arrived: u64,
    /// Requests that had arrived at the end of the window and were not issued.
    pub(crate) backlog: u64,
    /// Waiting time of the oldest of these requests, in ns.
    pub(crate) behind_ns: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) ops: [OpRecord; Op::ALL.len()],
    pub(crate) is_open_loop: bool,
    pub(crate) begin: SimTime,
    pub(crate) end: SimTime,
    pub(crate) offered: Option<Offered>,
    before: u64,
}

impl Record {
    pub(crate) fn new(name: String, is_open_loop: bool) -> Self {
        Self {
            name,
            ops: Op::ALL.map(|_| OpRecord::new([0; 3], Latencies::new())),
            is_open_loop,
            begin: SimTime::ZERO,
            end: SimTime::ZERO,
            offered: None,
            before: 0,
        }
    }

    pub(crate) fn of_drive(name: &str, stats: &DriveStats, latency: &Latency) -> Self {
        let host = &stats.host;
        let op = |op: Op| {
            OpRecord::new([host.commands(op), host.errors(op), host.bytes(op)], latency.of(op).clone())
        };
        Self { ops: Op::ALL.map(op), ..Self::new(name.to_owned(), false) }
    }

    pub(crate) fn begin(&mut self, begin: SimTime, arrived: u64) {
        (self.begin, self.before) = (begin, arrived);
    }

    /// Ends the window. `arrived` counts all arrivals of the job. Of these, `backlog` requests wait, the
    /// oldest for `behind_ns`.
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

    /// Completed and failed requests, without flushes.
    pub(crate) fn served(&self) -> u64 {
        let answered = |op: Op| self.ops[op as usize].requests + self.ops[op as usize].errors;
        [Op::Read, Op::Write, Op::Trim].map(answered).iter().sum()
    }

    #[cold]
    pub(crate) fn fail(&mut self, op: Op) {
        self.ops[op as usize].errors += 1;
    }

    #[inline]
    pub(crate) fn complete(&mut self, op: Op, bytes: u64, latency_ns: u64, from_arrival_ns: u64) {
        let record = &mut self.ops[op as usize];
        record.requests += 1;
        record.bytes += bytes;
        // If the request was issued on arrival, one histogram is updated instead of two.
        if latency_ns == from_arrival_ns {
            record.prompt.record(latency_ns);
        } else {
            record.latency.record(latency_ns);
            record.from_arrival.record(from_arrival_ns);
        }
    }

    /// Time that the job ran within the window, in ns.
    pub(crate) fn span_ns(&self) -> u64 {
        self.end.since(self.begin)
    }

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
            ours.errors += theirs.errors;
            ours.bytes += theirs.bytes;
            ours.latency.add(&theirs.latency);
            ours.from_arrival.add(&theirs.from_arrival);
        }
        // If some jobs run in closed loop, the sum has no latency from arrival.
        self.is_open_loop &= other.is_open_loop;
        (self.begin, self.end) = (self.begin.min(other.begin), self.end.max(other.end));
    }
}
