use schemars::JsonSchema;
use serde::Serialize;
use strobe_nand::NandOp;
use strobe_ssd::{DriveStats, Simulated};
use strobe_types::{Op, SimTime, State};

use crate::experiment::{Amount, RunConfig, SteadyMetric};
use crate::numbers::ratio;
use crate::series::{Judged, judge};

/// Rounds between warm-up and measurement, and the outcome of the steady-state test.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, State)]
pub struct SteadyRounds {
    /// Metric tested for steadiness.
    #[state(skip)]
    pub metric: SteadyMetric,
    /// Length of a round.
    #[state(skip)]
    pub interval: Amount,
    /// Number of rounds run.
    pub rounds: u32,
    /// True if the metric was steady: over the last five rounds it spans at most 20 % of its mean, and a
    /// fitted line changes by at most 10 %. Write amplification also needs an erase in the last round.
    pub reached: bool,
    /// Values of the last five rounds: WAF, requests per second, bytes per second, or ns.
    pub values: Vec<f64>,
    /// Mean of `values`. Null with fewer than five rounds, like range_pct and slope_pct.
    pub mean: Option<f64>,
    /// (largest − smallest) / mean, in percent.
    pub range_pct: Option<f64>,
    /// Change along the fitted line / mean, in percent.
    pub slope_pct: Option<f64>,
}

pub(crate) struct RoundStart {
    stats: DriveStats,
    now: SimTime,
    latency: (f64, u64),
}

impl RoundStart {
    pub(crate) fn of(drive: &dyn Simulated, now: SimTime) -> Self {
        let latency = drive.latency();
        let sum = Op::ALL.map(|op| latency.of(op).mean() * latency.of(op).count() as f64).iter().sum();
        let count = Op::ALL.map(|op| latency.of(op).count()).iter().sum();
        Self { stats: drive.stats(), now, latency: (sum, count) }
    }
}

impl SteadyRounds {
    pub(crate) fn new(run: &RunConfig) -> Option<Self> {
        run.until_steady.map(|metric| Self {
            metric,
            interval: run.steady_interval.unwrap_or(Amount::Capacities(1.0)),
            rounds: 0,
            reached: false,
            values: Vec::new(),
            mean: None,
            range_pct: None,
            slope_pct: None,
        })
    }

    pub(crate) fn add(&mut self, start: &RoundStart, drive: &dyn Simulated, now: SimTime) {
        let end = RoundStart::of(drive, now);
        let (window, ns) = (end.stats.since(&start.stats), end.now.since(start.now));
        let commands: u64 = Op::ALL.map(|op| window.host.commands(op)).iter().sum();
        let value = match self.metric {
            SteadyMetric::Waf => window.waf(drive.geometry()),
            SteadyMetric::Iops => ratio(commands, ns).map(|rate| rate * 1e9),
            SteadyMetric::Bandwidth => {
                ratio(window.host.bytes(Op::Read) + window.host.bytes(Op::Write), ns).map(|rate| rate * 1e9)
            }
            SteadyMetric::Latency => {
                // Mean of this round alone: the difference of the sums by the difference of the counts.
                let count = end.latency.1.saturating_sub(start.latency.1);
                (count > 0).then(|| (end.latency.0 - start.latency.0) / count as f64)
            }
        };
        self.rounds += 1;
        match value {
            Some(value) => self.values.push(value),
            // The five rounds must be consecutive, so a round without a value discards the earlier ones.
            None => self.values.clear(),
        }
        if self.values.len() > 5 {
            self.values.remove(0);
        }
        let judged = self.values.last_chunk::<5>().map(judge);
        let collects = window.nand.total(NandOp::Erase) > 0;
        self.reached =
            judged.is_some_and(|judged| judged.is_steady()) && (collects || self.metric != SteadyMetric::Waf);
        (self.mean, self.range_pct, self.slope_pct) = match judged {
            Some(Judged { mean, range_pct, slope_pct }) => (Some(mean), Some(range_pct), Some(slope_pct)),
            None => (None, None, None),
        };
    }

    pub(crate) fn warning(&self) -> Option<String> {
        let metric = self.metric.name();
        (!self.reached).then(|| {
            format!(
                "NOT STEADY: after {} rounds of {} {metric} was still changing (run.until_steady); the \
                 measurement began anyway. A larger run.steady_rounds or a longer run.steady_interval may \
                 help",
                self.rounds, self.interval
            )
        })
    }
}
