//! The drive itself: one path for every command, from the checks to the account of what it has done.
//!
//! What a command does is in [`write`], [`read`], [`trim`] and [`copy`]; how it comes in and goes out is in [`door`],
//! what happens meanwhile, as time passes, in [`events`], what when nothing comes in [`idle`]; many requests at a time are in [`batch`]. What can be seen
//! from outside is in [`inspect`], what only a simulation can do in [`simulated`].

mod batch;
mod copy;
mod door;
mod events;
mod faults;
mod flight;
mod idle;
mod inspect;
mod log;
mod read;
mod simulated;
mod state;
mod trim;
mod write;

use strobe_ftl::{Inspectable, MappingScheme};
use strobe_nand::{Nand, NandOp, OpCounts, Payload, Unit, When};
use strobe_types::{Geometry, Lba, Lpn, Request, SECTOR_BYTES, SimTime};

use self::events::Events;
pub(crate) use self::faults::{Fault, FaultPlace};
use self::flight::{Content, Flights, Work};
use self::simulated::Plan;
use crate::buffer::WriteBuffer;
use crate::command::{Command, CommandKind, DataTag, Range};
use crate::config::ControllerConfig;
use crate::controller::Controller;
use crate::error::CommandError;
use crate::latency::Latency;
use crate::limits::LimitsConfig;
use crate::nvram::Nvram;
use crate::stats::{HostCounts, StallStats, Tally};
use crate::witness::Witness;

/// A drive: controller and write caches over a mapping scheme. Its methods are those of
/// [`Device`](crate::Device), [`Inspect`](crate::Inspect) and [`Simulated`](crate::Simulated).
#[derive(Clone, Debug)]
pub struct Drive<F: MappingScheme> {
    ftl: F,
    geometry: Geometry,
    controller: Controller,
    /// In front of the buffer: while it holds a unit, the buffer does not.
    nvram: Option<Nvram<F::Payload>>,
    buffer: Option<WriteBuffer<F::Payload>>,
    /// True if writes may wait in volatile caches once they are complete.
    write_cache: bool,
    limits: LimitsConfig,
    drive_sectors: u64,
    host: HostCounts,
    /// Work of the command at hand that has not been added to its own tally.
    tally: Tally,
    stalls: StallStats,
    latency: Latency,
    is_timed: bool,
    /// Time without a command after which the mapping scheme is told, in ns, if it wants to know.
    idle_after_ns: Option<u64>,
    /// Content of the last write whose data nobody supplied.
    stamp: u64,
    /// Units that the command at hand is about to write.
    units: Vec<Unit<F::Payload>>,
    /// Contents that the command at hand, or the one before, has read.
    read: Vec<F::Payload>,
    /// Commands that are on their way.
    flights: Flights<F::Payload>,
    events: Events,
    /// Batches so far.
    batches: u32,
    power: Option<Box<Plan<F::Payload>>>,
    witness: Option<Box<Witness<F::Payload>>>,
    /// Flash operations before the drive was built.
    before: OpCounts,
    /// Planned read errors that have not come yet.
    faults: Vec<Fault>,
}

impl<F: MappingScheme> Drive<F> {
    /// A drive with `controller` over `ftl`.
    pub fn new(ftl: F, controller: &ControllerConfig) -> Self {
        let geometry = ftl.nand().geometry().clone();
        let unit_bytes = u64::from(geometry.unit_bytes());
        let buffer_units = controller.write_buffer_bytes.div_ceil(unit_bytes) as usize;
        let buffer =
            (buffer_units > 0).then(|| WriteBuffer::new(buffer_units, geometry.units_per_page() as usize));
        Self {
            drive_sectors: u64::from(ftl.logical_units()) * u64::from(geometry.sectors_per_unit()),
            controller: Controller::new(controller),
            nvram: Nvram::new(&controller.nvram, &geometry),
            buffer,
            write_cache: true,
            limits: controller.limits,
            host: HostCounts::default(),
            tally: Tally::default(),
            stalls: StallStats::default(),
            latency: Latency::new(),
            is_timed: ftl.nand().is_timed(),
            idle_after_ns: ftl.idle_after_ns(),
            stamp: 0,
            units: Vec::new(),
            read: Vec::new(),
            flights: Flights::default(),
            events: Events::default(),
            batches: 0,
            power: None,
            witness: None,
            before: OpCounts::default(),
            faults: Vec::new(),
            geometry,
            ftl,
        }
    }

