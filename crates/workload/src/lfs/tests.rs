use std::collections::VecDeque;
use std::convert::Infallible;

use strobe_types::{Lba, Prng, Range};

use super::log::{Place, Segment, runs};
use super::*;
use crate::synthetic::WorkloadError;

const SEGMENT_BLOCKS: u32 = 32;
const FILE_BLOCKS: u32 = 640;

fn layout(cleaning: Cleaning, trims: Trims) -> LfsLayout {
    LfsLayout {
        block_sectors: 8,
        update_blocks: 4,
        request_blocks: 32,
        copy_ranges: 128,
        trim_ranges: 64,
        segments: 32,
        segment_blocks: SEGMENT_BLOCKS,
        checkpoint_blocks: 4,
        cleaned_segments: 2,
        cleaning,
        trims,
        checkpoint_every: 16,
        sync: false,
    }
}

#[derive(Default)]
struct Host {
    contents: Vec<u64>,
    read: VecDeque<u64>,
    stamp: u64,
    held: Vec<bool>,
    flushed: bool,
    outstanding: u32,
    copied: u64,
    most_ranges: [usize; 2],
}

impl Host {
    fn new() -> Self {
        Self { contents: vec![0; 1024], held: vec![false; 1024], flushed: true, ..Self::default() }
    }

    fn blocks(range: &Range) -> std::ops::Range<usize> {
        let first = (range.lba.get() / 8) as usize;
        first..first + range.sectors as usize / 8
    }

    fn put(&mut self, place: usize, content: u64) {
        let held = std::mem::replace(&mut self.held[place], true);
        assert!(!held || place < SEGMENT_BLOCKS as usize, "{place} is overwritten");
        self.contents[place] = content;
    }
}

impl LfsDisk for Host {
    type Error = Infallible;

    fn send(&mut self, command: LfsCommand<'_>) -> Result<(), Infallible> {
        let trims = matches!(command, LfsCommand::Trim(_));
        assert!(!trims || self.flushed, "trim of what the last durable checkpoint refers to");
        self.flushed = trims || matches!(command, LfsCommand::Flush);
        match command {
            LfsCommand::Read(range) => self.read.extend(Host::blocks(&range).map(|at| self.contents[at])),
            LfsCommand::Write(range) => {
                assert!(range.sectors <= 32 * 8, "{range:?}");
                let is_new = self.read.is_empty();
                self.stamp += u64::from(is_new);
                for (n, at) in Host::blocks(&range).enumerate() {
                    let new = 100 * self.stamp + n as u64;
                    let content = self.read.pop_front().filter(|_| !is_new).unwrap_or(new);
                    self.put(at, content);
                }
            }
            LfsCommand::Copy { destination, sources } => {
                self.most_ranges[0] = self.most_ranges[0].max(sources.len());
                let contents: Vec<u64> =
                    sources.iter().flat_map(Host::blocks).map(|at| self.contents[at]).collect();
                self.copied += contents.len() as u64;
                for (n, content) in contents.into_iter().enumerate() {
                    self.put((destination.get() / 8) as usize + n, content);
                }
            }
            LfsCommand::Trim(ranges) => {
                self.most_ranges[1] = self.most_ranges[1].max(ranges.len());
                ranges.iter().flat_map(Host::blocks).for_each(|at| self.held[at] = false);
            }
            LfsCommand::Flush => assert_eq!(self.outstanding, 0, "a flush covers what is complete"),
        }
        self.outstanding += 1;
        Ok(())
    }

    fn wait(&mut self) -> Result<(), Infallible> {
        self.outstanding = 0;
        Ok(())
    }
}

fn created(layout: LfsLayout, seed: u64) -> (Lfs, Host) {
    let (mut lfs, mut host) = (Lfs::new(layout, FILE_BLOCKS, seed), Host::new());
    let Ok(()) = lfs.create(&mut host);
    (lfs, host)
}

