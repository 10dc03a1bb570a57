//! Cuts under one file system: their choice, in rounds if there is a budget, and what follows them.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::anyhow;
use indicatif::ProgressBar;
use strobe_crash::{CrashReport, CutPoints, ExploreError, Explorer, Found, Rehearsed, Verdict};
use strobe_types::StopFlag;

use super::super::{Failure, output, progress};
use super::seen::Seen;
use super::{CrashArgs, kept};

/// Cuts of the first round of a budget.
const FIRST_ROUND: usize = 20;

/// Cuts of kinds that were fine before.
const ANYWAY: usize = 10;

/// Wall time of a budget.
struct Clock {
    #[allow(clippy::disallowed_types)] // The budget is wall time.
    began: std::time::Instant,
    budget: Option<Duration>,
}

impl Clock {
    fn start(budget: Option<Duration>) -> Self {
        #[allow(clippy::disallowed_types)]
        let began = std::time::Instant::now();
        Self { began, budget }
    }

    fn goes_on(&self) -> bool {
        self.budget.is_none_or(|budget| self.began.elapsed() < budget)
    }
}

/// Parses wall time such as `120s`, `5m` or `1h`.
pub(super) fn wall_time(text: &str) -> Result<Duration, String> {
    let wrong = || "a number with s, m or h is needed, such as 120s or 5m".to_owned();
    let digits = text.trim_end_matches(|symbol: char| symbol.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    match number.checked_mul(seconds) {
        Some(0) => Err("it must be more than 0".to_owned()),
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => Err(wrong()),
    }
}

/// Choice and examination of cuts.
struct Rounds<'a> {
    args: &'a CrashArgs,
    explorer: &'a Explorer,
    rehearsed: &'a Rehearsed,
    /// Kinds to leave out.
    fine: Option<&'a BTreeSet<String>>,
    clock: &'a Clock,
}

impl Rounds<'_> {
    fn choose(&self, cuts: usize) -> Vec<u64> {
        let seed = self.explorer.run.experiment.seed;
        match (self.args.at, self.fine) {
            (Some(operation), _) => vec![operation],
            (None, Some(fine)) => {
                let mut chosen = self.rehearsed.unseen(cuts, fine);
                // A kind does not know which lines were acknowledged, so some cuts are made anyway.
                chosen.extend(self.rehearsed.choose(CutPoints::Spread, ANYWAY.min(cuts), seed));
                chosen.sort_unstable();
                chosen.dedup();
                chosen
            }
            (None, None) => self.rehearsed.choose(self.args.places, cuts, seed),
        }
    }

    /// Examines the cuts; with a budget, in rounds of twice as many as before, until the time or the operations
    /// end.
    fn cut(
        &self,
        stop: &StopFlag,
        bar: &ProgressBar,
        tell: &(dyn Fn(&Found) -> bool + Sync),
    ) -> Result<Vec<Found>, Failure> {
        let most = self.args.cuts_max();
        let mut cuts = if self.args.budget.is_some() { FIRST_ROUND.min(most) } else { most };
        let mut found: Vec<Found> = Vec::new();
        loop {
            let chosen = self.choose(cuts);
            let is_new = |operation: &u64| found.iter().all(|one| one.operation != *operation);
            let left = most.saturating_sub(found.len());
            let new: Vec<u64> = chosen.iter().copied().filter(is_new).take(left).collect();
            if chosen.is_empty() && self.fine.is_none() {
                return Err(ExploreError::NoPlace(self.args.places).into());
            }
            bar.set_length((found.len() + new.len()) as u64);
            if !new.is_empty() {
                found.extend(self.explorer.cut(self.rehearsed, &new, stop, tell)?);
            }
            // A choice that is smaller than asked for has all operations there are.
            if self.args.budget.is_none() || !self.clock.goes_on() || cuts == most || chosen.len() < cuts {
                break;
            }
            cuts = (2 * cuts).min(most);
        }
        found.sort_by_key(|one| one.operation);
        Ok(found)
    }
}

