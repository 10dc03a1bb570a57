//! Fits trace requests to the drive, and counts every change.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_ssd::Range;
use strobe_types::{Lba, Op, Request, SECTOR_BYTES, counters};
use strobe_workload::trace::TraceRecord;

/// Treatment of trace requests that do not fit the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fit {
    /// Stop with an error that names the line.
    #[default]
    Refuse,
    /// Take offsets modulo the capacity; round misaligned requests outward (trims: inward) to sectors. Every
    /// change is counted.
    Wrap,
    /// Cut off parts beyond the end of the drive; otherwise like wrap.
    Clip,
}

/// Treatment of trace requests whose timestamp is earlier than a previous one in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Late {
    /// Stop with an error that names the line.
    #[default]
    Refuse,
    /// Issue them immediately, in the order of the file. They are counted.
    Issue,
}

counters! {
    /// Changes made to a trace's requests to fit the drive.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub struct Changes {
        /// Requests whose offset was taken modulo the capacity.
        pub wrapped: u64,
        /// Requests shortened because they crossed the end of the drive.
        pub shortened: u64,
        /// Requests dropped because they lay wholly beyond the end of the drive.
        pub dropped: u64,
        /// Requests rounded outward (trims: inward) to whole sectors.
        pub rounded: u64,
        /// Requests of zero bytes, dropped, and empty ranges of copies.
        pub empty: u64,
        /// Requests with a timestamp earlier than a previous one, issued immediately (open loop only).
        pub late: u64,
        /// Reads and writes longer than 1 GiB, and trims longer than 2 TiB, split into several requests.
        pub split: u64,
    }
}

impl Changes {
    /// True if nothing was changed.
    pub fn none(&self) -> bool {
        *self == Self::default()
    }
}

/// Reasons why a trace request cannot be replayed unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// The request exceeds the capacity.
    #[error(
        "{op} of {bytes} bytes at offset {offset} exceeds the drive of {drive_bytes} bytes; use a larger \
         drive, or --wrap or --clip to change such requests",
        op = .op.name()
    )]
    BeyondEnd {
        /// Kind of the request.
        op: Op,
        /// First byte.
        offset: u64,
        /// Length in bytes.
        bytes: u64,
        /// Capacity in bytes.
        drive_bytes: u64,
    },
    /// The request does not start and end on sectors.
    #[error(
        "{op} of {bytes} bytes at offset {offset} is not aligned to 512-byte sectors; use --wrap or --clip \
         to round such requests",
        op = .op.name()
    )]
    Misaligned {
        /// Kind of the request.
        op: Op,
        /// First byte.
        offset: u64,
        /// Length in bytes.
        bytes: u64,
    },
    /// The timestamp is earlier than a previous one.
    #[error(
        "time goes backwards; use --late issue (in an experiment late = \"issue\") to issue such requests at \
         once, or replay with --closed-loop"
    )]
    Backwards,
}

/// Most sectors of a read or write. It bounds the memory that a line of a trace can take.
const DATA_SECTORS_MAX: u64 = (1 << 30) / SECTOR_BYTES;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fitter {
    fit: Fit,
    late: Late,
    drive_sectors: u64,
    open_loop: bool,
    pub(crate) changes: Changes,
}

impl Fitter {
    pub(crate) fn new(fit: Fit, late: Late, drive_sectors: u64, open_loop: bool) -> Self {
        Self { fit, late, drive_sectors, open_loop, changes: Changes::default() }
    }

