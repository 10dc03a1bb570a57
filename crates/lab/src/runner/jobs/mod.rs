//! Event loop in virtual time: several jobs, or one job with arrivals, pauses or phases in time.
//!
//! Events at the same time have this order:
//!
//! 1. the run ends;
//! 2. the drive advances and returns completions (but see [`Jobs::is_simultaneous`]);
//! 3. the job with the lowest number issues one request, then the loop starts over;
//! 4. an interval of the series ends.
//!
//! A freed queue slot is taken at the same instant. Of waiting requests, a job stores only the next arrival.

mod job;

use strobe_ssd::{Command, Completion, Range};
use strobe_types::{SimTime, State, Stored};

use self::job::Job;
use super::NEVER;
use super::host::{Host, Stop};
use crate::RunError;
use crate::experiment::{Amount, Experiment, JobConfig, WorkloadConfig};
use crate::record::Record;

/// Requests between two calls of [`Jobs::poll`].
const REQUESTS_PER_LOOK: u32 = 1024;

/// The run fails after this number of checks without progress in time or, in a phase of host pages, in host
/// pages.
const POLLS_WITHOUT_PROGRESS: u32 = 4096;

/// Length of a phase: a time or host pages. Without both, the phase ends with the last job.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limit {
    pub(super) ns: Option<u64>,
    pub(super) pages: Option<u64>,
}

impl Limit {
    pub(super) fn of(amount: Amount, capacity: u32) -> Self {
        Self { ns: amount.ns(), pages: amount.pages(capacity) }
    }
}

#[derive(Clone, Copy, Debug, Stored)]
struct Slot {
    arrival: SimTime,
    job: u16,
}

#[derive(State)]
pub(super) struct Jobs {
    #[state(skip)]
    measuring: bool,
    #[state(skip)]
    needs_time: bool,
    slots: Vec<Slot>,
    free: Vec<u32>,
    outstanding: u32,
    group: u32,
    now: SimTime,
    unseen: u32,
    /// Checks since the last progress, and its time and host pages.
    idle_polls: (u32, SimTime, u64),
    #[state(table)]
    jobs: Vec<Job>,
    #[state(table)]
    due: Vec<SimTime>,
}

