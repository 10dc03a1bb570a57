//! `strobe report`: figures from results.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use strobe_cli::output::Output;
use strobe_lab::load_table;
use strobe_report::{Chart, Picture, Run};
use strobe_sweep::{Plan, Summary, SweepFile, has_store, open_store};

use super::sweep::{self, TableForm};
use super::{Failure, output};

/// Maximum size of a result; most have a few megabytes.
const BYTES_MAX: u64 = 1 << 28;
const RESULTS_MAX: usize = 1000;

#[derive(Args)]
#[command(after_help = "Examples:
  strobe run examples/quickstart.toml --set run.xray=60 --json out.json
  strobe report out.json --out report.html            then open it in any browser, without a network
  strobe report greedy.json fifo.json --out both.html        runs side by side, named as their files
  strobe report out.json --pdf figures --width-mm 85  each figure as a PDF file, as wide as a column, for LaTeX
  strobe report out.json --svg figures                the same as SVG files
  strobe report sweep-sweep --out sweep.html          means with intervals, differences of the sweep in a folder
  strobe report sweep-sweep --table latex > sweep.tex the same as tables for a paper

A page shows what the result contains. These options add to it:
  --set run.xray=60              the X-ray: every block of the drive, in 60 frames
  --set run.interval=100ms       rates, latencies, dies and queues over time
  --set run.latency_bins=true    every latency, not only percentiles
  strobe linux --interval 1s     a guest over time: its drive, its memory, the commits of its file system")]
pub(crate) struct ReportArgs {
    /// Results of strobe run, strobe replay or strobe linux (--json), or "-" for standard input; several are
    /// compared. Or one sweep, finished or not: its folder or its file (TOML)
    #[arg(value_name = "RESULT.json|FOLDER|SWEEP.toml", required = true)]
    results: Vec<String>,
    /// Folder of the sweep [default: name of its file plus -sweep, in the current folder]
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Write the page to FILE: one self-contained HTML file
    #[arg(long, value_name = "FILE|-", required_unless_present_any = ["svg", "pdf", "table"])]
    out: Option<String>,
    /// Write each figure as an SVG file to DIR, created if missing
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Write each figure as a PDF file to DIR, created if missing; the font is embedded
    #[arg(long, value_name = "DIR")]
    pdf: Option<PathBuf>,
    /// Print the tables of a sweep as LaTeX (booktabs) or Markdown
    #[arg(long, value_name = "FORM", value_enum)]
    table: Option<TableForm>,
    /// Width of printed figures in mm, 20 to 500; most journals have columns of 85 [default: 116 as PDF, none
    /// as SVG]
    #[arg(long, value_name = "MM", value_parser = width)]
    width_mm: Option<f64>,
    /// Draw figures of --svg and --pdf in greys; dashes distinguish the lines
    #[arg(long)]
    grey: bool,
    /// TrueType font of the text in PDF files [default: DejaVu Sans Condensed]
    #[arg(long, value_name = "FILE.ttf", requires = "pdf")]
    font: Option<PathBuf>,
}

fn width(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(width) if (20.0..=500.0).contains(&width) => Ok(width),
        _ => Err("a width from 20 to 500 mm".to_owned()),
    }
}

