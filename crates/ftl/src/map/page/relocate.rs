//! Relocation: moving the valid units of blocks elsewhere, and giving the blocks back.
//!
//! Garbage collection, wear levelling, refresh, folding of the SLC cache, compaction of translation pages and
//! retirement of bad blocks differ in the blocks that they choose, and in nothing else. Each relocation goes through
//! the same steps:
//!
//! 1. The policy, the leveler or the SLC cache is told that the victims are no candidates any more
//!    ([`PageMap::take`]).
//! 2. The placement chooses the stream of each valid unit (`place_copies`).
//! 3. The units are read and programmed, stream by stream (`move_units`), and the map points to the copies.
//! 4. The map on flash is brought up to date (`commit_copies`): nothing is erased before.
//! 5. The victims are erased, or taken out of service.
//!
//! A relocation here runs to completion: the host waits for it, or its whole time is issued at once. `background/` does
//! the same in steps. If a step fails, units that have not been moved stay valid where they are, and the victims are
//! not erased.

use strobe_nand::{Cause, Nand, Unit, When};
use strobe_types::{BlockId, Ppa, Ppn};

use super::write::fill_pages;
use super::{MapStore, PageMap, Relocated, StreamId};
use crate::gc::VictimPolicy;
use crate::{Done, FtlError};

/// Reason of a relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Room for new data: garbage collection.
    Collect,
    /// A victim that was begun in the background, and cannot wait any longer.
    Finish,
    /// A block that is worn too little, for static wear levelling.
    Wear,
    /// A block that has been read too often, or has lain too long.
    Refresh,
    /// A block of the SLC cache.
    Fold,
    /// Translation pages that belong together.
    Compact,
    /// A block with a failed program, which leaves service.
    Retire,
}

impl Reason {
    /// Cause under which its flash operations are counted.
    fn cause(self) -> Cause {
        if self == Self::Wear { Cause::Wear } else { Cause::Gc }
    }
}

/// A relocation at work, with buffers that are kept to spare the allocator.
#[derive(Clone, Debug)]
pub(super) struct Relocation<P> {
    /// Blocks to be emptied.
    pub(super) victims: Vec<BlockId>,
    /// Units to move, in the order of their streams.
    pub(super) units: Vec<Ppa>,
    /// Streams, and the number of units that go to each.
    pub(super) runs: Vec<(StreamId, usize)>,
    /// Units that have been read.
    pub(super) chunk: Vec<Unit<P>>,
}

