//! A log-structured file system, reduced to what the drive sees of it (Kang, Han & Shin, §2.1): updates
//! go to the end of the log; when it runs short of segments, the live blocks of the oldest ones are
//! moved, a checkpoint is written, and what it does not refer to is deallocated.

use std::collections::VecDeque;

use strobe_ssd::{Command, CommandError, Engine, Hint, HostQueue, Pacing, Range};
use strobe_types::{Lba, Prng, SimTime};

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
    /// Executes one command issued at `now`; returns when it is done.
    fn command(&mut self, now: SimTime, command: &Command<'_>) -> Result<SimTime, CommandError>;
}

impl Disk for Box<dyn Engine> {
    fn command(&mut self, now: SimTime, command: &Command<'_>) -> Result<SimTime, CommandError> {
        (**self).command(now, command)
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
            self.wait();
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
        self.wait();
        self.write(Place(CHECKPOINTS * segment_blocks + at), checkpoint_blocks)?;
        self.wait();
        self.command(&Command::Flush)?;
        self.wait();
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
        self.wait();
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
        let now = self.queue.issue(None);
        self.queue.complete(self.disk.command(now, command)?);
        Ok(())
    }

    /// Lets the next command wait for all before.
    fn wait(&mut self) {
        self.queue = queue(self.queue.finished());
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
mod tests {
    use strobe_ftl::gc::Greedy;
    use strobe_ftl::{MappingScheme, PageMap, PageMapConfig};
    use strobe_nand::{Chip, Nand, StampMedium, Untimed, WearConfig};
    use strobe_ssd::{ControllerConfig, Drive};
    use strobe_types::{Geometry, GeometrySpec};

    use super::*;

    const SEGMENT_BLOCKS: u32 = 32;
    const FILE_BLOCKS: u32 = 640;

    fn layout(cleaning: Cleaning, told: Told) -> Layout {
        Layout {
            segments: 32,
            segment_blocks: SEGMENT_BLOCKS,
            checkpoint_blocks: 4,
            batch: 2,
            cleaning,
            told,
        }
    }

    type StampDrive = Drive<PageMap<Chip<Untimed, StampMedium>, Greedy>>;

    /// A drive of 1024 units with logical copy, and with spare space that is soon used up.
    fn stamp_drive(virtual_map_entries: u32) -> StampDrive {
        let spec = GeometrySpec {
            channels: 1,
            dies_per_channel: 2,
            planes_per_die: 1,
            blocks_per_plane: 40,
            pages_per_block: 8,
            page_bytes: 8192,
            unit_bytes: 4096,
        };
        let wear = WearConfig { endurance_pe: None, factory_bad_blocks: 0, program_fail_rate: 0.0 };
        let chip = Chip::new(Geometry::new(spec).expect("possible"), wear, Untimed, 1);
        let policy = Greedy::new(chip.geometry().blocks());
        let config = PageMapConfig { virtual_map_entries, ..PageMapConfig::new(1024) };
        Drive::new(PageMap::new(chip, policy, config).expect("room"), &ControllerConfig::default())
    }

    /// A drive, and a host that writes what it has read before, otherwise something new. Watches over
    /// what the file system asks for.
    struct Host {
        drive: StampDrive,
        read: VecDeque<u64>,
        /// Of the last new data.
        stamp: u64,
        /// By place: whether there is data that nobody has said is dead.
        held: Vec<bool>,
        /// Whether nothing but trims came since the last flush.
        flushed: bool,
    }

    impl Host {
        fn new() -> Self {
            // Two victims that are live altogether: entries of older ones must be free again.
            let drive = stamp_drive(2 * SEGMENT_BLOCKS);
            Self { drive, read: VecDeque::new(), stamp: 0, held: vec![false; 1024], flushed: true }
        }

        /// The places from sector `lba` on are written; none of them may hold anything, but where
        /// checkpoints lie.
        fn hold(&mut self, lba: Lba, blocks: u32) {
            let first = (lba.get() / 8) as usize;
            for place in first..first + blocks as usize {
                let held = std::mem::replace(&mut self.held[place], true);
                assert!(!held || place < SEGMENT_BLOCKS as usize, "{place} is overwritten");
            }
        }

        fn content(&mut self, place: Place) -> u64 {
            let range = range(place, 1);
            self.drive.read(SimTime::ZERO, range.lba, range.sectors).expect("inside");
            self.drive.last_read()[0]
        }
    }

    impl Disk for Host {
        fn command(&mut self, now: SimTime, command: &Command<'_>) -> Result<SimTime, CommandError> {
            let trims = matches!(command, Command::Deallocate(_));
            assert!(!trims || self.flushed, "trim of what the last durable checkpoint refers to");
            self.flushed = trims || matches!(command, Command::Flush);
            match *command {
                Command::Read { range } => {
                    let done = self.drive.read(now, range.lba, range.sectors);
                    self.read.extend(self.drive.last_read());
                    done
                }
                Command::Write { range: Range { lba, sectors }, .. } => {
                    self.hold(lba, sectors / 8);
                    let is_new = self.read.is_empty();
                    self.stamp += u64::from(is_new);
                    let data: Vec<u64> = match is_new {
                        true => (0..u64::from(sectors / 8)).map(|block| 100 * self.stamp + block).collect(),
                        false => self.read.drain(..sectors as usize / 8).collect(),
                    };
                    let first = lba.get() / 8;
                    self.drive.write(now, lba, sectors, |lpn| data[(u64::from(lpn.get()) - first) as usize])
                }
                Command::Copy { destination, sources } => {
                    self.hold(destination, sources.iter().map(|source| source.sectors / 8).sum());
                    self.drive.command(now, command)
                }
                Command::Deallocate(ranges) => {
                    for range in ranges {
                        let first = (range.lba.get() / 8) as usize;
                        self.held[first..first + range.sectors as usize / 8].fill(false);
                    }
                    self.drive.command(now, command)
                }
                _ => self.drive.command(now, command),
            }
        }
    }

    /// What the files hold after many updates, and the drive.
    fn after_many_updates(cleaning: Cleaning, told: Told) -> (Vec<u64>, Host) {
        let mut lfs = Lfs::new(Host::new(), layout(cleaning, told), FILE_BLOCKS, 7).expect("runs");
        let extents = FILE_BLOCKS / UPDATE_BLOCKS;
        let mut expected: Vec<u64> = (0..u64::from(FILE_BLOCKS)).map(|n| 100 * (n / 4 + 1) + n % 4).collect();
        let mut rng = Prng::new(3);
        for step in 0..3000 {
            let extent = rng.below(extents);
            lfs.update(extent).expect("runs");
            for block in 0..UPDATE_BLOCKS {
                let stamp = 100 * lfs.disk.stamp + u64::from(block);
                expected[(extent * UPDATE_BLOCKS + block) as usize] = stamp;
            }
            for &place in &lfs.dead {
                assert!(lfs.disk.held[place.0 as usize], "the last checkpoint refers to {place:?}");
            }
            if step % 100 == 0 {
                lfs.disk.drive.ftl().check().expect("sound");
            }
        }
        assert!(lfs.counts.cleaned > 50 * u64::from(SEGMENT_BLOCKS), "{:?}", lfs.counts);
        let places: Vec<Place> = lfs.places.iter().map(|place| place.expect("written")).collect();
        let found: Vec<u64> = places.into_iter().map(|place| lfs.disk.content(place)).collect();
        assert_eq!(found, expected, "{cleaning:?}, {told:?}");
        let copied = lfs.disk.drive.ftl().copy_stats();
        match cleaning {
            Cleaning::Copy => assert_eq!(copied.logical_units, lfs.counts.moved, "none without an entry"),
            Cleaning::ReadWrite => assert_eq!(copied.logical_units, 0),
        }
        (found, lfs.disk)
    }

    #[test]
    fn files_hold_what_was_written_however_they_are_cleaned() {
        for told in [Told::EveryBlock, Told::CleanedSegments] {
            let [(moved, _), (copied, drive)] =
                [Cleaning::ReadWrite, Cleaning::Copy].map(|cleaning| after_many_updates(cleaning, told));
            assert_eq!(moved, copied);
            assert!(drive.drive.ftl().gc_stats().units_moved > 0, "the drive must collect, too");
        }
    }

    #[test]
    fn what_is_dead_is_trimmed_unless_only_segments_are() {
        let held =
            |told| after_many_updates(Cleaning::Copy, told).1.held.iter().filter(|held| **held).count();
        let checkpoints = SEGMENT_BLOCKS as usize;
        let since_checkpoint = 2 * checkpoints;
        assert!(held(Told::EveryBlock) <= FILE_BLOCKS as usize + checkpoints + since_checkpoint);
        assert!(held(Told::CleanedSegments) > FILE_BLOCKS as usize + checkpoints + since_checkpoint);
    }

    #[test]
    fn ageing_ends_where_the_first_cleaning_would_be() {
        let mut lfs =
            Lfs::new(Host::new(), layout(Cleaning::Copy, Told::EveryBlock), FILE_BLOCKS, 1).expect("runs");
        lfs.age().expect("runs");
        assert_eq!((lfs.counts.cleaned, lfs.dead.len()), (0, 0));
        lfs.update_at_random().expect("runs");
        assert!(lfs.counts.cleaned > 0);
    }

    #[test]
    fn neighbours_become_one_run_within_the_limit() {
        let places = [3, 4, 5, 8, 10, 11].map(Place);
        assert_eq!(runs(places.into_iter(), 9), [(Place(3), 3), (Place(8), 1), (Place(10), 2)]);
        assert_eq!(runs((0..8).map(Place), 3), [(Place(0), 3), (Place(3), 3), (Place(6), 2)]);
    }
}
