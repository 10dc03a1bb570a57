//! A sweep file is an experiment file with an additional table, `[sweep]`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use strobe_lab::{apply_sets, load_table};
use strobe_ssd::schema::nearest;
use toml::{Table, Value};

use crate::{Names, Seeds, SweepError};

const KEYS: [&str; 13] = [
    "grid",
    "points",
    "names",
    "seeds",
    "seeds_max",
    "until",
    "measure",
    "compare",
    "x",
    "pairs",
    "confidence",
    "retries",
    "share_warmup",
];

const TRACE: &str = "workload.path";

/// Content of a sweep file.
#[derive(Clone, Debug)]
pub struct SweepFile {
    /// Experiment without `[sweep]`.
    pub experiment: Table,
    /// Base folder of relative paths in the experiment.
    pub folder: PathBuf,
    /// `sweep.grid`: keys of the experiment with lists of values. Every combination is a configuration.
    pub grid: Vec<(String, Vec<Value>)>,
    /// `sweep.points`: tables of keys and values that belong together. Each is combined with the whole grid.
    /// Default: one empty table.
    pub points: Vec<Vec<(String, Value)>>,
    /// `sweep.names`: names for formulas among the values of `drive.ftl.gc.victim` and
    /// `drive.ftl.placement.scheme`. Tables and figures show the name.
    pub names: Names,
    /// `sweep.seeds` (a number, default 1, or a list), `sweep.seeds_max` and `sweep.until`.
    pub seeds: Seeds,
    /// `sweep.measure`: result columns to estimate, compare and draw. Default `waf`.
    pub measure: Vec<String>,
    /// `sweep.compare`: the key whose values are compared with its first value. Default: the last grid key
    /// with several values, one of them text, else the last with several values; never `workload.path`.
    pub compare: Option<String>,
    /// `sweep.x`: the key on the x axis of figures. Default: the first key whose values are numbers.
    pub x: Option<String>,
    /// `sweep.pairs`: "first" (default) compares each value with the first, "all" each pair of values. True
    /// for "all".
    pub all_pairs: bool,
    /// `sweep.confidence`: confidence of the intervals, 0.5 to 0.9999. Default 0.95.
    pub confidence: f64,
    /// `sweep.retries`: retries of a point whose worker died, 0 to 100. Default 2.
    pub retries: u32,
    /// `sweep.share_warmup`: true if points with the same warm-up share it. Results do not change. Drive
    /// states are kept in the sweep's folder during the run. Default true.
    pub share_warmup: bool,
    /// The sweep file as TOML.
    pub text: String,
    /// Policies defined by the caller: names used as values, each with an identity. Workers must have the
    /// policies.
    pub own: BTreeMap<String, String>,
}

impl SweepFile {
    /// Reads the file at `path` and applies `sets` (`key.path=value`). Paths in `sets` are relative to the
    /// current folder.
    pub fn load(path: &Path, sets: &[String]) -> Result<Self, SweepError> {
        let mut table = load_table(path)?;
        apply_sets(&mut table, sets)?;
        let is_set = |key: &str| sets.iter().any(|set| set.split('=').next().map(str::trim) == Some(key));
        // A path from `--set` is relative to the current folder. It becomes absolute before the file's folder
        // applies.
        for (inner, name) in [("workload", "path"), ("drive", "preset")] {
            let key = format!("{inner}.{name}");
            if let Some(Value::String(text)) = table.get_mut(inner).and_then(|inner| inner.get_mut(name))
                && is_set(&key)
                && is_file(&key, text)
                && let Ok(path) = std::path::absolute(&*text)
            {
                *text = path.display().to_string();
            }
        }
        let file = Self::of(table, path.parent().unwrap_or(Path::new("")))?;
        match file.keys().iter().find(|key| is_set(key)) {
            None => Ok(file),
            Some(key) => Err(SweepError::key(
                "grid",
                format!("--set {key} has no effect because the sweep varies this key; set another key"),
            )),
        }
    }

