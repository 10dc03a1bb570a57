//! The page map: a logical unit can be stored at any flash address.
//!
//! A host write:
//!
//! 1. The drive asks `may_write`: at the `low` watermark or below, the write may stall
//!    (`reclaim/background/throttle.rs`).
//! 2. If the placement chooses the streams of host writes, `write.rs` asks it for the stream of each unit.
//! 3. `core/write.rs` programs the next pages of that stream, maps the units and invalidates old versions.
//! 4. If the stream has no open block and too few blocks are erased, `reclaim/collect.rs` reclaims some.
//! 5. `core/write.rs` opens an erased block; with a journaled map, an epoch records it first
//!    (`core/durable.rs`).
//! 6. Below the `high` watermark, `reclaim/background/` begins victims.

mod copy;
mod core;
mod map;
mod moved;
mod paging;
mod reads;
mod reclaim;
mod recover;
mod write;
mod write_cached;

use strobe_nand::{Nand, Payload, PowerCuts, Unit, When};
use strobe_types::{BlockId, Lpn, Ppa, SimTime, State};

use self::core::Core;
use self::core::check::Checker;
pub use self::core::config::{PageMapConfig, Refresh};
pub use self::core::handles::Handles;
pub use self::core::slc::{SlcConfig, WhenFull};
pub use self::core::space::Watermarks;
pub use self::core::stream_log::{AGE_BINS, StreamCounts};
use self::core::streams::HOST;
use self::map::store::MapStore;
use self::map::translation::Translation;
pub use self::map::translation::TranslationConfig;
use self::paging::Pager;
use self::reads::Reader;
use self::reclaim::Reclaimer;
use self::reclaim::background::Background;
use self::reclaim::relocate::Relocation;
use crate::capacity::CapacityError;
use crate::gc::VictimPolicy;
use crate::journal::{Journal, Log, Trims, region_for};
use crate::place::{DataTag, Placement, PlacementKind, StreamId, WriteContext};
use crate::{
    BlockInfo, CheckError, Done, FtlStats, Inspectable, MappingScheme, Recoverable, Recovery, RecoveryError,
};

/// A page-mapped flash translation layer over `N` with victim policy `V`.
///
/// Memory in addition to the chip: 4 bytes per logical unit, one bit per physical unit, up to 14 bytes per
/// block, and the policy's state. A placement adds up to 16 bytes per logical unit.
#[derive(Clone, Debug, State)]
pub struct PageMap<N: Nand, V> {
    core: Core<N, V>,
    #[state(skip)]
    relocation: Relocation<N::Payload>,
    background: Background,
}

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// Creates a fresh drive on `nand`. The error shows the capacity arithmetic.
    pub fn new(nand: N, policy: V, config: PageMapConfig) -> Result<Self, CapacityError> {
        Self::with_placement(nand, policy, None, config)
    }

    /// [`PageMap::new`] with the placement of [`PlacementKind::Own`](crate::PlacementKind::Own).
    pub fn with_placement(
        nand: N,
        policy: V,
        placement: Option<Box<dyn Placement>>,
        config: PageMapConfig,
    ) -> Result<Self, CapacityError> {
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
        let mut core = Core::new(nand, policy, placement, config, store);
        core.capacity().check()?;
        core.free_all();
        Ok(Self::of(core))
    }

    fn of(core: Core<N, V>) -> Self {
        let geometry = core.nand().geometry();
        let row_pages = core.config.batch(geometry.spec().planes_per_die);
        let background = Background::new(&core.space, row_pages, core.streams.ids().len(), geometry);
        Self { core, relocation: Relocation::default(), background }
    }

    fn pager(&mut self) -> Pager<'_, N, V> {
        Pager(self.reclaimer())
    }

    #[inline(always)]
    fn reclaimer(&mut self) -> Reclaimer<'_, N, V> {
        Reclaimer { core: &mut self.core, relocation: &mut self.relocation, background: &mut self.background }
    }

    #[inline]
    fn separates_host(&self) -> bool {
        self.core.config.placement.chooses_for_host()
    }
}

impl<N: Nand, V: VictimPolicy> MappingScheme for PageMap<N, V> {
    type Payload = N::Payload;
    type Nand = N;

    fn nand(&self) -> &N {
        self.core.nand()
    }

    fn nand_mut(&mut self) -> &mut N {
        self.core.nand_mut()
    }

