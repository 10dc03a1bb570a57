//! Default summary of a run: one screen of 80 × 24, in plain words.
//!
//! Each line answers one question: which drive, which load, write amplification, speed, lifetime, slowest
//! request. `--full` prints the rest.

use std::fmt::Write as _;

use strobe_lab::numbers::{bytes, count, duration, per_second, rate, times, trimmed};
use strobe_lab::power::PowerCutResult;
use strobe_lab::result::{Clat, Job, JobOp, NandResult, WearResult};
use strobe_lab::{CapacityResult, RunResult, WindowVerdict};
use strobe_ssd::DriveConfig;

use super::overview::{changes_line, workload_line, wrapped};
use super::style::Style;
use super::{
    broken, errors_line, hints, is_changed, known, lfs_line, recovery_line, terminal_width, was_filled,
};
use crate::chart::bars;

const LABEL: usize = 10;
const SPARK: usize = 24;
const JOBS: usize = 3;
const WARRANTY_YEARS: f64 = 5.0;
const SECONDS_PER_YEAR: f64 = 365.25 * 86_400.0;

/// Returns the default summary of a run; `command` is the command line that ran it.
pub fn brief(result: &RunResult, command: &str, style: Style) -> String {
    let mut out = String::new();
    if let Some(reason) = &result.stopped_by {
        let _ = writeln!(out, "{}\n", style.warning(&format!("PARTIAL RESULT, stopped: {reason}")));
    }
    let _ = writeln!(
        out,
        "{}\n{}",
        drive(&result.config.drive, is_changed(&result.config.drive)),
        workload_line(result, JOBS)
    );
    let changes = result.trace.as_ref().and_then(|trace| changes_line(&trace.changes));
    let recovery = result.image.and_then(|image| image.recovery);
    for line in
        [changes, recovery.as_ref().map(|recovery| wrapped(&recovery_line(recovery)))].into_iter().flatten()
    {
        let _ = writeln!(out, "{line}");
    }
    for note in notes(result) {
        let _ = writeln!(out, "{}", style.warning(&broken(&note, terminal_width()).join("\n")));
    }
    let _ = writeln!(out);
    // Parts without data are left out.
    let parts = [
        Some(amplification(result.waf, &result.config.drive, &result.nand, result.waf_bytes, style)),
        over_time(result, style),
        speed(result.total.as_ref().unwrap_or(&result.jobs[0]), result.time.virtual_ns),
        errors_line(&result.host).map(|line| style.warning(&line)),
        result.lfs.as_ref().map(lfs_line),
        Some(wear(&result.wear, result.config.drive.nand.endurance_pe)),
        Some(lifetime(
            &result.config.drive,
            &result.wear,
            (result.waf, result.window.verdict),
            result.window.host_pages,
            result.time.virtual_ns,
        )),
        slowest(result),
        power_cuts(&result.power_cuts, style),
    ];
    for part in parts.into_iter().flatten() {
        let _ = writeln!(out, "{part}");
    }
    let _ = write!(out, "\n{}", next(result, command, style));
    trimmed(&out)
}

/// Breaks the text at the terminal's width and indents it.
pub(super) fn labelled(label: &str, text: &str) -> String {
    let lines = broken(text, terminal_width().saturating_sub(LABEL));
    format!("{label:LABEL$}{}", lines.join(&format!("\n{}", " ".repeat(LABEL))))
}

pub(super) fn drive(drive: &DriveConfig, is_changed: bool) -> String {
    let name = drive.preset.as_deref().unwrap_or("a drive of its own");
    let changed = if is_changed { " (changed)" } else { "" };
    let mut line = format!("{:LABEL$}{name}{changed}", "drive");
    if let Some(capacity) = CapacityResult::of(drive) {
        let offered = bytes(capacity.logical_bytes as f64);
        let _ = write!(line, ", {offered}, {:.1} % over-provisioning", 100.0 * capacity.over_provisioning);
    }
    let ftl = &drive.ftl;
    let _ = match ftl.mapping.as_str() {
        "page" => write!(line, ", {} GC", ftl.gc.victim),
        "dftl" => write!(line, ", dftl map, {} GC", ftl.gc.victim),
        scheme => write!(line, ", {scheme} map"),
    };
    wrapped(&line)
}

