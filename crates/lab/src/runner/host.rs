//! Host side of a run: submits requests, takes samples, reports progress, begins and ends the measured
//! window.

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
use crate::verdict::Outstanding;
use crate::xray::{Clock, Recorder, Xray};
use crate::{Experiment, RunError};

/// Requests per batch: enough to hide memory latency, few enough for the L1 cache.
pub(super) const BATCH: usize = 1024;
pub(super) const BATCH_PAGES: u64 = 1 << 16;
const BATCHES_PER_PROGRESS: u32 = 16;
/// The run fails after this number of failed commands without a new host page.
const FAILED_WITHOUT_HEADWAY: u64 = 1 << 16;
/// Mapping units between two calls of the observer, checked after each batch.
const PAGES_PER_PROGRESS: u64 = 1 << 18;

pub(super) enum Stop {
    Observer,
    BadBlocks,
    Drive(CommandError),
    Failed(RunError),
}

impl Stop {
    /// True if the observer stopped the run, between or within commands.
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

struct Reports<'a> {
    observer: &'a mut dyn Observer,
    batches: u32,
    pages: u64,
}

pub(super) struct WindowEnd {
    pub(super) stats: DriveStats,
    pub(super) at: SimTime,
    pub(super) outstanding: Option<Outstanding>,
}

impl WindowEnd {
    pub(super) fn of(drive: &dyn Simulated, at: SimTime) -> Self {
        let outstanding = Outstanding::of(drive, at);
        Self { stats: drive.stats_at(at), at, outstanding }
    }
}

