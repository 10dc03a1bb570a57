//! The commands of the drive: what they say.
//!
//! They are those of the NVM command set of NVMe. Front ends translate their own into them: ATA's DATA
//! SET MANAGEMENT with its TRIM bit set, for one, is a [`Command::Deallocate`].

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
        /// Force unit access: complete only when the data survives a power cut, on flash or in the
        /// non-volatile cache.
        fua: bool,
        /// The host's description of the data.
        tag: DataTag,
    },
    /// Completes when all writes completed before are on flash.
    Flush,
    /// Dataset Management with the attribute Deallocate, or TRIM: the host needs the data no more.
    /// Whole mapping units inside each range are unmapped and read as zeros from then on; parts of
    /// units at its ends keep their data. Ranges may touch and overlap; one of 0 sectors is padding,
    /// wherever it points.
    Deallocate(&'a [Range]),
    /// Makes a range read as zeros without sending them.
    WriteZeroes {
        /// Sectors to overwrite.
        range: Range,
        /// Unmap whole mapping units (DEAC). Otherwise zeros are programmed.
        deallocate: bool,
    },
    /// Copies ranges, one behind the other, to the sectors from `destination` on. No data crosses the
    /// link. Sources may touch and overlap each other, but not the destination.
    ///
    /// Where source and destination lie alike within mapping units, whole units are copied by the
    /// mapping scheme, and those that are not mapped become unmapped at the destination. All other
    /// sectors are read, merged with what their new unit holds, and written like data of the host.
    Copy {
        /// First sector of the copy.
        destination: Lba,
        /// Source ranges, in the order of their copies.
        sources: &'a [Range],
    },
}

impl Command<'_> {
    /// Bytes that it is about; of a copy those of its sources.
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

    /// Its kind.
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
    /// The kind of a command: those that a [`Request`](strobe_types::Request) can be, and those only a
    /// [`Command`] can.
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
    /// Operation of a request of this kind; `None` for kinds that only a [`Command`] has.
    pub fn op(self) -> Option<Op> {
        Op::ALL.get(self as usize).copied()
    }
}

impl From<Op> for CommandKind {
    fn from(op: Op) -> Self {
        Self::ALL[op as usize]
    }
}

/// Ranges that one command can carry: its format counts them in eight bits, from one.
pub const RANGES_MAX: usize = 256;
