use super::super::draw::{Draw, Scattered, stride};
use super::super::zipf::Zipf;
use super::*;
use crate::oracle::trim_rho;
use strobe_types::{Op, Prng};

#[track_caller]
fn assert_fits(counts: &[u64], probability: impl Fn(usize) -> f64) {
    let total: u64 = counts.iter().sum();
    let mut sum = 0.0;
    // Cells with few expected hits are merged, or their variance would dominate.
    let (mut seen, mut expected, mut cells) = (0.0, 0.0, 0.0);
    for (cell, &count) in counts.iter().enumerate() {
        seen += count as f64;
        expected += probability(cell) * total as f64;
        if expected >= 20.0 {
            sum += (seen - expected) * (seen - expected) / expected;
            (seen, expected) = (0.0, 0.0);
            cells += 1.0;
        }
    }
    let freedom: f64 = cells - 1.0;
    assert!(freedom > 0.0, "too few requests to tell");
    let deviations = (sum - freedom) / (2.0 * freedom).sqrt();
    assert!(deviations.abs() < 6.0, "χ² {sum} for {freedom} degrees of freedom");
}

#[test]
fn uniform_slots_are_equally_likely() {
    for slots in [2u64, 1000, 1024] {
        let counts = histogram(&config(Kind::Uniform), slots, 500_000);
        assert_fits(&counts, |_| 1.0 / slots as f64);
    }
}

#[test]
fn sequential_slots_follow_each_other_and_wrap() {
    let slots: Vec<u64> =
        requests(&config(Kind::Sequential), drive(5), 1, 12).iter().map(|r| r.lba.get() / 8).collect();
    assert_eq!(slots, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]);
}

#[test]
fn zipf_frequencies_are_exact() {
    for theta in [0.01, 0.5, 1.0 - 1e-9, 1.0, 1.1, 2.0, 5.0] {
        for ranks in [1u32, 2, 3, 1000, 20_000] {
            let weight = |rank: usize| libm::pow((rank + 1) as f64, -theta);
            let total: f64 = (0..ranks as usize).map(weight).sum();
            let mut zipf = Zipf::new(ranks, theta);
            let mut rng = Prng::new(u64::from(ranks));
            let mut counts = vec![0u64; ranks as usize];
            for _ in 0..500_000 {
                counts[zipf.slot(&mut rng, Op::Write) as usize] += 1;
            }
            if ranks > 1 {
                assert_fits(&counts, |rank| weight(rank) / total);
            }
        }
    }
}

#[test]
fn zipf_of_four_thousand_million_ranks_has_the_right_head() {
    // Σ k^−2 over all k is π²/6; the tail beyond 2³² is negligible.
    let mut zipf = Zipf::new(u32::MAX, 2.0);
    let mut rng = Prng::new(3);
    let firsts = (0..400_000).filter(|_| zipf.slot(&mut rng, Op::Write) == 0).count() as f64;
    let expected = 400_000.0 * 6.0 / (std::f64::consts::PI * std::f64::consts::PI);
    assert!((firsts / expected - 1.0).abs() < 0.01, "{firsts} for {expected}");
    let mut flat = Zipf::new(u32::MAX, 1e-6);
    let mean = (0..400_000).map(|_| f64::from(flat.slot(&mut rng, Op::Write))).sum::<f64>() / 400_000.0;
    assert!((mean / f64::from(u32::MAX / 2) - 1.0).abs() < 0.01, "{mean}");
}

#[test]
fn zipf_accepts_more_than_three_draws_in_four() {
    for theta in [0.001, 0.1, 0.5, 0.9, 1.0, 1.1, 1.5, 2.0, 3.0, 5.0, 20.0, 100.0] {
        for ranks in [1u32, 2, 3, 5, 10, 100, 1_000_000, u32::MAX] {
            let mut zipf = Zipf::new(ranks, theta);
            let mut rng = Prng::new(1);
            for _ in 0..10_000 {
                zipf.slot(&mut rng, Op::Write);
            }
            // Each attempt draws one number, so a fresh copy of the generator counts them.
            let mut counter = Prng::new(1);
            let attempts = (0..20_000).take_while(|_| counter != rng && counter.bits() < u64::MAX).count();
            assert!(attempts < 13_334, "θ {theta}, {ranks} ranks: {attempts} for 10000 draws");
        }
    }
}

