//! Report on simulated drives compared with real ones.

use std::fmt::Write as _;

use strobe_report::{Panel, Panels, Series, Shape};
use strobe_twin::ablation::Ablation;
use strobe_twin::check::{Check, Compared, Figure, Row};
use strobe_twin::fit::Fit;

use super::{Table, broken, row, table};
use crate::chart::WIDTH;

const CAPTION: &str = "Measured values, and the errors of the simulated ones; * exceeds the tolerance. Values in \
                       brackets are not judged: from saturation on, latencies depend on queue depths, and p99.99 of \
                       reads and all beyond p99 of writes rest on few requests.";

/// Comparison of a drive with its measurements.
pub fn check(name: &str, title: &str, remark: &str, check: &Check, ablations: &[Ablation]) -> String {
    let mut out = format!("{name} compared with {title}\n\n");
    if !remark.is_empty() {
        let _ = writeln!(out, "{}\n", broken(&format!("{remark}."), WIDTH).join("\n"));
    }
    let _ = writeln!(out, "{}", rows(check));
    let _ = writeln!(out, "{}\n", broken(CAPTION, WIDTH).join("\n"));
    let _ = writeln!(out, "{}", totals(check));
    if !ablations.is_empty() {
        let _ = writeln!(out, "\n{}", without(check, ablations));
    }
    out
}

fn figures(check: &Check) -> Vec<Figure> {
    let has = |figure: &Figure| {
        check.rows.iter().flat_map(|row| &row.figures).any(|compared| compared.figure == *figure)
    };
    Figure::ALL.into_iter().filter(has).collect()
}

const READS: [Figure; 4] = [Figure::ReadP50, Figure::ReadP99, Figure::ReadP999, Figure::ReadP9999];
const WRITES: [Figure; 4] = [Figure::WriteP50, Figure::WriteP99, Figure::WriteP999, Figure::WriteP9999];

fn rows(check: &Check) -> String {
    let there = figures(check);
    let parts = [&READS[..], &WRITES, &[Figure::Completed, Figure::Waf]];
    let some = parts.map(|part| there.iter().copied().filter(|at| part.contains(at)).collect::<Vec<_>>());
    let some = some.iter().filter(|figures| !figures.is_empty());
    some.map(|figures| part(check, figures)).collect::<Vec<_>>().join("\n\n")
}

fn part(check: &Check, figures: &[Figure]) -> String {
    let heading = ["writes/s"].into_iter().chain(figures.iter().map(|figure| figure.name()));
    let mut table = table(&heading.collect::<Vec<_>>());
    for line in &check.rows {
        let cells: Vec<String> = figures.iter().map(|figure| shown(line, *figure)).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            table.add_row(row(&name(line), cells));
        }
    }
    table.to_string()
}

fn name(line: &Row) -> String {
    let mut name =
        line.writes_s.map_or_else(|| "as fast as it can".to_owned(), |writes| format!("{}k", writes / 1000));
    if line.used < 0.995 {
        let _ = write!(name, ", {:.0} % full", 100.0 * line.used);
    }
    if line.addresses != "uniform" {
        let _ = write!(name, ", {}", line.addresses);
    }
    name
}

fn shown(row: &Row, figure: Figure) -> String {
    let found = row.figures.iter().find(|compared| compared.figure == figure);
    found.map_or_else(String::new, |&Compared { measured, error, is_met, .. }| {
        let measured = match figure {
            Figure::Waf => format!("{measured:.2}"),
            _ => format!("{measured:.0}"),
        };
        let error = off(error);
        match is_met {
            Some(true) => format!("{measured} {error:>6} "),
            Some(false) => format!("{measured} {error:>6}*"),
            None => format!("{measured} ({error})"),
        }
    })
}

/// Error in per cent, or as a factor if it is large.
fn off(error: f64) -> String {
    match error {
        9.95.. => format!("× {:.0}", 1.0 + error),
        _ => format!("{:+.0} %", 100.0 * error),
    }
}

fn totals(check: &Check) -> Table {
    let mut table = table(&["figure", "tolerated", "met", "mean error", "largest"]);
    for figure in figures(check) {
        let ((passed, all), errors) = (check.passed(Some(figure)), check.errors(figure));
        let Some(&largest) = errors.last() else { continue };
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let percent = |share: f64| off(share).trim_start_matches('+').to_owned();
        let [tolerated, passed] = match figure.tolerance() {
            Some(tolerance) => [percent(tolerance), format!("{passed} of {all}")],
            None => [String::new(), String::new()],
        };
        table.add_row(row(figure.name(), [tolerated, passed, percent(mean), percent(largest)]));
    }
    table
}

const ABLATED: [Figure; 5] =
    [Figure::ReadP50, Figure::ReadP99, Figure::ReadP999, Figure::WriteP50, Figure::WriteP99];

fn without(check: &Check, ablations: &[Ablation]) -> String {
    let heading = ["without"].into_iter().chain(ABLATED.iter().map(|figure| figure.name()));
    let mut table = table(&heading.collect::<Vec<_>>());
    let errors = |check: &Check| {
        ABLATED.map(|figure| {
            let error = Ablation::mean_error(check, figure);
            error.map_or_else(String::new, |error| off(error).trim_start_matches('+').to_owned())
        })
    };
    table.add_row(row("nothing", errors(check)));
    for Ablation { without, check } in ablations {
        table.add_row(row(without, errors(check)));
    }
    format!("Mean error without each mechanism, at the rates that the real drive sustains:\n{table}")
}

