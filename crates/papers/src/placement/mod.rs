//! Data placement: SepBIT's comparison (Wang et al., FAST 2022) together with its authors' simulator, and the
//! effect of its schemes on latency.

mod cells;
mod fdp;
mod figures;
mod groups;
mod timed;
mod two_regions;

use serde::{Deserialize, Serialize};
use strobe_ftl::{Fk, Future, FutureBuilder};
use strobe_lab::RunError;
use strobe_lab::points::Watch;
use strobe_nand::NandOp;
use strobe_ssd::{
    DriveBuilder, DriveConfig, GcMode, GcStream, HostQueue, Pacing, SchemeName, Simulated, build,
};
use strobe_types::{Lba, Lpn, Op, Request, SECTOR_BYTES, SimTime};

use self::cells::{CELLS, Cell};
use super::pool::Bench;
use super::{Made, Options, Paper, PaperError, Scale};

pub(crate) const CLAIMS: &str = include_str!("claims.toml");

pub(super) const PAPER: Paper = Paper {
    name: "placement",
    title: "Separating Data via Block Invalidation Time Inference for Write Amplification Reduction in \
            Log-Structured Storage",
    authors: "Qiuping Wang, Jinhong Li, Patrick P. C. Lee, Tao Ouyang, Chao Shi, Lilong Huang, FAST 2022",
    reproduces: "write amplification of SepBIT and seven other placement schemes, compared with its authors' simulator; \
                 the same on a drive of fixed size; 2R compared with SSD-iq's simulator, MiDAS with its authors'; the \
                 effect of a lower write amplification on latency",
    takes: "several minutes with --quick, 15 to 25 minutes in full on two cores; no kernel",
    make,
};

#[derive(Clone, Copy, Debug, PartialEq)]
struct Scheme {
    label: &'static str,
    scheme: SchemeName,
    stream: GcStream,
    /// Erased blocks that a drive reserves for the streams of relocated units beyond the first.
    kept: u32,
}

const SCHEMES: [Scheme; 8] = [
    Scheme { label: "NoSep", scheme: SchemeName::None, stream: GcStream::Host, kept: 0 },
    Scheme { label: "SepGC", scheme: SchemeName::SepGc, stream: GcStream::Own, kept: 0 },
    Scheme { label: "SepBIT", scheme: SchemeName::Sepbit, stream: GcStream::Own, kept: 2 },
    Scheme { label: "DAC", scheme: SchemeName::Dac, stream: GcStream::Own, kept: 5 },
    Scheme { label: "SFS", scheme: SchemeName::Sfs, stream: GcStream::Own, kept: 5 },
    Scheme { label: "FADaC", scheme: SchemeName::Fadac, stream: GcStream::Own, kept: 5 },
    Scheme { label: "WARCIP", scheme: SchemeName::Warcip, stream: GcStream::Own, kept: 0 },
    Scheme { label: "FK", scheme: SchemeName::Fk, stream: GcStream::Own, kept: 5 },
];

#[derive(Clone, Copy, Debug, PartialEq)]
struct Victim {
    name: &'static str,
    label: &'static str,
    formula: &'static str,
}

/// Victim policies. The age of a block counts from the last write to it, and is 0 if the current write is the
/// last.
const VICTIMS: [Victim; 2] = [
    Victim { name: "cb", label: "cost-benefit, √age", formula: "(1-u)/u*sqrt(age_closed - 1)" },
    Victim { name: "greedy", label: "greedy", formula: "greedy" },
];

const UNITS: u32 = 512;
/// Share of invalid units in full blocks, of all written units, that triggers collection of a block.
const GARBAGE: f64 = 0.15;
/// Blocks of a drive of fixed size with the same average fill, without those reserved for further streams:
/// addresses / ((1 - GARBAGE) UNITS), two erased ones and half of each of six open ones.
const FIXED_BLOCKS: u32 = 608;

#[derive(Clone, Copy, Debug)]
struct Environment {
    addresses: u32,
    /// Writes after the fill, in multiples of the addresses.
    rounds: u32,
}

