//! Keys that have an effect only with certain values of others.

use strobe_workload::lfs::{Cleaning, LfsConfig};
use strobe_workload::synthetic::Kind;

use crate::Experiment;
use crate::experiment::{PacingName, SyntheticWorkload, TraceConfig, WorkloadConfig};

pub(super) struct Rule {
    pub(super) keys: &'static [&'static str],
    /// Keys that can disable `keys`. The one from the highest source counts.
    pub(super) switches: &'static [&'static str],
    pub(super) wants: &'static str,
    pub(super) counts: fn(&Experiment) -> bool,
}

fn kind(experiment: &Experiment) -> Option<Kind> {
    match &experiment.workload {
        WorkloadConfig::Synthetic(workload) => Some(workload.generator.kind),
        WorkloadConfig::Trace(_) | WorkloadConfig::Lfs(_) | WorkloadConfig::Jobs(_) => None,
    }
}

fn generator(experiment: &Experiment, is: impl Fn(&SyntheticWorkload) -> bool) -> bool {
    matches!(&experiment.workload, WorkloadConfig::Synthetic(workload) if is(workload))
}

fn trace(experiment: &Experiment) -> Option<&TraceConfig> {
    match &experiment.workload {
        WorkloadConfig::Trace(trace) => Some(trace),
        WorkloadConfig::Synthetic(_) | WorkloadConfig::Lfs(_) | WorkloadConfig::Jobs(_) => None,
    }
}

fn file_system(experiment: &Experiment, is: impl Fn(&LfsConfig) -> bool) -> bool {
    matches!(&experiment.workload, WorkloadConfig::Lfs(config) if is(config))
}

fn is_open_loop(experiment: &Experiment) -> bool {
    trace(experiment).is_some_and(|trace| trace.pacing == PacingName::Open)
}

const KIND: &[&str] = &["workload.kind", "workload.rw", "workload.random_distribution"];
const RATE: &[&str] = &["workload.rate_iops", "workload.rate_points"];
pub(super) const TIMING: &[&str] = &["run.timing"];

/// Keys of `[workload]` are keys of `[[jobs]]` too; each job is checked as if it were alone.
pub(super) const OF_WORKLOADS: &[Rule] = &[
    Rule {
        keys: &["workload.random_map"],
        switches: KIND,
        wants: "workload.kind = \"uniform\"",
        counts: |e| kind(e) == Some(Kind::Uniform),
    },
    Rule {
        keys: &["workload.theta"],
        switches: KIND,
        wants: "workload.kind = \"zipf\"",
        counts: |e| kind(e) == Some(Kind::Zipf),
    },
    Rule {
        keys: &["workload.hot_fraction", "workload.hot_write_share"],
        switches: KIND,
        wants: "workload.kind = \"hotcold\"",
        counts: |e| kind(e) == Some(Kind::Hotcold),
    },
    Rule {
        keys: &["workload.sigma", "workload.hot_share", "workload.uniform_share"],
        switches: KIND,
        wants: "workload.kind = \"gaussian\"",
        counts: |e| kind(e) == Some(Kind::Gaussian),
    },
    Rule {
        keys: &["workload.scatter"],
        switches: KIND,
        wants: "workload.kind = \"zipf\" or \"hotcold\"",
        counts: |e| matches!(kind(e), Some(Kind::Zipf | Kind::Hotcold)),
    },
    Rule {
        keys: &["workload.trim_ranges"],
        switches: &["workload.trim_fraction", "workload.kind"],
        wants: "workload.trim_fraction is above 0, or the workload has its own trims (\"trace\" or \"lfs\")",
        counts: |e| kind(e).is_none() || generator(e, |workload| workload.generator.trim_fraction > 0.0),
    },
    Rule {
        keys: &["workload.copy_ranges"],
        switches: &["workload.cleaning"],
        wants: "workload.cleaning = \"copy\"",
        counts: |e| file_system(e, |config| config.cleaning == Cleaning::Copy),
    },
    Rule {
        keys: &["workload.checkpoint_every"],
        switches: &["workload.cleaning"],
        wants: "workload.cleaning = \"threaded\" or \"in-place\"; cleaning ends with a checkpoint",
        counts: |e| {
            file_system(e, |config| matches!(config.cleaning, Cleaning::Threaded | Cleaning::InPlace))
        },
    },
    Rule {
        keys: &["workload.flush_every"],
        switches: KIND,
        wants: "workload.kind is not \"trace\": a trace contains its own flushes",
        counts: |e| kind(e).is_some(),
    },
    Rule {
        keys: &["workload.queue_depth", "workload.iodepth", "workload.rate_iops"],
        switches: &["workload.pacing", "workload.kind"],
        wants: "workload.pacing = \"closed\" (--closed-loop); in open loop the times of the trace decide",
        counts: |e| !is_open_loop(e),
    },
    Rule {
        keys: &["workload.late", "workload.speed"],
        switches: &["workload.pacing", "workload.kind"],
        wants: "workload.pacing = \"open\" (without --closed-loop)",
        counts: is_open_loop,
    },
    Rule {
        keys: &[
            "workload.queue_depth",
            "workload.iodepth",
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
        switches: TIMING,
        wants: "run.timing = true; without time requests are only counted",
        counts: |e| e.run.timing,
    },
    Rule {
        keys: &["workload.rate_process"],
        switches: RATE,
        wants: "workload.rate_iops or workload.rate_points is set",
        counts: |e| generator(e, SyntheticWorkload::is_open_loop),
    },
    Rule {
        keys: &["workload.rate_repeat"],
        switches: RATE,
        wants: "workload.rate_points is set",
        counts: |e| generator(e, |workload| !workload.pace.rate_points.is_empty()),
    },
    Rule {
        keys: &["workload.thinktime_blocks"],
        switches: &["workload.thinktime"],
        wants: "workload.thinktime is set",
        counts: |e| generator(e, |workload| workload.pace.thinktime.is_some()),
    },
    Rule {
        keys: &["workload.block_bytes", "workload.bs"],
        switches: &["workload.block_split", "workload.bssplit"],
        wants: "workload.block_split and workload.bssplit, which also set the sizes, are left out",
        counts: |e| !generator(e, |workload| !workload.generator.block_split.is_empty()),
    },
    Rule {
        keys: &["run.steady_interval", "run.steady_rounds"],
        switches: &["run.until_steady"],
        wants: "run.until_steady is set",
        counts: |e| e.run.until_steady.is_some(),
    },
];
