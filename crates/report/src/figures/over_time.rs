use serde_json::Value;

use super::named;
use crate::Run;
use crate::plot::{Axis, Figure, Line, Plot};
use crate::run::{at, number};
use crate::text::Unit;

struct Over {
    name: &'static str,
    title: &'static str,
    label: &'static str,
    unit: Unit,
    has_log: bool,
    /// Lines for a single run: names, and paths whose values are added.
    alone: &'static [(&'static str, &'static [&'static str])],
    /// Lines for each of several runs.
    several: &'static [(&'static str, &'static [&'static str])],
    /// True if merged points show their maximum instead of their mean.
    is_largest: bool,
    /// True if an interval without programs has no value instead of 0.
    is_ratio: bool,
}

const OPS: [&str; 5] = ["read", "write", "trim", "sync", "copy"];

const fn plain(
    name: &'static str,
    title: &'static str,
    label: &'static str,
    unit: Unit,
    path: &'static [(&'static str, &'static [&'static str])],
) -> Over {
    Over {
        name,
        title,
        label,
        unit,
        has_log: false,
        alone: path,
        several: path,
        is_largest: false,
        is_ratio: false,
    }
}

const FIGURES: &[Over] = &[
    Over {
        has_log: true,
        alone: &[
            ("read", &["read/iops"]),
            ("write", &["write/iops"]),
            ("trim", &["trim/iops"]),
            ("flush", &["sync/iops"]),
            ("copy", &["copy_iops"]),
        ],
        ..plain(
            "iops",
            "Requests per second",
            "requests/s",
            Unit::Plain,
            &[("", &["read/iops", "write/iops", "trim/iops", "sync/iops"])],
        )
    },
    Over {
        has_log: true,
        alone: &[("read", &["read/bw_bytes"]), ("write", &["write/bw_bytes"])],
        ..plain(
            "bandwidth",
            "Bandwidth",
            "",
            Unit::BytesPerSecond,
            &[("", &["read/bw_bytes", "write/bw_bytes"])],
        )
    },
    // A trim moves no data. mkfs may trim the whole drive, which would hide other values on a shared scale.
    plain("trimmed", "Trimmed", "", Unit::BytesPerSecond, &[("", &["trim/bw_bytes"])]),
    latency(
        "latency-read",
        "Read latency",
        &[
            ("p50", &["read/p50_ns"]),
            ("p99", &["read/p99_ns"]),
            ("p99.9", &["read/p99_9_ns"]),
            ("longest", &["read/max_ns"]),
        ],
        &[("p50", &["read/p50_ns"]), ("p99.9", &["read/p99_9_ns"])],
    ),
    latency(
        "latency-write",
        "Write latency",
        &[
            ("p50", &["write/p50_ns"]),
            ("p99", &["write/p99_ns"]),
            ("p99.9", &["write/p99_9_ns"]),
            ("longest", &["write/max_ns"]),
        ],
        &[("p50", &["write/p50_ns"]), ("p99.9", &["write/p99_9_ns"])],
    ),
    Over {
        is_ratio: true,
        ..plain("waf-time", "Write amplification over time", "WAF", Unit::Plain, &[("", &["waf"])])
    },
    plain("queue-depth", "Outstanding requests", "requests, mean", Unit::Plain, &[("", &["queue_depth"])]),
    Over {
        is_largest: true,
        ..plain(
            "backlog",
            "Requests that wait outside the drive",
            "requests",
            Unit::Plain,
            &[("", &["backlog"])],
        )
    },
    plain("busy-dies", "Busy dies", "dies, mean", Unit::Plain, &[("", &["busy_dies"])]),
    plain(
        "collecting",
        "Share of die time spent on collection",
        "share of all dies' time",
        Unit::Share,
        &[("", &["collecting"])],
    ),
    plain("free-blocks", "Erased blocks", "blocks", Unit::Plain, &[("", &["free_blocks"])]),
    plain(
        "dirty",
        "Guest memory not yet on the drive",
        "",
        Unit::Bytes,
        &[("dirty", &["kernel/dirty_bytes"]), ("being written", &["kernel/writeback_bytes"])],
    ),
    plain(
        "commits",
        "Activity of the guest's file system",
        "per interval",
        Unit::Plain,
        &[("commits", &["kernel/commits"]), ("cleanings", &["kernel/cleanings"])],
    ),
];

