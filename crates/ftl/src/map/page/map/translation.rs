//! The demand-paged page map: DFTL.
//!
//! Gupta, Kim & Urgaonkar, "DFTL: a flash translation layer employing demand-based selective caching of
//! page-level address mappings" (ASPLOS 2009). The map lies on flash in *translation pages*; memory
//! holds the entries used lately (the CMT, `cmt.rs`) and where each translation page is (the GTD). Here
//! translation pages are logical units beyond those of the host, a whole flash page each, so that the GTD
//! is their part of the map, and garbage collection moves them like all else.
//!
//! The simulator keeps the whole map in memory as it is, and exactly which entries the drive would have
//! there (`paging.rs` acts on it): what is modelled is flash operations, not the bytes of translation pages, which read as zeros.

use strobe_nand::Unit;
use strobe_types::{BlockId, Divisor, Geometry, Lpn, State};

use crate::journal::Trims;
use crate::map::page::map::cmt::Cmt;
use crate::map::page::map::lists::OwnerLists;

/// Part of the map that a demand-paged drive has in memory (DFTL, ASPLOS 2009, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslationConfig {
    /// Map entries cached. At least one for each unit of a flash page is taken, with logical copy two and one more,
    /// whatever this says.
    /// Memory of the drive: about 8 bytes each.
    pub cached_entries: u32,
    /// Of these, how many the protected segment of the LRU list may hold; those of one page write and
    /// what comes with them stay outside it. `None`: half. 0: plain LRU.
    pub protected_entries: Option<u32>,
    /// Bytes of an entry in a translation page.
    pub entry_bytes: u32,
    /// True if programming a translation page also writes its other dirty entries, not only the one that
    /// caused it ("batch update", section 3.4).
    pub batched_eviction: bool,
}

impl TranslationConfig {
    /// The paper's choices for a cache of `cached_entries`.
    pub const fn new(cached_entries: u32) -> Self {
        Self { cached_entries, protected_entries: None, entry_bytes: 4, batched_eviction: true }
    }

    /// True if all entries of `logical_units` are cached. They are loaded with power on, so that no translation page is
    /// read afterwards.
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

    /// Entries cached, and of these protected at most. Entries of the page that is being
    /// written are used last, so that they cannot be evicted before: if enough are not protected.
    fn sizes(&self, geometry: &Geometry, logical_units: u32, shares: bool) -> (u32, u32) {
        // A write, or a copy, may change those of other owners, too.
        let together = geometry.units_per_page() * if shares { 2 } else { 1 } + u32::from(shares);
        let cached = self.cached_entries.max(together).min(logical_units.max(together));
        let protected = self.protected_entries.unwrap_or(cached / 2).min(cached - together);
        (cached, protected)
    }

    /// Bytes of host memory.
    pub(crate) fn memory_bytes(&self, geometry: &Geometry, logical_units: u32, shares: bool) -> u64 {
        let pages = self.pages(geometry, logical_units);
        let (cached, _) = self.sizes(geometry, logical_units, shares);
        let units = u64::from(pages) * u64::from(geometry.units_per_page());
        Cmt::bytes(logical_units, pages, cached) + 4 * units + u64::from(pages) + u64::from(geometry.blocks())
    }
}

