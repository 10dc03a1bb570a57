//! What a run returns: the contract behind `--json`.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_ftl::{CopyStats, WearSummary};
use strobe_nand::{Cause, NandOp, OpCounts};
use strobe_ssd::{CommandKind, DriveStats, Latency, MergeStats, NvramStats, Recovery, TranslationStats};
use strobe_types::{Geometry, Op, SimTime};

use crate::Experiment;
use crate::fit::Changes;
use crate::lifetime::{BadBlockPoint, EndedBy, curve};
use crate::power::{PowerCutResult, RecoveryResult};
use crate::series::{Sample, SteadyState};
use crate::verdict::{CapacityResult, LoadResult, WindowResult};

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
    /// What ended the run. A run that reached the end it was to reach is not partial.
    pub ended_by: EndedBy,
    /// Flash, and what is offered of it; null only for a drive made by hand whose configuration is none.
    pub capacity: Option<CapacityResult>,
    /// What the measured window covers.
    pub window: WindowResult,
    /// Whether the drive kept up with requests that come at their own pace; null if they wait for the drive, or
    /// without time.
    pub load: Option<LoadResult>,
    /// What somebody should know before believing the numbers, the gravest first.
    pub notes: Vec<String>,
    /// Host commands within the measured window.
    pub host: HostResult,
    /// Flash operations within the measured window.
    pub nand: NandResult,
    /// Write amplification: mapping units programmed for any cause, padding included, per mapping
    /// unit written by the host, within the measured window. A partially written unit counts as
    /// one; trims do not count. Null if the host wrote nothing.
    pub waf: Option<f64>,
    /// The same in bytes: bytes programmed per byte the host sent. Larger than `waf` when the
    /// host writes less than whole mapping units.
    pub waf_bytes: Option<f64>,
    /// Garbage collection within the measured window.
    pub gc: GcResult,
    /// Copy commands within the measured window; not there without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyResult>,
    /// Non-volatile write cache within the measured window; not there if the drive has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvram: Option<NvramResult>,
    /// Merges, of a drive with log or replacement blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merges: Option<MergeResult>,
    /// Demand paging of the map, of a drive that does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub translation: Option<TranslationResult>,
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
    /// Write amplification over the run.
    pub series: Vec<Sample>,
    /// Whether write amplification had settled; null if there were too few intervals to tell.
    pub steady_state: Option<SteadyState>,
    /// What was read from the trace, for trace workloads.
    pub trace: Option<TraceResult>,
    /// The image that holds the drive; not there without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageResult>,
    /// Power cuts, in order, of the whole run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub power_cuts: Vec<PowerCutResult>,
}

/// A drive whose flash is a file (`--image`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImageResult {
    /// How the drive that was there was found again; null if the image is new.
    pub recovery: Option<RecoveryResult>,
}

impl ImageResult {
    pub(crate) fn of(recovery: Option<&Recovery>) -> Self {
        Self { recovery: recovery.map(RecoveryResult::of) }
    }
}

/// Host commands by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostResult {
    /// Reads.
    pub read: HostOp,
    /// Writes.
    pub write: HostOp,
    /// Deallocations.
    pub trim: HostOp,
    /// Copies by the drive.
    pub copy: HostOp,
    /// Flushes.
    pub flush: HostOp,
    /// Ranges overwritten with zeros that the host did not send.
    pub write_zeroes: HostOp,
    /// Mapping units written, partial ones included. Those overwritten by write zeroes and those merged
    /// by a copy count; those copied whole and those unmapped do not.
    pub pages_written: u64,
    /// Partially written units, merged with what they held before.
    pub read_modify_writes: u64,
}

/// Commands of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostOp {
    /// How many.
    pub commands: u64,
    /// Bytes covered.
    pub bytes: u64,
}

/// Flash operations by kind and cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NandResult {
    /// Page programs.
    pub program: ByCause,
    /// Page reads.
    pub read: ByCause,
    /// Block erases.
    pub erase: ByCause,
}

/// Operations of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ByCause {
    /// All of them: the sum of the causes.
    pub total: u64,
    /// Split by why they were done.
    pub by_cause: Causes,
}

/// One count per cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Causes {
    /// Host commands, reads of read-modify-writes included.
    pub host: u64,
    /// Garbage collection.
    pub gc: u64,
    /// Merges of block-mapped schemes.
    pub merge: u64,
    /// Translation pages and map journal.
    pub map: u64,
    /// Other metadata.
    pub meta: u64,
    /// Wear levelling.
    pub wear: u64,
    /// Physical copies for copy commands.
    pub copy: u64,
    /// Write-back of a non-volatile cache.
    pub cache: u64,
    /// Recovery.
    pub recovery: u64,
    /// Pages of padding only.
    pub pad: u64,
}

/// Garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GcResult {
    /// Calls.
    pub runs: u64,
    /// Blocks emptied.
    pub victims: u64,
    /// Mapping units moved.
    pub units_moved: u64,
    /// Mapping units moved per block emptied.
    pub copies_per_erase: Option<f64>,
    /// Virtual time from the start of each call to its last erase, summed, in ns.
    pub time_ns: u64,
    /// Programs that failed and were repeated elsewhere.
    pub program_failures: u64,
    /// Blocks emptied by static wear levelling; not among `victims`.
    pub wear_blocks: u64,
    /// Mapping units moved by static wear levelling; not among `units_moved`.
    pub wear_units_moved: u64,
}

/// Demand paging of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TranslationResult {
    /// Uses of a map entry for the host that found it cached.
    pub hits: u64,
    /// Those that did not.
    pub misses: u64,
    /// Entries that had to make room.
    pub evictions: u64,
    /// Of these, those that had changed and so cost a program.
    pub dirty_evictions: u64,
    /// Translation pages read.
    pub tp_reads: u64,
    /// Translation pages programmed, but for those that garbage collection moved as they were.
    pub tp_programs: u64,
    /// Of these, because garbage collection had moved units whose entries were not cached.
    pub gc_tp_updates: u64,
}

/// Merges of log or replacement blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MergeResult {
    /// A log block became the data block as it was.
    pub switched: u64,
    /// A log or replacement block became the data block after the rest was copied to it.
    pub partial: u64,
    /// Everything was copied to an erased block.
    pub full: u64,
    /// Sectors copied.
    pub units_copied: u64,
    /// Blocks erased, or given up instead.
    pub blocks_erased: u64,
}

/// Non-volatile write cache, in mapping units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NvramResult {
    /// Units written that it took; they are among the host's `pages_written`.
    pub write_units: u64,
    /// Those of them that replaced a version already there.
    pub hits: u64,
    /// Units that host reads found there.
    pub read_hits: u64,
    /// Units written back to flash, to make room or before a copy.
    pub evicted_units: u64,
}

/// What became of copy commands, in mapping units that were copied whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CopyResult {
    /// Units copied by the map alone.
    pub logical_units: u64,
    /// Units copied by reading and programming.
    pub physical_units: u64,
    /// Of these, because the source had two owners already.
    pub third_owner_units: u64,
    /// Of these, because the virtual map was full.
    pub map_full_units: u64,
}

/// Wear at the end of the run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WearResult {
    /// Fewest erases of a good block.
    pub erase_min: u32,
    /// Mean over the good blocks.
    pub erase_mean: f64,
    /// Most erases of a good block.
    pub erase_max: u32,
    /// Standard deviation over the good blocks.
    pub erase_stddev: f64,
    /// Bad blocks, factory-bad ones included.
    pub bad_blocks: u32,
    /// Host pages that had been written when the first block went bad in use.
    pub first_bad_block_host_writes: Option<u64>,
    /// Blocks gone bad in use over host pages written, since the drive was new: every block, or 256
    /// of them spread evenly, the first and the last among them.
    pub bad_block_curve: Vec<BadBlockPoint>,
    /// Host pages that could be written before any block goes bad if all wore alike at the
    /// write amplification of the measured window: (endurance + 1) × mapping units on good flash
    /// / `waf`. Null if endurance is unlimited or the host wrote nothing.
    pub ideal_host_pages: Option<u64>,
    /// Blocks per bin of erase counts, from `erase_min` to `erase_max`, bins of equal width.
    pub histogram: Vec<u32>,
}

/// SMART-like counters since the drive was new, names as in nvme-cli's JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Smart {
    /// Mean erases in percent of the endurance; 255 at most; 0 if endurance is unlimited.
    pub percent_used: u32,
    /// Spare blocks left in percent: 100 when new, 0 when as many blocks have gone bad as the
    /// drive had beyond its logical capacity.
    pub avail_spare: u32,
    /// Thousands of 512-byte units read by the host, rounded up.
    pub data_units_read: u64,
    /// Thousands of 512-byte units written by the host, rounded up.
    pub data_units_written: u64,
    /// Thousands of 512-byte units programmed on flash, rounded up.
    pub media_units_written: u64,
    /// Read commands.
    pub host_read_commands: u64,
    /// Write commands.
    pub host_write_commands: u64,
    /// Failed programs and erases, all repaired.
    pub media_errors: u64,
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

