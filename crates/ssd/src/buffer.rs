use std::collections::VecDeque;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use strobe_ftl::{DataTag, FtlError, MappingScheme, WriteContext};
use strobe_nand::{Cause, Nand, Payload, Unit, When};
use strobe_types::{Lpn, State, StateError, StateReader, StateWriter, Stored};

/// The volatile write buffer. A write is complete once its units are here.
///
/// A unit is *dirty* until it is written back. A newer version replaces a dirty unit without flash work. A
/// unit occupies its slot until its program is complete. While more than half of the buffer is dirty, the
/// oldest units are written back, up to a stripe together. Without a free slot, a write waits for a program.
#[derive(Clone, Debug)]
pub(crate) struct WriteBuffer<P> {
    capacity: usize,
    page_units: usize,
    /// Dirty units above this number are written back.
    high_water: usize,
    dirty: IndexMap<Lpn, Dirty<P>, FxBuildHasher>,
    /// Dirty units by tag. Only units with equal tags are programmed together.
    queues: Vec<Queue>,
    arrivals: u64,
    /// Units whose programs are in flight.
    leaving: usize,
    /// Completion of the programs of all units written back.
    programmed: When,
    /// Arrival of the last old content read for a partial write; write-backs wait for it.
    merged: When,
    batch: Vec<Unit<P>>,
}

#[derive(Clone, Debug, Stored)]
struct Dirty<P> {
    payload: P,
    tag: DataTag,
    /// Arrival number of the unit's oldest version not written back. Newer versions keep the number, whatever
    /// their tags, so a flush waits for the newest version.
    arrival: u64,
}

#[derive(Clone, Debug, Default, Stored)]
struct Queue {
    tag: DataTag,
    /// Units by arrival number, oldest first. Stale entries (unit trimmed, written back or retagged) may
    /// remain, but not at the front.
    order: VecDeque<(u64, Lpn)>,
    live: usize,
}

impl Queue {
    fn is_live<P>(
        tag: DataTag,
        (arrival, lpn): (u64, Lpn),
        dirty: &IndexMap<Lpn, Dirty<P>, FxBuildHasher>,
    ) -> bool {
        dirty.get(&lpn).is_some_and(|unit| unit.tag == tag && unit.arrival == arrival)
    }

    /// Adds a unit in order of arrival. A stale entry of this unit becomes live again.
    fn add(&mut self, arrival: u64, lpn: Lpn) {
        self.live += 1;
        let at = self.order.partition_point(|&(before, _)| before < arrival);
        if self.order.get(at) != Some(&(arrival, lpn)) {
            self.order.insert(at, (arrival, lpn));
        }
    }
}

