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
    /// Erased blocks at the end of the interval.
    pub free_blocks: u32,
    /// Virtual time at the end of the interval, in ns.
    pub virtual_ns: u64,
    /// Write amplification of each stream within the interval: mapping units programmed in the stream's
    /// blocks per mapping unit that the host wrote to the drive. The sum is `waf` without the drive's own
    /// tables. Absent without a placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<Vec<f64>>,
    #[serde(skip)]
    programmed: u64,
    #[serde(skip)]
    of_streams: Vec<u64>,
    #[serde(skip)]
    written: u64,
}

/// Above [`Series::MOST`] samples, neighbours are joined and the distance doubles. A long run thus has at
/// least half of this number.
#[derive(Clone, Debug, Stored)]
pub(crate) struct Series {
    interval: u64,
    samples: Vec<Sample>,
    last: DriveStats,
    units_per_page: u64,
}

impl Series {
    const MOST: usize = 128;

    pub(crate) fn new(interval: u64, start: DriveStats, units_per_page: u32) -> Self {
        Self {
            interval: interval.max(1),
            samples: Vec::new(),
            last: start,
            units_per_page: u64::from(units_per_page),
        }
    }

    pub(crate) fn due(&self) -> u64 {
        self.last.host.units_written + self.interval
    }

    /// Ends a sample. Less than half an interval joins the sample before it, because the write amplification
    /// of a few writes is meaningless.
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
        self.last = now;
        add(&mut self.samples, self.interval, sample);
        if self.samples.len() > Self::MOST {
            self.join();
        }
    }

    fn join(&mut self) {
        let mut joined: Vec<Sample> = Vec::with_capacity(self.samples.len() / 2 + 2);
        let mut mergeable = false;
        for sample in self.samples.drain(..) {
            // A sample of the warm-up is never joined with one of the window.
            match joined.last_mut() {
                Some(last) if mergeable && last.measured == sample.measured => {
                    last.join(sample);
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

fn add(samples: &mut Vec<Sample>, interval: u64, sample: Sample) {
    match samples.last_mut() {
        Some(last) if last.measured == sample.measured && 2 * sample.written < interval => last.join(sample),
        _ => samples.push(sample.with_ratios()),
    }
}

impl Sample {
    fn join(&mut self, mut next: Self) {
        next.written += self.written;
        next.programmed += self.programmed;
        for (sum, before) in next.of_streams.iter_mut().zip(&self.of_streams) {
            *sum += before;
        }
        *self = next.with_ratios();
    }

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
/// last five intervals it may span at most 20 % of its mean, and a fitted line may change by at most 10 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SteadyState {
    /// True if both limits hold and garbage was collected. Before the first collection a drive only looks
    /// steady.
    pub reached: bool,
    /// Mean WAF of the last five intervals.
    pub waf_mean: f64,
    /// (largest − smallest) / mean, in percent.
    pub range_pct: f64,
    /// Change along the fitted line / mean, in percent.
    pub slope_pct: f64,
}

impl SteadyState {
    pub(crate) fn of(samples: &[Sample], has_collected: bool) -> Option<Self> {
        let measured: Vec<f64> = samples.iter().filter(|s| s.measured).filter_map(|s| s.waf).collect();
        let judged = judge(measured.last_chunk::<5>()?);
        let Judged { mean, range_pct, slope_pct } = judged;
        Some(Self { reached: has_collected && judged.is_steady(), waf_mean: mean, range_pct, slope_pct })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Judged {
    pub(crate) mean: f64,
    pub(crate) range_pct: f64,
    pub(crate) slope_pct: f64,
}

impl Judged {
    pub(crate) fn is_steady(self) -> bool {
        self.range_pct <= 20.0 && self.slope_pct <= 10.0
    }
}

pub(crate) fn judge(last: &[f64; 5]) -> Judged {
    let mean = last.iter().sum::<f64>() / 5.0;
    let spread =
        last.iter().copied().fold(f64::MIN, f64::max) - last.iter().copied().fold(f64::MAX, f64::min);
    // Least squares over x = -2..2, whose squares add up to 10.
    let slope = last.iter().zip([-2.0, -1.0, 0.0, 1.0, 2.0]).map(|(y, x)| x * y).sum::<f64>() / 10.0;
    // From x = -2 to 2 the fitted line changes by four slopes.
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
    fn what_is_left_of_an_interval_at_the_end_counts_with_the_one_before() {
        let rest = |written, programmed| Sample { written, programmed, ..sample(0.0) };
        let ended = |intervals: &[f64], rest: Sample| {
            let mut series = Vec::new();
            let all = intervals.iter().map(|&waf| sample(waf)).chain([rest]);
            all.for_each(|sample| add(&mut series, 100, sample));
            series
        };
        let six = ended(&[3.0, 2.0, 2.0, 2.0, 2.0, 2.0], rest(49, 147));
        assert_eq!((six.len(), six[5].waf, six[5].written), (6, Some(347.0 / 149.0), 149));
        // Half an interval is kept.
        let seven = ended(&[3.0, 2.0, 2.0, 2.0, 2.0, 2.0], rest(50, 50));
        let judged = SteadyState::of(&seven, true).expect("seven intervals");
        assert!((judged.waf_mean - 9.0 / 5.0).abs() < 1e-12 && !judged.reached, "{judged:?}");
        // Four intervals and a remainder are too few, and the remainder of another phase is kept.
        assert_eq!(SteadyState::of(&ended(&[2.0; 4], rest(1, 5)), true), None);
        assert_eq!(ended(&[2.0; 4], Sample { measured: false, ..rest(1, 5) }).len(), 5);
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
