//! How long the array takes for a page.

use super::{ArrayTiming, Kind};

impl ArrayTiming {
    /// How long the array is at work for an operation of `kind` on `page`: of a read a flash page, of a program what is
    /// programmed at once, a flash page or a whole word line of [`ArrayTiming::parts`]. Where cells are used in another
    /// way, which programs a word line in other steps, this is where its time differs.
    #[inline(always)]
    pub(super) fn array_ns(&self, kind: Kind, page: u32) -> u64 {
        match kind {
            Kind::Read => self.config.read_ns.of(page),
            Kind::Erase => self.config.erase_ns,
            _ => self.config.program_ns.of(page),
        }
    }
}
