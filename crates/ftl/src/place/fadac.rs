//! Separation by a fading count of writes (FADaC: Kremer & Brinkmann, "FADaC: a self-adapting data classifier for flash
//! memory", SYSTOR 2019), as SepBIT's simulator has it.
//!
//! 1. Each logical unit has a count: a host write adds 1, a relocation takes 1 off, to 0 at least.
//! 2. A count of at most a goes to stream 0, one of at most 10 a to stream 1, one of at most 100 a to stream 2, and so
//!    on, the last stream taking the rest.
//!
//! In the simulator a is a fading average of the length of requests. Here each unit is a request, so a is 1. There it is
//! 1 within rounding for requests of one unit, and rounding decides whether a count of 1 is above it.
//!
//! Memory: 4 bytes for each logical unit.

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
    /// Streams for powers of ten.
    pub(super) fn new(streams: u8, logical_units: u32) -> Self {
        Self { streams, counts: vec![0; logical_units as usize] }
    }

    /// The stream of units with this count.
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
