//! `strobe linux`: any program on a real Linux kernel on the drive, in virtual time.

mod prepare;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, Subcommand, ValueEnum};
use indicatif::ProgressBar;
use strobe_cli::output::{Output, Sink};
use strobe_cli::report;
use strobe_lab::linux::{
    DRIVE_SETS, Ext4Discard, F2fsCleaning, FileSystem, GuestRoot, LinuxRun, LinuxRunError, Switches,
};
use strobe_lab::{Experiment, load_drive_table};
use strobe_linux::job::{MOUNT_POINT, Step};
use strobe_linux::kernel::{self, KernelInfo};
use strobe_linux::{Clock, DiskOptions, Machine, Recorder, Stream, TraceForm};
use strobe_ssd::Ageing;
use strobe_types::SimTime;
use toml::Table;

use super::options::Options;
use super::progress::{self, interrupt_flag};
use super::{Failure, output};

/// Run any program on a file system of a real Linux kernel on the drive, in virtual time.
///
/// Boots a kernel (User-Mode Linux: no root, no KVM) with the drive as /dev/vda, makes and mounts a file system
/// in /mnt, runs COMMAND there, shuts down, and prints what the drive did. The guest's time is virtual: its disk
/// takes as long as the drive's model says, its processor no time at all, so results are those of the drive, and
/// the same in every run.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  strobe linux build-kernel\n  \
    strobe linux -- strobe files postmark --directory mail\n  \
    strobe linux --drive jasmine-4g --fs f2fs --mount-opts mode=lfs -- fio --name=a --rw=randwrite --size=64m --fsync=32 \
    --clocksource=clock_gettime\n  \
    strobe linux --fs vfat --mount-opts sync --trace cp.fio -- sh -c 'dd if=/dev/zero of=a bs=4k count=100 && cp a b'\n\n\
    COMMAND is any program of this machine. The guest's root is this machine's: its files, read only, so that a program \
    finds there what it finds here, with your environment; what the guest changes of them is in its memory and gone \
    afterwards. The drive's file system is in /mnt, where COMMAND runs; arguments that name files or folders of this \
    machine with a slash (./script.sh) are found from where you are, --put copies them to the drive, and `strobe` is this \
    program. A result with the same digest of the root is the same bytes.\n  \
    strobe linux --put . --dir project -- make\n  \
    strobe linux -- git clone ./repository\n\n\
    With --root packed the guest has only what COMMAND names: its program with its libraries, a script with the programs \
    that it names, arguments that name files with a slash, and what --with brings; its environment is the same everywhere."
)]
pub(crate) struct LinuxArgs {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Subcommand)]
enum Action {
    /// Build the guest's kernel, once, from the distribution's source: some minutes
    BuildKernel(prepare::BuildArgs),
    /// Check what this machine has of what guests need
    Doctor,
}

