//! Free space, and the watermarks of background collection.

use strobe_nand::Nand;
use strobe_types::{BlockId, State, Stored};

use crate::gc::VictimPolicy;
use crate::map::page::core::Core;
use crate::map::page::core::groups::Groups;
use crate::map::page::core::streams::HOST;
use crate::place::StreamId;

/// Watermarks of background collection, in blocks of free space: erased blocks plus the free part of open ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// High watermark: victims are chosen below it.
    pub high: u32,
    /// Low watermark: at or below it, host writes wait while victims are in progress.
    pub low: u32,
    /// Maximum number of victims in progress, reached at `low`. With more free space there are fewer.
    pub victims: u32,
    /// Pages of a victim read in one step.
    pub read_pages: u32,
}

impl Watermarks {
    /// Default of [`Watermarks::read_pages`]: two rows of `planes` pages each, at least 8.
    pub fn read_pages_for(planes: u32) -> u32 {
        (2 * planes).max(8)
    }

    /// Share of one of `count` reclaim groups.
    fn of_group(self, count: u32) -> Self {
        let low = self.low.div_ceil(count);
        let high = self.high.div_ceil(count).max(low + 1);
        if count == 1 { self } else { Self { high, low, victims: self.victims.div_ceil(count), ..self } }
    }
}

#[derive(Clone, Debug, State)]
pub(crate) struct FreeSpace {
    /// Erased blocks of a reclaim group below which collection stops the world.
    pub(crate) min_free_blocks: u32,
    /// `None` if collection always stops the world.
    #[state(skip)]
    pub(crate) watermarks: Option<Watermarks>,
    /// Victims in progress, by reclaim group.
    pub(crate) victims: Vec<Victims>,
    #[state(skip)]
    pub(crate) groups: Groups,
    /// Reclaim group selected for collection.
    #[state(skip)]
    pub(crate) group: u32,
}

/// Victims in progress of a reclaim group.
#[derive(Clone, Copy, Debug, Default, Stored)]
pub(crate) struct Victims {
    pub(crate) count: u32,
    /// Sum of their credits, in units. A victim's credit is a share of its block, proportional to the valid units
    /// already moved or overwritten.
    pub(crate) credit: u64,
    /// Valid units that they still have to move, as of their last count.
    pub(crate) copies_left: u64,
}

impl FreeSpace {
    /// `watermarks` are those of all groups together.
    pub(crate) fn new(min_free_blocks: u32, watermarks: Option<Watermarks>, groups: Groups) -> Self {
        let watermarks = watermarks.map(|watermarks| watermarks.of_group(groups.count));
        let victims = vec![Victims::default(); groups.count as usize];
        Self { min_free_blocks, watermarks, victims, groups, group: 0 }
    }

