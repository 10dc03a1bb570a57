//! Why a run ends without a result.

use strobe_ssd::{BuildError, CommandError, FtlError, RecoveryError};
use strobe_workload::synthetic::WorkloadError;
use strobe_workload::trace::{Position, TraceError};

use crate::fit::FitError;

/// Why a run ended without a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The configuration describes no drive that works.
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
        /// The number of its table, from 0.
        at: usize,
        /// Its name.
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
        /// The trace.
        path: String,
        /// Its line or record.
        position: Position,
        /// Underlying error.
        error: FitError,
    },
    /// The trace held nothing to replay.
    #[error("{path}: no requests to replay{hint}")]
    EmptyTrace {
        /// The trace.
        path: String,
        /// Data left out, and the cure.
        hint: String,
    },
    /// Standard input is gone once it is read.
    #[error("workload.repeat (--repeat): standard input can be read only once; write the trace to a file")]
    StdinTwice,
    /// A trace that is read beforehand can be read only once.
    #[error(
        "drive.ftl.placement.scheme = \"fk\" reads the trace before the run, to know the future: standard input and pipes \
         can be read only once; write the trace to a file"
    )]
    FutureTwice,
    /// A power cut changes the future.
    #[error(
        "[power] or --cut with drive.ftl.placement.scheme = \"fk\": commands that a power cut loses are not in the future \
         that it knows; give another scheme, or no power cuts"
    )]
    PowerOfFuture,
    /// A write cache changes the order of writes.
    #[error(
        "drive.ftl.placement.scheme = \"fk\" knows the host's writes in their order, and a write cache changes that: set \
         drive.controller.write_buffer_bytes = 0 and drive.controller.nvram.bytes = 0, or another scheme"
    )]
    CachedFuture,
    /// Virtual time has come to its end.
    #[error(
        "virtual time has reached its end, 584 years: use shorter times in [drive], a shorter run, or \
         for a trace with a gap in its timestamps --closed-loop"
    )]
    EndOfTime,
    /// A run that time is to end, on a drive that takes none.
    #[error(
        "millions of requests have taken no virtual time at all, and none of them brings the run nearer to its end: \
         give the drive times (drive.controller.command_ns, drive.nand.read_ns, ...) or the workload a rate \
         (workload.rate_iops); if it reads what was never written, write that first (run.prefill = true)"
    )]
    NoTime,
    /// A phase that written pages are to end, when only readers are left.
    #[error(
        "every job that writes has ended (jobs.runtime, jobs.rate_points), and the run is to go on for some host pages, \
         which are pages written: give run.warmup, run.measure and run.steady_interval as times, such as \"60s\""
    )]
    NoWriterLeft,
    /// The drive refused a command.
    #[error("{0}")]
    Command(CommandError),
    /// Power cuts leave the drive in memory.
    #[error(
        "[power] or --cut with --image: power cuts are simulated on copies in memory; without --image they \
         work, and with it the real thing does: kill the process"
    )]
    PowerOnImage,
    /// Power cuts are kept in no state.
    #[error(
        "[power] or --cut with --save-state or --from-state: what a power cut needs is not kept in a state"
    )]
    PowerOfState,
    /// A state cannot be loaded.
    #[error("--from-state {0}")]
    FromState(Box<strobe_ssd::StateFileError>),
    /// A state cannot be saved.
    #[error("--save-state: {0}")]
    Save(strobe_ssd::StateError),
    /// After a power cut the drive could not find its map again.
    #[error("after a power cut: {0}")]
    Recovery(#[from] strobe_ssd::RecoveryError),
    /// After a power cut the drive read as it must not.
    #[error(
        "after the power cut at flash operation {operation}, {units} mapping units, {unit} the first, read as \
         nothing they held since the last flush; this is a bug in Strobe, please report it with the \
         experiment file and the seed"
    )]
    Lost {
        /// The operation.
        operation: u64,
        /// Wrong units.
        units: usize,
        /// The first of them.
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
    /// Attributes the error to the job with this number.
    pub(crate) fn of_job(self, at: usize, name: &str) -> Self {
        match self {
            RunError::Workload(error) => RunError::Job { at, name: name.to_owned(), error },
            other => other,
        }
    }

    /// True if whoever runs the simulation has asked the drive to end ([`Observer::stop_flag`](crate::runner::Observer::stop_flag)).
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
                | RunError::Recovery(_)
                | RunError::Save(_)
                | RunError::Lost { .. }
        )
    }
}
