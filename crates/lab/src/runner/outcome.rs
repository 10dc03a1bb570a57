use strobe_nand::NandOp;
use strobe_ssd::Latency;
use strobe_types::Op;

use super::host::WindowEnd;
use super::phases::Runner;
use crate::experiment::{INTERVALS_MAX, PacingName, WorkloadConfig};
use crate::lifetime::EndedBy;
use crate::long_wait::LongWait;
use crate::machine::Stopwatch;
use crate::numbers::{count, ratio};
use crate::record::Record;
use crate::result::{
    DiesResult, GcResult, HandlesResult, HostResult, Job, LfsResult, NandResult, RunResult, SCHEMA_VERSION,
    SimResult, SlcResult, Smart, StreamResult, TimeResult, WearResult, copies,
};
use crate::series::SteadyState;
use crate::steady::SteadyRounds;
use crate::timeline::Timeline;
use crate::verdict::{
    Backlog, CapacityResult, LoadResult, WindowResult, WindowVerdict, failures, ideal_host_pages, notes,
    overruled, wrong_sign,
};

impl Runner<'_> {
    pub(super) fn result(
        &mut self,
        ended_by: EndedBy,
        stopped_by: Option<String>,
        watch: Stopwatch,
    ) -> RunResult {
        let _ = self.host.sample();
        let xray = self.host.finish_xray();
        let timeline = self.host.take_timeline();
        let Self { experiment, host, file_system, image, .. } = self;
        let (trace, jobs, steady) = (self.trace.take(), self.jobs.take(), self.steady.take());
        let (series, power) = (host.take_series(), host.power.take());
        let drive = &host.drive;
        let WindowEnd { stats: end, at: finished, outstanding } =
            host.window_end.take().unwrap_or_else(|| WindowEnd::of(&**drive, host.now()));
        let is_measuring = host.is_measuring();
        // A run that ended before its window has an empty window at the end.
        let (start, started) = host.window_start.take().unwrap_or_else(|| (end.clone(), finished));
        let window = end.since(&start);
        let geometry = drive.geometry();
        let virtual_ns = if experiment.run.timing { finished.since(started) } else { 0 };
        let programs = window.nand.total(NandOp::Program);
        // Without a window the drive's latencies are those of earlier phases, so they are left out.
        let none = Latency::new();
        let latency = if is_measuring { drive.latency() } else { &none };
        let after = outstanding.map_or(0, |outstanding| outstanding.commands);
        // Only requests that arrive at the times of a trace have no limit.
        let backlog = Backlog::of(&window.host, host.outstanding_before, after)
            .filter(|_| arrivals_of_trace(&experiment.workload));
        let waf = ratio(programs * u64::from(geometry.units_per_page()), window.host.units_written)
            .filter(|_| backlog.is_none());
        let erases = window.nand.total(NandOp::Erase);
        let steady_state = SteadyState::of(&series, erases > 0);
        let verdict = WindowVerdict::of(waf, erases, steady_state.as_ref());
        let wear = drive.wear();
        let ideal = ideal_host_pages(&experiment.drive.nand, geometry, waf, verdict, wear.bad_blocks);
        let wear = WearResult::of(wear, ideal);
        let (summary, arrivals) = trace.map_or((None, None), |trace| (Some(trace.summary), trace.arrivals));
        let has_jobs = jobs.is_some();
        let records = match jobs {
            Some(jobs) => jobs.into_records(),
            None => vec![Record::of_drive(workload_name(&experiment.workload), &window, latency)],
        };
        let (jobs, total) = of_jobs(&records, virtual_ns);
        let (intervals, is_longer) = timeline.map_or((Vec::new(), false), Timeline::into_intervals);
        let longer = is_longer.then(|| {
            format!(
                "the run was longer than {} intervals (run.interval): the last ones are longer",
                count(INTERVALS_MAX)
            )
        });
        let long_wait = LongWait::of(experiment, &records, &window, virtual_ns).filter(|_| virtual_ns > 0);
        // The offered load comes from the arrivals of the trace, from the jobs, or from the rate of a
        // closed-loop trace.
        let load = match arrivals.filter(|_| experiment.run.timing) {
            Some(arrivals) => Some(LoadResult::of_arrivals(&arrivals)),
            None if has_jobs => LoadResult::of_jobs(&records, virtual_ns),
            None => rate_of(&experiment.workload).filter(|_| virtual_ns > 0).map(|rate| {
                let commands =
                    Op::ALL.iter().map(|&op| window.host.commands(op) + window.host.errors(op)).sum();
                LoadResult::of_rate(rate, commands, virtual_ns)
            }),
        };
        // An outstanding command needs no warning if a completed one waited longer.
        let longest_ns = long_wait.as_ref().map_or(0, |wait| wait.latency_ns);
        let left_waiting = outstanding.filter(|left| left.oldest_ns > longest_ns);
        let sign = wrong_sign(experiment, geometry, &window);
        let others = [
            failures(&window.host),
            overruled(&window.gc),
            steady.as_ref().and_then(SteadyRounds::warning),
            long_wait.as_ref().map(|wait| wait.warning(experiment.run.long_wait)),
            left_waiting.and_then(|left| left.warning(experiment)),
            sign,
            longer,
            backlog.map(Backlog::warning),
        ];
        let notes = notes(experiment, ended_by, load.as_ref(), others.into_iter().flatten());
        let jobs =
            if experiment.run.latency_bins { jobs.into_iter().map(Job::with_bins).collect() } else { jobs };
        let cpu_s = watch.cpu_s();
        RunResult {
            schema_version: SCHEMA_VERSION,
            strobe_version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: experiment.seed,
            config_hash: experiment.config_hash(),
            config: experiment.clone(),
            partial: stopped_by.is_some(),
            stopped_by,
            ended_by,
            capacity: CapacityResult::of(&experiment.drive),
            window: WindowResult::of(
                &window,
                host.writes_something(),
                drive.logical_units(),
                verdict,
                outstanding,
            ),
            load,
            long_wait,
            notes,
            host: HostResult::of(&window),
            nand: NandResult::of(&window),
            dies: (experiment.run.timing)
                .then(|| DiesResult::of(&window.occupancy, geometry.dies(), virtual_ns)),
            waf,
            waf_bytes: ratio(programs * u64::from(geometry.page_bytes()), window.host.bytes(Op::Write))
                .filter(|_| backlog.is_none()),
            gc: GcResult::of(&window),
            copy: copies(&window),
            lfs: file_system
                .take()
                .map(|done| LfsResult::of(done, programs * u64::from(geometry.page_bytes()), virtual_ns)),
            nvram: window.nvram,
            merges: window.merges,
            translation: window.translation,
            slc: SlcResult::of(&window, drive.slc_blocks()),
            streams: StreamResult::all(&window, &**drive),
            placement_handles: HandlesResult::of(&window, &**drive),
            smart: Smart::of(&drive.stats(), &wear, geometry, experiment),
            wear,
            time: TimeResult { virtual_ns, wall_s: Some(watch.wall_s()), cpu_s: Some(cpu_s) },
            sim: SimResult {
                host_pages_per_cpu_s: (cpu_s > 0.0).then(|| end.host.units_touched as f64 / cpu_s),
            },
            jobs,
            total,
            intervals,
            xray,
            until_steady: steady,
            steady_state,
            series,
            trace: summary,
            image: *image,
            from_state: self.from_state.take(),
            power_cuts: power.map_or_else(Vec::new, |power| power.cuts),
        }
    }
}

