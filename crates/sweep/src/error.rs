use std::io;
use std::path::PathBuf;

use strobe_lab::ConfigError;
use strobe_lab::points::StoreError;

/// Errors that refuse a sweep or end it early. Finished points are kept in either case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// The experiment is refused, or a grid key is unknown.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A key of `[sweep]` has a wrong value.
    #[error("sweep.{key}: {what}")]
    Key {
        /// The key below `sweep`.
        key: String,
        /// Error and remedy.
        what: String,
    },
    /// Too many points.
    #[error(
        "the sweep has {points} points ({configurations} configurations with {seeds} seeds each); at most {most} are \
         allowed: leave values out"
    )]
    TooMany {
        /// Number of points.
        points: u128,
        /// Number of combinations of values.
        configurations: u128,
        /// Seeds per configuration.
        seeds: u64,
        /// Limit on the number of points.
        most: u64,
    },
    /// Every combination is refused.
    #[error("every one of the {count} configurations is refused, the first with: {first}")]
    AllRefused {
        /// Number of configurations.
        count: usize,
        /// Reason for the first.
        first: String,
    },
    /// A value that is refused in every combination.
    #[error("sweep: {key} = {value} is refused with every combination of the other keys: {error}")]
    ValueRefused {
        /// The key.
        key: String,
        /// The value, as TOML.
        value: String,
        /// Reason for the first configuration with this value.
        error: String,
    },
    /// The store of finished points cannot be used or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A result file cannot be written.
    #[error("{path}: {error}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// I/O error.
        error: io::Error,
    },
    /// A folder that holds something else.
    #[error("{path} is not the folder of a sweep (no points.jsonl): choose another folder with --out")]
    Foreign {
        /// Path of the folder.
        path: PathBuf,
    },
    /// A folder with runs of another sweep.
    #[error(
        "{path} holds {others} runs of another sweep, whose report would be overwritten: choose another \
         folder with --out, or remove it"
    )]
    OtherSweep {
        /// Path of the folder.
        path: PathBuf,
        /// Number of runs that are not part of this sweep.
        others: usize,
    },
    /// A folder without a readable description of its sweep.
    #[error(
        "{path} has no readable description of its sweep (sweep.json: {error}); give the sweep file as well: \
         strobe report SWEEP.toml --from {path}"
    )]
    NotDescribed {
        /// Path of the folder.
        path: PathBuf,
        /// Read error.
        error: String,
    },
    /// A worker of another version.
    #[error("a worker has another version or model ({theirs}; this is {ours}): use one version everywhere")]
    OtherWorker {
        /// Model of the worker.
        theirs: String,
        /// Model of this program.
        ours: String,
    },
    /// No worker can be started.
    #[error("cannot start a worker: {0}")]
    Worker(io::Error),
    /// An answer of a worker that is not an outcome.
    #[error("a worker returned an invalid answer: {0}")]
    Outcome(String),
    /// A measure without a column in any result.
    #[error("sweep.measure: no result has a column \"{given}\"{hint}; rows.parquet has them all")]
    NoMeasure {
        /// Given name.
        given: String,
        /// Nearest name, as a hint.
        hint: String,
    },
    /// A figure or table cannot be made.
    #[error("{0}")]
    Made(String),
    /// Stopped by the user.
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
