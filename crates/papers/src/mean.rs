//! Means of several runs with standard errors.

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    /// Standard error if the runs are independent; `None` if one of the means has a single run.
    pub(crate) error: Option<f64>,
}

impl Ratio {
    /// Ratio of the means of two non-empty slices.
    pub(crate) fn of(above: &[f64], below: &[f64]) -> Self {
        let value = mean(above) / mean(below);
        // Relative errors of independent means add in squares.
        let both = relative_error(above).zip(relative_error(below));
        Self { value, error: both.map(|(a, b)| value * libm::hypot(a, b)) }
    }
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

fn relative_error(of: &[f64]) -> Option<f64> {
    let (n, mean) = (of.len() as f64, mean(of));
    let squares: f64 = of.iter().map(|x| (x - mean) * (x - mean)).sum();
    (of.len() > 1).then(|| libm::sqrt(squares / (n - 1.0) / n) / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_that_of_both_means() {
        // Means 10 and 5, variances 4 and 1 of three runs each. The errors are 2/√3 and 1/√3, 11.55 % each.
        let ratio = Ratio::of(&[8.0, 10.0, 12.0], &[4.0, 5.0, 6.0]);
        assert!((ratio.value - 2.0).abs() < 1e-12);
        let error = ratio.error.expect("three runs");
        assert!((error - 2.0 * 0.2 / 3f64.sqrt() * 2f64.sqrt()).abs() < 1e-12, "{error}");
        assert_eq!(Ratio::of(&[1.0], &[1.0, 3.0]), Ratio { value: 0.5, error: None });
        assert_eq!(Ratio::of(&[1.0, 1.0], &[2.0, 2.0]).error, Some(0.0));
    }
}
