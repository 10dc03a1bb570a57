//! Block-mapped schemes: a logical block lies in a flash block of its own, each sector at its offset, and
//! what does not fit there goes to replacement or log blocks until a merge.
//!
//! [`BlockMap`] is the drive's side of it; `sectors.rs` is the flash below all of them: where the newest
//! version of each sector lies, how sectors are moved and blocks erased. A `Scheme` decides where a write
//! goes and what is merged when: `replacement.rs`, `log_block.rs`, `fast.rs`. `found.rs` sorts what a power
//! cut has left.

mod fast;
mod found;
mod log_block;
mod replacement;
mod sectors;

use strobe_nand::{Cause, Nand, Payload, Unit};
use strobe_types::{Geometry, Lpn, SimTime};

use crate::journal::Trims;
use crate::map::page::CopyStats;
use crate::{CheckError, FtlError, GcStats, MappingScheme, Recovery, RecoveryError, WearSummary};

use fast::Fast;
use found::Found;
use log_block::LogBlock;
use replacement::ReplacementBlock;
use sectors::Sectors;

/// A block-mapped scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockScheme {
    /// Chains of blocks with each sector at the same offset, as in NFTL (Ban 1995). Needs a chip that takes
    /// the pages of a block in any order.
    ReplacementBlock,
    /// One log block per data block, as in BAST (Kim et al. 2002), with fill-up and switch.
    LogBlock,
    /// Log blocks shared by all data blocks, one of them for sequential writes (FAST, Lee et al. 2007).
    Fast,
}

impl BlockScheme {
    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReplacementBlock => "replacement-block",
            Self::LogBlock => "log-block",
            Self::Fast => "fast",
        }
    }
}

/// A block-mapped drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMapConfig {
    /// Where writes go and what is merged when.
    pub scheme: BlockScheme,
    /// Logical sectors offered to the host; a sector is a mapping unit, and fills a flash page.
    pub logical_units: u32,
    /// Replacement or log blocks, at least 2.
    pub log_blocks: u32,
    /// Blocks kept beyond what is needed, for media faults.
    pub fault_reserve: u32,
    /// Whether trims survive a power cut. Written data does in any case.
    pub durable: bool,
}

/// Blocks beyond data and log blocks: one to merge into, one more to find everything again with after a
/// power cut in a merge.
const SPARE_BLOCKS: u32 = 2;

impl BlockMapConfig {
    /// Good blocks needed on `geometry`.
    pub fn blocks_needed(&self, geometry: &Geometry) -> u32 {
        let data = self.logical_units.div_ceil(geometry.pages_per_block());
        data.saturating_add(self.log_blocks)
            .saturating_add(SPARE_BLOCKS + self.fault_reserve)
            .saturating_add(self.map_blocks(geometry))
    }

    /// Good blocks among them that are reserved for the map.
    pub fn map_blocks(&self, geometry: &Geometry) -> u32 {
        match self.durable {
            true => Trims::blocks(geometry, self.logical_units, self.fault_reserve),
            false => 0,
        }
    }

    /// Most logical units that `usable_blocks` good blocks can serve with these choices.
    pub fn room_units(&self, geometry: &Geometry, usable_blocks: u32) -> u32 {
        let fits = |&blocks: &u32| {
            let logical_units = blocks * geometry.pages_per_block();
            Self { logical_units, ..*self }.blocks_needed(geometry) <= usable_blocks
        };
        (0..=usable_blocks).rev().find(fits).unwrap_or(0) * geometry.pages_per_block()
    }

    /// Bytes of host memory beside the chip.
    pub fn memory_bytes(&self, geometry: &Geometry) -> u64 {
        let trims = if self.durable { Trims::bytes(self.logical_units) } else { 0 };
        u64::from(self.logical_units) * 4 + u64::from(geometry.blocks()) * 24 + trims
    }
}

