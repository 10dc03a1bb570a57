//! Progress lines for standard error without a terminal, as in logs of clusters and CI.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub(super) struct Lines {
    shared: Arc<Shared>,
    printer: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    counts: Mutex<Counts>,
    ended: Condvar,
}

#[derive(Default)]
struct Counts {
    stage: Option<String>,
    done: usize,
    total: usize,
    failed: usize,
    is_over: bool,
}

impl Shared {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    /// `points` is the plural of a point, such as "runs".
    #[allow(clippy::disallowed_methods, reason = "it only prints; no simulation runs in it")]
    pub(super) fn start(
        every: Duration,
        points: &'static str,
        print: impl Fn(&str) + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let seen = shared.clone();
        let printer = std::thread::spawn(move || {
            let mut counts = seen.counts();
            while !counts.is_over {
                // `drop` wakes the printer, so the end of the program does not wait for the next line.
                let waited = seen.ended.wait_timeout_while(counts, every, |counts| !counts.is_over);
                counts = waited.unwrap_or_else(PoisonError::into_inner).0;
                if !counts.is_over && counts.total > 0 {
                    print(&counts.line(points));
                }
            }
        });
        Self { shared, printer: Some(printer) }
    }

    pub(super) fn set(&self, done: usize, total: usize, failed: usize) {
        let mut counts = self.shared.counts();
        (counts.done, counts.total, counts.failed) = (done, total, failed);
    }

    pub(super) fn begin(&self, stage: &str) {
        *self.shared.counts() = Counts { stage: Some(stage.to_owned()), ..Counts::default() };
    }
}

impl Counts {
    fn line(&self, points: &str) -> String {
        let failed = if self.failed > 0 { format!(", {} failed", self.failed) } else { String::new() };
        let stage = self.stage.as_ref().map_or_else(String::new, |stage| format!("{stage}: "));
        format!("{stage}{} of {} {points} done{failed}", self.done, self.total)
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.shared.counts().is_over = true;
        self.shared.ended.notify_all();
        if let Some(printer) = self.printer.take() {
            let _ = printer.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn lines_say_how_many_are_done_until_the_end() {
        let (sender, lines) = mpsc::channel();
        let printed = Lines::start(Duration::from_millis(5), "runs", move |line| {
            let _ = sender.send(line.to_owned());
        });
        printed.set(3, 12, 1);
        assert_eq!(lines.recv().as_deref(), Ok("3 of 12 runs done, 1 failed"));
        printed.begin("figure 4");
        printed.set(4, 12, 0);
        assert!(lines.iter().any(|line| line == "figure 4: 4 of 12 runs done"));
        drop(printed);
        // The printer thread has ended and dropped its sender.
        assert!(lines.iter().all(|line| line == "figure 4: 4 of 12 runs done"));
    }
}
