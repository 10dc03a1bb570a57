//! Boot of a machine after a power cut.

use serde::Serialize;
use strobe_linux::command::{LinuxRun, LinuxRunError};
use strobe_linux::job::Step;
use strobe_linux::kernel::KernelInfo;
use strobe_linux::{End, LinuxError, Outcome, PoweredDrive};
use strobe_ssd::Simulated;
use strobe_types::{SimTime, StopFlag};

use super::hear::Said;
use crate::is_alarm;

/// State found after a cut.
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

/// Verdict, its reason, and what happened during recovery.
pub(super) struct Looked {
    pub(super) verdict: Verdict,
    pub(super) reason: String,
    pub(super) was_cut_again: bool,
    /// Output of the repair, if it changed something.
    pub(super) repair: Option<String>,
    /// End of what programs printed in the last boot.
    pub(super) said: String,
    /// The kernel's log of the last boot.
    pub(super) kernel_log: String,
}

/// Guest for a volume after a power cut: repair, mount, check, and the file system's own check.
pub(super) struct Look<'a> {
    pub(super) run: LinuxRun,
    pub(super) kernel: &'a KernelInfo,
    pub(super) stop: &'a StopFlag,
    /// True if the kernel may report errors: reads of the drive fail.
    pub(super) may_fail: bool,
}

/// Outcome of a boot.
enum Came {
    /// It found this: verdict, reason, and what programs printed.
    To(Verdict, String, String),
    /// Power failed again; the drive is back, at this time.
    Cut(Box<dyn Simulated>, SimTime),
}

impl Look<'_> {
    /// Boots a machine with `drive` and returns its findings. `again`: power fails once more, after that many
    /// operations.
    pub(super) fn at(
        &self,
        mut drive: Box<dyn Simulated>,
        mut start: SimTime,
        mut again: Option<u64>,
    ) -> Result<Looked, LinuxRunError> {
        let (mut was_cut_again, mut repair) = (false, None);
        let mut kernel_log = String::new();
        loop {
            if let Some(after) = again.take() {
                drive.plan_cut(drive.operations() + 1 + after);
            }
            match self.once(drive, start, &mut kernel_log, &mut repair)? {
                Came::To(verdict, reason, said) => {
                    return Ok(Looked { verdict, reason, was_cut_again, repair, said, kernel_log });
                }
                Came::Cut(found, at) => (drive, start, was_cut_again) = (found, at, true),
            }
        }
    }

    fn once(
        &self,
        drive: Box<dyn Simulated>,
        start: SimTime,
        kernel_log: &mut String,
        repair: &mut Option<String>,
    ) -> Result<Came, LinuxRunError> {
        let corrupt = |reason| Ok(Came::To(Verdict::Corrupt, reason, String::new()));
        if let Err(error) = drive.check() {
            return corrupt(format!("the drive's own state is wrong: {error}"));
        }
        let mut said = Said::default();
        let mut hears = |stream, bytes: &[u8]| said.hear(stream, bytes);
        let powered = PoweredDrive::new(drive, start);
        let looked = self.run.outcome_on(self.kernel, powered, self.stop, &mut hears);
        *kernel_log = String::from_utf8_lossy(&said.kernel).into_owned();
        let (outcome, steps, check) = match looked {
            Ok(found) => found,
            Err(LinuxRunError::Guest(LinuxError::TimeLimit { limit_ns })) => {
                let seconds = limit_ns / 1_000_000_000;
                return corrupt(format!(
                    "not done after {seconds} s of virtual time; --check-limit allows more"
                ));
            }
            Err(LinuxRunError::Guest(error)) if ends_badly(&error) => return corrupt(error.to_string()),
            Err(error) => return Err(error),
        };
        // Before the mount only a repair that has changed something may end with 1.
        let mount = steps.iter().position(|step| matches!(step, Step::Mount { .. })).unwrap_or(steps.len());
        if let Some(exit) = outcome.exits.iter().find(|exit| exit.step < mount && exit.code == 1) {
            *repair = Some(exit.said.clone());
        }
        if outcome.ended.end != End::PowerCut {
            let (verdict, reason) = judge(&outcome, &steps, check, &said, self.may_fail);
            return Ok(Came::To(verdict, reason, said.tail()));
        }
        match outcome.drive.restart(outcome.at) {
            Ok((drive, recovery)) => Ok(Came::Cut(drive, recovery.finished)),
            Err(error) => corrupt(format!("the drive cannot be restarted: {error}")),
        }
    }
}

/// True if this end of a guest shows a fault of the volume.
fn ends_badly(error: &LinuxError) -> bool {
    matches!(
        error,
        LinuxError::Panic(_)
            | LinuxError::Stalled { .. }
            | LinuxError::Deadlock { .. }
            | LinuxError::Ended(_)
            | LinuxError::Step(_)
    )
}

/// Verdict on a guest's result.
fn judge(outcome: &Outcome, steps: &[Step], check: usize, said: &Said, may_fail: bool) -> (Verdict, String) {
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
                format!("{}\nthe check ended with {code}", said.tail()).trim().to_owned(),
            );
        }
    }
    let kernel = String::from_utf8_lossy(&said.kernel);
    match kernel.lines().find(|line| is_alarm(line)) {
        Some(line) if !may_fail => (Verdict::Corrupt, format!("the kernel says: {line}")),
        _ => (Verdict::Fine, String::new()),
    }
}
