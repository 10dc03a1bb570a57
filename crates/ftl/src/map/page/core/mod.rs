//! The core of a page map. The only code that programs, maps and erases.

pub(crate) mod blocks;
pub(crate) mod check;
pub(crate) mod config;
mod durable;
mod groups;
pub(crate) mod handles;
mod life;
mod log;
mod losses;
mod moved;
mod owners;
mod policies;
pub(crate) mod restore;
pub(crate) mod slc;
pub(crate) mod space;
pub(crate) mod stream_log;
pub(crate) mod streams;
pub(crate) mod tables;
pub(crate) mod write;

use strobe_nand::{Cause, Nand, ReadDone, Timing, Wanted, When};
use strobe_types::{BlockId, Lpn, Ppn, State};

use crate::capacity::Capacity;
use crate::gc::{Allocation, DieAllocation, VictimPolicy};
use crate::journal::Journal;
use crate::map::page::core::blocks::{BlockState, Blocks};
use crate::map::page::core::config::PageMapConfig;
use crate::map::page::core::groups::Groups;
use crate::map::page::core::policies::Policies;
use crate::map::page::core::slc::SlcCache;
use crate::map::page::core::space::FreeSpace;
use crate::map::page::core::stream_log::StreamLog;
use crate::map::page::core::streams::Streams;
use crate::map::page::map::entries::Entries;
use crate::map::page::map::lists::OwnerLists;
use crate::map::page::map::sharing::Sharing;
use crate::map::page::map::store::MapStore;
use crate::place::{CopyContext, Placement, PlacementKind, StreamId};
use crate::wear::Leveler;
use crate::{FtlError, FtlStats, SlcStats};

/// Units between two polls for a stop request.
const STOP_STRIDE: u32 = 1 << 14;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped;

