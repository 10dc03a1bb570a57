//! The flash below all block-mapped schemes: newest versions, allocation and erase of blocks.

use strobe_nand::{Candidate, Cause, EventKind, Nand, Timing, Unit, When};
use strobe_types::{BlockId, Lpn, PackedPpa, Ppa, Ppn, Stored, prefetch_write};

use super::config::BlockMapConfig;
use crate::free::{FreePool, Want};
use crate::journal::{SharedWords, Trims};
use crate::scan::COPIED;
use crate::{Done, FtlError, FtlStats, MergeStats};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(super) enum State {
    Free,
    Used,
    Bad,
    /// Reserved for the log of trims.
    Meta,
}

pub(super) type New<'a, N> = (&'a Unit<<N as Nand>::Payload>, Cause);

pub(super) struct Failed {
    pub(super) at: When,
}

#[derive(Clone, Debug, strobe_types::State)]
pub(super) struct Sectors<N: Nand> {
    #[state(skip)]
    pub(super) config: BlockMapConfig,
    #[state(skip)]
    pub(super) per_block: u32,
    #[state(skip)]
    pub(super) any_order: bool,
    pub(super) nand: N,
    pub(super) mapped: u32,
    pub(super) free: FreePool,
    pub(super) sequence: u64,
    /// Time when all blocks released so far are erased. Programs wait for it, as in firmware for a single
    /// chip: schemes have a fixed number of blocks of each kind, and recovery expects no more.
    pub(super) emptied: When,
    pub(super) stats: FtlStats,
    pub(super) end_of_life: Option<FtlError>,
    #[state(table)]
    pub(super) newest: Vec<PackedPpa>,
    #[state(table)]
    pub(super) valid: Vec<u32>,
    #[state(table)]
    pub(super) states: Vec<State>,
    #[state(table)]
    pub(super) failing: Vec<bool>,
    #[state(part)]
    pub(super) trims: Option<Trims>,
}

impl<N: Nand> Sectors<N> {
    pub(super) fn new(nand: N, config: BlockMapConfig) -> Self {
        let trims = config.durable.then(|| Trims::new(&nand, config.trims_demand()));
        Self::with_trims(nand, config, trims)
    }

    pub(super) fn with_trims(nand: N, config: BlockMapConfig, trims: Option<Trims>) -> Self {
        let geometry = nand.geometry();
        let ids = (0..geometry.blocks()).map(BlockId::new);
        let mut states: Vec<State> =
            ids.map(|block| if nand.block(block).bad { State::Bad } else { State::Free }).collect();
        // Good blocks of the log are not for data; bad ones stay bad.
        for block in trims.iter().flat_map(|trims| trims.journal.log().blocks()) {
            let state = &mut states[block.index()];
            *state = if *state == State::Free { State::Meta } else { State::Bad };
        }
        let blocks = geometry.blocks() as usize;
        Self {
            per_block: geometry.pages_per_block(),
            any_order: nand.takes_any_order(),
            newest: vec![PackedPpa::NONE; config.logical_units as usize],
            mapped: 0,
            valid: vec![0; blocks],
            failing: vec![false; blocks],
            free: FreePool::new(geometry, false),
            trims,
            sequence: 1,
            emptied: When::START,
            stats: FtlStats { merges: Some(MergeStats::default()), ..FtlStats::default() },
            end_of_life: None,
            states,
            config,
            nand,
        }
    }

    pub(super) fn pool_erased(&mut self) {
        for block in self.all_blocks() {
            if self.states[block.index()] == State::Free && self.nand.block(block).is_erased() {
                self.put_free(block);
            }
        }
    }

    pub(super) fn all_blocks(&self) -> impl Iterator<Item = BlockId> + use<N> {
        (0..self.nand.geometry().blocks()).map(BlockId::new)
    }

    pub(super) fn logical_blocks(&self) -> u32 {
        self.config.logical_units.div_ceil(self.per_block)
    }

    pub(super) fn split(&self, lpn: Lpn) -> (u32, u32) {
        (lpn.get() / self.per_block, lpn.get() % self.per_block)
    }

    pub(super) fn sectors_of(&self, logical: u32) -> impl Iterator<Item = Lpn> + use<N> {
        let first = logical * self.per_block;
        (first..(first + self.per_block).min(self.config.logical_units)).map(Lpn::new)
    }

    pub(super) fn place(&self, lpn: Lpn) -> Option<Ppa> {
        self.newest[lpn.index()].get()
    }

    pub(super) fn holder(&self, lpn: Lpn) -> Option<BlockId> {
        self.place(lpn).map(|ppa| self.nand.geometry().block_of(ppa))
    }

