use strobe_ftl::gc::{AnyPolicy, Greedy, Grouped, Midas, SecondChance, TwoRegions};
use strobe_ftl::wear::Leveling;
use strobe_ftl::{
    Allocation, DieAllocation, GcStream, Isolation, MappingScheme, PageMap, PageMapConfig, PlacementKind,
    RecoveryError, SlcConfig, TranslationConfig, Watermarks, WhenFull, WriteContext,
};
use strobe_nand::{ArrayTiming, Chip, SlcMode, TimingConfig, Unit, Untimed, WearConfig, When};
use strobe_types::{Geometry, GeometrySpec, Lpn, Prng, SimTime};

use crate::torture::{Pace, Subject, TestChip, any_times, torture};

#[derive(Clone, Debug)]
struct Case {
    spec: GeometrySpec,
    config: PageMapConfig,
    wear: WearConfig,
    times: TimingConfig,
    slc_bits: u32,
    /// True if half is written first and open blocks are padded, as on an aged drive.
    aligned: bool,
}

impl Case {
    /// Completely full; `None` if these choices do not allow that.
    fn new(
        spec: GeometrySpec,
        choices: PageMapConfig,
        wear: WearConfig,
        times: TimingConfig,
    ) -> Option<Self> {
        let geometry = Geometry::new(spec).expect("valid geometry");
        let blocks = geometry.blocks() - wear.factory_bad_blocks;
        // The number of blocks for the map depends on the number of units.
        let fits = |&units: &u32| {
            let config = PageMapConfig { logical_units: units, ..choices };
            config.capacity(&geometry, blocks).capacity_units() >= u64::from(units)
        };
        let logical_units = (1..geometry.units()).rev().find(fits)?;
        let mut case = Self {
            spec,
            config: PageMapConfig { logical_units, ..choices },
            wear,
            times,
            slc_bits: 0,
            aligned: false,
        };
        if case.wears_out() {
            // Failing blocks consume the spare capacity.
            case.config.logical_units = logical_units.div_ceil(2);
        }
        Some(case)
    }

    fn geometry(&self) -> Geometry {
        Geometry::new(self.spec).expect("valid geometry")
    }

    fn wears_out(&self) -> bool {
        self.wear.program_fail_rate > 0.0 || self.wear.endurance_pe.is_some()
    }

    fn policy(&self) -> Grouped<AnyPolicy> {
        let groups = match self.config.placement {
            PlacementKind::Handles { groups, .. } => groups.into(),
            _ => 1,
        };
        let geometry = self.geometry();
        let blocks = geometry.blocks();
        let policy = match (self.config.placement, self.config.seed % 3) {
            (PlacementKind::Midas { .. }, 0 | 1) => AnyPolicy::new(Midas::new(blocks)),
            (PlacementKind::TwoR, 0) => AnyPolicy::new(TwoRegions::new(blocks, 1)),
            (PlacementKind::TwoR, 1) => AnyPolicy::new(SecondChance::new(blocks)),
            _ => AnyPolicy::new(Greedy::new(blocks)),
        };
        Grouped::new(vec![policy; groups], &geometry)
    }
}

impl<T: Pace> Subject<T> for Case {
    type Ftl = PageMap<TestChip<T>, Grouped<AnyPolicy>>;

    fn units(&self) -> u32 {
        self.config.logical_units
    }

    fn may_wear_out(&self) -> bool {
        self.wears_out()
    }

    fn fresh(&self) -> Self::Ftl {
        let timing = T::of(self.times, &self.geometry());
        let chip = Chip::new(self.geometry(), self.wear, timing, self.config.seed).with_slc(self.slc_bits);
        let chip = chip.in_word_lines(self.times.pages_per_program);
        let mut ftl = PageMap::new(chip, self.policy(), self.config).expect("room");
        if self.aligned {
            // Unwritten units also read as 0.
            for lpn in (0..self.config.logical_units / 2).map(Lpn::new) {
                ftl.write(When::START, &[Unit { lpn, payload: 0 }], WriteContext::HOST)
                    .expect("it does not wear out");
            }
            ftl.align().expect("it does not wear out");
        }
        ftl
    }

