//! Replays a trace:
//!
//! 1. Fit each record to the drive.
//! 2. Join the ranges of a command ([`Assembler`]), and batch single requests.
//! 3. Issue at the arrival times, or in closed loop.
//! 4. Begin the measured window after the warm-up ([`TraceWindow`]), without a pause.
//! 5. Wait for completions, and repeat.

use std::path::Path;

use strobe_ssd::{Command, DataTag, Hint, Pacing, Range};
use strobe_types::{Request, SimTime};
use strobe_workload::trace::{
    self, Action, Detail, PlacedDevice, TraceError, TraceOptions, TraceReader, TraceRecord,
};

use super::assemble::{Assembled, Assembler};
use super::host::{BATCH, BATCH_PAGES, Host, Stop, closed};
use super::trace_notes::{self, Pass};
use super::trace_window::{TraceWindow, extent};
use crate::RunError;
use crate::experiment::{PacingName, RunConfig, TraceConfig};
use crate::fit::Fitter;
use crate::lifetime::EndedBy;
use crate::result::TraceResult;
use crate::verdict::{Arrivals, Outstanding};

const STDIN: &str = "/dev/stdin";

pub(super) fn open_trace(config: &TraceConfig) -> Result<TraceReader, TraceError> {
    trace::open(path(config), &config.format, &options(config))
}

/// Checks the options of a trace that cannot be opened yet, because it is a pipe.
pub(super) fn check_options(config: &TraceConfig) -> Result<(), TraceError> {
    trace::check_options(&config.format, &options(config))
}

pub(super) fn open_resolved(config: &TraceConfig) -> Result<TraceReader, TraceError> {
    trace::open(path(config), &config.format, &resolved(config))
}

fn path(config: &TraceConfig) -> &Path {
    Path::new(if config.path == "-" { STDIN } else { &config.path })
}

fn options(config: &TraceConfig) -> TraceOptions {
    TraceOptions {
        device: config.device.as_ref().and_then(|devices| devices.only().map(str::to_owned)),
        placed: config.device.iter().flat_map(|devices| devices.placed()).map(placed).collect(),
        skip: extent(config.skip),
        take: extent(config.take),
        columns: config.columns.clone(),
        action: config.action.as_deref().and_then(Action::from_letter),
        time_unit_ns: config.time_unit_ns,
    }
}

