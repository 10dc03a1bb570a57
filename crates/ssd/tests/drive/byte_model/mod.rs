//! Every byte of the drive against a plain disk, on tiny full drives.

mod plain_disk;

use proptest::prelude::*;
use strobe_ftl::gc::{Greedy, Kinetic, LinearScore, Sampled, Sampling, VictimPolicy};
use strobe_ftl::wear::Leveling;
use strobe_ftl::{
    Allocation, DieAllocation, GcStream, PageMap, PageMapConfig, PlacementKind, Temperature, Watermarks,
};
use strobe_nand::{
    ArrayTiming, ByteMedium, Chip, Issue, SuspendConfig, Timing, TimingConfig, Untimed, WearConfig,
};
use strobe_ssd::{ControllerConfig, Drive, NvramConfig, NvramPolicyName, SectorRange};
use strobe_types::{Geometry, GeometrySpec};

use self::plain_disk::Bench;

type ByteDrive<T, V> = Drive<PageMap<Chip<T, ByteMedium>, V>>;

#[derive(Clone, Copy, Debug)]
struct Shape {
    channels: u32,
    dies_per_channel: u32,
    planes_per_die: u32,
    blocks_per_plane: u32,
    pages_per_block: u32,
    units_per_page: u32,
    unit_bytes: u32,
    /// Write buffer in mapping units; 0: none.
    buffer_units: u64,
    cache: Cache,
    choices: PageMapConfig,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Cache {
    units: u64,
    policy: NvramPolicyName,
    /// Sectors for lba-range: first sector and length.
    ranges: [(u64, u64); 2],
}

const CACHES: [NvramPolicyName; 3] = [NvramPolicyName::Lru, NvramPolicyName::LbaRange, NvramPolicyName::Hint];

const SHAPE: Shape = Shape {
    channels: 1,
    dies_per_channel: 1,
    planes_per_die: 1,
    blocks_per_plane: 12,
    pages_per_block: 4,
    units_per_page: 1,
    unit_bytes: 2048,
    buffer_units: 0,
    cache: Cache { units: 0, policy: NvramPolicyName::Lru, ranges: [(3, 6), (40, 30)] },
    choices: PageMapConfig::new(0),
    seed: 1,
};

const STREAMS: [GcStream; 2] = [GcStream::Own, GcStream::Host];
const MIGRATIONS: [PlacementKind; 3] = [PlacementKind::Single, PlacementKind::HotCold, PlacementKind::Sorted];
const TEMPERATURES: [Temperature; 3] =
    [Temperature::UpdateCount, Temperature::UpdateRate, Temperature::LastWrite];
const ALLOCATIONS: [Allocation; 4] =
    [Allocation::Fifo, Allocation::LeastErased, Allocation::Adaptive, Allocation::AboveAverage];
const LEVELINGS: [Option<Leveling>; 4] = [
    None,
    Some(Leveling::Swap { threshold: 3 }),
    Some(Leveling::DualPool { threshold: 2 }),
    Some(Leveling::SwLeveler { threshold: 3, set_blocks: 2 }),
];

trait Policy: VictimPolicy + Clone + Send + 'static {}
impl<V: VictimPolicy + Clone + Send + 'static> Policy for V {}

impl Shape {
    fn geometry(&self) -> Geometry {
        Geometry::new(GeometrySpec {
            channels: self.channels,
            dies_per_channel: self.dies_per_channel,
            planes_per_die: self.planes_per_die,
            blocks_per_plane: self.blocks_per_plane,
            pages_per_block: self.pages_per_block,
            page_bytes: self.units_per_page * self.unit_bytes,
            unit_bytes: self.unit_bytes,
        })
        .expect("valid geometry")
    }

    /// The fullest drive that the reserve arithmetic allows, if any.
    fn drive<T: Timing, V: VictimPolicy>(&self, timing: T, policy: V) -> Option<ByteDrive<T, V>> {
        let geometry = self.geometry();
        // The blocks of a durable map depend on the number of units.
        let capacity_with = |logical_units| {
            let choices = PageMapConfig { logical_units, ..self.choices };
            choices.capacity(&geometry, geometry.blocks()).capacity_units()
        };
        let room = capacity_with(capacity_with(0) as u32);
        let least = geometry.planes() + 2;
        let watermarks = Watermarks {
            high: least + 3,
            low: least + 1,
            victims: 1 + (self.seed % 4) as u32,
            read_pages: 1 + (self.seed % 9) as u32,
        };
        let map = PageMapConfig {
            logical_units: room as u32,
            seed: self.seed,
            // Only timed drives can collect in the background, or choose an idle die.
            watermarks: (self.seed % 4 < 3).then_some(watermarks),
            die_allocation: [DieAllocation::Stripe, DieAllocation::FreeFirst][usize::from(self.seed % 5 < 3)],
            ..self.choices
        };
        let controller = ControllerConfig {
            write_buffer_bytes: self.buffer_units * u64::from(self.unit_bytes),
            nvram: self.nvram(),
            ..ControllerConfig::default()
        };
        if room == 0 {
            return None;
        }
        let chip = Chip::new(geometry, WearConfig::default(), timing, self.seed);
        let chip = chip.in_word_lines(self.parts());
        Some(Drive::new(PageMap::new(chip, policy, map).expect("capacity was computed"), &controller))
    }