fn of_jobs(records: &[Record], virtual_ns: u64) -> (Vec<Job>, Option<Job>) {
    let [record] = records else {
        let total = Record::total(records).map(|total| Job::of(&total, virtual_ns));
        return (records.iter().map(|record| Job::of(record, record.span_ns())).collect(), total);
    };
    // A single job covers the whole window, unless it began late or ended early. A record of the drive's own
    // counters has no span.
    let ran_ns = if record.span_ns() > 0 { record.span_ns() } else { virtual_ns };
    (vec![Job::of(record, ran_ns)], None)
}

fn arrivals_of_trace(workload: &WorkloadConfig) -> bool {
    matches!(workload, WorkloadConfig::Trace(trace) if trace.pacing == PacingName::Open)
}

fn rate_of(workload: &WorkloadConfig) -> Option<u32> {
    let rate = match workload {
        WorkloadConfig::Synthetic(_) | WorkloadConfig::Jobs(_) | WorkloadConfig::Lfs(_) => 0,
        WorkloadConfig::Trace(trace) if trace.pacing == PacingName::Closed => trace.host.rate_iops,
        WorkloadConfig::Trace(_) => 0,
    };
    (rate > 0).then_some(rate)
}

fn workload_name(workload: &WorkloadConfig) -> &str {
    match workload {
        WorkloadConfig::Synthetic(workload) => workload.generator.kind.name(),
        WorkloadConfig::Trace(trace) => &trace.path,
        WorkloadConfig::Jobs(_) => "jobs",
        WorkloadConfig::Lfs(_) => "lfs",
    }
}
