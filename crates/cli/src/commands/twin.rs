//! `strobe twin`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand, ValueEnum};
use schemars::JsonSchema;
use serde::Serialize;
use strobe_cli::output::Output;
use strobe_cli::report;
use strobe_lab::Experiment;
use strobe_lab::points::Watch as _;
use strobe_ssd::DriveConfig;
use strobe_twin::ablation::{self, Ablation};
use strobe_twin::check::{self, Check};
use strobe_twin::fit::{self, Fit, FitError, FitOptions, HeldOut};
use strobe_twin::measurements::{MeasurementError, Measurements};
use strobe_twin::published::{self, PUBLISHED, Published};
use strobe_twin::{Effort, TwinError};
use toml::{Table, Value};

use super::watcher::Watcher;
use super::{Failure, output};

#[derive(Args)]
#[command(after_help = "\
Examples:
  strobe twin check                        bundled presets compared with published measurements
  strobe twin check pm9a3-like --ablate    the same without each of its mechanisms in turn
  strobe twin fit my.csv --out my.toml     a drive fitted to your measurements

How to measure a drive: scripts/measure-drive.py --help. Columns of the CSV file: docs/how-to/twins.md.")]
pub(crate) struct TwinArgs {
    #[command(subcommand)]
    command: TwinCommand,
}

#[derive(Subcommand)]
enum TwinCommand {
    /// Compare drives with measurements of real ones.
    Check(CheckArgs),
    /// Fit a drive to measurements.
    Fit(FitArgs),
}

#[derive(Args)]
struct CheckArgs {
    /// Presets or TOML files [default: all presets with bundled measurements]
    #[arg(value_name = "DRIVE")]
    drives: Vec<String>,
    /// Measurements (CSV) of your own drive; needs exactly one DRIVE
    #[arg(long, value_name = "FILE")]
    measurements: Option<PathBuf>,
    /// Also check without each mechanism in turn, to show the share of the error that each removes
    #[arg(long)]
    ablate: bool,
    /// Measure an eighth of the reads. High percentiles then vary by a few per cent; throughput at full speed
    /// and the write amplification there by up to a tenth
    #[arg(long)]
    quick: bool,
    /// A drive of a few blocks, to try the command
    #[arg(long, hide = true, conflicts_with = "quick")]
    tiny: bool,
    /// Write a CSV file and figures (SVG) for each drive to this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the result as JSON to FILE, or to standard output with "-"
    #[arg(long, value_name = "FILE|-")]
    json: Option<String>,
    /// Seed of all random decisions
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: u64,
    /// No progress bar, no tables
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum HoldOut {
    /// Every third rate
    Third,
    /// The upper half of the rates
    Upper,
    /// None: the quality of predictions is then unknown
    None,
}

#[derive(Args)]
struct FitArgs {
    /// Measurements (CSV): one row for each rate
    #[arg(value_name = "MEASUREMENTS")]
    measurements: PathBuf,
    /// File for the preset (TOML). Finished simulations are stored next to it: a stopped fit resumes
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Drive to start from: its dies, planes, pages and all keys that no measurement determines
    #[arg(long, value_name = "DRIVE", default_value = "pm9a3-like")]
    like: String,
    /// Known setting of your drive, drive.KEY=VALUE; repeatable. The fit does not change it
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Rows to predict instead of fitting to them
    #[arg(long, value_enum, default_value = "third")]
    hold_out: HoldOut,
    /// Rounds of the search
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// A drive of a few blocks, to try the command
    #[arg(long, hide = true)]
    tiny: bool,
    /// Write the result as JSON to FILE, or to standard output with "-"
    #[arg(long, value_name = "FILE|-")]
    json: Option<String>,
    /// Seed of all random decisions
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: u64,
    /// No progress bar, no tables
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn twin(args: &TwinArgs) -> Result<(), Failure> {
    match &args.command {
        TwinCommand::Check(args) => check(args),
        TwinCommand::Fit(args) => fit(args),
    }
}

/// Within a version fields are only added.
const SCHEMA_VERSION: u32 = 1;

/// Output of `--json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Printed<T> {
    /// Version of this layout. Within a version fields are only added.
    schema_version: u32,
    /// Version of the program.
    strobe_version: &'static str,
    /// Seed of all random decisions.
    seed: u64,
    /// The result.
    #[serde(flatten)]
    result: T,
}

impl<T> Printed<T> {
    fn new(seed: u64, result: T) -> Self {
        Self { schema_version: SCHEMA_VERSION, strobe_version: env!("CARGO_PKG_VERSION"), seed, result }
    }
}

/// Result of `strobe twin check`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Drives {
    /// Results, one per drive.
    drives: Vec<Checked>,
}

