use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strobe_lab::runner::{self, SaveAt, SaveState, States};
use strobe_lab::{Experiment, MODEL, RunResult};
use strobe_ssd::StateFile;

use crate::SweepError;

pub(crate) const PART: &str = "part";

/// One run, self-contained: a worker needs only this and the files it names.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Model required to run the task.
    pub model: String,
    /// Index of the point in the plan.
    pub point: usize,
    /// Experiment as TOML.
    pub experiment: String,
    /// Keys to set, as on a command line.
    pub sets: Vec<String>,
    /// Keys whose values are policies of the caller, with the policy names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own: BTreeMap<String, String>,
    /// Base folder of paths in the experiment.
    pub folder: PathBuf,
    /// State file of the prepared drive. If the file exists, the run starts from it, else the run saves it.
    pub state: Option<PathBuf>,
}

/// Outcome of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The JSON of `strobe run --json --reproducible`.
    Done(Value),
    /// The point cannot run, or its run failed and would fail again.
    Failed(String),
    /// The point's worker died repeatedly; the worker may be at fault.
    Lost(String),
}

#[derive(Serialize, Deserialize)]
struct Answer {
    model: String,
    outcome: Outcome,
}

impl Task {
    /// The task as one line of text.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("tasks are plain data")
    }
}

impl Outcome {
    /// Parses the answer of a worker.
    pub fn of_answer(text: &str) -> Result<Self, SweepError> {
        let answer: Answer =
            serde_json::from_str(text).map_err(|error| SweepError::Outcome(error.to_string()))?;
        if answer.model != MODEL {
            return Err(SweepError::OtherWorker { theirs: answer.model, ours: MODEL.to_owned() });
        }
        Ok(answer.outcome)
    }
}

/// Runs the task in `line` and returns its outcome as a line. Never fails: errors are outcomes.
pub fn carry_out(line: &str) -> String {
    carry_out_by(line, |task, experiment| match (task.own.values().next(), &task.state) {
        (Some(own), _) => Err(format!("{own}: this worker has no such policy")),
        (None, Some(path)) => with_state(experiment, path),
        (None, None) => runner::run(experiment, &mut ()).map_err(|error| error.to_string()),
    })
}

/// [`carry_out`] with a `run` that knows the caller's policies.
pub fn carry_out_by(line: &str, run: impl FnOnce(&Task, &Experiment) -> Result<RunResult, String>) -> String {
    let outcome = match serde_json::from_str::<Task>(line) {
        // The answer carries this worker's model. The sweep then ends, so no row comes from another model.
        Ok(task) if task.model != MODEL => Outcome::Failed("another model".to_owned()),
        Ok(task) => outcome(&task, run),
        Err(error) => Outcome::Failed(format!("not a task: {error}")),
    };
    serde_json::to_string(&Answer { model: MODEL.to_owned(), outcome }).expect("answers are plain data")
}

fn outcome(task: &Task, run: impl FnOnce(&Task, &Experiment) -> Result<RunResult, String>) -> Outcome {
    let run = || -> Result<Value, String> {
        let table = task.experiment.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let experiment =
            Experiment::from_table(table, &task.sets, &task.folder).map_err(|error| error.to_string())?;
        let result = run(task, &experiment)?.reproducible();
        serde_json::to_value(&result).map_err(|error| error.to_string())
    };
    // A violated flash rule panics; it ends the run, not the sweep.
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(result)) => Outcome::Done(result),
        Ok(Err(error)) => Outcome::Failed(error),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
            Outcome::Failed(format!("the simulation violated an internal rule: {text}"))
        }
    }
}

/// Runs from the state at `path`. If it is missing or unusable, runs from the start and saves it.
fn with_state(experiment: &Experiment, path: &Path) -> Result<RunResult, String> {
    // An unusable state is no error: the run starts over and replaces it.
    if let Ok(file) = StateFile::open(path) {
        let states = States { from: Some(file), save: None };
        if let Ok(result) = runner::run_with(experiment, states, &mut ()) {
            return Ok(result);
        }
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    let said = |error: std::io::Error| format!("{}: {error}", path.display());
    // The state gets its name only when complete. A killed worker leaves a file with another suffix.
    let part = tempfile::Builder::new().suffix(&format!(".{PART}")).tempfile_in(folder).map_err(said)?;
    let mut save =
        SaveState { at: SaveAt::WarmUp, out: Box::new(part.reopen().map_err(said)?), is_saved: false };
    let states = States { from: None, save: Some(&mut save) };
    let result = runner::run_with(experiment, states, &mut ()).map_err(|error| error.to_string())?;
    if save.is_saved {
        part.persist(path).map_err(|error| said(error.error))?;
    }
    Ok(result)
}
