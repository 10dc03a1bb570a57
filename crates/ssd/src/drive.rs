//! The drive itself: commands in, completion times out.

use strobe_ftl::{
    CheckError, FtlError, Inspectable, MappingScheme, Recoverable, Recovery, RecoveryError, WearSummary,
};
use strobe_nand::{Cause, Nand, NandOp, OpCounts, Payload, Unit};
use strobe_types::{Geometry, Lba, Lpn, Op, Request, SECTOR_BYTES, SimTime};

use crate::buffer::WriteBuffer;
use crate::command::{Command, CommandError, CommandKind, Hint, Range};
use crate::controller::Controller;
use crate::nvram::Nvram;
use crate::power::PlannedCut;
use crate::queue::HostQueue;
use crate::stats::{DriveStats, HostCounts, Latency};
use crate::witness::{Verdict, Witness};
use crate::{ControllerConfig, LimitsConfig};

/// A drive: controller and write caches over a mapping scheme.
#[derive(Clone, Debug)]
pub struct Drive<F: MappingScheme> {
    pub(crate) ftl: F,
    pub(crate) geometry: Geometry,
    pub(crate) controller: Controller,
    /// In front of the buffer: while it holds a unit, the buffer does not.
    pub(crate) nvram: Option<Nvram<F::Payload>>,
    pub(crate) buffer: Option<WriteBuffer<F::Payload>>,
    pub(crate) limits: LimitsConfig,
    pub(crate) drive_sectors: u64,
    pub(crate) host: HostCounts,
    pub(crate) latency: Latency,
    pub(crate) is_timed: bool,
    /// Content of the last write whose data nobody supplied.
    pub(crate) stamp: u64,
    /// What the command at hand is about to write.
    pub(crate) units: Vec<Unit<F::Payload>>,
    pub(crate) read: Vec<F::Payload>,
    pub(crate) power: Option<Box<PlannedCut<F::Payload>>>,
    pub(crate) witness: Option<Box<Witness<F::Payload>>>,
    /// What flash had done before the drive was built on it.
    pub(crate) before: OpCounts,
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

    /// [`Engine::command`] with the data of a write, or with room for that of a read. See
    /// [`Drive::command_bytes`].
    fn command_bytes(
        &mut self,
        now: SimTime,
        command: &Command<'_>,
        data: &mut [u8],
    ) -> Result<SimTime, CommandError>;

    /// The largest commands that [`Engine::command`] takes.
    fn limits(&self) -> LimitsConfig;

    /// Writes back what the write buffer holds, without a host command, and syncs the image if there is
    /// one; returns when all flash operations issued so far are complete. What the non-volatile cache
    /// holds stays there.
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

    /// All counters since the drive was built, or its image opened.
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

    /// Why the medium below has failed, if it has: then every command is refused.
    fn failure(&self) -> Option<&str>;

    /// Flash programs and erases since the drive was built: what power cuts are numbered by.
    fn operations(&self) -> u64;

    /// Cuts power during flash operation `operation`; later ones only, not one that is done. See
    /// [`Drive::plan_cut`].
    fn plan_cut(&mut self, operation: u64);

    /// Whether the cut planned last has happened.
    fn was_cut(&self) -> bool;

    /// Keeps account of what every unit may read as after a power cut. See [`Drive::watch`].
    fn watch(&mut self);

    /// Whether the drive reads as it may. See [`Drive::verify`].
    fn verify(&mut self) -> Option<Verdict>;

    /// The drive when power is back at `now`. See [`Drive::restart`].
    fn restart(self: Box<Self>, now: SimTime) -> Result<(Box<dyn Engine>, Recovery), RecoveryError>;
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
            nvram: Nvram::new(&controller.nvram, &geometry),
            buffer,
            limits: controller.limits,
            host: HostCounts::default(),
            latency: Latency::new(),
            is_timed: ftl.nand().is_timed(),
            stamp: 0,
            units: Vec::new(),
            read: Vec::new(),
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

    /// Refuses to go on once what keeps the stored data has failed.
    #[inline(always)]
    pub(crate) fn check_medium(&self) -> Result<(), CommandError> {
        match self.ftl.nand().failure() {
            None => Ok(()),
            Some(reason) => Err(CommandError::Medium(reason.to_owned())),
        }
    }

