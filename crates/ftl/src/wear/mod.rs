//! Static wear levelling: moves cold data away, so that its block wears as well.
//!
//! After a collection, a leveler names at most one closed block to empty. Its cold data moves to the most
//! worn erased block; the emptied young block then takes hot data.

mod dual_pool;
mod summary;
mod sw_leveler;
mod swap;

use strobe_types::{BlockId, Stored};

pub use summary::WearSummary;

use dual_pool::DualPool;
use sw_leveler::SwLeveler;
use swap::Swap;

/// Method and threshold of static wear levelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leveling {
    /// Hot-cold swap: empties the least worn block with cold data if it is more than `threshold` erases
    /// behind the most worn block. Data is cold after N further blocks were closed, N being the blocks of the
    /// drive.
    Swap {
        /// Difference of erase counts.
        threshold: u32,
    },
    /// Dual-pool (Chang & Du 2009): a hot and a cold pool of blocks. If the most worn erased hot block is
    /// more than `threshold` erases ahead of the least worn closed cold one, they exchange data and pools.
    /// Blocks whose erase counts do not fit their pool change to the other pool.
    DualPool {
        /// Difference of erase counts.
        threshold: u32,
    },
    /// SW Leveler (Chang, Hsieh & Kuo 2007): one flag per set of neighbouring blocks, set by an erase in this
    /// round. At `threshold` erases per flag set, the next set without a flag is emptied. A new round begins
    /// when all flags are set.
    SwLeveler {
        /// Erases per flag set.
        threshold: u32,
        /// Blocks in a set.
        set_blocks: u32,
    },
}

#[derive(Clone, Debug, Stored)]
pub(crate) enum Leveler {
    Swap(Swap),
    DualPool(DualPool),
    SwLeveler(SwLeveler),
}

macro_rules! delegate {
    ($self:ident, $leveler:ident => $call:expr) => {
        match $self {
            Leveler::Swap($leveler) => $call,
            Leveler::DualPool($leveler) => $call,
            Leveler::SwLeveler($leveler) => $call,
        }
    };
}

impl Leveler {
    /// Blocks that are not `good` take no part.
    pub(crate) fn new(leveling: Leveling, blocks: u32, good: impl Fn(BlockId) -> bool) -> Self {
        let mut leveler = match leveling {
            Leveling::Swap { threshold } => Leveler::Swap(Swap::new(blocks, threshold)),
            Leveling::DualPool { threshold } => Leveler::DualPool(DualPool::new(blocks, threshold)),
            Leveling::SwLeveler { threshold, set_blocks } => {
                Leveler::SwLeveler(SwLeveler::new(blocks, threshold, set_blocks))
            }
        };
        for block in (0..blocks).map(BlockId::new).filter(|&block| !good(block)) {
            leveler.left(block);
            leveler.bad(block);
        }
        leveler
    }

    pub(crate) fn bytes_per_block(leveling: Leveling) -> u64 {
        match leveling {
            Leveling::Swap { .. } => 64,
            Leveling::DualPool { .. } => 96,
            Leveling::SwLeveler { .. } => 2,
        }
    }

    /// Reports that `block` is free now.
    pub(crate) fn erased(&mut self, block: BlockId, erase_count: u32) {
        delegate!(self, leveler => leveler.erased(block, erase_count));
    }

    pub(crate) fn closed(&mut self, block: BlockId) {
        delegate!(self, leveler => leveler.closed(block));
    }

    /// Reports that `block` is no longer free or closed.
    pub(crate) fn left(&mut self, block: BlockId) {
        delegate!(self, leveler => leveler.left(block));
    }

    /// Reports that `block`, neither free nor closed, is out of service.
    pub(crate) fn bad(&mut self, block: BlockId) {
        delegate!(self, leveler => leveler.bad(block));
    }

    pub(crate) fn choose(&mut self) -> Option<BlockId> {
        delegate!(self, leveler => leveler.choose())
    }
}
