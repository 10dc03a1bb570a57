//! Write frontiers: the next page of each stream.

use std::ops::Range;

use strobe_types::{BlockId, Geometry, Ppn, Stored};

#[derive(Clone, Copy, Debug, Stored)]
struct Lane {
    plane: u32,
    /// Next page to program; equal to `end` when no block is open.
    next: u32,
    end: u32,
}

/// Lanes of one die if the planes of a die take turns; otherwise the only row has all lanes.
#[derive(Clone, Copy, Debug, Stored)]
struct Row {
    open: u32,
    /// Die of the block opened last on the first lane.
    die: u32,
}

/// A stream of writes, striped over one open block per lane.
///
/// Consecutive lanes differ in channel first, then in die, then in plane, so consecutive pages use the most
/// buses. Lanes as far apart as the number of dies are planes of one die.
#[derive(Clone, Debug, Stored)]
pub(crate) struct Frontier {
    /// The lane in turn; its entry in `lanes` is stale.
    current: Lane,
    lanes: Vec<Lane>,
    turn: usize,
    /// Distance to the next lane in turn: 1, or the number of dies if planes of a die take turns.
    step: usize,
    rows: Vec<Row>,
    free: u32,
    pages_per_block: u32,
}

impl Frontier {
    /// With `by_die`, all planes of a die take turns before the next die, and [`Frontier::turn_to`] may
    /// choose that die. `planes` must then be all planes.
    pub(crate) fn new(geometry: &Geometry, planes: Range<u32>, by_die: bool) -> Self {
        let planes_per_die = geometry.spec().planes_per_die;
        let lane = |plane| Lane { plane, next: 0, end: 0 };
        let lanes: Vec<Lane> =
            geometry.striped_planes().filter(|plane| planes.contains(plane)).map(lane).collect();
        let step = if by_die { geometry.dies() as usize } else { 1 };
        let rows =
            lanes[..step].iter().map(|lane| Row { open: 0, die: lane.plane / planes_per_die }).collect();
        let pages_per_block = geometry.pages_per_block();
        Self { current: lanes[0], lanes, turn: 0, step, rows, free: 0, pages_per_block }
    }

    pub(crate) fn with_pages(self, pages_per_block: u32) -> Self {
        debug_assert_eq!(self.free, 0, "a block is open");
        Self { pages_per_block, ..self }
    }

    pub(crate) fn begins_round(&self) -> bool {
        self.turn == 0
    }

    #[inline]
    pub(crate) fn begins_row(&self) -> bool {
        self.turn < self.step
    }

    /// Pages that complete the row in turn; 0 if none of its pages is programmed. Multi-plane programs need rows that
    /// begin on the first plane of a die.
    #[inline]
    pub(crate) fn left_in_row(&self) -> u32 {
        if self.begins_row() || self.step == 1 {
            return 0;
        }
        (self.lanes.len() - self.turn).div_ceil(self.step) as u32
    }

    /// Die in turn, as an index in lane order.
    #[inline]
    pub(crate) fn die_in_turn(&self) -> u32 {
        (self.turn % self.step) as u32
    }

    /// Die of the next page if the die at index `at` gets the turn. `None` if one of its planes has neither
    /// an open block nor, by `has_block`, an erased one.
    #[inline]
    pub(crate) fn die_at(&self, at: u32, has_block: impl Fn(u32) -> bool) -> Option<u32> {
        let at = at as usize;
        let row = self.rows[at];
        // All planes of the die have an open block.
        if row.open as usize * self.step == self.lanes.len() {
            return Some(row.die);
        }
        let lane = |at| if at == self.turn { &self.current } else { &self.lanes[at] };
        let mut lanes = (at..self.lanes.len()).step_by(self.step);
        let is_open = |lane: &Lane| lane.next < lane.end || has_block(lane.plane);
        lanes.all(|at| is_open(lane(at))).then_some(row.die)
    }

