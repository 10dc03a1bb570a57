//! Progress display on the terminal.

use std::fmt::Write as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// Time of a phase before which its speed says nothing.
const SETTLING: Duration = Duration::from_millis(1500);

/// The look of a bar with `{rate}` and `{left}` for people: 12.3 M/s, 40 s.
pub(crate) fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("rate", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = out.write_str(&rate(state.pos(), state.elapsed()));
        })
        .with_key("left", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = out.write_str(&left(state.pos(), state.len(), state.elapsed()));
        })
}

/// Gives `bar` the look of `template`.
pub(crate) fn restyle(bar: &ProgressBar, template: &str) {
    bar.set_style(style(template));
}

/// Done per second, in three digits.
fn rate(done: u64, elapsed: Duration) -> String {
    let per_second = done as f64 / elapsed.as_secs_f64().max(1e-9);
    let (scaled, unit) = match per_second {
        r if r >= 1e9 => (r / 1e9, " G/s"),
        r if r >= 1e6 => (r / 1e6, " M/s"),
        r if r >= 1e4 => (r / 1e3, " k/s"),
        r => (r, "/s"),
    };
    match scaled {
        r if r >= 99.95 => format!("{r:.0}{unit}"),
        r if r >= 9.995 => format!("{r:.1}{unit}"),
        r => format!("{r:.2}{unit}"),
    }
}

/// The time that the rest will take at the speed of the phase so far; nothing while that says nothing.
fn left(done: u64, total: Option<u64>, elapsed: Duration) -> String {
    let Some(rest) = total.map(|total| total.saturating_sub(done)) else { return String::new() };
    if done == 0 || elapsed < SETTLING {
        return String::new();
    }
    let seconds = elapsed.as_secs_f64() * rest as f64 / done as f64;
    let mut text = String::new();
    let _ = match seconds.round() {
        s if s >= 172_800.0 => write!(text, "{:.0} days left", s / 86_400.0),
        s if s >= 3600.0 => write!(text, "{:.0} h {:.0} min left", (s / 3600.0).floor(), s % 3600.0 / 60.0),
        s if s >= 60.0 => write!(text, "{:.0} min {:.0} s left", (s / 60.0).floor(), s % 60.0),
        s if s >= 1.0 => write!(text, "{s:.0} s left"),
        _ => write!(text, "nearly done"),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits_and_a_unit() {
        let second = Duration::from_secs(1);
        assert_eq!(rate(92_290_114, second), "92.3 M/s");
        assert_eq!(rate(92_290, second), "92.3 k/s");
        assert_eq!(rate(922, second), "922/s");
        assert_eq!(rate(1, Duration::from_secs(3)), "0.33/s");
        assert_eq!(rate(0, Duration::ZERO), "0.00/s");
    }

    #[test]
    fn the_rest_is_estimated_when_there_is_something_to_go_by() {
        let elapsed = Duration::from_secs(10);
        assert_eq!(left(100, Some(100), elapsed), "nearly done");
        assert_eq!(left(25, Some(100), elapsed), "30 s left");
        assert_eq!(left(10, Some(100), elapsed), "1 min 30 s left");
        assert_eq!(left(1, Some(1000), elapsed), "2 h 46 min left");
        assert_eq!(left(1, Some(1000), Duration::from_millis(3)), "");
        assert_eq!(left(0, Some(1000), elapsed), "");
        assert_eq!(left(5, None, elapsed), "");
    }
}
