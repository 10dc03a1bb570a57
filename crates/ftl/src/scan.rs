//! Scan of out-of-band areas for data that no map on flash refers to.

use strobe_nand::{Cause, Nand, Wanted};
use strobe_types::{BlockId, Lpn, Ppa, Ppn};

use crate::journal::format::LogPage;
use crate::place::StreamId;
use crate::recovery::damaged;
use crate::{Recovery, RecoveryError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitFound {
    pub(crate) lpn: Lpn,
    pub(crate) ppa: Ppa,
    pub(crate) sequence: u64,
    pub(crate) copied: bool,
}

/// Mark in the sequence number of a page copied by a merge (the fold mark of NFTL). Recovery undoes an
/// unfinished merge by it.
pub(crate) const COPIED: u64 = 1 << 43;

/// First bit of the stream in a page's sequence number, with placement handles: the stream plus one, 0 if
/// unknown.
const STREAM_SHIFT: u32 = 48;

/// Sequence number of a page, with the stream if recovery needs it.
#[inline(always)]
pub(crate) fn numbered(sequence: u64, stream: Option<StreamId>) -> u64 {
    stream.map_or(sequence, |stream| sequence | (u64::from(stream.get()) + 1) << STREAM_SHIFT)
}

pub(crate) fn sequence_in(number: u64) -> u64 {
    // The stream takes eight bits; any bit above them is damage.
    number & !(0xff << STREAM_SHIFT)
}

pub(crate) fn stream_on_flash<N: Nand>(nand: &N, block: BlockId) -> Option<StreamId> {
    let first = nand.geometry().page(block, 0);
    let pages = (0..nand.block(block).pages_programmed).map(|at| Ppn::new(first.get() + at));
    let named = |ppn| nand.record(ppn).map_or(0, |record| record.sequence >> STREAM_SHIFT & 0xff);
    pages.map(named).find(|&named| named > 0).map(|named| StreamId::new(named as u8 - 1))
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Scanned {
    /// Units in the order of the given blocks, then of pages.
    pub(crate) units: Vec<UnitFound>,
    /// Blocks with a failed program, whose page has a sequence number but no units.
    pub(crate) failed: Vec<BlockId>,
    pub(crate) next_sequence: u64,
}

/// Reads the out-of-band areas of `blocks`, each from the given page on. A logical unit not below `units` is
/// damage. Cost: one read per programmed page, with a transfer of the whole page if `whole`.
pub(crate) fn scan<N: Nand>(
    nand: &mut N,
    blocks: impl Iterator<Item = (BlockId, u32)>,
    whole: bool,
    units: u32,
    report: &mut Recovery,
) -> Result<Scanned, RecoveryError> {
    let mut scanned = Scanned::default();
    let geometry = nand.geometry().clone();
    for (block, from) in blocks {
        if nand.is_stopped() {
            return Err(RecoveryError::Interrupted);
        }
        if nand.block(block).pages_programmed == 0 || nand.block(block).half_erased {
            continue;
        }
        for page in from..geometry.pages_per_block() {
            let ppn = geometry.page(block, page);
            if !nand.is_programmed(ppn) {
                continue;
            }
            let wanted = if whole { nand.whole_page(ppn) } else { Wanted::NONE };
            nand.read(report.now(), ppn, wanted, Cause::Recovery);
            report.scanned_pages += 1;
            // The record holds the sequence number, which decides between versions of a unit.
            let Some(record) = nand.record(ppn) else { return Err(RecoveryError::NoContents) };
            let number = sequence_in(record.sequence);
            if number > LogPage::COUNTER_MAX {
                return damaged(format!("page {ppn} has the sequence number {}", record.sequence));
            }
            let (sequence, copied) = (number & !COPIED, number & COPIED != 0);
            scanned.next_sequence = scanned.next_sequence.max(sequence + 1);
            let first = geometry.first_unit_of_page(ppn);
            let before = scanned.units.len();
            for ppa in (0..geometry.units_per_page()).map(|at| first.plus(at)) {
                let Some(lpn) = nand.lpn(ppa) else { continue };
                if lpn.get() >= units {
                    return damaged(format!(
                        "{ppa:?} names the owner {lpn:?}, which the drive does not have"
                    ));
                }
                scanned.units.push(UnitFound { lpn, ppa, sequence, copied });
            }
            // A legible page has at least one owner. A sequence number above 0 without an owner marks a
            // failed program.
            let is_legible = scanned.units.len() > before;
            report.illegible_pages += u64::from(!is_legible);
            if !is_legible && sequence > 0 && scanned.failed.last() != Some(&block) {
                scanned.failed.push(block);
            }
        }
    }
    report.wait(nand);
    Ok(scanned)
}
