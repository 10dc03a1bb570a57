//! Progress display, with and without a terminal.

use std::fmt::Write as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use strobe_lab::machine::Stopwatch;
use strobe_lab::runner::Progress;

/// Time before the rate of a phase is meaningful.
const SETTLING: Duration = Duration::from_millis(1500);

/// Style of a bar, with `{rate}` and `{left}` in readable form: 12.3 M/s, 40 s.
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

pub(crate) fn restyle(bar: &ProgressBar, template: &str) {
    bar.set_style(style(template));
}

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

/// Remaining time at the average speed of the phase; empty during [`SETTLING`].
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

const PRINT_AFTER_S: f64 = 5.0;
const LEFT_S_MIN: f64 = 5.0;

#[derive(Default)]
pub(crate) struct Estimate {
    phase: &'static str,
    since: Option<Stopwatch>,
    is_printed: bool,
}

impl Estimate {
    pub(crate) fn note(&mut self, progress: &Progress) -> Option<String> {
        if self.phase != progress.phase {
            *self = Self { phase: progress.phase, since: Some(Stopwatch::start()), is_printed: false };
        }
        // The number of settling rounds is unknown.
        if self.is_printed || self.phase == "settling" {
            return None;
        }
        let (done, total) = progress.extent()?;
        let note = rest_note(self.phase, done, total, self.since.as_ref()?.wall_s());
        self.is_printed = note.is_some();
        note
    }
}

/// `None` if the elapsed or remaining time is too short.
fn rest_note(phase: &str, done: u64, total: u64, elapsed_s: f64) -> Option<String> {
    if done == 0 || elapsed_s < PRINT_AFTER_S {
        return None;
    }
    let left_s = elapsed_s * total.saturating_sub(done) as f64 / done as f64;
    let rest = match left_s {
        s if s < LEFT_S_MIN => return None,
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} minutes", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} hours", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    };
    let percent = u128::from(done) * 100 / u128::from(total.max(1));
    Some(format!("note: {phase}: about {rest} more ({percent} % done)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_long_phase_is_told() {
        let note = |done, elapsed_s| rest_note("warm-up", done, 1000, elapsed_s);
        let shown = |text: &str| Some(format!("note: warm-up: about {text} done)"));
        assert_eq!(note(500, 20.0), shown("20 s more (50 %"));
        assert_eq!(note(120, 33.0), shown("4 minutes more (12 %"));
        assert_eq!(note(1, 7.2), shown("2.0 hours more (0 %"));
        assert_eq!(note(1, 500.0), shown("6 days more (0 %"));
        assert_eq!(
            rest_note("measure", u64::MAX / 4, u64::MAX, 6.0).as_deref(),
            Some("note: measure: about 18 s more (24 % done)")
        );
    }

    #[test]
    fn nothing_is_told_of_short_phases_or_too_soon() {
        let note = |done, elapsed_s| rest_note("measure", done, 1000, elapsed_s);
        assert_eq!(note(1, 4.9), None);
        assert_eq!(note(0, 60.0), None);
        assert_eq!(note(600, 6.0), None);
        assert_eq!(note(1000, 60.0), None);
        assert!(note(500, 5.0).is_some());
    }

    #[test]
    fn the_extent_of_a_phase_is_in_pages_or_in_virtual_time() {
        let pages =
            Progress { phase: "measure", done: 7, total: Some(10), virtual_ns: 5, span_ns: Some((0, 9)) };
        assert_eq!(pages.extent(), Some((7, 10)));
        let timed = Progress { total: None, virtual_ns: 130, span_ns: Some((100, 300)), ..pages };
        assert_eq!(timed.extent(), Some((30, 200)));
        assert_eq!(Progress { virtual_ns: 400, ..timed }.extent(), Some((200, 200)));
        assert_eq!(Progress { span_ns: None, ..timed }.extent(), None);
    }

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
