//! Power cuts with timing, compared with a list of issued operations: complete ones are on flash, begun ones
//! are torn, waiting ones have not happened.

mod flash;

use flash::{Issued, Model, Status, What};
use strobe_nand::{
    ArrayTiming, ByteMedium, Cause, Chip, CutPlan, Medium, Nand, Payload, PowerCuts, Snapshot, StampMedium,
    SuspendConfig, Timing, TimingConfig, Unit, Wanted, WearConfig, When,
};
use strobe_types::{BlockId, Geometry, GeometrySpec, Lpn, Prng, SimTime};

fn pick<T: Copy>(rng: &mut Prng, choices: &[T]) -> T {
    choices[rng.below(choices.len() as u32) as usize]
}

fn geometry(rng: &mut Prng) -> Geometry {
    let unit_bytes = 512;
    Geometry::new(GeometrySpec {
        channels: 1 + rng.below(2),
        dies_per_channel: 1 + rng.below(2),
        planes_per_die: 1 + rng.below(2),
        blocks_per_plane: 2 + rng.below(2),
        pages_per_block: 2 + rng.below(3),
        page_bytes: unit_bytes * pick(rng, &[1, 2, 4]),
        unit_bytes,
    })
    .expect("valid")
}

fn config(rng: &mut Prng) -> TimingConfig {
    TimingConfig {
        read_ns: (1 + u64::from(rng.below(5))).into(),
        program_ns: (1 + u64::from(rng.below(15))).into(),
        erase_ns: 1 + u64::from(rng.below(30)),
        channel_mb_s: pick(rng, &[0, 256_000, 128_000]),
        command_ns: u64::from(rng.below(3) / 2),
        cache_program: rng.below(2) == 0,
        cache_read: rng.below(3) == 0,
        independent_plane_reads: rng.below(3) == 0,
        deadline_ns: if rng.below(2) == 0 { [0; 5] } else { [0, 10, 20, 30, 40] },
        suspend: SuspendConfig { most: rng.below(3), suspend_ns: 2, resume_ns: 1, least_left_ns: 1 },
        ..TimingConfig::default()
    }
}

struct Bench<M: Medium> {
    chip: Chip<ArrayTiming, M>,
    model: Model<M::Payload>,
    rng: Prng,
    recent: Vec<When>,
    plan: CutPlan,
    snapshots: u64,
    torn: u64,
    undone: u64,
    what: String,
}

impl<M: Medium> Bench<M> {
    fn new(seed: u64) -> Self {
        let mut rng = Prng::new(seed);
        let (geometry, config) = (geometry(&mut rng), config(&mut rng));
        let any_order = rng.below(4) == 0;
        let wear = WearConfig {
            endurance_pe: (rng.below(4) == 0).then_some(2),
            program_fail_rate: if rng.below(4) == 0 { 0.2 } else { 0.0 },
            ..WearConfig::default()
        };
        let chip = Chip::new(geometry.clone(), wear, ArrayTiming::new(config, &geometry), seed);
        let mut chip: Chip<ArrayTiming, M> = if any_order { chip.in_any_order() } else { chip };
        let plan = if rng.below(5) > 0 { CutPlan::Everywhere } else { CutPlan::At(u64::from(rng.below(60))) };
        chip.plan_cuts(plan);
        Self {
            what: format!("seed {seed}: {:?} {config:?} {wear:?} any order {any_order}", geometry.spec()),
            chip,
            model: Model::new(geometry),
            rng,
            recent: Vec::new(),
            plan,
            snapshots: 0,
            torn: 0,
            undone: 0,
        }
    }

    fn some_after(&mut self) -> When {
        match self.rng.below(4) {
            0 => When::At(self.chip.timing().now() + u64::from(self.rng.below(40))),
            1 if !self.recent.is_empty() => {
                let at = self.rng.below(self.recent.len() as u32) as usize;
                self.recent[at]
            }
            _ => When::START,
        }
    }

