//! Report of `strobe crash`: power cuts during a program, and the damage they leave.

use std::fmt::Write as _;

use strobe_crash::{CrashReport, Found, Group, Verdict};

use super::{Table, broken, count, duration, row, table};
use crate::chart::WIDTH;

const GROUPS_MAX: usize = 6;
const REASON_LINES_MAX: usize = 12;
const OPERATIONS_MAX: usize = 6;
const LINE_MAX: usize = 28;

/// Summary of the findings: each kind of damage with its reason, and its first cut with commands in flight.
///
/// `is_full` adds a table of all cuts and shortens nothing. `with_place` (`--at`) prints reasons in full, and
/// describes a single cut even if it did no damage.
pub fn crash_summary(report: &CrashReport, is_full: bool, with_place: bool) -> String {
    let of = |verdict| report.found.iter().filter(|found| found.verdict == verdict).count();
    let mut out = format!(
        "{} {} among {} flash operations of {} in {} on {}: {} fine, {} lost, {} corrupt, {} do not mount\n",
        count(report.found.len() as u64),
        if report.found.len() == 1 { "power cut" } else { "power cuts" },
        count(report.operations.1 + 1 - report.operations.0),
        report.program.first().map_or("", String::as_str),
        duration(report.took_ns as f64),
        on(report),
        of(Verdict::Fine),
        of(Verdict::Lost),
        of(Verdict::Corrupt),
        of(Verdict::DoesNotMount),
    );
    if is_full {
        let _ = writeln!(out, "\n{}", cuts(&report.found, report.lines > 0));
    }
    let shown = if is_full { report.groups.len() } else { report.groups.len().min(GROUPS_MAX) };
    for group in &report.groups[..shown] {
        out += &kind(report, group, is_full || with_place);
    }
    if report.groups.len() > shown {
        let _ = writeln!(out, "\nand {} more kinds (--full prints all)", report.groups.len() - shown);
    }
    // A single cut (`--at`) without damage has no group: print the output of the check.
    if let ([only], true, []) = (&report.found[..], with_place, &report.groups[..]) {
        let _ = writeln!(out, "\nfine");
        for line in only.said.lines() {
            let _ = writeln!(out, "    {line}");
        }
        out += &place(report, only);
    }
    if let Some(note) = missing_sync(report) {
        let _ = writeln!(out, "\n{}", broken(&note, WIDTH).join("\n"));
    }
    if let Some(kept) = &report.kept {
        let _ = writeln!(
            out,
            "\nKept from operation {}: {} (the drive, for --image), {} (the kernel's log)",
            kept.operation, kept.image, kept.kernel_log
        );
    }
    if let Some(note) = unsynced(report) {
        let _ = writeln!(out, "\n{}", broken(&note, WIDTH).join("\n"));
    }
    if let Some(lines) = repairs(report) {
        let _ = write!(out, "\n{lines}");
    }
    if let Some(outside) = &report.outside {
        let _ = writeln!(out, "\n{}", broken(&outside.to_string(), WIDTH).join("\n"));
    }
    if !report.groups.is_empty() {
        let note = format!(
            "The drive keeps {} aligned bytes of a write whole; larger writes may be torn.",
            report.whole_bytes
        );
        let _ = writeln!(out, "\n{}", broken(&note, WIDTH).join("\n"));
    }
    if !report.has_check {
        let note = "Without --check no data was checked: fine means that the file system mounts and its check \
                    finds no damage.";
        let _ = writeln!(out, "\n{}", broken(note, WIDTH).join("\n"));
    }
    if report.passes_without_program {
        let note = "The check also passes on the drive before the program: it does not test that the program's \
                    data is there.";
        let _ = writeln!(out, "\n{}", broken(note, WIDTH).join("\n"));
    }
    if report.lines == 0 && report.has_check {
        let note = "The program printed nothing: the check cannot know what was acknowledged.";
        let _ = writeln!(out, "\n{}", broken(note, WIDTH).join("\n"));
    }
    if !report.has_file_log && !report.found.is_empty() {
        let note =
            "This kernel does not report files and calls; `strobe linux build-kernel` makes one that does.";
        let _ = writeln!(out, "\n{}", broken(note, WIDTH).join("\n"));
    }
    // Names and the output of programs may hold control characters, which a terminal would obey.
    out.replace(|symbol: char| symbol.is_control() && symbol != '\n' && symbol != '\t', "\u{fffd}")
}

