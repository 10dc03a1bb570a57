//! Data placement: which units share blocks.
//!
//! Every open block belongs to a *stream*. A [`Placement`] decides the stream of each unit that the host writes and of
//! each unit that is relocated; data that dies together should lie together. Policy chooses, mechanism moves: a
//! placement sees addresses, ticks and blocks, and cannot touch flash.
//!
//! Life of a unit, as a placement is told of it:
//!
//! 1. [`Placement::for_write`]: the host writes it; the stream is chosen.
//! 2. [`Placement::on_opened`], [`Placement::on_closed`]: blocks of that stream are opened and filled.
//! 3. [`Placement::on_victim`]: its block is about to be emptied.
//! 4. [`Placement::for_copy`]: it is still valid, so it is relocated; the stream is chosen anew.
//! 5. [`Placement::on_collected`]: nothing is left in the block, which is about to be erased.

mod dac;
mod fadac;
mod fk;
mod formula;
mod handles;
mod hot_cold;
mod kind;
mod layout;
mod midas;
mod sepbit;
mod sfs;
mod sorted;
mod two_r;
mod warcip;

use std::fmt::Debug;

use strobe_nand::Cause;
use strobe_types::{BlockId, Lpn, Ppa, StateError, StateReader, StateWriter, Stored, named};

pub use fk::{Fk, Future, FutureBuilder};
pub use formula::{FormulaPlacement, UNIT_VARIABLES, UnitVariable};
pub use handles::Isolation;
pub use kind::PlacementKind;
pub(crate) use kind::PlacementSpec;
pub use layout::StreamLayout;

named! {
    /// Hint of the host about the data of a write.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Stored)]
    pub enum Hint {
        /// Nothing.
        #[default]
        None => "none",
        /// Metadata of a file system: small, and soon written again.
        Metadata => "metadata",
    }
}

/// The host's description of the data of a write. It travels with the data from the command through write buffer and
/// non-volatile cache to the placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Stored)]
pub struct DataTag {
    /// The host's hint.
    pub hint: Hint,
    /// Placement handle (FDP), below [`PageMapConfig::handles`](crate::PageMapConfig::handles); 0 where the host names none.
    pub handle: u16,
}

impl DataTag {
    /// A placement handle, and no hint.
    pub const fn placed(handle: u16) -> Self {
        Self { hint: Hint::None, handle }
    }
}

impl From<Hint> for DataTag {
    fn from(hint: Hint) -> Self {
        Self { hint, handle: 0 }
    }
}

/// Everything known of a write of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteContext {
    /// Cause under which the programs are counted.
    pub cause: Cause,
    /// The host's description of the data.
    pub tag: DataTag,
}

impl WriteContext {
    /// A write of the host without a description.
    pub const HOST: Self = Self::of(Cause::Host);

    /// A write without a description, counted under `cause`.
    pub const fn of(cause: Cause) -> Self {
        Self { cause, tag: DataTag { hint: Hint::None, handle: 0 } }
    }
}

/// A stream: open blocks, one on each plane, that take the same kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Stored)]
pub struct StreamId(u8);

impl StreamId {
    /// No stream.
    pub(crate) const NONE: Self = Self(u8::MAX);

    /// Stream `number`.
    pub const fn new(number: u8) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Its number as an index.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A block that is full, or that units are relocated from.
#[derive(Clone, Copy, Debug)]
pub struct CopyContext {
    /// The block.
    pub block: BlockId,
    /// The stream that filled it; `None` if that was before a power cut, or no placement chose it.
    pub stream: Option<StreamId>,
    /// Now, in ticks.
    pub tick: u64,
}

/// A unit that is about to be relocated.
#[derive(Clone, Copy, Debug)]
pub struct Relocated {
    /// Present place.
    pub unit: Ppa,
    /// Logical unit; of a shared one its first owner.
    pub lpn: Lpn,
    /// Stream that it goes to.
    pub to: StreamId,
}

/// Groups of blocks, and the one that the next victim is to be of.
#[derive(Clone, Copy, Debug)]
pub struct VictimGroup<'a> {
    /// Group of each full block.
    pub labels: &'a [u8],
    /// The group whose oldest block is to be collected, unless `is_last`.
    pub group: u8,
    /// True if the best block of the last group is to be collected.
    pub is_last: bool,
    /// First label of the last group, which has all from there on.
    pub last: u8,
}

impl VictimGroup<'_> {
    /// True if `block` is of the group whose turn it is.
    pub fn has(&self, block: BlockId) -> bool {
        self.labels[block.index()] == self.group
    }

    /// True if `block` is of the last group.
    pub fn is_in_last(&self, block: BlockId) -> bool {
        self.labels[block.index()] >= self.last
    }
}

/// Decides the stream of each unit.
///
/// Streams are numbered from 0. Stream 0 belongs to the host; each stream may be written by the host, by relocation, or by
/// both. Wear levelling, translation pages and the SLC cache have streams of their own, which no placement chooses.
///
/// **The caller promises** ticks that never go back, and one call of [`Placement::for_write`] for each unit if it chooses for the host, in the order
/// in which the host writes them. **The implementer promises** streams of its [`StreamLayout`], and the same ones for the
/// same history.
pub trait Placement: Debug + Send + Sync {
    /// True if `stream` takes cold data, for which [`Allocation`](crate::Allocation) may choose worn blocks.
    fn is_cold(&self, _stream: StreamId) -> bool {
        false
    }

