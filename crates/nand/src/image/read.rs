//! Reading an image: data that does not match its checksum is never returned.

use std::io;
use std::sync::Arc;

use strobe_types::{BlockId, Lpn, Ppa, Ppn};
use zerocopy::FromBytes;

use super::Image;
use super::layout::{
    self, BLOCK_SLOT, BlockEntry, DATA, META, PageRecord, RECORD_SLOT, UNIT_ENTRY, UnitEntry,
    content_checksum,
};
use crate::{ByteMedium, Cause, Medium, Payload, Unit, UnitBytes};

#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    /// Not programmed since the block's last erase.
    Free,
    Programmed(PageRecord),
    Damaged,
}

impl Image {
    pub(super) fn block_entry(&self, block: BlockId) -> io::Result<Option<BlockEntry>> {
        let mut slot = [0; BLOCK_SLOT];
        self.storage.read(&mut slot, self.layout.block(block))?;
        let entry = layout::open::<BlockEntry>(block.get(), &slot);
        Ok(entry.filter(|entry| entry.is_sensible(&self.info.geometry, self.info.slc_bits)))
    }

    pub(super) fn slots(&self, block: BlockId, generation: u32) -> io::Result<Vec<Slot>> {
        let first = self.info.geometry.page(block, 0);
        let mut bytes = vec![0; self.info.geometry.pages_per_block() as usize * RECORD_SLOT];
        self.storage.read(&mut bytes, self.layout.record(first))?;
        let slots = (first.get()..).zip(bytes.chunks(RECORD_SLOT));
        Ok(slots.map(|(ppn, slot)| self.judge(Ppn::new(ppn), slot, generation)).collect())
    }

    pub(super) fn slot(&self, ppn: Ppn, generation: u32) -> io::Result<Slot> {
        let mut slot = [0; RECORD_SLOT];
        self.storage.read(&mut slot, self.layout.record(ppn))?;
        Ok(self.judge(ppn, &slot, generation))
    }

    fn judge(&self, ppn: Ppn, slot: &[u8], generation: u32) -> Slot {
        if slot.iter().all(|&byte| byte == 0) {
            return Slot::Free;
        }
        match layout::open::<PageRecord>(ppn.get(), slot) {
            // Programmed before the last erase, which made the page free.
            Some(record) if record.generation.get() < generation => Slot::Free,
            Some(record)
                if record.generation.get() == generation && record.is_sensible(&self.info.geometry) =>
            {
                Slot::Programmed(record)
            }
            _ => Slot::Damaged,
        }
    }

    pub(super) fn units(&self, ppn: Ppn, record: &PageRecord) -> io::Result<Option<Vec<UnitEntry>>> {
        if record.kind != DATA {
            return Ok(Some(Vec::new()));
        }
        let mut bytes = vec![0; record.length.get() as usize * UNIT_ENTRY];
        self.storage.read(&mut bytes, self.layout.unit(self.info.geometry.first_unit_of_page(ppn)))?;
        if crc32c::crc32c(&bytes) != record.body_crc.get() {
            return Ok(None);
        }
        let entries =
            bytes.chunks_exact(UNIT_ENTRY).filter_map(|entry| UnitEntry::read_from_bytes(entry).ok());
        Ok(Some(entries.collect()))
    }

    pub(super) fn unit(&self, ppa: Ppa) -> io::Result<UnitEntry> {
        let mut bytes = [0; UNIT_ENTRY];
        self.storage.read(&mut bytes, self.layout.unit(ppa))?;
        Ok(zerocopy::transmute!(bytes))
    }

    pub(super) fn content(&self, ppa: Ppa, crc: u32) -> io::Result<Option<UnitBytes>> {
        if crc == 0 {
            return Ok(Some(UnitBytes::zero()));
        }
        let mut bytes = vec![0; self.info.geometry.unit_bytes() as usize];
        self.storage.read(&mut bytes, self.layout.content(ppa))?;
        let content = UnitBytes::new(&bytes);
        Ok((content_checksum(&content) == crc).then_some(content))
    }

    pub(super) fn meta(&self, ppn: Ppn, record: &PageRecord) -> io::Result<Option<Arc<[u8]>>> {
        if record.kind != META {
            return Ok(None);
        }
        let mut bytes = vec![0; record.length.get() as usize];
        self.storage.read(&mut bytes, self.layout.page_content(ppn))?;
        Ok((crc32c::crc32c(&bytes) == record.body_crc.get()).then(|| bytes.into()))
    }

    /// Copy of the image in memory. Damaged units become zeros.
    pub(super) fn load(&self, table: &[BlockEntry]) -> io::Result<ByteMedium> {
        let geometry = &self.info.geometry;
        let mut medium = ByteMedium::new(geometry);
        for (id, entry) in table.iter().enumerate() {
            let block = BlockId::new(id as u32);
            if entry.state().half_erased {
                continue;
            }
            for (page, slot) in (0..).zip(self.slots(block, entry.generation())?) {
                let Slot::Programmed(record) = slot else { continue };
                let (ppn, sequence) = (geometry.page(block, page), record.sequence.get());
                // A medium in memory does not keep the cause.
                let cause = Cause::Host;
                if let Some(bytes) = self.meta(ppn, &record)? {
                    medium.store_meta(ppn, &bytes, cause);
                    continue;
                }
                let first = geometry.first_unit_of_page(ppn);
                let mut units = Vec::new();
                for (ppa, entry) in (first.get()..).zip(self.units(ppn, &record)?.unwrap_or_default()) {
                    let payload =
                        self.content(Ppa::new(ppa), entry.crc.get())?.unwrap_or_else(UnitBytes::zero);
                    units.push(Unit { lpn: Lpn::new(entry.lpn.get()), payload });
                }
                medium.store(ppn, first, &units, sequence, cause);
            }
        }
        Ok(medium)
    }
}
