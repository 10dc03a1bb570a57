//! Power cuts under any program: it runs once, while its drive is photographed at many flash operations; a guest looks at
//! each photograph as a machine would that is switched on again.
//!
//! What the program has printed before a cut is what it had acknowledged: each line is heard before any request that the
//! guest sends after it. A check, which is the user's, holds what it finds against these lines.

mod camera;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use strobe_lab::RunError;
use strobe_lab::linux::{GuestRoot, LinuxRun, LinuxRunError};
use strobe_linux::job::Step;
use strobe_linux::kernel::KernelInfo;
use strobe_linux::{End, LinuxError, Outcome, PoweredDrive, Stream};
use strobe_ssd::Simulated;
use strobe_types::{Prng, SimTime};

use crate::is_alarm;
use camera::{Camera, Photograph, Scene};

/// The variable in which a check finds the file with the lines that the program had printed.
pub const ACKNOWLEDGED: &str = "STROBE_ACKNOWLEDGED";

/// Where power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// At flash operations that are equally far from each other.
    Spread,
    /// At random ones.
    Random,
    /// At the first one that begins after each flush, where promises are new.
    Flushes,
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// Drive, machine, file system, and the program.
    pub run: LinuxRun,
    /// What says whether all is there; empty: only the file system's own check does.
    pub check: Vec<String>,
    /// Whether the drive says that it has flushed, and has not.
    pub lies: bool,
    /// Whether power fails once more while a photograph is looked at, if that takes long enough.
    pub twice: bool,
    /// Virtual time that looking at a photograph may take, in ns.
    pub check_limit_ns: u64,
    /// Photographs that are looked at at the same time.
    pub workers: usize,
    /// A folder for the files with what the program had printed.
    pub folder: PathBuf,
}

/// What was found after a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All is there.
    Fine,
    /// The check has missed something: it ended with 1.
    Lost,
    /// The check, the file system's check, or the kernel has found something wrong.
    Corrupt,
    /// The file system cannot be mounted.
    DoesNotMount,
}

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
    /// Whether power failed once more while the volume was found again.
    pub was_cut_again: bool,
    /// What was found.
    pub verdict: Verdict,
    /// Why; empty if all is fine.
    pub reason: String,
}

/// The program's work without a cut.
pub struct Rehearsed {
    kernel: KernelInfo,
    drive: Mutex<Box<dyn Simulated>>,
    start: SimTime,
    operations: RangeInclusive<u64>,
    flushed: Vec<u64>,
    lines: Vec<(SimTime, String)>,
    took_ns: u64,
}

/// What came of it.
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
    /// Whether there was a check beside the file system's own.
    pub has_check: bool,
    /// Whether the drive said that it had flushed, and had not.
    pub lying_flushes: bool,
    /// The program's first and last flash operation.
    pub operations: (u64, u64),
    /// Flushes that it waited for.
    pub flushes: usize,
    /// Lines that it printed.
    pub lines: usize,
    /// Virtual time from power-on to power-off, in ns.
    pub took_ns: u64,
    /// Each cut, in the order of operations.
    pub found: Vec<Found>,
}

impl CrashReport {
    /// What `found` says of the program.
    pub fn of(hunt: &Hunt, rehearsed: &Rehearsed, found: Vec<Found>) -> Self {
        let run = &hunt.run;
        Self {
            strobe_version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: run.experiment.seed,
            program: run.command.clone(),
            file_system: run.file_system.kernel_name().unwrap_or_default().to_owned(),
            mount_options: run.mount_options.clone(),
            has_check: !hunt.check.is_empty(),
            lying_flushes: hunt.lies,
            operations: rehearsed.operations.clone().into_inner(),
            flushes: rehearsed.flushes(),
            lines: rehearsed.lines(),
            took_ns: rehearsed.took_ns,
            found,
        }
    }
}

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HuntError {
    /// The guest, or its drive.
    #[error(transparent)]
    Linux(#[from] LinuxRunError),
    /// The program fails by itself.
    #[error("without any power cut the program ended with {code}{}", quoted(.said))]
    Program {
        /// Its exit code.
        code: i32,
        /// What it said last.
        said: String,
    },
    /// The check fails by itself.
    #[error("the check fails although no power was cut ({verdict:?}): {reason}")]
    Check {
        /// What it found.
        verdict: Verdict,
        /// What it said.
        reason: String,
    },
    /// It did not print the same again.
    #[error(
        "the program does not do the same in every run: what it prints depends on more than its files and STROBE_SEED"
    )]
    Differs,
    /// There is nothing to cut.
    #[error("the program lets the drive do nothing: no flash operation to cut")]
    Nothing,
    /// The operation is not among the program's.
    #[error("operation {0} is not one of the program's, which are {1} to {2}")]
    NotThere(u64, u64, u64),
    /// A file of the host.
    #[error("{0}: {1}")]
    File(PathBuf, std::io::Error),
}

