//! Planned read errors, called faults, until they occur.
//!
//! 1. A fault waits for its virtual time, in a queue ordered by time.
//! 2. It then waits for the host's writes, in a queue ordered by their number.
//! 3. It then waits for data at its place (a logical unit or flash page), in an index by place. The place is
//!    checked on entry, and after each program that may have stored data there.

use std::collections::{BTreeMap, BTreeSet};

use strobe_nand::Lasts;
use strobe_types::{Lpn, Ppn, SimTime, State, StateError, StateReader, StateWriter, Stored};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Stored)]
pub(crate) struct Fault {
    pub(crate) place: FaultPlace,
    pub(crate) after_writes: u64,
    pub(crate) after: SimTime,
    pub(crate) lasts: Lasts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Stored)]
pub(crate) enum FaultPlace {
    /// Location of a logical unit when the fault occurs.
    Unit(Lpn),
    /// Flash page `part` of the `parts` flash pages programmed together as `page`.
    Page { page: Ppn, part: u32, parts: u32 },
}

#[derive(Clone, Debug, Default)]
pub(super) struct Planned {
    by_time: BTreeMap<SimTime, Vec<Fault>>,
    by_writes: BTreeMap<u64, Vec<Fault>>,
    /// Due faults by place. The places held no data when last checked.
    waiting: BTreeMap<FaultPlace, Vec<Fault>>,
    /// Places of `waiting` to be checked again: they may hold data by now.
    candidates: BTreeSet<FaultPlace>,
}

impl Planned {
    pub(super) fn new(faults: Vec<Fault>) -> Self {
        let mut planned = Self::default();
        for fault in faults {
            planned.by_time.entry(fault.after).or_default().push(fault);
        }
        planned
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_time.is_empty() && self.by_writes.is_empty() && self.waiting.is_empty()
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Makes the waiting places from `first` to `last` candidates.
    pub(super) fn on_stored(&mut self, first: FaultPlace, last: FaultPlace) {
        self.candidates.extend(self.waiting.range(first..=last).map(|(&place, _)| place));
    }

    pub(super) fn on_programmed(&mut self, page: Ppn) {
        // Bounds of the keys of all parts of `page`, in the derived order.
        let at = |part| FaultPlace::Page { page, part, parts: part };
        self.on_stored(at(0), at(u32::MAX));
    }

    pub(super) fn on_restarted(&mut self) {
        // After a power cut, recovery may map units again without a program.
        self.candidates.extend(self.waiting.keys());
    }

    pub(super) fn take_due(
        &mut self,
        now: SimTime,
        written: u64,
        mut is_stored: impl FnMut(FaultPlace) -> bool,
    ) -> Vec<Fault> {
        while let Some(first) = self.by_time.first_entry().filter(|first| *first.key() <= now) {
            for fault in first.remove() {
                self.by_writes.entry(fault.after_writes).or_default().push(fault);
            }
        }
        while let Some(first) = self.by_writes.first_entry().filter(|first| *first.key() <= written) {
            for fault in first.remove() {
                self.candidates.insert(fault.place);
                self.waiting.entry(fault.place).or_default().push(fault);
            }
        }
        let mut due = Vec::new();
        for place in std::mem::take(&mut self.candidates) {
            if is_stored(place) {
                due.extend(self.waiting.remove(&place).into_iter().flatten());
            }
        }
        due
    }

    fn all(&self) -> impl Iterator<Item = &Fault> {
        let queued = self.by_time.values().chain(self.by_writes.values());
        queued.chain(self.waiting.values()).flatten()
    }
}

/// The state is a list of faults; loading sorts them into the queues again.
impl State for Planned {
    fn save_state(&self, out: &mut StateWriter<'_>) {
        self.all().copied().collect::<Vec<Fault>>().save_state(out);
    }

    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let mut faults = Vec::<Fault>::new();
        faults.load_state(from)?;
        *self = Self::new(faults);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use strobe_types::Prng;

    use super::*;

    fn take_due_naively(
        faults: &mut Vec<Fault>,
        now: SimTime,
        written: u64,
        stored: &BTreeSet<FaultPlace>,
    ) -> Vec<Fault> {
        let is_due = |fault: &Fault| {
            now >= fault.after && written >= fault.after_writes && stored.contains(&fault.place)
        };
        faults.extract_if(.., |fault| is_due(fault)).collect()
    }

    fn sorted(mut faults: Vec<Fault>) -> Vec<Fault> {
        faults
            .sort_by_key(|fault| (fault.place, fault.after, fault.after_writes, fault.lasts == Lasts::Once));
        faults
    }

    fn fault(place: FaultPlace, after_writes: u64, after_ns: u64, lasts: Lasts) -> Fault {
        Fault { place, after_writes, after: SimTime::from_ns(after_ns), lasts }
    }

    #[test]
    fn faults_come_as_if_each_were_looked_at_before_each_command() {
        let mut arrived = 0;
        for seed in 0..200 {
            let mut rng = Prng::new(seed);
            let place = |rng: &mut Prng| match rng.below(2) {
                0 => FaultPlace::Unit(Lpn::new(rng.below(12))),
                _ => FaultPlace::Page { page: Ppn::new(rng.below(6)), part: rng.below(3), parts: 3 },
            };
            let mut naive: Vec<Fault> = (0..40)
                .map(|_| {
                    let (place, after_writes) = (place(&mut rng), rng.below_u64(60));
                    let lasts = if rng.below(2) == 0 { Lasts::Once } else { Lasts::UntilErased };
                    fault(place, after_writes, rng.below_u64(60), lasts)
                })
                .collect();
            let mut planned = Planned::new(naive.clone());
            let mut stored = BTreeSet::new();
            let (mut now, mut written) = (0, 0);
            for _ in 0..120 {
                (now, written) = (now + rng.below_u64(2), written + rng.below_u64(2));
                let place = place(&mut rng);
                if rng.below(3) == 0 {
                    stored.remove(&place);
                } else {
                    stored.insert(place);
                    match place {
                        FaultPlace::Unit(_) => planned.on_stored(place, place),
                        FaultPlace::Page { page, .. } => planned.on_programmed(page),
                    }
                }
                let now = SimTime::from_ns(now);
                let expected = take_due_naively(&mut naive, now, written, &stored);
                let due = planned.take_due(now, written, |place| stored.contains(&place));
                arrived += due.len();
                assert_eq!(sorted(due), sorted(expected), "seed {seed}");
            }
            assert_eq!(sorted(planned.all().copied().collect()), sorted(naive), "seed {seed}");
        }
        assert!(arrived > 2000, "{arrived}");
    }

    #[test]
    fn places_are_looked_at_once_for_each_fault_and_each_program() {
        let faults = 200_000;
        let lasts = Lasts::UntilErased;
        let unit = |at: u32| FaultPlace::Unit(Lpn::new(at));
        let list = (0..faults).map(|at| fault(unit(at), u64::from(at % 1000), 0, lasts)).collect();
        let mut planned = Planned::new(list);
        let (mut looks, mut arrived) = (0, 0);
        for written in 0..faults {
            // Every other unit is stored at some time, after its fault is due.
            let stored = (written / 2) * 2;
            planned.on_stored(unit(stored), unit(stored));
            let due = planned.take_due(SimTime::ZERO, u64::from(written), |place| {
                looks += 1;
                place == unit(stored)
            });
            arrived += due.len();
        }
        assert!(arrived > 0 && looks <= 2 * faults, "{arrived} faults came, {looks} looks");
    }
}
