//! Throttle: when the host may write, and how busy collection in the background is.
//!
//! 1. Above the soft watermark nothing is collected.
//! 2. Between it and the pace watermark victims are under way, the more the less free space there is.
//! 3. Below the pace watermark the host waits, so that it gets what collection makes free and no more.
//! 4. Below `min_free_blocks` the host gets no further block, and whoever cannot wait has collection stop the world.

use strobe_nand::Nand;

use crate::frontier::Frontier;
use crate::gc::VictimPolicy;
use crate::map::page::core::Core;
use crate::map::page::core::slc::WhenFull;
use crate::map::page::core::space::Watermarks;
use crate::map::page::reclaim::Reclaimer;
use crate::map::page::reclaim::background::Background;

impl Background {
    /// True if the host may write `units` now, rather than wait for credit from collection.
    #[inline]
    pub(crate) fn has_space_for_host<N: Nand, V: VictimPolicy>(&self, core: &Core<N, V>, units: u32) -> bool {
        let Some(watermarks) = core.space.watermarks else { return true };
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
        core.free_units() > core.units_of(watermarks.pace)
    }

    /// True if the host may write `units` now: there is room in the SLC cache, or beside it. Where it waits for
    /// folding, that must be under way.
    pub(crate) fn has_cache_for_host<N: Nand, V: VictimPolicy>(&self, core: &Core<N, V>, units: u32) -> bool {
        let pages = units.div_ceil(core.nand.geometry().units_per_page());
        if core.cache_pages() >= pages {
            return true;
        }
        let waits = core.slc.as_ref().is_some_and(|slc| slc.config().when_full == WhenFull::Fold);
        if waits && self.victims.values().any(|victim| victim.is_cached) {
            return false;
        }
        self.has_space_for_host(core, units)
    }
}

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// True if victims are emptied in steps, rather than whole: not where units of several are sorted together, and not
    /// where the map is on flash itself.
    pub(super) fn collects_in_steps(&self) -> bool {
        !self.core.policies.sorts_victims() && !self.core.store.is_paged()
    }

    /// Victims to be under way at this room: none at `soft`, all at `pace`, in between so many in proportion. So
    /// collection is as busy as the host keeps it, all of the time, rather than now and then with all it has.
    pub(super) fn victims_now(&self, watermarks: Watermarks) -> u32 {
        let short = self.core.units_of(watermarks.soft).saturating_sub(self.core.free_units());
        let span = self.core.units_of(watermarks.soft.saturating_sub(watermarks.pace)).max(1);
        (u64::from(watermarks.victims) * short).div_ceil(span).min(watermarks.victims.into()) as u32
    }

    /// True if one more victim can be emptied, whatever becomes of the others: its units fit into the erased blocks
    /// beyond those that are kept.
    pub(super) fn has_space_for_victim(&self) -> bool {
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

    /// Units that a victim must gain at least to be worth moving while nobody needs its block: a sixteenth of it, and
    /// more than what is lost where its last page is not full.
    pub(super) fn least_gain(&self) -> u32 {
        (self.core.nand.geometry().units_per_block() / 16).max(self.background.row_units)
    }
}