fn check(lfs: &Lfs) {
    let of = |place: Place| (place.0 / lfs.layout().segment_blocks) as usize;
    let mut counted = vec![Segment::default(); lfs.layout().segments as usize];
    for (block, place) in lfs.places.iter().enumerate() {
        let place = place.expect("written");
        assert_eq!(lfs.owners[place.0 as usize], Some(block as u32));
        counted[of(place)].live += 1;
    }
    for &place in &lfs.dead {
        assert_eq!(lfs.owners[place.0 as usize], None);
        counted[of(place)].given_up += 1;
    }
    assert_eq!(counted, lfs.contents);
    assert_eq!(lfs.owners.iter().flatten().count(), lfs.places.len());
}

fn after_many_updates(cleaning: Cleaning, trims: Trims) -> (Vec<u64>, Host) {
    let (mut lfs, mut host) = created(layout(cleaning, trims), 7);
    let mut expected: Vec<u64> = (0..u64::from(FILE_BLOCKS)).map(|n| 100 * (n / 4 + 1) + n % 4).collect();
    let mut rng = Prng::new(3);
    for _ in 0..3000 {
        let extent = rng.below(lfs.extents());
        let Ok(()) = lfs.update(&mut host, extent);
        for block in 0..4 {
            expected[(extent * 4 + block) as usize] = 100 * host.stamp + u64::from(block);
        }
        for &place in &lfs.dead {
            assert!(host.held[place.0 as usize], "the last checkpoint refers to {place:?}");
        }
        check(&lfs);
    }
    assert!(lfs.counts().cleaned > 50 * u64::from(SEGMENT_BLOCKS), "{:?}", lfs.counts());
    let found: Vec<u64> = (0..FILE_BLOCKS)
        .map(|block| host.contents[(lfs.lba_of(block).expect("written").get() / 8) as usize])
        .collect();
    assert_eq!(found, expected, "{cleaning:?}, {trims:?}");
    assert_eq!(host.copied, if cleaning == Cleaning::Copy { lfs.counts().moved } else { 0 });
    (found, host)
}

#[test]
fn files_hold_what_was_written_however_they_are_cleaned() {
    for trims in Trims::ALL {
        let [(moved, _), (copied, _)] =
            [Cleaning::Move, Cleaning::Copy].map(|cleaning| after_many_updates(cleaning, trims));
        assert_eq!(moved, copied);
    }
}

#[test]
fn what_is_dead_is_trimmed_unless_only_segments_are() {
    let held = |trims| after_many_updates(Cleaning::Copy, trims).1.held.iter().filter(|held| **held).count();
    let checkpoints = SEGMENT_BLOCKS as usize;
    let since_checkpoint = 2 * checkpoints;
    assert!(held(Trims::EveryBlock) <= FILE_BLOCKS as usize + checkpoints + since_checkpoint);
    assert!(held(Trims::CleanedSegments) > FILE_BLOCKS as usize + checkpoints + since_checkpoint);
}

struct Naive {
    versions: Vec<u64>,
    full: VecDeque<Vec<(u32, u64)>>,
    new: Vec<(u32, u64)>,
    moved: Vec<(u32, u64)>,
    free: u32,
    counts: LfsCounts,
}

impl Naive {
    fn append(&mut self, layout: &LfsLayout, block: (u32, u64), is_new: bool) {
        let head = if is_new { &mut self.new } else { &mut self.moved };
        if head.len() == layout.segment_blocks as usize {
            self.full.push_back(std::mem::take(head));
            self.free -= 1;
        }
        head.push(block);
    }

    fn update(&mut self, layout: &LfsLayout, extent: u32) {
        self.counts.written += u64::from(layout.update_blocks);
        while self.new.len() == layout.segment_blocks as usize && self.free <= layout.cleaned_segments {
            let victims: Vec<_> = self.full.drain(..layout.cleaned_segments as usize).flatten().collect();
            self.counts.cleaned += victims.len() as u64;
            for (block, version) in victims {
                if self.versions[block as usize] == version {
                    self.counts.moved += 1;
                    self.append(layout, (block, version), false);
                }
            }
            self.counts.checkpoints += 1;
            self.free += layout.cleaned_segments;
        }
        for block in extent * layout.update_blocks..(extent + 1) * layout.update_blocks {
            self.versions[block as usize] += 1;
            self.append(layout, (block, self.versions[block as usize]), true);
        }
    }
}

