//! Greedy: the block with the fewest valid units (GA; Wu & Zwaenepoel 1994, eNVy).

use strobe_types::{BlockId, Ppa, Prng, prefetch_write};

use super::{BlockView, VictimPolicy};

/// Picks the candidate with the fewest valid units; of equals, the one that closed first.
///
/// A tree of minima, 16 children (two cache lines) per node, over one key per block. An
/// invalidation lowers one key, which touches a parent only when it makes a new minimum; a choice
/// walks down, one node per level. Cost per choice: three nodes for 10³ blocks, five for 10⁶.
#[derive(Clone, Debug)]
pub struct Greedy {
    /// A key per block.
    keys: Vec<u64>,
    /// `minima[0]` holds the least of each 16 keys, `minima[n + 1]` of each 16 entries below.
    minima: Vec<Vec<u64>>,
    closings: u64,
    candidates: u32,
}

/// Not a candidate.
const NONE: u64 = u64::MAX;
/// A key is the valid count above the closing order, which then breaks ties.
const ORDER_BITS: u32 = 40;
const FANOUT: usize = 16;

impl Greedy {
    /// An index for `blocks` blocks, none of them a candidate.
    pub fn new(blocks: u32) -> Self {
        let keys = vec![NONE; (blocks.max(1) as usize).next_multiple_of(FANOUT)];
        let mut minima: Vec<Vec<u64>> = Vec::new();
        let mut below = keys.len();
        while below > FANOUT {
            minima.push(vec![NONE; (below / FANOUT).next_multiple_of(FANOUT)]);
            below = minima[minima.len() - 1].len();
        }
        Self { keys, minima, closings: 0, candidates: 0 }
    }

    /// Lowers the key at `index` and the minima above it.
    #[inline(always)]
    fn lower(&mut self, index: usize, key: u64) {
        self.keys[index] = key;
        if self.minima.first().is_some_and(|level| key < level[index / FANOUT]) {
            self.lower_minima(index, key);
        }
    }

    #[inline(never)]
    fn lower_minima(&mut self, index: usize, key: u64) {
        let mut index = index;
        for level in &mut self.minima {
            index /= FANOUT;
            if key >= level[index] {
                break;
            }
            level[index] = key;
        }
    }
}

/// The least of the children of `node`.
fn least(children: &[u64], node: usize) -> u64 {
    children[node * FANOUT..(node + 1) * FANOUT].iter().copied().fold(NONE, u64::min)
}

impl VictimPolicy for Greedy {
    fn closed(&mut self, block: BlockId, valid: u32, _tick: u64) {
        let key = u64::from(valid) << ORDER_BITS | self.closings;
        self.closings += 1;
        self.candidates += 1;
        self.lower(block.index(), key);
    }

    #[inline(always)]
    fn invalidated(&mut self, _unit: Ppa, block: BlockId, _valid: u32, _tick: u64) {
        let key = self.keys[block.index()];
        if key != NONE {
            self.lower(block.index(), key - (1 << ORDER_BITS));
        }
    }

    #[inline(always)]
    fn prefetch(&self, block: BlockId) {
        prefetch_write(&self.keys, block.index());
    }

    fn taken(&mut self, block: BlockId) {
        self.candidates -= 1;
        let mut index = block.index();
        self.keys[index] = NONE;
        let mut below = &self.keys;
        for level in &mut self.minima {
            index /= FANOUT;
            level[index] = least(below, index);
            below = level;
        }
    }

    fn choose(&mut self, _view: &BlockView<'_>, _rng: &mut Prng) -> Option<BlockId> {
        let mut node = 0;
        for level in self.minima.iter().rev().chain([&self.keys]) {
            let least = least(level, node);
            if least == NONE {
                return None;
            }
            let children = &level[node * FANOUT..(node + 1) * FANOUT];
            node = node * FANOUT + children.iter().position(|&key| key == least)?;
        }
        Some(BlockId::new(node as u32))
    }

    fn candidates(&self) -> u32 {
        self.candidates
    }

    fn bytes_per_block() -> u64 {
        9
    }
}
