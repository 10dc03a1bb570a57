//! The demand-paged page map: closed forms, and a naive model. Power cuts are in `power_cut.rs`.

use strobe_ftl::gc::{AnyPolicy, Greedy, Sampled, Sampling};
use strobe_ftl::wear::Leveling;
use strobe_ftl::{
    Allocation, GcStream, Inspectable, MappingScheme, PageMap, PageMapConfig, PlacementKind, Stage,
    Temperature, TranslationConfig, TranslationStats, WriteContext,
};
use strobe_nand::{Cause, Chip, Nand, NandOp, NoMedium, StampMedium, Unit, Untimed, WearConfig, When};
use strobe_types::{BlockId, Geometry, GeometrySpec, Lpn, Prng, SimTime};

pub(crate) const T0: When = When::START;

type TestChip = Chip<Untimed, StampMedium>;
type TestMap = PageMap<TestChip, AnyPolicy>;
pub(crate) type CountingMap = PageMap<Chip<Untimed, NoMedium>, Greedy>;

/// 512-byte pages, the paper's smallest: 128 entries per translation page.
pub(crate) fn spec(blocks: u32) -> GeometrySpec {
    GeometrySpec {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: blocks,
        pages_per_block: 32,
        page_bytes: 512,
        unit_bytes: 512,
    }
}

pub(crate) fn counting(blocks: u32, config: PageMapConfig) -> CountingMap {
    let geometry = Geometry::new(spec(blocks)).expect("valid");
    let chip = Chip::new(geometry, WearConfig::default(), Untimed::default(), 1);
    PageMap::new(chip, Greedy::new(blocks), config).expect("room")
}

pub(crate) fn write(map: &mut CountingMap, lpn: u32) {
    map.write(T0, &[Unit { lpn: Lpn::new(lpn), payload: () }], WriteContext::HOST)
        .expect("progress is guaranteed");
}

pub(crate) fn stats(map: &impl MappingScheme) -> TranslationStats {
    map.stats().translation.expect("demand-paged")
}

pub(crate) fn counts(map: &CountingMap, op: NandOp, cause: Cause) -> u64 {
    map.nand().counts().get(op, cause)
}

fn fill(map: &mut CountingMap) {
    (0..map.logical_units()).for_each(|lpn| write(map, lpn));
    map.flush(T0).expect("flushes");
}

fn is_near(value: f64, expected: f64, tolerance: f64) -> bool {
    (value / expected - 1.0).abs() <= tolerance
}

#[test]
fn uniform_writes_cost_what_the_closed_form_says() {
    const U: u32 = 8192;
    for (cached, protected_entries) in [(512, None), (2048, None), (2048, Some(0)), (4096, Some(3900))] {
        let how = TranslationConfig {
            protected_entries,
            batched_eviction: false,
            ..TranslationConfig::new(cached)
        };
        // Enough erased blocks to avoid any collection.
        let mut map = counting(9000, PageMapConfig { translation: Some(how), ..PageMapConfig::new(U) });
        fill(&mut map);
        let mut rng = Prng::new(7);
        (0..20_000).for_each(|_| write(&mut map, rng.below(U)));
        let before = (stats(&map), counts(&map, NandOp::Read, Cause::Map));
        let writes = 60_000_u32;
        (0..writes).for_each(|_| write(&mut map, rng.below(U)));
        let after = stats(&map).since(&before.0);
        assert_eq!(map.stats().gc.runs, 0);
        assert_eq!(counts(&map, NandOp::Read, Cause::Map) - before.1, after.tp_reads);
        let share = f64::from(cached) / f64::from(U);
        let per_write = |count: u64| count as f64 / f64::from(writes);
        assert!(is_near(per_write(after.hits), share, 0.03), "{cached}: {after:?}");
        assert!(is_near(per_write(after.misses), 1.0 - share, 0.02), "{cached}: {after:?}");
        assert!(is_near(per_write(after.tp_reads), 2.0 * (1.0 - share), 0.02), "{cached}: {after:?}");
        assert!(is_near(per_write(after.tp_programs), 1.0 - share, 0.02), "{cached}: {after:?}");
        assert_eq!(after.evictions, after.misses);
        assert_eq!((after.dirty_evictions, after.gc_tp_updates), (after.tp_programs, 0));
        map.check().expect("sound");
    }
}

