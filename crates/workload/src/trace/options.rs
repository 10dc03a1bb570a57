//! Options of the user beside the format.

use super::SkipReason;

/// Event in the life of a request that is taken from a trace with several events per request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// `D`, handed to the driver: what the drive saw, after merging and scheduling.
    #[default]
    Issue,
    /// `Q`, queued by the file system or program, before merging and splitting.
    Queue,
    /// `C`, completed by the drive: what it saw, at the times when it was done.
    Complete,
}

impl Action {
    /// Every action, in the order in which they are preferred.
    pub const ALL: [Self; 3] = [Self::Issue, Self::Queue, Self::Complete];

    /// The letter that blkparse prints.
    pub const fn letter(self) -> &'static str {
        match self {
            Action::Issue => "D",
            Action::Queue => "Q",
            Action::Complete => "C",
        }
    }

    /// The action that blkparse prints as `letter`.
    pub fn from_letter(letter: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.letter() == letter)
    }

    /// Reason under which a record of this action is counted if another one was chosen.
    pub const fn skipped_as(self) -> SkipReason {
        match self {
            Action::Issue => SkipReason::Dispatched,
            Action::Queue => SkipReason::Queued,
            Action::Complete => SkipReason::Completed,
        }
    }
}

/// Choices for reading a trace. The default fits every format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceOptions {
    /// The device whose records are read, named as the trace names it: `254,0` (blkparse,
    /// blktrace), `hostname.disk` (msr), `major.minor` (fiu), the file name (fio), otherwise the
    /// device column. `all` merges the records of all devices, whose addresses then overlap. `None` takes the
    /// only device, and fails with [`TraceError::SeveralDevices`](super::TraceError::SeveralDevices) if there is a second one.
    pub device: Option<String>,
    /// Only blkparse and blktrace. `None` means [`Action::Issue`].
    pub action: Option<Action>,
    /// Nanoseconds per unit of the trace's times, at least 1. `None` means
    /// [`Format::time_unit_ns`](super::Format::time_unit_ns).
    pub time_unit_ns: Option<u64>,
}
