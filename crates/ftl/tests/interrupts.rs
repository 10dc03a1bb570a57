//! Collections that end early: stopped on request, or without progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use strobe_ftl::gc::{AnyPolicy, BlockView, Greedy, Sampled, Sampling, VictimPolicy};
use strobe_ftl::{
    BlockMap, BlockMapConfig, BlockScheme, FtlError, GcStream, Inspectable, MappingScheme, PageMap,
    PageMapConfig, PlacementKind, RecoveryError, TranslationConfig, WriteContext,
};
use strobe_nand::{Cause, Chip, Nand, StampMedium, Unit, Untimed, WearConfig, When};
use strobe_types::{BlockId, Geometry, GeometrySpec, Lpn, Ppa, Prng, SimTime, StopFlag};

const T0: When = When::START;
const BLOCKS: u32 = 64;
const PER_BLOCK: u32 = 32;
const UNITS: u32 = 1000;

type TestChip = Chip<Untimed, StampMedium>;

fn chip(page_units: u32) -> TestChip {
    let spec = GeometrySpec {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: BLOCKS,
        pages_per_block: 16,
        page_bytes: 512 * page_units,
        unit_bytes: 512,
    };
    let geometry = Geometry::new(spec).expect("valid geometry");
    Chip::new(geometry, WearConfig::default(), Untimed::default(), 1)
}

fn flag() -> (Arc<AtomicBool>, StopFlag) {
    let raised = Arc::new(AtomicBool::new(false));
    (Arc::clone(&raised), raised.into())
}

#[derive(Clone)]
struct Raising {
    greedy: Greedy,
    choices: Arc<AtomicU64>,
    at: u64,
    raised: Arc<AtomicBool>,
}

impl VictimPolicy for Raising {
    fn closed(&mut self, block: BlockId, valid: u32, tick: u64) {
        self.greedy.closed(block, valid, tick);
    }

    fn invalidated(&mut self, unit: Ppa, block: BlockId, valid: u32, tick: u64) {
        self.greedy.invalidated(unit, block, valid, tick);
    }

    fn taken(&mut self, block: BlockId) {
        self.greedy.taken(block);
    }

    fn choose(&mut self, view: &BlockView<'_>, rng: &mut Prng) -> Option<BlockId> {
        if self.choices.fetch_add(1, Ordering::Relaxed) + 1 == self.at {
            self.raised.store(true, Ordering::Relaxed);
        }
        self.greedy.choose(view, rng)
    }

    fn candidates(&self) -> u32 {
        self.greedy.candidates()
    }

    fn bytes_per_block() -> u64 {
        Greedy::bytes_per_block()
    }
}

fn write(map: &mut impl MappingScheme<Payload = u64>, lpn: u32, payload: u64) -> Result<When, FtlError> {
    map.write(T0, &[Unit { lpn: Lpn::new(lpn), payload }], WriteContext::HOST)
}

fn fill(map: &mut impl MappingScheme<Payload = u64>, units: u32) {
    for lpn in 0..units {
        write(map, lpn, 1 + u64::from(lpn)).expect("writes");
    }
}