/// Why a block-mapped drive cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockMapError {
    /// Too few blocks.
    #[error(
        "{scheme} needs {needed} good blocks: {data} for data, {log} log or replacement blocks, the rest to \
         merge into, for faults and for trims; the drive has {usable}, enough for {room} mapping units"
    )]
    TooFewBlocks {
        /// Name of the scheme.
        scheme: &'static str,
        /// Good blocks needed.
        needed: u32,
        /// Of these, for data.
        data: u32,
        /// Of these, log or replacement blocks.
        log: u32,
        /// Good blocks there are.
        usable: u32,
        /// Logical units that they could serve.
        room: u32,
    },
    /// Sectors are smaller than pages.
    #[error("{scheme} maps whole flash pages: drive.ftl.mapping_unit_bytes must equal drive.nand.page_bytes")]
    UnitIsNoPage {
        /// Name of the scheme.
        scheme: &'static str,
    },
    /// The scheme programs pages out of order.
    #[error(
        "{scheme} writes the pages of a block in any order, which this chip does not allow; small-page SLC \
         does: drive.nand.any_page_order = true"
    )]
    InOrder {
        /// Name of the scheme.
        scheme: &'static str,
    },
    /// Not enough log blocks to work with.
    #[error("{scheme} needs at least 2 log or replacement blocks, drive.ftl.log_blocks is {given}")]
    FewLogBlocks {
        /// Name of the scheme.
        scheme: &'static str,
        /// The value given.
        given: u32,
    },
}

/// Merges by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeStats {
    /// A log block became the data block as it was: one erase.
    pub switched: u64,
    /// A log or replacement block became the data block after the rest was copied to it.
    pub partial: u64,
    /// Everything was copied to an erased block.
    pub full: u64,
    /// Sectors copied.
    pub units_copied: u64,
    /// Blocks erased, or given up instead.
    pub blocks_erased: u64,
}

impl MergeStats {
    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            switched: self.switched + other.switched,
            partial: self.partial + other.partial,
            full: self.full + other.full,
            units_copied: self.units_copied + other.units_copied,
            blocks_erased: self.blocks_erased + other.blocks_erased,
        }
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            switched: self.switched - earlier.switched,
            partial: self.partial - earlier.partial,
            full: self.full - earlier.full,
            units_copied: self.units_copied - earlier.units_copied,
            blocks_erased: self.blocks_erased - earlier.blocks_erased,
        }
    }
}

/// Where writes go, and what is merged when.
///
/// **The caller promises** to write sectors of the drive only. **The implementer promises** that the newest
/// version of every mapped sector is on flash after every call, and that whatever is found after a cut in
/// one (`Found`) makes a sound state again.
trait Scheme: Sized {
    /// With nothing written yet.
    fn new<N: Nand>(sectors: &Sectors<N>) -> Self;

    /// Writes one sector; returns when it, and the merges it took, are on flash.
    fn write<N: Nand>(
        &mut self,
        sectors: &mut Sectors<N>,
        now: SimTime,
        unit: &Unit<N::Payload>,
        cause: Cause,
    ) -> Result<SimTime, FtlError>;

    /// What it takes on flash to find out where `lpn` lies; returns when it is known.
    fn look_up<N: Nand>(&self, _sectors: &mut Sectors<N>, now: SimTime, _lpn: Lpn) -> SimTime {
        now
    }

    /// The scheme for blocks found after a power cut.
    fn restore<N: Nand>(
        sectors: &mut Sectors<N>,
        found: Found,
        report: &mut Recovery,
    ) -> Result<Self, RecoveryError>;

    /// Checks its own tables; returns how many blocks they name, each once.
    fn check<N: Nand>(&self, sectors: &Sectors<N>) -> Result<u32, CheckError>;
}

/// The scheme of a drive.
#[derive(Clone, Debug)]
enum AnyScheme {
    ReplacementBlock(ReplacementBlock),
    LogBlock(LogBlock),
    Fast(Fast),
}

/// Does `$what` with the scheme inside.
macro_rules! each {
    ($any:expr, $scheme:ident => $what:expr) => {
        match $any {
            AnyScheme::ReplacementBlock($scheme) => $what,
            AnyScheme::LogBlock($scheme) => $what,
            AnyScheme::Fast($scheme) => $what,
        }
    };
}

impl Scheme for AnyScheme {
    fn new<N: Nand>(sectors: &Sectors<N>) -> Self {
        match sectors.config.scheme {
            BlockScheme::ReplacementBlock => Self::ReplacementBlock(Scheme::new(sectors)),
            BlockScheme::LogBlock => Self::LogBlock(Scheme::new(sectors)),
            BlockScheme::Fast => Self::Fast(Scheme::new(sectors)),
        }
    }

