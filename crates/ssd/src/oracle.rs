//! Oracle for power cuts: compares the content of the drive after a cut with the legal contents.

use std::collections::BTreeMap;
use std::ops::Range;

use strobe_nand::Payload;
use strobe_types::Lpn;

/// Legal contents of each unit after a cut: at the last flush, and after each change since. Memory: one
/// content per unit, and one per change.
#[derive(Clone, Debug)]
pub(crate) struct Oracle<P> {
    durable: Vec<P>,
    /// Contents since the last flush, each with its change number, the newest last.
    since: BTreeMap<Lpn, Vec<(u64, P)>>,
    seen: u64,
}

/// Contents of a drive after a power cut, compared with the legal ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Mapping units compared: all of them.
    pub units: u64,
    /// Units changed since the last flush.
    pub unflushed: u64,
    /// Unflushed units with their newest content.
    pub newest: u64,
    /// Unflushed units with their content at the last flush or an intermediate one since: a legal loss.
    pub older: u64,
    /// Units with an illegal content: flushed data was lost, or trimmed data came back.
    pub wrong: Vec<Lpn>,
}

impl<P: Payload> Oracle<P> {
    pub(crate) fn new(contents: Vec<P>) -> Self {
        Self { durable: contents, since: BTreeMap::new(), seen: 0 }
    }

    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    pub(crate) fn holds(&mut self, lpn: Lpn, content: P) {
        // Contents equal to the newest one are no change.
        let since = self.since.get(&lpn).and_then(|since| since.last());
        if since.map_or(&self.durable[lpn.index()], |(_, newest)| newest) != &content {
            self.seen += 1;
            self.since.entry(lpn).or_default().push((self.seen, content));
        }
    }

    /// Makes changes up to number `seen` durable, for the units of `range` or all.
    pub(crate) fn durable(&mut self, range: Option<Range<Lpn>>, seen: u64) {
        let range = range.unwrap_or(Lpn::new(0)..Lpn::new(u32::MAX));
        let mut emptied = Vec::new();
        for (&lpn, since) in self.since.range_mut(range) {
            // The newest change up to `seen` becomes the durable content; older ones are no longer legal.
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
        // A content that was read after the cut must not change any more, so it is durable from now on.
        self.durable = read;
        self.since.clear();
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unit 0 has not changed since the last flush, unit 1 has been 11, then 12.
    fn oracle() -> Oracle<u64> {
        Oracle {
            durable: vec![5, 10],
            since: BTreeMap::from([(Lpn::new(1), vec![(1, 11), (2, 12)])]),
            seen: 2,
        }
    }

    #[test]
    fn whatever_was_held_since_the_last_flush_is_right() {
        for (content, newest) in [(10, 0), (11, 0), (12, 1)] {
            let verdict = oracle().compare(vec![5, content]);
            assert_eq!((verdict.units, verdict.unflushed, verdict.wrong.len()), (2, 1, 0));
            assert_eq!((verdict.newest, verdict.older), (newest, 1 - newest));
        }
    }

    #[test]
    fn lost_and_resurrected_contents_are_wrong() {
        assert_eq!(oracle().compare(vec![0, 12]).wrong, [Lpn::new(0)], "lost");
        assert_eq!(
            oracle().compare(vec![4, 9]).wrong,
            [Lpn::new(0), Lpn::new(1)],
            "older than the last flush"
        );
    }

    #[test]
    fn what_was_read_after_a_cut_is_what_must_stay() {
        let mut oracle = oracle();
        oracle.compare(vec![5, 11]);
        assert_eq!(oracle.compare(vec![5, 12]).wrong, [Lpn::new(1)]);
    }
}
