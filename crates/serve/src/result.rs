//! Result of `strobe serve --json`.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_lab::Experiment;
use strobe_lab::machine::Stopwatch;
use strobe_lab::numbers::ratio;
use strobe_lab::result::{
    DiesResult, GcResult, HostResult, ImageResult, Job, NandResult, SCHEMA_VERSION, WearResult,
};
use strobe_nand::NandOp;
use strobe_ssd::{DriveConfig, DriveStats, Recovery, Requests, Simulated};
use strobe_types::SimTime;

use crate::engine::{Engine, Lag};

/// Counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Clients that have connected.
    pub connections: u64,
    /// Most of them at a time.
    pub most: usize,
}

/// The result of a server. Counters cover the time since it began.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ServeResult {
    /// Version of this layout.
    pub schema_version: u32,
    /// Version of Strobe that made it.
    pub strobe_version: String,
    /// Seed of everything random.
    pub seed: u64,
    /// The complete drive.
    pub drive: DriveConfig,
    /// The server.
    pub server: ServerResult,
    /// Requests of clients.
    pub requests: Requests,
    /// Host commands, as the drive counts them.
    pub host: HostResult,
    /// Flash operations.
    pub nand: NandResult,
    /// Use of the dies' time.
    pub dies: DiesResult,
    /// Mapping units programmed for any cause per mapping unit written by the host; null if the host wrote
    /// nothing.
    pub waf: Option<f64>,
    /// Garbage collection.
    pub gc: GcResult,
    /// Blocks and mapping units in use now.
    pub space: SpaceResult,
    /// The image that the drive's flash is in; not there if it is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageResult>,
    /// Wear of the drive now.
    pub wear: WearResult,
    /// Time.
    pub time: ServeTime,
    /// Throughput and latency of the drive, as the model says, under fio's names.
    pub jobs: Vec<Job>,
}

/// The server and its clients.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ServerResult {
    /// "model": nothing completes earlier than the model says. "none": as fast as it can be simulated.
    pub pace: String,
    /// Clients that have connected.
    pub connections: u64,
    /// Most of them at a time.
    pub most_connections: usize,
    /// Delay of completions behind the model; not there with the pace "none".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_ns: Option<LagResult>,
    /// The first error of the drive that a client has seen.
    pub drive_error: Option<String>,
}

/// Delay of completions behind the model in ns: the time that simulating takes, and that of a busy machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LagResult {
    /// Mean of all requests.
    pub mean: f64,
    /// Longest.
    pub max: u64,
}

/// Blocks and mapping units in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SpaceResult {
    /// Blocks of the drive.
    pub blocks: u32,
    /// Erased blocks at hand.
    pub free_blocks: u32,
    /// Mapping units offered to clients.
    pub logical_units: u32,
    /// Mapping units that hold data on flash.
    pub mapped_units: u32,
}

/// Time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ServeTime {
    /// Time of the drive since the server began, in ns; with the pace "none" it passes only while requests are under way.
    pub virtual_ns: u64,
    /// Wall time in seconds.
    pub wall_s: f64,
    /// CPU time of the server in seconds.
    pub cpu_s: f64,
}

/// State of a drive when its server begins, which results count from.
#[derive(Clone, Debug)]
pub struct Beginning {
    experiment: Experiment,
    stats: DriveStats,
    at: SimTime,
    image: Option<ImageResult>,
}

impl Beginning {
    /// The beginning of a server of `drive`; `recovery` is how it was found on an image, `on_image` true if it is on one.
    pub fn of(
        experiment: Experiment,
        drive: &dyn Simulated,
        at: SimTime,
        recovery: Option<&Recovery>,
        on_image: bool,
    ) -> Self {
        Self { experiment, stats: drive.stats(), at, image: on_image.then(|| ImageResult::of(recovery)) }
    }

    /// The drive's configuration and seed.
    pub(crate) fn experiment(&self) -> &Experiment {
        &self.experiment
    }

    /// True if the drive's flash is in a file.
    pub(crate) fn is_on_image(&self) -> bool {
        self.image.is_some()
    }

    /// The result so far.
    pub fn result(&self, engine: &Engine, served: Served, watch: &Stopwatch) -> ServeResult {
        let drive = engine.drive();
        let stats = drive.stats().since(&self.stats);
        let (geometry, virtual_ns) = (drive.geometry(), engine.now().since(self.at));
        let programmed = stats.nand.total(NandOp::Program) * u64::from(geometry.units_per_page());
        ServeResult {
            schema_version: SCHEMA_VERSION,
            strobe_version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: self.experiment.seed,
            drive: self.experiment.drive.clone(),
            server: ServerResult {
                pace: engine.pace().name().to_owned(),
                connections: served.connections,
                most_connections: served.most,
                lag_ns: LagResult::of(engine.lag()),
                drive_error: engine.first_error().map(str::to_owned),
            },
            requests: engine.requests(),
            host: HostResult::of(&stats),
            nand: NandResult::of(&stats),
            dies: DiesResult::of(&stats.occupancy, geometry.dies(), virtual_ns),
            waf: ratio(programmed, stats.host.units_written),
            gc: GcResult::of(&stats),
            space: SpaceResult {
                blocks: geometry.blocks(),
                free_blocks: drive.free_blocks(),
                logical_units: drive.logical_units(),
                mapped_units: drive.mapped_units(),
            },
            image: self.image,
            wear: WearResult::of(drive.wear(), None),
            time: ServeTime { virtual_ns, wall_s: watch.wall_s(), cpu_s: watch.cpu_s() },
            jobs: vec![Job::of_drive("serve", &stats, drive.latency(), virtual_ns)],
        }
    }
}

impl LagResult {
    fn of(Lag { count, sum_ns, max_ns }: Lag) -> Option<Self> {
        (count > 0).then(|| Self { mean: sum_ns as f64 / count as f64, max: max_ns })
    }
}