const fn latency(
    name: &'static str,
    title: &'static str,
    alone: &'static [(&'static str, &'static [&'static str])],
    several: &'static [(&'static str, &'static [&'static str])],
) -> Over {
    Over {
        name,
        title,
        label: "from issue",
        unit: Unit::Ns,
        has_log: true,
        alone,
        several,
        is_largest: true,
        is_ratio: false,
    }
}

pub(super) fn figures(runs: &[Run]) -> Vec<Figure> {
    let timed: Vec<(&Run, Begin)> = runs.iter().filter_map(|run| Some((run, Begin::of(run)?))).collect();
    let span = timed.iter().map(|(_, begin)| begin.span_ns).fold(0.0, f64::max);
    let clock = Clock::of(span);
    let mut figures: Vec<Figure> = waf_over_writes(runs).into_iter().collect();
    if !timed.is_empty() {
        figures.extend(FIGURES.iter().filter_map(|over| over.figure(runs, &timed, clock)));
    }
    figures
}

struct Begin {
    measured_ns: f64,
    span_ns: f64,
}

impl Begin {
    fn of(run: &Run) -> Option<Self> {
        let intervals = run.list("intervals");
        let first = number(at(intervals.first()?, "start_ns"))?;
        let last = number(at(intervals.last()?, "end_ns"))?;
        let measured = intervals.iter().find(|interval| at(interval, "measured") == &Value::Bool(true));
        let measured_ns = measured.and_then(|interval| number(at(interval, "start_ns"))).unwrap_or(first);
        Some(Self { measured_ns, span_ns: last - first })
    }
}

#[derive(Clone, Copy)]
struct Clock {
    ns: f64,
    name: &'static str,
}

impl Clock {
    fn of(span_ns: f64) -> Self {
        let (ns, name) = match span_ns {
            span if span > 3.0 * 3600e9 => (3600e9, "h"),
            span if span > 180e9 => (60e9, "min"),
            span if span > 0.5e9 => (1e9, "s"),
            _ => (1e6, "ms"),
        };
        Self { ns, name }
    }
}

