//! The chip model: flash rules, out-of-band area, wear. `make.rs` constructs chips, `tear.rs` applies power
//! cuts.

mod block;
mod by_page;
mod faults;
mod kinds;
mod make;
mod parts;
mod retry;
mod tear;
#[cfg(test)]
mod tests;
mod undo;
mod urgency;

use std::sync::Arc;

use strobe_types::{
    BlockId, CellMode, Geometry, Lpn, Place, Ppa, Ppn, Prng, SimTime, State, StopFlag, Table, prefetch_write,
};

use crate::cut::Cuts;
use crate::{
    BlockState, Cause, Class, EraseFailed, Medium, Nand, NandOp, OobRecord, OpCounts, ProgramFailed,
    ReadDone, Timing, Unit, Wanted, WearConfig, When,
};
use block::Block;
use faults::Faults;
pub(crate) use make::Restored;
use retry::Retries;
use undo::UndoLog;
use urgency::{program_class, read_class};

pub use faults::Lasts;
pub use retry::{RetryConfig, Stress};

/// An exact model of a flash array in memory.
///
/// Memory: 4 bytes per mapping unit for the out-of-band LPN, 8 bytes per block, plus the medium.
#[derive(Clone, Debug, State)]
pub struct Chip<T, M: Medium> {
    #[state(skip)]
    geometry: Geometry,
    #[state(skip)]
    wear: WearConfig,
    #[state(skip)]
    slc_pages: u32,
    #[state(skip)]
    parts: u32,
    /// True if programs take the page-by-page path: they can fail, carry marks or be cut short.
    #[state(skip)]
    page_by_page: bool,
    /// Not saved: a drive with planned cuts is never saved.
    #[state(skip)]
    cuts: Cuts<Self>,
    #[state(skip)]
    undo_log: UndoLog<M::Payload>,
    #[state(skip)]
    stop: StopFlag,
    counts: OpCounts,
    program_fails: Prng,
    faults: Option<Box<Faults>>,
    /// Pages programmed since the last query, if watched. Not saved: watchers subscribe again.
    #[state(skip)]
    watched: Option<Vec<Ppn>>,
    programmed: Option<Vec<bool>>,
    timing: T,
    medium: M,
    /// LPN of each programmed unit; [`PADDING`] in unused slots of a page.
    #[state(table)]
    oob_lpn: Table<u32>,
    #[state(table)]
    blocks: Vec<Block>,
    #[state(part)]
    retries: Option<Box<Retries>>,
}

pub(crate) const PADDING: u32 = u32::MAX;

impl<T: Timing, M: Medium> Chip<T, M> {
    #[inline(always)]
    fn place(&self, ppn: Ppn) -> Place {
        let place = self.geometry.place(ppn);
        Place { mode: self.blocks[place.block.index()].mode(), ..place }
    }

    #[inline(always)]
    fn write_oob(&mut self, first: Ppa, units: &[Unit<M::Payload>], pages: u32) {
        let places = (pages * self.geometry.units_per_page()) as usize;
        let oob = &mut self.oob_lpn[first.index()..first.index() + places];
        for (entry, unit) in oob.iter_mut().zip(units) {
            *entry = unit.lpn.get();
        }
        if places > units.len() {
            oob[units.len()..].fill(PADDING);
        }
    }

    #[inline(always)]
    fn store(
        &mut self,
        after: When,
        first: Ppn,
        units: &[Unit<M::Payload>],
        pages: u32,
        sequence: u64,
        cause: Cause,
    ) -> When {
        let per_page = self.geometry.units_per_page();
        let mode = if T::TIMED {
            self.blocks[self.geometry.block_of_page(first).index()].mode()
        } else {
            CellMode::Normal
        };
        let geometry = &self.geometry;
        let place = |at| Place { mode, ..geometry.place(first.plus(at)) };
        // Pages of a block are programmed in order, so the call is complete with its last page.
        let done = match pages {
            1 => self.timing.program(after, program_class(cause), || place(0)),
            _ => self.timing.programs(after, program_class(cause), pages, place),
        };
        for page in 0..pages {
            let ppn = first.plus(page);
            let from = (page * per_page) as usize;
            let content = &units[from..units.len().min(from + per_page as usize)];
            self.medium.store(
                ppn,
                self.geometry.first_unit_of_page(ppn),
                content,
                sequence + u64::from(page),
                cause,
            );
        }
        done
    }

