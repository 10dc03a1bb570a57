//! The best values as a table and as a line.

use strobe_report::Table;

use crate::measures::is_higher_better;
use crate::plan::shown;
use crate::titles::{Naming, scaled, valued};
use crate::words::{best_verdict, corrected, estimated, p_value, percent};
use crate::{Difference, Estimate, Plan, Summary};

/// Table of the best value of the compared key per cell; `None` with fewer than two cells.
pub(crate) fn best_per_cell(plan: &Plan, summary: &Summary) -> Option<Table> {
    let key = summary.compare.as_deref()?;
    let place = plan.place(key).filter(|_| summary.best.len() > 1)?;
    let others: Vec<usize> = (0..plan.keys.len()).filter(|&at| at != place).collect();
    let means = || summary.configurations.iter().map(|found| found.measures[0]);
    let (measure, scale) = Naming::Words.measure(&summary.measures[0], means().flatten().map(|of| of.mean));
    let scaled: Vec<Option<Estimate>> = means().map(|of| of.map(|of| scaled(&of, scale))).collect();
    let means = estimated(&scaled);
    let has_verdict = summary.best.iter().any(Difference::has_verdict);
    let key = Naming::Words.key(key);
    let value = |configuration: usize, at: usize| {
        plan.configurations[configuration].values[at].as_ref().map(shown).unwrap_or_default()
    };
    let mut columns: Vec<(String, bool)> =
        others.iter().map(|&at| (Naming::Words.key(&plan.keys[at]), false)).collect();
    columns.push((format!("best {key}"), false));
    columns.push((measure.clone(), true));
    columns.push(("second".to_owned(), false));
    columns.push(("best to second".to_owned(), true));
    if has_verdict {
        columns.extend([("p (Holm)".to_owned(), true), ("verdict".to_owned(), false)]);
    }
    let row = |found: &Difference| {
        let mut cells: Vec<String> = others.iter().map(|&at| value(found.configuration, at)).collect();
        cells.push(value(found.configuration, place));
        cells.push(means[found.configuration].clone());
        cells.push(value(found.baseline, place));
        cells.push(percent(&found.relative));
        if has_verdict {
            cells.extend([p_value(found), best_verdict(found, summary.confidence)]);
        }
        cells
    };
    let tested = summary.best.iter().filter(|found| found.p.is_some()).count();
    let test = if tested > 0 { format!(" {}", corrected(tested, summary.confidence)) } else { String::new() };
    let name = measure.split(" (").next().unwrap_or_default();
    Some(Table {
        title: format!("Best {key} by {name}"),
        note: Some(format!("best to second: difference of the best from the second best.{test}")),
        columns,
        rows: summary.best.iter().map(row).collect(),
    })
}

/// A line with the best configuration: its values, the measure and the mean with its unit.
///
/// Results of different workloads cannot be ranked. With several workloads, the line counts the cells in
/// which each value of the compared key is the best.
pub fn best_line(plan: &Plan, summary: &Summary) -> Option<String> {
    let is_higher = is_higher_better(&summary.measures[0])?;
    let means: Vec<Option<Estimate>> = summary.configurations.iter().map(|found| found.measures[0]).collect();
    let (name, unit, scale) =
        Naming::Words.measure_parts(&summary.measures[0], means.iter().flatten().map(|of| of.mean));
    let several = |at: &usize| plan.has_several(*at);
    let keys: Vec<usize> = (0..plan.keys.len()).filter(several).collect();
    if keys.iter().any(|&at| plan.keys[at].starts_with("workload.")) {
        return wins(plan, summary, &name);
    }
    let order = |one: f64, other: f64| if is_higher { other.total_cmp(&one) } else { one.total_cmp(&other) };
    let found = means.iter().enumerate().filter_map(|(at, of)| Some((at, of.as_ref()?.mean)));
    let found: Vec<(usize, f64)> = found.collect();
    let &(at, _) =
        found.iter().min_by(|(_, one), (_, other)| order(*one, *other)).filter(|_| found.len() > 1)?;
    let scaled: Vec<Option<Estimate>> = means.iter().map(|of| of.map(|of| scaled(&of, scale))).collect();
    let values = &plan.configurations[at].values;
    let named = keys.iter().filter_map(|&key| Some(valued(&plan.keys[key], values[key].as_ref()?)));
    let (named, which) = (named.collect::<Vec<_>>().join(", "), if is_higher { "highest" } else { "lowest" });
    let unit = unit.map(|unit| format!(" {unit}")).unwrap_or_default();
    Some(format!("best: {named} ({which} {name}: {}{unit})", estimated(&scaled)[at]))
}

fn wins(plan: &Plan, summary: &Summary, measure: &str) -> Option<String> {
    let key = summary.compare.as_deref()?;
    let place = plan.place(key).filter(|_| !summary.best.is_empty())?;
    let mut wins: Vec<(String, usize)> = Vec::new();
    for found in &summary.best {
        let value = plan.configurations[found.configuration].values[place].as_ref().map(shown);
        let value = value.unwrap_or_default();
        match wins.iter_mut().find(|(other, _)| *other == value) {
            Some((_, count)) => *count += 1,
            None => wins.push((value, 1)),
        }
    }
    wins.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let others = (0..plan.keys.len()).filter(|&at| at != place && plan.has_several(at));
    let others: Vec<String> = others.map(|at| Naming::Words.key(&plan.keys[at])).collect();
    let counts: Vec<String> = wins.iter().map(|(value, count)| format!("{value} in {count}")).collect();
    Some(format!(
        "best: {} by {measure}: {} (of {} combinations of {}; report.html has each)",
        Naming::Words.key(key),
        counts.join(", "),
        summary.best.len(),
        others.join(" and ")
    ))
}
