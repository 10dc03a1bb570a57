//! Replays a trace.

use std::collections::BTreeMap;
use std::path::Path;

use strobe_ssd::{Command, Hint, Pacing, Range};
use strobe_types::{Request, SimTime};
use strobe_workload::trace::{self, Action, Detail, SkipReason, TraceError, TraceOptions, TraceReader};

use super::assemble::Assembler;
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

/// Replays the trace as often as is asked for, or until the phase at hand has its host pages; notes in `replayed` what was
/// issued. A drive that `takes_hints` is told which writes are metadata.
pub(super) fn replay(
    host: &mut Host<'_>,
    config: &TraceConfig,
    takes_hints: bool,
    replayed: &mut Replayed,
) -> Result<(), Stop> {
    let is_open_loop = config.pacing == PacingName::Open;
    let pacing = if is_open_loop { Pacing::Open } else { closed(config.host) };
    for _ in 0..config.repeat {
        let before: u64 = replayed.summary.requests.values().sum();
        host.set_pacing(pacing)?;
        replay_once(host, config, takes_hints, replayed)?;
        if host.is_reached() {
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

/// Ordinary requests on their way to the drive.
struct Batch {
    requests: Vec<Request>,
    /// When they come, in open loop.
    arrivals: Vec<SimTime>,
    is_open_loop: bool,
    /// Sectors of them.
    sectors: u64,
}

impl Batch {
    fn new(is_open_loop: bool) -> Self {
        let (requests, arrivals) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        Self { requests, arrivals, is_open_loop, sectors: 0 }
    }

    fn push(&mut self, request: Request, arrival: SimTime) {
        self.sectors += u64::from(request.sectors);
        self.requests.push(request);
        if self.is_open_loop {
            self.arrivals.push(arrival);
        }
    }

    fn is_full(&self, host: &Host<'_>) -> bool {
        let pages = self.sectors >> host.drive.geometry().unit_shift();
        self.requests.len() >= BATCH || pages >= BATCH_PAGES
    }

    /// Issues them, as many as there are before the phase at hand has its host pages, and counts those in `sent`.
    fn issue(&mut self, host: &mut Host<'_>, sent: &mut Sent<'_>) -> Result<(), Stop> {
        let result = host.issue(&self.requests, &self.arrivals);
        let issued = *result.as_ref().unwrap_or(&0);
        for (at, request) in self.requests[..issued].iter().enumerate() {
            sent.count(request.op.name(), self.arrivals.get(at).copied());
        }
        self.requests.clear();
        self.arrivals.clear();
        self.sectors = 0;
        result.map(drop)
    }
}

/// Requests issued.
struct Sent<'a> {
    by_kind: &'a mut BTreeMap<String, u64>,
    requests: u64,
    last_arrival: SimTime,
}

impl Sent<'_> {
    fn count(&mut self, kind: &str, arrival: Option<SimTime>) {
        match self.by_kind.get_mut(kind) {
            Some(count) => *count += 1,
            None => drop(self.by_kind.insert(kind.to_owned(), 1)),
        }
        self.requests += 1;
        self.last_arrival = self.last_arrival.max(arrival.unwrap_or(SimTime::ZERO));
    }

    /// Issues what is in `batch`, then `command`.
    fn send(
        &mut self,
        host: &mut Host<'_>,
        batch: &mut Batch,
        (kind, command): (&str, &Command<'_>),
        arrival: Option<SimTime>,
    ) -> Result<(), Stop> {
        batch.issue(host, self)?;
        if host.send(command, arrival)? {
            self.count(kind, arrival);
        }
        Ok(())
    }
}

fn replay_once(
    host: &mut Host<'_>,
    config: &TraceConfig,
    takes_hints: bool,
    replayed: &mut Replayed,
) -> Result<(), Stop> {
    let is_open_loop = config.pacing == PacingName::Open;
    let Replayed { summary, arrivals: waits } = replayed;
    let mut reader = open_trace(config)?;
    let start = host.now();
    let mut sent = Sent { by_kind: &mut summary.requests, requests: 0, last_arrival: start };
    let mut fitter = Fitter::new(config.fit, config.late, host.drive.sectors(), is_open_loop);
    let mut batch = Batch::new(is_open_loop);
    let mut assembler = Assembler::new(config.trim_ranges);
    let mut result = Ok(());
    while result.is_ok() && !host.is_reached() {
        let record = reader.next().transpose()?;
        if let Some(command) = assembler.complete_before(record.as_ref()) {
            let arrival = is_open_loop.then_some(command.arrival);
            match command.as_request() {
                Some(request) => batch.push(request, command.arrival),
                None => {
                    result = sent.send(host, &mut batch, (command.name(), &command.command()), arrival);
                }
            }
        }
        if let Some(record) = &record
            && result.is_ok()
        {
            let arrival = start + record.time_ns;
            let misfit = |error| RunError::Fit {
                path: config.path.clone(),
                place: if config.format == "blktrace" { "record" } else { "line" },
                position: record.position,
                error,
            };
            if Assembler::takes(record) {
                assembler.take(record, arrival, &mut fitter).map_err(misfit)?;
            } else {
                let is_hinted = takes_hints && record.detail == Detail::Metadata;
                for request in fitter.requests(record).map_err(misfit)? {
                    if !is_hinted {
                        batch.push(request, arrival);
                        continue;
                    }
                    let range = Range::new(request.lba, request.sectors);
                    let command = Command::Write { range, fua: false, hint: Hint::Metadata };
                    let named = (request.op.name(), &command);
                    let arrival = is_open_loop.then_some(arrival);
                    result = result.and_then(|()| sent.send(host, &mut batch, named, arrival));
                }
            }
            let end =
                if let Detail::CopyTo(to) = record.detail { to.max(record.offset) } else { record.offset };
            summary.span_bytes = summary.span_bytes.max(end.saturating_add(record.bytes));
            summary.duration_ns = summary.duration_ns.max(record.time_ns);
        }
        if result.is_ok() && (batch.is_full(host) || record.is_none()) {
            result = batch.issue(host, &mut sent);
        }
        if record.is_none() {
            break;
        }
    }
    let (requests, last) = (sent.requests, sent.last_arrival);
    for (reason, count) in reader.skipped().iter() {
        *summary.skipped.entry(reason.name().to_owned()).or_default() += count;
    }
    summary.changes = summary.changes.and(&fitter.changes);
    result = result.and_then(|()| host.finish_phase());
    if is_open_loop {
        waits.get_or_insert_default().add(requests, start, last, host.now());
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
