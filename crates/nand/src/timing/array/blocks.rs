//! In-flight operations by block: erases wait for earlier operations.

use super::{ArrayTiming, Kind, Op, Ticket};
use strobe_types::Stored;

#[derive(Clone, Copy, Debug, Default, Stored)]
pub(super) struct Block {
    pub(super) writer: Option<Ticket>,
    pub(super) programs: u32,
    /// Incomplete operations from the last waiting erase on; without a waiting erase, all.
    pub(super) others: u32,
    /// Operations that `erase` waits for; 0 if it does not wait or is complete.
    pub(super) before_erase: u32,
    pub(super) erase: Option<Ticket>,
}

/// Further waiting erase. `before` counts incomplete operations from the previous erase on.
#[derive(Clone, Copy, Debug, Stored)]
pub(super) struct MoreErase {
    pub(super) block: u32,
    pub(super) op: u32,
    pub(super) before: u32,
}

impl ArrayTiming {
    #[inline(always)]
    pub(super) fn complete(&mut self, op: u32) {
        let &Op { kind, block, more, .. } = &self.ops[op];
        if more > 0 {
            return self.complete_pages(op, 1);
        }
        if self.log.is_on() {
            self.log.flash_ended(self.now, op);
        }
        let entry = &mut self.blocks[block as usize];
        entry.programs -= u32::from(kind == Kind::Program);
        // No erase waits in this block, so the operation only leaves the count of its block.
        if entry.before_erase == 0 && self.more_erases.is_empty() {
            entry.others -= 1;
            let token = self.ops.done(op, &mut self.ready);
            self.report(token);
        } else {
            self.complete_before_erase(op);
        }
        self.let_ready_go();
    }

    /// Completes the next `pages` pages of a train, all but its last.
    #[inline]
    pub(super) fn complete_pages(&mut self, op: u32, pages: u32) {
        let &Op { kind, die, block, .. } = &self.ops[op];
        let entry = &mut self.blocks[block as usize];
        entry.programs -= if kind == Kind::Program { pages } else { 0 };
        if entry.before_erase == 0 && self.more_erases.is_empty() {
            entry.others -= pages;
        } else {
            for _ in 0..pages {
                let waiting = self.leave_block(op);
                assert!(waiting.is_none(), "timing bug: an erase that does not wait for the last page");
            }
        }
        self.dies[die as usize].queues.put_back(&mut self.ops, op, pages, &self.config.deadline_ns);
    }

    pub(super) fn complete_before_erase(&mut self, op: u32) {
        let waiting = self.leave_block(op);
        let token = self.ops.done(op, &mut self.ready);
        if let Some(erase) = waiting {
            // Operations released together are served in issue order.
            let number = self.ops[erase].number();
            let at = self.ready.partition_point(|&other| self.ops[other].number() < number);
            self.ready.insert(at, erase);
        }
        self.report(token);
    }

    pub(super) fn leave_block(&mut self, op: u32) -> Option<u32> {
        let (id, number) = (self.ops[op].block, self.ops[op].number());
        let block = &mut self.blocks[id as usize];
        // Operations issued before the waiting erase count for it, later ones for the next erase or for
        // `others`.
        if block.before_erase > 0 {
            let erase = block.erase.and_then(|erase| self.ops.find(erase));
            if let Some(erase) = erase.filter(|&erase| number < self.ops[erase].number()) {
                block.before_erase -= 1;
                return (block.before_erase == 0 && self.ops.release(erase)).then_some(erase);
            }
        }
        let is_before = |more: &MoreErase| more.block == id && number < self.ops[more.op].number();
        let Some(at) = self.more_erases.iter().position(is_before) else {
            block.others -= 1;
            return None;
        };
        let more = &mut self.more_erases[at];
        more.before -= 1;
        if more.before > 0 {
            return None;
        }
        let erase = self.more_erases.remove(at).op;
        // Every operation issued before this erase is complete.
        block.erase = Some(self.ops.ticket(erase));
        self.ops.release(erase).then_some(erase)
    }

    #[inline]
    pub(super) fn last_erase(&self, block: usize) -> Option<u32> {
        let more = self.more_erases.iter().rev().find(|more| more.block as usize == block);
        more.map(|more| more.op).or_else(|| self.blocks[block].erase.and_then(|erase| self.ops.find(erase)))
    }
}
