use strobe_ftl::gc::Greedy;
use strobe_ftl::{PageMap, PageMapConfig};
use strobe_nand::{ByteMedium, Chip, Nand, Untimed, WearConfig};
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
        checkpoint_every: 16,
        sync: false,
    }
}

/// A drive of 1024 units with logical copy, and with spare space that is soon used up.
fn drive(virtual_map_entries: u32) -> Box<dyn Simulated> {
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
    let geometry = Geometry::new(spec).expect("possible");
    let chip = Chip::<_, ByteMedium>::new(geometry, wear, Untimed::default(), 1);
    let policy = Greedy::new(chip.geometry().blocks());
    let config = PageMapConfig { virtual_map_entries, ..PageMapConfig::new(1024) };
    let map = PageMap::new(chip, policy, config).expect("room");
    Box::new(Drive::new(map, &ControllerConfig::default()))
}

/// A block that holds `stamp` all over.
fn block(stamp: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat(512)
}

fn stamp_of(block: &[u8]) -> u64 {
    let stamp = u64::from_le_bytes(block[..8].try_into().expect("8 bytes"));
    assert_eq!(block, stamp.to_le_bytes().repeat(512));
    stamp
}

/// A drive, and a host that writes what it has read before, otherwise something new. Watches over
/// what the file system asks for.
struct Host {
    drive: Box<dyn Simulated>,
    /// Blocks read and not written again yet.
    read: VecDeque<u8>,
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
        let drive = drive(2 * SEGMENT_BLOCKS);
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
        let mut block = vec![0; 4096];
        self.drive.read_bytes(SimTime::ZERO, range(place, 1).lba, &mut block).expect("inside");
        stamp_of(&block)
    }
}

impl Disk for Host {
    fn send(&mut self, queue: &mut HostQueue, command: &Command<'_>) -> Result<(), CommandError> {
        let now = queue.issue(None);
        let trims = matches!(command, Command::Deallocate(_));
        assert!(!trims || self.flushed, "trim of what the last durable checkpoint refers to");
        self.flushed = trims || matches!(command, Command::Flush);
        let done = match *command {
            Command::Read { range } => {
                let mut bytes = vec![0; range.sectors as usize * 512];
                let done = self.drive.read_bytes(now, range.lba, &mut bytes);
                self.read.extend(bytes);
                done
            }
            Command::Write { range: Range { lba, sectors }, .. } => {
                self.hold(lba, sectors / 8);
                let is_new = self.read.is_empty();
                self.stamp += u64::from(is_new);
                let data: Vec<u8> = match is_new {
                    true => (0..sectors / 8).flat_map(|n| block(100 * self.stamp + u64::from(n))).collect(),
                    false => self.read.drain(..sectors as usize * 512).collect(),
                };
                self.drive.write_bytes(now, lba, &data)
            }
            Command::Copy { destination, sources } => {
                self.hold(destination, sources.iter().map(|source| source.sectors / 8).sum());
                self.drive.execute(now, command)
            }
            Command::Deallocate(ranges) => {
                for range in ranges {
                    let first = (range.lba.get() / 8) as usize;
                    self.held[first..first + range.sectors as usize / 8].fill(false);
                }
                self.drive.execute(now, command)
            }
            _ => self.drive.execute(now, command),
        };
        queue.complete(done?);
        Ok(())
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
            lfs.disk.drive.check().expect("sound");
        }
    }
    assert!(lfs.counts.cleaned > 50 * u64::from(SEGMENT_BLOCKS), "{:?}", lfs.counts);
    let places: Vec<Place> = lfs.places.iter().map(|place| place.expect("written")).collect();
    let found: Vec<u64> = places.into_iter().map(|place| lfs.disk.content(place)).collect();
    assert_eq!(found, expected, "{cleaning:?}, {told:?}");
    let copied = lfs.disk.drive.stats().copies;
    match cleaning {
        Cleaning::Copy => assert_eq!(copied.logical_units, lfs.counts.moved, "none without an entry"),
        _ => assert_eq!(copied.logical_units, 0),
    }
    (found, lfs.disk)
}

#[test]
fn files_hold_what_was_written_however_they_are_cleaned() {
    for told in [Told::EveryBlock, Told::CleanedSegments] {
        let [(moved, _), (copied, drive)] =
            [Cleaning::ReadWrite, Cleaning::Copy].map(|cleaning| after_many_updates(cleaning, told));
        assert_eq!(moved, copied);
        assert!(drive.drive.stats().gc.units_moved > 0, "the drive must collect, too");
    }
}

#[test]
fn what_is_dead_is_trimmed_unless_only_segments_are() {
    let held = |told| after_many_updates(Cleaning::Copy, told).1.held.iter().filter(|held| **held).count();
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

/// The host panics where a write meets what a checkpoint or a file still refers to.
#[test]
fn holes_are_dead_before_they_are_filled() {
    let layout = layout(Cleaning::Threaded, Told::EveryBlock);
    let mut lfs = Lfs::new(Host::new(), layout, FILE_BLOCKS, 7).expect("runs");
    lfs.age().expect("runs");
    let aged = lfs.counts;
    for _ in 0..3000 {
        lfs.update_at_random().expect("runs");
    }
    assert_eq!((lfs.counts.cleaned, lfs.counts.moved), (0, 0));
    assert_eq!(lfs.counts.written, aged.written + 3000 * u64::from(UPDATE_BLOCKS));
    // Every block has a place of its own.
    let mut places: Vec<Place> = lfs.places.iter().flatten().copied().collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), FILE_BLOCKS as usize);
    assert!(places.iter().all(|place| lfs.disk.held[place.0 as usize]));
    lfs.disk.drive.check().expect("sound");
}

#[test]
fn neighbours_become_one_run_within_the_limit() {
    let places = [3, 4, 5, 8, 10, 11].map(Place);
    assert_eq!(runs(places.into_iter(), 9), [(Place(3), 3), (Place(8), 1), (Place(10), 2)]);
    assert_eq!(runs((0..8).map(Place), 3), [(Place(0), 3), (Place(3), 3), (Place(6), 2)]);
}