    /// A drive over `ftl`, found again on flash that had done `before` until then: that is not counted
    /// among what this drive does.
    pub(crate) fn reopened(ftl: F, controller: &ControllerConfig, before: OpCounts) -> Self
    where
        F: Inspectable,
    {
        // Content that nobody supplied should differ from that of the sessions before.
        let stamp = before.total(NandOp::Program) << 20;
        let mut drive = Self { before, stamp, ..Self::new(ftl, controller) };
        if let Some(nvram) = &mut drive.nvram {
            let mut first = vec![0; drive.geometry.unit_bytes() as usize];
            drive.ftl.peek(Lpn::new(0)).copy_to(&mut first);
            nvram.learn(&first, &drive.geometry);
        }
        drive
    }

    /// This drive with the chance of `seed`: how much the time of a command varies. Without it, that of the seed 1.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.controller.seed(seed);
        self
    }

    /// This drive with `nvram` as its non-volatile cache: what a power cut has left, over a mapping scheme that was
    /// recovered by other means than [`Simulated::restart`](crate::Simulated::restart).
    #[must_use]
    pub fn with_nvram(self, nvram: Nvram<F::Payload>) -> Self {
        Self { nvram: Some(nvram), ..self }
    }

    /// The mapping scheme, for inspection.
    pub fn ftl(&self) -> &F {
        &self.ftl
    }

    /// The non-volatile write cache, if there is one. As it was at the start of a command, it is right
    /// after a power cut anywhere inside that command.
    pub fn nvram(&self) -> Option<&Nvram<F::Payload>> {
        self.nvram.as_ref()
    }

    /// Contents of the units that the last read covered, in the medium's own terms.
    pub fn last_read(&self) -> &[F::Payload] {
        &self.read
    }
}

/// Progress of a command.
enum Progress {
    /// It is done then.
    Done(When),
    /// It waits for a place, in the order in which commands came.
    Stalled,
    /// It waits until the write buffer has been written back.
    Draining,
}

/// Progress of a command, or the error that refuses it.
type Step = Result<Progress, CommandError>;

impl<F: Inspectable> Drive<F> {
    /// Work of `command` and its data, under the current setting of the write cache. Refuses commands that
    /// cannot be done.
    fn work(&mut self, command: &Command<'_>, data: Option<&[u8]>) -> Result<Work<F::Payload>, CommandError> {
        Ok(match (*command, data) {
            (Command::Write { range, fua, tag }, data) => {
                let content = match data {
                    Some(data) => Content::Bytes(self.checked_data(range, data)?),
                    None => Content::Same(F::Payload::zero()),
                };
                self.check_range(CommandKind::Write, range.lba, range.sectors)?;
                self.check_handle(tag)?;
                let content = match content {
                    Content::Same(_) => Content::Same(self.next_stamp()),
                    bytes => bytes,
                };
                Work::Write { range, fua: fua || !self.write_cache, tag, content }
            }
            (_, Some(data)) => {
                let (op, bytes) = (command.kind(), data.len() as u64);
                return Err(CommandError::DataLength { op, sectors: 0, bytes });
            }
            (Command::Read { range }, None) => {
                self.check_range(CommandKind::Read, range.lba, range.sectors)?;
                Work::Read { range }
            }
            (Command::Flush, None) => Work::Flush,
            (Command::Deallocate(ranges), None) => {
                self.check_deallocate(ranges)?;
                Work::Deallocate(ranges.to_vec())
            }
            (Command::WriteZeroes { range, deallocate }, None) => {
                self.check_range(CommandKind::WriteZeroes, range.lba, range.sectors)?;
                Work::WriteZeroes { range, deallocate }
            }
            (Command::Copy { destination, sources }, None) => {
                self.check_copy(destination, sources)?;
                Work::Copy { destination, sources: sources.to_vec() }
            }
        })
    }

