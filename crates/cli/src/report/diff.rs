//! Comparison of two results: configuration, headline figures, everything else.
//!
//! 1. Both results are flattened to dotted paths with plain values. The simulator's speed is ignored.
//! 2. Differing paths of the configuration, the guest, the trace and the seed are listed.
//! 3. The headline figures of either result are listed, equal or not.
//! 4. Other differences are counted, and listed in the JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use strobe_lab::numbers::{count, duration, rate, trimmed};

use super::{broken, row, table, terminal_width};

const OWN_SPEED: [&str; 6] =
    ["strobe_version", "time.wall_s", "time.cpu_s", "sim", "config_hash", "config.seed"];
const REQUEST: [&str; 4] = ["seed", "config", "drive", "guest"];
const FOLLOWS: [&str; 6] = [
    "guest.exit_code",
    "guest.interrupts",
    "guest.time_messages",
    "guest.drive_error",
    "guest.out_of_memory",
    "guest.root",
];
/// Lines for keys and figures; nine more are headings and blanks.
const LINES: usize = 15;
const FIGURES_SHOWN: usize = LINES - KEYS_MIN;
const KEYS_MIN: usize = 3;
const VALUE_MAX: usize = 28;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Factor,
    Count,
    Ns,
    MegaBytes,
    BytesPerSecond,
    PerSecond,
}

/// The most important first: name, path, unit. Kinds of requests missing in both results are left out.
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

/// A configuration key with both values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Key {
    /// Path.
    pub key: String,
    /// Value in the first result; null if absent.
    pub a: Value,
    /// Value in the second result; null if absent.
    pub b: Value,
}

/// A headline figure of both results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Name.
    pub figure: &'static str,
    /// Path in the result.
    pub path: String,
    /// Figure of the first result; null if absent.
    pub a: Option<f64>,
    /// Figure of the second result; null if absent.
    pub b: Option<f64>,
    /// b − a; null unless both exist.
    pub change: Option<f64>,
    /// (b − a) / a; null unless both exist and a is not 0.
    pub relative: Option<f64>,
    #[serde(skip)]
    unit: Unit,
}

/// Comparison of two results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// True if the results are equal except for the simulator's speed and version.
    pub equal: bool,
    /// Differing configuration keys.
    pub configuration: Vec<Key>,
    /// Headline figures, equal or not.
    pub figures: Vec<Figure>,
    /// Paths of all other differences.
    pub others: Vec<String>,
}

impl Diff {
    /// Compares `a` with `b`. A run and a guest cannot be compared: the error names both kinds.
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
        // Paths of `a` in their order, then those only in `b`.
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

    /// Comparison on one screen; `a` and `b` are names of the results.
    pub fn text(&self, a: &str, b: &str) -> String {
        if self.equal {
            return format!("{a} and {b} are equal");
        }
        let mut out = format!("{a} → {b}\n\n");
        let shown = &self.figures[..self.figures.len().min(FIGURES_SHOWN)];
        // Keys take the lines of the screen that the figures leave.
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

    /// Includes `figures` omitted figures.
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
    /// `None` if both results lack the figure or its requests.
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

fn is_below(path: &str, parts: &[&str]) -> bool {
    parts
        .iter()
        .any(|part| path.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// Value at `path`, whose keys may contain dots, as percentiles do.
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

/// Values by path, in order of the result. Lists of plain values count as plain.
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

fn plain(value: &Value) -> String {
    let text = match value {
        Value::Null => "not set".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    cut(&text.replace(char::is_control, " "), VALUE_MAX)
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}
