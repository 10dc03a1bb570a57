//! Chip times and scheduling priorities.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::{Stored, defaults, named};

use super::PageTimes;

named! {
    /// Scheduling class of an operation. A die serves the operation with the earliest deadline: the time at
    /// which it became ready plus the relative deadline of its class.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Stored)]
    #[repr(u8)]
    pub enum Class {
        /// A read that a host waits for.
        HostRead => "host-read",
        /// A program of host data, or one that a flush waits for.
        HostProgram => "host-program",
        /// A read that no host waits for, for example of a GC relocation.
        BackgroundRead => "background-read",
        /// A program of a relocated page.
        BackgroundProgram => "background-program",
        /// An erase.
        Erase => "erase",
    }
}

/// Order in which flash operations reach their dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Issue {
    /// Each operation waits at its die.
    #[default]
    PerDie,
    /// One waiting slot for all dies, filled in issue order. An operation leaves the slot when its die begins
    /// it. Later operations wait, even for idle dies.
    InOrder,
}

defaults! {
    /// Suspend and resume: a host read interrupts the program or erase in progress on its die.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct SuspendConfig {
        /// Maximum suspends of one program or erase; 0: never. Default 0.
        #[schemars(range(min = 0, max = 1_000_000))]
        pub most: u32 = 0;
        /// Time from the suspend until the die can read, in ns. Default 5000.
        #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
        pub suspend_ns: u64 = 5_000;
        /// Time from the resume until the operation continues, in ns. Default 5000.
        #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
        pub resume_ns: u64 = 5_000;
        /// Minimum remaining time for a suspend, in ns: an operation with no more than this left is not
        /// suspended. Default 20,000.
        #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
        pub least_left_ns: u64 = 20_000;
    }
}

defaults! {
    /// SLC mode: blocks with one bit per cell, for an SLC cache (drive.ftl.slc_cache). They have fewer pages
    /// and their times are the same for all pages. Defaults: 96-layer cells (ISSCC 2020), tBERS assumed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct SlcMode {
        /// Bits per cell in normal mode. A block in SLC mode has this many times fewer pages; pages_per_block
        /// must be a multiple of it. Default 3.
        #[schemars(range(min = 2, max = 4))]
        pub bits_per_cell: u32 = 3;
        /// Array read time tR of a page in SLC mode, in ns. Default 4000.
        #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
        pub read_ns: u64 = 4_000;
        /// Page program time tPROG in SLC mode, in ns. Default 75,000.
        #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
        pub program_ns: u64 = 75_000;
        /// Erase time tBERS of a block in SLC mode, in ns. Default 2,000,000.
        #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
        pub erase_ns: u64 = 2_000_000;
    }
}

/// Array and bus times of the chips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimingConfig {
    /// tR: array to page register, by page type. Flash pages are numbered through their block, word line by
    /// word line.
    pub read_ns: PageTimes,
    /// tPROG: page register to array, by page type.
    pub program_ns: PageTimes,
    /// tBERS: block erase, in ns.
    pub erase_ns: u64,
    /// Times of SLC mode, if the chip has it.
    pub slc: Option<SlcMode>,
    /// Bus rate of a channel in MB/s (10⁶ bytes); 0: transfers take no time.
    pub channel_mb_s: u32,
    /// Spare bytes of a page. Each mapping unit carries its share over the bus.
    pub spare_bytes: u32,
    /// Flash pages per program, see [`Nand::pages_per_program`](crate::Nand::pages_per_program). 0 also means
    /// 1.
    pub pages_per_program: u32,
    /// Command, address and status cycles per flash page of an operation, in ns. They hold the bus before the
    /// array starts.
    pub command_ns: u64,
    /// Cache program: the next page may be transferred while the array programs the last one.
    pub cache_program: bool,
    /// Cache read: the array may read the next page while the last one is transferred.
    pub cache_read: bool,
    /// True if each plane of a die reads independently.
    pub independent_plane_reads: bool,
    /// Relative deadline of each class: time after its operation became ready, in ns. All zero: first come,
    /// first served.
    pub deadline_ns: [u64; Class::ALL.len()],
    /// Suspend and resume.
    pub suspend: SuspendConfig,
    /// Order in which operations reach their dies.
    pub issue: Issue,
}
