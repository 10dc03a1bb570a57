//! Free space: how much there is, and the watermarks below which more is made.

use strobe_nand::Nand;
use strobe_types::State;

use crate::gc::VictimPolicy;
use crate::map::page::core::Core;
use crate::map::page::core::groups::Groups;
use crate::map::page::core::streams::HOST;

/// Watermarks of background collection, in blocks of room: erased ones, and the free part of open ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Victims are chosen below this.
    pub soft: u32,
    /// The host waits below this.
    pub pace: u32,
    /// Victims under way at once, at most: at `pace`. The more room there is, the fewer.
    pub victims: u32,
    /// Pages of a victim that are read at a time.
    pub read_pages: u32,
}

impl Watermarks {
    /// Pages of a victim that are read at a time where nothing is said: enough for two rows of `planes` pages each.
    pub fn read_pages_for(planes: u32) -> u32 {
        (2 * planes).max(8)
    }
}

/// Limits of free space, and what is about to be added to it.
#[derive(Clone, Debug, State)]
pub(crate) struct FreeSpace {
    /// Erased blocks of a reclaim group below which garbage collection stops the world.
    pub(crate) min_free_blocks: u32,
    /// Watermarks of collection in the background; `None` if it always stops the world.
    #[state(skip)]
    pub(crate) watermarks: Option<Watermarks>,
    /// Units that victims under way are good for: of each a share of its block in proportion to the valid units that
    /// have been moved.
    pub(crate) credit: u64,
    /// The reclaim groups, and the one whose free space is looked at.
    #[state(skip)]
    pub(crate) groups: Groups,
    #[state(skip)]
    pub(crate) group: u32,
}

impl FreeSpace {
    /// Limits of a drive on which no victim is under way.
    pub(crate) fn new(min_free_blocks: u32, watermarks: Option<Watermarks>, groups: Groups) -> Self {
        Self { min_free_blocks, watermarks, credit: 0, groups, group: 0 }
    }
}

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    /// Room in units: erased blocks, what is left of open ones, and what victims under way have earned so far.
    #[inline]
    pub(crate) fn free_units(&self) -> u64 {
        let geometry = self.nand.geometry();
        // What is left of blocks in SLC mode is for the cache alone.
        let open: u64 =
            self.streams.in_normal_mode().iter().map(|stream| u64::from(stream.room_pages())).sum();
        u64::from(self.blocks.free.count()) * u64::from(geometry.units_per_block())
            + open * u64::from(geometry.units_per_page())
            + self.space.credit
    }

    /// Erased blocks of the reclaim group that is looked at.
    pub(crate) fn free_blocks(&self) -> u32 {
        let FreeSpace { groups, group, .. } = self.space;
        if groups.count == 1 {
            return self.blocks.free.count();
        }
        groups.planes(group).map(|plane| self.blocks.free.count_on(plane)).sum()
    }

    /// Units of so many blocks.
    #[inline]
    pub(crate) fn units_of(&self, blocks: u32) -> u64 {
        u64::from(blocks) * u64::from(self.nand.geometry().units_per_block())
    }

    /// Erased blocks that the host may open before it has to collect on the spot; where that is the rule, any.
    #[inline]
    pub(crate) fn blocks_for_host(&self) -> u32 {
        match self.space.watermarks {
            Some(_) => (self.blocks.free.count() + 1).saturating_sub(self.space.min_free_blocks),
            None => u32::MAX,
        }
    }

    /// True if too few blocks are erased, or some must leave service.
    pub(crate) fn must_collect(&self) -> bool {
        self.free_blocks() < self.space.min_free_blocks || !self.blocks.retiring.is_empty()
    }

    /// True if `target` blocks are at hand.
    ///
    /// On a shared stream, copies leave room behind them in the block they opened last. The host
    /// goes on there, as in a plain log; gaining a whole block first would fill blocks with copies
    /// alone and so separate old data from new.
    pub(crate) fn has_enough(&self, target: u32) -> bool {
        let shares_host = self.streams.table.shares_host();
        // Where addresses decide, the next page may be for a plane whose block is full.
        let goes_on = shares_host && !self.streams.is_by_address;
        let left_open = u32::from(goes_on && self.streams[HOST].next_pages().is_some());
        self.free_blocks() + left_open >= target
    }

    /// True if blocks of the cache are emptied in steps, rather than each at once.
    pub(crate) fn folds_in_steps(&self) -> bool {
        self.space.watermarks.is_some() && !self.policies.sorts_victims()
    }
}
