//! `strobe diff`: two results side by side.

use std::path::Path;

use clap::Args;
use strobe_cli::report::diff::Diff;
use strobe_report::Run;

use super::{Failure, output, report};

#[derive(Args)]
#[command(after_help = "Examples:
  strobe run mine.toml --json greedy.json
  strobe run mine.toml --json fifo.json --set drive.ftl.gc.victim=fifo
  strobe diff greedy.json fifo.json
  strobe diff --quiet before.json after.json || echo results have changed

Results are equal if all their numbers are. The simulator's speed and version are ignored (time.wall_s,
time.cpu_s, sim, strobe_version).")]
pub(crate) struct DiffArgs {
    /// Result of strobe run, strobe replay or strobe linux (--json), or "-" for standard input
    #[arg(value_name = "A.json")]
    a: String,
    /// Result to compare with A; changes are from A to B
    #[arg(value_name = "B.json")]
    b: String,
    /// Print the comparison as JSON: configuration, figures, and the paths of all other differences
    #[arg(long)]
    json: bool,
    /// Print nothing; only set the exit code
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
}

pub(crate) fn diff(args: &DiffArgs) -> Result<(), Failure> {
    if args.a == "-" && args.b == "-" {
        let cure = "-: standard input is one result; name a file for the other";
        return Err(Failure::Request(anyhow::Error::msg(cure)));
    }
    let read = |name: &str| Run::read(name, &report::text(name)?).map_err(|error| Failure::request(&error));
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let diff = Diff::of(a.json(), b.json()).map_err(|(left, right)| {
        let kinds = format!(
            "{} is a result of {left}, {} of {right}: compare results of one kind",
            shown(&args.a),
            shown(&args.b)
        );
        Failure::Request(anyhow::Error::msg(kinds))
    })?;
    if args.json {
        output::print(&output::json_text(&diff))?;
    } else if !args.quiet {
        output::print(&diff.text(&shown(&args.a), &shown(&args.b)))?;
    }
    if diff.equal { Ok(()) } else { Err(Failure::Found) }
}

fn shown(name: &str) -> String {
    if name == "-" { "standard input".to_owned() } else { Path::new(name).display().to_string() }
}
