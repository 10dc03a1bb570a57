//! `strobe crash`: power cuts during any program on a real file system, and the state after each.

mod again;
mod cuts;
mod drives;
mod explore;
mod faults;
mod kept;
mod seen;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use serde::Serialize;
use strobe_cli::output::Output;
use strobe_cli::report;
use strobe_crash::programs::Program;
use strobe_crash::{CutPoints, ExploreError, Explorer};
use strobe_linux::AddedSyncs;
use strobe_linux::command::{FileSystem, GuestRoot};

use super::linux::guest::GuestArgs;
use super::linux::line::shell_line;
use super::options::{OUTPUT, one_of};
use super::{Failure, output, signals};

use again::{again, look_at};
use drives::DriveKind;
use seen::Seen;

/// Cut the power many times while a program runs on a real file system, and check the data after each cut.
///
/// Runs PROGRAM once on a file system of a real Linux kernel (User-Mode Linux: no root, no KVM) whose drive
/// is simulated. At many flash operations it takes a snapshot of the drive as a power cut would leave it.
/// Each snapshot is then booted: the drive recovers, the file system is mounted, and the check and the file
/// system's own fsck run. Everything happens in virtual time: equal commands give equal output.
#[derive(Args)]
// Each snapshot is a drive in memory: a terabyte takes 1 GiB and more, once per worker.
#[command(mut_arg("drive", |drive| drive.default_value("jasmine-4g")))]
#[command(after_help = "How to look for a bug:\n\n\
    1. Let the program print a line when it considers something safe (\"saved 7\").\n\
    2. Write a check: a command that runs in the mounted file system after each cut. The file $STROBE_ACKNOWLEDGED \
    holds the lines printed before the cut. Program and check see this machine's files: name scripts that they call \
    by absolute paths or below $OLDPWD, your folder; other paths of a check are on the drive. Exit code 0: all data is present; 1: data is lost; others: data is corrupt. A Python program \
    that raises an exception exits with 1: catch it. The check's output is shown as the reason.\n\
    3. strobe crash --check ./check.sh -- ./program.sh\n\n\
    Example: a program that replaces a file by a new one, but never calls fsync.\n\n  \
    strobe crash --fs ext4 --mount-opts noauto_da_alloc \\\n    \
    --before 'echo old > config; sync' \\\n    \
    --check 'grep -q . config || exit 1' \\\n    \
    -- sh -c 'echo new > config.tmp; mv config.tmp config; echo saved; sync -f .'\n\n\
    The output counts the outcomes. For each kind of damage it has the reason and the place of the first cut in the \
    program, and at the end the command that repeats the first. Exit code 0: no damage; 1: damage; 2: cuts were not \
    possible.")]
