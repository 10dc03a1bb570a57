//! Replacement blocks, as in the NFTL driver of Linux (drivers/mtd/nftlcore.c) after Ban's patents. A logical
//! block is a chain of flash blocks, and every sector has the same offset in all of them.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use strobe_nand::{Cause, Nand, Wanted, When};
use strobe_types::{BlockId, Lpn, Stored};

use super::found::Found;
use super::scheme::Scheme;
use super::sectors::{New, Sectors};
use crate::recovery::damaged;
use crate::{CheckError, Done, Recovery, RecoveryError};

/// An overwrite uses the first block of the chain with a free page at the sector's offset. If no block has
/// one, the chain grows.
#[derive(Clone, Debug, Stored)]
pub(super) struct ReplacementBlock {
    chains: Vec<Vec<BlockId>>,
    replacements: u32,
    /// Chains of more than one block, longest first.
    by_length: BTreeSet<(Reverse<usize>, u32)>,
}

impl ReplacementBlock {
    /// Follows the chain of `logical` to the first block free at `offset`, with an out-of-band read in each.
    fn walk<N: Nand>(
        &self,
        sectors: &mut Sectors<N>,
        now: When,
        logical: u32,
        offset: u32,
        cause: Cause,
    ) -> (Option<BlockId>, When) {
        let mut now = now;
        for &block in &self.chains[logical as usize] {
            let page = sectors.page(block, offset);
            now = sectors.nand.read(now, page, Wanted::NONE, cause).when;
            if sectors.is_open_at(block, offset) {
                return (Some(block), now);
            }
        }
        (None, now)
    }

    /// Adds an erased block to the chain of `logical`, after folding the longest chain if the limit is
    /// reached.
    fn extend<N: Nand>(&mut self, sectors: &mut Sectors<N>, now: When, logical: u32) -> Done {
        let is_first = self.chains[logical as usize].is_empty();
        let mut now = now;
        if !is_first && self.replacements >= sectors.config.log_blocks {
            now = self.fold_longest(sectors, now)?;
            if self.chains[logical as usize].len() <= 1 {
                // This chain was folded and may have free pages now.
                return Ok(now);
            }
        }
        let block = sectors.take_block(logical)?;
        self.add(logical, block);
        Ok(now)
    }

    fn add(&mut self, logical: u32, block: BlockId) {
        let chain = &mut self.chains[logical as usize];
        self.by_length.remove(&(Reverse(chain.len()), logical));
        chain.push(block);
        if chain.len() > 1 {
            self.by_length.insert((Reverse(chain.len()), logical));
            self.replacements += 1;
        }
    }

    fn clear(&mut self, logical: u32) -> Vec<BlockId> {
        let chain = std::mem::take(&mut self.chains[logical as usize]);
        self.by_length.remove(&(Reverse(chain.len()), logical));
        self.replacements -= chain.len().saturating_sub(1) as u32;
        chain
    }

    fn fold_longest<N: Nand>(&mut self, sectors: &mut Sectors<N>, now: When) -> Done {
        match self.by_length.first() {
            Some(&(_, longest)) => self.fold(sectors, now, longest),
            None => Ok(now),
        }
    }

    /// Collects the newest versions of `logical` in one block and erases the others.
    fn fold<N: Nand>(&mut self, sectors: &mut Sectors<N>, now: When, logical: u32) -> Done {
        sectors.stats.gc.runs += 1;
        let chain = self.clear(logical);
        chain.iter().skip(1).for_each(|&block| sectors.count_merged_log(block));
        // Folding into the last block costs no erased block and copies fewer sectors.
        let (mut done, mut target) = (now, None);
        if let Some(&last) = chain.last().filter(|&&last| fits_into(sectors, logical, last)) {
            match sectors.fill(now, logical, last, 0, None, 0) {
                Ok(filled) => {
                    sectors.stats.merges().partial += 1;
                    (done, target) = (filled, Some(last));
                }
                Err(failed) => done = failed.at,
            }
        }
        if target.is_none() {
            (target, done) = match sectors.rebuild(done, logical, None) {
                Ok(rebuilt) => rebuilt,
                // Nothing was erased: the chain stays as it was.
                Err(error) => {
                    chain.into_iter().for_each(|block| self.add(logical, block));
                    return Err(error);
                }
            };
        }
        target.into_iter().for_each(|block| self.add(logical, block));
        let erased = sectors.erase_merged(done, chain.into_iter().filter(|&block| Some(block) != target))?;
        Ok(erased)
    }

