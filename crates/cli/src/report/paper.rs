//! What a person reads about a paper's figures.

use std::fmt::Write as _;

use comfy_table::{Cell, CellAlignment, Table};

use strobe_papers::{Figure, PaperResult, Row, Verdict, View};

use super::map::{self, values};
use super::{row, table};
use crate::chart::bars;

/// Columns of the picture of a curve.
const CURVE_COLUMNS: usize = 48;

/// All figures as text.
pub fn summary(result: &PaperResult) -> String {
    let mut out = String::new();
    for note in &result.notes {
        let _ = writeln!(out, "- {note}");
    }
    for figure in &result.figures {
        let _ = write!(out, "\n{}", figure_text(figure));
    }
    let verdicts = |verdict| {
        result.figures.iter().flat_map(|figure| &figure.rows).filter(|row| row.verdict == verdict).count()
    };
    let [reproduced, not_reached, missed] =
        [Verdict::Reproduced, Verdict::NotReached, Verdict::Missed].map(verdicts);
    let _ = write!(
        out,
        "\n{} comparisons: {reproduced} reproduced, {not_reached} as foretold but not as printed in the \
         paper, {missed} missed; seed {}, strobe {}",
        reproduced + not_reached + missed,
        result.seed,
        result.strobe_version
    );
    out
}

fn figure_text(figure: &Figure) -> String {
    let name = match figure.figure.parse::<u32>() {
        Ok(number) => format!("Figure {number}"),
        Err(_) => figure.figure.clone(),
    };
    let mut out = format!("{name}: {}\n", figure.title);
    if let Some(note) = &figure.note {
        let _ = writeln!(out, "({note})");
    }
    let (drawn, listed) = match figure.view {
        View::List => (String::new(), figure.rows.iter().collect()),
        View::Table { down, across } => {
            let (inside, outside) = with_coordinate(figure, across);
            (pivot(&inside, down, across), outside)
        }
        View::Curves { of, over } => {
            let (inside, outside) = with_coordinate(figure, of);
            (curves(&inside, of, over), outside)
        }
        View::Map { .. } => (map::text(figure), Vec::new()),
    };
    out += &drawn;
    if !listed.is_empty() {
        let _ = writeln!(out, "{}", list(&listed));
    }
    for row in listed {
        if let Some(why) = &row.why {
            let verdict = row.verdict.name();
            let _ = writeln!(out, "{verdict}, {}: {why}", row.coordinate("claim"));
        }
    }
    out
}

fn with_coordinate<'a>(figure: &'a Figure, name: &str) -> (Vec<&'a Row>, Vec<&'a Row>) {
    figure.rows.iter().partition(|row| row.at.contains_key(name))
}

fn pivot(rows: &[&Row], down: &[&str], across: &str) -> String {
    let columns = values(rows.iter().copied(), across);
    let mut lines: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for row in rows {
        let mut key: Vec<String> = down.iter().map(|name| row.coordinate(name)).collect();
        // Where lines differ in what they count, the unit belongs to the line.
        key.push(row.coordinate("unit"));
        if lines.last().is_none_or(|(last, _)| *last != key) {
            lines.push((key, vec!["-".to_owned(); columns.len()]));
        }
        let place = columns.iter().position(|column| *column == row.coordinate(across));
        if let (Some(place), Some((_, cells))) = (place, lines.last_mut()) {
            cells[place] = number(row.measured);
        }
    }
    let names = down.iter().map(|name| name.replace('_', ":"));
    let header: Vec<String> = names.chain(["unit".to_owned()]).chain(columns).collect();
    let mut table = wide(&header);
    for (key, cells) in lines {
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        table.add_row(key.into_iter().map(Cell::new).chain(cells.into_iter().map(right)).collect::<Vec<_>>());
    }
    format!("{table}\n")
}

fn wide(header: &[String]) -> Table {
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    table(&header)
}

