use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::Watch;

/// Longest wait for a report; a caller then checks its stop flag.
const REPORT_TIMEOUT: Duration = Duration::from_millis(100);

/// Number of threads that the machine offers.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Threads that work on one task each and report in order of completion.
#[derive(Debug)]
pub struct Pool<T, R> {
    tasks: Sender<T>,
    reports: Receiver<std::thread::Result<R>>,
    size: usize,
    busy: usize,
}

impl<T: Send, R: Send> Pool<T, R> {
    /// Calls `drive` with a pool of `size` threads; returns once all threads have ended.
    ///
    /// Each thread creates a worker, a function from task to report. A worker's panic is passed on by
    /// [`Pool::report`].
    pub fn run<W: FnMut(T) -> R, O>(
        size: usize,
        worker: impl Fn() -> W + Sync,
        drive: impl FnOnce(&mut Self) -> O,
    ) -> O {
        let (tasks, queue) = channel();
        let (sender, reports) = channel();
        let queue = Mutex::new(queue);
        std::thread::scope(|scope| {
            for _ in 0..size {
                let (sender, queue, worker) = (sender.clone(), &queue, &worker);
                scope.spawn(move || work_off(queue, &sender, worker()));
            }
            // The pool is dropped at the end of this closure. That closes the queue, so the threads and the
            // scope end.
            let mut pool = Self { tasks, reports, size, busy: 0 };
            drive(&mut pool)
        })
    }

    /// True if at least one thread is idle.
    pub fn has_idle(&self) -> bool {
        self.busy < self.size
    }

    /// True if all threads are idle.
    pub fn is_idle(&self) -> bool {
        self.busy == 0
    }

    /// Gives a task to an idle thread.
    pub fn give(&mut self, task: T) {
        self.busy += 1;
        // The receiver outlives the pool, so sending cannot fail.
        let _ = self.tasks.send(task);
    }

    /// Waits for the next report, for 100 ms at most.
    pub fn report(&mut self) -> Option<R> {
        let report = self.reports.recv_timeout(REPORT_TIMEOUT).ok()?;
        self.busy -= 1;
        Some(report.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

fn work_off<T, R>(
    queue: &Mutex<Receiver<T>>,
    reports: &Sender<std::thread::Result<R>>,
    mut work: impl FnMut(T) -> R,
) {
    // No thread panics while it holds the lock, so the mutex is never poisoned.
    while let Some(task) = queue.lock().ok().and_then(|queue| queue.recv().ok()) {
        let report = catch_unwind(AssertUnwindSafe(|| work(task)));
        let has_panicked = report.is_err();
        if reports.send(report).is_err() || has_panicked {
            break;
        }
    }
}

/// Does `work` for each item on all cores. Results are in the order of the items; `None` if `watch` stopped
/// the work.
///
/// After an error no further item is started. The first error in the order of the items is returned, for any
/// number of threads.
pub fn in_parallel<T: Sync, R: Send, E: Send>(
    items: &[T],
    watch: &dyn Watch,
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Option<Vec<R>>, E> {
    on_threads(threads(), items, watch, work)
}

fn on_threads<T: Sync, R: Send, E: Send>(
    threads: usize,
    items: &[T],
    watch: &dyn Watch,
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Option<Vec<R>>, E> {
    let worker = || |at: usize| (at, work(&items[at]));
    Pool::run(threads.min(items.len()), worker, |pool| {
        let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
        let mut first_error: Option<(usize, E)> = None;
        let (mut begun, mut done) = (0, 0);
        loop {
            while pool.has_idle() && begun < items.len() && first_error.is_none() && !watch.stopped() {
                pool.give(begun);
                begun += 1;
            }
            if pool.is_idle() {
                break;
            }
            let Some((at, result)) = pool.report() else { continue };
            done += 1;
            match result {
                Ok(result) => results[at] = Some(result),
                // Items begin in order, so every earlier item has begun and still reports its result or
                // error.
                Err(error) if first_error.as_ref().is_none_or(|(first, _)| at < *first) => {
                    first_error = Some((at, error));
                }
                Err(_) => {}
            }
            watch.progress(done, items.len(), 0);
        }
        match first_error {
            // A stopped drive fails its command, so an error after a stop is no error of the item.
            _ if watch.stopped() => Ok(None),
            Some((_, error)) => Err(error),
            None => Ok(results.into_iter().collect()),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Work takes longest for the first items, so threads finish out of order.
    fn squares(threads: usize) -> Vec<u64> {
        let items: Vec<u64> = (0..40).collect();
        let work = |&n: &u64| {
            std::thread::sleep(Duration::from_micros(50 * (40 - n)));
            Ok::<_, ()>(n * n)
        };
        on_threads(threads, &items, &(), work).expect("nothing fails").expect("nothing stops it")
    }

    #[test]
    fn the_order_of_results_does_not_depend_on_threads() {
        let expected: Vec<u64> = (0..40).map(|n| n * n).collect();
        for threads in [1, 2, 7, 100] {
            assert_eq!(squares(threads), expected, "{threads}");
        }
        assert_eq!(on_threads(4, &[], &(), |&n: &u64| Ok::<_, ()>(n)), Ok(Some(Vec::new())));
    }

    #[test]
    fn a_stop_leaves_the_rest_undone() {
        struct After(AtomicUsize);
        impl Watch for After {
            fn progress(&self, done: usize, _: usize, _: usize) {
                self.0.store(done, Ordering::Relaxed);
            }
            fn stopped(&self) -> bool {
                self.0.load(Ordering::Relaxed) >= 3
            }
        }
        let (items, begun): (Vec<u64>, _) = ((0..1000).collect(), AtomicUsize::new(0));
        let stopped = on_threads(2, &items, &After(AtomicUsize::new(0)), |&n| {
            begun.fetch_add(1, Ordering::Relaxed);
            Ok::<_, ()>(n)
        });
        assert_eq!(stopped, Ok(None));
        assert!(begun.into_inner() <= 4, "one more on the other thread at most");
    }

    #[test]
    fn the_first_error_in_order_is_told_and_nothing_is_begun_after_one() {
        let (items, begun): (Vec<u64>, _) = ((0..100).rev().collect(), AtomicUsize::new(0));
        let result = on_threads(4, &items, &(), |&n| {
            begun.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(n / 10));
            Err::<u64, _>(n)
        });
        assert_eq!(result, Err(99));
        assert_eq!(begun.into_inner(), 4);
    }

    #[test]
    fn a_panic_of_a_worker_ends_the_pool() {
        let ended = catch_unwind(|| {
            on_threads(3, &[1, 2, 3, 4, 5], &(), |&n| {
                assert!(n != 2, "broken");
                Ok::<_, ()>(n)
            })
        });
        assert!(ended.is_err());
    }
}
