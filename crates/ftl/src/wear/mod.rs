//! Static wear levelling: which block's data should move so that the block below it wears too.
//!
//! A leveler is told what happens to blocks and names, when asked after a collection, at most one
//! closed block to empty. The mapping scheme moves the data, which nobody rewrites, to the most
//! worn erased block; the emptied block is young and takes its turn with hot data.

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
    /// Hot-cold swap: empties the least worn block with cold data when it is more than `threshold`
    /// erases behind the most worn block. Data is cold when, since its block closed, as many
    /// others have as the drive has blocks: hot data does not lie that long.
    Swap {
        /// Difference of erase counts.
        threshold: u32,
    },
    /// Dual-pool (Chang & Du 2009): blocks belong to a pool for hot or one for cold data. When the
    /// most worn erased block of the hot pool is more than `threshold` erases ahead of the least
    /// worn closed one of the cold pool, they exchange data and pools. Blocks that turn out to be
    /// in the wrong pool, by what was erased since they joined it, change it.
    DualPool {
        /// Difference of erase counts.
        threshold: u32,
    },
    /// SW Leveler (Chang, Hsieh & Kuo 2007): a flag per set of neighbouring blocks tells whether
    /// any was erased in this round. When there were `threshold` erases for each flag set, the
    /// next set without a flag is emptied. When all flags are set, a new round begins.
    SwLeveler {
        /// Erases per set that has been erased.
        threshold: u32,
        /// Blocks of a set.
        set_blocks: u32,
    },
}

/// A leveler at work.
#[derive(Clone, Debug, Stored)]
pub(crate) enum Leveler {
    Swap(Swap),
    DualPool(DualPool),
    SwLeveler(SwLeveler),
}

/// Calls the method of whichever leveler it is.
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
    /// A leveler for `blocks` fresh blocks, of which those that are not `good` do not take part.
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

    /// `block` has been erased for the `erase_count`th time and is free.
    pub(crate) fn erased(&mut self, block: BlockId, erase_count: u32) {
        delegate!(self, leveler => leveler.erased(block, erase_count));
    }

    /// `block` is full.
    pub(crate) fn closed(&mut self, block: BlockId) {
        delegate!(self, leveler => leveler.closed(block));
    }

    /// `block` is not free, or not closed, any more.
    pub(crate) fn left(&mut self, block: BlockId) {
        delegate!(self, leveler => leveler.left(block));
    }

    /// `block`, neither free nor closed, is out of service.
    pub(crate) fn bad(&mut self, block: BlockId) {
        delegate!(self, leveler => leveler.bad(block));
    }

    /// The closed block to empty now, if any.
    pub(crate) fn choose(&mut self) -> Option<BlockId> {
        delegate!(self, leveler => leveler.choose())
    }
}
