//! The `[drive.ftl]` table: mapping, capacity, allocation, wear levelling.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
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
    /// Mapping unit in bytes, the data of one map entry: a power of two from 512 that divides page_bytes.
    #[schemars(range(min = 512, max = 1_048_576))]
    pub mapping_unit_bytes: u32,
    /// Capacity: mapping units offered to the host. Give this or over_provisioning, not both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_294u32))]
    pub logical_pages: Option<u32>,
    /// Over-provisioning: spare share of flash, (physical − logical) / logical. Give this or logical_pages;
    /// without either it is 0.07.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 10.0))]
    pub over_provisioning: Option<f64>,
    /// Choice of the erased block opened next: fifo, least-erased, adaptive or above-average. Default fifo.
    #[serde(default)]
    #[schemars(extend("x-needs" = page_maps()))]
    pub allocation: Allocation,
    /// Choice of the die for the next pages. free-first: the die with the least work waiting. stripe: dies in
    /// turn. by-address: the plane whose number is the logical page number modulo the number of planes; if it
    /// has no erased block, another plane takes the page. Default free-first.
    #[serde(default)]
    #[schemars(extend("x-needs" = page_maps()))]
    pub die_allocation: DieAllocation,
    /// Data placement: which data shares blocks.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("x-needs" = page_maps()))]
    pub placement: PlacementTable,
    /// Method of copy commands: physical or logical. Default physical.
    #[serde(default)]
    pub copy_mode: CopyMode,
    /// Entries of the virtual map of logical copies. Each stands for a mapping unit that two addresses share;
    /// while all entries are in use, copies are physical. RAM: 20 bytes per entry, and 4 bytes per flash
    /// unit. Default 65,536.
    #[serde(default = "virtual_map_entries")]
    #[schemars(range(min = 1, max = 268_435_456))]
    #[schemars(extend("x-needs" = {"copy_mode": ["logical"]}))]
    pub virtual_map_entries: u32,
    /// Durable form of the map, which survives a power cut: false, true or "pages". true: a journal with
    /// checkpoints in reserved blocks (eight times the size of the map, and three blocks). It is written at
    /// every flush, before a block is opened and before garbage is erased. pages: map pages among the data;
    /// changed ones are programmed at every flush and when the host begins a new block. Both forms keep all
    /// map entries in memory; pages needs mapping = "page". Programs count under cause map, or meta for
    /// journal pages that hold mostly the virtual map of logical copies. Default false: the map is in memory
    /// only and costs no programs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub durable_map: DurableMap,
    /// True if owner lists (P2L: the logical units of each block) are kept on flash and programmed with the
    /// map pages. A block's list is due when the block is full, and again when a logical copy, or the write
    /// or trim that ends the sharing, has changed owners in it. Cause p2l.
    /// Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("x-needs" = {"durable_map": ["pages"], "mapping": ["dftl"]}))]
    pub owner_lists: bool,
    /// True if each flush ends with a page of metadata on every plane, after the map pages: open and free
    /// blocks, erase counts. Cause map. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("x-needs" = {"durable_map": ["pages"], "mapping": ["dftl"]}))]
    pub flush_metadata: bool,
    /// Log or replacement blocks of a block-mapped scheme (replacement-block, log-block, fast). Default 64.
    #[serde(default = "log_blocks", skip_serializing_if = "is_default_log_blocks")]
    #[schemars(range(min = 2, max = 16_777_216))]
    #[schemars(extend("x-needs" = {"mapping": ["replacement-block", "log-block", "fast"]}))]
    pub log_blocks: u32,
    /// Log block that the scheme log-block merges when it needs another one and none is free. lru: the one
    /// written longest ago. mru: the one written last. fifo: the one opened first. fullest: most pages
    /// programmed; ties: first in the table of log blocks, where a new block takes the first free slot.
    /// emptiest: fewest pages programmed; ties: written longest ago. Default lru.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("x-needs" = {
        "mapping": ["log-block"],
        "because": "fast merges its oldest log, replacement-block its longest chain"
    }))]
    pub log_victim: LogVictim,
    /// SLC cache: host writes are stored in blocks in SLC mode first. Only mapping = "page" supports it.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("x-needs" = {
        "slc_cache.static_blocks": "above 0",
        "slc_cache.dynamic_blocks": "above 0"
    }))]
    pub slc_cache: SlcConfig,
    /// Demand paging of the map.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("x-needs" = {"mapping": ["dftl"]}))]
    pub translation: TranslationTable,
    /// Garbage collection.
    #[serde(default)]
    #[schemars(extend("x-needs" = page_maps()))]
    pub gc: GcConfig,
    /// Pages gathered before they are programmed together, in the write buffer and by background collection.
    /// 0: one page per plane, of all dies for the write buffer and of one die for collection, so the planes
    /// program in parallel. 1: each page is programmed once it is full: alone if its die is idle, else with
    /// the pages behind it. Default 0.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(range(min = 0, max = 65_536))]
    #[schemars(extend("x-needs" = page_maps()))]
    pub batch_pages: u32,
    /// Static wear levelling.
    #[serde(default)]
    #[schemars(extend("x-needs" = page_maps()))]
    pub wear_leveling: WearLevelingConfig,
    /// Refresh: relocates data before its pages need many retries.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("x-needs" = page_maps()))]
    pub refresh: RefreshTable,
}

