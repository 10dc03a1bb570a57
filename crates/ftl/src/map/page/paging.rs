//! Demand paging at work: fetching entries, evicting them, and telling translation pages what has moved.

use strobe_nand::{Cause, Nand, Payload, Unit};
use strobe_types::{BlockId, Lpn, PackedPpa, Ppa, SimTime, prefetch_write};

use super::collect::Scratch;
use super::{BlockState, HOST, PageMap, PageMapConfig};
use crate::FtlError;
use crate::frontier::Frontier;
use crate::gc::VictimPolicy;

/// Which entries a program of a translation page brings up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Update {
    /// This one, which is evicted.
    Evicted(Lpn),
    /// Those of units that garbage collection has moved.
    Moved,
    /// All of them.
    All,
}

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// [`PageMap::write_pages`] for the host: the entries of a page's units are fetched before it.
    pub(super) fn write_translated(
        &mut self,
        now: SimTime,
        cause: Cause,
        units: &[Unit<N::Payload>],
        mut settle: impl FnMut(&mut Self, &[Unit<N::Payload>], Ppa),
    ) -> Result<SimTime, FtlError> {
        let per_page = self.nand.geometry().units_per_page() as usize;
        let mut finished = now;
        for (at, page) in (0..).step_by(per_page).zip(units.chunks(per_page)) {
            if let (Some(ahead), Some(translation)) = (units.get(at + 12), &self.translation) {
                translation.cmt.prefetch(ahead.lpn);
                prefetch_write(&self.map, ahead.lpn.index());
            }
            let mut ready = now;
            for unit in page {
                ready = ready.max(self.use_entry(now, unit.lpn)?);
            }
            let done = self.write_pages(ready, HOST, cause, page, |ftl, run, first| {
                settle(ftl, run, first);
                if let Some(translation) = &mut ftl.translation {
                    translation.written(run);
                }
            })?;
            finished = finished.max(done);
            self.commit_if_full(done)?;
        }
        Ok(finished)
    }

    /// When the entries of `count` units from `first` on are cached, for a read. None is left out: if there
    /// is no room to be made, as at the end of life, it is read and forgotten.
    pub(super) fn look_up(&mut self, now: SimTime, first: Lpn, count: u32) -> SimTime {
        let mut ready = now;
        for lpn in (0..count).map(|at| first.plus(at)) {
            let cached = match self.use_entry(now, lpn) {
                Ok(at) => at,
                Err(_) => self.read_translation(now, lpn),
            };
            ready = ready.max(cached);
        }
        ready
    }

    /// Uses the map entry of `lpn` for the host; returns when it is cached.
    #[inline(always)]
    fn use_entry(&mut self, now: SimTime, lpn: Lpn) -> Result<SimTime, FtlError> {
        let Some(translation) = &mut self.translation else { return Ok(now) };
        if translation.cmt.hit(lpn) {
            translation.stats.hits += 1;
            return Ok(now);
        }
        translation.stats.misses += 1;
        self.fetch(now, lpn)
    }

    /// Reads the entry of `lpn`, and those that come with it, when there is room for them.
    #[inline(never)]
    fn fetch(&mut self, now: SimTime, lpn: Lpn) -> Result<SimTime, FtlError> {
        let mut ready = self.make_room(now)?;
        ready = self.read_translation(ready, lpn);
        let Some(translation) = &mut self.translation else { return Ok(ready) };
        translation.cmt.insert(lpn);
        if translation.fetched == 1 {
            return Ok(ready);
        }
        let entries = translation.entries(translation.page_of(lpn));
        let with_it = translation.fetched as usize - 1;
        for ahead in entries.skip_while(|&entry| entry <= lpn).take(with_it) {
            if self.translation.as_ref().is_some_and(|state| state.cmt.contains(ahead)) {
                continue;
            }
            ready = ready.max(self.make_room(now)?);
            if let Some(translation) = &mut self.translation {
                translation.cmt.insert(ahead);
            }
        }
        Ok(ready)
    }

    /// Evicts an entry if none more fits; returns when that is done.
    fn make_room(&mut self, now: SimTime) -> Result<SimTime, FtlError> {
        let Some(translation) = &mut self.translation else { return Ok(now) };
        if !translation.cmt.is_full() {
            return Ok(now);
        }
        let Some(oldest) = translation.cmt.oldest() else { return Ok(now) };
        let mut ready = now;
        if translation.cmt.is_dirty(oldest) {
            self.make_room_on_flash(now)?;
            // A collection may have had reason to program the same page.
            let is_dirty = self.translation.as_ref().is_some_and(|state| state.cmt.is_dirty(oldest));
            if is_dirty {
                ready = self.write_translation(now, Update::Evicted(oldest), oldest)?;
            }
        }
        if let Some(translation) = &mut self.translation {
            translation.stats.evictions += 1;
            translation.cmt.remove(oldest);
        }
        Ok(ready)
    }

    /// Collects garbage if the next translation page needs a block: programs of translation pages must not
    /// do so themselves, as collection is what many of them are for.
    fn make_room_on_flash(&mut self, now: SimTime) -> Result<(), FtlError> {
        self.refuse_at_end_of_life()?;
        let has_room = self.frontiers[self.roles.translation].next_pages().is_some();
        if !has_room && (self.free.count() < self.min_free_blocks || !self.retiring.is_empty()) {
            self.collect(now)?;
        }
        Ok(())
    }

    /// Reads the translation page with the entry of `lpn`, if there is one.
    fn read_translation(&mut self, now: SimTime, lpn: Lpn) -> SimTime {
        let Some(translation) = &mut self.translation else { return now };
        let first = translation.first_unit(translation.page_of(lpn));
        let Some(ppa) = self.map[first.index()].get() else { return now };
        translation.stats.tp_reads += 1;
        let geometry = self.nand.geometry();
        let (page, units) = (geometry.page_of(ppa), geometry.units_per_page());
        self.nand.read(now, page, units, Cause::Map)
    }

    /// Brings the translation page with the entry of `lpn` up to date: reads and programs it.
    #[inline(never)]
    fn write_translation(&mut self, now: SimTime, update: Update, lpn: Lpn) -> Result<SimTime, FtlError> {
        let ready = self.read_translation(now, lpn);
        let Some(translation) = &self.translation else { return Ok(ready) };
        let page = translation.page_of(lpn);
        let first = translation.first_unit(page);
        let unit = |at| Unit { lpn: first.plus(at), payload: N::Payload::zero() };
        let stream = self.roles.translation;
        let done = match translation.units_per_page {
            1 => self.write_pages(ready, stream, Cause::Map, &[unit(0)], Self::settle_translation)?,
            count => {
                let units: Vec<_> = (0..count).map(unit).collect();
                self.write_pages(ready, stream, Cause::Map, &units, Self::settle_translation)?
            }
        };
        let Some(translation) = &mut self.translation else { return Ok(done) };
        translation.stats.tp_programs += 1;
        translation.is_stale[page as usize] = false;
        translation.is_moved[page as usize] = false;
        match update {
            Update::Moved => translation.stats.gc_tp_updates += 1,
            Update::Evicted(lpn) => {
                translation.stats.dirty_evictions += 1;
                translation.cmt.clean(lpn, page);
            }
            Update::All => {}
        }
        if update == Update::All || translation.is_batched {
            translation.cmt.clean_all(page);
        }
        Ok(done)
    }

    /// Maps the units of a translation page just written from `first` on. The policies' clock stands
    /// still: it counts what the host does.
    fn settle_translation(&mut self, units: &[Unit<N::Payload>], first: Ppa) {
        for (at, unit) in (0..).zip(units) {
            let ppa = first.plus(at);
            self.policy.written(ppa, self.tick);
            let entry = &mut self.map[unit.lpn.index()];
            if let Some(old) = std::mem::replace(entry, PackedPpa::some(ppa)).get() {
                self.invalidate(old);
            }
        }
    }

    /// Tells the translation pages where units that collection has moved are now, each page once. Nothing
    /// is erased before.
    pub(super) fn update_moved(&mut self, now: SimTime) -> Result<SimTime, FtlError> {
        let mut finished = now;
        while let Some(translation) = &mut self.translation
            && let Some(page) = translation.moved.pop()
        {
            let Some(lpn) = translation.entries(page).next() else { continue };
            match self.write_translation(now, Update::Moved, lpn) {
                Ok(done) => finished = finished.max(done),
                Err(error) => {
                    if let Some(translation) = &mut self.translation {
                        translation.moved.push(page);
                    }
                    return Err(error);
                }
            }
        }
        Ok(finished)
    }

    /// Programs every translation page with dirty entries or, if those are wanted, one that is stale.
    pub(super) fn write_back_entries(&mut self, now: SimTime, stale: bool) -> Result<SimTime, FtlError> {
        let mut finished = now;
        for page in 0..self.translation.as_ref().map_or(0, |translation| translation.pages) {
            let is_due = |ftl: &Self| {
                ftl.translation.as_ref().is_some_and(|translation| {
                    translation.cmt.has_dirty(page) || (stale && translation.is_stale[page as usize])
                })
            };
            if !is_due(self) {
                continue;
            }
            self.make_room_on_flash(now)?;
            let first = self.translation.as_ref().and_then(|translation| translation.entries(page).next());
            if let Some(lpn) = first
                && is_due(self)
            {
                finished = finished.max(self.write_translation(now, Update::All, lpn)?);
            }
        }
        Ok(finished)
    }

    /// Programs the translation pages with dirty entries, then makes trims durable.
    pub(super) fn flush_translated(&mut self, now: SimTime) -> Result<SimTime, FtlError> {
        let written = match self.end_of_life {
            // Nothing more can be programmed; what was written is found without them.
            Some(_) => Ok(now),
            None => self.write_back_entries(now, false),
        };
        let done = self.commit(now)?;
        written.map(|at| at.max(done))
    }

    /// Makes trims so far survive a power cut; returns when they do.
    pub(super) fn commit_trims(&mut self, now: SimTime) -> Result<SimTime, FtlError> {
        let Some(trims) = self.translation.as_mut().and_then(|state| state.trims.as_mut()) else {
            return Ok(now);
        };
        if let Some(FtlError::MapWornOut) = self.end_of_life {
            // The trims of the epoch that failed are nowhere but in memory.
            return Err(FtlError::MapWornOut);
        }
        let done = trims.commit(&mut self.nand, now, self.sequence, self.host_units_written);
        done.map_err(|_| self.end_of_life.insert(FtlError::MapWornOut).clone())
    }

    /// Moves translation pages together until `wanted` blocks are erased, and the next victim can be moved
    /// with all that it may cause: updates that collection has programmed leave invalid translation pages
    /// behind, which no victim policy need choose. Moving them causes no updates, so each block moved is a
    /// gain.
    pub(super) fn compact_translation(
        &mut self,
        now: SimTime,
        wanted: u32,
        scratch: &mut Scratch<N::Payload>,
    ) -> Result<SimTime, FtlError> {
        let mut finished = now;
        while self.free.count() < wanted.max(self.blocks_for_a_victim()) {
            let units = self.nand.geometry().units_per_block();
            let Some(translation) = &self.translation else { break };
            let closed = translation.blocks.iter().filter(|block| {
                self.states[block.index()] == BlockState::Closed && self.valid[block.index()] < units
            });
            let Some(&block) = closed.min_by_key(|block| (self.valid[block.index()], **block)) else { break };
            finished = finished.max(self.collect_one(now, Cause::Gc, block, scratch)?);
        }
        Ok(finished)
    }

    /// Erased blocks that moving one more victim may take.
    fn blocks_for_a_victim(&self) -> u32 {
        let geometry = self.nand.geometry();
        let each = geometry.pages_per_block().div_ceil(Frontier::lanes_of(geometry));
        let missing = |stream: usize| {
            let frontier = &self.frontiers[stream];
            let has_room =
                |&(_, _, programmed): &(u32, BlockId, u32)| geometry.pages_per_block() - programmed >= each;
            frontier.lanes() - frontier.open_lanes(geometry).filter(has_room).count() as u32
        };
        let mut copies = missing(self.roles.hot);
        if self.roles.cold != self.roles.hot {
            copies += missing(self.roles.cold);
        }
        // One more for a program that fails.
        copies + self.config.translation_updates(geometry) + 1
    }

    /// Erased blocks that translation pages take when `units` units are moved, some of them perhaps
    /// translation pages themselves.
    pub(super) fn blocks_to_update(&self, units: u32) -> u32 {
        let geometry = self.nand.geometry();
        let pages = self.config.translation_pages(geometry).saturating_mul(2).min(units);
        PageMapConfig::translation_blocks(geometry, pages)
    }

    /// Puts translation pages behind the units of the host; returns how many these are. A block holds one
    /// kind only.
    pub(super) fn put_data_first(&self, scratch: &mut Scratch<N::Payload>) -> usize {
        let Some(translation) = &self.translation else { return scratch.units.len() };
        let is_table = |victim: &BlockId| translation.blocks.contains(victim);
        if !scratch.victims.iter().any(is_table) {
            return scratch.units.len();
        }
        let is_data = |ppa: &Ppa| !translation.is_translation(self.owner_of(*ppa));
        scratch.units.sort_by_key(|ppa| !is_data(ppa));
        scratch.units.partition_point(is_data)
    }
}