    #[inline]
    fn write<N: Nand>(
        &mut self,
        sectors: &mut Sectors<N>,
        now: SimTime,
        unit: &Unit<N::Payload>,
        cause: Cause,
    ) -> Result<SimTime, FtlError> {
        each!(self, scheme => scheme.write(sectors, now, unit, cause))
    }

    fn look_up<N: Nand>(&self, sectors: &mut Sectors<N>, now: SimTime, lpn: Lpn) -> SimTime {
        each!(self, scheme => scheme.look_up(sectors, now, lpn))
    }

    fn restore<N: Nand>(
        sectors: &mut Sectors<N>,
        found: Found,
        report: &mut Recovery,
    ) -> Result<Self, RecoveryError> {
        Ok(match sectors.config.scheme {
            BlockScheme::ReplacementBlock => Self::ReplacementBlock(Scheme::restore(sectors, found, report)?),
            BlockScheme::LogBlock => Self::LogBlock(Scheme::restore(sectors, found, report)?),
            BlockScheme::Fast => Self::Fast(Scheme::restore(sectors, found, report)?),
        })
    }

    fn check<N: Nand>(&self, sectors: &Sectors<N>) -> Result<u32, CheckError> {
        each!(self, scheme => scheme.check(sectors))
    }
}

/// A block-mapped flash translation layer over `N`.
///
/// Memory beside the chip: 4 bytes per sector, as an index of what the scheme's own, smaller, tables and
/// the out-of-band areas say together.
#[derive(Clone, Debug)]
pub struct BlockMap<N: Nand> {
    sectors: Sectors<N>,
    scheme: AnyScheme,
}

impl<N: Nand> BlockMap<N> {
    /// A fresh drive on `nand`, or why it could not work.
    pub fn new(nand: N, config: BlockMapConfig) -> Result<Self, BlockMapError> {
        Self::check_config(&nand, &config)?;
        let mut sectors = Sectors::new(nand, config);
        sectors.pool_erased();
        Ok(Self { scheme: AnyScheme::new(&sectors), sectors })
    }

    fn check_config(nand: &N, config: &BlockMapConfig) -> Result<(), BlockMapError> {
        let (scheme, geometry) = (config.scheme.name(), nand.geometry());
        if geometry.units_per_page() != 1 {
            return Err(BlockMapError::UnitIsNoPage { scheme });
        }
        if config.scheme == BlockScheme::ReplacementBlock && !nand.takes_any_order() {
            return Err(BlockMapError::InOrder { scheme });
        }
        if config.log_blocks < 2 {
            return Err(BlockMapError::FewLogBlocks { scheme, given: config.log_blocks });
        }
        let blocks = (0..geometry.blocks()).map(strobe_types::BlockId::new);
        let usable = blocks.filter(|&block| !nand.is_bad(block)).count() as u32;
        let needed = config.blocks_needed(geometry);
        if needed > usable {
            return Err(BlockMapError::TooFewBlocks {
                scheme,
                needed,
                data: config.logical_units.div_ceil(geometry.pages_per_block()),
                log: config.log_blocks,
                usable,
                room: config.room_units(geometry, usable),
            });
        }
        Ok(())
    }

    /// The drive that a power cut has left on `nand`; power is back at `now`.
    ///
    /// Cost: the out-of-band area of every programmed page is read, and what a merge has left unfinished is
    /// finished or undone.
    pub fn restart(nand: N, config: BlockMapConfig, now: SimTime) -> Result<(Self, Recovery), RecoveryError> {
        let mut report = Recovery::new(now);
        let (mut sectors, found) = Sectors::restart(nand, config, &mut report)?;
        let scheme = AnyScheme::restore(&mut sectors, found, &mut report)?;
        sectors.retire_if_worn_out();
        report.wait();
        Ok((Self { sectors, scheme }, report))
    }

    /// Merges by kind.
    pub fn merges(&self) -> &MergeStats {
        &self.sectors.merges
    }

