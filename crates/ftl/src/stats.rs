//! Counters of a flash translation layer, as plain numbers.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_types::{Counters, Stored, counters};

counters! {
    /// Counters of garbage collection.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct GcStats {
        /// Calls: times that free blocks had fallen below the trigger.
        pub runs: u64,
        /// Blocks emptied.
        pub victims: u64,
        /// Valid units moved.
        pub units_moved: u64,
        /// Programs that failed and were repeated elsewhere.
        pub program_failures: u64,
        /// Blocks emptied by static wear levelling; not among `victims`.
        pub wear_blocks: u64,
        /// Valid units moved by static wear levelling; not among `units_moved`.
        pub wear_units_moved: u64,
        /// Blocks emptied because they had been read too often or had lain too long; among `victims`.
        pub refreshed_blocks: u64,
    }

    /// Outcome of copy commands, in mapping units that were copied whole.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub struct CopyStats {
        /// Units copied by the map alone.
        pub logical_units: u64,
        /// Units copied by reading and programming.
        pub physical_units: u64,
        /// Of these, because the source had two owners already.
        pub third_owner_units: u64,
        /// Of these, because the virtual map was full.
        pub map_full_units: u64,
    }

    /// Counters of the SLC cache, in mapping units and blocks.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub struct SlcStats {
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
    }

    /// Merges of log or replacement blocks.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub struct MergeStats {
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
        /// Log or replacement blocks merged.
        pub logs: u64,
        /// Pages programmed in these when they were merged.
        pub log_pages: u64,
        /// Of `logs`, those that had to make room for another one within 200 host writes of their opening. Only log-block
        /// counts them.
        pub thrashed_logs: u64,
    }

    /// Demand paging of the map.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub struct TranslationStats {
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

/// All that a mapping scheme has done since it was built. A power cut sets none of it back but
/// `host_units_written`, and that only where the map on flash says how many there were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
pub struct FtlStats {
    /// Units written for the host.
    pub host_units_written: u64,
    /// Garbage collection.
    pub gc: GcStats,
    /// Copy commands.
    pub copies: CopyStats,
    /// Merges, of a scheme that merges.
    pub merges: Option<MergeStats>,
    /// Demand paging, of a scheme whose map is paged.
    pub translation: Option<TranslationStats>,
    /// The SLC cache, of a drive that has one.
    pub slc: Option<SlcStats>,
    /// `host_units_written` when each block that went bad in use did, in order.
    pub bad_block_host_writes: Vec<u64>,
}

impl FtlStats {
    /// Counts on from `before`, the same drive's numbers before a power cut.
    pub(crate) fn continue_from(&mut self, before: Self) {
        self.gc = before.gc.and(&self.gc);
        self.copies = before.copies.and(&self.copies);
        self.merges = before.merges.combine(&self.merges, u64::saturating_add);
        self.translation = before.translation.combine(&self.translation, u64::saturating_add);
        self.slc = before.slc.combine(&self.slc, u64::saturating_add);
        self.bad_block_host_writes.splice(0..0, before.bad_block_host_writes);
    }

    /// The counters of a scheme that merges.
    pub(crate) fn merges(&mut self) -> &mut MergeStats {
        self.merges.get_or_insert_default()
    }

    /// The counters of a drive with an SLC cache.
    pub(crate) fn slc(&mut self) -> &mut SlcStats {
        self.slc.get_or_insert_default()
    }

    /// The counters of a scheme whose map is paged.
    #[inline]
    pub(crate) fn translation(&mut self) -> &mut TranslationStats {
        self.translation.get_or_insert_default()
    }
}
