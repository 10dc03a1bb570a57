use strobe_ssd::{BuildError, CommandError, FtlError, RecoveryError};
use strobe_workload::synthetic::WorkloadError;
use strobe_workload::trace::{Position, TraceError};

use crate::fit::FitError;

/// Reason why a run ended without a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The configuration describes no working drive.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The drive does not fit into memory.
    #[error(
        "the drive needs {:.2} GiB of memory, {:.2} GiB are available; use fewer blocks, a larger \
         mapping_unit_bytes, or drive.nand.data = \"none\"",
        *needed as f64 / GIB, *available as f64 / GIB
    )]
    Memory {
        /// Bytes needed.
        needed: u64,
        /// Bytes available.
        available: u64,
    },
    /// The workload cannot be generated.
    #[error("workload.{0}")]
    Workload(#[from] WorkloadError),
    /// The workload of a job cannot be generated.
    #[error("jobs[{at}].{error} (job {name})")]
    Job {
        /// Index of the job's table, from 0.
        at: usize,
        /// Name of the job.
        name: String,
        /// Underlying error.
        error: WorkloadError,
    },
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A trace request does not fit.
    #[error("{path}, {position}: {error}")]
    Fit {
        /// Path of the trace.
        path: String,
        /// Line or record.
        position: Position,
        /// Underlying error.
        error: FitError,
    },
    /// The trace contains no requests to replay.
    #[error("{path}: no requests to replay{hint}")]
    EmptyTrace {
        /// Path of the trace.
        path: String,
        /// Records left out, and the cure.
        hint: String,
    },
    /// The trace ends before anything is measured.
    #[error(
        "run.warmup = {warmup}: the trace ended before the measurement, after {covered}; use a shorter warm-up or a \
         larger workload.repeat"
    )]
    TraceInWarmUp {
        /// Length of the warm-up.
        warmup: String,
        /// Part of the trace replayed since the phase began.
        covered: String,
    },
    /// Standard input cannot be read twice.
    #[error("workload.repeat (--repeat): standard input can be read only once; write the trace to a file")]
    StdinTwice,
    /// A pipe cannot be read before the run and again in it.
    #[error(
        "drive.ftl.placement.scheme = \"fk\" reads the trace before the run: standard input and pipes can be \
         read only once; write the trace to a file"
    )]
    FutureTwice,
    /// A power cut changes the future.
    #[error(
        "[power] or --cut with drive.ftl.placement.scheme = \"fk\": a power cut changes the future that this \
         scheme has read from the trace; use another scheme, or no power cuts"
    )]
    PowerOfFuture,
    /// A write cache changes the order of writes.
    #[error(
        "drive.ftl.placement.scheme = \"fk\" needs the writes in the order of the trace, which a write cache \
         changes: set drive.controller.write_buffer_bytes = 0 and drive.controller.nvram.bytes = 0, or use \
         another scheme"
    )]
    CachedFuture,
    /// Virtual time has reached its end.
    #[error(
        "virtual time has reached its end, 584 years: use shorter times in [drive], a shorter run, or \
         for a trace with a gap in its timestamps --closed-loop"
    )]
    EndOfTime,
    /// A run limited by time, without progress in time.
    #[error(
        "millions of requests took no virtual time and made no progress towards the end of the run: set \
         times of the drive (drive.controller.command_ns, drive.nand.read_ns, ...) or a rate of the workload \
         (workload.rate_iops); if it reads unwritten data, write it first (run.prefill = true)"
    )]
    NoTime,
    /// A phase limited by host pages, whose commands all fail.
    #[error(
        "{commands} commands failed with unrecovered read errors (drive.nand.faults), and the run made no \
         progress in between: a partial write of an unreadable mapping unit fails until the whole unit is \
         written; write whole units (a block size that is a multiple of drive.ftl.mapping_unit_bytes), use \
         fewer faults, or give run.measure as a time, such as \"10s\""
    )]
    OnlyFailures {
        /// Failed commands since the last host page.
        commands: u64,
    },
    /// A phase limited by written pages, after the last writer ended.
    #[error(
        "every job that writes has ended (jobs.runtime, jobs.rate_points) before the run has written its \
         host pages: give run.warmup, run.measure and run.steady_interval as times, such as \"60s\""
    )]
    NoWriterLeft,
    /// The drive refused a command.
    #[error("{0}")]
    Command(CommandError),
    /// Power cuts need a drive in memory.
    #[error(
        "[power] or --cut with --image: power cuts are simulated on copies in memory; leave --image out, or \
         kill the process for a real power cut"
    )]
    PowerOnImage,
    /// Power cuts cannot be stored in a state.
    #[error(
        "[power] or --cut with --save-state or --from-state: a state does not contain the data that verifies \
         power cuts"
    )]
    PowerOfState,
    /// A state cannot be loaded.
    #[error("--from-state {0}")]
    FromState(Box<strobe_ssd::StateFileError>),
    /// A state cannot be saved.
    #[error("--save-state: {0}")]
    Save(strobe_ssd::StateError),
    /// Recovery of the map failed after a power cut.
    #[error("after a power cut: {0}")]
    Recovery(#[from] strobe_ssd::RecoveryError),
    /// The drive lost data in a power cut.
    #[error(
        "after the power cut at flash operation {operation}, {units} mapping units (the first is {unit}) \
         have contents that they did not hold since the last flush; this is a bug in Strobe, please report \
         it with the experiment file and the seed"
    )]
    Lost {
        /// Number of the interrupted flash operation.
        operation: u64,
        /// Number of wrong units.
        units: usize,
        /// First wrong unit.
        unit: u32,
    },
    /// The whole-state checker found a broken invariant.
    #[error("{0}; this is a bug in Strobe, please report it with the experiment file and the seed")]
    Check(#[from] strobe_ftl::CheckError),
}

impl From<strobe_ssd::StateFileError> for RunError {
    fn from(error: strobe_ssd::StateFileError) -> Self {
        RunError::FromState(Box::new(error))
    }
}

const GIB: f64 = (1u64 << 30) as f64;

impl RunError {
    pub(crate) fn of_job(self, at: usize, name: &str) -> Self {
        match self {
            RunError::Workload(error) => RunError::Job { at, name: name.to_owned(), error },
            other => other,
        }
    }

    /// True if the user asked the drive to stop
    /// ([`Observer::stop_flag`](crate::runner::Observer::stop_flag)).
    pub fn is_interruption(&self) -> bool {
        match self {
            RunError::Command(error) => error.is_interruption(),
            RunError::Recovery(error) => *error == RecoveryError::Interrupted,
            RunError::Build(BuildError::Worn(error)) => *error == FtlError::Interrupted,
            _ => false,
        }
    }

    /// True if the request was wrong, rather than its execution.
    pub fn is_bad_request(&self) -> bool {
        !matches!(
            self,
            RunError::Command(_)
                | RunError::Check(_)
                | RunError::EndOfTime
                | RunError::OnlyFailures { .. }
                | RunError::Recovery(_)
                | RunError::Save(_)
                | RunError::Lost { .. }
        )
    }
}
