//! The drive itself: commands in, completion times out.

use strobe_ftl::{CheckError, FtlError, MappingScheme, WearSummary};
use strobe_nand::{Nand, Payload, Unit};
use strobe_types::{Geometry, Lba, Lpn, Op, Request, SECTOR_BYTES, SimTime};

use crate::buffer::WriteBuffer;
use crate::command::{Command, CommandError, CommandKind, Range};
use crate::controller::Controller;
use crate::queue::HostQueue;
use crate::stats::{DriveStats, HostCounts, Latency};
use crate::{ControllerConfig, LimitsConfig};

/// A drive: controller and write buffer over a mapping scheme.
#[derive(Clone, Debug)]
pub struct Drive<F: MappingScheme> {
    pub(crate) ftl: F,
    pub(crate) geometry: Geometry,
    pub(crate) controller: Controller,
    pub(crate) buffer: Option<WriteBuffer<F::Payload>>,
    pub(crate) limits: LimitsConfig,
    pub(crate) drive_sectors: u64,
    pub(crate) host: HostCounts,
    latency: Latency,
    /// Content of the last write whose data nobody supplied.
    pub(crate) stamp: u64,
    /// What the command at hand is about to write.
    pub(crate) units: Vec<Unit<F::Payload>>,
    read: Vec<F::Payload>,
}

/// A drive whose policy, timing and medium were chosen at run time.
///
/// One virtual call per batch; inside, everything is static.
pub trait Engine: Send {
    /// Runs `requests` in order, paced by `queue`; `arrivals` are their own times in open loop
    /// (as many as requests), else empty. Stops at the first error, which carries the index of
    /// the failing request.
    fn run(
        &mut self,
        requests: &[Request],
        arrivals: &[SimTime],
        queue: &mut HostQueue,
    ) -> Result<(), (usize, CommandError)>;

