//! What a host may expect to read after a power cut, and whether it does.

use std::collections::BTreeMap;

use strobe_ftl::Inspectable;
use strobe_nand::Payload;
use strobe_types::{Lpn, Op, Request};

use crate::command::{Command, Hint, Range};
use crate::drive::Drive;

/// What each mapping unit may read as: what it held at the last flush, or anything it held since. Memory:
/// one content per unit, and one per change since the last flush.
#[derive(Clone, Debug)]
pub(crate) struct Witness<P> {
    durable: Vec<P>,
    /// Everything that units changed since the last flush have held since, the newest last.
    since: BTreeMap<Lpn, Vec<P>>,
}

/// What a drive reads as after a power cut, against what it may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Mapping units compared: all of them.
    pub units: u64,
    /// Units that had been changed since the last flush.
    pub unflushed: u64,
    /// Of these, units that read as after their last change.
    pub newest: u64,
    /// Of these, units that read as they did at the last flush or in between: what had not been flushed is
    /// lost, as it may be.
    pub older: u64,
    /// Units that read as anything else: what had been flushed is lost, or what had been trimmed is back.
    pub wrong: Vec<Lpn>,
}

impl<P: Payload> Witness<P> {
    fn compare(&mut self, read: Vec<P>) -> Verdict {
        let mut verdict = Verdict { units: read.len() as u64, ..Verdict::default() };
        for (lpn, (content, durable)) in (0..).map(Lpn::new).zip(read.iter().zip(&self.durable)) {
            let Some(since) = self.since.get(&lpn) else {
                if content != durable {
                    verdict.wrong.push(lpn);
                }
                continue;
            };
            verdict.unflushed += 1;
            match since.last() {
                Some(newest) if newest == content => verdict.newest += 1,
                _ if content == durable || since.contains(content) => verdict.older += 1,
                _ => verdict.wrong.push(lpn),
            }
        }
        // What has been seen stays.
        self.durable = read;
        self.since.clear();
        verdict
    }
}

/// The mapping units that a command may change.
enum Touched<'a> {
    /// None, but what was changed before is durable when it is complete.
    Flush,
    Ranges(&'a [Range]),
    One {
        range: Range,
        fua: bool,
    },
    Nothing,
}

impl<F: Inspectable> Drive<F> {
    /// From now on keeps account of what every unit may read as after a power cut, so that
    /// [`Drive::verify`] can tell whether it does.
    pub fn watch(&mut self) {
        let durable = (0..self.ftl.logical_units()).map(|lpn| self.peek(Lpn::new(lpn))).collect();
        self.witness = Some(Box::new(Witness { durable, since: BTreeMap::new() }));
    }

    /// The content of a unit, without asking flash for it.
    fn peek(&self, lpn: Lpn) -> F::Payload {
        let cached = self.nvram.as_ref().and_then(|nvram| nvram.get(lpn));
        let cached = cached.or_else(|| self.buffer.as_ref()?.get(lpn).cloned());
        cached.unwrap_or_else(|| self.ftl.peek(lpn))
    }

    /// Reads every unit and compares it with what it may read as, since [`Drive::watch`]; `None` without.
    pub fn verify(&mut self) -> Option<Verdict> {
        let mut witness = self.witness.take()?;
        let read = (0..self.ftl.logical_units()).map(|lpn| self.peek(Lpn::new(lpn))).collect();
        let verdict = witness.compare(read);
        self.witness = Some(witness);
        Some(verdict)
    }

    #[inline(always)]
    pub(crate) fn witness_request(&mut self, request: Request, is_done: bool) {
        if self.witness.is_some() {
            self.witness_op(request, is_done);
        }
    }

    #[cold]
    fn witness_op(&mut self, request: Request, is_done: bool) {
        let ranges = [Range::new(request.lba, request.sectors)];
        let [range] = ranges;
        let command = match request.op {
            Op::Read => Command::Read { range },
            Op::Write => Command::Write { range, fua: false, hint: Hint::None },
            Op::Trim => Command::Deallocate(&ranges),
            Op::Flush => Command::Flush,
        };
        self.witness_command(&command, is_done);
    }