    fn mark_open(&mut self, at: usize, die: u32) {
        let row = &mut self.rows[at % self.step];
        row.open += 1;
        if at < self.step {
            row.die = die;
        }
    }

    #[inline]
    fn mark_full(&mut self) {
        self.rows[self.turn % self.step].open -= 1;
    }

    #[inline]
    pub(crate) fn turn_to_address(&mut self, page: u32) {
        self.turn_to(page % self.lanes.len() as u32);
    }

    /// Gives the turn to the first plane of the die at index `at`.
    #[inline]
    pub(crate) fn turn_to(&mut self, at: u32) {
        // `current` is the up-to-date copy of the lane in turn: store it first.
        self.lanes[self.turn] = self.current;
        self.turn = at as usize;
        self.current = self.lanes[self.turn];
    }

    pub(crate) fn lanes_of(geometry: &Geometry) -> u32 {
        geometry.planes()
    }

    pub(crate) fn pages_left(&self) -> u32 {
        self.current.end - self.current.next
    }

    #[inline(always)]
    pub(crate) fn free_pages(&self) -> u32 {
        self.free
    }

    /// Turns to the next lane with an open block; false if none has.
    pub(crate) fn turn_to_open_lane(&mut self) -> bool {
        if self.free == 0 {
            return false;
        }
        self.lanes[self.turn] = self.current;
        while self.lanes[self.turn].next == self.lanes[self.turn].end {
            self.turn = (self.turn + 1) % self.lanes.len();
        }
        self.current = self.lanes[self.turn];
        true
    }

    #[inline]
    pub(crate) fn blocks_for(&self, pages: u32, per_block: u32) -> u32 {
        if self.step > 1 {
            // Dies may get the turn out of order. A row takes its pages from the open blocks of one die, or opens one
            // on each plane.
            let planes = (self.lanes.len() / self.step) as u32;
            let rest = |at: usize| {
                let lane = if at == self.turn { &self.current } else { &self.lanes[at] };
                lane.end - lane.next
            };
            let rows = |die: usize| (die..self.lanes.len()).step_by(self.step).map(rest).min().unwrap_or(0);
            let open = (0..self.step).map(rows).sum::<u32>() * planes + self.left_in_row();
            return pages.saturating_sub(open).div_ceil(per_block * planes) * planes;
        }
        // Strict turns: each of the next `pages` lanes without an open block needs one.
        let is_full = |lane: &Lane| u32::from(lane.next == lane.end);
        let others = self.lanes[self.turn + 1..].iter().chain(&self.lanes[..self.turn]);
        is_full(&self.current) + others.take(pages.saturating_sub(1) as usize).map(is_full).sum::<u32>()
    }

    /// True if the next `pages` pages fit into the open blocks. With `is_by_address`, any lane may be next.
    pub(crate) fn holds(&self, pages: u32, is_by_address: bool) -> bool {
        let lanes = self.lanes.len();
        (0..lanes).all(|ahead| {
            let at = (self.turn + ahead) % lanes;
            let lane = if ahead == 0 { &self.current } else { &self.lanes[at] };
            let ahead = if is_by_address { 0 } else { ahead as u32 };
            lane.end - lane.next >= pages.saturating_sub(ahead).div_ceil(lanes as u32)
        })
    }

    pub(crate) fn full_lanes(&self) -> u32 {
        let full = |lane: &Lane| u32::from(lane.end == lane.next);
        self.lanes.iter().map(full).sum::<u32>() - full(&self.lanes[self.turn]) + full(&self.current)
    }

    pub(crate) fn lanes(&self) -> u32 {
        self.lanes.len() as u32
    }

    /// The lane that prefers its blocks from `plane`.
    pub(crate) fn lane_on(&self, plane: u32) -> Option<u32> {
        (0..).zip(&self.lanes).find(|(_, lane)| lane.plane == plane).map(|(at, _)| at)
    }