/// Returns the report, and the result of writing the requested image.
pub(super) fn explore(
    args: &CrashArgs,
    explorer: &Explorer,
    seen: Option<&mut Seen>,
    stop: &StopFlag,
) -> Result<(CrashReport, Result<(), Failure>), Failure> {
    let bar = if args.quiet { ProgressBar::hidden() } else { ProgressBar::new(1) };
    if !args.quiet && !std::io::stderr().is_terminal() {
        output::note(&format!("strobe: {}", begins(args, explorer)));
    }
    progress::restyle(&bar, "{msg} {wide_bar} {pos} of {len} cuts  {left}");
    bar.set_message("without a cut");
    bar.tick();
    // The rehearsal counts the flash operations from which the cuts are chosen.
    let clock = Clock::start(args.budget);
    let rehearsed = explorer.rehearse(stop)?;
    if args.find_sync && !rehearsed.can_add_syncs() {
        let error = anyhow!(
            "--find-sync: this kernel cannot add syncs; `strobe linux build-kernel` makes one that can"
        );
        return Err(Failure::Request(error));
    }
    bar.set_message("nothing wrong");
    let wrong = std::sync::atomic::AtomicUsize::new(0);
    let tell = |found: &Found| {
        if found.verdict != Verdict::Fine {
            let wrong = wrong.fetch_add(1, Ordering::Relaxed) + 1;
            bar.set_message(format!("{wrong} wrong"));
        }
        bar.inc(1);
        clock.goes_on()
    };
    let needs_calls = args.seen.is_some() || args.places == CutPoints::Distinct;
    if needs_calls && !rehearsed.has_file_log() {
        let error = anyhow!(
            "--seen and --places distinct: this kernel does not report calls; `strobe linux build-kernel` makes one that does"
        );
        return Err(Failure::Request(error));
    }
    let fine = seen.as_ref().map(|seen| seen.fine(args, explorer));
    if let Some(fine) = fine.as_ref().filter(|fine| !fine.is_empty() && !args.quiet) {
        bar.suspend(|| {
            output::note(&format!(
                "strobe: {} kinds of places were fine before and are left out (--seen)",
                fine.len()
            ))
        });
    }
    let rounds = Rounds { args, explorer, rehearsed: &rehearsed, fine: fine.as_ref(), clock: &clock };
    let mut found = rounds.cut(stop, &bar, &tell)?;
    if args.until_first {
        explorer.bisect(&rehearsed, &mut found, stop, &tell)?;
    }
    if let Some(seen) = seen {
        seen.add(args, explorer, &found);
    }
    let mut report = CrashReport::of(explorer, &rehearsed, found);
    if args.find_sync && report.first_wrong().is_some() {
        let mut begins = |added| bar.set_message(format!("with a sync {added}"));
        let places = if args.seen.is_some() { CutPoints::Distinct } else { args.places };
        report.tried_syncs = explorer.find_sync(
            &rehearsed,
            places,
            args.cuts.map_or(100, |cuts| cuts as usize),
            stop,
            &mut begins,
        )?;
    }
    bar.set_message("keeping the first");
    let mut left = Ok(());
    // A failure to keep the drive does not discard the findings.
    if let (Some(operation), Some(image)) = (args.at, &args.image) {
        left = explorer.keep(operation, image, stop).map_err(Failure::from);
    } else if args.keeps() {
        match kept::keep(explorer, &report, &args.keep, stop) {
            Ok(kept) => report.kept = kept,
            Err(Failure::Run(error) | Failure::Request(error)) => {
                bar.suspend(|| output::note(&format!("strobe: the first cut was not kept: {error:#}")));
            }
            Err(failure) => left = Err(failure),
        }
    }
    bar.finish_and_clear();
    Ok((report, left))
}

fn begins(args: &CrashArgs, explorer: &Explorer) -> String {
    let cuts = match (args.at, args.places) {
        (Some(operation), _) => format!("with a power cut at operation {operation}"),
        (None, CutPoints::All) => "with a power cut at each of its flash operations".to_owned(),
        (None, _) if args.budget.is_some() => "with power cuts until the time is up".to_owned(),
        (None, _) if args.cuts_max() == 1 => "with one power cut".to_owned(),
        (None, _) => format!("with up to {} power cuts", args.cuts_max()),
    };
    let fs = explorer.run.file_system.kernel_name().unwrap_or_default();
    format!("{} runs on {fs} once without a cut, then {cuts}", explorer.run.command.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_number_with_a_unit() {
        for (text, seconds) in [("120s", 120), ("5m", 300), ("1h", 3600)] {
            assert_eq!(wall_time(text), Ok(Duration::from_secs(seconds)));
        }
        for text in
            ["", "s", "120", "0s", "-5s", "1.5m", "5 m", "5d", "99999999999999999999s", "9999999999999999h"]
        {
            assert!(wall_time(text).is_err(), "{text}");
        }
    }
}
