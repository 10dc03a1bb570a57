//! Delivery of host requests to the drive: in batches, or one by one if an observer needs the states in
//! between. Both give equal results, to the nanosecond.

use strobe_ssd::{Command, Completion, HostQueue, Range};
use strobe_types::{Request, SimTime};

use super::NEVER;
use super::host::{Host, Stop};

impl Host<'_> {
    /// Submits request by request if power cuts, intervals or frames need it. Returns the number issued
    /// before the phase reached its host pages.
    fn run_batch(&mut self, batch: &[Request], arrivals: &[SimTime]) -> (usize, Result<(), Stop>) {
        // Fast path: nothing needs the state of the drive between two requests.
        if self.power.is_none() && self.timeline.is_none() && self.xray_due().is_none() {
            return match self.drive.issue(batch, arrivals, &mut self.queue) {
                Ok(issued) => (issued, Ok(())),
                Err((failed, error)) => (failed, Err(Stop::Drive(error))),
            };
        }
        for (at, request) in batch.iter().enumerate() {
            let range = [Range::new(request.lba, request.sectors)];
            let command = Command::of_request(request, &range);
            match self.send_one(&command, arrivals.get(at).copied(), self.requests + at as u64) {
                Ok(true) => {}
                Ok(false) => return (at, Ok(())),
                Err(stop) => return (at, Err(stop)),
            }
        }
        (batch.len(), Ok(()))
    }

    fn send_one(
        &mut self,
        command: &Command<'_>,
        arrival: Option<SimTime>,
        number: u64,
    ) -> Result<bool, Stop> {
        loop {
            if self.is_reached() {
                return Ok(false);
            }
            // A full queue frees a slot only at a completion.
            if self.queue.must_wait() {
                self.advance(self.next_event())?;
                continue;
            }
            // Events before the issue time come first: the drive sees everything in order of time.
            let due = self.queue.due(arrival);
            match self.drive.next_event().filter(|&next| next < due) {
                Some(next) => self.advance(next)?,
                None => break,
            }
        }
        let now = self.queue.issue(arrival);
        self.sample_xray_until(now);
        self.record_outstanding(now, self.queue.in_flight() as u32);
        self.drive.submit(now, number, command, None);
        // The command may complete at the time of its submission.
        if self.drive.has_completion(now) {
            self.advance(now)?;
        }
        if let Some(power) = &mut self.power
            && let Some(back) = power.after_command(&mut self.drive, number)?
        {
            self.queue = self.queue.restarted(back);
            self.record_outstanding(self.queue.now(), 0);
        }
        Ok(true)
    }

    pub(super) fn advance(&mut self, until: SimTime) -> Result<(), Stop> {
        self.sample_xray_until(until);
        self.receive(until, |queue, completion| {
            queue.complete(completion.at);
            queue.in_flight() as u32
        })
    }

    /// Lets time pass until `until`, with all events before it.
    pub(super) fn pass_time(&mut self, until: SimTime) -> Result<(), Stop> {
        while let Some(next) = self.drive.next_event().filter(|&next| next <= until) {
            self.advance(next)?;
        }
        self.sample_xray_until(until);
        self.on_complete(until);
        Ok(())
    }

    /// Receives completions up to `until`, at most the drive's next event. `take` handles one and returns the
    /// requests then outstanding.
    pub(super) fn receive(
        &mut self,
        until: SimTime,
        mut take: impl FnMut(&mut HostQueue, &Completion) -> u32,
    ) -> Result<(), Stop> {
        let mut completions = std::mem::take(&mut self.completions);
        self.drive.advance(until, &mut completions);
        let mut result = Ok(());
        for completion in completions.drain(..) {
            let outstanding = take(&mut self.queue, &completion);
            if let Some(timeline) = &mut self.timeline {
                timeline.outstanding(completion.at, outstanding);
                if let (Ok(_), Some(op)) = (&completion.result, completion.kind.op()) {
                    timeline.complete(op, completion.bytes, completion.at.since(completion.issued));
                }
            }
            // Only the first refused command is reported.
            if completion.is_refused()
                && let Err(error) = completion.result
            {
                result = result.and(Err(Stop::Drive(error)));
            }
        }
        self.completions = completions;
        result
    }

    #[inline]
    pub(super) fn record_outstanding(&mut self, now: SimTime, outstanding: u32) {
        if let Some(timeline) = &mut self.timeline {
            timeline.outstanding(now, outstanding);
        }
    }

    /// Ends intervals and takes frames due by `now`; no earlier event may be due.
    fn sample_xray_until(&mut self, now: SimTime) {
        // There is no backlog: an open-loop trace is issued on arrival, and other requests arrive when a slot
        // is free.
        self.close_intervals(now, |_| 0);
        while let Some(due) = self.xray_due().filter(|&due| due <= now && now != NEVER) {
            self.sample_xray(due.max(self.now()));
        }
    }

    /// Ends the intervals before `until`, the time of the next event. An event at the end of an interval
    /// belongs to it.
    #[inline]
    pub(super) fn close_intervals(&mut self, until: SimTime, mut backlog: impl FnMut(SimTime) -> u64) {
        while let Some(due) = self.interval_end().filter(|&due| due < until) {
            self.close_interval(due, backlog(due));
        }
    }

    pub(super) fn issue(&mut self, batch: &[Request], arrivals: &[SimTime]) -> Result<usize, Stop> {
        let (issued, result) = self.run_batch(batch, arrivals);
        self.requests += issued as u64;
        self.run_checks()?;
        result.map(|()| issued)
    }

    /// Issues `command`; false if the phase had already reached its host pages.
    pub(super) fn send(&mut self, command: &Command<'_>, arrival: Option<SimTime>) -> Result<bool, Stop> {
        let is_sent = self.send_one(command, arrival, self.requests)?;
        self.requests += u64::from(is_sent);
        self.run_checks()?;
        Ok(is_sent)
    }
}
