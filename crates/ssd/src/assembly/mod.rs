//! Builds a drive from a configuration. Only this module turns configured names into Rust types.
//!
//! 1. `checked` rejects impossible configurations.
//! 2. `Plan::build` chooses flash and timing types.
//! 3. `page_mapped` or `block_mapped` builds the drive, or recovers it from used flash.

mod aged;
mod error;
mod faults;
mod handles;
mod image;
mod map_pages;
mod memory;
mod own;
mod slc;
mod victims;
mod watermarks;
mod word_lines;

use strobe_ftl::gc::{AnyPolicy, VictimPolicy};
use strobe_ftl::wear::Leveling;
use strobe_ftl::{
    BlockMap, BlockMapConfig, FormulaPlacement, GcStream, Inspectable, PageMap, PageMapConfig, Placement,
    PlacementKind, Recovery,
};
use strobe_nand::{
    ArrayTiming, Chip, Class, DataMedium, Medium, Nand as _, NoMedium, PageTimes, StampMedium,
    SwitchedTiming, Timing, TimingConfig, Untimed, WearConfig,
};
use strobe_types::{Geometry, GeometrySpec, SimTime};

use self::own::OwnPlacement;
use crate::config::{
    CopyMode, DataMode, DriveConfig, GcMode, Mapping, ScheduleTable, SchemeName, Victim, WearLevelingConfig,
    WearLevelingName, block_scheme,
};
use crate::device::Simulated;
use crate::drive::Drive;

pub use self::aged::{Aged, AgedOn, Ageing, AgeingError, build_aged};
pub use self::error::{BuildError, ImageProblem};
pub use self::image::{Examined, ImageDrive, build_on_image, examine, image_config, image_memory_bytes};
pub use self::memory::{empty_memory_bytes, memory_bytes};
pub use self::own::DriveBuilder;
pub use self::watermarks::{collection_read_pages, kept_blocks};

/// Builds a fresh drive. With `timing = false` the drive only counts operations. `seed` decides all random
/// choices, such as bad blocks, failures, jitter and policies.
///
/// Memory is proportional to the drive; see [`memory_bytes`]. [`DriveBuilder`] takes custom policies.
pub fn build(config: &DriveConfig, timing: bool, seed: u64) -> Result<Box<dyn Simulated>, BuildError> {
    let plan = Plan::new(config, seed)?;
    // A concrete policy type makes greedy 7 % faster in runs that only count. Other policies would gain less
    // than 2 %.
    if plan.only_counts(timing) {
        let chip = plan.chip::<Untimed, NoMedium>(Untimed::default());
        return match Victim::named(&config.ftl.gc.victim).filter(|_| handles::groups(config) == 1) {
            Some(Victim::Greedy { windowed }) => plan.page_mapped(chip, plan.greedy(windowed)),
            _ => plan.page_mapped(chip, plan.policy()?),
        }
        .map(|(drive, _)| drive);
    }
    plan.build(timing, || plan.policy())
}

pub(crate) type Built = (Box<dyn Simulated>, Option<Recovery>);

pub(crate) fn checked(config: &DriveConfig) -> Result<(Geometry, u32), BuildError> {
    let nand = &config.nand;
    let geometry = geometry(config)?;
    let mapping = config.mapping()?;
    if !matches!(mapping, Mapping::Page | Mapping::Dftl) && config.ftl.copy_mode == CopyMode::Logical {
        return Err(BuildError::LogicalCopy(config.ftl.mapping.clone()));
    }
    map_pages::check(config, mapping)?;
    if nand.factory_bad_blocks >= geometry.blocks() {
        return Err(BuildError::AllBad { bad: nand.factory_bad_blocks, blocks: geometry.blocks() });
    }
    slc::check(config, &geometry)?;
    check_time(config)?;
    let logical = config.logical_units();
    match u32::try_from(logical) {
        Ok(units) if units > 0 && units < u32::MAX => {
            let sectors = logical * u64::from(geometry.sectors_per_unit());
            config.controller.nvram.check(sectors, nand.data == DataMode::Bytes)?;
            // The documented ranges are checked after the specific reasons, because these give better
            // messages.
            config.check()?;
            if let Some(text) = config.ftl.placement.scheme.formula() {
                FormulaPlacement::check(text).map_err(BuildError::Placement)?;
            }
            check_marks(config, &geometry, units)?;
            handles::check(config, &geometry, units)?;
            faults::faults(config, &geometry, units)?;
            Ok((geometry, units))
        }
        _ => Err(BuildError::LogicalPages(logical)),
    }
}

