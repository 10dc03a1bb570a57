//! What a reader left out on purpose.

use std::fmt;

/// Why a well-formed part of a trace gave no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// blkparse, blktrace: another step of a request than the one chosen.
    OtherAction,
    /// The record of a device that was not chosen.
    OtherDevice,
    /// fio: a file was added, opened or closed.
    FileEvent,
    /// blkparse, blktrace: a command passed through to the device (SCSI, NVMe admin).
    Passthrough,
    /// blkparse, blktrace: neither data nor a flush.
    NoData,
    /// blkparse, blktrace: a message, a process name or a clock reading.
    Note,
    /// blkparse: a line of the summary.
    Summary,
}

impl SkipReason {
    /// Every reason, in the order they are printed.
    pub const ALL: [SkipReason; 7] = [
        SkipReason::OtherAction,
        SkipReason::OtherDevice,
        SkipReason::FileEvent,
        SkipReason::Passthrough,
        SkipReason::NoData,
        SkipReason::Note,
        SkipReason::Summary,
    ];

    /// What was skipped, in the plural.
    pub const fn name(self) -> &'static str {
        match self {
            SkipReason::OtherAction => "other actions",
            SkipReason::OtherDevice => "records of other devices",
            SkipReason::FileEvent => "file events",
            SkipReason::Passthrough => "passthrough commands",
            SkipReason::NoData => "requests without data",
            SkipReason::Note => "notes",
            SkipReason::Summary => "summary lines",
        }
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
