use strobe_nand::{Nand, When};
use strobe_types::{BlockId, Lpn, State, StateError, StateReader, StateWriter};

use crate::journal::{Journal, Trims};
use crate::map::page::map::translation::Translation;

/// Storage of the drive's map. The simulator also keeps the whole map in memory (`entries.rs`).
#[derive(Clone, Debug)]
pub(crate) enum MapStore {
    /// In memory only; lost in a power cut.
    Memory,
    /// In memory, with a journal of every change on flash.
    Journaled(Box<Journal>),
    /// On flash, in translation pages; memory caches recently used entries.
    Paged(Box<Translation>),
}

impl MapStore {
    pub(crate) fn is_paged(&self) -> bool {
        matches!(self, Self::Paged(_))
    }

    pub(crate) fn is_journaled(&self) -> bool {
        matches!(self, Self::Journaled(_))
    }

    pub(crate) fn paged(&self) -> Option<&Translation> {
        match self {
            Self::Paged(translation) => Some(translation),
            _ => None,
        }
    }

    /// Panics on drives without demand paging.
    #[inline]
    pub(crate) fn translation(&mut self) -> &mut Translation {
        match self {
            Self::Paged(translation) => translation,
            _ => unreachable!("FTL bug: the map is not paged"),
        }
    }

    pub(crate) fn trims(&mut self) -> Option<&mut Trims> {
        match self {
            Self::Paged(translation) => translation.trims.as_mut(),
            _ => None,
        }
    }

    /// True if `lpn` is foreign ([`Trims`]); `None` without a log of foreign units.
    pub(crate) fn is_foreign(&self, lpn: Lpn) -> Option<bool> {
        self.paged()?.trims.as_ref()?.is_foreign(lpn)
    }

    pub(crate) fn journal(&self) -> Option<&Journal> {
        match self {
            Self::Memory => None,
            Self::Journaled(journal) => Some(journal),
            Self::Paged(translation) => translation.trims.as_ref().map(|trims| &*trims.journal),
        }
    }

    #[inline]
    pub(crate) fn unit_changed(&mut self, lpn: Lpn) {
        if let Self::Journaled(journal) = self {
            journal.unit_changed(lpn.get());
        }
    }

    pub(crate) fn unit_shared(&mut self, lpn: Lpn) {
        match self {
            Self::Memory => {}
            Self::Journaled(journal) => journal.unit_changed(lpn.get()),
            Self::Paged(translation) => translation.shared(lpn),
        }
    }

    /// Notes that `lpn` owns its unit alone, as the other owner has left. `lpn` becomes foreign, as the
    /// newest page that names it may be an older version.
    pub(crate) fn unit_left(&mut self, lpn: Lpn) {
        match self {
            Self::Memory => {}
            Self::Journaled(journal) => journal.unit_changed(lpn.get()),
            Self::Paged(translation) => translation.left_alone(lpn),
        }
        self.record_name(lpn, true);
    }

    /// Notes if the unit of `lpn` may lie elsewhere than in the newest page that names it.
    #[inline]
    pub(crate) fn record_name(&mut self, lpn: Lpn, is_foreign: bool) {
        self.trims().into_iter().for_each(|trims| trims.record_name(lpn, is_foreign));
    }

    /// Notes that virtual entry `vpn` has lost an owner. A newer page or a trim also records this.
    pub(crate) fn entry_changed(&mut self, vpn: u32) {
        match self {
            Self::Memory => {}
            Self::Journaled(journal) => journal.entry_changed(vpn),
            Self::Paged(_) => self.trims().into_iter().for_each(|trims| trims.entry_changed(vpn)),
        }
    }

    /// Notes a change of virtual entry `vpn` that only the log records: a new entry, or a moved unit.
    pub(crate) fn entry_moved(&mut self, vpn: u32) {
        self.entry_changed(vpn);
        self.trims().into_iter().for_each(Trims::mark_pending);
    }

    #[inline]
    pub(crate) fn owners_changed(&mut self, block: BlockId) {
        if let Self::Paged(translation) = self {
            translation.lists.changed(block);
        }
    }

    pub(crate) fn unmapped(&mut self, lpn: Lpn) {
        match self {
            Self::Memory => {}
            Self::Journaled(journal) => journal.unit_changed(lpn.get()),
            Self::Paged(translation) => translation.trimmed(lpn),
        }
    }

    #[inline]
    pub(crate) fn data_programmed<N: Nand>(&mut self, nand: &mut N, done: When) {
        match self {
            Self::Journaled(journal) => journal.data_programmed(nand, done),
            _ => self.trims().into_iter().for_each(|trims| trims.journal.data_programmed(nand, done)),
        }
    }

    pub(crate) fn blocks_changed(&mut self) {
        if let Self::Journaled(journal) = self {
            journal.blocks_changed();
        }
    }

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
