//! The host's side of a run: hands requests to the drive, takes samples, reports.

use strobe_nand::Occupancy;
use strobe_ssd::{Command, CommandError, DriveStats, HostQueue, Pacing, Range, Simulated};
use strobe_types::{Request, SimTime};

use super::watched::Watched;
use super::{Observer, Progress};
use crate::experiment::HostConfig;
use crate::lifetime::BadBlockWatch;
use crate::power::PowerSwitch;
use crate::series::Series;
use crate::timeline::Timeline;
use crate::xray::{Clock, Recorder, Xray};
use crate::{Experiment, RunError};

/// Requests handed to the drive at a time: enough to hide memory latency, few enough to stay in
/// the first-level cache.
pub(super) const BATCH: usize = 1024;
/// Host pages of a batch, about, so that long requests do not make long batches.
pub(super) const BATCH_PAGES: u64 = 1 << 16;
/// Batches between two calls of the observer.
const BATCHES_PER_PROGRESS: u32 = 16;
/// Host pages after which it is called in any case.
const PAGES_PER_PROGRESS: u64 = 1 << 18;

/// Why a phase ended before its end.
pub(super) enum Stop {
    Observer,
    /// As many blocks have gone bad as the run was to wait for.
    BadBlocks,
    Drive(CommandError),
    Failed(RunError),
}

impl Stop {
    /// True if the observer has stopped the run, between two commands of `drive` or in the midst of one.
    pub(super) fn is_interruption(&self, drive: &dyn Simulated) -> bool {
        match self {
            Stop::Observer => true,
            Stop::Drive(error) => error.is_interruption(),
            Stop::Failed(error) => {
                error.is_interruption() || matches!(error, RunError::Save(_)) && drive.is_stopped()
            }
            Stop::BadBlocks => false,
        }
    }
}

impl<E: Into<RunError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Failed(error.into())
    }
}

/// A part of a run.
pub(super) struct Phase {
    name: &'static str,
    /// Host pages of it, if known.
    total: Option<u64>,
    /// Host pages requested so far.
    pub(super) pages: u64,
}

/// What watches a run, and how far it knows.
struct Reports<'a> {
    observer: &'a mut dyn Observer,
    batches: u32,
    /// Host pages of the run at the last call of the observer.
    pages: u64,
}

/// A host and its drive.
pub(super) struct Host<'a> {
    pub(super) drive: Box<dyn Simulated>,
    pub(super) queue: HostQueue,
    pub(super) power: Option<PowerSwitch>,
    pub(super) phase: Phase,
    /// Counters and time at the start of the measured window, once it has begun.
    pub(super) window_start: Option<(DriveStats, SimTime)>,
    /// The same at its end, if something that does not belong to it came after.
    pub(super) window_end: Option<(DriveStats, SimTime)>,
    /// Host pages of all phases.
    pub(super) pages: u64,
    pub(super) series: Series,
    /// When the last request of a job was complete; [`HostQueue::finished`] knows of the others.
    pub(super) completed: SimTime,
    /// Requests executed.
    requests: u64,
    /// Length of the intervals of a series in time, if there is to be one; and the series, once the warm-up or the measured
    /// window has begun. Jobs have their own.
    interval_ns: Option<u64>,
    watched: Option<Box<Watched>>,
    bad_blocks: Option<BadBlockWatch>,
    /// Frames of the measured window, once it has begun, if there are to be any.
    xray: Option<Box<Recorder>>,
    xray_frames: Option<u32>,
    reports: Reports<'a>,
    /// Whether the whole-state checker runs at each sample.
    checks: bool,
}

impl<'a> Host<'a> {
    pub(super) fn new(
        experiment: &Experiment,
        mut drive: Box<dyn Simulated>,
        observer: &'a mut dyn Observer,
    ) -> Self {
        Self {
            queue: HostQueue::new(closed(HostConfig::default()), SimTime::ZERO),
            power: PowerSwitch::new(&experiment.power, drive.as_mut()),
            phase: Phase { name: "prefill", total: None, pages: 0 },
            window_start: None,
            window_end: None,
            pages: 0,
            series: new_series(&*drive),
            completed: SimTime::ZERO,
            requests: 0,
            interval_ns: experiment.run.interval.map(|interval| interval.as_ns()),
            watched: None,
            bad_blocks: BadBlockWatch::new(experiment),
            xray: None,
            xray_frames: experiment.run.xray,
            reports: Reports { observer, batches: 0, pages: 0 },
            checks: experiment.run.check,
            drive,
        }
    }