    fn nvram(&self) -> NvramConfig {
        let Cache { units, policy, ranges } = self.cache;
        NvramConfig {
            bytes: units * u64::from(self.unit_bytes),
            policy,
            ranges: ranges.map(|(first_sector, sectors)| SectorRange { first_sector, sectors }).to_vec(),
            read_ns: self.seed % 100,
            write_ns: self.seed % 300,
        }
    }

    fn parts(&self) -> u32 {
        if (self.seed / 13).is_multiple_of(2) && self.units_per_page.is_multiple_of(2) { 2 } else { 1 }
    }

    fn array_timing(&self) -> ArrayTiming {
        let timing = TimingConfig {
            read_ns: 50.into(),
            program_ns: 700.into(),
            erase_ns: 5000,
            slc: None,
            channel_mb_s: 100_000,
            spare_bytes: 0,
            pages_per_program: self.parts(),
            command_ns: self.seed / 7 % 3,
            cache_program: self.seed.is_multiple_of(2),
            cache_read: (self.seed / 5).is_multiple_of(3),
            independent_plane_reads: (self.seed / 11).is_multiple_of(2),
            deadline_ns: [0, 100, 200, 300, 400].map(|ns| ns * (self.seed / 2 % 3)),
            suspend: SuspendConfig {
                most: (self.seed / 3 % 3) as u32,
                suspend_ns: 5,
                resume_ns: 3,
                least_left_ns: 20,
            },
            issue: if (self.seed / 17).is_multiple_of(4) { Issue::InOrder } else { Issue::PerDie },
        };
        ArrayTiming::new(timing, &self.geometry())
    }

