//! [`GcResult`] repeats the counters of the FTL: the order of keys in results is fixed, with derived figures
//! between the counters.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_ftl::{CopyStats, GcStats};
use strobe_ssd::{CommandKind, DriveStats, SlcStats};

use crate::numbers::ratio;

/// Garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GcResult {
    /// Collections run because free blocks fell below the trigger.
    pub runs: u64,
    /// Blocks emptied.
    pub victims: u64,
    /// Of `victims`, those not chosen by the policy: its choice would have freed nothing, so the block with
    /// the fewest valid units was taken.
    pub overruled: u64,
    /// Mapping units moved.
    pub units_moved: u64,
    /// Mapping units moved per block emptied.
    pub copies_per_erase: Option<f64>,
    /// Time during which dies were held by collection, merges, wear levelling and erases, summed over all
    /// dies, in ns.
    pub time_ns: u64,
    /// Programs that failed and were repeated elsewhere.
    pub program_failures: u64,
    /// Erases that failed; their blocks left service.
    pub erase_failures: u64,
    /// Blocks emptied by static wear levelling; not counted in `victims`.
    pub wear_blocks: u64,
    /// Mapping units moved by static wear levelling; not counted in `units_moved`.
    pub wear_units_moved: u64,
    /// Of `victims`, blocks emptied because of too many reads or too long retention.
    pub refreshed_blocks: u64,
}

/// SLC cache, in mapping units and blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SlcResult {
    /// Counters of the cache.
    #[serde(flatten)]
    pub counters: SlcStats,
    /// Blocks with content or open in SLC mode, at the end of the window.
    pub blocks_in_use: u32,
}

impl SlcResult {
    /// Result of a window, with the blocks in SLC mode at its end; `None` without a cache.
    pub fn of(stats: &DriveStats, blocks_in_use: Option<u32>) -> Option<Self> {
        Some(Self { counters: stats.slc?, blocks_in_use: blocks_in_use.unwrap_or(0) })
    }
}

impl GcResult {
    /// Result of a window.
    pub fn of(stats: &DriveStats) -> Self {
        let GcStats {
            runs,
            victims,
            overruled,
            units_moved,
            program_failures,
            erase_failures,
            wear_blocks,
            wear_units_moved,
            refreshed_blocks,
        } = stats.gc;
        let copies_per_erase = ratio(units_moved, victims);
        Self {
            runs,
            victims,
            overruled,
            units_moved,
            copies_per_erase,
            time_ns: stats.background_ns(),
            program_failures,
            erase_failures,
            wear_blocks,
            wear_units_moved,
            refreshed_blocks,
        }
    }
}

/// Outcome of copy commands; `None` without any.
pub fn copies(stats: &DriveStats) -> Option<CopyStats> {
    (stats.host.commands(CommandKind::Copy) > 0).then_some(stats.copies)
}
