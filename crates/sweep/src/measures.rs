//! Columns that the results of a sweep will have, known before anything is run.

use std::collections::BTreeSet;

use serde_json::Value;
use strobe_lab::{Experiment, RunResult, WorkloadConfig};
use strobe_ssd::schema::{self, nearest, resolve};

use crate::SweepError;

/// Columns of a kind of request that need no times.
const COUNTED: [&str; 2] = ["io_bytes", "total_ios"];
/// Columns of a kind of request that need times, besides percentiles.
const TIMED: [&str; 4] = ["iops", "bw_bytes", "mean_ns", "max_ns"];
/// Tables of a result that are not there without times.
const TIMED_TABLES: [&str; 3] = ["dies.", "load.", "long_wait."];

/// Keys of a result that are no columns: `config` is in the keys of the sweep, lists are in the column `result`, and the first
/// job, or all together, has columns of its own.
pub(crate) const LEFT_OUT: [&str; 4] = ["config", "jobs", "total", "seed"];

/// Percentiles of latencies that are columns.
pub(crate) const PERCENTILES: [(&str, &str); 6] = [
    ("p50_ns", "50.000000"),
    ("p90_ns", "90.000000"),
    ("p95_ns", "95.000000"),
    ("p99_ns", "99.000000"),
    ("p99_9_ns", "99.900000"),
    ("p99_99_ns", "99.990000"),
];

/// Kinds of requests that have columns.
pub(crate) const OPS: [&str; 4] = ["read", "write", "trim", "sync"];

/// Features of a sweep's experiments that decide which columns their results have.
#[derive(Debug, Default)]
pub(crate) struct Features {
    has_times: bool,
    reads: bool,
    writes: bool,
    jobs: BTreeSet<String>,
}

/// Columns of results.
#[derive(Debug, Default)]
struct Columns {
    names: BTreeSet<String>,
    /// Beginnings of names whose ends are only known from a result.
    open: Vec<String>,
}

impl Columns {
    fn has(&self, name: &str) -> bool {
        self.names.contains(name) || self.open.iter().any(|begin| name.starts_with(begin.as_str()))
    }

    /// Adds the numbers below `node` of the schema `root`.
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

    /// Adds those of the requests of one job, or of all.
    fn add_job(&mut self, prefix: &str, has_times: bool) {
        let timed = TIMED.into_iter().chain(PERCENTILES.map(|(name, _)| name)).filter(|_| has_times);
        let columns: Vec<&str> = COUNTED.into_iter().chain(timed).collect();
        for op in OPS {
            self.names.extend(columns.iter().map(|column| format!("{prefix}{op}.{column}")));
        }
    }
}

impl Features {
    /// Takes note of one experiment.
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
            // Whatever the trace or the file system asks for.
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
            // Copies of a job have numbers behind its name.
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

    /// Refuses a measure that none of the results will have.
    pub(crate) fn check(&self, measures: &[String]) -> Result<(), SweepError> {
        let columns = self.columns(self.has_times);
        let Some(missing) = measures.iter().find(|measure| !columns.has(measure)) else { return Ok(()) };
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
