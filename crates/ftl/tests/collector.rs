//! What a collection does, seen from outside.
//!
//! All that the page map tells its flash and its victim policy is written down in one log. A naive
//! [`Ledger`] replays it, and the rules of migration, allocation and wear levelling are held against
//! what was done, round by round.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use strobe_ftl::gc::{BlockView, Greedy, Kinetic, LinearScore, VictimPolicy};
use strobe_ftl::wear::Leveling;
use strobe_ftl::{Allocation, GcStream, MappingScheme, Migration, PageMap, PageMapConfig, Temperature};
use strobe_nand::{
    Cause, Chip, CutPlan, EraseFailed, Nand, NandOp, OobRecord, OpCounts, ProgramFailed, Snapshot,
    StampMedium, Unit, Untimed, WearConfig,
};
use strobe_types::{BlockId, Geometry, GeometrySpec, Lpn, Ppa, Ppn, Prng, SimTime};

const T0: SimTime = SimTime::ZERO;

/// One call to the flash or to the victim policy.
#[derive(Clone, Debug)]
enum Event {
    Opened(BlockId),
    Closed(BlockId),
    Taken(BlockId),
    Programmed {
        first: Ppa,
        lpns: Vec<Lpn>,
        cause: Cause,
    },
    ProgramFailed(BlockId),
    Erased(BlockId, Cause),
    /// Out of service.
    Bad(BlockId),
}

type Log = Rc<RefCell<Vec<Event>>>;

/// A chip that writes down what is done to it.
struct Watched {
    chip: Chip<Untimed, StampMedium>,
    log: Log,
}

impl Watched {
    fn note(&self, event: Event) {
        self.log.borrow_mut().push(event);
    }
}

impl Nand for Watched {
    type Payload = u64;

    const TIMED: bool = false;

    fn geometry(&self) -> &Geometry {
        self.chip.geometry()
    }

    fn read(&mut self, now: SimTime, ppn: Ppn, units: u32, cause: Cause) -> SimTime {
        self.chip.read(now, ppn, units, cause)
    }

    fn program(
        &mut self,
        now: SimTime,
        page: Ppn,
        units: &[Unit<u64>],
        sequence: u64,
        cause: Cause,
    ) -> Result<SimTime, ProgramFailed> {
        let result = self.chip.program(now, page, units, sequence, cause);
        let written = match result {
            Ok(_) => units.len(),
            Err(failed) => (failed.programmed * self.geometry().units_per_page()) as usize,
        };
        let lpns = units[..written].iter().map(|unit| unit.lpn).collect();
        self.note(Event::Programmed { first: self.geometry().first_unit_of_page(page), lpns, cause });
        if result.is_err() {
            self.note(Event::ProgramFailed(self.geometry().block_of_page(page)));
        }
        result
    }

    fn program_meta(
        &mut self,
        now: SimTime,
        ppn: Ppn,
        bytes: &[u8],
        cause: Cause,
    ) -> Result<SimTime, ProgramFailed> {
        self.chip.program_meta(now, ppn, bytes, cause)
    }

    fn read_spare(&mut self, now: SimTime, ppn: Ppn, cause: Cause) -> SimTime {
        self.chip.read_spare(now, ppn, cause)
    }

    fn pad(&mut self, now: SimTime, ppn: Ppn, cause: Cause) -> Result<SimTime, ProgramFailed> {
        self.chip.pad(now, ppn, cause)
    }

    fn read_meta(&mut self, now: SimTime, ppn: Ppn, cause: Cause) -> (SimTime, Option<Arc<[u8]>>) {
        self.chip.read_meta(now, ppn, cause)
    }

    fn record(&self, ppn: Ppn) -> Option<OobRecord> {
        self.chip.record(ppn)
    }

    fn is_half_erased(&self, block: BlockId) -> bool {
        self.chip.is_half_erased(block)
    }

    fn plan_cuts(&mut self, plan: CutPlan) {
        self.chip.plan_cuts(plan);
    }

    fn take_snapshots(&mut self) -> Vec<Snapshot<Self>> {
        let log = &self.log;
        let watched = |Snapshot { operation, begun, flash: chip }| Snapshot {
            operation,
            begun,
            flash: Watched { chip, log: Rc::clone(log) },
        };
        self.chip.take_snapshots().into_iter().map(watched).collect()
    }

    fn erase(&mut self, now: SimTime, block: BlockId, cause: Cause) -> Result<SimTime, EraseFailed> {
        let done = self.chip.erase(now, block, cause)?;
        self.note(Event::Erased(block, cause));
        Ok(done)
    }

    fn lpn(&self, ppa: Ppa) -> Option<Lpn> {
        self.chip.lpn(ppa)
    }

    fn payload(&self, ppa: Ppa) -> u64 {
        self.chip.payload(ppa)
    }

    fn pages_programmed(&self, block: BlockId) -> u32 {
        self.chip.pages_programmed(block)
    }

    fn erase_count(&self, block: BlockId) -> u32 {
        self.chip.erase_count(block)
    }

