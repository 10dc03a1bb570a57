use strobe_types::{Ppa, Stored};

use crate::map::page::reclaim::background::Background;

#[derive(Clone, Debug, Default, Stored)]
pub(super) struct Copies {
    /// Destinations: first address and length of each run.
    pub(super) runs: Vec<(Ppa, u32)>,
    /// Sources of the units, in the same order.
    pub(super) sources: Vec<Ppa>,
    /// Numbers of the victims that hold the sources.
    pub(super) of: Vec<u64>,
}

impl Background {
    /// Forgets the addresses of in-flight copies from or to `first..end`, a block about to be erased.
    pub(crate) fn forget(&mut self, first: Ppa, end: Ppa) {
        let is_there = |ppa: Ppa| ppa >= first && ppa < end;
        for copies in self.copies.values_mut() {
            let goes = copies.runs.iter().any(|&(to, _)| is_there(to));
            if goes || copies.sources.iter().any(|&from| is_there(from)) {
                copies.runs.clear();
            }
        }
    }

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
