//! Heat maps.

use std::fmt::Write as _;

use strobe_papers::{Figure, Row, View};

/// Counts per cell, top line first.
pub(super) struct Map {
    pub(super) title: String,
    pub(super) lines: Vec<Vec<f64>>,
    /// Ends of the x axis.
    pub(super) across: (String, String),
    /// Ends of the y axis.
    pub(super) up: (String, String),
}

/// Empty if the figure has another view.
pub(super) fn maps(figure: &Figure) -> Vec<Map> {
    let View::Map { of, across, up } = figure.view else { return Vec::new() };
    values(&figure.rows, of).into_iter().map(|title| map(figure, title, of, across, up)).collect()
}

fn map(figure: &Figure, title: String, of: &str, across: &str, up: &str) -> Map {
    let rows: Vec<&Row> = figure.rows.iter().filter(|row| row.coordinate(of) == title).collect();
    let (columns, heights) = (values(rows.iter().copied(), across), values(rows.iter().copied(), up));
    let mut lines = vec![vec![0.0; columns.len()]; heights.len()];
    for row in &rows {
        let x = columns.iter().position(|value| *value == row.coordinate(across));
        let y = heights.iter().rev().position(|value| *value == row.coordinate(up));
        if let (Some(x), Some(y)) = (x, y) {
            lines[y][x] = row.measured.unwrap_or(0.0);
        }
    }
    Map { title, lines, across: ends(&columns), up: ends(&heights) }
}

/// Ends of an axis. Cells begin at `values`; the last cell is as long as the previous one.
fn ends(values: &[String]) -> (String, String) {
    let name = |value: Option<&String>| value.cloned().unwrap_or_default();
    let end = match values {
        [.., before, last] => before.parse::<u64>().ok().zip(last.parse::<u64>().ok()),
        _ => None,
    };
    let end = end.and_then(|(before, last)| Some((last + last.checked_sub(before)?).to_string()));
    (name(values.first()), end.unwrap_or_else(|| name(values.last())))
}

/// Shade of a count, 0 to 1. The scale is logarithmic, so small and large counts are visible.
pub(super) fn darkness(count: f64, most: f64) -> f64 {
    if count <= 0.0 { 0.0 } else { libm::log(1.0 + count) / libm::log(1.0 + most) }
}

pub(super) fn text(figure: &Figure) -> String {
    const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];
    let mut out = String::new();
    for map in maps(figure) {
        let most = map.lines.iter().flatten().copied().fold(0.0, f64::max);
        let _ = writeln!(out, "{}:", map.title);
        for (at, line) in map.lines.iter().enumerate() {
            let shade = |&count: &f64| SHADES[(darkness(count, most) * 4.0).ceil().min(4.0) as usize];
            let label = match at {
                0 => &map.up.1,
                _ if at + 1 == map.lines.len() => &map.up.0,
                _ => "",
            };
            let _ = writeln!(out, "{label:>8} ▕{}▏", line.iter().map(shade).collect::<String>());
        }
        let _ = writeln!(out, "{:>10}{} … {}", "", map.across.0, map.across.1);
    }
    out
}

/// Distinct coordinates, in order of appearance.
pub(super) fn values<'a>(rows: impl IntoIterator<Item = &'a Row>, name: &str) -> Vec<String> {
    let mut values = Vec::new();
    for value in rows.into_iter().map(|row| row.coordinate(name)) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let mut rows = Vec::new();
        for (x, y, count) in [("0", "0", 9.0), ("5", "0", 0.0), ("0", "7", 0.0), ("5", "7", 1.0)] {
            let at = [("metadata", "a < b"), ("request", x), ("block", y)];
            rows.push(Row::new(&at, Some(count)));
        }
        let view = View::Map { of: "metadata", across: "request", up: "block" };
        Figure { figure: "1".into(), title: "t".into(), note: None, rows, view }
    }

    #[test]
    fn the_origin_is_below_on_the_left() {
        let text = text(&figure());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, ["a < b:", "      14 ▕ ▒▏", "       0 ▕█ ▏", "          0 … 10"]);
    }
}
