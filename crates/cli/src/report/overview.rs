//! Head of a summary: drive, workload, trace, and headline with its window.

use std::fmt::Write as _;

use strobe_ssd::DriveConfig;

use crate::chart::WIDTH;
use strobe_lab::numbers::{bytes, count, duration, times};
use strobe_lab::{
    CapacityResult, Changes, HostConfig, JobConfig, PacingName, RunResult, SyntheticWorkload, WindowVerdict,
    WorkloadConfig,
};
use strobe_workload::arrivals::RateProcess;
use strobe_workload::lfs::Cleaning;

pub(super) fn drive_line(result: &RunResult) -> String {
    let drive = &result.config.drive;
    let name = drive.preset.as_deref().unwrap_or("a drive of its own");
    let changed = if is_changed(drive) { ", changed" } else { "" };
    let mut line = format!("drive     {name}{changed}");
    if let Some(capacity) = capacity_line(drive) {
        let _ = write!(line, ": {}", capacity.replacen("offered, ", "offered,\n          ", 1));
    }
    let ftl = &drive.ftl;
    let _ = match ftl.mapping.as_str() {
        "page" | "dftl" => write!(line, "; {} map, victims by {}", ftl.mapping, ftl.gc.victim),
        scheme => write!(line, "; {scheme} map, {} log blocks", ftl.log_blocks),
    };
    line
}

pub(super) fn is_changed(drive: &DriveConfig) -> bool {
    differs(drive, |_| {})
}

/// True if `drive` differs from its preset, which `prepare` changes before the comparison.
pub(super) fn differs(drive: &DriveConfig, prepare: impl FnOnce(&mut DriveConfig)) -> bool {
    let preset = drive.preset.as_deref().and_then(strobe_ssd::presets::find);
    let preset = preset.and_then(|preset| toml::from_str::<DriveConfig>(preset.toml).ok());
    preset.is_some_and(|mut preset| {
        prepare(&mut preset);
        DriveConfig { preset: drive.preset.clone(), ..preset } != *drive
    })
}

/// Flash capacity and logical capacity of `drive`, if it can be built.
pub fn capacity_line(drive: &DriveConfig) -> Option<String> {
    let capacity = CapacityResult::of(drive)?;
    Some(format!(
        "{} of flash, {} offered, {:.1} % over-provisioning",
        bytes(capacity.raw_bytes as f64),
        bytes(capacity.logical_bytes as f64),
        100.0 * capacity.over_provisioning
    ))
}

/// One line per job, for the first `shown` jobs.
pub(super) fn workload_line(result: &RunResult, shown: usize) -> String {
    let host = |host: &HostConfig| {
        let mut text = format!("queue depth {}", host.queue_depth);
        if host.rate_iops > 0 {
            let _ = write!(text, ", {} requests/s", count(host.rate_iops.into()));
        }
        if host.flush_every > 0 {
            let _ = write!(text, ", a flush every {} requests", count(host.flush_every.into()));
        }
        text
    };
    match &result.config.workload {
        WorkloadConfig::Synthetic(workload) => {
            wrapped(&format!("workload  {}", generator_text(workload, host)))
        }
        WorkloadConfig::Jobs(jobs) => {
            let line = |job: &JobConfig| {
                let copies = if job.numjobs > 1 { format!("{} × ", job.numjobs) } else { String::new() };
                let mut line = format!("{copies}{}: {}", job.name, generator_text(&job.workload, host));
                if let Some(delay) = job.startdelay {
                    let _ = write!(line, ", starting at {delay}");
                }
                if let Some(runtime) = job.runtime {
                    let _ = write!(line, ", for {runtime}");
                }
                if let Some(most) = job.io_bytes {
                    let _ = write!(line, ", until {} are issued", bytes(most as f64));
                }
                if job.stonewall {
                    line += ", after the jobs before it";
                }
                line
            };
            let of = |job| wrapped(&format!("          {}", line(job))).trim_start().to_owned();
            let mut lines: Vec<String> = jobs.iter().take(shown).map(of).collect();
            if jobs.len() > shown {
                lines.push(format!("and {} more", jobs.len() - shown));
            }
            format!("jobs      {}", lines.join("\n          "))
        }
        WorkloadConfig::Trace(trace) => {
            let pace = match trace.pacing {
                PacingName::Open => "at the trace's times".to_owned(),
                PacingName::Closed => host(&trace.host),
            };
            format!("workload  {} ({}), {pace}", trace.path, trace.format)
        }
        WorkloadConfig::Lfs(config) => {
            let cleaning = match config.cleaning {
                Cleaning::Move => "cleaned by moving",
                Cleaning::Copy => "cleaned by copies",
                Cleaning::Threaded => "holes filled",
                Cleaning::InPlace => "in place",
            };
            wrapped(&format!(
                "workload  log-structured file system {:.4} % full, updates of {}, segments of {}, {cleaning}, queue \
                 depth {}",
                100.0 * config.utilization,
                bytes(config.update_bytes.into()),
                bytes(config.segment_bytes.into()),
                config.queue_depth
            ))
            .replace(".0000 %", " %")
        }
    }
}

/// Breaks after a comma, indented to the tenth column.
pub(super) fn wrapped(line: &str) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for (at, part) in line.split(", ").enumerate() {
        let length = part.chars().count() + 2;
        if at > 0 && column + length > WIDTH {
            out += ",\n          ";
            column = 10;
        } else if at > 0 {
            out += ", ";
        }
        out += part;
        column += length;
    }
    out
}

