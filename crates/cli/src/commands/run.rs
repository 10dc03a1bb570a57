//! `strobe run`, `strobe replay`, `strobe check`.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressBar;
use strobe_cli::output::Output;
use strobe_cli::report;
use strobe_lab::runner::{self, Observer, Progress, SaveAt, SaveState, States};
use strobe_lab::{ConfigError, Experiment, RunError, RunResult, WorkloadConfig, load_drive_table, timeline};
use strobe_nand::EventLog;
use strobe_ssd::StateFile;
use strobe_types::StopFlag;
use strobe_workload::trace;
use toml::{Table, Value};

use super::event_log::EventArgs;
use super::options::{Options, seed};
use super::{Failure, output, progress, signals, sweep};

/// Options shared by `run` and `replay`.
#[derive(Args)]
struct Common {
    /// Override a key: --set drive.ftl.gc.victim=fifo (repeatable; see `strobe schema experiment`)
    #[arg(long = "set", value_name = "KEY.PATH=VALUE")]
    sets: Vec<String>,
    /// Seed of everything random
    #[arg(long, allow_negative_numbers = true, value_parser = seed)]
    seed: Option<u64>,
    /// Write the result as JSON to FILE, or to standard output with "-"
    #[arg(long, value_name = "FILE|-")]
    json: Option<String>,
    /// Write the series over time (run.interval) as CSV to FILE, or to standard output with "-"
    #[arg(long, value_name = "FILE|-")]
    series: Option<String>,
    /// Keep the drive in FILE: made if it is not there, else recovered from it (`strobe fsck` looks into
    /// it). Implies drive.nand.data = "bytes" and drive.ftl.durable_map = true
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Begin with the drive in FILE, saved by --save-state, instead of a new one. Settings that the state
    /// depends on must be equal (drive, timing, seed, preconditioning, and with a warm-up the workload); the
    /// others may differ
    #[arg(long, value_name = "FILE", conflicts_with = "image")]
    from_state: Option<PathBuf>,
    /// Save all of the drive's state to FILE, for many runs from there: see --save-at
    #[arg(long, value_name = "FILE", conflicts_with = "image")]
    save_state: Option<String>,
    /// When --save-state saves: before the measurement begins ("warm-up"), or when all is done ("end"): then runs of any
    /// workload and seed may go on from it [default: warm-up]
    #[arg(long, value_name = "warm-up|end", requires = "save_state")]
    save_at: Option<String>,
    #[command(flatten)]
    events: EventArgs,
    /// No progress bar, no summary
    #[arg(long, short)]
    quiet: bool,
    /// Run the whole-state checker after each phase and at each sample (slow)
    #[arg(long)]
    check: bool,
    /// Leave the simulator's own speed out of the JSON, so that it is the same bytes every time
    #[arg(long)]
    reproducible: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:
  strobe run examples/quickstart.toml
  strobe run examples/steady-state.toml --set drive.nand.blocks_per_plane=1024
  strobe run mine.toml --set drive.ftl.gc.victim=\"age * (1-u) / (1+u)^2\" --json out.json
  strobe run mine.toml --seed 7 --quiet --json - | jq .waf
  strobe run examples/latency-under-load.toml --set run.interval=100ms --series load.csv
  strobe run examples/steady-state.toml --save-state warm.state     # then many: --from-state warm.state
  strobe show preset tlc-nvme-1t > mine-drive.toml      # then: [drive] preset = \"mine-drive.toml\"

Every key: `strobe schema experiment --markdown`. What an experiment comes to: `strobe check FILE`.")]
pub(crate) struct RunArgs {
    /// The experiment file, or "-" for standard input
    #[arg(value_name = "EXPERIMENT.toml")]
    file: PathBuf,
    /// Cut the power during this flash operation (program or erase, counted from the first one of the
    /// drive), recover, verify, go on; repeatable, in ascending order
    #[arg(long = "cut", value_name = "N")]
    cuts: Vec<u64>,
    /// The drive: a preset (`strobe list presets`) or a TOML file with the keys of [drive], as --set drive.preset; keys of
    /// the experiment's [drive] count more
    #[arg(long, value_name = "PRESET|FILE.toml")]
    drive: Option<String>,
    /// An option of other commands, answered with that of this one.
    #[arg(long, hide = true, value_name = "FILE")]
    out: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// The experiment file, or "-" for standard input
    #[arg(value_name = "EXPERIMENT.toml")]
    file: PathBuf,
    /// Override a key, as for `strobe run`
    #[arg(long = "set", value_name = "KEY.PATH=VALUE")]
    sets: Vec<String>,
}

#[derive(Args)]
#[command(after_help = "Examples:
  strobe replay web_0.csv.gz --format msr --drive tlc-nvme-1t --wrap
  strobe replay trace.blkparse --format blkparse --closed-loop --queue-depth 32
  blkparse -i sda -o - | strobe replay - --format blkparse --drive mine-drive.toml
  strobe replay camera.fio --format fio --closed-loop --drive ez-x5-32m --prefill \\
      --set drive.ftl.mapping=fast --json out.json
  strobe replay web_0.csv.gz --format msr --set run.interval=10s --series load.csv")]
pub(crate) struct ReplayArgs {
    /// The trace, plain or gzip, or "-" for standard input; of the per-CPU files of blktrace any one, or NAME of
    /// NAME.blktrace.0
    trace: String,
    /// Its format (`strobe list formats`). Needed, as formats of one shape differ in units and op codes; without it
    /// the error says what the trace looks like
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// A preset (`strobe list presets`), or a TOML file with the keys of [drive] such as `strobe show preset` prints
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "generic-8g")]
    drive: String,
    /// Take offsets beyond the drive modulo its capacity; changes are counted
    #[arg(long, conflicts_with = "clip")]
    wrap: bool,
    /// Cut off what lies beyond the drive; changes are counted
    #[arg(long)]
    clip: bool,
    /// Requests that come later in the trace than their time: refuse them, or issue them at once, counted
    /// [default: refuse]
    #[arg(long, value_name = "refuse|issue")]
    late: Option<String>,
    /// As fast as the drive takes it, instead of at the trace's own times
    #[arg(long)]
    closed_loop: bool,
    /// Requests outstanding, with --closed-loop [default: 1]
    #[arg(long, value_name = "N")]
    queue_depth: Option<u32>,
    /// Replay only this device of the trace, or "all"
    #[arg(long, value_name = "NAME|all")]
    device: Option<String>,
    /// blkparse, blktrace: replay dispatched (D), queued (Q) or completed (C) requests [default: the first of these
    /// that the trace has]
    #[arg(long, value_name = "D|Q|C")]
    action: Option<String>,
    /// Nanoseconds per unit of the trace's times, in place of the format's own
    #[arg(long, value_name = "NS")]
    time_unit_ns: Option<u64>,
    /// Replay the trace N times, one after the other [default: 1]
    #[arg(long, value_name = "N")]
    repeat: Option<u32>,
    /// Write the whole drive once before the trace, so that garbage collection has work
    #[arg(long)]
    prefill: bool,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    if let Some(out) = &args.out {
        return Err(Failure::Request(anyhow::anyhow!(
            "--out {out}: a run writes its result with --json FILE, from which `strobe report FILE --out PAGE.html` makes a page"
        )));
    }
    let mut options = with_options(&args.common);
    if let Some(drive) = &args.drive {
        options.set(format!("drive.preset={}", Value::from(drive.as_str())), format!("--drive {drive}"));
    }
    if !args.cuts.is_empty() {
        let given: Vec<String> = args.cuts.iter().map(|cut| format!("--cut {cut}")).collect();
        options.set(format!("power.cut_at={:?}", args.cuts), given.join(" "));
    }
    let experiment = options.told(Experiment::load(&args.file, options.sets()))?;
    execute(&experiment, &args.file, &args.common)
}

