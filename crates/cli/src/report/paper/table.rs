//! Figures as text.

use std::fmt::Write as _;

use strobe_papers::{Figure, Row, View};

use super::map::{self, values};
use super::{name, number};
use crate::chart::bars;
use crate::report::{Table, row, table};

const CURVE_COLUMNS: usize = 48;

pub(super) fn figure(figure: &Figure) -> String {
    let mut out = format!("{}: {}\n", name(&figure.figure), figure.title);
    if let Some(note) = &figure.note {
        let _ = writeln!(out, "({note})");
    }
    let rows = |has: &str| -> (Vec<&Row>, Vec<&Row>) {
        figure.rows.iter().partition(|row| row.at.contains_key(has))
    };
    let (drawn, rest) = match figure.view {
        View::List => (String::new(), figure.rows.iter().collect()),
        View::Table { down, across } => {
            let (inside, rest) = rows(across);
            (pivot(&inside, down, across), rest)
        }
        View::Bars { panel, group, bar } => {
            let (inside, rest) = rows(bar);
            let down: Vec<&str> = panel.iter().copied().chain([group]).collect();
            (pivot(&inside, &down, bar), rest)
        }
        View::Curves { panel, of, over } => {
            let (inside, rest) = rows(over);
            let places = values(inside.iter().copied(), over).len();
            let down: Vec<&str> = panel.iter().copied().chain([of]).collect();
            // Few points make a table, many a chart.
            (if places <= 10 { pivot(&inside, &down, over) } else { curves(&inside, &down, over) }, rest)
        }
        View::Map { .. } => (map::text(figure), Vec::new()),
    };
    out += &drawn;
    if !rest.is_empty() {
        let _ = writeln!(out, "{}", list(&rest));
    }
    out
}

/// A unit common to all rows is printed above.
fn pivot(rows: &[&Row], down: &[&str], across: &str) -> String {
    let columns = values(rows.iter().copied(), across);
    let units = values(rows.iter().copied(), "unit");
    let mut down: Vec<&str> = down.to_vec();
    // Rows of different units must not share a line.
    if units.len() > 1 && !down.contains(&"unit") {
        down.push("unit");
    }
    let mut lines: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for row in rows {
        let key: Vec<String> = down.iter().map(|name| row.coordinate(name)).collect();
        let at = lines.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            lines.push((key, vec![String::new(); columns.len()]));
            lines.len() - 1
        });
        if let Some(place) = columns.iter().position(|column| *column == row.coordinate(across)) {
            lines[at].1[place] = match row.paper {
                Some(paper) => format!("{} (paper {})", number(row.measured), number(Some(paper))),
                None => number(row.measured),
            };
        }
    }
    let names = down.iter().map(|name| name.replace('_', " "));
    let heads = columns.iter().map(|column| match column.parse::<f64>() {
        Ok(_) => format!("{} {column}", across.replace('_', " ")),
        Err(_) => column.clone(),
    });
    let header: Vec<String> = names.chain(heads).collect();
    let mut table = (1..down.len()).fold(wide(&header), Table::text);
    for (key, cells) in lines {
        table.add_row(key.into_iter().chain(cells).collect());
    }
    let unit = match &units[..] {
        [unit] if !unit.is_empty() => format!("in {unit}:\n"),
        _ => String::new(),
    };
    format!("{unit}{table}\n")
}

fn wide(header: &[String]) -> Table {
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    table(&header).in_columns(140)
}

fn curves(rows: &[&Row], down: &[&str], over: &str) -> String {
    let x = |row: &Row| row.at.get(over).and_then(serde_json::Value::as_f64);
    let positions = || rows.iter().filter_map(|row| x(row));
    let (from, to) = (positions().fold(f64::MAX, f64::min), positions().fold(f64::MIN, f64::max));
    let key = |row: &Row| down.iter().map(|name| row.coordinate(name)).collect::<Vec<_>>().join(", ");
    let mut names: Vec<String> = Vec::new();
    for name in rows.iter().map(|row| key(row)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut out = String::new();
    for curve in names {
        let points: Vec<(f64, f64)> =
            rows.iter().filter(|row| key(row) == curve).filter_map(|row| x(row).zip(row.measured)).collect();
        let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
        let step = (to - from) / (CURVE_COLUMNS - 1) as f64;
        // A column shows the last point up to its middle: the curve is a step function.
        let at = |column: usize| {
            let until = points.partition_point(|point| point.0 <= from + (column as f64 + 0.5) * step);
            if until == 0 { 0.0 } else { points[until - 1].1 }
        };
        let picture = bars((0..CURVE_COLUMNS).map(at), 0.0);
        let _ = writeln!(
            out,
            "{curve:30} ▕{picture}▏\n{:30}  {} to {} at {} to {} {}",
            "",
            number(Some(first.1)),
            number(Some(last.1)),
            number(Some(first.0)),
            number(Some(last.0)),
            over.replace('_', " "),
        );
    }
    out
}

fn list(rows: &[&Row]) -> Table {
    let mut table = wide(&["", "paper", "measured", "unit"].map(str::to_owned));
    for of in rows {
        let place = of.at.keys().filter(|key| *key != "unit").map(|key| of.coordinate(key));
        let place: Vec<String> = place.collect();
        let cells = [number(of.paper), number(of.measured), of.coordinate("unit")];
        table.add_row(row(&place.join(", "), cells));
    }
    table
}
