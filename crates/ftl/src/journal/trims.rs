//! Which logical units are trimmed, kept on flash: for schemes that find everything else in the out-of-band areas.
//!
//! A page says which unit it holds, and its sequence number which of several versions is the newest. But no page
//! says that its unit has been trimmed since. So trims go into a log, one bit for each unit. A set bit hides the
//! pages that are older than the epoch it belongs to, not those written later.

use strobe_nand::{Nand, When};
use strobe_types::{Geometry, Lpn};

use super::format::{Clock, Record};
use super::{Journal, Log, LogDemand, LogWornOut, Tables, region_for};
use crate::{Recovery, RecoveryError};

/// Bits of a word: a record's entry and its count must not overflow together.
const BITS: u32 = 31;

/// Logical units that were trimmed and not written since.
#[derive(Clone, Debug)]
pub(crate) struct Trims {
    words: Vec<u32>,
    pub(crate) journal: Box<Journal>,
    /// Whether there are trims that are in no epoch yet.
    pending: bool,
}

strobe_types::state! { Trims { journal, pending } tables { words } }

/// What the log says about trims.
pub(crate) struct TrimsFound {
    pub(crate) trims: Trims,
    /// As of the newest epoch.
    pub(crate) clock: Clock,
}

impl TrimsFound {
    /// Whether a page of `lpn` with this sequence number was trimmed after it was written.
    pub(crate) fn has_trimmed(&self, lpn: Lpn, sequence: u64) -> bool {
        sequence < self.clock.sequence && self.trims.has(lpn)
    }
}

impl Trims {
    fn demand(logical_units: u32, fault_reserve: u32) -> LogDemand {
        let words = logical_units.div_ceil(BITS).into();
        LogDemand { words, open_blocks: 0, fault_reserve, flush_entries: None }
    }

    /// Good blocks that the log of trims takes.
    pub(crate) fn blocks(geometry: &Geometry, logical_units: u32, fault_reserve: u32) -> u32 {
        Self::demand(logical_units, fault_reserve).blocks(geometry)
    }

    /// None trimmed, on fresh flash.
    pub(crate) fn new<N: Nand>(nand: &N, logical_units: u32, fault_reserve: u32) -> Self {
        let geometry = nand.geometry();
        let good = Self::blocks(geometry, logical_units, fault_reserve);
        let log = Log::new(geometry, region_for(geometry, good, |block| nand.block(block).bad));
        Self::on(geometry, log, logical_units, fault_reserve)
    }

    fn on(geometry: &Geometry, log: Log, logical_units: u32, fault_reserve: u32) -> Self {
        let demand = Self::demand(logical_units, fault_reserve);
        let words = demand.words as u32;
        let journal = Box::new(Journal::new(geometry, demand, log, [words, 0]));
        Self { words: vec![0; words as usize], journal, pending: false }
    }

    /// The trims that a power cut has left on `nand`.
    pub(crate) fn find<N: Nand>(
        nand: &mut N,
        logical_units: u32,
        fault_reserve: u32,
        report: &mut Recovery,
    ) -> Result<TrimsFound, RecoveryError> {
        let geometry = nand.geometry().clone();
        let good = Self::blocks(&geometry, logical_units, fault_reserve);
        let (log, pages, illegible) = Log::find(nand, good, report)?;
        let mut trims = Self::on(&geometry, log, logical_units, fault_reserve);
        let found = Tables::of(&pages, &trims.journal, report)?;
        trims.journal.resume(&pages, illegible);
        trims.words = found.words;
        Ok(TrimsFound { trims, clock: found.clock })
    }

    /// Host memory, in bytes.
    pub(crate) fn bytes(logical_units: u32) -> u64 {
        u64::from(logical_units.div_ceil(BITS)) * 4
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

    /// Makes the trims so far survive a power cut; returns when they do. Nothing that a trim has made
    /// invalid may be erased before: older versions could come back.
    pub(crate) fn commit<N: Nand>(
        &mut self,
        nand: &mut N,
        now: When,
        sequence: u64,
        host_units: u64,
    ) -> Result<When, LogWornOut> {
        // Also bits that writes have cleared take room in the next epoch.
        if !self.pending && !self.journal.is_full() {
            let settled = self.journal.settled_at(nand);
            return Ok(nand.both(now, settled));
        }
        self.pending = false;
        let (changed, _) = self.journal.take_changes();
        let words = &self.words;
        let record = |&at: &u32| Record::Map { lpn: at, entry: words[at as usize], count: 1 };
        let records = changed.iter().map(record).collect();
        let clock = Clock { tick: 1, sequence, host_units };
        self.journal.end_epoch(nand, now, records, clock, &|at| words[at as usize])
    }
}