    fn write_units(
        &mut self,
        now: SimTime,
        units: &[Unit<N::Payload>],
        cause: Cause,
    ) -> Result<SimTime, FtlError> {
        self.sectors.refuse_at_end_of_life()?;
        let mut done = now;
        for unit in units {
            done = done.max(self.scheme.write(&mut self.sectors, now, unit, cause)?);
            if cause != Cause::Copy {
                self.sectors.host_units_written += 1;
            }
            self.sectors.commit_if_full(done)?;
        }
        Ok(done)
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

    fn mapped_units(&self) -> u32 {
        self.sectors.mapped
    }

    fn host_units_written(&self) -> u64 {
        self.sectors.host_units_written
    }

    fn stripe_units(&self) -> u32 {
        // A run of sectors goes to one block.
        1
    }

    fn write(&mut self, now: SimTime, units: &[Unit<N::Payload>]) -> Result<SimTime, FtlError> {
        self.write_units(now, units, Cause::Host)
    }

    fn write_back(&mut self, now: SimTime, units: &[Unit<N::Payload>]) -> Result<SimTime, FtlError> {
        self.write_units(now, units, Cause::Cache)
    }

    fn read(&mut self, now: SimTime, first: Lpn, count: u32, out: &mut Vec<N::Payload>) -> SimTime {
        let mut finished = now;
        for lpn in (0..count).map(|at| first.plus(at)) {
            let found = self.scheme.look_up(&mut self.sectors, now, lpn);
            match self.sectors.place(lpn) {
                None => {
                    out.push(N::Payload::zero());
                    finished = finished.max(found);
                }
                Some(ppa) => {
                    out.push(self.sectors.nand.payload(ppa));
                    let page = self.sectors.nand.geometry().page_of(ppa);
                    finished = finished.max(self.sectors.nand.read(found, page, 1, Cause::Host));
                }
            }
        }
        finished
    }

    fn peek(&self, lpn: Lpn) -> N::Payload {
        self.sectors.place(lpn).map_or_else(N::Payload::zero, |ppa| self.sectors.nand.payload(ppa))
    }

    fn trim(&mut self, now: SimTime, first: Lpn, count: u32) -> Result<SimTime, FtlError> {
        let mut done = now;
        for lpn in (0..count).map(|at| first.plus(at)) {
            self.sectors.unmap(lpn);
            done = self.sectors.commit_if_full(done)?;
        }
        Ok(done)
    }

    fn flush(&mut self, now: SimTime) -> Result<SimTime, FtlError> {
        self.sectors.commit(now)
    }

    fn copy(&mut self, now: SimTime, from: Lpn, to: Lpn, count: u32) -> Result<SimTime, FtlError> {
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
                done = done.max(self.sectors.commit_if_full(found)?);
                continue;
            };
            let page = self.sectors.nand.geometry().page_of(ppa);
            let arrived = self.sectors.nand.read(found, page, 1, Cause::Copy);
            let unit = Unit { lpn: destination, payload: self.sectors.nand.payload(ppa) };
            done = done.max(self.scheme.write(&mut self.sectors, arrived, &unit, Cause::Copy)?);
            self.sectors.commit_if_full(done)?;
            self.sectors.copies.physical_units += 1;
        }
        Ok(done)
    }

    fn recover(self, now: SimTime, nand: N) -> Result<(Self, Recovery), RecoveryError> {
        let (mut ftl, report) = Self::restart(nand, self.sectors.config, now)?;
        ftl.sectors.continue_statistics(&self.sectors);
        Ok((ftl, report))
    }

    fn prefetch_entry(&self, lpn: Lpn) {
        self.sectors.prefetch(lpn);
    }

    fn prefetch_state(&self, _lpn: Lpn) {}

    fn gc_stats(&self) -> &GcStats {
        &self.sectors.gc
    }

    fn copy_stats(&self) -> CopyStats {
        self.sectors.copies
    }

    fn merge_stats(&self) -> Option<MergeStats> {
        Some(self.sectors.merges)
    }

    fn free_blocks(&self) -> u32 {
        self.sectors.free_blocks()
    }

    fn wear(&self) -> WearSummary {
        self.sectors.wear()
    }

    fn check(&self) -> Result<(), CheckError> {
        let named = self.scheme.check(&self.sectors)?;
        self.sectors.check(named)
    }
}
