//! Every byte of the drive against a plain disk, on tiny full drives.

use proptest::prelude::*;
use strobe_ftl::gc::{Greedy, Kinetic, LinearScore, Sampled, Sampling, VictimPolicy};
use strobe_ftl::wear::Leveling;
use strobe_ftl::{Allocation, GcStream, MappingScheme, Migration, PageMap, PageMapConfig, Temperature};
use strobe_nand::{ArrayTiming, ByteMedium, Chip, Timing, TimingConfig, Untimed, WearConfig};
use strobe_ssd::{
    Command, CommandError, CommandKind, ControllerConfig, Device, Drive, Hint, Inspect, NvramConfig,
    NvramPolicyName, Range, SectorRange,
};
use strobe_types::{Geometry, GeometrySpec, Lba, Op, Prng, Request, SECTOR_BYTES, SimTime};

use crate::setup::{Host as _, T0};

type ByteDrive<T, V> = Drive<PageMap<Chip<T, ByteMedium>, V>>;

/// A drive as proptest shows it when a case fails.
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
    /// Everything of the page map but its size and seed.
    choices: PageMapConfig,
    seed: u64,
}

/// A non-volatile cache.
#[derive(Clone, Copy, Debug)]
struct Cache {
    /// Size in mapping units; 0: none.
    units: u64,
    policy: NvramPolicyName,
    /// Sectors for lba-range, each with how many.
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
const MIGRATIONS: [Migration; 3] = [Migration::None, Migration::HotCold, Migration::Sorted];
const TEMPERATURES: [Temperature; 3] =
    [Temperature::UpdateCount, Temperature::UpdateRate, Temperature::LastWrite];
const ALLOCATIONS: [Allocation; 3] = [Allocation::Fifo, Allocation::LeastErased, Allocation::Adaptive];
const LEVELINGS: [Option<Leveling>; 4] = [
    None,
    Some(Leveling::Swap { threshold: 3 }),
    Some(Leveling::DualPool { threshold: 2 }),
    Some(Leveling::SwLeveler { threshold: 3, set_blocks: 2 }),
];

/// A policy that a frozen drive can copy.
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

    /// The fullest drive of this shape that the arithmetic allows, if there is one.
    fn drive<T: Timing, V: VictimPolicy>(&self, timing: T, policy: V) -> Option<ByteDrive<T, V>> {
        let geometry = self.geometry();
        // How many blocks a durable map takes depends on how many units there are.
        let room_with = |logical_units| {
            let choices = PageMapConfig { logical_units, ..self.choices };
            choices.capacity(&geometry, geometry.blocks()).room_units()
        };
        let room = room_with(room_with(0) as u32);
        let map = PageMapConfig { logical_units: room as u32, seed: self.seed, ..self.choices };
        let controller = ControllerConfig {
            write_buffer_bytes: self.buffer_units * u64::from(self.unit_bytes),
            nvram: self.nvram(),
            ..ControllerConfig::default()
        };
        if room == 0 {
            return None;
        }
        let chip = Chip::new(geometry, WearConfig::default(), timing, self.seed);
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

    fn array_timing(&self) -> ArrayTiming {
        let timing = TimingConfig {
            read_ns: 50,
            program_ns: 700,
            erase_ns: 5000,
            channel_mb_s: 100_000,
            spare_bytes: 0,
            cache_program: self.seed.is_multiple_of(2),
        };
        ArrayTiming::new(timing, &self.geometry())
    }

    /// Random commands on a drive with `policy`, counting only or with times; whether there is such a drive.
    fn exercise(&self, policy: impl Policy, with_times: bool, commands: u32, check_every: u32) -> bool {
        if with_times {
            let drive = self.drive(self.array_timing(), policy);
            drive.map(|drive| Bench::new(drive, self.seed).exercise(commands, check_every)).is_some()
        } else {
            let drive = self.drive(Untimed, policy);
            drive.map(|drive| Bench::new(drive, self.seed).exercise(commands, check_every)).is_some()
        }
    }
}

const POLICIES: [&str; 5] = ["greedy", "cost-benefit", "fifo", "random", "d-choices"];

/// Random commands on a drive of this shape with the policy of that name. Fails if no such drive is possible.
#[track_caller]
fn exercise(shape: &Shape, policy: &str, with_times: bool, commands: u32, check_every: u32) {
    assert!(exercise_if_possible(shape, policy, with_times, commands, check_every), "there is no such drive");
}

/// Random commands on a drive of this shape with the policy of that name; whether there is such a drive.
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

/// A drive beside the plain disk it must equal.
struct Bench<T: Timing, V: Policy> {
    drive: ByteDrive<T, V>,
    disk: Vec<u8>,
    rng: Prng,
    now: SimTime,
    /// Bytes of a mapping unit.
    unit: usize,
    /// What the drive's counters must say.
    commands: [u64; 6],
    bytes: [u64; 6],
    units_written: u64,
    read_modify_writes: u64,
}

impl<T: Timing + Send + 'static, V: Policy> Bench<T, V> {
    fn new(drive: ByteDrive<T, V>, seed: u64) -> Self {
        let unit = drive.geometry().unit_bytes() as usize;
        let disk = vec![0; drive.ftl().logical_units() as usize * unit];
        Self {
            drive,
            disk,
            rng: Prng::derive(seed, "byte-model"),
            now: T0,
            unit,
            commands: [0; 6],
            bytes: [0; 6],
            units_written: 0,
            read_modify_writes: 0,
        }
    }

