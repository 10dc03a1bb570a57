//! Demand paging (DFTL): fetches and evicts map entries, and writes translation pages back.

use strobe_nand::{Cause, Nand, Unit, When};
use strobe_types::Lpn;

use crate::gc::VictimPolicy;
use crate::map::page::PageMap;
use crate::map::page::core::Core;
use crate::map::page::core::blocks::BlockState;
use crate::map::page::core::tables::{TablePages, Update};
use crate::map::page::reclaim::Reclaimer;
use crate::map::page::write::Settle;
use crate::place::StreamId;
use crate::{Done, FtlError};

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    pub(super) fn write_paged(
        &mut self,
        now: When,
        stream: StreamId,
        cause: Cause,
        units: &[Unit<N::Payload>],
        settle: &mut Settle<'_, N, V>,
    ) -> Done {
        let per_page = self.core.nand().geometry().units_per_page() as usize;
        let mut finished = now;
        for (at, page) in (0..).step_by(per_page).zip(units.chunks(per_page)) {
            if let Some(ahead) = units.get(at + 12) {
                self.core.store.translation().cmt.prefetch(ahead.lpn);
                self.core.map().prefetch(ahead.lpn);
            }
            // The entries that this page's program changes must be cached before it, and stay so.
            let mut ready = now;
            for unit in page {
                let next = self.pager().use_changed(now, unit.lpn)?;
                ready = self.core.both(ready, next);
            }
            let done = self.fill(ready, stream, cause, page, |core, run, first| {
                settle(core, run, first);
                core.store.translation().written(run);
            })?;
            finished = self.core.both(finished, done);
            self.core.commit_if_full(done)?;
            if self.core.store.translation().take_exchange() {
                // A host stream has opened a block. Only a flush waits for the translation pages.
                self.write_map(done)?;
            }
        }
        Ok(finished)
    }

    pub(super) fn trim_paged(&mut self, now: When, first: Lpn, count: u32) -> Done {
        let mut done = now;
        for lpn in (0..count).map(|at| first.plus(at)) {
            if self.core.is_stopped_at(lpn.get()) {
                self.core.check_stop()?;
            }
            let next = self.pager().look_up_changed(now, lpn);
            self.core.refuse_without_map()?;
            done = self.core.both(done, next);
            self.core.unmap(lpn);
            done = self.core.commit_if_full(done)?;
        }
        Ok(done)
    }

    pub(super) fn flush_map(&mut self, now: When) -> Done {
        let written = self.write_map(now)?;
        if self.core.config.flush_metadata && self.core.store.is_paged() {
            return self.pager().program_metadata(written);
        }
        Ok(written)
    }

    pub(super) fn write_map(&mut self, now: When) -> Done {
        let written = self.pager().flush_entries(now).and_then(|written| self.pager().flush_lists(written));
        let done = self.core.commit(now)?;
        let written = written?;
        Ok(self.core.both(written, done))
    }
}

/// Fetches and evicts map entries of a demand-paged drive for the host. On other drives, the `look_up` and
/// `flush` methods do nothing, and the others must not be called.
pub(super) struct Pager<'a, N: Nand, V>(pub(super) Reclaimer<'a, N, V>);

