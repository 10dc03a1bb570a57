use schemars::JsonSchema;
use serde::Serialize;
use strobe_ssd::{DriveStats, GcMode};
use strobe_types::Op;

use crate::Experiment;
use crate::numbers::{count, duration};
use crate::record::{OpRecord, Record};

/// The longest latency of a run, if it exceeded `run.long_wait`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LongWait {
    /// Job that issued the request.
    pub job: String,
    /// Kind of the request: read, write, trim or flush.
    pub op: String,
    /// Latency from issue to completion, in ns.
    pub latency_ns: u64,
    /// The slowest flash operation: erase, program or read.
    pub slowest: String,
    /// Duration of that operation, in ns.
    pub slowest_ns: u64,
    /// Requests of all jobs above the limit of run.long_wait, from latencies exact to three digits.
    pub requests: u64,
    /// Possible causes, derived from counters.
    pub causes: Vec<String>,
}

fn slowest(experiment: &Experiment) -> (&'static str, u64) {
    let nand = &experiment.drive.nand;
    let (read_ns, program_ns) = (nand.read_ns.longest(), nand.program_ns.longest());
    let others = [("program", program_ns), ("read", read_ns)];
    others.into_iter().fold(("erase", nand.erase_ns), |one, other| if other.1 > one.1 { other } else { one })
}

pub(crate) fn limit_ns(experiment: &Experiment) -> Option<u64> {
    let limit_ns = u64::from(experiment.run.long_wait).saturating_mul(slowest(experiment).1);
    (limit_ns > 0).then_some(limit_ns)
}

impl LongWait {
    pub(crate) fn of(
        experiment: &Experiment,
        jobs: &[Record],
        window: &DriveStats,
        virtual_ns: u64,
    ) -> Option<Self> {
        let (slowest, slowest_ns) = slowest(experiment);
        let limit_ns = limit_ns(experiment)?;
        let of = |job: &'_ Record, op: Op| job.ops[op as usize].latency.extremes().1;
        let all = jobs.iter().flat_map(|job| Op::ALL.map(|op| (job, op)));
        // The first of equal waits is reported.
        let longer =
            |one: (_, _), other: (_, _)| if of(other.0, other.1) > of(one.0, one.1) { other } else { one };
        let (job, op) = all.reduce(longer)?;
        let latency_ns = of(job, op);
        if latency_ns <= limit_ns {
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
            causes: causes(experiment, window, virtual_ns, op, latency_ns),
        })
    }

    pub(crate) fn warning(&self, times: u32) -> String {
        let causes = match self.causes[..] {
            [] => "no counter explains it".to_owned(),
            ref causes => causes.join("; "),
        };
        format!(
            "A {} WAITED {}, more than {times} times (run.long_wait) the slowest flash operation, {} of {}; \
             {} requests exceeded this limit. Possible causes: {causes}",
            self.op.to_uppercase(),
            duration(self.latency_ns as f64),
            if self.slowest == "erase" { "an erase" } else { &self.slowest },
            duration(self.slowest_ns as f64),
            count(self.requests),
        )
    }
}

const LINK_BUSY: f64 = 0.8;

const DIES_BUSY: f64 = 0.9;

fn causes(
    experiment: &Experiment,
    window: &DriveStats,
    virtual_ns: u64,
    op: Op,
    wait_ns: u64,
) -> Vec<String> {
    let mut causes = Vec::new();
    let drive = &experiment.drive;
    let dies = u64::from(drive.nand.channels) * u64::from(drive.nand.dies_per_channel);
    let share = |ns: u64| ns as f64 / (virtual_ns as f64 * dies as f64);
    let dies_are = if dies == 1 { "the die was" } else { "the dies were" };
    let busy = share(window.occupancy.total_ns());
    if busy >= DIES_BUSY {
        causes.push(format!("{dies_are} busy for {:.0} % of the time: the flash is saturated", 100.0 * busy));
    }
    let time = 100.0 * share(window.background_ns());
    // Blocks without a valid unit cost an erase only, which delays no request of a long wait.
    if window.gc.runs > 0 && time >= 0.5 {
        let victims = count(window.gc.victims);
        causes.push(match drive.ftl.gc.mode {
            GcMode::StopTheWorld => format!(
                "garbage collection, which stops all other commands (drive.ftl.gc.mode), emptied {victims} \
                 blocks and took {time:.0} % of the dies' time"
            ),
            GcMode::Background => {
                format!("garbage collection emptied {victims} blocks and took {time:.0} % of the dies' time")
            }
        });
    }
    if window.stalls.writes > 0 {
        causes.push(format!(
            "{} writes waited for space in a write cache or on flash, {} on average",
            count(window.stalls.writes),
            duration(window.stalls.ns as f64 / window.stalls.writes as f64)
        ));
    }
    if let Some(merges) = window.merges.filter(|merges| merges.full + merges.partial > 0) {
        causes.push(format!("{} merges ran in the window", count(merges.full + merges.partial)));
    }
    if op == Op::Flush {
        causes.push("a flush waits for all writes before it".to_owned());
    }
    let depth = experiment.workload.queue_depth();
    let slowest_ns = drive.nand.program_ns.longest().max(drive.nand.read_ns.longest());
    // Worst case: one die serves all outstanding requests, one after the other.
    if depth > 1 && depth.saturating_mul(slowest_ns) >= wait_ns {
        causes.push(format!(
            "up to {} requests were outstanding on {} {}, so one may wait for others",
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
