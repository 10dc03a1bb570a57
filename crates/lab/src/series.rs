//! A time series of bounded length.

use serde::Serialize;
use strobe_nand::NandOp;
use strobe_ssd::DriveStats;
use strobe_types::Stored;

/// One interval of the run.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema, Stored)]
pub struct Sample {
    /// Host pages (mapping units) written since the drive was new, at the end of the interval.
    pub host_pages: u64,
    /// True if the interval belongs to the measured window.
    pub measured: bool,
    /// Write amplification within the interval; null if the host wrote nothing.
    pub waf: Option<f64>,
    /// Erased blocks at the end.
    pub free_blocks: u32,
    /// Virtual time at the end, in ns.
    pub virtual_ns: u64,
    /// Write amplification of each stream within the interval: mapping units programmed in its blocks per mapping unit that
    /// the host wrote to the drive. Their sum is `waf`, but for the drive's own tables. Not there without a placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<Vec<f64>>,
    /// Flash programs within the interval, in mapping units.
    #[serde(skip)]
    programmed: u64,
    /// Flash programs of each stream.
    #[serde(skip)]
    of_streams: Vec<u64>,
    #[serde(skip)]
    written: u64,
}

/// Samples at equal distances in host pages. When there are too many, neighbours are joined and
/// the distance doubles, so that a run of any length gives between half and all of the most.
#[derive(Clone, Debug, Stored)]
pub(crate) struct Series {
    interval: u64,
    samples: Vec<Sample>,
    last: DriveStats,
    units_per_page: u64,
}

impl Series {
    const MOST: usize = 128;

    /// A series whose first interval is `interval` host pages long.
    pub(crate) fn new(interval: u64, start: DriveStats, units_per_page: u32) -> Self {
        Self {
            interval: interval.max(1),
            samples: Vec::new(),
            last: start,
            units_per_page: u64::from(units_per_page),
        }
    }

    /// Host pages at which the next sample is due.
    pub(crate) fn due(&self) -> u64 {
        self.last.host.units_written + self.interval
    }

    /// Ends the current interval.
    pub(crate) fn sample(&mut self, now: DriveStats, free_blocks: u32, virtual_ns: u64, measured: bool) {
        let window = now.since(&self.last);
        let (written, programmed) =
            (window.host.units_written, window.nand.total(NandOp::Program) * self.units_per_page);
        if written == 0 && programmed == 0 {
            return;
        }
        let of_streams = window.streams.iter().map(|stream| stream.pages * self.units_per_page).collect();
        let sample = Sample {
            host_pages: now.host.units_written,
            measured,
            waf: None,
            free_blocks,
            virtual_ns,
            streams: None,
            programmed,
            of_streams,
            written,
        };
        self.samples.push(sample.with_ratios());
        self.last = now;
        if self.samples.len() > Self::MOST {
            self.join();
        }
    }

    /// Joins neighbours of the same phase.
    fn join(&mut self) {
        let mut joined: Vec<Sample> = Vec::with_capacity(self.samples.len() / 2 + 2);
        let mut mergeable = false;
        for sample in self.samples.drain(..) {
            match joined.last_mut() {
                Some(last) if mergeable && last.measured == sample.measured => {
                    let mut both = sample;
                    both.written += last.written;
                    both.programmed += last.programmed;
                    for (sum, last) in both.of_streams.iter_mut().zip(&last.of_streams) {
                        *sum += last;
                    }
                    *last = both.with_ratios();
                    mergeable = false;
                }
                _ => {
                    joined.push(sample);
                    mergeable = true;
                }
            }
        }
        self.samples = joined;
        self.interval *= 2;
    }

    pub(crate) fn into_samples(self) -> Vec<Sample> {
        self.samples
    }
}

impl Sample {
    /// Returns it with the ratios of its counts.
    fn with_ratios(self) -> Self {
        let streams = self.of_streams.iter().map(|&programmed| ratio(programmed, self.written));
        let streams = streams.collect::<Option<Vec<f64>>>().filter(|streams| !streams.is_empty());
        Self { waf: ratio(self.programmed, self.written), streams, ..self }
    }
}

fn ratio(programmed: u64, written: u64) -> Option<f64> {
    (written > 0).then(|| programmed as f64 / written as f64)
}

/// Steady-state test of write amplification, by the rule of the SNIA performance test specification. Over the
/// last five intervals it must stay within 20 % of their mean, and a fitted line may change by at most 10 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SteadyState {
    /// True if both limits hold and garbage was collected. A drive with free blocks left only looks steady.
    pub reached: bool,
    /// Mean WAF of the last five intervals.
    pub waf_mean: f64,
    /// (largest − smallest) / mean, in percent.
    pub range_pct: f64,
    /// Change along the fitted line / mean, in percent.
    pub slope_pct: f64,
}

