//! Power cuts with timing: complete operations are on flash, begun ones are half done, waiting ones have not
//! happened.
//!
//! The chip's tables show an operation as soon as it is issued. While a cut is planned, an undo log keeps
//! each change until its operation is complete. A snapshot undoes the logged changes on a copy.

use strobe_types::{BlockId, Ppa, Ppn, SimTime};

use super::{Block, Chip, Lasts, Stress};
use crate::cut::{CutOperations, Snapshot};
use crate::{BlockState, Cause, Medium, NandOp, Timing, Unit, When};

const TOKEN: u64 = 1 << 62;
const FINISHED: u64 = TOKEN - 1;

#[derive(Clone, Debug)]
struct Page<P> {
    ppn: Ppn,
    units: Vec<Unit<P>>,
    sequence: u64,
    meta: Option<std::sync::Arc<[u8]>>,
}

#[derive(Clone, Debug)]
enum What<P> {
    /// A block marked bad, effective once everything issued before is complete.
    Mark {
        block: BlockId,
    },
    Program {
        ppn: Ppn,
    },
    Erase {
        block: BlockId,
        state: BlockState,
        stress: Option<Stress>,
        pages: Vec<Page<P>>,
        lost: Vec<Ppa>,
    },
}

/// Entry of the undo log. A bad-block mark has `operation` 0 and stays until the entries before it are gone.
#[derive(Clone, Debug)]
struct Change<P> {
    operation: u64,
    when: When,
    cause: Cause,
    what: What<P>,
}

#[derive(Clone, Debug)]
pub(super) struct UndoLog<P> {
    pub(super) is_kept: bool,
    changes: Vec<Change<P>>,
    pub(super) reported: Vec<u64>,
}

impl<P> Default for UndoLog<P> {
    fn default() -> Self {
        Self { is_kept: false, changes: Vec::new(), reported: Vec::new() }
    }
}

impl CutOperations {
    fn add<P>(&mut self, what: &What<P>, is_suspended: bool) {
        let (all, suspended) = match what {
            What::Mark { .. } => return,
            What::Program { .. } => (&mut self.programs, &mut self.suspended_programs),
            What::Erase { .. } => (&mut self.erases, &mut self.suspended_erases),
        };
        *all += 1;
        *suspended += u32::from(is_suspended);
    }
}

impl<T: Timing, M: Medium> Chip<T, M> {
    /// Operations issued before the plan count as complete. Logged changes stay after its end, because their
    /// operations are still to be reported.
    pub(super) fn track_in_flight(&mut self) {
        let UndoLog { changes, reported, .. } = &self.undo_log;
        let is_kept = self.is_tracked() || !changes.is_empty() || !reported.is_empty();
        self.undo_log.is_kept = is_kept;
    }

    fn is_tracked(&self) -> bool {
        self.cuts.is_planned() && self.timing.is_timed()
    }

    pub(super) fn track_program(&mut self, when: When, ppn: Ppn, cause: Cause) {
        if self.is_tracked() {
            self.track(when, cause, What::Program { ppn });
        }
    }

    pub(super) fn track_erase(&mut self, when: When, block: BlockId, cause: Cause) {
        if !self.is_tracked() {
            return;
        }
        let state = crate::Nand::block(self, block);
        let programmed = |&page: &u32| crate::Nand::is_programmed(self, self.geometry.page(block, page));
        // The undo entry holds all that the erase destroys: pages, block state, stress and lost units.
        let pages = (0..self.geometry.pages_per_block())
            .filter(programmed)
            .map(|page| {
                let ppn = self.geometry.page(block, page);
                let first = self.geometry.first_unit_of_page(ppn);
                let unit = |ppa| {
                    let lpn = crate::Nand::lpn(self, ppa)?;
                    Some(Unit { lpn, payload: self.medium.load(ppa) })
                };
                let units =
                    (0..self.geometry.units_per_page()).map_while(|at| unit(first.plus(at))).collect();
                let sequence = self.medium.record(ppn).map_or(0, |record| record.sequence);
                Page { ppn, units, sequence, meta: self.medium.load_meta(ppn) }
            })
            .collect();
        let stress = self.stress_of(block);
        let first = self.geometry.first_unit(block);
        let lost = self.lost_units(first, first.plus(self.geometry.units_per_block()));
        self.track(when, cause, What::Erase { block, state, stress, pages, lost });
    }

    pub(super) fn track_mark(&mut self, block: BlockId) {
        if self.is_tracked() && !self.undo_log.changes.is_empty() {
            let (when, cause, what) = (When::START, Cause::Meta, What::Mark { block });
            self.undo_log.changes.push(Change { operation: 0, when, cause, what });
        }
    }

    fn track(&mut self, when: When, cause: Cause, what: What<M::Payload>) {
        let operation = self.counts.changes();
        self.undo_log.changes.push(Change { operation, when, cause, what });
        self.timing.watch(when, TOKEN | operation);
    }

    pub(super) fn run_tracked(&mut self, until: SimTime) -> bool {
        let mut tokens = Vec::new();
        while self.undo_log.reported.is_empty() {
            if !self.timing.run(until) {
                return false;
            }
            self.timing.reported(&mut tokens);
            for token in tokens.drain(..) {
                // Tokens of tracked operations end here; all others are passed on to the callers that watch.
                match token & TOKEN {
                    0 => self.undo_log.reported.push(token),
                    _ => self.completed(token & !TOKEN),
                }
            }
            self.track_in_flight();
        }
        true
    }

