//! Numbering of blocks, pages and mapping units, and their location on channels, dies and planes.

use std::ops::Range;

use crate::{BlockId, CellMode, ChannelId, DieId, Divisor, Lba, Lpn, Ppa, Ppn, SECTOR_BYTES};

/// Parameters of a [`Geometry`], as in a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeometrySpec {
    /// Channels of the drive.
    pub channels: u32,
    /// Dies per channel.
    pub dies_per_channel: u32,
    /// Planes per die.
    pub planes_per_die: u32,
    /// Erase blocks per plane.
    pub blocks_per_plane: u32,
    /// Flash pages per block.
    pub pages_per_block: u32,
    /// Data bytes of a flash page, without the spare area.
    pub page_bytes: u32,
    /// Bytes of a mapping unit: a power of two of at least 512 that divides `page_bytes`.
    pub unit_bytes: u32,
}

impl GeometrySpec {
    /// Maximum number of mapping units in a block.
    pub const UNITS_PER_BLOCK_MAX: u32 = 1 << 20;
}

/// Errors of a [`GeometrySpec`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// A count is zero.
    #[error("{0} is 0, it must be at least 1")]
    Zero(&'static str),
    /// The mapping unit is not a power of two of at least one sector.
    #[error("mapping_unit_bytes is {0}, it must be a power of two from 512 on")]
    UnitSize(u32),
    /// Mapping units do not fill a flash page exactly.
    #[error("page_bytes is {page_bytes}, it must be a multiple of mapping_unit_bytes = {unit_bytes}")]
    PageSize {
        /// Given page size, in bytes.
        page_bytes: u32,
        /// Given unit size, in bytes.
        unit_bytes: u32,
    },
    /// A block has more mapping units than victim policies can rank.
    #[error(
        "a block has {0} mapping units, at most {max} are supported; use fewer pages_per_block or a \
         larger mapping_unit_bytes",
        max = GeometrySpec::UNITS_PER_BLOCK_MAX
    )]
    BlockTooLarge(u64),
    /// More mapping units than four-byte map entries can address.
    #[error(
        "the drive has {units} mapping units of {unit_bytes} bytes, at most {} are supported; \
         use fewer blocks or a larger mapping_unit_bytes",
        u32::MAX - 1
    )]
    TooLarge {
        /// Mapping units of the specification.
        units: u128,
        /// Given unit size, in bytes.
        unit_bytes: u32,
    },
}

/// Position on flash for the timing model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Block.
    pub block: BlockId,
    /// Channel.
    pub channel: ChannelId,
    /// Die.
    pub die: DieId,
    /// Plane within the die.
    pub plane: u32,
    /// Page within the block; 0 for an erase.
    pub page: u32,
    /// Cell mode of the block. Only the chip knows the mode; [`Geometry`] always sets normal mode.
    pub mode: CellMode,
}

/// The shape of the flash. Only this type converts between kinds of addresses.
///
/// Blocks are numbered plane by plane, starting with plane 0 of die 0. Mapping units are numbered through the
/// pages of a block, then through the blocks, so a block is one run of [`Ppa`]s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    spec: GeometrySpec,
    units_per_page: Divisor,
    pages_per_block: Divisor,
    units_per_block: Divisor,
    blocks_per_plane: Divisor,
    blocks_per_die: Divisor,
    dies_per_channel: Divisor,
    blocks: u32,
    /// log2(sectors per mapping unit)
    unit_shift: u32,
}

