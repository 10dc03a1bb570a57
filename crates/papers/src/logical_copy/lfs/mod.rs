//! A log-structured file system, reduced to what the drive sees of it (Kang, Han & Shin, §2.1): updates
//! go to the end of the log; when it runs short of segments, the live blocks of the oldest ones are
//! moved, a checkpoint is written, and what it does not refer to is deallocated. Beside it two that do not clean: one
//! fills the holes of old segments instead (threaded logging), one writes in place.

use std::collections::VecDeque;

use serde::Serialize;
use strobe_ssd::{Command, CommandError, Hint, HostQueue, Pacing, Range, Simulated};
use strobe_types::{Lba, Prng, SimTime, counters};

/// Sectors of a file system block of 4 KiB.
const BLOCK_SECTORS: u32 = 8;
/// Blocks of an update by the application: 16 KiB, as in the paper's ageing.
pub(super) const UPDATE_BLOCKS: u32 = 4;
/// Most blocks of a read or write: 128 KiB.
const REQUEST_BLOCKS: u32 = 32;
/// Source ranges of a copy command: what QEMU's NVMe drive takes.
const COPY_RANGES: usize = 128;
/// Ranges of a deallocation: what one block of an ATA TRIM holds.
const TRIM_RANGES: usize = 64;
/// Requests outstanding: what native command queueing allows.
const QUEUE_DEPTH: u32 = 32;
/// The segment that holds the checkpoints, one behind the other.
const CHECKPOINTS: u32 = 0;

/// The two ends of the log: new blocks do not mix with those that cleaning has moved.
const NEW: usize = 0;
const MOVED: usize = 1;

/// What the file system lies on.
pub(super) trait Disk {
    /// Issues a command as soon as `queue` has a place for it.
    fn send(&mut self, queue: &mut HostQueue, command: &Command<'_>) -> Result<(), CommandError>;

    /// Waits until all commands that `queue` has issued are complete.
    fn finish(&mut self, _queue: &mut HostQueue) -> Result<(), CommandError> {
        Ok(())
    }
}

impl Disk for Box<dyn Simulated> {
    fn send(&mut self, queue: &mut HostQueue, command: &Command<'_>) -> Result<(), CommandError> {
        queue.send(&mut **self, None, command)
    }

    fn finish(&mut self, queue: &mut HostQueue) -> Result<(), CommandError> {
        queue.finish(&mut **self)
    }
}

/// How live blocks are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cleaning {
    /// By reading and writing them.
    ReadWrite,
    /// By copy commands.
    Copy,
    /// Not at all: out of segments, it writes to dead blocks of old ones, those with the most of them first.
    Threaded,
    /// Not at all: every block has its place from the start, as in a file system without a log.
    InPlace,
}

/// What the drive is told of blocks that no checkpoint refers to any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Told {
    /// Each of them, at the next checkpoint.
    EveryBlock,
    /// Only segments that have been cleaned.
    CleanedSegments,
}

/// Shape and habits of a file system.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) segments: u32,
    pub(super) segment_blocks: u32,
    pub(super) checkpoint_blocks: u32,
    /// Segments cleaned before each checkpoint.
    pub(super) batch: u32,
    pub(super) cleaning: Cleaning,
    pub(super) told: Told,
    /// Blocks written from one checkpoint to the next where no cleaning asks for one.
    pub(super) checkpoint_every: u32,
    /// Whether every update is flushed.
    pub(super) sync: bool,
}

impl Layout {
    /// Blocks that files and dead blocks share: all but those for checkpoints, those that cleaning needs
    /// in hand, and half of the two open segments.
    pub(super) fn log_blocks(&self) -> u32 {
        self.segments.saturating_sub(1 + self.batch + 1) * self.segment_blocks
    }
}

/// Where a block lies: its number on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(u32);

/// An end of the log.
#[derive(Clone, Copy, Debug)]
struct Head {
    segment: u32,
    /// Blocks of it that are written.
    used: u32,
}