fn placed((name, offset): (&str, u64)) -> PlacedDevice {
    PlacedDevice { name: name.to_owned(), offset }
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

/// Replays all repetitions, or until the measured window ends. Adds the issued requests to `replayed`. If
/// `takes_hints`, writes of metadata carry a hint.
pub(super) fn replay(
    host: &mut Host<'_>,
    config: &TraceConfig,
    run: &RunConfig,
    takes_hints: bool,
    replayed: &mut Replayed,
) -> Result<EndedBy, Stop> {
    let is_open_loop = config.pacing == PacingName::Open;
    let pacing = if is_open_loop { Pacing::Open } else { closed(config.host) };
    let options = resolved(config);
    let mut replay = Replay {
        config,
        takes_hints,
        is_open_loop,
        window: TraceWindow::new(run),
        batch: Batch::default(),
        sent: Sent::default(),
        replayed,
        host,
    };
    replay.begin()?;
    for repetition in 0..config.repeat {
        if replay.is_over(0) && replay.turn(0)? {
            return Ok(EndedBy::Measure);
        }
        // This also waits for the requests of the repetition before.
        replay.host.set_pacing(pacing)?;
        let pass = replay.pass(&options)?;
        let summary = &mut replay.replayed.summary;
        if repetition == 0 {
            trace_notes::add(summary, config, &options, &pass);
        }
        if !pass.is_complete {
            return Ok(EndedBy::Measure);
        }
        // Nothing in the first pass is an empty trace; nothing in a later one is a pipe that was already
        // read.
        if pass.requests == 0 {
            let hint = trace_notes::nothing_hint(summary, pass.first_time_ns.is_none());
            return Err(RunError::EmptyTrace { path: config.path.clone(), hint }.into());
        }
        summary.repetitions += 1;
    }
    replay.end()
}

#[derive(Default)]
struct Batch {
    requests: Vec<Request>,
    arrivals: Vec<SimTime>,
    sectors: u64,
}

impl Batch {
    fn push(&mut self, request: Request, arrival: Option<SimTime>) {
        self.sectors += u64::from(request.sectors);
        self.requests.push(request);
        self.arrivals.extend(arrival);
    }

    fn is_full(&self, host: &Host<'_>) -> bool {
        let pages = self.sectors >> host.drive.geometry().unit_shift();
        self.requests.len() >= BATCH || pages >= BATCH_PAGES
    }

    fn remove(&mut self, issued: usize) {
        self.requests.drain(..issued);
        self.arrivals.drain(..issued.min(self.arrivals.len()));
        self.sectors = self.requests.iter().map(|request| u64::from(request.sectors)).sum();
    }
}

/// Requests sent since the beginning of the pass or of the window, whichever came last.
#[derive(Default)]
struct Sent {
    start: SimTime,
    requests: u64,
    last_arrival: SimTime,
}

/// Extends span and duration by `record`. An empty request touches no bytes.
fn extend(summary: &mut TraceResult, record: &TraceRecord) {
    let from = if let Detail::CopyTo(to) = record.detail { to.max(record.offset) } else { record.offset };
    if record.bytes > 0 {
        summary.span_bytes = summary.span_bytes.max(from.saturating_add(record.bytes));
    }
    summary.duration_ns = summary.duration_ns.max(record.time_ns);
}

struct Replay<'r, 'a> {
    host: &'r mut Host<'a>,
    config: &'r TraceConfig,
    takes_hints: bool,
    is_open_loop: bool,
    window: TraceWindow,
    batch: Batch,
    sent: Sent,
    replayed: &'r mut Replayed,
}

impl Replay<'_, '_> {
    fn begin(&mut self) -> Result<(), Stop> {
        let Some(warmup) = self.window.warmup() else { return self.begin_measuring(0) };
        let now = self.host.now();
        self.host.begin("warm-up", warmup.pages(self.host.drive.logical_units()));
        self.host.begin_intervals(now, self.host.queue.in_flight() as u32);
        Ok(())
    }

    /// Begins the window before a request at `time_ns` of the pass. Earlier requests stay outstanding.
    fn begin_measuring(&mut self, time_ns: u64) -> Result<(), Stop> {
        self.window.begin_measuring(time_ns);
        let units = self.host.drive.logical_units();
        self.host.measure_from_now(self.window.measure().and_then(|amount| amount.pages(units)))?;
        self.replayed.summary.warmup_requests = self.replayed.summary.requests.values().sum();
        // Only arrivals of the window count as load.
        self.replayed.arrivals = None;
        self.sent = Sent { start: self.host.now(), requests: 0, last_arrival: self.host.now() };
        Ok(())
    }

    /// Ends the phase before a request at `time_ns` of the pass; true if it was the last phase.
    fn turn(&mut self, time_ns: u64) -> Result<bool, Stop> {
        if self.window.is_measuring {
            return Ok(true);
        }
        self.begin_measuring(time_ns)?;
        // A window of length 0 ends at once.
        Ok(self.window.is_over(time_ns))
    }

    /// Handles the end of the last pass.
    fn end(&mut self) -> Result<EndedBy, Stop> {
        if self.window.is_measuring && self.is_over(0) {
            return Ok(EndedBy::Measure);
        }
        // The warm-up may be exactly as long as the trace, but nothing is left to measure.
        let is_empty = !self.window.is_measuring || self.window.has_covered_nothing();
        if let Some(warmup) = self.window.warmup().filter(|_| is_empty) {
            let covered = self.window.covered();
            return Err(RunError::TraceInWarmUp { warmup: warmup.to_string(), covered }.into());
        }
        if let Some(measure) = self.window.measure() {
            let covered = self.window.covered();
            let note = format!("the trace ended before run.measure = {measure}: the window has {covered}");
            self.replayed.summary.notes.push(note);
        }
        Ok(EndedBy::Trace)
    }

    fn pass(&mut self, options: &TraceOptions) -> Result<Pass, Stop> {
        let mut reader = trace::open(path(self.config), &self.config.format, options)?;
        let start = self.host.now();
        self.sent = Sent { start, requests: 0, last_arrival: start };
        let before: u64 = self.replayed.summary.requests.values().sum();
        let sectors = self.host.drive.sectors();
        let mut fitter = Fitter::new(self.config.fit, self.config.late, sectors, self.is_open_loop);
        let mut times = Times::default();
        let result = self.records(&mut reader, &mut fitter, start, &mut times);
        let summary = &mut self.replayed.summary;
        for (reason, count) in reader.skipped().iter() {
            *summary.skipped.entry(reason.name().to_owned()).or_default() += count;
        }
        summary.changes = summary.changes.and(&fitter.changes);
        let requests = summary.requests.values().sum::<u64>() - before;
        // A window that ends within the trace ends without a pause.
        let result = match result {
            Ok(true) => self.host.finish_phase().map(|()| true),
            other => other,
        };
        let Sent { start, requests: of_window, last_arrival } = self.sent;
        if self.is_open_loop {
            let arrivals = self.replayed.arrivals.get_or_insert_default();
            let now = self.host.now();
            let oldest = Outstanding::of(&*self.host.drive, now).map_or(0, |oldest| oldest.oldest_ns);
            arrivals.add(of_window, start, last_arrival, now + oldest);
        }
        let is_complete = result?;
        self.window.end_pass(times.last_ns);
        Ok(Pass {
            requests,
            first_time_ns: reader.first_time_ns(),
            files: reader.files().len(),
            has_whole_seconds: times.has_whole_seconds(),
            has_whole_part: !is_complete || reader.has_whole_part(),
            overlapping: reader.overlapping(),
            overlaps: reader.overlaps(),
            is_complete,
        })
    }

    /// Replays the records of `reader`; false if the window ended before the trace.
    fn records(
        &mut self,
        reader: &mut TraceReader,
        fitter: &mut Fitter,
        start: SimTime,
        times: &mut Times,
    ) -> Result<bool, Stop> {
        let config = self.config;
        let mut assembler = Assembler::new(config.trim_ranges);
        loop {
            // The drive must see the order of the trace: first the requests of the batch, then the assembled
            // command, then the record that completed it.
            let record = reader.next().transpose()?;
            // A command of several ranges is never divided, and joined trims end with the phase.
            let is_first = record.is_some_and(|record| record.detail != Detail::More);
            let ends = is_first && record.is_some_and(|record| self.window.is_over(record.time_ns));
            if let Some(command) = assembler.complete_before(record.as_ref().filter(|_| !ends))
                && !self.take(&command, times.last_ns)?
            {
                return Ok(false);
            }
            let Some(record) = record else { return self.issue(times.last_ns) };
            if is_first && !self.reach(start, record.time_ns)? {
                return Ok(false);
            }
            times.add(record.time_ns);
            let arrival = start + scaled(record.time_ns, config.speed);
            let misfit = |error| RunError::Fit {
                path: config.path.clone(),
                position: TraceReader::position(reader),
                error,
            };
            if Assembler::takes(&record) {
                assembler.take(&record, arrival, fitter).map_err(misfit)?;
            } else {
                let is_hinted = self.takes_hints && record.detail == Detail::Metadata;
                for request in fitter.requests(&record).map_err(misfit)? {
                    let request = request.placed(config.host.placement_handle);
                    if !is_hinted {
                        self.batch.push(request, self.is_open_loop.then_some(arrival));
                    } else if !self.take_metadata(request, arrival, record.time_ns)? {
                        return Ok(false);
                    }
                }
            }
            extend(&mut self.replayed.summary, &record);
            // The end of a warm-up in host pages decides which request is the first of the window.
            let is_due = self.batch.is_full(self.host) || self.window.warms_up_by_pages();
            if is_due && !self.issue(record.time_ns)? {
                return Ok(false);
            }
            self.window.count(&record);
        }
    }

    /// Ends the phase if it is over before a request at `time_ns` of a pass that began at `start`; false if that
    /// ended the window.
    fn reach(&mut self, start: SimTime, time_ns: u64) -> Result<bool, Stop> {
        if self.window.is_over(time_ns) && !self.issue(time_ns)? {
            return Ok(false);
        }
        // A phase of a length in time ends at that time, not at the request before.
        while let Some(end_ns) = self.window.end_ns().filter(|&end_ns| end_ns <= time_ns) {
            if self.is_open_loop {
                self.host.pass_time(start + scaled(end_ns, self.config.speed))?;
            }
            if self.turn(end_ns)? {
                return Ok(false);
            }
        }
        Ok(!self.is_over(time_ns) || !self.turn(time_ns)?)
    }

    fn is_over(&self, time_ns: u64) -> bool {
        self.window.is_over(time_ns) || self.host.is_reached()
    }

    fn take(&mut self, command: &Assembled, time_ns: u64) -> Result<bool, Stop> {
        if let Some(request) = command.as_request() {
            self.batch.push(request, self.is_open_loop.then_some(command.arrival));
            return Ok(true);
        }
        self.send((command.name(), &command.command()), command.arrival, time_ns)
    }

    /// Sends a write of metadata by itself, because requests of a batch carry no hint.
    fn take_metadata(&mut self, request: Request, arrival: SimTime, time_ns: u64) -> Result<bool, Stop> {
        let range = Range::new(request.lba, request.sectors);
        let tag = DataTag { hint: Hint::Metadata, handle: request.handle };
        let command = Command::Write { range, fua: false, tag };
        self.send((request.op.name(), &command), arrival, time_ns)
    }

    fn send(
        &mut self,
        (kind, command): (&'static str, &Command<'_>),
        arrival: SimTime,
        time_ns: u64,
    ) -> Result<bool, Stop> {
        if !self.issue(time_ns)? {
            return Ok(false);
        }
        // Completions before the command is due may end the warm-up.
        while !self.host.send(command, self.is_open_loop.then_some(arrival))? {
            if self.turn(time_ns)? {
                return Ok(false);
            }
        }
        self.count(kind, arrival);
        Ok(true)
    }

    /// Issues the batch; false if that ended the window. If a warm-up in host pages ends within the batch, the
    /// rest is measured.
    fn issue(&mut self, time_ns: u64) -> Result<bool, Stop> {
        loop {
            let result = self.host.issue(&self.batch.requests, &self.batch.arrivals);
            let issued = *result.as_ref().unwrap_or(&0);
            for at in 0..issued {
                let arrival = self.batch.arrivals.get(at).copied().unwrap_or(SimTime::ZERO);
                self.count(self.batch.requests[at].op.name(), arrival);
            }
            self.batch.remove(issued);
            result?;
            let warms_up = !self.window.is_measuring;
            if !self.host.is_reached() || warms_up && self.batch.requests.is_empty() {
                return Ok(true);
            }
            if self.turn(time_ns)? {
                return Ok(false);
            }
        }
    }

    fn count(&mut self, kind: &'static str, arrival: SimTime) {
        let by_kind = &mut self.replayed.summary.requests;
        match by_kind.get_mut(kind) {
            Some(count) => *count += 1,
            None => drop(by_kind.insert(kind.to_owned(), 1)),
        }
        self.sent.requests += 1;
        self.sent.last_arrival = self.sent.last_arrival.max(arrival);
    }
}

/// Time of the trace in virtual time.
fn scaled(time_ns: u64, speed: Option<f64>) -> u64 {
    speed.map_or(time_ns, |speed| (time_ns as f64 / speed).round() as u64)
}

/// Times of a pass.
#[derive(Default)]
struct Times {
    last_ns: u64,
    records: u64,
    /// True if a time is between two whole seconds.
    has_fractions: bool,
}

impl Times {
    fn add(&mut self, time_ns: u64) {
        self.last_ns = self.last_ns.max(time_ns);
        self.records += 1;
        self.has_fractions |= !time_ns.is_multiple_of(1_000_000_000);
    }

    /// True if several requests share each second, because the trace has no smaller unit.
    fn has_whole_seconds(&self) -> bool {
        let seconds = self.last_ns / 1_000_000_000;
        !self.has_fractions && seconds > 0 && self.records > 10 * seconds
    }
}
