use crate::When;

/// Arrival time of a read and result of its error correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadDone {
    /// Arrival of the data, all retries included.
    pub when: When,
    /// Result of its error correction.
    pub outcome: ReadOutcome,
}

/// Result of the error correction of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// Corrected at the first attempt.
    Clean,
    /// Corrected after retries.
    Corrected {
        /// Retries of all pages together.
        retries: u32,
    },
    /// Some units could not be corrected; see [`Nand::has_failed`](crate::Nand::has_failed).
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
    /// Combines the outcomes of two reads.
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
