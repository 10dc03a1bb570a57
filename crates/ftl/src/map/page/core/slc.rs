//! The SLC cache: what the host writes goes to blocks in SLC mode first, as long as there are any for it, and is folded
//! into normal blocks later.
//!
//! Blocks of the cache are a state of their own, [`BlockState::Cached`], and no candidates of the victim policy: a
//! policy compares blocks by what of them is valid, and these have fewer pages. They are emptied in the order in which
//! they were filled, by the same steps as victims.

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

/// Destination of host writes while the SLC cache is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// To normal blocks.
    #[default]
    Direct,
    /// To the cache: they wait until a block of it has been folded.
    Fold,
}

defaults! {
    /// SLC cache: the host writes to blocks with one bit per cell (drive.nand.slc) while there are any, which is fast, and
    /// what they hold is folded into normal blocks later. Without blocks, the default, there is none.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct SlcConfig {
        /// Blocks that are always in SLC mode, the last ones of each plane; bad ones among them are missing. Default 0.
        #[schemars(range(min = 0, max = 16_777_216))]
        pub static_blocks: u32 = 0;
        /// Other blocks that are in SLC mode at the same time, at most: as long as more are erased than collection keeps, so
        /// the fuller the drive, the fewer. Default 0.
        #[schemars(range(min = 0, max = 16_777_216))]
        pub dynamic_blocks: u32 = 0;
        /// Blocks in SLC mode from which on they are folded, the oldest first, while the host is busy, too. 0: only while the
        /// host is idle, where collection needs room, and if writes wait for it. Default 0.
        #[schemars(range(min = 0, max = 16_777_216))]
        pub fold_at: u32 = 0;
        /// Time without a command of the host after which folding begins, in ns. Default 100,000,000.
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

/// Use of a block by the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
enum Use {
    None,
    /// It is open, or full.
    Held,
    /// It is being emptied.
    Taken,
}

/// The blocks of the cache.
#[derive(Clone, Debug, State)]
pub(crate) struct SlcCache {
    #[state(skip)]
    config: SlcConfig,
    /// Pages of a block in SLC mode.
    #[state(skip)]
    pages: u32,
    /// Erased blocks of those that are always used in SLC mode.
    erased: FreePool,
    /// Blocks in use; those of them that are being emptied; those that are not always used so.
    in_use: u32,
    taken: u32,
    dynamic: u32,
    /// Full ones in the order in which they were filled.
    full: VecDeque<BlockId>,
    is_host_idle: bool,
    /// The tick from which full blocks are looked at again for those that hold nothing valid.
    pub(crate) look_at: u64,
    /// True for blocks that are always used in SLC mode.
    #[state(table)]
    is_static: Vec<bool>,
    #[state(table)]
    uses: Vec<Use>,
}

impl SlcCache {
    /// Returns the full block, filled first, that gives free space for normal data when it has been folded.
    pub(crate) fn first_dynamic(&self) -> Option<BlockId> {
        self.full.iter().copied().find(|&block| !self.is_static(block))
    }

    /// A cache without a block in use. Blocks are known by where they are, so that they are the same after a power cut.
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

    /// Units of a block in SLC mode.
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

    /// Full blocks, first those filled first.
    pub(crate) fn full(&self) -> &VecDeque<BlockId> {
        &self.full
    }

    /// Erased blocks that are always used in SLC mode.
    pub(crate) fn erased(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.erased.iter()
    }

    /// `block` has been opened, before this or before a power cut.
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

    /// Puts the full blocks in the order of `key`.
    pub(crate) fn sort_full(&mut self, key: impl Fn(BlockId) -> u64) {
        self.full.make_contiguous().sort_by_key(|&block| (key(block), block));
    }

    /// `block`, full or not, is about to be emptied.
    pub(crate) fn take(&mut self, block: BlockId) {
        self.full.retain(|&other| other != block);
        if std::mem::replace(&mut self.uses[block.index()], Use::Taken) == Use::Held {
            self.taken += 1;
        }
    }

    /// `block`, which was taken, is full as before.
    fn give_back(&mut self, block: BlockId) {
        self.uses[block.index()] = Use::Held;
        self.taken -= 1;
        self.full.push_front(block);
    }

    /// `block` holds nothing any more.
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
    /// True if `block` is open in SLC mode, or was written in it.
    pub(crate) fn is_cached(&self, block: BlockId) -> bool {
        self.slc.as_ref().is_some_and(|slc| slc.is_in_use(block))
    }

    /// True if `block` is only ever used in SLC mode.
    pub(crate) fn is_reserved(&self, block: BlockId) -> bool {
        self.slc.as_ref().is_some_and(|slc| slc.is_static(block))
    }

    /// Pages that can be written to the cache before something has to be erased for more.
    pub(crate) fn cache_pages(&self) -> u32 {
        let Some(slc) = &self.slc else { return 0 };
        self.streams[self.streams.table.slc].room_pages()
            + (slc.erased.count() + self.dynamic_left()) * slc.pages
    }

    /// True if the cache cannot open another block.
    pub(crate) fn is_cache_full(&self) -> bool {
        self.slc.as_ref().is_none_or(|slc| slc.erased.count() == 0) && self.dynamic_left() == 0
    }

    /// Blocks beyond those that are always used so that may be opened in SLC mode. As many as collection keeps, and one
    /// on each plane, stay: what it gains is not for the cache.
    fn dynamic_left(&self) -> u32 {
        let Some(slc) = &self.slc else { return 0 };
        let left = slc.config.dynamic_blocks.saturating_sub(slc.dynamic);
        if left == 0 || !self.blocks.retiring.is_empty() {
            return 0;
        }
        let lanes = self.streams[HOST].lanes();
        let kept = self.space.min_free_blocks + lanes + self.config.net_blocks.max(1);
        let spare = self.blocks.free.count().saturating_sub(kept);
        let beyond = match self.space.watermarks {
            Some(watermarks) => {
                let room = self.free_units().saturating_sub(self.units_of(watermarks.soft));
                (room / u64::from(self.nand.geometry().units_per_block())).min(u64::from(u32::MAX)) as u32
            }
            None => u32::MAX,
        };
        left.min(spare).min(beyond)
    }

    /// Predicate of the planes that have a block for the cache.
    pub(crate) fn has_cache_block(&self) -> impl Fn(u32) -> bool + '_ {
        let has_dynamic = self.dynamic_left() > 0;
        move |plane| {
            self.slc.as_ref().is_some_and(|slc| slc.erased.has(plane))
                || (has_dynamic && self.blocks.free.has(plane))
        }
    }

    /// Takes an erased block for the cache, if possible one of `plane`.
    pub(crate) fn take_cache_block(&mut self, plane: u32) -> Option<BlockId> {
        let has_dynamic = self.dynamic_left() > 0;
        // Programs have failed, and nothing is open: one that was kept for such a case.
        let is_stranded = self.is_cache_full() && self.streams[self.streams.table.slc].room_pages() == 0;
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

    /// `block`, just filled, belongs to the cache if that is how it was opened; false if not.
    #[inline(never)]
    pub(crate) fn close_cached(&mut self, block: BlockId) -> bool {
        let is_cached = self.is_cached(block);
        if is_cached && let Some(slc) = &mut self.slc {
            self.blocks.states[block.index()] = BlockState::Cached;
            slc.filled(block);
        }
        is_cached
    }

    /// Gives back `block`, which was taken, and is not worth being emptied now.
    pub(crate) fn put_back(&mut self, block: BlockId) {
        match &mut self.slc {
            Some(slc) if slc.is_in_use(block) => slc.give_back(block),
            _ => self.close(block),
        }
    }

    /// Notes that `block`, of the cache or not, was erased with success.
    pub(crate) fn note_cache_erase(&mut self, block: BlockId) {
        if self.is_cached(block) {
            self.stats.slc().blocks_erased += 1;
        }
    }

    /// `block`, which is erased, is always used in SLC mode: it is at hand for that.
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
    /// True if enough blocks are full or open that folding runs while the host is busy.
    pub(crate) fn is_beyond_mark(&self) -> bool {
        self.config.fold_at > 0 && self.in_use - self.taken >= self.config.fold_at && !self.full.is_empty()
    }

    pub(crate) fn set_host_idle(&mut self, is_idle: bool) {
        self.is_host_idle = is_idle;
    }
}
