//! The chip model: flash rules, out-of-band area, wear.

use std::sync::Arc;

use strobe_types::{BlockId, Geometry, Lpn, Ppa, Ppn, Prng, SimTime, prefetch_write};

use crate::cut::{CutPlan, Cuts, Snapshot};
use crate::medium::{BlockState, page_checksum};
use crate::{Cause, EraseFailed, Medium, Nand, NandOp, OobRecord, OpCounts, ProgramFailed, Timing, Unit};

/// How blocks go bad.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WearConfig {
    /// Erases a block survives; the next one fails and the block is bad. `None`: unlimited.
    pub endurance_pe: Option<u32>,
    /// Blocks that are bad from the factory, spread at random.
    pub factory_bad_blocks: u32,
    /// Probability that a page program fails, 0..1.
    pub program_fail_rate: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// Pages programmed; the next one in order, if order matters.
    next_page: u32,
    erase_count: u32,
}

/// What a chip knows beside what its medium keeps, as read back from an image.
pub(crate) struct Restored {
    /// LPN of each programmed unit, [`PADDING`] where there is none.
    pub(crate) oob_lpn: Vec<u32>,
    pub(crate) blocks: Vec<BlockState>,
    pub(crate) counts: OpCounts,
}

/// An exact model of a flash array in memory.
///
/// Memory: 4 bytes per mapping unit for the out-of-band LPN, 9 bytes per block, plus what
/// `medium` keeps.
#[derive(Clone, Debug)]
pub struct Chip<T, M> {
    geometry: Geometry,
    /// LPN of each programmed unit; [`PADDING`] in unused places of a page.
    oob_lpn: Vec<u32>,
    blocks: Vec<Block>,
    bad: Vec<bool>,
    /// Blocks whose last erase was cut short; few, and only after a power cut.
    half_erased: Vec<BlockId>,
    counts: OpCounts,
    wear: WearConfig,
    faults: Prng,
    /// Which pages are programmed, on chips that take them in any order.
    programmed: Option<Vec<bool>>,
    /// Whether programs can fail or power can be cut: then they go page by page.
    page_by_page: bool,
    cuts: Cuts<Self>,
    timing: T,
    medium: M,
}

/// Packed form of "no LPN" in the out-of-band area.
pub(crate) const PADDING: u32 = u32::MAX;

/// Which blocks are bad from the factory.
pub(crate) fn factory_bad(blocks: u32, wear: &WearConfig, seed: u64) -> Vec<bool> {
    let mut bad = vec![false; blocks as usize];
    let mut rng = Prng::derive(seed, "factory-bad");
    for _ in 0..wear.factory_bad_blocks.min(blocks) {
        // Linear probing from a random block: ends, and needs no list of good ones.
        let mut block = rng.below(blocks) as usize;
        while bad[block] {
            block = (block + 1) % blocks as usize;
        }
        bad[block] = true;
    }
    bad
}

impl<T: Timing, M: Medium> Chip<T, M> {
    /// A fresh array: every block erased, factory-bad ones marked.
    ///
    /// `seed` decides which blocks are bad and which programs fail.
    pub fn new(geometry: Geometry, wear: WearConfig, timing: T, seed: u64) -> Self {
        let medium = M::new(&geometry);
        Self::on_medium(geometry, wear, timing, seed, medium)
    }

    /// [`Chip::new`] on a given medium, which is empty.
    pub(crate) fn on_medium(geometry: Geometry, wear: WearConfig, timing: T, seed: u64, medium: M) -> Self {
        Self {
            oob_lpn: vec![0; geometry.units() as usize],
            blocks: vec![Block::default(); geometry.blocks() as usize],
            bad: factory_bad(geometry.blocks(), &wear, seed),
            half_erased: Vec::new(),
            counts: OpCounts::default(),
            programmed: None,
            page_by_page: wear.program_fail_rate > 0.0,
            wear,
            faults: Prng::derive(seed, "program-fail"),
            cuts: Cuts::default(),
            timing,
            medium,
            geometry,
        }
    }