pub(super) struct Host<'a> {
    pub(super) drive: Box<dyn Simulated>,
    pub(super) queue: HostQueue,
    pub(super) power: Option<PowerSwitch>,
    pub(super) phase: Phase,
    pub(super) counted: HostPages,
    updated: u64,
    pub(super) window_start: Option<(DriveStats, SimTime)>,
    pub(super) window_end: Option<WindowEnd>,
    /// Commands outstanding when the window began.
    pub(super) outstanding_before: u64,
    /// Failed commands and host pages at the last new host page.
    failed_at: (u64, u64),
    pub(super) series: Series,
    /// Time of the last event of a job; [`HostQueue`] tracks other requests.
    pub(super) completed: SimTime,
    pub(super) requests: u64,
    pub(super) interval_ns: Option<u64>,
    /// Intervals since the warm-up began or, in a run from a state, since the window began.
    pub(super) timeline: Option<Box<Timeline>>,
    pub(super) completions: Vec<Completion>,
    bad_blocks: Option<BadBlockWatch>,
    pub(super) xray: Option<Box<Recorder>>,
    xray_frames: Option<u32>,
    log: EventLog,
    reports: Reports<'a>,
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
            phase: Phase {
                name: "prefill",
                counted: HostPages::Written,
                start: 0,
                total: None,
                span_ns: None,
            },
            counted: HostPages::of(experiment),
            updated: 0,
            window_start: None,
            window_end: None,
            outstanding_before: 0,
            failed_at: (0, 0),
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

    pub(super) fn hear_stop(&mut self) {
        self.drive.set_stop(self.reports.observer.stop_flag());
    }

    pub(super) fn begin_series(&mut self) {
        self.series = new_series(&*self.drive);
    }

    pub(super) fn take_series(&mut self) -> Vec<Sample> {
        std::mem::replace(&mut self.series, new_series(&*self.drive)).into_samples()
    }

    pub(super) fn writes_something(&self) -> bool {
        self.counted != HostPages::Touched
    }

    pub(super) fn is_measuring(&self) -> bool {
        self.window_start.is_some()
    }

    fn pages(&self) -> u64 {
        let counts = self.drive.host_counts();
        match self.phase.counted {
            HostPages::Written => counts.units_written,
            HostPages::Touched => counts.units_touched,
            HostPages::Updated => self.updated,
        }
    }

    pub(super) fn phase_pages(&self) -> u64 {
        self.pages() - self.phase.start
    }

    /// Begins a phase; outstanding requests stay outstanding.
    pub(super) fn begin(&mut self, name: &'static str, total: Option<u64>) {
        self.begin_phase(name, self.counted, total);
    }

    pub(super) fn ends_after(&mut self, now: SimTime, ns: Option<u64>) {
        self.phase.span_ns = ns.map(|ns| (now.as_ns(), now.as_ns().saturating_add(ns)));
    }

    pub(super) fn begin_writing(&mut self, name: &'static str, total: u64) {
        self.begin_phase(name, HostPages::Written, Some(total));
    }

    fn begin_phase(&mut self, name: &'static str, counted: HostPages, total: Option<u64>) {
        self.phase = Phase { name, counted, start: 0, total, span_ns: None };
        self.phase.start = self.pages();
        let end = total.map(|total| self.phase.start.saturating_add(total));
        self.queue.set_goal(end.and_then(|end| match counted {
            HostPages::Written => Some(Goal::Written(end)),
            HostPages::Touched => Some(Goal::Touched(end)),
            HostPages::Updated => None,
        }));
    }

    pub(super) fn is_reached(&self) -> bool {
        self.phase.total.is_some_and(|total| self.phase_pages() >= total)
    }

    pub(super) fn has_length(&self) -> bool {
        self.phase.total.is_some()
    }

    pub(super) fn waits_for_writes(&self) -> bool {
        self.phase.counted == HostPages::Written && !self.is_reached() && self.has_length()
    }

    pub(super) fn count_updates(&mut self, pages: u64) {
        self.updated += pages;
    }

    pub(super) fn now(&self) -> SimTime {
        self.queue.now().max(self.queue.finished()).max(self.completed)
    }

    /// Waits for all outstanding requests, then sets the pacing. Called before the warm-up, between
    /// repetitions of a trace, and when a file system waits for its disk.
    pub(super) fn set_pacing(&mut self, pacing: Pacing) -> Result<(), Stop> {
        self.finish()?;
        let goal = self.queue.goal();
        self.queue = HostQueue::new(pacing, self.now());
        self.queue.set_goal(goal);
        Ok(())
    }

    pub(super) fn finish(&mut self) -> Result<(), Stop> {
        while self.queue.in_flight() > 0 {
            self.advance(self.next_event())?;
        }
        self.check_time()
    }

    pub(super) fn finish_phase(&mut self) -> Result<(), Stop> {
        while self.queue.in_flight() > 0 && !self.is_reached() {
            self.advance(self.next_event())?;
        }
        self.check_time()
    }

    pub(super) fn next_event(&self) -> SimTime {
        self.drive.next_event().expect("a command that is outstanding completes")
    }

    fn check_progress(&mut self) -> Result<(), Stop> {
        let (failed, pages) = (self.drive.host_counts().all_errors(), self.pages());
        let (before, at) = self.failed_at;
        // A phase without a length in host pages ends by time or with its jobs, so failures cannot make it
        // endless.
        if pages != at || !self.has_length() {
            self.failed_at = (failed, pages);
        } else if failed - before >= FAILED_WITHOUT_HEADWAY {
            return Err(RunError::OnlyFailures { commands: failed - before }.into());
        }
        Ok(())
    }

    fn check_time(&self) -> Result<(), Stop> {
        if self.now() >= SimTime::from_ns(u64::MAX - 1) {
            return Err(RunError::EndOfTime.into());
        }
        Ok(())
    }

    /// Begins the window without draining the queue. `total` and `ns` are its length in host pages and in
    /// time, if known.
    pub(super) fn begin_measuring(
        &mut self,
        now: SimTime,
        total: Option<u64>,
        ns: Option<u64>,
    ) -> Result<(), Stop> {
        self.begin("measure", total);
        self.ends_after(now, ns);
        self.on_complete(now);
        // Ends the last sample of the warm-up: no sample may span the begin of the window.
        self.sample()?;
        if let Some(power) = &mut self.power {
            power.begin_measuring(self.drive.as_mut());
        }
        // Counters continue, and the window is the difference of two snapshots. Latency histograms are
        // cleared.
        self.drive.clear_latency();
        self.window_start = Some((self.drive.stats_at(now), now));
        self.outstanding_before = self.drive.outstanding() as u64;
        self.log = self.reports.observer.event_log();
        self.log.open(now);
        self.drive.set_log(self.log.clone());
        if let Some(frames) = self.xray_frames {
            // Without timing no time passes, so the distance between frames is a number of host pages.
            let is_timed = !self.drive.die_holders().is_empty();
            let clock = if is_timed { Clock::Time(ns) } else { Clock::Pages(total) };
            self.xray = Some(Box::new(Recorder::new(&*self.drive, frames, clock, now)));
        }
        Ok(())
    }

    pub(super) fn measure_from_now(&mut self, total: Option<u64>) -> Result<(), Stop> {
        let now = self.now();
        self.close_interval(now, 0);
        self.begin_measuring(now, total, None)?;
        self.begin_intervals(now, self.queue.in_flight() as u32);
        Ok(())
    }

    /// Ends the window at `end`; no earlier event may be due. Outstanding requests continue; `backlog`
    /// requests have arrived but are not issued.
    pub(super) fn end_measuring(&mut self, end: SimTime, backlog: u64) {
        if self.is_measuring() && self.window_end.is_none() {
            self.close_interval(end, backlog);
            self.window_end = Some(WindowEnd::of(&*self.drive, end));
            self.drive.set_log(EventLog::OFF);
            self.log.close(end);
        }
    }

    #[inline]
    pub(super) fn xray_due(&self) -> Option<SimTime> {
        self.xray.as_ref().and_then(|xray| xray.due_at())
    }

    #[inline]
    pub(super) fn sample_xray(&mut self, now: SimTime) {
        let Some(mut xray) = self.xray.take() else { return };
        let pages = self.phase_pages();
        if xray.is_due(now, pages) {
            xray.take(&*self.drive, now, pages);
        }
        self.xray = Some(xray);
    }

    pub(super) fn begin_intervals(&mut self, now: SimTime, outstanding: u32) {
        if let (Some(length_ns), None) = (self.interval_ns, &self.timeline) {
            let mut timeline = Timeline::new(length_ns, now, self.drive.stats_at(now));
            timeline.outstanding(now, outstanding);
            self.timeline = Some(Box::new(timeline));
        }
    }

    #[inline]
    pub(super) fn interval_end(&self) -> Option<SimTime> {
        self.timeline.as_ref().map(|timeline| timeline.due())
    }

    /// Ends the interval at `now`; no earlier event may be due.
    pub(super) fn close_interval(&mut self, now: SimTime, backlog: u64) {
        let measured = self.is_measuring();
        if let Some(timeline) = &mut self.timeline {
            timeline.close(now, AtEnd::of(&*self.drive, now, backlog, measured));
        }
    }

    pub(super) fn take_timeline(&mut self) -> Option<Timeline> {
        self.timeline.take().map(|timeline| *timeline)
    }

    pub(super) fn finish_xray(&mut self) -> Option<Xray> {
        let end = self.window_end.as_ref().map_or(self.now(), |end| end.at);
        let pages = self.phase_pages();
        self.xray.take().map(|xray| xray.finish(&*self.drive, end, pages))
    }

    /// The checker reads the whole medium, so it may be the first to find damage, which is no bug.
    pub(super) fn check_drive(&self) -> Result<(), RunError> {
        let checked = self.drive.check();
        match self.drive.failure() {
            Some(reason) => Err(RunError::Command(CommandError::Medium(reason.to_owned()))),
            None => Ok(checked?),
        }
    }

    #[inline]
    pub(super) fn count_request(&mut self) {
        self.requests += 1;
    }

    #[inline]
    pub(super) fn on_complete(&mut self, at: SimTime) {
        self.completed = self.completed.max(at);
    }

    /// Returns the end of recovery if power was cut. All outstanding requests are then lost.
    pub(super) fn after_power_cut(&mut self) -> Result<Option<SimTime>, Stop> {
        let Some(power) = &mut self.power else { return Ok(None) };
        let back = power.after_command(&mut self.drive, self.requests)?;
        if let Some(back) = back {
            self.on_complete(back);
        }
        Ok(back)
    }

    pub(super) fn run_checks(&mut self) -> Result<(), Stop> {
        if self.drive.host_counts().units_written >= self.series.due() {
            self.sample()?;
        }
        self.check_time()?;
        self.check_progress()?;
        self.sample_xray(self.now());
        self.report()?;
        if self.bad_blocks.as_mut().is_some_and(|watch| watch.check(&*self.drive)) {
            return Err(Stop::BadBlocks);
        }
        Ok(())
    }

    fn report(&mut self) -> Result<(), Stop> {
        let (virtual_ns, pages) = (self.now().as_ns(), self.drive.host_counts().units_touched);
        let reports = &mut self.reports;
        reports.batches += 1;
        let is_due = pages - reports.pages >= PAGES_PER_PROGRESS;
        if !is_due && !reports.batches.is_multiple_of(BATCHES_PER_PROGRESS) {
            return Ok(());
        }
        reports.pages = pages;
        let &Phase { name, total, span_ns, .. } = &self.phase;
        let progress = Progress { phase: name, done: self.phase_pages(), total, virtual_ns, span_ns };
        let reports = &mut self.reports;
        if reports.observer.progress(progress).is_break() { Err(Stop::Observer) } else { Ok(()) }
    }

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

pub(super) fn closed(host: HostConfig) -> Pacing {
    let interval_ns = match host.rate_iops {
        0 => 0,
        rate => 1_000_000_000 / u64::from(rate),
    };
    Pacing::Closed { depth: host.queue_depth, interval_ns }
}

fn new_series(drive: &dyn Simulated) -> Series {
    let interval = u64::from(drive.logical_units()) / 8;
    Series::new(interval, drive.stats(), drive.geometry().units_per_page())
}
