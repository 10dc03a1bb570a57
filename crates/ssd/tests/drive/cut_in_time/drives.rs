//! Tiny drives of all kinds with timing.

use strobe_ssd::{
    BuildError, CopyMode, DataMode, DieAllocation, DriveConfig, DurableMap, GcMode, GcStream, Isolation,
    Issue, LogVictim, NvramPolicyName, RefreshTable, RetryConfig, ScheduleTable, SchemeName, SectorRange,
    Simulated, SuspendConfig, WearLevelingName, WhenFull, build,
};
use strobe_types::Prng;

use crate::setup::config;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Page,
    /// Page-mapped, with placement handles and often several reclaim groups.
    Handles,
    Slc,
    Block,
}

/// Handles that a write may name.
pub(crate) fn handles(config: &DriveConfig) -> u32 {
    let placement = &config.ftl.placement;
    let is_on = placement.scheme == SchemeName::Handles;
    if is_on { u32::from(placement.handles) * u32::from(placement.groups) } else { 1 }
}

/// As full as possible.
pub(crate) fn any_drive(kind: Kind, rng: &mut Prng) -> Option<(DriveConfig, Box<dyn Simulated>)> {
    let mut config = any_config(kind, rng);
    let nand = &config.nand;
    let blocks = nand.channels * nand.dies_per_channel * nand.planes_per_die * nand.blocks_per_plane;
    let units = blocks * nand.pages_per_block * nand.page_bytes / config.ftl.mapping_unit_bytes;
    let mut logical = units;
    let seed = rng.bits();
    loop {
        config.ftl.logical_pages = Some(logical);
        if config.controller.nvram.policy == NvramPolicyName::LbaRange {
            let sectors = u64::from(logical * config.ftl.mapping_unit_bytes / 512);
            let first_sector = sectors / 5;
            config.controller.nvram.ranges = vec![SectorRange { first_sector, sectors: sectors / 3 + 1 }];
        }
        // Half of the drives with a cache leave more space for it.
        if kind == Kind::Slc && logical == units && rng.below(2) == 0 {
            logical = logical * 2 / 3;
            config.ftl.logical_pages = Some(logical);
        }
        match build(&config, true, seed) {
            Ok(_) if may_fail(&config) && logical > 1 => {
                // Failing blocks use up the spare ones.
                config.ftl.logical_pages = Some(logical.div_ceil(2));
                let nvram = &mut config.controller.nvram;
                (nvram.policy, nvram.ranges) = (NvramPolicyName::Lru, Vec::new());
                let drive = build(&config, true, seed).expect("less than is possible");
                return Some((config, drive));
            }
            Ok(drive) => return Some((config, drive)),
            Err(BuildError::Capacity(_) | BuildError::BlockMap(_) | BuildError::Spare { .. })
            | Err(BuildError::ReclaimUnits { .. }) => {
                logical = logical.checked_sub((logical / 20).max(1)).filter(|&logical| logical > 0)?;
            }
            // Watermarks that this drive would never reach.
            Err(BuildError::LowWatermark { least, .. }) => {
                let gc = &mut config.ftl.gc;
                let room = gc.high_watermark_blocks - gc.low_watermark_blocks;
                (gc.low_watermark_blocks, gc.high_watermark_blocks) = (least + 1, least + 1 + room);
            }
            Err(error) => panic!("{config:?}: {error}"),
        }
    }
}

pub(crate) fn may_fail(config: &DriveConfig) -> bool {
    config.nand.program_fail_rate > 0.0
}

fn any_config(kind: Kind, rng: &mut Prng) -> DriveConfig {
    let mut config = config();
    flash(&mut config, rng);
    match kind {
        Kind::Page => page_map(&mut config, rng),
        Kind::Handles => {
            page_map(&mut config, rng);
            handles_of_groups(&mut config, rng);
        }
        Kind::Slc => {
            page_map(&mut config, rng);
            slc_cache(&mut config, rng);
        }
        Kind::Block => block_map(&mut config, rng),
    }
    controller(&mut config, rng);
    if kind == Kind::Page && rng.below(4) == 0 {
        // Keeps the number of pages, now as word lines.
        config.nand.pages_per_program = 3;
        config.nand.pages_per_block *= 3;
    }
    config
}

fn pick<T: Copy>(rng: &mut Prng, choices: &[T]) -> T {
    choices[rng.below(choices.len() as u32) as usize]
}

