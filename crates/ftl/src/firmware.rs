//! The processor that does the translation layer's own work: sorting, bookkeeping of merges.

use strobe_nand::{Nand, Timing, When};

use crate::GcStats;

/// Does one thing after the other, beside flash and beside what the host's commands cost. Where no work has a cost, it is
/// never waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Firmware {
    free: When,
}

strobe_types::stored! { struct Firmware { free } }

impl Firmware {
    /// With nothing to do.
    pub(crate) const IDLE: Self = Self { free: When::START };

    /// Works for `ns` on something that needs `after`; returns when it is done.
    pub(crate) fn work<N: Nand>(&mut self, nand: &mut N, stats: &mut GcStats, after: When, ns: u64) -> When {
        if ns == 0 {
            return after;
        }
        stats.firmware_ns += ns;
        let begins = nand.both(after, self.free);
        self.free = nand.timing_mut().delay(begins, ns);
        self.free
    }
}

/// Processor time of sorting, in ns. All zero: sorting takes no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SortCost {
    /// Each time that the valid units of victims are sorted.
    pub call_ns: u64,
    /// Each unit among them.
    pub unit_ns: u64,
}

/// Processor time of merges, in ns. All zero: merges take none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeCost {
    /// Each merge of a logical block, before its first copy.
    pub merge_ns: u64,
    /// Each sector copied, between its read and its program.
    pub unit_ns: u64,
}
