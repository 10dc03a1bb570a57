//! Flash translation layers. `docs/MODEL.md` has the algorithms and their closed forms.
//!
//! The drive hands whole mapping units to a [`MappingScheme`] and gets completion times back. In garbage
//! collection, *policy chooses, mechanism moves*: a [`gc::VictimPolicy`] sees block statistics and names a
//! victim; only the mapping scheme touches flash.

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

/// First token of background work; the flash's own tokens are higher.
pub const BACKGROUND: u64 = 1 << 60;

/// Completion time of an operation, or its error.
pub type Done = Result<When, FtlError>;

/// Error of a mapping scheme. Units written before the error stay written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Stored)]
#[non_exhaustive]
pub enum FtlError {
    /// Too many bad blocks for garbage collection to make progress.
    #[error(
        "end of life: {bad_blocks} bad blocks leave space for {capacity_units} mapping units, \
         the drive holds up to {logical_units}; only reads are served"
    )]
    EndOfLife {
        /// Blocks out of service.
        bad_blocks: u32,
        /// Logical units that the remaining blocks could serve.
        capacity_units: u64,
        /// Logical units of the drive.
        logical_units: u32,
    },
    /// Garbage collection freed too little space even from the blocks with the fewest valid units. The
    /// capacity check before the run rules this out unless flash fails.
    #[error(
        "garbage collection makes no progress: the {victims} blocks with the fewest valid mapping units, {units} in all, \
         were moved for one host command and freed too little space; use a larger drive.ftl.over_provisioning, or a larger \
         drive.ftl.gc.min_free_blocks if programs fail"
    )]
    NoProgress {
        /// Victims moved, those with the fewest valid units.
        victims: u64,
        /// Valid units in these victims.
        units: u64,
    },
    /// No erased block is left: more flash operations failed in one collection than the reserve covers.
    #[error(
        "end of life: no erased block left, too many flash operations failed at once; only reads are \
         served (a larger drive.ftl.gc.min_free_blocks covers more failures)"
    )]
    OutOfBlocks,
    /// No block reserved for the map is writable any more.
    #[error(
        "end of life: the blocks reserved for the map are worn out; only reads are served (with \
         fewer flushes or a larger drive.nand.endurance_pe they last longer)"
    )]
    MapWornOut,
    /// The simulation was stopped during the command ([`Nand::set_stop`]). The drive then only serves reads,
    /// and must not be saved.
    #[error("interrupted")]
    Interrupted,
    /// An unreadable translation page; the map has no second copy.
    #[error(
        "end of life: translation page {page} cannot be read, so the addresses of its units are lost; \
         nothing is served"
    )]
    MapUnreadable {
        /// Flash page of the translation page.
        page: Ppn,
    },
    /// Unreadable data, requested by the host or by a partial write. The drive keeps working.
    #[error(
        "unrecovered read error in logical unit {lpn}; the unit becomes readable again after a write or trim"
    )]
    Unreadable {
        /// First unreadable unit.
        lpn: Lpn,
        /// Time of the failure, all retries included.
        at: When,
    },
}

#[inline(always)]
pub(crate) fn read_result(at: When, lost: Option<Lpn>) -> Done {
    match lost {
        None => Ok(at),
        Some(lpn) => Err(FtlError::Unreadable { lpn, at }),
    }
}

/// First broken invariant found by the state checker, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("state check failed: {0}")]
pub struct CheckError(pub String);

/// A flash translation layer: maps logical units to flash and reclaims space.
///
/// **The caller promises** that units are below [`MappingScheme::logical_units`]. `now` is the earliest
/// start. It may be earlier than in the previous call: a later transfer to the drive can finish first.
/// Operations on a block are served in call order.
///
/// **The implementer promises** progress on every write until [`FtlError::EndOfLife`], reads that return the
/// last write or trim, and a state that passes [`Inspectable::check`].
pub trait MappingScheme {
    /// Content of a unit.
    type Payload: Payload;
    /// The flash below.
    type Nand: Nand<Payload = Self::Payload>;

    /// The flash below, for its counters and wear.
    fn nand(&self) -> &Self::Nand;

    /// The flash below, for planning power cuts.
    fn nand_mut(&mut self) -> &mut Self::Nand;

    /// Logical units that the drive offers.
    fn logical_units(&self) -> u32;

    /// Counters since the drive was built. They include the units written before a write failed.
    fn stats(&self) -> &FtlStats;

    /// Writes whole units page by page, padding the last page. Returns the time when they are on flash. The
    /// cause of `context` is [`Cause::Host`](strobe_nand::Cause::Host), or
    /// [`Cause::Cache`](strobe_nand::Cause::Cache) for units from a non-volatile cache.
    fn write(&mut self, now: When, units: &[Unit<Self::Payload>], context: WriteContext) -> Done;

