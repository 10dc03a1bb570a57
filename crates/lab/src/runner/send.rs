//! Delivery of host requests to the drive: in batches, or one by one if an observer looks in between. Both give
//! equal results, to the nanosecond.

use strobe_ssd::{Command, CommandError, Completion, Range};
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
        if let Some(timeline) = &mut self.timeline {
            timeline.outstanding(now, self.queue.in_flight() as u32);
        }
        self.drive.submit(now, number, command, None);
        if self.drive.has_completion(now) {
            self.advance(now)?;
        }
        if let Some(power) = &mut self.power
            && let Some(back) = power.after_command(&mut self.drive, number)?
        {
            self.queue = self.queue.restarted(back);
            let now = self.queue.now();
            if let Some(timeline) = &mut self.timeline {
                timeline.outstanding(now, 0);
            }
        }
        Ok(true)
    }

    /// Lets time pass until `until`, when something happens in the drive.
    pub(super) fn advance(&mut self, until: SimTime) -> Result<(), Stop> {
        self.look_until(until);
        let mut completions = std::mem::take(&mut self.completions);
        self.drive.advance(until, &mut completions);
        let mut result = Ok(());
        for Completion { at, kind, issued, bytes, result: answer, .. } in completions.drain(..) {
            self.queue.complete(at);
            if let Some(timeline) = &mut self.timeline {
                timeline.outstanding(at, self.queue.in_flight() as u32);
                let is_done = answer.as_ref().err().is_none_or(CommandError::is_unreadable);
                if let (true, Some(op)) = (is_done, kind.op()) {
                    timeline.complete(op, bytes, at.since(issued));
                }
            }
            if let Err(error) = answer
                && !error.is_unreadable()
            {
                result = result.and(Err(Stop::Drive(error)));
            }
        }
        self.completions = completions;
        result
    }

    /// Ends intervals and takes frames that are due by `now`; nothing happens before.
    fn look_until(&mut self, now: SimTime) {
        // An interval has all that happens at its end.
        while let Some(due) = self.timeline.as_ref().map(|timeline| timeline.due()).filter(|&due| due < now) {
            self.close_interval(due);
        }
        while let Some(due) = self.xray_due().filter(|&due| due <= now && now != NEVER) {
            self.look_inside(due.max(self.now()));
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
