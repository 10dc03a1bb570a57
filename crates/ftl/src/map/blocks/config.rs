//! The choices of a block-mapped drive, and whether they work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_nand::Nand;
use strobe_types::{BlockId, Geometry, named};

use crate::journal::TrimsDemand;

named! {
    /// A block-mapped scheme.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BlockScheme {
        /// Chains of blocks with each sector at the same offset, as in NFTL (Ban 1995). Needs a chip that takes
        /// the pages of a block in any order.
        ReplacementBlock => "replacement-block",
        /// One log block per data block, as in BAST (Kim et al. 2002), with fill-up and switch.
        LogBlock => "log-block",
        /// Log blocks shared by all data blocks, one of them for sequential writes (FAST, Lee et al. 2007).
        Fast => "fast",
    }
}

/// Log block that is merged when another one is needed and none is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogVictim {
    /// The one written longest ago.
    #[default]
    Lru,
    /// The one written last.
    Mru,
    /// The one opened first.
    Fifo,
    /// The one with the most pages programmed; ties: the first in the table of log blocks. A new log block takes the
    /// first free slot of that table.
    Fullest,
    /// The one with the fewest pages programmed; ties: written longest ago.
    Emptiest,
}

/// A block-mapped drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMapConfig {
    /// Rules for the place of writes and the choice of merges.
    pub scheme: BlockScheme,
    /// Logical sectors offered to the host; a sector is a mapping unit, and fills a flash page.
    pub logical_units: u32,
    /// Replacement or log blocks, at least 2.
    pub log_blocks: u32,
    /// Log block that is merged when none is left; only [`BlockScheme::LogBlock`] has a choice.
    pub log_victim: LogVictim,
    /// Blocks kept beyond what is needed, for media faults.
    pub fault_reserve: u32,
    /// True if the drive survives a power cut. A log on flash then keeps its trims.
    pub durable: bool,
}

/// Blocks beyond data and log blocks: one to merge into, one more to find everything again with after a
/// power cut in a merge.
const SPARE_BLOCKS: u32 = 2;

impl BlockMapConfig {
    /// Everything else at its default.
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

    /// Good blocks among them that are reserved for the map.
    pub fn map_blocks(&self, geometry: &Geometry) -> u32 {
        if self.durable { self.trims_demand().blocks(geometry) } else { 0 }
    }

    /// Size of the log of trims.
    pub(super) fn trims_demand(&self) -> TrimsDemand {
        TrimsDemand {
            logical_units: self.logical_units,
            virtual_map_entries: 0,
            fault_reserve: self.fault_reserve,
        }
    }

    /// Most logical units that `usable_blocks` good blocks can serve with these choices.
    pub fn room_units(&self, geometry: &Geometry, usable_blocks: u32) -> u32 {
        let fits = |&blocks: &u32| {
            let logical_units = blocks * geometry.pages_per_block();
            Self { logical_units, ..*self }.blocks_needed(geometry) <= usable_blocks
        };
        (0..=usable_blocks).rev().find(fits).unwrap_or(0) * geometry.pages_per_block()
    }

    /// Refuses a `nand` on which a drive with these choices cannot work.
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
                room: self.room_units(geometry, usable),
            });
        }
        Ok(())
    }

    /// Bytes of host memory beside the chip.
    pub fn memory_bytes(&self, geometry: &Geometry) -> u64 {
        let trims = if self.durable { self.trims_demand().bytes() } else { 0 };
        u64::from(self.logical_units) * 4 + u64::from(geometry.blocks()) * 24 + trims
    }
}

/// Why a block-mapped drive cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockMapError {
    /// Too few blocks.
    #[error(
        "{scheme} needs {needed} good blocks: {data} for data, {log} log or replacement blocks, the rest to \
         merge into, for faults and for trims; the drive has {usable}, enough for {room} mapping units"
    )]
    TooFewBlocks {
        /// Name of the scheme.
        scheme: &'static str,
        /// Good blocks needed.
        needed: u32,
        /// Of these, for data.
        data: u32,
        /// Of these, log or replacement blocks.
        log: u32,
        /// Good blocks there are.
        usable: u32,
        /// Logical units that they could serve.
        room: u32,
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
    /// Not enough log blocks to work with.
    #[error("{scheme} needs at least 2 log or replacement blocks, drive.ftl.log_blocks is {given}")]
    FewLogBlocks {
        /// Name of the scheme.
        scheme: &'static str,
        /// The value given.
        given: u32,
    },
}
