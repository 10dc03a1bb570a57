//! The page map: every logical unit may lie anywhere.

use strobe_nand::{Cause, Nand, Unit};
use strobe_types::{BlockId, Lpn, PackedPpa, Ppa, Ppn, Prng, SimTime, prefetch_write};

use crate::capacity::{Capacity, CapacityError, Demand};
use crate::free::FreePool;
use crate::frontier::Frontier;
use crate::gc::{Allocation, BlockView, GcStats, GcStream, Migration, Temperature, VictimPolicy};
use crate::validity::Validity;
use crate::wear::Leveling;
use crate::{CheckError, FtlError, MappingScheme, WearSummary};

/// Choices of a page-mapped drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMapConfig {
    /// Logical units offered to the host.
    pub logical_units: u32,
    /// Where garbage collection moves valid units.
    pub gc_stream: GcStream,
    /// Garbage collection starts when fewer erased blocks are left. `None`: the least that is
    /// safe, one per lane of the stream it writes to and two more.
    pub min_free_blocks: Option<u32>,
    /// Blocks that one call gains at least.
    pub net_blocks: u32,
    /// How valid units are sorted before they are moved.
    pub migration: Migration,
    /// What makes a unit hot.
    pub temperature: Temperature,
    /// Which erased block is opened next.
    pub allocation: Allocation,
    /// Static wear levelling.
    pub leveling: Option<Leveling>,
    /// Seed of the policy's chance.
    pub seed: u64,
}

impl PageMapConfig {
    /// A plain greedy-style collector over `logical_units`: everything else at its default.
    pub fn new(logical_units: u32) -> Self {
        Self {
            logical_units,
            gc_stream: GcStream::default(),
            min_free_blocks: None,
            net_blocks: 1,
            migration: Migration::default(),
            temperature: Temperature::default(),
            allocation: Allocation::default(),
            leveling: None,
            seed: 0,
        }
    }
}

/// What a block is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockState {
    Free,
    Open,
    Closed,
    /// Took a failed program: to be emptied and then marked bad.
    Retiring,
    Bad,
}

/// A page-mapped flash translation layer over `N` with victim policy `V`.
///
/// Memory beside the chip: 4 bytes per logical unit, one bit per physical unit, 5 bytes per block
/// and what the policy keeps.
#[derive(Clone, Debug)]
pub struct PageMap<N: Nand, V> {
    pub(crate) nand: N,
    pub(crate) policy: V,
    rng: Prng,
    pub(crate) map: Vec<PackedPpa>,
    pub(crate) mapped: u32,
    pub(crate) validity: Validity,
    /// Valid units by block.
    pub(crate) valid: Vec<u32>,
    pub(crate) states: Vec<BlockState>,
    pub(crate) free: FreePool,
    /// Host stream, then the garbage collection stream if it has one of its own.
    pub(crate) frontiers: Vec<Frontier>,
    retiring: Vec<BlockId>,
    config: PageMapConfig,
    min_free_blocks: u32,
    /// Host units written or trimmed, plus one: the policies' clock, which starts at 1.
    tick: u64,
    host_units_written: u64,
    sequence: u64,
    gc: GcStats,
    /// Host units written when each grown bad block went bad.
    bad_block_host_writes: Vec<u64>,
    end_of_life: Option<FtlError>,
    scratch: Scratch<N::Payload>,
}

/// Buffers of garbage collection, kept to spare the allocator.
#[derive(Clone, Debug)]
struct Scratch<P> {
    victim_units: Vec<Ppa>,
    chunk: Vec<Unit<P>>,
}

impl<P> Default for Scratch<P> {
    fn default() -> Self {
        Self { victim_units: Vec::new(), chunk: Vec::new() }
    }
}

const HOST: usize = 0;

