//! Log of trimmed units on flash, for schemes that recover all other state from the out-of-band areas.
//!
//! A page says which unit it holds, and its sequence number which of several versions is the newest. But no page
//! says that its unit has been trimmed since. So trims go into a log, one bit for each unit. A set bit hides the
//! pages that are older than the epoch it belongs to, not those written later.
//!
//! With logical copy no page says, either, who shares a unit on it, and who of the two has it when the other has left: it need
//! not have that one's name, and if it has, there may be a newer page with it, from before the copy. So the same log has the
//! virtual map, and the places of such *foreign* units.

use strobe_nand::{Nand, When};
use strobe_types::{Geometry, Lpn, State};

use super::format::{Clock, Record, WORDS_PER_ENTRY};
use super::{Journal, Log, LogDemand, LogWornOut, Tables, region_for};
use crate::{Recovery, RecoveryError};

/// Bits of a word: a record's entry and its count must not overflow together.
const BITS: u32 = 31;

/// State of logical copies, as words of the log.
#[derive(Clone, Copy)]
pub(crate) struct SharedWords<'a> {
    /// The words of an entry of the virtual map.
    pub(crate) entry: &'a dyn Fn(u32) -> [u32; WORDS_PER_ENTRY as usize],
    /// The map entry of a logical unit, plus one; 0 without.
    pub(crate) place: &'a dyn Fn(u32) -> u32,
}

impl SharedWords<'_> {
    /// Of a drive that does not know such copies.
    pub(crate) const NONE: Self = Self { entry: &|_| [0; _], place: &|_| 0 };
}

/// Parameters of the size of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrimsDemand {
    pub(crate) logical_units: u32,
    /// 0 without logical copy.
    pub(crate) virtual_map_entries: u32,
    /// Blocks that may fail.
    pub(crate) fault_reserve: u32,
}

impl TrimsDemand {
    /// Words of the bits.
    fn words(&self) -> u32 {
        self.logical_units.div_ceil(BITS)
    }

    /// Units that can be foreign.
    fn named(&self) -> u32 {
        if self.virtual_map_entries > 0 { self.logical_units } else { 0 }
    }

    fn log(&self, geometry: &Geometry) -> LogDemand {
        let shared = u64::from(self.virtual_map_entries) * WORDS_PER_ENTRY;
        let words = u64::from(self.words()) + u64::from(self.named()) + shared;
        // Of each unit of a page that the host writes several things may change before an epoch ends.
        let open_blocks = if self.named() > 0 { 4 * geometry.units_per_page() } else { 0 };
        LogDemand { words, open_blocks, fault_reserve: self.fault_reserve }
    }

    /// Good blocks that the log takes.
    pub(crate) fn blocks(&self, geometry: &Geometry) -> u32 {
        self.log(geometry).blocks(geometry)
    }

    /// Host memory, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let bits = u64::from(self.virtual_map_entries) + 2 * u64::from(self.named());
        u64::from(self.words()) * 4 + bits.div_ceil(8)
    }
}

/// Logical units that were trimmed and not written since.
#[derive(Clone, Debug, State)]
pub(crate) struct Trims {
    pub(crate) journal: Box<Journal>,
    /// True if trims, or units newly shared or moved, are in no epoch yet.
    pending: bool,
    #[state(table)]
    words: Vec<u32>,
    /// One bit for each unit: whether it is foreign. Only with logical copy.
    #[state(table)]
    foreign: Vec<u64>,
}

/// Trims recovered from the log.
pub(crate) struct TrimsFound {
    pub(crate) trims: Trims,
    /// The places of foreign units, plus one; 0 for others.
    pub(crate) foreign: Vec<u32>,
    /// The words of the virtual map.
    pub(crate) shared: Vec<u32>,
    /// As of the newest epoch.
    pub(crate) clock: Clock,
}

impl TrimsFound {
    /// True if the page of `lpn` with this sequence number was trimmed after it was written.
    pub(crate) fn has_trimmed(&self, lpn: Lpn, sequence: u64) -> bool {
        sequence < self.clock.sequence && self.trims.has(lpn)
    }
}

impl Trims {
    /// None trimmed and none shared, on fresh flash.
    pub(crate) fn new<N: Nand>(nand: &N, demand: TrimsDemand) -> Self {
        let geometry = nand.geometry();
        let region = region_for(geometry, demand.blocks(geometry), |block| nand.block(block).bad);
        Self::on(geometry, Log::new(geometry, region), demand)
    }

    fn on(geometry: &Geometry, log: Log, demand: TrimsDemand) -> Self {
        let words = demand.words();
        let tables = [words + demand.named(), demand.virtual_map_entries];
        let journal = Box::new(Journal::new(geometry, demand.log(geometry), log, tables));
        let foreign = vec![0; demand.named().div_ceil(64) as usize];
        Self { words: vec![0; words as usize], foreign, journal, pending: false }
    }

