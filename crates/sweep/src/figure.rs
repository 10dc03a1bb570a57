use strobe_report::{Chart, Curve, Mean};

use crate::plan::number;
use crate::titles::{Naming, valued};
use crate::{Estimate, Plan, Summary};

/// More curves than this are split into several charts.
const CURVES_MAX: usize = 8;
/// Most curves drawn in a chart: more names have no space.
const CURVES_DRAWN: usize = 12;
const CHARTS_MAX: usize = 12;

/// The charts of each measure.
///
/// - Curves over `sweep.x`, or over the first numeric key with several values: one per combination of the
///   other keys.
/// - With more than 8 curves and several other keys: a chart per combination of the other keys except one.
///   The curves are for the values of that key, the compared one or the last.
/// - Without a numeric key: bars in groups by all keys except the last, with a colour for each value of the
///   last.
pub fn charts(plan: &Plan, summary: &Summary) -> Vec<Chart> {
    let over = axis(plan);
    let of_measure = |measure: usize| match over {
        None => chart(summary, measure, None, bars(plan, summary, measure)).into_iter().collect(),
        Some(over) => over_axis(plan, summary, measure, over),
    };
    (0..summary.measures.len()).flat_map(of_measure).collect()
}

fn axis(plan: &Plan) -> Option<usize> {
    match &plan.file.x {
        Some(key) => plan.keys.iter().position(|other| other == key),
        None => (0..plan.keys.len()).find(|&at| plan.has_several(at) && plan.is_numeric(at)),
    }
}

fn over_axis(plan: &Plan, summary: &Summary, measure: usize, over: usize) -> Vec<Chart> {
    let whole = curves(plan, summary, measure, over, |_| true, |at| at != over);
    let others: Vec<usize> = (0..plan.keys.len()).filter(|&at| at != over && plan.has_several(at)).collect();
    if whole.len() <= CURVES_MAX || others.len() < 2 {
        let over = Some(plan.keys[over].clone());
        return chart(summary, measure, over, (Vec::new(), whole)).into_iter().collect();
    }
    // Too many curves for one chart: one key distinguishes the curves, the others give a chart per
    // combination.
    let compared = summary.compare.as_ref().and_then(|key| plan.keys.iter().position(|other| other == key));
    let curve = compared.filter(|at| others.contains(at)).or(others.last().copied());
    let is_facet = |at: usize| others.contains(&at) && Some(at) != curve;
    let facet_of = |configuration: usize| named(plan, configuration, is_facet);
    let mut facets = Vec::new();
    for configuration in 0..plan.configurations.len() {
        place(&mut facets, facet_of(configuration));
    }
    let left_out = facets.len().saturating_sub(CHARTS_MAX);
    let drawn = facets.iter().take(CHARTS_MAX).filter_map(|facet| {
        let is_in = |configuration: usize| facet_of(configuration) == *facet;
        let found = curves(plan, summary, measure, over, is_in, |at| Some(at) == curve);
        let chart = chart(summary, measure, Some(plan.keys[over].clone()), (Vec::new(), found))?;
        let (name, title) =
            (as_name(&format!("{}-{facet}", chart.name)), format!("{}, {facet}", chart.title));
        Some(Chart { name, title, ..chart })
    });
    let mut drawn: Vec<Chart> = drawn.collect();
    if let Some(last) = drawn.last_mut().filter(|_| left_out > 0) {
        let more = format!("{left_out} more charts like this are not drawn: rows.parquet has all.");
        last.note = Some(last.note.take().map(|note| format!("{note} {more}")).unwrap_or(more));
    }
    drawn
}

/// Chart of groups of bars, or of curves over a key. `None` if empty.
fn chart(
    summary: &Summary,
    measure: usize,
    over: Option<String>,
    (groups, mut curves): (Vec<String>, Vec<Curve>),
) -> Option<Chart> {
    let name = &summary.measures[measure];
    let titled = Naming::Words.measure(name, std::iter::empty()).0;
    let titled = titled.split(" (").next().unwrap_or_default();
    let has_several = curves.iter().flat_map(|curve| &curve.points).any(|point| point.range.is_some());
    let title = if has_several {
        format!("{titled} (mean, {} % interval)", summary.confidence * 100.0)
    } else {
        titled.to_owned()
    };
    let (count, what) = (curves.len(), if over.is_some() { "curves" } else { "values" });
    // Beyond the first limit curves look alike; beyond the second their names do not fit.
    let note = match count {
        0..=CURVES_MAX => None,
        _ if count > CURVES_DRAWN && over.is_some() => {
            curves.truncate(CURVES_DRAWN);
            Some(format!("The first {CURVES_DRAWN} of {count} curves; rows.parquet has all."))
        }
        _ => Some(format!("More than {CURVES_MAX} {what}: some look alike; rows.parquet has all.")),
    };
    let measure = name.clone();
    (count > 0).then(|| Chart { name: as_name(name), title, note, over, groups, measure, curves })
}

fn as_name(text: &str) -> String {
    text.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect()
}

fn named(plan: &Plan, configuration: usize, is_meant: impl Fn(usize) -> bool) -> String {
    let values = plan.configurations[configuration].values.iter().enumerate();
    let parts: Vec<String> = values
        .filter(|(at, _)| is_meant(*at))
        .filter_map(|(at, value)| Some((at, value.as_ref()?)))
        .map(|(at, value)| match value.as_str() {
            Some(text) => text.to_owned(),
            None => valued(&plan.keys[at], value),
        })
        .collect();
    parts.join(", ")
}

fn place(all: &mut Vec<String>, name: String) -> usize {
    all.iter().position(|other| *other == name).unwrap_or_else(|| {
        all.push(name);
        all.len() - 1
    })
}

fn estimates(summary: &Summary, measure: usize) -> impl Iterator<Item = (usize, &Estimate)> {
    let found = summary.configurations.iter();
    found.filter_map(move |found| Some((found.configuration, found.measures[measure].as_ref()?)))
}

/// Each configuration is a group if at most half of the grid's bars exist, as with `sweep.points`.
fn bars(plan: &Plan, summary: &Summary, measure: usize) -> (Vec<String>, Vec<Curve>) {
    let last = plan.keys.len().saturating_sub(1);
    let (mut groups, mut kinds) = (Vec::new(), Vec::new());
    for configuration in 0..plan.configurations.len() {
        place(&mut groups, named(plan, configuration, |at| at != last));
        place(&mut kinds, named(plan, configuration, |at| at == last));
    }
    // A grid needs bars in more than half of its cells.
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

/// Curves over the key at `over`, named by the keys that satisfy `is_name`.
fn curves(
    plan: &Plan,
    summary: &Summary,
    measure: usize,
    over: usize,
    is_meant: impl Fn(usize) -> bool,
    is_name: impl Fn(usize) -> bool,
) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    let mut names = Vec::new();
    for (configuration, estimate) in estimates(summary, measure).filter(|(at, _)| is_meant(*at)) {
        let x = number(plan.configurations[configuration].values[over].as_ref()).unwrap_or_default();
        let at = place(&mut names, named(plan, configuration, &is_name));
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
