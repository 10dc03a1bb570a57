//! Block-mapped schemes: merges rule by rule, closed forms, and a naive model.

use strobe_ftl::BlockScheme::{Fast, LogBlock, ReplacementBlock};
use strobe_ftl::{
    BlockMap, BlockMapConfig, BlockMapError, BlockScheme, Inspectable, LogVictim, MappingScheme, MergeStats,
    WriteContext,
};
use strobe_nand::{Cause, Chip, Nand, NandOp, StampMedium, Unit, Untimed, WearConfig, When};
use strobe_types::{Geometry, GeometrySpec, Lpn, Prng};

const T0: When = When::START;
const HOST: WriteContext = WriteContext::HOST;

pub(crate) type TestChip = Chip<Untimed, StampMedium>;

pub(crate) fn geometry(blocks: u32, pages: u32) -> Geometry {
    Geometry::new(GeometrySpec {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: blocks,
        pages_per_block: pages,
        page_bytes: 512,
        unit_bytes: 512,
    })
    .expect("valid geometry")
}

pub(crate) fn config(scheme: BlockScheme, logical_units: u32, log_blocks: u32) -> BlockMapConfig {
    BlockMapConfig::new(scheme, logical_units, log_blocks)
}

fn drive(scheme: BlockScheme) -> BlockMap<TestChip> {
    let chip = Chip::new(geometry(24, 8), WearConfig::default(), Untimed::default(), 1).in_any_order();
    BlockMap::new(chip, config(scheme, 128, 3)).expect("room")
}

fn in_order(scheme: BlockScheme) -> BlockMap<TestChip> {
    let chip = Chip::new(geometry(24, 8), WearConfig::default(), Untimed::default(), 1);
    BlockMap::new(chip, config(scheme, 128, 3)).expect("room")
}

pub(crate) fn write(map: &mut BlockMap<TestChip>, lpns: impl IntoIterator<Item = u32>) {
    for lpn in lpns {
        let payload = 1000 * u64::from(lpn) + map.stats().host_units_written;
        map.write(T0, &[Unit { lpn: Lpn::new(lpn), payload }], HOST).expect("writes");
        assert_eq!(map.peek(Lpn::new(lpn)), payload);
        map.check().expect("state");
    }
}

pub(crate) fn cost(
    map: &mut BlockMap<TestChip>,
    run: impl FnOnce(&mut BlockMap<TestChip>),
) -> (u64, u64, MergeStats) {
    let count = |map: &BlockMap<TestChip>, op| map.nand().counts().total(op);
    let before = (
        count(map, NandOp::Program),
        count(map, NandOp::Erase),
        map.stats().merges.expect("a scheme that merges"),
    );
    run(map);
    let merges = map.stats().merges.expect("a scheme that merges").since(&before.2);
    (count(map, NandOp::Program) - before.0, count(map, NandOp::Erase) - before.1, merges)
}

/// Merges (switched, partial, full), sectors copied, blocks erased; log blocks merged, their pages, and
/// thrashed ones.
fn merges(
    kinds: [u64; 3],
    copied_erased: [u64; 2],
    [logs, log_pages, thrashed_logs]: [u64; 3],
) -> MergeStats {
    let ([switched, partial, full], [units_copied, blocks_erased]) = (kinds, copied_erased);
    MergeStats { switched, partial, full, units_copied, blocks_erased, logs, log_pages, thrashed_logs }
}

#[test]
fn first_writes_go_to_their_place_whatever_the_scheme() {
    for scheme in [ReplacementBlock, LogBlock, Fast] {
        let mut map = drive(scheme);
        let cost = cost(&mut map, |map| write(map, [5, 3, 0, 7, 127, 120]));
        assert_eq!(cost, (6, 0, MergeStats::default()), "{scheme:?}");
    }
}

#[test]
fn log_block_overwritten_in_order_is_switched() {
    let mut map = drive(LogBlock);
    write(&mut map, 0..8);
    // The ninth write finds the log full.
    let cost = cost(&mut map, |map| write(map, (0..8).chain([0])));
    assert_eq!(cost, (9, 1, merges([1, 0, 0], [0, 1], [1, 8, 0])));
}

