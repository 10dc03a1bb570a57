//! Events of a drive in virtual time: command progress, freed cache slots, steps of garbage collection.
//!
//! Order of events at the same time:
//!
//! 1. Events of flash.
//! 2. Due timers of the drive, and completions that are due at once.
//! 3. Waiting work: the write-back of the buffer, stalled writes in order of arrival, draining commands.

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

const NEVER: SimTime = SimTime::from_ns(u64::MAX);

/// Decoded token. Tokens from [`strobe_ftl::BACKGROUND`] on belong to the mapping scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// Firmware and link have processed the command in this slot, so it can start.
    Begins(u32),
    /// The operations of the command in this slot are complete.
    Done(u32),
    /// The given number of units of the write buffer is on flash.
    Programmed(usize),
    /// Units evicted from the non-volatile cache under this departure number are on flash.
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

#[derive(Clone, Debug, Default, Stored)]
pub(super) struct Events {
    now: SimTime,
    /// Timers: time, sequence number and token. Timers of equal time run in the order of setting.
    timers: BinaryHeap<Reverse<(SimTime, u64, u64)>>,
    set: u64,
    /// Tokens due now.
    due: VecDeque<u64>,
    stalled: VecDeque<u32>,
    /// Commands that wait for the write-back of buffered units.
    draining: Vec<u32>,
    idle: Idle,
}

impl Events {
    #[inline(always)]
    pub(super) fn now(&self) -> SimTime {
        self.now
    }

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

    fn wanted(&self, mut youngest: impl FnMut(u32) -> u64) -> Option<u64> {
        self.draining.iter().map(|&slot| youngest(slot)).max()
    }
}

impl<F: Inspectable> Drive<F> {
    #[inline]
    pub(super) fn submit_work(&mut self, now: SimTime, tag: u64, work: Work<F::Payload>) {
        self.on_host_command(now);
        let accepted = self.accept(now, &work);
        let slot = self.in_flight.add(tag, now, work.kind(), work);
        if self.log().is_on() {
            self.log_submission(slot);
        }
        // Firmware, link and throttle delay the start of the command.
        if accepted.min(SimTime::from_ns(u64::MAX - 1)) > self.events.now {
            self.events.set(accepted, Event::Begins(slot).token());
        } else {
            self.step(slot);
        }
        self.settle_instant();
    }

    /// Adds a command whose flash operations have been issued and complete at `done`.
    #[inline(always)]
    pub(super) fn add_issued(&mut self, now: SimTime, tag: u64, kind: CommandKind, tally: Tally, done: When) {
        self.on_host_command(now);
        let slot = self.in_flight.add_done(tag, now, kind, tally);
        self.when_there(done, Event::Done(slot));
        self.settle_instant();
    }

    #[cold]
    fn unreadable(&self, lpn: Lpn) -> CommandError {
        let lba = self.geometry.first_sector(lpn).get();
        CommandError::Unreadable { lba, sectors: self.geometry.sectors_per_unit() }
    }

    pub(super) fn refuse(&mut self, slot: u32, error: CommandError) {
        let now = self.events.now;
        let entry = self.in_flight.get(slot);
        entry.result = Err(error);
        let at = entry.issued.max(now);
        self.in_flight.complete(slot, at);
    }

    /// Starts or resumes a command; false if it keeps waiting in its queue.
    fn step(&mut self, slot: u32) -> bool {
        // New writes queue behind stalled ones.
        let wants_place = matches!(self.in_flight.get(slot).work, Work::Write { .. });
        let is_new = !self.in_flight.get(slot).has_begun;
        if wants_place && is_new && self.events.is_stalled() {
            self.stall(slot);
            return true;
        }
        let step = self.carry_out(slot);
        self.apply_step(slot, step)
    }

    fn stall(&mut self, slot: u32) {
        self.in_flight.get(slot).stalled = self.events.now;
        self.events.stalled.push_back(slot);
        self.log_stall(slot);
    }

