//! Contents of a block-mapped drive after a power cut, sorted for the scheme that continues from them.

use std::collections::BTreeMap;

use strobe_nand::{Cause, Nand};
use strobe_types::{BlockId, Lpn, Ppa};

use super::config::BlockMapConfig;
use super::sectors::{Sectors, State};
use crate::journal::Trims;
use crate::scan::{UnitFound, scan};
use crate::{Recovery, RecoveryError};

/// A block that holds newest versions.
#[derive(Clone, Debug)]
pub(super) struct FoundBlock {
    pub(super) block: BlockId,
    /// The legible sectors with their offsets, in the order of pages.
    pub(super) sectors: Vec<(u32, UnitFound)>,
    /// One more than the last programmed page.
    pub(super) end: u32,
}

impl FoundBlock {
    /// When it was opened.
    pub(super) fn opened(&self) -> u64 {
        self.sectors.iter().map(|(_, unit)| unit.sequence).min().unwrap_or(0)
    }

    fn last(&self) -> u64 {
        self.sectors.iter().map(|(_, unit)| unit.sequence).max().unwrap_or(0)
    }

    /// The logical block whose sectors it holds, if they are all of one.
    pub(super) fn logical(&self, per_block: u32) -> Option<u32> {
        let logical = |unit: &UnitFound| unit.lpn.get() / per_block;
        let first = self.sectors.first().map(|(_, unit)| logical(unit))?;
        self.sectors.iter().all(|(_, unit)| logical(unit) == first).then_some(first)
    }

    /// True if every sector is at its offset.
    pub(super) fn is_in_place(&self, per_block: u32) -> bool {
        self.logical(per_block).is_some()
            && self.sectors.iter().all(|(offset, unit)| unit.lpn.get() % per_block == *offset)
    }

    /// True if its pages hold the sectors of a logical block from the first on, and nothing else.
    pub(super) fn is_prefix(&self, per_block: u32) -> bool {
        self.is_in_place(per_block) && self.sectors.len() == self.end as usize
    }

    /// True if all of it was written by a merge.
    fn is_merged(&self, per_block: u32) -> bool {
        self.is_in_place(per_block) && self.sectors.iter().all(|(_, unit)| unit.copied)
    }
}

/// The blocks found, in the order in which they were opened. Each holds some newest version.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) blocks: Vec<FoundBlock>,
}

impl Found {
    /// The blocks that hold sectors of one logical block each, by logical block; and those that do not.
    pub(super) fn by_logical(
        self,
        per_block: u32,
        is_mixed: impl Fn(&FoundBlock) -> bool,
    ) -> (BTreeMap<u32, Vec<FoundBlock>>, Vec<FoundBlock>) {
        let (mut of_one, mut mixed) = (BTreeMap::<u32, Vec<FoundBlock>>::new(), Vec::new());
        for block in self.blocks {
            match block.logical(per_block).filter(|_| !is_mixed(&block)) {
                Some(logical) => of_one.entry(logical).or_default().push(block),
                None => mixed.push(block),
            }
        }
        (of_one, mixed)
    }
}

/// The newest version of each sector in `blocks`: its sequence number and place.
fn newest_in(blocks: &[FoundBlock], units: u32) -> Vec<Option<(u64, Ppa)>> {
    let mut newest = vec![None; units as usize];
    for (_, unit) in blocks.iter().flat_map(|block| &block.sectors) {
        let version = Some((unit.sequence, unit.ppa));
        if newest[unit.lpn.index()] < version {
            newest[unit.lpn.index()] = version;
        }
    }
    newest
}

