//! Comparison of two results: configuration, headline figures, everything else.
//!
//! 1. Both results are flattened to paths with dots and plain values. The simulator's own speed is left out.
//! 2. Paths of the configuration (and of the guest, the trace and the seed) that differ are listed.
//! 3. The headline figures that either result has are listed, equal or not.
//! 4. Whatever else differs is counted, and listed in the JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use strobe_lab::numbers::{count, duration, rate, trimmed};

use super::{broken, row, table, terminal_width};

/// Values that no drive has caused, and those that repeat others: the hash of the configuration and its seed.
const OWN_SPEED: [&str; 6] =
    ["strobe_version", "time.wall_s", "time.cpu_s", "sim", "config_hash", "config.seed"];
/// Parts of a result that describe the request.
const REQUEST: [&str; 4] = ["seed", "config", "drive", "guest"];
/// Results of a guest that stand among its request.
const FOLLOWS: [&str; 6] = [
    "guest.exit_code",
    "guest.interrupts",
    "guest.time_messages",
    "guest.drive_error",
    "guest.out_of_memory",
    "guest.root",
];
/// Lines of one screen for keys and figures; nine more are heads, blanks and the last line.
const LINES: usize = 15;
/// Figures that are shown; the JSON has all.
const FIGURES_SHOWN: usize = LINES - KEYS_MIN;
/// Keys of the configuration that are listed even if the figures fill the screen.
const KEYS_MIN: usize = 3;
/// Characters of a value of the configuration.
const VALUE_MAX: usize = 28;

/// Form of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Factor,
    Count,
    Ns,
    MegaBytes,
    BytesPerSecond,
    PerSecond,
}

/// Headline figures, the most important first: name, path, unit. Those of kinds of requests that neither result has are left out.
const FIGURES: [(&str, &str, Unit); 18] = [
    ("WAF", "waf", Unit::Factor),
    ("MB written", "host.write.bytes", Unit::MegaBytes),
    ("pages programmed", "nand.program.total", Unit::Count),
    ("erases", "nand.erase.total", Unit::Count),
    ("units copied by GC", "gc.units_moved", Unit::Count),
    ("read MB/s", "read.bw_bytes", Unit::BytesPerSecond),
    ("read mean", "read.clat_ns.mean", Unit::Ns),
    ("read p99", "read.clat_ns.percentile.99.000000", Unit::Ns),
    ("read p99.9", "read.clat_ns.percentile.99.900000", Unit::Ns),
    ("write MB/s", "write.bw_bytes", Unit::BytesPerSecond),
    ("write mean", "write.clat_ns.mean", Unit::Ns),
    ("write p99", "write.clat_ns.percentile.99.000000", Unit::Ns),
    ("write p99.9", "write.clat_ns.percentile.99.900000", Unit::Ns),
    ("trim IOPS", "trim.iops", Unit::PerSecond),
    ("trim mean", "trim.clat_ns.mean", Unit::Ns),
    ("trim p99.9", "trim.clat_ns.percentile.99.900000", Unit::Ns),
    ("flush mean", "sync.lat_ns.mean", Unit::Ns),
    ("flush p99.9", "sync.lat_ns.percentile.99.900000", Unit::Ns),
];

/// Key of the configuration with its values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Key {
    /// Path of the key.
    pub key: String,
    /// Its value in the first result; null if it is not there.
    pub a: Value,
    /// Its value in the second.
    pub b: Value,
}

/// Headline figure of both results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its name.
    pub figure: &'static str,
    /// Its path in the result.
    pub path: String,
    /// The figure of the first result; null if it has none.
    pub a: Option<f64>,
    /// Figure of the second; null likewise.
    pub b: Option<f64>,
    /// b − a; null unless both have it.
    pub change: Option<f64>,
    /// (b − a) / a; null unless both have it and a is not 0.
    pub relative: Option<f64>,
    #[serde(skip)]
    unit: Unit,
}

