//! Write frontiers: where the next page of a stream goes.

use std::ops::Range;

use strobe_types::{BlockId, Geometry, Ppn, Stored};

/// One open block of a stream.
#[derive(Clone, Copy, Debug, Stored)]
struct Lane {
    /// The plane this lane prefers its blocks from.
    plane: u32,
    /// Next page to program; equal to `end` when no block is open.
    next: u32,
    end: u32,
}

/// The lanes on the planes of one die.
#[derive(Clone, Copy, Debug, Stored)]
struct Row {
    /// Lanes that have an open block.
    open: u32,
    /// The die of the block that was open last on the first of them.
    die: u32,
}

/// A stream of writes: pages that belong together, striped over one open block per lane.
///
/// Lanes follow the channels first, then the dies, then the planes, so that consecutive pages
/// use as many buses as possible and pages a full round apart meet on the planes of one die.
#[derive(Clone, Debug, Stored)]
pub(crate) struct Frontier {
    /// The lane whose turn it is; its entry in `lanes` is stale meanwhile.
    current: Lane,
    lanes: Vec<Lane>,
    turn: usize,
    /// Lanes from one turn to the next: one, or as many as there are dies where the planes of a die take turns.
    step: usize,
    /// The lanes of each die, where the planes of a die take turns; else all lanes.
    rows: Vec<Row>,
    /// Pages left in all open blocks.
    room: u32,
    /// Pages of the blocks that it opens.
    pages_per_block: u32,
}

impl Frontier {
    /// A stream without an open block, on `planes`. `by_die`: the planes of a die come one behind the other, then
    /// [`Frontier::turn_to`] may choose the next die. That goes with all planes of the drive.
    pub(crate) fn new(geometry: &Geometry, planes: Range<u32>, by_die: bool) -> Self {
        let planes_per_die = geometry.spec().planes_per_die;
        let lane = |plane| Lane { plane, next: 0, end: 0 };
        let lanes: Vec<Lane> =
            geometry.striped_planes().filter(|plane| planes.contains(plane)).map(lane).collect();
        let step = if by_die { geometry.dies() as usize } else { 1 };
        let rows =
            lanes[..step].iter().map(|lane| Row { open: 0, die: lane.plane / planes_per_die }).collect();
        let pages_per_block = geometry.pages_per_block();
        Self { current: lanes[0], lanes, turn: 0, step, rows, room: 0, pages_per_block }
    }

    /// Limits the blocks of this frontier to `pages_per_block` pages.
    pub(crate) fn with_pages(self, pages_per_block: u32) -> Self {
        debug_assert_eq!(self.room, 0, "a block is open");
        Self { pages_per_block, ..self }
    }

    /// True if the first of all lanes is next.
    pub(crate) fn begins_round(&self) -> bool {
        self.turn == 0
    }

    /// True if the first plane of a die is next.
    #[inline]
    pub(crate) fn begins_row(&self) -> bool {
        self.turn < self.step
    }

    /// The die whose turn it is, in the order of lanes.
    #[inline]
    pub(crate) fn die_in_turn(&self) -> u32 {
        (self.turn % self.step) as u32
    }

    /// The die that the next page goes to if the die at place `at` of that order is given the turn; `None` if one of its
    /// planes has no open block and, as `has_block` says, cannot open one of its own.
    #[inline]
    pub(crate) fn die_at(&self, at: u32, has_block: impl Fn(u32) -> bool) -> Option<u32> {
        let at = at as usize;
        let row = self.rows[at];
        if row.open as usize * self.step == self.lanes.len() {
            return Some(row.die);
        }
        let lane = |at| if at == self.turn { &self.current } else { &self.lanes[at] };
        let mut lanes = (at..self.lanes.len()).step_by(self.step);
        let is_open = |lane: &Lane| lane.next < lane.end || has_block(lane.plane);
        lanes.all(|at| is_open(lane(at))).then_some(row.die)
    }

    /// Notes that the lane at `at` has an open block now, on `die`.
    fn note_open(&mut self, at: usize, die: u32) {
        let row = &mut self.rows[at % self.step];
        row.open += 1;
        if at < self.step {
            row.die = die;
        }
    }

    /// Notes that the lane whose turn it is has none any more.
    #[inline]
    fn note_full(&mut self) {
        self.rows[self.turn % self.step].open -= 1;
    }

    /// Gives the turn to the lane to which a page of number `page` belongs where addresses decide.
    #[inline]
    pub(crate) fn turn_to_address(&mut self, page: u32) {
        self.turn_to(page % self.lanes.len() as u32);
    }

    /// Gives the turn to the first plane of the die at place `at`.
    #[inline]
    pub(crate) fn turn_to(&mut self, at: u32) {
        self.lanes[self.turn] = self.current;
        self.turn = at as usize;
        self.current = self.lanes[self.turn];
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

    /// Gives the turn to the next lane that has an open block; false if none has.
    pub(crate) fn turn_to_open_lane(&mut self) -> bool {
        if self.room == 0 {
            return false;
        }
        self.lanes[self.turn] = self.current;
        while self.lanes[self.turn].next == self.lanes[self.turn].end {
            self.turn = (self.turn + 1) % self.lanes.len();
        }
        self.current = self.lanes[self.turn];
        true
    }

    /// Blocks that have to be opened before so many more pages are written.
    #[inline]
    pub(crate) fn blocks_for(&self, pages: u32, per_block: u32) -> u32 {
        if self.step > 1 {
            // Whoever has room gets the turn.
            return pages.saturating_sub(self.room).div_ceil(per_block);
        }
        let is_full = |lane: &Lane| u32::from(lane.next == lane.end);
        let others = self.lanes[self.turn + 1..].iter().chain(&self.lanes[..self.turn]);
        is_full(&self.current) + others.take(pages.saturating_sub(1) as usize).map(is_full).sum::<u32>()
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
        lane.end = lane.next + self.pages_per_block;
        self.note_open(self.turn, geometry.die_of(block).get());
        self.room += self.pages_per_block;
    }

    /// Notes that `pages` of [`Frontier::next_pages`] have been programmed and passes the turn.
    /// True if the last page of the block was among them.
    #[inline(always)]
    pub(crate) fn advance(&mut self, pages: u32) -> bool {
        self.current.next += pages;
        self.room -= pages;
        let full = self.current.next == self.current.end;
        if full {
            self.note_full();
        }
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
        if self.current.next < self.current.end {
            self.note_full();
        }
        self.room -= self.current.end - self.current.next;
        self.current.next = self.current.end;
    }

    /// Gives up the open block of the lane whose turn it is to another frontier. Returns it and its programmed pages.
    pub(crate) fn hand_over(&mut self, geometry: &Geometry) -> Option<(BlockId, u32)> {
        let (next, _) = self.next_pages()?;
        self.abandon();
        Some((geometry.block_of_page(next), geometry.page_in_block(next)))
    }

    /// Goes on with `block`, `pages` pages of which are programmed, on the lane whose turn it is.
    pub(crate) fn take_over(&mut self, (block, pages): (BlockId, u32), geometry: &Geometry) {
        let lane = self.turn as u32;
        let is_taken = self.resume(lane, block, pages, geometry);
        debug_assert!(is_taken, "lane has an open block");
    }

    /// The open blocks with their lanes, and the number of pages programmed in each.
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
        (lane_at.next, lane_at.end) = (first + pages, first + self.pages_per_block);
        if pages < self.pages_per_block {
            self.note_open(lane as usize, geometry.die_of(block).get());
        }
        self.room += self.pages_per_block - pages;
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
