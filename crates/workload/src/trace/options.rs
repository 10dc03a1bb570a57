//! What the user chooses beside the format.

/// Which step in the life of a request is taken from a trace that records all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// `D`, handed to the driver: what the drive saw, after merging and scheduling.
    #[default]
    Issue,
    /// `Q`, queued by the file system or program, before merging and splitting.
    Queue,
}

impl Action {
    /// The letter that blkparse prints.
    pub const fn letter(self) -> &'static str {
        match self {
            Action::Issue => "D",
            Action::Queue => "Q",
        }
    }
}

/// Choices for reading a trace. The default fits every format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceOptions {
    /// The device whose records are read, named as the trace names it: `254,0` (blkparse,
    /// blktrace), `hostname.disk` (msr), the file name (fio), otherwise the device column.
    /// `all` merges the records of all devices, whose addresses then overlap. `None` takes the
    /// only device, and fails with [`TraceError::SeveralDevices`](super::TraceError::SeveralDevices) if there is a second one.
    pub device: Option<String>,
    /// Only blkparse and blktrace. `None` means [`Action::Issue`].
    pub action: Option<Action>,
    /// Only mqsim: nanoseconds per unit of the time column, at least 1. `None` means 1.
    pub time_unit_ns: Option<u64>,
}
