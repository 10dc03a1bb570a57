//! NAND flash: what a flash translation layer may ask of it, and an exact model of it.
//!
//! [`Nand`] is the contract. [`Chip`] is the model behind it: it enforces the flash rules, counts
//! every operation under exactly one [`Cause`], keeps each unit's out-of-band record, wears out,
//! and asks a [`Timing`] when things happen and a [`Medium`] to keep what was stored. Timing and
//! medium are type parameters, so that a run which only counts operations pays for neither.
//!
//! A broken flash rule (a page programmed twice or out of order, a dead block used) is a bug in
//! the layer above and panics. A media fault (a failed program or erase) is an `Err` that the
//! layer above must handle.

mod chip;
mod counts;
mod cut;
mod image;
mod medium;
mod timing;

pub use chip::{Chip, WearConfig};
pub use counts::{Cause, NandOp, OpCounts};
pub use cut::{CutPlan, Snapshot};
pub use image::{Access, Damage, Image, ImageError, ImageInfo, ImageMedium, Scan};
pub use medium::{BlockState, ByteMedium, Medium, NoMedium, OobRecord, Payload, StampMedium, UnitBytes};
pub use timing::{ArrayTiming, Bus, SwitchedTiming, Timing, TimingConfig, Untimed};

use std::sync::Arc;

use strobe_types::{BlockId, Geometry, Lpn, Ppa, Ppn, SimTime};

/// One mapping unit on its way to or from flash: whose it is, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit<P> {
    /// The logical page the unit belongs to; goes into the out-of-band area.
    pub lpn: Lpn,
    /// What it holds, as far as the medium keeps it.
    pub payload: P,
}

/// A page program reported failure. The page is used up and holds nothing; the block must take
/// no more programs and should be retired after its valid data has been moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("program failed")]
pub struct ProgramFailed {
    /// Pages of the same call that were programmed before the one that failed.
    pub programmed: u32,
    /// When the failure was known.
    pub at: SimTime,
}

/// An erase reported failure: the block is bad from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("erase failed, block worn out")]
pub struct EraseFailed {
    /// When the failure was known.
    pub at: SimTime,
}

/// A drive's flash array.
///
/// **The caller promises** to program the pages of a block in order, unless [`Nand::takes_any_order`],
/// each once between erases;
/// to read only programmed pages; to leave bad blocks alone; and to order operations that depend
/// on each other by passing the completion time of one as `now` of the next. Operations on one
/// block are served in the order of the calls.
///
/// **The implementer promises** that a page reads back exactly as programmed until its block is
/// erased, that every operation is counted under its cause, and that a returned time is never
/// earlier than `now`.
pub trait Nand {
    /// What a unit holds on this medium.
    type Payload: Payload;

    /// Whether returned times may mean anything. False: the run only counts.
    const TIMED: bool;

    /// Whether they do: some flash decides that when it is made.
    fn is_timed(&self) -> bool {
        Self::TIMED
    }

    /// The shape of the array.
    fn geometry(&self) -> &Geometry;

    /// Reads page `ppn` and transfers `units` of its mapping units. Returns when they have
    /// arrived; their content is then available from [`Nand::lpn`] and [`Nand::payload`].
    fn read(&mut self, now: SimTime, ppn: Ppn, units: u32, cause: Cause) -> SimTime;

    /// Reads the out-of-band area of page `ppn`, programmed or not, without its data. Returns when it has
    /// arrived; [`Nand::is_programmed`] and [`Nand::lpn`] say what it holds.
    fn read_spare(&mut self, now: SimTime, ppn: Ppn, cause: Cause) -> SimTime;

    /// Programs page `ppn` with nothing, to get past it on a chip that takes pages in order only.
    fn pad(&mut self, now: SimTime, ppn: Ppn, cause: Cause) -> Result<SimTime, ProgramFailed>;

    /// Programs consecutive pages of one block from `first` on with `units`, a page's worth each;
    /// the last page may be padded. Pages are issued together, in order. Returns when the last
    /// one is on flash, or which page failed; pages before that one are programmed, those after
    /// it untouched.
    fn program(
        &mut self,
        now: SimTime,
        first: Ppn,
        units: &[Unit<Self::Payload>],
        sequence: u64,
        cause: Cause,
    ) -> Result<SimTime, ProgramFailed>;

