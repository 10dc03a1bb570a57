//! Exploration of power cuts and read faults under arbitrary programs.
//!
//! 1. The program runs once without a cut, and its result is checked.
//! 2. The program runs again. At each chosen flash operation, its drive takes a snapshot of the state after a
//!    power cut. One more snapshot follows at the end if the cache then holds data.
//! 3. A guest boots with each snapshot: the drive recovers, the volume is repaired and mounted, and the check
//!    runs.
//!
//! Lines printed before a cut count as acknowledged, because a line is received before any later request from
//! the guest. The user's check compares the volume with these lines.

mod commands;
mod cut_points;
mod error;
mod examine;
mod faults;
mod file_log;
mod hear;
mod kinds;
mod line;
mod missing_sync;
mod names;
mod pending;
mod place;
mod rehearsed;
mod report;
mod snapshot;
mod source;
mod unsent;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use strobe_lab::RunError;
use strobe_linux::command::{GuestRoot, LinuxRun, LinuxRunError, OutsideResult};
use strobe_linux::job::Step;
use strobe_linux::kernel::KernelInfo;
use strobe_linux::{AddedSyncs, LinuxError, Outcome, PoweredDrive, Stream};
use strobe_ssd::Simulated;
use strobe_types::{Prng, SimTime, StopFlag};

use examine::{Examination, Examined, is_not_found};
use hear::{Listener, Said, lock};
use snapshot::{Printed, RunLog, Snapshot, SnapshotDrive};
use source::Sources;

pub use cut_points::CutPoints;
pub use error::ExploreError;
pub use examine::Verdict;
pub use faults::{FaultReport, KINDS, Unreadable};
pub use file_log::UnderWay;
pub use line::{FileCall, Origin};
pub use missing_sync::TriedSync;
pub use pending::{Difference, UnflushedWrite};
pub use rehearsed::Rehearsed;
pub use report::{CrashReport, Fact, Found, Group, SavedFiles, groups};
pub use source::SourceLine;
pub use unsent::UnsentData;

/// Environment variable of the check: path of the file with the lines printed before the cut.
pub const ACKNOWLEDGED: &str = "STROBE_ACKNOWLEDGED";

const BISECTION_CUTS: usize = 4;
/// Upper bound of the size of a file that F2FS and Btrfs keep in metadata.
const INLINE_MAX: u64 = 4096;

/// Configuration of the exploration.
#[derive(Clone, Debug)]
pub struct Explorer {
    /// Drive, machine, file system and program.
    pub run: LinuxRun,
    /// Command that checks the data. If empty, only the file system's own check runs.
    pub check: Vec<String>,
    /// True if the drive acknowledges flushes without flushing.
    pub lies: bool,
    /// Kind of drive, for the report.
    pub drive_kind: Option<&'static str>,
    /// True to cut power once more in the examination of a snapshot, during one of its first 60 flash
    /// operations, if it has that many.
    pub twice: bool,
    /// True if unsynced names are undone before the check.
    pub strict_names: bool,
    /// Syncs added to the program's system calls.
    pub added_syncs: AddedSyncs,
    /// True to skip cuts after the first failing one.
    pub until_first: bool,
    /// Limit of virtual time for the examination of a snapshot, in ns.
    pub check_limit_ns: u64,
    /// Number of snapshots examined in parallel.
    pub workers: usize,
    /// Folder for the files with acknowledged lines.
    pub folder: PathBuf,
}