/// Units ahead of a host write for which the map entry, then the rest, is fetched.
const ENTRY_AHEAD: usize = 24;
const STATE_AHEAD: usize = 10;

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// A fresh drive on `nand`, or the arithmetic that shows why it could not work.
    pub fn new(nand: N, policy: V, config: PageMapConfig) -> Result<Self, CapacityError> {
        let geometry = nand.geometry();
        let frontier = Frontier::new(geometry);
        let frontiers = match config.gc_stream {
            GcStream::Own => vec![frontier.clone(), frontier],
            GcStream::Host => vec![frontier],
        };
        let blocks = geometry.blocks();
        let states: Vec<BlockState> = (0..blocks)
            .map(|b| if nand.is_bad(BlockId::new(b)) { BlockState::Bad } else { BlockState::Free })
            .collect();
        // While a victim is moved, each lane may need a new block before the first one is erased;
        // one more covers a failed program, and the last is the one the host is waiting for.
        let least = frontiers[HOST].lanes() + 2;
        let min_free_blocks = config.min_free_blocks.unwrap_or(least).max(least);
        let ftl = Self {
            rng: Prng::derive(config.seed, "victim"),
            map: vec![PackedPpa::NONE; config.logical_units as usize],
            mapped: 0,
            validity: Validity::new(geometry.units()),
            valid: vec![0; blocks as usize],
            free: FreePool::new(geometry, |b| !nand.is_bad(b)),
            states,
            frontiers,
            retiring: Vec::new(),
            config,
            min_free_blocks,
            tick: 1,
            host_units_written: 0,
            sequence: 0,
            gc: GcStats::default(),
            bad_block_host_writes: Vec::new(),
            end_of_life: None,
            scratch: Scratch::default(),
            nand,
            policy,
        };
        ftl.capacity().check()?;
        Ok(ftl)
    }

    /// Bytes of host memory beside the chip.
    pub fn memory_bytes(geometry: &strobe_types::Geometry, logical_units: u32) -> u64 {
        u64::from(logical_units) * 4
            + u64::from(geometry.units()).div_ceil(8)
            + u64::from(geometry.blocks()) * (5 + 4 + V::bytes_per_block())
    }

    fn bad_blocks(&self) -> u32 {
        self.states.iter().filter(|&&state| state == BlockState::Bad).count() as u32
    }

    fn capacity(&self) -> Capacity {
        let geometry = self.nand.geometry();
        Capacity::new(Demand {
            logical_units: self.config.logical_units,
            usable_blocks: geometry.blocks() - self.bad_blocks(),
            open_blocks: self.frontiers.iter().map(Frontier::lanes).sum(),
            // What is erased when the last victim of a call is chosen.
            reserve_blocks: self.min_free_blocks - 1 + self.config.net_blocks.max(1) - 1,
            pages_per_block: geometry.pages_per_block(),
            units_per_page: geometry.units_per_page(),
        })
    }

    /// Programs `units` on `stream`, a page at a time, and lets `settle` map each run of them:
    /// it gets the units and the address of the first.
    #[inline(always)]
    fn write_pages(
        &mut self,
        now: SimTime,
        stream: usize,
        cause: Cause,
        units: &[Unit<N::Payload>],
        mut settle: impl FnMut(&mut Self, &[Unit<N::Payload>], Ppa),
    ) -> Result<SimTime, FtlError> {
        let per_page = self.nand.geometry().units_per_page() as usize;
        let (mut now, mut finished) = (now, now);
        let mut rest = units;
        while !rest.is_empty() {
            let (first, pages) = match self.frontiers[stream].next_pages() {
                Some(run) => run,
                None => self.open_block(now, stream, cause)?,
            };
            let run = &rest[..rest.len().min(pages as usize * per_page)];
            let result = self.nand.program(now, first, run, self.sequence, cause);
            let written = match result {
                Ok(_) => run.len(),
                Err(failed) => failed.programmed as usize * per_page,
            };
            let block = self.nand.geometry().block_of_page(first);
            let pages = if per_page == 1 { written } else { written.div_ceil(per_page) } as u32;
            let ppa = self.nand.geometry().first_unit_of_page(first);
            self.sequence += u64::from(pages) + 1;
            self.validity.set_run(ppa, written as u32);
            self.valid[block.index()] += written as u32;
            settle(self, &run[..written], ppa);
            rest = &rest[written..];
            match result {
                Ok(done) => {
                    finished = finished.max(done);
                    if self.frontiers[stream].advance(pages) {
                        self.close(block);
                    }
                }
                Err(failed) => {
                    self.retire(stream, block);
                    now = failed.at;
                }
            }
        }
        Ok(finished)
    }

    /// Maps units just written by the host to the addresses from `first` on and invalidates
    /// their old versions.
    #[inline(always)]
    fn settle_host(&mut self, units: &[Unit<N::Payload>], first: Ppa) {
        for (at, unit) in units.iter().enumerate() {
            if let Some(ahead) = units.get(at + ENTRY_AHEAD) {
                self.prefetch_entry(ahead.lpn);
            }
            if let Some(ahead) = units.get(at + STATE_AHEAD) {
                self.prefetch_state(ahead.lpn);
            }
            self.tick += 1;
            let new = PackedPpa::some(first.plus(at as u32));
            match std::mem::replace(&mut self.map[unit.lpn.index()], new).get() {
                Some(old) => self.invalidate(old),
                None => self.mapped += 1,
            }
        }
        self.host_units_written += units.len() as u64;
    }

    #[inline(always)]
    fn invalidate(&mut self, ppa: Ppa) {
        self.validity.clear(ppa);
        let block = self.nand.geometry().block_of(ppa);
        let valid = &mut self.valid[block.index()];
        *valid -= 1;
        self.policy.invalidated(ppa, block, *valid, self.tick);
    }

    /// Makes sure the lane whose turn it is has an open block, collecting garbage first if the
    /// host needs it; returns the next pages.
    #[inline(never)]
    fn open_block(&mut self, now: SimTime, stream: usize, cause: Cause) -> Result<(Ppn, u32), FtlError> {
        let collecting = cause == Cause::Gc;
        if !collecting && (self.free.count() < self.min_free_blocks || !self.retiring.is_empty()) {
            self.collect(now)?;
        }
        loop {
            // Collection may have written to this very stream, and passed the turn on.
            if let Some(run) = self.frontiers[stream].next_pages() {
                return Ok(run);
            }
            let plane = self.frontiers[stream].wanted_plane();
            let Some(block) = self.free.take(plane) else {
                // Only media faults can eat the reserve: each cost a block that gave none back.
                return Err(self.end_of_life.insert(FtlError::OutOfBlocks).clone());
            };
            self.states[block.index()] = BlockState::Open;
            self.policy.opened(block, self.nand.erase_count(block), self.tick);
            self.frontiers[stream].open(block, self.nand.geometry());
        }
    }

    #[inline(never)]
    fn close(&mut self, block: BlockId) {
        self.states[block.index()] = BlockState::Closed;
        self.policy.closed(block, self.valid[block.index()], self.tick);
    }

    /// Gives up `block`, open on `stream`, after a failed program.
    #[cold]
    fn retire(&mut self, stream: usize, block: BlockId) {
        self.gc.program_failures += 1;
        self.frontiers[stream].abandon();
        self.states[block.index()] = BlockState::Retiring;
        self.retiring.push(block);
    }

    /// Frees blocks until enough are at hand. Erases wait for the copies they depend on; nothing
    /// here waits for the host.
    fn collect(&mut self, now: SimTime) -> Result<(), FtlError> {
        self.gc.runs += 1;
        let patience = 4 * u64::from(self.nand.geometry().blocks()) + 1000;
        let mut finished = now;
        loop {
            if self.free.count() < self.min_free_blocks {
                finished = finished.max(self.gain_blocks(now, patience)?);
            }
            // A block to retire takes room and gives none back: only when there is some to spare.
            if self.free.count() < self.min_free_blocks {
                break;
            }
            let Some(block) = self.retiring.pop() else { break };
            finished = finished.max(self.empty_block(now, block)?);
            self.take_out_of_service(block);
        }
        self.gc.time_ns = self.gc.time_ns.saturating_add(finished.since(now));
        self.refuse_at_end_of_life()
    }

    /// Collects until `net_blocks` more, and at least `min_free_blocks`, are erased. Returns when
    /// the last erase is done.
    fn gain_blocks(&mut self, now: SimTime, patience: u64) -> Result<SimTime, FtlError> {
        let target = self.min_free_blocks.max(self.free.count() + self.config.net_blocks.max(1));
        let mut fruitless = 0;
        let mut finished = now;
        while self.free.count() < target {
            // On a shared stream, copies leave room behind them in the block they opened last. The
            // host goes on there, as in a plain log; gaining a whole block first would fill blocks
            // with copies alone and so separate old data from new.
            let shared = self.frontiers.len() == 1;
            if shared && self.free.count() + 1 >= target && self.frontiers[HOST].next_pages().is_some() {
                break;
            }
            self.refuse_at_end_of_life()?;
            let view = BlockView {
                valid: &self.valid,
                units_per_block: self.nand.geometry().units_per_block(),
                tick: self.tick,
            };
            let Some(victim) = self.policy.choose(&view, &mut self.rng) else {
                return Err(FtlError::NoProgress { victims: fruitless });
            };
            assert_eq!(self.states[victim.index()], BlockState::Closed, "policy chose {victim:?}");
            let gain = view.units_per_block - self.valid[victim.index()];
            fruitless = if gain == 0 { fruitless + 1 } else { 0 };
            if fruitless > patience {
                return Err(FtlError::NoProgress { victims: fruitless });
            }
            self.policy.taken(victim);
            let copied = self.empty_block(now, victim)?;
            finished = finished.max(self.erase(copied, victim));
        }
        Ok(finished)
    }

    /// Moves the valid units of `victim` elsewhere. Returns when the last copy is on flash. If
    /// that fails, what has not been moved stays valid where it is.
    fn empty_block(&mut self, now: SimTime, victim: BlockId) -> Result<SimTime, FtlError> {
        let geometry = self.nand.geometry();
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.victim_units.clear();
        scratch.chunk.clear();
        self.validity.take_run(
            geometry.first_unit(victim),
            geometry.units_per_block(),
            &mut scratch.victim_units,
        );
        self.valid[victim.index()] = 0;
        self.gc.victims += 1;
        self.gc.units_moved += scratch.victim_units.len() as u64;
        let moved = self.move_units(now, &mut scratch);
        if moved.is_err() {
            self.keep_unmoved(victim, &scratch.victim_units);
        }
        self.scratch = scratch;
        moved
    }

    /// Copies `scratch.victim_units` in chunks: the reads of a chunk overlap, and its programs are
    /// issued together, so that planes and dies work in parallel.
    fn move_units(&mut self, now: SimTime, scratch: &mut Scratch<N::Payload>) -> Result<SimTime, FtlError> {
        let per_page = self.nand.geometry().units_per_page();
        let stream = self.frontiers.len() - 1;
        let chunk_units = ((self.frontiers[stream].lanes() * per_page) as usize).max(Self::CHUNK_UNITS_MIN);
        let mut finished = now;
        let mut arrived = now;
        let mut copied = 0;
        let mut rest = scratch.victim_units.as_slice();
        while !rest.is_empty() {
            let page = self.nand.geometry().page_of(rest[0]);
            let on_page = if per_page == 1 { 1 } else { self.units_on_page(page, rest) };
            if let Some(&ahead) = rest.get(Self::CHUNK_UNITS_MIN) {
                self.nand.prefetch_oob(ahead);
            }
            arrived = arrived.max(self.nand.read(now, page, on_page as u32, Cause::Gc));
            for &ppa in &rest[..on_page] {
                let lpn = self.nand.lpn(ppa);
                let lpn = lpn.unwrap_or_else(|| panic!("FTL bug: valid unit {ppa} is padding"));
                prefetch_write(&self.map, lpn.index());
                scratch.chunk.push(Unit { lpn, payload: self.nand.payload(ppa) });
            }
            rest = &rest[on_page..];
            if scratch.chunk.len() >= chunk_units || rest.is_empty() {
                // A page that is not full waits for the next chunk, unless there is none.
                let waits = if rest.is_empty() { 0 } else { scratch.chunk.len() % per_page as usize };
                let ready = scratch.chunk.len() - waits;
                let sources = &scratch.victim_units[copied..copied + ready];
                let done = self.write_copies(arrived, stream, &scratch.chunk[..ready], sources)?;
                finished = finished.max(done);
                copied += ready;
                scratch.chunk.drain(..ready);
            }
        }
        Ok(finished)
    }

    /// Units that a chunk has at least: enough for their map entries to arrive in the cache
    /// between the read and the program.
    const CHUNK_UNITS_MIN: usize = 32;

    /// How many of `units`, which are in order, lie on `page`.
    fn units_on_page(&self, page: Ppn, units: &[Ppa]) -> usize {
        let end = self.nand.geometry().first_unit_of_page(page.plus(1));
        units.iter().take_while(|&&unit| unit < end).count()
    }

    /// Undoes the invalidation of the units of a victim that could not be moved.
    #[cold]
    fn keep_unmoved(&mut self, victim: BlockId, units: &[Ppa]) {
        for &ppa in units {
            let lpn = self.nand.lpn(ppa);
            if lpn.is_some_and(|lpn| self.map[lpn.index()] == PackedPpa::some(ppa)) {
                self.validity.set(ppa);
                self.valid[victim.index()] += 1;
                self.gc.units_moved -= 1;
            }
        }
        self.states[victim.index()] = BlockState::Retiring;
        self.retiring.push(victim);
    }

    fn write_copies(
        &mut self,
        now: SimTime,
        stream: usize,
        units: &[Unit<N::Payload>],
        sources: &[Ppa],
    ) -> Result<SimTime, FtlError> {
        let mut sources = sources.iter();
        self.write_pages(now, stream, Cause::Gc, units, |ftl, run, first| {
            for (at, (unit, &source)) in (0..).zip(run.iter().zip(&mut sources)) {
                let entry = &mut ftl.map[unit.lpn.index()];
                assert!(*entry == PackedPpa::some(source), "FTL bug: {:?} is not at {source:?}", unit.lpn);
                *entry = PackedPpa::some(first.plus(at));
            }
        })
    }

    fn erase(&mut self, now: SimTime, block: BlockId) -> SimTime {
        match self.nand.erase(now, block, Cause::Gc) {
            Ok(done) => {
                self.states[block.index()] = BlockState::Free;
                self.free.put(self.nand.geometry().plane_of(block), block);
                done
            }
            Err(failed) => {
                self.take_out_of_service(block);
                failed.at
            }
        }
    }

    #[cold]
    fn take_out_of_service(&mut self, block: BlockId) {
        self.nand.mark_bad(block);
        self.states[block.index()] = BlockState::Bad;
        self.bad_block_host_writes.push(self.host_units_written);
        let capacity = self.capacity();
        if capacity.check().is_err() {
            self.end_of_life = Some(FtlError::EndOfLife {
                bad_blocks: self.bad_blocks(),
                room_units: capacity.room_units(),
                logical_units: self.config.logical_units,
            });
        }
    }

    fn refuse_at_end_of_life(&self) -> Result<(), FtlError> {
        self.end_of_life.clone().map_or(Ok(()), Err)
    }
}

