//! The non-volatile cache across power cuts, over a mapping scheme that keeps only its promises. After a cut,
//! each unit reads as at the last flush or later, and cached data is still there.

use strobe_ftl::gc::Greedy;
use strobe_ftl::{
    BlockInfo, CheckError, FtlError, FtlStats, Inspectable, MappingScheme, PageMap, PageMapConfig,
    Recoverable, Recovery, RecoveryError, WriteContext,
};
use strobe_nand::{Chip, StampMedium, Unit, Untimed, WearConfig, When};
use strobe_ssd::{
    Command, ControllerConfig, Device, Drive, Hint, Inspect, Nvram, NvramConfig, NvramPolicyName, Range,
    SectorRange,
};
use strobe_types::{BlockId, Geometry, GeometrySpec, Lba, Lpn, Ppa, Prng, SimTime};

use crate::setup::{T0, UNIT};

const UNITS: u32 = 40;

type Flash = Chip<Untimed, StampMedium>;

/// A page map that keeps written units and the flushed state across a power cut. Of the trims and copies
/// since then some survive, some do not.
#[derive(Clone)]
struct Forgetful {
    inner: PageMap<Flash, Greedy>,
    states: Vec<Vec<u64>>,
    rng: Prng,
}

impl Forgetful {
    fn new(content: Vec<u64>, units_per_page: u32, seed: u64) -> Self {
        let geometry = Geometry::new(GeometrySpec {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 1,
            blocks_per_plane: 24,
            pages_per_block: 4,
            page_bytes: units_per_page * 4096,
            unit_bytes: 4096,
        });
        let geometry = geometry.expect("valid geometry");
        let policy = Greedy::new(geometry.blocks());
        let chip = Chip::new(geometry, WearConfig::default(), Untimed::default(), 1);
        let mut inner = PageMap::new(chip, policy, PageMapConfig::new(UNITS)).expect("room");
        let mapped = (0..UNITS).zip(&content).filter(|(_, stamp)| **stamp > 0);
        let units: Vec<_> = mapped.map(|(lpn, &payload)| Unit { lpn: Lpn::new(lpn), payload }).collect();
        inner.write(When::START, &units, WriteContext::HOST).expect("runs");
        Self { inner, states: vec![content], rng: Prng::new(seed) }
    }

    fn step(&mut self, change: impl FnOnce(&mut Vec<u64>)) {
        let mut state = self.states.last().cloned().unwrap_or_default();
        change(&mut state);
        self.states.push(state);
    }

    fn keep(&mut self, units: std::ops::Range<u32>, probability: f64) {
        for lpn in units {
            if self.rng.chance(probability) {
                let mut found = Vec::new();
                self.inner.read(When::START, Lpn::new(lpn), 1, &mut found).expect("reads");
                self.step(|state| state[lpn as usize] = found[0]);
            }
        }
    }
}

impl MappingScheme for Forgetful {
    type Payload = u64;
    type Nand = Flash;

    fn nand(&self) -> &Flash {
        self.inner.nand()
    }

    fn nand_mut(&mut self) -> &mut Flash {
        self.inner.nand_mut()
    }

    fn logical_units(&self) -> u32 {
        UNITS
    }

    fn stats(&self) -> &FtlStats {
        self.inner.stats()
    }

    fn write(&mut self, now: When, units: &[Unit<u64>], context: WriteContext) -> Result<When, FtlError> {
        for unit in units {
            self.step(|state| state[unit.lpn.index()] = unit.payload);
        }
        self.inner.write(now, units, context)
    }

    fn read(&mut self, now: When, first: Lpn, count: u32, out: &mut Vec<u64>) -> Result<When, FtlError> {
        self.inner.read(now, first, count, out)
    }

    fn trim(&mut self, now: When, first: Lpn, count: u32) -> Result<When, FtlError> {
        let done = self.inner.trim(now, first, count);
        self.keep(first.get()..first.get() + count, 0.3);
        done
    }

    fn copy(&mut self, now: When, from: Lpn, to: Lpn, count: u32) -> Result<When, FtlError> {
        let done = self.inner.copy(now, from, to, count);
        self.keep(to.get()..to.get() + count, 0.3);
        done
    }

    fn flush(&mut self, now: When) -> Result<When, FtlError> {
        self.keep(0..UNITS, 1.0);
        self.inner.flush(now)
    }

    fn stripe_units(&self) -> u32 {
        self.inner.stripe_units()
    }
}

impl Inspectable for Forgetful {
    fn locate(&self, lpn: Lpn) -> Option<Ppa> {
        self.inner.locate(lpn)
    }

    fn mapped_units(&self) -> u32 {
        self.inner.mapped_units()
    }

    fn free_blocks(&self) -> u32 {
        self.inner.free_blocks()
    }

    fn block_info(&self, block: BlockId) -> BlockInfo {
        self.inner.block_info(block)
    }

    fn peek(&self, lpn: Lpn) -> u64 {
        self.inner.peek(lpn)
    }

    fn check(&self) -> Result<(), CheckError> {
        self.inner.check()
    }
}

impl Recoverable for Forgetful {
    fn recover(self, _: SimTime, _: Flash) -> Result<(Self, Recovery), RecoveryError> {
        Err(RecoveryError::Volatile)
    }
}

fn content(drive: &Drive<Forgetful>) -> Vec<u64> {
    crate::setup::contents(&mut drive.clone())
}

