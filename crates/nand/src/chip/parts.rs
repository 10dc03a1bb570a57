//! Reads by flash page, for word lines and for chips whose reads are retried or fail.

use strobe_types::{Place, Ppn};

use super::Chip;
use super::faults::Fault;
use super::urgency::read_class;
use crate::{Cause, Medium, Nand as _, NandOp, ReadDone, ReadOutcome, Timing, Wanted, When};

impl<T: Timing, M: Medium> Chip<T, M> {
    /// Pages for `units` units; for none, 1 page of padding.
    #[inline(always)]
    pub(super) fn pages_for(&self, units: usize) -> u32 {
        let pages = match self.geometry.units_per_page() {
            1 => units as u32,
            per_page => (units as u32).div_ceil(per_page),
        };
        pages.max(1)
    }

    /// True for the fast path: a page is one flash page, and every read succeeds at once.
    #[inline(always)]
    pub(super) fn reads_once(&self) -> bool {
        self.parts == 1 && self.retries.is_none() && self.faults.is_none()
    }

    #[inline(always)]
    pub(super) fn assert_readable(&self, ppn: Ppn, units: u32) {
        let block = self.geometry.block_of_page(ppn);
        let page = ppn.get() - block.get() * self.geometry.pages_per_block();
        let is_there = match &self.programmed {
            None => page < self.blocks[block.index()].pages_programmed,
            Some(programmed) => programmed[ppn.get() as usize],
        };
        assert!(
            is_there || units == 0,
            "flash rule broken: read of page {page} of block {block}, which has not been programmed"
        );
    }

    pub(super) fn read_each(&mut self, pages: &[(Ppn, Wanted)], cause: Cause) -> ReadDone {
        self.begin_read();
        let mut all = ReadDone::clean(When::START);
        for &(ppn, wanted) in pages {
            let mut after = When::START;
            if self.is_on_its_way(ppn) {
                after = self.timing.last_program(|| self.geometry.place(ppn));
            }
            let done = self.read_parts(after, ppn, wanted, cause);
            // A retried read may arrive after reads that were issued later.
            all.when = self.timing.both(all.when, done.when);
            all.outcome = all.outcome.and(done.outcome);
        }
        all
    }

    pub(super) fn read_parts(&mut self, after: When, ppn: Ppn, wanted: Wanted, cause: Cause) -> ReadDone {
        let (line, parts) = (self.place(ppn), self.parts);
        self.assert_readable(ppn, wanted.total());
        let mut all = ReadDone::clean(after);
        for part in 0..parts {
            // A data read skips flash pages without a wanted unit; a read of the out-of-band area skips none.
            let units = wanted.of(part);
            if units > 0 || wanted == Wanted::NONE {
                let place = Place { page: line.page * parts + part, ..line };
                let (times, outcome) = match units {
                    0 => (1, ReadOutcome::Clean),
                    _ => self.effort(ppn, part, cause),
                };
                self.counts.add_many(NandOp::Read, cause, times.into());
                let arrived =
                    (0..times).fold(after, |at, _| self.timing.read(at, read_class(cause), units, || place));
                // A retried read may arrive after reads that were issued later.
                all.when = self.timing.both(all.when, arrived);
                all.outcome = all.outcome.and(outcome);
            }
        }
        all
    }

    #[cold]
    fn effort(&mut self, ppn: Ppn, part: u32, cause: Cause) -> (u32, ReadOutcome) {
        let fault = self.meet_fault(ppn, part, cause);
        // The chip tries all allowed retries before it gives a lost page up.
        let (mut times, exceeds) = self.times_to_read(ppn, part, fault == Fault::Lost);
        if exceeds && fault != Fault::Lost {
            self.lose_page(ppn, part);
        }
        times += u32::from(fault == Fault::Repeated);
        match times {
            _ if exceeds || fault == Fault::Lost => (times, ReadOutcome::Uncorrectable),
            1 => (1, ReadOutcome::Clean),
            times => (times, ReadOutcome::Corrected { retries: times - 1 }),
        }
    }
}
