//! Speed of the simulator in fixed cells (a drive with a load), compared with the machine's memory floor.
//!
//! Each cell alternates short slices of simulation with slices of [`Floor`], the memory work of flash
//! programs alone, at the same footprint. The quotient of the two speeds stays comparable even if the
//! machine's speed drifts.

mod floor;

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::Serialize;
use strobe_nand::NandOp;
use strobe_ssd::{DriveConfig, HostQueue, Pacing, Simulated, build};
use strobe_types::{Lba, Op, Prng, Request, SimTime};
use strobe_workload::synthetic::{Synthetic, SyntheticConfig, Workload};

use crate::RunError;
use crate::machine::{Stopwatch, resident_bytes};

pub use floor::{Floor, FloorShape};

/// A benchmark cell.
#[derive(Clone, Copy, Debug)]
pub struct CellSpec {
    /// Name in results.
    pub name: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    timing: bool,
    preset: &'static str,
    change: fn(&mut DriveConfig),
    depth: u32,
    warmup: f64,
    measure: f64,
}

/// Every cell.
pub const CELLS: &[CellSpec] = &[
    CellSpec {
        name: "8g-count",
        summary: "8192 blocks × 256 × 4 KiB, greedy, uniform 4 KiB random writes, counting only",
        timing: false,
        preset: "generic-8g",
        change: |_| {},
        depth: 1,
        warmup: 8.0,
        measure: 16.0,
    },
    CellSpec {
        name: "8g-timed",
        summary: "the same with virtual time and latency histograms",
        timing: true,
        preset: "generic-8g",
        change: |_| {},
        depth: 1,
        warmup: 8.0,
        measure: 10.0,
    },
    CellSpec {
        name: "1t-count",
        summary: "1 TiB of 4 KiB pages, 7 % over-provisioned, counting only, filled once and overwritten in part",
        timing: false,
        preset: "generic-8g",
        change: |drive| {
            drive.nand.blocks_per_plane = 1 << 20;
            drive.nand.endurance_pe = 0;
            (drive.ftl.logical_pages, drive.ftl.over_provisioning) = (None, Some(0.07));
        },
        depth: 1,
        warmup: 0.02,
        measure: 0.06,
    },
    CellSpec {
        name: "1t-timed",
        summary: "tlc-nvme-1t full and saturated: uniform 4 KiB random writes, 256 outstanding, in virtual time",
        timing: true,
        preset: "tlc-nvme-1t",
        change: |_| {},
        depth: 256,
        // Spare flash is used up after 0.13 capacities; collection starts then.
        warmup: 0.15,
        measure: 0.05,
    },
];

/// Measurements of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CellResult {
    /// Name of the cell.
    pub name: String,
    /// Summary in one line.
    pub summary: String,
    /// Host pages per CPU second, generator included: the median slice.
    pub host_pages_per_cpu_s: f64,
    /// Seconds of virtual time per CPU second: the median slice; null when only counting.
    pub virtual_s_per_cpu_s: Option<f64>,
    /// Write amplification of the measured window.
    pub waf: f64,
    /// Updates per CPU second of the floor loop: the median slice.
    pub floor_updates_per_cpu_s: f64,
    /// Mapping units programmed per floor update: host pages per second × WAF / floor updates per second, the
    /// median over pairs of slices. 1 means no cost beyond memory.
    pub floor_ratio: f64,
    /// Resident memory of the process with the drive built and run, without the floor's arrays.
    pub rss_bytes: u64,
    /// Resident memory per flash page, in bytes.
    pub rss_bytes_per_page: f64,
}

/// All cells.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BenchResult {
    /// Version of Strobe.
    pub strobe_version: String,
    /// One entry per cell.
    pub cells: Vec<CellResult>,
}

const BATCH: usize = 1024;
const SLICES: u32 = 32;