/// The geometry as seen by programs: with one-shot programming, a page is a whole word line.
fn geometry(config: &DriveConfig) -> Result<Geometry, BuildError> {
    let nand = &config.nand;
    let spec = GeometrySpec {
        channels: nand.channels,
        dies_per_channel: nand.dies_per_channel,
        planes_per_die: nand.planes_per_die,
        blocks_per_plane: nand.blocks_per_plane,
        pages_per_block: nand.pages_per_block,
        page_bytes: nand.page_bytes,
        unit_bytes: config.ftl.mapping_unit_bytes,
    };
    let by_page = Geometry::new(spec)?;
    let parts = nand.pages_per_program;
    if parts <= 1 {
        return Ok(by_page);
    }
    word_lines::check(config)?;
    let pages_per_block = spec.pages_per_block / parts;
    Ok(Geometry::new(GeometrySpec { pages_per_block, page_bytes: spec.page_bytes * parts, ..spec })?)
}

fn check_time(config: &DriveConfig) -> Result<(), BuildError> {
    let nand = &config.nand;
    let suspend = &nand.suspend;
    let programs = nand.program_ns;
    let types = |times: &PageTimes| times.types().len() as u32;
    for (key, types) in [("read_ns", types(&nand.read_ns)), ("program_ns", types(&nand.program_ns))] {
        if !nand.pages_per_block.is_multiple_of(types) {
            return Err(BuildError::PageTypes { key, types, pages: nand.pages_per_block });
        }
    }
    match (types(&nand.read_ns), types(&nand.program_ns)) {
        (reads, programs) if reads != programs && reads.min(programs) > 1 => {
            return Err(BuildError::PageTypesDiffer { reads, programs });
        }
        _ => {}
    }
    // A suspend and its resume must take less time than the shortest operation, in SLC mode as well.
    let slc = config.ftl.slc_cache.is_on().then_some(&nand.slc);
    let shortest_program = slc.map_or(u64::MAX, |slc| slc.program_ns).min(programs.shortest());
    let shortest_erase = slc.map_or(u64::MAX, |slc| slc.erase_ns).min(nand.erase_ns);
    let shortest = shortest_program.min(shortest_erase);
    if suspend.most > 0 && suspend.suspend_ns.saturating_add(suspend.resume_ns) >= shortest {
        let (given, program, erase) =
            (suspend.suspend_ns + suspend.resume_ns, shortest_program, shortest_erase);
        return Err(BuildError::Suspend { given, program, erase });
    }
    if suspend.most > 0 && suspend.least_left_ns >= programs.longest().max(nand.erase_ns) {
        let (given, program, erase) = (suspend.least_left_ns, programs.longest(), nand.erase_ns);
        return Err(BuildError::LeastLeft { given, program, erase });
    }
    Ok(())
}

fn check_marks(config: &DriveConfig, geometry: &Geometry, logical_units: u32) -> Result<(), BuildError> {
    let gc = &config.ftl.gc;
    let given = |blocks: u32| (blocks > 0).then_some(blocks);
    let least = map_config(config, geometry, logical_units, 0).least_erased_blocks(geometry);
    if let Some(low) = given(gc.low_watermark_blocks).filter(|&low| low <= least) {
        return Err(BuildError::LowWatermark { low, least });
    }
    // The smallest automatic low watermark is one block above the erased blocks that are always kept.
    let low = given(gc.low_watermark_blocks).unwrap_or(least + 1);
    if let Some(high) = given(gc.high_watermark_blocks).filter(|&high| high <= low) {
        return Err(BuildError::HighWatermark { high, low });
    }
    let (blocks, spare) = good_and_spare(config, geometry, logical_units);
    // A watermark above the spare blocks would never be reached.
    for (key, mark) in [
        ("high_watermark_blocks", gc.high_watermark_blocks),
        ("low_watermark_blocks", gc.low_watermark_blocks),
    ] {
        if mark > spare {
            return Err(BuildError::Spare { key, blocks: mark, spare });
        }
    }
    if gc.victims > blocks { Err(BuildError::Victims { victims: gc.victims, blocks }) } else { Ok(()) }
}

