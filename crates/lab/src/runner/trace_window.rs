//! Warm-up and measured window of a trace.

use strobe_workload::trace::{Covered, Extent, TraceRecord};

use crate::experiment::{Amount, RunConfig};

/// Position in a trace that is replayed any number of times, counted from the beginning of the current
/// phase.
pub(super) struct TraceWindow {
    warmup: Option<Amount>,
    measure: Option<Amount>,
    pub(super) is_measuring: bool,
    covered: Covered,
    passes: u64,
    /// Time on the trace's clock of all passes before this one.
    passed_ns: u64,
    /// Time on the trace's clock at which the phase began.
    began_ns: u64,
}

impl TraceWindow {
    pub(super) fn new(run: &RunConfig) -> Self {
        Self {
            warmup: Some(run.warmup).filter(|amount| !amount.is_zero()),
            measure: run.measure,
            is_measuring: false,
            covered: Covered::default(),
            passes: 0,
            passed_ns: 0,
            began_ns: 0,
        }
    }

    pub(super) fn warmup(&self) -> Option<Amount> {
        self.warmup
    }

    pub(super) fn measure(&self) -> Option<Amount> {
        self.measure
    }

    fn length(&self) -> Option<Amount> {
        if self.is_measuring { self.measure } else { self.warmup }
    }

    pub(super) fn warms_up_by_pages(&self) -> bool {
        !self.is_measuring && matches!(self.warmup, Some(Amount::Pages(_) | Amount::Capacities(_)))
    }

    pub(super) fn count(&mut self, record: &TraceRecord) {
        self.covered.add(record.bytes, record.detail);
    }

    /// True if the phase ends before a request at `time_ns` of this pass. Host pages are counted by the drive.
    pub(super) fn is_over(&self, time_ns: u64) -> bool {
        match self.length() {
            Some(Amount::Repeats(passes)) => self.passes >= passes,
            Some(amount) => {
                let ns = (self.passed_ns.saturating_add(time_ns)).saturating_sub(self.began_ns);
                amount.extent().is_some_and(|extent| self.covered.is_past(extent, ns))
            }
            None => false,
        }
    }

    /// Time of this pass at which the phase ends, if its length is a time.
    pub(super) fn end_ns(&self) -> Option<u64> {
        let length = self.length()?.ns()?;
        Some(self.began_ns.saturating_add(length).saturating_sub(self.passed_ns))
    }

    /// Begins the measured window before a request at `time_ns` of this pass.
    pub(super) fn begin_measuring(&mut self, time_ns: u64) {
        self.is_measuring = true;
        self.began_ns = self.passed_ns.saturating_add(time_ns);
        (self.covered, self.passes) = (Covered::default(), 0);
    }

    pub(super) fn end_pass(&mut self, duration_ns: u64) {
        self.passes += 1;
        self.passed_ns = self.passed_ns.saturating_add(duration_ns);
    }

    pub(super) fn has_covered_nothing(&self) -> bool {
        self.covered == Covered::default()
    }

    /// The part of the trace covered by the current phase, for messages.
    pub(super) fn covered(&self) -> String {
        let Covered { requests, bytes } = self.covered;
        let seconds = self.passed_ns.saturating_sub(self.began_ns) as f64 / 1e9;
        format!("{requests} requests, {} MiB and {seconds:.1} s of the trace", bytes >> 20)
    }
}

impl Amount {
    fn extent(self) -> Option<Extent> {
        match self {
            Amount::Requests(requests) => Some(Extent::Requests(requests)),
            Amount::Bytes(bytes) => Some(Extent::Bytes(bytes)),
            Amount::Time(time) => Some(Extent::Time(time.as_ns())),
            Amount::Pages(_) | Amount::Capacities(_) | Amount::Repeats(_) => None,
        }
    }
}

/// Returns the part of a trace before or within its slice.
pub(super) fn extent(amount: Option<Amount>) -> Option<Extent> {
    amount.and_then(Amount::extent)
}
