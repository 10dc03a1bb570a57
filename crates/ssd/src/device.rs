//! The door to a drive: what a host may do, what an observer may see, and what only a simulation can.

use strobe_ftl::{BlockInfo, CheckError, Recovery, RecoveryError, WearSummary};
use strobe_nand::{Class, EventLog, Met};
use strobe_types::{
    BlockId, Geometry, Lba, Lpn, Op, Request, SECTOR_BYTES, SimTime, StateError, StateReader, StateWriter,
    StopFlag,
};

use crate::command::{Command, CommandKind, DataTag, Hint, Range};
use crate::error::CommandError;
use crate::latency::Latency;
use crate::limits::LimitsConfig;
use crate::queue::HostQueue;
use crate::stats::{DriveStats, HostCounts, ReclaimUnits};
use crate::witness::Verdict;

/// A command that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Name that the host gave it at its submission.
    pub tag: u64,
    /// Time of the completion. A command that is refused completes at the time of its submission.
    pub at: SimTime,
    /// Kind of the command.
    pub kind: CommandKind,
    /// Time of its submission.
    pub issued: SimTime,
    /// Bytes that it covered, as [`HostCounts::bytes`] counts them; 0 if it was refused at once.
    pub bytes: u64,
    /// The bytes of a read, if the drive keeps any, else nothing; or why the command was refused.
    pub result: Result<Vec<u8>, CommandError>,
}

impl Completion {
    /// True if the command was refused. One whose data cannot be read was carried out.
    #[inline]
    pub fn is_refused(&self) -> bool {
        self.result.as_ref().is_err_and(|error| !error.is_unreadable())
    }
}

