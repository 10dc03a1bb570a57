//! Event log: decisions of the page map, and the life of blocks.

use strobe_nand::{Candidate, Cause, EventKind, Nand, Timing};
use strobe_types::BlockId;

use crate::gc::VictimPolicy;
use crate::map::page::core::Core;
use crate::map::page::core::blocks::BlockState;
use crate::place::StreamId;

/// Drives with more blocks log no runner-up: its search is a pass over all blocks for each victim.
const BLOCKS_MOST: u32 = 1 << 16;

pub(crate) struct CoreLog<'a, N: Nand, V>(&'a Core<N, V>);

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    #[inline(always)]
    pub(crate) fn log(&self) -> CoreLog<'_, N, V> {
        CoreLog(self)
    }
}

impl<N: Nand, V: VictimPolicy> CoreLog<'_, N, V> {
    #[inline(always)]
    fn add(&self, kind: impl FnOnce() -> EventKind) {
        let timing = self.0.nand.timing();
        timing.log().add(timing.now(), kind);
    }

    /// Logs `victims`, except blocks chosen by wear levelling and SLC cache blocks.
    #[inline]
    pub(crate) fn victims(&self, cause: Cause, victims: &[BlockId]) {
        if !self.0.nand.timing().log().is_on() || cause == Cause::Wear {
            return;
        }
        for &victim in victims.iter().filter(|&&victim| !self.0.is_cached(victim)) {
            self.add(|| self.victim_event(victim, victims));
        }
    }

    fn victim_event(&self, victim: BlockId, victims: &[BlockId]) -> EventKind {
        let geometry = self.0.nand.geometry();
        let units_per_block = geometry.units_per_block();
        let view = self.0.blocks.view(units_per_block, self.0.tick);
        let candidate = |block: BlockId| Candidate {
            block: block.get(),
            valid_units: view.valid(block),
            score: self.0.policies.victims.score(block, &view),
        };
        let chosen = candidate(victim);
        // Without a score, or on a large drive, no runner-up is searched.
        let others =
            if chosen.score.is_some() && geometry.blocks() <= BLOCKS_MOST { geometry.blocks() } else { 0 };
        let mut runner_up: Option<Candidate> = None;
        for block in (0..others).map(BlockId::new) {
            let is_other = !victims.contains(&block) && self.0.blocks.state(block) == BlockState::Closed;
            // A fully valid block yields no space, so it is no runner-up.
            if !is_other || view.valid(block) == units_per_block {
                continue;
            }
            let other = candidate(block);
            // Ties keep the lower block number.
            if other.score > runner_up.and_then(|best| best.score) {
                runner_up = Some(other);
            }
        }
        EventKind::Victim { chosen, runner_up, units_per_block, erased_blocks: self.0.blocks.free.count() }
    }

    #[inline]
    pub(crate) fn opened(&self, block: BlockId, stream: StreamId) {
        self.add(|| EventKind::Opened {
            block: block.get(),
            stream: self.0.streams.table.named(stream).name(),
            stream_number: stream.index() as u32,
            erased_blocks: self.0.blocks.free.count(),
        });
    }

    #[inline]
    pub(crate) fn closed(&self, block: BlockId) {
        let valid_units = self.0.blocks.valid[block.index()];
        self.add(|| EventKind::Closed { block: block.get(), valid_units });
    }

    #[inline]
    pub(crate) fn erased(&self, block: BlockId) {
        self.add(|| EventKind::Erased { block: block.get(), erased_blocks: self.0.blocks.free.count() });
    }

    #[cold]
    pub(crate) fn retired(&self, block: BlockId) {
        self.add(|| EventKind::Retired { block: block.get() });
    }

    pub(crate) fn epoch(&self, changes: u64) {
        let epoch = self.0.store.journal().map_or(0, |journal| journal.epoch());
        self.add(|| EventKind::EpochEnded { epoch, changes });
    }
}
