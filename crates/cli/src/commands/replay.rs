//! `strobe replay`.

use std::path::Path;

use clap::Args;
use strobe_lab::{Experiment, NoFormat, load_drive_table, only_format};
use toml::{Table, Value};

use super::execute::{Common, execute, with_options};
use super::{Failure, output};

#[derive(Args)]
#[command(after_help = "Examples:
  strobe replay web_0.csv.gz --format msr --drive tlc-nvme-1t --wrap
  strobe replay trace.blkparse --format blkparse --closed-loop --queue-depth 32
  blkparse -i sda -o - | strobe replay - --format blkparse --drive mine-drive.toml
  strobe replay camera.fio --format fio --closed-loop --drive ez-x5-32m --prefill \\
      --set drive.ftl.mapping=fast --json out.json
  strobe replay mine.csv --columns time,op,lbn,len --format csv --warmup 2h --measure 1h --speed 10
  strobe replay web_0.csv.gz --format msr --set run.interval=10s --series load.csv")]
pub(crate) struct ReplayArgs {
    /// The trace, plain, gzip or zstd, or "-" for standard input. For blktrace: any of its per-CPU files, or NAME
    /// of NAME.blktrace.0
    trace: String,
    /// Trace format (`strobe list formats`) [default: recognised from the first lines, if they fit only one]
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// A preset (`strobe list presets`), or a TOML file with the keys of [drive] such as `strobe show preset`
    /// prints
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "generic-8g")]
    drive: String,
    /// Take offsets beyond the drive modulo its capacity; changed requests are counted
    #[arg(long, conflicts_with = "clip")]
    wrap: bool,
    /// Cut requests at the end of the drive; changed requests are counted
    #[arg(long)]
    clip: bool,
    /// Requests with an earlier timestamp than a previous one: refuse the trace, or issue them immediately
    /// and count them [default: refuse]
    #[arg(long, value_name = "refuse|issue")]
    late: Option<String>,
    /// Issue requests as fast as the drive completes them, instead of at the trace's times
    #[arg(long)]
    closed_loop: bool,
    /// Queue depth, with --closed-loop [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    queue_depth: Option<i32>,
    /// Replay only this device of the trace, or "all"; several share the drive with an offset each: --device
    /// web.0@0 --device web.1@100g
    #[arg(long, value_name = "NAME[@OFFSET]|all")]
    device: Vec<String>,
    /// For blkparse and blktrace: replay dispatched (D), queued (Q) or completed (C) requests [default: the
    /// first of these in the trace]
    #[arg(long, value_name = "D|Q|C")]
    action: Option<String>,
    /// Nanoseconds per time unit of the trace, instead of the format's own
    #[arg(long, value_name = "NS", allow_negative_numbers = true)]
    time_unit_ns: Option<i64>,
    /// Names of the columns of a csv trace, such as time,op,lbn,len [default: those of its first line]
    #[arg(long, value_name = "NAMES", allow_hyphen_values = true)]
    columns: Option<String>,
    /// Leave out this part at the beginning of the trace: "5000 requests", 10GiB of requests, or 2h of its time
    #[arg(long, value_name = "PART", allow_hyphen_values = true)]
    skip: Option<String>,
    /// Replay only this part after that
    #[arg(long, value_name = "PART", allow_hyphen_values = true)]
    take: Option<String>,
    /// Replay the trace this many times as fast
    #[arg(long, value_name = "FACTOR", allow_hyphen_values = true)]
    speed: Option<f64>,
    /// Part of the trace that warms the drive up before the measurement, as --skip, or "1 repeat" [default:
    /// none]
    #[arg(long, value_name = "PART", allow_hyphen_values = true)]
    warmup: Option<String>,
    /// Part of the trace to measure after that [default: the rest]
    #[arg(long, value_name = "PART", allow_hyphen_values = true)]
    measure: Option<String>,
    /// Replay the trace N times in a row [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    repeat: Option<i32>,
    /// Write the whole drive once before the trace, to give garbage collection work
    #[arg(long)]
    prefill: bool,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    let mut workload = Table::new();
    let mut options = with_options(&args.common);
    let mut put = |key: &str, value: Value| {
        // These keys have no option of the same name.
        if !["kind", "path", "fit", "pacing"].contains(&key) {
            options.key(format!("workload.{key}"), format!("--{} {value}", key.replace('_', "-")));
        }
        workload.insert(key.to_owned(), value);
    };
    put("kind", "trace".into());
    put("path", args.trace.as_str().into());
    let format = match &args.format {
        Some(name) => name,
        None if args.columns.is_some() => "csv",
        None => recognised(&args.trace)?,
    };
    put("format", format.into());
    // Only options that were given set a key, so an option without effect is reported.
    if args.wrap || args.clip {
        put("fit", if args.wrap { "wrap" } else { "clip" }.into());
    }
    if args.closed_loop {
        put("pacing", "closed".into());
    }
    let whole = |number: i32| Value::Integer(number.into());
    for (key, value) in [
        ("queue_depth", args.queue_depth.map(whole)),
        ("repeat", args.repeat.map(whole)),
        ("late", args.late.clone().map(Value::String)),
        ("device", devices(&args.device)),
        ("columns", args.columns.clone().map(Value::String)),
        ("skip", args.skip.clone().map(Value::String)),
        ("take", args.take.clone().map(Value::String)),
        ("speed", args.speed.map(Value::Float)),
        ("action", args.action.clone().map(Value::String)),
        ("time_unit_ns", args.time_unit_ns.map(Value::Integer)),
    ] {
        value.into_iter().for_each(|value| put(key, value));
    }
    let mut table = Table::new();
    table.insert("workload".to_owned(), workload.into());
    table.insert("drive".to_owned(), load_drive_table(&args.drive, "--drive")?.into());
    let mut run = Table::new();
    for (key, value) in [
        ("prefill", args.prefill.then_some(Value::Boolean(true))),
        ("warmup", args.warmup.as_deref().map(amount)),
        ("measure", args.measure.as_deref().map(amount)),
    ] {
        let Some(value) = value else { continue };
        let given = if key == "prefill" { String::new() } else { format!(" {value}") };
        options.key(format!("run.{key}"), format!("--{key}{given}"));
        run.insert(key.to_owned(), value);
    }
    if !run.is_empty() {
        table.insert("run".to_owned(), run.into());
    }
    let experiment = options.name_option(Experiment::from_table(table, options.sets(), Path::new("")))?;
    execute(experiment, Path::new(&args.drive), &args.common)
}

/// Value of `workload.device`.
fn devices(names: &[String]) -> Option<Value> {
    match names {
        [] => None,
        [name] => Some(name.as_str().into()),
        names => Some(Value::Array(names.iter().map(|name| name.as_str().into()).collect())),
    }
}

/// An amount: host pages if it is a plain number.
fn amount(text: &str) -> Value {
    text.parse().map_or_else(|_| text.into(), Value::Integer)
}

fn recognised(trace: &str) -> Result<&'static str, Failure> {
    let name = only_format(Path::new(trace)).map_err(|error| {
        let option = if matches!(error, NoFormat::Unclear(_)) { "--" } else { "" };
        Failure::Request(anyhow::anyhow!("{option}{error}"))
    })?;
    output::note(&format!("note: {trace} is read as {name}; --format overrides that"));
    Ok(name)
}
