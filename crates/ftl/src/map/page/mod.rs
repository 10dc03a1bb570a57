//! The page map: every logical unit may lie anywhere.
//!
//! [`PageMap`] and what a mapping scheme promises are here. It consists of parts that know nothing of each other:
//! `entries.rs` is the map, `sharing.rs` the part of it that logical copy adds, `store.rs` where it is kept,
//! `blocks.rs` what each block is doing; `config.rs` has the choices of a drive.
//!
//! `slc.rs` is the SLC cache, which host writes go through if there is one. `reads.rs` has reads, and what
//! becomes of data that cannot be read.
//!
//! The procedures on them: `write.rs` fills blocks, `relocate.rs` empties them, for `collect.rs` and others, `copy.rs` copies, `durable.rs` ends
//! epochs of the journal, `recover.rs` finds the map again, `check.rs` is the whole-state checker. With demand
//! paging the map itself is on flash: `translation.rs` says what for, `cmt.rs` is what is cached of it,
//! `paging.rs` fetches and evicts, `compact.rs` is its share of collection, `rescan.rs` finds it after a power cut.

mod background;
mod blocks;
mod check;
mod cmt;
mod collect;
mod compact;
mod config;
mod copy;
mod durable;
mod entries;
mod garbage;
mod headway;
mod log;
mod moved;
mod paging;
mod placed;
mod reads;
mod recover;
mod refresh;
mod relocate;
mod rescan;
mod sharing;
mod slc;
mod state;
mod store;
mod streams;
mod translation;
mod write;

use strobe_nand::{Cause, Nand, Payload, PowerCuts, Unit, When};
use strobe_types::{BlockId, Lpn, Ppa, Prng, SimTime};

use crate::capacity::{Capacity, CapacityError};
use crate::gc::{Allocation, VictimPolicy};
use crate::journal::{Journal, Log, Trims, region_for};
use crate::place::{CopyContext, DataTag, Placement, Relocated, StreamId, WriteContext};
use crate::wear::Leveler;
use crate::{
    BlockInfo, CheckError, Done, FtlError, FtlStats, Inspectable, MappingScheme, Recoverable, Recovery,
    RecoveryError, SlcStats, Stream, read_result,
};

use background::Background;
pub use background::Marks;
use blocks::{BlockState, Blocks};
pub use config::PageMapConfig;
use entries::Entries;
pub use refresh::Refresh;
use relocate::Relocation;
use sharing::Sharing;
pub use sharing::WhenMapFull;
use slc::SlcCache;
pub use slc::{SlcConfig, WhenFull};
use store::MapStore;
use streams::{HOST, Streams};
use translation::Translation;
pub use translation::TranslationConfig;

