//! Greedy: the block with the fewest valid units (GA; Wu & Zwaenepoel 1994, eNVy).

use strobe_types::{BlockId, Prng};

use super::{BlockView, VictimPolicy};

/// Picks the candidate with the fewest valid units; of equals, the one that closed first.
///
/// A tree of minima, 64 children per node, over one key per block. An invalidation lowers one
/// key, which touches a parent only when it makes a new minimum; a choice walks down, one node
/// per level. Cost per choice: three nodes for 10⁵ blocks, four for 10⁷.
#[derive(Clone, Debug)]
pub struct Greedy {
    /// `levels[0]` holds a key per block, `levels[n + 1]` the minimum of each 64 keys below.
    levels: Vec<Vec<u64>>,
    closings: u64,
    candidates: u32,
}

/// Not a candidate.
const NONE: u64 = u64::MAX;
/// A key is the valid count above the closing order, which then breaks ties.
const ORDER_BITS: u32 = 40;
const FANOUT: usize = 64;

impl Greedy {
    /// An index for `blocks` blocks, none of them a candidate.
    pub fn new(blocks: u32) -> Self {
        let mut levels = vec![vec![NONE; (blocks as usize).next_multiple_of(FANOUT)]];
        while levels[levels.len() - 1].len() > FANOUT {
            let parents = levels[levels.len() - 1].len() / FANOUT;
            levels.push(vec![NONE; parents.next_multiple_of(FANOUT)]);
        }
        Self { levels, closings: 0, candidates: 0 }
    }

    /// Lowers the key at `index` of level 0 and the minima above it.
    #[inline(always)]
    fn lower(&mut self, index: usize, key: u64) {
        self.levels[0][index] = key;
        if self.levels.len() > 1 && key < self.levels[1][index / FANOUT] {
            self.lower_minima(index, key);
        }
    }

    #[inline(never)]
    fn lower_minima(&mut self, index: usize, key: u64) {
        let mut index = index;
        for level in &mut self.levels[1..] {
            index /= FANOUT;
            if key >= level[index] {
                break;
            }
            level[index] = key;
        }
    }

    fn minimum_of(&self, level: usize, node: usize) -> u64 {
        self.levels[level][node * FANOUT..(node + 1) * FANOUT].iter().copied().fold(NONE, u64::min)
    }
}

impl VictimPolicy for Greedy {
    fn closed(&mut self, block: BlockId, valid: u32, _tick: u64) {
        let key = u64::from(valid) << ORDER_BITS | self.closings;
        self.closings += 1;
        self.candidates += 1;
        self.lower(block.index(), key);
    }

    #[inline(always)]
    fn invalidated(&mut self, block: BlockId, _valid: u32, _tick: u64) {
        let key = self.levels[0][block.index()];
        if key != NONE {
            self.lower(block.index(), key - (1 << ORDER_BITS));
        }
    }

    fn taken(&mut self, block: BlockId) {
        self.candidates -= 1;
        let mut index = block.index();
        self.levels[0][index] = NONE;
        for level in 1..self.levels.len() {
            index /= FANOUT;
            self.levels[level][index] = self.minimum_of(level - 1, index);
        }
    }

    fn choose(&mut self, _view: &BlockView<'_>, _rng: &mut Prng) -> Option<BlockId> {
        let mut node = 0;
        for level in self.levels.iter().rev() {
            let children = &level[node * FANOUT..(node + 1) * FANOUT];
            let least = children.iter().copied().fold(NONE, u64::min);
            if least == NONE {
                return None;
            }
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
