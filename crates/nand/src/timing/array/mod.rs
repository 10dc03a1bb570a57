//! Dies and channels in virtual time, event by event.
//!
//! At one instant, first everything ends that ends then, in the order of the dies' numbers; of one die what its array
//! does, then what is on the bus for it.
//! Then what waited for a time comes, in the order of issue; whoever watches is told, and may issue more. Last, what
//! can start does: dies choose in the order of their numbers, then free buses.

mod events;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use strobe_types::{Geometry, Place, SimTime};

use super::channel::Channel;
use super::config::{Class, TimingConfig};
use super::die::{Die, Group, Next, Phase, Suspended};
use super::ops::{Kind, NONE, Op, Ops, State, Ticket, UNWATCHED};
use super::race::{LAST, NEVER, Race};
use super::{Occupancy, Timing, When};

/// What is on its way on one block.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// The last program or erase.
    writer: Option<Ticket>,
    /// Programs.
    programs: u32,
    /// Operations issued since the last erase that waits, or all of them.
    others: u32,
    /// Operations that `erase` waits for; 0: it does not wait, or is complete.
    before_erase: u32,
    /// The last erase, but for those in [`ArrayTiming::more_erases`].
    erase: Option<Ticket>,
}

/// An erase that waits for its block behind another one, and for how many operations issued between them.
#[derive(Clone, Copy, Debug)]
struct MoreErase {
    block: u32,
    op: u32,
    before: u32,
}

/// Dies and channels with what they do and what waits for them.
///
/// A die does one thing at a time: reads of one page on each of some of its planes, which share the time of the array
/// and are then sent over the bus one after the other; programs, which come over the bus and then share the time of
/// the array; or erases. It is held from the start of the first transfer to the end of the last.
#[derive(Clone, Debug)]
pub struct ArrayTiming {
    config: TimingConfig,
    page_transfer_ns: u64,
    unit_transfer_ns: u64,
    /// Whether each die has its bus to itself, and nothing is loaded ahead: then all times of an operation are known
    /// when it begins.
    owns_bus: bool,
    may_suspend: bool,
    now: SimTime,
    ops: Ops,
    dies: Vec<Die>,
    channels: Vec<Channel>,
    /// For each die, when it is done with what it does, and when its page on the bus has arrived.
    race: Race,
    /// Operations that may not start before some time.
    later: BinaryHeap<Reverse<(SimTime, u64, u32)>>,
    blocks: Vec<Block>,
    /// Erases of blocks for which another one waits already, in the order of their issue: rarely any.
    more_erases: Vec<MoreErase>,
    /// Operations that wait for nothing more.
    ready: Vec<u32>,
    reported: Vec<u64>,
    /// Dies and channels to be looked at.
    noted_dies: Vec<u32>,
    noted_channels: Vec<u32>,
    busy_dies: u32,
    occupancy: Occupancy,
}

impl ArrayTiming {
    /// Idle dies and channels.
    pub fn new(config: TimingConfig, geometry: &Geometry) -> Self {
        let transfer_ns = |bytes: u64| match config.channel_mb_s {
            0 => 0,
            rate => (bytes * 1000).div_ceil(u64::from(rate)),
        };
        let spec = geometry.spec();
        let spare_per_unit = config.spare_bytes / (spec.page_bytes / spec.unit_bytes);
        let dies = (0..geometry.dies()).map(|die| Die::new(die / spec.dies_per_channel)).collect();
        Self {
            config,
            page_transfer_ns: transfer_ns(u64::from(spec.page_bytes) + u64::from(config.spare_bytes)),
            unit_transfer_ns: transfer_ns(u64::from(spec.unit_bytes) + u64::from(spare_per_unit)),
            owns_bus: spec.dies_per_channel == 1 && !config.cache_program,
            may_suspend: config.suspend.most > 0,
            now: SimTime::ZERO,
            ops: Ops::default(),
            dies,
            channels: vec![Channel::default(); spec.channels as usize],
            race: Race::new(2 * geometry.dies() as usize),
            later: BinaryHeap::new(),
            blocks: vec![Block::default(); geometry.blocks() as usize],
            more_erases: Vec::new(),
            ready: Vec::new(),
            reported: Vec::new(),
            noted_dies: Vec::new(),
            noted_channels: Vec::new(),
            busy_dies: 0,
            occupancy: Occupancy::default(),
        }
    }

