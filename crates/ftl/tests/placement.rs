//! Data placement: SepBIT against a simulator of its own, written from the paper's text, and the rules of streams.

use std::collections::{BTreeMap, VecDeque};

use strobe_ftl::gc::{Formula, Greedy};
use strobe_ftl::{
    DataTag, Hint, Inspectable as _, Isolation, MappingScheme as _, PageMap, PageMapConfig, PlacementKind,
    Stream, WriteContext,
};
use strobe_nand::{Cause, Chip, Nand as _, NandOp, NoMedium, StampMedium, Unit, Untimed, WearConfig, When};
use strobe_types::{BlockId, Geometry, GeometrySpec, Lpn, Ppa, Prng};

const T0: When = When::START;

fn geometry(planes: u32, blocks: u32, pages: u32, units_per_page: u32) -> Geometry {
    Geometry::new(GeometrySpec {
        channels: planes,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: blocks,
        pages_per_block: pages,
        page_bytes: 4096 * units_per_page,
        unit_bytes: 4096,
    })
    .expect("valid")
}

/// SepBIT on a drive of its own: arrays and scans, and the queue of recent writes as the paper has it.
struct Naive {
    streams: usize,
    units_per_block: usize,
    min_free: usize,
    /// Content of each block, in the order in which it was written; whether each unit is valid is looked up in `place`.
    blocks: Vec<Vec<u32>>,
    place: BTreeMap<u32, (usize, usize)>,
    stream_of: Vec<usize>,
    open: Vec<Option<usize>>,
    free: VecDeque<usize>,
    closed_at: Vec<Option<u64>>,
    opened_at: Vec<u64>,
    /// Units that the host has written.
    time: u64,
    last_write: BTreeMap<u32, u64>,
    recent: VecDeque<(u32, u64)>,
    newest: BTreeMap<u32, u64>,
    lifespan: f64,
    collected: Vec<u64>,
    programs: u64,
}

impl Naive {
    fn new(blocks: usize, units_per_block: usize, streams: usize) -> Self {
        Self {
            streams,
            units_per_block,
            // A block for each stream of a victim by age, one for a failed program, one for the host.
            min_free: streams - 3 + 2,
            blocks: vec![Vec::new(); blocks],
            place: BTreeMap::new(),
            stream_of: vec![0; blocks],
            open: vec![None; streams],
            free: (0..blocks).collect(),
            closed_at: vec![None; blocks],
            opened_at: vec![0; blocks],
            time: 0,
            last_write: BTreeMap::new(),
            recent: VecDeque::new(),
            newest: BTreeMap::new(),
            lifespan: f64::INFINITY,
            collected: Vec::new(),
            programs: 0,
        }
    }

    fn host_write(&mut self, lpn: u32) {
        self.time += 1;
        let limit = self.lifespan.min(self.recent.len() as f64);
        let entry = self.newest.get(&lpn);
        let is_short = entry.is_some_and(|&then| ((self.time - then) as f64) < limit);
        self.last_write.insert(lpn, self.time);
        self.recent.push_back((lpn, self.time));
        self.newest.insert(lpn, self.time);
        let known = self.last_write.len() as f64;
        if self.recent.len() as f64 > known.min(self.lifespan) {
            self.forget_oldest();
        }
        if self.recent.len() as f64 > self.lifespan {
            self.forget_oldest();
        }
        let stream = if is_short { 0 } else { 1 };
        if self.open[stream].is_none() && self.free.len() < self.min_free {
            while self.free.len() < self.min_free {
                self.collect();
            }
        }
        self.append(stream, lpn, self.time + 1);
    }

    fn forget_oldest(&mut self) {
        if let Some((lpn, then)) = self.recent.pop_front()
            && self.newest.get(&lpn) == Some(&then)
        {
            self.newest.remove(&lpn);
        }
    }

    fn append(&mut self, stream: usize, lpn: u32, tick: u64) {
        let block = *self.open[stream].get_or_insert_with(|| {
            let block = self.free.pop_front().expect("an erased block");
            (self.stream_of[block], self.opened_at[block]) = (stream, self.time);
            block
        });
        self.blocks[block].push(lpn);
        self.place.insert(lpn, (block, self.blocks[block].len() - 1));
        self.programs += 1;
        if self.blocks[block].len() == self.units_per_block {
            self.open[stream] = None;
            self.closed_at[block] = Some(tick);
        }
    }

