//! Synchronous completion of background work.

use strobe_nand::{Nand, When};

use super::Stage;
use crate::FtlError;
use crate::gc::VictimPolicy;
use crate::map::page::reclaim::Reclaimer;
use crate::map::page::reclaim::background::Background;

impl Background {
    pub(crate) fn is_at_work(&self) -> bool {
        !self.victims.is_empty()
    }
}

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// Completes background work synchronously, for a command that cannot wait.
    pub(crate) fn finish_background(&mut self) -> Result<(), FtlError> {
        // Carried units are still valid in their victims, and are read again below.
        self.background.carried.iter_mut().for_each(Vec::clear);
        self.background.leader = None;
        // Without the sources of in-flight copies, a read goes to the copy and waits for its program.
        self.background.copies.clear();
        self.background.erasing = 0;
        for victims in &mut self.core.space.victims {
            (victims.credit, victims.copies_left) = (0, 0);
        }
        // Updates in progress must be on flash before the erase of their victims.
        let updated = self.background.updates.take().unwrap_or(When::START);
        // Each victim is emptied in one call. If that fails, the victim keeps its unmoved data and retires.
        let mut result = Ok(());
        while let Some(number) = self.background.victims.oldest() {
            let Some(victim) = self.background.victims.remove(number) else {
                break;
            };
            let (block, reason, stage) = (victim.block, victim.reason, victim.stage);
            let copied = self.core.all(&victim.copied);
            if stage == Stage::Leaving && self.core.nand().block(block).is_erased() {
                self.core.end_emptying(block);
                self.core.block_is_erased(block);
                continue;
            }
            self.core.interrupt_emptying(block);
            let ready = self.core.both(copied, updated);
            let done = self.relocator().complete(ready, reason, block);
            if self.core.nand().is_stopped() {
                return done.map(|_| ());
            }
            // The counters of victims are reset, so the others must leave as well.
            result = result.and(done.map(|_| ()));
        }
        result
    }
}