impl Over {
    fn figure(&self, runs: &[Run], timed: &[(&Run, Begin)], clock: Clock) -> Option<Figure> {
        let lines: Vec<Line> = match runs {
            [_] => self.lines(runs, timed, clock, self.alone),
            _ => self.lines(runs, timed, clock, self.several),
        };
        let has_warmup = timed.iter().any(|(run, begin)| {
            run.list("intervals").first().and_then(|first| number(at(first, "start_ns")))
                < Some(begin.measured_ns)
        });
        let plot = |is_log: bool| Plot {
            title: self.title.to_owned(),
            x: Axis::new(&format!("virtual time of the measurement, {}", clock.name), Unit::Plain),
            y: Axis { is_log, ..Axis::new(self.label, self.unit) },
            has_zero: !is_log,
            mark: has_warmup.then_some(0.0),
            lines: lines.clone(),
        };
        // Latencies show the logarithmic view first.
        let order: &[(bool, &'static str)] = match (self.has_log, self.unit) {
            (true, Unit::Ns) => &[(true, "log"), (false, "linear")],
            (true, _) => &[(false, "linear"), (true, "log")],
            (false, _) => &[(false, "linear")],
        };
        let views: Vec<_> = order.iter().filter_map(|&(is_log, label)| plot(is_log).view(label)).collect();
        let longest = timed.iter().map(|(run, _)| run.list("intervals").len()).max().unwrap_or(0);
        let joined = longest.div_ceil(600);
        let mut notes = Vec::new();
        if joined > 1 {
            let what = if self.is_largest { "the largest" } else { "the mean" };
            notes.push(format!("Each point is {what} of {joined} intervals."));
        }
        if self.is_ratio {
            notes.push("Intervals with less than 1 % of the mean's host writes have no point.".to_owned());
        }
        let note = (!notes.is_empty()).then(|| notes.join(" "));
        (!views.is_empty()).then(|| Figure {
            name: self.name.into(),
            title: self.title.to_owned(),
            note,
            views,
        })
    }

    fn lines(
        &self,
        runs: &[Run],
        timed: &[(&Run, Begin)],
        clock: Clock,
        paths: &[(&str, &[&str])],
    ) -> Vec<Line> {
        let mut lines = Vec::new();
        for (run, begin) in timed {
            let least = if self.is_ratio { least_written(run) } else { 0.0 };
            for (what, paths) in paths {
                let style = lines.len();
                let point = |interval: &Value| {
                    let there = paths.iter().filter_map(|path| number(at(interval, path)));
                    let is_shown = |y: &f64| {
                        !self.is_ratio
                            || *y > 0.0 && written_bytes(interval).is_none_or(|bytes| bytes >= least)
                    };
                    let y = there.reduce(|sum, value| sum + value).filter(is_shown);
                    let end = number(at(interval, "end_ns")).unwrap_or(begin.measured_ns);
                    ((end - begin.measured_ns) / clock.ns, y)
                };
                let points: Vec<_> = run.list("intervals").iter().map(point).collect();
                // Unused kinds of requests have no line.
                let is_op = OPS.iter().any(|op| paths.iter().any(|path| path.starts_with(op)));
                let is_idle = points.iter().all(|(_, y)| y.is_none_or(|y| y == 0.0));
                if (is_op || ["backlog", "dirty"].contains(&self.name)) && is_idle {
                    continue;
                }
                // Only guests, or only some file systems, report these values. A run without them has no
                // line.
                let is_unknown = points.iter().all(|(_, y)| y.is_none());
                if is_unknown && paths.iter().any(|path| path.starts_with("kernel/")) {
                    continue;
                }
                let line = Line::new(&named(runs, run, what), style, points);
                lines.push(if self.is_largest { line.largest() } else { line });
            }
        }
        lines
    }
}

fn written_bytes(interval: &Value) -> Option<f64> {
    let ns = number(at(interval, "end_ns"))? - number(at(interval, "start_ns"))?;
    Some(number(at(interval, "write/bw_bytes"))? * ns / 1e9)
}

/// Minimum bytes of a shown interval: 1 % of the mean of intervals with writes.
fn least_written(run: &Run) -> f64 {
    // After a trim, the drive may collect while the host writes a few pages. The WAF of that interval would
    // hide all others.
    let written: Vec<f64> =
        run.list("intervals").iter().filter_map(written_bytes).filter(|&bytes| bytes > 0.0).collect();
    0.01 * written.iter().sum::<f64>() / written.len().max(1) as f64
}

/// Needs no timing: the x axis counts host writes.
fn waf_over_writes(runs: &[Run]) -> Option<Figure> {
    let mut has_warmup = false;
    let line = |(style, run): (usize, &Run)| {
        let Written { samples, begin, unit, mark, .. } = written(run);
        has_warmup |= mark.is_some();
        let point = |sample: &Value| {
            // A sample without programs has a gap, not a WAF of 0.
            let waf = number(at(sample, "waf")).filter(|&waf| waf > 0.0);
            Some(((number(at(sample, "host_pages"))? - begin) / unit, waf))
        };
        Line::new(&named(runs, run, ""), style, samples.iter().filter_map(point).collect())
    };
    let lines: Vec<Line> = runs.iter().enumerate().map(line).collect();
    // The axis counts capacities if any run reports its capacity.
    let x = runs.iter().map(|run| written(run).axis).find(|axis| *axis != PAGES).unwrap_or(PAGES);
    let plot = Plot {
        title: "Write amplification".to_owned(),
        x: Axis::new(x, Unit::Plain),
        y: Axis::new("WAF", Unit::Plain),
        has_zero: true,
        mark: has_warmup.then_some(0.0),
        lines,
    };
    let views = vec![plot.view("linear")?];
    Some(Figure {
        name: "waf".into(),
        title: "Write amplification over host writes".to_owned(),
        note: None,
        views,
    })
}

/// Axis label for a run with unknown capacity.
const PAGES: &str = "host pages of the measurement";

pub(super) struct Written<'a> {
    pub(super) samples: &'a [Value],
    pub(super) axis: &'static str,
    pub(super) begin: f64,
    /// Axis unit in host pages.
    pub(super) unit: f64,
    /// Start of the measurement on the axis; `None` unless samples precede it.
    pub(super) mark: Option<f64>,
}

pub(super) fn written(run: &Run) -> Written<'_> {
    let samples = run.list("series");
    let is_measured = |sample: &Value| at(sample, "measured") == &Value::Bool(true);
    let before = samples.iter().position(is_measured).and_then(|first| samples.get(first.checked_sub(1)?));
    let begin = before.and_then(|sample| number(at(sample, "host_pages"))).unwrap_or(0.0);
    let unit = capacity_pages(run);
    let axis = if unit.is_some() { "written in the measurement, × capacity" } else { PAGES };
    Written { samples, axis, begin, unit: unit.unwrap_or(1.0), mark: before.map(|_| 0.0) }
}

