//! Power cuts at every flash operation, on tiny drives, against a naive model.
//!
//! A script of commands runs once; at each program and each erase the flash is photographed as a cut
//! would leave it, just before the operation and in the middle of it. From every photograph the drive is
//! recovered, checked as a whole and read in full: each logical unit must hold what it held at the last
//! flush, or something written to it since.
//!
//! Where operations take time, commands are issued while others are on their way: a cut finds some operations
//! complete, some begun, and some that have not happened. A flush counts when it is complete.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::Range;

use strobe_ftl::{
    DataTag, Done, Inspectable, Isolation, MappingScheme, Recoverable, RecoveryError, Stream, WriteContext,
};
use strobe_nand::{
    ArrayTiming, Cause, Chip, CutPlan, Issue, Nand, PowerCuts, Snapshot, StampMedium, SuspendConfig, Timing,
    TimingConfig, Unit, Untimed, When,
};
use strobe_types::{Geometry, Lpn, Prng};

const T0: When = When::START;

pub(crate) type TestChip<T> = Chip<T, StampMedium>;

/// Timing of the flash of a test.
pub(crate) trait Pace: Timing {
    fn of(config: TimingConfig, geometry: &Geometry) -> Self;
}

impl Pace for Untimed {
    fn of(_config: TimingConfig, _geometry: &Geometry) -> Self {
        Self::default()
    }
}

impl Pace for ArrayTiming {
    fn of(config: TimingConfig, geometry: &Geometry) -> Self {
        Self::new(config, geometry)
    }
}

/// Times of all kinds of flash; none is zero.
pub(crate) fn any_times(rng: &mut Prng) -> TimingConfig {
    let mut pick = |choices: &[u64]| choices[rng.below(choices.len() as u32) as usize];
    TimingConfig {
        read_ns: pick(&[5, 50]).into(),
        program_ns: pick(&[20, 100, 700]).into(),
        erase_ns: pick(&[50, 1000]),
        // 512 bytes in 2, 10 and 100 ns.
        channel_mb_s: pick(&[0, 256_000, 51_200, 5_120]) as u32,
        cache_program: pick(&[0, 1]) == 1,
        patience_ns: [[0; 5], [0, 100, 200, 300, 400], [0, 10_000, 20_000, 30_000, 40_000]]
            [pick(&[0, 1, 2]) as usize],
        suspend: SuspendConfig {
            most: pick(&[0, 3]) as u32,
            suspend_ns: 10,
            resume_ns: 5,
            least_left_ns: 10,
        },
        command_ns: pick(&[0, 0, 3]),
        cache_read: pick(&[0, 0, 1]) == 1,
        independent_plane_reads: pick(&[0, 0, 1]) == 1,
        issue: [Issue::PerDie, Issue::InOrder][pick(&[0, 0, 1]) as usize],
        ..TimingConfig::default()
    }
}

/// A kind of drive.
pub(crate) trait Subject<T: Timing>: Debug {
    type Ftl: Inspectable<Payload = u64, Nand = TestChip<T>> + Recoverable;

    fn units(&self) -> u32;
    /// True if programs or erases may fail.
    fn may_wear_out(&self) -> bool;
    fn fresh(&self) -> Self::Ftl;
    fn restart(&self, flash: TestChip<T>) -> Result<Self::Ftl, RecoveryError>;
}

/// A content of a logical unit, and when it got it in the order of all changes.
#[derive(Clone, Copy, Debug)]
struct Version {
    number: u64,
    content: u64,
}

/// Legal contents of each logical unit after a cut: the last durable one, then all later ones, the newest
/// last.
#[derive(Clone, Debug)]
struct Model {
    may_read: Vec<Vec<Version>>,
    next: u64,
    changes: u64,
}

impl Model {
    fn new(units: u32) -> Self {
        Self { may_read: vec![vec![Version { number: 0, content: 0 }]; units as usize], next: 1, changes: 0 }
    }

    fn now(&self, lpn: u32) -> u64 {
        self.may_read[lpn as usize].last().expect("never empty").content
    }

    fn all_now(&self) -> Vec<u64> {
        (0..self.may_read.len() as u32).map(|lpn| self.now(lpn)).collect()
    }

