//! Phases of a run, and the unit of their lengths.

use crate::experiment::{Experiment, WorkloadConfig};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostPages {
    /// Units written by the host; a partially written unit counts as one.
    Written,
    /// Units covered by host commands of any kind, for a workload without writes.
    Touched,
    /// Units written to files by the application, without the writes that the file system adds.
    Updated,
}

impl HostPages {
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

pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) counted: HostPages,
    pub(super) start: u64,
    pub(super) total: Option<u64>,
    pub(super) span_ns: Option<(u64, u64)>,
}
