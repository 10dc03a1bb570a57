use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::Lba;

use crate::command::{CommandKind, RANGES_MAX, Range};
use crate::error::{CommandError, Limit};

/// The largest commands that the drive takes, in sectors of 512 bytes; in parentheses the NVMe name of each
/// limit. 0: no limit except the 256 ranges of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Ranges of a trim (DMRL). An ATA drive that takes one 512-byte block of ranges has 64. 0: 256, the
    /// maximum of the format. Default 0.
    #[schemars(range(min = 0, max = 256))]
    pub trim_ranges: u32,
    /// Sectors of each range of a trim (DMRSL). ATA's format holds 65535. 0: no limit. Default 0.
    #[schemars(range(min = 0, max = 4_294_967_295u32))]
    pub trim_range_sectors: u32,
    /// Sectors of all ranges of a trim (DMSL). 0: no limit. Default 0.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807u64))]
    pub trim_sectors: u64,
    /// Source ranges of a copy (MSRC, which NVMe counts from 0). 0: 256, the maximum of the format. Default
    /// 0.
    #[schemars(range(min = 0, max = 256))]
    pub copy_ranges: u32,
    /// Sectors of each source range of a copy (MSSRL). 0: no limit. Default 0.
    #[schemars(range(min = 0, max = 4_294_967_295u32))]
    pub copy_range_sectors: u32,
    /// Sectors of all source ranges of a copy (MCL). 0: no limit. Default 0.
    #[schemars(range(min = 0, max = 4_294_967_295u32))]
    pub copy_sectors: u32,
}

/// Limits on the ranges of a command; 0: no limit.
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
    /// Rejects `ranges` beyond the limits; returns the sum of their sectors.
    pub(crate) fn check(self, kind: CommandKind, ranges: &[Range]) -> Result<u64, CommandError> {
        if ranges.is_empty() || ranges.len() > RANGES_MAX {
            return Err(CommandError::Ranges { op: kind, ranges: ranges.len() });
        }
        // A limit of 0 allows any value.
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

/// Rejects a copy whose destination overlaps a source. All ranges must lie inside the drive.
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
