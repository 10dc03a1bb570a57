//! Experiments: a drive, a workload, a run, a result.
//!
//! [`Experiment`] is what an experiment file says, checked and with every default filled in.
//! [`run`](runner::run) executes it in virtual time and returns a [`RunResult`], which is what
//! `--json` prints. [`paper`] runs published experiments again. The `strobe` program in this crate is a thin shell around these.

pub mod bench;
mod chart;
pub mod disk;
mod effect;
mod experiment;
mod fio_names;
mod fit;
mod given;
mod lifetime;
#[cfg(target_os = "linux")]
pub mod linux;
pub mod machine;
mod names;
mod numbers;
pub mod output;
pub mod paper;
mod power;
pub mod preset;
pub mod reference;
pub mod report;
mod result;
pub mod runner;
mod series;
mod syntax;
mod validate;
mod verdict;

pub use effect::Ignored;
pub use experiment::{
    Amount, ConfigError, Experiment, Fit, HostConfig, Late, PacingName, RunConfig, SyntheticWorkload,
    TraceConfig, WorkloadConfig, load_drive_table,
};
pub use lifetime::{BadBlockPoint, EndedBy};
pub use names::nearest;
pub use result::{RunResult, SCHEMA_VERSION};
