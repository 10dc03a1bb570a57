//! Log of the map: a ring of reserved blocks, searched for its newest pages after a power cut.

use strobe_nand::{Cause, Nand, When};
use strobe_types::{BlockId, Geometry, Stored};

use super::format::LogPage;
use crate::recovery::damaged;
use crate::{Recovery, RecoveryError};

#[derive(Clone, Copy, Debug)]
pub(crate) struct LogWornOut;

#[derive(Clone, Copy, Debug, Stored)]
struct Member {
    block: BlockId,
    /// Highest log sequence number in the block; 0 if none.
    last: u64,
    failing: bool,
}

#[derive(Clone, Debug, Stored)]
pub(crate) struct Log {
    ring: Vec<Member>,
    head: Option<usize>,
    pages_per_block: u32,
    next: u64,
    /// See [`LogPage::base`]. Blocks whose last page lies before it are reusable.
    pub(crate) base: u64,
    /// Completion time of the newest page. The next page waits for it: recovery refuses a log with a missing
    /// page.
    written: When,
}

/// Planes alternate, which spreads the region over the drive.
fn member_at(geometry: &Geometry, at: u32) -> BlockId {
    let planes = geometry.planes();
    BlockId::new(at % planes * (geometry.blocks() / planes) + at / planes)
}

/// Length of the shortest region with `good` good blocks, or all blocks.
pub(crate) fn region_for(geometry: &Geometry, good: u32, is_bad: impl Fn(BlockId) -> bool) -> u32 {
    let mut found = 0;
    for at in 0..geometry.blocks() {
        if found == good {
            return at;
        }
        found += u32::from(!is_bad(member_at(geometry, at)));
    }
    geometry.blocks()
}

impl Log {
    pub(crate) fn new(geometry: &Geometry, region: u32) -> Self {
        let member = |at| Member { block: member_at(geometry, at), last: 0, failing: false };
        Self {
            ring: (0..region).map(member).collect(),
            head: None,
            pages_per_block: geometry.pages_per_block(),
            next: 1,
            base: 0,
            written: When::START,
        }
    }

    pub(crate) fn blocks(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.ring.iter().map(|member| member.block)
    }

