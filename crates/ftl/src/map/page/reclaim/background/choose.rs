//! Start of background collection, and choice of victims.

use strobe_nand::Nand;
use strobe_types::BlockId;

use crate::gc::VictimPolicy;
use crate::map::page::core::space::Watermarks;
use crate::map::page::reclaim::background::Stage;
use crate::map::page::reclaim::{Reason, Reclaimer};

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    #[inline]
    pub(crate) fn collect_in_background(&mut self) {
        if self.core.slc.is_some() {
            self.fold_in_background();
        }
        let Some(watermarks) = self.core.space.watermarks else { return };
        if let Some(block) = self.core.blocks().next_to_retire() {
            self.retire_in_background(block);
        }
        if self.core.space.groups.count == 1 {
            // The common case, with a constant group.
            if self.core.short_units(0, watermarks) > 0 {
                self.choose_in_background(watermarks);
            }
            return;
        }
        for group in 0..self.core.space.groups.count {
            if self.core.short_units(group, watermarks) > 0 {
                self.core.space.group = group;
                self.choose_in_background(watermarks);
            }
        }
    }

    /// Begins to empty a block with a failed program. It gives no free space, so enough blocks must be erased.
    #[cold]
    fn retire_in_background(&mut self, block: BlockId) {
        self.core.turn_to_group_of(block);
        let group = self.core.space.group;
        let has_space = self.core.erased(group) >= self.core.space.min_free_blocks;
        if self.core.check_stop().is_ok()
            && self.core.end_of_life.is_none()
            && has_space
            && self.has_space_for_victim(group)
        {
            self.begin_victim(block, Reason::Retire);
        }
    }

    /// Begins to empty a block with little wear, chosen by the leveler, if enough blocks are erased.
    pub(super) fn level_in_background(&mut self) {
        // Not at end of life: with a worn-out log, no epoch could name the blocks opened for copies.
        let has_space = self.core.blocks().free.count() >= self.core.space.min_free_blocks;
        if self.core.end_of_life.is_some() || !has_space || !self.has_space_for_victim(0) {
            return;
        }
        let block = self.core.policies.leveler.as_mut().and_then(|leveler| leveler.choose());
        if let Some(block) = block {
            self.begin_victim(block, Reason::Wear);
        }
    }

    fn choose_in_background(&mut self, watermarks: Watermarks) {
        let (tick, group) = (self.core.tick, self.core.space.group);
        // A search at this tick found no victim: another search would fail again.
        if self.core.check_stop().is_err() || self.background.nothing_at[group as usize] == tick {
            return;
        }
        while self.victims_in_progress(group) < self.victims_now(group, watermarks)
            && self.has_space_for_victim(group)
        {
            if let Some(block) = self.core.slc.as_ref().and_then(|slc| slc.first_dynamic()) {
                self.begin_victim(block, Reason::Fold);
                continue;
            }
            if self.core.store.is_paged() && self.core.blocks().free.count() < self.blocks_for_a_victim() {
                if let Some(block) = self.next_to_compact() {
                    self.begin_victim(block, Reason::Compact);
                    continue;
                }
                // The updates of another victim find space once the victims in progress are erased.
                if self.background.is_at_work() {
                    return;
                }
            }
            if self.core.policies.sorts_victims() {
                return self.begin_sorted();
            }
            let units_per_block = self.core.nand().geometry().units_per_block();
            let Some(block) = self.core.choose_victim(None) else {
                self.background.nothing_at[group as usize] = tick;
                return;
            };
            let block = self.prefer_poorest_plane(block);
            let valid = self.core.blocks().valid[block.index()];
            // Too little gain: an erased block is not needed yet, and more units may become invalid.
            if valid + self.least_gain() > units_per_block {
                self.background.nothing_at[group as usize] = tick;
                return;
            }
            self.begin_victim(block, Reason::Collect);
        }
    }

    /// Victims of a reclaim group in progress, without those that are being erased.
    fn victims_in_progress(&self, group: u32) -> u32 {
        let erasing = match self.core.space.groups.count {
            1 => self.background.erasing,
            _ => {
                let groups = self.core.space.groups;
                let victims = self.background.victims.values();
                let erasing = victims.filter(|victim| victim.stage == Stage::Leaving);
                erasing.filter(|victim| groups.of_block(victim.block) == group).count() as u32
            }
        };
        self.core.space.victims[group as usize].count - erasing
    }

    /// Returns the best victim of the plane with the least free space if nearly as good as `best`, else
    /// `best`.
    fn prefer_poorest_plane(&mut self, best: BlockId) -> BlockId {
        // A die without a block to program idles, even if other dies have erased blocks.
        let geometry = self.core.nand().geometry();
        if geometry.planes() == 1 {
            return best;
        }
        let (per_block, per_page) = (geometry.units_per_block(), geometry.units_per_page());
        let streams = self.core.streams.in_normal_mode();
        let free = &mut self.background.free_by_plane;
        // Erased blocks, blocks of victims in progress, and the free part of open blocks, by plane.
        free.clear();
        free.extend((0..geometry.planes()).map(|plane| self.core.blocks().free.count_on(plane) * per_block));
        for victim in self.background.victims.values().filter(|victim| victim.is_gained) {
            free[geometry.plane_of(victim.block) as usize] += per_block;
        }
        for (block, pages) in streams.iter().flat_map(|stream| stream.open_blocks(geometry)) {
            free[geometry.plane_of(block) as usize] += (geometry.pages_per_block() - pages) * per_page;
        }
        let planes = self.core.space.groups.planes(self.core.space.group);
        let poorest = planes.min_by_key(|&plane| free[plane as usize]).unwrap_or(0);
        let per_plane = geometry.spec().blocks_per_plane;
        let blocks = poorest * per_plane..(poorest + 1) * per_plane;
        let valid = |block: BlockId| self.core.blocks().valid[block.index()];
        let most = valid(best) + self.least_gain();
        self.core.policies.victims.choose_among(blocks).filter(|&block| valid(block) <= most).unwrap_or(best)
    }
}
