//! Figures as pictures: bars where the paper has bars, lines where it has lines.

use plotters::coord::Shift;
use plotters::prelude::*;
use strobe_papers::{Figure, Row, View};

use super::map::{self, values};
use super::name;

type Drawn = Result<(), Box<dyn std::error::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Size of a panel, and of what stands above all of them.
const PANEL: (u32, u32) = (820, 300);
const HEAD: u32 = 34;

/// A figure as SVG; nothing if it is a list, or has no number.
pub fn svg(figure: &Figure) -> Option<String> {
    let panels: Vec<Panel<'_>> = panels(figure);
    let count = panels.len().max(map::maps(figure).len()) as u32;
    if count == 0 {
        return None;
    }
    let mut text = String::new();
    draw(&mut text, figure, &panels, (PANEL.0, HEAD + count * PANEL.1)).ok()?;
    Some(text)
}

/// A picture of a figure: rows of the same unit that belong together.
struct Panel<'a> {
    title: String,
    unit: String,
    rows: Vec<&'a Row>,
}

fn panels(figure: &Figure) -> Vec<Panel<'_>> {
    let (by, needs): (Vec<&str>, &str) = match figure.view {
        View::Bars { panel, bar, .. } => (panel.to_vec(), bar),
        View::Curves { panel, over, .. } => (panel.to_vec(), over),
        // Those are read as numbers.
        View::List | View::Table { .. } | View::Map { .. } => return Vec::new(),
    };
    let mut panels: Vec<Panel<'_>> = Vec::new();
    for row in figure.rows.iter().filter(|row| row.at.contains_key(needs) && row.measured.is_some()) {
        let parts: Vec<String> =
            by.iter().filter(|name| **name != "unit").map(|name| row.coordinate(name)).collect();
        let (title, unit) = (parts.join(", "), row.coordinate("unit"));
        match panels.iter_mut().find(|panel| panel.title == title && panel.unit == unit) {
            Some(panel) => panel.rows.push(row),
            None => panels.push(Panel { title, unit, rows: vec![row] }),
        }
    }
    panels
}

fn draw(text: &mut String, figure: &Figure, panels: &[Panel<'_>], size: (u32, u32)) -> Drawn {
    let area = SVGBackend::with_string(text, size).into_drawing_area();
    area.fill(&WHITE)?;
    let title = format!("{}: {}", name(&figure.figure), figure.title);
    area.draw_text(&title, &("sans-serif", 15).into_text_style(&area), (12, 10))?;
    let (_, body) = area.split_vertically(HEAD);
    let parts = body.split_evenly((panels.len().max(map::maps(figure).len()), 1));
    match figure.view {
        View::Bars { group, bar, .. } => {
            for (panel, part) in panels.iter().zip(&parts) {
                bars(part, panel, group, bar)?;
            }
        }
        View::Curves { of, over, .. } => {
            for (panel, part) in panels.iter().zip(&parts) {
                curves(part, panel, of, over)?;
            }
        }
        View::Map { across, up, .. } => {
            for (of, part) in map::maps(figure).iter().zip(&parts) {
                one_map(part, of, across, up)?;
            }
        }
        View::List | View::Table { .. } => {}
    }
    area.present()?;
    Ok(())
}

/// From the least to the greatest of `values`, with 0 and a little room.
fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((0.0f64, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    let room = (high - low).max(f64::MIN_POSITIVE) * 0.08;
    (if low < 0.0 { low - room } else { 0.0 }, if high > 0.0 { high + room } else { room })
}

/// The vertical axis of a panel: everything measured, and what the paper says.
fn heights(panel: &Panel<'_>) -> (f64, f64) {
    span(panel.rows.iter().flat_map(|row| row.measured.into_iter().chain(row.paper)))
}

fn bars(area: &Area<'_>, panel: &Panel<'_>, group: &str, bar: &str) -> Drawn {
    let groups = values(panel.rows.iter().copied(), group);
    let kinds = values(panel.rows.iter().copied(), bar);
    let (low, high) = heights(panel);
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 13))
        .margin(10)
        .margin_right(170)
        .x_label_area_size(24)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..groups.len() as f64, low..high)?;
    chart.configure_mesh().disable_x_mesh().x_labels(0).y_desc(&panel.unit).light_line_style(WHITE).draw()?;
    let width = 0.84 / kinds.len() as f64;
    for (at, kind) in kinds.iter().enumerate() {
        let colour = Palette99::pick(at).mix(0.85);
        let left = |row: &Row| {
            let place =
                groups.iter().position(|group_name| *group_name == row.coordinate(group)).unwrap_or(0);
            place as f64 + 0.08 + at as f64 * width
        };
        let of = || panel.rows.iter().filter(|row| row.coordinate(bar) == *kind);
        let boxes = of().filter_map(|row| {
            let x = left(row);
            Some(Rectangle::new([(x, 0.0), (x + width * 0.9, row.measured?)], colour.filled()))
        });
        chart
            .draw_series(boxes)?
            .label(kind)
            .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], colour.filled()));
        // What the paper says: a black line across the bar.
        let lines = of().filter_map(|row| {
            let x = left(row);
            let paper = row.paper?;
            Some(PathElement::new(
                [(x - width * 0.08, paper), (x + width * 0.98, paper)],
                BLACK.stroke_width(3),
            ))
        });
        chart.draw_series(lines)?;
    }
    let ticks = groups.iter().enumerate().map(|(at, text)| {
        let style = ("sans-serif", 12).into_font().color(&BLACK);
        let centred = style.pos(plotters::style::text_anchor::Pos::new(
            plotters::style::text_anchor::HPos::Center,
            plotters::style::text_anchor::VPos::Top,
        ));
        EmptyElement::at((at as f64 + 0.5, low)) + Text::new(text.clone(), (0, 6), centred)
    });
    let plotting = chart.plotting_area();
    for tick in ticks {
        plotting.draw(&tick)?;
    }
    if panel.rows.iter().any(|row| row.paper.is_some()) {
        let empty: [PathElement<(f64, f64)>; 0] = [];
        chart
            .draw_series(empty)?
            .label("paper")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 12, y)], BLACK.stroke_width(3)));
    }
    legend(&mut chart)
}

