//! TRIM commands for each drive, and their times.
//!
//! 1. Write a region in order, and wait for all programs.
//! 2. Freeze the drive.
//! 3. From the frozen state, trim the region in each way, one command after the other.

use serde::{Deserialize, Serialize};
use strobe_ssd::{Command, DriveConfig, HostQueue, Pacing, Range, Simulated, build};
use strobe_types::{Lba, Op, Prng, Request, SECTOR_BYTES, SimTime};

use super::{Environment, MODELS, Model, RANGE_KIB, RANGES, SIZES_KIB};
use crate::{Options, PaperError};
use strobe_lab::RunError;
use strobe_lab::points::Watch;

/// Layout of the ranges in single-range commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Shape {
    pub(super) size_kib: u64,
    /// True if the first sector is a multiple of the size; otherwise it is one sector later.
    pub(super) aligned: bool,
    /// True if each range begins at the end of the previous one; otherwise the order is random.
    pub(super) continuous: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Took {
    pub(super) commands: u64,
    pub(super) ns: u64,
}

#[derive(Debug)]
pub(super) struct Measured {
    pub(super) model: Model,
    /// One range per command.
    shapes: Vec<(Shape, Took)>,
    /// Ranges of 16 KiB, several per command.
    ranges: Vec<(u32, Took)>,
}

impl Measured {
    pub(super) fn of(trials: &[Trial], taken: &[Vec<Took>]) -> Vec<Self> {
        let of = |model: Model| {
            let mut measured = Self { model, shapes: Vec::new(), ranges: Vec::new() };
            for (trial, took) in trials.iter().zip(taken).filter(|(trial, _)| trial.model == model) {
                for (what, &took) in trial.what.iter().zip(took) {
                    match *what {
                        What::OneRange(shape) => measured.shapes.push((shape, took)),
                        What::Ranges(per_command) => measured.ranges.push((per_command, took)),
                    }
                }
            }
            measured
        };
        MODELS.into_iter().map(of).collect()
    }

    pub(super) fn us(&self, shape: Shape) -> Option<f64> {
        let (_, took) = self.shapes.iter().find(|(of, _)| *of == shape)?;
        (took.commands > 0).then(|| took.ns as f64 / took.commands as f64 / 1e3)
    }

    pub(super) fn seconds(&self, ranges: u32) -> Option<f64> {
        self.took(ranges).map(|took| took.ns as f64 / 1e9)
    }

    pub(super) fn took(&self, ranges: u32) -> Option<Took> {
        self.ranges.iter().find(|(of, _)| *of == ranges).map(|&(_, took)| took)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum What {
    OneRange(Shape),
    /// Number of ranges per command.
    Ranges(u32),
}

/// Ways to trim one drive, each from the same frozen state.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Trial {
    #[serde(skip)]
    model: Model,
    drive: DriveConfig,
    what: Vec<What>,
    region_bytes: u64,
    seed: u64,
}

impl Trial {
    /// Trials of all drives, in pieces that keep two cores busy.
    pub(super) fn all(options: &Options, environment: &Environment) -> Result<Vec<Self>, PaperError> {
        let mut trials = Vec::new();
        for model in MODELS {
            let drive = crate::drive(model.preset, options, |_| {})?;
            let aligned = Shape::all().filter(|shape| shape.aligned).map(What::OneRange);
            let unaligned = Shape::all().filter(|shape| !shape.aligned).map(What::OneRange);
            let ranges = RANGES.map(What::Ranges);
            for what in [aligned.chain(ranges).collect::<Vec<_>>(), unaligned.collect()] {
                let Environment { region_bytes, seed } = *environment;
                trials.push(Self { model, drive: drive.clone(), what, region_bytes, seed });
            }
        }
        Ok(trials)
    }
}

impl Shape {
    /// All shapes in the order of the figures.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        [true, false].into_iter().flat_map(|aligned| {
            [true, false]
                .into_iter()
                .flat_map(move |continuous| SIZES_KIB.map(|size_kib| Shape { size_kib, aligned, continuous }))
        })
    }
}

pub(super) fn measure(
    trial: &Trial,
    environment: &Environment,
    watch: &dyn Watch,
) -> Result<Vec<Took>, PaperError> {
    let failed =
        |error: RunError| PaperError::Run { run: trial.model.preset.to_owned(), error: Box::new(error) };
    let (drive, start) = written(trial, environment, watch)?;
    let once = |what: &What| {
        if watch.stopped() {
            return Err(PaperError::Interrupted);
        }
        let (ranges, per_command) = match *what {
            What::OneRange(Shape { size_kib, aligned, continuous }) => {
                let order = if continuous { Order::Continuous } else { Order::Random };
                (ranges(environment, size_kib, aligned, order), 1)
            }
            What::Ranges(per_command) => {
                (ranges(environment, RANGE_KIB, true, Order::Continuous), per_command)
            }
        };
        trim_all(drive.freeze(), start, &ranges, per_command).map_err(failed)
    };
    trial.what.iter().map(once).collect()
}

