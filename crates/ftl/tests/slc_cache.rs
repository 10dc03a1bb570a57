//! The SLC cache against a naive model with one plane, one unit per page and victims in closing order.

use std::collections::VecDeque;

use strobe_ftl::gc::{Sampled, Sampling};
use strobe_ftl::{Inspectable, MappingScheme, PageMap, PageMapConfig, SlcConfig, WhenFull, WriteContext};
use strobe_nand::{Cause, Chip, Nand, NandOp, StampMedium, Unit, Untimed, WearConfig, When};
use strobe_types::{Geometry, GeometrySpec, Lpn, Prng};

const T0: When = When::START;

#[derive(Clone, Debug, Default)]
struct Block {
    pages: Vec<u32>,
    is_static: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    host_programs: u64,
    copies: u64,
    erases: u64,
    cached: u64,
    direct: u64,
    folds: u64,
    folded: u64,
    in_use: u32,
}

#[derive(Debug)]
struct Model {
    slc: SlcConfig,
    pages: usize,
    slc_pages: usize,
    min_free: usize,
    blocks: Vec<Block>,
    map: Vec<Option<(usize, usize)>>,
    free: VecDeque<usize>,
    erased_static: VecDeque<usize>,
    closed: VecDeque<usize>,
    full: VecDeque<usize>,
    open_slc: Option<usize>,
    open_host: Option<usize>,
    open_gc: Option<usize>,
    dynamic: usize,
    tick: u64,
    look_at: u64,
    counts: Counts,
}

impl Model {
    fn new(slc: SlcConfig, blocks: usize, pages: usize, bits: usize, units: u32) -> Self {
        let first_static = blocks - slc.static_blocks as usize;
        let block = |at| Block { pages: Vec::new(), is_static: at >= first_static };
        Self {
            slc,
            pages,
            slc_pages: pages / bits,
            min_free: 3 + usize::from(slc.static_blocks > 0),
            blocks: (0..blocks).map(block).collect(),
            map: vec![None; units as usize],
            free: (0..first_static).collect(),
            erased_static: (first_static..blocks).collect(),
            closed: VecDeque::new(),
            full: VecDeque::new(),
            open_slc: None,
            open_host: None,
            open_gc: None,
            dynamic: 0,
            tick: 1,
            look_at: 0,
            counts: Counts::default(),
        }
    }

    fn valid(&self, block: usize) -> Vec<u32> {
        let pages = self.blocks[block].pages.iter().enumerate();
        pages
            .filter(|&(page, &lpn)| self.map[lpn as usize] == Some((block, page)))
            .map(|(_, &lpn)| lpn)
            .collect()
    }

    fn dynamic_left(&self) -> usize {
        let left = (self.slc.dynamic_blocks as usize).saturating_sub(self.dynamic);
        left.min(self.free.len().saturating_sub(self.min_free + 2))
    }

    fn has_cache_space(&self) -> bool {
        self.open_slc.is_some() || !self.erased_static.is_empty() || self.dynamic_left() > 0
    }

    fn program(&mut self, block: usize, lpn: u32) {
        self.map[lpn as usize] = Some((block, self.blocks[block].pages.len()));
        self.blocks[block].pages.push(lpn);
    }

    fn write(&mut self, lpn: u32) {
        if !self.has_cache_space() {
            match self.slc.when_full {
                WhenFull::Fold => self.fold_first(),
                WhenFull::Direct if self.tick >= self.look_at => {
                    self.look_at = self.tick + self.slc_pages as u64;
                    let empty: Vec<usize> =
                        self.full.iter().copied().filter(|&block| self.valid(block).is_empty()).collect();
                    empty.into_iter().for_each(|block| self.empty(block, true));
                }
                WhenFull::Direct => {}
            }
        }
        let is_cached = self.has_cache_space();
        let block = if is_cached { self.slc_block() } else { self.host_block() };
        self.tick += 1;
        self.program(block, lpn);
        self.counts.host_programs += 1;
        if is_cached {
            self.counts.cached += 1;
            if self.blocks[block].pages.len() == self.slc_pages {
                self.open_slc = None;
                self.full.push_back(block);
            }
        } else {
            self.counts.direct += 1;
            if self.blocks[block].pages.len() == self.pages {
                self.open_host = None;
                self.closed.push_back(block);
            }
        }
        while self.slc.fold_at > 0 && self.counts.in_use >= self.slc.fold_at && !self.full.is_empty() {
            self.fold_first();
        }
    }

    fn trim(&mut self, lpn: u32) {
        self.tick += u64::from(self.map[lpn as usize].take().is_some());
    }