/// One job with fio's names.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Job {
    /// Name of the workload.
    pub jobname: String,
    /// Reads.
    pub read: JobOp,
    /// Writes.
    pub write: JobOp,
    /// Trims.
    pub trim: JobOp,
    /// Flushes.
    pub sync: JobSync,
}

/// The flushes of a job.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct JobSync {
    /// Requests.
    pub total_ios: u64,
    /// Latency: issue to completion.
    pub lat_ns: Clat,
}

/// One direction of a job.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct JobOp {
    /// Bytes transferred.
    pub io_bytes: u64,
    /// Bytes per second of virtual time; 0 when only counting.
    pub bw_bytes: u64,
    /// Requests per second of virtual time; 0 when only counting.
    pub iops: f64,
    /// Virtual time in ms.
    pub runtime: u64,
    /// Requests.
    pub total_ios: u64,
    /// Completion latency: issue to completion.
    pub clat_ns: Clat,
}

/// Completion latency in ns.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Clat {
    /// Shortest.
    pub min: u64,
    /// Longest.
    pub max: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stddev: f64,
    /// Requests.
    #[serde(rename = "N")]
    pub n: u64,
    /// Percentiles, keyed as fio keys them ("99.000000"); exact to three digits, never beyond min and max.
    pub percentile: std::collections::BTreeMap<String, u64>,
    /// Latencies in ns, exact to three digits, and how many requests had each.
    #[serde(skip)]
    pub counts: Vec<(u64, u64)>,
}

/// What a trace contained.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TraceResult {
    /// Requests replayed, by kind, over all repetitions.
    pub requests: std::collections::BTreeMap<String, u64>,
    /// Records left out on purpose, by reason, over all repetitions.
    pub skipped: std::collections::BTreeMap<String, u64>,
    /// What had to be changed to fit the drive.
    pub changes: Changes,
    /// End of the last byte any request touched.
    pub span_bytes: u64,
    /// Time from the first to the last record, in ns.
    pub duration_ns: u64,
    /// Times the trace was replayed to its end.
    pub repetitions: u32,
}

/// fio's default percentile list.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

impl HostResult {
    pub(crate) fn of(stats: &DriveStats) -> Self {
        let of =
            |kind: CommandKind| HostOp { commands: stats.host.commands(kind), bytes: stats.host.bytes(kind) };
        Self {
            read: of(CommandKind::Read),
            write: of(CommandKind::Write),
            trim: of(CommandKind::Trim),
            copy: of(CommandKind::Copy),
            flush: of(CommandKind::Flush),
            write_zeroes: of(CommandKind::WriteZeroes),
            pages_written: stats.host.units_written,
            read_modify_writes: stats.host.read_modify_writes,
        }
    }
}

impl NandResult {
    pub(crate) fn of(counts: &OpCounts) -> Self {
        let by_cause = |op| {
            let get = |cause| counts.get(op, cause);
            ByCause {
                total: counts.total(op),
                by_cause: Causes {
                    host: get(Cause::Host),
                    gc: get(Cause::Gc),
                    merge: get(Cause::Merge),
                    map: get(Cause::Map),
                    meta: get(Cause::Meta),
                    wear: get(Cause::Wear),
                    copy: get(Cause::Copy),
                    cache: get(Cause::Cache),
                    recovery: get(Cause::Recovery),
                    pad: get(Cause::Pad),
                },
            }
        };
        Self {
            program: by_cause(NandOp::Program),
            read: by_cause(NandOp::Read),
            erase: by_cause(NandOp::Erase),
        }
    }
}

impl GcResult {
    pub(crate) fn of(stats: &DriveStats) -> Self {
        let gc = &stats.gc;
        Self {
            runs: gc.runs,
            victims: gc.victims,
            units_moved: gc.units_moved,
            copies_per_erase: ratio(gc.units_moved, gc.victims),
            time_ns: gc.time_ns,
            program_failures: gc.program_failures,
            wear_blocks: gc.wear_blocks,
            wear_units_moved: gc.wear_units_moved,
        }
    }
}

impl CopyResult {
    pub(crate) fn of(stats: &DriveStats) -> Option<Self> {
        let CopyStats { logical_units, physical_units, third_owner_units, map_full_units } = stats.copies;
        let result = Self { logical_units, physical_units, third_owner_units, map_full_units };
        (stats.host.commands(CommandKind::Copy) > 0).then_some(result)
    }
}

impl TranslationResult {
    pub(crate) fn of(stats: &TranslationStats) -> Self {
        let &TranslationStats {
            hits,
            misses,
            evictions,
            dirty_evictions,
            tp_reads,
            tp_programs,
            gc_tp_updates,
        } = stats;
        Self { hits, misses, evictions, dirty_evictions, tp_reads, tp_programs, gc_tp_updates }
    }
}

