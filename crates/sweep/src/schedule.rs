use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::columns::{digest_without_seed, measure_of};
use crate::task::PART;
use crate::{Configuration, Outcome, Plan, Store, SweepError, Task, seeds_needed};

const STATE: &str = "state";

const TRACE_SEEDS: usize = 2;

/// Next action of a sweep.
#[derive(Debug)]
pub enum Step {
    /// Run this task and report it with [`Schedule::done`] or [`Schedule::lost`].
    Run(Task),
    /// No point can run before a running one is done.
    Wait,
    /// All points are done.
    End,
}

#[derive(Debug, Default)]
struct Warm {
    left: usize,
    /// True if the state exists or will never exist.
    is_ready: bool,
    /// True if a point that saves the state is running.
    is_led: bool,
    waiting: Vec<usize>,
}

#[derive(Debug, Default)]
struct Progress {
    /// Number of seeds to run, from the first on.
    wanted: usize,
    done: usize,
    /// First measure by seed index.
    values: BTreeMap<usize, f64>,
    /// Digests of results without the seed, for a trace.
    digests: Vec<String>,
}

/// The points of a plan in a runnable order. The set of points depends on results only, never on the order of
/// completion.
#[derive(Debug)]
pub struct Schedule {
    plan: Arc<Plan>,
    folder: PathBuf,
    ready: VecDeque<usize>,
    warm: BTreeMap<String, Warm>,
    configurations: Vec<Progress>,
    attempts: BTreeMap<usize, u32>,
    running: usize,
    finished: usize,
    failed: usize,
}

impl Schedule {
    /// Schedules the points that are not in `store`. State files are below `folder`.
    pub fn new(plan: &Arc<Plan>, store: &mut Store, folder: &Path) -> Result<Self, SweepError> {
        // Results of a trace differ between seeds only if the drive is random. Two runs show whether it is.
        let first = |configuration: &Configuration| {
            if configuration.is_trace {
                plan.file.seeds.first.min(TRACE_SEEDS)
            } else {
                plan.file.seeds.first
            }
        };
        let wanted: Vec<usize> = plan.configurations.iter().map(first).collect();
        let progress = |&wanted: &usize| Progress { wanted, ..Progress::default() };
        let configurations = wanted.iter().map(progress).collect();
        // Workers may have another working directory.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()).join("states");
        let mut schedule = Self {
            plan: Arc::clone(plan),
            folder,
            ready: VecDeque::new(),
            warm: BTreeMap::new(),
            configurations,
            attempts: BTreeMap::new(),
            running: 0,
            finished: 0,
            failed: 0,
        };
        for (configuration, wanted) in wanted.into_iter().enumerate() {
            schedule.add(configuration, 0..wanted, store)?;
        }
        Ok(schedule)
    }

    fn seeds(&self) -> usize {
        self.plan.seeds()
    }

    fn add(
        &mut self,
        configuration: usize,
        seeds: std::ops::Range<usize>,
        store: &mut Store,
    ) -> Result<(), SweepError> {
        for place in seeds {
            let point = configuration * self.seeds() + place;
            if let Some(refused) = self.plan.refused(point) {
                let outcome = Outcome::Failed(refused.to_owned());
                self.count(point, &outcome, store)?;
                continue;
            }
            match store.find(&self.plan.points[point].key)? {
                // A lost point runs again, because its worker may have been at fault.
                None | Some(Outcome::Lost(_)) => self.enqueue(point),
                Some(outcome) => self.count(point, &outcome, store)?,
            }
        }
        Ok(())
    }

    fn enqueue(&mut self, point: usize) {
        if let Some(warm) = &self.plan.points[point].warm {
            self.warm.entry(warm.clone()).or_default().left += 1;
        }
        self.ready.push_back(point);
    }

    fn is_shared(&self, point: usize) -> bool {
        let Some(warm) = &self.plan.points[point].warm else { return false };
        // A warm-up that only one point uses need not be saved.
        self.warm.get(warm).is_some_and(|warm| warm.left > 1 || warm.is_ready)
    }

    fn state(&self, warm: &str) -> PathBuf {
        self.folder.join(format!("{warm}.{STATE}"))
    }

    /// Returns the next action.
    pub fn next_step(&mut self) -> Result<Step, SweepError> {
        while let Some(point) = self.ready.pop_front() {
            let mut state = None;
            if self.is_shared(point)
                && let Some(key) = self.plan.points[point].warm.clone()
            {
                let path = self.state(&key);
                let warm = self.warm.entry(key).or_default();
                // Another point is saving this state, so this point waits for it.
                if warm.is_led && !warm.is_ready {
                    warm.waiting.push(point);
                    continue;
                }
                warm.is_led = true;
                std::fs::create_dir_all(&self.folder)
                    .map_err(|error| SweepError::File { path: self.folder.clone(), error })?;
                state = Some(path);
            }
            self.running += 1;
            return Ok(Step::Run(self.plan.task(point, state)));
        }
        Ok(if self.running > 0 { Step::Wait } else { Step::End })
    }

