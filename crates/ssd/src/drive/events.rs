//! Events of a drive as time passes: commands proceed, slots become free, garbage collection takes its next
//! step.
//!
//! At one instant flash comes first, then what waited for a time of the drive's own, then whoever waits for what that
//! has brought: the write-back of the buffer, commands without a place in the order in which they came, flushes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use strobe_ftl::{FtlError, Inspectable};
use strobe_nand::{Nand, Timing, When};
use strobe_types::{Lpn, SimTime, Stored};

use super::idle::{IDLE, Idle};
use super::{Drive, Progress, Step, Work};
use crate::command::CommandKind;
use crate::device::Completion;
use crate::error::CommandError;
use crate::stats::Tally;

/// A time that never comes.
const NEVER: SimTime = SimTime::from_ns(u64::MAX);

/// Meaning of a token. Tokens from [`strobe_ftl::BACKGROUND`] on belong to the mapping scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The command in this slot can begin: firmware and link are done with it.
    Begins(u32),
    /// The operations that the command in this slot waited for are complete.
    Done(u32),
    /// So many units of the write buffer are on flash.
    Programmed(usize),
    /// The units that departed from the non-volatile cache with this number are on flash.
    Arrived(u64),
}

const KIND_BITS: u32 = 2;

impl Event {
    #[inline(always)]
    fn token(self) -> u64 {
        let (kind, value) = match self {
            Event::Begins(slot) => (0, u64::from(slot)),
            Event::Done(slot) => (1, u64::from(slot)),
            Event::Programmed(units) => (2, units as u64),
            Event::Arrived(number) => (3, number),
        };
        value << KIND_BITS | kind
    }

    #[inline(always)]
    fn of(token: u64) -> Self {
        let value = token >> KIND_BITS;
        match token & ((1 << KIND_BITS) - 1) {
            0 => Event::Begins(value as u32),
            1 => Event::Done(value as u32),
            2 => Event::Programmed(value as usize),
            _ => Event::Arrived(value),
        }
    }
}

/// Pending events, and commands that wait for them.
#[derive(Clone, Debug, Default, Stored)]
pub(super) struct Events {
    now: SimTime,
    /// Times of the drive's own, with what happens then; of equal ones the first set first.
    timers: BinaryHeap<Reverse<(SimTime, u64, u64)>>,
    set: u64,
    /// Tokens of events that are due now.
    due: VecDeque<u64>,
    /// Commands that wait for a place, in the order in which they came.
    stalled: VecDeque<u32>,
    /// Flushes, and what works like one, that wait until the buffer has been written back.
    draining: Vec<u32>,
    idle: Idle,
}

impl Events {
    #[inline(always)]
    pub(super) fn now(&self) -> SimTime {
        self.now
    }

    /// Nothing is to happen, and nobody waits, at `now`: after a power cut.
    pub(super) fn at_rest(now: SimTime) -> Self {
        Self { now, ..Self::default() }
    }

    pub(super) fn idle(&mut self) -> &mut Idle {
        &mut self.idle
    }

    pub(super) fn set(&mut self, at: SimTime, token: u64) {
        let at = at.min(SimTime::from_ns(u64::MAX - 1));
        self.set += 1;
        self.timers.push(Reverse((at, self.set, token)));
    }

    #[inline(always)]
    fn next(&self) -> Option<SimTime> {
        self.timers.peek().map(|&Reverse((at, ..))| at)
    }

    pub(super) fn is_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    /// The youngest unit of the buffer that a flush waits for.
    fn wanted(&self, mut youngest: impl FnMut(u32) -> u64) -> Option<u64> {
        self.draining.iter().map(|&slot| youngest(slot)).max()
    }
}

impl<F: Inspectable> Drive<F> {
    /// Takes up a command at `now`.
    #[inline]
    pub(super) fn take_up(&mut self, now: SimTime, tag: u64, work: Work<F::Payload>) {
        self.note_host(now);
        let accepted = self.accept(now, &work);
        let slot = self.flights.add(tag, now, work.kind(), work);
        if self.log().is_on() {
            self.log_submission(slot);
        }
        if accepted.min(SimTime::from_ns(u64::MAX - 1)) > self.events.now {
            self.events.set(accepted, Event::Begins(slot).token());
        } else {
            self.step(slot);
        }
        self.settle_instant();
    }