    fn idle(&self) -> Self {
        let dies = self.dies.iter().map(|die| Die::new(die.channel)).collect::<Vec<_>>();
        Self {
            config: self.config,
            page_transfer_ns: self.page_transfer_ns,
            unit_transfer_ns: self.unit_transfer_ns,
            owns_bus: self.owns_bus,
            may_suspend: self.may_suspend,
            now: self.now,
            ops: Ops::default(),
            race: Race::new(2 * dies.len()),
            dies,
            channels: vec![Channel::default(); self.channels.len()],
            later: BinaryHeap::new(),
            blocks: vec![Block::default(); self.blocks.len()],
            more_erases: Vec::new(),
            ready: Vec::new(),
            reported: Vec::new(),
            noted_dies: Vec::new(),
            noted_channels: Vec::new(),
            busy_dies: 0,
            occupancy: self.occupancy,
        }
    }

    #[inline]
    fn issue(&mut self, after: When, kind: Kind, class: Class, place: Place) -> u32 {
        let slot = self.ops.issue(kind, class);
        let op = &mut self.ops[slot];
        op.plane = 1 << (place.plane & 63);
        (op.die, op.block, op.page) = (place.die.get(), place.block.get(), place.page);
        self.wait_until(slot, after);
        slot
    }

    /// The time `ns` from now; never later than the end of time, which is a time like others.
    #[inline]
    fn at(&self, ns: u64) -> SimTime {
        (self.now + ns).min(LAST)
    }

    #[inline]
    fn wait_until(&mut self, op: u32, after: When) {
        match after {
            When::At(time) if time.min(LAST) > self.now => {
                let time = time.min(LAST);
                self.ops.hold(op);
                self.later.push(Reverse((time, self.ops[op].number, op)));
            }
            When::At(_) => {}
            When::With(ticket) => {
                if let Some(other) = self.ops.find(ticket) {
                    self.ops.wait_for(op, other);
                }
            }
        }
    }

    /// All that `op` waits for is known.
    #[inline]
    fn issued(&mut self, op: u32) -> When {
        let ticket = self.ops.ticket(op);
        if self.ops.release(op) {
            self.ready.push(op);
            self.let_ready_go();
        }
        When::With(ticket)
    }

    /// Queues the operations that wait for nothing more.
    #[inline]
    fn let_ready_go(&mut self) {
        let mut at = 0;
        while let Some(&op) = self.ready.get(at) {
            at += 1;
            let kind = self.ops[op].kind;
            if kind == Kind::Join {
                let token = self.ops.done(op, &mut self.ready);
                self.report(token);
                continue;
            }
            let now = self.now;
            let entry = &mut self.ops[op];
            entry.ready_at = now;
            let die = entry.die;
            self.dies[die as usize].push(&mut self.ops, op);
            self.ops.queued(op, &mut self.ready);
            self.note_arrival(die);
        }
        self.ready.clear();
    }

    #[inline]
    fn report(&mut self, token: u64) {
        if token != UNWATCHED {
            self.reported.push(token);
        }
    }

    #[inline]
    fn note_die(&mut self, die: u32) {
        let entry = &mut self.dies[die as usize];
        if !entry.is_noted {
            entry.is_noted = true;
            self.noted_dies.push(die);
        }
    }

    /// Something waits for `die`: does that change what it does?
    #[inline]
    fn note_arrival(&mut self, die: u32) {
        let matters = match self.dies[die as usize].phase {
            Phase::Idle => true,
            Phase::Array { .. } => self.may_suspend || self.config.cache_program,
            _ => false,
        };
        if matters {
            self.note_die(die);
        }
    }

    #[inline]
    fn note_channel(&mut self, channel: u32) {
        let entry = &mut self.channels[channel as usize];
        if !entry.is_noted {
            entry.is_noted = true;
            self.noted_channels.push(channel);
        }
    }
}

impl Timing for ArrayTiming {
    const TIMED: bool = true;

    #[inline]
    fn read(&mut self, after: When, class: Class, units: u32, place: impl FnOnce() -> Place) -> When {
        let place = place();
        let op = self.issue(after, Kind::Read, class, place);
        self.ops[op].transfer_ns = self.unit_transfer_ns * u64::from(units);
        self.blocks[place.block.index()].others += 1;
        if let Some(erase) = self.last_erase(place.block.index()) {
            self.ops.wait_for(op, erase);
        }
        self.issued(op)
    }

    #[inline]
    fn program(&mut self, after: When, class: Class, place: impl FnOnce() -> Place) -> When {
        let place = place();
        let op = self.issue(after, Kind::Program, class, place);
        self.ops[op].transfer_ns = self.page_transfer_ns;
        let block = &mut self.blocks[place.block.index()];
        block.others += 1;
        block.programs += 1;
        let writer = block.writer.replace(self.ops.ticket(op)).and_then(|writer| self.ops.find(writer));
        if let Some(writer) = writer {
            let &Op { kind, state, class, .. } = &self.ops[writer];
            match (kind, state) {
                (Kind::Erase, _) => self.ops.wait_for(op, writer),
                // Pages are programmed in order: this one has its turn behind the other, in the same queue.
                (_, State::Waiting) => {
                    self.ops[op].class = class;
                    self.ops.queue_behind(op, writer);
                }
                (_, State::Queued) => self.ops[op].class = class,
                (_, State::Running) => {}
            }
        }
        self.issued(op)
    }

