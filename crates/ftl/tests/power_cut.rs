//! Power cuts at every flash operation, on tiny drives, against a naive model.
//!
//! A script of commands runs once; at each program and each erase the flash is photographed as a cut
//! would leave it, just before the operation and in the middle of it. From every photograph the drive is
//! recovered, checked as a whole and read in full: each logical unit must hold what it held at the last
//! flush, or something written to it since.

use std::sync::atomic::{AtomicU64, Ordering};

use strobe_ftl::gc::Greedy;
use strobe_ftl::wear::Leveling;
use strobe_ftl::{Allocation, GcStream, MappingScheme, Migration, PageMap, PageMapConfig};
use strobe_nand::{Chip, CutPlan, Nand, Snapshot, StampMedium, Unit, Untimed, WearConfig};
use strobe_types::{Geometry, GeometrySpec, Lpn, Prng, SimTime};

const T0: SimTime = SimTime::ZERO;

type TestChip = Chip<Untimed, StampMedium>;
type TestMap = PageMap<TestChip, Greedy>;

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
fn run(case: &Case, drive: &mut TestMap, model: &mut Model, step: &Step) -> bool {
    let result = match *step {
        Step::Write { first, count } => {
            let units: Vec<Unit<u64>> = (first..first + count)
                .map(|lpn| Unit { lpn: Lpn::new(lpn), payload: model.next + u64::from(lpn - first) })
                .collect();
            model.next += u64::from(count);
            units.iter().for_each(|unit| model.change(unit.lpn.get(), unit.payload));
            drive.write(T0, &units)
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
        assert!(case.may_wear_out(), "{case:?}: {error}");
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

#[derive(Clone, Debug)]
struct Case {
    spec: GeometrySpec,
    config: PageMapConfig,
    wear: WearConfig,
}

impl Case {
    /// A completely full drive, if there is one with these choices.
    fn new(spec: GeometrySpec, choices: PageMapConfig, wear: WearConfig) -> Option<Self> {
        let geometry = Geometry::new(spec).expect("valid geometry");
        let blocks = geometry.blocks() - wear.factory_bad_blocks;
        // How many blocks the map takes depends on how many units there are.
        let fits = |&units: &u32| {
            let config = PageMapConfig { logical_units: units, ..choices };
            config.capacity(&geometry, blocks).room_units() >= u64::from(units)
        };
        let logical_units = (1..geometry.units()).rev().find(fits)?;
        let mut case = Self { spec, config: PageMapConfig { logical_units, ..choices }, wear };
        if case.may_wear_out() {
            // Failing blocks eat what is spare.
            case.config.logical_units = logical_units.div_ceil(2);
        }
        Some(case)
    }

    /// Whether programs or erases fail.
    fn may_wear_out(&self) -> bool {
        self.wear.program_fail_rate > 0.0 || self.wear.endurance_pe.is_some()
    }

    fn geometry(&self) -> Geometry {
        Geometry::new(self.spec).expect("valid geometry")
    }

    fn policy(&self) -> Greedy {
        Greedy::new(self.geometry().blocks())
    }

    fn fresh(&self) -> TestMap {
        let chip = Chip::new(self.geometry(), self.wear, Untimed, self.config.seed);
        PageMap::new(chip, self.policy(), self.config).expect("room")
    }

    /// Recovers from a photograph and holds everything against the model.
    fn verify(
        &self,
        snapshot: Snapshot<TestChip>,
        model: &Model,
        what: &dyn Fn() -> String,
    ) -> (TestMap, Vec<u64>) {
        CUTS.fetch_add(1, Ordering::Relaxed);
        let (operation, begun) = (snapshot.operation, snapshot.begun);
        let place = || format!("{} cut {} {operation}", what(), if begun { "in" } else { "before" });
        let (mut drive, _) = PageMap::restart(snapshot.flash, self.policy(), self.config, T0)
            .unwrap_or_else(|error| panic!("{}: {error}", place()));
        drive.check().unwrap_or_else(|error| panic!("{}: {error}", place()));
        let mut read = Vec::new();
        drive.read(T0, Lpn::new(0), self.config.logical_units, &mut read);
        for (lpn, (content, may_read)) in read.iter().zip(&model.may_read).enumerate() {
            assert!(may_read.contains(content), "{}: unit {lpn} reads {content}, not {may_read:?}", place());
        }
        (drive, read)
    }
}

static CUTS: AtomicU64 = AtomicU64::new(0);

/// Runs `steps` random commands and cuts at every operation of each; every `again`th recovery is itself
/// cut at every operation, and used on.
fn torture(case: &Case, seed: u64, steps: u32, again: u64) {
    let mut rng = Prng::new(seed);
    let units = case.config.logical_units;
    let (mut drive, mut model) = (case.fresh(), Model::new(units));
    drive.nand_mut().plan_cuts(CutPlan::Everywhere);
    let mut cuts = u64::from(rng.below(again as u32 + 1));
    for number in 0..steps {
        let step = step(&mut rng, units);
        let what = || format!("seed {seed} {case:?} step {number} {step:?}");
        let goes_on = run(case, &mut drive, &mut model, &step);
        for mut snapshot in drive.nand_mut().take_snapshots() {
            cuts += 1;
            if cuts % again == 0 {
                snapshot.flash.plan_cuts(CutPlan::Everywhere);
                cut_again(case, snapshot, &model, &mut rng, 2, &what);
            } else {
                case.verify(snapshot, &model, &what);
            }
        }
        drive.check().unwrap_or_else(|error| panic!("{}: {error}", what()));
        if !goes_on {
            return;
        }
        completed(&mut model, &step);
    }
    let mut read = Vec::new();
    drive.read(T0, Lpn::new(0), units, &mut read);
    assert_eq!(read, model.all_now());
}

/// Cuts at every operation of a recovery, and of a few commands after it; some of these once more, until
/// there were `cuts` in a row.
fn cut_again(
    case: &Case,
    snapshot: Snapshot<TestChip>,
    model: &Model,
    rng: &mut Prng,
    cuts: u32,
    what: &dyn Fn() -> String,
) {
    let operation = snapshot.operation;
    let (mut drive, read) = case.verify(snapshot, model, what);
    let during = || format!("{} recovering from {operation}", what());
    let next = |mut second: Snapshot<TestChip>, model: &Model, rng: &mut Prng, what: &dyn Fn() -> String| {
        if cuts > 0 && rng.below(150) == 0 {
            second.flash.plan_cuts(CutPlan::Everywhere);
            cut_again(case, second, model, rng, cuts - 1, what);
        } else {
            case.verify(second, model, what);
        }
    };
    for second in drive.nand_mut().take_snapshots() {
        next(second, model, rng, &during);
    }
    let mut model = model.clone();
    model.observe(&read);
    for _ in 0..6 {
        let step = step(rng, case.config.logical_units);
        let after = || format!("{} recovered from {operation}, then {step:?}", what());
        let goes_on = run(case, &mut drive, &mut model, &step);
        for second in drive.nand_mut().take_snapshots() {
            next(second, &model, rng, &after);
        }
        drive.check().unwrap_or_else(|error| panic!("{}: {error}", after()));
        if !goes_on {
            return;
        }
        completed(&mut model, &step);
    }
    let mut read = Vec::new();
    drive.read(T0, Lpn::new(0), case.config.logical_units, &mut read);
    assert_eq!(read, model.all_now(), "{}", during());
}

/// A drive of many kinds, from `rng`.
fn any_case(rng: &mut Prng) -> Option<Case> {
    let mut pick = |choices: &[u32]| choices[rng.below(choices.len() as u32) as usize];
    let units_per_page = pick(&[1, 1, 2, 4]);
    let spec = GeometrySpec {
        channels: pick(&[1, 1, 2]),
        dies_per_channel: pick(&[1, 1, 2]),
        planes_per_die: pick(&[1, 1, 1, 2]),
        blocks_per_plane: pick(&[16, 20, 28]),
        pages_per_block: pick(&[2, 4, 8]),
        page_bytes: units_per_page * 512,
        unit_bytes: 512,
    };
    let config = PageMapConfig {
        gc_stream: if pick(&[0, 1]) == 0 { GcStream::Own } else { GcStream::Host },
        net_blocks: pick(&[1, 1, 2]),
        migration: [Migration::None, Migration::HotCold, Migration::Sorted][pick(&[0, 0, 1, 2]) as usize],
        allocation: [Allocation::Fifo, Allocation::Adaptive][pick(&[0, 1]) as usize],
        leveling: [None, Some(Leveling::Swap { threshold: 2 }), Some(Leveling::DualPool { threshold: 2 })]
            [pick(&[0, 0, 1, 2]) as usize],
        virtual_map_entries: pick(&[0, 3, 40]),
        durable: true,
        seed: rng.bits(),
        ..PageMapConfig::new(0)
    };
    let wear = WearConfig {
        factory_bad_blocks: rng.below(2),
        program_fail_rate: [0.0, 0.0, 0.0, 0.004, 0.05][rng.below(5) as usize],
        endurance_pe: (rng.below(6) == 0).then(|| 2 + rng.below(8)),
    };
    let fault_reserve = 3 * u32::from(wear.program_fail_rate > 0.0 || wear.endurance_pe.is_some());
    Case::new(spec, PageMapConfig { fault_reserve, ..config }, wear)
}

/// Tortures drives until there were `cuts` cuts.
fn torture_until(cuts: u64, first_seed: u64) {
    let before = CUTS.load(Ordering::Relaxed);
    let mut seed = first_seed;
    while CUTS.load(Ordering::Relaxed) - before < cuts {
        let mut rng = Prng::new(seed);
        if let Some(case) = any_case(&mut rng) {
            torture(&case, seed, 60, 23);
        }
        seed += 1;
    }
    eprintln!("{} cuts, seeds {first_seed}..{seed}", CUTS.load(Ordering::Relaxed) - before);
}

#[test]
fn nothing_durable_is_lost_wherever_the_power_is_cut() {
    torture_until(150_000, 1);
}

#[test]
#[ignore = "minutes long: make test-long"]
fn nothing_durable_is_lost_in_ten_million_cuts() {
    torture_until(10_000_000, 1_000_000);
}