/// State that a demand-paged drive keeps in memory.
#[derive(Clone, Debug, State)]
pub(crate) struct Translation {
    #[state(skip)]
    pub(crate) logical_units: u32,
    /// Translation pages.
    #[state(skip)]
    pub(crate) pages: u32,
    #[state(skip)]
    entries_per_page: Divisor,
    #[state(skip)]
    pub(crate) units_per_page: u32,
    #[state(skip)]
    pub(crate) is_batched: bool,
    /// True if all entries are cached.
    #[state(skip)]
    pub(crate) is_resident: bool,
    /// True if the host has opened a block since translation pages were last written back for that reason. False between
    /// two calls.
    #[state(skip)]
    has_exchanged: bool,
    pub(crate) cmt: Cmt,
    /// Translation pages that do not know yet where units that were moved lie; before anything is erased
    /// they must.
    pub(crate) moved: Vec<u32>,
    /// Owners' lists on flash.
    pub(crate) lists: OwnerLists,
    /// Blocks that hold, or will hold, translation pages.
    pub(crate) blocks: Vec<BlockId>,
    /// True for translation pages in `moved`.
    #[state(table)]
    pub(crate) is_moved: Vec<bool>,
    /// By translation page: whether a power cut has left it older than what it tells about.
    #[state(table)]
    pub(crate) is_stale: Vec<bool>,
    /// Only on a drive that survives a power cut.
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
        let is_resident = how.is_resident(logical_units);
        let mut cmt = Cmt::new(logical_units, pages, cached, protected);
        if is_resident {
            (0..logical_units).for_each(|lpn| cmt.insert(Lpn::new(lpn)));
        }
        Self {
            logical_units,
            pages,
            entries_per_page: Divisor::new(how.entries_per_page(geometry)),
            units_per_page: geometry.units_per_page(),
            is_batched: how.batched_eviction,
            is_resident,
            has_exchanged: false,
            cmt,
            trims,
            moved: Vec::new(),
            lists: OwnerLists::default(),
            is_moved: vec![false; pages as usize],
            is_stale: vec![false; pages as usize],
            blocks: Vec::new(),
        }
    }

    /// Notes that the host has opened a block: a durable map that is all in memory is written back then.
    pub(crate) fn note_exchange(&mut self) {
        self.has_exchanged = self.is_resident && self.trims.is_some();
    }

    /// True if the host has opened a block since the last call, and translation pages are to be written back for it.
    #[inline]
    pub(crate) fn take_exchange(&mut self) -> bool {
        std::mem::take(&mut self.has_exchanged)
    }

    /// True if `lpn` is part of a translation page.
    #[inline]
    pub(crate) fn is_translation(&self, lpn: Lpn) -> bool {
        lpn.get() >= self.logical_units
    }

    /// The translation page with the entry of `lpn`.
    #[inline]
    pub(crate) fn page_of(&self, lpn: Lpn) -> u32 {
        self.entries_per_page.quotient(lpn.get())
    }

    /// The logical units whose entries translation page `page` holds.
    pub(crate) fn entries(&self, page: u32) -> impl Iterator<Item = Lpn> + use<> {
        let first = page * self.entries_per_page.get();
        (first..self.logical_units.min(first + self.entries_per_page.get())).map(Lpn::new)
    }

    /// The first unit of translation page `page`.
    pub(crate) fn first_unit(&self, page: u32) -> Lpn {
        Lpn::new(self.logical_units + page * self.units_per_page)
    }

    /// The map entries of `units` have changed; they are cached.
    pub(crate) fn written<P>(&mut self, units: &[Unit<P>]) {
        for unit in units {
            let is_cached = self.cmt.soil(unit.lpn, self.page_of(unit.lpn));
            debug_assert!(is_cached, "the entry of {:?} was evicted before its write", unit.lpn);
        }
        if let Some(trims) = &mut self.trims {
            units.iter().for_each(|unit| trims.written(unit.lpn));
        }
    }

    /// `lpn`, mapped until now, is trimmed.
    pub(crate) fn trimmed(&mut self, lpn: Lpn) {
        self.cmt.soil(lpn, self.page_of(lpn));
        if let Some(trims) = &mut self.trims {
            trims.trimmed(lpn);
        }
    }

    /// The map entry of `lpn`, which is cached, holds a virtual number now.
    pub(crate) fn shared(&mut self, lpn: Lpn) {
        let is_cached = self.cmt.soil(lpn, self.page_of(lpn));
        debug_assert!(is_cached, "the entry of {lpn:?} was evicted before it was shared");
        if let Some(trims) = &mut self.trims {
            trims.written(lpn);
        }
    }

    /// Garbage collection has moved the unit of `lpn`.
    pub(crate) fn moved(&mut self, lpn: Lpn) {
        let page = self.page_of(lpn);
        if self.is_translation(lpn) || self.cmt.soil(lpn, page) {
            return;
        }
        if !std::mem::replace(&mut self.is_moved[page as usize], true) {
            self.moved.push(page);
        }
    }

    /// True if translation page `page` will be programmed again in any case.
    pub(crate) fn is_outdated(&self, page: u32) -> bool {
        self.is_moved[page as usize] || self.is_stale[page as usize]
    }

    /// The map entry of `lpn`, which is cached but at the end of life, has an address again.
    pub(crate) fn left_alone(&mut self, lpn: Lpn) {
        self.cmt.soil(lpn, self.page_of(lpn));
    }

    /// `block` is not open or closed any more.
    pub(crate) fn left(&mut self, block: BlockId) {
        self.blocks.retain(|&one| one != block);
    }
}