defaults! {
    /// Refresh: relocates blocks that have been read too often or hold data for too long. The read count is
    /// checked at each read. Age is checked round robin: one more block with each read and each write.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct RefreshTable {
        /// Reads of a block's pages since its erase, retries included, that make it due for relocation. 0:
        /// reads do not matter. Default 0.
        #[schemars(range(min = 0, max = 4_294_967_295u32))]
        pub reads: u32 = 0;
        /// Age in days, from the first program of a block, that makes it due for relocation, counted at
        /// drive.nand.read_retry.days_per_second. 0: age does not matter. Default 0.
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        #[schemars(extend("x-needs" = {
            "drive.nand.read_retry.days_per_second": "not 0",
            "because": "otherwise no day ever passes"
        }))]
        pub days: f64 = 0.0;
    }
}

impl RefreshTable {
    /// Refresh settings of a map when `days_per_second` days pass in a second of virtual time; `None` if
    /// blocks are never refreshed.
    ///
    /// The map measures ages in ns of virtual time. `[drive.nand.read_retry]` sets the length of a day.
    pub(crate) fn get(&self, days_per_second: f64) -> Option<Refresh> {
        let after_ns = (self.days > 0.0).then(|| (self.days / days_per_second * 1e9) as u64);
        let reads = (self.reads > 0).then_some(self.reads);
        (reads.is_some() || after_ns.is_some()).then_some(Refresh { reads, after_ns })
    }
}

fn page_maps() -> Json {
    let reason = "block-mapped schemes merge instead of collecting";
    json!({ "mapping": ["page", "dftl"], "because": reason })
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
    /// Demand paging of the map (DFTL): the whole map is in translation pages on flash. The drive's memory
    /// holds the entries in use.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct TranslationTable {
        /// Map entries cached, about 8 bytes of the drive's memory each. Default 4096.
        #[schemars(range(min = 1, max = 4_294_967_294u32))]
        pub cached_entries: u32 = 4096;
        /// True if programming a translation page writes all of its changed cache entries, not only the
        /// evicted one. Default true.
        pub batched_eviction: bool = true;
    }
}

/// Method of copy commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CopyMode {
    /// Reads and programs the data.
    #[default]
    Physical,
    /// Maps both addresses to the same flash unit (logical copy: Kang, Han & Shin).
    Logical,
}

/// Method of static wear levelling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WearLevelingName {
    /// No wear levelling.
    #[default]
    None,
    /// Hot-cold swap: when the erase counts of the most and the least worn block differ by more than
    /// `threshold`, the data of the least worn block moves to a most worn one.
    Swap,
    /// Dual-pool (Chang & Du 2009): blocks for hot and for cold data, exchanged when their wear differs by
    /// more than `threshold`.
    DualPool,
    /// SW Leveler (Chang, Hsieh & Kuo 2007): empties sets of `set_blocks` blocks that have not been erased
    /// for long. It acts after `threshold` erases for each set erased so far.
    SwLeveler,
}

defaults! {
    /// Static wear levelling: relocates data that is never rewritten, so the blocks below it wear too.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct WearLevelingConfig {
        /// Method: none, swap, dual-pool or sw-leveler. Default none.
        pub kind: WearLevelingName = WearLevelingName::None;
        /// Difference of erase counts, or erases per set, that triggers levelling. A threshold below the
        /// random spread (some ten erases) costs more than it saves. Default 16.
        #[schemars(range(min = 1, max = 4_294_967_295u32))]
        #[schemars(extend("x-needs" = {"kind": "not none"}))]
        pub threshold: u32 = 16;
        /// Blocks per set of sw-leveler. Larger sets need less memory in a real drive but level less: one hot
        /// block hides the cold ones of its set. Default 1.
        #[schemars(range(min = 1, max = 65_536))]
        #[schemars(extend("x-needs" = {"kind": ["sw-leveler"]}))]
        pub set_blocks: u32 = 1;
    }
}
