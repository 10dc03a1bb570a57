use std::ops::ControlFlow;

use strobe_types::StopFlag;

use crate::runner::{Observer, Progress};

/// Watches many runs on several threads; may stop them.
pub trait Watch: Sync {
    /// Called after each point: `done` of `total` are finished, `failed` of them without a result.
    fn progress(&self, _done: usize, _total: usize, _failed: usize) {}

    /// Called when a stage of the work begins, with a line about it.
    fn stage(&self, _text: &str) {}

    /// Flag that stops the runs, even within a command of a drive.
    fn stop_flag(&self) -> StopFlag {
        StopFlag::default()
    }

    /// True once the runs are to stop.
    fn stopped(&self) -> bool {
        self.stop_flag().is_raised()
    }
}

impl Watch for () {}

/// Observer of one run that is stopped by a [`Watch`].
pub struct Stoppable<'a>(pub &'a dyn Watch);

impl Observer for Stoppable<'_> {
    fn progress(&mut self, _: Progress) -> ControlFlow<()> {
        if self.0.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn stop_flag(&mut self) -> StopFlag {
        self.0.stop_flag()
    }
}
