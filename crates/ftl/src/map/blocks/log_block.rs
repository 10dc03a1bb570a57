//! One log block per data block (Kim, Kim, Noh, Min & Cho, "A space-efficient flash translation layer for
//! CompactFlash systems", IEEE Trans. Consumer Electronics 48(2), 2002). As in the paper, a log block that
//! holds the first sectors in order is filled up from the data block and replaces it.

use strobe_nand::{Nand, When};
use strobe_types::{BlockId, Stored};

use super::config::LogVictim;
use super::found::Found;
use super::scheme::Scheme;
use super::sectors::{New, Sectors};
use crate::recovery::damaged;
use crate::{CheckError, Done, Recovery, RecoveryError};

#[derive(Clone, Copy, Debug, Stored)]
struct Log {
    logical: u32,
    block: BlockId,
    next: u32,
    /// True if every page so far holds the sector at its offset.
    in_order: bool,
    /// Number of the write that opened the log block.
    opened: u64,
    /// Number of its last write; after a power cut, `opened`.
    used: u64,
}

/// Each data block has at most one log block, which takes overwrites in arrival order.
#[derive(Clone, Debug, Stored)]
pub(super) struct LogBlock {
    data: Vec<Option<BlockId>>,
    log_of: Vec<Option<u32>>,
    /// Slots of log blocks; grows up to the configured number.
    logs: Vec<Option<Log>>,
    writes: u64,
}

/// A log block merged within this many writes of its opening counts as thrashing.
const THRASHING_WRITES: u64 = 200;

const NAMED: &str = "a slot that is named holds a log";

impl LogBlock {
    /// Returns the completion time, or the time of a failed program as an error.
    fn append<N: Nand>(
        &mut self,
        sectors: &mut Sectors<N>,
        now: When,
        at: u32,
        new: New<'_, N>,
    ) -> Result<When, When> {
        let log = self.logs[at as usize].as_mut().expect(NAMED);
        let offset = log.next;
        let is_its_place = new.0.lpn.get() % sectors.per_block == offset;
        (log.next, log.used) = (offset + 1, self.writes);
        log.in_order &= is_its_place;
        sectors.program(now, log.block, offset, new).map_err(|failed| {
            // The failed page holds no sector, so this log can no longer become the data block.
            log.in_order = false;
            failed.at
        })
    }

    fn merge<N: Nand>(&mut self, sectors: &mut Sectors<N>, now: When, at: u32) -> Done {
        sectors.stats.gc.runs += 1;
        let Log { logical, block, next, in_order, .. } = self.logs[at as usize].expect(NAMED);
        sectors.count_merged_log(block);
        let mut done = now;
        let mut target = None;
        // Switch or partial merge: a log in order is filled up and becomes the data block. Otherwise full
        // merge.
        if in_order {
            match sectors.fill(now, logical, block, next, None, 0) {
                Ok(filled) => {
                    let merges = sectors.stats.merges();
                    *(if next == sectors.per_block { &mut merges.switched } else { &mut merges.partial }) +=
                        1;
                    (done, target) = (filled, Some(block));
                }
                Err(failed) => done = failed.at,
            }
        }
        if target.is_none() {
            (target, done) = sectors.rebuild(done, logical, None)?;
        }
        (self.logs[at as usize], self.log_of[logical as usize]) = (None, None);
        let old = std::mem::replace(&mut self.data[logical as usize], target);
        let replaced = [old, Some(block)].into_iter().flatten().filter(|&block| Some(block) != target);
        let erased = sectors.erase_merged(done, replaced)?;
        Ok(erased)
    }

    /// `None` if `most` logs are open.
    fn free_slot(&self, most: u32) -> Option<usize> {
        let free = self.logs.iter().position(Option::is_none).unwrap_or(self.logs.len());
        (free < most as usize).then_some(free)
    }

    fn open<N: Nand>(&mut self, sectors: &mut Sectors<N>, now: When, logical: u32) -> Done {
        let most = sectors.config.log_blocks;
        let (slot, now) = match self.free_slot(most) {
            Some(slot) => (slot, now),
            // All log blocks are in use: merging the victim frees its slot.
            None => {
                let victim = self.victim(sectors.config.log_victim);
                let opened = self.logs[victim as usize].as_ref().map_or(0, |log| log.opened);
                if self.writes - opened < THRASHING_WRITES {
                    sectors.stats.merges().thrashed_logs += 1;
                }
                (victim as usize, self.merge(sectors, now, victim)?)
            }
        };
        let block = sectors.take_block(logical)?;
        let (opened, used) = (self.writes, self.writes);
        if slot == self.logs.len() {
            self.logs.push(None);
        }
        self.logs[slot] = Some(Log { logical, block, next: 0, in_order: true, opened, used });
        self.log_of[logical as usize] = Some(slot as u32);
        Ok(now)
    }

