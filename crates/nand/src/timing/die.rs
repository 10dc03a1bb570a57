//! One die: what waits for it, and what it is doing.

use strobe_types::SimTime;

use super::config::Class;
use super::ops::{Kind, NONE, Ops};

/// Operations of one class, first come, first served.
#[derive(Clone, Copy, Debug)]
struct Queue {
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
    /// Programs and erases: the array is at work between these times. Before the first, the page of a program alone comes
    /// over a bus of its own.
    Array {
        from: SimTime,
        until: SimTime,
    },
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
    queues: [Queue; Class::ALL.len()],
    pub(super) waiting: u32,
    pub(super) phase: Phase,
    pub(super) since: SimTime,
    /// What it does, unless it is idle.
    pub(super) current: Option<Group>,
    pub(super) next: Option<Next>,
    /// The page that is on the bus, or waits for it.
    pub(super) on_bus: u32,
    pub(super) suspended: Option<Suspended>,
    /// How often the program or erase at hand has been suspended.
    pub(super) suspends: u32,
    /// Whether it has to be looked at: something has come, or it is free.
    pub(super) is_noted: bool,
}

impl Die {
    pub(super) fn new(channel: u32) -> Self {
        Self {
            channel,
            queues: [Queue { head: NONE, tail: NONE }; Class::ALL.len()],
            waiting: 0,
            phase: Phase::Idle,
            since: SimTime::ZERO,
            current: None,
            next: None,
            on_bus: NONE,
            suspended: None,
            suspends: 0,
            is_noted: false,
        }
    }

    /// `op` is ready and waits for its turn.
    #[inline]
    pub(super) fn push(&mut self, ops: &mut Ops, op: u32) {
        let queue = &mut self.queues[ops[op].class as usize];
        ops[op].next = NONE;
        if queue.tail == NONE {
            queue.head = op;
        } else {
            ops[queue.tail].next = op;
        }
        queue.tail = op;
        self.waiting += 1;
    }

    #[inline]
    fn pop(&mut self, ops: &Ops, class: Class) -> u32 {
        let queue = &mut self.queues[class as usize];
        let op = queue.head;
        queue.head = ops[op].next;
        if queue.head == NONE {
            queue.tail = NONE;
        }
        self.waiting -= 1;
        op
    }

    /// Whether a read waits for which programs and erases are suspended.
    #[inline]
    pub(super) fn has_urgent_read(&self) -> bool {
        self.queues[Class::HostRead as usize].head != NONE
    }

    /// The class whose turn it is: that of the operation whose patience runs out first, of equal ones the one issued
    /// first.
    #[inline]
    pub(super) fn choice(&self, ops: &Ops, patience_ns: &[u64; Class::ALL.len()]) -> Option<Class> {
        let mut best: Option<(SimTime, u64, Class)> = None;
        for (class, queue) in Class::ALL.into_iter().zip(&self.queues) {
            if queue.head != NONE {
                let head = &ops[queue.head];
                let runs_out = (head.ready_at + patience_ns[class as usize], head.number);
                if best.is_none_or(|(earliest, number, _)| runs_out < (earliest, number)) {
                    best = Some((runs_out.0, runs_out.1, class));
                }
            }
        }
        best.map(|(_, _, class)| class)
    }

    /// Takes the first operation of `class` out of its queue, with those directly behind it that can share its array
    /// time: of the same kind, at the same page number, on other planes.
    pub(super) fn take(&mut self, ops: &mut Ops, class: Class) -> Group {
        let first = self.pop(ops, class);
        let (kind, page) = (ops[first].kind, ops[first].page);
        let (mut last, mut planes) = (first, ops[first].plane);
        loop {
            let head = self.queues[class as usize].head;
            if head == NONE {
                break;
            }
            let op = &ops[head];
            if op.kind != kind || op.page != page || planes & op.plane != 0 {
                break;
            }
            planes |= op.plane;
            let op = self.pop(ops, class);
            ops[last].next = op;
            last = op;
        }
        ops[last].next = NONE;
        Group { first, kind, class }
    }
}