/// Result of `--find-sync`; `None` without trials.
fn missing_sync(report: &CrashReport) -> Option<String> {
    let (last, others) = report.tried_syncs.split_last()?;
    let failed: Vec<&str> = others.iter().map(|trial| trial.added).collect();
    if let Some(reason) = &last.failed {
        return Some(format!(
            "No sync was found: the run with syncs {} was not possible: {reason}",
            last.added
        ));
    }
    Some(match last.first_wrong {
        None => {
            let others = match &failed[..] {
                [] => String::new(),
                failed => format!(" Not enough: {}.", failed.join("; ")),
            };
            format!(
                "A sync is missing: if all files are synced {}, all {} cuts are fine.{others}",
                last.added,
                count(last.cuts as u64)
            )
        }
        Some(operation) => format!(
            "No sync was found that helps: in the run with syncs {}, a cut at operation {operation} leaves damage.",
            last.added
        ),
    })
}

/// Note on unsynced names. `None` if a cut shows damage, all names were synced, or `--strict-names` is set.
fn unsynced(report: &CrashReport) -> Option<String> {
    let cuts = report.found.iter().filter(|found| found.unsynced_names > 0).count();
    let has_damage = !report.groups.is_empty();
    let other = if report.file_system == "f2fs" { "xfs" } else { "f2fs" };
    (cuts > 0 && !report.strict_names && !has_damage).then(|| {
        format!(
            "No damage, but at {} of these cuts names were new or moved and their folder was not synced yet, as in \
             any program that creates files. {} kept them, which POSIX does not require: --strict-names shows if it \
             matters, --fs {other} tries another file system.",
            count(cuts as u64),
            report.file_system
        )
    })
}

/// Messages of the repair before the mount, each with its number of cuts. `None` if no cut needed repair.
fn repairs(report: &CrashReport) -> Option<String> {
    let mut lines: Vec<(String, &str, u64)> = Vec::new();
    let mut repaired = 0;
    for said in report.found.iter().filter_map(|found| found.repair.as_deref()) {
        repaired += 1;
        let mut of_this: Vec<String> = Vec::new();
        for line in said.lines().map(str::trim).filter(|line| !line.is_empty()) {
            // Numbers differ between cuts: lines that differ only in digits are one repair.
            let kind = line.replace(|symbol: char| symbol.is_ascii_digit(), "");
            if of_this.contains(&kind) {
                continue;
            }
            of_this.push(kind.clone());
            match lines.iter_mut().find(|(of, ..)| *of == kind) {
                Some((.., cuts)) => *cuts += 1,
                None => lines.push((kind, line, 1)),
            }
        }
    }
    (repaired > 0).then(|| {
        let (fs, cuts) = (&report.file_system, count(repaired));
        lines.iter().fold(
            format!("The repair of {fs} changed the volume before the mount at {cuts} of these cuts:\n"),
            |out, (_, line, cuts)| out + &format!("  {cuts:>9}  {line}\n"),
        )
    })
}

fn kind(report: &CrashReport, group: &Group, is_whole: bool) -> String {
    let most = if is_whole { usize::MAX } else { REASON_LINES_MAX };
    let lines: Vec<&str> = group.reason.lines().collect();
    let first_line = lines.first().copied().unwrap_or("");
    let differs = |found: &Found| !found.reason.starts_with(first_line);
    let mut members = report.found.iter().filter(|found| group.operations.contains(&found.operation));
    let mut out = format!(
        "\n{} {}: {first_line}{}\n",
        count(group.operations.len() as u64),
        verdict(group.verdict),
        if group.operations.len() > 1 && members.any(differs) {
            " (other numbers at other cuts)"
        } else {
            ""
        }
    );
    // The end of a program's output is the most informative.
    let left_out = lines.len().saturating_sub(1).saturating_sub(most);
    if left_out > 0 {
        let _ = writeln!(out, "    … {left_out} more lines (--full prints all)");
    }
    for line in lines.iter().skip(1 + left_out) {
        let _ = writeln!(out, "    {line}");
    }
    let most = if is_whole { usize::MAX } else { OPERATIONS_MAX };
    let shown: Vec<String> = group.operations.iter().take(most).map(u64::to_string).collect();
    let more = match group.operations.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let _ = writeln!(out, "  operations  {}{more}", shown.join(", "));
    let first = report.found.iter().find(|found| group.operations.first() == Some(&found.operation));
    out + &first.map_or_else(String::new, |first| place(report, first))
}