    /// True if units of several victims are put in order together. Then collection takes whole victims, as many as it
    /// takes to gain a block, and does not go in steps.
    fn sorts_victims(&self) -> bool {
        false
    }

    /// True if units of several streams may share a page that none of them fills. Otherwise the page is padded.
    fn shares_pages(&self) -> bool {
        true
    }

    /// True if the host takes over the blocks that relocation has left partly filled: it goes on in them when few blocks are
    /// erased, and only then are more collected. Collection in steps does not wait for the host, and keeps its blocks.
    fn hands_over(&self) -> bool {
        false
    }

    /// The part of `tag` that [`Placement::for_write`] looks at. Writes with equal parts may be programmed together.
    fn relevant(&self, _tag: DataTag) -> DataTag {
        DataTag::default()
    }

    /// True if the stream of a write depends on its tag alone, and nothing is noted of it: one question will do for all units
    /// of a write.
    fn goes_by_tag(&self) -> bool {
        false
    }

    /// Notes that the host writes `lpns` next, in this order: [`Placement::for_write`] is then called for each of them, while
    /// blocks are collected in between. For a placement that is quicker with many units at a time.
    fn on_batch(&mut self, _lpns: &mut dyn Iterator<Item = Lpn>, _context: WriteContext) {}

    /// Fetches what it knows of `lpn` into the processor's cache: it is asked about the unit soon.
    fn prefetch(&self, _lpn: Lpn) {}

    /// Chooses the stream of `lpn`, which the host writes at `tick`.
    fn for_write(&mut self, _lpn: Lpn, _context: WriteContext, _tick: u64) -> StreamId {
        StreamId::new(0)
    }

    /// True if [`Placement::for_copy`] always has the same answer, the first stream of relocated units, and notes nothing:
    /// then it is not asked.
    fn moves_alike(&self) -> bool {
        false
    }

    /// Chooses the stream of `lpn`, which is relocated.
    fn for_copy(&mut self, lpn: Lpn, from: &CopyContext) -> StreamId;

    /// Chooses the streams of the units of all victims that are emptied together, and their order within a stream.
    fn arrange(&mut self, units: &mut [Relocated], from: &mut dyn FnMut(Ppa) -> CopyContext) {
        for unit in units {
            unit.to = self.for_copy(unit.lpn, &from(unit.unit));
        }
    }

    /// Notes that `lpn` has been written or copied by the host at `tick`.
    fn on_written(&mut self, _lpn: Lpn, _tick: u64) {}

    /// Notes that `block` has been opened for `stream`.
    fn on_opened(&mut self, _block: BlockId, _stream: StreamId, _tick: u64) {}

    /// Notes that the block is full.
    fn on_closed(&mut self, _closed: &CopyContext) {}

    /// Notes that `lpns` lie in `block` now, written by the host or relocated.
    fn on_placed(&mut self, _lpns: &mut dyn Iterator<Item = Lpn>, _block: BlockId) {}

    /// Notes that `lpn` holds nothing any more.
    fn on_unmapped(&mut self, _lpn: Lpn) {}

    /// Notes that a block is about to be emptied that still holds `valid`.
    fn on_victim(&mut self, _from: &CopyContext, _valid: &mut dyn Iterator<Item = Lpn>) {}

    /// Notes that the block has been emptied.
    fn on_collected(&mut self, _from: &CopyContext) {}

    /// Groups of blocks that the placement wants to be collected in turn; `None` if it has none. The victim policy
    /// [`Midas`](crate::gc::Midas) goes by them.
    fn victim_group(&self) -> Option<VictimGroup<'_>> {
        None
    }

    /// A copy of it, state included.
    fn boxed(&self) -> Box<dyn Placement>;

    /// Returns the part of it that survives a power cut. By default all of it; the placements of Strobe start anew. What the drive finds
    /// on flash is then reported: blocks that are opened and closed.
    fn after_cut(&self) -> Box<dyn Placement> {
        self.boxed()
    }

    /// Writes its state, for a drive that is saved. A placement that does not say how leaves a drive that cannot be saved.
    fn save(&self, out: &mut StateWriter<'_>) {
        out.refuse("its placement does not say how it is saved (Placement::save and load)");
    }

    /// Reads what [`Placement::save`] has written, into a new one of the same configuration.
    fn load(&mut self, _from: &mut StateReader<'_>) -> Result<(), StateError> {
        Err(StateError::Unfit("its placement does not say how it is loaded"))
    }
}

impl Clone for Box<dyn Placement> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

/// [`Placement::boxed`], [`Placement::save`] and [`Placement::load`] of a placement that implements
/// [`State`](strobe_types::State).
macro_rules! by_state {
    () => {
        fn boxed(&self) -> Box<dyn super::Placement> {
            Box::new(self.clone())
        }

        fn save(&self, out: &mut strobe_types::StateWriter<'_>) {
            strobe_types::State::save_state(self, out);
        }

        fn load(&mut self, from: &mut strobe_types::StateReader<'_>) -> Result<(), strobe_types::StateError> {
            strobe_types::State::load_state(self, from)
        }
    };
}
use by_state;
