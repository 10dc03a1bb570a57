//! Keys that count only beside others: none that was set by hand may be without effect in silence.
//!
//! Where a key is given and the switch that would make it count says otherwise, in the same place or in one that
//! ranks lower, that is a slip and refused. A file may keep keys that the command line switches off (a sweep over
//! workloads gives all their keys); then a note says so. What a preset says is not asked about.

use std::collections::BTreeMap;
use std::fmt;

use strobe_ssd::{CopyMode, MigrationName, NvramPolicyName, WearLevelingName};
use strobe_workload::synthetic::Kind;
use toml::{Table, Value};

use crate::experiment::{PacingName, TraceConfig, WorkloadConfig};
use crate::{ConfigError, Experiment};

/// Where a key was given; later ones win.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Nowhere: a preset or its default says it.
    Default,
    File,
    CommandLine,
}

/// The keys that somebody gave, and where.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given(BTreeMap<String, Place>);

impl Given {
    /// Notes the keys of `file`, and those of `sets`, which the command line gave.
    pub(crate) fn new(file: &Table, sets: &[String]) -> Self {
        let mut given = BTreeMap::new();
        note(file, "", &mut given);
        for set in sets {
            let key = set.split('=').next().unwrap_or_default();
            let key = key.split('.').map(str::trim).collect::<Vec<_>>().join(".");
            given.insert(key, Place::CommandLine);
        }
        Self(given)
    }

    /// Where `key` was given; a table that was given in one piece gives its keys.
    fn place(&self, key: &str) -> Place {
        self.0.get(key).copied().unwrap_or(Place::Default)
    }

    /// Whether `key` was given on the command line.
    pub(crate) fn on_command_line(&self, key: &str) -> bool {
        self.place(key) == Place::CommandLine
    }
}

fn note(table: &Table, path: &str, given: &mut BTreeMap<String, Place>) {
    for (key, value) in table {
        let key = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        if let Value::Table(inner) = value {
            note(inner, &key, given);
        }
        given.insert(key, Place::File);
    }
}

/// Keys that share what makes them count.
struct Rule {
    keys: &'static [&'static str],
    /// The key that decides; the first that was given highest.
    switches: &'static [&'static str],
    /// What makes them count, as it would be written.
    wants: &'static str,
    counts: fn(&Experiment) -> bool,
}

fn kind(experiment: &Experiment) -> Option<Kind> {
    match &experiment.workload {
        WorkloadConfig::Synthetic(workload) => Some(workload.generator.kind),
        WorkloadConfig::Trace(_) => None,
    }
}

fn trace(experiment: &Experiment) -> Option<&TraceConfig> {
    match &experiment.workload {
        WorkloadConfig::Trace(trace) => Some(trace),
        WorkloadConfig::Synthetic(_) => None,
    }
}

fn is_open_loop(experiment: &Experiment) -> bool {
    trace(experiment).is_some_and(|trace| trace.pacing == PacingName::Open)
}

fn maps_blocks(experiment: &Experiment) -> bool {
    !matches!(experiment.drive.ftl.mapping.as_str(), "page" | "dftl")
}

/// What fio calls the key that decides about addresses.
const KIND: &[&str] = &["workload.kind", "workload.rw", "workload.random_distribution"];
const TIMING: &[&str] = &["run.timing"];

