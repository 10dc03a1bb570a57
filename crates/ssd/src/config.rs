//! The `[drive]` table: every knob of the drive, with unit, range and default.
//!
//! The doc comments here are what `strobe schema drive` prints and what error messages quote;
//! ranges given as schema attributes are checked before anything is built.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_ftl::BlockScheme;

use crate::limits::LimitsConfig;

/// A drive. Start from a preset and override what differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriveConfig {
    /// Name of the preset that fills all keys not given here; see `strobe list presets`.
    /// Default: generic-8g.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// The flash chips.
    pub nand: NandConfig,
    /// The flash translation layer.
    pub ftl: FtlConfig,
    /// Firmware, link and write buffer.
    pub controller: ControllerConfig,
}

/// What stored pages hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DataMode {
    /// Nothing: the run only counts and times. Smallest and fastest.
    #[default]
    None,
    /// An 8-byte stamp per mapping unit: enough to verify that every read returns the newest
    /// version.
    Stamp,
    /// Every byte, in memory.
    Bytes,
}

/// Flash chips: geometry, timing, wear.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NandConfig {
    /// Channels (independent buses).
    #[schemars(range(min = 1, max = 256))]
    pub channels: u32,
    /// Dies (LUNs) on each channel.
    #[schemars(range(min = 1, max = 256))]
    pub dies_per_channel: u32,
    /// Planes in each die; operations on the same page number of several planes run together.
    #[schemars(range(min = 1, max = 64))]
    pub planes_per_die: u32,
    /// Erase blocks in each plane.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub blocks_per_plane: u32,
    /// Flash pages in each block.
    #[schemars(range(min = 1, max = 65_536))]
    pub pages_per_block: u32,
    /// Whether the pages of a block may be programmed in any order, as on small-page single-level chips;
    /// replacement-block needs it. Default false: in order.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_page_order: bool,
    /// Data bytes of a flash page, a multiple of the mapping unit.
    #[schemars(range(min = 512, max = 1_048_576))]
    pub page_bytes: u32,
    /// Spare (out-of-band) bytes of a page; each mapping unit carries its share over the bus.
    /// Default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 65_536))]
    pub spare_bytes: u32,
    /// Array read time tR in ns.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub read_ns: u64,
    /// Page program time tPROG in ns.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub program_ns: u64,
    /// Block erase time tBERS in ns.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub erase_ns: u64,
    /// Bus rate of a channel in MB/s (10⁶ bytes per second); 0: transfers take no time.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub channel_mb_s: u32,
    /// Cache program: transfer the next page while the array programs the last. Default false.
    #[serde(default)]
    pub cache_program: bool,
    /// Erases that a block survives; the next one fails and the block is bad. 0: unlimited.
    #[schemars(range(min = 0, max = 4_294_967_295u32))]
    pub endurance_pe: u32,
    /// Blocks that are bad from the factory, placed at random by the seed. Default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 16_777_216))]
    pub factory_bad_blocks: u32,
    /// Probability that a page program fails and costs its block. Default 0.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub program_fail_rate: f64,
    /// What stored pages hold: none, stamp or bytes. Default none.
    #[serde(default)]
    pub data: DataMode,
}

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
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub over_provisioning: Option<f64>,
    /// Which erased block is opened next: fifo, least-erased or adaptive. Default fifo.
    #[serde(default)]
    pub allocation: AllocationName,
    /// How copy commands are done: physical or logical. Default physical.
    #[serde(default)]
    pub copy_mode: CopyMode,
    /// Entries of the virtual map of logical copies, each a mapping unit that two addresses share;
    /// copies beyond it are physical. RAM: 16 bytes each, and 4 per flash unit. Default 65,536.
    #[serde(default = "virtual_map_entries")]
    #[schemars(range(min = 1, max = 268_435_456))]
    pub virtual_map_entries: u32,
    /// Whether the map survives a power cut. It is then kept on flash, as a journal with checkpoints in
    /// blocks of its own (causes map and meta), written at every flush, before a block is opened and
    /// before garbage is erased. Default false: the map is in memory only and costs nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub durable_map: bool,
    /// Good blocks reserved for the durable map, if that is more than it needs, which is eight times the
    /// map and three blocks. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 16_777_216))]
    pub map_blocks: u32,
    /// Log or replacement blocks of a block-mapped scheme (replacement-block, log-block, fast). Default 64.
    #[serde(default = "log_blocks", skip_serializing_if = "is_default_log_blocks")]
    #[schemars(range(min = 2, max = 16_777_216))]
    pub log_blocks: u32,
    /// Demand paging of the map; only dftl has it.
    #[serde(default, skip_serializing_if = "TranslationTable::is_default")]
    pub translation: TranslationTable,
    /// Garbage collection.
    #[serde(default)]
    pub gc: GcConfig,
    /// Static wear levelling.
    #[serde(default)]
    pub wear_leveling: WearLevelingConfig,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
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

