//! Copy commands. All checks precede the first change.

use strobe_ftl::{FtlError, Inspectable};
use strobe_nand::{Payload, Unit, When};
use strobe_types::{Lba, Lpn};

use super::Drive;
use crate::command::{CommandKind, Range};
use crate::error::CommandError;
use crate::limits::check_overlap;

/// Merged units that are stored together.
const MERGED_UNITS: usize = 256;

struct Merge<P> {
    unit: Option<Unit<P>>,
    /// Source unit read last. A misaligned copy needs each source unit for two destination units.
    source: Option<Unit<P>>,
    /// Arrival of all source and old content read so far.
    ready: When,
    done: When,
}

impl<F: Inspectable> Drive<F> {
    pub(super) fn check_copy(&self, destination: Lba, sources: &[Range]) -> Result<(), CommandError> {
        let kind = CommandKind::Copy;
        let sectors = self.limits.of_copy().check(kind, sources)?;
        for source in sources {
            self.check_range(kind, source.lba, source.sectors)?;
        }
        let (lba, drive_sectors) = (destination.get(), self.drive_sectors);
        if lba.checked_add(sectors).is_none_or(|end| end > drive_sectors) {
            return Err(CommandError::OutOfRange { op: kind, lba, sectors, drive_sectors });
        }
        check_overlap(destination, sectors, sources)
    }

    pub(super) fn copy(&mut self, destination: Lba, sources: &[Range]) -> Result<When, FtlError> {
        let sectors: u64 = sources.iter().map(|source| u64::from(source.sectors)).sum();
        let lba = destination.get();
        self.report_copy(destination, sectors);
        self.copy_ranges(lba, lba + sectors, sources)
    }

    /// Copies whole units where source and destination are both aligned; merges all other sectors. No source
    /// overlaps the destination, so any order is correct.
    fn copy_ranges(&mut self, mut to: u64, end: u64, sources: &[Range]) -> Result<When, FtlError> {
        let now = self.at_once();
        let per_unit = u64::from(self.geometry.sectors_per_unit());
        let mut merge = Merge { unit: None, source: None, ready: now, done: now };
        self.units.clear();
        for source in sources {
            let mut from = source.lba.get();
            let source_end = from + u64::from(source.sectors);
            while from < source_end {
                let left = source_end - from;
                // The mapping scheme copies whole units if both positions are aligned.
                let sectors = if (from | to).is_multiple_of(per_unit) && left >= per_unit {
                    let [first, into] = [from, to].map(|sector| self.geometry.lpn_of(Lba::new(sector)));
                    let count = left / per_unit;
                    let copied = self.copy_units(first, into, count as u32)?;
                    merge.done = self.both(merge.done, copied);
                    count * per_unit
                } else {
                    let sectors = left.min(per_unit - to % per_unit);
                    self.merge_sectors(&mut merge, (from, to, sectors), end)?;
                    sectors
                };
                from += sectors;
                to += sectors;
            }
        }
        self.units.extend(merge.unit.take());
        self.store_merged(&mut merge)?;
        Ok(merge.done)
    }

    fn copy_units(&mut self, from: Lpn, to: Lpn, count: u32) -> Result<When, FtlError> {
        let mut written = self.at_once();
        // The mapping scheme copies from flash, so cached source units are written back first. The
        // destination is written back as well: a power cut may lose the copy, but not the old content.
        for first in [from, to] {
            let now = self.at_once();
            let Some(nvram) = &mut self.nvram else { break };
            let (done, departures) = nvram.write_back_units(now, first, count, &mut self.ftl)?;
            departures.into_iter().for_each(|departed| self.when_arrived(departed));
            written = self.both(written, done);
        }
        let now = self.at_once();
        if let Some(buffer) = &mut self.buffer {
            let departed = buffer.write_back_units(now, from, count, &mut self.ftl)?;
            self.when_programmed(departed);
            written = self.both(written, departed.0);
        }
        let done = self.ftl.copy(written, from, to, count)?;
        self.drop_buffered(to, count);
        Ok(done)
    }

    fn merge_sectors(
        &mut self,
        merge: &mut Merge<F::Payload>,
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
                    self.store_merged(merge)?;
                }
                // A destination unit that the copy overwrites completely needs no old content.
                if to.is_multiple_of(per_unit) && end - to >= per_unit {
                    F::Payload::zero() // nothing of it will remain
                } else {
                    self.tally.read_modify_writes += 1;
                    let (old, arrived) = self.current(lpn)?;
                    merge.ready = self.both(merge.ready, arrived);
                    old
                }
            }
        };
        // The sectors of one destination unit come from up to two source units.
        while sectors > 0 {
            let count = sectors.min(per_unit - from % per_unit);
            let source = self.geometry.lpn_of(Lba::new(from));
            let found = match merge.source.take() {
                Some(unit) if unit.lpn == source => unit,
                _ => {
                    let (payload, arrived) = self.current(source)?;
                    merge.ready = self.both(merge.ready, arrived);
                    Unit { lpn: source, payload }
                }
            };
            let [at, into] = [from, to].map(|sector| self.geometry.sector_in_unit(Lba::new(sector)));
            payload = payload.splice(&found.payload, at, into, count as u32, self.geometry.unit_bytes());
            merge.source = Some(found);
            (from, to, sectors) = (from + count, to + count, sectors - count);
        }
        merge.unit = Some(Unit { lpn, payload });
        Ok(())
    }

    fn store_merged(&mut self, merge: &mut Merge<F::Payload>) -> Result<(), FtlError> {
        if !self.units.is_empty() {
            // The caches accept the units before the source reads are complete. The copy itself completes
            // after these reads.
            let done = self.store_at_once(merge.ready)?;
            let done = self.both(done, merge.ready);
            merge.done = self.both(merge.done, done);
            self.units.clear();
        }
        Ok(())
    }
}