    fn is_bad(&self, block: BlockId) -> bool {
        self.chip.is_bad(block)
    }

    fn mark_bad(&mut self, block: BlockId) {
        self.chip.mark_bad(block);
        self.note(Event::Bad(block));
    }

    fn counts(&self) -> &OpCounts {
        self.chip.counts()
    }

    fn idle_at(&self) -> SimTime {
        self.chip.idle_at()
    }

    fn prefetch_oob(&self, ppa: Ppa) {
        self.chip.prefetch_oob(ppa);
    }

    fn verify_page(&self, ppn: Ppn) -> Result<(), String> {
        self.chip.verify_page(ppn)
    }
}

/// A policy that writes down what it is told of whole blocks.
struct Spy {
    policy: Box<dyn VictimPolicy>,
    log: Log,
}

impl VictimPolicy for Spy {
    fn opened(&mut self, block: BlockId, erase_count: u32, tick: u64) {
        self.log.borrow_mut().push(Event::Opened(block));
        self.policy.opened(block, erase_count, tick);
    }
    fn written(&mut self, unit: Ppa, tick: u64) {
        self.policy.written(unit, tick);
    }
    fn closed(&mut self, block: BlockId, valid: u32, tick: u64) {
        self.log.borrow_mut().push(Event::Closed(block));
        self.policy.closed(block, valid, tick);
    }
    fn invalidated(&mut self, unit: Ppa, block: BlockId, valid: u32, tick: u64) {
        self.policy.invalidated(unit, block, valid, tick);
    }
    fn taken(&mut self, block: BlockId) {
        self.log.borrow_mut().push(Event::Taken(block));
        self.policy.taken(block);
    }
    fn choose(&mut self, view: &BlockView<'_>, rng: &mut Prng) -> Option<BlockId> {
        self.policy.choose(view, rng)
    }
    fn candidates(&self) -> u32 {
        self.policy.candidates()
    }
    fn bytes_per_block() -> u64 {
        0
    }
}

/// How victims are ranked.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ranking {
    Greedy,
    CaPi,
}

impl Ranking {
    fn policy(self, geometry: &Geometry) -> Box<dyn VictimPolicy> {
        match self {
            Self::Greedy => Box::new(Greedy::new(geometry.blocks())),
            Self::CaPi => {
                Box::new(Kinetic::new(geometry.blocks(), geometry.units_per_block(), LinearScore::CaPi))
            }
        }
    }
}

/// What the log tells, kept in the most naive way.
#[derive(Clone, Debug)]
struct Ledger {
    geometry: Geometry,
    /// Where each logical unit lies, and which lie in each block.
    places: Vec<Option<Ppa>>,
    blocks: Vec<BTreeSet<Ppa>>,
    owner: Vec<Option<Lpn>>,
    /// Erased blocks in the order in which they became so.
    free: Vec<BlockId>,
    /// Open blocks with the pages programmed, and closed ones in closing order.
    open: Vec<(BlockId, u32)>,
    closed: Vec<BlockId>,
    erases: Vec<u32>,
    opened_at: Vec<u64>,
    /// Host units written, plus one.
    tick: u64,
    updates: Vec<u32>,
    last_write: Vec<u64>,
}

