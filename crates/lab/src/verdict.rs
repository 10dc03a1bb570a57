//! Capacity, load and verdict of a run, with warnings.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_ftl::GcStats;
use strobe_ssd::{Capacity, DriveConfig, DriveStats, HostCounts, NandConfig, Simulated};
use strobe_types::{Geometry, SimTime};

use crate::Experiment;
use crate::lifetime::EndedBy;
use crate::long_wait::limit_ns;
use crate::numbers::{count, duration, ratio};
use crate::record::{Offered, Record};
use crate::series::SteadyState;

/// Flash capacity, and the part that the drive offers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CapacityResult {
    /// Bytes of all flash pages, without their spare areas.
    pub raw_bytes: u64,
    /// Bytes offered to the host.
    pub logical_bytes: u64,
    /// Bytes of flash that never hold host data: factory-bad blocks, and the blocks of a durable map.
    pub reserved_bytes: u64,
    /// Over-provisioning available to garbage collection: (raw − reserved − logical) / logical.
    pub over_provisioning: f64,
}

impl CapacityResult {
    /// Returns the capacity of `drive`; `None` if it cannot be built.
    pub fn of(drive: &DriveConfig) -> Option<Self> {
        let capacity = Capacity::of(drive).ok()?;
        let Capacity { raw_bytes, logical_bytes, reserved_bytes } = capacity;
        Some(Self {
            raw_bytes,
            logical_bytes,
            reserved_bytes,
            over_provisioning: capacity.over_provisioning(),
        })
    }
}

/// Verdict on a measured window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WindowVerdict {
    /// Write amplification is in the steady state.
    Steady,
    /// The drive was not in the steady state for all of the window.
    Transient,
    /// No block was erased: the drive still had free space, so its write amplification means nothing.
    NothingCollected,
    /// Fewer than five intervals of an eighth of the capacity were written.
    TooFewIntervals,
    /// The host wrote nothing.
    NoWrites,
}

/// The measured window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WindowResult {
    /// Host pages of the window: mapping units written; a partially written unit counts as one. For a
    /// workload without writes: mapping units read or trimmed.
    pub host_pages: u64,
    /// Host pages of the window in logical capacities.
    pub capacities: f64,
    /// Validity of `waf` as a steady-state value. `transient` with `steady_state.reached`: the last five
    /// intervals are steady, but the WAF of the whole window is more than 2 % off their mean.
    pub verdict: WindowVerdict,
    /// Commands that the drive had not answered when the window ended; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding: Option<Outstanding>,
}

/// Commands that a drive has not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Outstanding {
    /// Number of commands.
    pub commands: u64,
    /// Kind of the oldest command.
    pub oldest: &'static str,
    /// Time for which the oldest command had been outstanding, in ns.
    pub oldest_ns: u64,
}

impl Outstanding {
    pub(crate) fn of(drive: &dyn Simulated, now: SimTime) -> Option<Self> {
        let (kind, submitted) = drive.oldest_outstanding()?;
        Some(Self {
            commands: drive.outstanding() as u64,
            oldest: kind.name(),
            oldest_ns: now.since(submitted.min(now)),
        })
    }

    pub(crate) fn warning(&self, experiment: &Experiment) -> Option<String> {
        let limit_ns = limit_ns(experiment)?;
        (self.oldest_ns > limit_ns).then(|| {
            format!(
                "A {} HAD WAITED {} and was not complete when the measured window ended; no latency includes \
                 it. {} commands were outstanding then",
                self.oldest.to_uppercase(),
                duration(self.oldest_ns as f64),
                count(self.commands)
            )
        })
    }
}

/// Change in the number of outstanding commands that makes the write amplification of a window unknown: flash
/// programs count when a command begins, host pages when it completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backlog {
    before: u64,
    after: u64,
}

/// Share of the completed commands that may be added to or taken from the backlog.
const BACKLOG: f64 = 0.05;

impl Backlog {
    /// `None` if the backlog is of no account.
    pub(crate) fn of(host: &HostCounts, before: u64, after: u64) -> Option<Self> {
        let change = before.abs_diff(after);
        let is_large = change > 1 && change as f64 > BACKLOG * host.all_commands() as f64;
        is_large.then_some(Self { before, after })
    }

    pub(crate) fn warning(self) -> String {
        format!(
            "the write amplification of this window is unknown: {} commands were outstanding at its begin and {} at its \
             end, and flash programs count before the host's pages. Measure to the end of the trace, at a lower \
             speed, or in closed loop (workload.pacing)",
            count(self.before),
            count(self.after)
        )
    }
}

const FAILED: f64 = 0.01;

pub(crate) fn failures(host: &HostCounts) -> Option<String> {
    let (failed, done) = (host.all_errors(), host.all_commands());
    let share = ratio(failed, failed + done).filter(|&share| share >= FAILED)?;
    Some(format!(
        "{} OF {} COMMANDS FAILED ({:.0} %) with unrecovered read errors (drive.nand.faults): rates, \
         latencies and write amplification exclude them",
        count(failed),
        count(failed + done),
        100.0 * share
    ))
}

