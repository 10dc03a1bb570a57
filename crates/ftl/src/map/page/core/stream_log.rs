//! Counters of each stream, on drives with a placement.

use strobe_types::{BlockId, Geometry, State, counters};

use crate::place::StreamId;

/// Number of age bins. The last bin includes all older blocks.
pub const AGE_BINS: usize = 32;

counters! {
    /// Counters of one stream.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct StreamCounts {
        /// Mapping units that the host wrote or copied to the stream.
        pub host_units: u64,
        /// Flash pages programmed in the stream, for any cause.
        pub pages: u64,
        /// Blocks of the stream that were emptied.
        pub victims: u64,
        /// Units still valid in these blocks when they were emptied.
        pub units_left: u64,
        /// Histogram of the emptied blocks by age: host units written since the block became full. Bin 0 counts age
        /// 0, bin b ages from 2^(b - 1) to below 2^b.
        pub ages: [u64; AGE_BINS],
        /// Host units written to this stream because their reclaim group had no free space.
        pub redirected: u64,
    }
}

#[derive(Clone, Debug, State)]
pub(crate) struct StreamLog {
    counts: Vec<StreamCounts>,
    /// Tick when each block became full; 0 if unknown.
    #[state(table)]
    closed: Vec<u64>,
}

impl StreamLog {
    pub(crate) fn new(streams: usize, geometry: &Geometry) -> Self {
        Self { counts: vec![StreamCounts::default(); streams], closed: vec![0; geometry.blocks() as usize] }
    }

    pub(crate) fn counts(&self) -> &[StreamCounts] {
        &self.counts
    }

    #[inline]
    pub(crate) fn programmed(&mut self, stream: StreamId, pages: u64, host_units: u64) {
        let counts = &mut self.counts[stream.index()];
        counts.pages += pages;
        counts.host_units += host_units;
    }

    pub(crate) fn redirected(&mut self, stream: StreamId, units: u32) {
        self.counts[stream.index()].redirected += u64::from(units);
    }

    pub(crate) fn closed(&mut self, block: BlockId, tick: u64) {
        self.closed[block.index()] = tick;
    }

    pub(crate) fn emptied(&mut self, block: BlockId, stream: StreamId, valid: u32, tick: u64) {
        let counts = &mut self.counts[stream.index()];
        counts.victims += 1;
        counts.units_left += u64::from(valid);
        if let Some(age) = tick.checked_sub(self.closed[block.index()]).filter(|&age| age < tick) {
            let bin = (u64::BITS - age.leading_zeros()) as usize;
            counts.ages[bin.min(AGE_BINS - 1)] += 1;
        }
    }

    pub(crate) fn continue_from(&mut self, before: &Self) {
        for (counts, before) in self.counts.iter_mut().zip(&before.counts) {
            *counts = before.and(counts);
        }
    }
}
