//! Arrival times of open-loop requests: evenly spaced or random, at a constant or varying rate.
//!
//! Λ(t) is the integral of the rate from the start to t; `docs/MODEL.md`, section 2, defines the arrivals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::{Prng, SimTime, State, StateError, StateReader, StateWriter, Stored, named};

named! {
    /// Distribution of open-loop arrivals in time.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum RateProcess {
        /// Evenly spaced.
        #[default]
        Linear => "linear",
        /// Poisson process: independent arrivals with exponential gaps.
        Poisson => "poisson",
    }
}

/// A point of a varying rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatePoint {
    /// Time since the start, in ns.
    pub at_ns: u64,
    /// Requests per second at this point. The rate is linear between points.
    pub iops: f64,
}

const NS_PER_S: f64 = 1e9;

/// Tolerance for rounding in sums of fractions: without it, a burst of 40 requests could become one of 41.
const ROUNDING: f64 = 1e-9;

/// Ordered arrival times of one job. Endless, unless the rate ends at 0.
#[derive(Clone, Debug, State)]
pub struct Arrivals {
    clock: Clock,
    #[state(skip)]
    process: RateProcess,
    gaps: Prng,
    start: SimTime,
    next: Option<SimTime>,
    count: u64,
}

#[derive(Clone, Debug)]
enum Clock {
    Constant { iops: u32, mean_gap_ns: f64, fraction: f64, ns: u64 },
    Curve(Curve),
}

impl Arrivals {
    /// Arrivals at a constant `iops` per second from `start` on; 0 counts as 1.
    pub fn constant(process: RateProcess, iops: u32, start: SimTime, gaps: Prng) -> Self {
        let iops = iops.max(1);
        let mean_gap_ns = NS_PER_S / f64::from(iops);
        Self::new(process, Clock::Constant { iops, mean_gap_ns, fraction: 0.0, ns: 0 }, start, gaps)
    }

    /// Arrivals from `start` on, at a rate interpolated linearly through `points`.
    ///
    /// Times of points ascend; two points at one time are a step. Before the first and after the last point
    /// the rate is constant. With `repeat_ns`, later than all points, the curve repeats with that period. A
    /// repeated curve needs a rate above 0 somewhere.
    pub fn curve(
        process: RateProcess,
        points: &[RatePoint],
        repeat_ns: Option<u64>,
        start: SimTime,
        gaps: Prng,
    ) -> Self {
        Self::new(process, Clock::Curve(Curve::new(points, repeat_ns)), start, gaps)
    }

    fn new(process: RateProcess, clock: Clock, start: SimTime, gaps: Prng) -> Self {
        let mut arrivals = Self { clock, process, gaps, start, next: Some(start), count: 0 };
        arrivals.next = match process {
            // The first request arrives at Λ = 0, as soon as the rate is above 0.
            RateProcess::Linear => arrivals.after(0.0),
            RateProcess::Poisson => arrivals.step(),
        };
        arrivals
    }

    /// Time of the next arrival; `None` if the rate stays 0.
    #[inline]
    pub fn next(&self) -> Option<SimTime> {
        self.next
    }

    /// Number of arrivals before [`Arrivals::next`].
    #[inline]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Steps to the following arrival. At the end of virtual time (584 years) arrivals stand still.
    #[inline]
    pub fn advance(&mut self) {
        if self.next.is_some() {
            self.count += 1;
            self.next = self.step();
        }
    }