#[test]
fn scattering_reaches_every_slot_once() {
    for slots in (1u32..300).chain([1000, 1024, 4096, 65_536, 99_991, 100_000]) {
        let mut seen = vec![false; slots as usize];
        let mut draw = Scattered::new(super::super::draw::Sequential::new(slots), slots);
        let mut rng = Prng::new(0);
        for _ in 0..slots {
            let slot = draw.slot(&mut rng, Op::Write) as usize;
            assert!(!std::mem::replace(&mut seen[slot], true), "{slot} of {slots} twice");
        }
    }
    let stride = stride(u32::MAX);
    assert!((f64::from(stride) / f64::from(u32::MAX) - 0.618).abs() < 1e-4);
}

#[test]
fn scattering_moves_slots_and_keeps_frequencies() {
    let scattered = histogram(&config(Kind::Zipf), 1000, 200_000);
    let plain = histogram(&SyntheticConfig { scatter: false, ..config(Kind::Zipf) }, 1000, 200_000);
    let step = u64::from(stride(1000));
    for (rank, &count) in plain.iter().enumerate() {
        assert_eq!(scattered[(rank as u64 * step % 1000) as usize], count);
    }
}

#[test]
fn hot_slots_get_their_share() {
    for (f, r, slots) in [(0.2, 0.8, 1000u64), (0.1, 0.9, 1000), (0.5, 0.0, 1000), (0.3, 1.0, 10)] {
        let config =
            SyntheticConfig { hot_fraction: f, hot_write_share: r, scatter: false, ..config(Kind::Hotcold) };
        let hot = (f * slots as f64) as usize;
        let counts = histogram(&config, slots, 500_000);
        let cold = counts.len() - hot;
        if r > 0.0 {
            assert_fits(&counts[..hot], |_| 1.0 / hot as f64);
        }
        if r < 1.0 {
            assert_fits(&counts[hot..], |_| 1.0 / cold as f64);
        }
        let hot_requests: u64 = counts[..hot].iter().sum();
        assert!((hot_requests as f64 / 500_000.0 - r).abs() < 0.003, "{hot_requests}");
    }
}

#[test]
fn both_classes_have_a_slot_even_in_tiny_ranges() {
    for (f, slots) in [(1e-9, 2), (0.999_999, 2), (1e-9, 7), (0.999_999, 7)] {
        let config = SyntheticConfig { hot_fraction: f, ..config(Kind::Hotcold) };
        let counts = histogram(&config, slots, 2000);
        assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
    }
    assert_eq!(histogram(&config(Kind::Hotcold), 1, 100), [100]);
}

#[test]
fn sigma_solves_for_the_hot_share() {
    for (h, sigma) in [(0.35, 0.108), (0.30, 0.0854), (0.20, 0.0488), (0.10, 0.0205)] {
        let got = gaussian_sigma(h).expect("in range");
        assert!((got / sigma - 1.0).abs() < 0.005, "{h}: {got}, docs/MODEL.md, section 6, has {sigma}");
    }
    for h in [0.0, -0.1, 0.481, 1.0, f64::NAN] {
        assert_eq!(gaussian_sigma(h), None);
    }
    assert!(gaussian_sigma(1e-300).expect("in range") < 1e-20);
}

#[test]
fn hot_share_is_the_share_of_slots_above_the_mean() {
    for (hot_share, sigma) in [(0.35, 0.108), (0.30, 0.0854), (0.20, 0.0488), (0.10, 0.0205)] {
        let by_share = SyntheticConfig { hot_share: Some(hot_share), ..config(Kind::Gaussian) };
        let by_sigma = SyntheticConfig { sigma: Some(sigma), ..config(Kind::Gaussian) };
        for config in [by_share, by_sigma] {
            let counts = histogram(&config, 1000, 1_000_000);
            let above = counts.iter().filter(|&&count| count > 1000).count() as f64 / 1000.0;
            assert!((above - hot_share).abs() < 0.01, "{above} of the slots for {hot_share}");
        }
    }
}

