//! Issue of operations, and their dependencies.

use std::cmp::Reverse;

use strobe_types::Place;

use super::cells::page_at;
use super::{ArrayTiming, Class, Kind, LAST, Op, Ops, Phase, Spot, State, When};

impl ArrayTiming {
    #[inline(always)]
    pub(super) fn issue(
        &mut self,
        after: When,
        kind: Kind,
        class: Class,
        place: Place,
        transfer_ns: u64,
    ) -> u32 {
        let op = self.ops.issue(kind, class, Self::spot(place), transfer_ns);
        if let Some(in_order) = &mut self.in_order {
            in_order.issued(&self.ops, Some(op));
        }
        if self.log.is_on() {
            self.log_issue(op, kind, place);
        }
        self.wait_until(op, after);
        op
    }

    #[inline(always)]
    pub(super) fn spot(place: Place) -> Spot {
        let Place { block, die, plane, .. } = place;
        Spot { die: die.get(), plane: plane as u8, block: block.get(), page: page_at(&place) }
    }

    /// True if `count` pages can be one operation (a train). A train has no dependencies, so `after` must
    /// have passed.
    #[inline(always)]
    pub(super) fn is_train(&self, after: When, count: u32) -> bool {
        self.has_trains && count > 1 && count <= Ops::MOST && self.is_past(after)
    }

    pub(super) fn issue_join(&mut self) -> u32 {
        let nowhere = Spot { die: 0, plane: 0, block: 0, page: 0 };
        let join = self.ops.issue(Kind::Join, Class::HostRead, nowhere, 0);
        if let Some(in_order) = &mut self.in_order {
            in_order.issued(&self.ops, None);
        }
        join
    }

    #[inline(always)]
    pub(super) fn wait_until(&mut self, op: u32, after: When) {
        match after {
            When::At(time) if time <= self.now => {}
            _ => self.wait_for(op, after),
        }
    }

    pub(super) fn wait_for(&mut self, op: u32, after: When) {
        match after {
            When::At(time) if time.min(LAST) > self.now => {
                let time = time.min(LAST);
                self.ops.hold(op);
                self.later.push(Reverse((time, self.ops[op].number(), op)));
            }
            When::At(_) => {}
            When::With(ticket) => {
                if let Some(other) = self.ops.find(ticket) {
                    self.ops.wait_for(op, other);
                }
            }
        }
    }

    #[inline(always)]
    pub(super) fn issued(&mut self, op: u32) -> When {
        let ticket = self.ops.ticket(op);
        match (self.ops.release(op), &self.in_order) {
            (true, None) => self.queue(op),
            (true, Some(_)) => {
                self.fill_slot();
            }
            (false, None) => self.dies[self.ops[op].die as usize].queues.unready += 1,
            (false, Some(_)) => {}
        }
        When::With(ticket)
    }

    pub(super) fn fill_slot(&mut self) -> bool {
        let Some(op) = self.in_order.as_mut().and_then(|in_order| in_order.next(&self.ops)) else {
            return false;
        };
        let before = self.ready.len();
        self.queue(op);
        // Followers of the operation in its block may be ready now, but they keep their place in line.
        self.ready.truncate(before);
        true
    }

    #[inline]
    pub(super) fn is_past(&self, when: When) -> bool {
        match when {
            When::At(time) => time <= self.now,
            When::With(ticket) => self.ops.find(ticket).is_none(),
        }
    }

    /// True if `b` follows `a` in a queue or shares its array time, so that `b` completes no earlier.
    #[inline]
    pub(super) fn follows(&self, a: When, b: When) -> bool {
        match (self.ops.awaited(a), self.ops.awaited(b)) {
            (Some(before), Some(b)) if self.ops[b].more == 0 => {
                let Op { next, die, class, state, more, .. } = self.ops[before];
                // A train with pages left returns to the head of its queue.
                let comes_back = more > 0 && state == State::Running;
                next == b || (comes_back && self.dies[die as usize].queues.first(class) == Some(b))
            }
            _ => false,
        }
    }

    #[inline(always)]
    pub(super) fn queue(&mut self, op: u32) {
        let now = self.now;
        let entry = &mut self.ops[op];
        (entry.ready_at, entry.state) = (now, State::Queued);
        let (die, class, number) = (entry.die, entry.class, entry.number());
        let has_followers = entry.has_followers();
        let die_entry = &mut self.dies[die as usize];
        let mut queues = &mut die_entry.queues;
        if self.readers_per_die > 1 && self.ops[op].kind == Kind::Read {
            // The read waits at its plane; the die counts it as well.
            queues.waiting += 1;
            let reader = die * self.readers_per_die + self.ops[op].plane();
            queues = &mut self.readers[reader as usize].queues;
        }
        queues.push(&mut self.ops, op, class, (now, number), &self.config.deadline_ns);
        // Serve the die if the new operation may change its next step.
        let matters = match die_entry.phase {
            Phase::Idle => true,
            Phase::Readers => self.overlaps_reads,
            Phase::Array => self.may_suspend || self.config.cache_program,
            _ => false,
        };
        if matters {
            self.mark_die(die);
        }
        if has_followers {
            self.ops.queued(op, &mut self.ready);
        }
    }

    #[inline(always)]
    pub(super) fn let_ready_go(&mut self) {
        if !self.ready.is_empty() {
            self.let_all_ready_go();
        }
    }

    pub(super) fn let_all_ready_go(&mut self) {
        let mut at = 0;
        while let Some(&op) = self.ready.get(at) {
            at += 1;
            if self.ops[op].kind == Kind::Join {
                // A join without a delay is complete now. A delay starts when its dependencies are met.
                let ns = std::mem::take(&mut self.ops[op].transfer_ns);
                if ns > 0 {
                    self.wait_for(op, When::At(self.at(ns)));
                    continue;
                }
                let token = self.ops.done(op, &mut self.ready);
                self.report(token);
            } else if self.in_order.is_none() {
                self.dies[self.ops[op].die as usize].queues.unready -= 1;
                self.queue(op);
            }
        }
        self.ready.clear();
        self.fill_slot();
    }
}
