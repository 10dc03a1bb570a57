//! Victims of MiDAS (Oh et al., FAST 2024).
//!
//! The placement names a group: the victim is the group's oldest block, or the best block of the last group.
//! The best block has the largest (1 - u)/u · √age. Without groups, all blocks belong to the last. Blocks
//! without an invalid unit are skipped.

use strobe_types::{BlockId, Ppa, Prng, State};

use super::order::ClosingOrder;
use super::{BlockView, VictimPolicy};
use crate::place::VictimGroup;

/// Full blocks in closing order. A choice scans all of them.
#[derive(Clone, Debug, State)]
pub struct Midas {
    order: ClosingOrder,
    #[state(table)]
    closed: Vec<u64>,
}

impl Midas {
    /// An order of `blocks` blocks.
    pub fn new(blocks: u32) -> Self {
        Self { order: ClosingOrder::new(blocks), closed: vec![0; blocks as usize] }
    }

    fn candidates<'a>(&'a self, view: &'a BlockView<'_>) -> impl Iterator<Item = BlockId> + 'a {
        let blocks = std::iter::successors(self.order.first(), |&block| self.order.next(block));
        blocks.filter(|&block| view.valid(block) < view.units_per_block())
    }

    /// Score of `block`; 0 if the present write has filled it, but infinite without valid units.
    fn cost_benefit(&self, block: BlockId, view: &BlockView<'_>) -> f64 {
        let (units, valid) = (f64::from(view.units_per_block()), f64::from(view.valid(block)));
        let age = (view.tick() - self.closed[block.index()]) as f64;
        if valid == 0.0 { f64::INFINITY } else { (units - valid) / valid * age.sqrt() }
    }

    /// Block with the highest score; of equals, the one closed first.
    fn best(&self, view: &BlockView<'_>, is_of_group: impl Fn(BlockId) -> bool) -> Option<BlockId> {
        let mut best: Option<(f64, BlockId)> = None;
        for block in self.candidates(view).filter(|&block| is_of_group(block)) {
            let score = self.cost_benefit(block, view);
            if best.is_none_or(|(top, _)| score > top) {
                best = Some((score, block));
            }
        }
        best.map(|(_, block)| block)
    }
}

impl VictimPolicy for Midas {
    fn closed(&mut self, block: BlockId, _valid: u32, tick: u64) {
        self.order.push(block);
        self.closed[block.index()] = tick;
    }

    fn invalidated(&mut self, _unit: Ppa, _block: BlockId, _valid: u32, _tick: u64) {}

    fn taken(&mut self, block: BlockId) {
        self.order.remove(block);
    }

    fn choose(&mut self, view: &BlockView<'_>, _rng: &mut Prng) -> Option<BlockId> {
        let Some(group) = view.victim_group() else { return self.best(view, |_| true) };
        let oldest = |group: VictimGroup<'_>| self.candidates(view).find(|&block| group.has(block));
        let by_age = if group.is_last { None } else { oldest(group) };
        let of_last = || self.best(view, |block| group.is_in_last(block));
        by_age.or_else(of_last).or_else(|| self.best(view, |_| true))
    }

    super::by_state!();

    fn candidates(&self) -> u32 {
        self.order.len()
    }

    fn bytes_per_block() -> u64 {
        16
    }
}