#[test]
fn first_uses_are_misses_however_large_the_cache() {
    for cached in [63, 64, 65, 1000] {
        let translation = Some(TranslationConfig::new(cached));
        let mut map = counting(80, PageMapConfig { translation, ..PageMapConfig::new(64) });
        [0, 1, 0, 2].iter().for_each(|&lpn| write(&mut map, lpn));
        assert_eq!((stats(&map).hits, stats(&map).misses), (1, 3), "{cached}");
    }
    let translation = Some(TranslationConfig::loaded());
    let mut map = counting(80, PageMapConfig { translation, ..PageMapConfig::new(64) });
    [0, 1, 0, 2].iter().for_each(|&lpn| write(&mut map, lpn));
    assert_eq!((stats(&map).hits, stats(&map).misses), (4, 0));
}

#[test]
fn a_flush_reads_a_translation_page_only_for_entries_that_are_not_cached() {
    for (cached, reads) in [(100, 1), (200, 0), (256, 0)] {
        let translation = Some(TranslationConfig::new(cached));
        let mut map = counting(80, PageMapConfig { translation, ..PageMapConfig::new(256) });
        fill(&mut map);
        (0..256).for_each(|lpn| write(&mut map, lpn));
        let before = stats(&map);
        map.flush(T0).expect("flushes");
        let flush = stats(&map).since(&before);
        assert_eq!((flush.tp_reads, flush.tp_programs > 0), (reads, true), "{cached}");
    }
}

#[test]
fn every_program_is_the_hosts_a_copy_or_a_translation_page() {
    for batched_eviction in [false, true] {
        let how = TranslationConfig { batched_eviction, ..TranslationConfig::new(500) };
        let mut map = counting(400, PageMapConfig { translation: Some(how), ..PageMapConfig::new(9000) });
        fill(&mut map);
        let mut rng = Prng::new(3);
        let writes = 60_000_u32;
        (0..writes).for_each(|_| write(&mut map, rng.below(9000)));
        map.check().expect("sound");
        let after = stats(&map);
        let programs = |cause| counts(&map, NandOp::Program, cause);
        assert_eq!(programs(Cause::Host), u64::from(9000 + writes));
        assert_eq!(programs(Cause::Gc), map.stats().gc.units_moved);
        assert_eq!(programs(Cause::Map), after.tp_programs);
        assert_eq!(counts(&map, NandOp::Read, Cause::Map), after.tp_reads);
        let total = map.nand().counts().total(NandOp::Program);
        assert_eq!(total, map.stats().host_units_written + map.stats().gc.units_moved + after.tp_programs);
        assert!(after.gc_tp_updates > 0 && map.stats().gc.units_moved > 0);
        // Uniform use: collection and batching do not change the cached set.
        let hits = after.hits as f64 / f64::from(writes);
        assert!(is_near(hits, 500.0 / 9000.0, 0.05), "{hits} {after:?}");
        // Apart from the flush of the fill, each program has one reason.
        let reasons = after.dirty_evictions + after.gc_tp_updates;
        assert!(after.tp_programs - reasons <= 9000 / 128 + 1, "{after:?}");
    }
}

fn run(how: TranslationConfig, writes: u32, mut next: impl FnMut(&mut Prng, u32) -> u32) -> TranslationStats {
    let mut map = counting(400, PageMapConfig { translation: Some(how), ..PageMapConfig::new(8192) });
    fill(&mut map);
    let before = stats(&map);
    let mut rng = Prng::new(5);
    (0..writes).for_each(|at| write(&mut map, next(&mut rng, at)));
    map.check().expect("sound");
    stats(&map).since(&before)
}