    /// A sector range: whole units, a few sectors, several units askew, or up to the very end.
    fn range(&mut self) -> (u64, u64) {
        let per_unit = self.unit as u64 / SECTOR_BYTES;
        let sectors = self.disk.len() as u64 / SECTOR_BYTES;
        // Half of the traffic goes to an eighth of the drive, so that buffered units are hit.
        let reach = if self.rng.chance(0.5) { (sectors / 8).max(1) } else { sectors };
        let lba = self.rng.below_u64(reach);
        let left = sectors - lba;
        match self.rng.below(5) {
            0 => (lba / per_unit * per_unit, per_unit),
            1 => (lba, 1 + self.rng.below_u64(left.min(per_unit))),
            2 => (lba, 1 + self.rng.below_u64(left.min(per_unit * 9))),
            3 => {
                let units = 1 + self.rng.below_u64((sectors / per_unit - lba / per_unit).min(9));
                (lba / per_unit * per_unit, units * per_unit)
            }
            _ => (sectors - 1 - self.rng.below_u64(sectors.min(per_unit * 3)), 0),
        }
    }

    /// A range with the open end resolved, in bytes.
    fn byte_range(&mut self) -> (Lba, std::ops::Range<usize>) {
        let (lba, sectors) = self.range();
        let from = (lba * SECTOR_BYTES) as usize;
        let upto = if sectors == 0 { self.disk.len() } else { from + (sectors * SECTOR_BYTES) as usize };
        (Lba::new(lba), from..upto)
    }

    fn count(&mut self, kind: CommandKind, bytes: usize) {
        self.commands[kind as usize] += 1;
        self.bytes[kind as usize] += bytes as u64;
    }

    /// Counts the units that a write of these bytes touches.
    fn count_units(&mut self, range: &std::ops::Range<usize>) {
        let (first, last) = (range.start / self.unit, (range.end - 1) / self.unit);
        self.units_written += (last - first + 1) as u64;
        let head = !range.start.is_multiple_of(self.unit);
        let tail = !range.end.is_multiple_of(self.unit);
        self.read_modify_writes += match first == last {
            true => u64::from(head || tail),
            false => u64::from(head) + u64::from(tail),
        };
    }

    fn write(&mut self) -> Result<SimTime, CommandError> {
        let (lba, range) = self.byte_range();
        let mut data = vec![0; range.len()];
        // Zeros now and then: the medium keeps them as nothing.
        if !self.rng.chance(0.1) {
            data.chunks_mut(8).for_each(|chunk| {
                chunk.copy_from_slice(&self.rng.bits().to_le_bytes());
            });
        }
        self.disk[range.clone()].copy_from_slice(&data);
        self.count(CommandKind::Write, data.len());
        self.count_units(&range);
        let fua = self.rng.chance(0.2);
        let hint = if self.rng.chance(0.3) { Hint::Metadata } else { Hint::None };
        if fua || hint != Hint::None || self.rng.chance(0.2) {
            let range = Range::new(lba, (data.len() as u64 / SECTOR_BYTES) as u32);
            return self.drive.execute_with(self.now, &Command::Write { range, fua, hint }, &data);
        }
        self.drive.write_bytes(self.now, lba, &data)
    }

    fn read(&mut self) -> Result<SimTime, CommandError> {
        let (lba, range) = self.byte_range();
        let mut out = vec![0xEE; range.len()];
        self.count(CommandKind::Read, out.len());
        let done = self.drive.read_bytes(self.now, lba, &mut out)?;
        assert!(out == self.disk[range.clone()], "bytes {range:?} differ");
        Ok(done)
    }

