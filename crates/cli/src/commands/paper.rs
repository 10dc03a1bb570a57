//! `strobe paper`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use strobe_cli::output::Output;
use strobe_cli::report;
use strobe_papers::{self as paper, Options, Paper, PaperError, PaperResult, Scale, claim};

use super::watcher::Watcher;
use super::{Failure, output};

/// Reproduce a published experiment: the paper's claims, the results here, and a verdict on each claim.
///
/// Prints one line per claim. "reproduced": within the accepted band. "direction only":
/// outside the band, on the side the paper claims. "missed": neither. Two verdicts do not judge the paper and
/// are not counted: "by construction" (arithmetic, or the target of a fit) and "not run".
#[derive(Args)]
#[command(after_help = help())]
pub(crate) struct PaperArgs {
    /// Paper to reproduce (`strobe list papers`)
    #[arg(value_name = "NAME")]
    name: String,
    /// Do less work; the result lists the omitted parts
    #[arg(long)]
    quick: bool,
    /// Omit the parts that run on a guest kernel
    #[arg(long)]
    no_kernel: bool,
    /// Set a key of every drive of the paper (drive.KEY=VALUE), repeatable; the drive then differs from the
    /// paper's
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the claims of a finished run instead: FILE is the JSON that --json or --out has written
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "tiny", "no_kernel", "set", "seed", "out"])]
    from: Option<PathBuf>,
    /// Print everything: notes, bands with their reasons, all figures as tables
    #[arg(long)]
    full: bool,
    /// A drive of a few blocks, to try the command
    #[arg(long, hide = true, conflicts_with = "quick")]
    tiny: bool,
    /// Write to this folder: a page with all figures (NAME.html), each figure as SVG and CSV, the claims
    /// (CSV) and the result (JSON). Finished points are kept there (NAME.points): the same command resumes an
    /// interrupted run
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

pub(crate) fn paper(args: &PaperArgs) -> Result<(), Failure> {
    let paper = find(&args.name)?;
    let inputs: Vec<&Path> = args.from.as_deref().into_iter().collect();
    let json = output::json_output(&args.json, &inputs)?;
    if let Some(path) = &args.from {
        return show(paper, &finished(paper, path)?, args, json.as_ref());
    }
    if let Some(folder) = &args.out {
        // Fail before hours of work.
        let made = std::fs::create_dir_all(folder);
        made.with_context(|| format!("--out {}", folder.display())).map_err(Failure::Request)?;
    }
    let scale = match (args.tiny, args.quick) {
        (true, _) => Scale::Tiny,
        (_, true) => Scale::Quick,
        _ => Scale::Full,
    };
    let watcher = Watcher::new(args.quiet, "runs");
    let options = Options {
        sets: args.set.clone(),
        kernel: !args.no_kernel,
        points: args.out.as_ref().map(|folder| folder.join(format!("{}.points", paper.name))),
        ..Options::new(scale, args.seed)
    };
    let result = paper.run(&options, &watcher);
    watcher.end();
    let result = result.map_err(|error| failure(error, args.out.as_deref()))?;
    if let Some(folder) = &args.out {
        write_all(paper, &result, folder)?;
    }
    show(paper, &result, args, json.as_ref())
}

fn finished(paper: &Paper, path: &Path) -> Result<PaperResult, Failure> {
    let text = std::fs::read_to_string(path).with_context(|| format!("--from {}", path.display()));
    let result = text.and_then(|text| {
        PaperResult::from_json(&text, paper.name).with_context(|| format!("--from {}", path.display()))
    });
    result.map_err(Failure::Request)
}

fn show(paper: &Paper, result: &PaperResult, args: &PaperArgs, json: Option<&Output>) -> Result<(), Failure> {
    if !args.quiet && !json.is_some_and(Output::is_stdout) {
        let body = if args.full { report::paper::full(result) } else { report::paper::screen(result) };
        let text = format!("{}\n{}\n\n{body}", paper.title, paper.authors);
        output::print(&report::trimmed(&text))?;
    }
    output::json(result, json)
}

fn find(name: &str) -> Result<&'static Paper, Failure> {
    paper::find(name).ok_or_else(|| {
        let names: Vec<&str> = paper::PAPERS.iter().map(|paper| paper.name).collect();
        let hint = strobe_ssd::schema::nearest(name, names.iter().copied());
        let hint = hint.map(|name| format!(", did you mean {name}?")).unwrap_or_default();
        let there_are = names.join(", ");
        Failure::Request(anyhow::anyhow!("unknown paper \"{name}\"{hint}; known are {there_are}"))
    })
}

fn failure(error: PaperError, out: Option<&Path>) -> Failure {
    let is_bad_request = error.is_bad_request();
    match (error, out) {
        (error @ PaperError::Interrupted, Some(folder)) => Failure::Run(anyhow::anyhow!(
            "{error}; finished points are kept in {}: the same command resumes",
            folder.display()
        )),
        (error, _) => Failure::judged(is_bad_request, &error),
    }
}

fn write_all(paper: &Paper, result: &PaperResult, folder: &Path) -> Result<(), Failure> {
    let write = |path: &Path, text: &str| {
        Output::new("--out", &path.display().to_string(), &[])?.write(text.trim_end())
    };
    for figure in &result.figures {
        let path = folder.join(format!("{}-{}.csv", paper.name, figure.figure));
        write(&path, &figure.csv())?;
        if let Some(svg) = report::paper::svg(figure) {
            write(&path.with_extension("svg"), &svg)?;
        }
    }
    write(&folder.join(format!("{}-claims.csv", paper.name)), &claim::csv(&result.claims))?;
    write(&folder.join(format!("{}.json", paper.name)), &output::json_text(result))?;
    Ok(write(&folder.join(format!("{}.html", paper.name)), &report::paper::page(paper, result))?)
}

/// Help on all papers, or on the one the command line names (`strobe paper nvram --help`).
fn help() -> String {
    let arguments: Vec<String> = std::env::args_os().filter_map(|arg| arg.into_string().ok()).collect();
    let is_named = |name: &str| {
        arguments.iter().any(|arg| arg == "paper") && arguments.iter().skip(2).any(|arg| arg == name)
    };
    let one = paper::PAPERS.iter().find(|paper| is_named(paper.name));
    let mut text = if one.is_some() { "The paper:\n" } else { "The papers:\n" }.to_owned();
    for paper in paper::PAPERS.iter().filter(|paper| one.is_none_or(|one| one.name == paper.name)) {
        text += &format!(
            "\n  {}: {}\n    {}\n    Takes {}.\n",
            paper.name, paper.title, paper.reproduces, paper.takes
        );
    }
    text + "\nExamples:\n  strobe paper capi --quick\n  strobe paper nvram --out nvram     a page with figures: nvram/nvram.html\n  \
            strobe paper trim --no-kernel --full\n  strobe paper nvram --quick --set drive.nand.program_ns=300_000"
}