    /// Lets the observer stop the drive in the midst of a command.
    pub(super) fn hear_stop(&mut self) {
        self.drive.set_stop(self.reports.observer.stop_flag());
    }

    /// The series begins here, on a drive that has been used.
    pub(super) fn begin_series(&mut self) {
        self.series = new_series(&*self.drive);
    }

    /// Whether the measured window has begun.
    pub(super) fn is_measuring(&self) -> bool {
        self.window_start.is_some()
    }

    pub(super) fn begin(&mut self, name: &'static str, total: Option<u64>) {
        self.phase = Phase { name, total, pages: 0 };
    }

    /// When all that was issued is complete.
    pub(super) fn finished(&self) -> SimTime {
        self.queue.finished().max(self.completed)
    }

    /// What comes next is paced like this, and begins when all that came before is complete.
    pub(super) fn set_pacing(&mut self, pacing: Pacing) -> Result<(), Stop> {
        self.finish()?;
        self.queue = HostQueue::new(pacing, self.finished());
        Ok(())
    }

    /// Waits until all requests issued are complete.
    pub(super) fn finish(&mut self) -> Result<(), Stop> {
        let finished = match &mut self.watched {
            Some(watched) => watched.finish(&mut *self.drive, &mut self.queue),
            None => self.queue.finish(&mut *self.drive),
        };
        finished.map_err(Stop::Drive)?;
        match self.finished() >= SimTime::from_ns(u64::MAX - 1) {
            true => Err(RunError::EndOfTime.into()),
            false => Ok(()),
        }
    }

    /// The measured window begins at `now`, in the midst of what goes on.
    /// It is `ns` long, if anybody knows.
    pub(super) fn begin_measuring_at(
        &mut self,
        now: SimTime,
        total: Option<u64>,
        ns: Option<u64>,
    ) -> Result<(), Stop> {
        self.begin("measure", total);
        self.completed(now);
        self.sample()?;
        self.open_window(now);
        self.begin_xray(ns);
        Ok(())
    }

    /// The measured window has ended at `end`. Requests that were issued by then count as a whole; what dies did for them
    /// later does not, and `occupancy` says what they had done, if that was before now.
    pub(super) fn close_window(&mut self, end: SimTime, occupancy: Option<Occupancy>) {
        let mut stats = self.drive.stats_at(end);
        stats.occupancy = occupancy.unwrap_or(stats.occupancy);
        self.window_end = Some((stats, end));
    }

    /// The measured window ends when all requests are complete. What caches still hold is written back then and counts;
    /// the time that dies take for it is none of the window's.
    pub(super) fn end_window(&mut self) -> Result<(), Stop> {
        self.finish()?;
        let end = self.finished();
        let occupancy = self.drive.stats_at(end).occupancy;
        if let Some(watched) = &mut self.watched {
            watched.close(&*self.drive, end);
        }
        self.settle()?;
        self.close_window(end, Some(occupancy));
        Ok(())
    }

    fn open_window(&mut self, now: SimTime) {
        if let Some(power) = &mut self.power {
            power.begin_measuring(self.drive.as_mut());
        }
        self.drive.clear_latency();
        self.window_start = Some((self.drive.stats_at(now), now));
    }

    /// The frames of the X-ray begin now. In time, the window is `ns` long if anybody knows.
    pub(super) fn begin_xray(&mut self, ns: Option<u64>) {
        let Some((frames, (_, start))) = self.xray_frames.zip(self.window_start.as_ref()) else { return };
        let is_timed = !self.drive.die_holders().is_empty();
        let clock = if is_timed { Clock::Time(ns) } else { Clock::Pages(self.phase.total) };
        self.xray = Some(Box::new(Recorder::new(&*self.drive, frames, clock, *start)));
    }

    /// When the next frame of the X-ray is due, if that is a matter of time.
    #[inline]
    pub(super) fn xray_due(&self) -> Option<SimTime> {
        self.xray.as_ref().and_then(|xray| xray.due_at())
    }

