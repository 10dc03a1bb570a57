//! Erased blocks, waiting to be opened.

use std::collections::VecDeque;

use strobe_types::{BlockId, Geometry};

/// Erased blocks by plane, first in, first out.
///
/// Streams ask for a block on the plane whose turn it is, which stripes them over the drive; if
/// that plane has none, the plane with the most gives one, so that a drive never stalls while any
/// block is free.
#[derive(Clone, Debug)]
pub(crate) struct FreePool {
    planes: Vec<VecDeque<BlockId>>,
    count: u32,
}

impl FreePool {
    pub(crate) fn new(geometry: &Geometry, good: impl Fn(BlockId) -> bool) -> Self {
        let mut pool = Self { planes: vec![VecDeque::new(); geometry.planes() as usize], count: 0 };
        for block in (0..geometry.blocks()).map(BlockId::new).filter(|&b| good(b)) {
            pool.put(geometry.plane_of(block), block);
        }
        pool
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn put(&mut self, plane: u32, block: BlockId) {
        self.planes[plane as usize].push_back(block);
        self.count += 1;
    }

    pub(crate) fn take(&mut self, plane: u32) -> Option<BlockId> {
        let block = match self.planes[plane as usize].pop_front() {
            Some(block) => block,
            None => {
                // max_by_key keeps the last of equals: reversed, the lowest plane wins.
                self.planes.iter_mut().rev().max_by_key(|blocks| blocks.len())?.pop_front()?
            }
        };
        self.count -= 1;
        Some(block)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.planes.iter().flatten().copied()
    }
}
