//! Folding on the spot: emptying blocks of the SLC cache.

use strobe_nand::{Nand, When};
use strobe_types::BlockId;

use crate::gc::VictimPolicy;
use crate::map::page::core::slc::WhenFull;
use crate::map::page::reclaim::{Reason, Reclaimer};
use crate::{Done, FtlError};

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// The cache has no room: makes some on the spot, where that is the rule; returns when it is there.
    pub(crate) fn make_cache_room(&mut self, now: When) -> Done {
        let Some(slc) = &self.core.slc else { return Ok(now) };
        match slc.config().when_full {
            WhenFull::Fold if self.core.folds_in_steps() => Ok(now),
            WhenFull::Direct => self.reclaim_cache(now),
            WhenFull::Fold => self.fold_first(now),
        }
    }

    /// Erases full blocks that hold nothing valid. They are looked for once for each block's worth of changes.
    fn reclaim_cache(&mut self, now: When) -> Done {
        let units_per_page = self.core.nand.geometry().units_per_page();
        let Some(slc) = &mut self.core.slc else { return Ok(now) };
        if self.core.tick < slc.look_at {
            return Ok(now);
        }
        slc.look_at = self.core.tick + slc.units_per_block(units_per_page);
        let is_empty = |block: &BlockId| self.core.blocks.valid[block.index()] == 0;
        let empty: Vec<BlockId> = slc.full().iter().copied().filter(is_empty).collect();
        let mut ready = now;
        for block in empty {
            if self.core.folds_in_steps() { self.begin_fold(block) } else { ready = self.fold(now, block)? }
        }
        Ok(ready)
    }

    /// Folds on the spot what is beyond the mark, where nothing happens beside the host's work.
    pub(crate) fn fold_beyond_mark(&mut self) -> Result<(), FtlError> {
        while self.core.slc.as_ref().is_some_and(|slc| slc.is_beyond_mark()) {
            self.fold_first(When::START)?;
        }
        Ok(())
    }

    /// Folds the block that was filled first, on the spot.
    fn fold_first(&mut self, now: When) -> Done {
        let mut ready = now;
        if self.core.must_collect() {
            // A block that is always in SLC mode gives none back for what it takes.
            ready = self.collect(now)?;
        }
        match self.core.slc.as_ref().and_then(|slc| slc.full().front().copied()) {
            Some(block) => self.fold(ready, block),
            None => Ok(ready),
        }
    }

    /// Folds `block` at once; returns when it is erased.
    pub(crate) fn fold(&mut self, now: When, block: BlockId) -> Done {
        self.relocator().relocate_block(now, Reason::Fold, block)
    }
}
