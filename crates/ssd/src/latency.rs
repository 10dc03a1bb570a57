use hdrhistogram::Histogram;
use strobe_types::{Op, StateError, StateReader, StateWriter, Stored};

/// Latencies in ns: a histogram with three significant digits, and exact sums and extremes.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    sum: u128,
    /// Sum of the squares, in ns².
    squares: u128,
    min: u64,
    max: u64,
}

impl Latencies {
    /// An empty histogram.
    pub fn new() -> Self {
        // The histogram grows with its values. An empty one takes 16 KiB; one sized for all of virtual time
        // would take half a megabyte.
        let histogram = Histogram::new(3).expect("three digits are possible");
        Self { histogram, sum: 0, squares: 0, min: u64::MAX, max: 0 }
    }

    /// Records one latency.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        let recorded = self.histogram.record(ns);
        debug_assert!(recorded.is_ok(), "a growing histogram takes every value");
        self.sum += u128::from(ns);
        self.squares = self.squares.saturating_add(u128::from(ns) * u128::from(ns));
        (self.min, self.max) = (self.min.min(ns), self.max.max(ns));
    }

    /// Adds the latencies of `other`.
    pub fn add(&mut self, other: &Self) {
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok(), "a growing histogram takes every value");
        self.sum += other.sum;
        self.squares = self.squares.saturating_add(other.squares);
        (self.min, self.max) = (self.min.min(other.min), self.max.max(other.max));
    }

    /// Clears the histogram.
    pub fn clear(&mut self) {
        self.histogram.reset();
        (self.sum, self.squares, self.min, self.max) = (0, 0, u64::MAX, 0);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Shortest and longest, exact; zeros if empty.
    pub fn extremes(&self) -> (u64, u64) {
        if self.count() == 0 { (0, 0) } else { (self.min, self.max) }
    }

    /// Exact mean, 0 if empty.
    pub fn mean(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum as f64 / self.count() as f64 }
    }

    /// Standard deviation, from exact sums instead of histogram bins; 0 if empty.
    pub fn stddev(&self) -> f64 {
        if self.count() == 0 {
            return 0.0;
        }
        let count = u128::from(self.count());
        match (count.checked_mul(self.squares), self.sum.checked_mul(self.sum)) {
            (Some(squares), Some(square)) => (squares.saturating_sub(square) as f64).sqrt() / count as f64,
            // The integers overflow only with billions of latencies of hours. Rounding does not matter there.
            _ => (self.squares as f64 / count as f64 - self.mean() * self.mean()).max(0.0).sqrt(),
        }
    }

    /// The latency that `percent` of all values do not exceed, limited to the extremes; 0 if empty.
    pub fn percentile(&self, percent: f64) -> u64 {
        let (min, max) = self.extremes();
        // In floating point, 99.9 / 100 of 1000 is slightly above 999, which would select rank 1000.
        let quantile = percent / 100.0 * (1.0 - 1e-12);
        self.histogram.value_at_quantile(quantile).clamp(min, max)
    }

    /// [`Latencies::percentile`]; `None` unless at least one value is expected beyond it on either side. The
    /// 99th percentile needs 100 values, the 99.9th 1000.
    pub fn known_percentile(&self, percent: f64) -> Option<u64> {
        let expected = self.count() as f64 * percent.min(100.0 - percent) / 100.0;
        // In floating point, a thousandth of 1000 is slightly below 1.
        (expected > 1.0 - 1e-9).then(|| self.percentile(percent))
    }

    /// Latencies in the histogram, each with its count.
    pub fn counts(&self) -> Vec<(u64, u64)> {
        let steps = self.histogram.iter_recorded();
        steps.map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

/// Completion latencies of a drive, by kind of request.
#[derive(Clone, Debug, Default, Stored)]
pub struct Latency {
    ops: [Latencies; Op::ALL.len()],
}

impl Latency {
    /// Empty histograms.
    pub fn new() -> Self {
        Self::default()
    }

    #[inline]
    pub(crate) fn record(&mut self, op: Op, ns: u64) {
        self.ops[op as usize].record(ns);
    }

    /// The latencies of one kind.
    pub fn of(&self, op: Op) -> &Latencies {
        &self.ops[op as usize]
    }

    /// Clears all histograms, for a new measurement window.
    pub fn clear(&mut self) {
        self.ops.iter_mut().for_each(Latencies::clear);
    }
}

impl Stored for Latencies {
    fn store(&self, out: &mut StateWriter<'_>) {
        let Self { histogram: _, sum, squares, min, max } = self;
        self.counts().store(out);
        (*sum, *min, *max).store(out);
        squares.store(out);
    }

    fn restored(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        let mut latencies = Self::new();
        for (ns, count) in <Vec<(u64, u64)>>::restored(from)? {
            let recorded = latencies.histogram.record_n(ns, count);
            recorded.map_err(|_| StateError::Unfit("a latency that no histogram takes"))?;
        }
        (latencies.sum, latencies.min, latencies.max) = Stored::restored(from)?;
        latencies.squares = Stored::restored(from)?;
        Ok(latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_of_a_whole_number_of_values_is_the_last_of_them() {
        let mut latencies = Latencies::new();
        (1..=1000).for_each(|ns| latencies.record(ns));
        for (percent, expected) in
            [(99.9, 999), (99.0, 990), (50.0, 500), (99.95, 1000), (100.0, 1000), (0.1, 1)]
        {
            assert_eq!(latencies.percentile(percent), expected, "{percent} %");
        }
    }

    #[test]
    fn a_percentile_is_known_from_as_many_values_as_have_one_beyond_it() {
        let of = |count: u64| {
            let mut latencies = Latencies::new();
            (1..=count).for_each(|ns| latencies.record(ns));
            [1.0, 50.0, 99.0, 99.9].map(|percent| latencies.known_percentile(percent))
        };
        assert_eq!(of(0), [None; 4]);
        assert_eq!(of(1), [None; 4]);
        assert_eq!(of(5), [None, Some(3), None, None]);
        assert_eq!(of(99), [None, Some(50), None, None]);
        assert_eq!(of(100), [Some(1), Some(50), Some(99), None]);
        assert_eq!(of(1000), [Some(10), Some(500), Some(990), Some(999)]);
    }

    #[test]
    fn the_deviation_is_exact_however_large_the_values() {
        let of = |values: &[u64]| {
            let mut latencies = Latencies::new();
            values.iter().for_each(|&ns| latencies.record(ns));
            latencies.stddev()
        };
        assert_eq!(of(&[]), 0.0);
        assert_eq!(of(&[1_000_000_007; 5]), 0.0);
        // One bin of the histogram holds both.
        assert_eq!(of(&[10_000_000, 10_000_002]), 1.0);
        assert_eq!(of(&[u64::MAX; 3]), 0.0);
        assert!((of(&[1, u64::MAX]) / (u64::MAX as f64 / 2.0) - 1.0).abs() < 1e-9);
    }
}
