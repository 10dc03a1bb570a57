//! Synchronous folding of SLC cache blocks.

use strobe_nand::{Nand, When};
use strobe_types::BlockId;

use crate::gc::VictimPolicy;
use crate::map::page::core::slc::WhenFull;
use crate::map::page::reclaim::{Reason, Reclaimer};
use crate::{Done, FtlError};

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// Makes space in the full cache as [`WhenFull`] says. Returns the time when space is available.
    pub(crate) fn free_cache_blocks(&mut self, now: When) -> Done {
        let Some(slc) = &self.core.slc else { return Ok(now) };
        match slc.config().when_full {
            // The host waits for background folding instead.
            WhenFull::Fold if self.core.space.watermarks.is_some() => Ok(now),
            WhenFull::Direct => self.reclaim_cache(now),
            WhenFull::Fold => self.fold_first(now),
        }
    }

    /// Folds full blocks without valid units, which only erases them.
    fn reclaim_cache(&mut self, now: When) -> Done {
        let units_per_page = self.core.nand().geometry().units_per_page();
        let Some(slc) = &mut self.core.slc else { return Ok(now) };
        if self.core.tick < slc.look_at {
            return Ok(now);
        }
        // The next search follows after as many ticks as a cache block has units.
        slc.look_at = self.core.tick + slc.units_per_block(units_per_page);
        let full: Vec<BlockId> = slc.full().iter().copied().collect();
        let is_empty = |block: &BlockId| self.core.blocks().valid[block.index()] == 0;
        let empty: Vec<BlockId> = full.into_iter().filter(is_empty).collect();
        let mut ready = now;
        for block in empty {
            if self.core.space.watermarks.is_some() {
                self.begin_victim(block, Reason::Fold);
            } else {
                ready = self.fold(now, block)?;
            }
        }
        Ok(ready)
    }

    /// Folds synchronously while the cache holds `fold_at` blocks or more. For flash without timing.
    pub(crate) fn fold_while_due(&mut self) -> Result<(), FtlError> {
        while self.core.slc.as_ref().is_some_and(|slc| slc.should_fold()) {
            self.fold_first(When::START)?;
        }
        Ok(())
    }

    /// Folds the oldest full block synchronously.
    fn fold_first(&mut self, now: When) -> Done {
        let mut ready = now;
        if self.core.must_collect() {
            // Folding a block permanently in SLC mode frees no normal block, so its copies need space first.
            ready = self.collect(now)?;
        }
        match self.core.slc.as_ref().and_then(|slc| slc.full().front().copied()) {
            Some(block) => self.fold(ready, block),
            None => Ok(ready),
        }
    }

    pub(crate) fn fold(&mut self, now: When, block: BlockId) -> Done {
        self.relocator().relocate_block(now, Reason::Fold, block)
    }
}