    /// A command of `kind` that has nothing more to do is complete when `done` is there.
    #[inline(always)]
    pub(super) fn land(&mut self, now: SimTime, tag: u64, kind: CommandKind, tally: Tally, done: When) {
        self.note_host(now);
        let slot = self.flights.add_done(tag, now, kind, tally);
        self.when_there(done, Event::Done(slot));
        self.settle_instant();
    }

    /// The mapping unit `lpn` cannot be read.
    #[cold]
    fn unreadable(&self, lpn: Lpn) -> CommandError {
        let lba = self.geometry.first_sector(lpn).get();
        CommandError::Unreadable { lba, sectors: self.geometry.sectors_per_unit() }
    }

    /// The command is refused.
    pub(super) fn refuse(&mut self, slot: u32, error: CommandError) {
        let now = self.events.now;
        let flight = self.flights.get(slot);
        flight.result = Err(error);
        let at = flight.issued.max(now);
        self.flights.complete(slot, at);
    }

    /// Goes on with the command in `slot`; true if it needs not wait where it is.
    fn step(&mut self, slot: u32) -> bool {
        // Who comes later waits behind those without a place, if it wants one.
        let wants_place = matches!(self.flights.get(slot).work, Work::Write { .. });
        let is_new = !self.flights.get(slot).has_begun;
        if wants_place && is_new && self.events.is_stalled() {
            self.stall(slot);
            return true;
        }
        let step = self.carry_out(slot);
        self.went(slot, step)
    }

    /// The command in `slot` waits for a place, behind those that do.
    fn stall(&mut self, slot: u32) {
        self.flights.get(slot).stalled = self.events.now;
        self.events.stalled.push_back(slot);
        self.log_stall(slot);
    }

    fn went(&mut self, slot: u32, step: Step) -> bool {
        match step {
            Ok(Progress::Done(when)) => self.when_there(when, Event::Done(slot)),
            Err(CommandError::Ftl(FtlError::Unreadable { lpn, at })) => {
                self.flights.get(slot).result = Err(self.unreadable(lpn));
                self.when_there(at, Event::Done(slot));
            }
            Err(error) => self.refuse(slot, error),
            Ok(Progress::Stalled) if self.events.stalled.front() != Some(&slot) => {
                self.stall(slot);
            }
            Ok(Progress::Draining) if !self.events.draining.contains(&slot) => {
                self.events.draining.push(slot)
            }
            Ok(_) => return false,
        }
        true
    }

    /// Lets `event` happen when `when` is there.
    #[inline]
    fn when_there(&mut self, when: When, event: Event) {
        match when {
            When::At(at) if at.min(SimTime::from_ns(u64::MAX - 1)) > self.events.now => {
                self.events.set(at, event.token())
            }
            When::At(_) => self.events.due.push_back(event.token()),
            When::With(_) => self.ftl.nand_mut().timing_mut().watch(when, event.token()),
        }
    }

    /// `units` units of the write buffer are on flash at `when`.
    pub(super) fn when_programmed(&mut self, (when, units): (When, usize)) {
        if units > 0 {
            self.when_there(when, Event::Programmed(units));
        }
    }

    /// Schedules the arrival on flash, at `when`, of the units that departed from the non-volatile cache as
    /// `number`.
    pub(super) fn when_arrived(&mut self, (when, number): (When, u64)) {
        self.when_there(when, Event::Arrived(number));
    }

    /// Lets everything happen that happens now.
    #[inline(always)]
    pub(super) fn settle_instant(&mut self) {
        let is_over = self.events.due.is_empty()
            && self.events.stalled.is_empty()
            && self.events.draining.is_empty()
            && self.buffer.as_ref().is_none_or(|buffer| !buffer.is_crowded())
            && !self.ftl.nand().has_reported()
            && self.power.is_none();
        if !is_over {
            self.settle_all();
        }
    }

    fn settle_all(&mut self) {
        loop {
            // What has come by now may have come after a cut.
            if self.power.is_some() {
                self.keep_what_cuts_leave();
            }
            while let Some(token) = self.ftl.nand_mut().next_reported() {
                self.happen(token);
            }
            if let Some(token) = self.events.due.pop_front() {
                self.happen(token);
            } else if !self.serve_waiting() {
                break;
            }
        }
    }

