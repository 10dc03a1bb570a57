//! Victim policies: choose the block that garbage collection empties next.
//!
//! A policy receives block events and keeps an index that makes [`VictimPolicy::choose`] cheap.
//!
//! Each policy documents a total order that breaks ties. Randomness comes only from the given generator. Time
//! is the *tick*: host units written, physically copied or trimmed so far, from 1.
//!
//! `greedy.rs` is a simple example; `tests/victims.rs` has a naive implementation of each policy.

mod formula;
mod greedy;
mod grouped;
mod kinetic;
mod linear;
mod midas;
mod order;
mod sampled;
mod scata;
mod second_chance;
mod tournament;
mod two_r;
mod variables;
mod write_ticks;

pub use formula::Formula;
pub use greedy::Greedy;
pub use grouped::Grouped;
pub use kinetic::Kinetic;
pub use linear::{BlockHistory, Line, LinearScore};
pub use midas::Midas;
pub use sampled::{Sampled, Sampling};
pub use scata::{Parabola, Scata, ScataAge, ScataBlock};
pub use second_chance::SecondChance;
pub use tournament::{Curve, Score};
pub use two_r::TwoRegions;
pub use variables::{VARIABLES, Variable};

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::{BlockId, Ppa, Prng, StateError, StateReader, StateWriter};

pub use crate::formula::FormulaError;
use crate::place::{StreamId, VictimGroup};

/// Input of a policy's choice.
#[derive(Clone, Copy, Debug)]
pub struct BlockView<'a> {
    pub(crate) valid: &'a [u32],
    pub(crate) streams: &'a [u8],
    pub(crate) units_per_block: u32,
    pub(crate) tick: u64,
    pub(crate) most_valid: u32,
    pub(crate) group: u32,
    victim_group: Option<VictimGroup<'a>>,
}

impl<'a> BlockView<'a> {
    /// A view for tests and external drivers; `valid` is indexed by block.
    pub fn new(valid: &'a [u32], units_per_block: u32, tick: u64) -> Self {
        let most_valid = units_per_block - 1;
        Self { valid, streams: &[], units_per_block, tick, most_valid, group: 0, victim_group: None }
    }

    /// Adds each block's stream plus one, 0 if unknown; indexed by block.
    pub fn with_streams(self, streams: &'a [u8]) -> Self {
        Self { streams, ..self }
    }

    /// Restricts candidates to blocks with at most `most_valid` valid units. Only formulas use it.
    pub(crate) fn with_most_valid(self, most_valid: u32) -> Self {
        Self { most_valid, ..self }
    }

    /// Requests a victim from a reclaim group. Only [`Grouped`] uses it.
    pub fn with_group(self, group: u32) -> Self {
        Self { group, ..self }
    }

    /// Adds the groups of the placement.
    pub fn with_victim_group(self, victim_group: Option<VictimGroup<'a>>) -> Self {
        Self { victim_group, ..self }
    }

    /// The groups of the placement, if any.
    pub fn victim_group(&self) -> Option<VictimGroup<'a>> {
        self.victim_group
    }

    /// The stream that filled `block`, if known.
    pub fn stream(&self, block: BlockId) -> Option<StreamId> {
        self.streams.get(block.index())?.checked_sub(1).map(StreamId::new)
    }

    /// Valid units in `block`.
    pub fn valid(&self, block: BlockId) -> u32 {
        self.valid[block.index()]
    }

    /// Units in a block.
    pub fn units_per_block(&self) -> u32 {
        self.units_per_block
    }

    /// Current tick.
    pub fn tick(&self) -> u64 {
        self.tick
    }
}

/// Chooses victims.
///
/// **The caller promises** to report each block's opening, writes, invalidations, and closing exactly once,
/// and to report a closed block as taken before it is emptied. Closed blocks may be taken in any order: wear
/// levelling also empties blocks. Ticks never decrease.
///
/// **The implementer promises** to choose only closed blocks not yet taken, and the same blocks for the same
/// history and generator state. `None` means that no candidate can yield space.
pub trait VictimPolicy {
    /// Reports that `block`, erased `erase_count` times, was opened for writing.
    fn opened(&mut self, _block: BlockId, _erase_count: u32, _tick: u64) {}

    /// Reports that `unit` of an open block was written, by host or copy.
    fn written(&mut self, _unit: Ppa, _tick: u64) {}

    /// Reports that `block` is full and a candidate.
    fn closed(&mut self, block: BlockId, valid: u32, tick: u64);

    /// Reports that `unit` of `block` became invalid; `valid` valid units are left. Includes open blocks, but
    /// not taken ones.
    fn invalidated(&mut self, unit: Ppa, block: BlockId, valid: u32, tick: u64);

    /// Hints that a unit of `block` will be invalidated soon; prefetches its state.
    fn prefetch(&self, _block: BlockId) {}

    /// Reports that `block` is no longer a candidate.
    fn taken(&mut self, block: BlockId);