/// `host` formats the queue depth.
fn generator_text(workload: &SyntheticWorkload, host: impl Fn(&HostConfig) -> String) -> String {
    let SyntheticWorkload { generator, host: queue, pace } = workload;
    let mix = match generator.write_fraction {
        _ if generator.trim_fraction == 1.0 => "trims".to_owned(),
        1.0 => "writes".to_owned(),
        0.0 => "reads".to_owned(),
        share => format!("{:.4} % writes", 100.0 * share).replace(".0000", ""),
    };
    let size = match generator.block_split[..] {
        [] => bytes(f64::from(generator.block_bytes)),
        ref split => {
            let sizes = split.iter().map(|share| bytes(f64::from(share.block_bytes)));
            sizes.collect::<Vec<_>>().join(", ")
        }
    };
    let map = if generator.random_map { ", each block once per pass" } else { "" };
    let mut line = format!("{} {mix} of {size}{map}, {}", generator.kind.name(), host(queue));
    if !pace.rate_points.is_empty() {
        let most = pace.rate_points.iter().map(|point| point.iops).max().unwrap_or(0);
        let _ = write!(line, ", up to {} requests/s", count(most.into()));
    }
    if pace.rate_process == RateProcess::Poisson {
        line += " at random";
    }
    if let Some(pause) = pace.thinktime {
        let blocks = match pace.thinktime_blocks {
            1 => "each".to_owned(),
            blocks => format!("every {}", count(blocks.into())),
        };
        let _ = write!(line, ", a pause of {pause} after {blocks}");
    }
    if generator.trim_fraction > 0.0 && generator.trim_fraction < 1.0 {
        let _ = write!(line, ", {:.1} % trims", 100.0 * generator.trim_fraction);
        if generator.trim_ranges > 1 {
            let _ = write!(line, " of {} ranges", generator.trim_ranges);
        }
    }
    line
}

pub(super) fn headline(result: &RunResult) -> String {
    let window = &result.window;
    let over =
        format!("over {} host pages, {} of the capacity", count(window.host_pages), times(window.capacities));
    let Some(waf) = result.waf else {
        return format!("write amplification - {over}{}", virtual_time(result));
    };
    let mut line = format!("write amplification {waf:.3} {over}");
    if let Some(bytes) = result.waf_bytes
        && (bytes / waf - 1.0).abs() > 0.01
    {
        let _ = write!(line, " ({bytes:.3} counted in bytes: the host wrote parts of mapping units)");
    }
    line += &virtual_time(result);
    match (window.verdict, &result.steady_state) {
        (WindowVerdict::Transient, Some(steady)) => {
            let way = if steady.reached { "ends at" } else { "was at" };
            let _ = write!(
                line,
                "\n  TRANSIENT: the drive was on its way to the steady state in this window, and {way} {:.3}",
                steady.waf_mean
            );
            // A longer warm-up does not apply to a worn drive, and a trace may have to be repeated for it.
            let is_trace = matches!(result.config.workload, WorkloadConfig::Trace(_));
            if is_trace {
                line += "; a run.warmup leaves it out, with a larger workload.repeat";
            } else if !result.config.run.until_worn() {
                line += "; a longer run.warmup leaves it out";
            }
        }
        (WindowVerdict::NothingCollected, _) => {
            line += "\n  NOTHING WAS COLLECTED: free space was left, so this is not the steady-state value";
        }
        (WindowVerdict::TooFewIntervals, _) => {
            line += "\n  no verdict on the steady state: it needs five intervals, each of an eighth of the capacity \
                     or more";
        }
        _ => {}
    }
    line
}

fn virtual_time(result: &RunResult) -> String {
    match result.time.virtual_ns {
        0 => String::new(),
        ns => format!(", in {} of virtual time", duration(ns as f64)),
    }
}

pub(super) fn trace_line(trace: &strobe_lab::result::TraceResult) -> String {
    let kinds: Vec<String> = trace.requests.iter().map(|(kind, n)| format!("{} {kind}", count(*n))).collect();
    let mut line = format!(
        "trace     {} requests ({}),\n          touching the first {}, {} long",
        count(trace.requests.values().sum()),
        kinds.join(", "),
        bytes(trace.span_bytes as f64),
        duration(trace.duration_ns as f64),
    );
    if trace.repetitions > 1 {
        let _ = write!(line, " each of the {} times", trace.repetitions);
    }
    if !trace.skipped.is_empty() {
        let skipped: Vec<String> = trace.skipped.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
        let _ = write!(line, "\n          left out: {}", skipped.join(", "));
    }
    if let Some(changes) = changes_line(&trace.changes) {
        let _ = write!(line, "\n{changes}");
    }
    line
}

pub(super) fn changes_line(c: &Changes) -> Option<String> {
    let changes: Vec<String> = [
        (c.wrapped, "wrapped"),
        (c.shortened, "shortened"),
        (c.dropped, "beyond the end, dropped"),
        (c.rounded, "rounded to sectors"),
        (c.empty, "empty, dropped"),
        (c.late, "out of time order, issued immediately"),
        (c.split, "longer than 1 GiB, split"),
    ]
    .iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, what)| format!("{n} {what}"))
    .collect();
    (!changes.is_empty()).then(|| format!("          CHANGED: {}", changes.join(", ")))
}