impl HuntError {
    /// Whether the request was wrong, rather than its execution.
    pub fn is_bad_request(&self) -> bool {
        match self {
            Self::Linux(error) => error.is_bad_request(),
            Self::NotThere(..) => true,
            _ => false,
        }
    }
}

fn quoted(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(":\n{}", said.trim_end()) }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rehearsed {
    /// The flash operations of the program, from its mount to the unmount.
    pub fn operations(&self) -> RangeInclusive<u64> {
        self.operations.clone()
    }

    /// Flushes that it waited for.
    pub fn flushes(&self) -> usize {
        self.flushed.len()
    }

    /// Lines that it printed.
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Virtual time from power-on to power-off, in ns.
    pub fn took_ns(&self) -> u64 {
        self.took_ns
    }

    /// At most `cuts` operations, in order.
    pub fn choose(&self, places: Places, cuts: usize, seed: u64) -> Vec<u64> {
        choose(self.operations(), &self.flushed, places, cuts, seed)
    }
}

fn choose(among: RangeInclusive<u64>, flushed: &[u64], places: Places, cuts: usize, seed: u64) -> Vec<u64> {
    let (first, last) = (*among.start(), *among.end());
    let mut candidates: Vec<u64> = match places {
        Places::Spread => among.clone().collect(),
        Places::Flushes => flushed.iter().map(|&done| done + 1).filter(|at| among.contains(at)).collect(),
        Places::Random => {
            let mut chance = Prng::derive(seed, "power cuts");
            let wanted = (cuts as u64).min(last - first + 1) as usize;
            let mut chosen = std::collections::BTreeSet::new();
            while chosen.len() < wanted {
                chosen.insert(first + chance.below_u64(last - first + 1));
            }
            chosen.into_iter().collect()
        }
    };
    candidates.sort_unstable();
    candidates.dedup();
    if candidates.len() <= cuts {
        return candidates;
    }
    // The middles of so many equal parts.
    let part = |at: usize| (2 * at + 1) * candidates.len() / (2 * cuts);
    (0..cuts).map(|at| candidates[part(at)]).collect()
}

/// What a guest has said.
#[derive(Default)]
struct Said {
    output: Vec<u8>,
    errors: Vec<u8>,
    kernel: Vec<u8>,
}

impl Said {
    fn hear(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Output => self.output.extend_from_slice(bytes),
            Stream::Error => self.errors.extend_from_slice(bytes),
            Stream::Kernel => self.kernel.extend_from_slice(bytes),
            Stream::Control => {}
        }
    }

    /// The last lines of what programs have said.
    fn tail(&self) -> String {
        let text = [&self.output[..], &self.errors[..]].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }
}

/// Adds whole lines of the program's to the scene.
struct Listener {
    scene: Arc<Mutex<Scene>>,
    begun: Vec<u8>,
}

impl Listener {
    fn hear(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' => {
                    let line = String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned();
                    let mut scene = lock(&self.scene);
                    let now = scene.now;
                    scene.lines.push((now, line));
                }
                _ => self.begun.push(byte),
            }
        }
    }
}

impl Hunt {
    /// Makes the volume, runs the program without a cut, and checks what it has left: a check that fails then would say
    /// nothing about cuts.
    pub fn rehearse(&self, stop: &AtomicBool) -> Result<Rehearsed, HuntError> {
        let kernel = self.run.check_kernel().map_err(LinuxRunError::from)?;
        let drive = self.run.new_drive()?;
        let (drive, start) = self.made(&kernel, drive, SimTime::ZERO, stop)?;
        let first = drive.operations() + 1;
        let scene = Arc::<Mutex<Scene>>::default();
        let (outcome, said) =
            self.perform(&kernel, drive.freeze(), start, &scene, Vec::new(), Box::new(drop), stop)?;
        let took_ns = outcome.ended.guest_ns;
        let mut left = outcome.drive;
        let last = left.operations();
        let at = left.settle(outcome.at).map_err(|error| LinuxRunError::from(RunError::Command(error)))?;
        let Scene { lines, flushed, .. } = std::mem::take(&mut *lock(&scene));
        drop(said);
        let rehearsed = Rehearsed {
            kernel,
            drive: Mutex::new(drive),
            start,
            operations: first..=last,
            flushed,
            lines,
            took_ns,
        };
        if last < first {
            return Err(HuntError::Nothing);
        }
        let acknowledged = self.note(&rehearsed.lines, "uncut")?;
        let (verdict, reason, _) = self.look(&rehearsed.kernel, left, at, &acknowledged, None, stop)?;
        match verdict {
            Verdict::Fine => Ok(rehearsed),
            verdict => Err(HuntError::Check { verdict, reason }),
        }
    }