    fn restart(&self, flash: TestChip<T>) -> Result<Self::Ftl, RecoveryError> {
        PageMap::restart(flash, self.policy(), self.config, SimTime::ZERO).map(|(ftl, _)| ftl)
    }
}

fn any_case(rng: &mut Prng) -> Option<Case> {
    let (spec, config, wear, times) = any_choices(rng);
    // Same number of word lines as pages before.
    let pages_per_program = [1, 1, 3][rng.below(3) as usize];
    let spec = GeometrySpec { page_bytes: spec.page_bytes * pages_per_program, ..spec };
    let die_allocation = [DieAllocation::Stripe, DieAllocation::ByAddress][usize::from(rng.below(3) == 0)];
    let flush_metadata = config.translation.is_some() && rng.below(4) == 0;
    let owner_lists = config.translation.is_some() && rng.below(4) == 0;
    let pad_moved = rng.below(3) == 0;
    let config = PageMapConfig { pad_moved, die_allocation, flush_metadata, owner_lists, ..config };
    let case = Case::new(spec, config, wear, TimingConfig { pages_per_program, ..times })?;
    Some(Case { aligned: rng.below(4) == 0 && !case.wears_out(), ..case })
}

fn any_choices(rng: &mut Prng) -> (GeometrySpec, PageMapConfig, WearConfig, TimingConfig) {
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
    // Large entries give tiny drives several translation pages.
    let translation = (pick(&[0, 0, 1]) == 1).then(|| TranslationConfig {
        protected_entries: [None, Some(0), Some(1000)][pick(&[0, 1, 2]) as usize],
        entry_bytes: pick(&[4, 64, 128]),
        batched_eviction: pick(&[0, 1]) == 1,
        ..TranslationConfig::new(pick(&[1, 6, 20, 50, u32::MAX, u32::MAX]))
    });
    let config = PageMapConfig {
        gc_stream: if pick(&[0, 1]) == 0 { GcStream::Own } else { GcStream::Host },
        net_blocks: pick(&[1, 1, 2]),
        placement: [PlacementKind::Single, PlacementKind::HotCold, PlacementKind::Sorted]
            [pick(&[0, 0, 1, 2]) as usize],
        allocation: [Allocation::Fifo, Allocation::Adaptive, Allocation::AboveAverage]
            [pick(&[0, 1, 2]) as usize],
        leveling: [None, Some(Leveling::Swap { threshold: 2 }), Some(Leveling::DualPool { threshold: 2 })]
            [pick(&[0, 0, 1, 2]) as usize],
        virtual_map_entries: pick(&[0, 3, 40]),
        durable: true,
        translation,
        seed: rng.bits(),
        ..PageMapConfig::new(0)
    };
    let wear = WearConfig {
        factory_bad_blocks: rng.below(2),
        program_fail_rate: [0.0, 0.0, 0.0, 0.004, 0.05][rng.below(5) as usize],
        endurance_pe: (rng.below(6) == 0).then(|| 2 + rng.below(8)),
    };
    let fault_reserve = 3 * u32::from(wear.program_fail_rate > 0.0 || wear.endurance_pe.is_some());
    let times = any_times(rng);
    (spec, PageMapConfig { fault_reserve, ..config }, wear, times)
}

