//! A software SSD.

pub use strobe_lab::{ConfigError, Experiment, RunResult, runner};
