//! Erased blocks, waiting to be opened.

use std::collections::{BTreeSet, VecDeque};

use strobe_types::{BlockId, Geometry};

/// Which of the erased blocks is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// The one erased first.
    Next,
    /// The one erased least often.
    Young,
    /// The one erased most often.
    Worn,
}

/// Erased blocks by plane.
///
/// Streams ask for a block on the plane whose turn it is, which stripes them over the drive; if
/// that plane has none, the plane with the most gives one, so that a drive never stalls while any
/// block is free.
#[derive(Clone, Debug)]
pub(crate) struct FreePool {
    planes: Vec<Plane>,
    count: u32,
    /// Blocks put in so far: of equally worn blocks the first one in counts as the younger.
    arrivals: u64,
}

/// The erased blocks of one plane.
#[derive(Clone, Debug)]
enum Plane {
    /// In order of arrival, with their erase counts. Looking for a worn one is a scan, which only
    /// static wear levelling over first-in-first-out allocation asks for.
    Queue(VecDeque<(BlockId, u32)>),
    /// By erase count, then arrival.
    ByWear(BTreeSet<(u32, u64, BlockId)>),
}

impl Plane {
    fn len(&self) -> usize {
        match self {
            Plane::Queue(blocks) => blocks.len(),
            Plane::ByWear(blocks) => blocks.len(),
        }
    }

    fn take(&mut self, want: Want) -> Option<BlockId> {
        match (self, want) {
            (Plane::ByWear(blocks), Want::Worn) => blocks.pop_last().map(|(_, _, block)| block),
            (Plane::ByWear(blocks), _) => blocks.pop_first().map(|(_, _, block)| block),
            (Plane::Queue(blocks), Want::Worn) => {
                // max_by_key keeps the last of equals: reversed, the first in.
                let at = (0..blocks.len()).rev().max_by_key(|&at| blocks[at].1)?;
                blocks.remove(at).map(|(block, _)| block)
            }
            (Plane::Queue(blocks), _) => blocks.pop_front().map(|(block, _)| block),
        }
    }
}

impl FreePool {
    /// No block yet. `by_wear` if young blocks will be wanted.
    pub(crate) fn new(geometry: &Geometry, by_wear: bool) -> Self {
        let plane = if by_wear { Plane::ByWear(BTreeSet::new()) } else { Plane::Queue(VecDeque::new()) };
        Self { planes: vec![plane; geometry.planes() as usize], count: 0, arrivals: 0 }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn put(&mut self, plane: u32, block: BlockId, erase_count: u32) {
        match &mut self.planes[plane as usize] {
            Plane::Queue(blocks) => blocks.push_back((block, erase_count)),
            Plane::ByWear(blocks) => {
                blocks.insert((erase_count, self.arrivals, block));
            }
        }
        self.arrivals += 1;
        self.count += 1;
    }

    pub(crate) fn take(&mut self, plane: u32, want: Want) -> Option<BlockId> {
        let block = match self.planes[plane as usize].take(want) {
            Some(block) => block,
            None => {
                // max_by_key keeps the last of equals: reversed, the lowest plane wins.
                self.planes.iter_mut().rev().max_by_key(|plane| plane.len())?.take(want)?
            }
        };
        self.count -= 1;
        Some(block)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.planes.iter().flat_map(|plane| -> Box<dyn Iterator<Item = BlockId> + '_> {
            match plane {
                Plane::Queue(blocks) => Box::new(blocks.iter().map(|&(block, _)| block)),
                Plane::ByWear(blocks) => Box::new(blocks.iter().map(|&(_, _, block)| block)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strobe_types::GeometrySpec;

    fn pool(by_wear: bool) -> FreePool {
        let geometry = Geometry::new(GeometrySpec {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 2,
            blocks_per_plane: 4,
            pages_per_block: 1,
            page_bytes: 512,
            unit_bytes: 512,
        })
        .expect("valid");
        let mut pool = FreePool::new(&geometry, by_wear);
        for (block, erases) in [(0, 5), (1, 2), (2, 9), (3, 2)] {
            pool.put(0, BlockId::new(block), erases);
        }
        pool
    }

    fn drain(mut pool: FreePool, want: Want) -> Vec<u32> {
        std::iter::from_fn(|| pool.take(1, want)).map(BlockId::get).collect()
    }

    #[test]
    fn blocks_come_in_the_order_wanted_from_whichever_plane_has_them() {
        assert_eq!(drain(pool(false), Want::Next), [0, 1, 2, 3]);
        assert_eq!(drain(pool(true), Want::Young), [1, 3, 0, 2]);
        assert_eq!(drain(pool(true), Want::Worn), [2, 0, 3, 1]);
        assert_eq!(drain(pool(false), Want::Worn), [2, 0, 1, 3]);
    }
}
