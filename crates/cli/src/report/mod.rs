//! Summaries for the terminal.

mod brief;
#[cfg(target_os = "linux")]
mod crash;
mod crash_formats;
pub mod diff;
mod faults;
mod latency;
mod linux;
mod overview;
pub mod paper;
#[cfg(target_os = "linux")]
mod serve;
mod style;
pub mod sweep;
mod table;
#[cfg(target_os = "linux")]
mod top;
pub mod twin;

pub use brief::brief;
pub use overview::capacity_line;
pub use style::Style;

use std::fmt::Write as _;

use crate::chart::{self, bars};
#[cfg(target_os = "linux")]
pub use crash::{crash_summary, crash_table};
pub use crash_formats::{crash_junit, crash_sarif};
pub use faults::fault_summary;
pub use linux::{linux_brief, linux_summary};
use overview::{drive_line, headline, is_changed, trace_line, workload_line, wrapped};
#[cfg(target_os = "linux")]
pub use serve::serve_brief;
use strobe_ftl::{CopyStats, MergeStats, SlcStats, TranslationStats};
use strobe_lab::numbers::times;
pub use strobe_lab::numbers::{bytes, count, duration, trimmed};
use strobe_lab::power::{PowerCutResult, RecoveryResult};
use strobe_lab::result::{
    ByCause, DiesResult, HostResult, LfsResult, NandResult, RunResult, SlcResult, WearResult,
};
use strobe_lab::{Sample, SteadyRounds, WindowVerdict};
pub use table::{Table, row, table, terminal_width};
#[cfg(target_os = "linux")]
pub use top::top;

/// Formatted value; "-" if unknown.
pub(crate) fn known<T>(value: Option<T>, shown: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), shown)
}

pub(crate) fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

const JOBS: usize = 8;

/// Full summary of a run.
pub fn summary(result: &RunResult) -> String {
    let mut out = String::new();
    if let Some(reason) = &result.stopped_by {
        let _ = writeln!(out, "PARTIAL RESULT, stopped: {reason}\n");
    }
    let _ = writeln!(out, "{}\n{}", drive_line(result), workload_line(result, JOBS));
    if let Some(trace) = &result.trace {
        let _ = writeln!(out, "{}", trace_line(trace));
    }
    if let Some(recovery) = result.image.and_then(|image| image.recovery) {
        let _ = writeln!(out, "{}", recovery_line(&recovery));
    }
    for note in &result.notes {
        let _ = writeln!(out, "\n{}", broken(&format!("note: {note}"), terminal_width()).join("\n"));
    }
    let _ = writeln!(out, "\n{}", headline(result));
    let jobs = result.total.as_ref().unwrap_or(&result.jobs[0]);
    if latency::is_measured(jobs) {
        let _ = writeln!(out, "\n{}", latency::by_kind(jobs, result.time.virtual_ns));
    }
    let parts = [
        latency::by_job(&result.jobs),
        latency::picture(jobs),
        errors_line(&result.host),
        Some(flash_table(&result.nand).to_string()),
        result.dies.as_ref().and_then(dies_line),
        result.lfs.as_ref().map(lfs_line),
        result.copy.as_ref().map(copy_line),
        result.merges.as_ref().map(merge_line),
        result.translation.as_ref().map(translation_line),
        result.slc.as_ref().map(slc_line),
        Some(wear_picture(&result.wear, result.config.drive.nand.endurance_pe)),
        lifetime_picture(&result.wear),
        series_picture(result),
        result.until_steady.as_ref().map(steady_line),
        power_cuts(&result.power_cuts),
    ];
    let notes = result.trace.iter().flat_map(|trace| trace.notes.iter().map(String::as_str));
    let hints = hints(result)
        .into_iter()
        .chain(notes)
        .map(|hint| broken(&format!("note: {hint}"), terminal_width()).join("\n"));
    for part in parts.into_iter().flatten().chain(hints) {
        let _ = writeln!(out, "\n{part}");
    }
    let _ = write!(out, "\n{}", footer(result));
    trimmed(&out)
}

fn was_filled(result: &RunResult) -> bool {
    // The drive of an existing image keeps its data, so by default it is not filled again.
    let is_reopened = result.image.is_some_and(|image| image.recovery.is_some());
    let wants_prefill = result.config.workload.wants_prefill();
    result.config.run.prefill.unwrap_or(wants_prefill && !is_reopened)
}

