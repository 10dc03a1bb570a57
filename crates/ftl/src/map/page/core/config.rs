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

/// Conditions for moving a block to preserve its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refresh {
    /// Reads of the block since its erase. `None`: no limit.
    pub reads: Option<u32>,
    /// Time since its first page was programmed, in ns. `None`: no limit.
    pub after_ns: Option<u64>,
}

/// Settings of a page-mapped drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMapConfig {
    /// Logical units offered to the host.
    pub logical_units: u32,
    /// Destination of valid units that garbage collection moves.
    pub gc_stream: GcStream,
    /// Erased blocks below which garbage collection starts, in each reclaim group. `None` or a smaller value: the
    /// safe minimum, [`PageMapConfig::least_free_blocks`].
    pub min_free_blocks: Option<u32>,
    /// Erased blocks added to that minimum for failing programs.
    pub fault_reserve: u32,
    /// Minimum net gain of one collection, in blocks.
    pub net_blocks: u32,
    /// Share of invalid units, in millionths, above which one block is collected after each host page. `None`:
    /// collect only when few blocks are erased. Requires stop-the-world collection, a map in memory or a journal, and
    /// no SLC cache.
    pub garbage_ppm: Option<u32>,
    /// True if a collection pads the blocks it has written to, so no two collections share a block. Requires
    /// stop-the-world collection and separate streams for relocated units.
    pub pad_moved: bool,
    /// Stream selection for units written or relocated.
    pub placement: PlacementKind,
    /// Measure of the heat of a unit.
    pub temperature: Temperature,
    /// Choice of the erased block opened next.
    pub allocation: Allocation,
    /// Static wear levelling.
    pub leveling: Option<Leveling>,
    /// Size of the virtual map of logical copy, in entries. Each is a flash unit shared by two logical units. 0:
    /// copies are physical.
    pub virtual_map_entries: u32,
    /// True if the map survives a power cut. It is then stored on flash, in reserved blocks.
    pub durable: bool,
    /// Demand paging: the map is on flash and only partly in memory. `None`: all in memory. Excludes the SLC
    /// cache.
    pub translation: Option<TranslationConfig>,
    /// Background collection, on flash with timing. `None`: stop-the-world collection.
    pub watermarks: Option<Watermarks>,
    /// SLC cache, on flash with SLC mode. Excludes demand paging.
    pub slc: Option<SlcConfig>,
    /// Choice of the die for the next pages. [`DieAllocation::FreeFirst`] stripes on flash without timing.
    pub die_allocation: DieAllocation,
    /// Pages gathered before they are programmed together. 0, and the maximum: one per plane of all dies for the
    /// write buffer, of one die for copies.
    pub batch_pages: u32,
    /// True if owner lists are programmed with the map pages. Requires `translation`.
    pub owner_lists: bool,
    /// True if a flush programs a page of metadata on each plane after the map pages. Requires `translation`.
    pub flush_metadata: bool,
    /// Refresh of blocks read too often or too old, on flash that models this (`Nand::stress`).
    pub refresh: Option<Refresh>,
    /// Seed of the victim policy's random numbers.
    pub seed: u64,
}

impl PageMapConfig {
    /// Default settings for `logical_units` units.
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

    pub(crate) fn is_free_first(&self, is_timed: bool, geometry: &Geometry) -> bool {
        // With several reclaim groups, each stream has lanes on some of the dies only.
        let is_whole = self.groups() == 1;
        self.die_allocation == DieAllocation::FreeFirst && is_timed && geometry.dies() > 1 && is_whole
    }

    pub(crate) fn batch(&self, pages: u32) -> u32 {
        if self.batch_pages == 0 { pages } else { pages.min(self.batch_pages) }
    }

    pub(crate) fn placement_spec(&self) -> PlacementSpec {
        PlacementSpec {
            kind: self.placement,
            temperature: self.temperature,
            shares_host: self.gc_stream == GcStream::Host,
            logical_units: self.logical_units,
        }
    }

    pub(crate) fn streams(&self) -> StreamTable {
        let others = [self.leveling.is_some(), self.translation.is_some(), self.slc.is_some()];
        let folds_to_host = self.placement.names_folded();
        StreamTable::new(self.groups(), self.placement_spec().streams(), others, folds_to_host)
    }

    pub(crate) fn groups(&self) -> u32 {
        match self.placement {
            PlacementKind::Handles { groups, .. } => groups.into(),
            _ => 1,
        }
    }

    fn lanes(&self, geometry: &Geometry) -> u32 {
        Frontier::lanes_of(geometry) / self.groups()
    }

    pub(crate) fn make_handles(&self, geometry: &Geometry) -> Option<Handles> {
        match self.placement {
            PlacementKind::Handles { count, isolation, unit_blocks, groups } => {
                Some(Handles::new([count, groups], isolation, unit_blocks, geometry))
            }
            _ => None,
        }
    }

