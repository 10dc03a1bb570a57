//! One job: requests, arrivals, pauses, end.

use strobe_types::{
    Lba, Op, Prng, Range, Request, SECTOR_BYTES, SimTime, State, StateError, StateReader, StateWriter, Stored,
};
use strobe_workload::arrivals::Arrivals;

use crate::RunError;
use crate::experiment::{Experiment, JobConfig, PaceConfig};
use crate::record::Record;
use crate::runner::NEVER;
use crate::runner::generate::Generator;

/// Longest backlog counted by arrivals. A longer one (a drive far too slow for the load) is computed from the
/// rate.
const COUNTED_MAX: u64 = 1 << 20;

/// Seed of a job; the first job uses the seed of the run.
pub(super) fn seed(seed: u64, number: usize) -> u64 {
    match number {
        0 => seed,
        _ => Prng::derive(seed, &format!("job {number}")).bits(),
    }
}

pub(super) struct Job {
    requests: Generator,
    writes: bool,
    depth: u32,
    outstanding: u32,
    rate_iops: u32,
    pace: PaceConfig,
    delay_ns: u64,
    runtime_ns: Option<u64>,
    gaps: Prng,
    /// In open loop: a cursor at the next arrival to issue, and a second one that counts the backlog.
    arrivals: Option<(Arrivals, Arrivals)>,
    /// Arrival of the last request issued. A flush has the arrival of the request before it.
    arrival: SimTime,
    /// Stonewall group. A group begins when all groups with a lower number have ended.
    group: u32,
    begin: SimTime,
    end: SimTime,
    left_bytes: Option<u64>,
    owes_flush: bool,
    think: Think,
    pub(super) record: Record,
}

#[derive(Clone, Copy, Debug, Stored)]
struct Think {
    ns: u64,
    blocks: u32,
    issued: u32,
    is_due: bool,
    until: SimTime,
}

impl Job {
    pub(super) fn new(
        name: String,
        config: &JobConfig,
        experiment: &Experiment,
        seed: u64,
        group: u32,
    ) -> Result<Self, RunError> {
        let workload = &config.workload;
        let requests = Generator::new(&workload.generator, &workload.host, &experiment.drive, seed)?;
        let pace = workload.pace.clone();
        Ok(Self {
            requests,
            writes: workload.generator.writes(),
            depth: workload.host.queue_depth.max(1),
            outstanding: 0,
            rate_iops: workload.host.rate_iops,
            delay_ns: config.startdelay.map_or(0, |delay| delay.as_ns()),
            runtime_ns: config.runtime.map(|runtime| runtime.as_ns()),
            gaps: Prng::derive(seed, "workload arrival"),
            arrivals: None,
            arrival: SimTime::ZERO,
            group,
            begin: NEVER,
            end: NEVER,
            left_bytes: config.io_bytes,
            owes_flush: config.end_flush,
            think: Think {
                ns: pace.thinktime.map_or(0, |time| time.as_ns()),
                blocks: pace.thinktime_blocks,
                issued: 0,
                is_due: false,
                until: SimTime::ZERO,
            },
            pace,
            record: Record::new(name, workload.is_open_loop()),
        })
    }

    pub(super) fn group(&self) -> u32 {
        self.group
    }

    pub(super) fn wait(&mut self) {
        self.start(SimTime::ZERO);
        (self.begin, self.end) = (NEVER, NEVER);
    }

    pub(super) fn start(&mut self, now: SimTime) {
        self.begin = now + self.delay_ns;
        self.end = self.runtime_ns.map_or(NEVER, |ns| self.begin + ns);
        let (process, points) = (self.pace.rate_process, self.pace.points());
        let gaps = self.gaps.clone();
        let arrivals = match (self.rate_iops, points.is_empty()) {
            (0, true) => None,
            (iops, true) => Some(Arrivals::constant(process, iops, self.begin, gaps)),
            (_, false) => {
                let repeat_ns = self.pace.rate_repeat.map(|repeat| repeat.as_ns());
                Some(Arrivals::curve(process, &points, repeat_ns, self.begin, gaps))
            }
        };
        self.arrivals = arrivals.map(|arrivals| (arrivals.clone(), arrivals));
    }

