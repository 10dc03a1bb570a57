//! Event log: operations of flash, commands of the host and decisions of the mapping scheme, as they happen.
//!
//! [`EventLog`] is a handle that the flash and all that is built on it share, as they share a
//! [`StopFlag`](strobe_types::StopFlag). One that is off costs a look at a pointer where an operation begins or ends.
//! One that is on collects [`Event`]s in memory; files are made of them elsewhere.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strobe_types::{Place, SimTime};

use crate::{Cause, NandOp};

/// Flash operation in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashOp {
    /// Number of the operation, in the order of issue within the log, from 0.
    pub number: u64,
    /// Kind of operation.
    pub op: NandOp,
    /// Cause under which it is counted.
    pub cause: Cause,
    /// Die.
    pub die: u32,
    /// Plane within the die.
    pub plane: u32,
    /// Block.
    pub block: u32,
    /// Page within the block; 0 for an erase.
    pub page: u32,
    /// Number of the host command that was being served at its issue, if one was.
    pub command: Option<u64>,
    /// Time of its issue.
    pub issued: SimTime,
}

/// Host command in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCommand {
    /// Number of the command, in the order of submission within the log, from 0.
    pub number: u64,
    /// Tag that the host gave it.
    pub tag: u64,
    /// Name of its kind.
    pub kind: &'static str,
    /// First sector of its first range.
    pub lba: u64,
    /// Sectors of all its ranges.
    pub sectors: u64,
    /// Time of its submission.
    pub issued: SimTime,
}

/// Block that a victim policy has considered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Block.
    pub block: u32,
    /// Valid units in it.
    pub valid_units: u32,
    /// Score that the policy gives it; the highest is chosen. `None` if the policy has no score.
    pub score: Option<f64>,
}

/// Happening in a drive.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// A host command has been submitted.
    Submitted(HostCommand),
    /// A host command is complete; the flag is true if it was refused or could not be read.
    Completed(HostCommand, bool),
    /// A die begins a flash operation.
    FlashBegin(FlashOp),
    /// A flash operation is complete.
    FlashEnd(FlashOp),
    /// A program or erase is suspended for a read.
    Suspended(FlashOp),
    /// The die begins to resume it.
    Resumed(FlashOp),
    /// The bus of a channel begins a transfer.
    Transfer {
        /// Channel.
        channel: u32,
        /// Die at the other end.
        die: u32,
        /// Content: `command`, `data-in` or `data-out`.
        carries: &'static str,
        /// End of the transfer.
        until: SimTime,
    },
    /// A victim has been chosen.
    Victim {
        /// The victim.
        chosen: Candidate,
        /// The block with the next best score, where the policy tells.
        runner_up: Option<Candidate>,
        /// Mapping units of a block.
        units_per_block: u32,
        /// Erased blocks at that time.
        erased_blocks: u32,
    },
    /// A block has been opened.
    Opened {
        /// Block.
        block: u32,
        /// Name of the stream that fills it.
        stream: &'static str,
        /// Number of that stream.
        stream_number: u32,
        /// Erased blocks left.
        erased_blocks: u32,
    },
    /// A block is full.
    Closed {
        /// Block.
        block: u32,
        /// Valid units in it.
        valid_units: u32,
    },
    /// A block has been erased and is at hand. The flash operation has events of its own.
    Erased {
        /// Block.
        block: u32,
        /// Erased blocks, this one included.
        erased_blocks: u32,
    },
    /// A block has gone out of service.
    Retired {
        /// Block.
        block: u32,
    },
    /// A host command begins to wait for room in a cache or for erased blocks.
    ThrottleOn {
        /// Number of the command.
        command: u64,
        /// Scarce resource: `erased-blocks`, `write-buffer` or `nonvolatile-cache`.
        waits_for: &'static str,
        /// Erased blocks at that time.
        erased_blocks: u32,
    },
    /// A host command that waited goes on.
    ThrottleOff {
        /// Number of the command.
        command: u64,
        /// Time for which it waited, in ns.
        waited_ns: u64,
    },
    /// An epoch of the map's journal has ended: changes so far are on their way to flash.
    EpochEnded {
        /// Number of the epoch.
        epoch: u64,
        /// Changes in it.
        changes: u64,
    },
    /// Power has been cut; operations and commands in flight end here.
    PowerCut,
}

