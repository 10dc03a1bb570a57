use std::fmt::Write as _;

use strobe_crash::{FaultReport, KINDS, Unreadable, Verdict};

use super::crash::verdict;
use super::{count, row, table};

const GROUPS_MAX: usize = 8;
const REASON_LINES_MAX: usize = 4;

/// Summary: one line per kind of data, then each outcome with its reason and first place. `is_full` lists all
/// places.
pub fn fault_summary(report: &FaultReport, is_full: bool) -> String {
    let found = &report.found;
    let mut out = format!(
        "{} {} not be read, one at a time, after {} on {}\n\n",
        count(found.len() as u64),
        if found.len() == 1 { "place could" } else { "places could" },
        report.program.first().map_or("", String::as_str),
        report.file_system,
    );
    let head = ["data", "units", "tried", "not read", "read: fine", "lost", "corrupt", "do not mount"];
    let mut kinds = table(&head);
    for kind in KINDS {
        let Some(units) = report.units.get(kind) else { continue };
        let of = |test: &dyn Fn(&Unreadable) -> bool| {
            found.iter().filter(|one| one.kind == kind && test(one)).count().to_string()
        };
        let fine = |was_read: bool| of(&|one| one.verdict == Verdict::Fine && one.was_read == was_read);
        let others = [Verdict::Lost, Verdict::Corrupt, Verdict::DoesNotMount];
        let others = others.map(|verdict| of(&|one| one.verdict == verdict));
        let cells = [count(*units), of(&|_| true), fine(false), fine(true)].into_iter().chain(others);
        kinds.add_row(row(kind, cells.collect::<Vec<String>>()));
    }
    let _ = writeln!(out, "{kinds}");
    let groups = groups(found);
    let shown = if is_full { groups.len() } else { groups.len().min(GROUPS_MAX) };
    for (first, places) in &groups[..shown] {
        let name = if first.verdict == Verdict::Fine {
            "fine despite a failed read"
        } else {
            verdict(first.verdict)
        };
        // Without a reason of the check, the kernel's message is the only sign of the error.
        let reason = if first.reason.is_empty() { &first.kernel } else { &first.reason };
        let mut lines = reason.lines();
        let _ = writeln!(out, "\n{} {name}: {}", count(places.len() as u64), lines.next().unwrap_or(""));
        let most = if is_full { usize::MAX } else { REASON_LINES_MAX };
        for line in lines.take(most) {
            let _ = writeln!(out, "    {line}");
        }
        let _ = writeln!(out, "  first       {}", place(first));
        if !first.reason.is_empty() && first.was_read {
            let _ = writeln!(out, "  kernel      {}", first.kernel);
        }
        if is_full && places.len() > 1 {
            for other in &places[1..] {
                let _ = writeln!(out, "              {}", place(other));
            }
        }
    }
    if groups.len() > shown {
        let _ = writeln!(out, "\nand {} more kinds (--full prints all)", groups.len() - shown);
    }
    out
}

/// Groups by kind of data, verdict and reason; digits in the reason are ignored.
fn groups(found: &[Unreadable]) -> Vec<(&Unreadable, Vec<&Unreadable>)> {
    let key = |one: &Unreadable| {
        let reason = one.reason.lines().next().unwrap_or_default();
        (one.kind, one.verdict, reason.replace(|symbol: char| symbol.is_ascii_digit(), ""))
    };
    let mut groups: Vec<(&Unreadable, Vec<&Unreadable>)> = Vec::new();
    for one in found.iter().filter(|one| one.was_read || one.verdict != Verdict::Fine) {
        match groups.iter_mut().find(|(first, _)| key(first) == key(one)) {
            Some((_, places)) => places.push(one),
            None => groups.push((one, vec![one])),
        }
    }
    groups
}

/// Text such as "sectors 66048 to 66055, file /data/a".
fn place(of: &Unreadable) -> String {
    let path = if of.path.is_empty() { String::new() } else { format!(" {}", of.path) };
    format!("sectors {} to {}, {}{path}", of.lba, of.lba + u64::from(of.sectors) - 1, of.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_read_is_counted_and_not_told() {
        let one = |kind, lba, was_read, verdict, reason: &str| Unreadable {
            lba,
            sectors: 8,
            kind,
            path: if kind == "file" { "/a".into() } else { String::new() },
            was_read,
            verdict,
            reason: reason.into(),
            kernel: if was_read { "I/O error, dev vda".into() } else { String::new() },
        };
        let report = FaultReport {
            strobe_version: String::new(),
            seed: 1,
            program: vec!["prog".into()],
            file_system: "ext4".into(),
            mount_options: String::new(),
            units: [("file", 30), ("journal", 5)].into(),
            found: vec![
                one("journal", 80, false, Verdict::Fine, ""),
                one("file", 160, true, Verdict::Lost, "cat: a: Input/output error 1"),
                one("file", 168, true, Verdict::Lost, "cat: a: Input/output error 2"),
                one("file", 176, true, Verdict::Fine, ""),
            ],
        };
        let text = fault_summary(&report, false);
        assert!(text.starts_with("4 places could not be read, one at a time, after prog on ext4"), "{text}");
        assert!(
            text.contains("2 lost: cat: a: Input/output error 1\n  first       sectors 160 to 167, file /a"),
            "{text}"
        );
        assert!(text.contains("1 fine despite a failed read: I/O error, dev vda"), "{text}");
        assert!(!text.contains("sectors 80"), "{text}");
        assert!(fault_summary(&report, true).contains("sectors 168 to 175, file /a"));
    }
}
