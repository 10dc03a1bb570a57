//! Collecting whole victims: where units are sorted before they are moved, or the map is on flash itself; and finishing
//! on the spot what is under way.

use strobe_nand::{Nand, Timing, When};

use super::ERASED;
use crate::FtlError;
use crate::gc::VictimPolicy;
use crate::map::page::core::blocks::BlockState;
use crate::map::page::reclaim::background::Background;
use crate::map::page::reclaim::{Reason, Reclaimer};

impl Background {
    /// True if victims are under way.
    pub(crate) fn is_at_work(&self) -> bool {
        !self.victims.is_empty() || self.is_collecting_whole
    }
}

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// Finishes what is under way on the spot: for whoever cannot wait.
    pub(crate) fn finish_background(&mut self) -> Result<(), FtlError> {
        self.background.carried.iter_mut().for_each(Vec::clear);
        self.background.is_collecting_whole = false;
        // Their blocks are erased, as far as anybody here can tell: who wants to read a copy waits for its program.
        self.background.copies.clear();
        (self.core.space.credit, self.background.erasing) = (0, 0);
        // One that fails stays as it is, and keeps what it holds.
        while let Some(number) = self.background.victims.oldest() {
            let Some(victim) = self.background.victims.remove(number) else {
                break;
            };
            let (block, is_erasing) = (victim.block, victim.is_erasing);
            self.core.blocks.emptying -= 1;
            let copied = self.core.nand.timing_mut().all(&victim.copied);
            if is_erasing && self.core.nand.block(block).is_erased() {
                self.core.block_is_erased(block);
                continue;
            }
            self.relocation.victims.clear();
            self.relocation.victims.push(block);
            self.core.blocks.states[block.index()] = BlockState::Closed;
            self.relocator().relocate(copied, Reason::Finish)?;
        }
        Ok(())
    }

    /// Collects whole victims, one call after the other: where units are sorted before they are moved, or the map is on
    /// flash itself.
    pub(super) fn collect_whole(&mut self) {
        if self.background.is_collecting_whole {
            return;
        }
        match self.collect_round() {
            Ok(Some(done)) => {
                self.background.is_collecting_whole = true;
                self.core.nand.timing_mut().watch(done, ERASED);
            }
            // An error is the end of life, which whoever writes next is told.
            Ok(None) | Err(_) => self.background.nothing_at = Some(self.core.tick),
        }
    }

    /// One round of it: the victims that are moved together. `None` if there is too little to gain.
    fn collect_round(&mut self) -> Result<Option<When>, FtlError> {
        if self.core.store.is_paged() {
            self.compact_translation(When::START, 0)?;
        }
        let target = self.core.blocks.free.count() + 1;
        let valid = self.choose_victims(target);
        let victims = self.relocation.victims.len() as u32;
        if valid + victims * self.least_gain() > victims * self.core.nand.geometry().units_per_block() {
            self.put_victims_back();
            return Ok(None);
        }
        if victims == 0 {
            return Ok(None);
        }
        self.core.stats.gc.runs += 1;
        self.relocator().relocate(When::START, Reason::Collect).map(Some)
    }
}
