//! The volatile write buffer.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use strobe_ftl::{FtlError, MappingScheme};
use strobe_nand::{Payload, Unit};
use strobe_types::{Lpn, SimTime};

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
    /// Completion times of programs under way, with the units they carry.
    in_flight: BinaryHeap<Reverse<(SimTime, usize)>>,
    in_flight_units: usize,
    batch: Vec<Unit<P>>,
}

impl<P: Payload> WriteBuffer<P> {
    /// A buffer for `capacity` units; `page_units` is the least that is worth a program.
    pub(crate) fn new(capacity: usize, page_units: usize) -> Self {
        let capacity = capacity.max(page_units);
        Self {
            capacity,
            page_units,
            high_water: (capacity / 2).max(page_units.min(capacity) - 1),
            dirty: BTreeMap::new(),
            order: VecDeque::new(),
            in_flight: BinaryHeap::new(),
            in_flight_units: 0,
            batch: Vec::new(),
        }
    }

    pub(crate) fn get(&self, lpn: Lpn) -> Option<&P> {
        self.dirty.get(&lpn)
    }

    pub(crate) fn dirty_units(&self) -> usize {
        self.dirty.len()
    }

    /// Takes a unit; returns when there was a place for it.
    pub(crate) fn put<F>(
        &mut self,
        now: SimTime,
        lpn: Lpn,
        payload: P,
        ftl: &mut F,
    ) -> Result<SimTime, FtlError>
    where
        F: MappingScheme<Payload = P>,
    {
        if let Some(waiting) = self.dirty.get_mut(&lpn) {
            *waiting = payload;
            return Ok(now);
        }
        let mut now = now;
        self.release(now);
        while self.dirty.len() + self.in_flight_units >= self.capacity {
            match self.in_flight.peek() {
                Some(&Reverse((done, _))) => now = now.max(done),
                None => self.write_back(now, ftl)?,
            }
            self.release(now);
        }
        self.dirty.insert(lpn, payload);
        self.order.push_back(lpn);
        while self.dirty.len() > self.high_water {
            self.write_back(now, ftl)?;
        }
        Ok(now)
    }

    /// Forgets a unit that the host has trimmed.
    pub(crate) fn drop_unit(&mut self, lpn: Lpn) {
        self.dirty.remove(&lpn);
        // Without this, a host that only writes and trims would grow the queue for ever.
        if self.order.len() > 2 * self.capacity {
            self.order.retain(|lpn| self.dirty.contains_key(lpn));
        }
    }

    /// Writes everything back; returns when all of it is on flash.
    pub(crate) fn flush<F>(&mut self, now: SimTime, ftl: &mut F) -> Result<SimTime, FtlError>
    where
        F: MappingScheme<Payload = P>,
    {
        while !self.dirty.is_empty() {
            self.write_back(now, ftl)?;
        }
        let last = self.in_flight.drain().map(|Reverse((done, _))| done).max();
        self.in_flight_units = 0;
        Ok(now.max(last.unwrap_or(now)))
    }

    /// Writes back the oldest dirty units: as many whole pages as a stripe takes, or all of a
    /// last partial page.
    fn write_back<F>(&mut self, now: SimTime, ftl: &mut F) -> Result<(), FtlError>
    where
        F: MappingScheme<Payload = P>,
    {
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
        match ftl.write(now, &self.batch) {
            Ok(done) => {
                self.in_flight.push(Reverse((done, self.batch.len())));
                self.in_flight_units += self.batch.len();
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

    fn release(&mut self, now: SimTime) {
        while let Some(&Reverse((done, units))) = self.in_flight.peek()
            && done <= now
        {
            self.in_flight.pop();
            self.in_flight_units -= units;
        }
    }
}
