//! Reads of a page, on flash or on its way there; and units whose data cannot be read: what becomes of them when the map
//! moves them, and of the map itself.
//!
//! 1. Collection reads a victim; flash says afterwards which units are lost ([`Nand::is_lost`]).
//! 2. Before the copies are programmed, the lost ones are marked, so that the copy stays lost and no old or invented
//!    data takes the place of what the host wrote. An overwrite or a trim ends that.
//! 3. A translation page has no second copy: without it the drive has lost the addresses of its units, and ends.

use strobe_nand::{Cause, Class, Nand, Payload, ReadDone, Timing, Unit, Wanted, When};
use strobe_types::{BlockId, Lpn, Ppa, Ppn};

use crate::gc::VictimPolicy;
use crate::map::page::core::Core;
use crate::map::page::reclaim::background::Background;
use crate::{Done, FtlError, read_result};

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    /// Marks those of `units`, about to be programmed as copies of `sources`, whose data is lost.
    #[inline(always)]
    pub(super) fn pass_losses_on(
        &mut self,
        units: &[Unit<N::Payload>],
        sources: impl Iterator<Item = Ppa>,
    ) -> Result<(), FtlError> {
        if self.nand.has_losses() {
            return self.mark_lost(units, sources);
        }
        Ok(())
    }

    #[cold]
    fn mark_lost(
        &mut self,
        units: &[Unit<N::Payload>],
        sources: impl Iterator<Item = Ppa>,
    ) -> Result<(), FtlError> {
        let is_lost = |&(_, ppa): &(Lpn, Ppa)| self.nand.is_lost(ppa);
        let lost: Vec<(Lpn, Ppa)> = units.iter().map(|unit| unit.lpn).zip(sources).filter(is_lost).collect();
        let is_table = |lpn| self.store.paged().is_some_and(|translation| translation.is_translation(lpn));
        if let Some(&(_, ppa)) = lost.iter().find(|&&(lpn, _)| is_table(lpn)) {
            return Err(self.lose_map(ppa));
        }
        self.nand.mark_next(lost.into_iter().map(|(lpn, _)| lpn));
        Ok(())
    }

    /// Ends the drive's life: the translation page at `ppa` cannot be read.
    #[cold]
    pub(super) fn lose_map(&mut self, ppa: Ppa) -> FtlError {
        let page = self.nand.geometry().page_of(ppa);
        self.end_of_life.insert(FtlError::MapUnreadable { page }).clone()
    }

    /// Refuses whatever needs the map, if a part of it is lost.
    #[inline(always)]
    pub(super) fn refuse_without_map(&self) -> Result<(), FtlError> {
        match &self.end_of_life {
            Some(error @ FtlError::MapUnreadable { .. }) => Err(error.clone()),
            _ => Ok(()),
        }
    }
}

/// A read of the host.
pub(super) struct Reader<'a, N: Nand, V> {
    pub(super) core: &'a mut Core<N, V>,
    pub(super) background: &'a Background,
}

