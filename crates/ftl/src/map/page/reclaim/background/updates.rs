//! Background updates of translation pages, in rounds (demand paging).
//!
//! 1. A round begins with the victims whose copies are on flash. Its translation pages are all that map moved
//!    units.
//! 2. The pages are programmed in batches. One batch is in progress at a time, so host commands pass between.
//! 3. The victims of the round are erased. Victims that are moved in the meantime wait for the next round.
//!
//! Victims of one round share the program of a translation page that maps units of several.

use strobe_nand::{Nand, When};

use super::{COMMITTED, ROUNDS, Stage};
use crate::gc::VictimPolicy;
use crate::map::page::core::tables::TablePages;
use crate::map::page::reclaim::Reclaimer;

impl<N: Nand, V: VictimPolicy> Reclaimer<'_, N, V> {
    /// Begins a round if none is in progress and a victim waits for one.
    pub(super) fn begin_updates(&mut self) {
        if self.background.updates.is_some() {
            return;
        }
        let mut is_begun = false;
        for victim in self.background.victims.values_mut().filter(|victim| victim.stage == Stage::Moved) {
            victim.stage = Stage::Updating;
            is_begun = true;
        }
        if is_begun {
            self.core.store.translation().begin_round();
            self.background.updates = Some(When::START);
            self.background.round = (self.background.round + 1) % ROUNDS;
            self.on_updated(self.background.round);
        }
    }

    /// Issues the next batch of the round, or ends the round.
    pub(super) fn on_updated(&mut self, round: u64) {
        // The round of this event may have been completed synchronously in the meantime.
        if self.background.updates.is_none() || self.background.round != round {
            return;
        }
        // Two pages on each lane: while one is programmed, the other is read.
        let batch = 2 * self.core.streams[self.core.streams.table.translation].lanes();
        let updated = TablePages(self.core).update_some(When::START, batch);
        if let Ok(Some(done)) = updated {
            self.background.updates = Some(done);
            return self.core.watch(done, COMMITTED + round);
        }
        self.background.updates = None;
        let numbers = self.background.victims.numbers(|victim| victim.stage == Stage::Updating);
        for number in numbers {
            // On failure, translation pages on flash still refer to the victims.
            if updated.is_ok() { self.commit_victim(number) } else { self.keep_victim(number) }
        }
        if updated.is_ok() {
            self.begin_updates();
        }
    }
}
