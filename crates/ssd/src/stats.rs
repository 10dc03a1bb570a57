//! Counters of a drive, as plain numbers.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_ftl::{CopyStats, GcStats, Isolation, MergeStats, SlcStats, StreamCounts, TranslationStats};
use strobe_nand::{Class, NandOp, Occupancy, OpCounts};
use strobe_types::{Geometry, counters};

use crate::command::CommandKind;

counters! {
    /// Contribution of one command to [`HostCounts`], kept with it until it completes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Tally {
        /// Bytes covered.
        pub bytes: u64,
        /// See [`HostCounts::units_touched`].
        pub units_touched: u64,
        /// See [`HostCounts::units_written`].
        pub units_written: u64,
        /// See [`HostCounts::read_modify_writes`].
        pub read_modify_writes: u64,
    }

    /// Host commands by kind. A command counts, with all that it did, at the instant at which it completes; one that is
    /// refused never does, one that ended with an unrecovered read error does.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct HostCounts {
        commands: [u64; CommandKind::ALL.len()],
        bytes: [u64; CommandKind::ALL.len()],
        errors: [u64; CommandKind::ALL.len()],
        /// Mapping units that commands of any kind covered, in whole or in part.
        pub units_touched: u64,
        /// Mapping units touched by writes; a partially written unit counts as one. Those that write zeroes
        /// overwrites and those that a copy merges count too; units that are copied whole do not.
        pub units_written: u64,
        /// Units among them of which only a part was overwritten, merged with what they held before.
        pub read_modify_writes: u64,
    }
}

impl HostCounts {
    /// Counts `commands` of a kind, which have together done what `tally` says.
    #[inline(always)]
    pub(crate) fn add(&mut self, kind: CommandKind, commands: u64, tally: &Tally) {
        self.commands[kind as usize] += commands;
        self.bytes[kind as usize] += tally.bytes;
        self.units_touched += tally.units_touched;
        self.units_written += tally.units_written;
        self.read_modify_writes += tally.read_modify_writes;
    }

    /// Counts `commands` of a kind, counted already, that ended with an unrecovered read error.
    pub(crate) fn add_errors(&mut self, kind: CommandKind, commands: u64) {
        self.errors[kind as usize] += commands;
    }

    /// Commands of a kind that ended with an unrecovered read error.
    pub fn errors(&self, kind: impl Into<CommandKind>) -> u64 {
        self.errors[kind.into() as usize]
    }

    /// Commands of a kind.
    pub fn commands(&self, kind: impl Into<CommandKind>) -> u64 {
        self.commands[kind.into() as usize]
    }

    /// Bytes that commands of a kind covered; those of a copy count once.
    pub fn bytes(&self, kind: impl Into<CommandKind>) -> u64 {
        self.bytes[kind.into() as usize]
    }
}

counters! {
    /// Non-volatile write cache, in mapping units.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub struct NvramStats {
        /// Units written that it took, counted as it takes them; they are among the host's `pages_written` once their
        /// commands complete.
        pub write_units: u64,
        /// Units among them that replaced a version already in the cache.
        pub hits: u64,
        /// Units that host reads found there.
        pub read_hits: u64,
        /// Units written back to flash, to make room or before a copy.
        pub evicted_units: u64,
    }

    /// Writes that waited for a place: in a full write buffer or non-volatile cache, behind others that did, or because
    /// collection had to make room on flash first.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct StallStats {
        /// Number of writes.
        pub writes: u64,
        /// Time for which they did, added up, in ns.
        pub ns: u64,
    }

    /// All counters of a drive at one moment; two of them make a measurement window.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DriveStats {
        /// Host commands.
        pub host: HostCounts,
        /// Flash operations.
        pub nand: OpCounts,
        /// Page reads among them that repeated one.
        pub read_retries: u64,
        /// Page reads that could not be corrected.
        pub uncorrectable_reads: u64,
        /// Garbage collection.
        pub gc: GcStats,
        /// Merges; `None` if the mapping scheme does not merge.
        pub merges: Option<MergeStats>,
        /// Demand paging of the map; `None` if the mapping scheme does not page.
        pub translation: Option<TranslationStats>,
        /// SLC cache; `None` if the drive has none.
        pub slc: Option<SlcStats>,
        /// Work of each stream, by number; empty without a placement. Those of the placement come first.
        pub streams: Vec<StreamCounts>,
        /// Units that copy commands copied whole.
        pub copies: CopyStats,
        /// Non-volatile write cache; `None` if the drive has none.
        pub nvram: Option<NvramStats>,
        /// Writes that waited for a place.
        pub stalls: StallStats,
        /// Time of dies, by use.
        pub occupancy: Occupancy,
    }
}

/// Placement handles of a drive, each of which fills a reclaim unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReclaimUnits {
    /// Isolation of the handles when data is relocated.
    pub isolation: Isolation,
    /// Sectors of a reclaim unit.
    pub unit_sectors: u64,
    /// Reclaim groups.
    pub groups: u16,
    /// Sectors that each handle can write before its unit is full: all of group 0, then those of the next. What waits in the write buffer counts as written.
    pub sectors_left: Vec<u64>,
}

impl ReclaimUnits {
    /// Handles, each of which has a unit in each group.
    pub fn handles(&self) -> u16 {
        self.sectors_left.len() as u16 / self.groups.max(1)
    }
}

impl DriveStats {
    /// Time for which dies were held by what nobody waits for: garbage collection, merges, wear levelling, erases;
    /// added up over all dies, in ns.
    pub fn background_ns(&self) -> u64 {
        let classes = [Class::BackgroundRead, Class::BackgroundProgram, Class::Erase];
        classes.iter().map(|&class| self.occupancy.of(class)).sum()
    }

    /// Write amplification on a drive of this shape: mapping units programmed, for whatever cause and with padding, per
    /// mapping unit that the host wrote; `None` if it wrote none.
    pub fn waf(&self, geometry: &Geometry) -> Option<f64> {
        let programmed = self.nand.total(NandOp::Program) * u64::from(geometry.units_per_page());
        (self.host.units_written > 0).then(|| programmed as f64 / self.host.units_written as f64)
    }
}