impl Ledger {
    fn new(geometry: &Geometry, logical_units: u32) -> Self {
        let (logical, blocks) = (logical_units as usize, geometry.blocks() as usize);
        Self {
            geometry: geometry.clone(),
            places: vec![None; logical],
            blocks: vec![BTreeSet::new(); blocks],
            owner: vec![None; geometry.units() as usize],
            free: (0..geometry.blocks()).map(BlockId::new).collect(),
            open: Vec::new(),
            closed: Vec::new(),
            erases: vec![0; blocks],
            opened_at: vec![0; blocks],
            tick: 1,
            updates: vec![0; logical],
            last_write: vec![0; logical],
        }
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Opened(block) => {
                let at = self.free.iter().position(|free| free == block).expect("an opened block was erased");
                self.free.remove(at);
                self.open.push((*block, 0));
                self.opened_at[block.index()] = self.tick;
            }
            Event::Closed(block) => {
                self.open.retain(|(open, _)| open != block);
                self.closed.push(*block);
            }
            Event::Taken(block) => self.closed.retain(|closed| closed != block),
            Event::Programmed { first, lpns, cause } => self.programmed(*first, lpns, *cause),
            Event::ProgramFailed(block) => self.open.retain(|(open, _)| open != block),
            Event::Erased(block, _) => {
                let left = &self.blocks[block.index()];
                assert!(left.is_empty(), "{block:?} was erased with {left:?} in it");
                self.erases[block.index()] += 1;
                self.free.push(*block);
            }
            Event::Bad(block) => assert!(self.blocks[block.index()].is_empty(), "{block:?} is needed"),
        }
    }

    fn programmed(&mut self, first: Ppa, lpns: &[Lpn], cause: Cause) {
        let block = self.geometry.block_of(first);
        let pages = (lpns.len() as u32).div_ceil(self.geometry.units_per_page());
        let open = self.open.iter_mut().find(|(open, _)| *open == block).expect("writes go to open blocks");
        open.1 += pages;
        for (ppa, &lpn) in (0..).map(|at| first.plus(at)).zip(lpns) {
            if let Some(old) = self.places[lpn.index()].replace(ppa) {
                self.blocks[self.geometry.block_of(old).index()].remove(&old);
            }
            self.blocks[block.index()].insert(ppa);
            self.owner[ppa.index()] = Some(lpn);
            if cause == Cause::Host {
                self.tick += 1;
                self.updates[lpn.index()] += 1;
                self.last_write[lpn.index()] = self.tick;
            }
        }
    }

    /// The logical units that lie in `block`.
    fn units(&self, block: BlockId) -> Vec<Lpn> {
        let owner = |ppa: &Ppa| self.owner[ppa.index()].expect("programmed");
        self.blocks[block.index()].iter().map(owner).collect()
    }

    fn temperature(&self, measure: Temperature, lpn: Lpn) -> f64 {
        let (updates, last) = (self.updates[lpn.index()], self.last_write[lpn.index()]);
        match measure {
            Temperature::UpdateCount => f64::from(updates),
            Temperature::UpdateRate => f64::from(updates) / (self.tick + 1 - last) as f64,
            Temperature::LastWrite => last as f64,
        }
    }

    /// All closed blocks, the one to collect first in front.
    fn ranked(&self, ranking: Ranking) -> Vec<BlockId> {
        let valid = |block: BlockId| self.blocks[block.index()].len() as u128;
        let mut blocks = self.closed.clone();
        match ranking {
            // The order of closing, which a stable sort keeps, breaks ties.
            Ranking::Greedy => blocks.sort_by_key(|&block| valid(block)),
            Ranking::CaPi => {
                let all = u128::from(self.geometry.units_per_block());
                // age·(1−u)/(1+u)² as numerator and denominator.
                let score = |block: BlockId| {
                    let age = u128::from(self.tick + 1 - self.opened_at[block.index()]);
                    (age * (all - valid(block)), (all + valid(block)).pow(2))
                };
                blocks.sort_by(|&a, &b| {
                    let (x, y) = (score(a), score(b));
                    (y.0 * x.1).cmp(&(x.0 * y.1)).then(a.cmp(&b))
                });
            }
        }
        blocks
    }
}

/// Blocks that were emptied together.
struct Round {
    /// How things stood before.
    before: Ledger,
    cause: Cause,
    victims: Vec<BlockId>,
    copies: Vec<(Lpn, Ppa)>,
    /// Blocks opened for the copies.
    opened: Vec<BlockId>,
    /// Erased blocks after.
    free_after: usize,
}

impl Round {
    fn units(&self) -> Vec<Lpn> {
        self.victims.iter().flat_map(|&victim| self.before.units(victim)).collect()
    }
}

/// A block that was opened, which erased ones there were to choose from, and what it took first.
#[derive(Debug)]
struct Opening {
    block: BlockId,
    /// In the order of erasure, with their erase counts.
    free: Vec<(BlockId, u32)>,
    first: (Lpn, Cause),
}

/// A page map with its ledger.
struct Bench {
    ftl: PageMap<Watched, Spy>,
    config: PageMapConfig,
    log: Log,
    ledger: Ledger,
    stamps: Vec<u64>,
    openings: Vec<Opening>,
    /// Blocks with a failed program, and those out of service.
    failed: Vec<BlockId>,
    bad: BTreeSet<BlockId>,
}

impl Bench {
    fn new(spec: GeometrySpec, ranking: Ranking, config: PageMapConfig, wear: WearConfig) -> Self {
        let geometry = Geometry::new(spec).expect("valid geometry");
        let log = Log::default();
        let spy = Spy { policy: ranking.policy(&geometry), log: Rc::clone(&log) };
        let chip = Chip::new(geometry.clone(), wear, Untimed, config.seed);
        let nand = Watched { chip, log: Rc::clone(&log) };
        Self {
            ftl: PageMap::new(nand, spy, config).expect("the drive is not too full"),
            config,
            log,
            ledger: Ledger::new(&geometry, config.logical_units),
            stamps: vec![0; config.logical_units as usize],
            openings: Vec::new(),
            failed: Vec::new(),
            bad: BTreeSet::new(),
        }
    }

    /// A drive that has been written once from start to end.
    fn filled(spec: GeometrySpec, ranking: Ranking, config: PageMapConfig) -> Self {
        let mut bench = Self::new(spec, ranking, config, WearConfig::default());
        for lpn in 0..config.logical_units {
            bench.write(lpn);
        }
        bench
    }

    /// Writes one unit; returns what was collected for it.
    fn write(&mut self, lpn: u32) -> Vec<Round> {
        let stamp = self.ledger.tick;
        let unit = Unit { lpn: Lpn::new(lpn), payload: stamp };
        self.ftl.write(T0, &[unit]).expect("progress is guaranteed");
        self.stamps[lpn as usize] = stamp;
        self.replay()
    }