    fn apply_step(&mut self, slot: u32, step: Step) -> bool {
        match step {
            Ok(Progress::Done(when)) => self.when_there(when, Event::Done(slot)),
            Err(CommandError::Ftl(FtlError::Unreadable { lpn, at })) => {
                self.in_flight.get(slot).result = Err(self.unreadable(lpn));
                self.when_there(at, Event::Done(slot));
            }
            Err(error) => self.refuse(slot, error),
            // A write resumed from the front of the queue is already in the queue.
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

    #[inline]
    fn when_there(&mut self, when: When, event: Event) {
        match when {
            When::At(at) if at.min(SimTime::from_ns(u64::MAX - 1)) > self.events.now => {
                self.events.set(at, event.token())
            }
            When::At(_) => self.events.due.push_back(event.token()),
            // The timing model does not know the time yet and reports the event.
            When::With(_) => self.ftl.nand_mut().timing_mut().watch(when, event.token()),
        }
    }

    pub(super) fn when_programmed(&mut self, (when, units): (When, usize)) {
        if units > 0 {
            self.when_there(when, Event::Programmed(units));
        }
    }

    pub(super) fn when_arrived(&mut self, (when, number): (When, u64)) {
        self.when_there(when, Event::Arrived(number));
    }

    #[inline(always)]
    pub(super) fn settle_instant(&mut self) {
        // Fast path: no event or waiting work is left at the current time.
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
            // Save the state after new power cuts first: completions processed below may lie after the cuts.
            if self.power.is_some() {
                self.snapshot_after_cuts();
            }
            // Order of events at equal times, see the module head.
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

    #[inline]
    pub(super) fn catch_up(&mut self, now: SimTime) {
        let now = now.min(SimTime::from_ns(u64::MAX - 1));
        // Dies begin operations only as time passes, so all commands submitted at one time compete for them.
        if now > self.events.now {
            self.pass(now);
        }
    }

    #[inline]
    fn happen(&mut self, token: u64) {
        if token >= IDLE {
            return match token {
                IDLE => self.check_idle(),
                _ => self.ftl.on_event(token),
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

    #[inline]
    fn done(&mut self, slot: u32) {
        let now = self.events.now;
        let entry = self.in_flight.get(slot);
        let is_write = entry.kind == CommandKind::Write;
        let has_failed = entry.result.is_err();
        // The transfer to the host and the fixed latency follow the flash operations.
        let at = match entry.work {
            Work::Read { range } if !has_failed => self.controller.send(now, range.bytes()),
            _ => now,
        };
        let at = if self.is_timed() { self.controller.answer(at, is_write) } else { at };
        if self.oracle.is_some() && !has_failed {
            self.record_completion(slot);
        }
        self.in_flight.complete(slot, at);
    }

    fn serve_waiting(&mut self) -> bool {
        let mut has_gone = self.write_back();
        // Stalled writes proceed in order of arrival: a write that keeps waiting blocks all later ones.
        while let Some(&slot) = self.events.stalled.front() {
            let step = self.carry_out(slot);
            if !self.apply_step(slot, step) {
                break;
            }
            self.events.stalled.pop_front();
            self.stalls.writes += 1;
            let waited_ns = self.events.now.since(self.in_flight.get(slot).stalled);
            self.stalls.ns += waited_ns;
            self.log_resumption(slot, waited_ns);
            has_gone = true;
        }
        // Draining commands do not block each other, so each is tried.
        if !self.events.draining.is_empty() {
            let draining = std::mem::take(&mut self.events.draining);
            for slot in draining {
                let step = self.carry_out(slot);
                self.apply_step(slot, step);
                has_gone |= !self.events.draining.contains(&slot);
            }
        }
        has_gone || !self.events.due.is_empty()
    }

    /// Writes back the buffer if above its high watermark or for a flush. True if units were written or
    /// commands rejected.
    fn write_back(&mut self) -> bool {
        if self.buffer.is_none() {
            return false;
        }
        let in_flight = &mut self.in_flight;
        // A flush waits for all arrival numbers up to its `youngest`.
        let wanted = self.events.wanted(|slot| in_flight.get(slot).youngest);
        let mut has_gone = false;
        while let Some(buffer) = &mut self.buffer
            && (buffer.is_crowded() || wanted.is_some_and(|arrival| buffer.holds_until(arrival)))
            && buffer.may_write_back(&self.ftl)
        {
            match buffer.write_back(&mut self.ftl) {
                Ok(departed) => self.when_programmed(departed),
                Err(error) => {
                    // Flash takes no more data, so no waiting command can proceed.
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

    pub(super) fn pass(&mut self, until: SimTime) {
        while self.advance_to_event(until) {}
        if until < NEVER {
            self.events.now = self.events.now.max(until);
        }
    }

    /// Advances to the next event by `until`; false if no event occurs by then.
    #[inline]
    fn advance_to_event(&mut self, until: SimTime) -> bool {
        let timer = self.events.next().unwrap_or(NEVER);
        // Flash runs first: at equal times its events precede timers.
        let has_event = self.ftl.nand_mut().run(until.min(timer));
        if has_event {
            self.events.now = self.events.now.max(self.ftl.nand().timing().now());
        } else if timer <= until && timer < NEVER {
            self.events.now = self.events.now.max(timer);
            // All timers of this time become due together.
            while let Some(&Reverse((at, _, token))) = self.events.timers.peek()
                && at <= timer
            {
                self.events.timers.pop();
                self.events.due.push_back(token);
            }
        } else {
            if self.power.is_some() {
                self.snapshot_after_cuts();
            }
            return false;
        }
        self.settle_instant();
        true
    }

    pub(super) fn pass_to_completion(&mut self) -> SimTime {
        loop {
            // Each event may add an earlier completion, so the target is determined again after it.
            let known = self.in_flight.first().unwrap_or(NEVER);
            let goes_on = known > self.events.now && self.advance_to_event(known);
            if !goes_on {
                assert!(known < NEVER, "drive bug: an outstanding command never completes");
                self.pass(known);
                return known.max(self.events.now);
            }
        }
    }

    pub(super) fn write_all_back(&mut self) -> Result<(), CommandError> {
        while let Some(buffer) = &mut self.buffer
            && buffer.dirty_units() > 0
        {
            if buffer.may_write_back(&self.ftl) {
                let departed = buffer.write_back(&mut self.ftl)?;
                self.when_programmed(departed);
                self.settle_instant();
            } else if let Some(next) = self.ftl.nand().timing().next_event() {
                self.pass(next);
            } else {
                unreachable!("drive bug: writes wait, and nothing is in flight");
            }
        }
        Ok(())
    }

    /// Like [`Drive::pass_to_completion`]; `None` if no command completes by `until`.
    pub(super) fn pass_to_completion_by(&mut self, until: SimTime) -> Option<SimTime> {
        loop {
            let known = self.in_flight.first().filter(|&at| at <= until);
            let target = known.unwrap_or(until);
            if target > self.events.now && self.advance_to_event(target) {
                continue;
            }
            let known = known?;
            self.pass(known);
            return Some(known.max(self.events.now));
        }
    }

    /// Advances until flash has no event left, including operations that completions issue.
    pub(super) fn run_until_idle(&mut self) {
        self.settle_instant();
        while let Some(next) = self.ftl.nand().timing().next_event().filter(|_| self.is_timed()) {
            self.pass(next);
        }
    }

    pub(super) fn events_now(&self) -> SimTime {
        self.events.now
    }

    #[inline(always)]
    pub(super) fn take_completion(&mut self, until: SimTime) -> Option<Completion> {
        let (at, slot) = self.in_flight.take(until)?;
        if self.log().is_on() {
            self.log_completion(at, slot);
        }
        let is_timed = self.is_timed();
        let entry = self.in_flight.get(slot);
        let (tag, kind, issued, bytes) = (entry.tag, entry.kind, entry.issued, entry.tally.bytes);
        match &entry.result {
            Ok(_) => {
                self.host.add(kind, 1, &entry.tally);
                if is_timed && let Some(op) = kind.op() {
                    self.latency.record(op, at.since(issued));
                }
            }
            // An unrecovered read error counts; a rejected command does not.
            Err(error) if error.is_unreadable() => self.host.add_failed(kind, &entry.tally),
            Err(_) => {}
        }
        Some(Completion { tag, at, kind, issued, bytes, result: self.in_flight.release(slot) })
    }

    pub(super) fn refuse_at_once(&mut self, now: SimTime, tag: u64, error: CommandError) {
        // A rejected command has no work, so its slot holds a flush, which is never executed.
        let slot = self.in_flight.add(tag, now, CommandKind::Flush, Work::Flush);
        self.in_flight.get(slot).result = Err(error);
        self.in_flight.complete(slot, now);
    }

    #[inline]
    pub(super) fn next_instant(&self) -> Option<SimTime> {
        let own = [self.in_flight.first(), self.events.next()].into_iter().flatten().min();
        if self.is_timed() {
            [own, self.ftl.nand().timing().next_event()].into_iter().flatten().min()
        } else {
            own
        }
    }
}
