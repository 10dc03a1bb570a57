//! Independent pieces of work on all cores, with results in the order of the work.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::kept::{self, Kept};
use super::{PaperError, Taken, Watch};

/// A run of a paper: who watches, and what is done already.
pub(super) struct Bench<'a> {
    pub(super) watch: &'a dyn Watch,
    pub(super) kept: Kept,
    /// What became of the settings: where none of the points has taken one, nothing is run.
    pub(super) taken: &'a Taken,
}

impl Bench<'_> {
    /// What `work` makes of each of `points`, on all cores, in their order. A point that is known already is not done
    /// again; `kind` and its own fields say which it is.
    pub(super) fn points<P: Serialize + Sync, R: Serialize + DeserializeOwned + Send>(
        &self,
        kind: &str,
        points: &[P],
        work: impl Fn(&P) -> Result<R, PaperError> + Sync,
    ) -> Result<Vec<R>, PaperError> {
        self.taken.check()?;
        in_parallel(points, self.watch, |point| {
            let key = kept::key(kind, point);
            if let Some(known) = self.kept.find(&key) {
                return Ok(known);
            }
            let result = work(point)?;
            if self.watch.stopped() {
                // Its drive may have given up what nobody waits for.
                return Err(PaperError::Interrupted);
            }
            self.kept.keep(key, &result)?;
            Ok(result)
        })
    }
}

/// Does `work` for each item, on all cores. The results are in the order of the items; if some
/// fail, the error is that of the first of them in this order.
pub(super) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    watch: &dyn Watch,
    work: impl Fn(&T) -> Result<R, PaperError> + Sync,
) -> Result<Vec<R>, PaperError> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    on_threads(cores, items, watch, work)
}

fn on_threads<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    watch: &dyn Watch,
    work: impl Fn(&T) -> Result<R, PaperError> + Sync,
) -> Result<Vec<R>, PaperError> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    let worker = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at).filter(|_| !watch.stopped()) else { break };
            let result = work(item);
            // A thread that panicked ends the scope with its panic, so the lock is never poisoned.
            let Ok(mut results) = results.lock() else { break };
            results.push((at, result));
            watch.progress(results.len(), items.len());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(worker);
        }
    });
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by_key(|&(at, _)| at);
    let complete = results.len() == items.len();
    let results = results.into_iter().map(|(_, result)| result).collect::<Result<Vec<R>, PaperError>>();
    match results {
        // A drive that gives up a command has no other reason then.
        _ if watch.stopped() => Err(PaperError::Interrupted),
        Ok(_) if !complete => Err(PaperError::Interrupted),
        results => results,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works longest on the first items, so that several threads finish in another order.
    fn squares(threads: usize) -> Vec<u64> {
        let items: Vec<u64> = (0..40).collect();
        let work = |&n: &u64| {
            std::thread::sleep(std::time::Duration::from_micros(50 * (40 - n)));
            Ok(n * n)
        };
        on_threads(threads, &items, &(), work).expect("nothing fails")
    }

    #[test]
    fn the_order_of_results_does_not_depend_on_threads() {
        let expected: Vec<u64> = (0..40).map(|n| n * n).collect();
        for threads in [1, 2, 7, 100] {
            assert_eq!(squares(threads), expected, "{threads}");
        }
        assert!(on_threads(4, &[], &(), |&n: &u64| Ok(n)).expect("nothing to do").is_empty());
    }

    #[test]
    fn a_stop_leaves_the_rest_undone() {
        struct After(AtomicUsize);
        impl Watch for After {
            fn progress(&self, done: usize, _: usize) {
                self.0.store(done, Ordering::Relaxed);
            }
            fn stopped(&self) -> bool {
                self.0.load(Ordering::Relaxed) >= 3
            }
        }
        let items: Vec<u64> = (0..1000).collect();
        let stopped = on_threads(2, &items, &After(AtomicUsize::new(0)), |&n| Ok(n));
        assert!(matches!(stopped, Err(PaperError::Interrupted)));
    }

    #[test]
    fn the_first_error_in_order_is_told() {
        let items = [5u64, 4, 3, 2];
        let result = on_threads(4, &items, &(), |&n| {
            std::thread::sleep(std::time::Duration::from_millis(n));
            Err::<u64, _>(PaperError::Run {
                run: n.to_string(),
                error: Box::new(strobe_lab::RunError::EndOfTime),
            })
        });
        assert!(result.expect_err("all fail").to_string().starts_with("5: "));
    }
}
