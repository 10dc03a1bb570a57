//! Commands that leave nothing: trims and write zeroes.

use strobe_ftl::{FtlError, MappingScheme};
use strobe_nand::Payload;
use strobe_types::{Lpn, SECTOR_BYTES, SimTime};

use super::Drive;
use crate::command::{CommandKind, Hint, Range};
use crate::error::Completed;

impl<F: MappingScheme> Drive<F> {
    /// Deallocates the whole mapping units inside `range`, of any size; partial ones at its ends keep their
    /// data, as NVMe and ATA allow.
    pub(super) fn trim(&mut self, now: SimTime, range: Range) -> Completed {
        self.check_range(CommandKind::Trim, range.lba, range.sectors)?;
        Ok(self.discard(now, &[range])?)
    }

    /// Deallocates several ranges, within the limits of the drive.
    pub(super) fn deallocate(&mut self, now: SimTime, ranges: &[Range]) -> Completed {
        self.limits.of_trim().check(CommandKind::Trim, ranges)?;
        for range in ranges.iter().filter(|range| range.sectors > 0) {
            self.check_range(CommandKind::Trim, range.lba, range.sectors)?;
        }
        Ok(self.discard(now, ranges)?)
    }

    /// Unmaps the whole units inside each of `ranges`, as one command. The ranges are inside the
    /// drive, or empty.
    fn discard(&mut self, now: SimTime, ranges: &[Range]) -> Result<SimTime, FtlError> {
        let accepted = self.controller.accept_trim(now, ranges, self.geometry.sectors_per_unit());
        let (mut done, mut sectors) = (accepted, 0);
        for &range in ranges {
            if let Some((first, count)) = self.geometry.whole_units(range.lba, range.sectors) {
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

    /// Makes `range` read as zeros; with `deallocate` its whole units are unmapped.
    pub(super) fn write_zeroes(&mut self, now: SimTime, range: Range, deallocate: bool) -> Completed {
        let Range { lba, sectors } = range;
        self.check_range(CommandKind::WriteZeroes, lba, sectors)?;
        let accepted = self.controller.accept(now, 1);
        let zero = |_| F::Payload::zero();
        let done = match self.geometry.whole_units(range.lba, range.sectors) {
            Some((first, count)) if deallocate => {
                let unmapped = self.discard_units(accepted, first, count)?;
                // The parts of units before and behind them.
                let [start, end] = [first, first.plus(count)].map(|lpn| self.geometry.first_sector(lpn));
                let (head, tail) = (start.get() - lba.get(), lba.get() + u64::from(sectors) - end.get());
                self.units.clear();
                let mut ready = accepted;
                for (at, part) in [(lba, head), (end, tail)] {
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
}