    /// A chip as it was when `restored` and what `medium` holds were kept.
    pub(crate) fn restore(
        geometry: Geometry,
        wear: WearConfig,
        timing: T,
        seed: u64,
        medium: M,
        restored: Restored,
    ) -> Self {
        let Restored { oob_lpn, blocks, counts } = restored;
        let operations = counts.total(NandOp::Program) + counts.total(NandOp::Erase);
        let ids = (0..geometry.blocks()).map(BlockId::new);
        Self {
            oob_lpn,
            half_erased: ids.filter(|id| blocks[id.index()].half_erased).collect(),
            bad: blocks.iter().map(|block| block.bad).collect(),
            blocks: blocks
                .iter()
                .map(|block| Block { next_page: block.pages_programmed, erase_count: block.erase_count })
                .collect(),
            counts,
            programmed: None,
            page_by_page: wear.program_fail_rate > 0.0,
            wear,
            // Not the same chances again as when the array was new.
            faults: Prng::derive(seed.wrapping_add(operations), "program-fail"),
            cuts: Cuts::default(),
            timing,
            medium,
            geometry,
        }
    }

    /// The same, fresh, chip for programs in any order of the pages of a block, each once between erases,
    /// as small-page single-level chips allow (Samsung K9F1208: only the number of partial programs of a
    /// page is limited). Larger pages and more levels per cell disturb their neighbours and must be
    /// programmed in order.
    #[must_use]
    pub fn in_any_order(mut self) -> Self {
        self.programmed = Some(vec![false; self.geometry.pages() as usize]);
        self
    }

    /// Bytes of host memory a chip of this geometry needs.
    pub fn memory_bytes(geometry: &Geometry) -> u64 {
        let (per_unit, per_page) = M::footprint(geometry);
        u64::from(geometry.units()) * (4 + per_unit)
            + u64::from(geometry.pages()) * per_page
            + u64::from(geometry.blocks()) * (std::mem::size_of::<Block>() as u64 + 1)
    }

    /// Pages that `units` units fill, the last one perhaps in part.
    #[inline(always)]
    fn pages_for(&self, units: usize) -> u32 {
        match self.geometry.units_per_page() {
            1 => units as u32,
            per_page => (units as u32).div_ceil(per_page),
        }
    }

    #[inline(always)]
    fn write_oob(&mut self, first: Ppa, units: &[Unit<M::Payload>], pages: u32) {
        let places = (pages * self.geometry.units_per_page()) as usize;
        let oob = &mut self.oob_lpn[first.index()..first.index() + places];
        for (entry, unit) in oob.iter_mut().zip(units) {
            *entry = unit.lpn.get();
        }
        if places > units.len() {
            oob[units.len()..].fill(PADDING);
        }
    }

    /// Times and keeps `pages` programmed pages.
    #[inline(always)]
    fn store(
        &mut self,
        now: SimTime,
        first: Ppn,
        units: &[Unit<M::Payload>],
        pages: u32,
        sequence: u64,
        cause: Cause,
    ) -> SimTime {
        let per_page = self.geometry.units_per_page();
        let mut done = now;
        for page in 0..pages {
            let ppn = first.plus(page);
            done = done.max(self.timing.program(now, || self.geometry.place(ppn)));
            let from = (page * per_page) as usize;
            let content = &units[from..units.len().min(from + per_page as usize)];
            self.medium.store(
                ppn,
                self.geometry.first_unit_of_page(ppn),
                content,
                sequence + u64::from(page),
                cause,
            );
        }
        done
    }

    /// Tells the medium what has become of block `id`; `erase` is the cause of an erase.
    fn keep_state(&mut self, id: BlockId, erase: Option<Cause>) {
        let Block { next_page, erase_count } = self.blocks[id.index()];
        let state = BlockState {
            erase_count,
            pages_programmed: next_page,
            bad: self.bad[id.index()],
            half_erased: self.half_erased.contains(&id),
        };
        self.medium.set_block(id, state, erase);
    }

