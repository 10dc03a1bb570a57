use strobe_report::{Collection, Table, collection};

use crate::best_table::best_per_cell;
use crate::measures::is_higher_better;
use crate::plan::shown;
use crate::titles::{Naming, scaled};
use crate::words::{
    NOT_STEADY, ONE_SEED, about_differences, about_intervals, about_left_out, about_steadiness, estimated,
    p_value, percent, verdict,
};
use crate::{ConfigurationSummary, Difference, Plan, Summary, charts};

/// The report page of the sweep called `name`.
pub fn page(name: &str, plan: &Plan, summary: &Summary) -> String {
    let done: usize = summary.configurations.iter().map(|found| found.runs.0).sum();
    let failed: usize = summary.configurations.iter().map(|found| found.runs.1).sum();
    // A configuration with the same result for every seed needs only the runs it has.
    let wanted = |found: &ConfigurationSummary| if found.is_same { found.runs.0 } else { plan.seeds() };
    let most: usize = summary.configurations.iter().map(wanted).sum();
    let configurations = plan.configurations.len();
    let seeds = if plan.file.seeds.until.is_some() { " at most" } else { "" };
    let mut notes = Vec::new();
    if done + failed < most && plan.file.seeds.until.is_none() {
        notes.push(format!("{} of {most} runs are done: means cover these runs only.", done + failed));
    }
    notes.extend(about_steadiness(plan, summary));
    notes.extend(failures(plan, summary));
    collection(&Collection {
        name: name.to_owned(),
        about: format!("{configurations} configurations, {done} runs of {most}{seeds}"),
        notes,
        charts: charts(plan, summary),
        tables: best(plan, summary)
            .into_iter()
            .chain(best_per_cell(plan, summary))
            .chain(tables(plan, summary, Naming::Words))
            .collect(),
        configuration: plan.file.text.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// Rows of the table of the best configurations; a sweep of up to twice as many has no such table.
const BEST: usize = 10;

/// The configurations with the best values of the first measure.
fn best(plan: &Plan, summary: &Summary) -> Option<Table> {
    let mean = |found: &ConfigurationSummary| found.measures[0].map(|estimate| estimate.mean);
    let mut found: Vec<&ConfigurationSummary> =
        summary.configurations.iter().filter(|found| mean(found).is_some()).collect();
    if found.len() <= 2 * BEST {
        return None;
    }
    let name = &summary.measures[0];
    let is_higher = is_higher_better(name)?;
    found.sort_by(|one, other| {
        let order = mean(one).partial_cmp(&mean(other)).unwrap_or(std::cmp::Ordering::Equal);
        if is_higher { order.reverse() } else { order }
    });
    found.truncate(BEST);
    let configurations = found.into_iter().cloned().collect();
    let best = Summary { configurations, ..summary.clone() };
    let which = if is_higher { "highest" } else { "lowest" };
    let (title, _) = Naming::Words.measure(name, std::iter::empty());
    let title = title.split(" (").next().unwrap_or_default();
    let title = format!("The {BEST} configurations with the {which} {title}");
    Some(Table { title, note: None, ..means(plan, &best, Naming::Words) })
}

/// A line for each different error, with the affected runs and configurations.
pub fn failures(plan: &Plan, summary: &Summary) -> Vec<String> {
    let mut errors: Vec<(&str, Vec<&ConfigurationSummary>)> = Vec::new();
    for found in summary.configurations.iter().filter(|found| found.runs.1 > 0) {
        let error = found.error.as_deref().unwrap_or_default();
        match errors.iter_mut().find(|(other, _)| *other == error) {
            Some((_, all)) => all.push(found),
            None => errors.push((error, vec![found])),
        }
    }
    let line = |(error, all): (&str, Vec<&ConfigurationSummary>)| {
        let failed: usize = all.iter().map(|found| found.runs.1).sum();
        let label = plan.label(all[0].configuration);
        match all.as_slice() {
            [one] => format!("{label}: {failed} of {} runs failed: {error}", one.runs.0 + failed),
            _ => format!(
                "{failed} runs of {} configurations failed, the first with {label}: {error}",
                all.len()
            ),
        }
    };
    errors.into_iter().map(line).collect()
}

/// The means, then the differences of each measure if values are compared.
pub fn tables(plan: &Plan, summary: &Summary, naming: Naming) -> Vec<Table> {
    let of_measure = |measure| differences(plan, summary, measure, naming);
    [means(plan, summary, naming)]
        .into_iter()
        .chain((0..summary.measures.len()).filter_map(of_measure))
        .collect()
}

fn means(plan: &Plan, summary: &Summary, naming: Naming) -> Table {
    let mut columns: Vec<(String, bool)> = plan.keys.iter().map(|key| (naming.key(key), false)).collect();
    let mut estimates: Vec<Vec<String>> = Vec::new();
    for (at, measure) in summary.measures.iter().enumerate() {
        let column = || summary.configurations.iter().map(|found| found.measures[at]);
        let (title, scale) = naming.measure(measure, column().flatten().map(|found| found.mean));
        columns.push((title, true));
        let scaled: Vec<_> = column().map(|found| found.map(|found| scaled(&found, scale))).collect();
        estimates.push(estimated(&scaled));
    }
    columns.push(("runs".to_owned(), true));
    let row = |(at, found): (usize, &ConfigurationSummary)| {
        let values = &plan.configurations[found.configuration].values;
        let cells = values.iter().map(|value| value.as_ref().map(shown).unwrap_or_default());
        let measures = estimates.iter().map(|column| column[at].clone());
        let mark = match found.not_steady_runs() {
            0 => "",
            _ => NOT_STEADY,
        };
        cells.chain(measures).chain([format!("{}{mark}", found.runs.0)]).collect()
    };
    let has_mark = summary.configurations.iter().any(|found| found.not_steady_runs() > 0);
    let note = if has_mark { format!(" {NOT_STEADY} has runs that were not steady.") } else { String::new() };
    // A table of differences shows this line instead, if there is such a table.
    let left_out = about_left_out(plan, summary).filter(|_| summary.differences.is_empty());
    let left_out = left_out.map(|line| format!(" {line}")).unwrap_or_default();
    Table {
        title: "Means".to_owned(),
        note: Some(about_intervals(plan, summary) + &note + &left_out),
        columns,
        rows: summary.configurations.iter().enumerate().map(row).collect(),
    }
}

fn differences(plan: &Plan, summary: &Summary, measure: usize, naming: Naming) -> Option<Table> {
    let key = summary.compare.as_deref()?;
    let place = plan.place(key)?;
    let value = |configuration: usize, at: usize| {
        plan.configurations[configuration].values[at].as_ref().map(shown).unwrap_or_default()
    };
    // The compared key comes first.
    let mut order: Vec<usize> = (0..plan.keys.len()).collect();
    order.sort_by_key(|&at| at != place);
    let mut found = summary.differences.iter().filter(|found| found.measure == measure).peekable();
    let baseline = found.peek()?.baseline;
    let is_each = plan.file.all_pairs;
    let mut columns: Vec<(String, bool)> =
        order.iter().map(|&at| (naming.key(&plan.keys[at]), false)).collect();
    if is_each {
        columns.insert(1, ("compared with".to_owned(), columns[0].1));
    }
    columns.push(("difference".to_owned(), true));
    // With one seed each, the line below the means says that differences may be due to chance.
    let has_verdict = summary.differences.iter().any(Difference::has_verdict);
    if has_verdict {
        columns.extend([("p (Holm)".to_owned(), true), ("verdict".to_owned(), false)]);
    }
    let row = |found: &Difference| {
        let mut cells: Vec<String> = order.iter().map(|&at| value(found.configuration, at)).collect();
        if is_each {
            cells.insert(1, value(found.baseline, place));
        }
        cells.push(percent(&found.relative));
        if has_verdict {
            cells.extend([p_value(found), verdict(found, summary.confidence)]);
        }
        cells
    };
    let rows: Vec<Vec<String>> = found.map(row).collect();
    // The correction is for the comparisons of all measures.
    let tested = summary.differences.iter().filter(|found| found.p.is_some());
    let is_tested = tested.clone().any(|found| found.measure == measure);
    let test = is_tested.then(|| about_differences(tested.count(), summary.confidence));
    // The first table with single runs says so for all.
    let is_first = |found: &Difference| !found.has_verdict() && found.measure <= measure;
    let singles = summary.differences.iter().filter(|found| is_first(found)).map(|found| found.measure);
    let one_seed = (has_verdict && singles.min() == Some(measure)).then(|| ONE_SEED.to_owned());
    let notes: Vec<String> = test.into_iter().chain(one_seed).chain(about_left_out(plan, summary)).collect();
    let (name, key) = (naming.measure(&summary.measures[measure], std::iter::empty()).0, naming.key(key));
    // Differences are relative, so the unit is dropped.
    let name = name.split(" (").next().unwrap_or_default();
    Some(Table {
        title: if is_each {
            format!("{name}, each {key} compared with each")
        } else {
            format!("{name}, compared with {key} {}", value(baseline, place))
        },
        note: (!notes.is_empty()).then(|| notes.join(" ")),
        columns,
        rows,
    })
}