fn flash(config: &mut DriveConfig, rng: &mut Prng) {
    let nand = &mut config.nand;
    let unit_bytes = pick(rng, &[512, 512, 1024]);
    (nand.channels, nand.dies_per_channel, nand.planes_per_die) =
        pick(rng, &[(1, 1, 1), (1, 2, 1), (2, 1, 1), (1, 1, 2), (2, 2, 1), (1, 2, 2)]);
    let planes = nand.channels * nand.dies_per_channel * nand.planes_per_die;
    nand.blocks_per_plane = pick(rng, &[20, 26, 34]) / planes.min(2);
    nand.pages_per_block = pick(rng, &[2, 4, 4, 6]);
    nand.page_bytes = unit_bytes * pick(rng, &[1, 1, 2]);
    config.ftl.mapping_unit_bytes = unit_bytes;
    nand.read_ns = pick(rng, &[5, 50]).into();
    nand.program_ns = pick(rng, &[100, 700]).into();
    nand.erase_ns = pick(rng, &[200, 2000, 8000]);
    // 512 bytes in 2, 10 and 100 ns.
    nand.channel_mb_s = pick(rng, &[0, 256_000, 51_200, 5_120]);
    nand.cache_program = rng.below(3) == 0;
    nand.command_ns = pick(rng, &[0, 0, 20]);
    nand.cache_read = rng.below(4) == 0;
    nand.independent_plane_reads = rng.below(4) == 0;
    nand.suspend = SuspendConfig {
        most: pick(rng, &[0, 3, 10, 100]),
        suspend_ns: pick(rng, &[0, 10, 40]),
        resume_ns: pick(rng, &[0, 5, 40]),
        least_left_ns: pick(rng, &[0, 10, 50]),
    };
    if rng.below(4) == 0 {
        nand.read_retry = RetryConfig {
            fresh: pick(rng, &[0.0, 0.3]),
            per_kcycle: pick(rng, &[0.0, 50.0]),
            per_day: pick(rng, &[0.0, 0.1]),
            per_kread: pick(rng, &[0.0, 10.0]),
            most: pick(rng, &[1, 5]),
            // A day in 100 µs.
            days_per_second: 10_000.0,
            ..RetryConfig::default()
        };
    }
    nand.factory_bad_blocks = u32::from(rng.below(6) == 0);
    nand.program_fail_rate = pick(rng, &[0.0, 0.0, 0.0, 0.0, 0.0, 0.004]);
    nand.data = DataMode::Bytes;
    config.ftl.durable_map = true.into();
}

fn page_map(config: &mut DriveConfig, rng: &mut Prng) {
    let planes = config.nand.channels * config.nand.dies_per_channel * config.nand.planes_per_die;
    let ftl = &mut config.ftl;
    ftl.mapping = pick(rng, &["page", "page", "page", "dftl"]).to_owned();
    if ftl.mapping == "page" && rng.below(4) == 0 {
        ftl.durable_map = DurableMap::Pages;
        (ftl.flush_metadata, ftl.owner_lists) = (rng.below(2) == 0, rng.below(2) == 0);
    }
    config.controller.issue = pick(rng, &[Issue::PerDie, Issue::PerDie, Issue::InOrder]);
    if ftl.mapping == "dftl" {
        ftl.translation.cached_entries = pick(rng, &[1, 6, 20, 50]);
        ftl.translation.batched_eviction = rng.below(2) == 0;
    }
    if rng.below(3) == 0 {
        ftl.copy_mode = CopyMode::Logical;
        ftl.virtual_map_entries = pick(rng, &[1, 3, 40]);
    }
    ftl.die_allocation = pick(rng, &[DieAllocation::Stripe, DieAllocation::FreeFirst]);
    let gc = &mut ftl.gc;
    gc.mode = pick(rng, &[GcMode::Background, GcMode::Background, GcMode::Background, GcMode::StopTheWorld]);
    gc.stream = pick(rng, &[GcStream::Own, GcStream::Own, GcStream::Host]);
    let is_rare = gc.mode == GcMode::Background && rng.clone().below(4) > 0;
    if !is_rare && (gc.mode == GcMode::Background || rng.below(2) == 0) {
        ftl.die_allocation = DieAllocation::ByAddress;
    }
    let formula = "stream + 1 - 2 * is_copy";
    ftl.placement.scheme =
        pick(rng, &["none", "none", "none", "hot-cold", "sepbit", "hints", formula]).into();
    gc.victim = pick(rng, &["greedy", "greedy", "fifo", "cost-benefit", "d-choices"]).to_owned();
    gc.victims = pick(rng, &[0, 1, 2, 4]);
    if rng.below(2) == 0 {
        gc.low_watermark_blocks = planes + 3 + rng.below(2);
        gc.high_watermark_blocks = gc.low_watermark_blocks + 1 + rng.below(4);
    }
    ftl.batch_pages = pick(rng, &[0, 0, 1, 3]);
    if rng.below(4) == 0 {
        let (reads, days) = pick(rng, &[(3, 0.0), (20, 0.0), (0, 2.0), (10, 10.0)]);
        config.ftl.refresh = RefreshTable { reads, days };
    }
    if rng.below(6) == 0 {
        config.ftl.wear_leveling.kind = pick(rng, &[WearLevelingName::Swap, WearLevelingName::DualPool]);
        config.ftl.wear_leveling.threshold = 2;
    }
}

