//! One job: its requests, when it issues them, and what was measured of it.

use strobe_types::{Op, Prng, Range, Request, SimTime, State, StateError, StateReader, StateWriter, Stored};
use strobe_workload::arrivals::Arrivals;

use crate::RunError;
use crate::experiment::{Experiment, JobConfig, PaceConfig};
use crate::record::Record;
use crate::runner::NEVER;
use crate::runner::generate::Generator;

/// Waiting requests that are counted one by one; of more than that, which only a hopelessly late drive has, the number is
/// taken from the rate.
const COUNTED_MAX: u64 = 1 << 20;

/// The seed of the job with this number. The first has the seed of the run itself.
pub(super) fn seed(seed: u64, number: usize) -> u64 {
    match number {
        0 => seed,
        _ => Prng::derive(seed, &format!("job {number}")).bits(),
    }
}

pub(super) struct Job {
    requests: Generator,
    /// True if some of its requests are writes.
    writes: bool,
    depth: u32,
    outstanding: u32,
    rate_iops: u32,
    pace: PaceConfig,
    delay_ns: u64,
    runtime_ns: Option<u64>,
    gaps: Prng,
    /// The arrivals of an open loop; the second has come as far as somebody has counted.
    arrivals: Option<(Arrivals, Arrivals)>,
    /// Arrival of the request issued last: a flush comes with the one before it.
    arrival: SimTime,
    begin: SimTime,
    end: SimTime,
    think: Think,
    pub(super) record: Record,
}

/// Pauses.
#[derive(Clone, Copy, Debug, Stored)]
struct Think {
    ns: u64,
    blocks: u32,
    /// Requests since the last pause.
    issued: u32,
    /// True if the pause begins when all requests are complete.
    is_due: bool,
    until: SimTime,
}

impl Job {
    pub(super) fn new(
        name: String,
        config: &JobConfig,
        experiment: &Experiment,
        seed: u64,
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
            begin: NEVER,
            end: NEVER,
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

    /// The run begins at `now`, and the job after its delay.
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

    /// When it issues no more.
    #[inline]
    pub(super) fn end(&self) -> SimTime {
        self.end
    }

    /// True if writes of it may come from `now` on.
    pub(super) fn can_write(&self, now: SimTime) -> bool {
        let has_more = self.next_arrival().is_none_or(|next| next != NEVER);
        self.writes && (self.outstanding > 0 || now < self.end && has_more)
    }

    /// When its next request comes, in open loop.
    pub(super) fn next_arrival(&self) -> Option<SimTime> {
        self.arrivals.as_ref().and_then(|(arrivals, _)| arrivals.next())
    }

    /// When it can issue its next request; what lies in the past means now, `NEVER` not before something is complete.
    #[inline]
    pub(super) fn due(&self) -> SimTime {
        if self.outstanding >= self.depth || self.think.is_due {
            return NEVER;
        }
        let ready = match &self.arrivals {
            // A flush comes with the request before it.
            Some(_) if self.requests.next_is_flush() => self.begin,
            Some((arrivals, _)) => arrivals.next().unwrap_or(NEVER),
            None => self.begin,
        };
        let due = ready.max(self.think.until);
        if due < self.end { due } else { NEVER }
    }

    /// The request that it issues at `now`, and when that arrived.
    #[inline]
    pub(super) fn take(&mut self, now: SimTime) -> (Request, SimTime) {
        let request = self.requests.next();
        match &mut self.arrivals {
            Some((arrivals, _)) if request.op != Op::Flush => {
                self.arrival = arrivals.next().unwrap_or(now);
                arrivals.advance();
            }
            Some(_) => {}
            None => self.arrival = now,
        }
        self.outstanding += 1;
        let think = &mut self.think;
        if think.ns > 0 {
            think.issued += 1;
            think.is_due = think.issued >= think.blocks;
        }
        (request, self.arrival)
    }

    /// The ranges of `request`, which it has just given, if it is a trim of several.
    #[inline]
    pub(super) fn ranges_of(&self, request: &Request) -> Option<&[Range]> {
        self.requests.ranges_of(request)
    }

    /// A request of it is complete.
    #[inline]
    pub(super) fn complete(&mut self, now: SimTime) {
        self.outstanding -= 1;
        if self.outstanding == 0 && self.think.is_due {
            let think = &mut self.think;
            (think.is_due, think.issued, think.until) = (false, 0, now + think.ns);
        }
    }

    /// Drops all outstanding requests after a power cut.
    pub(super) fn on_power_cut(&mut self, now: SimTime) {
        self.outstanding = 0;
        if self.think.is_due {
            let think = &mut self.think;
            (think.is_due, think.issued, think.until) = (false, 0, now + think.ns);
        }
    }

    /// The measured window begins.
    pub(super) fn measure(&mut self, now: SimTime) {
        let arrived = self.count_arrived(now);
        self.record.begin(self.begin.max(now), arrived);
    }

    /// Ends the measured window at `now`.
    pub(super) fn end_measuring(&mut self, now: SimTime) {
        let arrived = self.count_arrived(now);
        // The oldest that waits.
        let waits_since = self.next_arrival().filter(|&next| next < now && next < self.end);
        let behind_ns = waits_since.map_or(0, |next| now.since(next));
        let backlog = arrived.saturating_sub(self.issued());
        // A job that has ended before keeps its end, unless requests of it were still on their way.
        let end = if self.end < now && self.outstanding == 0 { self.end } else { now };
        self.record.end(end, arrived, backlog, behind_ns);
    }

    /// Number of requests that arrived before `now` and are not issued yet.
    pub(super) fn backlog(&mut self, now: SimTime) -> u64 {
        let arrived = self.count_arrived(now);
        arrived.saturating_sub(self.issued())
    }

    /// Requests issued of those that arrived.
    fn issued(&self) -> u64 {
        self.arrivals.as_ref().map_or(0, |(arrivals, _)| arrivals.count())
    }

    /// Number of requests that arrived before `now`. The count is cached: with a long backlog each arrival is visited
    /// once, not once per call.
    fn count_arrived(&mut self, now: SimTime) -> u64 {
        let until = now.min(self.end);
        let Some((arrivals, counted)) = &mut self.arrivals else { return 0 };
        if arrivals.next().is_none_or(|next| next >= until) {
            return arrivals.count();
        }
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
        // Nothing is in the record before the measured window begins.
        let Self {
            requests,
            writes: _,
            depth: _,
            outstanding,
            rate_iops: _,
            pace: _,
            delay_ns: _,
            runtime_ns: _,
            ..
        } = self;
        let Self { gaps: _, arrivals, arrival, begin, end, think, record: _, .. } = self;
        requests.save_state(out);
        outstanding.store(out);
        arrivals.is_some().store(out);
        if let Some((arrivals, counted)) = arrivals {
            arrivals.save_state(out);
            counted.save_state(out);
        }
        (*arrival, *begin, *end).store(out);
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
        self.think = Stored::restored(from)?;
        Ok(())
    }
}