    fn something(&mut self, stamp: u64) {
        let after = self.some_after();
        let geometry = self.chip.geometry().clone();
        let block = BlockId::new(self.rng.below(geometry.blocks()));
        let state = self.chip.block(block);
        let cause = pick(&mut self.rng, &[Cause::Host, Cause::Gc, Cause::Map]);
        let unused: Vec<u32> = (0..geometry.pages_per_block())
            .filter(|&page| !self.chip.is_programmed(geometry.page(block, page)))
            .collect();
        if self.rng.below(60) == 0 && !state.bad {
            self.chip.mark_bad(block);
            self.model.marks.push((self.model.issued.len(), block));
            return;
        }
        let when = match self.rng.below(10) {
            0 if !state.bad => {
                let result = self.chip.erase(after, block, cause);
                let what = What::Erase { block, fails: result.is_err() };
                let when = result.unwrap_or_else(|failed| failed.at);
                self.model.issued.push(Issued::new(when, what));
                when
            }
            1..=6 if !unused.is_empty() && !state.bad => {
                let place = if self.chip.takes_any_order() { self.rng.below(unused.len() as u32) } else { 0 };
                let ppn = geometry.page(block, unused[place as usize]);
                let (result, units, meta) = if self.rng.below(5) == 0 {
                    let bytes = stamp.to_le_bytes();
                    (self.chip.program_meta(after, ppn, &bytes, cause), Vec::new(), Some(bytes.into()))
                } else {
                    let units: Vec<_> = (0..self.rng.below(geometry.units_per_page() + 1))
                        .map(|slot| {
                            let stamp = stamp * 8 + u64::from(slot);
                            let payload = M::Payload::synthetic(stamp, geometry.unit_bytes());
                            Unit { lpn: Lpn::new(self.rng.below(50)), payload }
                        })
                        .collect();
                    (self.chip.program(after, ppn, &units, stamp, cause), units, None)
                };
                let (units, meta) = if result.is_ok() { (units, meta) } else { (Vec::new(), None) };
                let when = result.unwrap_or_else(|failed| failed.at);
                self.model.issued.push(Issued::new(when, What::Program { ppn, units, meta }));
                when
            }
            _ => {
                let page = self.rng.below(geometry.pages_per_block());
                self.chip.read(after, geometry.page(block, page), Wanted::NONE, cause).when
            }
        };
        self.recent.push(when);
        if self.recent.len() > 6 {
            self.recent.remove(0);
        }
    }