/// Notes, without those on long waits if these have a separate line.
fn notes(result: &RunResult) -> Vec<String> {
    let is_wait = |note: &&String| result.long_wait.is_some() && note.contains(" WAITED ");
    let of_trace = result.trace.iter().flat_map(|trace| trace.notes.iter().cloned());
    let notes = result.notes.iter().filter(|note| !is_wait(note)).cloned();
    // The verdict on the window already says that no garbage was collected.
    let hints = hints(result).into_iter().filter(|hint| !hint.starts_with("no garbage"));
    notes.chain(hints.map(str::to_owned)).chain(of_trace).map(|note| format!("note: {note}")).collect()
}

pub(super) fn amplification(
    waf: Option<f64>,
    drive: &DriveConfig,
    nand: &NandResult,
    by_bytes: Option<f64>,
    style: Style,
) -> String {
    let Some(waf) = waf else {
        return labelled("WAF", "none: the host wrote nothing in the measured window");
    };
    if waf == 0.0 {
        return labelled("WAF", "0.00: no flash was programmed in the measured window");
    }
    let programmed = nand.program.total as f64 * f64::from(drive.nand.page_bytes);
    // The WAF is bytes programmed per byte written, so the quotient is the bytes written.
    let written = programmed / by_bytes.unwrap_or(waf);
    let mut text = format!("{waf:.2}: {} written, {} of flash programmed", size(written), size(programmed));
    if let Some(cause) = main_cause(nand) {
        let _ = write!(text, ", {cause}");
    }
    if let Some(by_bytes) = by_bytes
        && (by_bytes / waf - 1.0).abs() > 0.01
    {
        let _ = write!(text, "; {by_bytes:.2} by bytes: parts of mapping units were written");
    }
    let number = format!("{waf:.2}");
    labelled("WAF", &text).replacen(&number, &style.bold(&number), 1)
}

fn size(n: f64) -> String {
    bytes(n).replace(".0 ", " ")
}

fn main_cause(nand: &NandResult) -> Option<String> {
    let others = nand.program.by_cause.named().into_iter().filter(|&(name, n)| name != "host" && n > 0);
    let (name, most) = others.max_by_key(|&(_, n)| n)?;
    let name = match name {
        "gc" => "GC",
        "merge" => "merges",
        "map" | "meta" => "the map",
        "p2l" => "P2L",
        "wear" => "wear levelling",
        "copy" => "copy commands",
        "cache" => "the write cache",
        "pad" => "padding",
        other => other,
    };
    Some(format!("{:.0} % of it for {name}", 100.0 * most as f64 / nand.program.total.max(1) as f64))
}

fn over_time(result: &RunResult, style: Style) -> Option<String> {
    let window = &result.window;
    let ended = result.steady_state.as_ref().map_or(0.0, |steady| steady.waf_mean);
    let (verdict, is_good) = match window.verdict {
        WindowVerdict::Steady => (format!("steady over {} capacity", times(window.capacities)), true),
        WindowVerdict::Transient => (format!("NOT STEADY: {ended:.2} at the end"), false),
        WindowVerdict::NothingCollected => ("GC NEVER RAN: spare flash left".to_owned(), false),
        WindowVerdict::TooFewIntervals => ("too short to tell if steady".to_owned(), true),
        WindowVerdict::NoWrites => return None,
    };
    let verdict = if is_good { verdict } else { style.warning(&verdict) };
    let line = match spark(result) {
        Some(spark) => format!("{spark}  {verdict}"),
        None => verdict,
    };
    Some(format!("{}{line}", " ".repeat(LABEL)))
}