    /// Returns one request; none if `record` is dropped; several if it exceeds the longest command.
    pub(crate) fn requests(
        &mut self,
        record: &TraceRecord,
    ) -> Result<impl Iterator<Item = Request> + use<>, FitError> {
        let op = record.op;
        self.check_time(record)?;
        let (start, end) = if op == Op::Flush { (0, 0) } else { self.sectors(record)? };
        let longest = match op {
            Op::Trim => u64::from(u32::MAX),
            _ => DATA_SECTORS_MAX,
        };
        let flush = (op == Op::Flush).then_some(Request::FLUSH);
        let count = (end - start).div_ceil(longest);
        self.changes.split += u64::from(count > 1);
        let pieces = (0..count).map(move |piece| {
            let from = start + piece * longest;
            Request::new(op, Lba::new(from), (end - from).min(longest) as u32)
        });
        Ok(flush.into_iter().chain(pieces))
    }

    fn check_time(&mut self, record: &TraceRecord) -> Result<(), FitError> {
        if record.backwards && self.open_loop {
            if self.late == Late::Refuse {
                return Err(FitError::Backwards);
            }
            self.changes.late += 1;
        }
        Ok(())
    }

    /// Fits a source range of a copy. Copies are not wrapped or cut: a copy that does not fit is refused or
    /// dropped.
    pub(crate) fn source(
        &mut self,
        record: &TraceRecord,
        to: Option<u64>,
    ) -> Result<Option<(Range, Option<Lba>)>, FitError> {
        self.check_time(record)?;
        // An empty range is kept with no sectors, because later ranges of the copy share its destination.
        if record.bytes == 0 && to.is_none_or(|to| to.is_multiple_of(SECTOR_BYTES)) {
            self.changes.empty += 1;
            return Ok(Some((Range::new(Lba::new(0), 0), to.map(|to| Lba::new(to / SECTOR_BYTES)))));
        }
        // A copy must fit without changes, even with `wrap` or `clip`: a moved source would copy other data.
        let mut strict = Self { fit: Fit::Refuse, ..*self };
        let mut sectors = |offset| match record.bytes {
            0 => Err(FitError::Misaligned { op: record.op, offset, bytes: 0 }),
            _ => strict.sectors(&TraceRecord { offset, ..*record }),
        };
        let fitted = sectors(record.offset).and_then(|source| match to {
            None => Ok((source, None)),
            Some(to) => Ok((source, Some(Lba::new(sectors(to)?.0)))),
        });
        match fitted {
            Ok(((start, end), to)) if end - start <= u64::from(u32::MAX) => {
                Ok(Some((Range::new(Lba::new(start), (end - start) as u32), to)))
            }
            Err(error) if self.fit == Fit::Refuse => Err(error),
            _ => {
                self.changes.dropped += 1;
                Ok(None)
            }
        }
    }

    fn sectors(&mut self, record: &TraceRecord) -> Result<(u64, u64), FitError> {
        let TraceRecord { op, offset, bytes, .. } = *record;
        let strict = self.fit == Fit::Refuse;
        if bytes == 0 {
            self.changes.empty += 1;
            return Ok((0, 0));
        }
        let last = offset.saturating_add(bytes);
        let (mut start, mut end) = match op {
            // Trims round inward, because a partly trimmed sector keeps its data. Other requests round
            // outward.
            Op::Trim => (offset.div_ceil(SECTOR_BYTES), last / SECTOR_BYTES),
            _ => (offset / SECTOR_BYTES, last.div_ceil(SECTOR_BYTES)),
        };
        if !offset.is_multiple_of(SECTOR_BYTES) || !last.is_multiple_of(SECTOR_BYTES) {
            if strict {
                return Err(FitError::Misaligned { op, offset, bytes });
            }
            self.changes.rounded += 1;
        }
        let capacity = self.drive_sectors;
        if end > capacity {
            if strict {
                let drive_bytes = capacity * SECTOR_BYTES;
                return Err(FitError::BeyondEnd { op, offset, bytes, drive_bytes });
            }
            // Only the start is wrapped: a request across the end of the drive is shortened below.
            if self.fit == Fit::Wrap && start >= capacity {
                let length = end.saturating_sub(start);
                start %= capacity;
                end = start + length;
                self.changes.wrapped += 1;
            }
            if start >= capacity {
                self.changes.dropped += 1;
                return Ok((0, 0));
            }
            if end > capacity {
                end = capacity;
                self.changes.shortened += 1;
            }
        }
        Ok((start, end.max(start)))
    }
}

