//! Keys that have an effect only with certain values of others.

use strobe_workload::lfs::{Cleaning, LfsConfig};
use strobe_workload::synthetic::Kind;

use crate::Experiment;
use crate::experiment::{PacingName, SyntheticWorkload, TraceConfig, WorkloadConfig};

/// Keys that share what makes them count.
pub(super) struct Rule {
    pub(super) keys: &'static [&'static str],
    /// The key that decides; the first that was given highest.
    pub(super) switches: &'static [&'static str],
    /// Condition under which the keys count, as a user would write it.
    pub(super) wants: &'static str,
    pub(super) counts: fn(&Experiment) -> bool,
}

fn kind(experiment: &Experiment) -> Option<Kind> {
    match &experiment.workload {
        WorkloadConfig::Synthetic(workload) => Some(workload.generator.kind),
        WorkloadConfig::Trace(_) | WorkloadConfig::Lfs(_) | WorkloadConfig::Jobs(_) => None,
    }
}

/// True if the workload is a generator that satisfies `is`.
fn generator(experiment: &Experiment, is: impl Fn(&SyntheticWorkload) -> bool) -> bool {
    matches!(&experiment.workload, WorkloadConfig::Synthetic(workload) if is(workload))
}

fn trace(experiment: &Experiment) -> Option<&TraceConfig> {
    match &experiment.workload {
        WorkloadConfig::Trace(trace) => Some(trace),
        WorkloadConfig::Synthetic(_) | WorkloadConfig::Lfs(_) | WorkloadConfig::Jobs(_) => None,
    }
}

/// True if the workload is a file system that satisfies `is`.
fn file_system(experiment: &Experiment, is: impl Fn(&LfsConfig) -> bool) -> bool {
    matches!(&experiment.workload, WorkloadConfig::Lfs(config) if is(config))
}

fn is_open_loop(experiment: &Experiment) -> bool {
    trace(experiment).is_some_and(|trace| trace.pacing == PacingName::Open)
}

/// Names of the key that selects addresses, fio's included.
const KIND: &[&str] = &["workload.kind", "workload.rw", "workload.random_distribution"];
const RATE: &[&str] = &["workload.rate_iops", "workload.rate_points"];
pub(super) const TIMING: &[&str] = &["run.timing"];

/// Rules on keys. Keys of `[workload]` are keys of `[[jobs]]` as well; each job is then checked as if it were
/// alone.
pub(super) const OF_WORKLOADS: &[Rule] = &[
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
        wants: "workload.trim_fraction above 0, or a workload that brings its own trims: \"trace\" or \"lfs\"",
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
        wants: "a workload other than \"trace\" (a trace brings its own flushes)",
        counts: |e| kind(e).is_some(),
    },
    Rule {
        keys: &["workload.queue_depth", "workload.iodepth", "workload.rate_iops"],
        switches: &["workload.pacing", "workload.kind"],
        wants: "workload.pacing = \"closed\" (--closed-loop); in open loop the trace's own times decide",
        counts: |e| !is_open_loop(e),
    },
    Rule {
        keys: &["workload.late"],
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
        wants: "workload.rate_iops or workload.rate_points",
        counts: |e| generator(e, SyntheticWorkload::is_open_loop),
    },
    Rule {
        keys: &["workload.rate_repeat"],
        switches: RATE,
        wants: "workload.rate_points",
        counts: |e| generator(e, |workload| !workload.pace.rate_points.is_empty()),
    },
    Rule {
        keys: &["workload.thinktime_blocks"],
        switches: &["workload.thinktime"],
        wants: "workload.thinktime",
        counts: |e| generator(e, |workload| workload.pace.thinktime.is_some()),
    },
    Rule {
        keys: &["workload.block_bytes", "workload.bs"],
        switches: &["workload.block_split", "workload.bssplit"],
        wants: "neither workload.block_split nor workload.bssplit, which say the sizes",
        counts: |e| !generator(e, |workload| !workload.generator.block_split.is_empty()),
    },
    Rule {
        keys: &["run.steady_interval", "run.steady_rounds"],
        switches: &["run.until_steady"],
        wants: "run.until_steady",
        counts: |e| e.run.until_steady.is_some(),
    },
];
