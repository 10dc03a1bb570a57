//! Cell modes: bits per cell of a block.

use crate::Stored;

/// Cell mode of a block. Set on an erased block before its first program, it lasts until the next erase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
pub enum CellMode {
    /// Full bit count; the block has all its pages.
    #[default]
    Normal,
    /// One bit per cell (pseudo-SLC): faster to program, read and erase, with proportionally fewer pages.
    Slc,
}
