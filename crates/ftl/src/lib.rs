//! Flash translation layers. `docs/MODEL.md` has the algorithms, and the closed forms that they are held against.
//!
//! [`MappingScheme`] is the seam: the drive above hands over whole mapping units and gets
//! completion times back. [`PageMap`] is the page-mapped scheme. Its garbage collection keeps one
//! rule: *policy chooses, mechanism moves*. A [`gc::VictimPolicy`] sees block statistics and
//! names a victim; only the mapping scheme touches flash.

mod block_info;
mod capacity;
mod formula;
mod free;
mod frontier;
pub mod gc;
mod heat;
pub mod journal;
mod map;
mod place;
mod recovery;
mod scan;
mod stats;
mod validity;
pub mod wear;

pub use block_info::{BlockInfo, Stage, Stream};
pub use capacity::{Capacity, CapacityError, Demand};
pub use gc::{Allocation, DieAllocation, GcStream};
pub use heat::Temperature;
pub use map::blocks::{BlockMap, BlockMapConfig, BlockMapError, BlockScheme, LogVictim};
pub use map::page::{
    AGE_BINS, Handles, PageMap, PageMapConfig, Refresh, SlcConfig, StreamCounts, TranslationConfig,
    Watermarks, WhenFull,
};
pub use place::{
    CopyContext, DataTag, Fk, FormulaPlacement, Future, FutureBuilder, Hint, Isolation, Placement,
    PlacementKind, Relocated, StreamId, StreamLayout, UNIT_VARIABLES, UnitVariable, VictimGroup,
    WriteContext,
};
pub use recovery::{Recovery, RecoveryError};
pub use stats::{CopyStats, FtlStats, GcStats, MergeStats, SlcStats, TranslationStats};
pub use wear::WearSummary;

use strobe_nand::{Nand, Payload, PowerCuts, Unit, When};
use strobe_types::{BlockId, Lpn, Ppa, Ppn, SimTime, Stored};

/// Tokens of the mapping scheme's own work are this and above, below those of flash itself.
pub const BACKGROUND: u64 = 1 << 60;

/// When an operation is done, or why it cannot be.
pub type Done = Result<When, FtlError>;

/// Why a mapping scheme could not do what it was asked. The state is unchanged but for
/// operations already done on flash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Stored)]
#[non_exhaustive]
pub enum FtlError {
    /// So many blocks have gone bad that garbage collection could not make progress any more.
    #[error(
        "end of life: {bad_blocks} bad blocks leave room for {room_units} mapping units, \
         the drive holds up to {logical_units}; only reads are served"
    )]
    EndOfLife {
        /// Blocks out of service.
        bad_blocks: u32,
        /// Logical units that the remaining blocks could serve.
        room_units: u64,
        /// Logical units of the drive.
        logical_units: u32,
    },
    /// Garbage collection ran for long without leaving more room. The capacity check before the run makes this impossible
    /// for a policy that ever picks the blocks with the most to gain.
    #[error(
        "garbage collection makes no progress: {victims} victims in a row, whose {units} valid mapping units were moved \
         for one host command, left no more room than before; the victim policy keeps choosing blocks without invalid \
         data, or with so little that padding and translation pages take what it gives: use another drive.ftl.gc.victim \
         (\"greedy\" chooses the block with the most to gain) or a larger drive.ftl.over_provisioning"
    )]
    NoProgress {
        /// Victims since there was more room than ever before in this collection.
        victims: u64,
        /// Valid units that they held.
        units: u64,
    },
    /// No erased block is left: more flash operations failed in one collection than the reserve
    /// covers.
    #[error(
        "end of life: no erased block left, too many flash operations failed at once; only reads are \
         served (a larger drive.ftl.gc.min_free_blocks covers more failures)"
    )]
    OutOfBlocks,
    /// None of the blocks reserved for the map can be written any more.
    #[error(
        "end of life: the blocks reserved for the map are worn out; only reads are served (a larger \
         drive.ftl.map_blocks lasts longer)"
    )]
    MapWornOut,
    /// Whoever runs the simulation has asked it to end ([`Nand::set_stop`]), in the middle of the command. The drive
    /// serves nothing but reads afterwards, and its state is not to be saved.
    #[error("interrupted")]
    Interrupted,
    /// A translation page cannot be read, and the map has no second copy of it.
    #[error(
        "end of life: translation page {page} cannot be read, and with it the addresses of its units are lost; \
         nothing is served"
    )]
    MapUnreadable {
        /// The flash page.
        page: Ppn,
    },
    /// Data that the host asked for, or that a partial write needs, cannot be read. The drive goes on.
    #[error(
        "unrecovered read error in logical unit {lpn}; it can be read again when it has been written or trimmed"
    )]
    Unreadable {
        /// The first unit that cannot be read.
        lpn: Lpn,
        /// When that is known, all retries included.
        at: When,
    },
}