    /// Victims in progress of the group of `block`.
    #[inline]
    pub(crate) fn victims_mut(&mut self, block: BlockId) -> &mut Victims {
        let group = if self.groups.count == 1 { 0 } else { self.groups.of_block(block) };
        &mut self.victims[group as usize]
    }
}

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    /// Free space of a reclaim group in units: erased blocks, the free part of open blocks, and credit of victims in
    /// progress.
    #[inline]
    pub(crate) fn free_units(&self, group: u32) -> u64 {
        let geometry = self.nand.geometry();
        // Free pages of open SLC blocks are not counted: they belong to the cache.
        let streams = self.streams.in_normal_mode().iter();
        let open: u64 = if self.space.groups.count == 1 {
            streams.map(|stream| u64::from(stream.free_pages())).sum()
        } else {
            let of_group = |at: usize| self.streams.table.group_of(StreamId::new(at as u8)) == group;
            let streams = streams.enumerate().filter(|&(at, _)| of_group(at));
            streams.map(|(_, stream)| u64::from(stream.free_pages())).sum()
        };
        u64::from(self.erased(group)) * u64::from(geometry.units_per_block())
            + open * u64::from(geometry.units_per_page())
            + self.space.victims[group as usize].credit
    }

    /// Units by which free space is short of what background collection maintains: of `high`, or of as many
    /// erased blocks above `min_free_blocks` as `high` is above `low`.
    ///
    /// Free pages of many open blocks can hide a lack of erased blocks: a stream of 128 lanes fills its open
    /// blocks at the same time, and then opens 128.
    #[inline]
    pub(crate) fn short_units(&self, group: u32, watermarks: Watermarks) -> u64 {
        let Watermarks { high, low, .. } = watermarks;
        let erased = self.units_of(self.erased(group)) + self.space.victims[group as usize].credit;
        let least = self.space.min_free_blocks + self.blocks_for_evictions();
        let of_erased = self.units_of(least + high.saturating_sub(low));
        let short = self.units_of(high).saturating_sub(self.free_units(group));
        short.max(of_erased.saturating_sub(erased))
    }

    /// Blocks for the translation pages of all dirty entries: while the host's writes wait, its reads may still
    /// evict them. 0 without demand paging.
    #[inline]
    pub(crate) fn blocks_for_evictions(&self) -> u32 {
        self.store
            .paged()
            .map_or(0, |translation| translation.pages.div_ceil(self.nand.geometry().pages_per_block()) + 1)
    }

    /// Erased blocks of a reclaim group.
    #[inline]
    pub(crate) fn erased(&self, group: u32) -> u32 {
        let groups = self.space.groups;
        if groups.count == 1 {
            return self.blocks.free.count();
        }
        groups.planes(group).map(|plane| self.blocks.free.count_on(plane)).sum()
    }

    /// Erased blocks of the selected reclaim group.
    pub(crate) fn free_blocks(&self) -> u32 {
        self.erased(self.space.group)
    }

    #[inline]
    pub(crate) fn units_of(&self, blocks: u32) -> u64 {
        u64::from(blocks) * u64::from(self.nand.geometry().units_per_block())
    }

    /// Number of erased blocks of a reclaim group that the host may open before collection stops the world. Unlimited without
    /// background collection.
    #[inline]
    pub(crate) fn blocks_for_host(&self, group: u32) -> u32 {
        match self.space.watermarks {
            Some(_) => (self.erased(group) + 1).saturating_sub(self.space.min_free_blocks),
            None => u32::MAX,
        }
    }

    /// True if `erased` blocks suffice for the copies of all victims in progress in a reclaim group, even if the host
    /// fills the open blocks that it shares with them.
    ///
    /// Copies need the blocks that their units fill. One more per stream covers the units behind the last whole
    /// block. Example: 2 victims with 300 units left together, blocks of 256 units, one copy stream: 3 blocks.
    #[inline]
    pub(crate) fn leaves_copies(&self, group: u32, erased: u32) -> bool {
        let Victims { count: victims, copies_left, .. } = self.space.victims[group as usize];
        if victims == 0 || (copies_left == 0 && !self.store.is_paged()) {
            return true;
        }
        let table = &self.streams.table;
        let most = victims.saturating_mul(table.victim_streams.into());
        let others = u32::from(self.policies.leveler.is_some()) + self.blocks_for_updates(0);
        let rest = most.min(table.targets()) + others + self.config.fault_reserve;
        // No victim has more units than a block.
        let per_block = u64::from(self.nand.geometry().units_per_block());
        erased >= victims + rest || u64::from(erased) >= copies_left.div_ceil(per_block) + u64::from(rest)
    }

    /// Blocks for the translation pages of the victims in progress, and of one more with `units` valid units: their
    /// updates, and copies of translation pages. 0 without demand paging.
    pub(crate) fn blocks_for_updates(&self, units: u32) -> u32 {
        let Some(translation) = self.store.paged() else { return 0 };
        // Each unit to move outdates at most one page, and each victim each page at most once.
        let Victims { count, copies_left, .. } = self.space.victims[0];
        let victims = u64::from(count + u32::from(units > 0));
        let moved = copies_left + u64::from(units) + translation.updates_left() as u64;
        let pages = moved.min((victims + 1) * u64::from(translation.pages)).min(u64::from(u32::MAX));
        self.config.translation_blocks(self.nand.geometry(), pages as u32) + 1
    }

    /// True if collection must run before the host gets a block.
    pub(crate) fn must_collect(&self) -> bool {
        self.free_blocks() < self.space.min_free_blocks || self.blocks.next_to_retire().is_some()
    }

    /// True if a fold to the host `stream` leaves the last erased blocks to the copies of a victim: many host streams
    /// could each open a block on every lane.
    pub(crate) fn keeps_last_blocks(&self, stream: StreamId) -> bool {
        let table = &self.streams.table;
        let is_fold = table.folds_to_host && table.host.contains(&stream.get());
        is_fold && self.blocks.free.count() <= u32::from(table.victim_streams) + 1
    }

    /// True if collection must run before the host opens a block in the selected reclaim group.
    pub(crate) fn is_short(&self) -> bool {
        let group = self.space.group;
        // Copies of victims in progress keep their blocks.
        self.must_collect() || !self.leaves_copies(group, self.erased(group).saturating_sub(1))
    }

    /// True if `target` blocks are erased. The open block of a stream shared by host and copies counts.
    pub(crate) fn has_enough(&self, target: u32) -> bool {
        // The host continues in the block that copies opened last, as in a plain log. Gaining a whole block
        // first would separate copies from host data.
        let shares_host = self.streams.table.shares_host();
        // With allocation by address, the next page may belong to a plane whose open block is full.
        let goes_on = shares_host && !self.streams.is_by_address;
        let left_open = u32::from(goes_on && self.streams[HOST].next_pages().is_some());
        self.free_blocks() + left_open >= target
    }
}
