//! Use of the dies while host writes wait for space.
//!
//! Writers keep the drive saturated. A die may be idle only for a short time: collection, its map updates and the
//! host must share the dies, whatever the mapping and the placement.

use strobe_ssd::{
    Command, DataMode, DieAllocation, DriveConfig, GcMode, Hint, Range, Simulated, WearLevelingName, build,
};
use strobe_types::{Lba, Prng, SimTime};

use crate::cut_in_time::fill;
use crate::setup::{self, UNIT};
use crate::waiting::{Depths, Loops};

fn config(mapping: &str, scheme: &str, rng: &mut Prng) -> DriveConfig {
    let mut config = setup::config();
    let nand = &mut config.nand;
    (nand.channels, nand.dies_per_channel) = (2, [2, 4][rng.below(2) as usize]);
    (nand.planes_per_die, nand.blocks_per_plane) = ([1, 2][rng.below(2) as usize], 64);
    nand.pages_per_block = 32;
    nand.page_bytes = [4096, 16_384][rng.below(2) as usize];
    nand.data = DataMode::Bytes;
    config.ftl.mapping = mapping.to_owned();
    config.ftl.placement.scheme = scheme.into();
    if mapping == "dftl" {
        config.ftl.translation.cached_entries = 2_000;
    }
    config.ftl.gc.mode = GcMode::Background;
    config.ftl.die_allocation = DieAllocation::FreeFirst;
    let dies = nand_dies(&config);
    let units = config.nand.page_bytes / config.ftl.mapping_unit_bytes;
    let pages = dies * config.nand.planes_per_die * 64 * 32;
    config.ftl.logical_pages = Some(pages * units * 6 / 10);
    config
}

fn nand_dies(config: &DriveConfig) -> u32 {
    config.nand.channels * config.nand.dies_per_channel
}

/// Share of the dies' time in use under writers only, after the drive was written once more.
fn busy(config: &DriveConfig, seed: u64) -> f64 {
    let mut drive = build(config, true, seed).unwrap_or_else(|error| panic!("{config:?}: {error}"));
    let now = fill(&mut *drive).expect("filled");
    let pages = u64::from(config.ftl.logical_pages.expect("given"));
    let depths = Depths { readers: 0, writers: 64, flushers: 0 };
    let mut loops =
        Loops { drive, depths, rng: Prng::new(seed), now, longest_ns: 0, done: [0; 3], handles: 1 };
    let forever = SimTime::from_ns(u64::MAX);
    assert!(loops.run(forever, pages), "seed {seed}: {config:?}");
    let held = |drive: &dyn Simulated| drive.stats().occupancy.held_ns.iter().sum::<u64>();
    let (from, before) = (loops.now, held(&*loops.drive));
    let victims = loops.drive.stats().gc.victims;
    assert!(loops.resume(forever, 2 * pages), "seed {seed}: {config:?}");
    assert!(loops.drive.stats().gc.victims > victims, "seed {seed}: nothing was collected");
    let span = loops.now.since(from) * u64::from(nand_dies(config));
    (held(&*loops.drive) - before) as f64 / span as f64
}

#[test]
fn dies_are_in_use_while_writes_wait() {
    for (mapping, scheme) in
        [("page", "none"), ("page", "sepbit"), ("page", "dac"), ("page", "sorted"), ("dftl", "none")]
    {
        for seed in 0..2 {
            let mut rng = Prng::derive(seed, "saturated");
            let config = config(mapping, scheme, &mut rng);
            let busy = busy(&config, seed);
            println!("{mapping} {scheme} {seed}: {busy:.3}");
            assert!(
                busy >= 0.8,
                "{mapping}, {scheme}, seed {seed}: {busy:.3} of the dies' time, of {config:?}"
            );
        }
    }
}

/// Wear levelling gains no space: levelled blocks must not be followed by others to level, or they take the place of
/// all victims.
#[test]
fn wear_levelling_does_not_displace_collection() {
    for (mapping, victims) in [("page", 1), ("page", 4), ("dftl", 4)] {
        let mut rng = Prng::derive(7, "levelled");
        let mut config = config(mapping, "none", &mut rng);
        config.ftl.gc.victims = victims;
        config.ftl.wear_leveling.kind = WearLevelingName::Swap;
        config.ftl.wear_leveling.threshold = 2;
        let drive = build(&config, true, 1).unwrap_or_else(|error| panic!("{config:?}: {error}"));
        let mut host = Host { now: SimTime::ZERO, drive };
        let sectors = host.drive.sectors();
        let step = u64::from(UNIT);
        (0..sectors / step).for_each(|unit| host.write(unit * step));
        // Writes to an eighth of the drive leave the other blocks behind in erases, all of them equally.
        let hot = sectors / step / 8;
        (0..80 * hot).for_each(|_| host.write(rng.below_u64(hot) * step));
        let gc = host.drive.stats().gc;
        println!("{mapping} {victims}: {} levelled, {} collected", gc.wear_blocks, gc.victims);
        assert!(gc.wear_blocks > 0, "{mapping}: nothing was levelled");
        assert!(
            gc.wear_blocks <= gc.victims,
            "{mapping}, {victims} at once: {} blocks levelled, {} collected",
            gc.wear_blocks,
            gc.victims
        );
    }
}

struct Host {
    drive: Box<dyn Simulated>,
    now: SimTime,
}

impl Host {
    /// Writes a unit and waits.
    fn write(&mut self, sector: u64) {
        let range = Range::new(Lba::new(sector), UNIT);
        let command = Command::Write { range, fua: false, tag: Hint::None.into() };
        let bytes = vec![1; range.bytes() as usize];
        self.drive.submit(self.now, 0, &command, Some(&bytes));
        let mut completions = Vec::new();
        while completions.is_empty() {
            let next = self.drive.next_event().expect("a command is outstanding");
            self.drive.advance(next, &mut completions);
            self.now = self.now.max(next);
        }
        assert!(completions[0].result.is_ok(), "{:?}", completions[0].result);
    }
}
