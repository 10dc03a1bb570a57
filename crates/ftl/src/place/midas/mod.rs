//! A chain of groups that adapts to the writes (MiDAS: Oh et al., FAST 2024), as in its authors' simulator.
//!
//! Time is counted in units written by the host.
//!
//! 1. A unit written by the host enters group 0 if hot, else group 1 (`filter.rs`).
//! 2. A unit relocated from group i enters group i + 1; units of the last group stay there.
//! 3. The victim is the oldest block of the first group above its size, else the best block of the last group
//!    by age and fill. That is the victim policy `midas`; other policies choose freely.
//! 4. Update intervals are sampled over host writes of four times the flash capacity, the window
//!    (`intervals.rs`). A search finds the number and sizes of groups with the least write amplification
//!    (`layout.rs`). They are applied if the forecast is at most the value measured over the last drive
//!    write. The oldest blocks beyond a size move to the last group.
//! 5. Once every group was collected, valid shares of victims are measured. Every 0.3 windows, the first
//!    group whose share exceeds the forecast by 0.1 is merged with all later ones. After 25 collections
//!    without a host write, the group of their last victim becomes the last one.
//! 6. A merged last group is a chain of up to four streams without sizes. The placement starts with such a
//!    chain.
//!
//! Step 4 and the check of step 5 run when a block is opened. Example: groups of 4, 19 and 25 blocks before
//! the last. Group 1 has 20 full blocks: its oldest is collected, and its valid units move to group 2.
//!
//! Streams are groups; a removed group keeps its open block. Sizes are in grains: one block per plane, or
//! more on a large drive, so that a search tries at most 2,048 sizes per group.
//!
//! Memory: 5 bytes per logical unit, 17 per block, 8 per sampled unit (4,096 units, or one in 100) and per
//! step of the window (up to 32,768, or 16 times that after mispredictions).

mod adapt;
mod filter;
mod intervals;
mod layout;

use strobe_types::{BlockId, Geometry, Lpn, State, Stored, prefetch_write};

use self::filter::Filter;
use self::intervals::{Intervals, Scale};
use super::{CopyContext, Placement, StreamId, VictimGroup, WriteContext, by_state};

const CHAIN: u8 = 4;
const IN_ROW: u32 = 25;
/// Block of unmapped units.
const NOWHERE: BlockId = BlockId::new(u32::MAX);
/// Pseudo-blocks of units that are on their way to streams 0 and 1.
const AT_HAND: [BlockId; 2] = [BlockId::new(u32::MAX - 1), BlockId::new(u32::MAX - 2)];

#[derive(Clone, Copy, Debug, Default, Stored, PartialEq, Eq)]
enum Stage {
    #[default]
    Erased,
    Open,
    Full,
    Victim,
}

#[derive(Clone, Copy, Debug, Default, Stored)]
struct Block {
    stage: Stage,
    closed: u64,
    valid: u32,
}

/// Sum of valid shares and number of victims, by group.
type Measured = Vec<(f64, u32)>;

#[derive(Clone, Debug, State)]
pub(super) struct Midas {
    #[state(skip)]
    scale: Scale,
    #[state(skip)]
    streams: u8,
    clock: u64,
    filter: Filter,
    #[state(table)]
    place: Vec<BlockId>,
    #[state(table)]
    blocks: Vec<Block>,
    /// Group of each block.
    #[state(table)]
    labels: Vec<u8>,
    /// Full blocks in each group.
    #[state(table)]
    counts: Vec<u32>,
    last: u8,
    is_chain: bool,
    /// Most full blocks of each group before the last.
    sizes: Vec<u32>,
    /// Forecast valid share of victims, by group.
    promised: Vec<f64>,
    /// Groups not collected since the layout was applied, one bit each.
    uncollected: u32,
    /// Start of the measurement of valid shares, if it runs.
    since: Option<u64>,
    measured: Measured,
    in_row: u32,
    intervals: Intervals,
    /// True if the layout has failed: a group in its lower half was merged.
    has_failed: bool,
    /// Failed layouts in a row.
    failures: u32,
    /// Start of the present period, and units relocated in it.
    period: (u64, u64),
    /// Write amplification in the previous period.
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

    pub(super) fn bytes(logical_units: u32, geometry: &Geometry) -> u64 {
        let scale = Scale::new(logical_units, geometry);
        5 * u64::from(logical_units) + 17 * u64::from(geometry.blocks()) + Intervals::bytes(&scale)
    }

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
        // Sampling begins after writes of twice the logical capacity.
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
        // After a power cut, a block may have been erased without being collected.
        self.leave(block);
        self.blocks[block.index()].stage = Stage::Open;
        self.labels[block.index()] = stream.get();
        self.check_windows();
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
        // A block that is not full may have a higher label.
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
        // Collections in a row without a host write gain too little: groups are merged.
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
