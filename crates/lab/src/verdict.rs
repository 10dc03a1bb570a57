//! Warnings about the credibility of a run's numbers.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_ssd::{DriveConfig, DriveStats, Room};
use strobe_types::{Geometry, SimTime};

use crate::Experiment;
use crate::lifetime::EndedBy;
use crate::numbers::{count, duration, ratio};
use crate::record::{Offered, Record};
use crate::series::SteadyState;

/// Flash, and what the drive offers of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CapacityResult {
    /// Bytes of all flash pages, without their spare areas.
    pub raw_bytes: u64,
    /// Bytes offered to the host.
    pub logical_bytes: u64,
    /// Bytes of flash that never hold data of the host: factory-bad blocks and those of a durable map.
    pub reserved_bytes: u64,
    /// Over-provisioning available to garbage collection: (raw − reserved − logical) / logical.
    pub over_provisioning: f64,
}

impl CapacityResult {
    /// The room of `drive`, which could be built.
    pub fn of(drive: &DriveConfig) -> Option<Self> {
        let room = Room::of(drive).ok()?;
        let Room { raw_bytes, logical_bytes, reserved_bytes } = room;
        Some(Self { raw_bytes, logical_bytes, reserved_bytes, over_provisioning: room.over_provisioning() })
    }
}

/// Coverage of a measured window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WindowVerdict {
    /// Write amplification is that of the steady state.
    Steady,
    /// The drive was still on its way there during the window, or within part of it.
    Transient,
    /// No block was erased: a drive that still has room says nothing about write amplification.
    NothingCollected,
    /// Fewer than five intervals of an eighth of the capacity were written.
    TooFewIntervals,
    /// The host wrote nothing.
    NoWrites,
}

/// The measured window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WindowResult {
    /// Host pages of it: mapping units written, of which a partially written one counts as one. Of a workload that writes
    /// nothing: mapping units read or trimmed.
    pub host_pages: u64,
    /// Host pages of the window in logical capacities.
    pub capacities: f64,
    /// Verdict: whether `waf` is that of the steady state.
    pub verdict: WindowVerdict,
}

/// Difference between the write amplification of a window and that of its last five intervals, as a share of the
/// latter, from which on the window covers a transient.
const TRANSIENT: f64 = 0.02;

impl WindowResult {
    pub(crate) fn of(
        stats: &DriveStats,
        writes_something: bool,
        logical_units: u32,
        waf: Option<f64>,
        steady: Option<&SteadyState>,
    ) -> Self {
        let verdict = match (waf, steady) {
            (None, _) => WindowVerdict::NoWrites,
            _ if stats.nand.total(strobe_nand::NandOp::Erase) == 0 => WindowVerdict::NothingCollected,
            (_, None) => WindowVerdict::TooFewIntervals,
            (Some(waf), Some(steady)) => {
                if steady.reached && (waf / steady.waf_mean - 1.0).abs() <= TRANSIENT {
                    WindowVerdict::Steady
                } else {
                    WindowVerdict::Transient
                }
            }
        };
        let host = &stats.host;
        let host_pages = if writes_something { host.units_written } else { host.units_touched };
        Self { host_pages, capacities: host_pages as f64 / f64::from(logical_units), verdict }
    }
}

/// The requests of a job that came at their own times, and whether the drive kept up with them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct JobLoad {
    /// Requests that arrived within the measured window.
    pub offered: u64,
    /// Requests that completed within it, whenever they had arrived; flushes do not count here.
    pub served: u64,
    /// Requests that arrived per second, in the time that the job had of the window.
    pub offered_iops: f64,
    /// Requests that completed per second.
    pub completed_iops: f64,
    /// Requests that had arrived when the window ended and were not issued.
    pub backlog: u64,
    /// Time for which the oldest of them had waited, in ns.
    pub behind_ns: u64,
    /// False if less than 95 % of the requests that arrived, and over 16 fewer, completed, or if the oldest that was not
    /// issued had waited for more than a tenth of the window and more than 100 ms. Latencies are then those of a queue that
    /// grows without end.
    pub kept_up: bool,
}

/// Requests by which a drive may be behind within a window without not keeping up: those that are on their way.
const ON_THEIR_WAY: u64 = 16;

/// True if `served` of `offered` requests are as many as a drive completes that keeps up.
fn is_served(offered: u64, served: u64) -> bool {
    served as f64 >= 0.95 * offered as f64 || offered.saturating_sub(served) <= ON_THEIR_WAY
}

impl JobLoad {
    /// Load of an open loop; `None` for a closed one.
    pub(crate) fn of(record: &Record) -> Option<Self> {
        let Offered { arrived, backlog, behind_ns } = record.offered.filter(|_| record.is_open_loop)?;
        let (span_ns, served) = (record.span_ns(), record.served());
        Some(Self {
            offered: arrived,
            served,
            offered_iops: per_second(arrived, span_ns),
            completed_iops: per_second(served, span_ns),
            backlog,
            behind_ns,
            kept_up: is_served(arrived, served) && behind_ns <= BEHIND_NS_MIN.max(span_ns / 10),
        })
    }
}

