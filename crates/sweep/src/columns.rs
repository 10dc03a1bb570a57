use std::collections::BTreeMap;

use serde_json::Value;
use strobe_lab::points::digest;

use crate::measures::{LEFT_OUT, OPS, PERCENTILES};
use crate::{Outcome, Plan, Store, SweepError};

/// Values of a column; `None` where a row has no value.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Integers.
    Whole(Vec<Option<i64>>),
    /// Floating-point numbers.
    Number(Vec<Option<f64>>),
    /// Booleans.
    Truth(Vec<Option<bool>>),
    /// Text.
    Text(Vec<Option<String>>),
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Path in the result with dots (`gc.copies_per_erase`), or a key of the sweep.
    pub name: String,
    /// Values, one per row.
    pub values: Values,
}

/// Flattens a result: every number, boolean and text by its path.
///
/// Paths for jobs are `read.p99_ns`, `write.iops`, and `sync.p50_ns` for flushes; `jobs.NAME.read.p99_ns`
/// covers one of several jobs. Latencies count from arrival for open-loop workloads, else from issue.
pub(crate) fn flat(result: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    if let Some(entries) = result.as_object() {
        for (key, value) in entries.iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str())) {
            scalars(key, value, &mut found);
        }
    }
    let jobs = result["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(all) = result["total"].as_object().map(|_| &result["total"]).or(jobs.first()) {
        job("", all, &mut found);
    }
    if jobs.len() > 1 {
        for one in jobs {
            job(&format!("jobs.{}.", one["jobname"].as_str().unwrap_or_default()), one, &mut found);
        }
    }
    found
}

fn scalars(path: &str, value: &Value, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(entries) => {
            entries.iter().for_each(|(key, value)| scalars(&format!("{path}.{key}"), value, found));
        }
        Value::Array(_) | Value::Null => {}
        value => drop(found.insert(path.to_owned(), value.clone())),
    }
}

fn job(prefix: &str, job: &Value, found: &mut BTreeMap<String, Value>) {
    for op in OPS {
        let side = &job[op];
        if side["total_ios"].as_u64().is_none_or(|requests| requests == 0) {
            continue;
        }
        let mut put = |name: &str, value: &Value| {
            if value.is_number() {
                found.insert(format!("{prefix}{op}.{name}"), value.clone());
            }
        };
        ["iops", "bw_bytes", "io_bytes", "total_ios"].iter().for_each(|name| put(name, &side[*name]));
        // In open loop the latency counts from arrival; in closed loop only the latency from issue exists.
        let latency = if side["lat_ns"].is_object() { &side["lat_ns"] } else { &side["clat_ns"] };
        put("mean_ns", &latency["mean"]);
        put("max_ns", &latency["max"]);
        PERCENTILES.iter().for_each(|(name, percentile)| put(name, &latency["percentile"][*percentile]));
    }
}

pub(crate) fn measure_of(result: &Value, name: &str) -> Option<f64> {
    flat(result).get(name)?.as_f64()
}

/// Digest of a result without its seed and without the path of its trace: runs of a sweep that was resumed
/// from another folder name the trace by another path.
pub(crate) fn digest_without_seed(result: &Value) -> String {
    let mut rest = result.clone();
    let trace = rest.pointer("/config/workload/path").cloned();
    let mut remove = |table: &str, key: &str| {
        rest.pointer_mut(table).and_then(Value::as_object_mut).map(|entries| entries.remove(key));
    };
    remove("", "seed");
    remove("/config", "seed");
    if trace.is_some() {
        remove("", "config_hash");
        remove("/config/workload", "path");
        // The job of a trace has the path as its name.
        remove("/jobs/0", "jobname");
    }
    digest(&rest.to_string())
}

/// Rows of a sweep, in plan order.
#[derive(Debug)]
pub struct Rows<'a> {
    plan: &'a Plan,
    points: Vec<usize>,
    columns: Vec<(String, Kind)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Whole,
    Number,
    Truth,
    Text,
}

impl Kind {
    fn of(value: &Value) -> Self {
        match value {
            Value::Bool(_) => Kind::Truth,
            Value::Number(number) if number.is_i64() => Kind::Whole,
            Value::Number(_) => Kind::Number,
            _ => Kind::Text,
        }
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (one, two) if one == two => one,
            (Kind::Whole, Kind::Number) | (Kind::Number, Kind::Whole) => Kind::Number,
            // Values of different kinds have a common column only as text.
            _ => Kind::Text,
        }
    }

    fn column(self, values: Vec<Option<Value>>) -> Values {
        let each = |value: Option<Value>| value;
        let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let values = values.into_iter().map(each);
        match self {
            Kind::Whole => Values::Whole(values.map(|value| value?.as_i64()).collect()),
            Kind::Number => Values::Number(values.map(|value| value?.as_f64()).collect()),
            Kind::Truth => Values::Truth(values.map(|value| value?.as_bool()).collect()),
            Kind::Text => Values::Text(values.map(|value| value.map(text)).collect()),
        }
    }
}

