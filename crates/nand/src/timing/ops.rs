//! In-flight operations and their dependencies.

use strobe_types::{SimTime, Stored};

use super::When;
use super::config::Class;

pub(super) const NONE: u32 = u32::MAX;
pub(super) const UNWATCHED: u64 = u64::MAX;

/// Handle of an issued operation, stale once it is complete. Holds the issue number above the bits of the
/// table slot, because slots are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub struct Ticket(u64);

/// Bits of a slot number. They limit the operations in flight.
const SLOT_BITS: u32 = 24;

impl Ticket {
    #[inline(always)]
    fn new(slot: u32, number: u64) -> Self {
        Self(number << SLOT_BITS | u64::from(slot))
    }

    #[inline(always)]
    fn slot(self) -> usize {
        (self.0 & ((1 << SLOT_BITS) - 1)) as usize
    }
}

const COMPLETE: Ticket = Ticket(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(super) enum Kind {
    /// No flash operation: completes with its dependencies, or some time after them if it is a delay.
    Join,
    Read,
    Program,
    Erase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(super) enum State {
    Waiting,
    Queued,
    Running,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) die: u32,
    pub(super) plane: u8,
    pub(super) block: u32,
    pub(super) page: u32,
}

/// An operation, one cache line in size.
#[derive(Clone, Debug, Stored)]
pub(super) struct Op {
    ticket: Ticket,
    pub(super) transfer_ns: u64,
    pub(super) ready_at: SimTime,
    token: u64,
    pub(super) die: u32,
    pub(super) block: u32,
    pub(super) page: u32,
    /// Next in the queue or in the running group. For a free slot, the next free slot.
    pub(super) next: u32,
    /// Heads of two lists: operations that wait for its completion, and operations to be queued behind it.
    on_done: u32,
    on_queued: u32,
    unmet: u16,
    pub(super) more: u16,
    plane: u8,
    pub(super) kind: Kind,
    pub(super) state: State,
    pub(super) class: Class,
}

impl Op {
    const UNUSED: Self = Self {
        ticket: Ticket(0),
        transfer_ns: 0,
        ready_at: SimTime::ZERO,
        token: UNWATCHED,
        die: 0,
        block: 0,
        page: 0,
        next: NONE,
        on_done: NONE,
        on_queued: NONE,
        unmet: 0,
        more: 0,
        plane: 0,
        kind: Kind::Program,
        state: State::Waiting,
        class: Class::HostProgram,
    };

    #[inline(always)]
    pub(super) fn number(&self) -> u64 {
        // The pages of a train have consecutive numbers; the ticket holds the last.
        (self.ticket.0 >> SLOT_BITS) - u64::from(self.more)
    }

    #[inline(always)]
    pub(super) fn is_running(&self) -> bool {
        self.state == State::Running && self.more == 0
    }

    #[inline(always)]
    pub(super) fn has_followers(&self) -> bool {
        self.on_queued != NONE
    }

    #[inline(always)]
    pub(super) fn plane(&self) -> u32 {
        u32::from(self.plane)
    }

    #[inline(always)]
    pub(super) fn plane_bit(&self) -> u64 {
        1 << (self.plane & 63)
    }
}

#[derive(Clone, Copy, Debug, Stored)]
struct Edge {
    op: u32,
    next: u32,
}

#[derive(Clone, Debug, Stored)]
pub(super) struct Ops {
    ops: Vec<Op>,
    unused: u32,
    edges: Vec<Edge>,
    unused_edge: Vec<u32>,
    issued: u64,
    live: u32,
}

impl Default for Ops {
    fn default() -> Self {
        Self { ops: Vec::new(), unused: NONE, edges: Vec::new(), unused_edge: Vec::new(), issued: 0, live: 0 }
    }
}

impl std::ops::Index<u32> for Ops {
    type Output = Op;

    #[inline(always)]
    fn index(&self, op: u32) -> &Op {
        &self.ops[op as usize]
    }
}

impl std::ops::IndexMut<u32> for Ops {
    #[inline(always)]
    fn index_mut(&mut self, op: u32) -> &mut Op {
        &mut self.ops[op as usize]
    }
}

impl Ops {
    pub(super) const MOST: u32 = u16::MAX as u32;

    pub(super) fn live(&self) -> u32 {
        self.live
    }

    #[inline(always)]
    pub(super) fn issue(&mut self, kind: Kind, class: Class, spot: Spot, transfer_ns: u64) -> u32 {
        self.issue_many(kind, class, spot, transfer_ns, 1)
    }

    /// Issues `count` pages, 1 to [`Ops::MOST`], as one operation. They run one after the other. Only the
    /// last can be watched or waited for.
    #[inline(always)]
    pub(super) fn issue_many(
        &mut self,
        kind: Kind,
        class: Class,
        spot: Spot,
        transfer_ns: u64,
        count: u32,
    ) -> u32 {
        self.issued += u64::from(count);
        self.live += 1;
        if self.unused == NONE {
            self.add_slot();
        }
        let slot = self.unused;
        let ticket = Ticket::new(slot, self.issued);
        let Spot { die, plane, block, page } = spot;
        // Written in place: copying a temporary would stall on stores that are still in flight.
        let op = &mut self.ops[slot as usize];
        self.unused = op.next;
        *op = Op {
            ticket,
            transfer_ns,
            ready_at: SimTime::ZERO,
            token: UNWATCHED,
            die,
            block,
            page,
            unmet: 1,
            more: (count - 1) as u16,
            next: NONE,
            on_done: NONE,
            on_queued: NONE,
            plane,
            kind,
            state: State::Waiting,
            class,
        };
        slot
    }

    #[cold]
    fn add_slot(&mut self) {
        let slot = self.ops.len() as u32;
        assert!(slot < 1 << SLOT_BITS, "timing bug: {slot} operations in flight");
        self.ops.push(Op::UNUSED);
        self.unused = slot;
    }

    #[inline(always)]
    pub(super) fn ticket(&self, slot: u32) -> Ticket {
        self[slot].ticket
    }

    pub(super) fn issued(&self) -> u64 {
        self.issued
    }

    #[inline(always)]
    pub(super) fn is_ready(&self, op: u32) -> bool {
        self[op].unmet == 0
    }

    pub(super) fn on_flash(&self) -> Vec<u32> {
        let is_live = |op: &Op| op.ticket != COMPLETE && op.kind != Kind::Join;
        let mut live: Vec<u32> =
            (0..).zip(&self.ops).filter(|(_, op)| is_live(op)).map(|(at, _)| at).collect();
        live.sort_unstable_by_key(|&op| self[op].number());
        live
    }

    #[inline(always)]
    pub(super) fn find(&self, ticket: Ticket) -> Option<u32> {
        let op = self.ops.get(ticket.slot())?;
        (op.ticket == ticket).then_some(ticket.slot() as u32)
    }

    #[inline(always)]
    pub(super) fn awaited(&self, when: When) -> Option<u32> {
        match when {
            When::With(ticket) => self.find(ticket),
            When::At(_) => None,
        }
    }

    fn edge(&mut self, op: u32, next: u32) -> u32 {
        let edge = Edge { op, next };
        match self.unused_edge.pop() {
            Some(at) => {
                self.edges[at as usize] = edge;
                at
            }
            None => {
                self.edges.push(edge);
                self.edges.len() as u32 - 1
            }
        }
    }

    #[inline]
    pub(super) fn hold(&mut self, op: u32) {
        let unmet = &mut self[op].unmet;
        *unmet = unmet.checked_add(1).expect("timing bug: an operation waits for 65,536 others");
    }

    #[inline]
    pub(super) fn release(&mut self, op: u32) -> bool {
        let op = &mut self[op];
        op.unmet -= 1;
        op.unmet == 0
    }

    pub(super) fn wait_for(&mut self, op: u32, other: u32) {
        self.hold(op);
        let edge = self.edge(op, self[other].on_done);
        self[other].on_done = edge;
    }

    pub(super) fn queue_behind(&mut self, op: u32, other: u32) {
        self.hold(op);
        let edge = self.edge(op, self[other].on_queued);
        self[other].on_queued = edge;
    }

    /// Appends the ready operations to `ready` in issue order.
    fn let_go(&mut self, mut list: u32, ready: &mut Vec<u32>) {
        let from = ready.len();
        while list != NONE {
            let Edge { op, next } = self.edges[list as usize];
            self.unused_edge.push(list);
            if self.release(op) {
                ready.push(op);
            }
            list = next;
        }
        if ready.len() - from > 1 {
            // Edges are a stack, so the list is not in issue order.
            ready[from..].sort_unstable_by_key(|&op| self.ops[op as usize].ticket.0);
        }
    }

    #[inline(always)]
    pub(super) fn queued(&mut self, op: u32, ready: &mut Vec<u32>) {
        let list = std::mem::replace(&mut self[op].on_queued, NONE);
        self.let_go(list, ready);
    }

    #[inline(always)]
    pub(super) fn done(&mut self, op: u32, ready: &mut Vec<u32>) -> u64 {
        let unused = std::mem::replace(&mut self.unused, op);
        self.live -= 1;
        let entry = &mut self[op];
        entry.ticket = COMPLETE;
        entry.next = unused;
        let (list, token) = (entry.on_done, entry.token);
        if list != NONE {
            self.let_go(list, ready);
        }
        token
    }

    pub(super) fn watch(&mut self, op: u32, token: u64) -> bool {
        let is_free = self[op].token == UNWATCHED;
        if is_free {
            self[op].token = token;
        }
        is_free
    }
}