    fn change(&mut self, lpn: u32, content: u64) {
        self.changes += 1;
        if self.now(lpn) != content {
            self.may_read[lpn as usize].push(Version { number: self.changes, content });
        }
    }

    /// Makes the content of `lpn` after `changes` changes durable.
    fn settle(&mut self, lpn: u32, changes: u64) {
        let may_read = &mut self.may_read[lpn as usize];
        let later = may_read.iter().position(|version| version.number > changes).unwrap_or(may_read.len());
        may_read.drain(..later.saturating_sub(1));
    }

    fn allows(&self, lpn: usize, content: u64) -> bool {
        self.may_read[lpn].iter().any(|version| version.content == content)
    }

    /// Takes the contents of a drive that was read in full as the only legal ones.
    fn observe(&mut self, read: &[u64]) {
        for (may_read, &content) in self.may_read.iter_mut().zip(read) {
            *may_read = vec![Version { number: self.changes, content }];
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
            if to + count <= first || first + count <= to {
                Step::Copy { from: first, to, count }
            } else {
                Step::Flush
            }
        }
        5 => Step::Flush,
        _ => Step::Write { first, count },
    }
}

/// A command that is not complete: what it makes durable then.
#[derive(Debug)]
struct Pending {
    done: When,
    units: Range<u32>,
    /// Changes before it, and its own.
    changes: u64,
}

/// A drive in use.
struct Run<'a, T: Timing, S: Subject<T>> {
    case: &'a S,
    drive: S::Ftl,
    model: Model,
    pending: Vec<Pending>,
    pace: PhantomData<T>,
}

/// Handler of a snapshot, given the model of the legal contents.
type Look<'a, T> = &'a mut dyn FnMut(Snapshot<TestChip<T>>, &Model, &mut Prng);

impl<'a, T: Timing, S: Subject<T>> Run<'a, T, S> {
    fn new(case: &'a S, drive: S::Ftl, model: Model) -> Self {
        Self { case, drive, model, pending: Vec::new(), pace: PhantomData }
    }

    /// Issues `step`, lets some time pass, and looks at all photographs. False: the drive has come to its end.
    fn step(&mut self, step: &Step, rng: &mut Prng, look: Look<'_, T>) -> bool {
        let done = self.issue(step);
        self.look(rng, look);
        let Some(done) = done else { return false };
        // Writes are on flash when they are complete, where recovery finds them without a flush.
        let units = match *step {
            Step::Write { first, count } => first..first + count,
            Step::Flush => 0..self.case.units(),
            Step::Trim { .. } | Step::Copy { .. } => 0..0,
        };
        self.pending.push(Pending { done, units, changes: self.model.changes });
        self.settle();
        if T::TIMED {
            match rng.below(6) {
                0 | 1 => {}
                2 | 3 => {
                    for _ in 0..rng.below(12) {
                        self.pass(rng, look);
                    }
                }
                4 => while !self.is_there(done) && self.pass(rng, look) {},
                _ => {
                    // Nobody comes until all is quiet.
                    self.drive.set_idle(true);
                    self.drain(rng, look);
                    self.drive.set_idle(false);
                }
            }
        }
        true
    }

    /// Issues `step`; the model is told before what may be seen during it.
    fn issue(&mut self, step: &Step) -> Option<When> {
        let (drive, model) = (&mut self.drive, &mut self.model);
        let result = match *step {
            Step::Write { first, count } => {
                let units: Vec<Unit<u64>> = (first..first + count)
                    .map(|lpn| Unit { lpn: Lpn::new(lpn), payload: model.next + u64::from(lpn - first) })
                    .collect();
                model.next += u64::from(count);
                units.iter().for_each(|unit| model.change(unit.lpn.get(), unit.payload));
                write_by_handle(drive, &units)
            }
            Step::Trim { first, count } => {
                (first..first + count).for_each(|lpn| model.change(lpn, 0));
                drive.trim(T0, Lpn::new(first), count)
            }
            // A copy would take data to another handle.
            Step::Copy { to, .. } if drive.handles() > 1 => {
                let handle = to as u16 % drive.handles();
                drive.begin_unit(T0, handle)
            }
            Step::Copy { from, to, count } => {
                (0..count).for_each(|at| model.change(to + at, model.now(from + at)));
                drive.copy(T0, Lpn::new(from), Lpn::new(to), count)
            }
            Step::Flush => drive.flush(T0),
        };
        if let Err(error) = &result {
            assert!(self.case.may_wear_out(), "{:?} {step:?}: {error}", self.case);
        }
        result.ok()
    }

