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

/// Connection counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Number of accepted connections.
    pub connections: u64,
    /// Maximum of simultaneous connections.
    pub most: usize,
}

/// Result of a server. Counters start with the server.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ServeResult {
    /// Version of this schema.
    pub schema_version: u32,
    /// Strobe version.
    pub strobe_version: String,
    /// Random seed.
    pub seed: u64,
    /// Complete drive configuration.
    pub drive: DriveConfig,
    /// Server and connections.
    pub server: ServerResult,
    /// Client requests.
    pub requests: Requests,
    /// Host commands, as counted by the drive.
    pub host: HostResult,
    /// Flash operations.
    pub nand: NandResult,
    /// Utilisation of the dies.
    pub dies: DiesResult,
    /// Write amplification: mapping units programmed per mapping unit written by the host; null if the host
    /// wrote nothing.
    pub waf: Option<f64>,
    /// Garbage collection.
    pub gc: GcResult,
    /// Blocks and mapping units currently in use.
    pub space: SpaceResult,
    /// Image file of the drive's flash; absent if the flash is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageResult>,
    /// Current wear.
    pub wear: WearResult,
    /// Virtual, wall and CPU time.
    pub time: ServeTime,
    /// Throughput and latency of the drive in the model, in fio's terms.
    pub jobs: Vec<Job>,
}

/// Server and connections.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ServerResult {
    /// "model": no command completes earlier than in the model. "none": as fast as it can be simulated.
    pub pace: String,
    /// Number of accepted connections.
    pub connections: u64,
    /// Maximum of simultaneous connections.
    pub most_connections: usize,
    /// Delay of completions relative to the model; absent with pace "none".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_ns: Option<LagResult>,
    /// First drive error that a client has seen.
    pub drive_error: Option<String>,
}

/// Delay of completions relative to the model in ns, due to simulation cost and machine load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LagResult {
    /// Mean delay of all requests.
    pub mean: f64,
    /// Maximum delay.
    pub max: u64,
}

/// Blocks and mapping units in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SpaceResult {
    /// Blocks of the drive.
    pub blocks: u32,
    /// Erased blocks.
    pub free_blocks: u32,
    /// Mapping units offered to clients.
    pub logical_units: u32,
    /// Mapping units with data on flash.
    pub mapped_units: u32,
}

/// Virtual, wall and CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ServeTime {
    /// Virtual time since the server started, in ns. With pace "none", it passes only while requests are in
    /// flight.
    pub virtual_ns: u64,
    /// Wall time in seconds.
    pub wall_s: f64,
    /// CPU time of the server in seconds.
    pub cpu_s: f64,
}

/// Configuration and counters of a drive at the start of its server. Results count from there.
#[derive(Clone, Debug)]
pub struct Beginning {
    experiment: Experiment,
    stats: DriveStats,
    at: SimTime,
    image: Option<ImageResult>,
}

impl Beginning {
    /// Records the start of a server.
    ///
    /// `recovery` describes the recovery from an image. `on_image` is true if the drive is on one.
    pub fn of(
        experiment: Experiment,
        drive: &dyn Simulated,
        at: SimTime,
        recovery: Option<&Recovery>,
        on_image: bool,
    ) -> Self {
        Self { experiment, stats: drive.stats(), at, image: on_image.then(|| ImageResult::of(recovery)) }
    }

    pub(crate) fn experiment(&self) -> &Experiment {
        &self.experiment
    }

    pub(crate) fn is_on_image(&self) -> bool {
        self.image.is_some()
    }

    /// Returns the result since the server started.
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