/// The file system.
pub(super) struct Lfs<D> {
    disk: D,
    layout: Layout,
    queue: HostQueue,
    rng: Prng,
    /// By file block; `None` before it is first written.
    places: Vec<Option<Place>>,
    /// By place: the file block that lies there, if it is live.
    owners: Vec<Option<u32>>,
    heads: [Head; 2],
    free: VecDeque<u32>,
    /// Full segments, the one that was filled first at the front.
    full: VecDeque<u32>,
    checkpoints: u32,
    /// Places given up since the last checkpoint, which still refers to them.
    dead: Vec<Place>,
    /// Dead places of the segment that is filled where there is no cleaning.
    holes: VecDeque<Place>,
    /// Blocks written since the last checkpoint.
    since_checkpoint: u32,
    pub(super) counts: Counts,
}

counters! {
    /// What has been done, in blocks.
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct Counts {
        /// Written by the application.
        pub(super) written: u64,
        /// Of segments cleaned.
        pub(super) cleaned: u64,
        /// Live among them.
        pub(super) moved: u64,
    }
}

impl<D: Disk> Lfs<D> {
    /// A file system with `file_blocks` blocks of files, all of them written once in order.
    pub(super) fn new(disk: D, layout: Layout, file_blocks: u32, seed: u64) -> Result<Self, CommandError> {
        let file_blocks = file_blocks / UPDATE_BLOCKS * UPDATE_BLOCKS;
        assert!(file_blocks < layout.log_blocks(), "files of {file_blocks} blocks leave no room to clean");
        let mut free: VecDeque<u32> = (CHECKPOINTS + 1..layout.segments).collect();
        let heads = [NEW, MOVED].map(|_| Head { segment: free.pop_front().unwrap_or(0), used: 0 });
        let mut lfs = Self {
            disk,
            layout,
            queue: queue(SimTime::ZERO),
            rng: Prng::derive(seed, "lfs"),
            places: vec![None; file_blocks as usize],
            owners: vec![None; (layout.segments * layout.segment_blocks) as usize],
            heads,
            free,
            full: VecDeque::new(),
            checkpoints: 0,
            dead: Vec::new(),
            holes: VecDeque::new(),
            since_checkpoint: 0,
            counts: Counts::default(),
        };
        for extent in 0..lfs.extents() {
            lfs.update(extent)?;
        }
        Ok(lfs)
    }

    pub(super) fn disk(&self) -> &D {
        &self.disk
    }

    /// When everything so far is done.
    pub(super) fn now(&self) -> SimTime {
        self.queue.finished()
    }

    /// Extents of 16 KiB in all files.
    fn extents(&self) -> u32 {
        self.places.len() as u32 / UPDATE_BLOCKS
    }

    /// Rewrites random extents until the next one would need cleaning, then writes a checkpoint.
    pub(super) fn age(&mut self) -> Result<(), CommandError> {
        match self.layout.cleaning {
            // As many as a log has room for.
            Cleaning::InPlace => {
                let blocks = self.layout.log_blocks() - self.places.len() as u32;
                for _ in 0..blocks / UPDATE_BLOCKS {
                    self.update_at_random()?;
                }
            }
            _ => {
                while !self.is_out() {
                    self.update_at_random()?;
                }
            }
        }
        self.checkpoint(&[])
    }

    /// Rewrites a random extent, cleaning as needed.
    pub(super) fn update_at_random(&mut self) -> Result<(), CommandError> {
        let extents = self.extents();
        let extent = self.rng.below(extents);
        self.update(extent)
    }

    /// Whether the next block needs a segment and there is none but those that cleaning has in hand.
    fn is_out(&self) -> bool {
        self.heads[NEW].used == self.layout.segment_blocks && self.free.len() <= self.reserve()
    }

    /// Rewrites an extent, cleaning as needed.
    fn update(&mut self, extent: u32) -> Result<(), CommandError> {
        let first = extent * UPDATE_BLOCKS;
        self.counts.written += u64::from(UPDATE_BLOCKS);
        self.since_checkpoint += UPDATE_BLOCKS;
        match self.layout.cleaning {
            Cleaning::InPlace => self.write(Place(self.layout.segment_blocks + first), UPDATE_BLOCKS)?,
            Cleaning::Threaded if self.is_out() => self.fill_holes(first)?,
            _ => {
                while self.is_out() {
                    self.clean()?;
                }
                let blocks: Vec<u32> = (first..first + UPDATE_BLOCKS).collect();
                let to = self.append(NEW, &blocks);
                self.write(to, UPDATE_BLOCKS)?;
            }
        }
        if matches!(self.layout.cleaning, Cleaning::InPlace | Cleaning::Threaded)
            && self.since_checkpoint >= self.layout.checkpoint_every
        {
            self.checkpoint(&[])?;
        } else if self.layout.sync {
            self.wait()?;
            self.command(&Command::Flush)?;
            self.wait()?;
        }
        Ok(())
    }

