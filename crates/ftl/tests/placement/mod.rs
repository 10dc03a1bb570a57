//! Published placement schemes against a simulator written from their descriptions, and rules of streams.

mod formulas;
mod midas;
mod midas_layout;
mod naive;
mod schemes;
mod two_r;

use strobe_ftl::gc::{Formula, Greedy, Grouped};
use strobe_ftl::{
    DataTag, FormulaPlacement, Hint, Inspectable as _, Isolation, MappingScheme as _, PageMap, PageMapConfig,
    Placement, PlacementKind, Stream, WriteContext,
};
use strobe_nand::{Cause, Chip, Nand as _, NandOp, NoMedium, StampMedium, Unit, Untimed, WearConfig, When};
use strobe_types::{BlockId, Geometry, GeometrySpec, Lpn, Ppa, Prng, State as _, StateReader, StateWriter};

use formulas::FORMULAS;
use naive::Naive;

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

fn skewed(rng: &mut Prng, units: u32) -> Lpn {
    let rank = if rng.chance(0.8) { rng.below(units / 5) } else { rng.below(units) };
    // Ranks are scattered over the addresses.
    Lpn::new((u64::from(rank) * 7919 % u64::from(units)) as u32)
}

#[derive(Clone, Copy, Debug)]
enum By {
    Name(PlacementKind),
    Formula(&'static str),
}

impl By {
    fn kind(self) -> PlacementKind {
        match self {
            By::Name(kind) => kind,
            By::Formula(text) => PlacementKind::Own(FormulaPlacement::layout(text, 6, 1).expect("a formula")),
        }
    }

