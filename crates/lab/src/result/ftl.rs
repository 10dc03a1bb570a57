//! Counters of the translation layer and the non-volatile cache.
//!
//! Counters serialize where they are declared. [`GcResult`] lists its own: two derived figures stand between them, and
//! results keep their order of keys.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_ftl::{CopyStats, GcStats};
use strobe_ssd::{CommandKind, DriveStats, SlcStats};

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
