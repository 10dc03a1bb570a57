//! Keys without effect for a reason that `x-needs` of their schema does not express.

use strobe_ssd::{DieAllocation, DurableMap, GcMode, GcStream, SchemeName, Victim};

use crate::Experiment;

pub(super) struct Rule {
    /// Keys, or endings of keys of the drive: `*_ns`.
    pub(super) keys: &'static [&'static str],
    /// Keys that can disable `keys`. The one from the highest source counts.
    pub(super) switches: &'static [&'static str],
    pub(super) wants: &'static str,
    pub(super) counts: fn(&Experiment) -> bool,
}

impl Rule {
    pub(super) fn is_about(&self, key: &str) -> bool {
        self.keys.iter().any(|pattern| match pattern.strip_prefix('*') {
            Some(end) => key.starts_with("drive.") && key.ends_with(end),
            None => *pattern == key,
        })
    }
}

fn has_map_pages(experiment: &Experiment) -> bool {
    let ftl = &experiment.drive.ftl;
    ftl.mapping == "dftl" || ftl.durable_map == DurableMap::Pages
}

fn stops_the_world(experiment: &Experiment) -> bool {
    !experiment.run.timing || experiment.drive.ftl.gc.mode == GcMode::StopTheWorld
}

fn scheme(experiment: &Experiment) -> Option<SchemeName> {
    experiment.drive.ftl.placement.scheme.name()
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        keys: &[
            "*_ns",
            "*_mb_s",
            "drive.nand.cache_program",
            "drive.nand.cache_read",
            "drive.nand.independent_plane_reads",
            "drive.nand.spare_bytes",
            "drive.controller.write_throttle_burst",
            "drive.controller.issue",
            "drive.nand.suspend.most",
            "drive.nand.read_retry.per_day",
            "drive.nand.read_retry.per_kcycle_day",
            "drive.nand.read_retry.days_per_second",
            "drive.ftl.refresh.days",
            "drive.ftl.batch_pages",
            "drive.ftl.gc.high_watermark_blocks",
            "drive.ftl.gc.low_watermark_blocks",
            "drive.ftl.gc.victims",
            "drive.ftl.gc.read_pages",
            "workload.queue_depth",
            "workload.rate_iops",
            "workload.rate_points",
            "workload.rate_process",
            "workload.rate_repeat",
            "workload.thinktime",
            "workload.thinktime_blocks",
            "workload.pacing",
            "workload.speed",
            "run.interval",
            "run.latency_bins",
            "run.long_wait",
        ],
        switches: &["run.timing"],
        wants: "run.timing = true; without time requests and operations are only counted",
        counts: |e| e.run.timing,
    },
    Rule {
        keys: &["drive.ftl.gc.mode"],
        switches: &["run.timing"],
        wants: "run.timing = true; without time collection stops the world",
        counts: |e| e.run.timing || e.drive.ftl.gc.mode == GcMode::StopTheWorld,
    },
    Rule {
        keys: &["drive.ftl.die_allocation"],
        switches: &["run.timing"],
        wants: "run.timing = true; without time no die is free before others, and pages are striped",
        counts: |e| e.run.timing || e.drive.ftl.die_allocation != DieAllocation::FreeFirst,
    },
    Rule {
        keys: &["drive.ftl.gc.victims"],
        switches: &["drive.ftl.placement.scheme"],
        wants: "drive.ftl.placement.scheme is not \"sorted\", which empties as many victims together as gain a block, \
                or drive.ftl.slc_cache is on",
        counts: |e| scheme(e) != Some(SchemeName::Sorted) || e.drive.ftl.slc_cache.is_on(),
    },
    Rule {
        keys: &["drive.ftl.gc.net_blocks"],
        switches: &["drive.ftl.gc.mode", "run.timing"],
        wants: "drive.ftl.gc.mode = \"stop-the-world\"; background collection continues until enough space \
                is free",
        // Map pages and an SLC cache still collect synchronously.
        counts: |e| stops_the_world(e) || has_map_pages(e) || e.drive.ftl.slc_cache.is_on(),
    },
    Rule {
        keys: &["drive.ftl.gc.pad_moved"],
        switches: &["drive.ftl.gc.mode", "run.timing", "drive.ftl.gc.stream", "drive.ftl.placement.scheme"],
        wants: "drive.ftl.gc.mode = \"stop-the-world\", and copies have separate blocks (drive.ftl.gc.stream \
                = \"own\" or a placement other than 2r)",
        counts: |e| {
            let has_own = e.drive.ftl.gc.stream == GcStream::Own || scheme(e) != Some(SchemeName::None);
            stops_the_world(e) && has_own && scheme(e) != Some(SchemeName::TwoR)
        },
    },
    Rule {
        keys: &["drive.ftl.placement.scheme"],
        switches: &["drive.ftl.gc.mode", "run.timing", "drive.ftl.gc.garbage_share"],
        wants: "drive.ftl.gc.mode = \"stop-the-world\" or run.timing = false, and drive.ftl.gc.garbage_share = 0; with \
                drive.ftl.placement.scheme = \"2r\" the host goes on in what a collection that it waits for has left",
        counts: |e| {
            let collects_in_full = stops_the_world(e) && e.drive.ftl.gc.garbage_share == 0.0;
            scheme(e) != Some(SchemeName::TwoR) || collects_in_full
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
            let is_exact =
                matches!(Victim::named(&ftl.gc.victim), None | Some(Victim::Greedy { windowed: false }));
            stops_the_world(e)
                && is_exact
                && ftl.mapping == "page"
                && !has_map_pages(e)
                && !ftl.slc_cache.is_on()
        },
    },
    Rule {
        keys: &["drive.ftl.placement.scheme"],
        switches: &["drive.ftl.slc_cache.static_blocks", "drive.ftl.slc_cache.dynamic_blocks"],
        wants: "drive.ftl.slc_cache is left out, or drive.ftl.placement.scheme is not \"midas\", whose groups divide \
                all blocks",
        counts: |e| !e.drive.ftl.slc_cache.is_on() || scheme(e) != Some(SchemeName::Midas),
    },
    Rule {
        keys: &["drive.ftl.placement.streams"],
        switches: &["drive.ftl.placement.scheme"],
        wants: "drive.ftl.placement.scheme = \"sepbit\", \"gw\", \"dac\", \"fadac\", \"warcip\", \"sfs\", \"fk\", \"midas\" or a formula",
        counts: |e| {
            use SchemeName::{Dac, Fadac, Fk, Gw, Midas, Sepbit, Sfs, Warcip};
            scheme(e).is_none_or(|name| matches!(name, Sepbit | Gw | Dac | Fadac | Warcip | Sfs | Fk | Midas))
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
];
