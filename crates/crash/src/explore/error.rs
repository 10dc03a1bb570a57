//! Why nothing can be said of a program.

use std::path::PathBuf;

use strobe_linux::LinuxError;
use strobe_linux::command::LinuxRunError;

use super::look::Verdict;
use super::places::Places;

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExploreError {
    /// The guest, or its drive.
    #[error(transparent)]
    Linux(LinuxRunError),
    /// The program does not end.
    #[error(
        "the program is not done after {0} s of virtual time; it has to end by itself: `timeout 60 PROGRAM` ends a server"
    )]
    Endless(u64),
    /// The program fails by itself.
    #[error("without any power cut the program ended with {code}{}", quoted(.said))]
    Program {
        /// Its exit code.
        code: i32,
        /// Its last output.
        said: String,
    },
    /// The check fails by itself.
    #[error("the check fails although no power was cut ({verdict:?}): {reason}")]
    Check {
        /// Verdict.
        verdict: Verdict,
        /// Its output.
        reason: String,
    },
    /// It did not print the same again.
    #[error(
        "the program does not do the same in every run: what it prints depends on more than its files and STROBE_SEED"
    )]
    Differs,
    /// There is nothing to cut.
    #[error(
        "the program lets the drive do nothing: no flash operation to cut. What it writes may still be in the drive's write \
         buffer: let it sync, or take a smaller one (--set drive.controller.write_buffer_bytes=131072)"
    )]
    Nothing,
    /// Nothing to cut at such places.
    #[error(
        "--places {}: no flash operation begins behind {}; `--places spread` has others", .0.name(),
        if *.0 == Places::Lines { "a line that the program prints" } else { "a flush" }
    )]
    NoPlace(Places),
    /// The operation is not among the program's.
    #[error("operation {0} is not one of the program's, which are {1} to {2}")]
    NotThere(u64, u64, u64),
    /// The kernel cannot say which names are new.
    #[error(
        "{}: this kernel does not report changes of files, which --strict-names needs; `strobe linux build-kernel` makes \
         one that does", .0.display()
    )]
    NoFileLog(PathBuf),
    /// A file of the host.
    #[error("{0}: {1}")]
    File(PathBuf, std::io::Error),
}

impl ExploreError {
    /// True if the request was wrong, rather than its execution.
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