    /// Executes a command, which counts as done only if the medium has not failed meanwhile.
    #[inline(always)]
    pub(crate) fn on_medium<T>(
        &mut self,
        command: impl FnOnce(&mut Self) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        self.check_medium()?;
        let result = command(self);
        self.check_medium()?;
        result
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

    /// Whether times mean anything. Where the type says no, this is known when the program is compiled.
    #[inline(always)]
    fn is_timed(&self) -> bool {
        <F::Nand as Nand>::TIMED && self.is_timed
    }

    /// Takes up a command that brings `bytes` along; returns when they have arrived.
    #[inline(always)]
    pub(crate) fn receive(&mut self, now: SimTime, bytes: u64) -> SimTime {
        if !self.is_timed() {
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
        self.write_hinted(now, Range::new(lba, sectors), Hint::None, content)
    }

    #[inline(always)]
    pub(crate) fn write_hinted(
        &mut self,
        now: SimTime,
        Range { lba, sectors }: Range,
        hint: Hint,
        content: impl Fn(Lpn) -> F::Payload,
    ) -> Result<SimTime, CommandError> {
        self.check_range(CommandKind::Write, lba, sectors)?;
        let bytes = u64::from(sectors) * SECTOR_BYTES;
        let received = self.receive(now, bytes);
        let per_unit = self.geometry.sectors_per_unit();
        let aligned = lba.get() & u64::from(per_unit - 1) == 0;
        // The common case, one whole unit and no cache, without detours.
        let done = if sectors == per_unit && aligned && !self.has_cache() {
            let lpn = self.geometry.lpn_of(lba);
            let done = self.ftl.write(received, &[Unit { lpn, payload: content(lpn) }], Cause::Host)?;
            self.host.units_written += 1;
            done
        } else {
            self.write_units(received, Range::new(lba, sectors), hint, content)?
        };
        self.host.add(CommandKind::Write, bytes);
        Ok(done)
    }

    pub(crate) fn write_units(
        &mut self,
        now: SimTime,
        Range { lba, sectors }: Range,
        hint: Hint,
        content: impl Fn(Lpn) -> F::Payload,
    ) -> Result<SimTime, CommandError> {
        self.units.clear();
        let ready = self.gather(now, lba, sectors, content);
        Ok(self.store(now, ready, hint)?)
    }

    #[inline(always)]
    fn has_cache(&self) -> bool {
        self.buffer.is_some() || self.nvram.is_some()
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
    pub(crate) fn store(&mut self, now: SimTime, ready: SimTime, hint: Hint) -> Result<SimTime, FtlError> {
        let absorbed = self.absorb(now, ready, hint)?;
        let stored = match &mut self.buffer {
            _ if self.units.is_empty() => now,
            None => self.store_on_flash(ready)?,
            Some(buffer) => {
                // The host's part is safe in the buffer; only the write-back waits for the rest.
                buffer.merge_until(ready);
                self.units.drain(..).try_fold(now, |at, unit| {
                    let at = buffer.put(at, unit.lpn, unit.payload, &mut self.ftl)?;
                    self.host.units_written += 1;
                    Ok::<_, FtlError>(at)
                })?
            }
        };
        Ok(stored.max(absorbed))
    }

    /// Writes the units gathered past the caches.
    pub(crate) fn store_on_flash(&mut self, ready: SimTime) -> Result<SimTime, FtlError> {
        let before = self.ftl.stats().host_units_written;
        let done = self.ftl.write(ready, &self.units, Cause::Host);
        self.host.units_written += self.ftl.stats().host_units_written - before;
        done
    }

    /// The current content of a unit and when it is at hand.
    pub(crate) fn current(&mut self, now: SimTime, lpn: Lpn) -> (F::Payload, SimTime) {
        if let Some(payload) = self.nvram.as_ref().and_then(|nvram| nvram.get(lpn)) {
            return (payload, now);
        }
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
        let arrived = match self.caches_are_empty() {
            true => self.ftl.read(accepted, first, count, &mut self.read),
            false => self.read_past_caches(accepted, first, last),
        };
        let bytes = u64::from(sectors) * SECTOR_BYTES;
        self.host.add(CommandKind::Read, bytes);
        Ok(self.controller.send(arrived, bytes))
    }

    fn caches_are_empty(&self) -> bool {
        self.buffer.as_ref().is_none_or(|buffer| buffer.dirty_units() == 0)
            && self.nvram.as_ref().is_none_or(|nvram| nvram.held_units() == 0)
    }

    /// Reads the units from `first` to `last`, each from where its newest version is. Runs of units that
    /// no cache holds come from flash together.
    fn read_past_caches(&mut self, now: SimTime, first: Lpn, last: Lpn) -> SimTime {
        let mut arrived = now;
        let mut lpn = first;
        while lpn <= last {
            if let Some((payload, at)) = self.nvram.as_mut().and_then(|nvram| nvram.read(now, lpn)) {
                self.read.push(payload);
                arrived = arrived.max(at);
                lpn = lpn.plus(1);
                continue;
            }
            let buffered = |lpn| self.buffer.as_ref().and_then(|buffer| buffer.get(lpn));
            if let Some(payload) = buffered(lpn) {
                self.read.push(payload.clone());
                lpn = lpn.plus(1);
                continue;
            }
            let is_cached =
                |lpn| buffered(lpn).is_some() || self.nvram.as_ref().is_some_and(|nvram| nvram.holds(lpn));
            let mut run = 1;
            while lpn.plus(run) <= last && !is_cached(lpn.plus(run)) {
                run += 1;
            }
            arrived = arrived.max(self.ftl.read(now, lpn, run, &mut self.read));
            lpn = lpn.plus(run);
        }
        arrived
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
        let done = self.flush_map(written)?;
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
        !self.is_timed() && self.witness.is_none() && !self.has_cache() && self.geometry.units_per_page() == 1
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
        let before = self.ftl.stats().host_units_written;
        let result = self.ftl.write(SimTime::ZERO, &units, Cause::Host);
        let written = self.ftl.stats().host_units_written - before;
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
    F: Inspectable + Recoverable + Clone + Send + 'static,
    F::Nand: Clone,
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
                let result = self.run_gathered(&requests[at..]);
                self.check_medium().map_err(|e| (at, e))?;
                let done = result.map_err(|(n, e)| (at + n, e))?;
                at += done;
                if done > 0 {
                    continue;
                }
            }
            self.prefetch(requests, at);
            self.begin_command();
            if self.is_timed() {
                let issued = queue.issue(arrivals.get(at).copied());
                let result = self.on_medium(|drive| drive.execute(issued, request));
                self.witness_request(request, result.is_ok());
                let done = result.map_err(|e| (at, e))?;
                self.latency.record(request.op, done.since(issued));
                queue.complete(done);
            } else {
                let result = self.on_medium(|drive| drive.execute(SimTime::ZERO, request));
                self.witness_request(request, result.is_ok());
                result.map_err(|e| (at, e))?;
            }
            at += 1;
        }
        Ok(())
    }

    fn command(&mut self, now: SimTime, command: &Command<'_>) -> Result<SimTime, CommandError> {
        self.begin_command();
        let result = self.on_medium(|drive| Self::command(drive, now, command));
        self.witness_command(command, result.is_ok());
        let done = result?;
        if self.is_timed()
            && let Some(op) = command.kind().op()
        {
            self.latency.record(op, done.since(now));
        }
        Ok(done)
    }

    fn command_bytes(
        &mut self,
        now: SimTime,
        command: &Command<'_>,
        data: &mut [u8],
    ) -> Result<SimTime, CommandError> {
        self.begin_command();
        let result = Self::command_bytes(self, now, command, data);
        self.witness_command(command, result.is_ok());
        let done = result?;
        if self.is_timed()
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
        self.on_medium(|drive| {
            let written = match &mut drive.buffer {
                Some(buffer) => buffer.flush(now, &mut drive.ftl)?,
                None => now,
            };
            let durable = drive.flush_map(written)?;
            drive.ftl.nand_mut().sync();
            Ok(durable.max(drive.ftl.nand().idle_at()))
        })
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
        DriveStats {
            host: self.host,
            nand: self.ftl.nand().counts().since(&self.before),
            gc: self.ftl.stats().gc,
            merges: self.ftl.stats().merges,
            translation: self.ftl.stats().translation,
            copies: self.ftl.stats().copies,
            nvram: self.nvram.as_ref().map(Nvram::stats),
        }
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
        self.ftl.check()?;
        let Some(nvram) = &self.nvram else { return Ok(()) };
        nvram.check()?;
        match self.buffer.as_ref().and_then(|buffer| buffer.units().find(|&lpn| nvram.holds(lpn))) {
            None => Ok(()),
            Some(lpn) => Err(CheckError(format!("{lpn:?} is in the non-volatile cache and in the buffer"))),
        }
    }

    fn freeze(&self) -> Box<dyn Engine> {
        Box::new(self.clone())
    }

    fn failure(&self) -> Option<&str> {
        self.ftl.nand().failure()
    }

    fn operations(&self) -> u64 {
        self.ftl.nand().counts().changes()
    }

    fn plan_cut(&mut self, operation: u64) {
        Self::plan_cut(self, operation);
    }

    fn was_cut(&self) -> bool {
        Self::was_cut(self)
    }

    fn watch(&mut self) {
        Self::watch(self);
    }

    fn verify(&mut self) -> Option<Verdict> {
        Self::verify(self)
    }

    fn restart(self: Box<Self>, now: SimTime) -> Result<(Box<dyn Engine>, Recovery), RecoveryError> {
        let (drive, recovery) = Self::restart(*self, now)?;
        Ok((Box::new(drive), recovery))
    }
}