    /// Executes one command issued at `now`; returns its completion time. See [`Drive::command`].
    fn command(&mut self, now: SimTime, command: &Command<'_>) -> Result<SimTime, CommandError>;

    /// The largest commands that [`Engine::command`] takes.
    fn limits(&self) -> LimitsConfig;

    /// Writes back what the write buffer holds, without a host command; returns when all flash
    /// operations issued so far are complete.
    fn settle(&mut self, now: SimTime) -> Result<SimTime, CommandError>;

    /// Sectors of 512 bytes offered to the host.
    fn sectors(&self) -> u64;

    /// The shape of the flash.
    fn geometry(&self) -> &Geometry;

    /// Logical mapping units offered to the host.
    fn logical_units(&self) -> u32;

    /// Logical mapping units that hold data on flash.
    fn mapped_units(&self) -> u32;

    /// Erased blocks at hand.
    fn free_blocks(&self) -> u32;

    /// All counters since the drive was built.
    fn stats(&self) -> DriveStats;

    /// Latencies since the last [`Engine::clear_latency`]. Those of copies and of write zeroes are not
    /// kept.
    fn latency(&self) -> &Latency;

    /// Starts a new latency window.
    fn clear_latency(&mut self);

    /// Erase counts and bad blocks.
    fn wear(&self) -> WearSummary;

    /// Runs the whole-state checker.
    fn check(&self) -> Result<(), CheckError>;

    /// An independent copy of the whole drive as it is now.
    fn freeze(&self) -> Box<dyn Engine>;
}

/// Requests ahead for which the map entry, then the rest, is fetched into the cache.
const ENTRY_AHEAD: usize = 24;
const STATE_AHEAD: usize = 10;

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
            buffer,
            limits: controller.limits,
            host: HostCounts::default(),
            latency: Latency::new(),
            stamp: 0,
            units: Vec::new(),
            read: Vec::new(),
            geometry,
            ftl,
        }
    }

    /// The mapping scheme, for inspection.
    pub fn ftl(&self) -> &F {
        &self.ftl
    }

    /// Executes one request issued at `now`; returns its completion time. Writes store content
    /// made from a running stamp.
    #[inline(always)]
    pub fn execute(&mut self, now: SimTime, request: Request) -> Result<SimTime, CommandError> {
        match request.op {
            Op::Write => {
                self.stamp += 1;
                let payload = F::Payload::synthetic(self.stamp, self.geometry.unit_bytes());
                let result = self.write(now, request.lba, request.sectors, |_| payload.clone());
                if let Err(CommandError::Empty { .. } | CommandError::OutOfRange { .. }) = result {
                    self.stamp -= 1; // a refused command leaves no trace
                }
                result
            }
            Op::Read => self.read(now, request.lba, request.sectors),
            Op::Trim => self.trim(now, request.lba, request.sectors),
            Op::Flush => self.flush_command(now),
        }
    }

    #[inline(always)]
    pub(crate) fn check_range(&self, op: CommandKind, lba: Lba, sectors: u32) -> Result<(), CommandError> {
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

    /// Takes up a command that brings `bytes` along; returns when they have arrived.
    #[inline(always)]
    pub(crate) fn receive(&mut self, now: SimTime, bytes: u64) -> SimTime {
        if !<F::Nand as Nand>::TIMED {
            return now;
        }
        let accepted = self.controller.accept(now, 1);
        self.controller.receive(accepted, bytes)
    }

    /// Writes `sectors` sectors; `content` gives the new content of each mapping unit, of which
    /// only the sectors inside the range are used.
    #[inline(always)]
    pub fn write(
        &mut self,
        now: SimTime,
        lba: Lba,
        sectors: u32,
        content: impl Fn(Lpn) -> F::Payload,
    ) -> Result<SimTime, CommandError> {
        self.check_range(CommandKind::Write, lba, sectors)?;
        let bytes = u64::from(sectors) * SECTOR_BYTES;
        let received = self.receive(now, bytes);
        let per_unit = self.geometry.sectors_per_unit();
        let aligned = lba.get() & u64::from(per_unit - 1) == 0;
        // The common case, one whole unit and no buffer, without detours.
        let done = if sectors == per_unit && aligned && self.buffer.is_none() {
            let lpn = self.geometry.lpn_of(lba);
            let done = self.ftl.write(received, &[Unit { lpn, payload: content(lpn) }])?;
            self.host.units_written += 1;
            done
        } else {
            self.write_units(received, lba, sectors, content)?
        };
        self.host.add(CommandKind::Write, bytes);
        Ok(done)
    }

    pub(crate) fn write_units(
        &mut self,
        now: SimTime,
        lba: Lba,
        sectors: u32,
        content: impl Fn(Lpn) -> F::Payload,
    ) -> Result<SimTime, CommandError> {
        self.units.clear();
        let ready = self.gather(now, lba, sectors, content);
        Ok(self.store(now, ready)?)
    }

    /// Adds the mapping units of a write to those about to be written, partial ones merged with what
    /// they hold; returns when that is at hand.
    pub(crate) fn gather(
        &mut self,
        now: SimTime,
        lba: Lba,
        sectors: u32,
        content: impl Fn(Lpn) -> F::Payload,
    ) -> SimTime {
        let mut ready = now;
        for (lpn, first, count) in split(&self.geometry, lba, sectors) {
            let mut payload = content(lpn);
            if count < self.geometry.sectors_per_unit() {
                self.host.read_modify_writes += 1;
                let (old, arrived) = self.current(now, lpn);
                payload = old.merge(&payload, first, count, self.geometry.unit_bytes());
                ready = ready.max(arrived);
            }
            self.units.push(Unit { lpn, payload });
        }
        ready
    }

    /// Writes the units gathered. What the host sent is there at `now`, everything at `ready`.
    pub(crate) fn store(&mut self, now: SimTime, ready: SimTime) -> Result<SimTime, FtlError> {
        let Some(buffer) = &mut self.buffer else { return self.store_on_flash(ready) };
        // The host's part is safe in the buffer; only the write-back waits for the rest.
        buffer.merge_until(ready);
        self.units.drain(..).try_fold(now, |at, unit| {
            let at = buffer.put(at, unit.lpn, unit.payload, &mut self.ftl)?;
            self.host.units_written += 1;
            Ok(at)
        })
    }

    /// Writes the units gathered past the buffer.
    pub(crate) fn store_on_flash(&mut self, ready: SimTime) -> Result<SimTime, FtlError> {
        let before = self.ftl.host_units_written();
        let done = self.ftl.write(ready, &self.units);
        self.host.units_written += self.ftl.host_units_written() - before;
        done
    }

    /// The current content of a unit and when it is at hand.
    pub(crate) fn current(&mut self, now: SimTime, lpn: Lpn) -> (F::Payload, SimTime) {
        if let Some(payload) = self.buffer.as_ref().and_then(|buffer| buffer.get(lpn)) {
            return (payload.clone(), now);
        }
        self.read.clear();
        let arrived = self.ftl.read(now, lpn, 1, &mut self.read);
        (self.read.pop().unwrap_or_else(F::Payload::zero), arrived)
    }

    /// Reads `sectors` sectors; their content, unit by unit, is in [`Drive::last_read`] then.
    pub fn read(&mut self, now: SimTime, lba: Lba, sectors: u32) -> Result<SimTime, CommandError> {
        self.check_range(CommandKind::Read, lba, sectors)?;
        let accepted = self.controller.accept(now, 1);
        let first = self.geometry.lpn_of(lba);
        let last = self.geometry.lpn_of(lba.plus(u64::from(sectors) - 1));
        let count = last.get() - first.get() + 1;
        self.read.clear();
        let mut arrived = accepted;
        match &self.buffer {
            Some(buffer) if buffer.dirty_units() > 0 => {
                // Runs of units that are not in the buffer come from flash together.
                let mut lpn = first;
                while lpn <= last {
                    if let Some(payload) = buffer.get(lpn) {
                        self.read.push(payload.clone());
                        lpn = lpn.plus(1);
                        continue;
                    }
                    let mut run = 1;
                    while lpn.plus(run) <= last && buffer.get(lpn.plus(run)).is_none() {
                        run += 1;
                    }
                    arrived = arrived.max(self.ftl.read(accepted, lpn, run, &mut self.read));
                    lpn = lpn.plus(run);
                }
            }
            _ => arrived = self.ftl.read(accepted, first, count, &mut self.read),
        }
        let bytes = u64::from(sectors) * SECTOR_BYTES;
        self.host.add(CommandKind::Read, bytes);
        Ok(self.controller.send(arrived, bytes))
    }

    /// Content of the units that the last [`Drive::read`] covered.
    pub fn last_read(&self) -> &[F::Payload] {
        &self.read
    }

    /// Deallocates the whole mapping units inside the range; partial ones at its ends keep their
    /// data, as NVMe and ATA allow.
    pub fn trim(&mut self, now: SimTime, lba: Lba, sectors: u32) -> Result<SimTime, CommandError> {
        self.check_range(CommandKind::Trim, lba, sectors)?;
        Ok(self.discard(now, &[Range::new(lba, sectors)])?)
    }

    pub(crate) fn flush_command(&mut self, now: SimTime) -> Result<SimTime, CommandError> {
        let accepted = self.controller.accept(now, 0);
        let written = match &mut self.buffer {
            Some(buffer) => buffer.flush(accepted, &mut self.ftl)?,
            None => accepted,
        };
        let done = self.ftl.flush(written)?;
        self.host.add(CommandKind::Flush, 0);
        Ok(done)
    }

    #[inline(always)]
    fn prefetch(&self, requests: &[Request], at: usize) {
        if let Some(ahead) = requests.get(at + ENTRY_AHEAD) {
            self.ftl.prefetch_entry(self.geometry.lpn_of(ahead.lba));
        }
        if let Some(ahead) = requests.get(at + STATE_AHEAD)
            && ahead.op == Op::Write
        {
            self.ftl.prefetch_state(self.geometry.lpn_of(ahead.lba));
        }
    }

    /// Whether writes of several commands may be handed to the mapping scheme together: when
    /// nothing but counts can tell the difference.
    fn can_gather(&self) -> bool {
        !<F::Nand as Nand>::TIMED && self.buffer.is_none() && self.geometry.units_per_page() == 1
    }

    /// Executes the whole-unit writes at the front of `requests` in one go; returns how many.
    fn run_gathered(&mut self, requests: &[Request]) -> Result<usize, (usize, CommandError)> {
        let per_unit = self.geometry.sectors_per_unit();
        let mut units = std::mem::take(&mut self.units);
        units.clear();
        for request in requests {
            let lba = request.lba.get();
            let whole =
                request.op == Op::Write && request.sectors == per_unit && lba % u64::from(per_unit) == 0;
            if !whole || lba >= self.drive_sectors {
                break;
            }
            self.stamp += 1;
            let payload = F::Payload::synthetic(self.stamp, self.geometry.unit_bytes());
            units.push(Unit { lpn: self.geometry.lpn_of(request.lba), payload });
        }
        if units.is_empty() {
            self.units = units;
            return Ok(0);
        }
        let before = self.ftl.host_units_written();
        let result = self.ftl.write(SimTime::ZERO, &units);
        let written = self.ftl.host_units_written() - before;
        self.host.units_written += written;
        self.host.add_many(CommandKind::Write, written, written * u64::from(self.geometry.unit_bytes()));
        let gathered = units.len();
        self.units = units;
        match result {
            Ok(_) => Ok(gathered),
            Err(error) => {
                // As if the requests after the failing one had not been looked at.
                self.stamp -= gathered as u64 - written - 1;
                Err((written as usize, error.into()))
            }
        }
    }
}