impl SteadyState {
    /// Judges the measured part of a series; `None` if it has fewer than five intervals. The run ends within an interval:
    /// less than half of one is no interval of its own, but counts with the one before it.
    pub(crate) fn of(samples: &[Sample], has_collected: bool) -> Option<Self> {
        let counts = samples.iter().filter(|s| s.measured && s.waf.is_some());
        let mut counts: Vec<(u64, u64)> = counts.map(|s| (s.programmed, s.written)).collect();
        if let [.., (programmed, written), rest] = &mut counts[..]
            && rest.1 < written.div_ceil(2)
        {
            *programmed += rest.0;
            *written += rest.1;
            counts.pop();
        }
        let measured: Vec<f64> =
            counts.iter().filter_map(|&(programmed, written)| ratio(programmed, written)).collect();
        let judged = judge(measured.last_chunk::<5>()?);
        let Judged { mean, range_pct, slope_pct } = judged;
        Some(Self { reached: has_collected && judged.is_steady(), waf_mean: mean, range_pct, slope_pct })
    }
}

/// Five values in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Judged {
    pub(crate) mean: f64,
    /// (largest − smallest) / mean, in percent.
    pub(crate) range_pct: f64,
    /// Change along the fitted line / mean, in percent.
    pub(crate) slope_pct: f64,
}

impl Judged {
    /// By the rule of SNIA's performance test specification.
    pub(crate) fn is_steady(self) -> bool {
        self.range_pct <= 20.0 && self.slope_pct <= 10.0
    }
}

/// Spread and slope of five successive values.
pub(crate) fn judge(last: &[f64; 5]) -> Judged {
    let mean = last.iter().sum::<f64>() / 5.0;
    let spread =
        last.iter().copied().fold(f64::MIN, f64::max) - last.iter().copied().fold(f64::MAX, f64::min);
    // Least squares over x = -2..2, whose squares add up to 10.
    let slope = last.iter().zip([-2.0, -1.0, 0.0, 1.0, 2.0]).map(|(y, x)| x * y).sum::<f64>() / 10.0;
    Judged { mean, range_pct: 100.0 * spread / mean, slope_pct: 100.0 * (4.0 * slope).abs() / mean }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(waf: f64) -> Sample {
        Sample {
            host_pages: 0,
            measured: true,
            waf: Some(waf),
            free_blocks: 0,
            virtual_ns: 0,
            streams: None,
            programmed: (waf * 100.0) as u64,
            of_streams: Vec::new(),
            written: 100,
        }
    }

    #[test]
    fn what_is_left_of_an_interval_at_the_end_is_judged_with_the_one_before() {
        let mut series: Vec<Sample> = [3.0, 2.0, 2.0, 2.0, 2.0, 2.0].map(sample).into();
        let rest = |written, programmed| Sample { written, programmed, waf: Some(0.0), ..sample(0.0) };
        series.push(rest(49, 147));
        let judged = SteadyState::of(&series, true).expect("six intervals");
        let last = 347.0 / 149.0;
        assert!((judged.waf_mean - (8.0 + last) / 5.0).abs() < 1e-12, "{judged:?}");
        // Half of an interval is one.
        series[6] = rest(50, 50);
        let judged = SteadyState::of(&series, true).expect("seven intervals");
        assert!((judged.waf_mean - 9.0 / 5.0).abs() < 1e-12 && !judged.reached, "{judged:?}");
        // Four intervals and a rest are too few.
        assert_eq!(SteadyState::of(&[&series[1..5], &[rest(1, 5)]].concat(), true), None);
    }

    #[test]
    fn a_flat_series_is_steady_and_a_rising_one_is_not() {
        let flat: Vec<Sample> = [2.0, 2.02, 1.99, 2.01, 2.0].map(sample).into();
        assert!(SteadyState::of(&flat, true).expect("five samples").reached);
        assert!(!SteadyState::of(&flat, false).expect("five samples").reached, "nothing was collected");
        let rising: Vec<Sample> = [1.0, 1.2, 1.4, 1.6, 1.8].map(sample).into();
        let judged = SteadyState::of(&rising, true).expect("five samples");
        assert!(!judged.reached && (judged.slope_pct - 800.0 / 14.0).abs() < 1e-9, "{judged:?}");
        assert_eq!(SteadyState::of(&flat[1..], true), None);
    }
}
