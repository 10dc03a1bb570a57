//! Jobs of a real Linux kernel on the drive: `strobe linux`.

mod file_system;
mod partitions;
mod result;
mod root;
mod series;
mod switches;

use std::path::PathBuf;

use crate::job::{Job, Run, Step};
use crate::kernel::{self, KernelError, KernelInfo};
use crate::{
    Clock, Interface, LinuxError, Machine, Mark, Outcome, PoweredDrive, Recorder, Root, Stream, Watch,
};
use strobe_nand::EventLog;
use strobe_ssd::{Ageing, AgeingError, DataMode, DriveConfig, DurableMap, Simulated};
use strobe_types::{SimTime, StopFlag};

pub use file_system::FileSystem;
pub use result::{LinuxResult, OutsideResult};
pub use root::{GuestRoot, environment, file_here, program_here};
pub use series::{GuestInterval, KernelInterval, series_csv};
pub use switches::{Ext4Discard, F2fsCleaning, Switches};

use series::Series;

use strobe_lab::machine::{Stopwatch, available_bytes};
use strobe_lab::result::ImageResult;
use strobe_lab::{Experiment, RunError, runner};

const BEGIN: &str = "begin";
const END: &str = "end";
/// Mark after the unmount, which waits for background work of the file system.
const UNMOUNTED: &str = "unmounted";

/// Start and end of the measured window, if the guest reached both.
pub fn window(outcome: &Outcome) -> Option<(&Mark, &Mark)> {
    outcome.mark(BEGIN).zip(outcome.mark(END))
}

/// Settings of a guest's drive: it keeps written data, also across power cuts.
pub const DRIVE_SETS: [&str; 2] = ["drive.nand.data=bytes", "drive.ftl.durable_map=true"];

/// Makes `drive` keep written data, as [`DRIVE_SETS`] do. A durable map of another kind is kept.
pub fn keep_data(drive: &mut DriveConfig) {
    drive.nand.data = DataMode::Bytes;
    if !drive.ftl.durable_map.is_durable() {
        drive.ftl.durable_map = DurableMap::Journal;
    }
}

/// Size from which a drive is large: mkfs and ext4 then skip some initialisation.
const LARGE_BYTES: u64 = 64 << 30;
const LAZY_TABLES: &str = "lazy_itable_init=1";
const NO_TABLES: &str = "noinit_itable";