fn hints(result: &RunResult) -> Vec<&'static str> {
    let was_filled = was_filled(result);
    let mut hints = Vec::new();
    if result.host.read.commands > 0 && result.nand.read.by_cause.host == 0 {
        hints.push(if was_filled {
            "no read found data on flash, so reads cost no flash time: the data was in a buffer or trimmed"
        } else {
            "no read found data on flash, so reads cost no flash time (fill the drive first: run.prefill, --prefill)"
        });
    }
    if result.host.write.commands > 0 && result.nand.erase.total == 0 {
        hints.push(if result.wear.erase_max > 0 {
            "no garbage was collected within the measured window: it is too short (run.measure, or a longer trace)"
        } else if was_filled {
            "no garbage was collected: the drive was filled, but spare flash was left (run.precondition)"
        } else {
            "no garbage was collected: the drive was never full (run.prefill, --prefill, or a smaller drive)"
        });
    }
    hints
}

fn errors_line(host: &HostResult) -> Option<String> {
    let kinds = [("reads", host.read), ("writes", host.write), ("copies", host.copy)];
    let kinds = [&kinds[..], &[("write zeroes", host.write_zeroes)]].concat();
    let failed = kinds.iter().filter(|(_, op)| op.errors > 0);
    let parts: Vec<String> =
        failed.map(|(name, op)| format!("{} of {} {name}", count(op.errors), count(op.commands))).collect();
    (!parts.is_empty()).then(|| format!("unrecovered read errors: {}", parts.join(", ")))
}

fn flash_table(nand: &NandResult) -> Table {
    let mut table = table(&["flash", "total", "by cause"]).text(2);
    for (name, op) in [("program", &nand.program), ("read", &nand.read), ("erase", &nand.erase)] {
        let mut parts = causes(op);
        if name == "read" && nand.read_retries > 0 {
            let _ = write!(parts, "; {} of them retries", count(nand.read_retries));
        }
        if name == "read" && nand.uncorrectable_reads > 0 {
            let _ = write!(parts, "; {} could not be corrected", count(nand.uncorrectable_reads));
        }
        table.add_row(row(name, [count(op.total), parts]));
    }
    table
}

fn causes(op: &ByCause) -> String {
    let share = |n: u64| 100.0 * n as f64 / op.total.max(1) as f64;
    let some = op.by_cause.named().into_iter().filter(|&(_, n)| n > 0);
    let parts: Vec<String> = some.map(|(name, n)| format!("{name} {:.1} %", share(n))).collect();
    parts.join(", ")
}

fn dies_line(dies: &DiesResult) -> Option<String> {
    let busy = dies.busy?;
    let some = dies.by_class.named().into_iter().filter(|&(_, ns)| ns > 0);
    let parts: Vec<String> = some
        .map(|(name, ns)| format!("{name} {:.1} %", 100.0 * busy * ns as f64 / dies.held_ns as f64))
        .collect();
    let dies_are = if dies.count == 1 {
        "the die is".to_owned()
    } else {
        format!("{} dies are", count(dies.count.into()))
    };
    let mut line = format!("{dies_are} busy for {:.1} % of the time", 100.0 * busy);
    if dies.suspends > 0 {
        let _ = write!(line, ", with {} suspends", count(dies.suspends));
    }
    if !parts.is_empty() {
        let _ = write!(line, "\n{}", wrapped(&format!("          {}", parts.join(", "))));
    }
    Some(line)
}

fn lfs_line(lfs: &LfsResult) -> String {
    let mut line = format!("files     {} updated", bytes(lfs.updated_bytes as f64));
    if let Some(programmed) = lfs.programmed_per_byte {
        let _ = write!(line, ", {programmed:.3} bytes programmed per byte");
    }
    if let Some(live) = lfs.victims_live {
        let cleaned = bytes(lfs.cleaned_bytes as f64);
        let _ = write!(line, ", {cleaned} of segments cleaned that were {:.1} % live", 100.0 * live);
    }
    if let Some(rate) = lfs.updated_bytes_per_s {
        let _ = write!(line, ", {}/s", bytes(rate));
    }
    wrapped(&line)
}

fn copy_line(copy: &CopyStats) -> String {
    let CopyStats { logical_units, physical_units, third_owner_units, map_full_units } = *copy;
    let mut line = format!(
        "copies: {} mapping units by the map alone, {} read and programmed",
        count(logical_units),
        count(physical_units)
    );
    if third_owner_units + map_full_units > 0 {
        let (owners, full) = (count(third_owner_units), count(map_full_units));
        let _ =
            write!(line, ", of these {owners} with two owners already and {full} with a full virtual map");
    }
    line
}

fn translation_line(paging: &TranslationStats) -> String {
    let uses = (paging.hits + paging.misses).max(1) as f64;
    format!(
        "map entries: {:.2} % found in the cache; {} translation pages read, {} programmed, {} of them for \
         garbage collection",
        100.0 * paging.hits as f64 / uses,
        count(paging.tp_reads),
        count(paging.tp_programs),
        count(paging.gc_tp_updates)
    )
}

