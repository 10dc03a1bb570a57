//! The page map against a naive model, on tiny drives, with the whole state checked.

use proptest::prelude::*;
use strobe_ftl::gc::{AnyPolicy, Greedy, Kinetic, LinearScore, Sampled, Sampling};
use strobe_ftl::wear::Leveling;
use strobe_ftl::{
    Allocation, DieAllocation, FtlError, GcStream, Inspectable, MappingScheme, PageMap, PageMapConfig,
    PlacementKind, Stage, Stream, Temperature, WriteContext,
};
use strobe_nand::{Cause, Chip, Nand, NandOp, StampMedium, Unit, Untimed, WearConfig, When};
use strobe_types::{BlockId, Geometry, GeometrySpec, Lpn, Prng};

const T0: When = When::START;

type TestChip = Chip<Untimed, StampMedium>;
type TestMap = PageMap<TestChip, AnyPolicy>;

#[derive(Clone, Copy, Debug)]
enum Policy {
    Greedy,
    Fifo,
    Random,
    Choices,
    CostBenefit,
    CaPi,
}

fn policy(kind: Policy, g: &Geometry) -> AnyPolicy {
    let blocks = g.blocks();
    match kind {
        Policy::Greedy => AnyPolicy::new(Greedy::new(blocks)),
        Policy::Fifo => AnyPolicy::new(Sampled::new(blocks, Sampling::Fifo)),
        Policy::Random => AnyPolicy::new(Sampled::new(blocks, Sampling::Choices(1))),
        Policy::Choices => AnyPolicy::new(Sampled::new(blocks, Sampling::Choices(4))),
        Policy::CostBenefit => {
            AnyPolicy::new(Kinetic::new(blocks, g.units_per_block(), LinearScore::CostBenefit))
        }
        Policy::CaPi => AnyPolicy::new(Kinetic::new(blocks, g.units_per_block(), LinearScore::CaPi)),
    }
}

const POLICIES: [Policy; 6] =
    [Policy::Greedy, Policy::Fifo, Policy::Random, Policy::Choices, Policy::CostBenefit, Policy::CaPi];

const MIGRATIONS: [PlacementKind; 3] = [PlacementKind::Single, PlacementKind::HotCold, PlacementKind::Sorted];
const TEMPERATURES: [Temperature; 3] =
    [Temperature::UpdateCount, Temperature::UpdateRate, Temperature::LastWrite];
const ALLOCATIONS: [Allocation; 4] =
    [Allocation::Fifo, Allocation::LeastErased, Allocation::Adaptive, Allocation::AboveAverage];
const LEVELINGS: [Option<Leveling>; 5] = [
    None,
    Some(Leveling::Swap { threshold: 3 }),
    Some(Leveling::DualPool { threshold: 2 }),
    Some(Leveling::SwLeveler { threshold: 4, set_blocks: 1 }),
    Some(Leveling::SwLeveler { threshold: 3, set_blocks: 3 }),
];

fn spec() -> GeometrySpec {
    GeometrySpec {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: 12,
        pages_per_block: 4,
        page_bytes: 4096,
        unit_bytes: 4096,
    }
}

fn full_drive(spec: GeometrySpec, kind: Policy, choices: PageMapConfig, wear: WearConfig) -> Option<TestMap> {
    let geometry = Geometry::new(spec).expect("valid geometry");
    let room = choices.capacity(&geometry, geometry.blocks() - wear.factory_bad_blocks).capacity_units();
    if room == 0 {
        return None;
    }
    let policy = policy(kind, &geometry);
    let nand = Chip::new(geometry, wear, Untimed::default(), choices.seed);
    let config = PageMapConfig { logical_units: room as u32, ..choices };
    Some(PageMap::new(nand, policy, config).expect("capacity was computed"))
}

fn stream(gc_stream: GcStream) -> PageMapConfig {
    PageMapConfig { gc_stream, seed: 1, ..PageMapConfig::new(0) }
}

struct Model {
    stamps: Vec<u64>,
    next: u64,
}

impl Model {
    fn new(units: u32) -> Self {
        Self { stamps: vec![0; units as usize], next: 1 }
    }

