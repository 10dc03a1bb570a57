//! Greedy: the victim has the fewest valid units (GA; Wu & Zwaenepoel 1994, eNVy), among all blocks or a
//! window (Hu et al. 2009).

use std::ops::Range;

use strobe_types::{BlockId, Ppa, Prng, State, prefetch_write};

use super::order::ClosingOrder;
use super::{BlockView, VictimPolicy};

/// Picks the candidate with the fewest valid units; of equals, the one closed first.
///
/// With a window of w, only the w blocks closed first compete. A window of 1 is FIFO.
///
/// The index is a tree of minima over one key per block, with 16 children (two cache lines) per node. An
/// invalidation lowers a key, and touches the parent only if the key is its new minimum. Taking a victim
/// updates one node per level. Cost per choice: three nodes for 10³ blocks, five for 10⁶.
#[derive(Clone, Debug, State)]
pub struct Greedy {
    #[state(skip)]
    window: u32,
    entries: u64,
    inside: u32,
    waiting: ClosingOrder,
    #[state(table)]
    keys: Vec<u64>,
    /// `minima[0]` covers 16 keys per entry, `minima[n + 1]` 16 entries of `minima[n]`.
    #[state(table)]
    minima: Vec<Level>,
}

#[derive(Clone, Debug, State)]
struct Level {
    #[state(table)]
    keys: Vec<u64>,
    #[state(table)]
    blocks: Vec<u32>,
}

const NONE: u64 = u64::MAX;
/// Bits of a key for the order of entry, which breaks ties; the valid count is above.
const ORDER_BITS: u32 = 40;
const FANOUT: usize = 16;

impl Greedy {
    /// An index for `blocks` blocks without candidates.
    pub fn new(blocks: u32) -> Self {
        Self::windowed(blocks, blocks)
    }

    /// A policy with at most `window` candidates, those closed first (Hu, Eleftheriou, Haas, Iliadis & Pletka
    /// 2009).
    pub fn windowed(blocks: u32, window: u32) -> Self {
        let keys = vec![NONE; (blocks.max(1) as usize).next_multiple_of(FANOUT)];
        let mut minima = Vec::new();
        let mut below = keys.len();
        // Levels of minima up to a root of at most 16 entries.
        while below > FANOUT {
            below = (below / FANOUT).next_multiple_of(FANOUT);
            minima.push(Level { keys: vec![NONE; below], blocks: vec![0; below] });
        }
        // No block waits if the window holds all.
        let waiting = ClosingOrder::new(if window < blocks { blocks } else { 0 });
        Self { keys, minima, entries: 0, inside: 0, window: window.max(1), waiting }
    }

    fn enter(&mut self, block: BlockId, valid: u32) {
        let key = u64::from(valid) << ORDER_BITS | self.entries;
        self.entries += 1;
        self.inside += 1;
        self.lower(block.index(), key);
    }

    #[inline(always)]
    fn lower(&mut self, index: usize, key: u64) {
        self.keys[index] = key;
        if self.minima.first().is_some_and(|level| key < level.keys[index / FANOUT]) {
            self.lower_minima(index, key);
        }
    }

    #[inline(never)]
    fn lower_minima(&mut self, block: usize, key: u64) {
        let mut index = block;
        for level in &mut self.minima {
            index /= FANOUT;
            if key >= level.keys[index] {
                break;
            }
            level.keys[index] = key;
            level.blocks[index] = block as u32;
        }
    }

    fn best(&self) -> Option<BlockId> {
        let (key, block) = match self.minima.last() {
            Some(root) => {
                let (key, at) = least(&root.keys);
                (key, root.blocks[at])
            }
            None => {
                let (key, at) = least(&self.keys);
                (key, at as u32)
            }
        };
        (key != NONE).then_some(BlockId::new(block))
    }
}

#[inline(always)]
fn least(keys: &[u64]) -> (u64, usize) {
    let (mut least, mut least_at) = (NONE, 0);
    for (at, &key) in keys.iter().enumerate() {
        // Assigns both or neither, without a branch to predict.
        (least, least_at) = if key < least { (key, at) } else { (least, least_at) };
    }
    (least, least_at)
}

impl VictimPolicy for Greedy {
    fn closed(&mut self, block: BlockId, valid: u32, _tick: u64) {
        if self.inside < self.window && self.waiting.len() == 0 {
            self.enter(block, valid);
        } else {
            self.waiting.push(block);
        }
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
        let mut index = block.index();
        if self.keys[index] == NONE {
            self.waiting.remove(block);
            return;
        }
        self.inside -= 1;
        let key = std::mem::replace(&mut self.keys[index], NONE);
        let mut below: Option<&Level> = None;
        for level in &mut self.minima {
            index /= FANOUT;
            if level.keys[index] != key {
                // An ancestor with another minimum does not depend on this block.
                break;
            }
            let children = index * FANOUT..(index + 1) * FANOUT;
            let keys = below.map_or(&self.keys, |below| &below.keys);
            let (least, at) = least(&keys[children.clone()]);
            level.keys[index] = least;
            level.blocks[index] = match below {
                Some(below) => below.blocks[children.start + at],
                None => (children.start + at) as u32,
            };
            below = Some(level);
        }
        // The best block is likely the next victim.
        if let Some(next) = self.best() {
            let first = next.index() / FANOUT * FANOUT;
            prefetch_write(&self.keys, first);
            prefetch_write(&self.keys, first + FANOUT - 1);
        }
    }

    fn choose(&mut self, view: &BlockView<'_>, _rng: &mut Prng) -> Option<BlockId> {
        // Victims have left the window: the waiting blocks that closed first take their places.
        while self.inside < self.window {
            let Some(block) = self.waiting.first() else { break };
            self.waiting.remove(block);
            self.enter(block, view.valid(block));
        }
        self.best()
    }

    fn choose_among(&self, blocks: Range<u32>) -> Option<BlockId> {
        let blocks = blocks.start as usize..blocks.end as usize;
        let (mut best, mut best_at) = (NONE, 0);
        let mut at = blocks.start;
        while at < blocks.end {
            // Skip sixteen keys whose minimum is no better.
            let group = self.minima.first().map_or(0, |level| level.keys[at / FANOUT]);
            let end = (at / FANOUT + 1) * FANOUT;
            if group < best {
                let (key, found) = least(&self.keys[at..end.min(blocks.end)]);
                (best, best_at) = if key < best { (key, at + found) } else { (best, best_at) };
            }
            at = end;
        }
        (best != NONE).then_some(BlockId::new(best_at as u32))
    }

    /// Invalid share; `None` while blocks wait outside the window.
    fn score(&self, block: BlockId, view: &BlockView<'_>) -> Option<f64> {
        let share = f64::from(view.valid(block)) / f64::from(view.units_per_block());
        (self.waiting.len() == 0).then_some(1.0 - share)
    }

    super::by_state!();

    fn candidates(&self) -> u32 {
        self.inside + self.waiting.len()
    }

    fn bytes_per_block() -> u64 {
        9 + 8
    }
}
