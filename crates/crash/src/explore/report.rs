use serde::Serialize;
use strobe_linux::command::OutsideResult;
use strobe_linux::job::Undo;

use super::examine::Verdict;
use super::file_log::UnderWay;
use super::line::FileCall;
use super::missing_sync::TriedSync;
use super::pending::UnflushedWrite;
use super::source::Sources;
use super::unsent::UnsentData;
use super::{Explorer, Rehearsed};

/// Line on the circumstances of a cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// Kind of fact, such as "in cache".
    pub label: &'static str,
    /// Text.
    pub text: String,
}

/// Power cut and its consequences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Flash operation interrupted by the cut.
    ///
    /// A number after the program's last operation stands for a cut at its end, with writes in the drive's
    /// cache.
    pub operation: u64,
    /// Time of the cut in ns since the machine was switched on.
    pub at_ns: u64,
    /// Number of lines printed before the cut.
    pub acknowledged: usize,
    /// Last line printed before the cut.
    pub last_line: Option<String>,
    /// In-flight commands, in order of submission.
    ///
    /// If empty, the operation belongs to background work of the drive, such as writing back its cache.
    pub under_way: Vec<UnderWay>,
    /// Writes without a later flush, in flight or in the drive's cache, in order of submission, and what of
    /// them is there after the cut.
    pub unflushed: Vec<UnflushedWrite>,
    /// Number of ranges of files with data that was not sent to the drive yet.
    pub unsent_ranges: usize,
    /// The first 1000 of these ranges, by their calls. The start of files is left out on F2FS and Btrfs, which
    /// keep small files in metadata.
    pub unsent: Vec<UnsentData>,
    /// Running syncs; empty if the kernel does not report them.
    pub syncs: Vec<FileCall>,
    /// Last call on a file, if the kernel reports it. A write may still be running.
    pub last_call: Option<FileCall>,
    /// Number of new or moved names not covered by a sync.
    pub unsynced_names: usize,
    /// Unsynced names undone before the check (--strict-names).
    pub undone: Vec<Undo>,
    /// True if power failed once more during recovery of the volume.
    pub was_cut_again: bool,
    /// Output of the file system's repair if it changed the volume before the mount. Only FAT and exFAT, which
    /// have no journal, are repaired.
    pub repair: Option<String>,
    /// The circumstances as text.
    pub facts: Vec<Fact>,
    /// The last call, the commands in flight, the running syncs, and the files with data that is not durable,
    /// without numbers. In brackets is the operation's place among its neighbours with the same text, rounded
    /// down to a power of two. Empty at the program's end.
    pub kind: String,
    /// Verdict.
    pub verdict: Verdict,
    /// Reason of the verdict; empty if it is fine.
    pub reason: String,
    /// Last lines printed by the check.
    #[serde(skip)]
    pub said: String,
    /// Kernel log of the boot after the cut.
    #[serde(skip)]
    pub kernel_log: String,
}

impl Found {
    pub(super) fn add_sources(&mut self, sources: &Sources) {
        let unsent = self.unsent.iter_mut().map(|data| &mut data.call);
        for call in self.syncs.iter_mut().chain(&mut self.last_call).chain(unsent) {
            call.source = sources.line(&call.callers);
        }
    }
}

/// Findings with equal verdict and reason, ignoring numbers in the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Verdict.
    pub verdict: Verdict,
    /// Reason of the first finding.
    pub reason: String,
    /// Interrupted flash operations, in order.
    pub operations: Vec<u64>,
}

/// Files saved for the first failing cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SavedFiles {
    /// Interrupted flash operation.
    pub operation: u64,
    /// Image of the drive after the cut, for `strobe linux --image`.
    pub image: String,
    /// Kernel log of the boot after the cut.
    pub kernel_log: String,
}

/// Report of the exploration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CrashReport {
    /// Strobe version.
    pub strobe_version: String,
    /// Random seed.
    pub seed: u64,
    /// Program and its arguments.
    pub program: Vec<String>,
    /// File system.
    pub file_system: String,
    /// Kind of drive, if several were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive_kind: Option<&'static str>,
    /// Mount options.
    pub mount_options: String,
    /// True if a user check ran in addition to the file system's check.
    pub has_check: bool,
    /// True if unsynced names were undone before the check.
    pub strict_names: bool,
    /// True if the kernel reports file system calls and the origins of requests.
    pub has_file_log: bool,
    /// True if the drive acknowledged flushes without flushing.
    pub lying_flushes: bool,
    /// Aligned bytes that a power cut leaves all old or all new; larger writes may be torn.
    pub whole_bytes: u32,
    /// First and last flash operation of the program.
    pub operations: (u64, u64),
    /// Number of flushes the program waited for.
    pub flushes: usize,
    /// Number of printed lines.
    pub lines: usize,
    /// Virtual time from power-on to power-off, in ns.
    pub took_ns: u64,
    /// Files that the program wrote outside the drive, unaffected by cuts. Absent if there are no such files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside: Option<OutsideResult>,
    /// True if the check passes on the drive before the program ran: it does not notice that data is missing.
    pub passes_without_program: bool,
    /// Trials with added syncs (--find-sync), in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tried_syncs: Vec<TriedSync>,
    /// Failing findings by verdict and reason, in the order of their first cut.
    pub groups: Vec<Group>,
    /// Files of the first failing cut, if saved.
    pub kept: Option<SavedFiles>,
    /// All findings, in the order of operations.
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
            drive_kind: explorer.drive_kind,
            mount_options: run.mount_options.clone(),
            has_check: !explorer.check.is_empty(),
            strict_names: explorer.strict_names,
            has_file_log: rehearsed.has_file_log(),
            lying_flushes: explorer.lies,
            whole_bytes: run.experiment.drive.ftl.mapping_unit_bytes,
            operations: rehearsed.operations().into_inner(),
            flushes: rehearsed.flushes(),
            lines: rehearsed.lines(),
            took_ns: rehearsed.took_ns(),
            outside: rehearsed.outside().cloned(),
            passes_without_program: rehearsed.passes_without_program(),
            tried_syncs: Vec::new(),
            groups: groups(&found),
            kept: None,
            found,
        }
    }

    /// Returns the first failing cut.
    pub fn first_wrong(&self) -> Option<&Found> {
        self.found.iter().find(|found| found.verdict != Verdict::Fine)
    }
}

/// Groups failing findings by verdict and reason.
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