    fn replay(&mut self) -> Vec<Round> {
        let events = self.log.take();
        let mut rounds: Vec<Round> = Vec::new();
        let mut choosing = false;
        for event in &events {
            match event {
                Event::Taken(victim) => {
                    if !choosing {
                        rounds.push(Round {
                            before: self.ledger.clone(),
                            cause: Cause::Gc,
                            victims: Vec::new(),
                            copies: Vec::new(),
                            opened: Vec::new(),
                            free_after: 0,
                        });
                    }
                    rounds.last_mut().expect("begun").victims.push(*victim);
                }
                Event::Opened(block) => {
                    let free = self.ledger.free.iter().map(|&b| (b, self.ledger.erases[b.index()])).collect();
                    self.openings.push(Opening { block: *block, free, first: (Lpn::new(0), Cause::Pad) });
                    if let Some(round) = rounds.last_mut() {
                        round.opened.push(*block);
                    }
                }
                Event::Programmed { first, lpns, cause } => {
                    let block = self.ledger.geometry.block_of(*first);
                    let opening = self.openings.last_mut().filter(|opening| opening.block == block);
                    if let Some(opening) = opening.filter(|opening| opening.first.1 == Cause::Pad)
                        && let Some(&lpn) = lpns.first()
                    {
                        opening.first = (lpn, *cause);
                    }
                    // Blocks that leave service are emptied without having been chosen.
                    if *cause != Cause::Host
                        && let Some(round) = rounds.last_mut()
                    {
                        round.cause = *cause;
                        round.copies.extend((0..).map(|at| first.plus(at)).zip(lpns).map(|(p, &l)| (l, p)));
                    }
                }
                Event::Erased(_, cause) => rounds.last_mut().expect("it was a victim").cause = *cause,
                Event::Bad(block) => assert!(self.bad.insert(*block), "{block:?} went bad twice"),
                Event::ProgramFailed(block) => self.failed.push(*block),
                Event::Closed(_) => {}
            }
            choosing = matches!(event, Event::Taken(_));
            self.ledger.apply(event);
            if let Some(round) = rounds.last_mut()
                && matches!(event, Event::Erased(..))
            {
                round.free_after = self.ledger.free.len();
            }
        }
        rounds
    }

    /// Where `lpn` lies.
    fn place(&self, lpn: u32) -> Ppa {
        self.ledger.places[lpn as usize].expect("written")
    }

    /// Content, state, and counters against the ledger's.
    fn check(&mut self) {
        self.ftl.check().expect("every invariant holds");
        let mut read = Vec::new();
        self.ftl.read(T0, Lpn::new(0), self.stamps.len() as u32, &mut read);
        assert_eq!(read, self.stamps);
        let erases: Vec<u32> = (0..self.ledger.erases.len() as u32)
            .map(|block| self.ftl.nand().erase_count(BlockId::new(block)))
            .collect();
        assert_eq!(erases, self.ledger.erases);
        assert_eq!(self.ftl.free_blocks() as usize, self.ledger.free.len());
    }
}

/// One die with one plane, pages of one unit.
fn spec(blocks_per_plane: u32, pages_per_block: u32) -> GeometrySpec {
    GeometrySpec {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane,
        pages_per_block,
        page_bytes: 512,
        unit_bytes: 512,
    }
}

/// Writes to a drive of which each fifth is written twice as often as the one before.
struct Skewed {
    rng: Prng,
    units: u32,
}

impl Skewed {
    fn new(units: u32) -> Self {
        Self { rng: Prng::new(11), units }
    }

    fn next(&mut self) -> u32 {
        let fifth = self.units / 5;
        let class = match self.rng.below(31) {
            0 => 0,
            1..3 => 1,
            3..7 => 2,
            7..15 => 3,
            _ => 4,
        };
        // Scattered, so that a sequential fill does not separate the classes.
        let unit = class + 5 * self.rng.below(fifth);
        unit.min(self.units - 1)
    }
}

const STREAMS: [GcStream; 2] = [GcStream::Own, GcStream::Host];
const TEMPERATURES: [Temperature; 3] =
    [Temperature::UpdateCount, Temperature::UpdateRate, Temperature::LastWrite];

/// The victims that sorted migration should take: the first ones of the ranking, as many as it
/// takes to have `target` erased blocks, the one that the host finds open among them.
fn victims_needed(before: &Ledger, config: &PageMapConfig, ranking: Ranking, target: u32) -> Vec<BlockId> {
    let geometry = &before.geometry;
    let pages = geometry.pages_per_block();
    let ranked = before.ranked(ranking);
    // The only block that may be open at this moment is that of earlier copies.
    let room = match config.gc_stream {
        GcStream::Own => before.open.iter().map(|&(_, programmed)| pages - programmed).sum(),
        GcStream::Host => 0,
    };
    for count in 1..=ranked.len() {
        let victims = &ranked[..count];
        let units: usize = victims.iter().map(|victim| before.blocks[victim.index()].len()).sum();
        let units = units as u32;
        let rest_pages = (units % geometry.units_per_block()).div_ceil(geometry.units_per_page());
        let written = units / geometry.units_per_block() + u32::from(rest_pages > room);
        assert!(written < before.free.len() as u32, "this test has blocks enough in hand");
        let left_open = config.gc_stream == GcStream::Host && rest_pages > 0 && rest_pages < pages;
        if before.free.len() as u32 + count as u32 + u32::from(left_open) >= target + written {
            return victims.to_vec();
        }
    }
    panic!("no number of victims is enough");
}

