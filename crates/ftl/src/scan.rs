//! The out-of-band areas of pages: how data is found again that no map on flash tells of.

use strobe_nand::{Cause, Nand, Wanted};
use strobe_types::{BlockId, Lpn, Ppa};

use crate::journal::format::LogPage;
use crate::recovery::damaged;
use crate::{Recovery, RecoveryError};

/// A legible mapping unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitFound {
    pub(crate) lpn: Lpn,
    pub(crate) ppa: Ppa,
    pub(crate) sequence: u64,
    /// True if the sequence number has the mark [`COPIED`].
    pub(crate) copied: bool,
}

/// A mark in the sequence number of a page that a merge has copied from elsewhere, where it can still be
/// found until the merge is complete (the fold mark of NFTL).
pub(crate) const COPIED: u64 = 1 << 43;

/// Result of a scan.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scanned {
    /// In the order of the blocks given, then of pages.
    pub(crate) units: Vec<UnitFound>,
    /// Blocks with a page whose program has failed: it has a number, and nothing else.
    pub(crate) failed: Vec<BlockId>,
    /// The sequence number of the next program.
    pub(crate) next_sequence: u64,
}

/// Reads the out-of-band area of every programmed page of `blocks`, in each from the page given on. `units` is how
/// many logical ones the drive has; other owners are damage. Cost: a read of each page, which transfers all of it if
/// it is to be `whole`.
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
            let Some(record) = nand.record(ppn) else { return Err(RecoveryError::NoContents) };
            if record.sequence > LogPage::COUNTER_MAX {
                return damaged(format!("page {ppn} has the sequence number {}", record.sequence));
            }
            let (sequence, copied) = (record.sequence & !COPIED, record.sequence & COPIED != 0);
            scanned.next_sequence = scanned.next_sequence.max(sequence + 1);
            let first = geometry.first_unit_of_page(ppn);
            let before = scanned.units.len();
            for ppa in (0..geometry.units_per_page()).map(|at| first.plus(at)) {
                let Some(lpn) = nand.lpn(ppa) else { continue };
                if lpn.get() >= units {
                    return damaged(format!("{ppa:?} belongs to {lpn:?}, which the drive does not have"));
                }
                scanned.units.push(UnitFound { lpn, ppa, sequence, copied });
            }
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
