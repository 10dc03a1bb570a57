//! One die: what waits for it, and what it is doing.

use strobe_types::SimTime;

use super::config::Class;
use super::ops::{Kind, NONE, Ops, State};

/// How long the operations of each class may wait for others that come later, in ns.
pub(super) type Patience = [u64; Class::ALL.len()];

/// Operations of one class, first come, first served.
#[derive(Clone, Copy, Debug)]
struct Queue {
    /// When the patience of the first one runs out, and its number.
    runs_out: (SimTime, u64),
    head: u32,
    tail: u32,
}

/// What a die is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    /// Reads: the array gives the pages to the registers.
    Sensing,
    /// Reads: one page after the other goes over the bus.
    Sending,
    /// Programs: one page after the other comes over the bus.
    Loading,
    /// Both, of a read alone on a bus of its own.
    Reading,
    /// Programs and erases: the array is at work from [`Die::from`] until [`Die::until`]. Before, the page of a program
    /// alone comes over a bus of its own.
    Array,
    /// From the suspend until the die can read.
    Suspending,
    /// From the resume until the array is at work again.
    Resuming,
}

/// Operations that share one array time: a list, first to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) first: u32,
    pub(super) kind: Kind,
    pub(super) class: Class,
}

/// A program or erase that has been interrupted, or is being.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suspended {
    pub(super) group: Group,
    pub(super) left_ns: u64,
}

/// The page of a program that the register holds, or will, while the array is at work (cache program).
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    pub(super) group: Group,
    /// All of it has come over the bus.
    pub(super) is_loaded: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Die {
    pub(super) channel: u32,
    /// A bit for each class whose queue is not empty.
    queued: u32,
    queues: [Queue; Class::ALL.len()],
    pub(super) waiting: u32,
    pub(super) phase: Phase,
    pub(super) since: SimTime,
    /// For what it is held, unless it is idle.
    pub(super) class: Class,
    /// When the array is at work, if it is.
    pub(super) from: SimTime,
    pub(super) until: SimTime,
    /// What it does, unless it is idle.
    pub(super) current: Option<Group>,
    pub(super) next: Option<Next>,
    /// The page that is on the bus, or waits for it.
    pub(super) on_bus: u32,
    pub(super) suspended: Option<Suspended>,
    /// How often the program or erase at hand has been suspended.
    pub(super) suspends: u32,
}

impl Die {
    pub(super) fn new(channel: u32) -> Self {
        Self {
            channel,
            queued: 0,
            queues: [Queue { runs_out: (SimTime::ZERO, 0), head: NONE, tail: NONE }; Class::ALL.len()],
            waiting: 0,
            phase: Phase::Idle,
            since: SimTime::ZERO,
            class: Class::HostRead,
            from: SimTime::ZERO,
            until: SimTime::ZERO,
            current: None,
            next: None,
            on_bus: NONE,
            suspended: None,
            suspends: 0,
        }
    }

    /// `op` of `class`, the number of which is `number`, is ready at `now` and waits for its turn.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        ops: &mut Ops,
        op: u32,
        class: Class,
        (now, number): (SimTime, u64),
        patience: &Patience,
    ) {
        let queue = &mut self.queues[class as usize];
        if self.queued & 1 << class as u32 == 0 {
            self.queued |= 1 << class as u32;
            queue.head = op;
            queue.runs_out = (now + patience[class as usize], number);
        } else {
            ops[queue.tail].next = op;
        }
        queue.tail = op;
        self.waiting += 1 + u32::from(ops[op].more);
    }

    /// `op`, `pages` more pages of which are done, the first of them taken out already, has its next turn: it comes first
    /// again.
    #[inline(always)]
    pub(super) fn put_back(&mut self, ops: &mut Ops, op: u32, pages: u32, patience: &Patience) {
        let entry = &mut ops[op];
        entry.more -= pages as u16;
        self.waiting -= pages - 1;
        entry.state = State::Queued;
        let class = entry.class as usize;
        let queue = &mut self.queues[class];
        queue.runs_out = (entry.ready_at + patience[class], entry.number());
        match self.queued & 1 << class {
            0 => {
                self.queued |= 1 << class;
                queue.tail = op;
            }
            _ => entry.next = queue.head,
        }
        queue.head = op;
    }

    /// The first operation of `class` that waits.
    pub(super) fn first(&self, class: Class) -> Option<u32> {
        (self.queued & 1 << class as u32 != 0).then(|| self.queues[class as usize].head)
    }

    /// Whether a read waits for which programs and erases are suspended.
    #[inline(always)]
    pub(super) fn has_urgent_read(&self) -> bool {
        self.queued & 1 << Class::HostRead as u32 != 0
    }

    /// The class whose turn it is: that of the operation whose patience runs out first, of equal ones the one issued
    /// first.
    #[inline(always)]
    pub(super) fn choice(&self) -> Option<Class> {
        let mut queued = self.queued;
        if queued == 0 {
            return None;
        }
        let mut chosen = queued.trailing_zeros();
        queued &= queued - 1;
        while queued != 0 {
            let class = queued.trailing_zeros();
            queued &= queued - 1;
            if self.queues[class as usize].runs_out < self.queues[chosen as usize].runs_out {
                chosen = class;
            }
        }
        Some(Class::ALL[chosen as usize])
    }

    /// Takes the first operation of `class` out of its queue, with those directly behind it that can share its array
    /// time: of the same kind, at the same page number, on other planes. They run from now on.
    #[inline(always)]
    pub(super) fn take(&mut self, ops: &mut Ops, class: Class, patience: &Patience) -> Group {
        let queue = &mut self.queues[class as usize];
        let first = queue.head;
        let op = &mut ops[first];
        op.state = State::Running;
        let (kind, page, mut planes, mut head) = (op.kind, op.page, op.plane_bit(), op.next);
        let mut last = first;
        self.waiting -= 1;
        while head != NONE {
            let op = &mut ops[head];
            if op.page != page || op.kind != kind || planes & op.plane_bit() != 0 {
                queue.runs_out = (op.ready_at + patience[class as usize], op.number());
                ops[last].next = NONE;
                break;
            }
            op.state = State::Running;
            planes |= op.plane_bit();
            (last, head) = (head, op.next);
            self.waiting -= 1;
        }
        queue.head = head;
        if head == NONE {
            self.queued &= !(1 << class as u32);
        }
        Group { first, kind, class }
    }
}
