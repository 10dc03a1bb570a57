//! The drive itself: one path for every command, from the checks to the account of what it has done.
//!
//! What a command does is in [`write`], [`read`], [`trim`] and [`copy`]; how it comes in and goes out is in [`door`],
//! many requests at a time in [`batch`]; what can be seen from outside in [`inspect`], and what only a simulation can
//! do in [`simulated`].

mod batch;
mod copy;
mod door;
mod inspect;
mod read;
mod simulated;
mod trim;
mod write;

use strobe_ftl::{Inspectable, MappingScheme};
use strobe_nand::{Nand, NandOp, OpCounts, Payload, Unit};
use strobe_types::{Geometry, Lba, Op, Request, SimTime};

use self::door::Pending;
use self::simulated::PlannedCut;
use crate::buffer::WriteBuffer;
use crate::command::{Command, CommandKind, Range};
use crate::config::ControllerConfig;
use crate::controller::Controller;
use crate::error::{CommandError, Completed};
use crate::limits::LimitsConfig;
use crate::nvram::Nvram;
use crate::stats::{HostCounts, Latency};
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
    /// Whether writes may wait in volatile caches once they are complete.
    write_cache: bool,
    limits: LimitsConfig,
    drive_sectors: u64,
    host: HostCounts,
    latency: Latency,
    is_timed: bool,
    /// Content of the last write whose data nobody supplied.
    stamp: u64,
    /// What the command at hand is about to write.
    units: Vec<Unit<F::Payload>>,
    /// What the command at hand, or the one before, has read.
    read: Vec<F::Payload>,
    /// Commands that are on their way.
    pending: Pending,
    power: Option<Box<PlannedCut<F::Payload>>>,
    witness: Option<Box<Witness<F::Payload>>>,
    /// What flash had done before the drive was built on it.
    before: OpCounts,
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
            latency: Latency::new(),
            is_timed: ftl.nand().is_timed(),
            stamp: 0,
            units: Vec::new(),
            read: Vec::new(),
            pending: Pending::default(),
            power: None,
            witness: None,
            before: OpCounts::default(),
            geometry,
            ftl,
        }
    }

    /// A drive over `ftl`, found again on flash that had done `before` until then: that is not counted
    /// among what this drive does.
    pub(crate) fn reopened(ftl: F, controller: &ControllerConfig, before: OpCounts) -> Self {
        // Content that nobody supplied should differ from that of the sessions before.
        let stamp = before.total(NandOp::Program) << 20;
        Self { before, stamp, ..Self::new(ftl, controller) }
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

    /// What the units hold that the last read covered, in the medium's own terms.
    pub fn last_read(&self) -> &[F::Payload] {
        &self.read
    }
}

impl<F: Inspectable> Drive<F> {
    /// Executes one command issued at `now`; returns when it is complete. Every command that does not come in a
    /// batch takes this path.
    fn perform(&mut self, now: SimTime, command: &Command<'_>, data: Option<&[u8]>) -> Completed {
        let command = &self.as_cached(command);
        let done = self.accounted(command, |drive| drive.carry_out(now, command, data))?;
        if self.is_timed()
            && let Some(op) = command.kind().op()
        {
            self.latency.record(op, done.since(now));
        }
        Ok(done)
    }

    /// Does what `command` asks for, by `work`, with all that goes on around a command: the state that a power cut
    /// would go back to, the medium below, the account of what may be read afterwards.
    #[inline(always)]
    fn accounted(&mut self, command: &Command<'_>, work: impl FnOnce(&mut Self) -> Completed) -> Completed {
        self.begin_command();
        let result = self.on_medium(work);
        self.note(command, result.is_ok());
        result
    }

    /// Executes `work`, which counts as done only if the medium has not failed before or meanwhile.
    #[inline(always)]
    fn on_medium<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        self.check_medium()?;
        let result = work(self);
        self.check_medium()?;
        result
    }

    #[inline(always)]
    fn check_medium(&self) -> Result<(), CommandError> {
        match self.ftl.nand().failure() {
            None => Ok(()),
            Some(reason) => Err(CommandError::Medium(reason.to_owned())),
        }
    }

    /// What `command` comes to with the write cache as it is.
    fn as_cached<'a>(&self, command: &Command<'a>) -> Command<'a> {
        match *command {
            Command::Write { range, fua, hint } => {
                Command::Write { range, fua: fua || !self.write_cache, hint }
            }
            other => other,
        }
    }

    fn carry_out(&mut self, now: SimTime, command: &Command<'_>, data: Option<&[u8]>) -> Completed {
        match (*command, data) {
            (Command::Write { range, fua, hint }, Some(data)) => {
                let content = self.content(range, data)?;
                self.write(now, range, fua, hint, content)
            }
            (_, Some(data)) => {
                let (op, bytes) = (command.kind(), data.len() as u64);
                Err(CommandError::DataLength { op, sectors: 0, bytes })
            }
            (Command::Write { range, fua, hint }, None) => {
                self.check_range(CommandKind::Write, range.lba, range.sectors)?;
                let payload = self.next_stamp();
                self.write(now, range, fua, hint, |_| payload.clone())
            }
            (Command::Read { range }, None) => self.read(now, range),
            (Command::Flush, None) => self.flush(now),
            (Command::Deallocate(ranges), None) => self.deallocate(now, ranges),
            (Command::WriteZeroes { range, deallocate }, None) => {
                let done = self.write_zeroes(now, range, deallocate)?;
                self.unless_cached(done)
            }
            (Command::Copy { destination, sources }, None) => {
                let done = self.copy(now, destination, sources)?;
                self.unless_cached(done)
            }
        }
    }

    /// Without a write cache the host sends no flushes: then what is complete at `now` is made durable.
    fn unless_cached(&mut self, now: SimTime) -> Completed {
        if self.write_cache { Ok(now) } else { Ok(self.make_durable(now)?) }
    }

    /// Executes one request issued at `now`; writes store content made from a running stamp.
    #[inline(always)]
    fn execute_request(&mut self, now: SimTime, request: Request) -> Completed {
        let range = Range::new(request.lba, request.sectors);
        match request.op {
            Op::Write => {
                self.check_range(CommandKind::Write, range.lba, range.sectors)?;
                let payload = self.next_stamp();
                self.write(now, range, !self.write_cache, crate::Hint::None, |_| payload.clone())
            }
            Op::Read => self.read(now, range),
            Op::Trim => self.trim(now, range),
            Op::Flush => self.flush(now),
        }
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

    /// Whether times mean anything. Where the type says no, this is known when the program is compiled.
    #[inline(always)]
    fn is_timed(&self) -> bool {
        <F::Nand as Nand>::TIMED && self.is_timed
    }

    #[inline(always)]
    fn has_cache(&self) -> bool {
        self.buffer.is_some() || self.nvram.is_some()
    }
}
