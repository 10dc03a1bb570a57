//! `strobe paper`.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use clap::Args;
use indicatif::ProgressBar;
use strobe_cli::output::Output;
use strobe_cli::report;
use strobe_papers::{self as paper, Options, Paper, PaperError, PaperResult, Scale, Watch};

use super::{Failure, output, progress};

#[derive(Args)]
pub(crate) struct PaperArgs {
    /// The paper (`strobe list papers`)
    #[arg(value_name = "NAME")]
    name: String,
    /// Less work: the result says what was left out
    #[arg(long)]
    quick: bool,
    /// A drive of a few blocks, to try the command out
    #[arg(long, hide = true, conflicts_with = "quick")]
    tiny: bool,
    /// Write one CSV file per figure to this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the result as JSON to FILE, or to standard output with "-"
    #[arg(long, value_name = "FILE|-")]
    json: Option<String>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: u64,
    /// No progress bar, no tables
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn paper(args: &PaperArgs) -> Result<(), Failure> {
    let paper = find(&args.name)?;
    let json = output::json_output(&args.json, &[])?;
    if let Some(folder) = &args.out {
        // Before hours of work.
        let made = std::fs::create_dir_all(folder);
        made.with_context(|| format!("--out {}", folder.display())).map_err(Failure::Request)?;
    }
    let scale = match (args.tiny, args.quick) {
        (true, _) => Scale::Tiny,
        (_, true) => Scale::Quick,
        _ => Scale::Full,
    };
    let show = !args.quiet && std::io::stderr().is_terminal();
    let watcher = Watcher { interrupted: progress::interrupt_flag(), bar: show.then(bar) };
    let result = paper.run(&Options { scale, seed: args.seed }, &watcher);
    if let Some(bar) = &watcher.bar {
        bar.finish_and_clear();
    }
    let result = result.map_err(failure)?;
    if let Some(folder) = &args.out {
        write_csv(&result, folder)?;
    }
    if !args.quiet && !output::takes_stdout([&json]) {
        let text = format!("{}\n{}\n\n{}", paper.title, paper.authors, report::paper::summary(&result));
        output::print(&report::trimmed(&text))?;
    }
    output::json(&result, json.as_ref())
}

fn find(name: &str) -> Result<&'static Paper, Failure> {
    paper::find(name).ok_or_else(|| {
        let names: Vec<&str> = paper::PAPERS.iter().map(|paper| paper.name).collect();
        let hint = strobe_ssd::schema::nearest(name, names.iter().copied());
        let hint = hint.map(|name| format!(", did you mean {name}?")).unwrap_or_default();
        let there_are = names.join(", ");
        Failure::Request(anyhow::anyhow!("no paper is called \"{name}\"{hint}; known are {there_are}"))
    })
}

fn failure(error: PaperError) -> Failure {
    let is_bad_request = matches!(&error, PaperError::Run { error: cause, .. } if cause.is_bad_request());
    Failure::judged(is_bad_request, &error)
}

fn write_csv(result: &PaperResult, folder: &Path) -> Result<(), Failure> {
    let write = |path: &Path, text: &str| Output::new("--out", &path.display().to_string(), &[])?.write(text);
    for figure in &result.figures {
        let path = folder.join(format!("{}-{}.csv", result.paper, figure.figure));
        write(&path, figure.csv().trim_end())?;
        if let Some(svg) = report::map::svg(figure) {
            write(&path.with_extension("svg"), svg.trim_end())?;
        }
    }
    Ok(())
}

fn bar() -> ProgressBar {
    ProgressBar::new(0).with_style(progress::style("{wide_bar} {pos} of {len} runs  {left}"))
}

/// Shows how many runs are done and passes Ctrl-C and TERM on.
struct Watcher {
    interrupted: Arc<AtomicBool>,
    bar: Option<ProgressBar>,
}

impl Watch for Watcher {
    fn progress(&self, done: usize, total: usize) {
        if let Some(bar) = &self.bar {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        }
    }

    fn stopped(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }
}