    /// Programs page `ppn` with `bytes`, at most a page's worth, of the drive's own tables; like
    /// [`Nand::program`] of one page, but its units belong to no logical page.
    fn program_meta(
        &mut self,
        now: SimTime,
        ppn: Ppn,
        bytes: &[u8],
        cause: Cause,
    ) -> Result<SimTime, ProgramFailed>;

    /// Reads a programmed page of the drive's own tables. `None` if it holds none: its program was
    /// cut short or failed, or the medium keeps nothing.
    fn read_meta(&mut self, now: SimTime, ppn: Ppn, cause: Cause) -> (SimTime, Option<Arc<[u8]>>);

    /// Erases `block`.
    fn erase(&mut self, now: SimTime, block: BlockId, cause: Cause) -> Result<SimTime, EraseFailed>;

    /// The logical page recorded in the out-of-band area of a programmed unit; `None` for
    /// padding. Costs no flash time: the caller has read the page or is the checker.
    fn lpn(&self, ppa: Ppa) -> Option<Lpn>;

    /// The content of a programmed unit, under the same rule as [`Nand::lpn`].
    fn payload(&self, ppa: Ppa) -> Self::Payload;

    /// The out-of-band record of a programmed page, under the same rule as [`Nand::lpn`]; `None` if
    /// the medium keeps none.
    fn record(&self, ppn: Ppn) -> Option<OobRecord>;

    /// Whether the last erase of `block` was cut short, so that it must be erased again before
    /// anything else.
    fn is_half_erased(&self, block: BlockId) -> bool;

    /// Pages programmed in `block` since its last erase.
    fn pages_programmed(&self, block: BlockId) -> u32;

    /// Whether page `ppn` has been programmed since the last erase of its block.
    fn is_programmed(&self, ppn: Ppn) -> bool {
        self.geometry().page_in_block(ppn) < self.pages_programmed(self.geometry().block_of_page(ppn))
    }

    /// Whether the pages of a block may be programmed in any order.
    fn takes_any_order(&self) -> bool {
        false
    }

    /// Successful erases of `block`.
    fn erase_count(&self, block: BlockId) -> u32;

    /// Whether `block` is bad, from the factory or worn out.
    fn is_bad(&self, block: BlockId) -> bool;

    /// Takes `block` out of service for good (after a failed program).
    fn mark_bad(&mut self, block: BlockId);

    /// Everything that has been done, by operation and cause.
    fn counts(&self) -> &OpCounts;

    /// When all operations issued so far are complete.
    fn idle_at(&self) -> SimTime;

    /// Asks the processor to bring the out-of-band records that start at `ppa` into its cache.
    fn prefetch_oob(&self, ppa: Ppa);

    /// Programs and erases so far, from the first one this array ever did: what power cuts are
    /// numbered by. Reads change nothing, so a cut during one is a cut before the next operation.
    fn operations(&self) -> u64 {
        self.counts().total(NandOp::Program) + self.counts().total(NandOp::Erase)
    }

    /// Plans where the flash is to be photographed as a power cut would leave it; the operation
    /// itself goes on. Replaces an earlier plan and drops its snapshots.
    fn plan_cuts(&mut self, plan: CutPlan);

    /// The snapshots taken since the last call, in order.
    fn take_snapshots(&mut self) -> Vec<Snapshot<Self>>
    where
        Self: Sized;

    /// Checks what the medium can check about a programmed page: `Err` names the difference.
    fn verify_page(&self, ppn: Ppn) -> Result<(), String>;

    /// Why the medium can keep or give back data no more: a full disk, a read error, damage. From then
    /// on it keeps nothing and reads as zeros, so whoever answers the host must ask this before it
    /// reports any command as done.
    #[inline(always)]
    fn failure(&self) -> Option<&str> {
        None
    }

    /// Makes what is stored survive a loss of power of the host computer, too, where the medium can.
    fn sync(&mut self) {}
}
