//! The volatile write buffer.

use std::collections::VecDeque;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use strobe_ftl::{Done, FtlError, MappingScheme};
use strobe_nand::{Cause, Nand, Payload, Unit, When};
use strobe_types::{Lpn, State, StateError, StateReader, StateWriter, Stored};

/// Units that the host has been told are written, on their way to flash.
///
/// A unit waits as *dirty*, where a newer version replaces it for free, and occupies its place
/// until its program is complete. Units are written back while more than half of the buffer is dirty, a stripe at
/// a time, oldest first; a write that finds no place waits until a program is complete.
#[derive(Clone, Debug)]
pub(crate) struct WriteBuffer<P> {
    capacity: usize,
    page_units: usize,
    /// Write back while more units than this are dirty.
    high_water: usize,
    dirty: IndexMap<Lpn, P, FxBuildHasher>,
    /// Dirty units, oldest first, by number of arrival. Units trimmed meanwhile may linger; they are skipped.
    order: VecDeque<(u64, Lpn)>,
    arrivals: u64,
    /// Places of units that are being programmed.
    leaving: usize,
    /// When all that has been written back is on flash.
    programmed: When,
    /// When the last read for a partially written unit has arrived; nothing is written back before.
    merged: When,
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
            dirty: IndexMap::default(),
            order: VecDeque::new(),
            arrivals: 0,
            leaving: 0,
            programmed: When::START,
            merged: When::START,
            batch: Vec::new(),
        }
    }

    /// Notes that the old content of a partially written unit arrives at `then`.
    pub(crate) fn merge_until(&mut self, then: When, ftl: &mut impl MappingScheme) {
        self.merged = ftl.nand_mut().both(self.merged, then);
    }

    pub(crate) fn get(&self, lpn: Lpn) -> Option<&P> {
        self.dirty.get(&lpn)
    }

    /// The units here, in no order that means anything.
    pub(crate) fn units(&self) -> impl Iterator<Item = Lpn> {
        self.dirty.keys().copied()
    }

    /// Those of the `count` units from `first` on that are here, by number.
    fn units_of(&self, first: Lpn, count: u32) -> Vec<Lpn> {
        let end = first.plus(count);
        if (count as usize) < self.dirty.len() {
            return (0..count).map(|at| first.plus(at)).filter(|lpn| self.dirty.contains_key(lpn)).collect();
        }
        let mut units: Vec<Lpn> = self.units().filter(|&lpn| lpn >= first && lpn < end).collect();
        units.sort_unstable();
        units
    }

    pub(crate) fn dirty_units(&self) -> usize {
        self.dirty.len()
    }

    /// Whether there is a place for `lpn`.
    pub(crate) fn has_place(&self, lpn: Lpn) -> bool {
        self.dirty.len() + self.leaving < self.capacity || self.dirty.contains_key(&lpn)
    }

    /// Takes a unit, for which there is a place; true if no older version of it was here.
    pub(crate) fn put(&mut self, lpn: Lpn, payload: P) -> bool {
        let is_new = self.dirty.insert(lpn, payload).is_none();
        if is_new {
            self.arrivals += 1;
            self.order.push_back((self.arrivals, lpn));
        }
        debug_assert!(self.dirty.len() + self.leaving <= self.capacity);
        is_new
    }

    /// Forgets `count` units from `first` on, which the host has trimmed.
    pub(crate) fn drop_units(&mut self, first: Lpn, count: u32) {
        for lpn in self.units_of(first, count) {
            self.dirty.swap_remove(&lpn);
        }
        self.shorten_order();
    }

    /// Without this, a host that only writes and trims would grow the queue for ever.
    fn shorten_order(&mut self) {
        if self.order.len() > 2 * self.capacity {
            self.order.retain(|(_, lpn)| self.dirty.contains_key(lpn));
        }
    }

    /// Number of the youngest unit here: [`WriteBuffer::holds_until`] asks for those up to it.
    pub(crate) fn youngest(&self) -> u64 {
        self.arrivals
    }

    /// Whether a unit is here that had arrived by `arrival`.
    pub(crate) fn holds_until(&mut self, arrival: u64) -> bool {
        while let Some((_, lpn)) = self.order.front()
            && !self.dirty.contains_key(lpn)
        {
            self.order.pop_front();
        }
        self.order.front().is_some_and(|&(first, _)| first <= arrival)
    }

    /// Whether more is dirty than should be.
    pub(crate) fn is_crowded(&self) -> bool {
        self.dirty.len() > self.high_water
    }

    /// `count` units that were written back are on flash.
    pub(crate) fn programmed(&mut self, count: usize) {
        self.leaving -= count;
    }

    /// When all that has been written back so far is on flash.
    pub(crate) fn programmed_at(&self) -> When {
        self.programmed
    }

    /// When what the units here were merged with has arrived.
    pub(crate) fn merged(&self) -> When {
        self.merged
    }

    /// Writes back what is here of the `count` units from `first` on, and nothing else; returns when
    /// that is on flash, and how many places are free then. If flash fails, it stays here.
    pub(crate) fn write_back_units(
        &mut self,
        now: When,
        first: Lpn,
        count: u32,
        ftl: &mut impl MappingScheme<Payload = P>,
    ) -> Result<(When, usize), FtlError> {
        let dirty = self.units_of(first, count);
        self.batch.clear();
        self.batch.extend(dirty.into_iter().map(|lpn| Unit { lpn, payload: self.dirty[&lpn].clone() }));
        if self.batch.is_empty() {
            return Ok((now, 0));
        }
        let done = self.program(now, ftl)?;
        for unit in &self.batch {
            self.dirty.swap_remove(&unit.lpn);
        }
        self.leaving += self.batch.len();
        self.shorten_order();
        Ok((done, self.batch.len()))
    }

    fn program(&mut self, now: When, ftl: &mut impl MappingScheme<Payload = P>) -> Done {
        let ready = ftl.nand_mut().both(now, self.merged);
        let done = ftl.write(ready, &self.batch, Cause::Host)?;
        self.programmed = ftl.nand_mut().both(self.programmed, done);
        Ok(done)
    }

    /// Units that are written back together the next time.
    pub(crate) fn next_units(&self, ftl: &impl MappingScheme<Payload = P>) -> u32 {
        let ready = (ftl.stripe_units() as usize).min(self.dirty.len());
        let wanted = if ready < self.page_units { ready } else { ready - ready % self.page_units };
        wanted as u32
    }

    /// Writes back the oldest dirty units: as many whole pages as a stripe takes, or all of a
    /// last partial page. Returns when they are on flash, and how many they are.
    pub(crate) fn write_back(
        &mut self,
        ftl: &mut impl MappingScheme<Payload = P>,
    ) -> Result<(When, usize), FtlError> {
        self.batch.clear();
        let wanted = self.next_units(ftl) as usize;
        let mut arrivals = Vec::with_capacity(wanted);
        while self.batch.len() < wanted
            && let Some((arrival, lpn)) = self.order.pop_front()
        {
            if let Some(payload) = self.dirty.swap_remove(&lpn) {
                self.batch.push(Unit { lpn, payload });
                arrivals.push(arrival);
            }
        }
        match self.program(When::START, ftl) {
            Ok(done) => {
                self.leaving += self.batch.len();
                Ok((done, self.batch.len()))
            }
            Err(error) => {
                // What could not be written stays readable here.
                for (unit, arrival) in self.batch.drain(..).zip(arrivals).rev() {
                    self.order.push_front((arrival, unit.lpn));
                    self.dirty.insert(unit.lpn, unit.payload);
                }
                Err(error)
            }
        }
    }
}

impl<P: Payload> State for WriteBuffer<P> {
    fn save_state(&self, out: &mut StateWriter<'_>) {
        let Self { capacity: _, page_units: _, high_water: _, dirty, order, arrivals, leaving, .. } = self;
        let Self { programmed, merged, batch, .. } = self;
        dirty.len().store(out);
        for (lpn, payload) in dirty {
            lpn.store(out);
            payload.store(out);
        }
        order.store(out);
        (*arrivals, *leaving).store(out);
        (*programmed, *merged).store(out);
        batch.store(out);
    }

    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.dirty = <Vec<(Lpn, P)>>::restored(from)?.into_iter().collect();
        self.order = Stored::restored(from)?;
        (self.arrivals, self.leaving) = Stored::restored(from)?;
        (self.programmed, self.merged) = Stored::restored(from)?;
        self.batch = Stored::restored(from)?;
        Ok(())
    }
}
