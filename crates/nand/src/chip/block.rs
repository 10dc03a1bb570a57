use strobe_types::{CellMode, Stored};

use crate::BlockState;

/// A [`BlockState`] packed into 8 bytes, because every page read looks at one.
#[derive(Clone, Copy, Debug, Stored)]
pub(super) struct Block {
    pub(super) pages_programmed: u32,
    /// Erase count above three flag bits: bad, half erased, SLC mode.
    pub(super) history: u32,
}

impl Block {
    pub(super) const BAD: u32 = 1;
    pub(super) const HALF_ERASED: u32 = 2;
    pub(super) const SLC: u32 = 4;
    const FLAGS: u32 = 3;

    #[inline(always)]
    pub(super) fn mode(self) -> CellMode {
        if self.history & Self::SLC == 0 { CellMode::Normal } else { CellMode::Slc }
    }

    pub(super) fn state(self) -> BlockState {
        BlockState {
            erase_count: self.history >> Self::FLAGS,
            pages_programmed: self.pages_programmed,
            bad: self.history & Self::BAD != 0,
            half_erased: self.history & Self::HALF_ERASED != 0,
            mode: self.mode(),
        }
    }
}

impl From<BlockState> for Block {
    fn from(state: BlockState) -> Self {
        let flags = u32::from(state.bad) * Self::BAD
            + u32::from(state.half_erased) * Self::HALF_ERASED
            + u32::from(state.mode == CellMode::Slc) * Self::SLC;
        Self {
            pages_programmed: state.pages_programmed,
            history: state.erase_count.min(u32::MAX >> Self::FLAGS) << Self::FLAGS | flags,
        }
    }
}
