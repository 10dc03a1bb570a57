//! Issue in order: one waiting slot for all dies.
//!
//! 1. An issued operation joins the line.
//! 2. The first in line enters the slot once the slot is empty and its dependencies are met.
//! 3. The slot empties when the die begins the operation.
//!
//! Example: two idle dies, and programs for dies 0, 0, 1. The third waits until the first is complete,
//! because the second holds the slot.

use std::collections::VecDeque;

use super::super::ops::{Ops, State, Ticket};

#[derive(Clone, Debug, Default)]
pub(super) struct InOrder {
    line: VecDeque<u32>,
    slot: Option<Ticket>,
    /// Issued operations accounted for; too few after a saved state is loaded, until `restore`.
    seen: u64,
}

impl InOrder {
    pub(super) fn issued(&mut self, ops: &Ops, op: Option<u32>) {
        if self.seen + 1 == ops.issued() {
            self.seen += 1;
            self.line.extend(op);
        }
    }

    pub(super) fn next(&mut self, ops: &Ops) -> Option<u32> {
        if self.seen != ops.issued() {
            self.restore(ops);
        }
        let is_taken = |slot| ops.find(slot).is_some_and(|op| ops[op].state != State::Running);
        let &first = self.line.front()?;
        if self.slot.is_some_and(is_taken) || !ops.is_ready(first) {
            return None;
        }
        self.slot = Some(ops.ticket(first));
        self.line.pop_front()
    }

    fn restore(&mut self, ops: &Ops) {
        let live = ops.on_flash();
        let is = |state| move |&op: &u32| ops[op].state == state;
        self.slot = live.iter().copied().find(is(State::Queued)).map(|op| ops.ticket(op));
        self.line = live.into_iter().filter(is(State::Waiting)).collect();
        self.seen = ops.issued();
    }
}
