//! Background folding of SLC cache blocks.

use strobe_nand::{Nand, Timing, When};
use strobe_types::BlockId;

use super::ERASED;
use crate::gc::VictimPolicy;
use crate::map::page::core::slc::{SlcCache, WhenFull};
use crate::map::page::core::space::Watermarks;
use crate::map::page::reclaim::Reclaimer;

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
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

    fn wants_to_fold(&self) -> bool {
        self.core.slc.as_ref().is_some_and(|slc| {
            let is_short = slc.config().when_full == WhenFull::Fold && self.core.is_cache_full();
            slc.is_host_idle() || slc.should_fold() || is_short
        })
    }

    /// Block to fold next, if its units find space. A block permanently in SLC mode returns no free space.
    fn next_to_fold(&self, watermarks: Watermarks) -> Option<BlockId> {
        let &block = self.core.slc.as_ref()?.full().front()?;
        let may_take = !self.core.is_reserved(block)
            || (self.core.blocks.free.count() >= self.core.space.min_free_blocks
                && self.core.free_units() > self.core.units_of(watermarks.low));
        (may_take && self.has_space_for_victim()).then_some(block)
    }

    pub(crate) fn begin_fold(&mut self, block: BlockId) {
        self.begin_victim(block, self.core.blocks.valid[block.index()]);
    }

    /// Folds the oldest block whole. For drives whose collection does not run in steps.
    fn fold_whole(&mut self) {
        let first = self.core.slc.as_deref().map(SlcCache::full).and_then(|full| full.front().copied());
        let Some(block) = first.filter(|_| !self.background.is_collecting_whole && self.wants_to_fold())
        else {
            return;
        };
        // Space that collection needs is not for folding.
        if self.core.must_collect() {
            return;
        }
        // An error is end of life; the next write reports it.
        if let Ok(done) = self.fold(When::START, block) {
            self.background.is_collecting_whole = true;
            self.core.nand.timing_mut().watch(done, ERASED);
        }
    }
}