    fn slc_block(&mut self) -> usize {
        if let Some(block) = self.open_slc {
            return block;
        }
        let block = self.erased_static.pop_front().unwrap_or_else(|| {
            self.dynamic += 1;
            self.free.pop_front().expect("there is room")
        });
        self.counts.in_use += 1;
        self.open_slc = Some(block);
        block
    }

    fn host_block(&mut self) -> usize {
        if self.open_host.is_none() {
            self.collect_if_short();
            self.open_host = self.free.pop_front();
        }
        self.open_host.expect("collected")
    }

    fn collect_if_short(&mut self) {
        if self.free.len() >= self.min_free {
            return;
        }
        let target = self.min_free.max(self.free.len() + 1);
        while self.free.len() < target {
            let dynamic = self.full.iter().copied().find(|&block| !self.blocks[block].is_static);
            match dynamic {
                Some(block) => self.empty(block, true),
                None => {
                    let block = self.closed.pop_front().expect("a block is closed");
                    self.empty(block, false);
                }
            }
        }
    }

    fn fold_first(&mut self) {
        self.collect_if_short();
        if let Some(&block) = self.full.front() {
            self.empty(block, true);
        }
    }

    fn empty(&mut self, block: usize, is_cached: bool) {
        for lpn in self.valid(block) {
            let to =
                *self.open_gc.get_or_insert_with(|| self.free.pop_front().expect("the reserve suffices"));
            self.program(to, lpn);
            self.counts.copies += 1;
            self.counts.folded += u64::from(is_cached);
            if self.blocks[to].pages.len() == self.pages {
                self.open_gc = None;
                self.closed.push_back(to);
            }
        }
        self.blocks[block].pages.clear();
        self.counts.erases += 1;
        if is_cached {
            self.counts.folds += 1;
            self.counts.in_use -= 1;
            self.full.retain(|&other| other != block);
        }
        if self.blocks[block].is_static {
            self.erased_static.push_back(block);
        } else {
            self.dynamic -= usize::from(is_cached);
            self.free.push_back(block);
        }
    }
}

type TestMap = PageMap<Chip<Untimed, StampMedium>, Sampled>;

fn counted(ftl: &TestMap) -> Counts {
    let nand = ftl.nand().counts();
    let slc = ftl.stats().slc.expect("a cache");
    assert_eq!(nand.get(NandOp::Read, Cause::Gc), nand.get(NandOp::Program, Cause::Gc));
    assert_eq!(ftl.stats().gc.units_moved + slc.units_folded, nand.get(NandOp::Program, Cause::Gc));
    assert_eq!(ftl.stats().gc.victims + slc.blocks_folded, nand.total(NandOp::Erase));
    assert_eq!(slc.blocks_erased, slc.blocks_folded);
    Counts {
        host_programs: nand.get(NandOp::Program, Cause::Host),
        copies: nand.get(NandOp::Program, Cause::Gc),
        erases: nand.total(NandOp::Erase),
        cached: slc.units_cached,
        direct: slc.units_direct,
        folds: slc.blocks_folded,
        folded: slc.units_folded,
        in_use: ftl.slc_blocks().expect("a cache"),
    }
}

fn compare(seed: u64) -> Counts {
    let mut rng = Prng::new(seed);
    let mut pick = |choices: &[u32]| choices[rng.below(choices.len() as u32) as usize];
    let bits = pick(&[2, 3, 4]);
    let (pages, blocks) = (bits * pick(&[1, 2, 3, 5]), pick(&[14, 20, 30]));
    let (static_blocks, mut dynamic_blocks) = (pick(&[0, 1, 2, 4]), pick(&[0, 1, 5, 50]));
    if static_blocks + dynamic_blocks == 0 {
        dynamic_blocks = 3;
    }
    let slc = SlcConfig {
        static_blocks,
        dynamic_blocks,
        fold_at: pick(&[0, 0, 1, 2, 6]),
        fold_idle_ns: 0,
        when_full: [WhenFull::Direct, WhenFull::Fold][pick(&[0, 1]) as usize],
    };
    let share = pick(&[30, 70, 100]);
    let spec = GeometrySpec {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: blocks,
        pages_per_block: pages,
        page_bytes: 512,
        unit_bytes: 512,
    };
    let geometry = Geometry::new(spec).expect("valid");
    let config = PageMapConfig { slc: Some(slc), ..PageMapConfig::new(0) };
    let room = config.capacity(&geometry, blocks).capacity_units() as u32;
    let config = PageMapConfig { logical_units: (room * share / 100).max(1), ..config };
    let chip = Chip::new(geometry, WearConfig::default(), Untimed::default(), 1).with_slc(bits);
    let mut ftl: TestMap =
        PageMap::new(chip, Sampled::new(blocks, Sampling::Fifo), config).expect("capacity was computed");
    let mut model = Model::new(slc, blocks as usize, pages as usize, bits as usize, config.logical_units);
    let what = format!(
        "seed {seed}: {bits} bits, {blocks} blocks of {pages}, {} units, {slc:?}",
        config.logical_units
    );
    let mut stamps = vec![0; config.logical_units as usize];
    let (mut stamp, hot) = (0, 1 + rng.below(config.logical_units));
    for step in 0..400 {
        let most = if rng.below(3) > 0 { hot } else { config.logical_units };
        let first = rng.below(most);
        let count = 1 + rng.below((config.logical_units - first).min(if step % 7 == 0 { 50 } else { 5 }));
        if rng.below(8) == 0 {
            ftl.trim(T0, Lpn::new(first), count).expect("trims");
            (first..first + count).for_each(|lpn| {
                model.trim(lpn);
                stamps[lpn as usize] = 0;
            });
        } else {
            let units: Vec<Unit<u64>> = (first..first + count)
                .map(|lpn| {
                    stamp += 1;
                    stamps[lpn as usize] = stamp;
                    Unit { lpn: Lpn::new(lpn), payload: stamp }
                })
                .collect();
            ftl.write(T0, &units, WriteContext::HOST).expect("progress is guaranteed");
            (first..first + count).for_each(|lpn| model.write(lpn));
        }
        assert_eq!(counted(&ftl), model.counts, "{what} step {step}");
        if step % 16 == 0 {
            ftl.check().unwrap_or_else(|error| panic!("{what} step {step}: {error}"));
            let mut read = Vec::new();
            ftl.read(T0, Lpn::new(0), config.logical_units, &mut read).expect("reads");
            assert_eq!(read, stamps, "{what} step {step}");
        }
    }
    model.counts
}