/// Requests that come at their own pace, and whether the drive kept up with it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LoadResult {
    /// Requests per second that were to come: the mean of the trace, or what arrived in all jobs with a rate.
    pub offered_iops: f64,
    /// Requests per second that were completed.
    pub completed_iops: f64,
    /// Virtual time from the arrival of the last request until all were complete, in ns, added up over the
    /// repetitions of the trace; for jobs the time for which the oldest request had waited at the end; null for a trace in
    /// closed loop.
    pub behind_ns: Option<u64>,
    /// Requests that had arrived at the end and were not issued; not there for traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u64>,
    /// The jobs that fell behind; not there without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late_jobs: Vec<String>,
    /// False if the drive was behind by more than a tenth of the trace's time and more than 100 ms, if less
    /// than 95 % of the rate came about, or if the trace has no times; for jobs, if one of them says so. Latencies are then those of a queue that grows without end.
    pub kept_up: bool,
}

/// Progress of an open loop.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrivals {
    /// From the first arrival to the last.
    span_ns: u64,
    /// From the last arrival to the last completion.
    behind_ns: u64,
    requests: u64,
}

impl Arrivals {
    /// Adds a repetition that began at `start`.
    pub(crate) fn add(&mut self, requests: u64, start: SimTime, last: SimTime, finished: SimTime) {
        self.requests += requests;
        self.span_ns = self.span_ns.saturating_add(last.since(start));
        self.behind_ns = self.behind_ns.saturating_add(finished.max(last).since(last));
    }
}

/// Being behind for less than this is no sign of anything: one collection takes as long.
const BEHIND_NS_MIN: u64 = 100_000_000;

fn per_second(requests: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { requests as f64 * 1e9 / ns as f64 }
}

impl LoadResult {
    pub(crate) fn of_arrivals(arrivals: &Arrivals) -> Self {
        let &Arrivals { span_ns, behind_ns, requests } = arrivals;
        if span_ns == 0 && requests > 1 {
            let completed_iops = per_second(requests, behind_ns);
            return Self {
                offered_iops: 0.0,
                completed_iops,
                behind_ns: Some(behind_ns),
                backlog: None,
                late_jobs: Vec::new(),
                kept_up: false,
            };
        }
        Self {
            offered_iops: per_second(requests, span_ns),
            completed_iops: per_second(requests, span_ns.saturating_add(behind_ns)),
            behind_ns: Some(behind_ns),
            backlog: None,
            late_jobs: Vec::new(),
            kept_up: behind_ns <= BEHIND_NS_MIN.max(span_ns / 10),
        }
    }

    /// All jobs with a rate together, in a window of `window_ns`; `None` if there are none.
    pub(crate) fn of_jobs(jobs: &[Record], window_ns: u64) -> Option<Self> {
        let load = |job| JobLoad::of(job).map(|load| (job.name.as_str(), load));
        let loads: Vec<(&str, JobLoad)> = jobs.iter().filter_map(load).collect();
        let sum = |of: fn(&JobLoad) -> u64| loads.iter().map(|(_, load)| of(load)).sum();
        let late = loads.iter().filter(|(_, load)| !load.kept_up).map(|(name, _)| (*name).to_owned());
        let late_jobs: Vec<String> = late.collect();
        (!loads.is_empty()).then(|| Self {
            offered_iops: per_second(sum(|load| load.offered), window_ns),
            completed_iops: per_second(sum(|load| load.served), window_ns),
            behind_ns: loads.iter().map(|(_, load)| load.behind_ns).max(),
            backlog: Some(sum(|load| load.backlog)),
            kept_up: late_jobs.is_empty(),
            late_jobs,
        })
    }

    pub(crate) fn of_rate(rate_iops: u32, requests: u64, virtual_ns: u64) -> Self {
        let (offered_iops, completed_iops) = (f64::from(rate_iops), per_second(requests, virtual_ns));
        let kept_up = completed_iops >= 0.95 * offered_iops;
        Self { offered_iops, completed_iops, behind_ns: None, backlog: None, late_jobs: Vec::new(), kept_up }
    }

