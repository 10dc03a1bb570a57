//! Causal order: a flash checks at every instant that no operation has begun before its prerequisites were
//! complete.

use std::collections::BTreeMap;
use std::sync::Arc;

use strobe_ftl::gc::Greedy;
use strobe_ftl::wear::Leveling;
use strobe_ftl::{
    BlockMap, BlockMapConfig, BlockScheme, GcStream, Inspectable, MappingScheme, PageMap, PageMapConfig,
    PlacementKind, TranslationConfig, WriteContext,
};
use strobe_nand::{
    ArrayTiming, BlockState, Cause, Chip, EraseFailed, Nand, OobRecord, OpCounts, ProgramFailed, ReadDone,
    StampMedium, Timing, TimingConfig, Unit, Wanted, WearConfig, When,
};
use strobe_types::{BlockId, Geometry, GeometrySpec, Lpn, Ppa, Ppn, Prng, SimTime};

type Timed = Chip<ArrayTiming, StampMedium>;

#[derive(Clone, Debug)]
struct Reliance {
    dependent: When,
    is_command: bool,
    on: Vec<When>,
    what: &'static str,
}

#[derive(Clone)]
struct Watched {
    chip: Timed,
    data: Vec<When>,
    host_data: Vec<When>,
    log: Vec<When>,
    epoch: Vec<When>,
    last_epoch: When,
    erased: Vec<When>,
    newest: BTreeMap<Lpn, When>,
    log_blocks: Vec<bool>,
    epochs_name_blocks: bool,
    reliances: Vec<Reliance>,
    checks: u64,
    waits: u64,
}

impl Watched {
    fn new(chip: Timed) -> Self {
        let blocks = chip.geometry().blocks() as usize;
        Self {
            chip,
            data: Vec::new(),
            host_data: Vec::new(),
            log: Vec::new(),
            epoch: Vec::new(),
            last_epoch: When::START,
            erased: vec![When::START; blocks],
            newest: BTreeMap::new(),
            log_blocks: vec![false; blocks],
            epochs_name_blocks: true,
            reliances: Vec::new(),
            checks: 0,
            waits: 0,
        }
    }

    fn is_complete(&self, when: When) -> bool {
        self.chip.timing().has_begun(when).is_none()
    }

    fn ensure(&mut self, dependent: When, is_command: bool, on: &[When], what: &'static str) {
        self.checks += 1;
        let on: Vec<When> = on.iter().copied().filter(|&when| !self.is_complete(when)).collect();
        self.waits += u64::from(!on.is_empty());
        self.reliances.push(Reliance { dependent, is_command, on, what });
        self.look();
    }

    fn look(&mut self) {
        let timing = self.chip.timing();
        let is_complete = |when: When| timing.has_begun(when).is_none();
        self.reliances.retain(|reliance| {
            let begun = timing.has_begun(reliance.dependent);
            let is_due = if reliance.is_command { begun.is_none() } else { begun != Some(false) };
            let is_right = !is_due || reliance.on.iter().all(|&on| is_complete(on));
            assert!(is_right, "{}: at {:?}", reliance.what, timing.now());
            !is_due
        });
        for kept in [&mut self.data, &mut self.host_data, &mut self.log, &mut self.epoch] {
            kept.retain(|&when| !is_complete(when));
        }
    }

    fn programmed(&mut self, done: When, units: &[Unit<u64>], cause: Cause) {
        self.data.push(done);
        if matches!(cause, Cause::Host | Cause::Copy) {
            self.host_data.push(done);
        }
        self.newest.extend(units.iter().map(|unit| (unit.lpn, done)));
    }

    fn flushed(&mut self, done: When) {
        let (epoch, host_data) = (self.epoch.clone(), self.host_data.clone());
        self.ensure(done, true, &epoch, "a flush ends before its epoch");
        self.ensure(done, true, &host_data, "a flush ends before what was written is there");
    }
}

impl Nand for Watched {
    type Payload = u64;

    type Timing = ArrayTiming;

    fn timing(&self) -> &ArrayTiming {
        self.chip.timing()
    }

    fn timing_mut(&mut self) -> &mut ArrayTiming {
        self.chip.timing_mut()
    }

    fn run(&mut self, until: SimTime) -> bool {
        loop {
            let next = self.chip.timing().next_event().filter(|&next| next <= until);
            let is_new = self.chip.run(next.unwrap_or(until));
            self.look();
            if is_new || next.is_none() {
                return is_new;
            }
        }
    }

    fn has_reported(&self) -> bool {
        self.chip.has_reported()
    }

    fn next_reported(&mut self) -> Option<u64> {
        self.chip.next_reported()
    }

    fn finish(&mut self, when: When) -> SimTime {
        while !self.is_complete(when) {
            let next = self.chip.timing().next_event().expect("something is on its way");
            self.run(next);
        }
        self.chip.finish(when)
    }

    fn drain(&mut self) -> SimTime {
        while let Some(next) = self.chip.timing().next_event() {
            self.run(next);
        }
        self.chip.drain()
    }

