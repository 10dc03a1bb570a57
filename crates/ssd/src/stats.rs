//! Counters of a drive, as plain numbers.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_ftl::{CopyStats, GcStats, Isolation, MergeStats, SlcStats, StreamCounts, TranslationStats};
use strobe_nand::{Class, NandOp, Occupancy, OpCounts};
use strobe_types::{Geometry, counters};

use crate::command::CommandKind;

counters! {
    /// Counts of one command, added to [`HostCounts`] at delivery.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Tally {
        pub bytes: u64,
        pub units_touched: u64,
        pub units_written: u64,
        pub read_modify_writes: u64,
    }

    /// Host commands by kind, counted at their completion. A command with an unrecovered read error counts
    /// only as an error and in `units_written`. A rejected command never counts.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct HostCounts {
        commands: [u64; CommandKind::ALL.len()],
        bytes: [u64; CommandKind::ALL.len()],
        errors: [u64; CommandKind::ALL.len()],
        /// Mapping units covered by commands of any kind, in whole or in part.
        pub units_touched: u64,
        /// Mapping units touched by writes, including partly written ones, units overwritten by write zeroes
        /// and units merged by copies. Units copied whole do not count.
        pub units_written: u64,
        /// Read-modify-writes: units in `units_written` that were overwritten only in part.
        pub read_modify_writes: u64,
    }
}

impl HostCounts {
    #[inline(always)]
    pub(crate) fn add(&mut self, kind: CommandKind, commands: u64, tally: &Tally) {
        self.commands[kind as usize] += commands;
        self.bytes[kind as usize] += tally.bytes;
        self.units_touched += tally.units_touched;
        self.units_written += tally.units_written;
        self.read_modify_writes += tally.read_modify_writes;
    }

    /// Counts an error, and the units written before the error.
    #[cold]
    pub(crate) fn add_failed(&mut self, kind: CommandKind, tally: &Tally) {
        self.errors[kind as usize] += 1;
        self.units_written += tally.units_written;
    }

    /// Commands of a kind that ended with an unrecovered read error.
    pub fn errors(&self, kind: impl Into<CommandKind>) -> u64 {
        self.errors[kind.into() as usize]
    }

    /// Commands of any kind that ended with an unrecovered read error.
    pub fn all_errors(&self) -> u64 {
        self.errors.iter().sum()
    }

    /// Successful commands of all kinds.
    pub fn all_commands(&self) -> u64 {
        self.commands.iter().sum()
    }

    /// Successful commands of a kind.
    pub fn commands(&self, kind: impl Into<CommandKind>) -> u64 {
        self.commands[kind.into() as usize]
    }

    /// Bytes covered by commands of a kind; a copy counts once.
    pub fn bytes(&self, kind: impl Into<CommandKind>) -> u64 {
        self.bytes[kind.into() as usize]
    }
}

counters! {
    /// Non-volatile write cache, in mapping units.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub struct NvramStats {
        /// Units written to the cache, counted on arrival; the host's `pages_written` counts them once their
        /// commands complete.
        pub write_units: u64,
        /// Units written that replaced a version already in the cache.
        pub hits: u64,
        /// Units that host reads found in the cache.
        pub read_hits: u64,
        /// Units written back to flash, to free slots or before a copy.
        pub evicted_units: u64,
    }

    /// Writes that stalled: they waited for a slot in a full write buffer or non-volatile cache, behind other
    /// stalled writes, or for free space on flash.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct StallStats {
        /// Number of stalled writes.
        pub writes: u64,
        /// Sum of the stall times, in ns.
        pub ns: u64,
    }

    /// All counters of a drive; two copies make a measurement window.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DriveStats {
        /// Host commands.
        pub host: HostCounts,
        /// Flash operations.
        pub nand: OpCounts,
        /// Page reads that were retries.
        pub read_retries: u64,
        /// Page reads that could not be corrected.
        pub uncorrectable_reads: u64,
        /// Garbage collection.
        pub gc: GcStats,
        /// Merges; `None` if the mapping scheme does not merge.
        pub merges: Option<MergeStats>,
        /// Map pages: demand paging or durable map pages; `None` if the map has none.
        pub translation: Option<TranslationStats>,
        /// SLC cache; `None` if the drive has none.
        pub slc: Option<SlcStats>,
        /// Work of each stream, by stream number, the streams of the placement first; empty without
        /// placement.
        pub streams: Vec<StreamCounts>,
        /// Units copied whole by copy commands.
        pub copies: CopyStats,
        /// Non-volatile write cache; `None` if the drive has none.
        pub nvram: Option<NvramStats>,
        /// Writes that stalled.
        pub stalls: StallStats,
        /// Busy time of dies, by use.
        pub occupancy: Occupancy,
    }
}

/// Placement handles of a drive and their open reclaim units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReclaimUnits {
    /// Isolation of the handles when data is relocated.
    pub isolation: Isolation,
    /// Sectors of a reclaim unit.
    pub unit_sectors: u64,
    /// Reclaim groups.
    pub groups: u16,
    /// Sectors until the reclaim unit of each handle is full, ordered by group, then by handle. Buffered data
    /// counts as written.
    pub sectors_left: Vec<u64>,
}

impl ReclaimUnits {
    /// Number of handles; each has a reclaim unit in each group.
    pub fn handles(&self) -> u16 {
        self.sectors_left.len() as u16 / self.groups.max(1)
    }
}

impl DriveStats {
    /// Time in ns, summed over dies, of background work: garbage collection, merges, wear levelling, erases.
    pub fn background_ns(&self) -> u64 {
        let classes = [Class::BackgroundRead, Class::BackgroundProgram, Class::Erase];
        classes.iter().map(|&class| self.occupancy.of(class)).sum()
    }

    /// Write amplification factor: mapping units programmed, for any cause and including padding, per unit
    /// written by the host. `None` if the host has written nothing.
    pub fn waf(&self, geometry: &Geometry) -> Option<f64> {
        let programmed = self.nand.total(NandOp::Program) * u64::from(geometry.units_per_page());
        (self.host.units_written > 0).then(|| programmed as f64 / self.host.units_written as f64)
    }
}
