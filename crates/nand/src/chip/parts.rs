//! Word lines: several flash pages that are programmed at once, and read one by one.

use strobe_types::{Place, Ppn};

use super::Chip;
use super::urgency::read_class;
use crate::{Cause, Medium, NandOp, Timing, Wanted, When};

impl<T: Timing, M: Medium> Chip<T, M> {
    /// Reads those flash pages of word line `ppn` that hold units that are wanted; if none are, the out-of-band area of
    /// each. They lie in one block, so that they have their turns in their order: when the last one is there all are.
    pub(super) fn read_parts(&mut self, after: When, ppn: Ppn, wanted: Wanted, cause: Cause) -> When {
        let (line, parts) = (self.geometry.place(ppn), self.parts);
        self.assert_readable(ppn, wanted.total());
        let mut done = after;
        for part in 0..parts {
            let units = wanted.of(part);
            if units > 0 || wanted == Wanted::NONE {
                let place = Place { page: line.page * parts + part, ..line };
                self.counts.add(NandOp::Read, cause);
                done = self.timing.read(after, read_class(cause), units, || place);
            }
        }
        done
    }
}
