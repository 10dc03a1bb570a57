//! Stop-the-world garbage collection:
//!
//! 1. Background work in progress is finished.
//! 2. Victims are chosen and relocated until `net_blocks` more, and at least `min_free_blocks`, are erased.
//! 3. Blocks with a failed program are retired while at least `min_free_blocks` are erased.
//! 4. The wear leveler may name one block to relocate.
//!
//! On a demand-paged drive, translation pages are compacted before a victim if its updates lack space.

use strobe_nand::{Nand, When};
use strobe_types::BlockId;

use crate::gc::VictimPolicy;
use crate::map::page::core::blocks::BlockState;
use crate::map::page::core::streams::HOST;
use crate::map::page::reclaim::compact::Compaction;
use crate::map::page::reclaim::victim_bound::Chooser;
use crate::map::page::reclaim::{Reason, Reclaimer};
use crate::{Done, FtlError};

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// Collects if too few blocks are erased or a block must retire, then levels wear. Returns the completion
    /// time of the last erase.
    pub(crate) fn collect(&mut self, now: When) -> Result<When, FtlError> {
        self.finish_background()?;
        if !self.core.must_collect() {
            return Ok(now);
        }
        self.core.stats.gc.runs += 1;
        // Retirement may select other reclaim groups; the caller's selection is restored.
        let group = self.core.space.group;
        let finished = self.collect_now(now);
        self.core.space.group = group;
        let finished = finished?;
        self.core.refuse_at_end_of_life()?;
        Ok(if self.core.config.pad_moved { self.pad_moved(finished) } else { finished })
    }

    #[cold]
    fn pad_moved(&mut self, now: When) -> When {
        let mut finished = now;
        for stream in self.core.streams.table.copy_streams().filter(|&stream| stream != HOST) {
            let done = self.core.pad_out(now, stream);
            finished = self.core.both(finished, done);
        }
        finished
    }

    fn collect_now(&mut self, now: When) -> Done {
        let mut finished = now;
        loop {
            if !self.core.has_enough(self.core.space.min_free_blocks) {
                let next = self.gain_blocks(now)?;
                finished = self.core.both(finished, next);
            }
            // Retiring a block consumes free space and returns none, so it needs enough erased blocks.
            if !self.core.has_enough(self.core.space.min_free_blocks) {
                return Ok(finished);
            }
            let Some(&block) = self.core.blocks().retiring.last() else { break };
            // If the block is in another reclaim group, that group's free space is checked first.
            if self.core.turn_to_group_of(block) {
                continue;
            }
            let next = self.relocator().relocate_block(now, Reason::Retire, block)?;
            finished = self.core.both(finished, next);
        }
        if self.core.policies.leveler.is_some() {
            let next = self.level(now)?;
            finished = self.core.both(finished, next);
        }
        Ok(finished)
    }

    /// Collects until `net_blocks` more, and at least `min_free_blocks`, are erased.
    fn gain_blocks(&mut self, now: When) -> Done {
        let target =
            self.core.space.min_free_blocks.max(self.core.free_blocks() + self.core.config.net_blocks.max(1));
        self.gain_to(target, now)
    }

    fn gain_to(&mut self, target: u32, now: When) -> Done {
        let mut victim_bound = self.victim_bound(target);
        let mut finished = now;
        let mut compaction = Compaction::new(self.core.blocks().free.count());
        while !self.core.has_enough(target) {
            self.core.check_stop()?;
            // The translation-page updates of the next victim need free space before its erase.
            if self.core.store.is_paged() {
                let wanted =
                    compaction.wanted(self.core.blocks().free.count(), target, self.core.nand().geometry());
                let next = self.compact_translation(now, wanted)?;
                finished = self.core.both(finished, next);
                if self.core.has_enough(target) {
                    break;
                }
            }
            let valid = match victim_bound.chooser {
                Chooser::Policy => self.choose_victims(target),
                Chooser::Emptiest => self.choose_emptiest(),
            };
            let victims = self.relocation.victims.len() as u32;
            let may_move = self.count_victims(&mut victim_bound, victims, valid);
            // From now on, the block with the fewest valid units is the victim. The policy's victims stay.
            if !matches!(may_move, Ok(true)) {
                self.put_victims_back();
                may_move?;
                continue;
            }
            let next = self.relocator().relocate(now, Reason::Collect)?;
            finished = self.core.both(finished, next);
        }
        Ok(finished)
    }

    /// Takes the next victim. If units of several victims are sorted together, takes more until `target`
    /// blocks would be erased or their units no longer fit into the erased blocks. Returns the number of
    /// valid units.
    pub(crate) fn choose_victims(&mut self, target: u32) -> u32 {
        let mut victims = std::mem::take(&mut self.relocation.victims);
        victims.clear();
        let units = self.choose_into(target, &mut victims);
        self.relocation.victims = victims;
        units
    }

    /// Makes the chosen victims candidates again.
    pub(crate) fn put_victims_back(&mut self) {
        for at in 0..self.relocation.victims.len() {
            self.core.put_back(self.relocation.victims[at]);
        }
    }

    fn choose_into(&mut self, target: u32, victims: &mut Vec<BlockId>) -> u32 {
        let units_per_block = self.core.nand().geometry().units_per_block();
        let sorted = self.core.policies.sorts_victims();
        if let Some(block) = self.core.slc.as_ref().and_then(|slc| slc.first_dynamic()) {
            // Folding a dynamic SLC block gains more than half a block, so it precedes the policy's choice.
            self.core.take(block);
            victims.push(block);
            return self.core.blocks().valid[block.index()];
        }
        let mut units = 0;
        // Copies of background victims in progress keep their blocks.
        let left = self.core.space.victims[self.core.space.group as usize].copies_left;
        let kept = left.div_ceil(units_per_block.into()) as u32;
        let free = self.core.free_blocks().saturating_sub(kept);
        loop {
            let group = self.core.space.group;
            let Some(victim) = self.core.choose_victim(None) else { break };
            assert_eq!(self.core.space.groups.of_block(victim), group, "policy chose {victim:?}");
            assert_eq!(self.core.blocks().state(victim), BlockState::Closed, "policy chose {victim:?}");
            let valid = self.core.blocks().valid[victim.index()];
            if !victims.is_empty() {
                // One erased block is held back for a failed program.
                let fits = self.blocks_to_write(units + valid) + self.blocks_to_update(units + valid) < free;
                if !fits || valid == units_per_block {
                    break;
                }
            }
            self.core.take(victim);
            victims.push(victim);
            units += valid;
            let gained = self.core.blocks().free.count() + victims.len() as u32;
            // Without sorting, one victim is relocated at a time. With sorting, the blocks that the copies
            // take are subtracted from the gain.
            if !sorted || gained >= target + self.blocks_to_write(units) - self.block_left_open(units) {
                break;
            }
        }
        units
    }

    fn blocks_to_write(&self, units: u32) -> u32 {
        let geometry = self.core.nand().geometry();
        // Cold units fill whole blocks on all lanes (CAPi); the rest continues on the first copy stream.
        let cold = units - units % self.stripe_of_blocks();
        let rest_pages = (units - cold).div_ceil(geometry.units_per_page());
        let hot = &self.core.streams[self.core.streams.table.first_copy()];
        let opened = match hot.lanes() {
            1 => u32::from(rest_pages > hot.pages_left()),
            lanes => rest_pages.min(lanes),
        };
        cold / geometry.units_per_block() + opened
    }

    /// 1 if sorted copies of `units` units leave the host a partly free open block, which counts as gained.
    fn block_left_open(&self, units: u32) -> u32 {
        let geometry = self.core.nand().geometry();
        let hot = &self.core.streams[self.core.streams.table.first_copy()];
        if !self.core.streams.table.shares_host() || hot.lanes() > 1 {
            return 0;
        }
        let rest_pages = (units % self.stripe_of_blocks()).div_ceil(geometry.units_per_page());
        let pages = geometry.pages_per_block();
        u32::from(!(pages + hot.pages_left() - rest_pages).is_multiple_of(pages))
    }

    fn stripe_of_blocks(&self) -> u32 {
        self.core.streams[HOST].lanes() * self.core.nand().geometry().units_per_block()
    }

    /// Relocates at most one block with little wear, chosen by the leveler.
    pub(crate) fn level(&mut self, now: When) -> Done {
        let Some(block) = self.core.policies.leveler.as_mut().and_then(|leveler| leveler.choose()) else {
            return Ok(now);
        };
        assert_eq!(self.core.blocks().state(block), BlockState::Closed, "the leveler chose {block:?}");
        self.relocator().relocate_block(now, Reason::Wear, block)
    }
}
