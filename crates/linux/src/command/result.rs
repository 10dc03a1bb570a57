//! Result of `strobe linux --json`.

use crate::job::on_device;
use crate::kernel::KernelInfo;
use crate::{Clock, CpuCost, Mark, OtherOutcome, Outcome};
use schemars::JsonSchema;
use serde::Serialize;
use strobe_ftl::CopyStats;
use strobe_nand::NandOp;
use strobe_ssd::{DriveConfig, MergeStats, NvramStats, Requests, TranslationStats};

use super::{GuestInterval, LinuxRun};
use strobe_lab::ideal_host_pages;
use strobe_lab::machine::Stopwatch;
use strobe_lab::numbers::ratio;
use strobe_lab::result::{
    DiesResult, GcResult, HandlesResult, HostResult, ImageResult, Job, NandResult, SCHEMA_VERSION, SlcResult,
    StreamResult, WearResult, copies,
};

/// The result of a command in a guest. Counters cover the measured window: from the start of the command
/// until all that it wrote is on the drive (sync).
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LinuxResult {
    /// Version of this layout.
    pub schema_version: u32,
    /// Version of Strobe that made it.
    pub strobe_version: String,
    /// Seed of everything random.
    pub seed: u64,
    /// The complete drive.
    pub drive: DriveConfig,
    /// The guest and its command.
    pub guest: GuestResult,
    /// Requests of the guest's block layer.
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
    /// Copy commands; not there without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyStats>,
    /// Non-volatile write cache; not there if the drive has none.
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
    /// Streams, by number: those of the placement, then wear levelling, translation pages and the SLC cache, as far as the
    /// drive has them. Not there without a placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<Vec<StreamResult>>,
    /// Placement handles; not there if the drive has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_handles: Option<HandlesResult>,
    /// The image that the drive's flash is in; not there if it is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageResult>,
    /// Capacities that had been overwritten at random before the guest booted, after the drive had been written once in
    /// order; not there if the drive was new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aged: Option<f64>,
    /// Further drives (--drive given more than once); absent if there were none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_drives: Vec<OtherDrive>,
    /// Wear of the drive at the end.
    pub wear: WearResult,
    /// Time.
    pub time: LinuxTime,
    /// Throughput and latency of the drive under fio's names.
    pub jobs: Vec<Job>,
    /// The session in intervals (--interval); not there without.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<GuestInterval>,
    /// Why files or folders that were to be brought out were not sent.
    #[serde(skip)]
    pub not_sent: Option<String>,
}

/// A further drive of the guest. Counters cover the session, from power-on to power-off.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OtherDrive {
    /// The name of its block device.
    pub device: String,
    /// The complete drive.
    pub drive: DriveConfig,
    /// Requests of the guest's block layer.
    pub requests: Requests,
    /// Host commands, as the drive counts them.
    pub host: HostResult,
    /// Flash operations.
    pub nand: NandResult,
    /// The first error of the drive that the guest has seen.
    pub drive_error: Option<String>,
}

impl OtherDrive {
    fn of(run: &LinuxRun, number: usize, outcome: &OtherOutcome) -> Self {
        let stats = outcome.drive.stats();
        Self {
            device: run.machine.disk.interface.other_device(number),
            drive: run.others[number].clone(),
            requests: outcome.requests,
            host: HostResult::of(&stats),
            nand: NandResult::of(&stats),
            drive_error: outcome.drive_error.clone(),
        }
    }
}

