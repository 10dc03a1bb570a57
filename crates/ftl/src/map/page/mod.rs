//! The page map: every logical unit may lie anywhere.
//!
//! State and the [`MappingScheme`] contract are here; `write.rs` fills blocks, `collect.rs` empties
//! them, `durable.rs` notes in the journal what has changed, `recover.rs` finds it again, `check.rs` is
//! the whole-state checker. With demand paging the map itself is on flash: `translation.rs` says what for,
//! `cmt.rs` is what is cached of it, `paging.rs` fetches and evicts, `rescan.rs` finds it after a power cut.

mod check;
mod cmt;
mod collect;
mod copy;
mod durable;
mod paging;
mod recover;
mod rescan;
mod sharing;
mod translation;
mod write;

use strobe_nand::{Cause, Nand, Unit};
use strobe_types::{BlockId, Geometry, Lpn, PackedPpa, Prng, SimTime, prefetch_write};

use crate::capacity::{Capacity, CapacityError, Demand};
use crate::free::FreePool;
use crate::frontier::Frontier;
use crate::gc::{Allocation, GcStats, GcStream, Migration, Temperature, VictimPolicy};
use crate::heat::HeatTable;
use crate::journal::format::WORDS_PER_ENTRY;
use crate::journal::{Journal, Log, LogDemand, Trims, region_for};
use crate::validity::Validity;
use crate::wear::{Leveler, Leveling};
use crate::{CheckError, FtlError, MappingScheme, Recovery, RecoveryError, WearSummary};

use collect::Scratch;
pub use sharing::CopyStats;
use sharing::Sharing;
use translation::Translation;
pub use translation::{TranslationConfig, TranslationStats};

/// Choices of a page-mapped drive, each independent of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMapConfig {
    /// Logical units offered to the host.
    pub logical_units: u32,
    /// Where garbage collection moves valid units.
    pub gc_stream: GcStream,
    /// Garbage collection starts when fewer erased blocks are left. `None`: the least that is
    /// safe (see [`PageMap::new`]).
    pub min_free_blocks: Option<u32>,
    /// Erased blocks kept beyond that least, for programs that fail.
    pub fault_reserve: u32,
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
    /// Logical copy: entries of the virtual map, each a flash unit that two logical units share.
    /// 0: copies are physical.
    pub virtual_map_entries: u32,
    /// Whether the map survives a power cut: it is then kept on flash, in blocks reserved for it.
    pub durable: bool,
    /// Good blocks reserved for the map, if that is more than it needs. Demand paging reserves what its
    /// log of trims needs and ignores this.
    pub map_blocks: u32,
    /// Demand paging: the map is on flash and only in part in memory. `None`: all of it is in memory.
    /// Copies are then physical: it goes with no virtual map.
    pub translation: Option<TranslationConfig>,
    /// Seed of the policy's chance.
    pub seed: u64,
}

impl PageMapConfig {
    /// Everything at its default for `logical_units` units.
    pub const fn new(logical_units: u32) -> Self {
        Self {
            logical_units,
            gc_stream: GcStream::Own,
            min_free_blocks: None,
            fault_reserve: 0,
            net_blocks: 1,
            migration: Migration::None,
            temperature: Temperature::UpdateCount,
            allocation: Allocation::Fifo,
            leveling: None,
            virtual_map_entries: 0,
            durable: false,
            map_blocks: 0,
            translation: None,
            seed: 0,
        }
    }

    /// Streams with open blocks of their own.
    fn roles(&self) -> Roles {
        let mut streams = HOST + 1;
        let mut next = || {
            streams += 1;
            streams - 1
        };
        let hot = if self.gc_stream == GcStream::Own { next() } else { HOST };
        let cold = if self.migration == Migration::None { hot } else { next() };
        let wear = if self.leveling.is_some() { next() } else { cold };
        let translation = if self.translation.is_some() { next() } else { usize::MAX };
        Roles { hot, cold, wear, translation, streams }
    }

    /// Streams that may each need a block on every lane while one victim is moved, and those that
    /// may beside it when wear is levelled.
    fn streams_at_once(&self) -> (u32, u32) {
        // Of a single sorted victim, either the one block of cold units or the rest is written.
        let victim = if self.migration == Migration::HotCold { 2 } else { 1 };
        (victim, u32::from(self.leveling.is_some()))
    }

