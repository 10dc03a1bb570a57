//! The choices of a page-mapped drive, and what they need: blocks, memory.

use strobe_types::Geometry;

use crate::capacity::{Capacity, Demand};
use crate::frontier::Frontier;
use crate::gc::{Allocation, DieAllocation, GcStream};
use crate::heat::Temperature;
use crate::journal::format::WORDS_PER_ENTRY;
use crate::journal::{Journal, LogDemand, TrimsDemand};
use crate::map::page::core::handles::Handles;
use crate::map::page::core::slc::SlcConfig;
use crate::map::page::core::space::Watermarks;
use crate::map::page::core::streams::StreamTable;
use crate::map::page::map::sharing::Sharing;
use crate::map::page::map::translation::TranslationConfig;
use crate::place::{PlacementKind, PlacementSpec};
use crate::wear::{Leveler, Leveling};

/// When a block is moved to spare its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refresh {
    /// After so many reads of its pages since its erase; `None`: reads do not matter.
    pub reads: Option<u32>,
    /// So long after its first page was programmed, in ns; `None`: time does not matter.
    pub after_ns: Option<u64>,
}

/// Choices of a page-mapped drive, each independent of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMapConfig {
    /// Logical units offered to the host.
    pub logical_units: u32,
    /// Destination of valid units that collection moves.
    pub gc_stream: GcStream,
    /// Garbage collection starts when fewer erased blocks are left. `None`: the least that is
    /// safe (see [`PageMapConfig::least_free_blocks`]).
    pub min_free_blocks: Option<u32>,
    /// Erased blocks kept beyond that least, for programs that fail.
    pub fault_reserve: u32,
    /// Blocks that one call gains at least.
    pub net_blocks: u32,
    /// Share of invalid units, in millionths, above which a block is collected after each page that the host writes; `None`:
    /// only when few blocks are erased. Only for stop-the-world collection, a map in memory or a journal, and no SLC cache.
    pub garbage_ppm: Option<u32>,
    /// True if the blocks that a collection has written to are filled with padding when it ends. Then no two
    /// collections share a block. Only for stop-the-world collection, and streams of its own.
    pub pad_moved: bool,
    /// Data placement: the stream of each unit that is written or relocated.
    pub placement: PlacementKind,
    /// Measure of the heat of a unit.
    pub temperature: Temperature,
    /// Choice of the erased block opened next.
    pub allocation: Allocation,
    /// Static wear levelling.
    pub leveling: Option<Leveling>,
    /// Logical copy: entries of the virtual map, each a flash unit that two logical units share.
    /// 0: copies are physical.
    pub virtual_map_entries: u32,
    /// True if the map survives a power cut. It is then kept on flash, in reserved blocks.
    pub durable: bool,
    /// Good blocks reserved for the map, if that is more than it needs. Demand paging reserves what its
    /// log of trims needs and ignores this.
    pub map_blocks: u32,
    /// Demand paging: the map is on flash and only in part in memory. `None`: all of it is in memory.
    /// Copies are then physical: it goes with no virtual map.
    pub translation: Option<TranslationConfig>,
    /// Collection in the background, on flash that takes time. `None`: it stops the world.
    pub watermarks: Option<Watermarks>,
    /// Writing to blocks in SLC mode first, on flash whose blocks can be. It goes with no demand paging.
    pub slc: Option<SlcConfig>,
    /// Die of the next pages. Flash without timing is striped in any case.
    pub die_allocation: DieAllocation,
    /// Pages that are together before they are programmed, at most a page on each plane: of the write buffer, on all dies,
    /// and of copies, on one. 0: that many.
    pub batch_pages: u32,
    /// True if owners' lists are on flash, programmed with the map pages. Only with `translation`.
    pub owner_lists: bool,
    /// True if a flush programs a page of metadata on each plane, behind the map pages. Only with `translation`.
    pub flush_metadata: bool,
    /// Moving blocks that have been read too often or have lain too long, on flash that knows (`Nand::stress`).
    pub refresh: Option<Refresh>,
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
            garbage_ppm: None,
            pad_moved: false,
            placement: PlacementKind::Single,
            temperature: Temperature::UpdateCount,
            allocation: Allocation::Fifo,
            leveling: None,
            virtual_map_entries: 0,
            durable: false,
            map_blocks: 0,
            translation: None,
            watermarks: None,
            slc: None,
            die_allocation: DieAllocation::Stripe,
            batch_pages: 0,
            owner_lists: false,
            flush_metadata: false,
            refresh: None,
            seed: 0,
        }
    }

    /// True if pages go to the die with the least work waiting, given flash of `geometry`, with timing or
    /// not.
    pub(crate) fn is_free_first(&self, is_timed: bool, geometry: &Geometry) -> bool {
        // A reclaim group has some of the dies.
        let is_whole = self.groups() == 1;
        self.die_allocation == DieAllocation::FreeFirst && is_timed && geometry.dies() > 1 && is_whole
    }

    /// `pages`, which are a page on each of some planes, or fewer if fewer are to be together.
    pub(crate) fn batch(&self, pages: u32) -> u32 {
        if self.batch_pages == 0 { pages } else { pages.min(self.batch_pages) }
    }

    /// Choices that the placement is made from.
    pub(crate) fn placement_spec(&self) -> PlacementSpec {
        PlacementSpec {
            kind: self.placement,
            temperature: self.temperature,
            shares_host: self.gc_stream == GcStream::Host,
            logical_units: self.logical_units,
        }
    }

    /// Streams with open blocks of their own.
    pub(crate) fn streams(&self) -> StreamTable {
        let others = [self.leveling.is_some(), self.translation.is_some(), self.slc.is_some()];
        StreamTable::new(self.groups(), self.placement_spec().streams(), others)
    }

    /// Reclaim groups, each of as many dies as any other.
    pub(crate) fn groups(&self) -> u32 {
        match self.placement {
            PlacementKind::Handles { groups, .. } => groups.into(),
            _ => 1,
        }
    }

    /// Open blocks that a stream may have.
    fn lanes(&self, geometry: &Geometry) -> u32 {
        Frontier::lanes_of(geometry) / self.groups()
    }

    /// The placement handles of the drive; `None` if the host does not choose streams by handle.
    pub(crate) fn make_handles(&self, geometry: &Geometry) -> Option<Handles> {
        match self.placement {
            PlacementKind::Handles { count, isolation, unit_blocks, groups } => {
                Some(Handles::new([count, groups], isolation, unit_blocks, geometry))
            }
            _ => None,
        }
    }

    /// Placement handles that a write may name, in all reclaim groups: 1 if the host does not choose streams.
    pub fn handles(&self) -> u16 {
        match self.placement {
            PlacementKind::Handles { count, groups, .. } => u16::from(count) * u16::from(groups),
            PlacementKind::Own(layout) => layout.handles.into(),
            _ => 1,
        }
    }

    /// Erased blocks that a drive of this kind keeps in hand on `geometry`, in each reclaim group.
    ///
    /// While a victim is moved, each lane of the streams it goes to may need a new block before
    /// the first one is erased; wear levelling likewise. One more covers a failed program, and the
    /// last is the one the host is waiting for.
    ///
    /// With demand paging, translation pages must be updated before the victim is erased; in the worst case each
    /// of its units has its entry in another one. Collecting those pages again may take a block on each of their
    /// lanes. Where the host shares blocks with copies, one more: translation pages may have taken the block that
    /// was counted as the host's.
    ///
    /// A block that is always in SLC mode is emptied as a victim is, and gives no block back for it.
    pub fn least_free_blocks(&self, geometry: &Geometry) -> u32 {
        let victim = u32::from(self.streams().victim_streams);
        let wear = u32::from(self.leveling.is_some());
        let lanes = self.lanes(geometry);
        let slc = if self.static_slc_blocks() > 0 { lanes } else { 0 };
        let translation = match self.translation_pages(geometry) {
            0 => 0,
            pages => {
                let shared = u32::from(self.gc_stream == GcStream::Host);
                self.translation_updates(geometry) + lanes.min(pages) + shared
            }
        };
        (victim + wear) * lanes + slc + translation + 2 + self.fault_reserve
    }

    /// Good blocks that are reserved for the map.
    pub fn map_blocks(&self, geometry: &Geometry) -> u32 {
        if !self.durable {
            0
        } else if self.translation.is_some() {
            self.trims_demand().blocks(geometry)
        } else {
            self.log_demand(geometry).blocks(geometry).max(self.map_blocks)
        }
    }

    /// Size of the log of a drive whose map is demand-paged.
    pub(crate) fn trims_demand(&self) -> TrimsDemand {
        TrimsDemand {
            logical_units: self.logical_units,
            virtual_map_entries: self.virtual_map_entries,
            fault_reserve: self.fault_reserve,
        }
    }

    pub(crate) fn log_demand(&self, geometry: &Geometry) -> LogDemand {
        let shared = u64::from(self.virtual_map_entries) * WORDS_PER_ENTRY;
        LogDemand {
            words: u64::from(self.logical_units) + shared,
            open_blocks: self.streams().count() as u32 * self.lanes(geometry),
            fault_reserve: self.fault_reserve,
        }
    }

    /// The reserve arithmetic of a drive with `usable_blocks` good blocks, those for the map included.
    pub fn capacity(&self, geometry: &Geometry, usable_blocks: u32) -> Capacity {
        let map = self.map_blocks(geometry);
        // They are striped over the planes, and some reclaim group has the most of them.
        let map = if self.groups() == 1 { map } else { map.next_multiple_of(geometry.planes()) };
        let others = map.saturating_add(self.static_slc_blocks());
        self.capacity_of(geometry, usable_blocks.saturating_sub(others))
    }

    /// Blocks that are always in SLC mode.
    pub(crate) fn static_slc_blocks(&self) -> u32 {
        self.slc.map_or(0, |slc| slc.static_blocks)
    }

    /// Reserve arithmetic with `usable_blocks` for data alone.
    pub(crate) fn capacity_of(&self, geometry: &Geometry, usable_blocks: u32) -> Capacity {
        let min_free_blocks = self.trigger(geometry);
        // Translation pages, packed as densely as they can be.
        let translation = self.translation_pages(geometry).div_ceil(geometry.pages_per_block());
        Capacity::new(Demand {
            logical_units: self.logical_units,
            usable_blocks: usable_blocks.saturating_sub(translation),
            open_blocks: self.streams().count() as u32 * self.lanes(geometry),
            // What is erased when the last victim of a call is chosen.
            reserve_blocks: self.groups() * (min_free_blocks - 1 + self.net_blocks.max(1) - 1),
            map_blocks: self.map_blocks(geometry) + translation,
            slc_blocks: self.static_slc_blocks(),
            slc_open_blocks: if self.slc.is_some() { Frontier::lanes_of(geometry) } else { 0 },
            pages_per_block: geometry.pages_per_block(),
            units_per_page: geometry.units_per_page(),
            groups: self.groups(),
        })
    }

    /// Most valid units with which a reclaim group of `usable_blocks` good blocks can be collected.
    pub(crate) fn room_of_group(&self, geometry: &Geometry, usable_blocks: u32) -> u64 {
        self.capacity_of(geometry, usable_blocks * self.groups()).room_of_group()
    }

    /// Bytes of host memory that a drive of this kind takes beside its chip and its policy.
    pub fn memory_bytes(&self, geometry: &Geometry) -> u64 {
        let per_block = 6 + 8 + self.leveling.map_or(0, Leveler::bytes_per_block);
        let sharing = match self.virtual_map_entries {
            0 => 0,
            entries => Sharing::bytes(geometry.units(), entries),
        };
        let journal = match (self.durable, self.translation) {
            (false, _) => 0,
            (true, Some(_)) => self.trims_demand().bytes(),
            (true, None) => Journal::bytes([self.logical_units, self.virtual_map_entries]),
        };
        let translation = self
            .translation
            .map_or(0, |how| how.memory_bytes(geometry, self.logical_units, self.virtual_map_entries > 0));
        sharing
            + journal
            + translation
            + u64::from(self.logical_units) * 4
            + self.placement_spec().bytes(geometry)
            + u64::from(geometry.units()).div_ceil(8)
            + u64::from(geometry.blocks()) * per_block
    }

    /// Translation pages, 0 if the map is not demand-paged.
    pub(crate) fn translation_pages(&self, geometry: &Geometry) -> u32 {
        self.translation.map_or(0, |how| how.pages(geometry, self.logical_units))
    }

    /// Blocks on which programs of `pages` translation pages can go on beyond the open ones.
    pub(crate) fn translation_blocks(geometry: &Geometry, pages: u32) -> u32 {
        let lanes = Frontier::lanes_of(geometry);
        (lanes * pages.div_ceil(lanes).div_ceil(geometry.pages_per_block())).min(pages)
    }

    /// Blocks for the translation pages that the relocation of one victim may update. Each of its units may
    /// have its entry in another translation page.
    pub(crate) fn translation_updates(&self, geometry: &Geometry) -> u32 {
        let pages = self.translation_pages(geometry);
        Self::translation_blocks(geometry, pages.min(geometry.units_per_block()))
    }

    /// Erased blocks that the drive keeps in hand, in all reclaim groups together: with fewer, collection stops the world.
    pub fn least_erased_blocks(&self, geometry: &Geometry) -> u32 {
        self.groups() * self.trigger(geometry)
    }

    /// Erased blocks below which garbage collection stops the world, in each reclaim group.
    pub(crate) fn trigger(&self, geometry: &Geometry) -> u32 {
        self.min_free_blocks.unwrap_or(0).max(self.least_free_blocks(geometry))
    }
}