#[test]
fn sorted_migration_takes_the_best_victims_and_no_more_than_it_needs() {
    let mut several = 0;
    for ranking in [Ranking::Greedy, Ranking::CaPi] {
        for gc_stream in STREAMS {
            for (net_blocks, units_per_page) in [(1, 1), (2, 1), (4, 1), (2, 2)] {
                let shape = GeometrySpec { page_bytes: 512 * units_per_page, ..spec(64, 8) };
                let config = PageMapConfig {
                    gc_stream,
                    net_blocks,
                    migration: Migration::Sorted,
                    min_free_blocks: Some(12),
                    ..PageMapConfig::new(280 * units_per_page)
                };
                let mut bench = Bench::filled(shape, ranking, config);
                let mut traffic = Skewed::new(config.logical_units);
                let mut calls = 0;
                for _ in 0..6000 {
                    let free = bench.ledger.free.len() as u32;
                    let rounds = bench.write(traffic.next());
                    assert!(rounds.len() <= 1, "one round is enough");
                    let Some(round) = rounds.first() else { continue };
                    calls += 1;
                    let target = 12.max(free + net_blocks);
                    let needed = victims_needed(&round.before, &config, ranking, target);
                    assert_eq!(round.victims, needed, "{ranking:?} {config:?}");
                    several += u32::from(needed.len() > 2);
                }
                assert!(calls > 100, "{calls} calls");
                bench.check();
                assert_eq!(bench.ftl.gc_stats().victims, bench.ftl.nand().counts().total(NandOp::Erase));
            }
        }
    }
    assert!(several > 1000, "victims are sorted together: {several}");
}

#[test]
fn sorted_migration_gives_the_coldest_units_blocks_of_their_own() {
    let mut cold_blocks = 0;
    for gc_stream in STREAMS {
        for temperature in TEMPERATURES {
            for units_per_page in [1, 2] {
                let shape = GeometrySpec { page_bytes: 512 * units_per_page, ..spec(64, 8) };
                let config = PageMapConfig {
                    gc_stream,
                    temperature,
                    net_blocks: 3,
                    migration: Migration::Sorted,
                    min_free_blocks: Some(8),
                    ..PageMapConfig::new(340 * units_per_page)
                };
                let mut bench = Bench::filled(shape, Ranking::Greedy, config);
                let mut traffic = Skewed::new(config.logical_units);
                for _ in 0..6000 {
                    let lpn = traffic.next();
                    for round in bench.write(lpn) {
                        cold_blocks += check_sorted(&bench, &round, bench.place(lpn));
                    }
                }
                bench.check();
            }
        }
    }
    assert!(cold_blocks > 5000, "{cold_blocks} blocks of cold units");
}

/// Checks where the units of `round` went, after which the host wrote at `host`. Returns how many
/// blocks of cold units there were.
fn check_sorted(bench: &Bench, round: &Round, host: Ppa) -> usize {
    let geometry = &round.before.geometry;
    let per_block = geometry.units_per_block() as usize;
    let mut units = round.units();
    let mut copied: Vec<Lpn> = round.copies.iter().map(|&(lpn, _)| lpn).collect();
    units.sort();
    copied.sort();
    assert_eq!(copied, units, "exactly the valid units are copied, each once");

    let heat = |lpn: Lpn| round.before.temperature(bench.config.temperature, lpn);
    let of_block = |wanted: BlockId| {
        let copies = round.copies.iter().filter(move |&&(_, ppa)| geometry.block_of(ppa) == wanted);
        copies.map(|&(lpn, _)| heat(lpn)).collect::<Vec<f64>>()
    };
    let is_whole = |block: &BlockId| of_block(*block).len() == per_block;
    let cold: Vec<BlockId> = round.opened.iter().copied().filter(is_whole).collect();
    assert_eq!(cold.len(), units.len() / per_block, "as many whole blocks as the units fill");
    let (mut hottest, mut all_cold) = (0.0, Vec::new());
    for &block in &cold {
        let heats = of_block(block);
        assert!(heats.iter().all(|&heat| heat >= hottest), "a colder unit than in the block before");
        hottest = heats.iter().copied().fold(hottest, f64::max);
        all_cold.extend(heats);
    }
    let rest: Vec<(Lpn, Ppa)> =
        round.copies.iter().copied().filter(|&(_, ppa)| !cold.contains(&geometry.block_of(ppa))).collect();
    assert_eq!(rest.len(), units.len() % per_block);
    assert!(rest.iter().all(|&(lpn, _)| heat(lpn) >= hottest), "a cold unit is not among the cold ones");
    assert_eq!(all_cold.len() + rest.len(), units.len());

    assert!(!cold.contains(&geometry.block_of(host)), "the host writes to a block of cold units");
    match (bench.config.gc_stream, rest.last()) {
        (_, None) => {}
        (GcStream::Own, _) => {
            let mixed = rest.iter().any(|&(_, ppa)| geometry.block_of(ppa) == geometry.block_of(host));
            assert!(!mixed, "the host writes to a block of copies");
        }
        (GcStream::Host, Some(&(_, last))) => {
            let next = geometry.page_of(last).get() + 1;
            if next.is_multiple_of(geometry.pages_per_block()) {
                return cold.len(); // Padded: the rest has filled a block.
            }
            assert_eq!(geometry.page_of(host).get(), next, "the host goes on right behind the rest");
        }
    }
    cold.len()
}

