//! Latencies as they are measured.

use hdrhistogram::Histogram;
use strobe_ssd::Latency;
use strobe_types::Op;

/// Latencies in ns, exact to three digits, with what the histogram rounds.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    histogram: Histogram<u64>,
    sum: u128,
    min: u64,
    max: u64,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        // As those of a drive: they grow with what they see.
        let histogram = Histogram::new(3).expect("three digits are possible");
        Self { histogram, sum: 0, min: u64::MAX, max: 0 }
    }

    /// Those of one kind that a drive has kept.
    pub(crate) fn of(latency: &Latency, op: Op) -> Self {
        let histogram = latency.of(op).clone();
        let (min, max) = latency.extremes_ns(op).unwrap_or((u64::MAX, 0));
        // The mean is that of a sum in whole ns.
        let sum = (latency.mean_ns(op) * histogram.len() as f64).round() as u128;
        Self { histogram, sum, min, max }
    }

    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        let recorded = self.histogram.record(ns);
        debug_assert!(recorded.is_ok(), "a growing histogram takes every value");
        self.sum += u128::from(ns);
        (self.min, self.max) = (self.min.min(ns), self.max.max(ns));
    }

    /// Takes those of `other` in, too.
    pub(crate) fn add(&mut self, other: &Self) {
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok(), "a growing histogram takes every value");
        self.sum += other.sum;
        (self.min, self.max) = (self.min.min(other.min), self.max.max(other.max));
    }

    pub(crate) fn clear(&mut self) {
        self.histogram.reset();
        (self.sum, self.min, self.max) = (0, u64::MAX, 0);
    }

    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Shortest and longest, exact; zeros if there are none.
    pub(crate) fn extremes(&self) -> (u64, u64) {
        if self.count() == 0 { (0, 0) } else { (self.min, self.max) }
    }

    /// Exact mean, 0 if there are none.
    pub(crate) fn mean(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum as f64 / self.count() as f64 }
    }

    pub(crate) fn stddev(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.histogram.stdev() }
    }

    /// The latency that `percent` of all do not exceed, never beyond the extremes; 0 if there are none.
    pub(crate) fn percentile(&self, percent: f64) -> u64 {
        let (min, max) = self.extremes();
        self.histogram.value_at_quantile(percent / 100.0).clamp(min, max)
    }

    /// Latencies and how many there are of each.
    pub(crate) fn counts(&self) -> Vec<(u64, u64)> {
        let steps = self.histogram.iter_recorded();
        steps.map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
    }
}
