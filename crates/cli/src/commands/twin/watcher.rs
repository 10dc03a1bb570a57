//! Progress of a check or a fit.

use std::io::IsTerminal as _;

use indicatif::ProgressBar;
use strobe_twin::Watch;
use strobe_twin::fit::FitWatch;
use strobe_types::StopFlag;

use crate::commands::{progress, signals};

/// Shows how far it is, and passes Ctrl-C, TERM and HUP on.
pub(super) struct Watcher {
    stop: StopFlag,
    bar: Option<ProgressBar>,
}

impl Watcher {
    pub(super) fn new(is_quiet: bool) -> Self {
        let show = !is_quiet && std::io::stderr().is_terminal();
        let bar = show.then(|| {
            ProgressBar::new(0).with_style(progress::style("{msg}  {wide_bar} {pos} of {len} loads  {left}"))
        });
        Self { stop: signals::listen_for_long(), bar }
    }

    pub(super) fn begin(&self, what: &str, loads: usize) {
        if let Some(bar) = &self.bar {
            match loads {
                0 => progress::restyle(bar, "{msg}  {spinner} {pos} loads"),
                loads => bar.set_length(loads as u64),
            }
            bar.reset();
            bar.set_message(what.to_owned());
        }
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Watch for Watcher {
    fn answered(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    fn stop_flag(&self) -> StopFlag {
        self.stop.clone()
    }
}

impl FitWatch for Watcher {
    fn round(&self, done: u32, of: u32, cost: f64) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("fit: round {done} of at most {of}, error {:.1}", libm::sqrt(cost)));
        }
    }
}
