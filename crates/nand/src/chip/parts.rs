//! Word lines: several flash pages that are programmed at once, and read one by one.

use strobe_types::{Place, Ppn};

use super::Chip;
use super::urgency::read_class;
use crate::{Cause, Medium, NandOp, Timing, Wanted, When};

impl<T: Timing, M: Medium> Chip<T, M> {
    /// Reads those flash pages of word line `ppn` that hold units that are wanted, as often as that takes; if none are, the
    /// out-of-band area of each.
    pub(super) fn read_parts(&mut self, after: When, ppn: Ppn, wanted: Wanted, cause: Cause) -> When {
        let (line, parts) = (self.place(ppn), self.parts);
        self.assert_readable(ppn, wanted.total());
        let mut done = after;
        for part in 0..parts {
            let units = wanted.of(part);
            if units > 0 || wanted == Wanted::NONE {
                let place = Place { page: line.page * parts + part, ..line };
                let times = if units == 0 { 1 } else { self.times_to_read(ppn, part) };
                self.counts.add_many(NandOp::Read, cause, times.into());
                let arrived =
                    (0..times).fold(after, |at, _| self.timing.read(at, read_class(cause), units, || place));
                // One that is repeated may be there after those behind it.
                done = self.timing.both(done, arrived);
            }
        }
        done
    }
}
