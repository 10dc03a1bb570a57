//! State of each block, and validity of its units.

use strobe_nand::Nand;
use strobe_types::{BlockId, Geometry, Ppa, State, Stored, prefetch_write};

use crate::block_info::Stage;
use crate::free::FreePool;
use crate::gc::BlockView;
use crate::journal::Log;
use crate::place::StreamId;
use crate::validity::Validity;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(crate) enum BlockState {
    Free,
    Open,
    Closed,
    /// Full, in SLC mode: holds host data until it is folded.
    Cached,
    /// Erased, and used in SLC mode only.
    Reserved,
    /// Background victim.
    Emptying,
    /// Failed program or failed relocation. The block will be emptied, perhaps as a background victim, and then
    /// marked bad.
    Retiring,
    Bad,
    /// Part of the map's log.
    Meta,
}

impl BlockState {
    pub(crate) fn stage(self) -> Stage {
        match self {
            BlockState::Free | BlockState::Reserved => Stage::Erased,
            BlockState::Open => Stage::Open,
            BlockState::Closed | BlockState::Cached => Stage::Full,
            BlockState::Emptying | BlockState::Retiring => Stage::Emptying,
            BlockState::Bad => Stage::Bad,
            BlockState::Meta => Stage::Tables,
        }
    }
}

#[derive(Clone, Debug, State)]
pub(crate) struct Blocks {
    pub(crate) free: FreePool,
    pub(crate) emptying: u32,
    pub(crate) retiring: Vec<BlockId>,
    pub(crate) validity: Validity,
    /// Number of good data blocks.
    good: u32,
    /// Sum of the erase counts of these blocks.
    erases: u64,
    #[state(table)]
    pub(crate) states: Vec<BlockState>,
    #[state(table)]
    pub(crate) valid: Vec<u32>,
    /// Stream of each block, plus one; 0 if erased or unknown.
    #[state(table)]
    opened_for: Vec<u8>,
}

impl Blocks {
    /// Blocks of the map's `log` hold no data.
    pub(crate) fn new<N: Nand>(nand: &N, log: Option<&Log>, by_wear: bool) -> Self {
        let geometry = nand.geometry();
        let ids = (0..geometry.blocks()).map(BlockId::new);
        let state = |block| if nand.block(block).bad { BlockState::Bad } else { BlockState::Free };
        let mut states: Vec<BlockState> = ids.map(state).collect();
        for block in log.into_iter().flat_map(Log::blocks) {
            let state = &mut states[block.index()];
            // `Meta` is for good blocks only: a bad block of the log stays `Bad`.
            *state = if *state == BlockState::Free { BlockState::Meta } else { BlockState::Bad };
        }
        let good = || (0..).map(BlockId::new).zip(&states).filter(|(_, state)| **state == BlockState::Free);
        Self {
            good: good().count() as u32,
            erases: good().map(|(block, _)| u64::from(nand.block(block).erase_count)).sum(),
            free: FreePool::new(geometry, by_wear),
            emptying: 0,
            retiring: Vec::new(),
            validity: Validity::new(geometry.units()),
            valid: vec![0; states.len()],
            opened_for: vec![0; states.len()],
            states,
        }
    }

    pub(crate) fn state(&self, block: BlockId) -> BlockState {
        self.states[block.index()]
    }

    pub(crate) fn count(&self, wanted: BlockState) -> u32 {
        self.states.iter().filter(|&&state| state == wanted).count() as u32
    }

    pub(crate) fn usable(&self) -> impl Iterator<Item = BlockId> + use<'_> {
        let blocks = (0..).map(BlockId::new).zip(&self.states);
        blocks
            .filter(|(_, state)| !matches!(state, BlockState::Meta | BlockState::Bad))
            .map(|(block, _)| block)
    }

    #[inline(always)]
    pub(crate) fn programmed(&mut self, block: BlockId, first: Ppa, count: u32) {
        self.validity.set_run(first, count);
        self.valid[block.index()] += count;
    }

    pub(crate) fn set_valid(&mut self, ppa: Ppa, block: BlockId) {
        self.validity.set(ppa);
        self.valid[block.index()] += 1;
    }

    #[inline(always)]
    pub(crate) fn invalidate(&mut self, ppa: Ppa, block: BlockId) -> u32 {
        self.validity.clear(ppa);
        let valid = &mut self.valid[block.index()];
        *valid -= 1;
        *valid
    }

    pub(crate) fn take_units(&mut self, block: BlockId, geometry: &Geometry, units: &mut Vec<Ppa>) {
        self.validity.take_run(geometry.first_unit(block), geometry.units_per_block(), units);
        self.valid[block.index()] = 0;
    }

    #[inline]
    pub(crate) fn prefetch(&self, ppa: Ppa, block: BlockId) {
        self.validity.prefetch(ppa);
        prefetch_write(&self.valid, block.index());
    }

    pub(crate) fn open(&mut self, block: BlockId, stream: StreamId) {
        self.states[block.index()] = BlockState::Open;
        self.opened_for[block.index()] = stream.get() + 1;
    }

    pub(crate) fn was_opened_for(&mut self, block: BlockId, stream: StreamId) {
        self.opened_for[block.index()] = stream.get() + 1;
    }

    pub(crate) fn begin_emptying(&mut self, block: BlockId) {
        self.states[block.index()] = BlockState::Emptying;
        self.emptying += 1;
    }

    #[inline(always)]
    pub(crate) fn is_being_emptied(&self, block: BlockId) -> bool {
        self.emptying > 0 && self.state(block) == BlockState::Emptying
    }

    pub(crate) fn stream_of(&self, block: BlockId) -> Option<StreamId> {
        self.opened_for[block.index()].checked_sub(1).map(StreamId::new)
    }

    pub(crate) fn view(&self, units_per_block: u32, tick: u64) -> BlockView<'_> {
        BlockView::new(&self.valid, units_per_block, tick).with_streams(&self.opened_for)
    }

    pub(crate) fn put_free(&mut self, block: BlockId, geometry: &Geometry, erase_count: u32) {
        self.states[block.index()] = BlockState::Free;
        self.opened_for[block.index()] = 0;
        self.free.put(geometry.plane_of(block), block, erase_count);
    }

    pub(crate) fn erased(&mut self) {
        self.erases += 1;
    }

    #[cold]
    pub(crate) fn mark_bad(&mut self, block: BlockId, erase_count: u32) {
        self.states[block.index()] = BlockState::Bad;
        self.good -= 1;
        self.erases -= u64::from(erase_count);
    }

    pub(crate) fn in_service(&self) -> u32 {
        self.good
    }

    /// Mean erase count of the blocks for data, rounded down.
    pub(crate) fn mean_erases(&self) -> u32 {
        (self.erases / u64::from(self.good.max(1))) as u32
    }

    pub(crate) fn counted_erases(&self) -> u64 {
        self.erases
    }

    #[cold]
    pub(crate) fn retire(&mut self, block: BlockId) {
        self.states[block.index()] = BlockState::Retiring;
        if !self.retiring.contains(&block) {
            self.retiring.push(block);
        }
    }

    /// Retiring block that no background victim is.
    #[inline]
    pub(crate) fn next_to_retire(&self) -> Option<BlockId> {
        self.retiring.iter().rev().copied().find(|&block| self.state(block) == BlockState::Retiring)
    }
}