#[test]
fn log_block_with_a_prefix_in_order_is_filled_up_and_switched() {
    let mut map = drive(LogBlock);
    (0..4).for_each(|block| write(&mut map, block * 8..block * 8 + 8));
    // Logs for blocks 0, 1 and 2; the fourth replaces the least recently used one.
    let cost = cost(&mut map, |map| write(map, [0, 1, 2, 8, 16, 24]));
    assert_eq!(
        cost,
        (6 + 5, 1, merges([0, 1, 0], [5, 1], [1, 3, 1])),
        "sectors 3 to 7 were copied, one block erased"
    );
}

#[test]
fn log_block_out_of_order_is_merged_into_a_third_block() {
    let mut map = drive(LogBlock);
    (0..4).for_each(|block| write(&mut map, block * 8..block * 8 + 8));
    let cost = cost(&mut map, |map| write(map, [2, 1, 8, 16, 24]));
    assert_eq!(cost, (5 + 8, 2, merges([0, 0, 1], [8, 2], [1, 2, 1])));
}

#[test]
fn log_block_used_last_is_spared() {
    let mut map = drive(LogBlock);
    (0..4).for_each(|block| write(&mut map, block * 8..block * 8 + 8));
    write(&mut map, [0, 8, 16, 1]);
    // Now the log of block 1 is the least recently used.
    write(&mut map, [24]);
    let cost = cost(&mut map, |map| write(map, [2, 17]));
    assert_eq!(cost.2, MergeStats::default(), "the logs of blocks 0 and 2 are still there");
}

#[test]
fn replacement_blocks_take_an_overwrite_each_and_fold_into_the_last() {
    let mut map = drive(ReplacementBlock);
    write(&mut map, 0..8);
    let three = cost(&mut map, |map| write(map, [4, 4, 4]));
    assert_eq!(three, (3, 0, MergeStats::default()));
    // A fourth replacement block exceeds the limit; the last block of the chain has space for the rest.
    let fold = cost(&mut map, |map| write(map, [4]));
    assert_eq!(
        fold,
        (7 + 1, 3, merges([0, 1, 0], [7, 3], [3, 3, 0])),
        "seven sectors copied, then one block more"
    );
}

#[test]
fn replacement_blocks_fold_the_longest_chain() {
    let mut map = drive(ReplacementBlock);
    (0..3).for_each(|block| write(&mut map, block * 8..block * 8 + 8));
    write(&mut map, [0, 9, 9]);
    // Chain 1 has three blocks.
    let fold = cost(&mut map, |map| write(map, [16]));
    assert_eq!(fold, (7 + 1, 2, merges([0, 1, 0], [7, 2], [2, 2, 0])));
}

#[test]
fn replacement_blocks_cost_a_look_at_each_block_of_the_chain() {
    let mut map = drive(ReplacementBlock);
    write(&mut map, [4, 4, 4]);
    let reads = map.nand().counts().get(NandOp::Read, Cause::Host);
    let mut out = Vec::new();
    map.read(T0, Lpn::new(4), 1, &mut out).expect("reads");
    // Three out-of-band areas and the page itself.
    assert_eq!(map.nand().counts().get(NandOp::Read, Cause::Host) - reads, 3 + 1);
}

#[test]
fn fast_writes_a_block_in_order_to_its_sequential_log_and_switches_it() {
    let mut map = drive(Fast);
    (0..2).for_each(|block| write(&mut map, block * 8..block * 8 + 8));
    let cost = cost(&mut map, |map| write(map, (0..8).chain([8])));
    assert_eq!(cost, (9, 1, merges([1, 0, 0], [0, 1], [1, 8, 0])), "sector 8 begins the next one");
}

#[test]
fn fast_fills_up_an_unfinished_sequential_log() {
    let mut map = drive(Fast);
    (0..2).for_each(|block| write(&mut map, block * 8..block * 8 + 8));
    let cost = cost(&mut map, |map| write(map, [0, 1, 2, 8]));
    assert_eq!(cost, (4 + 5, 1, merges([0, 1, 0], [5, 1], [1, 3, 0])));
}

