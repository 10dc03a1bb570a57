//! Uncorrectable reads: units whose data no retry recovers.
//!
//! 1. A unit is *lost* by chance, by a planned fault, or because it would need more retries than allowed.
//! 2. It stays lost until its block is erased. A host write of the same logical unit uses another page.
//! 3. A layer that moves a lost unit marks the unit before the program
//!    ([`Nand::mark_next`](crate::Nand::mark_next)). That program stores the mark in the out-of-band area of
//!    the copy, so the copy is lost too.
//!
//! The out-of-band area has a separate code and stays readable.

use std::collections::BTreeSet;

use strobe_types::{Lpn, Ppa, Ppn, Prng, Stored};

use super::Chip;
use crate::{Cause, Medium, Timing, Unit};

/// Duration of a planned fault of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub enum Lasts {
    /// The next read. A host read fails; an internal read is retried and succeeds.
    Once,
    /// Until the block is erased.
    UntilErased,
}

#[derive(Clone, Debug, Stored)]
pub(super) struct Faults {
    rate: f64,
    chance: Prng,
    lost: BTreeSet<Ppa>,
    once: BTreeSet<Ppa>,
    failing: BTreeSet<Ppa>,
    marked: BTreeSet<Lpn>,
    uncorrectable: u64,
}

impl Faults {
    fn new(rate: f64, seed: u64) -> Self {
        Self {
            rate,
            chance: Prng::derive(seed, "read-faults"),
            lost: BTreeSet::new(),
            once: BTreeSet::new(),
            failing: BTreeSet::new(),
            marked: BTreeSet::new(),
            uncorrectable: 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// An internal read that succeeds at the second attempt.
    Repeated,
    Lost,
}

impl<T: Timing, M: Medium> Chip<T, M> {
    /// Makes each read of a flash page lose the page with probability `rate`. `seed` decides which reads.
    #[must_use]
    pub fn with_read_faults(mut self, rate: f64, seed: u64) -> Self {
        self.faults = Some(Box::new(Faults::new(rate, seed)));
        self
    }

    /// State of faults; without a rate, created at the first lost unit.
    fn faults_mut(&mut self) -> &mut Faults {
        self.faults.get_or_insert_with(|| Box::new(Faults::new(0.0, 0)))
    }

    pub(super) fn lose_unit(&mut self, ppa: Ppa, lasts: Lasts) {
        let faults = self.faults_mut();
        match lasts {
            Lasts::Once => faults.once.insert(ppa),
            Lasts::UntilErased => faults.lost.insert(ppa),
        };
    }

    pub(super) fn is_lost_unit(&self, ppa: Ppa) -> bool {
        self.faults.as_ref().is_some_and(|faults| faults.lost.contains(&ppa))
    }

    pub(super) fn has_failed_unit(&self, ppa: Ppa) -> bool {
        self.faults.as_ref().is_some_and(|faults| faults.failing.contains(&ppa) || faults.lost.contains(&ppa))
    }

    pub(super) fn has_lost_units(&self) -> bool {
        self.faults.as_ref().is_some_and(|faults| !faults.lost.is_empty())
    }

    pub(super) fn uncorrectable_reads(&self) -> u64 {
        self.faults.as_ref().map_or(0, |faults| faults.uncorrectable)
    }

    #[inline(always)]
    pub(super) fn count_programs(&mut self, first: Ppn, pages: u32) {
        if let Some(watched) = &mut self.watched {
            watched.extend((0..pages).map(|at| first.plus(at)));
        }
    }

    pub(super) fn pages_programmed(&self, ppn: Ppn) -> u32 {
        self.blocks[self.geometry.block_of_page(ppn).index()].pages_programmed
    }

    fn units_of(&self, ppn: Ppn, part: u32) -> std::ops::Range<Ppa> {
        let per_part = self.geometry.units_per_page() / self.parts;
        let first = self.geometry.first_unit_of_page(ppn).plus(part * per_part);
        first..first.plus(per_part)
    }

    pub(super) fn begin_read(&mut self) {
        if let Some(faults) = &mut self.faults {
            faults.failing.clear();
        }
    }

    pub(super) fn meet_fault(&mut self, ppn: Ppn, part: u32, cause: Cause) -> Fault {
        let units = self.units_of(ppn, part);
        let Some(faults) = &mut self.faults else { return Fault::None };
        if faults.rate > 0.0 && faults.chance.chance(faults.rate) {
            faults.lost.extend((units.start.get()..units.end.get()).map(Ppa::new));
        }
        let mut fault = Fault::None;
        if !faults.once.is_empty() {
            let armed: Vec<Ppa> = faults.once.range(units.clone()).copied().collect();
            for ppa in &armed {
                faults.once.remove(ppa);
            }
            // A planned one-time fault fails a host read; an internal read succeeds at its retry.
            if !armed.is_empty() {
                fault = Fault::Repeated;
                if cause == Cause::Host {
                    fault = Fault::Lost;
                    faults.failing.extend(armed);
                }
            }
        }
        if faults.lost.range(units).next().is_some() {
            fault = Fault::Lost;
        }
        faults.uncorrectable += u64::from(fault == Fault::Lost);
        fault
    }

    pub(super) fn lose_page(&mut self, ppn: Ppn, part: u32) {
        let units = self.units_of(ppn, part);
        let faults = self.faults_mut();
        faults.lost.extend((units.start.get()..units.end.get()).map(Ppa::new));
        faults.uncorrectable += 1;
    }

    pub(super) fn mark_units(&mut self, lpns: impl Iterator<Item = Lpn>) {
        if let Some(faults) = &mut self.faults {
            faults.marked = lpns.collect();
            self.go_page_by_page();
        }
    }

    pub(super) fn forget_marks(&mut self) {
        self.mark_units(std::iter::empty());
        self.go_page_by_page();
    }

    pub(super) fn go_page_by_page(&mut self) {
        let has_marks = self.faults.as_ref().is_some_and(|faults| !faults.marked.is_empty());
        self.page_by_page = self.wear.program_fail_rate > 0.0 || self.cuts.is_planned() || has_marks;
    }

    pub(super) fn carry_marks(&mut self, first: Ppa, units: &[Unit<M::Payload>]) {
        let Some(faults) = &mut self.faults else { return };
        if faults.marked.is_empty() {
            return;
        }
        for (at, unit) in (0..).zip(units) {
            if faults.marked.remove(&unit.lpn) {
                faults.lost.insert(first.plus(at));
            }
        }
        if faults.marked.is_empty() {
            self.go_page_by_page();
        }
    }

    pub(super) fn lost_units(&self, first: Ppa, end: Ppa) -> Vec<Ppa> {
        self.faults.as_ref().map_or(Vec::new(), |faults| faults.lost.range(first..end).copied().collect())
    }

    pub(super) fn forget_faults(&mut self, first: Ppa, end: Ppa) {
        let Some(faults) = &mut self.faults else { return };
        for units in [&mut faults.lost, &mut faults.once] {
            let gone: Vec<Ppa> = units.range(first..end).copied().collect();
            for ppa in &gone {
                units.remove(ppa);
            }
        }
    }
}