fn outcome_of(plan: &Plan, store: &Store, point: usize) -> Result<Outcome, SweepError> {
    if let Some(refused) = plan.refused(point) {
        return Ok(Outcome::Failed(refused.to_owned()));
    }
    let found = store.find(&plan.points[point].key)?;
    Ok(found.unwrap_or_else(|| Outcome::Lost("not run".to_owned())))
}

impl<'a> Rows<'a> {
    /// Finds the columns of `points`. Results are read from `store` one by one, here and again in
    /// [`Rows::columns`].
    pub fn new(plan: &'a Plan, store: &Store, points: Vec<usize>) -> Result<Self, SweepError> {
        let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
        for &point in &points {
            if let Outcome::Done(result) = outcome_of(plan, store, point)? {
                for (name, value) in flat(&result) {
                    let kind = Kind::of(&value);
                    kinds.entry(name).and_modify(|known| *known = known.and(kind)).or_insert(kind);
                }
            }
        }
        Ok(Self { plan, points, columns: kinds.into_iter().collect() })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Names of the result columns, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(name, _)| name.as_str())
    }

    /// Columns of the rows in `range`: the keys of the sweep, `seed`, `key`, `config_hash`, `status` (`done`,
    /// `failed` or `lost`), `error`, the result columns, and `result` (the whole result as JSON).
    pub fn columns(&self, range: std::ops::Range<usize>, store: &Store) -> Result<Vec<Column>, SweepError> {
        let points = &self.points[range];
        let mut columns = self.leading(points);
        let (mut status, mut errors, mut results) = (Vec::new(), Vec::new(), Vec::new());
        let mut found: Vec<BTreeMap<String, Value>> = Vec::with_capacity(points.len());
        for &point in points {
            let (name, error, result) = match outcome_of(self.plan, store, point)? {
                Outcome::Done(result) => ("done", None, Some(result)),
                Outcome::Failed(error) => ("failed", Some(error), None),
                Outcome::Lost(error) => ("lost", Some(error), None),
            };
            status.push(Some(name.to_owned()));
            errors.push(error);
            found.push(result.as_ref().map(flat).unwrap_or_default());
            results.push(result.map(|result| result.to_string()));
        }
        columns.push(Column { name: "status".to_owned(), values: Values::Text(status) });
        columns.push(Column { name: "error".to_owned(), values: Values::Text(errors) });
        for (name, kind) in &self.columns {
            let values = found.iter_mut().map(|row| row.remove(name)).collect();
            // A leading column already has the hash, also for rows without a result.
            if name != "config_hash" {
                columns.push(Column { name: name.clone(), values: kind.column(values) });
            }
        }
        columns.push(Column { name: "result".to_owned(), values: Values::Text(results) });
        Ok(columns)
    }

    fn leading(&self, points: &[usize]) -> Vec<Column> {
        let of = |point: usize| &self.plan.points[point];
        let text = |name: &str, value: &dyn Fn(usize) -> String| Column {
            name: name.to_owned(),
            values: Values::Text(points.iter().map(|&point| Some(value(point))).collect()),
        };
        let json = |value: &toml::Value| serde_json::to_value(value).unwrap_or(Value::Null);
        let mut columns: Vec<Column> = Vec::new();
        for (at, key) in self.plan.keys.iter().enumerate() {
            // The kind of a key column depends on the whole sweep, not on the selected rows.
            let all =
                self.plan.configurations.iter().filter_map(|configuration| configuration.values[at].as_ref());
            let kind = all.map(|value| Kind::of(&json(value))).reduce(Kind::and).unwrap_or(Kind::Text);
            let values = points.iter().map(|&point| {
                self.plan.configurations[of(point).configuration].values[at].as_ref().map(json)
            });
            columns.push(Column { name: key.clone(), values: kind.column(values.collect()) });
        }
        let seeds = points.iter().map(|&point| i64::try_from(of(point).seed).ok()).collect();
        columns.push(Column { name: "seed".to_owned(), values: Values::Whole(seeds) });
        columns.push(text("key", &|point| of(point).key.clone()));
        columns.push(text("config_hash", &|point| {
            self.plan.configurations[of(point).configuration].config_hash.clone()
        }));
        columns
    }
}
