//! Errors of commands, and the NVMe status of each.

use strobe_ftl::FtlError;
use strobe_types::{SimTime, named};

use crate::command::{CommandKind, RANGES_MAX};

named! {
    /// A limit that a command can exceed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Limit {
        /// Ranges of a command (DMRL, MSRC).
        Ranges => "ranges",
        /// Sectors of one range (DMRSL, MSSRL).
        RangeSectors => "sectors in one range",
        /// Sectors of all ranges (DMSL, MCL).
        Sectors => "sectors in all ranges",
    }
}

pub(crate) type Completed = Result<SimTime, CommandError>;

/// Error of a command. All but [`CommandError::Unreadable`] reject the command. A rejected command leaves the
/// drive unchanged, except for work done before an error of the mapping scheme.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The range exceeds the drive.
    #[error("{op} of {sectors} sectors at sector {lba} exceeds the drive, which has {drive_sectors} sectors", op = .op.name())]
    OutOfRange {
        /// The command.
        op: CommandKind,
        /// First sector.
        lba: u64,
        /// Sectors requested.
        sectors: u64,
        /// Sectors of the drive.
        drive_sectors: u64,
    },
    /// A command or a source range without sectors.
    #[error("{op} of zero sectors at sector {lba}", op = .op.name())]
    Empty {
        /// The command.
        op: CommandKind,
        /// First sector.
        lba: u64,
    },
    /// Data that does not consist of whole sectors, or is too long for one command.
    #[error("{op} of {bytes} bytes at sector {lba}; a command carries whole sectors of 512 bytes, fewer than 2³²", op = .op.name())]
    Length {
        /// The command.
        op: CommandKind,
        /// First sector.
        lba: u64,
        /// Bytes given.
        bytes: u64,
    },
    /// Data whose length differs from the range of the command.
    #[error("{op} of {sectors} sectors with {bytes} bytes of data", op = .op.name())]
    DataLength {
        /// The command.
        op: CommandKind,
        /// Sectors of the command.
        sectors: u32,
        /// Bytes given.
        bytes: u64,
    },
    /// No range, or more ranges than a command can carry.
    #[error("{op} with {ranges} ranges; a command carries 1 to {max}", op = .op.name(), max = RANGES_MAX)]
    Ranges {
        /// The command.
        op: CommandKind,
        /// Ranges given.
        ranges: usize,
    },
    /// A placement handle that the drive does not have.
    #[error(
        "write with placement handle {handle}; this drive has {handles}, numbered from 0 \
         (drive.ftl.placement.scheme = \"handles\" and drive.ftl.placement.handles set the number)"
    )]
    NoSuchHandle {
        /// Handle given.
        handle: u16,
        /// Handles of the drive.
        handles: u16,
    },
    /// A limit of the drive is exceeded.
    #[error("{op} with {given} {what}; this drive takes at most {allowed}", op = .op.name(), what = .limit.name())]
    TooLarge {
        /// The command.
        op: CommandKind,
        /// The limit.
        limit: Limit,
        /// Value of the command.
        given: u64,
        /// Largest value that the drive takes.
        allowed: u64,
    },
    /// A copy would overwrite its source.
    #[error(
        "copy of {source_sectors} sectors at sector {source_lba} overlaps its destination, {sectors} sectors \
         at sector {destination}"
    )]
    Overlap {
        /// First sector of the source range.
        source_lba: u64,
        /// Sectors of the source range.
        source_sectors: u64,
        /// First sector of the destination.
        destination: u64,
        /// Sectors of the whole copy.
        sectors: u64,
    },
    /// Data needed for a read, partial write or copy is unreadable. The drive keeps working.
    #[error(
        "unrecovered read error in sectors {lba} to {last}; they become readable again after a \
         whole write or a trim",
        last = .lba + u64::from(*.sectors) - 1
    )]
    Unreadable {
        /// First sector of the first unreadable mapping unit.
        lba: u64,
        /// Sectors of that unit.
        sectors: u32,
    },
    /// A request that no command of the drive can execute.
    #[error("the drive does not support this command")]
    Unsupported,
    /// A call of [`Device::execute`](crate::Device::execute) while commands are outstanding.
    #[error(
        "`execute` needs an idle drive, but {0} commands are in flight: use `submit`, or take their completions first"
    )]
    Busy(usize),
    /// The drive does not store data.
    #[error("this drive stores no data: set drive.nand.data = \"bytes\"")]
    NoContent,
    /// The mapping scheme failed.
    #[error(transparent)]
    Ftl(#[from] FtlError),
    /// The medium has failed: the image's disk is full or unreadable, or the image is damaged. The work of
    /// this command may be lost, and every later command is rejected.
    #[error("{0}")]
    Medium(String),
}

/// An NVMe completion status: status code type and status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Status Code Type: 0 generic, 1 command specific, 2 media and data integrity.
    pub sct: u8,
    /// Status Code.
    pub sc: u8,
}

impl Status {
    /// Invalid Command Opcode.
    pub const INVALID_OPCODE: Self = Self { sct: 0, sc: 0x01 };
    /// Invalid Field in Command.
    pub const INVALID_FIELD: Self = Self { sct: 0, sc: 0x02 };
    /// LBA Out of Range.
    pub const LBA_OUT_OF_RANGE: Self = Self { sct: 0, sc: 0x80 };
    /// Command Size Limit Exceeded.
    pub const SIZE_LIMIT_EXCEEDED: Self = Self { sct: 1, sc: 0x83 };
    /// Overlapping I/O Range.
    pub const OVERLAPPING_RANGE: Self = Self { sct: 1, sc: 0x87 };
    /// Internal Error.
    pub const INTERNAL_ERROR: Self = Self { sct: 0, sc: 0x06 };
    /// Write Fault.
    pub const WRITE_FAULT: Self = Self { sct: 2, sc: 0x80 };
    /// Unrecovered Read Error.
    pub const UNRECOVERED_READ: Self = Self { sct: 2, sc: 0x81 };
}

impl CommandError {
    /// True if the stop flag ended the command.
    pub fn is_interruption(&self) -> bool {
        *self == CommandError::Ftl(FtlError::Interrupted)
    }

    /// True if data could not be read; the drive keeps working.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, CommandError::Unreadable { .. })
    }

    /// Status of an NVMe completion.
    pub fn status(&self) -> Status {
        match self {
            CommandError::OutOfRange { .. } => Status::LBA_OUT_OF_RANGE,
            CommandError::Empty { .. }
            | CommandError::Length { .. }
            | CommandError::DataLength { .. }
            | CommandError::Ranges { .. }
            | CommandError::NoSuchHandle { .. }
            | CommandError::Busy(_)
            | CommandError::NoContent => Status::INVALID_FIELD,
            CommandError::Unsupported => Status::INVALID_OPCODE,
            CommandError::TooLarge { .. } => Status::SIZE_LIMIT_EXCEEDED,
            CommandError::Overlap { .. } => Status::OVERLAPPING_RANGE,
            CommandError::Unreadable { .. } | CommandError::Ftl(FtlError::Unreadable { .. }) => {
                Status::UNRECOVERED_READ
            }
            CommandError::Ftl(_) => Status::WRITE_FAULT,
            CommandError::Medium(_) => Status::INTERNAL_ERROR,
        }
    }
}