/// Comparison of two results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// True if the results are equal in all but the simulator's own speed and version.
    pub equal: bool,
    /// Keys of the configuration that differ.
    pub configuration: Vec<Key>,
    /// Headline figures, equal or not.
    pub figures: Vec<Figure>,
    /// Paths of everything else that differs.
    pub others: Vec<String>,
}

impl Diff {
    /// Compares `a` with `b`. A run cannot be compared with a guest: the error names both kinds.
    pub fn of(a: &Value, b: &Value) -> Result<Self, (&'static str, &'static str)> {
        let kind = |of: &Value| if of.get("guest").is_some() { "a guest" } else { "a run" };
        if kind(a) != kind(b) {
            return Err((kind(a), kind(b)));
        }
        let figures: Vec<Figure> =
            FIGURES.iter().filter_map(|&(name, path, unit)| Figure::of(name, path, unit, a, b)).collect();
        let (flat_a, flat_b) = (flat(a), flat(b));
        let by_path = |flat: &[(String, &'_ Value)]| -> BTreeMap<String, Value> {
            flat.iter().map(|(path, value)| (path.clone(), (*value).clone())).collect()
        };
        let (in_a, in_b) = (by_path(&flat_a), by_path(&flat_b));
        let (mut configuration, mut others) = (Vec::new(), Vec::new());
        let only_b = flat_b.iter().filter(|(path, _)| !in_a.contains_key(path));
        for (path, _) in flat_a.iter().chain(only_b) {
            let (left, right) = (in_a.get(path), in_b.get(path));
            if left == right || is_below(path, &OWN_SPEED) {
                continue;
            }
            if is_below(path, &REQUEST) && !is_below(path, &FOLLOWS) {
                let value = |found: Option<&Value>| found.cloned().unwrap_or(Value::Null);
                let key = path.strip_prefix("config.").unwrap_or(path).to_owned();
                configuration.push(Key { key, a: value(left), b: value(right) });
            } else if !figures.iter().any(|figure| figure.path == *path) {
                others.push(path.clone());
            }
        }
        let is_same = |figure: &Figure| figure.a == figure.b;
        let equal = configuration.is_empty() && others.is_empty() && figures.iter().all(is_same);
        Ok(Self { equal, configuration, figures, others })
    }

    /// The comparison on one screen; `a` and `b` are names of the results.
    pub fn text(&self, a: &str, b: &str) -> String {
        if self.equal {
            return format!("{a} and {b} are equal");
        }
        let mut out = format!("{a} → {b}\n\n");
        let shown = &self.figures[..self.figures.len().min(FIGURES_SHOWN)];
        let most = LINES - shown.len();
        let (listed, rest) = self.configuration.split_at(self.configuration.len().min(most));
        for key in listed {
            let line = format!("{}: {} → {}", key.key, plain(&key.a), plain(&key.b));
            let _ = writeln!(out, "{}", cut(&line, terminal_width()));
        }
        let _ = match (listed.len(), rest.len()) {
            (0, _) => writeln!(out, "configuration and seed are equal"),
            (_, 0) => Ok(()),
            (_, more) => writeln!(out, "and {more} more keys (--json has all)"),
        };
        let mut figures = table(&["", "A", "B", "change", ""]);
        for figure in shown {
            figures.add_row(row(figure.figure, figure.cells()));
        }
        let _ = writeln!(out, "\n{figures}");
        if let Some(line) = self.rest(self.figures.len() - shown.len()) {
            let _ = writeln!(out, "\n{}", broken(&line, terminal_width()).join("\n"));
        }
        trimmed(&out)
    }

    /// Line about what is not shown, `figures` among it.
    fn rest(&self, figures: usize) -> Option<String> {
        let number = self.others.len();
        let (plural, verb) = if number == 1 { ("number", "differs") } else { ("numbers", "differ") };
        let others = self
            .others
            .first()
            .map(|first| format!("{} other {plural} {verb}, first {first}", count(number as u64)));
        let figures = (figures > 0).then(|| format!("{figures} more figures"));
        let parts: Vec<String> = figures.into_iter().chain(others).collect();
        (!parts.is_empty()).then(|| format!("{} (--json has all)", parts.join("; ")))
    }
}

impl Figure {
    /// Nothing if neither result has the figure, or its requests.
    fn of(name: &'static str, path: &str, unit: Unit, a: &Value, b: &Value) -> Option<Self> {
        let kind = ["read", "write", "trim", "sync"].into_iter().find(|kind| is_below(path, &[*kind]));
        let job = |of: &Value| if of.get("total").is_some_and(Value::is_object) { "total" } else { "jobs.0" };
        let find = |of: &Value| {
            let Some(kind) = kind else { return at(of, path).and_then(Value::as_f64) };
            // Requests that were only counted have neither latencies nor rates.
            let latency = if kind == "sync" { "lat_ns" } else { "clat_ns" };
            let samples = at(of, &format!("{}.{kind}.{latency}.N", job(of)))?.as_u64()?;
            at(of, &format!("{}.{path}", job(of)))?.as_f64().filter(|_| samples > 0)
        };
        let (left, right) = (find(a), find(b));
        left.or(right)?;
        let both = left.zip(right);
        let path = if kind.is_some() { format!("{}.{path}", job(a)) } else { path.to_owned() };
        Some(Self {
            figure: name,
            path,
            a: left,
            b: right,
            change: both.map(|(left, right)| right - left),
            relative: both.filter(|&(left, _)| left != 0.0).map(|(left, right)| (right - left) / left),
            unit,
        })
    }