impl Jobs {
    /// `None` if the workload is a trace or a file system.
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
                    io_bytes: None,
                    end_flush: false,
                    stonewall: false,
                    workload: workload.clone(),
                };
                jobs.push(Job::new(name, &alone, experiment, experiment.seed, 0)?);
            }
            WorkloadConfig::Jobs(configs) => {
                let mut group = 0;
                for (at, config) in configs.iter().enumerate() {
                    group += u32::from(config.stonewall && at > 0);
                    for name in config.names() {
                        // The first job has the random numbers of a run in which it is alone.
                        let seed = job::seed(experiment.seed, jobs.len());
                        let job = Job::new(name, config, experiment, seed, group);
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
            group: 0,
            now: SimTime::ZERO,
            measuring: false,
            unseen: 0,
            idle_polls: (0, SimTime::ZERO, 0),
            needs_time: false,
        }))
    }

    pub(super) fn start(&mut self, now: SimTime) {
        self.now = now;
        for (job, due) in self.jobs.iter_mut().zip(&mut self.due) {
            match job.group() {
                0 => job.start(now),
                _ => job.wait(),
            }
            *due = job.due();
        }
    }

    fn start_next_group(&mut self) -> bool {
        let (group, now) = (self.group + 1, self.now);
        let mut is_any = false;
        for (job, due) in self.jobs.iter_mut().zip(&mut self.due).filter(|(job, _)| job.group() == group) {
            job.start(now);
            if self.measuring {
                job.measure(now);
            }
            *due = job.due();
            is_any = true;
        }
        self.group += u32::from(is_any);
        is_any
    }

    pub(super) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    pub(super) fn backlog(&mut self, now: SimTime) -> u64 {
        self.jobs.iter_mut().map(|job| job.backlog(now)).sum()
    }

    pub(super) fn have_ends(&self) -> bool {
        self.jobs.iter().all(Job::has_end)
    }

    pub(super) fn now(&self) -> SimTime {
        self.now
    }

    pub(super) fn measure(&mut self) {
        self.measuring = true;
        let now = self.now;
        self.jobs.iter_mut().for_each(|job| job.measure(now));
    }

    /// True if a request is issued at the drive's current instant and no completion is due. The drive then
    /// sees the request before its dies start operations, as in a batch.
    fn is_simultaneous(&self, host: &Host<'_>, issue_at: SimTime) -> bool {
        issue_at == self.now && !host.drive.has_completion(issue_at)
    }

    pub(super) fn run(&mut self, host: &mut Host<'_>, ns: Option<u64>) -> Result<(), Stop> {
        let end = ns.map_or(NEVER, |ns| self.now + ns);
        self.needs_time = !host.has_length();
        while !host.is_reached() {
            // The comparisons below resolve events at the same time in the order listed at the top of this
            // file.
            let (job, issue_at) = earliest(&self.due, self.now);
            let event_at = host.drive.next_event().unwrap_or(NEVER);
            let interval_end = host.interval_end().unwrap_or(NEVER);
            let is_idle = issue_at == NEVER && self.outstanding == 0;
            let pause_end = if is_idle { self.pause_end() } else { None };
            if is_idle && pause_end.is_none() {
                // No job can issue and no completion is pending: the group has ended, and jobs behind a
                // stonewall start.
                if self.start_next_group() {
                    continue;
                }
                self.ended(end)?;
                break;
            }
            // A job that pauses past its runtime ends with the runtime, and time passes until then.
            let issue_at = pause_end.unwrap_or(issue_at);
            // The state does not change before the next event, so a due frame may be taken now.
            let next = issue_at.min(event_at).min(end);
            if let Some(due) = host.xray_due().filter(|&due| due <= next && next != NEVER) {
                host.sample_xray(due.max(self.now));
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
            } else if event_at <= issue_at && !self.is_simultaneous(host, issue_at) {
                if event_at == NEVER {
                    return Err(RunError::EndOfTime.into());
                }
                self.advance(host, event_at)?;
            } else {
                self.now = issue_at;
                if pause_end.is_none() {
                    self.issue(host, job)?;
                }
            }
        }
        self.poll(host)
    }

    /// Last end of the jobs that pause past their runtime.
    fn pause_end(&self) -> Option<SimTime> {
        self.jobs.iter().filter_map(|job| job.pause_ends(self.now)).max()
    }

    fn ended(&self, end: SimTime) -> Result<(), Stop> {
        // A job whose next arrival lies beyond the end of virtual time has not ended, so the run fails.
        let has_more = self.jobs.iter().any(|job| job.next_arrival() == Some(NEVER));
        if has_more && end == NEVER { Err(RunError::EndOfTime.into()) } else { Ok(()) }
    }

    /// Ends the window. Outstanding requests count neither in the window nor in the interval series.
    pub(super) fn end_measuring(&mut self, host: &mut Host<'_>) {
        let now = self.now;
        host.end_measuring(now, self.backlog(now));
        self.jobs.iter_mut().for_each(|job| job.end_measuring(now));
    }

    pub(super) fn into_records(self) -> Vec<Record> {
        self.jobs.into_iter().map(Job::into_record).collect()
    }

    fn issue(&mut self, host: &mut Host<'_>, number: usize) -> Result<(), Stop> {
        let (now, job) = (self.now, &mut self.jobs[number]);
        // `NEVER` hides the job from `earliest` until another event makes the job due.
        if job.is_idle(now) {
            self.due[number] = NEVER;
            return Ok(());
        }
        let (request, arrival) = job.take(now);
        let one = [Range::new(request.lba, request.sectors)];
        let slot = Slot { arrival, job: number as u16 };
        self.due[number] = job.due();
        // Tags are reused, so the table is as long as the largest number of outstanding requests.
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
        host.record_outstanding(now, self.outstanding);
        let several = self.jobs[number].ranges_of(&request);
        let command = several.map_or_else(|| Command::of_request(&request, &one), Command::Deallocate);
        host.drive.submit(now, u64::from(tag), &command, None);
        host.count_request();
        if host.power.is_some() {
            self.after_power_cut(host)?;
        }
        self.unseen += 1;
        if self.unseen >= REQUESTS_PER_LOOK { self.poll(host) } else { Ok(()) }
    }

    fn advance(&mut self, host: &mut Host<'_>, event_at: SimTime) -> Result<(), Stop> {
        self.now = self.now.max(event_at);
        let mut last = None;
        let received = host.receive(event_at, |_, completion| {
            let &Completion { tag, at, kind, issued, bytes, .. } = completion;
            let slot = self.slots[tag as usize];
            self.free.push(tag as u32);
            self.outstanding -= 1;
            let number = usize::from(slot.job);
            let job = &mut self.jobs[number];
            job.complete(at);
            // A freed queue slot may make the job due at this instant.
            self.due[number] = job.due();
            last = last.max(Some(at));
            // A refused command ends the run and is not counted. A failed one (unrecovered read error) is an
            // error.
            if let (true, false, Some(op)) = (self.measuring, completion.is_refused(), kind.op()) {
                match completion.result {
                    Ok(_) => job.record.complete(op, bytes, at.since(issued), at.since(slot.arrival)),
                    Err(_) => job.record.fail(op),
                }
            }
            self.outstanding
        });
        if let Some(at) = last {
            host.on_complete(at);
        }
        received?;
        if host.power.is_some() { self.after_power_cut(host) } else { Ok(()) }
    }

    fn after_power_cut(&mut self, host: &mut Host<'_>) -> Result<(), Stop> {
        let Some(back) = host.after_power_cut()? else { return Ok(()) };
        self.now = self.now.max(back);
        // The cut lost all outstanding requests, so their tags are free.
        self.slots.clear();
        self.free.clear();
        self.outstanding = 0;
        host.record_outstanding(self.now, 0);
        for (job, due) in self.jobs.iter_mut().zip(&mut self.due) {
            job.on_power_cut(self.now);
            *due = job.due();
        }
        Ok(())
    }

    fn poll(&mut self, host: &mut Host<'_>) -> Result<(), Stop> {
        self.unseen = 0;
        let goes_on = self.outstanding > 0 || self.due.iter().any(|&due| due != NEVER);
        // No remaining job writes, so a phase measured in written host pages would never end.
        if goes_on && host.waits_for_writes() && !self.jobs.iter().any(|job| job.can_write(self.now)) {
            return Err(RunError::NoWriterLeft.into());
        }
        let pages = if self.needs_time { 0 } else { host.phase_pages() };
        let (looks, at, before) = self.idle_polls;
        let looks = if (at, before) == (self.now, pages) { looks + 1 } else { 0 };
        self.idle_polls = (looks, self.now, pages);
        if looks > POLLS_WITHOUT_PROGRESS {
            return Err(RunError::NoTime.into());
        }
        host.on_complete(self.now);
        host.run_checks()
    }

    fn close_intervals(&mut self, host: &mut Host<'_>, until: SimTime) {
        host.close_intervals(until, |due| {
            self.now = self.now.max(due);
            self.backlog(due)
        });
    }
}

/// The earliest job, by a linear scan: with few jobs it is faster than a heap. The lowest number wins a tie.
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