    /// A volume with its file system on it, unmounted, and when.
    fn made(
        &self,
        kernel: &KernelInfo,
        drive: Box<dyn Simulated>,
        start: SimTime,
        stop: &AtomicBool,
    ) -> Result<(Box<dyn Simulated>, SimTime), HuntError> {
        let run = LinuxRun { command: vec!["true".into()], ..self.run.suited() };
        let (outcome, _) = run.run_on(kernel, PoweredDrive::new(drive, start), stop, &mut |_, _| {})?;
        let mut drive = outcome.drive;
        let start =
            drive.settle(outcome.at).map_err(|error| LinuxRunError::from(RunError::Command(error)))?;
        Ok((drive, start))
    }

    /// The program's run, on a volume that is made.
    fn program(&self) -> LinuxRun {
        LinuxRun { is_made: true, setup: Vec::new(), fsck: false, ..self.run.suited() }
    }

    /// Runs the program on `drive` while it is photographed; it has to succeed.
    #[allow(clippy::too_many_arguments)]
    fn perform(
        &self,
        kernel: &KernelInfo,
        drive: Box<dyn Simulated>,
        start: SimTime,
        scene: &Arc<Mutex<Scene>>,
        wanted: Vec<u64>,
        take: Box<dyn FnMut(Photograph) + Send>,
        stop: &AtomicBool,
    ) -> Result<(Outcome, Said), HuntError> {
        let camera = Camera::new(drive, Arc::clone(scene), wanted, self.lies, take);
        let (mut said, mut listener) =
            (Said::default(), Listener { scene: Arc::clone(scene), begun: Vec::new() });
        let mut hears = |stream, bytes: &[u8]| {
            said.hear(stream, bytes);
            if matches!(stream, Stream::Output) {
                listener.hear(bytes);
            }
        };
        let powered = PoweredDrive::new(Box::new(camera), start);
        let (outcome, step) = self.program().run_on(kernel, powered, stop, &mut hears)?;
        match outcome.exit_code(step) {
            Some(0) => Ok((outcome, said)),
            code => Err(HuntError::Program { code: code.unwrap_or(-1), said: said.tail() }),
        }
    }

    /// Writes down what the program had printed, for the check to read.
    fn note(&self, lines: &[(SimTime, String)], name: &str) -> Result<PathBuf, HuntError> {
        let path = self.folder.join(format!("acknowledged-{name}.txt"));
        let text: String = lines.iter().map(|(_, line)| format!("{line}\n")).collect();
        std::fs::write(&path, text).map_err(|error| HuntError::File(path.clone(), error))?;
        Ok(path)
    }

