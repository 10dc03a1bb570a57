//! The volatile write buffer.

use std::collections::VecDeque;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use strobe_ftl::{DataTag, FtlError, MappingScheme, WriteContext};
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
    dirty: IndexMap<Lpn, (P, DataTag), FxBuildHasher>,
    /// Dirty units by tag, as units with the same one are programmed together.
    queues: Vec<Queue>,
    arrivals: u64,
    /// Places of units that are being programmed.
    leaving: usize,
    /// When all that has been written back is on flash.
    programmed: When,
    /// When the last read for a partially written unit has arrived; nothing is written back before.
    merged: When,
    batch: Vec<Unit<P>>,
}

/// Dirty units of one tag.
#[derive(Clone, Debug, Default, Stored)]
struct Queue {
    tag: DataTag,
    /// Units with the number of their arrival, oldest first. Those trimmed or given another tag meanwhile may linger, but
    /// not at the front.
    order: VecDeque<(u64, Lpn)>,
    /// Dirty units among them.
    live: usize,
}

impl<P: Payload> WriteBuffer<P> {
    /// An empty buffer of the same size, after a power cut.
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
            queues: Vec::new(),
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
        self.dirty.get(&lpn).map(|(payload, _)| payload)
    }

    /// The units here, in no order that means anything.
    pub(crate) fn units(&self) -> impl Iterator<Item = Lpn> {
        self.dirty.keys().copied()
    }

    /// Dirty units among the `count` units from `first` on, by number.
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

    /// True if a write of `lpn` finds a free slot, or replaces a dirty version.
    pub(crate) fn has_place(&self, lpn: Lpn) -> bool {
        self.dirty.len() + self.leaving < self.capacity || self.dirty.contains_key(&lpn)
    }

    /// Takes a unit, for which there is a place; true if no older version of it was here.
    pub(crate) fn put(&mut self, lpn: Lpn, payload: P, tag: DataTag) -> bool {
        let old = self.dirty.insert(lpn, (payload, tag)).map(|(_, tag)| tag);
        if old != Some(tag) {
            self.arrivals += 1;
            let at = self.queue_of(tag);
            self.queues[at].order.push_back((self.arrivals, lpn));
            self.queues[at].live += 1;
            if let Some(old) = old {
                let at = self.queue_of(old);
                self.queues[at].live -= 1;
                self.skip_stale();
            }
        }
        debug_assert!(self.dirty.len() + self.leaving <= self.capacity);
        old.is_none()
    }

    /// Index of the queue of `tag`, a new one if need be.
    fn queue_of(&mut self, tag: DataTag) -> usize {
        self.queues.iter().position(|queue| queue.tag == tag).unwrap_or_else(|| {
            self.queues.push(Queue { tag, ..Queue::default() });
            self.queues.len() - 1
        })
    }

    /// Removes entries at the front of queues that stand for no dirty unit any more.
    fn skip_stale(&mut self) {
        for queue in &mut self.queues {
            while let Some((_, lpn)) = queue.order.front()
                && self.dirty.get(lpn).is_none_or(|&(_, tag)| tag != queue.tag)
            {
                queue.order.pop_front();
            }
        }
    }

    /// Index of the queue with the oldest unit, if any is dirty.
    fn oldest_queue(&self) -> Option<usize> {
        let front = |queue: &Queue| queue.order.front().map(|&(arrival, _)| arrival);
        let fronts = self.queues.iter().enumerate().filter_map(|(at, queue)| Some((front(queue)?, at)));
        fronts.min().map(|(_, at)| at)
    }

    /// Dirty units that were written with placement handle `handle`.
    pub(crate) fn units_with(&self, handle: u16) -> u64 {
        self.queues.iter().filter(|queue| queue.tag.handle == handle).map(|queue| queue.live as u64).sum()
    }

    /// Takes `lpn` out.
    fn remove(&mut self, lpn: Lpn) -> Option<P> {
        let (payload, tag) = self.dirty.swap_remove(&lpn)?;
        let at = self.queue_of(tag);
        self.queues[at].live -= 1;
        Some(payload)
    }

    /// Forgets `count` units from `first` on, which the host has trimmed.
    pub(crate) fn drop_units(&mut self, first: Lpn, count: u32) {
        for lpn in self.units_of(first, count) {
            self.remove(lpn);
        }
        self.shorten_order();
    }

    /// Without this, a host that only writes and trims would grow the queue for ever.
    fn shorten_order(&mut self) {
        self.skip_stale();
        for queue in &mut self.queues {
            if queue.order.len() > 2 * self.capacity {
                let (dirty, tag) = (&self.dirty, queue.tag);
                queue.order.retain(|(_, lpn)| dirty.get(lpn).is_some_and(|&(_, of)| of == tag));
            }
        }
    }

    /// Number of the youngest unit here: [`WriteBuffer::holds_until`] asks for those up to it.
    pub(crate) fn youngest(&self) -> u64 {
        self.arrivals
    }

    /// True if a dirty unit is left of those up to arrival number `arrival`.
    pub(crate) fn holds_until(&self, arrival: u64) -> bool {
        let mut fronts = self.queues.iter().filter_map(|queue| queue.order.front());
        fronts.any(|&(first, _)| first <= arrival)
    }

    /// True if more units are dirty than the high watermark allows.
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
        let mut dirty = self.units_of(first, count);
        if self.queues.len() > 1 {
            dirty.sort_by_key(|lpn| self.dirty[lpn].1);
        }
        let (mut finished, mut written) = (now, 0);
        for run in dirty.chunk_by(|a, b| self.dirty[a].1 == self.dirty[b].1) {
            let unit = |&lpn: &Lpn| Unit { lpn, payload: self.dirty[&lpn].0.clone() };
            self.batch.clear();
            self.batch.extend(run.iter().map(unit));
            let ready = ftl.nand_mut().both(now, self.merged);
            let done = ftl.write(ready, &self.batch, host(self.dirty[&run[0]].1))?;
            self.programmed = ftl.nand_mut().both(self.programmed, done);
            finished = ftl.nand_mut().both(finished, done);
        }
        for &lpn in &dirty {
            self.remove(lpn);
            written += 1;
        }
        self.leaving += written;
        self.shorten_order();
        Ok((finished, written))
    }

    /// Units that are written back together the next time.
    pub(crate) fn next_units(&self, ftl: &impl MappingScheme<Payload = P>) -> u32 {
        let oldest = self.oldest_queue().map_or(0, |at| self.queues[at].live);
        let ready = (ftl.stripe_units() as usize).min(oldest);
        let wanted = if ready < self.page_units { ready } else { ready - ready % self.page_units };
        wanted as u32
    }

    /// Writes back the oldest dirty units with the same tag: as many whole pages as a stripe takes, or all of a
    /// last partial page. Returns when they are on flash, and how many they are.
    pub(crate) fn write_back(
        &mut self,
        ftl: &mut impl MappingScheme<Payload = P>,
    ) -> Result<(When, usize), FtlError> {
        self.batch.clear();
        let wanted = self.next_units(ftl) as usize;
        let Some(at) = self.oldest_queue() else { return Ok((When::START, 0)) };
        let tag = self.queues[at].tag;
        let mut arrivals = Vec::with_capacity(wanted);
        while self.batch.len() < wanted
            && let Some((arrival, lpn)) = self.queues[at].order.pop_front()
        {
            if self.dirty.get(&lpn).is_some_and(|&(_, of)| of == tag)
                && let Some(payload) = self.remove(lpn)
            {
                self.batch.push(Unit { lpn, payload });
                arrivals.push(arrival);
            }
        }
        self.skip_stale();
        let ready = ftl.nand_mut().both(When::START, self.merged);
        match ftl.write(ready, &self.batch, host(tag)) {
            Ok(done) => {
                self.programmed = ftl.nand_mut().both(self.programmed, done);
                self.leaving += self.batch.len();
                Ok((done, self.batch.len()))
            }
            Err(error) => {
                // What could not be written stays readable here.
                for (unit, arrival) in self.batch.drain(..).zip(arrivals).rev() {
                    self.queues[at].order.push_front((arrival, unit.lpn));
                    self.queues[at].live += 1;
                    self.dirty.insert(unit.lpn, (unit.payload, tag));
                }
                Err(error)
            }
        }
    }
}

/// The context of a host write with `tag`.
fn host(tag: DataTag) -> WriteContext {
    WriteContext { cause: Cause::Host, tag }
}

impl<P: Payload> State for WriteBuffer<P> {
    fn save_state(&self, out: &mut StateWriter<'_>) {
        let Self { capacity: _, page_units: _, high_water: _, dirty, queues, arrivals, leaving, .. } = self;
        let Self { programmed, merged, batch, .. } = self;
        dirty.len().store(out);
        for (lpn, (payload, tag)) in dirty {
            lpn.store(out);
            payload.store(out);
            tag.store(out);
        }
        queues.store(out);
        (*arrivals, *leaving).store(out);
        (*programmed, *merged).store(out);
        batch.store(out);
    }

    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let dirty = <Vec<(Lpn, P, DataTag)>>::restored(from)?;
        self.dirty = dirty.into_iter().map(|(lpn, payload, tag)| (lpn, (payload, tag))).collect();
        self.queues = Stored::restored(from)?;
        (self.arrivals, self.leaving) = Stored::restored(from)?;
        (self.programmed, self.merged) = Stored::restored(from)?;
        self.batch = Stored::restored(from)?;
        Ok(())
    }
}
