//! Commands on their way through the drive.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use strobe_nand::{Payload, Unit, When};
use strobe_types::{Geometry, Lba, Lpn, SECTOR_BYTES, SimTime, Stored};

use crate::command::{Command, CommandKind, DataTag, Range};
use crate::error::CommandError;
use crate::stats::Tally;

/// Data of a write.
#[derive(Clone, Debug, Stored)]
pub(super) enum Content<P> {
    /// One content for every unit.
    Same(P),
    /// These bytes.
    Bytes(Vec<u8>),
}

impl<P: Payload> Content<P> {
    /// Content of unit `lpn` in a write of `range`; sectors outside it are not used.
    #[inline(always)]
    pub(super) fn of(&self, lpn: Lpn, range: Range, geometry: &Geometry) -> P {
        match self {
            Content::Same(payload) => payload.clone(),
            Content::Bytes(data) => Self::part(data, lpn, range, geometry),
        }
    }

    fn part(data: &[u8], lpn: Lpn, range: Range, geometry: &Geometry) -> P {
        let unit_bytes = u64::from(geometry.unit_bytes());
        let start = range.lba.get().saturating_mul(SECTOR_BYTES);
        // The part of `data` that falls into this unit, and where in the unit it lies.
        let unit_start = u64::from(lpn.get()) * unit_bytes;
        let into_unit = start.saturating_sub(unit_start) as usize;
        let from = unit_start.saturating_sub(start) as usize;
        let length = (unit_bytes as usize - into_unit).min(data.len() - from);
        let part = &data[from..from + length];
        if part.len() as u64 == unit_bytes {
            return P::from_bytes(part);
        }
        let mut unit = vec![0; unit_bytes as usize];
        unit[into_unit..into_unit + length].copy_from_slice(part);
        P::from_bytes(&unit)
    }
}

/// Work of an in-flight command, with all of its data.
#[derive(Clone, Debug, Stored)]
pub(super) enum Work<P> {
    Read { range: Range },
    Write { range: Range, fua: bool, tag: DataTag, content: Content<P> },
    Flush,
    Deallocate(Vec<Range>),
    WriteZeroes { range: Range, deallocate: bool },
    Copy { destination: Lba, sources: Vec<Range> },
}

impl<P> Work<P> {
    #[inline(always)]
    pub(super) fn kind(&self) -> CommandKind {
        match self {
            Work::Read { .. } => CommandKind::Read,
            Work::Write { .. } => CommandKind::Write,
            Work::Flush => CommandKind::Flush,
            other => other.as_command().kind(),
        }
    }

    /// The command that asked for it.
    pub(super) fn as_command(&self) -> Command<'_> {
        match self {
            &Work::Read { range } => Command::Read { range },
            &Work::Write { range, fua, tag, .. } => Command::Write { range, fua, tag },
            Work::Flush => Command::Flush,
            Work::Deallocate(ranges) => Command::Deallocate(ranges),
            &Work::WriteZeroes { range, deallocate } => Command::WriteZeroes { range, deallocate },
            Work::Copy { destination, sources } => Command::Copy { destination: *destination, sources },
        }
    }
}

/// A command on its way.
#[derive(Clone, Debug)]
pub(super) struct Flight<P> {
    pub(super) tag: u64,
    pub(super) issued: SimTime,
    pub(super) kind: CommandKind,
    /// Contribution to the drive's counters, due when it completes.
    pub(super) tally: Tally,
    /// Remaining work; a flush if all of it is done.
    pub(super) work: Work<P>,
    /// Its answer, as far as it is known.
    pub(super) result: Result<Vec<u8>, CommandError>,
    /// Units of a write that have no place yet, the first one last.
    pub(super) rest: Vec<Unit<P>>,
    /// When what they were merged with has arrived.
    pub(super) ready: When,
    /// When what has been done of it so far is done.
    pub(super) done: When,
    /// Number of the newest unit of the write buffer when it began; `seen` is the newest change of the
    /// oracle.
    pub(super) youngest: u64,
    pub(super) seen: u64,
    /// Since when it has waited for a place, if it does.
    pub(super) stalled: SimTime,
    /// True if part of its content has been read or written: then only the rest remains.
    pub(super) has_begun: bool,
}

