use std::fmt::Display;
use std::ops::RangeInclusive;

/// Error of a file operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The volume, or a directory of fixed size, is full.
    #[error("no space left on the volume")]
    NoSpace,
    /// No file or directory of that name.
    #[error("{0} does not exist")]
    NotFound(String),
    /// The name already exists.
    #[error("{0} exists already")]
    Exists(String),
    /// The directory to remove is not empty.
    #[error("{0} is not empty")]
    NotEmpty(String),
    /// The file is open, so it can be neither opened again nor removed.
    #[error("{0} is open")]
    Busy(String),
    /// The handle is not an open file.
    #[error("the file handle is not open")]
    NotOpen,
    /// Any other error, in the words of the device or operating system.
    #[error("input or output failed: {0}")]
    Io(String),
}

/// Error of a file workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileWorkloadError {
    /// A value outside its range.
    #[error("{key} is {value}, it must be {allowed}")]
    OutOfRange {
        /// Configuration key.
        key: &'static str,
        /// Given value.
        value: String,
        /// Allowed values.
        allowed: String,
    },
    /// The file system refused an operation.
    #[error("the workload stopped: {0}")]
    File(#[from] FileError),
}

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