fn any_slc_case(rng: &mut Prng) -> Option<Case> {
    let mut pick = |choices: &[u32]| choices[rng.below(choices.len() as u32) as usize];
    let bits = pick(&[2, 3, 4]);
    let (pages, planes) = (bits * pick(&[1, 2, 3]), pick(&[1, 1, 2]));
    let (channels, per_page) = (pick(&[1, 1, 2]), pick(&[1, 1, 2]));
    let slc = SlcConfig {
        static_blocks: pick(&[0, 2, 3, 5]),
        dynamic_blocks: pick(&[0, 3, 6, 100]),
        fold_at: pick(&[0, 0, 2, 5]),
        fold_idle_ns: 100,
        when_full: [WhenFull::Direct, WhenFull::Fold][pick(&[0, 1]) as usize],
    };
    let (share, low) = (pick(&[1, 2, 3]), planes * channels + 4);
    let watermarks = Watermarks { high: low + 2, low, victims: pick(&[1, 2]), read_pages: 3 };
    let goes_on = pick(&[0, 1]) == 1;
    let (leveling, sorts) = (pick(&[0, 0, 1, 2]), pick(&[0, 0, 0, 1, 2]));
    let die_allocation = [DieAllocation::Stripe, DieAllocation::FreeFirst][pick(&[0, 1]) as usize];
    let mut case = any_case(rng)?;
    case.spec = GeometrySpec {
        channels,
        dies_per_channel: 1,
        planes_per_die: planes,
        blocks_per_plane: 28 / planes.min(channels) + 10,
        pages_per_block: pages,
        page_bytes: per_page * 512 * case.times.pages_per_program,
        unit_bytes: 512,
    };
    case.config = PageMapConfig {
        slc: Some(slc),
        watermarks: goes_on.then_some(watermarks),
        leveling: [None, Some(Leveling::Swap { threshold: 2 }), Some(Leveling::DualPool { threshold: 2 })]
            [leveling as usize],
        placement: [PlacementKind::Single, PlacementKind::HotCold, PlacementKind::Sorted][sorts as usize],
        die_allocation,
        translation: None,
        ..case.config
    };
    let Case { spec, config, wear, times, aligned, .. } = case;
    let mut case = Case { aligned, ..Case::new(spec, config, wear, times)? };
    case.slc_bits = bits;
    case.times.slc = Some(SlcMode { bits_per_cell: bits, read_ns: 3, program_ns: 15, erase_ns: 40 });
    case.config.logical_units = (case.config.logical_units * share / 3).max(1);
    Some(case)
}

#[test]
fn nothing_durable_is_lost_of_an_slc_cache() {
    torture_drives_until::<Untimed>(any_slc_case, 60_000, 1);
}

#[test]
fn nothing_durable_is_lost_of_an_slc_cache_while_operations_are_on_their_way() {
    torture_drives_until::<ArrayTiming>(any_slc_case, 60_000, 5000);
}

fn torture_until<T: Pace>(cuts: u64, first_seed: u64) {
    let (mut done, mut paged, mut resident, mut shares, mut word_lines) = (0, 0, 0, 0, 0);
    let mut seeds = strobe_testing::seeds(first_seed..u64::MAX);
    while done < cuts
        && let Some(seed) = seeds.next()
    {
        let mut rng = Prng::new(seed.get());
        if let Some(case) = any_case(&mut rng) {
            let these = torture::<T, _>(&case, seed.get(), 60, 23);
            done += these;
            let is_paged = case.config.translation.is_some();
            paged += if is_paged { these } else { 0 };
            let is_resident = |how: TranslationConfig| how.is_resident(case.config.logical_units);
            resident += if case.config.translation.is_some_and(is_resident) { these } else { 0 };
            shares += if is_paged && case.config.virtual_map_entries > 0 { these } else { 0 };
            word_lines += if case.times.pages_per_program > 1 { these } else { 0 };
        }
    }
    eprintln!(
        "{done} cuts, {paged} of drives whose map is paged, {resident} of these with all of it in memory, {shares} of them with logical copy, {word_lines} of programs \
         of word lines, seeds up to {}",
        seeds.next_seed()
    );
    if !seeds.is_whole() {
        return;
    }
    assert!(paged >= cuts / 8, "too few of drives whose map is paged");
    assert!(resident >= cuts / 100, "too few of those with all of the map in memory");
    assert!(shares >= cuts / 20, "too few of those with logical copy");
    assert!(word_lines >= cuts / 20, "too few of drives that program word lines");
}

#[test]
fn nothing_durable_is_lost_wherever_the_power_is_cut() {
    torture_until::<Untimed>(75_000, 1);
}

#[test]
fn nothing_durable_is_lost_in_other_drives() {
    torture_until::<Untimed>(75_000, 1500);
}

