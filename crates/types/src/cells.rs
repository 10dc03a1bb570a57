//! Cell modes: the number of bits that the cells of a block hold.

use crate::Stored;

/// Cell mode of a block. It is set on an erased block, before its first program, and lasts until the next
/// erase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
pub enum CellMode {
    /// As many bits as they can hold: the block has all its pages.
    #[default]
    Normal,
    /// One bit each (pseudo-SLC): programmed, read and erased faster, and the block has as many pages fewer.
    Slc,
}
