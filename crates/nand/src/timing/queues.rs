//! Waiting operations: one queue per class.

use strobe_types::{SimTime, Stored};

use super::config::Class;
use super::ops::{Kind, NONE, Ops, State};

/// Relative deadlines by class, in ns.
pub(super) type Deadlines = [u64; Class::ALL.len()];

/// Operations that share one array time, linked by `Op::next`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(super) struct Group {
    pub(super) first: u32,
    pub(super) kind: Kind,
    pub(super) class: Class,
}

pub(super) type RunsOut = (SimTime, u64);

#[derive(Clone, Copy, Debug, Stored)]
struct Queue {
    runs_out: RunsOut,
    head: u32,
    tail: u32,
}

#[derive(Clone, Debug, Stored)]
pub(super) struct Queues {
    queued: u32,
    queues: [Queue; Class::ALL.len()],
    /// Waiting operations; a train counts its pages. For a die, includes reads that wait at its planes.
    pub(super) waiting: u32,
    /// Issued operations of a die that wait for others or for a time, and are in no queue yet. Not counted with
    /// issue in order.
    pub(super) unready: u32,
}

impl Default for Queues {
    fn default() -> Self {
        let empty = Queue { runs_out: (SimTime::ZERO, 0), head: NONE, tail: NONE };
        Self { queued: 0, queues: [empty; Class::ALL.len()], waiting: 0, unready: 0 }
    }
}

impl Queues {
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        ops: &mut Ops,
        op: u32,
        class: Class,
        (now, number): (SimTime, u64),
        deadlines: &Deadlines,
    ) {
        let queue = &mut self.queues[class as usize];
        if self.queued & 1 << class as u32 == 0 {
            self.queued |= 1 << class as u32;
            queue.head = op;
            queue.runs_out = (now + deadlines[class as usize], number);
        } else {
            ops[queue.tail].next = op;
        }
        queue.tail = op;
        self.waiting += 1 + u32::from(ops[op].more);
    }

    /// Returns a train to the head of its queue after `pages` pages. `take` has already subtracted the first
    /// from `waiting`.
    #[inline(always)]
    pub(super) fn put_back(&mut self, ops: &mut Ops, op: u32, pages: u32, deadlines: &Deadlines) {
        let entry = &mut ops[op];
        entry.more -= pages as u16;
        self.waiting -= pages - 1;
        entry.state = State::Queued;
        let class = entry.class as usize;
        let queue = &mut self.queues[class];
        queue.runs_out = (entry.ready_at + deadlines[class], entry.number());
        match self.queued & 1 << class {
            0 => {
                self.queued |= 1 << class;
                queue.tail = op;
            }
            _ => entry.next = queue.head,
        }
        queue.head = op;
    }

    pub(super) fn first(&self, class: Class) -> Option<u32> {
        (self.queued & 1 << class as u32 != 0).then(|| self.queues[class as usize].head)
    }

    pub(super) fn runs_out(&self, class: Class) -> RunsOut {
        self.queues[class as usize].runs_out
    }

    /// True if a host read waits. A program or erase may be suspended for it.
    #[inline(always)]
    pub(super) fn has_urgent_read(&self) -> bool {
        self.queued & 1 << Class::HostRead as u32 != 0
    }

    #[inline(always)]
    pub(super) fn has_read_due(&self, deadline: SimTime) -> bool {
        self.has_urgent_read() && self.runs_out(Class::HostRead).0 <= deadline
    }

    /// Class with the earliest deadline; on ties, the class of the operation issued first.
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

    /// Takes the first operation of `class`, with those behind it that share its array time.
    #[inline(always)]
    pub(super) fn take(&mut self, ops: &mut Ops, class: Class, deadlines: &Deadlines) -> Group {
        let queue = &mut self.queues[class as usize];
        let first = queue.head;
        let op = &mut ops[first];
        op.state = State::Running;
        let (kind, page, mut planes, mut head) = (op.kind, op.page, op.plane_bit(), op.next);
        let mut last = first;
        self.waiting -= 1;
        // Operations on other planes join until kind or page differs, or a plane repeats.
        while head != NONE {
            let op = &mut ops[head];
            if op.page != page || op.kind != kind || planes & op.plane_bit() != 0 {
                queue.runs_out = (op.ready_at + deadlines[class as usize], op.number());
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
