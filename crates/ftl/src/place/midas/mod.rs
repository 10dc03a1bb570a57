//! A chain of groups whose number and sizes follow the writes (MiDAS: Oh et al., FAST 2024), as in its authors' simulator.
//!
//! Time is counted in units that the host has written. W is the age of hot blocks at collection.
//!
//! 1. A unit that the host writes goes to group 0 if it is hot, else to group 1 (`filter.rs`).
//! 2. A unit relocated from group i goes to group i + 1, from the last group to the last.
//! 3. Groups have sizes. The victim is the oldest block of the first group that exceeds its size, otherwise the best of the
//!    last one by age and fill. That is the rule of the victim policy `midas`; any other is free to choose.
//! 4. Update intervals are sampled over a window of four drives (`intervals.rs`). Then the number and the sizes of the groups
//!    with the least write amplification are looked for (`layout.rs`). They are taken if they promise no more than was
//!    measured over the last drive that was written. The oldest blocks beyond a size go to the last group.
//! 5. When all groups have been collected from, valid shares of victims are measured. Every 0.3 windows the first group whose
//!    share is 0.1 above what was promised becomes the last, with all behind it. 25 collections without a write of the host
//!    between make the group of their last victim the last one.
//! 6. A last group that was merged is a chain of up to four streams, without sizes. At first there is such a group alone.
//!
//! Step 4 and the check of step 5 wait for a block that is opened. Example: groups of 4, 19 and 25 blocks before the last. Group 1 has 20
//! full blocks, so its oldest is collected, and what is valid in it goes to group 2.
//!
//! Streams are groups: one that exists no more keeps its open block. Sizes are in grains, of a block on each plane or more
//! on a large drive, so that a search looks at 2,048 sizes of a group at most. The published search is a second thread.
//!
//! Memory: 5 bytes for each logical unit, 17 for each block; 8 for each of the sampled units, of which there are 4,096 or
//! one in 100, and for each step of the window, of which there are up to 32,768, or 16 times as many after mispredictions.

mod adapt;
mod filter;
mod intervals;
mod layout;

use strobe_types::{BlockId, Geometry, Lpn, State, Stored, prefetch_write};

use self::filter::Filter;
use self::intervals::{Intervals, Scale};
use super::{CopyContext, Placement, StreamId, VictimGroup, WriteContext, by_state};

/// Streams of a last group that was merged.
const CHAIN: u8 = 4;
/// Collections without a write of the host between that end a layout.
const IN_ROW: u32 = 25;
/// Place of a unit that lies nowhere, or will be on its stream soon.
const NOWHERE: BlockId = BlockId::new(u32::MAX);
const AT_HAND: [BlockId; 2] = [BlockId::new(u32::MAX - 1), BlockId::new(u32::MAX - 2)];

/// State of a block.
#[derive(Clone, Copy, Debug, Default, Stored, PartialEq, Eq)]
enum Stage {
    #[default]
    Erased,
    Open,
    Full,
    Victim,
}

/// A block, and when it was full; its valid units as a victim.
#[derive(Clone, Copy, Debug, Default, Stored)]
struct Block {
    stage: Stage,
    closed: u64,
    valid: u32,
}

/// Sums of valid shares of the victims of a group, and their number.
type Measured = Vec<(f64, u32)>;

#[derive(Clone, Debug, State)]
pub(super) struct Midas {
    #[state(skip)]
    scale: Scale,
    #[state(skip)]
    streams: u8,
    /// Units that the host has written.
    clock: u64,
    filter: Filter,
    #[state(table)]
    place: Vec<BlockId>,
    #[state(table)]
    blocks: Vec<Block>,
    /// Group of each block, and full blocks of each group.
    #[state(table)]
    labels: Vec<u8>,
    #[state(table)]
    counts: Vec<u32>,
    /// The last group; true if it is a chain.
    last: u8,
    is_chain: bool,
    /// Full blocks that each group before the last may have.
    sizes: Vec<u32>,
    /// Valid shares that were promised.
    promised: Vec<f64>,
    /// Groups that have not been collected from since the layout was taken, a bit each.
    uncollected: u32,
    /// Since when valid shares are measured, if they are.
    since: Option<u64>,
    measured: Measured,
    in_row: u32,
    intervals: Intervals,
    /// True if a group of the lower half was merged since the last layout; layouts in a row that this happened to.
    has_failed: bool,
    failures: u32,
    /// Begin of the period over which write amplification is measured, units relocated in it, and that of the last one.
    period: (u64, u64),
    waf: f64,
}

impl Midas {
    pub(super) fn new(streams: u8, logical_units: u32, geometry: &Geometry) -> Self {
        let scale = Scale::new(logical_units, geometry);
        let blocks = geometry.blocks() as usize;
        Self {
            scale,
            streams,
            clock: 0,
            filter: Filter::new(logical_units),
            place: vec![NOWHERE; logical_units as usize],
            blocks: vec![Block::default(); blocks],
            labels: vec![0; blocks],
            counts: vec![0; streams.into()],
            last: 1,
            is_chain: true,
            sizes: Vec::new(),
            promised: Vec::new(),
            uncollected: 0,
            since: None,
            measured: vec![(0.0, 0); streams.into()],
            in_row: 0,
            intervals: Intervals::new(&scale, 1),
            has_failed: false,
            failures: 0,
            period: (0, 0),
            waf: f64::MAX,
        }
    }