    /// Erased blocks that a drive of this kind keeps in hand on `geometry`.
    ///
    /// While a victim is moved, each lane of the streams it goes to may need a new block before
    /// the first one is erased; wear levelling likewise. One more covers a failed program, and the
    /// last is the one the host is waiting for.
    ///
    /// With demand paging, translation pages must be updated before the victim is erased, each of its units
    /// perhaps in another one; then each lane of theirs may need a block for gaining that back. A host that
    /// goes on in a block of copies may find translation pages to have taken what counted as its own.
    pub fn least_free_blocks(&self, geometry: &Geometry) -> u32 {
        let (victim, wear) = self.streams_at_once();
        let lanes = Frontier::lanes_of(geometry);
        let translation = match self.translation_pages(geometry) {
            0 => 0,
            pages => {
                let shared = u32::from(self.gc_stream == GcStream::Host);
                self.translation_updates(geometry) + lanes.min(pages) + shared
            }
        };
        (victim + wear) * lanes + translation + 2 + self.fault_reserve
    }

    /// Good blocks that are reserved for the map.
    pub fn map_blocks(&self, geometry: &Geometry) -> u32 {
        match self.durable {
            true if self.translation.is_some() => {
                Trims::blocks(geometry, self.logical_units, self.fault_reserve)
            }
            true => self.log_demand(geometry).blocks(geometry).max(self.map_blocks),
            false => 0,
        }
    }

    fn log_demand(&self, geometry: &Geometry) -> LogDemand {
        let shared = u64::from(self.virtual_map_entries) * WORDS_PER_ENTRY;
        LogDemand {
            words: u64::from(self.logical_units) + shared,
            open_blocks: self.roles().streams as u32 * Frontier::lanes_of(geometry),
            fault_reserve: self.fault_reserve,
        }
    }

    /// The reserve arithmetic of a drive with `usable_blocks` good blocks, those for the map included.
    pub fn capacity(&self, geometry: &Geometry, usable_blocks: u32) -> Capacity {
        self.capacity_of(geometry, usable_blocks.saturating_sub(self.map_blocks(geometry)))
    }

    /// The same with `usable_blocks` for data alone.
    fn capacity_of(&self, geometry: &Geometry, usable_blocks: u32) -> Capacity {
        let min_free_blocks = self.trigger(geometry);
        // Translation pages, packed as densely as they can be.
        let translation = self.translation_pages(geometry).div_ceil(geometry.pages_per_block());
        Capacity::new(Demand {
            logical_units: self.logical_units,
            usable_blocks: usable_blocks.saturating_sub(translation),
            open_blocks: self.roles().streams as u32 * Frontier::lanes_of(geometry),
            // What is erased when the last victim of a call is chosen.
            reserve_blocks: min_free_blocks - 1 + self.net_blocks.max(1) - 1,
            map_blocks: self.map_blocks(geometry) + translation,
            pages_per_block: geometry.pages_per_block(),
            units_per_page: geometry.units_per_page(),
        })
    }

    /// Bytes of host memory that a drive of this kind takes beside its chip and its policy.
    pub fn memory_bytes(&self, geometry: &Geometry) -> u64 {
        let per_unit = match self.migration {
            Migration::None => 4,
            _ => 4 + HeatTable::bytes_per_unit(self.temperature),
        };
        let per_block = 5 + 8 + self.leveling.map_or(0, Leveler::bytes_per_block);
        let sharing = match self.virtual_map_entries {
            0 => 0,
            entries => Sharing::bytes(geometry.units(), entries),
        };
        let journal = match (self.durable, self.translation) {
            (false, _) => 0,
            (true, Some(_)) => Trims::bytes(self.logical_units),
            (true, None) => Journal::bytes([self.logical_units, self.virtual_map_entries]),
        };
        let translation = self.translation.map_or(0, |how| how.memory_bytes(geometry, self.logical_units));
        sharing
            + journal
            + translation
            + u64::from(self.logical_units) * per_unit
            + u64::from(geometry.units()).div_ceil(8)
            + u64::from(geometry.blocks()) * per_block
    }

    /// Erased blocks below which garbage collection starts.
    fn trigger(&self, geometry: &Geometry) -> u32 {
        self.min_free_blocks.unwrap_or(0).max(self.least_free_blocks(geometry))
    }
}

/// The stream of host writes.
const HOST: usize = 0;

/// Which stream serves which purpose; several may share one.
#[derive(Clone, Copy, Debug)]
struct Roles {
    /// Valid units of victims that are not known to be cold.
    hot: usize,
    /// Those that are.
    cold: usize,
    /// Units moved by wear levelling.
    wear: usize,
    /// Translation pages, which share with nothing; no stream without demand paging.
    translation: usize,
    /// How many streams there are.
    streams: usize,
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
    /// Reserved for the map.
    Meta,
}

