//! Naive replacement blocks: a logical block is a chain of blocks, and an overwrite goes to the first block of
//! the chain whose page at its offset is free.

use std::collections::{BTreeMap, BTreeSet};

use super::{Counts, Naive, PAGES, SLOTS, expected, measured};
use crate::nvram::measure::Cell;
use crate::nvram::pattern;
use crate::nvram::{Absorbed, Workload};
use crate::{Options, Scale};

#[derive(Default)]
struct Chains {
    /// Programmed offsets of each block of each chain. The last block with an offset has its newest version.
    chains: BTreeMap<u64, Vec<BTreeSet<u64>>>,
    counts: Counts,
}

impl Chains {
    fn replacements(&self) -> usize {
        self.chains.values().map(|chain| chain.len() - 1).sum()
    }

    /// Folds the longest chain, of equals the first.
    fn fold(&mut self) {
        let longest = self.chains.values().map(Vec::len).max().unwrap_or(0);
        let chain = self.chains.values_mut().find(|chain| chain.len() == longest).expect("a chain");
        let all: BTreeSet<u64> = chain.iter().flatten().copied().collect();
        let last = chain.last().expect("blocks");
        // Every newest version is in the last block or fits there, as an offset that is not programmed in the last
        // block is free in it.
        let copied = all.difference(last).count() as u64;
        self.counts.reads += copied;
        self.counts.programs += copied;
        self.counts.erases += chain.len() as u64 - 1;
        self.counts.merges[1] += 1;
        *chain = vec![all];
    }
}

impl Naive for Chains {
    fn write(&mut self, sector: u64) {
        let (logical, offset) = (sector / PAGES, sector % PAGES);
        loop {
            let chain = self.chains.entry(logical).or_default();
            let free = chain.iter().position(|block| !block.contains(&offset));
            let walked = free.map_or(chain.len(), |at| at + 1) as u64;
            self.counts.reads += walked;
            self.counts.spare_reads += walked;
            if let Some(at) = free {
                chain[at].insert(offset);
                self.counts.programs += 1;
                return;
            }
            let is_first = chain.is_empty();
            if is_first {
                chain.push(BTreeSet::new());
                continue;
            }
            if self.replacements() >= SLOTS {
                self.fold();
                if self.chains[&logical].len() <= 1 {
                    continue;
                }
            }
            self.chains.get_mut(&logical).expect("a chain").push(BTreeSet::new());
        }
    }

    fn take(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }
}

#[test]
fn the_drive_folds_as_naive_replacement_blocks_do_and_takes_as_long() {
    let options = Options::new(Scale::Full, 1);
    for (workload, most) in [(Workload::Camera, 100_000), (Workload::PostMark, 20_000)] {
        let pattern = pattern::record(workload, &options).expect("a pattern").first(most);
        let expected = expected(&pattern, &mut Chains::default());
        let cell = Cell::new(workload, "replacement-block", Absorbed::No);
        let (counts, ns) = measured(&pattern, cell, &options);
        let counts =
            Counts { logs: 0, log_pages: 0, thrashed: 0, spare_reads: expected.spare_reads, ..counts };
        assert_eq!(counts, expected, "{}", workload.name());
        assert_eq!(ns, expected.ns(), "{}", workload.name());
        assert!(expected.merges[1] > 100, "{expected:?}");
    }
}
