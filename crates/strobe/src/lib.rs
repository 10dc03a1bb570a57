//! Experiments: a drive, a workload, a run, a result.

pub mod bench;
