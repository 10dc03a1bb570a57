//! Page of many related runs: tables and charts of their results.

use std::fmt::Write as _;

use super::{begin, draw, end};
use crate::Chart;
use crate::text::{escaped, escaped_lines};

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Heading above the table.
    pub title: String,
    /// Caption below the table.
    pub note: Option<String>,
    /// Column names; true if a column holds numbers.
    pub columns: Vec<(String, bool)>,
    /// One text per column.
    pub rows: Vec<Vec<String>>,
}

/// Content of a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collection {
    /// Title.
    pub name: String,
    /// Subtitle.
    pub about: String,
    /// Warnings, shown first.
    pub notes: Vec<String>,
    /// Charts.
    pub charts: Vec<Chart>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Configuration, to repeat the runs.
    pub configuration: String,
    /// Version of the simulator.
    pub version: String,
}

/// Tables of at least this number of rows have a filter.
const FILTERED_FROM: usize = 20;

/// Returns the page of `found`.
pub fn collection(found: &Collection) -> String {
    let mut out = begin(&format!("{} – Strobe", found.name));
    let _ =
        writeln!(out, "<header><h1>{}</h1><p>{}</p></header>", escaped(&found.name), escaped(&found.about));
    if !found.notes.is_empty() {
        let notes: String =
            found.notes.iter().map(|note| format!("<li>{}</li>", escaped_lines(note))).collect();
        let _ = writeln!(out, "<ul class=\"notes\">{notes}</ul>");
    }
    let _ = writeln!(out, "<section class=\"figures\">");
    for figure in found.charts.iter().filter_map(Chart::figure) {
        draw(&mut out, &figure);
    }
    let _ = writeln!(out, "</section>");
    found.tables.iter().for_each(|table| write_table(&mut out, table));
    if !found.configuration.is_empty() {
        let _ = writeln!(
            out,
            "<details><summary>What was run</summary><pre>{}</pre></details>",
            escaped_lines(&found.configuration)
        );
    }
    end(out, &found.version, &[])
}

fn write_table(out: &mut String, table: &Table) {
    let class = |is_number: bool| if is_number { " class=\"n\"" } else { "" };
    let _ = write!(out, "<section class=\"table\"><h2>{}</h2>", escaped(&table.title));
    if table.rows.len() >= FILTERED_FROM {
        // The page's script hides the rows that do not have all words.
        let _ = write!(
            out,
            "<input class=\"filter\" type=\"search\" placeholder=\"rows with these words\" aria-label=\"Filter rows\">\
             <p class=\"note nothing\" hidden>Nothing matches.</p>"
        );
    }
    let _ = write!(out, "<div class=\"scroll\"><table class=\"sorted\"><thead><tr>");
    for (name, is_number) in &table.columns {
        let _ =
            write!(out, "<th{}><button class=\"sort\">{}</button></th>", class(*is_number), escaped(name));
    }
    let _ = write!(out, "</tr></thead><tbody>");
    for row in &table.rows {
        let _ = write!(out, "<tr>");
        for (text, (_, is_number)) in row.iter().zip(&table.columns) {
            let _ = write!(out, "<td{}>{}</td>", class(*is_number), escaped(text));
        }
        let _ = write!(out, "</tr>");
    }
    let _ = write!(out, "</tbody></table></div>");
    if let Some(note) = &table.note {
        let _ = write!(out, "<p class=\"note\">{}</p>", escaped_lines(note));
    }
    let _ = writeln!(out, "</section>");
}