    /// Steps to the first arrival at or after `time`, past at most `most` arrivals.
    ///
    /// [`Arrivals::count`] then counts the arrivals before it. Returns the expected number of arrivals left
    /// before `time`: 0 unless `most` was reached.
    #[must_use]
    pub fn advance_to(&mut self, time: SimTime, most: u64) -> u64 {
        if self.next.is_none_or(|next| next >= time) {
            return 0;
        }
        let ns = time.since(self.start);
        if let (RateProcess::Linear, Clock::Constant { iops, .. }) = (self.process, &self.clock) {
            // Evenly spaced arrivals are computed, not stepped through, so `most` has no effect.
            let count = (u128::from(ns) * u128::from(*iops)).div_ceil(1_000_000_000);
            self.count = u64::try_from(count).unwrap_or(u64::MAX);
            self.next = self.step();
            return 0;
        }
        let last = self.count.saturating_add(most);
        while self.next.is_some_and(|next| next < time) {
            if self.count >= last {
                // The clock stands at the next arrival, which counts as the first of the rest.
                let expected = match &self.clock {
                    Clock::Constant { mean_gap_ns, ns: at, .. } => {
                        ns.saturating_sub(*at) as f64 / mean_gap_ns
                    }
                    Clock::Curve(curve) => curve.clone().expected_to(ns),
                };
                return 1 + libm::round(expected) as u64;
            }
            self.advance();
        }
        0
    }

    #[inline]
    fn step(&mut self) -> Option<SimTime> {
        match self.process {
            RateProcess::Linear => match self.clock {
                Clock::Constant { iops, .. } => {
                    let ns = u128::from(self.count) * 1_000_000_000 / u128::from(iops);
                    Some(self.start + u64::try_from(ns).unwrap_or(u64::MAX))
                }
                Clock::Curve(_) => self.after(1.0),
            },
            RateProcess::Poisson => {
                // 1 − unit lies in (0, 1], so the logarithm is finite and the gap never negative.
                let gap = -libm::log(1.0 - self.gaps.unit());
                self.after(gap)
            }
        }
    }

