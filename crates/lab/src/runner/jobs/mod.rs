//! Several jobs, or one that does not simply wait for the drive: one loop over all that happens, in order of time.
//!
//! Everything goes through the drive's door. What happens at the same time happens in this order:
//!
//! 1. the run comes to its end;
//! 2. the drive does what it does, and hands out what is complete;
//! 3. jobs issue requests, the one with the lowest number first; each issues one, then the loop looks again;
//! 4. an interval of the series ends.
//!
//! So a place that becomes free is taken at once, and results depend on nothing but the experiment. A request that has
//! arrived waits in its generator, which knows the next arrival only: an overloaded run needs no more memory than another.

mod job;

use strobe_ssd::{Command, Completion, Range};
use strobe_types::{SimTime, State, Stored};

use self::job::Job;
use super::NEVER;
use super::host::{Host, Stop};
use crate::RunError;
use crate::experiment::{Amount, Experiment, JobConfig, WorkloadConfig};
use crate::record::Record;
use crate::timeline::{AtEnd, Timeline};

/// Requests after which samples are taken, limits looked at and the observer is called.
const REQUESTS_PER_LOOK: u32 = 1024;

/// Checks without progress after which the run fails. Progress is virtual time or, in a phase measured in host
/// pages, a host page.
const LOOKS_WITHOUT_HEADWAY: u32 = 4096;

/// Length of a phase: a time, host pages, or until no job has anything to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limit {
    pub(super) ns: Option<u64>,
    pub(super) pages: Option<u64>,
}

impl Limit {
    /// Converts `amount` for a drive of `capacity` logical units.
    pub(super) fn of(amount: Amount, capacity: u32) -> Self {
        Self { ns: amount.ns(), pages: amount.pages(capacity) }
    }
}

/// A request that the drive has.
#[derive(Clone, Copy, Debug, Stored)]
struct Slot {
    arrival: SimTime,
    job: u16,
}

/// The jobs of a run.
#[derive(State)]
pub(super) struct Jobs {
    #[state(skip)]
    completions: Vec<Completion>,
    #[state(skip)]
    pub(super) timeline: Option<Timeline>,
    #[state(skip)]
    measuring: bool,
    /// True if only time ends the run.
    #[state(skip)]
    needs_time: bool,
    /// Requests outstanding, by tag, and tags that are free.
    slots: Vec<Slot>,
    free: Vec<u32>,
    outstanding: u32,
    now: SimTime,
    /// Requests since the last look.
    unseen: u32,
    /// Looks since there was headway, and time and host pages then.
    idle_looks: (u32, SimTime, u64),
    #[state(table)]
    jobs: Vec<Job>,
    /// When each can issue its next request.
    #[state(table)]
    due: Vec<SimTime>,
}

impl Jobs {
    /// The jobs of `experiment`, made before anything runs; `None` if its workload is a trace or a file system.
    pub(super) fn new(experiment: &Experiment) -> Result<Option<Self>, RunError> {
        let mut jobs = Vec::new();
        match &experiment.workload {
            WorkloadConfig::Trace(_) | WorkloadConfig::Lfs(_) => return Ok(None),
            WorkloadConfig::Synthetic(workload) => {
                let name = workload.generator.kind.name().to_owned();
                let alone = JobConfig {
                    name: name.clone(),
                    numjobs: 1,
                    startdelay: None,
                    runtime: None,
                    workload: workload.clone(),
                };
                jobs.push(Job::new(name, &alone, experiment, experiment.seed)?);
            }
            WorkloadConfig::Jobs(configs) => {
                for (at, config) in configs.iter().enumerate() {
                    for name in config.names() {
                        // The first job has the numbers of a run in which it is alone.
                        let seed = job::seed(experiment.seed, jobs.len());
                        let job = Job::new(name, config, experiment, seed);
                        jobs.push(job.map_err(|error| error.of_job(at, &config.name))?);
                    }
                }
            }
        }
        let due = vec![NEVER; jobs.len()];
        Ok(Some(Self {
            jobs,
            due,
            slots: Vec::new(),
            free: Vec::new(),
            outstanding: 0,
            now: SimTime::ZERO,
            completions: Vec::new(),
            timeline: None,
            measuring: false,
            unseen: 0,
            idle_looks: (0, SimTime::ZERO, 0),
            needs_time: false,
        }))
    }

    /// All jobs begin at `now`, each with its own delay, and with them a series of intervals, if there is to be one.
    pub(super) fn start(&mut self, host: &Host<'_>, now: SimTime, interval_ns: Option<u64>) {
        self.now = now;
        for (job, due) in self.jobs.iter_mut().zip(&mut self.due) {
            job.start(now);
            *due = job.due();
        }
        self.begin_series(host, interval_ns);
    }