#[test]
fn fast_merges_its_sequential_log_with_a_write_that_skips_ahead() {
    let mut map = drive(Fast);
    write(&mut map, 0..8);
    let cost = cost(&mut map, |map| write(map, [0, 1, 5]));
    assert_eq!(cost, (3 + 5, 1, merges([0, 1, 0], [5, 1], [1, 2, 0])), "the write is part of the merge");
}

#[test]
fn fast_merges_in_full_if_a_write_comes_behind_its_sequential_log() {
    let mut map = drive(Fast);
    write(&mut map, 0..8);
    let cost = cost(&mut map, |map| write(map, [0, 1, 2, 1]));
    assert_eq!(cost, (4 + 7, 2, merges([0, 0, 1], [7, 2], [1, 3, 0])));
}

#[test]
fn fast_shares_its_other_logs_among_all_blocks() {
    let mut map = drive(Fast);
    (0..16).for_each(|block| write(&mut map, block * 8..block * 8 + 8));
    // Two log blocks of eight pages take sixteen overwrites.
    let fills = cost(&mut map, |map| write(map, (0..16).map(|block| block * 8 + 3)));
    assert_eq!(fills, (16, 0, MergeStats::default()));
    // The next one merges all eight blocks with overwrites in the oldest log.
    let reclaim = cost(&mut map, |map| write(map, [4]));
    assert_eq!(reclaim, (1 + 8 * 8, 9, merges([0, 0, 8], [64, 9], [1, 8, 0])));
}

#[test]
fn fast_erases_a_log_that_is_out_of_date_without_a_merge() {
    let mut map = drive(Fast);
    write(&mut map, 0..8);
    let cost = cost(&mut map, |map| write(map, std::iter::repeat_n(3, 17)));
    assert_eq!(cost, (17, 1, merges([0, 0, 0], [0, 1], [1, 8, 0])));
}

#[test]
fn on_a_chip_that_takes_pages_in_order_gaps_are_padded() {
    let mut map = in_order(LogBlock);
    // Not the first sector: it is written to a log only.
    write(&mut map, [3, 6]);
    write(&mut map, [10, 18]);
    let cost = cost(&mut map, |map| write(map, [26]));
    let pads = map.nand().counts().get(NandOp::Program, Cause::Pad);
    assert_eq!(
        (pads, cost),
        (5, (1 + 7, 1, merges([0, 0, 1], [2, 1], [1, 2, 1]))),
        "sectors 0 to 2, 4 and 5 are gaps"
    );
    assert_eq!(map.mapped_units(), 5);
}

#[test]
fn trimmed_sectors_are_not_copied() {
    let mut map = drive(LogBlock);
    (0..4).for_each(|block| write(&mut map, block * 8..block * 8 + 8));
    write(&mut map, [2, 1, 8, 16]);
    map.trim(T0, Lpn::new(3), 5).expect("trims");
    let cost = cost(&mut map, |map| write(map, [24]));
    assert_eq!(cost, (1 + 3, 2, merges([0, 0, 1], [3, 2], [1, 2, 1])));
}

#[test]
fn what_cannot_work_is_refused_with_what_would() {
    let chip = || TestChip::new(geometry(24, 8), WearConfig::default(), Untimed::default(), 1);
    let refused = |config| BlockMap::new(chip(), config).expect_err("refused");
    let error = refused(config(LogBlock, 8 * 20, 3));
    assert_eq!(
        error.to_string(),
        "log-block needs 25 good blocks: 20 for data, 3 log or replacement blocks, the rest for merges, \
         faults and trims; the drive has 24, enough for 152 mapping units"
    );
    BlockMap::new(chip(), config(LogBlock, 152, 3)).expect("as it says");
    assert!(matches!(refused(config(LogBlock, 8, 1)), BlockMapError::FewLogBlocks { given: 1, .. }));
    let error = refused(config(ReplacementBlock, 8, 3));
    assert!(error.to_string().contains("drive.nand.any_page_order = true"), "{error}");
}