pub(crate) fn check(args: &CheckArgs) -> Result<(), Failure> {
    let experiment = match Experiment::load(&args.file, &args.sets) {
        Err(ConfigError::In { error, .. })
            if matches!(*error, ConfigError::IsSweep) && args.sets.is_empty() =>
        {
            return sweep::check(&args.file);
        }
        experiment => experiment?,
    };
    // The drive itself has its own rules: geometry and reserve arithmetic.
    let mut small = experiment.drive.clone();
    small.nand.data = strobe_ssd::DataMode::None;
    runner::check(&Experiment { drive: small, ..experiment.clone() })?;
    let room = report::room_line(&experiment.drive).map(|room| format!("# {room}\n"));
    let notes: String = experiment.ignored.iter().map(|key| format!("# note: {key}\n")).collect();
    output::print(&format!("{}{notes}{}", room.unwrap_or_default(), experiment.to_toml().trim_end()))
}

pub(crate) fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    let mut workload = Table::new();
    let mut options = with_options(&args.common);
    let mut put = |key: &str, value: Value| {
        // The others have no option of their name.
        if !["kind", "path", "fit", "pacing"].contains(&key) {
            options.key(format!("workload.{key}"), format!("--{} {value}", key.replace('_', "-")));
        }
        workload.insert(key.to_owned(), value);
    };
    put("kind", "trace".into());
    put("path", args.trace.as_str().into());
    put("format", args.format.as_deref().ok_or_else(|| missing_format(&args.trace))?.into());
    // Only what was said, so that an option without effect is noticed.
    if args.wrap || args.clip {
        put("fit", if args.wrap { "wrap" } else { "clip" }.into());
    }
    if args.closed_loop {
        put("pacing", "closed".into());
    }
    let whole = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    for (key, value) in [
        ("queue_depth", args.queue_depth.map(u64::from).map(whole)),
        ("repeat", args.repeat.map(u64::from).map(whole)),
        ("late", args.late.clone().map(Value::String)),
        ("device", args.device.clone().map(Value::String)),
        ("action", args.action.clone().map(Value::String)),
        ("time_unit_ns", args.time_unit_ns.map(whole)),
    ] {
        value.into_iter().for_each(|value| put(key, value));
    }
    let mut table = Table::new();
    table.insert("workload".to_owned(), workload.into());
    table.insert("drive".to_owned(), load_drive_table(&args.drive, "--drive")?.into());
    if args.prefill {
        table.insert("run".to_owned(), Table::from_iter([("prefill".to_owned(), true.into())]).into());
    }
    let experiment = options.told(Experiment::from_table(table, options.sets(), Path::new("")))?;
    execute(&experiment, Path::new(&args.drive), &args.common)
}

