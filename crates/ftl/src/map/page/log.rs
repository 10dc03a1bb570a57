//! Events of the page map: its decisions, and the life of blocks.

use strobe_nand::{Candidate, Cause, EventKind, Nand, Timing};
use strobe_types::BlockId;

use super::{BlockState, Core, StreamId};
use crate::gc::VictimPolicy;

/// Blocks of a drive up to which runners-up are looked for: each victim costs a pass over all blocks.
const BLOCKS_MOST: u32 = 1 << 16;

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    /// Adds an event now, if there is a log.
    #[inline(always)]
    fn log(&self, kind: impl FnOnce() -> EventKind) {
        let timing = self.nand.timing();
        timing.log().add(timing.now(), kind);
    }

    /// Logs that `victims` are about to be emptied by garbage collection, as far as they are not emptied for something
    /// else.
    #[inline]
    pub(super) fn log_victims(&self, cause: Cause, victims: &[BlockId]) {
        if !self.nand.timing().log().is_on() || cause == Cause::Wear {
            return;
        }
        for &victim in victims.iter().filter(|&&victim| !self.is_cached(victim)) {
            self.log(|| self.victim(victim, victims));
        }
    }

    fn victim(&self, victim: BlockId, victims: &[BlockId]) -> EventKind {
        let geometry = self.nand.geometry();
        let units_per_block = geometry.units_per_block();
        let view = self.blocks.view(units_per_block, self.tick);
        let candidate = |block: BlockId| Candidate {
            block: block.get(),
            valid_units: view.valid(block),
            score: self.policies.victims.score(block, &view),
        };
        let chosen = candidate(victim);
        let others =
            if chosen.score.is_some() && geometry.blocks() <= BLOCKS_MOST { geometry.blocks() } else { 0 };
        let mut runner_up: Option<Candidate> = None;
        for block in (0..others).map(BlockId::new) {
            let is_other = !victims.contains(&block) && self.blocks.state(block) == BlockState::Closed;
            if !is_other || view.valid(block) == units_per_block {
                continue;
            }
            let other = candidate(block);
            // Of equals the lowest block stays.
            if other.score > runner_up.and_then(|best| best.score) {
                runner_up = Some(other);
            }
        }
        EventKind::Victim { chosen, runner_up, units_per_block, erased_blocks: self.blocks.free.count() }
    }

    /// Logs that `block` has been opened for `stream`.
    #[inline]
    pub(super) fn log_opened(&self, block: BlockId, stream: StreamId) {
        self.log(|| EventKind::Opened {
            block: block.get(),
            stream: self.streams.table.named(stream).name(),
            stream_number: stream.index() as u32,
            erased_blocks: self.blocks.free.count(),
        });
    }

    /// Logs that `block` is full.
    #[inline]
    pub(super) fn log_closed(&self, block: BlockId) {
        let valid_units = self.blocks.valid[block.index()];
        self.log(|| EventKind::Closed { block: block.get(), valid_units });
    }

    /// Logs that `block` has been erased and is at hand.
    #[inline]
    pub(super) fn log_erased(&self, block: BlockId) {
        self.log(|| EventKind::Erased { block: block.get(), erased_blocks: self.blocks.free.count() });
    }

    /// Logs that `block` has gone out of service.
    #[cold]
    pub(super) fn log_retired(&self, block: BlockId) {
        self.log(|| EventKind::Retired { block: block.get() });
    }

    /// Logs the end of an epoch of the journal with `changes`.
    pub(super) fn log_epoch(&self, changes: u64) {
        let epoch = self.store.journal().map_or(0, |journal| journal.epoch());
        self.log(|| EventKind::EpochEnded { epoch, changes });
    }
}