/// Demand paging of the map (DFTL): the whole map is on flash, in translation pages, and the drive's memory
/// holds the entries in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TranslationTable {
    /// Map entries cached, about 8 bytes of the drive's memory each. Default 4096.
    #[schemars(range(min = 1, max = 4_294_967_294u32))]
    pub cached_entries: u32,
    /// Whether a translation page that is programmed takes all its changed entries along, not only the one
    /// that has to go. Default true.
    pub batched_eviction: bool,
    /// Entries that come into the cache with one read: the missing one and those behind it. Default 1.
    #[schemars(range(min = 1, max = 65_536))]
    pub fetched_entries: u32,
}

impl Default for TranslationTable {
    fn default() -> Self {
        Self { cached_entries: 4096, batched_eviction: true, fetched_entries: 1 }
    }
}

impl TranslationTable {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How the drive copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CopyMode {
    /// By reading and programming.
    #[default]
    Physical,
    /// By pointing both addresses to the same flash unit (logical copy: Kang, Han & Shin).
    Logical,
}

/// Where garbage collection moves valid data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GcStreamName {
    /// To open blocks of its own.
    #[default]
    Own,
    /// To the blocks that host writes go to, as in a plain log.
    Host,
}

/// How valid data of victims is sorted before it is moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MigrationName {
    /// Not at all.
    #[default]
    None,
    /// Units at least as hot as the mean of their victim stay with the hot stream, the others go
    /// to blocks for cold data (CAT, FeGC).
    HotCold,
    /// The units of all victims of a call are sorted; whole blocks of the coldest get blocks of
    /// their own, the rest goes with the hot stream (CAPi).
    Sorted,
}

/// What makes a logical unit hot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TemperatureName {
    /// How often it has been written (CAPi).
    #[default]
    UpdateCount,
    /// How often it has been written, divided by the time since it was last (CAT).
    UpdateRate,
    /// When it was last written (age sort).
    LastWrite,
}

/// Which erased block is opened next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AllocationName {
    /// The one erased first.
    #[default]
    Fifo,
    /// The one erased least often: dynamic wear levelling.
    LeastErased,
    /// The most worn one for cold data, the least worn one for all other data (FeGC).
    Adaptive,
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

/// Static wear levelling: moves data that nobody rewrites, so that the blocks below it wear too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WearLevelingConfig {
    /// none, swap, dual-pool or sw-leveler. Default none.
    pub kind: WearLevelingName,
    /// Difference of erase counts, or erases per set, that calls for action. Below the spread that
    /// chance alone makes (some ten erases) it costs more than it brings. Default 16.
    #[schemars(range(min = 1, max = 4_294_967_295u32))]
    pub threshold: u32,
    /// Blocks of a set of sw-leveler. Larger sets need less memory in a real drive but level less: one
    /// hot block speaks for the cold ones of its set. Default 1.
    #[schemars(range(min = 1, max = 65_536))]
    pub set_blocks: u32,
}

impl Default for WearLevelingConfig {
    fn default() -> Self {
        Self { kind: WearLevelingName::None, threshold: 16, set_blocks: 1 }
    }
}

