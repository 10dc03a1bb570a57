//! Event-driven model of dies and channels in virtual time.
//!
//! At each instant:
//!
//! 1. Activities due now end, in die order; on one die the array first, then the bus transfer.
//! 2. Delays due now expire, in issue order. Completions are reported to their watchers, who may issue more
//!    operations.
//! 3. Idle resources start work: dies in order, then free buses.

mod blocks;
mod cells;
mod events;
mod in_order;
mod issue;
mod log;
mod make;
mod reads;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use strobe_types::{Place, SimTime};

use self::blocks::{Block, MoreErase};
use self::in_order::InOrder;

use super::channel::{Carry, Channel};
use super::config::{Class, TimingConfig};
use super::die::{Die, Next, Phase, Suspended};
use super::noted::Noted;
use super::ops::{Kind, NONE, Op, Ops, Spot, State, Ticket, UNWATCHED};
use super::queues::Group;
use super::race::{LAST, NEVER, Race};
use super::reader::{Reader, Sending, Step};
use super::reports::Reports;
use super::{Occupancy, Timing, When};
use crate::EventLog;

/// Dies and channels, their activities and their queues.
///
/// At any time a die does one of:
///
/// - reads of one page on each of several planes, which share array time and are sent over the bus one after
///   the other;
/// - programs, which come over the bus and then share array time;
/// - erases.
///
/// A die is held from the start of the first transfer to the end of the last.
#[derive(Clone, Debug, strobe_types::State)]
pub struct ArrayTiming {
    #[state(skip)]
    config: TimingConfig,
    #[state(skip)]
    parts: u32,
    #[state(skip)]
    part_transfer_ns: u64,
    #[state(skip)]
    page_transfer_ns: u64,
    #[state(skip)]
    unit_transfer_ns: u64,
    #[state(skip)]
    dies_per_channel: u32,
    #[state(skip)]
    planes_per_die: u32,
    /// True if each die has its own bus, nothing is loaded ahead, dies are independent and no log is on. An
    /// operation's end is then known at its begin.
    #[state(skip)]
    owns_bus: bool,
    /// True if `owns_bus` and every operation takes time. One event then ends an operation and begins the
    /// next.
    #[state(skip)]
    can_hurry: bool,
    /// True if `can_hurry`, a die has one plane, and all pages take equal time. Several pages of a block can
    /// then be one operation (a train).
    #[state(skip)]
    has_trains: bool,
    #[state(skip)]
    may_suspend: bool,
    #[state(skip)]
    readers_per_die: u32,
    #[state(skip)]
    overlaps_reads: bool,
    /// Not saved: derived from `ops`.
    #[state(skip)]
    in_order: Option<Box<InOrder>>,
    #[state(skip)]
    log: EventLog,
    now: SimTime,
    ops: Ops,
    /// For each die: the ends of its activity and of its bus transfer. Then for each reader except the first
    /// of its die: the end of its array read.
    race: Race,
    later: BinaryHeap<Reverse<(SimTime, u64, u32)>>,
    more_erases: Vec<MoreErase>,
    ready: Vec<u32>,
    reported: Reports,
    marked_dies: Noted,
    marked_channels: Noted,
    occupancy: Occupancy,
    #[state(table)]
    dies: Vec<Die>,
    #[state(table)]
    readers: Vec<Reader>,
    #[state(table)]
    channels: Vec<Channel>,
    #[state(table)]
    blocks: Vec<Block>,
}

impl ArrayTiming {
    #[inline]
    fn at(&self, ns: u64) -> SimTime {
        (self.now + ns).min(LAST)
    }

    #[inline]
    fn report(&mut self, token: u64) {
        if token != UNWATCHED {
            self.reported.push(token);
        }
    }

    #[inline(always)]
    fn mark_die(&mut self, die: u32) {
        self.marked_dies.add(die);
    }

    /// True if every die and channel that could act at this instant has been served.
    #[inline(always)]
    fn is_served(&self) -> bool {
        self.marked_dies.is_empty() && self.marked_channels.is_empty()
    }

    #[inline(always)]
    fn mark_channel(&mut self, channel: u32) {
        self.marked_channels.add(channel);
    }
}

impl Timing for ArrayTiming {
    const TIMED: bool = true;

    #[inline]
    fn read(&mut self, after: When, class: Class, units: u32, place: impl FnOnce() -> Place) -> When {
        let place = place();
        let op = self.issue(after, Kind::Read, class, place, self.unit_transfer_ns * u64::from(units));
        self.blocks[place.block.index()].others += 1;
        if let Some(erase) = self.last_erase(place.block.index()) {
            self.ops.wait_for(op, erase);
        }
        self.issued(op)
    }

