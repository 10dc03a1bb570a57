//! Naive FAST: overwrites of the first sector of a logical block open the sequential log, the next sectors in
//! order continue it, and all others enter random logs that the logical blocks share.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Counts, Naive, PAGES, SLOTS, expected, measured};
use crate::nvram::measure::Cell;
use crate::nvram::pattern;
use crate::nvram::{Absorbed, Workload};
use crate::{Options, Scale};

/// A flash block; blocks are numbered in the order of their use.
type Block = u64;

#[derive(Default)]
struct Fast {
    used: Block,
    /// Block with the newest version of each sector.
    newest: BTreeMap<u64, Block>,
    /// Data block of each logical block, and its programmed offsets.
    data: BTreeMap<u64, (Block, BTreeSet<u64>)>,
    /// Logical block of the sequential log, its block, and the sectors in it.
    sequential: Option<(u64, Block, u64)>,
    /// Random logs with their sectors, oldest first.
    random: VecDeque<(Block, Vec<u64>)>,
    counts: Counts,
}

impl Fast {
    fn block(&mut self) -> Block {
        self.used += 1;
        self.used
    }

    fn program(&mut self, sector: u64, block: Block) {
        self.counts.programs += 1;
        self.newest.insert(sector, block);
    }

    /// Copies the sectors of `logical` from `from` on that `block` lacks. `new` is programmed, not copied.
    fn copy(&mut self, logical: u64, from: u64, block: Block, new: Option<u64>) {
        for sector in logical * PAGES + from..(logical + 1) * PAGES {
            if new == Some(sector) {
                self.program(sector, block);
            } else if self.newest.get(&sector).is_some_and(|&holder| holder != block) {
                self.counts.reads += 1;
                self.program(sector, block);
            }
        }
    }

    /// Makes `block` the data block of `logical`; the block that it replaces is erased.
    fn replace(&mut self, logical: u64, block: Block) {
        let sectors = logical * PAGES..(logical + 1) * PAGES;
        let offsets = sectors.filter(|sector| self.newest.contains_key(sector)).map(|sector| sector % PAGES);
        let offsets: BTreeSet<u64> = offsets.collect();
        if self.data.insert(logical, (block, offsets)).is_some() {
            self.counts.erases += 1;
        }
    }

    fn merge_full(&mut self, logical: u64, new: Option<u64>) {
        self.counts.merges[2] += 1;
        let block = self.block();
        self.copy(logical, 0, block, new);
        self.replace(logical, block);
        if self.sequential.take_if(|(of, ..)| *of == logical).is_some() {
            self.counts.erases += 1;
        }
    }

    /// Ends the sequential log, together with the sector `new` of its logical block.
    fn close(&mut self, new: Option<u64>) {
        let Some((logical, block, count)) = self.sequential else { return };
        let first = logical * PAGES;
        let is_newest = (first..first + count).all(|sector| self.newest[&sector] == block);
        let follows = new.is_none_or(|sector| sector >= first + count);
        if !is_newest || !follows {
            return self.merge_full(logical, new);
        }
        self.counts.merges[usize::from(count < PAGES || new.is_some())] += 1;
        self.copy(logical, count, block, new);
        self.replace(logical, block);
        self.sequential = None;
    }

    fn reclaim(&mut self) {
        let (block, sectors) = self.random.front().cloned().expect("all logs are in use");
        for sector in sectors {
            if self.newest[&sector] == block {
                self.merge_full(sector / PAGES, None);
            }
        }
        self.random.pop_front();
        self.counts.erases += 1;
    }
}

impl Naive for Fast {
    fn write(&mut self, sector: u64) {
        let (logical, offset) = (sector / PAGES, sector % PAGES);
        if !self.data.contains_key(&logical) {
            let block = self.block();
            self.data.insert(logical, (block, BTreeSet::new()));
        }
        let (data, offsets) = self.data.get_mut(&logical).expect("inserted");
        let data = *data;
        if offsets.insert(offset) {
            return self.program(sector, data);
        }
        match self.sequential {
            _ if offset == 0 => {
                self.close(None);
                let block = self.block();
                self.sequential = Some((logical, block, 1));
                self.program(sector, block);
            }
            Some((of, block, count)) if of == logical && count == offset => {
                self.sequential = Some((of, block, count + 1));
                self.program(sector, block);
            }
            Some((of, ..)) if of == logical => self.close(Some(sector)),
            _ => {
                if self.random.back().is_none_or(|(_, sectors)| sectors.len() as u64 == PAGES) {
                    if self.random.len() + 1 == SLOTS {
                        self.reclaim();
                    }
                    let block = self.block();
                    self.random.push_back((block, Vec::new()));
                }
                let (block, sectors) = self.random.back_mut().expect("with space");
                sectors.push(sector);
                let block = *block;
                self.program(sector, block);
            }
        }
    }

    fn take(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }
}

#[test]
fn the_drive_merges_as_naive_fast_does_and_takes_as_long() {
    let options = Options::new(Scale::Full, 1);
    let mut kinds = [0; 3];
    for (workload, most) in [(Workload::Camera, 200_000), (Workload::PostMark, 30_000)] {
        let pattern = pattern::record(workload, &options).expect("a pattern").first(most);
        let expected = expected(&pattern, &mut Fast::default());
        let (counts, ns) = measured(&pattern, Cell::new(workload, "fast", Absorbed::No), &options);
        // The naive logs do not count how full they were.
        let counts = Counts { logs: 0, log_pages: 0, thrashed: 0, ..counts };
        assert_eq!(counts, expected, "{}", workload.name());
        assert_eq!(ns, expected.ns(), "{}", workload.name());
        kinds.iter_mut().zip(expected.merges).for_each(|(all, of)| *all += of);
    }
    assert!(kinds.iter().all(|&count| count > 0), "no merges of some kind: {kinds:?}");
}