pub(crate) struct CrashArgs {
    #[command(flatten)]
    guest: GuestArgs,
    /// Shell command that checks the data in the guest after each cut, in the mounted file system. Its
    /// program (./check.sh) is looked up from the current folder. Without it, only mount and fsck decide
    #[arg(long, value_name = "SHELL LINE")]
    check: Option<String>,
    /// Maximum number of power cuts [default: 100; with --budget no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    cuts: Option<u32>,
    /// End after TIME on the clock per file system, such as 120s or 5m. Cuts are chosen in rounds, each between those before.
    /// The number of cuts then depends on the machine
    #[arg(help_heading = CUTS, long, value_name = "TIME", value_parser = cuts::wall_time, conflicts_with_all = ["at", "faults", "explore", "until_first"])]
    budget: Option<std::time::Duration>,
    /// Cut power at these flash operations. spread: evenly spaced ones. random: random ones, by --seed.
    /// flushes, lines: the first that begins after each flush or printed line. all: every operation,
    /// regardless of --cuts. distinct: operations of different kinds, by the last call, the commands in flight and
    /// the running syncs, ignoring numbers
    #[arg(help_heading = CUTS, long, value_name = "WHERE", default_value = CutPoints::Spread.name(),
        value_parser = one_of(&CutPoints::ALL, CutPoints::name))]
    places: CutPoints,
    /// Remember in FILE the kinds of places (--places distinct) at which all cuts were fine, and leave them out next
    /// time, but for ten: a changed program is then cut where it does something new. The file is for one set of options
    /// and drive; other runs are kept beside it. It does not notice a changed check script
    #[arg(help_heading = CUTS, long, value_name = "FILE", conflicts_with_all = ["at", "faults", "explore", "places", "until_first"])]
    seen: Option<PathBuf>,
    /// Cut only at this flash operation, as named by an earlier run, and show everything the check prints
    #[arg(help_heading = CUTS, long, value_name = "OPERATION", conflicts_with_all = ["cuts", "places"])]
    at: Option<u64>,
    /// With --at: leave the drive in FILE as the cut leaves it, for `strobe linux --image FILE`
    #[arg(help_heading = CUTS, long, value_name = "FILE", requires = "at")]
    image: Option<PathBuf>,
    /// Instead of power cuts: after the program has ended, make N places unreadable, one at a time, and run
    /// the check after each. The places are spread equally over superblock, journal, metadata, folders,
    /// files, and data written before the program. Without --check all files are read. The exit code does not
    /// depend on the findings
    #[arg(help_heading = CUTS, long, value_name = "N", conflicts_with_all = ["cuts", "places", "at", "until_first", "strict_names", "twice", "lying_flushes", "report", "keep"], value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    faults: Option<u32>,
    /// Instead of PROGRAM: try N short random programs of file operations, chosen by --seed. Power is cut
    /// after each operation, and the data is compared with the promises of fsync, fdatasync and sync. A
    /// program that breaks a promise is minimised and printed; the exit code is then 1
    #[arg(help_heading = CUTS, long, value_name = "N", conflicts_with_all = ["faults", "cuts", "places", "at", "until_first", "report", "keep", "check", "command"], value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    explore: Option<u64>,
    /// With --explore: number of the first program
    #[arg(help_heading = CUTS, long, value_name = "NUMBER", default_value_t = 0, requires = "explore", value_parser = clap::value_parser!(u64).range(..=1_000_000_000_000))]
    first_program: u64,
    /// With --explore: operations per program
    #[arg(help_heading = CUTS, long, value_name = "N", default_value_t = 6, requires = "explore", value_parser = clap::value_parser!(u32).range(1..=100))]
    program_length: u32,
    /// Check of --explore, run in the guest
    #[arg(long, hide = true, value_name = "PLAN")]
    program_check: Option<PathBuf>,
    /// Stop at the first failing cut, then search for the earliest failing one between it and the last good
    /// cut
    #[arg(help_heading = CUTS, long, conflicts_with = "at")]
    until_first: bool,
    /// After damage: repeat the cuts in runs where the kernel syncs before each rename, after each change of a
    /// name or after each write, until all cuts are fine. Shows which sync the program lacks. Needs a kernel of
    /// `strobe linux build-kernel`
    #[arg(help_heading = CUTS, long, conflicts_with_all = ["at", "faults", "explore", "lying_flushes"])]
    find_sync: bool,
    /// Before the check, remove names that POSIX does not guarantee: new or moved names whose folder has not
    /// been synced since. A file system may keep them, but need not. Names that replaced others stay. Needs a
    /// kernel of `strobe linux build-kernel`
    #[arg(help_heading = CUTS, long)]
    strict_names: bool,
    /// Folder for the drive after the first failing cut, and for the kernel log of the boot after it; "none"
    /// keeps neither
    #[arg(help_heading = OUTPUT, long, value_name = "FOLDER|none", default_value = "strobe-crash")]
    keep: PathBuf,
    /// Cut power once more while the file system recovers
    #[arg(help_heading = CUTS, long)]
    twice: bool,
    /// Try drives of these kinds in turn. 4k, 16k, 32k: aligned writes of that size are kept whole, larger ones
    /// may be torn. write-through: completed writes are durable. lying: flushes do nothing
    #[arg(help_heading = CUTS, long, value_name = "KIND,...", value_delimiter = ',', conflicts_with_all = ["faults", "explore", "lying_flushes"],
        value_parser = one_of(&DriveKind::ALL, DriveKind::name))]
    drives: Vec<DriveKind>,
    /// Simulate a drive that acknowledges flushes without performing them
    #[arg(help_heading = CUTS, long)]
    lying_flushes: bool,
    /// Time limit of a check, in seconds of virtual time
    #[arg(help_heading = CUTS, long, value_name = "S", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    check_limit: u64,
    /// Snapshots checked in parallel [default: all cores]
    #[arg(help_heading = CUTS, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,
    /// Write the findings as JSON to FILE, or to standard output with "-"
    #[arg(help_heading = OUTPUT, long, value_name = "FILE|-")]
    json: Option<String>,
    /// Write a page to FILE, for any browser: a time line of the cuts, the outcome of each, and the full
    /// reasons
    #[arg(help_heading = OUTPUT, long, value_name = "FILE.html")]
    report: Option<String>,
    /// Write JUnit XML to FILE: a test case for each cut
    #[arg(help_heading = OUTPUT, long, value_name = "FILE|-", conflicts_with_all = ["faults", "explore"])]
    junit: Option<String>,
    /// Write SARIF to FILE: each kind of damage, at the lines of source whose data was not sent to the drive, if
    /// the program has debug information
    #[arg(help_heading = OUTPUT, long, value_name = "FILE|-", conflicts_with_all = ["faults", "explore"])]
    sarif: Option<String>,
    /// Print every cut with its full reason, including good ones
    #[arg(help_heading = OUTPUT, long)]
    full: bool,
    /// No progress bar, no summary
    #[arg(help_heading = OUTPUT, long, short)]
    quiet: bool,
    /// Program to run, and its arguments
    #[arg(last = true, value_name = "PROGRAM", num_args = 1..)]
    command: Vec<String>,
}