/// Bars of the WAF over time. A dashed line precedes the measured samples.
fn spark(result: &RunResult) -> Option<String> {
    let wafs = |measured: bool| -> Vec<f64> {
        let samples = result.series.iter().filter(|sample| sample.measured == measured);
        samples.filter_map(|sample| sample.waf).collect()
    };
    let (warm, measured) = (wafs(false), wafs(true));
    let (split, all) = (warm.len(), [warm, measured].concat());
    if all.len() < 3 {
        return None;
    }
    // With more samples than columns, a column is the mean of neighbouring samples.
    let columns = all.len().min(SPARK);
    let mean = |column: usize| {
        let (from, to) = (column * all.len() / columns, (column + 1) * all.len() / columns);
        all[from..to].iter().sum::<f64>() / (to - from) as f64
    };
    let means: Vec<f64> = (0..columns).map(mean).collect();
    let floor = means.iter().copied().fold(1.0, f64::min);
    let top = means.iter().copied().fold(floor, f64::max);
    let mut picture = bars(means.into_iter(), floor);
    if split > 0 && split < all.len() {
        let before = (split * columns).div_ceil(all.len()).min(columns);
        let at = picture.char_indices().nth(before).map_or(picture.len(), |(at, _)| at);
        picture.insert(at, '┊');
    }
    Some(format!("{floor:.2} ▕{picture}▏ {top:.2}"))
}

pub(super) fn speed(job: &Job, virtual_ns: u64) -> Option<String> {
    let kinds = [("read", &job.read), ("write", &job.write), ("trim", &job.trim)];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (name, op) in kinds.into_iter().filter(|(_, op)| op.total_ios > 0) {
        rows.push(if op.clat_ns.n > 0 { timed(name, op) } else { counted(name, op) });
    }
    match job.sync.total_ios {
        0 => {}
        flushes if job.sync.lat_ns.n == 0 => {
            rows.push(vec![
                "flush".to_owned(),
                format!("{} requests; times were not simulated", count(flushes)),
            ]);
        }
        flushes => {
            let iops = known(per_second(flushes, virtual_ns), rate);
            let start = vec!["flush".to_owned(), format!("{iops} IOPS"), "-".to_owned()];
            rows.push([start, latencies(&job.sync.lat_ns)].concat());
        }
    }
    let widths: Vec<usize> = (0..6).map(|at| widest(&rows, at)).collect();
    let lines = rows.iter().map(|row| {
        let rest = row.iter().zip(&widths).skip(1).map(|(cell, &width)| format!("{cell:>width$}"));
        format!("{:LABEL$}{}", row[0], rest.collect::<Vec<_>>().join("  "))
    });
    (!rows.is_empty()).then(|| lines.collect::<Vec<_>>().join("\n"))
}

fn widest(rows: &[Vec<String>], at: usize) -> usize {
    rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0)
}

fn timed(name: &str, op: &JobOp) -> Vec<String> {
    let mb_s = known(op.bw_bytes, |bytes| match bytes as f64 / 1e6 {
        mb_s if mb_s >= 99.95 => count(mb_s.round() as u64),
        mb_s => format!("{mb_s:.1}"),
    });
    let start = vec![name.to_owned(), format!("{} IOPS", known(op.iops, rate)), format!("{mb_s} MB/s")];
    [start, latencies(&op.clat_ns)].concat()
}

fn counted(name: &str, op: &JobOp) -> Vec<String> {
    let amount = bytes(op.io_bytes as f64);
    vec![name.to_owned(), format!("{} requests, {amount}; times were not simulated", count(op.total_ios))]
}

fn latencies(latency: &Clat) -> Vec<String> {
    let at = |key: &str| known(latency.percentile(key), |ns| duration(ns as f64));
    vec![
        format!("mean {}", duration(latency.mean)),
        format!("p99 {}", at("99.000000")),
        format!("p99.9 {}", at("99.900000")),
    ]
}

pub(super) fn wear(wear: &WearResult, endurance: u32) -> String {
    let mut text =
        format!("{} to {} erases a block", count(wear.erase_min.into()), count(wear.erase_max.into()));
    let _ = write!(text, ", mean {:.1}", wear.erase_mean);
    if endurance > 0 {
        let used = 100.0 * wear.erase_mean / f64::from(endurance);
        let _ = write!(text, " ({used:.1} % of {} P/E cycles)", count(endurance.into()));
    }
    if wear.bad_blocks > 0 {
        let plural = if wear.bad_blocks == 1 { "" } else { "s" };
        let _ = write!(text, "; {} bad block{plural}", count(wear.bad_blocks.into()));
    }
    if let Some(pages) = wear.first_bad_block_host_writes {
        let _ = write!(text, ", the first after {} host pages", count(pages));
    }
    labelled("wear", &text)
}

