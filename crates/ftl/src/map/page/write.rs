//! Filling blocks: where units go, and what happens to their old versions.

use strobe_nand::{Cause, Nand, Timing, Unit, When};
use strobe_types::{BlockId, CellMode, Lpn, Ppa, Ppn};

use super::{BlockState, HOST, MapStore, PageMap};
use crate::free::Want;
use crate::gc::{Allocation, VictimPolicy};
use crate::place::{StreamId, WriteContext};
use crate::{FtlError, MappingScheme};

/// Units ahead of a host write for which the map entry, then the rest, is fetched.
const ENTRY_AHEAD: usize = 24;
const STATE_AHEAD: usize = 10;

/// True if programs of `cause` carry host data, which has to leave blocks for copies.
fn is_for_host(cause: Cause) -> bool {
    matches!(cause, Cause::Host | Cause::Copy | Cause::Cache)
}

/// Puts `units` in the order of their streams, within a stream as they are. Each stream gets whole pages of `per_page`
/// units; units left over go to the first of the streams, ahead of its own.
pub(super) fn fill_pages<T>(units: &mut Vec<(StreamId, T)>, per_page: usize) {
    let Some(first) = units.iter().map(|&(to, _)| to).min() else { return };
    let mut left = [0_usize; u8::MAX as usize + 1];
    for (to, _) in units.iter() {
        left[to.index()] += 1;
    }
    // Units of each stream beyond its whole pages, counted from the end.
    let whole = left.map(|count| count - count % per_page);
    let mut seen = [0_usize; u8::MAX as usize + 1];
    let mut keyed: Vec<(bool, StreamId, T)> = Vec::with_capacity(units.len());
    for (to, unit) in units.drain(..) {
        let is_whole = to == first || seen[to.index()] < whole[to.index()];
        seen[to.index()] += 1;
        keyed.push((is_whole, if is_whole { to } else { first }, unit));
    }
    keyed.sort_by_key(|&(is_whole, to, _)| (to, is_whole));
    units.extend(keyed.into_iter().map(|(_, to, unit)| (to, unit)));
}

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// Writes `units` of the host to the streams that the placement chooses and lets `settle` map each run of them.
    pub(super) fn write_host(
        &mut self,
        now: When,
        context: WriteContext,
        units: &[Unit<N::Payload>],
        settle: impl FnMut(&mut Self, &[Unit<N::Payload>], Ppa),
    ) -> Result<When, FtlError> {
        if self.separates_host() {
            return self.write_separated(now, context, units, settle);
        }
        self.write_to(now, HOST, context.cause, units, settle)
    }

    /// Writes `units` of the host to `stream`.
    fn write_to(
        &mut self,
        now: When,
        stream: StreamId,
        cause: Cause,
        units: &[Unit<N::Payload>],
        settle: impl FnMut(&mut Self, &[Unit<N::Payload>], Ppa),
    ) -> Result<When, FtlError> {
        if self.store.is_paged() {
            self.write_paged(now, stream, cause, units, settle)
        } else {
            self.write_pages(now, stream, cause, units, settle)
        }
    }

    /// Writes `units` to the streams that the placement chooses for each of them.
    ///
    /// Commands may come together, and blocks are filled as if each had come alone: a unit is given its stream when all
    /// units before it are written, or have room in open blocks, as only a block that is opened makes room by
    /// relocation.
    #[inline(never)]
    pub(super) fn write_separated(
        &mut self,
        now: When,
        context: WriteContext,
        units: &[Unit<N::Payload>],
        mut settle: impl FnMut(&mut Self, &[Unit<N::Payload>], Ppa),
    ) -> Result<When, FtlError> {
        if self.nand.geometry().units_per_page() > 1 {
            return self.write_by_stream(now, context, units, settle);
        }
        let mut finished = now;
        let mut rest = units;
        let mut stream = rest.first().map_or(HOST, |unit| self.stream_for(unit.lpn, context, 0));
        while !rest.is_empty() {
            let room = self.streams[stream].next_pages().map_or(1, |(_, pages)| pages as usize);
            let mut count = 1;
            let mut next = None;
            while let Some(unit) = rest.get(count) {
                if count == room {
                    break;
                }
                let other = self.stream_for(unit.lpn, context, count as u64);
                if other != stream {
                    next = Some(other);
                    break;
                }
                count += 1;
            }
            let (run, behind) = rest.split_at(count);
            let done = self.write_to(now, stream, context.cause, run, &mut settle)?;
            finished = self.nand.both(finished, done);
            rest = behind;
            if let Some(unit) = rest.first() {
                stream = next.unwrap_or_else(|| self.stream_for(unit.lpn, context, 0));
            }
        }
        Ok(finished)
    }

    /// [`PageMap::write_separated`] where a page has several units: each stream gets whole pages, and the units that are
    /// left over share pages of one of their streams.
    fn write_by_stream(
        &mut self,
        now: When,
        context: WriteContext,
        units: &[Unit<N::Payload>],
        mut settle: impl FnMut(&mut Self, &[Unit<N::Payload>], Ppa),
    ) -> Result<When, FtlError> {
        let mut placed: Vec<(StreamId, Unit<N::Payload>)> = (0..)
            .zip(units)
            .map(|(at, unit)| (self.stream_for(unit.lpn, context, at), unit.clone()))
            .collect();
        fill_pages(&mut placed, self.nand.geometry().units_per_page() as usize);
        let mut finished = now;
        for run in placed.chunk_by(|a, b| a.0 == b.0) {
            let units: Vec<_> = run.iter().map(|(_, unit)| unit.clone()).collect();
            let done = self.write_to(now, run[0].0, context.cause, &units, &mut settle)?;
            finished = self.nand.both(finished, done);
        }
        Ok(finished)
    }

    /// The stream of `lpn`, which the host writes after `ahead` other units that have not been counted yet.
    fn stream_for(&mut self, lpn: Lpn, context: WriteContext, ahead: u64) -> StreamId {
        let tick = self.tick + 1 + ahead;
        self.placement.as_mut().map_or(HOST, |placement| placement.for_write(lpn, context, tick))
    }

    /// Programs `units` on `stream`, a page at a time, and lets `settle` map each run of them:
    /// it gets the units and the address of the first.
    #[inline(always)]
    pub(super) fn write_pages(
        &mut self,
        now: When,
        stream: StreamId,
        cause: Cause,
        units: &[Unit<N::Payload>],
        mut settle: impl FnMut(&mut Self, &[Unit<N::Payload>], Ppa),
    ) -> Result<When, FtlError> {
        let per_page = self.nand.geometry().units_per_page() as usize;
        let mut now = now;
        let mut whens = Vec::new();
        if N::TIMED {
            whens = std::mem::take(&mut self.whens);
            whens.clear();
        }
        let mut finished = now;
        let mut rest = units;
        while !rest.is_empty() {
            if N::TIMED && self.is_free_first {
                self.turn_to_free_die(stream, cause);
            }
            let (first, pages) = match self.streams[stream].next_pages() {
                Some(run) => run,
                None => {
                    let (run, ready) = self.open_block(now, stream, cause)?;
                    now = ready;
                    run
                }
            };
            let run = &rest[..rest.len().min(pages as usize * per_page)];
            if N::TIMED && run.len() < rest.len() && is_for_host(cause) {
                self.prefetch_beyond(rest, run.len());
            }
            let result = self.nand.program(now, first, run, self.sequence, cause);
            let written = match result {
                Ok(_) => run.len(),
                Err(failed) => failed.programmed as usize * per_page,
            };
            let block = self.nand.geometry().block_of_page(first);
            let pages = if per_page == 1 { written } else { written.div_ceil(per_page) } as u32;
            let ppa = self.nand.geometry().first_unit_of_page(first);
            self.sequence += u64::from(pages) + 1;
            self.blocks.programmed(block, ppa, written as u32);
            settle(self, &run[..written], ppa);
            rest = &rest[written..];
            let done = match result {
                Ok(done) => {
                    if N::TIMED {
                        whens.push(done);
                    }
                    if self.streams[stream].advance(pages) {
                        self.close(block);
                    }
                    done
                }
                Err(failed) => {
                    self.retire(stream, block);
                    now = failed.at;
                    failed.at
                }
            };
            self.store.data_programmed(&mut self.nand, done);
            if self.store.journal().is_some() {
                // The host does not wait for it; a flush will.
                self.commit_if_full(now)?;
            }
        }
        if N::TIMED {
            // Each of them has waited for what was to come before.
            finished = match whens[..] {
                [] => finished,
                [only] => only,
                _ => self.nand.timing_mut().all(&whens),
            };
            self.whens = whens;
        }
        Ok(finished)
    }

    /// Fetches what will be touched for units that are written after the first `run` of `units`.
    #[inline]
    fn prefetch_beyond(&self, units: &[Unit<N::Payload>], run: usize) {
        let beyond = |ahead: usize| units.iter().skip(run.max(ahead)).take(run);
        beyond(ENTRY_AHEAD).for_each(|unit| self.prefetch_entry(unit.lpn));
        beyond(STATE_AHEAD).for_each(|unit| self.prefetch_state(unit.lpn));
    }

    /// [`PageMap::settle`] for units that the host has sent.
    #[inline(always)]
    pub(super) fn settle_host(&mut self, units: &[Unit<N::Payload>], first: Ppa) {
        self.settle(units, first);
        self.stats.host_units_written += units.len() as u64;
    }

    /// Maps units just written to the addresses from `first` on and invalidates their old versions.
    #[inline(always)]
    pub(super) fn settle(&mut self, units: &[Unit<N::Payload>], first: Ppa) {
        for (at, unit) in units.iter().enumerate() {
            if let Some(ahead) = units.get(at + ENTRY_AHEAD) {
                self.prefetch_entry(ahead.lpn);
            }
            if let Some(ahead) = units.get(at + STATE_AHEAD) {
                self.prefetch_state(ahead.lpn);
            }
            self.tick += 1;
            let ppa = first.plus(at as u32);
            self.policy.written(ppa, self.tick);
            if let Some(sharing) = &mut self.map.sharing {
                sharing.written(ppa, unit.lpn);
            }
            match self.map.set(unit.lpn, ppa) {
                Some(old) => self.release(unit.lpn, old),
                None => self.map.mapped += 1,
            }
        }
        if self.placement.is_some() {
            self.note_written(units, first);
        }
        if self.store.is_journaled() {
            self.note_run(units, first);
        }
    }

    /// Tells the placement of the units just written, from `first` on.
    fn note_written(&mut self, units: &[Unit<N::Payload>], first: Ppa) {
        let Some(placement) = &mut self.placement else { return };
        let tick = self.tick + 1 - units.len() as u64;
        for (tick, unit) in (tick..).zip(units) {
            placement.on_written(unit.lpn, tick);
        }
        self.note_placed(units, first);
    }

    /// Unmaps `lpn`.
    pub(super) fn unmap(&mut self, lpn: Lpn) {
        if let Some(old) = self.map.unset(lpn) {
            self.tick += 1;
            self.map.mapped -= 1;
            self.store.unmapped(lpn);
            self.note_unmapped(lpn);
            self.release(lpn, old);
        }
    }

    /// Gives up `old`, which the map entry of `lpn` held until now.
    #[inline(always)]
    fn release(&mut self, lpn: Lpn, old: Ppa) {
        match self.map.sharing.as_ref().and_then(|sharing| sharing.vpn(old)) {
            None => {
                if self.map.sharing.is_some() {
                    self.store.name_changed(lpn, false);
                }
                self.invalidate(old);
            }
            Some(vpn) => self.leave_shared(lpn, vpn),
        }
    }

    #[inline(always)]
    pub(super) fn invalidate(&mut self, ppa: Ppa) {
        let block = self.nand.geometry().block_of(ppa);
        let valid = self.blocks.invalidate(ppa, block);
        // Policies know nothing more of blocks that are being emptied.
        if N::TIMED && !self.background.is_idle() && self.blocks.state(block) == BlockState::Emptying {
            return;
        }
        self.policy.invalidated(ppa, block, valid, self.tick);
    }

    /// Gives the turn to the die with the least work waiting, of equal ones to the one whose turn it would be, unless
    /// the planes of a die are being filled.
    fn turn_to_free_die(&mut self, stream: StreamId, cause: Cause) {
        let (dies, planes) = (self.nand.geometry().dies(), self.nand.geometry().spec().planes_per_die);
        let frontier = &self.streams[stream];
        if !frontier.begins_row() {
            return;
        }
        let may_open = !is_for_host(cause) || self.blocks_for_host() >= planes;
        let timing = self.nand.timing();
        let has_cache_block = (stream == self.streams.table.slc).then(|| self.has_cache_block());
        let has_block = |plane| match &has_cache_block {
            Some(has) => has(plane),
            None => may_open && self.blocks.free.has(plane),
        };
        let backlog = |at: u32| match frontier.die_at(at, has_block) {
            Some(die) => timing.backlog(die),
            // Whatever block it opens belongs to a die that has its own pages to program.
            None => u32::MAX,
        };
        let first = frontier.die_in_turn();
        let mut best = (first, u32::MAX);
        for at in (first..dies).chain(0..first) {
            let backlog = backlog(at);
            if backlog < best.1 {
                best = (at, backlog);
            }
        }
        drop(has_cache_block);
        self.streams[stream].turn_to(best.0);
    }

    /// Makes sure the lane whose turn it is has an open block, collecting garbage first if the
    /// host needs it; returns the next pages, and when they may be programmed.
    #[inline(never)]
    pub(super) fn open_block(
        &mut self,
        now: When,
        stream: StreamId,
        cause: Cause,
    ) -> Result<((Ppn, u32), When), FtlError> {
        if self.nand.is_stopped() {
            self.heed_stop()?;
        }
        let mut ready = now;
        if is_for_host(cause) && stream != self.streams.table.slc && self.must_collect() {
            // The world stands still until it is done.
            ready = self.collect(now)?;
        }
        loop {
            // Collection may have written to this very stream, and passed the turn on.
            if let Some(run) = self.streams[stream].next_pages() {
                return Ok((run, ready));
            }
            let Some(block) = self.next_block(stream) else {
                // What is kept for copies of victims under way is enough for them, but not for a block on every plane; and
                // power cuts in collections, one after the other, may have left less than that.
                // The SLC cache goes on as far as it can.
                let is_cached = stream == self.streams.table.slc;
                if (is_cached || !is_for_host(cause) || !self.background.is_idle())
                    && self.streams[stream].turn_to_open_lane()
                {
                    continue;
                }
                // The reserve suffices unless media fail: then blocks leave service without being replaced.
                return Err(self.end_of_life.insert(FtlError::OutOfBlocks).clone());
            };
            self.blocks.open(block, stream);
            self.log_opened(block, stream);
            if let Some(leveler) = &mut self.leveler
                && !self.slc.as_ref().is_some_and(|slc| slc.is_static(block))
            {
                leveler.left(block);
            }
            self.policy.opened(block, self.nand.block(block).erase_count, self.tick);
            if let Some(placement) = &mut self.placement {
                placement.on_opened(block, stream, self.tick);
            }
            let place = |block| self.nand.geometry().place_of_block(block);
            let erased = self.nand.timing().last_program(|| place(block));
            let last = self.streams[stream].last_block(self.nand.geometry());
            let full = last.map_or(When::START, |last| self.nand.timing().last_program(|| place(last)));
            self.streams[stream].open(block, self.nand.geometry());
            match &mut self.store {
                MapStore::Memory => {}
                MapStore::Journaled(journal) => {
                    // Recovery looks for pages in the blocks that the last epoch has named, and takes all that it finds
                    // there for new.
                    journal.blocks_changed();
                    let named = self.nand.both(now, erased);
                    let committed = self.commit(named)?;
                    ready = self.nand.both(ready, committed);
                }
                MapStore::Paged(translation) => {
                    // Recovery goes on in blocks that are not full, no more than there are lanes.
                    ready = self.nand.both(ready, full);
                    if stream == self.streams.table.translation {
                        translation.blocks.push(block);
                    }
                }
            }
        }
    }

    /// An erased block for the lane of `stream` whose turn it is.
    fn next_block(&mut self, stream: StreamId) -> Option<BlockId> {
        let plane = self.streams[stream].wanted_plane();
        if stream == self.streams.table.slc {
            return self.take_cache_block(plane);
        }
        let block = self.blocks.free.take(plane, self.wanted(stream))?;
        if self.slc.is_some() {
            // A power cut may have left it in another.
            self.nand.set_mode(block, CellMode::Normal);
        }
        Some(block)
    }

    /// True if too few blocks are erased, or some must leave service.
    pub(super) fn must_collect(&self) -> bool {
        self.blocks.free.count() < self.min_free_blocks || !self.blocks.retiring.is_empty()
    }

    /// Returns the choice of erased block for `stream`.
    fn wanted(&self, stream: StreamId) -> Want {
        if self.leveler.is_some() && stream == self.streams.table.wear {
            return Want::Worn;
        }
        let is_cold = self.placement.as_ref().is_some_and(|placement| placement.is_cold(stream));
        match self.config.allocation {
            Allocation::Fifo => Want::Next,
            Allocation::Adaptive if is_cold => Want::Worn,
            Allocation::AboveAverage if is_cold => Want::Above(self.blocks.mean_erases()),
            Allocation::LeastErased | Allocation::Adaptive | Allocation::AboveAverage => Want::Young,
        }
    }

    #[inline(never)]
    pub(super) fn close(&mut self, block: BlockId) {
        self.log_closed(block);
        if self.slc.is_some() && self.close_cached(block) {
            return;
        }
        self.blocks.states[block.index()] = BlockState::Closed;
        if let Some(leveler) = &mut self.leveler {
            leveler.closed(block);
        }
        self.policy.closed(block, self.blocks.valid[block.index()], self.tick);
        self.note_closed(block);
    }

    /// Programs `first`, which is next on `stream`, with padding. Its number is 0, as that of a page that was cut short: to
    /// the recovery of a demand-paged map a page that has another one and holds nothing is one whose program has failed, and
    /// its block has to leave service.
    #[cold]
    pub(super) fn pad(&mut self, now: When, stream: StreamId, first: Ppn) -> When {
        let block = self.nand.geometry().block_of_page(first);
        match self.nand.program(now, first, &[], 0, Cause::Pad) {
            Ok(done) => {
                if self.streams[stream].advance(1) {
                    self.close(block);
                }
                done
            }
            Err(failed) => {
                self.retire(stream, block);
                failed.at
            }
        }
    }

    /// Gives up `block`, open on `stream`, after a failed program.
    #[cold]
    pub(super) fn retire(&mut self, stream: StreamId, block: BlockId) {
        self.stats.gc.program_failures += 1;
        self.streams[stream].abandon();
        self.blocks.retire(block);
        self.store.blocks_changed();
    }
}
