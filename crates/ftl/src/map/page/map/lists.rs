//! Owners' lists on flash (P2L): the logical units of each block, as firmware keeps them that cannot afford to read the
//! out-of-band area of every page.
//!
//! 1. A block that has been filled gets a list.
//! 2. A logical copy changes the owners of units on flash, and so does the write or trim that ends the sharing: the lists
//!    of their blocks are programmed again.
//! 3. Lists that are due are programmed with the map, a page for each block; the list before is garbage then.

use strobe_types::{BlockId, State, StateError, StateReader, StateWriter, Stored};

/// Blocks whose list on flash is out of date.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnerLists {
    /// By block, whether it is in `due`; empty on a drive without lists.
    is_due: Vec<bool>,
    due: Vec<BlockId>,
}

impl OwnerLists {
    /// Lists of so many blocks, none of which is due.
    pub(crate) fn of(blocks: u32) -> Self {
        Self { is_due: vec![false; blocks as usize], due: Vec::new() }
    }

    /// Notes that the list of `block` has changed.
    #[inline]
    pub(crate) fn changed(&mut self, block: BlockId) {
        if let Some(is_due) = self.is_due.get_mut(block.index())
            && !std::mem::replace(is_due, true)
        {
            self.due.push(block);
        }
    }

    /// Takes the blocks whose lists are due, in the order of the first changes.
    pub(crate) fn take_due(&mut self) -> Vec<BlockId> {
        for block in &self.due {
            self.is_due[block.index()] = false;
        }
        std::mem::take(&mut self.due)
    }
}

/// A drive without lists writes nothing.
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