/// The error of a replay without --format.
fn missing_format(trace: &str) -> Failure {
    let path = Path::new(trace);
    // What is in a pipe can be read only once.
    let fitting = if path.is_file() { trace::guess(path).unwrap_or_default() } else { Vec::new() };
    let names: Vec<&str> = fitting.iter().map(|format| format.name).collect();
    let looks = match names[..] {
        [] => "`strobe list formats` has the names".to_owned(),
        [name] => format!("{trace} looks like {name}: --format {name}"),
        [ref others @ .., last] => format!("{trace} may be {} or {last}", others.join(", ")),
    };
    Failure::Request(anyhow::anyhow!("--format is missing, the format of the trace: {looks}"))
}

/// `--seed`, `--check` and `--image` stand for keys.
fn with_options(common: &Common) -> Options {
    let mut options = Options::new(&common.sets);
    if let Some(seed) = common.seed {
        options.set(format!("seed={seed}"), format!("--seed {seed}"));
    }
    if common.check {
        options.set("run.check=true".to_owned(), "--check".to_owned());
    }
    if let Some(image) = &common.image {
        for set in ["drive.nand.data=bytes", "drive.ftl.durable_map=true"] {
            options.set(set.to_owned(), format!("--image {}", image.display()));
        }
    }
    options
}