#[derive(Args)]
struct RunArgs {
    /// A preset (`strobe list presets`) or a TOML file with the keys of [drive]
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "jasmine-4g")]
    drive: String,
    /// Override a key of the drive: --set drive.nand.blocks_per_plane=64 (repeatable)
    #[arg(long = "set", value_name = "KEY.PATH=VALUE")]
    sets: Vec<String>,
    /// Seed of everything random, in the drive and in the guest
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,
    /// Keep the drive's flash in FILE: a new drive if there is no such file, else the one that is there goes on with the
    /// file system on it, also after a run that was killed. Without it what is written is kept in memory
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Write the drive before the guest boots, in no virtual time and without keeping what was written: once in order, then
    /// N times its capacity at random; as if a file system without discards had been there for long. mkfs does not discard then
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        conflicts_with = "image",
        value_parser = capacities
    )]
    age: Option<f64>,
    /// The file system
    #[arg(long, value_enum, default_value_t = FsName::Ext4)]
    fs: FsName,
    /// Options of the mount, separated by commas
    #[arg(long, value_name = "OPTIONS", default_value = "", hide_default_value = true)]
    mount_opts: String,
    /// How F2FS cleans: by reading and writing, or by copy commands of the drive. With --mount-opts mode=lfs it cleans
    /// rather than fill holes in old segments
    #[arg(long, value_name = "HOW", value_enum)]
    f2fs_cleaning: Option<CleaningName>,
    /// How ext4 discards what it has freed: with each commit many extents in a command or each alone, or not at all
    #[arg(long, value_name = "HOW", value_enum)]
    ext4_discard: Option<DiscardName>,
    /// More arguments for mkfs, separated by spaces
    #[arg(
        long,
        value_name = "ARGUMENTS",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    mkfs_opts: String,
    /// Shell commands before the measured window, in the mounted file system (repeatable)
    #[arg(long, value_name = "SCRIPT")]
    before: Vec<String>,
    /// Check the file system when it is unmounted
    #[arg(long)]
    fsck: bool,
    /// Where the guest's programs come from: this machine's files, read only; or a root packed of what COMMAND names, for
    /// kernels that cannot show the host's files [default: host if the kernel can, packed with --with]
    #[arg(long, value_name = "ROOT", value_enum)]
    root: Option<RootName>,
    /// A file, folder or program that a packed root needs too (repeatable)
    #[arg(long, value_name = "PATH|NAME")]
    with: Vec<String>,
    /// Copy a file or folder to the drive's file system before the measured window, and forget what the guest has cached
    /// of it (repeatable)
    #[arg(long, value_name = "PATH")]
    put: Vec<PathBuf>,
    /// Where COMMAND runs, from the top of the drive's file system; a full path may be elsewhere
    #[arg(long, value_name = "FOLDER")]
    dir: Option<String>,
    /// The kernel [default: the one that build-kernel made]
    #[arg(long, value_name = "PATH")]
    kernel: Option<PathBuf>,
    /// Memory of the guest in MiB
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(64..65_536))]
    memory: u32,
    /// Ranges that one discard may have; 0: no discard
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=256))]
    discard_segments: u32,
    /// Offer no copies within the drive
    #[arg(long)]
    no_copy: bool,
    /// No volatile write cache: every write is durable when it completes
    #[arg(long)]
    write_through: bool,
    /// Real time, for a kernel without time travel; results are not repeatable
    #[arg(long)]
    real_time: bool,
    /// Virtual time after which the guest is taken to hang, in seconds
    #[arg(long, value_name = "S", default_value_t = 86_400, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    time_limit: u64,
    /// Wall time without any sign of life after which the guest is taken to hang, in seconds
    #[arg(long, value_name = "S", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    stall_limit: u64,
    /// Write what the guest asks of its disk to FILE, from power-on to power-off: blkparse's text if FILE ends in
    /// .blkparse, Strobe's own form, which has copies and all ranges of discards, if it ends in .strobe, else fio's I/O log
    #[arg(long, value_name = "FILE|-")]
    trace: Option<String>,
    /// Write the kernel's messages to FILE
    #[arg(long, value_name = "FILE|-")]
    kernel_log: Option<String>,
    /// Write the result as JSON to FILE, or to standard output with "-"; the command's output then goes to standard
    /// error
    #[arg(long, value_name = "FILE|-")]
    json: Option<String>,
    /// Leave the simulator's own speed out of the JSON, so that it is the same bytes every time
    #[arg(long)]
    reproducible: bool,
    /// No summary
    #[arg(long, short)]
    quiet: bool,
    /// What to run, and its arguments
    #[arg(last = true, value_name = "COMMAND", num_args = 1..)]
    command: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RootName {
    /// This machine's files, read only, below a layer in the guest's memory
    Host,
    /// What COMMAND names and nothing else
    Packed,
}

#[derive(Clone, Copy, ValueEnum)]
enum CleaningName {
    /// Reading and writing
    Move,
    /// Copy commands (drive.ftl.copy_mode says what they cost)
    Copy,
}

#[derive(Clone, Copy, ValueEnum)]
enum DiscardName {
    /// Up to 64 extents in a command, as far as the drive takes so many ranges
    Batched,
    /// A command for each extent
    Single,
    /// None
    Off,
}

impl RunArgs {
    /// Where the guest's programs come from.
    fn guest_root(&self, kernel: &KernelInfo) -> Result<GuestRoot, Failure> {
        let default = match self.with.is_empty() && kernel.can_show_host() {
            true => RootName::Host,
            false => RootName::Packed,
        };
        match self.root.unwrap_or(default) {
            RootName::Packed => Ok(GuestRoot::Packed { with: self.with.clone() }),
            RootName::Host if self.with.is_empty() => Ok(GuestRoot::host()),
            RootName::Host => Err(Failure::Request(anyhow!(
                "--with counts with --root packed only: with --root host the guest has all files of this machine"
            ))),
        }
    }

    /// A path of the drive's file system.
    fn file_system_path(&self, path: &str) -> String {
        let top = if self.fs == FsName::None { "/" } else { MOUNT_POINT };
        Path::new(top).join(path).display().to_string()
    }