#[test]
fn the_log_of_trims_goes_round_for_ever() {
    for scheme in [ReplacementBlock, LogBlock, Fast] {
        let config = BlockMapConfig { durable: true, ..config(scheme, 32_000, 8) };
        let chip =
            TestChip::new(geometry(1300, 32), WearConfig::default(), Untimed::default(), 1).in_any_order();
        let mut map = BlockMap::new(chip, config).expect("room");
        for round in 0..12 {
            // The changes by the writes enter an epoch only at the next trim.
            map.trim(T0, Lpn::new(0), 32_000).expect("trims");
            map.flush(T0).expect("flushes");
            for lpn in 0..32_000 {
                map.write(T0, &[Unit { lpn: Lpn::new(lpn), payload: 1 }], HOST).expect("writes");
            }
            map.trim(T0, Lpn::new(round), 1).expect("trims");
            map.flush(T0).expect("flushes");
        }
        map.check().expect("state");
    }
}

pub(crate) const VICTIMS: [LogVictim; 5] =
    [LogVictim::Lru, LogVictim::Mru, LogVictim::Fifo, LogVictim::Fullest, LogVictim::Emptiest];

fn agrees_with_a_model(scheme: BlockScheme, seed: u64) {
    let mut rng = Prng::new(seed);
    let spec = GeometrySpec {
        channels: 1 + rng.below(2),
        dies_per_channel: 1,
        planes_per_die: 1 + rng.below(2),
        blocks_per_plane: 40,
        pages_per_block: [2, 4, 16][rng.below(3) as usize],
        page_bytes: 512,
        unit_bytes: 512,
    };
    let geometry = Geometry::new(spec).expect("valid geometry");
    let wear =
        WearConfig { program_fail_rate: [0.0, 0.0, 0.0002][rng.below(3) as usize], ..WearConfig::default() };
    let reserve = if wear.program_fail_rate > 0.0 { 12 } else { 0 };
    let choices = BlockMapConfig {
        scheme,
        logical_units: 0,
        log_blocks: 2 + rng.below(5),
        log_victim: VICTIMS[rng.below(VICTIMS.len() as u32) as usize],
        fault_reserve: reserve,
        durable: rng.below(2) == 0,
    };
    let config =
        BlockMapConfig { logical_units: choices.capacity_units(&geometry, geometry.blocks()), ..choices };
    assert!(config.logical_units > 0, "{config:?}");
    let chip: TestChip = Chip::new(geometry, wear, Untimed::default(), seed);
    let chip = if scheme == ReplacementBlock || rng.below(2) == 0 { chip.in_any_order() } else { chip };
    let mut map = BlockMap::new(chip, config).expect("room");
    let units = config.logical_units;
    let mut model = vec![0; units as usize];
    for number in 1..1500u64 {
        let first = rng.below(units);
        let count = 1 + rng.below((units - first).min(20));
        let range = first as usize..(first + count) as usize;
        match rng.below(8) {
            0 => {
                map.trim(T0, Lpn::new(first), count).expect("trims");
                model[range].fill(0);
            }
            1 => {
                let to = rng.below(units - count + 1);
                if to + count <= first || first + count <= to {
                    map.copy(T0, Lpn::new(first), Lpn::new(to), count).expect("copies");
                    model.copy_within(range, to as usize);
                }
            }
            2 => drop(map.flush(T0).expect("flushes")),
            _ => {
                let unit = |lpn| Unit { lpn: Lpn::new(lpn), payload: number };
                let written: Vec<Unit<u64>> = (first..first + count).map(unit).collect();
                map.write(T0, &written, HOST)
                    .unwrap_or_else(|error| panic!("{scheme:?} seed {seed}: {error}"));
                model[range].fill(number);
            }
        }
        map.check().unwrap_or_else(|error| panic!("{scheme:?} seed {seed}, command {number}: {error}"));
    }
    let mut read = Vec::new();
    map.read(T0, Lpn::new(0), units, &mut read).expect("reads");
    assert_eq!(read, model, "{scheme:?} seed {seed}");
}

#[test]
fn every_scheme_agrees_with_a_plain_array() {
    for seed in 0..12 {
        agrees_with_a_model(ReplacementBlock, seed);
        agrees_with_a_model(LogBlock, seed);
        agrees_with_a_model(Fast, seed);
    }
}