fn curves(area: &Area<'_>, panel: &Panel<'_>, of: &str, over: &str) -> Drawn {
    let x = |row: &Row| row.at.get(over).and_then(serde_json::Value::as_f64);
    let kinds = values(panel.rows.iter().copied(), of);
    let (low, high) = heights(panel);
    let places = || panel.rows.iter().filter_map(|row| x(row));
    let (from, to) = (places().fold(f64::MAX, f64::min), places().fold(f64::MIN, f64::max));
    let to = if to > from { to } else { from + 1.0 };
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 13))
        .margin(10)
        .margin_right(170)
        .x_label_area_size(36)
        .y_label_area_size(60)
        .build_cartesian_2d(from..to, low..high)?;
    chart
        .configure_mesh()
        .x_desc(over.replace('_', " "))
        .y_desc(&panel.unit)
        .light_line_style(WHITE)
        .draw()?;
    for (at, kind) in kinds.iter().enumerate() {
        let colour = Palette99::pick(at).to_rgba();
        let points = |value: fn(&Row) -> Option<f64>| -> Vec<(f64, f64)> {
            let of = panel.rows.iter().filter(|row| row.coordinate(of) == *kind);
            of.filter_map(|row| x(row).zip(value(row))).collect()
        };
        let measured = points(|row| row.measured);
        // Few points are marked, many are a line.
        let dots: Vec<_> = if measured.len() > 40 { Vec::new() } else { measured.clone() };
        chart
            .draw_series(LineSeries::new(measured, colour.stroke_width(2)))?
            .label(kind)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 12, y)], colour.stroke_width(2)));
        chart.draw_series(dots.into_iter().map(|at| Circle::new(at, 3, colour.filled())))?;
        let paper = points(|row| row.paper);
        if let (Some(&first), Some(&last)) = (paper.first(), paper.last()) {
            let dashes = DashedLineSeries::new([first, last], 5, 4, colour.stroke_width(1));
            chart
                .draw_series(dashes)?
                .label(format!("{kind}, paper"))
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 5, y)], colour.stroke_width(1)));
        }
    }
    legend(&mut chart)
}

fn legend<'a>(
    chart: &mut ChartContext<
        'a,
        SVGBackend<'a>,
        Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
    >,
) -> Drawn {
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::Coordinate(PANEL.0 as i32 - 232, 0))
        .label_font(("sans-serif", 11))
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}

/// Squares, the darker the more.
fn one_map(area: &Area<'_>, map: &map::Map, across: &str, up: &str) -> Drawn {
    let (lines, columns) = (map.lines.len(), map.lines.first().map_or(0, Vec::len));
    let most = map.lines.iter().flatten().copied().fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(&map.title, ("sans-serif", 13))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..columns as f64, 0.0..lines as f64)?;
    let ends = |(first, last): &(String, String)| format!("{first} to {last}");
    chart
        .configure_mesh()
        .disable_mesh()
        .x_labels(0)
        .y_labels(0)
        .x_desc(format!("{}, {}", across.replace('_', " "), ends(&map.across)))
        .y_desc(format!("{}, {}", up.replace('_', " "), ends(&map.up)))
        .draw()?;
    for (down, line) in map.lines.iter().enumerate() {
        let bottom = (lines - 1 - down) as f64;
        let squares = line.iter().enumerate().filter(|(_, count)| **count > 0.0).map(|(column, &count)| {
            let left = column as f64;
            let colour = RGBColor(8, 48, 107).mix(map::darkness(count, most));
            Rectangle::new([(left, bottom), (left + 1.0, bottom + 1.0)], colour.filled())
        });
        chart.draw_series(squares)?;
    }
    Ok(())
}
