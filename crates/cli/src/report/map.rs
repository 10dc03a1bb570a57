//! Maps of what is where, for terminals and as SVG.

use std::fmt::Write as _;

use strobe_papers::{Figure, Row, View};

/// A map: how much there is in each cell, lines from above.
struct Map {
    title: String,
    lines: Vec<Vec<f64>>,
    /// First and last value of each axis.
    across: (String, String),
    up: (String, String),
}

/// The maps of a figure; none if it is shown otherwise.
fn maps(figure: &Figure) -> Vec<Map> {
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
    let ends = |values: &[String]| {
        let end = |value: Option<&String>| value.cloned().unwrap_or_default();
        (end(values.first()), end(values.last()))
    };
    Map { title, lines, across: ends(&columns), up: ends(&heights) }
}

/// How dark a cell is, 0 to 1: by the logarithm, so that the few and the many are both seen.
fn darkness(count: f64, most: f64) -> f64 {
    if count <= 0.0 { 0.0 } else { libm::log(1.0 + count) / libm::log(1.0 + most) }
}

/// The maps for a terminal.
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

/// The maps of a figure as an SVG picture; nothing if it is shown otherwise.
pub fn svg(figure: &Figure) -> Option<String> {
    const CELL: usize = 8;
    const MARGIN: usize = 60;
    let maps = maps(figure);
    let width = |map: &Map| map.lines.first().map_or(0, Vec::len) * CELL + 2 * MARGIN;
    let height = maps.iter().map(|map| map.lines.len() * CELL).max()? + 2 * MARGIN;
    let total: usize = maps.iter().map(width).sum();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {total} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<text x=\"{MARGIN}\" y=\"20\">{}</text>\n",
        escaped(&figure.title)
    );
    let View::Map { across, up, .. } = figure.view else { return None };
    let mut left = MARGIN;
    for map in &maps {
        let most = map.lines.iter().flatten().copied().fold(0.0, f64::max);
        let (columns, lines) = (width(map) - 2 * MARGIN, map.lines.len() * CELL);
        let _ = writeln!(out, "<text x=\"{left}\" y=\"44\">{}</text>", escaped(&map.title));
        for (y, line) in map.lines.iter().enumerate() {
            for (x, &count) in line.iter().enumerate().filter(|(_, count)| **count > 0.0) {
                let (x, y) = (left + x * CELL, MARGIN + y * CELL);
                let _ = writeln!(
                    out,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" fill=\"#08306b\" \
                     fill-opacity=\"{:.2}\"/>",
                    darkness(count, most)
                );
            }
        }
        let bottom = MARGIN + lines;
        let _ = writeln!(
            out,
            "<rect x=\"{left}\" y=\"{MARGIN}\" width=\"{columns}\" height=\"{lines}\" fill=\"none\" stroke=\"#666\"/>\n\
             <text x=\"{left}\" y=\"{}\">{} {} … {}</text>\n\
             <text x=\"{}\" y=\"{bottom}\" text-anchor=\"end\">{}</text>\n\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            bottom + 16,
            escaped(&across.replace('_', " ")),
            escaped(&map.across.0),
            escaped(&map.across.1),
            left - 4,
            escaped(&map.up.0),
            left - 4,
            MARGIN + 10,
            escaped(&map.up.1),
        );
        left += width(map);
    }
    let _ =
        writeln!(out, "<text x=\"4\" y=\"{}\">{}</text>\n</svg>", height - 8, escaped(&up.replace('_', " ")));
    Some(out)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The different values of a coordinate, in order of appearance.
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
            rows.push(Row::shown(&at, Some(count)));
        }
        let view = View::Map { of: "metadata", across: "request", up: "block" };
        Figure { figure: "1".into(), title: "t".into(), note: None, rows, view }
    }

    #[test]
    fn the_origin_is_below_on_the_left() {
        let text = text(&figure());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, ["a < b:", "       7 ▕ ▒▏", "       0 ▕█ ▏", "          0 … 5"]);
    }

    #[test]
    fn svg_has_a_square_for_each_cell_that_is_not_empty() {
        let svg = svg(&figure()).expect("a map");
        assert_eq!(svg.matches("fill-opacity").count(), 2);
        assert!(svg.contains("a &lt; b") && !svg.contains("a < b"));
        assert_eq!(super::svg(&Figure { view: View::List, ..figure() }), None);
    }
}
