//! Throttle: permission for host writes, and intensity of background collection.
//!
//! 1. Above the `high` watermark no victim is chosen; SLC blocks may still be folded.
//! 2. Between it and the `low` watermark victims are in progress: the less free space, the more.
//! 3. At `low` or below, the host waits while victims are in progress, and gets only the space that
//!    collection frees.
//! 4. Below `min_free_blocks` the host gets no further block. A write that cannot wait stops the world.

use strobe_nand::Nand;

use crate::frontier::Frontier;
use crate::gc::VictimPolicy;
use crate::map::page::core::Core;
use crate::map::page::core::slc::WhenFull;
use crate::map::page::core::space::Watermarks;
use crate::map::page::reclaim::Reclaimer;
use crate::map::page::reclaim::background::Background;
use crate::place::StreamId;

impl Background {
    /// True if the host may write `units` now instead of waiting for collection.
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
        core.free_units() > core.units_of(watermarks.low)
    }

    /// True if the copies of all victims in progress still find space after host data has filled the open
    /// blocks of `stream`. The host takes space from copies only on a stream that they share, and without
    /// opening a block.
    #[inline]
    pub(crate) fn has_space_for_copies<N: Nand, V: VictimPolicy>(
        &self,
        core: &Core<N, V>,
        stream: StreamId,
    ) -> bool {
        // One block more, for a failed program.
        if core.blocks.free.count() > core.blocks.emptying || !core.streams.table.is_of_copies(stream) {
            return true;
        }
        let left: u32 = self.victims.values().map(|victim| core.blocks.valid[victim.block.index()]).sum();
        left.div_ceil(core.nand.geometry().units_per_block()) < core.blocks.free.count()
    }

    /// True if the host may write `units` now, to the SLC cache or past it. It waits for folding only while a
    /// fold is in progress.
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
    /// True if victims are emptied in steps: units of several are not sorted together, and the map is not
    /// demand-paged.
    pub(super) fn collects_in_steps(&self) -> bool {
        !self.core.policies.sorts_victims() && !self.core.store.is_paged()
    }

    /// Number of victims for the present free space: none at `high`, all at `low`, in proportion between.
    /// Collection thus runs steadily at the host's rate instead of in bursts.
    pub(super) fn victims_now(&self, watermarks: Watermarks) -> u32 {
        let short = self.core.units_of(watermarks.high).saturating_sub(self.core.free_units());
        let span = self.core.units_of(watermarks.high.saturating_sub(watermarks.low)).max(1);
        (u64::from(watermarks.victims) * short).div_ceil(span).min(watermarks.victims.into()) as u32
    }

    /// True if one more victim can be emptied, whatever becomes of the others: its units fit into the erased
    /// blocks beyond those reserved.
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
                .map(|to| self.core.streams[to].full_lanes())
                .sum::<u32>()
            + 2;
        self.core.blocks.free.count() > wanted
    }

    /// Minimum gain, in units, for which background collection takes a victim: a sixteenth of a block, and at
    /// least the possible loss in an incomplete last row.
    pub(super) fn least_gain(&self) -> u32 {
        (self.core.nand.geometry().units_per_block() / 16).max(self.background.row_units)
    }
}