/// A drive as a host sees it: commands go in, completions come out, in virtual time.
///
/// **The host promises** that time does not go back: the `now` of a submission lies neither before that of
/// an earlier one nor before the time that the drive has been advanced to. It chooses the tags.
///
/// **The drive promises** one completion for every submission, in the order of their times and, at the same
/// time, of submission. Commands that are outstanding together have no order among themselves, as in NVMe;
/// a read that is submitted after a write has completed finds what that has stored.
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

    /// The shape of the flash.
    fn geometry(&self) -> &Geometry;

    /// The largest commands that are taken.
    fn limits(&self) -> LimitsConfig;

    /// True if written bytes can be read again.
    fn keeps_contents(&self) -> bool;

    /// Hands over a command at `now`; its completion will carry `tag`. `data` are the bytes of a write, as
    /// long as its range; without them a write stores content made from a running number. A command that
    /// cannot be done changes nothing, and its completion says why.
    fn submit(&mut self, now: SimTime, tag: u64, command: &Command<'_>, data: Option<&[u8]>);

    /// Commands submitted of which the completion has not been handed over.
    fn outstanding(&self) -> usize;

    /// Commands that have completed since the drive was built, or its image opened.
    fn host_counts(&self) -> &HostCounts;

    /// When something happens next that a host could notice, if anything does.
    fn next_event(&self) -> Option<SimTime>;

    /// True if a completion by `until` is known already: [`Device::advance`] would hand it over without time
    /// passing.
    fn has_completion(&self, until: SimTime) -> bool {
        self.next_event().is_some_and(|next| next <= until)
    }

    /// Lets time pass until `until` and adds what is complete by then to `completions`.
    fn advance(&mut self, until: SimTime, completions: &mut Vec<Completion>);

    /// Turns the volatile write cache on, as it is at first, or off: then writes, write zeroes and copies
    /// survive a power cut when they are complete (NVMe's feature 06h).
    fn set_write_cache(&mut self, enabled: bool);

    /// Gives placement handle `handle` an empty reclaim unit at `now` (NVMe: Reclaim Unit Handle Update). What the old one
    /// has left is padded in the background. What waits in the write buffer goes to the new one: a host that does not want
    /// that flushes first. Refused by a drive that does not have the handle.
    fn begin_unit(&mut self, _now: SimTime, handle: u16) -> Result<(), CommandError> {
        Err(CommandError::NoSuchHandle { handle, handles: 1 })
    }

    /// Ends work in order, as before power is switched off: writes back what the write buffer holds, makes all of it
    /// durable, syncs the image if there is one. Not a host command. Returns when all flash operations issued so
    /// far are complete. What the non-volatile cache holds stays there.
    fn settle(&mut self, now: SimTime) -> Result<SimTime, CommandError>;

    /// Runs `requests` in order, paced by `queue`, until all of them are complete; `arrivals` are their own times in open
    /// loop (as many as requests), else empty. Stops at the first error, which comes with the index of the request that
    /// was issued last when it was known: that of the failing request, unless it was refused while it waited. Data that
    /// cannot be read is no such error: [`HostCounts::errors`] counts it.
    ///
    /// The same as submitting them one by one, and much faster where nobody looks at single completions.
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

    /// Issues `requests` like [`Device::run`], but does not wait for the last ones: more may follow. Ends before one of
    /// them at the instant at which the goal of `queue` is reached; returns how many were issued.
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
            let has_place = queue.make_place(self, arrival).map_err(|error| (index, error))?;
            if !has_place {
                return Ok(index);
            }
            queue.send(self, arrival, &command).map_err(|error| (index, error))?;
        }
        Ok(requests.len())
    }

    /// Executes one command alone, issued at `now`; returns when it is complete. Refused while others are
    /// outstanding: their completions would be lost.
    fn execute(&mut self, now: SimTime, command: &Command<'_>) -> Result<SimTime, CommandError> {
        alone(self, now, command, None).map(|(at, _)| at)
    }

    /// [`Device::execute`] of a write of `data`, whole sectors, from sector `lba` on.
    fn write_bytes(&mut self, now: SimTime, lba: Lba, data: &[u8]) -> Result<SimTime, CommandError> {
        let sectors = sectors_of(CommandKind::Write, lba, data.len())?;
        alone(self, now, &Command::write(Range::new(lba, sectors)), Some(data)).map(|(at, _)| at)
    }

    /// [`Device::execute`] of a read that fills `out`, whole sectors, with the content from sector `lba` on. What was
    /// never written or has been trimmed reads as zeros. Refused by a drive that does not keep what is written.
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
    /// Submits `command` to `device` as soon as the pacing has a place for it; `arrival` is its own time in open
    /// loop. The error is that of any command that has completed by then: a refused one does so at once. Data that cannot be
    /// read is only counted.
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

    /// Waits until [`HostQueue::send`] would not wait; false if the goal is reached before. Without a goal nothing that
    /// happens between now and the next submission is looked at.
    pub fn make_place<D: Device + ?Sized>(
        &mut self,
        device: &mut D,
        arrival: Option<SimTime>,
    ) -> Result<bool, CommandError> {
        while self.must_wait() {
            self.wait(device)?;
        }
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

/// Result of a command that runs alone.
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
        // It must come; a device without a next event has broken its promise.
        until = device.next_event().expect("a command that is outstanding completes");
    }
}

/// `bytes` in sectors, if they are whole ones and not more than a command can carry.
fn sectors_of(op: CommandKind, lba: Lba, bytes: usize) -> Result<u32, CommandError> {
    let bytes = bytes as u64;
    match u32::try_from(bytes / SECTOR_BYTES) {
        Ok(sectors) if bytes.is_multiple_of(SECTOR_BYTES) => Ok(sectors),
        _ => Err(CommandError::Length { op, lba: lba.get(), bytes }),
    }
}

impl<'a> Command<'a> {
    /// A write without a hint that may stay in the write cache.
    pub const fn write(range: Range) -> Self {
        Command::Write { range, fua: false, tag: DataTag { hint: Hint::None, handle: 0 } }
    }