const CUTS: &str = "Power cuts";

impl From<ExploreError> for Failure {
    fn from(error: ExploreError) -> Self {
        Failure::judged(error.is_bad_request(), &error)
    }
}

pub(crate) fn crash(args: &CrashArgs) -> Result<(), Failure> {
    // Exit code 1 means findings: failures exit with 2.
    look(args).map_err(|failure| match failure {
        Failure::Run(error) => Failure::Request(error),
        other => other,
    })
}

fn look(args: &CrashArgs) -> Result<(), Failure> {
    if let Some(plan) = &args.program_check {
        return explore::check(plan);
    }
    let wrong = |text: String| Err(Failure::Request(anyhow!(text)));
    if args.command.is_empty() && args.explore.is_none() {
        return wrong(
            "no program given: strobe crash [OPTIONS] -- PROGRAM ...; `strobe crash --help` has an example"
                .into(),
        );
    }
    let several = args.guest.fs.len() > 1 || args.drives.len() > 1;
    if several && (args.at.is_some() || args.report.is_some()) {
        return wrong(
            "--at and --report need one file system and drive, but --fs or --drives names several".into(),
        );
    }
    if args.guest.drives.len() > 1 {
        return wrong("--drive: power cuts work with one drive only".into());
    }
    if let Some(image) = args.image.as_ref().filter(|image| image.exists()) {
        return wrong(format!("--image {}: the file exists; name a new one", image.display()));
    }
    let path = args.guest.kernel_path()?;
    let inputs = [path.as_path(), Path::new(args.guest.drive())];
    let json = args.json.as_deref().map(|given| Output::new("--json", given, &inputs)).transpose()?;
    let page = args.report.as_deref().map(|given| Output::new("--report", given, &inputs)).transpose()?;
    let junit = args.junit.as_deref().map(|given| Output::new("--junit", given, &inputs)).transpose()?;
    let sarif = args.sarif.as_deref().map(|given| Output::new("--sarif", given, &inputs)).transpose()?;
    let seen_path = args.seen.as_ref().map(|path| path.display().to_string());
    let seen_output = seen_path.map(|path| Output::new("--seen", &path, &inputs)).transpose()?;
    let outputs = [&json, &page, &junit, &sarif, &seen_output];
    Output::all_differ(&outputs.into_iter().flatten().collect::<Vec<_>>())?;
    let mut seen = args.seen.as_deref().map(Seen::read).transpose()?;
    let notes = strobe_linux::Scratch::new("crash");
    let notes = notes.map_err(|error| Failure::Run(anyhow!("cannot create a temporary folder: {error}")))?;
    if let Some(folder) = strobe_linux::hidden_by(notes.path()) {
        return wrong(format!(
            "TMPDIR is below {folder}, which guests replace by their own: set it to another folder"
        ));
    }
    let mut explorers = Vec::new();
    let mut sets: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for &fs in &args.guest.fs {
        let plain = explorer(args, fs, None, &path, notes.path())?;
        // Report missing kernel features before the first file system takes its time.
        plain.run.check_kernel().map_err(strobe_linux::command::LinuxRunError::from)?;
        for &kind in &args.drives {
            let changes = kind.sets(&plain.run.experiment.drive);
            explorers.push(explorer(args, fs, Some((kind, &changes)), &path, notes.path())?);
            sets.insert(kind.name(), changes);
        }
        if args.drives.is_empty() {
            explorers.push(plain);
        }
    }
    if args.keeps() {
        // An unusable folder must be reported before the exploration, not after.
        kept::check(&args.keep)?;
    }
    let stop = signals::listen_for_long();
    if let Some(count) = args.explore {
        return explore::explore(args, &explorers, count, json.as_ref(), &stop);
    }
    if let Some(count) = args.faults {
        return faults::faults(args, &explorers, count as usize, json.as_ref(), &stop);
    }
    let takes_stdout = output::takes_stdout(outputs);
    let mut reports = Vec::new();
    let mut failed = Vec::new();
    let mut ended = Ok(());
    for explorer in &explorers {
        let report = match cuts::explore(args, explorer, seen.as_mut(), &stop) {
            Ok((report, left)) => {
                ended = left;
                report
            }
            // Reports of other file systems still count.
            Err(failure) if several => {
                failed.push(NotTried::of(explorer, failure)?);
                if stop.is_raised() {
                    break;
                }
                continue;
            }
            Err(failure) => return Err(failure),
        };
        if !args.quiet && !takes_stdout {
            output::print(&report::crash_summary(&report, args.full, args.at.is_some()))?;
        }
        reports.push(report);
    }
    match &reports[..] {
        [report] if !several => output::json(report, json.as_ref())?,
        _ => {
            let all = serde_json::json!({ "reports": reports, "failed": failed });
            output::json(&all, json.as_ref())?;
        }
    }
    if let (Some(page), [report]) = (&page, &reports[..]) {
        let name = format!("Power cuts under {}", report.program.first().map_or("", String::as_str));
        let html = strobe_report::crash_page(&name, &output::json_text(report));
        page.write(html.map_err(|error| Failure::request(&error))?.trim_end())?;
    }
    if let Some(junit) = &junit {
        junit.write(&report::crash_junit(&reports))?;
    }
    if sarif.is_some() {
        output::json(&report::crash_sarif(&reports), sarif.as_ref())?;
    }
    if let (Some(seen), Some(output)) = (&seen, &seen_output) {
        output::json(seen, Some(output))?;
    }
    let bad = reports.iter().find_map(|report| Some((report, report.first_wrong()?)));
    if !args.quiet && !takes_stdout {
        if several {
            let failed: Vec<_> = failed.iter().map(|one| &*one.file_system).collect();
            output::print(&report::crash_table(&reports, &failed))?;
        }
        match (bad, args.at, &args.image) {
            (Some((report, bad)), None, _) => {
                let given = std::env::args_os().skip(2);
                let fs = (args.guest.fs.len() > 1).then_some(&*report.file_system);
                output::print(&again(given, bad.operation, fs, report.drive_kind))?;
                if let Some(kept) = &report.kept {
                    let sets =
                        report.drive_kind.and_then(|kind| sets.get(kind)).map_or(&[][..], Vec::as_slice);
                    output::print(&look_at(args, sets, &kept.image, &report.file_system))?;
                }
            }
            (_, Some(_), Some(image)) if ended.is_ok() => {
                let fs = args.guest.fs.first().map_or("", |fs| fs.name());
                let sets = sets.into_values().next().unwrap_or_default();
                output::print(&look_at(args, &sets, &image.display().to_string(), fs))?;
            }
            _ => {}
        }
    }
    std::io::stdout().flush().ok();
    ended?;
    match (bad, &failed[..]) {
        (Some(_), _) => Err(Failure::Found),
        (None, []) => Ok(()),
        (None, [first, ..]) => Err(first.failure()),
    }
}

