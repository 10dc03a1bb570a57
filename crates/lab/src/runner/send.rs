//! Delivery of host requests to the drive: in batches, or one by one if an observer looks in between. Both give
//! equal results, to the nanosecond.

use strobe_ssd::{Command, Completion, HostQueue, Range};
use strobe_types::{Request, SimTime};

use super::NEVER;
use super::host::{Host, Stop};

impl Host<'_> {
    /// Hands a batch to the drive: one request at a time where somebody looks in between. Ends when the phase at hand has
    /// its host pages; returns how many requests were issued.
    fn run_batch(&mut self, batch: &[Request], arrivals: &[SimTime]) -> (usize, Result<(), Stop>) {
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

    /// Hands over one command, the one with this number; false if the phase at hand has all of its host pages before.
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
            if self.queue.must_wait() {
                self.advance(self.next_event())?;
                continue;
            }
            let due = self.queue.due(arrival);
            match self.drive.next_event().filter(|&next| next < due) {
                Some(next) => self.advance(next)?,
                None => break,
            }
        }
        let now = self.queue.issue(arrival);
        self.look_until(now);
        self.note_outstanding(now, self.queue.in_flight() as u32);
        self.drive.submit(now, number, command, None);
        if self.drive.has_completion(now) {
            self.advance(now)?;
        }
        if let Some(power) = &mut self.power
            && let Some(back) = power.after_command(&mut self.drive, number)?
        {
            self.queue = self.queue.restarted(back);
            self.note_outstanding(self.queue.now(), 0);
        }
        Ok(true)
    }

    /// Lets time pass until `until`, when something happens in the drive.
    pub(super) fn advance(&mut self, until: SimTime) -> Result<(), Stop> {
        self.look_until(until);
        self.receive(until, |queue, completion| {
            queue.complete(completion.at);
            queue.in_flight() as u32
        })
    }

    /// Receives what is complete by `until`, at most the drive's next event: `take` says of each completion how many
    /// requests are outstanding without it. Fails with the first command that was refused.
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
                if let (false, Some(op)) = (completion.is_refused(), completion.kind.op()) {
                    timeline.complete(op, completion.bytes, completion.at.since(completion.issued));
                }
            }
            if completion.is_refused()
                && let Err(error) = completion.result
            {
                result = result.and(Err(Stop::Drive(error)));
            }
        }
        self.completions = completions;
        result
    }

    /// Notes for the series that so many requests are outstanding from `now` on.
    #[inline]
    pub(super) fn note_outstanding(&mut self, now: SimTime, outstanding: u32) {
        if let Some(timeline) = &mut self.timeline {
            timeline.outstanding(now, outstanding);
        }
    }

    /// Ends intervals and takes frames that are due by `now`; nothing happens before.
    fn look_until(&mut self, now: SimTime) {
        // A trace at its own times is issued when it arrives, and others come when there is a place: no backlog.
        self.close_intervals(now, |_| 0);
        while let Some(due) = self.xray_due().filter(|&due| due <= now && now != NEVER) {
            self.look_inside(due.max(self.now()));
        }
    }

    /// Ends all intervals of the series that end before `until`, when the next thing happens: an interval has all that
    /// happens at its end. `backlog` is the number of requests that wait to be issued.
    #[inline]
    pub(super) fn close_intervals(&mut self, until: SimTime, mut backlog: impl FnMut(SimTime) -> u64) {
        while let Some(due) = self.interval_end().filter(|&due| due < until) {
            self.close_interval(due, backlog(due));
        }
    }

    /// Hands a batch to the drive, then samples and reports as due; returns how many requests were issued, fewer than
    /// there are if the phase at hand has all of its host pages before.
    pub(super) fn issue(&mut self, batch: &[Request], arrivals: &[SimTime]) -> Result<usize, Stop> {
        let (issued, result) = self.run_batch(batch, arrivals);
        self.requests += issued as u64;
        self.keep_house()?;
        result.map(|()| issued)
    }

    /// Hands over a command of several ranges or with a hint, then samples and reports as due; false if the phase at hand
    /// has all of its host pages before.
    pub(super) fn send(&mut self, command: &Command<'_>, arrival: Option<SimTime>) -> Result<bool, Stop> {
        let is_sent = self.send_one(command, arrival, self.requests)?;
        self.requests += u64::from(is_sent);
        self.keep_house()?;
        Ok(is_sent)
    }
}
