//! The SLC cache. Host writes go to blocks in SLC mode while available. Folding moves their units to normal
//! blocks later.
//!
//! Cache blocks are not candidates of the victim policy. The policy compares blocks by valid units, and a
//! cache block has fewer pages. Cache blocks are emptied oldest first, by the same steps as victims.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_nand::Nand;
use strobe_types::{BlockId, CellMode, Geometry, State, Stored, defaults};

use crate::free::{FreePool, Want};
use crate::gc::VictimPolicy;
use crate::map::page::core::Core;
use crate::map::page::core::blocks::BlockState;
use crate::map::page::core::streams::HOST;
use crate::place::StreamId;

/// Destination of host writes while the SLC cache is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// Normal blocks.
    #[default]
    Direct,
    /// The cache: the host waits until a cache block has been folded.
    Fold,
}

defaults! {
    /// SLC cache: host writes go to fast blocks with one bit per cell (drive.nand.slc) while available, and are
    /// folded into normal blocks later. Off if both block counts are 0, the default.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct SlcConfig {
        /// Blocks permanently in SLC mode, the last ones of each plane. Bad blocks among them are not replaced.
        /// Default 0.
        #[schemars(range(min = 0, max = 16_777_216))]
        pub static_blocks: u32 = 0;
        /// Maximum number of other blocks in SLC mode. They come from erased blocks beyond those that collection
        /// keeps, so a fuller drive has fewer. Default 0.
        #[schemars(range(min = 0, max = 16_777_216))]
        pub dynamic_blocks: u32 = 0;
        /// Number of blocks in SLC mode at which folding starts, oldest first, even while the host is busy. 0: folding
        /// runs only while the host is idle, when collection needs space, or when writes wait for it. Default 0.
        #[schemars(range(min = 0, max = 16_777_216))]
        pub fold_at: u32 = 0;
        /// Time without a host command after which folding starts, in ns. Default 100,000,000.
        #[schemars(range(min = 0, max = 1_000_000_000_000u64))]
        pub fold_idle_ns: u64 = 100_000_000;
        /// Destination of host writes while the cache is full: direct or fold. Default direct.
        pub when_full: WhenFull = WhenFull::Direct;
    }
}