    /// Switches a machine on with `drive`, and says what it finds; power may fail once more after so many operations.
    fn look(
        &self,
        kernel: &KernelInfo,
        mut drive: Box<dyn Simulated>,
        mut start: SimTime,
        acknowledged: &Path,
        mut again: Option<u64>,
        stop: &AtomicBool,
    ) -> Result<(Verdict, String, bool), HuntError> {
        let mut run = self.program();
        run.before_mount = run.file_system.repair();
        run.fsck = true;
        run.command = if self.check.is_empty() { vec!["true".into()] } else { self.check.clone() };
        run.machine.time_limit_ns = self.check_limit_ns;
        if let GuestRoot::Host { environment } = &mut run.root {
            environment.push((ACKNOWLEDGED.to_owned(), acknowledged.display().to_string()));
        }
        let mut was_cut_again = false;
        loop {
            if let Err(error) = drive.check() {
                return Ok((
                    Verdict::Corrupt,
                    format!("the drive's own state is wrong: {error}"),
                    was_cut_again,
                ));
            }
            if let Some(after) = again.take() {
                drive.plan_cut(drive.operations() + 1 + after);
            }
            let mut said = Said::default();
            let mut hears = |stream, bytes: &[u8]| said.hear(stream, bytes);
            let found = run.outcome_on(kernel, PoweredDrive::new(drive, start), stop, &mut hears);
            let (outcome, steps, step) = match found {
                Ok(found) => found,
                Err(LinuxRunError::Guest(LinuxError::TimeLimit { limit_ns, .. })) => {
                    let seconds = limit_ns / 1_000_000_000;
                    let reason =
                        format!("not done after {seconds} s of virtual time; --check-limit allows more");
                    return Ok((Verdict::Corrupt, reason, was_cut_again));
                }
                Err(LinuxRunError::Guest(error)) if ends_badly(&error) => {
                    return Ok((Verdict::Corrupt, error.to_string(), was_cut_again));
                }
                Err(error) => return Err(error.into()),
            };
            if outcome.ended.end == End::PowerCut {
                was_cut_again = true;
                match outcome.drive.restart(outcome.at) {
                    Ok((found, recovery)) => (drive, start) = (found, recovery.finished),
                    Err(error) => {
                        let reason = format!("the drive cannot be restarted: {error}");
                        return Ok((Verdict::Corrupt, reason, was_cut_again));
                    }
                }
                continue;
            }
            let (verdict, reason) = judge(&outcome, &steps, step, &said);
            return Ok((verdict, reason, was_cut_again));
        }
    }