    fn save_before_change(&mut self, id: BlockId, erase: Option<Cause>) {
        self.medium.set_block(id, self.block(id), erase);
    }

    fn take_pages(&mut self, first: Ppn, pages: u32) {
        let id = self.geometry.block_of_page(first);
        let page = first.get() - id.get() * self.geometry.pages_per_block();
        if self.retries.is_some() && self.blocks[id.index()].pages_programmed == 0 {
            // Retention counts from the first program of the block.
            self.record_first_program(id);
        }
        self.count_programs(first, pages);
        let block = &mut self.blocks[id.index()];
        debug_assert!(!block.state().half_erased, "flash rule broken: program of half-erased {id}");
        if let Some(programmed) = &mut self.programmed {
            // Without page order, the only rule is one program of each page between erases.
            let pages = &mut programmed[first.get() as usize..(first.get() + pages) as usize];
            assert!(
                !pages.contains(&true),
                "flash rule broken: program of a programmed page from {first} on"
            );
            pages.fill(true);
            block.pages_programmed += pages.len() as u32;
            return;
        }
        assert!(
            block.pages_programmed == page && page + pages <= self.geometry.pages_per_block(),
            "flash rule broken: program of {pages} pages from {page} of block {id}, page {} is next",
            block.pages_programmed
        );
        assert!(
            block.mode() == CellMode::Normal || page + pages <= self.slc_pages,
            "flash rule broken: program of {pages} pages from {page} of block {id}, which is in SLC mode"
        );
        block.pages_programmed = page + pages;
    }
}

impl<T: Timing, M: Medium> Nand for Chip<T, M> {
    type Payload = M::Payload;

    type Timing = T;

    fn timing(&self) -> &T {
        &self.timing
    }

    fn timing_mut(&mut self) -> &mut T {
        &mut self.timing
    }

    fn run(&mut self, until: SimTime) -> bool {
        if self.undo_log.is_kept { self.run_tracked(until) } else { self.timing.run(until) }
    }

    #[inline(always)]
    fn has_reported(&self) -> bool {
        self.timing.has_reported() || !self.undo_log.reported.is_empty()
    }

    #[inline(always)]
    fn next_reported(&mut self) -> Option<u64> {
        if self.undo_log.reported.is_empty() {
            self.timing.next_reported()
        } else {
            Some(self.undo_log.reported.remove(0))
        }
    }

    fn finish(&mut self, when: When) -> SimTime {
        if self.undo_log.is_kept { self.finish_tracked(when) } else { self.timing.finish(when) }
    }

    fn drain(&mut self) -> SimTime {
        if self.undo_log.is_kept {
            self.run_tracked_to_the_end();
        }
        self.timing.drain()
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline(always)]
    fn pages_per_program(&self) -> u32 {
        self.parts
    }

    #[inline(always)]
    fn read(&mut self, after: When, ppn: Ppn, wanted: Wanted, cause: Cause) -> ReadDone {
        self.log_cause(cause);
        let mut after = after;
        // Data of an in-flight program is on flash only after that program.
        if self.is_on_its_way(ppn) {
            let programmed = self.timing.last_program(|| self.geometry.place(ppn));
            after = self.timing.both(after, programmed);
        }
        if !self.reads_once() {
            self.begin_read();
            return self.read_parts(after, ppn, wanted, cause);
        }
        let units = wanted.of(0);
        self.assert_readable(ppn, units);
        self.counts.add(NandOp::Read, cause);
        let (geometry, blocks) = (&self.geometry, &self.blocks);
        ReadDone::clean(self.timing.read(after, read_class(cause), units, || {
            let place = geometry.place(ppn);
            Place { mode: blocks[place.block.index()].mode(), ..place }
        }))
    }

