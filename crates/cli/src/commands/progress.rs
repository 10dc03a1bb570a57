//! Progress display, with and without a terminal.

use std::fmt::Write as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use strobe_lab::machine::Stopwatch;
use strobe_lab::runner::Progress;
use strobe_lab::{Amount, Experiment};

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

/// A phase that a run may have, with its length if known: mapping units or virtual time.
struct Phase {
    name: &'static str,
    pages: Option<u64>,
    ns: Option<u64>,
}

/// Phases of a run of `experiment`, in order. Rounds until a metric is steady have no known length.
fn phases(experiment: &Experiment) -> Vec<Phase> {
    let run = &experiment.run;
    let units = u32::try_from(experiment.drive.logical_units()).unwrap_or(u32::MAX);
    let of = |name, amount: Option<Amount>| {
        let pages = amount.and_then(|amount| amount.pages(units));
        Phase { name, pages, ns: amount.and_then(Amount::ns) }
    };
    let has_prefill = run.prefill.unwrap_or(experiment.workload.wants_prefill());
    let default =
        (experiment.workload.wants_prefill() && !run.until_worn()).then_some(Amount::Capacities(1.0));
    [
        has_prefill.then(|| of("prefill", Some(Amount::Capacities(1.0)))),
        (!run.precondition.is_zero()).then(|| of("precondition", Some(run.precondition))),
        (!run.warmup.is_zero()).then(|| of("warm-up", Some(run.warmup))),
        run.until_steady.map(|_| of("settling", None)),
        Some(of("measure", run.measure.or(default))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Prints the remaining time of a long phase once, with the phases that follow.
pub(crate) struct Estimate {
    phases: Vec<Phase>,
    phase: &'static str,
    since: Option<Stopwatch>,
    is_printed: bool,
}

impl Estimate {
    pub(crate) fn new(experiment: &Experiment) -> Self {
        Self { phases: phases(experiment), phase: "", since: None, is_printed: false }
    }

    pub(crate) fn note(&mut self, progress: &Progress) -> Option<String> {
        if self.phase != progress.phase {
            (self.phase, self.since, self.is_printed) = (progress.phase, Some(Stopwatch::start()), false);
        }
        // The number of settling rounds is unknown.
        if self.is_printed || self.phase == "settling" {
            return None;
        }
        let (done, total) = progress.extent()?;
        let elapsed_s = self.since.as_ref()?.wall_s();
        let note = rest_note(self.phase, done, total, elapsed_s)?;
        self.is_printed = true;
        let is_in_pages = progress.total.is_some();
        Some(note + &following(&self.phases, self.phase, is_in_pages, elapsed_s / done as f64))
    }
}

/// Phases after `phase`, and their time at the current speed if all have a length in the unit of progress.
fn following(phases: &[Phase], phase: &str, is_in_pages: bool, s_per_unit: f64) -> String {
    let Some(at) = phases.iter().position(|other| other.name == phase) else { return String::new() };
    let later = &phases[at + 1..];
    let names: Vec<&str> = later.iter().map(|phase| phase.name).collect();
    let names = match names[..] {
        [] => return String::new(),
        [ref first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => names.concat(),
    };
    let length = |phase: &Phase| if is_in_pages { phase.pages } else { phase.ns };
    match later.iter().map(length).sum::<Option<u64>>() {
        Some(units) => format!("; then {names}: about {} at this speed", wall(s_per_unit * units as f64)),
        None => format!("; then {names}"),
    }
}

fn wall(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} minutes", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} hours", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

/// `None` if the elapsed or remaining time is too short.
fn rest_note(phase: &str, done: u64, total: u64, elapsed_s: f64) -> Option<String> {
    if done == 0 || elapsed_s < PRINT_AFTER_S {
        return None;
    }
    let left_s = elapsed_s * total.saturating_sub(done) as f64 / done as f64;
    if left_s < LEFT_S_MIN {
        return None;
    }
    let percent = u128::from(done) * 100 / u128::from(total.max(1));
    Some(format!("note: {phase}: about {} more ({percent} % done)", wall(left_s)))
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
    fn the_phases_that_follow_are_named_with_their_time() {
        let run = |text: &str| {
            let table = format!("[drive]\npreset = \"generic-8g\"\n[run]\n{text}").parse().expect("TOML");
            Experiment::from_table(table, &[], std::path::Path::new("")).expect("an experiment")
        };
        let experiment = run("precondition = \"2x\"\nwarmup = \"1x\"\nmeasure = \"3x\"");
        let (phases, units) = (phases(&experiment), experiment.drive.logical_units() as f64);
        // 10 s for each capacity.
        let after = |phase: &str| following(&phases, phase, true, 10.0 / units);
        assert_eq!(after("prefill"), "; then precondition, warm-up and measure: about 60 s at this speed");
        assert_eq!(after("precondition"), "; then warm-up and measure: about 40 s at this speed");
        assert_eq!(after("warm-up"), "; then measure: about 30 s at this speed");
        assert_eq!((after("measure"), after("settling")), (String::new(), String::new()));
        // A phase of another unit, or of unknown length, has no time.
        let timed = self::phases(&run("prefill = false\nwarmup = \"10s\"\nmeasure = \"60s\""));
        assert_eq!(following(&timed, "warm-up", false, 1e-9), "; then measure: about 60 s at this speed");
        assert_eq!(following(&timed, "warm-up", true, 1.0), "; then measure");
        let steady = self::phases(&run("until_steady = \"waf\""));
        assert_eq!(following(&steady, "prefill", true, 1.0), "; then settling and measure");
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