    /// The units inside `range`, in bytes, if there are any.
    fn whole_units(&self, range: &std::ops::Range<usize>) -> Option<std::ops::Range<usize>> {
        let whole = range.start.next_multiple_of(self.unit)..range.end / self.unit * self.unit;
        (whole.start < whole.end).then_some(whole)
    }

    fn trim(&mut self) -> Result<SimTime, CommandError> {
        let (lba, range) = self.byte_range();
        self.count(CommandKind::Trim, range.len());
        if let Some(whole) = self.whole_units(&range) {
            self.disk[whole].fill(0);
        }
        self.drive.request(self.now, Request::new(Op::Trim, lba, (range.len() as u64 / SECTOR_BYTES) as u32))
    }

    /// Some ranges, with padding now and then.
    fn ranges(&mut self, most: u32) -> Vec<Range> {
        (0..1 + self.rng.below(most))
            .map(|_| {
                let (lba, bytes) = self.byte_range();
                Range::new(lba, (bytes.len() as u64 / SECTOR_BYTES) as u32)
            })
            .collect()
    }

    fn deallocate(&mut self) -> Result<SimTime, CommandError> {
        let mut ranges = self.ranges(5);
        for range in &ranges {
            let from = (range.lba.get() * SECTOR_BYTES) as usize;
            let bytes = from..from + range.sectors as usize * SECTOR_BYTES as usize;
            if let Some(whole) = self.whole_units(&bytes) {
                self.disk[whole].fill(0);
            }
        }
        let sectors: usize = ranges.iter().map(|range| range.sectors as usize).sum();
        self.count(CommandKind::Trim, sectors * SECTOR_BYTES as usize);
        if self.rng.chance(0.2) {
            ranges.insert(0, Range::new(Lba::new(u64::MAX), 0));
        }
        self.drive.execute(self.now, &Command::Deallocate(&ranges))
    }

    fn write_zeroes(&mut self) -> Result<SimTime, CommandError> {
        let (lba, bytes) = self.byte_range();
        let deallocate = self.rng.chance(0.5);
        self.disk[bytes.clone()].fill(0);
        self.count(CommandKind::WriteZeroes, bytes.len());
        match self.whole_units(&bytes).filter(|_| deallocate) {
            Some(whole) => {
                let parts = u64::from(bytes.start < whole.start) + u64::from(whole.end < bytes.end);
                self.units_written += parts;
                self.read_modify_writes += parts;
            }
            None => self.count_units(&bytes),
        }
        let range = Range::new(lba, (bytes.len() as u64 / SECTOR_BYTES) as u32);
        self.drive.execute(self.now, &Command::WriteZeroes { range, deallocate })
    }

    /// A copy that may or may not be allowed; the drive must find that out too.
    fn copy(&mut self) -> Result<SimTime, CommandError> {
        let disk_sectors = self.disk.len() as u64 / SECTOR_BYTES;
        let per_unit = self.unit as u64 / SECTOR_BYTES;
        let most = 1 + self.rng.below(4);
        let mut sources = self.ranges(most);
        let mut destination = 0;
        let mut allowed = false;
        for _ in 0..8 {
            let sectors: u64 = sources.iter().map(|source| u64::from(source.sectors)).sum();
            destination = self.rng.below_u64(disk_sectors);
            if self.rng.chance(0.6) {
                // Alike within the unit, so that whole units can be copied.
                destination = destination / per_unit * per_unit + sources[0].lba.get() % per_unit;
            }
            let end = destination + sectors;
            let apart = |source: &Range| {
                source.lba.get() + u64::from(source.sectors) <= destination || end <= source.lba.get()
            };
            allowed = end <= disk_sectors && sources.iter().all(apart);
            if allowed {
                break;
            }
            sources.truncate(sources.len().div_ceil(2));
            sources[0].sectors = sources[0].sectors.div_ceil(2);
        }
        let command = Command::Copy { destination: Lba::new(destination), sources: &sources };
        if !allowed {
            let before = self.drive.stats();
            let error = self.drive.execute(self.now, &command).expect_err("leaves the drive or overlaps");
            let sort = matches!(error, CommandError::OutOfRange { .. } | CommandError::Overlap { .. });
            assert!(sort && self.drive.stats() == before, "{error}");
            return Ok(self.now);
        }
        self.copy_on_disk(destination, &sources);
        self.drive.execute(self.now, &command)
    }

