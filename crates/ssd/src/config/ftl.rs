//! The `[drive.ftl]` table: mapping, capacity, allocation, wear levelling.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_ftl::{Allocation, DieAllocation, LogVictim, Refresh, SlcConfig};
use strobe_types::{defaults, is_default};

use super::durable::DurableMap;
use super::gc::GcConfig;
use super::placement::PlacementTable;

/// Flash translation layer: mapping, capacity, garbage collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FtlConfig {
    /// Mapping scheme; see `strobe list mappings`.
    #[serde(default = "page")]
    pub mapping: String,
    /// Bytes that one map entry stands for: a power of two from 512, dividing page_bytes.
    #[schemars(range(min = 512, max = 1_048_576))]
    pub mapping_unit_bytes: u32,
    /// Mapping units offered to the host. Give this or over_provisioning; if both are there, this
    /// counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_294u32))]
    pub logical_pages: Option<u32>,
    /// Spare share of flash, (physical − logical) / logical. Give this or logical_pages; without
    /// either it is 0.07.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 10.0))]
    pub over_provisioning: Option<f64>,
    /// Choice of the erased block opened next: fifo, least-erased, adaptive or above-average. Default fifo.
    #[serde(default)]
    pub allocation: Allocation,
    /// Die of the next pages: free-first (the one with the least work waiting), stripe (in turn) or by-address (the
    /// number of the page in the logical space modulo that of the planes; pages of a plane without an erased block go to
    /// another one; needs gc.mode = "stop-the-world"). Default free-first.
    #[serde(default)]
    pub die_allocation: DieAllocation,
    /// Data placement: which data shares blocks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub placement: PlacementTable,
    /// Method of copy commands: physical or logical. Default physical.
    #[serde(default)]
    pub copy_mode: CopyMode,
    /// Entries of the virtual map of logical copies, each a mapping unit that two addresses share;
    /// beyond them, copies are physical. RAM: 16 bytes each, and 4 per flash unit. Default 65,536.
    #[serde(default = "virtual_map_entries")]
    #[schemars(range(min = 1, max = 268_435_456))]
    pub virtual_map_entries: u32,
    /// Durable form of the map, which survives a power cut. true: a journal with checkpoints in reserved blocks,
    /// written at every flush, before a block is opened and before garbage is erased. pages: map pages among the
    /// data; those with changes are programmed at every flush and when the host's open block is exchanged. All map
    /// entries are in memory in both forms; pages needs mapping = "page". Programs have cause map, or meta for
    /// journal pages that hold mostly the virtual map of logical copies. Default false: the map is in memory only
    /// and costs nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub durable_map: DurableMap,
    /// True if owners' lists (P2L: the logical units of each block) are on flash, programmed with the map pages. A list is
    /// due when its block is full, and again when a logical copy, or the write or trim that ends the sharing, has changed
    /// owners in it. Needs map pages. Cause p2l. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owner_lists: bool,
    /// True if each flush ends with a page of metadata on every plane (open and free blocks, erase counts), behind the map
    /// pages. Needs map pages. Cause map. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flush_metadata: bool,
    /// Good blocks reserved for the durable map, if that is more than it needs, which is eight times the
    /// map and three blocks. Default 0.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(range(min = 0, max = 16_777_216))]
    pub map_blocks: u32,
    /// Log or replacement blocks of a block-mapped scheme (replacement-block, log-block, fast). Default 64.
    #[serde(default = "log_blocks", skip_serializing_if = "is_default_log_blocks")]
    #[schemars(range(min = 2, max = 16_777_216))]
    pub log_blocks: u32,
    /// Log block that log-block merges when it needs another one and none is left. lru: written longest ago.
    /// mru: written last. fifo: opened first. fullest: most pages programmed; ties: the first in
    /// the table of log blocks, where a new one takes the first free slot. emptiest: fewest pages programmed; ties:
    /// written longest ago. Default lru.
    #[serde(default, skip_serializing_if = "is_default")]
    pub log_victim: LogVictim,
    /// SLC cache: writes of the host go to blocks in SLC mode first; only page has it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub slc_cache: SlcConfig,
    /// Demand paging of the map; only dftl has it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub translation: TranslationTable,
    /// Garbage collection.
    #[serde(default)]
    pub gc: GcConfig,
    /// Pages that are together before they are programmed: of the write buffer, and of copies. 0: a page on each plane of
    /// all dies, and of one die, so that planes share the time of the array; 1: each page as soon as it is there, alone if its die is free
    /// and with those behind it if not. Default 0.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(range(min = 0, max = 65_536))]
    pub batch_pages: u32,
    /// Static wear levelling.
    #[serde(default)]
    pub wear_leveling: WearLevelingConfig,
    /// Refresh: moving data before its pages need many retries.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refresh: RefreshTable,
}