    #[inline]
    fn read_pages(&mut self, pages: &[(Ppn, Wanted)], cause: Cause) -> ReadDone {
        self.log_cause(cause);
        let block = |&(ppn, _): &(Ppn, Wanted)| self.geometry.block_of_page(ppn);
        debug_assert!(
            pages.windows(2).all(|pair| block(&pair[0]) == block(&pair[1])),
            "pages of several blocks"
        );
        if !self.reads_once() {
            return self.read_each(pages, cause);
        }
        let mut done = When::START;
        // Consecutive reads with the same number of units are issued as one operation.
        for run in pages.chunk_by(|a, b| a.1 == b.1) {
            let (first, wanted) = run[0];
            if run.len() == 1 || self.is_on_its_way(first) {
                for &(ppn, wanted) in run {
                    done = self.read(When::START, ppn, wanted, cause).when;
                }
                continue;
            }
            let units = wanted.of(0);
            run.iter().for_each(|&(ppn, _)| self.assert_readable(ppn, units));
            self.counts.add_many(NandOp::Read, cause, run.len() as u64);
            let mode = self.blocks[self.geometry.block_of_page(first).index()].mode();
            let place = |at: u32| Place { mode, ..self.geometry.place(run[at as usize].0) };
            done = self.timing.reads(When::START, read_class(cause), units, run.len() as u32, place);
        }
        ReadDone::clean(done)
    }

    fn is_lost(&self, ppa: Ppa) -> bool {
        self.is_lost_unit(ppa)
    }

    fn has_failed(&self, ppa: Ppa) -> bool {
        self.has_failed_unit(ppa)
    }

    #[inline(always)]
    fn has_losses(&self) -> bool {
        self.faults.is_some() && self.has_lost_units()
    }

    fn lose(&mut self, ppa: Ppa, lasts: Lasts) {
        self.lose_unit(ppa, lasts);
    }

    fn watch_programs(&mut self, is_watched: bool) -> Vec<Ppn> {
        std::mem::replace(&mut self.watched, is_watched.then(Vec::new)).unwrap_or_default()
    }

    fn mark_next(&mut self, lpns: impl Iterator<Item = Lpn>) {
        self.mark_units(lpns);
    }

    fn uncorrectable(&self) -> u64 {
        self.uncorrectable_reads()
    }

    #[inline(always)]
    fn program(
        &mut self,
        after: When,
        first: Ppn,
        units: &[Unit<M::Payload>],
        sequence: u64,
        cause: Cause,
    ) -> Result<When, ProgramFailed> {
        self.log_cause(cause);
        if self.page_by_page {
            return self.program_by_page(after, first, units, sequence, cause);
        }
        let pages = self.pages_for(units.len());
        self.take_pages(first, pages);
        self.counts.add_many(NandOp::Program, cause, u64::from(pages));
        self.write_oob(self.geometry.first_unit_of_page(first), units, pages);
        Ok(self.store(after, first, units, pages, sequence, cause))
    }

    fn program_meta(
        &mut self,
        after: When,
        ppn: Ppn,
        bytes: &[u8],
        cause: Cause,
    ) -> Result<When, ProgramFailed> {
        self.log_cause(cause);
        assert!(
            bytes.len() <= self.geometry.page_bytes() as usize,
            "flash rule broken: program of {} bytes to page {ppn}",
            bytes.len()
        );
        if self.cuts.is_planned() {
            // Snapshots are copies of the chip before this program changes it.
            self.cut(|flash| flash.tear_page(ppn, cause));
        }
        self.take_pages(ppn, 1);
        let failed = self.page_by_page && self.program_fails.chance(self.wear.program_fail_rate);
        self.counts.add(NandOp::Program, cause);
        // Metadata belongs to no logical page.
        self.write_oob(self.geometry.first_unit_of_page(ppn), &[], 1);
        if failed {
            let at = self.store(after, ppn, &[], 1, 0, cause);
            self.track_program(at, ppn, cause);
            return Err(ProgramFailed { programmed: 0, at });
        }
        self.medium.store_meta(ppn, bytes, cause);
        let place = self.place(ppn);
        let done = self.timing.program(after, program_class(cause), || place);
        self.track_program(done, ppn, cause);
        Ok(done)
    }

    fn read_meta(&mut self, after: When, ppn: Ppn, cause: Cause) -> (ReadDone, Option<Arc<[u8]>>) {
        let arrived = self.read(after, ppn, self.whole_page(ppn), cause);
        (arrived, self.medium.load_meta(ppn))
    }