/// One line per curve, all over the same range.
fn curves(rows: &[&Row], of: &str, over: &str) -> String {
    let x = |row: &Row| row.at.get(over).and_then(serde_json::Value::as_f64);
    let positions = || rows.iter().filter_map(|row| x(row));
    let (from, to) = (positions().fold(f64::MAX, f64::min), positions().fold(f64::MIN, f64::max));
    let mut out = String::new();
    for curve in values(rows.iter().copied(), of) {
        let points: Vec<(f64, f64)> = rows
            .iter()
            .filter(|row| row.coordinate(of) == curve)
            .filter_map(|row| x(row).zip(row.measured))
            .collect();
        let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
        let step = (to - from) / (CURVE_COLUMNS - 1) as f64;
        let at = |column: usize| {
            let until = points.partition_point(|point| point.0 <= from + (column as f64 + 0.5) * step);
            if until == 0 { 0.0 } else { points[until - 1].1 }
        };
        let picture = bars((0..CURVE_COLUMNS).map(at), 0.0);
        let _ = writeln!(
            out,
            "{curve:18} ▕{picture}▏\n{:18}  {} to {} at {} to {} {}",
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
    let mut table = wide(&["", "paper", "measured", "unit", "band", "verdict"].map(str::to_owned));
    for of in rows {
        let place = of.at.keys().filter(|key| *key != "unit").map(|key| of.coordinate(key));
        let place: Vec<String> = place.collect();
        let cells = [
            number(of.paper),
            number(of.measured),
            of.coordinate("unit"),
            of.band.map(band).unwrap_or_default(),
            of.verdict.name().to_owned(),
        ];
        table.add_row(row(&place.join(", "), cells));
    }
    table
}

fn band([low, high]: [Option<f64>; 2]) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!("{} to {}", number(Some(low)), number(Some(high))),
        (Some(low), None) => format!("from {}", number(Some(low))),
        (None, Some(high)) => format!("up to {}", number(Some(high))),
        (None, None) => String::new(),
    }
}

/// Three or four digits, whole numbers without a point.
fn number(value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    match value.abs() {
        _ if value == value.trunc() => format!("{value:.0}"),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.3}"),
        _ => format!("{value:.5}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(rows: Vec<Row>, view: View) -> String {
        let figure = Figure { figure: "4".into(), title: "lives".into(), note: None, rows, view };
        summary(&PaperResult {
            schema_version: 1,
            strobe_version: "0".into(),
            paper: "p".into(),
            quick: true,
            seed: 1,
            notes: vec!["QUICK".into()],
            figures: vec![figure],
        })
    }

    #[test]
    fn bars_become_a_table_and_claims_a_list() {
        let bar = |set: &str, policy: &str, value| {
            Row::shown(&[("cold_hot", set), ("policy", policy), ("unit", "M")], Some(value))
        };
        let claim =
            Row::judged(&[("claim", "B over A"), ("unit", "%")], Some(3.0), Some(100.0), [None, Some(9.0)]);
        let rows =
            vec![bar("7:3", "A", 1.0), bar("7:3", "B", 2.5), bar("8:2", "B", 3.5), claim.because("of luck")];
        let text = result(rows, View::Table { down: &["cold_hot"], across: "policy" });
        for part in ["QUICK", "Figure 4: lives", "2.500", "3.500", "up to 9", "B over A: of luck", "1 missed"]
        {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert_eq!(text.matches("7:3").count(), 1, "{text}");
    }

    #[test]
    fn curves_share_their_range() {
        let point = |policy: &str, x: f64, value| {
            let mut row = Row::shown(&[("policy", policy)], Some(value));
            row.at.insert("x".into(), x.into());
            row
        };
        let rows =
            vec![point("A", 1.0, 1.0), point("A", 2.0, 8.0), point("B", 4.0, 1.0), point("B", 5.0, 2.0)];
        let text = result(rows, View::Curves { of: "policy", over: "x" });
        assert!(text.contains("1 to 8 at 1 to 2 x") && text.contains("1 to 2 at 4 to 5 x"), "{text}");
    }
}
