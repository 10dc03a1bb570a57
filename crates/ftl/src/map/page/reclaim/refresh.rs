//! Refresh: relocates blocks with too many reads or too long retention, before their pages need many retries.
//!
//! The blocks of a host read are checked after this read. Each host read or write also checks one further
//! block in turn, which finds blocks with old data.

use strobe_nand::{Nand, Timing, When};
use strobe_types::BlockId;

use crate::gc::VictimPolicy;
use crate::map::page::core::blocks::BlockState;
use crate::map::page::core::config::Refresh;
use crate::map::page::reclaim::{Reason, Reclaimer};

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// True if `block` is closed and has reached a limit of `refresh`.
    fn is_due(&self, block: BlockId, refresh: Refresh) -> bool {
        if self.core.blocks().state(block) != BlockState::Closed {
            return false;
        }
        let Some(stress) = self.core.nand().stress(block) else { return false };
        let age_ns = self.core.nand().timing().now().as_ns().saturating_sub(stress.since.as_ns());
        refresh.reads.is_some_and(|reads| stress.reads >= reads)
            || refresh.after_ns.is_some_and(|after_ns| age_ns >= after_ns)
    }

    /// Relocates each due block among `read` and the next block in turn. Without free space, a block waits
    /// for its next check.
    pub(crate) fn refresh_if_due(&mut self, read: &[BlockId]) {
        let Some(refresh) = self.core.config.refresh else { return };
        let patrolled = BlockId::new(self.background.patrol);
        self.background.patrol = (self.background.patrol + 1) % self.core.nand().geometry().blocks();
        for block in read.iter().copied().chain([patrolled]) {
            if self.core.end_of_life.is_none() && self.is_due(block, refresh) {
                self.move_out(block);
            }
        }
    }

    fn move_out(&mut self, block: BlockId) {
        self.core.turn_to_group_of(block);
        let collects_in_background =
            N::TIMED && self.core.config.watermarks.is_some() && self.core.nand().is_timed();
        // An error is end of life; the next write reports it.
        if !collects_in_background && self.collect(When::START).is_err() {
            return;
        }
        let has_space = self.core.free_blocks() >= self.core.space.min_free_blocks;
        // Collection may already have reclaimed the block.
        if !has_space || self.core.blocks().state(block) != BlockState::Closed {
            return;
        }
        if collects_in_background {
            if self.has_space_for_victim(self.core.space.group) {
                self.begin_victim(block, Reason::Refresh);
            }
            return;
        }
        // An error is end of life; the next write reports it.
        let _ = self.relocator().relocate_block(When::START, Reason::Refresh, block);
    }
}
