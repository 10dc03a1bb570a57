//! Observers of a run: Ctrl-C, and a progress callback.

use std::ops::ControlFlow;
use std::time::Duration;

use pyo3::prelude::*;
use strobe_lab::runner::{Observer, Progress};

use crate::score::Trouble;

/// Minimum time between calls, as each takes the interpreter lock.
const EVERY: Duration = Duration::from_millis(50);

/// Watches a run from Python; an exception there stops it.
pub(crate) struct Watcher {
    progress: Option<Py<PyAny>>,
    trouble: Trouble,
    #[allow(
        clippy::disallowed_types,
        reason = "how often a person is told depends on the clock on the wall"
    )]
    asked: std::time::Instant,
}

impl Watcher {
    #[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "see above")]
    pub(crate) fn new(progress: Option<Py<PyAny>>, trouble: Trouble) -> Self {
        Self { progress, trouble, asked: std::time::Instant::now() }
    }

    /// Stops the run after an exception; calls Python if [`EVERY`] has passed.
    #[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "see above")]
    pub(crate) fn poll(&mut self, progress: Option<Progress>) -> ControlFlow<()> {
        if self.trouble.is_there() {
            return ControlFlow::Break(());
        }
        let now = std::time::Instant::now();
        if now.duration_since(self.asked) < EVERY {
            return ControlFlow::Continue(());
        }
        self.asked = now;
        let asked = Python::attach(|py| {
            py.check_signals()?;
            let (Some(function), Some(progress)) = (&self.progress, progress) else { return Ok(true) };
            let Progress { phase, done, total, virtual_ns, .. } = progress;
            let answer = function.bind(py).call1((phase, done, total, virtual_ns))?;
            // Only False stops a run. A function without a return value returns None, which does not.
            Ok(!answer.is_instance_of::<pyo3::types::PyBool>() || answer.is_truthy()?)
        });
        match asked {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                self.trouble.put(error);
                ControlFlow::Break(())
            }
        }
    }
}

impl Observer for Watcher {
    fn progress(&mut self, progress: Progress) -> ControlFlow<()> {
        self.poll(Some(progress))
    }
}
