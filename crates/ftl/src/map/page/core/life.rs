//! Life of a full block: taken as victim, emptied, then erased or retired.

use strobe_nand::{Cause, Nand, When};
use strobe_types::{BlockId, Ppa};

use crate::gc::VictimPolicy;
use crate::map::page::core::Core;
use crate::map::page::core::blocks::BlockState;

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    /// Reports the full `victim` and its valid units to the placement, before any unit is moved.
    pub(crate) fn show_victim(&mut self, victim: BlockId) {
        if self.policies.placement.is_none() {
            return;
        }
        if let Some(stream) = self.blocks.stream_of(victim)
            && let Some(log) = &mut self.streams.log
        {
            log.emptied(victim, stream, self.blocks.valid[victim.index()], self.tick);
        }
        let from = self.copy_context(victim);
        let first = self.nand.geometry().first_unit(victim);
        let end = first.plus(self.nand.geometry().units_per_block());
        // The iterator over the units borrows the core, so the placement is taken out of it.
        let Some(mut placement) = self.policies.placement.take() else { return };
        let mut next = first;
        let mut valid = std::iter::from_fn(|| {
            let unit = self.blocks.validity.next(next, end)?;
            next = unit.plus(1);
            Some(self.owner_of(unit))
        });
        // The placement knows host units only.
        let mut data = valid.by_ref().filter(|lpn| lpn.get() < self.config.logical_units);
        placement.on_victim(&from, &mut data);
        self.policies.placement = Some(placement);
    }

    pub(crate) fn forget_victim(&mut self, victim: BlockId) {
        let from = self.copy_context(victim);
        self.policies.on_collected(&from);
    }

    /// Erases `block` and frees it. If the erase fails, the block leaves service.
    pub(crate) fn erase(&mut self, now: When, block: BlockId, cause: Cause) -> When {
        match self.begin_erase(now, block, cause) {
            Ok(done) => {
                self.block_is_erased(block);
                done
            }
            Err(failed) => failed,
        }
    }

    /// Issues the erase of `block`. [`Core::block_is_erased`] then frees it. If the erase fails, the block leaves
    /// service.
    pub(crate) fn begin_erase(&mut self, now: When, block: BlockId, cause: Cause) -> Result<When, When> {
        self.store.block_left(block);
        match self.nand.erase(now, block, cause) {
            Ok(done) => {
                self.blocks.erased();
                self.count_cache_erase(block);
                Ok(done)
            }
            Err(failed) => {
                self.stats.gc.erase_failures += 1;
                self.take_out_of_service(block);
                Err(failed.at)
            }
        }
    }

    #[cold]
    pub(crate) fn take_out_of_service(&mut self, block: BlockId) {
        self.blocks.retiring.retain(|&retiring| retiring != block);
        self.nand.mark_bad(block);
        self.log().retired(block);
        if let Some(slc) = &mut self.slc {
            slc.left(block);
        }
        self.blocks.mark_bad(block, self.nand.block(block).erase_count);
        self.store.block_left(block);
        // The leveler does not know static SLC blocks.
        if !self.slc.as_ref().is_some_and(|slc| slc.is_static(block)) {
            self.policies.on_retired(block);
        }
        self.stats.bad_block_host_writes.push(self.stats.host_units_written);
        self.retire_if_worn_out();
    }
}

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    /// Removes `block` from the candidates of the victim policy and the leveler, or from the SLC cache.
    pub(crate) fn take(&mut self, block: BlockId) {
        if self.blocks.state(block) != BlockState::Cached {
            self.policies.on_taken(block);
        } else if let Some(slc) = &mut self.slc {
            slc.take(block);
        }
    }
}

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    /// Puts all good blocks of a fresh drive into their pools.
    pub(crate) fn free_all(&mut self) {
        let blocks: Vec<BlockId> = self.blocks.usable().collect();
        for block in blocks {
            if self.is_reserved(block) {
                self.reserve(block);
            } else {
                self.blocks.put_free(block, self.nand.geometry(), 0);
            }
        }
    }

    pub(crate) fn begin_emptying(&mut self, block: BlockId) {
        self.blocks.begin_emptying(block);
        self.space.victims_mut(block).count += 1;
    }

    pub(crate) fn end_emptying(&mut self, block: BlockId) {
        self.blocks.emptying -= 1;
        self.space.victims_mut(block).count -= 1;
    }

    /// Ends the emptying of `block`, which keeps its valid units.
    pub(crate) fn interrupt_emptying(&mut self, block: BlockId) {
        self.end_emptying(block);
        self.blocks.states[block.index()] = BlockState::Closed;
    }

    /// Marks `block` as retiring: it leaves service once emptied.
    #[cold]
    pub(crate) fn mark_retiring(&mut self, block: BlockId) {
        self.blocks.retire(block);
    }

    /// Appends the valid units of `block` to `units`, and makes them invalid.
    pub(crate) fn take_units(&mut self, block: BlockId, units: &mut Vec<Ppa>) {
        self.blocks.take_units(block, self.nand.geometry(), units);
    }

    /// Makes a taken unit that was not moved valid again.
    pub(crate) fn put_unit_back(&mut self, ppa: Ppa) {
        self.blocks.set_valid(ppa, self.nand.geometry().block_of(ppa));
    }

    /// Makes the source of a copy invalid. The victim policy does not track its block any more.
    #[inline(always)]
    pub(crate) fn release_source(&mut self, ppa: Ppa) {
        self.blocks.invalidate(ppa, self.nand.geometry().block_of(ppa));
    }

    /// Victim of the selected reclaim group. With `most_valid`, one with at most that many valid units, unless the
    /// policy ignores the limit.
    pub(crate) fn choose_victim(&mut self, most_valid: Option<u32>) -> Option<BlockId> {
        let units_per_block = self.nand.geometry().units_per_block();
        let view = self.blocks.view(units_per_block, self.tick).with_group(self.space.group);
        let view = match most_valid {
            Some(most_valid) => view.with_most_valid(most_valid),
            None => view,
        };
        self.policies.choose(&view)
    }

    /// Returns `block` to its pool once its erase is issued or complete.
    pub(crate) fn block_is_erased(&mut self, block: BlockId) {
        if let Some(slc) = &mut self.slc {
            slc.left(block);
        }
        if self.is_reserved(block) {
            return self.reserve(block);
        }
        let erases = self.nand.block(block).erase_count;
        self.blocks.put_free(block, self.nand.geometry(), erases);
        self.log().erased(block);
        self.policies.on_erased(block, erases);
    }
}