const RULES: &[Rule] = &[
    Rule {
        keys: &["workload.theta"],
        switches: KIND,
        wants: "workload.kind = \"zipf\"",
        counts: |e| kind(e) == Some(Kind::Zipf),
    },
    Rule {
        keys: &["workload.hot_fraction", "workload.hot_write_share"],
        switches: KIND,
        wants: "workload.kind = \"hotcold\"",
        counts: |e| kind(e) == Some(Kind::Hotcold),
    },
    Rule {
        keys: &["workload.sigma", "workload.hot_share"],
        switches: KIND,
        wants: "workload.kind = \"gaussian\"",
        counts: |e| kind(e) == Some(Kind::Gaussian),
    },
    Rule {
        keys: &["workload.scatter"],
        switches: KIND,
        wants: "workload.kind = \"zipf\" or \"hotcold\"",
        counts: |e| matches!(kind(e), Some(Kind::Zipf | Kind::Hotcold)),
    },
    Rule {
        keys: &["workload.flush_every"],
        switches: KIND,
        wants: "a workload other than \"trace\" (a trace brings its own flushes)",
        counts: |e| kind(e).is_some(),
    },
    Rule {
        keys: &["workload.queue_depth", "workload.iodepth", "workload.rate_iops"],
        switches: &["workload.pacing", "workload.kind"],
        wants: "workload.pacing = \"closed\" (--closed-loop); in open loop the trace's own times decide",
        counts: |e| !is_open_loop(e),
    },
    Rule {
        keys: &["workload.late"],
        switches: &["workload.pacing", "workload.kind"],
        wants: "workload.pacing = \"open\" (without --closed-loop)",
        counts: is_open_loop,
    },
    Rule {
        keys: &["workload.queue_depth", "workload.iodepth", "workload.rate_iops", "workload.pacing"],
        switches: TIMING,
        wants: "run.timing = true; without time requests are only counted",
        counts: |e| e.run.timing,
    },
    Rule {
        keys: &[
            "drive.nand.read_ns",
            "drive.nand.program_ns",
            "drive.nand.erase_ns",
            "drive.nand.channel_mb_s",
            "drive.nand.cache_program",
            "drive.nand.spare_bytes",
            "drive.controller.command_ns",
            "drive.controller.range_ns",
            "drive.controller.link_mb_s",
            "drive.controller.trim.command_ns",
            "drive.controller.trim.range_ns",
            "drive.controller.trim.partial_ns",
            "drive.controller.trim.jump_ns",
            "drive.controller.trim.adjacent_ns",
            "drive.controller.trim.mib_ns",
            "drive.controller.nvram.read_ns",
            "drive.controller.nvram.write_ns",
        ],
        switches: TIMING,
        wants: "run.timing = true; without time operations are only counted",
        counts: |e| e.run.timing,
    },
    Rule {
        keys: &[
            "drive.controller.nvram.policy",
            "drive.controller.nvram.ranges",
            "drive.controller.nvram.read_ns",
            "drive.controller.nvram.write_ns",
        ],
        switches: &["drive.controller.nvram.bytes"],
        wants: "drive.controller.nvram.bytes above 0",
        counts: |e| e.drive.controller.nvram.bytes > 0,
    },
    Rule {
        keys: &["drive.controller.nvram.ranges"],
        switches: &["drive.controller.nvram.policy"],
        wants: "drive.controller.nvram.policy = \"lba-range\"",
        counts: |e| e.drive.controller.nvram.policy == NvramPolicyName::LbaRange,
    },
    Rule {
        keys: &["drive.ftl.log_blocks"],
        switches: &["drive.ftl.mapping"],
        wants: "drive.ftl.mapping = \"replacement-block\", \"log-block\" or \"fast\"",
        counts: maps_blocks,
    },
    Rule {
        keys: &[
            "drive.ftl.translation.cached_entries",
            "drive.ftl.translation.batched_eviction",
            "drive.ftl.translation.fetched_entries",
        ],
        switches: &["drive.ftl.mapping"],
        wants: "drive.ftl.mapping = \"dftl\"",
        counts: |e| e.drive.ftl.mapping == "dftl",
    },
    Rule {
        keys: &[
            "drive.ftl.allocation",
            "drive.ftl.wear_leveling.kind",
            "drive.ftl.wear_leveling.threshold",
            "drive.ftl.wear_leveling.set_blocks",
            "drive.ftl.gc.victim",
            "drive.ftl.gc.choices",
            "drive.ftl.gc.window",
            "drive.ftl.gc.migration",
            "drive.ftl.gc.temperature",
            "drive.ftl.gc.stream",
            "drive.ftl.gc.min_free_blocks",
            "drive.ftl.gc.net_blocks",
        ],
        switches: &["drive.ftl.mapping"],
        wants: "drive.ftl.mapping = \"page\" or \"dftl\"; block-mapped schemes merge instead of collecting",
        counts: |e| !maps_blocks(e),
    },
    Rule {
        keys: &["drive.ftl.gc.choices"],
        switches: &["drive.ftl.gc.victim"],
        wants: "drive.ftl.gc.victim = \"d-choices\"",
        counts: |e| e.drive.ftl.gc.victim == "d-choices",
    },
    Rule {
        keys: &["drive.ftl.gc.window"],
        switches: &["drive.ftl.gc.victim"],
        wants: "drive.ftl.gc.victim = \"windowed-greedy\"",
        counts: |e| e.drive.ftl.gc.victim == "windowed-greedy",
    },
    Rule {
        keys: &["drive.ftl.gc.temperature"],
        switches: &["drive.ftl.gc.migration"],
        wants: "drive.ftl.gc.migration = \"hot-cold\" or \"sorted\"",
        counts: |e| e.drive.ftl.gc.migration != MigrationName::None,
    },
    Rule {
        keys: &["drive.ftl.wear_leveling.threshold"],
        switches: &["drive.ftl.wear_leveling.kind"],
        wants: "drive.ftl.wear_leveling.kind other than \"none\"",
        counts: |e| e.drive.ftl.wear_leveling.kind != WearLevelingName::None,
    },
    Rule {
        keys: &["drive.ftl.wear_leveling.set_blocks"],
        switches: &["drive.ftl.wear_leveling.kind"],
        wants: "drive.ftl.wear_leveling.kind = \"sw-leveler\"",
        counts: |e| e.drive.ftl.wear_leveling.kind == WearLevelingName::SwLeveler,
    },
    Rule {
        keys: &["drive.ftl.virtual_map_entries"],
        switches: &["drive.ftl.copy_mode"],
        wants: "drive.ftl.copy_mode = \"logical\"",
        counts: |e| e.drive.ftl.copy_mode == CopyMode::Logical,
    },
    Rule {
        keys: &["drive.ftl.map_blocks"],
        switches: &["drive.ftl.durable_map"],
        wants: "drive.ftl.durable_map = true",
        counts: |e| e.drive.ftl.durable_map,
    },
];

