//! Result of a run: the format of `--json`.

mod dies;
mod ftl;
mod host;
mod jobs;
mod lfs;
mod nand;
mod streams;
mod wear;

pub use dies::{DiesResult, HeldBy};
pub use ftl::{GcResult, SlcResult, copies};
pub use host::{HostOp, HostResult};
pub use jobs::{Clat, Job, JobOp, JobSync};
pub(crate) use lfs::LfsBytes;
pub use lfs::LfsResult;
pub use nand::{ByCause, Causes, NandResult};
pub use streams::{HandleResult, HandlesResult, StreamResult};
pub use wear::{Smart, WearResult};

use schemars::JsonSchema;
use serde::Serialize;
use strobe_ftl::CopyStats;
use strobe_ssd::{MergeStats, NvramStats, Recovery, TranslationStats};
use strobe_types::is_default;

use crate::experiment::Experiment;
use crate::fit::Changes;
use crate::lifetime::EndedBy;
use crate::long_wait::LongWait;
use crate::power::{PowerCutResult, RecoveryResult};
use crate::series::{Sample, SteadyState};
use crate::steady::SteadyRounds;
use crate::timeline::Interval;
use crate::verdict::{CapacityResult, LoadResult, WindowResult};
use crate::xray::Xray;

/// Version of the result's layout. Fields are only added within a version.
pub const SCHEMA_VERSION: u32 = 1;

/// The result of one run. Counters cover the measured window only, unless stated otherwise: `wear` and
/// `smart` describe the drive at the end, and `series` covers warm-up and measurement.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunResult {
    /// Version of this layout.
    pub schema_version: u32,
    /// Version of Strobe that made the result.
    pub strobe_version: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Start of the SHA-256 of the configuration without the seed.
    pub config_hash: String,
    /// The complete configuration.
    pub config: Experiment,
    /// True if the run was stopped early; the numbers cover the part that was run.
    pub partial: bool,
    /// Reason for the early stop; null otherwise.
    pub stopped_by: Option<String>,
    /// Reason for the end of the run. A run that reached its intended end is not partial.
    pub ended_by: EndedBy,
    /// Flash capacity, and the part offered to the host; null only for a drive built in code whose
    /// configuration is not valid.
    pub capacity: Option<CapacityResult>,
    /// Length and verdict of the measured window.
    pub window: WindowResult,
    /// Load: offered against served requests. Null in closed loop, or without timing.
    pub load: Option<LoadResult>,
    /// The longest wait, if it exceeded run.long_wait; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_wait: Option<LongWait>,
    /// Warnings about the credibility of the numbers, the most serious first.
    pub notes: Vec<String>,
    /// Host commands.
    pub host: HostResult,
    /// Flash operations.
    pub nand: NandResult,
    /// Use of the dies' time; absent without timing (run.timing = false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dies: Option<DiesResult>,
    /// Write amplification: mapping units programmed for any cause, padding included, per mapping unit
    /// written by the host. A partially written unit counts as one; trims do not count. Null if the host
    /// wrote nothing.
    pub waf: Option<f64>,
    /// Bytes programmed per byte the host sent. Larger than `waf` if the host writes partial mapping units.
    pub waf_bytes: Option<f64>,
    /// Garbage collection.
    pub gc: GcResult,
    /// Copy commands; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyStats>,
    /// File system; present for workload "lfs".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lfs: Option<LfsResult>,
    /// Non-volatile write cache; absent if the drive has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvram: Option<NvramStats>,
    /// Merges; present for a drive with log or replacement blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merges: Option<MergeStats>,
    /// Demand paging of the map; present for a drive that uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub translation: Option<TranslationStats>,
    /// SLC cache; present for a drive that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slc: Option<SlcResult>,
    /// Streams by number: first the placement's (`strobe list placements`), then wear levelling, translation
    /// pages and the SLC cache, if the drive has them. Absent without a placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<Vec<StreamResult>>,
    /// Placement handles; absent if the drive has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_handles: Option<HandlesResult>,
    /// Wear of the drive at the end.
    pub wear: WearResult,
    /// Counters under nvme-cli's names, since the drive was new or its image was opened.
    pub smart: Smart,
    /// Virtual time of the measured window, and the cost of the simulation.
    pub time: TimeResult,
    /// Speed of the simulator.
    pub sim: SimResult,
    /// Throughput and latency under fio's names.
    pub jobs: Vec<Job>,
    /// Sum of all jobs; absent for a single job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Job>,
    /// Warm-up and measurement in intervals of run.interval; absent without it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
    /// Activity of blocks and dies: the frames of run.xray; absent without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xray: Option<Xray>,
    /// Rounds of run.until_steady; absent without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_steady: Option<SteadyRounds>,
    /// Write amplification over the run.
    pub series: Vec<Sample>,
    /// Steady-state test of write amplification; null with fewer than five intervals.
    pub steady_state: Option<SteadyState>,
    /// Contents of the trace; null for other workloads.
    pub trace: Option<TraceResult>,
    /// Image that holds the drive; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageResult>,
    /// Run that left the drive in the state this run began with (`--from-state`); absent for a new drive, and
    /// for a state saved before the measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_state: Option<FromState>,
    /// Power cuts of the whole run, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub power_cuts: Vec<PowerCutResult>,
}