    fn step(&mut self) -> bool {
        self.chip.timing_mut().start();
        for issued in &mut self.model.issued {
            issued.status = match self.chip.timing().has_begun(issued.when) {
                None => Status::Complete,
                Some(true) => Status::Begun,
                Some(false) => Status::Waiting,
            };
        }
        let Some(time) = self.chip.timing().next_event() else { return false };
        assert!(!self.chip.run(time), "{}: nobody watches", self.what);
        assert_eq!(self.chip.timing().now(), time, "{}", self.what);
        let mut ended = Vec::new();
        for (number, issued) in (1..).zip(&mut self.model.issued) {
            let is_new =
                issued.status != Status::Complete && self.chip.timing().has_begun(issued.when).is_none();
            if is_new {
                assert_eq!(issued.status, Status::Begun, "{}: {number} ends before it begins", self.what);
                issued.status = Status::Complete;
                ended.push(number);
            }
        }
        let snapshots = self.chip.take_snapshots();
        let taken: Vec<(u64, bool)> = snapshots.iter().map(|s| (s.operation, s.begun)).collect();
        let mut expected = Vec::new();
        for &number in &ended {
            match self.plan {
                CutPlan::Everywhere => expected.extend([(number, false), (number, true)]),
                CutPlan::At(at) if at == number => expected.push((number, true)),
                CutPlan::At(_) | CutPlan::Never => {}
            }
        }
        let mut sorted = taken.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected, "{}: snapshots at {time:?}", self.what);
        for snapshot in snapshots {
            self.verify(snapshot, time, &ended);
        }
        true
    }

    fn verify(&mut self, snapshot: Snapshot<Chip<ArrayTiming, M>>, time: SimTime, ended: &[u64]) {
        let Snapshot { operation, begun, in_flight, mut flash } = snapshot;
        let place = format!("{}: cut {operation}, begun {begun}, at {time:?}", self.what);
        self.snapshots += 1;
        let statuses = self.model.statuses(operation, begun);
        let torn = statuses.iter().filter(|&&status| status == Status::Begun).count();
        assert_eq!((in_flight.programs + in_flight.erases) as usize, torn, "{place}");
        self.torn += torn as u64;
        self.undone += statuses.iter().filter(|&&status| status == Status::Waiting).count() as u64;
        let expected = self.model.after(&statuses, ended);
        expected.compare(&flash, &place);
        assert_eq!(flash.timing().now(), time, "{place}");
        assert_eq!(flash.timing().next_event(), None, "{place}");
        assert!(flash.take_snapshots().is_empty());
        // The snapshot continues as independent flash.
        let geometry = flash.geometry().clone();
        for block in (0..geometry.blocks()).map(BlockId::new) {
            let page = flash.block(block).pages_programmed;
            let usable =
                !flash.block(block).half_erased && !flash.block(block).bad && !flash.takes_any_order();
            if usable && page < geometry.pages_per_block() {
                let unit = Unit { lpn: Lpn::new(3), payload: M::Payload::synthetic(77, 512) };
                let first = geometry.first_unit_of_page(geometry.page(block, page));
                let done = flash.program(When::START, geometry.page(block, page), &[unit], 9, Cause::Host);
                assert_eq!(flash.lpn(first), done.ok().map(|_| Lpn::new(3)), "{place}");
            }
        }
        flash.drain();
    }
}

fn torture<M: Medium>(seeds: std::ops::Range<u64>) {
    let (mut snapshots, mut torn, mut undone) = (0, 0, 0);
    let seeds = strobe_testing::seeds(seeds);
    let is_whole = seeds.is_whole();
    for seed in seeds {
        let mut bench = Bench::<M>::new(seed.get());
        for stamp in 1..50 {
            bench.something(stamp);
            while bench.rng.below(3) == 0 && bench.step() {}
        }
        while bench.step() {}
        assert!(bench.model.issued.iter().all(|issued| issued.status == Status::Complete));
        let statuses = vec![Status::Complete; bench.model.issued.len()];
        bench.model.after(&statuses, &[]).compare(&bench.chip, &bench.what);
        snapshots += bench.snapshots;
        torn += bench.torn;
        undone += bench.undone;
    }
    eprintln!("{snapshots} cuts, with {torn} operations torn and {undone} that had not begun");
    let is_met = torn > snapshots && undone > snapshots;
    assert!(is_met || !is_whole, "{snapshots}, {torn}, {undone}");
}

#[test]
fn a_cut_leaves_what_was_complete_of_stamps() {
    torture::<StampMedium>(0..1_500);
}

#[test]
fn a_cut_leaves_what_was_complete_of_bytes() {
    torture::<ByteMedium>(10_000..11_000);
}

#[test]
#[ignore = "minutes long: make test-long"]
fn a_cut_leaves_what_was_complete_in_many_drives() {
    torture::<StampMedium>(100_000..160_000);
    torture::<ByteMedium>(200_000..240_000);
}

fn small() -> Chip<ArrayTiming, StampMedium> {
    let geometry = Geometry::new(GeometrySpec {
        channels: 2,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: 2,
        pages_per_block: 4,
        page_bytes: 512,
        unit_bytes: 512,
    })
    .expect("valid");
    let config =
        TimingConfig { read_ns: 3.into(), program_ns: 10.into(), erase_ns: 50, ..TimingConfig::default() };
    let timing = ArrayTiming::new(config, &geometry);
    Chip::new(geometry, WearConfig::default(), timing, 1)
}

