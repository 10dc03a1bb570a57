//! Programs pages, opens and closes blocks, maps units and invalidates old versions.

use std::cell::LazyCell;

use strobe_nand::{Cause, Nand, Timing, Unit, When};
use strobe_types::{BlockId, CellMode, Lpn, Ppa, Ppn};

use crate::free::Want;
use crate::gc::{Allocation, VictimPolicy};
use crate::map::page::core::Core;
use crate::map::page::core::blocks::BlockState;
use crate::map::page::map::store::MapStore;
use crate::place::{StreamId, WriteContext};
use crate::scan::numbered;
use crate::{Done, FtlError};

/// Prefetch distance in units: first the map entry, later the state of the old version's block.
pub(crate) const ENTRY_AHEAD: usize = 24;
const STATE_AHEAD: usize = 10;

/// True for programs of host data. These must leave erased blocks for relocation.
fn is_for_host(cause: Cause) -> bool {
    matches!(cause, Cause::Host | Cause::Copy | Cause::Cache)
}

/// Sorts `units` by stream, stably. Each stream gets whole pages of `per_page` units. Left-over units join
/// the first stream, ahead of that stream's units.
pub(crate) fn fill_pages<T>(units: &mut Vec<(StreamId, T)>, per_page: usize) {
    let Some(first) = units.iter().map(|&(to, _)| to).min() else { return };
    if per_page == 1 {
        units.sort_by_key(|&(to, _)| to);
        return;
    }
    let mut left = [0_usize; u8::MAX as usize + 1];
    for (to, _) in units.iter() {
        left[to.index()] += 1;
    }
    // Number of each stream's units that fill whole pages. Later units of the stream are left over.
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

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    /// Stream of `units[at]`. Also prefetches state for later units. No unit of `units` has advanced the tick
    /// yet.
    #[inline]
    pub(crate) fn stream_among(
        &mut self,
        units: &[Unit<N::Payload>],
        at: usize,
        context: WriteContext,
    ) -> StreamId {
        if let Some(ahead) = units.get(at + ENTRY_AHEAD) {
            self.policies.prefetch(ahead.lpn);
        }
        // `settle` prefetches only within a run, and a run ends where the stream changes.
        self.prefetch_ahead(units, at);
        self.stream_for(units[at].lpn, context, at as u64)
    }

    /// Stream of the host write of `lpn`. `ahead` earlier units have not advanced the tick yet.
    pub(crate) fn stream_for(&mut self, lpn: Lpn, context: WriteContext, ahead: u64) -> StreamId {
        self.policies.stream_for(lpn, context, self.tick + 1 + ahead)
    }

    /// Programs `units` on `stream` in runs of pages. `settle` maps the units of a run, given its first
    /// address.
    #[inline(always)]
    pub(crate) fn write_pages(
        &mut self,
        now: When,
        stream: StreamId,
        cause: Cause,
        units: &[Unit<N::Payload>],
        mut reclaim: impl FnMut(&mut Self, When) -> Done,
        mut settle: impl FnMut(&mut Self, &[Unit<N::Payload>], Ppa),
    ) -> Done {
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
            if N::TIMED && self.streams.is_free_first {
                self.turn_to_free_die(stream, cause);
            }
            if self.streams.is_by_address {
                self.streams[stream].turn_to_address(rest[0].lpn.get() / per_page as u32);
            }
            let (first, pages) = match self.streams[stream].next_pages() {
                Some(run) => run,
                None => {
                    let (run, ready) = self.open_block(now, stream, cause, &mut reclaim)?;
                    now = ready;
                    run
                }
            };
            let run = &rest[..rest.len().min(pages as usize * per_page)];
            if N::TIMED && run.len() < rest.len() && is_for_host(cause) {
                self.prefetch_beyond(rest, run.len());
            }
            let number = numbered(self.sequence, self.streams.handles.is_some().then_some(stream));
            let result = self.nand.program(now, first, run, number, cause);
            let written = match result {
                Ok(_) => run.len(),
                Err(failed) => failed.programmed as usize * per_page,
            };
            // Pages before a failed one are on flash: their units are mapped, the others are written again.
            let block = self.nand.geometry().block_of_page(first);
            let pages = if per_page == 1 { written } else { written.div_ceil(per_page) } as u32;
            let ppa = self.nand.geometry().first_unit_of_page(first);
            // One number more than pages, as a failed page has consumed a number as well.
            self.sequence += u64::from(pages) + 1;
            // Statistics and reclaim units count the failed page as programmed.
            let used = u64::from(pages) + u64::from(result.is_err());
            self.streams.programmed(stream, used, if is_for_host(cause) { written as u64 } else { 0 });
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
            self.data_programmed(done);
            if self.store.journal().is_some() {
                // A flush waits for this epoch, but the host write does not.
                self.commit_if_full(now)?;
            }
        }
        if N::TIMED {
            // Each completion time includes the waits before its program, so merging these times suffices.
            finished = match whens[..] {
                [] => finished,
                [only] => only,
                _ => self.nand.timing_mut().all(&whens),
            };
            self.whens = whens;
        }
        Ok(finished)
    }

    #[inline(always)]
    pub(crate) fn prefetch_entry(&self, lpn: Lpn) {
        self.map.prefetch(lpn);
    }

    #[inline]
    pub(crate) fn prefetch_state(&self, lpn: Lpn) {
        if let Some(old) = self.map.find(lpn) {
            let block = self.nand.geometry().block_of(old);
            self.blocks.prefetch(old, block);
            self.policies.victims.prefetch(block);
        }
    }

    #[inline(always)]
    pub(crate) fn prefetch_ahead(&self, units: &[Unit<N::Payload>], at: usize) {
        if let Some(ahead) = units.get(at + ENTRY_AHEAD) {
            self.prefetch_entry(ahead.lpn);
        }
        if let Some(ahead) = units.get(at + STATE_AHEAD) {
            self.prefetch_state(ahead.lpn);
        }
    }

    #[inline]
    fn prefetch_beyond(&self, units: &[Unit<N::Payload>], run: usize) {
        let beyond = |ahead: usize| units.iter().skip(run.max(ahead)).take(run);
        beyond(ENTRY_AHEAD).for_each(|unit| self.prefetch_entry(unit.lpn));
        beyond(STATE_AHEAD).for_each(|unit| self.prefetch_state(unit.lpn));
    }

    #[inline(always)]
    pub(crate) fn settle_host(&mut self, units: &[Unit<N::Payload>], first: Ppa) {
        self.settle(units, first);
        self.stats.host_units_written += units.len() as u64;
    }

    /// Maps units just written to addresses from `first` and invalidates their old versions.
    #[inline(always)]
    pub(crate) fn settle(&mut self, units: &[Unit<N::Payload>], first: Ppa) {
        for (at, unit) in units.iter().enumerate() {
            self.prefetch_ahead(units, at);
            self.tick += 1;
            let ppa = first.plus(at as u32);
            self.policies.victims.written(ppa, self.tick);
            if let Some(sharing) = &mut self.map.sharing {
                sharing.written(ppa, unit.lpn);
            }
            match self.map.set(unit.lpn, ppa) {
                Some(old) => self.release(unit.lpn, old),
                None => self.map.mapped += 1,
            }
        }
        if self.policies.placement.is_some() {
            self.policies.on_written(units, self.tick);
            self.policies.on_placed(units, self.nand.geometry().block_of(first), self.config.logical_units);
        }
        if self.store.is_journaled() {
            self.record_run(units, first);
        }
    }

    pub(crate) fn unmap(&mut self, lpn: Lpn) {
        if let Some(old) = self.map.unset(lpn) {
            self.tick += 1;
            self.map.mapped -= 1;
            self.store.unmapped(lpn);
            self.policies.on_unmapped(lpn);
            self.release(lpn, old);
        }
    }

    #[inline(always)]
    fn release(&mut self, lpn: Lpn, old: Ppa) {
        match self.map.sharing.as_ref().and_then(|sharing| sharing.vpn(old)) {
            None => {
                if self.map.sharing.is_some() {
                    self.store.record_name(lpn, false);
                }
                self.invalidate(old);
            }
            // A shared unit stays valid for its other owner.
            Some(vpn) => self.leave_shared(lpn, vpn),
        }
    }

    #[inline(always)]
    pub(crate) fn invalidate(&mut self, ppa: Ppa) {
        let block = self.nand.geometry().block_of(ppa);
        let valid = self.blocks.invalidate(ppa, block);
        // The victim policy no longer tracks a block that is being emptied.
        if N::TIMED && self.blocks.is_being_emptied(block) {
            return;
        }
        self.policies.victims.invalidated(ppa, block, valid, self.tick);
    }

    /// Gives the turn to the die with the shortest backlog, among equals to the next in turn.
    fn turn_to_free_die(&mut self, stream: StreamId, cause: Cause) {
        let (dies, planes) = (self.nand.geometry().dies(), self.nand.geometry().spec().planes_per_die);
        let frontier = &self.streams[stream];
        // A row of pages, one on each plane of a die, is completed on its die first.
        if !frontier.begins_row() {
            return;
        }
        // The host opens no row of blocks if it would then have to complete the victims in progress. Most dies have
        // their blocks open, so this is rarely asked.
        let may_open = LazyCell::new(|| {
            let has_row = || {
                self.blocks_for_host(0) >= planes
                    && self.leaves_copies(0, self.blocks.free.count().saturating_sub(planes))
            };
            !self.streams.stays_open && (!is_for_host(cause) || has_row())
        });
        let timing = self.nand.timing();
        let has_cache_block = self.streams.table.is_slc(stream).then(|| self.has_cache_block());
        let has_block = |plane| match &has_cache_block {
            Some(has) => has(plane),
            None => *may_open && self.blocks.free.has(plane),
        };
        let backlog = |at: u32| match frontier.die_at(at, has_block) {
            Some(die) => timing.backlog(die),
            // A plane of this die has no open and no erased block. The stream would open a block on another
            // die and queue behind the programs there.
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

    /// Opens a block on the lane in turn. For host data, collects garbage first if necessary. Returns the
    /// next pages and the earliest time to program them.
    #[inline(never)]
    pub(crate) fn open_block(
        &mut self,
        now: When,
        stream: StreamId,
        cause: Cause,
        reclaim: &mut dyn FnMut(&mut Self, When) -> Done,
    ) -> Result<((Ppn, u32), When), FtlError> {
        if self.nand.is_stopped() {
            self.check_stop()?;
        }
        let mut ready = now;
        if is_for_host(cause) {
            self.space.group = self.streams.table.group_of(stream);
        }
        if is_for_host(cause) && !self.streams.table.is_slc(stream) && self.is_short() {
            match self.take_over(stream) {
                Some(full) => ready = self.nand.both(now, full),
                // Stop-the-world collection.
                None => ready = reclaim(self, now)?,
            }
        }
        loop {
            // Collection may have written to this stream and passed the turn on.
            if let Some(run) = self.streams[stream].next_pages() {
                return Ok((run, ready));
            }
            if !is_for_host(cause)
                && self.keeps_last_blocks(stream)
                && self.streams[stream].turn_to_open_lane()
            {
                continue;
            }
            let Some(block) = self.next_block(stream) else {
                // No erased block is left. The reserve covers the copies of victims in progress, but not a
                // new block on each plane; repeated power cuts may have reduced it. A copy, or a host write
                // during background collection, then continues on a lane with an open block. So does the SLC
                // cache.
                let is_cached = self.streams.table.is_slc(stream);
                if (is_cached || !is_for_host(cause) || self.blocks.emptying > 0)
                    && self.streams[stream].turn_to_open_lane()
                {
                    continue;
                }
                // Only media failures exhaust the reserve: they retire blocks without replacement.
                return Err(self.end_of_life.insert(FtlError::OutOfBlocks).clone());
            };
            self.blocks.open(block, stream);
            self.log().opened(block, stream);
            let is_leveled = !self.slc.as_ref().is_some_and(|slc| slc.is_static(block));
            let erases = self.nand.block(block).erase_count;
            self.policies.on_opened(block, stream, erases, is_leveled, self.tick);
            let place = |block| self.nand.geometry().place_of_block(block);
            let erased = self.nand.timing().last_program(|| place(block));
            let full = self.last_block_full(stream);
            self.streams[stream].open(block, self.nand.geometry());
            match &mut self.store {
                MapStore::Memory => {}
                MapStore::Journaled(journal) => {
                    // Recovery scans the blocks that the last epoch names as open, and takes every page in
                    // them as new. So this epoch ends after the block's erase and before its first program.
                    journal.blocks_changed();
                    let named = self.nand.both(now, erased);
                    let committed = self.commit(named)?;
                    ready = self.nand.both(ready, committed);
                }
                MapStore::Paged(translation) => {
                    // Recovery resumes at most one partly filled block per lane. So the lane's previous block
                    // must be full on flash before this one is programmed.
                    ready = self.nand.both(ready, full);
                    if stream == self.streams.table.translation {
                        translation.blocks.push(block);
                    } else if self.streams.table.is_of_host(stream) && is_for_host(cause) {
                        translation.record_exchange();
                    }
                }
            }
        }
    }

    /// Continues a host `stream` in a block that relocation has left partly filled, if the placement allows
    /// this. Returns the time when the previous block of the lane is full on flash.
    fn take_over(&mut self, stream: StreamId) -> Option<When> {
        // Copies of victims in progress still go to that block.
        if !self.policies.hands_over() || self.blocks.emptying > 0 {
            return None;
        }
        let mut copies = self.streams.table.copies_alone();
        let from = copies.find(|&from| self.streams[from].turn_to_open_lane())?;
        let open = self.streams[from].hand_over(self.nand.geometry())?;
        // Recovery expects at most one partly filled block per lane.
        let full = self.last_block_full(stream);
        self.streams[stream].take_over(open, self.nand.geometry());
        self.blocks.open(open.0, stream);
        self.log().opened(open.0, stream);
        // The last epoch still names the previous block of this lane as open. That block may be the next
        // victim, so a new epoch must end before its erase.
        self.store.blocks_changed();
        Some(full)
    }

    fn last_block_full(&self, stream: StreamId) -> When {
        let geometry = self.nand.geometry();
        let last = self.streams[stream].last_block(geometry);
        last.map_or(When::START, |last| self.nand.timing().last_program(|| geometry.place_of_block(last)))
    }

    fn next_block(&mut self, stream: StreamId) -> Option<BlockId> {
        let plane = self.streams[stream].wanted_plane();
        if self.streams.table.is_slc(stream) {
            return self.take_cache_block(stream, plane);
        }
        let planes = self.space.groups.planes(self.streams.table.group_of(stream));
        let block = self.blocks.free.take_within(plane, planes, self.wanted(stream))?;
        if self.slc.is_some() {
            // A power cut may have left the block in SLC mode.
            self.nand.set_mode(block, CellMode::Normal);
        }
        Some(block)
    }

    fn wanted(&self, stream: StreamId) -> Want {
        if self.policies.leveler.is_some() && stream == self.streams.table.wear {
            return Want::Worn;
        }
        let is_cold = self.policies.is_cold(stream);
        match self.config.allocation {
            Allocation::Fifo => Want::Next,
            Allocation::Adaptive if is_cold => Want::Worn,
            Allocation::AboveAverage if is_cold => Want::Above(self.blocks.mean_erases()),
            Allocation::LeastErased | Allocation::Adaptive | Allocation::AboveAverage => Want::FewestErases,
        }
    }

    #[inline(never)]
    pub(crate) fn close(&mut self, block: BlockId) {
        self.log().closed(block);
        if self.slc.is_some() && self.close_cached(block) {
            return;
        }
        self.blocks.states[block.index()] = BlockState::Closed;
        if let Some(log) = &mut self.streams.log {
            log.closed(block, self.tick);
        }
        self.store.owners_changed(block);
        let closed = self.copy_context(block);
        self.policies.on_closed(&closed, self.blocks.valid[block.index()]);
    }

    /// Programs `first`, the next page of `stream`, with padding or with metadata whose bytes are not
    /// modelled.
    #[cold]
    pub(crate) fn pad(&mut self, now: When, stream: StreamId, first: Ppn, cause: Cause) -> When {
        let block = self.nand.geometry().block_of_page(first);
        self.streams.programmed(stream, 1, 0);
        // Sequence number 0, as of a page whose program was cut short. Recovery takes a page without owners
        // and with another number as a failed program, and retires its block.
        match self.nand.program(now, first, &[], 0, cause) {
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

    #[cold]
    pub(crate) fn pad_out(&mut self, now: When, stream: StreamId) -> When {
        let mut finished = now;
        while self.streams[stream].turn_to_open_lane() {
            let Some((first, _)) = self.streams[stream].next_pages() else { break };
            let done = self.pad(now, stream, first, Cause::Pad);
            self.store.data_programmed(&mut self.nand, done);
            finished = self.nand.both(finished, done);
        }
        finished
    }

    /// Gives up `block` after a failed program.
    #[cold]
    pub(crate) fn retire(&mut self, stream: StreamId, block: BlockId) {
        self.stats.gc.program_failures += 1;
        self.streams[stream].abandon();
        self.blocks.retire(block);
        self.store.blocks_changed();
    }
}
