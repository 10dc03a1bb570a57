//! Commands beyond single requests: several ranges, copies, zeros.
//!
//! Everything that can be refused is checked before anything changes.

use strobe_ftl::{FtlError, MappingScheme};
use strobe_nand::{Payload, Unit};
use strobe_types::{Lba, Lpn, SECTOR_BYTES, SimTime};

use crate::command::{Command, CommandError, CommandKind, Hint, Range, check_overlap};
use crate::drive::Drive;

/// Merged units of a copy that are written together.
const MERGED_UNITS: usize = 256;

/// The units of a copy that cannot be copied whole, on their way.
struct Merge<P> {
    /// The destination under construction.
    unit: Option<Unit<P>>,
    /// The source read last: misaligned copies need each twice.
    source: Option<Unit<P>>,
    /// When everything read so far is at hand.
    ready: SimTime,
    /// When everything written so far is done.
    done: SimTime,
}

impl<F: MappingScheme> Drive<F> {
    /// Executes one command issued at `now`; returns its completion time. Writes store content made
    /// from a running stamp; what a read has found is in [`Drive::last_read`] then. A command that is
    /// larger than [`ControllerConfig::limits`](crate::ControllerConfig) or otherwise wrong is refused
    /// and changes nothing.
    pub fn command(&mut self, now: SimTime, command: &Command<'_>) -> Result<SimTime, CommandError> {
        match *command {
            Command::Read { range } => self.read(now, range.lba, range.sectors),
            Command::Write { range, fua, hint } => {
                self.check_range(CommandKind::Write, range.lba, range.sectors)?;
                self.stamp += 1;
                let payload = F::Payload::synthetic(self.stamp, self.geometry.unit_bytes());
                match fua {
                    true => self.write_through(now, range, hint, |_| payload.clone()),
                    false => self.write_hinted(now, range, hint, |_| payload.clone()),
                }
            }
            Command::Flush => self.flush_command(now),
            Command::Deallocate(ranges) => self.deallocate(now, ranges),
            Command::WriteZeroes { range, deallocate } => self.write_zeroes(now, range, deallocate),
            Command::Copy { destination, sources } => self.copy(now, destination, sources),
        }
    }

    /// [`Drive::write`] with forced unit access: past the write buffer.
    pub(crate) fn write_through(
        &mut self,
        now: SimTime,
        range: Range,
        hint: Hint,
        content: impl Fn(Lpn) -> F::Payload,
    ) -> Result<SimTime, CommandError> {
        let Range { lba, sectors } = range;
        let Some(buffer) = &self.buffer else { return self.write_hinted(now, range, hint, content) };
        let merged = buffer.merged();
        self.check_range(CommandKind::Write, lba, sectors)?;
        let bytes = u64::from(sectors) * SECTOR_BYTES;
        let received = self.receive(now, bytes);
        self.units.clear();
        let ready = self.gather(received, lba, sectors, content);
        let mut done = self.absorb(received, ready, hint)?;
        if let [first, .., last] | [first @ last] = &self.units[..] {
            let (first, count) = (first.lpn, last.lpn.get() - first.lpn.get() + 1);
            done = done.max(self.store_on_flash(ready.max(merged))?);
            // What waits in the buffer is older.
            self.drop_buffered(received, first, count);
        }
        self.host.add(CommandKind::Write, bytes);
        Ok(done)
    }

    fn deallocate(&mut self, now: SimTime, ranges: &[Range]) -> Result<SimTime, CommandError> {
        self.limits.of_trim().check(CommandKind::Trim, ranges)?;
        for range in ranges.iter().filter(|range| range.sectors > 0) {
            self.check_range(CommandKind::Trim, range.lba, range.sectors)?;
        }
        Ok(self.discard(now, ranges)?)
    }

    /// Unmaps the whole units inside each of `ranges`, as one command. The ranges are inside the
    /// drive, or empty.
    pub(crate) fn discard(&mut self, now: SimTime, ranges: &[Range]) -> Result<SimTime, FtlError> {
        let accepted = self.controller.accept_trim(now, ranges, self.geometry.sectors_per_unit());
        let (mut done, mut sectors) = (accepted, 0);
        for &range in ranges {
            if let Some((first, count)) = self.whole_units(range) {
                done = done.max(self.discard_units(accepted, first, count)?);
            }
            sectors += u64::from(range.sectors);
        }
        self.host.add(CommandKind::Trim, sectors * SECTOR_BYTES);
        Ok(done)
    }

