//! Block-mapped schemes: each logical block has a data block with every sector at its offset. Other writes go
//! to replacement or log blocks until a merge.
//!
//! A `Scheme` (`scheme.rs`) places writes and chooses merges. All share the flash in `sectors.rs` and the
//! moving of sectors in `merge.rs`.

mod any_scheme;
mod check;
mod config;
mod fast;
mod found;
mod log_block;
mod merge;
mod replacement;
mod scheme;
mod sectors;

use strobe_nand::{Cause, Nand, Payload, PowerCuts, Unit, Wanted, When};
use strobe_types::{BlockId, Lpn, Ppa, SimTime};

use crate::{
    BlockInfo, CheckError, Done, FtlError, FtlStats, Inspectable, MappingScheme, Recoverable, Recovery,
    RecoveryError, Stage, WriteContext, read_result,
};

use any_scheme::AnyScheme;
pub use config::{BlockMapConfig, BlockMapError, BlockScheme, LogVictim};
use scheme::Scheme;
use sectors::{Sectors, State};

/// A block-mapped flash translation layer over `N`.
///
/// Memory in addition to the chip: 4 bytes per sector and small tables; [`BlockMapConfig::memory_bytes`] has
/// the total.
#[derive(Clone, Debug, strobe_types::State)]
pub struct BlockMap<N: Nand> {
    sectors: Sectors<N>,
    scheme: AnyScheme,
}

impl<N: Nand> BlockMap<N> {
    /// Creates a fresh drive on `nand`, or returns why it cannot work.
    pub fn new(nand: N, config: BlockMapConfig) -> Result<Self, BlockMapError> {
        config.check(&nand)?;
        let mut sectors = Sectors::new(nand, config);
        sectors.pool_erased();
        Ok(Self { scheme: AnyScheme::new(&sectors), sectors })
    }

    /// Recovers the drive that a power cut has left on `nand`; power returns at `now`.
    ///
    /// Cost: reads of the out-of-band area of every programmed page, and completion or undo of an unfinished
    /// merge.
    pub fn restart(nand: N, config: BlockMapConfig, now: SimTime) -> Result<(Self, Recovery), RecoveryError> {
        let mut report = Recovery::new(now);
        let (mut sectors, found) = Sectors::restart(nand, config, &mut report)?;
        let scheme = AnyScheme::restore(&mut sectors, found, &mut report)?;
        sectors.retire_if_worn_out();
        report.wait(&mut sectors.nand);
        Ok((Self { sectors, scheme }, report))
    }
}

impl<N: Nand> MappingScheme for BlockMap<N> {
    type Payload = N::Payload;
    type Nand = N;

    fn nand(&self) -> &N {
        &self.sectors.nand
    }

    fn nand_mut(&mut self) -> &mut N {
        &mut self.sectors.nand
    }

    fn logical_units(&self) -> u32 {
        self.sectors.config.logical_units
    }

    fn stats(&self) -> &FtlStats {
        &self.sectors.stats
    }

    fn write(&mut self, now: When, units: &[Unit<N::Payload>], context: WriteContext) -> Done {
        self.sectors.refuse_at_end_of_life()?;
        let mut done = now;
        for unit in units {
            let next = self.scheme.write(&mut self.sectors, now, (unit, context.cause))?;
            done = self.sectors.nand.both(done, next);
            self.sectors.stats.host_units_written += 1;
            self.sectors.commit_if_full(done)?;
        }
        Ok(done)
    }

    fn read(&mut self, now: When, first: Lpn, count: u32, out: &mut Vec<N::Payload>) -> Done {
        let (mut finished, mut lost) = (now, None);
        for lpn in (0..count).map(|at| first.plus(at)) {
            let found = self.scheme.look_up(&mut self.sectors, now, lpn);
            match self.sectors.place(lpn) {
                None => {
                    out.push(N::Payload::zero());
                    finished = self.sectors.nand.both(finished, found);
                }
                Some(ppa) => {
                    out.push(self.sectors.nand.payload(ppa));
                    let page = self.sectors.nand.geometry().page_of(ppa);
                    let next = self.sectors.nand.read(found, page, Wanted::first(1), Cause::Host);
                    if next.is_uncorrectable() && self.sectors.nand.has_failed(ppa) {
                        lost = lost.or(Some(lpn));
                    }
                    finished = self.sectors.nand.both(finished, next.when);
                }
            }
        }
        read_result(finished, lost)
    }