/// Garbage collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GcConfig {
    /// Victim policy: a name, or a formula such as "age * (1-u) / (1+u)^2", of which the block with
    /// the largest value is collected; see `strobe list policies` for both. Default greedy.
    pub victim: String,
    /// Blocks that the d-choices policy draws. Default 10.
    #[schemars(range(min = 1, max = 65_536))]
    pub choices: u32,
    /// Blocks, the ones closed first, among which windowed-greedy picks. Default 1000.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub window: u32,
    /// How valid data is sorted before it is moved: none, hot-cold or sorted. Default none.
    pub migration: MigrationName,
    /// What makes a unit hot, for migration: update-count, update-rate or last-write. Default
    /// update-count.
    pub temperature: TemperatureName,
    /// Where valid data goes: own or host. Default own.
    pub stream: GcStreamName,
    /// Collection starts when fewer erased blocks are left. Raised to the least that is safe, one
    /// per plane and two more, if it is lower. Default 0.
    #[schemars(range(min = 0, max = 16_777_216))]
    pub min_free_blocks: u32,
    /// Blocks that one call gains at least. Default 1.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub net_blocks: u32,
}

impl Default for GcConfig {
    fn default() -> Self {
        Self {
            victim: "greedy".to_owned(),
            choices: 10,
            window: 1000,
            migration: MigrationName::None,
            temperature: TemperatureName::UpdateCount,
            stream: GcStreamName::Own,
            min_free_blocks: 0,
            net_blocks: 1,
        }
    }
}

/// Firmware, host link and write buffer. All zero: an ideal controller that costs no time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ControllerConfig {
    /// Firmware time per command in ns; one command is handled at a time.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub command_ns: u64,
    /// Firmware time per address range of a command in ns.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub range_ns: u64,
    /// Host link rate in MB/s, each way; 0: transfers take no time.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub link_mb_s: u32,
    /// Volatile write buffer in bytes, rounded up to whole mapping units and at least one flash
    /// page. 0: no buffer, writes complete when they are on flash. Default 0.
    #[schemars(range(min = 0, max = 1_099_511_627_776u64))]
    pub write_buffer_bytes: u64,
    /// What trims cost beyond other commands.
    pub trim: TrimConfig,
    /// The largest commands that the drive takes.
    pub limits: LimitsConfig,
    /// Non-volatile write cache.
    #[serde(skip_serializing_if = "NvramConfig::is_default")]
    pub nvram: NvramConfig,
}

/// Which writes go to the non-volatile write cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NvramPolicyName {
    /// All.
    #[default]
    Lru,
    /// Those into `ranges`: where a file system keeps its metadata, such as the FATs of VFAT.
    LbaRange,
    /// Those whose command says that they are metadata; generators and traces say nothing.
    Hint,
}

/// A run of sectors of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SectorRange {
    /// First sector of 512 bytes.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807u64))]
    pub first_sector: u64,
    /// How many sectors.
    #[schemars(range(min = 1, max = 9_223_372_036_854_775_807u64))]
    pub sectors: u64,
}

/// Ranges that [`NvramConfig::ranges`] may have.
pub const NVRAM_RANGES_MAX: usize = 64;

/// Non-volatile write cache (NVRAM) in front of the write buffer. What it holds survives a power cut, so
/// a write that goes to it is complete when it is there, a flush need not empty it, and what is written
/// often costs flash nothing. If it is full, what was read or written least recently goes to flash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NvramConfig {
    /// Size in bytes, rounded up to whole mapping units. 0: none. Default 0.
    #[schemars(range(min = 0, max = 1_099_511_627_776u64))]
    pub bytes: u64,
    /// Which writes go to it: lru (all), lba-range (those into ranges) or hint (those marked as
    /// metadata). Writes to a unit that it holds go to it whatever the policy. Default lru.
    pub policy: NvramPolicyName,
    /// Sectors whose writes go to it: up to 64 ranges. A mapping unit that a range touches belongs to it.
    /// Only lba-range looks at them, and it needs one at least. Default none.
    #[schemars(length(max = 64))]
    pub ranges: Vec<SectorRange>,
    /// Time that a host read of a mapping unit takes there, in ns; one access at a time. Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub read_ns: u64,
    /// Time that the write of a mapping unit takes there, in ns; one access at a time. Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub write_ns: u64,
}