    /// Reads a sweep from `table`. Paths in it are relative to `folder`.
    pub fn of(mut table: Table, folder: &Path) -> Result<Self, SweepError> {
        let text = toml::to_string(&table).unwrap_or_default();
        let sweep = match table.remove("sweep") {
            Some(Value::Table(sweep)) => sweep,
            Some(_) => return Err(SweepError::key("grid", "sweep must be a table: write [sweep]")),
            None => {
                let what = "a sweep is an experiment file with a table [sweep.grid], for example\n\n  [sweep.grid]\n  \
                            \"drive.ftl.over_provisioning\" = [0.07, 0.15, 0.28]\n";
                return Err(SweepError::key("grid", what));
            }
        };
        if let Some(key) = sweep.keys().find(|key| !KEYS.contains(&key.as_str())) {
            let hint =
                nearest(key, KEYS).map(|name| format!(", did you mean sweep.{name}?")).unwrap_or_default();
            return Err(SweepError::key(
                key,
                format!("unknown key{hint}; valid keys are {}", KEYS.join(", ")),
            ));
        }
        let seed = table
            .get("seed")
            .and_then(Value::as_integer)
            .and_then(|seed| u64::try_from(seed).ok())
            .unwrap_or(1);
        let (grid, points) = (grid(sweep.get("grid"))?, points(sweep.get("points"))?);
        for (at, point) in points.iter().enumerate() {
            if let Some((key, _)) = point.iter().find(|(key, _)| grid.iter().any(|(other, _)| other == key)) {
                return Err(SweepError::key(
                    &format!("points[{at}]"),
                    format!("\"{key}\" already has values in sweep.grid"),
                ));
            }
        }
        // Names are checked against the values: an unused name is a mistake.
        let of_grid = grid.iter().flat_map(|(key, values)| values.iter().map(|value| (key.as_str(), value)));
        let of_points = points.iter().flatten().map(|(key, value)| (key.as_str(), value));
        let file = Self {
            folder: folder.to_owned(),
            names: Names::read(sweep.get("names"), of_grid.chain(of_points))?,
            seeds: Seeds::read(sweep.get("seeds"), sweep.get("seeds_max"), sweep.get("until"), seed)?,
            measure: measures(sweep.get("measure"))?,
            compare: compare(sweep.get("compare"), &grid, &points)?,
            x: sweep.get("x").map(|given| key_named("x", given, &grid, &points)).transpose()?,
            all_pairs: match sweep.get("pairs").map(Value::as_str) {
                None | Some(Some("first")) => false,
                Some(Some("all")) => true,
                Some(_) => return Err(SweepError::key("pairs", "allowed is \"first\" or \"all\"")),
            },
            confidence: number(&sweep, "confidence", (0.5, 0.9999))?.unwrap_or(0.95),
            retries: number(&sweep, "retries", (0.0, 100.0))?.unwrap_or(2.0) as u32,
            share_warmup: match sweep.get("share_warmup") {
                None => true,
                Some(Value::Boolean(share)) => *share,
                Some(_) => return Err(SweepError::key("share_warmup", "allowed is true or false")),
            },
            experiment: table,
            grid,
            points,
            text,
            own: BTreeMap::new(),
        };
        Ok(file)
    }

    /// Number of seeds in the first stage, whose spread determines all intervals, and their confidence.
    pub(crate) fn stages(&self) -> (usize, f64) {
        (self.seeds.first, self.confidence)
    }

    /// Keys that vary between configurations, in order.
    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        let listed = self.points.iter().flatten().map(|(key, _)| key);
        for key in listed.chain(self.grid.iter().map(|(key, _)| key)) {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        keys
    }
}

fn number(sweep: &Table, key: &str, (least, most): (f64, f64)) -> Result<Option<f64>, SweepError> {
    let Some(value) = sweep.get(key) else { return Ok(None) };
    let number = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
    let number = number.filter(|number| (least..=most).contains(number));
    number
        .map(Some)
        .ok_or_else(|| SweepError::key(key, format!("{value} is given; allowed is {least} to {most}")))
}

/// True if this value of `key` is a file path.
pub(crate) fn is_file(key: &str, text: &str) -> bool {
    key == TRACE || key == "drive.preset" && text.ends_with(".toml")
}

fn check_value(at: &str, key: &str, value: &Value) -> Result<(), SweepError> {
    if key == "seed" {
        return Err(SweepError::key(at, "\"seed\" cannot be a key of a sweep: set sweep.seeds instead"));
    }
    if matches!(value, Value::Table(_) | Value::Datetime(_)) {
        return Err(SweepError::key(at, format!("values of \"{key}\" must be numbers, texts or lists")));
    }
    Ok(())
}