#[test]
fn batching_lowers_programs_and_nothing_else() {
    let workloads: [fn(&mut Prng, u32) -> u32; 3] = [
        |rng, _| rng.below(8192),
        |_, at| at % 8192,
        |rng, _| if rng.below(10) > 0 { rng.below(800) } else { rng.below(8192) },
    ];
    for next in workloads {
        let [single, batched] = [false, true].map(|batched_eviction| {
            run(TranslationConfig { batched_eviction, ..TranslationConfig::new(512) }, 30_000, next)
        });
        assert_eq!((single.hits, single.misses), (batched.hits, batched.misses));
        assert!(batched.tp_programs < single.tp_programs, "{batched:?} {single:?}");
        assert!(batched.dirty_evictions < single.dirty_evictions, "{batched:?} {single:?}");
    }
}

#[test]
fn sequential_writes_need_one_program_and_one_read_for_many_entries() {
    let next = |_: &mut Prng, at| at % 8192;
    let paper = run(TranslationConfig::new(512), 32_768, next);
    // No entry is reused before its eviction, but all dirty entries of a page are evicted together.
    assert_eq!(paper.hits, 0);
    assert!(paper.dirty_evictions <= 32_768 / 128 + 1, "{paper:?}");
}

#[test]
fn hot_entries_stay_and_protection_keeps_a_scan_from_driving_them_out() {
    let how =
        |protected| TranslationConfig { protected_entries: Some(protected), ..TranslationConfig::new(512) };
    let uniform = run(how(256), 30_000, |rng, _| rng.below(8192));
    let skewed = |rng: &mut Prng, _| if rng.below(10) > 0 { rng.below(400) } else { rng.below(8192) };
    let hot = run(how(256), 30_000, skewed);
    assert!(hot.hits > 8 * uniform.hits, "{hot:?} {uniform:?}");
    // A hot set of 250 entries between scans of a thousand others.
    let mixed = |rng: &mut Prng, at: u32| match at % 2000 {
        turn if turn < 1000 => rng.below(250),
        turn => 1000 + (at / 2000 * 1000 + turn - 1000) % 7000,
    };
    let (segmented, plain) = (run(how(256), 60_000, mixed), run(how(0), 60_000, mixed));
    assert!(segmented.hits > plain.hits + 5000, "{segmented:?} {plain:?}");
}

fn most_units(geometry: &Geometry, choices: PageMapConfig, good_blocks: u32) -> Option<u32> {
    (1..geometry.units()).rev().find(|&units| {
        let config = PageMapConfig { logical_units: units, ..choices };
        config.capacity(geometry, good_blocks).check().is_ok()
    })
}

struct Model {
    stamps: Vec<u64>,
    next: u64,
}

impl Model {
    fn write(&mut self, map: &mut TestMap, first: u32, count: u32) {
        let units: Vec<Unit<u64>> = (first..first + count)
            .map(|lpn| Unit { lpn: Lpn::new(lpn), payload: self.next + u64::from(lpn) })
            .collect();
        self.next += u64::from(first + count);
        units.iter().for_each(|unit| self.stamps[unit.lpn.index()] = unit.payload);
        map.write(T0, &units, WriteContext::HOST).expect("progress is guaranteed");
    }

    fn compare(&self, map: &mut TestMap, first: u32, count: u32) {
        let mut read = Vec::new();
        map.read(T0, Lpn::new(first), count, &mut read).expect("reads");
        assert_eq!(read, self.stamps[first as usize..(first + count) as usize]);
    }
}