    fn trim(&mut self, now: When, first: Lpn, count: u32) -> Done {
        let mut done = now;
        for lpn in (0..count).map(|at| first.plus(at)) {
            self.sectors.unmap(lpn);
            done = self.sectors.commit_if_full(done)?;
        }
        Ok(done)
    }

    fn flush(&mut self, now: When) -> Done {
        self.sectors.commit(now)
    }

    fn copy(&mut self, now: When, from: Lpn, to: Lpn, count: u32) -> Done {
        self.sectors.refuse_at_end_of_life()?;
        let mut done = now;
        for at in 0..count {
            let (source, destination) = (from.plus(at), to.plus(at));
            if source == destination {
                continue;
            }
            let found = self.scheme.look_up(&mut self.sectors, now, source);
            let Some(ppa) = self.sectors.place(source) else {
                self.sectors.unmap(destination);
                let next = self.sectors.commit_if_full(found)?;
                done = self.sectors.nand.both(done, next);
                continue;
            };
            let page = self.sectors.nand.geometry().page_of(ppa);
            let arrived = self.sectors.nand.read(found, page, Wanted::first(1), Cause::Copy).when;
            if self.sectors.nand.has_losses() && self.sectors.nand.is_lost(ppa) {
                // A lost unit is reported, not copied.
                return Err(FtlError::Unreadable { lpn: source, at: self.sectors.nand.both(done, arrived) });
            }
            let unit = Unit { lpn: destination, payload: self.sectors.nand.payload(ppa) };
            let next = self.scheme.write(&mut self.sectors, arrived, (&unit, Cause::Copy))?;
            done = self.sectors.nand.both(done, next);
            self.sectors.commit_if_full(done)?;
            self.sectors.stats.copies.physical_units += 1;
        }
        Ok(done)
    }

    fn prefetch_entry(&self, lpn: Lpn) {
        self.sectors.prefetch(lpn);
    }
}

impl<N: Nand> Inspectable for BlockMap<N> {
    fn mapped_units(&self) -> u32 {
        self.sectors.mapped
    }

    fn free_blocks(&self) -> u32 {
        self.sectors.free.count()
    }

    fn block_info(&self, block: BlockId) -> BlockInfo {
        let flash = self.sectors.nand.block(block);
        let stage = match self.sectors.states[block.index()] {
            State::Free => Stage::Erased,
            State::Used if flash.pages_programmed < self.sectors.per_block => Stage::Open,
            State::Used => Stage::Full,
            State::Bad => Stage::Bad,
            State::Meta => Stage::Tables,
        };
        BlockInfo::of_flash(&self.sectors.nand, block, stage, self.sectors.valid[block.index()])
    }

    fn locate(&self, lpn: Lpn) -> Option<Ppa> {
        self.sectors.place(lpn)
    }

    fn peek(&self, lpn: Lpn) -> N::Payload {
        self.sectors.place(lpn).map_or_else(N::Payload::zero, |ppa| self.sectors.nand.payload(ppa))
    }

    fn check(&self) -> Result<(), CheckError> {
        if self.sectors.nand.is_stopped() {
            return Ok(());
        }
        let named = self.scheme.check(&self.sectors)?;
        self.sectors.check(named)
    }
}

impl<N: PowerCuts> Recoverable for BlockMap<N> {
    fn recover(self, now: SimTime, nand: N) -> Result<(Self, Recovery), RecoveryError> {
        let (mut ftl, report) = Self::restart(nand, self.sectors.config, now)?;
        let (stats, before) = (&mut ftl.sectors.stats, self.sectors.stats);
        stats.host_units_written = stats.host_units_written.max(before.host_units_written);
        stats.continue_from(before);
        Ok((ftl, report))
    }
}