defaults! {
    /// Refresh: blocks are moved that have been read too often or have lain too long. Reads are looked at as they happen;
    /// age as commands come, with each write and each read one block further.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct RefreshTable {
        /// Moves a block after so many reads of its pages since its erase, retries included. 0: reads do not matter.
        /// Default 0.
        #[schemars(range(min = 0, max = 4_294_967_295u32))]
        pub reads: u32 = 0;
        /// Moves a block so many days after its first page was programmed, at drive.nand.read_retry.days_per_second. 0: time
        /// does not matter. Default 0.
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        pub days: f64 = 0.0;
    }
}

impl RefreshTable {
    /// Refresh settings of a map where `days_per_second` days pass in a second; `None` if blocks are never
    /// refreshed.
    ///
    /// The map counts in ns; days depend on a key of another table.
    pub(crate) fn get(&self, days_per_second: f64) -> Option<Refresh> {
        let after_ns = (self.days > 0.0).then(|| (self.days / days_per_second * 1e9) as u64);
        let reads = (self.reads > 0).then_some(self.reads);
        (reads.is_some() || after_ns.is_some()).then_some(Refresh { reads, after_ns })
    }
}

fn page() -> String {
    "page".to_owned()
}

fn log_blocks() -> u32 {
    64
}

fn is_default_log_blocks(number: &u32) -> bool {
    *number == log_blocks()
}

fn virtual_map_entries() -> u32 {
    1 << 16
}

defaults! {
    /// Demand paging of the map (DFTL): the whole map is on flash, in translation pages, and the drive's memory
    /// holds the entries in use.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct TranslationTable {
        /// Map entries cached, about 8 bytes of the drive's memory each. Default 4096.
        #[schemars(range(min = 1, max = 4_294_967_294u32))]
        pub cached_entries: u32 = 4096;
        /// True if programming a translation page also writes its other changed cache entries, not only the
        /// evicted one. Default true.
        pub batched_eviction: bool = true;
    }
}

/// Method of copy commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CopyMode {
    /// By reading and programming.
    #[default]
    Physical,
    /// By pointing both addresses to the same flash unit (logical copy: Kang, Han & Shin).
    Logical,
}

/// Ways of static wear levelling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WearLevelingName {
    /// None.
    #[default]
    None,
    /// Hot-cold swap: when the erase counts of the most and the least worn block differ by more
    /// than `threshold`, the data of the least worn one moves to a most worn one.
    Swap,
    /// Dual-pool (Chang & Du 2009): blocks for hot and for cold data, exchanged when their wear
    /// differs by more than `threshold`.
    DualPool,
    /// SW Leveler (Chang, Hsieh & Kuo 2007): sets of `set_blocks` blocks that have not been erased
    /// for long are emptied when there were `threshold` erases per set that has.
    SwLeveler,
}

defaults! {
    /// Static wear levelling: moves data that nobody rewrites, so that the blocks below it wear too.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct WearLevelingConfig {
        /// none, swap, dual-pool or sw-leveler. Default none.
        pub kind: WearLevelingName = WearLevelingName::None;
        /// Difference of erase counts, or erases per set, that calls for action. Below the spread that
        /// chance alone makes (some ten erases) it costs more than it brings. Default 16.
        #[schemars(range(min = 1, max = 4_294_967_295u32))]
        pub threshold: u32 = 16;
        /// Blocks of a set of sw-leveler. Larger sets need less memory in a real drive but level less: one
        /// hot block speaks for the cold ones of its set. Default 1.
        #[schemars(range(min = 1, max = 65_536))]
        pub set_blocks: u32 = 1;
    }
}