/// Capacity in mapping units.
fn capacity_pages(run: &Run) -> Option<f64> {
    let unit = run.number("config/drive/ftl/mapping_unit_bytes").filter(|&bytes| bytes > 0.0)?;
    Some(run.number("capacity/logical_bytes")? / unit).filter(|&pages| pages >= 1.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(wafs: &[Value], dirty: u64) -> Run {
        let interval = |(at, waf): (usize, &Value)| {
            json!({ "start_ns": at * 1000, "end_ns": (at + 1) * 1000, "measured": true, "waf": waf,
                    "kernel": { "dirty_bytes": dirty, "writeback_bytes": 0 } })
        };
        let sample =
            |(at, waf): (usize, &Value)| json!({ "host_pages": at + 1, "measured": true, "waf": waf });
        let result = json!({
            "schema_version": 1, "config": {}, "host": {}, "nand": {}, "wear": {},
            "intervals": wafs.iter().enumerate().map(interval).collect::<Vec<_>>(),
            "series": wafs.iter().enumerate().map(sample).collect::<Vec<_>>(),
        });
        Run::new("x", result).expect("a result")
    }

    #[test]
    fn write_amplification_has_a_gap_where_nothing_was_programmed() {
        let found = figures(&[run(&[json!(0.0), json!(null), json!(1.5), json!(2.0)], 0)]);
        for name in ["waf", "waf-time"] {
            let figure = found.iter().find(|figure| figure.name == name).expect(name);
            // One dot per existing point.
            assert_eq!(figure.views[0].svg.matches("<circle").count(), 2, "{name}: {}", figure.views[0].svg);
        }
    }

    #[test]
    fn trims_have_a_scale_of_their_own() {
        let of = |interval: u64, trim: u64| {
            json!({ "start_ns": interval, "end_ns": interval + 1, "measured": true, "write": { "bw_bytes": 2e6 },
                    "trim": { "bw_bytes": trim } })
        };
        let result = json!({
            "schema_version": 1, "config": {}, "host": {}, "nand": {}, "wear": {}, "intervals": [of(0, 1 << 50), of(1, 0)],
        });
        let found = figures(&[Run::new("x", result).expect("a result")]);
        let svg = |name: &str| {
            let figure = found.iter().find(|figure| figure.name == name).unwrap_or_else(|| panic!("{name}"));
            figure.views[0].svg.clone()
        };
        assert!(
            svg("bandwidth").contains("MB/s") && !svg("bandwidth").contains("TB/s"),
            "{}",
            svg("bandwidth")
        );
        assert!(svg("trimmed").contains("TB/s"), "{}", svg("trimmed"));
        assert!(figures(&[run(&[json!(1.0)], 0)]).iter().all(|figure| figure.name != "trimmed"));
    }

    #[test]
    fn an_interval_of_hardly_any_writes_does_not_set_the_scale_of_write_amplification() {
        let of = |interval: u64, bytes: u64, waf: f64| {
            json!({ "start_ns": interval * 1_000_000_000, "end_ns": (interval + 1) * 1_000_000_000, "measured": true,
                    "write": { "bw_bytes": bytes }, "waf": waf })
        };
        let intervals = [of(0, 1 << 30, 1.25), of(1, 4096, 4000.0), of(2, 1 << 30, 1.5), of(3, 0, 0.0)];
        let result = json!({
            "schema_version": 1, "config": {}, "host": {}, "nand": {}, "wear": {}, "intervals": intervals,
        });
        let found = figures(&[Run::new("x", result).expect("a result")]);
        let svg = &found.iter().find(|figure| figure.name == "waf-time").expect("a figure").views[0].svg;
        assert_eq!(svg.matches("<circle").count(), 2, "{svg}");
        assert!(!svg.contains("4,000") && !svg.contains("4000"), "{svg}");
    }

    #[test]
    fn memory_that_is_never_dirty_has_no_figure() {
        let names = |dirty| -> Vec<String> {
            figures(&[run(&[json!(1.5), json!(2.0)], dirty)])
                .iter()
                .map(|figure| figure.name.to_string())
                .collect()
        };
        assert!(!names(0).contains(&"dirty".to_owned()));
        assert!(names(4096).contains(&"dirty".to_owned()));
    }
}
