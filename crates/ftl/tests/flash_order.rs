//! Cause before effect in time: a flash that writes down when each operation begins and ends shows that
//! no operation starts before what it relies on is complete. Cuts in the order of the calls cannot show
//! that, as a call may be given a time before the end of an earlier one.

use std::collections::BTreeMap;
use std::sync::Arc;

use strobe_ftl::gc::Greedy;
use strobe_ftl::wear::Leveling;
use strobe_ftl::{
    BlockMap, BlockMapConfig, BlockScheme, GcStream, Inspectable, MappingScheme, Migration, PageMap,
    PageMapConfig, TranslationConfig,
};
use strobe_nand::{
    ArrayTiming, BlockState, Cause, Chip, EraseFailed, Nand, OobRecord, OpCounts, ProgramFailed, StampMedium,
    TimingConfig, Unit, WearConfig,
};
use strobe_types::{BlockId, Geometry, GeometrySpec, Lpn, Ppa, Ppn, Prng, SimTime};

type Timed = Chip<ArrayTiming, StampMedium>;

/// A chip that checks, at each operation, the times it is given.
#[derive(Clone)]
struct Watched {
    chip: Timed,
    /// When the last data page so far is on flash, and the last page of the log.
    data: SimTime,
    log: SimTime,
    /// When the last page of an epoch is on flash.
    epoch: SimTime,
    /// When the last version of each logical unit is on flash.
    newest: BTreeMap<Lpn, SimTime>,
    /// Blocks in use by the log.
    log_blocks: Vec<bool>,
    /// Whether recovery looks only into the blocks that the last epoch names.
    epochs_name_blocks: bool,
    checks: u64,
}

impl Watched {
    fn new(chip: Timed) -> Self {
        let blocks = chip.geometry().blocks() as usize;
        let zero = SimTime::ZERO;
        Self {
            chip,
            data: zero,
            log: zero,
            epoch: zero,
            newest: BTreeMap::new(),
            log_blocks: vec![false; blocks],
            epochs_name_blocks: true,
            checks: 0,
        }
    }

    fn ensure(&mut self, now: SimTime, after: SimTime, what: &str) {
        self.checks += 1;
        assert!(now >= after, "{what}: starts at {now:?}, {after:?} would be right");
    }
}

impl Nand for Watched {
    type Payload = u64;
    const TIMED: bool = true;

    fn geometry(&self) -> &Geometry {
        self.chip.geometry()
    }

    fn read(&mut self, now: SimTime, ppn: Ppn, units: u32, cause: Cause) -> SimTime {
        self.chip.read(now, ppn, units, cause)
    }

    fn program(
        &mut self,
        now: SimTime,
        first: Ppn,
        units: &[Unit<u64>],
        sequence: u64,
        cause: Cause,
    ) -> Result<SimTime, ProgramFailed> {
        if units.is_empty() {
            // Padding is nobody's data.
            return self.chip.program(now, first, units, sequence, cause);
        }
        if self.epochs_name_blocks && self.chip.geometry().page_in_block(first) == 0 {
            self.ensure(now, self.epoch, "a block is written before the epoch that names it");
        }
        let result = self.chip.program(now, first, units, sequence, cause);
        let done = result.as_ref().map_or_else(|failed| failed.at, |&done| done);
        self.data = self.data.max(done);
        self.newest.extend(units.iter().map(|unit| (unit.lpn, done)));
        result
    }

    fn program_meta(
        &mut self,
        now: SimTime,
        ppn: Ppn,
        bytes: &[u8],
        cause: Cause,
    ) -> Result<SimTime, ProgramFailed> {
        self.ensure(now, self.log, "a page of the log before the one it follows");
        self.ensure(now, self.data, "a page of the log before the data it refers to");
        let result = self.chip.program_meta(now, ppn, bytes, cause);
        let done = result.as_ref().map_or_else(|failed| failed.at, |&done| done);
        self.log = self.log.max(done);
        // Byte 12 says what the page carries; 0: part of an epoch.
        if bytes[12] == 0 {
            self.epoch = self.epoch.max(done);
        }
        let block = self.chip.geometry().block_of_page(ppn);
        self.log_blocks[block.index()] = true;
        result
    }