impl Geometry {
    /// Checks `spec` and prepares the conversions.
    pub fn new(spec: GeometrySpec) -> Result<Self, GeometryError> {
        for (key, value) in [
            ("channels", spec.channels),
            ("dies_per_channel", spec.dies_per_channel),
            ("planes_per_die", spec.planes_per_die),
            ("blocks_per_plane", spec.blocks_per_plane),
            ("pages_per_block", spec.pages_per_block),
            ("page_bytes", spec.page_bytes),
        ] {
            if value == 0 {
                return Err(GeometryError::Zero(key));
            }
        }
        if !spec.unit_bytes.is_power_of_two() || u64::from(spec.unit_bytes) < SECTOR_BYTES {
            return Err(GeometryError::UnitSize(spec.unit_bytes));
        }
        if !spec.page_bytes.is_multiple_of(spec.unit_bytes) {
            return Err(GeometryError::PageSize { page_bytes: spec.page_bytes, unit_bytes: spec.unit_bytes });
        }
        let units_per_page = spec.page_bytes / spec.unit_bytes;
        let per_block = u64::from(units_per_page) * u64::from(spec.pages_per_block);
        if per_block > u64::from(GeometrySpec::UNITS_PER_BLOCK_MAX) {
            return Err(GeometryError::BlockTooLarge(per_block));
        }
        // All numbers of units must fit 32 bits, so the product is checked without overflow.
        let units = [
            spec.channels,
            spec.dies_per_channel,
            spec.planes_per_die,
            spec.blocks_per_plane,
            spec.pages_per_block,
            units_per_page,
        ]
        .iter()
        .try_fold(1u128, |product, &factor| product.checked_mul(u128::from(factor)))
        .unwrap_or(u128::MAX);
        if units >= u128::from(u32::MAX) {
            return Err(GeometryError::TooLarge { units, unit_bytes: spec.unit_bytes });
        }
        let blocks_per_die = spec.planes_per_die * spec.blocks_per_plane;
        Ok(Self {
            spec,
            units_per_page: Divisor::new(units_per_page),
            pages_per_block: Divisor::new(spec.pages_per_block),
            units_per_block: Divisor::new(units_per_page * spec.pages_per_block),
            blocks_per_plane: Divisor::new(spec.blocks_per_plane),
            blocks_per_die: Divisor::new(blocks_per_die),
            dies_per_channel: Divisor::new(spec.dies_per_channel),
            blocks: spec.channels * spec.dies_per_channel * blocks_per_die,
            unit_shift: (u64::from(spec.unit_bytes) / SECTOR_BYTES).trailing_zeros(),
        })
    }

    /// The parameters of this geometry.
    pub fn spec(&self) -> &GeometrySpec {
        &self.spec
    }

    /// Erase blocks of the drive.
    #[inline(always)]
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Dies of the drive.
    pub fn dies(&self) -> u32 {
        self.spec.channels * self.spec.dies_per_channel
    }

    /// Planes of the drive.
    pub fn planes(&self) -> u32 {
        self.dies() * self.spec.planes_per_die
    }

    /// Flash pages of the drive.
    pub fn pages(&self) -> u32 {
        self.blocks * self.spec.pages_per_block
    }

    /// Mapping units of the drive.
    pub fn units(&self) -> u32 {
        self.blocks * self.units_per_block()
    }

    /// Flash pages in a block.
    #[inline(always)]
    pub fn pages_per_block(&self) -> u32 {
        self.spec.pages_per_block
    }

    /// Mapping units in a flash page.
    #[inline(always)]
    pub fn units_per_page(&self) -> u32 {
        self.units_per_page.get()
    }

    /// Mapping units in a block.
    #[inline(always)]
    pub fn units_per_block(&self) -> u32 {
        self.units_per_block.get()
    }

    /// Bytes of a mapping unit.
    #[inline(always)]
    pub fn unit_bytes(&self) -> u32 {
        self.spec.unit_bytes
    }

    /// Bytes of a flash page.
    #[inline(always)]
    pub fn page_bytes(&self) -> u32 {
        self.spec.page_bytes
    }

    /// Raw capacity in bytes.
    pub fn raw_bytes(&self) -> u64 {
        u64::from(self.pages()) * u64::from(self.page_bytes())
    }

    /// Host sectors in a mapping unit (a power of two).
    #[inline(always)]
    pub fn sectors_per_unit(&self) -> u32 {
        1 << self.unit_shift
    }

    /// log2 of [`Geometry::sectors_per_unit`].
    #[inline(always)]
    pub fn unit_shift(&self) -> u32 {
        self.unit_shift
    }

    /// Mapping unit of sector `lba`, which must be inside the drive.
    #[inline(always)]
    pub fn lpn_of(&self, lba: Lba) -> Lpn {
        Lpn::new((lba.get() >> self.unit_shift) as u32)
    }

    /// First sector of a mapping unit.
    #[inline(always)]
    pub fn first_sector(&self, lpn: Lpn) -> Lba {
        Lba::new(u64::from(lpn.get()) << self.unit_shift)
    }

    /// Index of `lba` within its mapping unit, from 0.
    #[inline(always)]
    pub fn sector_in_unit(&self, lba: Lba) -> u32 {
        lba.get() as u32 & (self.sectors_per_unit() - 1)
    }

