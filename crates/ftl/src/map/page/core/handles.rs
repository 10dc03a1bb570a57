//! Placement handles and their reclaim units.

use strobe_types::{Geometry, State};

use crate::place::{Isolation, StreamId};

/// Placement handles of a drive. Each handle references a reclaim unit: a fixed number of blocks on each
/// plane, filled by the handle's stream. When the reclaim unit is full, the next one follows.
#[derive(Clone, Debug, PartialEq, Eq, State)]
pub struct Handles {
    #[state(skip)]
    isolation: Isolation,
    #[state(skip)]
    unit_pages: u64,
    #[state(skip)]
    groups: u16,
    left: Vec<u64>,
}

impl Handles {
    /// `count` handles in each of `groups` reclaim groups. A reclaim unit has `unit_blocks` blocks on each
    /// plane of its group.
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

    /// Number of reclaim groups.
    pub fn groups(&self) -> u16 {
        self.groups
    }

    /// Isolation of the handles during relocation.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Flash pages of a reclaim unit.
    pub fn unit_pages(&self) -> u64 {
        self.unit_pages
    }

    /// Flash pages left in the reclaim unit of each handle, group by group.
    pub fn pages_left(&self) -> &[u64] {
        &self.left
    }

    #[inline]
    pub(crate) fn programmed(&mut self, stream: StreamId, pages: u64) {
        if let Some(left) = self.left.get_mut(stream.index()) {
            // A run of pages may fill one reclaim unit and begin the next.
            let into = (self.unit_pages - *left + pages) % self.unit_pages;
            *left = self.unit_pages - into;
        }
    }

    pub(crate) fn begin_unit(&mut self, handle: u16) {
        if let Some(left) = self.left.get_mut(usize::from(handle)) {
            *left = self.unit_pages;
        }
    }

    /// Continues after a power cut. `left_of` is the number of free pages in a handle's open blocks. If a
    /// reclaim unit has several blocks per plane, it ends with the open blocks.
    pub(crate) fn resume(&mut self, left_of: impl Fn(StreamId) -> u64) {
        for (handle, left) in (0..).zip(&mut self.left) {
            *left = match left_of(StreamId::new(handle)) {
                0 => self.unit_pages,
                left_of => left_of.min(self.unit_pages),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use strobe_types::GeometrySpec;

    use super::*;

    #[test]
    fn a_full_unit_is_followed_by_a_whole_one() {
        let spec = GeometrySpec {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 2,
            blocks_per_plane: 8,
            pages_per_block: 4,
            page_bytes: 512,
            unit_bytes: 512,
        };
        let geometry = Geometry::new(spec).expect("valid");
        let mut handles = Handles::new([2, 1], Isolation::Initial, 3, &geometry);
        assert_eq!(handles.pages_left(), [24, 24]);
        for (pages, left) in [(1, 23), (22, 1), (1, 24), (24, 24), (23, 1), (5, 20)] {
            handles.programmed(StreamId::new(1), pages);
            assert_eq!(handles.pages_left(), [24, left], "after {pages} more");
        }
    }
}