    fn erase(&mut self, now: SimTime, block: BlockId, cause: Cause) -> Result<SimTime, EraseFailed> {
        match self.log_blocks[block.index()] {
            true => self.ensure(now, self.log, "a block of the log is erased before it can be spared"),
            false => {
                self.ensure(now, self.epoch, "a block is erased before an epoch releases it");
                let geometry = self.chip.geometry().clone();
                let first = geometry.first_unit(block);
                for ppa in (0..geometry.units_per_block()).map(|at| first.plus(at)) {
                    let written = self.chip.is_programmed(geometry.page_of(ppa));
                    let newest = self.chip.lpn(ppa).filter(|_| written).and_then(|lpn| self.newest.get(&lpn));
                    if let Some(&newest) = newest {
                        self.ensure(
                            now,
                            newest,
                            "a version is erased before the one that replaces it is there",
                        );
                    }
                }
            }
        }
        self.chip.erase(now, block, cause)
    }

    fn read_meta(&mut self, now: SimTime, ppn: Ppn, cause: Cause) -> (SimTime, Option<Arc<[u8]>>) {
        self.chip.read_meta(now, ppn, cause)
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

    fn idle_at(&self) -> SimTime {
        self.chip.idle_at()
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
    // Reads are slow beside programs: what waits for too little is seen.
    let timing = TimingConfig {
        read_ns: 40_000,
        program_ns: 200_000,
        erase_ns: 1_500_000,
        channel_mb_s: 100,
        spare_bytes: 0,
        cache_program: false,
    };
    let array = ArrayTiming::new(timing, &geometry);
    Watched::new(Chip::new(geometry, wear, array, 1).in_any_order())
}

/// Commands arrive at random times, some before the end of the last one, with a flush now and then.
fn use_it(drive: &mut impl Inspectable<Payload = u64, Nand = Watched>, seed: u64) {
    let mut rng = Prng::new(seed);
    let units = drive.logical_units();
    let mut now = SimTime::ZERO;
    for number in 0..4000u64 {
        let first = rng.below(units);
        let most = [3, 40][rng.below(2) as usize];
        let count = 1 + rng.below((units - first).min(most));
        let done = match rng.below(10) {
            0 => drive.trim(now, Lpn::new(first), count),
            1 => {
                let to = rng.below(units - count + 1);
                let apart = to + count <= first || first + count <= to;
                match apart {
                    true => drive.copy(now, Lpn::new(first), Lpn::new(to), count),
                    false => Ok(now),
                }
            }
            2 => {
                let done = drive.flush(now).expect("flushes");
                let nand = drive.nand();
                assert!(done >= nand.epoch, "a flush ends at {done:?}, its epoch at {:?}", nand.epoch);
                Ok(done)
            }
            _ => {
                let unit = |lpn| Unit { lpn: Lpn::new(lpn), payload: number };
                let units: Vec<Unit<u64>> = (first..first + count).map(unit).collect();
                drive.write(now, &units, Cause::Host)
            }
        };
        let done = done.unwrap_or_else(|error| panic!("{error}"));
        // Half of the hosts do not wait.
        if rng.below(2) == 0 {
            now = now.max(done);
        }
    }
    drive.check().expect("state");
}

#[test]
fn nothing_starts_before_what_it_relies_on() {
    for seed in 0..12 {
        let mut rng = Prng::new(seed);
        let config = PageMapConfig {
            durable: true,
            gc_stream: if rng.below(2) == 0 { GcStream::Own } else { GcStream::Host },
            migration: [Migration::None, Migration::HotCold][rng.below(2) as usize],
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
        let checks = drive.nand().checks;
        assert!(checks > 1000, "seed {seed}: {checks} checks");
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
        assert!(map.nand().checks > 1000, "seed {seed}: {} checks", map.nand().checks);
        for scheme in [BlockScheme::ReplacementBlock, BlockScheme::LogBlock, BlockScheme::Fast] {
            let config =
                BlockMapConfig { scheme, logical_units: 200, log_blocks: 4, fault_reserve: 0, durable: true };
            let mut map = BlockMap::new(flash(planes, 1024, WearConfig::default()), config).expect("room");
            map.nand_mut().epochs_name_blocks = false;
            use_it(&mut map, seed);
            assert!(map.nand().checks > 1000, "{scheme:?} seed {seed}: {} checks", map.nand().checks);
        }
    }
}