    /// Placement handles that a write may name, over all reclaim groups. 1 if the host does not choose streams.
    pub fn handles(&self) -> u16 {
        match self.placement {
            PlacementKind::Handles { count, groups, .. } => u16::from(count) * u16::from(groups),
            PlacementKind::Own(layout) => layout.handles.into(),
            _ => 1,
        }
    }

    /// Erased blocks to hold back on `geometry`, in each reclaim group. Sum of:
    ///
    /// - One block per lane of each stream that takes a victim's units, as each lane may need a new block
    ///   before the victim is erased. With wear levelling, one more per lane.
    /// - One for a failed program, and one for the waiting host write.
    /// - With blocks permanently in SLC mode, one per lane: such a block is emptied like a victim, but returns no
    ///   normal block.
    /// - With demand paging, blocks for translation pages, which must be updated before the victim is erased. In the
    ///   worst case, each unit has its map entry in another page.
    /// - With demand paging, one per lane for collecting translation pages, and one if the host shares blocks
    ///   with copies: translation pages may have taken the host's block.
    /// - [`PageMapConfig::fault_reserve`].
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

    /// Number of good blocks reserved for the map.
    pub fn map_blocks(&self, geometry: &Geometry) -> u32 {
        if !self.durable {
            0
        } else if self.translation.is_some() {
            self.trims_demand().blocks(geometry)
        } else {
            self.log_demand(geometry).blocks(geometry)
        }
    }

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

    /// Capacity arithmetic for `usable_blocks` good blocks, including those for the map.
    pub fn capacity(&self, geometry: &Geometry, usable_blocks: u32) -> Capacity {
        let map = self.map_blocks(geometry);
        // Map blocks are striped over the planes. Every reclaim group counts as the one with the most of
        // them.
        let map = if self.groups() == 1 { map } else { map.next_multiple_of(geometry.planes()) };
        let others = map.saturating_add(self.static_slc_blocks());
        self.capacity_of(geometry, usable_blocks.saturating_sub(others))
    }

    pub(crate) fn static_slc_blocks(&self) -> u32 {
        self.slc.map_or(0, |slc| slc.static_blocks)
    }

    pub(crate) fn capacity_of(&self, geometry: &Geometry, usable_blocks: u32) -> Capacity {
        let min_free_blocks = self.trigger(geometry);
        // Translation pages count as densely packed: compaction removes invalid ones.
        let translation = self.translation_pages(geometry).div_ceil(geometry.pages_per_block());
        Capacity::new(Demand {
            logical_units: self.logical_units,
            usable_blocks: usable_blocks.saturating_sub(translation),
            open_blocks: self.streams().count() as u32 * self.lanes(geometry),
            // Blocks still erased when a collection chooses its last victim.
            reserve_blocks: self.groups() * (min_free_blocks - 1 + self.net_blocks.max(1) - 1),
            map_blocks: self.map_blocks(geometry) + translation,
            slc_blocks: self.static_slc_blocks(),
            slc_open_blocks: self.streams().cache_streams().count() as u32 * Frontier::lanes_of(geometry),
            pages_per_block: geometry.pages_per_block(),
            units_per_page: geometry.units_per_page(),
            groups: self.groups(),
        })
    }

    /// Maximum valid units of a reclaim group with `usable_blocks` good blocks. With more, collection might
    /// gain nothing.
    pub(crate) fn group_capacity_units(&self, geometry: &Geometry, usable_blocks: u32) -> u64 {
        self.capacity_of(geometry, usable_blocks * self.groups()).group_capacity_units()
    }

    /// Host memory in bytes, without the chip and the policy.
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

    pub(crate) fn translation_pages(&self, geometry: &Geometry) -> u32 {
        self.translation.map_or(0, |how| how.pages(geometry, self.logical_units))
    }

    pub(crate) fn translation_blocks(&self, geometry: &Geometry, pages: u32) -> u32 {
        // The pages are striped over the lanes, so each lane may need a new block.
        let lanes = Frontier::lanes_of(geometry);
        (lanes * pages.div_ceil(lanes).div_ceil(geometry.pages_per_block())).min(pages)
    }

    pub(crate) fn translation_updates(&self, geometry: &Geometry) -> u32 {
        // Worst case of one victim: each of its units is mapped by a different translation page.
        let pages = self.translation_pages(geometry);
        self.translation_blocks(geometry, pages.min(geometry.units_per_block()))
    }

    /// Threshold of stop-the-world collection, in erased blocks, summed over all reclaim groups.
    pub fn least_erased_blocks(&self, geometry: &Geometry) -> u32 {
        self.groups() * self.trigger(geometry)
    }

    pub(crate) fn trigger(&self, geometry: &Geometry) -> u32 {
        self.min_free_blocks.unwrap_or(0).max(self.least_free_blocks(geometry))
    }
}