    /// Refuses a placement handle that the drive does not have.
    #[inline(always)]
    fn check_handle(&self, DataTag { handle, .. }: DataTag) -> Result<(), CommandError> {
        if handle == 0 || handle < self.ftl.handles() {
            return Ok(());
        }
        Err(CommandError::NoSuchHandle { handle, handles: self.ftl.handles() })
    }

    /// Work of a request. A trim may be larger than the commands that the drive takes.
    #[inline(always)]
    fn work_of_request(&mut self, request: Request) -> Result<Work<F::Payload>, CommandError> {
        let range = Range::new(request.lba, request.sectors);
        match request.op {
            strobe_types::Op::Write => {
                self.check_range(CommandKind::Write, range.lba, range.sectors)?;
                let tag = DataTag::placed(request.handle);
                self.check_handle(tag)?;
                let content = Content::Same(self.next_stamp());
                Ok(Work::Write { range, fua: !self.write_cache, tag, content })
            }
            strobe_types::Op::Read => {
                self.check_range(CommandKind::Read, range.lba, range.sectors)?;
                Ok(Work::Read { range })
            }
            strobe_types::Op::Trim => {
                self.check_range(CommandKind::Trim, range.lba, range.sectors)?;
                Ok(Work::Deallocate(vec![range]))
            }
            strobe_types::Op::Flush => Ok(Work::Flush),
        }
    }

    /// When the firmware, and the link for the data of a write, are done with taking up `work` at `now`.
    #[inline(always)]
    fn accept(&mut self, now: SimTime, work: &Work<F::Payload>) -> SimTime {
        let per_unit = self.geometry.sectors_per_unit();
        match work {
            Work::Read { .. } | Work::WriteZeroes { .. } => self.controller.accept(now, 1),
            Work::Write { .. } if !self.is_timed() => now,
            Work::Write { range, .. } => {
                let accepted = self.controller.accept(now, 1);
                let received = self.controller.receive(accepted, range.bytes());
                self.controller.pace(received)
            }
            Work::Flush => self.controller.accept(now, 0),
            Work::Deallocate(ranges) => self.controller.accept_trim(now, ranges, per_unit),
            Work::Copy { sources, .. } => self.controller.accept(now, sources.len() as u64),
        }
    }

    /// Does what the command in `slot` asks for, or goes on with it, as far as that is possible now. Every command
    /// takes this path, with all that goes on around it: the state that a power cut would go back to, the medium
    /// below, the account of what may be read afterwards.
    fn carry_out(&mut self, slot: u32) -> Step {
        self.begin_command();
        self.check_medium()?;
        self.bring_faults();
        self.log().serve(Some(slot));
        let flight = self.flights.get(slot);
        let is_first = !std::mem::replace(&mut flight.has_begun, true);
        let empty = Work::Read { range: Range::new(Lba::new(0), 0) };
        let mut work = std::mem::replace(&mut flight.work, empty);
        self.tally = if is_first { self.covered(&work) } else { Tally::default() };
        let step = if is_first { self.begin(slot, &mut work) } else { self.go_on(slot, &work) };
        self.note(&work.as_command());
        // What others do while it is under way is not durable when it is complete. Neither is, for the witness, what a
        // write stores after it had to wait.
        if self.witness.is_some() && is_first {
            self.flights.get(slot).seen = self.seen();
        }
        let tally = std::mem::take(&mut self.tally);
        let flight = self.flights.get(slot);
        flight.work = work;
        flight.tally = flight.tally.and(&tally);
        self.log().serve(None);
        self.check_medium()?;
        step
    }

    /// The extent of `work`: bytes and mapping units, before anything of it is done.
    fn covered(&self, work: &Work<F::Payload>) -> Tally {
        let units = |lba: Lba, sectors: u64| {
            let touched = self.geometry.units_touched(lba, sectors);
            touched.end - touched.start
        };
        let of = |bytes: u64, units_touched: u64| Tally { bytes, units_touched, ..Tally::default() };
        match work {
            Work::Read { range } | Work::Write { range, .. } | Work::WriteZeroes { range, .. } => {
                of(range.bytes(), units(range.lba, range.sectors.into()))
            }
            Work::Flush => Tally::default(),
            Work::Deallocate(ranges) => ranges.iter().fold(Tally::default(), |sum, range| {
                sum.and(&of(range.bytes(), units(range.lba, range.sectors.into())))
            }),
            Work::Copy { destination, sources } => {
                let sectors = sources.iter().map(|source| u64::from(source.sectors)).sum::<u64>();
                of(sectors * SECTOR_BYTES, units(*destination, sectors))
            }
        }
    }