impl<N: Nand, V: VictimPolicy> Reader<'_, N, V> {
    /// Reads `count` units from `first` on, whose map entries are known at `now`, into `out`, and shows the block of each
    /// page to `on_block`. Returns how that ended.
    pub(super) fn read(
        &mut self,
        now: When,
        first: Lpn,
        count: u32,
        out: &mut Vec<N::Payload>,
        mut on_block: impl FnMut(BlockId),
    ) -> Done {
        let mut lost = None;
        let mut finished = now;
        let mut at = 0;
        while at < count {
            let Some(ppa) = self.core.map.locate(first.plus(at)) else {
                out.push(N::Payload::zero());
                at += 1;
                continue;
            };
            // Neighbours on the same page come with one read.
            let page = self.core.nand.geometry().page_of(ppa);
            let from = out.len();
            while at < count
                && let Some(next) = self.core.map.locate(first.plus(at))
                && self.core.nand.geometry().page_of(next) == page
            {
                out.push(self.core.nand.payload(next));
                at += 1;
            }
            let units = (out.len() - from) as u32;
            let first = first.plus(at - units);
            let (done, is_lost) = if self.core.nand.is_on_its_way(page) {
                let (done, is_lost) = self.read_on_its_way(now, first, units);
                (done, is_lost.or_else(|| self.lost_on_their_way(first, units)))
            } else {
                let wanted = self.wanted_of_page(first, units);
                let done = self.core.nand.read(now, page, wanted, Cause::Host);
                (done.when, self.lost_in(done, first, units))
            };
            lost = lost.or(is_lost);
            finished = self.core.nand.both(finished, done);
            on_block(self.core.nand.geometry().block_of_page(page));
        }
        read_result(finished, lost)
    }

    /// Reads `count` units from `first` on, all of a page that is not on flash yet. Returns when they are there, and the
    /// first that was lost in these reads.
    #[cold]
    fn read_on_its_way(&mut self, now: When, first: Lpn, count: u32) -> (When, Option<Lpn>) {
        let place = |lpn| {
            let from = self.core.map.locate(lpn).and_then(|unit| self.flash_place(unit))?;
            Some((lpn, from, self.core.nand.geometry().page_of(from)))
        };
        let places: Vec<(Lpn, Ppa, Ppn)> = (0..count).filter_map(|at| place(first.plus(at))).collect();
        let (mut finished, mut lost) = (now, None);
        for units in places.chunk_by(|a, b| a.2 == b.2) {
            let page = units[0].2;
            let wanted = self.core.nand.wanted(units.iter().map(|&(_, from, _)| from));
            let done = self.core.nand.read(now, page, wanted, Cause::Host);
            if done.is_uncorrectable() {
                let failed = units.iter().find(|&&(_, from, _)| self.core.nand.has_failed(from));
                lost = lost.or(failed.map(|&(lpn, ..)| lpn));
            }
            finished = self.core.nand.both(finished, done.when);
        }
        (finished, lost)
    }

    /// The place from which `unit`, of a page that is not on flash yet, is read: its source if it is a copy, or its own if
    /// that is there no more. `None` if the host has sent it: then it is still at hand.
    fn flash_place(&self, unit: Ppa) -> Option<Ppa> {
        self.background.source_of(unit).or_else(|| {
            let geometry = self.core.nand.geometry();
            let place = geometry.place(geometry.page_of(unit));
            let class = self.core.nand.timing().last_class(|| place);
            (class == Some(Class::BackgroundProgram)).then_some(unit)
        })
    }

    /// `count` mapped units from `first` on, all of one page, as a read transfers them.
    #[inline]
    fn wanted_of_page(&self, first: Lpn, count: u32) -> Wanted {
        let mut wanted = Wanted::NONE;
        if self.core.nand.pages_per_program() == 1 {
            return Wanted::first(count);
        }
        let units = (0..count).filter_map(|at| self.core.map.locate(first.plus(at)));
        units.for_each(|ppa| wanted.add(self.core.nand.part_of(ppa)));
        wanted
    }

    /// The first of `count` units from `first` on that was lost in the read `done`.
    #[inline(always)]
    fn lost_in(&self, done: ReadDone, first: Lpn, count: u32) -> Option<Lpn> {
        if done.is_uncorrectable() { self.first_lost(first, count) } else { None }
    }

    #[cold]
    fn first_lost(&self, first: Lpn, count: u32) -> Option<Lpn> {
        let is_lost =
            |&lpn: &Lpn| self.core.map.locate(lpn).is_some_and(|ppa| self.core.nand.has_failed(ppa));
        (0..count).map(|at| first.plus(at)).find(is_lost)
    }

    /// [`Reader::lost_in`] for units that are not on flash yet: a copy of a lost one may be on its way.
    #[cold]
    fn lost_on_their_way(&self, first: Lpn, count: u32) -> Option<Lpn> {
        if self.core.nand.has_losses() { self.first_lost(first, count) } else { None }
    }
}
