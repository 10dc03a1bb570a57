//! Contents of a block-mapped drive after a power cut.

use std::collections::BTreeMap;

use strobe_nand::{Cause, Nand};
use strobe_types::{BlockId, Lpn, Ppa};

use super::config::BlockMapConfig;
use super::sectors::{Sectors, State};
use crate::journal::Trims;
use crate::scan::{UnitFound, scan};
use crate::{Recovery, RecoveryError};

#[derive(Clone, Debug)]
pub(super) struct FoundBlock {
    pub(super) block: BlockId,
    /// Legible sectors with their offsets, in page order.
    pub(super) sectors: Vec<(u32, UnitFound)>,
    pub(super) end: u32,
}

impl FoundBlock {
    pub(super) fn opened(&self) -> u64 {
        self.sectors.iter().map(|(_, unit)| unit.sequence).min().unwrap_or(0)
    }

    fn last(&self) -> u64 {
        self.sectors.iter().map(|(_, unit)| unit.sequence).max().unwrap_or(0)
    }

    pub(super) fn logical(&self, per_block: u32) -> Option<u32> {
        let logical = |unit: &UnitFound| unit.lpn.get() / per_block;
        let first = self.sectors.first().map(|(_, unit)| logical(unit))?;
        self.sectors.iter().all(|(_, unit)| logical(unit) == first).then_some(first)
    }

    pub(super) fn is_in_place(&self, per_block: u32) -> bool {
        self.logical(per_block).is_some()
            && self.sectors.iter().all(|(offset, unit)| unit.lpn.get() % per_block == *offset)
    }

    /// True if its pages hold the first sectors of a logical block in order, and nothing else.
    pub(super) fn is_prefix(&self, per_block: u32) -> bool {
        self.is_in_place(per_block) && self.sectors.len() == self.end as usize
    }

    fn is_merged(&self, per_block: u32) -> bool {
        self.is_in_place(per_block) && self.sectors.iter().all(|(_, unit)| unit.copied)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) blocks: Vec<FoundBlock>,
}

impl Found {
    /// Blocks with sectors of one logical block, by logical block; and all other blocks.
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
    /// Finds the newest versions on `nand` after a power cut, and their blocks. Erases other blocks and the
    /// targets of unfinished merges.
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
        // Schemes rely on the order of opening: the data block of a logical block before its log block, and
        // older before newer log blocks.
        let mut blocks: Vec<FoundBlock> = found.into_values().collect();
        blocks.sort_by_key(FoundBlock::opened);
        // Versions older than a trim of their sector are not live.
        let is_trimmed = |unit: &UnitFound| trims.has_trimmed(unit.lpn, unit.sequence);
        let mut live = blocks.clone();
        live.iter_mut().for_each(|block| block.sectors.retain(|(_, unit)| !is_trimmed(unit)));
        let per_block = sectors.per_block;
        // Each removed target brings back older versions, which may reveal another unfinished merge.
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
        // Blocks without a newest version belong to no scheme and are erased.
        blocks.retain(|block| sectors.valid[block.block.index()] > 0);
        blocks.iter().for_each(|found| sectors.states[found.block.index()] = State::Used);
        sectors.erase_rest(&good, report)?;
        Ok((sectors, Found { blocks }))
    }

    fn end_of(&self, block: BlockId) -> u32 {
        (0..self.per_block)
            .rev()
            .find(|&at| self.nand.is_programmed(self.page(block, at)))
            .map_or(0, |at| at + 1)
    }

    fn erase_rest(&mut self, good: &[BlockId], report: &mut Recovery) -> Result<(), RecoveryError> {
        self.pool_erased();
        for &block in good {
            if self.states[block.index()] == State::Used || self.nand.block(block).is_erased() {
                continue;
            }
            // If the log of trims is worn out, the erase fails and the block stays in use without data.
            self.states[block.index()] = State::Used;
            if self.erase(report.now(), block, Cause::Recovery).is_ok() {
                report.blocks_erased += 1;
            }
        }
        report.wait(&mut self.nand);
        Ok(())
    }
}

/// Block that a merge was filling when power failed: another block still holds a newest version, older than
/// the last page here, of the same logical block.
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