/// Comparison as CSV.
pub fn csv(check: &Check) -> String {
    let mut out =
        String::from("line,offered_writes_s,used_share,stable,figure,measured,ours,error,met,addresses\n");
    for row in &check.rows {
        for compared in &row.figures {
            let writes = row.writes_s.map_or_else(String::new, |writes| writes.to_string());
            let _ = writeln!(
                out,
                "{},{writes},{:.4},{},{},{},{:.3},{:.4},{},{}",
                row.line,
                row.used,
                row.is_stable,
                compared.figure.name(),
                compared.measured,
                compared.ours,
                compared.error,
                compared.is_met.map_or_else(String::new, |is_met| is_met.to_string()),
                row.addresses
            );
        }
    }
    out
}

/// Mean errors without each mechanism, as CSV.
pub fn ablations_csv(check: &Check, ablations: &[Ablation]) -> String {
    let mut out = String::from("without,figure,mean_error\n");
    for (without, check) in all_of(check, ablations) {
        for figure in ABLATED {
            if let Some(error) = Ablation::mean_error(check, figure) {
                let _ = writeln!(out, "\"{without}\",{},{error:.4}", figure.name());
            }
        }
    }
    out
}

fn all_of<'a>(check: &'a Check, ablations: &'a [Ablation]) -> Vec<(&'static str, &'a Check)> {
    let each = ablations.iter().map(|ablation| (ablation.without, &ablation.check));
    [("nothing", check)].into_iter().chain(each).collect()
}

/// Result of a fit.
pub fn fit(fit: &Fit) -> String {
    let mut out = String::new();
    for (what, check) in [("Rows used for the fit", &fit.fitted), ("Held-out rows, predicted", &fit.held_out)]
    {
        if !check.rows.is_empty() {
            let _ = writeln!(out, "{what}:\n{}\n\n{}\n", rows(check), totals(check));
        }
    }
    let _ = writeln!(out, "{}\n", broken(CAPTION, WIDTH).join("\n"));
    let mut table = table(&["parameter, fitted", "value", "effect"]);
    for found in &fit.found {
        let effect = if found.is_kept { "kept".to_owned() } else { format!("{:.1}", found.effect) };
        table.add_row(row(found.name, [strobe_twin::fit::shown(found.value, found.unit), effect]));
    }
    let _ = writeln!(out, "{table}");
    if !fit.untold.is_empty() {
        let _ = writeln!(out, "\nThe measurements do not determine: {}.", fit.untold.join("; "));
    }
    for (one, other) in &fit.alike {
        let _ = writeln!(out, "\nThe measurements cannot tell apart: {one}; {other}.");
    }
    let _ = write!(out, "\n{} drives were simulated.", fit.evaluations);
    out
}

/// Charts of a check: read and write latencies over the rate, measured and simulated.
pub fn pictures(title: &str, check: &Check) -> Vec<(&'static str, String)> {
    let drawn = [("reads", &READS), ("writes", &WRITES)]
        .map(|(name, figures)| Some((name, picture(&format!("{title}: {name}"), check, figures)?)));
    drawn.into_iter().flatten().collect()
}

fn picture(title: &str, check: &Check, figures: &[Figure]) -> Option<String> {
    let points = |figure: Figure, value: fn(&Compared) -> f64| -> Vec<(f64, f64)> {
        let stable = check.rows.iter().filter(|row| row.is_stable && row.addresses == "uniform");
        let point = |row: &Row| {
            let compared = row.figures.iter().find(|compared| compared.figure == figure)?;
            // Converts the microseconds of the measurements.
            Some((row.writes_s? as f64 / 1000.0, 1000.0 * value(compared)))
        };
        stable.filter_map(point).collect()
    };
    let series = figures.iter().enumerate().flat_map(|(colour, &figure)| {
        let series = |what, shape, points| {
            let name = format!("{}, {what}", figure.name());
            Series { name, colour, shape, points }
        };
        [
            series("ours", Shape::Line, points(figure, |compared| compared.ours)),
            series("measured", Shape::Dots, points(figure, |compared| compared.measured)),
        ]
    });
    let panel = Panel::Curves {
        over: "writes offered, thousands a second".to_owned(),
        measure: "latency".to_owned(),
        is_latency: true,
        series: series.filter(|series| !series.points.is_empty()).collect(),
    };
    one_panel(title, panel)
}

fn one_panel(title: &str, panel: Panel) -> Option<String> {
    Panels { title: title.to_owned(), panels: vec![(String::new(), panel)] }.svg()
}

/// Bar chart of the mean read error without each mechanism; `None` if none was measured.
pub fn ablations_picture(title: &str, check: &Check, ablations: &[Ablation]) -> Option<String> {
    let figures = [Figure::ReadP50, Figure::ReadP99, Figure::ReadP999];
    let group = |(without, check): (&str, &Check)| {
        let error = |figure| Ablation::mean_error(check, figure).map(|error| 100.0 * error);
        (without.to_owned(), figures.map(error).into())
    };
    let groups = all_of(check, ablations).into_iter().map(group).collect();
    let kinds = figures.map(|figure| figure.name().to_owned()).into();
    let title = format!("{title}: reads without each mechanism");
    let heading = "mean error over the rates that the real drive sustains, % (logarithmic axis)".to_owned();
    Panels { title, panels: vec![(heading, Panel::Rows { kinds, groups })] }.svg()
}
