//! Folding: emptying blocks of the SLC cache beside the host's work.

use strobe_nand::{Nand, Timing, When};
use strobe_types::BlockId;

use super::super::slc::WhenFull;
use super::super::{Core, Reclaimer, SlcCache};
use super::{Background, ERASED, Marks};
use crate::gc::VictimPolicy;

impl Background {
    /// True if the host may write `units` now: there is room in the SLC cache, or beside it. Where it waits for
    /// folding, that must be under way.
    pub(in super::super) fn has_cache_for_host<N: Nand, V: VictimPolicy>(
        &self,
        core: &Core<N, V>,
        units: u32,
    ) -> bool {
        let pages = units.div_ceil(core.nand.geometry().units_per_page());
        if core.cache_pages() >= pages {
            return true;
        }
        let waits = core.slc.as_ref().is_some_and(|slc| slc.config().when_full == WhenFull::Fold);
        if waits && self.victims.values().any(|victim| victim.is_cached) {
            return false;
        }
        self.has_room_for_host(core, units)
    }
}

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    /// The marks of collection in the background, if that is how this drive collects.
    pub(in super::super) fn marks(&self) -> Option<Marks> {
        self.marks
    }

    /// True if blocks of the cache are emptied in steps, rather than each at once.
    pub(in super::super) fn folds_in_steps(&self) -> bool {
        self.marks.is_some() && !self.sorts_victims()
    }
}

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// Lets folding begin, if there is reason to.
    pub(super) fn fold_in_background(&mut self) {
        if !self.core.nand.is_timed() || self.core.end_of_life.is_some() {
            return;
        }
        match self.core.marks {
            Some(marks) if self.core.folds_in_steps() => {
                while self.wants_to_fold()
                    && (self.background.victims.len() as u32) < marks.victims + self.background.erasing
                    && let Some(block) = self.next_to_fold(marks)
                {
                    self.begin_fold(block);
                }
            }
            _ => self.fold_whole(),
        }
    }

    /// True if the block of the cache that was filled first should be folded now.
    fn wants_to_fold(&self) -> bool {
        self.core.slc.as_ref().is_some_and(|slc| {
            let is_short = slc.config().when_full == WhenFull::Fold && self.core.is_cache_full();
            slc.is_host_idle() || slc.is_beyond_mark() || is_short
        })
    }

    /// Returns the block to fold, if there is room for its units. One that goes back to the cache takes room as a host write
    /// does.
    fn next_to_fold(&self, marks: Marks) -> Option<BlockId> {
        let &block = self.core.slc.as_ref()?.full().front()?;
        let may_take = !self.core.is_reserved(block)
            || (self.core.blocks.free.count() >= self.core.min_free_blocks
                && self.core.room() > self.core.room_of(marks.pace));
        (may_take && self.has_room_for_victim()).then_some(block)
    }

    /// Begins to empty `block`, of the cache.
    pub(in super::super) fn begin_fold(&mut self, block: BlockId) {
        self.begin_victim(block, self.core.blocks.valid[block.index()]);
    }

    /// Folds one whole block after the other, where collection does not go in steps.
    fn fold_whole(&mut self) {
        let first = self.core.slc.as_deref().map(SlcCache::full).and_then(|full| full.front().copied());
        let Some(block) = first.filter(|_| !self.background.is_collecting_whole && self.wants_to_fold())
        else {
            return;
        };
        if self.core.must_collect() {
            return;
        }
        // An error is the end of life, which whoever writes next is told.
        if let Ok(done) = self.fold(When::START, block) {
            self.background.is_collecting_whole = true;
            self.core.nand.timing_mut().watch(done, ERASED);
        }
    }
}
