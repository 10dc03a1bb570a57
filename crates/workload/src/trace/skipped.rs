use std::fmt;
use strobe_types::named;

named! {
    /// Reason why a well-formed part of a trace gave no record.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SkipReason {
        /// blkparse, blktrace: issued requests, if another action was chosen.
        Dispatched => "dispatched requests (D)",
        /// blkparse, blktrace: queued requests, if another action was chosen.
        Queued => "queued requests (Q)",
        /// blkparse, blktrace: completed requests, if another action was chosen.
        Completed => "completed requests (C)",
        /// blkparse, blktrace: events that cannot be chosen.
        OtherAction => "other actions",
        /// Titles of columns in the first line.
        Header => "header lines",
        /// Record before [`TraceOptions::skip`](super::TraceOptions::skip).
        Before => "records before the part that was chosen",
        /// Record of another device.
        OtherDevice => "records of other devices",
        /// fio: file added, opened, closed, created or similar.
        FileEvent => "file events",
        /// fio: `sync_file_range`, which writes pages back without a flush of the drive.
        RangeSync => "syncs of file ranges",
        /// blkparse, blktrace: passthrough command (SCSI, NVMe admin). vscsi: command other than
        /// read, write or flush.
        Passthrough => "passthrough commands",
        /// blkparse, blktrace: neither data nor a flush.
        NoData => "requests without data",
        /// blkparse: zoned-drive command.
        ZoneCommand => "zone commands",
        /// systor: operation not recorded.
        UnknownOperation => "requests of unknown operation",
        /// blkparse, blktrace: message, process name or clock reading.
        Note => "notes",
        /// blkparse: summary line.
        Summary => "summary lines",
    }
}

/// Counts of skipped records by reason. Blank lines and comments do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    counts: [u64; SkipReason::ALL.len()],
}

impl Skipped {
    pub(super) fn count(&mut self, reason: SkipReason) {
        self.counts[reason as usize] += 1;
    }

    /// Lines or records skipped for `reason`.
    pub fn get(&self, reason: SkipReason) -> u64 {
        self.counts[reason as usize]
    }

    /// Lines or records skipped for any reason.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (SkipReason, u64)> + '_ {
        SkipReason::ALL.into_iter().map(|reason| (reason, self.get(reason))).filter(|&(_, count)| count > 0)
    }
}

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