fn slc_line(slc: &SlcResult) -> String {
    let SlcStats { units_cached, units_direct, units_folded, blocks_folded, .. } = slc.counters;
    let written = (units_cached + units_direct).max(1) as f64;
    format!(
        "SLC cache: took {:.2} % of the written data; {} pages folded from {} blocks, {} blocks in use at the end",
        100.0 * units_cached as f64 / written,
        count(units_folded),
        count(blocks_folded),
        count(slc.blocks_in_use.into())
    )
}

fn merge_line(merges: &MergeStats) -> String {
    let MergeStats { switched, partial, full, units_copied, blocks_erased, .. } = *merges;
    format!(
        "merges: {} switch, {} partial, {} full; {} sectors copied, {} blocks erased",
        count(switched),
        count(partial),
        count(full),
        count(units_copied),
        count(blocks_erased)
    )
}

fn wear_picture(wear: &WearResult, endurance: u32) -> String {
    let mut line = format!(
        "wear: {} to {} erases per block, mean {:.1}, σ {:.2}",
        wear.erase_min, wear.erase_max, wear.erase_mean, wear.erase_stddev
    );
    if endurance > 0 {
        let _ = write!(line, " ({:.1} % of {endurance})", 100.0 * wear.erase_mean / f64::from(endurance));
    }
    if wear.bad_blocks > 0 {
        let _ =
            write!(line, ", {} bad block{}", wear.bad_blocks, if wear.bad_blocks == 1 { "" } else { "s" });
    }
    if let Some(writes) = wear.first_bad_block_host_writes {
        let _ = write!(line, ", the first after {} host pages", count(writes));
    }
    if wear.histogram.len() > 1 {
        // `bars` draws 0 as the lowest bar; bins without blocks stay blank.
        let blocks = wear.histogram.iter().map(|&n| if n == 0 { 0.0 } else { f64::from(n) });
        let picture: String = bars(blocks.clone(), 0.0)
            .chars()
            .zip(blocks)
            .map(|(bar, n)| if n == 0.0 { ' ' } else { bar })
            .collect();
        let _ = write!(line, "\n      {} ▕{picture}▏ {}", wear.erase_min, wear.erase_max);
    }
    line
}

const CURVE_COLUMNS: u64 = 48;

