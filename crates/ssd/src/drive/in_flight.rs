//! In-flight commands, each in a slot from submission to delivery.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use strobe_nand::{Payload, Unit, When};
use strobe_types::{Geometry, Lba, Lpn, SECTOR_BYTES, SimTime, Stored};

use crate::command::{Command, CommandKind, DataTag, Range};
use crate::error::CommandError;
use crate::stats::Tally;

#[derive(Clone, Debug, Stored)]
pub(super) enum Content<P> {
    /// Content of every unit.
    Same(P),
    /// Data of the range.
    Bytes(Vec<u8>),
}

impl<P: Payload> Content<P> {
    /// Content of unit `lpn`; sectors outside `range` are undefined.
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
        // The part of `data` that falls into this unit, and its offset in the unit.
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

#[derive(Clone, Debug)]
pub(super) struct InFlight<P> {
    pub(super) tag: u64,
    pub(super) issued: SimTime,
    pub(super) kind: CommandKind,
    /// Contribution to the drive's counters, added at delivery.
    pub(super) tally: Tally,
    /// Work of the command; a flush if all of it was issued at submission.
    pub(super) work: Work<P>,
    pub(super) result: Result<Vec<u8>, CommandError>,
    /// Units of a stalled write that are not stored yet, in descending order.
    pub(super) rest: Vec<Unit<P>>,
    /// Arrival of merged old content.
    pub(super) ready: When,
    /// Completion of the work so far.
    pub(super) done: When,
    /// Newest arrival number that the drain covers; 0 before the drain.
    pub(super) youngest: u64,
    /// Number of the oracle's newest change after the first step of the command.
    pub(super) seen: u64,
    pub(super) stalled: SimTime,
    pub(super) has_begun: bool,
}

impl<P> InFlight<P> {
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

#[derive(Clone, Debug, Stored)]
pub(super) struct InFlightTable<P> {
    slots: Vec<InFlight<P>>,
    unused: Vec<u32>,
    /// Completion time, sequence number and slot. A slot has 64 bits because the heap moves whole words: a
    /// word load after a half-word store stalls.
    complete: BinaryHeap<Reverse<(SimTime, u64, u64)>>,
    completed: u64,
    live: usize,
}

impl<P> Default for InFlightTable<P> {
    fn default() -> Self {
        Self { slots: Vec::new(), unused: Vec::new(), complete: BinaryHeap::new(), completed: 0, live: 0 }
    }
}

impl<P> InFlightTable<P> {
    #[inline]
    pub(super) fn add(&mut self, tag: u64, issued: SimTime, kind: CommandKind, work: Work<P>) -> u32 {
        let slot = self.take_slot(tag, issued, kind, Tally::default());
        self.slots[slot as usize].work = work;
        slot
    }

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
                self.slots.push(InFlight::unused());
                self.slots.len() as u32 - 1
            }
        };
        let entry = &mut self.slots[slot as usize];
        (entry.tag, entry.issued, entry.kind) = (tag, issued, kind);
        entry.tally = tally;
        (entry.ready, entry.done) = (When::START, When::START);
        (entry.youngest, entry.seen, entry.has_begun) = (0, 0, false);
        slot
    }

    #[inline(always)]
    pub(super) fn get(&mut self, slot: u32) -> &mut InFlight<P> {
        &mut self.slots[slot as usize]
    }

    #[inline]
    pub(super) fn complete(&mut self, slot: u32, at: SimTime) {
        self.completed += 1;
        self.complete.push(Reverse((at, self.completed, u64::from(slot))));
    }

    pub(super) fn outstanding(&self) -> usize {
        self.live
    }

    fn used(&self) -> impl Iterator<Item = &InFlight<P>> {
        let mut is_used = vec![true; self.slots.len()];
        self.unused.iter().for_each(|&slot| is_used[slot as usize] = false);
        self.slots.iter().zip(is_used).filter_map(|(entry, is_used)| is_used.then_some(entry))
    }

    pub(super) fn flushes(&self) -> usize {
        self.used().filter(|entry| entry.kind == CommandKind::Flush).count()
    }

    pub(super) fn oldest(&self) -> Option<(CommandKind, SimTime)> {
        let oldest = self.used().min_by_key(|entry| entry.issued)?;
        Some((oldest.kind, oldest.issued))
    }

    #[inline(always)]
    pub(super) fn first(&self) -> Option<SimTime> {
        self.complete.peek().map(|&Reverse((at, ..))| at)
    }

    /// Takes the first completion by `until`. The caller reads the slot, then releases it.
    #[inline(always)]
    pub(super) fn take(&mut self, until: SimTime) -> Option<(SimTime, u32)> {
        if self.first()? > until {
            return None;
        }
        let Reverse((at, _, slot)) = self.complete.pop()?;
        Some((at, slot as u32))
    }

    #[inline(always)]
    pub(super) fn release(&mut self, slot: u32) -> Result<Vec<u8>, CommandError> {
        self.live -= 1;
        self.unused.push(slot);
        let entry = self.get(slot);
        if !matches!(entry.work, Work::Read { .. } | Work::Flush) {
            // Drops the data now, not at the next use of the slot.
            entry.work = Work::Flush;
        }
        // The vector keeps its memory for the next command in this slot.
        entry.rest.clear();
        std::mem::replace(&mut entry.result, Ok(Vec::new()))
    }
}
