//! When the requests of an open loop come: at equal distances or at random, at a rate that may change with time.
//!
//! Arrivals are counted in *expected requests*: Λ(t) is the integral of the rate from the start to t. At equal
//! distances the k-th request, counted from 0, comes when Λ reaches k; in a Poisson process it comes when Λ reaches
//! the sum of k + 1 exponential numbers of mean 1. So a ramp or a burst is nothing but another rate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::{Prng, SimTime, State, StateError, StateReader, StateWriter, Stored, named};

named! {
    /// How the arrivals of an open loop are distributed in time.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum RateProcess {
        /// At equal distances.
        #[default]
        Linear => "linear",
        /// Independent of each other, with exponential gaps: a Poisson process.
        Poisson => "poisson",
    }
}

/// A point of a rate that changes with time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatePoint {
    /// Time since the start, in ns.
    pub at_ns: u64,
    /// Requests per second from here on, on a straight line to the next point.
    pub iops: f64,
}

const NS_PER_S: f64 = 1e9;

/// What sums of fractions may be wrong by, as a share: a burst that is to have 40 has not 41.
const ROUNDING: f64 = 1e-9;

/// The arrivals of one job, in order: an endless series of times, but for a rate that ends at 0.
#[derive(Clone, Debug)]
pub struct Arrivals {
    clock: Clock,
    process: RateProcess,
    gaps: Prng,
    start: SimTime,
    /// The next arrival; `None` when there are no more.
    next: Option<SimTime>,
    /// Arrivals before the next one.
    count: u64,
}

/// How time follows from expected requests.
#[derive(Clone, Debug)]
enum Clock {
    /// The same rate for ever: exact for equal distances, however many there are.
    Constant {
        iops: u32,
        mean_gap_ns: f64,
        fraction: f64,
        ns: u64,
    },
    Curve(Curve),
}

impl Arrivals {
    /// Arrivals from `start` on at `iops` per second, more than 0.
    pub fn constant(process: RateProcess, iops: u32, start: SimTime, gaps: Prng) -> Self {
        let iops = iops.max(1);
        let mean_gap_ns = NS_PER_S / f64::from(iops);
        Self::new(process, Clock::Constant { iops, mean_gap_ns, fraction: 0.0, ns: 0 }, start, gaps)
    }

    /// Arrivals from `start` on at a rate on straight lines through `points`, whose times ascend; two at one time are a
    /// step. Behind the last point the rate stays as it is, or with `repeat_ns`, later than all points, all begins again
    /// after so long. Some rate must be above 0 where anything repeats.
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
            // The first comes when nothing is expected yet: once the rate is above 0.
            RateProcess::Linear => arrivals.after(0.0),
            RateProcess::Poisson => arrivals.step(),
        };
        arrivals
    }

    /// The next arrival; `None` if the rate has come to 0 for good.
    #[inline]
    pub fn next(&self) -> Option<SimTime> {
        self.next
    }

    /// Arrivals before [`Arrivals::next`].
    #[inline]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Goes on behind the next arrival. At the end of virtual time, 584 years, arrivals stand still.
    #[inline]
    pub fn advance(&mut self) {
        if self.next.is_some() {
            self.count += 1;
            self.next = self.step();
        }
    }

    /// Goes on to the first arrival at `time` or later, so that [`Arrivals::count`] are those before, past `most` arrivals
    /// at most. Returns the number of further arrivals before `time` that the rate lets expect: 0 if all were gone through.
    #[must_use]
    pub fn advance_to(&mut self, time: SimTime, most: u64) -> u64 {
        if self.next.is_none_or(|next| next >= time) {
            return 0;
        }
        let ns = time.since(self.start);
        if let (RateProcess::Linear, Clock::Constant { iops, .. }) = (self.process, &self.clock) {
            let count = (u128::from(ns) * u128::from(*iops)).div_ceil(1_000_000_000);
            self.count = u64::try_from(count).unwrap_or(u64::MAX);
            self.next = self.step();
            return 0;
        }
        let last = self.count.saturating_add(most);
        while self.next.is_some_and(|next| next < time) {
            if self.count >= last {
                // The clock stands at the next arrival.
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
                // 1 − unit lies in (0, 1]: the logarithm is finite, and the gap is never negative.
                let gap = -libm::log(1.0 - self.gaps.unit());
                self.after(gap)
            }
        }
    }

    /// When `requests` more are expected.
    #[inline]
    fn after(&mut self, requests: f64) -> Option<SimTime> {
        match &mut self.clock {
            Clock::Constant { mean_gap_ns, fraction, ns, .. } => {
                // Whole nanoseconds apart from the rest of one, so that nothing is lost late in a long run.
                let gap = *fraction + requests * *mean_gap_ns;
                let whole = gap as u64;
                (*ns, *fraction) = (ns.saturating_add(whole), gap - whole as f64);
                Some(self.start + *ns)
            }
            Clock::Curve(curve) => curve.after(requests).map(|ns| self.start + ns),
        }
    }
}

