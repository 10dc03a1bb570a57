//! FAST (Lee, Park, Chung, Lee, Park & Song, "A log buffer-based flash translation layer using
//! fully-associative sector translation", ACM TECS 6(3), 2007): one log block for sequential writes, the
//! others shared by all data blocks.

use std::collections::VecDeque;

use strobe_nand::{Cause, Nand, When};
use strobe_types::{BlockId, Lpn, Stored};

use super::found::{Found, FoundBlock};
use super::scheme::Scheme;
use super::sectors::{New, Sectors};
use crate::recovery::damaged;
use crate::{CheckError, Done, Recovery, RecoveryError};

/// The first sectors of one logical block, in order.
#[derive(Clone, Copy, Debug, Stored)]
struct Sequential {
    logical: u32,
    block: BlockId,
    next: u32,
}

/// A random log and a sequential log block that can become a data block.
///
/// A random log block never begins with the first sector of a logical block: that sector opens the sequential
/// log. After a power cut, the first page therefore distinguishes random log from data blocks.
#[derive(Clone, Debug, Stored)]
pub(super) struct Fast {
    data: Vec<Option<BlockId>>,
    sequential: Option<Sequential>,
    /// Random log blocks, oldest first.
    random: VecDeque<BlockId>,
    /// Next page to program in the newest random log block.
    next: u32,
}

impl Fast {
    fn append<N: Nand>(&mut self, sectors: &mut Sectors<N>, now: When, new: New<'_, N>) -> Done {
        let mut now = now;
        loop {
            let newest = match self.random.back() {
                Some(&block) if self.next < sectors.per_block => block,
                _ => {
                    // One log block is reserved for sequential writes.
                    if self.random.len() as u32 + 1 >= sectors.config.log_blocks {
                        now = self.reclaim(sectors, now)?;
                    }
                    let block = sectors.take_block(self.random.len() as u32)?;
                    self.random.push_back(block);
                    self.next = 0;
                    block
                }
            };
            let page = self.next;
            self.next += 1;
            match sectors.program(now, newest, page, new) {
                Ok(done) => return Ok(done),
                Err(failed) => now = failed.at,
            }
            if page == 0 {
                // The first page must be legible: recovery identifies the block by it.
                self.random.pop_back();
                self.next = sectors.per_block;
                now = sectors.erase(now, newest, Cause::Merge)?;
            }
        }
    }

    /// Empties the oldest random log block by merging every logical block with newest versions there.
    fn reclaim<N: Nand>(&mut self, sectors: &mut Sectors<N>, now: When) -> Done {
        let Some(oldest) = self.random.front().copied() else { return Ok(now) };
        sectors.stats.gc.runs += 1;
        sectors.count_merged_log(oldest);
        let mut done = now;
        for page in 0..sectors.per_block {
            // A full merge moves all sectors of its logical block, so later pages may be invalid already.
            if sectors.valid[oldest.index()] == 0 {
                break;
            }
            let ppa = sectors.nand.geometry().first_unit_of_page(sectors.page(oldest, page));
            let lpn: Option<Lpn> = sectors.nand.lpn(ppa);
            if let Some(lpn) = lpn.filter(|&lpn| sectors.place(lpn) == Some(ppa)) {
                let logical = sectors.split(lpn).0;
                if let Some(log) = self.sequential.filter(|log| log.logical == logical) {
                    sectors.count_merged_log(log.block);
                }
                done = self.merge_full(sectors, done, logical, None)?;
            }
        }
        self.random.pop_front();
        let erased = sectors.erase(done, oldest, Cause::Merge)?;
        Ok(erased)
    }

    fn merge_full<N: Nand>(
        &mut self,
        sectors: &mut Sectors<N>,
        now: When,
        logical: u32,
        new: Option<New<'_, N>>,
    ) -> Done {
        let (target, done) = sectors.rebuild(now, logical, new)?;
        let old = std::mem::replace(&mut self.data[logical as usize], target);
        let log = self.sequential.take_if(|log| log.logical == logical).map(|log| log.block);
        sectors.erase_merged(done, old.into_iter().chain(log))
    }

    fn close<N: Nand>(&mut self, sectors: &mut Sectors<N>, now: When, new: Option<New<'_, N>>) -> Done {
        let Some(Sequential { logical, block, next }) = self.sequential else { return Ok(now) };
        sectors.stats.gc.runs += 1;
        sectors.count_merged_log(block);
        let behind = new.is_some_and(|(unit, _)| sectors.split(unit.lpn).1 < next);
        let mut written = sectors.sectors_of(logical).take(next as usize);
        let superseded = written.any(|lpn| sectors.holder(lpn).is_some_and(|holder| holder != block));
        let mut now = now;
        // Switch or partial merge: the rest is copied behind the log's sectors. If one of the log's sectors
        // has a newer version elsewhere or is overwritten by `new`, only a full merge is possible.
        if !behind && !superseded && !sectors.is_failing(block) {
            let whole = next == sectors.per_block && new.is_none();
            match sectors.fill(now, logical, block, next, new, 0) {
                Ok(done) => {
                    let merges = sectors.stats.merges();
                    *(if whole { &mut merges.switched } else { &mut merges.partial }) += 1;
                    self.sequential = None;
                    let old = self.data[logical as usize].replace(block);
                    return old.map_or(Ok(done), |old| sectors.erase(done, old, Cause::Merge));
                }
                Err(failed) => now = failed.at,
            }
        }
        // `new` may be on flash already if a later sector's program failed.
        self.merge_full(sectors, now, logical, new)
    }

