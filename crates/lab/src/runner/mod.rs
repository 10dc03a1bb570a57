//! Runs an experiment.
//!
//! 1. Prefill: write the drive once, then precondition it with random overwrites.
//! 2. Warm-up: run the workload unmeasured, then in rounds until a metric is steady, if requested.
//! 3. Measurement: the workload continues without a pause.

mod assemble;
mod file_system;
mod future;
mod generate;
mod host;
mod issuer;
mod jobs;
mod outcome;
mod phase;
mod phases;
mod replay;
mod send;
mod state;
mod trace_notes;
mod trace_window;

use std::ops::ControlFlow;
use std::path::Path;

use strobe_nand::EventLog;
use strobe_ssd::{Simulated, build_on_image, empty_memory_bytes, image_memory_bytes, memory_bytes};
use strobe_types::StopFlag;

use strobe_types::SimTime;

use crate::RunError;
use crate::experiment::{Experiment, SyntheticWorkload, WorkloadConfig};
use crate::machine::available_bytes;
use crate::result::{ImageResult, RunResult};
use phases::{Runner, Source};

pub use file_system::drive_command;
pub use future::with_future;
pub use state::{SaveAt, SaveState, States, warm_key};

const NEVER: SimTime = SimTime::from_ns(u64::MAX);

/// Progress of the run, for observers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Name of the phase: "prefill", "precondition", "warm-up", "settling" or "measure".
    pub phase: &'static str,
    /// Host pages done in this phase.
    pub done: u64,
    /// Host pages of this phase, if known.
    pub total: Option<u64>,
    /// Virtual time.
    pub virtual_ns: u64,
    /// Virtual times of the begin and the end of this phase, if its length is a time.
    pub span_ns: Option<(u64, u64)>,
}

impl Progress {
    /// Part of this phase that is done, and its total, in host pages or in ns of virtual time; `None` if
    /// unknown.
    pub fn extent(&self) -> Option<(u64, u64)> {
        let in_pages = self.total.map(|total| (self.done.min(total), total));
        let in_time = |(start, end): (u64, u64)| (self.virtual_ns.clamp(start, end) - start, end - start);
        in_pages.or_else(|| self.span_ns.map(in_time))
    }
}

/// Receives the progress of a run, and may stop it with a partial result.
pub trait Observer {
    /// Called after 16 batches of at most 1024 requests, or after 2^18 mapping units.
    fn progress(&mut self, progress: Progress) -> ControlFlow<()>;

    /// Flag that stops the run even within a command, requested once before the first phase. Default: none;
    /// only [`Observer::progress`] then stops the run.
    fn stop_flag(&mut self) -> StopFlag {
        StopFlag::default()
    }

    /// Log of the drive's events in the measured window. It is requested once, when the window begins.
    /// Default: off.
    fn event_log(&mut self) -> EventLog {
        EventLog::OFF
    }
}

impl Observer for () {
    fn progress(&mut self, _: Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Runs `experiment` from a fresh drive. The result is marked `partial` if the observer stopped the run, the
/// drive refused writes unexpectedly, or a planned power cut did not happen.
pub fn run(experiment: &Experiment, observer: &mut dyn Observer) -> Result<RunResult, RunError> {
    run_with(experiment, States::default(), observer)
}

/// [`run`] that loads and saves the given `states`. A run from a state saved before the measurement has the
/// same result, byte for byte, as the run that saved it.
pub fn run_with<'a>(
    experiment: &'a Experiment,
    mut states: States<'a>,
    observer: &'a mut dyn Observer,
) -> Result<RunResult, RunError> {
    state::check_states(experiment, &states)?;
    check_memory(experiment)?;
    let mut source = Source::open(experiment)?;
    let from = states.from.take();
    // A drive loaded from a state keeps the seed that it was built with.
    let seed = from.as_ref().map_or(experiment.seed, |file| file.header().seed);
    if let Some(file) = &from {
        state::point_for(file, experiment)?;
    }
    let drive = future::new_drive(experiment, experiment.run.timing, seed)?;
    let mut runner = Runner::new(experiment, drive, observer);
    runner.states = states;
    if let Some(file) = from {
        runner.load(file, &mut source)?;
    }
    runner.run(source)
}

/// Runs `experiment` on a fresh drive that the caller has built, for example with another victim policy by
/// [`strobe_ssd::DriveBuilder`]. [`with_future`] gives the drive the future of its trace.
pub fn run_on(
    experiment: &Experiment,
    drive: Box<dyn Simulated>,
    observer: &mut dyn Observer,
) -> Result<RunResult, RunError> {
    let source = Source::open(experiment)?;
    Runner::new(experiment, drive, observer).run(source)
}

/// Runs `experiment` on the drive in the image at `path`, and creates the image if it does not exist. An
/// existing drive is not prefilled unless `run.prefill` is true.
pub fn run_on_image(
    experiment: &Experiment,
    path: &Path,
    observer: &mut dyn Observer,
) -> Result<RunResult, RunError> {
    if !experiment.power.is_steady() {
        return Err(RunError::PowerOnImage);
    }
    fit_memory(experiment, image_memory_bytes(&experiment.drive)?)?;
    let source = Source::open(experiment)?;
    let (drive, recovery) = build_on_image(&experiment.drive, experiment.run.timing, experiment.seed, path)?;
    let mut runner = Runner::new(experiment, drive, observer);
    if let Some(recovery) = &recovery {
        // Virtual time continues from the end of the recovery.
        runner.host.queue = runner.host.queue.restarted(recovery.finished);
    }
    runner.image = Some(ImageResult::of(recovery.as_ref()));
    runner.run(source)
}

/// Refuses an experiment that [`run`] would refuse, without running it.
pub fn check(experiment: &Experiment) -> Result<(), RunError> {
    check_memory(experiment)?;
    future::new_drive(experiment, false, experiment.seed)?;
    Source::open(experiment).map(drop)
}

pub(crate) fn check_memory(experiment: &Experiment) -> Result<(), RunError> {
    fit_memory(experiment, memory_bytes(&experiment.drive)?)
}

/// Refuses an empty drive that needs more memory than is available. `guest_bytes` is the memory of the guest, in
/// bytes.
pub fn check_empty_memory(experiment: &Experiment, on_image: bool, guest_bytes: u64) -> Result<(), RunError> {
    let drive = &experiment.drive;
    let needed = if on_image { image_memory_bytes(drive)? } else { empty_memory_bytes(drive)? };
    fit_memory(experiment, needed.saturating_add(guest_bytes))
}

fn fit_memory(experiment: &Experiment, mut needed: u64) -> Result<(), RunError> {
    for (_, SyntheticWorkload { generator, .. }) in experiment.workload.generators() {
        if generator.trim_fraction > 0.0 {
            // A generator with trims keeps 8 bytes for each slot of a request, to know which slots hold data.
            needed += 8 * experiment.drive.logical_bytes() / u64::from(generator.block_bytes.max(512));
        }
    }
    if let WorkloadConfig::Lfs(config) = &experiment.workload {
        needed += config.memory_bytes(experiment.drive.logical_bytes());
    }
    match available_bytes().filter(|&available| needed > available) {
        Some(available) => Err(RunError::Memory { needed, available }),
        None => Ok(()),
    }
}
