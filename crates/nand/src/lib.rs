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
mod events;
mod image;
mod medium;
mod read_done;
mod sparse;
mod timing;
mod wanted;
mod wear;

pub use chip::{Chip, Lasts, RetryConfig, Stress};
pub use counts::{Cause, NandOp, OpCounts};
pub use cut::{CutPlan, Met, PowerCuts, Snapshot};
pub use events::{Candidate, Event, EventKind, EventLog, FlashOp, HostCommand, Recorded};
pub use image::{Access, Damage, DataMedium, Image, ImageError, ImageInfo, Scan};
pub use medium::{
    BlockState, ByteMedium, Medium, NoMedium, OobRecord, Payload, StampMedium, Unit, UnitBytes,
};
pub use read_done::{ReadDone, ReadOutcome};
pub use timing::{
    ArrayTiming, Bus, Class, Issue, Occupancy, PageTimes, SlcMode, SuspendConfig, SwitchedTiming, Ticket,
    Timing, TimingConfig, Untimed, When,
};
pub use wanted::Wanted;
pub use wear::WearConfig;

use std::sync::Arc;

use strobe_types::{BlockId, CellMode, Geometry, Lpn, Ppa, Ppn, SimTime, StopFlag};

use medium::page_checksum;

/// A page program reported failure. The page is used up and holds nothing; the block must take
/// no more programs and should be retired after its valid data has been moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("program failed")]
pub struct ProgramFailed {
    /// Pages of the same call that were programmed before the one that failed.
    pub programmed: u32,
    /// When the failure is known.
    pub at: When,
}

/// An erase reported failure: the block is bad from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("erase failed, block worn out")]
pub struct EraseFailed {
    /// When the failure is known.
    pub at: When,
}

/// A drive's flash array.
///
/// **The caller promises** to program the pages of a block in order, unless [`Nand::takes_any_order`],
/// each once between erases;
/// to read the data of programmed pages only; to leave bad blocks alone; and to order operations that depend
/// on each other by passing what one returns as `after` of the next.
///
/// **The implementer promises** that a page reads back exactly as programmed until its block is
/// erased, that every operation is counted under its cause, and that operations on one block keep the order of the
/// calls as far as flash asks for it (see [`Timing`]). What a call does to the content is visible at once, to whoever
/// asks for it; on flash it is when the operation is complete, and a power cut before that finds it undone.
///
/// What only experiments need is apart: [`PowerCuts`] for cuts, [`verify_page`] for checkers.
pub trait Nand {
    /// Content of a unit on this medium.
    type Payload: Payload;

    /// When its operations happen.
    type Timing: Timing;

    /// True if timing may be enabled. If false, the run counts operations only.
    const TIMED: bool = Self::Timing::TIMED;

    /// When its operations happen.
    fn timing(&self) -> &Self::Timing;

    /// When its operations happen. To let time pass there is [`Nand::run`], as the flash has to know of it.
    fn timing_mut(&mut self) -> &mut Self::Timing;

    /// True if timing is enabled. `SwitchedTiming` decides at construction.
    fn is_timed(&self) -> bool {
        self.timing().is_timed()
    }

    /// When both are done.
    #[inline(always)]
    fn both(&mut self, a: When, b: When) -> When {
        self.timing_mut().both(a, b)
    }

    /// See [`Timing::run`].
    fn run(&mut self, until: SimTime) -> bool {
        self.timing_mut().run(until)
    }

    /// See [`Timing::has_reported`].
    #[inline(always)]
    fn has_reported(&self) -> bool {
        self.timing().has_reported()
    }

    /// See [`Timing::next_reported`].
    #[inline(always)]
    fn next_reported(&mut self) -> Option<u64> {
        self.timing_mut().next_reported()
    }

    /// See [`Timing::reported`].
    fn reported(&mut self, tokens: &mut Vec<u64>) {
        tokens.extend(std::iter::from_fn(|| self.next_reported()));
    }

    /// See [`Timing::finish`].
    fn finish(&mut self, when: When) -> SimTime {
        self.timing_mut().finish(when)
    }

    /// See [`Timing::drain`].
    fn drain(&mut self) -> SimTime {
        self.timing_mut().drain()
    }

    /// The shape of the array.
    fn geometry(&self) -> &Geometry;

    /// Flash pages that one program fills: 1, or those of a word line, which are programmed at once. Then what is a page
    /// elsewhere in this contract is that word line; reads count, and take their time, for each flash page of it.
    #[inline(always)]
    fn pages_per_program(&self) -> u32 {
        1
    }

    /// The flash page of its word line that holds `ppa`, from 0.
    #[inline(always)]
    fn part_of(&self, ppa: Ppa) -> u32 {
        match self.pages_per_program() {
            1 => 0,
            parts => {
                let geometry = self.geometry();
                let slot = ppa.get() - geometry.first_unit_of_page(geometry.page_of(ppa)).get();
                slot / (geometry.units_per_page() / parts)
            }
        }
    }