#[test]
fn contents_and_counts_are_those_of_a_naive_cache() {
    let (mut cached, mut direct, mut folded, mut empty) = (0, 0, 0, 0);
    for seed in 0..600 {
        let counts = compare(seed);
        cached += counts.cached;
        direct += counts.direct;
        folded += counts.folded;
        empty += u64::from(counts.folds > counts.folded);
    }
    // Every path was taken often.
    assert!(cached.min(direct).min(folded) > 50_000, "{cached} cached, {direct} direct, {folded} folded");
    assert!(empty > 20, "{empty} drives erased blocks without copies");
}

fn geometry() -> Geometry {
    Geometry::new(GeometrySpec {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: 64,
        pages_per_block: 12,
        page_bytes: 512,
        unit_bytes: 512,
    })
    .expect("valid")
}

/// 64 three-bit blocks of 12 pages, half of the capacity logical.
fn half_full(slc: SlcConfig) -> TestMap {
    let geometry = geometry();
    let chip = Chip::new(geometry, WearConfig::default(), Untimed::default(), 1).with_slc(3);
    let config = PageMapConfig { slc: Some(slc), ..PageMapConfig::new(384) };
    PageMap::new(chip, Sampled::new(64, Sampling::Fifo), config).expect("room")
}

fn fill(ftl: &mut TestMap) {
    for lpn in (0..384).map(Lpn::new) {
        ftl.write(T0, &[Unit { lpn, payload: 1 }], WriteContext::HOST).expect("room");
    }
}

#[test]
fn a_fill_costs_two_programs_a_page_if_all_is_folded_and_one_if_it_goes_past_the_cache() {
    // Each block is folded as soon as it is full: in the end at most one is open.
    let folded =
        SlcConfig { static_blocks: 4, fold_at: 1, when_full: WhenFull::Fold, ..SlcConfig::default() };
    let mut ftl = half_full(folded);
    fill(&mut ftl);
    assert_eq!(ftl.nand().counts().total(NandOp::Program), 2 * 384);
    assert_eq!(ftl.stats().slc.expect("a cache").units_folded, 384);
    assert_eq!(ftl.slc_blocks(), Some(0));
    // Four blocks of four pages are cached, and stay cached.
    let mut ftl = half_full(SlcConfig { static_blocks: 4, ..SlcConfig::default() });
    fill(&mut ftl);
    assert_eq!(ftl.nand().counts().total(NandOp::Program), 384);
    let slc = ftl.stats().slc.expect("a cache");
    assert_eq!((slc.units_cached, slc.units_direct), (16, 368));
}

#[test]
fn the_whole_share_is_refused_where_it_leaves_no_room() {
    let geometry = geometry();
    let slc = SlcConfig { static_blocks: 40, ..SlcConfig::default() };
    let config = PageMapConfig { slc: Some(slc), ..PageMapConfig::new(384) };
    let error = config.capacity(&geometry, 64).check().expect_err("no room").to_string();
    assert!(error.contains("drive.ftl.slc_cache.static_blocks"), "{error}");
    assert!(error.contains("40 always in SLC mode"), "{error}");
}
