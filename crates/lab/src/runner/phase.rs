//! Parts of a run, and the unit of their lengths.

use crate::experiment::{Experiment, WorkloadConfig};

/// Unit in which the lengths of phases are counted: host pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostPages {
    /// Mapping units that the host has written; a partially written one counts as one.
    Written,
    /// Mapping units that the host has read or trimmed: of a workload that writes nothing.
    Touched,
    /// Mapping units of what a file system's files were written, whatever the file system made of it.
    Updated,
}

impl HostPages {
    /// The unit for the workload of `experiment`.
    pub(super) fn of(experiment: &Experiment) -> Self {
        let generators = experiment.workload.generators();
        match experiment.workload {
            WorkloadConfig::Lfs(_) => HostPages::Updated,
            _ if !generators.is_empty()
                && !generators.iter().any(|(_, workload)| workload.generator.writes()) =>
            {
                HostPages::Touched
            }
            _ => HostPages::Written,
        }
    }
}

/// A part of a run.
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) counted: HostPages,
    /// Host pages of the run at its beginning.
    pub(super) start: u64,
    /// Host pages of it, if known.
    pub(super) total: Option<u64>,
}
