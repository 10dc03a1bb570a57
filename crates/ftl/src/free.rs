use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use strobe_types::{BlockId, Geometry, Stored};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// The block erased first.
    Next,
    FewestErases,
    Worn,
    /// The block with the fewest erases above this count, else with the most.
    Above(u32),
}

/// Erased blocks of each plane. If a plane has none, a request takes a block of the plane with the most in
/// the same reclaim group.
#[derive(Clone, Debug, Stored)]
pub(crate) struct FreePool {
    planes: Vec<Plane>,
    count: u32,
    /// Blocks added so far. Of equally worn blocks, the one added first counts as less worn.
    arrivals: u64,
}

#[derive(Clone, Debug, Stored)]
enum Plane {
    /// In order of arrival, with erase counts. Choice by wear is a scan, used only by static levelling.
    Queue(VecDeque<(BlockId, u32)>),
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
        match self {
            Plane::ByWear(blocks) => match want {
                Want::FewestErases => blocks.pop_first(),
                Want::Worn => blocks.pop_last(),
                Want::Above(erases) => {
                    let beyond = (erases.saturating_add(1), 0, BlockId::new(0));
                    let next = blocks.range(beyond..).next().or(blocks.last()).copied()?;
                    blocks.take(&next)
                }
                Want::Next => {
                    let next = *blocks.iter().min_by_key(|&&(_, arrival, _)| arrival)?;
                    blocks.take(&next)
                }
            }
            .map(|(_, _, block)| block),
            Plane::Queue(blocks) => {
                let at = match want {
                    Want::Next => 0,
                    Want::FewestErases => (0..blocks.len()).min_by_key(|&at| blocks[at].1)?,
                    // max_by_key keeps the last of equals: in reverse, the first added.
                    Want::Worn => (0..blocks.len()).rev().max_by_key(|&at| blocks[at].1)?,
                    Want::Above(erases) => {
                        let above = (0..blocks.len()).filter(|&at| blocks[at].1 > erases);
                        let least = above.min_by_key(|&at| blocks[at].1);
                        least.or_else(|| (0..blocks.len()).rev().max_by_key(|&at| blocks[at].1))?
                    }
                };
                blocks.remove(at).map(|(block, _)| block)
            }
        }
    }
}

impl FreePool {
    pub(crate) fn new(geometry: &Geometry, by_wear: bool) -> Self {
        let plane = if by_wear { Plane::ByWear(BTreeSet::new()) } else { Plane::Queue(VecDeque::new()) };
        Self { planes: vec![plane; geometry.planes() as usize], count: 0, arrivals: 0 }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    #[inline]
    pub(crate) fn has(&self, plane: u32) -> bool {
        self.planes[plane as usize].len() > 0
    }

    pub(crate) fn count_on(&self, plane: u32) -> u32 {
        self.planes[plane as usize].len() as u32
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
        self.take_within(plane, 0..self.planes.len() as u32, want)
    }

    /// Takes a block of `plane`, else of the plane with the most among `planes`.
    pub(crate) fn take_within(&mut self, plane: u32, planes: Range<u32>, want: Want) -> Option<BlockId> {
        let block = match self.planes[plane as usize].take(want) {
            Some(block) => block,
            None => {
                // max_by_key keeps the last of equals: in reverse, the lowest plane.
                self.planes[planes.start as usize..planes.end as usize]
                    .iter_mut()
                    .rev()
                    .max_by_key(|plane| plane.len())?
                    .take(want)?
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
    use strobe_types::{GeometrySpec, Prng};

    fn geometry(planes_per_die: u32) -> Geometry {
        Geometry::new(GeometrySpec {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die,
            blocks_per_plane: 4,
            pages_per_block: 1,
            page_bytes: 512,
            unit_bytes: 512,
        })
        .expect("valid")
    }

    fn pool(by_wear: bool) -> FreePool {
        let mut pool = FreePool::new(&geometry(2), by_wear);
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
        assert_eq!(drain(pool(true), Want::FewestErases), [1, 3, 0, 2]);
        assert_eq!(drain(pool(true), Want::Worn), [2, 0, 3, 1]);
        assert_eq!(drain(pool(false), Want::Worn), [2, 0, 1, 3]);
    }

    struct Model {
        by_wear: bool,
        planes: u32,
        blocks: Vec<(u32, u32, u32)>,
    }

    impl Model {
        fn take(&mut self, plane: u32, want: Want) -> Option<u32> {
            let on = |plane: u32| self.blocks.iter().filter(move |&&(of, ..)| of == plane);
            let mut from = plane;
            if on(plane).next().is_none() {
                // The lowest plane of those with the most blocks.
                let most = (0..self.planes).map(|plane| on(plane).count()).max()?;
                from = (0..self.planes).find(|&plane| on(plane).count() == most)?;
            }
            let counts = || on(from).map(|&(_, _, erases)| erases);
            let wanted = match want {
                Want::Next => counts().next(),
                Want::FewestErases => counts().min(),
                Want::Worn => counts().max(),
                Want::Above(erases) => counts().filter(|&count| count > erases).min().or(counts().max()),
            }?;
            let mut equals = on(from).filter(|&&(_, _, erases)| erases == wanted);
            // Of equally worn blocks, the last added is more worn if blocks are ordered by wear.
            let is_worn = match want {
                Want::Worn => true,
                Want::Above(erases) => wanted <= erases,
                _ => false,
            };
            let &(_, block, _) = match (is_worn, self.by_wear) {
                (true, true) => equals.next_back()?,
                _ => equals.next()?,
            };
            self.blocks.retain(|&(_, other, _)| other != block);
            Some(block)
        }
    }

    #[test]
    fn any_pool_agrees_with_a_naive_list() {
        // How often two wants led to different blocks. Without differences, the test would miss a wrong
        // choice.
        let mut distinct = [0; 4];
        for seed in 0..200 {
            let mut rng = Prng::new(seed);
            let (planes, by_wear) = (1 + rng.below(4), rng.below(2) == 0);
            let mut pool = FreePool::new(&geometry(planes), by_wear);
            let mut model = Model { by_wear, planes, blocks: Vec::new() };
            for block in 0..400 {
                let plane = rng.below(planes);
                if rng.below(100) < if block / 50 % 2 == 0 { 65 } else { 35 } {
                    let erases = rng.below(12);
                    pool.put(plane, BlockId::new(block), erases);
                    model.blocks.push((plane, block, erases));
                } else {
                    let wishes = [Want::Next, Want::FewestErases, Want::Worn, Want::Above(rng.below(12))];
                    let others = wishes.map(|want| pool.clone().take(plane, want));
                    for (at, (left, right)) in [(0, 1), (1, 2), (2, 3), (3, 1)].into_iter().enumerate() {
                        distinct[at] += u32::from(others[left] != others[right]);
                    }
                    let want = wishes[rng.below(4) as usize];
                    let taken = pool.take(plane, want).map(BlockId::get);
                    assert_eq!(taken, model.take(plane, want), "seed {seed}: {want:?} of plane {plane}");
                }
                assert_eq!(pool.count() as usize, model.blocks.len());
                let mut left: Vec<_> = pool.iter().map(BlockId::get).collect();
                left.sort_unstable();
                let mut listed: Vec<_> = model.blocks.iter().map(|&(_, block, _)| block).collect();
                listed.sort_unstable();
                assert_eq!(left, listed);
            }
        }
        assert!(distinct.iter().all(|&count| count > 10_000), "{distinct:?}");
    }
}