    pub(crate) fn region(&self) -> u32 {
        self.ring.len() as u32
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Programs `page`, which must have the next sequence number. Returns the time when it is on flash.
    pub(crate) fn append<N: Nand>(
        &mut self,
        nand: &mut N,
        now: When,
        page: &LogPage,
        cause: Cause,
    ) -> Result<When, LogWornOut> {
        debug_assert_eq!(page.lsn, self.next);
        let bytes = page.encode();
        let mut now = nand.both(now, self.written);
        loop {
            let at = match self.head.filter(|&at| self.has_space(nand, at)) {
                Some(at) => at,
                None => {
                    let (at, ready) = self.open_next(nand, now)?;
                    (self.head, now) = (Some(at), ready);
                    at
                }
            };
            let block = self.ring[at].block;
            let ppn = nand.geometry().page(block, nand.block(block).pages_programmed);
            match nand.program_meta(now, ppn, &bytes, cause) {
                Ok(done) => {
                    self.ring[at].last = self.next;
                    self.next += 1;
                    self.base = page.base;
                    self.written = done;
                    return Ok(done);
                }
                // The block takes no more pages; the page is repeated in the next one.
                Err(failed) => {
                    self.ring[at].failing = true;
                    now = failed.at;
                }
            }
        }
    }

    fn has_space<N: Nand>(&self, nand: &N, at: usize) -> bool {
        let Member { block, failing, .. } = self.ring[at];
        !failing && nand.block(block).pages_programmed < self.pages_per_block
    }

    /// Finds the next block of the ring without live pages and erases it. Retires blocks with failed
    /// programs.
    fn open_next<N: Nand>(&mut self, nand: &mut N, now: When) -> Result<(usize, When), LogWornOut> {
        let length = self.ring.len();
        let start = self.head.map_or(0, |head| head + 1);
        for at in (start..start + length).map(|at| at % length) {
            // The region must keep every page from the base on.
            let Member { block, last, failing } = self.ring[at];
            if Some(at) == self.head || nand.block(block).bad || last >= self.base.max(1) {
                continue;
            }
            if failing {
                nand.mark_bad(block);
                continue;
            }
            if nand.block(block).is_erased() {
                return Ok((at, now));
            }
            if let Ok(done) = nand.erase(now, block, Cause::Map) {
                self.ring[at].last = 0;
                return Ok((at, done));
            }
        }
        Err(LogWornOut)
    }

    /// Finds the log after a power cut. Returns it, its pages from the base on, and the number of illegible
    /// pages. `good` is the number of good blocks of a new region.
    pub(crate) fn find<N: Nand>(
        nand: &mut N,
        good: u32,
        report: &mut Recovery,
    ) -> Result<(Self, Vec<LogPage>, u32), RecoveryError> {
        let geometry = nand.geometry().clone();
        // Bad blocks never become good, so the region is no longer than one chosen now. Its actual length is
        // in every page.
        let mut region = region_for(&geometry, good, |block| nand.block(block).bad);
        let mut firsts: Vec<(u64, u32)> = Vec::new();
        let mut at = 0;
        while at < region {
            if let Some(page) = first_page(nand, member_at(&geometry, at), report)? {
                if page.region <= at || page.region > region {
                    let says = page.region;
                    return damaged(format!("a page of the log gives an invalid region of {says} blocks"));
                }
                region = page.region;
                firsts.push((page.lsn, at));
            }
            at += 1;
        }
        report.wait(nand);
        // The block whose first page is newest is the head. Its last page names the base and the next
        // sequence number.
        let mut log = Self::new(&geometry, region);
        firsts.sort_unstable();
        let Some(&(_, head)) = firsts.last() else { return Ok((log, Vec::new(), 0)) };
        let (newest, mut illegible) = pages_of(nand, member_at(&geometry, head), report)?;
        report.wait(nand);
        let Some(last) = newest.last() else { return damaged("the newest log page is missing".into()) };
        (log.base, log.next) = (last.base, last.lsn + 1);
        let mut live = Vec::new();
        for (index, &(_, at)) in firsts.iter().enumerate() {
            let is_head = at == head;
            let end = firsts.get(index + 1).map_or(log.next, |&(first, _)| first);
            log.ring[at as usize].last = end - 1;
            // The whole block lies before the base: its pages are obsolete.
            if end <= log.base.max(1) {
                continue;
            }
            if is_head {
                live.extend(newest.iter().cloned())
            } else {
                let (pages, torn) = pages_of(nand, member_at(&geometry, at), report)?;
                live.extend(pages);
                illegible += torn;
            }
        }
        report.wait(nand);
        // Pages before the base are obsolete; from there on none may be missing.
        live.retain(|page| page.lsn >= log.base.max(1));
        for (expected, page) in (log.base.max(1)..).zip(&live) {
            if page.lsn != expected {
                return damaged(format!("page {expected} of the log is missing"));
            }
        }
        if live.last().is_none_or(|page| page.lsn + 1 != log.next) {
            return damaged(format!("page {} of the log is missing", log.next - 1));
        }
        log.head = Some(head as usize);
        Ok((log, live, illegible))
    }
}

fn first_page<N: Nand>(
    nand: &mut N,
    block: BlockId,
    report: &mut Recovery,
) -> Result<Option<LogPage>, RecoveryError> {
    if nand.block(block).bad || nand.block(block).half_erased {
        return Ok(None);
    }
    let pages = 0..nand.block(block).pages_programmed;
    pages.map(|page| read(nand, block, page, report)).find_map(Result::transpose).transpose()
}

fn pages_of<N: Nand>(
    nand: &mut N,
    block: BlockId,
    report: &mut Recovery,
) -> Result<(Vec<LogPage>, u32), RecoveryError> {
    let programmed = nand.block(block).pages_programmed;
    let pages = (0..programmed).filter_map(|page| read(nand, block, page, report).transpose());
    let pages: Vec<LogPage> = pages.collect::<Result<_, _>>()?;
    let illegible = programmed - pages.len() as u32;
    Ok((pages, illegible))
}

/// Reads a page of the log; fails if it is uncorrectable. `None` if its program was cut short: it was never
/// part of the log.
fn read<N: Nand>(
    nand: &mut N,
    block: BlockId,
    page: u32,
    report: &mut Recovery,
) -> Result<Option<LogPage>, RecoveryError> {
    let ppn = nand.geometry().page(block, page);
    let (done, bytes) = nand.read_meta(report.now(), ppn, Cause::Recovery);
    if done.is_uncorrectable() && bytes.is_some() {
        return Err(RecoveryError::MapUnreadable(ppn));
    }
    let page = bytes.and_then(|bytes| LogPage::decode(&bytes));
    report.log_pages += 1;
    report.illegible_pages += u64::from(page.is_none());
    Ok(page)
}
