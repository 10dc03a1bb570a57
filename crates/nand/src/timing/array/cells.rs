//! Array time of a page by cell mode.

use strobe_types::{CellMode, Place};

use super::{ArrayTiming, Kind, TimingConfig};

/// Flag in the page number of an operation on a block in SLC mode. It is set at issue, because the block may
/// be erased for another use later. Pages that differ in this flag never share array time.
const SLC: u32 = 1 << 31;

#[inline(always)]
pub(super) fn page_at(place: &Place) -> u32 {
    match place.mode {
        CellMode::Normal => place.page,
        CellMode::Slc => place.page | SLC,
    }
}

impl TimingConfig {
    pub(super) fn shortest_ns(&self) -> u64 {
        let normal = self.read_ns.shortest().min(self.program_ns.shortest()).min(self.erase_ns);
        self.slc.map_or(normal, |slc| normal.min(slc.read_ns).min(slc.program_ns).min(slc.erase_ns))
    }
}

impl ArrayTiming {
    /// `page` as encoded by [`page_at`]. In SLC mode each flash page is its own word line, so a program takes
    /// `parts` page program times.
    #[inline(always)]
    pub(super) fn array_ns(&self, kind: Kind, page: u32) -> u64 {
        if page & SLC != 0 {
            return self.slc_ns(kind);
        }
        match kind {
            Kind::Read => self.config.read_ns.of(page),
            Kind::Erase => self.config.erase_ns,
            _ => self.config.program_ns.of(page),
        }
    }

    #[cold]
    fn slc_ns(&self, kind: Kind) -> u64 {
        let Some(slc) = self.config.slc else { return 0 };
        match kind {
            Kind::Read => slc.read_ns,
            Kind::Erase => slc.erase_ns,
            _ => slc.program_ns * u64::from(self.parts),
        }
    }
}