    fn set_mode(&mut self, id: BlockId, mode: CellMode) {
        let state = self.block(id);
        if state.mode == mode {
            return;
        }
        assert!(
            state.is_erased() && !state.bad,
            "flash rule broken: {id} is to be {mode:?} and is not erased"
        );
        assert!(self.slc_pages > 0, "flash rule broken: {id} cannot be in SLC mode");
        self.blocks[id.index()] = BlockState { mode, ..state }.into();
        self.save_before_change(id, None);
    }

    fn slc_pages(&self) -> u32 {
        self.slc_pages
    }

    fn erase(&mut self, after: When, id: BlockId, cause: Cause) -> Result<When, EraseFailed> {
        self.log_cause(cause);
        assert!(!self.block(id).bad, "flash rule broken: erase of bad block {id}");
        if self.cuts.is_planned() {
            self.cut(|flash| flash.tear_block(id));
        }
        self.counts.add(NandOp::Erase, cause);
        let place = self.place(self.geometry.page(id, 0));
        let done = self.timing.erase(after, Class::Erase, || place);
        // The undo entry must hold the block's content, so it is made before the tables change.
        self.track_erase(done, id, cause);
        let erases = self.block(id).erase_count;
        if self.wear.endurance_pe.is_some_and(|limit| erases >= limit) {
            // The failing erase was counted and took its time; the block is bad from now on.
            self.blocks[id.index()].history |= Block::BAD;
            self.save_before_change(id, Some(cause));
            return Err(EraseFailed { at: done });
        }
        // The default state also clears SLC mode and the half-erased flag.
        self.blocks[id.index()] = BlockState { erase_count: erases + 1, ..BlockState::default() }.into();
        self.set_stress(id, Stress::default());
        let first = self.geometry.first_unit(id);
        self.forget_faults(first, first.plus(self.geometry.units_per_block()));
        if let Some(programmed) = &mut self.programmed {
            let pages = self.geometry.pages_per_block() as usize;
            programmed[id.index() * pages..(id.index() + 1) * pages].fill(false);
        }
        // The state is stored before the content is discarded: in an image, this write is the erase.
        self.save_before_change(id, Some(cause));
        self.medium.erase(self.geometry.first_unit(id), self.geometry.units_per_block());
        Ok(done)
    }

    #[inline(always)]
    fn lpn(&self, ppa: Ppa) -> Option<Lpn> {
        match self.oob_lpn[ppa.index()] {
            PADDING => None,
            lpn => Some(Lpn::new(lpn)),
        }
    }

    #[inline(always)]
    fn payload(&self, ppa: Ppa) -> M::Payload {
        self.medium.load(ppa)
    }

    fn record(&self, ppn: Ppn) -> Option<OobRecord> {
        self.medium.record(ppn)
    }

    fn block(&self, id: BlockId) -> BlockState {
        self.blocks[id.index()].state()
    }

    fn is_programmed(&self, ppn: Ppn) -> bool {
        match &self.programmed {
            None => self.geometry.page_in_block(ppn) < self.pages_programmed(ppn),
            Some(programmed) => programmed[ppn.get() as usize],
        }
    }

    fn takes_any_order(&self) -> bool {
        self.programmed.is_some()
    }

    fn mark_bad(&mut self, block: BlockId) {
        if !self.block(block).bad {
            self.track_mark(block);
        }
        self.blocks[block.index()].history |= Block::BAD;
        self.save_before_change(block, None);
    }

    fn counts(&self) -> &OpCounts {
        &self.counts
    }

    fn retries(&self) -> u64 {
        self.retries_done()
    }

    fn stress(&self, block: BlockId) -> Option<Stress> {
        self.stress_of(block)
    }

    fn snapshots(&self) -> usize {
        self.cuts.taken.len()
    }

    #[inline(always)]
    fn prefetch_oob(&self, ppa: Ppa) {
        prefetch_write(&self.oob_lpn, ppa.index());
    }

    fn failure(&self) -> Option<&str> {
        self.medium.failure()
    }

    fn sync(&mut self, now: SimTime) {
        self.medium.sync(now);
    }

    fn earlier_power_on_ns(&self) -> u64 {
        self.medium.earlier_power_on_ns()
    }

    fn set_stop(&mut self, stop: StopFlag) {
        self.stop = stop;
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_raised()
    }
}