    /// Writes a sector whose page in the data block is taken.
    fn overwrite<N: Nand>(&mut self, sectors: &mut Sectors<N>, now: When, new: New<'_, N>) -> Done {
        let (logical, offset) = sectors.split(new.0.lpn);
        // The first sector of a logical block opens the sequential log, which takes the next ones in order.
        if offset == 0 {
            let now = self.close(sectors, now, None)?;
            return self.begin(sectors, now, new);
        }
        let Some(log) = self.sequential.as_mut().filter(|log| log.logical == logical) else {
            return self.append(sectors, now, new);
        };
        // The sector does not continue the log, so the log is merged together with the sector.
        if log.next != offset {
            return self.close(sectors, now, Some(new));
        }
        log.next += 1;
        match sectors.program(now, log.block, offset, new) {
            Ok(done) => Ok(done),
            Err(failed) => self.close(sectors, failed.at, Some(new)),
        }
    }

    fn begin<N: Nand>(&mut self, sectors: &mut Sectors<N>, now: When, new: New<'_, N>) -> Done {
        let logical = sectors.split(new.0.lpn).0;
        let mut now = now;
        loop {
            let block = sectors.take_block(logical)?;
            match sectors.program(now, block, 0, new) {
                Ok(done) => {
                    self.sequential = Some(Sequential { logical, block, next: 1 });
                    return Ok(done);
                }
                Err(failed) => now = sectors.erase(failed.at, block, Cause::Merge)?,
            }
        }
    }
}

impl<N: Nand> Scheme<N> for Fast {
    fn new(sectors: &Sectors<N>) -> Self {
        let data = vec![None; sectors.logical_blocks() as usize];
        Self { data, sequential: None, random: VecDeque::new(), next: sectors.per_block }
    }

    fn write(&mut self, sectors: &mut Sectors<N>, now: When, new: New<'_, N>) -> Done {
        let (logical, offset) = sectors.split(new.0.lpn);
        let mut now = now;
        if let Some(block) = sectors.open_data(&mut self.data[logical as usize], logical, offset)? {
            match sectors.program(now, block, offset, new) {
                Ok(done) => return Ok(done),
                Err(failed) => now = failed.at,
            }
        }
        self.overwrite(sectors, now, new)
    }

    fn restore(sectors: &mut Sectors<N>, found: Found, report: &mut Recovery) -> Result<Self, RecoveryError> {
        let mut scheme = Self::new(sectors);
        let per_block = sectors.per_block;
        // A random log block begins with a sector that is not the first of its logical block.
        let is_log = |block: &FoundBlock| {
            let first = block.sectors.first();
            first.is_some_and(|&(page, unit)| page == 0 && !unit.lpn.get().is_multiple_of(per_block))
        };
        let (of_one, logs) = found.by_logical(per_block, is_log);
        for log in logs {
            if !is_log(&log) {
                return damaged(format!("{:?} is neither a data nor a log block", log.block));
            }
            scheme.next = log.end;
            scheme.random.push_back(log.block);
        }
        if scheme.random.len() as u32 >= sectors.config.log_blocks {
            return damaged(format!("there are {} log blocks", scheme.random.len()));
        }
        for (logical, blocks) in of_one {
            if let Some(odd) = blocks.iter().find(|block| !block.is_in_place(per_block)) {
                return damaged(format!("{:?} is neither a data nor a log block", odd.block));
            }
            scheme.data[logical as usize] = blocks.first().map(|data| data.block);
            let Some(second) = blocks.get(1) else { continue };
            if blocks.len() > 2 {
                return damaged(format!("logical block {logical} has {} data blocks", blocks.len()));
            }
            let log = Sequential { logical, block: second.block, next: second.end };
            if scheme.sequential.is_none() && second.is_prefix(per_block) {
                scheme.sequential = Some(log)
            } else {
                scheme.settle(sectors, log, report)?
            }
        }
        Ok(scheme)
    }

    fn check(&self, sectors: &Sectors<N>) -> Result<u32, CheckError> {
        let data = self.data.iter().flatten().count();
        let logs = self.random.len() + usize::from(self.sequential.is_some());
        if logs > sectors.config.log_blocks as usize {
            return Err(CheckError(format!("{logs} log blocks")));
        }
        Ok((data + logs) as u32)
    }
}

impl Fast {
    fn settle<N: Nand>(
        &mut self,
        sectors: &mut Sectors<N>,
        second: Sequential,
        report: &mut Recovery,
    ) -> Result<(), RecoveryError> {
        let other = self.sequential.replace(second);
        // If the merge fails, the drive serves only reads.
        let _ = self.merge_full(sectors, report.now(), second.logical, None);
        self.sequential = other;
        report.wait(&mut sectors.nand);
        Ok(())
    }
}