/// A key of the file that the command line has switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// The key.
    pub key: String,
    /// What would make it count.
    pub wants: String,
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has no effect here: it counts with {}", self.key, self.wants)
    }
}

/// Refuses keys that have no effect because of what was given in the same place or a lower one; returns those that the
/// command line has switched off. `without` is the experiment without a key: a key that says what holds without it
/// does no harm.
pub(crate) fn check(
    experiment: &Experiment,
    given: &Given,
    without: impl Fn(&str) -> Option<Experiment>,
) -> Result<Vec<Ignored>, ConfigError> {
    let mut ignored: Vec<Ignored> = Vec::new();
    for rule in RULES.iter().filter(|rule| !(rule.counts)(experiment)) {
        for key in rule.keys {
            let place = given.place(key);
            if place == Place::Default || without(key).is_some_and(|other| other == *experiment) {
                continue;
            }
            let switched = rule.switches.iter().map(|switch| given.place(switch)).max();
            if switched.unwrap_or(Place::Default) <= place {
                return Err(ConfigError::NoEffect { key: (*key).to_owned(), wants: rule.wants.to_owned() });
            }
            if !ignored.iter().any(|ignored| ignored.key == *key) {
                ignored.push(Ignored { key: (*key).to_owned(), wants: rule.wants.to_owned() });
            }
        }
    }
    Ok(ignored)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn load(text: &str, sets: &[&str]) -> Result<Experiment, ConfigError> {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        Experiment::from_table(text.parse().expect("TOML"), &sets, Path::new(""))
    }

    #[test]
    fn keys_without_effect_are_refused_where_they_were_set() {
        for (text, sets, key, cure) in [
            ("[workload]\nkind=\"hotcold\"\ntheta=1.2", &[][..], "workload.theta", "zipf"),
            ("[workload]\nhot_share=0.1", &[], "workload.hot_share", "gaussian"),
            ("", &["workload.theta=1"], "workload.theta", "zipf"),
            ("[workload]\nrate_iops=5\n[run]\ntiming=false", &[], "workload.rate_iops", "run.timing = true"),
            ("[run]\ntiming=false", &["drive.controller.command_ns=5"], "command_ns", "run.timing = true"),
            ("[drive.ftl]\nlog_blocks=8", &[], "drive.ftl.log_blocks", "fast"),
            ("[drive.ftl.gc]\ntemperature=\"last-write\"", &[], "gc.temperature", "sorted"),
            (
                "[workload]\nkind=\"trace\"\npath=\"x\"\nformat=\"fio\"\nqueue_depth=4",
                &[],
                "workload.queue_depth",
                "closed",
            ),
            (
                "[drive]\npreset=\"ez-x5-32m\"\n[drive.ftl]\nmapping=\"fast\"",
                &["drive.ftl.gc.victim=fifo"],
                "drive.ftl.gc.victim",
                "page",
            ),
        ] {
            let error = load(text, sets).expect_err(key).to_string();
            assert!(error.contains(key) && error.contains("no effect") && error.contains(cure), "{error}");
        }
    }

    #[test]
    fn what_the_command_line_switches_off_the_file_may_keep_and_a_note_says_so() {
        let zipf = "[workload]\nkind=\"zipf\"\ntheta=1.2";
        let experiment = load(zipf, &["workload.kind=uniform"]).expect("a sweep over kinds");
        assert_eq!(experiment.ignored.len(), 1, "{:?}", experiment.ignored);
        assert!(experiment.ignored[0].to_string().contains("workload.theta"), "{:?}", experiment.ignored);
        assert!(!experiment.to_toml().contains("theta"), "what is printed can be used again");
        assert!(load(&experiment.to_toml(), &[]).expect("again").ignored.is_empty());
        assert!(load(zipf, &[]).expect("it counts").ignored.is_empty());
        let timed = "[drive.nand]\nread_ns=50_000";
        assert_eq!(load(timed, &["run.timing=false"]).expect("a count").ignored.len(), 1);
    }

    #[test]
    fn a_key_that_says_what_holds_anyway_does_no_harm() {
        let same = "[workload]\ntheta=1.1\n[drive.ftl.gc]\ntemperature=\"update-count\"";
        assert!(load(same, &[]).expect("the defaults").ignored.is_empty());
        let preset = "[drive.nand]\nread_ns=60_000\n[run]\ntiming=false";
        assert!(load(preset, &[]).expect("what the preset says").ignored.is_empty());
    }

    #[test]
    fn every_rule_names_keys_that_exist() {
        let schema = schemars::schema_for!(strobe_ssd::DriveConfig).to_value();
        for rule in RULES {
            for key in rule.keys.iter().chain(rule.switches).filter(|key| key.starts_with("drive.")) {
                let mut node = &schema;
                for name in key.split('.').skip(1) {
                    let at = node["$ref"].as_str().or_else(|| node["allOf"][0]["$ref"].as_str());
                    if let Some(name) = at.and_then(|at| at.strip_prefix("#/$defs/")) {
                        node = &schema["$defs"][name];
                    }
                    node = &node["properties"][name];
                    assert!(node.is_object(), "{key}: there is no {name}");
                }
            }
        }
    }
}