    #[inline]
    fn reads(
        &mut self,
        after: When,
        class: Class,
        units: u32,
        count: u32,
        place: impl Fn(u32) -> Place,
    ) -> When {
        let first = place(0);
        let block = first.block.index();
        // A train has no dependencies, so a read that waits for an erase cannot be part of one.
        if !self.is_train(after, count) || self.last_erase(block).is_some() {
            return (0..count).fold(after, |_, at| self.read(after, class, units, || place(at)));
        }
        let transfer_ns = self.unit_transfer_ns * u64::from(units);
        let op = self.ops.issue_many(Kind::Read, class, Self::spot(first), transfer_ns, count);
        self.blocks[block].others += count;
        self.issued(op)
    }

    #[inline]
    fn programs(&mut self, after: When, class: Class, count: u32, place: impl Fn(u32) -> Place) -> When {
        let first = place(0);
        let entry = &self.blocks[first.block.index()];
        // A train has no dependencies: the program before it must already be in the queue or on the die.
        let writer = entry.writer.and_then(|writer| self.ops.find(writer)).map(|writer| &self.ops[writer]);
        let may_follow = writer.is_none_or(|op| op.kind == Kind::Program && op.state != State::Waiting);
        if !may_follow || !self.is_train(after, count) {
            return (0..count).fold(after, |_, at| self.program(after, class, || place(at)));
        }
        // Pages of a block share a queue, so the train takes the class of a waiting program.
        let class = writer.filter(|op| !op.is_running()).map_or(class, |op| op.class);
        let op = self.ops.issue_many(Kind::Program, class, Self::spot(first), self.page_transfer_ns, count);
        let ticket = self.ops.ticket(op);
        let block = &mut self.blocks[first.block.index()];
        block.others += count;
        block.programs += count;
        block.writer = Some(ticket);
        self.issued(op)
    }

    #[inline]
    fn program(&mut self, after: When, class: Class, place: impl FnOnce() -> Place) -> When {
        let place = place();
        let op = self.issue(after, Kind::Program, class, place, self.page_transfer_ns);
        let block = &mut self.blocks[place.block.index()];
        block.others += 1;
        block.programs += 1;
        let writer = block.writer.replace(self.ops.ticket(op)).and_then(|writer| self.ops.find(writer));
        if let Some(writer) = writer {
            let before = &self.ops[writer];
            let class = before.class;
            match before.kind {
                Kind::Erase => self.ops.wait_for(op, writer),
                _ if before.is_running() => {}
                // Pages are programmed in order, so this program follows the other in the same queue.
                _ => {
                    let waits = before.state == State::Waiting;
                    self.ops[op].class = class;
                    if waits {
                        self.ops.queue_behind(op, writer);
                    }
                }
            }
        }
        self.issued(op)
    }

    #[inline]
    fn erase(&mut self, after: When, class: Class, place: impl FnOnce() -> Place) -> When {
        let place = place();
        let op = self.issue(after, Kind::Erase, class, place, self.config.command_ns);
        let id = place.block.get();
        let block = &mut self.blocks[id as usize];
        let ticket = self.ops.ticket(op);
        block.writer = Some(ticket);
        let before = std::mem::replace(&mut block.others, 1);
        // An erase waits for all earlier operations of its block. The block entry holds one waiting erase;
        // further erases queue in `more_erases`.
        if block.before_erase > 0 || self.more_erases.iter().any(|more| more.block == id) {
            self.more_erases.push(MoreErase { block: id, op, before });
            self.ops.hold(op);
        } else {
            (block.erase, block.before_erase) = (Some(ticket), before);
            if before > 0 {
                self.ops.hold(op);
            }
        }
        self.issued(op)
    }

    #[inline]
    fn both(&mut self, a: When, b: When) -> When {
        match (a, b) {
            (When::At(a), When::At(b)) => return When::At(a.max(b)),
            _ if a == b => return a,
            _ => {}
        }
        match (self.is_past(a), self.is_past(b)) {
            (true, _) => b,
            (_, true) => a,
            _ => {
                let join = self.issue_join();
                self.wait_until(join, a);
                self.wait_until(join, b);
                // Ends the hold of the issue. At least one dependency is unmet, so the join is not ready.
                self.ops.release(join);
                When::With(self.ops.ticket(join))
            }
        }
    }

    fn all(&mut self, whens: &[When]) -> When {
        // `last` is the last completion considered; `join` waits for the completions before it.
        let (mut last, mut join) = (When::START, None);
        for &when in whens {
            if self.is_past(when) {
                continue;
            }
            // If `when` completes no earlier than `last`, waiting for `when` is enough.
            if !self.is_past(last) && !self.follows(last, when) {
                let join = *join.get_or_insert_with(|| self.issue_join());
                self.wait_until(join, last);
            }
            last = when;
        }
        let Some(join) = join else { return last };
        self.wait_until(join, last);
        // Ends the hold of the issue. At least one dependency is unmet, so the join is not ready.
        self.ops.release(join);
        When::With(self.ops.ticket(join))
    }

