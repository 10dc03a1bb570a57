//! The demand-paged page map: DFTL.
//!
//! Gupta, Kim & Urgaonkar, "DFTL: a flash translation layer employing demand-based selective caching of
//! page-level address mappings" (ASPLOS 2009). The map is stored on flash in *translation pages*. Memory
//! holds recently used entries (the CMT, `cmt.rs`) and the address of each translation page (the GTD).
//!
//! Here, each translation page fills one flash page. Its units have logical numbers above the host's units.
//! The map entries of these units are the GTD. Garbage collection moves translation pages like other data.
//!
//! The simulator keeps the whole map in memory and tracks the entries that the drive would cache. It models
//! the flash operations of translation pages, but not their bytes, which read as zeros.

use strobe_nand::Unit;
use strobe_types::{BlockId, Divisor, Geometry, Lpn, State};

use crate::journal::Trims;
use crate::map::page::map::cmt::Cmt;
use crate::map::page::map::lists::OwnerLists;

/// Cache settings of a demand-paged map (DFTL, ASPLOS 2009, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslationConfig {
    /// Number of cached map entries, at about 8 bytes of drive memory each. The minimum is one per unit of a flash
    /// page; with logical copy, two per unit plus one. `u32::MAX` loads all entries at power-on.
    pub cached_entries: u32,
    /// Maximum size of the protected LRU segment, in entries. The rest of the cache always has space for the
    /// entries that one page write changes. `None`: half of the cache. 0: plain LRU.
    pub protected_entries: Option<u32>,
    /// Size of an entry in a translation page, in bytes.
    pub entry_bytes: u32,
    /// True if programming a translation page also writes its other dirty entries ("batch update", section 3.4).
    pub batched_eviction: bool,
}

impl TranslationConfig {
    /// The paper's settings for a cache of `cached_entries`.
    pub const fn new(cached_entries: u32) -> Self {
        Self { cached_entries, protected_entries: None, entry_bytes: 4, batched_eviction: true }
    }

    /// A map held entirely in memory from power-on, with a copy on flash. Translation pages are never read.
    pub const fn loaded() -> Self {
        Self::new(u32::MAX)
    }

    /// True if all entries are loaded at power-on. Otherwise each entry is fetched on first use, even if all
    /// fit.
    pub const fn is_loaded(&self) -> bool {
        self.cached_entries == u32::MAX
    }

    /// True if the cache can hold all entries of `logical_units`.
    pub const fn is_resident(&self, logical_units: u32) -> bool {
        self.cached_entries >= logical_units
    }

    /// Map entries in a translation page on `geometry`.
    pub fn entries_per_page(&self, geometry: &Geometry) -> u32 {
        (geometry.page_bytes() / self.entry_bytes.max(1)).max(1)
    }

    /// Translation pages of a drive with `logical_units`.
    pub fn pages(&self, geometry: &Geometry, logical_units: u32) -> u32 {
        logical_units.div_ceil(self.entries_per_page(geometry))
    }

    /// Sizes of the cache and of its protected segment, in entries. The rest of the cache holds all entries
    /// that one page write changes, as these must not be evicted before the page is programmed.
    fn sizes(&self, geometry: &Geometry, logical_units: u32, shares: bool) -> (u32, u32) {
        // With logical copy, a write or copy may also change the entry of each unit's other owner.
        let together = geometry.units_per_page() * if shares { 2 } else { 1 } + u32::from(shares);
        let cached = self.cached_entries.max(together).min(logical_units.max(together));
        let protected = self.protected_entries.unwrap_or(cached / 2).min(cached - together);
        (cached, protected)
    }

    pub(crate) fn memory_bytes(&self, geometry: &Geometry, logical_units: u32, shares: bool) -> u64 {
        let pages = self.pages(geometry, logical_units);
        let (cached, _) = self.sizes(geometry, logical_units, shares);
        let units = u64::from(pages) * u64::from(geometry.units_per_page());
        Cmt::bytes(logical_units, pages, cached) + 4 * units + u64::from(pages) + u64::from(geometry.blocks())
    }
}

#[derive(Clone, Debug, State)]
pub(crate) struct Translation {
    #[state(skip)]
    pub(crate) logical_units: u32,
    #[state(skip)]
    pub(crate) pages: u32,
    #[state(skip)]
    entries_per_page: Divisor,
    #[state(skip)]
    pub(crate) units_per_page: u32,
    #[state(skip)]
    pub(crate) is_batched: bool,
    #[state(skip)]
    is_resident: bool,
    #[state(skip)]
    pub(crate) is_loaded: bool,
    /// True if a host stream has opened a block in this call, so dirty translation pages must be written
    /// back. Always false between calls.
    #[state(skip)]
    has_exchanged: bool,
    pub(crate) cmt: Cmt,
    /// Translation pages with outdated addresses of moved units, to be programmed before the next erase.
    moved: Vec<u32>,
    /// Further translation pages of this kind, which the present round of background updates programs.
    due: Vec<u32>,
    pub(crate) lists: OwnerLists,
    pub(crate) blocks: Vec<BlockId>,
    #[state(table)]
    pub(crate) is_moved: Vec<bool>,
    /// True for translation pages in `moved` or `due`: an eviction may have programmed them since.
    #[state(table)]
    is_queued: Vec<bool>,
    /// True for translation pages that a power cut left older than the units they map.
    #[state(table)]
    pub(crate) is_stale: Vec<bool>,
    #[state(part)]
    pub(crate) trims: Option<Trims>,
}