impl<N: Nand> Sectors<N> {
    /// Finds the newest versions on `nand` after a power cut, and the blocks that hold them. Erases other
    /// blocks, and targets of unfinished merges.
    pub(super) fn restart(
        mut nand: N,
        config: BlockMapConfig,
        report: &mut Recovery,
    ) -> Result<(Self, Found), RecoveryError> {
        if !config.durable {
            return Err(RecoveryError::Volatile);
        }
        let trims = Trims::find(&mut nand, config.trims_demand(), report)?;
        let (clock, bits) = (trims.clock, trims.trims.clone());
        let mut sectors = Self::with_trims(nand, config, Some(bits));
        let good: Vec<BlockId> = sectors
            .all_blocks()
            .filter(|block| !matches!(sectors.states[block.index()], State::Bad | State::Meta))
            .collect();
        let from_start = good.iter().map(|&block| (block, 0));
        let scanned = scan(&mut sectors.nand, from_start, false, config.logical_units, report)?;
        sectors.sequence = scanned.next_sequence.max(clock.sequence).max(1);
        sectors.stats.host_units_written = clock.host_units;
        report.units_found += scanned.units.len() as u64;
        scanned.failed.iter().for_each(|block| sectors.failing[block.index()] = true);
        let mut found: BTreeMap<BlockId, FoundBlock> = BTreeMap::new();
        for unit in scanned.units {
            let geometry = sectors.nand.geometry();
            let block = geometry.block_of(unit.ppa);
            let offset = geometry.page_in_block(geometry.page_of(unit.ppa));
            let end = || sectors.end_of(block);
            let entry =
                found.entry(block).or_insert_with(|| FoundBlock { block, sectors: Vec::new(), end: end() });
            entry.sectors.push((offset, unit));
        }
        let mut blocks: Vec<FoundBlock> = found.into_values().collect();
        blocks.sort_by_key(FoundBlock::opened);
        // What has been trimmed is no version of anything.
        let is_trimmed = |unit: &UnitFound| trims.has_trimmed(unit.lpn, unit.sequence);
        let mut live = blocks.clone();
        live.iter_mut().for_each(|block| block.sectors.retain(|(_, unit)| !is_trimmed(unit)));
        let per_block = sectors.per_block;
        while let Some(unfinished) = unfinished_merge(&blocks, &live, config.logical_units, per_block) {
            blocks.remove(unfinished);
            live.remove(unfinished);
        }
        for (lpn, version) in (0..).map(Lpn::new).zip(newest_in(&live, config.logical_units)) {
            if let Some((_, ppa)) = version {
                sectors.place_at(lpn, ppa);
                sectors.written(lpn);
            }
        }
        blocks.retain(|block| sectors.valid[block.block.index()] > 0);
        blocks.iter().for_each(|found| sectors.states[found.block.index()] = State::Used);
        sectors.erase_rest(&good, report)?;
        Ok((sectors, Found { blocks }))
    }

    /// One more than the last programmed page of `block`.
    fn end_of(&self, block: BlockId) -> u32 {
        (0..self.per_block)
            .rev()
            .find(|&at| self.nand.is_programmed(self.page(block, at)))
            .map_or(0, |at| at + 1)
    }

    /// Erases what holds nothing that is wanted, and puts the erased blocks into the pool.
    fn erase_rest(&mut self, good: &[BlockId], report: &mut Recovery) -> Result<(), RecoveryError> {
        self.pool_erased();
        for &block in good {
            if self.states[block.index()] == State::Used || self.nand.block(block).is_erased() {
                continue;
            }
            // If the log of trims is worn out, nothing can be erased any more: the block stays as it is, unused.
            self.states[block.index()] = State::Used;
            if self.erase(report.now(), block, Cause::Recovery).is_ok() {
                report.blocks_erased += 1;
            }
        }
        report.wait(&mut self.nand);
        Ok(())
    }
}

/// The block, if there is one, that a merge was filling when power failed: sectors that it should have got
/// are still newest elsewhere, although older than what it has.
fn unfinished_merge(blocks: &[FoundBlock], live: &[FoundBlock], units: u32, per_block: u32) -> Option<usize> {
    let newest = newest_in(live, units);
    blocks.iter().position(|target| {
        let (Some(logical), last) = (target.logical(per_block), target.last()) else { return false };
        let first = logical * per_block;
        let is_inside = |ppa: Ppa| target.sectors.iter().any(|(_, unit)| unit.ppa == ppa);
        target.is_merged(per_block)
            && newest[first as usize..units.min(first + per_block) as usize]
                .iter()
                .flatten()
                .any(|&(sequence, ppa)| sequence < last && !is_inside(ppa))
    })
}
