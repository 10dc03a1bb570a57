//! Places of a cache, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use strobe_types::SimTime;

/// The places of a cache that hold nothing: how many, and from when on they are free. A place whose
/// unit is on its way is free when the program completes. Keeping times, not a count, makes the
/// answer right for commands that reach the cache out of the order of time.
#[derive(Clone, Debug)]
pub(crate) struct Places(BinaryHeap<Reverse<(SimTime, usize)>>);

impl Places {
    /// So many places, free from the beginning.
    pub(crate) fn new(count: usize) -> Self {
        Self(BinaryHeap::from([Reverse((SimTime::ZERO, count))]))
    }

    /// Takes the place that is free first; returns from when on. `None`: there is none.
    pub(crate) fn take(&mut self) -> Option<SimTime> {
        let mut first = self.0.peek_mut()?;
        let Reverse((free, count)) = *first;
        if count > 1 {
            *first = Reverse((free, count - 1));
        } else {
            PeekMut::pop(first);
        }
        Some(free)
    }

    /// Gives `count` places back, free from `from` on.
    pub(crate) fn give(&mut self, from: SimTime, count: usize) {
        if count > 0 {
            self.0.push(Reverse((from, count)));
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|Reverse((_, count))| count).sum()
    }
}
