//! Experiments: a drive, a workload, a run, a result.
//!
//! [`Experiment`] is a checked experiment file with every default filled in. [`runner::run`] executes it in
//! virtual time and returns a [`RunResult`], which `strobe run --json` prints.

pub mod bench;
mod config_error;
pub mod events;
pub mod experiment;
pub mod fio;
mod fit;
mod lifetime;
mod long_wait;
pub mod machine;
pub mod numbers;
pub mod points;
pub mod power;
pub mod preset;
mod record;
pub mod result;
mod run_error;
pub mod runner;
mod series;
mod steady;
mod syntax;
pub mod timeline;
mod verdict;
pub mod xray;

/// Version of Strobe and a hash of the model's sources. A different model may give different results.
pub const MODEL: &str = env!("STROBE_MODEL");

pub use config_error::ConfigError;
pub use experiment::{
    Amount, Experiment, HostConfig, Ignored, JobConfig, PaceConfig, PacingName, RateAt, RunConfig,
    SteadyMetric, SyntheticWorkload, Time, TraceConfig, WorkloadConfig, apply_sets,
};
pub use fit::{Changes, Fit, FitError, Late};
pub use lifetime::{BadBlockPoint, EndedBy};
pub use long_wait::LongWait;
pub use preset::load_drive_table;
pub use result::{RunResult, SCHEMA_VERSION};
pub use run_error::RunError;
pub use series::{Sample, SteadyState};
pub use steady::SteadyRounds;
pub use strobe_workload::trace::{NoFormat, only_format};
pub use syntax::load_table;
pub use verdict::{
    CapacityResult, JobLoad, LoadResult, Outstanding, WindowResult, WindowVerdict, ideal_host_pages,
};
