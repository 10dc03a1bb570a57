//! Naive block-mapped schemes, an independent check of the drive's merges and times. Pages of a block can be
//! programmed once each, in any order.
//!
//! Log blocks (BAST), below: a logical block has a data block and at most one log block for overwrites in order
//! of arrival. A new log takes the first free slot of the log table.

mod fast;
mod replacement;

use std::collections::{BTreeMap, BTreeSet};

use strobe_ssd::LogVictim;

use super::measure::{Cell, Point, run};
use super::pattern::{self, Pattern};
use super::{Absorbed, Workload};
use crate::{Options, Scale};

const PAGES: u64 = 32;
const SLOTS: usize = 64;

/// Chip times in ns. A read or program also takes the bus for 528 bytes at 50 ns each.
const BUS_NS: u64 = 528 * 50;
const READ_NS: u64 = 10_000 + BUS_NS;
/// An out-of-band area takes no time on the bus.
const SPARE_READ_NS: u64 = 10_000;
const PROGRAM_NS: u64 = 200_000 + BUS_NS;
const ERASE_NS: u64 = 2_000_000;

struct Log {
    block: u64,
    /// Offsets in write order.
    offsets: Vec<u64>,
    opened: u64,
    used: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    programs: u64,
    reads: u64,
    erases: u64,
    /// Switch, partial and full merges.
    merges: [u64; 3],
    logs: u64,
    log_pages: u64,
    thrashed: u64,
    /// Reads of an out-of-band area alone, among the reads.
    spare_reads: u64,
}

impl Counts {
    fn ns(&self) -> u64 {
        let of_reads = (self.reads - self.spare_reads) * READ_NS + self.spare_reads * SPARE_READ_NS;
        self.programs * PROGRAM_NS + of_reads + self.erases * ERASE_NS
    }
}

struct Bast {
    rule: LogVictim,
    /// Programmed offsets of each data block.
    data: BTreeMap<u64, BTreeSet<u64>>,
    /// Mapped offsets of each logical block.
    mapped: BTreeMap<u64, BTreeSet<u64>>,
    table: Vec<Option<Log>>,
    clock: u64,
    counts: Counts,
}

impl Bast {
    fn new(rule: LogVictim) -> Self {
        let table = (0..SLOTS).map(|_| None).collect();
        let (data, mapped) = (BTreeMap::new(), BTreeMap::new());
        Self { rule, data, mapped, table, clock: 0, counts: Counts::default() }
    }

    fn write(&mut self, sector: u64) {
        self.clock += 1;
        let (block, offset) = (sector / PAGES, sector % PAGES);
        let own = |log: &Option<Log>| log.as_ref().is_some_and(|log| log.block == block);
        if let Some(slot) = self.table.iter().position(own)
            && self.table[slot].as_ref().is_some_and(|log| log.offsets.len() as u64 == PAGES)
        {
            self.merge(slot);
        }
        self.counts.programs += 1;
        let mapped = self.mapped.entry(block).or_default();
        if let Some(slot) = self.table.iter().position(own) {
            mapped.insert(offset);
            let log = self.table[slot].as_mut().expect("found");
            log.offsets.push(offset);
            log.used = self.clock;
            return;
        }
        // A page of the data block is programmed once; every overwrite needs a log.
        if self.data.entry(block).or_default().insert(offset) {
            mapped.insert(offset);
            return;
        }
        let slot = self.table.iter().position(Option::is_none).unwrap_or_else(|| {
            let victim = self.victim();
            let log = self.table[victim].as_ref().expect("the table is full");
            self.counts.thrashed += u64::from(self.clock - log.opened < 200);
            self.merge(victim);
            victim
        });
        let (opened, used) = (self.clock, self.clock);
        self.table[slot] = Some(Log { block, offsets: vec![offset], opened, used });
    }

    fn victim(&self) -> usize {
        let mut best = 0;
        for slot in 1..SLOTS {
            let [log, so_far] = [slot, best].map(|slot| self.table[slot].as_ref().expect("full"));
            let is_better = match self.rule {
                LogVictim::Lru => log.used < so_far.used,
                _ => log.offsets.len() > so_far.offsets.len(),
            };
            if is_better {
                best = slot;
            }
        }
        best
    }

    fn merge(&mut self, slot: usize) {
        let Log { block, offsets, .. } = self.table[slot].take().expect("a log");
        let used = offsets.len() as u64;
        let mapped = self.mapped[&block].clone();
        // A log written in order from its first page becomes the data block: a switch or partial merge.
        let in_order = (0..).zip(&offsets).all(|(page, &offset)| page == offset);
        let copied = mapped.iter().filter(|&&offset| !in_order || offset >= used).count() as u64;
        self.counts.reads += copied;
        self.counts.programs += copied;
        // Erases the old data block, and the log unless it becomes the data block.
        self.counts.erases += if in_order { 1 } else { 2 };
        self.counts.merges[if !in_order { 2 } else { usize::from(used < PAGES) }] += 1;
        self.counts.logs += 1;
        self.counts.log_pages += used;
        self.data.insert(block, mapped);
    }
}

trait Naive {
    fn write(&mut self, sector: u64);

    /// Counts since the last call.
    fn take(&mut self) -> Counts;
}

impl Naive for Bast {
    fn write(&mut self, sector: u64) {
        self.write(sector);
    }

    fn take(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }
}

fn expected(pattern: &Pattern, naive: &mut dyn Naive) -> Counts {
    for write in pattern.format() {
        (write.sector..write.sector + u64::from(write.count)).for_each(|sector| naive.write(sector));
    }
    naive.take();
    for write in pattern.writes() {
        (write.sector..write.sector + u64::from(write.count)).for_each(|sector| naive.write(sector));
    }
    naive.take()
}

fn measured(pattern: &Pattern, cell: Cell, options: &Options) -> (Counts, u64) {
    let point = Point::new(cell, pattern, options).expect("a drive");
    let of = run(&point, pattern, &()).expect("runs");
    let logs = of.merges.iter().sum::<u64>();
    let share = |percent: f64| (percent * logs as f64 / 100.0).round() as u64;
    let counts = Counts {
        programs: of.programs,
        reads: of.reads,
        erases: of.erases,
        merges: of.merges,
        logs,
        log_pages: share(100.0 * of.pages_at_merge().expect("merges")),
        thrashed: share(of.thrashed_percent().expect("merges")),
        spare_reads: 0,
    };
    (counts, (of.drive_seconds() * 1e9).round() as u64)
}

#[test]
fn the_drive_merges_as_naive_log_blocks_do_and_takes_as_long() {
    let options = Options::new(Scale::Full, 1);
    let mut kinds = [0; 3];
    for (workload, most) in [(Workload::Camera, 200_000), (Workload::PostMark, 30_000)] {
        let pattern = pattern::record(workload, &options).expect("a pattern").first(most);
        for rule in [LogVictim::Lru, LogVictim::Fullest] {
            let expected = expected(&pattern, &mut Bast::new(rule));
            let cell = Cell { victim: rule, ..Cell::new(workload, "log-block", Absorbed::No) };
            let (counts, ns) = measured(&pattern, cell, &options);
            let name = format!("{} by {rule:?}", workload.name());
            assert_eq!(counts, expected, "{name}");
            assert_eq!(ns, expected.ns(), "{name}");
            kinds.iter_mut().zip(expected.merges).for_each(|(all, of)| *all += of);
        }
    }
    assert!(kinds.iter().all(|&count| count > 0), "no merges of some kind: {kinds:?}");
}