/// Who writes to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Host,
    Hot,
    Cold,
}

#[test]
fn hot_cold_migration_splits_each_victim_at_its_mean_temperature() {
    for planes_per_die in [1, 2] {
        for gc_stream in STREAMS {
            for temperature in TEMPERATURES {
                let shape = GeometrySpec { planes_per_die, ..spec(64 / planes_per_die, 8) };
                let config = PageMapConfig {
                    gc_stream,
                    temperature,
                    migration: Migration::HotCold,
                    ..PageMapConfig::new(340)
                };
                let mut bench = Bench::filled(shape, Ranking::Greedy, config);
                check_hot_cold(&mut bench);
                bench.check();
            }
        }
    }
}

fn check_hot_cold(bench: &mut Bench) {
    let geometry = bench.ledger.geometry.clone();
    let mut traffic = Skewed::new(bench.config.logical_units);
    let mut classes: Vec<Option<Class>> = vec![None; geometry.blocks() as usize];
    let mut split = 0;
    for step in 0..8000 {
        let lpn = traffic.next();
        let mut writes = Vec::new();
        for round in bench.write(lpn) {
            assert_eq!(round.victims.len(), 1);
            let units = round.units();
            let heat = |lpn: Lpn| round.before.temperature(bench.config.temperature, lpn);
            let sum: f64 = units.iter().map(|&lpn| heat(lpn)).sum();
            let count = units.len() as f64;
            let (mut hot, mut cold) = (0, 0);
            assert_eq!(round.copies.len(), units.len());
            for &(lpn, ppa) in &round.copies {
                assert!(units.contains(&lpn));
                let at = heat(lpn) * count / sum;
                // Too close to call for floating point, whose sums depend on their order.
                if at != 1.0 && (at - 1.0).abs() < 1e-9 {
                    continue;
                }
                let class = match (at < 1.0, bench.config.gc_stream) {
                    (true, _) => Class::Cold,
                    (false, GcStream::Own) => Class::Hot,
                    (false, GcStream::Host) => Class::Host,
                };
                *(if class == Class::Cold { &mut cold } else { &mut hot }) += 1;
                writes.push((geometry.block_of(ppa), class));
            }
            split += u32::from(hot > 0 && cold > 0);
            classes[round.victims[0].index()] = None;
        }
        // Blocks of the fill and those of host writes since.
        writes.push((geometry.block_of(bench.place(lpn)), Class::Host));
        for (block, class) in writes {
            let seen = classes[block.index()].get_or_insert(class);
            assert_eq!(*seen, class, "step {step}: {block:?} takes both");
        }
        let streams = if bench.config.gc_stream == GcStream::Own { 3 } else { 2 };
        let open = bench.ledger.open.len() as u32;
        assert!(open <= streams * geometry.planes(), "{open} blocks are open");
    }
    assert!(split > 500, "{split} victims held hot and cold units");
    for class in [Class::Host, Class::Cold] {
        assert!(classes.contains(&Some(class)), "no block of {class:?}");
    }
    assert_eq!(classes.contains(&Some(Class::Hot)), bench.config.gc_stream == GcStream::Own);
}

/// Victim by victim until the net gain is there, and no longer.
#[test]
fn unsorted_collection_stops_when_the_net_gain_is_there() {
    for migration in [Migration::None, Migration::HotCold] {
        for net_blocks in [1, 2, 5] {
            let config = PageMapConfig { migration, net_blocks, ..PageMapConfig::new(340) };
            let mut bench = Bench::filled(spec(64, 8), Ranking::Greedy, config);
            let trigger = if migration == Migration::None { 3 } else { 4 };
            let mut traffic = Skewed::new(config.logical_units);
            let mut calls = 0;
            for _ in 0..4000 {
                let free = bench.ledger.free.len();
                let rounds = bench.write(traffic.next());
                let target = trigger.max(free + net_blocks as usize);
                for (at, round) in rounds.iter().enumerate() {
                    assert_eq!(round.victims[..], round.before.ranked(Ranking::Greedy)[..1]);
                    let enough = round.free_after >= target;
                    assert_eq!(enough, at + 1 == rounds.len(), "{config:?}: round {at} of {}", rounds.len());
                }
                calls += u32::from(!rounds.is_empty());
            }
            assert!(calls > 50, "{calls} calls");
            bench.check();
        }
    }
}