    fn discard_units(&mut self, now: SimTime, first: Lpn, count: u32) -> Result<SimTime, FtlError> {
        let done = self.ftl.trim(now, first, count)?;
        self.drop_buffered(now, first, count);
        if let Some(nvram) = &mut self.nvram {
            nvram.trim(first, count);
        }
        Ok(done)
    }

    fn drop_buffered(&mut self, now: SimTime, first: Lpn, count: u32) {
        if let Some(buffer) = &mut self.buffer
            && buffer.dirty_units() > 0
        {
            buffer.drop_units(now, first, count);
        }
    }

    /// The mapping units that lie inside `range` completely: the first and how many.
    fn whole_units(&self, range: Range) -> Option<(Lpn, u32)> {
        let per_unit = u64::from(self.geometry.sectors_per_unit());
        let first = range.lba.get().div_ceil(per_unit);
        let end = (range.lba.get().saturating_add(u64::from(range.sectors))) / per_unit;
        (range.sectors > 0 && first < end).then(|| (Lpn::new(first as u32), (end - first) as u32))
    }

    fn write_zeroes(
        &mut self,
        now: SimTime,
        range: Range,
        deallocate: bool,
    ) -> Result<SimTime, CommandError> {
        let Range { lba, sectors } = range;
        self.check_range(CommandKind::WriteZeroes, lba, sectors)?;
        let accepted = self.controller.accept(now, 1);
        let zero = |_| F::Payload::zero();
        let done = match self.whole_units(range) {
            Some((first, count)) if deallocate => {
                let unmapped = self.discard_units(accepted, first, count)?;
                // The parts of units before and behind them.
                let per_unit = u64::from(self.geometry.sectors_per_unit());
                let start = u64::from(first.get()) * per_unit;
                let end = start + u64::from(count) * per_unit;
                let (head, tail) = (start - lba.get(), lba.get() + u64::from(sectors) - end);
                self.units.clear();
                let mut ready = accepted;
                for (at, part) in [(lba, head), (Lba::new(end), tail)] {
                    if part > 0 {
                        ready = ready.max(self.gather(accepted, at, part as u32, zero));
                    }
                }
                match self.units.is_empty() {
                    true => unmapped,
                    false => unmapped.max(self.store(accepted, ready, Hint::None)?),
                }
            }
            _ => self.write_units(accepted, range, Hint::None, zero)?,
        };
        self.host.add(CommandKind::WriteZeroes, u64::from(sectors) * SECTOR_BYTES);
        Ok(done)
    }

    fn copy(&mut self, now: SimTime, destination: Lba, sources: &[Range]) -> Result<SimTime, CommandError> {
        let kind = CommandKind::Copy;
        let sectors = self.limits.of_copy().check(kind, sources)?;
        for source in sources {
            self.check_range(kind, source.lba, source.sectors)?;
        }
        let (lba, drive_sectors) = (destination.get(), self.drive_sectors);
        if lba.checked_add(sectors).is_none_or(|end| end > drive_sectors) {
            return Err(CommandError::OutOfRange { op: kind, lba, sectors, drive_sectors });
        }
        check_overlap(destination, sectors, sources)?;
        let accepted = self.controller.accept(now, sources.len() as u64);
        let done = self.copy_ranges(accepted, lba, lba + sectors, sources)?;
        self.host.add(kind, sectors * SECTOR_BYTES);
        Ok(done)
    }