#[test]
fn nothing_durable_is_lost_while_operations_are_on_their_way() {
    torture_until::<ArrayTiming>(20_000, 2020);
}

fn any_placed_case(rng: &mut Prng) -> Option<Case> {
    let choices = any_choices(rng);
    let streams = [3, 4, 6][rng.below(3) as usize];
    let placement = [
        PlacementKind::SepBit { streams },
        PlacementKind::SepBitCopies { streams },
        PlacementKind::Dac { streams },
        PlacementKind::Fadac { streams },
        PlacementKind::Warcip { streams },
        PlacementKind::Sfs { streams },
        PlacementKind::Midas { streams },
    ][rng.below(7) as usize];
    any_case_placed(rng, choices, placement, streams)
}

fn any_case_of_two_r(rng: &mut Prng) -> Option<Case> {
    let choices = any_choices(rng);
    any_case_placed(rng, choices, PlacementKind::TwoR, 2)
}

fn any_case_of_handles(rng: &mut Prng) -> Option<Case> {
    let choices = any_choices(rng);
    let isolation = [Isolation::Initial, Isolation::Persistent][rng.below(2) as usize];
    let count = [1, 2, 3][rng.below(3) as usize];
    let unit_blocks = 1 + rng.below(2);
    let placement = PlacementKind::Handles { count, isolation, unit_blocks, groups: 1 };
    let mut case = any_case_placed(rng, choices, placement, 2 * count)?;
    if isolation == Isolation::Persistent {
        // Wear levelling moves the data of all handles to the same blocks.
        case.config.leveling = None;
    }
    Some(case)
}

fn any_case_of_groups(rng: &mut Prng) -> Option<Case> {
    let (mut spec, mut config, mut wear, times) = any_choices(rng);
    let groups = [2, 4][rng.below(2) as usize];
    spec.dies_per_channel = u32::from(groups) / spec.channels.min(groups.into()) * (1 + rng.below(2));
    let isolation = [Isolation::Initial, Isolation::Persistent][rng.below(2) as usize];
    let count = 1 + rng.below(2) as u8;
    wear.factory_bad_blocks = 0;
    config.leveling = None;
    config.translation = None;
    config.virtual_map_entries = 0;
    let placement = PlacementKind::Handles { count, isolation, unit_blocks: 1, groups };
    spec.blocks_per_plane += 6 * u32::from(count);
    let config = PageMapConfig { placement, ..config };
    Case::new(spec, config, wear, TimingConfig { pages_per_program: 1, ..times })
}

fn any_case_placed(
    rng: &mut Prng,
    (spec, config, wear, times): (GeometrySpec, PageMapConfig, WearConfig, TimingConfig),
    placement: PlacementKind,
    streams: u8,
) -> Option<Case> {
    // Every stream has a block on each plane, and may need another.
    let spec = GeometrySpec { blocks_per_plane: spec.blocks_per_plane + 3 * u32::from(streams), ..spec };
    let planes = spec.channels * spec.dies_per_channel * spec.planes_per_die;
    let low = (u32::from(streams) + 2) * planes + 4;
    let watermarks = Watermarks { high: low + 4, low, victims: 2, read_pages: 3 };
    let config = PageMapConfig {
        placement,
        garbage_ppm: (config.translation.is_none() && rng.below(3) == 0).then_some(100_000),
        watermarks: (rng.below(2) == 0).then_some(watermarks),
        ..config
    };
    let config =
        PageMapConfig { watermarks: config.watermarks.filter(|_| config.garbage_ppm.is_none()), ..config };
    let mut case = Case::new(spec, config, wear, TimingConfig { pages_per_program: 1, ..times })?;
    if case.config.garbage_ppm.is_some() {
        // The drive needs free space to start.
        case.config.logical_units = (case.config.logical_units * 4 / 5).max(1);
    }
    Some(case)
}

