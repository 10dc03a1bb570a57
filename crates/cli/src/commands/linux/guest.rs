//! Options of all guests: the drive, its file system, the machine.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use strobe_lab::{Experiment, load_drive_table};
use strobe_linux::command::{
    DRIVE_SETS, Ext4Discard, F2fsCleaning, FileSystem, GuestRoot, LinuxRun, LinuxRunError, Switches,
};
use strobe_linux::job::{MOUNT_POINT, Step, shown_at};
use strobe_linux::{CpuCost, DiskOptions, Interface, Machine, kernel};
use strobe_ssd::{DriveConfig, DurableMap};
use toml::Table;

use super::super::Failure;
use super::super::options::{Options, one_of, seed};
use super::line::shell_line;

pub(in super::super) const FILE_SYSTEM: &str = "File system";
pub(in super::super) const GUEST: &str = "Guest";
const PROGRAM: &str = "Program";
/// Slots of the kernel's virtual PCI bus.
const DRIVES_MAX: usize = 8;

#[derive(Args, Clone)]
pub(in super::super) struct GuestArgs {
    /// A preset (`strobe list presets`) or a TOML file with the keys of [drive]. If repeated, adds further
    /// drives (/dev/vdb or /dev/nvme1n1, and so on), new, empty and in memory; at most eight in all
    #[arg(id = "drive", long = "drive", value_name = "PRESET|FILE.toml", default_value = "tlc-nvme-1t")]
    pub(in super::super) drives: Vec<String>,
    /// Override a key of the first drive: --set drive.nand.blocks_per_plane=64 (repeatable)
    #[arg(long = "set", value_name = "KEY.PATH=VALUE")]
    pub(in super::super) sets: Vec<String>,
    /// Seed of all random decisions, in the drive and in the guest
    #[arg(help_heading = GUEST, long, allow_negative_numbers = true, value_parser = seed)]
    seed: Option<u64>,
    /// File system; xfs and btrfs need a kernel built `--with` them, none leaves /dev/vda untouched. `strobe
    /// crash` takes several: ext4,xfs
    #[arg(long, value_name = "FS", default_value = FileSystem::Ext4.name(), value_delimiter = ',',
        value_parser = one_of(&FileSystem::ALL, FileSystem::name))]
    pub(in super::super) fs: Vec<FileSystem>,
    /// Mount options, separated by commas
    #[arg(help_heading = FILE_SYSTEM, long, value_name = "OPTIONS", default_value = "", hide_default_value = true)]
    mount_opts: String,
    /// Cleaning method of F2FS: reads and writes (move), or copy commands of the drive (copy;
    /// drive.ftl.copy_mode sets their cost). With --mount-opts mode=lfs F2FS cleans instead of filling holes
    /// in old segments
    #[arg(help_heading = FILE_SYSTEM, long, value_name = "HOW",
        value_parser = one_of(&F2fsCleaning::ALL, F2fsCleaning::name))]
    f2fs_cleaning: Option<F2fsCleaning>,
    /// Discards of freed blocks by ext4 at each commit. batched: up to 64 extents per command, within the
    /// drive's range limit. single: one per command. off: none
    #[arg(help_heading = FILE_SYSTEM, long, value_name = "HOW",
        value_parser = one_of(&Ext4Discard::ALL, Ext4Discard::name))]
    ext4_discard: Option<Ext4Discard>,
    /// Further arguments for mkfs, separated by spaces
    #[arg(help_heading = FILE_SYSTEM, long,
        value_name = "ARGUMENTS",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub(in super::super) mkfs_opts: String,
    /// Shell command to run in the guest before the measured window, in the mounted file system (repeatable).
    /// Its program (./script.sh) is looked up from the current folder, which is $OLDPWD: 'tar xf
    /// "$OLDPWD/big.tar"'
    #[arg(help_heading = PROGRAM, long, value_name = "SHELL LINE")]
    pub(in super::super) before: Vec<String>,
    /// Copy a file or folder to the drive's file system before the measured window, then drop it from the
    /// guest's page cache (repeatable)
    #[arg(long, value_name = "PATH")]
    pub(in super::super) put: Vec<PathBuf>,
    /// Working folder of COMMAND, relative to the top of the drive's file system; an absolute path may be
    /// outside of it
    #[arg(help_heading = PROGRAM, long, value_name = "FOLDER")]
    dir: Option<String>,
    /// Kernel to boot [default: the one made by build-kernel]
    #[arg(help_heading = GUEST, long, value_name = "PATH")]
    pub(in super::super) kernel: Option<PathBuf>,
    /// Memory of the guest in MiB
    #[arg(help_heading = GUEST, long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(64..65_536))]
    memory: u32,
    /// Interface of the drive: a virtio disk (/dev/vda) or an NVMe drive (/dev/nvme0n1). NVMe uses the
    /// kernel's own driver, and nvme-cli works on it
    #[arg(help_heading = GUEST, long, value_name = "INTERFACE", default_value = Interface::Virtio.name(),
        value_parser = one_of(&Interface::ALL, Interface::name))]
    interface: Interface,
    /// Processor model: cost of each system call of the guest, in ns. 0: system calls, copies and processes
    /// take no time [default: 1000]
    #[arg(help_heading = GUEST, long, value_name = "NS", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    syscall_ns: Option<u32>,
    /// Cost of each KiB copied by a system call between a program and the kernel, in ns: 100 is 10 GB/s
    /// [default: 100]
    #[arg(help_heading = GUEST, long, value_name = "NS", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    copy_ns_per_kib: Option<u32>,
    /// Cost of each fork in the guest, including the end of the process, in ns. Loading a program costs three
    /// times as much [default: 200000]
    #[arg(help_heading = GUEST, long, value_name = "NS", value_parser = clap::value_parser!(u32).range(0..=1_000_000_000))]
    process_ns: Option<u32>,
    /// Time a program may compute without a system call, in seconds of this machine's processor. Beyond it
    /// virtual time advances with the processor, and the result does not repeat. 0: it never advances during
    /// computation
    #[arg(help_heading = GUEST, long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    spin_limit: u32,
    /// Maximum number of ranges per discard; 0: no discards
    #[arg(help_heading = GUEST, long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=256))]
    discard_segments: u32,
    /// Do not offer copy commands
    #[arg(help_heading = GUEST, long)]
    no_copy: bool,
    /// No volatile write cache: every write is durable on completion
    #[arg(help_heading = GUEST, long)]
    pub(in super::super) write_through: bool,
    /// Wall time without activity before the guest counts as hung, in seconds
    #[arg(help_heading = GUEST, long, value_name = "S", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    stall_limit: u64,
}

