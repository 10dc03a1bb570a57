//! Options and execution of `strobe run` and `strobe replay`.

use std::io::IsTerminal as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressBar;
use strobe_cli::output::Output;
use strobe_cli::report::{self, Style};
use strobe_lab::runner::{self, Observer, Progress, SaveAt, SaveState, States};
use strobe_lab::{Experiment, RunError, RunResult, WorkloadConfig, timeline};
use strobe_nand::EventLog;
use strobe_ssd::StateFile;
use strobe_types::StopFlag;

use super::event_log::{EventArgs, Stoppable};
use super::options::{OUTPUT, Options, seed};
use super::progress::Estimate;
use super::{Failure, output, progress, signals};

#[derive(Args)]
pub(super) struct Common {
    /// Override a key: --set drive.ftl.gc.victim=fifo (repeatable; see `strobe schema experiment`)
    #[arg(long = "set", value_name = "KEY.PATH=VALUE")]
    sets: Vec<String>,
    /// Print all numbers: flash operations by cause, histograms, wear, power cuts
    #[arg(long)]
    full: bool,
    /// Write a page of figures to FILE, for any browser. Records 60 X-ray frames (run.xray), unless the
    /// experiment sets another number, and every latency (run.latency_bins)
    #[arg(long, value_name = "FILE.html")]
    report: Option<String>,
    /// Write the result as JSON to FILE, or to standard output with "-"
    #[arg(long, value_name = "FILE|-")]
    json: Option<String>,
    /// Seed of all random decisions
    #[arg(long, allow_negative_numbers = true, value_parser = seed)]
    seed: Option<u64>,
    /// Write the series over time (run.interval) as CSV to FILE, or to standard output with "-"
    #[arg(long, value_name = "FILE|-", help_heading = OUTPUT)]
    series: Option<String>,
    #[command(flatten)]
    events: EventArgs,
    /// No progress bar, no summary
    #[arg(long, short, help_heading = OUTPUT)]
    quiet: bool,
    /// Leave the simulator's speed out of the JSON: equal runs then give identical bytes
    #[arg(long, help_heading = OUTPUT)]
    reproducible: bool,
    /// Keep the drive in FILE: created if missing, else recovered from it (`strobe fsck` checks it). Implies
    /// drive.nand.data = "bytes" and drive.ftl.durable_map = true
    #[arg(long, value_name = "FILE", help_heading = KEPT)]
    image: Option<PathBuf>,
    /// Start with the drive in FILE, saved by --save-state, instead of a new one. Settings that the state
    /// depends on must be equal (drive, timing, seed, preconditioning, and after a warm-up the workload);
    /// others may differ
    #[arg(long, value_name = "FILE", conflicts_with = "image", help_heading = KEPT)]
    from_state: Option<PathBuf>,
    /// Save the full state of the drive to FILE, to start many runs from it: see --save-at
    #[arg(long, value_name = "FILE", conflicts_with = "image", help_heading = KEPT)]
    save_state: Option<String>,
    /// When to save the state: before the measurement ("warm-up"; for a trace, before its warm-up), or after it
    /// ("end"). Runs of any workload
    /// and seed can start from a state of "end" [default: warm-up]
    #[arg(long, value_name = "warm-up|end", requires = "save_state", help_heading = KEPT)]
    save_at: Option<String>,
    /// Run the whole-state checker after each phase and at each sample (slow)
    #[arg(long, help_heading = CHECKS)]
    check: bool,
}

const KEPT: &str = "Images and saved states";
pub(super) const CHECKS: &str = "Power cuts and checks";

const REPORT_FRAMES: u32 = 60;