    fn watch(&mut self, when: When, token: u64) {
        if let Some(op) = self.ops.awaited(when)
            && self.ops.watch(op, token)
        {
            return;
        }
        // The operation is complete or already watched, so a join carries this token.
        let join = self.issue_join();
        self.ops.watch(join, token);
        self.wait_until(join, when);
        if self.ops.release(join) {
            self.ready.push(join);
            self.let_all_ready_go();
        }
    }

    fn now(&self) -> SimTime {
        self.now
    }

    fn next_event(&self) -> Option<SimTime> {
        if !self.reported.is_empty() || !self.is_served() {
            return Some(self.now);
        }
        Some(self.next_instant()).filter(|&time| time < NEVER)
    }

    fn run(&mut self, until: SimTime) -> bool {
        while self.reported.is_empty() {
            self.start();
            let next = self.next_instant();
            if next > until || next == NEVER {
                if until < NEVER {
                    self.now = self.now.max(until);
                }
                return false;
            }
            self.pass(next, Some(until));
        }
        true
    }

    #[inline(always)]
    fn has_reported(&self) -> bool {
        !self.reported.is_empty()
    }

    #[inline(always)]
    fn next_reported(&mut self) -> Option<u64> {
        self.reported.take()
    }

    #[inline(always)]
    fn start(&mut self) {
        if !self.is_served() {
            self.serve_marked();
        }
    }

    fn finish(&mut self, when: When) -> SimTime {
        let ticket = match when {
            When::At(time) => {
                if time > self.now {
                    self.pass_until(time);
                }
                return time;
            }
            When::With(ticket) => ticket,
        };
        while self.ops.find(ticket).is_some() {
            self.start();
            let next = self.next_instant();
            assert!(next < NEVER, "timing bug: an operation waits, and nothing is in flight");
            self.pass(next, None);
        }
        self.now
    }

    fn drain(&mut self) -> SimTime {
        while self.ops.live() > 0 {
            self.start();
            let next = self.next_instant();
            assert!(next < NEVER, "timing bug: an operation waits, and nothing is in flight");
            self.pass(next, None);
        }
        self.now
    }

    fn programs_ahead(&self, place: impl FnOnce() -> Place) -> u32 {
        self.blocks[place().block.index()].programs
    }

    fn last_program(&self, place: impl FnOnce() -> Place) -> When {
        self.blocks[place().block.index()].writer.map_or(When::START, When::With)
    }

    fn last_class(&self, place: impl FnOnce() -> Place) -> Option<Class> {
        let writer = self.ops.find(self.blocks[place().block.index()].writer?)?;
        Some(self.ops[writer].class)
    }

    fn has_begun(&self, when: When) -> Option<bool> {
        self.ops.awaited(when).map(|op| self.ops[op].is_running())
    }

    fn is_suspended(&self, when: When) -> bool {
        self.ops.awaited(when).map(|op| &self.ops[op]).is_some_and(|op| {
            let suspended = self.dies[op.die as usize].suspended;
            op.is_running() && suspended.is_some_and(|suspended| suspended.group.kind == op.kind)
        })
    }

    fn at_rest(&self) -> Self {
        self.idle()
    }

    fn backlog(&self, die: u32) -> u32 {
        let die = &self.dies[die as usize];
        die.queues.waiting + die.queues.unready + u32::from(die.phase != Phase::Idle)
    }

    fn busy_dies(&self) -> u32 {
        self.dies.iter().filter(|die| die.phase != Phase::Idle).count() as u32
    }

    fn holder(&self, die: u32) -> Option<Class> {
        let die = &self.dies[die as usize];
        (die.phase != Phase::Idle).then_some(die.class)
    }

    fn occupancy(&self, at: SimTime) -> Occupancy {
        let at = at.max(self.now);
        let mut occupancy = self.occupancy;
        for die in self.dies.iter().filter(|die| die.phase != Phase::Idle) {
            occupancy.held_ns[die.class as usize] += at.since(die.since);
        }
        occupancy
    }

    #[inline(always)]
    fn log(&self) -> &EventLog {
        &self.log
    }

    fn set_log(&mut self, log: EventLog) {
        self.log = log;
        self.choose_paths();
    }
}

impl ArrayTiming {
    fn pass_until(&mut self, time: SimTime) {
        loop {
            self.start();
            let next = self.next_instant();
            if next > time {
                self.now = time;
                return;
            }
            self.pass(next, None);
        }
    }
}