    #[inline]
    fn after(&mut self, requests: f64) -> Option<SimTime> {
        match &mut self.clock {
            Clock::Constant { mean_gap_ns, fraction, ns, .. } => {
                // Keep the fraction of a nanosecond apart, so that precision does not degrade in long runs.
                let gap = *fraction + requests * *mean_gap_ns;
                let whole = gap as u64;
                (*ns, *fraction) = (ns.saturating_add(whole), gap - whole as f64);
                Some(self.start + *ns)
            }
            Clock::Curve(curve) => curve.after(requests).map(|ns| self.start + ns),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    length_ns: f64,
    /// Requests per ns at the start, and their change per ns.
    rate: f64,
    slope: f64,
}

impl Piece {
    #[inline]
    fn requests_from(self, into_ns: f64) -> f64 {
        self.requests_between(into_ns, self.length_ns)
    }

    #[inline]
    fn requests_between(self, from_ns: f64, to_ns: f64) -> f64 {
        (self.rate + self.slope * (from_ns + to_ns) / 2.0) * (to_ns - from_ns)
    }
}

#[derive(Clone, Debug, State)]
struct Curve {
    #[state(skip)]
    pieces: Vec<Piece>,
    #[state(skip)]
    starts: Vec<u64>,
    #[state(skip)]
    repeat_ns: Option<u64>,
    /// Requests per repetition.
    #[state(skip)]
    in_round: f64,
    /// Current piece, time into it, and start of the current repetition.
    at: usize,
    into_ns: f64,
    round_ns: u64,
}

impl Curve {
    fn new(points: &[RatePoint], repeat_ns: Option<u64>) -> Self {
        // Pieces cover the time from 0 to the end of a repetition without gaps; steps have no length.
        let (mut pieces, mut starts) = (Vec::new(), Vec::new());
        let first = points.first().copied().unwrap_or(RatePoint { at_ns: 0, iops: 0.0 });
        let last = points.last().copied().unwrap_or(first);
        let mut push = |at_ns: u64, end_ns: u64, from: f64, to: f64| {
            let length_ns = (end_ns - at_ns) as f64;
            let rate = from / NS_PER_S;
            let slope = if end_ns == u64::MAX { 0.0 } else { (to / NS_PER_S - rate) / length_ns };
            pieces.push(Piece { length_ns, rate, slope });
            starts.push(at_ns);
        };
        if first.at_ns > 0 {
            push(0, first.at_ns, first.iops, first.iops);
        }
        for pair in points.windows(2).filter(|pair| pair[0].at_ns < pair[1].at_ns) {
            push(pair[0].at_ns, pair[1].at_ns, pair[0].iops, pair[1].iops);
        }
        let end = repeat_ns.unwrap_or(u64::MAX);
        if last.at_ns < end {
            push(last.at_ns, end, last.iops, last.iops);
        }
        let in_round = pieces.iter().map(|piece| piece.requests_from(0.0)).sum();
        Self { pieces, starts, repeat_ns, in_round, at: 0, into_ns: 0.0, round_ns: 0 }
    }

    fn after(&mut self, mut requests: f64) -> Option<u64> {
        loop {
            let piece = self.pieces[self.at];
            let in_piece = piece.requests_from(self.into_ns);
            // A piece of rate 0 has no arrival. An arrival at the very end of a piece belongs to the next
            // piece.
            if requests < in_piece * (1.0 - ROUNDING) {
                let rate = piece.rate + piece.slope * self.into_ns;
                // Solve rate·x + slope·x²/2 = requests by the form of the root that avoids cancellation.
                let root = (rate * rate + 2.0 * piece.slope * requests).max(0.0).sqrt();
                self.into_ns += if requests > 0.0 { 2.0 * requests / (rate + root) } else { 0.0 };
                let start = self.round_ns.saturating_add(self.starts[self.at]);
                return Some(start.saturating_add(self.into_ns as u64));
            }
            requests = (requests - in_piece.max(0.0)).max(0.0);
            (self.at, self.into_ns) = (self.at + 1, 0.0);
            if self.at == self.pieces.len() {
                self.at = 0;
                // Skip whole repetitions without an arrival in one step.
                let idle = (requests / self.in_round) as u64;
                requests -= idle as f64 * self.in_round;
                let rounds = idle.saturating_add(1);
                self.round_ns = self.round_ns.saturating_add(rounds.saturating_mul(self.repeat_ns?));
                if self.round_ns == u64::MAX {
                    return Some(u64::MAX);
                }
            }
        }
    }
}

impl Curve {
    fn expected_to(&mut self, ns: u64) -> f64 {
        let mut expected = 0.0;
        loop {
            let piece = self.pieces[self.at];
            let into_ns = ns.saturating_sub(self.round_ns.saturating_add(self.starts[self.at])) as f64;
            if into_ns < piece.length_ns {
                expected += piece.requests_between(self.into_ns, into_ns.max(self.into_ns));
                self.into_ns = into_ns.max(self.into_ns);
                return expected;
            }
            expected += piece.requests_from(self.into_ns);
            (self.at, self.into_ns) = (self.at + 1, 0.0);
            if self.at == self.pieces.len() {
                self.at = 0;
                let Some(repeat_ns) = self.repeat_ns else { return expected };
                self.round_ns = self.round_ns.saturating_add(repeat_ns);
                // Whole repetitions before `ns` have the same number of requests each.
                let rounds = ns.saturating_sub(self.round_ns) / repeat_ns;
                self.round_ns = self.round_ns.saturating_add(rounds.saturating_mul(repeat_ns));
                expected += rounds as f64 * self.in_round;
            }
        }
    }
}

impl State for Clock {
    fn save_state(&self, out: &mut StateWriter<'_>) {
        match self {
            Clock::Constant { iops: _, mean_gap_ns: _, fraction, ns } => (*fraction, *ns).save_state(out),
            Clock::Curve(curve) => curve.save_state(out),
        }
    }

    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        match self {
            Clock::Constant { iops: _, mean_gap_ns: _, fraction, ns } => {
                (*fraction, *ns) = Stored::restored(from)?;
                Ok(())
            }
            Clock::Curve(curve) => curve.load_state(from),
        }
    }
}

#[cfg(test)]
mod tests;
