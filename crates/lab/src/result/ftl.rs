//! Counters of the translation layer and the non-volatile cache.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_ftl::{CopyStats, GcStats};
use strobe_ssd::{CommandKind, DriveStats, MergeStats, NvramStats, SlcStats, TranslationStats};

use crate::numbers::ratio;

/// A result that consists of the counters of `$stats`, under the same names.
macro_rules! counters_of {
    ($stats:ident, $(#[$about:meta])* pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident: u64,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
        pub struct $name { $($(#[$doc])* pub $field: u64,)+ }

        impl From<$stats> for $name {
            fn from($stats { $($field),+ }: $stats) -> Self {
                Self { $($field),+ }
            }
        }
    };
}

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

counters_of! {
    TranslationStats,
    /// Demand paging of the map.
    pub struct TranslationResult {
        /// Uses of a map entry for the host that found it cached.
        pub hits: u64,
        /// Uses of a map entry for the host that did not find it cached.
        pub misses: u64,
        /// Entries that had to make room.
        pub evictions: u64,
        /// Of these, those that had changed and so cost a program.
        pub dirty_evictions: u64,
        /// Translation pages read.
        pub tp_reads: u64,
        /// Translation pages programmed, but for those that garbage collection moved as they were.
        pub tp_programs: u64,
        /// Of these, because garbage collection had moved units whose entries were not cached.
        pub gc_tp_updates: u64,
    }
}

/// SLC cache, in mapping units and blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SlcResult {
    /// Units of the host written to blocks in SLC mode.
    pub units_cached: u64,
    /// Units of the host written directly to normal blocks.
    pub units_direct: u64,
    /// Blocks in SLC mode that were emptied; not among the victims of garbage collection.
    pub blocks_folded: u64,
    /// Valid units moved from there to normal blocks; not among those that garbage collection moved. Flash operations for
    /// it count under the cause gc.
    pub units_folded: u64,
    /// Blocks in SLC mode that were erased.
    pub blocks_erased: u64,
    /// Blocks that hold something in SLC mode, or are open in it, at the end.
    pub blocks_in_use: u32,
}

impl SlcResult {
    pub(crate) fn of(stats: &DriveStats, blocks_in_use: Option<u32>) -> Option<Self> {
        let SlcStats { units_cached, units_direct, blocks_folded, units_folded, blocks_erased } = stats.slc?;
        let blocks_in_use = blocks_in_use.unwrap_or(0);
        Some(Self { units_cached, units_direct, blocks_folded, units_folded, blocks_erased, blocks_in_use })
    }
}

counters_of! {
    MergeStats,
    /// Merges of log or replacement blocks.
    pub struct MergeResult {
        /// A log block became the data block as it was.
        pub switched: u64,
        /// A log or replacement block became the data block after the rest was copied to it.
        pub partial: u64,
        /// Everything was copied to an erased block.
        pub full: u64,
        /// Sectors copied.
        pub units_copied: u64,
        /// Blocks erased, or given up instead.
        pub blocks_erased: u64,
    }
}

counters_of! {
    NvramStats,
    /// Non-volatile write cache, in mapping units.
    pub struct NvramResult {
        /// Units written that it took, counted as it takes them; they are among the host's `pages_written` once their
        /// commands complete.
        pub write_units: u64,
        /// Units among them that replaced a version already in the cache.
        pub hits: u64,
        /// Units that host reads found there.
        pub read_hits: u64,
        /// Units written back to flash, to make room or before a copy.
        pub evicted_units: u64,
    }
}

counters_of! {
    CopyStats,
    /// Outcome of copy commands, in mapping units that were copied whole.
    pub struct CopyResult {
        /// Units copied by the map alone.
        pub logical_units: u64,
        /// Units copied by reading and programming.
        pub physical_units: u64,
        /// Of these, because the source had two owners already.
        pub third_owner_units: u64,
        /// Of these, because the virtual map was full.
        pub map_full_units: u64,
        /// Units of earlier logical copies that were read and programmed after all, so that a full virtual map could take
        /// another one (`drive.ftl.virtual_map_full = "copy-oldest"`); not among `physical_units`.
        pub late_units: u64,
    }
}

impl GcResult {
    pub(crate) fn of(stats: &DriveStats) -> Self {
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

impl CopyResult {
    pub(crate) fn of(stats: &DriveStats) -> Option<Self> {
        (stats.host.commands(CommandKind::Copy) > 0).then(|| stats.copies.into())
    }
}
