//! Event log: flash operations, host commands and decisions of the mapping scheme. A disabled log costs one
//! pointer check at the begin and end of an operation; an enabled log collects [`Event`]s in memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strobe_types::{Place, SimTime};

use crate::{Cause, NandOp};

/// Flash operation in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashOp {
    /// Number in issue order within the log, from 0.
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
    /// Number of the host command being served at issue, if any.
    pub command: Option<u64>,
    /// Time of its issue.
    pub issued: SimTime,
}

/// Host command in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCommand {
    /// Number in submission order within the log, from 0.
    pub number: u64,
    /// Host's tag.
    pub tag: u64,
    /// Name of the command kind.
    pub kind: &'static str,
    /// First sector of its first range.
    pub lba: u64,
    /// Sectors of all its ranges.
    pub sectors: u64,
    /// Time of its submission.
    pub issued: SimTime,
}

/// Block considered by a victim policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Block.
    pub block: u32,
    /// Valid units in it.
    pub valid_units: u32,
    /// Score by the policy; the highest is chosen. `None` if the policy has no score.
    pub score: Option<f64>,
}

/// Kind of event.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// A host command has been submitted.
    Submitted(HostCommand),
    /// A host command is complete. The flag is true if it was rejected or could not be read.
    Completed(HostCommand, bool),
    /// A die begins a flash operation.
    FlashBegin(FlashOp),
    /// A flash operation is complete.
    FlashEnd(FlashOp),
    /// A program or erase is suspended for a read.
    Suspended(FlashOp),
    /// The die begins to resume a suspended operation.
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
        /// Block with the next best score, if the policy reports it.
        runner_up: Option<Candidate>,
        /// Mapping units of a block.
        units_per_block: u32,
        /// Erased blocks at the choice.
        erased_blocks: u32,
    },
    /// A block has been opened.
    Opened {
        /// Block.
        block: u32,
        /// Name of the stream that writes it.
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
    /// A block has been erased and is available. The flash operation has separate events.
    Erased {
        /// Block.
        block: u32,
        /// Erased blocks, this one included.
        erased_blocks: u32,
    },
    /// A block has been retired.
    Retired {
        /// Block.
        block: u32,
    },
    /// A host command starts to wait for cache space or erased blocks.
    ThrottleOn {
        /// Number of the command.
        command: u64,
        /// Scarce resource: `erased-blocks`, `write-buffer` or `nonvolatile-cache`.
        waits_for: &'static str,
        /// Erased blocks at the start of the wait.
        erased_blocks: u32,
    },
    /// A throttled host command continues.
    ThrottleOff {
        /// Number of the command.
        command: u64,
        /// Waiting time, in ns.
        waited_ns: u64,
    },
    /// A map journal epoch has ended: its changes are on their way to flash.
    EpochEnded {
        /// Number of the epoch.
        epoch: u64,
        /// Changes in it.
        changes: u64,
    },
    /// Power has been cut; in-flight operations and commands end here.
    PowerCut,
}

/// Event and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Time of the event.
    pub at: SimTime,
    /// The event.
    pub kind: EventKind,
}

/// Events of a closed log.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Start of the log.
    pub from: SimTime,
    /// End of the log. For a full log, the time of its last event.
    pub until: SimTime,
    /// Events in time order; ties in the order of recording.
    pub events: Vec<Event>,
    /// Flash operations issued within the log that no die had begun at its end.
    pub pending: Vec<FlashOp>,
    /// True if the log was full and events are missing after `until`.
    pub is_cut_off: bool,
}

#[derive(Debug)]
struct Collected {
    is_open: bool,
    most: usize,
    recorded: Recorded,
    cause: Cause,
    command: Option<u64>,
    operations: u64,
    commands: u64,
    ops: Vec<Option<(FlashOp, bool)>>,
    hosts: Vec<Option<HostCommand>>,
}

/// Handle of an event log, shared by all layers of a drive. [`EventLog::default`] is off.
#[derive(Clone, Debug, Default)]
pub struct EventLog(Option<Arc<Mutex<Collected>>>);

