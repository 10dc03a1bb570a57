//! Report on simulated drives compared with real ones.

use std::fmt::Write as _;

use plotters::prelude::*;
use strobe_twin::ablation::Ablation;
use strobe_twin::check::{Check, Compared, Figure, Row};
use strobe_twin::fit::Fit;

use super::{Table, broken, row, table};
use crate::chart::WIDTH;

/// Caption below figures.
const CAPTION: &str = "Measured, and by how much ours is off; * is more than is tolerated. In brackets: shown, and not \
                       judged, as from saturation on latencies say how deep queues are, and p99.99 of reads and all beyond \
                       p99 of writes are of few requests.";

/// A drive beside its measurements.
pub fn check(name: &str, title: &str, remark: &str, check: &Check, ablations: &[Ablation]) -> String {
    let mut out = format!("{name} beside {title}\n\n");
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

/// The figures of a check that have a column.
fn figures(check: &Check) -> Vec<Figure> {
    let has = |figure: &Figure| {
        check.rows.iter().flat_map(|row| &row.figures).any(|compared| compared.figure == *figure)
    };
    Figure::ALL.into_iter().filter(has).collect()
}

/// Latencies of reads.
const READS: [Figure; 4] = [Figure::ReadP50, Figure::ReadP99, Figure::ReadP999, Figure::ReadP9999];
/// Figures of writes.
const WRITES: [Figure; 4] = [Figure::WriteP50, Figure::WriteP99, Figure::WriteP999, Figure::WriteP9999];

fn rows(check: &Check) -> String {
    let there = figures(check);
    let parts = [&READS[..], &WRITES, &[Figure::Completed, Figure::Waf]];
    let some = parts.map(|part| there.iter().copied().filter(|at| part.contains(at)).collect::<Vec<_>>());
    let some = some.iter().filter(|figures| !figures.is_empty());
    some.map(|figures| part(check, figures)).collect::<Vec<_>>().join("\n\n")
}

/// Table of the rows that have some of `figures`.
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

/// An error, with its sign: in per cent, or as a factor where that is easier to read.
fn off(error: f64) -> String {
    match error {
        9.95.. => format!("× {:.0}", 1.0 + error),
        _ => format!("{:+.0} %", 100.0 * error),
    }
}

fn totals(check: &Check) -> Table {
    let mut table = table(&["figure", "tolerated", "met", "mean error", "largest"]);
    for figure in figures(check) {
        let ((met, all), errors) = (check.met(Some(figure)), check.errors(figure));
        let Some(&largest) = errors.last() else { continue };
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let percent = |share: f64| off(share).trim_start_matches('+').to_owned();
        let [tolerated, met] = match figure.tolerance() {
            Some(tolerance) => [percent(tolerance), format!("{met} of {all}")],
            None => [String::new(), String::new()],
        };
        table.add_row(row(figure.name(), [tolerated, met, percent(mean), percent(largest)]));
    }
    table
}

/// Figures shown for ablations.
const ABLATED: [Figure; 5] =
    [Figure::ReadP50, Figure::ReadP99, Figure::ReadP999, Figure::WriteP50, Figure::WriteP99];

/// Error removed by each mechanism.
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
    format!("Mean error without each mechanism, at the rates that the real drive carries:\n{table}")
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

/// The drive with all its mechanisms, and without each.
fn all_of<'a>(check: &'a Check, ablations: &'a [Ablation]) -> Vec<(&'static str, &'a Check)> {
    let each = ablations.iter().map(|ablation| (ablation.without, &ablation.check));
    [("nothing", check)].into_iter().chain(each).collect()
}

/// Result of a fit.
pub fn fit(fit: &Fit) -> String {
    let mut out = String::new();
    for (what, check) in
        [("Rows that it was fitted to", &fit.fitted), ("Rows held out, predicted", &fit.held_out)]
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
    let drawn = [("reads", &READS), ("writes", &WRITES)]
        .map(|(name, figures)| Some((name, picture(&format!("{title}: {name}"), check, figures)?)));
    drawn.into_iter().flatten().collect()
}

fn picture(title: &str, check: &Check, figures: &[Figure]) -> Option<String> {
    let of = |figure: Figure| -> Vec<(f64, f64, f64)> {
        let stable = check.rows.iter().filter(|row| row.is_stable && row.addresses == "uniform");
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

/// Room for the names of mechanisms, and of a row of bars.
const NAME_WIDTH: u32 = 330;
const ROW_HEIGHT: u32 = 44;

/// Bars: the mean error of reads without each mechanism. Nothing if none was measured.
pub fn ablations_picture(title: &str, check: &Check, ablations: &[Ablation]) -> Option<String> {
    let rows = all_of(check, ablations);
    let has_reads = |(_, check): &(_, &Check)| Ablation::mean_error(check, Figure::ReadP50).is_some();
    if !rows.iter().any(has_reads) {
        return None;
    }
    let mut svg = String::new();
    draw_ablations(&mut svg, title, &rows).ok()?;
    Some(svg)
}

fn draw_ablations(
    svg: &mut String,
    title: &str,
    rows: &[(&'static str, &Check)],
) -> Result<(), Box<dyn std::error::Error>> {
    let figures = [Figure::ReadP50, Figure::ReadP99, Figure::ReadP999];
    let error = |check: &Check, figure| Ablation::mean_error(check, figure).map(|error| 100.0 * error);
    let errors = rows.iter().flat_map(|(_, check)| figures.map(|figure| error(check, figure)));
    let most = errors.flatten().fold(10.0, f64::max);
    let height = ROW_HEIGHT * rows.len() as u32 + 110;
    let area = SVGBackend::with_string(svg, (SIZE.0 + 140, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("{title}: error of reads without each mechanism"), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(NAME_WIDTH)
        .build_cartesian_2d((1.0..most * 1.5).log_scale(), 0.0..rows.len() as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .x_desc("mean error over the rates that the real drive carries, %")
        .light_line_style(WHITE)
        .draw()?;
    for (at, figure) in figures.into_iter().enumerate() {
        let colour = Palette99::pick(at).filled();
        let bar = |(row, (_, check)): (usize, &(_, &Check))| {
            let top = (rows.len() - row) as f64 - 0.1 - 0.27 * at as f64;
            let error = error(check, figure)?.max(1.0);
            Some(Rectangle::new([(1.0, top - 0.25), (error, top)], colour))
        };
        let bars = rows.iter().enumerate().filter_map(bar);
        chart
            .draw_series(bars)?
            .label(figure.name())
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    let (_, y) = chart.plotting_area().get_pixel_range();
    let each = (y.end - y.start) / rows.len() as i32;
    for (row, (without, _)) in rows.iter().enumerate() {
        for (line, text) in broken(without, 46).into_iter().enumerate() {
            let at = (16, y.start + each * row as i32 + 6 + 15 * line as i32);
            area.draw(&Text::new(text, at, ("sans-serif", 13)))?;
        }
    }
    area.present()?;
    Ok(())
}