    /// The command of `request`, whose range is `range`; a flush does not look at it.
    pub fn of_request(request: &Request, range: &'a [Range; 1]) -> Self {
        match request.op {
            Op::Read => Command::Read { range: range[0] },
            Op::Write => Command::Write { range: range[0], fua: false, tag: DataTag::placed(request.handle) },
            Op::Trim => Command::Deallocate(range),
            Op::Flush => Command::Flush,
        }
    }
}

/// State of a drive that can be read without time passing.
pub trait Inspect {
    /// Logical mapping units offered to the host.
    fn logical_units(&self) -> u32;

    /// Logical mapping units that hold data on flash.
    fn mapped_units(&self) -> u32;

    /// True if the mapping unit of sector `lba` holds data, on flash or in a cache. One that does not reads as zeros.
    fn is_allocated(&self, _lba: Lba) -> bool {
        true
    }

    /// Erased blocks at hand.
    fn free_blocks(&self) -> u32;

    /// Blocks that hold something in SLC mode, or are about to; `None` of a drive without an SLC cache.
    fn slc_blocks(&self) -> Option<u32> {
        None
    }

    /// Placement handles and their reclaim units; `None` if the host does not choose streams by handle.
    fn reclaim_units(&self) -> Option<ReclaimUnits> {
        None
    }

    /// Virtual time for which the drive's image was under power before it was opened, in ns, until its last clean end; 0
    /// without an image.
    fn earlier_power_on_ns(&self) -> u64 {
        0
    }

    /// State of each block, by number; empty if the drive does not show it. Cost: a pass over all blocks.
    fn blocks(&self) -> Vec<BlockInfo> {
        Vec::new()
    }

    /// Block that holds a logical unit, and its place in it, counted in units from 0; `None` if it is not on flash, or if
    /// the drive does not show it.
    fn locate(&self, _unit: Lpn) -> Option<(BlockId, u32)> {
        None
    }

    /// Class of the operation that holds each die now, `None` for an idle die; empty without timing.
    fn die_holders(&self) -> Vec<Option<Class>> {
        Vec::new()
    }

    /// All counters since the drive was built, or its image opened.
    fn stats(&self) -> DriveStats;

    /// All counters at `now`, which must not be after the next event. The time for which dies are held counts
    /// up to `now`.
    fn stats_at(&self, now: SimTime) -> DriveStats;

    /// Latencies since the last [`Inspect::clear_latency`]. Those of copies and of write zeroes are not
    /// kept.
    fn latency(&self) -> &Latency;

    /// Starts a new latency window.
    fn clear_latency(&mut self);

    /// Erase counts and bad blocks.
    fn wear(&self) -> WearSummary;

    /// Runs the whole-state checker. Cost: a pass over all units.
    fn check(&self) -> Result<(), CheckError>;

    /// Why the medium below has failed, if it has: then every command is refused.
    fn failure(&self) -> Option<&str>;

    /// Flash programs and erases since the drive was built: what power cuts are numbered by.
    fn operations(&self) -> u64;
}

/// A drive that has lost its power.
pub struct PowerCut {
    /// The flash operation that was cut short, or about to begin, counted as [`Inspect::operations`] does; of a cut at
    /// a moment, the last one issued.
    pub operation: u64,
    /// True if the operation had begun.
    pub begun: bool,
    /// Work that the cut interrupted.
    pub met: Underway,
    /// The drive after the cut. Only [`Simulated::restart`] may be called on it, and
    /// [`Simulated::cut_everywhere`] before, to cut its recovery too.
    pub drive: Box<dyn Simulated>,
}

/// Work that a power cut interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Underway {
    /// On flash, where operations take time.
    pub flash: Met,
    /// Garbage collection, beside what the host does.
    pub is_collecting: bool,
    /// Units that had left the non-volatile cache, and were not on flash.
    pub leaving_units: usize,
    /// Flushes that the host was waiting for.
    pub flushes: usize,
}

