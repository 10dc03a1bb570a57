//! Issue in order: one waiting slot for the operations of all dies.
//!
//! 1. An operation that is issued joins the line.
//! 2. The first in line enters the slot when the slot is empty and the operation waits for nothing else.
//! 3. The slot is empty again when the die has begun the operation.
//!
//! With two idle dies and programs for dies 0, 0, 1 the third waits until the first is complete: the second holds the slot.

use std::collections::VecDeque;

use super::super::ops::{Ops, State, Ticket};

/// Operations that have not reached their dies.
#[derive(Clone, Debug, Default)]
pub(super) struct InOrder {
    line: VecDeque<u32>,
    slot: Option<Ticket>,
    /// Operations of the table that this takes account of. Fewer than there are: a saved state was loaded.
    seen: u64,
}

impl InOrder {
    /// Notes that `op` has been issued, which takes place nowhere if it is `None`.
    pub(super) fn issued(&mut self, ops: &Ops, op: Option<u32>) {
        if self.seen + 1 == ops.issued() {
            self.seen += 1;
            self.line.extend(op);
        }
    }

    /// Takes the first in line into the slot, if that is possible.
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

    /// Derives slot and line from the operations.
    fn restore(&mut self, ops: &Ops) {
        let live = ops.on_flash();
        let is = |state| move |&op: &u32| ops[op].state == state;
        self.slot = live.iter().copied().find(is(State::Queued)).map(|op| ops.ticket(op));
        self.line = live.into_iter().filter(is(State::Waiting)).collect();
        self.seen = ops.issued();
    }
}
