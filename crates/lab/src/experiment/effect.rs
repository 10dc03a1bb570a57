//! Detects keys without effect, so no key of the user is ignored silently.
//!
//! 1. A key is refused if the setting that disables it comes from the same [`Place`] or a lower one.
//! 2. A key in a file is ignored with a note if the command line disables it. A sweep over workloads may thus
//!    give the keys of all of them.
//! 3. A key that comes from a preset is not checked.

use std::collections::BTreeMap;
use std::fmt;

use strobe_ssd::DriveConfig;
use strobe_ssd::schema::{self, Need};
use strobe_workload::lfs::LfsConfig;
use toml::{Table, Value};

use super::fio_names::ours;
use super::rules::{RULES, Rule};
use super::settings::{canonical, value_of};
use super::{RunConfig, SyntheticWorkload, TraceConfig, WorkloadConfig};
use crate::{ConfigError, Experiment};

/// Source of a key's value, from low to high.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// From the preset, or the default.
    Default,
    File,
    CommandLine,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Given(BTreeMap<String, Place>);

impl Given {
    pub(crate) fn new(file: &Table, sets: &[String]) -> Self {
        let mut given = BTreeMap::new();
        note(&Value::Table(file.clone()), "", Place::File, &mut given);
        for set in sets {
            let (path, value) = set.split_once('=').unwrap_or((set, ""));
            note(&value_of(value), &canonical(file, path), Place::CommandLine, &mut given);
        }
        Self(given)
    }

    fn place(&self, key: &str) -> Place {
        self.0.get(key).copied().unwrap_or(Place::Default)
    }

    /// Place of `key`, which may be given under fio's name.
    fn place_of_any_name(&self, key: &str) -> Place {
        let places = self.0.iter().filter(|(given, _)| ours(given) == key).map(|(_, place)| *place);
        places.max().unwrap_or(Place::Default)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.place(key) != Place::Default
    }

    pub(crate) fn on_command_line(&self, key: &str) -> bool {
        self.place(key) == Place::CommandLine
    }
}

/// Notes the keys of `value`, which is at `path`. Tables are not keys, and lists are.
fn note(value: &Value, path: &str, place: Place, given: &mut BTreeMap<String, Place>) {
    if let Value::Table(inner) = value {
        for (key, value) in inner {
            let key = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            note(value, &key, place, given);
        }
        return;
    }
    for (at, item) in value.as_array().into_iter().flatten().enumerate().filter(|(_, item)| item.is_table()) {
        note(item, &format!("{path}[{at}]"), place, given);
    }
    given.insert(path.to_owned(), place);
}

/// A key of the file that the command line has switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// Path of the key.
    pub key: String,
    /// Condition under which the key has an effect.
    pub wants: String,
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has no effect unless {}", self.key, self.wants)
    }
}

/// Refuses keys without effect, and returns those that the command line disabled. `without` builds the
/// experiment without a key: a key that makes no difference is allowed.
pub(crate) fn check(
    experiment: &Experiment,
    given: &Given,
    without: impl Fn(&str) -> Option<Experiment>,
) -> Result<Vec<Ignored>, ConfigError> {
    let alone = Alone::all(experiment);
    let mut ignored: Vec<Ignored> = Vec::new();
    let mut idle: Vec<Idle> = given.0.keys().flat_map(|key| idle(key, &alone, given)).collect();
    idle.sort_by_key(|idle| idle.rank);
    for Idle { key, wants, switches, .. } in idle {
        if without(&key).is_some_and(|other| other == *experiment) {
            continue;
        }
        // The switch from the highest place decides whether the key is an error or was switched off on
        // purpose.
        let switched = switches.iter().map(|switch| given.place_of_any_name(switch)).max();
        if switched.unwrap_or(Place::Default) <= given.place(&key) {
            return Err(ConfigError::NoEffect { key, wants });
        }
        if !ignored.iter().any(|ignored| ignored.key == key) {
            ignored.push(Ignored { key, wants });
        }
    }
    Ok(ignored)
}

/// The experiment, or the experiment with one of its jobs only.
struct Alone {
    experiment: Experiment,
    values: serde_json::Value,
}

impl Alone {
    fn all(experiment: &Experiment) -> Vec<Self> {
        let workloads = match &experiment.workload {
            WorkloadConfig::Jobs(jobs) => {
                jobs.iter().map(|job| WorkloadConfig::Synthetic(job.workload.clone())).collect()
            }
            workload => vec![workload.clone()],
        };
        let alone = |workload| {
            let experiment = Experiment { workload, ..experiment.clone() };
            let values = serde_json::to_value(&experiment).expect("an experiment is plain data");
            Self { experiment, values }
        };
        workloads.into_iter().map(alone).collect()
    }

    /// Needs of `key` by the schema.
    fn needs(&self, key: &str) -> Vec<Need<'static>> {
        let workload = match self.experiment.workload {
            WorkloadConfig::Trace(_) => schema::of::<TraceConfig>(),
            WorkloadConfig::Lfs(_) => schema::of::<LfsConfig>(),
            WorkloadConfig::Synthetic(_) | WorkloadConfig::Jobs(_) => schema::of::<SyntheticWorkload>(),
        };
        match key.split('.').next() {
            Some("drive") => Need::at(schema::of::<DriveConfig>(), key),
            Some("run") => Need::at(schema::of::<RunConfig>(), key),
            Some("workload") => Need::at(workload, key),
            _ => Vec::new(),
        }
    }
}

