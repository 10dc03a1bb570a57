//! Writes: through the caches, or past them, to whole mapping units.

use strobe_ftl::{FtlError, MappingScheme};
use strobe_nand::{Cause, Payload, Unit};
use strobe_types::{Lba, Lpn, SECTOR_BYTES, SimTime};

use super::Drive;
use crate::command::{CommandKind, Hint, Range};
use crate::error::Completed;

impl<F: MappingScheme> Drive<F> {
    /// Writes `range`; `content` gives the new content of each mapping unit, of which only the sectors inside the
    /// range are used. With `fua` (forced unit access) it goes past the write buffer.
    #[inline(always)]
    pub(super) fn write(
        &mut self,
        now: SimTime,
        range: Range,
        fua: bool,
        hint: Hint,
        content: impl Fn(Lpn) -> F::Payload,
    ) -> Completed {
        let Range { lba, sectors } = range;
        self.check_range(CommandKind::Write, lba, sectors)?;
        let bytes = u64::from(sectors) * SECTOR_BYTES;
        let received = self.receive(now, bytes);
        let is_unit = sectors == self.geometry.sectors_per_unit() && self.geometry.sector_in_unit(lba) == 0;
        // The common case, one whole unit and no cache, without detours.
        let done = if is_unit && !self.has_cache() {
            let lpn = self.geometry.lpn_of(lba);
            let done = self.ftl.write(received, &[Unit { lpn, payload: content(lpn) }], Cause::Host)?;
            self.host.units_written += 1;
            done
        } else if fua {
            self.write_through(received, range, hint, content)?
        } else {
            self.write_units(received, range, hint, content)?
        };
        self.host.add(CommandKind::Write, bytes);
        Ok(done)
    }

    /// Takes up a command that brings `bytes` along; returns when they have arrived.
    #[inline(always)]
    fn receive(&mut self, now: SimTime, bytes: u64) -> SimTime {
        if !self.is_timed() {
            return now;
        }
        let accepted = self.controller.accept(now, 1);
        self.controller.receive(accepted, bytes)
    }

    pub(super) fn write_units(
        &mut self,
        now: SimTime,
        Range { lba, sectors }: Range,
        hint: Hint,
        content: impl Fn(Lpn) -> F::Payload,
    ) -> Completed {
        self.units.clear();
        let ready = self.gather(now, lba, sectors, content);
        Ok(self.store(now, ready, hint)?)
    }

    fn write_through(
        &mut self,
        now: SimTime,
        range: Range,
        hint: Hint,
        content: impl Fn(Lpn) -> F::Payload,
    ) -> Completed {
        let Some(buffer) = &self.buffer else { return self.write_units(now, range, hint, content) };
        let merged = buffer.merged();
        self.units.clear();
        let ready = self.gather(now, range.lba, range.sectors, content);
        let mut done = self.absorb(now, ready, hint)?;
        if let [first, .., last] | [first @ last] = &self.units[..] {
            let (first, count) = (first.lpn, last.lpn.get() - first.lpn.get() + 1);
            done = done.max(self.store_on_flash(ready.max(merged))?);
            // What waits in the buffer is older.
            self.drop_buffered(now, first, count);
        }
        Ok(done)
    }

    /// Adds the mapping units of a write to those about to be written, partial ones merged with what
    /// they hold; returns when that is at hand.
    pub(super) fn gather(
        &mut self,
        now: SimTime,
        lba: Lba,
        sectors: u32,
        content: impl Fn(Lpn) -> F::Payload,
    ) -> SimTime {
        let mut ready = now;
        for (lpn, first, count) in self.geometry.parts(lba, sectors) {
            let mut payload = content(lpn);
            if count < self.geometry.sectors_per_unit() {
                self.host.read_modify_writes += 1;
                let (old, arrived) = self.current(now, lpn);
                payload = old.merge(&payload, first, count, self.geometry.unit_bytes());
                ready = ready.max(arrived);
            }
            self.units.push(Unit { lpn, payload });
        }
        ready
    }

    /// Writes the units gathered. What the host sent is there at `now`, everything at `ready`.
    pub(super) fn store(&mut self, now: SimTime, ready: SimTime, hint: Hint) -> Result<SimTime, FtlError> {
        let absorbed = self.absorb(now, ready, hint)?;
        let stored = match &mut self.buffer {
            _ if self.units.is_empty() => now,
            None => self.store_on_flash(ready)?,
            Some(buffer) => {
                // The host's part is safe in the buffer; only the write-back waits for the rest.
                buffer.merge_until(ready);
                self.units.drain(..).try_fold(now, |at, unit| {
                    let at = buffer.put(at, unit.lpn, unit.payload, &mut self.ftl)?;
                    self.host.units_written += 1;
                    Ok::<_, FtlError>(at)
                })?
            }
        };
        Ok(stored.max(absorbed))
    }

    /// Writes the units gathered past the caches.
    fn store_on_flash(&mut self, ready: SimTime) -> Result<SimTime, FtlError> {
        let before = self.ftl.stats().host_units_written;
        let done = self.ftl.write(ready, &self.units, Cause::Host);
        self.host.units_written += self.ftl.stats().host_units_written - before;
        done
    }

    /// Moves those of the units gathered that belong there into the non-volatile cache; returns when they
    /// are there. What the host sent is there at `now`, everything at `ready`.
    fn absorb(&mut self, now: SimTime, ready: SimTime, hint: Hint) -> Result<SimTime, FtlError> {
        let Some(nvram) = &mut self.nvram else { return Ok(now) };
        // A unit merged with what waits in the buffer is complete when the buffer has it.
        let merged = self.buffer.as_ref().map_or(ready, |buffer| ready.max(buffer.merged()));
        let mut done = now;
        let mut others = Vec::new();
        for unit in std::mem::take(&mut self.units) {
            // Asked one by one: room for the one may be made by writing the next back.
            if !nvram.takes(unit.lpn, hint) {
                others.push(unit);
                continue;
            }
            done = nvram.put(done, unit.lpn, unit.payload, &mut self.ftl)?;
            nvram.merge_until(merged);
            self.host.units_written += 1;
            if let Some(buffer) = &mut self.buffer {
                buffer.drop_units(now, unit.lpn, 1);
            }
        }
        self.units = others;
        Ok(done)
    }

    /// Completes when all writes completed before are on flash, or in the non-volatile cache.
    pub(super) fn flush(&mut self, now: SimTime) -> Completed {
        let accepted = self.controller.accept(now, 0);
        let done = self.make_durable(accepted)?;
        self.host.add(CommandKind::Flush, 0);
        Ok(done)
    }

    /// Writes back what the buffer holds and makes all that the mapping scheme has done survive a power cut;
    /// returns when it does.
    pub(super) fn make_durable(&mut self, now: SimTime) -> Result<SimTime, FtlError> {
        let written = match &mut self.buffer {
            Some(buffer) => buffer.flush(now, &mut self.ftl)?,
            None => now,
        };
        match &mut self.nvram {
            Some(nvram) => nvram.flush(written, &mut self.ftl),
            None => self.ftl.flush(written),
        }
    }

    pub(super) fn drop_buffered(&mut self, now: SimTime, first: Lpn, count: u32) {
        if let Some(buffer) = &mut self.buffer
            && buffer.dirty_units() > 0
        {
            buffer.drop_units(now, first, count);
        }
    }
}
