//! Sweeps: planned points and their results. Python decides which process runs each point.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray};
use pyo3::prelude::*;
use strobe_sweep::{Naming, Outcome, Plan, Rows, Schedule, Step, Sweep, SweepFile, Values};

use crate::errors;
use crate::experiment::{OwnPolicies, PLACEMENT, VICTIM, name_of, table_of};
use crate::score::Trouble;
use crate::table::Table;
use crate::watch::Watcher;

/// Runs a task given as a line of text, and returns its result as one. `own` has the policies that the task
/// names.
#[pyfunction(name = "_carry_out")]
#[pyo3(signature = (line, own = None))]
pub(crate) fn carry_out(
    py: Python<'_>,
    line: &str,
    own: Option<BTreeMap<String, Py<PyAny>>>,
) -> PyResult<String> {
    let Some(own) = own.filter(|own| !own.is_empty()) else {
        return Ok(py.detach(|| strobe_sweep::carry_out(line)));
    };
    let trouble = Trouble::default();
    let answer = py.detach(|| {
        strobe_sweep::carry_out_by(line, |task, experiment| {
            let own = Python::attach(|py| {
                let of = |key: &str| task.own.get(key).and_then(|name| own.get(name)).map(|own| own.bind(py));
                OwnPolicies::of(of(VICTIM), of(PLACEMENT), &experiment.drive)
            });
            let mut watcher = Watcher::new(None, trouble.clone());
            let result = own.map_err(|error| error.to_string())?.run(experiment, &mut watcher, &trouble);
            // A Python exception is the cause of any other error: report it instead.
            trouble.raised().map_err(|error| error.to_string())?;
            result.map_err(|error| error.to_string())
        })
    });
    Ok(answer)
}

#[pyfunction(name = "_name_of")]
pub(crate) fn name_of_policy(policy: &Bound<'_, PyAny>) -> PyResult<String> {
    name_of(policy)
}

struct Running {
    sweep: Sweep,
    schedule: Schedule,
}

/// A sweep in its folder.
#[pyclass(frozen, module = "strobe", name = "_Sweep")]
pub(crate) struct PySweep {
    running: Mutex<Running>,
}

impl PySweep {
    fn running(&self) -> PyResult<MutexGuard<'_, Running>> {
        let poisoned = |_| errors::raised::SweepError::new_err("this sweep has already failed");
        self.running.lock().map_err(poisoned)
    }
}

#[pymethods]
impl PySweep {
    /// Opens a sweep of `table`, with paths relative to `folder` and results in `out`. `shared`: other sweeps
    /// also use `out`. `own`: names of Python policies in the grid, with an identity for each.
    #[new]
    fn new(
        table: &Bound<'_, PyAny>,
        folder: PathBuf,
        out: PathBuf,
        shared: bool,
        own: BTreeMap<String, String>,
    ) -> PyResult<Self> {
        let table = table_of(table)?;
        let running = started(&table, &folder, &out, shared, own)?;
        Ok(Self { running: Mutex::new(running) })
    }

    /// Returns a task and its point; None if no task can start now.
    fn next_task(&self) -> PyResult<Option<(usize, String)>> {
        let mut running = self.running()?;
        match running.schedule.next_step().map_err(errors::sweep)? {
            Step::Run(task) => Ok(Some((task.point, task.to_line()))),
            Step::Wait | Step::End => Ok(None),
        }
    }

    fn done(&self, point: usize, answer: &str) -> PyResult<()> {
        let outcome = Outcome::of_answer(answer).map_err(errors::sweep)?;
        let Running { sweep, schedule } = &mut *self.running()?;
        schedule.done(point, &outcome, &mut sweep.store).map_err(errors::sweep)
    }

    fn lost(&self, point: usize, reason: &str) -> PyResult<()> {
        let Running { sweep, schedule } = &mut *self.running()?;
        schedule.lost(point, reason, &mut sweep.store).map_err(errors::sweep)
    }

    /// Number of points: done, wanted, failed.
    fn progress(&self) -> PyResult<(usize, usize, usize)> {
        Ok(self.running()?.schedule.progress())
    }

