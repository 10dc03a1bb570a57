//! The state of a page map as bytes, and back.

use strobe_nand::Nand;
use strobe_types::{State, StateError, StateReader, StateWriter, load_part, save_part};

use crate::gc::VictimPolicy;
use crate::map::page::PageMap;
use crate::map::page::core::Core;
use crate::map::page::reclaim::relocate::Relocation;

impl<N: Nand + State, V: VictimPolicy> State for PageMap<N, V> {
    fn save_state(&self, out: &mut StateWriter<'_>) {
        let Self { core, relocation, background } = self;
        // What is between two calls: nothing that anybody looks at.
        let Relocation { victims: _, units: _, runs: _, chunk: _ } = relocation;
        core.save_state(out);
        background.save_state(out);
    }

    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.core.load_state(from)?;
        self.background.load_state(from)
    }
}

impl<N: Nand + State, V: VictimPolicy> State for Core<N, V> {
    fn save_state(&self, out: &mut StateWriter<'_>) {
        let Self { config: _, nand, map, store, blocks, streams, policies, space, .. } = self;
        let Self { tick, sequence, stats, slc, handles, end_of_life, whens, .. } = self;
        nand.save_state(out);
        map.save_state(out);
        store.save_state(out);
        blocks.save_state(out);
        streams.save_state(out);
        policies.save_state(out);
        space.save_state(out);
        (*tick, *sequence).save_state(out);
        stats.save_state(out);
        save_part(slc.as_deref(), out);
        end_of_life.save_state(out);
        whens.save_state(out);
        if let Some(handles) = handles {
            handles.save_state(out);
        }
    }

    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.nand.load_state(from)?;
        self.map.load_state(from)?;
        self.store.load_state(from)?;
        self.blocks.load_state(from)?;
        self.streams.load_state(from)?;
        self.policies.load_state(from)?;
        self.space.load_state(from)?;
        (self.tick, self.sequence) = strobe_types::Stored::restored(from)?;
        self.stats.load_state(from)?;
        load_part(self.slc.as_deref_mut(), from)?;
        self.end_of_life.load_state(from)?;
        self.whens.load_state(from)?;
        if let Some(handles) = &mut self.handles {
            handles.load_state(from)?;
        }
        Ok(())
    }
}
