//! Separation by a fading write count (FADaC: Kremer & Brinkmann, "FADaC: a self-adapting data classifier for
//! flash memory", SYSTOR 2019), as in SepBIT's simulator.
//!
//! 1. Each logical unit has a count. A host write adds 1; a relocation subtracts 1, down to 0.
//! 2. A count up to 1 selects stream 0, up to 10 stream 1, up to 100 stream 2, and so on. The last stream
//!    takes the rest.
//!
//! In the simulator, the limits are multiples of a fading average of the request length. For one-unit
//! requests, this average is 1 within rounding errors, which decide whether a count of 1 exceeds it.
//!
//! Memory: 4 bytes per logical unit.

use strobe_types::{Lpn, State, prefetch_write};

use super::{CopyContext, Placement, StreamId, WriteContext, by_state};

#[derive(Clone, Debug, State)]
pub(super) struct Fadac {
    #[state(skip)]
    streams: u8,
    #[state(table)]
    counts: Vec<u32>,
}

impl Fadac {
    pub(super) fn new(streams: u8, logical_units: u32) -> Self {
        Self { streams, counts: vec![0; logical_units as usize] }
    }

    fn stream_of(&self, count: u32) -> StreamId {
        let powers = std::iter::successors(Some(1_u64), |power| Some(10 * power));
        let smaller = powers.take(self.streams.into()).take_while(|&power| u64::from(count) > power);
        StreamId::new((smaller.count() as u8).min(self.streams - 1))
    }
}

impl Placement for Fadac {
    fn is_cold(&self, stream: StreamId) -> bool {
        stream.get() == 0
    }

    fn prefetch(&self, lpn: Lpn) {
        prefetch_write(&self.counts, lpn.index());
    }

    fn for_write(&mut self, lpn: Lpn, _: WriteContext, _: u64) -> StreamId {
        let count = &mut self.counts[lpn.index()];
        *count = count.saturating_add(1);
        let count = *count;
        self.stream_of(count)
    }

    fn for_copy(&mut self, lpn: Lpn, _: &CopyContext) -> StreamId {
        let count = &mut self.counts[lpn.index()];
        *count = count.saturating_sub(1);
        let count = *count;
        self.stream_of(count)
    }

    by_state!();
}