/// Expected lifetime. `verdict` gives the reason for a missing estimate.
pub(super) fn lifetime(
    drive: &DriveConfig,
    wear: &WearResult,
    (waf, verdict): (Option<f64>, WindowVerdict),
    host_pages: u64,
    virtual_ns: u64,
) -> String {
    if drive.nand.endurance_pe == 0 {
        return labelled("lifetime", "unlimited: this drive has no endurance (drive.nand.endurance_pe = 0)");
    }
    // The first bad block is better evidence than the ideal of even wear.
    let Some(pages) = wear.first_bad_block_host_writes.or(wear.ideal_host_pages) else {
        let why = match verdict {
            _ if waf.is_none_or(|waf| waf == 0.0) => "no host write reached the flash",
            WindowVerdict::NothingCollected => "GC never ran, and a full drive programs more",
            WindowVerdict::Transient => "the WAF was not yet steady",
            _ => "too little was written for a steady WAF",
        };
        return labelled("lifetime", &format!("no estimate: {why}"));
    };
    let written = pages as f64 * f64::from(drive.ftl.mapping_unit_bytes);
    let capacity = drive.logical_bytes() as f64;
    let dwpd = written / capacity / (WARRANTY_YEARS * 365.25);
    let total = match written {
        n if n >= 1e10 => format!("{} TBW", short(n / 1e12)),
        n if n >= 1e7 => format!("{} GB written", short(n / 1e9)),
        n => format!("{} MB written", short(n / 1e6)),
    };
    let mut text = format!("{total}, {} DWPD ({WARRANTY_YEARS:.0} years)", short(dwpd));
    let host = host_pages as f64 * f64::from(drive.ftl.mapping_unit_bytes);
    let seconds = virtual_ns as f64 / 1e9;
    if seconds > 0.0 && host > 0.0 {
        let left = written / (host / seconds);
        let span = match left / SECONDS_PER_YEAR {
            years if years >= 1.0 => format!("{} years", short(years)),
            _ => duration(left * 1e9),
        };
        let _ = write!(text, "; {span} of writing at this rate");
    }
    if wear.first_bad_block_host_writes.is_some() {
        text += "; the first block was bad before that";
    } else if f64::from(wear.erase_max) > UNEVEN * wear.erase_mean + FEW_ERASES {
        text += ", if blocks wore evenly, which they do not";
    }
    labelled("lifetime", &text)
}

/// Above this ratio of maximum to mean erases, wear counts as uneven. The ratio of a young drive says little.
const UNEVEN: f64 = 1.25;
const FEW_ERASES: f64 = 4.0;

