//! Write frontiers: where the next page of a stream goes.

use strobe_types::{BlockId, Geometry, Ppn};

/// One open block of a stream.
#[derive(Clone, Copy, Debug)]
struct Lane {
    /// The plane this lane prefers its blocks from.
    plane: u32,
    /// Next page to program; equal to `end` when no block is open.
    next: u32,
    end: u32,
}

/// A stream of writes: pages that belong together, striped over one open block per lane.
///
/// Lanes follow the channels first, then the dies, then the planes, so that consecutive pages
/// use as many buses as possible and pages a full round apart meet on the planes of one die.
#[derive(Clone, Debug)]
pub(crate) struct Frontier {
    /// The lane whose turn it is; its entry in `lanes` is stale meanwhile.
    current: Lane,
    lanes: Vec<Lane>,
    turn: usize,
    /// Lanes from one turn to the next: one, or as many as there are dies where the planes of a die take turns.
    step: usize,
    /// Pages left in all open blocks.
    room: u32,
}

impl Frontier {
    /// A stream without an open block. `by_die`: the planes of a die come one behind the other, then
    /// [`Frontier::turn_to`] may choose the next die.
    pub(crate) fn new(geometry: &Geometry, by_die: bool) -> Self {
        let lanes: Vec<Lane> =
            geometry.striped_planes().map(|plane| Lane { plane, next: 0, end: 0 }).collect();
        let step = if by_die { geometry.dies() as usize } else { 1 };
        Self { current: lanes[0], lanes, turn: 0, step, room: 0 }
    }

    /// Whether the turn is with the first plane of a die.
    #[inline]
    pub(crate) fn begins_row(&self) -> bool {
        self.turn < self.step
    }

    /// The die whose turn it is, in the order of lanes.
    #[inline]
    pub(crate) fn die_in_turn(&self) -> u32 {
        (self.turn % self.step) as u32
    }

    /// The die at place `at` of that order.
    #[inline]
    pub(crate) fn die_at(&self, at: u32, geometry: &Geometry) -> u32 {
        self.lanes[at as usize].plane / geometry.spec().planes_per_die
    }

    /// Gives the turn to the first plane of the die at place `at`.
    #[inline]
    pub(crate) fn turn_to(&mut self, at: u32) {
        self.lanes[self.turn] = self.current;
        self.turn = at as usize;
        self.current = self.lanes[self.turn];
    }

    /// Gives the turn to the next lane whose block has room. False if there is none.
    pub(crate) fn turn_to_room(&mut self) -> bool {
        let lanes = self.lanes.len();
        let mut others = (1..lanes).map(|behind| (self.turn + behind) % lanes);
        let found = others.find(|&at| self.lanes[at].next < self.lanes[at].end);
        if let Some(at) = found {
            self.turn_to(at as u32);
        }
        found.is_some()
    }

    /// Open blocks a stream may have on `geometry`.
    pub(crate) fn lanes_of(geometry: &Geometry) -> u32 {
        geometry.planes()
    }

    /// Pages that can be programmed before the lane whose turn it is needs another block.
    pub(crate) fn pages_left(&self) -> u32 {
        self.current.end - self.current.next
    }

    /// Pages that are left in open blocks, on all lanes together.
    #[inline(always)]
    pub(crate) fn room_pages(&self) -> u32 {
        self.room
    }

    /// Lanes that have no open block.
    pub(crate) fn lanes_without_room(&self) -> u32 {
        let full = |lane: &Lane| u32::from(lane.end == lane.next);
        self.lanes.iter().map(full).sum::<u32>() - full(&self.lanes[self.turn]) + full(&self.current)
    }

    /// Open blocks this stream may have.
    pub(crate) fn lanes(&self) -> u32 {
        self.lanes.len() as u32
    }

    /// The lane that prefers its blocks from `plane`.
    pub(crate) fn lane_on(&self, plane: u32) -> Option<u32> {
        (0..).zip(&self.lanes).find(|(_, lane)| lane.plane == plane).map(|(at, _)| at)
    }

