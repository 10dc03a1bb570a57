//! Requests of one stream that are handed to the drive one by one, so that a series of intervals can be taken.
//!
//! What happens is the same as in batches, to the nanosecond; somebody looks in between.

use strobe_ssd::{Command, CommandError, Completion, HostQueue, Simulated};
use strobe_types::{Op, SimTime};

use crate::timeline::{AtEnd, Timeline};

/// Stands for a time that does not come.
const NEVER: SimTime = SimTime::from_ns(u64::MAX);

/// A command that the drive has.
#[derive(Clone, Copy, Debug)]
struct Slot {
    issued: SimTime,
    /// `None`: one that only a [`Command`] can be, which has no column.
    op: Option<Op>,
    bytes: u64,
}

/// Commands on their way, and the series that they make.
pub(super) struct Watched {
    timeline: Timeline,
    /// By tag; and tags that are free.
    slots: Vec<Slot>,
    free: Vec<u64>,
    outstanding: u32,
    completions: Vec<Completion>,
    measuring: bool,
}

impl Watched {
    /// Nothing is outstanding at `now`, when the first interval begins.
    pub(super) fn new(length_ns: u64, drive: &dyn Simulated, now: SimTime) -> Self {
        Self {
            timeline: Timeline::new(length_ns, now, drive.stats_at(now)),
            slots: Vec::new(),
            free: Vec::new(),
            outstanding: 0,
            completions: Vec::new(),
            measuring: false,
        }
    }

    /// [`HostQueue::send`].
    pub(super) fn send(
        &mut self,
        drive: &mut dyn Simulated,
        queue: &mut HostQueue,
        arrival: Option<SimTime>,
        command: &Command<'_>,
    ) -> Result<(), CommandError> {
        while queue.must_wait() {
            self.wait(drive, queue)?;
        }
        let now = queue.issue(arrival);
        if let Err(error) = self.pass(drive, queue, now) {
            queue.withdraw();
            return Err(error);
        }
        let slot = Slot { issued: now, op: command.kind().op(), bytes: command.bytes() };
        let tag = match self.free.pop() {
            Some(tag) => {
                self.slots[tag as usize] = slot;
                tag
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u64 - 1
            }
        };
        self.outstanding += 1;
        self.timeline.outstanding(now, self.outstanding);
        drive.submit(now, tag, command, None);
        if drive.has_completion(now) { self.advance(drive, queue, now) } else { Ok(()) }
    }

    /// [`HostQueue::finish`].
    pub(super) fn finish(
        &mut self,
        drive: &mut dyn Simulated,
        queue: &mut HostQueue,
    ) -> Result<(), CommandError> {
        while queue.in_flight() > 0 {
            self.wait(drive, queue)?;
        }
        Ok(())
    }

    /// Power was cut and is back at `now`: what was outstanding is lost.
    pub(super) fn lost(&mut self, now: SimTime) {
        self.slots.clear();
        self.free.clear();
        self.outstanding = 0;
        self.timeline.outstanding(now, 0);
    }

    /// The measured window begins at `now`, with an interval of its own. Nothing is outstanding.
    pub(super) fn measure(&mut self, drive: &dyn Simulated, now: SimTime) {
        self.close(drive, now);
        self.measuring = true;
    }

    /// Ends the interval at hand at `now`, before which nothing more happens.
    pub(super) fn close(&mut self, drive: &dyn Simulated, now: SimTime) {
        // A trace at its own times is issued when it arrives, and others come when there is a place: no backlog.
        self.timeline.close(now, AtEnd::of(drive, now, 0, self.measuring));
    }

    pub(super) fn into_timeline(self) -> Timeline {
        self.timeline
    }

    /// Lets time pass until something is complete.
    fn wait(&mut self, drive: &mut dyn Simulated, queue: &mut HostQueue) -> Result<(), CommandError> {
        let next = drive.next_event().expect("a command that is outstanding completes");
        self.close_until(drive, next);
        self.advance(drive, queue, next)
    }

    /// Lets happen what happens before `now`.
    fn pass(
        &mut self,
        drive: &mut dyn Simulated,
        queue: &mut HostQueue,
        now: SimTime,
    ) -> Result<(), CommandError> {
        while let Some(next) = drive.next_event().filter(|&next| next < now) {
            self.close_until(drive, next);
            self.advance(drive, queue, next)?;
        }
        self.close_until(drive, now);
        Ok(())
    }

    /// Ends the intervals that end by `now`; nothing happens before.
    fn close_until(&mut self, drive: &dyn Simulated, now: SimTime) {
        while self.timeline.due() <= now && self.timeline.due() != NEVER {
            self.close(drive, self.timeline.due());
        }
    }

    fn advance(
        &mut self,
        drive: &mut dyn Simulated,
        queue: &mut HostQueue,
        until: SimTime,
    ) -> Result<(), CommandError> {
        let mut completions = std::mem::take(&mut self.completions);
        drive.advance(until, &mut completions);
        let mut result = Ok(());
        for Completion { tag, at, result: answer } in completions.drain(..) {
            queue.complete(at);
            self.free.push(tag);
            self.outstanding -= 1;
            self.timeline.outstanding(at, self.outstanding);
            let Slot { issued, op, bytes } = self.slots[tag as usize];
            match (answer, op) {
                (Ok(_), Some(op)) => self.timeline.complete(op, bytes, at.since(issued)),
                (Ok(_), None) => {}
                (Err(error), _) => result = result.and(Err(error)),
            }
        }
        self.completions = completions;
        result
    }
}
