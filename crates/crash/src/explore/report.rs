//! Report of an exploration.

use serde::Serialize;
use strobe_linux::command::BesideResult;
use strobe_linux::job::Undo;

use super::file_log::{FileCall, Origin, UnderWay};
use super::look::Verdict;
use super::{Explorer, Rehearsed};

/// A cut, and what was found after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The flash operation that was cut short.
    pub operation: u64,
    /// When, in ns since the program's machine was switched on.
    pub at_ns: u64,
    /// Lines that the program had printed.
    pub acknowledged: usize,
    /// The last of them.
    pub last_line: Option<String>,
    /// Commands that the drive had not completed, in the order in which they came. Without any, the operation belongs to
    /// what the drive does in the background, such as writing back its cache.
    pub under_way: Vec<UnderWay>,
    /// Origins of writes that were complete and that no flush covered: they were in the drive's cache.
    pub unflushed: Vec<Origin>,
    /// Syncs that had begun and not ended; empty if the kernel does not report them.
    pub syncs: Vec<FileCall>,
    /// The last call on a file that was complete, if the kernel reports it.
    pub last_call: Option<FileCall>,
    /// Names that are new or moved and that no sync covers.
    pub unsynced_names: usize,
    /// Names that were taken back before the check, as no sync covered them (--strict-names).
    pub undone: Vec<Undo>,
    /// True if power failed once more during recovery of the volume.
    pub was_cut_again: bool,
    /// Output of the file system's repair, if it changed the volume before the mount: of FAT and exFAT, which have no
    /// journal.
    pub repair: Option<String>,
    /// Verdict.
    pub verdict: Verdict,
    /// Why; empty if all is fine.
    pub reason: String,
    /// The last lines that the check printed.
    #[serde(skip)]
    pub said: String,
    /// The kernel's log of the boot after the cut.
    #[serde(skip)]
    pub kernel_log: String,
}

/// Findings of one verdict and reason, numbers in the reason aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Verdict.
    pub verdict: Verdict,
    /// Reason of the first.
    pub reason: String,
    /// Flash operations that were cut short, in order.
    pub operations: Vec<u64>,
}

/// Files that show the first cut that left something wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// The flash operation that was cut short.
    pub operation: u64,
    /// The drive after the cut, for `strobe linux --image`.
    pub image: String,
    /// The kernel's log of the boot after the cut.
    pub kernel_log: String,
}

/// Report of the exploration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CrashReport {
    /// Version of Strobe that made it.
    pub strobe_version: String,
    /// Seed of everything random.
    pub seed: u64,
    /// The program, with its arguments.
    pub program: Vec<String>,
    /// File system.
    pub file_system: String,
    /// Options of its mount.
    pub mount_options: String,
    /// True if a check ran beside the file system's own.
    pub has_check: bool,
    /// True if names that no sync covers were taken back before the check.
    pub strict_names: bool,
    /// True if the kernel reports calls on files and the origins of requests.
    pub has_file_log: bool,
    /// True if the drive acknowledged flushes without flushing.
    pub lying_flushes: bool,
    /// The program's first and last flash operation.
    pub operations: (u64, u64),
    /// Flushes that it waited for.
    pub flushes: usize,
    /// Lines that it printed.
    pub lines: usize,
    /// Virtual time from power-on to power-off, in ns.
    pub took_ns: u64,
    /// Files that the program wrote beside the drive: no cut takes anything from them. Absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<BesideResult>,
    /// Findings that are not fine, by verdict and reason, in the order of the first of each.
    pub groups: Vec<Group>,
    /// The first of them, if it was kept.
    pub kept: Option<Kept>,
    /// Each cut, in the order of operations.
    pub found: Vec<Found>,
}

impl CrashReport {
    /// Assembles the report from the findings.
    pub fn of(explorer: &Explorer, rehearsed: &Rehearsed, found: Vec<Found>) -> Self {
        let run = &explorer.run;
        Self {
            strobe_version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: run.experiment.seed,
            program: run.command.clone(),
            file_system: run.file_system.kernel_name().unwrap_or_default().to_owned(),
            mount_options: run.mount_options.clone(),
            has_check: !explorer.check.is_empty(),
            strict_names: explorer.strict_names,
            has_file_log: rehearsed.has_file_log(),
            lying_flushes: explorer.lies,
            operations: rehearsed.operations().into_inner(),
            flushes: rehearsed.flushes(),
            lines: rehearsed.lines(),
            took_ns: rehearsed.took_ns(),
            beside: rehearsed.beside().cloned(),
            groups: groups(&found),
            kept: None,
            found,
        }
    }

    /// The first cut that left something wrong.
    pub fn first_wrong(&self) -> Option<&Found> {
        self.found.iter().find(|found| found.verdict != Verdict::Fine)
    }
}

/// Findings that are not fine, by verdict and reason.
pub fn groups(found: &[Found]) -> Vec<Group> {
    let kind = |verdict: Verdict, reason: &str| {
        let first = reason.lines().next().unwrap_or_default();
        (verdict, first.replace(|symbol: char| symbol.is_ascii_digit(), ""))
    };
    let mut groups: Vec<Group> = Vec::new();
    for one in found.iter().filter(|one| one.verdict != Verdict::Fine) {
        let of = kind(one.verdict, &one.reason);
        match groups.iter_mut().find(|group| kind(group.verdict, &group.reason) == of) {
            Some(group) => group.operations.push(one.operation),
            None => groups.push(Group {
                verdict: one.verdict,
                reason: one.reason.clone(),
                operations: vec![one.operation],
            }),
        }
    }
    groups
}
