//! The volatile write buffer.

use std::collections::{BTreeMap, VecDeque};

use strobe_ftl::{Done, FtlError, MappingScheme};
use strobe_nand::{Cause, Payload, Unit};
use strobe_types::{Lpn, SimTime};

use crate::places::Places;

/// Units that the host has been told are written, on their way to flash.
///
/// A unit waits as *dirty*, where a newer version replaces it for free, and occupies its place
/// until its program is complete. Write-back starts when half of the buffer is dirty, a stripe at
/// a time, oldest first; a write that finds no place waits for the next program to complete.
#[derive(Clone, Debug)]
pub(crate) struct WriteBuffer<P> {
    capacity: usize,
    page_units: usize,
    /// Write back while more units than this are dirty.
    high_water: usize,
    dirty: BTreeMap<Lpn, P>,
    /// Dirty units, oldest first. Units trimmed meanwhile may linger; they are skipped.
    order: VecDeque<Lpn>,
    /// Places that hold no dirty unit.
    places: Places,
    /// When the last program so far completes.
    programmed: SimTime,
    /// When the last read for a partially written unit has arrived; nothing is written back before.
    merged: SimTime,
    batch: Vec<Unit<P>>,
}

impl<P: Payload> WriteBuffer<P> {
    /// The same buffer after its power has failed.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.capacity, self.page_units)
    }

    /// A buffer for `capacity` units; `page_units` is the least that is worth a program.
    pub(crate) fn new(capacity: usize, page_units: usize) -> Self {
        let capacity = capacity.max(page_units);
        Self {
            capacity,
            page_units,
            high_water: (capacity / 2).max(page_units.min(capacity) - 1),
            dirty: BTreeMap::new(),
            order: VecDeque::new(),
            places: Places::new(capacity),
            programmed: SimTime::ZERO,
            merged: SimTime::ZERO,
            batch: Vec::new(),
        }
    }

    /// Notes that the old content of a partially written unit arrives at `then`.
    pub(crate) fn merge_until(&mut self, then: SimTime) {
        self.merged = self.merged.max(then);
    }

    pub(crate) fn get(&self, lpn: Lpn) -> Option<&P> {
        self.dirty.get(&lpn)
    }

    /// The units here, by number.
    pub(crate) fn units(&self) -> impl Iterator<Item = Lpn> {
        self.dirty.keys().copied()
    }

    pub(crate) fn dirty_units(&self) -> usize {
        self.dirty.len()
    }

    /// Takes a unit; returns when there was a place for it. If flash fails, the unit is not taken.
    pub(crate) fn put(
        &mut self,
        now: SimTime,
        lpn: Lpn,
        payload: P,
        ftl: &mut impl MappingScheme<Payload = P>,
    ) -> Done {
        if let Some(waiting) = self.dirty.get_mut(&lpn) {
            *waiting = payload;
            return Ok(now);
        }
        let place = self.places.take().expect("the high-water mark is below the capacity");
        let now = now.max(place);
        self.dirty.insert(lpn, payload);
        self.order.push_back(lpn);
        while self.dirty.len() > self.high_water {
            if let Err(error) = self.write_back(now, ftl) {
                self.drop_units(now, lpn, 1);
                return Err(error);
            }
        }
        Ok(now)
    }

    /// Forgets `count` units from `first` on, which the host has trimmed.
    pub(crate) fn drop_units(&mut self, now: SimTime, first: Lpn, count: u32) {
        let end = first.plus(count);
        let before = self.dirty.len();
        while let Some((&lpn, _)) = self.dirty.range(first..end).next() {
            self.dirty.remove(&lpn);
        }
        let dropped = before - self.dirty.len();
        if dropped > 0 {
            self.places.give(now, dropped);
            self.shorten_order();
        }
    }

    /// Without this, a host that only writes and trims would grow the queue for ever.
    fn shorten_order(&mut self) {
        if self.order.len() > 2 * self.capacity {
            self.order.retain(|lpn| self.dirty.contains_key(lpn));
        }
    }

    /// Writes back what is here of the `count` units from `first` on, and nothing else; returns when
    /// that is on flash. If flash fails, it stays here.
    pub(crate) fn write_back_units(
        &mut self,
        now: SimTime,
        first: Lpn,
        count: u32,
        ftl: &mut impl MappingScheme<Payload = P>,
    ) -> Done {
        let dirty = self.dirty.range(first..first.plus(count));
        self.batch.clear();
        self.batch.extend(dirty.map(|(&lpn, payload)| Unit { lpn, payload: payload.clone() }));
        if self.batch.is_empty() {
            return Ok(now);
        }
        let done = ftl.write(now.max(self.merged), &self.batch, Cause::Host)?;
        for unit in &self.batch {
            self.dirty.remove(&unit.lpn);
        }
        self.places.give(done, self.batch.len());
        self.programmed = self.programmed.max(done);
        self.shorten_order();
        Ok(done)
    }

    /// When what the units here were merged with has arrived.
    pub(crate) fn merged(&self) -> SimTime {
        self.merged
    }

    /// Writes everything back; returns when all of it is on flash.
    pub(crate) fn flush(&mut self, now: SimTime, ftl: &mut impl MappingScheme<Payload = P>) -> Done {
        while !self.dirty.is_empty() {
            self.write_back(now, ftl)?;
        }
        Ok(now.max(self.programmed))
    }

    /// Writes back the oldest dirty units: as many whole pages as a stripe takes, or all of a
    /// last partial page.
    fn write_back(
        &mut self,
        now: SimTime,
        ftl: &mut impl MappingScheme<Payload = P>,
    ) -> Result<(), FtlError> {
        self.batch.clear();
        let ready = (ftl.stripe_units() as usize).min(self.dirty.len());
        let wanted = if ready < self.page_units { ready } else { ready - ready % self.page_units };
        while self.batch.len() < wanted
            && let Some(lpn) = self.order.pop_front()
        {
            if let Some(payload) = self.dirty.remove(&lpn) {
                self.batch.push(Unit { lpn, payload });
            }
        }
        match ftl.write(now.max(self.merged), &self.batch, Cause::Host) {
            Ok(done) => {
                self.places.give(done, self.batch.len());
                self.programmed = self.programmed.max(done);
                Ok(())
            }
            Err(error) => {
                // What could not be written stays readable here.
                for unit in self.batch.drain(..).rev() {
                    self.order.push_front(unit.lpn);
                    self.dirty.insert(unit.lpn, unit.payload);
                }
                Err(error)
            }
        }
    }
}