    fn logical_units(&self) -> u32 {
        self.core.config.logical_units
    }

    fn stats(&self) -> &FtlStats {
        &self.core.stats
    }

    #[inline]
    fn write(&mut self, now: When, units: &[Unit<N::Payload>], context: WriteContext) -> Done {
        if self.core.end_of_life.is_some() {
            self.core.refuse_at_end_of_life()?;
        }
        if let Some(ppm) = self.core.config.garbage_ppm {
            return self.write_in_share(now, units, context, ppm);
        }
        let cause = context.cause;
        // Each case has a separate closure, so that the closure of the last and most common case is inlined
        // into the page loop.
        let done = if self.separates_host() {
            self.write_separated(now, context, units, &mut |core, run, first| {
                core.settle_host(run, first);
            })
        } else if self.core.slc.is_some() {
            self.write_cached(now, HOST, cause, units, &mut |core, run, first| {
                core.settle_host(run, first);
            })
        } else if self.core.store.is_paged() {
            self.write_paged(now, HOST, cause, units, &mut |core, run, first| {
                core.settle_host(run, first);
            })
        } else {
            self.fill(now, HOST, cause, units, |core, run, first| core.settle_host(run, first))
        };
        // The write has consumed free space: further victims may be due.
        if N::TIMED {
            self.reclaimer().collect_in_background();
        }
        if self.core.config.refresh.is_some() {
            self.reclaimer().refresh_if_due(&[]);
        }
        done
    }

    fn read(&mut self, now: When, first: Lpn, count: u32, out: &mut Vec<N::Payload>) -> Done {
        let now = self.pager().look_up(now, first, count);
        self.core.refuse_without_map()?;
        let Self { core, background, .. } = self;
        let refreshes = core.config.refresh.is_some();
        let mut blocks = Vec::new();
        let done = Reader { core, background }.read(now, first, count, out, |block| {
            if refreshes && !blocks.contains(&block) {
                blocks.push(block);
            }
        });
        if refreshes {
            self.reclaimer().refresh_if_due(&blocks);
        }
        done
    }

    fn trim(&mut self, now: When, first: Lpn, count: u32) -> Done {
        if self.core.store.is_paged() {
            return self.trim_paged(now, first, count);
        }
        // Fast path: mkfs discards the whole drive while nothing is mapped.
        if self.core.map().mapped == 0 {
            return Ok(now);
        }
        let (mut done, mut lpn, end) = (now, first, first.plus(count));
        loop {
            let Ok(next) = self.core.next_mapped(lpn, end) else {
                self.core.check_stop()?;
                return Ok(done);
            };
            let Some(mapped) = next else { return Ok(done) };
            self.core.unmap(mapped);
            done = self.core.commit_if_full(done)?;
            lpn = mapped.plus(1);
        }
    }

    fn flush(&mut self, now: When) -> Done {
        self.flush_map(now)
    }

    fn copy(&mut self, now: When, from: Lpn, to: Lpn, count: u32) -> Done {
        let done = self.copy_units(now, from, to, count);
        if N::TIMED {
            self.reclaimer().collect_in_background();
        }
        done
    }

    #[inline]
    fn may_write(&self, units: u32, tag: DataTag) -> bool {
        if !N::TIMED {
            return true;
        }
        if self.core.slc.is_some() {
            return self.background.has_cache_for_host(&self.core, units);
        }
        // With reclaim groups, the handle is the number of the stream.
        let group = match self.core.space.groups.count {
            1 => 0,
            _ => self.core.streams.table.group_of(StreamId::new(tag.handle as u8)),
        };
        self.background.has_space_for_host(&self.core, group, units)
    }

    fn idle_after_ns(&self) -> Option<u64> {
        self.core.slc.as_ref().filter(|_| self.core.nand().is_timed()).map(|slc| slc.config().fold_idle_ns)
    }

    fn set_idle(&mut self, is_idle: bool) {
        if let Some(slc) = &mut self.core.slc {
            slc.set_host_idle(is_idle);
            self.reclaimer().collect_in_background();
        }
    }

    fn on_event(&mut self, token: u64) {
        self.reclaimer().on_event(token);
    }

    #[inline]
    fn relevant(&self, tag: DataTag) -> DataTag {
        self.core.policies.relevant(tag)
    }

