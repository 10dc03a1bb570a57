use std::collections::BTreeSet;
use std::rc::Rc;

use strobe_ftl::{GcStream, Inspectable, MappingScheme, PageMap, PageMapConfig, Temperature, WriteContext};
use strobe_nand::{Cause, Chip, Nand, Unit, Untimed, WearConfig, When};
use strobe_types::{BlockId, Geometry, GeometrySpec, Lpn, Ppa, Prng};

use super::ledger::{Ledger, Ranking};
use super::watched::{Event, Log, Spy, Watched};

const T0: When = When::START;
pub(super) struct Round {
    pub(super) before: Ledger,
    pub(super) cause: Cause,
    pub(super) victims: Vec<BlockId>,
    pub(super) copies: Vec<(Lpn, Ppa)>,
    pub(super) opened: Vec<BlockId>,
    pub(super) free_after: usize,
}

impl Round {
    pub(super) fn units(&self) -> Vec<Lpn> {
        self.victims.iter().flat_map(|&victim| self.before.units(victim)).collect()
    }
}

#[derive(Debug)]
pub(super) struct Opening {
    pub(super) block: BlockId,
    /// In order of erasure, with erase counts.
    pub(super) free: Vec<(BlockId, u32)>,
    pub(super) first: (Lpn, Cause),
    pub(super) erases: Vec<u32>,
}

pub(super) struct Bench {
    pub(super) ftl: PageMap<Watched, Spy>,
    pub(super) config: PageMapConfig,
    pub(super) log: Log,
    pub(super) ledger: Ledger,
    pub(super) stamps: Vec<u64>,
    pub(super) openings: Vec<Opening>,
    pub(super) failed: Vec<BlockId>,
    pub(super) bad: BTreeSet<BlockId>,
}

impl Bench {
    pub(super) fn new(spec: GeometrySpec, ranking: Ranking, config: PageMapConfig, wear: WearConfig) -> Self {
        let geometry = Geometry::new(spec).expect("valid geometry");
        let log = Log::default();
        let spy = Spy { policy: ranking.policy(&geometry), log: Rc::clone(&log) };
        let chip = Chip::new(geometry.clone(), wear, Untimed::default(), config.seed);
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

    pub(super) fn filled(spec: GeometrySpec, ranking: Ranking, config: PageMapConfig) -> Self {
        let mut bench = Self::new(spec, ranking, config, WearConfig::default());
        for lpn in 0..config.logical_units {
            bench.write(lpn);
        }
        bench
    }

    pub(super) fn write(&mut self, lpn: u32) -> Vec<Round> {
        let stamp = self.ledger.tick;
        let unit = Unit { lpn: Lpn::new(lpn), payload: stamp };
        self.ftl.write(T0, &[unit], WriteContext::HOST).expect("progress is guaranteed");
        self.stamps[lpn as usize] = stamp;
        self.replay()
    }

    pub(super) fn replay(&mut self) -> Vec<Round> {
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
                    let first = (Lpn::new(0), Cause::Pad);
                    let erases = self.ledger.erases.clone();
                    self.openings.push(Opening { block: *block, free, first, erases });
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
                    // Blocks that leave service are emptied without being chosen.
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

    pub(super) fn place(&self, lpn: u32) -> Ppa {
        self.ledger.places[lpn as usize].expect("written")
    }

    pub(super) fn check(&mut self) {
        self.ftl.check().expect("every invariant holds");
        let mut read = Vec::new();
        self.ftl.read(T0, Lpn::new(0), self.stamps.len() as u32, &mut read).expect("reads");
        assert_eq!(read, self.stamps);
        let erases: Vec<u32> = (0..self.ledger.erases.len() as u32)
            .map(|block| self.ftl.nand().block(BlockId::new(block)).erase_count)
            .collect();
        assert_eq!(erases, self.ledger.erases);
        assert_eq!(self.ftl.free_blocks() as usize, self.ledger.free.len());
    }
}

pub(super) fn spec(blocks_per_plane: u32, pages_per_block: u32) -> GeometrySpec {
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

/// Each fifth of the units is written twice as often as the previous one.
pub(super) struct Skewed {
    pub(super) rng: Prng,
    pub(super) units: u32,
}

impl Skewed {
    pub(super) fn new(units: u32) -> Self {
        Self { rng: Prng::new(11), units }
    }

    pub(super) fn next(&mut self) -> u32 {
        let fifth = self.units / 5;
        let class = match self.rng.below(31) {
            0 => 0,
            1..3 => 1,
            3..7 => 2,
            7..15 => 3,
            _ => 4,
        };
        // Scattered: a sequential fill must not separate the classes.
        let unit = class + 5 * self.rng.below(fifth);
        unit.min(self.units - 1)
    }
}

pub(super) const STREAMS: [GcStream; 2] = [GcStream::Own, GcStream::Host];
pub(super) const TEMPERATURES: [Temperature; 3] =
    [Temperature::UpdateCount, Temperature::UpdateRate, Temperature::LastWrite];

/// 64 blocks of 16 units, 800 logical; the first `still` units are never rewritten.
pub(super) fn worn_drive(config: PageMapConfig, still: u32, writes: u32) -> Bench {
    let config = PageMapConfig { logical_units: 800, ..config };
    let mut bench = Bench::filled(spec(64, 16), Ranking::Greedy, config);
    let mut rng = Prng::new(3);
    for _ in 0..writes {
        bench.write(still + rng.below(800 - still));
    }
    bench.check();
    bench
}
