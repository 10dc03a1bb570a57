//! The result of a read: when its data arrives, and whether it could be corrected.

use crate::When;

/// A read of flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadDone {
    /// When its data has arrived, all repetitions included.
    pub when: When,
    /// Result of its error correction.
    pub outcome: ReadOutcome,
}

/// Result of the error correction of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// The first read of each page was enough.
    Clean,
    /// Pages were read again until the code could correct them.
    Corrected {
        /// Repeated reads of all pages together.
        retries: u32,
    },
    /// Some units could not be corrected; [`Nand::has_failed`](crate::Nand::has_failed) says which.
    Uncorrectable,
}

impl ReadDone {
    /// A read without errors.
    #[inline(always)]
    pub fn clean(when: When) -> Self {
        Self { when, outcome: ReadOutcome::Clean }
    }

    /// True if some units could not be corrected.
    #[inline(always)]
    pub fn is_uncorrectable(&self) -> bool {
        self.outcome == ReadOutcome::Uncorrectable
    }
}

impl ReadOutcome {
    /// The outcome of two reads that belong together.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Uncorrectable, _) | (_, Self::Uncorrectable) => Self::Uncorrectable,
            (Self::Clean, outcome) | (outcome, Self::Clean) => outcome,
            (Self::Corrected { retries }, Self::Corrected { retries: more }) => {
                Self::Corrected { retries: retries + more }
            }
        }
    }
}
