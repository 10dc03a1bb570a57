//! What a person reads about drives beside real ones.

use std::fmt::Write as _;

use comfy_table::Table;
use plotters::prelude::*;
use strobe_twin::ablation::Ablation;
use strobe_twin::check::{Check, Compared, Figure, Row};
use strobe_twin::fit::Fit;

use super::{broken, row, table};
use crate::chart::WIDTH;

/// A drive beside its measurements.
pub fn check(name: &str, title: &str, remark: &str, check: &Check, ablations: &[Ablation]) -> String {
    let mut out = format!("{name} beside {title}\n\n");
    if !remark.is_empty() {
        let _ = writeln!(out, "{}\n", broken(&format!("{remark}."), WIDTH).join("\n"));
    }
    let _ = writeln!(out, "{}", rows(check));
    let _ = writeln!(out, "Measured, and by how much ours is off; * is more than is tolerated.\n");
    let _ = writeln!(out, "{}", totals(check));
    if !ablations.is_empty() {
        let _ = writeln!(out, "\n{}", without(check, ablations));
    }
    out
}

/// The figures of a check that have a column.
fn figures(check: &Check) -> Vec<Figure> {
    let has = |figure: &Figure| check.met(Some(*figure)).1 > 0;
    Figure::ALL.into_iter().filter(has).collect()
}

fn rows(check: &Check) -> String {
    let (reads, others): (Vec<_>, Vec<_>) = figures(check)
        .into_iter()
        .partition(|figure| matches!(figure, Figure::ReadP50 | Figure::ReadP99 | Figure::ReadP999));
    let some = [reads, others].into_iter().filter(|figures| !figures.is_empty());
    some.map(|figures| part(check, &figures)).collect::<Vec<_>>().join("\n\n")
}

/// Those rows that have some of `figures`.
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
    let rate =
        line.writes_s.map_or_else(|| "as fast as it can".to_owned(), |writes| format!("{}k", writes / 1000));
    match line.used {
        used if used < 0.995 => format!("{rate}, {:.0} % full", 100.0 * used),
        _ => rate,
    }
}

fn shown(row: &Row, figure: Figure) -> String {
    let found = row.figures.iter().find(|compared| compared.figure == figure);
    found.map_or_else(String::new, |&Compared { measured, error, is_met, .. }| {
        let mark = if is_met { " " } else { "*" };
        let measured = match figure {
            Figure::Waf => format!("{measured:.2}"),
            _ => format!("{measured:.0}"),
        };
        format!("{measured} {:+4.0} %{mark}", 100.0 * error)
    })
}

fn totals(check: &Check) -> Table {
    let mut table = table(&["figure", "tolerated", "met", "mean error", "largest"]);
    for figure in figures(check) {
        let ((met, all), errors) = (check.met(Some(figure)), check.errors(figure));
        let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
        let largest = errors.last().copied().unwrap_or_default();
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        table.add_row(row(
            figure.name(),
            [percent(figure.tolerance()), format!("{met} of {all}"), percent(mean), percent(largest)],
        ));
    }
    table
}

/// What each mechanism takes away of the error.
fn without(check: &Check, ablations: &[Ablation]) -> String {
    let figures = [Figure::ReadP50, Figure::ReadP99, Figure::ReadP999, Figure::WriteP50, Figure::WriteP99];
    let heading = ["without"].into_iter().chain(figures.iter().map(|figure| figure.name()));
    let mut table = table(&heading.collect::<Vec<_>>());
    let errors = |check: &Check| {
        figures.map(|figure| {
            Ablation::mean_error(check, figure)
                .map_or_else(String::new, |error| format!("{:.0} %", 100.0 * error))
        })
    };
    table.add_row(row("nothing", errors(check)));
    for Ablation { without, check } in ablations {
        table.add_row(row(without, errors(check)));
    }
    format!("Mean error without each mechanism, at the rates that the real drive carries:\n{table}")
}

/// The same as CSV.
pub fn csv(check: &Check) -> String {
    let mut out = String::from("line,offered_writes_s,used_share,stable,figure,measured,ours,error,met\n");
    for row in &check.rows {
        for compared in &row.figures {
            let writes = row.writes_s.map_or_else(String::new, |writes| writes.to_string());
            let _ = writeln!(
                out,
                "{},{writes},{:.4},{},{},{},{:.3},{:.4},{}",
                row.line,
                row.used,
                row.is_stable,
                compared.figure.name(),
                compared.measured,
                compared.ours,
                compared.error,
                compared.is_met
            );
        }
    }
    out
}