    /// Numbers of the mapping units that `sectors` sectors from `lba` on touch; may exceed the drive.
    pub fn units_touched(&self, lba: Lba, sectors: u64) -> Range<u64> {
        let end = lba.get().saturating_add(sectors);
        lba.get() >> self.unit_shift..end.div_ceil(self.sectors_per_unit().into())
    }

    /// First and number of the mapping units that `sectors` sectors from `lba` on cover completely, if any.
    /// All are inside the drive.
    pub fn whole_units(&self, lba: Lba, sectors: u32) -> Option<(Lpn, u32)> {
        let first = lba.get().div_ceil(self.sectors_per_unit().into());
        let end = lba.get().saturating_add(sectors.into()) >> self.unit_shift;
        (first < end).then(|| (Lpn::new(first as u32), (end - first) as u32))
    }

    /// Mapping units that `sectors` sectors from `lba` on touch, inside the drive: each with its first
    /// affected sector and the number of affected sectors.
    #[inline]
    pub fn parts(&self, lba: Lba, sectors: u32) -> impl Iterator<Item = (Lpn, u32, u32)> + use<> {
        let (shift, start, end) = (self.unit_shift, lba.get(), lba.get() + u64::from(sectors));
        self.units_touched(lba, sectors.into()).map(move |unit| {
            let (from, upto) = (start.max(unit << shift), end.min((unit + 1) << shift));
            (Lpn::new(unit as u32), (from - (unit << shift)) as u32, (upto - from) as u32)
        })
    }

    /// Block of a unit.
    #[inline(always)]
    pub fn block_of(&self, ppa: Ppa) -> BlockId {
        BlockId::new(self.units_per_block.quotient(ppa.get()))
    }

    /// Block of a page.
    #[inline(always)]
    pub fn block_of_page(&self, ppn: Ppn) -> BlockId {
        BlockId::new(self.pages_per_block.quotient(ppn.get()))
    }

    /// Page of a unit.
    #[inline(always)]
    pub fn page_of(&self, ppa: Ppa) -> Ppn {
        Ppn::new(self.units_per_page.quotient(ppa.get()))
    }

    /// First unit of a page.
    #[inline(always)]
    pub fn first_unit_of_page(&self, ppn: Ppn) -> Ppa {
        Ppa::new(ppn.get() * self.units_per_page.get())
    }

    /// First unit of a block.
    #[inline(always)]
    pub fn first_unit(&self, block: BlockId) -> Ppa {
        Ppa::new(block.get() * self.units_per_block.get())
    }

    /// Page `page` (from 0) of a block.
    #[inline(always)]
    pub fn page(&self, block: BlockId, page: u32) -> Ppn {
        debug_assert!(page < self.pages_per_block());
        Ppn::new(block.get() * self.spec.pages_per_block + page)
    }

    /// Index of a page within its block.
    #[inline(always)]
    pub fn page_in_block(&self, ppn: Ppn) -> u32 {
        self.pages_per_block.remainder(ppn.get())
    }

    /// Die of a block.
    #[inline(always)]
    pub fn die_of(&self, block: BlockId) -> DieId {
        DieId::new(self.blocks_per_die.quotient(block.get()))
    }

    /// Plane of a block, numbered through the whole drive.
    #[inline(always)]
    pub fn plane_of(&self, block: BlockId) -> u32 {
        self.blocks_per_plane.quotient(block.get())
    }

    /// All planes in the order that uses most buses: channels vary fastest, then dies, then planes of a die.
    pub fn striped_planes(&self) -> impl Iterator<Item = u32> + use<> {
        let GeometrySpec { channels, dies_per_channel, planes_per_die, .. } = self.spec;
        (0..planes_per_die).flat_map(move |plane| {
            (0..dies_per_channel).flat_map(move |die| {
                (0..channels).map(move |channel| (channel * dies_per_channel + die) * planes_per_die + plane)
            })
        })
    }

    /// Channel of a die.
    #[inline(always)]
    pub fn channel_of(&self, die: DieId) -> ChannelId {
        ChannelId::new(self.dies_per_channel.quotient(die.get()))
    }

    /// Place of a page, for the timing model.
    #[inline(always)]
    pub fn place(&self, ppn: Ppn) -> Place {
        let block = self.block_of_page(ppn);
        let die = self.die_of(block);
        Place {
            block,
            channel: self.channel_of(die),
            die,
            plane: self.plane_of(block) - die.get() * self.spec.planes_per_die,
            page: ppn.get() - block.get() * self.spec.pages_per_block,
            mode: CellMode::Normal,
        }
    }