impl Explorer {
    /// Makes the volume, runs the program without a cut, and checks the result. Returns an error if this
    /// check fails, because later failures would not be due to cuts.
    pub fn rehearse(&self, stop: &StopFlag) -> Result<Rehearsed, ExploreError> {
        let kernel = self.run.check_kernel().map_err(LinuxRunError::from)?;
        if self.strict_names && !kernel.can_log_files() {
            return Err(ExploreError::NoFileLog(self.run.machine.kernel.clone()));
        }
        let drive = self.run.new_drive(stop, &mut |_, _| ())?;
        let (drive, start) = self.made(&kernel, drive, SimTime::ZERO, stop)?;
        let first = drive.operations() + 1;
        let log = Arc::<Mutex<RunLog>>::default();
        let (outcome, said) =
            // The program runs on a copy. The original is the start of later runs.
            self.perform(&kernel, drive.freeze(), start, &log, Vec::new(), Box::new(|_| true), stop)?;
        let took_ns = outcome.ended.guest_ns;
        let outside = OutsideResult::of(&outcome.outside);
        let mut left = outcome.drive;
        let last = left.operations();
        let at = left.settle(outcome.at).map_err(|error| LinuxRunError::from(RunError::Command(error)))?;
        // A cut at the end differs from the uncut run only if it loses a completed write.
        let end = lock(&log).has_unflushed().then_some(last + 1);
        let RunLog { lines, flushed, files, kinds, .. } = std::mem::take(&mut *lock(&log));
        drop(said);
        let mut rehearsed = Rehearsed {
            kernel,
            drive: Mutex::new(drive),
            start,
            operations: first..=last,
            end,
            flushed,
            lines,
            took_ns,
            outside,
            left: Mutex::new(left.freeze()),
            left_at: at,
            written: files.into_written(),
            passes_without_program: false,
            kinds: kinds.named(&Sources::in_current_folder()),
        };
        if last < first && end.is_none() {
            return Err(ExploreError::Nothing);
        }
        let acknowledged = self.note(&rehearsed.lines, "uncut")?;
        let examination = self.examination(&rehearsed, &acknowledged, stop);
        let examined = examination.at(left, at, None)?;
        // In `if ./check.sh; then …`, a missing script passes after every cut.
        match (examined.verdict, examined.said.lines().find(|line| is_not_found(line))) {
            (Verdict::Fine, None) => {
                if !self.check.is_empty() {
                    // The drive before the program, with all of the program's lines.
                    let before = lock(&rehearsed.drive).freeze();
                    let unchanged = examination.at(before, rehearsed.start, None)?;
                    rehearsed.passes_without_program = unchanged.verdict == Verdict::Fine;
                }
                Ok(rehearsed)
            }
            (Verdict::Fine, Some(line)) => Err(ExploreError::NoCommand(line.to_owned())),
            (verdict, _) => Err(ExploreError::Check { verdict, reason: examined.reason }),
        }
    }

    fn made(
        &self,
        kernel: &KernelInfo,
        drive: Box<dyn Simulated>,
        start: SimTime,
        stop: &StopFlag,
    ) -> Result<(Box<dyn Simulated>, SimTime), ExploreError> {
        let run = LinuxRun { command: vec!["true".into()], ..self.run.suited() };
        let mut said = Said::default();
        let mut hears = |stream, bytes: &[u8]| said.hear(stream, bytes);
        let made = run.run_on(kernel, PoweredDrive::new(drive, start), stop, &mut hears);
        let (outcome, _) = made.map_err(|error| said.explained(error))?;
        let mut drive = outcome.drive;
        let start =
            drive.settle(outcome.at).map_err(|error| LinuxRunError::from(RunError::Command(error)))?;
        Ok((drive, start))
    }

    fn program(&self) -> LinuxRun {
        LinuxRun { is_made: true, setup: Vec::new(), fsck: false, ..self.run.suited() }
    }

    /// True if changes of names are durable on return.
    fn has_synchronous_names(&self) -> bool {
        self.run.mount_options.split(',').any(|option| ["sync", "dirsync"].contains(&option))
    }