impl RunResult {
    /// Removes values that differ between machines and runs: wall time, CPU time and speed of the simulator.
    /// The remaining bytes are equal everywhere.
    #[must_use]
    pub fn reproducible(mut self) -> Self {
        (self.time.wall_s, self.time.cpu_s, self.sim.host_pages_per_cpu_s) = (None, None, None);
        self
    }

    /// Replaces the configuration by `experiment`, which differs from the one that ran only in the recording
    /// (`run.xray`, `run.latency_bins`).
    #[must_use]
    pub fn with_config(self, experiment: Experiment) -> Self {
        Self { config_hash: experiment.config_hash(), config: experiment, ..self }
    }

    /// Removes recordings that the configuration does not request.
    #[must_use]
    pub fn as_configured(mut self) -> Self {
        if self.config.run.xray.is_none() {
            self.xray = None;
        }
        if !self.config.run.latency_bins {
            self.jobs = self.jobs.into_iter().map(Job::without_bins).collect();
        }
        self
    }
}

/// A drive whose flash is a file (`--image`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImageResult {
    /// Recovery of the drive from the image; null if the image is new.
    pub recovery: Option<RecoveryResult>,
}

impl ImageResult {
    /// Result for a new image, or for one opened with `recovery`.
    pub fn of(recovery: Option<&Recovery>) -> Self {
        Self { recovery: recovery.map(RecoveryResult::of) }
    }
}

/// Run that saved the drive this run began with (`--from-state`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FromState {
    /// Hash of the configuration of that run.
    pub config_hash: String,
    /// Seed of the drive. The drive keeps it in later runs.
    pub seed: u64,
}

/// Time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TimeResult {
    /// Virtual time of the measured window in ns; 0 without timing.
    pub virtual_ns: u64,
    /// Wall time of the whole run in seconds; null with --reproducible.
    pub wall_s: Option<f64>,
    /// CPU time of the whole run in seconds; null with --reproducible.
    pub cpu_s: Option<f64>,
}

/// Speed of the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SimResult {
    /// Host pages (read, written or trimmed) simulated per CPU second over the whole run; null with
    /// --reproducible.
    pub host_pages_per_cpu_s: Option<f64>,
}

/// Contents of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TraceResult {
    /// Requests replayed, by kind, over all repetitions, the warm-up included.
    pub requests: std::collections::BTreeMap<String, u64>,
    /// Requests of the warm-up among them; absent without a warm-up.
    #[serde(default, skip_serializing_if = "is_default")]
    pub warmup_requests: u64,
    /// Records left out on purpose, by reason, over all repetitions.
    pub skipped: std::collections::BTreeMap<String, u64>,
    /// Changes made to fit the drive.
    pub changes: Changes,
    /// End of the last byte that any request touched.
    pub span_bytes: u64,
    /// Time from the first to the last record, in ns.
    pub duration_ns: u64,
    /// Number of complete replays of the trace.
    pub repetitions: u32,
    /// Action whose requests were replayed, for blkparse and blktrace: "D", "Q" or "C".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Notes on how the trace was read: an action other than D because the trace has none, merged files,
    /// times that look like another unit. Absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}