impl<P> Default for Relocation<P> {
    fn default() -> Self {
        Self { victims: Vec::new(), units: Vec::new(), runs: Vec::new(), chunk: Vec::new() }
    }
}

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// Empties the closed `block`, which no policy has chosen, and gives it back.
    pub(super) fn relocate_block(&mut self, now: When, reason: Reason, block: BlockId) -> Done {
        if reason != Reason::Retire {
            self.take(block);
        }
        self.relocation.victims.clear();
        self.relocation.victims.push(block);
        self.relocate(now, reason)
    }

    /// Empties the blocks of `self.relocation.victims`, which have been taken, and gives them back. Returns when the last
    /// of them is erased.
    pub(super) fn relocate(&mut self, now: When, reason: Reason) -> Done {
        let mut task = std::mem::take(&mut self.relocation);
        if reason != Reason::Finish {
            self.log_victims(reason.cause(), &task.victims);
        }
        let emptied = self.empty(now, reason.cause(), &mut task);
        let emptied = emptied.and_then(|copied| self.commit_copies(copied, &task));
        let done = emptied.map(|copied| {
            let mut finished = copied;
            for &victim in &task.victims {
                if reason == Reason::Retire {
                    self.blocks.retiring.retain(|&retiring| retiring != victim);
                    self.take_out_of_service(victim);
                } else {
                    let erased = self.erase(copied, victim, reason.cause());
                    finished = self.nand.both(finished, erased);
                }
            }
            finished
        });
        if done.is_ok() && reason == Reason::Refresh {
            self.stats.gc.refreshed_blocks += 1;
        }
        self.relocation = task;
        done
    }

    /// Moves the valid units of `task.victims` elsewhere. Returns when the last copy is on
    /// flash. If that fails, what has not been moved stays valid where it is.
    fn empty(
        &mut self,
        now: When,
        cause: Cause,
        task: &mut Relocation<N::Payload>,
    ) -> Result<When, FtlError> {
        task.units.clear();
        task.chunk.clear();
        for &victim in &task.victims {
            self.show_victim(victim);
            self.blocks.take_units(victim, self.nand.geometry(), &mut task.units);
        }
        self.count_emptied(cause, task);
        let data = self.put_data_first(task);
        task.runs.clear();
        if cause == Cause::Wear {
            task.runs.push((self.streams.table.wear, data));
        } else {
            self.place_copies(data, task);
        }
        task.runs.push((self.streams.table.translation, task.units.len() - data));
        let moved = self.move_placed(now, cause, task);
        if moved.is_err() {
            self.keep_unmoved(cause, task);
        } else {
            for at in 0..task.victims.len() {
                self.forget_victim(task.victims[at]);
            }
        }
        moved
    }

    /// Counts the victims of `task` and their valid units.
    fn count_emptied(&mut self, cause: Cause, task: &Relocation<N::Payload>) {
        let (blocks, units) = (task.victims.len() as u64, task.units.len() as u64);
        let is_folded = task.victims.first().is_some_and(|&block| self.is_cached(block));
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

    /// Chooses the streams of the first `data` units of `task`, and puts them in their order.
    fn place_copies(&mut self, data: usize, task: &mut Relocation<N::Payload>) {
        let first = self.streams.table.first_copy();
        let Some(mut placement) = self.placement.take() else {
            task.runs.push((first, data));
            return;
        };
        let relocated = |&unit: &Ppa| Relocated { unit, lpn: self.owner_of(unit), to: first };
        let mut arranged: Vec<Relocated> = task.units[..data].iter().map(relocated).collect();
        placement.arrange(&mut arranged, &mut |unit| self.copy_context(self.nand.geometry().block_of(unit)));
        self.placement = Some(placement);
        let mut placed: Vec<(StreamId, Ppa)> = arranged.iter().map(|unit| (unit.to, unit.unit)).collect();
        fill_pages(&mut placed, self.nand.geometry().units_per_page() as usize);
        // From here on in the order in which they are moved, for those that cannot be.
        task.units.iter_mut().zip(&placed).for_each(|(unit, &(_, placed))| *unit = placed);
        task.runs.extend(placed.chunk_by(|a, b| a.0 == b.0).map(|run| (run[0].0, run.len())));
    }

    /// Moves the units of `task`, stream by stream. The first stream comes first: if it is shared with the host, it
    /// belongs to the block that the host is about to open, which so gets the youngest block before cold data does.
    fn move_placed(
        &mut self,
        now: When,
        cause: Cause,
        task: &mut Relocation<N::Payload>,
    ) -> Result<When, FtlError> {
        let mut finished = now;
        let Relocation { units, runs, chunk, .. } = task;
        let mut rest = &units[..];
        for &(stream, count) in runs.iter().filter(|&&(_, count)| count > 0) {
            let (these, behind) = rest.split_at(count);
            let moved = self.move_units(now, stream, cause, these, chunk)?;
            finished = self.nand.both(finished, moved);
            rest = behind;
        }
        Ok(finished)
    }

    /// Copies `units` to `stream` in chunks: the reads of a chunk overlap, and its programs are
    /// issued together, so that planes and dies work in parallel.
    #[inline(never)]
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

    /// Returns the number of `units` at the start that lie on `page`.
    fn units_on_page(&self, page: Ppn, units: &[Ppa]) -> usize {
        units.iter().take_while(|&&unit| self.nand.geometry().page_of(unit) == page).count()
    }

    /// Undoes the invalidation of the units of victims that could not be moved.
    #[cold]
    fn keep_unmoved(&mut self, cause: Cause, task: &Relocation<N::Payload>) {
        let mut kept = 0;
        for &ppa in &task.units {
            if self.is_mapped_to(ppa) {
                self.blocks.set_valid(ppa, self.nand.geometry().block_of(ppa));
                kept += 1;
            }
        }
        match cause {
            _ if task.victims.first().is_some_and(|&block| self.is_cached(block)) => {
                self.stats.slc().units_folded -= kept;
            }
            Cause::Wear => self.stats.gc.wear_units_moved -= kept,
            _ => self.stats.gc.units_moved -= kept,
        }
        self.keep_victims(task);
    }

    /// Makes the copies of what the victims hold, to which the last epoch refers, what the map on flash
    /// refers to. If that fails, the victims stay as they are.
    fn commit_copies(&mut self, copied: When, task: &Relocation<N::Payload>) -> Result<When, FtlError> {
        let done = self.update_moved(copied).and_then(|updated| self.commit(updated));
        if done.is_err() {
            self.keep_victims(task);
        }
        done
    }

    /// The victims are not to be erased, and no candidates any more.
    #[cold]
    fn keep_victims(&mut self, task: &Relocation<N::Payload>) {
        for &victim in &task.victims {
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
            ftl.note_placed(run, first);
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