    pub(super) fn run_tracked_to_the_end(&mut self) {
        let mut kept = std::mem::take(&mut self.undo_log.reported);
        while self.run_tracked(SimTime::from_ns(u64::MAX)) {
            kept.append(&mut self.undo_log.reported);
        }
        self.undo_log.reported = kept;
        self.track_in_flight();
    }

    pub(super) fn finish_tracked(&mut self, when: When) -> SimTime {
        let mut kept = std::mem::take(&mut self.undo_log.reported);
        self.timing.watch(when, FINISHED);
        let mut is_done = false;
        while !is_done && self.run_tracked(SimTime::from_ns(u64::MAX)) {
            let mut reported = std::mem::take(&mut self.undo_log.reported);
            is_done = reported.contains(&FINISHED);
            reported.retain(|&token| token != FINISHED);
            kept.append(&mut reported);
        }
        self.undo_log.reported = kept;
        self.track_in_flight();
        match when {
            When::At(time) => time,
            When::With(_) => self.timing.now(),
        }
    }

    fn completed(&mut self, operation: u64) {
        let (before, during) = self.cuts.wanted(operation);
        for (wanted, begun) in [(before, false), (during, true)] {
            if wanted {
                let (flash, in_flight) = self.as_cut_during(Some((operation, begun)));
                self.cuts.taken.push(Snapshot { operation, begun, in_flight, flash });
            }
        }
        // A bad-block mark is on flash once no earlier change is left before it.
        let changes = &mut self.undo_log.changes;
        changes.retain(|change| change.operation != operation);
        while changes.first().is_some_and(|change| matches!(change.what, What::Mark { .. })) {
            changes.remove(0);
        }
    }

    /// Copy of the chip after a cut now. `cut` names the operation being cut: begun if true, else not begun.
    pub(super) fn as_cut_during(&mut self, cut: Option<(u64, bool)>) -> (Self, CutOperations) {
        // Without an operation, `last` matches no change: the timing model says which have begun.
        let (last, begun) = cut.unwrap_or((u64::MAX, false));
        let mut in_flight = CutOperations::default();
        let mut cuts = std::mem::take(&mut self.cuts);
        let undo_log = std::mem::take(&mut self.undo_log);
        let mut flash = self.clone();
        flash.forget_marks();
        let cut = undo_log.changes.iter().find(|change| change.operation == last);
        let block = cut.map(|change| self.block_of(change));
        // Undo in reverse issue order, because later changes build on earlier ones.
        for change in undo_log.changes.iter().rev() {
            let has_begun = if change.operation == last {
                Some(begun)
            } else if change.operation == 0 {
                // A mark still in the log waits for earlier operations, so the cut loses it.
                Some(false)
            } else if change.operation > last && Some(self.block_of(change)) == block {
                // Pages of a block are programmed in order: a later one has begun only if the cut one has.
                // Cache program may load the later page during the program of the cut one.
                Some(begun && self.timing.has_begun(change.when).unwrap_or(true))
            } else {
                self.timing.has_begun(change.when)
            };
            if let Some(has_begun) = has_begun {
                flash.undo(change, has_begun);
                if has_begun {
                    in_flight.add(&change.what, self.timing.is_suspended(change.when));
                }
            }
        }
        flash.forget_unused_modes();
        flash.timing = self.timing.at_rest();
        std::mem::swap(&mut self.cuts, &mut cuts);
        self.undo_log = undo_log;
        (flash, in_flight)
    }

    fn block_of(&self, change: &Change<M::Payload>) -> BlockId {
        match &change.what {
            What::Program { ppn } => self.geometry.block_of_page(*ppn),
            What::Erase { block, .. } | What::Mark { block } => *block,
        }
    }

    /// If the change `has_begun`, its page or block is left torn.
    fn undo(&mut self, change: &Change<M::Payload>, has_begun: bool) {
        match &change.what {
            What::Mark { block } => self.blocks[block.index()].history &= !Block::BAD,
            What::Program { ppn } => {
                let first = self.geometry.first_unit_of_page(*ppn);
                let per_page = self.geometry.units_per_page();
                // The page is empty again. It is used up only if its program had begun.
                self.medium.erase(first, per_page);
                self.forget_faults(first, first.plus(per_page));
                self.write_oob(first, &[], 1);
                if has_begun {
                    self.medium.store(*ppn, first, &[], 0, change.cause);
                    return;
                }
                self.counts.take_back(NandOp::Program, change.cause);
                let block = self.geometry.block_of_page(*ppn);
                self.blocks[block.index()].pages_programmed -= 1;
                self.forget_unused_mode(block);
                if let Some(programmed) = &mut self.programmed {
                    programmed[ppn.index()] = false;
                }
            }
            What::Erase { block, state, stress, pages, lost } => {
                self.counts.take_back(NandOp::Erase, change.cause);
                self.blocks[block.index()] = Block::from(*state);
                self.set_stress(*block, stress.unwrap_or_default());
                lost.iter().for_each(|&ppa| self.lose_unit(ppa, Lasts::UntilErased));
                for page in pages {
                    let first = self.geometry.first_unit_of_page(page.ppn);
                    self.write_oob(first, &page.units, 1);
                    self.medium.store(page.ppn, first, &page.units, page.sequence, change.cause);
                    if let Some(bytes) = &page.meta {
                        self.medium.store_meta(page.ppn, bytes, change.cause);
                    }
                    if let Some(programmed) = &mut self.programmed {
                        programmed[page.ppn.index()] = true;
                    }
                }
                // Restored first, then torn: a begun erase destroys what the undo has put back.
                if has_begun {
                    self.tear_block(*block);
                }
            }
        }
    }
}