    /// Both values, the change, and the change in percent.
    fn cells(&self) -> [String; 4] {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| self.unit.text(value));
        let Some(change) = self.change else {
            return [number(self.a), number(self.b), "-".to_owned(), String::new()];
        };
        if change == 0.0 {
            return [number(self.a), number(self.b), "=".to_owned(), String::new()];
        }
        let sign = if change < 0.0 { "−" } else { "+" };
        let relative = self.relative.map_or(String::new(), |share| format!("{:+.2} %", 100.0 * share));
        [
            number(self.a),
            number(self.b),
            format!("{sign}{}", self.unit.text(change.abs())),
            relative.replace('-', "−"),
        ]
    }
}

impl Unit {
    fn text(self, value: f64) -> String {
        match self {
            Unit::Factor => format!("{value:.3}"),
            Unit::Count => count(value.round() as u64),
            Unit::Ns => duration(value),
            Unit::MegaBytes | Unit::BytesPerSecond => format!("{:.1}", value / 1e6),
            Unit::PerSecond => rate(value),
        }
    }
}

/// True if `path` is one of `parts`, or below one.
fn is_below(path: &str, parts: &[&str]) -> bool {
    parts
        .iter()
        .any(|part| path.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// Value at `path`: keys with dots between. A key may have dots itself, as percentiles have.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let below = |key: &str| match value {
        Value::Array(items) => key.parse::<usize>().ok().and_then(|at| items.get(at)),
        _ => value.get(key),
    };
    if let Some(found) = below(path) {
        return Some(found);
    }
    let (key, rest) = path.split_once('.')?;
    at(below(key)?, rest)
}

/// Plain values of `value` by path, in the order of the result. Lists that stand in the configuration are plain.
fn flat(value: &Value) -> Vec<(String, &Value)> {
    fn add<'a>(value: &'a Value, path: String, into: &mut Vec<(String, &'a Value)>) {
        let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        match value {
            Value::Object(entries) => entries.iter().for_each(|(key, value)| add(value, below(key), into)),
            Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
                items.iter().enumerate().for_each(|(at, item)| add(item, below(&at.to_string()), into));
            }
            plain => into.push((path, plain)),
        }
    }
    let mut found = Vec::new();
    add(value, String::new(), &mut found);
    found
}

/// A value of the configuration for people.
fn plain(value: &Value) -> String {
    let text = match value {
        Value::Null => "not set".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    cut(&text.replace(char::is_control, " "), VALUE_MAX)
}

/// At most `most` characters of `text`.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}
