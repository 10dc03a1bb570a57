//! What a person reads about power cuts under a program.

use std::fmt::Write as _;

use strobe_crash::{CrashReport, Verdict};

use super::{count, duration, row, table, wrapped};

/// Cuts that are listed.
const LISTED: usize = 8;

/// What was found; `in_full` with all that the checks have printed.
pub fn crash_summary(report: &CrashReport, in_full: bool) -> String {
    let of = |verdict| report.found.iter().filter(|found| found.verdict == verdict).count();
    let mut out = format!(
        "{} power cuts among {} flash operations of {} in {} on {}: {} fine, {} lost, {} corrupt, {} do not mount\n",
        count(report.found.len() as u64),
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
        let mut table = table(&["operation", "after", "lines", "the last of them", "found", "because"]);
        for found in bad.iter().take(LISTED) {
            let verdict = match found.verdict {
                Verdict::Fine => "fine",
                Verdict::Lost => "lost",
                Verdict::Corrupt => "corrupt",
                Verdict::DoesNotMount => "does not mount",
            };
            let cells = vec![
                duration(found.at_ns as f64),
                found.acknowledged.to_string(),
                short(found.last_line.as_deref().unwrap_or("-")),
                verdict.to_owned(),
                short(found.reason.lines().next().unwrap_or("-")),
            ];
            table.add_row(row(&found.operation.to_string(), cells));
        }
        let _ = writeln!(out, "\n{table}");
        if bad.len() > LISTED {
            let _ = writeln!(out, "and {} more", bad.len() - LISTED);
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

/// As much of it as a column has room for.
fn short(text: &str) -> String {
    let mut shown: String = text.chars().take(28).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