/// A page-mapped flash translation layer over `N` with victim policy `V`.
///
/// Memory beside the chip: 4 bytes per logical unit, one bit per physical unit, 5 bytes per block
/// and what the policy keeps; migration by temperature adds 4 to 12 bytes per logical unit.
#[derive(Clone, Debug)]
pub struct PageMap<N: Nand, V> {
    nand: N,
    policy: V,
    rng: Prng,
    map: Vec<PackedPpa>,
    mapped: u32,
    validity: Validity,
    /// Valid units by block.
    valid: Vec<u32>,
    states: Vec<BlockState>,
    free: FreePool,
    /// The open blocks of each stream.
    frontiers: Vec<Frontier>,
    roles: Roles,
    /// Only for migrations that ask for it.
    heat: Option<HeatTable>,
    leveler: Option<Leveler>,
    /// Only with logical copy.
    sharing: Option<Sharing>,
    copies: CopyStats,
    /// Only with a durable map. In a box, as it leaves while it is written.
    journal: Option<Box<Journal>>,
    /// Only with demand paging.
    translation: Option<Box<Translation>>,
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

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// A fresh drive on `nand`, or the arithmetic that shows why it could not work.
    pub fn new(nand: N, policy: V, config: PageMapConfig) -> Result<Self, CapacityError> {
        let geometry = nand.geometry();
        let with_trims = config.durable && config.translation.is_some();
        let trims = with_trims.then(|| Trims::new(&nand, config.logical_units, config.fault_reserve));
        let journal = (config.durable && !with_trims).then(|| {
            let region = region_for(geometry, config.map_blocks(geometry), |block| nand.is_bad(block));
            let tables = [config.logical_units, config.virtual_map_entries];
            Box::new(Journal::new(geometry, config.log_demand(geometry), Log::new(geometry, region), tables))
        });
        let mut ftl = Self::with_logs(nand, policy, config, journal, trims);
        ftl.capacity().check()?;
        let geometry = ftl.nand.geometry();
        for block in (0..geometry.blocks()).map(BlockId::new) {
            if ftl.states[block.index()] == BlockState::Free {
                ftl.free.put(geometry.plane_of(block), block, 0);
            }
        }
        Ok(ftl)
    }

    /// An empty map with no block at hand yet.
    fn with_logs(
        nand: N,
        policy: V,
        config: PageMapConfig,
        journal: Option<Box<Journal>>,
        trims: Option<Trims>,
    ) -> Self {
        debug_assert!(
            config.translation.is_none() || config.virtual_map_entries == 0,
            "demand paging goes with physical copies only"
        );
        let geometry = nand.geometry();
        let blocks = geometry.blocks();
        let mut states: Vec<BlockState> = (0..blocks)
            .map(|b| if nand.is_bad(BlockId::new(b)) { BlockState::Bad } else { BlockState::Free })
            .collect();
        let log = journal.as_ref().map(|journal| journal.log()).or(trims.as_ref().map(|trims| trims.log()));
        for block in log.iter().flat_map(|log| log.blocks()) {
            let state = &mut states[block.index()];
            *state = if *state == BlockState::Free { BlockState::Meta } else { BlockState::Bad };
        }
        let roles = config.roles();
        let by_wear = config.allocation != Allocation::Fifo;
        let is_good = |block: BlockId| states[block.index()] == BlockState::Free;
        let translation =
            config.translation.map(|how| Box::new(Translation::new(&config, &how, geometry, trims)));
        let tables = config.translation_pages(geometry).saturating_mul(geometry.units_per_page());
        let shares = config.virtual_map_entries > 0 && translation.is_none();
        Self {
            rng: Prng::derive(config.seed, "victim"),
            map: vec![PackedPpa::NONE; config.logical_units.saturating_add(tables) as usize],
            mapped: 0,
            validity: Validity::new(geometry.units()),
            valid: vec![0; blocks as usize],
            free: FreePool::new(geometry, by_wear),
            frontiers: vec![Frontier::new(geometry); roles.streams],
            roles,
            heat: (config.migration != Migration::None)
                .then(|| HeatTable::new(config.temperature, config.logical_units)),
            leveler: config.leveling.map(|how| Leveler::new(how, blocks, is_good)),
            sharing: shares.then(|| Sharing::new(geometry.units(), config.virtual_map_entries)),
            copies: CopyStats::default(),
            // 0 is what a page has whose program was cut short.
            sequence: u64::from(translation.is_some()),
            journal,
            translation,
            retiring: Vec::new(),
            config,
            min_free_blocks: config.trigger(geometry),
            tick: 1,
            host_units_written: 0,
            gc: GcStats::default(),
            bad_block_host_writes: Vec::new(),
            end_of_life: None,
            scratch: Scratch::default(),
            states,
            nand,
            policy,
        }
    }

