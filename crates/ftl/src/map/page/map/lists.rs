//! Owner lists on flash (P2L): the logical units of each block. Firmware keeps owner lists if reading every
//! out-of-band area is too expensive.
//!
//! 1. The list of a block becomes due when the block is full.
//! 2. A logical copy, and the write or trim that ends the sharing, change the owners of a unit. The list of
//!    its block becomes due again.
//! 3. Due lists are programmed with the map, one page per block (`paging.rs`). The previous list of the block
//!    becomes garbage.

use strobe_types::{BlockId, State, StateError, StateReader, StateWriter, Stored};

#[derive(Clone, Debug, Default)]
pub(crate) struct OwnerLists {
    /// True for blocks in `due`; empty on a drive without lists.
    is_due: Vec<bool>,
    due: Vec<BlockId>,
}

impl OwnerLists {
    pub(crate) fn of(blocks: u32) -> Self {
        Self { is_due: vec![false; blocks as usize], due: Vec::new() }
    }

    #[inline]
    pub(crate) fn changed(&mut self, block: BlockId) {
        if let Some(is_due) = self.is_due.get_mut(block.index())
            && !std::mem::replace(is_due, true)
        {
            self.due.push(block);
        }
    }

    pub(crate) fn take_due(&mut self) -> Vec<BlockId> {
        for block in &self.due {
            self.is_due[block.index()] = false;
        }
        std::mem::take(&mut self.due)
    }
}

/// A drive without lists saves nothing.
impl State for OwnerLists {
    fn save_state(&self, out: &mut StateWriter<'_>) {
        if !self.is_due.is_empty() {
            self.due.store(out);
        }
    }

    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        if !self.is_due.is_empty() {
            self.take_due();
            for block in Vec::<BlockId>::restored(from)? {
                self.changed(block);
            }
        }
        Ok(())
    }
}