    /// `units`, all of one page, as a read transfers them.
    #[inline]
    fn wanted(&self, units: impl ExactSizeIterator<Item = Ppa>) -> Wanted {
        if self.pages_per_program() == 1 {
            return Wanted::first(units.len() as u32);
        }
        let mut wanted = Wanted::NONE;
        units.for_each(|ppa| wanted.add(self.part_of(ppa)));
        wanted
    }

    /// All units of page `ppn`, as a read transfers them.
    fn whole_page(&self, ppn: Ppn) -> Wanted {
        let first = self.geometry().first_unit_of_page(ppn);
        self.wanted((0..self.geometry().units_per_page()).map(|at| first.plus(at)))
    }

    /// Reads page `ppn`, not before `after`, and transfers the `wanted` ones of its mapping units. Returns when they have
    /// arrived; their content is then available from [`Nand::lpn`] and [`Nand::payload`], but for units that
    /// could not be corrected ([`Nand::has_failed`]). With no unit at all it is the out-of-band area that is read, of a page programmed or not.
    fn read(&mut self, after: When, ppn: Ppn, wanted: Wanted, cause: Cause) -> ReadDone;

    /// Reads pages of one block, of each the units wanted, in this order; returns when all have arrived. See
    /// [`Nand::read`].
    fn read_pages(&mut self, pages: &[(Ppn, Wanted)], cause: Cause) -> ReadDone {
        // Reads of one block have their turns in the order of their issue: when the last one is there all are.
        pages.iter().fold(ReadDone::clean(When::START), |before, &(ppn, wanted)| {
            let done = self.read(When::START, ppn, wanted, cause);
            ReadDone { outcome: before.outcome.and(done.outcome), ..done }
        })
    }

    /// True if the data of the programmed unit at `ppa` cannot be read until its block is erased. Costs no flash time.
    fn is_lost(&self, _ppa: Ppa) -> bool {
        false
    }

    /// True if the last read could not correct the unit at `ppa`: it is lost, or the next read may succeed.
    fn has_failed(&self, ppa: Ppa) -> bool {
        self.is_lost(ppa)
    }

    /// True if any unit is lost.
    #[inline(always)]
    fn has_losses(&self) -> bool {
        false
    }

    /// Loses the data of the programmed unit at `ppa`; its out-of-band record stays legible.
    fn lose(&mut self, _ppa: Ppa, _lasts: Lasts) {}

    /// Marks the next program of each of these logical units, and of no others, as a copy of a lost unit. The copy is
    /// lost as well: the mark is part of that program.
    fn mark_next(&mut self, _lpns: impl Iterator<Item = Lpn>) {}

    /// Reads of flash pages so far that could not be corrected.
    fn uncorrectable(&self) -> u64 {
        0
    }

    /// Programs consecutive pages of one block from `first` on with `units`, a page's worth each;
    /// the last page may be padded, and no unit at all is a page of padding. Pages are issued together, in
    /// order; the first gets the sequence number `sequence`. Returns when the last one is on flash, or which
    /// page failed; pages before that one are programmed, those after it untouched.
    fn program(
        &mut self,
        after: When,
        first: Ppn,
        units: &[Unit<Self::Payload>],
        sequence: u64,
        cause: Cause,
    ) -> Result<When, ProgramFailed>;

    /// Programs page `ppn` with `bytes`, at most a page's worth, of the drive's own tables; like
    /// [`Nand::program`] of one page, but its units belong to no logical page.
    fn program_meta(
        &mut self,
        after: When,
        ppn: Ppn,
        bytes: &[u8],
        cause: Cause,
    ) -> Result<When, ProgramFailed>;

    /// Reads a programmed page of the drive's own tables. `None` if it holds none: its program was
    /// cut short or failed, or the medium keeps nothing. Bytes that were lost are not to be used.
    fn read_meta(&mut self, after: When, ppn: Ppn, cause: Cause) -> (ReadDone, Option<Arc<[u8]>>);

    /// Chooses what the cells of the erased `block` are used for, until its next erase; it can be chosen again until the first
    /// program. Takes no time: it goes with that program.
    fn set_mode(&mut self, block: BlockId, mode: CellMode) {
        assert!(mode == CellMode::Normal, "flash rule broken: {block} cannot be in SLC mode");
    }

    /// Pages of a block in SLC mode; 0 if blocks cannot be.
    fn slc_pages(&self) -> u32 {
        0
    }

