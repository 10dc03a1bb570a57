//! Means with their intervals, and corrections for many comparisons.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// The mean of measurements with different seeds, and how far the true one may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Measurements.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Standard deviation of a single measurement; 0 for one.
    pub deviation: f64,
    /// The true mean lies within this of `mean`, with the confidence asked for, if measurements are about normal: the
    /// quantile of Student's t with n − 1 degrees of freedom, times the standard error. Nothing for one measurement.
    pub half_width: Option<f64>,
}

/// The mean of `values` with its interval; nothing without values.
pub fn estimate(values: &[f64], confidence: f64) -> Option<Estimate> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    // The sum of equal values is rounded; their mean is not.
    let is_same = values.iter().all(|value| *value == values[0]);
    let mean = if is_same { values[0] } else { values.iter().sum::<f64>() / n as f64 };
    let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
    let deviation = if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 };
    let quantile = (n > 1)
        .then(|| StudentsT::new(0.0, 1.0, (n - 1) as f64).ok())
        .flatten()
        .map(|t| t.inverse_cdf(0.5 + confidence / 2.0));
    Some(Estimate { n, mean, deviation, half_width: quantile.map(|t| t * deviation / (n as f64).sqrt()) })
}

impl Estimate {
    /// Half the width of the interval as a share of the mean; nothing for one measurement or a mean of 0 that varies.
    pub fn relative(&self) -> Option<f64> {
        let half = self.half_width?;
        if half == 0.0 { Some(0.0) } else { Some(half / self.mean.abs()).filter(|share| share.is_finite()) }
    }

    /// Probability of a mean this far from 0 or farther if the true one is 0: Student's t test, two-sided. Nothing for
    /// one measurement.
    pub fn p_value(&self) -> Option<f64> {
        let t = StudentsT::new(0.0, 1.0, self.n.checked_sub(1)? as f64).ok()?;
        if self.deviation == 0.0 {
            return Some(if self.mean == 0.0 { 1.0 } else { 0.0 });
        }
        Some(2.0 * t.sf(self.mean.abs() * (self.n as f64).sqrt() / self.deviation))
    }
}

/// Corrects p values of one family of comparisons by Holm's step-down method (1979): the chance that any true
/// hypothesis of the family is rejected stays below the level.
///
/// 1. The smallest of m values is multiplied by m, the next one by m − 1, and so on; none exceeds 1.
/// 2. None is smaller than one before it, so a comparison is rejected only if all with smaller values are.
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
        // t(0.975, 4) = 2.7764, t(0.995, 9) = 3.2498, t(0.975, 1) = 12.706: any table of the distribution.
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
        assert_eq!((one.half_width, one.relative(), one.p_value()), (None, None, None));
        let same = estimate(&[4.0, 4.0, 4.0], 0.95).expect("three");
        assert_eq!((same.half_width, same.relative(), same.p_value()), (Some(0.0), Some(0.0), Some(0.0)));
        // A seventh of 1.863630368 times 7 is not 1.863630368.
        let noise = estimate(&[1.863_630_368; 7], 0.95).expect("seven");
        assert_eq!((noise.mean, noise.half_width), (1.863_630_368, Some(0.0)));
        assert_eq!(estimate(&[0.0, 0.0], 0.95).expect("two").relative(), Some(0.0));
        assert_eq!(estimate(&[1.0, -1.0], 0.95).expect("two").relative(), None);
        assert_eq!(estimate(&[], 0.95), None);
    }

    #[test]
    fn p_values_are_those_of_the_tables_of_t_and_agree_with_the_interval() {
        // t = 2.7764 with 4 degrees of freedom is 5 % two-sided, 4.6041 is 1 %.
        for (t, p) in [(2.7764, 0.05), (4.6041, 0.01)] {
            let found = Estimate { n: 5, mean: t, deviation: 5.0f64.sqrt(), half_width: None };
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

    /// Of intervals at 95 %, about 95 in 100 have the true mean in them.
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
