//! The `[drive.controller]` table: firmware, link, write buffer, what trims cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_nand::Issue;
use strobe_types::{defaults, is_default};

use super::nvram::NvramConfig;
use crate::limits::LimitsConfig;

/// Firmware, host link and write buffer. All zero: an ideal controller that costs no time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ControllerConfig {
    /// Firmware time per host command in ns; one command is handled at a time. (What commands to flash chips take on their
    /// bus is `drive.nand.command_ns`.)
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub command_ns: u64,
    /// Firmware time per address range of a command in ns.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub range_ns: u64,
    /// Time of every command in ns that occupies nothing and keeps no other one waiting: doorbells, interrupts, stages of
    /// firmware and driver. Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
    pub latency_ns: u64,
    /// Mean in ns of what is added to latency_ns, exponentially distributed: how much the host and the firmware vary.
    /// Default 0.
    #[schemars(range(min = 0, max = 1_000_000_000u64))]
    pub jitter_ns: u64,
    /// Mean in ns of what is added to writes beside that, exponentially distributed: taking up data in the write buffer
    /// varies by more than a read does. Default 0.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 0, max = 1_000_000_000u64))]
    pub write_jitter_ns: u64,
    /// Time in ns that each of the host's writes, long or short, takes in a stage of the drive that does one after the other:
    /// no more of them are taken in the long run, and what comes in clusters waits for its turn. Default 0: none.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 0, max = 1_000_000_000u64))]
    pub write_pace_ns: u64,
    /// Writes that this stage takes at once when it has had nothing to do for long enough (a token bucket of this depth,
    /// filled at one token each write_pace_ns). Default 0, which is 1.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(range(min = 0, max = 1_000_000u64))]
    pub write_pace_burst: u64,
    /// Host link rate in MB/s, each way; 0: transfers take no time.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub link_mb_s: u32,
    /// Volatile write buffer in bytes, rounded up to whole mapping units and at least what one program
    /// fills: a flash page, or a word line (`drive.nand.pages_per_program`). 0: no buffer, writes complete when they are on flash. Default 0.
    #[schemars(range(min = 0, max = 1_099_511_627_776u64))]
    pub write_buffer_bytes: u64,
    /// Order in which flash operations reach their dies: per-die (each waits at its own) or in-order (one waiting slot for
    /// all dies, whose operation holds up those behind it until its die begins it; no two planes share array time).
    /// Default per-die.
    #[serde(skip_serializing_if = "is_default")]
    pub issue: Issue,
    /// Order in which a die serves its waiting operations.
    pub schedule: ScheduleTable,
    /// Firmware time of trims beyond that of other commands.
    pub trim: TrimConfig,
    /// The largest commands that the drive takes.
    pub limits: LimitsConfig,
    /// Non-volatile write cache.
    #[serde(skip_serializing_if = "is_default")]
    pub nvram: NvramConfig,
}

defaults! {
    /// Scheduling of a die: the operation with the earliest deadline goes first. Each key is the time until
    /// the deadline of a class of operations, in ns. Reads for the host have a deadline of 0. All zero: first
    /// come, first served.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct ScheduleTable {
        /// Deadline of programs of host data, or of data that a flush waits for. Default 5,000,000.
        #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
        pub host_program_ns: u64 = 5_000_000;
        /// Deadline of reads of garbage collection. Default 10,000,000.
        #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
        pub background_read_ns: u64 = 10_000_000;
        /// Deadline of programs of garbage collection. Default 20,000,000.
        #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
        pub background_program_ns: u64 = 20_000_000;
        /// Deadline of erases. Default 40,000,000.
        #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
        pub erase_ns: u64 = 40_000_000;
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
