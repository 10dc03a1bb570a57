//! Any text as an experiment file: it is refused with a message, or it runs with consistent counters.

#![no_main]

use std::ops::ControlFlow;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use strobe_lab::runner::{self, Observer, Progress};
use strobe_lab::{Amount, Experiment, RunResult, WorkloadConfig};
use strobe_ssd::memory_bytes;

const REQUESTS: u64 = 300;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(table) = text.parse::<toml::Table>() else { return };
    let mut experiment = match Experiment::from_table(table, &[], Path::new("")) {
        Ok(experiment) => experiment,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    // The output of `strobe check` reads back as the same experiment.
    let printed = toml::to_string(&experiment).expect("an experiment is TOML");
    if matches!(experiment.workload, WorkloadConfig::Synthetic(_)) {
        let again = Experiment::from_table(printed.parse().expect("TOML"), &[], Path::new(""));
        assert_eq!(again.expect("accepted again"), experiment);
    }
    shrink(&mut experiment);
    if memory_bytes(&experiment.drive).is_ok_and(|bytes| bytes > 8 << 20) {
        return;
    }
    match runner::run(&experiment, &mut StopAfter(64)) {
        Ok(result) => check(&experiment, &result),
        Err(error) => assert!(error.is_bad_request() && !error.to_string().is_empty(), "{error}"),
    }
});

/// Shrinks the drive and shortens the run to milliseconds; other settings stay unchanged.
fn shrink(experiment: &mut Experiment) {
    let nand = &mut experiment.drive.nand;
    nand.channels = nand.channels.min(3);
    nand.dies_per_channel = nand.dies_per_channel.min(2);
    nand.planes_per_die = nand.planes_per_die.min(3);
    nand.blocks_per_plane = nand.blocks_per_plane.min(40);
    nand.pages_per_block = nand.pages_per_block.min(12);
    let ftl = &mut experiment.drive.ftl;
    if let Some(pages) = &mut ftl.logical_pages {
        *pages = (*pages).min(2048);
    }
    experiment.drive.controller.write_buffer_bytes %= 8 << 20;
    let unit = u64::from(ftl.mapping_unit_bytes);
    let run = &mut experiment.run;
    let per_request = match &experiment.workload {
        WorkloadConfig::Synthetic(workload) => u64::from(workload.generator.block_bytes) / unit,
        WorkloadConfig::Trace(_) | WorkloadConfig::Jobs(_) | WorkloadConfig::Lfs(_) => 1,
    };
    let cap = |amount| match amount {
        Amount::Pages(pages) => Amount::Pages(pages.min(REQUESTS * per_request / 16)),
        Amount::Capacities(times) => Amount::Capacities(times.min(0.2)),
        _ => Amount::Pages(REQUESTS * per_request / 16),
    };
    run.warmup = cap(run.warmup);
    run.measure = Some(cap(run.measure.unwrap_or(Amount::Capacities(1.0))));
    run.check = true;
    if let WorkloadConfig::Trace(trace) = &mut experiment.workload {
        // The fuzz target reads no files.
        trace.path = "/nonexistent/trace".to_owned();
    }
}

struct StopAfter(u32);

impl Observer for StopAfter {
    fn progress(&mut self, _: Progress) -> ControlFlow<()> {
        self.0 -= 1;
        if self.0 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn check(experiment: &Experiment, result: &RunResult) {
    assert_eq!(result.partial, result.stopped_by.is_some());
    let json = serde_json::to_value(result).expect("plain data");
    for op in ["program", "read", "erase"] {
        let by_cause = json["nand"][op]["by_cause"].as_object().expect("causes");
        let sum: u64 = by_cause.values().map(|n| n.as_u64().expect("count")).sum();
        assert_eq!(json["nand"][op]["total"].as_u64(), Some(sum), "{op}");
    }
    for place in ["erase_mean", "erase_stddev"] {
        assert!(json["wear"][place].is_number(), "wear.{place} of {}", json["wear"]);
    }
    let all = if json["total"].is_object() { &json["total"] } else { &json["jobs"][0] };
    for op in ["read", "write", "trim"] {
        let job = &all[op];
        assert_eq!(job["total_ios"], json["host"][op]["commands"]);
        assert!(job["iops"].is_number() && job["clat_ns"]["mean"].is_number());
        if experiment.run.timing {
            assert_eq!(job["clat_ns"]["N"], job["total_ios"], "{op}");
        }
    }
    assert!(!strobe_cli::report::summary(result).is_empty());
}
