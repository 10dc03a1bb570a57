//! Work of each stream, on drives with a placement.

use strobe_types::{BlockId, Geometry, State, counters};

use crate::place::StreamId;

/// Bins of ages: the last takes all that are older.
pub const AGE_BINS: usize = 32;

counters! {
    /// Work of one stream.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct StreamCounts {
        /// Mapping units that the host wrote or copied to it.
        pub host_units: u64,
        /// Flash pages programmed in it, for whatever cause.
        pub pages: u64,
        /// Blocks of it that were emptied.
        pub victims: u64,
        /// Units that were valid in them.
        pub units_left: u64,
        /// These blocks by age: units that the host has written since the block was full. Bin 0 is of age 0, bin b of ages
        /// from 2^(b - 1) to below 2^b.
        pub ages: [u64; AGE_BINS],
        /// Units of the host among those written to it that were for a reclaim group without room.
        pub redirected: u64,
    }
}

/// Counters of all streams, and when each block was full.
#[derive(Clone, Debug, State)]
pub(crate) struct StreamLog {
    counts: Vec<StreamCounts>,
    /// Host units written when each block was full; 0 if nobody knows.
    #[state(table)]
    closed: Vec<u64>,
}

impl StreamLog {
    pub(crate) fn new(streams: usize, geometry: &Geometry) -> Self {
        Self { counts: vec![StreamCounts::default(); streams], closed: vec![0; geometry.blocks() as usize] }
    }

    /// Counters of each stream, by number.
    pub(crate) fn counts(&self) -> &[StreamCounts] {
        &self.counts
    }

    /// Notes that `pages` pages of `stream` have been programmed, with `host_units` units of the host.
    #[inline]
    pub(crate) fn programmed(&mut self, stream: StreamId, pages: u64, host_units: u64) {
        let counts = &mut self.counts[stream.index()];
        counts.pages += pages;
        counts.host_units += host_units;
    }

    /// Notes that `stream` takes `units` units that the host has sent to another reclaim group.
    pub(crate) fn redirected(&mut self, stream: StreamId, units: u32) {
        self.counts[stream.index()].redirected += u64::from(units);
    }

    /// Notes that `block` is full at `tick`.
    pub(crate) fn closed(&mut self, block: BlockId, tick: u64) {
        self.closed[block.index()] = tick;
    }

    /// Notes that `block`, which `stream` filled, is emptied of its `valid` units at `tick`.
    pub(crate) fn emptied(&mut self, block: BlockId, stream: StreamId, valid: u32, tick: u64) {
        let counts = &mut self.counts[stream.index()];
        counts.victims += 1;
        counts.units_left += u64::from(valid);
        if let Some(age) = tick.checked_sub(self.closed[block.index()]).filter(|&age| age < tick) {
            let bin = (u64::BITS - age.leading_zeros()) as usize;
            counts.ages[bin.min(AGE_BINS - 1)] += 1;
        }
    }

    /// Counts on from `before`, the same drive's numbers before a power cut.
    pub(crate) fn continue_from(&mut self, before: &Self) {
        for (counts, before) in self.counts.iter_mut().zip(&before.counts) {
            *counts = before.and(counts);
        }
    }
}
