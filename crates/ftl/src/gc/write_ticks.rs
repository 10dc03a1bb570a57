//! Write time of the newest valid unit of each block.

use strobe_types::{BlockId, Divisor, Ppa, State, Stored, prefetch_write};

/// A block is written in order, so its newest valid unit is the last valid one. All searches for the newest
/// valid unit together pass each unit at most once.
#[derive(Clone, Debug, State)]
pub(crate) struct WriteTicks {
    #[state(skip)]
    units_per_block: Divisor,
    #[state(table)]
    ticks: Vec<u64>,
    #[state(table)]
    valid: Vec<u64>,
    #[state(table)]
    newest: Vec<Newest>,
}

#[derive(Clone, Copy, Debug, Default, Stored)]
struct Newest {
    tick: u64,
    units: u32,
}

impl WriteTicks {
    pub(crate) fn new(blocks: u32, units_per_block: u32) -> Self {
        let units = blocks as usize * units_per_block as usize;
        Self {
            units_per_block: Divisor::new(units_per_block),
            ticks: vec![0; units],
            valid: vec![0; units.div_ceil(64)],
            newest: vec![Newest::default(); blocks as usize],
        }
    }

    /// Memory per block, without the 8 bytes and one bit per unit.
    pub(crate) const BYTES_PER_BLOCK: u64 = size_of::<Newest>() as u64;

    fn first(&self, block: BlockId) -> usize {
        block.index() * self.units_per_block.get() as usize
    }

    pub(crate) fn opened(&mut self, block: BlockId) {
        let first = self.first(block);
        for unit in first..first + self.units_per_block.get() as usize {
            self.valid[unit / 64] &= !(1 << (unit % 64));
        }
        self.newest[block.index()] = Newest::default();
    }

    #[inline]
    pub(crate) fn written(&mut self, unit: Ppa, tick: u64) -> BlockId {
        let block = self.units_per_block.quotient(unit.get());
        let units = unit.get() - block * self.units_per_block.get() + 1;
        self.ticks[unit.index()] = tick;
        self.valid[unit.index() / 64] |= 1 << (unit.index() % 64);
        self.newest[block as usize] = Newest { tick, units };
        BlockId::new(block)
    }

    #[inline]
    pub(crate) fn invalidated(&mut self, unit: Ppa, block: BlockId) {
        self.valid[unit.index() / 64] &= !(1 << (unit.index() % 64));
        let first = self.first(block);
        // If the newest valid unit is gone, the last valid one before it takes its place.
        if first + self.newest[block.index()].units as usize == unit.index() + 1 {
            let valid = |&unit: &usize| self.valid[unit / 64] >> (unit % 64) & 1 == 1;
            let last = (first..unit.index()).rev().find(valid);
            self.newest[block.index()] = last.map_or(Newest::default(), |last| Newest {
                tick: self.ticks[last],
                units: (last - first) as u32 + 1,
            });
        }
    }

    /// `None` if no unit is valid.
    #[inline]
    pub(crate) fn newest(&self, block: BlockId) -> Option<u64> {
        let Newest { tick, units } = self.newest[block.index()];
        (units > 0).then_some(tick)
    }

    #[inline]
    pub(crate) fn prefetch(&self, block: BlockId) {
        prefetch_write(&self.newest, block.index());
    }
}
