//! `strobe linux`: any program on a real Linux kernel with the simulated drive, in virtual time.

mod get;
pub(super) mod guest;
pub(super) mod line;
mod memory;
mod prepare;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::{Args, Subcommand, ValueEnum};
use indicatif::ProgressBar;
use strobe_cli::output::{Output, Sink};
use strobe_cli::report::{self, Style};
use strobe_lab::Time;
use strobe_linux::command::{self, GuestRoot, LinuxRunError};
use strobe_linux::kernel::{self, KernelInfo};
use strobe_linux::{Clock, CpuCost, Interface, Recorder, Stream, TraceForm};
use strobe_ssd::Ageing;
use strobe_types::SimTime;

use super::event_log::{EventArgs, EventOutputs};
use super::options::OUTPUT;
use super::{Failure, output};
use super::{progress, signals};
use get::Gets;
use guest::{FILE_SYSTEM, GUEST, GuestArgs};
use memory::Refusals;

/// Run any program on a real Linux kernel with a file system on the drive, in virtual time.
///
/// Boots a kernel (User-Mode Linux: no root, no KVM) with the drive as /dev/vda, and makes and mounts a file
/// system in /mnt. Runs COMMAND there, shuts down, and prints the drive's activity.
/// The guest's time is virtual. The disk takes as long as the drive's model says, a system call takes a
/// microsecond (--syscall-ns), and computation in programs takes no time. Results therefore depend on the
/// drive alone and are the same in every run.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  strobe linux build-kernel\n  \
    strobe linux -- strobe files postmark --directory mail\n  \
    strobe linux --drive jasmine-4g --fs f2fs --mount-opts mode=lfs -- fio --name=a --rw=randwrite --size=64m --fsync=32\n  \
    strobe linux --series second-by-second.csv --json out.json -- strobe files postmark; strobe report out.json --out out.html\n  \
    strobe linux --fs vfat --mount-opts sync --trace cp.fio -- sh -c 'dd if=/dev/zero of=a bs=4k count=100 && cp a b'\n\n\
    COMMAND is any program of this machine. The guest sees this machine's files, read only, and your environment; its \
    changes to them stay in its memory and are gone afterwards. COMMAND runs in /mnt, the drive's file system. \
    Arguments with a slash that name files or folders of this machine (./script.sh) are looked up from the current \
    folder, --put copies files to the drive, and `strobe` is this program. Equal commands with equal digests of the \
    root give identical results.\n  \
    strobe linux --put ~/project --dir project -- make\n  \
    strobe linux -- git clone ./repository\n\n\
    With --root packed the guest has only what COMMAND names: the program with its libraries, a script with the \
    programs that it names, files named with a slash, and the additions of --with. Its environment is the same on \
    every machine."
)]
pub(crate) struct LinuxArgs {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Subcommand)]
enum Action {
    /// Build the guest's kernel, once, from the distribution's source: takes a few minutes
    BuildKernel(prepare::BuildArgs),
    /// Check this machine for the requirements of guests
    Doctor,
}