pub(super) fn with_options(common: &Common) -> Options {
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

pub(super) fn execute(asked: Experiment, file: &Path, common: &Common) -> Result<(), Failure> {
    if let (Some(_), None) = (&common.series, asked.run.interval) {
        let cure = "--series: the run has no series; set an interval, for example --set run.interval=100ms";
        return Err(Failure::Request(anyhow::Error::msg(cure)));
    }
    let mut experiment = asked.clone();
    if common.report.is_some() {
        // Only the page shows these data. `as_configured` removes them from the JSON, which equals that of a
        // run without a page.
        experiment.run.xray.get_or_insert(REPORT_FRAMES);
        experiment.run.latency_bins = true;
    }
    let experiment = &experiment;
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
    // All outputs are checked before the run.
    let json = output::json_output(&common.json, &inputs)?;
    let series = common.series.as_deref().map(|given| Output::new("--series", given, &inputs)).transpose()?;
    let page = common.report.as_deref().map(|given| Output::new("--report", given, &inputs)).transpose()?;
    let state = common.save_state.as_deref();
    let state = state.map(|given| Output::new("--save-state", given, &inputs)).transpose()?;
    let events = common.events.outputs(&inputs, experiment.run.timing)?;
    let outputs = [&json, &page, &series, &state, &events.perfetto, &events.lines];
    Output::all_differ(&outputs.into_iter().flatten().collect::<Vec<_>>())?;
    let save_at = save_at(common.save_at.as_deref())?;
    let from = from_state.map(StateFile::open).transpose().map_err(RunError::from)?;
    let is_terminal = std::io::stderr().is_terminal();
    let mut watcher = Watcher {
        stop: StopFlag::default(),
        log: events.log(),
        bar: (!common.quiet && is_terminal).then(ProgressBar::new_spinner),
        estimate: (!common.quiet && !is_terminal).then(|| Estimate::new(experiment)),
        phase: "",
    };
    let result = match image {
        Some(image) => runner::run_on_image(experiment, image, &mut watcher).map_err(Failure::from),
        None => run_with_states(experiment, from, state.as_ref().map(|out| (save_at, out)), &mut watcher),
    };
    watcher.clear();
    let result = result?;
    let result = if common.reproducible { result.reproducible() } else { result };
    let result = result.with_config(asked);
    if !common.quiet && !output::takes_stdout(outputs) {
        let text = if common.full {
            report::summary(&result)
        } else {
            report::brief(&result, &invocation(), Style::of_stdout())
        };
        output::print(&text)?;
    }
    let for_page = page.as_ref().map(|page| (page, output::json_text(&result)));
    let result = result.as_configured();
    output::json(&result, json.as_ref())?;
    if let Some((page, text)) = for_page {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let run = strobe_report::Run::read(&name, &text);
        page.write(strobe_report::page(&[run.map_err(|error| Failure::request(&error))?]).trim_end())?;
    }
    if let Some(series) = &series {
        series.write(timeline::csv(&result.intervals).trim_end())?;
    }
    events.write(&experiment.drive)?;
    match &result.stopped_by {
        Some(reason) => Err(Failure::Partial(reason.clone())),
        None => Ok(()),
    }
}

/// Command line without output options.
fn invocation() -> String {
    without_outputs(std::env::args().skip(1))
}

const OUTPUTS: [&str; 7] =
    ["--json", "--report", "--series", "--perfetto", "--events", "--save-state", "--save-at"];

fn without_outputs(mut given: impl Iterator<Item = String>) -> String {
    let mut words = vec!["strobe".to_owned()];
    while let Some(word) = given.next() {
        let option = word.split_once('=').map_or(word.as_str(), |(option, _)| option);
        if !OUTPUTS.contains(&option) {
            words.push(quoted(&word));
        } else if option == word {
            // The next word is its value.
            given.next();
        }
    }
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_=./,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn save_at(given: Option<&str>) -> Result<SaveAt, Failure> {
    let Some(given) = given else { return Ok(SaveAt::default()) };
    SaveAt::ALL.into_iter().find(|at| at.name() == given).ok_or_else(|| {
        let names = SaveAt::ALL.map(SaveAt::name).join("\" or \"");
        Failure::Request(anyhow::anyhow!("--save-at \"{given}\": allowed is \"{names}\""))
    })
}

fn run_with_states(
    experiment: &Experiment,
    from: Option<StateFile>,
    save: Option<(SaveAt, &Output)>,
    watcher: &mut Watcher,
) -> Result<RunResult, Failure> {
    let Some((at, output)) = save else {
        return Ok(runner::run_with(experiment, States { from, save: None }, watcher)?);
    };
    // The file of a new state appears under its name only when complete.
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
        output::note("no state was saved: the run ended before that point")
    }
    Ok(result)
}

struct Watcher {
    stop: StopFlag,
    log: EventLog,
    bar: Option<ProgressBar>,
    /// Replaces the bar where standard error is no terminal.
    estimate: Option<Estimate>,
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
                if let Some((_, total)) = progress.extent() {
                    bar.set_length(total);
                }
                let template = match (progress.total, progress.span_ns) {
                    (Some(_), _) => "{msg:9} {wide_bar} {percent:>3} %  {rate} pages  {left}",
                    (None, Some(_)) => "{msg:9} {wide_bar} {percent:>3} % of its virtual time  {left}",
                    (None, None) => "{msg:9} {spinner} {human_pos} pages  {rate}  {elapsed}",
                };
                progress::restyle(bar, template);
            }
            bar.set_position(progress.extent().map_or(progress.done, |(done, _)| done));
        }
        if let Some(note) = self.estimate.as_mut().and_then(|estimate| estimate.note(&progress)) {
            output::note(&note);
        }
        if self.stop.is_raised() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn stop_flag(&mut self) -> StopFlag {
        // Listens only from here: while the drive is built or loaded, an interrupt has no partial result to
        // show.
        self.stop = signals::listen();
        self.stop.clone()
    }

    fn event_log(&mut self) -> EventLog {
        self.log.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::without_outputs;

    #[test]
    fn a_suggested_command_overwrites_no_output() {
        let given =
            "run a.toml --series=s.csv --events e.json --set run.measure=1x --perfetto=p --save-at=end";
        let words = given.split(' ').map(str::to_owned);
        assert_eq!(without_outputs(words), "strobe run a.toml --set run.measure=1x");
    }
}
