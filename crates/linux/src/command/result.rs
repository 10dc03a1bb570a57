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
use strobe_lab::machine::Stopwatch;
use strobe_lab::numbers::ratio;
use strobe_lab::result::{
    DiesResult, GcResult, HandlesResult, HostResult, ImageResult, Job, NandResult, SCHEMA_VERSION, SlcResult,
    StreamResult, WearResult, copies,
};
use strobe_lab::{WindowVerdict, ideal_host_pages};

/// Result of a command in a guest.
///
/// Counters cover the measured window: from the start of the command until all its writes are on the drive
/// (sync).
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LinuxResult {
    /// Version of this schema.
    pub schema_version: u32,
    /// Strobe version.
    pub strobe_version: String,
    /// Random seed.
    pub seed: u64,
    /// Complete drive configuration.
    pub drive: DriveConfig,
    /// Guest and command.
    pub guest: GuestResult,
    /// Requests of the guest's block layer.
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
    /// Copy commands; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyStats>,
    /// Non-volatile write cache; absent if the drive has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvram: Option<NvramStats>,
    /// Merges of a drive with log or replacement blocks; otherwise absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merges: Option<MergeStats>,
    /// Demand paging of the mapping table; absent if the whole table is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub translation: Option<TranslationStats>,
    /// SLC cache; absent if the drive has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slc: Option<SlcResult>,
    /// Streams by number: placement streams, then wear levelling, translation pages and the SLC cache, if
    /// present. Absent without a placement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<Vec<StreamResult>>,
    /// Placement handles; absent if the drive has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_handles: Option<HandlesResult>,
    /// Image file of the drive's flash; absent if the flash is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageResult>,
    /// Random overwrites before boot, in drive capacities, after one sequential fill; absent for a new drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aged: Option<f64>,
    /// Further drives (--drive given more than once); absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_drives: Vec<OtherDrive>,
    /// Wear of the drive at the end.
    pub wear: WearResult,
    /// Virtual, wall and CPU time.
    pub time: LinuxTime,
    /// Throughput and latency of the drive in fio's terms.
    pub jobs: Vec<Job>,
    /// Time series of the session (--interval); absent without that option.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<GuestInterval>,
    /// Reason why files or folders were not copied out.
    #[serde(skip)]
    pub not_sent: Option<String>,
}

/// Further drive of the guest. Counters cover the session, from power-on to power-off.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OtherDrive {
    /// Name of the block device.
    pub device: String,
    /// Complete drive configuration.
    pub drive: DriveConfig,
    /// Requests of the guest's block layer.
    pub requests: Requests,
    /// Host commands, as counted by the drive.
    pub host: HostResult,
    /// Flash operations.
    pub nand: NandResult,
    /// First drive error that the guest has seen.
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

/// Guest and command.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GuestResult {
    /// Kernel version.
    pub kernel: String,
    /// "virtual" or "real".
    pub clock: String,
    /// Interface of the drive: "virtio" or "nvme".
    pub interface: String,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Source of the guest's programs.
    pub root: RootResult,
    /// Command that created the file system; null without a file system, or if it was already on the image.
    pub mkfs: Option<Vec<String>>,
    /// Mounted file system.
    pub file_system: Option<String>,
    /// Mount options.
    pub mount_options: String,
    /// Command and arguments.
    pub command: Vec<String>,
    /// Exit code of the command; 128 plus the signal number if a signal ended it.
    pub exit_code: i32,
    /// Maximum ranges of one discard.
    pub discard_segments: u32,
    /// True if Copy within the drive was offered.
    pub copy: bool,
    /// True if the drive was offered with a volatile write cache.
    pub write_cache: bool,
    /// True if the guest's kernel killed a program because memory ran out.
    pub out_of_memory: bool,
    /// Programs that computed too long without a system call.
    ///
    /// Virtual time then followed the host's clock, so the run is not repeatable. Absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spun: Vec<String>,
    /// First drive error that the guest has seen.
    pub drive_error: Option<String>,
    /// Time messages between guest and simulator, from power-on to power-off.
    pub time_messages: u64,
    /// Interrupts by the drive, from power-on to power-off.
    pub interrupts: u64,
    /// Virtual time charged for the guest's processor; absent if it is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuResult>,
}

/// Cost model of the guest's processor, in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CpuResult {
    /// Cost of a system call in ns, in addition to its waiting time.
    pub syscall_ns: u32,
    /// Cost of a system call in ns per KiB copied between program and kernel.
    pub copy_ns_per_kib: u32,
    /// Cost of a fork and the exit of its process in ns. Loading a program costs three times as much.
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
    /// "packed": only the files the command names. "host": the host's files, read only.
    pub kind: String,
    /// True if the run is repeatable, given equal host files and environment ("digest").
    ///
    /// It requires virtual time, Linux 6.12 or newer, and no program in `guest.spun`.
    pub repeatable: bool,
    /// Number of host files read; null for a packed root.
    pub files: Option<u64>,
    /// Number of bytes read from host files; null for a packed root.
    pub bytes: Option<u64>,
    /// SHA-256 of the host data shown to the guest: names, attributes, contents, environment. Null for a packed
    /// root.
    pub digest: Option<String>,
    /// Files written outside the drive, into the guest's memory; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside: Option<OutsideResult>,
}

/// Files written outside the drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OutsideResult {
    /// Number of files.
    pub files: u64,
    /// Up to four of their paths.
    pub paths: Vec<String>,
}

impl OutsideResult {
    /// `None` without files.
    pub fn of((files, paths): &(u64, Vec<String>)) -> Option<Self> {
        (*files > 0).then(|| Self { files: *files, paths: paths.clone() })
    }
}

impl std::fmt::Display for OutsideResult {
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

/// Virtual, wall and CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LinuxTime {
    /// Length of the measured window in ns of guest time. The guest's processor takes no time except the costs
    /// in `guest.cpu`.
    pub virtual_ns: u64,
    /// Guest time from power-on to power-off in ns.
    pub session_ns: u64,
    /// Wall time in seconds; null with --reproducible.
    pub wall_s: Option<f64>,
    /// CPU time of the simulator in seconds, without the guest's; null with --reproducible.
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
        // Counters cover the window between the two marks.
        let stats = end.stats.since(&begin.stats);
        let geometry = outcome.drive.geometry();
        let units_per_page = u64::from(geometry.units_per_page());
        let programmed = stats.nand.total(NandOp::Program) * units_per_page;
        let waf = ratio(programmed, stats.host.units_written);
        let verdict = WindowVerdict::of(waf, stats.nand.total(NandOp::Erase), None);
        let wear = outcome.drive.wear();
        let ideal = ideal_host_pages(&run.experiment.drive.nand, geometry, waf, verdict, wear.bad_blocks);
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
                    outside: OutsideResult::of(&outcome.outside),
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

    /// Removes values that differ between runs: wall and CPU time.
    #[must_use]
    pub fn reproducible(mut self) -> Self {
        (self.time.wall_s, self.time.cpu_s) = (None, None);
        self
    }
}
