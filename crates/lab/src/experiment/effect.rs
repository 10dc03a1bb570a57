//! Detects keys without effect, so no key of the user is ignored silently.
//!
//! 1. A key is refused if the setting that disables it comes from the same [`Place`] or a lower one.
//! 2. A key in a file is ignored with a note if the command line disables it. A sweep over workloads may thus
//!    give the keys of all of them.
//! 3. A key that comes from a preset is not checked.

use std::collections::BTreeMap;
use std::fmt;

use toml::{Table, Value};

use super::drive_rules::OF_DRIVES;
use super::rules::{OF_WORKLOADS, Rule};
use super::settings::canonical;
use crate::experiment::WorkloadConfig;
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
        note(file, "", &mut given);
        for set in sets {
            let key = canonical(file, set.split('=').next().unwrap_or_default());
            given.insert(key, Place::CommandLine);
        }
        Self(given)
    }

    fn place(&self, key: &str) -> Place {
        self.0.get(key).copied().unwrap_or(Place::Default)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.place(key) != Place::Default
    }

    pub(crate) fn on_command_line(&self, key: &str) -> bool {
        self.place(key) == Place::CommandLine
    }
}

fn note(table: &Table, path: &str, given: &mut BTreeMap<String, Place>) {
    for (key, value) in table {
        let key = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match value {
            Value::Table(inner) => note(inner, &key, given),
            Value::Array(items) => {
                for (at, item) in
                    items.iter().enumerate().filter_map(|(at, item)| Some((at, item.as_table()?)))
                {
                    note(item, &format!("{key}[{at}]"), given);
                }
            }
            _ => {}
        }
        given.insert(key, Place::File);
    }
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
    let mut ignored: Vec<Ignored> = Vec::new();
    for rule in OF_WORKLOADS.iter().chain(OF_DRIVES) {
        for (key, switches) in idle_keys(rule, experiment, given) {
            let place = given.place(&key);
            if place == Place::Default || without(&key).is_some_and(|other| other == *experiment) {
                continue;
            }
            // The switch from the highest place decides whether the key is an error or was switched off on
            // purpose.
            let switched = switches.iter().map(|switch| given.place(switch)).max();
            if switched.unwrap_or(Place::Default) <= place {
                return Err(ConfigError::NoEffect { key, wants: rule.wants.to_owned() });
            }
            if !ignored.iter().any(|ignored| ignored.key == key) {
                ignored.push(Ignored { key, wants: rule.wants.to_owned() });
            }
        }
    }
    Ok(ignored)
}

fn idle_keys(rule: &Rule, experiment: &Experiment, given: &Given) -> Vec<(String, Vec<String>)> {
    let owned = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    let WorkloadConfig::Jobs(jobs) = &experiment.workload else {
        let keys = if (rule.counts)(experiment) { Vec::new() } else { owned(rule.keys) };
        return keys.into_iter().map(|key| (key, owned(rule.switches))).collect();
    };
    // Each job is checked as if it were alone.
    let is_idle: Vec<bool> = jobs
        .iter()
        .map(|job| {
            let workload = WorkloadConfig::Synthetic(job.workload.clone());
            !(rule.counts)(&Experiment { workload, ..experiment.clone() })
        })
        .collect();
    let of_job = |at: usize, key: &str| key.strip_prefix("workload.").map(|key| format!("jobs[{at}].{key}"));
    let mut idle = Vec::new();
    for key in rule.keys {
        let own = |at| of_job(at, key).filter(|own| given.place(own) != Place::Default);
        for at in (0..jobs.len()).filter(|&at| is_idle[at]) {
            if let Some(own) = own(at) {
                let switches = rule.switches.iter().filter_map(|switch| of_job(at, switch));
                idle.push((own, switches.chain(owned(rule.switches)).collect()));
            }
        }
        // A shared key counts if it has an effect for any job that does not override it.
        if (0..jobs.len()).all(|at| is_idle[at] || own(at).is_some()) && is_idle.contains(&true) {
            idle.push(((*key).to_owned(), owned(rule.switches)));
        }
    }
    idle
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
    fn every_rule_names_keys_that_exist() {
        let schema = schemars::schema_for!(strobe_ssd::DriveConfig).to_value();
        for rule in OF_WORKLOADS.iter().chain(OF_DRIVES) {
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