/// Runs one cell; `report` receives progress messages.
pub fn run_cell(spec: &CellSpec, report: &mut dyn FnMut(&str)) -> Result<CellResult, RunError> {
    let preset = strobe_ssd::presets::find(spec.preset).expect("it exists");
    let mut config: DriveConfig = toml::from_str(preset.toml).expect("presets are valid");
    (spec.change)(&mut config);
    let schema_bytes = schema_bytes(&config);
    report("filling the drive");
    let mut cell = Cell::new(&config, spec)?;
    cell.prefill()?;
    let capacity = f64::from(cell.drive.logical_units());
    report("warming up");
    cell.write((capacity * spec.warmup) as u64)?;

    // Memory is read before the floor allocates its arrays.
    let rss_bytes = resident_bytes().unwrap_or(0).saturating_sub(schema_bytes);
    let geometry = cell.drive.geometry();
    let shape = FloorShape {
        logical_units: cell.drive.logical_units(),
        physical_units: geometry.units(),
        units_per_block: 1 << geometry.units_per_block().ilog2(),
    };
    let pages = geometry.pages();
    let per_page = f64::from(geometry.units_per_page());
    report("measuring, with the memory floor");
    let mut floor = Floor::new(shape);
    let mut rng = Prng::new(2);
    let mut batch = vec![0; BATCH];
    let per_slice = (capacity * spec.measure / f64::from(SLICES)) as u64;
    let start = cell.drive.stats();
    let (mut speeds, mut floors, mut ratios, mut paces) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // Simulation and floor alternate: a change of clock speed affects both sides of each quotient.
    for _ in 0..SLICES {
        let (before, begin) = (cell.drive.stats(), cell.queue.now());
        let cpu_s = cell.write(per_slice)?;
        let slice = cell.drive.stats().since(&before);
        let speed = slice.host.units_written as f64 / cpu_s;
        let floor_speed = floor_slice(&mut floor, &mut rng, &mut batch, per_slice / 2);
        speeds.push(speed);
        paces.push(cell.queue.now().since(begin) as f64 / 1e9 / cpu_s);
        floors.push(floor_speed);
        ratios.push(slice.nand.total(NandOp::Program) as f64 * per_page / cpu_s / floor_speed);
    }
    std::hint::black_box(floor.digest());
    let window = cell.drive.stats().since(&start);
    Ok(CellResult {
        name: spec.name.to_owned(),
        summary: spec.summary.to_owned(),
        host_pages_per_cpu_s: median(speeds),
        virtual_s_per_cpu_s: spec.timing.then(|| median(paces)),
        waf: window.waf(cell.drive.geometry()).unwrap_or(0.0),
        floor_updates_per_cpu_s: median(floors),
        floor_ratio: median(ratios),
        rss_bytes,
        rss_bytes_per_page: rss_bytes as f64 / f64::from(pages),
    })
}

fn schema_bytes(config: &DriveConfig) -> u64 {
    static BYTES: OnceLock<u64> = OnceLock::new();
    *BYTES.get_or_init(|| {
        // The first check builds and caches the JSON schema, which is not memory of the drive.
        let before = resident_bytes();
        // An invalid configuration is reported when the drive is built.
        let _ = config.check();
        resident_bytes().zip(before).map_or(0, |(after, before)| after.saturating_sub(before))
    })
}

/// Updates per CPU second, without the drawing of random numbers.
fn floor_slice(floor: &mut Floor, rng: &mut Prng, batch: &mut [u32], updates: u64) -> f64 {
    // All numbers are drawn first and used in one timed run, so neither the draws nor the clock count.
    let mut draws = vec![0; (updates as usize).max(batch.len())];
    floor.draw(&mut draws, rng);
    let watch = Stopwatch::start();
    floor.run(&draws);
    draws.len() as f64 / watch.cpu_s()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

struct Cell {
    drive: Box<dyn Simulated>,
    queue: HostQueue,
    generator: Synthetic,
    batch: Vec<Request>,
}

const FILL_SECTORS: u32 = 1024;

impl Cell {
    fn new(config: &DriveConfig, spec: &CellSpec) -> Result<Self, RunError> {
        let drive = build(config, spec.timing, 1)?;
        Ok(Self {
            generator: SyntheticConfig::default().build(config.logical_bytes(), 1)?,
            queue: HostQueue::new(Pacing::Closed { depth: spec.depth, interval_ns: 0 }, SimTime::ZERO),
            drive,
            batch: Vec::new(),
        })
    }

    fn prefill(&mut self) -> Result<(), RunError> {
        let sectors = self.drive.sectors();
        let mut first = 0;
        while first < sectors {
            self.batch.clear();
            while first < sectors && self.batch.len() < BATCH {
                let count = u64::from(FILL_SECTORS).min(sectors - first) as u32;
                self.batch.push(Request::new(Op::Write, Lba::new(first), count));
                first += u64::from(count);
            }
            self.run_batch()?;
        }
        Ok(())
    }

    fn write(&mut self, pages: u64) -> Result<f64, RunError> {
        let watch = Stopwatch::start();
        for _ in 0..pages.div_ceil(BATCH as u64) {
            self.generator.fill(&mut self.batch, BATCH);
            self.run_batch()?;
        }
        Ok(watch.cpu_s())
    }

    fn run_batch(&mut self) -> Result<(), RunError> {
        let issued = self.drive.issue(&self.batch, &[], &mut self.queue);
        issued.map(drop).map_err(|(_, error)| RunError::Command(error))
    }
}
