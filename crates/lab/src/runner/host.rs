//! The host's side of a run: hands requests to the drive, takes samples, reports.

use strobe_nand::EventLog;
use strobe_ssd::{CommandError, Completion, DriveStats, Goal, HostQueue, Pacing, Simulated};
use strobe_types::SimTime;

use super::phase::{HostPages, Phase};
use super::{Observer, Progress};
use crate::experiment::HostConfig;
use crate::lifetime::BadBlockWatch;
use crate::power::PowerSwitch;
use crate::series::{Sample, Series};
use crate::timeline::{AtEnd, Timeline};
use crate::xray::{Clock, Recorder, Xray};
use crate::{Experiment, RunError};

/// Requests handed to the drive at a time: enough to hide memory latency, few enough to stay in
/// the first-level cache.
pub(super) const BATCH: usize = 1024;
/// Mapping units of a batch, about, so that long requests do not make long batches.
pub(super) const BATCH_PAGES: u64 = 1 << 16;
/// Batches between two calls of the observer.
const BATCHES_PER_PROGRESS: u32 = 16;
/// Mapping units after which it is called in any case.
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

/// Observer of a run, and its progress at the last report.
struct Reports<'a> {
    observer: &'a mut dyn Observer,
    batches: u32,
    /// Mapping units that requests had covered at the last call of the observer.
    pages: u64,
}

