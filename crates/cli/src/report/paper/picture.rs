//! Figures as charts: bars or lines, as in the paper.

use strobe_papers::{Figure, Row, View};
use strobe_report::{Panel, Panels, Series, Shape};

use super::map::{self, values};
use super::name;

const PAPER: &str = "paper";

/// Figure as SVG; `None` if it is a list or has no number.
pub fn svg(figure: &Figure) -> Option<String> {
    let panels = match figure.view {
        View::Bars { panel, group, bar } => {
            drawn(figure, panel, bar, |rows, unit| bars(rows, unit, group, bar))
        }
        View::Curves { panel, of, over } => {
            drawn(figure, panel, over, |rows, unit| curves(rows, unit, of, over))
        }
        View::Map { across, up, .. } => {
            map::maps(figure).into_iter().map(|map| (map.title.clone(), one_map(&map, across, up))).collect()
        }
        // Lists and tables are shown as numbers.
        View::List | View::Table { .. } => Vec::new(),
    };
    Panels { title: format!("{}: {}", name(&figure.figure), figure.title), panels }.svg()
}

/// Panels of rows with equal title and unit, drawn by `draw`.
fn drawn(
    figure: &Figure,
    by: &[&str],
    needs: &str,
    draw: impl Fn(&[&Row], String) -> Panel,
) -> Vec<(String, Panel)> {
    let mut panels: Vec<(String, String, Vec<&Row>)> = Vec::new();
    for row in figure.rows.iter().filter(|row| row.at.contains_key(needs) && row.measured.is_some()) {
        let parts: Vec<String> =
            by.iter().filter(|name| **name != "unit").map(|name| row.coordinate(name)).collect();
        let (title, unit) = (parts.join(", "), row.coordinate("unit"));
        match panels.iter_mut().find(|panel| panel.0 == title && panel.1 == unit) {
            Some(panel) => panel.2.push(row),
            None => panels.push((title, unit, vec![row])),
        }
    }
    panels.into_iter().map(|(title, unit, rows)| (title, draw(&rows, unit))).collect()
}

fn bars(rows: &[&Row], unit: String, group: &str, bar: &str) -> Panel {
    let kinds = values(rows.iter().copied(), bar);
    let group_of = |name: String| {
        let value = |kind: &String| {
            let row =
                rows.iter().find(|row| row.coordinate(group) == name && row.coordinate(bar) == *kind)?;
            Some((row.measured?, row.paper))
        };
        let values = kinds.iter().map(value).collect();
        (name, values)
    };
    let groups = values(rows.iter().copied(), group).into_iter().map(group_of).collect();
    Panel::Bars { measure: unit, kinds, mark: PAPER.to_owned(), groups }
}

fn curves(rows: &[&Row], unit: String, of: &str, over: &str) -> Panel {
    let x = |row: &Row| row.at.get(over).and_then(serde_json::Value::as_f64);
    let mut series = Vec::new();
    for (colour, kind) in values(rows.iter().copied(), of).into_iter().enumerate() {
        let points = |value: fn(&Row) -> Option<f64>| -> Vec<(f64, f64)> {
            let of = rows.iter().filter(|row| row.coordinate(of) == kind);
            of.filter_map(|row| x(row).zip(value(row))).collect()
        };
        let (measured, paper) = (points(|row| row.measured), points(|row| row.paper));
        let reference = format!("{kind}, {PAPER}");
        series.push(Series { name: kind, colour, shape: Shape::Line, points: measured });
        if let (Some(&first), Some(&last)) = (paper.first(), paper.last()) {
            series.push(Series { name: reference, colour, shape: Shape::Thin, points: vec![first, last] });
        }
    }
    Panel::Curves { over: over.replace('_', " "), measure: unit, is_latency: false, series }
}

fn one_map(map: &map::Map, across: &str, up: &str) -> Panel {
    let most = map.lines.iter().flatten().copied().fold(0.0, f64::max);
    let label = |name: &str, (first, last): &(String, String)| {
        format!("{}, {first} to {last}", name.replace('_', " "))
    };
    let darkness = |line: &Vec<f64>| line.iter().map(|&count| map::darkness(count, most)).collect();
    Panel::Map {
        across: label(across, &map.across),
        up: label(up, &map.up),
        lines: map.lines.iter().map(darkness).collect(),
    }
}