fn torture_drives_until<T: Pace>(any_case: fn(&mut Prng) -> Option<Case>, cuts: u64, first_seed: u64) {
    let (mut done, mut seeds) = (0, strobe_testing::seeds(first_seed..u64::MAX));
    while done < cuts
        && let Some(seed) = seeds.next()
    {
        if let Some(case) = any_case(&mut Prng::new(seed.get())) {
            done += torture::<T, _>(&case, seed.get(), 60, 23);
        }
    }
    eprintln!("{done} cuts, seeds up to {}", seeds.next_seed());
}

#[test]
fn nothing_durable_is_lost_whatever_the_placement() {
    torture_drives_until::<Untimed>(any_placed_case, 20_000, 7000);
}

#[test]
fn nothing_durable_is_lost_whatever_the_placement_while_operations_are_on_their_way() {
    torture_drives_until::<ArrayTiming>(any_placed_case, 20_000, 8000);
}

#[test]
fn nothing_durable_is_lost_of_blocks_that_are_handed_over() {
    torture_drives_until::<Untimed>(any_case_of_two_r, 20_000, 9800);
    torture_drives_until::<ArrayTiming>(any_case_of_two_r, 20_000, 9900);
}

#[test]
fn handles_stay_apart_wherever_the_power_is_cut() {
    torture_drives_until::<Untimed>(any_case_of_handles, 20_000, 9000);
}

#[test]
fn handles_stay_apart_wherever_the_power_is_cut_while_operations_are_on_their_way() {
    torture_drives_until::<ArrayTiming>(any_case_of_handles, 20_000, 9500);
}

#[test]
fn reclaim_groups_stay_apart_wherever_the_power_is_cut() {
    torture_drives_until::<Untimed>(any_case_of_groups, 20_000, 9200);
}

#[test]
fn reclaim_groups_stay_apart_wherever_the_power_is_cut_while_operations_are_on_their_way() {
    torture_drives_until::<ArrayTiming>(any_case_of_groups, 20_000, 9700);
}

/// Regression: an epoch named a block as open before its erase, and old pages were taken for new.
#[test]
fn pages_from_before_an_erase_do_not_come_back() {
    let (spec, config, wear, times) = any_choices(&mut Prng::new(3_000_006));
    // The timing at the time of discovery.
    let TimingConfig { command_ns, cache_read, independent_plane_reads, .. } = TimingConfig::default();
    let times =
        TimingConfig { pages_per_program: 1, command_ns, cache_read, independent_plane_reads, ..times };
    let config = PageMapConfig {
        allocation: if config.allocation == Allocation::Fifo {
            Allocation::Fifo
        } else {
            Allocation::Adaptive
        },
        ..config
    };
    let case = Case::new(spec, config, wear, times).expect("a drive");
    torture::<ArrayTiming, _>(&case, 3_000_006, 60, 23);
}

#[test]
#[ignore = "minutes long: make test-long"]
fn nothing_durable_is_lost_in_a_million_cuts_in_time() {
    torture_until::<ArrayTiming>(1_000_000, 3_000_000);
}

#[test]
#[ignore = "minutes long: make test-long"]
fn nothing_durable_is_lost_in_ten_million_cuts() {
    torture_until::<Untimed>(10_000_000, 1_000_000);
}

#[test]
#[ignore = "minutes long: make test-long"]
fn nothing_durable_is_lost_of_an_slc_cache_in_a_million_cuts() {
    torture_drives_until::<Untimed>(any_slc_case, 1_000_000, 10_000);
    torture_drives_until::<ArrayTiming>(any_slc_case, 2_000_000, 20_000);
}

/// Regression: a unit copied away and back lay on a page with its name, and recovery took a newer page of
/// that name.
#[test]
fn a_unit_that_was_copied_back_is_not_found_on_a_newer_page_from_before() {
    let case = any_case(&mut Prng::new(1_002_464)).expect("a drive");
    torture::<Untimed, _>(&case, 1_002_464, 60, 23);
}

/// Regression: wear levelling in the background used blocks that no epoch named.
#[test]
fn nothing_is_moved_at_the_end_of_life() {
    let case = any_slc_case(&mut Prng::new(20_055)).expect("a drive");
    torture::<ArrayTiming, _>(&case, 20_055, 60, 23);
}
