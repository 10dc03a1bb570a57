use schemars::JsonSchema;
use serde::Serialize;
use strobe_types::{Counters, Stored, counters};

counters! {
    /// Counters of garbage collection.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct GcStats {
        /// Collections run.
        pub runs: u64,
        /// Blocks emptied.
        pub victims: u64,
        /// Of `victims`, blocks chosen for their fewest valid units, after the policy's victims gained too
        /// little.
        pub overruled: u64,
        /// Valid units moved.
        pub units_moved: u64,
        /// Failed programs, each repeated elsewhere.
        pub program_failures: u64,
        /// Failed erases; each takes its block out of service.
        pub erase_failures: u64,
        /// Blocks emptied by static wear levelling, not counted in `victims`.
        pub wear_blocks: u64,
        /// Valid units moved by static wear levelling, not counted in `units_moved`.
        pub wear_units_moved: u64,
        /// Of `victims`, blocks emptied because of too many reads or too long retention.
        pub refreshed_blocks: u64,
    }

    /// Outcome of copy commands, in whole mapping units.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub struct CopyStats {
        /// Units copied by remapping only.
        pub logical_units: u64,
        /// Units copied by reading and programming.
        pub physical_units: u64,
        /// Of `physical_units`, copied because the source already had two owners.
        pub third_owner_units: u64,
        /// Of `physical_units`, copied because the virtual map was full.
        pub map_full_units: u64,
    }

    /// Counters of the SLC cache, in mapping units and blocks.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub struct SlcStats {
        /// Host units written to SLC blocks.
        pub units_cached: u64,
        /// Host units written directly to normal blocks.
        pub units_direct: u64,
        /// SLC blocks emptied, not counted as victims of garbage collection.
        pub blocks_folded: u64,
        /// Valid units moved from SLC to normal blocks, not counted as moved by garbage collection. Their
        /// flash operations have the cause gc.
        pub units_folded: u64,
        /// SLC blocks erased.
        pub blocks_erased: u64,
    }

    /// Merges of log or replacement blocks.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub struct MergeStats {
        /// Switch merges: a log block became the data block unchanged.
        pub switched: u64,
        /// Partial merges: a log or replacement block became the data block after the rest was copied.
        pub partial: u64,
        /// Full merges: everything was copied to an erased block.
        pub full: u64,
        /// Sectors copied.
        pub units_copied: u64,
        /// Blocks erased, or retired instead of erased.
        pub blocks_erased: u64,
        /// Log or replacement blocks merged.
        pub logs: u64,
        /// Pages programmed in merged log or replacement blocks at the time of the merge.
        pub log_pages: u64,
        /// Of `logs`, those merged to free a slot within 200 host writes of their opening; log-block scheme
        /// only.
        pub thrashed_logs: u64,
    }

    /// Demand paging of the map.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub struct TranslationStats {
        /// Host accesses to cached map entries.
        pub hits: u64,
        /// Host accesses to map entries not cached.
        pub misses: u64,
        /// Entries evicted.
        pub evictions: u64,
        /// Of `evictions`, modified entries; each costs a program.
        pub dirty_evictions: u64,
        /// Translation pages read.
        pub tp_reads: u64,
        /// Translation pages programmed, except those that garbage collection relocated unchanged.
        pub tp_programs: u64,
        /// Of `tp_programs`, caused by garbage collection of units whose entries were not cached.
        pub gc_tp_updates: u64,
    }
}

/// Counters of a mapping scheme since it was built. They survive a power cut, except that a journaled map
/// sets `host_units_written` back to its last epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Stored)]
pub struct FtlStats {
    /// Units written for the host.
    pub host_units_written: u64,
    /// Garbage collection.
    pub gc: GcStats,
    /// Copy commands.
    pub copies: CopyStats,
    /// Merges; `None` in schemes without merges.
    pub merges: Option<MergeStats>,
    /// Demand paging; `None` without a paged map.
    pub translation: Option<TranslationStats>,
    /// SLC cache; `None` in drives without one.
    pub slc: Option<SlcStats>,
    /// `host_units_written` when each block went bad in use, in order.
    pub bad_block_host_writes: Vec<u64>,
}

impl FtlStats {
    pub(crate) fn continue_from(&mut self, before: Self) {
        self.gc = before.gc.and(&self.gc);
        self.copies = before.copies.and(&self.copies);
        self.merges = before.merges.combine(&self.merges, u64::saturating_add);
        self.translation = before.translation.combine(&self.translation, u64::saturating_add);
        self.slc = before.slc.combine(&self.slc, u64::saturating_add);
        self.bad_block_host_writes.splice(0..0, before.bad_block_host_writes);
    }

    pub(crate) fn merges(&mut self) -> &mut MergeStats {
        self.merges.get_or_insert_default()
    }

    pub(crate) fn slc(&mut self) -> &mut SlcStats {
        self.slc.get_or_insert_default()
    }

    #[inline]
    pub(crate) fn translation(&mut self) -> &mut TranslationStats {
        self.translation.get_or_insert_default()
    }
}