#[test]
fn as_much_is_cleaned_and_moved_as_by_a_log_of_lists() {
    for (cleaning, file_blocks, cleaned_segments, update_blocks) in [
        (Cleaning::Move, 640, 2, 4),
        (Cleaning::Copy, 300, 1, 1),
        (Cleaning::Copy, 896, 1, 32),
        (Cleaning::Move, 892, 1, 4),
        (Cleaning::Copy, 703, 7, 1),
    ] {
        let layout = LfsLayout { cleaned_segments, update_blocks, ..layout(cleaning, Trims::EveryBlock) };
        assert!(file_blocks <= layout.file_blocks_max() + 32, "{}", layout.file_blocks_max());
        let file_blocks = file_blocks.min(layout.file_blocks_max());
        let (mut lfs, mut host) = (Lfs::new(layout, file_blocks, 1), Host::new());
        let Ok(()) = lfs.create(&mut host);
        let mut naive = Naive {
            versions: vec![0; file_blocks as usize],
            full: VecDeque::new(),
            new: Vec::new(),
            moved: Vec::new(),
            free: layout.segments - 3,
            counts: LfsCounts::default(),
        };
        let extents = lfs.extents();
        (0..extents).for_each(|extent| naive.update(&layout, extent));
        let mut rng = Prng::derive(1, "lfs");
        for step in 0..4000 {
            let Ok(()) = lfs.update_at_random(&mut host);
            naive.update(&layout, rng.below(extents));
            assert_eq!(lfs.counts(), naive.counts, "{cleaning:?}, {file_blocks}, step {step}");
        }
        check(&lfs);
        assert!(lfs.counts().moved > 100, "{:?}", lfs.counts());
        assert_eq!(host.copied, if cleaning == Cleaning::Copy { lfs.counts().moved } else { 0 });
        assert!(host.most_ranges[0] <= 128 && host.most_ranges[1] <= 64, "{:?}", host.most_ranges);
    }
}

#[test]
fn ageing_ends_where_the_first_cleaning_would_be() {
    for cleaning in [Cleaning::Move, Cleaning::Copy] {
        let (mut lfs, mut host) = created(layout(cleaning, Trims::EveryBlock), 1);
        let Ok(()) = lfs.age(&mut host);
        assert_eq!((lfs.counts().cleaned, lfs.dead.len()), (0, 0));
        let Ok(()) = lfs.update_at_random(&mut host);
        assert!(lfs.counts().cleaned > 0);
    }
}

#[test]
fn holes_are_dead_before_they_are_filled() {
    let fullest = layout(Cleaning::Threaded, Trims::EveryBlock).file_blocks_max();
    for file_blocks in [FILE_BLOCKS, fullest] {
        let layout = layout(Cleaning::Threaded, Trims::EveryBlock);
        let (mut lfs, mut host) = (Lfs::new(layout, file_blocks, 7), Host::new());
        let Ok(()) = lfs.create(&mut host);
        let Ok(()) = lfs.age(&mut host);
        let aged = lfs.counts();
        for _ in 0..3000 {
            let Ok(()) = lfs.update_at_random(&mut host);
            check(&lfs);
        }
        assert_eq!((lfs.counts().cleaned, lfs.counts().moved), (0, 0));
        assert_eq!(lfs.counts().written, aged.written + 12_000);
        assert!(lfs.places.iter().flatten().all(|place| host.held[place.0 as usize]));
    }
}

#[test]
fn in_place_every_block_stays_where_it_is() {
    let (mut lfs, mut host) = (Lfs::new(layout(Cleaning::InPlace, Trims::EveryBlock), 900, 1), Host::new());
    host.held.clear();
    host.held.resize(1024, false);
    let mut written = vec![0; 1024];
    struct Places<'a>(&'a mut Vec<u32>);
    impl LfsDisk for Places<'_> {
        type Error = Infallible;
        fn send(&mut self, command: LfsCommand<'_>) -> Result<(), Infallible> {
            match command {
                LfsCommand::Write(range) => Host::blocks(&range).for_each(|at| self.0[at] += 1),
                LfsCommand::Flush => {}
                other => panic!("{other:?}"),
            }
            Ok(())
        }
        fn wait(&mut self) -> Result<(), Infallible> {
            Ok(())
        }
    }
    let Ok(()) = lfs.create(&mut Places(&mut written));
    let Ok(()) = lfs.age(&mut Places(&mut written));
    assert!(written[32..932].iter().all(|&times| times >= 1));
    assert!(written[932..].iter().all(|&times| times == 0));
    assert_eq!(lfs.lba_of(5), Some(Lba::new(8 * 37)));
}

