//! Policies without work per invalidated unit: FIFO, random and d-choices.

use strobe_types::{BlockId, Ppa, Prng, Stored};

use super::order::ClosingOrder;
use super::{BlockView, VictimPolicy};

/// Choice among closed blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// The block closed first, even if fully valid, as in a circular log.
    Fifo,
    /// Of `d` random blocks, drawn with replacement, the one with the fewest valid units; of equals, the
    /// first drawn. `d = 1` is the random policy (Van Houdt 2013).
    Choices(u32),
}

/// Closed blocks, in closing order or unordered.
#[derive(Clone, Debug, Stored)]
pub struct Sampled(Closed);

#[derive(Clone, Debug, Stored)]
enum Closed {
    Order(ClosingOrder),
    Bag { draws: u32, blocks: Vec<BlockId>, position: Vec<u32> },
}

impl Sampled {
    /// An empty set for `blocks` blocks.
    pub fn new(blocks: u32, sampling: Sampling) -> Self {
        Self(match sampling {
            Sampling::Fifo => Closed::Order(ClosingOrder::new(blocks)),
            Sampling::Choices(draws) => {
                Closed::Bag { draws: draws.max(1), blocks: Vec::new(), position: vec![0; blocks as usize] }
            }
        })
    }
}

impl VictimPolicy for Sampled {
    fn closed(&mut self, block: BlockId, _valid: u32, _tick: u64) {
        match &mut self.0 {
            Closed::Order(order) => order.push(block),
            Closed::Bag { blocks, position, .. } => {
                position[block.index()] = blocks.len() as u32;
                blocks.push(block);
            }
        }
    }

    fn invalidated(&mut self, _unit: Ppa, _block: BlockId, _valid: u32, _tick: u64) {}

    fn taken(&mut self, block: BlockId) {
        match &mut self.0 {
            Closed::Order(order) => order.remove(block),
            Closed::Bag { blocks, position, .. } => {
                let at = position[block.index()] as usize;
                assert_eq!(blocks.get(at), Some(&block), "{block:?} is a candidate");
                blocks.swap_remove(at);
                if let Some(moved) = blocks.get(at) {
                    position[moved.index()] = at as u32;
                }
            }
        }
    }

    fn choose(&mut self, view: &BlockView<'_>, rng: &mut Prng) -> Option<BlockId> {
        match &self.0 {
            Closed::Order(order) => order.first(),
            Closed::Bag { blocks, .. } if blocks.is_empty() => None,
            // min_by_key keeps the first of equals.
            Closed::Bag { draws, blocks, .. } => (0..*draws)
                .map(|_| blocks[rng.below(blocks.len() as u32) as usize])
                .min_by_key(|&block| view.valid(block)),
        }
    }

    super::by_state!();

    fn candidates(&self) -> u32 {
        match &self.0 {
            Closed::Order(order) => order.len(),
            Closed::Bag { blocks, .. } => blocks.len() as u32,
        }
    }

    fn bytes_per_block() -> u64 {
        8
    }
}