/// Good blocks, and spare blocks: the good blocks beyond logical units and static SLC blocks.
fn good_and_spare(config: &DriveConfig, geometry: &Geometry, logical_units: u32) -> (u32, u32) {
    let blocks = geometry.blocks() - config.nand.factory_bad_blocks;
    let kept = config.ftl.slc_cache.static_blocks;
    (blocks, blocks.saturating_sub(kept).saturating_sub(logical_units.div_ceil(geometry.units_per_block())))
}

pub(crate) fn block_map_config(
    config: &DriveConfig,
    geometry: &Geometry,
    logical_units: u32,
) -> Option<BlockMapConfig> {
    Some(BlockMapConfig {
        scheme: block_scheme(&config.ftl.mapping)?,
        logical_units,
        log_blocks: config.ftl.log_blocks,
        log_victim: config.ftl.log_victim,
        fault_reserve: fault_reserve(config.nand.program_fail_rate, geometry),
        durable: config.ftl.durable_map.is_durable(),
    })
}

/// Settings of the page map. The geometry determines automatic values (0 in the configuration).
pub(crate) fn map_config(
    config: &DriveConfig,
    geometry: &Geometry,
    logical_units: u32,
    seed: u64,
) -> PageMapConfig {
    map_with(config, geometry, logical_units, seed, config.ftl.placement.kind())
}

fn map_with(
    config: &DriveConfig,
    geometry: &Geometry,
    logical_units: u32,
    seed: u64,
    placement: PlacementKind,
) -> PageMapConfig {
    let gc = &config.ftl.gc;
    // In the configuration, 0 stands for an automatic or disabled setting.
    let map = PageMapConfig {
        logical_units,
        gc_stream: if config.ftl.placement.scheme == SchemeName::SepGc { GcStream::Own } else { gc.stream },
        min_free_blocks: (gc.min_free_blocks > 0).then_some(gc.min_free_blocks),
        fault_reserve: fault_reserve(config.nand.program_fail_rate, geometry),
        net_blocks: gc.net_blocks,
        garbage_ppm: (gc.garbage_share > 0.0).then_some((gc.garbage_share * 1e6).round() as u32),
        pad_moved: gc.pad_moved,
        placement,
        temperature: config.ftl.placement.temperature,
        allocation: config.ftl.allocation,
        leveling: leveling(&config.ftl.wear_leveling),
        virtual_map_entries: match config.ftl.copy_mode {
            CopyMode::Physical => 0,
            // Flash addresses and virtual numbers share the range of 32 bits.
            CopyMode::Logical => config.ftl.virtual_map_entries.min(u32::MAX - 1 - geometry.units()),
        },
        translation: map_pages::translation(config),
        watermarks: None,
        slc: config.ftl.slc_cache.is_on().then_some(config.ftl.slc_cache),
        die_allocation: config.ftl.die_allocation,
        durable: config.ftl.durable_map.is_durable(),
        batch_pages: config.ftl.batch_pages,
        owner_lists: config.ftl.owner_lists,
        flush_metadata: config.ftl.flush_metadata,
        refresh: config.ftl.refresh.get(config.nand.read_retry.days_per_second),
        seed,
    };
    // Watermarks depend on the reserves that the settings above need.
    let watermarks = (gc.mode == GcMode::Background).then(|| watermarks::of(config, geometry, &map));
    PageMapConfig { watermarks, ..map }
}

