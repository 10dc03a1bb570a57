//! Storage for page content: none, a stamp per unit, or every byte.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use strobe_types::{BlockId, CellMode, Geometry, Lpn, Ppa, Ppn, SimTime, State, Stored};

use crate::Cause;
use crate::sparse::Sparse;

/// Mapping unit to be programmed: its owner and its content.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct Unit<P> {
    /// Logical page that owns the unit; stored in the out-of-band area.
    pub lpn: Lpn,
    /// Content, as far as the medium keeps it.
    pub payload: P,
}

/// Content of one mapping unit.
pub trait Payload: Clone + PartialEq + Debug + Send + Stored + 'static {
    /// Content of an unmapped unit.
    fn zero() -> Self;

    /// Content for a write without data (generators, traces). Equal for equal stamps, different for different
    /// stamps.
    fn synthetic(stamp: u64, unit_bytes: u32) -> Self;

    /// Content with sectors `first..first + count` (512 bytes each) replaced by the sectors of `newer`.
    #[must_use]
    fn merge(self, newer: &Self, first: u32, count: u32, unit_bytes: u32) -> Self;

    /// Content with `count` sectors from sector `to` on replaced by the sectors of the unit `source` from
    /// sector `from` on.
    #[must_use]
    fn splice(self, source: &Self, from: u32, to: u32, count: u32, unit_bytes: u32) -> Self;

    /// Continues the checksum `crc` over this content.
    fn checksum(&self, crc: u32) -> u32;

    /// True if the medium keeps every byte instead of a stamp.
    const KEEPS_BYTES: bool = false;

    /// Content from the `bytes` of a unit. Returns [`Payload::zero`] if the medium keeps no bytes.
    fn from_bytes(_bytes: &[u8]) -> Self {
        Self::zero()
    }

    /// Writes the content to `out`, one unit long; zeros if bytes are not kept.
    fn copy_to(&self, out: &mut [u8]) {
        out.fill(0);
    }
}

/// No content.
impl Payload for () {
    fn zero() {}
    fn synthetic(_stamp: u64, _unit_bytes: u32) {}
    fn merge(self, _newer: &Self, _first: u32, _count: u32, _unit_bytes: u32) {}
    fn splice(self, _source: &Self, _from: u32, _to: u32, _count: u32, _unit_bytes: u32) {}
    fn checksum(&self, crc: u32) -> u32 {
        crc
    }
}

/// An 8-byte stamp in place of the unit's bytes. It identifies the version that a read returns. A partial
/// write or copy replaces the stamp of the whole unit.
impl Payload for u64 {
    fn zero() -> Self {
        0
    }
    fn synthetic(stamp: u64, _unit_bytes: u32) -> Self {
        stamp
    }
    fn merge(self, newer: &Self, _first: u32, _count: u32, _unit_bytes: u32) -> Self {
        *newer
    }
    fn splice(self, source: &Self, _from: u32, _to: u32, _count: u32, _unit_bytes: u32) -> Self {
        *source
    }
    fn checksum(&self, crc: u32) -> u32 {
        crc32c::crc32c_append(crc, &self.to_le_bytes())
    }
}

/// Bytes of one unit; an all-zero unit takes no memory. Relocated copies share the bytes, because garbage
/// collection never changes them.
#[derive(Clone, Debug, PartialEq, Eq, Stored)]
pub struct UnitBytes(Option<Arc<[u8]>>);

impl UnitBytes {
    /// Content from the bytes of a unit.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.iter().any(|&b| b != 0).then(|| bytes.into()))
    }

    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }
}

impl Payload for UnitBytes {
    fn zero() -> Self {
        Self(None)
    }

    fn synthetic(stamp: u64, unit_bytes: u32) -> Self {
        Self(Some(stamp.to_le_bytes().into_iter().cycle().take(unit_bytes as usize).collect()))
    }

    fn merge(self, newer: &Self, first: u32, count: u32, unit_bytes: u32) -> Self {
        self.splice(newer, first, first, count, unit_bytes)
    }

    fn splice(self, source: &Self, from: u32, to: u32, count: u32, unit_bytes: u32) -> Self {
        let mut bytes = vec![0; unit_bytes as usize];
        self.copy_to(&mut bytes);
        let sectors = |first: u32| (first * 512) as usize..((first + count) * 512) as usize;
        match &source.0 {
            Some(source) => bytes[sectors(to)].copy_from_slice(&source[sectors(from)]),
            None => bytes[sectors(to)].fill(0),
        }
        Self::new(&bytes)
    }