impl<P> Flight<P> {
    /// A slot that no command has.
    fn unused() -> Self {
        Self {
            tag: 0,
            issued: SimTime::ZERO,
            kind: CommandKind::Flush,
            tally: Tally::default(),
            work: Work::Flush,
            result: Ok(Vec::new()),
            rest: Vec::new(),
            ready: When::START,
            done: When::START,
            youngest: 0,
            seen: 0,
            stalled: SimTime::ZERO,
            has_begun: false,
        }
    }
}

/// The commands on their way, and those that are complete, by time.
#[derive(Clone, Debug, Stored)]
pub(super) struct Flights<P> {
    slots: Vec<Flight<P>>,
    unused: Vec<u32>,
    /// Their slots, by the time of their completion, then in the order in which that became known. Slots are 64 bits wide
    /// here: a heap moves whole words, and would wait for the store of half of one.
    complete: BinaryHeap<Reverse<(SimTime, u64, u64)>>,
    completed: u64,
    live: usize,
}

impl<P> Default for Flights<P> {
    fn default() -> Self {
        Self { slots: Vec::new(), unused: Vec::new(), complete: BinaryHeap::new(), completed: 0, live: 0 }
    }
}

impl<P> Flights<P> {
    #[inline]
    pub(super) fn add(&mut self, tag: u64, issued: SimTime, kind: CommandKind, work: Work<P>) -> u32 {
        let slot = self.take_slot(tag, issued, kind, Tally::default());
        self.slots[slot as usize].work = work;
        slot
    }

    /// Adds a command whose work is done already.
    #[inline]
    pub(super) fn add_done(&mut self, tag: u64, issued: SimTime, kind: CommandKind, tally: Tally) -> u32 {
        let slot = self.take_slot(tag, issued, kind, tally);
        let work = &mut self.slots[slot as usize].work;
        if !matches!(work, Work::Flush) {
            *work = Work::Flush;
        }
        slot
    }

    #[inline(always)]
    fn take_slot(&mut self, tag: u64, issued: SimTime, kind: CommandKind, tally: Tally) -> u32 {
        self.live += 1;
        let slot = match self.unused.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(Flight::unused());
                self.slots.len() as u32 - 1
            }
        };
        let flight = &mut self.slots[slot as usize];
        (flight.tag, flight.issued, flight.kind) = (tag, issued, kind);
        flight.tally = tally;
        (flight.ready, flight.done) = (When::START, When::START);
        (flight.youngest, flight.seen, flight.has_begun) = (0, 0, false);
        slot
    }

    #[inline(always)]
    pub(super) fn get(&mut self, slot: u32) -> &mut Flight<P> {
        &mut self.slots[slot as usize]
    }

    /// The command is complete at `at`, now or later.
    #[inline]
    pub(super) fn complete(&mut self, slot: u32, at: SimTime) {
        self.completed += 1;
        self.complete.push(Reverse((at, self.completed, u64::from(slot))));
    }

    /// Commands whose completion has not been handed over.
    pub(super) fn outstanding(&self) -> usize {
        self.live
    }

    /// Flushes among them.
    pub(super) fn flushes(&self) -> usize {
        let is_used = |slot: &u32| !self.unused.contains(slot);
        let flights = (0..).zip(&self.slots).filter(|(slot, _)| is_used(slot));
        flights.filter(|(_, flight)| flight.kind == CommandKind::Flush).count()
    }

    /// When the first of those that are complete is so.
    #[inline(always)]
    pub(super) fn first(&self) -> Option<SimTime> {
        self.complete.peek().map(|&Reverse((at, ..))| at)
    }

    /// The first that is complete by `until`, and when it is: to be looked at, then to be released.
    #[inline(always)]
    pub(super) fn take(&mut self, until: SimTime) -> Option<(SimTime, u32)> {
        if self.first()? > until {
            return None;
        }
        let Reverse((at, _, slot)) = self.complete.pop()?;
        Some((at, slot as u32))
    }

    /// Nobody asks for what is in `slot` any more: its answer.
    #[inline(always)]
    pub(super) fn release(&mut self, slot: u32) -> Result<Vec<u8>, CommandError> {
        self.live -= 1;
        self.unused.push(slot);
        let flight = self.get(slot);
        if !matches!(flight.work, Work::Read { .. } | Work::Flush) {
            // What it held is not kept until the slot is used again.
            flight.work = Work::Flush;
        }
        flight.rest.clear();
        std::mem::replace(&mut flight.result, Ok(Vec::new()))
    }
}