    /// Place of a block, for the timing model.
    pub fn place_of_block(&self, block: BlockId) -> Place {
        self.place(self.page(block, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> GeometrySpec {
        GeometrySpec {
            channels: 2,
            dies_per_channel: 3,
            planes_per_die: 2,
            blocks_per_plane: 5,
            pages_per_block: 12,
            page_bytes: 16384,
            unit_bytes: 4096,
        }
    }

    #[test]
    fn every_unit_lies_where_its_number_says() {
        let g = Geometry::new(spec()).expect("valid");
        let mut ppa = 0;
        for die in 0..6 {
            for plane in 0..2 {
                for block_in_plane in 0..5 {
                    let block = BlockId::new((die * 2 + plane) * 5 + block_in_plane);
                    assert_eq!(g.first_unit(block).get(), ppa);
                    for page in 0..12 {
                        for _ in 0..4 {
                            let unit = Ppa::new(ppa);
                            let ppn = g.page_of(unit);
                            assert_eq!(g.block_of(unit), block);
                            assert_eq!(ppn, g.page(block, page));
                            assert_eq!(g.page_in_block(ppn), page);
                            let (channel, die) = (ChannelId::new(die / 3), DieId::new(die));
                            assert_eq!(
                                g.place(ppn),
                                Place { block, channel, die, plane, page, mode: CellMode::Normal }
                            );
                            ppa += 1;
                        }
                    }
                }
            }
        }
        assert_eq!(g.units(), ppa);
        assert_eq!(g.raw_bytes(), u64::from(ppa) * 4096);
        assert_eq!(g.lpn_of(Lba::new(17)), Lpn::new(2));
    }

    #[test]
    fn sectors_and_units_convert_as_sector_by_sector() {
        let g = Geometry::new(spec()).expect("valid");
        for (start, count) in (0..40_u64).flat_map(|start| (0..40_u32).map(move |count| (start, count))) {
            let lba = Lba::new(start);
            let sectors: Vec<u64> = (start..start + u64::from(count)).collect();
            let of = |unit: u64| sectors.iter().filter(|&&sector| sector / 8 == unit).count() as u32;
            let whole: Vec<u64> = (0..10).filter(|&unit| of(unit) == 8).collect();
            let expected = whole.first().map(|&first| (Lpn::new(first as u32), whole.len() as u32));
            assert_eq!(g.whole_units(lba, count), expected, "{start}, {count}");
            let parts: Vec<(Lpn, u32, u32)> = g.parts(lba, count).filter(|(.., count)| *count > 0).collect();
            let first = |unit: u64| sectors.iter().find(|&&sector| sector / 8 == unit).map_or(0, |s| s % 8);
            let touched = (0..10).filter(|&unit| of(unit) > 0);
            let expected = touched.map(|unit| (Lpn::new(unit as u32), first(unit) as u32, of(unit)));
            assert!(parts.into_iter().eq(expected), "{start}, {count}");
            assert_eq!(u64::from(g.sector_in_unit(lba)), start % 8);
            assert_eq!(g.first_sector(g.lpn_of(lba)).get(), start / 8 * 8);
        }
        assert_eq!(g.units_touched(Lba::new(u64::MAX - 3), 9).start, (u64::MAX - 3) / 8);
    }

    #[test]
    fn impossible_geometry_is_refused_with_the_key() {
        let zero = GeometrySpec { planes_per_die: 0, ..spec() };
        assert_eq!(Geometry::new(zero), Err(GeometryError::Zero("planes_per_die")));
        let unit = GeometrySpec { unit_bytes: 3000, ..spec() };
        assert_eq!(Geometry::new(unit), Err(GeometryError::UnitSize(3000)));
        let page = GeometrySpec { page_bytes: 6144, ..spec() };
        assert!(matches!(Geometry::new(page), Err(GeometryError::PageSize { .. })));
        let long = GeometrySpec { pages_per_block: 1 << 19, ..spec() };
        assert_eq!(Geometry::new(long), Err(GeometryError::BlockTooLarge(1 << 21)));
        let huge = GeometrySpec { blocks_per_plane: u32::MAX, pages_per_block: 1 << 10, ..spec() };
        assert!(matches!(Geometry::new(huge), Err(GeometryError::TooLarge { .. })));
    }
}