fn lifetime_picture(wear: &WearResult) -> Option<String> {
    let (first, last) = (wear.bad_block_curve.first()?, wear.bad_block_curve.last()?);
    let mut lines = Vec::new();
    if last.host_pages > first.host_pages {
        let step = (last.host_pages - first.host_pages) as f64 / (CURVE_COLUMNS - 1) as f64;
        let bad_at = |column: u64| {
            let host_pages = first.host_pages + (column as f64 * step).round() as u64;
            let until = wear.bad_block_curve.partition_point(|point| point.host_pages <= host_pages);
            f64::from(wear.bad_block_curve[until.max(1) - 1].bad_blocks)
        };
        let picture = bars((0..CURVE_COLUMNS).map(bad_at), 0.0);
        let (from, to) = (count(first.host_pages), count(last.host_pages));
        let bad = last.bad_blocks;
        lines.push(format!("bad blocks over host pages, {from} to {to}:  1 ▕{picture}▏ {bad}"));
    }
    if let Some(ideal) = wear.ideal_host_pages {
        let reached = 100.0 * first.host_pages as f64 / ideal.max(1) as f64;
        lines.push(format!(
            "if blocks wore evenly, the first would go bad after {} host pages: {reached:.1} % of that was reached",
            count(ideal)
        ));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn series_picture(result: &RunResult) -> Option<String> {
    let wafs = |measured: bool| {
        let of = move |s: &&Sample| s.measured == measured;
        result.series.iter().filter(of).filter_map(|s| s.waf).collect::<Vec<f64>>()
    };
    let (warm, measured) = (wafs(false), wafs(true));
    let (split, all) = (warm.len(), [warm, measured].concat());
    // Fewer than three samples show no trend.
    if all.len() < 3 {
        return None;
    }
    let low = all.iter().copied().fold(f64::MAX, f64::min);
    let capacity = result.config.drive.logical_units() as f64;
    let at = |sample: Option<&Sample>| sample.map_or(0.0, |sample| sample.host_pages as f64 / capacity);
    let mut text = format!(
        "write amplification from {} to {} of the capacity written{}\n{}",
        times(at(result.series.first())),
        times(at(result.series.last())),
        if split > 0 && split < all.len() { " (after the dotted line: measured)" } else { "" },
        chart::series(&all, split, low.min(1.0))
    );
    if let Some(steady) = &result.steady_state {
        let state = match (steady.reached, result.window.verdict) {
            (_, WindowVerdict::NothingCollected) => "nothing was collected",
            (true, WindowVerdict::Transient) => "steady at the end, but not over the whole measured window",
            (true, _) => "steady state",
            (false, _) => "NOT yet steady",
        };
        let _ = write!(
            text,
            "\n{state}: last five intervals {:.3} on average, range {:.1} %, slope {:.1} %",
            steady.waf_mean, steady.range_pct, steady.slope_pct
        );
    }
    Some(text)
}

fn steady_line(steady: &SteadyRounds) -> String {
    let state = if steady.reached { "was steady" } else { "was NOT steady" };
    let mut line = format!(
        "{} {state} after {} rounds of {}",
        steady.metric.name(),
        count(steady.rounds.into()),
        steady.interval
    );
    if let (Some(mean), Some(range), Some(slope)) = (steady.mean, steady.range_pct, steady.slope_pct) {
        let mean = if mean < 100.0 { format!("{mean:.3}") } else { count(mean.round() as u64) };
        let _ = write!(line, ": last five {mean} on average, range {range:.1} %, slope {slope:.1} %");
    }
    line
}

/// Text on the recovery of a drive.
pub fn recovered(recovery: &strobe_ssd::Recovery) -> String {
    recovery_line(&RecoveryResult::of(recovery))
}

fn recovery_line(recovery: &RecoveryResult) -> String {
    let time = match recovery.time_ns {
        0 => String::new(),
        ns => format!(" in {} of virtual time", duration(ns as f64)),
    };
    format!(
        "recovered{time}: {} log pages with {} epochs and {} checkpoint segments, {} later data pages with {} mapping \
         units; {} pages unreadable, {} blocks erased",
        count(recovery.log_pages),
        count(recovery.epochs),
        count(recovery.segments),
        count(recovery.scanned_pages),
        count(recovery.units_found),
        count(recovery.illegible_pages),
        count(recovery.blocks_erased),
    )
}

fn power_cuts(cuts: &[PowerCutResult]) -> Option<String> {
    const SHOWN: usize = 20;
    let last = cuts.last()?;
    let mut table = table(&[
        "power cut in\noperation",
        "recovery\ntime",
        "pages\nread",
        "units\nrecovered",
        "units\nunflushed",
        "newest\nversion",
        "older\nversion",
        "wrong",
    ]);
    for cut in cuts.iter().take(SHOWN) {
        let (recovery, verified) = (&cut.recovery, &cut.verified);
        let counts = [
            recovery.log_pages + recovery.scanned_pages,
            recovery.units_found,
            verified.unflushed,
            verified.newest,
            verified.older,
            verified.wrong,
        ];
        let cells = std::iter::once(duration(recovery.time_ns as f64)).chain(counts.map(count));
        table.add_row(row(&count(cut.operation), cells));
    }
    let more = match cuts.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("\nand {more} more, in the JSON"),
    };
    let wrong: u64 = cuts.iter().map(|cut| cut.verified.wrong).sum();
    let proof = match wrong {
        0 => format!(
            "After each of {} power cuts all {} mapping units were read back: each holds its data of the last flush \
             or a later version. No flushed data was lost, and no flushed trim came back.",
            count(cuts.len() as u64),
            count(last.verified.units)
        ),
        wrong => {
            format!("{} mapping units hold neither their flushed data nor a later version.", count(wrong))
        }
    };
    Some(format!("{table}{more}\n{proof}"))
}

fn footer(result: &RunResult) -> String {
    let mut line = format!(
        "seed {}, configuration {}, strobe {}",
        result.seed, result.config_hash, result.strobe_version
    );
    if let (Some(cpu), Some(speed)) = (result.time.cpu_s, result.sim.host_pages_per_cpu_s) {
        let _ = write!(line, "; {cpu:.1} s of CPU, {:.1} M host pages per CPU second", speed / 1e6);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_say_why_they_moved_data() {
        let copy =
            CopyStats { logical_units: 1000, physical_units: 30, third_owner_units: 10, map_full_units: 20 };
        let line = copy_line(&copy);
        for part in
            ["1,000 mapping units by the map", "30 read", "10 with two owners", "20 with a full virtual map"]
        {
            assert!(line.contains(part), "{part} is missing in {line}");
        }
        let by_map = CopyStats { physical_units: 0, third_owner_units: 0, map_full_units: 0, ..copy };
        assert!(copy_line(&by_map).ends_with(", 0 read and programmed"));
    }
}