    /// Copies `sources` to the sectors from `to` up to `end`: whole units where they lie alike at both
    /// places, the rest merged sector by sector. As no source overlaps the destination, the order in
    /// which this happens does not matter.
    fn copy_ranges(
        &mut self,
        now: SimTime,
        mut to: u64,
        end: u64,
        sources: &[Range],
    ) -> Result<SimTime, FtlError> {
        let per_unit = u64::from(self.geometry.sectors_per_unit());
        let mut merge = Merge { unit: None, source: None, ready: now, done: now };
        self.units.clear();
        for source in sources {
            let mut from = source.lba.get();
            let source_end = from + u64::from(source.sectors);
            while from < source_end {
                let left = source_end - from;
                let sectors = if (from | to).is_multiple_of(per_unit) && left >= per_unit {
                    let done = self.copy_units(now, from / per_unit, to / per_unit, left / per_unit)?;
                    merge.done = merge.done.max(done);
                    left / per_unit * per_unit
                } else {
                    let sectors = left.min(per_unit - to % per_unit);
                    self.merge_sectors(&mut merge, now, (from, to, sectors), end)?;
                    sectors
                };
                from += sectors;
                to += sectors;
            }
        }
        self.units.extend(merge.unit.take());
        self.store_merged(&mut merge, now)?;
        Ok(merge.done)
    }

    /// Copies whole units, given by their numbers, within the mapping scheme.
    fn copy_units(&mut self, now: SimTime, from: u64, to: u64, count: u64) -> Result<SimTime, FtlError> {
        let (from, to, count) = (Lpn::new(from as u32), Lpn::new(to as u32), count as u32);
        let mut written = now;
        if let Some(nvram) = &mut self.nvram {
            // The destination too: the copy need not survive a power cut, what is there must.
            for first in [from, to] {
                written = written.max(nvram.write_back_units(now, first, count, &mut self.ftl)?);
            }
        }
        if let Some(buffer) = &mut self.buffer {
            written = written.max(buffer.write_back_units(now, from, count, &mut self.ftl)?);
        }
        let done = self.ftl.copy(written, from, to, count)?;
        self.drop_buffered(now, to, count);
        Ok(done)
    }

    /// Takes `sectors` sectors from sector `from` on over into the unit that holds sector `to`, all of
    /// which lies in that unit. `end` is where the copy ends.
    fn merge_sectors(
        &mut self,
        merge: &mut Merge<F::Payload>,
        now: SimTime,
        (mut from, mut to, mut sectors): (u64, u64, u64),
        end: u64,
    ) -> Result<(), FtlError> {
        let per_unit = u64::from(self.geometry.sectors_per_unit());
        let lpn = self.geometry.lpn_of(Lba::new(to));
        let mut payload = match merge.unit.take() {
            Some(unit) if unit.lpn == lpn => unit.payload,
            other => {
                self.units.extend(other);
                if self.units.len() >= MERGED_UNITS {
                    self.store_merged(merge, now)?;
                }
                if to.is_multiple_of(per_unit) && end - to >= per_unit {
                    F::Payload::zero() // nothing of it will remain
                } else {
                    self.host.read_modify_writes += 1;
                    let (old, arrived) = self.current(now, lpn);
                    merge.ready = merge.ready.max(arrived);
                    old
                }
            }
        };
        while sectors > 0 {
            let count = sectors.min(per_unit - from % per_unit);
            let source = self.geometry.lpn_of(Lba::new(from));
            let found = match merge.source.take() {
                Some(unit) if unit.lpn == source => unit,
                _ => {
                    let (payload, arrived) = self.current(now, source);
                    merge.ready = merge.ready.max(arrived);
                    Unit { lpn: source, payload }
                }
            };
            let (at, into) = ((from % per_unit) as u32, (to % per_unit) as u32);
            payload = payload.splice(&found.payload, at, into, count as u32, self.geometry.unit_bytes());
            merge.source = Some(found);
            (from, to, sectors) = (from + count, to + count, sectors - count);
        }
        merge.unit = Some(Unit { lpn, payload });
        Ok(())
    }

    fn store_merged(&mut self, merge: &mut Merge<F::Payload>, now: SimTime) -> Result<(), FtlError> {
        if !self.units.is_empty() {
            // Nothing of it comes from the host: the buffer has it no sooner than flash has given it.
            let done = self.store(now, merge.ready, Hint::None)?;
            merge.done = merge.done.max(done).max(merge.ready);
            self.units.clear();
        }
        Ok(())
    }
}