/// Blocks reserved for failing programs. More fail with a probability below 10⁻⁹ while a block per plane,
/// plus one, is filled.
fn fault_reserve(program_fail_rate: f64, geometry: &Geometry) -> u32 {
    if program_fail_rate <= 0.0 {
        return 0;
    }
    // Programs while one block on every plane, and one more block, are filled.
    let programs = f64::from(geometry.pages_per_block()) * f64::from(geometry.planes() + 1);
    // More spare blocks cannot save a drive on which every second block fails.
    let mean = (program_fail_rate * programs).min(16.0);
    // Failures are independent and rare, so their number has a Poisson distribution. Sum its terms until 10⁻⁹
    // is left.
    let (mut failures, mut term, mut covered) = (0, libm::exp(-mean), 0.0);
    loop {
        covered += term;
        if 1.0 - covered < 1e-9 || failures >= 64 {
            return failures;
        }
        failures += 1;
        term *= mean / f64::from(failures);
    }
}

/// The configured table is flat, so a sweep can change `kind` alone.
fn leveling(config: &WearLevelingConfig) -> Option<Leveling> {
    let &WearLevelingConfig { kind, threshold, set_blocks } = config;
    match kind {
        WearLevelingName::None => None,
        WearLevelingName::Swap => Some(Leveling::Swap { threshold }),
        WearLevelingName::DualPool => Some(Leveling::DualPool { threshold }),
        WearLevelingName::SwLeveler => Some(Leveling::SwLeveler { threshold, set_blocks }),
    }
}

pub(crate) struct Plan<'a> {
    pub(crate) config: &'a DriveConfig,
    pub(crate) geometry: Geometry,
    pub(crate) logical: u32,
    pub(crate) seed: u64,
    /// True if flash is empty; false if a drive is to be recovered from it.
    pub(crate) is_new: bool,
    pub(crate) own: Option<&'a OwnPlacement>,
}

impl<'a> Plan<'a> {
    fn new(config: &'a DriveConfig, seed: u64) -> Result<Self, BuildError> {
        let (geometry, logical) = checked(config)?;
        Ok(Plan { config, geometry, logical, seed, is_new: true, own: None })
    }

    fn only_counts(&self, timing: bool) -> bool {
        !timing && self.config.nand.data == DataMode::None && block_scheme(&self.config.ftl.mapping).is_none()
    }

    fn build(
        &self,
        timing: bool,
        policy: impl FnOnce() -> Result<AnyPolicy, BuildError>,
    ) -> Result<Box<dyn Simulated>, BuildError> {
        let array = || self.switched_timing(timing);
        let built = match (block_scheme(&self.config.ftl.mapping), self.config.nand.data) {
            (None, DataMode::None) => {
                self.page_mapped(self.chip::<_, NoMedium>(self.array_timing()), policy()?)
            }
            (None, DataMode::Stamp) => self.page_mapped(self.chip::<_, StampMedium>(array()), policy()?),
            (None, DataMode::Bytes) => self.page_mapped(self.chip::<_, DataMedium>(array()), policy()?),
            (Some(_), DataMode::None) => self.block_mapped(self.chip::<_, NoMedium>(array())),
            (Some(_), DataMode::Stamp) => self.block_mapped(self.chip::<_, StampMedium>(array())),
            (Some(_), DataMode::Bytes) => self.block_mapped(self.chip::<_, DataMedium>(array())),
        };
        built.map(|(drive, _)| drive)
    }

    fn array_timing(&self) -> ArrayTiming {
        let nand = &self.config.nand;
        let config = TimingConfig {
            read_ns: nand.read_ns,
            program_ns: nand.program_ns,
            erase_ns: nand.erase_ns,
            slc: self.config.ftl.slc_cache.is_on().then_some(nand.slc),
            channel_mb_s: nand.channel_mb_s,
            spare_bytes: nand.spare_bytes,
            pages_per_program: nand.pages_per_program,
            command_ns: nand.command_ns,
            cache_program: nand.cache_program,
            cache_read: nand.cache_read,
            independent_plane_reads: nand.independent_plane_reads,
            deadline_ns: self.deadline_ns(),
            suspend: nand.suspend,
            issue: self.config.controller.issue,
        };
        ArrayTiming::new(config, &self.geometry)
    }

    /// Bits per cell in normal mode, if blocks can be in SLC mode; else 0.
    pub(crate) fn slc_bits(&self) -> u32 {
        if self.config.ftl.slc_cache.is_on() { self.config.nand.slc.bits_per_cell } else { 0 }
    }