    pub(super) fn has_end(&self) -> bool {
        self.runtime_ns.is_some() || self.left_bytes.is_some()
    }

    /// End of a job whose pause lasts longer than its runtime. Until then the job is neither due nor over.
    pub(super) fn pause_ends(&self, now: SimTime) -> Option<SimTime> {
        let is_pausing = self.begin != NEVER && self.think.until >= self.end && self.left_bytes != Some(0);
        (is_pausing && self.end != NEVER && now < self.end).then_some(self.end)
    }

    #[inline]
    fn is_over(&self, now: SimTime) -> bool {
        now >= self.end || self.left_bytes == Some(0)
    }

    #[inline]
    fn may_flush(&self) -> bool {
        self.owes_flush && self.outstanding == 0 && self.begin != NEVER
    }

    #[inline]
    pub(super) fn is_idle(&self, now: SimTime) -> bool {
        self.is_over(now) && !self.may_flush()
    }

    pub(super) fn can_write(&self, now: SimTime) -> bool {
        let has_more = self.next_arrival().is_none_or(|next| next != NEVER);
        self.writes && (self.outstanding > 0 || !self.is_over(now) && has_more)
    }

    pub(super) fn next_arrival(&self) -> Option<SimTime> {
        self.arrivals.as_ref().and_then(|(arrivals, _)| arrivals.next())
    }

    /// Earliest time of the next request. A past time means now; `NEVER` means not before another event.
    #[inline]
    pub(super) fn due(&self) -> SimTime {
        // Only a completion or the start of the group makes such a job due again.
        if self.outstanding >= self.depth || self.think.is_due || self.begin == NEVER {
            return NEVER;
        }
        if self.left_bytes == Some(0) {
            return if self.may_flush() { self.begin } else { NEVER };
        }
        let ready = match &self.arrivals {
            // A flush has no arrival: it follows the request before it at once.
            Some(_) if self.requests.next_is_flush() => self.begin,
            Some((arrivals, _)) => arrivals.next().unwrap_or(NEVER),
            None => self.begin,
        };
        let due = ready.max(self.think.until);
        if due < self.end {
            due
        } else if self.may_flush() {
            self.end
        } else {
            NEVER
        }
    }

    #[inline]
    pub(super) fn take(&mut self, now: SimTime) -> (Request, SimTime) {
        // Only the final flush is left.
        if self.is_over(now) {
            self.owes_flush = false;
            self.outstanding += 1;
            return (Request::new(Op::Flush, Lba::new(0), 0), now);
        }
        let request = self.requests.next();
        if let Some(left) = &mut self.left_bytes {
            *left = left.saturating_sub(u64::from(request.sectors) * SECTOR_BYTES);
        }
        match &mut self.arrivals {
            // A flush shares the arrival of the request before it, so it does not consume one.
            Some((arrivals, _)) if request.op != Op::Flush => {
                self.arrival = arrivals.next().unwrap_or(now);
                arrivals.advance();
            }
            Some(_) => {}
            None => self.arrival = now,
        }
        self.outstanding += 1;
        let think = &mut self.think;
        // From now on the job issues nothing. The pause begins when all outstanding requests are complete.
        if think.ns > 0 {
            think.issued += 1;
            think.is_due = think.issued >= think.blocks;
        }
        (request, self.arrival)
    }

    #[inline]
    pub(super) fn ranges_of(&self, request: &Request) -> Option<&[Range]> {
        self.requests.ranges_of(request)
    }

    #[inline]
    pub(super) fn complete(&mut self, now: SimTime) {
        self.outstanding -= 1;
        // A job limited by bytes ends with its last completion, and its rates are taken over the time until
        // then.
        if self.outstanding == 0 && self.left_bytes == Some(0) && !self.owes_flush {
            self.end = self.end.min(now);
        }
        if self.outstanding == 0 && self.think.is_due {
            let think = &mut self.think;
            (think.is_due, think.issued, think.until) = (false, 0, now + think.ns);
        }
    }

