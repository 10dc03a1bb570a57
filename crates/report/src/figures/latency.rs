use std::collections::BTreeMap;

use serde_json::Value;

use super::named;
use crate::Run;
use crate::plot::{Axis, Figure, Line, Plot};
use crate::run::{at, number};
use crate::text::Unit;

const BINS_MAX: usize = 100_000;

/// Minimum latency of a flash access. Reads of unwritten data, for example, are shorter.
const SHORTEST_NS: f64 = 100.0;

/// Ascending latencies, each with the share of requests that took at most that long.
struct Distribution {
    points: Vec<(f64, f64)>,
    /// Share of requests below [`SHORTEST_NS`]; the points start there.
    none: f64,
    is_exact: bool,
}

pub(super) fn figures(runs: &[Run]) -> Option<Figure> {
    let mut lines: Vec<(String, Distribution)> = Vec::new();
    for run in runs {
        for op in ["read", "write"] {
            if let Some(found) = Distribution::of(run, op) {
                lines.push((named(runs, run, op), found));
            }
        }
    }
    let is_exact = lines.iter().all(|(_, distribution)| distribution.is_exact);
    let plot = |is_tail: bool| {
        let line = |(style, (name, distribution)): (usize, &(String, Distribution))| {
            let points = distribution.points.iter();
            let share = |&(ns, share): &(f64, f64)| (ns, Some(if is_tail { 1.0 - share } else { share }));
            // The last point is the maximum. Its tail is 0, which a logarithmic axis cannot show.
            let least = |(ns, y): (f64, Option<f64>)| (ns, y.filter(|&y| !is_tail || y > 1e-15));
            let line = Line::new(name, style, points.map(share).map(least).collect());
            if distribution.is_exact { line.stepped() } else { line }
        };
        let label = if is_tail { "share that took longer" } else { "share that took at most this long" };
        let y = Axis::new(label, Unit::Share);
        Plot {
            title: "Latency distribution".to_owned(),
            x: Axis::new("latency from issue", Unit::Ns).log(),
            y: if is_tail { y.log() } else { y },
            has_zero: !is_tail,
            mark: None,
            lines: lines.iter().enumerate().map(line).collect(),
        }
    };
    let views: Vec<_> = [(false, "all"), (true, "tail")]
        .into_iter()
        .filter_map(|(is_tail, label)| plot(is_tail).view(label))
        .collect();
    let mut notes: Vec<String> = Vec::new();
    let timeless = lines.iter().filter(|(_, distribution)| distribution.none > 0.0);
    notes.extend(timeless.map(|(name, distribution)| {
        format!(
            "{:.1} % of {name} needed no flash, such as reads of unwritten data: the line starts above them.",
            100.0 * distribution.none
        )
    }));
    if !is_exact {
        let text = "From the percentiles of the result; run.latency_bins = true has every latency.";
        notes.push(text.to_owned());
    }
    let note = (!notes.is_empty()).then(|| notes.join(" "));
    let title = "Latency distribution".to_owned();
    (!views.is_empty()).then_some(Figure { name: "latency".into(), title, note, views })
}

impl Distribution {
    fn of(run: &Run, op: &str) -> Option<Self> {
        let jobs = run.list("jobs");
        let clat = |job: &'static str| at(run.at(job), op);
        let total = if run.at("total").is_object() { clat("total") } else { clat("jobs/0") };
        let latency = at(total, "clat_ns");
        number(at(latency, "N")).filter(|&n| n > 0.0)?;
        let bins: Vec<&Value> = jobs.iter().map(|job| at(job, &format!("{op}/clat_ns/bins"))).collect();
        if !bins.is_empty() && bins.iter().all(|bins| bins.is_object()) {
            Self::of_bins(&bins)
        } else {
            Self::of_percentiles(latency)
        }
    }

    fn of_bins(jobs: &[&Value]) -> Option<Self> {
        let mut counts: BTreeMap<u64, f64> = BTreeMap::new();
        for (ns, count) in jobs.iter().filter_map(|bins| bins.as_object()).flatten().take(BINS_MAX) {
            if let (Ok(ns), Some(count)) = (ns.parse::<u64>(), number(count)) {
                *counts.entry(ns).or_default() += count.max(0.0);
            }
        }
        let total: f64 = counts.values().sum();
        let mut sum = 0.0;
        let mut share = |count: f64| {
            sum += count;
            (sum / total).min(1.0)
        };
        let shares: Vec<_> = counts.iter().map(|(&ns, &count)| (ns as f64, share(count))).collect();
        Self::above_shortest(thinned(shares), true).filter(|_| total > 0.0)
    }

    fn of_percentiles(latency: &Value) -> Option<Self> {
        let mut points: Vec<(f64, f64)> = at(latency, "percentile")
            .as_object()?
            .iter()
            .filter_map(|(percent, ns)| Some((number(ns)?, percent.parse::<f64>().ok()? / 100.0)))
            .filter(|(_, share)| (0.0..=1.0).contains(share))
            .collect();
        points.extend(number(at(latency, "max")).map(|ns| (ns, 1.0)));
        points.sort_by(|one, other| one.1.total_cmp(&other.1).then(one.0.total_cmp(&other.0)));
        Self::above_shortest(points, false)
    }

    /// `None` if all latencies are shorter than [`SHORTEST_NS`].
    fn above_shortest(mut points: Vec<(f64, f64)>, is_exact: bool) -> Option<Self> {
        // Latencies without a flash access would stretch the axis over empty decades.
        let short = points.partition_point(|&(ns, _)| ns < SHORTEST_NS);
        let none = points[..short].last().map_or(0.0, |&(_, share)| share);
        points.drain(..short);
        let (shortest, _) = *points.first()?;
        if is_exact || none > 0.0 {
            points.insert(0, (shortest, none));
        }
        Some(Self { points, none, is_exact })
    }
}

/// Drops points within 2 % in latency, 0.4 % in share and a tenth of the tail of the last kept point.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = Vec::new();
    let last = points.len().saturating_sub(1);
    for (at, point) in points.into_iter().enumerate() {
        let is_far = |kept: &(f64, f64)| {
            let (tail, before) = (1.0 - point.1, 1.0 - kept.1);
            point.0 > kept.0 * 1.02 || point.1 - kept.1 > 0.004 || tail < before * 0.9
        };
        if at == last || kept.last().is_none_or(is_far) {
            kept.push(point);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_no_time_is_a_share_and_no_decade_of_the_axis() {
        let points = vec![(0.0, 0.62), (50_000.0, 0.7), (90_000.0, 1.0)];
        let found = Distribution::above_shortest(points, true).expect("reads of flash");
        assert_eq!(found.points, [(50_000.0, 0.62), (50_000.0, 0.7), (90_000.0, 1.0)]);
        assert_eq!(found.none, 0.62);
        let all = Distribution::above_shortest(vec![(200.0, 0.5), (300.0, 1.0)], true).expect("reads");
        assert_eq!((all.points[0], all.none), ((200.0, 0.0), 0.0));
        assert!(Distribution::above_shortest(vec![(0.0, 1.0)], true).is_none(), "nothing to draw");
        let coarse = Distribution::above_shortest(vec![(0.0, 0.5), (70.0, 0.9), (4000.0, 1.0)], false);
        assert_eq!(coarse.expect("the longest").points, [(4000.0, 0.9), (4000.0, 1.0)]);
    }
}
