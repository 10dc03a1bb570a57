//! Records that a reader left out on purpose.

use std::fmt;
use strobe_types::named;

named! {
    /// Why a well-formed part of a trace gave no record.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SkipReason {
        /// blkparse, blktrace: requests handed to the driver, if another action was chosen.
        Dispatched => "dispatched requests (D)",
        /// blkparse, blktrace: requests queued, if another action was chosen.
        Queued => "queued requests (Q)",
        /// blkparse, blktrace: requests completed, if another action was chosen.
        Completed => "completed requests (C)",
        /// blkparse, blktrace: steps of a request that cannot be chosen.
        OtherAction => "other actions",
        /// The record of a device that was not chosen.
        OtherDevice => "records of other devices",
        /// fio: a file was added, opened, closed, or created and the like.
        FileEvent => "file events",
        /// fio: `sync_file_range`, which writes pages back and flushes no drive.
        RangeSync => "syncs of file ranges",
        /// blkparse, blktrace: a command passed through to the device (SCSI, NVMe admin).
        /// vscsi: a command that is no read, write or flush.
        Passthrough => "passthrough commands",
        /// blkparse, blktrace: neither data nor a flush.
        NoData => "requests without data",
        /// blkparse: a command of a zoned drive.
        ZoneCommand => "zone commands",
        /// systor: the trace does not say if it was a read or a write.
        UnknownOperation => "requests of unknown operation",
        /// blkparse, blktrace: a message, a process name or a clock reading.
        Note => "notes",
        /// blkparse: a line of the summary.
        Summary => "summary lines",
    }
}

/// Counts of records left out on purpose, by reason. Blank lines and comments do not count.
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
        assert_eq!((skipped.total(), skipped.get(SkipReason::Note)), (SkipReason::ALL.len() as u64 + 1, 2));
        assert!(skipped.to_string().ends_with(", 2 notes, 1 summary lines"));
    }
}
