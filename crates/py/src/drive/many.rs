//! Drive operations of more than one step: many commands, and passing time.

use std::ops::ControlFlow;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use strobe_ssd::{Command, CommandError, Completion, HostQueue, Pacing};
use strobe_types::SimTime;

use super::Inner;
use crate::arrays::Requests;
use crate::errors;
use crate::watch::Watcher;

/// Requests submitted between two checks for Python's signals.
const BATCH: usize = 4096;

/// Executes a command on an idle drive. Returns its completion time, in ns.
pub(super) fn wait(inner: &mut Inner, command: &Command<'_>, data: Option<&[u8]>) -> PyResult<u64> {
    inner.drive.submit(inner.now, inner.tag, command, data);
    let mut done: Vec<Completion> = Vec::new();
    let mut until = inner.now;
    loop {
        inner.drive.advance(until, &mut done);
        if let Some(Completion { at, result, .. }) = done.pop() {
            result.map_err(errors::command)?;
            inner.now = at;
            return Ok(at.as_ns());
        }
        until = inner.drive.next_event().unwrap_or(until);
    }
}

/// Advances to `until`; if `None`, until all commands are complete.
pub(super) fn advance(inner: &mut Inner, until: Option<SimTime>) -> PyResult<Vec<Completion>> {
    let mut done = Vec::new();
    match until {
        Some(until) if until < inner.now => {
            let text = format!("until={}; the time is already {}", until.as_ns(), inner.now.as_ns());
            return Err(PyValueError::new_err(text));
        }
        Some(until) => {
            inner.drive.advance(until, &mut done);
            inner.now = until;
        }
        None => {
            while inner.drive.outstanding() > 0
                && let Some(next) = inner.drive.next_event()
            {
                inner.now = inner.now.max(next);
                inner.drive.advance(inner.now, &mut done);
            }
        }
    }
    Ok(done)
}

/// Returns the time of the last completion, in ns.
pub(super) fn run(
    inner: &mut Inner,
    requests: &Requests,
    pacing: Pacing,
    watcher: &mut Watcher,
) -> PyResult<u64> {
    if inner.drive.outstanding() > 0 {
        return Err(errors::command(CommandError::Busy(inner.drive.outstanding())));
    }
    let start = inner.now;
    let mut queue = HostQueue::new(pacing, start);
    let (mut batch, mut arrivals) = (Vec::with_capacity(BATCH), Vec::new());
    let mut result = Ok(());
    let mut next = 0;
    while next < requests.len && result.is_ok() {
        let end = requests.len.min(next + BATCH);
        batch.clear();
        arrivals.clear();
        for at in next..end {
            match requests.get(at).and_then(|request| Ok((request, requests.arrival_ns(at)?))) {
                Ok((request, arrival_ns)) => {
                    batch.push(request);
                    if requests.has_arrivals() {
                        arrivals.push(start + arrival_ns);
                    }
                }
                Err(text) => {
                    result = Err(PyValueError::new_err(text));
                    break;
                }
            }
        }
        // An invalid request ends the batch. The requests before it are issued nevertheless.
        let issued = inner.drive.issue(&batch, &arrivals, &mut queue);
        let issued = issued.map_err(|(at, error)| {
            errors::raised::CommandError::new_err(format!("request {}: {error}", next + at))
        });
        result = issued.and(result);
        // Between two batches, Ctrl-C or a Python exception may end the run.
        if watcher.poll(None) == ControlFlow::Break(()) {
            break;
        }
        next = end;
    }
    // Issued requests are always completed, even after an error.
    while queue.in_flight() > 0 {
        let finished = queue.finish(&mut *inner.drive).map_err(errors::command);
        result = result.and(finished);
    }
    inner.now = inner.now.max(queue.finished());
    result.map(|()| inner.now.as_ns())
}
