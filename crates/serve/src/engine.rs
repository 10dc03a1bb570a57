use std::collections::{BTreeMap, BTreeSet};

use strobe_nvme::{After, Work};
use strobe_ssd::{
    Answer, Command, CommandError, DataTag, LimitsConfig, PowerCut, RANGES_MAX, Range, Requests, Simulated,
    Target,
};
use strobe_types::{Lba, SimTime};

use crate::clock::{Clock, Pace};
use crate::nbd::Op;

const UNITS_LOOKED_AT: u64 = 1 << 18;
const RUNS_MAX: usize = 8192;

/// Delay of completions relative to the model, in ns of real time: simulation cost and machine load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Number of completed requests.
    pub count: u64,
    /// Sum of the delays.
    pub sum_ns: u128,
    /// Maximum delay.
    pub max_ns: u64,
}

/// Drive with its clock and its in-flight requests.
pub struct Engine {
    target: Target,
    pace: Pace,
    clock: Clock,
    /// Time of the drive's last event or submission.
    now: SimTime,
    /// Tags of requests that need a flush before completion.
    forced: BTreeSet<u64>,
    /// Data of requests whose flush is in flight.
    flushing: BTreeMap<u64, Vec<u8>>,
    outstanding: usize,
    limits: LimitsConfig,
    lag: Lag,
}

impl Engine {
    /// Creates an engine for `drive` at virtual time `start`.
    pub fn new(drive: Box<dyn Simulated>, start: SimTime, pace: Pace) -> Self {
        Self {
            limits: drive.limits(),
            target: Target::new(drive),
            pace,
            clock: Clock::from(start),
            now: start,
            forced: BTreeSet::new(),
            flushing: BTreeMap::new(),
            outstanding: 0,
            lag: Lag::default(),
        }
    }

    /// Replaces the drive and drops in-flight requests.
    pub(crate) fn replace(&mut self, drive: Box<dyn Simulated>, start: SimTime) {
        self.limits = drive.limits();
        self.target.replace_drive(drive);
        (self.clock, self.now, self.outstanding) = (Clock::from(start), start, 0);
        self.forced.clear();
        self.flushing.clear();
    }

    pub(crate) fn cut(&mut self) -> PowerCut {
        self.tick();
        self.target.drive_mut().cut_now()
    }

    /// The drive.
    pub fn drive(&self) -> &dyn Simulated {
        self.target.drive()
    }

    /// Relation of virtual time to real time.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Request counters.
    pub fn requests(&self) -> Requests {
        self.target.requests()
    }

    /// First drive error reported to a client.
    pub fn first_error(&self) -> Option<&str> {
        self.target.first_error()
    }

    /// Current time of the drive.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Delay relative to the model; only with [`Pace::Model`].
    pub fn lag(&self) -> Lag {
        self.lag
    }

    /// Number of in-flight requests.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Reads the clock. Later submissions use this time.
    pub fn tick(&mut self) {
        if self.pace == Pace::Model {
            self.now = self.now.max(self.clock.now());
        }
    }

    /// Submits a read, write, flush, trim or write zeroes.
    pub fn submit(&mut self, tag: u64, op: Op, range: Range, data: &[u8]) {
        self.outstanding += 1;
        let now = self.now;
        match op {
            Op::Read => self.target.submit(now, tag, &[Command::Read { range }], None),
            Op::Write { fua } => {
                let write = Command::Write { range, fua, tag: DataTag::default() };
                self.target.submit(now, tag, &[write], Some(data));
            }
            Op::Flush => self.target.submit(now, tag, &[Command::Flush], None),
            Op::Trim { fua } => {
                self.force(tag, fua);
                // The drive limits a deallocation in sectors per range, sectors in total, and ranges.
                let unit_sectors = self.target.drive().geometry().sectors_per_unit();
                let ranges = split(range, &self.limits, unit_sectors);
                let commands: Vec<_> =
                    batches(&ranges, &self.limits).into_iter().map(Command::Deallocate).collect();
                self.target.submit(now, tag, &commands, None);
            }
            Op::WriteZeroes { fua, deallocate } => {
                self.force(tag, fua);
                self.target.submit(now, tag, &[Command::WriteZeroes { range, deallocate }], None);
            }
            // Block status is no drive command: the connection answers it with [`Engine::status`].
            Op::Status { .. } => self.target.answer(now, tag, Err(CommandError::Unsupported)),
        }
    }