    /// What the copy does to the plain disk and to the counters.
    fn copy_on_disk(&mut self, destination: u64, sources: &[Range]) {
        let per_unit = self.unit as u64 / SECTOR_BYTES;
        // Which source range and sector each sector comes from.
        let origin: Vec<(usize, u64)> = (sources.iter().enumerate())
            .flat_map(|(n, source)| (0..u64::from(source.sectors)).map(move |at| (n, source.lba.get() + at)))
            .collect();
        let old = self.disk.clone();
        let bytes = |sector: u64| (sector * SECTOR_BYTES) as usize..((sector + 1) * SECTOR_BYTES) as usize;
        for (to, &(_, from)) in (destination..).zip(&origin) {
            self.disk[bytes(to)].copy_from_slice(&old[bytes(from)]);
        }
        let end = destination + origin.len() as u64;
        for unit in destination / per_unit..end.div_ceil(per_unit) {
            let inside = unit * per_unit >= destination && (unit + 1) * per_unit <= end;
            let whole = inside && {
                let first = (unit * per_unit - destination) as usize;
                let (range, from) = origin[first];
                origin[first + per_unit as usize - 1].0 == range && from.is_multiple_of(per_unit)
            };
            self.units_written += u64::from(!whole);
            self.read_modify_writes += u64::from(!inside);
        }
        self.count(CommandKind::Copy, origin.len() * SECTOR_BYTES as usize);
    }

    fn flush(&mut self) -> Result<SimTime, CommandError> {
        self.count(CommandKind::Flush, 0);
        self.drive.execute(self.now, &Command::Flush)
    }

    fn compare_all(&mut self) {
        let mut out = vec![0xEE; self.disk.len()];
        self.drive.read_bytes(self.now, Lba::new(0), &mut out).expect("whole drive");
        self.count(CommandKind::Read, out.len());
        let differs = out.chunks(512).zip(self.disk.chunks(512)).position(|(a, b)| a != b);
        assert_eq!(differs, None, "first sector that differs");
    }

    /// Random commands; state, content and counters are checked every so often and at the end.
    fn exercise(mut self, commands: u32, check_every: u32) {
        for step in 0..commands {
            let result = match self.rng.below(24) {
                0..=10 => self.write(),
                11..=14 => self.read(),
                15 | 16 => self.trim(),
                17 => self.deallocate(),
                18 => self.write_zeroes(),
                19..=21 => self.copy(),
                _ => self.flush(),
            };
            let done = result.unwrap_or_else(|e| panic!("step {step}: {e}"));
            assert!(done >= self.now, "step {step}: completed before it was issued");
            if self.rng.chance(0.5) {
                self.now = done;
            }
            if step % check_every == 0 {
                self.drive.check().unwrap_or_else(|e| panic!("step {step}: {e}"));
                self.compare_all();
            }
        }
        self.compare_all();
        self.flush().expect("flush");
        self.compare_all();
        self.drive.check().expect("final state");
        self.check_counters();
    }

    fn check_counters(&self) {
        let ftl = self.drive.ftl();
        let host = self.drive.stats().host;
        for kind in CommandKind::ALL {
            assert_eq!(host.commands(kind), self.commands[kind as usize], "{kind:?} commands");
            assert_eq!(host.bytes(kind), self.bytes[kind as usize], "{kind:?} bytes");
        }
        assert_eq!(host.units_written, self.units_written);
        assert_eq!(host.read_modify_writes, self.read_modify_writes);
        assert!(ftl.stats().host_units_written <= self.units_written, "more units on flash than written");
        if let Some(nvram) = self.drive.stats().nvram {
            assert!(nvram.write_units <= self.units_written, "{nvram:?}");
            assert!(nvram.hits + nvram.evicted_units <= nvram.write_units, "{nvram:?}");
        }
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
                    let choices =
                        PageMapConfig { gc_stream, migration, allocation, leveling, ..SHAPE.choices };
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
    for seed in 1..=4 {
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

/// Cases for proptest; `PROPTEST_CASES` overrides.
fn cases() -> ProptestConfig {
    let default = ProptestConfig::default();
    let chosen = std::env::var_os("PROPTEST_CASES").is_some();
    let cases = if chosen { default.cases } else { 160 };
    // Shapes without room for a drive do not count, and may not be the rule.
    ProptestConfig { cases, max_global_rejects: cases, ..default }
}

proptest! {
    #![proptest_config(cases())]

    /// Geometry, caches, policy, every choice of the collector and the seed are all input.
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
            gc_stream, migration, temperature, allocation, leveling, net_blocks, virtual_map_entries, durable,
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
