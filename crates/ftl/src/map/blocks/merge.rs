//! Merges: collect the newest versions of a logical block in one flash block.

use strobe_nand::{Cause, Nand, Unit, Wanted, When};
use strobe_types::BlockId;

use super::sectors::{Failed, New, Sectors};
use crate::FtlError;
use crate::scan::COPIED;

impl<N: Nand> Sectors<N> {
    /// Copies the newest versions of `logical` that `block` lacks to their offsets there, from `from` on.
    /// `new` replaces the version of its sector. A failure leaves a part copied.
    pub(super) fn fill(
        &mut self,
        now: When,
        logical: u32,
        block: BlockId,
        from: u32,
        new: Option<New<'_, N>>,
        mark: u64,
    ) -> Result<When, Failed> {
        let mut done = now;
        // Pages skipped for unmapped sectors. A chip that programs in order has to pad them.
        let mut skipped = 0;
        for lpn in self.sectors_of(logical).skip(from as usize) {
            let offset = self.split(lpn).1;
            let new = new.filter(|(unit, _)| unit.lpn == lpn);
            let old = self.place(lpn);
            if self.holder(lpn) == Some(block) && new.is_none() {
                continue;
            }
            if new.is_none() && old.is_none() {
                skipped += u32::from(!self.any_order);
                continue;
            }
            for at in offset - skipped..offset {
                let next = self.pad(now, block, at)?;
                done = self.nand.both(done, next);
            }
            skipped = 0;
            let result = match (new, old) {
                (Some(new), _) => self.program_marked(now, block, offset, new, mark),
                (None, Some(ppa)) => {
                    let page = self.nand.geometry().page_of(ppa);
                    let arrived = self.nand.read(now, page, Wanted::first(1), Cause::Merge);
                    self.pass_loss_on(lpn, ppa);
                    let unit = Unit { lpn, payload: self.nand.payload(ppa) };
                    self.stats.gc.units_moved += 1;
                    self.stats.merges().units_copied += 1;
                    self.program_marked(arrived.when, block, offset, (&unit, Cause::Merge), mark)
                }
                (None, None) => Ok(now),
            };
            let next = result?;
            done = self.nand.both(done, next);
        }
        Ok(done)
    }

    fn pad(&mut self, now: When, block: BlockId, offset: u32) -> Result<When, Failed> {
        if self.nand.block(block).pages_programmed > offset {
            return Ok(now);
        }
        let now = self.nand.both(now, self.emptied);
        self.nand.program(now, self.page(block, offset), &[], 0, Cause::Pad).map_err(|failed| {
            self.count_failure(block);
            Failed { at: failed.at }
        })
    }

    /// Copies the newest versions of all sectors of `logical`, including `new`, to an erased block. `None` if
    /// there is nothing to copy. The caller erases the replaced blocks.
    pub(super) fn rebuild(
        &mut self,
        now: When,
        logical: u32,
        new: Option<New<'_, N>>,
    ) -> Result<(Option<BlockId>, When), FtlError> {
        if new.is_none() && self.mapped_in(logical) == 0 {
            return Ok((None, now));
        }
        self.stats.merges().full += 1;
        // Targets with a failed program are erased only after all their sectors are safe in another block.
        let mut abandoned = Vec::new();
        let mut now = now;
        let (block, mut done) = loop {
            let block = self.take_block(logical)?;
            match self.fill(now, logical, block, 0, new, COPIED) {
                Ok(done) => break (block, done),
                Err(failed) => {
                    abandoned.push(block);
                    now = failed.at;
                }
            }
        };
        // The merge is complete, so `new` now counts as written.
        if let Some((unit, _)) = new {
            self.written(unit.lpn);
        }
        for block in abandoned {
            let next = self.erase(done, block, Cause::Merge)?;
            done = self.nand.both(done, next);
        }
        Ok((Some(block), done))
    }
}
