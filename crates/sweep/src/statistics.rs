//! Means with intervals, and corrections for multiple comparisons.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// Mean of measurements with different seeds, and its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Number of measurements.
    pub n: usize,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of a single measurement, estimated from the first stage; 0 for one measurement.
    pub deviation: f64,
    /// Degrees of freedom of the deviation: measurements of the first stage minus one. 0 for one measurement,
    /// which has no interval.
    pub degrees: usize,
    /// Half-width of the confidence interval around `mean`, for approximately normal measurements: the
    /// quantile of Student's t with these degrees of freedom, times the standard error. `None` for one
    /// measurement.
    pub half_width: Option<f64>,
}

/// Mean of `values` with its interval, for a number of values fixed beforehand; `None` without values.
pub fn estimate(values: &[f64], confidence: f64) -> Option<Estimate> {
    two_stage_estimate(values, values.len(), confidence)
}

/// Mean of all `values` with the interval of Stein (1945), where [`seeds_needed`] has chosen their number
/// from the first `pilot` values; `None` without values.
///
/// Choosing the number by the spread of all values favours samples that happen to be narrow, so their
/// intervals contain the true mean too rarely. The mean of normal values is independent of the spread of the
/// pilot. An interval from the pilot's spread thus keeps its confidence, however many values follow.
pub fn two_stage_estimate(values: &[f64], pilot: usize, confidence: f64) -> Option<Estimate> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    let first = &values[..pilot.clamp(1, n)];
    let degrees = first.len() - 1;
    let first_mean = mean_of(first);
    let squares = first.iter().map(|value| (value - first_mean) * (value - first_mean)).sum::<f64>();
    let deviation = if degrees > 0 { (squares / degrees as f64).sqrt() } else { 0.0 };
    let half_width = quantile(degrees, confidence).map(|t| t * deviation / (n as f64).sqrt());
    Some(Estimate { n, mean: mean_of(values), deviation, degrees, half_width })
}

/// Number of values for a two-stage interval of at most `share` of the mean to either side, from the spread
/// of the `pilot`. It is at least the length of the pilot and at most `most`. `None` for a pilot with fewer
/// than two values.
///
/// Example: eight values with mean 4 and deviation 0.1 have t = 2.36; for 1 % of the mean, (2.36 · 0.1 /
/// 0.04)² = 35 values are needed.
pub fn seeds_needed(pilot: &[f64], share: f64, confidence: f64, most: usize) -> Option<usize> {
    let found = estimate(pilot, confidence)?;
    let t = quantile(found.degrees, confidence)?;
    let root = t * found.deviation / (share * found.mean.abs());
    // With a mean of 0 no interval reaches a share of it: all values are needed.
    let needed = if found.deviation == 0.0 { 0.0 } else { (root * root).ceil() };
    Some(if needed < most as f64 { pilot.len().max(needed as usize) } else { most.max(pilot.len()) })
}

/// Mean, exact for equal values, whose sum would be rounded.
fn mean_of(values: &[f64]) -> f64 {
    let is_same = values.iter().all(|value| *value == values[0]);
    if is_same { values[0] } else { values.iter().sum::<f64>() / values.len() as f64 }
}

fn quantile(degrees: usize, confidence: f64) -> Option<f64> {
    let t = StudentsT::new(0.0, 1.0, degrees as f64).ok().filter(|_| degrees > 0)?;
    Some(t.inverse_cdf(0.5 + confidence / 2.0))
}

impl Estimate {
    /// Two-sided p value of Student's t test against a true mean of 0. `None` for one measurement.
    pub fn p_value(&self) -> Option<f64> {
        let t = StudentsT::new(0.0, 1.0, self.degrees as f64).ok().filter(|_| self.degrees > 0)?;
        if self.deviation == 0.0 {
            return Some(if self.mean == 0.0 { 1.0 } else { 0.0 });
        }
        Some(2.0 * t.sf(self.mean.abs() * (self.n as f64).sqrt() / self.deviation))
    }
}

