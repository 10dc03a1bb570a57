//! The `[run]` table: phases and measurements.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_ssd::KeyError;
use strobe_ssd::schema;
use strobe_types::{defaults, named};
use toml::{Table, Value};

use super::time::{TIME_TEXT, Time};
use super::{Amount, Experiment, SyntheticWorkload, WorkloadConfig};

named! {
    /// Metric that must be steady before the measurement begins.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum SteadyMetric {
        /// Write amplification.
        Waf => "waf",
        /// Requests per second, of all kinds.
        Iops => "iops",
        /// Bytes per second, read and written.
        Bandwidth => "bandwidth",
        /// Mean latency of all requests, from their issue.
        Latency => "latency",
    }
}

defaults! {
    /// Phases and measurements of a run.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct RunConfig {
        /// Write the whole drive once, in order, before anything else. Default: true for generators, false
        /// for traces and file systems.
        pub prefill: Option<bool> = None;
        /// After the prefill, overwrite the drive at random, one mapping unit per request and at full speed,
        /// so the workload finds a used drive. Host pages, or capacities such as "3x". Default 0.
        #[serde(skip_serializing_if = "is_nothing")]
        pub precondition: Amount = Amount::Pages(0);
        /// Length of the warm-up, during which the workload runs unmeasured. Host pages, "12x" capacities, or
        /// "10s" of virtual time. Host pages are mapping units written, and a partially written unit counts
        /// as one; for a workload without writes, units read or trimmed count. For a trace also "5000
        /// requests", "10GiB" or "2 repeats" of it, and a time is one of the trace. "2 repeats" last until the
        /// trace ends for the second time in this phase. Default 0.
        pub warmup: Amount = Amount::Pages(0);
        /// Length of the measured window: host pages as in run.warmup, "10x" capacities, or "60s" of virtual
        /// time; for a trace also the parts of run.warmup ("2 repeats": until the trace ends for the second
        /// time after the window began, so the first may be a part of it). The window begins and ends
        /// without a pause; a request counts if it completes within it. Default: "1x"; for traces, to the
        /// end; unlimited with one of the until keys, or if every job has a runtime or io_bytes.
        pub measure: Option<Amount> = None;
        /// End the run at most 1024 requests after this many blocks have gone bad in use. A trace ends after
        /// `repeat` repetitions in any case. Default: no limit.
        #[schemars(range(min = 1, max = 4_294_967_295u32))]
        pub until_bad_blocks: Option<u32> = None;
        /// Continue until the drive refuses writes because too many blocks have gone bad. A trace ends after
        /// `repeat` repetitions in any case. With until_bad_blocks, the earlier event ends the run. Default
        /// false.
        pub until_end_of_life: bool = false;
        /// After the warm-up, run rounds until this metric is steady by the rule of SNIA's performance test
        /// specification: over the last five rounds it spans at most 20 % of its mean, and a fitted line
        /// changes by at most 10 %. The measurement begins then. Generators only. Default: no rounds.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub until_steady: Option<SteadyMetric> = None;
        /// Length of a round of until_steady: host pages, capacities, or virtual time. Default "1x".
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("x-needs" = {"until_steady": "set"}))]
        pub steady_interval: Option<Amount> = None;
        /// Maximum rounds of until_steady. If the metric is still not steady, the measurement begins anyway,
        /// and the result reports it. Default 25.
        #[serde(skip_serializing_if = "is_default_rounds")]
        #[schemars(range(min = 5, max = 1_000_000))]
        #[schemars(extend("x-needs" = {"until_steady": "set"}))]
        pub steady_rounds: u32 = 25;
        /// Record throughput, latencies and more once per interval of this length, from the warm-up on (in a
        /// run from a state: from the measurement on). Beyond 10,000 intervals, later ones are longer. No
        /// other field of the result changes. Default: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub interval: Option<Time> = None;
        /// Number of X-ray frames taken during the measurement, at equal distances; `strobe report` shows
        /// them. If the length of the measurement is not known in advance, between half and all of them are
        /// taken. Without timing, frames are at least 1024 requests apart. Default: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 2, max = 1000))]
        pub xray: Option<u32> = None;
        /// Write every measured latency to the JSON, exact to three digits, with its number of requests. The
        /// content is that of clat_ns.bins in fio's json+. Default false.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub latency_bins: bool = false;
        /// Warn if a request took longer than this multiple of the slowest flash operation. 0: never. Default
        /// 10.
        #[serde(skip_serializing_if = "is_default_wait")]
        #[schemars(range(min = 0, max = 1_000_000))]
        pub long_wait: u32 = LONG_WAIT;
        /// Simulate time; false: only count operations. Default true.
        pub timing: bool = true;
        /// Run the whole-state checker after each phase and at each sample. Default false.
        pub check: bool = false;
    }
}

