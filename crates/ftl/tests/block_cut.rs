use strobe_ftl::{BlockMap, BlockMapConfig, BlockScheme, LogVictim, RecoveryError};
use strobe_nand::{ArrayTiming, Chip, TimingConfig, Untimed, WearConfig};
use strobe_types::{Geometry, GeometrySpec, Prng, SimTime};

use crate::torture::{Pace, Subject, TestChip, any_times, torture};

#[derive(Debug)]
struct Case {
    spec: GeometrySpec,
    config: BlockMapConfig,
    wear: WearConfig,
    times: TimingConfig,
    any_order: bool,
    seed: u64,
}

impl Case {
    fn chip<T: Pace>(&self) -> TestChip<T> {
        let geometry = Geometry::new(self.spec).expect("valid geometry");
        let timing = T::of(self.times, &geometry);
        let chip = Chip::new(geometry, self.wear, timing, self.seed);
        if self.any_order { chip.in_any_order() } else { chip }
    }
}

impl<T: Pace> Subject<T> for Case {
    type Ftl = BlockMap<TestChip<T>>;

    fn units(&self) -> u32 {
        self.config.logical_units
    }

    fn may_wear_out(&self) -> bool {
        self.wear.program_fail_rate > 0.0 || self.wear.endurance_pe.is_some()
    }

    fn fresh(&self) -> Self::Ftl {
        BlockMap::new(self.chip(), self.config).expect("room")
    }

    fn restart(&self, flash: TestChip<T>) -> Result<Self::Ftl, RecoveryError> {
        BlockMap::restart(flash, self.config, SimTime::ZERO).map(|(ftl, _)| ftl)
    }
}

/// Repeats the default to test it more often.
const VICTIMS: [LogVictim; 7] = [
    LogVictim::Lru,
    LogVictim::Lru,
    LogVictim::Lru,
    LogVictim::Mru,
    LogVictim::Fifo,
    LogVictim::Fullest,
    LogVictim::Emptiest,
];

fn any_case(scheme: BlockScheme, rng: &mut Prng) -> Option<Case> {
    let mut pick = |choices: &[u32]| choices[rng.below(choices.len() as u32) as usize];
    let spec = GeometrySpec {
        channels: pick(&[1, 1, 2]),
        dies_per_channel: 1,
        planes_per_die: pick(&[1, 1, 2]),
        blocks_per_plane: pick(&[24, 30, 40]),
        pages_per_block: pick(&[2, 4, 8]),
        page_bytes: 512,
        unit_bytes: 512,
    };
    let log_blocks = pick(&[2, 3, 5]);
    let any_order = scheme == BlockScheme::ReplacementBlock || rng.below(2) == 0;
    let wear = WearConfig {
        factory_bad_blocks: rng.below(2),
        program_fail_rate: [0.0, 0.0, 0.0, 0.004, 0.05][rng.below(5) as usize],
        endurance_pe: (rng.below(6) == 0).then(|| 2 + rng.below(8)),
    };
    let fails = wear.program_fail_rate > 0.0 || wear.endurance_pe.is_some();
    let config = BlockMapConfig {
        scheme,
        logical_units: 0,
        log_blocks,
        log_victim: LogVictim::Lru,
        fault_reserve: 3 * u32::from(fails),
        durable: true,
    };
    let geometry = Geometry::new(spec).expect("valid geometry");
    let room = config.capacity_units(&geometry, geometry.blocks() - wear.factory_bad_blocks);
    // The last logical block may be partial.
    let logical_units = room.checked_sub(rng.below(spec.pages_per_block)).filter(|&units| units > 0)?;
    let seed = rng.bits();
    let times = any_times(rng);
    let log_victim = VICTIMS[rng.below(VICTIMS.len() as u32) as usize];
    let config = BlockMapConfig { logical_units, log_victim, ..config };
    Some(Case { spec, config, wear, times, any_order, seed })
}

fn torture_until<T: Pace>(scheme: BlockScheme, cuts: u64, first_seed: u64) {
    let (mut done, mut seeds) = (0, strobe_testing::seeds(first_seed..u64::MAX));
    while done < cuts
        && let Some(seed) = seeds.next()
    {
        let mut rng = Prng::new(seed.get());
        if let Some(case) = any_case(scheme, &mut rng) {
            done += torture::<T, _>(&case, seed.get(), 60, 23);
        }
    }
    eprintln!("{}: {done} cuts, seeds up to {}", scheme.name(), seeds.next_seed());
}

#[test]
fn replacement_blocks_lose_nothing_durable_wherever_the_power_is_cut() {
    torture_until::<Untimed>(BlockScheme::ReplacementBlock, 50_000, 1);
}

#[test]
fn log_blocks_lose_nothing_durable_wherever_the_power_is_cut() {
    torture_until::<Untimed>(BlockScheme::LogBlock, 50_000, 1);
}

#[test]
fn fast_loses_nothing_durable_wherever_the_power_is_cut() {
    torture_until::<Untimed>(BlockScheme::Fast, 50_000, 1);
}

#[test]
fn block_maps_lose_nothing_durable_while_operations_are_on_their_way() {
    torture_until::<ArrayTiming>(BlockScheme::ReplacementBlock, 6_000, 2000);
    torture_until::<ArrayTiming>(BlockScheme::LogBlock, 6_000, 2000);
    torture_until::<ArrayTiming>(BlockScheme::Fast, 6_000, 2000);
}

/// Regression: a sector was written to the result of a merge before the merged blocks were erased. One
/// logical block then had three blocks.
#[test]
fn a_merged_block_takes_nothing_before_the_others_are_erased() {
    torture_until::<ArrayTiming>(BlockScheme::LogBlock, 1, 3_000_028);
}

#[test]
#[ignore = "minutes long: make test-long"]
fn block_maps_lose_nothing_durable_in_a_million_cuts_in_time() {
    torture_until::<ArrayTiming>(BlockScheme::ReplacementBlock, 300_000, 3_000_000);
    torture_until::<ArrayTiming>(BlockScheme::LogBlock, 300_000, 3_000_000);
    torture_until::<ArrayTiming>(BlockScheme::Fast, 300_000, 3_000_000);
}

#[test]
#[ignore = "minutes long: make test-long"]
fn nothing_durable_is_lost_in_millions_of_cuts() {
    torture_until::<Untimed>(BlockScheme::ReplacementBlock, 1_000_000, 1_000_000);
    torture_until::<Untimed>(BlockScheme::LogBlock, 1_000_000, 1_000_000);
    torture_until::<Untimed>(BlockScheme::Fast, 1_000_000, 1_000_000);
}