impl GuestArgs {
    /// An error if --fs names several.
    fn file_system(&self) -> Result<FileSystem, Failure> {
        match self.fs[..] {
            [fs] => Ok(fs),
            _ => Err(Failure::Request(anyhow!("--fs takes one file system; `strobe crash` takes several"))),
        }
    }

    pub(super) fn file_system_path(&self, path: &str) -> String {
        let top = if self.fs == [FileSystem::None] { "/" } else { MOUNT_POINT };
        Path::new(top).join(path).display().to_string()
    }

    pub(in super::super) fn drive(&self) -> &str {
        self.drives.first().map_or("", String::as_str)
    }

    fn other_drives(&self) -> Result<Vec<DriveConfig>, Failure> {
        if self.drives.len() > DRIVES_MAX {
            return Err(Failure::Request(anyhow!(
                "--drive: {} drives given; allowed are 1 to {DRIVES_MAX}",
                self.drives.len()
            )));
        }
        self.drives
            .iter()
            .skip(1)
            .map(|drive| Ok(experiment("strobe linux", drive, &[], self.seed)?.drive))
            .collect()
    }

    pub(in super::super) fn kernel_path(&self) -> Result<PathBuf, Failure> {
        match &self.kernel {
            Some(path) => Ok(path.clone()),
            None => Ok(kernel::installed().map_err(LinuxRunError::from)?),
        }
    }

    pub(super) fn says_cost(&self) -> bool {
        [self.syscall_ns, self.copy_ns_per_kib, self.process_ns].iter().flatten().any(|&ns| ns > 0)
    }

    /// Processor costs: those set by options, otherwise typical ones. The latter are 0 with `--syscall-ns 0`,
    /// or if the kernel cannot charge costs.
    fn cpu_cost(&self, kernel: &Path) -> Result<CpuCost, Failure> {
        let can_charge = kernel::inspect(kernel).map_err(LinuxRunError::from)?.can_charge_cpu();
        let CpuCost { syscall_ns, copy_ns_per_kib, process_ns } =
            if can_charge && self.syscall_ns != Some(0) { CpuCost::TYPICAL } else { CpuCost::default() };
        Ok(CpuCost {
            syscall_ns: self.syscall_ns.unwrap_or(syscall_ns),
            copy_ns_per_kib: self.copy_ns_per_kib.unwrap_or(copy_ns_per_kib),
            process_ns: self.process_ns.unwrap_or(process_ns),
        })
    }