/// A host and its drive.
pub(super) struct Host<'a> {
    pub(super) drive: Box<dyn Simulated>,
    pub(super) queue: HostQueue,
    pub(super) power: Option<PowerSwitch>,
    pub(super) phase: Phase,
    pub(super) counted: HostPages,
    /// Mapping units of updates of files: [`HostPages::Updated`].
    updated: u64,
    /// Counters and time at the start of the measured window, once it has begun.
    pub(super) window_start: Option<(DriveStats, SimTime)>,
    /// Counters and time at its end, once it has ended.
    pub(super) window_end: Option<(DriveStats, SimTime)>,
    pub(super) series: Series,
    /// Time of the last thing that happened to a job; [`HostQueue`] knows of the others.
    pub(super) completed: SimTime,
    /// Requests executed.
    pub(super) requests: u64,
    /// Length of the intervals of a series in time, if there is to be one; and the series, once the warm-up or the measured
    /// window has begun.
    pub(super) interval_ns: Option<u64>,
    pub(super) timeline: Option<Box<Timeline>>,
    pub(super) completions: Vec<Completion>,
    bad_blocks: Option<BadBlockWatch>,
    /// Frames of the measured window, once it has begun, if there are to be any.
    pub(super) xray: Option<Box<Recorder>>,
    xray_frames: Option<u32>,
    /// Log of the measured window, once it has begun.
    log: EventLog,
    reports: Reports<'a>,
    /// True if the whole-state checker runs at each sample.
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
            phase: Phase { name: "prefill", counted: HostPages::Written, start: 0, total: None },
            counted: HostPages::of(experiment),
            updated: 0,
            window_start: None,
            window_end: None,
            series: new_series(&*drive),
            completed: SimTime::ZERO,
            requests: 0,
            interval_ns: experiment.run.interval.map(|interval| interval.as_ns()),
            timeline: None,
            completions: Vec::new(),
            bad_blocks: BadBlockWatch::new(experiment),
            xray: None,
            xray_frames: experiment.run.xray,
            log: EventLog::OFF,
            reports: Reports { observer, batches: 0, pages: 0 },
            checks: experiment.run.check,
            drive,
        }
    }

    /// Lets the observer stop the drive in the midst of a command.
    pub(super) fn hear_stop(&mut self) {
        self.drive.set_stop(self.reports.observer.stop_flag());
    }

    /// Begins the series anew, on a drive that has been used.
    pub(super) fn begin_series(&mut self) {
        self.series = new_series(&*self.drive);
    }

    /// Gives away the series.
    pub(super) fn take_series(&mut self) -> Vec<Sample> {
        std::mem::replace(&mut self.series, new_series(&*self.drive)).into_samples()
    }

    /// False if the workload is one that only reads or trims.
    pub(super) fn writes_something(&self) -> bool {
        self.counted != HostPages::Touched
    }

    /// True once the measured window has begun.
    pub(super) fn is_measuring(&self) -> bool {
        self.window_start.is_some()
    }

    /// Host pages so far, in the unit of the phase at hand.
    fn pages(&self) -> u64 {
        let counts = self.drive.host_counts();
        match self.phase.counted {
            HostPages::Written => counts.units_written,
            HostPages::Touched => counts.units_touched,
            HostPages::Updated => self.updated,
        }
    }

    /// Host pages of the phase at hand.
    pub(super) fn phase_pages(&self) -> u64 {
        self.pages() - self.phase.start
    }

    /// Begins a phase of the workload, of `total` host pages or unlimited. Outstanding requests stay
    /// outstanding, and nothing is waited for.
    pub(super) fn begin(&mut self, name: &'static str, total: Option<u64>) {
        self.begin_phase(name, self.counted, total);
    }

    /// Begins a phase in which the drive is written once more, before the workload.
    pub(super) fn begin_writing(&mut self, name: &'static str, total: u64) {
        self.begin_phase(name, HostPages::Written, Some(total));
    }

    fn begin_phase(&mut self, name: &'static str, counted: HostPages, total: Option<u64>) {
        self.phase = Phase { name, counted, start: 0, total };
        self.phase.start = self.pages();
        let end = total.map(|total| self.phase.start.saturating_add(total));
        self.queue.set_goal(end.and_then(|end| match counted {
            HostPages::Written => Some(Goal::Written(end)),
            HostPages::Touched => Some(Goal::Touched(end)),
            HostPages::Updated => None,
        }));
    }

    /// True if the phase at hand has all of its host pages.
    pub(super) fn is_reached(&self) -> bool {
        self.phase.total.is_some_and(|total| self.phase_pages() >= total)
    }

    /// True if the current phase has a length in host pages.
    pub(super) fn has_length(&self) -> bool {
        self.phase.total.is_some()
    }

    /// True if the current phase ends only when a number of mapping units is written.
    pub(super) fn waits_for_writes(&self) -> bool {
        self.phase.counted == HostPages::Written && !self.is_reached() && self.has_length()
    }

    /// Counts `pages` more of what files were written.
    pub(super) fn count_updates(&mut self, pages: u64) {
        self.updated += pages;
    }

    /// Time of the last submission or completion.
    pub(super) fn now(&self) -> SimTime {
        self.queue.now().max(self.queue.finished()).max(self.completed)
    }

    /// Waits for what is outstanding; what comes next is paced by `pacing`. Before the warm-up, between repetitions of a
    /// trace, and where a file system waits for its disk.
    pub(super) fn set_pacing(&mut self, pacing: Pacing) -> Result<(), Stop> {
        self.finish()?;
        let goal = self.queue.goal();
        self.queue = HostQueue::new(pacing, self.now());
        self.queue.set_goal(goal);
        Ok(())
    }

    /// Waits until all requests issued are complete.
    pub(super) fn finish(&mut self) -> Result<(), Stop> {
        while self.queue.in_flight() > 0 {
            self.advance(self.next_event())?;
        }
        self.check_time()
    }

    /// Waits until all requests issued are complete, or as many as the phase at hand has.
    pub(super) fn finish_phase(&mut self) -> Result<(), Stop> {
        while self.queue.in_flight() > 0 && !self.is_reached() {
            self.advance(self.next_event())?;
        }
        self.check_time()
    }

    pub(super) fn next_event(&self) -> SimTime {
        self.drive.next_event().expect("a command that is outstanding completes")
    }

    fn check_time(&self) -> Result<(), Stop> {
        if self.now() >= SimTime::from_ns(u64::MAX - 1) {
            return Err(RunError::EndOfTime.into());
        }
        Ok(())
    }

    /// Begins the measured window at `now`, in the midst of what goes on: `total` host pages, or `ns` long, if anybody
    /// knows.
    pub(super) fn begin_measuring(
        &mut self,
        now: SimTime,
        total: Option<u64>,
        ns: Option<u64>,
    ) -> Result<(), Stop> {
        self.begin("measure", total);
        self.on_complete(now);
        self.sample()?;
        if let Some(power) = &mut self.power {
            power.begin_measuring(self.drive.as_mut());
        }
        self.drive.clear_latency();
        self.window_start = Some((self.drive.stats_at(now), now));
        self.log = self.reports.observer.event_log();
        self.log.open(now);
        self.drive.set_log(self.log.clone());
        if let Some(frames) = self.xray_frames {
            let is_timed = !self.drive.die_holders().is_empty();
            let clock = if is_timed { Clock::Time(ns) } else { Clock::Pages(total) };
            self.xray = Some(Box::new(Recorder::new(&*self.drive, frames, clock, now)));
        }
        Ok(())
    }

    /// Begins the measured window now, of `total` host pages if anybody knows, and the interval of a series that is its
    /// first.
    pub(super) fn measure_from_now(&mut self, total: Option<u64>) -> Result<(), Stop> {
        let now = self.now();
        self.close_interval(now, 0);
        self.begin_measuring(now, total, None)?;
        self.begin_intervals(now, self.queue.in_flight() as u32);
        Ok(())
    }

    /// Ends the measured window at `end`, before which nothing more happens: what goes on then goes on, and `backlog`
    /// requests wait to be issued.
    pub(super) fn end_measuring(&mut self, end: SimTime, backlog: u64) {
        if self.is_measuring() && self.window_end.is_none() {
            self.close_interval(end, backlog);
            self.window_end = Some((self.drive.stats_at(end), end));
            self.drive.set_log(EventLog::OFF);
            self.log.close(end);
        }
    }

    /// Time at which the next frame of the X-ray is due, if it is time that decides.
    #[inline]
    pub(super) fn xray_due(&self) -> Option<SimTime> {
        self.xray.as_ref().and_then(|xray| xray.due_at())
    }

    /// Takes a frame of the X-ray at `now`, if one is due.
    #[inline]
    pub(super) fn look_inside(&mut self, now: SimTime) {
        let Some(mut xray) = self.xray.take() else { return };
        let pages = self.phase_pages();
        if xray.is_due(now, pages) {
            xray.take(&*self.drive, now, pages);
        }
        self.xray = Some(xray);
    }

    /// Begins a series of intervals at `now`, with so many requests outstanding, if there is to be one and it has not begun.
    pub(super) fn begin_intervals(&mut self, now: SimTime, outstanding: u32) {
        if let (Some(length_ns), None) = (self.interval_ns, &self.timeline) {
            let mut timeline = Timeline::new(length_ns, now, self.drive.stats_at(now));
            timeline.outstanding(now, outstanding);
            self.timeline = Some(Box::new(timeline));
        }
    }

    /// End of the interval at hand; `None` without a series.
    #[inline]
    pub(super) fn interval_end(&self) -> Option<SimTime> {
        self.timeline.as_ref().map(|timeline| timeline.due())
    }

    /// Ends the interval at hand at `now`, before which nothing more happens, and begins another; `backlog` requests wait to
    /// be issued.
    pub(super) fn close_interval(&mut self, now: SimTime, backlog: u64) {
        let measured = self.is_measuring();
        if let Some(timeline) = &mut self.timeline {
            timeline.close(now, AtEnd::of(&*self.drive, now, backlog, measured));
        }
    }

    /// The series of intervals, if there was one.
    pub(super) fn take_timeline(&mut self) -> Option<Timeline> {
        self.timeline.take().map(|timeline| *timeline)
    }

    /// The X-ray of the window that has ended.
    pub(super) fn finish_xray(&mut self) -> Option<Xray> {
        let end = self.window_end.as_ref().map_or(self.now(), |(_, end)| *end);
        let pages = self.phase_pages();
        self.xray.take().map(|xray| xray.finish(&*self.drive, end, pages))
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

    /// Counts a request that a job has issued.
    #[inline]
    pub(super) fn count_request(&mut self) {
        self.requests += 1;
    }

    /// Notes a completion at `at`.
    #[inline]
    pub(super) fn on_complete(&mut self, at: SimTime) {
        self.completed = self.completed.max(at);
    }

    /// Returns the time of recovery if power was cut. Outstanding requests are lost.
    pub(super) fn after_power_cut(&mut self) -> Result<Option<SimTime>, Stop> {
        let Some(power) = &mut self.power else { return Ok(None) };
        let back = power.after_command(&mut self.drive, self.requests)?;
        if let Some(back) = back {
            self.on_complete(back);
        }
        Ok(back)
    }

    /// Samples and reports as due, and looks whether the run should go on.
    pub(super) fn keep_house(&mut self) -> Result<(), Stop> {
        if self.drive.host_counts().units_written >= self.series.due() {
            self.sample()?;
        }
        self.check_time()?;
        self.look_inside(self.now());
        self.report()?;
        if self.bad_blocks.as_mut().is_some_and(|watch| watch.check(&*self.drive)) {
            return Err(Stop::BadBlocks);
        }
        Ok(())
    }

    /// Tells the observer how far the run is, if that is due; it may stop the run.
    fn report(&mut self) -> Result<(), Stop> {
        let (virtual_ns, pages) = (self.now().as_ns(), self.drive.host_counts().units_touched);
        let reports = &mut self.reports;
        reports.batches += 1;
        let is_due = pages - reports.pages >= PAGES_PER_PROGRESS;
        if !is_due && !reports.batches.is_multiple_of(BATCHES_PER_PROGRESS) {
            return Ok(());
        }
        reports.pages = pages;
        let &Phase { name, total, .. } = &self.phase;
        let progress = Progress { phase: name, done: self.phase_pages(), total, virtual_ns };
        let reports = &mut self.reports;
        if reports.observer.progress(progress).is_break() { Err(Stop::Observer) } else { Ok(()) }
    }

    /// Ends an interval of the series, after the prefill.
    pub(super) fn sample(&mut self) -> Result<(), Stop> {
        if self.phase.name != "prefill" {
            if self.checks {
                self.check_drive()?;
            }
            let virtual_ns = self.now().as_ns();
            self.series.sample(self.drive.stats(), self.drive.free_blocks(), virtual_ns, self.is_measuring());
        }
        Ok(())
    }
}

/// Closed-loop pacing with a queue depth and a rate limit.
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
