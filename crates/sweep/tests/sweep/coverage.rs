//! Coverage of the true mean by intervals whose number of seeds was chosen by `sweep.until`.

use strobe_sweep::{estimate, seeds_needed, two_stage_estimate};
use strobe_types::Prng;

/// WAF of 400 real runs with different seeds, for two victim policies.
const RUNS: &str = include_str!("../data/waf-400.csv");

fn runs(name: &str) -> Vec<f64> {
    let mut lines = RUNS.lines().filter(|line| !line.starts_with('#'));
    let at = lines.next().and_then(|head| head.split(',').position(|column| column == name));
    let at = at.expect("a column");
    lines.map(|line| line.split(',').nth(at).expect("a cell").parse().expect("a number")).collect()
}

const TRIALS: u32 = 4000;
const CONFIDENCE: f64 = 0.95;

/// Share of samples (drawn from `all` with replacement) whose interval contains the mean of `all`, and the
/// mean sample size.
fn coverage(all: &[f64], sample: impl Fn(&mut dyn FnMut() -> f64) -> strobe_sweep::Estimate) -> (f64, f64) {
    let mut chance = Prng::new(1);
    let truth = all.iter().sum::<f64>() / all.len() as f64;
    let (mut held, mut values) = (0, 0);
    for _ in 0..TRIALS {
        let found = sample(&mut || all[chance.below(all.len() as u32) as usize]);
        held += u32::from((found.mean - truth).abs() <= found.half_width.expect("several"));
        values += found.n;
    }
    (f64::from(held) / f64::from(TRIALS), values as f64 / f64::from(TRIALS))
}

/// Like [`strobe_sweep::Schedule`].
fn in_two_stages(draw: &mut dyn FnMut() -> f64, pilot: usize, share: f64) -> strobe_sweep::Estimate {
    let mut values: Vec<f64> = (0..pilot).map(|_| draw()).collect();
    let needed = seeds_needed(&values, share, CONFIDENCE, 400).expect("several");
    values.resize_with(needed, draw);
    two_stage_estimate(&values, pilot, CONFIDENCE).expect("several")
}

/// The rule that favours narrow samples.
fn one_by_one(draw: &mut dyn FnMut() -> f64, first: usize, share: f64) -> strobe_sweep::Estimate {
    let mut values: Vec<f64> = (0..first).map(|_| draw()).collect();
    loop {
        let found = estimate(&values, CONFIDENCE).expect("several");
        if values.len() == 400 || found.half_width.expect("several") <= share * found.mean {
            return found;
        }
        values.push(draw());
    }
}

#[test]
fn intervals_of_until_hold_the_truth_as_often_as_they_say() {
    for (victim, shares) in [("random", SHARES_RANDOM), ("greedy", SHARES_GREEDY)] {
        let all = runs(victim);
        assert_eq!(all.len(), 400);
        for share in shares {
            for pilot in [8, 16] {
                let (held, seeds) = coverage(&all, |draw| in_two_stages(draw, pilot, share));
                println!("{victim} {share}: pilot {pilot}: {held:.3} with {seeds:.1} seeds");
                assert!((0.93..=0.97).contains(&held), "{victim} {share} {pilot}: {held}");
            }
            for first in [2, 3, 5, 8] {
                let (held, seeds) = coverage(&all, |draw| one_by_one(draw, first, share));
                println!("{victim} {share}: one by one from {first}: {held:.3} with {seeds:.1} seeds");
            }
        }
    }
}

const SHARES_RANDOM: [f64; 3] = [0.03, 0.02, 0.01];
const SHARES_GREEDY: [f64; 3] = [0.01, 0.005, 0.003];