const LONG_WAIT: u32 = 10;

// Keys at their default are not serialized, so they do not change the hash of an experiment.

fn is_nothing(amount: &Amount) -> bool {
    *amount == Amount::Pages(0)
}

fn is_default_rounds(rounds: &u32) -> bool {
    *rounds == RunConfig::default().steady_rounds
}

fn is_default_wait(times: &u32) -> bool {
    *times == LONG_WAIT
}

/// Most intervals of a run of known length.
pub(crate) const INTERVALS_MAX: u64 = 10_000;

impl RunConfig {
    pub(super) fn read(mut table: Table) -> Result<Self, KeyError> {
        let schema = schema::of::<Self>();
        schema::check(&mut table, schema, "run")?;
        for key in ["warmup", "measure", "precondition", "steady_interval"] {
            if let Some(Value::String(text)) = table.get(key)
                && Amount::parse(text).is_none()
            {
                let allowed = "a count of host pages such as 1000000, capacities such as \"12x\", a time such as \"60s\", or of a trace \"5000 requests\", \"2 repeats\" or \"10GiB\"";
                return Err(KeyError::value(format!("run.{key}"), format!("\"{text}\""), allowed, ""));
            }
        }
        Time::check(&table, &["interval"], "run")?;
        schema::read(table, schema, "run")
    }

    /// True if the run ends when the drive wears out, by either criterion.
    pub fn until_worn(&self) -> bool {
        self.until_bad_blocks.is_some() || self.until_end_of_life
    }