pub(crate) fn report(args: &ReportArgs) -> Result<(), Failure> {
    let inputs: Vec<&Path> = args.results.iter().map(Path::new).collect();
    let page = args.out.as_deref().map(|given| Output::new("--out", given, &inputs)).transpose()?;
    let is_sweep = |name: &&String| {
        let path = Path::new(name);
        path.extension().is_some_and(|kind| kind == "toml") || path.is_dir()
    };
    let (html, pictures, tables) = match args.results.iter().find(is_sweep) {
        Some(file) if args.results.len() == 1 => of_sweep(Path::new(file), args)?,
        Some(file) => {
            return Err(request(format!("{file} is a sweep: a page shows one sweep and nothing else")));
        }
        None if args.from.is_some() => {
            let cure = "--from is the folder of a sweep: name the sweep's file too (strobe report mine.toml --from DIR)";
            return Err(request(cure.to_owned()));
        }
        None if args.table.is_some() => {
            let cure = "--table needs a sweep; name its folder (strobe report FOLDER --table latex), or for runs \
                        write a page (--out PAGE.html)";
            return Err(request(cure.to_owned()));
        }
        None => of_runs(args)?,
    };
    if args.table.is_some() && args.out.as_deref() == Some("-") {
        return Err(request(
            "--table and --out - both write to standard output; name a file (--out PAGE.html)".into(),
        ));
    }
    let look = if args.grey { "--grey" } else { "--width-mm" };
    if (args.width_mm.is_some() || args.grey) && args.svg.is_none() && args.pdf.is_none() {
        let cure = "no figures are written; name a folder for them (--svg DIR, --pdf DIR)";
        return Err(request(format!("{look}: {cure}")));
    }
    let font = args
        .font
        .as_ref()
        .map(|path| fs::read(path).map_err(|error| request(format!("--font {}: {error}", path.display()))));
    let font = font.transpose()?;
    // All figures are made and all outputs checked before the first file is written.
    let mut files = Vec::new();
    for (option, folder) in [("svg", &args.svg), ("pdf", &args.pdf)] {
        let Some(folder) = folder else { continue };
        fs::create_dir_all(folder)
            .map_err(|error| request(format!("--{option} {}: {error}", folder.display())))?;
        for picture in &pictures {
            let path = folder.join(format!("{}.{option}", picture.name));
            let output = Output::new(&format!("--{option}"), &path.to_string_lossy(), &inputs)?;
            files.push((output, figure(picture, option, args, font.as_deref())?));
        }
    }
    Output::all_differ(&page.iter().chain(files.iter().map(|(file, _)| file)).collect::<Vec<_>>())?;
    for (file, bytes) in &files {
        file.write_bytes(bytes)?;
    }
    if let Some(page) = &page {
        page.write(html.trim_end())?;
    }
    if let Some(tables) = &tables {
        output::print(tables.trim_end())?;
    }
    Ok(())
}

fn figure(picture: &Picture, kind: &str, args: &ReportArgs, font: Option<&[u8]>) -> Result<Vec<u8>, Failure> {
    let failed = |error: strobe_report::PaperError| match (&error, &args.font) {
        (strobe_report::PaperError::Font(_), Some(font)) => {
            request(format!("--font {}: {error}", font.display()))
        }
        _ => Failure::Run(anyhow!("{}: {error}", picture.name)),
    };
    let svg = match args.width_mm {
        Some(width) => strobe_report::sized(&picture.svg, width).map_err(failed)?,
        None => picture.svg.clone(),
    };
    let svg = if args.grey { strobe_report::grey(&svg) } else { svg };
    if kind == "pdf" { strobe_report::pdf(&svg, font).map_err(failed) } else { Ok(svg.into_bytes()) }
}

type Found = (String, Vec<Picture>, Option<String>);

fn of_runs(args: &ReportArgs) -> Result<Found, Failure> {
    let runs = runs(&args.results)?;
    let pictures = if wants_figures(args) { strobe_report::pictures(&runs) } else { Vec::new() };
    Ok((strobe_report::page(&runs), pictures, None))
}

fn wants_figures(args: &ReportArgs) -> bool {
    args.svg.is_some() || args.pdf.is_some()
}

