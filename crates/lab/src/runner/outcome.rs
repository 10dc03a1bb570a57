//! The result of a run.

use strobe_nand::NandOp;
use strobe_ssd::Latency;
use strobe_types::Op;

use super::phases::Runner;
use crate::experiment::{PacingName, WorkloadConfig};
use crate::lifetime::{EndedBy, ideal_host_pages};
use crate::machine::Stopwatch;
use crate::numbers::ratio;
use crate::result::{
    CopyResult, GcResult, HostResult, Job, MergeResult, NandResult, NvramResult, RunResult, SCHEMA_VERSION,
    SimResult, Smart, TimeResult, TranslationResult, WearResult,
};
use crate::series::SteadyState;
use crate::verdict::{CapacityResult, LoadResult, WindowResult, notes, wrong_sign};

impl Runner<'_> {
    /// What has come of it.
    pub(super) fn result(
        mut self,
        ended_by: EndedBy,
        stopped_by: Option<String>,
        watch: Stopwatch,
    ) -> RunResult {
        let _ = self.host.sample();
        let Self { experiment, host, trace, image } = self;
        let (drive, end, finished) = (&host.drive, host.drive.stats(), host.queue.finished());
        let is_measuring = host.is_measuring();
        let (start, started) = host.window_start.unwrap_or_else(|| (end.clone(), finished));
        let window = end.since(&start);
        let geometry = drive.geometry();
        let virtual_ns = if experiment.run.timing { finished.since(started) } else { 0 };
        let programs = window.nand.total(NandOp::Program);
        // Without a window there are no latencies of it, only those of what came before.
        let none = Latency::new();
        let latency = if is_measuring { drive.latency() } else { &none };
        let waf = ratio(programs * u64::from(geometry.units_per_page()), window.host.units_written);
        let wear = WearResult::of(drive.wear(), ideal_host_pages(experiment, geometry, waf));
        let series = host.series.into_samples();
        let has_collected = window.nand.total(NandOp::Erase) > 0;
        let steady_state = SteadyState::of(&series, has_collected);
        let measured_pages = if is_measuring { host.phase.pages } else { 0 };
        let (summary, arrivals) = trace.map_or((None, None), |trace| (Some(trace.summary), trace.arrivals));
        let load = match arrivals.filter(|_| experiment.run.timing) {
            Some(arrivals) => Some(LoadResult::of_arrivals(&arrivals)),
            None => rate_of(&experiment.workload).filter(|_| virtual_ns > 0).map(|rate| {
                let commands = Op::ALL.iter().map(|&op| window.host.commands(op)).sum();
                LoadResult::of_rate(rate, commands, virtual_ns)
            }),
        };
        let sign = wrong_sign(experiment, geometry, &window);
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
                measured_pages,
                drive.logical_units(),
                waf,
                steady_state.as_ref(),
            ),
            load,
            notes: notes(experiment, ended_by, load.as_ref(), sign),
            host: HostResult::of(&window),
            nand: NandResult::of(&window.nand),
            waf,
            waf_bytes: ratio(programs * u64::from(geometry.page_bytes()), window.host.bytes(Op::Write)),
            gc: GcResult::of(&window),
            copy: CopyResult::of(&window),
            nvram: window.nvram.map(NvramResult::from),
            merges: window.merges.map(MergeResult::from),
            translation: window.translation.map(TranslationResult::from),
            smart: Smart::of(&end, &wear, geometry, experiment),
            wear,
            time: TimeResult { virtual_ns, wall_s: Some(watch.wall_s()), cpu_s: Some(cpu_s) },
            sim: SimResult { host_pages_per_cpu_s: (cpu_s > 0.0).then(|| host.pages as f64 / cpu_s) },
            jobs: vec![Job::of(workload_name(&experiment.workload), &window, latency, virtual_ns)],
            steady_state,
            series,
            trace: summary,
            image,
            power_cuts: host.power.map_or_else(Vec::new, |power| power.cuts),
        }
    }
}

/// The rate at which requests of a closed loop are to come, if there is one.
fn rate_of(workload: &WorkloadConfig) -> Option<u32> {
    let rate = match workload {
        WorkloadConfig::Synthetic(workload) => workload.host.rate_iops,
        WorkloadConfig::Trace(trace) if trace.pacing == PacingName::Closed => trace.host.rate_iops,
        WorkloadConfig::Trace(_) => 0,
    };
    (rate > 0).then_some(rate)
}

fn workload_name(workload: &WorkloadConfig) -> &str {
    match workload {
        WorkloadConfig::Synthetic(workload) => workload.generator.kind.name(),
        WorkloadConfig::Trace(trace) => &trace.path,
    }
}
