//! Victim policies: which block garbage collection should empty next.
//!
//! A policy is told what happens to blocks and answers one question, [`VictimPolicy::choose`]. It
//! owns whatever index makes that answer cheap; the hook called for every invalidated unit is a
//! static call, so a policy that does not listen costs nothing. It cannot touch flash.
//!
//! Ties are broken by a documented total order, chance comes only from the generator passed in,
//! and time is the *tick*: host units written or trimmed so far, starting at 1.

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
    /// Valid units by block.
    pub(crate) valid: &'a [u32],
    /// Streams by block plus one, 0 where unknown; empty if nothing is known.
    pub(crate) streams: &'a [u8],
    /// Units in a block.
    pub(crate) units_per_block: u32,
    /// Now, in ticks.
    pub(crate) tick: u64,
    /// Most valid units of a candidate, for policies that look at it.
    pub(crate) most_valid: u32,
    /// Reclaim group that the victim is to be of.
    pub(crate) group: u32,
    /// Groups of the placement. Only [`Midas`] looks at them.
    victim_group: Option<VictimGroup<'a>>,
}

impl<'a> BlockView<'a> {
    /// A view for tests and external drivers of a policy. `valid` is indexed by block.
    pub fn new(valid: &'a [u32], units_per_block: u32, tick: u64) -> Self {
        let most_valid = units_per_block - 1;
        Self { valid, streams: &[], units_per_block, tick, most_valid, group: 0, victim_group: None }
    }

    /// Adds the stream of each block plus one, indexed by block; 0 if the stream is unknown.
    pub fn with_streams(self, streams: &'a [u8]) -> Self {
        Self { streams, ..self }
    }

    /// Restricts candidates to blocks with at most `most_valid` valid units. Only formulas look at it.
    pub(crate) fn with_most_valid(self, most_valid: u32) -> Self {
        Self { most_valid, ..self }
    }

    /// Asks for a victim of a reclaim group. Only [`Grouped`] looks at it.
    pub fn with_group(self, group: u32) -> Self {
        Self { group, ..self }
    }

    /// Adds the groups of the placement.
    pub fn with_victim_group(self, victim_group: Option<VictimGroup<'a>>) -> Self {
        Self { victim_group, ..self }
    }

    /// The groups of the placement, if it has some.
    pub fn victim_group(&self) -> Option<VictimGroup<'a>> {
        self.victim_group
    }

    /// The stream that filled `block`, if it is known.
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

    /// Now, in ticks.
    pub fn tick(&self) -> u64 {
        self.tick
    }
}

/// Chooses victims.
///
/// **The caller promises** to report every block when it is opened, each unit written to it, each
/// of its invalidations, the block exactly once when it closes, and to report it as taken before
/// anything else happens to it. Blocks may be taken without having been chosen, and in any order:
/// wear levelling empties blocks too. Ticks never go back.
///
/// **The implementer promises** to name only blocks that are closed and not yet taken, the same
/// ones for the same history and generator state, and `None` only if no candidate can yield space.
pub trait VictimPolicy {
    /// `block`, erased `erase_count` times, has been opened for writing.
    fn opened(&mut self, _block: BlockId, _erase_count: u32, _tick: u64) {}

    /// `unit` of an open block has been written, by the host or by a copy.
    fn written(&mut self, _unit: Ppa, _tick: u64) {}

    /// `block` is full and has become a candidate.
    fn closed(&mut self, block: BlockId, valid: u32, tick: u64);

    /// `unit` of `block` has become invalid; `valid` are left. Also called for open blocks, but
    /// not for the units of a block that has been taken.
    fn invalidated(&mut self, unit: Ppa, block: BlockId, valid: u32, tick: u64);

    /// Hints that a unit of `block` will be invalidated soon: fetch what the hook will touch.
    fn prefetch(&self, _block: BlockId) {}

    /// `block` is no candidate any more.
    fn taken(&mut self, block: BlockId);

    /// The block to empty next.
    fn choose(&mut self, view: &BlockView<'_>, rng: &mut Prng) -> Option<BlockId>;

    /// The best of `blocks`, whose numbers follow each other, by the same rule; `None` if none of them is a candidate, or
    /// if this policy cannot tell.
    fn choose_among(&self, _blocks: Range<u32>) -> Option<BlockId> {
        None
    }

    /// Score of `block`, of which the highest is chosen, for the event log; `None` if this policy has no scores. Cost does
    /// not matter.
    fn score(&self, _block: BlockId, _view: &BlockView<'_>) -> Option<f64> {
        None
    }

    /// Candidates at present, for the checker.
    fn candidates(&self) -> u32;

    /// Writes what it remembers, for a drive whose state is saved. A policy that does not say how leaves a drive that
    /// cannot be saved.
    fn save(&self, out: &mut StateWriter<'_>) {
        out.refuse("its victim policy does not say how it is saved (VictimPolicy::save and load)");
    }

    /// Reads what [`VictimPolicy::save`] has written, into a policy that is as new.
    fn load(&mut self, _from: &mut StateReader<'_>) -> Result<(), StateError> {
        Err(StateError::Unfit("its victim policy does not say how it is loaded"))
    }

    /// Host memory per block, in bytes.
    fn bytes_per_block() -> u64
    where
        Self: Sized;
}

/// [`VictimPolicy::save`] and [`VictimPolicy::load`] of a policy that implements [`State`](strobe_types::State).
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

/// Destination of the valid pages of a victim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GcStream {
    /// To open blocks of their own: data that survived a collection is likely colder.
    #[default]
    Own,
    /// To the blocks that host writes go to, as in a plain log.
    Host,
}

/// Die of the next pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DieAllocation {
    /// The one with the least work waiting, on all its planes. A run without times stripes.
    #[default]
    FreeFirst,
    /// One after the other: channels first, then dies, then planes.
    Stripe,
    /// By the page's address: the number of the page within the logical space, modulo that of all planes, counted
    /// as stripe does. A plane without an erased block takes one of another.
    ByAddress,
}

/// Choice of the erased block opened next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// The one erased first.
    #[default]
    Fifo,
    /// The one erased least often: dynamic wear levelling.
    LeastErased,
    /// For cold data the one erased most often, for all other data the one erased least often: FeGC (Kwon et al. 2011), taken
    /// to its end.
    Adaptive,
    /// For cold data the one erased least often of those erased more often than the average block, or the one erased most often
    /// if there is none; for all other data the one erased least often. FeGC says "more than the average", not which one.
    AboveAverage,
}

/// Any policy that can be copied, behind one virtual call per hook: for drives whose speed is not worth a
/// type of their own for every policy.
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
    /// `policy`, without its type.
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