impl SlcConfig {
    /// True if the drive has an SLC cache.
    pub fn is_on(&self) -> bool {
        self.static_blocks > 0 || self.dynamic_blocks > 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
enum Use {
    None,
    /// Open or full.
    Held,
    /// Being emptied.
    Taken,
}

#[derive(Clone, Debug, State)]
pub(crate) struct SlcCache {
    #[state(skip)]
    config: SlcConfig,
    #[state(skip)]
    pages: u32,
    erased: FreePool,
    /// Number of open, full and taken blocks.
    in_use: u32,
    /// Part of `in_use`: blocks being emptied.
    taken: u32,
    /// Part of `in_use`: blocks not permanently in SLC mode.
    dynamic: u32,
    /// Full blocks, oldest first.
    full: VecDeque<BlockId>,
    is_host_idle: bool,
    /// Tick of the next search for full blocks without valid data.
    pub(crate) look_at: u64,
    #[state(table)]
    is_static: Vec<bool>,
    #[state(table)]
    uses: Vec<Use>,
}

impl SlcCache {
    /// Oldest full block not permanently in SLC mode, which yields a normal block when folded.
    pub(crate) fn first_dynamic(&self) -> Option<BlockId> {
        self.full.iter().copied().find(|&block| !self.is_static(block))
    }

    /// Blocks permanently in SLC mode are chosen by position, so recovery finds them again.
    pub(crate) fn new(config: SlcConfig, pages: u32, geometry: &Geometry) -> Self {
        let blocks = geometry.blocks() as usize;
        let mut is_static = vec![false; blocks];
        let per_plane = geometry.spec().blocks_per_plane;
        let (each, rest) =
            (config.static_blocks / geometry.planes(), config.static_blocks % geometry.planes());
        for (at, plane) in (0..).zip(geometry.striped_planes()) {
            let end = ((plane + 1) * per_plane) as usize;
            let count = (each + u32::from(at < rest)).min(per_plane) as usize;
            is_static[end - count..end].fill(true);
        }
        Self {
            config,
            pages,
            is_static,
            erased: FreePool::new(geometry, false),
            uses: vec![Use::None; blocks],
            in_use: 0,
            taken: 0,
            dynamic: 0,
            full: VecDeque::new(),
            is_host_idle: false,
            look_at: 0,
        }
    }

    pub(crate) fn is_static(&self, block: BlockId) -> bool {
        self.is_static[block.index()]
    }

    pub(crate) fn units_per_block(&self, units_per_page: u32) -> u64 {
        u64::from(self.pages * units_per_page)
    }

    pub(crate) fn config(&self) -> &SlcConfig {
        &self.config
    }

    pub(crate) fn in_use(&self) -> u32 {
        self.in_use
    }

    pub(crate) fn is_host_idle(&self) -> bool {
        self.is_host_idle
    }

    pub(crate) fn full(&self) -> &VecDeque<BlockId> {
        &self.full
    }

    pub(crate) fn erased(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.erased.iter()
    }

    pub(crate) fn opened(&mut self, block: BlockId) {
        if !self.is_in_use(block) {
            self.uses[block.index()] = Use::Held;
            self.in_use += 1;
            self.dynamic += u32::from(!self.is_static(block));
        }
    }

    fn is_in_use(&self, block: BlockId) -> bool {
        self.uses[block.index()] != Use::None
    }

    pub(crate) fn filled(&mut self, block: BlockId) {
        self.full.push_back(block);
    }

    pub(crate) fn sort_full(&mut self, key: impl Fn(BlockId) -> u64) {
        self.full.make_contiguous().sort_by_key(|&block| (key(block), block));
    }

    pub(crate) fn take(&mut self, block: BlockId) {
        self.full.retain(|&other| other != block);
        if std::mem::replace(&mut self.uses[block.index()], Use::Taken) == Use::Held {
            self.taken += 1;
        }
    }

    fn give_back(&mut self, block: BlockId) {
        self.uses[block.index()] = Use::Held;
        self.taken -= 1;
        // The block is the oldest full one again.
        self.full.push_front(block);
    }

    pub(crate) fn left(&mut self, block: BlockId) {
        let left = std::mem::replace(&mut self.uses[block.index()], Use::None);
        if left != Use::None {
            self.in_use -= 1;
            self.dynamic -= u32::from(!self.is_static(block));
        }
        self.taken -= u32::from(left == Use::Taken);
    }
}

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    pub(crate) fn is_cached(&self, block: BlockId) -> bool {
        self.slc.as_ref().is_some_and(|slc| slc.is_in_use(block))
    }

    pub(crate) fn is_reserved(&self, block: BlockId) -> bool {
        self.slc.as_ref().is_some_and(|slc| slc.is_static(block))
    }

    /// Number of pages that can be written to `stream` of the cache before it needs another erased block.
    pub(crate) fn cache_pages(&self, stream: StreamId) -> u32 {
        let Some(slc) = &self.slc else { return 0 };
        self.streams[stream].free_pages() + (slc.erased.count() + self.dynamic_left()) * slc.pages
    }

    /// [`Core::cache_pages`] of the stream with the fewest.
    pub(crate) fn least_cache_pages(&self) -> u32 {
        let streams = self.streams.table.cache_streams();
        streams.map(|stream| self.cache_pages(stream)).min().unwrap_or(0)
    }

    pub(crate) fn is_cache_full(&self) -> bool {
        self.slc.as_ref().is_none_or(|slc| slc.erased.count() == 0) && self.dynamic_left() == 0
    }

    /// Number of further blocks that may enter SLC mode.
    fn dynamic_left(&self) -> u32 {
        let Some(slc) = &self.slc else { return 0 };
        let left = slc.config.dynamic_blocks.saturating_sub(slc.dynamic);
        // A retiring block needs erased blocks for its units.
        if left == 0 || !self.blocks.retiring.is_empty() {
            return 0;
        }
        // Space gained by collection is not for the cache: blocks stay normal for collection and its gain,
        // and one per lane for the host.
        let lanes = self.streams[HOST].lanes();
        let kept = self.space.min_free_blocks + lanes + self.config.net_blocks.max(1);
        let spare = self.blocks.free.count().saturating_sub(kept);
        if !self.leaves_copies(0, self.blocks.free.count().saturating_sub(1)) {
            return 0;
        }
        // With background collection, only free space above the `high` watermark is spare.
        let beyond = match self.space.watermarks {
            Some(watermarks) => {
                let free = self.free_units(0).saturating_sub(self.units_of(watermarks.high));
                (free / u64::from(self.nand.geometry().units_per_block())).min(u64::from(u32::MAX)) as u32
            }
            None => u32::MAX,
        };
        left.min(spare).min(beyond)
    }

    pub(crate) fn has_cache_block(&self) -> impl Fn(u32) -> bool + '_ {
        let has_dynamic = self.dynamic_left() > 0;
        move |plane| {
            self.slc.as_ref().is_some_and(|slc| slc.erased.has(plane))
                || (has_dynamic && self.blocks.free.has(plane))
        }
    }