    /// Pages of `block` as its cells are used now.
    fn pages_of(&self, block: BlockId) -> u32 {
        match self.block(block).mode {
            CellMode::Normal => self.geometry().pages_per_block(),
            CellMode::Slc => self.slc_pages(),
        }
    }

    /// Erases `block`. Then its cells are used as normal.
    fn erase(&mut self, after: When, block: BlockId, cause: Cause) -> Result<When, EraseFailed>;

    /// Takes `block` out of service for good (after a failed program). A power cut finds it so when everything issued
    /// before is complete.
    fn mark_bad(&mut self, block: BlockId);

    /// The logical page recorded in the out-of-band area of a programmed unit; `None` for
    /// padding. Costs no flash time: the caller has read the page or is the checker.
    fn lpn(&self, ppa: Ppa) -> Option<Lpn>;

    /// The content of a programmed unit, under the same rule as [`Nand::lpn`].
    fn payload(&self, ppa: Ppa) -> Self::Payload;

    /// The out-of-band record of a programmed page, under the same rule as [`Nand::lpn`]; `None` if
    /// the medium keeps none.
    fn record(&self, ppn: Ppn) -> Option<OobRecord>;

    /// State of `block`.
    fn block(&self, block: BlockId) -> BlockState;

    /// True if page `ppn` has been programmed since the last erase of its block.
    fn is_programmed(&self, ppn: Ppn) -> bool {
        let block = self.block(self.geometry().block_of_page(ppn));
        self.geometry().page_in_block(ppn) < block.pages_programmed
    }

    /// True if the pages of a block may be programmed in any order. [`Nand::is_programmed`] then tells which
    /// ones are.
    fn takes_any_order(&self) -> bool {
        false
    }

    /// Everything that has been done, by operation and cause.
    fn counts(&self) -> &OpCounts;

    /// True if the program of page `ppn` is in flight: its content is readable but not yet on flash. On chips
    /// without page order, true if a program of its block is in flight.
    #[inline(always)]
    fn is_on_its_way(&self, ppn: Ppn) -> bool {
        if !Self::TIMED {
            return false;
        }
        let place = self.geometry().place(ppn);
        let ahead = self.timing().programs_ahead(|| place);
        let is_last = || place.page + ahead >= self.block(place.block).pages_programmed;
        ahead > 0 && (self.takes_any_order() || is_last())
    }

    /// Number of reads so far that were repetitions. They are also counted under their cause.
    fn retries(&self) -> u64 {
        0
    }

    /// Stress of `block` since its erase, if read retries are modelled.
    fn stress(&self, _block: BlockId) -> Option<Stress> {
        None
    }

    /// Number of snapshots of planned power cuts that have not been taken yet.
    fn snapshots(&self) -> usize {
        0
    }

    /// Asks the processor to bring the out-of-band records that start at `ppa` into its cache.
    fn prefetch_oob(&self, _ppa: Ppa) {}

    /// Why the medium can keep or give back data no more: a full disk, a read error, damage. From then
    /// on it keeps nothing and reads as zeros, so whoever answers the host must ask this before it
    /// reports any command as done.
    fn failure(&self) -> Option<&str> {
        None
    }

    /// Makes stored data, and the time under power until `now`, survive a power loss of the host computer, where the
    /// medium can.
    fn sync(&mut self, _now: SimTime) {}

    /// Virtual time under power before the medium was opened, in ns, until its last [`Nand::sync`]; 0 of a medium that
    /// keeps none.
    fn earlier_power_on_ns(&self) -> u64 {
        0
    }

    /// Hands over the flag by which the simulation of this flash, and of all that is built on it, is asked to end. Copies
    /// of the flash, and what a power cut leaves of it, share the flag.
    fn set_stop(&mut self, _stop: StopFlag) {}

    /// True if the simulation is to end: whoever works on this flash gives up as soon as it can.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Checks a programmed page against its out-of-band record, where the medium keeps one: `Err` names the difference.
/// Pages of the drive's own tables, and those of half-erased blocks, are taken as they are.
pub fn verify_page<N: Nand>(nand: &N, ppn: Ppn) -> Result<(), String> {
    let geometry = nand.geometry();
    if nand.block(geometry.block_of_page(ppn)).half_erased {
        return Ok(());
    }
    let Some(record) = nand.record(ppn) else { return Ok(()) };
    let first = geometry.first_unit_of_page(ppn);
    let units: Vec<Unit<N::Payload>> = (0..geometry.units_per_page())
        .map(|slot| first.plus(slot))
        .filter_map(|ppa| nand.lpn(ppa).map(|lpn| Unit { lpn, payload: nand.payload(ppa) }))
        .collect();
    let checksum = page_checksum(&units);
    if checksum == record.checksum {
        return Ok(());
    }
    Err(format!("page {ppn}: checksum {checksum:08x}, out-of-band area says {:08x}", record.checksum))
}
