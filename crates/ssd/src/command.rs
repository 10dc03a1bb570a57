//! The commands of the drive: what they say, and how large they may be.
//!
//! They are those of the NVM command set of NVMe. Front ends translate their own into them: ATA's DATA
//! SET MANAGEMENT with its TRIM bit set, for one, is a [`Command::Deallocate`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::{Lba, Op};

use crate::error::CommandError;

/// A run of sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First sector.
    pub lba: Lba,
    /// How many.
    pub sectors: u32,
}

impl Range {
    /// The `sectors` sectors from `lba` on.
    pub const fn new(lba: Lba, sectors: u32) -> Self {
        Self { lba, sectors }
    }
}

/// A command of the NVM command set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Reads a range.
    Read {
        /// What to read.
        range: Range,
    },
    /// Writes a range.
    Write {
        /// What to write.
        range: Range,
        /// Force unit access: complete only when the data survives a power cut, on flash or in the
        /// non-volatile cache.
        fua: bool,
        /// What the data is.
        hint: Hint,
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
        /// What to overwrite.
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
        /// What to copy.
        sources: &'a [Range],
    },
}

impl Command<'_> {
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

/// What the host says about the data of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hint {
    /// Nothing.
    #[default]
    None,
    /// It is metadata of a file system: small, and soon written again.
    Metadata,
}

/// The kind of a command: those that a [`Request`](strobe_types::Request) can be, and those only a
/// [`Command`] can.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum CommandKind {
    /// Read.
    Read = Op::Read as u8,
    /// Write.
    Write = Op::Write as u8,
    /// Deallocate.
    Trim = Op::Trim as u8,
    /// Flush.
    Flush = Op::Flush as u8,
    /// Copy.
    Copy,
    /// Write zeroes.
    WriteZeroes,
}

impl CommandKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [CommandKind; 6] = [
        CommandKind::Read,
        CommandKind::Write,
        CommandKind::Trim,
        CommandKind::Flush,
        CommandKind::Copy,
        CommandKind::WriteZeroes,
    ];

    /// What a request of this kind is; `None` for those that only a [`Command`] can be.
    pub const fn op(self) -> Option<Op> {
        match self {
            CommandKind::Read => Some(Op::Read),
            CommandKind::Write => Some(Op::Write),
            CommandKind::Trim => Some(Op::Trim),
            CommandKind::Flush => Some(Op::Flush),
            CommandKind::Copy | CommandKind::WriteZeroes => None,
        }
    }

    /// The name used in results and messages.
    pub const fn name(self) -> &'static str {
        match self {
            CommandKind::Read => Op::Read.name(),
            CommandKind::Write => Op::Write.name(),
            CommandKind::Trim => Op::Trim.name(),
            CommandKind::Flush => Op::Flush.name(),
            CommandKind::Copy => "copy",
            CommandKind::WriteZeroes => "write zeroes",
        }
    }
}

impl From<Op> for CommandKind {
    fn from(op: Op) -> Self {
        match op {
            Op::Read => CommandKind::Read,
            Op::Write => CommandKind::Write,
            Op::Trim => CommandKind::Trim,
            Op::Flush => CommandKind::Flush,
        }
    }
}

/// Ranges that one command can carry: its format counts them in eight bits, from one.
pub const RANGES_MAX: usize = 256;

/// The largest commands that the drive takes, in sectors of 512 bytes. In parentheses stands the name
/// that NVMe gives the limit. 0 is no limit but that of the format: 256 ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Ranges of a trim (DMRL). An ATA drive that takes one 512-byte block of ranges has 64. 0: 256,
    /// as many as the format holds. Default 0.
    #[schemars(range(min = 0, max = 256))]
    pub trim_ranges: u32,
    /// Sectors of each range of a trim (DMRSL). ATA's format holds 65535. 0: no limit. Default 0.
    #[schemars(range(min = 0, max = 4_294_967_295u32))]
    pub trim_range_sectors: u32,
    /// Sectors of all ranges of a trim (DMSL). 0: no limit. Default 0.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807u64))]
    pub trim_sectors: u64,
    /// Source ranges of a copy (MSRC, which NVMe counts from 0). 0: 256, as many as the format holds.
    /// Default 0.
    #[schemars(range(min = 0, max = 256))]
    pub copy_ranges: u32,
    /// Sectors of each source range of a copy (MSSRL). 0: no limit. Default 0.
    #[schemars(range(min = 0, max = 4_294_967_295u32))]
    pub copy_range_sectors: u32,
    /// Sectors of all source ranges of a copy (MCL). 0: no limit. Default 0.
    #[schemars(range(min = 0, max = 4_294_967_295u32))]
    pub copy_sectors: u32,
}

/// A limit that a command can exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Ranges of a command (DMRL, MSRC).
    Ranges,
    /// Sectors of one range (DMRSL, MSSRL).
    RangeSectors,
    /// Sectors of all ranges (DMSL, MCL).
    Sectors,
}

impl Limit {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Limit::Ranges => "ranges",
            Limit::RangeSectors => "sectors in one range",
            Limit::Sectors => "sectors in all ranges",
        }
    }
}

/// The limits of one kind of command; 0 is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    ranges: u32,
    range_sectors: u32,
    sectors: u64,
}

impl LimitsConfig {
    pub(crate) fn of_trim(&self) -> Bounds {
        let &Self { trim_ranges, trim_range_sectors, trim_sectors, .. } = self;
        Bounds { ranges: trim_ranges, range_sectors: trim_range_sectors, sectors: trim_sectors }
    }

    pub(crate) fn of_copy(&self) -> Bounds {
        let &Self { copy_ranges, copy_range_sectors, copy_sectors, .. } = self;
        Bounds { ranges: copy_ranges, range_sectors: copy_range_sectors, sectors: copy_sectors.into() }
    }
}

impl Bounds {
    /// Whether a command of `kind` may have these ranges; returns their sectors in all.
    pub(crate) fn check(self, kind: CommandKind, ranges: &[Range]) -> Result<u64, CommandError> {
        if ranges.is_empty() || ranges.len() > RANGES_MAX {
            return Err(CommandError::Ranges { op: kind, ranges: ranges.len() });
        }
        let within = |limit, given: u64, allowed: u64| match allowed {
            0 => Ok(()),
            allowed if given <= allowed => Ok(()),
            allowed => Err(CommandError::TooLarge { op: kind, limit, given, allowed }),
        };
        within(Limit::Ranges, ranges.len() as u64, self.ranges.into())?;
        for range in ranges {
            within(Limit::RangeSectors, range.sectors.into(), self.range_sectors.into())?;
        }
        let sectors = ranges.iter().map(|range| u64::from(range.sectors)).sum();
        within(Limit::Sectors, sectors, self.sectors)?;
        Ok(sectors)
    }
}

/// Whether a copy of `sources` to `destination`, all inside the drive, would overwrite what it copies.
pub(crate) fn check_overlap(destination: Lba, sectors: u64, sources: &[Range]) -> Result<(), CommandError> {
    let end = destination.get() + sectors;
    let hit = |source: &&Range| {
        let start = source.lba.get();
        start < end && destination.get() < start + u64::from(source.sectors)
    };
    match sources.iter().find(hit) {
        None => Ok(()),
        Some(source) => Err(CommandError::Overlap {
            source_lba: source.lba.get(),
            source_sectors: source.sectors.into(),
            destination: destination.get(),
            sectors,
        }),
    }
}