    fn is_there(&self, when: When) -> bool {
        self.drive.nand().timing().has_begun(when).is_none()
    }

    /// Makes the changes of completed commands durable.
    fn settle(&mut self) {
        for Pending { done, units, changes } in std::mem::take(&mut self.pending) {
            if self.is_there(done) {
                units.for_each(|lpn| self.model.settle(lpn, changes));
            } else {
                self.pending.push(Pending { done, units, changes });
            }
        }
    }

    fn look(&mut self, rng: &mut Prng, look: Look<'_, T>) {
        for snapshot in self.drive.nand_mut().take_snapshots() {
            look(snapshot, &self.model, rng);
        }
    }

    /// Goes on by an instant; photographs taken at it know nothing of what is complete only then. False if nothing is
    /// on its way.
    fn pass(&mut self, rng: &mut Prng, look: Look<'_, T>) -> bool {
        let nand = self.drive.nand_mut();
        nand.timing_mut().start();
        let Some(next) = nand.timing().next_event() else { return false };
        nand.run(next);
        self.look(rng, look);
        self.settle();
        let mut tokens = Vec::new();
        self.drive.nand_mut().reported(&mut tokens);
        tokens.into_iter().for_each(|token| self.drive.go_on(token));
        self.look(rng, look);
        true
    }

    fn drain(&mut self, rng: &mut Prng, look: Look<'_, T>) {
        while self.pass(rng, look) {}
        assert!(self.pending.is_empty(), "{:?}", self.pending);
    }
}

/// Writes `units`; with placement handles each with that of [`handle_of`].
fn write_by_handle<F: MappingScheme<Payload = u64>>(drive: &mut F, units: &[Unit<u64>]) -> Done {
    let handles = drive.handles();
    let mut done = T0;
    for handle in 0..handles {
        let of = |unit: &&Unit<u64>| handle_of(unit.lpn, handles) == handle;
        let units: Vec<Unit<u64>> = units.iter().filter(of).cloned().collect();
        if units.is_empty() {
            continue;
        }
        let context = WriteContext { cause: Cause::Host, tag: DataTag::placed(handle) };
        let written = drive.write(T0, &units, context)?;
        done = drive.nand_mut().both(done, written);
    }
    Ok(done)
}

/// The handle with which a test writes `lpn`.
fn handle_of(lpn: Lpn, handles: u16) -> u16 {
    (lpn.get() % u32::from(handles)) as u16
}

/// Holds the blocks of a drive with placement handles against their isolation.
fn check_isolation<F: Inspectable>(drive: &F, what: &dyn Fn() -> String) {
    let Some(handles) = drive.placement_handles() else { return };
    // With several reclaim groups a handle is one of those of each group: where one is full, another takes the data.
    let (all, count) = (drive.handles(), drive.handles() / handles.groups());
    let geometry = drive.nand().geometry();
    let mut held = vec![None; geometry.blocks() as usize];
    for lpn in (0..drive.logical_units()).map(Lpn::new) {
        let Some(ppa) = drive.locate(lpn) else { continue };
        let block = geometry.block_of(ppa);
        let stream = drive.block_info(block).stream;
        assert_ne!(stream, Stream::Unknown, "{}: {block:?} has lost its stream", what());
        if handles.isolation() == Isolation::Initial && stream != Stream::Host {
            continue;
        }
        let handle = handle_of(lpn, all) % count;
        let first = *held[block.index()].get_or_insert(handle);
        assert_eq!(first, handle, "{}: {block:?} of stream {stream:?} holds data of both handles", what());
    }
}