    /// A series of intervals begins now, if there is to be one.
    pub(super) fn begin_series(&mut self, host: &Host<'_>, interval_ns: Option<u64>) {
        let now = self.now;
        self.timeline = interval_ns.map(|length_ns| Timeline::new(length_ns, now, host.drive.stats_at(now)));
        if let Some(timeline) = &mut self.timeline {
            timeline.outstanding(now, self.outstanding);
        }
    }

    /// True if every job ends by itself.
    pub(super) fn have_ends(&self) -> bool {
        self.jobs.iter().all(|job| job.end() != NEVER)
    }

    /// When the last thing happened.
    pub(super) fn now(&self) -> SimTime {
        self.now
    }

    /// From now on requests that complete count.
    pub(super) fn measure(&mut self, host: &Host<'_>) {
        self.close_interval(host);
        self.measuring = true;
        let now = self.now;
        self.jobs.iter_mut().for_each(|job| job.measure(now));
    }

    /// True if a request is issued at the drive's present instant and no completion is due. The drive then sees
    /// it before dies begin anything, as it sees requests of a batch.
    fn comes_together(&self, host: &Host<'_>, issue_at: SimTime) -> bool {
        issue_at == self.now && !host.drive.has_completion(issue_at)
    }

    /// Goes on for `ns`, if there is such a limit, until the phase at hand has its host pages, or until no job has anything
    /// to do.
    pub(super) fn run(&mut self, host: &mut Host<'_>, ns: Option<u64>) -> Result<(), Stop> {
        let end = ns.map_or(NEVER, |ns| self.now + ns);
        self.needs_time = !host.has_length();
        while !host.is_reached() {
            let (job, issue_at) = earliest(&self.due, self.now);
            let event_at = host.drive.next_event().unwrap_or(NEVER);
            let interval_end = self.timeline.as_ref().map_or(NEVER, |timeline| timeline.due());
            if issue_at == NEVER && self.outstanding == 0 {
                self.ended(end)?;
                break;
            }
            // What is there now is there until the next thing happens.
            let next = issue_at.min(event_at).min(end);
            if let Some(due) = host.xray_due().filter(|&due| due <= next && next != NEVER) {
                host.look_inside(due.max(self.now));
                continue;
            }
            let happens_at = issue_at.min(event_at);
            if end <= happens_at && end != NEVER {
                self.close_intervals(host, end);
                self.now = self.now.max(end);
                break;
            }
            if interval_end < happens_at && happens_at != NEVER {
                self.close_intervals(host, happens_at);
            } else if event_at <= issue_at && !self.comes_together(host, issue_at) {
                if event_at == NEVER {
                    return Err(RunError::EndOfTime.into());
                }
                self.advance(host, event_at)?;
            } else {
                self.now = issue_at;
                self.issue(host, job)?;
            }
        }
        self.look(host)
    }

    /// No job has anything to do any more.
    fn ended(&self, end: SimTime) -> Result<(), Stop> {
        // Those whose next arrival lies behind the end of time have not ended: time has.
        let has_more = self.jobs.iter().any(|job| job.next_arrival() == Some(NEVER));
        if has_more && end == NEVER { Err(RunError::EndOfTime.into()) } else { Ok(()) }
    }

    /// Ends the measured window now, and the series with it. Outstanding requests belong to neither.
    pub(super) fn end_measuring(&mut self, host: &mut Host<'_>) {
        self.close_interval(host);
        let now = self.now;
        self.jobs.iter_mut().for_each(|job| job.end_measuring(now));
        host.end_measuring(now);
    }

    /// Measurements of each job.
    pub(super) fn into_records(self) -> (Vec<Record>, Option<Timeline>) {
        (self.jobs.into_iter().map(Job::into_record).collect(), self.timeline)
    }