/// Event and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Time at which it happens.
    pub at: SimTime,
    /// The event.
    pub kind: EventKind,
}

/// Events of a log that has ended.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Begin of the log.
    pub from: SimTime,
    /// End of the log, or the time of the last event of a log that was full.
    pub until: SimTime,
    /// Events by time; of equal ones the first known first.
    pub events: Vec<Event>,
    /// Flash operations issued within the log that no die had begun when it ended.
    pub pending: Vec<FlashOp>,
    /// True if the log was full and events are missing after `until`.
    pub is_cut_off: bool,
}

/// Events so far, and what is in flight.
#[derive(Debug)]
struct Collected {
    is_open: bool,
    most: usize,
    recorded: Recorded,
    /// Cause of the operations that are issued now.
    cause: Cause,
    /// Number of the command that is being served.
    command: Option<u64>,
    operations: u64,
    commands: u64,
    /// Operations in flight by slot, with whether they have begun; `None` if issued before the log began.
    ops: Vec<Option<(FlashOp, bool)>>,
    /// Commands in flight by slot.
    hosts: Vec<Option<HostCommand>>,
}

/// Handle of a log of events, shared by all layers of a drive. [`EventLog::default`] is off.
#[derive(Clone, Debug, Default)]
pub struct EventLog(Option<Arc<Mutex<Collected>>>);

impl EventLog {
    /// A log that is off.
    pub const OFF: Self = Self(None);

    /// Events that a log takes before it is full, unless told otherwise.
    pub const MOST: usize = 2_000_000;

    /// A log of no more than `most` events. It takes none before [`EventLog::open`].
    pub fn new(most: usize) -> Self {
        Self(Some(Arc::new(Mutex::new(Collected {
            is_open: false,
            most,
            recorded: Recorded::default(),
            cause: Cause::Host,
            command: None,
            operations: 0,
            commands: 0,
            ops: Vec::new(),
            hosts: Vec::new(),
        }))))
    }

