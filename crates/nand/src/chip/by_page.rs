//! Page-by-page programs, for chips whose programs can fail, carry marks or be cut short.

use strobe_types::Ppn;

use super::Chip;
use crate::{Cause, Medium, NandOp, ProgramFailed, Timing, Unit, When};

impl<T: Timing, M: Medium> Chip<T, M> {
    #[cold]
    pub(super) fn program_by_page(
        &mut self,
        after: When,
        first: Ppn,
        units: &[Unit<M::Payload>],
        sequence: u64,
        cause: Cause,
    ) -> Result<When, ProgramFailed> {
        let mut done = after;
        let mut contents = units.chunks(self.geometry.units_per_page() as usize);
        for page in 0..self.pages_for(units.len()) {
            let (ppn, content) = (first.plus(page), contents.next().unwrap_or_default());
            // Snapshots are copies of the chip before this program changes it.
            self.cut(|flash| flash.tear_page(ppn, cause));
            self.take_pages(ppn, 1);
            let failed = self.program_fails.chance(self.wear.program_fail_rate);
            // A failed program uses up its page and stores nothing.
            let content = if failed { &[] } else { content };
            self.counts.add(NandOp::Program, cause);
            self.write_oob(self.geometry.first_unit_of_page(ppn), content, 1);
            let stored = self.store(after, ppn, content, 1, sequence + u64::from(page), cause);
            // Copies of lost units become lost in the same program, so no power cut separates the two.
            self.carry_marks(self.geometry.first_unit_of_page(ppn), content);
            self.track_program(stored, ppn, cause);
            done = stored;
            if failed {
                return Err(ProgramFailed { programmed: page, at: done });
            }
        }
        Ok(done)
    }
}