    fn exercise(&self, policy: impl Policy, with_times: bool, commands: u32, check_every: u32) -> bool {
        if with_times {
            let drive = self.drive(self.array_timing(), policy);
            drive.map(|drive| Bench::new(drive, self.seed).exercise(commands, check_every)).is_some()
        } else {
            let drive = self.drive(Untimed::default(), policy);
            drive.map(|drive| Bench::new(drive, self.seed).exercise(commands, check_every)).is_some()
        }
    }
}

const POLICIES: [&str; 5] = ["greedy", "cost-benefit", "fifo", "random", "d-choices"];

#[track_caller]
fn exercise(shape: &Shape, policy: &str, with_times: bool, commands: u32, check_every: u32) {
    assert!(exercise_if_possible(shape, policy, with_times, commands, check_every), "there is no such drive");
}

fn exercise_if_possible(
    shape: &Shape,
    policy: &str,
    with_times: bool,
    commands: u32,
    check_every: u32,
) -> bool {
    let geometry = shape.geometry();
    let blocks = geometry.blocks();
    match policy {
        "greedy" => shape.exercise(Greedy::new(blocks), with_times, commands, check_every),
        "cost-benefit" => {
            let policy = Kinetic::new(blocks, geometry.units_per_block(), LinearScore::CostBenefit);
            shape.exercise(policy, with_times, commands, check_every)
        }
        "fifo" => shape.exercise(Sampled::new(blocks, Sampling::Fifo), with_times, commands, check_every),
        "random" => {
            shape.exercise(Sampled::new(blocks, Sampling::Choices(1)), with_times, commands, check_every)
        }
        _ => shape.exercise(Sampled::new(blocks, Sampling::Choices(4)), with_times, commands, check_every),
    }
}

#[test]
fn every_policy_keeps_every_byte_with_and_without_a_buffer() {
    let units = 31; // what SHAPE offers when full
    for policy in POLICIES {
        for buffer_units in [0, 1, 2, 5, 16, units, 10 * units] {
            for with_times in [false, true] {
                exercise(&Shape { buffer_units, ..SHAPE }, policy, with_times, 500, 1);
            }
        }
    }
}

#[test]
fn every_non_volatile_cache_keeps_every_byte() {
    for policy in CACHES {
        for cache_units in [1, 2, 5, 16, 100] {
            for (buffer_units, units_per_page) in [(0, 1), (5, 1), (0, 4), (9, 2)] {
                let cache = Cache { units: cache_units, policy, ..SHAPE.cache };
                let shape = Shape { cache, buffer_units, units_per_page, seed: cache_units, ..SHAPE };
                exercise(&shape, "greedy", true, 500, 2);
                exercise(&Shape { channels: 2, ..shape }, "fifo", false, 300, 2);
            }
        }
    }
}

#[test]
fn units_smaller_than_a_page_keep_every_byte() {
    for units_per_page in [2, 4] {
        for buffer_units in [0, 1, 2, 3, 4, 7, 8, 40, 400] {
            for with_times in [false, true] {
                let shape = Shape { units_per_page, buffer_units, seed: buffer_units, ..SHAPE };
                exercise(&shape, "greedy", with_times, 400, 2);
                let shape = Shape { channels: 2, planes_per_die: 2, unit_bytes: 1024, ..shape };
                exercise(&shape, "cost-benefit", with_times, 400, 2);
            }
        }
    }
}

#[test]
fn a_unit_of_one_sector_has_no_partial_writes_and_keeps_every_byte() {
    for buffer_units in [0, 3, 1000] {
        exercise(&Shape { unit_bytes: 512, buffer_units, ..SHAPE }, "fifo", true, 1000, 2);
    }
}

#[test]
fn several_dies_and_planes_keep_every_byte() {
    for (channels, dies_per_channel, planes_per_die) in [(2, 1, 1), (1, 3, 1), (1, 1, 4), (2, 2, 2)] {
        for gc_stream in STREAMS {
            let choices = PageMapConfig { gc_stream, ..SHAPE.choices };
            for buffer_units in [0, 6, 64] {
                let shape = Shape { channels, dies_per_channel, planes_per_die, choices, ..SHAPE };
                exercise(&Shape { buffer_units, ..shape }, "d-choices", true, 600, 2);
            }
        }
    }
}

#[test]
fn every_way_to_collect_and_level_keeps_every_byte() {
    for migration in MIGRATIONS {
        for allocation in ALLOCATIONS {
            for leveling in LEVELINGS {
                for gc_stream in STREAMS {
                    let choices = PageMapConfig {
                        gc_stream,
                        placement: migration,
                        allocation,
                        leveling,
                        ..SHAPE.choices
                    };
                    let shape = Shape { blocks_per_plane: 16, choices, ..SHAPE };
                    exercise(&Shape { buffer_units: 5, ..shape }, "greedy", true, 400, 4);
                    exercise(&Shape { units_per_page: 2, ..shape }, "cost-benefit", true, 400, 4);
                }
            }
        }
    }
}

#[test]
#[ignore = "minutes long: make test-long"]
fn a_million_commands_of_all_kinds_keep_every_byte() {
    for named in strobe_testing::seeds(1..5) {
        let seed = named.get();
        let durable = seed % 2 == 0;
        let shape = Shape {
            channels: 2,
            blocks_per_plane: 24,
            units_per_page: 2,
            buffer_units: 5 * (seed % 3),
            cache: Cache { units: 7, policy: CACHES[seed as usize % 3], ..SHAPE.cache },
            choices: PageMapConfig { virtual_map_entries: 20, durable, ..SHAPE.choices },
            seed,
            ..SHAPE
        };
        exercise(&shape, "greedy", seed > 2, 1_000_000, 20_000);
    }
}

fn cases() -> ProptestConfig {
    let default = ProptestConfig::default();
    let chosen = std::env::var_os("PROPTEST_CASES").is_some();
    let cases = if chosen { default.cases } else { 160 };
    // Shapes that allow no drive do not count, and must not be the rule.
    ProptestConfig { cases, max_global_rejects: cases, ..default }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_full_drive_equals_a_plain_disk(
        (channels, dies_per_channel, planes_per_die) in (1u32..3, 1u32..3, 1u32..3),
        blocks_per_plane in 4u32..24,
        pages_per_block in 1u32..9,
        units_per_page in prop::sample::select(vec![1u32, 2, 4]),
        unit_bytes in prop::sample::select(vec![512u32, 1024, 4096]),
        buffer_units in prop_oneof![Just(0u64), 1u64..10, 10u64..1000],
        cache_units in prop_oneof![Just(0u64), 1u64..10, 10u64..1000],
        cache_policy in prop::sample::select(CACHES.to_vec()),
        ranges in prop::array::uniform2((0u64..300, 1u64..100)),
        policy in prop::sample::select(POLICIES.to_vec()),
        gc_stream in prop::sample::select(STREAMS.to_vec()),
        migration in prop::sample::select(MIGRATIONS.to_vec()),
        temperature in prop::sample::select(TEMPERATURES.to_vec()),
        allocation in prop::sample::select(ALLOCATIONS.to_vec()),
        leveling in prop::sample::select(LEVELINGS.to_vec()),
        net_blocks in 1u32..4,
        virtual_map_entries in prop::sample::select(vec![0u32, 1, 5, 1000]),
        (with_times, durable) in any::<(bool, bool)>(),
        seed in any::<u64>(),
    ) {
        let choices = PageMapConfig {
            gc_stream, placement: migration, temperature, allocation, leveling, net_blocks, virtual_map_entries, durable,
            ..SHAPE.choices
        };
        let shape = Shape {
            channels, dies_per_channel, planes_per_die, blocks_per_plane, pages_per_block,
            units_per_page, unit_bytes, buffer_units, choices, seed,
            cache: Cache { units: cache_units, policy: cache_policy, ranges },
        };
        prop_assume!(exercise_if_possible(&shape, policy, with_times, 300, 3));
    }
}
