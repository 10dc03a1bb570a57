//! Static wear levelling: which block's data should move so that the block below it wears too.

/// How, and how eagerly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leveling {
    /// Hot-cold swap: empties the least worn closed block when it is more than `threshold` erases
    /// behind the most worn one.
    Swap {
        /// Difference of erase counts.
        threshold: u32,
    },
    /// Dual-pool (Chang & Du 2009).
    DualPool {
        /// Difference of erase counts.
        threshold: u32,
    },
    /// SW Leveler (Chang, Hsieh & Kuo 2007).
    SwLeveler {
        /// Erases per set that has been erased.
        threshold: u32,
        /// Blocks of a set.
        set_blocks: u32,
    },
}