    /// Writes the extent that begins with block `first` to dead places.
    fn fill_holes(&mut self, first: u32) -> Result<(), CommandError> {
        let mut places = Vec::new();
        for block in first..first + UPDATE_BLOCKS {
            if self.holes.is_empty() {
                self.find_holes()?;
            }
            let to = self.holes.pop_front().expect("a file system that is not full has dead blocks");
            self.place(block, to);
            places.push(to);
        }
        for (to, blocks) in runs(places.into_iter(), REQUEST_BLOCKS) {
            self.write(to, blocks)?;
        }
        Ok(())
    }

    /// The dead blocks of the full segment that has the most. What a checkpoint still refers to is not dead yet.
    fn find_holes(&mut self) -> Result<(), CommandError> {
        let mut best: Option<(usize, Vec<Place>)> = None;
        let mut given_up = vec![false; self.owners.len()];
        self.dead.iter().for_each(|place| given_up[place.0 as usize] = true);
        for (at, &segment) in self.full.iter().enumerate() {
            let is_dead = |&place: &u32| self.owners[place as usize].is_none() && !given_up[place as usize];
            let holes: Vec<Place> = self.segment(segment).filter(is_dead).map(Place).collect();
            if best.as_ref().is_none_or(|(_, most)| holes.len() > most.len()) {
                best = Some((at, holes));
            }
        }
        match best {
            Some((at, holes)) if !holes.is_empty() => {
                // It goes to the end: others are looked at first where all have as many.
                let segment = self.full.remove(at);
                self.full.extend(segment);
                self.holes = holes.into();
                Ok(())
            }
            _ => {
                self.checkpoint(&[])?;
                self.find_holes()
            }
        }
    }

    /// Free segments that cleaning needs in hand: a victim becomes free only with the checkpoint.
    fn reserve(&self) -> usize {
        self.layout.batch as usize
    }

    /// Blocks that fit the open segment of a head, or a new one if that is full.
    fn room(&self, head: usize) -> u32 {
        match self.layout.segment_blocks - self.heads[head].used {
            0 => self.layout.segment_blocks,
            room => room,
        }
    }

    /// Gives `blocks`, as many as there is room for, the next places of a head. Returns the first.
    fn append(&mut self, head: usize, blocks: &[u32]) -> Place {
        assert!(blocks.len() <= self.room(head) as usize, "segments are not crossed");
        if self.heads[head].used == self.layout.segment_blocks {
            self.full.push_back(self.heads[head].segment);
            let segment = self.free.pop_front().expect("cleaning keeps a reserve");
            self.heads[head] = Head { segment, used: 0 };
        }
        let Head { segment, used } = self.heads[head];
        let first = segment * self.layout.segment_blocks + used;
        for (&block, to) in blocks.iter().zip(first..) {
            self.place(block, Place(to));
        }
        self.heads[head].used += blocks.len() as u32;
        Place(first)
    }

    /// Block `block` of the files lies at `to` from now on.
    fn place(&mut self, block: u32, to: Place) {
        self.owners[to.0 as usize] = Some(block);
        if let Some(old) = self.places[block as usize].replace(to) {
            self.owners[old.0 as usize] = None;
            self.dead.push(old);
        }
    }

    /// Empties the oldest segments.
    fn clean(&mut self) -> Result<(), CommandError> {
        let victims: Vec<u32> = (0..self.layout.batch).filter_map(|_| self.full.pop_front()).collect();
        let all = victims.iter().flat_map(|&segment| self.segment(segment));
        let live: Vec<u32> = all.filter_map(|place| self.owners[place as usize]).collect();
        self.counts.cleaned += (victims.len() as u32 * self.layout.segment_blocks) as u64;
        self.counts.moved += live.len() as u64;
        if self.layout.cleaning == Cleaning::ReadWrite {
            for (place, blocks) in self.runs_of(&live) {
                self.command(&Command::Read { range: range(place, blocks) })?;
            }
            self.wait()?;
        }
        let mut rest = live.as_slice();
        while !rest.is_empty() {
            let (some, later) = rest.split_at(rest.len().min(self.room(MOVED) as usize));
            let sources = self.runs_of(some);
            let to = self.append(MOVED, some);
            match self.layout.cleaning {
                Cleaning::ReadWrite => self.write(to, some.len() as u32)?,
                _ => self.copy(&sources, to)?,
            }
            rest = later;
        }
        self.checkpoint(&victims)?;
        self.free.extend(victims);
        Ok(())
    }