    /// Submits `commands` as one request, followed by a flush if `is_forced`.
    #[cfg(target_os = "linux")]
    pub(crate) fn send(&mut self, tag: u64, commands: &[Command<'_>], data: Option<&[u8]>, is_forced: bool) {
        self.outstanding += 1;
        self.force(tag, is_forced);
        self.target.submit(self.now, tag, commands, data);
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn answer(&mut self, tag: u64, result: Result<Vec<u8>, CommandError>) {
        self.outstanding += 1;
        self.target.answer(self.now, tag, result);
    }

    /// Submits `work`, followed by a flush if `is_forced`. Returns the step that follows the drive's answer.
    pub(crate) fn work(&mut self, tag: u64, work: Work, is_forced: bool) -> After {
        self.outstanding += 1;
        self.force(tag, is_forced);
        let (target, now) = (&mut self.target, self.now);
        work.submit(|command, data| target.submit(now, tag, &[command], data))
    }

    pub(crate) fn drive_mut(&mut self) -> &mut dyn Simulated {
        self.target.drive_mut()
    }

    fn force(&mut self, tag: u64, fua: bool) {
        if fua {
            self.forced.insert(tag);
        }
    }

    /// Returns `range` as runs of sectors, each with true if it is allocated.
    ///
    /// Stops early after 2¹⁸ mapping units or 8192 runs, or after the first run if `one`.
    pub fn status(&self, range: Range, one: bool) -> Vec<(u32, bool)> {
        let drive = self.target.drive();
        let unit_sectors = u64::from(drive.geometry().sectors_per_unit());
        let (first, end) = (range.lba.get(), range.lba.get() + u64::from(range.sectors));
        let mut runs: Vec<(u32, bool)> = Vec::new();
        for unit in (first / unit_sectors..end.div_ceil(unit_sectors)).take(UNITS_LOOKED_AT as usize) {
            let sectors = end.min((unit + 1) * unit_sectors) - first.max(unit * unit_sectors);
            let is_allocated = drive.is_allocated(Lba::new(unit * unit_sectors));
            let count = runs.len();
            match runs.last_mut() {
                Some((length, alike)) if *alike == is_allocated => *length += sectors as u32,
                Some(_) if one || count == RUNS_MAX => break,
                _ => runs.push((sectors as u32, is_allocated)),
            }
        }
        runs
    }

    /// Returns the real time until the drive's next event, in ns; `None` if no event is due.
    pub fn due_in_ns(&self) -> Option<u64> {
        match self.pace {
            Pace::Model => self.target.next_event().map(|at| at.since(self.clock.now().min(at))),
            Pace::None => (self.outstanding > 0).then_some(0),
        }
    }

    /// Adds completed requests to `answers`. With [`Pace::None`], first completes all submitted requests.
    pub fn advance(&mut self, answers: &mut Vec<(u64, Result<Vec<u8>, CommandError>)>) {
        match self.pace {
            Pace::Model => {
                let mut done = Vec::new();
                self.tick();
                self.target.advance(self.now, &mut done);
                self.take(&mut done, answers);
                // `take` has submitted the flushes of forced requests. Some of them are complete already.
                self.target.advance(self.now, &mut done);
                self.take(&mut done, answers);
            }
            Pace::None => self.finish(answers),
        }
    }

    pub(crate) fn finish(&mut self, answers: &mut Vec<(u64, Result<Vec<u8>, CommandError>)>) {
        let mut done = Vec::new();
        while self.outstanding > 0
            && let Some(next) = self.target.next_event()
        {
            self.now = self.now.max(next);
            self.target.advance(self.now, &mut done);
            self.take(&mut done, answers);
        }
    }

    fn take(&mut self, done: &mut Vec<Answer>, answers: &mut Vec<(u64, Result<Vec<u8>, CommandError>)>) {
        for Answer { tag, at, result } in done.drain(..) {
            // A forced request completes only after a flush. Keep its data until then.
            let is_forced = self.forced.remove(&tag);
            let result = match result {
                Ok(data) if is_forced => {
                    self.flushing.insert(tag, data);
                    self.target.submit(self.now, tag, &[Command::Flush], None);
                    continue;
                }
                result => match self.flushing.remove(&tag) {
                    Some(data) => result.map(|_| data),
                    None => result,
                },
            };
            self.outstanding -= 1;
            if self.pace == Pace::Model {
                let late = self.clock.now().since(at);
                self.lag.count += 1;
                self.lag.sum_ns += u128::from(late);
                self.lag.max_ns = self.lag.max_ns.max(late);
            }
            answers.push((tag, result));
        }
    }

    /// Shuts the drive down cleanly: its write buffer is written back and durable.
    pub fn settle(&mut self) -> Result<(), CommandError> {
        self.tick();
        let until = self.target.drive_mut().settle(self.now)?;
        self.now = self.now.max(until);
        Ok(())
    }

    /// Returns the drive.
    pub fn into_drive(self) -> Box<dyn Simulated> {
        self.target.into_drive()
    }
}

/// Splits `range` at unit boundaries into parts within `limits`.
fn split(range: Range, limits: &LimitsConfig, unit_sectors: u32) -> Vec<Range> {
    let largest = [limits.trim_range_sectors.into(), limits.trim_sectors];
    let largest = largest.into_iter().filter(|&most| most > 0).min().unwrap_or(u64::MAX);
    let largest = u32::try_from(largest).unwrap_or(u32::MAX);
    let mut parts = Vec::new();
    let (mut lba, mut left) = (range.lba.get(), range.sectors);
    while left > 0 {
        // The drive deallocates whole units: a unit split across two parts would keep its data.
        let beyond = (lba + u64::from(largest)) % u64::from(unit_sectors);
        let sectors =
            if left <= largest { left } else { (largest - beyond.min(u64::from(largest) - 1) as u32).max(1) };
        parts.push(Range::new(Lba::new(lba), sectors));
        (lba, left) = (lba + u64::from(sectors), left - sectors);
    }
    parts
}

/// Groups `ranges`, each within `limits`, into deallocations within them.
fn batches<'a>(ranges: &'a [Range], limits: &LimitsConfig) -> Vec<&'a [Range]> {
    let count_max = if limits.trim_ranges == 0 { RANGES_MAX } else { limits.trim_ranges as usize };
    let sectors_max = if limits.trim_sectors == 0 { u64::MAX } else { limits.trim_sectors };
    let (mut groups, mut rest) = (Vec::new(), ranges);
    while !rest.is_empty() {
        let mut sectors = 0;
        let fits = |range: &&Range| {
            sectors += u64::from(range.sectors);
            sectors <= sectors_max
        };
        let count = rest.iter().take(count_max).take_while(fits).count().max(1);
        let (group, others) = rest.split_at(count);
        groups.push(group);
        rest = others;
    }
    groups
}