    fn handles(&self) -> u16 {
        self.core.config.handles()
    }

    fn stream_counts(&self) -> &[StreamCounts] {
        self.core.streams.log.as_ref().map_or(&[], |log| log.counts())
    }

    fn placement_handles(&self) -> Option<&Handles> {
        self.core.streams.handles.as_deref()
    }

    #[cold]
    fn begin_unit(&mut self, now: When, handle: u16) -> Done {
        self.core.refuse_at_end_of_life()?;
        let Some(handles) = &mut self.core.streams.handles else { return Ok(now) };
        let is_begun =
            handles.pages_left().get(usize::from(handle)).is_some_and(|&left| left < handles.unit_pages());
        if !is_begun {
            return Ok(now);
        }
        // Padding closes the old unit's blocks, so the next write opens blocks of the new unit.
        let done = self.core.pad_out(now, StreamId::new(handle as u8));
        if let Some(handles) = &mut self.core.streams.handles {
            handles.begin_unit(handle);
        }
        if N::TIMED {
            self.reclaimer().collect_in_background();
        }
        Ok(done)
    }

    fn stripe_units(&self) -> u32 {
        let frontier = &self.core.streams[HOST];
        let stripe = self.core.config.batch(frontier.lanes());
        // After an incomplete row, the next write completes it. Otherwise all later rows would be out of step. With
        // several host streams, the stream of the next write is not known here.
        let pages = match frontier.left_in_row() {
            left if left > 0 && !self.separates_host() && self.core.slc.is_none() => left.min(stripe),
            _ => stripe,
        };
        pages * self.core.nand().geometry().units_per_page()
    }

    #[inline]
    fn prefetch_entry(&self, lpn: Lpn) {
        self.core.prefetch_entry(lpn);
    }

    #[inline]
    fn prefetch_state(&self, lpn: Lpn) {
        self.core.prefetch_state(lpn);
    }
}

impl<N: Nand, V: VictimPolicy> Inspectable for PageMap<N, V> {
    fn mapped_units(&self) -> u32 {
        self.core.map().mapped
    }

    fn free_blocks(&self) -> u32 {
        self.core.blocks().free.count()
    }

    fn slc_blocks(&self) -> Option<u32> {
        self.core.slc.as_ref().map(|slc| slc.in_use())
    }

    fn is_collecting(&self) -> bool {
        self.background.is_at_work()
    }

    fn block_info(&self, block: BlockId) -> BlockInfo {
        let valid = self.core.blocks().valid[block.index()];
        let info =
            BlockInfo::of_flash(self.core.nand(), block, self.core.blocks().state(block).stage(), valid);
        let Some(stream) = self.core.blocks().stream_of(block) else { return info };
        let number = self.core.streams.table.is_placed(stream).then_some(stream);
        BlockInfo { stream: self.core.streams.table.named(stream), number, ..info }
    }

    fn locate(&self, lpn: Lpn) -> Option<Ppa> {
        self.core.map().locate(lpn)
    }

    fn peek(&self, lpn: Lpn) -> N::Payload {
        self.core.map().locate(lpn).map_or_else(N::Payload::zero, |ppa| self.core.nand().payload(ppa))
    }

    fn check(&self) -> Result<(), CheckError> {
        Checker(&self.core).check_state()
    }
}

impl<N: PowerCuts, V: VictimPolicy> Recoverable for PageMap<N, V> {
    fn recover(mut self, now: SimTime, nand: N) -> Result<(Self, Recovery), RecoveryError> {
        self.core.forget_candidates();
        let policy = self.core.policies.victims;
        let is_own = matches!(self.core.config.placement, PlacementKind::Own(_));
        let placement = self.core.policies.placement.as_ref().filter(|_| is_own).map(|own| own.after_cut());
        let (mut ftl, report) =
            Self::restart_at(nand, policy, placement, self.core.config, now, self.core.tick)?;
        if self.core.store.is_paged() {
            // The log stores the count of host units as of its last epoch; data pages store none.
            ftl.core.stats.host_units_written =
                ftl.core.stats.host_units_written.max(self.core.stats.host_units_written);
        }
        ftl.core.stats.continue_from(self.core.stats);
        if let (Some(log), Some(before)) = (&mut ftl.core.streams.log, &self.core.streams.log) {
            log.continue_from(before);
        }
        Ok((ftl, report))
    }
}