/// The mapping units that a sector range touches: each with its first sector within the unit and
/// how many sectors of it are meant.
fn split(geometry: &Geometry, lba: Lba, sectors: u32) -> impl Iterator<Item = (Lpn, u32, u32)> + use<> {
    let per_unit = u64::from(geometry.sectors_per_unit());
    let (start, end) = (lba.get(), lba.get() + u64::from(sectors));
    (start / per_unit..end.div_ceil(per_unit)).map(move |unit| {
        let from = start.max(unit * per_unit);
        let upto = end.min((unit + 1) * per_unit);
        (Lpn::new(unit as u32), (from - unit * per_unit) as u32, (upto - from) as u32)
    })
}

impl<F> Engine for Drive<F>
where
    F: MappingScheme + Clone + Send + 'static,
{
    fn run(
        &mut self,
        requests: &[Request],
        arrivals: &[SimTime],
        queue: &mut HostQueue,
    ) -> Result<(), (usize, CommandError)> {
        let gather = self.can_gather();
        let mut at = 0;
        while let Some(&request) = requests.get(at) {
            if gather && request.op == Op::Write {
                let done = self.run_gathered(&requests[at..]).map_err(|(n, e)| (at + n, e))?;
                at += done;
                if done > 0 {
                    continue;
                }
            }
            self.prefetch(requests, at);
            if <F::Nand as Nand>::TIMED {
                let issued = queue.issue(arrivals.get(at).copied());
                let done = self.execute(issued, request).map_err(|e| (at, e))?;
                self.latency.record(request.op, done.since(issued));
                queue.complete(done);
            } else {
                self.execute(SimTime::ZERO, request).map_err(|e| (at, e))?;
            }
            at += 1;
        }
        Ok(())
    }

    fn command(&mut self, now: SimTime, command: &Command<'_>) -> Result<SimTime, CommandError> {
        let done = Self::command(self, now, command)?;
        if <F::Nand as Nand>::TIMED
            && let Some(op) = command.kind().op()
        {
            self.latency.record(op, done.since(now));
        }
        Ok(done)
    }

    fn limits(&self) -> LimitsConfig {
        self.limits
    }

    fn settle(&mut self, now: SimTime) -> Result<SimTime, CommandError> {
        let written = match &mut self.buffer {
            Some(buffer) => buffer.flush(now, &mut self.ftl)?,
            None => now,
        };
        Ok(written.max(self.ftl.idle_at()))
    }

    fn sectors(&self) -> u64 {
        self.drive_sectors
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn logical_units(&self) -> u32 {
        self.ftl.logical_units()
    }

    fn mapped_units(&self) -> u32 {
        self.ftl.mapped_units()
    }

    fn free_blocks(&self) -> u32 {
        self.ftl.free_blocks()
    }

    fn stats(&self) -> DriveStats {
        DriveStats { host: self.host, nand: self.ftl.nand().counts().clone(), gc: *self.ftl.gc_stats() }
    }

    fn latency(&self) -> &Latency {
        &self.latency
    }

    fn clear_latency(&mut self) {
        self.latency.clear();
    }

    fn wear(&self) -> WearSummary {
        self.ftl.wear()
    }

    fn check(&self) -> Result<(), CheckError> {
        self.ftl.check()
    }

    fn freeze(&self) -> Box<dyn Engine> {
        Box::new(self.clone())
    }
}
