//! Runs that save the state of their drive, and runs that begin with a saved state.
//!
//! A state saved before the measurement contains everything that the measurement depends on, including
//! outstanding requests and the position of the workload. The state stores the settings it depends on; a run
//! with other settings is refused.

use std::io::Write;

use serde_json::{Value, json};
use strobe_ssd::{SchemeName, StateFile, StateFileError, StateHeader, differences, write_state};
use strobe_types::{SimTime, State, StateReader, Stored, load_part, named, save_part};

use super::host::{Host, Stop};
use crate::RunError;
use crate::experiment::{Experiment, WorkloadConfig};
use crate::result::FromState;
use crate::steady::SteadyRounds;

named! {
    /// Point of a run at which the state of its drive is saved.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum SaveAt {
        /// Before the measurement: after prefill, preconditioning, warm-up and the rounds of
        /// run.until_steady; for traces before the warm-up. Runs from such a state must have the same settings for these phases; without a
        /// warm-up their workload may differ.
        #[default]
        WarmUp => "warm-up",
        /// At the end of the run: for runs of any workload and seed that start with a used drive.
        End => "end",
    }
}

/// A state to be saved.
pub struct SaveState {
    /// Point at which the state is saved.
    pub at: SaveAt,
    /// Destination.
    pub out: Box<dyn Write>,
    /// True once the state is saved. A run that ends early may not reach that point.
    pub is_saved: bool,
}

/// States to load and save in a run.
#[derive(Default)]
pub struct States<'a> {
    /// State that the run begins with, instead of a new drive.
    pub from: Option<StateFile>,
    /// State that the run saves.
    pub save: Option<&'a mut SaveState>,
}

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Point {
        Precondition => "precondition",
        WarmUp => "warm-up",
        End => "end",
    }
}

impl Point {
    pub(super) fn before_measuring(experiment: &Experiment) -> Self {
        let run = &experiment.run;
        let is_trace = matches!(experiment.workload, WorkloadConfig::Trace(_));
        let is_cold = run.warmup.is_zero() && run.until_steady.is_none();
        // A state has no position in a trace: it is saved before the trace begins.
        if is_trace || is_cold { Point::Precondition } else { Point::WarmUp }
    }
}

/// Settings, apart from the drive's, that a state saved at `point` depends on.
fn made_by(experiment: &Experiment, point: Point) -> Value {
    let all = serde_json::to_value(experiment).expect("an experiment is plain data");
    let prefill = experiment.run.prefill.unwrap_or(experiment.workload.wants_prefill());
    let mut run = json!({ "prefill": prefill, "precondition": all["run"]["precondition"] });
    if point == Point::WarmUp {
        run["warmup"] = all["run"]["warmup"].clone();
    }
    match point {
        Point::Precondition => json!({ "seed": experiment.seed, "run": run }),
        Point::WarmUp => {
            for key in ["until_steady", "steady_interval", "steady_rounds"] {
                run[key] = all["run"][key].clone();
            }
            json!({ "seed": experiment.seed, "run": run, "workload": all["workload"], "jobs": all["jobs"] })
        }
        Point::End => json!({}),
    }
}

/// Key of the drive's state before the measurement of `experiment`. Experiments with equal keys may share a
/// state saved at that point ([`SaveAt::WarmUp`]). `None` without earlier phases, and with power cuts, a
/// placement that knows the future, or intervals during the warm-up.
pub fn warm_key(experiment: &Experiment) -> Option<String> {
    let run = &experiment.run;
    let point = Point::before_measuring(experiment);
    let is_cold = run.precondition.is_zero() && point == Point::Precondition;
    let knows_future = experiment.drive.ftl.placement.scheme == SchemeName::Fk;
    if is_cold && !run.prefill.unwrap_or(experiment.workload.wants_prefill())
        || !experiment.power.is_steady()
        || knows_future
    {
        return None;
    }
    // A run that starts from the state would lack the intervals of the warm-up.
    if point == Point::WarmUp && run.interval.is_some() {
        return None;
    }
    let depends_on = json!({
        "drive": experiment.drive,
        "timing": run.timing,
        "seed": experiment.seed,
        "point": point.name(),
        "made_by": made_by(experiment, point),
    });
    Some(depends_on.to_string())
}

