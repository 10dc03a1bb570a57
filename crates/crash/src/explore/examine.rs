use serde::Serialize;
use strobe_linux::command::{LinuxRun, LinuxRunError};
use strobe_linux::job::Step;
use strobe_linux::kernel::KernelInfo;
use strobe_linux::{End, LinuxError, Outcome, PoweredDrive};
use strobe_ssd::Simulated;
use strobe_types::{SimTime, StopFlag};

use super::hear::Said;
use crate::is_alarm;

/// Result of a check after a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Everything is intact.
    Fine,
    /// The check reports lost data: it exited with 1.
    Lost,
    /// The check, the file system's check, or the kernel has found corruption.
    Corrupt,
    /// The file system cannot be mounted.
    DoesNotMount,
}

pub(super) struct Examined {
    pub(super) verdict: Verdict,
    pub(super) reason: String,
    pub(super) was_cut_again: bool,
    pub(super) repair: Option<String>,
    pub(super) said: String,
    pub(super) kernel_log: String,
}

/// Examination after a power cut: repair, mount, the file system's check and the user's check.
pub(super) struct Examination<'a> {
    pub(super) run: LinuxRun,
    pub(super) kernel: &'a KernelInfo,
    pub(super) stop: &'a StopFlag,
    /// True if the kernel may report errors, because reads of the drive fail.
    pub(super) may_fail: bool,
}

enum Attempt {
    /// Verdict, reason, and output of programs.
    To(Verdict, String, String),
    /// Power failed again.
    Cut(Box<dyn Simulated>, SimTime),
}

impl Examination<'_> {
    /// Runs the examination. With `again`, power fails once more after that many flash operations.
    pub(super) fn at(
        &self,
        mut drive: Box<dyn Simulated>,
        mut start: SimTime,
        mut again: Option<u64>,
    ) -> Result<Examined, LinuxRunError> {
        let (mut was_cut_again, mut repair) = (false, None);
        let mut kernel_log = String::new();
        loop {
            // Power fails at most once more: `take` clears `again`.
            if let Some(after) = again.take() {
                drive.plan_cut(drive.operations() + 1 + after);
            }
            match self.once(drive, start, &mut kernel_log, &mut repair)? {
                Attempt::To(verdict, reason, said) => {
                    return Ok(Examined { verdict, reason, was_cut_again, repair, said, kernel_log });
                }
                Attempt::Cut(found, at) => (drive, start, was_cut_again) = (found, at, true),
            }
        }
    }

    fn once(
        &self,
        drive: Box<dyn Simulated>,
        start: SimTime,
        kernel_log: &mut String,
        repair: &mut Option<String>,
    ) -> Result<Attempt, LinuxRunError> {
        let corrupt = |reason| Ok(Attempt::To(Verdict::Corrupt, reason, String::new()));
        if let Err(error) = drive.check() {
            return corrupt(format!("the drive's state is inconsistent: {error}"));
        }
        let mut said = Said::default();
        let mut hears = |stream, bytes: &[u8]| said.hear(stream, bytes);
        let powered = PoweredDrive::new(drive, start);
        let outcome_or_error = self.run.outcome_on(self.kernel, powered, self.stop, &mut hears);
        *kernel_log = String::from_utf8_lossy(&said.kernel).into_owned();
        let (outcome, steps, check) = match outcome_or_error {
            Ok(found) => found,
            Err(LinuxRunError::Guest(LinuxError::TimeLimit { limit_ns })) => {
                // A check that does not end counts as corruption.
                let seconds = limit_ns / 1_000_000_000;
                return corrupt(format!(
                    "not finished after {seconds} s of virtual time; raise --check-limit"
                ));
            }
            // A guest that panics or hangs with the recovered drive is a finding, not an error of the
            // exploration.
            Err(LinuxRunError::Guest(error)) if ends_badly(&error) => return corrupt(error.to_string()),
            Err(error) => return Err(error),
        };
        // Before the mount, exit code 1 only comes from a repair that changed the volume.
        let mount = steps.iter().position(|step| matches!(step, Step::Mount { .. })).unwrap_or(steps.len());
        if let Some(exit) = outcome.exits.iter().find(|exit| exit.step < mount && exit.code == 1) {
            *repair = Some(exit.said.clone());
        }
        if outcome.ended.end != End::PowerCut {
            let (verdict, reason) = judge(&outcome, &steps, check, &said, self.may_fail);
            return Ok(Attempt::To(verdict, reason, said.tail()));
        }
        match outcome.drive.restart(outcome.at) {
            Ok((drive, recovery)) => Ok(Attempt::Cut(drive, recovery.finished)),
            Err(error) => corrupt(format!("the drive cannot be restarted: {error}")),
        }
    }
}

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

/// True if `line` is a shell's message about a command that it did not find, such as "sh: 1: ./a.sh: not found".
pub(super) fn is_not_found(line: &str) -> bool {
    let mut parts = line.split(": ");
    let is_shell = parts.next().is_some_and(|shell| shell == "sh" || shell.ends_with("/sh"));
    let is_at_line = parts.next().is_some_and(|at| at.trim_start_matches("line ").parse::<u32>().is_ok());
    is_shell && is_at_line && [": not found", ": command not found"].iter().any(|end| line.ends_with(end))
}

fn judge(outcome: &Outcome, steps: &[Step], check: usize, said: &Said, may_fail: bool) -> (Verdict, String) {
    if let Some((step, reason)) = &outcome.failed {
        let verdict = match steps.get(*step) {
            Some(Step::Mount { .. }) => Verdict::DoesNotMount,
            _ => Verdict::Corrupt,
        };
        return (verdict, reason.trim_end().to_owned());
    }
    // Exit code 1 reports lost data. Any other failure counts as corruption.
    match outcome.exit_code(check) {
        Some(0) => {}
        Some(1) => {
            let tail = said.tail();
            let reason =
                if tail.is_empty() { "the check exited with 1 without output".to_owned() } else { tail };
            return (Verdict::Lost, reason);
        }
        code => {
            let code = code.map_or("nothing".to_owned(), |code| code.to_string());
            return (
                Verdict::Corrupt,
                format!("{}\nthe check exited with {code}", said.tail()).trim().to_owned(),
            );
        }
    }
    // A passing check does not excuse errors in the kernel's log.
    let kernel = String::from_utf8_lossy(&said.kernel);
    match kernel.lines().find(|line| is_alarm(line)) {
        Some(line) if !may_fail => (Verdict::Corrupt, format!("kernel message: {line}")),
        _ => (Verdict::Fine, String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::is_not_found;

    #[test]
    fn only_a_shell_says_that_a_command_is_not_found() {
        for line in
            ["/usr/bin/sh: 1: ./a.sh: not found", "sh: 12: a: not found", "sh: line 1: a: command not found"]
        {
            assert!(is_not_found(line), "{line}");
        }
        for line in ["key: 1: not there", "./a.sh: 1: b: not found", "sh: b: not found", "not found", ""] {
            assert!(!is_not_found(line), "{line}");
        }
    }
}
