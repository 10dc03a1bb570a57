//! Writes, from the host's range to caches and flash.
//!
//! 1. `gather` splits the range into units and merges partial ones with old content.
//! 2. The non-volatile cache stores the units that it admits, else the write buffer or flash.
//! 3. Without a slot the write stalls, and `InFlight::rest` holds its unstored units.

use strobe_ftl::{FtlError, Inspectable, WriteContext};
use strobe_nand::{Cause, Payload, Unit, When};
use strobe_types::{Lba, Lpn};

use super::{Content, Drive, Progress, Step};
use crate::command::{DataTag, Range};

type Units<P> = Vec<Unit<P>>;

impl<F: Inspectable> Drive<F> {
    /// With `fua` (force unit access) the write bypasses the volatile write buffer.
    #[inline(always)]
    pub(super) fn write(
        &mut self,
        slot: u32,
        range: Range,
        fua: bool,
        tag: DataTag,
        content: &Content<F::Payload>,
    ) -> Step {
        let is_unit =
            range.sectors == self.geometry.sectors_per_unit() && self.geometry.sector_in_unit(range.lba) == 0;
        // Fast path: one whole unit, no cache.
        if is_unit && !self.has_cache() && self.ftl.may_write(1, tag) {
            let lpn = self.geometry.lpn_of(range.lba);
            let unit = Unit { lpn, payload: content.of(lpn, range, &self.geometry) };
            let done = self.ftl.write(self.at_once(), &[unit], WriteContext { cause: Cause::Host, tag });
            let done = done?;
            self.tally.units_written += 1;
            return Ok(Progress::Done(done));
        }
        self.units.clear();
        // Data written to sector 0 may be a FAT boot sector.
        if let (0, Content::Bytes(data), Some(nvram)) = (range.lba.get(), content, &mut self.nvram) {
            nvram.learn(data, &self.geometry);
        }
        let geometry = self.geometry.clone();
        let ready = self.gather(range.lba, range.sectors, |lpn| content.of(lpn, range, &geometry))?;
        if fua && self.buffer.is_some() {
            self.write_through(slot, ready, tag)
        } else {
            self.store(slot, ready, tag)
        }
    }

    fn write_through(&mut self, slot: u32, ready: When, tag: DataTag) -> Step {
        // Old content taken from the buffer may still wait for a flash read, until `merged`.
        let merged = self.buffer.as_ref().map_or(When::START, |buffer| buffer.merged());
        let range = match &self.units[..] {
            [first, .., last] => (first.lpn, last.lpn.get() - first.lpn.get() + 1),
            [only] => (only.lpn, 1),
            [] => return Ok(Progress::Done(ready)),
        };
        // The non-volatile cache takes the units that it admits; all others are programmed.
        let (absorbed, others) = self.absorb_all(ready, tag)?;
        self.units = others;
        let ready = self.both(ready, merged);
        let stored = if self.units.is_empty() { self.at_once() } else { self.store_on_flash(ready, tag)? };
        // Buffered versions are older. A later write-back would replace the new data.
        self.drop_buffered(range.0, range.1);
        self.in_flight.get(slot).done = stored;
        Ok(Progress::Done(self.both(absorbed, stored)))
    }

    /// Gathers the units of a range in `self.units`. Partial units are merged with old content; returns its
    /// arrival. Fails before any write if it is unreadable.
    pub(super) fn gather(
        &mut self,
        lba: Lba,
        sectors: u32,
        content: impl Fn(Lpn) -> F::Payload,
    ) -> Result<When, FtlError> {
        let mut ready = self.at_once();
        for (lpn, first, count) in self.geometry.parts(lba, sectors) {
            let mut payload = content(lpn);
            if count < self.geometry.sectors_per_unit() {
                self.tally.read_modify_writes += 1;
                let (old, arrived) = self.current(lpn)?;
                payload = old.merge(&payload, first, count, self.geometry.unit_bytes());
                ready = self.both(ready, arrived);
            }
            self.units.push(Unit { lpn, payload });
        }
        Ok(ready)
    }

    pub(super) fn merge_again(&mut self, slot: u32, range: Range, content: &Content<F::Payload>) {
        let mut rest = std::mem::take(&mut self.in_flight.get(slot).rest);
        // Overlapping commands may have changed a partial unit since the stall, so its old content is merged
        // again.
        for (lpn, first, count) in self.geometry.parts(range.lba, range.sectors) {
            if count < self.geometry.sectors_per_unit()
                && let Some(unit) = rest.iter_mut().find(|unit| unit.lpn == lpn)
            {
                let part = content.of(lpn, range, &self.geometry);
                unit.payload = self.peek(lpn).merge(&part, first, count, self.geometry.unit_bytes());
            }
        }
        self.in_flight.get(slot).rest = rest;
    }

