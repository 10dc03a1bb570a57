//! Counters of the translation layer and the non-volatile cache.
//!
//! Counters serialize where they are declared. [`GcResult`] lists its own: two derived figures stand between them, and
//! results keep their order of keys.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_ftl::{CopyStats, GcStats};
use strobe_nand::NandOp;
use strobe_ssd::{CommandKind, DriveStats, HandleCounts, Simulated, SlcStats};
use strobe_types::SECTOR_BYTES;

use crate::numbers::ratio;

/// Garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GcResult {
    /// Calls.
    pub runs: u64,
    /// Blocks emptied.
    pub victims: u64,
    /// Mapping units moved.
    pub units_moved: u64,
    /// Mapping units moved per block emptied.
    pub copies_per_erase: Option<f64>,
    /// Time for which dies were held by collection, merges, wear levelling and erases, added up over all dies, in ns.
    pub time_ns: u64,
    /// Programs that failed and were repeated elsewhere.
    pub program_failures: u64,
    /// Blocks emptied by static wear levelling; not among `victims`.
    pub wear_blocks: u64,
    /// Mapping units moved by static wear levelling; not among `units_moved`.
    pub wear_units_moved: u64,
    /// Blocks emptied because they had been read too often or had lain too long; among `victims`.
    pub refreshed_blocks: u64,
}

/// SLC cache, in mapping units and blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SlcResult {
    /// Its counters.
    #[serde(flatten)]
    pub counters: SlcStats,
    /// Blocks that hold something in SLC mode, or are open in it, at the end.
    pub blocks_in_use: u32,
}

/// Placement handles within a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HandlesResult {
    /// Bytes of a reclaim unit.
    pub unit_bytes: u64,
    /// Each handle, by number.
    pub handles: Vec<HandleResult>,
    /// Bytes programmed for no handle alone: relocated data of initially isolated handles, the map, wear levelling. With
    /// those of all handles it is all that the chips programmed.
    pub shared_media_bytes: u64,
}

/// One placement handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HandleResult {
    /// Bytes that the host wrote or copied, as mapping units that left the write caches.
    pub host_bytes: u64,
    /// Bytes programmed in blocks of the handle, relocation and padding included.
    pub media_bytes: u64,
}

impl HandlesResult {
    /// Of a window of `drive`; `None` if the host does not choose streams by handle.
    pub fn of(stats: &DriveStats, drive: &dyn Simulated) -> Option<Self> {
        let (units, geometry) = (drive.reclaim_units()?, drive.geometry());
        let bytes = |pages: u64| pages * u64::from(geometry.page_bytes());
        let of = |counts: &HandleCounts| HandleResult {
            host_bytes: counts.host_units * u64::from(geometry.unit_bytes()),
            media_bytes: bytes(counts.pages),
        };
        let handles: Vec<HandleResult> =
            stats.handles.iter().take(units.sectors_left.len()).map(of).collect();
        let own: u64 = handles.iter().map(|handle| handle.media_bytes).sum();
        let programmed = bytes(stats.nand.total(NandOp::Program));
        Some(Self {
            unit_bytes: units.unit_sectors * SECTOR_BYTES,
            handles,
            shared_media_bytes: programmed.saturating_sub(own),
        })
    }
}

impl SlcResult {
    /// Of a window, and of the blocks in SLC mode at its end; `None` without a cache.
    pub fn of(stats: &DriveStats, blocks_in_use: Option<u32>) -> Option<Self> {
        Some(Self { counters: stats.slc?, blocks_in_use: blocks_in_use.unwrap_or(0) })
    }
}

impl GcResult {
    /// Of a window.
    pub fn of(stats: &DriveStats) -> Self {
        let GcStats {
            runs,
            victims,
            units_moved,
            program_failures,
            wear_blocks,
            wear_units_moved,
            refreshed_blocks,
        } = stats.gc;
        let copies_per_erase = ratio(units_moved, victims);
        Self {
            runs,
            victims,
            units_moved,
            copies_per_erase,
            time_ns: stats.background_ns(),
            program_failures,
            wear_blocks,
            wear_units_moved,
            refreshed_blocks,
        }
    }
}

/// Outcome of copy commands; `None` if there were none.
pub fn copies(stats: &DriveStats) -> Option<CopyStats> {
    (stats.host.commands(CommandKind::Copy) > 0).then_some(stats.copies)
}