    fn bad_blocks(&self) -> u32 {
        self.states.iter().filter(|&&state| state == BlockState::Bad).count() as u32
    }

    fn capacity(&self) -> Capacity {
        let usable = self.states.iter().filter(|state| !matches!(state, BlockState::Bad | BlockState::Meta));
        self.config.capacity_of(self.nand.geometry(), usable.count() as u32)
    }

    /// The end of life, for want of blocks.
    fn worn_out(&self) -> FtlError {
        FtlError::EndOfLife {
            bad_blocks: self.bad_blocks(),
            room_units: self.capacity().room_units(),
            logical_units: self.config.logical_units,
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

    fn nand_mut(&mut self) -> &mut N {
        &mut self.nand
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
        if self.translation.is_some() {
            return self.write_translated(now, Cause::Host, units, |ftl, run, at| ftl.settle_host(run, at));
        }
        self.write_pages(now, HOST, Cause::Host, units, |ftl, run, first| ftl.settle_host(run, first))
    }

    fn write_back(&mut self, now: SimTime, units: &[Unit<N::Payload>]) -> Result<SimTime, FtlError> {
        self.refuse_at_end_of_life()?;
        if self.translation.is_some() {
            return self.write_translated(now, Cause::Cache, units, |ftl, run, at| ftl.settle_host(run, at));
        }
        self.write_pages(now, HOST, Cause::Cache, units, |ftl, run, first| ftl.settle_host(run, first))
    }

    fn read(&mut self, now: SimTime, first: Lpn, count: u32, out: &mut Vec<N::Payload>) -> SimTime {
        use strobe_nand::Payload;
        let now = if self.translation.is_some() { self.look_up(now, first, count) } else { now };
        let mut finished = now;
        let mut at = 0;
        while at < count {
            let Some(ppa) = self.locate(first.plus(at)) else {
                out.push(N::Payload::zero());
                at += 1;
                continue;
            };
            // Neighbours on the same page come with one read.
            let page = self.nand.geometry().page_of(ppa);
            let from = out.len();
            while at < count
                && let Some(next) = self.locate(first.plus(at))
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

    fn peek(&self, lpn: Lpn) -> N::Payload {
        self.locate(lpn).map_or_else(strobe_nand::Payload::zero, |ppa| self.nand.payload(ppa))
    }

    fn trim(&mut self, now: SimTime, first: Lpn, count: u32) -> Result<SimTime, FtlError> {
        let mut done = now;
        for offset in 0..count {
            if self.translation.is_some() {
                done = done.max(self.look_up(now, first.plus(offset), 1));
            }
            self.unmap(first.plus(offset));
            done = self.commit_if_full(done)?;
        }
        Ok(done)
    }

    fn flush(&mut self, now: SimTime) -> Result<SimTime, FtlError> {
        if self.translation.is_some() {
            return self.flush_translated(now);
        }
        self.commit(now)
    }

    fn copy(&mut self, now: SimTime, from: Lpn, to: Lpn, count: u32) -> Result<SimTime, FtlError> {
        self.copy_units(now, from, to, count)
    }

    fn recover(self, now: SimTime, nand: N) -> Result<(Self, Recovery), RecoveryError> {
        let mut policy = self.policy;
        // A policy that knows no candidate is as good as a fresh one, if its clock does not go back.
        for block in (0..self.states.len() as u32).map(BlockId::new) {
            if self.states[block.index()] == BlockState::Closed {
                policy.taken(block);
            }
        }
        let (mut ftl, report) = Self::restart_at(nand, policy, self.config, now, self.tick)?;
        (ftl.gc, ftl.copies) = (self.gc.and(&ftl.gc), self.copies);
        if let (Some(translation), Some(before)) = (&mut ftl.translation, &self.translation) {
            translation.stats = before.stats.and(&translation.stats);
            // No page on flash says how many there were.
            ftl.host_units_written = ftl.host_units_written.max(self.host_units_written);
        }
        ftl.bad_block_host_writes.splice(0..0, self.bad_block_host_writes);
        Ok((ftl, report))
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

    fn copy_stats(&self) -> CopyStats {
        self.copies
    }

    fn translation_stats(&self) -> Option<TranslationStats> {
        self.translation.as_ref().map(|translation| translation.stats)
    }

    fn free_blocks(&self) -> u32 {
        self.free.count()
    }

    fn wear(&self) -> WearSummary {
        WearSummary::of_flash(&self.nand, &self.bad_block_host_writes)
    }

    fn check(&self) -> Result<(), CheckError> {
        self.check_state()
    }
}