/// A straight piece of the rate.
#[derive(Clone, Copy, Debug)]
struct Piece {
    length_ns: f64,
    /// Requests per ns at its start and, per ns, the change of that.
    rate: f64,
    slope: f64,
}

impl Piece {
    /// Requests expected from `into_ns` within the piece to its end.
    #[inline]
    fn requests_from(self, into_ns: f64) -> f64 {
        self.requests_between(into_ns, self.length_ns)
    }

    #[inline]
    fn requests_between(self, from_ns: f64, to_ns: f64) -> f64 {
        (self.rate + self.slope * (from_ns + to_ns) / 2.0) * (to_ns - from_ns)
    }
}

#[derive(Clone, Debug)]
struct Curve {
    pieces: Vec<Piece>,
    /// Where each piece begins, in ns.
    starts: Vec<u64>,
    repeat_ns: Option<u64>,
    /// Requests expected in one repetition.
    in_round: f64,
    at: usize,
    /// Time within the piece.
    into_ns: f64,
    /// Time at which the repetition at hand began.
    round_ns: u64,
}

impl Curve {
    fn new(points: &[RatePoint], repeat_ns: Option<u64>) -> Self {
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

    /// Goes on until `requests` more are expected; returns the time in ns since the start.
    fn after(&mut self, mut requests: f64) -> Option<u64> {
        loop {
            let piece = self.pieces[self.at];
            let in_piece = piece.requests_from(self.into_ns);
            // A piece of rate 0 has no arrival, and what comes at the very end of one belongs to the next.
            if requests < in_piece * (1.0 - ROUNDING) {
                let rate = piece.rate + piece.slope * self.into_ns;
                // Of both solutions the one that has no difference of nearly equal numbers.
                let root = (rate * rate + 2.0 * piece.slope * requests).max(0.0).sqrt();
                self.into_ns += if requests > 0.0 { 2.0 * requests / (rate + root) } else { 0.0 };
                let start = self.round_ns.saturating_add(self.starts[self.at]);
                return Some(start.saturating_add(self.into_ns as u64));
            }
            requests = (requests - in_piece.max(0.0)).max(0.0);
            (self.at, self.into_ns) = (self.at + 1, 0.0);
            if self.at == self.pieces.len() {
                self.at = 0;
                // Whole repetitions in which nothing comes are not gone through one by one.
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
    /// Goes on to `ns` since the start; returns the requests expected until then.
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
                let rounds = ns.saturating_sub(self.round_ns) / repeat_ns;
                self.round_ns = self.round_ns.saturating_add(rounds.saturating_mul(repeat_ns));
                expected += rounds as f64 * self.in_round;
            }
        }
    }
}

strobe_types::state! { Arrivals { clock, gaps, start, next, count } made { process } }

strobe_types::state! { Curve { at, into_ns, round_ns } made { pieces, starts, repeat_ns, in_round } }

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
mod tests {
    use super::*;

    fn gaps() -> Prng {
        Prng::derive(7, "arrivals")
    }

    fn times(mut arrivals: Arrivals, count: usize) -> Vec<u64> {
        let mut times = Vec::new();
        while let Some(next) = arrivals.next().filter(|_| times.len() < count) {
            assert_eq!(arrivals.count(), times.len() as u64);
            times.push(next.as_ns());
            arrivals.advance();
        }
        times
    }

    fn point(at_ms: u64, iops: f64) -> RatePoint {
        RatePoint { at_ns: at_ms * 1_000_000, iops }
    }

