//! Requests that waited much longer than any operation of the flash takes, and why, as far as a result can tell.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_ssd::{DriveStats, GcMode};
use strobe_types::Op;

use crate::Experiment;
use crate::numbers::{count, duration};
use crate::record::{OpRecord, Record};

/// The longest wait of a run, if it was long (`run.long_wait`).
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LongWait {
    /// The job whose request it was.
    pub job: String,
    /// Kind of the request: read, write, trim or flush.
    pub op: String,
    /// Latency from issue to completion, in ns.
    pub latency_ns: u64,
    /// The slowest operation of the flash: erase, program or read.
    pub slowest: String,
    /// Duration of that operation, in ns.
    pub slowest_ns: u64,
    /// Requests of all jobs that took longer than run.long_wait times that, exact to three digits of their latency.
    pub requests: u64,
    /// Possible causes, as far as counters can tell.
    pub causes: Vec<String>,
}

impl LongWait {
    /// The longest wait of `jobs` in a window of `virtual_ns` in which the drive did what `window` says.
    pub(crate) fn of(
        experiment: &Experiment,
        jobs: &[Record],
        window: &DriveStats,
        virtual_ns: u64,
    ) -> Option<Self> {
        let nand = &experiment.drive.nand;
        let (read_ns, program_ns) = (nand.read_ns.longest(), nand.program_ns.longest());
        let (slowest, slowest_ns) = [("erase", nand.erase_ns), ("program", program_ns), ("read", read_ns)]
            .into_iter()
            .reduce(|one, other| if other.1 > one.1 { other } else { one })?;
        let limit_ns = u64::from(experiment.run.long_wait).saturating_mul(slowest_ns);
        let of = |job: &'_ Record, op: Op| job.ops[op as usize].latency.extremes().1;
        let all = jobs.iter().flat_map(|job| Op::ALL.map(|op| (job, op)));
        let longer =
            |one: (_, _), other: (_, _)| if of(other.0, other.1) > of(one.0, one.1) { other } else { one };
        let (job, op) = all.reduce(longer)?;
        let latency_ns = of(job, op);
        if limit_ns == 0 || latency_ns <= limit_ns {
            return None;
        }
        let beyond = |op: &OpRecord| -> u64 {
            let counts = op.latency.counts().into_iter();
            counts.filter(|(ns, _)| *ns > limit_ns).map(|(_, count)| count).sum()
        };
        Some(Self {
            job: job.name.clone(),
            op: op.name().to_owned(),
            latency_ns,
            slowest: slowest.to_owned(),
            slowest_ns,
            requests: jobs.iter().flat_map(|job| &job.ops).map(beyond).sum(),
            causes: causes(experiment, window, virtual_ns, latency_ns),
        })
    }

    /// It in a sentence.
    pub(crate) fn warning(&self, times: u32) -> String {
        let causes = match self.causes[..] {
            [] => "nothing that was counted says why".to_owned(),
            ref causes => causes.join("; "),
        };
        format!(
            "A {} WAITED {}, more than {times} times (run.long_wait) the slowest flash operation, {} of {}; so did {} \
             requests in all. Possible causes: {causes}",
            self.op.to_uppercase(),
            duration(self.latency_ns as f64),
            if self.slowest == "erase" { "an erase" } else { &self.slowest },
            duration(self.slowest_ns as f64),
            count(self.requests),
        )
    }
}

/// Share of its time from which on a link is called busy.
const LINK_BUSY: f64 = 0.8;

/// Share of their time from which on dies are called busy.
const DIES_BUSY: f64 = 0.9;

/// Possible causes of a wait of `wait_ns`: other activity in the same window.
fn causes(experiment: &Experiment, window: &DriveStats, virtual_ns: u64, wait_ns: u64) -> Vec<String> {
    let mut causes = Vec::new();
    let drive = &experiment.drive;
    let dies = u64::from(drive.nand.channels) * u64::from(drive.nand.dies_per_channel);
    let share = |ns: u64| ns as f64 / (virtual_ns as f64 * dies as f64);
    let dies_are = if dies == 1 { "the die was" } else { "the dies were" };
    let busy = share(window.occupancy.total_ns());
    if busy >= DIES_BUSY {
        causes.push(format!(
            "{dies_are} busy for {:.0} % of the time: this is as much as the flash can do",
            100.0 * busy
        ));
    }
    if window.gc.runs > 0 {
        let time = 100.0 * share(window.background_ns());
        let victims = count(window.gc.victims);
        causes.push(match drive.ftl.gc.mode {
            GcMode::StopTheWorld => format!(
                "garbage collection, for which everything waits (drive.ftl.gc.mode), emptied {victims} blocks and took \
                 {time:.0} % of the dies' time"
            ),
            GcMode::Background => {
                format!("garbage collection emptied {victims} blocks and took {time:.0} % of the dies' time")
            }
        });
    }
    if window.stalls.writes > 0 {
        causes.push(format!(
            "{} writes waited for a place in a write cache, or for room on flash, {} in the mean",
            count(window.stalls.writes),
            duration(window.stalls.ns as f64 / window.stalls.writes as f64)
        ));
    }
    if let Some(merges) = window.merges.filter(|merges| merges.full + merges.partial > 0) {
        causes.push(format!("{} merges went on meanwhile", count(merges.full + merges.partial)));
    }
    let depth: u64 = experiment
        .workload
        .generators()
        .iter()
        .map(|(_, workload)| u64::from(workload.host.queue_depth))
        .sum();
    let slowest_ns = drive.nand.program_ns.longest().max(drive.nand.read_ns.longest());
    // All that may be outstanding on one die, one after the other.
    if depth > 1 && depth.saturating_mul(slowest_ns) >= wait_ns {
        causes.push(format!(
            "up to {} requests were outstanding on {} {}, and one may wait for others",
            count(depth),
            count(dies),
            if dies == 1 { "die" } else { "dies" }
        ));
    }
    let bytes = window.host.bytes(Op::Read).max(window.host.bytes(Op::Write));
    let link = f64::from(drive.controller.link_mb_s) * virtual_ns as f64 / 1000.0;
    if link > 0.0 && bytes as f64 >= LINK_BUSY * link {
        causes.push(format!("the link was busy for {:.0} % of the time", 100.0 * bytes as f64 / link));
    }
    causes
}