/// The guest and its command.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GuestResult {
    /// Version of its kernel.
    pub kernel: String,
    /// "virtual" or "real".
    pub clock: String,
    /// Interface of the drive: "virtio" or "nvme".
    pub interface: String,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Source of the guest's programs.
    pub root: RootResult,
    /// Command that created the file system; null without one, and if it was on the image already.
    pub mkfs: Option<Vec<String>>,
    /// File system that was mounted.
    pub file_system: Option<String>,
    /// Options of the mount.
    pub mount_options: String,
    /// The command.
    pub command: Vec<String>,
    /// Its exit code; 128 and the number of the signal that ended it.
    pub exit_code: i32,
    /// Ranges that one discard could have.
    pub discard_segments: u32,
    /// True if copies within the drive were offered.
    pub copy: bool,
    /// True if the drive was offered with a volatile write cache.
    pub write_cache: bool,
    /// True if the guest's kernel killed a program because memory ran out.
    pub out_of_memory: bool,
    /// Programs that computed for so long without a system call that virtual time went on with the host's clock: the
    /// run is not repeatable. Absent if there were none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spun: Vec<String>,
    /// The first error of the drive that the guest has seen.
    pub drive_error: Option<String>,
    /// Messages about time between guest and drive, from power-on to power-off.
    pub time_messages: u64,
    /// Interrupts by the drive, from power-on to power-off.
    pub interrupts: u64,
    /// Virtual time charged for the guest's processor; absent if it takes none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuResult>,
}

/// Virtual time charged for the guest's processor: a cost model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CpuResult {
    /// ns of every system call, beside what it waits for.
    pub syscall_ns: u32,
    /// ns of a system call for every KiB that it copies between a program and the kernel.
    pub copy_ns_per_kib: u32,
    /// ns of a fork and the end of its process; loading a program takes three times as long.
    pub process_ns: u32,
}

impl CpuResult {
    fn of(cost: CpuCost) -> Option<Self> {
        let CpuCost { syscall_ns, copy_ns_per_kib, process_ns } = cost;
        (!cost.is_none()).then_some(Self { syscall_ns, copy_ns_per_kib, process_ns })
    }
}

/// Source of the guest's programs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RootResult {
    /// "packed": what the command names and nothing else. "host": the files of the host, read only.
    pub kind: String,
    /// True if the run is repeatable: in virtual time, on Linux 6.12 or newer, with no program in `guest.spun`, given
    /// equal host files and environment ("digest").
    pub repeatable: bool,
    /// Files of the host whose content was read; null for a packed root.
    pub files: Option<u64>,
    /// Bytes of them.
    pub bytes: Option<u64>,
    /// SHA-256 of all that the guest was shown of the host (names, attributes, contents, environment); null for a packed root.
    pub digest: Option<String>,
    /// Files that the command has written beside the drive, into the guest's memory; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<BesideResult>,
}

/// Files written beside the drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BesideResult {
    /// Number of them.
    pub files: u64,
    /// The first of them, up to four.
    pub paths: Vec<String>,
}

impl BesideResult {
    /// The result of a guest that wrote `files` beside the drive, the first of which are `paths`.
    pub fn of((files, paths): &(u64, Vec<String>)) -> Option<Self> {
        (*files > 0).then(|| Self { files: *files, paths: paths.clone() })
    }
}

impl std::fmt::Display for BesideResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let more = self.files - self.paths.len() as u64;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        write!(
            f,
            "The program wrote files that are not on the drive, but in the guest's memory: {}{more}. The drive is its \
             working folder: use relative paths.",
            self.paths.join(", ")
        )
    }
}

/// Time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LinuxTime {
    /// Time of the measured window in ns, by the guest's clock. Its processor takes none but what `guest.cpu` says.
    pub virtual_ns: u64,
    /// Time from power-on to power-off in ns.
    pub session_ns: u64,
    /// Wall time in seconds; null with --reproducible.
    pub wall_s: Option<f64>,
    /// CPU time of the simulator, without the guest's, in seconds; null with --reproducible.
    pub cpu_s: Option<f64>,
}