/// Flattens nested tables to dotted keys, so quotes around a key make no difference.
fn flattened<'a>(table: &'a Table, above: &str, into: &mut Vec<(String, &'a Value)>) {
    for (key, value) in table {
        let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match value {
            Value::Table(inner) => flattened(inner, &path, into),
            value => into.push((path, value)),
        }
    }
}

fn grid(given: Option<&Value>) -> Result<Vec<(String, Vec<Value>)>, SweepError> {
    let mut entries = Vec::new();
    match given {
        None => return Ok(Vec::new()),
        Some(Value::Table(table)) => flattened(table, "", &mut entries),
        Some(_) => return Err(SweepError::key("grid", "must be a table: write [sweep.grid]")),
    }
    let mut grid: Vec<(String, Vec<Value>)> = Vec::new();
    for (key, value) in entries {
        let values = match value {
            Value::Array(values) if !values.is_empty() => values.clone(),
            _ => {
                return Err(SweepError::key("grid", format!("\"{key}\" needs a list of values: [1, 2, 3]")));
            }
        };
        for (at, value) in values.iter().enumerate() {
            check_value("grid", &key, value)?;
            // A repeated value would give two equal configurations.
            if values[..at].contains(value) {
                return Err(SweepError::key("grid", format!("\"{key}\" has the value {value} twice")));
            }
        }
        if grid.iter().any(|(other, _)| *other == key) {
            return Err(SweepError::key(
                "grid",
                format!("\"{key}\" is given twice, with and without quotes"),
            ));
        }
        grid.push((key, values));
    }
    Ok(grid)
}

fn points(given: Option<&Value>) -> Result<Vec<Vec<(String, Value)>>, SweepError> {
    let wrong =
        || SweepError::key("points", "must be a list of tables: [{ \"drive.preset\" = \"generic-8g\" }, …]");
    let items = match given {
        None => return Ok(vec![Vec::new()]),
        Some(Value::Array(items)) if !items.is_empty() => items,
        Some(_) => return Err(wrong()),
    };
    items
        .iter()
        .map(|item| {
            let table = item.as_table().filter(|table| !table.is_empty()).ok_or_else(wrong)?;
            let mut entries = Vec::new();
            flattened(table, "", &mut entries);
            entries.iter().try_for_each(|(key, value)| check_value("points", key, value))?;
            Ok(entries.into_iter().map(|(key, value)| (key, value.clone())).collect())
        })
        .collect()
}

fn measures(given: Option<&Value>) -> Result<Vec<String>, SweepError> {
    let wrong = || SweepError::key("measure", "must be the name of a result column, or a list of names");
    let text =
        |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned).ok_or_else(wrong);
    match given {
        None => Ok(vec!["waf".to_owned()]),
        Some(Value::Array(items)) if !items.is_empty() => items.iter().map(text).collect(),
        Some(one) => Ok(vec![text(one)?]),
    }
}

fn compare(
    given: Option<&Value>,
    grid: &[(String, Vec<Value>)],
    points: &[Vec<(String, Value)>],
) -> Result<Option<String>, SweepError> {
    // Different traces differ in everything, so traces are not compared by default.
    let is_meant = |(key, values): &&(String, Vec<Value>)| values.len() > 1 && key != TRACE;
    let several: Vec<&(String, Vec<Value>)> = grid.iter().filter(is_meant).collect();
    let Some(given) = given else {
        let texts =
            several.iter().rev().find(|(_, values)| values.iter().any(|value| value.as_str().is_some()));
        return Ok(texts.or(several.last()).map(|(key, _)| key.clone()));
    };
    key_named("compare", given, grid, points).map(Some)
}

fn key_named(
    name: &str,
    given: &Value,
    grid: &[(String, Vec<Value>)],
    points: &[Vec<(String, Value)>],
) -> Result<String, SweepError> {
    let of_grid = grid.iter().map(|(key, _)| key);
    let names: Vec<&str> =
        of_grid.chain(points.iter().flatten().map(|(key, _)| key)).map(String::as_str).collect();
    if let Some(key) = given.as_str().filter(|key| names.contains(key)) {
        return Ok(key.to_owned());
    }
    let hint = nearest(given.as_str().unwrap_or_default(), names.iter().copied());
    let hint = hint.map(|name| format!(", did you mean {name}?")).unwrap_or_default();
    Err(SweepError::key(name, format!("{given} is not a key that the sweep varies{hint}")))
}