#[test]
fn a_collection_that_is_asked_to_stop_ends_after_the_victim_at_hand() {
    let demand_paged = TranslationConfig { batched_eviction: false, ..TranslationConfig::new(100) };
    for (translation, net_blocks) in [(None, 1), (None, 12), (Some(demand_paged), 12)] {
        let (raised, stop) = flag();
        let choices = Arc::new(AtomicU64::new(0));
        let (greedy, count) = (Greedy::new(BLOCKS), Arc::clone(&choices));
        let policy = Raising { greedy, choices: count, at: 300, raised: Arc::clone(&raised) };
        let config = PageMapConfig { translation, net_blocks, ..PageMapConfig::new(UNITS) };
        let mut map = PageMap::new(chip(2), AnyPolicy::new(policy), config).expect("room");
        map.nand_mut().set_stop(stop);
        let (mut stamps, mut rng) = (vec![0; UNITS as usize], Prng::new(7));
        let mut moved = 0;
        let failed = (1..1_000_000_u64).find_map(|stamp| {
            moved = map.stats().gc.units_moved;
            let lpn = if stamp <= UNITS.into() { stamp as u32 - 1 } else { rng.below(UNITS) };
            match write(&mut map, lpn, stamp) {
                Ok(_) => {
                    stamps[lpn as usize] = stamp;
                    None
                }
                Err(error) => Some((lpn, error)),
            }
        });
        let (at, error) = failed.expect("the flag is raised before");
        assert_eq!(error, FtlError::Interrupted);
        assert!(raised.load(Ordering::Relaxed));
        assert!(choices.load(Ordering::Relaxed) <= 300, "no further victim is chosen");
        let more = map.stats().gc.units_moved - moved;
        assert!(more <= u64::from(PER_BLOCK * net_blocks), "{more} units for the last write");
        // Reads are served, and no data is lost.
        for (lpn, &stamp) in (0..).zip(&stamps).filter(|&(lpn, _)| lpn != at) {
            assert_eq!(map.peek(Lpn::new(lpn)), stamp, "{lpn}");
        }
        let refused = (0..PER_BLOCK).find_map(|lpn| write(&mut map, lpn, 1).err());
        assert_eq!(refused, Some(FtlError::Interrupted));
        assert_eq!(map.check(), Ok(()));
    }
}

#[test]
fn trims_and_copies_of_many_units_are_given_up() {
    let (raised, stop) = flag();
    let mut map = PageMap::new(chip(2), Greedy::new(BLOCKS), PageMapConfig::new(UNITS)).expect("room");
    map.nand_mut().set_stop(stop);
    fill(&mut map, 400);
    raised.store(true, Ordering::Relaxed);
    assert_eq!(map.copy(T0, Lpn::new(0), Lpn::new(500), 400), Err(FtlError::Interrupted));
    assert_eq!(map.trim(T0, Lpn::new(0), 400), Err(FtlError::Interrupted));
    assert_eq!((map.peek(Lpn::new(0)), map.peek(Lpn::new(500))), (1, 0), "neither has begun");
}

#[test]
fn merges_of_block_mapped_schemes_are_given_up() {
    for scheme in [BlockScheme::ReplacementBlock, BlockScheme::LogBlock, BlockScheme::Fast] {
        let (raised, stop) = flag();
        let config = BlockMapConfig::new(scheme, 400, 6);
        let mut map = BlockMap::new(chip(1).in_any_order(), config).expect("room");
        map.nand_mut().set_stop(stop);
        let mut rng = Prng::new(3);
        for stamp in 0..2000 {
            write(&mut map, rng.below(400), stamp).expect("writes");
        }
        map.check().expect("sound");
        raised.store(true, Ordering::Relaxed);
        let refused = (0..200).find_map(|stamp| write(&mut map, rng.below(400), stamp).err());
        assert_eq!(refused, Some(FtlError::Interrupted), "{scheme:?}");
        assert_eq!(write(&mut map, 0, 1), Err(FtlError::Interrupted));
    }
}

#[test]
fn the_checker_gives_no_verdict_when_it_is_asked_to_stop() {
    fn damaged(map: &mut impl Inspectable<Payload = u64, Nand = TestChip>) {
        let (raised, stop) = flag();
        map.nand_mut().set_stop(stop);
        fill(map, 100);
        map.nand_mut().erase(T0, BlockId::new(0), Cause::Gc).expect("the chip does not know better");
        map.check().expect_err("units that are mapped are gone");
        raised.store(true, Ordering::Relaxed);
        assert_eq!(map.check(), Ok(()));
    }
    damaged(&mut PageMap::new(chip(2), Greedy::new(BLOCKS), PageMapConfig::new(UNITS)).expect("room"));
    let fast = BlockMapConfig::new(BlockScheme::Fast, 400, 6);
    damaged(&mut BlockMap::new(chip(1), fast).expect("room"));
}