/// Recovers from a photograph and holds everything against the model.
fn verify<T: Timing, S: Subject<T>>(
    case: &S,
    snapshot: Snapshot<TestChip<T>>,
    model: &Model,
    what: &dyn Fn() -> String,
) -> (S::Ftl, Vec<u64>) {
    let (operation, begun) = (snapshot.operation, snapshot.begun);
    let place = || format!("{} cut {} {operation}", what(), if begun { "in" } else { "before" });
    let mut drive = case.restart(snapshot.flash).unwrap_or_else(|error| panic!("{}: {error}", place()));
    drive.check().unwrap_or_else(|error| panic!("{}: {error}", place()));
    check_isolation(&drive, &place);
    let mut read = Vec::new();
    drive.read(T0, Lpn::new(0), case.units(), &mut read).expect("reads");
    for (lpn, &content) in read.iter().enumerate() {
        let may_read = &model.may_read[lpn];
        assert!(model.allows(lpn, content), "{}: unit {lpn} reads {content}, not {may_read:?}", place());
    }
    (drive, read)
}

/// Runs `steps` random commands and cuts at every operation of each; every `again`th recovery is itself
/// cut at every operation, and used on. Returns the cuts.
pub(crate) fn torture<T: Timing, S: Subject<T>>(case: &S, seed: u64, steps: u32, again: u64) -> u64 {
    let mut rng = Prng::new(seed);
    let mut run = Run::new(case, case.fresh(), Model::new(case.units()));
    run.drive.nand_mut().plan_cuts(CutPlan::Everywhere);
    let start = u64::from(rng.below(again as u32 + 1));
    let (mut cuts, mut more) = (start, 0);
    let mut number = 0;
    let mut goes_on = true;
    while goes_on && number <= steps {
        // Last, everything that is still on its way.
        let step = (number < steps).then(|| step(&mut rng, case.units()));
        let what = || format!("seed {seed} {case:?} step {number} {step:?}");
        let mut look = |mut snapshot: Snapshot<TestChip<T>>, model: &Model, rng: &mut Prng| {
            cuts += 1;
            if cuts.is_multiple_of(again) {
                snapshot.flash.plan_cuts(CutPlan::Everywhere);
                more += cut_again(case, snapshot, model, rng, 2, &what);
            } else {
                verify(case, snapshot, model, &what);
            }
        };
        match &step {
            Some(step) => goes_on = run.step(step, &mut rng, &mut look),
            None => run.drain(&mut rng, &mut look),
        }
        run.drive.check().unwrap_or_else(|error| panic!("{}: {error}", what()));
        check_isolation(&run.drive, &what);
        number += 1;
    }
    if goes_on {
        let mut read = Vec::new();
        run.drive.read(T0, Lpn::new(0), case.units(), &mut read).expect("reads");
        assert_eq!(read, run.model.all_now(), "seed {seed} {case:?}");
    }
    cuts - start + more
}

/// Cuts at every operation of a recovery, and of a few commands after it; some of these once more, until
/// there were `cuts` in a row. Returns how many there were, without the first.
fn cut_again<T: Timing, S: Subject<T>>(
    case: &S,
    snapshot: Snapshot<TestChip<T>>,
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
        |mut second: Snapshot<TestChip<T>>, model: &Model, rng: &mut Prng, what: &dyn Fn() -> String| {
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
    let mut run = Run::new(case, drive, model);
    for number in 0..=6 {
        let step = (number < 6).then(|| step(rng, case.units()));
        let after = || format!("{} recovered from {operation}, then {step:?}", what());
        let mut look = |second: Snapshot<TestChip<T>>, model: &Model, rng: &mut Prng| {
            next(second, model, rng, &after);
        };
        let goes_on = match &step {
            Some(step) => run.step(step, rng, &mut look),
            None => {
                run.drain(rng, &mut look);
                true
            }
        };
        run.drive.check().unwrap_or_else(|error| panic!("{}: {error}", after()));
        check_isolation(&run.drive, &after);
        if !goes_on {
            return done;
        }
    }
    let mut read = Vec::new();
    run.drive.read(T0, Lpn::new(0), case.units(), &mut read).expect("reads");
    assert_eq!(read, run.model.all_now(), "{}", during());
    done
}