impl EventLog {
    /// A log that is off.
    pub const OFF: Self = Self(None);

    /// Default capacity of a log, in events.
    pub const MOST: usize = 2_000_000;

    /// A log of at most `most` events. It records nothing before [`EventLog::open`].
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

    /// Starts recording at `now`.
    pub fn open(&self, now: SimTime) {
        let Some(mut log) = self.collected() else { return };
        (log.is_open, log.recorded.from) = (true, now);
    }

    /// Stops recording at `now`.
    pub fn close(&self, now: SimTime) {
        let Some(mut log) = self.collected() else { return };
        if std::mem::take(&mut log.is_open) {
            log.recorded.until = now;
            log.update_pending();
        }
    }

    /// Takes the events of a closed log.
    pub fn take(&self) -> Recorded {
        let mut recorded =
            self.collected().map(|mut log| std::mem::take(&mut log.recorded)).unwrap_or_default();
        // A completion may be recorded before the time at which it happens.
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

    #[inline(always)]
    pub(crate) fn set_cause(&self, cause: Cause) {
        if let Some(mut log) = self.collected() {
            log.cause = cause;
        }
    }

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
        // Operations issued while the log is closed get no events, even if they run after its opening.
        if log.is_open {
            put(&mut log.ops, slot, (issued, false));
        }
    }

    #[cold]
    pub(crate) fn flash(&self, now: SimTime, slot: u32, kind: fn(FlashOp) -> EventKind) {
        let Some(mut log) = self.collected() else { return };
        if let Some(Some((op, has_begun))) = log.ops.get_mut(slot as usize) {
            *has_begun = true;
            let kind = kind(*op);
            log.add(now, kind);
        }
    }

    #[cold]
    pub(crate) fn flash_ended(&self, now: SimTime, slot: u32) {
        self.flash(now, slot, EventKind::FlashEnd);
        if let Some(mut log) = self.collected()
            && let Some(op) = log.ops.get_mut(slot as usize)
        {
            *op = None;
        }
    }

    /// Adds the submission of `command`, in slot `slot` of the drive, and assigns its number.
    #[cold]
    pub fn submitted(&self, slot: u32, command: HostCommand) {
        let Some(mut log) = self.collected() else { return };
        let command = HostCommand { number: log.commands, ..command };
        log.commands += 1;
        put(&mut log.hosts, slot, command);
        log.add(command.issued, EventKind::Submitted(command));
    }

    /// Sets the command being served to the one in `slot`, or to none.
    #[inline(always)]
    pub fn serve(&self, slot: Option<u32>) {
        if let Some(mut log) = self.collected() {
            log.command = slot.and_then(|slot| log.number_of(slot));
        }
    }

    /// Number of the command in `slot`, if the log has seen its submission.
    pub fn command(&self, slot: u32) -> Option<u64> {
        self.collected()?.number_of(slot)
    }

    /// Adds the completion of the command in `slot`. Uses `known` if the log has not seen its submission.
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

    /// Adds a power cut at `now`, which ends everything in flight.
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
        // A full log closes itself: later events would leave a gap.
        self.recorded.is_cut_off = true;
        self.recorded.until = self.recorded.events.iter().map(|event| event.at).max().unwrap_or(at);
        self.update_pending();
        self.is_open = false;
    }

    fn update_pending(&mut self) {
        let waiting = self.ops.iter().flatten().filter(|(_, has_begun)| !has_begun);
        self.recorded.pending = waiting.map(|(op, _)| *op).collect();
        self.recorded.pending.sort_by_key(|op| op.number);
    }

    fn number_of(&self, slot: u32) -> Option<u64> {
        self.hosts.get(slot as usize)?.as_ref().map(|command| command.number)
    }
}

fn put<T: Clone>(table: &mut Vec<Option<T>>, slot: u32, entry: T) {
    let slot = slot as usize;
    if table.len() <= slot {
        table.resize(slot + 1, None);
    }
    table[slot] = Some(entry);
}
