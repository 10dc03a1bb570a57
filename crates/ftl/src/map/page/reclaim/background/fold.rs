//! Background folding of SLC cache blocks.

use strobe_nand::Nand;
use strobe_types::BlockId;

use crate::gc::VictimPolicy;
use crate::map::page::core::slc::WhenFull;
use crate::map::page::reclaim::{Reason, Reclaimer};

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    pub(super) fn fold_in_background(&mut self) {
        if !self.core.nand().is_timed() || self.core.end_of_life.is_some() {
            return;
        }
        // Without background collection, one block is folded after the other.
        let most = self.core.space.watermarks.map_or(1, |watermarks| watermarks.victims);
        while self.wants_to_fold()
            && (self.background.victims.len() as u32) < most + self.background.erasing
            && let Some(block) = self.next_to_fold()
        {
            self.begin_victim(block, Reason::Fold);
        }
    }

    fn wants_to_fold(&self) -> bool {
        self.core.slc.as_ref().is_some_and(|slc| {
            let is_short = slc.config().when_full == WhenFull::Fold && self.core.is_cache_full();
            slc.is_host_idle() || slc.should_fold() || is_short
        })
    }

    /// Block to fold next, if its units find space. A block permanently in SLC mode returns no free space.
    fn next_to_fold(&self) -> Option<BlockId> {
        let &block = self.core.slc.as_ref()?.full().front()?;
        let may_take = match self.core.space.watermarks {
            // Space that collection needs is not for folding.
            None => !self.core.must_collect(),
            Some(watermarks) => {
                !self.core.is_reserved(block)
                    || (self.core.blocks().free.count() >= self.core.space.min_free_blocks
                        && self.core.free_units(0) > self.core.units_of(watermarks.low))
            }
        };
        (may_take && self.has_space_for_victim(0)).then_some(block)
    }
}
