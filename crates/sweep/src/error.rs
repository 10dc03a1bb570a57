//! Why a sweep is refused, or ends.

use std::io;
use std::path::PathBuf;

use strobe_lab::ConfigError;
use strobe_lab::points::StoreError;

/// Why a sweep is refused, or ends before it is complete. What is done is kept in either case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// The experiment is refused, or a key of the grid is none.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A key of `[sweep]` is wrong.
    #[error("sweep.{key}: {what}")]
    Key {
        /// The key below `sweep`.
        key: String,
        /// The fault, and the cure.
        what: String,
    },
    /// More points than anybody runs.
    #[error(
        "the sweep has {points} points ({configurations} configurations with {seeds} seeds each); at most {most} are \
         allowed: leave values out"
    )]
    TooMany {
        /// Points.
        points: u128,
        /// Combinations of values.
        configurations: u128,
        /// Seeds of each.
        seeds: u64,
        /// The limit.
        most: u64,
    },
    /// No combination can be run.
    #[error("every one of the {count} configurations is refused, the first with: {first}")]
    AllRefused {
        /// Number of configurations.
        count: usize,
        /// Why the first is.
        first: String,
    },
    /// A value with which no combination can be run.
    #[error("sweep: {key} = {value} is refused with every combination of the other keys: {error}")]
    ValueRefused {
        /// The key.
        key: String,
        /// The value, as TOML.
        value: String,
        /// Why its first configuration is refused.
        error: String,
    },
    /// Finished points cannot be used or kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A result cannot be written.
    #[error("{path}: {error}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A folder with other things in it.
    #[error("{path} holds something else than a sweep (no points.jsonl): choose another folder with --out")]
    Foreign {
        /// Path of the folder.
        path: PathBuf,
    },
    /// A folder with runs of another sweep.
    #[error(
        "{path} holds {others} runs of another sweep, whose report would be written over: choose another folder with \
         --out, or remove it"
    )]
    OtherSweep {
        /// Path of the folder.
        path: PathBuf,
        /// Runs in it that are none of this sweep.
        others: usize,
    },
    /// A folder that does not say what its sweep is.
    #[error(
        "{path} does not say which sweep it holds (sweep.json: {error}); name the file of the sweep as well: strobe report \
         SWEEP.toml --from {path}"
    )]
    NotDescribed {
        /// Path of the folder.
        path: PathBuf,
        /// Why its description cannot be read.
        error: String,
    },
    /// A worker of another version.
    #[error("a worker has another version or model ({theirs}; this is {ours}): install the same everywhere")]
    OtherWorker {
        /// Its model.
        theirs: String,
        /// This one.
        ours: String,
    },
    /// No worker can be started.
    #[error("cannot start a worker: {0}")]
    Worker(io::Error),
    /// A worker's answer is no outcome of a task.
    #[error("a worker has returned something else than an outcome: {0}")]
    Outcome(String),
    /// A measure that no result has.
    #[error("sweep.measure: no result has a column \"{given}\"{hint}; rows.parquet has them all")]
    NoMeasure {
        /// The name given.
        given: String,
        /// The nearest name.
        hint: String,
    },
    /// A picture or table cannot be made.
    #[error("{0}")]
    Made(String),
    /// Somebody stopped it.
    #[error("interrupted")]
    Interrupted,
}

impl SweepError {
    /// True if the request was wrong, rather than its execution.
    pub fn is_bad_request(&self) -> bool {
        match self {
            Self::Config(_)
            | Self::Key { .. }
            | Self::TooMany { .. }
            | Self::AllRefused { .. }
            | Self::ValueRefused { .. }
            | Self::OtherSweep { .. }
            | Self::Foreign { .. }
            | Self::NotDescribed { .. }
            | Self::NoMeasure { .. } => true,
            Self::Store(error) => error.is_bad_request(),
            _ => false,
        }
    }

    pub(crate) fn key(key: &str, what: impl Into<String>) -> Self {
        Self::Key { key: key.to_owned(), what: what.into() }
    }
}
