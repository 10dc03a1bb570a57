//! `strobe run`, `strobe check`.

use std::path::{Path, PathBuf};

use clap::Args;
use strobe_cli::report;
use strobe_lab::{ConfigError, Experiment, fio, runner};
use toml::{Table, Value};

use super::execute::{CHECKS, Common, execute, with_options};
use super::load::{self, HEADING as LOAD, LoadArgs};
use super::options::Options;
use super::{Failure, output, sweep};

#[derive(Args)]
#[command(after_help = "Examples:
  strobe run examples/quickstart.toml
  strobe run examples/quickstart.toml --set drive.ftl.gc.victim=\"age * (1-u) / (1+u)^2\" --report out.html
  strobe run --drive generic-8g --rw randwrite --iodepth 32 --runtime 60s --set run.precondition=3x
  strobe run job.fio --drive tlc-client-1t                          # a job file of fio
  strobe run --rw randread --iodepth 64 --print-experiment > mine.toml
  strobe run mine.toml --seed 7 --quiet --json - | jq .waf
  strobe run examples/latency-under-load.toml --set run.interval=100ms --series load.csv
  strobe run examples/steady-state.toml --save-state warm.state     # then many: --from-state warm.state
  strobe show preset tlc-nvme-1t > mine-drive.toml                  # then: --drive mine-drive.toml

Every key: `strobe schema experiment --markdown`. The resolved configuration: `strobe check FILE`.")]
pub(crate) struct RunArgs {
    /// Experiment file (TOML), "-" for standard input, or a fio job file (JOB.fio)
    #[arg(value_name = "EXPERIMENT.toml|JOB.fio", conflicts_with = "rw")]
    file: Option<PathBuf>,
    /// The drive: a preset (`strobe list presets`) or a TOML file with the keys of [drive], as --set
    /// drive.preset. Keys in the experiment's [drive] take precedence
    #[arg(long, value_name = "PRESET|FILE.toml")]
    drive: Option<String>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    load: LoadArgs,
    /// Print the experiment of the options or of the job file as TOML, without running it
    #[arg(long, help_heading = LOAD)]
    print_experiment: bool,
    /// Cut the power during this flash operation, recover, verify, continue. Counts the drive's programs and
    /// erases from the first; repeatable, in ascending order
    #[arg(long = "cut", value_name = "N", help_heading = CHECKS)]
    cuts: Vec<u64>,
    /// Option of other commands, hidden here; the error names this command's option.
    #[arg(long, hide = true, value_name = "FILE")]
    out: Option<String>,
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// Experiment file, or "-" for standard input
    #[arg(value_name = "EXPERIMENT.toml")]
    file: PathBuf,
    /// Override a key, as for `strobe run`
    #[arg(long = "set", value_name = "KEY.PATH=VALUE")]
    sets: Vec<String>,
}

pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    if let Some(out) = &args.out {
        return Err(request(format!(
            "--out {out}: a run writes a page of figures with --report FILE.html; its result is written with --json FILE, from which \
             `strobe report FILE --out PAGE.html` makes the same page"
        )));
    }
    let mut options = with_options(&args.common);
    if !args.cuts.is_empty() {
        let given: Vec<String> = args.cuts.iter().map(|cut| format!("--cut {cut}")).collect();
        options.set(format!("power.cut_at={:?}", args.cuts), given.join(" "));
    }
    let file = args.file.as_deref();
    if let (Some(file), Some(word)) = (file, args.load.first_word()) {
        return Err(request(format!(
            "--{word}: the load is defined in {}; change it there, or with --set",
            file.display()
        )));
    }
    // A job file or options of a load become a table here; an experiment file is loaded below.
    let table = match file {
        Some(file) if file.extension().is_some_and(|kind| kind == "fio") => {
            Some(job_file(file, args.drive.as_deref(), &options)?)
        }
        Some(_) => None,
        None if args.load.is_empty() => return Err(no_experiment()),
        None => Some(name_option(args.load.load(args.drive.as_deref(), &mut options).map_err(request)?)),
    };
    if args.print_experiment {
        let table = table.ok_or_else(|| {
            request(
                "--print-experiment: the experiment is a file already; `strobe check` prints it".to_owned(),
            )
        })?;
        options.name_option(Experiment::from_table(table.clone(), options.sets(), Path::new("")))?;
        return output::print(load::text(&table, "FILE").trim_end());
    }
    let experiment = match (table, file) {
        (Some(table), file) => {
            let read = options.name_option(Experiment::from_table(table, options.sets(), Path::new("")));
            read.map_err(|error| match file {
                Some(file) => request(format!("{}: {error}", file.display())),
                None => error.into(),
            })?
        }
        (None, Some(file)) => {
            // `--drive` replaces the preset only: keys of the experiment's [drive] stay.
            if let Some(drive) = &args.drive {
                options
                    .set(format!("drive.preset={}", Value::from(drive.as_str())), format!("--drive {drive}"));
            }
            options.name_option(Experiment::load(file, options.sets()))?
        }
        (None, None) => return Err(no_experiment()),
    };
    execute(experiment, file.unwrap_or(Path::new("")), &args.common)
}

/// Skipped keys are named on standard error.
fn job_file(file: &Path, drive: Option<&str>, options: &Options) -> Result<Table, Failure> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| request(format!("{name}: {error}")))?;
    let load = load::on_target(drive, options, true, |target| fio::from_job_file(&text, &name, target));
    load.map(name_option).map_err(request)
}

fn name_option(load: fio::Load) -> Table {
    load.notes.iter().for_each(|note| output::note(&format!("note: {note}")));
    load.experiment
}

fn request(message: String) -> Failure {
    Failure::Request(anyhow::Error::msg(message))
}

fn no_experiment() -> Failure {
    let cure = "no experiment given: name a file (strobe run examples/quickstart.toml), or describe a load (strobe \
                run --drive tlc-nvme-1t --rw randwrite --bs 4k --iodepth 32 --runtime 10s)";
    request(cure.to_owned())
}

pub(crate) fn check(args: &CheckArgs) -> Result<(), Failure> {
    let experiment = match Experiment::load(&args.file, &args.sets) {
        Err(ConfigError::In { error, .. }) if matches!(*error, ConfigError::IsSweep) => {
            return sweep::check(&args.file, &args.sets);
        }
        experiment => experiment?,
    };
    // Building the drive checks geometry and reserve; without data it needs little memory.
    let mut small = experiment.drive.clone();
    small.nand.data = strobe_ssd::DataMode::None;
    runner::check(&Experiment { drive: small, ..experiment.clone() })?;
    let capacity = report::capacity_line(&experiment.drive).map(|capacity| format!("# {capacity}\n"));
    let notes: String = experiment.ignored.iter().map(|key| format!("# note: {key}\n")).collect();
    output::print(&format!("{}{notes}{}", capacity.unwrap_or_default(), experiment.to_toml().trim_end()))
}
