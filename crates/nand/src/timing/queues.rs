//! Operations that wait for their turn: a queue for each class.

use strobe_types::{SimTime, Stored};

use super::config::Class;
use super::ops::{Kind, NONE, Ops, State};

/// Deadline of each class relative to the time its operation became ready, in ns.
pub(super) type Patience = [u64; Class::ALL.len()];

/// Operations that share one array time: a list, first to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(super) struct Group {
    pub(super) first: u32,
    pub(super) kind: Kind,
    pub(super) class: Class,
}

/// When the patience of an operation runs out, and its number.
pub(super) type RunsOut = (SimTime, u64);

/// Operations of one class, first come, first served.
#[derive(Clone, Copy, Debug, Stored)]
struct Queue {
    /// Of the first one.
    runs_out: RunsOut,
    head: u32,
    tail: u32,
}

/// Operations of all classes that wait for a die, or for one of its planes.
#[derive(Clone, Debug, Stored)]
pub(super) struct Queues {
    /// A bit for each class whose queue is not empty.
    queued: u32,
    queues: [Queue; Class::ALL.len()],
    /// Number of waiting operations. For a die it includes those that wait for one of its planes.
    pub(super) waiting: u32,
}

impl Default for Queues {
    fn default() -> Self {
        let empty = Queue { runs_out: (SimTime::ZERO, 0), head: NONE, tail: NONE };
        Self { queued: 0, queues: [empty; Class::ALL.len()], waiting: 0 }
    }
}

impl Queues {
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

    /// When the patience of the first operation of `class`, one of which waits, runs out.
    pub(super) fn runs_out(&self, class: Class) -> RunsOut {
        self.queues[class as usize].runs_out
    }

    /// True if a host read waits: programs and erases are suspended for it.
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
