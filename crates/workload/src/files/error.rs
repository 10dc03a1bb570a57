//! Errors of file systems, and of workloads that use them.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// Why a file operation was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The volume, or a directory of fixed size, is full.
    #[error("no space left on the volume")]
    NoSpace,
    /// No file or directory of that name.
    #[error("{0} does not exist")]
    NotFound(String),
    /// The name is taken.
    #[error("{0} exists already")]
    Exists(String),
    /// The directory to be removed is not empty.
    #[error("{0} is not empty")]
    NotEmpty(String),
    /// The file is open and can be neither opened again nor removed.
    #[error("{0} is open")]
    Busy(String),
    /// The handle names no open file.
    #[error("the file handle is not open")]
    NotOpen,
    /// Anything else, in the words of the device or operating system.
    #[error("input or output failed: {0}")]
    Io(String),
}

/// Why a file workload did not start or finish.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileWorkloadError {
    /// A value outside its range.
    #[error("{key} is {value}, it must be {allowed}")]
    OutOfRange {
        /// Configuration key.
        key: &'static str,
        /// The value given.
        value: String,
        /// The values that are possible.
        allowed: String,
    },
    /// The file system refused an operation.
    #[error("the workload stopped: {0}")]
    File(#[from] FileError),
}

/// Refuses `value` outside `range`, with its key and the range in the message.
pub(super) fn check_range<T: PartialOrd + Display>(
    key: &'static str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), FileWorkloadError> {
    if range.contains(&value) {
        return Ok(());
    }
    let allowed = format!("from {} to {}", range.start(), range.end());
    Err(FileWorkloadError::OutOfRange { key, value: value.to_string(), allowed })
}

/// Refuses `value` unless it is a multiple of `unit`, from that to `max`.
pub(super) fn check_multiple(
    key: &'static str,
    value: u32,
    unit: u32,
    max: u32,
) -> Result<(), FileWorkloadError> {
    if (unit..=max).contains(&value) && value.is_multiple_of(unit) {
        return Ok(());
    }
    let allowed = format!("a multiple of {unit} from {unit} to {max}");
    Err(FileWorkloadError::OutOfRange { key, value: value.to_string(), allowed })
}