impl Translation {
    pub(crate) fn new(
        logical_units: u32,
        how: &TranslationConfig,
        geometry: &Geometry,
        shares: bool,
        trims: Option<Trims>,
    ) -> Self {
        let pages = how.pages(geometry, logical_units);
        let (cached, protected) = how.sizes(geometry, logical_units, shares);
        let mut cmt = Cmt::new(logical_units, pages, cached, protected);
        if how.is_loaded() {
            (0..logical_units).for_each(|lpn| cmt.insert(Lpn::new(lpn)));
        }
        Self {
            logical_units,
            pages,
            entries_per_page: Divisor::new(how.entries_per_page(geometry)),
            units_per_page: geometry.units_per_page(),
            is_batched: how.batched_eviction,
            is_resident: how.is_resident(logical_units),
            is_loaded: how.is_loaded(),
            has_exchanged: false,
            cmt,
            trims,
            moved: Vec::new(),
            due: Vec::new(),
            lists: OwnerLists::default(),
            is_moved: vec![false; pages as usize],
            is_queued: vec![false; pages as usize],
            is_stale: vec![false; pages as usize],
            blocks: Vec::new(),
        }
    }

    /// Notes that a host stream has opened a block. A durable map that fits in the cache is then written
    /// back.
    pub(crate) fn record_exchange(&mut self) {
        self.has_exchanged = self.is_resident && self.trims.is_some();
    }

    #[inline]
    pub(crate) fn take_exchange(&mut self) -> bool {
        std::mem::take(&mut self.has_exchanged)
    }

    #[inline]
    pub(crate) fn is_translation(&self, lpn: Lpn) -> bool {
        lpn.get() >= self.logical_units
    }

    #[inline]
    pub(crate) fn page_of(&self, lpn: Lpn) -> u32 {
        self.entries_per_page.quotient(lpn.get())
    }

    pub(crate) fn entries(&self, page: u32) -> impl Iterator<Item = Lpn> + use<> {
        let first = page * self.entries_per_page.get();
        (first..self.logical_units.min(first + self.entries_per_page.get())).map(Lpn::new)
    }

    pub(crate) fn is_page_cached(&self, page: u32) -> bool {
        self.entries(page).all(|lpn| self.cmt.contains(lpn))
    }

    pub(crate) fn first_unit(&self, page: u32) -> Lpn {
        Lpn::new(self.logical_units + page * self.units_per_page)
    }

    pub(crate) fn written<P>(&mut self, units: &[Unit<P>]) {
        for unit in units {
            let is_cached = self.cmt.soil(unit.lpn, self.page_of(unit.lpn));
            debug_assert!(is_cached, "the entry of {:?} was evicted before its write", unit.lpn);
        }
        if let Some(trims) = &mut self.trims {
            units.iter().for_each(|unit| trims.written(unit.lpn));
        }
    }

    pub(crate) fn trimmed(&mut self, lpn: Lpn) {
        self.cmt.soil(lpn, self.page_of(lpn));
        if let Some(trims) = &mut self.trims {
            trims.trimmed(lpn);
        }
    }

    pub(crate) fn shared(&mut self, lpn: Lpn) {
        let is_cached = self.cmt.soil(lpn, self.page_of(lpn));
        debug_assert!(is_cached, "the entry of {lpn:?} was evicted before it was shared");
        if let Some(trims) = &mut self.trims {
            trims.written(lpn);
        }
    }

    pub(crate) fn moved(&mut self, lpn: Lpn) {
        let page = self.page_of(lpn);
        // A cached entry becomes dirty. The page of an uncached entry must be updated before the victim's
        // erase.
        if self.is_translation(lpn) || self.cmt.soil(lpn, page) {
            return;
        }
        self.is_moved[page as usize] = true;
        if !std::mem::replace(&mut self.is_queued[page as usize], true) {
            self.moved.push(page);
        }
    }

    /// Number of translation pages to program before the next erase.
    pub(crate) fn updates_left(&self) -> usize {
        self.moved.len() + self.due.len()
    }

    /// Begins a round of updates with all translation pages that are outdated now.
    pub(crate) fn begin_round(&mut self) {
        self.due.append(&mut self.moved);
    }

    /// Translation page to program next in the present round, or at all.
    pub(crate) fn next_update(&mut self, in_round: bool) -> Option<u32> {
        let page = self.due.pop().or_else(|| if in_round { None } else { self.moved.pop() })?;
        self.is_queued[page as usize] = false;
        Some(page)
    }

    /// Notes that the program of `page` failed.
    pub(crate) fn put_update_back(&mut self, page: u32) {
        self.is_queued[page as usize] = true;
        self.moved.push(page);
    }

    /// True if translation page `page` is already due to be programmed again.
    pub(crate) fn is_outdated(&self, page: u32) -> bool {
        self.is_moved[page as usize] || self.is_stale[page as usize]
    }

    /// Notes that `lpn` is the only owner of its unit again: its map entry holds the flash address instead of
    /// a virtual number. The entry is cached, except at end of life.
    pub(crate) fn left_alone(&mut self, lpn: Lpn) {
        self.cmt.soil(lpn, self.page_of(lpn));
    }

    pub(crate) fn left(&mut self, block: BlockId) {
        self.blocks.retain(|&one| one != block);
    }
}