/// The paper's geometry: 2048 data blocks of 32 sectors, 64 log blocks; every sector is written once.
fn full_drive(scheme: BlockScheme) -> Counting {
    let chip =
        Chip::new(geometry(2048 + 64 + 2, 32), WearConfig::default(), Untimed::default(), 1).in_any_order();
    let mut map = BlockMap::new(chip, config(scheme, 2048 * 32, 64)).expect("room");
    for lpn in 0..2048 * 32 {
        map.write(T0, &[Unit { lpn: Lpn::new(lpn), payload: () }], HOST).expect("writes");
    }
    map
}

type Counting = BlockMap<Chip<Untimed, strobe_nand::NoMedium>>;

fn rates(scheme: BlockScheme, warmup: u32, measure: u32, mut next: impl FnMut() -> u32) -> (f64, f64) {
    let mut map = full_drive(scheme);
    let mut write = |map: &mut Counting, count| {
        for _ in 0..count {
            map.write(T0, &[Unit { lpn: Lpn::new(next()), payload: () }], HOST).expect("writes");
        }
    };
    write(&mut map, warmup);
    let counts = |map: &Counting| [NandOp::Program, NandOp::Erase].map(|op| map.nand().counts().total(op));
    let before = counts(&map);
    write(&mut map, measure);
    let after = counts(&map);
    let [wa, erases] = [0, 1].map(|at| (after[at] - before[at]) as f64 / f64::from(measure));
    (wa, erases)
}

fn within(measured: (f64, f64), expected: (f64, f64), what: &str) {
    for (measured, expected) in [(measured.0, expected.0), (measured.1, expected.1)] {
        let off = (measured / expected - 1.0).abs();
        assert!(off < 0.02, "{what}: {measured:.4}, the closed form says {expected:.4}");
    }
    eprintln!("{what}: {measured:.4?}, closed form {expected:.4?}");
}

const B: f64 = 2048.0;
const L: f64 = 64.0;
const PAGES: f64 = 32.0;

fn uniform() -> impl FnMut() -> u32 {
    let mut rng = Prng::new(7);
    move || rng.below(2048 * 32)
}

#[test]
fn uniform_writes_cost_what_the_closed_forms_say() {
    // An evicted log block holds one overwrite: everything else is copied.
    let kept = 1.0 - L / B;
    within(rates(LogBlock, 20_000, 60_000, uniform()), (1.0 + kept * PAGES, 2.0 * kept), "log-block");
    // A reclaimed log block holds overwrites of almost one block per page. The entries of these blocks in
    // other logs are merged too.
    let window = (L - 1.0) * PAGES;
    let fast = (1.0 + PAGES * B / (window + B), B / (window + B) + 1.0 / PAGES);
    within(rates(Fast, 20_000, 60_000, uniform()), fast, "fast");
    // Each overwrite folds a chain of two, unless it fits into an existing replacement block.
    let nftl = rates(ReplacementBlock, 20_000, 60_000, uniform());
    within(nftl, (31.0, 0.973), "replacement-block");
}

#[test]
fn a_hot_sector_costs_what_the_closed_forms_say() {
    let hot = || || 5 * 32 + 9;
    within(rates(LogBlock, 1000, 64_000, hot()), (2.0, 2.0 / PAGES), "log-block");
    within(rates(Fast, 4000, 64_000, hot()), (1.0, 1.0 / PAGES), "fast");
    let (wa, erases) = rates(ReplacementBlock, 1000, 64_000, hot());
    // One fold of the chain of 65 for every 64 writes.
    within((wa, erases), (1.0 + 31.0 / L, 1.0), "replacement-block");
}

#[test]
fn sequential_overwrites_copy_nothing() {
    let sequential = || {
        let mut at = 0;
        move || {
            at = (at + 1) % (2048 * 32);
            at
        }
    };
    within(rates(LogBlock, 65_535, 131_072, sequential()), (1.0, 1.0 / PAGES), "log-block");
    within(rates(Fast, 65_535, 131_072, sequential()), (1.0, 1.0 / PAGES), "fast");
    within(rates(ReplacementBlock, 65_535, 131_072, sequential()), (1.0, 1.0 / PAGES), "replacement-block");
}
