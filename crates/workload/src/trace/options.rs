use super::{Extent, SkipReason};

/// Event to take from a trace with several events per request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// `D`, issued to the driver: the drive's view, after merging and scheduling.
    #[default]
    Issue,
    /// `Q`, queued by the file system or program, before merging and splitting.
    Queue,
    /// `C`, completed by the drive: the drive's view at completion times.
    Complete,
}

impl Action {
    /// All actions in order of preference.
    pub const ALL: [Self; 3] = [Self::Issue, Self::Queue, Self::Complete];

    /// Letter printed by blkparse.
    pub const fn letter(self) -> &'static str {
        match self {
            Action::Issue => "D",
            Action::Queue => "Q",
            Action::Complete => "C",
        }
    }

    /// Action that blkparse prints as `letter`.
    pub fn from_letter(letter: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.letter() == letter)
    }

    /// Reason that counts records of this action when another was chosen.
    pub const fn skipped_as(self) -> SkipReason {
        match self {
            Action::Issue => SkipReason::Dispatched,
            Action::Queue => SkipReason::Queued,
            Action::Complete => SkipReason::Completed,
        }
    }
}

/// Options for reading a trace. The default fits every format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceOptions {
    /// Device to read, named as in the trace. Default: the only device; a second one is
    /// the error [`TraceError::SeveralDevices`](super::TraceError::SeveralDevices).
    ///
    /// Names are `254,0` (blkparse, blktrace), `hostname.disk` (msr), `major.minor` (fiu), the file name (fio),
    /// otherwise the device column. `all` merges all devices, whose addresses then overlap.
    pub device: Option<String>,
    /// Action to take, for blkparse and blktrace only. `None` means [`Action::Issue`].
    pub action: Option<Action>,
    /// Nanoseconds per unit of time, at least 1. `None` means
    /// [`Format::time_unit_ns`](super::Format::time_unit_ns).
    pub time_unit_ns: Option<u64>,
    /// Devices to read, each moved by an offset, so that several share an address space. If not empty,
    /// `device` has no effect.
    pub placed: Vec<PlacedDevice>,
    /// Length to leave out at the beginning.
    pub skip: Option<Extent>,
    /// Length to read after that. Default: all.
    pub take: Option<Extent>,
    /// Names of the columns, for csv only, such as "time,op,lbn,len". Default: the first line has them.
    pub columns: Option<String>,
}

/// A device of a trace at an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedDevice {
    /// Name of the device, as in [`TraceOptions::device`].
    pub name: String,
    /// Bytes added to the addresses of the device.
    pub offset: u64,
}
