//! The out-of-band areas of pages: how data is found again that no map on flash tells of.

use strobe_nand::{Cause, Nand, Wanted};
use strobe_types::{BlockId, Lpn, Ppa, Ppn};

use crate::journal::format::LogPage;
use crate::place::StreamId;
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

/// First bit of the stream in the number of a page, on drives with placement handles: the stream plus one, 0 if unknown.
const STREAM_SHIFT: u32 = 48;

/// The number of a page in its out-of-band area: its sequence number, and the stream that it belongs to if that is to be
/// found again after a power cut.
#[inline(always)]
pub(crate) fn numbered(sequence: u64, stream: Option<StreamId>) -> u64 {
    stream.map_or(sequence, |stream| sequence | (u64::from(stream.get()) + 1) << STREAM_SHIFT)
}

/// The sequence number in `number`, whatever else it says.
pub(crate) fn sequence_in(number: u64) -> u64 {
    // The stream takes eight bits; any above are damage.
    number & !(0xff << STREAM_SHIFT)
}

/// The stream that filled `block`, as the first page that names one has it.
pub(crate) fn stream_on_flash<N: Nand>(nand: &N, block: BlockId) -> Option<StreamId> {
    let first = nand.geometry().page(block, 0);
    let pages = (0..nand.block(block).pages_programmed).map(|at| Ppn::new(first.get() + at));
    let named = |ppn| nand.record(ppn).map_or(0, |record| record.sequence >> STREAM_SHIFT & 0xff);
    pages.map(named).find(|&named| named > 0).map(|named| StreamId::new(named as u8 - 1))
}

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