    /// True if there is a log.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    fn collected(&self) -> Option<MutexGuard<'_, Collected>> {
        Some(self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins to take events, at `now`.
    pub fn open(&self, now: SimTime) {
        let Some(mut log) = self.collected() else { return };
        (log.is_open, log.recorded.from) = (true, now);
    }

    /// Takes no more events, from `now` on.
    pub fn close(&self, now: SimTime) {
        let Some(mut log) = self.collected() else { return };
        if std::mem::take(&mut log.is_open) {
            log.recorded.until = now;
            log.note_pending();
        }
    }

    /// Takes the events out of a log that has been closed.
    pub fn take(&self) -> Recorded {
        let mut recorded =
            self.collected().map(|mut log| std::mem::take(&mut log.recorded)).unwrap_or_default();
        // A completion may be known before its time.
        recorded.events.sort_by_key(|event| event.at);
        recorded
    }

    /// Adds an event at `at`.
    #[inline(always)]
    pub fn add(&self, at: SimTime, kind: impl FnOnce() -> EventKind) {
        if self.is_on() {
            self.add_known(at, kind());
        }
    }

    #[cold]
    fn add_known(&self, at: SimTime, kind: EventKind) {
        if let Some(mut log) = self.collected() {
            log.add(at, kind);
        }
    }

    /// Sets the cause of the flash operations that are issued next.
    #[inline(always)]
    pub(crate) fn set_cause(&self, cause: Cause) {
        if let Some(mut log) = self.collected() {
            log.cause = cause;
        }
    }

    /// Notes that `op` at `place` is issued at `now` as operation `slot` of the timing model.
    #[cold]
    pub(crate) fn flash_issued(&self, now: SimTime, slot: u32, op: NandOp, place: &Place) {
        let Some(mut log) = self.collected() else { return };
        let issued = FlashOp {
            number: log.operations,
            op,
            cause: log.cause,
            die: place.die.get(),
            plane: place.plane,
            block: place.block.get(),
            page: place.page,
            command: log.command,
            issued: now,
        };
        log.operations += 1;
        if log.is_open {
            put(&mut log.ops, slot, (issued, false));
        }
    }

    /// Adds the event that `kind` makes of operation `slot`, unless it was issued before the log began.
    #[cold]
    pub(crate) fn flash(&self, now: SimTime, slot: u32, kind: fn(FlashOp) -> EventKind) {
        let Some(mut log) = self.collected() else { return };
        if let Some(Some((op, has_begun))) = log.ops.get_mut(slot as usize) {
            *has_begun = true;
            let kind = kind(*op);
            log.add(now, kind);
        }
    }

    /// Adds the end of operation `slot`; the slot may be used again.
    #[cold]
    pub(crate) fn flash_ended(&self, now: SimTime, slot: u32) {
        self.flash(now, slot, EventKind::FlashEnd);
        if let Some(mut log) = self.collected()
            && let Some(op) = log.ops.get_mut(slot as usize)
        {
            *op = None;
        }
    }

    /// Adds the submission of `command`, which the drive keeps in `slot`. Its number is given here.
    #[cold]
    pub fn submitted(&self, slot: u32, command: HostCommand) {
        let Some(mut log) = self.collected() else { return };
        let command = HostCommand { number: log.commands, ..command };
        log.commands += 1;
        put(&mut log.hosts, slot, command);
        log.add(command.issued, EventKind::Submitted(command));
    }

    /// Sets the command that is served from now on to the one in `slot`, or to none.
    #[inline(always)]
    pub fn serve(&self, slot: Option<u32>) {
        if let Some(mut log) = self.collected() {
            log.command = slot.and_then(|slot| log.number_of(slot));
        }
    }

    /// Number of the command in `slot`, if it was submitted within the log.
    pub fn command(&self, slot: u32) -> Option<u64> {
        self.collected()?.number_of(slot)
    }

    /// Adds the completion of the command in `slot`; `known` has what the drive still knows of it.
    #[cold]
    pub fn completed(&self, at: SimTime, slot: u32, known: HostCommand, has_failed: bool) {
        let Some(mut log) = self.collected() else { return };
        let command = match log.hosts.get_mut(slot as usize).and_then(Option::take) {
            Some(command) => command,
            None => {
                log.commands += 1;
                HostCommand { number: log.commands - 1, ..known }
            }
        };
        log.add(at, EventKind::Completed(command, has_failed));
    }

    /// Adds a power cut at `now`, which ends all that is in flight.
    pub fn power_cut(&self, now: SimTime) {
        let Some(mut log) = self.collected() else { return };
        log.ops.clear();
        log.hosts.clear();
        log.command = None;
        log.add(now, EventKind::PowerCut);
    }
}

impl Collected {
    fn add(&mut self, at: SimTime, kind: EventKind) {
        if !self.is_open {
            return;
        }
        if self.recorded.events.len() < self.most {
            self.recorded.events.push(Event { at, kind });
            return;
        }
        self.recorded.is_cut_off = true;
        self.recorded.until = self.recorded.events.iter().map(|event| event.at).max().unwrap_or(at);
        self.note_pending();
        self.is_open = false;
    }

    fn note_pending(&mut self) {
        let waiting = self.ops.iter().flatten().filter(|(_, has_begun)| !has_begun);
        self.recorded.pending = waiting.map(|(op, _)| *op).collect();
        self.recorded.pending.sort_by_key(|op| op.number);
    }

    fn number_of(&self, slot: u32) -> Option<u64> {
        self.hosts.get(slot as usize)?.as_ref().map(|command| command.number)
    }
}

/// Puts `entry` at `slot`, which may lie behind the end.
fn put<T: Clone>(table: &mut Vec<Option<T>>, slot: u32, entry: T) {
    let slot = slot as usize;
    if table.len() <= slot {
        table.resize(slot + 1, None);
    }
    table[slot] = Some(entry);
}