    pub(super) fn prefetch(&self, lpn: Lpn) {
        prefetch_write(&self.newest, lpn.index());
    }

    pub(super) fn page(&self, block: BlockId, offset: u32) -> Ppn {
        self.nand.geometry().page(block, offset)
    }

    pub(super) fn is_open_at(&self, block: BlockId, offset: u32) -> bool {
        if self.any_order {
            !self.nand.is_programmed(self.page(block, offset))
        } else {
            self.nand.block(block).pages_programmed == offset
        }
    }

    pub(super) fn mapped_in(&self, logical: u32) -> u32 {
        self.sectors_of(logical).filter(|&lpn| self.place(lpn).is_some()).count() as u32
    }

    pub(super) fn program(
        &mut self,
        now: When,
        block: BlockId,
        offset: u32,
        new: New<'_, N>,
    ) -> Result<When, Failed> {
        self.program_marked(now, block, offset, new, 0)
    }

    pub(super) fn program_marked(
        &mut self,
        now: When,
        block: BlockId,
        offset: u32,
        new: New<'_, N>,
        mark: u64,
    ) -> Result<When, Failed> {
        let (unit, cause) = new;
        let ppn = self.page(block, offset);
        let sequence = self.sequence | mark;
        self.sequence += 1;
        let now = self.nand.both(now, self.emptied);
        let result = self.nand.program(now, ppn, std::slice::from_ref(unit), sequence, cause);
        let at = match &result {
            Ok(done) => *done,
            Err(failed) => failed.at,
        };
        if let Some(trims) = &mut self.trims {
            trims.journal.data_programmed(&mut self.nand, at);
        }
        if result.is_err() {
            // The mark is withdrawn: the retry marks the copy again.
            self.nand.mark_next(std::iter::empty());
            self.count_failure(block);
            return Err(Failed { at });
        }
        self.place_at(unit.lpn, self.nand.geometry().first_unit_of_page(ppn));
        // Sectors written by a merge count as written once the merge is complete.
        if mark != COPIED {
            self.written(unit.lpn);
        }
        Ok(at)
    }

    /// Marks the next copy of `lpn` as lost if its data at `ppa` is lost: the sector stays unreadable until
    /// the host writes or trims it.
    #[inline]
    pub(super) fn pass_loss_on(&mut self, lpn: Lpn, ppa: Ppa) {
        if self.nand.has_losses() {
            let is_lost = self.nand.is_lost(ppa);
            self.nand.mark_next(is_lost.then_some(lpn).into_iter());
        }
    }

    #[cold]
    pub(super) fn count_failure(&mut self, block: BlockId) {
        self.stats.gc.program_failures += 1;
        self.failing[block.index()] = true;
    }

    pub(super) fn is_failing(&self, block: BlockId) -> bool {
        self.failing[block.index()]
    }

    pub(super) fn written(&mut self, lpn: Lpn) {
        if let Some(trims) = &mut self.trims {
            trims.written(lpn);
        }
    }

    pub(super) fn place_at(&mut self, lpn: Lpn, ppa: Ppa) {
        let geometry = self.nand.geometry();
        self.valid[geometry.block_of(ppa).index()] += 1;
        match std::mem::replace(&mut self.newest[lpn.index()], PackedPpa::some(ppa)).get() {
            Some(old) => self.valid[geometry.block_of(old).index()] -= 1,
            None => self.mapped += 1,
        }
    }

    pub(super) fn unmap(&mut self, lpn: Lpn) {
        if let Some(old) = std::mem::replace(&mut self.newest[lpn.index()], PackedPpa::NONE).get() {
            self.valid[self.nand.geometry().block_of(old).index()] -= 1;
            self.mapped -= 1;
            if let Some(trims) = &mut self.trims {
                trims.trimmed(lpn);
            }
        }
    }

    pub(super) fn take_block(&mut self, logical: u32) -> Result<BlockId, FtlError> {
        if self.nand.is_stopped() {
            return Err(self.end_of_life.insert(FtlError::Interrupted).clone());
        }
        let plane = logical % self.nand.geometry().planes();
        let Some(block) = self.free.take(plane, Want::Next) else {
            return Err(self.end_of_life.insert(FtlError::OutOfBlocks).clone());
        };
        self.states[block.index()] = State::Used;
        Ok(block)
    }