/// What a fit has come to.
pub fn fit(fit: &Fit) -> String {
    let mut out = String::new();
    for (what, check) in
        [("Rows that it was fitted to", &fit.fitted), ("Rows held out, predicted", &fit.held_out)]
    {
        if !check.rows.is_empty() {
            let _ = writeln!(out, "{what}:\n{}\n\n{}\n", rows(check), totals(check));
        }
    }
    let mut table = table(&["parameter, fitted", "value", "effect"]);
    for found in &fit.found {
        let effect = if found.is_kept { "kept".to_owned() } else { format!("{:.1}", found.effect) };
        table.add_row(row(found.name, [strobe_twin::fit::shown(found.value, found.unit), effect]));
    }
    let _ = writeln!(out, "{table}");
    if !fit.untold.is_empty() {
        let _ = writeln!(out, "\nThe measurements say nothing about: {}.", fit.untold.join("; "));
    }
    for (one, other) in &fit.alike {
        let _ = writeln!(out, "\nThe measurements cannot tell apart: {one}; {other}.");
    }
    let _ = write!(out, "\n{} drives were simulated.", fit.evaluations);
    out
}

/// Size of a picture.
const SIZE: (u32, u32) = (760, 460);

/// Pictures of a check: reads and writes over the rate, measured and ours.
pub fn pictures(title: &str, check: &Check) -> Vec<(&'static str, String)> {
    let reads = [Figure::ReadP50, Figure::ReadP99, Figure::ReadP999];
    let writes = [Figure::WriteP50, Figure::WriteP99];
    let drawn = [("reads", &reads[..]), ("writes", &writes[..])]
        .map(|(name, figures)| Some((name, picture(&format!("{title}: {name}"), check, figures)?)));
    drawn.into_iter().flatten().collect()
}

fn picture(title: &str, check: &Check, figures: &[Figure]) -> Option<String> {
    let of = |figure: Figure| -> Vec<(f64, f64, f64)> {
        let stable = check.rows.iter().filter(|row| row.is_stable);
        let point = |row: &Row| {
            let compared = row.figures.iter().find(|compared| compared.figure == figure)?;
            Some((row.writes_s? as f64 / 1000.0, compared.measured, compared.ours))
        };
        stable.filter_map(point).collect()
    };
    let points: Vec<_> = figures.iter().flat_map(|&figure| of(figure)).collect();
    let span = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::MAX, 0.0f64), |(low, high), value| (low.min(value), high.max(value)))
    };
    if points.is_empty() {
        return None;
    }
    let (_, most) = span(&mut points.iter().map(|point| point.0));
    let (low, high) = span(&mut points.iter().flat_map(|point| [point.1, point.2]));
    let mut svg = String::new();
    draw(&mut svg, title, figures, &of, most, (low, high)).ok()?;
    Some(svg)
}

type Points = Vec<(f64, f64, f64)>;

fn draw(
    svg: &mut String,
    title: &str,
    figures: &[Figure],
    of: &dyn Fn(Figure) -> Points,
    most: f64,
    (low, high): (f64, f64),
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..most * 1.05, (low / 1.5..high * 1.5).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("writes offered, thousands a second")
        .y_desc("latency, µs")
        .light_line_style(WHITE)
        .draw()?;
    for (at, &figure) in figures.iter().enumerate() {
        let colour = Palette99::pick(at).to_rgba();
        let points = of(figure);
        let ours = points.iter().map(|&(x, _, ours)| (x, ours));
        let line = chart.draw_series(LineSeries::new(ours, colour.stroke_width(2)))?;
        line.label(format!("{}, ours", figure.name()))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        let dots = points.iter().map(|&(x, measured, _)| Circle::new((x, measured), 4, colour.filled()));
        chart
            .draw_series(dots)?
            .label(format!("{}, measured", figure.name()))
            .legend(move |(x, y)| Circle::new((x + 9, y), 4, colour.filled()));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw()?;
    area.present()?;
    Ok(())
}
