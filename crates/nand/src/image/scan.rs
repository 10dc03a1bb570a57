//! Scan of an image: rebuilds the chip state and lists the damage.

use std::io;

use strobe_types::{BlockId, Lpn, Ppa};

use super::Image;
use super::layout::{BlockEntry, DATA};
use super::read::Slot;
use crate::chip::{PADDING, Restored};
use crate::{BlockState, Cause, NandOp, OpCounts};

/// A damaged part of an image. Pages are numbered within their block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// Wrong file length.
    #[error("the file has {length} bytes, not {expected}")]
    Length {
        /// Actual length in bytes.
        length: u64,
        /// Expected length in bytes.
        expected: u64,
    },
    /// Foreign bytes between regions. No data is lost.
    #[error("byte {at} of the file lies between its regions and is not zero")]
    Padding {
        /// Offset of the first such byte after a region.
        at: u64,
    },
    /// The block is unknown and all its pages are lost.
    #[error("block {block}: its entry in the block table is damaged")]
    Block {
        /// The block.
        block: BlockId,
    },
    /// The page and its units are lost. If no later page is programmed, the page may have been free.
    #[error("block {block} page {page}: its record is damaged")]
    Record {
        /// The block.
        block: BlockId,
        /// The page.
        page: u32,
    },
    /// The page has no record although later pages are programmed.
    #[error("block {block} page {page}: its record is missing")]
    Lost {
        /// The block.
        block: BlockId,
        /// The page.
        page: u32,
    },
    /// The list of the page's units is lost.
    #[error("block {block} page {page}: its list of mapping units is damaged")]
    Units {
        /// The block.
        block: BlockId,
        /// The page.
        page: u32,
    },
    /// The content of a unit is damaged. Data is lost if the unit is the newest version.
    #[error("block {block} page {page}: the content of mapping unit {lpn} is damaged")]
    Content {
        /// The block.
        block: BlockId,
        /// The page.
        page: u32,
        /// The logical page.
        lpn: Lpn,
    },
    /// A metadata page is lost.
    #[error("block {block} page {page}: the content of this table page is damaged")]
    Table {
        /// The block.
        block: BlockId,
        /// The page.
        page: u32,
    },
}

/// Contents of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Pages that hold mapping units.
    pub data_pages: u64,
    /// Pages of the drive's metadata.
    pub table_pages: u64,
    /// Programmed pages without readable content: their program failed or was cut short.
    pub empty_pages: u64,
    /// Damage: of the file as a whole first, then block by block.
    pub damage: Vec<Damage>,
}

impl Image {
    pub(super) fn scan(&self, contents: bool) -> io::Result<(Scan, Restored, Vec<BlockEntry>)> {
        let geometry = &self.info.geometry;
        let mut scanner = Scanner {
            image: self,
            contents,
            scan: Scan::default(),
            oob_lpn: vec![0; geometry.units() as usize],
            blocks: Vec::with_capacity(geometry.blocks() as usize),
            table: Vec::with_capacity(geometry.blocks() as usize),
        };
        if self.length != self.layout.length {
            let (length, expected) = (self.length, self.layout.length);
            scanner.scan.damage.push(Damage::Length { length, expected });
        }
        scanner.padding()?;
        for block in (0..geometry.blocks()).map(BlockId::new) {
            scanner.block(block)?;
        }
        let Scanner { scan, oob_lpn, blocks, table, .. } = scanner;
        let restored = Restored { oob_lpn, blocks, counts: counts(&table) };
        Ok((scan, restored, table))
    }
}

fn counts(table: &[BlockEntry]) -> OpCounts {
    let mut counts = OpCounts::default();
    for (index, cause) in Cause::ALL.into_iter().enumerate() {
        let sum = |of: fn(&BlockEntry, usize) -> u64| {
            let sum = table.iter().fold(0u64, |sum, entry| sum.saturating_add(of(entry, index)));
            // Only forged entries exceed this limit. The counters can grow from here without overflow.
            sum.min(u64::MAX / 64)
        };
        counts.add_many(NandOp::Program, cause, sum(|entry, cause| entry.programs[cause].get()));
        counts.add_many(NandOp::Erase, cause, sum(|entry, cause| entry.erases[cause].get()));
    }
    counts
}