#[derive(Clone, Debug, State)]
pub(crate) struct Core<N: Nand, V> {
    #[state(skip)]
    pub(crate) config: PageMapConfig,
    nand: N,
    map: Entries,
    pub(crate) store: MapStore,
    blocks: Blocks,
    pub(crate) streams: Streams,
    pub(crate) policies: Policies<V>,
    pub(crate) space: FreeSpace,
    /// Clock of the policies: host units written, physically copied or trimmed, plus one.
    pub(crate) tick: u64,
    /// Sequence number of the next page.
    sequence: u64,
    pub(crate) stats: FtlStats,
    #[state(part)]
    pub(crate) slc: Option<Box<SlcCache>>,
    /// Reason for refusing writes.
    pub(crate) end_of_life: Option<FtlError>,
    /// Buffer: completion times of programs.
    whens: Vec<When>,
}

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    /// `placement` is given for [`PlacementKind::Own`] only.
    pub(crate) fn new(
        nand: N,
        policy: V,
        placement: Option<Box<dyn Placement>>,
        config: PageMapConfig,
        mut store: MapStore,
    ) -> Self {
        let is_own = matches!(config.placement, PlacementKind::Own(_));
        assert_eq!(placement.is_some(), is_own, "a placement is given if the configuration asks for one");
        debug_assert!(
            config.translation.is_none() || config.slc.is_none(),
            "demand paging excludes the SLC cache"
        );
        let geometry = nand.geometry();
        let slc = config.slc.map(|how| Box::new(SlcCache::new(how, nand.slc_pages(), geometry)));
        let is_reserved = |block| slc.as_ref().is_some_and(|slc| slc.is_static(block));
        let blocks =
            Blocks::new(&nand, store.journal().map(Journal::log), config.allocation != Allocation::Fifo);
        let is_free_first = config.is_free_first(nand.is_timed(), nand.geometry());
        let is_good = |block| blocks.state(block) == BlockState::Free && !is_reserved(block);
        let leveler = config.leveling.map(|how| Leveler::new(how, geometry.blocks(), is_good));
        let tables = config.translation_pages(geometry).saturating_mul(geometry.units_per_page());
        let shares = config.virtual_map_entries > 0;
        let sharing = shares.then(|| Sharing::new(geometry.units(), config.virtual_map_entries));
        let translation = store.is_paged().then(Default::default);
        if let (true, MapStore::Paged(translation)) = (config.owner_lists, &mut store) {
            translation.lists = OwnerLists::of(geometry.blocks());
        }
        let mut streams = Streams::new(config.streams(), geometry, is_free_first, nand.slc_pages());
        streams.is_by_address = config.die_allocation == DieAllocation::ByAddress;
        streams.handles = config.make_handles(geometry).map(Box::new);
        let placement = placement.or_else(|| config.placement_spec().build(geometry));
        let has_log = placement.is_some();
        streams.log = has_log.then(|| Box::new(StreamLog::new(streams.table.count(), geometry)));
        Self {
            map: Entries::new(config.logical_units.saturating_add(tables), sharing),
            streams,
            policies: Policies::new(policy, config.seed, leveler, placement),
            space: FreeSpace::new(
                config.trigger(geometry),
                config.watermarks.filter(|_| nand.is_timed()),
                Groups::new(config.groups(), geometry),
            ),
            tick: 1,
            // With demand paging, recovery reads every page. Sequence number 0 is reserved there for padding
            // and for pages whose program was cut short.
            sequence: u64::from(store.is_paged()),
            stats: FtlStats {
                translation,
                slc: config.slc.map(|_| SlcStats::default()),
                ..FtlStats::default()
            },
            slc,
            end_of_life: None,
            whens: Vec::new(),
            blocks,
            store,
            config,
            nand,
        }
    }

    #[inline(always)]
    pub(crate) fn nand(&self) -> &N {
        &self.nand
    }

    /// The flash, for the drive only: it lets time pass.
    #[inline(always)]
    pub(in crate::map::page) fn nand_mut(&mut self) -> &mut N {
        &mut self.nand
    }

    /// Completion of both `a` and `b`.
    #[inline(always)]
    pub(crate) fn both(&mut self, a: When, b: When) -> When {
        self.nand.both(a, b)
    }

    /// Completion of all of `whens`.
    pub(crate) fn all(&mut self, whens: &[When]) -> When {
        self.nand.timing_mut().all(whens)
    }

    /// Reports `token` as an event at `when`.
    #[inline(always)]
    pub(crate) fn watch(&mut self, when: When, token: u64) {
        self.nand.timing_mut().watch(when, token);
    }

    #[inline(always)]
    pub(crate) fn read(&mut self, after: When, page: Ppn, wanted: Wanted, cause: Cause) -> ReadDone {
        self.nand.read(after, page, wanted, cause)
    }

    #[inline(always)]
    pub(crate) fn read_pages(&mut self, pages: &[(Ppn, Wanted)], cause: Cause) -> ReadDone {
        self.nand.read_pages(pages, cause)
    }

    #[inline(always)]
    pub(crate) fn map(&self) -> &Entries {
        &self.map
    }

    #[inline(always)]
    pub(crate) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    pub(crate) fn copy_context(&self, block: BlockId) -> CopyContext {
        let placed = |stream: &StreamId| self.streams.table.is_placed(*stream);
        CopyContext { block, stream: self.blocks.stream_of(block).filter(placed), tick: self.tick }
    }

    pub(crate) fn capacity(&self) -> Capacity {
        self.config.capacity_of(self.nand.geometry(), self.usable_blocks())
    }

    /// Ends the drive's life if the good blocks no longer cover the logical units.
    pub(crate) fn retire_if_worn_out(&mut self) {
        if self.capacity().check().is_err() {
            self.end_of_life = Some(FtlError::EndOfLife {
                bad_blocks: self.blocks.count(BlockState::Bad),
                capacity_units: self.capacity().capacity_units(),
                logical_units: self.config.logical_units,
            });
        }
    }

    #[inline]
    pub(crate) fn refuse_at_end_of_life(&self) -> Result<(), FtlError> {
        match &self.end_of_life {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// [`Core::refuse_at_end_of_life`]; a stop request ends the drive's life. Loops over blocks call this
    /// once per block.
    #[inline]
    pub(crate) fn check_stop(&mut self) -> Result<(), FtlError> {
        if self.nand.is_stopped() {
            self.end_of_life = Some(FtlError::Interrupted);
        }
        self.refuse_at_end_of_life()
    }

    /// True if a pass over logical units must end on a stop request. Polls at every 16,384th step.
    #[inline]
    pub(crate) fn is_stopped_at(&self, step: u32) -> bool {
        step.is_multiple_of(STOP_STRIDE) && self.nand.is_stopped()
    }

    pub(crate) fn next_mapped(&self, first: Lpn, end: Lpn) -> Result<Option<Lpn>, Stopped> {
        let mut lpn = first;
        while lpn < end {
            if self.is_stopped_at(lpn.get()) {
                return Err(Stopped);
            }
            let next_look = (lpn.get() / STOP_STRIDE).saturating_add(1).saturating_mul(STOP_STRIDE);
            let until = Lpn::new(next_look).min(end);
            if let Some(mapped) = self.map.first_mapped(lpn, until) {
                return Ok(Some(mapped));
            }
            lpn = until;
        }
        Ok(None)
    }
}
