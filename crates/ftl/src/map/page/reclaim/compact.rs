//! Collecting garbage on a demand-paged drive: what translation pages ask of it.

use strobe_nand::{Nand, When};
use strobe_types::{BlockId, Geometry, Ppa};

use crate::Done;
use crate::frontier::Frontier;
use crate::gc::VictimPolicy;
use crate::map::page::core::blocks::BlockState;
use crate::map::page::core::config::PageMapConfig;
use crate::map::page::reclaim::relocate::{Relocation, Relocator};
use crate::map::page::reclaim::{Reason, Reclaimer};
use crate::place::StreamId;

/// When collection must see to translation pages itself. A policy that does not look for the most gain can
/// go on moving full blocks, whose updates cost all that other victims gain.
pub(crate) struct Compaction {
    most_free: u32,
    stalled: u32,
}

impl Compaction {
    pub(crate) fn new(free: u32) -> Self {
        Self { most_free: free, stalled: 0 }
    }

    /// Before another victim: how many blocks, at most `target`, moving translation pages should make
    /// `free`. Once started it goes on, as each full victim must cost nothing then.
    pub(crate) fn wanted(&mut self, free: u32, target: u32, geometry: &Geometry) -> u32 {
        let patience = 8 + 4 * Frontier::lanes_of(geometry);
        if self.stalled > patience {
            return target;
        }
        self.stalled = if free > self.most_free { 0 } else { self.stalled + 1 };
        self.most_free = self.most_free.max(free);
        0
    }
}

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// Moves translation pages together until `wanted` blocks are erased, and the next victim can be moved
    /// with all that it may cause: updates that collection has programmed leave invalid translation pages
    /// behind, which no victim policy need choose. Moving them causes no updates, so each block moved is a
    /// gain.
    pub(crate) fn compact_translation(&mut self, now: When, wanted: u32) -> Done {
        let mut finished = now;
        while self.core.blocks.free.count() < wanted.max(self.blocks_for_a_victim()) {
            self.core.heed_stop()?;
            let units = self.core.nand.geometry().units_per_block();
            let blocks = &self.core.blocks;
            let closed = self.core.store.translation().blocks.iter().filter(|block| {
                blocks.state(**block) == BlockState::Closed && blocks.valid[block.index()] < units
            });
            let fewest = closed.min_by_key(|block| (blocks.valid[block.index()], **block));
            let Some(&block) = fewest else { break };
            let next = self.relocator().relocate_block(now, Reason::Compact, block)?;
            finished = self.core.nand.both(finished, next);
        }
        Ok(finished)
    }

    /// Erased blocks that moving one more victim may take.
    fn blocks_for_a_victim(&self) -> u32 {
        let geometry = self.core.nand.geometry();
        let each = geometry.pages_per_block().div_ceil(Frontier::lanes_of(geometry));
        let missing = |stream: StreamId| {
            let frontier = &self.core.streams[stream];
            let has_room =
                |&(_, _, programmed): &(u32, BlockId, u32)| geometry.pages_per_block() - programmed >= each;
            frontier.lanes() - frontier.open_lanes(geometry).filter(has_room).count() as u32
        };
        let copies: u32 = self.core.streams.table.copy_streams().map(missing).sum();
        // One more for a program that fails.
        copies + self.core.config.translation_updates(geometry) + 1
    }

    /// Erased blocks that translation pages take when `units` units are moved, some of them perhaps
    /// translation pages themselves.
    pub(crate) fn blocks_to_update(&self, units: u32) -> u32 {
        let geometry = self.core.nand.geometry();
        let pages = self.core.config.translation_pages(geometry).saturating_mul(2).min(units);
        PageMapConfig::translation_blocks(geometry, pages)
    }
}

impl<N: Nand, V: VictimPolicy> Relocator<'_, N, V> {
    /// Puts translation pages behind the units of the host; returns how many these are. A block holds one
    /// kind only.
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
