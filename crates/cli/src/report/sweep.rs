//! What a person reads about a sweep.

use std::fmt::Write as _;

use strobe_sweep::words::{estimated, percent, verdict};
use strobe_sweep::{Difference, Outputs, Plan, Summary, short, shown};

use super::{count, row, table, wrapped};

/// What there is to run.
pub fn plan(plan: &Plan) -> String {
    let refused: Vec<(usize, &str)> = plan
        .configurations
        .iter()
        .enumerate()
        .filter_map(|(at, configuration)| Some((at, configuration.refused.as_deref()?)))
        .collect();
    let seeds = plan.seeds();
    let most = if plan.file.seeds.until.is_some() { " at most" } else { "" };
    let configurations = plan.configurations.len();
    let mut out = format!(
        "{} runs{most}: {} configurations with {seeds} seed{} each\n",
        count((plan.points.len()) as u64),
        count(configurations as u64),
        if seeds == 1 { "" } else { "s" },
    );
    for (at, why) in refused {
        let _ = writeln!(out, "refused: {}: {why}", plan.label(at));
    }
    out
}

/// What has come of it.
pub fn summary(plan: &Plan, outputs: &Outputs) -> String {
    let summary = &outputs.summary;
    let mut out = means(plan, summary);
    for found in summary.configurations.iter().filter(|found| found.runs.1 > 0) {
        let of = found.runs.0 + found.runs.1;
        let why = found.error.as_deref().unwrap_or_default();
        let text =
            format!("{}: {} of {of} runs failed: {why}", plan.label(found.configuration), found.runs.1);
        let _ = writeln!(out, "\n{}", wrapped(&text));
    }
    if !summary.differences.is_empty() {
        let _ = writeln!(out, "\n{}", differences(plan, summary));
    }
    let mut files = vec![outputs.parquet.display().to_string(), outputs.csv.display().to_string()];
    files.push(outputs.page.display().to_string());
    files.extend(outputs.pictures.iter().map(|path| path.display().to_string()));
    let _ = writeln!(out, "\n{}", files.join("\n"));
    out
}

/// A table of means: a line for each configuration.
fn means(plan: &Plan, summary: &Summary) -> String {
    let keys: Vec<String> = plan.keys.iter().map(|key| short(key).to_owned()).collect();
    let mut heading: Vec<&str> = keys.iter().map(String::as_str).collect();
    heading.extend(summary.measures.iter().map(String::as_str));
    heading.push("runs");
    let mut table = table(&heading);
    for found in &summary.configurations {
        let values = &plan.configurations[found.configuration].values;
        let mut cells: Vec<String> =
            values.iter().map(|value| value.as_ref().map(shown).unwrap_or_default()).collect();
        let first = if cells.is_empty() { "-".to_owned() } else { cells.remove(0) };
        cells.extend(
            found.measures.iter().map(|estimate| estimate.as_ref().map_or("-".to_owned(), estimated)),
        );
        cells.push(found.runs.0.to_string());
        if plan.keys.is_empty() {
            table.add_row(cells);
        } else {
            table.add_row(row(&first, cells));
        }
    }
    format!("{table}\n\n{}\n", strobe_sweep::words::about_intervals(summary))
}

/// What differs, and what was not shown to.
fn differences(plan: &Plan, summary: &Summary) -> String {
    let key = summary.compare.as_deref().unwrap_or_default();
    let mut out = String::new();
    for (at, measure) in summary.measures.iter().enumerate() {
        let of: Vec<&Difference> = summary.differences.iter().filter(|found| found.measure == at).collect();
        let Some(first) = of.first() else { continue };
        let place = plan.keys.iter().position(|other| other == key).unwrap_or_default();
        let value = |configuration: usize| {
            plan.configurations[configuration].values[place].as_ref().map(shown).unwrap_or_default()
        };
        let _ = writeln!(out, "{measure}, beside {} {}:\n", short(key), value(first.baseline));
        let others: Vec<&str> =
            plan.keys.iter().enumerate().filter(|(at, _)| *at != place).map(|(_, key)| short(key)).collect();
        let mut heading = vec![short(key)];
        heading.extend(others);
        heading.extend(["difference", "verdict"]);
        let mut table = table(&heading);
        for found in of {
            let values = &plan.configurations[found.configuration].values;
            let rest = values.iter().enumerate().filter(|(at, _)| *at != place);
            let mut cells: Vec<String> =
                rest.map(|(_, value)| value.as_ref().map(shown).unwrap_or_default()).collect();
            cells.push(percent(&found.relative));
            cells.push(verdict(&found.relative));
            table.add_row(row(&value(found.configuration), cells));
        }
        let _ = writeln!(out, "{table}\n");
    }
    out.trim_end().to_owned()
}