/// A drive compared with its measurements.
#[derive(Serialize, JsonSchema)]
struct Checked {
    /// Preset or file of the drive.
    drive: String,
    /// Name of the measured drive.
    title: String,
    /// Remark on the drive.
    remark: &'static str,
    /// Simulated and measured values.
    check: Check,
    /// Checks without each mechanism, if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ablations: Vec<Ablation>,
}

struct Pair {
    name: String,
    title: String,
    remark: &'static str,
    config: DriveConfig,
    measurements: Measurements,
}

fn check(args: &CheckArgs) -> Result<(), Failure> {
    let drives = args.drives.iter().map(Path::new);
    let inputs: Vec<&Path> = args.measurements.iter().map(PathBuf::as_path).chain(drives).collect();
    let json = output::json_output(&args.json, &inputs)?;
    let pairs = pairs(args)?;
    if let Some(folder) = &args.out {
        let made = std::fs::create_dir_all(folder);
        made.with_context(|| format!("--out {}", folder.display())).map_err(Failure::Request)?;
        // Unwritable files are reported before hours of work, not after.
        let names = pairs.iter().flat_map(|pair| ["", "-without"].map(|of| format!("{}{of}.csv", pair.name)));
        let tables = names.map(|name| place(&folder.join(name), &inputs)).collect::<Result<Vec<_>, _>>()?;
        Output::all_differ(&tables.iter().chain(&json).collect::<Vec<_>>())?;
    }
    let effort = effort(args.tiny, args.quick);
    let watcher = Watcher::new(args.quiet, "loads");
    let mut all = Vec::new();
    for Pair { name, title, remark, config, measurements } in pairs {
        watcher.stage(&name);
        let check = check::check(&config, &measurements, effort, args.seed, &watcher).map_err(failure)?;
        let ablations = if args.ablate {
            ablation::ablate(&config, &measurements, effort, args.seed, &watcher).map_err(failure)?
        } else {
            Vec::new()
        };
        watcher.end();
        if let Some(folder) = &args.out {
            write(&folder.join(format!("{name}.csv")), report::twin::csv(&check).trim_end(), &inputs)?;
            for (of, svg) in report::twin::pictures(&title, &check) {
                write(&folder.join(format!("{name}-{of}.svg")), svg.trim_end(), &inputs)?;
            }
            if args.ablate {
                let csv = report::twin::ablations_csv(&check, &ablations);
                write(&folder.join(format!("{name}-without.csv")), csv.trim_end(), &inputs)?;
                if let Some(svg) = report::twin::ablations_picture(&title, &check, &ablations) {
                    write(&folder.join(format!("{name}-without.svg")), svg.trim_end(), &inputs)?;
                }
            }
        }
        if !args.quiet && !output::takes_stdout([&json]) {
            let text = report::twin::check(&name, &title, remark, &check, &ablations);
            output::print(&report::trimmed(&text))?;
            if let Some(text) = other_size(&name, &config, &measurements) {
                output::note(&text);
            }
        }
        all.push(Checked { drive: name, title, remark, check, ablations });
    }
    output::json(&Printed::new(args.seed, Drives { drives: all }), json.as_ref())
}

/// Note if the capacities differ by more than 2 %.
fn other_size(name: &str, config: &DriveConfig, measurements: &Measurements) -> Option<String> {
    let (ours, measured) = (config.logical_bytes() as f64, measurements.capacity_bytes as f64);
    let is_other = (ours / measured - 1.0).abs() > 0.02;
    is_other.then(|| {
        format!(
            "{name} has {:.3} GB, but the measured drive (capacity_bytes) has {:.3} GB: is it the right drive?",
            ours / 1e9,
            measured / 1e9
        )
    })
}