fn handles_of_groups(config: &mut DriveConfig, rng: &mut Prng) {
    let (nand, ftl) = (&mut config.nand, &mut config.ftl);
    (nand.channels, nand.dies_per_channel, nand.planes_per_die) =
        pick(rng, &[(1, 2, 1), (2, 1, 1), (2, 2, 1), (1, 2, 2)]);
    let planes = nand.channels * nand.dies_per_channel * nand.planes_per_die;
    nand.blocks_per_plane = pick(rng, &[14, 20, 30]);
    // These exclude reclaim groups.
    (ftl.mapping, ftl.durable_map) = ("page".to_owned(), true.into());
    (ftl.flush_metadata, ftl.owner_lists) = (false, false);
    ftl.wear_leveling.kind = WearLevelingName::None;
    ftl.gc.stream = GcStream::Own;
    let placement = &mut ftl.placement;
    placement.scheme = SchemeName::Handles.into();
    (placement.handles, placement.unit_blocks) = (pick(rng, &[1, 2, 3]), 1);
    placement.groups = pick(rng, &[1, 2, 2]);
    placement.isolation = pick(rng, &[Isolation::Initial, Isolation::Persistent]);
    if ftl.gc.low_watermark_blocks > 0 {
        ftl.gc.low_watermark_blocks += planes;
        ftl.gc.high_watermark_blocks += 2 * planes;
    }
}

fn slc_cache(config: &mut DriveConfig, rng: &mut Prng) {
    let (nand, ftl) = (&mut config.nand, &mut config.ftl);
    ftl.mapping = "page".to_owned();
    nand.blocks_per_plane += 12;
    nand.slc.bits_per_cell = pick(rng, &[2, 3, 4]);
    nand.pages_per_block = nand.slc.bits_per_cell * pick(rng, &[1, 2, 3]);
    (nand.slc.read_ns, nand.slc.program_ns, nand.slc.erase_ns) =
        (pick(rng, &[3, 20]), pick(rng, &[15, 90]), pick(rng, &[40, 900]));
    let suspend = &mut nand.suspend;
    (suspend.suspend_ns, suspend.resume_ns, suspend.least_left_ns) = (2, 3, pick(rng, &[0, 10]));
    if ftl.durable_map == DurableMap::Pages {
        // Map pages exclude an SLC cache.
        (ftl.durable_map, ftl.flush_metadata, ftl.owner_lists) = (true.into(), false, false);
    }
    if rng.clone().below(4) == 0 {
        ftl.placement.scheme = SchemeName::Handles.into();
        (ftl.placement.handles, ftl.placement.unit_blocks) = (2, 1);
        ftl.gc.stream = GcStream::Own;
    }
    let slc = &mut ftl.slc_cache;
    (slc.static_blocks, slc.dynamic_blocks) = pick(rng, &[(0, 6), (0, 20), (3, 0), (4, 10), (6, 3)]);
    slc.fold_at = pick(rng, &[0, 0, 2, 3]);
    slc.fold_idle_ns = pick(rng, &[1, 300, 5_000]);
    slc.when_full = pick(rng, &[WhenFull::Direct, WhenFull::Fold]);
    let planes = nand.channels * nand.dies_per_channel * nand.planes_per_die;
    if ftl.gc.low_watermark_blocks > 0 {
        ftl.gc.low_watermark_blocks += planes;
        ftl.gc.high_watermark_blocks += planes;
    }
}

fn block_map(config: &mut DriveConfig, rng: &mut Prng) {
    let ftl = &mut config.ftl;
    ftl.mapping = pick(rng, &["replacement-block", "log-block", "fast"]).to_owned();
    ftl.log_blocks = pick(rng, &[2, 3, 5]);
    ftl.log_victim = pick(rng, &[LogVictim::Lru, LogVictim::Mru, LogVictim::Fullest, LogVictim::Emptiest]);
    config.nand.any_page_order = ftl.mapping == "replacement-block" || rng.below(2) == 0;
    config.nand.page_bytes = ftl.mapping_unit_bytes;
}

fn controller(config: &mut DriveConfig, rng: &mut Prng) {
    let unit_bytes = u64::from(config.ftl.mapping_unit_bytes);
    let controller = &mut config.controller;
    let deadline_ns = pick(rng, &[0, 100, 3_000, 1_000_000]);
    controller.schedule = ScheduleTable {
        host_program_ns: deadline_ns,
        background_read_ns: pick(rng, &[0, 1, 2]) * deadline_ns,
        background_program_ns: pick(rng, &[0, 2, 4]) * deadline_ns,
        erase_ns: pick(rng, &[0, 1, 8]) * deadline_ns,
    };
    controller.command_ns = pick(rng, &[0, 0, 7]);
    controller.link_mb_s = pick(rng, &[0, 0, 51_200]);
    controller.write_buffer_bytes = unit_bytes * pick(rng, &[0, 0, 3, 8, 20]);
    let units = pick(rng, &[0, 0, 2, 5, 12]);
    controller.nvram.bytes = unit_bytes * units;
    controller.nvram.write_ns = pick(rng, &[0, 3]);
    controller.nvram.read_ns = pick(rng, &[0, 3]);
    if units > 0 {
        controller.nvram.policy =
            pick(rng, &[NvramPolicyName::Lru, NvramPolicyName::LbaRange, NvramPolicyName::Hint]);
    }
}