struct Bench {
    drive: Drive<Forgetful>,
    controller: ControllerConfig,
    units_per_page: u32,
    rng: Prng,
    legal: Vec<Vec<u64>>,
}

impl Bench {
    fn new(controller: ControllerConfig, units_per_page: u32, seed: u64) -> Self {
        let ftl = Forgetful::new(vec![0; UNITS as usize], units_per_page, seed);
        let drive = Drive::new(ftl, &controller);
        let legal = vec![vec![0]; UNITS as usize];
        Self { drive, controller, units_per_page, rng: Prng::derive(seed, "nvram-cut"), legal }
    }

    fn range(&mut self, most: u32) -> Range {
        let units = 1 + self.rng.below(most);
        let first = u64::from(self.rng.below(UNITS - units + 1) * UNIT);
        if self.rng.chance(0.8) {
            Range::new(Lba::new(first), units * UNIT)
        } else {
            Range::new(Lba::new(first + 3), units * UNIT - 3)
        }
    }

    fn step(&mut self) {
        let (range, other) = (self.range(5), self.range(5));
        let ranges = [range, other];
        let hint = if self.rng.chance(0.5) { Hint::Metadata } else { Hint::None };
        let command = match self.rng.below(20) {
            0..=9 => Command::Write { range, fua: self.rng.chance(0.2), tag: hint.into() },
            10..=12 => Command::Deallocate(&ranges),
            13 | 14 => Command::WriteZeroes { range, deallocate: self.rng.chance(0.7) },
            15 => Command::Flush,
            16 => Command::Read { range },
            _ => Command::Copy { destination: other.lba, sources: &ranges[..1] },
        };
        let nvram = self.drive.nvram().cloned();
        let (before, steps) = (content(&self.drive), self.drive.ftl().states.len());
        let refused = self.drive.execute(T0, &command).is_err();
        assert!(!refused || matches!(command, Command::Copy { .. }), "{command:?}");
        self.drive.check().expect("state");
        let after = content(&self.drive);
        for (legal, &stamp) in self.legal.iter_mut().zip(&after) {
            legal.push(stamp);
        }
        let states = self.drive.ftl().states[steps - 1..].to_vec();
        for state in states {
            self.cut(state, nvram.clone(), &command);
        }
        self.settle_legal(&command, &before, &after);
        self.cut(
            self.drive.ftl().states.last().cloned().expect("one"),
            self.drive.nvram().cloned(),
            &command,
        );
    }

    fn settle_legal(&mut self, command: &Command<'_>, before: &[u64], after: &[u64]) {
        let forced = |lpn: u32| match *command {
            Command::Write { range, fua: true, .. } => {
                let first = range.lba.get() / u64::from(UNIT);
                let end = (range.lba.get() + u64::from(range.sectors)).div_ceil(UNIT.into());
                (first..end).contains(&lpn.into())
            }
            _ => *command == Command::Flush,
        };
        for lpn in 0..UNITS {
            let (legal, at) = (&mut self.legal[lpn as usize], lpn as usize);
            let is_held = self.drive.nvram().is_some_and(|nvram| nvram.holds(Lpn::new(lpn)));
            if forced(lpn) || is_held {
                *legal = vec![after[at]];
            } else if before[at] == after[at] {
                legal.pop();
            }
        }
    }

    fn cut(&mut self, state: Vec<u64>, nvram: Option<Nvram<u64>>, command: &Command<'_>) {
        let ftl = Forgetful::new(state, self.units_per_page, self.rng.bits());
        let mut drive = Drive::new(ftl, &self.controller);
        if let Some(nvram) = nvram {
            drive = drive.with_nvram(nvram);
        }
        let found = content(&drive);
        for (lpn, (stamp, legal)) in found.iter().zip(&self.legal).enumerate() {
            assert!(legal.contains(stamp), "{command:?}: unit {lpn} is {stamp}, may be {legal:?}");
        }
        // A second cut, after a flush, changes nothing.
        drive.execute(T0, &Command::Flush).expect("runs");
        let left = drive.ftl().states.last().cloned().expect("one");
        let mut again = Drive::new(Forgetful::new(left, self.units_per_page, 1), &self.controller);
        if let Some(nvram) = drive.nvram().cloned() {
            again = again.with_nvram(nvram);
        }
        assert_eq!(content(&again), found, "{command:?}");
    }
}

#[test]
fn a_cut_at_any_step_leaves_what_was_flushed_or_newer() {
    for policy in [NvramPolicyName::Lru, NvramPolicyName::LbaRange, NvramPolicyName::Hint] {
        for (seed, cache_units) in (1..).zip([0, 1, 2, 6, 15]) {
            for (buffer_units, units_per_page) in [(0, 1), (6, 1), (9, 2)] {
                let ranges = match policy {
                    NvramPolicyName::LbaRange => vec![SectorRange { first_sector: 4, sectors: 130 }],
                    _ => Vec::new(),
                };
                let nvram =
                    NvramConfig { bytes: cache_units * 4096, policy, ranges, ..NvramConfig::default() };
                let controller = ControllerConfig {
                    write_buffer_bytes: buffer_units * 4096,
                    nvram,
                    ..ControllerConfig::default()
                };
                let mut bench = Bench::new(controller, units_per_page, seed);
                (0..250).for_each(|_| bench.step());
            }
        }
    }
}