fn place(report: &CrashReport, found: &Found) -> String {
    let mut out = format!("  first       {}, after {}", found.operation, duration(found.at_ns as f64));
    let _ = match &found.last_line {
        Some(line) => writeln!(out, " and line {}: {line}", found.acknowledged),
        None if report.lines > 0 => writeln!(out, ", before the first line"),
        None => writeln!(out),
    };
    let mut label = "";
    for fact in &found.facts {
        let shown = if fact.label == label { "" } else { fact.label };
        label = fact.label;
        let _ = writeln!(out, "  {shown:<11} {}", fact.text);
    }
    out
}

pub(super) fn verdict(of: Verdict) -> &'static str {
    match of {
        Verdict::Fine => "fine",
        Verdict::Lost => "lost",
        Verdict::Corrupt => "corrupt",
        Verdict::DoesNotMount => "does not mount",
    }
}

/// File system, and kind of drive.
pub(super) fn on(report: &CrashReport) -> String {
    let kind = report.drive_kind.map(|kind| format!(", drive {kind}")).unwrap_or_default();
    format!("{}{kind}", report.file_system)
}

/// Table of the findings, one file system and kind of drive per row.
pub fn crash_table(reports: &[CrashReport], failed: &[&str]) -> String {
    let mut all = table(&["on", "cuts", "fine", "lost", "corrupt", "do not mount"]);
    for report in reports {
        let of = |verdict| report.found.iter().filter(|found| found.verdict == verdict).count().to_string();
        let verdicts = [Verdict::Fine, Verdict::Lost, Verdict::Corrupt, Verdict::DoesNotMount].map(of);
        let cells: Vec<String> = [report.found.len().to_string()].into_iter().chain(verdicts).collect();
        all.add_row(row(&on(report), cells));
    }
    for file_system in failed {
        all.add_row(row(file_system, vec!["not tried".to_owned()]));
    }
    all.to_string()
}

/// Table of all cuts. If `has_lines`, it has the number of lines printed and the last one.
fn cuts(listed: &[Found], has_lines: bool) -> Table {
    let lines: &[&str] = if has_lines { &["lines", "last line"] } else { &[] };
    let header = [&["operation", "after"], lines, &["found", "because"]].concat();
    let first_text = if has_lines { 3 } else { 2 };
    let mut table = (first_text..header.len()).fold(table(&header), Table::text);
    for found in listed {
        let mut cells = vec![duration(found.at_ns as f64)];
        if has_lines {
            cells.push(found.acknowledged.to_string());
            cells.push(short(found.last_line.as_deref().unwrap_or("-"), LINE_MAX));
        }
        cells.push(verdict(found.verdict).to_owned());
        cells.push(found.reason.lines().next().unwrap_or("-").to_owned());
        table.add_row(row(&found.operation.to_string(), cells));
    }
    table
}

