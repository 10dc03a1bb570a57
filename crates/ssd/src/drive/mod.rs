//! The drive: the path of a command.
//!
//! 1. `work` checks the command.
//! 2. `accept` delays its start: firmware, link, throttle.
//! 3. `begin` executes it; `resume` continues a stalled or draining command.
//! 4. `done` completes it after its flash operations; `take_completion` counts it.

mod batch;
mod copy;
mod device;
mod events;
mod faults;
mod idle;
mod in_flight;
mod inspect;
mod log;
mod planned;
mod read;
mod simulated;
mod state;
mod trim;
mod write;

use strobe_ftl::{Inspectable, MappingScheme};
use strobe_nand::{Nand, NandOp, OpCounts, Payload, Unit, When};
use strobe_types::{Geometry, Lba, Lpn, Request, SECTOR_BYTES, SimTime};

use self::events::Events;
use self::in_flight::{Content, InFlightTable, Work};
use self::planned::Planned;
pub(crate) use self::planned::{Fault, FaultPlace};
use self::simulated::Plan;
use crate::buffer::WriteBuffer;
use crate::command::{Command, CommandKind, DataTag, Range};
use crate::config::ControllerConfig;
use crate::controller::Controller;
use crate::error::CommandError;
use crate::latency::Latency;
use crate::limits::LimitsConfig;
use crate::nvram::Nvram;
use crate::oracle::Oracle;
use crate::stats::{HostCounts, StallStats, Tally};

/// A drive: controller and write caches over a mapping scheme. It implements [`Device`](crate::Device),
/// [`Inspect`](crate::Inspect) and [`Simulated`](crate::Simulated).
#[derive(Clone, Debug)]
pub struct Drive<F: MappingScheme> {
    ftl: F,
    geometry: Geometry,
    controller: Controller,
    /// Non-volatile write cache. The write buffer holds no unit that this cache holds.
    nvram: Option<Nvram<F::Payload>>,
    buffer: Option<WriteBuffer<F::Payload>>,
    write_cache: bool,
    limits: LimitsConfig,
    drive_sectors: u64,
    host: HostCounts,
    /// Counts of the running command since its last start or resumption.
    tally: Tally,
    stalls: StallStats,
    latency: Latency,
    is_timed: bool,
    /// Time without commands until the host counts as idle; `None` if the mapping scheme does not use idle
    /// time.
    idle_after_ns: Option<u64>,
    /// Number of the last write without supplied data; its content derives from the number.
    stamp: u64,
    units: Vec<Unit<F::Payload>>,
    read: Vec<F::Payload>,
    in_flight: InFlightTable<F::Payload>,
    events: Events,
    batches: u32,
    power: Option<Box<Plan<F::Payload>>>,
    oracle: Option<Box<Oracle<F::Payload>>>,
    before: OpCounts,
    faults: Planned,
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
            in_flight: InFlightTable::default(),
            events: Events::default(),
            batches: 0,
            power: None,
            oracle: None,
            before: OpCounts::default(),
            faults: Planned::default(),
            geometry,
            ftl,
        }
    }

    /// A drive over used flash; its counters exclude `before`, the operations so far.
    pub(crate) fn reopened(ftl: F, controller: &ControllerConfig, before: OpCounts) -> Self
    where
        F: Inspectable,
    {
        // Stamps must differ from the stamps that earlier sessions wrote.
        let stamp = before.total(NandOp::Program) << 20;
        let mut drive = Self { before, stamp, ..Self::new(ftl, controller) };
        if let Some(nvram) = &mut drive.nvram {
            // The boot sector on flash tells the policy `fat` where the file system keeps its metadata.
            let mut first = vec![0; drive.geometry.unit_bytes() as usize];
            drive.ftl.peek(Lpn::new(0)).copy_to(&mut first);
            nvram.learn(&first, &drive.geometry);
        }
        drive
    }

    /// This drive with jitter derived from `seed`. The default seed is 1.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.controller.seed(seed);
        self
    }

    /// This drive with `nvram`, the cache after a power cut, if
    /// [`Simulated::restart`](crate::Simulated::restart) does not recover the mapping scheme.
    #[must_use]
    pub fn with_nvram(self, nvram: Nvram<F::Payload>) -> Self {
        Self { nvram: Some(nvram), ..self }
    }

    /// The mapping scheme, for inspection.
    pub fn ftl(&self) -> &F {
        &self.ftl
    }

    /// The non-volatile write cache, if any. Without timing, a copy made before a command is valid after a
    /// power cut at any point of that command.
    pub fn nvram(&self) -> Option<&Nvram<F::Payload>> {
        self.nvram.as_ref()
    }

    /// Contents of the units that the last read covered.
    pub fn last_read(&self) -> &[F::Payload] {
        &self.read
    }
}

