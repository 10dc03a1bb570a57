//! Replays a trace.

use std::path::Path;

use strobe_ssd::{Command, Hint, Pacing, Range};
use strobe_types::{Request, SimTime};
use strobe_workload::trace::{self, Action, Detail, TraceError, TraceOptions, TraceReader, TraceRecord};

use super::assemble::{Assembled, Assembler};
use super::host::{BATCH, BATCH_PAGES, Host, Stop, closed};
use super::trace_notes::{self, Pass};
use crate::RunError;
use crate::experiment::{PacingName, TraceConfig};
use crate::fit::Fitter;
use crate::result::TraceResult;
use crate::verdict::Arrivals;

/// What "-" stands for as a trace.
const STDIN: &str = "/dev/stdin";

/// Opens the trace.
pub(super) fn open_trace(config: &TraceConfig) -> Result<TraceReader, TraceError> {
    trace::open(path(config), &config.format, &options(config))
}

fn path(config: &TraceConfig) -> &Path {
    Path::new(if config.path == "-" { STDIN } else { &config.path })
}

fn options(config: &TraceConfig) -> TraceOptions {
    TraceOptions {
        device: config.device.clone(),
        action: config.action.as_deref().and_then(Action::from_letter),
        time_unit_ns: config.time_unit_ns,
    }
}

/// What has been replayed.
#[derive(Default)]
pub(super) struct Replayed {
    pub(super) summary: TraceResult,
    /// Of requests that come at their own times.
    pub(super) arrivals: Option<Arrivals>,
}

/// Replays the trace as often as is asked for, or up to `limit` host pages; notes in `replayed` what it was. Which writes
/// are metadata is said to a drive that `takes_hints`.
pub(super) fn replay(
    host: &mut Host<'_>,
    config: &TraceConfig,
    takes_hints: bool,
    limit: Option<u64>,
    replayed: &mut Replayed,
) -> Result<(), Stop> {
    let is_open_loop = config.pacing == PacingName::Open;
    let pacing = if is_open_loop { Pacing::Open } else { closed(config.host) };
    let mut options = options(config);
    if options.action.is_none() {
        options.action = trace::recorded_action(path(config), &config.format, &options);
    }
    for repetition in 0..config.repeat {
        let before: u64 = replayed.summary.requests.values().sum();
        host.set_pacing(pacing)?;
        let pass = replay_once(host, config, &options, takes_hints, limit, replayed)?;
        if repetition == 0 {
            trace_notes::add(&mut replayed.summary, config, &options, &pass);
        }
        if limit.is_some_and(|limit| host.phase.pages >= limit) {
            break;
        }
        // A trace without requests has none the next time either.
        let requests: u64 = replayed.summary.requests.values().sum();
        if requests == before {
            let hint = trace_notes::nothing_hint(&replayed.summary);
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
    /// Host pages of them.
    pages: u64,
}

impl Batch {
    fn new(is_open_loop: bool) -> Self {
        let (requests, arrivals) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        Self { requests, arrivals, is_open_loop, pages: 0 }
    }

    fn push(&mut self, host: &Host<'_>, request: Request, arrival: SimTime) {
        self.pages += host.pages_of(&request);
        self.requests.push(request);
        if self.is_open_loop {
            self.arrivals.push(arrival);
        }
    }

    /// Takes a command, which goes to the drive at once if it is none of a single range.
    fn take(&mut self, host: &mut Host<'_>, command: &Assembled) -> Result<(), Stop> {
        if let Some(request) = command.as_request() {
            self.push(host, request, command.arrival);
            return Ok(());
        }
        let pages = command.ranges().iter().map(|range| host.pages_in(range.sectors)).sum();
        self.issue(host)?;
        host.send(&command.command(), self.is_open_loop.then_some(command.arrival), pages)
    }

    /// Takes a write of metadata, which goes to the drive at once, as it has a hint.
    fn take_metadata(&mut self, host: &mut Host<'_>, request: Request, arrival: SimTime) -> Result<(), Stop> {
        let range = Range::new(request.lba, request.sectors);
        let command = Command::Write { range, fua: false, hint: Hint::Metadata };
        let pages = host.pages_of(&request);
        self.issue(host)?;
        host.send(&command, self.is_open_loop.then_some(arrival), pages)
    }

    fn is_full(&self) -> bool {
        self.requests.len() >= BATCH || self.pages >= BATCH_PAGES
    }

    fn issue(&mut self, host: &mut Host<'_>) -> Result<(), Stop> {
        let result = host.issue(&self.requests, &self.arrivals);
        self.requests.clear();
        self.arrivals.clear();
        self.pages = 0;
        result
    }
}

/// Widens what `summary` says of space and time by `record`. An empty request touches nothing.
fn extend(summary: &mut TraceResult, record: &TraceRecord) {
    let from = if let Detail::CopyTo(to) = record.detail { to.max(record.offset) } else { record.offset };
    if record.bytes > 0 {
        summary.span_bytes = summary.span_bytes.max(from.saturating_add(record.bytes));
    }
    summary.duration_ns = summary.duration_ns.max(record.time_ns);
}

fn replay_once(
    host: &mut Host<'_>,
    config: &TraceConfig,
    options: &TraceOptions,
    takes_hints: bool,
    limit: Option<u64>,
    replayed: &mut Replayed,
) -> Result<Pass, Stop> {
    let is_open_loop = config.pacing == PacingName::Open;
    let Replayed { summary, arrivals: waits } = replayed;
    let mut reader = trace::open(path(config), &config.format, options)?;
    let (mut arrived, mut last) = (0, host.queue.finished());
    let mut fitter = Fitter::new(config.fit, config.late, host.drive.sectors(), is_open_loop);
    let start = host.queue.finished();
    let mut batch = Batch::new(is_open_loop);
    let mut assembler = Assembler::new(config.trim_ranges);
    let mut result = Ok(());
    while result.is_ok() {
        let reached = limit.is_some_and(|limit| host.phase.pages + batch.pages >= limit);
        let record = if reached { None } else { reader.next().transpose()? };
        if let Some(command) = assembler.complete_before(record.as_ref()) {
            *summary.requests.entry(command.name().to_owned()).or_default() += 1;
            (arrived, last) = (arrived + 1, last.max(command.arrival));
            result = batch.take(host, &command);
        }
        if let Some(record) = &record
            && result.is_ok()
        {
            let arrival = start + record.time_ns;
            let misfit =
                |error| RunError::Fit { path: config.path.clone(), position: reader.position(), error };
            if Assembler::takes(record) {
                assembler.take(record, arrival, &mut fitter).map_err(misfit)?;
            } else {
                let is_hinted = takes_hints && record.detail == Detail::Metadata;
                for request in fitter.requests(record).map_err(misfit)? {
                    *summary.requests.entry(request.op.name().to_owned()).or_default() += 1;
                    (arrived, last) = (arrived + 1, last.max(arrival));
                    if is_hinted {
                        result = result.and_then(|()| batch.take_metadata(host, request, arrival));
                    } else {
                        batch.push(host, request, arrival);
                    }
                }
            }
            extend(summary, record);
        }
        if result.is_ok() && (batch.is_full() || record.is_none()) {
            result = batch.issue(host);
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
    let first_time_ns = reader.first_time_ns();
    result.map(|()| Pass { requests: arrived, first_time_ns, files: reader.files().len() })
}