    /// Appends the content of `count` units from `first` to `out`. Unmapped units read as zeros and cost
    /// nothing. On [`FtlError::Unreadable`] all units were read, and at least one is lost.
    fn read(&mut self, now: When, first: Lpn, count: u32, out: &mut Vec<Self::Payload>) -> Done;

    /// Unmaps `count` units from `first`, durably only after the next [`MappingScheme::flush`].
    fn trim(&mut self, now: When, first: Lpn, count: u32) -> Done;

    /// Makes all earlier operations survive a power cut. Returns the time when they do. A no-op if the map is
    /// only in memory.
    fn flush(&mut self, now: When) -> Done;

    /// Copies `count` units inside the drive, without the host link. Returns the time when they are on flash.
    /// Unmapped sources leave their destinations unmapped. The ranges must not overlap.
    fn copy(&mut self, now: When, from: Lpn, to: Lpn, count: u32) -> Done;

    /// True if the host can write this number of units with this tag without waiting for background collection. A
    /// larger write collects synchronously.
    fn may_write(&self, _units: u32, _tag: DataTag) -> bool {
        true
    }

    /// Continues background work after the flash has reported `token`.
    fn on_event(&mut self, _token: u64) {}

    /// Idle time in ns until [`MappingScheme::set_idle`] is due; `None` if never.
    fn idle_after_ns(&self) -> Option<u64> {
        None
    }

    /// Reports that the host has been idle for [`MappingScheme::idle_after_ns`], or is active again.
    fn set_idle(&mut self, _is_idle: bool) {}

    /// Part of `tag` that affects placement. Buffers should write units with the same part in one call.
    fn relevant(&self, _tag: DataTag) -> DataTag {
        DataTag::default()
    }

    /// Placement handles of the host, numbered from 0.
    fn handles(&self) -> u16 {
        1
    }

    /// Counters by stream: the placement's streams, then wear levelling, translation pages and SLC cache if
    /// present. Empty without a placement.
    fn stream_counts(&self) -> &[StreamCounts] {
        &[]
    }

    /// Placement handles and their reclaim units; `None` if the host does not choose streams by handle.
    fn placement_handles(&self) -> Option<&Handles> {
        None
    }

    /// Gives the existing `handle` an empty reclaim unit, unless its present one is empty. Pads the open
    /// blocks of the old unit. Returns the time when the padding is on flash.
    fn begin_unit(&mut self, now: When, _handle: u16) -> Done {
        Ok(now)
    }

    /// Units programmed in one parallel step: one page in each open block of the host stream. Buffers should
    /// write this number in one call.
    fn stripe_units(&self) -> u32 {
        1
    }

    /// Hints that `lpn` will be written some requests later; prefetches its map entry.
    fn prefetch_entry(&self, _lpn: Lpn) {}

    /// Hints that `lpn`, whose map entry is in the processor's cache, will be written soon; prefetches other
    /// state.
    fn prefetch_state(&self, _lpn: Lpn) {}
}

/// Read-only state for checkers and results, without flash operations or virtual time.
///
/// **The implementer promises** that no method changes the outcome of commands.
pub trait Inspectable: MappingScheme {
    /// Logical units that hold data.
    fn mapped_units(&self) -> u32;

    /// Erased blocks.
    fn free_blocks(&self) -> u32;

    /// Blocks that hold SLC data or are open for it; `None` without an SLC cache.
    fn slc_blocks(&self) -> Option<u32> {
        None
    }

    /// True while background collection is running.
    fn is_collecting(&self) -> bool {
        false
    }

    /// State of `block`.
    fn block_info(&self, block: BlockId) -> BlockInfo;

    /// Flash location of a unit, if it is mapped.
    fn locate(&self, lpn: Lpn) -> Option<Ppa>;

    /// Content of a unit, as a read would return it.
    fn peek(&self, lpn: Lpn) -> Self::Payload;

    /// Checks every invariant in one pass over all units. Ends early with `Ok` if the flash is stopped
    /// ([`Nand::is_stopped`]).
    fn check(&self) -> Result<(), CheckError>;

    /// Erase counts and bad blocks.
    fn wear(&self) -> WearSummary {
        WearSummary::of_flash(self.nand(), &self.stats().bad_block_host_writes)
    }
}

/// A mapping scheme that survives power cuts.
///
/// **The caller promises** that `nand` is this drive's flash after the cut. **The implementer promises** that
/// every unit reads as at the last completed flush or at some later time.
pub trait Recoverable: MappingScheme<Nand: PowerCuts> + Sized {
    /// Rebuilds the map from flash after power is restored. Volatile state is lost; counters continue.
    fn recover(self, now: SimTime, nand: Self::Nand) -> Result<(Self, Recovery), RecoveryError>;
}