    /// Returns the block to empty next.
    fn choose(&mut self, view: &BlockView<'_>, rng: &mut Prng) -> Option<BlockId>;

    /// Best candidate in the range `blocks`. `None` without a candidate, or if not supported.
    fn choose_among(&self, _blocks: Range<u32>) -> Option<BlockId> {
        None
    }

    /// Score of `block` for the event log, highest first; `None` without scores. May be slow.
    fn score(&self, _block: BlockId, _view: &BlockView<'_>) -> Option<f64> {
        None
    }

    /// Number of candidates, for the checker.
    fn candidates(&self) -> u32;

    /// Writes the state for a saved drive. By default, saving is refused.
    fn save(&self, out: &mut StateWriter<'_>) {
        out.refuse("its victim policy cannot be saved (VictimPolicy::save and load are missing)");
    }

    /// Reads the state from [`VictimPolicy::save`] into a new policy.
    fn load(&mut self, _from: &mut StateReader<'_>) -> Result<(), StateError> {
        Err(StateError::Unfit("its victim policy cannot be loaded"))
    }

    /// Host memory per block, in bytes.
    fn bytes_per_block() -> u64
    where
        Self: Sized;
}

/// [`VictimPolicy::save`] and [`VictimPolicy::load`] by [`State`](strobe_types::State).
macro_rules! by_state {
    () => {
        fn save(&self, out: &mut strobe_types::StateWriter<'_>) {
            strobe_types::State::save_state(self, out);
        }

        fn load(&mut self, from: &mut strobe_types::StateReader<'_>) -> Result<(), strobe_types::StateError> {
            strobe_types::State::load_state(self, from)
        }
    };
}
use by_state;

/// Stream for the valid pages of a victim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GcStream {
    /// Separate open blocks, as data that survived a collection is likely colder.
    #[default]
    Own,
    /// The open blocks of host writes, as in a plain log.
    Host,
}

/// Choice of the die for the next pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DieAllocation {
    /// The die with the least queued work, over all its planes. Without timing, same as `stripe`.
    #[default]
    FreeFirst,
    /// Round robin: channels first, then dies, then planes.
    Stripe,
    /// By address: the plane is the page's logical number modulo the number of planes, in `stripe` order. If
    /// that plane has no erased block, another plane supplies one.
    ByAddress,
}

/// Choice of the erased block opened next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// The block erased first.
    #[default]
    Fifo,
    /// The block with the fewest erases: dynamic wear levelling.
    LeastErased,
    /// For cold data the block with the most erases, for other data the one with the fewest: FeGC (Kwon et
    /// al. 2011) taken to the extreme.
    Adaptive,
    /// For cold data the block with the fewest erases above the average, or the most erases if none is above.
    /// For other data the block with the fewest erases. FeGC only says "more than the average".
    AboveAverage,
}

/// Any copyable policy, at one virtual call per hook, for drives whose speed does not justify a type per
/// policy.
pub struct AnyPolicy(Box<dyn CopyablePolicy>);

trait CopyablePolicy: VictimPolicy + Send {
    fn copied(&self) -> AnyPolicy;
}

impl<V: VictimPolicy + Clone + Send + 'static> CopyablePolicy for V {
    fn copied(&self) -> AnyPolicy {
        AnyPolicy::new(self.clone())
    }
}

impl AnyPolicy {
    /// Wraps `policy`.
    pub fn new(policy: impl VictimPolicy + Clone + Send + 'static) -> Self {
        Self(Box::new(policy))
    }
}

impl std::fmt::Debug for AnyPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnyPolicy")
    }
}

impl Clone for AnyPolicy {
    fn clone(&self) -> Self {
        self.0.copied()
    }
}

impl VictimPolicy for AnyPolicy {
    fn opened(&mut self, block: BlockId, erase_count: u32, tick: u64) {
        self.0.opened(block, erase_count, tick);
    }
    fn closed(&mut self, block: BlockId, valid: u32, tick: u64) {
        self.0.closed(block, valid, tick);
    }
    fn written(&mut self, unit: Ppa, tick: u64) {
        self.0.written(unit, tick);
    }
    fn invalidated(&mut self, unit: Ppa, block: BlockId, valid: u32, tick: u64) {
        self.0.invalidated(unit, block, valid, tick);
    }
    fn prefetch(&self, block: BlockId) {
        self.0.prefetch(block);
    }
    fn taken(&mut self, block: BlockId) {
        self.0.taken(block);
    }
    fn choose(&mut self, view: &BlockView<'_>, rng: &mut Prng) -> Option<BlockId> {
        self.0.choose(view, rng)
    }
    fn choose_among(&self, blocks: Range<u32>) -> Option<BlockId> {
        self.0.choose_among(blocks)
    }
    fn score(&self, block: BlockId, view: &BlockView<'_>) -> Option<f64> {
        self.0.score(block, view)
    }
    fn candidates(&self) -> u32 {
        self.0.candidates()
    }
    fn save(&self, out: &mut StateWriter<'_>) {
        self.0.save(out);
    }
    fn load(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.0.load(from)
    }
    fn bytes_per_block() -> u64 {
        64
    }
}