    /// Takes the snapshots planned for the next operation; `tear` does to a copy of the array what the
    /// operation does when it is cut short.
    fn cut(&mut self, tear: impl FnOnce(&mut Self)) {
        let operation = self.operations() + 1;
        let (before, during) = self.cuts.wanted(operation);
        if !before && !during {
            return;
        }
        // Copies have no plan of their own.
        let mut cuts = std::mem::take(&mut self.cuts);
        let copy = || Self { page_by_page: self.wear.program_fail_rate > 0.0, ..self.clone() };
        if before {
            cuts.taken.push(Snapshot { operation, begun: false, flash: copy() });
        }
        if during {
            let mut flash = copy();
            tear(&mut flash);
            cuts.taken.push(Snapshot { operation, begun: true, flash });
        }
        self.cuts = cuts;
    }

    /// Uses up page `ppn`, which is next in its block, without leaving anything legible there.
    fn tear_page(&mut self, ppn: Ppn, cause: Cause) {
        let first = self.geometry.first_unit_of_page(ppn);
        self.counts.add(NandOp::Program, cause);
        self.write_oob(first, &[], 1);
        self.medium.store(ppn, first, &[], 0, cause);
        self.take_pages(ppn, 1);
    }

    /// Half erases `block`: what it held is gone. Does not count as an erase, as the one that must
    /// follow does.
    fn tear_block(&mut self, block: BlockId) {
        let (first, units) = (self.geometry.first_unit(block), self.geometry.units_per_block());
        self.oob_lpn[first.index()..first.index() + units as usize].fill(PADDING);
        if !self.half_erased.contains(&block) {
            self.half_erased.push(block);
        }
        self.keep_state(block, None);
        self.medium.erase(first, units);
    }

    /// The next page of the block, which `pages` programs are about to use.
    fn take_pages(&mut self, first: Ppn, pages: u32) {
        let id = self.geometry.block_of_page(first);
        let page = first.get() - id.get() * self.geometry.pages_per_block();
        let block = &mut self.blocks[id.index()];
        debug_assert!(!self.half_erased.contains(&id), "flash rule broken: program of half-erased {id}");
        if let Some(programmed) = &mut self.programmed {
            let pages = &mut programmed[first.get() as usize..(first.get() + pages) as usize];
            assert!(
                !pages.contains(&true),
                "flash rule broken: program of a programmed page from {first} on"
            );
            pages.fill(true);
            block.next_page += pages.len() as u32;
            return;
        }
        assert!(
            block.next_page == page && page + pages <= self.geometry.pages_per_block(),
            "flash rule broken: program of {pages} pages from {page} of block {id}, page {} is next",
            block.next_page
        );
        block.next_page = page + pages;
    }

    /// The slow path of [`Nand::program`], page by page, for chips whose programs can fail or be cut
    /// short.
    #[cold]
    fn program_by_page(
        &mut self,
        now: SimTime,
        first: Ppn,
        units: &[Unit<M::Payload>],
        sequence: u64,
        cause: Cause,
    ) -> Result<SimTime, ProgramFailed> {
        let mut done = now;
        for (page, content) in units.chunks(self.geometry.units_per_page() as usize).enumerate() {
            let page = page as u32;
            let ppn = first.plus(page);
            self.cut(|flash| flash.tear_page(ppn, cause));
            self.take_pages(ppn, 1);
            let failed = self.faults.chance(self.wear.program_fail_rate);
            let content = if failed { &[] } else { content };
            self.counts.add(NandOp::Program, cause);
            self.write_oob(self.geometry.first_unit_of_page(ppn), content, 1);
            done = done.max(self.store(now, ppn, content, 1, sequence + u64::from(page), cause));
            if failed {
                return Err(ProgramFailed { programmed: page, at: done });
            }
        }
        Ok(done)
    }

    #[inline(always)]
    fn assert_readable(&self, ppn: Ppn) {
        let block = self.geometry.block_of_page(ppn);
        let page = ppn.get() - block.get() * self.geometry.pages_per_block();
        let is_there = match &self.programmed {
            None => page < self.blocks[block.index()].next_page,
            Some(programmed) => programmed[ppn.get() as usize],
        };
        assert!(
            is_there,
            "flash rule broken: read of page {page} of block {block}, which has not been programmed"
        );
    }
}