/// A key without effect.
struct Idle {
    /// Position of the reason: the rules in their order, then the needs of the schema.
    rank: usize,
    key: String,
    wants: String,
    /// Keys that disabled it.
    switches: Vec<String>,
}

/// A key of a job counts if it has an effect for that job, and a shared key if it has one for any job that
/// does not override it.
fn idle(given_key: &str, alone: &[Alone], given: &Given) -> Vec<Idle> {
    let key = ours(given_key);
    let (job, key) = match key.strip_prefix("jobs[").and_then(|key| key.split_once("].")) {
        Some((job, key)) => (job.parse().ok(), format!("workload.{key}")),
        None => (None, key),
    };
    let of_job = |at: usize, key: &str| key.strip_prefix("workload.").map(|key| format!("jobs[{at}].{key}"));
    let is_in = |at: usize| match job {
        Some(job) => at == job,
        None => of_job(at, &key).is_none_or(|own| given.place_of_any_name(&own) == Place::Default),
    };
    let alone: Vec<&Alone> = (0..alone.len()).filter(|&at| is_in(at)).map(|at| &alone[at]).collect();
    let Some(first) = alone.first() else { return Vec::new() };
    let idle = |rank: usize, wants: String, switches: Vec<String>| {
        let of_job = switches.iter().filter_map(|switch| of_job(job?, switch)).collect::<Vec<_>>();
        Idle { rank, key: given_key.to_owned(), wants, switches: [switches, of_job].concat() }
    };
    let rules = RULES.iter().enumerate().filter(|(_, rule)| rule.is_about(&key));
    let rules = rules.filter(|(_, rule)| !alone.iter().any(|one| (rule.counts)(&one.experiment)));
    let needs = first.needs(&key).into_iter();
    let needs = needs.filter(|need| need.keys().all(|switch| switch != key));
    let needs = needs.filter(|need| !alone.iter().any(|one| need.is_met(&one.values)));
    let switches = |rule: &Rule| rule.switches.iter().map(|&switch| switch.to_owned()).collect();
    rules
        .map(|(rank, rule)| idle(rank, rule.wants.to_owned(), switches(rule)))
        .chain(needs.map(|need| idle(RULES.len(), need.to_string(), need.keys().collect())))
        .collect()
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
            ("[drive.ftl]\nlog_victim=\"fullest\"", &[], "drive.ftl.log_victim", "log-block"),
            (
                "[drive]\npreset=\"ez-x5-32m\"\n[drive.ftl]\nmapping=\"fast\"\nlog_victim=\"fifo\"",
                &[],
                "drive.ftl.log_victim",
                "oldest log",
            ),
            (
                "[drive.nand.suspend]\nresume_ns=9",
                &[],
                "suspend.resume_ns",
                "drive.nand.suspend.most is above 0",
            ),
            (
                "[drive.nand.read_retry]\nmost=9",
                &[],
                "read_retry.most",
                "read_retry.fresh, per_kcycle, per_day",
            ),
            ("[drive.ftl.wear_leveling]\nthreshold=9", &[], "threshold", "kind is not \"none\""),
            (
                "",
                &["drive.controller.nvram={bytes=4096,ranges=[{first_sector=0,sectors=1}]}"],
                "ranges",
                "lba-range",
            ),
            (
                "[run]\ntiming=false\n[[drive.nand.faults.at]]\nblock=1\npage=2\nafter_ns=3",
                &[],
                "drive.nand.faults.at[0].after_ns",
                "run.timing = true",
            ),
            ("[drive.ftl.placement]\ntemperature=\"last-write\"", &[], "placement.temperature", "sorted"),
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
        let same = "[workload]\ntheta=1.1\n[drive.ftl.placement]\ntemperature=\"update-count\"";
        assert!(load(same, &[]).expect("the defaults").ignored.is_empty());
        let preset = "[drive.nand]\nread_ns=60_000\n[run]\ntiming=false";
        assert!(load(preset, &[]).expect("what the preset says").ignored.is_empty());
    }

    #[test]
    fn every_need_and_rule_names_keys_that_exist() {
        let root = schema::of::<Experiment>();
        fn visit(
            root: &serde_json::Value,
            node: &serde_json::Value,
            path: &str,
            keys: &mut BTreeMap<String, Vec<String>>,
        ) {
            let node = schema::resolve(root, node);
            for choice in node["anyOf"].as_array().into_iter().flatten() {
                visit(root, choice, path, keys);
            }
            for (key, inner) in node["properties"].as_object().into_iter().flatten() {
                let needs: Vec<String> = Need::of(inner, path).iter().flat_map(Need::keys).collect();
                let key = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                visit(root, inner, &key, keys);
                keys.entry(key).or_default().extend(needs);
            }
        }
        let mut keys = BTreeMap::new();
        visit(root, root, "", &mut keys);
        assert!(keys.values().flatten().count() > 50, "{keys:?}");
        let of_rules = RULES.iter().flat_map(|rule| rule.keys.iter().chain(rule.switches));
        for key in keys.values().flatten().map(String::as_str).chain(of_rules.copied()) {
            assert!(key.starts_with('*') || keys.contains_key(key), "there is no {key}");
        }
    }
}