    pub(crate) fn take_cache_block(&mut self, stream: StreamId, plane: u32) -> Option<BlockId> {
        let has_dynamic = self.dynamic_left() > 0;
        // Programs have failed: the cache is full and no cache block is open. An erased block of the reserve
        // for failures is used.
        let is_stranded = self.is_cache_full() && self.streams[stream].free_pages() == 0;
        let slc = self.slc.as_mut()?;
        let is_near = slc.erased.has(plane) || !(has_dynamic && self.blocks.free.has(plane));
        let reserved = if is_near { slc.erased.take(plane, Want::Next) } else { None };
        let block = match reserved {
            Some(block) => block,
            None if has_dynamic || is_stranded => self.blocks.free.take(plane, Want::Next)?,
            None => return None,
        };
        slc.opened(block);
        self.nand.set_mode(block, CellMode::Slc);
        Some(block)
    }

    /// Host stream for the units of `block` if it is a cache block whose units the placement has placed at their write.
    #[inline]
    pub(crate) fn stream_of_folded(&self, block: BlockId) -> Option<StreamId> {
        let folds = self.streams.table.folds_to_host && self.is_cached(block);
        if folds { self.streams.table.fold_of(self.blocks.stream_of(block)) } else { None }
    }

    /// False if `block` was not opened for the cache.
    #[inline(never)]
    pub(crate) fn close_cached(&mut self, block: BlockId) -> bool {
        let is_cached = self.is_cached(block);
        if is_cached && let Some(slc) = &mut self.slc {
            self.blocks.states[block.index()] = BlockState::Cached;
            slc.filled(block);
        }
        is_cached
    }

    /// Makes a taken block, which still holds its data, a candidate again.
    pub(crate) fn put_back(&mut self, block: BlockId) {
        match &mut self.slc {
            Some(slc) if slc.is_in_use(block) => slc.give_back(block),
            _ => self.close(block),
        }
    }

    pub(crate) fn count_cache_erase(&mut self, block: BlockId) {
        if self.is_cached(block) {
            self.stats.slc().blocks_erased += 1;
        }
    }

    pub(crate) fn reserve(&mut self, block: BlockId) {
        self.blocks.states[block.index()] = BlockState::Reserved;
        let plane = self.nand.geometry().plane_of(block);
        let erases = self.nand.block(block).erase_count;
        if let Some(slc) = &mut self.slc {
            slc.erased.put(plane, block, erases);
        }
    }
}

impl SlcCache {
    pub(crate) fn should_fold(&self) -> bool {
        self.config.fold_at > 0 && self.in_use - self.taken >= self.config.fold_at && !self.full.is_empty()
    }

    pub(crate) fn set_host_idle(&mut self, is_idle: bool) {
        self.is_host_idle = is_idle;
    }
}