fn exercise(map: &mut TestMap, seed: u64, commands: u32) {
    let units = map.logical_units();
    let mut model = Model { stamps: vec![0; units as usize], next: 1 };
    let mut rng = Prng::new(seed);
    let trims = rng.below(2) * 2;
    for step in 0..commands {
        let first = rng.below(units);
        let most = if rng.below(8) == 0 { 40 } else { 6 };
        let count = 1 + rng.below((units - first).min(most));
        match rng.below(12) {
            kind if kind < trims => {
                map.trim(T0, Lpn::new(first), count).expect("trims");
                model.stamps[first as usize..(first + count) as usize].fill(0);
            }
            2 => {
                map.flush(T0).expect("flushes");
            }
            3 => {
                let to = rng.below(units - count + 1);
                if to + count <= first || first + count <= to {
                    map.copy(T0, Lpn::new(first), Lpn::new(to), count).expect("copies");
                    model.stamps.copy_within(first as usize..(first + count) as usize, to as usize);
                }
            }
            4 | 5 => model.compare(map, first, count),
            _ => model.write(map, first, count),
        }
        map.check().unwrap_or_else(|error| panic!("step {step}: {error}"));
        let mapped = model.stamps.iter().filter(|&&stamp| stamp != 0).count() as u32;
        assert_eq!(map.mapped_units(), mapped);
    }
    model.compare(map, 0, units);
}

fn any_full_drive(seed: u64) -> Option<TestMap> {
    let mut rng = Prng::new(seed);
    let mut pick = |choices: &[u32]| choices[rng.below(choices.len() as u32) as usize];
    let units_per_page = pick(&[1, 1, 2, 4]);
    let spec = GeometrySpec {
        channels: pick(&[1, 1, 2]),
        dies_per_channel: pick(&[1, 1, 2]),
        planes_per_die: pick(&[1, 1, 2]),
        blocks_per_plane: pick(&[14, 20, 28]),
        pages_per_block: pick(&[1, 2, 4, 8]),
        page_bytes: units_per_page * 512,
        unit_bytes: 512,
    };
    let translation = TranslationConfig {
        protected_entries: [None, Some(0), Some(1000)][pick(&[0, 1, 2]) as usize],
        entry_bytes: pick(&[4, 64, 128, 512]),
        batched_eviction: pick(&[0, 1]) == 1,
        ..TranslationConfig::new(pick(&[0, 1, 6, 20, 50, 10_000]))
    };
    let choices = PageMapConfig {
        gc_stream: [GcStream::Own, GcStream::Host][pick(&[0, 1]) as usize],
        net_blocks: pick(&[1, 1, 3]),
        placement: [PlacementKind::Single, PlacementKind::HotCold, PlacementKind::Sorted]
            [pick(&[0, 0, 1, 2]) as usize],
        temperature: [Temperature::UpdateCount, Temperature::LastWrite][pick(&[0, 1]) as usize],
        allocation: [Allocation::Fifo, Allocation::Adaptive, Allocation::AboveAverage]
            [pick(&[0, 1, 2]) as usize],
        leveling: [None, Some(Leveling::Swap { threshold: 2 }), Some(Leveling::DualPool { threshold: 2 })]
            [pick(&[0, 0, 1, 2]) as usize],
        durable: pick(&[0, 1]) == 1,
        translation: Some(translation),
        seed,
        ..PageMapConfig::new(0)
    };
    let wear = WearConfig { factory_bad_blocks: pick(&[0, 1]), ..WearConfig::default() };
    let geometry = Geometry::new(spec).expect("valid");
    let blocks = geometry.blocks();
    let policy: AnyPolicy = match pick(&[0, 0, 1, 2]) {
        0 => AnyPolicy::new(Greedy::new(blocks)),
        1 => AnyPolicy::new(Sampled::new(blocks, Sampling::Fifo)),
        _ => AnyPolicy::new(Sampled::new(blocks, Sampling::Choices(1))),
    };
    let logical_units = most_units(&geometry, choices, blocks - wear.factory_bad_blocks)?;
    let chip = Chip::new(geometry, wear, Untimed::default(), seed);
    Some(PageMap::new(chip, policy, PageMapConfig { logical_units, ..choices }).expect("there is room"))
}

