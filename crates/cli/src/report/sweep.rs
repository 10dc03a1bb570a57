//! Report on a sweep.

use std::fmt::Write as _;

use strobe_report::Table;
use strobe_sweep::words::{about_intervals, about_left_out, about_steadiness};
use strobe_sweep::{Naming, Outputs, Plan, best_line, failures};

use super::{broken, count, table, terminal_width, wrapped};

/// Plan of a sweep: number of runs, and refused configurations.
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

/// Results so far.
pub fn summary(plan: &Plan, outputs: &Outputs) -> String {
    let summary = &outputs.summary;
    let tables = strobe_sweep::tables(plan, summary, Naming::Paths);
    let (means, differences) = tables.split_at(1);
    let mut out: String = means.iter().map(written).collect();
    if let Some(line) = best_line(plan, summary) {
        let _ = writeln!(out, "\n{}", broken(&line, terminal_width()).join("\n"));
    }
    let _ = writeln!(out, "\n{}", broken(&about_intervals(plan, summary), terminal_width()).join("\n"));
    if let Some(line) = about_steadiness(plan, summary) {
        let _ = writeln!(out, "{}", broken(&line, terminal_width()).join("\n"));
    }
    // With differences, the notes of their tables name the left-out configurations.
    if let Some(line) = about_left_out(plan, summary).filter(|_| differences.is_empty()) {
        let _ = writeln!(out, "{}", broken(&line, terminal_width()).join("\n"));
    }
    for failure in failures(plan, summary) {
        let _ = writeln!(out, "\n{}", wrapped(&failure));
    }
    for table in differences {
        let _ = write!(out, "\n{}:\n\n{}", table.title, written(table));
        if let Some(note) = &table.note {
            let _ = writeln!(out, "\n{}", broken(note, terminal_width()).join("\n"));
        }
    }
    let mut files = vec![outputs.parquet.display().to_string(), outputs.csv.display().to_string()];
    files.push(outputs.page.display().to_string());
    files.extend(outputs.pictures.iter().map(|path| path.display().to_string()));
    let _ = writeln!(out, "\n{}", files.join("\n"));
    out
}

fn written(found: &Table) -> String {
    let heading: Vec<&str> = found.columns.iter().map(|(name, _)| name.as_str()).collect();
    let mut table = table(&heading);
    for (at, (_, is_number)) in found.columns.iter().enumerate() {
        table = if *is_number { table.numbers(at) } else { table.text(at) };
    }
    found.rows.iter().for_each(|cells| table.add_row(cells.clone()));
    format!("{table}\n")
}
