//! What is booked of a resource in virtual time.

use std::collections::VecDeque;

use strobe_types::SimTime;

/// The future of something that does one thing at a time: intervals that are taken, in order.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    taken: VecDeque<(SimTime, SimTime)>,
    /// Nothing is free before this.
    closed_before: SimTime,
}

/// A shared bus or link.
pub type Bus = Schedule;

impl Schedule {
    /// Intervals remembered. Older gaps are forgotten (counted as taken), which bounds the cost of
    /// a booking; it is several collections deep.
    const MEMORY: usize = 1024;

    /// Books `duration_ns` at the first possible time from `earliest` on; returns the start.
    #[inline]
    pub fn reserve(&mut self, earliest: SimTime, duration_ns: u64) -> SimTime {
        let start = self.next_fit(earliest, duration_ns);
        self.book(start, duration_ns);
        start
    }

    /// The first time from `earliest` on at which `duration_ns` fits.
    #[inline]
    pub(super) fn next_fit(&self, earliest: SimTime, duration_ns: u64) -> SimTime {
        if duration_ns == 0 {
            return earliest;
        }
        let earliest = earliest.max(self.closed_before);
        match self.taken.back() {
            Some(last) if earliest < last.1 => self.next_gap(earliest, duration_ns),
            _ => earliest,
        }
    }

    fn next_gap(&self, earliest: SimTime, duration_ns: u64) -> SimTime {
        let mut start = earliest;
        let first = self.taken.partition_point(|&(_, end)| end <= earliest);
        for &(from, until) in self.taken.range(first..) {
            if start + duration_ns <= from {
                break;
            }
            start = until;
        }
        start
    }

    /// Takes an interval that [`Schedule::next_fit`] has found free.
    #[inline]
    pub(super) fn book(&mut self, start: SimTime, duration_ns: u64) {
        let end = start + duration_ns;
        if start == end {
            return;
        }
        match self.taken.back_mut() {
            Some(last) if last.1 == start => last.1 = end,
            Some(last) if start < last.1 => self.book_in_gap(start, end),
            _ => self.taken.push_back((start, end)),
        }
        if self.taken.len() > Self::MEMORY
            && let Some((_, until)) = self.taken.pop_front()
        {
            self.closed_before = until;
        }
    }

    /// Inserts an interval, joining it with neighbours that it touches.
    fn book_in_gap(&mut self, start: SimTime, end: SimTime) {
        let at = self.taken.partition_point(|&(_, until)| until <= start);
        debug_assert!(end <= self.taken[at].0, "booked twice");
        let follows = at > 0 && self.taken[at - 1].1 == start;
        let precedes = self.taken[at].0 == end;
        match (follows, precedes) {
            (true, true) => {
                self.taken[at - 1].1 = self.taken[at].1;
                self.taken.remove(at);
            }
            (true, false) => self.taken[at - 1].1 = end,
            (false, true) => self.taken[at].0 = start,
            (false, false) => self.taken.insert(at, (start, end)),
        }
    }

    /// Lets the booking that ends at `end` end at `later`; false, and nothing changed, if
    /// something else is booked there.
    pub(super) fn extend(&mut self, end: SimTime, later: SimTime) -> bool {
        if later <= end {
            return true;
        }
        let free = self.next_fit(end, later.since(end)) == end;
        if free {
            self.book(end, later.since(end));
        }
        free
    }

    /// When the last booking ends.
    pub(super) fn idle_at(&self) -> SimTime {
        self.taken.back().map_or(self.closed_before, |last| last.1)
    }
}