impl<N: Nand, V: VictimPolicy> MappingScheme for PageMap<N, V> {
    type Payload = N::Payload;
    type Nand = N;

    fn nand(&self) -> &N {
        &self.nand
    }

    fn logical_units(&self) -> u32 {
        self.config.logical_units
    }

    fn mapped_units(&self) -> u32 {
        self.mapped
    }

    fn host_units_written(&self) -> u64 {
        self.host_units_written
    }

    fn stripe_units(&self) -> u32 {
        self.frontiers[HOST].lanes() * self.nand.geometry().units_per_page()
    }

    #[inline]
    fn write(&mut self, now: SimTime, units: &[Unit<N::Payload>]) -> Result<SimTime, FtlError> {
        if self.end_of_life.is_some() {
            self.refuse_at_end_of_life()?;
        }
        self.write_pages(now, HOST, Cause::Host, units, |ftl, run, first| ftl.settle_host(run, first))
    }

    fn read(&mut self, now: SimTime, first: Lpn, count: u32, out: &mut Vec<N::Payload>) -> SimTime {
        use strobe_nand::Payload;
        let mut finished = now;
        let mut at = 0;
        while at < count {
            let Some(ppa) = self.map[first.index() + at as usize].get() else {
                out.push(N::Payload::zero());
                at += 1;
                continue;
            };
            // Neighbours on the same page come with one read.
            let page = self.nand.geometry().page_of(ppa);
            let from = out.len();
            while at < count
                && let Some(next) = self.map[first.index() + at as usize].get()
                && self.nand.geometry().page_of(next) == page
            {
                out.push(self.nand.payload(next));
                at += 1;
            }
            let done = self.nand.read(now, page, (out.len() - from) as u32, Cause::Host);
            finished = finished.max(done);
        }
        finished
    }