#[test]
fn neighbours_become_one_run_within_the_limit() {
    let places = [3, 4, 5, 8, 10, 11].map(Place);
    assert_eq!(runs(places.into_iter(), 9), [(Place(3), 3), (Place(8), 1), (Place(10), 2)]);
    assert_eq!(runs((0..8).map(Place), 3), [(Place(0), 3), (Place(3), 3), (Place(6), 2)]);
}

const GIB: u64 = 1 << 30;

fn refusal(config: &LfsConfig, drive_bytes: u64) -> (&'static str, String) {
    match config.build(drive_bytes, 1).map(|lfs| lfs.file_blocks()) {
        Err(WorkloadError::OutOfRange { key, allowed, .. }) => (key, allowed),
        other => panic!("{config:?}: {other:?}"),
    }
}

#[test]
fn what_does_not_fit_is_refused_with_its_key() {
    let default = LfsConfig::default();
    assert!(default.build(GIB, 1).is_ok());
    for (config, drive_bytes, key, cure) in [
        (LfsConfig { block_bytes: 1000, ..default.clone() }, GIB, "block_bytes", "a multiple of 512"),
        (LfsConfig { block_bytes: 0, ..default.clone() }, GIB, "block_bytes", "512"),
        (LfsConfig { update_bytes: 6000, ..default.clone() }, GIB, "update_bytes", "block_bytes = 4096"),
        (
            LfsConfig { segment_bytes: 40_000, ..default.clone() },
            GIB,
            "segment_bytes",
            "update_bytes = 16384",
        ),
        (LfsConfig { segment_bytes: 1 << 28, ..default.clone() }, GIB, "segment_bytes", "8 segments"),
        (LfsConfig { checkpoint_bytes: 1 << 22, ..default.clone() }, GIB, "checkpoint_bytes", "at most"),
        (LfsConfig { checkpoint_bytes: 0, ..default.clone() }, GIB, "checkpoint_bytes", "multiple"),
        (LfsConfig { request_bytes: 512, ..default.clone() }, GIB, "request_bytes", "block_bytes"),
        (LfsConfig { copy_ranges: 257, ..default.clone() }, GIB, "copy_ranges", "256"),
        (LfsConfig { trim_ranges: 0, ..default.clone() }, GIB, "trim_ranges", "1"),
        (LfsConfig { cleaned_segments: 0, ..default.clone() }, GIB, "cleaned_segments", "1"),
        (LfsConfig { cleaned_segments: 600, ..default.clone() }, GIB, "segment_bytes", "600 free"),
        (LfsConfig { utilization: 1.0, ..default.clone() }, GIB, "utilization", "smaller segments"),
        (LfsConfig { utilization: 0.0, ..default.clone() }, GIB, "utilization", "from 0.0"),
        (LfsConfig { utilization: f64::NAN, ..default.clone() }, GIB, "utilization", "from"),
        (LfsConfig { utilization: 0.8, ..default.clone() }, 10 << 21, "utilization", "0.2"),
        (LfsConfig { block_bytes: 512, ..default.clone() }, 1 << 42, "block_bytes", "larger"),
    ] {
        let (found, allowed) = refusal(&config, drive_bytes);
        assert!(found == key && allowed.contains(cure), "{config:?}: {found} {allowed}");
    }
}

#[test]
fn the_utilization_that_an_error_names_is_possible() {
    let config = LfsConfig { utilization: 0.9999, ..LfsConfig::default() };
    let (_, allowed) = refusal(&config, GIB);
    let numbers: Vec<f64> = allowed.split([' ', ':']).filter_map(|word| word.parse().ok()).collect();
    for &utilization in &numbers[..2] {
        LfsConfig { utilization, ..LfsConfig::default() }.build(GIB, 1).expect("the error says so");
    }
}