pub(crate) fn overruled(gc: &GcStats) -> Option<String> {
    (gc.overruled > 0).then(|| {
        format!(
            "the victim policy was overruled for {} of {} victims: its choice would have freed no space, so \
             the block with the fewest valid units was collected; the results are not due to the policy \
             alone",
            count(gc.overruled),
            count(gc.victims)
        )
    })
}

/// Largest relative difference of the window's WAF from its last five intervals without a transient.
const TRANSIENT: f64 = 0.02;

impl WindowVerdict {
    /// Verdict on a window. `steady` is the test of its last intervals, `None` if they are too few.
    pub fn of(waf: Option<f64>, erases: u64, steady: Option<&SteadyState>) -> Self {
        match (waf, steady) {
            (None, _) => Self::NoWrites,
            _ if erases == 0 => Self::NothingCollected,
            (_, None) => Self::TooFewIntervals,
            (Some(waf), Some(steady)) => {
                let is_all_of_it = (waf / steady.waf_mean - 1.0).abs() <= TRANSIENT;
                if steady.reached && is_all_of_it { Self::Steady } else { Self::Transient }
            }
        }
    }
}

/// Host pages that could be written before any block goes bad under perfectly even wear: a block that
/// survives E erases is filled E + 1 times, and each host page takes `waf` programs.
///
/// `None` if nothing was programmed or blocks do not wear. Also `None` if the window does not represent the
/// drive's life: its `verdict` is not steady, and none of the `bad_blocks` went bad in use.
pub fn ideal_host_pages(
    nand: &NandConfig,
    geometry: &Geometry,
    waf: Option<f64>,
    verdict: WindowVerdict,
    bad_blocks: u32,
) -> Option<u64> {
    let is_lasting = verdict == WindowVerdict::Steady || bad_blocks > nand.factory_bad_blocks;
    let blocks = f64::from(geometry.blocks() - nand.factory_bad_blocks);
    let fills = f64::from(nand.endurance_pe) + 1.0;
    let programs = fills * blocks * f64::from(geometry.units_per_block());
    waf.filter(|&waf| is_lasting && nand.endurance_pe > 0 && waf > 0.0).map(|waf| (programs / waf) as u64)
}

impl WindowResult {
    pub(crate) fn of(
        stats: &DriveStats,
        writes_something: bool,
        logical_units: u32,
        verdict: WindowVerdict,
        outstanding: Option<Outstanding>,
    ) -> Self {
        let host = &stats.host;
        let host_pages = if writes_something { host.units_written } else { host.units_touched };
        Self { host_pages, capacities: host_pages as f64 / f64::from(logical_units), verdict, outstanding }
    }
}

/// Open-loop load of a job: offered against served requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct JobLoad {
    /// Requests that arrived within the measured window.
    pub offered: u64,
    /// Requests that completed within the window, including earlier arrivals; flushes are not counted.
    pub served: u64,
    /// Requests that arrived per second, in the part of the window in which the job ran.
    pub offered_iops: f64,
    /// Requests that completed per second.
    pub completed_iops: f64,
    /// Requests that had arrived when the window ended and were not issued.
    pub backlog: u64,
    /// Waiting time of the oldest of these requests, in ns.
    pub behind_ns: u64,
    /// True if the drive kept up with the arrivals. False if fewer than 95 % of the arrived requests
    /// completed and more than 16 are missing. Also false if the oldest request not issued had waited for
    /// more than a tenth of the window and more than 100 ms. If false, latencies are those of an endlessly
    /// growing queue.
    pub kept_up: bool,
}

/// Requests outstanding at the end of a window that still count as keeping up.
const ON_THEIR_WAY: u64 = 16;

fn is_served(offered: u64, served: u64) -> bool {
    served as f64 >= 0.95 * offered as f64 || offered.saturating_sub(served) <= ON_THEIR_WAY
}

