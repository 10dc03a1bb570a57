//! An experiment without a file: a drive and a load in fio's words, and the file that says the same.

use std::fmt::Write as _;

use clap::Args;
use toml::{Table, Value};

use super::options::Options;

/// Virtual time of a measurement that nobody has given a length.
pub(super) const RUNTIME: &str = "10s";
/// Bytes of a request, as in fio.
pub(super) const BLOCK_SIZE: &str = "4k";

/// A load in fio's words.
#[derive(Args, Default)]
pub(super) struct LoadArgs {
    /// Direction and order of requests: read, write, rw, randread, randwrite, randrw
    #[arg(long, value_name = "RW", help_heading = HEADING, alias = "readwrite")]
    pub(super) rw: Option<String>,
    /// Bytes of a request [default: 4k]
    #[arg(long, value_name = "SIZE", help_heading = HEADING, requires = "rw")]
    bs: Option<String>,
    /// Requests outstanding [default: 1]
    #[arg(long, value_name = "N", help_heading = HEADING, requires = "rw")]
    iodepth: Option<u32>,
    /// Bytes of the drive that requests go to, from its start [default: all of it]
    #[arg(long, value_name = "SIZE", help_heading = HEADING, requires = "rw")]
    size: Option<String>,
    /// Virtual time of the measurement: 10s, 500ms, 1m [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = HEADING, requires = "rw")]
    runtime: Option<String>,
    /// Requests per second, which come whatever the drive does [default: as fast as it takes them]
    #[arg(long = "rate_iops", value_name = "N", help_heading = HEADING, requires = "rw", alias = "rate-iops")]
    rate_iops: Option<u32>,
    /// Percentage of reads, with rw and randrw [default: 50]
    #[arg(long, value_name = "PERCENT", help_heading = HEADING, requires = "rw")]
    rwmixread: Option<u32>,
}

/// Heading of these options.
pub(super) const HEADING: &str = "Load without a file, in fio's words";

impl LoadArgs {
    /// Random writes of 4 KiB, 32 outstanding: the load of a new experiment.
    pub(super) fn random_writes() -> Self {
        Self { rw: Some("randwrite".to_owned()), iodepth: Some(32), ..Self::default() }
    }

    /// The experiment of this load on `drive`; `options` learns which option has given which key.
    pub(super) fn experiment(&self, drive: Option<&str>, options: &mut Options) -> Option<Table> {
        let rw = self.rw.as_deref()?;
        let text = |given: &Option<String>| given.as_deref().map(Value::from);
        let number = |given: Option<u32>| given.map(|number| Value::Integer(number.into()));
        let keys = [
            ("rw", Some(Value::from(rw))),
            ("bs", text(&self.bs).or(Some(BLOCK_SIZE.into()))),
            ("iodepth", number(self.iodepth)),
            ("size", text(&self.size)),
            ("rate_iops", number(self.rate_iops)),
            ("rwmixread", number(self.rwmixread)),
        ];
        let mut workload = Table::new();
        for (key, value) in keys {
            let Some(value) = value else { continue };
            options.key(format!("workload.{key}"), format!("--{key} {}", bare(&value)));
            workload.insert(key.to_owned(), value);
        }
        let runtime = self.runtime.as_deref().unwrap_or(RUNTIME);
        options.key("run.measure".to_owned(), format!("--runtime {runtime}"));
        Some(experiment(drive, [("workload", workload.into())], runtime))
    }
}

/// The experiment of `load` on `drive`, measured for `runtime`.
pub(super) fn experiment<'a>(
    drive: Option<&str>,
    load: impl IntoIterator<Item = (&'a str, Value)>,
    runtime: &str,
) -> Table {
    let table = |key: &str, value: Value| Value::Table(Table::from_iter([(key.to_owned(), value)]));
    let mut experiment = Table::new();
    experiment.insert("seed".to_owned(), 1.into());
    let drive = drive.unwrap_or(strobe_ssd::presets::DEFAULT);
    experiment.insert("drive".to_owned(), table("preset", drive.into()));
    experiment.extend(load.into_iter().map(|(key, value)| (key.to_owned(), value)));
    experiment.insert("run".to_owned(), table("measure", runtime.into()));
    experiment
}

/// `value` as somebody would type it.
fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Comments of keys, in the order in which they are written.
const COMMENTS: &[(&str, &str)] = &[
    ("preset", "`strobe list presets`, or a file: `strobe show preset NAME > mine.toml`"),
    ("name", ""),
    ("rw", "read, write, rw, randread, randwrite, randrw"),
    ("rwmixread", "percentage of reads"),
    ("bs", "bytes of a request"),
    ("iodepth", "requests outstanding"),
    ("size", "bytes of the drive that requests go to"),
    ("rate_iops", "requests per second, which come whatever the drive does"),
    ("precondition", "random overwrites before it, in capacities"),
    ("warmup", "the load itself before it, not measured"),
    ("measure", "virtual time, or capacities such as \"2x\""),
];

/// Lines that a table of the file ends with: keys to try, switched off.
const SUGGESTIONS: &[(&str, &str)] = &[
    (
        "drive",
        "# ftl.over_provisioning = 0.28     # spare / logical capacity\n\
         # ftl.gc.victim = \"cost-benefit\"   # `strobe list policies`, or a formula: \"age * (1-u) / (1+u)^2\"\n",
    ),
    (
        "run",
        "# precondition = \"2x\"              # random overwrites before it, in capacities: a drive in use\n\
         # xray = 60                        # frames of the X-ray in `strobe run --report out.html`\n",
    ),
];

/// `experiment` as a file with comments; `name` is that of the file, for its first line.
pub(super) fn text(experiment: &Table, name: &str) -> String {
    let mut out =
        format!("# Run it with `strobe run {name}`; every key: `strobe schema experiment --markdown`.\n");
    for (key, value) in experiment.iter().filter(|(_, value)| !value.is_table() && !value.is_array()) {
        let _ = writeln!(out, "{key} = {value}");
    }
    for section in ["drive", "workload", "jobs", "run"] {
        match experiment.get(section) {
            Some(Value::Table(table)) => {
                let _ = write!(out, "\n[{section}]\n{}", lines(table));
            }
            Some(Value::Array(tables)) => {
                for table in tables.iter().filter_map(Value::as_table) {
                    let _ = write!(out, "\n[[{section}]]\n{}", lines(table));
                }
            }
            _ => {}
        }
        let keys = SUGGESTIONS.iter().filter(|(of, _)| *of == section);
        out.extend(keys.map(|(_, lines)| *lines));
    }
    out
}

/// The keys of one table, those with a comment first.
fn lines(table: &Table) -> String {
    let place = |key: &str| COMMENTS.iter().position(|(name, _)| *name == key).unwrap_or(COMMENTS.len());
    let mut keys: Vec<(&String, &Value)> = table.iter().collect();
    keys.sort_by_key(|(key, _)| place(key));
    let mut out = String::new();
    for (key, value) in keys {
        let line = format!("{key} = {value}");
        let comment = COMMENTS.get(place(key)).map_or("", |(_, comment)| comment);
        let _ = match comment {
            "" => writeln!(out, "{line}"),
            comment => writeln!(out, "{line:<34} # {comment}"),
        };
    }
    out
}
