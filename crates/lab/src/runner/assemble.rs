//! Joins records of a trace into commands of several ranges: copies and trims.

use strobe_ssd::{Command, Range};
use strobe_types::{Lba, Op, Request, SimTime};
use strobe_workload::trace::{Detail, TraceRecord};

use crate::fit::{FitError, Fitter};

pub(super) struct Assembled {
    /// `None` for a trim.
    destination: Option<Lba>,
    ranges: Vec<Range>,
    pub(super) arrival: SimTime,
}

impl Assembled {
    pub(super) fn command(&self) -> Command<'_> {
        match self.destination {
            Some(destination) => Command::Copy { destination, sources: &self.ranges },
            None => Command::Deallocate(&self.ranges),
        }
    }

    pub(super) fn destination(&self) -> Option<Lba> {
        self.destination
    }

    pub(super) fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    pub(super) fn name(&self) -> &'static str {
        if self.destination.is_some() { "copy" } else { Op::Trim.name() }
    }

    pub(super) fn as_request(&self) -> Option<Request> {
        match (self.destination, &self.ranges[..]) {
            (None, &[range]) => Some(Request::new(Op::Trim, range.lba, range.sectors)),
            _ => None,
        }
    }
}

pub(super) struct Assembler {
    /// Most ranges of successive trims in one command; 1: trims are not joined.
    trim_ranges: usize,
    open: Option<Assembled>,
    /// True if the copy that the next range continues was dropped.
    is_dropping: bool,
}

impl Assembler {
    pub(super) fn new(trim_ranges: u32) -> Self {
        Self { trim_ranges: trim_ranges as usize, open: None, is_dropping: false }
    }

    /// Returns the open command unless `record` continues it. `None` as record marks the end of the trace.
    pub(super) fn complete_before(&mut self, record: Option<&TraceRecord>) -> Option<Assembled> {
        let open = self.open.as_ref()?;
        let goes_on = record.is_some_and(|record| match record.detail {
            Detail::More => true,
            Detail::Plain if record.op == Op::Trim => {
                open.destination.is_none() && open.ranges.len() < self.trim_ranges
            }
            _ => false,
        });
        if goes_on { None } else { self.open.take().filter(|command| !command.ranges.is_empty()) }
    }

    pub(super) fn takes(record: &TraceRecord) -> bool {
        record.op == Op::Trim || matches!(record.detail, Detail::CopyTo(_) | Detail::More)
    }

    pub(super) fn take(
        &mut self,
        record: &TraceRecord,
        arrival: SimTime,
        fitter: &mut Fitter,
    ) -> Result<(), FitError> {
        let is_more = record.detail == Detail::More;
        if !is_more {
            self.is_dropping = false;
        }
        if record.op != Op::Trim {
            return self.take_source(record, arrival, fitter);
        }
        for Request { lba, sectors, .. } in fitter.requests(record)? {
            let open =
                self.open.get_or_insert_with(|| Assembled { destination: None, ranges: Vec::new(), arrival });
            // A joined command arrives with its last range.
            open.arrival = arrival;
            // Ranges that the trace gives to one command stay separate. Only adjacent ranges of successive
            // trims merge.
            let joins = self.trim_ranges > 1 && !is_more;
            match open.ranges.last_mut() {
                Some(last)
                    if joins
                        && last.lba.get() + u64::from(last.sectors) == lba.get()
                        && last.sectors.checked_add(sectors).is_some() =>
                {
                    last.sectors += sectors;
                }
                _ => open.ranges.push(Range::new(lba, sectors)),
            }
        }
        Ok(())
    }

