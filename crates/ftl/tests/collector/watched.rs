use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use strobe_ftl::gc::{AnyPolicy, BlockView, VictimPolicy};
use strobe_nand::{
    BlockState, Cause, Chip, EraseFailed, Nand, OobRecord, OpCounts, ProgramFailed, ReadDone, StampMedium,
    Unit, Untimed, Wanted, When,
};
use strobe_types::{BlockId, Geometry, Lpn, Ppa, Ppn, Prng, SimTime};
#[derive(Clone, Debug)]
pub(super) enum Event {
    Opened(BlockId),
    Closed(BlockId),
    Taken(BlockId),
    Programmed { first: Ppa, lpns: Vec<Lpn>, cause: Cause },
    ProgramFailed(BlockId),
    Erased(BlockId, Cause),
    Bad(BlockId),
}

pub(super) type Log = Rc<RefCell<Vec<Event>>>;

pub(super) struct Watched {
    pub(super) chip: Chip<Untimed, StampMedium>,
    pub(super) log: Log,
}

impl Watched {
    pub(super) fn note(&self, event: Event) {
        self.log.borrow_mut().push(event);
    }
}

impl Nand for Watched {
    type Payload = u64;

    type Timing = Untimed;

    fn timing(&self) -> &Untimed {
        self.chip.timing()
    }

    fn timing_mut(&mut self) -> &mut Untimed {
        self.chip.timing_mut()
    }

    fn run(&mut self, until: SimTime) -> bool {
        self.chip.run(until)
    }

    fn has_reported(&self) -> bool {
        self.chip.has_reported()
    }

    fn next_reported(&mut self) -> Option<u64> {
        self.chip.next_reported()
    }

    fn finish(&mut self, when: When) -> SimTime {
        self.chip.finish(when)
    }

    fn drain(&mut self) -> SimTime {
        self.chip.drain()
    }

    fn geometry(&self) -> &Geometry {
        self.chip.geometry()
    }

    fn pages_per_program(&self) -> u32 {
        self.chip.pages_per_program()
    }

    fn read(&mut self, after: When, ppn: Ppn, wanted: Wanted, cause: Cause) -> ReadDone {
        self.chip.read(after, ppn, wanted, cause)
    }

    fn program(
        &mut self,
        after: When,
        page: Ppn,
        units: &[Unit<u64>],
        sequence: u64,
        cause: Cause,
    ) -> Result<When, ProgramFailed> {
        let result = self.chip.program(after, page, units, sequence, cause);
        let written = match result {
            Ok(_) => units.len(),
            Err(failed) => (failed.programmed * self.geometry().units_per_page()) as usize,
        };
        let lpns = units[..written].iter().map(|unit| unit.lpn).collect();
        self.note(Event::Programmed { first: self.geometry().first_unit_of_page(page), lpns, cause });
        if result.is_err() {
            self.note(Event::ProgramFailed(self.geometry().block_of_page(page)));
        }
        result
    }

    fn program_meta(
        &mut self,
        after: When,
        ppn: Ppn,
        bytes: &[u8],
        cause: Cause,
    ) -> Result<When, ProgramFailed> {
        self.chip.program_meta(after, ppn, bytes, cause)
    }

    fn read_meta(&mut self, after: When, ppn: Ppn, cause: Cause) -> (ReadDone, Option<Arc<[u8]>>) {
        self.chip.read_meta(after, ppn, cause)
    }

    fn record(&self, ppn: Ppn) -> Option<OobRecord> {
        self.chip.record(ppn)
    }

    fn erase(&mut self, after: When, block: BlockId, cause: Cause) -> Result<When, EraseFailed> {
        let done = self.chip.erase(after, block, cause)?;
        self.note(Event::Erased(block, cause));
        Ok(done)
    }

    fn lpn(&self, ppa: Ppa) -> Option<Lpn> {
        self.chip.lpn(ppa)
    }

    fn payload(&self, ppa: Ppa) -> u64 {
        self.chip.payload(ppa)
    }

    fn block(&self, block: BlockId) -> BlockState {
        self.chip.block(block)
    }

    fn mark_bad(&mut self, block: BlockId) {
        self.chip.mark_bad(block);
        self.note(Event::Bad(block));
    }

    fn counts(&self) -> &OpCounts {
        self.chip.counts()
    }
}

pub(super) struct Spy {
    pub(super) policy: AnyPolicy,
    pub(super) log: Log,
}

impl VictimPolicy for Spy {
    fn opened(&mut self, block: BlockId, erase_count: u32, tick: u64) {
        self.log.borrow_mut().push(Event::Opened(block));
        self.policy.opened(block, erase_count, tick);
    }
    fn written(&mut self, unit: Ppa, tick: u64) {
        self.policy.written(unit, tick);
    }
    fn closed(&mut self, block: BlockId, valid: u32, tick: u64) {
        self.log.borrow_mut().push(Event::Closed(block));
        self.policy.closed(block, valid, tick);
    }
    fn invalidated(&mut self, unit: Ppa, block: BlockId, valid: u32, tick: u64) {
        self.policy.invalidated(unit, block, valid, tick);
    }
    fn taken(&mut self, block: BlockId) {
        self.log.borrow_mut().push(Event::Taken(block));
        self.policy.taken(block);
    }
    fn choose(&mut self, view: &BlockView<'_>, rng: &mut Prng) -> Option<BlockId> {
        self.policy.choose(view, rng)
    }
    fn candidates(&self) -> u32 {
        self.policy.candidates()
    }
    fn bytes_per_block() -> u64 {
        0
    }
}