    #[inline]
    fn erase(&mut self, after: When, class: Class, place: impl FnOnce() -> Place) -> When {
        let place = place();
        let op = self.issue(after, Kind::Erase, class, place);
        let id = place.block.get();
        let block = &mut self.blocks[id as usize];
        let ticket = self.ops.ticket(op);
        block.writer = Some(ticket);
        let before = std::mem::replace(&mut block.others, 1);
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
        // What is complete, or was to be by now, is nothing to wait for.
        let is_past = |ops: &Ops, when: When| match when {
            When::At(time) => time <= self.now,
            When::With(ticket) => ops.find(ticket).is_none(),
        };
        match (is_past(&self.ops, a), is_past(&self.ops, b)) {
            (true, _) => b,
            (_, true) => a,
            _ => {
                let join = self.ops.issue(Kind::Join, Class::HostRead);
                self.wait_until(join, a);
                self.wait_until(join, b);
                self.issued(join)
            }
        }
    }

    fn watch(&mut self, when: When, token: u64) {
        if let Some(op) = self.ops.awaited(when)
            && self.ops.watch(op, token)
        {
            return;
        }
        let join = self.ops.issue(Kind::Join, Class::HostRead);
        self.ops.watch(join, token);
        self.wait_until(join, when);
        self.issued(join);
    }

    fn now(&self) -> SimTime {
        self.now
    }

    fn next_event(&self) -> Option<SimTime> {
        if !self.reported.is_empty() || !self.noted_dies.is_empty() || !self.noted_channels.is_empty() {
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
            self.pass(next);
        }
        true
    }

    fn reported(&mut self, tokens: &mut Vec<u64>) {
        tokens.append(&mut self.reported);
    }

    #[inline]
    fn start(&mut self) {
        while !self.noted_dies.is_empty() || !self.noted_channels.is_empty() {
            let mut noted = std::mem::take(&mut self.noted_dies);
            if noted.len() > 1 {
                noted.sort_unstable();
            }
            for &die in &noted {
                self.look_at_die(die);
            }
            noted.clear();
            // What was noted meanwhile is looked at in the next round.
            noted.append(&mut self.noted_dies);
            self.noted_dies = noted;
            if self.noted_channels.is_empty() {
                continue;
            }
            let mut noted = std::mem::take(&mut self.noted_channels);
            if noted.len() > 1 {
                noted.sort_unstable();
            }
            for &channel in &noted {
                self.look_at_channel(channel);
            }
            noted.clear();
            noted.append(&mut self.noted_channels);
            self.noted_channels = noted;
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
            assert!(next < NEVER, "timing bug: an operation waits for nothing that is on its way");
            self.pass(next);
        }
        self.now
    }

    fn drain(&mut self) -> SimTime {
        while self.ops.live() > 0 {
            self.start();
            let next = self.next_instant();
            assert!(next < NEVER, "timing bug: an operation waits for nothing that is on its way");
            self.pass(next);
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
        self.ops.awaited(when).map(|op| self.ops[op].state == State::Running)
    }

    fn is_suspended(&self, when: When) -> bool {
        self.ops.awaited(when).map(|op| &self.ops[op]).is_some_and(|op| {
            let suspended = self.dies[op.die as usize].suspended;
            op.state == State::Running && suspended.is_some_and(|suspended| suspended.group.kind == op.kind)
        })
    }

    fn at_rest(&self) -> Self {
        self.idle()
    }

    fn backlog(&self, die: u32) -> u32 {
        let die = &self.dies[die as usize];
        die.waiting + u32::from(die.phase != Phase::Idle)
    }

    fn busy_dies(&self) -> u32 {
        self.busy_dies
    }

    fn occupancy(&self) -> Occupancy {
        let mut occupancy = self.occupancy;
        for die in self.dies.iter().filter(|die| die.phase != Phase::Idle) {
            let held = die.current.or(die.suspended.map(|suspended| suspended.group));
            if let Some(group) = held {
                occupancy.held_ns[group.class as usize] += self.now.since(die.since);
            }
        }
        occupancy
    }
}

impl ArrayTiming {
    /// Lets time pass until `time`, whatever is reported.
    fn pass_until(&mut self, time: SimTime) {
        loop {
            self.start();
            let next = self.next_instant();
            if next > time {
                self.now = time;
                return;
            }
            self.pass(next);
        }
    }
}