/// The naive rule of allocation: which of the erased blocks should have been opened.
fn check_opening(opening: &Opening, allocation: Allocation, is_cold: bool) {
    let opened = opening.free.iter().find(|&&(block, _)| block == opening.block).expect("it was erased");
    let counts = || opening.free.iter().map(|&(_, erases)| erases);
    let (most, least) = (counts().max(), counts().min());
    let worn = opening.first.1 == Cause::Wear || allocation == Allocation::Adaptive && is_cold;
    if worn {
        assert_eq!(Some(opened.1), most, "{opening:?}");
        return;
    }
    let first = match allocation {
        Allocation::Fifo => opening.free.first(),
        _ => opening.free.iter().find(|&&(_, erases)| Some(erases) == least),
    };
    assert_eq!(Some(opened), first, "{opening:?}");
}

#[test]
fn blocks_are_opened_in_the_order_that_allocation_says() {
    for allocation in [Allocation::Fifo, Allocation::LeastErased, Allocation::Adaptive] {
        for leveling in [None, Some(Leveling::Swap { threshold: 4 })] {
            for gc_stream in STREAMS {
                let config = PageMapConfig {
                    gc_stream,
                    allocation,
                    leveling,
                    migration: Migration::HotCold,
                    min_free_blocks: Some(12),
                    ..PageMapConfig::new(340)
                };
                let mut bench = Bench::filled(spec(64, 8), Ranking::Greedy, config);
                let mut traffic = Skewed::new(config.logical_units);
                let (mut cold, mut worn) = (0, 0);
                for _ in 0..8000 {
                    bench.openings.clear();
                    let rounds = bench.write(traffic.next());
                    for opening in &bench.openings {
                        let (lpn, cause) = opening.first;
                        let is_cold = cause == Cause::Gc && is_below_mean(&rounds, lpn);
                        check_opening(opening, allocation, is_cold);
                        cold += u32::from(is_cold);
                        worn += u32::from(cause == Cause::Wear);
                    }
                }
                assert!(cold > 100, "{cold} blocks opened for cold units");
                assert!(leveling.is_none() || worn > 0, "no block opened by wear levelling");
                bench.check();
            }
        }
    }
}

/// Whether `lpn`, which was copied, is colder than the mean of the victim it came from.
fn is_below_mean(rounds: &[Round], lpn: Lpn) -> bool {
    let round = rounds.iter().find(|round| round.copies.iter().any(|&(copied, _)| copied == lpn));
    let round = round.expect("it was copied");
    let heat = |lpn: Lpn| round.before.temperature(Temperature::UpdateCount, lpn);
    let sum: f64 = round.units().into_iter().map(heat).sum();
    heat(lpn) * (round.units().len() as f64) < sum
}

/// A drive of 64 blocks of 16 units, 800 of them logical, of which the host never rewrites the
/// first `still`, after `writes` writes to the others.
fn worn_drive(config: PageMapConfig, still: u32, writes: u32) -> Bench {
    let config = PageMapConfig { logical_units: 800, ..config };
    let mut bench = Bench::filled(spec(64, 16), Ranking::Greedy, config);
    let mut rng = Prng::new(3);
    for _ in 0..writes {
        bench.write(still + rng.below(800 - still));
    }
    bench.check();
    bench
}

/// Allocation says nothing of data that stays; among the blocks that take turns it evens out what
/// chance does.
#[test]
fn the_least_erased_block_first_narrows_the_spread_of_erase_counts() {
    for gc_stream in STREAMS {
        let stddev = |allocation| {
            let config = PageMapConfig { gc_stream, allocation, ..PageMapConfig::new(340) };
            let mut bench = Bench::filled(spec(64, 8), Ranking::Greedy, config);
            let mut traffic = Skewed::new(config.logical_units);
            (0..60_000).for_each(|_| drop(bench.write(traffic.next())));
            bench.check();
            bench.ftl.wear().erase_stddev
        };
        let (fifo, young) = (stddev(Allocation::Fifo), stddev(Allocation::LeastErased));
        assert!(young * 1.5 < fifo, "{gc_stream:?}: {young} against {fifo}");
    }
}

/// Each leveler with its threshold and the spread of erase counts that it should hold.
///
/// * Swap moves a block for each collection as soon as the spread exceeds the threshold. The block
///   that takes the data is the most worn of the few erased ones, which may be one of the least worn:
///   then it falls behind until it is full and its data known to be cold. Twice the threshold.
/// * Dual-pool lets the hot pool spread over twice the threshold before it gives up its least worn
///   block, one for each collection, and half of the cold data starts there. Three times.
/// * In a round of SW Leveler there are at most `threshold` erases for each block. They fall on the
///   two fifths of the blocks with hot data, 2.5 × `threshold` on each, until the next round moves
///   cold data there. Four times.
const LEVELERS: [(Leveling, u32, u32); 3] = [
    (Leveling::Swap { threshold: 20 }, 20, 40),
    (Leveling::DualPool { threshold: 20 }, 20, 60),
    (Leveling::SwLeveler { threshold: 10, set_blocks: 1 }, 10, 40),
];