    /// Next page of the lane in turn, and the length of its run: the rest of the block with a single lane,
    /// else 1.
    #[inline(always)]
    pub(crate) fn next_pages(&self) -> Option<(Ppn, u32)> {
        let left = self.current.end - self.current.next;
        let run = if self.lanes.len() > 1 { left.min(1) } else { left };
        (left > 0).then_some((Ppn::new(self.current.next), run))
    }

    pub(crate) fn wanted_plane(&self) -> u32 {
        self.current.plane
    }

    /// Block opened last on the lane in turn.
    pub(crate) fn last_block(&self, geometry: &Geometry) -> Option<BlockId> {
        self.current.end.checked_sub(1).map(|page| geometry.block_of_page(Ppn::new(page)))
    }

    pub(crate) fn open(&mut self, block: BlockId, geometry: &Geometry) {
        let lane = &mut self.current;
        debug_assert_eq!(lane.next, lane.end, "lane has an open block");
        lane.next = geometry.page(block, 0).get();
        lane.end = lane.next + self.pages_per_block;
        self.mark_open(self.turn, geometry.die_of(block).get());
        self.free += self.pages_per_block;
    }

    /// Records `pages` as programmed and passes the turn. True if the block is now full.
    #[inline(always)]
    pub(crate) fn advance(&mut self, pages: u32) -> bool {
        self.current.next += pages;
        self.free -= pages;
        let full = self.current.next == self.current.end;
        if full {
            self.mark_full();
        }
        if self.lanes.len() > 1 {
            self.lanes[self.turn] = self.current;
            self.turn += self.step;
            if self.turn >= self.lanes.len() {
                // After the last plane of a die, the first plane of the next die is in turn.
                self.turn = (self.turn + 1) % self.step;
            }
            self.current = self.lanes[self.turn];
        }
        full
    }

    pub(crate) fn abandon(&mut self) {
        if self.current.next < self.current.end {
            self.mark_full();
        }
        self.free -= self.current.end - self.current.next;
        self.current.next = self.current.end;
    }

    /// Gives up the open block of the lane in turn; returns it and its programmed pages.
    pub(crate) fn hand_over(&mut self, geometry: &Geometry) -> Option<(BlockId, u32)> {
        let (next, _) = self.next_pages()?;
        self.abandon();
        Some((geometry.block_of_page(next), geometry.page_in_block(next)))
    }

    pub(crate) fn take_over(&mut self, (block, pages): (BlockId, u32), geometry: &Geometry) {
        let lane = self.turn as u32;
        let is_taken = self.resume(lane, block, pages, geometry);
        debug_assert!(is_taken, "lane has an open block");
    }

    pub(crate) fn open_lanes<'a>(
        &'a self,
        geometry: &'a Geometry,
    ) -> impl Iterator<Item = (u32, BlockId, u32)> + 'a {
        (0..self.lanes.len()).filter_map(move |at| {
            let lane = if at == self.turn { self.current } else { self.lanes[at] };
            let programmed = self.pages_per_block - (lane.end - lane.next);
            (lane.next < lane.end)
                .then(|| (at as u32, geometry.block_of_page(Ppn::new(lane.next)), programmed))
        })
    }

    /// Continues `lane` in `block` after `pages` programmed pages. False if `lane` does not exist or has an
    /// open block.
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
        (lane_at.next, lane_at.end) = (first + pages, first + self.pages_per_block);
        // A block without free pages leaves the lane without an open block.
        if pages < self.pages_per_block {
            self.mark_open(lane as usize, geometry.die_of(block).get());
        }
        self.free += self.pages_per_block - pages;
        true
    }

    pub(crate) fn open_blocks<'a>(
        &'a self,
        geometry: &'a Geometry,
    ) -> impl Iterator<Item = (BlockId, u32)> + 'a {
        self.open_lanes(geometry).map(|(_, block, pages)| (block, pages))
    }
}
