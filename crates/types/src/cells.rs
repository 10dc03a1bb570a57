//! Cell modes: bits per cell of a block.

use crate::Stored;

/// Cell mode of a block, set on an erased block before its first program and kept until the next erase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
pub enum CellMode {
    /// All bits of each cell; the block has all its pages.
    #[default]
    Normal,
    /// One bit per cell (pseudo-SLC): faster to program, read and erase, with proportionally fewer pages.
    Slc,
}
