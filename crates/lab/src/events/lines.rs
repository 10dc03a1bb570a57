use std::io::{self, Write};

use serde_json::{Value, json};
use strobe_nand::{Candidate, EventKind, FlashOp, HostCommand};

use super::EventFile;

/// Writes the events to `out`, one JSON object a line, in order of time. The first line is `log_begin`, the
/// last one `log_end`.
pub fn lines(file: EventFile<'_>, out: &mut dyn Write) -> io::Result<()> {
    let recorded = file.recorded;
    let mut line = |at_ns: u64, kind: &str, fields: Value| {
        write!(out, "{{\"t_ns\":{at_ns},\"kind\":\"{kind}\"")?;
        let Value::Object(fields) = fields else { return Ok(()) };
        for (name, value) in fields {
            write!(out, ",\"{name}\":{value}")?;
        }
        out.write_all(b"}\n")
    };
    let version = env!("CARGO_PKG_VERSION");
    line(recorded.from.as_ns(), "log_begin", json!({ "strobe_version": version, "policy": file.policy() }))?;
    for event in &recorded.events {
        let (kind, fields) = fields(&event.kind, file.policy(), event.at.as_ns());
        line(event.at.as_ns(), kind, fields)?;
    }
    let until = recorded.until.as_ns();
    for op in &recorded.pending {
        line(until, "flash_pending", flash(op, until))?;
    }
    line(until, "log_end", json!({ "events": recorded.events.len(), "is_cut_off": recorded.is_cut_off }))
}

pub(super) fn fields(kind: &EventKind, policy: &str, now: u64) -> (&'static str, Value) {
    match *kind {
        EventKind::Submitted(ref command) => ("command_submitted", host(command)),
        EventKind::Completed(ref command, has_failed) => {
            let mut fields = host(command);
            fields["latency_ns"] = now.saturating_sub(command.issued.as_ns()).into();
            fields["has_failed"] = has_failed.into();
            ("command_completed", fields)
        }
        EventKind::FlashBegin(ref op) => ("flash_begin", flash(op, now)),
        EventKind::FlashEnd(ref op) => ("flash_end", flash(op, now)),
        EventKind::Suspended(ref op) => ("flash_suspended", flash(op, now)),
        EventKind::Resumed(ref op) => ("flash_resumed", flash(op, now)),
        EventKind::Transfer { channel, die, carries, until } => {
            let until_ns = until.as_ns();
            ("transfer", json!({ "channel": channel, "die": die, "carries": carries, "until_ns": until_ns }))
        }
        EventKind::Victim { chosen, runner_up, units_per_block, erased_blocks } => {
            ("victim", victim(policy, chosen, runner_up, units_per_block, erased_blocks))
        }
        EventKind::Opened { block, stream, stream_number, erased_blocks } => (
            "block_opened",
            json!({
                "block": block, "stream": stream, "stream_number": stream_number, "erased_blocks": erased_blocks,
            }),
        ),
        EventKind::Closed { block, valid_units } => {
            ("block_closed", json!({ "block": block, "valid_units": valid_units }))
        }
        EventKind::Erased { block, erased_blocks } => {
            ("block_erased", json!({ "block": block, "erased_blocks": erased_blocks }))
        }
        EventKind::Retired { block } => ("block_retired", json!({ "block": block })),
        EventKind::ThrottleOn { command, waits_for, erased_blocks } => (
            "throttle_on",
            json!({ "command": command, "waits_for": waits_for, "erased_blocks": erased_blocks }),
        ),
        EventKind::ThrottleOff { command, waited_ns } => {
            ("throttle_off", json!({ "command": command, "waited_ns": waited_ns }))
        }
        EventKind::EpochEnded { epoch, changes } => {
            ("epoch_ended", json!({ "epoch": epoch, "changes": changes }))
        }
        EventKind::PowerCut => ("power_cut", json!({})),
    }
}

fn host(command: &HostCommand) -> Value {
    json!({
        "command": command.number, "tag": command.tag, "op": command.kind, "lba": command.lba,
        "sectors": command.sectors,
    })
}

fn flash(op: &FlashOp, now: u64) -> Value {
    json!({
        "operation": op.number, "op": op.op.name(), "cause": op.cause.name(), "die": op.die, "plane": op.plane,
        "block": op.block, "page": op.page, "command": op.command,
        "since_issue_ns": now.saturating_sub(op.issued.as_ns()),
    })
}

/// Infinity becomes a string, because JSON has no number for it.
fn score(score: Option<f64>) -> Value {
    match score {
        Some(score) if score.is_infinite() && score > 0.0 => "infinite".into(),
        score => score.into(),
    }
}

fn victim(
    policy: &str,
    chosen: Candidate,
    runner_up: Option<Candidate>,
    units_per_block: u32,
    erased_blocks: u32,
) -> Value {
    let share = |candidate: Candidate| f64::from(candidate.valid_units) / f64::from(units_per_block);
    let runner_up = runner_up.map(|other| {
        json!({
            "block": other.block, "valid_units": other.valid_units, "valid_share": share(other),
            "score": score(other.score),
        })
    });
    json!({
        "block": chosen.block, "valid_units": chosen.valid_units, "valid_share": share(chosen), "policy": policy,
        "score": score(chosen.score), "runner_up": runner_up, "erased_blocks": erased_blocks,
    })
}
