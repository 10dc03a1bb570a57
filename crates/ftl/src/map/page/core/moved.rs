//! Transfer of the core to other flash.

use strobe_nand::Nand;

use crate::gc::{DieAllocation, VictimPolicy};
use crate::map::page::core::Core;
use crate::map::page::core::config::PageMapConfig;
use crate::map::page::core::space::FreeSpace;

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    pub(crate) fn moved<M: Nand<Payload = N::Payload>>(
        self,
        config: PageMapConfig,
        make: impl FnOnce(N) -> M,
    ) -> Core<M, V> {
        let nand = make(self.nand);
        let geometry = nand.geometry();
        // The order of lanes depends on the die allocation, so an open block may change its lane.
        let is_free_first = config.is_free_first(nand.is_timed(), geometry);
        let mut streams = self.streams.moved(geometry, is_free_first, nand.slc_pages());
        streams.is_by_address = config.die_allocation == DieAllocation::ByAddress;
        let watermarks = config.watermarks.filter(|_| nand.is_timed());
        Core {
            space: FreeSpace::new(config.trigger(geometry), watermarks, self.space.groups),
            config,
            map: self.map,
            store: self.store,
            blocks: self.blocks,
            streams,
            policies: self.policies,
            tick: self.tick,
            sequence: self.sequence,
            stats: self.stats,
            slc: self.slc,
            end_of_life: self.end_of_life,
            whens: Vec::new(),
            nand,
        }
    }
}