pub(super) fn check_states(experiment: &Experiment, states: &States<'_>) -> Result<(), RunError> {
    if states.from.is_none() && states.save.is_none() {
        return Ok(());
    }
    if !experiment.power.is_steady() {
        return Err(RunError::PowerOfState);
    }
    Ok(())
}

fn point_of(file: &StateFile) -> Option<Point> {
    let name = file.header().more["point"].as_str()?;
    Point::ALL.into_iter().find(|point| point.name() == name)
}

pub(super) fn point_for(file: &StateFile, experiment: &Experiment) -> Result<Point, StateFileError> {
    let Some(point) = point_of(file) else {
        let what = "it was not saved by an experiment (strobe run --save-state)";
        return file.expect_alike(vec![what.to_owned()]).map(|()| Point::End);
    };
    let mut found = file.header().differences(&experiment.drive, experiment.run.timing);
    found.extend(differences(&file.header().more["made_by"], &made_by(experiment, point)));
    file.expect_alike(found).map(|()| point)
}

pub(super) fn origin(header: &StateHeader) -> FromState {
    let config_hash = header.more["config_hash"].as_str().unwrap_or_default().to_owned();
    FromState { config_hash, seed: header.seed }
}

pub(super) fn save(
    states: &mut States<'_>,
    point: Point,
    host: &Host<'_>,
    (experiment, seed): (&Experiment, u64),
    steady: Option<&SteadyRounds>,
    requests: Option<&dyn State>,
) -> Result<(), Stop> {
    let at = if point == Point::End { SaveAt::End } else { SaveAt::WarmUp };
    let Some(save) = states.save.as_deref_mut().filter(|save| save.at == at) else { return Ok(()) };
    // The stop flag may have cut the last command short, so this state must not be saved.
    if host.drive.is_stopped() {
        return Err(Stop::Observer);
    }
    let more = json!({
        "point": point.name(),
        "made_by": made_by(experiment, point),
        "config_hash": experiment.config_hash(),
    });
    let header = StateHeader::new(&experiment.drive, experiment.run.timing, seed, more);
    let written = write_state(&mut *save.out, &header, &*host.drive, &|out| {
        host.now().store(out);
        // At the end of a run no request is outstanding: of the host's state only the time is needed.
        if point != Point::End {
            host.queue.store(out);
            host.series.store(out);
            host.completed.store(out);
            save_part(steady, out);
        }
        if let Some(requests) = requests {
            requests.save_state(out);
        }
    });
    written.map_err(RunError::Save)?;
    save.is_saved = true;
    Ok(())
}

pub(super) fn load(
    file: StateFile,
    point: Point,
    host: &mut Host<'_>,
    steady: Option<&mut SteadyRounds>,
    mut requests: Option<&mut dyn State>,
) -> Result<(), StateFileError> {
    let mut steady = steady;
    let Host { drive, queue, series, completed, .. } = host;
    file.load_into(&mut **drive, &mut |from: &mut StateReader<'_>| {
        let finished = SimTime::restored(from)?;
        if point == Point::End {
            // The new run has its own requests; only virtual time continues.
            *queue = queue.restarted(finished);
            return Ok(());
        }
        *queue = Stored::restored(from)?;
        *series = Stored::restored(from)?;
        *completed = Stored::restored(from)?;
        load_part(steady.as_deref_mut(), from)?;
        match &mut requests {
            None => Ok(()),
            Some(requests) => requests.load_state(from),
        }
    })?;
    if point == Point::End {
        // The series of the earlier run is not continued.
        host.begin_series();
    }
    Ok(())
}
