//! Transfer of a drive to other flash.

use strobe_nand::{Cause, Nand, When};

use super::background::Background;
use super::{PageMap, PageMapConfig, Relocation};
use crate::FtlError;
use crate::gc::VictimPolicy;

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// Collects until there is room for so many blocks: erased ones, and what is left of open ones. Nothing may be under way
    /// in the background.
    pub fn gain_room(&mut self, blocks: u32) -> Result<(), FtlError> {
        let per_block = u64::from(self.nand.geometry().units_per_block());
        let wanted = u64::from(blocks) * per_block;
        let usual = self.min_free_blocks;
        while self.room() < wanted {
            let missing = (wanted - self.room()).div_ceil(per_block);
            self.min_free_blocks = self.blocks.free.count() + missing as u32;
            let collected = self.collect(When::START);
            self.min_free_blocks = usual;
            collected?;
        }
        Ok(())
    }

    /// Fills the rows that have been begun with pages of padding, so that the open blocks of all planes are at the same
    /// page: pages with other numbers never share the time of an array.
    pub fn align(&mut self) -> Result<(), FtlError> {
        for stream in self.streams.ids() {
            // The SLC cache has always been aligned under the cause of collection.
            let is_of_host = stream != self.streams.table.slc && self.streams.table.is_of_host(stream);
            let cause = if is_of_host { Cause::Host } else { Cause::Gc };
            while !self.streams[stream].begins_round() {
                let first = match self.streams[stream].next_pages() {
                    Some((first, _)) => first,
                    // There need not be another one for it.
                    None if stream == self.streams.table.slc => break,
                    None => self.open_block(When::START, stream, cause)?.0.0,
                };
                self.pad(When::START, stream, first);
            }
        }
        Ok(())
    }

    /// This drive on the flash that `make` gives for its own, which holds the same, with or without times. What `config` says
    /// of when and where is done from now on; how data is kept is that of this drive. What goes on in the background begins anew, so nothing may be on its way.
    pub fn moved<M: Nand<Payload = N::Payload>>(
        self,
        config: PageMapConfig,
        make: impl FnOnce(N) -> M,
    ) -> PageMap<M, V> {
        debug_assert!(!self.background.is_at_work(), "a victim is on its way");
        let nand = make(self.nand);
        let geometry = nand.geometry();
        let is_free_first = config.is_free_first(nand.is_timed(), geometry);
        let streams = self.streams.moved(geometry, is_free_first, nand.slc_pages());
        let background = Background::new(
            config.marks.filter(|_| nand.is_timed()),
            config.batch(geometry.spec().planes_per_die),
            self.streams.table.copies.len(),
            geometry,
        );
        PageMap {
            min_free_blocks: config.trigger(geometry),
            config,
            map: self.map,
            store: self.store,
            blocks: self.blocks,
            streams,
            placement: self.placement,
            policy: self.policy,
            rng: self.rng,
            leveler: self.leveler,
            tick: self.tick,
            sequence: self.sequence,
            stats: self.stats,
            background,
            patrol: 0,
            slc: self.slc,
            is_free_first,
            end_of_life: self.end_of_life,
            relocation: Relocation::default(),
            whens: Vec::new(),
            nand,
        }
    }
}