    /// True if a walk along the chain finds the newest version of each sector.
    fn is_well_formed<N: Nand>(&self, sectors: &Sectors<N>, logical: u32) -> bool {
        let chain = &self.chains[logical as usize];
        sectors.sectors_of(logical).all(|lpn| {
            let offset = sectors.split(lpn).1;
            // Pages at an offset are used from the first block on; the last used one holds the newest
            // version.
            let used = chain.iter().take_while(|&&block| !sectors.is_open_at(block, offset)).count();
            let rest_is_free = chain[used..].iter().all(|&block| sectors.is_open_at(block, offset));
            let last = |&block: &BlockId| {
                let ppa = sectors.nand.geometry().first_unit_of_page(sectors.page(block, offset));
                sectors.nand.lpn(ppa).is_some()
            };
            let newest = chain[..used].iter().rev().find(|&block| last(block)).copied();
            rest_is_free && sectors.holder(lpn).is_none_or(|holder| newest == Some(holder))
        })
    }
}

/// True if each newest version of `logical` is in `block` or can be copied to its offset there.
fn fits_into<N: Nand>(sectors: &Sectors<N>, logical: u32, block: BlockId) -> bool {
    !sectors.is_failing(block)
        && sectors.sectors_of(logical).all(|lpn| {
            sectors
                .holder(lpn)
                .is_none_or(|holder| holder == block || sectors.is_open_at(block, sectors.split(lpn).1))
        })
}

impl<N: Nand> Scheme<N> for ReplacementBlock {
    fn new(sectors: &Sectors<N>) -> Self {
        let chains = vec![Vec::new(); sectors.logical_blocks() as usize];
        Self { chains, replacements: 0, by_length: BTreeSet::new() }
    }

    fn write(&mut self, sectors: &mut Sectors<N>, now: When, new: New<'_, N>) -> Done {
        let (logical, offset) = sectors.split(new.0.lpn);
        let mut now = now;
        loop {
            let (open, known) = self.walk(sectors, now, logical, offset, new.1);
            now = known;
            let Some(block) = open else {
                now = self.extend(sectors, now, logical)?;
                continue;
            };
            match sectors.program(now, block, offset, new) {
                Ok(done) => return Ok(done),
                Err(failed) => now = failed.at,
            }
        }
    }

    fn look_up(&self, sectors: &mut Sectors<N>, now: When, lpn: Lpn) -> When {
        let (logical, offset) = sectors.split(lpn);
        self.walk(sectors, now, logical, offset, Cause::Host).1
    }

    fn restore(sectors: &mut Sectors<N>, found: Found, report: &mut Recovery) -> Result<Self, RecoveryError> {
        let mut scheme = Self::new(sectors);
        for block in found.blocks {
            let in_place = block.is_in_place(sectors.per_block);
            let Some(logical) = block.logical(sectors.per_block).filter(|_| in_place) else {
                return damaged(format!("{:?} holds sectors at wrong offsets", block.block));
            };
            scheme.add(logical, block.block);
        }
        for logical in 0..sectors.logical_blocks() {
            if !scheme.is_well_formed(sectors, logical) {
                // Power failed in a fold into the last block; the fold is repeated.
                report.wait(&mut sectors.nand);
                // If the fold fails, the drive serves only reads.
                let _ = scheme.fold(sectors, report.now(), logical);
            }
        }
        Ok(scheme)
    }

    fn check(&self, sectors: &Sectors<N>) -> Result<u32, CheckError> {
        let beyond: usize = self.chains.iter().map(|chain| chain.len().saturating_sub(1)).sum();
        let longer = self.chains.iter().filter(|chain| chain.len() > 1).count();
        if beyond != self.replacements as usize || longer != self.by_length.len() {
            return Err(CheckError(format!(
                "{beyond} replacement blocks, {} are counted",
                self.replacements
            )));
        }
        for logical in (0..sectors.logical_blocks()).filter(|_| sectors.end_of_life.is_none()) {
            if !self.is_well_formed(sectors, logical) {
                return Err(CheckError(format!("a walk along chain {logical} misses newest versions")));
            }
        }
        Ok(self.chains.iter().map(Vec::len).sum::<usize>() as u32)
    }
}
