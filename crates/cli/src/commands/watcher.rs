//! Progress bar and cancellation of sweeps, papers, checks and fits.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::ProgressBar;
use strobe_lab::points::Watch;
use strobe_types::StopFlag;

use super::lines::Lines;
use super::{output, progress, signals};

const LINE_EVERY: Duration = Duration::from_secs(30);

pub(super) struct Watcher {
    stop: StopFlag,
    bar: Option<ProgressBar>,
    lines: Option<Lines>,
}

impl Watcher {
    /// A signal raises the stop flag. `points` is the plural of a point, such as "runs".
    pub(super) fn new(is_quiet: bool, points: &'static str) -> Self {
        let show = !is_quiet && std::io::stderr().is_terminal();
        let bar = show.then(|| {
            let template = format!("{{msg}}{{wide_bar}} {{pos}} of {{len}} {points}  {{prefix}}{{left}}");
            ProgressBar::new(0).with_style(progress::style(&template))
        });
        let is_logged = bar.is_none() && !is_quiet;
        let lines = is_logged.then(|| Lines::start(LINE_EVERY, points, output::note));
        Self { stop: signals::listen_for_long(), bar, lines }
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Watch for Watcher {
    fn progress(&self, done: usize, total: usize, failed: usize) {
        if let Some(bar) = &self.bar {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
            if failed > 0 {
                bar.set_prefix(format!("{failed} failed  "));
            }
        }
        if let Some(lines) = &self.lines {
            lines.set(done, total, failed);
        }
    }

    fn stage(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.reset();
            bar.set_message(format!("{text}  "));
        }
        if let Some(lines) = &self.lines {
            lines.begin(text);
        }
    }

    fn stop_flag(&self) -> StopFlag {
        self.stop.clone()
    }
}
