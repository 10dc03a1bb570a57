//! Host reads, and handling of unreadable units.
//!
//! Relocation of an unreadable unit:
//!
//! 1. Relocation reads a victim. The flash then reports lost units ([`Nand::is_lost`]).
//! 2. Lost units are marked before their copies are programmed. A copy stays lost until an overwrite or trim, and
//!    never returns old or invented data.
//! 3. A translation page has no second copy. Losing one loses the addresses of its units and ends the drive's
//!    life.

use strobe_nand::{Cause, Class, Nand, Payload, ReadDone, Timing, Wanted, When};
use strobe_types::{BlockId, Lpn, Ppa, Ppn};

use crate::gc::VictimPolicy;
use crate::map::page::core::Core;
use crate::map::page::reclaim::background::Background;
use crate::{Done, read_result};

pub(super) struct Reader<'a, N: Nand, V> {
    pub(super) core: &'a mut Core<N, V>,
    pub(super) background: &'a Background,
}

impl<N: Nand, V: VictimPolicy> Reader<'_, N, V> {
    /// Reads units from `now` on, when their map entries are known. Passes the block of each page to
    /// `on_block`.
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
            let Some(ppa) = self.core.map().locate(first.plus(at)) else {
                out.push(N::Payload::zero());
                at += 1;
                continue;
            };
            // One read covers consecutive units on the same page.
            let page = self.core.nand().geometry().page_of(ppa);
            let from = out.len();
            while at < count
                && let Some(next) = self.core.map().locate(first.plus(at))
                && self.core.nand().geometry().page_of(next) == page
            {
                out.push(self.core.nand().payload(next));
                at += 1;
            }
            let units = (out.len() - from) as u32;
            let first = first.plus(at - units);
            // A page whose program is in flight is read from the source of the copy or from the write buffer.
            let (done, is_lost) = if self.core.nand().is_on_its_way(page) {
                let (done, is_lost) = self.read_on_its_way(now, first, units);
                (done, is_lost.or_else(|| self.lost_on_their_way(first, units)))
            } else {
                let wanted = self.wanted_of_page(first, units);
                let done = self.core.read(now, page, wanted, Cause::Host);
                (done.when, self.lost_in(done, first, units))
            };
            lost = lost.or(is_lost);
            finished = self.core.both(finished, done);
            on_block(self.core.nand().geometry().block_of_page(page));
        }
        read_result(finished, lost)
    }

    /// Reads units of a page whose program is in flight. Returns the completion time and the first lost unit.
    #[cold]
    fn read_on_its_way(&mut self, now: When, first: Lpn, count: u32) -> (When, Option<Lpn>) {
        let place = |lpn| {
            let from = self.core.map().locate(lpn).and_then(|unit| self.flash_place(unit))?;
            Some((lpn, from, self.core.nand().geometry().page_of(from)))
        };
        let places: Vec<(Lpn, Ppa, Ppn)> = (0..count).filter_map(|at| place(first.plus(at))).collect();
        let (mut finished, mut lost) = (now, None);
        for units in places.chunk_by(|a, b| a.2 == b.2) {
            let page = units[0].2;
            let wanted = self.core.nand().wanted(units.iter().map(|&(_, from, _)| from));
            let done = self.core.read(now, page, wanted, Cause::Host);
            if done.is_uncorrectable() {
                let failed = units.iter().find(|&&(_, from, _)| self.core.nand().has_failed(from));
                lost = lost.or(failed.map(|&(lpn, ..)| lpn));
            }
            finished = self.core.both(finished, done.when);
        }
        (finished, lost)
    }

    /// Flash address to read an in-flight `unit` from: the source of the copy, or `unit` itself if the source
    /// is no longer recorded. `None` for host data, which is still in memory.
    fn flash_place(&self, unit: Ppa) -> Option<Ppa> {
        self.background.source_of(unit).or_else(|| {
            let geometry = self.core.nand().geometry();
            let place = geometry.place(geometry.page_of(unit));
            let class = self.core.nand().timing().last_class(|| place);
            (class == Some(Class::BackgroundProgram)).then_some(unit)
        })
    }

    #[inline]
    fn wanted_of_page(&self, first: Lpn, count: u32) -> Wanted {
        let mut wanted = Wanted::NONE;
        if self.core.nand().pages_per_program() == 1 {
            return Wanted::first(count);
        }
        let units = (0..count).filter_map(|at| self.core.map().locate(first.plus(at)));
        units.for_each(|ppa| wanted.add(self.core.nand().part_of(ppa)));
        wanted
    }

    #[inline(always)]
    fn lost_in(&self, done: ReadDone, first: Lpn, count: u32) -> Option<Lpn> {
        if done.is_uncorrectable() { self.first_lost(first, count) } else { None }
    }

    #[cold]
    fn first_lost(&self, first: Lpn, count: u32) -> Option<Lpn> {
        let is_lost =
            |&lpn: &Lpn| self.core.map().locate(lpn).is_some_and(|ppa| self.core.nand().has_failed(ppa));
        (0..count).map(|at| first.plus(at)).find(is_lost)
    }

    #[cold]
    fn lost_on_their_way(&self, first: Lpn, count: u32) -> Option<Lpn> {
        if self.core.nand().has_losses() { self.first_lost(first, count) } else { None }
    }
}
