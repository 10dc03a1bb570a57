//! Dynamic data clustering (DAC: Chiang, Lee & Chang, "Using data clustering to improve cleaning performance
//! for flash memory", Software: Practice and Experience 1999), as in SepBIT's simulator.
//!
//! 1. Each logical unit has a level. The host's first write sets it to 0.
//! 2. Each further write raises it by one, up to the last level. Each relocation lowers it by one, down to 0.
//! 3. The unit is written to the stream of its new level.
//!
//! The paper also requires a minimum time in a level. Memory: one byte per logical unit.

use strobe_types::{Lpn, State, prefetch_write};

use super::{CopyContext, Placement, StreamId, WriteContext, by_state};

#[derive(Clone, Debug, State)]
pub(super) struct Dac {
    #[state(skip)]
    streams: u8,
    /// Level plus one; 0 if never written by the host.
    #[state(table)]
    levels: Vec<u8>,
}

impl Dac {
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
        // After a power cut the level is unknown (0); the unit then enters the lowest level.
        *level = level.saturating_sub(1).max(1);
        StreamId::new(*level - 1)
    }

    by_state!();
}