    /// Takes a frame of the X-ray at `now`, if one is due.
    #[inline]
    pub(super) fn look_inside(&mut self, now: SimTime) {
        if let Some(xray) = &mut self.xray
            && xray.is_due(now, self.phase.pages)
        {
            xray.take(&*self.drive, now, self.phase.pages);
        }
    }

    /// A series of intervals begins when all that was issued is complete, if there is to be one and it has not begun.
    pub(super) fn begin_intervals(&mut self) -> Result<(), Stop> {
        if let (Some(length_ns), None) = (self.interval_ns, &self.watched) {
            self.finish()?;
            let now = self.finished();
            self.watched = Some(Box::new(Watched::new(length_ns, &*self.drive, now)));
        }
        Ok(())
    }

    /// The series of intervals, if there was one; the last ends now if the window has not ended.
    pub(super) fn take_timeline(&mut self) -> Option<Timeline> {
        let mut watched = self.watched.take()?;
        if self.window_end.is_none() {
            watched.close(&*self.drive, self.finished());
        }
        Some(watched.into_timeline())
    }

    /// The X-ray of the window that has ended.
    pub(super) fn finish_xray(&mut self) -> Option<Xray> {
        let end = self.window_end.as_ref().map_or(self.finished(), |(_, end)| *end);
        self.xray.take().map(|xray| xray.finish(&*self.drive, end, self.phase.pages))
    }

    pub(super) fn begin_measuring(&mut self, total: Option<u64>) -> Result<(), Stop> {
        self.begin("measure", total);
        self.sample()?;
        // What went before must not be paid for within the window.
        let settled = self.settle()?;
        let now = settled.max(self.finished());
        self.queue = HostQueue::new(closed(HostConfig::default()), now);
        self.open_window(now);
        self.begin_intervals()?;
        if let Some(watched) = &mut self.watched {
            watched.measure(&*self.drive, now);
        }
        self.begin_xray(None);
        Ok(())
    }

    /// Writes back what is left in the write buffer; returns when that is done. No request waits for it.
    pub(super) fn settle(&mut self) -> Result<SimTime, Stop> {
        self.finish()?;
        self.drive.settle(self.finished()).map_err(Stop::Drive)
    }

    /// Runs the whole-state checker. It reads everything, and so may be the first to meet damage, which is
    /// no bug.
    pub(super) fn check_drive(&self) -> Result<(), RunError> {
        let checked = self.drive.check();
        match self.drive.failure() {
            Some(reason) => Err(RunError::Command(CommandError::Medium(reason.to_owned()))),
            None => Ok(checked?),
        }
    }

    /// Mapping units that a request covers, if it is aligned to them.
    pub(super) fn pages_of(&self, request: &Request) -> u64 {
        self.pages_in(request.sectors)
    }

    /// Mapping units that so many sectors fill.
    pub(super) fn pages_in(&self, sectors: u32) -> u64 {
        let shift = self.drive.geometry().unit_shift();
        (u64::from(sectors) + ((1u64 << shift) - 1)) >> shift
    }

    /// Hands a batch to the drive; with power cuts ahead, or intervals to end, one request at a time, as what has been
    /// completed matters then. Also returns how many requests were executed.
    fn run_batch(&mut self, batch: &[Request], arrivals: &[SimTime]) -> (usize, Result<(), Stop>) {
        if self.power.is_none() && self.watched.is_none() {
            return match self.drive.issue(batch, arrivals, &mut self.queue) {
                Ok(()) => (batch.len(), Ok(())),
                Err((failed, error)) => (failed, Err(Stop::Drive(error))),
            };
        }
        for (at, request) in batch.iter().enumerate() {
            let range = [Range::new(request.lba, request.sectors)];
            let command = Command::of_request(request.op, &range);
            let sent = self.send_one(&command, arrivals.get(at).copied(), self.requests + at as u64);
            if let Err(stop) = sent {
                return (at, Err(stop));
            }
        }
        (batch.len(), Ok(()))
    }

