//! The map on flash: a journal of changes and a rolling checkpoint, in reserved blocks.
//!
//! 1. Changes since the last *epoch* are collected in memory.
//! 2. An epoch ends at a host flush, before the first program of an opened block, before the erase of a
//!    victim, and at a limit of changes. (Kang, Han & Shin write their tables when the active block changes.)
//! 3. Its changes are logged. Recovery applies all or none.
//! 4. A segment of the tables follows every few journal pages. Once all segments have been written since a
//!    point in the log, the log before that point is obsolete.

pub mod format;
mod log;
mod replay;
mod trims;

pub(crate) use log::{Log, LogWornOut, region_for};
pub(crate) use replay::Tables;
pub(crate) use trims::{SharedWords, Trims, TrimsDemand};

use strobe_nand::{Cause, Nand, When};
use strobe_types::{Geometry, Stored};

pub(crate) use format::Clock;
use format::{Content, HEADER, LogPage, Record, paginate};

/// Journal pages per checkpoint segment. More means fewer programs and a larger region.
const JOURNAL_PAGES_PER_SEGMENT: u32 = 3;

#[derive(Clone, Copy, Debug)]
pub(crate) struct LogDemand {
    pub(crate) words: u64,
    pub(crate) open_blocks: u32,
    pub(crate) fault_reserve: u32,
}

impl LogDemand {
    fn payload(geometry: &Geometry) -> usize {
        geometry.page_bytes() as usize - HEADER
    }

    fn segments(&self, geometry: &Geometry) -> u32 {
        self.words.div_ceil((Self::payload(geometry) / 4) as u64) as u32
    }

    /// Number of changes that ends an epoch.
    fn limit(&self, geometry: &Geometry) -> usize {
        let four_pages = 4 * Self::payload(geometry) / Record::MAX_BYTES;
        (self.words / 4).clamp(16, four_pages.max(16) as u64) as usize
    }

    /// Most pages from base to end: two checkpoints with the journal between them, each up to one epoch late,
    /// and the epoch being written.
    fn pages(&self, geometry: &Geometry) -> u64 {
        let records = self.limit(geometry) + (geometry.units_per_block() + self.open_blocks) as usize + 8;
        let per_page = (Self::payload(geometry) / Record::MAX_BYTES).max(1);
        let epoch = records.div_ceil(per_page) as u64 + 1;
        let round = u64::from(self.segments(geometry)) * u64::from(1 + JOURNAL_PAGES_PER_SEGMENT) + epoch;
        2 * round + epoch
    }

    /// Good blocks needed permanently: the pages, the block being filled, one to erase, and spares for
    /// failures.
    pub(crate) fn blocks(&self, geometry: &Geometry) -> u32 {
        let filled = self.pages(geometry).div_ceil(u64::from(geometry.pages_per_block())) as u32;
        filled + 3 + self.fault_reserve
    }
}

#[derive(Clone, Debug, Default, Stored)]
struct Changes {
    list: Vec<u32>,
    noted: Vec<u64>,
}

impl Changes {
    fn new(numbers: u32) -> Self {
        Self { list: Vec::new(), noted: vec![0; (numbers as usize).div_ceil(64)] }
    }

    fn note(&mut self, number: u32) {
        let word = &mut self.noted[number as usize / 64];
        let bit = 1 << (number % 64);
        if *word & bit == 0 {
            *word |= bit;
            self.list.push(number);
        }
    }

    fn take(&mut self) -> Vec<u32> {
        let mut list = std::mem::take(&mut self.list);
        for &number in &list {
            self.noted[number as usize / 64] = 0;
        }
        list.sort_unstable();
        list
    }
}

#[derive(Clone, Debug, Stored)]
pub(crate) struct Journal {
    log: Log,
    epoch: u64,
    units: Changes,
    shared: Changes,
    blocks_changed: bool,
    limit: usize,
    pages: u64,
    words: u64,
    map_words: u64,
    words_per_segment: u32,
    epoch_began: u64,
    next_segment: u32,
    /// Log position of the epoch before the first segment of the round. Recovery begins there, because only
    /// epochs record open blocks.
    round_began: u64,
    /// Journal pages without a segment yet.
    owed: u32,
    /// Completion time of the last data page; the map on flash must not refer to it earlier.
    programmed: When,
    durable_at: When,
}

impl Journal {
    /// `tables` are the numbers of logical units and virtual map entries.
    pub(crate) fn new(geometry: &Geometry, demand: LogDemand, log: Log, tables: [u32; 2]) -> Self {
        Self {
            log,
            epoch: 0,
            units: Changes::new(tables[0]),
            shared: Changes::new(tables[1]),
            blocks_changed: false,
            limit: demand.limit(geometry),
            pages: demand.pages(geometry),
            words: demand.words,
            map_words: tables[0].into(),
            words_per_segment: (LogDemand::payload(geometry) / 4) as u32,
            epoch_began: 0,
            next_segment: 0,
            round_began: 0,
            owed: 0,
            programmed: When::START,
            durable_at: When::START,
        }
    }

    /// Host memory in bytes, without the log.
    pub(crate) fn bytes(tables: [u32; 2]) -> u64 {
        tables.iter().map(|&numbers| u64::from(numbers).div_ceil(8)).sum()
    }

