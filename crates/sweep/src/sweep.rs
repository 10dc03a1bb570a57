use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use strobe_lab::points::{Pool, Watch};

use crate::local::{Report, on_processes};
use crate::store::{Store, open_store};
use crate::{Outcome, Plan, Rows, Schedule, Step, Summary, SweepError, Task, charts, page, write_parquet};

/// A sweep and its folder.
#[derive(Debug)]
pub struct Sweep {
    /// All points.
    pub plan: Arc<Plan>,
    /// Outcomes of finished points.
    pub store: Store,
    folder: PathBuf,
}

/// Files written by a sweep.
#[derive(Debug)]
pub struct Outputs {
    /// Parquet file with a row per run.
    pub parquet: PathBuf,
    /// CSV file with means and intervals.
    pub csv: PathBuf,
    /// Charts and tables in one HTML file.
    pub page: PathBuf,
    /// SVG files, one per chart.
    pub pictures: Vec<PathBuf>,
    /// Means, intervals and differences.
    pub summary: Summary,
}

impl Sweep {
    /// Opens the sweep `plan` in `folder`, resuming earlier runs.
    ///
    /// # Errors
    /// If the folder has runs that are not in the plan. A plan with more values or seeds than before is fine.
    pub fn new(plan: Plan, folder: &Path) -> Result<Self, SweepError> {
        let store = open_store(folder)?;
        let ours: BTreeSet<&str> = plan.points.iter().map(|point| point.key.as_str()).collect();
        match store.keys().filter(|key| !ours.contains(key)).count() {
            0 => Self::described(plan, store, folder),
            others => Err(SweepError::OtherSweep { path: folder.to_owned(), others }),
        }
    }

    /// [`Sweep::new`] in a folder that other sweeps use too, one after the other.
    pub fn shared(plan: Plan, folder: &Path) -> Result<Self, SweepError> {
        Self::described(plan, open_store(folder)?, folder)
    }

    fn described(plan: Plan, store: Store, folder: &Path) -> Result<Self, SweepError> {
        plan.file.keep(folder)?;
        Ok(Self { plan: Arc::new(plan), store, folder: folder.to_owned() })
    }

    /// Runs all unfinished points and returns the points of the result. Each of `workers` processes is
    /// started by `command` and must call [`serve`](crate::serve).
    pub fn run(
        &mut self,
        workers: usize,
        command: impl Fn() -> Command + Sync,
        watch: &dyn Watch,
    ) -> Result<Vec<usize>, SweepError> {
        let Self { plan, store, folder } = self;
        let mut schedule = Schedule::new(plan, store, folder)?;
        let ended = on_processes(workers, command, |pool| drive(&mut schedule, store, pool, watch));
        schedule.clear();
        ended.map(|()| schedule.wanted())
    }

    /// Writes the results of `points`: `rows.parquet`, `summary.csv`, `report.html` and an SVG per chart.
    pub fn write(&self, points: Vec<usize>) -> Result<Outputs, SweepError> {
        let rows = Rows::new(&self.plan, &self.store, points.clone())?;
        let parquet = self.placed("rows.parquet", |file| write_parquet(&rows, &self.store, file))?;
        // Errors of the summary refer to the rows, which are therefore written first.
        let summary = Summary::of(&self.plan, &self.store, &points)?;
        let text = |name: &str, text: String| {
            self.placed(name, |mut file| {
                let error = |error| SweepError::File { path: self.folder.join(name), error };
                std::io::Write::write_all(&mut file, text.as_bytes()).map_err(error)
            })
        };
        let csv = text("summary.csv", summary.csv(&self.plan))?;
        let html = text("report.html", page(&self.name(), &self.plan, &summary))?;
        let mut pictures = Vec::new();
        for chart in charts(&self.plan, &summary) {
            if let Some(picture) = chart.svg() {
                pictures.push(text(&format!("{}.svg", chart.name), picture)?);
            }
        }
        Ok(Outputs { parquet, csv, page: html, pictures, summary })
    }

    fn name(&self) -> String {
        self.folder.file_name().map_or_else(|| "sweep".to_owned(), |name| name.to_string_lossy().into_owned())
    }

    /// Writes the file `name` atomically: it appears under its name when complete.
    fn placed(
        &self,
        name: &str,
        write: impl FnOnce(std::fs::File) -> Result<(), SweepError>,
    ) -> Result<PathBuf, SweepError> {
        let path = self.folder.join(name);
        let wrong = |error| SweepError::File { path: path.clone(), error };
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let part = builder.tempfile_in(&self.folder).map_err(wrong)?;
        write(part.reopen().map_err(wrong)?)?;
        part.as_file().sync_all().map_err(wrong)?;
        part.persist(&path).map_err(|error| wrong(error.error))?;
        Ok(path)
    }
}

fn drive(
    schedule: &mut Schedule,
    store: &mut Store,
    workers: &mut Pool<Task, Report>,
    watch: &dyn Watch,
) -> Result<(), SweepError> {
    loop {
        let (done, wanted, failed) = schedule.progress();
        watch.progress(done, wanted, failed);
        if watch.stopped() {
            return Err(SweepError::Interrupted);
        }
        // All idle workers get a task before the loop waits for a report.
        if workers.has_idle() {
            match schedule.next_step()? {
                Step::Run(task) => {
                    workers.give(task);
                    continue;
                }
                Step::Wait => {}
                Step::End => return Ok(()),
            }
        }
        match workers.report() {
            None => {}
            Some(Report::Answer { point, text }) => {
                schedule.done(point, &Outcome::of_answer(&text)?, store)?
            }
            // After a stop, the death of a worker is not counted as an attempt of its point.
            Some(Report::Died { point, reason }) if !watch.stopped() => {
                schedule.lost(point, &reason, store)?
            }
            Some(Report::Died { .. }) => return Err(SweepError::Interrupted),
            Some(Report::Failed(error)) => return Err(SweepError::Worker(error)),
        }
    }
}