/// A drive of which everything is known: it can be copied as it is, have its power cut at a chosen flash operation,
/// and be held to account for what it gives back then. [`build`](crate::build) makes these.
pub trait Simulated: Device + Inspect {
    /// An independent copy of the whole drive as it is now, with the commands that are outstanding.
    fn freeze(&self) -> Box<dyn Simulated>;

    /// Writes all of its state, with the commands that are outstanding: what [`Simulated::load_state`] makes of a new
    /// drive of the same configuration is [`Simulated::freeze`] of this one. [`write_state`](crate::write_state) makes a
    /// file of it, with the configuration and checksums. Not of a drive whose power is to be cut.
    fn save_state(&self, out: &mut StateWriter<'_>) {
        out.refuse("it does not say how");
    }

    /// Takes on a state that [`Simulated::save_state`] has written. After an error the drive is of no use any more.
    fn load_state(&mut self, _from: &mut StateReader<'_>) -> Result<(), StateError> {
        Err(StateError::Unfit("this drive does not say how its state is loaded"))
    }

    /// Hands over the flag by which the drive is asked to give up what it is doing, in the midst of a command: once it is
    /// raised, commands end with [`FtlError::Interrupted`](strobe_ftl::FtlError::Interrupted) as soon as they need an
    /// erased block, collection and recovery end between two blocks, and [`Inspect::check`] ends without a verdict. The
    /// drive is of no use then but for its counters. Copies of the drive share the flag.
    fn set_stop(&mut self, _stop: StopFlag) {}

    /// Logs events in `log` from now on, or no more if that is off. Only where operations take time; times and results
    /// stay as they are. Copies of the drive, and what a power cut leaves of it, share the log.
    fn set_log(&mut self, _log: EventLog) {}

    /// True if that flag is raised.
    fn is_stopped(&self) -> bool {
        false
    }

    /// Makes the unit with sector `lba` unreadable where it lies now: reads fail until it is written again. Returns false, and
    /// does nothing, if the unit holds no data or lies in a cache.
    fn fail_reads(&mut self, _lba: Lba) -> bool {
        false
    }

    /// Cuts power during flash operation `operation`, counted as [`Inspect::operations`] does; later ones only, not one
    /// that is done. The page that it programs, or the block that it erases, is left half done. The drive itself runs
    /// on, as a simulation can: [`Simulated::was_cut`] tells after each command whether it should have, and
    /// [`Simulated::restart`] goes back to that moment. Replaces an earlier plan.
    fn plan_cut(&mut self, operation: u64);

    /// True if the cut planned last has happened.
    fn was_cut(&self) -> bool;

    /// Cuts power twice at every flash operation from now on, just before it and during it: the drive runs on, and
    /// [`Simulated::take_cuts`] gives what each cut has left. Replaces an earlier plan.
    fn cut_everywhere(&mut self);

    /// Drives left by the cuts since the last call, after [`Simulated::cut_everywhere`].
    fn take_cuts(&mut self) -> Vec<PowerCut>;

    /// The drive after a cut at this moment; this drive runs on. Flash operations in flight are lost or half
    /// done if cuts were planned before they were issued; else they count as done.
    fn cut_now(&mut self) -> PowerCut;

    /// From now on keeps account of what every unit may read as after a power cut.
    fn watch(&mut self);

    /// Looks at every unit and compares it with what it may read as, since [`Simulated::watch`]; `None` without.
    fn verify(&mut self) -> Option<Verdict>;

    /// The drive when power is back at `now`, after the cut that was planned or, if there was none, one at
    /// this moment, as [`Simulated::cut_now`] does it. Write buffer, map and outstanding commands are lost, the map
    /// is found again on flash, the non-volatile cache is as it was. Statistics go on; those of flash fall back to
    /// what had been done when power failed.
    fn restart(self: Box<Self>, now: SimTime) -> Result<(Box<dyn Simulated>, Recovery), RecoveryError>;
}
