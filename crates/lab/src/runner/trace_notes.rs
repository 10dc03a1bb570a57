//! Notes on how a trace was read, and hints for a trace without requests.

use strobe_workload::trace::{Action, Overlap, SkipReason, TraceOptions, find_format};

use crate::experiment::{Amount, PacingName, TraceConfig};
use crate::fit::Changes;
use crate::numbers::{count, duration};
use crate::result::TraceResult;

#[derive(Default)]
pub(super) struct Pass {
    pub(super) requests: u64,
    /// First timestamp, as written in the trace.
    pub(super) first_time_ns: Option<u64>,
    pub(super) files: usize,
    pub(super) has_whole_seconds: bool,
    /// False if the trace ended before workload.take.
    pub(super) has_whole_part: bool,
    pub(super) overlapping: Option<(String, String)>,
    /// Placed devices that share a part of the drive.
    pub(super) overlaps: Vec<Overlap>,
    /// False if the measured window ended within the pass.
    pub(super) is_complete: bool,
}

/// Mean gap and duration. Above both, the true unit of the timestamps is probably smaller. Traces of idle
/// volumes have such gaps, but their timestamps contain a date.
const SLOW_GAP_NS: u64 = 100_000_000;
const SLOW_DURATION_NS: u64 = 3_600_000_000_000;

/// Mean gap below which no drive keeps up: ten million requests per second.
const FAST_GAP_NS: u64 = 100;
const FAST_REQUESTS: u64 = 1_000;

const YEAR_NS: u64 = 365 * 86_400 * 1_000_000_000;

pub(super) fn add(summary: &mut TraceResult, config: &TraceConfig, options: &TraceOptions, pass: &Pass) {
    let Ok(format) = find_format(&config.format) else { return };
    if format.takes_action {
        let action = options.action.unwrap_or_default();
        summary.action = Some(action.letter().to_owned());
        if config.action.is_none() && action != Action::default() {
            summary.notes.push(action_note(action).to_owned());
        }
    }
    if pass.files > 1 {
        summary.notes.push(format!("{} per-CPU files were merged by time", pass.files));
    }
    if let Some(take) = config.take.filter(|_| !pass.has_whole_part) {
        summary.notes.push(format!("the trace ended before workload.take = {take}"));
    }
    if let Some((first, second)) = &pass.overlapping {
        summary.notes.push(format!(
            "the devices of the trace lie over each other, such as {first} and {second}: to place them, use \
             --device {first}@0 --device {second}@100g"
        ));
    }
    summary.notes.extend(overlap_note(&pass.overlaps));
    if config.pacing == PacingName::Open && pass.has_whole_seconds {
        summary.notes.push(
            "the trace's times are whole seconds: requests arrive in bursts, and latencies include the waiting in \
             them; --closed-loop ignores the times"
                .to_owned(),
        );
    }
    let unit_ns = options.time_unit_ns.unwrap_or(format.time_unit_ns);
    if config.pacing == PacingName::Open {
        summary.notes.extend(unit_note(pass, summary.duration_ns, unit_ns));
    }
}

/// Warns about placed devices that overlap: a write to one also overwrites data of the other.
fn overlap_note(overlaps: &[Overlap]) -> Option<String> {
    let Overlap { first, second, bytes, end } = overlaps.first()?;
    let more = match overlaps.len() - 1 {
        0 => String::new(),
        1 => " (and 1 other pair overlaps)".to_owned(),
        more => format!(" (and {more} other pairs overlap)"),
    };
    // The cure is a round offset, for example whole GiB of large devices.
    let step = [1 << 30, 1 << 20, 1 << 16].into_iter().find(|step| end >= step).unwrap_or(1 << 12);
    let offset = Amount::Bytes(end.next_multiple_of(step));
    Some(format!(
        "the devices {first} and {second} overlap: both use the same {} of the drive{more}; place {second} behind \
         {first}: --device {second}@{offset}",
        bytes_of(*bytes)
    ))
}

/// Bytes with one decimal in a binary unit: "1.5 GiB".
fn bytes_of(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(shift, _)| bytes >> shift > 0);
    match unit {
        Some((shift, name)) => format!("{:.1} {name}", bytes as f64 / f64::from(1u32 << shift)),
        None => format!("{bytes} bytes"),
    }
}

fn action_note(action: Action) -> &'static str {
    match action {
        Action::Issue | Action::Queue => {
            "the trace has no dispatched requests (D): its queued ones (Q) were replayed"
        }
        Action::Complete => {
            "the trace has no dispatched (D) or queued requests (Q): its completed ones (C) were replayed, \
             at their completion times"
        }
    }
}

fn unit_note(pass: &Pass, duration_ns: u64, unit_ns: u64) -> Option<String> {
    let gap_ns = duration_ns / pass.requests.saturating_sub(1).max(1);
    let is_slow = gap_ns > SLOW_GAP_NS && duration_ns > SLOW_DURATION_NS && !is_date(pass.first_time_ns?);
    let is_fast = gap_ns < FAST_GAP_NS && duration_ns > 0 && pass.requests >= FAST_REQUESTS;
    if !is_slow && !is_fast {
        return None;
    }
    Some(format!(
        "{} requests take {}, {} apart on average, with {} per unit of the trace's times: if the unit is \
         different, set --time-unit-ns (workload.time_unit_ns)",
        count(pass.requests),
        duration(duration_ns as f64),
        duration(gap_ns as f64),
        duration(unit_ns as f64),
    ))
}