#[derive(Args)]
struct RunArgs {
    #[command(flatten)]
    guest: GuestArgs,
    /// Keep the drive's flash in FILE: created if missing, else reused with its file system, even after a
    /// killed run. Without it the drive is in memory
    #[arg(help_heading = GUEST, long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Age the drive before the guest boots, without advancing virtual time: write it once in order, then N
    /// times its capacity at random. The data is not kept. The drive is then as after long use without
    /// discards; mkfs does not discard
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
    /// Divide the drive into N partitions of equal size, /dev/vda1 to /dev/vdaN; the file system is on the
    /// first
    #[arg(help_heading = FILE_SYSTEM, long, value_name = "N", conflicts_with = "image", value_parser = clap::value_parser!(u32).range(1..=15))]
    partitions: Option<u32>,
    /// Copy a file or folder of the guest to the current folder after COMMAND (repeatable). PATH is absolute,
    /// or relative to the top of the drive's file system. An existing name is not overwritten
    #[arg(help_heading = OUTPUT, long, value_name = "PATH")]
    get: Vec<String>,
    /// Run fsck after unmounting
    #[arg(help_heading = FILE_SYSTEM, long)]
    fsck: bool,
    /// Source of the guest's programs. host: this machine's files, read only. packed: only the programs that
    /// COMMAND names, for kernels that cannot show the host's files [default: host if the kernel can, packed
    /// with --with]
    #[arg(help_heading = GUEST, long, value_name = "ROOT", value_enum)]
    root: Option<RootName>,
    /// A further file, folder or program for a packed root (repeatable)
    #[arg(help_heading = GUEST, long, value_name = "PATH|NAME")]
    with: Vec<String>,
    /// Use real time, for a kernel without time travel; results do not repeat
    #[arg(help_heading = GUEST, long)]
    real_time: bool,
    /// Time limit of the guest, in seconds of virtual time
    #[arg(help_heading = GUEST, long, value_name = "S", default_value_t = 86_400, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    time_limit: u64,
    /// Write the disk requests of the guest to FILE, from power-on to power-off. Format by extension:
    /// blkparse text (.blkparse), Strobe's format with copies and all discard ranges (.strobe), else fio's
    /// I/O log
    #[arg(help_heading = OUTPUT, long, value_name = "FILE|-")]
    trace: Option<String>,
    /// Write a series over time as CSV to FILE: the drive's activity per interval, and the guest kernel's
    /// memory use, commits and cleaning
    #[arg(help_heading = OUTPUT, long, value_name = "FILE|-")]
    series: Option<String>,
    /// Length of the intervals: 1s, 100ms; at least 1ms. The JSON contains the series as well, and `strobe
    /// report` draws it [default: 1s with --series]
    #[arg(help_heading = OUTPUT, long, value_name = "TIME", value_parser = interval)]
    interval: Option<Time>,
    #[command(flatten)]
    events: EventArgs,
    /// Write the kernel's messages to FILE
    #[arg(help_heading = OUTPUT, long, value_name = "FILE|-")]
    kernel_log: Option<String>,
    /// Write the result as JSON to FILE, or to standard output with "-"; the command's output then goes to
    /// standard error
    #[arg(long, value_name = "FILE|-")]
    json: Option<String>,
    /// Write a page of figures to FILE.html, with a series of 1 s intervals unless --interval sets another
    /// length
    #[arg(help_heading = OUTPUT, long, value_name = "FILE|-")]
    report: Option<String>,
    /// Leave the simulator's speed out of the JSON: equal runs then give identical bytes
    #[arg(help_heading = OUTPUT, long)]
    reproducible: bool,
    /// Print all numbers: latencies, flash operations by cause, the map, busy time of the dies
    #[arg(help_heading = OUTPUT, long)]
    full: bool,
    /// No summary
    #[arg(help_heading = OUTPUT, long, short)]
    quiet: bool,
    /// Program to run, and its arguments
    #[arg(last = true, value_name = "COMMAND", num_args = 1..)]
    command: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RootName {
    /// This machine's files, read only, below a layer in the guest's memory
    Host,
    /// Only the programs that COMMAND names
    Packed,
}

impl RunArgs {
    fn guest_root(&self, kernel: &KernelInfo) -> Result<GuestRoot, Failure> {
        let default =
            if self.with.is_empty() && kernel.can_show_host() { RootName::Host } else { RootName::Packed };
        match self.root.unwrap_or(default) {
            RootName::Packed => Ok(GuestRoot::Packed { with: self.with.clone() }),
            RootName::Host if self.with.is_empty() => Ok(GuestRoot::host()),
            RootName::Host => Err(Failure::Request(anyhow!(
                "--with needs --root packed: with --root host the guest sees all files of this machine"
            ))),
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

const SERIES_NS: u64 = 1_000_000_000;
/// Shorter intervals would mostly measure the guest's own sampling.
const INTERVAL_NS_MIN: u64 = 1_000_000;

fn interval(text: &str) -> Result<Time, String> {
    match Time::parse(text) {
        Some(time) if time.as_ns() >= INTERVAL_NS_MIN => Ok(time),
        _ => Err("a time of 1ms or more with its unit: 100ms, 1s, 1m".to_owned()),
    }
}

/// Parses a number of capacities of the drive.
pub(super) fn capacities(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(times) if (0.0..=100.0).contains(&times) => Ok(times),
        _ => Err("a number of capacities from 0 to 100".to_owned()),
    }
}

struct Outputs {
    json: Option<Output>,
    trace: Option<Output>,
    series: Option<Output>,
    log: Option<Output>,
    page: Option<Output>,
    events: EventOutputs,
}

impl Outputs {
    fn of(args: &RunArgs, kernel: &Path) -> Result<Self, Failure> {
        let inputs: Vec<_> =
            [kernel, Path::new(args.guest.drive())].into_iter().chain(args.image.as_deref()).collect();
        let output = |option: &str, given: &Option<String>| {
            given.as_deref().map(|given| Output::new(option, given, &inputs)).transpose()
        };
        let outputs = Self {
            json: output("--json", &args.json)?,
            trace: output("--trace", &args.trace)?,
            series: output("--series", &args.series)?,
            log: output("--kernel-log", &args.kernel_log)?,
            page: output("--report", &args.report)?,
            events: args.events.outputs(&inputs, true)?,
        };
        Output::all_differ(&outputs.all().into_iter().flatten().collect::<Vec<_>>())?;
        Ok(outputs)
    }

    fn all(&self) -> [&Option<Output>; 7] {
        let EventOutputs { perfetto, lines, .. } = &self.events;
        [&self.json, &self.trace, &self.series, &self.log, &self.page, perfetto, lines]
    }

    /// If true, the command's output goes to standard error.
    fn take_stdout(&self) -> bool {
        output::takes_stdout(self.all())
    }
}

fn recorder(args: &RunArgs, device: Interface, file: File) -> Result<Recorder, Failure> {
    let form = match args.trace.as_deref().and_then(|name| name.rsplit_once('.')) {
        Some((_, "blkparse")) => TraceForm::Blkparse,
        Some((_, "strobe")) => TraceForm::Strobe,
        _ => TraceForm::Fio,
    };
    Recorder::new(file, form, device, SimTime::ZERO)
        .map_err(|error| Failure::Run(anyhow!("--trace: cannot write the trace: {error}")))
}

fn run(args: &RunArgs) -> Result<(), Failure> {
    if args.command.is_empty() {
        let hint =
            "no command given: strobe linux [OPTIONS] -- COMMAND ...; `strobe linux --help` has examples";
        return Err(Failure::Request(anyhow!(hint)));
    }
    let path = args.guest.kernel_path()?;
    let kernel = kernel::inspect(&path).map_err(LinuxRunError::from)?;
    let mut run = args.guest.linux_run(path, args.guest_root(&kernel)?, &args.command)?;
    if args.real_time {
        if args.guest.says_cost() {
            return Err(Failure::Request(anyhow!(
                "--syscall-ns, --copy-ns-per-kib and --process-ns have no effect with --real-time: the processor is \
                 the real one"
            )));
        }
        (run.machine.clock, run.machine.cpu, run.machine.spin_limit) =
            (Clock::Real, CpuCost::default(), None);
    }
    run.machine.time_limit_ns = args.time_limit * 1_000_000_000;
    run.fsck = args.fsck;
    run.image.clone_from(&args.image);
    if args.interval.is_some() && args.series.is_none() && args.json.is_none() && args.report.is_none() {
        return Err(Failure::Request(anyhow!(
            "--interval: the series has no output; add --series FILE (CSV), --json FILE or --report FILE"
        )));
    }
    let default = (args.series.is_some() || args.report.is_some()).then_some(SERIES_NS);
    run.interval_ns = args.interval.map(Time::as_ns).or(default);
    run.ageing = args.age.map(|overwrites| Ageing { overwrites });
    if let Some(image) = args.image.as_ref().filter(|image| image.exists())
        && !run.mkfs_options.is_empty()
    {
        let image = image.display();
        return Err(Failure::Request(anyhow!(
            "--mkfs-opts has no effect because {image} already has a file system"
        )));
    }
    let outputs = Outputs::of(args, &run.machine.kernel)?;
    run.log = outputs.events.log();
    run.partitions = args.partitions.unwrap_or(0);
    let gets = Gets::of(args, &run)?;
    run.gets = gets.paths(&args.guest);
    // Outputs are checked, and open, before the guest boots.
    let mut archive = gets.archive()?;
    let mut log = outputs.log.as_ref().map(Output::open).transpose()?;
    let mut log_file = log.as_ref().map(Sink::file).transpose()?;
    let trace = outputs.trace.as_ref().map(Output::open).transpose()?;
    let recorder = match &trace {
        Some(sink) => Some(recorder(args, run.machine.disk.interface, sink.file()?)?),
        None => None,
    };
    let prints_result = outputs.take_stdout();
    let stop = signals::listen_for_long();
    let shows = !args.quiet && args.age.is_some();
    let bar = if shows { ProgressBar::new(1) } else { ProgressBar::hidden() };
    progress::restyle(&bar, "ageing the drive {wide_bar} {percent:>3} %  {rate}{left}");
    let mut ages = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let mut refusals = Refusals::default();
    let result = run.run(recorder, &stop, &mut ages, &mut |stream, bytes| {
        bar.finish_and_clear();
        refusals.hear(stream, bytes);
        // A closed standard output or error is ignored.
        let _ = match (stream, &mut log_file) {
            (Stream::Output, _) if !prints_result => {
                let mut out = std::io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }
            (Stream::Output | Stream::Error, _) => std::io::stderr().lock().write_all(bytes),
            (Stream::Kernel, Some(log)) => log.write_all(bytes),
            (Stream::Files, _) => archive.write_all(bytes),
            (Stream::Kernel, None) | (Stream::Control | Stream::Changes, _) => Ok(()),
        };
    });
    // Complete the log even if the run failed: it is needed most then.
    if let Some(log) = log.take() {
        log.complete()?;
    }
    // The result already reports a program killed by the kernel for lack of memory.
    let has_failed =
        result.as_ref().map_or(true, |result| result.guest.exit_code != 0 && !result.guest.out_of_memory);
    if has_failed && let Some(note) = refusals.note(run.machine.memory_mib) {
        output::note(&note);
    }
    let result = result?;
    // Results are written before an unpacking error is reported.
    let got = gets.unpack(archive, result.not_sent.as_deref());
    if let Some(trace) = trace {
        trace.complete()?;
    }
    if let Some(series) = &outputs.series {
        series.write(command::series_csv(&result.intervals).trim_end())?;
    }
    outputs.events.write(&run.experiment.drive)?;
    let result = if args.reproducible { result.reproducible() } else { result };
    if !args.quiet && !prints_result {
        let text = if args.full {
            report::linux_summary(&result)
        } else {
            report::linux_brief(&result, Style::of_stdout())
        };
        output::print(&text)?;
    }
    output::json(&result, outputs.json.as_ref())?;
    if let Some(page) = &outputs.page {
        let run = strobe_report::Run::read(&args.command.join(" "), &output::json_text(&result));
        page.write(strobe_report::page(&[run.map_err(|error| Failure::request(&error))?]).trim_end())?;
    }
    match (result.guest.exit_code, got) {
        (0, got) => got,
        (code, got) => {
            if let Err(Failure::Run(error)) = got {
                output::note(&format!("strobe: {error:#}"));
            }
            Err(Failure::Command(u8::try_from(code).unwrap_or(1)))
        }
    }
}
