//! The whole-state checker of the page map.

use strobe_nand::{Nand, NandOp, verify_page};
use strobe_types::{BlockId, CellMode, Lpn, Ppa};

use crate::CheckError;
use crate::gc::VictimPolicy;
use crate::map::page::core::Core;
use crate::map::page::core::blocks::BlockState;
use crate::map::page::map::sharing::Owner;
use crate::scan::sequence_in;

macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(CheckError(format!($($message)+)));
        }
    };
}

pub(crate) struct Checker<'a, N: Nand, V>(pub(crate) &'a Core<N, V>);

impl<N: Nand, V: VictimPolicy> Checker<'_, N, V> {
    pub(crate) fn check_state(&self) -> Result<(), CheckError> {
        let parts = [
            Self::check_map,
            Self::check_blocks,
            Self::check_sets,
            Self::check_translation,
            Self::check_conservation,
        ];
        // An interrupted command may leave an inconsistent state.
        parts.iter().try_for_each(|part| if self.0.nand.is_stopped() { Ok(()) } else { part(self) })
    }

    /// Checks that each translation page is newer than the units it maps, except units with dirty entries.
    fn check_translation(&self) -> Result<(), CheckError> {
        let Some(translation) = self.0.store.paged() else { return Ok(()) };
        let geometry = self.0.nand.geometry();
        translation.cmt.check(|lpn| translation.page_of(lpn)).map_err(CheckError)?;
        let sequence =
            |ppa: Ppa| self.0.nand.record(geometry.page_of(ppa)).map(|record| sequence_in(record.sequence));
        for page in 0..translation.pages {
            if self.0.nand.is_stopped() {
                return Ok(());
            }
            let first = translation.first_unit(page);
            let place = self.0.map.get(first);
            for at in 0..geometry.units_per_page() {
                let expected = place.map(|ppa| ppa.plus(at));
                let found = self.0.map.get(first.plus(at));
                ensure!(found == expected, "unit {at} of translation page {page} lies at {found:?}");
            }
            let written = place.and_then(sequence);
            for lpn in translation.entries(page) {
                let Some(ppa) = self.0.map.get(lpn) else { continue };
                let is_shared = self.0.map.sharing.as_ref().is_some_and(|sharing| sharing.vpn(ppa).is_some());
                if translation.cmt.is_dirty(lpn)
                    || translation.is_outdated(page)
                    || self.0.end_of_life.is_some()
                {
                    continue;
                }
                ensure!(place.is_some(), "{lpn:?} is mapped, but its entry is in no translation page");
                // A move of a shared unit leaves its map entry unchanged, so the translation page may be
                // older.
                if is_shared {
                    continue;
                }
                // Flash that stores no contents has no sequence number to compare.
                let is_newer = sequence(ppa).is_none_or(|unit| written.is_some_and(|page| unit < page));
                ensure!(is_newer, "the translation page of {lpn:?} is older than the unit, which is clean");
            }
        }
        let mut is_table = vec![false; geometry.blocks() as usize];
        for block in &translation.blocks {
            let known = std::mem::replace(&mut is_table[block.index()], true);
            ensure!(!known, "{block:?} is listed twice as a block of translation pages");
        }
        for (step, lpn) in (0..).zip(self.0.map.mapped_units()) {
            if self.0.is_stopped_at(step) {
                return Ok(());
            }
            let Some(ppa) = self.0.map.locate(lpn) else { continue };
            let is_table = is_table[geometry.block_of(ppa).index()];
            ensure!(
                is_table == translation.is_translation(lpn),
                "{lpn:?} is in a block of the other kind at {ppa:?}"
            );
        }
        Ok(())
    }

    /// Checks that every mapped unit is valid on flash and belongs to its logical unit.
    fn check_map(&self) -> Result<(), CheckError> {
        let mut mapped = 0;
        for (step, lpn) in (0..).zip(self.0.map.mapped_units()) {
            if self.0.is_stopped_at(step) {
                return Ok(());
            }
            let Some(ppa) = self.0.map.locate(lpn) else { continue };
            mapped += 1;
            ensure!(self.0.blocks.validity.get(ppa), "{lpn:?} is mapped to {ppa:?}, which is not valid");
            self.check_owner(lpn, ppa)?;
            let block = self.0.nand.geometry().block_of(ppa);
            let page = self.0.nand.geometry().page_in_block(self.0.nand.geometry().page_of(ppa));
            ensure!(
                page < self.0.nand.block(block).pages_programmed,
                "{lpn:?} is mapped to {ppa:?}, which is erased"
            );
        }
        // Translation pages are mapped like data, but not counted as host units.
        let tables = self.0.map.mapped_from(self.0.config.logical_units);
        ensure!(
            mapped == self.0.map.mapped + tables,
            "{mapped} units are mapped, {tables} of them in translation pages, the count says {}",
            self.0.map.mapped
        );
        let shared = self.0.map.sharing.as_ref().map_or(0, |sharing| sharing.in_use());
        let valid: u64 = self.0.blocks.valid.iter().map(|&v| u64::from(v)).sum();
        ensure!(
            valid + u64::from(shared) == u64::from(mapped),
            "{valid} units are valid, {shared} of them shared, {mapped} are mapped"
        );
        Ok(())
    }

    fn check_owner(&self, lpn: Lpn, ppa: Ppa) -> Result<(), CheckError> {
        let Some(sharing) = &self.0.map.sharing else {
            let written = self.0.nand.lpn(ppa);
            ensure!(written == Some(lpn), "{lpn:?} is mapped to {ppa:?}, which belongs to {written:?}");
            return Ok(());
        };
        let entry = self.0.map.get(lpn).and_then(|entry| sharing.vpn(entry));
        let owner = sharing.owner(ppa);
        let expected = entry.map_or(Owner::One(lpn), Owner::Two);
        ensure!(owner == expected, "{lpn:?} is mapped to {ppa:?} as {expected:?}, P2L says {owner:?}");
        if let Some(vpn) = entry {
            ensure!(sharing.is_in_use(vpn), "{lpn:?} holds {vpn:?}, which is free");
            ensure!(sharing.owners(vpn).contains(&lpn), "{lpn:?} is no owner of {vpn:?}");
        } else if let Some(is_foreign) = self.0.store.is_foreign(lpn) {
            // Recovery finds a unit with one owner only by its out-of-band record or, if foreign, by the log.
            let written = self.0.nand.lpn(ppa);
            ensure!(
                is_foreign || written == Some(lpn),
                "{lpn:?} alone owns {ppa:?}, written as {written:?}, but the log does not list it as foreign"
            );
        }
        Ok(())
    }

    fn check_blocks(&self) -> Result<(), CheckError> {
        let geometry = self.0.nand.geometry();
        for block in (0..geometry.blocks()).map(BlockId::new) {
            if self.0.nand.is_stopped() {
                return Ok(());
            }
            let counted =
                self.0.blocks.validity.count_run(geometry.first_unit(block), geometry.units_per_block());
            let valid = self.0.blocks.valid[block.index()];
            ensure!(counted == valid, "{block:?} has {counted} valid units, the count says {valid}");
            let state = self.0.blocks.state(block);
            let pages = self.0.nand.block(block).pages_programmed;
            let is_slc = self.0.nand.block(block).mode == CellMode::Slc;
            ensure!(pages <= self.0.nand.pages_of(block), "{block:?} has {pages} pages programmed");
            let fits = match state {
                BlockState::Free => pages == 0 && !self.0.is_reserved(block),
                BlockState::Reserved => pages == 0 && self.0.is_reserved(block),
                BlockState::Closed => pages == geometry.pages_per_block() && !is_slc,
                BlockState::Cached => pages == self.0.nand.slc_pages() && is_slc,
                BlockState::Bad | BlockState::Meta => valid == 0,
                // An empty victim may already count as erased, while its erase is in flight.
                BlockState::Emptying => {
                    let is_retiring = self.0.blocks.retiring.contains(&block);
                    pages == self.0.nand.pages_of(block) || valid == 0 || is_retiring
                }
                BlockState::Open | BlockState::Retiring => true,
            };
            ensure!(fits, "{block:?} is {state:?} with {pages} pages programmed and {valid} valid units");
            let agrees = pages == 0 || state == BlockState::Bad || is_slc == self.0.is_cached(block);
            ensure!(agrees, "{block:?} is {state:?}, and the SLC cache does not agree");
            ensure!(
                self.0.nand.block(block).bad == (state == BlockState::Bad) || state == BlockState::Meta,
                "{block:?} is {state:?}, the chip disagrees"
            );
            for page in 0..pages {
                verify_page(&self.0.nand, geometry.page(block, page)).map_err(CheckError)?;
            }
        }
        Ok(())
    }

    /// Checks that the free pool, the frontiers and the candidates hold exactly the blocks in the matching
    /// state.
    fn check_sets(&self) -> Result<(), CheckError> {
        let count = |wanted| self.0.blocks.count(wanted) as usize;
        let mut pooled = 0;
        for block in self.0.blocks.free.iter() {
            pooled += 1;
            ensure!(self.0.blocks.state(block) == BlockState::Free, "{block:?} is in the free pool");
        }
        ensure!(pooled == count(BlockState::Free), "{pooled} blocks in the free pool");
        ensure!(
            pooled == self.0.blocks.free.count() as usize,
            "free pool counts {}",
            self.0.blocks.free.count()
        );
        let mut open = 0;
        // Every block lies in the reclaim group of its stream.
        let groups = self.0.space.groups;
        for block in self.0.blocks.usable() {
            let group = self.0.blocks.stream_of(block).map(|stream| self.0.streams.table.group_of(stream));
            let is_at_home = groups.count == 1 || group.is_none_or(|group| group == groups.of_block(block));
            ensure!(is_at_home, "{block:?} has data of reclaim group {group:?}");
        }
        for frontier in self.0.streams.iter() {
            for (block, pages) in frontier.open_blocks(self.0.nand.geometry()) {
                open += 1;
                ensure!(self.0.blocks.state(block) == BlockState::Open, "{block:?} is on a frontier");
                ensure!(
                    self.0.nand.block(block).pages_programmed == pages,
                    "frontier is at page {pages} of {block:?}, the chip at {}",
                    self.0.nand.block(block).pages_programmed
                );
            }
        }
        ensure!(open == count(BlockState::Open), "{open} blocks on the frontiers");
        if let Some(slc) = &self.0.slc {
            let is = |block, wanted| self.0.blocks.state(block) == wanted;
            let full = slc.full().iter().all(|&block| is(block, BlockState::Cached));
            ensure!(full, "the cache lists a block as full that is not");
            ensure!(
                slc.full().len() == count(BlockState::Cached),
                "the cache lists {} as full",
                slc.full().len()
            );
            let erased = slc.erased().all(|block| is(block, BlockState::Reserved));
            ensure!(erased, "the cache lists a block as erased that is not");
            ensure!(slc.erased().count() == count(BlockState::Reserved), "a block of the cache is lost");
            let in_use = self.0.blocks.usable().filter(|&block| self.0.is_cached(block)).count();
            ensure!(
                in_use == slc.in_use() as usize,
                "the cache counts {} blocks, not {in_use}",
                slc.in_use()
            );
        }
        // The victim policy tracks exactly the closed blocks.
        let closed = count(BlockState::Closed);
        let candidates = self.0.policies.victims.candidates() as usize;
        ensure!(candidates == closed, "{candidates} candidates, {closed} closed blocks");
        Ok(())
    }

    fn check_conservation(&self) -> Result<(), CheckError> {
        let geometry = self.0.nand.geometry();
        let (mut erases, mut programmed) = (0, 0);
        for block in (0..geometry.blocks()).map(BlockId::new) {
            erases += u64::from(self.0.nand.block(block).erase_count);
            programmed += u64::from(self.0.nand.block(block).pages_programmed);
        }
        let programs = self.0.nand.counts().total(NandOp::Program);
        let most = erases * u64::from(geometry.pages_per_block()) + programmed;
        let fewer = u64::from(geometry.pages_per_block() - self.0.nand.slc_pages());
        let cached = self.0.stats.slc.map_or(0, |slc| slc.blocks_erased);
        // Cache blocks were full with fewer pages.
        let expected = most.saturating_sub(cached * fewer);
        // A durable drive may show fewer programs: recovery erases partly filled blocks, and a power cut
        // undoes the in-flight erase of a cache block, but not its counter.
        let adds_up = programs == expected || (self.0.config.durable && programs <= most);
        ensure!(adds_up, "{programs} programs, but flash shows {expected}");
        let counts = self.0.blocks.usable().map(|block| u64::from(self.0.nand.block(block).erase_count));
        let (counted, found) = (self.0.blocks.counted_erases(), counts.sum::<u64>());
        ensure!(counted == found, "good blocks have been erased {found} times, the count says {counted}");
        let failed = self.0.nand.counts().total(NandOp::Erase) - erases;
        let blocks = (0..geometry.blocks()).map(BlockId::new);
        let bad = blocks.filter(|&block| self.0.nand.block(block).bad).count() as u64;
        ensure!(failed <= bad, "{failed} erases failed, but only {bad} blocks are bad");
        Ok(())
    }
}