#[test]
fn gaussian_has_the_shape_of_a_bell() {
    let slots = 200;
    for sigma in [0.05, 0.3, 1.0] {
        let config = SyntheticConfig { sigma: Some(sigma), ..config(Kind::Gaussian) };
        let cumulative = |slot: usize| {
            libm::erf((slot as f64 / slots as f64 - 0.5) / sigma * std::f64::consts::FRAC_1_SQRT_2)
        };
        let inside = cumulative(slots) - cumulative(0);
        let counts = histogram(&config, slots as u64, 500_000);
        assert_fits(&counts, |slot| (cumulative(slot + 1) - cumulative(slot)) / inside);
    }
}

#[test]
fn a_floor_under_the_bell_leaves_the_same_slots_above_the_mean() {
    let slots = 200;
    let (sigma, floor) = (0.0854, 0.4);
    let config = SyntheticConfig { sigma: Some(sigma), uniform_share: floor, ..config(Kind::Gaussian) };
    let cumulative =
        |slot: usize| libm::erf((slot as f64 / slots as f64 - 0.5) / sigma * std::f64::consts::FRAC_1_SQRT_2);
    let inside = cumulative(slots) - cumulative(0);
    let counts = histogram(&config, slots as u64, 500_000);
    let bell = |slot| (cumulative(slot + 1) - cumulative(slot)) / inside;
    assert_fits(&counts, |slot| floor / slots as f64 + (1.0 - floor) * bell(slot));
    let above = counts.iter().filter(|&&count| count > 2500).count() as f64 / slots as f64;
    assert!((above - 0.3).abs() < 0.02, "{above}");
}

#[test]
fn writes_come_in_the_given_proportion() {
    for kind in [Kind::Uniform, Kind::Sequential, Kind::Zipf] {
        let config = SyntheticConfig { write_fraction: 0.3, ..config(kind) };
        let writes = requests(&config, drive(100), 1, 200_000).iter().filter(|r| r.op == Op::Write).count();
        assert!((writes as f64 / 200_000.0 - 0.3).abs() < 0.005, "{writes}");
    }
    let only = |write_fraction| {
        let config = SyntheticConfig { write_fraction, ..config(Kind::Uniform) };
        let requests = requests(&config, drive(100), 1, 1000);
        let first = requests[0].op;
        assert!(requests.iter().all(|r| r.op == first));
        first
    };
    assert_eq!(only(0.0), Op::Read);
    assert_eq!(only(1.0), Op::Write);
}

#[test]
fn share_in_use_tends_to_the_model_of_frankie() {
    for q in [0.05, 0.1, 0.3, 0.45] {
        let config = SyntheticConfig { trim_fraction: q, ..config(Kind::Uniform) };
        // The share fluctuates over some thousand requests; average over a long run.
        let slots = 1000;
        let mut workload = config.build(drive(slots), 1).expect("valid");
        let mut batch = Vec::new();
        let (mut sum, mut trims) = (0.0, 0);
        for round in 0..10_000 {
            workload.fill(&mut batch, 100);
            if round >= 1000 {
                sum += f64::from(workload.slots_in_use()) / slots as f64 / 9000.0;
            }
            trims += batch.iter().filter(|r| r.op == Op::Trim).count();
        }
        let expected = (1.0 - 2.0 * q) / (1.0 - q);
        assert!((sum - expected).abs() < 0.005, "q {q}: {sum}, expected {expected}");
        assert!((trim_rho(0.8, q).expect("in the domain") / 0.8 - expected).abs() < 1e-12);
        assert!((trims as f64 / 1e6 - q).abs() < 0.003, "{trims}");
    }
}

#[test]
fn only_slots_in_use_are_trimmed() {
    for (trim_fraction, write_fraction) in [(0.3, 1.0), (0.5, 0.5), (0.9, 1.0), (0.99, 1.0), (0.4, 0.0)] {
        let config = SyntheticConfig { trim_fraction, write_fraction, ..config(Kind::Zipf) };
        let mut in_use = [true; 50];
        for request in requests(&config, drive(50), 1, 100_000) {
            let slot = (request.lba.get() / 8) as usize;
            match request.op {
                Op::Trim => assert!(std::mem::replace(&mut in_use[slot], false), "{slot} is not in use"),
                Op::Write => in_use[slot] = true,
                Op::Read => assert!(write_fraction < 1.0),
                Op::Flush => panic!("nobody asked for a flush"),
            }
        }
    }
}

