//! The commands of the drive.
//!
//! The commands follow the NVM command set of NVMe. Front ends translate other protocols: ATA's DATA SET
//! MANAGEMENT with TRIM set becomes a [`Command::Deallocate`].
//!
//! `CONTRIBUTING.md` lists the files that a new command changes.

pub use strobe_ftl::{DataTag, Hint};
pub use strobe_types::Range;
use strobe_types::{Lba, Op, Stored, named};

/// A command of the NVM command set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Reads a range.
    Read {
        /// Sectors to read.
        range: Range,
    },
    /// Writes a range.
    Write {
        /// Sectors to write.
        range: Range,
        /// Force unit access: the write completes only when its data survives a power cut, on flash or in the
        /// non-volatile cache.
        fua: bool,
        /// The host's description of the data.
        tag: DataTag,
    },
    /// Completes when all earlier completed writes survive a power cut, on flash or in the non-volatile
    /// cache.
    Flush,
    /// Dataset Management with the attribute Deallocate, or TRIM. Mapping units that a range covers
    /// completely are unmapped and read as zeros. Partial units at the ends of a range keep their data.
    /// Ranges may touch and overlap. A range of 0 sectors is padding, with any address.
    Deallocate(&'a [Range]),
    /// Makes a range read as zeros, without a transfer.
    WriteZeroes {
        /// Sectors to overwrite.
        range: Range,
        /// Unmap whole mapping units (DEAC). Otherwise zeros are programmed.
        deallocate: bool,
    },
    /// Copies ranges, one after the other, to the sectors from `destination` on. No data crosses the link.
    /// Sources may overlap each other, but not the destination.
    ///
    /// If source and destination are both aligned to mapping units, the mapping scheme copies whole units;
    /// unmapped source units become unmapped at the destination. All other sectors are read, merged into
    /// their destination unit, and written like host data.
    Copy {
        /// First sector of the copy.
        destination: Lba,
        /// Source ranges, in the order of their copies.
        sources: &'a [Range],
    },
}

impl Command<'_> {
    /// Bytes covered; for a copy, the bytes of its sources.
    pub fn bytes(&self) -> u64 {
        let all = |ranges: &[Range]| ranges.iter().map(|range| range.bytes()).sum();
        match *self {
            Command::Read { range } | Command::Write { range, .. } | Command::WriteZeroes { range, .. } => {
                range.bytes()
            }
            Command::Deallocate(ranges) => all(ranges),
            Command::Copy { sources, .. } => all(sources),
            Command::Flush => 0,
        }
    }

    /// Kind of the command.
    pub fn kind(&self) -> CommandKind {
        match self {
            Command::Read { .. } => CommandKind::Read,
            Command::Write { .. } => CommandKind::Write,
            Command::Deallocate(_) => CommandKind::Trim,
            Command::Flush => CommandKind::Flush,
            Command::Copy { .. } => CommandKind::Copy,
            Command::WriteZeroes { .. } => CommandKind::WriteZeroes,
        }
    }
}

named! {
    /// Kind of a command, including the kinds that no [`Request`](strobe_types::Request) has.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Stored)]
    #[repr(u8)]
    pub enum CommandKind {
        /// Read.
        Read = Op::Read as u8 => Op::Read.name(),
        /// Write.
        Write = Op::Write as u8 => Op::Write.name(),
        /// Deallocate.
        Trim = Op::Trim as u8 => Op::Trim.name(),
        /// Flush.
        Flush = Op::Flush as u8 => Op::Flush.name(),
        /// Copy.
        Copy => "copy",
        /// Write zeroes.
        WriteZeroes => "write zeroes",
    }
}

impl CommandKind {
    /// Operation of a request of this kind; `None` if only a [`Command`] can have this kind.
    pub fn op(self) -> Option<Op> {
        Op::ALL.get(self as usize).copied()
    }
}

impl From<Op> for CommandKind {
    fn from(op: Op) -> Self {
        Self::ALL[op as usize]
    }
}

/// Maximum number of ranges of a command. NVMe stores the number minus one in eight bits.
pub const RANGES_MAX: usize = 256;