impl<N: Nand, V: VictimPolicy> Pager<'_, N, V> {
    /// Returns the time when the entries of `count` units are known for a read.
    pub(super) fn look_up(&mut self, now: When, first: Lpn, count: u32) -> When {
        let mut ready = now;
        if self.0.core.store.is_paged() {
            for lpn in (0..count).map(|at| first.plus(at)) {
                let cached = match self.use_entry(now, lpn) {
                    Ok(at) => at,
                    // At end of life, a dirty entry cannot be evicted: the entry is read without being
                    // cached. If the translation page is lost, the caller's `refuse_without_map` rejects the
                    // command.
                    Err(_) => TablePages(self.0.core).read(now, lpn).unwrap_or(now),
                };
                ready = self.0.core.both(ready, cached);
            }
        }
        ready
    }

    /// [`Pager::look_up`] of all entries that change when `lpn` is unmapped.
    pub(super) fn look_up_changed(&mut self, now: When, lpn: Lpn) -> When {
        let own = self.look_up(now, lpn, 1);
        match self.0.core.map().other_owner(lpn) {
            None => own,
            Some(other) => {
                let others = self.look_up(now, other, 1);
                self.0.core.both(own, others)
            }
        }
    }

    /// [`Pager::use_entry`] of all entries that a write to `lpn` changes, including the other owner's of a
    /// shared unit.
    pub(super) fn use_changed(&mut self, now: When, lpn: Lpn) -> Done {
        let own = self.use_entry(now, lpn)?;
        match self.0.core.map().other_owner(lpn) {
            None => Ok(own),
            Some(other) => {
                let others = self.use_entry(now, other)?;
                Ok(self.0.core.both(own, others))
            }
        }
    }

    pub(super) fn use_entry(&mut self, now: When, lpn: Lpn) -> Done {
        if self.0.core.store.translation().cmt.hit(lpn) {
            self.0.core.stats.translation().hits += 1;
            return Ok(now);
        }
        self.0.core.stats.translation().misses += 1;
        self.fetch(now, lpn)
    }

    #[inline(never)]
    fn fetch(&mut self, now: When, lpn: Lpn) -> Done {
        let mut ready = self.evict_if_full(now)?;
        ready = TablePages(self.0.core).read(ready, lpn)?;
        self.0.core.store.translation().cmt.insert(lpn);
        Ok(ready)
    }

    fn evict_if_full(&mut self, now: When) -> Done {
        let cmt = &self.0.core.store.translation().cmt;
        // A dirty entry must reach flash before its eviction.
        let Some(oldest) = cmt.oldest().filter(|_| cmt.is_full()) else { return Ok(now) };
        let mut ready = now;
        if cmt.is_dirty(oldest) {
            ready = self.reclaim_if_short(now)?;
            // Collection may already have programmed this entry's translation page.
            if self.0.core.store.translation().cmt.is_dirty(oldest) {
                ready = TablePages(self.0.core).write(ready, Update::Evicted(oldest), oldest)?;
            }
        }
        self.0.core.stats.translation().evictions += 1;
        self.0.core.store.translation().cmt.remove(oldest);
        Ok(ready)
    }

    /// Collects if the next translation page needs a block and too few are erased.
    fn reclaim_if_short(&mut self, now: When) -> Result<When, FtlError> {
        self.0.core.check_stop()?;
        // The program itself must not collect, as collection programs translation pages.
        let stream = self.0.core.streams.table.translation;
        let has_space = self.0.core.streams[stream].next_pages().is_some();
        // Copies and map updates of victims in progress keep their blocks.
        let erased = self.0.core.blocks().free.count();
        let is_short = self.0.core.must_collect() || !self.0.core.leaves_copies(0, erased.saturating_sub(1));
        if has_space || !is_short {
            return Ok(now);
        }
        // While victims are in progress, the pages left in open blocks come first.
        let goes_on = self.0.background.is_at_work() && self.0.core.streams[stream].turn_to_open_lane();
        if goes_on { Ok(now) } else { self.0.collect(now) }
    }

    /// Programs translation pages with dirty entries. With `stale`, also programs stale translation pages.
    pub(super) fn write_back_entries(&mut self, now: When, stale: bool) -> Done {
        let is_due = |core: &mut Core<N, V>, page: u32| {
            let translation = core.store.translation();
            translation.cmt.has_dirty(page) || (stale && translation.is_stale[page as usize])
        };
        let mut finished = now;
        for page in 0..self.0.core.store.translation().pages {
            if !is_due(self.0.core, page) {
                continue;
            }
            // Collection may program this translation page, so `is_due` is checked again.
            let now = self.reclaim_if_short(now)?;
            let first = self.0.core.store.translation().entries(page).next();
            if let Some(lpn) = first
                && is_due(self.0.core, page)
            {
                let next = TablePages(self.0.core).write(now, Update::All, lpn)?;
                finished = self.0.core.both(finished, next);
            }
        }
        Ok(finished)
    }

    /// Programs a page of metadata on each plane: open blocks, free blocks, erase counts. It is never read.
    fn program_metadata(&mut self, now: When) -> Done {
        let stream = self.0.core.streams.table.translation;
        let mut finished = now;
        for _ in 0..self.0.core.streams[stream].lanes() {
            let done = self.program_unmapped(now, Cause::Map)?;
            finished = self.0.core.both(finished, done);
        }
        Ok(finished)
    }

    /// Programs the due owner lists of full data blocks.
    fn flush_lists(&mut self, now: When) -> Done {
        let mut finished = now;
        if !self.0.core.store.is_paged() || self.0.core.end_of_life.is_some() {
            return Ok(finished);
        }
        for block in self.0.core.store.translation().lists.take_due() {
            // An open or erased block gets a list when it is full.
            if self.0.core.blocks().state(block) != BlockState::Closed
                || self.0.core.store.translation().blocks.contains(&block)
            {
                continue;
            }
            let done = self.program_unmapped(now, Cause::P2l)?;
            finished = self.0.core.both(finished, done);
        }
        Ok(finished)
    }

    fn program_unmapped(&mut self, now: When, cause: Cause) -> Done {
        let stream = self.0.core.streams.table.translation;
        let ready = self.reclaim_if_short(now)?;
        let (first, ready) = match self.0.core.streams[stream].next_pages() {
            Some((first, _)) => (first, ready),
            None => {
                let mut never = |_: &mut Core<N, V>, now| Ok(now);
                let ((first, _), ready) = self.0.core.open_block(ready, stream, cause, &mut never)?;
                (first, ready)
            }
        };
        let done = self.0.core.pad(ready, stream, first, cause);
        self.0.core.data_programmed(done);
        Ok(done)
    }

    pub(super) fn flush_entries(&mut self, now: When) -> Done {
        // At end of life nothing can be programmed. Recovery does not need these pages.
        if self.0.core.store.is_paged() && self.0.core.end_of_life.is_none() {
            self.write_back_entries(now, false)
        } else {
            Ok(now)
        }
    }
}