    /// Runs the program again, photographs its drive at `operations`, and looks at each photograph; `tell` is told of each.
    /// What was found, in the order of operations.
    pub fn cut(
        &self,
        rehearsed: &Rehearsed,
        operations: &[u64],
        stop: &AtomicBool,
        tell: &(dyn Fn(&Found) + Sync),
    ) -> Result<Vec<Found>, HuntError> {
        let (first, last) = (*rehearsed.operations.start(), *rehearsed.operations.end());
        if let Some(&wrong) = operations.iter().find(|at| !rehearsed.operations.contains(at)) {
            return Err(HuntError::NotThere(wrong, first, last));
        }
        let (photographs, waiting) = sync_channel::<Photograph>(1);
        let waiting = Mutex::new(waiting);
        let found = Mutex::new(Vec::new());
        let trouble = Mutex::new(None);
        let halt = AtomicBool::new(false);
        let work = || {
            while let Some(photograph) = next(&waiting) {
                if halt.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed) {
                    continue;
                }
                match self.judged(rehearsed, photograph, stop) {
                    Ok(one) => {
                        tell(&one);
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
            // What was over before it could be photographed comes in the next run.
            while !wanted.is_empty() && lock(&trouble).is_none() {
                let scene = Arc::<Mutex<Scene>>::default();
                let send = photographs.clone();
                let take = Box::new(move |photograph| {
                    let _ = send.send(photograph);
                });
                let drive = lock(&rehearsed.drive).freeze();
                let these = std::mem::take(&mut wanted);
                let kernel = &rehearsed.kernel;
                self.perform(kernel, drive, rehearsed.start, &scene, these, take, stop)?;
                let mut scene = lock(&scene);
                let is_same =
                    scene.lines.iter().map(|(_, line)| line).eq(rehearsed.lines.iter().map(|(_, line)| line));
                if !is_same {
                    return Err(HuntError::Differs);
                }
                wanted = std::mem::take(&mut scene.missed);
            }
            drop(photographs);
            Ok(())
        });
        performed?;
        if let Some(error) = trouble.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_by_key(|one: &Found| one.operation);
        Ok(found)
    }

    fn judged(
        &self,
        rehearsed: &Rehearsed,
        photograph: Photograph,
        stop: &AtomicBool,
    ) -> Result<Found, HuntError> {
        let Photograph { operation, drive, at, lines } = photograph;
        let lines = &rehearsed.lines[..lines.min(rehearsed.lines.len())];
        let mut found = Found {
            operation,
            at_ns: at.as_ns().saturating_sub(rehearsed.start.as_ns()),
            acknowledged: lines.len(),
            last_line: lines.last().map(|(_, line)| line.clone()),
            was_cut_again: false,
            verdict: Verdict::Corrupt,
            reason: String::new(),
        };
        let (drive, recovery) = match drive.restart(at) {
            Ok(back) => back,
            Err(error) => {
                found.reason = format!("the drive cannot be restarted: {error}");
                return Ok(found);
            }
        };
        let acknowledged = self.note(lines, &operation.to_string())?;
        let again = self.twice.then(|| {
            u64::from(Prng::derive(self.run.experiment.seed ^ operation, "power fails again").below(60))
        });
        let kernel = &rehearsed.kernel;
        (found.verdict, found.reason, found.was_cut_again) =
            self.look(kernel, drive, recovery.finished, &acknowledged, again, stop)?;
        Ok(found)
    }

    /// Leaves the volume as the cut at `operation` does, recovered by the drive, in a new image at `path`.
    pub fn keep(&self, operation: u64, path: &Path, stop: &AtomicBool) -> Result<(), HuntError> {
        let (config, seed) = (&self.run.experiment.drive, self.run.experiment.seed);
        let kernel = self.run.check_kernel().map_err(LinuxRunError::from)?;
        let (drive, found) = strobe_ssd::build_on_image(config, true, seed, path)
            .map_err(|error| LinuxRunError::from(RunError::from(error)))?;
        if found.is_some() {
            let error = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(HuntError::File(path.to_owned(), error));
        }
        let (mut drive, start) = self.made(&kernel, drive, SimTime::ZERO, stop)?;
        drive.plan_cut(operation);
        let run = self.program();
        let (mut outcome, _) = run.run_on(&kernel, PoweredDrive::new(drive, start), stop, &mut |_, _| {})?;
        while !outcome.drive.was_cut()
            && let Some(next) = outcome.drive.next_event()
        {
            outcome.drive.advance(next, &mut Vec::new());
        }
        let lost = |error: String| LinuxRunError::Guest(LinuxError::Drive(error));
        let (mut drive, recovery) =
            outcome.drive.restart(outcome.at).map_err(|error| lost(error.to_string()))?;
        drive.settle(recovery.finished).map_err(|error| lost(error.to_string()))?;
        Ok(())
    }
}

/// The next photograph; none when there will be no more.
fn next(waiting: &Mutex<Receiver<Photograph>>) -> Option<Photograph> {
    lock(waiting).recv().ok()
}

/// Whether a guest that ends so has found something that is wrong.
fn ends_badly(error: &LinuxError) -> bool {
    matches!(
        error,
        LinuxError::Panic(_)
            | LinuxError::Stalled { .. }
            | LinuxError::Deadlock { .. }
            | LinuxError::Ended(_)
    )
}

/// What a guest has found.
fn judge(outcome: &Outcome, steps: &[Step], check: usize, said: &Said) -> (Verdict, String) {
    if let Some((step, reason)) = &outcome.failed {
        let verdict = match steps.get(*step) {
            Some(Step::Mount { .. }) => Verdict::DoesNotMount,
            _ => Verdict::Corrupt,
        };
        return (verdict, reason.trim_end().to_owned());
    }
    match outcome.exit_code(check) {
        Some(0) => {}
        Some(1) => {
            let tail = said.tail();
            let reason =
                if tail.is_empty() { "the check ended with 1 and said nothing".to_owned() } else { tail };
            return (Verdict::Lost, reason);
        }
        code => {
            let code = code.map_or("nothing".to_owned(), |code| code.to_string());
            return (
                Verdict::Corrupt,
                format!("the check ended with {code}\n{}", said.tail()).trim_end().to_owned(),
            );
        }
    }
    let kernel = String::from_utf8_lossy(&said.kernel);
    match kernel.lines().find(|line| is_alarm(line)) {
        Some(line) => (Verdict::Corrupt, format!("the kernel says: {line}")),
        None => (Verdict::Fine, String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_spread_random_or_behind_flushes() {
        assert_eq!(choose(1..=10, &[], Places::Spread, 100, 1), (1..=10).collect::<Vec<_>>());
        assert_eq!(choose(1..=10, &[], Places::Spread, 5, 1), [2, 4, 6, 8, 10]);
        assert_eq!(choose(11..=20, &[], Places::Spread, 1, 1), [16]);
        assert_eq!(choose(11..=20, &[3, 12, 12, 15, 20], Places::Flushes, 9, 1), [13, 16]);
        let random = choose(1..=1000, &[], Places::Random, 50, 1);
        assert_eq!(random.len(), 50);
        assert!(random.is_sorted_by(|a, b| a < b) && random[49] <= 1000);
        assert_ne!(random, choose(1..=1000, &[], Places::Random, 50, 2));
        assert_eq!(choose(5..=7, &[], Places::Random, 50, 1), [5, 6, 7]);
    }
}