    /// Bytes of host memory.
    pub(super) fn bytes(logical_units: u32, geometry: &Geometry) -> u64 {
        let scale = Scale::new(logical_units, geometry);
        5 * u64::from(logical_units) + 17 * u64::from(geometry.blocks()) + Intervals::bytes(&scale)
    }

    /// The last label: behind the last group, those of its chain.
    fn top(&self) -> u8 {
        if self.is_chain { (self.last + CHAIN - 1).min(self.streams - 1) } else { self.last }
    }
}

impl Placement for Midas {
    fn is_cold(&self, stream: StreamId) -> bool {
        stream.get() >= self.top()
    }

    fn prefetch(&self, lpn: Lpn) {
        prefetch_write(&self.place, lpn.index());
        prefetch_write(self.filter.counters(), lpn.index());
    }

    fn for_write(&mut self, lpn: Lpn, _: WriteContext, _: u64) -> StreamId {
        self.clock += 1;
        self.in_row = 0;
        let place = self.place[lpn.index()];
        let mut is_hot = false;
        if place != NOWHERE {
            let (label, age) = match self.blocks.get(place.index()) {
                Some(block) if block.stage == Stage::Open => (self.labels[place.index()], 0),
                Some(block) => (self.labels[place.index()], self.clock - block.closed),
                None => (u8::from(place == AT_HAND[1]), 0),
            };
            let (scale, hot_blocks) = (self.scale, self.counts[0]);
            is_hot = self.filter.overwrite(lpn, label, age, || scale.grains(hot_blocks.into()));
        }
        if self.clock > 2 * u64::from(self.scale.logical) {
            self.intervals.write(lpn);
        }
        let stream = u8::from(!is_hot);
        self.place[lpn.index()] = AT_HAND[usize::from(stream)];
        StreamId::new(stream)
    }

    fn for_copy(&mut self, lpn: Lpn, from: &CopyContext) -> StreamId {
        self.period.1 += 1;
        let label = self.labels[from.block.index()];
        let (scale, hot_blocks) = (self.scale, self.counts[0]);
        self.filter.relocate(lpn, label, || scale.grains(hot_blocks.into()));
        StreamId::new((label + 1).min(self.top()))
    }

    fn on_placed(&mut self, lpns: &mut dyn Iterator<Item = Lpn>, block: BlockId) {
        for lpn in lpns {
            self.place[lpn.index()] = block;
        }
    }

    fn on_unmapped(&mut self, lpn: Lpn) {
        self.place[lpn.index()] = NOWHERE;
        self.intervals.unmapped(lpn);
    }

    fn on_opened(&mut self, block: BlockId, stream: StreamId, _: u64) {
        // After a power cut a block may have been erased that was not collected.
        self.leave(block);
        self.blocks[block.index()].stage = Stage::Open;
        self.labels[block.index()] = stream.get();
        self.look_around();
    }

    fn on_closed(&mut self, closed: &CopyContext) {
        let at = closed.block.index();
        self.leave(closed.block);
        self.labels[at] = self.labels[at].min(self.top());
        self.counts[usize::from(self.labels[at])] += 1;
        self.blocks[at] = Block { stage: Stage::Full, closed: self.clock, valid: 0 };
    }

    fn on_victim(&mut self, from: &CopyContext, valid: &mut dyn Iterator<Item = Lpn>) {
        self.leave(from.block);
        let at = from.block.index();
        // One that is not full may be of no group.
        self.labels[at] = self.labels[at].min(self.top());
        let block = &mut self.blocks[at];
        (block.stage, block.valid) = (Stage::Victim, valid.count() as u32);
    }

    fn on_collected(&mut self, from: &CopyContext) {
        self.leave(from.block);
        let (label, block) = (self.labels[from.block.index()], &mut self.blocks[from.block.index()]);
        block.stage = Stage::Erased;
        let share = f64::from(block.valid) / self.scale.block as f64;
        if label == 0 {
            self.filter.collected(self.clock - block.closed, share);
        }
        let (sum, victims) = &mut self.measured[usize::from(label)];
        (*sum, *victims) = (*sum + share, *victims + 1);
        self.need(!(1 << label));
        self.in_row += 1;
        if self.in_row >= IN_ROW && self.last > 1 {
            self.in_row = 0;
            self.merge(if label < self.last { label.max(1) } else { self.last - 1 });
        }
    }

    fn victim_group(&self) -> Option<VictimGroup<'_>> {
        let is_over = |group: &u8| self.counts[usize::from(*group)] > self.sizes[usize::from(*group)];
        let over = if self.last > 1 { (0..self.last).find(is_over) } else { None };
        let last = if self.last > 1 { self.last } else { 0 };
        Some(VictimGroup { labels: &self.labels, group: over.unwrap_or(last), is_last: over.is_none(), last })
    }

    by_state!();
}