    /// The steps that copy what --put names.
    fn puts(&self, root: &GuestRoot) -> Result<Vec<Step>, Failure> {
        let wrong = |text: String| Err(Failure::Request(anyhow!("--put {text}")));
        if self.put.is_empty() {
            return Ok(Vec::new());
        }
        if self.fs == FsName::None {
            return wrong("needs a file system: --fs none has none".into());
        }
        if !matches!(root, GuestRoot::Host { .. }) {
            return wrong("counts with --root host only: a packed root has no files to copy".into());
        }
        let mut steps = Vec::new();
        for path in &self.put {
            let there = std::path::absolute(path).ok().filter(|path| path.exists());
            let Some(from) = there.as_deref().and_then(Path::to_str) else {
                return wrong(format!("{}: there is no such file or folder", path.display()));
            };
            if let Some(folder) = strobe_linux::hidden_by(Path::new(from)) {
                return wrong(format!(
                    "{from}: the guest has a {folder} of its own, which hides this machine's"
                ));
            }
            steps.push(strobe_linux::job::Run::tool(["cp", "-a", "--", from, MOUNT_POINT]));
        }
        steps.push(Step::DropCaches);
        Ok(steps)
    }

    fn switches(&self) -> Switches {
        Switches {
            f2fs_cleaning: self.f2fs_cleaning.map(|how| match how {
                CleaningName::Move => F2fsCleaning::Move,
                CleaningName::Copy => F2fsCleaning::Copy,
            }),
            ext4_discard: self.ext4_discard.map(|how| match how {
                DiscardName::Batched => Ext4Discard::Batched,
                DiscardName::Single => Ext4Discard::Single,
                DiscardName::Off => Ext4Discard::Off,
            }),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FsName {
    /// ext4
    Ext4,
    /// F2FS
    F2fs,
    /// FAT
    Vfat,
    /// XFS (`strobe linux build-kernel --with xfs`)
    Xfs,
    /// None: /dev/vda as it is
    None,
}

impl FsName {
    fn file_system(self) -> FileSystem {
        match self {
            FsName::Ext4 => FileSystem::Ext4,
            FsName::F2fs => FileSystem::F2fs,
            FsName::Vfat => FileSystem::Vfat,
            FsName::Xfs => FileSystem::Xfs,
            FsName::None => FileSystem::None,
        }
    }
}

impl From<LinuxRunError> for Failure {
    fn from(error: LinuxRunError) -> Self {
        Failure::judged(error.is_bad_request(), &error)
    }
}

pub(crate) fn linux(args: &LinuxArgs) -> Result<(), Failure> {
    match &args.action {
        Some(Action::BuildKernel(build)) => prepare::build_kernel(build),
        Some(Action::Doctor) => prepare::doctor(),
        None => run(&args.run),
    }
}

fn experiment(drive: &str, sets: &[String], seed: Option<u64>) -> Result<Experiment, Failure> {
    let mut options = Options::new(sets);
    for set in DRIVE_SETS {
        options.set(set.to_owned(), "strobe linux".to_owned());
    }
    if let Some(seed) = seed {
        options.set(format!("seed={seed}"), format!("--seed {seed}"));
    }
    let table = Table::from_iter([("drive".to_owned(), load_drive_table(drive)?.into())]);
    Ok(options.told(Experiment::from_table(table, options.sets(), Path::new("")))?)
}

/// How often a drive is to be overwritten.
fn capacities(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(times) if (0.0..=100.0).contains(&times) => Ok(times),
        _ => Err("a number of capacities from 0 to 100".to_owned()),
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Where what comes of a run goes.
struct Outputs {
    json: Option<Output>,
    trace: Option<Output>,
    log: Option<Output>,
}

impl Outputs {
    fn of(args: &RunArgs, kernel: &Path) -> Result<Self, Failure> {
        let inputs: Vec<_> =
            [kernel, Path::new(&args.drive)].into_iter().chain(args.image.as_deref()).collect();
        let output = |option: &str, given: &Option<String>| {
            given.as_deref().map(|given| Output::new(option, given, &inputs)).transpose()
        };
        let outputs = Self {
            json: output("--json", &args.json)?,
            trace: output("--trace", &args.trace)?,
            log: output("--kernel-log", &args.kernel_log)?,
        };
        let all = [&outputs.json, &outputs.trace, &outputs.log];
        Output::all_differ(&all.into_iter().flatten().collect::<Vec<_>>())?;
        Ok(outputs)
    }

    /// Whether what the command prints must go elsewhere.
    fn take_stdout(&self) -> bool {
        output::takes_stdout([&self.json, &self.trace, &self.log])
    }
}

/// Writes down what the guest asks of its disk.
fn recorder(args: &RunArgs, file: File) -> Result<Recorder, Failure> {
    let form = match args.trace.as_deref().and_then(|name| name.rsplit_once('.')) {
        Some((_, "blkparse")) => TraceForm::Blkparse,
        Some((_, "strobe")) => TraceForm::Strobe,
        _ => TraceForm::Fio,
    };
    Recorder::new(file, form, SimTime::ZERO)
        .map_err(|error| Failure::Run(anyhow!("--trace: cannot write the trace: {error}")))
}

fn run(args: &RunArgs) -> Result<(), Failure> {
    if args.command.is_empty() {
        let hint =
            "what is to be run? strobe linux [OPTIONS] -- COMMAND ...; `strobe linux --help` has examples";
        return Err(Failure::Request(anyhow!(hint)));
    }
    let path = match &args.kernel {
        Some(path) => path.clone(),
        None => kernel::installed().map_err(LinuxRunError::from)?,
    };
    let machine = Machine {
        memory_mib: args.memory,
        clock: if args.real_time { Clock::Real } else { Clock::Virtual },
        time_limit_ns: args.time_limit * 1_000_000_000,
        stall_limit: Duration::from_secs(args.stall_limit),
        disk: DiskOptions {
            discard_segments: args.discard_segments,
            copy: !args.no_copy,
            write_cache: !args.write_through,
        },
        ..Machine::new(path.clone())
    };
    let kernel = kernel::inspect(&path).map_err(LinuxRunError::from)?;
    let script = |text: &String| strobe_linux::job::Run::must_succeed(["sh", "-e", "-c", text]);
    let mut run = LinuxRun {
        experiment: experiment(&args.drive, &args.sets, args.seed)?,
        machine,
        file_system: args.fs.file_system(),
        is_made: false,
        mkfs_options: words(&args.mkfs_opts),
        mount_options: args.mount_opts.clone(),
        setup: args.before.iter().map(script).collect(),
        command: args.command.clone(),
        fsck: args.fsck,
        root: args.guest_root(&kernel)?,
        image: args.image.clone(),
        ageing: args.age.map(|overwrites| Ageing { overwrites }),
        folder: args.dir.as_ref().map_or_else(String::new, |dir| args.file_system_path(dir)),
    };
    run.setup.splice(0..0, args.puts(&run.root)?);
    if let Some(image) = args.image.as_ref().filter(|image| image.exists())
        && !run.mkfs_options.is_empty()
    {
        let image = image.display();
        return Err(Failure::Request(anyhow!(
            "--mkfs-opts counts when a file system is made, and {image} has one already"
        )));
    }
    args.switches().apply(&mut run).map_err(|reason| Failure::Request(anyhow!(reason)))?;
    let outputs = Outputs::of(args, &run.machine.kernel)?;
    let mut log = outputs.log.as_ref().map(Output::open).transpose()?;
    let mut log_file = log.as_ref().map(Sink::file).transpose()?;
    let trace = outputs.trace.as_ref().map(Output::open).transpose()?;
    let recorder = match &trace {
        Some(sink) => Some(recorder(args, sink.file()?)?),
        None => None,
    };
    let prints_result = outputs.take_stdout();
    let interrupted = interrupt_flag();
    let shows = !args.quiet && args.age.is_some();
    let bar = if shows { ProgressBar::new(1) } else { ProgressBar::hidden() };
    progress::restyle(&bar, "ageing the drive {wide_bar} {percent:>3} %  {rate}{left}");
    let mut ages = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let result = run.run(recorder, &interrupted, &mut ages, &mut |stream, bytes| {
        bar.finish_and_clear();
        // Nobody may be there to read it.
        let _ = match (stream, &mut log_file) {
            (Stream::Output, _) if !prints_result => {
                let mut out = std::io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }
            (Stream::Output | Stream::Error, _) => std::io::stderr().lock().write_all(bytes),
            (Stream::Kernel, Some(log)) => log.write_all(bytes),
            (Stream::Kernel, None) | (Stream::Control, _) => Ok(()),
        };
    });
    // The kernel's messages are wanted most when something went wrong.
    if let Some(log) = log.take() {
        log.complete()?;
    }
    let result = result?;
    if let Some(trace) = trace {
        trace.complete()?;
    }
    let result = if args.reproducible { result.reproducible() } else { result };
    if !args.quiet && !prints_result {
        output::print(&report::linux_summary(&result))?;
    }
    output::json(&result, outputs.json.as_ref())?;
    match result.guest.exit_code {
        0 => Ok(()),
        code => Err(Failure::Command(u8::try_from(code).unwrap_or(1))),
    }
}