impl JobLoad {
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

/// Open-loop load of a run: offered against completed requests.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LoadResult {
    /// Requests offered per second: the mean rate of the trace, the arrivals of all jobs with a rate, or
    /// workload.rate_iops of a trace in closed loop.
    pub offered_iops: f64,
    /// Requests completed per second.
    pub completed_iops: f64,
    /// Time from the arrival of the last request until all were complete, in ns, summed over the repetitions
    /// of the trace. For jobs, and for a window that ends within the trace: waiting time of the oldest
    /// request at the end. Null for a trace in closed loop.
    pub behind_ns: Option<u64>,
    /// Requests that had arrived at the end and were not issued; absent for traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u64>,
    /// Names of the jobs that fell behind; absent if none did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late_jobs: Vec<String>,
    /// True if the drive kept up with the load. False if it was behind by more than a tenth of the trace's
    /// time and more than 100 ms, if it reached less than 95 % of the rate, or if the trace has no times. For
    /// jobs: false if one of them fell behind. If false, latencies are those of an endlessly growing queue.
    pub kept_up: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrivals {
    /// From the first arrival to the last.
    span_ns: u64,
    /// From the last arrival to the last completion.
    behind_ns: u64,
    requests: u64,
}

impl Arrivals {
    pub(crate) fn add(&mut self, requests: u64, start: SimTime, last: SimTime, finished: SimTime) {
        self.requests += requests;
        self.span_ns = self.span_ns.saturating_add(last.since(start));
        self.behind_ns = self.behind_ns.saturating_add(finished.max(last).since(last));
    }
}

/// Lag that counts as none: a single garbage collection may take that long.
const BEHIND_NS_MIN: u64 = 100_000_000;

fn per_second(requests: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { requests as f64 * 1e9 / ns as f64 }
}

impl LoadResult {
    pub(crate) fn of_arrivals(arrivals: &Arrivals) -> Self {
        let &Arrivals { span_ns, behind_ns, requests } = arrivals;
        // All requests have the same timestamp: there is no offered rate.
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
        // No offered rate means that all requests have the same time.
        if self.offered_iops == 0.0 {
            let text = "THE TRACE HAS NO TIMES: all requests arrive at the same time, so latencies are \
                        mostly waiting time; --closed-loop (workload.pacing = \"closed\") replays it at the \
                        speed of the drive";
            return Some(text.to_owned());
        }
        let rates = format!(
            "{} requests/s were offered, {} were completed",
            count(self.offered_iops.round() as u64),
            count(self.completed_iops.round() as u64)
        );
        Some(match (self.behind_ns, self.backlog) {
            (behind, Some(backlog)) => format!(
                "THE DRIVE DID NOT KEEP UP: {rates} ({}). At the end {} requests were waiting, the oldest \
                 for {}. Latencies from arrival (lat_ns) grow with the length of the run",
                behind_of(&self.late_jobs),
                count(backlog),
                duration(behind.unwrap_or(0) as f64)
            ),
            (Some(behind), None) => format!(
                "THE DRIVE DID NOT KEEP UP: {rates}, and the last request completed {} after the last \
                 arrival. Latencies grow with the length of the trace; --closed-loop (workload.pacing) \
                 replays it at the speed of the drive",
                duration(behind as f64)
            ),
            (None, None) => format!(
                "THE DRIVE DID NOT KEEP UP: {rates}. A larger workload.queue_depth gives the drive more \
                 requests to work on"
            ),
        })
    }
}

const NAMES_MAX: usize = 8;

fn behind_of(jobs: &[String]) -> String {
    let names = jobs.iter().take(NAMES_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match jobs.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("behind: {names}{more}")
}

/// Excess valid share of victims that causes a warning, as a share of the flash without data.
const FULLER: f64 = 0.1;

/// Warns about a formula whose victims have more valid units than random blocks: its sign is probably wrong.
pub(crate) fn wrong_sign(experiment: &Experiment, geometry: &Geometry, stats: &DriveStats) -> Option<String> {
    let victim = &experiment.drive.ftl.gc.victim;
    if strobe_ssd::POLICIES.iter().any(|policy| policy.name == *victim) {
        return None;
    }
    let copies = ratio(stats.gc.units_moved, stats.gc.victims).filter(|_| stats.gc.victims >= 100)?;
    // Units moved per victim, as a share of a block: the mean valid share of the victims.
    let valid = copies / f64::from(geometry.units_per_block());
    // A random block is as full of valid data as the flash as a whole.
    let fill = experiment.drive.logical_bytes() as f64 / geometry.raw_bytes() as f64;
    (valid > fill + FULLER * (1.0 - fill)).then(|| {
        format!(
            "the formula \"{victim}\" collects blocks that are {:.1} % valid, random blocks would be {:.1} % \
             valid: the block with the LARGEST value is collected, so the sign may be wrong (try \
             \"-({victim})\")",
            100.0 * valid,
            100.0 * fill
        )
    })
}

/// From this write amplification on, relocation is named as the cause of wear.
const WORN_BY_COPIES: f64 = 10.0;

/// Reasons why a drive wore out; empty if the host's own writes explain it.
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
    let not_worn = waited_for.map(|key| format!("{key} was not reached: {bound} ended first"));
    // Over-provisioning above 1 is probably meant as percent. Drives with that much spare flash use
    // logical_pages.
    let spare = experiment.drive.ftl.over_provisioning.filter(|&spare| spare > 1.0).map(|spare| {
        // Rounded to four digits: 1.1 becomes 110 %, not 110.00000000000001 %.
        let (percent, share) = ((spare * 1e6).round() / 1e4, (spare * 1e4).round() / 1e6);
        format!(
            "drive.ftl.over_provisioning = {spare} means {percent} % of spare flash; did you mean {share}?"
        )
    });
    let ignored = experiment.ignored.iter().map(ToString::to_string);
    load.into_iter().chain(not_worn).chain(others).chain(spare).chain(ignored).collect()
}