/// The end of a host read that was complete at `at`, and found `lost` the first unit that cannot be read.
#[inline(always)]
pub(crate) fn read_result(at: When, lost: Option<Lpn>) -> Done {
    match lost {
        None => Ok(at),
        Some(lpn) => Err(FtlError::Unreadable { lpn, at }),
    }
}

/// Failure of the whole-state checker: the first broken invariant, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("state check failed: {0}")]
pub struct CheckError(pub String);

/// A flash translation layer: where each logical unit lies, and how room is made for new ones.
///
/// This is what commands need. What a checker may ask is [`Inspectable`], what comes after a power cut
/// [`Recoverable`].
///
/// **The caller promises** that logical pages are below [`MappingScheme::logical_units`]. `now` is
/// the earliest time at which the operation may start; it may lie before that of an earlier call
/// (a transfer to the drive can take longer than the next one), but operations on the same
/// block are served in the order of the calls.
///
/// **The implementer promises** progress on every write until [`FtlError::EndOfLife`], that a
/// read returns what was last written or trimmed, and that [`Inspectable::check`] holds after
/// every call.
pub trait MappingScheme {
    /// Content of a unit.
    type Payload: Payload;
    /// The flash below.
    type Nand: Nand<Payload = Self::Payload>;

    /// The flash below, for its counters and wear.
    fn nand(&self) -> &Self::Nand;

    /// The flash below, for planning power cuts.
    fn nand_mut(&mut self) -> &mut Self::Nand;

    /// Logical units the drive offers.
    fn logical_units(&self) -> u32;

    /// Counters since the drive was built. After a failed write they tell how many of its units were written.
    fn stats(&self) -> &FtlStats;

    /// Writes whole units, a page at a time; a page that the last ones do not fill is padded.
    /// Returns when the last page is on flash. The cause of `context` is [`Cause::Host`](strobe_nand::Cause::Host), or
    /// [`Cause::Cache`](strobe_nand::Cause::Cache) for units written back by a non-volatile cache.
    fn write(&mut self, now: When, units: &[Unit<Self::Payload>], context: WriteContext) -> Done;

    /// Reads `count` units from `first` on and appends their content to `out`. Unmapped units
    /// read as zeros and cost nothing. With [`FtlError::Unreadable`] all of them have been read, and one or more are lost.
    fn read(&mut self, now: When, first: Lpn, count: u32, out: &mut Vec<Self::Payload>) -> Done;

    /// Unmaps `count` units from `first` on. That survives a power cut only after the next
    /// [`MappingScheme::flush`].
    fn trim(&mut self, now: When, first: Lpn, count: u32) -> Done;

    /// Makes everything done so far survive a power cut; returns when it does. A scheme whose map is
    /// not kept on flash has nothing to do.
    fn flush(&mut self, now: When) -> Done;

    /// Makes `count` units from `to` on hold what those from `from` on hold, as a command of the
    /// drive: nothing crosses the host link. Unmapped sources leave their destinations unmapped.
    /// The ranges must not overlap. Returns when all of it is on flash.
    fn copy(&mut self, now: When, from: Lpn, to: Lpn, count: u32) -> Done;