    /// Recovers the log from `nand` after a power cut.
    pub(crate) fn find<N: Nand>(
        nand: &mut N,
        demand: TrimsDemand,
        report: &mut Recovery,
    ) -> Result<TrimsFound, RecoveryError> {
        let geometry = nand.geometry().clone();
        let (log, pages, illegible) = Log::find(nand, demand.blocks(&geometry), report)?;
        let mut trims = Self::on(&geometry, log, demand);
        let mut found = Tables::of(&pages, &trims.journal, report)?;
        trims.journal.resume(&pages, illegible);
        let shared = found.words.split_off(found.map_words as usize);
        let foreign = found.words.split_off(trims.words.len());
        trims.words = found.words;
        for (lpn, _) in (0..).zip(&foreign).filter(|&(_, &place)| place != 0) {
            trims.mark_foreign(Lpn::new(lpn), true);
        }
        Ok(TrimsFound { trims, foreign, shared, clock: found.clock })
    }

    pub(crate) fn has(&self, lpn: Lpn) -> bool {
        self.words[(lpn.get() / BITS) as usize] & 1 << (lpn.get() % BITS) != 0
    }

    /// `lpn` holds nothing any more.
    pub(crate) fn trimmed(&mut self, lpn: Lpn) {
        if self.change(lpn, true) {
            self.pending = true;
        }
    }

    /// `lpn` has been written. Its page says so by itself.
    #[inline]
    pub(crate) fn written(&mut self, lpn: Lpn) {
        self.change(lpn, false);
    }

    /// `lpn` lies elsewhere: where its newest page is, or not (`is_foreign`).
    #[inline]
    pub(crate) fn name_changed(&mut self, lpn: Lpn, is_foreign: bool) {
        if self.mark_foreign(lpn, is_foreign) || is_foreign {
            self.journal.unit_changed(self.words.len() as u32 + lpn.get());
        }
    }

    /// True if `lpn` may be elsewhere than in its newest page; `None` without logical copy.
    pub(crate) fn is_foreign(&self, lpn: Lpn) -> Option<bool> {
        self.foreign.get(lpn.index() / 64).map(|word| word & 1 << (lpn.index() % 64) != 0)
    }

    /// Returns whether that is new.
    fn mark_foreign(&mut self, lpn: Lpn, is_foreign: bool) -> bool {
        // Without logical copy, and of translation pages, nothing is foreign.
        let Some(word) = self.foreign.get_mut(lpn.index() / 64) else { return false };
        let bit = 1 << (lpn.index() % 64);
        let is_new = (*word & bit != 0) != is_foreign;
        if is_new {
            *word ^= bit;
        }
        is_new
    }

    /// Entry `vpn` of the virtual map has changed, in a way that pages on flash tell of.
    pub(crate) fn entry_changed(&mut self, vpn: u32) {
        self.journal.entry_changed(vpn);
    }

    /// Notes that changes must be in the log before the versions that they made invalid are erased.
    pub(crate) fn mark_pending(&mut self) {
        self.pending = true;
    }

    fn change(&mut self, lpn: Lpn, to: bool) -> bool {
        let (at, bit) = (lpn.get() / BITS, 1 << (lpn.get() % BITS));
        let word = &mut self.words[at as usize];
        let changes = (*word & bit != 0) != to;
        if changes {
            *word ^= bit;
            self.journal.unit_changed(at);
        }
        changes
    }

    /// Makes the trims so far, and what is `shared`, survive a power cut; returns when they do.
    /// Nothing that a trim has made invalid may be erased before: older versions could come back.
    pub(crate) fn commit<N: Nand>(
        &mut self,
        nand: &mut N,
        now: When,
        sequence: u64,
        host_units: u64,
        shared: SharedWords<'_>,
    ) -> Result<When, LogWornOut> {
        // Also bits that writes have cleared take room in the next epoch.
        if !self.pending && !self.journal.is_full() {
            let settled = self.journal.settled_at(nand);
            return Ok(nand.both(now, settled));
        }
        self.pending = false;
        let (changed, entries) = self.journal.take_changes();
        let (words, foreign) = (&self.words, &self.foreign);
        let named = |lpn: u32| match foreign[lpn as usize / 64] & 1 << (lpn % 64) {
            0 => 0,
            _ => (shared.place)(lpn),
        };
        let map_words = self.journal.map_words();
        let word = |at: u64| match at.checked_sub(map_words) {
            Some(at) => (shared.entry)((at / WORDS_PER_ENTRY) as u32)[(at % WORDS_PER_ENTRY) as usize],
            None => words.get(at as usize).copied().unwrap_or_else(|| named(at as u32 - words.len() as u32)),
        };
        let changes = |&at: &u32| Record::Map { lpn: at, entry: word(at.into()), count: 1 };
        let shares = |&vpn: &u32| {
            let [place, a, b] = (shared.entry)(vpn);
            Record::Shared { vpn, entry: place, owners: [a, b] }
        };
        let records = changed.iter().map(changes).chain(entries.iter().map(shares)).collect();
        let clock = Clock { tick: 1, sequence, host_units };
        self.journal.end_epoch(nand, now, records, clock, &word)
    }
}