    #[allow(clippy::too_many_arguments)]
    fn perform(
        &self,
        kernel: &KernelInfo,
        drive: Box<dyn Simulated>,
        start: SimTime,
        log: &Arc<Mutex<RunLog>>,
        wanted: Vec<u64>,
        take: Box<dyn FnMut(Snapshot) -> bool + Send>,
        stop: &StopFlag,
    ) -> Result<(Outcome, Said), ExploreError> {
        let drive = SnapshotDrive::new(drive, Arc::clone(log), wanted, self.lies, take);
        let (mut said, mut listener) = (Said::default(), Listener::new(log));
        let mut hears = |stream, bytes: &[u8]| {
            said.hear(stream, bytes);
            match stream {
                Stream::Output => listener.hear(bytes),
                Stream::Changes => lock(log).files.hear(bytes),
                _ => {}
            }
        };
        let powered = PoweredDrive::new(Box::new(drive), start);
        let mut program = self.program();
        program.machine.file_log = kernel.can_log_files();
        program.machine.added_syncs = self.added_syncs;
        let performed = program.run_on(kernel, powered, stop, &mut hears);
        let (outcome, step) = performed.map_err(|error| said.explained(error))?;
        // Findings would mean nothing if the program failed without a cut.
        match outcome.exit_code(step) {
            Some(0) => Ok((outcome, said)),
            code => Err(ExploreError::Program { code: code.unwrap_or(-1), said: said.tail() }),
        }
    }

    fn note(&self, lines: &[Printed], name: &str) -> Result<PathBuf, ExploreError> {
        let path = self.folder.join(format!("acknowledged-{name}.txt"));
        let text: String = lines.iter().map(|line| format!("{}\n", line.text)).collect();
        std::fs::write(&path, text).map_err(|error| ExploreError::File(path.clone(), error))?;
        Ok(path)
    }