/// A page-mapped flash translation layer over `N` with victim policy `V`.
///
/// Memory beside the chip: 4 bytes per logical unit, one bit per physical unit, 6 bytes per block
/// and the state of the policy; a placement adds 4 to 12 bytes per logical unit.
#[derive(Clone, Debug)]
pub struct PageMap<N: Nand, V> {
    config: PageMapConfig,
    nand: N,
    map: Entries,
    store: MapStore,
    blocks: Blocks,
    streams: Streams,
    /// Chooses streams; `None` if there is nothing to choose.
    placement: Option<Box<dyn Placement>>,
    policy: V,
    /// The policy's chance.
    rng: Prng,
    leveler: Option<Leveler>,
    /// Erased blocks below which garbage collection starts.
    min_free_blocks: u32,
    /// Host units written or trimmed, plus one: the policies' clock, which starts at 1.
    tick: u64,
    /// The sequence number of the next program.
    sequence: u64,
    stats: FtlStats,
    background: Background,
    /// The block whose age is looked at next.
    patrol: u32,
    slc: Option<Box<SlcCache>>,
    is_free_first: bool,
    /// Why only reads are served any more.
    end_of_life: Option<FtlError>,
    relocation: Relocation<N::Payload>,
    /// When what is being written is on flash, run by run.
    whens: Vec<When>,
}

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// A fresh drive on `nand`, or the arithmetic that shows why it could not work.
    pub fn new(nand: N, policy: V, config: PageMapConfig) -> Result<Self, CapacityError> {
        let geometry = nand.geometry();
        let trims = || config.durable.then(|| Trims::new(&nand, config.trims_demand()));
        let store = match config.translation {
            Some(how) => {
                let shares = config.virtual_map_entries > 0;
                MapStore::Paged(Box::new(Translation::new(
                    config.logical_units,
                    &how,
                    geometry,
                    shares,
                    trims(),
                )))
            }
            None if config.durable => {
                let region = region_for(geometry, config.map_blocks(geometry), |block| nand.block(block).bad);
                let tables = [config.logical_units, config.virtual_map_entries];
                let log = Log::new(geometry, region);
                MapStore::Journaled(Box::new(Journal::new(
                    geometry,
                    config.log_demand(geometry),
                    log,
                    tables,
                )))
            }
            None => MapStore::Memory,
        };
        let mut ftl = Self::with_store(nand, policy, config, store);
        ftl.capacity().check()?;
        let free: Vec<BlockId> = ftl.blocks.usable().collect();
        for block in free {
            match ftl.is_reserved(block) {
                true => ftl.reserve(block),
                false => ftl.blocks.put_free(block, ftl.nand.geometry(), 0),
            }
        }
        Ok(ftl)
    }

    /// An empty map with no block at hand yet.
    fn with_store(nand: N, policy: V, config: PageMapConfig, store: MapStore) -> Self {
        debug_assert!(
            config.translation.is_none() || config.slc.is_none(),
            "demand paging goes with no SLC cache"
        );
        let geometry = nand.geometry();
        let slc = config.slc.map(|how| Box::new(SlcCache::new(how, nand.slc_pages(), geometry)));
        let is_reserved = |block| slc.as_ref().is_some_and(|slc| slc.is_static(block));
        let blocks =
            Blocks::new(&nand, store.journal().map(Journal::log), config.allocation != Allocation::Fifo);
        let is_free_first = config.is_free_first(nand.is_timed(), nand.geometry());
        let is_good = |block| blocks.state(block) == BlockState::Free && !is_reserved(block);
        let tables = config.translation_pages(geometry).saturating_mul(geometry.units_per_page());
        let shares = config.virtual_map_entries > 0;
        let sharing = shares.then(|| Sharing::new(geometry.units(), config.virtual_map_entries));
        let translation = store.is_paged().then(Default::default);
        Self {
            map: Entries::new(config.logical_units.saturating_add(tables), sharing),
            streams: Streams::new(config.streams(), geometry, is_free_first, nand.slc_pages()),
            placement: config.placement_spec().build(geometry),
            rng: Prng::derive(config.seed, "victim"),
            leveler: config.leveling.map(|how| Leveler::new(how, geometry.blocks(), is_good)),
            min_free_blocks: config.trigger(geometry),
            tick: 1,
            // 0 is what a page has whose program was cut short.
            sequence: u64::from(store.is_paged()),
            stats: FtlStats {
                translation,
                slc: config.slc.map(|_| SlcStats::default()),
                ..FtlStats::default()
            },
            patrol: 0,
            is_free_first,
            slc,
            background: Background::new(
                config.marks.filter(|_| nand.is_timed()),
                config.batch(geometry.spec().planes_per_die),
                config.streams().copies.len(),
                geometry,
            ),
            end_of_life: None,
            relocation: Relocation::default(),
            whens: Vec::new(),
            blocks,
            store,
            config,
            nand,
            policy,
        }
    }

    /// True if the placement is asked for the stream of host writes.
    #[inline]
    fn separates_host(&self) -> bool {
        self.config.placement.chooses_for_host()
    }

    /// Returns the placement's view of `block`, which is full or emptied.
    fn copy_context(&self, block: BlockId) -> CopyContext {
        let placed = |stream: &StreamId| self.streams.table.is_placed(*stream);
        CopyContext { block, stream: self.blocks.stream_of(block).filter(placed), tick: self.tick }
    }

    fn capacity(&self) -> Capacity {
        let blocks = self.blocks.usable().filter(|&block| !self.is_reserved(block)).count();
        self.config.capacity_of(self.nand.geometry(), blocks as u32)
    }

    /// Ends the drive's life if there are too few blocks left to go on.
    fn retire_if_worn_out(&mut self) {
        if self.capacity().check().is_err() {
            self.end_of_life = Some(FtlError::EndOfLife {
                bad_blocks: self.blocks.count(BlockState::Bad),
                room_units: self.capacity().room_units(),
                logical_units: self.config.logical_units,
            });
        }
    }

    fn refuse_at_end_of_life(&self) -> Result<(), FtlError> {
        self.end_of_life.clone().map_or(Ok(()), Err)
    }

    /// [`PageMap::refuse_at_end_of_life`], which an interruption brings about as wear does: then all that is under way
    /// comes to an end on the paths that are there for a drive that has worn out. To be called once per block that is
    /// opened, emptied or passed over, as work without a bound consists of such steps.
    fn heed_stop(&mut self) -> Result<(), FtlError> {
        if self.nand.is_stopped() {
            self.end_of_life = Some(FtlError::Interrupted);
        }
        self.refuse_at_end_of_life()
    }

    /// True if a pass over logical units, which has come to `lpn`, is to end there. It looks at every 16,384th.
    #[inline]
    fn is_stopped_at(&self, lpn: Lpn) -> bool {
        lpn.get().is_multiple_of(1 << 14) && self.nand.is_stopped()
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

    fn stats(&self) -> &FtlStats {
        &self.stats
    }

    #[inline]
    fn write(&mut self, now: When, units: &[Unit<N::Payload>], context: WriteContext) -> Done {
        if self.end_of_life.is_some() {
            self.refuse_at_end_of_life()?;
        }
        if let Some(ppm) = self.config.garbage_ppm {
            return self.write_in_share(now, units, context, ppm);
        }
        let cause = context.cause;
        // A closure of its own for the common case, so that its work is part of the loop over pages.
        let done = if self.slc.is_some() {
            self.write_cached(now, cause, units)
        } else if self.separates_host() {
            self.write_separated(now, context, units, |ftl, run, first| ftl.settle_host(run, first))
        } else if self.store.is_paged() {
            self.write_paged(now, HOST, cause, units, |ftl, run, first| ftl.settle_host(run, first))
        } else {
            self.write_pages(now, HOST, cause, units, |ftl, run, first| ftl.settle_host(run, first))
        };
        if N::TIMED {
            self.collect_in_background();
        }
        if self.config.refresh.is_some() {
            self.refresh_if_due(None);
        }
        done
    }

    fn read(&mut self, now: When, first: Lpn, count: u32, out: &mut Vec<N::Payload>) -> Done {
        let now = self.look_up(now, first, count);
        self.refuse_without_map()?;
        let mut lost = None;
        let mut finished = now;
        let mut at = 0;
        let mut last = None;
        while at < count {
            let Some(ppa) = self.map.locate(first.plus(at)) else {
                out.push(N::Payload::zero());
                at += 1;
                continue;
            };
            // Neighbours on the same page come with one read.
            let page = self.nand.geometry().page_of(ppa);
            let from = out.len();
            while at < count
                && let Some(next) = self.map.locate(first.plus(at))
                && self.nand.geometry().page_of(next) == page
            {
                out.push(self.nand.payload(next));
                at += 1;
            }
            let units = (out.len() - from) as u32;
            let first = first.plus(at - units);
            let (done, is_lost) = if self.nand.is_on_its_way(page) {
                let done = self.read_on_its_way(now, first, units);
                (done, self.lost_on_their_way(first, units))
            } else {
                let wanted = self.wanted_of_page(first, units);
                let done = self.nand.read(now, page, wanted, Cause::Host);
                (done.when, self.lost_in(done, first, units))
            };
            lost = lost.or(is_lost);
            finished = self.nand.both(finished, done);
            last = Some(page);
        }
        if self.config.refresh.is_some() {
            self.refresh_if_due(last.map(|page| self.nand.geometry().block_of_page(page)));
        }
        read_result(finished, lost)
    }

    fn trim(&mut self, now: When, first: Lpn, count: u32) -> Done {
        let mut done = now;
        for lpn in (0..count).map(|at| first.plus(at)) {
            if self.is_stopped_at(lpn) {
                self.heed_stop()?;
            }
            let next = self.look_up_changed(now, lpn);
            self.refuse_without_map()?;
            done = self.nand.both(done, next);
            self.unmap(lpn);
            done = self.commit_if_full(done)?;
        }
        Ok(done)
    }

    fn flush(&mut self, now: When) -> Done {
        let written = self.flush_entries(now);
        let done = self.commit(now)?;
        let written = written?;
        Ok(self.nand.both(written, done))
    }

    fn copy(&mut self, now: When, from: Lpn, to: Lpn, count: u32) -> Done {
        self.copy_units(now, from, to, count)
    }

    #[inline]
    fn may_write(&self, units: u32) -> bool {
        match &self.slc {
            Some(_) if N::TIMED => self.has_cache_for_host(units),
            _ => !N::TIMED || self.has_room_for_host(units),
        }
    }

    fn idle_after_ns(&self) -> Option<u64> {
        self.slc.as_ref().filter(|_| self.nand.is_timed()).map(|slc| slc.config().fold_idle_ns)
    }

    fn set_idle(&mut self, is_idle: bool) {
        if let Some(slc) = &mut self.slc {
            slc.set_host_idle(is_idle);
            self.collect_in_background();
        }
    }

    fn go_on(&mut self, token: u64) {
        self.go_on_with(token);
    }

    #[inline]
    fn relevant(&self, tag: DataTag) -> DataTag {
        self.placement.as_ref().map_or(DataTag::default(), |placement| placement.relevant(tag))
    }

    fn handles(&self) -> u16 {
        self.config.handles()
    }

    fn stripe_units(&self) -> u32 {
        self.config.batch(self.streams[HOST].lanes()) * self.nand.geometry().units_per_page()
    }

    fn prefetch_entry(&self, lpn: Lpn) {
        self.map.prefetch(lpn);
    }

    fn prefetch_state(&self, lpn: Lpn) {
        if let Some(old) = self.map.find(lpn) {
            let block = self.nand.geometry().block_of(old);
            self.blocks.prefetch(old, block);
            self.policy.prefetch(block);
        }
    }
}

