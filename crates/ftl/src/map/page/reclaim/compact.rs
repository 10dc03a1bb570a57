//! Compaction of translation pages during collection on a demand-paged drive.

use strobe_nand::{Nand, When};
use strobe_types::{BlockId, Geometry, Ppa};

use crate::Done;
use crate::frontier::Frontier;
use crate::gc::VictimPolicy;
use crate::map::page::core::blocks::BlockState;
use crate::map::page::reclaim::relocate::{Relocation, Relocator};
use crate::map::page::reclaim::{Reason, Reclaimer};
use crate::place::StreamId;

/// Decides when collection must compact translation pages.
pub(crate) struct Compaction {
    most_free: u32,
    stalled: u32,
}

impl Compaction {
    pub(crate) fn new(free: u32) -> Self {
        Self { most_free: free, stalled: 0 }
    }

    /// Number of erased blocks that compaction must reach before the next victim: 0, or always `target` once
    /// collection has stalled.
    pub(crate) fn wanted(&mut self, free: u32, target: u32, geometry: &Geometry) -> u32 {
        // A policy may keep choosing fully valid blocks. The map updates of their copies can use up all space
        // that other victims gain.
        let stalled_max = 8 + 4 * Frontier::lanes_of(geometry);
        // Stalled: too many victims have passed without a new maximum of erased blocks. From now on,
        // compaction regains the space of a victim's map updates before the next victim.
        if self.stalled > stalled_max {
            return target;
        }
        self.stalled = if free > self.most_free { 0 } else { self.stalled + 1 };
        self.most_free = self.most_free.max(free);
        0
    }
}

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// Compacts translation pages until `wanted` blocks are erased and the next victim fits with all its map
    /// updates.
    pub(crate) fn compact_translation(&mut self, now: When, wanted: u32) -> Done {
        let mut finished = now;
        while self.core.blocks().free.count() < wanted.max(self.blocks_for_a_victim()) {
            self.core.check_stop()?;
            let Some(block) = self.next_to_compact() else { break };
            let next = self.relocator().relocate_block(now, Reason::Compact, block)?;
            finished = self.core.both(finished, next);
        }
        Ok(finished)
    }

    /// Closed block of translation pages with the fewest valid ones.
    pub(crate) fn next_to_compact(&self) -> Option<BlockId> {
        // A policy may never choose a block with invalid translation pages. Moving its valid pages causes no map
        // updates, so each such block gains space.
        let units = self.core.nand().geometry().units_per_block();
        let blocks = self.core.blocks();
        let closed = self.core.store.paged()?.blocks.iter().copied().filter(|&block| {
            blocks.state(block) == BlockState::Closed && blocks.valid[block.index()] < units
        });
        closed.min_by_key(|&block| (blocks.valid[block.index()], block))
    }

    pub(crate) fn blocks_for_a_victim(&self) -> u32 {
        let geometry = self.core.nand().geometry();
        // Maximum number of pages that a victim adds to one lane.
        let each = geometry.pages_per_block().div_ceil(Frontier::lanes_of(geometry));
        let missing = |stream: StreamId| {
            let frontier = &self.core.streams[stream];
            let has_space =
                |&(_, _, programmed): &(u32, BlockId, u32)| geometry.pages_per_block() - programmed >= each;
            frontier.lanes() - frontier.open_lanes(geometry).filter(has_space).count() as u32
        };
        let copies: u32 = self.core.streams.table.copy_streams().map(missing).sum();
        // One more for a failed program.
        copies + self.core.config.translation_updates(geometry) + 1
    }

    /// Number of erased blocks for translation-page updates when `units` units are moved.
    pub(crate) fn blocks_to_update(&self, units: u32) -> u32 {
        let geometry = self.core.nand().geometry();
        // Each translation page may be both moved and updated.
        let pages = self.core.config.translation_pages(geometry).saturating_mul(2).min(units);
        self.core.config.translation_blocks(geometry, pages)
    }
}

impl<N: Nand, V: VictimPolicy> Relocator<'_, N, V> {
    /// Sorts host units before translation pages, as a block holds only one of the two. Returns the number of
    /// host units.
    pub(crate) fn put_data_first(&self, task: &mut Relocation<N::Payload>) -> usize {
        let Some(translation) = self.core.store.paged() else { return task.units.len() };
        let is_table = |victim: &BlockId| translation.blocks.contains(victim);
        if !task.victims.iter().any(is_table) {
            return task.units.len();
        }
        let is_data = |ppa: &Ppa| !translation.is_translation(self.core.owner_of(*ppa));
        task.units.sort_by_key(|ppa| !is_data(ppa));
        task.units.partition_point(is_data)
    }
}