impl LinuxResult {
    pub(super) fn of(
        run: &LinuxRun,
        kernel: &KernelInfo,
        outcome: &Outcome,
        (begin, end): (&Mark, &Mark),
        exit_code: i32,
        watch: &Stopwatch,
    ) -> Self {
        let stats = end.stats.since(&begin.stats);
        let geometry = outcome.drive.geometry();
        let units_per_page = u64::from(geometry.units_per_page());
        let programmed = stats.nand.total(NandOp::Program) * units_per_page;
        let waf = ratio(programmed, stats.host.units_written);
        let ideal = ideal_host_pages(&run.experiment.drive.nand, geometry, waf);
        let virtual_ns = end.at_ns.saturating_sub(begin.at_ns);
        let name = run.command.first().map_or("", |program| program.as_str());
        let kind = run.file_system.kernel_name();
        let interface = run.machine.disk.interface;
        Self {
            schema_version: SCHEMA_VERSION,
            strobe_version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: run.experiment.seed,
            drive: run.experiment.drive.clone(),
            guest: GuestResult {
                kernel: kernel.version.clone(),
                clock: match run.machine.clock {
                    Clock::Virtual => "virtual".into(),
                    Clock::Real => "real".into(),
                },
                interface: interface.name().to_owned(),
                memory_mib: run.machine.memory_mib,
                root: RootResult {
                    kind: run.root.name().to_owned(),
                    repeatable: run.machine.clock == Clock::Virtual
                        && kernel.shares_calendar()
                        && outcome.spun.is_empty(),
                    files: outcome.host.as_ref().map(|host| host.files),
                    bytes: outcome.host.as_ref().map(|host| host.bytes),
                    digest: outcome.host.as_ref().map(|host| host.digest.clone()),
                    beside: BesideResult::of(&outcome.beside),
                },
                mkfs: kind
                    .filter(|_| !run.is_made)
                    .map(|_| run.file_system.mkfs(run.experiment.seed, &run.mkfs_options))
                    .map(|argv| argv.into_iter().map(|word| on_device(word, interface.device())).collect()),
                file_system: kind.map(str::to_owned),
                mount_options: run.mount_options.clone(),
                command: run.command.clone(),
                exit_code,
                discard_segments: run.machine.disk.discard_segments,
                copy: run.machine.disk.copy,
                write_cache: run.machine.disk.write_cache,
                out_of_memory: outcome.out_of_memory,
                spun: outcome.spun.clone(),
                drive_error: outcome.drive_error.clone(),
                time_messages: outcome.ended.time_messages,
                interrupts: outcome.ended.interrupts,
                cpu: CpuResult::of(run.machine.cpu),
            },
            requests: end.requests.since(&begin.requests),
            host: HostResult::of(&stats),
            nand: NandResult::of(&stats),
            dies: DiesResult::of(&stats.occupancy, outcome.drive.geometry().dies(), virtual_ns),
            waf,
            gc: GcResult::of(&stats),
            copy: copies(&stats),
            nvram: stats.nvram,
            merges: stats.merges,
            translation: stats.translation,
            slc: SlcResult::of(&stats, outcome.drive.slc_blocks()),
            streams: StreamResult::all(&stats, &*outcome.drive),
            placement_handles: HandlesResult::of(&stats, &*outcome.drive),
            image: None,
            aged: run.ageing.map(|ageing| ageing.overwrites),
            other_drives: outcome
                .others
                .iter()
                .enumerate()
                .map(|(number, other)| OtherDrive::of(run, number, other))
                .collect(),
            wear: WearResult::of(outcome.drive.wear(), ideal),
            time: LinuxTime {
                virtual_ns,
                session_ns: outcome.ended.guest_ns,
                wall_s: Some(watch.wall_s()),
                cpu_s: Some(watch.cpu_s()),
            },
            jobs: vec![Job::of_drive(name, &stats, &end.latency, virtual_ns)],
            intervals: Vec::new(),
            not_sent: outcome.not_sent.clone(),
        }
    }

    /// Without what differs from run to run: what the simulation itself took.
    #[must_use]
    pub fn reproducible(mut self) -> Self {
        (self.time.wall_s, self.time.cpu_s) = (None, None);
        self
    }
}
