//! `strobe run`, `strobe check`.

use std::path::{Path, PathBuf};

use clap::Args;
use strobe_cli::report;
use strobe_lab::{ConfigError, Experiment, runner};
use toml::{Table, Value};

use super::execute::{CHECKS, Common, execute, with_options};
use super::load::{self, HEADING as LOAD, LoadArgs};
use super::{Failure, fio_job, output, sweep};

#[derive(Args)]
#[command(after_help = "Examples:
  strobe run examples/quickstart.toml
  strobe run examples/quickstart.toml --set drive.ftl.gc.victim=\"age * (1-u) / (1+u)^2\" --report out.html
  strobe run --drive tlc-nvme-1t --rw randwrite --bs 4k --iodepth 32 --runtime 10s
  strobe run job.fio --drive tlc-client-1t                          # a job file of fio
  strobe run --rw randread --iodepth 64 --print-experiment > mine.toml
  strobe run mine.toml --seed 7 --quiet --json - | jq .waf
  strobe run examples/latency-under-load.toml --set run.interval=100ms --series load.csv
  strobe run examples/steady-state.toml --save-state warm.state     # then many: --from-state warm.state
  strobe show preset tlc-nvme-1t > mine-drive.toml                  # then: --drive mine-drive.toml

Every key: `strobe schema experiment --markdown`. What an experiment comes to: `strobe check FILE`.")]
pub(crate) struct RunArgs {
    /// The experiment (TOML), or "-" for standard input; or a job file of fio (JOB.fio)
    #[arg(value_name = "EXPERIMENT.toml|JOB.fio", conflicts_with = "rw")]
    file: Option<PathBuf>,
    /// The drive: a preset (`strobe list presets`) or a TOML file with the keys of [drive], as --set drive.preset; keys of
    /// the experiment's [drive] count more
    #[arg(long, value_name = "PRESET|FILE.toml")]
    drive: Option<String>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    load: LoadArgs,
    /// Print the experiment of the options or of the job file as TOML, and do not run it
    #[arg(long, help_heading = LOAD)]
    print_experiment: bool,
    /// Cut the power during this flash operation (program or erase, counted from the first one of the
    /// drive), recover, verify, go on; repeatable, in ascending order
    #[arg(long = "cut", value_name = "N", help_heading = CHECKS)]
    cuts: Vec<u64>,
    /// An option of other commands, answered with that of this one.
    #[arg(long, hide = true, value_name = "FILE")]
    out: Option<String>,
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
    let table = match file {
        Some(file) if fio_job::is_job_file(file) => Some(job_file(file, args.drive.as_deref())?),
        Some(_) => None,
        None => Some(args.load.experiment(args.drive.as_deref(), &mut options).ok_or_else(no_experiment)?),
    };
    if args.print_experiment {
        let table = table.ok_or_else(|| {
            request(
                "--print-experiment: the experiment is a file already; `strobe check` prints it".to_owned(),
            )
        })?;
        options.told(Experiment::from_table(table.clone(), options.sets(), Path::new("")))?;
        return output::print(load::text(&table, "FILE").trim_end());
    }
    let experiment = match (table, file) {
        (Some(table), file) => {
            let read = options.told(Experiment::from_table(table, options.sets(), Path::new("")));
            read.map_err(|error| match file {
                Some(file) => request(format!("{}: {error}", file.display())),
                None => error.into(),
            })?
        }
        (None, Some(file)) => {
            if let Some(drive) = &args.drive {
                options
                    .set(format!("drive.preset={}", Value::from(drive.as_str())), format!("--drive {drive}"));
            }
            options.told(Experiment::load(file, options.sets()))?
        }
        (None, None) => return Err(no_experiment()),
    };
    execute(experiment, file.unwrap_or(Path::new("")), &args.common)
}

/// The experiment of the job file `file` of fio. Keys that are left out are named on standard error.
fn job_file(file: &Path, drive: Option<&str>) -> Result<Table, Failure> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| request(format!("{name}: {error}")))?;
    let job = fio_job::read(&text, &name, drive).map_err(request)?;
    job.notes.iter().for_each(|note| output::note(&format!("note: {note}")));
    Ok(job.experiment)
}

fn request(message: String) -> Failure {
    Failure::Request(anyhow::Error::msg(message))
}

fn no_experiment() -> Failure {
    let cure = "nothing says what to run: name an experiment (strobe run examples/quickstart.toml), or describe the load \
                (strobe run --drive tlc-nvme-1t --rw randwrite --bs 4k --iodepth 32 --runtime 10s)";
    request(cure.to_owned())
}

pub(crate) fn check(args: &CheckArgs) -> Result<(), Failure> {
    let experiment = match Experiment::load(&args.file, &args.sets) {
        Err(ConfigError::In { error, .. }) if matches!(*error, ConfigError::IsSweep) => {
            return sweep::check(&args.file, &args.sets);
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