    fn begin(&mut self, slot: u32, work: &mut Work<F::Payload>) -> Step {
        let now = self.events.now();
        let done = match work {
            Work::Read { range } => {
                let arrived = self.read(*range)?;
                self.flights.get(slot).result = Ok(self.bytes_read(*range));
                arrived
            }
            Work::Write { range, fua, tag, content } => {
                return self.write(slot, *range, *fua, *tag, content);
            }
            Work::Flush => return self.flush(slot),
            Work::Deallocate(ranges) => self.discard(ranges)?,
            Work::WriteZeroes { range, deallocate } => self.write_zeroes(*range, *deallocate)?,
            Work::Copy { destination, sources } => self.copy(*destination, sources)?,
        };
        let makes_durable = matches!(work, Work::WriteZeroes { .. } | Work::Copy { .. }) && !self.write_cache;
        debug_assert!(now == self.events.now());
        if makes_durable {
            // Without a write cache the host sends no flushes: then what is complete is durable.
            self.flights.get(slot).done = done;
            self.drain(slot)
        } else {
            Ok(Progress::Done(done))
        }
    }

    /// Goes on with a command that had to wait.
    fn go_on(&mut self, slot: u32, work: &Work<F::Payload>) -> Step {
        match *work {
            Work::Write { range, tag, ref content, .. } => {
                self.merge_again(slot, range, content);
                self.store_units(slot, tag)
            }
            _ => self.drain(slot),
        }
    }

    #[inline(always)]
    fn check_medium(&self) -> Result<(), CommandError> {
        match self.ftl.nand().failure() {
            None => Ok(()),
            Some(reason) => Err(CommandError::Medium(reason.to_owned())),
        }
    }

    /// The bytes of a write of `range`, if they are as many and the drive keeps them.
    fn checked_data(&self, range: Range, data: &[u8]) -> Result<Vec<u8>, CommandError> {
        if range.bytes() != data.len() as u64 {
            let (op, bytes) = (CommandKind::Write, data.len() as u64);
            return Err(CommandError::DataLength { op, sectors: range.sectors, bytes });
        }
        if !F::Payload::KEEPS_BYTES {
            return Err(CommandError::NoContent);
        }
        Ok(data.to_vec())
    }

    #[inline(always)]
    fn both(&mut self, a: When, b: When) -> When {
        self.ftl.nand_mut().both(a, b)
    }

    /// Now, for operations that wait for nothing.
    #[inline(always)]
    fn at_once(&self) -> When {
        When::At(self.events.now())
    }
}

impl<F: MappingScheme> Drive<F> {
    /// Content that no write before has stored.
    #[inline(always)]
    fn next_stamp(&mut self) -> F::Payload {
        self.stamp += 1;
        F::Payload::synthetic(self.stamp, self.geometry.unit_bytes())
    }

    #[inline(always)]
    fn check_range(&self, op: CommandKind, lba: Lba, sectors: u32) -> Result<(), CommandError> {
        if sectors != 0
            && lba.get().checked_add(u64::from(sectors)).is_some_and(|end| end <= self.drive_sectors)
        {
            return Ok(());
        }
        Err(self.range_error(op, lba, sectors))
    }

    #[cold]
    fn range_error(&self, op: CommandKind, lba: Lba, sectors: u32) -> CommandError {
        let (lba, sectors) = (lba.get(), u64::from(sectors));
        match sectors {
            0 => CommandError::Empty { op, lba },
            _ => CommandError::OutOfRange { op, lba, sectors, drive_sectors: self.drive_sectors },
        }
    }

    /// True if timing is enabled. If the type excludes timing, this is a constant at compile time.
    #[inline(always)]
    fn is_timed(&self) -> bool {
        <F::Nand as Nand>::TIMED && self.is_timed
    }

    #[inline(always)]
    fn has_cache(&self) -> bool {
        self.buffer.is_some() || self.nvram.is_some()
    }
}
