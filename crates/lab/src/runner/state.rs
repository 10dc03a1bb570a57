//! Runs that save the state of their drive, and runs that begin with one.
//!
//! Warm once, fork many: a state that is saved before the measurement begins holds all that the measurement goes on from,
//! the requests on their way and what the workload has come to included. A run from it gives the bytes that the run gave
//! which has saved it. What the state depends on is written down in it; a run in which that is otherwise is refused.

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
    /// When a run saves the state of its drive.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum SaveAt {
        /// Before the measurement begins: after prefill, preconditioning, warm-up and the rounds of run.until_steady.
        /// Runs from such a state have the same of those; without a warm-up their workload may be another one.
        #[default]
        WarmUp => "warm-up",
        /// When all is done: for runs of any workload and seed, which find a drive that has been used.
        End => "end",
    }
}

/// A state to be saved.
pub struct SaveState {
    /// When.
    pub at: SaveAt,
    /// Destination.
    pub out: Box<dyn Write>,
    /// True once the state is saved. A run that ends early may not reach that point.
    pub is_saved: bool,
}

/// States to load and save in a run.
#[derive(Default)]
pub struct States<'a> {
    /// The state that it begins with, instead of a new drive.
    pub from: Option<StateFile>,
    /// The state that it saves.
    pub save: Option<&'a mut SaveState>,
}

named! {
    /// Progress of a run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Point {
        /// Nothing of the workload has been run.
        Precondition => "precondition",
        /// The workload has warmed the drive up.
        WarmUp => "warm-up",
        /// All.
        End => "end",
    }
}

impl Point {
    /// Point before the measurement of `experiment`.
    pub(super) fn before_measuring(experiment: &Experiment) -> Self {
        let run = &experiment.run;
        let is_trace = matches!(experiment.workload, WorkloadConfig::Trace(_));
        // Before a trace the drive is warmed up at random.
        let is_cold = run.warmup.is_zero() && run.until_steady.is_none();
        if is_trace || is_cold { Point::Precondition } else { Point::WarmUp }
    }
}

/// Everything, apart from the drive, that a state of `experiment` at `point` depends on.
fn made_by(experiment: &Experiment, point: Point) -> Value {
    let all = serde_json::to_value(experiment).expect("an experiment is plain data");
    let is_trace = matches!(experiment.workload, WorkloadConfig::Trace(_));
    let prefill = experiment.run.prefill.unwrap_or(experiment.workload.wants_prefill());
    let mut run = json!({ "prefill": prefill, "precondition": all["run"]["precondition"] });
    if point == Point::WarmUp || !experiment.run.warmup.is_zero() && is_trace {
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
/// state saved at that point ([`SaveAt::WarmUp`]). `None` if nothing is prepared, or if a state cannot hold it.
pub fn warm_key(experiment: &Experiment) -> Option<String> {
    let run = &experiment.run;
    let is_trace = matches!(experiment.workload, WorkloadConfig::Trace(_));
    let is_cold = run.warmup.is_zero() && run.precondition.is_zero() && run.until_steady.is_none();
    let knows_future = experiment.drive.ftl.placement.scheme == SchemeName::Fk;
    if is_cold && !run.prefill.unwrap_or(!is_trace) || !experiment.power.is_steady() || knows_future {
        return None;
    }
    let point = Point::before_measuring(experiment);
    // A run from there has no series of the warm-up.
    let warms_up = point == Point::WarmUp || !run.warmup.is_zero();
    if warms_up && run.interval.is_some() {
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

/// Refuses what a state cannot hold.
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

/// The point of the state in `file`, if it is one for `experiment`.
pub(super) fn point_for(file: &StateFile, experiment: &Experiment) -> Result<Point, StateFileError> {
    let Some(point) = point_of(file) else {
        let what = "it is not one of an experiment, as strobe run --save-state makes them";
        return file.expect_alike(vec![what.to_owned()]).map(|()| Point::End);
    };
    let mut found = file.header().differences(&experiment.drive, experiment.run.timing);
    found.extend(differences(&file.header().more["made_by"], &made_by(experiment, point)));
    file.expect_alike(found).map(|()| point)
}

/// The run that made a state, for those that go on from its end.
pub(super) fn origin(header: &StateHeader) -> FromState {
    let config_hash = header.more["config_hash"].as_str().unwrap_or_default().to_owned();
    FromState { config_hash, seed: header.seed }
}

/// Saves the state at `point`, if that is to be done then, with that of what makes the `requests`.
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

/// Takes the drive of `host`, and what makes the `requests`, to where `file` has them.
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
        host.begin_series();
    }
    Ok(())
}