    fn checksum(&self, crc: u32) -> u32 {
        self.0.as_ref().map_or(crc, |bytes| crc32c::crc32c_append(crc, bytes))
    }

    const KEEPS_BYTES: bool = true;

    fn from_bytes(bytes: &[u8]) -> Self {
        Self::new(bytes)
    }

    fn copy_to(&self, out: &mut [u8]) {
        match &self.0 {
            Some(bytes) => out.copy_from_slice(bytes),
            None => out.fill(0),
        }
    }
}

/// Out-of-band area of a page without the LPNs: written with the page, never changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Stored)]
pub struct OobRecord {
    /// Position in the program order of the whole drive.
    pub sequence: u64,
    /// CRC-32C over LPNs and content.
    pub checksum: u32,
}

/// State of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockState {
    /// Successful erases.
    pub erase_count: u32,
    /// Pages programmed since the last erase. With in-order programming, also the next page to program.
    pub pages_programmed: u32,
    /// Out of service: bad from the factory, worn out, or retired.
    pub bad: bool,
    /// The last erase was cut short. The block must be erased before any other use.
    pub half_erased: bool,
    /// Cell mode.
    pub mode: CellMode,
}

impl BlockState {
    /// True if the block can be programmed from its first page on.
    pub fn is_erased(&self) -> bool {
        self.pages_programmed == 0 && !self.half_erased
    }
}

/// Storage for the content of programmed pages.
///
/// The chip stores each page once between erases of its block. A medium that fails keeps its first error for
/// [`Medium::failure`] and does nothing more.
pub trait Medium: Clone + State {
    /// Content of a unit.
    type Payload: Payload;

    /// An empty medium for a whole array.
    fn new(geometry: &Geometry) -> Self;

    /// Stores a programmed page. `first` is its first unit.
    fn store(&mut self, ppn: Ppn, first: Ppa, units: &[Unit<Self::Payload>], sequence: u64, cause: Cause);

    /// Content of a unit.
    fn load(&self, ppa: Ppa) -> Self::Payload;

    /// Out-of-band record of a page, if this medium keeps one.
    fn record(&self, ppn: Ppn) -> Option<OobRecord>;

    /// Stores a programmed metadata page.
    fn store_meta(&mut self, ppn: Ppn, bytes: &[u8], cause: Cause);

    /// Returns the metadata kept by [`Medium::store_meta`] since the block's last erase.
    fn load_meta(&self, ppn: Ppn) -> Option<Arc<[u8]>>;

    /// Stores the new state of a block. `erase` is the cause of the erase that led to it, if any.
    /// [`Medium::erase`] comes after this call.
    fn set_block(&mut self, _block: BlockId, _state: BlockState, _erase: Option<Cause>) {}

    /// Discards `count` units from `first` on.
    fn erase(&mut self, first: Ppa, count: u32);

    /// See [`Nand::failure`](crate::Nand::failure).
    fn failure(&self) -> Option<&str> {
        None
    }

    /// See [`Nand::sync`](crate::Nand::sync).
    fn sync(&mut self, _now: SimTime) {}

    /// See [`Nand::earlier_power_on_ns`](crate::Nand::earlier_power_on_ns).
    fn earlier_power_on_ns(&self) -> u64 {
        0
    }

    /// Host memory in bytes per mapping unit and per page, with all of them written.
    fn footprint(geometry: &Geometry) -> (u64, u64);

    /// Host memory in bytes before any write, for media that allocate on write.
    fn empty_footprint(geometry: &Geometry) -> u64 {
        let (per_unit, per_page) = Self::footprint(geometry);
        u64::from(geometry.units()) * per_unit + u64::from(geometry.pages()) * per_page
    }
}

/// A medium without storage, for runs that only count and time.
#[derive(Clone, Copy, Debug, Default, Stored)]
pub struct NoMedium;

impl Medium for NoMedium {
    type Payload = ();

    fn new(_geometry: &Geometry) -> Self {
        Self
    }

    fn store(&mut self, _ppn: Ppn, _first: Ppa, _units: &[Unit<()>], _sequence: u64, _cause: Cause) {}

    fn load(&self, _ppa: Ppa) {}

    fn record(&self, _ppn: Ppn) -> Option<OobRecord> {
        None
    }

    fn store_meta(&mut self, _ppn: Ppn, _bytes: &[u8], _cause: Cause) {}

