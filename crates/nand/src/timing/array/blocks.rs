//! Operations in flight on each block, so that erases wait for earlier operations.

use super::{ArrayTiming, Kind, Op, Ticket};
use strobe_types::Stored;

/// Operations in flight on one block.
#[derive(Clone, Copy, Debug, Default, Stored)]
pub(super) struct Block {
    /// The last program or erase.
    pub(super) writer: Option<Ticket>,
    /// Programs.
    pub(super) programs: u32,
    /// Operations issued since the last erase that waits, or all of them.
    pub(super) others: u32,
    /// Operations that `erase` waits for; 0: it does not wait, or is complete.
    pub(super) before_erase: u32,
    /// The last erase, but for those in [`ArrayTiming::more_erases`].
    pub(super) erase: Option<Ticket>,
}

/// An erase that waits for its block behind another one, and for how many operations issued between them.
#[derive(Clone, Copy, Debug, Stored)]
pub(super) struct MoreErase {
    pub(super) block: u32,
    pub(super) op: u32,
    pub(super) before: u32,
}

impl ArrayTiming {
    /// `op` is complete.
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
        if entry.before_erase == 0 && self.more_erases.is_empty() {
            entry.others -= 1;
            let token = self.ops.done(op, &mut self.ready);
            self.report(token);
        } else {
            self.complete_before_erase(op);
        }
        self.let_ready_go();
    }

    /// `pages` of the pages that `op` is for are complete, and it has not come to the last one.
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
        self.dies[die as usize].queues.put_back(&mut self.ops, op, pages, &self.config.patience_ns);
    }

    pub(super) fn complete_before_erase(&mut self, op: u32) {
        let waiting = self.leave_block(op);
        let token = self.ops.done(op, &mut self.ready);
        if let Some(erase) = waiting {
            // Of what waited for one thing, that issued first comes first.
            let number = self.ops[erase].number();
            let at = self.ready.partition_point(|&other| self.ops[other].number() < number);
            self.ready.insert(at, erase);
        }
        self.report(token);
    }

    /// `op` is in the way of no erase of its block any more; returns the erase that waited for nothing else.
    pub(super) fn leave_block(&mut self, op: u32) -> Option<u32> {
        let (id, number) = (self.ops[op].block, self.ops[op].number());
        let block = &mut self.blocks[id as usize];
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
        // All before it are complete.
        block.erase = Some(self.ops.ticket(erase));
        self.ops.release(erase).then_some(erase)
    }

    /// The last erase of `block`, if it is not complete.
    #[inline]
    pub(super) fn last_erase(&self, block: usize) -> Option<u32> {
        let more = self.more_erases.iter().rev().find(|more| more.block as usize == block);
        more.map(|more| more.op).or_else(|| self.blocks[block].erase.and_then(|erase| self.ops.find(erase)))
    }
}
