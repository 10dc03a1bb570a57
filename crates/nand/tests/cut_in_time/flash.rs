//! Model of the flash after a list of operations, some cut short or never begun.

use std::sync::Arc;

use strobe_nand::{ArrayTiming, Cause, Chip, Medium, Nand, NandOp, Payload, Unit, When, verify_page};
use strobe_types::{BlockId, Geometry, Ppn};

#[derive(Clone, Debug)]
pub(crate) enum What<P> {
    Program { ppn: Ppn, units: Vec<Unit<P>>, meta: Option<Arc<[u8]>> },
    Erase { block: BlockId, fails: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Waiting,
    Begun,
    Complete,
}

#[derive(Clone, Debug)]
pub(crate) struct Issued<P> {
    pub(crate) when: When,
    pub(crate) what: What<P>,
    pub(crate) status: Status,
}

impl<P> Issued<P> {
    pub(crate) fn new(when: When, what: What<P>) -> Self {
        Self { when, what, status: Status::Waiting }
    }
}

#[derive(Clone, Debug)]
enum Page<P> {
    Erased,
    Holds(Vec<Unit<P>>),
    Meta(Arc<[u8]>),
    Torn,
}

#[derive(Clone, Debug)]
struct Block<P> {
    pages: Vec<Page<P>>,
    erases: u32,
    /// Unknown if a mark waits for an operation that ends at this instant.
    is_bad: Option<bool>,
    is_half_erased: bool,
}

pub(crate) struct Expected<P> {
    blocks: Vec<Block<P>>,
    programs: u64,
    erases: u64,
}

pub(crate) struct Model<P> {
    geometry: Geometry,
    pub(crate) issued: Vec<Issued<P>>,
    pub(crate) marks: Vec<(usize, BlockId)>,
}

impl<P: Payload> Model<P> {
    pub(crate) fn new(geometry: Geometry) -> Self {
        Self { geometry, issued: Vec::new(), marks: Vec::new() }
    }

    fn block_of(&self, what: &What<P>) -> BlockId {
        match what {
            What::Program { ppn, .. } => self.geometry.block_of_page(*ppn),
            What::Erase { block, .. } => *block,
        }
    }

    /// Status of each operation after a power cut during operation `cut`, or just before it unless `begun`.
    /// Later operations in its block have not begun either, even if loaded ahead.
    pub(crate) fn statuses(&self, cut: u64, begun: bool) -> Vec<Status> {
        let block = self.block_of(&self.issued[cut as usize - 1].what);
        (1..)
            .zip(&self.issued)
            .map(|(number, issued)| match () {
                () if number == cut && begun => Status::Begun,
                () if number == cut => Status::Waiting,
                () if !begun && number > cut && self.block_of(&issued.what) == block => Status::Waiting,
                () => issued.status,
            })
            .collect()
    }

    pub(crate) fn after(&self, statuses: &[Status], ended: &[u64]) -> Expected<P> {
        let pages = vec![Page::Erased; self.geometry.pages_per_block() as usize];
        let fresh = Block { pages, erases: 0, is_bad: Some(false), is_half_erased: false };
        let blocks = vec![fresh; self.geometry.blocks() as usize];
        let mut expected = Expected { blocks, programs: 0, erases: 0 };
        for (issued, status) in self.issued.iter().zip(statuses) {
            let block = &mut expected.blocks[self.block_of(&issued.what).index()];
            match (&issued.what, status) {
                (_, Status::Waiting) => {}
                (What::Program { ppn, units, meta }, status) => {
                    expected.programs += 1;
                    let page = &mut block.pages[self.geometry.page_in_block(*ppn) as usize];
                    assert!(matches!(page, Page::Erased), "the list programs {ppn} twice");
                    *page = match (status, meta) {
                        (Status::Begun, _) => Page::Torn,
                        (_, Some(bytes)) => Page::Meta(bytes.clone()),
                        (_, None) => Page::Holds(units.clone()),
                    };
                }
                (What::Erase { .. }, Status::Begun) => block.is_half_erased = true,
                (What::Erase { fails: true, .. }, _) => {
                    // The erase failed, but the data is still there.
                    (block.is_bad, expected.erases) = (Some(true), expected.erases + 1);
                }
                (What::Erase { .. }, _) => {
                    block.pages.fill(Page::Erased);
                    (block.erases, block.is_half_erased) = (block.erases + 1, false);
                    expected.erases += 1;
                }
            }
        }
        // A mark takes effect once everything issued before it is complete.
        for &(before, block) in &self.marks {
            if statuses[..before].iter().all(|&status| status == Status::Complete) {
                let is_settled = ended.iter().all(|&number| number > before as u64);
                expected.blocks[block.index()].is_bad = is_settled.then_some(true);
            }
        }
        expected
    }
}

impl<P: Payload> Expected<P> {
    pub(crate) fn compare<M: Medium<Payload = P>>(&self, flash: &Chip<ArrayTiming, M>, what: &str) {
        let geometry = flash.geometry();
        for (block, id) in self.blocks.iter().zip((0..).map(BlockId::new)) {
            let state = flash.block(id);
            let programmed = block.pages.iter().filter(|page| !matches!(page, Page::Erased)).count() as u32;
            let is_bad = block.is_bad.unwrap_or(state.bad);
            let expected = (block.erases, is_bad, block.is_half_erased, programmed);
            let found = (state.erase_count, state.bad, state.half_erased, state.pages_programmed);
            assert_eq!(found, expected, "{what}: {id}");
            for (page, number) in block.pages.iter().zip(0..) {
                let ppn = geometry.page(id, number);
                let is_programmed = !matches!(page, Page::Erased);
                assert_eq!(flash.is_programmed(ppn), is_programmed, "{what}: page {ppn}");
                if is_programmed {
                    let page = if block.is_half_erased { &Page::Torn } else { page };
                    Self::compare_page(flash, ppn, page, &format!("{what}: page {ppn}"));
                }
            }
        }
        let counts = flash.counts();
        let done = (counts.total(NandOp::Program), counts.total(NandOp::Erase));
        assert_eq!(done, (self.programs, self.erases), "{what}: counts");
    }

    fn compare_page<M: Medium<Payload = P>>(
        flash: &Chip<ArrayTiming, M>,
        ppn: Ppn,
        page: &Page<P>,
        what: &str,
    ) {
        let none = Vec::new();
        let units = if let Page::Holds(units) = page { units } else { &none };
        let geometry = flash.geometry();
        for slot in 0..geometry.units_per_page() {
            let ppa = geometry.first_unit_of_page(ppn).plus(slot);
            let unit = units.get(slot as usize);
            assert_eq!(flash.lpn(ppa), unit.map(|unit| unit.lpn), "{what}");
            let payload = unit.map_or(P::zero(), |unit| unit.payload.clone());
            assert_eq!(flash.payload(ppa), payload, "{what}");
        }
        let meta = flash.clone().read_meta(When::START, ppn, Cause::Host).1;
        let expected = if let Page::Meta(bytes) = page { Some(bytes.clone()) } else { None };
        assert_eq!(meta, expected, "{what}");
        assert_eq!(verify_page(flash, ppn), Ok(()), "{what}");
    }
}
