//! Command line: arguments, dispatch, exit codes.

mod bench;
#[cfg(target_os = "linux")]
mod control;
#[cfg(target_os = "linux")]
mod crash;
mod diff;
mod event_log;
mod execute;
mod files;
mod fsck;
mod lines;
#[cfg(target_os = "linux")]
mod linux;
mod list;
mod load;
mod manual;
mod new;
mod options;
mod output;
mod paper;
mod progress;
mod replay;
mod report;
mod run;
#[cfg(target_os = "linux")]
mod serve;
mod signals;
mod sweep;
mod twin;
mod watcher;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

const VERSION: &str = env!("STROBE_VERSION");

/// A software SSD: flash chips, FTL and controller, simulated exactly, deterministically and fast.
///
/// Start with `strobe run examples/quickstart.toml`, or replay a block trace:
/// `strobe replay TRACE --format blkparse --drive tlc-nvme-1t`.
#[derive(Parser)]
#[command(name = "strobe", version = VERSION, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run an experiment: an experiment file (TOML), a fio job file, or a drive and a load in fio's words.
    Run(run::RunArgs),
    /// Replay a block trace on a drive.
    Replay(replay::ReplayArgs),
    /// Write a commented experiment file to edit.
    New(new::NewArgs),
    /// Check an experiment file and print the resolved configuration as TOML.
    Check(run::CheckArgs),
    /// Check the image of a drive (`strobe run --image`); exit code 0: clean, 1: damaged, 2: no image.
    Fsck(fsck::FsckArgs),
    /// Run a file workload (PostMark, a camera, a mail server): record its block trace, or run it in a
    /// directory.
    Files(files::FilesArgs),
    /// Run any program on a real Linux kernel with a file system on the drive, in virtual time.
    #[cfg(target_os = "linux")]
    Linux(Box<linux::LinuxArgs>),
    /// Serve the drive as a block device to programs of this machine, over NBD, NVMe/TCP or vhost-user.
    #[cfg(target_os = "linux")]
    Serve(Box<serve::ServeArgs>),
    /// Control a server: print counters, cut power, take and restore snapshots, age the drive, make reads
    /// fail.
    #[cfg(target_os = "linux")]
    Ctl(control::CtlArgs),
    /// Show the activity of a server's drive, second by second.
    #[cfg(target_os = "linux")]
    Top(control::TopArgs),
    /// Cut the power many times while a program runs on a real file system, and check the data after each
    /// cut.
    #[cfg(target_os = "linux")]
    Crash(Box<crash::CrashArgs>),
    /// Run an experiment for all combinations of some keys and several seeds, on all cores; estimate,
    /// compare, draw.
    Sweep(sweep::SweepArgs),
    /// Run points of a sweep; started by `strobe sweep`.
    #[command(hide = true)]
    SweepWorker,
    Paper(paper::PaperArgs),
    /// Make a page of figures from results (--json): figures over time, latencies, wear, an X-ray of the
    /// drive.
    Report(report::ReportArgs),
    /// Compare two results (--json): configuration, then headline figures; exit code 0: equal, 1: different,
    /// 2: no results.
    Diff(diff::DiffArgs),
    /// Compare drives with measurements of real ones, or fit a drive to measurements.
    Twin(twin::TwinArgs),
    /// Measure the speed of the simulator, compared with the memory floor of this machine.
    Bench(bench::BenchArgs),
    /// List presets, policies, placements, mappings, workloads, trace formats or papers.
    List(list::ListArgs),
    /// Show a preset as TOML, with the sources of its numbers.
    Show(list::ShowArgs),
    /// Print the JSON Schema of a configuration table or of a result, or a page of all its keys.
    Schema(list::SchemaArgs),
    /// Print shell completions.
    Completions(manual::CompletionsArgs),
    /// Print the manual page, or write one per command.
    Man(manual::ManArgs),
}

impl Command {
    /// True if the command handles signals itself, to end in order or with a partial result.
    fn listens(&self) -> bool {
        match self {
            Command::Run(_) | Command::Replay(_) | Command::Paper(_) | Command::Twin(_) => true,
            Command::Sweep(_) | Command::SweepWorker => true,
            #[cfg(target_os = "linux")]
            Command::Linux(_) | Command::Crash(_) | Command::Serve(_) => true,
            _ => false,
        }
    }
}

