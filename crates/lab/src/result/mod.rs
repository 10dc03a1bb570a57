//! Result of a run: the contract behind `--json`.

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

/// The result of one run. All counters cover the measured window only, except `wear` and `smart`,
/// which describe the drive at the end, and `series`, which covers warm-up and measurement.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunResult {
    /// Version of this layout.
    pub schema_version: u32,
    /// Version of Strobe that made it.
    pub strobe_version: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Start of the SHA-256 of the configuration without the seed.
    pub config_hash: String,
    /// The complete configuration.
    pub config: Experiment,
    /// True if the run was stopped before its end: the numbers cover what was done until then.
    pub partial: bool,
    /// Why it was stopped, if it was.
    pub stopped_by: Option<String>,
    /// Reason for the end of the run. A run that reached its intended end is not partial.
    pub ended_by: EndedBy,
    /// Flash, and what is offered of it; null only for a drive made by hand whose configuration is none.
    pub capacity: Option<CapacityResult>,
    /// Coverage of the measured window.
    pub window: WindowResult,
    /// Load: offered against served requests. Null in closed loop, or without timing.
    pub load: Option<LoadResult>,
    /// The longest wait, if it was longer than run.long_wait allows; not there otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_wait: Option<LongWait>,
    /// Warnings about the credibility of the numbers, the gravest first.
    pub notes: Vec<String>,
    /// Host commands within the measured window.
    pub host: HostResult,
    /// Flash operations within the measured window.
    pub nand: NandResult,
    /// Use of the dies' time within the measured window; absent without timing (run.timing = false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dies: Option<DiesResult>,
    /// Write amplification: mapping units programmed for any cause, padding included, per mapping
    /// unit written by the host, within the measured window. A partially written unit counts as
    /// one; trims do not count. Null if the host wrote nothing.
    pub waf: Option<f64>,
    /// Bytes programmed per byte the host sent. Larger than `waf` if the host writes less than whole mapping
    /// units.
    pub waf_bytes: Option<f64>,
    /// Garbage collection within the measured window.
    pub gc: GcResult,
    /// Copy commands within the measured window; not there without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyStats>,
    /// The file system within the measured window, of workload "lfs".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lfs: Option<LfsResult>,
    /// Non-volatile write cache within the measured window; not there if the drive has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvram: Option<NvramStats>,
    /// Merges, of a drive with log or replacement blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merges: Option<MergeStats>,
    /// Demand paging of the map, of a drive that does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub translation: Option<TranslationStats>,
    /// SLC cache, of a drive that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slc: Option<SlcResult>,
    /// Streams within the measured window, by number: those of the placement (`strobe list placements`), then wear
    /// levelling, translation pages and the SLC cache, as far as the drive has them. Not there without a placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<Vec<StreamResult>>,
    /// Placement handles within the measured window; not there if the drive has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_handles: Option<HandlesResult>,
    /// Wear of the drive at the end.
    pub wear: WearResult,
    /// Counters under the names nvme-cli uses, since the drive was new or its image was opened.
    pub smart: Smart,
    /// Virtual time of the measured window, and what the simulation cost.
    pub time: TimeResult,
    /// Speed of the simulator.
    pub sim: SimResult,
    /// Throughput and latency of the measured window under fio's names.
    pub jobs: Vec<Job>,
    /// All jobs together; not there for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Job>,
    /// The run in intervals of run.interval, warm-up and measurement; not there without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
    /// Activity of blocks and dies in the measured window: the frames of run.xray; absent without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xray: Option<Xray>,
    /// The rounds of run.until_steady; not there without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_steady: Option<SteadyRounds>,
    /// Write amplification over the run.
    pub series: Vec<Sample>,
    /// Steady-state test of write amplification; null if there were too few intervals.
    pub steady_state: Option<SteadyState>,
    /// Contents of the trace, for trace workloads.
    pub trace: Option<TraceResult>,
    /// The image that holds the drive; not there without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageResult>,
    /// The run that has made the drive; not there for a new drive, and for one that was prepared as this run says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_state: Option<FromState>,
    /// Power cuts, in order, of the whole run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub power_cuts: Vec<PowerCutResult>,
}

impl RunResult {
    /// Removes values that differ between machines and runs: the simulator's own wall time, CPU time and speed.
    /// The remaining bytes are equal everywhere.
    #[must_use]
    pub fn reproducible(mut self) -> Self {
        (self.time.wall_s, self.time.cpu_s, self.sim.host_pages_per_cpu_s) = (None, None, None);
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
    /// Of an image that was new, or that was found with `recovery`.
    pub fn of(recovery: Option<&Recovery>) -> Self {
        Self { recovery: recovery.map(RecoveryResult::of) }
    }
}

/// The run at the end of which the drive was saved that this run began with (`--from-state`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FromState {
    /// Its configuration.
    pub config_hash: String,
    /// The seed of the drive, which it keeps.
    pub seed: u64,
}

/// Time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TimeResult {
    /// Virtual time of the measured window in ns; 0 when only counting.
    pub virtual_ns: u64,
    /// Wall time of the whole run in seconds; null with --reproducible.
    pub wall_s: Option<f64>,
    /// CPU time of the whole run in seconds; null with --reproducible.
    pub cpu_s: Option<f64>,
}

/// Speed of the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SimResult {
    /// Host pages (read, written or trimmed) simulated per CPU second over the whole run; null
    /// with --reproducible.
    pub host_pages_per_cpu_s: Option<f64>,
}

/// Contents of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TraceResult {
    /// Requests replayed, by kind, over all repetitions.
    pub requests: std::collections::BTreeMap<String, u64>,
    /// Records left out on purpose, by reason, over all repetitions.
    pub skipped: std::collections::BTreeMap<String, u64>,
    /// Changes made to fit the drive.
    pub changes: Changes,
    /// End of the last byte any request touched.
    pub span_bytes: u64,
    /// Time from the first to the last record, in ns.
    pub duration_ns: u64,
    /// Times the trace was replayed to its end.
    pub repetitions: u32,
    /// Of blkparse and blktrace: the action whose requests were replayed, "D", "Q" or "C".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Notes on how the trace was read: another action than D as it has none, files that were merged, times that look like
    /// another unit; not there without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}
