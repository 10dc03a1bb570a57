//! What a drive has done, as plain numbers.

use hdrhistogram::Histogram;
use strobe_ftl::{CopyStats, GcStats, MergeStats, TranslationStats};
use strobe_nand::{Class, NandOp, Occupancy, OpCounts};
use strobe_types::{Geometry, Op, counters};

use crate::command::CommandKind;

counters! {
    /// Host commands by kind.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct HostCounts {
        commands: [u64; CommandKind::ALL.len()],
        bytes: [u64; CommandKind::ALL.len()],
        /// Mapping units touched by writes; a partially written unit counts as one. Those that write zeroes
        /// overwrites and those that a copy merges count too; units that are copied whole do not.
        pub units_written: u64,
        /// Units among them of which only a part was overwritten, merged with what they held before.
        pub read_modify_writes: u64,
    }
}

impl HostCounts {
    #[inline(always)]
    pub(crate) fn add(&mut self, kind: CommandKind, bytes: u64) {
        self.add_many(kind, 1, bytes);
    }

    #[inline(always)]
    pub(crate) fn add_many(&mut self, kind: CommandKind, commands: u64, bytes: u64) {
        self.commands[kind as usize] += commands;
        self.bytes[kind as usize] += bytes;
    }

    /// Takes back a command that was counted and is refused.
    pub(crate) fn take_back(&mut self, kind: CommandKind, bytes: u64) {
        self.commands[kind as usize] -= 1;
        self.bytes[kind as usize] -= bytes;
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
    /// What the non-volatile write cache has done, in mapping units.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct NvramStats {
        /// Units written that it took; they are among [`HostCounts::units_written`].
        pub write_units: u64,
        /// Those of them that replaced a version already there.
        pub hits: u64,
        /// Units that host reads found there.
        pub read_hits: u64,
        /// Units written back to flash, to make room or before a copy.
        pub evicted_units: u64,
    }

    /// All counters of a drive at one moment; two of them make a measurement window.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DriveStats {
        /// Host commands.
        pub host: HostCounts,
        /// Flash operations.
        pub nand: OpCounts,
        /// Garbage collection.
        pub gc: GcStats,
        /// Merges; `None` if the mapping scheme does not merge.
        pub merges: Option<MergeStats>,
        /// Demand paging of the map; `None` if the mapping scheme does not page.
        pub translation: Option<TranslationStats>,
        /// Units that copy commands copied whole.
        pub copies: CopyStats,
        /// Non-volatile write cache; `None` if the drive has none.
        pub nvram: Option<NvramStats>,
        /// What dies' time went to.
        pub occupancy: Occupancy,
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

/// Completion latencies in ns, one histogram per command kind, exact to three digits.
#[derive(Clone, Debug)]
pub struct Latency {
    histograms: Vec<Histogram<u64>>,
    sums: [u128; Op::ALL.len()],
    /// Shortest and longest, exact where the histogram rounds.
    extremes: [(u64, u64); Op::ALL.len()],
}

impl Latency {
    /// Empty histograms.
    pub fn new() -> Self {
        // They grow with what they see, up to the end of virtual time: a kind that never comes costs 16 KiB,
        // not half a megabyte.
        let empty = Histogram::new(3).expect("three digits are possible");
        Self {
            histograms: vec![empty; Op::ALL.len()],
            sums: [0; Op::ALL.len()],
            extremes: [(u64::MAX, 0); Op::ALL.len()],
        }
    }

    #[inline]
    pub(crate) fn record(&mut self, op: Op, ns: u64) {
        let recorded = self.histograms[op as usize].record(ns);
        debug_assert!(recorded.is_ok(), "a growing histogram takes every value");
        self.sums[op as usize] += u128::from(ns);
        let (min, max) = &mut self.extremes[op as usize];
        (*min, *max) = ((*min).min(ns), (*max).max(ns));
    }

    /// Shortest and longest in ns, exact; `None` if there are none.
    pub fn extremes_ns(&self, op: Op) -> Option<(u64, u64)> {
        let (min, max) = self.extremes[op as usize];
        (min <= max).then_some((min, max))
    }

    /// The latencies of one kind.
    pub fn of(&self, op: Op) -> &Histogram<u64> {
        &self.histograms[op as usize]
    }

    /// Exact mean in ns, 0 if there are none.
    pub fn mean_ns(&self, op: Op) -> f64 {
        match self.of(op).len() {
            0 => 0.0,
            n => self.sums[op as usize] as f64 / n as f64,
        }
    }

    /// Forgets everything, for a new measurement window.
    pub fn clear(&mut self) {
        self.histograms.iter_mut().for_each(Histogram::reset);
        self.sums = [0; Op::ALL.len()];
        self.extremes = [(u64::MAX, 0); Op::ALL.len()];
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}