fn written(
    trial: &Trial,
    environment: &Environment,
    watch: &dyn Watch,
) -> Result<(Box<dyn Simulated>, SimTime), PaperError> {
    let failed =
        |error: RunError| PaperError::Run { run: trial.model.preset.to_owned(), error: Box::new(error) };
    let mut drive = build(&trial.drive, true, environment.seed).map_err(|error| failed(error.into()))?;
    drive.set_stop(watch.stop_flag());
    const SECTORS: u32 = 256;
    let writes: Vec<Request> = (0..environment.region_bytes / SECTOR_BYTES / u64::from(SECTORS))
        .map(|n| Request::new(Op::Write, Lba::new(n * u64::from(SECTORS)), SECTORS))
        .collect();
    let mut queue = HostQueue::new(Pacing::Closed { depth: 32, interval_ns: 0 }, SimTime::ZERO);
    drive.run(&writes, &[], &mut queue).map_err(|(_, error)| failed(RunError::Command(error)))?;
    // Finish all programs, so that no TRIM waits for one.
    let start = drive.settle(queue.finished()).map_err(|error| failed(RunError::Command(error)))?;
    Ok((drive, start))
}

#[derive(Clone, Copy)]
enum Order {
    Continuous,
    Random,
}

fn ranges(environment: &Environment, size_kib: u64, aligned: bool, order: Order) -> Vec<Range> {
    let sectors = size_kib * 1024 / SECTOR_BYTES;
    let shift = u64::from(!aligned);
    let mut ranges: Vec<Range> = (0..environment.region_bytes / SECTOR_BYTES / sectors)
        .map(|n| Range::new(Lba::new(n * sectors + shift), sectors as u32))
        .collect();
    if let Order::Random = order {
        let mut rng = Prng::derive(environment.seed, "trim-order");
        for at in (1..ranges.len()).rev() {
            ranges.swap(at, rng.below_u64(at as u64 + 1) as usize);
        }
    }
    ranges
}

fn trim_all(
    mut drive: Box<dyn Simulated>,
    start: SimTime,
    ranges: &[Range],
    per_command: u32,
) -> Result<Took, RunError> {
    let before = drive.stats().host.commands(Op::Trim);
    let mut now = start;
    for ranges in ranges.chunks(per_command as usize) {
        now = drive.execute(now, &Command::Deallocate(ranges)).map_err(RunError::Command)?;
    }
    Ok(Took { commands: drive.stats().host.commands(Op::Trim) - before, ns: now.since(start) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scale;

    const SMALL: Environment = Environment { region_bytes: 4 << 20, seed: 3 };

    #[test]
    fn every_trial_trims_everything_once() {
        for (size_kib, aligned, order) in
            [(4, true, Order::Continuous), (16, false, Order::Random), (128, true, Order::Random)]
        {
            let mut ranges = ranges(&SMALL, size_kib, aligned, order);
            assert_eq!(ranges.len() as u64, 4096 / size_kib);
            ranges.sort_by_key(|range| range.lba);
            for (n, range) in (0..).zip(ranges) {
                let sectors = size_kib * 2;
                let expected = Range::new(Lba::new(n * sectors + u64::from(!aligned)), sectors as u32);
                assert_eq!(range, expected);
            }
        }
    }

    #[test]
    fn a_command_takes_what_its_preset_says() {
        let trials = Trial::all(&Options::new(Scale::Tiny, 3), &SMALL).expect("presets");
        let taken: Vec<Vec<Took>> =
            trials.iter().map(|trial| measure(trial, &SMALL, &()).expect("runs")).collect();
        let [_, _, measured] = &Measured::of(&trials, &taken)[..] else { panic!("three drives") };
        assert_eq!((measured.shapes.len(), measured.ranges.len()), (24, 4));
        // 176 µs per command; per range 9.5 µs and 140.8 µs per MiB; 8.8 µs for the only jump, the
        // first.
        let range_ns = 9500 + 140_800 / 64;
        for &(ranges, took) in &measured.ranges {
            assert_eq!(took.commands, 256 / u64::from(ranges));
            assert_eq!(took.ns, took.commands * 176_000 + 256 * range_ns + 8800, "{ranges} ranges");
        }
    }
}
