//! Paper runs that need a real kernel on the drive.

use std::time::Duration;

use strobe_lab::{Experiment, SyntheticWorkload, WorkloadConfig};
use strobe_linux::command::{FileSystem, LinuxRun, LinuxRunError, keep_data};
use strobe_linux::job::Step;
use strobe_linux::kernel::{self, KernelInfo};
use strobe_linux::{DiskOptions, Machine, Outcome, PoweredDrive};
use strobe_ssd::{Ageing, DriveConfig, Simulated};
use strobe_types::{SimTime, StopFlag};

use super::{Options, PaperError};
use strobe_lab::points::Watch;

const NO_KERNEL: &str = "needs a kernel for guests: `strobe linux build-kernel` builds one";
const LEFT_OUT: &str = "needs a kernel; omitted by --no-kernel";

#[derive(Clone, Debug)]
pub(super) struct Kernel {
    machine: Machine,
    info: KernelInfo,
    stop: StopFlag,
}

impl Kernel {
    pub(super) fn find(options: &Options, watch: &dyn Watch) -> Result<Self, &'static str> {
        // The error is the reason why no kernel can be used.
        if !options.kernel {
            return Err(LEFT_OUT);
        }
        let found = kernel::installed().ok().and_then(|path| Some((kernel::inspect(&path).ok()?, path)));
        let (info, path) = found.ok_or(NO_KERNEL)?;
        let machine = Machine { stall_limit: Duration::from_secs(600), ..Machine::new(path) };
        Ok(Self { machine, info, stop: watch.stop_flag() })
    }

    pub(super) fn version(&self) -> &str {
        &self.info.version
    }
}

#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) name: String,
    pub(super) file_system: FileSystem,
    pub(super) mkfs_options: Vec<String>,
    pub(super) mount_options: String,
    /// Steps before the measured window.
    pub(super) setup: Vec<Step>,
    pub(super) command: Vec<String>,
    pub(super) disk: DiskOptions,
    pub(super) memory_mib: u32,
    /// Writes to a new drive before the guest boots.
    pub(super) ageing: Option<Ageing>,
}

pub(super) struct Aged {
    pub(super) drive: Box<dyn Simulated>,
    pub(super) at: SimTime,
}

impl Aged {
    pub(super) fn freeze(&self) -> Self {
        Self { drive: self.drive.freeze(), at: self.at }
    }

    pub(super) fn of(outcome: Outcome) -> Self {
        // One idle second between two guests.
        Self { at: outcome.at + 1_000_000_000, drive: outcome.drive }
    }
}

pub(super) fn experiment(
    preset: &str,
    change: impl FnOnce(&mut DriveConfig),
    options: &Options,
) -> Result<Experiment, PaperError> {
    let mut drive = super::drive(preset, options, change)?;
    keep_data(&mut drive);
    let workload = WorkloadConfig::Synthetic(SyntheticWorkload::default());
    Ok(Experiment { seed: options.seed, ..Experiment::new(drive, workload) })
}

/// Runs `task` on a new drive, or on `drive` with its existing file system; also returns the command's output.
/// `prepare` may add a recorder or watcher.
pub(super) fn run(
    kernel: &Kernel,
    task: &Task,
    experiment: &Experiment,
    drive: Option<Aged>,
    prepare: impl FnOnce(&mut PoweredDrive),
) -> Result<(Outcome, String), PaperError> {
    let failed = |error: LinuxRunError| PaperError::Guest { run: task.name.clone(), error: Box::new(error) };
    let machine = Machine { disk: task.disk.clone(), memory_mib: task.memory_mib, ..kernel.machine.clone() };
    let job = LinuxRun {
        is_made: drive.is_some(),
        mkfs_options: task.mkfs_options.clone(),
        mount_options: task.mount_options.clone(),
        setup: task.setup.clone(),
        ageing: task.ageing,
        ..LinuxRun::new(experiment.clone(), machine, task.file_system, task.command.clone())
    };
    let mut drive = match drive {
        Some(aged) => PoweredDrive::new(aged.drive, aged.at),
        None => {
            PoweredDrive::new(job.new_drive(&kernel.stop, &mut |_, _| ()).map_err(failed)?, SimTime::ZERO)
        }
    };
    prepare(&mut drive);
    // Keep the output: several callers parse it, and a failed command shows it.
    let mut said = Vec::new();
    let mut hears = |stream, bytes: &[u8]| {
        if matches!(stream, strobe_linux::Stream::Output | strobe_linux::Stream::Error) {
            said.extend_from_slice(bytes);
        }
    };
    let (outcome, step) = job.run_on(&kernel.info, drive, &kernel.stop, &mut hears).map_err(failed)?;
    let said = String::from_utf8_lossy(&said).into_owned();
    match outcome.exit_code(step) {
        Some(0) => Ok((outcome, said)),
        code => {
            let what = format!("{} ended with {code:?}: {}", task.command.join(" "), said.trim_end());
            Err(failed(LinuxRunError::Step(what)))
        }
    }
}

pub(super) fn workload(program: &str, settings: &[(&str, String)], folder: &str, seed: u64) -> Vec<String> {
    let mut command: Vec<String> =
        ["strobe", "files", program, "--buffered", "--directory", folder, "--seed"].map(str::to_owned).into();
    command.push(seed.to_string());
    for (key, value) in settings {
        command.extend(["--set".to_owned(), format!("{key}={value}")]);
    }
    command
}
