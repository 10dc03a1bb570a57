//! What was found, in words and numbers for people.

use crate::{Estimate, Summary};

/// What the signs beside the means stand for.
pub fn about_intervals(summary: &Summary) -> String {
    let mut means = summary.configurations.iter().flat_map(|found| found.measures.iter().flatten());
    match means.any(|found| found.half_width.is_some()) {
        true => format!("Means; ± is half of the {} % interval over seeds.", summary.confidence * 100.0),
        false => "One seed each: it cannot say what is chance (sweep.seeds = 5).".to_owned(),
    }
}

/// What a difference comes to.
pub fn verdict(relative: &Estimate) -> String {
    match (relative.half_width, relative.is_not_zero()) {
        (None, _) => "one seed cannot say".to_owned(),
        (Some(0.0), false) => "the same".to_owned(),
        (Some(_), false) => "no difference shown".to_owned(),
        (Some(_), true) if relative.mean > 0.0 => "more".to_owned(),
        (Some(_), true) => "less".to_owned(),
    }
}

/// A difference with its interval.
pub fn percent(relative: &Estimate) -> String {
    let half = relative.half_width.map(|half| format!(" ± {:.2}", 100.0 * half)).unwrap_or_default();
    format!("{:+.2}{half} %", 100.0 * relative.mean)
}

/// A mean with as many digits as its interval makes sense of.
pub fn estimated(estimate: &Estimate) -> String {
    let Some(half) = estimate.half_width else { return number(estimate.mean, 4) };
    if half == 0.0 {
        return format!("{} ± 0", number(estimate.mean, 4));
    }
    let digits = (1.0 - libm::log10(half.abs()).floor()).clamp(0.0, 9.0) as usize;
    format!("{:.digits$} ± {:.digits$}", estimate.mean, half)
}

/// In so many digits.
fn number(value: f64, digits: i32) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let places = (f64::from(digits - 1) - libm::log10(value.abs()).floor()).clamp(0.0, 9.0) as usize;
    format!("{value:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mean: f64, half_width: Option<f64>) -> Estimate {
        Estimate { n: 3, mean, deviation: 0.0, half_width }
    }

    #[test]
    fn means_have_the_digits_that_their_interval_allows() {
        assert_eq!(estimated(&of(2.456_789, Some(0.0123))), "2.457 ± 0.012");
        assert_eq!(estimated(&of(123_456.0, Some(340.0))), "123456 ± 340");
        assert_eq!(estimated(&of(2.456_789, None)), "2.457");
        assert_eq!(estimated(&of(0.0, Some(0.0))), "0 ± 0");
    }

    #[test]
    fn a_difference_within_its_interval_is_none() {
        assert_eq!(verdict(&of(0.016, Some(0.02))), "no difference shown");
        assert_eq!(verdict(&of(0.016, Some(0.004))), "more");
        assert_eq!(verdict(&of(-0.016, Some(0.004))), "less");
        assert_eq!(verdict(&of(-0.016, None)), "one seed cannot say");
        assert_eq!(verdict(&of(0.0, Some(0.0))), "the same");
        assert_eq!(percent(&of(-0.016, Some(0.004))), "-1.60 ± 0.40 %");
    }
}