    fn geometry(&self) -> &Geometry {
        self.chip.geometry()
    }

    fn pages_per_program(&self) -> u32 {
        self.chip.pages_per_program()
    }

    fn read(&mut self, after: When, ppn: Ppn, wanted: Wanted, cause: Cause) -> ReadDone {
        self.chip.read(after, ppn, wanted, cause)
    }

    /// The pages of a run begin one by one.
    fn program(
        &mut self,
        after: When,
        first: Ppn,
        units: &[Unit<u64>],
        sequence: u64,
        cause: Cause,
    ) -> Result<When, ProgramFailed> {
        if units.is_empty() {
            // Padding is not data.
            return self.chip.program(after, first, units, sequence, cause);
        }
        let mut all = after;
        for (number, page) in (0..).zip(units.chunks(self.chip.geometry().units_per_page() as usize)) {
            let ppn = first.plus(number);
            let result = self.chip.program(after, ppn, page, sequence + u64::from(number), cause);
            let done = result.as_ref().map_or_else(|failed| failed.at, |&done| done);
            if self.epochs_name_blocks && self.chip.geometry().page_in_block(ppn) == 0 {
                let epoch = self.epoch.clone();
                self.ensure(done, false, &epoch, "a block is written before the epoch that names it");
                let erased = self.erased[self.chip.geometry().block_of_page(ppn).index()];
                let what = "an epoch opens a block before it is erased";
                self.ensure(self.last_epoch, false, &[erased], what);
            }
            if result.is_err() {
                return Err(ProgramFailed { programmed: number, at: self.chip.both(all, done) });
            }
            self.programmed(done, page, cause);
            all = if number == 0 { done } else { self.chip.both(all, done) };
        }
        Ok(all)
    }

    fn program_meta(
        &mut self,
        after: When,
        ppn: Ppn,
        bytes: &[u8],
        cause: Cause,
    ) -> Result<When, ProgramFailed> {
        let result = self.chip.program_meta(after, ppn, bytes, cause);
        let done = result.as_ref().map_or_else(|failed| failed.at, |&done| done);
        let (log, data) = (self.log.clone(), self.data.clone());
        self.ensure(done, false, &log, "a page of the log before the one it follows");
        self.ensure(done, false, &data, "a page of the log before the data it refers to");
        self.log.push(done);
        // Byte 12 is the kind of page; 0 is part of an epoch.
        if bytes[12] == 0 {
            self.epoch.push(done);
            self.last_epoch = done;
        }
        let block = self.chip.geometry().block_of_page(ppn);
        self.log_blocks[block.index()] = true;
        result
    }

    fn erase(&mut self, after: When, block: BlockId, cause: Cause) -> Result<When, EraseFailed> {
        let geometry = self.chip.geometry().clone();
        let first = geometry.first_unit(block);
        let held: Vec<Lpn> = (0..geometry.units_per_block())
            .map(|at| first.plus(at))
            .filter(|&ppa| self.chip.is_programmed(geometry.page_of(ppa)))
            .filter_map(|ppa| self.chip.lpn(ppa))
            .collect();
        let result = self.chip.erase(after, block, cause);
        let done = result.as_ref().map_or_else(|failed| failed.at, |&done| done);
        self.erased[block.index()] = done;
        if self.log_blocks[block.index()] {
            let log = self.log.clone();
            self.ensure(done, false, &log, "a block of the log is erased before it can be spared");
        } else {
            let epoch = self.epoch.clone();
            self.ensure(done, false, &epoch, "a block is erased before an epoch releases it");
            let newest: Vec<When> = held.iter().filter_map(|lpn| self.newest.get(lpn).copied()).collect();
            let what = "a version is erased before the one that replaces it is there";
            self.ensure(done, false, &newest, what);
        }
        result
    }

    fn read_meta(&mut self, after: When, ppn: Ppn, cause: Cause) -> (ReadDone, Option<Arc<[u8]>>) {
        self.chip.read_meta(after, ppn, cause)
    }

    fn lpn(&self, ppa: Ppa) -> Option<Lpn> {
        self.chip.lpn(ppa)
    }

    fn payload(&self, ppa: Ppa) -> u64 {
        self.chip.payload(ppa)
    }

    fn record(&self, ppn: Ppn) -> Option<OobRecord> {
        self.chip.record(ppn)
    }

    fn block(&self, block: BlockId) -> BlockState {
        self.chip.block(block)
    }

    fn mark_bad(&mut self, block: BlockId) {
        self.chip.mark_bad(block);
    }

    fn counts(&self) -> &OpCounts {
        self.chip.counts()
    }

    fn is_programmed(&self, ppn: Ppn) -> bool {
        self.chip.is_programmed(ppn)
    }

    fn takes_any_order(&self) -> bool {
        self.chip.takes_any_order()
    }
}

fn drive(planes: [u32; 2], config: PageMapConfig, wear: WearConfig) -> PageMap<Watched, Greedy> {
    let flash = flash(planes, 512, wear);
    let policy = Greedy::new(flash.geometry().blocks());
    PageMap::new(flash, policy, config).expect("room")
}