    /// Removes leftover states.
    fn clear(&self) -> PyResult<()> {
        self.running()?.schedule.clear();
        Ok(())
    }

    /// Writes all files; returns their paths and the findings as JSON.
    fn write(&self, py: Python<'_>) -> PyResult<String> {
        let running = self.running()?;
        let Running { sweep, schedule } = &*running;
        // Other Python threads run while files are written and figures drawn.
        py.detach(|| {
            let outputs = sweep.write(schedule.wanted()).map_err(errors::sweep)?;
            let estimate = |found: &strobe_sweep::Estimate| {
                serde_json::json!({ "n": found.n, "mean": found.mean, "half_width": found.half_width,
                                    "deviation": found.deviation })
            };
            let summary = &outputs.summary;
            let configurations = summary.configurations.iter().map(|found| {
                let values =
                    sweep.plan.keys.iter().zip(&sweep.plan.configurations[found.configuration].values);
                let values: serde_json::Map<_, _> = values
                    .map(|(key, value)| (key.clone(), serde_json::to_value(value).unwrap_or_default()))
                    .collect();
                let measures = summary.measures.iter().zip(&found.measures);
                let measures: serde_json::Map<_, _> = measures
                    .map(|(name, found)| (name.clone(), found.as_ref().map(estimate).unwrap_or_default()))
                    .collect();
                serde_json::json!({ "values": values, "measures": measures, "done": found.runs.0,
                                    "failed": found.runs.1, "error": found.error,
                                    "not_steady": found.not_steady, "same_for_every_seed": found.is_same })
            });
            let differences = summary.differences.iter().map(|found| {
                serde_json::json!({ "configuration": found.configuration, "baseline": found.baseline,
                    "measure": summary.measures[found.measure], "relative": estimate(&found.relative),
                    "p": found.p, "shown": found.is_shown(summary.confidence) })
            });
            let tables = strobe_sweep::tables(&sweep.plan, summary, Naming::Words);
            let written =
                |form: fn(&strobe_report::Table) -> String| tables.iter().map(form).collect::<Vec<String>>().join("\n");
            let all = serde_json::json!({
                "parquet": outputs.parquet, "csv": outputs.csv, "page": outputs.page, "pictures": outputs.pictures,
                "compare": summary.compare, "confidence": summary.confidence,
                "configurations": configurations.collect::<Vec<_>>(),
                "differences": differences.collect::<Vec<_>>(),
                "tables": { "latex": written(|table| table.latex()), "markdown": written(|table| table.markdown()) },
            });
            Ok(all.to_string())
        })
    }

    /// All rows.
    fn rows(&self) -> PyResult<Table> {
        let running = self.running()?;
        let Running { sweep, schedule } = &*running;
        let rows = Rows::new(&sweep.plan, &sweep.store, schedule.wanted()).map_err(errors::sweep)?;
        let columns = rows.columns(0..rows.len(), &sweep.store).map_err(errors::sweep)?;
        let arrays = columns.into_iter().map(|column| {
            let array: ArrayRef = match column.values {
                Values::Whole(values) => Arc::new(Int64Array::from(values)),
                Values::Number(values) => Arc::new(Float64Array::from(values)),
                Values::Truth(values) => Arc::new(BooleanArray::from(values)),
                Values::Text(values) => Arc::new(StringArray::from(values)),
            };
            (column.name, array)
        });
        Table::new(arrays.collect())
    }
}

fn started(
    table: &toml::Table,
    folder: &Path,
    out: &Path,
    shared: bool,
    own: BTreeMap<String, String>,
) -> PyResult<Running> {
    let file = SweepFile { own, ..SweepFile::of(table.clone(), folder).map_err(errors::sweep)? };
    let plan = Plan::new(file).map_err(errors::sweep)?;
    let sweep = if shared { Sweep::shared(plan, out) } else { Sweep::new(plan, out) };
    let mut sweep = sweep.map_err(errors::sweep)?;
    let schedule = Schedule::new(&sweep.plan, &mut sweep.store, out).map_err(errors::sweep)?;
    Ok(Running { sweep, schedule })
}