    /// The places of a segment.
    fn segment(&self, segment: u32) -> std::ops::Range<u32> {
        let first = segment * self.layout.segment_blocks;
        first..first + self.layout.segment_blocks
    }

    /// Where file blocks lie, neighbours together.
    fn runs_of(&self, blocks: &[u32]) -> Vec<(Place, u32)> {
        runs(blocks.iter().filter_map(|&block| self.places[block as usize]), REQUEST_BLOCKS)
    }

    fn copy(&mut self, sources: &[(Place, u32)], to: Place) -> Result<(), CommandError> {
        let mut to = to;
        for sources in sources.chunks(COPY_RANGES) {
            let blocks: u32 = sources.iter().map(|&(_, blocks)| blocks).sum();
            let ranges: Vec<Range> = sources.iter().map(|&(place, blocks)| range(place, blocks)).collect();
            self.command(&Command::Copy { destination: range(to, blocks).lba, sources: &ranges })?;
            to.0 += blocks;
        }
        Ok(())
    }

    /// Makes everything durable, then deallocates `victims` and what else is dead.
    pub(super) fn checkpoint(&mut self, victims: &[u32]) -> Result<(), CommandError> {
        let Layout { segment_blocks, checkpoint_blocks, .. } = self.layout;
        let at = self.checkpoints % (segment_blocks / checkpoint_blocks) * checkpoint_blocks;
        self.checkpoints += 1;
        self.since_checkpoint = 0;
        self.wait()?;
        self.write(Place(CHECKPOINTS * segment_blocks + at), checkpoint_blocks)?;
        self.wait()?;
        self.command(&Command::Flush)?;
        self.wait()?;
        let mut dead = std::mem::take(&mut self.dead);
        // A segment goes as a whole, of whatever else there is the new part.
        dead.retain(|place| {
            self.layout.told == Told::EveryBlock && !victims.contains(&(place.0 / segment_blocks))
        });
        dead.extend(victims.iter().flat_map(|&segment| self.segment(segment)).map(Place));
        dead.sort_unstable();
        let ranges = runs(dead.into_iter(), segment_blocks).into_iter();
        let ranges: Vec<Range> = ranges.map(|(place, blocks)| range(place, blocks)).collect();
        for ranges in ranges.chunks(TRIM_RANGES) {
            self.command(&Command::Deallocate(ranges))?;
        }
        self.wait()?;
        Ok(())
    }

    fn write(&mut self, to: Place, blocks: u32) -> Result<(), CommandError> {
        for offset in (0..blocks).step_by(REQUEST_BLOCKS as usize) {
            let range = range(Place(to.0 + offset), REQUEST_BLOCKS.min(blocks - offset));
            self.command(&Command::Write { range, fua: false, hint: Hint::None })?;
        }
        Ok(())
    }

    /// Issues a command as soon as the queue has a place for it.
    fn command(&mut self, command: &Command<'_>) -> Result<(), CommandError> {
        self.disk.send(&mut self.queue, command)
    }

    /// Lets the next command wait for all before.
    fn wait(&mut self) -> Result<(), CommandError> {
        self.disk.finish(&mut self.queue)?;
        self.queue = queue(self.queue.finished());
        Ok(())
    }
}

fn queue(start: SimTime) -> HostQueue {
    HostQueue::new(Pacing::Closed { depth: QUEUE_DEPTH, interval_ns: 0 }, start)
}

/// The sectors of `blocks` blocks from `place` on.
fn range(place: Place, blocks: u32) -> Range {
    Range::new(Lba::new(u64::from(place.0) * u64::from(BLOCK_SECTORS)), blocks * BLOCK_SECTORS)
}

/// Neighbouring places as runs of at most `most`.
fn runs(places: impl Iterator<Item = Place>, most: u32) -> Vec<(Place, u32)> {
    let mut runs: Vec<(Place, u32)> = Vec::new();
    for place in places {
        match runs.last_mut() {
            Some((first, count)) if first.0 + *count == place.0 && *count < most => *count += 1,
            _ => runs.push((place, 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests;
