//! Terminal tables that never break a number or its unit over two lines.
//!
//! The layout is the first of these that fits the width:
//!
//! 1. every column as wide as its widest cell, two blanks between columns;
//! 2. one blank between columns;
//! 3. headers and text columns broken between words, the widest first.
//!
//! Cells of number columns always stay whole. A table too large for the third layout is wider than the
//! terminal.

use std::fmt;

use crate::chart::WIDTH;

const WIDTH_MIN: usize = 40;

/// Columns of the terminal on standard output; 80 without one.
pub fn terminal_width() -> usize {
    let size = terminal_size::terminal_size_of(std::io::stdout());
    size.map_or(WIDTH, |(terminal_size::Width(columns), _)| usize::from(columns).max(WIDTH_MIN))
}

/// A header and rows of cells.
#[derive(Clone, Debug)]
pub struct Table {
    header: Vec<String>,
    /// True for left-aligned text, broken between words. Others are numbers.
    is_text: Vec<bool>,
    rows: Vec<Vec<String>>,
    width: usize,
}

/// Returns an empty table: the first column is text, the others are numbers.
pub fn table(header: &[&str]) -> Table {
    let header: Vec<String> = header.iter().map(|&name| name.to_owned()).collect();
    let is_text = (0..header.len()).map(|at| at == 0).collect();
    Table { header, is_text, rows: Vec::new(), width: terminal_width() }
}

/// Returns a row.
pub fn row(first: &str, rest: impl IntoIterator<Item = String>) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(rest).collect()
}

impl Table {
    /// Makes column `at` text.
    pub fn text(mut self, at: usize) -> Self {
        self.is_text[at] = true;
        self
    }

    /// Makes column `at` numbers.
    pub fn numbers(mut self, at: usize) -> Self {
        self.is_text[at] = false;
        self
    }

    /// Sets the width in columns, instead of the terminal's.
    pub fn in_columns(self, width: usize) -> Self {
        Self { width, ..self }
    }

    /// Adds a row; cells beyond the header are not shown.
    pub fn add_row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    fn cells(&self, at: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().filter_map(move |row| row.get(at)).map(String::as_str)
    }

    fn layout(&self) -> (Vec<usize>, usize) {
        let columns = self.header.len();
        let widest = |at: usize| self.cells(at).chain([self.header[at].as_str()]).map(longest_line).max();
        let mut widths: Vec<usize> = (0..columns).map(|at| widest(at).unwrap_or(0)).collect();
        let fits = |widths: &[usize], gap: usize| {
            widths.iter().sum::<usize>() + gap * columns.saturating_sub(1) <= self.width
        };
        if let Some(gap) = [2, 1].into_iter().find(|&gap| fits(&widths, gap)) {
            return (widths, gap);
        }
        let least = |at: usize| {
            let whole = if self.is_text[at] { longest_word } else { longest_line };
            self.cells(at).map(whole).chain([longest_word(&self.header[at])]).max().unwrap_or(0)
        };
        let least: Vec<usize> = (0..columns).map(least).collect();
        // Shrink the widest column that can still break, until the table fits or no column can.
        while !fits(&widths, 1) {
            let wide = (0..columns).filter(|&at| widths[at] > least[at]).max_by_key(|&at| widths[at]);
            let Some(at) = wide else { break };
            widths[at] -= 1;
        }
        (widths, 1)
    }

    fn write_row(&self, out: &mut String, cells: &[String], (widths, gap): (&[usize], usize)) {
        let empty = String::new();
        let broken: Vec<Vec<String>> = widths
            .iter()
            .enumerate()
            .map(|(at, &width)| lines_of(cells.get(at).unwrap_or(&empty), width))
            .collect();
        let height = broken.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let mut text = String::new();
            for (at, &width) in widths.iter().enumerate() {
                let cell = broken[at].get(line).map_or("", String::as_str);
                let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
                let between = if at == 0 { String::new() } else { " ".repeat(gap) };
                let parts = if self.is_text[at] {
                    [between.as_str(), cell, &blanks]
                } else {
                    [&between, &blanks, cell]
                };
                text.extend(parts);
            }
            out.push_str(text.trim_end());
            out.push('\n');
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (widths, gap) = self.layout();
        let mut out = String::new();
        self.write_row(&mut out, &self.header, (&widths, gap));
        out.push_str(&"─".repeat(widths.iter().sum::<usize>() + gap * widths.len().saturating_sub(1)));
        out.push('\n');
        for row in &self.rows {
            self.write_row(&mut out, row, (&widths, gap));
        }
        f.write_str(out.trim_end_matches('\n'))
    }
}

fn longest_line(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

fn longest_word(text: &str) -> usize {
    text.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0)
}

fn lines_of(text: &str, width: usize) -> Vec<String> {
    text.lines()
        .flat_map(|line| {
            if line.chars().count() <= width { vec![line.to_owned()] } else { super::broken(line, width) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide_latencies() -> Table {
        let mut table =
            table(&["host", "requests", "IOPS", "MB/s", "mean", "p50", "p99", "p99.9", "max"]).in_columns(80);
        let times = || ["56.4 µs", "10.2 µs", "56.4 µs", "10.2 ms", "1.25 s"].map(str::to_owned);
        let counts = ["1,234,567", "142,926", "1,133.7"].map(str::to_owned);
        table.add_row(row("write", counts.into_iter().chain(times())));
        table
    }

    #[test]
    fn numbers_and_headers_stay_whole_in_80_columns() {
        let text = wide_latencies().to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        assert!(lines[0].contains(" requests ") && lines[2].contains(" 56.4 µs "), "{text}");
    }

    #[test]
    fn a_narrow_terminal_breaks_headers_and_text_between_words_only() {
        let mut table = table(&["operation", "the last of them", "because"]).text(1).text(2).in_columns(40);
        let reason = "FATAL: lock file \"/mnt/.s.PGSQL.5432.lock\" exists already";
        table.add_row(row("314", ["saved 7".to_owned(), reason.to_owned()]));
        let text = table.to_string();
        assert!(text.contains("\"/mnt/.s.PGSQL.5432.lock\"") && text.contains("operation"), "{text}");
        for word in reason.split(' ').chain(["saved"]) {
            assert!(text.contains(word), "{word} is missing in {text}");
        }
        let numbers = wide_latencies().in_columns(40).to_string();
        assert!(numbers.lines().count() == 3 && numbers.contains("56.4 µs"), "{numbers}");
    }

    #[test]
    fn the_last_column_of_text_has_the_room_that_is_left() {
        let mut table = table(&["operation", "because"]).text(1).in_columns(80);
        table.add_row(row("17011", ["word ".repeat(13)]));
        assert_eq!(table.to_string().lines().count(), 3, "{table}");
    }
}
