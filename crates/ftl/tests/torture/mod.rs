//! Power cuts at every flash operation, on tiny drives, against a naive model.
//!
//! A script of commands runs once; at each program and each erase the flash is photographed as a cut
//! would leave it, just before the operation and in the middle of it. From every photograph the drive is
//! recovered, checked as a whole and read in full: each logical unit must hold what it held at the last
//! flush, or something written to it since.

use std::fmt::Debug;

use strobe_ftl::{Inspectable, MappingScheme, Recoverable, RecoveryError};
use strobe_nand::{Cause, Chip, CutPlan, PowerCuts, Snapshot, StampMedium, Unit, Untimed, When};
use strobe_types::{Lpn, Prng};

const T0: When = When::START;

pub(crate) type TestChip = Chip<Untimed, StampMedium>;

/// A kind of drive.
pub(crate) trait Subject: Debug {
    type Ftl: Inspectable<Payload = u64, Nand = TestChip> + Recoverable;

    fn units(&self) -> u32;
    /// Whether programs or erases fail.
    fn may_wear_out(&self) -> bool;
    fn fresh(&self) -> Self::Ftl;
    fn restart(&self, flash: TestChip) -> Result<Self::Ftl, RecoveryError>;
}

/// What each logical unit may read as after a cut: what it held when it was last durable, then every
/// later content, the newest last.
#[derive(Clone, Debug)]
struct Model {
    may_read: Vec<Vec<u64>>,
    next: u64,
}

impl Model {
    fn new(units: u32) -> Self {
        Self { may_read: vec![vec![0]; units as usize], next: 1 }
    }

    fn now(&self, lpn: u32) -> u64 {
        *self.may_read[lpn as usize].last().expect("never empty")
    }

    fn all_now(&self) -> Vec<u64> {
        (0..self.may_read.len() as u32).map(|lpn| self.now(lpn)).collect()
    }

    fn change(&mut self, lpn: u32, content: u64) {
        let may_read = &mut self.may_read[lpn as usize];
        if may_read.last() != Some(&content) {
            may_read.push(content);
        }
    }

    /// What `lpn` holds now is durable.
    fn settle(&mut self, lpn: u32) {
        let now = self.now(lpn);
        self.may_read[lpn as usize] = vec![now];
    }

