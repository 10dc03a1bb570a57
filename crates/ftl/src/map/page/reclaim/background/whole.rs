//! Background collection of whole victims, for sorted units and demand-paged maps. Synchronous completion of
//! background work.

use strobe_nand::{Nand, Timing, When};

use super::ERASED;
use crate::FtlError;
use crate::gc::VictimPolicy;
use crate::map::page::core::blocks::BlockState;
use crate::map::page::reclaim::background::Background;
use crate::map::page::reclaim::{Reason, Reclaimer};

impl Background {
    pub(crate) fn is_at_work(&self) -> bool {
        !self.victims.is_empty() || self.is_collecting_whole
    }
}

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// Completes background work synchronously, for a command that cannot wait.
    pub(crate) fn finish_background(&mut self) -> Result<(), FtlError> {
        // Carried units are still valid in their victims, and are read again below.
        self.background.carried.iter_mut().for_each(Vec::clear);
        self.background.is_collecting_whole = false;
        // Without the sources of in-flight copies, a read goes to the copy and waits for its program.
        self.background.copies.clear();
        (self.core.space.credit, self.core.space.copies_left, self.background.erasing) = (0, 0, 0);
        // Each victim is emptied in one call. If that fails, the victim keeps its unmoved data and retires.
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

    pub(super) fn collect_whole(&mut self) {
        if self.background.is_collecting_whole {
            return;
        }
        match self.collect_round() {
            Ok(Some(done)) => {
                self.background.is_collecting_whole = true;
                self.core.nand.timing_mut().watch(done, ERASED);
            }
            // An error is end of life; the next write reports it.
            Ok(None) | Err(_) => self.background.nothing_at = Some(self.core.tick),
        }
    }

    /// Relocates the victims of one round. `None` without a victim, or with too little gain.
    fn collect_round(&mut self) -> Result<Option<When>, FtlError> {
        if self.core.store.is_paged() {
            self.compact_translation(When::START, 0)?;
        }
        // A round gains one block.
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
