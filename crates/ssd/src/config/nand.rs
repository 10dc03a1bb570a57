//! The `[drive.nand]` table: geometry, timing, wear.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_nand::{PageTimes, RetryConfig, SlcMode, SuspendConfig};
use strobe_types::{is_default, is_one};

use super::FaultsTable;

/// Content of stored pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DataMode {
    /// Nothing: the drive only counts and times operations. Smallest and fastest mode.
    #[default]
    None,
    /// An 8-byte stamp per mapping unit: enough to verify that every read returns the newest version.
    Stamp,
    /// Every byte, in memory or in an image.
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
    /// Planes in each die; operations on the same page number of several planes run together. See
    /// independent_plane_reads.
    #[schemars(range(min = 1, max = 64))]
    pub planes_per_die: u32,
    /// Erase blocks in each plane.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub blocks_per_plane: u32,
    /// Flash pages in each block.
    #[schemars(range(min = 1, max = 65_536))]
    pub pages_per_block: u32,
    /// True if the pages of a block may be programmed in any order, as on small-page single-level chips.
    /// mapping = "replacement-block" needs it. Default false: in order.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_page_order: bool,
    /// Data bytes of a flash page, a multiple of the mapping unit.
    #[schemars(range(min = 512, max = 1_048_576))]
    pub page_bytes: u32,
    /// Spare (out-of-band) bytes of a page. They cross the bus with the mapping units of the page, in equal
    /// parts. Default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 65_536))]
    #[schemars(extend("x-needs" = {
        "channel_mb_s": "above 0",
        "because": "without transfer time the size of a transfer does not matter"
    }))]
    pub spare_bytes: u32,
    /// One-shot programming: flash pages of a word line, programmed together in one program_ns. Give 1 to 4;
    /// pages_per_block must be a multiple. Reads still read flash pages. Programs in results count word
    /// lines. Default 1: page by page.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 4))]
    pub pages_per_program: u32,
    /// Array read time tR in ns, or a list with the time of each page type (lower, middle, upper page …).
    /// Page p of a block has type p modulo the length of the list. List each type twice if fast and slow
    /// layers differ.
    pub read_ns: PageTimes,
    /// Page program time tPROG in ns, or a list with the time of each page type. With pages_per_program above
    /// 1: one number, the program time of a word line.
    pub program_ns: PageTimes,
    /// Block erase time tBERS in ns.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub erase_ns: u64,
    /// Bus rate of a channel in MB/s (10⁶ bytes per second); 0: transfers take no time.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub channel_mb_s: u32,
    /// Command, address and status cycles of a flash operation in ns, for each of its pages or planes. They
    /// occupy the channel's bus before the array starts. (The firmware's time for a host command is
    /// `drive.controller.command_ns`.) Usual values are 200 to 1000. Default 0.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub command_ns: u64,
    /// True for cache program: the next page is transferred while the array programs the one before. Default
    /// false.
    #[serde(default)]
    pub cache_program: bool,
    /// True for cache read: the array may read the next page while the one before crosses the channel.
    /// Default false: a die begins its next read after the transfer of the last one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("x-needs" = {
        "channel_mb_s": "above 0",
        "because": "without transfer time there is nothing to overlap"
    }))]
    pub cache_read: bool,
    /// True if each plane of a die reads independently of the others: any page, at any time. Default false:
    /// planes read together, at the same page number.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("x-needs" = {"planes_per_die": "above 1"}))]
    pub independent_plane_reads: bool,
    /// Interruption of programs and erases for reads that a host waits for.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("x-needs" = {"suspend.most": "above 0"}))]
    pub suspend: SuspendConfig,
    /// Read retries. Their number grows as cells wear, lose charge and are disturbed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_retry: RetryConfig,
    /// Read errors that no retry corrects.
    #[serde(default, skip_serializing_if = "is_default")]
    pub faults: FaultsTable,
    /// SLC mode: blocks that an SLC cache uses with one bit per cell.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(extend("x-needs" = {
        "drive.ftl.slc_cache.static_blocks": "above 0",
        "drive.ftl.slc_cache.dynamic_blocks": "above 0"
    }))]
    pub slc: SlcMode,
    /// Endurance in P/E cycles: erases that a block survives. The next erase fails and the block is bad. 0:
    /// unlimited.
    #[schemars(range(min = 0, max = 4_294_967_295u32))]
    pub endurance_pe: u32,
    /// Blocks that are bad from the factory, placed at random by the seed. Default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 16_777_216))]
    pub factory_bad_blocks: u32,
    /// Probability that a page program fails and its block becomes bad. Default 0.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub program_fail_rate: f64,
    /// Content of stored pages: none, stamp or bytes. Default none.
    #[serde(default)]
    pub data: DataMode,
}

fn one() -> u32 {
    1
}