impl<N: Nand, V: VictimPolicy> Inspectable for PageMap<N, V> {
    fn mapped_units(&self) -> u32 {
        self.map.mapped
    }

    fn free_blocks(&self) -> u32 {
        self.blocks.free.count()
    }

    fn slc_blocks(&self) -> Option<u32> {
        self.slc.as_ref().map(|slc| slc.in_use())
    }

    fn is_collecting(&self) -> bool {
        self.background.is_at_work()
    }

    fn block_info(&self, block: BlockId) -> BlockInfo {
        let valid = self.blocks.valid[block.index()];
        let info = BlockInfo::of_flash(&self.nand, block, self.blocks.state(block).stage(), valid);
        let stream = self.blocks.stream_of(block);
        let stream = stream.map_or(Stream::Unknown, |stream| self.streams.table.named(stream));
        BlockInfo { stream, ..info }
    }

    fn locate(&self, lpn: Lpn) -> Option<Ppa> {
        self.map.locate(lpn)
    }

    fn peek(&self, lpn: Lpn) -> N::Payload {
        self.map.locate(lpn).map_or_else(N::Payload::zero, |ppa| self.nand.payload(ppa))
    }

    fn check(&self) -> Result<(), CheckError> {
        self.check_state()
    }
}

impl<N: PowerCuts, V: VictimPolicy> Recoverable for PageMap<N, V> {
    fn recover(self, now: SimTime, nand: N) -> Result<(Self, Recovery), RecoveryError> {
        let mut policy = self.policy;
        // A policy that knows no candidate is as good as a fresh one, if its clock does not go back.
        for block in self.blocks.usable().filter(|&block| self.blocks.state(block) == BlockState::Closed) {
            policy.taken(block);
        }
        let (mut ftl, report) = Self::restart_at(nand, policy, self.config, now, self.tick)?;
        if self.store.is_paged() {
            // No page on flash says how many there were.
            ftl.stats.host_units_written = ftl.stats.host_units_written.max(self.stats.host_units_written);
        }
        ftl.stats.continue_from(self.stats);
        Ok((ftl, report))
    }
}