enum Failure {
    /// Wrong request: exit code 2.
    Request(anyhow::Error),
    /// Failed run: exit code 1, or 128 plus the signal number.
    Run(anyhow::Error),
    /// The partial result is printed: exit code 1, or 128 plus the signal number.
    Partial(String),
    /// The exit code of the user's command becomes the exit code of this program.
    #[cfg(target_os = "linux")]
    Command(u8),
    /// Findings are printed: exit code 1.
    Found,
}

impl Failure {
    /// The text of `error` already includes its sources.
    fn request(error: &impl std::error::Error) -> Self {
        Failure::judged(true, error)
    }

    fn judged(is_bad_request: bool, error: &impl std::error::Error) -> Self {
        let error = anyhow::Error::msg(error.to_string());
        if is_bad_request { Failure::Request(error) } else { Failure::Run(error) }
    }
}

impl From<strobe_lab::ConfigError> for Failure {
    fn from(error: strobe_lab::ConfigError) -> Self {
        Failure::request(&error)
    }
}

impl From<strobe_lab::RunError> for Failure {
    fn from(error: strobe_lab::RunError) -> Self {
        Failure::judged(error.is_bad_request(), &error)
    }
}

pub(crate) fn main() -> ExitCode {
    signals::survive_file_limit();
    let command = Cli::parse().command;
    // The other commands register handlers when they run, some of them for a partial result.
    if !command.listens() {
        signals::end_at_once();
    }
    let result = match command {
        Command::Run(args) => run::run(&args),
        Command::Replay(args) => replay::replay(&args),
        Command::New(args) => new::new(&args),
        Command::Check(args) => run::check(&args),
        Command::Fsck(args) => fsck::fsck(&args),
        Command::Files(args) => files::files(&args),
        #[cfg(target_os = "linux")]
        Command::Linux(args) => linux::linux(&args),
        #[cfg(target_os = "linux")]
        Command::Serve(args) => serve::serve(&args),
        #[cfg(target_os = "linux")]
        Command::Ctl(args) => control::ctl(&args),
        #[cfg(target_os = "linux")]
        Command::Top(args) => control::top(&args),
        #[cfg(target_os = "linux")]
        Command::Crash(args) => crash::crash(&args),
        Command::Sweep(args) => sweep::sweep(&args),
        Command::SweepWorker => sweep::worker(),
        Command::Paper(args) => paper::paper(&args),
        Command::Report(args) => report::report(&args),
        Command::Diff(args) => diff::diff(&args),
        Command::Twin(args) => twin::twin(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::List(args) => list::list(&args),
        Command::Show(args) => list::show(&args),
        Command::Schema(args) => list::schema(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args),
    };
    let (message, code) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Request(error)) => (format!("{error:#}"), 2),
        Err(Failure::Run(error)) => (format!("{error:#}"), 1),
        #[cfg(target_os = "linux")]
        Err(Failure::Command(code)) => (format!("the command ended with exit code {code}"), code),
        Err(Failure::Found) => return ExitCode::from(1),
        Err(Failure::Partial(reason)) => (format!("the result is partial: {reason}"), 1),
    };
    complain(&message);
    // After a signal the exit code names it, whatever the failure was.
    ExitCode::from(signals::exit_code().unwrap_or(code))
}

/// Maximum characters of a line; a message may quote a file with one long line.
const LINE_CHARS_MAX: usize = 400;

/// Prints an error message. Messages quote user input, so control characters are replaced and long lines cut.
fn complain(message: &str) {
    let mut text = String::from("strobe: ");
    for (at, line) in message.lines().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        let shown = line.chars().take(LINE_CHARS_MAX);
        text.extend(shown.map(|c| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c }));
        if line.chars().nth(LINE_CHARS_MAX).is_some() {
            text.push_str("...");
        }
    }
    text.push('\n');
    // A closed standard error is ignored.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
