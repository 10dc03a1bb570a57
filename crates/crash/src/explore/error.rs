use std::path::PathBuf;

use strobe_linux::LinuxError;
use strobe_linux::command::LinuxRunError;

use super::cut_points::CutPoints;
use super::examine::Verdict;

/// Reason why an exploration yields no verdict.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExploreError {
    /// The guest or its drive failed.
    #[error(transparent)]
    Linux(LinuxRunError),
    /// The program does not end within the limit of virtual time, in seconds.
    #[error(
        "the program has not finished after {0} s of virtual time; it must end by itself: `timeout 60 PROGRAM` ends a server"
    )]
    Endless(u64),
    /// The program fails without a power cut.
    #[error("the program exited with {code} without a power cut{}", quoted(.said))]
    Program {
        /// Exit code.
        code: i32,
        /// Last lines of its output.
        said: String,
    },
    /// The check fails without a power cut.
    #[error("the check fails without a power cut ({verdict:?}): {reason}")]
    Check {
        /// Verdict.
        verdict: Verdict,
        /// Reason or last output of the check.
        reason: String,
    },
    /// The check passes without a power cut, but its shell did not find a command, as under `if` or `!`.
    #[error(
        "the check succeeds without a power cut, but its shell says \"{0}\": name a program of this machine by its \
         absolute path, or begin the check with it"
    )]
    NoCommand(String),
    /// Two runs of the program printed different lines.
    #[error("the program is not repeatable: its output depends on more than its files and STROBE_SEED")]
    Differs,
    /// The program causes no flash operation and leaves nothing in the drive's cache.
    #[error("the program writes nothing to the drive, so there is no flash operation to cut")]
    Nothing,
    /// No flash operation matches the chosen places.
    #[error(
        "--places {}: no flash operation starts after {}; try `--places spread`", .0.name(),
        if *.0 == CutPoints::Lines { "a line that the program prints" } else { "a flush" }
    )]
    NoPlace(CutPoints),
    /// The operation (first number) is outside the program's range (second and third).
    #[error("operation {0} is outside the program's range of {1} to {2}")]
    NotThere(u64, u64, u64),
    /// The kernel does not report changes of files, so unsynced names are unknown.
    #[error(
        "{}: this kernel does not report file changes, which --strict-names needs; build one with \
         `strobe linux build-kernel`", .0.display()
    )]
    NoFileLog(PathBuf),
    /// A host file cannot be read or written.
    #[error("{0}: {1}")]
    File(PathBuf, std::io::Error),
}

impl ExploreError {
    /// True if the request was wrong, not its execution.
    pub fn is_bad_request(&self) -> bool {
        match self {
            Self::Linux(error) => error.is_bad_request(),
            Self::NotThere(..) | Self::NoFileLog(_) | Self::NoPlace(_) => true,
            _ => false,
        }
    }
}

impl From<LinuxRunError> for ExploreError {
    fn from(error: LinuxRunError) -> Self {
        match error {
            LinuxRunError::Guest(LinuxError::TimeLimit { limit_ns }) => {
                Self::Endless(limit_ns / 1_000_000_000)
            }
            error => Self::Linux(error),
        }
    }
}

fn quoted(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(":\n{}", said.trim_end()) }
}
