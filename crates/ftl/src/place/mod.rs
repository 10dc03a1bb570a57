//! Data placement: the choice of units that share blocks.
//!
//! Every open block belongs to a *stream*. A [`Placement`] chooses the stream of each unit that is written or
//! relocated: data that dies together should share blocks. It cannot touch flash. Events in the life of a
//! unit:
//!
//! 1. [`Placement::for_write`]: the host writes it; the stream is chosen.
//! 2. [`Placement::on_opened`], [`Placement::on_closed`]: blocks of that stream are opened and filled.
//! 3. [`Placement::on_victim`]: its block will be emptied next.
//! 4. [`Placement::for_copy`]: it is relocated if still valid; the stream is chosen again.
//! 5. [`Placement::on_collected`]: the block is empty and will be erased.
//!
//! `sepbit.rs` is an example.

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
    /// Hint from the host about data.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Stored)]
    pub enum Hint {
        /// No hint.
        #[default]
        None => "none",
        /// File-system metadata: small, and soon overwritten.
        Metadata => "metadata",
    }
}

/// The host's description of data, kept from the command to the placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Stored)]
pub struct DataTag {
    /// The host's hint.
    pub hint: Hint,
    /// Placement handle (FDP), below [`PageMapConfig::handles`](crate::PageMapConfig::handles); 0 if not
    /// named.
    pub handle: u16,
}

impl DataTag {
    /// A placement handle without a hint.
    pub const fn placed(handle: u16) -> Self {
        Self { hint: Hint::None, handle }
    }
}

impl From<Hint> for DataTag {
    fn from(hint: Hint) -> Self {
        Self { hint, handle: 0 }
    }
}

/// Properties of a host write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteContext {
    /// Cause of the programs.
    pub cause: Cause,
    /// The host's description of the data.
    pub tag: DataTag,
}

impl WriteContext {
    /// A host write without a description.
    pub const HOST: Self = Self::of(Cause::Host);

    /// A write without a description, counted under `cause`.
    pub const fn of(cause: Cause) -> Self {
        Self { cause, tag: DataTag { hint: Hint::None, handle: 0 } }
    }
}

/// A stream: open blocks, at most one on each plane, for data of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Stored)]
pub struct StreamId(u8);

impl StreamId {
    pub(crate) const NONE: Self = Self(u8::MAX);

    /// Stream `number`.
    pub const fn new(number: u8) -> Self {
        Self(number)
    }

    /// Stream number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Stream number as an index.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A full block, or the source of a relocation.
#[derive(Clone, Copy, Debug)]
pub struct CopyContext {
    /// The block.
    pub block: BlockId,
    /// The stream that filled it; `None` if unknown after a power cut, or if no placement chose it.
    pub stream: Option<StreamId>,
    /// Current tick.
    pub tick: u64,
}

/// A unit to be relocated.
#[derive(Clone, Copy, Debug)]
pub struct Relocated {
    /// Present flash unit.
    pub unit: Ppa,
    /// Logical unit; first owner if shared.
    pub lpn: Lpn,
    /// Destination stream.
    pub to: StreamId,
}

/// Groups of blocks, and the next victim's group.
#[derive(Clone, Copy, Debug)]
pub struct VictimGroup<'a> {
    /// Group of each full block.
    pub labels: &'a [u8],
    /// Group whose oldest block is due, unless `is_last`.
    pub group: u8,
    /// True if the best block of the last group is due.
    pub is_last: bool,
    /// First label of the last group. All higher labels are part of it.
    pub last: u8,
}

impl VictimGroup<'_> {
    /// True if `block` belongs to `group`.
    pub fn has(&self, block: BlockId) -> bool {
        self.labels[block.index()] == self.group
    }

    /// True if `block` belongs to the last group.
    pub fn is_in_last(&self, block: BlockId) -> bool {
        self.labels[block.index()] >= self.last
    }
}

/// Chooses the stream of each unit.
///
/// Streams may be written by the host, by relocation, or by both. Stream 0 always takes host writes;
/// relocation writes it only if the layout shares it. Wear levelling, translation pages and the SLC cache
/// have streams outside the placement.
///
/// **The caller promises** ticks that never decrease, and one [`Placement::for_write`] per host unit in write
/// order. With [`Placement::goes_by_tag`] it is one call per write. Built-in kinds that place only relocated
/// units get none. **The implementer promises** streams of its [`StreamLayout`], and the same ones for the
/// same history.
pub trait Placement: Debug + Send + Sync {
    /// True if `stream` takes cold data; [`Allocation`](crate::Allocation) may choose worn blocks for it.
    fn is_cold(&self, _stream: StreamId) -> bool {
        false
    }

