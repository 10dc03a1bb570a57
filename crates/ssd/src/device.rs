//! The device interface: host commands, inspection, and operations of a simulation.

use strobe_ftl::{BlockInfo, CheckError, Recovery, RecoveryError, WearSummary};
use strobe_nand::{Class, CutOperations, EventLog};
use strobe_types::{
    BlockId, Geometry, Lba, Lpn, Op, Request, SECTOR_BYTES, SimTime, StateError, StateReader, StateWriter,
    StopFlag,
};

use crate::command::{Command, CommandKind, DataTag, Hint, Range};
use crate::error::CommandError;
use crate::latency::Latency;
use crate::limits::LimitsConfig;
use crate::oracle::Verdict;
use crate::queue::HostQueue;
use crate::stats::{DriveStats, HostCounts, ReclaimUnits};

/// A completed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Tag given at submission.
    pub tag: u64,
    /// Completion time; the submission time if rejected at submission.
    pub at: SimTime,
    /// Kind of the command; [`CommandKind::Flush`] if rejected at submission.
    pub kind: CommandKind,
    /// Submission time.
    pub issued: SimTime,
    /// Bytes covered, as in [`HostCounts::bytes`]; 0 if rejected at submission.
    pub bytes: u64,
    /// Data of a read (empty if the drive stores none), or the error.
    pub result: Result<Vec<u8>, CommandError>,
}

impl Completion {
    /// True if the command was rejected; false after an unrecovered read error.
    #[inline]
    pub fn is_refused(&self) -> bool {
        self.result.as_ref().is_err_and(|error| !error.is_unreadable())
    }
}

/// A drive as a host sees it: commands in, completions out, in virtual time.
///
/// **The host promises** that time never decreases: a submission is not earlier than the previous one or the
/// time reached by the drive. The host chooses the tags.
///
/// **The drive promises** one completion per submission, ordered by time, then by submission. Outstanding
/// commands have no order among themselves, as in NVMe. A read submitted after a write has completed returns
/// the data of that write.
///
/// ```
/// use strobe_ssd::{Command, DriveConfig, Range, build};
/// use strobe_types::{Lba, SimTime};
///
/// let config = DriveConfig::preset("ez-x5-32m")?;
/// let mut drive = build(&config, true, 1)?;
/// for tag in 0..4 {
///     let range = Range::new(Lba::new(8 * tag), 8);
///     drive.submit(SimTime::ZERO, tag, &Command::write(range), None);
/// }
/// let mut done = Vec::new();
/// while let Some(next) = drive.next_event() {
///     drive.advance(next, &mut done);
/// }
/// assert_eq!(done.len(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Device: Send {
    /// Sectors of 512 bytes offered to the host.
    fn sectors(&self) -> u64;

    /// The geometry of the flash.
    fn geometry(&self) -> &Geometry;

    /// Limits on commands.
    fn limits(&self) -> LimitsConfig;

    /// True if the drive stores written bytes.
    fn keeps_contents(&self) -> bool;

    /// Submits a command at `now`; its completion carries `tag`. `data` holds the data of a write, exactly
    /// its range. A write without `data` stores content derived from a running number. An invalid command
    /// changes nothing, and its completion carries the error.
    fn submit(&mut self, now: SimTime, tag: u64, command: &Command<'_>, data: Option<&[u8]>);

    /// Submitted commands whose completion has not been delivered.
    fn outstanding(&self) -> usize;

    /// Commands completed since the drive was built, or its image opened.
    fn host_counts(&self) -> &HostCounts;

    /// Time of the next event of the drive, if any.
    fn next_event(&self) -> Option<SimTime>;

    /// True if a completion due by `until` is known. The default implementation also counts other events.
    fn has_completion(&self, until: SimTime) -> bool {
        self.next_event().is_some_and(|next| next <= until)
    }

    /// Advances virtual time to `until` and appends the completions due by then.
    fn advance(&mut self, until: SimTime, completions: &mut Vec<Completion>);

    /// Turns the volatile write cache on (the default) or off (NVMe feature 06h). While it is off, completed
    /// writes, write zeroes and copies survive a power cut.
    fn set_write_cache(&mut self, enabled: bool);

    /// Gives placement handle `handle` an empty reclaim unit at `now` (NVMe: Reclaim Unit Handle Update). The
    /// rest of the old unit is padded in the background. Buffered data fills the new unit, unless the host
    /// flushes first. Fails if the drive has no such handle.
    fn begin_unit(&mut self, _now: SimTime, handle: u16) -> Result<(), CommandError> {
        Err(CommandError::NoSuchHandle { handle, handles: 1 })
    }

    /// Shuts down cleanly: writes back the write buffer, makes all data durable, syncs the image. The
    /// non-volatile cache keeps its content. Not a host command. Returns the completion of the last flash
    /// operation.
    fn settle(&mut self, now: SimTime) -> Result<SimTime, CommandError>;

    /// Runs `requests` in order, paced by `queue`, until all are complete. `arrivals` are their issue times
    /// in open loop, one per request, else empty. Faster than submitting them one by one, with equal results.
    ///
    /// # Errors
    ///
    /// Stops at the first error and returns it with the index of the failing request. The index is
    /// approximate if later requests were issued before the rejection. Unrecovered read errors do not stop
    /// the run; they count in [`HostCounts::errors`].
    fn run(
        &mut self,
        requests: &[Request],
        arrivals: &[SimTime],
        queue: &mut HostQueue,
    ) -> Result<(), (usize, CommandError)> {
        let result = self.issue(requests, arrivals, queue);
        let finished = queue.finish(self).map_err(|error| (requests.len().saturating_sub(1), error));
        result.and(finished)
    }

    /// Issues `requests` like [`Device::run`], without waiting for the last completions. Stops at the goal of
    /// `queue`. Returns the number issued.
    fn issue(
        &mut self,
        requests: &[Request],
        arrivals: &[SimTime],
        queue: &mut HostQueue,
    ) -> Result<usize, (usize, CommandError)> {
        for (index, &request) in requests.iter().enumerate() {
            let range = [Range::new(request.lba, request.sectors)];
            let command = Command::of_request(&request, &range);
            let arrival = arrivals.get(index).copied();
            let has_place = queue.wait_for_slot(self, arrival).map_err(|error| (index, error))?;
            if !has_place {
                return Ok(index);
            }
            queue.send(self, arrival, &command).map_err(|error| (index, error))?;
        }
        Ok(requests.len())
    }

    /// Executes one command and returns its completion time. Fails if other commands are outstanding.
    fn execute(&mut self, now: SimTime, command: &Command<'_>) -> Result<SimTime, CommandError> {
        alone(self, now, command, None).map(|(at, _)| at)
    }

    /// Writes `data` from sector `lba` on, like [`Device::execute`]. `data` consists of whole sectors.
    fn write_bytes(&mut self, now: SimTime, lba: Lba, data: &[u8]) -> Result<SimTime, CommandError> {
        let sectors = sectors_of(CommandKind::Write, lba, data.len())?;
        alone(self, now, &Command::write(Range::new(lba, sectors)), Some(data)).map(|(at, _)| at)
    }

    /// Reads from sector `lba` on into `out`, like [`Device::execute`]. `out` holds whole sectors. Unwritten
    /// and trimmed sectors read as zeros. Fails if the drive does not store bytes.
    fn read_bytes(&mut self, now: SimTime, lba: Lba, out: &mut [u8]) -> Result<SimTime, CommandError> {
        let range = Range::new(lba, sectors_of(CommandKind::Read, lba, out.len())?);
        if !self.keeps_contents() {
            return Err(CommandError::NoContent);
        }
        let (at, data) = alone(self, now, &Command::Read { range }, None)?;
        out.copy_from_slice(&data);
        Ok(at)
    }
}