/// Corrects the p values of one family of comparisons by Holm's step-down method (1979). The probability of
/// rejecting any true hypothesis of the family stays below the level.
///
/// 1. The smallest of m values is multiplied by m, the next one by m − 1, and so on; the result is at most 1.
/// 2. Each value is raised to the one before it if smaller, so a comparison is rejected only if all with
///    smaller values are.
///
/// Example: 0.01, 0.04, 0.03 become 0.03, 0.06, 0.06.
pub fn holm(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
    let (mut corrected, mut least) = (vec![0.0; values.len()], 0.0_f64);
    for (before, at) in order.into_iter().enumerate() {
        least = least.max(((values.len() - before) as f64 * values[at]).min(1.0));
        corrected[at] = least;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_tables_of_t() {
        // t(0.975, 4) = 2.7764, t(0.995, 9) = 3.2498, t(0.975, 1) = 12.706: from tables of the distribution.
        let one_to_five = estimate(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95).expect("five");
        assert_eq!((one_to_five.mean, one_to_five.n), (3.0, 5));
        assert!((one_to_five.deviation - 2.5f64.sqrt()).abs() < 1e-12);
        assert!((one_to_five.half_width.expect("several") - 2.7764 * (2.5f64 / 5.0).sqrt()).abs() < 1e-3);
        let ten: Vec<f64> = (0..10).map(|n| f64::from(n % 2)).collect();
        let ten = estimate(&ten, 0.99).expect("ten");
        assert!((ten.half_width.expect("several") - 3.2498 * (10.0f64 / 36.0 / 10.0).sqrt()).abs() < 1e-3);
        let two = estimate(&[1.0, 3.0], 0.95).expect("two");
        assert!((two.half_width.expect("several") - 12.706).abs() < 1e-2);
    }

    #[test]
    fn one_measurement_has_no_interval_and_equal_ones_a_narrow_one() {
        let one = estimate(&[4.0], 0.95).expect("one");
        assert_eq!((one.half_width, one.p_value()), (None, None));
        let same = estimate(&[4.0, 4.0, 4.0], 0.95).expect("three");
        assert_eq!((same.half_width, same.p_value()), (Some(0.0), Some(0.0)));
        // A seventh of 1.863630368 times 7 is not 1.863630368.
        let noise = estimate(&[1.863_630_368; 7], 0.95).expect("seven");
        assert_eq!((noise.mean, noise.half_width), (1.863_630_368, Some(0.0)));
        assert_eq!(estimate(&[], 0.95), None);
    }

    #[test]
    fn the_number_of_seeds_is_that_of_the_spread_of_the_first() {
        // Mean 4, deviation 0.1: t(0.975, 7) = 2.3646, (2.3646 · 0.1 / 0.04)² = 34.9.
        let pilot: Vec<f64> =
            (0..8).map(|n| 4.0 + 0.1 * (7.0f64 / 8.0).sqrt() * f64::from(2 * (n % 2) - 1)).collect();
        let needed = |share, most| seeds_needed(&pilot, share, 0.95, most);
        assert_eq!((needed(0.01, 100), needed(0.01, 20), needed(0.5, 100)), (Some(35), Some(20), Some(8)));
        let mut all = pilot.clone();
        all.resize(35, 4.0);
        let found = two_stage_estimate(&all, 8, 0.95).expect("values");
        let half = found.half_width.expect("several");
        assert!((found.n, found.degrees) == (35, 7) && (0.039..=0.04).contains(&half), "{found:?}");
        // No spread needs no more seeds; one value has no spread; no share of a mean of 0 is reached.
        assert_eq!(seeds_needed(&[2.0; 8], 0.01, 0.95, 40), Some(8));
        assert_eq!(seeds_needed(&[2.0], 0.01, 0.95, 40), None);
        assert_eq!(seeds_needed(&[1.0, -1.0], 0.01, 0.95, 40), Some(40));
    }

    #[test]
    fn p_values_are_those_of_the_tables_of_t_and_agree_with_the_interval() {
        // t = 2.7764 with 4 degrees of freedom is 5 % two-sided, 4.6041 is 1 %.
        for (t, p) in [(2.7764, 0.05), (4.6041, 0.01)] {
            let found = Estimate { n: 5, mean: t, deviation: 5.0f64.sqrt(), degrees: 4, half_width: None };
            assert!((found.p_value().expect("five") - p).abs() < 1e-5, "{found:?}");
        }
        let found = estimate(&[1.0, 2.0, 4.0, -0.5, 0.7], 0.95).expect("five");
        let is_shown = found.mean.abs() > found.half_width.expect("several");
        assert_eq!(found.p_value().expect("several") < 0.05, is_shown);
        assert_eq!(estimate(&[0.0, 0.0], 0.95).expect("two").p_value(), Some(1.0));
    }

    #[test]
    fn holm_multiplies_the_smallest_most_and_keeps_the_order() {
        let close = |found: Vec<f64>, wanted: &[f64]| {
            assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} {wanted:?}");
            assert_eq!(found.len(), wanted.len());
        };
        close(holm(&[0.01, 0.04, 0.03]), &[0.03, 0.06, 0.06]);
        // p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.9), "holm") of R.
        close(holm(&[0.04, 0.01, 0.9, 0.02, 0.03]), &[0.09, 0.05, 0.9, 0.08, 0.09]);
        close(holm(&[0.7, 0.6]), &[1.0, 1.0]);
        close(holm(&[0.02]), &[0.02]);
        close(holm(&[]), &[]);
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / (1u64 << 24) as f64
        };
        let trials = 4000;
        let held = (0..trials)
            .filter(|_| {
                // The sum of twelve is about normal, with mean 6.
                let values: Vec<f64> = (0..5).map(|_| (0..12).map(|_| next()).sum::<f64>()).collect();
                let found = estimate(&values, 0.95).expect("five");
                (found.mean - 6.0).abs() <= found.half_width.expect("several")
            })
            .count();
        let share = held as f64 / f64::from(trials);
        assert!((0.94..0.96).contains(&share), "{share}");
    }
}