    fn valid(&self, block: usize) -> Vec<u32> {
        let is_valid = |&(at, lpn): &(usize, &u32)| self.place.get(lpn) == Some(&(block, at));
        self.blocks[block].iter().enumerate().filter(is_valid).map(|(_, &lpn)| lpn).collect()
    }

    /// Empties the full block with the greatest (1 − u)/u √age.
    fn collect(&mut self) {
        // Ticks start at 1, and the unit at hand has not been counted.
        let tick = self.time;
        let mut best: Option<(f64, usize)> = None;
        for block in 0..self.blocks.len() {
            let Some(closed) = self.closed_at[block] else { continue };
            let valid = self.valid(block).len();
            let u = valid as f64 / self.units_per_block as f64;
            let score = (1.0 - u) / u * ((tick + 1 - closed) as f64).sqrt();
            if valid < self.units_per_block && best.is_none_or(|(top, _)| score > top) {
                best = Some((score, block));
            }
        }
        let (_, victim) = best.expect("a block with something invalid");
        self.closed_at[victim] = None;
        let mut moved: Vec<(usize, u32)> = Vec::new();
        for lpn in self.valid(victim) {
            let age = (self.time - self.last_write[&lpn]) as f64;
            let by_age = (1..)
                .take(self.streams - 4)
                .filter(|&i| age >= f64::from(1_u32 << (2 * i)) * self.lifespan)
                .count();
            moved.push((if self.stream_of[victim] == 0 { 2 } else { 3 + by_age }, lpn));
        }
        moved.sort_by_key(|&(stream, _)| stream);
        for (stream, lpn) in moved {
            self.append(stream, lpn, tick);
        }
        if self.stream_of[victim] == 0 {
            self.collected.push(self.time - self.opened_at[victim]);
            if self.collected.len() == 16 {
                self.lifespan = self.collected.iter().sum::<u64>() as f64 / 16.0;
                self.collected.clear();
            }
        }
        self.blocks[victim].clear();
        self.free.push_back(victim);
    }
}

fn skewed(rng: &mut Prng, units: u32) -> Lpn {
    let rank = if rng.chance(0.8) { rng.below(units / 5) } else { rng.below(units) };
    // Neighbours in rank are no neighbours in address.
    Lpn::new((u64::from(rank) * 7919 % u64::from(units)) as u32)
}

#[test]
fn sepbit_does_what_the_paper_says_block_by_block() {
    for streams in [4_u8, 6, 9] {
        let (blocks, pages, units) = (120, 32, 3001_u32);
        let geometry = geometry(1, blocks, pages, 1);
        let policy = Formula::new(blocks, pages, "(1-u)/u*sqrt(age_closed)").expect("a formula");
        let chip: Chip<Untimed, NoMedium> = Chip::new(geometry, WearConfig::default(), Untimed::default(), 1);
        let config =
            PageMapConfig { placement: PlacementKind::SepBit { streams }, ..PageMapConfig::new(units) };
        let mut ftl = PageMap::new(chip, policy, config).expect("room");
        let mut naive = Naive::new(blocks as usize, pages as usize, streams.into());
        let mut rng = Prng::new(streams.into());
        for written in 0..60_000 {
            let lpn = if written < units { Lpn::new(written) } else { skewed(&mut rng, units) };
            ftl.write(T0, &[Unit { lpn, payload: () }], WriteContext::HOST).expect("progress");
            naive.host_write(lpn.get());
            let programs = ftl.nand().counts().total(NandOp::Program);
            assert_eq!(programs, naive.programs, "{streams} streams, after {written} writes");
        }
        ftl.check().expect("sound");
        assert!(naive.lifespan.is_finite() && naive.programs > 70_000, "{}", naive.programs);
        for block in (0..blocks).map(BlockId::new) {
            let expected = naive.valid(block.index()).len() as u32;
            assert_eq!(ftl.block_info(block).valid, expected, "{block:?}");
        }
    }
}

