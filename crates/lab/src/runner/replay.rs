//! Replays a trace.

use std::path::Path;

use strobe_ssd::Pacing;
use strobe_types::{Request, SimTime};
use strobe_workload::trace::{self, Action, SkipReason, TraceError, TraceOptions, TraceReader};

use super::host::{BATCH, BATCH_PAGES, Host, Stop, closed};
use crate::RunError;
use crate::experiment::{PacingName, TraceConfig};
use crate::fit::{Changes, Fitter};
use crate::result::TraceResult;
use crate::verdict::Arrivals;

/// What "-" stands for as a trace.
const STDIN: &str = "/dev/stdin";

/// Opens the trace.
pub(super) fn open_trace(config: &TraceConfig) -> Result<TraceReader, TraceError> {
    let options = TraceOptions {
        device: config.device.clone(),
        action: config.action.as_deref().map(|a| if a == "Q" { Action::Queue } else { Action::Issue }),
        time_unit_ns: config.time_unit_ns,
    };
    let path = if config.path == "-" { STDIN } else { &config.path };
    trace::open(Path::new(path), &config.format, &options)
}

/// What has been replayed.
#[derive(Default)]
pub(super) struct Replayed {
    pub(super) summary: TraceResult,
    /// Of requests that come at their own times.
    pub(super) arrivals: Option<Arrivals>,
}

/// Replays the trace as often as is asked for, or up to `limit` host pages; notes in `replayed` what it was.
pub(super) fn replay(
    host: &mut Host<'_>,
    config: &TraceConfig,
    limit: Option<u64>,
    replayed: &mut Replayed,
) -> Result<(), Stop> {
    let is_open_loop = config.pacing == PacingName::Open;
    let pacing = if is_open_loop { Pacing::Open } else { closed(config.host) };
    for _ in 0..config.repeat {
        let before: u64 = replayed.summary.requests.values().sum();
        host.set_pacing(pacing)?;
        replay_once(host, config, limit, replayed)?;
        if limit.is_some_and(|limit| host.phase.pages >= limit) {
            break;
        }
        // A trace without requests has none the next time either.
        let requests: u64 = replayed.summary.requests.values().sum();
        if requests == before {
            let hint = nothing_hint(&replayed.summary, config.action.as_deref());
            return Err(RunError::EmptyTrace { path: config.path.clone(), hint }.into());
        }
        replayed.summary.repetitions += 1;
    }
    Ok(())
}

fn replay_once(
    host: &mut Host<'_>,
    config: &TraceConfig,
    limit: Option<u64>,
    replayed: &mut Replayed,
) -> Result<(), Stop> {
    let is_open_loop = config.pacing == PacingName::Open;
    let Replayed { summary, arrivals: waits } = replayed;
    let mut reader = open_trace(config)?;
    let (mut arrived, mut last) = (0, host.queue.finished());
    let mut fitter = Fitter::new(config.fit, config.late, host.drive.sectors(), is_open_loop);
    let start = host.queue.finished();
    let mut batch: Vec<Request> = Vec::with_capacity(BATCH);
    let mut arrivals: Vec<SimTime> = Vec::with_capacity(BATCH);
    let mut result = Ok(());
    let mut batch_pages = 0;
    while result.is_ok() {
        let reached = limit.is_some_and(|limit| host.phase.pages + batch_pages >= limit);
        let record = if reached { None } else { reader.next().transpose()? };
        if let Some(record) = &record {
            let requests = fitter.requests(record).map_err(|error| RunError::Fit {
                path: config.path.clone(),
                place: if config.format == "blktrace" { "record" } else { "line" },
                position: record.position,
                error,
            })?;
            for request in requests {
                batch_pages += host.pages_of(&request);
                *summary.requests.entry(request.op.name().to_owned()).or_default() += 1;
                batch.push(request);
                if is_open_loop {
                    last = last.max(start + record.time_ns);
                    arrived += 1;
                    arrivals.push(start + record.time_ns);
                }
            }
            summary.span_bytes = summary.span_bytes.max(record.offset.saturating_add(record.bytes));
            summary.duration_ns = summary.duration_ns.max(record.time_ns);
        }
        if batch.len() >= BATCH || batch_pages >= BATCH_PAGES || record.is_none() {
            result = host.issue(&batch, &arrivals);
            batch.clear();
            arrivals.clear();
            batch_pages = 0;
        }
        if record.is_none() {
            break;
        }
    }
    for (reason, count) in reader.skipped().iter() {
        *summary.skipped.entry(reason.name().to_owned()).or_default() += count;
    }
    summary.changes = summary.changes.and(&fitter.changes);
    result = result.and_then(|()| host.finish());
    if is_open_loop {
        let finished = host.queue.finished();
        waits.get_or_insert_default().add(arrived, start, last, finished);
    }
    result
}

/// Why a trace held nothing to replay.
fn nothing_hint(summary: &TraceResult, action: Option<&str>) -> String {
    let left_out: Vec<String> = summary.skipped.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
    if summary.repetitions > 0 {
        return format!(" after {} times: a pipe cannot be repeated", summary.repetitions);
    }
    let mut hint = String::new();
    if !left_out.is_empty() {
        hint += &format!("; left out: {}", left_out.join(", "));
    }
    // Formats with actions: if those of one letter were left out, the other letter has them.
    let was_left_out = |reason: SkipReason| summary.skipped.contains_key(reason.name());
    if was_left_out(SkipReason::OtherAction) {
        hint += if action == Some("Q") { "; try --action D" } else { "; try --action Q" };
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
            &format!("; {dropped} lay beyond the drive, {empty} were empty, {rounded} held no whole sector");
    }
    hint
}