/// True if the time is a date from 1990 to 2100, counted from 1970 or, as in Windows, from 1601. The unit is
/// then right.
fn is_date(time_ns: u64) -> bool {
    let years = time_ns / YEAR_NS;
    (20..130).contains(&years) || (389..499).contains(&years)
}

/// Hint for a pass without requests. `is_before` is true if the chosen part of the trace has no record.
pub(super) fn nothing_hint(summary: &TraceResult, is_before: bool) -> String {
    let left_out: Vec<String> = summary.skipped.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
    if summary.repetitions > 0 {
        return format!(" after {} times: a pipe cannot be repeated", summary.repetitions);
    }
    let mut hint = String::new();
    let is_header = |reason: &String| *reason == SkipReason::Header.name();
    if is_before && summary.skipped.keys().all(is_header) {
        return ": the trace is empty or has only header lines; record or copy it again".to_owned();
    }
    if !left_out.is_empty() {
        hint += &format!("; left out: {}", left_out.join(", "));
    }
    let was_left_out = |reason: SkipReason| summary.skipped.contains_key(reason.name());
    // Another action is a cure only if the trace has requests of it.
    let recorded = Action::ALL.into_iter().filter(|action| was_left_out(action.skipped_as()));
    let cures: Vec<String> = recorded.map(|action| format!("--action {}", action.letter())).collect();
    if !cures.is_empty() {
        hint += &format!("; try {}", cures.join(" or "));
    }
    if was_left_out(SkipReason::Before) && is_before {
        hint += "; the trace ends before the part that --skip (workload.skip) leaves; skip less";
    }
    if was_left_out(SkipReason::OtherDevice) {
        hint += "; try another --device, or --device all";
    }
    if was_left_out(SkipReason::FileEvent) && left_out.len() == 1 {
        hint += "; the log names files, but has no read, write, trim or sync";
    }
    let Changes { dropped, empty, rounded, .. } = summary.changes;
    if dropped + empty + rounded > 0 {
        hint +=
            &format!("; {dropped} were beyond the drive, {empty} were empty, {rounded} had no whole sector");
    }
    hint
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const DAY: u64 = 86_400 * SECOND;

    fn note(requests: u64, first_time_ns: u64, duration_ns: u64) -> Option<String> {
        let pass = Pass { requests, first_time_ns: Some(first_time_ns), ..Pass::default() };
        unit_note(&pass, duration_ns, 1000)
    }

    #[test]
    fn times_in_another_unit_are_noticed() {
        // Gaps of 1 s and of 10 ms, in ns and taken as µs.
        assert!(note(11, 0, 10_000 * SECOND).expect("slow").contains("--time-unit-ns"));
        assert!(note(6001, 0, 60_000 * SECOND).expect("slow").contains("10.0 s apart"));
        // 100,000 requests at 10 µs, in µs and taken as ns.
        assert!(note(100_000, 0, 1_000_000).expect("fast").contains("100,000 requests"));
        assert!(note(2, 0, 5000 * SECOND).is_some());
    }

    #[test]
    fn ordinary_times_are_not_doubted() {
        for (requests, duration_ns) in [
            (0, 0),
            (1, 0),
            (100_000, 0),
            (4, 3 * SECOND),
            (2, 3600 * SECOND),
            (1_000_000, 7 * DAY / 10),
            (36_012, 3601 * SECOND),
            (100_000, 100_000 * 100),
            (999, 999),
        ] {
            assert_eq!(note(requests, 0, duration_ns), None, "{requests} in {duration_ns} ns");
        }
    }

    #[test]
    fn a_quiet_volume_with_dates_is_not_doubted() {
        // The first FILETIME of the MSR traces in ns, a time in ns since 1970, and both in a thousandth of
        // the unit.
        for (first, is_right) in [
            (12_816_637_200_306_162_900, true),
            (1_577_808_144_360_767_000, true),
            (12_816_637_200_306_162, false),
            (1_577_808_144_360_767, false),
        ] {
            assert_eq!(note(1055, first, 7 * DAY).is_none(), is_right, "{first}");
        }
    }

    #[test]
    fn the_hint_names_actions_that_the_trace_has() {
        let left_out = |reasons: &[SkipReason]| {
            let skipped = reasons.iter().map(|reason| (reason.name().to_owned(), 2)).collect();
            nothing_hint(&TraceResult { skipped, ..TraceResult::default() }, false)
        };
        assert_eq!(
            left_out(&[SkipReason::Completed]),
            "; left out: 2 completed requests (C); try --action C"
        );
        let both = left_out(&[SkipReason::Dispatched, SkipReason::Queued, SkipReason::OtherAction]);
        assert!(both.ends_with("; try --action D or --action Q"), "{both}");
        assert!(!left_out(&[SkipReason::OtherAction]).contains("--action"));
    }
}