#[derive(Debug, Serialize)]
struct NotTried {
    file_system: String,
    reason: String,
}

impl NotTried {
    /// Reports a failed run or request on standard error. Returns any other failure as an error.
    fn of(explorer: &Explorer, failure: Failure) -> Result<Self, Failure> {
        let (Failure::Run(error) | Failure::Request(error)) = failure else { return Err(failure) };
        let mut file_system = explorer.run.file_system.kernel_name().unwrap_or_default().to_owned();
        if let Some(kind) = explorer.drive_kind {
            file_system = format!("{file_system}, {kind}");
        }
        output::note(&format!("strobe: {file_system}: {error:#}"));
        Ok(Self { file_system, reason: format!("{error:#}") })
    }

    fn failure(&self) -> Failure {
        Failure::Request(anyhow!("not tried on {}: {}", self.file_system, self.reason))
    }
}

impl CrashArgs {
    /// Maximum number of cuts.
    fn cuts_max(&self) -> usize {
        let default = if self.budget.is_some() { u32::MAX } else { 100 };
        self.cuts.unwrap_or(default) as usize
    }

    fn keeps(&self) -> bool {
        self.keep != Path::new("none") && self.at.is_none() && self.explore.is_none() && self.faults.is_none()
    }
}

/// `kind` is a kind of drive with the keys that make it.
fn explorer(
    args: &CrashArgs,
    fs: FileSystem,
    kind: Option<(DriveKind, &[String])>,
    kernel: &Path,
    folder: &Path,
) -> Result<Explorer, Failure> {
    let mut guest = args.guest.clone();
    guest.fs = vec![fs];
    if let Some((kind, sets)) = kind {
        guest.sets.extend_from_slice(sets);
        guest.write_through |= kind == DriveKind::WriteThrough;
    }
    if args.explore.is_some() {
        guest.before.push(Program::before().to_owned());
    }
    // `--explore` brings its own programs: the guest's command does nothing.
    let nothing = ["true".to_owned()];
    let command = if args.explore.is_some() { &nothing[..] } else { &args.command };
    let run = guest.linux_run(kernel.to_owned(), GuestRoot::host(), command)?;
    if run.file_system == FileSystem::None {
        let error = anyhow!("--fs none: there is no file system to check; choose one, such as --fs ext4");
        return Err(Failure::Request(error));
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Ok(Explorer {
        run,
        check: match &args.check {
            Some(check) => shell_line("--check", check, &["sh", "-c"])?,
            None => Vec::new(),
        },
        lies: args.lying_flushes || kind.is_some_and(|(kind, _)| kind == DriveKind::Lying),
        drive_kind: kind.map(|(kind, _)| kind.name()),
        twice: args.twice,
        strict_names: args.strict_names,
        added_syncs: AddedSyncs::default(),
        until_first: args.until_first,
        check_limit_ns: args.check_limit * 1_000_000_000,
        workers: args.workers.map_or(cores, |workers| workers as usize),
        folder: folder.to_owned(),
    })
}
