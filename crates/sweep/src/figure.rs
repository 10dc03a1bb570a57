//! Measures over the key of the sweep that is a number, as charts.

use strobe_report::{Chart, Curve, Mean};

use crate::plan::{short, shown};
use crate::{Estimate, Plan, Summary};

/// Curves that can be told apart.
const CURVES_MAX: usize = 8;

/// A chart for each measure that was found. Curves over the first key that has several numbers, one for each combination
/// of the others. Without such a key bars: in groups by all keys but the last, with a colour for each value of that.
pub fn charts(plan: &Plan, summary: &Summary) -> Vec<Chart> {
    let over = (0..plan.keys.len()).find(|&at| {
        let mut values: Vec<f64> = Vec::new();
        let all = plan.configurations.iter().map(|configuration| number(configuration.values[at].as_ref()));
        all.flatten().for_each(|value| {
            if !values.contains(&value) {
                values.push(value);
            }
        });
        let is_number = |value: &Option<toml::Value>| number(value.as_ref()).is_some();
        values.len() > 1
            && plan.configurations.iter().all(|configuration| is_number(&configuration.values[at]))
    });
    let chart = |(at, measure): (usize, &String)| {
        let (groups, curves) = match over {
            Some(over) => (Vec::new(), curves(plan, summary, at, over)),
            None => bars(plan, summary, at),
        };
        let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let has_several = curves.iter().flat_map(|curve| &curve.points).any(|point| point.range.is_some());
        let title = if has_several {
            format!("{measure} (mean, {} % interval)", summary.confidence * 100.0)
        } else {
            measure.clone()
        };
        let note = (curves.len() > CURVES_MAX).then(|| {
            let what = if over.is_some() { "curves" } else { "values" };
            format!("More than {CURVES_MAX} {what}: some look alike; rows.parquet has all.")
        });
        (!curves.is_empty()).then(|| Chart {
            name: measure.chars().map(letter).collect(),
            title,
            note,
            over: over.map(|at| plan.keys[at].clone()),
            groups,
            measure: measure.clone(),
            curves,
        })
    };
    summary.measures.iter().enumerate().filter_map(chart).collect()
}

fn number(value: Option<&toml::Value>) -> Option<f64> {
    let value = value?;
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

/// The values of a configuration for which `is_meant` holds, as a name.
fn named(plan: &Plan, configuration: usize, is_meant: impl Fn(usize) -> bool) -> String {
    let values = plan.configurations[configuration].values.iter().enumerate();
    let parts: Vec<String> = values
        .filter(|(at, _)| is_meant(*at))
        .filter_map(|(at, value)| Some((at, value.as_ref()?)))
        .map(|(at, value)| match value.as_str() {
            Some(text) => text.to_owned(),
            None => format!("{} {}", short(&plan.keys[at]), shown(value)),
        })
        .collect();
    parts.join(", ")
}

/// The place of `name` in `all`, at whose end it is put if it is new.
fn place(all: &mut Vec<String>, name: String) -> usize {
    all.iter().position(|other| *other == name).unwrap_or_else(|| {
        all.push(name);
        all.len() - 1
    })
}

/// Estimates of one measure by configuration.
fn estimates(summary: &Summary, measure: usize) -> impl Iterator<Item = (usize, &Estimate)> {
    let found = summary.configurations.iter();
    found.filter_map(move |found| Some((found.configuration, found.measures[measure].as_ref()?)))
}

/// Names of the groups of bars, and for each value of the last key its bars. Where most groups would lack bars, as with
/// points of keys that go together, each configuration is a group.
fn bars(plan: &Plan, summary: &Summary, measure: usize) -> (Vec<String>, Vec<Curve>) {
    let last = plan.keys.len().saturating_sub(1);
    let (mut groups, mut kinds) = (Vec::new(), Vec::new());
    for configuration in 0..plan.configurations.len() {
        place(&mut groups, named(plan, configuration, |at| at != last));
        place(&mut kinds, named(plan, configuration, |at| at == last));
    }
    let is_grid = last > 0 && groups.len() * kinds.len() < 2 * plan.configurations.len();
    (groups, kinds) = (Vec::new(), Vec::new());
    let mut curves: Vec<Curve> = Vec::new();
    for (configuration, estimate) in estimates(summary, measure) {
        let (group, kind) = if is_grid {
            let kind = named(plan, configuration, |at| at == last);
            (named(plan, configuration, |at| at != last), kind)
        } else {
            (named(plan, configuration, |_| true), String::new())
        };
        let (group, at) = (place(&mut groups, group), place(&mut kinds, kind));
        if at == curves.len() {
            curves.push(Curve { name: kinds[at].clone(), points: Vec::new() });
        }
        curves[at].points.push(Mean { x: group as f64, mean: estimate.mean, range: range(estimate) });
    }
    (groups, curves)
}

/// Curves of one measure over the key at `over`.
fn curves(plan: &Plan, summary: &Summary, measure: usize, over: usize) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    let mut names = Vec::new();
    for (configuration, estimate) in estimates(summary, measure) {
        let x = number(plan.configurations[configuration].values[over].as_ref()).unwrap_or_default();
        let at = place(&mut names, named(plan, configuration, |at| at != over));
        if at == curves.len() {
            curves.push(Curve { name: names[at].clone(), points: Vec::new() });
        }
        curves[at].points.push(Mean { x, mean: estimate.mean, range: range(estimate) });
    }
    for curve in &mut curves {
        curve.points.sort_by(|one, other| one.x.total_cmp(&other.x));
    }
    curves
}

fn range(estimate: &Estimate) -> Option<(f64, f64)> {
    let half = estimate.half_width?;
    Some((estimate.mean - half, estimate.mean + half))
}
