//! Copies on their way: where they come from, and where they go.

use strobe_types::{Ppa, Stored};

use crate::map::page::reclaim::background::Background;

/// A program of copies on its way.
#[derive(Clone, Debug, Default, Stored)]
pub(super) struct Copies {
    /// Destinations: runs of units.
    pub(super) runs: Vec<(Ppa, u32)>,
    /// Sources of the units, in their order.
    pub(super) sources: Vec<Ppa>,
    /// The victims they are of.
    pub(super) of: Vec<u64>,
}

impl Background {
    /// The block of the units from `first` to `end` is about to be erased: copies that come from there, or go there, are
    /// found on their way no more.
    pub(crate) fn forget(&mut self, first: Ppa, end: Ppa) {
        let is_there = |ppa: Ppa| ppa >= first && ppa < end;
        for copies in self.copies.values_mut() {
            let goes = copies.runs.iter().any(|&(to, _)| is_there(to));
            if goes || copies.sources.iter().any(|&from| is_there(from)) {
                copies.runs.clear();
            }
        }
    }

    /// Returns the source of the copy that is being programmed at `ppa`.
    pub(crate) fn source_of(&self, ppa: Ppa) -> Option<Ppa> {
        self.copies.values().find_map(|copies| {
            let mut before = 0;
            for &(first, count) in &copies.runs {
                match ppa.get().checked_sub(first.get()) {
                    Some(at) if at < count => return copies.sources.get((before + at) as usize).copied(),
                    _ => before += count,
                }
            }
            None
        })
    }
}
