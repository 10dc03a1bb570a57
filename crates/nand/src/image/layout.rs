//! Byte layout of an image; `docs/FORMAT.md` describes it in words.
//!
//! Structures are stored in slots of fixed size. The last four bytes are a checksum over the slot's address
//! and its other bytes, so a slot at the wrong address is as invalid as a damaged one. A slot never crosses a
//! multiple of 4096: a killed process has written all of the slot or nothing.

use std::ops::Range;

use strobe_types::{BlockId, CellMode, Geometry, GeometrySpec, Ppa, Ppn};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::ImageInfo;
use crate::{BlockState, Cause, UnitBytes, WearConfig};

/// First bytes of every image. Not text, and broken by transfers that convert line ends.
pub(super) const MAGIC: [u8; 8] = *b"\x89STROBE\n";
pub(super) const VERSION: u32 = 4;

pub(super) const ALIGN: u64 = 4096;
/// Longest power-on time: 146 years.
pub(super) const POWER_ON_MAX_NS: u64 = 1 << 62;
pub(super) const CONFIG_MAX: u32 = 1 << 20;
/// Sizes in bytes: block table slot, record table slot, unit table entry.
pub(super) const BLOCK_SLOT: usize = 256;
pub(super) const RECORD_SLOT: usize = 32;
pub(super) const UNIT_ENTRY: usize = 8;

pub(super) fn seal<T: IntoBytes + Immutable, const SLOT: usize>(address: u32, body: &T) -> [u8; SLOT] {
    let mut slot = [0; SLOT];
    let body = body.as_bytes();
    slot[..body.len()].copy_from_slice(body);
    let crc = slot_checksum(address, &slot);
    slot[SLOT - 4..].copy_from_slice(&crc.to_le_bytes());
    slot
}

pub(super) fn open<T: FromBytes>(address: u32, slot: &[u8]) -> Option<T> {
    let crc = slot_checksum(address, slot).to_le_bytes();
    let body = slot.get(..size_of::<T>())?;
    if slot.ends_with(&crc) { T::read_from_bytes(body).ok() } else { None }
}

fn slot_checksum(address: u32, slot: &[u8]) -> u32 {
    let covered = &slot[..slot.len().saturating_sub(4)];
    crc32c::crc32c_append(crc32c::crc32c(&address.to_le_bytes()), covered)
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Header {
    pub(super) magic: [u8; 8],
    pub(super) version: U32,
    pub(super) channels: U32,
    pub(super) dies_per_channel: U32,
    pub(super) planes_per_die: U32,
    pub(super) blocks_per_plane: U32,
    pub(super) pages_per_block: U32,
    pub(super) page_bytes: U32,
    pub(super) unit_bytes: U32,
    /// 1 if `endurance_pe` limits the erases of a block, 0 if unlimited.
    pub(super) endurance_limited: U32,
    pub(super) endurance_pe: U32,
    pub(super) factory_bad_blocks: U32,
    pub(super) config_bytes: U32,
    pub(super) config_crc: U32,
    /// Bits of a cell if blocks can be in SLC mode, else 0.
    pub(super) slc_bits: U32,
    /// Bits of the IEEE 754 double.
    pub(super) program_fail_rate: U64,
    pub(super) seed: U64,
    pub(super) power_on_ns: U64,
}

impl Header {
    pub(super) fn new(info: &ImageInfo) -> Self {
        let ImageInfo { geometry, wear, seed, slc_bits, power_on_ns, config } = info;
        let spec = geometry.spec();
        Self {
            magic: MAGIC,
            version: VERSION.into(),
            channels: spec.channels.into(),
            dies_per_channel: spec.dies_per_channel.into(),
            planes_per_die: spec.planes_per_die.into(),
            blocks_per_plane: spec.blocks_per_plane.into(),
            pages_per_block: spec.pages_per_block.into(),
            page_bytes: spec.page_bytes.into(),
            unit_bytes: spec.unit_bytes.into(),
            endurance_limited: u32::from(wear.endurance_pe.is_some()).into(),
            endurance_pe: wear.endurance_pe.unwrap_or(0).into(),
            factory_bad_blocks: wear.factory_bad_blocks.into(),
            config_bytes: (config.len() as u32).into(),
            config_crc: crc32c::crc32c(config.as_bytes()).into(),
            slc_bits: (*slc_bits).into(),
            program_fail_rate: wear.program_fail_rate.to_bits().into(),
            seed: (*seed).into(),
            power_on_ns: (*power_on_ns).into(),
        }
    }

    pub(super) fn spec(&self) -> GeometrySpec {
        GeometrySpec {
            channels: self.channels.get(),
            dies_per_channel: self.dies_per_channel.get(),
            planes_per_die: self.planes_per_die.get(),
            blocks_per_plane: self.blocks_per_plane.get(),
            pages_per_block: self.pages_per_block.get(),
            page_bytes: self.page_bytes.get(),
            unit_bytes: self.unit_bytes.get(),
        }
    }

    pub(super) fn wear(&self) -> WearConfig {
        WearConfig {
            endurance_pe: (self.endurance_limited.get() == 1).then_some(self.endurance_pe.get()),
            factory_bad_blocks: self.factory_bad_blocks.get(),
            program_fail_rate: f64::from_bits(self.program_fail_rate.get()),
        }
    }
}

const BAD: u32 = 1;
const HALF_ERASED: u32 = 2;
const SLC: u32 = 4;

#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct BlockEntry {
    /// Successful erases. Records of pages programmed before the last erase carry a smaller number, so
    /// writing this entry frees all pages at once.
    erase_count: U32,
    /// Pages programmed since the last erase that `programs` includes. Later ones are counted from their
    /// records.
    counted: U32,
    flags: U32,
    zero: U32,
    pub(super) programs: [U64; Cause::ALL.len()],
    /// Erases of the block so far, failed ones included, by cause.
    pub(super) erases: [U64; Cause::ALL.len()],
}