    pub(super) fn on_power_cut(&mut self, now: SimTime) {
        self.outstanding = 0;
        // No completion follows the cut, so the pause begins at the cut.
        if self.think.is_due {
            let think = &mut self.think;
            (think.is_due, think.issued, think.until) = (false, 0, now + think.ns);
        }
    }

    pub(super) fn measure(&mut self, now: SimTime) {
        let arrived = self.count_arrived(now);
        let begin = if self.begin == NEVER { now } else { self.begin.max(now) };
        self.record.begin(begin, arrived);
    }

    pub(super) fn end_measuring(&mut self, now: SimTime) {
        if self.begin == NEVER {
            // A job behind a stonewall may not have begun: its record is empty.
            self.record.begin(now, 0);
            self.record.end(now, 0, 0, 0);
            return;
        }
        let arrived = self.count_arrived(now);
        // The oldest waiting request is the next arrival, because a job issues in order of arrival.
        let waits_since = self.next_arrival().filter(|&next| next < now && next < self.end);
        let behind_ns = waits_since.map_or(0, |next| now.since(next));
        let backlog = arrived.saturating_sub(self.issued());
        // A job that has already ended keeps its end, unless requests were still outstanding.
        let end = if self.end < now && self.outstanding == 0 { self.end } else { now };
        self.record.end(end, arrived, backlog, behind_ns);
    }

    pub(super) fn backlog(&mut self, now: SimTime) -> u64 {
        let arrived = self.count_arrived(now);
        arrived.saturating_sub(self.issued())
    }

    fn issued(&self) -> u64 {
        self.arrivals.as_ref().map_or(0, |(arrivals, _)| arrivals.count())
    }

    /// Number of requests that arrived before `now`. The second cursor visits each waiting request once, not
    /// once per call.
    fn count_arrived(&mut self, now: SimTime) -> u64 {
        let until = now.min(self.end);
        let Some((arrivals, counted)) = &mut self.arrivals else { return 0 };
        if arrivals.next().is_none_or(|next| next >= until) {
            return arrivals.count();
        }
        // All requests counted earlier have been issued: counting continues at the issuing cursor.
        if counted.count() < arrivals.count() {
            counted.clone_from(arrivals);
        }
        let waiting = counted.count() - arrivals.count();
        let expected = counted.advance_to(until, COUNTED_MAX.saturating_sub(waiting));
        counted.count().saturating_add(expected)
    }

    pub(super) fn into_record(self) -> Record {
        self.record
    }
}

impl State for Job {
    fn save_state(&self, out: &mut StateWriter<'_>) {
        // States are saved before the measured window, when the record is empty.
        let Self {
            requests,
            writes: _,
            depth: _,
            outstanding,
            rate_iops: _,
            pace: _,
            delay_ns: _,
            runtime_ns: _,
            group: _,
            ..
        } = self;
        let Self { gaps: _, arrivals, arrival, begin, end, left_bytes, owes_flush, think, record: _, .. } =
            self;
        requests.save_state(out);
        outstanding.store(out);
        arrivals.is_some().store(out);
        if let Some((arrivals, counted)) = arrivals {
            arrivals.save_state(out);
            counted.save_state(out);
        }
        (*arrival, *begin, *end).store(out);
        (*left_bytes, *owes_flush).store(out);
        think.store(out);
    }

    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.requests.load_state(from)?;
        self.outstanding = Stored::restored(from)?;
        match (bool::restored(from)?, &mut self.arrivals) {
            (true, Some((arrivals, counted))) => {
                arrivals.load_state(from)?;
                counted.load_state(from)?;
            }
            (false, None) => {}
            _ => return Err(StateError::Unfit("jobs with other arrivals")),
        }
        (self.arrival, self.begin, self.end) = Stored::restored(from)?;
        (self.left_bytes, self.owes_flush) = Stored::restored(from)?;
        self.think = Stored::restored(from)?;
        Ok(())
    }
}
