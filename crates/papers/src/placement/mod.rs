//! Data placement: SepBIT's comparison (Wang et al., FAST 2022) with its authors' simulator beside, and what its schemes are
//! worth on a drive that takes time.

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

/// Claims of the paper, and bands for them.
pub(crate) const CLAIMS: &str = include_str!("claims.toml");

pub(super) const PAPER: Paper = Paper {
    name: "placement",
    title: "Separating Data via Block Invalidation Time Inference for Write Amplification Reduction in \
            Log-Structured Storage",
    authors: "Qiuping Wang, Jinhong Li, Patrick P. C. Lee, Tao Ouyang, Chao Shi, Lilong Huang, FAST 2022",
    reproduces: "write amplification of SepBIT and seven other placement schemes, beside that of its authors' \
                 simulator; the same on a drive of fixed size; 2R as in SSD-iq's simulator; MiDAS as in its authors'; and what a lower one is worth in \
                 latency",
    takes: "several minutes with --quick, a quarter of an hour in full; no kernel",
    make,
};

/// A placement scheme, under the name that the simulator has for it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scheme {
    label: &'static str,
    scheme: SchemeName,
    stream: GcStream,
    /// Erased blocks that a drive keeps for the streams of relocated units, beside that of the first.
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

/// A victim policy.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Victim {
    name: &'static str,
    label: &'static str,
    formula: &'static str,
}

/// Age counts from the last write to a block: 0 where that was the present one.
const VICTIMS: [Victim; 2] = [
    Victim { name: "cb", label: "cost-benefit, √age", formula: "(1-u)/u*sqrt(age_closed - 1)" },
    Victim { name: "greedy", label: "greedy", formula: "greedy" },
];

/// Units of a block.
const UNITS: u32 = 512;
/// Invalid units of full blocks, as a share of all that are written, above which a block is collected.
const GARBAGE: f64 = 0.15;
/// Blocks of a drive of fixed size that is as full on average, without those that it keeps for further streams: addresses /
/// ((1 - GARBAGE) UNITS), two that are kept erased and half of each of six open ones.
const FIXED_BLOCKS: u32 = 608;

/// Size of a run.
#[derive(Clone, Copy, Debug)]
struct Environment {
    addresses: u32,
    /// Writes after the fill, in addresses.
    rounds: u32,
}

impl Environment {
    fn new(scale: Scale) -> Self {
        match scale {
            // Published numbers are of these: less is another experiment.
            Scale::Full | Scale::Quick => Self { addresses: 1 << 18, rounds: 15 },
            Scale::Tiny => Self { addresses: 1 << 15, rounds: 1 },
        }
    }
}

/// A run that counts.
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
            gc.garbage_share = if is_fixed { 0.0 } else { GARBAGE };
        })?;
        let (scheme, victim) = (scheme.label, victim.name);
        let (cell, source) = (cell.name, cell);
        Ok(Self { scheme, victim, cell, is_fixed, addresses, rounds, drive, source })
    }

    /// Every one.
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

/// A write of the mapping unit `unit`.
fn unit_write(unit: u32) -> Request {
    const SECTORS: u32 = 4096 / SECTOR_BYTES as u32;
    Request::new(Op::Write, Lba::new(u64::from(unit) * u64::from(SECTORS)), SECTORS)
}

/// A drive that takes no time, and what it is told to write.
struct Counter<'a> {
    drive: Box<dyn Simulated>,
    queue: HostQueue,
    /// Name of the run, for its errors.
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

    /// Write amplification of `requests`.
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

/// Units programmed for each that the host writes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Waf(f64);

/// Points and what was measured of them.
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
            "{addresses} addresses of 4 KiB, blocks of {UNITS}, written once in order and then {rounds} times as \
             often; six streams; what is counted is the time after the fill"
        ),
        "compared with SepBIT's published simulator, run on the same addresses: its numbers are in place of the \
         paper's, which are of traces of a cloud"
            .to_owned(),
        "its frame: no fixed size; one block is collected after a write that leaves more than 15 % of all written \
         units invalid, open blocks apart. The fixed frame is a drive: 608 blocks, collected when fewer than two are \
         erased, and a block more for each further stream that the units of a victim go to"
            .to_owned(),
    ];
    match scale {
        Scale::Full => {}
        Scale::Quick => {
            notes.push("QUICK: less flash in the figure of latencies; all else is as in full".to_owned())
        }
        Scale::Tiny => notes.push("TINY: too little to mean anything".to_owned()),
    }
    notes
}