    pub(in super::super) fn linux_run(
        &self,
        kernel: PathBuf,
        mut root: GuestRoot,
        command: &[String],
    ) -> Result<LinuxRun, Failure> {
        let machine = Machine {
            memory_mib: self.memory,
            spin_limit: (self.spin_limit > 0).then(|| Duration::from_secs(self.spin_limit.into())),
            stall_limit: Duration::from_secs(self.stall_limit),
            disk: DiskOptions {
                interface: self.interface,
                discard_segments: self.discard_segments,
                copy: !self.no_copy,
                write_cache: !self.write_through,
                ..DiskOptions::default()
            },
            ..Machine::new(kernel)
        };
        let experiment = experiment("strobe linux", self.drive(), &self.sets, self.seed)?;
        let mut run = LinuxRun {
            mkfs_options: words(&self.mkfs_opts),
            mount_options: self.mount_opts.clone(),
            setup: self.puts(&mut root)?,
            root,
            others: self.other_drives()?,
            folder: self.dir.as_ref().map_or_else(String::new, |dir| self.file_system_path(dir)),
            ..LinuxRun::new(experiment, machine, self.file_system()?, command.to_vec())
        };
        for text in &self.before {
            run.setup.push(before(text)?);
        }
        let switches = Switches { f2fs_cleaning: self.f2fs_cleaning, ext4_discard: self.ext4_discard };
        switches.apply(&mut run).map_err(|reason| Failure::Request(anyhow!(reason)))?;
        // Report wrong options before a wrong kernel.
        run.machine.cpu = self.cpu_cost(&run.machine.kernel)?;
        Ok(run)
    }

    /// Adds paths to `root` that the guest could not see otherwise.
    fn puts(&self, root: &mut GuestRoot) -> Result<Vec<Step>, Failure> {
        let wrong = |text: String| Err(Failure::Request(anyhow!("--put {text}")));
        if self.put.is_empty() {
            return Ok(Vec::new());
        }
        if self.fs == [FileSystem::None] {
            return wrong("needs a file system, but --fs is none".into());
        }
        let GuestRoot::Host { shown, .. } = root else {
            return wrong("needs --root host: a packed root has no files to copy".into());
        };
        let mut steps = Vec::new();
        for path in &self.put {
            let there = std::path::absolute(path).ok().filter(|path| path.exists());
            let Some(from) = there.as_deref().and_then(Path::to_str) else {
                return wrong(format!("{}: there is no such file or folder", path.display()));
            };
            // The guest sees this path, so its `cp` reads the file directly.
            let Some(folder) = strobe_linux::hidden_by(Path::new(from)) else {
                steps.push(strobe_linux::job::Run::tool(["cp", "-a", "--", from, MOUNT_POINT]));
                continue;
            };
            let Some(name) = there.as_deref().and_then(Path::file_name).and_then(OsStr::to_str) else {
                return wrong(format!("{from}: no file name"));
            };
            if !strobe_linux::can_be_shown(Path::new(from)) {
                return wrong(format!(
                    "{from}: the guest has its own {folder}, and this machine's has no files to copy"
                ));
            }
            // The guest's own folder hides this path, so it is shown under another path.
            let (from, to) = (shown_at(shown.len()), format!("{MOUNT_POINT}/{name}"));
            shown.extend(there.as_deref().and_then(Path::to_str).map(str::to_owned));
            steps.push(strobe_linux::job::Run::tool(["cp", "-aT", "--", &from, &to]));
        }
        // Without this the command would read the copies from the page cache, not from the drive.
        steps.push(Step::DropCaches);
        Ok(steps)
    }
}

pub(in super::super) fn experiment(
    command: &str,
    drive: &str,
    sets: &[String],
    seed: Option<u64>,
) -> Result<Experiment, Failure> {
    let mut options = Options::new(sets);
    let drive = load_drive_table(drive, "--drive")?;
    let has_pages = DriveConfig::over_preset(drive.clone())
        .is_ok_and(|drive| drive.ftl.durable_map == DurableMap::Pages)
        || sets.iter().any(|set| set.starts_with("drive.ftl.durable_map=") && set.contains("pages"));
    // A map stored in pages is durable already, so that setting is kept.
    for set in DRIVE_SETS.into_iter().filter(|set| !has_pages || !set.contains("durable_map")) {
        options.set(set.to_owned(), command.to_owned());
    }
    if let Some(seed) = seed {
        options.set(format!("seed={seed}"), format!("--seed {seed}"));
    }
    let table = Table::from_iter([("drive".to_owned(), drive.into())]);
    Ok(options.name_option(Experiment::from_table(table, options.sets(), Path::new("")))?)
}

fn before(text: &str) -> Result<Step, Failure> {
    Ok(strobe_linux::job::Run::must_succeed(shell_line("--before", text, &["sh", "-e", "-c"])?))
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
