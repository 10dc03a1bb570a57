//! Report on power cuts under a program.

use std::fmt::Write as _;

use strobe_crash::{CrashReport, Found, Verdict};

use super::{Table, count, duration, row, table, wrapped};

/// Cuts that are listed.
const LISTED: usize = 8;
/// Characters of a reason: some lines of its column.
const REASON_MAX: usize = 200;
/// Characters of a printed line.
const LINE_MAX: usize = 28;

/// Summary of the findings. `in_full` includes all output of the checks.
pub fn crash_summary(report: &CrashReport, in_full: bool) -> String {
    let of = |verdict| report.found.iter().filter(|found| found.verdict == verdict).count();
    let mut out = format!(
        "{} {} among {} flash operations of {} in {} on {}: {} fine, {} lost, {} corrupt, {} do not mount\n",
        count(report.found.len() as u64),
        if report.found.len() == 1 { "power cut" } else { "power cuts" },
        count(report.operations.1 - report.operations.0 + 1),
        report.program.first().map_or("", String::as_str),
        duration(report.took_ns as f64),
        report.file_system,
        of(Verdict::Fine),
        of(Verdict::Lost),
        of(Verdict::Corrupt),
        of(Verdict::DoesNotMount),
    );
    let bad: Vec<_> = report.found.iter().filter(|found| found.verdict != Verdict::Fine).collect();
    if !bad.is_empty() {
        let listed = worth_listing(&bad);
        let _ = writeln!(out, "\n{}", cuts(&listed, report.lines > 0));
        if bad.len() > listed.len() {
            let _ = writeln!(out, "and {} more, like these (--json has all)", bad.len() - listed.len());
        }
    }
    if in_full {
        for found in bad {
            let _ = writeln!(out, "\n{}", found.reason);
        }
    }
    if report.lines == 0 && report.has_check {
        let note = "The program printed nothing: the check cannot know what it had acknowledged.";
        let _ = writeln!(out, "\n{}", wrapped(note));
    }
    out
}

/// A line for each cut; `has_lines` if the program printed any. The reason has the room that the other columns leave.
fn cuts(listed: &[&Found], has_lines: bool) -> Table {
    let lines: &[&str] = if has_lines { &["lines", "the last of them"] } else { &[] };
    let header = [&["operation", "after"], lines, &["found", "because"]].concat();
    let first_text = if has_lines { 3 } else { 2 };
    let mut table = (first_text..header.len()).fold(table(&header), Table::text);
    for found in listed {
        let verdict = match found.verdict {
            Verdict::Fine => "fine",
            Verdict::Lost => "lost",
            Verdict::Corrupt => "corrupt",
            Verdict::DoesNotMount => "does not mount",
        };
        let mut cells = vec![duration(found.at_ns as f64)];
        if has_lines {
            cells.push(found.acknowledged.to_string());
            cells.push(short(found.last_line.as_deref().unwrap_or("-"), LINE_MAX));
        }
        cells.push(verdict.to_owned());
        cells.push(short(found.reason.lines().next().unwrap_or("-"), REASON_MAX));
        table.add_row(row(&found.operation.to_string(), cells));
    }
    table
}

/// Findings to list, in order: the first of each kind, then the first of all, up to the limit. Findings of one
/// kind differ in numbers only.
fn worth_listing<'a>(bad: &[&'a Found]) -> Vec<&'a Found> {
    let kind = |found: &Found| {
        let reason = found.reason.lines().next().unwrap_or_default();
        (found.verdict, reason.replace(|symbol: char| symbol.is_ascii_digit(), ""))
    };
    let mut kinds = Vec::new();
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for (place, &found) in bad.iter().enumerate() {
        let kind = kind(found);
        if kinds.contains(&kind) {
            others.push(place)
        } else {
            kinds.push(kind);
            first.push(place);
        }
    }
    let mut places: Vec<usize> = first.into_iter().chain(others).take(LISTED).collect();
    places.sort_unstable();
    places.into_iter().map(|place| bad[place]).collect()
}

/// As much of it as a column has room for.
fn short(text: &str, most: usize) -> String {
    let mut shown: String = text.chars().take(most).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_the_room_that_the_other_columns_leave() {
        let reason = "FATAL:  lock file \"/mnt/.s.PGSQL.5432.lock\" exists";
        let found = Found {
            operation: 17_011,
            at_ns: 6_300_000_000,
            acknowledged: 7,
            last_line: Some("saved 7".to_owned()),
            was_cut_again: false,
            verdict: Verdict::Corrupt,
            reason: reason.to_owned(),
        };
        let text = cuts(&[&found], false).in_columns(80).to_string();
        assert!(text.contains(reason) && !text.contains("saved 7"), "{text}");
        let text = cuts(&[&found], true).in_columns(100).to_string();
        assert!(text.contains(reason) && text.contains("saved 7"), "{text}");
        assert!(text.lines().next().is_some_and(|header| header.contains(" found  ")), "{text}");
    }

    #[test]
    fn each_kind_is_listed_before_more_of_one() {
        let found = |operation, verdict, reason: &str| Found {
            operation,
            at_ns: 0,
            acknowledged: 0,
            last_line: None,
            was_cut_again: false,
            verdict,
            reason: reason.to_owned(),
        };
        let lost = (0..12).map(|n| found(n, Verdict::Lost, &format!("{} acknowledged, {n} there", n + 1)));
        let corrupt = (12..15).map(|n| found(n, Verdict::Corrupt, "nothing but zeros"));
        let all: Vec<_> = lost.chain(corrupt).chain([found(15, Verdict::Lost, "no file")]).collect();
        let listed = worth_listing(&all.iter().collect::<Vec<_>>());
        let operations: Vec<_> = listed.iter().map(|found| found.operation).collect();
        assert_eq!(operations, [0, 1, 2, 3, 4, 5, 12, 15]);
    }
}
