//! Drive keys that have an effect only with certain values of others.

use strobe_ssd::{
    CopyMode, DieAllocation, DurableMap, GcMode, GcStream, Issue, NvramPolicyName, SchemeName, Victim,
    WearLevelingName,
};

use super::rules::{Rule, TIMING};
use crate::Experiment;

fn maps_blocks(experiment: &Experiment) -> bool {
    !matches!(experiment.drive.ftl.mapping.as_str(), "page" | "dftl")
}

fn has_map_pages(experiment: &Experiment) -> bool {
    let ftl = &experiment.drive.ftl;
    ftl.mapping == "dftl" || ftl.durable_map == DurableMap::Pages
}

fn sorts_by_temperature(experiment: &Experiment) -> bool {
    let scheme = experiment.drive.ftl.placement.scheme.name();
    matches!(scheme, Some(SchemeName::HotCold | SchemeName::Sorted))
}

const READ_RETRY: &[&str] = &[
    "drive.nand.read_retry.per_day",
    "drive.nand.read_retry.per_kcycle_day",
    "drive.nand.read_retry.fresh",
    "drive.nand.read_retry.per_kcycle",
    "drive.nand.read_retry.per_kread",
];

pub(super) const OF_DRIVES: &[Rule] = &[
    Rule {
        keys: &[
            "drive.nand.read_ns",
            "drive.nand.program_ns",
            "drive.nand.erase_ns",
            "drive.nand.channel_mb_s",
            "drive.nand.command_ns",
            "drive.nand.cache_program",
            "drive.nand.cache_read",
            "drive.nand.independent_plane_reads",
            "drive.nand.spare_bytes",
            "drive.controller.command_ns",
            "drive.controller.range_ns",
            "drive.controller.link_mb_s",
            "drive.controller.trim.command_ns",
            "drive.controller.trim.range_ns",
            "drive.controller.trim.partial_ns",
            "drive.controller.trim.jump_ns",
            "drive.controller.trim.adjacent_ns",
            "drive.controller.trim.mib_ns",
            "drive.controller.nvram.read_ns",
            "drive.controller.nvram.write_ns",
            "drive.controller.latency_ns",
            "drive.controller.jitter_ns",
            "drive.controller.write_jitter_ns",
            "drive.controller.write_throttle_ns",
            "drive.controller.write_throttle_burst",
            "drive.controller.schedule.host_program_ns",
            "drive.controller.schedule.background_read_ns",
            "drive.controller.schedule.background_program_ns",
            "drive.controller.schedule.erase_ns",
            "drive.nand.suspend.most",
            "drive.nand.suspend.suspend_ns",
            "drive.nand.suspend.resume_ns",
            "drive.nand.suspend.least_left_ns",
            "drive.nand.read_retry.per_day",
            "drive.nand.read_retry.per_kcycle_day",
            "drive.nand.read_retry.days_per_second",
            "drive.ftl.refresh.days",
            "drive.ftl.batch_pages",
            "drive.ftl.gc.high_watermark_blocks",
            "drive.ftl.gc.low_watermark_blocks",
            "drive.ftl.gc.victims",
            "drive.ftl.gc.read_pages",
            "drive.controller.issue",
            "drive.nand.slc.read_ns",
            "drive.nand.slc.program_ns",
            "drive.nand.slc.erase_ns",
            "drive.ftl.slc_cache.fold_idle_ns",
        ],
        switches: TIMING,
        wants: "run.timing = true; without time operations are only counted",
        counts: |e| e.run.timing,
    },
    Rule {
        keys: &["drive.controller.write_throttle_burst"],
        switches: &["drive.controller.write_throttle_ns"],
        wants: "drive.controller.write_throttle_ns is above 0",
        counts: |e| e.drive.controller.write_throttle_ns > 0,
    },
    Rule {
        keys: &[
            "drive.ftl.gc.high_watermark_blocks",
            "drive.ftl.gc.low_watermark_blocks",
            "drive.ftl.gc.victims",
            "drive.ftl.gc.read_pages",
        ],
        switches: &["drive.ftl.gc.mode"],
        wants: "drive.ftl.gc.mode = \"background\"",
        counts: |e| e.drive.ftl.gc.mode == GcMode::Background,
    },
    Rule {
        keys: &["drive.ftl.gc.victims"],
        switches: &["drive.ftl.placement.scheme"],
        wants: "drive.ftl.placement.scheme is not \"sorted\", which empties as many victims together as gain a block, \
                or drive.ftl.slc_cache is on",
        counts: |e| e.drive.ftl.placement.scheme != SchemeName::Sorted || e.drive.ftl.slc_cache.is_on(),
    },
    Rule {
        keys: &["drive.ftl.gc.net_blocks"],
        switches: &["drive.ftl.gc.mode", "run.timing"],
        wants: "drive.ftl.gc.mode = \"stop-the-world\"; background collection continues until enough space \
                is free",
        counts: |e| {
            let ftl = &e.drive.ftl;
            // Map pages and an SLC cache still collect synchronously.
            let is_idle = e.run.timing && ftl.gc.mode == GcMode::Background && !has_map_pages(e);
            !is_idle || ftl.slc_cache.is_on()
        },
    },
    Rule {
        keys: &["drive.ftl.gc.pad_moved"],
        switches: &["drive.ftl.gc.mode", "run.timing", "drive.ftl.gc.stream", "drive.ftl.placement.scheme"],
        wants: "drive.ftl.gc.mode = \"stop-the-world\", and copies have separate blocks (drive.ftl.gc.stream \
                = \"own\" or a placement other than 2r)",
        counts: |e| {
            let (gc, scheme) = (&e.drive.ftl.gc, &e.drive.ftl.placement.scheme);
            let stops = !e.run.timing || gc.mode == GcMode::StopTheWorld;
            let has_own = gc.stream == GcStream::Own || *scheme != SchemeName::None;
            stops && has_own && *scheme != SchemeName::TwoR
        },
    },
    Rule {
        keys: &["drive.ftl.placement.scheme"],
        switches: &["drive.ftl.gc.mode", "run.timing", "drive.ftl.gc.garbage_share"],
        wants: "drive.ftl.gc.mode = \"stop-the-world\" or run.timing = false, and drive.ftl.gc.garbage_share = 0; with \
                drive.ftl.placement.scheme = \"2r\" the host goes on in what a collection that it waits for has left",
        counts: |e| {
            let gc = &e.drive.ftl.gc;
            let stops = !e.run.timing || gc.mode == GcMode::StopTheWorld;
            e.drive.ftl.placement.scheme != SchemeName::TwoR || stops && gc.garbage_share == 0.0
        },
    },
    Rule {
        keys: &["drive.ftl.gc.garbage_share"],
        switches: &[
            "drive.ftl.gc.mode",
            "run.timing",
            "drive.ftl.gc.victim",
            "drive.ftl.mapping",
            "drive.ftl.durable_map",
            "drive.ftl.slc_cache.static_blocks",
            "drive.ftl.slc_cache.dynamic_blocks",
        ],
        wants: "drive.ftl.gc.mode = \"stop-the-world\" or run.timing = false, drive.ftl.gc.victim = \
                \"greedy\" or a formula, drive.ftl.mapping = \"page\" without map pages, and \
                drive.ftl.slc_cache is left out",
        counts: |e| {
            let ftl = &e.drive.ftl;
            let stops = !e.run.timing || ftl.gc.mode == GcMode::StopTheWorld;
            let is_exact =
                matches!(Victim::named(&ftl.gc.victim), None | Some(Victim::Greedy { windowed: false }));
            stops && is_exact && ftl.mapping == "page" && !has_map_pages(e) && !ftl.slc_cache.is_on()
        },
    },
    Rule {
        keys: &["drive.ftl.gc.mode"],
        switches: TIMING,
        wants: "run.timing = true; without time collection stops the world",
        counts: |e| e.run.timing || e.drive.ftl.gc.mode == GcMode::StopTheWorld,
    },
    Rule {
        keys: &["drive.ftl.die_allocation"],
        switches: TIMING,
        wants: "run.timing = true; without time no die is free before others, and pages are striped",
        counts: |e| e.run.timing || e.drive.ftl.die_allocation != DieAllocation::FreeFirst,
    },
    Rule {
        keys: &["drive.nand.cache_read"],
        switches: &["drive.nand.channel_mb_s"],
        wants: "drive.nand.channel_mb_s is above 0; without transfer time there is nothing to overlap",
        counts: |e| e.drive.nand.channel_mb_s > 0,
    },
    Rule {
        keys: &["drive.nand.spare_bytes"],
        switches: &["drive.nand.channel_mb_s"],
        wants: "drive.nand.channel_mb_s is above 0; without transfer time the size of a transfer does not \
                matter",
        counts: |e| e.drive.nand.channel_mb_s > 0,
    },
    Rule {
        keys: &[
            "drive.controller.schedule.host_program_ns",
            "drive.controller.schedule.background_read_ns",
            "drive.controller.schedule.background_program_ns",
            "drive.controller.schedule.erase_ns",
        ],
        switches: &["drive.controller.issue"],
        wants: "drive.controller.issue = \"per-die\"; in order, no die has a choice",
        counts: |e| e.drive.controller.issue == Issue::PerDie,
    },
    Rule {
        keys: &["drive.nand.independent_plane_reads"],
        switches: &["drive.nand.planes_per_die"],
        wants: "drive.nand.planes_per_die is above 1",
        counts: |e| e.drive.nand.planes_per_die > 1,
    },
    Rule {
        keys: &[
            "drive.nand.suspend.suspend_ns",
            "drive.nand.suspend.resume_ns",
            "drive.nand.suspend.least_left_ns",
        ],
        switches: &["drive.nand.suspend.most"],
        wants: "drive.nand.suspend.most is above 0",
        counts: |e| e.drive.nand.suspend.most > 0,
    },
    Rule {
        keys: &["drive.nand.read_retry.most", "drive.nand.read_retry.fails_beyond_most"],
        switches: READ_RETRY,
        wants: "fresh, per_kcycle, per_day, per_kcycle_day or per_kread of drive.nand.read_retry is above 0",
        counts: |e| e.drive.nand.read_retry.is_on(),
    },
    Rule {
        keys: &["drive.nand.faults.at"],
        switches: TIMING,
        wants: "run.timing = true, or after_ns is left out; without timing no virtual time passes",
        counts: |e| e.run.timing || e.drive.nand.faults.at.iter().all(|fault| fault.after_ns == 0),
    },
    Rule {
        keys: &["drive.nand.read_retry.days_per_second"],
        switches: READ_RETRY,
        wants: "per_day or per_kcycle_day of drive.nand.read_retry, or drive.ftl.refresh.days, is above 0",
        counts: |e| {
            let retry = &e.drive.nand.read_retry;
            retry.per_day + retry.per_kcycle_day + e.drive.ftl.refresh.days > 0.0
        },
    },
    Rule {
        keys: &["drive.ftl.refresh.days"],
        switches: &["drive.nand.read_retry.days_per_second"],
        wants: "drive.nand.read_retry.days_per_second is above 0; otherwise no day ever passes",
        counts: |e| e.drive.nand.read_retry.days_per_second > 0.0,
    },
    Rule {
        keys: &[
            "drive.controller.nvram.policy",
            "drive.controller.nvram.ranges",
            "drive.controller.nvram.read_ns",
            "drive.controller.nvram.write_ns",
        ],
        switches: &["drive.controller.nvram.bytes"],
        wants: "drive.controller.nvram.bytes is above 0",
        counts: |e| e.drive.controller.nvram.bytes > 0,
    },
    Rule {
        keys: &["drive.controller.nvram.ranges"],
        switches: &["drive.controller.nvram.policy"],
        wants: "drive.controller.nvram.policy = \"lba-range\"",
        counts: |e| e.drive.controller.nvram.policy == NvramPolicyName::LbaRange,
    },
    Rule {
        keys: &["drive.ftl.log_blocks"],
        switches: &["drive.ftl.mapping"],
        wants: "drive.ftl.mapping = \"replacement-block\", \"log-block\" or \"fast\"",
        counts: maps_blocks,
    },
    Rule {
        keys: &["drive.ftl.log_victim"],
        switches: &["drive.ftl.mapping"],
        wants: "drive.ftl.mapping = \"log-block\"; fast merges its oldest log, replacement-block its longest chain",
        counts: |e| e.drive.ftl.mapping == "log-block",
    },
    Rule {
        keys: &["drive.ftl.translation.cached_entries", "drive.ftl.translation.batched_eviction"],
        switches: &["drive.ftl.mapping"],
        wants: "drive.ftl.mapping = \"dftl\"",
        counts: |e| e.drive.ftl.mapping == "dftl",
    },
    Rule {
        keys: &[
            "drive.ftl.allocation",
            "drive.ftl.die_allocation",
            "drive.ftl.batch_pages",
            "drive.ftl.refresh.reads",
            "drive.ftl.refresh.days",
            "drive.ftl.wear_leveling.kind",
            "drive.ftl.wear_leveling.threshold",
            "drive.ftl.wear_leveling.set_blocks",
            "drive.ftl.gc.victim",
            "drive.ftl.gc.choices",
            "drive.ftl.gc.window",
            "drive.ftl.placement.scheme",
            "drive.ftl.placement.temperature",
            "drive.ftl.placement.streams",
            "drive.ftl.placement.handles",
            "drive.ftl.placement.isolation",
            "drive.ftl.placement.unit_blocks",
            "drive.ftl.gc.stream",
            "drive.ftl.gc.min_free_blocks",
            "drive.ftl.gc.net_blocks",
            "drive.ftl.gc.pad_moved",
            "drive.ftl.gc.mode",
            "drive.ftl.gc.high_watermark_blocks",
            "drive.ftl.gc.low_watermark_blocks",
            "drive.ftl.gc.victims",
            "drive.ftl.gc.read_pages",
        ],
        switches: &["drive.ftl.mapping"],
        wants: "drive.ftl.mapping = \"page\" or \"dftl\"; block-mapped schemes merge instead of collecting",
        counts: |e| !maps_blocks(e),
    },
    Rule {
        keys: &[
            "drive.nand.slc.bits_per_cell",
            "drive.nand.slc.read_ns",
            "drive.nand.slc.program_ns",
            "drive.nand.slc.erase_ns",
            "drive.ftl.slc_cache.fold_at",
            "drive.ftl.slc_cache.fold_idle_ns",
            "drive.ftl.slc_cache.when_full",
        ],
        switches: &["drive.ftl.slc_cache.static_blocks", "drive.ftl.slc_cache.dynamic_blocks"],
        wants: "drive.ftl.slc_cache.static_blocks or dynamic_blocks is above 0",
        counts: |e| e.drive.ftl.slc_cache.is_on(),
    },
    Rule {
        keys: &["drive.ftl.gc.choices"],
        switches: &["drive.ftl.gc.victim"],
        wants: "drive.ftl.gc.victim = \"d-choices\"",
        counts: |e| e.drive.ftl.gc.victim == "d-choices",
    },
    Rule {
        keys: &["drive.ftl.gc.window"],
        switches: &["drive.ftl.gc.victim"],
        wants: "drive.ftl.gc.victim = \"windowed-greedy\"",
        counts: |e| e.drive.ftl.gc.victim == "windowed-greedy",
    },
    Rule {
        keys: &["drive.ftl.placement.temperature"],
        switches: &["drive.ftl.placement.scheme"],
        wants: "drive.ftl.placement.scheme = \"hot-cold\" or \"sorted\"",
        counts: |e| sorts_by_temperature(e),
    },
    Rule {
        keys: &["drive.ftl.placement.scheme"],
        switches: &["drive.ftl.slc_cache.static_blocks", "drive.ftl.slc_cache.dynamic_blocks"],
        wants: "drive.ftl.slc_cache is left out, or drive.ftl.placement.scheme is not \"midas\", whose groups divide \
                all blocks",
        counts: |e| !e.drive.ftl.slc_cache.is_on() || e.drive.ftl.placement.scheme != SchemeName::Midas,
    },
    Rule {
        keys: &["drive.ftl.placement.streams"],
        switches: &["drive.ftl.placement.scheme"],
        wants: "drive.ftl.placement.scheme = \"sepbit\", \"gw\", \"dac\", \"fadac\", \"warcip\", \"sfs\", \"fk\", \"midas\" or a formula",
        counts: |e| {
            use SchemeName::{Dac, Fadac, Fk, Gw, Midas, Sepbit, Sfs, Warcip};
            let scheme = e.drive.ftl.placement.scheme.name();
            scheme.is_none_or(|name| matches!(name, Sepbit | Gw | Dac | Fadac | Warcip | Sfs | Fk | Midas))
        },
    },
    Rule {
        keys: &["drive.ftl.placement.handles", "workload.placement_handle"],
        switches: &["drive.ftl.placement.scheme"],
        wants: "drive.ftl.placement.scheme = \"handles\" or a formula with handle",
        counts: |e| {
            let scheme = &e.drive.ftl.placement.scheme;
            *scheme == SchemeName::Handles || scheme.uses("handle")
        },
    },
    Rule {
        keys: &[
            "drive.ftl.placement.isolation",
            "drive.ftl.placement.unit_blocks",
            "drive.ftl.placement.groups",
        ],
        switches: &["drive.ftl.placement.scheme"],
        wants: "drive.ftl.placement.scheme = \"handles\"",
        counts: |e| e.drive.ftl.placement.scheme == SchemeName::Handles,
    },
    Rule {
        keys: &["drive.ftl.gc.stream"],
        switches: &["drive.ftl.placement.scheme"],
        wants: "drive.ftl.placement.scheme = \"none\", \"hot-cold\" or \"sorted\"; others define their own \
                streams",
        counts: |e| e.drive.ftl.placement.scheme == SchemeName::None || sorts_by_temperature(e),
    },
    Rule {
        keys: &["drive.ftl.wear_leveling.threshold"],
        switches: &["drive.ftl.wear_leveling.kind"],
        wants: "drive.ftl.wear_leveling.kind is not \"none\"",
        counts: |e| e.drive.ftl.wear_leveling.kind != WearLevelingName::None,
    },
    Rule {
        keys: &["drive.ftl.wear_leveling.set_blocks"],
        switches: &["drive.ftl.wear_leveling.kind"],
        wants: "drive.ftl.wear_leveling.kind = \"sw-leveler\"",
        counts: |e| e.drive.ftl.wear_leveling.kind == WearLevelingName::SwLeveler,
    },
    Rule {
        keys: &["drive.ftl.virtual_map_entries"],
        switches: &["drive.ftl.copy_mode"],
        wants: "drive.ftl.copy_mode = \"logical\"",
        counts: |e| e.drive.ftl.copy_mode == CopyMode::Logical,
    },
    Rule {
        keys: &["drive.ftl.flush_metadata", "drive.ftl.owner_lists"],
        switches: &["drive.ftl.durable_map", "drive.ftl.mapping"],
        wants: "drive.ftl.durable_map = \"pages\" or drive.ftl.mapping = \"dftl\"",
        counts: has_map_pages,
    },
    Rule {
        keys: &["drive.ftl.map_blocks"],
        switches: &["drive.ftl.durable_map", "drive.ftl.mapping"],
        wants: "drive.ftl.durable_map = true and drive.ftl.mapping = \"page\"; other mappings have no \
                journal",
        counts: |e| e.drive.ftl.durable_map == DurableMap::Journal && e.drive.ftl.mapping == "page",
    },
];