    #[test]
    fn equal_distances_are_exact_however_long_they_last() {
        let start = SimTime::from_ns(5);
        let three = Arrivals::constant(RateProcess::Linear, 3, start, gaps());
        assert_eq!(times(three.clone(), 4), [5, 333_333_338, 666_666_671, 1_000_000_005]);
        let mut late = three.clone();
        for ns in (0..2_000_000_000).step_by(111_111_111) {
            let mut counted = three.clone();
            assert_eq!(counted.advance_to(SimTime::from_ns(ns), 0), 0);
            assert_eq!(
                counted.count(),
                (0..9).filter(|k| 5 + k * 1_000_000_000 / 3 < ns).count() as u64,
                "{ns}"
            );
        }
        (0..3_000_000).for_each(|_| late.advance());
        assert_eq!(late.next(), Some(SimTime::from_ns(1_000_000_000_000_005)));
    }

    #[test]
    fn exponential_gaps_have_the_mean_and_the_spread_of_their_law() {
        let arrivals = Arrivals::constant(RateProcess::Poisson, 10_000, SimTime::ZERO, gaps());
        let times = times(arrivals, 200_001);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 100_000.0 - 1.0).abs() < 0.01, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.01, "{variance}");
        let long = gaps.iter().filter(|&&gap| gap > 300_000.0).count() as f64 / gaps.len() as f64;
        assert!((long / libm::exp(-3.0) - 1.0).abs() < 0.05, "{long}");
    }

    /// The rate as anybody would write it down, and its integral in small steps.
    fn naive(points: &[RatePoint], repeat_ns: Option<u64>, until_ns: u64) -> Vec<u64> {
        let rate = |t: u64| {
            let t = repeat_ns.map_or(t, |repeat| t % repeat);
            let after = points.iter().position(|point| point.at_ns > t);
            match after {
                Some(0) => points[0].iops,
                None => points[points.len() - 1].iops,
                Some(at) => {
                    let (a, b) = (points[at - 1], points[at]);
                    a.iops + (b.iops - a.iops) * (t - a.at_ns) as f64 / (b.at_ns - a.at_ns) as f64
                }
            }
        };
        let (mut expected, mut found, step) = (0.0, Vec::new(), 100);
        for t in (0..until_ns).step_by(step) {
            if rate(t) > 0.0 && expected >= found.len() as f64 - 1e-7 {
                found.push(t);
            }
            expected += rate(t + step as u64 / 2) * step as f64 / 1e9;
        }
        found
    }

    #[test]
    fn ramps_steps_and_bursts_are_as_the_naive_integral_has_them() {
        let cases: [(&[RatePoint], Option<u64>); 5] = [
            (&[point(0, 1000.0), point(50, 9000.0)], None),
            (&[point(10, 9000.0), point(40, 500.0), point(60, 500.0), point(60, 4000.0)], None),
            // A burst of 2 ms every 20 ms.
            (&[point(0, 20_000.0), point(2, 20_000.0), point(2, 0.0)], Some(20_000_000)),
            (&[point(0, 0.0), point(10, 8010.0), point(20, 0.0)], Some(25_000_000)),
            (&[point(5, 0.0), point(5, 3000.0), point(30, 3000.0), point(30, 0.0)], None),
        ];
        for (points, repeat_ns) in cases {
            let until_ns = 100_000_000;
            let arrivals = Arrivals::curve(RateProcess::Linear, points, repeat_ns, SimTime::ZERO, gaps());
            let mut found = times(arrivals, 10_000);
            found.retain(|&at| at < until_ns);
            let naive = naive(points, repeat_ns, until_ns);
            assert!(found.len().abs_diff(naive.len()) <= 1, "{points:?}: {} {}", found.len(), naive.len());
            for (at, (a, b)) in found.iter().zip(&naive).enumerate() {
                assert!(a.abs_diff(*b) <= 2_000, "{points:?}, arrival {at}: {a} ns, naive {b} ns");
            }
        }
    }

    #[test]
    fn a_curve_of_one_rate_is_that_rate() {
        let points = [point(0, 12_500.0)];
        for process in RateProcess::ALL {
            let curve = Arrivals::curve(process, &points, None, SimTime::ZERO, gaps());
            let constant = Arrivals::constant(process, 12_500, SimTime::ZERO, gaps());
            for (a, b) in times(curve, 5000).into_iter().zip(times(constant, 5000)) {
                assert!(a.abs_diff(b) <= 1, "{process:?}: {a} {b}");
            }
        }
    }

    #[test]
    fn a_poisson_process_follows_its_rate() {
        let points = [point(0, 50_000.0), point(1000, 50_000.0), point(1000, 10_000.0)];
        let arrivals =
            Arrivals::curve(RateProcess::Poisson, &points, Some(2_000_000_000), SimTime::ZERO, gaps());
        let mut counter = arrivals;
        let mut counts = Vec::new();
        for second in 1..=20 {
            let before = counter.count();
            assert_eq!(counter.advance_to(SimTime::from_ns(second * 1_000_000_000), u64::MAX), 0);
            counts.push(counter.count() - before);
        }
        let (busy, calm): (u64, u64) = counts.chunks(2).fold((0, 0), |sum, c| (sum.0 + c[0], sum.1 + c[1]));
        assert!((busy as f64 / 500_000.0 - 1.0).abs() < 0.01, "{busy}");
        assert!((calm as f64 / 100_000.0 - 1.0).abs() < 0.02, "{calm}");
    }

    #[test]
    fn endless_backlogs_are_counted_by_their_rate() {
        let second = SimTime::from_ns(1_000_000_000);
        let ramp = [point(0, 1e9), point(500, 0.0), point(600, 5e8), point(600, 1e8)];
        for process in RateProcess::ALL {
            let mut constant = Arrivals::constant(process, 1_000_000_000, SimTime::from_ns(7), gaps());
            let all = constant.advance_to(second, 1000) + constant.count();
            assert!(all.abs_diff(1_000_000_000) < 20_000, "{all}");
            assert!(constant.count() <= 1000 || process == RateProcess::Linear);
            for (repeat_ns, expected) in [(None, 315_000_000), (Some(700_000_000), 285_000_000 + 210_000_000)]
            {
                let mut curve = Arrivals::curve(process, &ramp, repeat_ns, SimTime::ZERO, gaps());
                let all = curve.advance_to(second, 1000) + curve.count();
                assert!(all.abs_diff(expected) < 20_000, "{all} {repeat_ns:?}");
            }
        }
    }

    #[test]
    fn a_backlog_is_the_same_however_often_it_is_asked_for() {
        let points = [point(0, 1e6), point(300, 2e5), point(700, 3e6)];
        for arrivals in [
            Arrivals::constant(RateProcess::Poisson, 700_000, SimTime::ZERO, gaps()),
            Arrivals::curve(RateProcess::Poisson, &points, Some(800_000_000), SimTime::ZERO, gaps()),
        ] {
            let (mut once, mut often) = (arrivals.clone(), arrivals);
            let second = SimTime::from_ns(1_000_000_000);
            let expected = once.advance_to(second, 5000) + once.count();
            let mut last = 0;
            for ns in (0..=1_000_000_000).step_by(20_000) {
                let left = 5000 - often.count();
                let asked = often.advance_to(SimTime::from_ns(ns), left) + often.count();
                assert!(asked >= last, "{asked} after {last}");
                last = asked;
            }
            assert_eq!(last, expected);
        }
    }

    #[test]
    fn a_rate_that_ends_at_zero_has_an_end_and_time_does_not_overflow() {
        let points = [point(0, 1000.0), point(10, 1000.0), point(10, 0.0)];
        let arrivals = Arrivals::curve(RateProcess::Linear, &points, None, SimTime::ZERO, gaps());
        assert_eq!(times(arrivals, 1000).len(), 10);
        let late = SimTime::from_ns(u64::MAX - 1_500_000_000);
        let mut arrivals = Arrivals::constant(RateProcess::Linear, 1, late, gaps());
        (0..3).for_each(|_| arrivals.advance());
        assert_eq!(arrivals.next(), Some(SimTime::from_ns(u64::MAX)));
        // One request in 2e9 seconds.
        let points = [RatePoint { at_ns: 0, iops: 1.0 }, RatePoint { at_ns: 1, iops: 0.0 }];
        let mut arrivals = Arrivals::curve(RateProcess::Linear, &points, Some(1_000_000_000), late, gaps());
        (0..100).for_each(|_| arrivals.advance());
        assert_eq!(arrivals.next(), Some(SimTime::from_ns(u64::MAX)));
    }
}