impl MergeResult {
    pub(crate) fn of(stats: &MergeStats) -> Self {
        let &MergeStats { switched, partial, full, units_copied, blocks_erased } = stats;
        Self { switched, partial, full, units_copied, blocks_erased }
    }
}

impl NvramResult {
    pub(crate) fn of(stats: &NvramStats) -> Self {
        let &NvramStats { write_units, hits, read_hits, evicted_units } = stats;
        Self { write_units, hits, read_hits, evicted_units }
    }
}

impl WearResult {
    pub(crate) fn of(wear: WearSummary, ideal_host_pages: Option<u64>) -> Self {
        Self {
            erase_min: wear.erase_min,
            erase_mean: wear.erase_mean,
            erase_max: wear.erase_max,
            erase_stddev: wear.erase_stddev,
            bad_blocks: wear.bad_blocks,
            first_bad_block_host_writes: wear.first_bad_block_host_writes,
            bad_block_curve: curve(&wear.bad_block_host_writes),
            ideal_host_pages,
            histogram: wear.histogram,
        }
    }
}

impl Smart {
    pub(crate) fn of(
        total: &DriveStats,
        wear: &WearResult,
        geometry: &Geometry,
        experiment: &Experiment,
    ) -> Self {
        let units = |bytes: u64| bytes.div_ceil(512_000);
        let nand = &experiment.drive.nand;
        let used = match nand.endurance_pe {
            0 => 0.0,
            limit => 100.0 * wear.erase_mean / f64::from(limit),
        };
        let grown_bad = wear.bad_blocks.saturating_sub(nand.factory_bad_blocks);
        let needed = experiment.drive.logical_units().div_ceil(u64::from(geometry.units_per_block()));
        let spare = u64::from(geometry.blocks() - nand.factory_bad_blocks).saturating_sub(needed);
        Self {
            percent_used: (used as u32).min(255),
            avail_spare: (100 * (spare - u64::from(grown_bad).min(spare)) / spare.max(1)) as u32,
            data_units_read: units(total.host.bytes(Op::Read)),
            data_units_written: units(total.host.bytes(Op::Write)),
            media_units_written: units(total.nand.total(NandOp::Program) * u64::from(geometry.page_bytes())),
            host_read_commands: total.host.commands(Op::Read),
            host_write_commands: total.host.commands(Op::Write),
            media_errors: total.gc.program_failures + u64::from(grown_bad),
        }
    }
}

impl Job {
    pub(crate) fn of(name: &str, stats: &DriveStats, latency: &Latency, virtual_ns: u64) -> Self {
        let seconds = virtual_ns as f64 / 1e9;
        let op = |op: Op| {
            let rate = |amount: u64| if virtual_ns > 0 { amount as f64 / seconds } else { 0.0 };
            JobOp {
                io_bytes: stats.host.bytes(op),
                bw_bytes: rate(stats.host.bytes(op)) as u64,
                iops: rate(stats.host.commands(op)),
                runtime: virtual_ns / 1_000_000,
                total_ios: stats.host.commands(op),
                clat_ns: Clat::of(latency, op),
            }
        };
        let sync =
            JobSync { total_ios: stats.host.commands(Op::Flush), lat_ns: Clat::of(latency, Op::Flush) };
        Self { jobname: name.to_owned(), read: op(Op::Read), write: op(Op::Write), trim: op(Op::Trim), sync }
    }
}

impl Clat {
    fn of(latency: &Latency, op: Op) -> Self {
        let histogram = latency.of(op);
        let empty = histogram.is_empty();
        let (min, max) = latency.extremes_ns(op).unwrap_or((0, 0));
        let percentile = |p: f64| (format!("{p:.6}"), histogram.value_at_quantile(p / 100.0).clamp(min, max));
        Self {
            min,
            max,
            mean: latency.mean_ns(op),
            stddev: if empty { 0.0 } else { histogram.stdev() },
            n: histogram.len(),
            percentile: if empty { Default::default() } else { PERCENTILES.map(percentile).into() },
            counts: histogram
                .iter_recorded()
                .map(|step| (step.value_iterated_to(), step.count_at_value()))
                .collect(),
        }
    }
}

pub(crate) fn ratio(a: u64, b: u64) -> Option<f64> {
    (b > 0).then(|| a as f64 / b as f64)
}

/// Start and end of the measured window.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) stats: DriveStats,
    pub(crate) start: SimTime,
    pub(crate) end: SimTime,
}