    /// Notes what `command`, which has been executed or has failed on the way, has changed.
    #[cold]
    pub(crate) fn witness_command(&mut self, command: &Command<'_>, is_done: bool) {
        let Some(mut witness) = self.witness.take() else { return };
        // What is complete after the cut has not happened.
        let counts = is_done && !self.was_cut();
        let one = |range| Touched::One { range, fua: false };
        let touched = match *command {
            Command::Read { .. } => Touched::Nothing,
            Command::Write { range, fua, .. } => Touched::One { range, fua },
            Command::Flush => Touched::Flush,
            Command::Deallocate(ranges) => Touched::Ranges(ranges),
            Command::WriteZeroes { range, .. } => one(range),
            Command::Copy { destination, sources } => {
                let sectors: u64 = sources.iter().map(|source| u64::from(source.sectors)).sum();
                one(Range::new(destination, u32::try_from(sectors).unwrap_or(u32::MAX)))
            }
        };
        match touched {
            Touched::Nothing => {}
            Touched::Flush if counts => {
                for (lpn, mut since) in std::mem::take(&mut witness.since) {
                    witness.durable[lpn.index()] = since.pop().unwrap_or_else(F::Payload::zero);
                }
            }
            Touched::Flush => {}
            Touched::Ranges(ranges) => {
                for &range in ranges {
                    self.witness_range(&mut witness, range, false);
                }
            }
            Touched::One { range, fua } => self.witness_range(&mut witness, range, fua && counts),
        }
        self.witness = Some(witness);
    }

    fn witness_range(&self, witness: &mut Witness<F::Payload>, range: Range, is_durable: bool) {
        let per_unit = u64::from(self.geometry.sectors_per_unit());
        let (start, end) = (range.lba.get(), range.lba.get().saturating_add(u64::from(range.sectors)));
        let units = start / per_unit..end.div_ceil(per_unit).min(u64::from(self.ftl.logical_units()));
        for lpn in units.map(|unit| Lpn::new(unit as u32)) {
            let content = self.peek(lpn);
            if is_durable {
                witness.since.remove(&lpn);
                witness.durable[lpn.index()] = content;
                continue;
            }
            let since = witness.since.entry(lpn).or_default();
            if since.last().unwrap_or(&witness.durable[lpn.index()]) != &content {
                since.push(content);
            }
            if since.is_empty() {
                witness.since.remove(&lpn);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unit 0 has not changed since the last flush, unit 1 has been 11, then 12.
    fn witness() -> Witness<u64> {
        Witness { durable: vec![5, 10], since: BTreeMap::from([(Lpn::new(1), vec![11, 12])]) }
    }

    #[test]
    fn whatever_was_held_since_the_last_flush_is_right() {
        for (content, newest) in [(10, 0), (11, 0), (12, 1)] {
            let verdict = witness().compare(vec![5, content]);
            assert_eq!((verdict.units, verdict.unflushed, verdict.wrong.len()), (2, 1, 0));
            assert_eq!((verdict.newest, verdict.older), (newest, 1 - newest));
        }
    }

    #[test]
    fn lost_and_resurrected_contents_are_wrong() {
        assert_eq!(witness().compare(vec![0, 12]).wrong, [Lpn::new(0)], "lost");
        assert_eq!(
            witness().compare(vec![4, 9]).wrong,
            [Lpn::new(0), Lpn::new(1)],
            "older than the last flush"
        );
    }

    #[test]
    fn what_was_read_after_a_cut_is_what_must_stay() {
        let mut witness = witness();
        witness.compare(vec![5, 11]);
        assert_eq!(witness.compare(vec![5, 12]).wrong, [Lpn::new(1)]);
    }
}
