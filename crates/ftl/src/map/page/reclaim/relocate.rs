//! Relocation: moves the valid units of blocks to other blocks, and frees the source blocks.
//!
//! Garbage collection, wear levelling, refresh, SLC folding, compaction of translation pages and bad-block
//! retirement differ only in the blocks they choose. Each relocation has the same steps:
//!
//! 1. The victims are removed from the candidates of the policy, the leveler or the SLC cache
//!    ([`Core::take`]).
//! 2. The placement chooses the stream of each valid unit (`place_copies`). Wear levelling and translation
//!    pages have separate streams.
//! 3. Stream by stream, the units are read and programmed, and the map points to the copies (`move_units`).
//! 4. The map on flash is updated (`commit_copies`) before anything is erased.
//! 5. The victims are erased or retired.
//!
//! A relocation here issues all its operations in one call. The caller decides if a host command waits for
//! them. `background/` runs the same steps one by one. If a step fails, units not yet moved stay valid in
//! place, and the victims become retiring blocks instead of being erased.

use strobe_nand::{Cause, Nand, Unit, When};
use strobe_types::{BlockId, Ppa, Ppn};

use crate::gc::VictimPolicy;
use crate::map::page::core::Core;
use crate::map::page::core::tables::TablePages;
use crate::map::page::core::write::fill_pages;
use crate::map::page::map::sharing::Owner;
use crate::map::page::reclaim::Reason;
use crate::map::page::reclaim::background::Background;
use crate::place::{CopyContext, Relocated, StreamId};
use crate::{Done, FtlError};

/// State of one relocation. Reused by the next one for its buffers.
#[derive(Clone, Debug)]
pub(crate) struct Relocation<P> {
    pub(crate) victims: Vec<BlockId>,
    /// Units to move, in stream order.
    pub(crate) units: Vec<Ppa>,
    /// Streams in order, with the number of units for each.
    pub(crate) runs: Vec<(StreamId, usize)>,
    /// Units that are read and not yet programmed.
    pub(crate) chunk: Vec<Unit<P>>,
    /// True for a background victim that is completed in one call, for a command that cannot wait. It is counted
    /// and known to the placement.
    pub(crate) is_begun: bool,
}

impl<P> Default for Relocation<P> {
    fn default() -> Self {
        Self { victims: Vec::new(), units: Vec::new(), runs: Vec::new(), chunk: Vec::new(), is_begun: false }
    }
}

pub(crate) struct Relocator<'a, N: Nand, V> {
    pub(crate) core: &'a mut Core<N, V>,
    pub(crate) task: &'a mut Relocation<N::Payload>,
    pub(crate) background: &'a mut Background,
}

