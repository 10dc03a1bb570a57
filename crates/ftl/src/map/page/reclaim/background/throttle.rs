//! Throttle: permission for host writes, and intensity of background collection.
//!
//! 1. At the `high` watermark or above, no victim is chosen. SLC blocks may still be folded.
//! 2. Between `low` and `high`, victims are in progress. Less free space means more victims.
//! 3. At `low` or below, the host waits while victims are in progress, and gets only the space that
//!    collection frees.
//! 4. Below `min_free_blocks`, or if the copies of victims in progress need them, the host opens no blocks. A
//!    write that cannot wait stops the world.

use strobe_nand::Nand;

use crate::frontier::Frontier;
use crate::gc::VictimPolicy;
use crate::map::page::core::Core;
use crate::map::page::core::slc::WhenFull;
use crate::map::page::core::space::{Victims, Watermarks};
use crate::map::page::reclaim::background::Background;
use crate::map::page::reclaim::{Reason, Reclaimer};
use crate::place::StreamId;

impl Background {
    /// True if the host may write `units` to a reclaim group now, without waiting for collection.
    #[inline]
    pub(crate) fn has_space_for_host<N: Nand, V: VictimPolicy>(
        &self,
        core: &Core<N, V>,
        group: u32,
        units: u32,
    ) -> bool {
        let Some(watermarks) = core.space.watermarks else { return true };
        // Without a victim in progress, waiting would never end.
        if core.space.victims[group as usize].count == 0 || core.end_of_life.is_some() {
            return true;
        }
        let (spare, erased) = (core.blocks_for_host(group), core.erased(group));
        let (table, groups) = (&core.streams.table, core.space.groups.count);
        let of_group = move |stream: &StreamId| groups == 1 || table.group_of(*stream) == group;
        // Each stream of a group has lanes in that group only.
        let lanes = Frontier::lanes_of(core.nand().geometry()) / groups * table.host.len() as u32 / groups;
        let may_be_short = spare < lanes + core.blocks_for_evictions()
            || !core.leaves_copies(group, erased.saturating_sub(lanes));
        if may_be_short && core.blocks().next_to_retire().is_none() {
            let geometry = core.nand().geometry();
            let pages = units.div_ceil(geometry.units_per_page());
            // The streams of the units are not chosen yet: each host stream counts as if it got all pages.
            let blocks = |stream| core.streams.blocks_for(stream, pages, geometry.pages_per_block());
            let opened = table.host_streams().filter(of_group).map(blocks).sum::<u32>();
            let opened = opened + if opened > 0 { core.blocks_for_evictions() } else { 0 };
            let takes_space = opened > 0 || table.host_streams().any(|stream| table.is_target(stream));
            if opened > spare || (takes_space && !core.leaves_copies(group, erased.saturating_sub(opened))) {
                return false;
            }
        }
        core.free_units(group) > core.units_of(watermarks.low)
    }

    /// True if the host may write `units` now, to the SLC cache or to normal blocks.
    pub(crate) fn has_cache_for_host<N: Nand, V: VictimPolicy>(&self, core: &Core<N, V>, units: u32) -> bool {
        let pages = units.div_ceil(core.nand().geometry().units_per_page());
        if core.least_cache_pages() >= pages {
            return true;
        }
        // The host waits for folding only while a fold is in progress: otherwise nothing would end the wait.
        let waits = core.slc.as_ref().is_some_and(|slc| slc.config().when_full == WhenFull::Fold);
        // At end of life, folds in progress do not go on.
        let goes_on = core.end_of_life.is_none();
        if waits && goes_on && self.victims.values().any(|victim| victim.reason == Reason::Fold) {
            return false;
        }
        self.has_space_for_host(core, 0, units)
    }
}

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// Number of victims for the present free space: 0 if nothing is short, rising linearly to the maximum.
    pub(super) fn victims_now(&self, group: u32, watermarks: Watermarks) -> u32 {
        // Collection thus runs steadily at the host's rate instead of in bursts.
        let short = self.core.short_units(group, watermarks);
        let span = self.core.units_of(watermarks.high.saturating_sub(watermarks.low)).max(1);
        (u64::from(watermarks.victims) * short).div_ceil(span).min(watermarks.victims.into()) as u32
    }

    /// True if the erased blocks of a reclaim group cover another victim in addition to the victims in progress, even if
    /// none of them frees its block.
    pub(crate) fn has_space_for_victim(&self, group: u32) -> bool {
        let Victims { count, copies_left, .. } = self.core.space.victims[group as usize];
        if count == 0 {
            return true;
        }
        let geometry = self.core.nand().geometry();
        let table = &self.core.streams.table;
        let groups = self.core.space.groups.count;
        let full_lanes = |to: StreamId| self.core.streams[to].full_lanes();
        let full: u32 = if groups == 1 && !table.folds_to_host {
            table.copy_streams().map(full_lanes).sum()
        } else {
            let of_group = |stream: &StreamId| groups == 1 || table.group_of(*stream) == group;
            let all = (0..table.count() as u8).map(StreamId::new);
            all.filter(|&stream| table.is_target(stream)).filter(of_group).map(full_lanes).sum()
        };
        let updates = self.core.blocks_for_updates(geometry.units_per_block());
        // Blocks for the units left, one for each full lane of the copy streams, and two in reserve; at least those
        // of `leaves_copies` with one victim more.
        let streams = (count + 1).saturating_mul(table.victim_streams.into());
        let behind = (full + 2).max(streams.min(table.targets()) + 1);
        let wanted = (copies_left / u64::from(geometry.units_per_block())) as u32 + behind + updates;
        self.core.erased(group) > wanted
    }

    /// Minimum gain of a background victim, in units: a sixteenth of a block, but at least a row, as the last
    /// row of the copies may be incomplete.
    pub(super) fn least_gain(&self) -> u32 {
        (self.core.nand().geometry().units_per_block() / 16).max(self.background.row_units)
    }
}