impl<P: Payload> WriteBuffer<P> {
    /// Empty buffer of equal size, as after a power cut.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.capacity, self.page_units)
    }

    pub(crate) fn new(capacity: usize, page_units: usize) -> Self {
        // A program takes a whole page, so the buffer holds at least one page.
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

    pub(crate) fn merge_until(&mut self, then: When, ftl: &mut impl MappingScheme) {
        self.merged = ftl.nand_mut().both(self.merged, then);
    }

    pub(crate) fn get(&self, lpn: Lpn) -> Option<&P> {
        self.dirty.get(&lpn).map(|unit| &unit.payload)
    }

    /// Dirty units, in arbitrary order.
    pub(crate) fn units(&self) -> impl Iterator<Item = Lpn> {
        self.dirty.keys().copied()
    }

    /// Dirty units of a range, in ascending order.
    fn units_of(&self, first: Lpn, count: u32) -> Vec<Lpn> {
        let end = first.plus(count);
        // Look up each unit of a small range; scan the dirty units for a large range.
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

    pub(crate) fn has_place(&self, lpn: Lpn) -> bool {
        self.dirty.len() + self.leaving < self.capacity || self.dirty.contains_key(&lpn)
    }

    /// Stores a unit, which must have a slot. True if no older version was dirty.
    pub(crate) fn put(&mut self, lpn: Lpn, payload: P, tag: DataTag) -> bool {
        let is_new = match self.dirty.get_mut(&lpn) {
            Some(unit) => {
                let old = std::mem::replace(&mut unit.tag, tag);
                unit.payload = payload;
                // A unit with a new tag changes its queue and keeps its arrival number.
                if old != tag {
                    let arrival = unit.arrival;
                    let (from, to) = (self.queue_of(old), self.queue_of(tag));
                    self.queues[from].live -= 1;
                    self.queues[to].add(arrival, lpn);
                    self.skip_stale();
                }
                false
            }
            None => {
                self.arrivals += 1;
                self.dirty.insert(lpn, Dirty { payload, tag, arrival: self.arrivals });
                let at = self.queue_of(tag);
                self.queues[at].order.push_back((self.arrivals, lpn));
                self.queues[at].live += 1;
                true
            }
        };
        debug_assert!(self.dirty.len() + self.leaving <= self.capacity);
        is_new
    }

    fn queue_of(&mut self, tag: DataTag) -> usize {
        self.queues.iter().position(|queue| queue.tag == tag).unwrap_or_else(|| {
            self.queues.push(Queue { tag, ..Queue::default() });
            self.queues.len() - 1
        })
    }

    fn skip_stale(&mut self) {
        for queue in &mut self.queues {
            while let Some(&entry) = queue.order.front()
                && !Queue::is_live(queue.tag, entry, &self.dirty)
            {
                queue.order.pop_front();
            }
        }
    }

    fn oldest_queue(&self) -> Option<usize> {
        // No stale entry is at the front, so the fronts are the oldest live units.
        let front = |queue: &Queue| queue.order.front().map(|&(arrival, _)| arrival);
        let fronts = self.queues.iter().enumerate().filter_map(|(at, queue)| Some((front(queue)?, at)));
        fronts.min().map(|(_, at)| at)
    }

    pub(crate) fn units_with(&self, handle: u16) -> u64 {
        self.queues.iter().filter(|queue| queue.tag.handle == handle).map(|queue| queue.live as u64).sum()
    }

    fn remove(&mut self, lpn: Lpn) -> Option<P> {
        let unit = self.dirty.swap_remove(&lpn)?;
        let at = self.queue_of(unit.tag);
        self.queues[at].live -= 1;
        Some(unit.payload)
    }

    pub(crate) fn drop_units(&mut self, first: Lpn, count: u32) {
        for lpn in self.units_of(first, count) {
            self.remove(lpn);
        }
        // The entries of the units in `order` are stale now.
        self.shorten_order();
    }

    fn shorten_order(&mut self) {
        self.skip_stale();
        for queue in &mut self.queues {
            // Without this limit, a host that alternates writes and trims would grow the queue forever.
            if queue.order.len() > 2 * self.capacity {
                let (dirty, tag) = (&self.dirty, queue.tag);
                queue.order.retain(|&entry| Queue::is_live(tag, entry, dirty));
            }
        }
    }

    pub(crate) fn youngest(&self) -> u64 {
        self.arrivals
    }

    /// True if a unit with arrival number `arrival` or less is dirty.
    pub(crate) fn holds_until(&self, arrival: u64) -> bool {
        let mut fronts = self.queues.iter().filter_map(|queue| queue.order.front());
        fronts.any(|&(first, _)| first <= arrival)
    }

    pub(crate) fn is_crowded(&self) -> bool {
        self.dirty.len() > self.high_water
    }

    pub(crate) fn programmed(&mut self, count: usize) {
        self.leaving -= count;
    }

    pub(crate) fn programmed_at(&self) -> When {
        self.programmed
    }

    pub(crate) fn merged(&self) -> When {
        self.merged
    }

    /// Writes back the dirty units of a range; returns their completion and number. If flash fails, all stay
    /// dirty.
    pub(crate) fn write_back_units(
        &mut self,
        now: When,
        first: Lpn,
        count: u32,
        ftl: &mut impl MappingScheme<Payload = P>,
    ) -> Result<(When, usize), FtlError> {
        let mut dirty = self.units_of(first, count);
        if self.queues.len() > 1 {
            dirty.sort_by_key(|lpn| self.dirty[lpn].tag);
        }
        let (mut finished, mut written) = (now, 0);
        // One write for each tag.
        for run in dirty.chunk_by(|a, b| self.dirty[a].tag == self.dirty[b].tag) {
            let unit = |&lpn: &Lpn| Unit { lpn, payload: self.dirty[&lpn].payload.clone() };
            self.batch.clear();
            self.batch.extend(run.iter().map(unit));
            let ready = ftl.nand_mut().both(now, self.merged);
            let done = ftl.write(ready, &self.batch, host(self.dirty[&run[0]].tag))?;
            self.programmed = ftl.nand_mut().both(self.programmed, done);
            finished = ftl.nand_mut().both(finished, done);
        }
        // The units leave only after all writes have succeeded: after an error they must stay dirty.
        for &lpn in &dirty {
            self.remove(lpn);
            written += 1;
        }
        self.leaving += written;
        self.shorten_order();
        Ok((finished, written))
    }

    /// True if the next write-back need not wait for background collection.
    pub(crate) fn may_write_back(&self, ftl: &impl MappingScheme<Payload = P>) -> bool {
        let tag = self.oldest_queue().map_or(DataTag::default(), |at| self.queues[at].tag);
        ftl.may_write(self.next_units(ftl), tag)
    }

    fn next_units(&self, ftl: &impl MappingScheme<Payload = P>) -> u32 {
        let oldest = self.oldest_queue().map_or(0, |at| self.queues[at].live);
        let ready = (ftl.stripe_units() as usize).min(oldest);
        // Whole pages only, unless less than a page is dirty: a partial page would be padded.
        let wanted = if ready < self.page_units { ready } else { ready - ready % self.page_units };
        wanted as u32
    }

    /// Writes back the oldest units of one tag: whole pages up to a stripe, or a last partial page. Returns
    /// their completion and number.
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
            if Queue::is_live(tag, (arrival, lpn), &self.dirty)
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
                // Put the units back in their old order, so the buffer still serves reads of them.
                for (unit, arrival) in self.batch.drain(..).zip(arrivals).rev() {
                    self.queues[at].order.push_front((arrival, unit.lpn));
                    self.queues[at].live += 1;
                    self.dirty.insert(unit.lpn, Dirty { payload: unit.payload, tag, arrival });
                }
                Err(error)
            }
        }
    }
}