    /// The page to program next and how many may follow it in one go, if the lane whose turn it
    /// is has an open block: all that are left of the block if there is only one lane, else one.
    #[inline(always)]
    pub(crate) fn next_pages(&self) -> Option<(Ppn, u32)> {
        let left = self.current.end - self.current.next;
        let run = if self.lanes.len() > 1 { left.min(1) } else { left };
        (left > 0).then_some((Ppn::new(self.current.next), run))
    }

    /// The plane on which the lane whose turn it is wants its next block.
    pub(crate) fn wanted_plane(&self) -> u32 {
        self.current.plane
    }

    /// The block that was open last on the lane whose turn it is.
    pub(crate) fn last_block(&self, geometry: &Geometry) -> Option<BlockId> {
        self.current.end.checked_sub(1).map(|page| geometry.block_of_page(Ppn::new(page)))
    }

    /// Opens `block` on the lane whose turn it is.
    pub(crate) fn open(&mut self, block: BlockId, geometry: &Geometry) {
        let lane = &mut self.current;
        debug_assert_eq!(lane.next, lane.end, "lane has an open block");
        lane.next = geometry.page(block, 0).get();
        lane.end = lane.next + geometry.pages_per_block();
        self.room += geometry.pages_per_block();
    }

    /// Notes that `pages` of [`Frontier::next_pages`] have been programmed and passes the turn.
    /// True if the last page of the block was among them.
    #[inline(always)]
    pub(crate) fn advance(&mut self, pages: u32) -> bool {
        self.current.next += pages;
        self.room -= pages;
        let full = self.current.next == self.current.end;
        if self.lanes.len() > 1 {
            self.lanes[self.turn] = self.current;
            self.turn += self.step;
            if self.turn >= self.lanes.len() {
                // The next die of the row before, or the first lane.
                self.turn = (self.turn + 1) % self.step;
            }
            self.current = self.lanes[self.turn];
        }
        full
    }

    /// Gives up the open block of the lane whose turn it is (its last program failed).
    pub(crate) fn abandon(&mut self) {
        self.room -= self.current.end - self.current.next;
        self.current.next = self.current.end;
    }

    /// The open blocks with their lanes, and the number of pages programmed in each.
    pub(crate) fn open_lanes<'a>(
        &'a self,
        geometry: &'a Geometry,
    ) -> impl Iterator<Item = (u32, BlockId, u32)> + 'a {
        (0..self.lanes.len()).filter_map(move |at| {
            let lane = if at == self.turn { self.current } else { self.lanes[at] };
            let programmed = geometry.pages_per_block() - (lane.end - lane.next);
            (lane.next < lane.end)
                .then(|| (at as u32, geometry.block_of_page(Ppn::new(lane.next)), programmed))
        })
    }

    /// Goes on with `block`, `pages` pages of which are programmed, on `lane`. False if there is no such
    /// lane or it has an open block.
    pub(crate) fn resume(&mut self, lane: u32, block: BlockId, pages: u32, geometry: &Geometry) -> bool {
        let turn = self.turn;
        let lane_at = match lane as usize {
            at if at == turn => &mut self.current,
            at => match self.lanes.get_mut(at) {
                Some(lane) => lane,
                None => return false,
            },
        };
        if lane_at.next < lane_at.end {
            return false;
        }
        let first = geometry.page(block, 0).get();
        (lane_at.next, lane_at.end) = (first + pages, first + geometry.pages_per_block());
        self.room += geometry.pages_per_block() - pages;
        true
    }

    /// The open blocks, with the number of pages programmed in each.
    pub(crate) fn open_blocks<'a>(
        &'a self,
        geometry: &'a Geometry,
    ) -> impl Iterator<Item = (BlockId, u32)> + 'a {
        self.open_lanes(geometry).map(|(_, block, pages)| (block, pages))
    }
}