fn pairs(args: &CheckArgs) -> Result<Vec<Pair>, Failure> {
    let config = |name: &str| drive(name, "DRIVE", &[]);
    if let Some(path) = &args.measurements {
        let [name] = &args.drives[..] else {
            let what = "--measurements needs exactly one DRIVE to compare with";
            return Err(Failure::Request(anyhow::anyhow!(what)));
        };
        let (config, measurements) = (config(name)?, Measurements::read(path).map_err(bad_measurements)?);
        let stem =
            Path::new(name).file_stem().map_or(name.clone(), |stem| stem.to_string_lossy().into_owned());
        return Ok(vec![Pair {
            name: stem,
            title: path.display().to_string(),
            remark: "",
            config,
            measurements,
        }]);
    }
    // Without names: all presets with bundled measurements.
    let published: Vec<&Published> = match &args.drives[..] {
        [] => PUBLISHED.iter().collect(),
        names => names.iter().map(|name| find(name)).collect::<Result<_, _>>()?,
    };
    let pair = |drive: &&Published| {
        Ok(Pair {
            name: drive.preset.to_owned(),
            title: drive.title.to_owned(),
            remark: drive.remark,
            config: config(drive.preset)?,
            measurements: drive.measurements().map_err(bad_measurements)?,
        })
    };
    published.iter().map(pair).collect()
}

fn find(name: &str) -> Result<&'static Published, Failure> {
    published::find(name).ok_or_else(|| {
        let names: Vec<&str> = PUBLISHED.iter().map(|drive| drive.preset).collect();
        let hint = strobe_ssd::schema::nearest(name, names.iter().copied());
        let hint = hint.map(|name| format!(", did you mean {name}?")).unwrap_or_default();
        Failure::Request(anyhow::anyhow!(
            "no bundled measurements of \"{name}\"{hint}; known are {}; for a drive of your own give --measurements",
            names.join(", ")
        ))
    })
}

fn drive(name: &str, option: &str, sets: &[String]) -> Result<DriveConfig, Failure> {
    let preset = Table::from_iter([("preset".to_owned(), Value::String(name.to_owned()))]);
    let table = Table::from_iter([("drive".to_owned(), Value::Table(preset))]);
    if let Some(set) = sets.iter().find(|set| !set.starts_with("drive.")) {
        return Err(Failure::Request(anyhow::anyhow!(
            "--set {set}: only keys of the drive, drive.KEY=VALUE"
        )));
    }
    strobe_lab::load_drive_table(name, option)?;
    Ok(Experiment::from_table(table, sets, Path::new(""))?.drive)
}

fn fit(args: &FitArgs) -> Result<(), Failure> {
    let kept = with_suffix(&args.out, ".progress");
    let inputs: [&Path; 3] = [&args.measurements, Path::new(&args.like), &kept];
    let json = output::json_output(&args.json, &inputs)?;
    let out = Output::new("--out", &args.out.display().to_string(), &inputs)?;
    Output::all_differ(&[&[&out][..], &json.iter().collect::<Vec<_>>()].concat())?;
    if out.is_regular() {
        refuse_other(&args.out, &kept)?;
    }
    let measurements = Measurements::read(&args.measurements).map_err(bad_measurements)?;
    let mut base = drive(&args.like, "--like", &args.set)?;
    // The measurements fix the capacity: --set may give blocks or over-provisioning, not both.
    let kept_keys: Vec<String> = args.set.iter().flat_map(|set| keys_of(set)).collect();
    let is_kept = |key: &str| kept_keys.iter().any(|kept| kept == key);
    if is_kept("ftl.logical_pages") {
        let what =
            "--set drive.ftl.logical_pages: the capacity of the drive is capacity_bytes of the measurements";
        return Err(Failure::Request(anyhow::anyhow!(what)));
    }
    if is_kept("nand.blocks_per_plane") && is_kept("ftl.over_provisioning") {
        let what = "--set drive.nand.blocks_per_plane and drive.ftl.over_provisioning: with capacity_bytes of the \
                    measurements one determines the other; give one of them";
        return Err(Failure::Request(anyhow::anyhow!(what)));
    }
    fit::resize(&mut base, &measurements, &kept_keys);
    let effort = |usual| if args.tiny { Effort::Tiny } else { usual };
    let options = FitOptions {
        base,
        kept: kept_keys,
        held_out: match args.hold_out {
            HoldOut::Third => HeldOut::Third,
            HoldOut::Upper => HeldOut::Upper,
            HoldOut::None => HeldOut::None,
        },
        rounds: args.rounds,
        effort: effort(Effort::Quick),
        effort_at_end: effort(Effort::Full),
        seed: args.seed,
        // A pipe has no neighbouring file for the progress.
        memory: out.is_regular().then(|| kept.clone()),
    };
    let watcher = Watcher::new(args.quiet, "loads");
    watcher.stage("fit");
    let fit = fit::fit(&measurements, &options, &watcher);
    watcher.end();
    let fit: Fit = fit.map_err(|error| no_fit(error, args, &measurements))?;
    let source =
        args.measurements.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    out.write(fit::preset(&fit, &source).trim_end())?;
    if !args.quiet && !out.is_stdout() && !output::takes_stdout([&json]) {
        output::print(&report::trimmed(&report::twin::fit(&fit)))?;
        output::note(&format!(
            "Run it: strobe run EXPERIMENT --set drive.preset={}. The finished simulations are in {}, which can be \
             removed.",
            args.out.display(),
            kept.display()
        ));
    }
    output::json(&Printed::new(args.seed, fit), json.as_ref())
}