fn of_sweep(file: &Path, args: &ReportArgs) -> Result<Found, Failure> {
    let (plan, folder) = if file.is_dir() { saved_sweep(file, args)? } else { sweep_of_file(file, args)? };
    let store = open_store(&folder)?;
    let all: Vec<usize> = (0..plan.points.len()).collect();
    let summary = Summary::of(&plan, &store, &all)?;
    if summary.configurations.iter().all(|found| found.runs == (0, 0)) {
        return Err(request(format!("{}: contains no run of this sweep", folder.display())));
    }
    let of = |chart: Chart| Some(Picture { svg: chart.svg()?, name: chart.name });
    let charts = || strobe_sweep::charts(&plan, &summary).into_iter();
    let pictures = if wants_figures(args) { charts().filter_map(of).collect() } else { Vec::new() };
    let whole = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let name = if whole.is_dir() { whole.file_name() } else { whole.file_stem() };
    let name = name.unwrap_or_default().to_string_lossy();
    let tables = args.table.map(|form| form.written(&plan, &summary));
    Ok((strobe_sweep::page(&name, &plan, &summary), pictures, tables))
}

fn saved_sweep(folder: &Path, args: &ReportArgs) -> Result<(Plan, PathBuf), Failure> {
    let shown = folder.display();
    if args.from.is_some() {
        return Err(request(format!("{shown} is a folder: leave --from out, or name the file of the sweep")));
    }
    if !has_store(folder) {
        return Err(request(format!(
            "{shown}: not the folder of a sweep (no points.jsonl); `strobe sweep FILE` names its folder at the end"
        )));
    }
    Ok((Plan::new(SweepFile::kept(folder)?)?, folder.to_owned()))
}

fn sweep_of_file(file: &Path, args: &ReportArgs) -> Result<(Plan, PathBuf), Failure> {
    if !load_table(file)?.contains_key("sweep") {
        let file = file.display();
        return Err(request(format!(
            "{file} is an experiment; a page needs its result: run it first (strobe run {file} --json out.json), \
             then strobe report out.json --out PAGE.html; a sweep has a table [sweep.grid]"
        )));
    }
    let plan = Plan::new(SweepFile::load(file, &[])?)?;
    let folder = args.from.clone().unwrap_or_else(|| sweep::folder_of(file));
    if !has_store(&folder) {
        let (file, folder) = (file.display(), folder.display());
        let cure = format!(
            "{folder}: contains no sweep; run it first (strobe sweep {file}), or name its folder (--from DIR)"
        );
        return Err(request(cure));
    }
    Ok((plan, folder))
}

fn runs(given: &[String]) -> Result<Vec<Run>, Failure> {
    if given.len() > RESULTS_MAX {
        return Err(request(format!("{} results: a page takes at most {RESULTS_MAX}", given.len())));
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = given.iter().find(|name| !seen.insert(name.as_str())) {
        return Err(request(format!("{twice} is given twice; name each result once")));
    }
    let stem = |name: &str| Path::new(name).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let stems: Vec<Option<String>> = given.iter().map(|name| stem(name)).collect();
    let mut runs = Vec::new();
    for (name, short) in given.iter().zip(&stems) {
        let is_alone = stems.iter().filter(|other| *other == short).count() == 1;
        let label = short.as_deref().filter(|_| is_alone).unwrap_or(name);
        let mut run = Run::read(name, &text(name)?).map_err(|error| Failure::request(&error))?;
        run.name = if name == "-" { "standard input".to_owned() } else { label.to_owned() };
        runs.push(run);
    }
    strobe_report::have_common(&runs).map_err(|error| Failure::request(&error))?;
    Ok(runs)
}

/// The name "-" is standard input.
pub(super) fn text(name: &str) -> Result<String, Failure> {
    let failed =
        |error: std::io::Error| request(format!("{name}: {error}; results are written with --json FILE"));
    let mut bytes = Vec::new();
    let read = match name {
        "-" => std::io::stdin().lock().take(BYTES_MAX + 1).read_to_end(&mut bytes),
        _ => fs::File::open(name).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes)),
    };
    read.map_err(failed)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(request(format!("{name}: larger than 256 MiB; not a result of a run")));
    }
    String::from_utf8(bytes)
        .map_err(|_| request(format!("{name}: not a text file; results are written with --json FILE")))
}

fn request(message: String) -> Failure {
    Failure::Request(anyhow!(message))
}