#[test]
fn static_wear_leveling_bounds_the_spread_that_cold_data_causes() {
    for gc_stream in STREAMS {
        for allocation in [Allocation::Fifo, Allocation::LeastErased] {
            let config = PageMapConfig { gc_stream, allocation, ..PageMapConfig::new(0) };
            let wear = worn_drive(config, 480, 60_000).ftl.wear();
            assert!(wear.erase_min == 0 && wear.erase_max > 150, "{wear:?}");
            for (leveling, threshold, bound) in LEVELERS {
                let config = PageMapConfig { leveling: Some(leveling), ..config };
                let mut bench = worn_drive(config, 480, 0);
                let mut rng = Prng::new(3);
                let (mut moved, mut still) = (0, 0);
                for _ in 0..60_000 {
                    let rounds = bench.write(480 + rng.below(320));
                    for round in rounds.iter().filter(|round| round.cause == Cause::Wear) {
                        moved += 1;
                        still += round.copies.iter().filter(|(lpn, _)| lpn.get() < 480).count() as u64;
                    }
                    let erases = &bench.ledger.erases;
                    let spread = erases.iter().max().unwrap_or(&0) - erases.iter().min().unwrap_or(&0);
                    assert!(spread <= bound, "{config:?}: erase counts spread over {spread}");
                }
                bench.check();
                let (stats, counts) = (*bench.ftl.gc_stats(), bench.ftl.nand().counts().clone());
                assert_eq!(counts.get(NandOp::Program, Cause::Wear), stats.wear_units_moved);
                assert_eq!(counts.get(NandOp::Read, Cause::Wear), stats.wear_units_moved);
                assert_eq!(counts.get(NandOp::Erase, Cause::Wear), stats.wear_blocks);
                assert_eq!(counts.get(NandOp::Program, Cause::Gc), stats.units_moved);
                assert_eq!(counts.get(NandOp::Erase, Cause::Gc), stats.victims);
                assert_eq!(stats.wear_blocks, moved);
                // What has to move is the data that stays.
                let units = stats.wear_units_moved;
                assert!(still * 100 >= units * 98, "{config:?}: {still} of {units} units");
                assert!(moved > 50, "{config:?}: {moved} blocks");
                // A block is moved only after it has fallen `threshold` erases behind, or when there
                // were as many for each set: at most one of so many erases is a leveler's.
                let share = u64::from(threshold);
                let erases = counts.total(NandOp::Erase);
                assert!(moved * share <= erases, "{config:?}: {moved} of {erases} erases");
                let (extra, programs) = (stats.wear_units_moved, counts.total(NandOp::Program));
                assert!(extra * share <= programs, "{config:?}: {extra} of {programs} programs");
            }
        }
    }
}

#[test]
fn static_wear_leveling_leaves_uniform_traffic_alone() {
    for gc_stream in STREAMS {
        for (allocation, share) in [(Allocation::LeastErased, 1000), (Allocation::Fifo, 200)] {
            for (leveling, ..) in LEVELERS {
                let leveling = Some(leveling);
                let config = PageMapConfig { gc_stream, allocation, leveling, ..PageMapConfig::new(0) };
                let stats = *worn_drive(config, 0, 60_000).ftl.gc_stats();
                assert!(stats.victims > 5000);
                assert!(
                    stats.wear_blocks * share <= stats.victims,
                    "{config:?}: {} moved",
                    stats.wear_blocks
                );
            }
        }
    }
}

/// Regression: on a shared stream they were never emptied, as the host always had room left.
#[test]
fn blocks_with_a_failed_program_are_out_of_service_when_the_host_needs_another_block() {
    for migration in [Migration::None, Migration::HotCold, Migration::Sorted] {
        for gc_stream in STREAMS {
            let config = PageMapConfig { gc_stream, migration, fault_reserve: 2, ..PageMapConfig::new(400) };
            let wear = WearConfig { program_fail_rate: 0.002, ..WearConfig::default() };
            let mut bench = Bench::new(spec(160, 8), Ranking::Greedy, config, wear);
            let mut traffic = Skewed::new(config.logical_units);
            let mut due: Vec<(u32, BlockId)> = Vec::new();
            for step in 0..6000 {
                let known = bench.failed.len();
                bench.write(traffic.next());
                due.extend(bench.failed[known..].iter().map(|&block| (step + 8, block)));
                for &(_, block) in due.iter().filter(|&&(last, _)| last <= step) {
                    assert!(bench.bad.contains(&block), "{config:?}: {block:?} is still in service");
                }
            }
            bench.check();
            assert_eq!(bench.failed.len() as u64, bench.ftl.gc_stats().program_failures);
            assert!(bench.failed.len() > 8, "{} programs failed", bench.failed.len());
        }
    }
}
