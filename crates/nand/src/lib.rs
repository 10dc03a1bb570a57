//! NAND flash: the interface for flash translation layers, and an exact model.
//!
//! [`Nand`] is the contract and [`Chip`] the model. The chip enforces the flash rules, counts every operation
//! under exactly one [`Cause`], keeps each unit's out-of-band record and wears out. A [`Timing`] schedules
//! its operations and a [`Medium`] stores its data. Both are type parameters, so a run that only counts
//! operations pays for neither.
//!
//! A violated flash rule (a page programmed twice or out of order, a bad block used) is a bug in the layer
//! above and panics. A media fault (a failed program or erase) is an `Err` that the layer above must handle.

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
pub use cut::{CutOperations, CutPlan, PowerCuts, Snapshot};
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

/// A failed page program. The page is used up and holds no data. The block must take no more programs and
/// should be retired after its valid data has been moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("program failed")]
pub struct ProgramFailed {
    /// Pages of the same call that were programmed before the one that failed.
    pub programmed: u32,
    /// Time of detection.
    pub at: When,
}

/// A failed erase. The block is bad from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("erase failed, block worn out")]
pub struct EraseFailed {
    /// Time of detection.
    pub at: When,
}

/// A drive's flash array.
///
/// **The caller promises**
///
/// - to program the pages of a block in order, unless [`Nand::takes_any_order`], each once between erases;
/// - to read the data of programmed pages only;
/// - to leave bad blocks alone;
/// - to order dependent operations by passing the result of one as `after` of the next.
///
/// **The implementer promises**
///
/// - that a page reads back exactly as programmed until its block is erased;
/// - that every operation is counted under its cause;
/// - that operations on one block keep the order of the calls as far as flash requires it (see [`Timing`]).
///
/// A call changes the visible content immediately. The change is on flash when the operation is complete; an
/// earlier power cut undoes it.
pub trait Nand {
    /// Content of a unit on this medium.
    type Payload: Payload;

    /// Timing model.
    type Timing: Timing;

    /// True if timing may be enabled. If false, the run counts operations only.
    const TIMED: bool = Self::Timing::TIMED;

    /// The timing model.
    fn timing(&self) -> &Self::Timing;

    /// The timing model. Let time pass with [`Nand::run`] instead: while a power cut is planned, the flash
    /// has to see completions.
    fn timing_mut(&mut self) -> &mut Self::Timing;

    /// True if timing is enabled. `SwitchedTiming` decides at construction.
    fn is_timed(&self) -> bool {
        self.timing().is_timed()
    }

    /// Completion of both `a` and `b`.
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

    /// Geometry of the array.
    fn geometry(&self) -> &Geometry;

    /// Flash pages that one program fills. Above 1, they form a word line, and "page" in this contract means
    /// the word line. Reads are counted and timed per flash page.
    #[inline(always)]
    fn pages_per_program(&self) -> u32 {
        1
    }

    /// Index of the flash page that holds `ppa` within its word line, from 0.
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

    /// Transfer sizes for a read of `units`, all of one page.
    #[inline]
    fn wanted(&self, units: impl ExactSizeIterator<Item = Ppa>) -> Wanted {
        if self.pages_per_program() == 1 {
            return Wanted::first(units.len() as u32);
        }
        let mut wanted = Wanted::NONE;
        units.for_each(|ppa| wanted.add(self.part_of(ppa)));
        wanted
    }

    /// Transfer sizes for a read of all units of page `ppn`.
    fn whole_page(&self, ppn: Ppn) -> Wanted {
        let first = self.geometry().first_unit_of_page(ppn);
        self.wanted((0..self.geometry().units_per_page()).map(|at| first.plus(at)))
    }

    /// Reads page `ppn`, not before `after`, and transfers the `wanted` mapping units. Returns the arrival
    /// time. The content is then available from [`Nand::lpn`] and [`Nand::payload`], except for units that
    /// could not be corrected ([`Nand::has_failed`]). Without any wanted unit, reads the out-of-band area;
    /// the page need not be programmed.
    fn read(&mut self, after: When, ppn: Ppn, wanted: Wanted, cause: Cause) -> ReadDone;

    /// Reads pages of one block in order, each with its wanted units. Returns when all have arrived.
    fn read_pages(&mut self, pages: &[(Ppn, Wanted)], cause: Cause) -> ReadDone {
        // Reads of one block are served in issue order, so the last one issued arrives last.
        pages.iter().fold(ReadDone::clean(When::START), |before, &(ppn, wanted)| {
            let done = self.read(When::START, ppn, wanted, cause);
            ReadDone { outcome: before.outcome.and(done.outcome), ..done }
        })
    }

    /// True if the data of the programmed unit at `ppa` is unreadable until its block is erased. Costs no
    /// flash time.
    fn is_lost(&self, _ppa: Ppa) -> bool {
        false
    }

    /// True if the last read could not correct the unit at `ppa`. Either the unit is lost, or the fault is
    /// transient.
    fn has_failed(&self, ppa: Ppa) -> bool {
        self.is_lost(ppa)
    }

    /// True if any unit is lost.
    #[inline(always)]
    fn has_losses(&self) -> bool {
        false
    }

    /// Loses the data of the programmed unit at `ppa`. Its out-of-band record stays readable.
    fn lose(&mut self, _ppa: Ppa, _lasts: Lasts) {}

    /// Returns the pages programmed since the last call, if that call enabled watching. `is_watched` enables
    /// or disables watching from now on.
    fn watch_programs(&mut self, _is_watched: bool) -> Vec<Ppn> {
        Vec::new()
    }