    /// Hands over one command, the one with this number.
    fn send_one(&mut self, command: &Command<'_>, arrival: Option<SimTime>, number: u64) -> Result<(), Stop> {
        let sent = match &mut self.watched {
            Some(watched) => watched.send(&mut *self.drive, &mut self.queue, arrival, command),
            None => self.queue.send(&mut *self.drive, arrival, command),
        };
        sent.map_err(Stop::Drive)?;
        if let Some(power) = &mut self.power
            && let Some(back) = power.after_command(&mut self.drive, number)?
        {
            self.queue = self.queue.restarted(back);
            if let Some(watched) = &mut self.watched {
                watched.lost(self.queue.now());
            }
        }
        Ok(())
    }

    /// Hands a batch to the drive, then samples and reports as due.
    pub(super) fn issue(&mut self, batch: &[Request], arrivals: &[SimTime]) -> Result<(), Stop> {
        let (ran, result) = self.run_batch(batch, arrivals);
        self.count(ran as u64, batch[..ran].iter().map(|request| self.pages_of(request)).sum());
        self.keep_house()?;
        result
    }

    /// Hands over a command of several ranges or with a hint, which covers so many host pages; then samples and reports as
    /// due.
    pub(super) fn send(
        &mut self,
        command: &Command<'_>,
        arrival: Option<SimTime>,
        pages: u64,
    ) -> Result<(), Stop> {
        self.send_one(command, arrival, self.requests)?;
        self.count(1, pages);
        self.keep_house()
    }

    /// So many more requests were issued, of so many host pages together.
    #[inline]
    pub(super) fn count(&mut self, requests: u64, pages: u64) {
        self.requests += requests;
        self.phase.pages += pages;
        self.pages += pages;
    }

    /// Something was complete at `at`.
    #[inline]
    pub(super) fn completed(&mut self, at: SimTime) {
        self.completed = self.completed.max(at);
    }

    /// If the power was cut: when it is back. What was outstanding is lost.
    pub(super) fn after_power_cut(&mut self) -> Result<Option<SimTime>, Stop> {
        let Some(power) = &mut self.power else { return Ok(None) };
        let back = power.after_command(&mut self.drive, self.requests)?;
        if let Some(back) = back {
            self.completed(back);
        }
        Ok(back)
    }

    /// Samples and reports as due, and looks whether the run should go on.
    pub(super) fn keep_house(&mut self) -> Result<(), Stop> {
        if self.drive.stats().host.units_written >= self.series.due() {
            self.sample()?;
        }
        let now = self.finished();
        if now >= SimTime::from_ns(u64::MAX - 1) {
            return Err(RunError::EndOfTime.into());
        }
        self.look_inside(now);
        self.report()?;
        if self.bad_blocks.as_mut().is_some_and(|watch| watch.reached(&*self.drive)) {
            return Err(Stop::BadBlocks);
        }
        Ok(())
    }

    /// Tells the observer how far the run is, if that is due; it may stop the run.
    fn report(&mut self) -> Result<(), Stop> {
        let virtual_ns = self.finished().as_ns();
        let reports = &mut self.reports;
        reports.batches += 1;
        let is_due = self.pages - reports.pages >= PAGES_PER_PROGRESS;
        if !is_due && !reports.batches.is_multiple_of(BATCHES_PER_PROGRESS) {
            return Ok(());
        }
        reports.pages = self.pages;
        let &Phase { name, total, pages } = &self.phase;
        let progress = Progress { phase: name, done: pages, total, virtual_ns };
        if reports.observer.progress(progress).is_break() { Err(Stop::Observer) } else { Ok(()) }
    }

    /// Ends an interval of the series, after the prefill.
    pub(super) fn sample(&mut self) -> Result<(), Stop> {
        if self.phase.name != "prefill" {
            if self.checks {
                self.check_drive()?;
            }
            let virtual_ns = self.finished().as_ns();
            self.series.sample(self.drive.stats(), self.drive.free_blocks(), virtual_ns, self.is_measuring());
        }
        Ok(())
    }
}

/// As fast as the drive takes requests, so many outstanding and no more than so many per second.
pub(super) fn closed(host: HostConfig) -> Pacing {
    let interval_ns = match host.rate_iops {
        0 => 0,
        rate => 1_000_000_000 / u64::from(rate),
    };
    Pacing::Closed { depth: host.queue_depth, interval_ns }
}

/// A series that begins with what `drive` has done.
fn new_series(drive: &dyn Simulated) -> Series {
    let interval = u64::from(drive.logical_units()) / 8;
    Series::new(interval, drive.stats(), drive.geometry().units_per_page())
}
