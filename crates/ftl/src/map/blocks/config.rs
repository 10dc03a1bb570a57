use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_nand::Nand;
use strobe_types::{BlockId, Geometry, named};

use crate::journal::TrimsDemand;

named! {
    /// A block-mapped scheme.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BlockScheme {
        /// Chains of blocks with each sector at the same offset, as in NFTL (Ban 1995). Requires a chip that
        /// programs the pages of a block in any order.
        ReplacementBlock => "replacement-block",
        /// One log block per data block, as in BAST (Kim et al. 2002), with fill-up and switch.
        LogBlock => "log-block",
        /// Log blocks shared by all data blocks, one of them for sequential writes (FAST, Lee et al. 2007).
        Fast => "fast",
    }
}

/// Choice of the log block to merge when all are in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogVictim {
    /// The least recently written one.
    #[default]
    Lru,
    /// The most recently written one.
    Mru,
    /// The one opened first.
    Fifo,
    /// The one with the most programmed pages. Ties go to the first in the table of log blocks, where a new log block
    /// takes the first free slot.
    Fullest,
    /// The one with the fewest programmed pages. Ties go to the least recently written one.
    Emptiest,
}

/// Configuration of a block-mapped drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMapConfig {
    /// Scheme that places writes and chooses merges.
    pub scheme: BlockScheme,
    /// Logical sectors offered to the host. A sector is a mapping unit and fills a flash page.
    pub logical_units: u32,
    /// Number of replacement or log blocks, at least 2.
    pub log_blocks: u32,
    /// Log block to merge when all are in use. Only [`BlockScheme::LogBlock`] has a choice.
    pub log_victim: LogVictim,
    /// Additional blocks for media faults.
    pub fault_reserve: u32,
    /// True if the drive survives a power cut. A log on flash then stores its trims.
    pub durable: bool,
}

/// Blocks in addition to data and log blocks: one as merge target, and one that recovery needs after a power
/// cut in a merge.
const SPARE_BLOCKS: u32 = 2;

impl BlockMapConfig {
    /// Default settings.
    pub const fn new(scheme: BlockScheme, logical_units: u32, log_blocks: u32) -> Self {
        Self {
            scheme,
            logical_units,
            log_blocks,
            log_victim: LogVictim::Lru,
            fault_reserve: 0,
            durable: false,
        }
    }

    /// Good blocks needed on `geometry`.
    pub fn blocks_needed(&self, geometry: &Geometry) -> u32 {
        let data = self.logical_units.div_ceil(geometry.pages_per_block());
        data.saturating_add(self.log_blocks)
            .saturating_add(SPARE_BLOCKS + self.fault_reserve)
            .saturating_add(self.map_blocks(geometry))
    }

    /// Good blocks among these that are reserved for the map.
    pub fn map_blocks(&self, geometry: &Geometry) -> u32 {
        if self.durable { self.trims_demand().blocks(geometry) } else { 0 }
    }

    pub(super) fn trims_demand(&self) -> TrimsDemand {
        TrimsDemand {
            logical_units: self.logical_units,
            virtual_map_entries: 0,
            fault_reserve: self.fault_reserve,
        }
    }

    /// Maximum logical units that `usable_blocks` good blocks can serve with these settings.
    pub fn capacity_units(&self, geometry: &Geometry, usable_blocks: u32) -> u32 {
        let fits = |&blocks: &u32| {
            let logical_units = blocks * geometry.pages_per_block();
            Self { logical_units, ..*self }.blocks_needed(geometry) <= usable_blocks
        };
        (0..=usable_blocks).rev().find(fits).unwrap_or(0) * geometry.pages_per_block()
    }

    pub(super) fn check<N: Nand>(&self, nand: &N) -> Result<(), BlockMapError> {
        let (scheme, geometry) = (self.scheme.name(), nand.geometry());
        if geometry.units_per_page() != 1 {
            return Err(BlockMapError::UnitIsNoPage(scheme));
        }
        if self.scheme == BlockScheme::ReplacementBlock && !nand.takes_any_order() {
            return Err(BlockMapError::InOrder(scheme));
        }
        if self.log_blocks < 2 {
            return Err(BlockMapError::FewLogBlocks { scheme, given: self.log_blocks });
        }
        let blocks = (0..geometry.blocks()).map(BlockId::new);
        let usable = blocks.filter(|&block| !nand.block(block).bad).count() as u32;
        let needed = self.blocks_needed(geometry);
        if needed > usable {
            return Err(BlockMapError::TooFewBlocks {
                scheme,
                needed,
                data: self.logical_units.div_ceil(geometry.pages_per_block()),
                log: self.log_blocks,
                usable,
                capacity: self.capacity_units(geometry, usable),
            });
        }
        Ok(())
    }

    /// Host memory in bytes, without the chip.
    pub fn memory_bytes(&self, geometry: &Geometry) -> u64 {
        let trims = if self.durable { self.trims_demand().bytes() } else { 0 };
        u64::from(self.logical_units) * 4 + u64::from(geometry.blocks()) * 24 + trims
    }
}

/// Reason why a block-mapped drive cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockMapError {
    /// Too few blocks.
    #[error(
        "{scheme} needs {needed} good blocks: {data} for data, {log} log or replacement blocks, the rest for \
         merges, faults and trims; the drive has {usable}, enough for {capacity} mapping units"
    )]
    TooFewBlocks {
        /// Name of the scheme.
        scheme: &'static str,
        /// Good blocks needed.
        needed: u32,
        /// Needed for data.
        data: u32,
        /// Needed as log or replacement blocks.
        log: u32,
        /// Good blocks of the drive.
        usable: u32,
        /// Logical units that these blocks could serve.
        capacity: u32,
    },
    /// Sectors are smaller than pages.
    #[error("{0} maps whole flash pages: drive.ftl.mapping_unit_bytes must equal drive.nand.page_bytes")]
    UnitIsNoPage(&'static str),
    /// The scheme programs pages out of order.
    #[error(
        "{0} writes the pages of a block in any order, which this chip does not allow; small-page SLC \
         does: drive.nand.any_page_order = true"
    )]
    InOrder(&'static str),
    /// Too few log blocks.
    #[error("{scheme} needs at least 2 log or replacement blocks, drive.ftl.log_blocks is {given}")]
    FewLogBlocks {
        /// Name of the scheme.
        scheme: &'static str,
        /// Configured number of log blocks.
        given: u32,
    },
}
