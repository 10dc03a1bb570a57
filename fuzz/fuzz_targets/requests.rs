//! Any drive and any commands, compared with a plain byte disk.

#![no_main]

use arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use strobe_ftl::gc::{Formula, Greedy, Kinetic, LinearScore, Sampled, Sampling, ScataAge, VictimPolicy};
use strobe_ftl::wear::Leveling;
use strobe_ftl::{Allocation, GcStream, Inspectable, PageMap, PageMapConfig, PlacementKind, Temperature};
use strobe_nand::{
    ArrayTiming, ByteMedium, Chip, Issue, SuspendConfig, Timing, TimingConfig, Untimed, WearConfig,
};
use strobe_ssd::{CommandError, ControllerConfig, Device as _, Drive, HostQueue, Inspect as _, Pacing};
use strobe_types::{Geometry, GeometrySpec, Lba, Op, Request, SECTOR_BYTES, SimTime};

#[derive(Arbitrary, Debug)]
struct Case {
    channels: u8,
    dies: u8,
    planes: u8,
    blocks: u8,
    pages: u8,
    units_per_page: u8,
    unit_shift: u8,
    buffer_units: u8,
    min_free_blocks: u8,
    net_blocks: u8,
    spare_units: u8,
    policy: u8,
    window: u8,
    own_stream: bool,
    placement: u8,
    temperature: u8,
    allocation: u8,
    leveling: u8,
    threshold: u8,
    set_blocks: u8,
    timed: bool,
    endurance_pe: u8,
    fail_per_256: u8,
    factory_bad: u8,
    seed: u16,
    commands: Vec<Command>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Command {
    Write(Range),
    Read(Range),
    Trim(Range),
    Flush,
    /// A length that is not a multiple of the sector size.
    Ragged {
        write: bool,
        lba: u16,
        bytes: u16,
    },
    /// Any range, even at the end of the number space.
    Wild {
        op: u8,
        lba: u64,
        sectors: u32,
    },
    /// A time before the last one.
    Back(u16),
    Forward(u32),
    Check,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Range {
    lba: u16,
    sectors: u8,
    /// Snap to whole units.
    whole: bool,
}

fuzz_target!(|input: &[u8]| {
    if let Ok(case) = Case::arbitrary_take_rest(Unstructured::new(input)) {
        case.run();
    }
});

impl Case {
    fn geometry(&self) -> Geometry {
        let unit_bytes = 512 << (self.unit_shift % 4);
        Geometry::new(GeometrySpec {
            channels: 1 + u32::from(self.channels % 3),
            dies_per_channel: 1 + u32::from(self.dies % 2),
            planes_per_die: 1 + u32::from(self.planes % 3),
            blocks_per_plane: 3 + u32::from(self.blocks % 24),
            pages_per_block: 1 + u32::from(self.pages % 8),
            page_bytes: (1 + u32::from(self.units_per_page % 5)) * unit_bytes,
            unit_bytes,
        })
        .expect("valid geometry")
    }

    fn run(&self) {
        let geometry = self.geometry();
        let blocks = geometry.blocks();
        let per_block = geometry.units_per_block();
        let kinetic = |score| Kinetic::new(blocks, per_block, score);
        match self.policy % 15 {
            0 => self.with_policy(Greedy::new(blocks)),
            1 => self.with_policy(Greedy::windowed(blocks, 1 + u32::from(self.window))),
            2 => self.with_policy(kinetic(LinearScore::CostBenefit)),
            3 => self.with_policy(kinetic(LinearScore::Lfs)),
            4 => self.with_policy(kinetic(LinearScore::Cat)),
            5 => self.with_policy(kinetic(LinearScore::FeGc)),
            6 => self.with_policy(kinetic(LinearScore::CaPi)),
            7 => self.with_policy(Kinetic::scata(blocks, per_block, ScataAge::OldestInvalid)),
            8 => self.with_policy(Kinetic::scata(blocks, per_block, ScataAge::NewestInvalid)),
            9 => self.with_policy(Sampled::new(blocks, Sampling::Fifo)),
            10 => self.with_policy(Sampled::new(blocks, Sampling::Choices(1))),
            11 => self.with_policy(Sampled::new(blocks, Sampling::Choices(4))),
            12 => self.with_formula("age * (1-u) / (1+u)^2"),
            13 => self.with_formula("age_newest_valid * (1-u)"),
            _ => self.with_formula("1 / valid"),
        }
    }

    fn with_formula(&self, text: &str) {
        let geometry = self.geometry();
        let formula = Formula::new(geometry.blocks(), geometry.units_per_block(), text);
        self.with_policy(formula.expect("a formula"));
    }

    fn leveling(&self) -> Option<Leveling> {
        let threshold = 1 + u32::from(self.threshold % 16);
        match self.leveling % 4 {
            0 => None,
            1 => Some(Leveling::Swap { threshold }),
            2 => Some(Leveling::DualPool { threshold }),
            _ => Some(Leveling::SwLeveler { threshold, set_blocks: 1 + u32::from(self.set_blocks % 8) }),
        }
    }

    fn with_policy<V: VictimPolicy + Clone + Send + 'static>(&self, policy: V) {
        let timing = TimingConfig {
            read_ns: 50.into(),
            program_ns: 700.into(),
            erase_ns: 5000,
            slc: None,
            channel_mb_s: 100_000,
            spare_bytes: u32::from(self.seed % 64),
            pages_per_program: 1,
            command_ns: u64::from(self.seed / 4 % 3),
            cache_program: self.seed.is_multiple_of(2),
            cache_read: (self.seed / 2).is_multiple_of(2),
            independent_plane_reads: (self.seed / 3).is_multiple_of(2),
            deadline_ns: [0, 500, 1000, 2000, 4000].map(|ns| ns * u64::from(self.seed % 3)),
            suspend: SuspendConfig {
                most: u32::from(self.seed % 4),
                suspend_ns: 10,
                resume_ns: 20,
                least_left_ns: 30,
            },
            issue: if self.seed % 5 == 0 { Issue::InOrder } else { Issue::PerDie },
        };
        if self.timed {
            self.with_timing(ArrayTiming::new(timing, &self.geometry()), policy)
        } else {
            self.with_timing(Untimed::default(), policy)
        }
    }

    fn with_timing<T: Timing + Send + 'static, V: VictimPolicy + Clone + Send + 'static>(
        &self,
        timing: T,
        policy: V,
    ) {
        let geometry = self.geometry();
        let factory_bad = u32::from(self.factory_bad % 4);
        let wear = WearConfig {
            endurance_pe: (self.endurance_pe > 200).then(|| u32::from(self.endurance_pe) - 200),
            factory_bad_blocks: factory_bad,
            program_fail_rate: if self.fail_per_256 > 240 { 0.02 } else { 0.0 },
        };
        let choices = PageMapConfig {
            gc_stream: if self.own_stream { GcStream::Own } else { GcStream::Host },
            min_free_blocks: (self.min_free_blocks > 100).then_some(u32::from(self.min_free_blocks % 12)),
            fault_reserve: u32::from(self.min_free_blocks % 3),
            net_blocks: 1 + u32::from(self.net_blocks % 4),
            placement: [
                PlacementKind::Single,
                PlacementKind::HotCold,
                PlacementKind::Sorted,
                PlacementKind::Hints,
                PlacementKind::SepBit { streams: 4 + (self.seed % 6) as u8 },
            ][usize::from(self.placement % 5)],
            temperature: [Temperature::UpdateCount, Temperature::UpdateRate, Temperature::LastWrite]
                [usize::from(self.temperature % 3)],
            allocation: [Allocation::Fifo, Allocation::LeastErased, Allocation::Adaptive]
                [usize::from(self.allocation % 3)],
            leveling: self.leveling(),
            seed: u64::from(self.seed),
            ..PageMapConfig::new(0)
        };
        let good = geometry.blocks().saturating_sub(factory_bad);
        let capacity = choices.capacity(&geometry, good).capacity_units() as u32;
        let logical_units = capacity.saturating_sub(u32::from(self.spare_units % 32)).max(1);
        let map = PageMapConfig { logical_units, ..choices };
        let controller = ControllerConfig {
            write_buffer_bytes: u64::from(self.buffer_units % 70) * u64::from(geometry.unit_bytes()),
            command_ns: u64::from(self.seed % 3) * 100,
            ..ControllerConfig::default()
        };
        let chip = Chip::<T, ByteMedium>::new(geometry.clone(), wear, timing, u64::from(self.seed));
        let Ok(ftl) = PageMap::new(chip, policy, map) else { return };
        let drive = Drive::new(ftl, &controller);
        let bytes = drive.sectors() * SECTOR_BYTES;
        Bench {
            disk: vec![0; bytes as usize],
            unit: geometry.unit_bytes() as usize,
            mortal: wear.endurance_pe.is_some() || wear.program_fail_rate > 0.0,
            now: SimTime::ZERO,
            version: 0,
            drive,
        }
        .exercise(&self.commands);
    }
}

struct Bench<F: Inspectable> {
    drive: Drive<F>,
    disk: Vec<u8>,
    unit: usize,
    /// True if flash may reach its end of life.
    mortal: bool,
    now: SimTime,
    version: u64,
}

impl<F> Bench<F>
where
    F: Inspectable<Payload = strobe_nand::UnitBytes> + Clone + Send + 'static,
    F::Nand: Clone,
{
    fn exercise(mut self, commands: &[Command]) {
        // Start with a full drive, the hardest case.
        let whole = self.disk.len();
        if self.write(0, whole).is_err() {
            return;
        }
        for &command in commands {
            let result = match command {
                Command::Write(range) => {
                    let (from, length) = self.place(range);
                    self.write(from, length)
                }
                Command::Read(range) => {
                    let (from, length) = self.place(range);
                    self.read(from, length)
                }
                Command::Trim(range) => {
                    let (from, length) = self.place(range);
                    self.trim(from, length)
                }
                Command::Flush => self.request(Request::FLUSH),
                Command::Ragged { write, lba, bytes } => self.ragged(write, lba, bytes),
                Command::Wild { op, lba, sectors } => self.wild(op, lba, sectors),
                Command::Back(ns) => {
                    self.now = SimTime::from_ns(self.now.as_ns().saturating_sub(u64::from(ns)));
                    Ok(self.now)
                }
                Command::Forward(ns) => {
                    self.now = self.now + u64::from(ns);
                    Ok(self.now)
                }
                Command::Check => {
                    self.compare();
                    Ok(self.now)
                }
            };
            match result {
                Ok(done) => {
                    assert!(done >= self.now, "{command:?}: done before it was issued");
                    if done.as_ns() % 2 == 0 {
                        self.now = done;
                    }
                }
                Err(CommandError::Ftl(error)) => {
                    // Worn out; earlier data must stay consistent.
                    assert!(self.mortal, "{command:?}: {error}");
                    return self.drive.check().expect("consistent at the end of life");
                }
                Err(error) => panic!("{command:?}: {error}"),
            }
        }
        self.compare();
        let _ = self.request(Request::FLUSH);
    }

    fn request(&mut self, request: Request) -> Result<SimTime, CommandError> {
        let mut queue = HostQueue::new(Pacing::Open, self.now);
        self.drive.run(&[request], &[], &mut queue).map_err(|(_, error)| error)?;
        Ok(queue.finished())
    }

    fn place(&self, range: Range) -> (usize, usize) {
        let sectors = self.disk.len() / 512;
        let per_unit = self.unit / 512;
        let mut lba = usize::from(range.lba) % sectors;
        let mut count = 1 + usize::from(range.sectors);
        if range.whole {
            lba -= lba % per_unit;
            count = count.next_multiple_of(per_unit);
        }
        (lba * 512, count.min(sectors - lba) * 512)
    }

    fn write(&mut self, from: usize, length: usize) -> Result<SimTime, CommandError> {
        self.version += 1;
        let mut data = vec![0; length];
        if self.version % 8 != 0 {
            for (at, chunk) in data.chunks_mut(8).enumerate() {
                let stamp = self.version << 32 | (from / 8 + at) as u64;
                chunk.copy_from_slice(&stamp.to_le_bytes()[..chunk.len()]);
            }
        }
        let done = self.drive.write_bytes(self.now, Lba::new((from / 512) as u64), &data)?;
        self.disk[from..from + length].copy_from_slice(&data);
        Ok(done)
    }

    fn read(&mut self, from: usize, length: usize) -> Result<SimTime, CommandError> {
        let mut out = vec![0xEE; length];
        let done = self.drive.read_bytes(self.now, Lba::new((from / 512) as u64), &mut out)?;
        assert!(out == self.disk[from..from + length], "bytes from {from}, {length} of them, differ");
        Ok(done)
    }

    fn trim(&mut self, from: usize, length: usize) -> Result<SimTime, CommandError> {
        let (first, end) = (from.next_multiple_of(self.unit), (from + length) / self.unit * self.unit);
        if first < end {
            self.disk[first..end].fill(0);
        }
        self.request(Request::new(Op::Trim, Lba::new((from / 512) as u64), (length / 512) as u32))
    }

    fn ragged(&mut self, write: bool, lba: u16, bytes: u16) -> Result<SimTime, CommandError> {
        let lba = Lba::new(u64::from(lba));
        let mut data = vec![1; usize::from(bytes) | 1];
        let before = self.drive.stats();
        let result = if write {
            self.drive.write_bytes(self.now, lba, &data)
        } else {
            self.drive.read_bytes(self.now, lba, &mut data)
        };
        assert!(matches!(result, Err(CommandError::Length { .. })), "{result:?}");
        assert_eq!(self.drive.stats(), before, "a refused command left a trace");
        Ok(self.now)
    }

    /// A range beyond the drive is refused without side effects, others are read.
    fn wild(&mut self, op: u8, lba: u64, sectors: u32) -> Result<SimTime, CommandError> {
        let drive_sectors = self.drive.sectors();
        let inside = lba.checked_add(u64::from(sectors)).is_some_and(|end| end <= drive_sectors);
        if inside && sectors > 0 {
            return self.read(lba as usize * 512, sectors as usize * 512);
        }
        let op = [Op::Read, Op::Write, Op::Trim][usize::from(op % 3)];
        let before = self.drive.stats();
        let result = self.request(Request::new(op, Lba::new(lba), sectors));
        match sectors {
            0 => assert!(matches!(result, Err(CommandError::Empty { .. })), "{result:?}"),
            _ => assert!(matches!(result, Err(CommandError::OutOfRange { .. })), "{result:?}"),
        }
        assert_eq!(self.drive.stats(), before, "a refused command left a trace");
        Ok(self.now)
    }

    fn compare(&mut self) {
        self.drive.check().expect("consistent");
        let whole = self.disk.len();
        self.read(0, whole).expect("the whole drive reads");
    }
}