/// Runs `experiment`, which was read from `file`.
fn execute(experiment: &Experiment, file: &Path, common: &Common) -> Result<(), Failure> {
    if let (Some(_), None) = (&common.series, experiment.run.interval) {
        let cure = "--series: the run has no series over time; say how long an interval is, for example with \
                    --set run.interval=100ms";
        return Err(Failure::Request(anyhow::Error::msg(cure)));
    }
    let trace = match &experiment.workload {
        WorkloadConfig::Trace(trace) => Path::new(&trace.path),
        WorkloadConfig::Synthetic(_) | WorkloadConfig::Jobs(_) | WorkloadConfig::Lfs(_) => file,
    };
    let image = common.image.as_deref();
    let folder = file.parent().unwrap_or(Path::new(""));
    let preset = experiment.drive.preset.as_ref().map(|name| folder.join(name));
    let from_state = common.from_state.as_deref();
    let inputs = [Some(file), Some(trace), image, preset.as_deref(), from_state];
    let inputs: Vec<&Path> = inputs.into_iter().flatten().collect();
    let json = output::json_output(&common.json, &inputs)?;
    let series = common.series.as_deref().map(|given| Output::new("--series", given, &inputs)).transpose()?;
    let state = common.save_state.as_deref();
    let state = state.map(|given| Output::new("--save-state", given, &inputs)).transpose()?;
    let events = common.events.outputs(&inputs, experiment.run.timing)?;
    let outputs = [&json, &series, &state, &events.perfetto, &events.lines];
    Output::all_differ(&outputs.into_iter().flatten().collect::<Vec<_>>())?;
    let save_at = save_at(common.save_at.as_deref())?;
    let from = from_state.map(StateFile::open).transpose().map_err(RunError::from)?;
    let show = !common.quiet && std::io::stderr().is_terminal();
    let mut watcher = Watcher {
        stop: StopFlag::default(),
        log: events.log(),
        bar: show.then(ProgressBar::new_spinner),
        phase: "",
    };
    let result = match image {
        Some(image) => runner::run_on_image(experiment, image, &mut watcher).map_err(Failure::from),
        None => run_with_states(experiment, from, state.as_ref().map(|out| (save_at, out)), &mut watcher),
    };
    watcher.clear();
    let result = result?;
    let result = if common.reproducible { result.reproducible() } else { result };
    if !common.quiet && !output::takes_stdout(outputs) {
        output::print(&report::summary(&result))?;
    }
    output::json(&result, json.as_ref())?;
    if let Some(series) = &series {
        series.write(timeline::csv(&result.intervals).trim_end())?;
    }
    events.write(&experiment.drive)?;
    match &result.stopped_by {
        Some(reason) => Err(Failure::Partial(reason.clone())),
        None => Ok(()),
    }
}

/// When a state is to be saved.
fn save_at(given: Option<&str>) -> Result<SaveAt, Failure> {
    let Some(given) = given else { return Ok(SaveAt::default()) };
    SaveAt::ALL.into_iter().find(|at| at.name() == given).ok_or_else(|| {
        let names = SaveAt::ALL.map(SaveAt::name).join("\" or \"");
        Failure::Request(anyhow::anyhow!("--save-at \"{given}\": allowed is \"{names}\""))
    })
}

/// Runs `experiment`, from a state if there is one; a file for the state that it saves appears when that is complete.
fn run_with_states(
    experiment: &Experiment,
    from: Option<StateFile>,
    save: Option<(SaveAt, &Output)>,
    watcher: &mut Watcher,
) -> Result<RunResult, Failure> {
    let Some((at, output)) = save else {
        return Ok(runner::run_with(experiment, States { from, save: None }, watcher)?);
    };
    let sink = output.open()?;
    let out = Stoppable { out: sink.file()?, stop: signals::flag() };
    let mut save = SaveState { at, out: Box::new(out), is_saved: false };
    let run = runner::run_with(experiment, States { from, save: Some(&mut save) }, watcher);
    let result = run.map_err(|error| match error {
        RunError::Save(error) => Failure::Run(anyhow::anyhow!("--save-state {}: {error}", output.name())),
        error => error.into(),
    })?;
    if save.is_saved {
        sink.complete()?
    } else {
        output::note("no state was saved: the run ended before it came to that")
    }
    Ok(result)
}

/// A file that takes no more once somebody has asked to stop: a state can be gigabytes.
struct Stoppable {
    out: File,
    stop: StopFlag,
}

impl Write for Stoppable {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stop.is_raised() { Err(io::Error::other("interrupted")) } else { self.out.write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Shows progress and passes Ctrl-C, TERM and HUP on.
struct Watcher {
    stop: StopFlag,
    log: EventLog,
    bar: Option<ProgressBar>,
    phase: &'static str,
}

impl Watcher {
    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Watcher {
    fn progress(&mut self, progress: Progress) -> ControlFlow<()> {
        if let Some(bar) = &self.bar {
            if self.phase != progress.phase {
                self.phase = progress.phase;
                bar.reset();
                bar.set_message(progress.phase);
                progress::restyle(
                    bar,
                    match progress.total {
                        Some(total) => {
                            bar.set_length(total);
                            "{msg:9} {wide_bar} {percent:>3} %  {rate} pages  {left}"
                        }
                        None => "{msg:9} {spinner} {human_pos} pages  {rate}  {elapsed}",
                    },
                );
            }
            bar.set_position(progress.done);
        }
        if self.stop.is_raised() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn stop_flag(&mut self) -> StopFlag {
        // Before, while the drive is made or loaded, there is nothing to show for it.
        self.stop = signals::listen();
        self.stop.clone()
    }

    fn event_log(&mut self) -> EventLog {
        self.log.clone()
    }
}