    /// Deadlines by class. Host reads have deadline 0, which is not configurable.
    fn deadline_ns(&self) -> [u64; Class::ALL.len()] {
        let ScheduleTable { host_program_ns, background_read_ns, background_program_ns, erase_ns } =
            self.config.controller.schedule;
        [0, host_program_ns, background_read_ns, background_program_ns, erase_ns]
    }

    pub(crate) fn switched_timing(&self, timing: bool) -> SwitchedTiming {
        SwitchedTiming::new(timing.then(|| self.array_timing()))
    }

    pub(crate) fn wear(&self) -> WearConfig {
        let nand = &self.config.nand;
        WearConfig {
            endurance_pe: (nand.endurance_pe > 0).then_some(nand.endurance_pe),
            factory_bad_blocks: nand.factory_bad_blocks,
            program_fail_rate: nand.program_fail_rate,
        }
    }

    pub(crate) fn map_config(&self) -> PageMapConfig {
        let configured = || self.config.ftl.placement.kind();
        let placement = self.own.map_or_else(configured, |own| PlacementKind::Own(own.layout));
        map_with(self.config, &self.geometry, self.logical, self.seed, placement)
    }

    pub(crate) fn placement(&self) -> Result<Option<Box<dyn Placement>>, BuildError> {
        match self.own {
            Some(own) => Ok(Some(own.boxed())),
            None if self.config.ftl.placement.scheme == SchemeName::Fk => Err(BuildError::NoFuture),
            None => self.config.ftl.placement.by_formula(self.logical).map_err(BuildError::Placement),
        }
    }

    fn chip<T: Timing, M: Medium>(&self, timing: T) -> Chip<T, M> {
        let chip = Chip::new(self.geometry.clone(), self.wear(), timing, self.seed)
            .in_word_lines(self.config.nand.pages_per_program);
        let chip = if self.config.nand.any_page_order {
            chip.in_any_order()
        } else {
            chip.with_slc(self.slc_bits())
        };
        self.worn(chip)
    }

    pub(crate) fn worn<T: Timing, M: Medium>(&self, chip: Chip<T, M>) -> Chip<T, M> {
        let rate = self.config.nand.faults.read_rate;
        let chip = if rate > 0.0 { chip.with_read_faults(rate, self.seed) } else { chip };
        // Refresh uses the read counts and ages that the retry model keeps.
        let retry = self.config.nand.read_retry;
        if retry.is_on() || self.map_config().refresh.is_some() {
            chip.with_retries(retry, self.seed)
        } else {
            chip
        }
    }

    fn block_mapped<T, M>(&self, chip: Chip<T, M>) -> Result<Built, BuildError>
    where
        T: Timing + Send + 'static,
        M: Medium + Send + 'static,
    {
        let config =
            block_map_config(self.config, &self.geometry, self.logical).expect("a block-mapped scheme");
        let ftl = BlockMap::new(chip, config)?;
        Ok((Box::new(self.finished(Drive::new(ftl, &self.config.controller))?), None))
    }

    pub(crate) fn finished<F: Inspectable>(&self, drive: Drive<F>) -> Result<Drive<F>, BuildError> {
        let faults = faults::faults(self.config, &self.geometry, self.logical)?;
        Ok(drive.with_seed(self.seed).with_faults(faults))
    }

    pub(crate) fn page_mapped<T, M, V>(&self, chip: Chip<T, M>, policy: V) -> Result<Built, BuildError>
    where
        T: Timing + Send + 'static,
        M: Medium + Send + 'static,
        V: VictimPolicy + Clone + Send + 'static,
    {
        let controller = &self.config.controller;
        if self.is_new {
            let ftl = PageMap::with_placement(chip, policy, self.placement()?, self.map_config())?;
            return Ok((Box::new(self.finished(Drive::new(ftl, controller))?), None));
        }
        // Used flash: the counters of the drive start at zero, so earlier operations are subtracted.
        let before = chip.counts().clone();
        let (ftl, recovery) = PageMap::restart_with_placement(
            chip,
            policy,
            self.placement()?,
            self.map_config(),
            SimTime::ZERO,
        )?;
        let drive = self.finished(Drive::reopened(ftl, controller, before))?;
        Ok((Box::new(drive), Some(recovery)))
    }
}
