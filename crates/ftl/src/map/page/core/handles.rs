//! Placement handles and their reclaim units.

use strobe_types::{Geometry, State};

use crate::place::{Isolation, StreamId};

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
    /// Reclaim groups, in each of which each handle has a unit.
    #[state(skip)]
    groups: u16,
    /// Flash pages left in the unit of each handle, one group after the other.
    left: Vec<u64>,
}

impl Handles {
    /// `count` handles with an empty unit in each of `groups` reclaim groups, of `unit_blocks` blocks on each plane of it.
    pub(crate) fn new(
        [count, groups]: [u8; 2],
        isolation: Isolation,
        unit_blocks: u32,
        geometry: &Geometry,
    ) -> Self {
        let planes = geometry.planes() / u32::from(groups);
        let block_pages = u64::from(planes) * u64::from(geometry.pages_per_block());
        let unit_pages = u64::from(unit_blocks.max(1)) * block_pages;
        let units = usize::from(count) * usize::from(groups);
        Self { isolation, unit_pages, groups: groups.into(), left: vec![unit_pages; units] }
    }

    /// Reclaim groups.
    pub fn groups(&self) -> u16 {
        self.groups
    }

    /// Isolation of the handles when units are relocated.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Flash pages of a reclaim unit.
    pub fn unit_pages(&self) -> u64 {
        self.unit_pages
    }

    /// Flash pages that are left in the reclaim unit of each handle, one group after the other.
    pub fn pages_left(&self) -> &[u64] {
        &self.left
    }

    /// Notes that `pages` pages of `stream` have been programmed.
    #[inline]
    pub(crate) fn programmed(&mut self, stream: StreamId, pages: u64) {
        if let Some(left) = self.left.get_mut(stream.index()) {
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
}
