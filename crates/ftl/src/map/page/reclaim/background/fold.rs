//! Folding: emptying blocks of the SLC cache beside the host's work.

use strobe_nand::{Nand, Timing, When};
use strobe_types::BlockId;

use super::ERASED;
use crate::gc::VictimPolicy;
use crate::map::page::core::slc::{SlcCache, WhenFull};
use crate::map::page::core::space::Watermarks;
use crate::map::page::reclaim::Reclaimer;

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// Lets folding begin, if there is reason to.
    pub(super) fn fold_in_background(&mut self) {
        if !self.core.nand.is_timed() || self.core.end_of_life.is_some() {
            return;
        }
        match self.core.space.watermarks {
            Some(watermarks) if self.core.folds_in_steps() => {
                while self.wants_to_fold()
                    && (self.background.victims.len() as u32) < watermarks.victims + self.background.erasing
                    && let Some(block) = self.next_to_fold(watermarks)
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
    fn next_to_fold(&self, watermarks: Watermarks) -> Option<BlockId> {
        let &block = self.core.slc.as_ref()?.full().front()?;
        let may_take = !self.core.is_reserved(block)
            || (self.core.blocks.free.count() >= self.core.space.min_free_blocks
                && self.core.free_units() > self.core.units_of(watermarks.pace));
        (may_take && self.has_space_for_victim()).then_some(block)
    }

    /// Begins to empty `block`, of the cache.
    pub(crate) fn begin_fold(&mut self, block: BlockId) {
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
