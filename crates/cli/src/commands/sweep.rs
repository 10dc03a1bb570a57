//! `strobe sweep`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use strobe_cli::report;
use strobe_lab::points::threads;
use strobe_report::Table;
use strobe_sweep::{Naming, Plan, Summary, Sweep, SweepError, SweepFile};

use super::watcher::Watcher;
use super::{Failure, output, signals};

const HELP: &str = "\
The file is an experiment (strobe run) with one more table:

  [sweep]
  seeds = 5                      each configuration with seeds 1 to 5, or a list: [1, 7]
  measure = [\"waf\", \"write.p99_ns\"]  columns of the result to estimate and draw [\"waf\"]
  [sweep.grid]                   every combination of these values
  \"drive.ftl.over_provisioning\" = [0.07, 0.15, 0.28]
  \"drive.ftl.gc.victim\" = [\"greedy\", \"fifo\"]

Further keys of [sweep]:
  names         names for formulas in the grid, which tables and figures show: names = { mine = \"age * (1-u)\" }
  points        a list of tables of keys that go together, combined with the grid
  seeds_max, until = \"1%\"   as many seeds as the spread of the first (seeds, 8 or more) says that this interval of
                the first measure takes, at most seeds_max
  compare       key to compare along; its first value is the baseline [the last non-numeric key but workload.path]
  x             key that figures go over [the first numeric one]
  pairs         \"all\": compare each value of that key with each [\"first\"]
  confidence    of the intervals [0.95]
  retries       how often a point is tried again whose worker died [2]
  share_warmup  points whose drives are prepared alike share the preparation [true]

Columns are paths in the JSON of a run with dots (gc.copies_per_erase, wear.erase_stddev); latencies have short names:
read.p50_ns, p90, p95, p99, p99_9, p99_99, mean_ns, max_ns, iops, bw_bytes; likewise write, trim, sync.

Output folder: report.html (charts and tables), rows.parquet (a row for each run), summary.csv, an SVG for each
measure, and points.jsonl, from which the same command resumes after Ctrl-C, a crash or a full disk.

Examples:
  strobe sweep examples/sweep.toml
  strobe sweep mine.toml --check           how many points, what is refused
  strobe sweep mine.toml --out /data/mine --workers 16
  strobe sweep mine.toml --set sweep.seeds=1 --set run.measure=1x --out quick
  strobe sweep mine.toml --table latex > mine.tex";

#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct SweepArgs {
    /// Sweep file (TOML): an experiment with a table [sweep]
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Override a key of the experiment or of [sweep], as for `strobe run`; repeatable
    #[arg(long = "set", value_name = "KEY.PATH=VALUE")]
    sets: Vec<String>,
    /// Output folder [default: name of the file plus -sweep, in the current folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Worker processes [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    workers: Option<u16>,
    /// Check the file and count the points, without running them
    #[arg(long)]
    check: bool,
    /// Print the tables as LaTeX (booktabs) or Markdown. Finished runs are not repeated
    #[arg(long, value_name = "FORM", value_enum, conflicts_with_all = ["quiet", "check"])]
    table: Option<TableForm>,
    /// No progress bar, no tables
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum TableForm {
    /// LaTeX, with the rules of the booktabs package
    Latex,
    /// Markdown
    Markdown,
}

impl From<SweepError> for Failure {
    fn from(error: SweepError) -> Self {
        Failure::judged(error.is_bad_request(), &error)
    }
}

impl TableForm {
    pub(crate) fn written(self, plan: &Plan, summary: &Summary) -> String {
        let tables = strobe_sweep::tables(plan, summary, Naming::Words);
        let text = |table: &Table| match self {
            TableForm::Latex => table.latex(),
            TableForm::Markdown => table.markdown(),
        };
        tables.iter().map(text).collect::<Vec<_>>().join("\n")
    }
}

pub(crate) fn sweep(args: &SweepArgs) -> Result<(), Failure> {
    if args.file.is_dir() {
        let folder = args.file.display();
        return Err(Failure::Request(anyhow::anyhow!(
            "{folder} is a folder; a sweep is run from its file (strobe sweep FILE). To show the results in a folder: \
             strobe report {folder} --table latex, or --out PAGE.html"
        )));
    }
    if args.check {
        return check(&args.file, &args.sets);
    }
    let plan = Plan::new(SweepFile::load(&args.file, &args.sets)?)?;
    let folder = args.out.clone().unwrap_or_else(|| folder_of(&args.file));
    let count = args.workers.map_or_else(threads, usize::from).min(plan.points.len());
    let watcher = Watcher::new(args.quiet, "runs");
    let mut sweep = Sweep::new(plan, &folder)?;
    // Workers are processes: one that crashes ends a point, not the sweep.
    let command = || {
        let mut command = std::process::Command::new(strobe_linux::this_program());
        command.arg("sweep-worker");
        command
    };
    let points = sweep.run(count, command, &watcher);
    watcher.end();
    // Ends the progress lines before results are printed.
    drop(watcher);
    let points = points.map_err(|error| match error {
        SweepError::Interrupted => Failure::Run(anyhow::anyhow!(
            "interrupted; finished runs are kept in {}: the same command resumes",
            folder.display()
        )),
        error => error.into(),
    })?;
    let outputs = sweep.write(points)?;
    match args.table {
        Some(form) => output::print(form.written(&sweep.plan, &outputs.summary).trim_end())?,
        None if args.quiet => {}
        None => output::print(report::sweep::summary(&sweep.plan, &outputs).trim_end())?,
    }
    // A sweep with any failed run is no success, but its results are written.
    let (done, failed) = outputs
        .summary
        .configurations
        .iter()
        .fold((0, 0), |(done, failed), found| (done + found.runs.0, failed + found.runs.1));
    match (done, failed) {
        (_, 0) => Ok(()),
        (0, _) => Err(Failure::Run(anyhow::anyhow!("all runs failed; rows.parquet says why"))),
        _ => Err(Failure::Run(anyhow::anyhow!(
            "{failed} of {} runs failed; the column error of rows.parquet says why",
            done + failed
        ))),
    }
}

pub(crate) fn folder_of(file: &Path) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    PathBuf::from(format!("{stem}-sweep"))
}

pub(crate) fn check(file: &Path, sets: &[String]) -> Result<(), Failure> {
    let plan = Plan::new(SweepFile::load(file, sets)?)?;
    output::print(report::sweep::plan(&plan).trim_end())
}

/// Runs points until standard input ends.
pub(crate) fn worker() -> Result<(), Failure> {
    // Ctrl-C reaches this process too, but only the parent handles it. This process ends when its standard
    // input closes.
    let _ = signals::listen();
    strobe_sweep::serve(std::io::stdin().lock(), std::io::stdout().lock())
        .map_err(|error| Failure::Run(anyhow::Error::new(error).context("worker")))
}