#[test]
fn any_full_drive_agrees_with_a_naive_model() {
    let (mut drives, mut collected, mut updated) = (0, 0, 0);
    for seed in 0..400 {
        let Some(mut map) = any_full_drive(seed) else { continue };
        exercise(&mut map, seed, 300);
        drives += 1;
        collected += u32::from(map.stats().gc.victims > 10);
        updated += u32::from(stats(&map).gc_tp_updates > 10);
    }
    assert!(drives > 300 && collected > 250 && updated > 150, "{drives} {collected} {updated}");
}

#[test]
fn too_little_spare_is_refused_with_the_arithmetic() {
    let geometry = Geometry::new(spec(64)).expect("valid");
    let how = TranslationConfig::new(64);
    let choices = PageMapConfig { translation: Some(how), ..PageMapConfig::new(0) };
    let most = most_units(&geometry, choices, 64).expect("room");
    let whole = most_units(&geometry, PageMapConfig::new(0), 64).expect("room");
    // One more open block, two more in the reserve, and one full of translation pages.
    assert_eq!((whole, most), ((64 - 2 - 2) * 32 - 1, (64 - 3 - 4 - 1) * 32 - 1));
    let build = |logical_units| {
        let chip: TestChip = Chip::new(geometry.clone(), WearConfig::default(), Untimed::default(), 1);
        PageMap::new(chip, Greedy::new(64), PageMapConfig { logical_units, ..choices }).map(drop)
    };
    build(most).expect("fits");
    let refused = build(most + 1).expect_err("too full").to_string();
    assert!(refused.contains(&format!("logical_pages to at most {most}")), "{refused}");
    assert!(refused.contains("plus 1 blocks reserved for the map"), "{refused}");
}

#[test]
fn the_same_seed_does_the_same_and_a_clone_goes_its_own_way() {
    let how = TranslationConfig::new(100);
    let config = PageMapConfig { translation: Some(how), ..PageMapConfig::new(3000) };
    let mut twins = [(); 2].map(|()| counting(128, config));
    for map in &mut twins {
        let mut rng = Prng::new(11);
        (0..20_000).for_each(|_| write(map, rng.below(3000)));
    }
    let [one, mut two] = twins;
    assert_eq!(stats(&one), stats(&two));
    assert_eq!(one.nand().counts(), two.nand().counts());
    let mut clone = one.clone();
    for map in [&mut clone, &mut two] {
        (0..5000).for_each(|at| write(map, at * 7 % 3000));
    }
    assert_eq!(stats(&clone), stats(&two));
    assert_ne!(stats(&one), stats(&two));
    one.check().expect("untouched");
}

#[test]
fn a_read_of_what_is_not_cached_reads_its_translation_page_first() {
    let how = TranslationConfig::new(2);
    let mut map = counting(64, PageMapConfig { translation: Some(how), ..PageMapConfig::new(300) });
    let map_reads = |map: &CountingMap| counts(map, NandOp::Read, Cause::Map);
    // Nothing was written yet: no translation page exists to be read.
    map.read(T0, Lpn::new(0), 5, &mut Vec::new()).expect("reads");
    assert_eq!((map_reads(&map), stats(&map).misses), (0, 5));
    [7, 8, 9].iter().for_each(|&lpn| write(&mut map, lpn));
    // 9 evicted 7: the translation page was written without a read, then read for 9.
    assert_eq!((map_reads(&map), stats(&map).tp_programs), (1, 1));
    map.read(T0, Lpn::new(9), 1, &mut Vec::new()).expect("reads");
    assert_eq!((map_reads(&map), stats(&map).hits), (1, 1));
    // 8 was written with that batch, so its eviction needs no program.
    map.read(T0, Lpn::new(7), 1, &mut Vec::new()).expect("reads");
    assert_eq!((map_reads(&map), stats(&map).tp_programs), (2, 1));
    // The translation page of 200 and 201 was never written; 9 is protected until 201 is.
    for lpn in [200, 201, 201] {
        map.read(T0, Lpn::new(lpn), 1, &mut Vec::new()).expect("reads");
    }
    assert_eq!((map_reads(&map), stats(&map).tp_programs), (2, 1));
    map.read(T0, Lpn::new(202), 1, &mut Vec::new()).expect("reads");
    assert_eq!((map_reads(&map), stats(&map).tp_programs), (3, 2));
}