fn program(chip: &mut Chip<ArrayTiming, StampMedium>, block: u32, page: u32) -> When {
    let ppn = chip.geometry().page(BlockId::new(block), page);
    let unit = Unit { lpn: Lpn::new(1), payload: 5 };
    chip.program(When::START, ppn, &[unit], 1, Cause::Host).expect("programs")
}

#[test]
fn reports_are_kept_for_those_who_watch() {
    for plan in [CutPlan::Never, CutPlan::Everywhere] {
        let mut chip = small();
        chip.plan_cuts(plan);
        let (first, second, other) =
            (program(&mut chip, 0, 0), program(&mut chip, 0, 1), program(&mut chip, 2, 0));
        chip.timing_mut().watch(first, 1);
        chip.timing_mut().watch(second, 2);
        assert_eq!(chip.finish(other).as_ns(), 10);
        assert_eq!(chip.finish(second).as_ns(), 20);
        chip.timing_mut().watch(When::At(SimTime::from_ns(25)), 3);
        let last = program(&mut chip, 0, 2);
        assert_eq!(chip.drain().as_ns(), 30);
        assert_eq!(chip.timing().has_begun(last), None);
        assert!(chip.run(SimTime::from_ns(100)), "{plan:?}: what is reported is there");
        let mut tokens = Vec::new();
        chip.reported(&mut tokens);
        assert_eq!(tokens, [1, 2, 3], "{plan:?}");
        assert!(!chip.run(SimTime::from_ns(100)));
        assert_eq!(chip.timing().now().as_ns(), 100);
    }
}

#[test]
fn plans_come_and_go_while_operations_are_on_their_way() {
    let mut chip = small();
    let before = program(&mut chip, 0, 0);
    chip.timing_mut().watch(before, 1);
    chip.plan_cuts(CutPlan::Everywhere);
    let during = program(&mut chip, 0, 1);
    chip.timing_mut().watch(during, 2);
    chip.run(SimTime::from_ns(5));
    chip.plan_cuts(CutPlan::Never);
    let after = program(&mut chip, 0, 2);
    chip.timing_mut().watch(after, 3);
    let mut tokens = Vec::new();
    while chip.run(SimTime::from_ns(1000)) {
        chip.reported(&mut tokens);
    }
    assert_eq!(tokens, [1, 2, 3]);
    assert!(chip.take_snapshots().is_empty());
}

#[test]
fn what_is_reported_stays_reported_until_it_is_taken() {
    for at_once in [false, true] {
        let mut chip = small();
        chip.plan_cuts(CutPlan::Everywhere);
        let first = program(&mut chip, 0, 0);
        chip.timing_mut().watch(first, 1);
        chip.run(SimTime::from_ns(5));
        chip.plan_cuts(CutPlan::Never);
        if at_once {
            chip.drain();
        }
        for _ in 0..3 {
            assert!(chip.run(SimTime::from_ns(1000)));
            assert_eq!(chip.timing().now().as_ns(), 10);
        }
        let mut tokens = Vec::new();
        chip.reported(&mut tokens);
        assert_eq!(tokens, [1]);
        assert!(!chip.run(SimTime::from_ns(1000)));
    }
}

#[test]
fn reads_wait_for_the_program_of_their_page() {
    for (any_order, pages) in [(false, [0, 1, 2]), (true, [2, 1, 0])] {
        let mut chip = if any_order { small().in_any_order() } else { small() };
        for page in pages {
            // Completes the others before the last is issued.
            chip.drain();
            program(&mut chip, 0, page);
        }
        let last = chip.geometry().page(BlockId::new(0), pages[2]);
        assert!(chip.is_on_its_way(last));
        let read = chip.read(When::START, last, Wanted::first(1), Cause::Host);
        assert_eq!(chip.finish(read.when).as_ns(), 3 * 10 + 3);
        assert!(!chip.is_on_its_way(last));
    }
}
