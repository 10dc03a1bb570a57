//! The `[drive.controller.nvram]` table: the non-volatile write cache.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Writes that are stored in the non-volatile write cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NvramPolicyName {
    /// All writes.
    #[default]
    Lru,
    /// Writes into `ranges`, for example where a file system keeps its metadata (the FATs of VFAT).
    LbaRange,
    /// Writes before the data area of a FAT volume that begins at sector 0: its boot sectors, allocation
    /// tables, and the root directory of FAT12 and FAT16. The drive learns their extent when the host writes
    /// the boot sector.
    Fat,
    /// Writes whose command is marked as metadata. Traces of blkparse and blktrace (M in RWBS) and Strobe's
    /// own traces carry this mark; generators, other traces and guests do not.
    Hint,
}

/// A range of sectors of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SectorRange {
    /// First sector of 512 bytes.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807u64))]
    pub first_sector: u64,
    /// Number of sectors.
    #[schemars(range(min = 1, max = 9_223_372_036_854_775_807u64))]
    pub sectors: u64,
}

/// Maximum number of ranges in [`NvramConfig::ranges`].
pub const NVRAM_RANGES_MAX: usize = 64;

/// Non-volatile write cache (NVRAM) in front of the write buffer. Its content survives a power cut: a write
/// is complete once it is in the cache, and a flush need not empty the cache. Data overwritten in the cache
/// costs no flash program. A full cache evicts the least recently read or written data to flash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NvramConfig {
    /// Size in bytes, rounded up to whole mapping units. 0: no cache. Default 0.
    #[schemars(range(min = 0, max = 1_099_511_627_776u64))]
    pub bytes: u64,
    /// Writes that are stored in the cache. lru: all writes. lba-range: writes into ranges. fat: writes
    /// before the data area of a FAT volume that begins at sector 0, once the host has written its boot
    /// sector. hint: writes marked as metadata. Under every policy, writes to a unit already in the cache are
    /// cached. Default lru.
    pub policy: NvramPolicyName,
    /// Sector ranges whose writes are cached, up to 64. A mapping unit that a range touches belongs to it.
    /// lba-range needs at least one. Default none.
    #[schemars(length(max = 64))]
    #[schemars(extend("x-needs" = {"policy": ["lba-range"]}))]
    pub ranges: Vec<SectorRange>,
    /// Access time of a host read of a mapping unit in the cache, in ns; accesses are serialised. Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub read_ns: u64,
    /// Access time of a write of a mapping unit to the cache, in ns; accesses are serialised. Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub write_ns: u64,
}

/// Reason to reject `[drive.controller.nvram]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NvramError {
    /// The policy lba-range without ranges.
    #[error(
        "policy is \"lba-range\", but ranges is empty: add ranges such as \
         [{{ first_sector = 0, sectors = 256 }}], or choose lru or hint"
    )]
    NoRanges,
    /// The policy fat on a drive that stores no bytes, so it cannot read the boot sector.
    #[error(
        "policy is \"fat\", which reads the boot sector that a host writes: set drive.nand.data = \"bytes\", or give ranges \
         and choose lba-range"
    )]
    NoBytes,
    /// Too many ranges.
    #[error("ranges has {0} entries, at most {max} are allowed: merge some", max = NVRAM_RANGES_MAX)]
    ManyRanges(usize),
    /// A range that is empty or exceeds the drive.
    #[error(
        "ranges has {sectors} sectors from sector {first_sector} on: give 1 sector or more, all below \
         {drive_sectors}, the sectors of the drive"
    )]
    Range {
        /// First sector.
        first_sector: u64,
        /// Number of sectors.
        sectors: u64,
        /// Sectors of the drive.
        drive_sectors: u64,
    },
}

impl NvramConfig {
    /// True if metadata marks on writes have an effect.
    pub fn takes_hints(&self) -> bool {
        self.bytes > 0 && self.policy == NvramPolicyName::Hint
    }

    /// Rejects a cache that a drive of `drive_sectors` sectors cannot have. All keys are checked even for a
    /// cache of 0 bytes, because a sweep may begin with 0.
    pub(crate) fn check(&self, drive_sectors: u64, keeps_bytes: bool) -> Result<(), NvramError> {
        match self.ranges.len() {
            _ if self.policy == NvramPolicyName::Fat && !keeps_bytes => return Err(NvramError::NoBytes),
            0 if self.policy == NvramPolicyName::LbaRange => return Err(NvramError::NoRanges),
            count if count > NVRAM_RANGES_MAX => return Err(NvramError::ManyRanges(count)),
            _ => {}
        }
        let is_inside = |range: &&SectorRange| {
            let end = range.first_sector.checked_add(range.sectors);
            range.sectors > 0 && end.is_some_and(|end| end <= drive_sectors)
        };
        match self.ranges.iter().find(|range| !is_inside(range)) {
            None => Ok(()),
            Some(&SectorRange { first_sector, sectors }) => {
                Err(NvramError::Range { first_sector, sectors, drive_sectors })
            }
        }
    }
}