fn flash(planes: [u32; 2], unit_bytes: u32, wear: WearConfig) -> Watched {
    let geometry = Geometry::new(GeometrySpec {
        channels: planes[0],
        dies_per_channel: 1,
        planes_per_die: planes[1],
        blocks_per_plane: 64,
        pages_per_block: 8,
        page_bytes: 1024,
        unit_bytes,
    })
    .expect("valid geometry");
    // Slow reads compared with programs reveal a missing prerequisite.
    let timing = TimingConfig {
        read_ns: 40_000.into(),
        program_ns: 200_000.into(),
        erase_ns: 1_500_000,
        channel_mb_s: 100,
        ..TimingConfig::default()
    };
    let array = ArrayTiming::new(timing, &geometry);
    Watched::new(Chip::new(geometry, wear, array, 1).in_any_order())
}

fn use_it(drive: &mut impl Inspectable<Payload = u64, Nand = Watched>, seed: u64) {
    let mut rng = Prng::new(seed);
    let units = drive.logical_units();
    for number in 0..2500u64 {
        let first = rng.below(units);
        let most = [3, 40][rng.below(2) as usize];
        let count = 1 + rng.below((units - first).min(most));
        // The data of some commands arrives late.
        let arrives = drive.nand().timing().now() + [0, 5_000][rng.below(2) as usize];
        let now = When::At(arrives);
        let done = match rng.below(10) {
            0 => drive.trim(now, Lpn::new(first), count),
            1 => {
                let to = rng.below(units - count + 1);
                let apart = to + count <= first || first + count <= to;
                if apart { drive.copy(now, Lpn::new(first), Lpn::new(to), count) } else { Ok(now) }
            }
            2 => {
                let done = drive.flush(now).expect("flushes");
                drive.nand_mut().flushed(done);
                Ok(done)
            }
            _ => {
                let unit = |lpn| Unit { lpn: Lpn::new(lpn), payload: number };
                let units: Vec<Unit<u64>> = (first..first + count).map(unit).collect();
                drive.write(now, &units, WriteContext::HOST)
            }
        };
        let done = done.unwrap_or_else(|error| panic!("{error}"));
        match rng.below(4) {
            0 | 1 => drop(drive.nand_mut().finish(done)),
            2 => {
                let until = drive.nand().timing().now() + u64::from(rng.below(300_000));
                drive.nand_mut().run(until);
            }
            _ => {}
        }
    }
    drive.nand_mut().drain();
    assert!(drive.nand().reliances.is_empty(), "something was never done");
    drive.check().expect("state");
}

fn assert_checked(nand: &Watched, what: &str) {
    let Watched { checks, waits, .. } = nand;
    assert!(*checks > 1000 && *waits > 200, "{what}: {checks} checks, {waits} of what had to wait");
}

#[test]
fn nothing_starts_before_what_it_relies_on() {
    for seed in 0..12 {
        let mut rng = Prng::new(seed);
        let config = PageMapConfig {
            durable: true,
            gc_stream: if rng.below(2) == 0 { GcStream::Own } else { GcStream::Host },
            placement: [PlacementKind::Single, PlacementKind::HotCold][rng.below(2) as usize],
            leveling: (rng.below(3) == 0).then_some(Leveling::Swap { threshold: 2 }),
            virtual_map_entries: 32 * rng.below(2),
            fault_reserve: 8,
            seed,
            ..PageMapConfig::new(300)
        };
        let wear = WearConfig {
            program_fail_rate: if rng.below(3) == 0 { 1e-4 } else { 0.0 },
            ..Default::default()
        };
        let planes = [1 + rng.below(2), 1 + rng.below(2)];
        let mut drive = drive(planes, config, wear);
        use_it(&mut drive, seed);
        assert_checked(drive.nand(), &format!("seed {seed}"));
    }
}

#[test]
fn nor_does_it_where_the_map_is_paged_or_blocks_are_mapped() {
    for seed in 0..8 {
        let mut rng = Prng::new(seed);
        let planes = [1 + rng.below(2), 1 + rng.below(2)];
        let paged = PageMapConfig {
            durable: true,
            translation: Some(TranslationConfig { entry_bytes: 64, ..TranslationConfig::new(40) }),
            seed,
            ..PageMapConfig::new(200)
        };
        let mut map = drive(planes, paged, WearConfig::default());
        map.nand_mut().epochs_name_blocks = false;
        use_it(&mut map, seed);
        assert_checked(map.nand(), &format!("seed {seed}"));
        for scheme in [BlockScheme::ReplacementBlock, BlockScheme::LogBlock, BlockScheme::Fast] {
            let config = BlockMapConfig { durable: true, ..BlockMapConfig::new(scheme, 200, 4) };
            let mut map = BlockMap::new(flash(planes, 1024, WearConfig::default()), config).expect("room");
            map.nand_mut().epochs_name_blocks = false;
            use_it(&mut map, seed);
            assert_checked(map.nand(), &format!("{scheme:?} seed {seed}"));
        }
    }
}
