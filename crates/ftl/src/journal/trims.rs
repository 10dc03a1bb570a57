//! Log of trimmed units on flash, for schemes that recover all other state from out-of-band areas.
//!
//! A page names its logical unit, and sequence numbers decide between versions, but no page records a later
//! trim. The log therefore stores trims, one bit per unit. A set bit hides the unit's pages from before the
//! last epoch in the log.
//!
//! A logical copy programs no page that records the sharing. A logical unit is *foreign* if its flash unit
//! may differ from the newest page that names the logical unit. With logical copy, the log therefore also
//! holds the virtual map and the flash units of foreign logical units.

use strobe_nand::{Nand, When};
use strobe_types::{Geometry, Lpn, State};

use super::format::{Clock, Record, WORDS_PER_ENTRY};
use super::{Journal, Log, LogDemand, LogWornOut, Tables, region_for};
use crate::{Recovery, RecoveryError};

/// Bits used per word: a record's entry plus its count must not overflow.
const BITS: u32 = 31;

#[derive(Clone, Copy)]
pub(crate) struct SharedWords<'a> {
    pub(crate) entry: &'a dyn Fn(u32) -> [u32; WORDS_PER_ENTRY as usize],
    /// Map entry of a logical unit, plus one; 0 if unmapped.
    pub(crate) place: &'a dyn Fn(u32) -> u32,
}

impl SharedWords<'_> {
    pub(crate) const NONE: Self = Self { entry: &|_| [0; _], place: &|_| 0 };
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TrimsDemand {
    pub(crate) logical_units: u32,
    pub(crate) virtual_map_entries: u32,
    pub(crate) fault_reserve: u32,
}

impl TrimsDemand {
    fn words(&self) -> u32 {
        self.logical_units.div_ceil(BITS)
    }

    fn named(&self) -> u32 {
        if self.virtual_map_entries > 0 { self.logical_units } else { 0 }
    }

    fn log(&self, geometry: &Geometry) -> LogDemand {
        let shared = u64::from(self.virtual_map_entries) * WORDS_PER_ENTRY;
        let words = u64::from(self.words()) + u64::from(self.named()) + shared;
        // Each unit of a page may change several words before an epoch ends.
        let open_blocks = if self.named() > 0 { 4 * geometry.units_per_page() } else { 0 };
        LogDemand { words, open_blocks, fault_reserve: self.fault_reserve }
    }

    pub(crate) fn blocks(&self, geometry: &Geometry) -> u32 {
        self.log(geometry).blocks(geometry)
    }

    pub(crate) fn bytes(&self) -> u64 {
        let bits = u64::from(self.virtual_map_entries) + 2 * u64::from(self.named());
        u64::from(self.words()) * 4 + bits.div_ceil(8)
    }
}

/// Logical units trimmed and not written since.
#[derive(Clone, Debug, State)]
pub(crate) struct Trims {
    pub(crate) journal: Box<Journal>,
    /// True if trims, or newly shared or moved units, are in no epoch yet.
    pending: bool,
    #[state(table)]
    words: Vec<u32>,
    /// One bit per foreign unit. Only with logical copy.
    #[state(table)]
    foreign: Vec<u64>,
}

pub(crate) struct TrimsFound {
    pub(crate) trims: Trims,
    /// Flash unit of each foreign logical unit, plus one; 0 for other units.
    pub(crate) foreign: Vec<u32>,
    pub(crate) shared: Vec<u32>,
    pub(crate) clock: Clock,
}

impl TrimsFound {
    /// True if `lpn` was trimmed after its page with this sequence number.
    pub(crate) fn has_trimmed(&self, lpn: Lpn, sequence: u64) -> bool {
        sequence < self.clock.sequence && self.trims.has(lpn)
    }
}

impl Trims {
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

    pub(crate) fn trimmed(&mut self, lpn: Lpn) {
        if self.change(lpn, true) {
            self.pending = true;
        }
    }

    #[inline]
    pub(crate) fn written(&mut self, lpn: Lpn) {
        self.change(lpn, false);
    }

    /// Records that `lpn` moved: to the newest page that names it, or elsewhere if `is_foreign`.
    #[inline]
    pub(crate) fn record_name(&mut self, lpn: Lpn, is_foreign: bool) {
        if self.mark_foreign(lpn, is_foreign) || is_foreign {
            self.journal.unit_changed(self.words.len() as u32 + lpn.get());
        }
    }

    /// True if `lpn` may lie elsewhere than in the newest page that names it; `None` without logical copy.
    pub(crate) fn is_foreign(&self, lpn: Lpn) -> Option<bool> {
        self.foreign.get(lpn.index() / 64).map(|word| word & 1 << (lpn.index() % 64) != 0)
    }

    fn mark_foreign(&mut self, lpn: Lpn, is_foreign: bool) -> bool {
        // Without logical copy, and for translation pages, nothing is foreign.
        let Some(word) = self.foreign.get_mut(lpn.index() / 64) else { return false };
        let bit = 1 << (lpn.index() % 64);
        let is_new = (*word & bit != 0) != is_foreign;
        if is_new {
            *word ^= bit;
        }
        is_new
    }

    /// Records a change of entry `vpn`. It may wait for an epoch, because pages on flash show it as well.
    pub(crate) fn entry_changed(&mut self, vpn: u32) {
        self.journal.entry_changed(vpn);
    }

    /// Requires the changes to be logged before the versions they invalidated are erased.
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

    /// Makes all trims and the `shared` state durable. Returns the time when they are. Units invalidated by a
    /// trim must not be erased earlier, or older versions could come back.
    pub(crate) fn commit<N: Nand>(
        &mut self,
        nand: &mut N,
        now: When,
        sequence: u64,
        host_units: u64,
        shared: SharedWords<'_>,
    ) -> Result<When, LogWornOut> {
        // Without pending changes, only a full journal ends the epoch: bits cleared by writes fill it as
        // well.
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
        // Tables in the log: trim bits, then foreign units, then the virtual map.
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