impl<T: Timing, M: Medium> Nand for Chip<T, M> {
    type Payload = M::Payload;

    const TIMED: bool = T::TIMED;

    fn is_timed(&self) -> bool {
        self.timing.is_timed()
    }

    #[inline(always)]
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline(always)]
    fn read(&mut self, now: SimTime, ppn: Ppn, units: u32, cause: Cause) -> SimTime {
        self.assert_readable(ppn);
        self.counts.add(NandOp::Read, cause);
        self.timing.read(now, units, || self.geometry.place(ppn))
    }

    #[inline(always)]
    fn read_spare(&mut self, now: SimTime, ppn: Ppn, cause: Cause) -> SimTime {
        self.counts.add(NandOp::Read, cause);
        self.timing.read(now, 0, || self.geometry.place(ppn))
    }

    fn pad(&mut self, now: SimTime, ppn: Ppn, cause: Cause) -> Result<SimTime, ProgramFailed> {
        if self.cuts.is_planned() {
            self.cut(|flash| flash.tear_page(ppn, cause));
        }
        self.take_pages(ppn, 1);
        let failed = self.page_by_page && self.faults.chance(self.wear.program_fail_rate);
        self.counts.add(NandOp::Program, cause);
        self.write_oob(self.geometry.first_unit_of_page(ppn), &[], 1);
        let at = self.store(now, ppn, &[], 1, 0, cause);
        if failed { Err(ProgramFailed { programmed: 0, at }) } else { Ok(at) }
    }

    #[inline(always)]
    fn program(
        &mut self,
        now: SimTime,
        first: Ppn,
        units: &[Unit<M::Payload>],
        sequence: u64,
        cause: Cause,
    ) -> Result<SimTime, ProgramFailed> {
        if self.page_by_page {
            return self.program_by_page(now, first, units, sequence, cause);
        }
        let pages = self.pages_for(units.len());
        self.take_pages(first, pages);
        self.counts.add_many(NandOp::Program, cause, u64::from(pages));
        self.write_oob(self.geometry.first_unit_of_page(first), units, pages);
        Ok(self.store(now, first, units, pages, sequence, cause))
    }

    fn program_meta(
        &mut self,
        now: SimTime,
        ppn: Ppn,
        bytes: &[u8],
        cause: Cause,
    ) -> Result<SimTime, ProgramFailed> {
        assert!(
            bytes.len() <= self.geometry.page_bytes() as usize,
            "flash rule broken: program of {} bytes to page {ppn}",
            bytes.len()
        );
        if self.cuts.is_planned() {
            self.cut(|flash| flash.tear_page(ppn, cause));
        }
        self.take_pages(ppn, 1);
        let failed = self.page_by_page && self.faults.chance(self.wear.program_fail_rate);
        self.counts.add(NandOp::Program, cause);
        self.write_oob(self.geometry.first_unit_of_page(ppn), &[], 1);
        if failed {
            let at = self.store(now, ppn, &[], 1, 0, cause);
            return Err(ProgramFailed { programmed: 0, at });
        }
        self.medium.store_meta(ppn, bytes, cause);
        Ok(now.max(self.timing.program(now, || self.geometry.place(ppn))))
    }

    fn read_meta(&mut self, now: SimTime, ppn: Ppn, cause: Cause) -> (SimTime, Option<Arc<[u8]>>) {
        let arrived = self.read(now, ppn, self.geometry.units_per_page(), cause);
        (arrived, self.medium.load_meta(ppn))
    }

    fn erase(&mut self, now: SimTime, id: BlockId, cause: Cause) -> Result<SimTime, EraseFailed> {
        assert!(!self.bad[id.index()], "flash rule broken: erase of bad block {id}");
        if self.cuts.is_planned() {
            self.cut(|flash| flash.tear_block(id));
        }
        self.counts.add(NandOp::Erase, cause);
        let done = self.timing.erase(now, || self.geometry.place_of_block(id));
        let block = &mut self.blocks[id.index()];
        if self.wear.endurance_pe.is_some_and(|limit| block.erase_count >= limit) {
            self.bad[id.index()] = true;
            self.keep_state(id, Some(cause));
            return Err(EraseFailed { at: done });
        }
        block.erase_count += 1;
        block.next_page = 0;
        if let Some(programmed) = &mut self.programmed {
            let pages = self.geometry.pages_per_block() as usize;
            programmed[id.index() * pages..(id.index() + 1) * pages].fill(false);
        }
        self.half_erased.retain(|&half| half != id);
        self.keep_state(id, Some(cause));
        self.medium.erase(self.geometry.first_unit(id), self.geometry.units_per_block());
        Ok(done)
    }

    #[inline(always)]
    fn lpn(&self, ppa: Ppa) -> Option<Lpn> {
        match self.oob_lpn[ppa.index()] {
            PADDING => None,
            lpn => Some(Lpn::new(lpn)),
        }
    }

    #[inline(always)]
    fn payload(&self, ppa: Ppa) -> M::Payload {
        self.medium.load(ppa)
    }

    fn record(&self, ppn: Ppn) -> Option<OobRecord> {
        self.medium.record(ppn)
    }

    fn is_half_erased(&self, block: BlockId) -> bool {
        self.half_erased.contains(&block)
    }

    fn pages_programmed(&self, block: BlockId) -> u32 {
        self.blocks[block.index()].next_page
    }

    fn is_programmed(&self, ppn: Ppn) -> bool {
        match &self.programmed {
            None => {
                self.geometry.page_in_block(ppn) < self.pages_programmed(self.geometry.block_of_page(ppn))
            }
            Some(programmed) => programmed[ppn.get() as usize],
        }
    }

    fn takes_any_order(&self) -> bool {
        self.programmed.is_some()
    }

    fn erase_count(&self, block: BlockId) -> u32 {
        self.blocks[block.index()].erase_count
    }

    fn is_bad(&self, block: BlockId) -> bool {
        self.bad[block.index()]
    }

    fn mark_bad(&mut self, block: BlockId) {
        self.bad[block.index()] = true;
        self.keep_state(block, None);
    }

    fn counts(&self) -> &OpCounts {
        &self.counts
    }

    fn idle_at(&self) -> SimTime {
        self.timing.idle_at()
    }

    #[inline(always)]
    fn prefetch_oob(&self, ppa: Ppa) {
        prefetch_write(&self.oob_lpn, ppa.index());
    }

    fn plan_cuts(&mut self, plan: CutPlan) {
        self.cuts = Cuts::new(plan);
        self.page_by_page = self.wear.program_fail_rate > 0.0 || self.cuts.is_planned();
    }

    fn take_snapshots(&mut self) -> Vec<Snapshot<Self>> {
        std::mem::take(&mut self.cuts.taken)
    }

    fn verify_page(&self, ppn: Ppn) -> Result<(), String> {
        if self.is_half_erased(self.geometry.block_of_page(ppn)) {
            return Ok(());
        }
        let Some(record) = self.medium.record(ppn) else { return Ok(()) };
        let first = self.geometry.first_unit_of_page(ppn);
        let units: Vec<Unit<M::Payload>> = (0..self.geometry.units_per_page())
            .map(|slot| first.plus(slot))
            .filter_map(|ppa| self.lpn(ppa).map(|lpn| Unit { lpn, payload: self.medium.load(ppa) }))
            .collect();
        let checksum = page_checksum(&units);
        if checksum == record.checksum {
            return Ok(());
        }
        Err(format!("page {ppn}: checksum {checksum:08x}, out-of-band area says {:08x}", record.checksum))
    }

    fn failure(&self) -> Option<&str> {
        self.medium.failure()
    }

    fn sync(&mut self) {
        self.medium.sync();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StampMedium, Untimed};
    use strobe_types::GeometrySpec;

    type TestChip = Chip<Untimed, StampMedium>;

    fn chip(wear: WearConfig) -> TestChip {
        let geometry = Geometry::new(GeometrySpec {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 1,
            blocks_per_plane: 4,
            pages_per_block: 3,
            page_bytes: 8192,
            unit_bytes: 4096,
        })
        .expect("valid");
        Chip::new(geometry, wear, Untimed, 1)
    }

    fn unit(lpn: u32, stamp: u64) -> Unit<u64> {
        Unit { lpn: Lpn::new(lpn), payload: stamp }
    }

    const T0: SimTime = SimTime::ZERO;

    #[test]
    fn a_page_reads_back_as_programmed_until_erased() {
        let mut c = chip(WearConfig::default());
        let ppn = c.geometry().page(BlockId::new(1), 0);
        c.program(T0, ppn, &[unit(7, 70), unit(8, 80)], 1, Cause::Host).expect("programs");
        c.read(T0, ppn, 2, Cause::Host);
        let first = c.geometry().first_unit_of_page(ppn);
        assert_eq!((c.lpn(first), c.payload(first)), (Some(Lpn::new(7)), 70));
        assert_eq!((c.lpn(first.plus(1)), c.payload(first.plus(1))), (Some(Lpn::new(8)), 80));
        assert_eq!(c.verify_page(ppn), Ok(()));
        c.erase(T0, BlockId::new(1), Cause::Gc).expect("erases");
        assert_eq!(c.pages_programmed(BlockId::new(1)), 0);
        assert_eq!(c.erase_count(BlockId::new(1)), 1);
        assert_eq!(c.counts().get(NandOp::Erase, Cause::Gc), 1);
        assert_eq!(c.counts().total(NandOp::Program), 1);
    }

    #[test]
    fn missing_units_are_padding() {
        let mut c = chip(WearConfig::default());
        c.program(T0, Ppn::new(0), &[unit(7, 70)], 1, Cause::Host).expect("programs");
        assert_eq!(c.lpn(Ppa::new(1)), None);
        assert_eq!(c.verify_page(Ppn::new(0)), Ok(()));
    }

    #[test]
    #[should_panic(expected = "flash rule broken: program of 1 pages from 0 of block 0, page 1 is next")]
    fn programming_a_page_twice_panics() {
        let mut c = chip(WearConfig::default());
        for _ in 0..2 {
            let _ = c.program(T0, Ppn::new(0), &[unit(7, 70)], 1, Cause::Host);
        }
    }

    #[test]
    #[should_panic(expected = "flash rule broken: program of 1 pages from 1 of block 0, page 0 is next")]
    fn programming_out_of_order_panics() {
        let _ = chip(WearConfig::default()).program(T0, Ppn::new(1), &[unit(1, 1)], 1, Cause::Host);
    }

    #[test]
    #[should_panic(expected = "flash rule broken: read of page 0")]
    fn reading_an_erased_page_panics() {
        chip(WearConfig::default()).read(T0, Ppn::new(0), 1, Cause::Host);
    }

    #[test]
    fn a_block_survives_exactly_its_endurance() {
        let mut c = chip(WearConfig { endurance_pe: Some(3), ..WearConfig::default() });
        let block = BlockId::new(2);
        for _ in 0..3 {
            assert!(c.erase(T0, block, Cause::Gc).is_ok());
        }
        assert!(c.erase(T0, block, Cause::Gc).is_err());
        assert!(c.is_bad(block));
        assert_eq!(c.erase_count(block), 3);
    }

    #[test]
    #[should_panic(expected = "flash rule broken: erase of bad block 2")]
    fn erasing_a_bad_block_panics() {
        let mut c = chip(WearConfig::default());
        c.mark_bad(BlockId::new(2));
        let _ = c.erase(T0, BlockId::new(2), Cause::Gc);
    }

    #[test]
    fn factory_bad_blocks_are_as_many_as_asked() {
        let c = chip(WearConfig { factory_bad_blocks: 3, ..WearConfig::default() });
        assert_eq!((0..4).filter(|&b| c.is_bad(BlockId::new(b))).count(), 3);
    }

    #[test]
    fn a_failed_program_uses_up_the_page() {
        let mut c = chip(WearConfig { program_fail_rate: 1.0, ..WearConfig::default() });
        assert!(c.program(T0, Ppn::new(0), &[unit(7, 70)], 1, Cause::Host).is_err());
        assert_eq!(c.pages_programmed(BlockId::new(0)), 1);
        assert_eq!(c.lpn(Ppa::new(0)), None);
    }
}