#[test]
fn a_flush_programs_each_dirty_translation_page_once() {
    let how = TranslationConfig { batched_eviction: false, ..TranslationConfig::new(100) };
    let mut map = counting(64, PageMapConfig { translation: Some(how), ..PageMapConfig::new(1000) });
    [0, 1, 5, 300, 301, 999].iter().for_each(|&lpn| write(&mut map, lpn));
    map.trim(T0, Lpn::new(5), 1).expect("trims");
    map.flush(T0).expect("flushes");
    assert_eq!(stats(&map).tp_programs, 3);
    map.flush(T0).expect("flushes");
    assert_eq!(stats(&map).tp_programs, 3);
    map.trim(T0, Lpn::new(300), 2).expect("trims");
    map.flush(T0).expect("flushes");
    assert_eq!(stats(&map).tp_programs, 4);
    map.check().expect("sound");
}

#[test]
fn the_log_of_trims_goes_round_for_ever() {
    let config = PageMapConfig {
        durable: true,
        translation: Some(TranslationConfig::new(500)),
        ..PageMapConfig::new(32_000)
    };
    let mut map = counting(1300, config);
    for round in 0..12 {
        // Everything is trimmed and rewritten. The changes by the writes enter an epoch only at the next
        // trim.
        map.trim(T0, Lpn::new(0), 32_000).expect("trims");
        map.flush(T0).expect("flushes");
        (0..32_000).for_each(|lpn| write(&mut map, lpn));
        map.trim(T0, Lpn::new(round), 1).expect("trims");
        map.flush(T0).expect("flushes");
    }
    map.check().expect("sound");
}

/// Regression: padding pages were taken for failed programs.
#[test]
fn recovery_gives_up_no_block_for_its_padding() {
    let shape = GeometrySpec { channels: 2, dies_per_channel: 2, blocks_per_plane: 16, ..spec(0) };
    let geometry = Geometry::new(shape).expect("valid");
    let config = PageMapConfig {
        durable: true,
        translation: Some(TranslationConfig::new(100)),
        ..PageMapConfig::new(500)
    };
    let policy = || Greedy::new(geometry.blocks());
    let chip = Chip::<_, StampMedium>::new(geometry.clone(), WearConfig::default(), Untimed::default(), 1);
    let mut map = PageMap::new(chip, policy(), config).expect("room");
    let mut contents = vec![0; 500];
    let mut rng = Prng::new(5);
    for round in 0..6 {
        for stamp in 1..=301 {
            let lpn = rng.below(500);
            contents[lpn as usize] = 1000 * round + stamp;
            let unit = Unit { lpn: Lpn::new(lpn), payload: contents[lpn as usize] };
            map.write(T0, &[unit], WriteContext::HOST).expect("progress");
        }
        let before = map.nand().counts().get(NandOp::Program, Cause::Pad);
        map.align().expect("room for padding");
        map.flush(T0).expect("flushes");
        assert!(map.nand().counts().get(NandOp::Program, Cause::Pad) > before, "nothing was padded");
        map = PageMap::restart(map.nand().clone(), policy(), config, SimTime::ZERO).expect("recovers").0;
        map.check().expect("sound");
        for block in (0..geometry.blocks()).map(BlockId::new) {
            let stage = map.block_info(block).stage;
            assert!(!matches!(stage, Stage::Emptying | Stage::Bad), "{block} is {stage:?}");
        }
        let read = (0..500).map(|lpn| map.peek(Lpn::new(lpn))).collect::<Vec<_>>();
        assert_eq!(read, contents);
    }
}