#[test]
fn a_recovery_that_is_asked_to_stop_says_so() {
    for translation in [None, Some(TranslationConfig::new(100))] {
        let config = PageMapConfig { translation, durable: true, ..PageMapConfig::new(UNITS / 2) };
        let mut map = PageMap::new(chip(2), Greedy::new(BLOCKS), config).expect("room");
        fill(&mut map, 300);
        map.flush(T0).expect("flushes");
        let mut flash = map.nand().clone();
        PageMap::restart(flash.clone(), Greedy::new(BLOCKS), config, SimTime::ZERO).expect("is found again");
        let (raised, stop) = flag();
        raised.store(true, Ordering::Relaxed);
        flash.set_stop(stop);
        let ended = PageMap::restart(flash, Greedy::new(BLOCKS), config, SimTime::ZERO).map(drop);
        assert_eq!(ended, Err(RecoveryError::Interrupted));
    }
}

/// Chooses the block closed last, which holds the units just moved.
#[derive(Clone, Default)]
struct Newest(Vec<BlockId>);

impl VictimPolicy for Newest {
    fn closed(&mut self, block: BlockId, _: u32, _: u64) {
        self.0.push(block);
    }

    fn invalidated(&mut self, _: Ppa, _: BlockId, _: u32, _: u64) {}

    fn taken(&mut self, block: BlockId) {
        self.0.retain(|&one| one != block);
    }

    fn choose(&mut self, _: &BlockView<'_>, _: &mut Prng) -> Option<BlockId> {
        self.0.last().copied()
    }

    fn candidates(&self) -> u32 {
        self.0.len() as u32
    }

    fn bytes_per_block() -> u64 {
        0
    }
}

#[test]
fn a_policy_whose_victims_gain_nothing_is_overruled() {
    // With an odd number of units per block, each victim gains one unit, which the last page of its copies
    // takes again.
    let mut map = PageMap::new(chip(2), Newest::default(), PageMapConfig::new(UNITS)).expect("room");
    let pair = |first: u32| [0, 1].map(|at| Unit { lpn: Lpn::new(first + at), payload: 1 });
    let mut most = 0;
    for first in (0..UNITS - 1).step_by(31).cycle().take(2_000) {
        // 15 full pages, and one with a single unit.
        for lpn in (first..(first + 30).min(UNITS - 1)).step_by(2) {
            let before = map.stats().gc.victims;
            map.write(T0, &pair(lpn), WriteContext::HOST).expect("makes victim_bound");
            most = most.max(map.stats().gc.victims - before);
        }
        write(&mut map, (first + 30).min(UNITS - 1), 1).expect("makes victim_bound");
    }
    assert_eq!(map.check(), Ok(()));
    let gc = map.stats().gc;
    assert!(gc.overruled > 0 && gc.overruled < gc.victims, "{gc:?}");
    // One block to gain, with 16 pages.
    let bound = u64::from(2 * (2 * BLOCKS + PER_BLOCK / 2));
    assert!(most > u64::from(2 * BLOCKS) && most <= bound, "{most} victims for one write, at most {bound}");
}

#[test]
fn hot_cold_migration_on_a_demand_paged_drive_stays_within_the_bound() {
    // Maximum cost: copies to two padded streams, and a translation page update for nearly every unit.
    let how = TranslationConfig { batched_eviction: false, ..TranslationConfig::new(40) };
    let config = PageMapConfig {
        translation: Some(how),
        placement: PlacementKind::HotCold,
        gc_stream: GcStream::Host,
        ..PageMapConfig::new(UNITS)
    };
    let policy = Sampled::new(BLOCKS, Sampling::Fifo);
    let mut map = PageMap::new(chip(2), policy, config).expect("room");
    let mut most = 0;
    for at in 0..20_000_u32 {
        let before = map.stats().gc.units_moved;
        write(&mut map, (at * 7 + at / 3) % UNITS, 1).expect("makes victim_bound");
        most = most.max(map.stats().gc.units_moved - before);
    }
    map.check().expect("sound");
    let bound = u64::from(2 * (2 * BLOCKS + PER_BLOCK) * PER_BLOCK);
    assert!((1..bound).contains(&most), "{most} units for one write");
}