impl HostQueue {
    /// Submits `command` as soon as the pacing allows; `arrival` is its issue time in open loop. Returns the
    /// first rejection among commands completed by then.
    pub fn send<D: Device + ?Sized>(
        &mut self,
        device: &mut D,
        arrival: Option<SimTime>,
        command: &Command<'_>,
    ) -> Result<(), CommandError> {
        while self.must_wait() {
            self.wait(device)?;
        }
        let now = self.issue(arrival);
        device.submit(now, 0, command, None);
        if device.has_completion(now) { self.take_completions(device, now) } else { Ok(()) }
    }

    /// Waits until [`HostQueue::send`] would submit without waiting; false if the goal is reached first.
    /// Without a goal, events before the next submission are not processed.
    pub fn wait_for_slot<D: Device + ?Sized>(
        &mut self,
        device: &mut D,
        arrival: Option<SimTime>,
    ) -> Result<bool, CommandError> {
        while self.must_wait() {
            self.wait(device)?;
        }
        // A completion before the next issue may reach the goal.
        while self.goal().is_some_and(|goal| !goal.is_reached(device.host_counts()))
            && let Some(next) = device.next_event().filter(|&next| next < self.due(arrival))
        {
            self.take_completions(device, next)?;
        }
        Ok(self.goal().is_none_or(|goal| !goal.is_reached(device.host_counts())))
    }

    /// Waits until all commands sent are complete.
    pub fn finish<D: Device + ?Sized>(&mut self, device: &mut D) -> Result<(), CommandError> {
        while self.in_flight() > 0 {
            self.wait(device)?;
        }
        Ok(())
    }

