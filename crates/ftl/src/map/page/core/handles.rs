//! Placement handles: their reclaim units, and the programs that each has caused.

use strobe_types::{Geometry, State, counters};

use crate::place::{Isolation, StreamId};

counters! {
    /// Work for one placement handle.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct HandleCounts {
        /// Mapping units that the host wrote or copied.
        pub host_units: u64,
        /// Flash pages programmed, for whatever cause.
        pub pages: u64,
    }
}

/// Placement handles of a drive, as its host sees them.
///
/// Each handle references a reclaim unit: so many blocks on each plane, which its stream fills. A full unit is followed
/// by the next one.
#[derive(Clone, Debug, PartialEq, Eq, State)]
pub struct Handles {
    #[state(skip)]
    isolation: Isolation,
    /// Flash pages of a reclaim unit.
    #[state(skip)]
    unit_pages: u64,
    /// Flash pages left in the unit of each handle.
    left: Vec<u64>,
    /// Counters of each handle, then of the data that shares blocks.
    counts: Vec<HandleCounts>,
}

impl Handles {
    /// `count` handles with an empty unit each, of `unit_blocks` blocks on each plane.
    pub(crate) fn new(count: u8, isolation: Isolation, unit_blocks: u32, geometry: &Geometry) -> Self {
        let block_pages = u64::from(geometry.planes()) * u64::from(geometry.pages_per_block());
        let unit_pages = u64::from(unit_blocks.max(1)) * block_pages;
        Self {
            isolation,
            unit_pages,
            left: vec![unit_pages; count.into()],
            counts: vec![HandleCounts::default(); usize::from(count) + 1],
        }
    }

    /// Isolation of the handles when units are relocated.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Flash pages of a reclaim unit.
    pub fn unit_pages(&self) -> u64 {
        self.unit_pages
    }

    /// Flash pages that are left in the reclaim unit of each handle.
    pub fn pages_left(&self) -> &[u64] {
        &self.left
    }

    /// Counters of each handle; the last ones are those of the data that no handle has to itself: relocated data of
    /// initially isolated handles, wear levelling, translation pages.
    pub fn counts(&self) -> &[HandleCounts] {
        &self.counts
    }

    /// Notes that `pages` pages of `stream` have been programmed, with `host_units` units of the host.
    #[inline]
    pub(crate) fn programmed(&mut self, stream: StreamId, pages: u64, host_units: u64) {
        let (count, at) = (self.left.len(), stream.index());
        let owner = match at {
            _ if at < count => at,
            _ if self.isolation == Isolation::Persistent && at < 2 * count => at - count,
            _ => count,
        };
        self.counts[owner].host_units += host_units;
        self.counts[owner].pages += pages;
        if let Some(left) = self.left.get_mut(at) {
            // A run of pages may end one unit and begin the next.
            let into = (self.unit_pages - *left + pages) % self.unit_pages;
            *left = self.unit_pages - into;
        }
    }

    /// Gives `handle` an empty unit.
    pub(crate) fn begin_unit(&mut self, handle: u16) {
        if let Some(left) = self.left.get_mut(usize::from(handle)) {
            *left = self.unit_pages;
        }
    }

    /// Goes on after a power cut, `room` pages being left in the open blocks of each handle. A unit of several blocks on a
    /// plane ends with those that are open.
    pub(crate) fn resume(&mut self, room: impl Fn(StreamId) -> u64) {
        for (handle, left) in (0..).zip(&mut self.left) {
            *left = match room(StreamId::new(handle)) {
                0 => self.unit_pages,
                room => room.min(self.unit_pages),
            };
        }
    }

    /// Counts on from `before`, the same drive's numbers before a power cut.
    pub(crate) fn continue_from(&mut self, before: &Self) {
        for (counts, before) in self.counts.iter_mut().zip(&before.counts) {
            *counts = before.and(counts);
        }
    }
}
