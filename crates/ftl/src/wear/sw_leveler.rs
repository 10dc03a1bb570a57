//! SW Leveler: a block erasing table with one flag per set of blocks.

use strobe_types::{BlockId, Stored};

#[derive(Clone, Debug, Stored)]
pub(crate) struct SwLeveler {
    threshold: u32,
    set_blocks: u32,
    /// True for each set with an erase in this round.
    flags: Vec<bool>,
    flags_set: u32,
    erases: u64,
    is_closed: Vec<bool>,
    next_set: usize,
    /// Blocks of the current set to be emptied, in reverse.
    pending: Vec<BlockId>,
}

impl SwLeveler {
    pub(super) fn new(blocks: u32, threshold: u32, set_blocks: u32) -> Self {
        let set_blocks = set_blocks.clamp(1, blocks.max(1));
        Self {
            threshold,
            set_blocks,
            flags: vec![false; blocks.div_ceil(set_blocks) as usize],
            flags_set: 0,
            erases: 0,
            is_closed: vec![false; blocks as usize],
            next_set: 0,
            pending: Vec::new(),
        }
    }

    fn flag(&mut self, set: usize) {
        if !std::mem::replace(&mut self.flags[set], true) {
            self.flags_set += 1;
        }
    }

    pub(super) fn erased(&mut self, block: BlockId, _erase_count: u32) {
        self.erases += 1;
        self.flag((block.get() / self.set_blocks) as usize);
        // A new round begins when all sets have a flag.
        if self.flags_set as usize == self.flags.len() {
            self.flags.fill(false);
            (self.flags_set, self.erases) = (0, 0);
        }
    }

    pub(super) fn closed(&mut self, block: BlockId) {
        self.is_closed[block.index()] = true;
    }

    pub(super) fn left(&mut self, block: BlockId) {
        self.is_closed[block.index()] = false;
    }

    pub(super) fn bad(&mut self, _block: BlockId) {}

    pub(super) fn choose(&mut self) -> Option<BlockId> {
        loop {
            // Garbage collection may already have emptied these blocks.
            while let Some(block) = self.pending.pop() {
                if self.is_closed[block.index()] {
                    return Some(block);
                }
            }
            let due =
                self.flags_set > 0 && self.erases >= u64::from(self.flags_set) * u64::from(self.threshold);
            if !due {
                return None;
            }
            let sets = self.flags.len();
            let set = (0..sets).map(|step| (self.next_set + step) % sets).find(|&set| !self.flags[set])?;
            self.next_set = (set + 1) % sets;
            let first = set as u32 * self.set_blocks;
            let end = (first + self.set_blocks).min(self.is_closed.len() as u32);
            let closed = (first..end).rev().map(BlockId::new);
            self.pending = closed.filter(|block| self.is_closed[block.index()]).collect();
            if self.pending.is_empty() {
                // The set has no data to move: its blocks are free, open or bad. The last flag of a round is
                // left to an erase, which begins the next round.
                if self.flags_set as usize + 1 == sets {
                    return None;
                }
                self.flag(set);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_set_without_a_flag_is_emptied_when_erases_per_flag_reach_the_threshold() {
        let block = BlockId::new;
        let mut leveler = SwLeveler::new(6, 3, 2);
        for id in 2..6 {
            leveler.closed(block(id));
        }
        leveler.erased(block(0), 1);
        leveler.erased(block(1), 1);
        assert_eq!(leveler.choose(), None, "two erases for one flag");
        leveler.erased(block(0), 2);
        assert_eq!(leveler.choose(), Some(block(2)));
        leveler.left(block(2));
        leveler.erased(block(2), 1);
        // First the rest of the current set, then none: four erases for two flags are below the threshold.
        assert_eq!(leveler.choose(), Some(block(3)));
        leveler.left(block(3));
        leveler.erased(block(3), 1);
        assert_eq!(leveler.choose(), None);
        leveler.erased(block(0), 3);
        assert_eq!(leveler.choose(), Some(block(4)));
        leveler.left(block(4));
        leveler.erased(block(4), 1);
        assert_eq!((leveler.flags_set, leveler.erases), (0, 0), "a new round");
    }
}