    fn trim(&mut self, now: SimTime, first: Lpn, count: u32) -> SimTime {
        for lpn in first.index()..first.index() + count as usize {
            if let Some(old) = std::mem::replace(&mut self.map[lpn], PackedPpa::NONE).get() {
                self.tick += 1;
                self.mapped -= 1;
                self.invalidate(old);
            }
        }
        now
    }

    #[inline(always)]
    fn prefetch_entry(&self, lpn: Lpn) {
        prefetch_write(&self.map, lpn.index());
    }

    #[inline(always)]
    fn prefetch_state(&self, lpn: Lpn) {
        if let Some(old) = self.map.get(lpn.index()).and_then(|entry| entry.get()) {
            self.validity.prefetch(old);
            let block = self.nand.geometry().block_of(old);
            prefetch_write(&self.valid, block.index());
            self.policy.prefetch(block);
        }
    }

    fn gc_stats(&self) -> &GcStats {
        &self.gc
    }

    fn free_blocks(&self) -> u32 {
        self.free.count()
    }

    fn wear(&self) -> WearSummary {
        let good: Vec<u32> = (0..self.nand.geometry().blocks())
            .map(BlockId::new)
            .filter(|&b| !self.nand.is_bad(b))
            .map(|b| self.nand.erase_count(b))
            .collect();
        WearSummary {
            bad_blocks: self.nand.geometry().blocks() - good.len() as u32,
            first_bad_block_host_writes: self.bad_block_host_writes.first().copied(),
            bad_block_host_writes: self.bad_block_host_writes.clone(),
            ..WearSummary::of(&good)
        }
    }

    fn check(&self) -> Result<(), CheckError> {
        self.check_state()
    }
}

impl WearSummary {
    /// Bins of the histogram.
    const BINS: u32 = 16;

    /// Statistics over the erase counts of the good blocks.
    pub fn of(erase_counts: &[u32]) -> Self {
        let (Some(&min), Some(&max)) = (erase_counts.iter().min(), erase_counts.iter().max()) else {
            return Self::default();
        };
        let n = erase_counts.len() as f64;
        let mean = erase_counts.iter().map(|&e| u64::from(e)).sum::<u64>() as f64 / n;
        let variance =
            erase_counts.iter().map(|&e| (f64::from(e) - mean) * (f64::from(e) - mean)).sum::<f64>() / n;
        let width = (max - min + 1).div_ceil(Self::BINS);
        let mut histogram = vec![0; ((max - min) / width + 1) as usize];
        for &count in erase_counts {
            histogram[((count - min) / width) as usize] += 1;
        }
        Self {
            erase_min: min,
            erase_mean: mean,
            erase_max: max,
            erase_stddev: variance.sqrt(),
            bad_blocks: 0,
            first_bad_block_host_writes: None,
            bad_block_host_writes: Vec::new(),
            histogram,
        }
    }
}