    fn write(&mut self, ftl: &mut TestMap, first: u32, count: u32) -> Result<(), FtlError> {
        let units: Vec<Unit<u64>> = (0..count)
            .map(|n| Unit { lpn: Lpn::new(first + n), payload: self.next + u64::from(n) })
            .collect();
        self.next += u64::from(count);
        ftl.write(T0, &units, WriteContext::HOST)?;
        for unit in &units {
            self.stamps[unit.lpn.index()] = unit.payload;
        }
        Ok(())
    }

    fn trim(&mut self, ftl: &mut TestMap, first: u32, count: u32) {
        ftl.trim(T0, Lpn::new(first), count).expect("trim");
        self.stamps[first as usize..(first + count) as usize].fill(0);
    }

    fn copy(&mut self, ftl: &mut TestMap, from: u32, to: u32, count: u32) {
        ftl.copy(T0, Lpn::new(from), Lpn::new(to), count).expect("progress is guaranteed");
        self.stamps.copy_within(from as usize..(from + count) as usize, to as usize);
    }

    fn compare(&self, ftl: &mut TestMap) {
        let mut read = Vec::new();
        ftl.read(T0, Lpn::new(0), self.stamps.len() as u32, &mut read).expect("reads");
        assert_eq!(read, self.stamps);
    }
}

fn exercise(ftl: &mut TestMap, seed: u64, commands: u32, check_every: u32) {
    let units = ftl.logical_units();
    let mut model = Model::new(units);
    let mut rng = Prng::new(seed);
    for step in 0..commands {
        let first = rng.below(units);
        let count = 1 + rng.below((units - first).min(6));
        match rng.below(10) {
            0 => model.trim(ftl, first, count),
            1 | 2 => {
                // Same number of units from before or after, without overlap.
                let to = rng.below(units - count + 1);
                if to + count <= first || first + count <= to {
                    model.copy(ftl, first, to, count);
                }
            }
            _ => model.write(ftl, first, count).expect("progress is guaranteed"),
        }
        if step % check_every == 0 {
            ftl.check().unwrap_or_else(|e| panic!("step {step}: {e}"));
            model.compare(ftl);
        }
    }
    ftl.check().expect("final state");
    model.compare(ftl);
}

#[test]
fn every_policy_and_stream_makes_progress_on_a_completely_full_drive() {
    for kind in POLICIES {
        for gc_stream in [GcStream::Own, GcStream::Host] {
            let mut ftl = full_drive(spec(), kind, stream(gc_stream), WearConfig::default()).expect("room");
            exercise(&mut ftl, 2, 3000, 1);
            let counts = ftl.nand().counts();
            assert!(counts.get(NandOp::Program, Cause::Gc) > 0, "{kind:?} {gc_stream:?} never collected");
        }
    }
}

#[test]
fn capacity_that_cannot_progress_is_refused() {
    let geometry = Geometry::new(spec()).expect("valid");
    let blocks = geometry.blocks();
    let config = PageMapConfig { seed: 0, ..PageMapConfig::new(48) };
    let chip: TestChip = Chip::new(geometry, WearConfig::default(), Untimed::default(), 0);
    let refused = PageMap::new(chip, Greedy::new(blocks), config).expect_err("too full");
    assert!(refused.to_string().contains("logical_pages to at most 31"), "{refused}");
}

#[test]
fn failed_programs_lose_nothing() {
    let big = GeometrySpec { blocks_per_plane: 80, ..spec() };
    for kind in POLICIES {
        let wear = WearConfig { program_fail_rate: 0.0005, ..WearConfig::default() };
        let geometry = Geometry::new(big).expect("valid");
        let policy = policy(kind, &geometry);
        let nand = Chip::new(geometry, wear, Untimed::default(), 5);
        let config = PageMapConfig { seed: 5, ..PageMapConfig::new(100) };
        let mut ftl: TestMap = PageMap::new(nand, policy, config).expect("fits");
        exercise(&mut ftl, 6, 3000, 7);
        assert!(ftl.stats().gc.program_failures > 3);
        assert!(ftl.wear().bad_blocks > 2);
    }
}

