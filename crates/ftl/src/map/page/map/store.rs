//! Storage of the map.

use strobe_nand::{Nand, When};
use strobe_types::{BlockId, Lpn, State, StateError, StateReader, StateWriter};

use crate::journal::{Journal, Trims};
use crate::map::page::map::translation::Translation;

/// Storage of the map, in addition to the copy that the simulator works with.
#[derive(Clone, Debug)]
pub(crate) enum MapStore {
    /// In memory only: a power cut loses it.
    Memory,
    /// In memory, and every change in a journal on flash.
    Journaled(Box<Journal>),
    /// On flash, in translation pages; memory holds what has been used lately.
    Paged(Box<Translation>),
}

impl MapStore {
    pub(crate) fn is_paged(&self) -> bool {
        matches!(self, Self::Paged(_))
    }

    pub(crate) fn is_journaled(&self) -> bool {
        matches!(self, Self::Journaled(_))
    }

    /// The state of demand paging, of a drive that does it.
    pub(crate) fn paged(&self) -> Option<&Translation> {
        match self {
            Self::Paged(translation) => Some(translation),
            _ => None,
        }
    }

    /// State of demand paging, for code that only such drives run.
    #[inline]
    pub(crate) fn translation(&mut self) -> &mut Translation {
        match self {
            Self::Paged(translation) => translation,
            _ => unreachable!("FTL bug: the map is not paged"),
        }
    }

    /// The log of trims, of a demand-paged drive that survives a power cut.
    pub(crate) fn trims(&mut self) -> Option<&mut Trims> {
        match self {
            Self::Paged(translation) => translation.trims.as_mut(),
            _ => None,
        }
    }

    /// True if the log locates `lpn`; `None` if no log could.
    pub(crate) fn is_foreign(&self, lpn: Lpn) -> Option<bool> {
        self.paged()?.trims.as_ref()?.is_foreign(lpn)
    }

    /// The journal of the map or of trims, of a drive that survives a power cut.
    pub(crate) fn journal(&self) -> Option<&Journal> {
        match self {
            Self::Memory => None,
            Self::Journaled(journal) => Some(journal),
            Self::Paged(translation) => translation.trims.as_ref().map(|trims| &*trims.journal),
        }
    }

    /// The map entry of `lpn` has changed.
    #[inline]
    pub(crate) fn unit_changed(&mut self, lpn: Lpn) {
        if let Self::Journaled(journal) = self {
            journal.unit_changed(lpn.get());
        }
    }

    /// The map entry of `lpn` holds a virtual number now.
    pub(crate) fn unit_shared(&mut self, lpn: Lpn) {
        match self {
            Self::Memory => {}
            Self::Journaled(journal) => journal.unit_changed(lpn.get()),
            Self::Paged(translation) => translation.shared(lpn),
        }
    }

    /// The other owner of what `lpn` shared has left. Whatever name the unit has, a newer page may have that of `lpn`, from
    /// before it was shared.
    pub(crate) fn unit_left(&mut self, lpn: Lpn) {
        match self {
            Self::Memory => {}
            Self::Journaled(journal) => journal.unit_changed(lpn.get()),
            Self::Paged(translation) => translation.left_alone(lpn),
        }
        self.name_changed(lpn, true);
    }

    /// `lpn` lies elsewhere: where its newest page is, or not (`is_foreign`).
    #[inline]
    pub(crate) fn name_changed(&mut self, lpn: Lpn, is_foreign: bool) {
        self.trims().into_iter().for_each(|trims| trims.name_changed(lpn, is_foreign));
    }

    /// Entry `vpn` of the virtual map has lost an owner: pages on flash tell of it, or trims.
    pub(crate) fn entry_changed(&mut self, vpn: u32) {
        match self {
            Self::Memory => {}
            Self::Journaled(journal) => journal.entry_changed(vpn),
            Self::Paged(_) => self.trims().into_iter().for_each(|trims| trims.entry_changed(vpn)),
        }
    }

    /// Entry `vpn` of the virtual map is new, has a new owner, or its unit lies elsewhere: nothing else tells of it.
    pub(crate) fn entry_moved(&mut self, vpn: u32) {
        self.entry_changed(vpn);
        self.trims().into_iter().for_each(Trims::mark_pending);
    }

    /// The owners of units in `block` have changed, or it is full.
    #[inline]
    pub(crate) fn owners_changed(&mut self, block: BlockId) {
        if let Self::Paged(translation) = self {
            translation.lists.changed(block);
        }
    }

    /// `lpn`, mapped until now, is unmapped.
    pub(crate) fn unmapped(&mut self, lpn: Lpn) {
        match self {
            Self::Memory => {}
            Self::Journaled(journal) => journal.unit_changed(lpn.get()),
            Self::Paged(translation) => translation.trimmed(lpn),
        }
    }

    /// Data has been programmed that will be on flash at `done`.
    #[inline]
    pub(crate) fn data_programmed<N: Nand>(&mut self, nand: &mut N, done: When) {
        match self {
            Self::Journaled(journal) => journal.data_programmed(nand, done),
            _ => self.trims().into_iter().for_each(|trims| trims.journal.data_programmed(nand, done)),
        }
    }

    /// Other blocks are open or retiring than the last epoch says.
    pub(crate) fn blocks_changed(&mut self) {
        if let Self::Journaled(journal) = self {
            journal.blocks_changed();
        }
    }

    /// `block` has no data any more.
    pub(crate) fn block_left(&mut self, block: BlockId) {
        if let Self::Paged(translation) = self {
            translation.left(block);
        }
    }
}

impl State for MapStore {
    fn save_state(&self, out: &mut StateWriter<'_>) {
        match self {
            MapStore::Memory => {}
            MapStore::Journaled(journal) => journal.save_state(out),
            MapStore::Paged(translation) => translation.save_state(out),
        }
    }

    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        match self {
            MapStore::Memory => Ok(()),
            MapStore::Journaled(journal) => journal.load_state(from),
            MapStore::Paged(translation) => translation.load_state(from),
        }
    }
}