impl BlockEntry {
    pub(super) fn generation(&self) -> u32 {
        self.erase_count.get()
    }

    pub(super) fn state(&self) -> BlockState {
        BlockState {
            erase_count: self.erase_count.get(),
            pages_programmed: self.counted.get(),
            bad: self.flags.get() & BAD != 0,
            half_erased: self.flags.get() & HALF_ERASED != 0,
            mode: if self.flags.get() & SLC == 0 { CellMode::Normal } else { CellMode::Slc },
        }
    }

    pub(super) fn set_state(&mut self, state: BlockState) {
        self.erase_count = state.erase_count.into();
        self.counted = state.pages_programmed.into();
        let is_slc = u32::from(state.mode == CellMode::Slc);
        let flags = u32::from(state.bad) * BAD + u32::from(state.half_erased) * HALF_ERASED + is_slc * SLC;
        self.flags = flags.into();
    }

    /// False for inconsistent fields; a valid checksum does not rule out a forged entry.
    pub(super) fn is_sensible(&self, geometry: &Geometry, slc_bits: u32) -> bool {
        let pages = match (self.flags.get() & SLC, slc_bits) {
            (0, _) => geometry.pages_per_block(),
            // The image has no SLC mode.
            (_, 0) => return false,
            (_, bits) => geometry.pages_per_block() / bits,
        };
        let (erase_count, counted) = (self.erase_count.get(), self.counted.get());
        let most = (u64::from(erase_count) + 1) * u64::from(geometry.pages_per_block());
        let sum = |counts: &[U64]| counts.iter().try_fold(0u64, |sum, n| sum.checked_add(n.get()));
        erase_count < MOST_ERASES
            && counted <= pages
            && self.flags.get() <= BAD | HALF_ERASED | SLC
            && sum(&self.programs).is_some_and(|programs| (u64::from(counted)..=most).contains(&programs))
            // A failed erase, the block's last, adds to `erases` only.
            && sum(&self.erases).is_some_and(|erases| {
                erases == u64::from(erase_count) || erases == u64::from(erase_count) + 1
            })
    }
}

/// Limit on erases: more than any block survives, and far from overflow.
const MOST_ERASES: u32 = 1 << 29;

/// Page kinds in a record. 0 is unused: a zeroed slot is a page never programmed.
pub(super) const DATA: u8 = 1;
pub(super) const META: u8 = 2;

/// Record of a programmed page. It is written last and makes the page valid.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct PageRecord {
    pub(super) generation: U32,
    /// Data page: mapping units, 0 if nothing readable was left. Metadata page: bytes.
    pub(super) length: U32,
    pub(super) sequence: U64,
    pub(super) oob_crc: U32,
    /// CRC-32C of the page's entries in the unit table, or of the content of a metadata page.
    pub(super) body_crc: U32,
    pub(super) kind: u8,
    pub(super) cause: u8,
    pub(super) zero: [u8; 2],
}

impl PageRecord {
    pub(super) fn is_sensible(&self, geometry: &Geometry) -> bool {
        let fits = match self.kind {
            DATA => self.length.get() <= geometry.units_per_page(),
            META => self.length.get() <= geometry.page_bytes(),
            _ => false,
        };
        fits && self.cause().is_some()
    }

