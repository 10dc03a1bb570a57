//! Policies that need no index per unit: FIFO, random and d-choices.

use strobe_types::{BlockId, Ppa, Prng};

use super::{BlockView, VictimPolicy};

/// How a victim is found among the closed blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// The block that closed first. Fully valid blocks are moved too, as in a circular log.
    Fifo,
    /// `d` blocks drawn at random with replacement, the one with the fewest valid units; of
    /// equals the first drawn. `d = 1` is the random policy (Van Houdt 2013).
    Choices(u32),
}

/// The closed blocks, in closing order or in no particular one.
#[derive(Clone, Debug)]
pub struct Sampled {
    sampling: Sampling,
    /// Ring (FIFO) or bag (choices) of closed blocks; `head` is used by the ring only.
    closed: std::collections::VecDeque<BlockId>,
    /// Where each block stands in the bag; unused by the ring.
    position: Vec<u32>,
}

impl Sampled {
    /// An empty set for `blocks` blocks.
    pub fn new(blocks: u32, sampling: Sampling) -> Self {
        let position = match sampling {
            Sampling::Fifo => Vec::new(),
            Sampling::Choices(_) => vec![0; blocks as usize],
        };
        Self { sampling, closed: std::collections::VecDeque::new(), position }
    }
}

impl VictimPolicy for Sampled {
    fn closed(&mut self, block: BlockId, _valid: u32, _tick: u64) {
        if let Some(position) = self.position.get_mut(block.index()) {
            *position = self.closed.len() as u32;
        }
        self.closed.push_back(block);
    }

    #[inline(always)]
    fn invalidated(&mut self, _unit: Ppa, _block: BlockId, _valid: u32, _tick: u64) {}

    fn taken(&mut self, block: BlockId) {
        if self.sampling == Sampling::Fifo {
            let oldest = self.closed.pop_front();
            assert_eq!(oldest, Some(block), "FIFO victims leave in order");
            return;
        }
        let at = self.position[block.index()] as usize;
        assert_eq!(self.closed.swap_remove_back(at), Some(block), "block is a candidate");
        if let Some(moved) = self.closed.get(at) {
            self.position[moved.index()] = at as u32;
        }
    }

    fn choose(&mut self, view: &BlockView<'_>, rng: &mut Prng) -> Option<BlockId> {
        match self.sampling {
            Sampling::Fifo => self.closed.front().copied(),
            Sampling::Choices(draws) => {
                let count = self.closed.len() as u32;
                if count == 0 {
                    return None;
                }
                // min_by_key keeps the first of equals.
                (0..draws.max(1))
                    .map(|_| self.closed[rng.below(count) as usize])
                    .min_by_key(|&block| view.valid(block))
            }
        }
    }

    fn candidates(&self) -> u32 {
        self.closed.len() as u32
    }

    fn bytes_per_block() -> u64 {
        8
    }
}