fn short(text: &str, most: usize) -> String {
    let mut shown: String = text.chars().take(most).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
pub(super) mod tests {
    use strobe_crash::{Fact, groups};

    use super::*;

    pub(in super::super) fn found(operation: u64, verdict: Verdict, reason: &str) -> Found {
        Found {
            operation,
            at_ns: 6_300_000_000,
            acknowledged: 7,
            last_line: Some("saved 7".to_owned()),
            under_way: Vec::new(),
            unflushed: Vec::new(),
            unsent_ranges: 0,
            unsent: Vec::new(),
            facts: Vec::new(),
            kind: String::new(),
            syncs: Vec::new(),
            last_call: None,
            unsynced_names: 0,
            undone: Vec::new(),
            was_cut_again: false,
            repair: None,
            verdict,
            reason: reason.to_owned(),
            said: String::new(),
            kernel_log: String::new(),
        }
    }

    pub(in super::super) fn report(found: Vec<Found>) -> CrashReport {
        CrashReport {
            strobe_version: String::new(),
            seed: 1,
            program: vec!["./save.sh".to_owned()],
            file_system: "ext4".to_owned(),
            drive_kind: None,
            mount_options: String::new(),
            has_check: true,
            strict_names: false,
            has_file_log: true,
            lying_flushes: false,
            whole_bytes: 4096,
            operations: (1, 100),
            flushes: 7,
            lines: 40,
            took_ns: 1,
            outside: None,
            passes_without_program: false,
            tried_syncs: Vec::new(),
            groups: groups(&found),
            kept: None,
            found,
        }
    }

    #[test]
    fn each_kind_of_damage_has_its_count_its_whole_reason_and_the_place_of_its_first_cut() {
        let whole = format!("{} \nand the second line", "a long reason that no column breaks, ".repeat(5));
        let lost = (0..12).map(|n| found(n, Verdict::Lost, &format!("{} acknowledged, {n} there", n + 1)));
        let mut corrupt = found(12, Verdict::Corrupt, &whole);
        let fact = |label, text: &str| Fact { label, text: text.to_owned() };
        corrupt.facts = vec![
            fact("under way", "flush by jbd2/vda-8"),
            fact("in cache", "/a (inode 12), 4096 bytes at 0: lost"),
            fact("in cache", "journal, 8192 bytes: kept"),
        ];
        let mut report = report(lost.chain([corrupt, found(13, Verdict::Fine, "")]).collect());
        let text = crash_summary(&report, false, false);
        for wanted in [
            "14 power cuts among 100 flash operations",
            "\n12 lost: 1 acknowledged, 0 there (other numbers at other cuts)\n  operations  0, 1, 2, 3, 4, 5 and 6 more\n",
            &format!("\n1 corrupt: {}\n    and the second line\n", whole.lines().next().unwrap_or_default()),
            "  first       12, after 6.30 s and line 7: saved 7\n",
            "  under way   flush by jbd2/vda-8\n",
            "  in cache    /a (inode 12), 4096 bytes at 0: lost\n              journal, 8192 bytes: kept\n",
        ] {
            assert!(text.contains(wanted), "{wanted:?} in {text}");
        }
        assert!(!text.contains("does not report files"), "{text}");
        report.groups[1].reason = format!("begin\n{}the end", "line\n".repeat(20));
        let text = crash_summary(&report, false, false);
        assert!(
            text.contains("1 corrupt: begin\n    … 9 more lines") && text.contains("    the end\n"),
            "{text}"
        );
        let full = crash_summary(&report, true, false);
        assert!(full.contains("8, 9, 10, 11\n") && !full.contains("more lines"), "{full}");
        assert!(full.lines().any(|line| line.contains(" fine ")), "{full}");
    }

    #[test]
    fn a_screen_has_some_kinds_and_says_how_many_there_are() {
        let kinds = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let found =
            kinds.iter().enumerate().map(|(at, kind)| found(at as u64, Verdict::Lost, kind)).collect();
        let mut report = report(found);
        report.has_file_log = false;
        let text = crash_summary(&report, false, false);
        assert!(text.contains("and 2 more kinds") && !text.contains("1 lost: g"), "{text}");
        assert!(text.contains("does not report files"), "{text}");
        assert!(crash_summary(&report, true, false).contains("1 lost: h"));
    }

    #[test]
    fn names_that_a_file_system_need_not_keep_are_told_where_all_is_fine() {
        let fine = |names| Found { unsynced_names: names, ..found(5, Verdict::Fine, "") };
        let said = |report: &CrashReport| crash_summary(report, false, false).contains("--strict-names");
        let mut all_fine = report(vec![fine(2), fine(0), fine(1)]);
        assert!(crash_summary(&all_fine, false, false).contains("at 2 of these cuts"), "{all_fine:?}");
        all_fine.strict_names = true;
        assert!(!said(&all_fine));
        assert!(!said(&report(vec![fine(0)])));
        assert!(!said(&report(vec![fine(1), found(6, Verdict::Lost, "a row")])));
    }

    #[test]
    fn lines_of_repairs_are_counted_once_a_cut_whatever_their_numbers() {
        let fine =
            |said: Option<&str>| Found { repair: said.map(str::to_owned), ..found(5, Verdict::Fine, "") };
        let dirty = "dirty bit is set\n\n cut to 7 bytes\ncut to 8 bytes\n";
        let text = crash_summary(
            &report(vec![fine(Some(dirty)), fine(None), fine(Some("cut to 9 bytes"))]),
            false,
            false,
        );
        let end = "at 2 of these cuts:\n          1  dirty bit is set\n          2  cut to 7 bytes\n";
        assert!(text.ends_with(end), "{text}");
        assert!(!crash_summary(&report(vec![fine(None)]), false, false).contains("repair"));
    }

    #[test]
    fn one_cut_that_left_all_fine_has_its_place() {
        let mut report = report(vec![found(5, Verdict::Fine, "")]);
        report.found[0].said = "saved 7 is there\nall is well".to_owned();
        let text = crash_summary(&report, false, true);
        assert!(
            text.contains("\nfine\n    saved 7 is there\n    all is well\n  first       5, after")
                && !text.contains("lost:"),
            "{text}"
        );
        let table = crash_table(&[report.clone(), report], &[]);
        assert_eq!(table.matches("ext4").count(), 2, "{table}");
    }
}
