//! Oracle of power cuts: contents that the host may read afterwards, compared with those that it reads.

use std::collections::BTreeMap;
use std::ops::Range;

use strobe_nand::Payload;
use strobe_types::Lpn;

/// Legal contents of each mapping unit: the one at the last flush, and every one since. Memory: one content
/// per unit, and one per change since the last flush.
#[derive(Clone, Debug)]
pub(crate) struct Witness<P> {
    durable: Vec<P>,
    /// Everything that units changed since the last flush have held since, the newest last.
    since: BTreeMap<Lpn, Vec<(u64, P)>>,
    /// Changes noted: each has its number.
    seen: u64,
}

/// Result of comparing the contents of a drive after a power cut with the legal ones.
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
    /// A witness of units that hold `contents`, all of which is durable.
    pub(crate) fn new(contents: Vec<P>) -> Self {
        Self { durable: contents, since: BTreeMap::new(), seen: 0 }
    }

    /// Changes noted so far.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Notes that a unit holds `content` now, until power is cut.
    pub(crate) fn holds(&mut self, lpn: Lpn, content: P) {
        let since = self.since.get(&lpn).and_then(|since| since.last());
        if since.map_or(&self.durable[lpn.index()], |(_, newest)| newest) != &content {
            self.seen += 1;
            self.since.entry(lpn).or_default().push((self.seen, content));
        }
    }

    /// Notes that what the units of `range`, or all of them, held at change number `seen` is durable.
    pub(crate) fn durable(&mut self, range: Option<Range<Lpn>>, seen: u64) {
        let range = range.unwrap_or(Lpn::new(0)..Lpn::new(u32::MAX));
        let mut emptied = Vec::new();
        for (&lpn, since) in self.since.range_mut(range) {
            let known = since.partition_point(|&(number, _)| number <= seen);
            if let Some((_, content)) = since.drain(..known).next_back() {
                self.durable[lpn.index()] = content;
            }
            if since.is_empty() {
                emptied.push(lpn);
            }
        }
        for lpn in emptied {
            self.since.remove(&lpn);
        }
    }

    /// Compares what the units read as after a power cut with what they may.
    pub(crate) fn compare(&mut self, read: Vec<P>) -> Verdict {
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
                Some((_, newest)) if newest == content => verdict.newest += 1,
                _ if content == durable || since.iter().any(|(_, held)| held == content) => {
                    verdict.older += 1
                }
                _ => verdict.wrong.push(lpn),
            }
        }
        // What has been seen stays.
        self.durable = read;
        self.since.clear();
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unit 0 has not changed since the last flush, unit 1 has been 11, then 12.
    fn witness() -> Witness<u64> {
        Witness {
            durable: vec![5, 10],
            since: BTreeMap::from([(Lpn::new(1), vec![(1, 11), (2, 12)])]),
            seen: 2,
        }
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