fn host(tag: DataTag) -> WriteContext {
    WriteContext { cause: Cause::Host, tag }
}

impl<P: Payload> State for WriteBuffer<P> {
    fn save_state(&self, out: &mut StateWriter<'_>) {
        let Self { capacity: _, page_units: _, high_water: _, dirty, queues, arrivals, leaving, .. } = self;
        let Self { programmed, merged, batch, .. } = self;
        dirty.len().store(out);
        for (lpn, unit) in dirty {
            lpn.store(out);
            unit.store(out);
        }
        queues.store(out);
        (*arrivals, *leaving).store(out);
        (*programmed, *merged).store(out);
        batch.store(out);
    }

    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.dirty = <Vec<(Lpn, Dirty<P>)>>::restored(from)?.into_iter().collect();
        self.queues = Stored::restored(from)?;
        (self.arrivals, self.leaving) = Stored::restored(from)?;
        (self.programmed, self.merged) = Stored::restored(from)?;
        self.batch = Stored::restored(from)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use strobe_types::Prng;

    use super::*;

    fn tagged(handle: u16) -> DataTag {
        DataTag { handle, ..DataTag::default() }
    }

    #[test]
    fn a_unit_keeps_the_arrival_of_its_oldest_version() {
        for seed in 0..300 {
            let mut rng = Prng::derive(seed, "buffer");
            let mut buffer = WriteBuffer::new(12, 1);
            let mut naive: BTreeMap<Lpn, (u64, u16)> = BTreeMap::new();
            for payload in 0..200_u64 {
                let lpn = Lpn::new(rng.below(12));
                let handle = rng.below(3) as u16;
                if rng.below(4) == 0 {
                    buffer.drop_units(lpn, 2);
                    naive.retain(|&unit, _| unit != lpn && unit != lpn.plus(1));
                } else {
                    let is_new = buffer.put(lpn, payload, tagged(handle));
                    assert_eq!(is_new, !naive.contains_key(&lpn), "seed {seed}");
                    let arrival = naive.get(&lpn).map_or(buffer.youngest(), |&(arrival, _)| arrival);
                    naive.insert(lpn, (arrival, handle));
                }
                let oldest = naive.values().map(|&(arrival, _)| arrival).min();
                for arrival in 0..=buffer.youngest() {
                    let holds = oldest.is_some_and(|oldest| oldest <= arrival);
                    assert_eq!(buffer.holds_until(arrival), holds, "seed {seed}, arrival {arrival}");
                }
                for handle in 0..3 {
                    let units = naive.values().filter(|&&(_, of)| of == handle).count() as u64;
                    assert_eq!(buffer.units_with(handle), units, "seed {seed}, handle {handle}");
                }
            }
        }
    }
}