    pub(super) fn cause(&self) -> Option<Cause> {
        Cause::ALL.get(usize::from(self.cause)).copied()
    }
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct UnitEntry {
    pub(super) lpn: U32,
    pub(super) crc: U32,
}

/// Checksum of a unit's content. 0 stands for all zeros, which are not stored. Otherwise the CRC-32C, but at
/// least 1.
pub(super) fn content_checksum(content: &UnitBytes) -> u32 {
    content.bytes().map_or(0, |bytes| crc32c::crc32c(bytes).max(1))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    blocks: u64,
    records: u64,
    units: u64,
    pub(super) contents: u64,
    pub(super) length: u64,
    ends: [u64; 5],
    unit_bytes: u64,
    units_per_page: u64,
}

impl Layout {
    pub(super) fn new(geometry: &Geometry, config_bytes: u32) -> Option<Self> {
        let mut ends = [0; 5];
        let mut at = ALIGN;
        let regions = [
            (config_bytes, 1),
            (geometry.blocks(), BLOCK_SLOT),
            (geometry.pages(), RECORD_SLOT),
            (geometry.units(), UNIT_ENTRY),
            (geometry.units(), geometry.unit_bytes() as usize),
        ];
        let starts = ends.each_mut().into_iter().zip(regions).map(|(end, (count, size))| {
            *end = at.checked_add(u64::from(count).checked_mul(size as u64)?)?;
            at = end.checked_next_multiple_of(ALIGN)?;
            Some(at)
        });
        let starts: Vec<u64> = starts.collect::<Option<_>>()?;
        let [blocks, records, units, contents, length] = starts.try_into().ok()?;
        // Operating systems take file offsets as signed 64-bit numbers.
        i64::try_from(length).ok()?;
        let unit_bytes = u64::from(geometry.unit_bytes());
        let units_per_page = u64::from(geometry.units_per_page());
        Some(Self { blocks, records, units, contents, length, ends, unit_bytes, units_per_page })
    }

    /// Zero padding after the configuration, the tables and the contents. Each range is shorter than
    /// [`ALIGN`].
    pub(super) fn padding(&self) -> impl Iterator<Item = Range<u64>> {
        self.ends.into_iter().map(|end| end..end.next_multiple_of(ALIGN))
    }

    pub(super) fn block(&self, block: BlockId) -> u64 {
        self.blocks + u64::from(block.get()) * BLOCK_SLOT as u64
    }

    pub(super) fn record(&self, ppn: Ppn) -> u64 {
        self.records + u64::from(ppn.get()) * RECORD_SLOT as u64
    }

    pub(super) fn unit(&self, ppa: Ppa) -> u64 {
        self.units + u64::from(ppa.get()) * UNIT_ENTRY as u64
    }

    pub(super) fn content(&self, ppa: Ppa) -> u64 {
        self.contents + u64::from(ppa.get()) * self.unit_bytes
    }

    pub(super) fn page_content(&self, ppn: Ppn) -> u64 {
        self.contents + u64::from(ppn.get()) * self.units_per_page * self.unit_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_documented_sizes_and_fit_their_slots() {
        assert_eq!(size_of::<Header>(), 88);
        assert_eq!(size_of::<BlockEntry>(), 192);
        assert_eq!(size_of::<PageRecord>(), RECORD_SLOT - 4);
        assert_eq!(size_of::<UnitEntry>(), UNIT_ENTRY);
    }

    #[test]
    fn a_slot_opens_only_unchanged_and_at_its_address() {
        let mut entry = BlockEntry::default();
        entry.set_state(BlockState {
            erase_count: 7,
            pages_programmed: 3,
            bad: true,
            half_erased: false,
            mode: CellMode::Slc,
        });
        let slot: [u8; BLOCK_SLOT] = seal(5, &entry);
        assert_eq!(open::<BlockEntry>(5, &slot).map(|e| e.state()), Some(entry.state()));
        assert!(open::<BlockEntry>(6, &slot).is_none(), "slot of another block");
        for bit in 0..BLOCK_SLOT * 8 {
            let mut flipped = slot;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(open::<BlockEntry>(5, &flipped).is_none(), "bit {bit}");
        }
        assert!(open::<BlockEntry>(5, &slot[..100]).is_none(), "cut off");
        assert!(open::<BlockEntry>(5, &[]).is_none(), "empty");
    }
}