    fn store(&mut self, slot: u32, ready: When, tag: DataTag) -> Step {
        let mut rest = std::mem::take(&mut self.units);
        // `store_units` takes units from the end.
        rest.reverse();
        let entry = self.in_flight.get(slot);
        (entry.rest, entry.ready) = (rest, ready);
        self.store_units(slot, tag)
    }

    pub(super) fn store_units(&mut self, slot: u32, tag: DataTag) -> Step {
        let entry = self.in_flight.get(slot);
        let (mut rest, ready, mut done) = (std::mem::take(&mut entry.rest), entry.ready, entry.done);
        // Units enter the non-volatile cache one by one: the eviction that frees a slot for one unit may
        // evict the cached version of the next.
        if self.nvram.is_some() {
            let mut others = Vec::new();
            while let Some(unit) = rest.pop() {
                if !self.nvram.as_ref().is_some_and(|nvram| nvram.takes(unit.lpn, tag.hint)) {
                    others.push(unit);
                    continue;
                }
                if !self.free_nvram_slot(unit.lpn)? {
                    rest.push(unit);
                    rest.extend(others.into_iter().rev());
                    let entry = self.in_flight.get(slot);
                    (entry.rest, entry.done) = (rest, done);
                    return Ok(Progress::Stalled);
                }
                let at = self.absorb(unit, ready, tag);
                done = self.both(done, at);
            }
            others.reverse();
            rest = others;
        }
        if self.buffer.is_some() {
            while let Some(unit) = rest.pop() {
                let lpn = unit.lpn;
                // Units enter in order: a unit without a slot stalls all units after it.
                if !self.buffer.as_ref().is_some_and(|buffer| buffer.has_place(lpn)) {
                    rest.push(unit);
                    let entry = self.in_flight.get(slot);
                    (entry.rest, entry.done) = (rest, done);
                    return Ok(Progress::Stalled);
                }
                self.put_in_buffer(unit, ready, tag)?;
            }
            return Ok(Progress::Done(done));
        }
        if rest.is_empty() {
            return Ok(Progress::Done(done));
        }
        // Without a write buffer, the remaining units are programmed together, or stall until flash has free
        // space.
        if !self.ftl.may_write(rest.len() as u32, tag) {
            let entry = self.in_flight.get(slot);
            (entry.rest, entry.done) = (rest, done);
            return Ok(Progress::Stalled);
        }
        rest.reverse();
        self.units = rest;
        let stored = self.store_on_flash(ready, tag)?;
        Ok(Progress::Done(self.both(done, stored)))
    }

    fn put_in_buffer(&mut self, unit: Unit<F::Payload>, ready: When, tag: DataTag) -> Result<(), FtlError> {
        let Some(buffer) = &mut self.buffer else { return Ok(()) };
        let lpn = unit.lpn;
        // The unit is readable at once. Only its write-back waits until the old content merged into it has
        // arrived.
        buffer.merge_until(ready, &mut self.ftl);
        // Replacing a dirty version takes no slot, so the buffer is no fuller than before.
        if !buffer.put(lpn, unit.payload, self.ftl.relevant(tag)) {
            self.tally.units_written += 1;
            return Ok(());
        }
        while let Some(buffer) = &mut self.buffer
            && buffer.is_crowded()
            && buffer.may_write_back(&self.ftl)
        {
            match buffer.write_back(&mut self.ftl) {
                Ok(departed) => self.when_programmed(departed),
                Err(error) => {
                    // The command fails, so its unit must not reach flash later.
                    buffer.drop_units(lpn, 1);
                    return Err(error);
                }
            }
        }
        self.tally.units_written += 1;
        Ok(())
    }

    pub(super) fn store_on_flash(&mut self, ready: When, tag: DataTag) -> Result<When, FtlError> {
        let before = self.ftl.stats().host_units_written;
        let done = self.ftl.write(ready, &self.units, WriteContext { cause: Cause::Host, tag });
        self.tally.units_written += self.ftl.stats().host_units_written - before;
        done
    }

    /// Evicts units to free a slot; false if the write has to wait for their arrival.
    fn free_nvram_slot(&mut self, lpn: Lpn) -> Result<bool, FtlError> {
        while let Some(nvram) = &mut self.nvram {
            if nvram.has_place(lpn) {
                return Ok(true);
            }
            // Evicted units free their slots on arrival, so no more are evicted now.
            if nvram.is_evicting() {
                return Ok(false);
            }
            let departed = nvram.evict(&mut self.ftl)?;
            self.when_arrived(departed);
        }
        Ok(true)
    }

