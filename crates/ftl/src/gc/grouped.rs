//! Victims by reclaim group: one policy per group.

use std::ops::Range;

use strobe_types::{BlockId, Geometry, Ppa, Prng, StateError, StateReader, StateWriter};

use super::{BlockView, VictimPolicy};

/// One policy per group of blocks. [`BlockView::with_group`] selects the group.
#[derive(Clone, Debug)]
pub struct Grouped<V> {
    policies: Vec<V>,
    blocks: u32,
    units: u32,
}

impl<V: VictimPolicy> Grouped<V> {
    /// One of `policies` per group, each built for all blocks. Groups are equal, contiguous ranges of blocks.
    pub fn new(policies: Vec<V>, geometry: &Geometry) -> Self {
        let blocks = geometry.blocks() / policies.len() as u32;
        Self { policies, blocks, units: geometry.units_per_block() }
    }

    fn group(&self, block: BlockId) -> usize {
        (block.get() / self.blocks) as usize
    }

    fn of(&mut self, block: BlockId) -> &mut V {
        let group = self.group(block);
        &mut self.policies[group]
    }
}

impl<V: VictimPolicy> VictimPolicy for Grouped<V> {
    fn opened(&mut self, block: BlockId, erase_count: u32, tick: u64) {
        self.of(block).opened(block, erase_count, tick);
    }

    fn written(&mut self, unit: Ppa, tick: u64) {
        let block = BlockId::new(unit.get() / self.units);
        self.of(block).written(unit, tick);
    }

    fn closed(&mut self, block: BlockId, valid: u32, tick: u64) {
        self.of(block).closed(block, valid, tick);
    }

    fn invalidated(&mut self, unit: Ppa, block: BlockId, valid: u32, tick: u64) {
        self.of(block).invalidated(unit, block, valid, tick);
    }

    fn prefetch(&self, block: BlockId) {
        // The map entry of a shared unit need not name a block.
        if let Some(policy) = self.policies.get(self.group(block)) {
            policy.prefetch(block);
        }
    }

    fn taken(&mut self, block: BlockId) {
        self.of(block).taken(block);
    }

    fn choose(&mut self, view: &BlockView<'_>, rng: &mut Prng) -> Option<BlockId> {
        self.policies[view.group as usize].choose(view, rng)
    }

    fn choose_among(&self, blocks: Range<u32>) -> Option<BlockId> {
        self.policies[self.group(BlockId::new(blocks.start))].choose_among(blocks)
    }

    fn score(&self, block: BlockId, view: &BlockView<'_>) -> Option<f64> {
        self.policies[self.group(block)].score(block, view)
    }

    fn candidates(&self) -> u32 {
        self.policies.iter().map(VictimPolicy::candidates).sum()
    }

    fn save(&self, out: &mut StateWriter<'_>) {
        self.policies.iter().for_each(|policy| policy.save(out));
    }

    fn load(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.policies.iter_mut().try_for_each(|policy| policy.load(from))
    }

    fn bytes_per_block() -> u64 {
        V::bytes_per_block()
    }
}