    fn amounts(&self) -> [(&'static str, Option<Amount>); 4] {
        [
            ("run.precondition", Some(self.precondition)),
            ("run.warmup", Some(self.warmup)),
            ("run.measure", self.measure),
            ("run.steady_interval", self.steady_interval),
        ]
    }
}

pub(super) fn check_times(experiment: &Experiment) -> Result<(), KeyError> {
    let run = &experiment.run;
    let is_trace = matches!(experiment.workload, WorkloadConfig::Trace(_));
    let is_lfs = matches!(experiment.workload, WorkloadConfig::Lfs(_));
    for (key, amount) in run.amounts() {
        let takes_parts = is_trace && ["run.warmup", "run.measure"].contains(&key);
        if let Some(part) = amount.filter(|amount| amount.is_of_trace() && !takes_parts) {
            let allowed = "host pages such as 1000000, capacities such as \"3x\" or a time; parts of a trace are for \
                           run.warmup and run.measure of a trace";
            return Err(KeyError::value(key, format!("\"{part}\""), allowed, ""));
        }
        let Some(time) = amount.filter(|amount| amount.ns().is_some()) else { continue };
        let why = match (run.timing, is_trace, key) {
            (_, true, "run.warmup" | "run.measure") => continue,
            (false, ..) => "as run.timing = false: nothing has a time",
            (..) if is_lfs => "as a file system is measured by the data written to its files",
            (_, _, "run.precondition") => "as it runs at full speed",
            _ => continue,
        };
        let allowed = format!("host pages such as 1000000 or capacities such as \"3x\", {why}");
        return Err(KeyError::value(key, format!("\"{time}\""), allowed, ""));
    }
    if matches!(experiment.workload, WorkloadConfig::Jobs(_)) && !run.timing {
        let allowed = "true with [[jobs]]: the order of the jobs' requests depends on time";
        return Err(KeyError::value("run.timing", "false", allowed, ""));
    }
    if let Some(metric) = run.until_steady
        && metric != SteadyMetric::Waf
        && !run.timing
    {
        let allowed = "\"waf\" with run.timing = false: the other metrics need time";
        return Err(KeyError::value("run.until_steady", format!("\"{}\"", metric.name()), allowed, ""));
    }
    if let Some(metric) = run.until_steady.filter(|_| is_trace) {
        let allowed = "left out with a trace, which cannot continue until a metric is steady; set workload.repeat and \
                       a warm-up such as run.warmup = \"2 repeats\"";
        return Err(KeyError::value("run.until_steady", format!("\"{}\"", metric.name()), allowed, ""));
    }
    // 0 host pages are meant: such a run only prepares a drive.
    let is_empty = |measure: &Amount| is_trace && measure.is_zero() && !matches!(measure, Amount::Pages(_));
    if let Some(measure) = run.measure.filter(is_empty) {
        let allowed = "longer than nothing, such as \"60s\" or \"5000 requests\"; leave it out to measure to the end of \
                       the trace";
        return Err(KeyError::value("run.measure", format!("\"{measure}\""), allowed, ""));
    }
    if let WorkloadConfig::Jobs(jobs) = &experiment.workload {
        for (at, job) in jobs.iter().enumerate() {
            let delay = job.startdelay.unwrap_or_default();
            let ends = delay.as_ns().checked_add(job.runtime.unwrap_or_default().as_ns());
            // A run from a state or an image starts later: half of all virtual time is left to earlier runs.
            if ends.is_none_or(|ends| ends > u64::MAX / 2) {
                let allowed = "earlier: the job would not end before virtual time does, after 584 years";
                return Err(KeyError::value(
                    format!("jobs[{at}].startdelay"),
                    format!("\"{delay}\""),
                    allowed,
                    "",
                ));
            }
        }
    }
    let Some(interval) = run.interval else { return Ok(()) };
    if interval.as_ns() == 0 {
        return Err(KeyError::value("run.interval", "\"0s\"", format!("{TIME_TEXT}, longer than 0"), ""));
    }
    // Only phases with a length in virtual time have a known number of intervals.
    if is_trace {
        return Ok(());
    }
    let known = [Some(run.warmup), run.measure].into_iter().flatten().filter_map(Amount::ns);
    let known = known.fold(0, u64::saturating_add);
    if known / interval.as_ns() > INTERVALS_MAX {
        let least = Time::from_ns(known.div_ceil(INTERVALS_MAX));
        let allowed =
            format!("at least \"{least}\": run.warmup and run.measure then have {INTERVALS_MAX} intervals");
        return Err(KeyError::value("run.interval", format!("\"{interval}\""), allowed, ""));
    }
    Ok(())
}

pub(super) fn check_end(experiment: &Experiment) -> Result<(), KeyError> {
    let Experiment { drive, workload, run, .. } = experiment;
    let generators = workload.generators();
    let is_trace = matches!(workload, WorkloadConfig::Trace(_));
    // A trace or run.measure ends the run in any case.
    if is_trace || !run.until_worn() || run.measure.is_some() {
        return Ok(());
    }
    let (key, given) = match run.until_bad_blocks {
        Some(blocks) => ("run.until_bad_blocks", blocks.to_string()),
        None => ("run.until_end_of_life", "true".to_owned()),
    };
    let refuse = |cure: &str, meaning: &str| {
        let allowed = format!("given with {cure}, or with run.measure as a bound");
        Err(KeyError::value(key, given.clone(), allowed, meaning))
    };
    if drive.nand.endurance_pe == 0 && drive.nand.program_fail_rate == 0.0 {
        let cure = "drive.nand.endurance_pe or drive.nand.program_fail_rate above 0";
        return refuse(cure, "Otherwise no block ever goes bad and the run never ends.");
    }
    let reads = |(_, workload): &(_, &SyntheticWorkload)| workload.generator.write_fraction == 0.0;
    if !generators.is_empty() && generators.iter().all(reads) {
        return refuse("workload.write_fraction above 0", "Reads wear nothing out: the run would never end.");
    }
    Ok(())
}
