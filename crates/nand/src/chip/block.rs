//! What is known of a block.

use crate::BlockState;

/// A [`BlockState`] in 8 bytes: every read of a page looks at one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) pages_programmed: u32,
    /// Erases above two bits: is it bad, is it half erased?
    pub(super) history: u32,
}

impl Block {
    pub(super) const BAD: u32 = 1;
    pub(super) const HALF_ERASED: u32 = 2;

    pub(super) fn state(self) -> BlockState {
        BlockState {
            erase_count: self.history >> 2,
            pages_programmed: self.pages_programmed,
            bad: self.history & Self::BAD != 0,
            half_erased: self.history & Self::HALF_ERASED != 0,
        }
    }
}

impl From<BlockState> for Block {
    fn from(state: BlockState) -> Self {
        let flags = u32::from(state.bad) * Self::BAD + u32::from(state.half_erased) * Self::HALF_ERASED;
        Self {
            pages_programmed: state.pages_programmed,
            history: state.erase_count.min(u32::MAX >> 2) << 2 | flags,
        }
    }
}
