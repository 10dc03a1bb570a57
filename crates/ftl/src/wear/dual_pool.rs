//! Dual-pool wear levelling.

use std::collections::BTreeSet;

use strobe_types::{BlockId, Stored};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
enum State {
    Free,
    Closed,
    Elsewhere,
}

#[derive(Clone, Copy, Debug, Stored)]
struct Block {
    hot: bool,
    state: State,
    erases: u32,
    /// Erases since joining the pool: "effective erase count".
    recent: u32,
}

type ByCount = BTreeSet<(u32, BlockId)>;

#[derive(Clone, Debug, Stored)]
pub(crate) struct DualPool {
    threshold: u32,
    blocks: Vec<Block>,
    hot: ByCount,
    hot_recent: ByCount,
    hot_free: ByCount,
    cold_recent: ByCount,
    cold_closed: ByCount,
}

impl DualPool {
    /// The first half of the blocks starts as the hot pool, as none has a history.
    pub(super) fn new(blocks: u32, threshold: u32) -> Self {
        let mut pools = Self {
            threshold,
            blocks: Vec::with_capacity(blocks as usize),
            hot: ByCount::new(),
            hot_recent: ByCount::new(),
            hot_free: ByCount::new(),
            cold_recent: ByCount::new(),
            cold_closed: ByCount::new(),
        };
        for id in (0..blocks).map(BlockId::new) {
            let hot = id.get() < blocks / 2;
            pools.blocks.push(Block { hot, state: State::Free, erases: 0, recent: 0 });
            pools.enter(id);
        }
        pools
    }

    fn enter(&mut self, id: BlockId) {
        let Block { hot, state, erases, recent } = self.blocks[id.index()];
        if hot {
            self.hot.insert((erases, id));
            self.hot_recent.insert((recent, id));
            if state == State::Free {
                self.hot_free.insert((erases, id));
            }
        } else {
            self.cold_recent.insert((recent, id));
            if state == State::Closed {
                self.cold_closed.insert((erases, id));
            }
        }
    }

    fn leave(&mut self, id: BlockId) {
        let Block { erases, recent, .. } = self.blocks[id.index()];
        self.hot.remove(&(erases, id));
        self.hot_recent.remove(&(recent, id));
        self.hot_free.remove(&(erases, id));
        self.cold_recent.remove(&(recent, id));
        self.cold_closed.remove(&(erases, id));
    }

    fn change(&mut self, id: BlockId, change: impl FnOnce(&mut Block)) {
        self.leave(id);
        change(&mut self.blocks[id.index()]);
        self.enter(id);
    }

    fn move_to(&mut self, hot: bool, id: BlockId) {
        self.change(id, |block| (block.hot, block.recent) = (hot, 0));
    }

    pub(super) fn erased(&mut self, id: BlockId, erase_count: u32) {
        self.change(id, |block| {
            (block.state, block.erases, block.recent) = (State::Free, erase_count, block.recent + 1);
        });
    }

    pub(super) fn closed(&mut self, id: BlockId) {
        self.change(id, |block| block.state = State::Closed);
    }

    pub(super) fn left(&mut self, id: BlockId) {
        self.change(id, |block| block.state = State::Elsewhere);
    }

    pub(super) fn bad(&mut self, id: BlockId) {
        self.leave(id);
    }

    /// Moves blocks in the wrong pool.
    fn resize(&mut self) {
        // A cold block with many more recent erases than a hot block.
        if let (Some(&(cold, id)), Some(&(hot, _))) = (self.cold_recent.last(), self.hot_recent.first())
            && cold.saturating_sub(hot) > self.threshold
        {
            self.move_to(true, id);
        }
        // A hot block far behind the most worn hot block.
        if let (Some(&(most, _)), Some(&(least, id))) = (self.hot.last(), self.hot.first())
            && most - least > self.threshold.saturating_mul(2)
        {
            self.move_to(false, id);
        }
    }

    pub(super) fn choose(&mut self) -> Option<BlockId> {
        self.resize();
        let &(worn, old) = self.hot_free.last()?;
        let &(young, id) = self.cold_closed.first()?;
        if worn.saturating_sub(young) <= self.threshold {
            return None;
        }
        self.move_to(false, old);
        self.move_to(true, id);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worn_hot_block_and_a_young_cold_one_exchange_pools() {
        let block = BlockId::new;
        let mut pools = DualPool::new(4, 3);
        pools.closed(block(2));
        pools.closed(block(3));
        for erases in 1..=3 {
            pools.erased(block(0), erases);
            assert_eq!(pools.choose(), None);
        }
        pools.erased(block(0), 4);
        assert_eq!(pools.choose(), Some(block(2)));
        assert!(pools.blocks[2].hot && !pools.blocks[0].hot);
        assert_eq!((pools.blocks[0].recent, pools.blocks[2].recent), (0, 0));
        // No other hot block is as worn.
        assert_eq!(pools.choose(), None);
    }

    #[test]
    fn a_busy_block_leaves_the_cold_pool_and_one_left_behind_the_hot_pool() {
        let block = BlockId::new;
        let mut pools = DualPool::new(4, 3);
        for erases in 1..=4 {
            pools.erased(block(3), erases);
        }
        assert_eq!(pools.choose(), None);
        assert!(pools.blocks[3].hot);
        for erases in 5..=7 {
            pools.erased(block(3), erases);
        }
        // Block 3 is 7 erases ahead of block 0: more than twice the threshold.
        assert_eq!(pools.choose(), None);
        assert!(!pools.blocks[0].hot);
    }
}