    /// Stores the outcome of `point` and releases the points that wait for its state.
    pub fn done(&mut self, point: usize, outcome: &Outcome, store: &mut Store) -> Result<(), SweepError> {
        store.keep(&self.plan.points[point].key, outcome)?;
        self.running -= 1;
        if let Some(key) = self.plan.points[point].warm.clone() {
            let path = self.state(&key);
            if let Some(warm) = self.warm.get_mut(&key) {
                warm.left = warm.left.saturating_sub(1);
                warm.is_ready = true;
                let waiting = std::mem::take(&mut warm.waiting);
                if warm.left == 0 {
                    self.warm.remove(&key);
                    // The state may never have been saved.
                    let _ = std::fs::remove_file(path);
                }
                // The waiting points keep their order at the front of the queue.
                waiting.into_iter().rev().for_each(|point| self.ready.push_front(point));
            }
        }
        self.count(point, outcome, store)
    }

    /// Retries the point, or gives it up as lost.
    pub fn lost(&mut self, point: usize, reason: &str, store: &mut Store) -> Result<(), SweepError> {
        let attempts = self.attempts.entry(point).or_default();
        *attempts += 1;
        if *attempts > self.plan.file.retries {
            let text = format!("its worker died {attempts} times, at last: {reason}");
            return self.done(point, &Outcome::Lost(text), store);
        }
        self.running -= 1;
        // If this point was to save the state, the next point that starts saves it.
        if let Some(warm) = self.plan.points[point].warm.as_ref().and_then(|key| self.warm.get_mut(key))
            && !warm.is_ready
        {
            warm.is_led = false;
        }
        self.ready.push_front(point);
        Ok(())
    }

    fn count(&mut self, point: usize, outcome: &Outcome, store: &mut Store) -> Result<(), SweepError> {
        self.finished += 1;
        let seeds = self.seeds();
        // Points are grouped by configuration, one per seed.
        let (configuration, place) = (point / seeds, point % seeds);
        let progress = &mut self.configurations[configuration];
        progress.done += 1;
        match outcome {
            Outcome::Done(result) => {
                if let Some(value) = measure_of(result, &self.plan.file.measure[0]) {
                    progress.values.insert(place, value);
                }
                if self.plan.configurations[configuration].is_trace {
                    progress.digests.push(digest_without_seed(result));
                }
            }
            Outcome::Failed(_) | Outcome::Lost(_) => self.failed += 1,
        }
        if progress.done < progress.wanted || progress.wanted == seeds {
            return Ok(());
        }
        let first = self.plan.file.seeds.first;
        if progress.wanted < first {
            // Equal results of two seeds of a trace show that nothing is random, so no further seed runs.
            let is_same = progress.digests.windows(2).all(|pair| pair[0] == pair[1]);
            if is_same && progress.digests.len() == progress.wanted {
                return Ok(());
            }
            let rest = progress.wanted..first;
            progress.wanted = first;
            return self.add(configuration, rest, store);
        }
        let Some(until) = self.plan.file.seeds.until else { return Ok(()) };
        if progress.wanted > first {
            return Ok(());
        }
        // The first stage is evaluated once, when complete, so the choice of seeds does not depend on the
        // order of completion.
        let values: Vec<f64> = progress.values.values().copied().collect();
        let Some(needed) = seeds_needed(&values, until, self.plan.file.confidence, seeds) else {
            return Ok(());
        };
        progress.wanted = needed.max(first);
        self.add(configuration, first..needed, store)
    }

    /// Numbers of finished, wanted and failed points.
    pub fn progress(&self) -> (usize, usize, usize) {
        let wanted = self.configurations.iter().map(|progress| progress.wanted).sum();
        (self.finished, wanted, self.failed)
    }

    /// Points wanted so far, in plan order.
    pub fn wanted(&self) -> Vec<usize> {
        let seeds = self.seeds();
        let of = |(at, progress): (usize, &Progress)| at * seeds..at * seeds + progress.wanted;
        self.configurations.iter().enumerate().flat_map(of).collect()
    }

    /// Removes leftover state files, of this run or of a killed one.
    pub fn clear(&self) {
        for entry in self.folder.read_dir().into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|kind| kind == STATE || kind == PART) {
                // Another process may have removed it.
                let _ = std::fs::remove_file(path);
            }
        }
        // Succeeds only if the folder is empty.
        let _ = std::fs::remove_dir(&self.folder);
    }
}
