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
mod fio_job;
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

/// The version, and the commit that an optimised program is made from.
const VERSION: &str = env!("STROBE_VERSION");

/// A software SSD: flash chips, FTL and controller, simulated exactly, deterministically and fast.
///
/// Start with `strobe run examples/quickstart.toml`, or replay a block trace of your own:
/// `strobe replay TRACE --format blkparse --drive tlc-nvme-1t`.
#[derive(Parser)]
#[command(name = "strobe", version = VERSION, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run an experiment: a file (TOML), a job file of fio, or a drive and a load in fio's words.
    Run(run::RunArgs),
    /// Replay a block trace on a drive.
    Replay(replay::ReplayArgs),
    /// Write an experiment file with comments, to edit.
    New(new::NewArgs),
    /// Check an experiment file and print the resolved configuration as TOML.
    Check(run::CheckArgs),
    /// Check the image of a drive (`strobe run --image`); exit 0: clean, 1: damaged, 2: no image.
    Fsck(fsck::FsckArgs),
    /// Run a program that uses files (PostMark, a camera, a mail server) for its block trace, or in a directory.
    Files(files::FilesArgs),
    /// Run any program on a file system of a real Linux kernel on the drive, in virtual time.
    #[cfg(target_os = "linux")]
    Linux(linux::LinuxArgs),
    /// Offer the drive as a block device to programs of this machine, over NBD, NVMe/TCP or vhost-user.
    #[cfg(target_os = "linux")]
    Serve(Box<serve::ServeArgs>),
    /// Ask a server for its counters, cut its drive's power, keep snapshots of the drive and go back to them, age it, make
    /// reads fail.
    #[cfg(target_os = "linux")]
    Ctl(control::CtlArgs),
    /// Show what a server's drive does, second by second.
    #[cfg(target_os = "linux")]
    Top(control::TopArgs),
    /// Cut the power under a program on a real file system, again and again, and see what is left.
    #[cfg(target_os = "linux")]
    Crash(Box<crash::CrashArgs>),
    /// Run an experiment for every combination of some keys and several seeds, on all cores, and estimate, compare, draw.
    Sweep(sweep::SweepArgs),
    /// Run points of a sweep: what `strobe sweep` starts.
    #[command(hide = true)]
    SweepWorker,
    Paper(paper::PaperArgs),
    /// Make a page of pictures from results (--json): figures over time, latencies, wear, an X-ray of the drive.
    Report(report::ReportArgs),
    /// Compare two results (--json): configuration, then headline figures; exit 0: equal, 1: different, 2: no results.
    Diff(diff::DiffArgs),
    /// Hold drives against measurements of real ones, or make one from measurements of yours.
    Twin(twin::TwinArgs),
    /// Measure the simulator's own speed beside this machine's memory floor.
    Bench(bench::BenchArgs),
    /// List what there is: presets, policies, mappings, workloads, formats, papers.
    List(list::ListArgs),
    /// Show a preset as TOML, with the sources of its numbers.
    Show(list::ShowArgs),
    /// Print the JSON Schema of a configuration table or of the result, or a page of all its keys.
    Schema(list::SchemaArgs),
    /// Print the completions of a shell.
    Completions(manual::CompletionsArgs),
    /// Print the manual page, or write one for each command.
    Man(manual::ManArgs),
}

impl Command {
    /// True if it hears signals itself, once it has begun: it takes long, and has something to show or to keep.
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

/// Failure of a command.
enum Failure {
    /// The request was wrong: exit 2.
    Request(anyhow::Error),
    /// The run failed: exit 1, or 128 and the number of the signal that has ended it.
    Run(anyhow::Error),
    /// A partial result has been printed: exit 1, or 128 and the number of the signal that has ended the run.
    Partial(String),
    /// A command of the user's ended with this code, which is ours.
    #[cfg(target_os = "linux")]
    Command(u8),
    /// The search or comparison succeeded and its findings are printed: exit 1.
    Found,
}

impl Failure {
    /// A wrong request. The text of `error` already says what its sources say.
    fn request(error: &impl std::error::Error) -> Self {
        Failure::judged(true, error)
    }

    /// A wrong request, or one that went wrong.
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
    let command = Cli::parse().command;
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
    ExitCode::from(signals::exit_code().unwrap_or(code))
}

/// Most characters of one line of a message: it may quote a file that is one long line.
const LINE_CHARS_MAX: usize = 400;

/// Prints a message to standard error. Messages quote what was given, so control characters are
/// made harmless and endless lines cut; that nobody may be there to read it is no reason to panic.
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
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
