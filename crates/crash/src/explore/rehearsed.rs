//! Result of the uncut run, from which cut points are chosen.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Mutex;

use strobe_linux::command::OutsideResult;
use strobe_linux::kernel::KernelInfo;
use strobe_ssd::Simulated;
use strobe_types::SimTime;

use super::cut_points::{self, CutPoints};
use super::kinds::Kinds;
use super::line::Origin;
use super::snapshot::Printed;

/// Result of the uncut run.
pub struct Rehearsed {
    pub(super) kernel: KernelInfo,
    pub(super) drive: Mutex<Box<dyn Simulated>>,
    pub(super) start: SimTime,
    pub(super) operations: RangeInclusive<u64>,
    /// Cut after the last operation, if the drive's cache then holds data.
    pub(super) end: Option<u64>,
    pub(super) flushed: Vec<u64>,
    pub(super) lines: Vec<Printed>,
    pub(super) took_ns: u64,
    pub(super) outside: Option<OutsideResult>,
    /// Drive after the program has ended and the volume is unmounted.
    pub(super) left: Mutex<Box<dyn Simulated>>,
    pub(super) left_at: SimTime,
    /// Origin of the last write of each 4 KiB page, by first sector.
    pub(super) written: BTreeMap<u64, Origin>,
    pub(super) passes_without_program: bool,
    pub(super) kinds: Kinds,
}

impl Rehearsed {
    /// Flash operations of the program, from mount to unmount.
    pub fn operations(&self) -> RangeInclusive<u64> {
        self.operations.clone()
    }

    /// Number of completed flushes.
    pub fn flushes(&self) -> usize {
        self.flushed.len()
    }

    /// Number of printed lines.
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Virtual time from power-on to power-off, in ns.
    pub fn took_ns(&self) -> u64 {
        self.took_ns
    }

    /// Files that the program wrote outside the drive.
    pub fn outside(&self) -> Option<&OutsideResult> {
        self.outside.as_ref()
    }

    /// True if the kernel reports file system calls and the origins of requests.
    pub fn has_file_log(&self) -> bool {
        self.kernel.can_log_files()
    }

    /// True if the check passes on the drive as it was before the program: it does not notice that data is
    /// missing.
    pub fn passes_without_program(&self) -> bool {
        self.passes_without_program
    }

    /// True if the kernel can add syncs to the program's system calls.
    pub fn can_add_syncs(&self) -> bool {
        self.kernel.can_add_syncs()
    }

    pub(super) fn has_place(&self, operation: u64) -> bool {
        self.operations.contains(&operation) || self.end == Some(operation)
    }

    /// Chooses up to `cuts` operations, in order; with [`CutPoints::All`], all. Includes the end of the
    /// program if the drive's cache then holds data.
    pub fn choose(&self, places: CutPoints, cuts: usize, seed: u64) -> Vec<u64> {
        let behind = match places {
            CutPoints::Flushes => self.flushed.clone(),
            CutPoints::Lines => self.lines.iter().map(|line| line.operations).collect(),
            _ => Vec::new(),
        };
        let others = cuts - usize::from(self.end.is_some()).min(cuts);
        let chosen = match places {
            CutPoints::Distinct => return self.unseen(cuts, &BTreeSet::new()),
            _ => cut_points::choose(self.operations(), &behind, places, others, seed),
        };
        chosen.into_iter().chain(self.end).collect()
    }

    /// Chooses up to `cuts` operations of different kinds, in order, except for the kinds in `seen`. Includes the
    /// end of the program like [`Self::choose`].
    pub fn unseen(&self, cuts: usize, seen: &BTreeSet<String>) -> Vec<u64> {
        let range = self.operations.clone().into_inner();
        let others = cuts - usize::from(self.end.is_some()).min(cuts);
        let chosen = self.kinds.choose(range, others, |kind| seen.contains(kind));
        chosen.into_iter().chain(self.end).collect()
    }

    /// Kind of a flash operation: the last call, the commands in flight, the running syncs, and the files with
    /// data that is not durable, without numbers.
    pub fn kind(&self, operation: u64) -> String {
        self.kinds.at(operation)
    }
}