    fn absorb(&mut self, unit: Unit<F::Payload>, ready: When, tag: DataTag) -> When {
        let now = self.events.now();
        // Old content taken from the buffer may still wait for a flash read. The write-back waits for that
        // read.
        let merged = match self.buffer.as_ref().map(|buffer| buffer.merged()) {
            Some(merged) => self.both(ready, merged),
            None => ready,
        };
        let Some(nvram) = &mut self.nvram else { return ready };
        let lpn = unit.lpn;
        let done = nvram.put(now, lpn, unit.payload, self.ftl.relevant(tag));
        nvram.merge_until(merged, &mut self.ftl);
        self.tally.units_written += 1;
        if let Some(buffer) = &mut self.buffer {
            buffer.drop_units(lpn, 1);
        }
        When::At(done)
    }

    /// Stores admitted units in the non-volatile cache. Returns their completion, and the other units.
    fn absorb_all(&mut self, ready: When, tag: DataTag) -> Result<(When, Units<F::Payload>), FtlError> {
        let (mut done, mut others) = (self.at_once(), Vec::new());
        for unit in std::mem::take(&mut self.units) {
            if !self.nvram.as_ref().is_some_and(|nvram| nvram.takes(unit.lpn, tag.hint)) {
                others.push(unit);
                continue;
            }
            while let Some(nvram) = &mut self.nvram
                && !nvram.has_place(unit.lpn)
            {
                // This command cannot stall. Its unit enters before a slot is free, and the command completes
                // once evicted units have freed the slot.
                if let Some(free) = nvram.next_place() {
                    done = self.both(done, free);
                    break;
                }
                let departed = nvram.evict(&mut self.ftl)?;
                self.when_arrived(departed);
            }
            let at = self.absorb(unit, ready, tag);
            done = self.both(done, at);
        }
        Ok((done, others))
    }

    /// Stores `self.units` in caches or flash without stalling; returns their completion.
    pub(super) fn store_at_once(&mut self, ready: When) -> Result<When, FtlError> {
        let (absorbed, others) = self.absorb_all(ready, DataTag::default())?;
        self.units = others;
        if self.units.is_empty() {
            return Ok(absorbed);
        }
        let mut past_buffer = Vec::new();
        for unit in std::mem::take(&mut self.units) {
            // This command cannot stall: units without a slot bypass the buffer.
            if self.buffer.as_ref().is_some_and(|buffer| buffer.has_place(unit.lpn)) {
                self.put_in_buffer(unit, ready, DataTag::default())?
            } else {
                past_buffer.push(unit)
            }
        }
        self.units = past_buffer;
        if self.units.is_empty() {
            return Ok(absorbed);
        }
        let stored = self.store_on_flash(ready, DataTag::default())?;
        Ok(self.both(absorbed, stored))
    }

    pub(super) fn flush(&mut self, slot: u32) -> Step {
        self.drain(slot)
    }

    /// Makes all data durable that was stored before the drain began.
    pub(super) fn drain(&mut self, slot: u32) -> Step {
        let before = self.in_flight.get(slot).done;
        while let Some(buffer) = &mut self.buffer {
            let entry = self.in_flight.get(slot);
            // The drain covers the units buffered so far. Later arrivals do not prolong it.
            if entry.youngest == 0 {
                entry.youngest = buffer.youngest();
            }
            if !buffer.holds_until(entry.youngest) {
                break;
            }
            if !buffer.may_write_back(&self.ftl) {
                return Ok(Progress::Draining);
            }
            let departed = buffer.write_back(&mut self.ftl)?;
            self.when_programmed(departed);
        }
        // Units written back earlier may still be in flight.
        let written = match &self.buffer {
            Some(buffer) => buffer.programmed_at(),
            None => self.at_once(),
        };
        let durable = self.make_durable(written)?;
        Ok(Progress::Done(self.both(before, durable)))
    }

    pub(super) fn make_durable(&mut self, written: When) -> Result<When, FtlError> {
        let done = match &mut self.nvram {
            Some(nvram) => {
                let departed = nvram.flush(written, &mut self.ftl)?;
                self.when_arrived(departed);
                departed.0
            }
            None => self.ftl.flush(written)?,
        };
        Ok(self.both(written, done))
    }

    pub(super) fn drop_buffered(&mut self, first: Lpn, count: u32) {
        if let Some(buffer) = &mut self.buffer
            && buffer.dirty_units() > 0
        {
            buffer.drop_units(first, count);
        }
    }
}