#[cfg(test)]
mod tests {
    use strobe_workload::trace::Detail;

    use super::*;

    fn record(op: Op, offset: u64, bytes: u64) -> TraceRecord {
        TraceRecord { time_ns: 0, backwards: false, op, offset, bytes, detail: Detail::Plain, position: 1 }
    }

    fn one(fitter: &mut Fitter, r: &TraceRecord) -> Vec<(u64, u32)> {
        fitter.requests(r).expect("fits").map(|q| (q.lba.get(), q.sectors)).collect()
    }

    #[test]
    fn fitting_requests_pass_unchanged() {
        let mut f = Fitter::new(Fit::Refuse, Late::Refuse, 100, true);
        assert_eq!(one(&mut f, &record(Op::Write, 512, 99 * 512)), [(1, 99)]);
        assert_eq!(one(&mut f, &record(Op::Flush, 0, 0)), [(0, 0)]);
        assert!(f.changes.none());
    }

    #[test]
    fn what_does_not_fit_is_refused_by_default() {
        let mut f = Fitter::new(Fit::Refuse, Late::Refuse, 100, true);
        let refused = |f: &mut Fitter, r: TraceRecord| f.requests(&r).err().expect("refused");
        assert!(matches!(refused(&mut f, record(Op::Read, 512, 100 * 512)), FitError::BeyondEnd { .. }));
        assert!(matches!(refused(&mut f, record(Op::Write, 100, 512)), FitError::Misaligned { .. }));
        assert!(matches!(refused(&mut f, record(Op::Read, u64::MAX - 5, 5)), FitError::Misaligned { .. }));
        let late = TraceRecord { backwards: true, ..record(Op::Read, 0, 512) };
        assert_eq!(refused(&mut f, late), FitError::Backwards);
        assert!(f.changes.none());
        assert_eq!(one(&mut Fitter::new(Fit::Refuse, Late::Refuse, 100, false), &late), [(0, 1)]);
    }

    #[test]
    fn empty_requests_are_dropped_and_counted_whatever_the_fit() {
        for fit in [Fit::Refuse, Fit::Wrap, Fit::Clip] {
            let mut f = Fitter::new(fit, Late::Refuse, 100, true);
            for (op, offset) in [(Op::Read, 0), (Op::Write, 700), (Op::Trim, 1 << 40)] {
                assert!(one(&mut f, &record(op, offset, 0)).is_empty(), "{fit:?}");
            }
            assert_eq!(f.changes, Changes { empty: 3, ..Changes::default() });
            let copy = f.source(&record(Op::Read, 0, 0), Some(512)).expect("fits");
            assert_eq!(copy, Some((Range::new(Lba::new(0), 0), Some(Lba::new(1)))));
            assert_eq!(f.changes.empty, 4);
        }
    }

    #[test]
    fn only_its_own_option_issues_late_requests() {
        let late = TraceRecord { backwards: true, ..record(Op::Read, 0, 512) };
        for fit in [Fit::Refuse, Fit::Wrap, Fit::Clip] {
            let refused = Fitter::new(fit, Late::Refuse, 100, true).requests(&late).err();
            assert_eq!(refused, Some(FitError::Backwards), "{fit:?}");
            let mut f = Fitter::new(fit, Late::Issue, 100, true);
            assert_eq!(one(&mut f, &late), [(0, 1)]);
            assert_eq!(f.changes, Changes { late: 1, ..Changes::default() });
            let mut closed = Fitter::new(fit, Late::Refuse, 100, false);
            assert_eq!(one(&mut closed, &late), [(0, 1)]);
            assert!(closed.changes.none(), "without timestamps nothing is late");
        }
    }

