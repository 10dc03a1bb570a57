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
        assert_eq!(counted.count(), (0..9).filter(|k| 5 + k * 1_000_000_000 / 3 < ns).count() as u64, "{ns}");
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
    let arrivals = Arrivals::curve(RateProcess::Poisson, &points, Some(2_000_000_000), SimTime::ZERO, gaps());
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
        for (repeat_ns, expected) in [(None, 315_000_000), (Some(700_000_000), 285_000_000 + 210_000_000)] {
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
    let points = [RatePoint { at_ns: 0, iops: 1.0 }, RatePoint { at_ns: 1, iops: 0.0 }];
    let mut arrivals = Arrivals::curve(RateProcess::Linear, &points, Some(1_000_000_000), late, gaps());
    (0..100).for_each(|_| arrivals.advance());
    assert_eq!(arrivals.next(), Some(SimTime::from_ns(u64::MAX)));
}