    /// True if units of several victims are ordered together. Collection then takes victims until they gain
    /// [`PageMapConfig::net_blocks`](crate::PageMapConfig::net_blocks) blocks, in the background one. It
    /// empties them whole, not in steps.
    fn sorts_victims(&self) -> bool {
        false
    }

    /// True if relocation may move left-over units of several streams, too few for a page, to the first of
    /// these streams, to fill its pages. Else the last page of each stream is padded.
    fn shares_pages(&self) -> bool {
        true
    }

    /// True if a host write that would start a collection first continues in a block that relocation left
    /// partly filled. While victims are emptied in steps, relocation keeps its blocks.
    fn hands_over(&self) -> bool {
        false
    }

    /// Part of `tag` that [`Placement::for_write`] uses. Writes with equal parts may share a program.
    fn relevant(&self, _tag: DataTag) -> DataTag {
        DataTag::default()
    }

    /// True if the stream of a write depends only on its tag, and writes are not recorded. One call then
    /// serves a whole write.
    fn goes_by_tag(&self) -> bool {
        false
    }

    /// Announces host writes of `lpns`, in order. [`Placement::for_write`] follows for each, possibly with
    /// collections in between. For placements that are faster on batches.
    fn on_batch(&mut self, _lpns: &mut dyn Iterator<Item = Lpn>, _context: WriteContext) {}

    /// Prefetches the state of `lpn`.
    fn prefetch(&self, _lpn: Lpn) {}

    /// Chooses the stream of a host write at `tick`.
    fn for_write(&mut self, _lpn: Lpn, _context: WriteContext, _tick: u64) -> StreamId {
        StreamId::new(0)
    }

    /// True if [`Placement::for_copy`] always returns the first stream of relocated units and records
    /// nothing; it is then not called.
    fn moves_alike(&self) -> bool {
        false
    }

    /// Chooses the stream of a relocated unit.
    fn for_copy(&mut self, lpn: Lpn, from: &CopyContext) -> StreamId;

    /// Chooses the streams of the units of all victims emptied together, and their order within a stream.
    fn arrange(&mut self, units: &mut [Relocated], from: &mut dyn FnMut(Ppa) -> CopyContext) {
        for unit in units {
            unit.to = self.for_copy(unit.lpn, &from(unit.unit));
        }
    }

    /// Reports that the host wrote or copied `lpn` at `tick`.
    fn on_written(&mut self, _lpn: Lpn, _tick: u64) {}

    /// Reports that `block` was opened for `stream`.
    fn on_opened(&mut self, _block: BlockId, _stream: StreamId, _tick: u64) {}

    /// Reports that the block is full.
    fn on_closed(&mut self, _closed: &CopyContext) {}

    /// Reports that `lpns`, written or relocated, now lie in `block`.
    fn on_placed(&mut self, _lpns: &mut dyn Iterator<Item = Lpn>, _block: BlockId) {}

    /// Reports that `lpn` was unmapped.
    fn on_unmapped(&mut self, _lpn: Lpn) {}

    /// Reports that a block with units `valid` will be emptied.
    fn on_victim(&mut self, _from: &CopyContext, _valid: &mut dyn Iterator<Item = Lpn>) {}

    /// Reports that the block was emptied.
    fn on_collected(&mut self, _from: &CopyContext) {}

    /// Groups to be collected in turn, for the victim policy [`Midas`](crate::gc::Midas); `None` without
    /// groups.
    fn victim_group(&self) -> Option<VictimGroup<'_>> {
        None
    }

    /// Returns a copy, state included.
    fn boxed(&self) -> Box<dyn Placement>;

    /// Returns the placement after a power cut; by default a copy with all state. Called only for
    /// [`PlacementKind::Own`]: the built-in kinds are built again, empty. Full blocks found on flash are then
    /// reported as closed.
    fn after_cut(&self) -> Box<dyn Placement> {
        self.boxed()
    }

    /// Writes the state for a saved drive. By default, saving is refused.
    fn save(&self, out: &mut StateWriter<'_>) {
        out.refuse("its placement cannot be saved (Placement::save and load are missing)");
    }

    /// Reads the state from [`Placement::save`] into a new placement of the same configuration.
    fn load(&mut self, _from: &mut StateReader<'_>) -> Result<(), StateError> {
        Err(StateError::Unfit("its placement cannot be loaded"))
    }
}

impl Clone for Box<dyn Placement> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

/// [`Placement::boxed`], [`Placement::save`] and [`Placement::load`] by [`State`](strobe_types::State).
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
