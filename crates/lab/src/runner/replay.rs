//! Replays a trace:
//!
//! 1. Fit each record to the drive.
//! 2. Join the ranges of a command ([`Assembler`]), and batch single requests.
//! 3. Issue at the arrival times, or in closed loop.
//! 4. Wait for completions, and repeat.

use std::collections::BTreeMap;
use std::path::Path;

use strobe_ssd::{Command, DataTag, Hint, Pacing, Range};
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

const STDIN: &str = "/dev/stdin";

pub(super) fn open_trace(config: &TraceConfig) -> Result<TraceReader, TraceError> {
    trace::open(path(config), &config.format, &options(config))
}

pub(super) fn open_resolved(config: &TraceConfig) -> Result<TraceReader, TraceError> {
    trace::open(path(config), &config.format, &resolved(config))
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

fn resolved(config: &TraceConfig) -> TraceOptions {
    let mut options = options(config);
    if options.action.is_none() {
        options.action = trace::recorded_action(path(config), &config.format, &options);
    }
    options
}

#[derive(Default)]
pub(super) struct Replayed {
    pub(super) summary: TraceResult,
    /// Arrivals and lag, in open loop.
    pub(super) arrivals: Option<Arrivals>,
}

/// Replays all repetitions, or until the phase has reached its host pages. Adds the issued requests to
/// `replayed`. If `takes_hints`, writes of metadata carry a hint.
pub(super) fn replay(
    host: &mut Host<'_>,
    config: &TraceConfig,
    takes_hints: bool,
    replayed: &mut Replayed,
) -> Result<(), Stop> {
    let is_open_loop = config.pacing == PacingName::Open;
    let pacing = if is_open_loop { Pacing::Open } else { closed(config.host) };
    let options = resolved(config);
    for repetition in 0..config.repeat {
        let before: u64 = replayed.summary.requests.values().sum();
        // This also waits for the requests of the repetition before.
        host.set_pacing(pacing)?;
        let pass = replay_once(host, config, &options, takes_hints, replayed)?;
        if repetition == 0 {
            trace_notes::add(&mut replayed.summary, config, &options, &pass);
        }
        if host.is_reached() {
            break;
        }
        let requests: u64 = replayed.summary.requests.values().sum();
        // Nothing in the first pass is an empty trace; nothing in a later one is a pipe that was already
        // read.
        if requests == before {
            let hint = trace_notes::nothing_hint(&replayed.summary);
            return Err(RunError::EmptyTrace { path: config.path.clone(), hint }.into());
        }
        replayed.summary.repetitions += 1;
    }
    Ok(())
}

struct Batch {
    requests: Vec<Request>,
    arrivals: Vec<SimTime>,
    is_open_loop: bool,
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

    fn take(&mut self, host: &mut Host<'_>, command: &Assembled, sent: &mut Sent) -> Result<(), Stop> {
        if let Some(request) = command.as_request() {
            self.push(request, command.arrival);
            return Ok(());
        }
        self.send(host, (command.name(), &command.command()), command.arrival, sent)
    }

    /// Sends a write of metadata by itself, because requests of a batch carry no hint.
    fn take_metadata(
        &mut self,
        host: &mut Host<'_>,
        request: Request,
        arrival: SimTime,
        sent: &mut Sent,
    ) -> Result<(), Stop> {
        let range = Range::new(request.lba, request.sectors);
        let tag = DataTag { hint: Hint::Metadata, handle: request.handle };
        let command = Command::Write { range, fua: false, tag };
        self.send(host, (request.op.name(), &command), arrival, sent)
    }

    fn send(
        &mut self,
        host: &mut Host<'_>,
        (kind, command): (&str, &Command<'_>),
        arrival: SimTime,
        sent: &mut Sent,
    ) -> Result<(), Stop> {
        self.issue(host, sent)?;
        if host.send(command, self.is_open_loop.then_some(arrival))? {
            sent.count(kind, arrival);
        }
        Ok(())
    }

    fn is_full(&self, host: &Host<'_>) -> bool {
        let pages = self.sectors >> host.drive.geometry().unit_shift();
        self.requests.len() >= BATCH || pages >= BATCH_PAGES
    }

    fn issue(&mut self, host: &mut Host<'_>, sent: &mut Sent) -> Result<(), Stop> {
        let result = host.issue(&self.requests, &self.arrivals);
        let issued = *result.as_ref().unwrap_or(&0);
        for (at, request) in self.requests[..issued].iter().enumerate() {
            sent.count(request.op.name(), self.arrivals.get(at).copied().unwrap_or(SimTime::ZERO));
        }
        self.requests.clear();
        self.arrivals.clear();
        self.sectors = 0;
        result.map(drop)
    }
}

struct Sent {
    by_kind: BTreeMap<String, u64>,
    requests: u64,
    last_arrival: SimTime,
}

impl Sent {
    fn count(&mut self, kind: &str, arrival: SimTime) {
        match self.by_kind.get_mut(kind) {
            Some(count) => *count += 1,
            None => drop(self.by_kind.insert(kind.to_owned(), 1)),
        }
        self.requests += 1;
        self.last_arrival = self.last_arrival.max(arrival);
    }
}

/// Extends span and duration by `record`. An empty request touches no bytes.
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
    replayed: &mut Replayed,
) -> Result<Pass, Stop> {
    let is_open_loop = config.pacing == PacingName::Open;
    let Replayed { summary, arrivals: waits } = replayed;
    let mut reader = trace::open(path(config), &config.format, options)?;
    let start = host.now();
    let mut sent = Sent { by_kind: BTreeMap::new(), requests: 0, last_arrival: start };
    let mut fitter = Fitter::new(config.fit, config.late, host.drive.sectors(), is_open_loop);
    let mut batch = Batch::new(is_open_loop);
    let mut assembler = Assembler::new(config.trim_ranges);
    let mut result = Ok(());
    while result.is_ok() && !host.is_reached() {
        // The drive must see the order of the trace: first the requests of the batch, then the assembled
        // command, then the record that completed it.
        let record = reader.next().transpose()?;
        if let Some(command) = assembler.complete_before(record.as_ref()) {
            result = batch.take(host, &command, &mut sent);
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
                    let request = request.placed(config.host.placement_handle);
                    if is_hinted {
                        result = result.and_then(|()| batch.take_metadata(host, request, arrival, &mut sent));
                    } else {
                        batch.push(request, arrival);
                    }
                }
            }
            extend(summary, record);
        }
        if result.is_ok() && (batch.is_full(host) || record.is_none()) {
            result = batch.issue(host, &mut sent);
        }
        if record.is_none() {
            break;
        }
    }
    let Sent { by_kind, requests, last_arrival } = sent;
    for (kind, count) in by_kind {
        *summary.requests.entry(kind).or_default() += count;
    }
    for (reason, count) in reader.skipped().iter() {
        *summary.skipped.entry(reason.name().to_owned()).or_default() += count;
    }
    summary.changes = summary.changes.and(&fitter.changes);
    result = result.and_then(|()| host.finish_phase());
    if is_open_loop {
        waits.get_or_insert_default().add(requests, start, last_arrival, host.now());
    }
    let first_time_ns = reader.first_time_ns();
    result.map(|()| Pass { requests, first_time_ns, files: reader.files().len() })
}
