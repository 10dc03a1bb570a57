//! Room: what there is, who may take it, and which victim is to give some.

use strobe_nand::Nand;
use strobe_types::BlockId;

use super::super::{Core, Reclaimer};
use super::{Background, Marks};
use crate::frontier::Frontier;
use crate::gc::VictimPolicy;

impl Background {
    /// True if the host may write `units` now, rather than wait for credit from collection.
    #[inline]
    pub(in super::super) fn has_room_for_host<N: Nand, V: VictimPolicy>(
        &self,
        core: &Core<N, V>,
        units: u32,
    ) -> bool {
        let Some(marks) = core.marks else { return true };
        if !self.is_at_work() || core.end_of_life.is_some() {
            return true;
        }
        let spare = core.blocks_for_host();
        let table = &core.streams.table;
        let lanes = Frontier::lanes_of(core.nand.geometry()) * table.host.len() as u32;
        if spare < lanes && core.blocks.retiring.is_empty() {
            let geometry = core.nand.geometry();
            let pages = units.div_ceil(geometry.units_per_page());
            // Any of the host's streams may get any of the pages.
            let opened = |stream| core.streams[stream].blocks_for(pages, geometry.pages_per_block());
            if table.host_streams().map(opened).sum::<u32>() > spare {
                return false;
            }
        }
        core.room() > core.room_of(marks.pace)
    }
}

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    /// Room in units: erased blocks, what is left of open ones, and what victims under way have earned so far.
    pub(in super::super) fn room(&self) -> u64 {
        let geometry = self.nand.geometry();
        // What is left of blocks in SLC mode is for the cache alone.
        let open: u64 =
            self.streams.in_normal_mode().iter().map(|stream| u64::from(stream.room_pages())).sum();
        u64::from(self.blocks.free.count()) * u64::from(geometry.units_per_block())
            + open * u64::from(geometry.units_per_page())
            + self.earned
    }

    /// Erased blocks that the host may open before it has to collect on the spot; where that is the rule, any.
    #[inline]
    pub(in super::super) fn blocks_for_host(&self) -> u32 {
        match self.marks {
            Some(_) => (self.blocks.free.count() + 1).saturating_sub(self.min_free_blocks),
            None => u32::MAX,
        }
    }
}

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// Lets collection begin, if there is reason to.
    #[inline]
    pub(in super::super) fn collect_in_background(&mut self) {
        if self.core.slc.is_some() {
            self.fold_in_background();
        }
        let Some(marks) = self.core.marks else { return };
        if self.core.room() < self.core.room_of(marks.soft) {
            self.choose_in_background(marks);
        }
    }

    /// True if victims are emptied in steps, rather than whole: not where units of several are sorted together, and not
    /// where the map is on flash itself.
    fn collects_in_steps(&self) -> bool {
        !self.core.sorts_victims() && !self.core.store.is_paged()
    }

    fn choose_in_background(&mut self, marks: Marks) {
        if self.core.heed_stop().is_err() || self.background.nothing_at == Some(self.core.tick) {
            return;
        }
        if !self.collects_in_steps() {
            return self.collect_whole();
        }
        while (self.background.victims.len() as u32) < self.victims_now(marks) + self.background.erasing
            && self.has_room_for_victim()
        {
            if let Some(block) = self.core.cached_for_room() {
                self.begin_fold(block);
                continue;
            }
            let units_per_block = self.core.nand.geometry().units_per_block();
            let view = self.core.blocks.view(units_per_block, self.core.tick);
            let Some(block) = self.core.policy.choose(&view, &mut self.core.rng) else {
                self.background.nothing_at = Some(self.core.tick);
                return;
            };
            let block = self.where_room_is_short(block);
            let valid = self.core.blocks.valid[block.index()];
            if valid + self.least_gain() > units_per_block {
                self.background.nothing_at = Some(self.core.tick);
                return;
            }
            self.begin_victim(block, valid);
        }
    }

    /// Victims to be under way at this room: none at `soft`, all at `pace`, in between so many in proportion. So
    /// collection is as busy as the host keeps it, all of the time, rather than now and then with all it has.
    fn victims_now(&self, marks: Marks) -> u32 {
        let short = self.core.room_of(marks.soft).saturating_sub(self.core.room());
        let span = self.core.room_of(marks.soft.saturating_sub(marks.pace)).max(1);
        (u64::from(marks.victims) * short).div_ceil(span).min(marks.victims.into()) as u32
    }

    /// The victim of the plane with the least room rather than `best`, if it is nearly as good: a die without a block to
    /// program would be idle, however many are erased on others.
    fn where_room_is_short(&mut self, best: BlockId) -> BlockId {
        let geometry = self.core.nand.geometry();
        if geometry.planes() == 1 {
            return best;
        }
        let (per_block, per_page) = (geometry.units_per_block(), geometry.units_per_page());
        let streams = self.core.streams.in_normal_mode();
        let room = &mut self.background.plane_room;
        room.clear();
        room.extend((0..geometry.planes()).map(|plane| self.core.blocks.free.count_on(plane) * per_block));
        for victim in self.background.victims.values().filter(|victim| !victim.is_reserved) {
            room[geometry.plane_of(victim.block) as usize] += per_block;
        }
        for (block, pages) in streams.iter().flat_map(|stream| stream.open_blocks(geometry)) {
            room[geometry.plane_of(block) as usize] += (geometry.pages_per_block() - pages) * per_page;
        }
        let poorest = (0..).zip(room.iter()).min_by_key(|&(_, &room)| room).map_or(0, |(plane, _)| plane);
        let per_plane = geometry.spec().blocks_per_plane;
        let blocks = poorest * per_plane..(poorest + 1) * per_plane;
        let valid = |block: BlockId| self.core.blocks.valid[block.index()];
        let most = valid(best) + self.least_gain();
        self.core.policy.choose_among(blocks).filter(|&block| valid(block) <= most).unwrap_or(best)
    }

    /// True if one more victim can be emptied, whatever becomes of the others: its units fit into the erased blocks
    /// beyond those that are kept.
    pub(super) fn has_room_for_victim(&self) -> bool {
        if self.background.victims.is_empty() {
            return true;
        }
        let geometry = self.core.nand.geometry();
        let left: u64 = self.background.victims.values().map(|victim| u64::from(victim.left)).sum();
        let wanted = (left / u64::from(geometry.units_per_block())) as u32
            + self
                .core
                .streams
                .table
                .copy_streams()
                .map(|to| self.core.streams[to].lanes_without_room())
                .sum::<u32>()
            + 2;
        self.core.blocks.free.count() > wanted
    }
}
