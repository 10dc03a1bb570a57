//! The whole-state checker of block-mapped schemes.

use strobe_nand::{Nand, verify_page};
use strobe_types::{BlockId, Lpn, Ppa};

use super::sectors::{Sectors, State};
use crate::CheckError;
use crate::scan::COPIED;

impl<N: Nand> Sectors<N> {
    pub(super) fn check(&self, named: u32) -> Result<(), CheckError> {
        let broken = |what: String| Err(CheckError(what));
        let geometry = self.nand.geometry();
        let (mut mapped, mut valid) = (0, vec![0; self.valid.len()]);
        for lpn in (0..self.config.logical_units).map(Lpn::new) {
            if lpn.get().is_multiple_of(1 << 14) && self.nand.is_stopped() {
                return Ok(());
            }
            let Some(ppa) = self.place(lpn) else { continue };
            mapped += 1;
            valid[geometry.block_of(ppa).index()] += 1;
            if !self.nand.is_programmed(geometry.page_of(ppa)) || self.nand.lpn(ppa) != Some(lpn) {
                return broken(format!("{lpn:?} is mapped to {ppa:?}, which holds {:?}", self.nand.lpn(ppa)));
            }
        }
        if mapped != self.mapped || valid != self.valid {
            return broken(format!("{mapped} sectors are mapped, the count says {}", self.mapped));
        }
        let mut used = 0;
        for block in self.all_blocks() {
            if self.nand.is_stopped() {
                return Ok(());
            }
            let state = self.states[block.index()];
            let pages = self.nand.block(block).pages_programmed;
            let fits = match state {
                State::Free => pages == 0,
                State::Used => true,
                State::Bad | State::Meta => valid[block.index()] == 0,
            };
            used += u32::from(state == State::Used);
            let agrees = self.nand.block(block).bad == (state == State::Bad) || state == State::Meta;
            if !fits || !agrees {
                return broken(format!("{block:?} is {state:?} with {pages} pages programmed"));
            }
            self.check_pages(block)?;
        }
        // A merge interrupted by end of life leaves its blocks in use.
        if used < named || (used > named && self.end_of_life.is_none()) {
            return broken(format!("{used} blocks are in use, the scheme names {named}"));
        }
        let pooled: Vec<BlockId> = self.free.iter().collect();
        let is_free = |block: &BlockId| self.states[block.index()] == State::Free;
        let free = self.states.iter().filter(|&&state| state == State::Free).count();
        if pooled.len() == free && pooled.iter().all(is_free) {
            Ok(())
        } else {
            broken(format!("{} blocks in the pool, {free} are free", pooled.len()))
        }
    }

    fn check_pages(&self, block: BlockId) -> Result<(), CheckError> {
        let geometry = self.nand.geometry();
        if matches!(self.states[block.index()], State::Meta | State::Bad) {
            return Ok(());
        }
        for offset in 0..self.per_block {
            let ppn = self.page(block, offset);
            if !self.nand.is_programmed(ppn) {
                continue;
            }
            verify_page(&self.nand, ppn).map_err(CheckError)?;
            let ppa = geometry.first_unit_of_page(ppn);
            let Some(lpn) = self.nand.lpn(ppa) else { continue };
            let Some(newest) = self.place(lpn) else { continue };
            let of =
                |ppa: Ppa| self.nand.record(geometry.page_of(ppa)).map(|record| record.sequence & !COPIED);
            // No programmed page may hold a newer version than the mapped page.
            if of(ppa) > of(newest) {
                return Err(CheckError(format!("{lpn:?} lies at {newest:?}, but {ppa:?} is newer")));
            }
        }
        Ok(())
    }
}