    /// Lets time pass until `now`, if it has not come yet. At an instant that has come, dies begin nothing before time
    /// goes on: commands that come together are looked at together.
    #[inline]
    pub(super) fn catch_up(&mut self, now: SimTime) {
        let now = now.min(SimTime::from_ns(u64::MAX - 1));
        if now > self.events.now {
            self.pass(now);
        }
    }

    #[inline]
    fn happen(&mut self, token: u64) {
        if token >= IDLE {
            return match token {
                IDLE => self.look_at_host(),
                _ => self.ftl.go_on(token),
            };
        }
        match Event::of(token) {
            Event::Begins(slot) => {
                self.step(slot);
            }
            Event::Done(slot) => self.done(slot),
            Event::Programmed(units) => {
                if let Some(buffer) = &mut self.buffer {
                    buffer.programmed(units);
                }
            }
            Event::Arrived(number) => {
                if let Some(nvram) = &mut self.nvram {
                    nvram.arrived(number);
                }
            }
        }
    }

    /// Continues the command in `slot`, whose operations are complete.
    #[inline]
    fn done(&mut self, slot: u32) {
        let now = self.events.now;
        let flight = self.flights.get(slot);
        let is_write = flight.kind == CommandKind::Write;
        let has_failed = flight.result.is_err();
        let at = match flight.work {
            Work::Read { range } if !has_failed => self.controller.send(now, range.bytes()),
            _ => now,
        };
        let at = if self.is_timed() { self.controller.answer(at, is_write) } else { at };
        if self.witness.is_some() && !has_failed {
            self.note_done(slot);
        }
        self.flights.complete(slot, at);
    }

    /// Lets those go on that wait; true if one could.
    fn serve_waiting(&mut self) -> bool {
        let mut has_gone = self.write_back();
        while let Some(&slot) = self.events.stalled.front() {
            let step = self.carry_out(slot);
            if !self.went(slot, step) {
                break;
            }
            self.events.stalled.pop_front();
            self.stalls.writes += 1;
            let waited_ns = self.events.now.since(self.flights.get(slot).stalled);
            self.stalls.ns += waited_ns;
            self.log_resumption(slot, waited_ns);
            has_gone = true;
        }
        if !self.events.draining.is_empty() {
            let draining = std::mem::take(&mut self.events.draining);
            for slot in draining {
                let step = self.carry_out(slot);
                self.went(slot, step);
                has_gone |= !self.events.draining.contains(&slot);
            }
        }
        has_gone || !self.events.due.is_empty()
    }

    /// Writes back what the buffer has too much of, or what a flush waits for; true if that was anything.
    fn write_back(&mut self) -> bool {
        if self.buffer.is_none() {
            return false;
        }
        let flights = &mut self.flights;
        let wanted = self.events.wanted(|slot| flights.get(slot).youngest);
        let mut has_gone = false;
        while let Some(buffer) = &mut self.buffer
            && (buffer.is_crowded() || wanted.is_some_and(|arrival| buffer.holds_until(arrival)))
            && self.ftl.may_write(buffer.next_units(&self.ftl))
        {
            match buffer.write_back(&mut self.ftl) {
                Ok(departed) => self.when_programmed(departed),
                Err(error) => {
                    // Nobody who waits for a place, or for flash, will get what it waits for.
                    let stalled = std::mem::take(&mut self.events.stalled);
                    let draining = std::mem::take(&mut self.events.draining);
                    let has_refused = !stalled.is_empty() || !draining.is_empty();
                    for slot in stalled.into_iter().chain(draining) {
                        self.refuse(slot, error.clone().into());
                    }
                    return has_refused;
                }
            }
            has_gone = true;
        }
        has_gone
    }

    /// Lets time pass until `until`.
    pub(super) fn pass(&mut self, until: SimTime) {
        while self.pass_to_news(until) {}
        if until < NEVER {
            self.events.now = self.events.now.max(until);
        }
    }

