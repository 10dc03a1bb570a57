//! What a person reads about a sweep.

use std::fmt::Write as _;

use strobe_sweep::{Difference, Estimate, Outputs, Plan, Summary, short, shown};

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
    let percent = summary.confidence * 100.0;
    let has_interval = summary
        .configurations
        .iter()
        .flat_map(|found| found.measures.iter().flatten())
        .any(|found| found.half_width.is_some());
    let note = match has_interval {
        true => format!("\nMeans; ± is half of the {percent} % interval over seeds."),
        false => "\nOne seed each: it cannot say what is chance (sweep.seeds = 5).".to_owned(),
    };
    format!("{table}\n{note}\n")
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

fn verdict(relative: &Estimate) -> String {
    match (relative.half_width, relative.is_not_zero()) {
        (None, _) => "one seed cannot say".to_owned(),
        (Some(0.0), false) => "the same".to_owned(),
        (Some(_), false) => "no difference shown".to_owned(),
        (Some(_), true) if relative.mean > 0.0 => "more".to_owned(),
        (Some(_), true) => "less".to_owned(),
    }
}

fn percent(relative: &Estimate) -> String {
    let half = relative.half_width.map(|half| format!(" ± {:.2}", 100.0 * half)).unwrap_or_default();
    format!("{:+.2}{half} %", 100.0 * relative.mean)
}

/// A mean with as many digits as its interval makes sense of.
fn estimated(estimate: &Estimate) -> String {
    let Some(half) = estimate.half_width else { return number(estimate.mean, 4) };
    if half == 0.0 {
        return format!("{} ± 0", number(estimate.mean, 4));
    }
    let digits = (1.0 - libm::log10(half.abs()).floor()).clamp(0.0, 9.0) as usize;
    format!("{:.digits$} ± {:.digits$}", estimate.mean, half)
}

/// In so many digits.
fn number(value: f64, digits: i32) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let places = (f64::from(digits - 1) - libm::log10(value.abs()).floor()).clamp(0.0, 9.0) as usize;
    format!("{value:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mean: f64, half_width: Option<f64>) -> Estimate {
        Estimate { n: 3, mean, deviation: 0.0, half_width }
    }

    #[test]
    fn means_have_the_digits_that_their_interval_allows() {
        assert_eq!(estimated(&of(2.456_789, Some(0.0123))), "2.457 ± 0.012");
        assert_eq!(estimated(&of(123_456.0, Some(340.0))), "123456 ± 340");
        assert_eq!(estimated(&of(2.456_789, None)), "2.457");
        assert_eq!(estimated(&of(0.0, Some(0.0))), "0 ± 0");
    }

    #[test]
    fn a_difference_within_its_interval_is_none() {
        assert_eq!(verdict(&of(0.016, Some(0.02))), "no difference shown");
        assert_eq!(verdict(&of(0.016, Some(0.004))), "more");
        assert_eq!(verdict(&of(-0.016, Some(0.004))), "less");
        assert_eq!(verdict(&of(-0.016, None)), "one seed cannot say");
        assert_eq!(verdict(&of(0.0, Some(0.0))), "the same");
        assert_eq!(percent(&of(-0.016, Some(0.004))), "-1.60 ± 0.40 %");
    }
}