#[test]
fn requests_that_are_all_trims_go_where_the_kind_says() {
    let trims = |kind, random_map| {
        let config = SyntheticConfig { trim_fraction: 1.0, random_map, ..config(kind) };
        let requests = requests(&config, drive(50), 1, 100);
        assert!(requests.iter().all(|request| request.op == Op::Trim), "{kind:?}");
        requests.iter().map(|request| request.lba.get() / 8).collect::<Vec<u64>>()
    };
    assert_eq!(trims(Kind::Sequential, false), (0..50).chain(0..50).collect::<Vec<u64>>());
    let mut twice = trims(Kind::Uniform, true);
    assert_ne!(twice[..50], twice[50..], "another order");
    twice.sort_unstable();
    assert_eq!(twice, (0..100).map(|slot| slot / 2).collect::<Vec<u64>>());
}

#[test]
fn trims_choose_evenly_among_the_slots_in_use() {
    let config = SyntheticConfig { trim_fraction: 0.1, ..config(Kind::Uniform) };
    let mut counts = vec![0u64; 100];
    for request in requests(&config, drive(100), 1, 500_000) {
        if request.op == Op::Trim {
            counts[(request.lba.get() / 8) as usize] += 1;
        }
    }
    assert_fits(&counts, |_| 0.01);
}

fn with_ranges(config: &SyntheticConfig, slots: u64, count: usize) -> Vec<(Request, Vec<u64>)> {
    let mut workload = config.build(drive(slots), 1).expect("valid");
    let (mut batch, mut ranges) = (Vec::new(), Vec::new());
    let mut all = Vec::new();
    for _ in 0..count {
        workload.fill(&mut batch, 1);
        ranges.clear();
        if batch[0].op == Op::Trim {
            workload.further_trims(&mut ranges);
        }
        all.push((batch[0], ranges.iter().map(|range| range.lba.get() / 8).collect()));
    }
    all
}

#[test]
fn a_trim_takes_as_many_slots_in_use_as_asked_for_or_all() {
    let config = SyntheticConfig { trim_fraction: 0.2, trim_ranges: 7, ..config(Kind::Uniform) };
    let mut in_use = [true; 50];
    let (mut short, mut trims) = (0, 0);
    for (request, further) in with_ranges(&config, 50, 100_000) {
        let first = request.lba.get() / 8;
        if request.op == Op::Write {
            in_use[first as usize] = true;
            continue;
        }
        for slot in std::iter::once(first).chain(further.iter().copied()) {
            assert!(std::mem::replace(&mut in_use[slot as usize], false), "{slot} is not in use");
        }
        trims += 1;
        if further.len() < 6 {
            short += 1;
            assert!(in_use.iter().all(|used| !used), "nothing more was in use");
        }
    }
    assert!(short > 100 && trims - short > 100, "{short} of {trims}");
}

// A trim of k ranges frees k slots. In steady state, writes to slots not in use, a share of (1 - q)(1 - s),
// balance q * k.
#[test]
fn share_in_use_with_several_ranges_is_that_of_as_many_slots_trimmed() {
    for (q, ranges) in [(0.05, 4), (0.02, 16), (0.005, 64)] {
        let config = SyntheticConfig { trim_fraction: q, trim_ranges: ranges, ..config(Kind::Uniform) };
        let mut workload = config.build(drive(1000), 1).expect("valid");
        let (mut batch, mut further, mut sum, rounds) = (Vec::new(), Vec::new(), 0.0, 500_000);
        for round in 0..rounds + 20_000 {
            workload.fill(&mut batch, 1);
            further.clear();
            if batch[0].op == Op::Trim {
                workload.further_trims(&mut further);
            }
            if round >= 20_000 {
                sum += f64::from(workload.slots_in_use()) / 1000.0 / f64::from(rounds);
            }
        }
        let expected = 1.0 - q * f64::from(ranges) / (1.0 - q);
        assert!((sum - expected).abs() < 0.01, "q {q}, {ranges} ranges: {sum}, expected {expected}");
    }
}

#[test]
fn one_range_per_trim_draws_what_it_always_drew() {
    let one = SyntheticConfig { trim_fraction: 0.3, ..config(Kind::Uniform) };
    let found = with_ranges(&one, 100, 5000);
    let plain = requests(&one, drive(100), 1, 5000);
    assert!(found.iter().all(|(_, further)| further.is_empty()));
    assert_eq!(found.into_iter().map(|(request, _)| request).collect::<Vec<_>>(), plain);
}
