//! Dynamic data clustering (DAC: Chiang, Lee & Chang, "Using data clustering to improve cleaning performance for flash
//! memory", Software: Practice and Experience 1999), as SepBIT's simulator has it.
//!
//! Each logical unit has a level, and each level a stream:
//!
//! 1. The host's first write of a unit gives it level 0.
//! 2. Each further write takes it up by one, to the last level at most.
//! 3. Each relocation takes it down by one, to level 0 at least.
//! 4. A unit goes to the stream of its new level.
//!
//! The paper also asks for some time in a level before a unit is taken up; the simulator does not.
//!
//! Memory: a byte for each logical unit.

use strobe_types::{Lpn, State, prefetch_write};

use super::{CopyContext, Placement, StreamId, WriteContext, by_state};

#[derive(Clone, Debug, State)]
pub(super) struct Dac {
    #[state(skip)]
    streams: u8,
    /// Level of each logical unit plus one; 0 if the host has never written it.
    #[state(table)]
    levels: Vec<u8>,
}

impl Dac {
    /// Levels 0 to `streams` - 1.
    pub(super) fn new(streams: u8, logical_units: u32) -> Self {
        Self { streams, levels: vec![0; logical_units as usize] }
    }
}

impl Placement for Dac {
    fn is_cold(&self, stream: StreamId) -> bool {
        stream.get() == 0
    }

    fn prefetch(&self, lpn: Lpn) {
        prefetch_write(&self.levels, lpn.index());
    }

    fn for_write(&mut self, lpn: Lpn, _: WriteContext, _: u64) -> StreamId {
        let level = &mut self.levels[lpn.index()];
        *level = (*level + 1).min(self.streams);
        StreamId::new(*level - 1)
    }

    fn for_copy(&mut self, lpn: Lpn, _: &CopyContext) -> StreamId {
        let level = &mut self.levels[lpn.index()];
        // After a power cut nothing is known of it.
        *level = level.saturating_sub(1).max(1);
        StreamId::new(*level - 1)
    }

    by_state!();
}