    fn take_source(
        &mut self,
        record: &TraceRecord,
        arrival: SimTime,
        fitter: &mut Fitter,
    ) -> Result<(), FitError> {
        if self.is_dropping {
            return Ok(());
        }
        let to = if let Detail::CopyTo(to) = record.detail { Some(to) } else { None };
        match (fitter.source(record, to)?, &mut self.open) {
            (Some((range, Some(destination))), _) => {
                let ranges = if range.sectors == 0 { Vec::new() } else { vec![range] };
                self.open = Some(Assembled { destination: Some(destination), ranges, arrival });
            }
            (Some((range, None)), Some(open)) => {
                if range.sectors > 0 {
                    open.ranges.push(range);
                }
                open.arrival = arrival;
            }
            // A copy with a missing range would be a different copy: it is dropped whole.
            _ => (self.open, self.is_dropping) = (None, true),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::{Fit, Late};

    const S: u64 = 512;

    fn record(op: Op, first: u64, sectors: u64, detail: Detail) -> TraceRecord {
        let (offset, bytes) = (first * S, sectors * S);
        TraceRecord { time_ns: 0, backwards: false, op, offset, bytes, detail, position: 1 }
    }

    fn commands(trim_ranges: u32, records: &[TraceRecord]) -> Vec<String> {
        let mut fitter = Fitter::new(Fit::Clip, Late::Refuse, 1000, false);
        let mut assembler = Assembler::new(trim_ranges);
        let mut out = Vec::new();
        for record in records.iter().map(Some).chain([None]) {
            if let Some(done) = assembler.complete_before(record) {
                let ranges: Vec<String> = done
                    .ranges
                    .iter()
                    .map(|range| format!("{}+{}", range.lba.get(), range.sectors))
                    .collect();
                let to = done.destination.map_or(String::new(), |to| format!(" to {}", to.get()));
                out.push(format!("{} {}{to}", done.name(), ranges.join(" ")));
            }
            let Some(record) = record else { break };
            if Assembler::takes(record) {
                assembler.take(record, SimTime::ZERO, &mut fitter).expect("fits")
            } else {
                out.extend(fitter.requests(record).expect("fits").map(|one| one.op.name().to_owned()))
            }
        }
        out
    }

    #[test]
    fn ranges_of_one_command_come_together_and_others_stay_apart() {
        let records = [
            record(Op::Trim, 0, 1, Detail::Plain),
            record(Op::Trim, 5, 1, Detail::More),
            record(Op::Trim, 6, 1, Detail::More),
            record(Op::Trim, 7, 1, Detail::Plain),
            record(Op::Write, 7, 1, Detail::Plain),
            record(Op::Read, 20, 2, Detail::CopyTo(100 * S)),
            record(Op::Read, 30, 3, Detail::More),
            record(Op::Read, 40, 1, Detail::CopyTo(200 * S)),
            record(Op::Flush, 0, 0, Detail::Plain),
        ];
        let expected =
            ["trim 0+1 5+1 6+1", "trim 7+1", "write", "copy 20+2 30+3 to 100", "copy 40+1 to 200", "flush"];
        assert_eq!(commands(1, &records), expected);
    }

    #[test]
    fn trims_that_follow_each_other_are_joined_up_to_the_limit() {
        let plain = |first| record(Op::Trim, first, 1, Detail::Plain);
        let mut records: Vec<_> = [0, 1, 10, 20, 30].map(plain).to_vec();
        records.push(record(Op::Read, 0, 1, Detail::Plain));
        records.push(plain(40));
        assert_eq!(commands(3, &records), ["trim 0+2 10+1 20+1", "trim 30+1", "read", "trim 40+1"]);
        assert_eq!(commands(256, &records), ["trim 0+2 10+1 20+1 30+1", "read", "trim 40+1"]);
        let apart = commands(1, &records);
        assert_eq!(apart.iter().filter(|command| command.starts_with("trim")).count(), 6, "{apart:?}");
    }

    #[test]
    fn half_a_copy_is_no_copy() {
        let records = [
            record(Op::Read, 20, 2, Detail::CopyTo(100 * S)),
            record(Op::Read, 999, 2, Detail::More),
            record(Op::Read, 30, 1, Detail::More),
            record(Op::Read, 999, 2, Detail::CopyTo(0)),
            record(Op::Read, 30, 1, Detail::More),
            record(Op::Read, 31, 1, Detail::CopyTo(0)),
        ];
        assert_eq!(commands(1, &records), ["copy 31+1 to 0"]);
    }

    #[test]
    fn empty_ranges_are_left_out_of_copies_and_trims() {
        let records = [
            record(Op::Read, 0, 0, Detail::CopyTo(100 * S)),
            record(Op::Read, 7, 2, Detail::More),
            record(Op::Read, 9, 0, Detail::More),
            record(Op::Read, 0, 0, Detail::CopyTo(200 * S)),
            record(Op::Trim, 0, 0, Detail::Plain),
            record(Op::Trim, 5, 1, Detail::More),
            record(Op::Trim, 6, 0, Detail::Plain),
        ];
        assert_eq!(commands(1, &records), ["copy 7+2 to 100", "trim 5+1"]);
    }
}