#[test]
fn a_worn_out_drive_refuses_writes_and_still_reads() {
    for kind in POLICIES {
        let wear = WearConfig { endurance_pe: Some(20), factory_bad_blocks: 2, ..WearConfig::default() };
        let big = GeometrySpec { blocks_per_plane: 24, ..spec() };
        let geometry = Geometry::new(big).expect("valid");
        let policy = policy(kind, &geometry);
        let nand = Chip::new(geometry, wear, Untimed::default(), 5);
        let config = PageMapConfig { seed: 5, ..PageMapConfig::new(48) };
        let mut ftl: TestMap = PageMap::new(nand, policy, config).expect("fits");
        let mut model = Model::new(48);
        let mut rng = Prng::new(9);
        let error = loop {
            if let Err(error) = model.write(&mut ftl, rng.below(48), 1) {
                break error;
            }
            ftl.check().expect("state");
        };
        let worn = matches!(error, FtlError::EndOfLife { .. } | FtlError::OutOfBlocks);
        assert!(worn, "{kind:?}: {error}");
        assert_eq!(model.write(&mut ftl, 0, 1), Err(error));
        ftl.check().expect("state at end of life");
        model.compare(&mut ftl);
        let wear = ftl.wear();
        assert!(wear.bad_blocks > 2 && wear.first_bad_block_host_writes.is_some());
    }
}

#[test]
fn a_clone_goes_its_own_way() {
    let mut ftl =
        full_drive(spec(), Policy::Greedy, stream(GcStream::Own), WearConfig::default()).expect("room");
    // Boxed policies cannot be cloned, static ones can.
    let geometry = ftl.nand().geometry().clone();
    let chip: TestChip = Chip::new(geometry.clone(), WearConfig::default(), Untimed::default(), 1);
    let config = PageMapConfig { seed: 1, ..PageMapConfig::new(20) };
    let mut a = PageMap::new(chip, Greedy::new(geometry.blocks()), config).expect("fits");
    let unit = |lpn, payload| [Unit { lpn: Lpn::new(lpn), payload }];
    a.write(T0, &unit(3, 30), WriteContext::HOST).expect("writes");
    let mut frozen = a.clone();
    a.write(T0, &unit(3, 31), WriteContext::HOST).expect("writes");
    let mut out = Vec::new();
    frozen.read(T0, Lpn::new(3), 1, &mut out).expect("reads");
    a.read(T0, Lpn::new(3), 1, &mut out).expect("reads");
    assert_eq!(out, [30, 31]);
    exercise(&mut ftl, 3, 10, 1);
}

#[test]
fn padded_blocks_hold_what_one_collection_moved() {
    for migration in MIGRATIONS {
        let choices = PageMapConfig { placement: migration, pad_moved: true, ..PageMapConfig::new(0) };
        let shape = GeometrySpec { blocks_per_plane: 40, pages_per_block: 16, ..spec() };
        let mut ftl =
            full_drive(shape, Policy::Greedy, choices, WearConfig::default()).expect("there is room");
        let mut rng = Prng::new(7);
        for stamp in 0..5000 {
            let lpn = Lpn::new(rng.below(ftl.logical_units()));
            ftl.write(T0, &[Unit { lpn, payload: stamp }], WriteContext::HOST).expect("progress");
            // Collection ends before the host writes, and fills the blocks it has opened.
            let geometry = ftl.nand().geometry();
            let open = (0..geometry.blocks()).map(BlockId::new).map(|block| ftl.block_info(block));
            let open = open.filter(|info| info.stage == Stage::Open && info.written > 0);
            for info in open {
                assert_eq!(info.stream, Stream::Host, "{migration:?} {info:?}");
            }
        }
        ftl.check().expect("sound");
        assert!(ftl.nand().counts().get(NandOp::Program, Cause::Pad) > 100, "{migration:?}");
    }
}