    fn load_meta(&self, _ppn: Ppn) -> Option<Arc<[u8]>> {
        None
    }

    fn erase(&mut self, _first: Ppa, _count: u32) {}

    fn footprint(_geometry: &Geometry) -> (u64, u64) {
        (0, 0)
    }
}

/// Contents and out-of-band records in memory. Blocks never written take no memory.
#[derive(Clone, Debug, State)]
pub struct TableMedium<P> {
    #[state(skip)]
    units_per_page: u32,
    /// Metadata pages: few compared with data pages.
    meta: BTreeMap<Ppn, Arc<[u8]>>,
    contents: Sparse<P>,
    records: Sparse<OobRecord>,
}

/// Medium with an 8-byte stamp per unit.
pub type StampMedium = TableMedium<u64>;

/// Medium with every byte, in memory.
pub type ByteMedium = TableMedium<UnitBytes>;

impl<P: Payload> Medium for TableMedium<P> {
    type Payload = P;

    fn new(geometry: &Geometry) -> Self {
        Self {
            contents: Sparse::new(geometry.blocks(), geometry.units_per_block(), P::zero()),
            records: Sparse::new(geometry.blocks(), geometry.pages_per_block(), OobRecord::default()),
            meta: BTreeMap::new(),
            units_per_page: geometry.units_per_page(),
        }
    }

    fn store(&mut self, ppn: Ppn, first: Ppa, units: &[Unit<P>], sequence: u64, _cause: Cause) {
        for (slot, unit) in units.iter().enumerate() {
            self.contents.set(first.index() + slot, unit.payload.clone());
        }
        self.records.set(ppn.index(), OobRecord { sequence, checksum: page_checksum(units) });
    }

    fn load(&self, ppa: Ppa) -> P {
        self.contents.get(ppa.index()).clone()
    }

    fn record(&self, ppn: Ppn) -> Option<OobRecord> {
        Some(*self.records.get(ppn.index()))
    }

    fn store_meta(&mut self, ppn: Ppn, bytes: &[u8], _cause: Cause) {
        self.records.set(ppn.index(), OobRecord::default());
        self.meta.insert(ppn, bytes.into());
    }

    fn load_meta(&self, ppn: Ppn) -> Option<Arc<[u8]>> {
        self.meta.get(&ppn).cloned()
    }

    fn erase(&mut self, first: Ppa, count: u32) {
        let (from, until) = (first.get() / self.units_per_page, (first.get() + count) / self.units_per_page);
        while let Some((&ppn, _)) = self.meta.range(Ppn::new(from)..Ppn::new(until)).next() {
            self.meta.remove(&ppn);
        }
        self.contents.clear(first.index(), count as usize);
        self.records.clear(from as usize, (until - from) as usize);
    }

    fn empty_footprint(geometry: &Geometry) -> u64 {
        let per_block = Sparse::<P>::bytes_per_piece() + Sparse::<OobRecord>::bytes_per_piece();
        u64::from(geometry.blocks()) * per_block
    }

    fn footprint(geometry: &Geometry) -> (u64, u64) {
        // Worst case: every unit is full.
        let content = if std::mem::size_of::<P>() == 8 { 8 } else { 32 + u64::from(geometry.unit_bytes()) };
        (content, std::mem::size_of::<OobRecord>() as u64)
    }
}

pub(crate) fn page_checksum<P: Payload>(units: &[Unit<P>]) -> u32 {
    units
        .iter()
        .fold(0, |crc, unit| unit.payload.checksum(crc32c::crc32c_append(crc, &unit.lpn.get().to_le_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_replaces_only_the_named_sectors() {
        let old = UnitBytes::new(&[1; 2048]);
        let newer = UnitBytes::new(&[2; 2048]);
        let mut out = [0; 2048];
        old.merge(&newer, 1, 2, 2048).copy_to(&mut out);
        assert!(out[..512].iter().all(|&b| b == 1));
        assert!(out[512..1536].iter().all(|&b| b == 2));
        assert!(out[1536..].iter().all(|&b| b == 1));
    }

    #[test]
    fn zeros_are_kept_as_nothing() {
        assert_eq!(UnitBytes::new(&[0; 512]), UnitBytes::zero());
        assert_eq!(UnitBytes::new(&[3; 1024]).merge(&UnitBytes::zero(), 0, 2, 1024), UnitBytes::zero());
    }
}
