//! Exact selection by scores that change with time.

use strobe_types::{BlockId, Ppa, Prng, State, Stored, prefetch_write};

use super::linear::LinearScore;
use super::scata::{Scata, ScataAge};
use super::tournament::{Curve, Score, Tournament};
use super::{BlockView, VictimPolicy};

/// Picks the candidate with the largest score, exactly; of equals, the lowest block.
///
/// Changed blocks enter a kinetic tournament before a choice. Cost per choice: a few matches per block
/// changed since the last choice, independent of the number of blocks.
#[derive(Clone, Debug, State)]
pub struct Kinetic<S: Score = LinearScore> {
    #[state(skip)]
    units_per_block: u32,
    score: S,
    candidates: u32,
    dirty: Vec<BlockId>,
    tournament: Tournament<S::Curve>,
    #[state(table)]
    blocks: Vec<Entry<S::Block>>,
}

/// State of a block, in one cache line.
#[derive(Clone, Copy, Debug, Default, Stored)]
#[repr(align(64))]
struct Entry<B> {
    block: B,
    valid: u32,
    is_candidate: bool,
    is_dirty: bool,
}

impl Kinetic {
    /// Most units in a block without integer overflow in scores.
    pub const UNITS_PER_BLOCK_MAX: u32 = 1 << 16;

    /// An index for `blocks` blocks without candidates.
    pub fn new(blocks: u32, units_per_block: u32, score: LinearScore) -> Self {
        Self::of(blocks, units_per_block, score)
    }
}

impl Kinetic<Scata> {
    /// SCATA (Lin 2011) for `blocks` blocks without candidates.
    pub fn scata(blocks: u32, units_per_block: u32, age: ScataAge) -> Self {
        Self::of(blocks, units_per_block, Scata::new(blocks, units_per_block, age))
    }
}

impl<S: Score> Kinetic<S> {
    fn of(blocks: u32, units_per_block: u32, score: S) -> Self {
        Self {
            score,
            units_per_block,
            blocks: vec![Entry::default(); blocks as usize],
            candidates: 0,
            dirty: Vec::new(),
            tournament: Tournament::new(blocks),
        }
    }

    fn touch(&mut self, id: BlockId) {
        if !std::mem::replace(&mut self.blocks[id.index()].is_dirty, true) {
            self.dirty.push(id);
        }
    }

    fn fetch(&self, id: BlockId) {
        self.prefetch(id);
        self.tournament.prefetch(id.get());
    }
}

const AHEAD: usize = 8;

impl<S: Score> VictimPolicy for Kinetic<S> {
    fn opened(&mut self, id: BlockId, erase_count: u32, tick: u64) {
        self.blocks[id.index()].block = self.score.opened(id, erase_count, tick);
    }

    fn written(&mut self, unit: Ppa, tick: u64) {
        self.score.written(unit, tick);
    }

    fn closed(&mut self, id: BlockId, valid: u32, tick: u64) {
        let entry = &mut self.blocks[id.index()];
        self.score.closed(&mut entry.block, tick);
        (entry.valid, entry.is_candidate) = (valid, true);
        self.candidates += 1;
        self.touch(id);
    }

    #[inline]
    fn invalidated(&mut self, unit: Ppa, id: BlockId, valid: u32, tick: u64) {
        let entry = &mut self.blocks[id.index()];
        self.score.invalidated(unit, id, &mut entry.block, tick);
        entry.valid = valid;
        self.touch(id);
    }

    fn prefetch(&self, id: BlockId) {
        prefetch_write(&self.blocks, id.index());
        self.score.prefetch(id);
    }

    fn taken(&mut self, id: BlockId) {
        self.blocks[id.index()].is_candidate = false;
        self.candidates -= 1;
        self.touch(id);
    }

    fn choose(&mut self, view: &BlockView<'_>, _rng: &mut Prng) -> Option<BlockId> {
        // A block that changed many times enters once: its curve is computed only at a choice.
        let mut dirty = std::mem::take(&mut self.dirty);
        // Fetch entries a few blocks ahead of their use.
        dirty.iter().take(AHEAD).for_each(|&id| self.fetch(id));
        for (at, &id) in dirty.iter().enumerate() {
            if let Some(&ahead) = dirty.get(at + AHEAD) {
                self.fetch(ahead);
            }
            let entry = &mut self.blocks[id.index()];
            entry.is_dirty = false;
            // A block that is no candidate any more gets a curve that never wins.
            let curve = if entry.is_candidate {
                self.score.curve(id, &entry.block, entry.valid, self.units_per_block)
            } else {
                S::Curve::NEVER
            };
            self.tournament.enter(id.get(), curve, view.tick());
        }
        dirty.clear();
        self.dirty = dirty;
        self.tournament.best(view.tick()).map(BlockId::new)
    }

    fn score(&self, id: BlockId, view: &BlockView<'_>) -> Option<f64> {
        let block = &self.blocks[id.index()].block;
        let curve = self.score.curve(id, block, view.valid(id), self.units_per_block);
        (curve != S::Curve::NEVER).then(|| curve.value(view.tick()))
    }

    super::by_state!();

    fn candidates(&self) -> u32 {
        self.candidates
    }

    fn bytes_per_block() -> u64 {
        // Twice the tournament, whose size is a power of two, and an entry in `dirty`.
        let per_block = size_of::<Entry<S::Block>>() + 2 * Tournament::<S::Curve>::BYTES_PER_BLOCK + 4;
        per_block as u64 + S::bytes_per_block()
    }
}