    fn own(self, logical_units: u32) -> Option<Box<dyn Placement>> {
        let By::Formula(text) = self else { return None };
        Some(Box::new(FormulaPlacement::new(text, 6, 1, logical_units).expect("a formula")))
    }
}

impl From<PlacementKind> for By {
    fn from(kind: PlacementKind) -> Self {
        By::Name(kind)
    }
}

type Drive = PageMap<Chip<Untimed, NoMedium>, Formula>;

fn drive(geometry: Geometry, by: By, config: PageMapConfig) -> Drive {
    let config = PageMapConfig { placement: by.kind(), ..config };
    let (blocks, units) = (geometry.blocks(), geometry.units_per_block());
    let policy = Formula::new(blocks, units, "(1-u)/u*sqrt(age_closed)").expect("a formula");
    let chip = Chip::new(geometry, WearConfig::default(), Untimed::default(), 1);
    PageMap::with_placement(chip, policy, by.own(config.logical_units), config).expect("room")
}

const UNITS: u32 = 3001;

fn does_what_is_published(placement: impl Into<By>, garbage_ppm: Option<u32>) {
    let by = placement.into();
    // With collection by garbage share, blocks never run short.
    let (blocks, pages, units) = (if garbage_ppm.is_some() { 240 } else { 120 }, 32, UNITS);
    let config = PageMapConfig { garbage_ppm, ..PageMapConfig::new(units) };
    let mut ftl = drive(geometry(1, blocks, pages, 1), by, config);
    let rules = naive::rules(by, pages as usize);
    let share = garbage_ppm.map(|ppm| f64::from(ppm) / 1e6);
    let mut naive = Naive::new([blocks, pages, units].map(|count| count as usize), rules, share);
    let mut rng = Prng::new(6);
    // The garbage share is counted unit by unit.
    let writes: u64 = if garbage_ppm.is_some() { 12_000 } else { 40_000 };
    for written in 0..writes {
        // All in turn, then skewed, in turn again, skewed again.
        let is_in_turn = written < u64::from(units) || written / 10_000 % 2 == 1;
        let in_turn = Lpn::new((written % u64::from(units)) as u32);
        let lpn = if is_in_turn { in_turn } else { skewed(&mut rng, units) };
        ftl.write(T0, &[Unit { lpn, payload: () }], WriteContext::HOST).expect("progress");
        naive.host_write(lpn.get());
        let programs = ftl.nand().counts().total(NandOp::Program);
        assert_eq!(programs, naive.programs, "{by:?}, {garbage_ppm:?}, after {written} writes");
    }
    ftl.check().expect("sound");
    assert!(naive.programs > writes + writes / 10, "{by:?}: {}", naive.programs);
    assert!(garbage_ppm.is_some() || naive.rules.is_exercised(), "{by:?}");
    for block in (0..blocks).map(BlockId::new) {
        let expected = naive.valid(block.index()).len() as u32;
        assert_eq!(ftl.block_info(block).valid, expected, "{by:?}: {block:?}");
    }
}

#[test]
fn sepbit_and_its_halves_do_what_the_paper_says_block_by_block() {
    for streams in [3, 4, 6, 9] {
        does_what_is_published(PlacementKind::SepBit { streams }, None);
        does_what_is_published(PlacementKind::SepBitCopies { streams }, None);
    }
}

#[test]
fn schemes_of_levels_do_what_is_published_block_by_block() {
    for streams in [3, 6] {
        does_what_is_published(PlacementKind::Dac { streams }, None);
        does_what_is_published(PlacementKind::Fadac { streams }, None);
    }
}

#[test]
fn schemes_of_clusters_do_what_is_published_block_by_block() {
    for streams in [3, 6] {
        does_what_is_published(PlacementKind::Warcip { streams }, None);
        does_what_is_published(PlacementKind::Sfs { streams }, None);
    }
}

#[test]
fn formulas_do_what_they_say_block_by_block() {
    for text in FORMULAS {
        does_what_is_published(By::Formula(text), None);
    }
}

const SCHEMES: [By; 10] = [
    By::Name(PlacementKind::Single),
    By::Name(PlacementKind::SepBit { streams: 6 }),
    By::Name(PlacementKind::SepBitCopies { streams: 6 }),
    By::Name(PlacementKind::Dac { streams: 6 }),
    By::Name(PlacementKind::Fadac { streams: 6 }),
    By::Name(PlacementKind::Warcip { streams: 6 }),
    By::Name(PlacementKind::Sfs { streams: 6 }),
    By::Formula(FORMULAS[2]),
    By::Formula(FORMULAS[3]),
    By::Formula(FORMULAS[4]),
];

#[test]
fn collection_by_the_share_of_garbage_does_what_is_published_block_by_block() {
    for by in SCHEMES {
        does_what_is_published(by, Some(150_000));
    }
    does_what_is_published(PlacementKind::Single, Some(333_333));
}

/// Collection begins between pages.
#[test]
fn collection_by_the_share_of_garbage_takes_whole_pages() {
    let config = PageMapConfig { garbage_ppm: Some(100_000), ..PageMapConfig::new(1000) };
    let mut ftl = drive(geometry(1, 80, 16, 4), PlacementKind::Single.into(), config);
    let units: Vec<_> = (0..1000).map(|lpn| Unit { lpn: Lpn::new(lpn), payload: () }).collect();
    for round in 1..=11 {
        ftl.write(T0, &units, WriteContext::HOST).expect("progress");
        // Written in turn, blocks are empty when collected.
        assert_eq!(ftl.nand().counts().total(NandOp::Program), round * 250);
    }
    ftl.check().expect("sound");
    // A ninth more than the units need, plus open blocks.
    assert!(ftl.free_blocks() > 80 - 1000 * 10 / (9 * 64) - 4, "{}", ftl.free_blocks());
}

#[test]
fn batches_change_nothing() {
    for (by, garbage_ppm) in SCHEMES.map(|by| (by, None)).into_iter().chain([(SCHEMES[1], Some(200_000))]) {
        let run = |batch: usize| {
            let config = PageMapConfig { garbage_ppm, ..PageMapConfig::new(700) };
            let mut ftl = drive(geometry(2, 40, 16, 1), by, config);
            let mut rng = Prng::new(5);
            let units: Vec<_> =
                (0..20_000).map(|_| Unit { lpn: skewed(&mut rng, 700), payload: () }).collect();
            for units in units.chunks(batch) {
                ftl.write(T0, units, WriteContext::HOST).expect("progress");
            }
            ftl.check().expect("sound");
            (0..80).map(|block| ftl.block_info(BlockId::new(block))).collect::<Vec<_>>()
        };
        let one = run(1);
        for batch in [2, 7, 500] {
            assert_eq!(run(batch), one, "{by:?}: {batch} units at a time");
        }
    }
}

#[test]
fn a_saved_placement_goes_on_as_before() {
    for by in SCHEMES {
        let new = || drive(geometry(1, 60, 16, 1), by, PageMapConfig::new(700));
        let mut ftl = new();
        let mut rng = Prng::new(5);
        let mut next = || [Unit { lpn: skewed(&mut rng, 700), payload: () }];
        for _ in 0..15_000 {
            ftl.write(T0, &next(), WriteContext::HOST).expect("progress");
        }
        let mut bytes = Vec::new();
        let mut out = StateWriter::new(&mut bytes);
        ftl.save_state(&mut out);
        out.finish().expect("saved");
        let mut loaded = new();
        let length = bytes.len() as u64;
        loaded.load_state(&mut StateReader::new(&mut bytes.as_slice(), length)).expect("loaded");
        for _ in 0..5_000 {
            let unit = next();
            ftl.write(T0, &unit, WriteContext::HOST).expect("progress");
            loaded.write(T0, &unit, WriteContext::HOST).expect("progress");
        }
        let blocks =
            |ftl: &Drive| (0..60).map(|block| ftl.block_info(BlockId::new(block))).collect::<Vec<_>>();
        assert_eq!(blocks(&ftl), blocks(&loaded), "{by:?}");
    }
}

#[test]
fn a_formula_with_the_rule_of_a_scheme_is_that_scheme() {
    for (kind, text, min_free_blocks) in [
        (PlacementKind::Single, "is_copy", None),
        // No unit is relocated to the last level, so the formula needs one block less.
        (PlacementKind::Dac { streams: 6 }, "stream + 1 - 2 * is_copy", Some(14)),
        (PlacementKind::Hints, "is_metadata * (1 - is_copy) + 2 * is_copy", None),
    ] {
        let run = |by: By, units_per_page: u32, planes: u32| {
            let config = PageMapConfig { min_free_blocks, ..PageMapConfig::new(1100) };
            let mut ftl = drive(geometry(planes, 64, 32 / units_per_page, units_per_page), by, config);
            let mut rng = Prng::new(5);
            for _ in 0..6_000 {
                let units: [_; 4] =
                    std::array::from_fn(|_| Unit { lpn: skewed(&mut rng, 1100), payload: () });
                let hint = if units[0].lpn.get() % 3 == 0 { Hint::Metadata } else { Hint::None };
                let context = WriteContext { cause: Cause::Host, tag: ftl.relevant(hint.into()) };
                ftl.write(T0, &units, context).expect("progress");
            }
            assert!(ftl.stats().gc.units_moved > 200, "{by:?}: {:?}", ftl.stats().gc);
            let blocks = (0..64 * planes).map(|block| ftl.block_info(BlockId::new(block)));
            (ftl.stats().clone(), blocks.collect::<Vec<_>>())
        };
        for (units_per_page, planes) in [(1, 1), (4, 1), (1, 2), (2, 2)] {
            let (by_name, by_formula) =
                (run(kind.into(), units_per_page, planes), run(By::Formula(text), units_per_page, planes));
            assert_eq!(by_name, by_formula, "{text}: {units_per_page} units in a page, {planes} planes");
        }
    }
}

type Stamped = PageMap<Chip<Untimed, StampMedium>, Greedy>;

fn stamped(geometry: Geometry, config: PageMapConfig) -> Stamped {
    let policy = Greedy::new(geometry.blocks());
    PageMap::new(Chip::new(geometry, WearConfig::default(), Untimed::default(), 1), policy, config)
        .expect("room")
}

/// By handle: handle h writes units h modulo the number of handles. Unique stamps identify valid versions.
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
        let placement = PlacementKind::Handles { count, isolation, unit_blocks: 1, groups: 1 };
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
fn reclaim_groups_keep_their_data_on_their_dies() {
    for (isolation, groups, formula) in
        [(Isolation::Initial, 2, "1-u"), (Isolation::Persistent, 4, "(1-u)/u*sqrt(age_closed)")]
    {
        let count = 2;
        let geometry = geometry(4, 48, 16, 1);
        let placement = PlacementKind::Handles { count, isolation, unit_blocks: 1, groups };
        let chip = Chip::new(geometry.clone(), WearConfig::default(), Untimed::default(), 1);
        let policy = Formula::new(geometry.blocks(), geometry.units_per_block(), formula).expect("a formula");
        let policy = Grouped::new(vec![policy; groups.into()], &geometry);
        let config = PageMapConfig { placement, ..PageMapConfig::new(1600) };
        let mut ftl: PageMap<Chip<Untimed, NoMedium>, _> = PageMap::new(chip, policy, config).expect("room");
        assert_eq!(ftl.handles(), u16::from(count * groups));
        let mut rng = Prng::new(3);
        for _ in 0..30_000 {
            let lpn = rng.below(1600);
            // Each address has a fixed handle.
            let tag = DataTag::placed((lpn % u32::from(count * groups)) as u16);
            let unit = [Unit { lpn: Lpn::new(lpn), payload: () }];
            ftl.write(T0, &unit, WriteContext { cause: Cause::Host, tag }).expect("progress");
        }
        ftl.check().expect("sound");
        assert!(ftl.stats().gc.units_moved > 5000, "{:?}", ftl.stats().gc);
        assert!(ftl.stream_counts().iter().all(|counts| counts.redirected == 0));
        let blocks = geometry.blocks() / u32::from(groups);
        for lpn in (0..1600).map(Lpn::new) {
            let group = lpn.get() % u32::from(count * groups) / u32::from(count);
            let block = geometry.block_of(ftl.locate(lpn).expect("written"));
            assert_eq!(block.get() / blocks, group, "{lpn:?} is in {block:?}");
        }
    }
}

#[test]
fn a_reclaim_group_that_is_full_passes_writes_on() {
    for pages in [4, 16] {
        let geometry = geometry(2, 64, pages, 2);
        let placement =
            PlacementKind::Handles { count: 2, isolation: Isolation::Persistent, unit_blocks: 1, groups: 2 };
        let choices = PageMapConfig { placement, ..PageMapConfig::new(0) };
        let units = choices.capacity(&geometry, geometry.blocks()).capacity_units() as u32;
        let refused = PageMapConfig { logical_units: units + 1, ..choices };
        let text = refused.capacity(&geometry, geometry.blocks()).check().expect_err("too full").to_string();
        assert!(text.contains("2 reclaim groups share these"), "{text}");
        let chip: Chip<_, NoMedium> =
            Chip::new(geometry.clone(), WearConfig::default(), Untimed::default(), 1);
        let policy = Grouped::new(vec![Greedy::new(geometry.blocks()); 2], &geometry);
        let config = PageMapConfig { logical_units: units, ..choices };
        let mut ftl = PageMap::new(chip, policy, config).expect("room");
        let mut rng = Prng::new(5);
        // All to group 1, then to group 0, then to group 1.
        for handle in [2, 1, 3] {
            let context = WriteContext { cause: Cause::Host, tag: DataTag::placed(handle) };
            for lpn in (0..units).chain((0..3 * units).map(|_| rng.below(units))) {
                ftl.write(T0, &[Unit { lpn: Lpn::new(lpn), payload: () }], context).expect("progress");
            }
            ftl.check().expect("sound");
        }
        let redirected: u64 = ftl.stream_counts().iter().map(|counts| counts.redirected).sum();
        assert!(redirected > u64::from(units), "{pages} pages");
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