impl<N: Nand, V: VictimPolicy> Relocator<'_, N, V> {
    /// Empties and frees one block. Takes the block first unless it is retiring.
    pub(crate) fn relocate_block(&mut self, now: When, reason: Reason, block: BlockId) -> Done {
        if reason != Reason::Retire {
            self.core.take(block);
        }
        self.task.victims.clear();
        self.task.victims.push(block);
        self.relocate(now, reason)
    }

    /// Completes the relocation of `block`, which background collection has begun.
    pub(crate) fn complete(&mut self, now: When, reason: Reason, block: BlockId) -> Done {
        self.task.victims.clear();
        self.task.victims.push(block);
        self.task.is_begun = true;
        let done = self.relocate(now, reason);
        self.task.is_begun = false;
        done
    }

    /// Empties and frees the taken blocks `self.task.victims`. Returns the completion time of the last erase.
    pub(crate) fn relocate(&mut self, now: When, reason: Reason) -> Done {
        let mut task = std::mem::take(self.task);
        if !task.is_begun {
            self.core.log().victims(reason.cause(), &task.victims);
        }
        let emptied = self.empty(now, reason, &mut task);
        let emptied = emptied.and_then(|copied| self.commit_copies(copied, &task));
        let done = emptied.map(|copied| {
            let mut finished = copied;
            for &victim in &task.victims {
                if reason == Reason::Retire {
                    self.core.take_out_of_service(victim);
                } else {
                    let erased = self.erase(copied, victim, reason.cause());
                    finished = self.core.both(finished, erased);
                }
            }
            finished
        });
        if done.is_ok() && reason == Reason::Refresh {
            self.core.stats.gc.refreshed_blocks += 1;
        }
        *self.task = task;
        done
    }

    fn erase(&mut self, now: When, block: BlockId, cause: Cause) -> When {
        // Reads must not go to the sources of in-flight copies in a block about to be erased.
        if N::TIMED {
            let geometry = self.core.nand().geometry();
            let first = geometry.first_unit(block);
            self.background.forget(first, first.plus(geometry.units_per_block()));
        }
        self.core.erase(now, block, cause)
    }

    /// Moves all valid units. On failure, unmoved units stay valid in place.
    fn empty(
        &mut self,
        now: When,
        reason: Reason,
        task: &mut Relocation<N::Payload>,
    ) -> Result<When, FtlError> {
        let cause = reason.cause();
        task.units.clear();
        task.chunk.clear();
        for &victim in &task.victims {
            if !task.is_begun {
                self.core.show_victim(victim);
            }
            self.core.take_units(victim, &mut task.units);
        }
        self.count_emptied(reason, task);
        // From here on, `units` has the host's units first and translation pages after `data` units.
        let data = self.put_data_first(task);
        task.runs.clear();
        if cause == Cause::Wear {
            task.runs.push((self.core.streams.table.wear, data));
        } else {
            self.place_copies(data, task);
        }
        task.runs.push((self.core.streams.table.translation, task.units.len() - data));
        let moved = self.move_placed(now, cause, task);
        if moved.is_err() {
            self.restore_unmoved(cause, task);
        } else {
            for at in 0..task.victims.len() {
                self.core.forget_victim(task.victims[at]);
            }
        }
        moved
    }

    fn count_emptied(&mut self, reason: Reason, task: &Relocation<N::Payload>) {
        let blocks = if task.is_begun { 0 } else { task.victims.len() as u64 };
        let units = task.units.len() as u64;
        let is_folded = task.victims.first().is_some_and(|&block| self.core.is_cached(block));
        if reason.cause() == Cause::Wear {
            self.core.stats.gc.wear_blocks += blocks;
            self.core.stats.gc.wear_units_moved += units;
        } else if is_folded {
            self.core.stats.slc().blocks_folded += blocks;
            self.core.stats.slc().units_folded += units;
        } else {
            self.core.stats.gc.victims += blocks;
            self.core.stats.gc.units_moved += units;
        }
    }

    /// Chooses the streams of the first `data` units of `task`, and sorts the units by stream.
    pub(crate) fn place_copies(&mut self, data: usize, task: &mut Relocation<N::Payload>) {
        let folded = task.victims.first().and_then(|&victim| self.core.stream_of_folded(victim));
        if let Some(host) = folded {
            task.runs.push((host, data));
            return;
        }
        let first = self.core.streams.table.first_copy();
        let Some(mut placement) = self.core.policies.placement.take_if(|placement| !placement.moves_alike())
        else {
            task.runs.push((first, data));
            return;
        };
        let units = &task.units[..data];
        let relocated = |(at, &unit): (usize, &Ppa)| {
            if let Some(&ahead) = units.get(at + Self::CHUNK_UNITS_MIN) {
                self.core.nand().prefetch_oob(ahead);
            }
            let lpn = self.core.owner_of(unit);
            placement.prefetch(lpn);
            Relocated { unit, lpn, to: first }
        };
        let mut arranged: Vec<Relocated> = units.iter().enumerate().map(relocated).collect();
        // Units of one block are adjacent, so its context is computed once.
        let mut last: Option<CopyContext> = None;
        placement.arrange(&mut arranged, &mut |unit| {
            let block = self.core.nand().geometry().block_of(unit);
            match last {
                Some(context) if context.block == block => context,
                _ => *last.insert(self.core.copy_context(block)),
            }
        });
        let per_page =
            if placement.shares_pages() { self.core.nand().geometry().units_per_page() } else { 1 };
        self.core.policies.placement = Some(placement);
        let mut placed: Vec<(StreamId, Ppa)> = arranged.iter().map(|unit| (unit.to, unit.unit)).collect();
        fill_pages(&mut placed, per_page as usize);
        // From here on, units are in the order of their moves.
        task.units.iter_mut().zip(&placed).for_each(|(unit, &(_, placed))| *unit = placed);
        task.runs.extend(placed.chunk_by(|a, b| a.0 == b.0).map(|run| (run[0].0, run.len())));
    }

    fn move_placed(
        &mut self,
        now: When,
        cause: Cause,
        task: &mut Relocation<N::Payload>,
    ) -> Result<When, FtlError> {
        let mut finished = now;
        // The lowest stream comes first. If it is shared with the host, it opens the youngest erased block
        // before cold data does.
        let Relocation { units, runs, chunk, .. } = task;
        let mut rest = &units[..];
        for &(stream, count) in runs.iter().filter(|&&(_, count)| count > 0) {
            let (these, behind) = rest.split_at(count);
            let moved = self.move_units(now, stream, cause, these, chunk)?;
            finished = self.core.both(finished, moved);
            rest = behind;
        }
        Ok(finished)
    }

    #[inline(never)]
    fn move_units(
        &mut self,
        now: When,
        stream: StreamId,
        cause: Cause,
        units: &[Ppa],
        chunk: &mut Vec<Unit<N::Payload>>,
    ) -> Result<When, FtlError> {
        let per_page = self.core.nand().geometry().units_per_page();
        // The reads of a chunk overlap, and its programs are issued together, to use planes and dies in
        // parallel.
        let chunk_units =
            ((self.core.streams[stream].lanes() * per_page) as usize).max(Self::CHUNK_UNITS_MIN);
        let mut finished = now;
        let mut arrived = now;
        let mut copied = 0;
        let mut rest = units;
        while !rest.is_empty() {
            let page = self.core.nand().geometry().page_of(rest[0]);
            let on_page = if per_page == 1 { 1 } else { self.units_on_page(page, rest) };
            if let Some(&ahead) = rest.get(Self::CHUNK_UNITS_MIN) {
                self.core.nand().prefetch_oob(ahead);
            }
            let wanted = self.core.nand().wanted(rest[..on_page].iter().copied());
            let next = self.core.read(now, page, wanted, cause).when;
            arrived = self.core.both(arrived, next);
            for &ppa in &rest[..on_page] {
                // The map entry is needed when the chunk is programmed.
                let lpn = self.core.owner_of(ppa);
                self.core.map().prefetch(lpn);
                chunk.push(Unit { lpn, payload: self.core.nand().payload(ppa) });
            }
            rest = &rest[on_page..];
            if chunk.len() >= chunk_units || rest.is_empty() {
                // Units of an incomplete page wait for the next chunk, except in the last chunk.
                let waits = if rest.is_empty() { 0 } else { chunk.len() % per_page as usize };
                let ready = chunk.len() - waits;
                let sources = &units[copied..copied + ready];
                let done = self.write_copies(arrived, stream, cause, &chunk[..ready], sources)?;
                finished = self.core.both(finished, done);
                copied += ready;
                chunk.drain(..ready);
            }
        }
        Ok(finished)
    }

    /// Minimum number of units in a chunk.
    // Map entries must reach the processor's cache between the read and the program of a unit.
    const CHUNK_UNITS_MIN: usize = 32;

    fn units_on_page(&self, page: Ppn, units: &[Ppa]) -> usize {
        units.iter().take_while(|&&unit| self.core.nand().geometry().page_of(unit) == page).count()
    }

    #[cold]
    fn restore_unmoved(&mut self, cause: Cause, task: &Relocation<N::Payload>) {
        // `empty` has cleared the validity of all units and counted them as moved. Units that the map still
        // locates in the victims were not moved.
        let mut kept = 0;
        for &ppa in &task.units {
            if self.is_mapped_to(ppa) {
                self.core.put_unit_back(ppa);
                kept += 1;
            }
        }
        match cause {
            _ if task.victims.first().is_some_and(|&block| self.core.is_cached(block)) => {
                self.core.stats.slc().units_folded -= kept;
            }
            Cause::Wear => self.core.stats.gc.wear_units_moved -= kept,
            _ => self.core.stats.gc.units_moved -= kept,
        }
        self.retire_victims(task);
    }

    /// Makes the map on flash refer to the copies instead of the victims. On failure, the victims are kept.
    fn commit_copies(&mut self, copied: When, task: &Relocation<N::Payload>) -> Result<When, FtlError> {
        let done = TablePages(self.core).update_moved(copied).and_then(|updated| self.core.commit(updated));
        if done.is_err() {
            self.retire_victims(task);
        }
        done
    }

    /// Marks the victims as retiring: they leave service once emptied.
    #[cold]
    fn retire_victims(&mut self, task: &Relocation<N::Payload>) {
        for &victim in &task.victims {
            self.core.mark_retiring(victim);
        }
    }

    /// Programs a chunk and points the owners of its units to the copies.
    // Not inlined: together with the read loop, it needs more registers than the processor has.
    #[inline(never)]
    fn write_copies(
        &mut self,
        now: When,
        stream: StreamId,
        cause: Cause,
        units: &[Unit<N::Payload>],
        sources: &[Ppa],
    ) -> Result<When, FtlError> {
        self.core.pass_losses_on(units, sources.iter().copied())?;
        let mut sources = sources.iter();
        // Copies never trigger collection: the reserve of erased blocks covers them.
        self.core.write_pages(
            now,
            stream,
            cause,
            units,
            |_, now| Ok(now),
            // The validity of the sources is cleared already.
            |core, run, first| core.settle_copies(run, first, &mut sources, |_, _| ()),
        )
    }

    fn is_mapped_to(&self, ppa: Ppa) -> bool {
        match self.core.map().sharing.as_ref().map(|sharing| (sharing, sharing.owner(ppa))) {
            Some((sharing, Owner::Two(vpn))) => sharing.ppa(vpn) == ppa,
            Some((_, Owner::One(lpn))) => self.core.map().get(lpn) == Some(ppa),
            None => self.core.nand().lpn(ppa).is_some_and(|lpn| self.core.map().get(lpn) == Some(ppa)),
        }
    }
}