    fn wait<D: Device + ?Sized>(&mut self, device: &mut D) -> Result<(), CommandError> {
        let next = device.next_event().expect("a command that is outstanding completes");
        self.take_completions(device, next)
    }

    fn take_completions<D: Device + ?Sized>(
        &mut self,
        device: &mut D,
        until: SimTime,
    ) -> Result<(), CommandError> {
        let mut completions = Vec::new();
        device.advance(until, &mut completions);
        for completion in &completions {
            self.complete(completion.at);
        }
        let refused = completions.into_iter().find(Completion::is_refused);
        refused.map_or(Ok(()), |completion| completion.result.map(drop))
    }
}

fn alone<D: Device + ?Sized>(
    device: &mut D,
    now: SimTime,
    command: &Command<'_>,
    data: Option<&[u8]>,
) -> Result<(SimTime, Vec<u8>), CommandError> {
    match device.outstanding() {
        0 => device.submit(now, 0, command, data),
        commands => return Err(CommandError::Busy(commands)),
    }
    let (mut done, mut until) = (Vec::new(), now);
    loop {
        device.advance(until, &mut done);
        if let Some(Completion { at, result, .. }) = done.pop() {
            return result.map(|data| (at, data));
        }
        // Each submission has a completion, so an outstanding command implies a next event.
        until = device.next_event().expect("a command that is outstanding completes");
    }
}

fn sectors_of(op: CommandKind, lba: Lba, bytes: usize) -> Result<u32, CommandError> {
    let bytes = bytes as u64;
    match u32::try_from(bytes / SECTOR_BYTES) {
        Ok(sectors) if bytes.is_multiple_of(SECTOR_BYTES) => Ok(sectors),
        _ => Err(CommandError::Length { op, lba: lba.get(), bytes }),
    }
}

impl<'a> Command<'a> {
    /// A write without a hint or FUA.
    pub const fn write(range: Range) -> Self {
        Command::Write { range, fua: false, tag: DataTag { hint: Hint::None, handle: 0 } }
    }

    /// The command of `request`. `range` holds the range of `request`; a flush ignores it.
    pub fn of_request(request: &Request, range: &'a [Range; 1]) -> Self {
        match request.op {
            Op::Read => Command::Read { range: range[0] },
            Op::Write => Command::Write { range: range[0], fua: false, tag: DataTag::placed(request.handle) },
            Op::Trim => Command::Deallocate(range),
            Op::Flush => Command::Flush,
        }
    }
}

/// State of a drive that can be read without advancing time.
pub trait Inspect {
    /// Logical mapping units offered to the host.
    fn logical_units(&self) -> u32;

    /// Kind and submission time of the oldest outstanding command, if any.
    fn oldest_outstanding(&self) -> Option<(CommandKind, SimTime)>;

    /// Logical mapping units that hold data on flash.
    fn mapped_units(&self) -> u32;

    /// True if the mapping unit of sector `lba` holds data, on flash or in a cache. Otherwise it reads as
    /// zeros.
    fn is_allocated(&self, _lba: Lba) -> bool {
        true
    }

    /// Erased blocks.
    fn free_blocks(&self) -> u32;

    /// Blocks in SLC mode, including blocks about to be used in it; `None` without an SLC cache.
    fn slc_blocks(&self) -> Option<u32> {
        None
    }

    /// Placement handles and their reclaim units; `None` without handles.
    fn reclaim_units(&self) -> Option<ReclaimUnits> {
        None
    }

    /// Virtual power-on time of the image before it was opened, in ns, up to its last clean shutdown; 0
    /// without an image.
    fn earlier_power_on_ns(&self) -> u64 {
        0
    }

    /// State of each block, by number; empty if the drive does not report it. Cost: a pass over all blocks.
    fn blocks(&self) -> Vec<BlockInfo> {
        Vec::new()
    }

    /// Block of a logical unit, and its offset in the block in units. `None` if the unit is not on flash or
    /// the drive reports no locations.
    fn locate(&self, _unit: Lpn) -> Option<(BlockId, u32)> {
        None
    }

    /// Class of the operation on each die; `None` for an idle die. Empty without timing.
    fn die_holders(&self) -> Vec<Option<Class>> {
        Vec::new()
    }

    /// All counters since the drive was built or its image opened.
    fn stats(&self) -> DriveStats;

    /// All counters at `now`, which must not be after the next event. Busy times of dies count up to `now`.
    fn stats_at(&self, now: SimTime) -> DriveStats;

    /// Latencies since the last [`Inspect::clear_latency`]. Copies and write zeroes are not recorded.
    fn latency(&self) -> &Latency;

    /// Starts a new latency window.
    fn clear_latency(&mut self);

    /// Erase counts and bad blocks.
    fn wear(&self) -> WearSummary;