    fn victim(&self, rule: LogVictim) -> u32 {
        let first_of = |log: &Log| {
            let by = match rule {
                LogVictim::Lru => 0,
                LogVictim::Mru => u64::MAX - log.used,
                LogVictim::Fifo => log.opened,
                LogVictim::Fullest => u64::from(u32::MAX - log.next),
                LogVictim::Emptiest => u64::from(log.next),
            };
            (by, if rule == LogVictim::Fullest { 0 } else { log.used })
        };
        // Ties go to the first slot.
        let logs = (0..).zip(&self.logs).filter_map(|(slot, log)| Some((slot, log.as_ref()?)));
        logs.min_by_key(|(_, log)| first_of(log)).map_or(0, |(slot, _)| slot)
    }
}

impl<N: Nand> Scheme<N> for LogBlock {
    fn new(sectors: &Sectors<N>) -> Self {
        let blocks = sectors.logical_blocks() as usize;
        Self { data: vec![None; blocks], log_of: vec![None; blocks], logs: Vec::new(), writes: 0 }
    }

    fn write(&mut self, sectors: &mut Sectors<N>, now: When, new: New<'_, N>) -> Done {
        self.writes += 1;
        let (logical, offset) = sectors.split(new.0.lpn);
        let mut now = now;
        loop {
            if let Some(at) = self.log_of[logical as usize] {
                // A full log is merged before it takes another write.
                if self.logs[at as usize].is_some_and(|log| log.next == sectors.per_block) {
                    now = self.merge(sectors, now, at)?;
                    continue;
                }
                match self.append(sectors, now, at, new) {
                    Ok(done) => return Ok(done),
                    Err(failed) => now = failed,
                }
                continue;
            }
            let data = &mut self.data[logical as usize];
            if let Some(block) = sectors.open_data(data, logical, offset)? {
                match sectors.program(now, block, offset, new) {
                    Ok(done) => return Ok(done),
                    Err(failed) => now = failed.at,
                }
                continue;
            }
            now = self.open(sectors, now, logical)?;
        }
    }

    fn restore(
        sectors: &mut Sectors<N>,
        found: Found,
        _report: &mut Recovery,
    ) -> Result<Self, RecoveryError> {
        let mut scheme = Self::new(sectors);
        let per_block = sectors.per_block;
        let (of_one, mixed) = found.by_logical(per_block, |_| false);
        if let Some(mixed) = mixed.first() {
            return damaged(format!("{:?} holds sectors of several logical blocks", mixed.block));
        }
        for (logical, mut blocks) in of_one {
            // The data block has every sector at its offset; a second block is the log.
            if blocks.first().is_some_and(|first| first.is_in_place(per_block)) {
                scheme.data[logical as usize] = Some(blocks.remove(0).block);
            }
            let Some(log) = blocks.pop() else { continue };
            if let Some(third) = blocks.first() {
                return damaged(format!(
                    "logical block {logical} has more than a data and a log block: {:?}",
                    third.block
                ));
            }
            let in_order = log.is_prefix(per_block);
            let opened = log.opened();
            scheme.log_of[logical as usize] = Some(scheme.logs.len() as u32);
            let (block, next) = (log.block, log.end);
            scheme.logs.push(Some(Log { logical, block, next, in_order, opened, used: opened }));
            scheme.writes = scheme.writes.max(opened);
        }
        if scheme.logs.len() as u32 <= sectors.config.log_blocks {
            Ok(scheme)
        } else {
            damaged(format!("there are {} log blocks", scheme.logs.len()))
        }
    }

    fn check(&self, sectors: &Sectors<N>) -> Result<u32, CheckError> {
        let mut open = 0;
        for (slot, log) in (0..).zip(&self.logs) {
            let Some(log) = log else { continue };
            open += 1;
            if self.log_of[log.logical as usize] != Some(slot) {
                return Err(CheckError(format!("the log of logical block {} is lost", log.logical)));
            }
        }
        let logs = self.log_of.iter().flatten().count();
        if logs != open || self.logs.len() > sectors.config.log_blocks as usize {
            return Err(CheckError(format!("{open} logs, {logs} are named")));
        }
        Ok((self.data.iter().flatten().count() + logs) as u32)
    }
}
