//! Search for the sync that a program lacks: its cuts are repeated in runs with added syncs.

use serde::Serialize;
use strobe_linux::AddedSyncs;
use strobe_types::StopFlag;

use super::{CutPoints, ExploreError, Explorer, Found, Rehearsed, Verdict};

/// Most cuts of a trial, as a multiple of those asked for.
const SCALE_MAX: usize = 4;

/// Combinations in the order of their trials, from few syncs to many.
const TRIALS: [(&str, AddedSyncs); 5] = [
    ("before each rename", AddedSyncs { before_renames: true, after_names: false, after_writes: false }),
    (
        "after each new, moved or removed name",
        AddedSyncs { before_renames: false, after_names: true, after_writes: false },
    ),
    (
        "before each rename and after each new, moved or removed name",
        AddedSyncs { before_renames: true, after_names: true, after_writes: false },
    ),
    ("after each write", AddedSyncs { before_renames: false, after_names: false, after_writes: true }),
    (
        "before each rename, after each new, moved or removed name and after each write",
        AddedSyncs { before_renames: true, after_names: true, after_writes: true },
    ),
];

/// Outcome of the cuts in a run with added syncs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TriedSync {
    /// System calls that got a sync, such as "before each rename".
    pub added: &'static str,
    /// Number of cuts examined. The first failing cut ends a trial.
    pub cuts: usize,
    /// Operation of the first failing cut; `None` if all are fine.
    pub first_wrong: Option<u64>,
    /// Reason why the trial was not possible.
    pub failed: Option<String>,
}

impl Explorer {
    /// Repeats `cuts` cuts with added syncs until all are fine. Returns the trials; the last one is without damage
    /// unless all fail. Added syncs cause more operations, and cuts grow with them, up to fourfold.
    pub fn find_sync(
        &self,
        original: &Rehearsed,
        places: CutPoints,
        cuts: usize,
        stop: &StopFlag,
        begins: &mut dyn FnMut(&'static str),
    ) -> Result<Vec<TriedSync>, ExploreError> {
        let mut tried = Vec::new();
        for (added, syncs) in TRIALS {
            begins(added);
            let explorer = Explorer { added_syncs: syncs, until_first: true, ..self.clone() };
            let trial = explorer.trial(original, places, cuts, stop);
            let found = match trial {
                Ok(found) => found,
                Err(error) if stop.is_raised() => return Err(error),
                Err(error) => {
                    let failed = Some(error.to_string());
                    tried.push(TriedSync { added, cuts: 0, first_wrong: None, failed });
                    continue;
                }
            };
            let wrong = found.iter().find(|one| one.verdict != Verdict::Fine);
            let first_wrong = wrong.map(|one| one.operation);
            tried.push(TriedSync { added, cuts: found.len(), first_wrong, failed: None });
            if first_wrong.is_none() {
                break;
            }
        }
        Ok(tried)
    }

    fn trial(
        &self,
        original: &Rehearsed,
        places: CutPoints,
        cuts: usize,
        stop: &StopFlag,
    ) -> Result<Vec<Found>, ExploreError> {
        let rehearsed = self.rehearse(stop)?;
        let count = |rehearsed: &Rehearsed| rehearsed.operations().count().max(1);
        let scale = (count(&rehearsed) / count(original)).clamp(1, SCALE_MAX);
        let operations = rehearsed.choose(places, cuts * scale, self.run.experiment.seed);
        self.cut(&rehearsed, &operations, stop, &|_| true)
    }
}
