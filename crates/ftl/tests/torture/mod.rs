//! Power cuts at every flash operation, on tiny drives, against a naive model.
//!
//! 1. A script of commands runs once. Each program and erase takes a snapshot of the flash just before it and
//!    in the middle.
//! 2. From every snapshot the drive is recovered, checked as a whole and read in full.
//! 3. Each logical unit must hold its content at the last flush, or something written since.
//!
//! With timing, commands overlap, and a flush counts once complete.

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

pub(crate) fn any_times(rng: &mut Prng) -> TimingConfig {
    let mut pick = |choices: &[u64]| choices[rng.below(choices.len() as u32) as usize];
    TimingConfig {
        read_ns: pick(&[5, 50]).into(),
        program_ns: pick(&[20, 100, 700]).into(),
        erase_ns: pick(&[50, 1000]),
        // 512 bytes in 2, 10 and 100 ns.
        channel_mb_s: pick(&[0, 256_000, 51_200, 5_120]) as u32,
        cache_program: pick(&[0, 1]) == 1,
        deadline_ns: [[0; 5], [0, 100, 200, 300, 400], [0, 10_000, 20_000, 30_000, 40_000]]
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

pub(crate) trait Subject<T: Timing>: Debug {
    type Ftl: Inspectable<Payload = u64, Nand = TestChip<T>> + Recoverable;

    fn units(&self) -> u32;
    fn may_wear_out(&self) -> bool;
    fn fresh(&self) -> Self::Ftl;
    fn restart(&self, flash: TestChip<T>) -> Result<Self::Ftl, RecoveryError>;
}

#[derive(Clone, Copy, Debug)]
struct Version {
    number: u64,
    content: u64,
}

/// The last durable content, then all later ones.
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

    /// After `changes` changes.
    fn settle(&mut self, lpn: u32, changes: u64) {
        let may_read = &mut self.may_read[lpn as usize];
        let later = may_read.iter().position(|version| version.number > changes).unwrap_or(may_read.len());
        may_read.drain(..later.saturating_sub(1));
    }

    fn allows(&self, lpn: usize, content: u64) -> bool {
        self.may_read[lpn].iter().any(|version| version.content == content)
    }

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

#[derive(Debug)]
struct Pending {
    done: When,
    units: Range<u32>,
    /// Up to and including this command.
    changes: u64,
}

struct Run<'a, T: Timing, S: Subject<T>> {
    case: &'a S,
    drive: S::Ftl,
    model: Model,
    pending: Vec<Pending>,
    pace: PhantomData<T>,
}

type Look<'a, T> = &'a mut dyn FnMut(Snapshot<TestChip<T>>, &Model, &mut Prng);

impl<'a, T: Timing, S: Subject<T>> Run<'a, T, S> {
    fn new(case: &'a S, drive: S::Ftl, model: Model) -> Self {
        Self { case, drive, model, pending: Vec::new(), pace: PhantomData }
    }

    /// Also lets time pass and checks all snapshots. False at end of life.
    fn step(&mut self, step: &Step, rng: &mut Prng, look: Look<'_, T>) -> bool {
        let done = self.issue(step);
        self.look(rng, look);
        let Some(done) = done else { return false };
        // A completed write is on flash, and recovery finds it without a flush.
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
                    // The host is idle until the drive is quiet.
                    self.drive.set_idle(true);
                    self.drain(rng, look);
                    self.drive.set_idle(false);
                }
            }
        }
        true
    }

    /// The model is updated before any snapshot during the command.
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
            // A copy would move data to another handle.
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

    /// Snapshots ignore completions at the same instant. False if nothing is in flight.
    fn pass(&mut self, rng: &mut Prng, look: Look<'_, T>) -> bool {
        let nand = self.drive.nand_mut();
        nand.timing_mut().start();
        let Some(next) = nand.timing().next_event() else { return false };
        nand.run(next);
        self.look(rng, look);
        self.settle();
        let mut tokens = Vec::new();
        self.drive.nand_mut().reported(&mut tokens);
        tokens.into_iter().for_each(|token| self.drive.on_event(token));
        self.look(rng, look);
        true
    }

    fn drain(&mut self, rng: &mut Prng, look: Look<'_, T>) {
        while self.pass(rng, look) {}
        assert!(self.pending.is_empty(), "{:?}", self.pending);
    }
}

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

fn handle_of(lpn: Lpn, handles: u16) -> u16 {
    (lpn.get() % u32::from(handles)) as u16
}

fn check_isolation<F: Inspectable>(drive: &F, what: &dyn Fn() -> String) {
    let Some(handles) = drive.placement_handles() else { return };
    // With several reclaim groups, each group has its own handles; a full group passes data to another group.
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

/// Cuts at every operation of `steps` random commands, and of every `again`th recovery, which is used
/// further.
pub(crate) fn torture<T: Timing, S: Subject<T>>(case: &S, seed: u64, steps: u32, again: u64) -> u64 {
    let mut rng = Prng::new(seed);
    let mut run = Run::new(case, case.fresh(), Model::new(case.units()));
    run.drive.nand_mut().plan_cuts(CutPlan::Everywhere);
    let start = u64::from(rng.below(again as u32 + 1));
    let (mut cuts, mut more) = (start, 0);
    let mut number = 0;
    let mut goes_on = true;
    while goes_on && number <= steps {
        // Finally, all operations still in flight.
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

/// Cuts at every operation of a recovery and of a few commands after it, up to `cuts` in a row. Returns the
/// further cuts.
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