    /// Runs the whole-state checker. Cost: a pass over all units.
    fn check(&self) -> Result<(), CheckError>;

    /// Failure of the medium, if any. A failed medium rejects every command.
    fn failure(&self) -> Option<&str>;

    /// Flash programs and erases so far, including ageing and earlier sessions of an image. Power cuts are
    /// numbered by this count.
    fn operations(&self) -> u64;
}

/// A power cut, with the drive after it.
pub struct PowerCut {
    /// Number of the flash operation that was interrupted or next to begin, as counted by
    /// [`Inspect::operations`]. For [`Simulated::cut_now`], the number of the last operation issued.
    pub operation: u64,
    /// True if the operation had begun at the cut.
    pub begun: bool,
    /// Work that the cut interrupted.
    pub in_flight: InFlightWork,
    /// The drive after the cut. Only [`Simulated::restart`] may be called on it; call
    /// [`Simulated::cut_everywhere`] before that to cut power during the recovery.
    pub drive: Box<dyn Simulated>,
}

/// Work that a power cut interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlightWork {
    /// Flash operations interrupted; counted only with timing.
    pub flash: CutOperations,
    /// True if garbage collection was running in the background.
    pub is_collecting: bool,
    /// Units evicted from the non-volatile cache that were not yet on flash.
    pub leaving_units: usize,
    /// Flushes that the host was waiting for.
    pub flushes: usize,
}

/// A drive that a simulation can copy, save, cut at any flash operation, restart and verify. Made by
/// [`build`](crate::build).
pub trait Simulated: Device + Inspect {
    /// A copy of the whole drive, outstanding commands included.
    fn freeze(&self) -> Box<dyn Simulated>;

    /// Writes the whole state, outstanding commands included. Fails on a drive with a planned power cut or an
    /// oracle. [`write_state`](crate::write_state) adds the configuration and checksums.
    fn save_state(&self, out: &mut StateWriter<'_>) {
        out.refuse("saving is not implemented");
    }

    /// Loads a state from [`Simulated::save_state`]. After an error the drive is unusable.
    fn load_state(&mut self, _from: &mut StateReader<'_>) -> Result<(), StateError> {
        Err(StateError::Unfit("loading is not implemented for this drive"))
    }

    /// Sets the flag that stops the drive, even inside a command. Commands end with
    /// [`FtlError::Interrupted`](strobe_ftl::FtlError::Interrupted) as soon as they need an erased block,
    /// collection and recovery end between two blocks, and [`Inspect::check`] ends without a verdict.
    /// Afterwards only the counters are usable. Copies share the flag.
    fn set_stop(&mut self, _stop: StopFlag) {}

    /// Logs events to `log` from now on; a log that is off ends logging. Needs timing. Copies of the drive
    /// and the restarted drive share the log.
    fn set_log(&mut self, _log: EventLog) {}

    /// True if the stop flag is raised.
    fn is_stopped(&self) -> bool {
        false
    }

    /// Makes the unit with sector `lba` unreadable on flash, until the host writes it again. Returns false
    /// without a change if the unit holds no data or is cached.
    fn fail_reads(&mut self, _lba: Lba) -> bool {
        false
    }

    /// Plans a power cut during flash operation `operation` (see [`Inspect::operations`]), which leaves its
    /// page or block half done. This drive continues to work; [`Simulated::restart`] returns to the state at
    /// the cut. Replaces an earlier plan.
    fn plan_cut(&mut self, operation: u64);

    /// True if the cut planned last has happened.
    fn was_cut(&self) -> bool;

    /// Cuts power just before and during every flash operation from now on. This drive continues to work, and
    /// [`Simulated::take_cuts`] returns the drives after the cuts. Replaces an earlier plan.
    fn cut_everywhere(&mut self);

    /// Returns the drives after the cuts of [`Simulated::cut_everywhere`] since the last call.
    fn take_cuts(&mut self) -> Vec<PowerCut>;

    /// Returns the drive after a power cut now; this drive continues to work. Flash operations in flight are
    /// lost or half done if cuts were planned before their issue; otherwise they count as complete.
    fn cut_now(&mut self) -> PowerCut;

    /// Starts the oracle, which records the legal contents of every unit after a power cut.
    fn watch(&mut self);

    /// Reads every unit and compares it with the oracle; `None` without [`Simulated::watch`].
    fn verify(&mut self) -> Option<Verdict>;

    /// Returns the drive after power comes back at `now`. The planned cut applies if it has happened, else a
    /// cut now. Write buffer and outstanding commands are lost, the map is recovered from flash, the
    /// non-volatile cache keeps its content. Statistics continue; flash counters return to their values at
    /// the cut.
    fn restart(self: Box<Self>, now: SimTime) -> Result<(Box<dyn Simulated>, Recovery), RecoveryError>;
}