    /// Data block of `logical` if `offset` can be programmed there. Takes an erased block if `data` is
    /// `None`.
    pub(super) fn open_data(
        &mut self,
        data: &mut Option<BlockId>,
        logical: u32,
        offset: u32,
    ) -> Result<Option<BlockId>, FtlError> {
        // On a chip that programs in order, a block must begin with its first page.
        if data.is_none() && (self.any_order || offset == 0) {
            *data = Some(self.take_block(logical)?);
        }
        Ok(data.filter(|&block| self.is_open_at(block, offset)))
    }

    fn put_free(&mut self, block: BlockId) {
        self.states[block.index()] = State::Free;
        let plane = self.nand.geometry().plane_of(block);
        self.free.put(plane, block, self.nand.block(block).erase_count);
    }

    /// Erases `block`. First makes trims durable; otherwise, older versions of sectors trimmed in this block
    /// could reappear. Panics if a newest version is left.
    pub(super) fn erase(&mut self, now: When, block: BlockId, cause: Cause) -> Done {
        assert_eq!(self.valid[block.index()], 0, "FTL bug: {block:?} holds newest versions");
        let now = self.commit(now)?;
        if cause == Cause::Merge {
            self.stats.merges().blocks_erased += 1;
            self.stats.gc.victims += 1;
            self.log_victim(block);
        }
        // After a failed program the block is retired, not erased.
        let done = if self.failing[block.index()] {
            self.take_out_of_service(block);
            now
        } else {
            match self.nand.erase(now, block, cause) {
                Ok(done) => {
                    self.put_free(block);
                    done
                }
                Err(failed) => {
                    self.stats.gc.erase_failures += 1;
                    self.take_out_of_service(block);
                    failed.at
                }
            }
        };
        self.emptied = self.nand.both(self.emptied, done);
        Ok(done)
    }

    pub(super) fn count_merged_log(&mut self, log: BlockId) {
        let pages = u64::from(self.nand.block(log).pages_programmed);
        let merges = self.stats.merges();
        merges.logs += 1;
        merges.log_pages += pages;
    }

    pub(super) fn erase_merged(&mut self, now: When, blocks: impl IntoIterator<Item = BlockId>) -> Done {
        let mut done = now;
        for block in blocks {
            let next = self.erase(now, block, Cause::Merge)?;
            done = self.nand.both(done, next);
        }
        Ok(done)
    }

    fn log_victim(&self, block: BlockId) {
        let timing = self.nand.timing();
        timing.log().add(timing.now(), || EventKind::Victim {
            chosen: Candidate { block: block.get(), valid_units: 0, score: None },
            runner_up: None,
            units_per_block: self.nand.geometry().units_per_block(),
            erased_blocks: self.free.count(),
        });
    }

    #[cold]
    fn take_out_of_service(&mut self, block: BlockId) {
        self.nand.mark_bad(block);
        let timing = self.nand.timing();
        timing.log().add(timing.now(), || EventKind::Retired { block: block.get() });
        self.states[block.index()] = State::Bad;
        self.stats.bad_block_host_writes.push(self.stats.host_units_written);
        self.retire_if_worn_out();
    }

    pub(super) fn retire_if_worn_out(&mut self) {
        let count = |wanted: State| self.states.iter().filter(|&&state| state == wanted).count() as u32;
        // The log of trims has a separate reserve.
        let usable = count(State::Free) + count(State::Used);
        let config = BlockMapConfig { durable: false, fault_reserve: 0, ..self.config };
        if usable < config.blocks_needed(self.nand.geometry()) && self.end_of_life.is_none() {
            let capacity = config.capacity_units(self.nand.geometry(), usable);
            self.end_of_life = Some(FtlError::EndOfLife {
                bad_blocks: count(State::Bad),
                capacity_units: capacity.into(),
                logical_units: self.config.logical_units,
            });
        }
    }

    pub(super) fn refuse_at_end_of_life(&self) -> Result<(), FtlError> {
        self.end_of_life.clone().map_or(Ok(()), Err)
    }

    pub(super) fn commit(&mut self, now: When) -> Done {
        let Some(trims) = &mut self.trims else { return Ok(now) };
        if let Some(FtlError::MapWornOut) = self.end_of_life {
            return Err(FtlError::MapWornOut);
        }
        let done = trims.commit(
            &mut self.nand,
            now,
            self.sequence,
            self.stats.host_units_written,
            SharedWords::NONE,
        );
        done.map_err(|_| self.end_of_life.insert(FtlError::MapWornOut).clone())
    }

    pub(super) fn commit_if_full(&mut self, now: When) -> Done {
        if self.trims.as_ref().is_some_and(|trims| trims.journal.is_full()) {
            self.commit(now)
        } else {
            Ok(now)
        }
    }
}
