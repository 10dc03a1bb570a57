//! Times of chips, and what is more urgent than what.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::{Stored, defaults, named};

use super::PageTimes;

named! {
    /// Scheduling class of an operation. A die serves the operation with the earliest deadline: the time it
    /// became ready plus the patience of its class.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Stored)]
    #[repr(u8)]
    pub enum Class {
        /// A read that a host waits for.
        HostRead => "host-read",
        /// A program of what a host has sent, or of what a flush waits for.
        HostProgram => "host-program",
        /// A read that nobody waits for: for a copy of garbage collection.
        BackgroundRead => "background-read",
        /// The program of such a copy.
        BackgroundProgram => "background-program",
        /// An erase.
        Erase => "erase",
    }
}

/// Order in which flash operations reach their dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Issue {
    /// Each waits at its own die.
    #[default]
    PerDie,
    /// One waiting slot for all dies, filled in the order of issue. An operation leaves it when its die begins it;
    /// those behind it wait, whatever their die does.
    InOrder,
}

defaults! {
    /// Suspend and resume: a read that a host waits for interrupts the program or erase that its die is busy with.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct SuspendConfig {
        /// Number of times that one program or erase can be suspended; 0: never. Default 0.
        #[schemars(range(min = 0, max = 1_000_000))]
        pub most: u32 = 0;
        /// Time from the suspend until the die can read, in ns. Default 5000.
        #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
        pub suspend_ns: u64 = 5_000;
        /// Time from the resume until the operation goes on, in ns. Default 5000.
        #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
        pub resume_ns: u64 = 5_000;
        /// An operation with no more than this left is not suspended, in ns. Default 20,000.
        #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
        pub least_left_ns: u64 = 20_000;
    }
}

defaults! {
    /// SLC mode: blocks whose cells hold one bit each, for an SLC cache (drive.ftl.slc_cache). They have fewer pages, and
    /// times of their own, the same for all pages. Defaults: 96-layer cells (ISSCC 2020), tBERS assumed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct SlcMode {
        /// Bits that a cell holds otherwise: a block in SLC mode has so many times fewer pages, which pages_per_block must
        /// divide by. Default 3.
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
    /// tR: array to page register, by page type. Flash pages are numbered through their block, word line by word line.
    pub read_ns: PageTimes,
    /// tPROG: page register to array, by page type.
    pub program_ns: PageTimes,
    /// tBERS: block erase, in ns.
    pub erase_ns: u64,
    /// SLC mode, if the chip has blocks in it: its times count here.
    pub slc: Option<SlcMode>,
    /// Bus rate of a channel in MB/s (10⁶ bytes); 0 means transfers take no time.
    pub channel_mb_s: u32,
    /// Spare bytes of a page; each mapping unit carries its share over the bus.
    pub spare_bytes: u32,
    /// Flash pages that one program fills, as of [`Nand::pages_per_program`](crate::Nand::pages_per_program). 0
    /// also means 1.
    pub pages_per_program: u32,
    /// Command, address and status cycles of an operation, for each of its flash pages: so long they hold the bus before the
    /// array is at work, in ns.
    pub command_ns: u64,
    /// Cache program: the next page may be transferred while the array programs the last one.
    pub cache_program: bool,
    /// Cache read: the array may read the next page while the last one is transferred.
    pub cache_read: bool,
    /// True if each plane of a die reads independently.
    pub independent_plane_reads: bool,
    /// Deadline of each class relative to the time its operation became ready, in ns. All zero: first come,
    /// first served.
    pub patience_ns: [u64; Class::ALL.len()],
    /// Suspending programs and erases.
    pub suspend: SuspendConfig,
    /// Order in which operations reach their dies.
    pub issue: Issue,
}
