//! A log-structured file system, reduced to what the drive sees of it (Kang, Han & Shin, §2.1): updates
//! go to the end of the log; when it runs short of segments, the live blocks of the oldest ones are
//! moved, a checkpoint is written, and what it does not refer to is deallocated.

use std::collections::VecDeque;

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
}

/// What the drive is told of blocks that no checkpoint refers to any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        while self.heads[NEW].used < self.layout.segment_blocks || self.free.len() > self.reserve() {
            self.update_at_random()?;
        }
        self.checkpoint(&[])
    }

    /// Rewrites a random extent, cleaning as needed.
    pub(super) fn update_at_random(&mut self) -> Result<(), CommandError> {
        let extents = self.extents();
        let extent = self.rng.below(extents);
        self.update(extent)
    }

    /// Rewrites an extent, cleaning as needed.
    fn update(&mut self, extent: u32) -> Result<(), CommandError> {
        if self.heads[NEW].used == self.layout.segment_blocks {
            while self.free.len() <= self.reserve() {
                self.clean()?;
            }
        }
        let first = extent * UPDATE_BLOCKS;
        let blocks: Vec<u32> = (first..first + UPDATE_BLOCKS).collect();
        let to = self.append(NEW, &blocks);
        self.counts.written += u64::from(UPDATE_BLOCKS);
        self.write(to, UPDATE_BLOCKS)
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
            self.owners[to as usize] = Some(block);
            if let Some(old) = self.places[block as usize].replace(Place(to)) {
                self.owners[old.0 as usize] = None;
                self.dead.push(old);
            }
        }
        self.heads[head].used += blocks.len() as u32;
        Place(first)
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
                Cleaning::Copy => self.copy(&sources, to)?,
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
