//! Deallocate and Write Zeroes.

use strobe_ftl::{FtlError, Inspectable};
use strobe_nand::{Payload, When};
use strobe_types::Lpn;

use super::Drive;
use crate::command::{CommandKind, Range};
use crate::error::CommandError;

impl<F: Inspectable> Drive<F> {
    pub(super) fn check_deallocate(&self, ranges: &[Range]) -> Result<(), CommandError> {
        self.limits.of_trim().check(CommandKind::Trim, ranges)?;
        for range in ranges.iter().filter(|range| range.sectors > 0) {
            self.check_range(CommandKind::Trim, range.lba, range.sectors)?;
        }
        Ok(())
    }

    /// Unmaps the units that `ranges` cover completely. All ranges are inside the drive or empty. Partial
    /// units at the ends of a range keep their data, as NVMe and ATA allow.
    pub(super) fn discard(&mut self, ranges: &[Range]) -> Result<When, FtlError> {
        let mut done = self.at_once();
        for &range in ranges {
            if let Some((first, count)) = self.geometry.whole_units(range.lba, range.sectors) {
                let discarded = self.discard_units(first, count)?;
                done = self.both(done, discarded);
            }
        }
        Ok(done)
    }

    fn discard_units(&mut self, first: Lpn, count: u32) -> Result<When, FtlError> {
        let done = self.ftl.trim(self.at_once(), first, count)?;
        // Cached versions must not reappear: a write-back would map the units again.
        self.drop_buffered(first, count);
        if let Some(nvram) = &mut self.nvram {
            nvram.trim(first, count);
        }
        Ok(done)
    }

    /// Zeroes `range`. With `deallocate`, whole units are unmapped.
    pub(super) fn write_zeroes(&mut self, range: Range, deallocate: bool) -> Result<When, FtlError> {
        let zero = |_| F::Payload::zero();
        self.units.clear();
        let done = match self.geometry.whole_units(range.lba, range.sectors) {
            Some((first, count)) if deallocate => {
                // Partial units are merged first: if one is unreadable, the command fails without a change.
                let [start, end] = [first, first.plus(count)].map(|lpn| self.geometry.first_sector(lpn));
                let (head, tail) =
                    (start.get() - range.lba.get(), range.lba.get() + u64::from(range.sectors) - end.get());
                let mut ready = self.at_once();
                for (at, part) in [(range.lba, head), (end, tail)] {
                    if part > 0 {
                        let merged = self.gather(at, part as u32, zero)?;
                        ready = self.both(ready, merged);
                    }
                }
                let unmapped = self.discard_units(first, count)?;
                if self.units.is_empty() {
                    unmapped
                } else {
                    let stored = self.store_at_once(ready)?;
                    self.both(unmapped, stored)
                }
            }
            _ => {
                let ready = self.gather(range.lba, range.sectors, zero)?;
                self.store_at_once(ready)?
            }
        };
        Ok(done)
    }
}