/// Keys without "drive."; a table gives each key in it.
fn keys_of(set: &str) -> Vec<String> {
    fn leaves(path: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Table(table) => {
                table.iter().for_each(|(key, value)| leaves(&format!("{path}.{key}"), value, found));
            }
            _ => found.push(path.to_owned()),
        }
    }
    let Some((path, text)) = set.split_once('=') else { return Vec::new() };
    let path = path.split('.').map(str::trim).collect::<Vec<_>>().join(".");
    let Some(path) = path.strip_prefix("drive.") else { return Vec::new() };
    let value = format!("v = {text}").parse::<Table>().ok().and_then(|mut parsed| parsed.remove("v"));
    let mut found = Vec::new();
    leaves(path, &value.unwrap_or(Value::Boolean(true)), &mut found);
    found
}

fn with_suffix(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Accepts a file that a fit wrote if its stored simulations still exist. If they belong to another fit, the
/// fit itself refuses.
fn refuse_other(out: &Path, kept: &Path) -> Result<(), Failure> {
    match std::fs::read(out) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::Request(anyhow::anyhow!("--out {}: {error}", out.display()))),
        Ok(text) if fit::is_preset(&String::from_utf8_lossy(&text)) && kept.exists() => return Ok(()),
        Ok(_) => {}
    }
    Err(Failure::Request(anyhow::anyhow!(
        "--out {} exists and was not written by this fit, or was changed since: name another file, or remove it first",
        out.display()
    )))
}

fn no_fit(error: FitError, args: &FitArgs, measurements: &Measurements) -> Failure {
    match error {
        FitError::Twin(TwinError::Interrupted) if with_suffix(&args.out, ".progress").exists() => {
            Failure::Run(anyhow::anyhow!("interrupted; the same command resumes the fit"))
        }
        // The user did not write this drive: the message tells where it comes from.
        FitError::Twin(TwinError::Build(error)) => Failure::Request(anyhow::anyhow!(
            "a drive like {} with {} bytes (capacity_bytes) cannot be built: {error}; choose another with --like, or \
             change it with --set",
            args.like,
            measurements.capacity_bytes
        )),
        FitError::Twin(error) => failure(error),
        FitError::TooFew { .. } => {
            Failure::Request(anyhow::anyhow!("{}: {error}", args.measurements.display()))
        }
        FitError::Memory(ref memory) => Failure::judged(memory.is_bad_request(), &error),
        error => Failure::request(&error),
    }
}

fn effort(is_tiny: bool, is_quick: bool) -> Effort {
    match (is_tiny, is_quick) {
        (true, _) => Effort::Tiny,
        (_, true) => Effort::Quick,
        _ => Effort::Full,
    }
}

/// Fails if `path` is one of `inputs`.
fn place(path: &Path, inputs: &[&Path]) -> Result<Output, Failure> {
    Ok(Output::new("--out", &path.display().to_string(), inputs)?)
}

fn write(path: &Path, text: &str, inputs: &[&Path]) -> Result<(), Failure> {
    Ok(place(path, inputs)?.write(text)?)
}

fn bad_measurements(error: MeasurementError) -> Failure {
    Failure::request(&error)
}

fn failure(error: TwinError) -> Failure {
    match error {
        TwinError::Interrupted => Failure::Run(anyhow::anyhow!("interrupted")),
        TwinError::Run(error) => error.into(),
        TwinError::Build(error) => Failure::request(&error),
        error => Failure::judged(false, &error),
    }
}
