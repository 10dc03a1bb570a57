//! Events that the placement is told of.

use strobe_nand::{Nand, Unit};
use strobe_types::{BlockId, Lpn, Ppa};

use super::PageMap;
use crate::gc::VictimPolicy;

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// Tells the placement that `units`, which may be translation pages, lie in the block of `first`.
    #[inline]
    pub(super) fn note_placed(&mut self, units: &[Unit<N::Payload>], first: Ppa) {
        if let Some(placement) = &mut self.placement {
            let is_data = |lpn: &Lpn| lpn.get() < self.config.logical_units;
            let block = self.nand.geometry().block_of(first);
            placement.on_placed(&mut units.iter().map(|unit| unit.lpn).filter(is_data), block);
        }
    }

    /// Tells the placement that `lpn` holds nothing any more.
    #[inline]
    pub(super) fn note_unmapped(&mut self, lpn: Lpn) {
        if let Some(placement) = &mut self.placement {
            placement.on_unmapped(lpn);
        }
    }

    /// Tells the placement that `block` is full.
    pub(super) fn note_closed(&mut self, block: BlockId) {
        let closed = self.copy_context(block);
        if let Some(placement) = &mut self.placement {
            placement.on_closed(&closed);
        }
    }
}
