//! `strobe list`, `strobe show`, `strobe schema`.

use std::path::Path;

use clap::{Args, ValueEnum};
use comfy_table::{ContentArrangement, Table};
use strobe_cli::reference::{self, Of};
use strobe_cli::report;
use strobe_ftl::UNIT_VARIABLES;
use strobe_ftl::gc::VARIABLES;
use strobe_lab::{Experiment, RunResult, preset};
use strobe_papers as paper;
use strobe_ssd::{DriveConfig, MAPPINGS, PLACEMENTS, POLICIES, PlacementInfo, presets};
use strobe_workload::{synthetic, trace};

use super::{Failure, output};

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Kind of list [default: an overview of the kinds]
    what: Option<What>,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Ready-made drives
    #[value(alias = "preset", alias = "drives")]
    Presets,
    /// Victim policies of garbage collection
    #[value(alias = "policy")]
    Policies,
    /// Placement schemes: which data shares blocks
    #[value(alias = "placement", alias = "schemes")]
    Placements,
    /// Mapping schemes
    #[value(alias = "mapping")]
    Mappings,
    /// Workloads
    #[value(alias = "workload")]
    Workloads,
    /// Trace formats, with columns and units
    #[value(alias = "format")]
    Formats,
    /// Papers that can be reproduced
    #[value(alias = "paper")]
    Papers,
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// "preset"; may be omitted
    #[arg(value_name = "preset")]
    what: String,
    /// Name of a ready-made drive (`strobe list presets`)
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

#[derive(Args)]
pub(crate) struct SchemaArgs {
    /// Schema to print
    what: SchemaOf,
    /// Print a page in Markdown instead of JSON Schema
    #[arg(long)]
    markdown: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum SchemaOf {
    /// The [drive] table
    Drive,
    /// A whole experiment
    Experiment,
    /// Output of --json
    Result,
    /// Output of `strobe paper --json`
    Paper,
    /// Output of `strobe twin check --json`
    TwinCheck,
    /// Output of `strobe twin fit --json`
    TwinFit,
    /// Output of `strobe linux --json`
    #[cfg(target_os = "linux")]
    Linux,
    /// Output of `strobe serve --json`
    #[cfg(target_os = "linux")]
    Serve,
}

impl SchemaOf {
    fn of(self) -> Of {
        match self {
            SchemaOf::Drive | SchemaOf::Experiment => Of::Input,
            _ => Of::Output,
        }
    }

    fn title(self) -> &'static str {
        match self {
            SchemaOf::Drive => "The drive",
            SchemaOf::Experiment => "The experiment file",
            SchemaOf::Result => "The result of a run",
            SchemaOf::Paper => "The result of a paper",
            SchemaOf::TwinCheck => "Drives compared with real ones",
            SchemaOf::TwinFit => "A fitted drive",
            #[cfg(target_os = "linux")]
            SchemaOf::Linux => "The result of a command in a guest",
            #[cfg(target_os = "linux")]
            SchemaOf::Serve => "The result of a server",
        }
    }
}