/// Why `[drive.controller.nvram]` makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NvramError {
    /// lba-range without ranges.
    #[error(
        "policy is \"lba-range\", but ranges is empty: add ranges such as \
         [{{ first_sector = 0, sectors = 256 }}], or choose lru or hint"
    )]
    NoRanges,
    /// Too many ranges.
    #[error("ranges has {0} entries, at most {max} are possible: join some", max = NVRAM_RANGES_MAX)]
    ManyRanges(usize),
    /// A range that is empty or leaves the drive.
    #[error(
        "ranges has {sectors} sectors from sector {first_sector} on: give 1 sector or more, all below \
         {drive_sectors}, the sectors of the drive"
    )]
    Range {
        /// First sector.
        first_sector: u64,
        /// How many.
        sectors: u64,
        /// Sectors of the drive.
        drive_sectors: u64,
    },
}

impl NvramConfig {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a drive of `drive_sectors` can have this cache. A size of 0 does not excuse the rest: it may
    /// be what a sweep begins with.
    pub(crate) fn check(&self, drive_sectors: u64) -> Result<(), NvramError> {
        match self.ranges.len() {
            0 if self.policy == NvramPolicyName::LbaRange => return Err(NvramError::NoRanges),
            count if count > NVRAM_RANGES_MAX => return Err(NvramError::ManyRanges(count)),
            _ => {}
        }
        let is_inside = |range: &&SectorRange| {
            let end = range.first_sector.checked_add(range.sectors);
            range.sectors > 0 && end.is_some_and(|end| end <= drive_sectors)
        };
        match self.ranges.iter().find(|range| !is_inside(range)) {
            None => Ok(()),
            Some(&SectorRange { first_sector, sectors }) => {
                Err(NvramError::Range { first_sector, sectors, drive_sectors })
            }
        }
    }
}

/// Firmware time of a trim beyond that of other commands: t = command + ranges × range, and for each
/// range what its place and its size cost. Together with `command_ns` and `range_ns` of the controller
/// this is the model that the measurements of Son, Lee, Kim and Kim 2015 call for: t = t_cmd + n·t_range,
/// larger and aligned ranges cheaper for their size, contiguous ones cheaper on some drives and dearer
/// on others. All zero: a trim costs what any command does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TrimConfig {
    /// Firmware time per trim in ns, beyond the controller's command_ns. Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub command_ns: u64,
    /// Firmware time per range of a trim in ns, beyond the controller's range_ns. Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub range_ns: u64,
    /// Firmware time per mapping unit of which a range covers a part only, in ns: up to two for a
    /// range. Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub partial_ns: u64,
    /// Firmware time of a range that does not begin where the range before it ended, in ns, also
    /// across commands. Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub jump_ns: u64,
    /// Firmware time of a range that begins where the range before it ended, in ns. Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub adjacent_ns: u64,
    /// Firmware time per MiB that the ranges of a trim cover, in ns. Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub mib_ns: u64,
}

/// A victim policy, for `strobe list policies`.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInfo {
    /// Name used in configurations.
    pub name: &'static str,
    /// What it picks.
    pub picks: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