proptest! {
    // Shapes without space for a drive are rejected; they must stay the exception.
    #![proptest_config(ProptestConfig { max_global_rejects: 512, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn any_full_drive_agrees_with_the_model(
        channels in 1u32..3,
        dies_per_channel in 1u32..3,
        planes_per_die in 1u32..3,
        blocks_per_plane in 4u32..28,
        pages_per_block in 1u32..9,
        units_per_page in prop::sample::select(vec![1u32, 2, 4]),
        kind in prop::sample::select(POLICIES.to_vec()),
        own in any::<bool>(),
        net_blocks in 1u32..5,
        pad_moved in any::<bool>(),
        migration in prop::sample::select(MIGRATIONS.to_vec()),
        temperature in prop::sample::select(TEMPERATURES.to_vec()),
        allocation in prop::sample::select(ALLOCATIONS.to_vec()),
        leveling in prop::sample::select(LEVELINGS.to_vec()),
        virtual_map_entries in prop::sample::select(vec![0u32, 1, 3, 1000]),
        factory_bad_blocks in 0u32..3,
        seed in any::<u64>(),
    ) {
        let spec = GeometrySpec {
            channels, dies_per_channel, planes_per_die, blocks_per_plane, pages_per_block,
            page_bytes: units_per_page * 512, unit_bytes: 512,
        };
        let gc_stream = if own { GcStream::Own } else { GcStream::Host };
        let choices = PageMapConfig {
            gc_stream, net_blocks, pad_moved, placement: migration, temperature, allocation, leveling, virtual_map_entries, seed,
            ..PageMapConfig::new(0)
        };
        let wear = WearConfig { factory_bad_blocks, ..WearConfig::default() };
        let ftl = full_drive(spec, kind, choices, wear);
        prop_assume!(ftl.is_some());
        exercise(&mut ftl.expect("there is room"), seed, 400, 3);
    }
}

fn planes_of(ftl: &TestMap, geometry: &Geometry) -> Vec<Vec<u32>> {
    let planes = geometry.planes();
    let mut counts = vec![vec![0; planes as usize]; planes as usize];
    for lpn in (0..ftl.logical_units()).map(Lpn::new) {
        if let Some(ppa) = ftl.locate(lpn) {
            let plane = geometry.plane_of(geometry.block_of(ppa));
            counts[(lpn.get() % planes) as usize][plane as usize] += 1;
        }
    }
    counts
}

/// A plane may have no erased block once blocks are collected.
#[test]
fn a_page_lies_on_the_plane_of_its_address() {
    let spec =
        GeometrySpec { channels: 2, dies_per_channel: 2, planes_per_die: 2, blocks_per_plane: 16, ..spec() };
    let geometry = Geometry::new(spec).expect("valid geometry");
    let units = geometry.units() * 5 / 8;
    let config = PageMapConfig {
        die_allocation: DieAllocation::ByAddress,
        logical_units: units,
        ..stream(GcStream::Own)
    };
    let nand = Chip::new(geometry.clone(), WearConfig::default(), Untimed::default(), 1);
    let mut ftl = PageMap::new(nand, policy(Policy::Greedy, &geometry), config).expect("room");
    let (mut model, mut rng) = (Model::new(units), Prng::new(3));
    for _ in 0..units / 2 {
        let first = rng.below(units);
        model.write(&mut ftl, first, 1).expect("progress is guaranteed");
    }
    assert_eq!(ftl.stats().gc.units_moved, 0, "nothing is collected yet");
    let own = |counts: &[u32]| (0..counts.len()).max_by_key(|&plane| counts[plane]).expect("planes");
    let new = planes_of(&ftl, &geometry);
    let planes: Vec<usize> = new.iter().map(|counts| own(counts)).collect();
    for (counts, &plane) in new.iter().zip(&planes) {
        assert_eq!(counts[plane], counts.iter().sum::<u32>(), "{new:?}");
    }
    let mut differ = planes.clone();
    differ.sort_unstable();
    differ.dedup();
    assert_eq!(differ.len(), planes.len(), "each remainder has a plane of its own: {planes:?}");
    for _ in 0..4 * units {
        let first = rng.below(units);
        let count = 1 + rng.below((units - first).min(5));
        model.write(&mut ftl, first, count).expect("progress is guaranteed");
    }
    assert!(ftl.stats().gc.units_moved > u64::from(units), "it has collected");
    let old = planes_of(&ftl, &geometry);
    let at_home: u32 = old.iter().zip(&planes).map(|(counts, &plane)| counts[plane]).sum();
    assert!(at_home > units * 4 / 5, "{at_home} of {units}: {old:?}");
    ftl.check().expect("sound");
    model.compare(&mut ftl);
}