struct Scanner<'a> {
    image: &'a Image,
    contents: bool,
    scan: Scan,
    oob_lpn: Vec<u32>,
    blocks: Vec<BlockState>,
    table: Vec<BlockEntry>,
}

impl Scanner<'_> {
    fn padding(&mut self) -> io::Result<()> {
        for padding in self.image.layout.padding() {
            let mut bytes = vec![0; (padding.end - padding.start) as usize];
            self.image.storage.read(&mut bytes, padding.start)?;
            if let Some(first) = bytes.iter().position(|&byte| byte != 0) {
                self.scan.damage.push(Damage::Padding { at: padding.start + first as u64 });
            }
        }
        Ok(())
    }

    fn block(&mut self, block: BlockId) -> io::Result<()> {
        let Some(mut entry) = self.image.block_entry(block)? else {
            self.scan.damage.push(Damage::Block { block });
            let mut unknown = BlockEntry::default();
            unknown.set_state(BlockState { bad: true, ..BlockState::default() });
            self.blocks.push(unknown.state());
            self.table.push(unknown);
            return Ok(());
        };
        let mut state = entry.state();
        let counted = state.pages_programmed;
        let slots = self.image.slots(block, entry.generation())?;
        // All pages up to the last record, and all counted pages, must have been programmed.
        let used = slots.iter().rposition(|slot| !matches!(slot, Slot::Free)).map_or(0, |last| last + 1);
        let used = used.max(counted as usize);
        for (page, slot) in (0..).zip(&slots[..used]) {
            let cause = self.page(block, page, slot, state.half_erased)?;
            if page >= counted {
                let programs = &mut entry.programs[cause as usize];
                *programs = programs.get().saturating_add(1).into();
            }
        }
        state.pages_programmed = used as u32;
        entry.set_state(state);
        self.blocks.push(state);
        self.table.push(entry);
        Ok(())
    }

    fn page(&mut self, block: BlockId, page: u32, slot: &Slot, half_erased: bool) -> io::Result<Cause> {
        let geometry = &self.image.info.geometry;
        let ppn = geometry.page(block, page);
        let first = geometry.first_unit_of_page(ppn);
        let oob = &mut self.oob_lpn[first.index()..first.index() + geometry.units_per_page() as usize];
        oob.fill(PADDING);
        let record = match slot {
            Slot::Programmed(record) => record,
            Slot::Free => {
                self.scan.damage.push(Damage::Lost { block, page });
                return Ok(Cause::Host);
            }
            Slot::Damaged => {
                self.scan.damage.push(Damage::Record { block, page });
                return Ok(Cause::Host);
            }
        };
        let cause = record.cause().unwrap_or(Cause::Host);
        // A failed or torn program, or a half-erased block, leaves no readable data. This is no damage.
        if half_erased || (record.kind == DATA && record.length.get() == 0) {
            self.scan.empty_pages += 1;
            return Ok(cause);
        }
        if record.kind != DATA {
            self.scan.table_pages += 1;
            if self.image.meta(ppn, record)?.is_none() {
                self.scan.damage.push(Damage::Table { block, page });
            }
            return Ok(cause);
        }
        self.scan.data_pages += 1;
        let Some(units) = self.image.units(ppn, record)? else {
            self.scan.damage.push(Damage::Units { block, page });
            return Ok(cause);
        };
        for ((ppa, place), unit) in (first.get()..).zip(oob).zip(units) {
            // The unit table names the owner even if the content is damaged.
            *place = unit.lpn.get();
            if self.contents && self.image.content(Ppa::new(ppa), unit.crc.get())?.is_none() {
                let lpn = Lpn::new(unit.lpn.get());
                self.scan.damage.push(Damage::Content { block, page, lpn });
            }
        }
        Ok(cause)
    }
}
