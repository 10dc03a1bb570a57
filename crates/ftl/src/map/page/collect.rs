//! Emptying blocks: garbage collection, wear levelling, blocks that must leave service.
//!
//! Policies choose (victims, temperatures, which block to level); everything that touches flash
//! is here.

use strobe_nand::{Cause, Nand, Unit, When};
use strobe_types::{BlockId, Ppa, Ppn};

use super::compact::Compaction;
use super::write::fill_pages;
use super::{BlockState, HOST, MapStore, PageMap, Relocated, Scratch, StreamId};
use crate::FtlError;
use crate::gc::VictimPolicy;

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// Frees blocks until enough are at hand, then levels wear. Erases wait for the copies they
    /// depend on; nothing here waits for the host. Returns when the last erase is done.
    pub(super) fn collect(&mut self, now: When) -> Result<When, FtlError> {
        self.finish_background()?;
        if !self.must_collect() {
            return Ok(now);
        }
        self.stats.gc.runs += 1;
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = self.collect_with(now, &mut scratch);
        self.scratch = scratch;
        let finished = result?;
        self.refuse_at_end_of_life()?;
        Ok(if self.config.pad_moved { self.pad_moved(finished) } else { finished })
    }

    /// Fills what is left of the blocks that victims were moved to. When the last page is done.
    #[cold]
    fn pad_moved(&mut self, now: When) -> When {
        let mut finished = now;
        for stream in self.streams.table.copy_streams().filter(|&stream| stream != HOST) {
            while self.streams[stream].turn_to_open_lane() {
                let Some((first, _)) = self.streams[stream].next_pages() else { break };
                let done = self.pad(now, stream, first);
                self.store.data_programmed(&mut self.nand, done);
                finished = self.nand.both(finished, done);
            }
        }
        finished
    }

    fn collect_with(&mut self, now: When, scratch: &mut Scratch<N::Payload>) -> Result<When, FtlError> {
        let mut finished = now;
        loop {
            if !self.has_enough(self.min_free_blocks) {
                let next = self.gain_blocks(now, scratch)?;
                finished = self.nand.both(finished, next);
            }
            // A block to retire takes room and gives none back: only when there is some to spare.
            if !self.has_enough(self.min_free_blocks) {
                return Ok(finished);
            }
            let Some(&block) = self.blocks.retiring.last() else { break };
            scratch.victims.clear();
            scratch.victims.push(block);
            let copied = self.empty(now, Cause::Gc, scratch)?;
            let next = self.commit_copies(copied, scratch)?;
            finished = self.nand.both(finished, next);
            self.blocks.retiring.retain(|&retiring| retiring != block);
            self.take_out_of_service(block);
        }
        if self.leveler.is_some() {
            let next = self.level(now, scratch)?;
            finished = self.nand.both(finished, next);
        }
        Ok(finished)
    }

    /// Collects until `net_blocks` more, and at least `min_free_blocks`, are erased. Returns when
    /// the last erase is done.
    fn gain_blocks(&mut self, now: When, scratch: &mut Scratch<N::Payload>) -> Result<When, FtlError> {
        let target = self.min_free_blocks.max(self.blocks.free.count() + self.config.net_blocks.max(1));
        self.gain_to(target, now, scratch)
    }

    /// Collects until `target` blocks are erased. Returns when the last erase is done.
    pub(super) fn gain_to(
        &mut self,
        target: u32,
        now: When,
        scratch: &mut Scratch<N::Payload>,
    ) -> Result<When, FtlError> {
        let mut headway = self.headway();
        let mut finished = now;
        let mut compaction = Compaction::new(self.blocks.free.count());
        while !self.has_enough(target) {
            self.heed_stop()?;
            if self.store.is_paged() {
                let wanted = compaction.wanted(self.blocks.free.count(), target, self.nand.geometry());
                let next = self.compact_translation(now, wanted, scratch)?;
                finished = self.nand.both(finished, next);
                if self.has_enough(target) {
                    break;
                }
            }
            let valid = self.choose_victims(target, &mut scratch.victims);
            let victims = scratch.victims.len() as u32;
            if let Err(error) = self.count_victims(&mut headway, victims, valid) {
                for &victim in &scratch.victims {
                    self.put_back(victim);
                }
                return Err(error);
            }
            let copied = self.empty(now, Cause::Gc, scratch)?;
            let copied = self.commit_copies(copied, scratch)?;
            for &victim in &scratch.victims {
                let next = self.erase(copied, victim, Cause::Gc);
                finished = self.nand.both(finished, next);
            }
        }
        Ok(finished)
    }

    /// Whether `target` blocks are at hand.
    ///
    /// On a shared stream, copies leave room behind them in the block they opened last. The host
    /// goes on there, as in a plain log; gaining a whole block first would fill blocks with copies
    /// alone and so separate old data from new.
    pub(super) fn has_enough(&self, target: u32) -> bool {
        let shares_host = self.streams.table.shares_host();
        let left_open = u32::from(shares_host && self.streams[HOST].next_pages().is_some());
        self.blocks.free.count() + left_open >= target
    }

    /// Takes the next victim; if units are to be sorted over several, as many as it takes to have
    /// `target` erased blocks, or as can be written to the erased blocks at hand. Returns the
    /// number of their valid units.
    pub(super) fn choose_victims(&mut self, target: u32, victims: &mut Vec<BlockId>) -> u32 {
        victims.clear();
        let units_per_block = self.nand.geometry().units_per_block();
        let sorted = self.sorts_victims();
        if let Some(block) = self.cached_for_room() {
            // It gives more than half a block, whatever the policy would choose.
            self.take(block);
            victims.push(block);
            return self.blocks.valid[block.index()];
        }
        let mut units = 0;
        loop {
            let view = self.blocks.view(units_per_block, self.tick);
            let Some(victim) = self.policy.choose(&view, &mut self.rng) else { break };
            assert_eq!(self.blocks.state(victim), BlockState::Closed, "policy chose {victim:?}");
            let valid = self.blocks.valid[victim.index()];
            if !victims.is_empty() {
                // One erased block stays for a program that fails.
                let fits = self.blocks_to_write(units + valid) + self.blocks_to_update(units + valid)
                    < self.blocks.free.count();
                if !fits || valid == units_per_block {
                    break;
                }
            }
            self.take(victim);
            victims.push(victim);
            units += valid;
            let gained = self.blocks.free.count() + victims.len() as u32;
            if !sorted || gained >= target + self.blocks_to_write(units) - self.block_left_open(units) {
                break;
            }
        }
        units
    }

    /// Tells the policies, or the SLC cache, that the full `block` is about to be emptied.
    pub(super) fn take(&mut self, block: BlockId) {
        match self.blocks.state(block) {
            BlockState::Cached => return self.take_cached(block),
            _ => self.policy.taken(block),
        }
        if let Some(leveler) = &mut self.leveler {
            leveler.left(block);
        }
    }

    /// Erased blocks that sorted copies of `units` units take.
    fn blocks_to_write(&self, units: u32) -> u32 {
        let geometry = self.nand.geometry();
        let cold = units - units % self.stripe_of_blocks();
        let rest_pages = (units - cold).div_ceil(geometry.units_per_page());
        let hot = &self.streams[self.streams.table.first_copy()];
        let opened = match hot.lanes() {
            1 => u32::from(rest_pages > hot.pages_left()),
            lanes => rest_pages.min(lanes),
        };
        cold / geometry.units_per_block() + opened
    }

    /// 1 if sorted copies of `units` units surely leave the host a block to go on with, which then
    /// counts as gained.
    fn block_left_open(&self, units: u32) -> u32 {
        let geometry = self.nand.geometry();
        let hot = &self.streams[self.streams.table.first_copy()];
        if !self.streams.table.shares_host() || hot.lanes() > 1 {
            return 0;
        }
        let rest_pages = (units % self.stripe_of_blocks()).div_ceil(geometry.units_per_page());
        let pages = geometry.pages_per_block();
        u32::from(!(pages + hot.pages_left() - rest_pages).is_multiple_of(pages))
    }

    /// Units of one block on every lane.
    fn stripe_of_blocks(&self) -> u32 {
        self.streams[HOST].lanes() * self.nand.geometry().units_per_block()
    }

    /// Moves what little-worn blocks hold, one block for each collection.
    pub(super) fn level(&mut self, now: When, scratch: &mut Scratch<N::Payload>) -> Result<When, FtlError> {
        let Some(block) = self.leveler.as_mut().and_then(|leveler| leveler.choose()) else {
            return Ok(now);
        };
        assert_eq!(self.blocks.state(block), BlockState::Closed, "the leveler chose {block:?}");
        self.collect_one(now, Cause::Wear, block, scratch)
    }

    /// Empties and erases the closed `block`.
    pub(super) fn collect_one(
        &mut self,
        now: When,
        cause: Cause,
        block: BlockId,
        scratch: &mut Scratch<N::Payload>,
    ) -> Result<When, FtlError> {
        self.take(block);
        scratch.victims.clear();
        scratch.victims.push(block);
        let copied = self.empty(now, cause, scratch)?;
        let copied = self.commit_copies(copied, scratch)?;
        Ok(self.erase(copied, block, cause))
    }

    /// Moves the valid units of `scratch.victims` elsewhere. Returns when the last copy is on
    /// flash. If that fails, what has not been moved stays valid where it is.
    pub(super) fn empty(
        &mut self,
        now: When,
        cause: Cause,
        scratch: &mut Scratch<N::Payload>,
    ) -> Result<When, FtlError> {
        scratch.units.clear();
        scratch.chunk.clear();
        self.log_victims(cause, &scratch.victims);
        for &victim in &scratch.victims {
            self.show_victim(victim);
            self.blocks.take_units(victim, self.nand.geometry(), &mut scratch.units);
        }
        self.count_emptied(cause, scratch);
        let data = self.put_data_first(scratch);
        let mut now = now;
        if cause == Cause::Wear {
            scratch.placed.clear();
            scratch.placed.extend(scratch.units[..data].iter().map(|&unit| (self.streams.table.wear, unit)));
        } else {
            self.place_copies(data, scratch);
            if self.sorts_victims() {
                let cost = self.config.sort_cost;
                let ns = cost.call_ns + cost.unit_ns * data as u64;
                now = self.firmware.work(&mut self.nand, &mut self.stats.gc, now, ns);
            }
        }
        let tables = scratch.units[data..].iter().map(|&unit| (self.streams.table.translation, unit));
        scratch.placed.extend(tables);
        let moved = self.move_placed(now, cause, scratch);
        if moved.is_err() {
            self.keep_unmoved(cause, scratch);
        } else {
            for at in 0..scratch.victims.len() {
                self.forget_victim(scratch.victims[at]);
            }
        }
        moved
    }

    /// Counts the victims of `scratch` and their valid units.
    fn count_emptied(&mut self, cause: Cause, scratch: &Scratch<N::Payload>) {
        let (blocks, units) = (scratch.victims.len() as u64, scratch.units.len() as u64);
        let is_folded = scratch.victims.first().is_some_and(|&block| self.is_cached(block));
        if cause == Cause::Wear {
            self.stats.gc.wear_blocks += blocks;
            self.stats.gc.wear_units_moved += units;
        } else if is_folded {
            self.stats.slc().blocks_folded += blocks;
            self.stats.slc().units_folded += units;
        } else {
            self.stats.gc.victims += blocks;
            self.stats.gc.units_moved += units;
        }
    }

    /// True if the placement puts units of several victims in order together.
    pub(super) fn sorts_victims(&self) -> bool {
        self.placement.as_ref().is_some_and(|placement| placement.sorts_victims())
    }

    /// Shows the placement what the full `victim` holds, before any of it is moved.
    pub(super) fn show_victim(&mut self, victim: BlockId) {
        if self.placement.is_none() {
            return;
        }
        let from = self.copy_context(victim);
        let first = self.nand.geometry().first_unit(victim);
        let end = first.plus(self.nand.geometry().units_per_block());
        let Some(mut placement) = self.placement.take() else { return };
        let mut next = first;
        let mut valid = std::iter::from_fn(|| {
            let unit = self.blocks.validity.next(next, end)?;
            next = unit.plus(1);
            Some(self.owner_of(unit))
        });
        // Translation pages are not data.
        let mut data = valid.by_ref().filter(|lpn| lpn.get() < self.config.logical_units);
        placement.on_victim(&from, &mut data);
        self.placement = Some(placement);
    }

    /// Tells the placement that nothing is left in `victim`.
    pub(super) fn forget_victim(&mut self, victim: BlockId) {
        let from = self.copy_context(victim);
        if let Some(placement) = &mut self.placement {
            placement.on_collected(&from);
        }
    }

    /// Chooses the streams of the first `data` units of `scratch`, and puts them in their order.
    fn place_copies(&mut self, data: usize, scratch: &mut Scratch<N::Payload>) {
        let units = &scratch.units[..data];
        scratch.placed.clear();
        let first = self.streams.table.first_copy();
        let Some(mut placement) = self.placement.take() else {
            scratch.placed.extend(units.iter().map(|&unit| (first, unit)));
            return;
        };
        let relocated = |&unit: &Ppa| Relocated { unit, lpn: self.owner_of(unit), to: first };
        let mut arranged: Vec<Relocated> = units.iter().map(relocated).collect();
        placement.arrange(&mut arranged, &mut |unit| self.copy_context(self.nand.geometry().block_of(unit)));
        self.placement = Some(placement);
        scratch.placed.extend(arranged.iter().map(|unit| (unit.to, unit.unit)));
        fill_pages(&mut scratch.placed, self.nand.geometry().units_per_page() as usize);
    }

    /// Moves the units of `scratch.placed`, stream by stream. The first stream comes first: if it is shared with the
    /// host, it belongs to the block that the host is about to open, which so gets the youngest block before cold data
    /// does.
    fn move_placed(
        &mut self,
        now: When,
        cause: Cause,
        scratch: &mut Scratch<N::Payload>,
    ) -> Result<When, FtlError> {
        let mut finished = now;
        let Scratch { placed, units, chunk, .. } = scratch;
        // From here on in the order in which they are moved, for those that cannot be.
        units.clear();
        units.extend(placed.iter().map(|&(_, unit)| unit));
        let mut rest = &units[..];
        for run in placed.chunk_by(|a, b| a.0 == b.0) {
            let (these, behind) = rest.split_at(run.len());
            let moved = self.move_units(now, run[0].0, cause, these, chunk)?;
            finished = self.nand.both(finished, moved);
            rest = behind;
        }
        Ok(finished)
    }

    /// Copies `units` to `stream` in chunks: the reads of a chunk overlap, and its programs are
    /// issued together, so that planes and dies work in parallel.
    fn move_units(
        &mut self,
        now: When,
        stream: StreamId,
        cause: Cause,
        units: &[Ppa],
        chunk: &mut Vec<Unit<N::Payload>>,
    ) -> Result<When, FtlError> {
        let per_page = self.nand.geometry().units_per_page();
        let chunk_units = ((self.streams[stream].lanes() * per_page) as usize).max(Self::CHUNK_UNITS_MIN);
        let mut finished = now;
        let mut arrived = now;
        let mut copied = 0;
        let mut rest = units;
        while !rest.is_empty() {
            let page = self.nand.geometry().page_of(rest[0]);
            let on_page = if per_page == 1 { 1 } else { self.units_on_page(page, rest) };
            if let Some(&ahead) = rest.get(Self::CHUNK_UNITS_MIN) {
                self.nand.prefetch_oob(ahead);
            }
            let wanted = self.nand.wanted(rest[..on_page].iter().copied());
            let next = self.nand.read(now, page, wanted, cause).when;
            arrived = self.nand.both(arrived, next);
            for &ppa in &rest[..on_page] {
                let lpn = self.owner_of(ppa);
                self.map.prefetch(lpn);
                chunk.push(Unit { lpn, payload: self.nand.payload(ppa) });
            }
            rest = &rest[on_page..];
            if chunk.len() >= chunk_units || rest.is_empty() {
                // A page that is not full waits for the next chunk, unless there is none.
                let waits = if rest.is_empty() { 0 } else { chunk.len() % per_page as usize };
                let ready = chunk.len() - waits;
                let sources = &units[copied..copied + ready];
                let done = self.write_copies(arrived, stream, cause, &chunk[..ready], sources)?;
                finished = self.nand.both(finished, done);
                copied += ready;
                chunk.drain(..ready);
            }
        }
        Ok(finished)
    }

    /// Units that a chunk has at least: enough for their map entries to arrive in the cache
    /// between the read and the program.
    const CHUNK_UNITS_MIN: usize = 32;

    /// How many of `units` at its start lie on `page`.
    fn units_on_page(&self, page: Ppn, units: &[Ppa]) -> usize {
        units.iter().take_while(|&&unit| self.nand.geometry().page_of(unit) == page).count()
    }

    /// Undoes the invalidation of the units of victims that could not be moved.
    #[cold]
    fn keep_unmoved(&mut self, cause: Cause, scratch: &Scratch<N::Payload>) {
        let mut kept = 0;
        for &ppa in &scratch.units {
            if self.is_mapped_to(ppa) {
                self.blocks.set_valid(ppa, self.nand.geometry().block_of(ppa));
                kept += 1;
            }
        }
        match cause {
            _ if scratch.victims.first().is_some_and(|&block| self.is_cached(block)) => {
                self.stats.slc().units_folded -= kept;
            }
            Cause::Wear => self.stats.gc.wear_units_moved -= kept,
            _ => self.stats.gc.units_moved -= kept,
        }
        self.keep_victims(scratch);
    }

    /// Makes the copies of what the victims hold, to which the last epoch refers, what the map on flash
    /// refers to. If that fails, the victims stay as they are.
    pub(super) fn commit_copies(
        &mut self,
        copied: When,
        scratch: &Scratch<N::Payload>,
    ) -> Result<When, FtlError> {
        let done = self.update_moved(copied).and_then(|updated| self.commit(updated));
        if done.is_err() {
            self.keep_victims(scratch);
        }
        done
    }

    /// The victims are not to be erased, and no candidates any more.
    #[cold]
    fn keep_victims(&mut self, scratch: &Scratch<N::Payload>) {
        for &victim in &scratch.victims {
            self.blocks.retire(victim);
        }
    }

    /// Programs a chunk and points its owners to the copies. Apart from the loop that reads: together they have more at
    /// hand than the processor has registers.
    #[inline(never)]
    fn write_copies(
        &mut self,
        now: When,
        stream: StreamId,
        cause: Cause,
        units: &[Unit<N::Payload>],
        sources: &[Ppa],
    ) -> Result<When, FtlError> {
        self.pass_losses_on(units, sources.iter().copied())?;
        let mut sources = sources.iter();
        self.write_pages(now, stream, cause, units, |ftl, run, first| {
            for (at, (unit, &source)) in (0..).zip(run.iter().zip(&mut sources)) {
                ftl.remap(unit.lpn, source, first.plus(at));
                ftl.policy.written(first.plus(at), ftl.tick);
            }
            match &mut ftl.store {
                MapStore::Memory => {}
                MapStore::Journaled(_) => ftl.note_run(run, first),
                MapStore::Paged(translation) => {
                    for (at, unit) in (0..).zip(run) {
                        // Of a unit that is shared no map entry changes.
                        if ftl.map.get(unit.lpn) == Some(first.plus(at)) {
                            translation.moved(unit.lpn);
                        }
                    }
                }
            }
        })
    }

    pub(super) fn erase(&mut self, now: When, block: BlockId, cause: Cause) -> When {
        self.store.block_left(block);
        if N::TIMED {
            let geometry = self.nand.geometry();
            let first = geometry.first_unit(block);
            self.background.forget(first, first.plus(geometry.units_per_block()));
        }
        match self.nand.erase(now, block, cause) {
            Ok(done) => {
                self.blocks.erased();
                self.note_cache_erase(block);
                self.block_is_erased(block);
                done
            }
            Err(failed) => {
                self.take_out_of_service(block);
                failed.at
            }
        }
    }

    #[cold]
    pub(super) fn take_out_of_service(&mut self, block: BlockId) {
        self.nand.mark_bad(block);
        self.log_retired(block);
        self.leave_cache(block);
        self.blocks.is_lost(block, self.nand.block(block).erase_count);
        self.store.block_left(block);
        if let Some(leveler) = &mut self.leveler
            && !self.slc.as_ref().is_some_and(|slc| slc.is_static(block))
        {
            leveler.bad(block);
        }
        self.stats.bad_block_host_writes.push(self.stats.host_units_written);
        self.retire_if_worn_out();
    }
}
