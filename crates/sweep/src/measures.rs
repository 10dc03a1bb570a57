//! Result columns of a sweep, known before any run.

use std::collections::BTreeSet;

use serde_json::Value;
use strobe_lab::{Experiment, RunResult, WorkloadConfig};
use strobe_ssd::schema::{self, nearest, resolve};

use crate::SweepError;

const COUNTED: [&str; 2] = ["io_bytes", "total_ios"];
const TIMED: [&str; 4] = ["iops", "bw_bytes", "mean_ns", "max_ns"];
const TIMED_TABLES: [&str; 3] = ["dies.", "load.", "long_wait."];

/// Result keys without columns: the sweep's keys cover `config`, lists are in the column `result`, and the
/// first job (or the total) has separate columns.
pub(crate) const LEFT_OUT: [&str; 4] = ["config", "jobs", "total", "seed"];

pub(crate) const PERCENTILES: [(&str, &str); 6] = [
    ("p50_ns", "50.000000"),
    ("p90_ns", "90.000000"),
    ("p95_ns", "95.000000"),
    ("p99_ns", "99.000000"),
    ("p99_9_ns", "99.900000"),
    ("p99_99_ns", "99.990000"),
];

pub(crate) const OPS: [&str; 4] = ["read", "write", "trim", "sync"];

#[derive(Debug, Default)]
pub(crate) struct Features {
    has_times: bool,
    reads: bool,
    writes: bool,
    jobs: BTreeSet<String>,
}

/// True if a high value of `measure` is better, false if a low one is; `None` if neither is better as such.
pub(crate) fn is_higher_better(measure: &str) -> Option<bool> {
    if measure.ends_with("iops") || measure.ends_with("bw_bytes") {
        return Some(true);
    }
    let is_cost = measure.starts_with("waf")
        || measure.ends_with("_ns")
        || measure.starts_with("nand.")
        || measure == "gc.copies_per_erase";
    is_cost.then_some(false)
}

/// True for a percentile, for which a run with too few requests has no value.
pub(crate) fn is_percentile(measure: &str) -> bool {
    PERCENTILES.iter().any(|(name, _)| measure.ends_with(&format!(".{name}")))
}

#[derive(Debug, Default)]
struct Columns {
    names: BTreeSet<String>,
    /// Prefixes of names whose rest is known only from results.
    open: Vec<String>,
}

impl Columns {
    fn has(&self, name: &str) -> bool {
        self.names.contains(name) || self.open.iter().any(|begin| name.starts_with(begin.as_str()))
    }

    fn add(&mut self, root: &Value, node: &Value, path: &str) {
        let node = resolve(root, node);
        for (key, inner) in node["properties"].as_object().into_iter().flatten() {
            if !(path.is_empty() && LEFT_OUT.contains(&key.as_str())) {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                self.add(root, inner, &path);
            }
        }
        if node["additionalProperties"].is_object() {
            self.open.push(format!("{path}."));
        }
        let kinds = match &node["type"] {
            Value::Array(kinds) => kinds.clone(),
            kind => vec![kind.clone()],
        };
        if kinds.iter().any(|kind| kind == "number" || kind == "integer") {
            self.names.insert(path.to_owned());
        }
    }

    fn add_job(&mut self, prefix: &str, has_times: bool) {
        let timed = TIMED.into_iter().chain(PERCENTILES.map(|(name, _)| name)).filter(|_| has_times);
        let columns: Vec<&str> = COUNTED.into_iter().chain(timed).collect();
        for op in OPS {
            self.names.extend(columns.iter().map(|column| format!("{prefix}{op}.{column}")));
        }
    }
}

impl Features {
    pub(crate) fn add(&mut self, experiment: &Experiment) {
        self.has_times |= experiment.run.timing;
        let mut of = |write_fraction: f64| {
            self.reads |= write_fraction < 1.0;
            self.writes |= write_fraction > 0.0;
        };
        match &experiment.workload {
            WorkloadConfig::Synthetic(workload) => of(workload.generator.write_fraction),
            WorkloadConfig::Jobs(jobs) => {
                for job in jobs {
                    of(job.workload.generator.write_fraction);
                    self.jobs.insert(job.name.clone());
                }
            }
            _ => (self.reads, self.writes) = (true, true),
        }
    }

    fn columns(&self, has_times: bool) -> Columns {
        let mut columns = Columns::default();
        let root = schema::of::<RunResult>();
        columns.add(root, root, "");
        columns.add_job("", has_times);
        for job in &self.jobs {
            columns.add_job(&format!("jobs.{job}."), has_times);
            // Copies of a job have numbers appended to its name.
            columns.open.push(format!("jobs.{job}."));
        }
        if !has_times {
            columns.names.retain(|name| !TIMED_TABLES.iter().any(|table| name.starts_with(table)));
        }
        let without = |op: &str, is_there: bool| if is_there { None } else { Some(format!("{op}.")) };
        for op in [without("read", self.reads), without("write", self.writes)].into_iter().flatten() {
            columns.names.retain(|name| !name.starts_with(&op));
        }
        columns
    }

    pub(crate) fn check(&self, measures: &[String]) -> Result<(), SweepError> {
        let columns = self.columns(self.has_times);
        let Some(missing) = measures.iter().find(|measure| !columns.has(measure)) else { return Ok(()) };
        // If timing alone is missing, the cure is run.timing and not another name.
        let what = if !self.has_times && self.columns(true).has(missing) {
            format!(
                "\"{missing}\" needs times, and run.timing = false counts operations only: set it to true"
            )
        } else {
            let hint = nearest(missing, columns.names.iter().map(String::as_str));
            let hint = hint.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
            format!(
                "no result of this sweep will have a column \"{missing}\"{hint}; columns are the paths of \
                 `strobe schema result --markdown`, and read, write, trim, sync with .p99_ns, .mean_ns, .iops, ..."
            )
        };
        Err(SweepError::key("measure", what))
    }
}