/// Units that come together are placed as if each had come alone.
#[test]
fn batches_change_nothing() {
    let run = |batch: usize| {
        let geometry = geometry(2, 40, 16, 1);
        let policy = Greedy::new(geometry.blocks());
        let chip: Chip<Untimed, NoMedium> = Chip::new(geometry, WearConfig::default(), Untimed::default(), 1);
        let placement = PlacementKind::SepBit { streams: 6 };
        let mut ftl =
            PageMap::new(chip, policy, PageMapConfig { placement, ..PageMapConfig::new(700) }).expect("room");
        let mut rng = Prng::new(5);
        let units: Vec<_> = (0..20_000).map(|_| Unit { lpn: skewed(&mut rng, 700), payload: () }).collect();
        for units in units.chunks(batch) {
            ftl.write(T0, units, WriteContext::HOST).expect("progress");
        }
        ftl.check().expect("sound");
        (0..80).map(|block| ftl.block_info(BlockId::new(block))).collect::<Vec<_>>()
    };
    let one = run(1);
    for batch in [2, 7, 500] {
        assert_eq!(run(batch), one, "{batch} units at a time");
    }
}

type Stamped = PageMap<Chip<Untimed, StampMedium>, Greedy>;

fn stamped(geometry: Geometry, config: PageMapConfig) -> Stamped {
    let policy = Greedy::new(geometry.blocks());
    PageMap::new(Chip::new(geometry, WearConfig::default(), Untimed::default(), 1), policy, config)
        .expect("room")
}

/// Valid units of each block, by handle: handle h writes the units whose number is h modulo the number of handles. Each
/// write has a stamp of its own, which tells the valid version.
fn handles_by_block(ftl: &Stamped, handles: u32) -> Vec<Vec<u32>> {
    let (nand, geometry) = (ftl.nand(), ftl.nand().geometry());
    let mut blocks = vec![vec![0; handles as usize]; geometry.blocks() as usize];
    for unit in (0..geometry.units()).map(Ppa::new) {
        if let Some(lpn) = nand.lpn(unit)
            && nand.payload(unit) == ftl.peek(lpn)
        {
            blocks[geometry.block_of(unit).index()][(lpn.get() % handles) as usize] += 1;
        }
    }
    blocks
}

#[test]
fn handles_share_blocks_only_where_relocation_may_mix_them() {
    for isolation in [Isolation::Initial, Isolation::Persistent] {
        let count = 3;
        let geometry = geometry(2, 48, 16, 2);
        let placement = PlacementKind::Handles { count, isolation };
        let mut ftl = stamped(geometry, PageMapConfig { placement, ..PageMapConfig::new(1500) });
        assert_eq!(ftl.handles(), u16::from(count));
        let mut rng = Prng::new(3);
        for stamp in 0..20_000 {
            let handle = rng.below(count.into());
            let first = rng.below(499);
            let unit = |at: u32| Lpn::new((first + at) * u32::from(count) + handle);
            let units = [0, 1].map(|at| Unit { lpn: unit(at), payload: 2 * stamp + u64::from(at) + 1 });
            let context = WriteContext { cause: Cause::Host, tag: DataTag::placed(handle as u16) };
            ftl.write(T0, &units, context).expect("progress");
        }
        ftl.check().expect("sound");
        assert!(ftl.stats().gc.units_moved > 1000, "{:?}", ftl.stats().gc);
        let blocks = handles_by_block(&ftl, count.into());
        let kinds = |handles: &Vec<u32>| handles.iter().filter(|&&units| units > 0).count();
        for (block, handles) in (0..).map(BlockId::new).zip(&blocks) {
            let info = ftl.block_info(block);
            assert_eq!(info.valid, handles.iter().sum::<u32>(), "{block:?}");
            let may_mix = isolation == Isolation::Initial && info.stream != Stream::Host;
            assert!(may_mix || kinds(handles) <= 1, "{block:?}: {handles:?} {info:?}");
        }
        let mixed = blocks.iter().filter(|handles| kinds(handles) > 1).count();
        assert_eq!(mixed > 3, isolation == Isolation::Initial, "{mixed} blocks");
    }
}

#[test]
fn hinted_metadata_has_blocks_of_its_own() {
    let geometry = geometry(1, 48, 16, 1);
    let mut ftl =
        stamped(geometry, PageMapConfig { placement: PlacementKind::Hints, ..PageMapConfig::new(500) });
    for lpn in (0..500).map(Lpn::new) {
        let hint = if lpn.get() % 2 == 0 { Hint::Metadata } else { Hint::None };
        let context = WriteContext { cause: Cause::Host, tag: hint.into() };
        ftl.write(T0, &[Unit { lpn, payload: u64::from(lpn.get()) + 1 }], context).expect("progress");
    }
    for handles in handles_by_block(&ftl, 2) {
        assert!(handles.contains(&0), "{handles:?}");
    }
}