    /// What a drive that was read in full may go on from.
    fn observe(&mut self, read: &[u64]) {
        for (may_read, &content) in self.may_read.iter_mut().zip(read) {
            *may_read = vec![content];
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write { first: u32, count: u32 },
    Trim { first: u32, count: u32 },
    Copy { from: u32, to: u32, count: u32 },
    Flush,
}

fn step(rng: &mut Prng, units: u32) -> Step {
    let first = rng.below(units);
    let most = if rng.below(8) == 0 { 40 } else { 5 };
    let count = 1 + rng.below((units - first).min(most));
    match rng.below(12) {
        0 | 1 => Step::Trim { first, count },
        2..=4 => {
            let to = rng.below(units - count + 1);
            match to + count <= first || first + count <= to {
                true => Step::Copy { from: first, to, count },
                false => Step::Flush,
            }
        }
        5 => Step::Flush,
        _ => Step::Write { first, count },
    }
}

/// Runs `step` on both; the model is told before what may be seen during it. False: the drive has come to
/// its end.
fn run<S: Subject>(case: &S, drive: &mut S::Ftl, model: &mut Model, step: &Step) -> bool {
    let result = match *step {
        Step::Write { first, count } => {
            let units: Vec<Unit<u64>> = (first..first + count)
                .map(|lpn| Unit { lpn: Lpn::new(lpn), payload: model.next + u64::from(lpn - first) })
                .collect();
            model.next += u64::from(count);
            units.iter().for_each(|unit| model.change(unit.lpn.get(), unit.payload));
            drive.write(T0, &units, Cause::Host)
        }
        Step::Trim { first, count } => {
            (first..first + count).for_each(|lpn| model.change(lpn, 0));
            drive.trim(T0, Lpn::new(first), count)
        }
        Step::Copy { from, to, count } => {
            (0..count).for_each(|at| model.change(to + at, model.now(from + at)));
            drive.copy(T0, Lpn::new(from), Lpn::new(to), count)
        }
        Step::Flush => drive.flush(T0),
    };
    if let Err(error) = &result {
        assert!(case.may_wear_out(), "{case:?} {step:?}: {error}");
    }
    result.is_ok()
}

/// `step` is complete: what it made durable cannot change back any more. Writes are on flash then, where
/// recovery finds them without a flush.
fn completed(model: &mut Model, step: &Step) {
    match *step {
        Step::Write { first, count } => (first..first + count).for_each(|lpn| model.settle(lpn)),
        Step::Flush => (0..model.may_read.len() as u32).for_each(|lpn| model.settle(lpn)),
        Step::Trim { .. } | Step::Copy { .. } => {}
    }
}

/// Recovers from a photograph and holds everything against the model.
fn verify<S: Subject>(
    case: &S,
    snapshot: Snapshot<TestChip>,
    model: &Model,
    what: &dyn Fn() -> String,
) -> (S::Ftl, Vec<u64>) {
    let (operation, begun) = (snapshot.operation, snapshot.begun);
    let place = || format!("{} cut {} {operation}", what(), if begun { "in" } else { "before" });
    let mut drive = case.restart(snapshot.flash).unwrap_or_else(|error| panic!("{}: {error}", place()));
    drive.check().unwrap_or_else(|error| panic!("{}: {error}", place()));
    let mut read = Vec::new();
    drive.read(T0, Lpn::new(0), case.units(), &mut read);
    for (lpn, (content, may_read)) in read.iter().zip(&model.may_read).enumerate() {
        assert!(may_read.contains(content), "{}: unit {lpn} reads {content}, not {may_read:?}", place());
    }
    (drive, read)
}

/// Runs `steps` random commands and cuts at every operation of each; every `again`th recovery is itself
/// cut at every operation, and used on. Returns the cuts.
pub(crate) fn torture<S: Subject>(case: &S, seed: u64, steps: u32, again: u64) -> u64 {
    let mut rng = Prng::new(seed);
    let (mut drive, mut model) = (case.fresh(), Model::new(case.units()));
    drive.nand_mut().plan_cuts(CutPlan::Everywhere);
    let start = u64::from(rng.below(again as u32 + 1));
    let (mut cuts, mut more) = (start, 0);
    for number in 0..steps {
        let step = step(&mut rng, case.units());
        let what = || format!("seed {seed} {case:?} step {number} {step:?}");
        let goes_on = run(case, &mut drive, &mut model, &step);
        for mut snapshot in drive.nand_mut().take_snapshots() {
            cuts += 1;
            if cuts % again == 0 {
                snapshot.flash.plan_cuts(CutPlan::Everywhere);
                more += cut_again(case, snapshot, &model, &mut rng, 2, &what);
            } else {
                verify(case, snapshot, &model, &what);
            }
        }
        drive.check().unwrap_or_else(|error| panic!("{}: {error}", what()));
        if !goes_on {
            return cuts - start + more;
        }
        completed(&mut model, &step);
    }
    let mut read = Vec::new();
    drive.read(T0, Lpn::new(0), case.units(), &mut read);
    assert_eq!(read, model.all_now(), "seed {seed} {case:?}");
    cuts - start + more
}

/// Cuts at every operation of a recovery, and of a few commands after it; some of these once more, until
/// there were `cuts` in a row. Returns how many there were, without the first.
fn cut_again<S: Subject>(
    case: &S,
    snapshot: Snapshot<TestChip>,
    model: &Model,
    rng: &mut Prng,
    cuts: u32,
    what: &dyn Fn() -> String,
) -> u64 {
    let mut done = 0;
    let operation = snapshot.operation;
    let (mut drive, read) = verify(case, snapshot, model, what);
    let during = || format!("{} recovering from {operation}", what());
    let mut next =
        |mut second: Snapshot<TestChip>, model: &Model, rng: &mut Prng, what: &dyn Fn() -> String| {
            done += 1;
            if cuts > 0 && rng.below(150) == 0 {
                second.flash.plan_cuts(CutPlan::Everywhere);
                done += cut_again(case, second, model, rng, cuts - 1, what);
            } else {
                verify(case, second, model, what);
            }
        };
    for second in drive.nand_mut().take_snapshots() {
        next(second, model, rng, &during);
    }
    let mut model = model.clone();
    model.observe(&read);
    for _ in 0..6 {
        let step = step(rng, case.units());
        let after = || format!("{} recovered from {operation}, then {step:?}", what());
        let goes_on = run(case, &mut drive, &mut model, &step);
        for second in drive.nand_mut().take_snapshots() {
            next(second, &model, rng, &after);
        }
        drive.check().unwrap_or_else(|error| panic!("{}: {error}", after()));
        if !goes_on {
            return done;
        }
        completed(&mut model, &step);
    }
    let mut read = Vec::new();
    drive.read(T0, Lpn::new(0), case.units(), &mut read);
    assert_eq!(read, model.all_now(), "{}", during());
    done
}
