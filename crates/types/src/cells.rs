//! How many bits the cells of a block hold.

/// What the cells of a block are used for. It is chosen for an erased block, before its first program, and ends with its
/// erase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CellMode {
    /// As many bits as they can hold: the block has all its pages.
    #[default]
    Normal,
    /// One bit each (pseudo-SLC): programmed, read and erased faster, and the block has as many pages fewer.
    Slc,
}

crate::stored! { enum CellMode { 0 Normal, 1 Slc } }
