//! The part of a trace that is replayed.

use super::Detail;

/// A length of a trace, from a point of it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Requests; the ranges of a command are one request.
    Requests(u64),
    /// Bytes of the requests, whatever their kind.
    Bytes(u64),
    /// Nanoseconds on the trace's clock.
    Time(u64),
}

/// Distance covered within a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Covered {
    /// Requests.
    pub requests: u64,
    /// Bytes of these requests.
    pub bytes: u64,
}

impl Covered {
    /// Adds a record of `bytes`. A record that continues a command adds no request.
    #[inline]
    pub fn add(&mut self, bytes: u64, detail: Detail) {
        self.requests += u64::from(detail != Detail::More);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// True if `extent` is covered, with `ns` between its beginning and the next request.
    #[inline]
    pub fn is_past(&self, extent: Extent, ns: u64) -> bool {
        match extent {
            Extent::Requests(requests) => self.requests >= requests,
            Extent::Bytes(bytes) => self.bytes >= bytes,
            Extent::Time(time) => ns >= time,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Before,
    Within,
    After,
}

/// Finds the beginning and the end of the part of a trace.
#[derive(Debug)]
pub(super) struct Slice {
    skip: Extent,
    take: Option<Extent>,
    part: Part,
    /// Distance covered in the current part.
    covered: Covered,
    /// Time of the first record of the current part.
    start_ns: Option<u64>,
}

impl Slice {
    pub(super) fn new(skip: Option<Extent>, take: Option<Extent>) -> Option<Self> {
        let skip_or_nothing = skip.unwrap_or(Extent::Requests(0));
        let (covered, start_ns) = (Covered::default(), None);
        (skip.is_some() || take.is_some()).then_some(Self {
            skip: skip_or_nothing,
            take,
            part: Part::Before,
            covered,
            start_ns,
        })
    }

    /// True if the part ended before the trace, or if it has no end.
    pub(super) fn is_complete(&self) -> bool {
        self.take.is_none() || self.part == Part::After
    }

    pub(super) fn place(&mut self, time_ns: u64, bytes: u64, detail: Detail) -> Part {
        // A command is never divided: its ranges belong to the part of the first.
        if detail != Detail::More {
            self.advance(time_ns);
        }
        self.covered.add(bytes, detail);
        self.part
    }

    fn advance(&mut self, time_ns: u64) {
        let elapsed_ns = time_ns.saturating_sub(*self.start_ns.get_or_insert(time_ns));
        if self.part == Part::Before && self.covered.is_past(self.skip, elapsed_ns) {
            (self.part, self.covered, self.start_ns) = (Part::Within, Covered::default(), Some(time_ns));
        }
        let elapsed_ns = time_ns.saturating_sub(self.start_ns.unwrap_or(time_ns));
        if self.part == Part::Within && self.take.is_some_and(|take| self.covered.is_past(take, elapsed_ns)) {
            self.part = Part::After;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::TraceOptions;
    use super::super::testing::{read, shown};
    use super::*;

    /// Records of 4096 bytes at 0, 10, 20, ... ns; the third is a trim of two ranges.
    const TEXT: &str = "strobe trace 1\n0 write 0 4096\n10 read 4096 4096\n20 trim 0 4096\n20 + 8192 4096\n\
                        30 write 8192 4096\n40 write 12288 4096\n";

    fn part(skip: Option<Extent>, take: Option<Extent>) -> Vec<String> {
        let options = TraceOptions { skip, take, ..TraceOptions::default() };
        let (records, error) = read("strobe", TEXT.as_bytes(), &options);
        assert!(error.is_none(), "{error:?}");
        shown(&records).into_iter().map(|record| record.replace("+4096", "")).collect()
    }

    #[test]
    fn parts_are_those_of_a_naive_reading() {
        let all = part(None, None);
        let starts: [usize; 5] = [0, 1, 2, 4, 5];
        let (requests, bytes) = (Extent::Requests, |pages| Extent::Bytes(pages * 4096));
        for (skipped, &from) in starts.iter().enumerate() {
            for (taken, &to) in starts.iter().enumerate() {
                let (skip, take) = (skipped as u64, (taken.max(skipped) - skipped) as u64);
                let to = to.max(from);
                // Times count from the first request that is kept.
                let expected: Vec<String> = all[from..to]
                    .iter()
                    .map(|record| {
                        let (time, rest) = record.split_once(' ').expect("a time");
                        let time: u64 = time.parse().expect("a number");
                        format!("{} {rest}", time - 10 * skipped as u64)
                    })
                    .collect();
                for (skip, take) in [
                    (requests(skip), requests(take)),
                    (Extent::Time(10 * skip), Extent::Time(10 * take)),
                    (bytes(from as u64), bytes((to - from) as u64)),
                ] {
                    assert_eq!(part(Some(skip), Some(take)), expected, "{skip:?} {take:?}");
                }
            }
        }
        assert_eq!(part(Some(Extent::Requests(0)), None), all);
        assert_eq!(part(None, Some(Extent::Bytes(1))), all[..1]);
        assert!(part(Some(Extent::Time(41)), None).is_empty());
    }

    #[test]
    fn what_is_skipped_is_counted() {
        let mut slice = Slice::new(Some(Extent::Requests(1)), Some(Extent::Requests(1))).expect("given");
        let parts = [0, 1, 2].map(|at| slice.place(at, 512, Detail::Plain));
        assert_eq!(parts, [Part::Before, Part::Within, Part::After]);
        assert!(Slice::new(None, None).is_none());
    }
}