    #[test]
    fn wrap_takes_offsets_modulo_the_capacity() {
        let mut f = Fitter::new(Fit::Wrap, Late::Refuse, 100, true);
        assert_eq!(one(&mut f, &record(Op::Write, 250 * 512, 1024)), [(50, 2)]);
        assert_eq!(one(&mut f, &record(Op::Write, 199 * 512, 1024)), [(99, 1)]);
        assert_eq!(f.changes, Changes { wrapped: 2, shortened: 1, ..Changes::default() });
    }

    #[test]
    fn clip_cuts_off_what_lies_beyond() {
        let mut f = Fitter::new(Fit::Clip, Late::Refuse, 100, true);
        assert_eq!(one(&mut f, &record(Op::Write, 99 * 512, 1024)), [(99, 1)]);
        assert!(one(&mut f, &record(Op::Write, 100 * 512, 1024)).is_empty());
        assert_eq!(one(&mut f, &record(Op::Write, 700, 100)), [(1, 1)]);
        assert!(one(&mut f, &record(Op::Trim, 700, 100)).is_empty());
        assert!(one(&mut f, &record(Op::Read, 0, 0)).is_empty());
        let expected = Changes { shortened: 1, dropped: 1, rounded: 2, empty: 1, ..Changes::default() };
        assert_eq!(f.changes, expected);
    }

    #[test]
    fn a_huge_write_becomes_several_commands_of_a_gibibyte() {
        let sectors = (5 << 20) + 1;
        let mut f = Fitter::new(Fit::Refuse, Late::Refuse, sectors, false);
        let pieces = one(&mut f, &record(Op::Write, 0, sectors * 512));
        assert_eq!(pieces, [(0, 2 << 20), (2 << 20, 2 << 20), (4 << 20, (1 << 20) + 1)]);
        assert_eq!(f.changes, Changes { split: 1, ..Changes::default() });
        assert_eq!(one(&mut f, &record(Op::Read, 0, 1 << 30)), [(0, 2 << 20)]);
        assert_eq!(f.changes.split, 1, "1 GiB is not longer than 1 GiB");
    }

    #[test]
    fn a_copy_fits_whole_or_is_dropped() {
        let copy = |offset: u64, bytes: u64, to: u64, fit| {
            let mut f = Fitter::new(fit, Late::Refuse, 100, false);
            let source = f.source(&record(Op::Read, offset * 512, bytes), Some(to * 512));
            (source, f.changes.dropped)
        };
        for fit in [Fit::Refuse, Fit::Wrap, Fit::Clip] {
            let fits = Some((Range::new(Lba::new(3), 2), Some(Lba::new(98))));
            assert_eq!(copy(3, 1024, 98, fit), (Ok(fits), 0));
        }
        for (offset, bytes, to) in [(99, 1024, 0), (0, 1024, 99), (0, 700, 4)] {
            assert!(copy(offset, bytes, to, Fit::Refuse).0.is_err(), "{offset} {bytes} {to}");
            assert_eq!(copy(offset, bytes, to, Fit::Wrap), (Ok(None), 1));
            assert_eq!(copy(offset, bytes, to, Fit::Clip), (Ok(None), 1));
        }
        let mut strict = Fitter::new(Fit::Refuse, Late::Refuse, 100, false);
        let refused = strict.source(&record(Op::Read, 0, 0), Some(700));
        assert!(matches!(refused, Err(FitError::Misaligned { offset: 0, .. })), "{refused:?}");
    }

    #[test]
    fn a_huge_trim_becomes_several_commands() {
        let sectors = 3 << 32;
        let mut f = Fitter::new(Fit::Refuse, Late::Refuse, sectors, false);
        let pieces = one(&mut f, &record(Op::Trim, 0, sectors * 512));
        assert_eq!(pieces.iter().map(|p| u64::from(p.1)).sum::<u64>(), sectors);
    }
}