enum Progress {
    Done(When),
    /// The write waits for a cache slot or free flash space, in order of arrival.
    Stalled,
    /// The command waits for the write-back of buffered units.
    Draining,
}

type Step = Result<Progress, CommandError>;

impl<F: Inspectable> Drive<F> {
    fn work(&mut self, command: &Command<'_>, data: Option<&[u8]>) -> Result<Work<F::Payload>, CommandError> {
        Ok(match (*command, data) {
            (Command::Write { range, fua, tag }, data) => {
                let content = match data {
                    Some(data) => Content::Bytes(self.checked_data(range, data)?),
                    None => Content::Same(F::Payload::zero()),
                };
                self.check_range(CommandKind::Write, range.lba, range.sectors)?;
                self.check_handle(tag)?;
                // Only a valid command takes a stamp, so a rejected one leaves no trace.
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

    #[inline(always)]
    fn check_handle(&self, DataTag { handle, .. }: DataTag) -> Result<(), CommandError> {
        if handle == 0 || handle < self.ftl.handles() {
            return Ok(());
        }
        Err(CommandError::NoSuchHandle { handle, handles: self.ftl.handles() })
    }

    /// The configured limits of trims do not apply to requests.
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

    #[inline(always)]
    fn accept(&mut self, now: SimTime, work: &Work<F::Payload>) -> SimTime {
        let per_unit = self.geometry.sectors_per_unit();
        match work {
            Work::Read { .. } | Work::WriteZeroes { .. } => self.controller.accept(now, 1),
            // Without timing, a write skips the controller model.
            Work::Write { .. } if !self.is_timed() => now,
            Work::Write { range, .. } => {
                let accepted = self.controller.accept(now, 1);
                let received = self.controller.receive(accepted, range.bytes());
                self.controller.throttle(received)
            }
            Work::Flush => self.controller.accept(now, 0),
            Work::Deallocate(ranges) => self.controller.accept_trim(now, ranges, per_unit),
            Work::Copy { sources, .. } => self.controller.accept(now, sources.len() as u64),
        }
    }

    /// Starts or resumes a command, after snapshots for power cuts, a check of the medium and due faults.
    /// Then informs the oracle.
    fn carry_out(&mut self, slot: u32) -> Step {
        self.begin_command();
        self.check_medium()?;
        self.bring_faults();
        self.log().serve(Some(slot));
        let entry = self.in_flight.get(slot);
        let is_first = !std::mem::replace(&mut entry.has_begun, true);
        // The work is moved out of the table, because executing it borrows the whole drive.
        let empty = Work::Read { range: Range::new(Lba::new(0), 0) };
        let mut work = std::mem::replace(&mut entry.work, empty);
        self.tally = if is_first { self.covered(&work) } else { Tally::default() };
        let step = if is_first { self.begin(slot, &mut work) } else { self.resume(slot, &work) };
        self.record(&work.as_command());
        // At completion, the oracle takes changes up to `seen` as durable. Later changes are not covered:
        // writes by overlapping commands, and units that this write stores after a stall.
        if self.oracle.is_some() && is_first {
            self.in_flight.get(slot).seen = self.seen();
        }
        let tally = std::mem::take(&mut self.tally);
        let entry = self.in_flight.get(slot);
        entry.work = work;
        entry.tally = entry.tally.and(&tally);
        self.log().serve(None);
        // The medium may have failed during this step.
        self.check_medium()?;
        step
    }

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
                self.in_flight.get(slot).result = Ok(self.bytes_read(*range));
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
            // Without a write cache the host sends no flushes, so completed commands must be durable.
            self.in_flight.get(slot).done = done;
            self.drain(slot)
        } else {
            Ok(Progress::Done(done))
        }
    }

    fn resume(&mut self, slot: u32, work: &Work<F::Payload>) -> Step {
        // Only writes stall. All other resumed commands wait for the write buffer to drain.
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

    /// Rejects data of the wrong length, or any data if the drive stores none.
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

    #[inline(always)]
    fn at_once(&self) -> When {
        When::At(self.events.now())
    }
}

impl<F: MappingScheme> Drive<F> {
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

    /// True if timing is enabled; a compile-time constant for types without timing.
    #[inline(always)]
    fn is_timed(&self) -> bool {
        <F::Nand as Nand>::TIMED && self.is_timed
    }

    #[inline(always)]
    fn has_cache(&self) -> bool {
        self.buffer.is_some() || self.nvram.is_some()
    }
}
