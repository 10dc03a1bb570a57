//! Experiments without a file: a drive and a load in fio's words, and the equivalent experiment file.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use strobe_lab::Experiment;
use strobe_lab::fio::{self, Load, Meaning, Target, WORDS};
use toml::{Table, Value};

use super::options::Options;

/// A load in fio's words, one option per word.
#[derive(Clone, Debug, Default)]
pub(super) struct LoadArgs {
    /// Options and values in command-line order; "" for an option without a value.
    words: Vec<(&'static str, String)>,
}

pub(super) const HEADING: &str = "Load without a file, in fio's words";

const FIRST: &[&str] = &["rw", "bs", "iodepth", "size", "runtime", "rate_iops", "rwmixread"];

impl Args for LoadArgs {
    fn augment_args(command: Command) -> Command {
        WORDS.iter().fold(command, |command, word| {
            let arg = Arg::new(word.name)
                .long(word.name)
                .aliases(word.also.iter().copied())
                .help_heading(HEADING)
                .action(ArgAction::Append);
            let arg = if word.name == "rw" { arg } else { arg.requires("rw") };
            let optional = |arg: Arg| arg.num_args(0..=1).default_missing_value("");
            command.arg(
                match word.meaning {
                    Meaning::Taken { value: "", help } => optional(arg).value_name("0|1").help(help),
                    Meaning::Taken { value, help } => arg.value_name(value).help(help),
                    Meaning::NoEffect | Meaning::Refused { .. } => optional(arg).hide(true),
                }
                .hide_short_help(!FIRST.contains(&word.name)),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LoadArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found = Vec::new();
        for word in WORDS {
            let (Some(values), Some(indices)) =
                (matches.get_many::<String>(word.name), matches.indices_of(word.name))
            else {
                continue;
            };
            found.extend(indices.zip(values).map(|(at, value)| (at, word.name, value.clone())));
        }
        // clap groups values by option. The sort restores the order of the command line.
        found.sort_by_key(|(at, ..)| *at);
        Ok(Self { words: found.into_iter().map(|(_, word, value)| (word, value)).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl LoadArgs {
    /// Random 4 KiB writes at queue depth 32.
    pub(super) fn random_writes() -> Self {
        let words = [("rw", "randwrite"), ("bs", "4k"), ("iodepth", "32"), ("runtime", fio::RUNTIME)];
        Self { words: words.map(|(word, value)| (word, value.to_owned())).to_vec() }
    }

    pub(super) fn first_word(&self) -> Option<&'static str> {
        self.words.first().map(|(word, _)| *word)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Converts the words to an experiment. `options` records which option set which key.
    pub(super) fn load(&self, drive: Option<&str>, options: &mut Options) -> Result<Load, String> {
        let words: Vec<(&str, &str)> = self.words.iter().map(|(word, value)| (*word, &**value)).collect();
        let load = on_target(drive, options, false, |target| fio::from_options(&words, target))?;
        for (key, word) in &load.origins {
            if let Some((_, value)) = words.iter().rfind(|(name, _)| name == word) {
                let option = if value.is_empty() { format!("--{word}") } else { format!("--{word} {value}") };
                options.key(key.clone(), option);
            }
        }
        Ok(load)
    }
}

pub(super) fn on_target(
    drive: Option<&str>,
    options: &Options,
    is_file: bool,
    make: impl FnOnce(&Target<'_>) -> Result<Load, String>,
) -> Result<Load, String> {
    let drive = drive.unwrap_or(strobe_ssd::presets::DEFAULT);
    let of_drive: Vec<String> =
        options.sets().iter().filter(|set| set.starts_with("drive.")).cloned().collect();
    let bytes = || {
        let preset = Table::from_iter([("preset".to_owned(), Value::from(drive))]);
        let table = Table::from_iter([("drive".to_owned(), Value::from(preset))]);
        let experiment = Experiment::from_table(table, &of_drive, Path::new(""));
        experiment.map(|experiment| experiment.drive.logical_bytes()).map_err(|error| error.to_string())
    };
    make(&Target { drive, bytes: &bytes, is_file })
}

const COMMENTS: &[(&str, &str)] = &[
    ("preset", "`strobe list presets`, or a file: `strobe show preset NAME > mine.toml`"),
    ("name", ""),
    ("rw", "read, write, rw, trim, randread, randwrite, randrw, randtrim"),
    ("random_map", "every block once, then again in another order"),
    ("rwmixread", "percentage of reads"),
    ("bs", "bytes of a request"),
    ("iodepth", "requests outstanding"),
    ("size", "bytes of the drive that are accessed"),
    ("rate_iops", "requests per second, independent of completions"),
    ("io_bytes", "bytes after which the job ends"),
    ("precondition", "random overwrites before it, in capacities"),
    ("warmup", "the same load before it, not measured"),
    ("measure", "virtual time, or capacities such as \"2x\""),
];

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

/// `name` is the file name in the first line.
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
            // An experiment without run settings still gets the suggestions.
            _ if section == "run" => out += "\n[run]\n",
            _ => {}
        }
        let keys = SUGGESTIONS.iter().filter(|(of, _)| *of == section);
        out.extend(keys.map(|(_, lines)| *lines));
    }
    out
}

/// Keys with a comment come first.
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