    /// Marks `lpns` as lost, in place of earlier marks. The next copy programmed of each is then lost too.
    /// The mark is part of that program.
    fn mark_next(&mut self, _lpns: impl Iterator<Item = Lpn>) {}

    /// Flash page reads so far that could not be corrected.
    fn uncorrectable(&self) -> u64 {
        0
    }

    /// Programs consecutive pages of one block, from `first` on, with a page's worth of `units` each. The
    /// last page may be padded; without any unit, one page of padding is programmed. Pages are issued
    /// together, in order. The first page gets sequence number `sequence`.
    ///
    /// Returns when the last page is on flash. On failure, pages before the failed one are programmed and
    /// pages after it are untouched.
    fn program(
        &mut self,
        after: When,
        first: Ppn,
        units: &[Unit<Self::Payload>],
        sequence: u64,
        cause: Cause,
    ) -> Result<When, ProgramFailed>;

    /// Programs page `ppn` with `bytes` of the drive's metadata, at most one page. Like [`Nand::program`] of
    /// one page, but its units belong to no logical page.
    fn program_meta(
        &mut self,
        after: When,
        ppn: Ppn,
        bytes: &[u8],
        cause: Cause,
    ) -> Result<When, ProgramFailed>;

    /// Reads a programmed metadata page. `None` if its program was cut short or failed, or if the medium
    /// keeps no data. The bytes of a lost page must not be used.
    fn read_meta(&mut self, after: When, ppn: Ppn, cause: Cause) -> (ReadDone, Option<Arc<[u8]>>);

    /// Sets the cell mode of the erased `block` until its next erase. The mode may change until the first
    /// program. Takes no time: the first program sets the mode.
    fn set_mode(&mut self, block: BlockId, mode: CellMode) {
        assert!(mode == CellMode::Normal, "flash rule broken: {block} cannot be in SLC mode");
    }

    /// Pages of a block in SLC mode; 0 if SLC mode is unavailable.
    fn slc_pages(&self) -> u32 {
        0
    }

    /// Pages of `block` in its current cell mode.
    fn pages_of(&self, block: BlockId) -> u32 {
        match self.block(block).mode {
            CellMode::Normal => self.geometry().pages_per_block(),
            CellMode::Slc => self.slc_pages(),
        }
    }

    /// Erases `block` and returns its cells to normal mode.
    fn erase(&mut self, after: When, block: BlockId, cause: Cause) -> Result<When, EraseFailed>;

    /// Takes `block` out of service after a failed program. A power cut undoes this until all operations
    /// issued before are complete.
    fn mark_bad(&mut self, block: BlockId);

    /// Logical page of a programmed unit; `None` for padding. Costs no flash time.
    fn lpn(&self, ppa: Ppa) -> Option<Lpn>;

    /// Content of a programmed unit. Costs no flash time.
    fn payload(&self, ppa: Ppa) -> Self::Payload;

    /// Out-of-band record of a programmed page; `None` if the medium keeps none. Costs no flash time.
    fn record(&self, ppn: Ppn) -> Option<OobRecord>;

    /// State of `block`.
    fn block(&self, block: BlockId) -> BlockState;

    /// True if page `ppn` has been programmed since the last erase of its block.
    fn is_programmed(&self, ppn: Ppn) -> bool {
        let block = self.block(self.geometry().block_of_page(ppn));
        self.geometry().page_in_block(ppn) < block.pages_programmed
    }

    /// True if the pages of a block may be programmed in any order.
    fn takes_any_order(&self) -> bool {
        false
    }

    /// Operations so far, by kind and cause.
    fn counts(&self) -> &OpCounts;

    /// True if the program of page `ppn` is in flight: its content is readable but not yet on flash. On chips
    /// without page order, true if any program of its block is in flight.
    #[inline(always)]
    fn is_on_its_way(&self, ppn: Ppn) -> bool {
        if !Self::TIMED {
            return false;
        }
        let place = self.geometry().place(ppn);
        // Programs of a block complete in order, so its last `ahead` pages are in flight.
        let ahead = self.timing().programs_ahead(|| place);
        let is_last = || place.page + ahead >= self.block(place.block).pages_programmed;
        ahead > 0 && (self.takes_any_order() || is_last())
    }

    /// Repeated reads so far. They are also counted under their cause.
    fn retries(&self) -> u64 {
        0
    }

    /// Stress of `block` since its erase, if read retries are modelled.
    fn stress(&self, _block: BlockId) -> Option<Stress> {
        None
    }

    /// Snapshots of planned power cuts not yet taken by the caller.
    fn snapshots(&self) -> usize {
        0
    }

    /// Prefetches the out-of-band records from `ppa` on into the processor cache.
    fn prefetch_oob(&self, _ppa: Ppa) {}

    /// Error that stopped the medium. A failed medium stores nothing and reads as zeros. Check this before
    /// reporting any command to the host as done.
    fn failure(&self) -> Option<&str> {
        None
    }

    /// Makes stored data and the power-on time until `now` survive a power loss of the host computer, if the
    /// medium can.
    fn sync(&mut self, _now: SimTime) {}

    /// Virtual power-on time before the medium was opened, in ns, as of its last [`Nand::sync`]; 0 if the
    /// medium keeps none.
    fn earlier_power_on_ns(&self) -> u64 {
        0
    }

    /// Installs the stop flag. Copies and power-cut snapshots of the flash share it.
    fn set_stop(&mut self, _stop: StopFlag) {}

    /// True if the simulation was asked to stop; users of this flash then give up as soon as they can.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Checks a programmed page against its out-of-band record, if any. Half-erased blocks and metadata pages
/// pass.
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