fn short(number: f64) -> String {
    match number {
        n if n >= 99.95 => count(n.round() as u64),
        n if n >= 9.995 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}

/// Slowest request, with its cause from the counters.
fn slowest(result: &RunResult) -> Option<String> {
    let (name, latency_ns) = longest(&result.jobs)?;
    let mut text = format!("a {name} took {}", duration(latency_ns as f64));
    match &result.long_wait {
        Some(wait) => {
            let plural = if wait.requests == 1 { "request" } else { "requests" };
            let _ = write!(text, "; {} {plural} took over ", count(wait.requests));
            let times = u64::from(result.config.run.long_wait);
            let _ = write!(text, "{}", duration(times.saturating_mul(wait.slowest_ns) as f64));
            if let Some(cause) = wait.causes.first() {
                let _ = write!(text, ". {}", capital(cause));
            }
        }
        None => {
            if let Some(busy) = result.dies.as_ref().and_then(|dies| dies.busy) {
                let _ = write!(text, ": flash {:.0} % busy", 100.0 * busy);
            }
            if let Some(share) = background_share(result).filter(|&share| share >= 0.005) {
                let _ = write!(text, ", {:.0} % of it in the background", 100.0 * share);
            }
        }
    }
    Some(labelled("slowest", &text))
}

/// Share of background operations in the dies' held time.
fn background_share(result: &RunResult) -> Option<f64> {
    let dies = result.dies.as_ref().filter(|dies| dies.held_ns > 0)?;
    let by = &dies.by_class;
    let background = by.background_read + by.background_program + by.erase;
    Some(background as f64 / dies.held_ns as f64)
}

pub(super) fn longest(jobs: &[Job]) -> Option<(&'static str, u64)> {
    let of = |job: &Job| {
        let flush = job.sync.lat_ns.max;
        [
            ("read", job.read.clat_ns.max),
            ("write", job.write.clat_ns.max),
            ("trim", job.trim.clat_ns.max),
            ("flush", flush),
        ]
    };
    jobs.iter().flat_map(of).max_by_key(|&(_, ns)| ns).filter(|&(_, ns)| ns > 0)
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn power_cuts(cuts: &[PowerCutResult], style: Style) -> Option<String> {
    if cuts.is_empty() {
        return None;
    }
    let wrong: u64 = cuts.iter().map(|cut| cut.verified.wrong).sum();
    let n = count(cuts.len() as u64);
    let plural = if cuts.len() == 1 { "power cut" } else { "power cuts" };
    let text = labelled(
        "power",
        &match wrong {
            0 => format!("{n} {plural}: nothing flushed was lost, nothing trimmed and flushed came back"),
            wrong => format!("{n} {plural}: {} mapping units LOST flushed data", count(wrong)),
        },
    );
    Some(if wrong == 0 { text } else { style.warning(&text) })
}

/// Options that fill the drive until it collects, beyond those already set, and their cost.
fn filling(result: &RunResult) -> (String, String) {
    let run = &result.config.run;
    let (option, times) = match (was_filled(result), run.precondition.is_zero()) {
        (true, true) => ("--set run.precondition=2x", 2),
        (true, false) => ("--set run.precondition=8x", 8),
        (false, _) => ("--set run.prefill=true --set run.precondition=2x", 3),
    };
    (option.to_owned(), format!("a full drive: {} first", writes(result, times)))
}

fn writes(result: &RunResult, capacities: u64) -> String {
    let writes = capacities * result.config.drive.logical_units();
    match writes as f64 / 1e6 {
        millions if millions >= 1.0 => format!("{} million writes", short(millions)),
        _ => format!("{} writes", count(writes)),
    }
}

fn next(result: &RunResult, command: &str, style: Style) -> String {
    let spare = result.capacity.map_or(0.0, |capacity| capacity.over_provisioning);
    let is_page_map = ["page", "dftl"].contains(&result.config.drive.ftl.mapping.as_str());
    let plain = |option: &str, about: &str| (option.to_owned(), about.to_owned());
    let other = match result.window.verdict {
        WindowVerdict::NothingCollected => filling(result),
        WindowVerdict::Transient if result.trace.is_none() => {
            ("--set run.warmup=8x".to_owned(), format!("nearer to steady state: {} first", writes(result, 8)))
        }
        _ if is_page_map && spare < 0.25 => plain("--set drive.ftl.over_provisioning=0.28", "more spare"),
        _ if is_page_map => plain("--set drive.ftl.gc.victim=cost-benefit", "another policy"),
        _ => plain("--set drive.ftl.mapping=page", "another mapping"),
    };
    let commands = [plain("--full", "all numbers"), plain("--report out.html", "figures, X-ray"), other];
    let mut out = String::new();
    for (option, about) in commands {
        let line = format!("  {command} {option}");
        let comment = format!("  # {about}");
        let _ = match line.chars().count() + comment.chars().count() {
            width if width <= terminal_width() => writeln!(out, "{line}{}", style.faint(&comment)),
            // The cost of a command is always printed.
            _ if about.contains(" writes first") => writeln!(out, "{}\n{line}", style.faint(&comment)),
            _ => writeln!(out, "{line}"),
        };
    }
    let _ = write!(
        out,
        "{}",
        style.faint(&format!(
            "seed {}, configuration {}, strobe {}",
            result.seed, result.config_hash, result.strobe_version
        ))
    );
    out
}