fn overview() -> String {
    let lines = What::value_variants().iter().filter_map(|what| {
        let value = what.to_possible_value()?;
        let about = value.get_help().map(ToString::to_string).unwrap_or_default();
        Some(format!("strobe list {:10} {about}", value.get_name()))
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) fn list(args: &ListArgs) -> Result<(), Failure> {
    let Some(what) = args.what else { return output::print(&overview()) };
    let rows: Vec<Vec<String>> = match what {
        What::Presets => {
            let own =
                preset::of_user().into_iter().map(|(name, path)| vec![name, path.display().to_string()]);
            presets::PRESETS.iter().map(|p| strings([p.name, p.summary])).chain(own).collect()
        }
        What::Policies => POLICIES.iter().map(|p| strings([p.name, p.picks, p.source])).collect(),
        What::Placements => {
            let row = |p: &PlacementInfo| strings([p.name, p.streams[0], p.streams[1], p.source]);
            PLACEMENTS.iter().map(row).collect()
        }
        What::Mappings => MAPPINGS.iter().map(|m| strings([m.name, m.summary])).collect(),
        What::Workloads => {
            let trace = strings([
                "trace",
                "a block trace; see `strobe list formats`",
                "path, format, pacing, fit, late, repeat",
            ]);
            let lfs = strings([
                "lfs",
                "a log-structured file system whose files are updated at random: cleaning by moves or by copies",
                "cleaning, utilization, segment_bytes, update_bytes, trims, sync, ...",
            ]);
            let made = synthetic::list().iter().map(|w| strings([w.name, w.summary, &w.keys.join(", ")]));
            made.chain([trace, lfs]).collect()
        }
        What::Formats => trace::FORMATS.iter().map(|f| strings([f.name, f.summary, f.columns])).collect(),
        What::Papers => {
            let about = |p: &paper::Paper| format!("{}\n{}", p.title, p.authors);
            paper::PAPERS.iter().map(|p| strings([p.name, &about(p), p.reproduces])).collect()
        }
    };
    let header = match what {
        What::Policies => vec!["policy", "picks", "source"],
        What::Placements => vec!["placement", "streams of the host", "of relocated units", "source"],
        What::Workloads => vec!["workload", "", "keys of its own"],
        What::Formats => vec!["format", "", "columns"],
        What::Presets => vec!["preset", ""],
        What::Mappings => vec!["mapping", ""],
        What::Papers => vec!["paper", "", "reproduced"],
    };
    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(report::terminal_width()).unwrap_or(u16::MAX));
    table.set_header(header);
    table.add_rows(rows);
    let mut text = table.to_string();
    match what {
        What::Policies => text.push_str(&formula_help()),
        What::Placements => text.push_str(&placement_help()),
        What::Presets => text.push_str(&preset_help()),
        _ => {}
    }
    output::print(&report::trimmed(&text))
}

fn preset_help() -> String {
    let folder =
        preset::user_folder().map_or("none, as HOME is not set".to_owned(), |at| at.display().to_string());
    format!(
        "\n\nTo make your own, start from `strobe show preset NAME > mine.toml` and name the file,\n\n    \
         [drive]\n    preset = \"mine.toml\"\n\n\
         or --drive mine.toml. A file NAME.toml in this folder is a preset called NAME:\n\n    {folder}"
    )
}

fn formula_help() -> String {
    let mut text = "\n\nOr a formula; the block with the largest value is collected. Example:\n\n    \
        --set drive.ftl.gc.victim=\"age * (1-u) / (1+u)^2\"\n\n\
        with + - * / ^, min(a, b), max(a, b), sqrt, abs, exp, log, and these variables of a block\n\n"
        .to_owned();
    for variable in VARIABLES {
        text.push_str(&format!("    {:17} {}\n", variable.name, variable.meaning));
    }
    text.push_str(LISTED_NOT_BUILT);
    text.push_str("\nA tick is a mapping unit written or trimmed by the host. A formula is computed for every block at\n");
    text.push_str("each choice; the policies above find a victim without a scan of all blocks.");
    text
}

fn placement_help() -> String {
    let mut text = "\n\nOr a formula; its value, rounded down, is the stream of the unit. Example:\n\n    \
        --set drive.ftl.placement.scheme=\"stream + 1 - 2 * is_copy\"\n\n\
        with + - * / ^, min(a, b), max(a, b), sqrt, abs, exp, log, and these variables of a unit, before it is \
        written or relocated\n\n"
        .to_owned();
    for variable in UNIT_VARIABLES {
        text.push_str(&format!("    {:17} {}\n", variable.name, variable.meaning));
    }
    text.push_str(
        "\nAges are in mapping units written by the host, plus one. At most drive.ftl.placement.streams\n",
    );
    text.push_str("streams are used; NaN selects stream 0.");
    text
}

const LISTED_NOT_BUILT: &str = "\nCATA and CBA (Han, Ryu & Yim 2006) are missing: their publications do not give the \
     scores in full.\nWith age, u and erase_count, either can be written as a formula.\n";

fn strings<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

pub(crate) fn show(args: &ShowArgs) -> Result<(), Failure> {
    let name = match (args.what.as_str(), &args.name) {
        ("preset" | "presets", Some(name)) => name,
        ("preset" | "presets", None) => {
            let cure = "show preset: no name given; strobe show preset NAME, where `strobe list presets` has the names";
            return Err(Failure::Request(anyhow::anyhow!(cure)));
        }
        (_, None) => &args.what,
        (what, Some(name)) => {
            return Err(Failure::Request(anyhow::anyhow!(
                "show {what} {name}: only presets can be shown: strobe show preset NAME"
            )));
        }
    };
    let (text, _) = preset::text(name, Path::new(""), "preset")?;
    output::print(text.trim_end())
}

pub(crate) fn schema(args: &SchemaArgs) -> Result<(), Failure> {
    let schema = match args.what {
        SchemaOf::Drive => schemars::schema_for!(DriveConfig),
        SchemaOf::Experiment => schemars::schema_for!(Experiment),
        SchemaOf::Result => schemars::schema_for!(RunResult),
        SchemaOf::Paper => schemars::schema_for!(paper::PaperResult),
        SchemaOf::TwinCheck => schemars::schema_for!(super::twin::Printed<super::twin::Drives>),
        SchemaOf::TwinFit => schemars::schema_for!(super::twin::Printed<strobe_twin::fit::Fit>),
        #[cfg(target_os = "linux")]
        SchemaOf::Linux => schemars::schema_for!(strobe_linux::command::LinuxResult),
        #[cfg(target_os = "linux")]
        SchemaOf::Serve => schemars::schema_for!(strobe_serve::ServeResult),
    };
    if args.markdown {
        output::print(reference::page(args.what.title(), &schema, args.what.of()).trim_end())
    } else {
        output::print(&output::json_text(&schema))
    }
}