    /// Hands the next request of a job to the drive.
    fn issue(&mut self, host: &mut Host<'_>, number: usize) -> Result<(), Stop> {
        let (now, job) = (self.now, &mut self.jobs[number]);
        if now >= job.end() {
            self.due[number] = NEVER;
            return Ok(());
        }
        let (request, arrival) = job.take(now);
        let one = [Range::new(request.lba, request.sectors)];
        let slot = Slot { arrival, job: number as u16 };
        self.due[number] = job.due();
        let tag = match self.free.pop() {
            Some(tag) => {
                self.slots[tag as usize] = slot;
                tag
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.outstanding += 1;
        if let Some(timeline) = &mut self.timeline {
            timeline.outstanding(now, self.outstanding);
        }
        let several = self.jobs[number].ranges_of(&request);
        let command = several.map_or_else(|| Command::of_request(&request, &one), Command::Deallocate);
        host.drive.submit(now, u64::from(tag), &command, None);
        host.count_request();
        if host.power.is_some() {
            self.after_power_cut(host)?;
        }
        self.unseen += 1;
        if self.unseen >= REQUESTS_PER_LOOK { self.look(host) } else { Ok(()) }
    }

    /// Lets the drive work until `event_at`, when something happens in it.
    fn advance(&mut self, host: &mut Host<'_>, event_at: SimTime) -> Result<(), Stop> {
        self.now = self.now.max(event_at);
        let mut completions = std::mem::take(&mut self.completions);
        host.drive.advance(event_at, &mut completions);
        let mut refused = None;
        for Completion { tag, at, kind, issued, bytes, result } in completions.drain(..) {
            let slot = self.slots[tag as usize];
            self.free.push(tag as u32);
            self.outstanding -= 1;
            let number = usize::from(slot.job);
            let job = &mut self.jobs[number];
            if let Some(timeline) = &mut self.timeline {
                timeline.outstanding(at, self.outstanding);
            }
            job.complete(at);
            self.due[number] = job.due();
            host.on_complete(at);
            if let Err(error) = result
                && !error.is_unreadable()
            {
                refused.get_or_insert(error);
                continue;
            }
            let Some(op) = kind.op() else { continue };
            let latency_ns = at.since(issued);
            if self.measuring {
                job.record.complete(op, bytes, latency_ns, at.since(slot.arrival));
            }
            if let Some(timeline) = &mut self.timeline {
                timeline.complete(op, bytes, latency_ns);
            }
        }
        self.completions = completions;
        match refused {
            Some(error) => Err(Stop::Drive(error)),
            None if host.power.is_some() => self.after_power_cut(host),
            None => Ok(()),
        }
    }

    /// If power was cut: what was outstanding is lost, and jobs go on when it is back.
    fn after_power_cut(&mut self, host: &mut Host<'_>) -> Result<(), Stop> {
        let Some(back) = host.after_power_cut()? else { return Ok(()) };
        self.now = self.now.max(back);
        self.slots.clear();
        self.free.clear();
        self.outstanding = 0;
        if let Some(timeline) = &mut self.timeline {
            timeline.outstanding(self.now, 0);
        }
        for (job, due) in self.jobs.iter_mut().zip(&mut self.due) {
            job.on_power_cut(self.now);
            *due = job.due();
        }
        Ok(())
    }

    /// Takes samples and looks whether the run should go on.
    fn look(&mut self, host: &mut Host<'_>) -> Result<(), Stop> {
        self.unseen = 0;
        let goes_on = self.outstanding > 0 || self.due.iter().any(|&due| due != NEVER);
        if goes_on && host.waits_for_writes() && !self.jobs.iter().any(|job| job.can_write(self.now)) {
            return Err(RunError::NoWriterLeft.into());
        }
        let pages = if self.needs_time { 0 } else { host.phase_pages() };
        let (looks, at, before) = self.idle_looks;
        let looks = if (at, before) == (self.now, pages) { looks + 1 } else { 0 };
        self.idle_looks = (looks, self.now, pages);
        if looks > LOOKS_WITHOUT_HEADWAY {
            return Err(RunError::NoTime.into());
        }
        host.on_complete(self.now);
        host.keep_house()
    }

    /// Ends all intervals that end before `until`, when the next thing happens.
    fn close_intervals(&mut self, host: &Host<'_>, until: SimTime) {
        while let Some(due) = self.timeline.as_ref().map(|timeline| timeline.due()).filter(|&due| due < until)
        {
            self.now = self.now.max(due);
            self.close_interval(host);
        }
    }

    fn close_interval(&mut self, host: &Host<'_>) {
        let now = self.now;
        let Some(timeline) = &mut self.timeline else { return };
        let backlog = self.jobs.iter_mut().map(|job| job.backlog(now)).sum();
        timeline.close(now, AtEnd::of(&*host.drive, now, backlog, self.measuring));
    }
}

/// The first of those who can issue soonest, and when that is; what was due before `now` is due now. There are few jobs: a
/// look at each is quicker than a heap.
#[inline]
fn earliest(due: &[SimTime], now: SimTime) -> (usize, SimTime) {
    let mut first = (0, NEVER);
    for (at, &time) in due.iter().enumerate() {
        let time = time.max(now);
        if time < first.1 {
            first = (at, time);
        }
    }
    first
}
