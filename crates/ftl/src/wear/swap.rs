//! Hot-cold swap.

use std::collections::{BTreeSet, VecDeque};

use strobe_types::{BlockId, Stored};

#[derive(Clone, Debug, Stored)]
pub(crate) struct Swap {
    threshold: u32,
    erase_count: Vec<u32>,
    good: BTreeSet<(u32, BlockId)>,
    closings: u64,
    /// Number of the closing; 0 for blocks that are not closed.
    closed_at: Vec<u64>,
    /// Closed blocks not yet known to be cold, in closing order; may include blocks emptied since.
    recent: VecDeque<(u64, BlockId)>,
    cold: BTreeSet<(u32, BlockId)>,
}

impl Swap {
    pub(super) fn new(blocks: u32, threshold: u32) -> Self {
        Self {
            threshold,
            erase_count: vec![0; blocks as usize],
            good: (0..blocks).map(|block| (0, BlockId::new(block))).collect(),
            closings: 0,
            closed_at: vec![0; blocks as usize],
            recent: VecDeque::new(),
            cold: BTreeSet::new(),
        }
    }

    fn entry(&self, block: BlockId) -> (u32, BlockId) {
        (self.erase_count[block.index()], block)
    }

    pub(super) fn erased(&mut self, block: BlockId, erase_count: u32) {
        self.good.remove(&self.entry(block));
        self.erase_count[block.index()] = erase_count;
        self.good.insert(self.entry(block));
    }

    pub(super) fn closed(&mut self, block: BlockId) {
        self.closings += 1;
        self.closed_at[block.index()] = self.closings;
        self.recent.push_back((self.closings, block));
        // One entry leaves for each new one, so the queue has at most one entry per block of the drive.
        let Some(before) = self.closings.checked_sub(self.closed_at.len() as u64) else { return };
        while let Some(&(closing, block)) = self.recent.front()
            && closing <= before
        {
            self.recent.pop_front();
            // The entry is stale if the block has been emptied since that closing.
            if self.closed_at[block.index()] == closing {
                self.cold.insert(self.entry(block));
            }
        }
    }

    pub(super) fn left(&mut self, block: BlockId) {
        self.closed_at[block.index()] = 0;
        self.cold.remove(&self.entry(block));
    }

    pub(super) fn bad(&mut self, block: BlockId) {
        self.good.remove(&self.entry(block));
    }

    pub(super) fn choose(&mut self) -> Option<BlockId> {
        let &(most, _) = self.good.last()?;
        let &(least, block) = self.cold.first()?;
        (most - least > self.threshold).then_some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn_over(swap: &mut Swap, block: u32, closings: u64) {
        let block = BlockId::new(block);
        while swap.closings < closings {
            swap.left(block);
            let erases = swap.erase_count[block.index()] + 1;
            swap.erased(block, erases);
            swap.closed(block);
        }
    }

    #[test]
    fn the_least_worn_block_with_cold_data_is_emptied_beyond_the_threshold() {
        let mut swap = Swap::new(4, 4);
        swap.closed(BlockId::new(0));
        swap.closed(BlockId::new(1));
        turn_over(&mut swap, 2, 6);
        assert_eq!(swap.choose(), None, "4 erases are not beyond 4");
        turn_over(&mut swap, 2, 7);
        assert_eq!(swap.choose(), Some(BlockId::new(0)));
        swap.left(BlockId::new(0));
        assert_eq!(swap.choose(), Some(BlockId::new(1)));
        swap.left(BlockId::new(1));
        assert_eq!(swap.choose(), None, "block 2 holds hot data, the others are free");
    }

    #[test]
    fn data_is_cold_when_it_outlives_as_many_closings_as_there_are_blocks() {
        let mut swap = Swap::new(4, 1);
        swap.closed(BlockId::new(0));
        turn_over(&mut swap, 2, 4);
        assert_eq!(swap.choose(), None, "three closings since");
        turn_over(&mut swap, 2, 5);
        assert_eq!(swap.choose(), Some(BlockId::new(0)));
    }

    #[test]
    fn the_most_worn_block_does_not_count_once_it_is_bad() {
        let mut swap = Swap::new(2, 4);
        swap.closed(BlockId::new(0));
        turn_over(&mut swap, 1, 9);
        assert_eq!(swap.choose(), Some(BlockId::new(0)));
        swap.left(BlockId::new(1));
        swap.bad(BlockId::new(1));
        assert_eq!(swap.choose(), None);
    }
}
