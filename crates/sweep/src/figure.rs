//! Measures over the key of the sweep that is a number, as charts.

use std::collections::BTreeMap;

use strobe_report::{Chart, Curve, Mean};

use crate::plan::{short, shown};
use crate::{Estimate, Plan, Summary};

/// Curves that can be told apart.
const CURVES_MAX: usize = 8;

/// A chart for each measure that was found. Curves over the first key that has several numbers, one for each combination
/// of the others; without such a key a bar for each configuration.
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
        let curves = curves(plan, summary, at, over);
        let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let has_several = curves.iter().flat_map(|curve| &curve.points).any(|point| point.range.is_some());
        let title = if has_several {
            format!("{measure} (mean, {} % interval)", summary.confidence * 100.0)
        } else {
            measure.clone()
        };
        let many = over.is_some() && curves.len() > CURVES_MAX;
        let note =
            many.then(|| format!("More than {CURVES_MAX} curves: some look alike; rows.parquet has all."));
        (!curves.is_empty()).then(|| Chart {
            name: measure.chars().map(letter).collect(),
            title,
            note,
            over: over.map(|at| plan.keys[at].clone()),
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

/// Curves of one measure.
fn curves(plan: &Plan, summary: &Summary, measure: usize, over: Option<usize>) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (row, found) in summary.configurations.iter().enumerate() {
        let Some(estimate) = &found.measures[measure] else { continue };
        let values = &plan.configurations[found.configuration].values;
        let parts: Vec<String> = values
            .iter()
            .enumerate()
            .filter(|(at, _)| Some(*at) != over)
            .filter_map(|(at, value)| Some((at, value.as_ref()?)))
            .map(|(at, value)| match value.as_str() {
                Some(text) => text.to_owned(),
                None => format!("{} {}", short(&plan.keys[at]), shown(value)),
            })
            .collect();
        let name = parts.join(", ");
        let x = match over {
            Some(at) => number(values[at].as_ref()).unwrap_or_default(),
            None => row as f64,
        };
        let at = *places.entry(name.clone()).or_insert_with(|| {
            curves.push(Curve { name, points: Vec::new() });
            curves.len() - 1
        });
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
