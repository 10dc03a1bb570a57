//! Power cuts: a copy of the chip with the current operation half done.

use strobe_types::{BlockId, Ppn};

use super::{Block, Chip, PADDING};
use crate::cut::{CutOperations, CutPlan, Cuts, PowerCuts, Snapshot};
use crate::{Cause, Medium, Nand as _, NandOp, Timing};

impl<T: Timing, M: Medium> Chip<T, M> {
    /// Takes the snapshots planned for the next operation. `tear` leaves that operation half done on a copy
    /// of the chip. With timing, `undo.rs` takes the snapshots instead.
    pub(super) fn cut(&mut self, tear: impl FnOnce(&mut Self)) {
        if self.undo_log.is_kept {
            return;
        }
        let operation = self.counts.changes() + 1;
        let (before, during) = self.cuts.wanted(operation);
        if !before && !during {
            return;
        }
        // The plan is taken out first, so that the copies have none.
        let mut cuts = std::mem::take(&mut self.cuts);
        let copy = || {
            let mut copy = self.clone();
            copy.forget_marks();
            copy
        };
        if before {
            let mut flash = copy();
            flash.forget_unused_modes();
            cuts.taken.push(Snapshot { operation, begun: false, in_flight: CutOperations::default(), flash });
        }
        if during {
            let mut flash = copy();
            tear(&mut flash);
            flash.forget_unused_modes();
            cuts.taken.push(Snapshot { operation, begun: true, in_flight: CutOperations::default(), flash });
        }
        self.cuts = cuts;
    }

    /// Returns blocks without a program to normal mode: only the first program sets SLC mode on flash.
    pub(super) fn forget_unused_modes(&mut self) {
        (0..self.blocks.len() as u32).map(BlockId::new).for_each(|block| self.forget_unused_mode(block));
    }

    pub(super) fn forget_unused_mode(&mut self, block: BlockId) {
        if self.block(block).is_erased() {
            self.blocks[block.index()].history &= !Block::SLC;
        }
    }

    pub(super) fn tear_page(&mut self, ppn: Ppn, cause: Cause) {
        let first = self.geometry.first_unit_of_page(ppn);
        self.counts.add(NandOp::Program, cause);
        self.write_oob(first, &[], 1);
        self.medium.store(ppn, first, &[], 0, cause);
        self.take_pages(ppn, 1);
    }

    /// Leaves `block` half erased. Not counted; the erase that must follow is.
    pub(super) fn tear_block(&mut self, block: BlockId) {
        let (first, units) = (self.geometry.first_unit(block), self.geometry.units_per_block());
        self.oob_lpn[first.index()..first.index() + units as usize].fill(PADDING);
        self.blocks[block.index()].history |= Block::HALF_ERASED;
        self.save_before_change(block, None);
        self.medium.erase(first, units);
    }
}

impl<T: Timing, M: Medium> PowerCuts for Chip<T, M> {
    fn plan_cuts(&mut self, plan: CutPlan) {
        self.cuts = Cuts::new(plan);
        self.track_in_flight();
        self.go_page_by_page();
    }

    fn take_snapshots(&mut self) -> Vec<Snapshot<Self>> {
        std::mem::take(&mut self.cuts.taken)
    }

    fn cut_now(&mut self) -> Snapshot<Self> {
        let (flash, in_flight) = self.as_cut_during(None);
        Snapshot { operation: self.counts.changes(), begun: false, in_flight, flash }
    }
}
