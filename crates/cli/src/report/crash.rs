//! Report on power cuts under a program.

use std::fmt::Write as _;

use strobe_crash::{CrashReport, Found, Verdict};

use super::{Table, count, duration, row, table, wrapped};

/// Lines of the table in one screen.
const TABLE_LINES: usize = 14;
/// Characters of a reason: some lines of its column.
const REASON_MAX: usize = 200;
/// Characters of a printed line.
const LINE_MAX: usize = 28;

/// Summary of the findings: one screen, or every cut if `is_full`. `with_reasons` adds all output of the checks.
pub fn crash_summary(report: &CrashReport, is_full: bool, with_reasons: bool) -> String {
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
    let has_lines = report.lines > 0;
    if is_full {
        let all: Vec<_> = report.found.iter().collect();
        let _ = writeln!(out, "\n{}", cuts(&all, has_lines, usize::MAX));
    } else if !bad.is_empty() {
        let (table, listed) = screen(&bad, has_lines);
        let _ = writeln!(out, "\n{table}");
        if bad.len() > listed {
            let _ = writeln!(out, "and {} more, like these (--full prints all)", bad.len() - listed);
        }
    }
    if with_reasons {
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

/// As many cuts as one screen shows, at least one, and their number.
fn screen(bad: &[&Found], has_lines: bool) -> (Table, usize) {
    let mut most = bad.len().min(TABLE_LINES);
    loop {
        let table = cuts(&worth_listing(bad, most), has_lines, REASON_MAX);
        if most <= 1 || table.to_string().lines().count() <= TABLE_LINES {
            return (table, most);
        }
        most -= 1;
    }
}

/// A line for each cut; `has_lines` if the program printed any. The reason, of at most `reason_max` characters, has the
/// room that the other columns leave.
fn cuts(listed: &[&Found], has_lines: bool, reason_max: usize) -> Table {
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
        cells.push(short(found.reason.lines().next().unwrap_or("-"), reason_max));
        table.add_row(row(&found.operation.to_string(), cells));
    }
    table
}

/// Findings to list, in order: the first of each kind, then the first of all, up to `most`. Findings of one kind differ
/// in numbers only.
fn worth_listing<'a>(bad: &[&'a Found], most: usize) -> Vec<&'a Found> {
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
    let mut places: Vec<usize> = first.into_iter().chain(others).take(most).collect();
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
        let text = cuts(&[&found], false, REASON_MAX).in_columns(80).to_string();
        assert!(text.contains(reason) && !text.contains("saved 7"), "{text}");
        let text = cuts(&[&found], true, REASON_MAX).in_columns(100).to_string();
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
        let listed = worth_listing(&all.iter().collect::<Vec<_>>(), 8);
        let operations: Vec<_> = listed.iter().map(|found| found.operation).collect();
        assert_eq!(operations, [0, 1, 2, 3, 4, 5, 12, 15]);
    }

    #[test]
    fn the_summary_is_one_screen_and_the_full_one_has_every_cut_with_its_whole_reason() {
        let found = |operation: u64| Found {
            operation,
            at_ns: operation,
            acknowledged: 3,
            last_line: Some("saved 3".to_owned()),
            was_cut_again: false,
            verdict: if operation.is_multiple_of(4) { Verdict::Fine } else { Verdict::Lost },
            reason: format!("{operation} is missing {}", "and so is what follows ".repeat(14).trim_end()),
        };
        let report = CrashReport {
            strobe_version: String::new(),
            seed: 1,
            program: vec!["./save.sh".to_owned()],
            file_system: "ext4".to_owned(),
            mount_options: String::new(),
            has_check: true,
            lying_flushes: false,
            operations: (1, 100),
            flushes: 7,
            lines: 40,
            took_ns: 1,
            found: (1..=100).map(found).collect(),
        };
        let screen = crash_summary(&report, false, false);
        assert!((10..=20).contains(&screen.lines().count()), "{screen}");
        assert!(screen.contains("more, like these (--full prints all)"), "{screen}");
        let full = crash_summary(&report, true, false);
        let words = full.split_whitespace().filter(|word| *word == "follows").count();
        assert_eq!(words, 14 * 100, "{full}");
        assert!(full.contains(" fine ") && !full.contains("more, like these"), "{full}");
    }
}