/// Every victim policy.
pub const POLICIES: &[PolicyInfo] = &[
    PolicyInfo {
        name: "greedy",
        picks: "min valid; ties: closed first",
        source: "GA: Wu & Zwaenepoel 1994 (eNVy)",
    },
    PolicyInfo {
        name: "windowed-greedy",
        picks: "min valid among the `window` blocks closed first",
        source: "Hu et al. 2009 (SYSTOR)",
    },
    PolicyInfo {
        name: "cost-benefit",
        picks: "max age·(1−u)/2u, age since the last invalidation",
        source: "CB: Kawaguchi, Nishioka & Motoda 1995",
    },
    PolicyInfo {
        name: "lfs",
        picks: "max age·(1−u)/(1+u), age since the block was filled",
        source: "LFS: Rosenblum & Ousterhout 1992",
    },
    PolicyInfo {
        name: "cat",
        picks: "min u/(1−u) · 1/age · (EC+1), age since the block was opened",
        source: "CAT: Chiang & Chang 1999",
    },
    PolicyInfo {
        name: "fegc",
        picks: "max Σ age over invalid units, each since it became invalid",
        source: "FeGC: Kwon et al. 2011",
    },
    PolicyInfo {
        name: "capi",
        picks: "max age·(1−u)/(1+u)², age since the block was opened",
        source: "CAPi: Hwang & Kwak 2016, eq. 1",
    },
    PolicyInfo {
        name: "scata",
        picks: "max age_i·est·(1−u)/((EC+1)(1+u)), ages since the oldest invalidation and the newest valid write",
        source: "SCATA: Lin 2011, table",
    },
    PolicyInfo {
        name: "scata-newest",
        picks: "the same with age_i since the newest invalidation",
        source: "SCATA: Lin 2011, prose",
    },
    PolicyInfo {
        name: "fifo",
        picks: "the block closed first",
        source: "a circular log, or LRU cleaning; Menon 1995",
    },
    PolicyInfo { name: "random", picks: "any closed block", source: "Van Houdt 2013, d = 1" },
    PolicyInfo {
        name: "d-choices",
        picks: "min valid of `choices` blocks drawn at random",
        source: "Van Houdt 2013",
    },
];

/// A mapping scheme, for `strobe list mappings`.
#[derive(Clone, Copy, Debug)]
pub struct MappingInfo {
    /// Name used in configurations.
    pub name: &'static str,
    /// How it maps.
    pub summary: &'static str,
}

/// Every mapping scheme.
pub const MAPPINGS: &[MappingInfo] = &[
    MappingInfo { name: "page", summary: "full map in RAM: any unit anywhere, 4 bytes per unit" },
    MappingInfo {
        name: "dftl",
        summary: "the page map on flash, entries in use cached: translation.cached_entries (Gupta et al. 2009)",
    },
    MappingInfo {
        name: "replacement-block",
        summary: "NFTL: chains of blocks with each sector at its offset, folded; needs any_page_order (Ban 1995)",
    },
    MappingInfo {
        name: "log-block",
        summary: "BAST: a log block per data block; switch, partial and full merges (Kim et al. 2002)",
    },
    MappingInfo {
        name: "fast",
        summary: "log blocks shared by all data blocks, one for sequential writes (Lee et al. 2007)",
    },
];

/// The block-mapped scheme that a configuration names, if it names one.
pub(crate) fn block_scheme(mapping: &str) -> Option<BlockScheme> {
    [BlockScheme::ReplacementBlock, BlockScheme::LogBlock, BlockScheme::Fast]
        .into_iter()
        .find(|scheme| scheme.name() == mapping)
}

impl DriveConfig {
    /// Mapping units offered to the host, from whichever of the two keys is given.
    pub fn logical_units(&self) -> u64 {
        if let Some(pages) = self.ftl.logical_pages {
            return u64::from(pages);
        }
        let nand = &self.nand;
        let pages = [
            nand.channels,
            nand.dies_per_channel,
            nand.planes_per_die,
            nand.blocks_per_plane,
            nand.pages_per_block,
        ]
        .iter()
        .fold(1.0, |product, &factor| product * f64::from(factor));
        let units = pages * f64::from(nand.page_bytes / self.ftl.mapping_unit_bytes.max(1));
        (units / (1.0 + self.ftl.over_provisioning.unwrap_or(0.07))).floor() as u64
    }

    /// Bytes offered to the host.
    pub fn logical_bytes(&self) -> u64 {
        self.logical_units() * u64::from(self.ftl.mapping_unit_bytes)
    }
}