    fn examination<'a>(
        &self,
        rehearsed: &'a Rehearsed,
        acknowledged: &Path,
        stop: &'a StopFlag,
    ) -> Examination<'a> {
        let mut run = self.program();
        run.before_mount = run.file_system.repair();
        run.fsck = true;
        run.command = if self.check.is_empty() { vec!["true".into()] } else { self.check.clone() };
        run.machine.time_limit_ns = self.check_limit_ns;
        if let GuestRoot::Host { environment, .. } = &mut run.root {
            environment.push((ACKNOWLEDGED.to_owned(), acknowledged.display().to_string()));
        }
        Examination { run, kernel: &rehearsed.kernel, stop, may_fail: false }
    }

    /// Runs the program again and examines snapshots at `operations`. `tell` gets each finding, and returns false
    /// to skip the rest. Returns all findings, in the order of operations.
    pub fn cut(
        &self,
        rehearsed: &Rehearsed,
        operations: &[u64],
        stop: &StopFlag,
        tell: &(dyn Fn(&Found) -> bool + Sync),
    ) -> Result<Vec<Found>, ExploreError> {
        let (first, last) =
            (*rehearsed.operations.start(), rehearsed.end.unwrap_or(*rehearsed.operations.end()));
        if let Some(&wrong) = operations.iter().find(|at| !rehearsed.has_place(**at)) {
            return Err(ExploreError::NotThere(wrong, first, last));
        }
        // At most one snapshot waits: the program blocks until a worker takes it, which bounds memory.
        let (snapshots, waiting) = sync_channel::<Snapshot>(1);
        let waiting = Mutex::new(waiting);
        let found = Mutex::new(Vec::new());
        let trouble = Mutex::new(None);
        let (halt, skips) = (AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
        let first_wrong = AtomicU64::new(u64::MAX);
        let work = || {
            while let Some(snapshot) = next(&waiting) {
                let is_behind = self.until_first && snapshot.operation > first_wrong.load(Ordering::Relaxed);
                let is_enough = halt.load(Ordering::Relaxed) || skips.load(Ordering::Relaxed);
                if is_enough || stop.is_raised() || is_behind {
                    continue;
                }
                match self.judged(rehearsed, snapshot, stop) {
                    Ok(one) => {
                        if one.verdict != Verdict::Fine {
                            first_wrong.fetch_min(one.operation, Ordering::Relaxed);
                        }
                        if !tell(&one) {
                            skips.store(true, Ordering::Relaxed);
                        }
                        lock(&found).push(one);
                    }
                    Err(error) => {
                        halt.store(true, Ordering::Relaxed);
                        lock(&trouble).get_or_insert(error);
                    }
                }
            }
        };
        let performed = std::thread::scope(|scope| {
            for _ in 0..self.workers.max(1) {
                scope.spawn(work);
            }
            let mut wanted = operations.to_vec();
            // Operations that ended before their snapshot could be taken are repeated in another run.
            while !wanted.is_empty() && lock(&trouble).is_none() && !skips.load(Ordering::Relaxed) {
                let log = Arc::<Mutex<RunLog>>::default();
                lock(&log).keeps_data = true;
                let send = snapshots.clone();
                let skipped = Arc::clone(&skips);
                let take =
                    Box::new(move |snapshot| !skipped.load(Ordering::Relaxed) && send.send(snapshot).is_ok());
                let drive = lock(&rehearsed.drive).freeze();
                let (these, end): (Vec<_>, Vec<_>) =
                    std::mem::take(&mut wanted).into_iter().partition(|at| rehearsed.operations.contains(at));
                let kernel = &rehearsed.kernel;
                let (outcome, _) = self.perform(kernel, drive, rehearsed.start, &log, these, take, stop)?;
                let mut log = lock(&log);
                if let [end] = end[..] {
                    let _ = snapshots.send(log.cut_now(outcome.drive, outcome.at, end));
                }
                let is_same =
                    log.lines.iter().map(|line| &line.text).eq(rehearsed.lines.iter().map(|line| &line.text));
                if !is_same {
                    return Err(ExploreError::Differs);
                }
                wanted = std::mem::take(&mut log.missed);
            }
            drop(snapshots);
            Ok(())
        });
        performed?;
        if stop.is_raised() {
            return Err(LinuxRunError::Interrupted.into());
        }
        if let Some(error) = trouble.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let sources = Sources::in_current_folder();
        for one in &mut found {
            one.add_sources(&sources);
            one.facts = place::facts(one, Some(one.operation) == rehearsed.end);
            if Some(one.operation) != rehearsed.end {
                one.kind = rehearsed.kind(one.operation);
            }
        }
        found.sort_by_key(|one: &Found| one.operation);
        if self.until_first {
            // The examined cuts after the first failure depend on thread timing.
            found.retain(|one| one.operation <= first_wrong.load(Ordering::Relaxed));
        }
        Ok(found)
    }

    /// Narrows `found` down to a failing cut directly after a passing one, or at the first operation.
    ///
    /// Each round runs the program once and divides the remaining range into equal parts.
    pub fn bisect(
        &self,
        rehearsed: &Rehearsed,
        found: &mut Vec<Found>,
        stop: &StopFlag,
        tell: &(dyn Fn(&Found) -> bool + Sync),
    ) -> Result<(), ExploreError> {
        loop {
            let Some(wrong) = found.iter().find(|one| one.verdict != Verdict::Fine) else { return Ok(()) };
            let fine = found.iter().rev().find(|one| one.operation < wrong.operation);
            let first = fine.map_or(*rehearsed.operations.start(), |fine| fine.operation + 1);
            if first == wrong.operation {
                return Ok(());
            }
            let between = first..=wrong.operation - 1;
            let cuts = cut_points::choose(between, &[], CutPoints::Spread, BISECTION_CUTS, 0);
            found.extend(self.cut(rehearsed, &cuts, stop, tell)?);
            found.sort_by_key(|one| one.operation);
        }
    }

    /// True for data whose requests have other origins than the file.
    fn is_inline(&self, data: &UnsentData) -> bool {
        let keeps_inline =
            ["f2fs", "btrfs"].contains(&self.run.file_system.kernel_name().unwrap_or_default());
        keeps_inline && data.offset + data.length <= INLINE_MAX
    }

    fn judged(
        &self,
        rehearsed: &Rehearsed,
        snapshot: Snapshot,
        stop: &StopFlag,
    ) -> Result<Found, ExploreError> {
        let Snapshot { operation, drive, at, lines, place } = snapshot;
        let lines = &rehearsed.lines[..lines.min(rehearsed.lines.len())];
        let unsynced = if self.has_synchronous_names() { Vec::new() } else { place.undo };
        let mut found = Found {
            operation,
            at_ns: at.as_ns().saturating_sub(rehearsed.start.as_ns()),
            acknowledged: lines.len(),
            last_line: lines.last().map(|line| line.text.clone()),
            under_way: place.under_way,
            unflushed: Vec::new(),
            unsent_ranges: place.unsent.1,
            unsent: place.unsent.0.into_iter().filter(|data| !self.is_inline(data)).collect(),
            syncs: place.syncs,
            last_call: place.last_call,
            unsynced_names: unsynced.len(),
            undone: if self.strict_names { unsynced } else { Vec::new() },
            was_cut_again: false,
            repair: None,
            facts: Vec::new(),
            kind: String::new(),
            verdict: Verdict::Corrupt,
            reason: String::new(),
            said: String::new(),
            kernel_log: String::new(),
        };
        // The drive recovers before the guest boots with it. A drive that cannot recover is a finding.
        let (drive, recovery) = match drive.restart(at) {
            Ok(back) => back,
            Err(error) => {
                found.reason = format!("the drive cannot be restarted: {error}");
                return Ok(found);
            }
        };
        // The copy is read before the file system's recovery changes the drive.
        found.unflushed = pending::compare(&place.unflushed, &mut *drive.freeze(), recovery.finished);
        let acknowledged = self.note(lines, &operation.to_string())?;
        let again = self.twice.then(|| {
            u64::from(Prng::derive(self.run.experiment.seed ^ operation, "power fails again").below(60))
        });
        let mut examination = self.examination(rehearsed, &acknowledged, stop);
        if !found.undone.is_empty() {
            examination.run.setup.push(Step::Undo(found.undone.clone()));
        }
        let examined = examination.at(drive, recovery.finished, again)?;
        Examined {
            verdict: found.verdict,
            reason: found.reason,
            was_cut_again: found.was_cut_again,
            repair: found.repair,
            said: found.said,
            kernel_log: found.kernel_log,
        } = examined;
        Ok(found)
    }

    /// Saves the recovered volume after the cut at `operation` as a new image at `path`.
    pub fn keep(&self, operation: u64, path: &Path, stop: &StopFlag) -> Result<(), ExploreError> {
        let (config, seed) = (&self.run.experiment.drive, self.run.experiment.seed);
        let kernel = self.run.check_kernel().map_err(LinuxRunError::from)?;
        let (drive, found) = strobe_ssd::build_on_image(config, true, seed, path)
            .map_err(|error| LinuxRunError::from(RunError::from(error)))?;
        if found.is_some() {
            let error = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(ExploreError::File(path.to_owned(), error));
        }
        let (mut drive, start) = self.made(&kernel, drive, SimTime::ZERO, stop)?;
        drive.plan_cut(operation);
        let mut run = self.program();
        // Kernel options change the guest, so they must equal those of the explored run.
        run.machine.file_log = kernel.can_log_files();
        let (mut outcome, _) = run.run_on(&kernel, PoweredDrive::new(drive, start), stop, &mut |_, _| {})?;
        if outcome.drive.operations() < operation {
            outcome.drive = outcome.drive.cut_now().drive;
        } else {
            while !outcome.drive.was_cut()
                && let Some(next) = outcome.drive.next_event()
            {
                outcome.drive.advance(next, &mut Vec::new());
            }
        }
        let lost = |error: String| LinuxRunError::Guest(LinuxError::Drive(error));
        let (mut drive, recovery) =
            outcome.drive.restart(outcome.at).map_err(|error| lost(error.to_string()))?;
        drive.settle(recovery.finished).map_err(|error| lost(error.to_string()))?;
        Ok(())
    }
}

/// Examination without repair and fsck, because the volume was unmounted cleanly.
fn new_examination<'a>(
    explorer: &Explorer,
    rehearsed: &'a Rehearsed,
    acknowledged: &Path,
    stop: &'a StopFlag,
) -> Examination<'a> {
    let mut examination = explorer.examination(rehearsed, acknowledged, stop);
    examination.run.before_mount = Vec::new();
    examination.run.fsck = false;
    if explorer.check.is_empty() {
        // Without a check, read all files.
        examination.run.command =
            ["sh", "-c", "find . -type f -exec cat {} + > /dev/null"].map(str::to_owned).into();
    }
    examination
}

fn next(waiting: &Mutex<Receiver<Snapshot>>) -> Option<Snapshot> {
    lock(waiting).recv().ok()
}