    /// Lets time pass until something happens that is not the flash's own business, but no further than `until`; false
    /// if nothing does.
    #[inline]
    fn pass_to_news(&mut self, until: SimTime) -> bool {
        let timer = self.events.next().unwrap_or(NEVER);
        let has_news = self.ftl.nand_mut().run(until.min(timer));
        if has_news {
            self.events.now = self.events.now.max(self.ftl.nand().timing().now());
        } else if timer <= until && timer < NEVER {
            self.events.now = self.events.now.max(timer);
            while let Some(&Reverse((at, _, token))) = self.events.timers.peek()
                && at <= timer
            {
                self.events.timers.pop();
                self.events.due.push_back(token);
            }
        } else {
            if self.power.is_some() {
                self.keep_what_cuts_leave();
            }
            return false;
        }
        self.settle_instant();
        true
    }

    /// Lets time pass until a command is complete, and all has happened that happens then; returns that time.
    pub(super) fn pass_to_completion(&mut self) -> SimTime {
        loop {
            let known = self.flights.first().unwrap_or(NEVER);
            let goes_on = known > self.events.now && self.pass_to_news(known);
            if !goes_on {
                assert!(known < NEVER, "drive bug: a command that is outstanding never completes");
                self.pass(known);
                return known.max(self.events.now);
            }
        }
    }

    /// Writes back all that the buffer holds.
    pub(super) fn write_all_back(&mut self) -> Result<(), CommandError> {
        while let Some(buffer) = &mut self.buffer
            && buffer.dirty_units() > 0
        {
            if self.ftl.may_write(buffer.next_units(&self.ftl)) {
                let departed = buffer.write_back(&mut self.ftl)?;
                self.when_programmed(departed);
                self.settle_instant();
            } else if let Some(next) = self.ftl.nand().timing().next_event() {
                self.pass(next);
            } else {
                unreachable!("drive bug: nothing is on its way that writes wait for");
            }
        }
        Ok(())
    }

    /// [`Drive::pass_to_completion`], but no further than `until`; returns its time, if one came by then.
    pub(super) fn pass_to_completion_by(&mut self, until: SimTime) -> Option<SimTime> {
        loop {
            let known = self.flights.first().filter(|&at| at <= until);
            let target = known.unwrap_or(until);
            if target > self.events.now && self.pass_to_news(target) {
                continue;
            }
            let known = known?;
            self.pass(known);
            return Some(known.max(self.events.now));
        }
    }

    /// Lets time pass until all flash operations are complete, those too that follow from others.
    pub(super) fn come_to_rest(&mut self) {
        self.settle_instant();
        while let Some(next) = self.ftl.nand().timing().next_event().filter(|_| self.is_timed()) {
            self.pass(next);
        }
    }

    pub(super) fn events_now(&self) -> SimTime {
        self.events.now
    }

    /// The first completion by `until`. The command counts from here on, with its latency.
    #[inline(always)]
    pub(super) fn take_completion(&mut self, until: SimTime) -> Option<Completion> {
        let (at, slot) = self.flights.take(until)?;
        if self.log().is_on() {
            self.log_completion(at, slot);
        }
        let is_timed = self.is_timed();
        let flight = self.flights.get(slot);
        let (tag, kind, issued, bytes) = (flight.tag, flight.kind, flight.issued, flight.tally.bytes);
        let is_unreadable = flight.result.as_ref().is_err_and(CommandError::is_unreadable);
        if flight.result.is_ok() || is_unreadable {
            self.host.add(kind, 1, &flight.tally);
            self.host.add_errors(kind, is_unreadable.into());
            if is_timed && let Some(op) = kind.op() {
                self.latency.record(op, at.since(issued));
            }
        }
        Some(Completion { tag, at, kind, issued, bytes, result: self.flights.release(slot) })
    }

    /// A command that is refused as it comes: nothing has been done for it.
    pub(super) fn refuse_at_once(&mut self, now: SimTime, tag: u64, error: CommandError) {
        let slot = self.flights.add(tag, now, CommandKind::Flush, Work::Flush);
        self.flights.get(slot).result = Err(error);
        self.flights.complete(slot, now);
    }

    /// When something happens next.
    #[inline]
    pub(super) fn next_instant(&self) -> Option<SimTime> {
        let own = [self.flights.first(), self.events.next()].into_iter().flatten().min();
        if self.is_timed() {
            [own, self.ftl.nand().timing().next_event()].into_iter().flatten().min()
        } else {
            own
        }
    }
}
