use strobe_types::{Lpn, PackedPpa, Ppa, State, Table, nonzero, prefetch_write};

use crate::map::page::map::sharing::Sharing;

/// Map entries by logical unit. With demand paging, the units of translation pages follow the host's units.
#[derive(Clone, Debug, State)]
pub(crate) struct Entries {
    /// Number of mapped host units.
    pub(crate) mapped: u32,
    #[state(table)]
    entries: Table<PackedPpa>,
    /// Virtual map of logical copy. If present, a map entry can hold a virtual number.
    #[state(part)]
    pub(crate) sharing: Option<Sharing>,
}

impl Entries {
    pub(crate) fn mapped_from(&self, first: u32) -> u32 {
        self.lpns().skip(first as usize).filter(|&lpn| self.get(lpn).is_some()).count() as u32
    }

    pub(crate) fn other_owner(&self, lpn: Lpn) -> Option<Lpn> {
        self.sharing.as_ref()?.other_owner(lpn, self.get(lpn)?)
    }

    pub(crate) fn new(count: u32, sharing: Option<Sharing>) -> Self {
        Self { entries: Table::new(count as usize), mapped: 0, sharing }
    }

    pub(crate) fn count(&self) -> u32 {
        self.entries.len() as u32
    }

    pub(crate) fn lpns(&self) -> impl Iterator<Item = Lpn> + use<> {
        (0..self.count()).map(Lpn::new)
    }

    /// Map entry of `lpn`: a flash address, or a virtual number above all addresses.
    #[inline(always)]
    pub(crate) fn get(&self, lpn: Lpn) -> Option<Ppa> {
        self.entries[lpn.index()].get()
    }

    /// [`Entries::get`] for a unit that may be out of range.
    #[inline]
    pub(crate) fn find(&self, lpn: Lpn) -> Option<Ppa> {
        self.entries.get(lpn.index())?.get()
    }

    /// Returns the old entry.
    #[inline(always)]
    pub(crate) fn set(&mut self, lpn: Lpn, place: Ppa) -> Option<Ppa> {
        std::mem::replace(&mut self.entries[lpn.index()], PackedPpa::some(place)).get()
    }

    /// Sets the entry to `to`. True if the entry was `from`.
    #[inline(always)]
    pub(crate) fn moved(&mut self, lpn: Lpn, from: Ppa, to: Ppa) -> bool {
        let held = std::mem::replace(&mut self.entries[lpn.index()], PackedPpa::some(to));
        held == PackedPpa::some(from)
    }

    /// Clears the entry and returns the old one.
    pub(crate) fn unset(&mut self, lpn: Lpn) -> Option<Ppa> {
        // An empty entry is not written: mkfs discards the whole drive, and each written part of the table
        // takes host memory.
        let entry = &mut self.entries[lpn.index()];
        let held = entry.get();
        if held.is_some() {
            *entry = PackedPpa::NONE;
        }
        held
    }

    pub(crate) fn first_mapped(&self, first: Lpn, end: Lpn) -> Option<Lpn> {
        nonzero(&self.entries[first.index()..end.index()]).next().map(|(at, _)| first.plus(at as u32))
    }

    pub(crate) fn mapped_units(&self) -> impl Iterator<Item = Lpn> {
        nonzero(&self.entries).map(|(at, _)| Lpn::new(at as u32))
    }

    #[inline]
    pub(crate) fn locate(&self, lpn: Lpn) -> Option<Ppa> {
        let entry = self.get(lpn)?;
        match &self.sharing {
            None => Some(entry),
            Some(sharing) => Some(sharing.vpn(entry).map_or(entry, |vpn| sharing.ppa(vpn))),
        }
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self, lpn: Lpn) {
        prefetch_write(&self.entries, lpn.index());
    }

    /// Map entry as a word of the tables on flash: the entry plus one, 0 if unmapped.
    pub(crate) fn word(&self, lpn: Lpn) -> u32 {
        self.get(lpn).map_or(0, |place| place.get() + 1)
    }

    /// Word `at` of the checkpoint tables: the map, then the virtual map.
    pub(crate) fn table_word(&self, at: u64) -> u32 {
        match at.checked_sub(self.entries.len() as u64) {
            None => self.word(Lpn::new(at as u32)),
            Some(at) => self.sharing.as_ref().map_or(0, |sharing| sharing.word(at)),
        }
    }
}
