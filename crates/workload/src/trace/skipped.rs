//! What a reader left out on purpose.

use std::fmt;
use strobe_types::named;

named! {
    /// Why a well-formed part of a trace gave no record.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SkipReason {
        /// blkparse, blktrace: another step of a request than the one chosen.
        OtherAction => "other actions",
        /// The record of a device that was not chosen.
        OtherDevice => "records of other devices",
        /// fio: a file was added, opened or closed.
        FileEvent => "file events",
        /// blkparse, blktrace: a command passed through to the device (SCSI, NVMe admin).
        Passthrough => "passthrough commands",
        /// blkparse, blktrace: neither data nor a flush.
        NoData => "requests without data",
        /// blkparse, blktrace: a message, a process name or a clock reading.
        Note => "notes",
        /// blkparse: a line of the summary.
        Summary => "summary lines",
    }
}

/// How much a reader left out on purpose, by reason. Blank lines and comments do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    counts: [u64; SkipReason::ALL.len()],
}

impl Skipped {
    pub(super) fn count(&mut self, reason: SkipReason) {
        self.counts[reason as usize] += 1;
    }

    /// Lines or records left out for `reason`.
    pub fn get(&self, reason: SkipReason) -> u64 {
        self.counts[reason as usize]
    }

    /// Lines or records left out for any reason.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (SkipReason, u64)> + '_ {
        SkipReason::ALL.into_iter().map(|reason| (reason, self.get(reason))).filter(|&(_, count)| count > 0)
    }
}

/// For example `463 other actions, 12 summary lines`; empty if nothing was skipped.
impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (reason, count)) in self.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{count} {}", reason.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_count() {
        let mut skipped = Skipped::default();
        assert_eq!(skipped.to_string(), "");
        for (index, reason) in SkipReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            skipped.count(reason);
        }
        skipped.count(SkipReason::Note);
        assert_eq!((skipped.total(), skipped.get(SkipReason::Note)), (8, 2));
        assert!(skipped.to_string().ends_with(", 2 notes, 1 summary lines"));
    }
}
