//! The `[drive.controller]` table: firmware, link, write buffer, cost of trims.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_nand::Issue;
use strobe_types::{defaults, is_default};

use super::nvram::NvramConfig;
use crate::limits::LimitsConfig;

/// Firmware, host link and write buffer. With all keys 0 the controller costs no time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ControllerConfig {
    /// Firmware time per host command in ns; the firmware handles one command after the other. (The time of a
    /// flash command on its bus is `drive.nand.command_ns`.)
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub command_ns: u64,
    /// Firmware time per address range of a command in ns.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub range_ns: u64,
    /// Latency added to every command in ns: doorbells, interrupts, pipelined stages of firmware and driver.
    /// It occupies no resource, so commands do not queue for it. Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub latency_ns: u64,
    /// Mean jitter of every command in ns, exponentially distributed and added to latency_ns: variation of
    /// host and firmware. Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000u64))]
    pub jitter_ns: u64,
    /// Mean extra jitter of writes in ns, exponentially distributed and added to jitter_ns: writes to a
    /// buffer vary more than reads. Default 0.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 0, max = 1_000_000_000u64))]
    pub write_jitter_ns: u64,
    /// Throttle of host writes: minimum mean time in ns between writes of any size. Writes that arrive faster
    /// queue. Default 0: no throttle.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 0, max = 1_000_000_000u64))]
    pub write_throttle_ns: u64,
    /// Burst size of the write throttle: writes that pass without delay after an idle time. The throttle is a
    /// token bucket of this depth, filled with one token every write_throttle_ns. 0 counts as 1. Default 0.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 0, max = 1_000_000u64))]
    #[schemars(extend("x-needs" = {"write_throttle_ns": "above 0"}))]
    pub write_throttle_burst: u64,
    /// Host link rate in MB/s, each way; 0: transfers take no time.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub link_mb_s: u32,
    /// Size of the volatile write buffer in bytes, rounded up to whole mapping units. It holds at least one
    /// program: a flash page, or a word line (`drive.nand.pages_per_program`). 0: no buffer; writes complete
    /// when they are on flash. Default 0.
    #[schemars(range(min = 0, max = 1_099_511_627_776u64))]
    pub write_buffer_bytes: u64,
    /// Issue order of flash operations. per-die: each operation waits at its own die. in-order: all dies have
    /// one waiting slot in common. The operation in it holds up later ones until its die begins it, and
    /// planes of a die do not work in parallel. Default per-die.
    #[serde(skip_serializing_if = "is_default")]
    pub issue: Issue,
    /// Scheduling: order of the waiting operations of a die.
    #[schemars(extend("x-needs" = {"issue": [null, "per-die"], "because": "in order, no die has a choice"}))]
    pub schedule: ScheduleTable,
    /// Additional firmware time of trims.
    pub trim: TrimConfig,
    /// The largest commands that the drive takes.
    pub limits: LimitsConfig,
    /// Non-volatile write cache.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("x-needs" = {"nvram.bytes": "above 0"}))]
    pub nvram: NvramConfig,
}

defaults! {
    /// Scheduling of a die: the operation with the earliest deadline runs first. Each key is the time until
    /// the deadline of a class of operations, in ns. Host reads have a deadline of 0. All zero: first come,
    /// first served.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct ScheduleTable {
        /// Deadline of programs of host data, or of data that a flush waits for, in ns. Default 5,000,000.
        #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
        pub host_program_ns: u64 = 5_000_000;
        /// Deadline of reads of garbage collection, in ns. Default 10,000,000.
        #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
        pub background_read_ns: u64 = 10_000_000;
        /// Deadline of programs of garbage collection, in ns. Default 20,000,000.
        #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
        pub background_program_ns: u64 = 20_000_000;
        /// Deadline of erases, in ns. Default 40,000,000.
        #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
        pub erase_ns: u64 = 40_000_000;
    }
}

/// Additional firmware time of a trim. The model follows the measurements of Son, Lee, Kim and Kim 2015: t =
/// t_cmd + n·t_range, including the controller's `command_ns` and `range_ns`. Larger and aligned ranges cost
/// less for their size. Contiguous ranges cost less on some drives and more on others. With all keys 0 a trim
/// costs as much as any other command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TrimConfig {
    /// Firmware time per trim in ns, added to the controller's command_ns. Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub command_ns: u64,
    /// Firmware time per range of a trim in ns, added to the controller's range_ns. Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub range_ns: u64,
    /// Firmware time per mapping unit that a range covers only in part, in ns; a range has up to two such
    /// units. Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub partial_ns: u64,
    /// Firmware time in ns of a range that does not begin at the end of the range before it, which may belong
    /// to an earlier trim. Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub jump_ns: u64,
    /// Firmware time in ns of a range that begins at the end of the range before it, which may belong to an
    /// earlier trim. Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub adjacent_ns: u64,
    /// Firmware time per MiB that the ranges of a trim cover, in ns. Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub mib_ns: u64,
}