impl Environment {
    fn new(scale: Scale) -> Self {
        match scale {
            // Published numbers are for this size; a smaller run is another experiment.
            Scale::Full | Scale::Quick => Self { addresses: 1 << 18, rounds: 15 },
            Scale::Tiny => Self { addresses: 1 << 15, rounds: 1 },
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    scheme: &'static str,
    victim: &'static str,
    cell: &'static str,
    is_fixed: bool,
    addresses: u32,
    rounds: u32,
    drive: DriveConfig,
    #[serde(skip)]
    source: Cell,
}

impl Point {
    fn new(
        options: &Options,
        scheme: Scheme,
        victim: Victim,
        cell: Cell,
        is_fixed: bool,
    ) -> Result<Self, PaperError> {
        let Environment { addresses, rounds } = Environment::new(options.scale);
        let drive = super::drive("generic-8g", options, |drive| {
            // The two erased blocks and half of the six open ones do not scale with the addresses.
            let fixed = (FIXED_BLOCKS - 5) * (addresses / UNITS) / (1 << 9) + 5 + scheme.kept;
            drive.nand.blocks_per_plane = if is_fixed { fixed } else { fixed * 3 / 2 };
            drive.nand.pages_per_block = UNITS;
            drive.nand.endurance_pe = 0;
            drive.ftl.logical_pages = Some(addresses);
            drive.ftl.placement.scheme = scheme.scheme.into();
            let gc = &mut drive.ftl.gc;
            gc.mode = GcMode::StopTheWorld;
            gc.stream = scheme.stream;
            gc.victim = victim.formula.to_owned();
            // A share of 0 collects by the number of free blocks, as a drive does.
            gc.garbage_share = if is_fixed { 0.0 } else { GARBAGE };
        })?;
        let (scheme, victim) = (scheme.label, victim.name);
        let (cell, source) = (cell.name, cell);
        Ok(Self { scheme, victim, cell, is_fixed, addresses, rounds, drive, source })
    }

    fn all(options: &Options) -> Result<Vec<Self>, PaperError> {
        let mut points = Vec::new();
        for is_fixed in [false, true] {
            for victim in VICTIMS {
                for scheme in SCHEMES {
                    for cell in CELLS {
                        points.push(Self::new(options, scheme, victim, cell, is_fixed)?);
                    }
                }
            }
        }
        Ok(points)
    }

    /// Write amplification after the fill.
    fn measure(&self, seed: u64, watch: &dyn Watch) -> Result<Waf, PaperError> {
        let run = || format!("{} {} {}", self.scheme, self.victim, self.cell);
        let writes = self.addresses as usize * self.rounds as usize;
        let after_fill = || self.source.addresses(self.addresses).take(writes);
        let future = || {
            let mut future = FutureBuilder::new(self.addresses);
            (0..self.addresses).chain(after_fill()).for_each(|unit| future.write(Lpn::new(unit)));
            future.finish()
        };
        let future = (self.drive.ftl.placement.scheme == SchemeName::Fk).then(future);
        let mut counter = Counter::new(&self.drive, future, seed, watch, &run)?;
        counter.write(&mut (0..self.addresses).map(unit_write))?;
        counter.write(&mut after_fill().map(unit_write))
    }
}

fn unit_write(unit: u32) -> Request {
    const SECTORS: u32 = 4096 / SECTOR_BYTES as u32;
    Request::new(Op::Write, Lba::new(u64::from(unit) * u64::from(SECTORS)), SECTORS)
}

struct Counter<'a> {
    drive: Box<dyn Simulated>,
    queue: HostQueue,
    /// Name of the run, for errors.
    run: &'a dyn Fn() -> String,
}

impl<'a> Counter<'a> {
    fn new(
        drive: &DriveConfig,
        future: Option<Future>,
        seed: u64,
        watch: &dyn Watch,
        run: &'a dyn Fn() -> String,
    ) -> Result<Self, PaperError> {
        let built = match future {
            None => build(drive, false, seed),
            Some(future) => DriveBuilder::new(drive, false, seed).and_then(|builder| {
                let (streams, units) = (drive.ftl.placement.streams, builder.logical_units());
                let fk = Fk::new(streams, units, UNITS, future);
                builder.with_placement(Fk::layout(streams), fk).build()
            }),
        };
        let mut drive = built.map_err(|error| PaperError::run(run(), error.into()))?;
        drive.set_stop(watch.stop_flag());
        let queue = HostQueue::new(Pacing::Closed { depth: 1, interval_ns: 0 }, SimTime::ZERO);
        Ok(Self { drive, queue, run })
    }