    fn warning(&self) -> Option<String> {
        if self.kept_up {
            return None;
        }
        if self.offered_iops == 0.0 {
            let text = "THE TRACE HAS NO TIMES: all its requests came at once, and latencies are those of the queue; \
                        --closed-loop (workload.pacing = \"closed\") replays it at the drive's own pace";
            return Some(text.to_owned());
        }
        let rates = format!(
            "{} requests/s were to come, {} were completed",
            count(self.offered_iops.round() as u64),
            count(self.completed_iops.round() as u64)
        );
        Some(match (self.behind_ns, self.backlog) {
            (behind, Some(backlog)) => format!(
                "THE DRIVE DID NOT KEEP UP: {rates} ({}). At the end {} requests were waiting, the oldest for {}. \
                 Latencies from arrival (lat_ns) are those of a queue that grows with the run's length",
                behind_of(&self.late_jobs),
                count(backlog),
                duration(behind.unwrap_or(0) as f64)
            ),
            (Some(behind), None) => format!(
                "THE DRIVE DID NOT KEEP UP: {rates}, and when the last request had come it took {} until all were \
                 done. Latencies are those of a queue that grows with the trace's length; --closed-loop \
                 (workload.pacing) replays it at the drive's own pace",
                duration(behind as f64)
            ),
            (None, None) => format!(
                "THE DRIVE DID NOT KEEP UP: {rates}. With a larger workload.queue_depth more requests wait at \
                 the drive"
            ),
        })
    }
}

/// Names that a message has at most.
const NAMES_MAX: usize = 8;

/// Names of the jobs that fell behind.
fn behind_of(jobs: &[String]) -> String {
    let names = jobs.iter().take(NAMES_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match jobs.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("behind: {names}{more}")
}

/// A window whose victims are so much fuller than the average block that the policy must have been meant otherwise.
const FULLER: f64 = 0.1;

/// Warns about a formula of the wrong sign: its victims are fuller than randomly chosen blocks would be. `fill`
/// is the share of flash that holds data.
pub(crate) fn wrong_sign(experiment: &Experiment, geometry: &Geometry, stats: &DriveStats) -> Option<String> {
    let victim = &experiment.drive.ftl.gc.victim;
    if strobe_ssd::POLICIES.iter().any(|policy| policy.name == *victim) {
        return None;
    }
    let copies = ratio(stats.gc.units_moved, stats.gc.victims).filter(|_| stats.gc.victims >= 100)?;
    let valid = copies / f64::from(geometry.units_per_block());
    let fill = experiment.drive.logical_bytes() as f64 / geometry.raw_bytes() as f64;
    (valid > fill + FULLER * (1.0 - fill)).then(|| {
        format!(
            "the formula \"{victim}\" collects blocks that are {:.1} % valid, blocks at random would be {:.1} %: the block \
             with the LARGEST value is collected, so its sign may be the wrong way round (try \"-({victim})\")",
            100.0 * valid,
            100.0 * fill
        )
    })
}

/// Write amplification from which on it is named as what wore a drive out.
const WORN_BY_COPIES: f64 = 10.0;

/// Reason why a drive refuses writes, unless the host's own writes wore it out.
pub(crate) fn cause_of_death(experiment: &Experiment, geometry: &Geometry, stats: &DriveStats) -> String {
    let programs = stats.nand.total(strobe_nand::NandOp::Program) * u64::from(geometry.units_per_page());
    let mut text = String::new();
    if let Some(waf) = ratio(programs, stats.host.units_written).filter(|&waf| waf >= WORN_BY_COPIES) {
        text = format!(
            "\nThe drive was worn out by copies: write amplification was {waf:.1} over its {} host pages.",
            count(stats.host.units_written)
        );
    }
    if let Some(sign) = wrong_sign(experiment, geometry, stats) {
        text += "\nBesides, ";
        text += &sign;
    }
    text
}

/// Everything that somebody should know, the gravest first.
pub(crate) fn notes(
    experiment: &Experiment,
    ended_by: EndedBy,
    load: Option<&LoadResult>,
    others: impl IntoIterator<Item = String>,
) -> Vec<String> {
    let load = load.and_then(LoadResult::warning);
    let waited_for = match (experiment.run.until_bad_blocks, experiment.run.until_end_of_life) {
        _ if !matches!(ended_by, EndedBy::Measure | EndedBy::Trace) => None,
        (Some(_), _) => Some("run.until_bad_blocks"),
        (None, true) => Some("run.until_end_of_life"),
        (None, false) => None,
    };
    let bound = if ended_by == EndedBy::Trace { "the trace" } else { "run.measure" };
    let not_worn = waited_for.map(|key| format!("what {key} waits for did not come: {bound} ended first"));
    // Percent taken for a share; presets and experiments with so much spare flash say it in logical_pages.
    let spare = experiment.drive.ftl.over_provisioning.filter(|&spare| spare > 1.0).map(|spare| {
        // Percent to four digits: 1.1 is no 110.00000000000001 %.
        let (percent, share) = ((spare * 1e6).round() / 1e4, (spare * 1e4).round() / 1e6);
        format!(
            "drive.ftl.over_provisioning = {spare} means {percent} % of spare flash; did you mean {share}?"
        )
    });
    let ignored = experiment.ignored.iter().map(ToString::to_string);
    load.into_iter().chain(not_worn).chain(others).chain(spare).chain(ignored).collect()
}