    /// True if the host can write this number of units now without waiting for background collection. A write
    /// beyond it collects on the spot.
    fn may_write(&self, _units: u32) -> bool {
        true
    }

    /// Goes on with work in the background: flash has reported `token`, one of the scheme's own.
    fn go_on(&mut self, _token: u64) {}

    /// Time without a command of the host after which [`MappingScheme::set_idle`] is to be called, in ns, if ever.
    fn idle_after_ns(&self) -> Option<u64> {
        None
    }

    /// The host has given no command for as long as [`MappingScheme::idle_after_ns`] says, or is back.
    fn set_idle(&mut self, _is_idle: bool) {}

    /// The part of `tag` that decides where data is placed. Buffers above should hand over units with equal parts together.
    fn relevant(&self, _tag: DataTag) -> DataTag {
        DataTag::default()
    }

    /// Placement handles that a write may name, numbered from 0.
    fn handles(&self) -> u16 {
        1
    }

    /// Work of each stream, by number: first those of the placement, then wear levelling, translation pages and the SLC
    /// cache, as far as the drive has them. Empty without a placement.
    fn stream_counts(&self) -> &[StreamCounts] {
        &[]
    }

    /// The placement handles with their reclaim units; `None` if the host does not choose streams by handle.
    fn placement_handles(&self) -> Option<&Handles> {
        None
    }

    /// Gives `handle`, which the drive has, an empty reclaim unit. What is left of the open blocks of the old one is filled
    /// with padding; returns when that is on flash. An empty unit stays.
    fn begin_unit(&mut self, now: When, _handle: u16) -> Done {
        Ok(now)
    }

    /// Units that can be programmed in parallel in one step: one page on every lane of the host
    /// stream. A buffer above should hand over as many at a time.
    fn stripe_units(&self) -> u32 {
        1
    }

    /// Hints that `lpn` will be written some requests from now: fetch its map entry.
    fn prefetch_entry(&self, _lpn: Lpn) {}

    /// Hints that `lpn` will be written soon, its map entry being near: fetch the rest.
    fn prefetch_state(&self, _lpn: Lpn) {}
}

/// State of a mapping scheme, read-only, for checkers and results. It costs no flash operation and no virtual
/// time.
///
/// **The implementer promises** that nothing here changes what commands do.
pub trait Inspectable: MappingScheme {
    /// Logical units that hold data now.
    fn mapped_units(&self) -> u32;

    /// Erased blocks at hand.
    fn free_blocks(&self) -> u32;

    /// Blocks that hold something in SLC mode, or are about to; `None` without an SLC cache.
    fn slc_blocks(&self) -> Option<u32> {
        None
    }

    /// True if background collection is under way.
    fn is_collecting(&self) -> bool {
        false
    }

    /// State of `block`.
    fn block_info(&self, block: BlockId) -> BlockInfo;

    /// Place of a unit on flash, if it has one.
    fn locate(&self, lpn: Lpn) -> Option<Ppa>;

    /// The content of a unit as a read would find it.
    fn peek(&self, lpn: Lpn) -> Self::Payload;

    /// Checks every invariant of the whole state. Cost: a pass over all units. Ends early, without a verdict, when the
    /// flash is asked to stop ([`Nand::is_stopped`]).
    fn check(&self) -> Result<(), CheckError>;

    /// Erase counts and bad blocks.
    fn wear(&self) -> WearSummary {
        WearSummary::of_flash(self.nand(), &self.stats().bad_block_host_writes)
    }
}

/// A mapping scheme that can be found again after a power cut.
///
/// **The caller promises** that `nand` is what a cut has left of this drive's flash. **The implementer promises**
/// that every unit reads as it did when the last flush was complete, or as it did at some time since.
pub trait Recoverable: MappingScheme<Nand: PowerCuts> + Sized {
    /// The drive after power is back. Everything volatile is lost, and the map is rebuilt from flash. The
    /// scheme's counters continue.
    fn recover(self, now: SimTime, nand: Self::Nand) -> Result<(Self, Recovery), RecoveryError>;
}