    fn write(&mut self, requests: &mut dyn Iterator<Item = Request>) -> Result<Waf, PaperError> {
        let before = self.drive.stats();
        let mut batch = Vec::with_capacity(1024);
        loop {
            batch.clear();
            batch.extend(requests.take(1024));
            if batch.is_empty() {
                let window = self.drive.stats().since(&before);
                let programs = window.nand.total(NandOp::Program);
                return Ok(Waf(programs as f64 / window.host.units_written as f64));
            }
            let done = self.drive.run(&batch, &[], &mut self.queue);
            done.map_err(|(_, error)| PaperError::run((self.run)(), RunError::Command(error)))?;
        }
    }
}

/// Units programmed per unit written by the host.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Waf(f64);

struct Counted {
    points: Vec<Point>,
    wafs: Vec<Waf>,
}

impl Counted {
    fn of(&self, scheme: &str, victim: &str, cell: &str, is_fixed: bool) -> Option<f64> {
        let is_it = |point: &Point| {
            (point.scheme, point.victim, point.cell, point.is_fixed) == (scheme, victim, cell, is_fixed)
        };
        self.points.iter().position(is_it).map(|at| self.wafs[at].0)
    }
}

fn make(options: &Options, bench: &Bench<'_>) -> Result<Made, PaperError> {
    let points = Point::all(options)?;
    let timed = timed::Point::all(options)?;
    let wafs = bench.points("placement", &points, |point| point.measure(options.seed, bench.watch))?;
    let loads = fdp::Point::all(options)?;
    let of_loads = bench.points("placement fdp", &loads, |point| point.measure(options.seed, bench.watch))?;
    let regions = two_regions::Point::all(options)?;
    let of_regions =
        bench.points("placement 2r", &regions, |point| point.measure(options.seed, bench.watch))?;
    let groups = groups::Point::all(options)?;
    let of_groups =
        bench.points("placement midas", &groups, |point| point.measure(options.seed, bench.watch))?;
    let timings = bench.points("placement timed", &timed, |point| point.measure(bench.watch))?;
    let counted = Counted { points, wafs };
    let mut figures = figures::counted(&counted);
    figures.push(fdp::figure(&loads, &of_loads));
    figures.push(two_regions::figure(&regions, &of_regions));
    figures.push(groups::figure(&groups, &of_groups));
    figures.push(timed::figure(&timed, &timings));
    let mut values = figures::values(&counted);
    fdp::measured(&loads, &of_loads, &mut values);
    two_regions::measured(&regions, &of_regions, &mut values);
    groups::measured(&groups, &of_groups, &mut values);
    Ok(Made { notes: notes(options.scale), claims: values.judged(CLAIMS, ""), figures })
}

fn notes(scale: Scale) -> Vec<String> {
    let Environment { addresses, rounds } = Environment::new(scale);
    let mut notes = vec![
        format!(
            "{addresses} addresses of 4 KiB, blocks of {UNITS}, written once in order, then {rounds} times as many \
             writes; six streams; only writes after the fill are counted"
        ),
        "compared with SepBIT's published simulator, run on the same addresses: its numbers replace the paper's, which \
         come from cloud traces"
            .to_owned(),
        "the simulator has no fixed size: it collects one block after a write that leaves more than 15 % of all written \
         units invalid, not counting open blocks. The drive of fixed size has 608 blocks, collects when fewer than two are \
         erased, and has one more block for each further stream of a victim's units"
            .to_owned(),
    ];
    match scale {
        Scale::Full => {}
        Scale::Quick => {
            notes.push("QUICK: less flash in the figure of latencies; everything else as in full".to_owned())
        }
        Scale::Tiny => notes.push("TINY: these numbers are meaningless".to_owned()),
    }
    notes
}