    pub(crate) fn map_words(&self) -> u64 {
        self.map_words
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    #[inline]
    pub(crate) fn unit_changed(&mut self, lpn: u32) {
        self.units.note(lpn);
    }

    pub(crate) fn entry_changed(&mut self, vpn: u32) {
        self.shared.note(vpn);
    }

    pub(crate) fn blocks_changed(&mut self) {
        self.blocks_changed = true;
    }

    #[inline]
    pub(crate) fn data_programmed<N: Nand>(&mut self, nand: &mut N, done: When) {
        self.programmed = nand.both(self.programmed, done);
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn is_full(&self) -> bool {
        self.units.list.len() + self.shared.list.len() >= self.limit
    }

    pub(crate) fn durable_at(&self) -> When {
        self.durable_at
    }

    /// Completion time of the last epoch and all data so far.
    pub(crate) fn settled_at<N: Nand>(&self, nand: &mut N) -> When {
        nand.both(self.durable_at, self.programmed)
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.units.list.is_empty() && self.shared.list.is_empty() && !self.blocks_changed
    }

    pub(crate) fn take_changes(&mut self) -> (Vec<u32>, Vec<u32>) {
        self.blocks_changed = false;
        (self.units.take(), self.shared.take())
    }

    /// Ends the epoch with `records`, then writes the segments due, with words from `word`. Returns the time
    /// when the epoch is on flash.
    pub(crate) fn end_epoch<N: Nand>(
        &mut self,
        nand: &mut N,
        now: When,
        records: Vec<Record>,
        clock: Clock,
        words: &dyn Fn(u64) -> u32,
    ) -> Result<When, LogWornOut> {
        let payload = LogDemand::payload(nand.geometry());
        // Write order: data first, then the journal that refers to it.
        let mut done = nand.both(now, self.programmed);
        self.epoch += 1;
        let pages = paginate(apart(records), payload);
        let count = pages.len() as u32;
        self.epoch_began = self.log.next();
        // Each page waits for the one before: an epoch counts only with all its pages.
        for (number, records) in (0..).zip(pages) {
            let cause = cause_of(&records);
            let page = self.page(number, count, clock, Content::Journal(records), self.log.base);
            done = self.log.append(nand, done, &page, cause)?;
        }
        self.durable_at = done;
        self.owed += count;
        let mut at = done;
        // Segments keep pace with the journal, which keeps the log within its region.
        while self.owed >= JOURNAL_PAGES_PER_SEGMENT {
            self.owed -= JOURNAL_PAGES_PER_SEGMENT;
            at = self.write_segment(nand, at, clock, words)?;
        }
        debug_assert!(self.log.next() - self.log.base <= self.pages, "the log grows beyond its region");
        Ok(done)
    }

    pub(crate) fn segments(&self) -> u32 {
        self.words.div_ceil(u64::from(self.words_per_segment)) as u32
    }

    pub(crate) fn words_of(&self, number: u32) -> std::ops::Range<u64> {
        let first = u64::from(number) * u64::from(self.words_per_segment);
        first..(first + u64::from(self.words_per_segment)).min(self.words)
    }

    /// Continues the round of segments shown by `pages`, the live log after a power cut. `illegible` pages
    /// count as journal pages, as they take the same space.
    pub(crate) fn resume(&mut self, pages: &[LogPage], illegible: u32) {
        // The same bookkeeping as `end_epoch` and `write_segment`, from the pages that they wrote.
        for page in pages {
            match page.content {
                Content::Journal(_) => {
                    self.owed += 1;
                    if page.number == 0 {
                        self.epoch_began = page.lsn;
                    }
                }
                Content::Segment(_) => {
                    self.owed = self.owed.saturating_sub(JOURNAL_PAGES_PER_SEGMENT);
                    if page.number == 0 {
                        self.round_began = self.epoch_began;
                    }
                    self.next_segment = (page.number + 1) % self.segments();
                }
            }
            self.epoch = self.epoch.max(page.epoch);
        }
        self.owed += illegible;
    }

    fn page(&self, number: u32, count: u32, clock: Clock, content: Content, base: u64) -> LogPage {
        let (lsn, epoch, region) = (self.log.next(), self.epoch, self.log.region());
        LogPage { lsn, base, epoch, number, count, clock, region, content }
    }

    /// Writes the next checkpoint segment. The journal must already contain its changes.
    fn write_segment<N: Nand>(
        &mut self,
        nand: &mut N,
        now: When,
        clock: Clock,
        words: &dyn Fn(u64) -> u32,
    ) -> Result<When, LogWornOut> {
        let number = self.next_segment;
        let segments = self.segments();
        if number == 0 {
            self.round_began = self.epoch_began;
        }
        let range = self.words_of(number);
        let is_shared = range.end > self.map_words;
        let content = Content::Segment(range.map(words).collect());
        // The last segment completes the round: recovery now begins at the start of the round.
        let is_last = number + 1 == segments;
        let base = if is_last { self.round_began } else { self.log.base };
        let cause = if is_shared { Cause::Meta } else { Cause::Map };
        let page = self.page(number, segments, clock, content, base);
        self.next_segment = if is_last { 0 } else { number + 1 };
        self.log.append(nand, now, &page, cause)
    }
}

/// Sorts virtual map records last: they share a page with others at most once per epoch.
fn apart(mut records: Vec<Record>) -> Vec<Record> {
    records.sort_by_key(Record::is_shared);
    records
}

/// Cause of a journal page by the majority of its records: `Meta` for the virtual map (P2L), `Map` for L2P.
fn cause_of(records: &[Record]) -> Cause {
    let shared = records.iter().filter(|record| record.is_shared()).count();
    if 2 * shared > records.len() { Cause::Meta } else { Cause::Map }
}
