//! Transfer of a drive to other flash.

use strobe_nand::{Cause, Nand, When};
use strobe_types::Ppn;

use crate::FtlError;
use crate::gc::VictimPolicy;
use crate::map::page::PageMap;
use crate::map::page::core::Core;
use crate::map::page::core::config::PageMapConfig;
use crate::map::page::reclaim::Reclaimer;
use crate::place::StreamId;

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// Collects until free space reaches `blocks` blocks. No victim may be in progress.
    pub fn reclaim_blocks(&mut self, blocks: u32) -> Result<(), FtlError> {
        let per_block = u64::from(self.core.nand().geometry().units_per_block());
        let groups = self.core.space.groups.count;
        let wanted = u64::from(blocks.div_ceil(groups)) * per_block;
        let usual = self.core.space.min_free_blocks;
        for group in 0..groups {
            self.core.space.group = group;
            while self.core.free_units(group) < wanted {
                // A raised `min_free_blocks` makes stop-the-world collection gain the missing blocks.
                let missing = (wanted - self.core.free_units(group)).div_ceil(per_block);
                self.core.space.min_free_blocks = self.core.erased(group) + missing as u32;
                let collected = self.reclaimer().collect(When::START);
                self.core.space.min_free_blocks = usual;
                collected?;
            }
        }
        Ok(())
    }

    /// Pads each stream until its round over the lanes is complete. Multi-plane operations need the same page
    /// number on all planes.
    pub fn align(&mut self) -> Result<(), FtlError> {
        for stream in self.core.streams.ids() {
            // `cause` serves only to open a block, which the SLC cache never does here.
            let is_of_host =
                !self.core.streams.table.is_slc(stream) && self.core.streams.table.is_of_host(stream);
            let cause = if is_of_host { Cause::Host } else { Cause::Gc };
            while !self.core.streams[stream].begins_round() {
                let first = match self.core.streams[stream].next_pages() {
                    Some((first, _)) => first,
                    // The cache may have no further block.
                    None if self.core.streams.table.is_slc(stream) => break,
                    None => self.open_next(stream, cause)?,
                };
                self.core.pad(When::START, stream, first, Cause::Pad);
            }
        }
        Ok(())
    }

    fn open_next(&mut self, stream: StreamId, cause: Cause) -> Result<Ppn, FtlError> {
        let Self { core, relocation, background } = self;
        let mut reclaim =
            |core: &mut Core<N, V>, now| Reclaimer { core, relocation, background }.collect(now);
        Ok(core.open_block(When::START, stream, cause, &mut reclaim)?.0.0)
    }

    /// Moves the drive to the flash that `make` builds from the present one. `make` keeps the contents and
    /// may change the timing. Watermarks and die allocation follow `config`. No victim may be in progress.
    pub fn moved<M: Nand<Payload = N::Payload>>(
        self,
        config: PageMapConfig,
        make: impl FnOnce(N) -> M,
    ) -> PageMap<M, V> {
        debug_assert!(!self.background.is_at_work(), "a victim is in progress");
        PageMap::of(self.core.moved(config, make))
    }
}