/// Failure of a job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinuxRunError {
    /// The drive cannot be built.
    #[error(transparent)]
    Drive(#[from] RunError),
    /// The kernel is unusable.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The guest failed.
    #[error(transparent)]
    Guest(#[from] LinuxError),
    /// A step before or after the command failed.
    #[error("{0}")]
    Step(String),
    /// Interrupted during the ageing of the drive.
    #[error("interrupted")]
    Interrupted,
}

impl LinuxRunError {
    /// True if the request was wrong, not its execution.
    pub fn is_bad_request(&self) -> bool {
        match self {
            Self::Drive(error) => error.is_bad_request(),
            Self::Kernel(_) => true,
            Self::Guest(error) => matches!(
                error,
                LinuxError::Missing(_)
                    | LinuxError::Hidden { .. }
                    | LinuxError::Library { .. }
                    | LinuxError::Start { .. }
            ),
            Self::Step(_) | Self::Interrupted => false,
        }
    }
}

struct Programs {
    root: Root,
    command: Vec<String>,
    modules: Vec<PathBuf>,
}

/// Configuration of a command on a file system on a drive.
#[derive(Clone, Debug)]
pub struct LinuxRun {
    /// Drive and seed.
    pub experiment: Experiment,
    /// Machine. Its seed is replaced by the experiment's.
    pub machine: Machine,
    /// File system to create on the drive and mount.
    pub file_system: FileSystem,
    /// True if the drive already holds the file system.
    pub is_made: bool,
    /// Additional steps before the mount.
    pub before_mount: Vec<Step>,
    /// Additional arguments for mkfs.
    pub mkfs_options: Vec<String>,
    /// Mount options, separated by commas.
    pub mount_options: String,
    /// Additional steps on the mounted file system, before the measured window.
    pub setup: Vec<Step>,
    /// Command to run.
    pub command: Vec<String>,
    /// True to check the file system after the unmount.
    pub fsck: bool,
    /// Source of the guest's programs.
    pub root: GuestRoot,
    /// Working folder of the command; empty for the mounted file system.
    pub folder: String,
    /// Image file of the drive's flash. An existing image is continued with its file system. `None` keeps the
    /// flash in memory.
    pub image: Option<PathBuf>,
    /// Ageing of a new drive in memory before the guest boots. mkfs then keeps the existing data.
    pub ageing: Option<Ageing>,
    /// Interval of the time series in ns; `None` disables it.
    pub interval_ns: Option<u64>,
    /// Event log of the drive while the command runs.
    pub log: EventLog,
    /// Further new drives in memory.
    pub others: Vec<DriveConfig>,
    /// Number of equal partitions on the drive; 0 disables partitions. The file system uses the first.
    pub partitions: u32,
    /// Guest paths of files and folders to copy out after the command.
    pub gets: Vec<String>,
}

impl LinuxRun {
    /// Runs `command` on a new drive in memory after mkfs and mount, with packed programs.
    pub fn new(
        experiment: Experiment,
        machine: Machine,
        file_system: FileSystem,
        command: Vec<String>,
    ) -> Self {
        Self {
            experiment,
            machine,
            file_system,
            is_made: false,
            before_mount: Vec::new(),
            mkfs_options: Vec::new(),
            mount_options: String::new(),
            setup: Vec::new(),
            command,
            fsck: false,
            root: GuestRoot::default(),
            folder: String::new(),
            image: None,
            ageing: None,
            interval_ns: None,
            log: EventLog::OFF,
            others: Vec::new(),
            partitions: 0,
            gets: Vec::new(),
        }
    }

    /// Checks that the kernel has the required features.
    pub fn check_kernel(&self) -> Result<KernelInfo, KernelError> {
        let path = &self.machine.kernel;
        let info = kernel::inspect(path)?;
        let (shown, version) = (|| path.display().to_string(), info.version.clone());
        if self.machine.clock == Clock::Virtual && !info.time_travel {
            return Err(KernelError::NoTimeTravel { path: shown(), version });
        }
        if !self.machine.cpu.is_none() && !info.can_charge_cpu() {
            return Err(KernelError::NoCpuCost { path: shown(), version });
        }
        match self.file_system.kernel_name() {
            // A distribution's kernel may have the file system as a module.
            Some(kind) if !info.has_file_system(kind) && kernel::modules_of(&info).is_none() => {
                Err(KernelError::NoFileSystem { path: shown(), version, kind: kind.to_owned() })
            }
            _ if self.machine.disk.interface == Interface::Nvme && !info.has("BLK_DEV_NVME") => {
                Err(KernelError::NoNvme { path: shown(), version })
            }
            _ if matches!(self.root, GuestRoot::Host { .. }) && !info.can_show_host() => {
                Err(KernelError::NoHostFiles { path: shown(), version })
            }
            _ => Ok(info),
        }
    }

    fn job(&self, command: Vec<String>, modules: &[PathBuf]) -> (Job, usize) {
        let seed = self.experiment.seed;
        let mut steps: Vec<_> =
            modules.iter().map(|module| Step::Module(module.display().to_string())).collect();
        if let Some(kind) = self.file_system.kernel_name() {
            if !self.is_made {
                steps.push(Run::tool(self.file_system.mkfs(seed, &self.mkfs_options)));
            }
            steps.extend(self.before_mount.iter().cloned());
            steps.push(Step::Mount { kind: kind.to_owned(), options: self.mount_options.clone() });
        }
        steps.extend(self.setup.iter().cloned());
        steps.push(Step::Mark(BEGIN.into()));
        // Index of the command's step. Partition steps are put in front below and shift the index.
        let mut at = steps.len();
        steps.push(Run::program_in(command, &self.folder));
        // The window ends only when all writes are on the drive.
        steps.extend([Step::Sync, Step::Mark(END.into())]);
        if !self.gets.is_empty() {
            steps.push(Step::Get(self.gets.clone()));
        }
        if self.file_system != FileSystem::None {
            steps.extend([Step::Unmount, Step::Mark(UNMOUNTED.into())]);
            if self.fsck {
                steps.extend(self.file_system.fsck().map(Run::tool));
            }
        }
        let mut job = self.root.job(steps, seed);
        job.sample_ns = self.interval_ns.unwrap_or(0);
        let interface = self.machine.disk.interface;
        if self.partitions > 0 {
            // The file system uses the first partition.
            job = job.on_device(&partitions::name(interface.device(), 1));
            let bytes = self.experiment.drive.logical_bytes();
            let made = partitions::steps(interface.device(), bytes, self.partitions);
            at += made.len();
            job.steps.splice(0..0, made);
        } else if interface != Interface::Virtio {
            job = job.on_device(interface.device());
        }
        if self.partitions > 0 || !self.others.is_empty() {
            let others = (0..self.others.len()).map(|number| interface.other_device(number));
            job.disks = [interface.device().to_owned()].into_iter().chain(others).collect();
        }
        (job, at)
    }

    /// Runs the command on a new drive, or on the drive of an existing image. Raising `stop` ends it.
    ///
    /// `hears` receives the guest's output, and `recorder` its disk requests of the whole session. `ages`
    /// receives the progress of ageing: units written and their total.
    pub fn run(
        &self,
        recorder: Option<Recorder>,
        stop: &StopFlag,
        ages: &mut dyn FnMut(u64, u64),
        hears: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<LinuxResult, LinuxRunError> {
        let watch = Stopwatch::start();
        let kernel = self.check_kernel()?;
        let mut run = self.suited();
        run.machine.memory_left = Some(available_bytes);
        // An image is only created for a command that can run.
        let programs = run.programs(&kernel)?;
        let mut recovery = None;
        let mut drive = match &self.image {
            None => PoweredDrive::new(self.new_drive(stop, ages)?, SimTime::ZERO),
            Some(path) => {
                self.check_memory()?;
                let (config, seed) = (&self.experiment.drive, self.experiment.seed);
                let (drive, found) =
                    strobe_ssd::build_on_image(config, true, seed, path).map_err(RunError::from)?;
                // An image without mapped units has no file system: its run ended before mkfs wrote anything.
                run.is_made |= found.is_some() && drive.mapped_units() > 0;
                let start = found.as_ref().map_or(SimTime::ZERO, |found| found.finished);
                recovery = found;
                // The guest's clock continues where the image's last clean shutdown left it.
                run.machine.epoch_ns += drive.earlier_power_on_ns();
                PoweredDrive::new(drive, start)
            }
        };
        // Times of a trace count from this power-on.
        drive.recorder = recorder.map(|recorder| recorder.since(drive.start));
        let series = run.interval_ns.map(|ns| Series::new(ns, &*drive.drive, drive.start));
        drive.watch = series.clone().map(|series| Box::new(series) as Box<dyn Watch>);
        drive.log = Some((run.log.clone(), [BEGIN, END]));
        drive.others = self.other_drives()?;
        let (outcome, _, step) = run.run_programs(&kernel, programs, drive, stop, hears)?;
        let mut outcome = run.succeeded(outcome, step)?;
        let mut result = run.result(&kernel, &outcome, step, &watch)?;
        result.intervals =
            series.map(|series| series.finish(outcome.at, &*outcome.drive)).unwrap_or_default();
        if self.image.is_some() {
            outcome.drive.settle(outcome.at).map_err(|error| LinuxError::Drive(error.to_string()))?;
            result.image = Some(ImageResult::of(recovery.as_ref()));
        }
        Ok(result)
    }

    /// Returns a copy with options suited to the drive.
    ///
    /// On an aged drive, mkfs does not discard the existing data. On a large drive, ext4 neither writes
    /// gigabytes of zeroed inode tables at mkfs nor initialises them in the background. The user's options take
    /// precedence.
    pub fn suited(&self) -> Self {
        let mut run = self.clone();
        if self.file_system == FileSystem::Ext4 && self.experiment.drive.logical_bytes() >= LARGE_BYTES {
            run.mkfs_options = file_system::with_extended(&self.mkfs_options, LAZY_TABLES);
            let given = self.mount_options.split(',').filter(|option| !option.is_empty());
            run.mount_options = [NO_TABLES].into_iter().chain(given).collect::<Vec<_>>().join(",");
        }
        if self.ageing.is_some() {
            run.mkfs_options = self.file_system.without_discard(&run.mkfs_options);
        }
        run
    }

    /// Builds a drive and ages it if configured. `ages` receives units written and their total. Raising `stop`
    /// ends it.
    pub fn new_drive(
        &self,
        stop: &StopFlag,
        ages: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Simulated>, LinuxRunError> {
        self.check_memory()?;
        let (drive, seed) = (&self.experiment.drive, self.experiment.seed);
        let Some(ageing) = self.ageing else {
            return Ok(strobe_ssd::build(drive, true, seed).map_err(RunError::from)?);
        };
        strobe_ssd::build_aged(drive, seed, ageing, stop, ages).map_err(|error| match error {
            AgeingError::Build(error) => LinuxRunError::Drive(error.into()),
            _ => LinuxRunError::Interrupted,
        })
    }

    fn other_drives(&self) -> Result<Vec<Box<dyn Simulated>>, LinuxRunError> {
        let seed = self.experiment.seed;
        let build = |config| Ok(strobe_ssd::build(config, true, seed).map_err(RunError::from)?);
        self.others.iter().map(build).collect()
    }

    fn check_memory(&self) -> Result<(), RunError> {
        let guest = u64::from(self.machine.memory_mib) << 20;
        runner::check_empty_memory(&self.experiment, self.image.is_some(), guest)
    }

    /// Runs the command on `drive`. Returns the outcome and the command's step. An error if a step has failed.
    pub fn run_on(
        &self,
        kernel: &KernelInfo,
        drive: PoweredDrive,
        stop: &StopFlag,
        hears: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<(Outcome, usize), LinuxRunError> {
        let (outcome, _, step) = self.outcome_on(kernel, drive, stop, hears)?;
        Ok((self.succeeded(outcome, step)?, step))
    }

    fn succeeded(&self, outcome: Outcome, step: usize) -> Result<Outcome, LinuxRunError> {
        match &outcome.failed {
            None => Ok(outcome),
            Some((failed, reason)) => {
                // The set-up steps and the mark that opens the window are directly before the command.
                let prepares = step.saturating_sub(1 + self.setup.len())..step;
                let when = if prepares.contains(failed) { "before the program: " } else { "" };
                let drive = outcome.drive_error.iter().map(|error| format!("\nthe drive: {error}"));
                let reason = format!("{when}{}", reason.trim_end());
                Err(LinuxRunError::Step(drive.fold(reason, |all, more| all + &more)))
            }
        }
    }

    /// Runs the guest and tolerates failed steps. Returns the outcome, all steps, and the index of the
    /// command's step.
    pub fn outcome_on(
        &self,
        kernel: &KernelInfo,
        drive: PoweredDrive,
        stop: &StopFlag,
        hears: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<(Outcome, Vec<Step>, usize), LinuxRunError> {
        self.run_programs(kernel, self.programs(kernel)?, drive, stop, hears)
    }

    fn programs(&self, kernel: &KernelInfo) -> Result<Programs, LinuxRunError> {
        let drivers = [Some("virtio_blk"), self.file_system.kernel_name()];
        let drivers: Vec<_> = drivers.into_iter().flatten().collect();
        let modules = kernel::needed_modules(kernel, &drivers).map_err(KernelError::from)?;
        let (root, command) = self.root.make(self, &modules)?;
        Ok(Programs { root, command, modules })
    }

    fn run_programs(
        &self,
        kernel: &KernelInfo,
        programs: Programs,
        drive: PoweredDrive,
        stop: &StopFlag,
        hears: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<(Outcome, Vec<Step>, usize), LinuxRunError> {
        let Programs { root, command, modules } = programs;
        let (job, step) = self.job(command, &modules);
        // A kernel without spin detection runs without a limit.
        let spin_limit = self.machine.spin_limit.filter(|_| kernel.can_watch_spin());
        let machine = Machine { seed: self.experiment.seed, spin_limit, ..self.machine.clone() };
        let outcome = machine.run(&root, &job, drive, stop, hears)?;
        Ok((outcome, job.steps, step))
    }

    fn result(
        &self,
        kernel: &KernelInfo,
        outcome: &Outcome,
        step: usize,
        watch: &Stopwatch,
    ) -> Result<LinuxResult, LinuxRunError> {
        match (window(outcome), outcome.exit_code(step)) {
            (Some(window), Some(exit_code)) => {
                Ok(LinuxResult::of(self, kernel, outcome, window, exit_code, watch))
            }
            _ => Err(LinuxRunError::Step("the guest powered off before the command finished".into())),
        }
    }
}
