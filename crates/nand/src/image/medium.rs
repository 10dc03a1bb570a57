//! The medium with every byte: in memory or in an image.

use std::cell::OnceCell;
use std::fmt::Display;
use std::io;
use std::sync::Arc;

use strobe_types::{BlockId, Geometry, Ppa, Ppn, SimTime, State, StateError, StateReader, StateWriter};
use zerocopy::IntoBytes;

use super::Image;
use super::layout::{
    self, ALIGN, BLOCK_SLOT, BlockEntry, DATA, Header, META, POWER_ON_MAX_NS, PageRecord, RECORD_SLOT,
    UnitEntry, content_checksum,
};
use super::read::Slot;
use crate::medium::{BlockState, page_checksum};
use crate::{ByteMedium, Cause, Medium, OobRecord, Payload, Unit, UnitBytes};

/// Medium with every byte: in memory ([`Medium::new`]) or in a file. See
/// [`Chip::create_image`](crate::Chip::create_image).
///
/// A clone lives in memory, independent of the file. Cloning reads all stored data and needs that much
/// memory.
#[derive(Debug)]
pub struct DataMedium(Place);

#[derive(Debug)]
enum Place {
    File(Box<FileMedium>),
    /// A medium in memory, with the failure of the medium that it was copied from.
    Memory(ByteMedium, Option<String>),
}

impl DataMedium {
    pub(super) fn on(file: FileMedium) -> Self {
        Self(Place::File(Box::new(file)))
    }

    /// Host memory for flash of `geometry` in a file, in bytes: little more than its block table.
    pub fn file_memory_bytes(geometry: &Geometry) -> u64 {
        u64::from(geometry.blocks()) * size_of::<BlockEntry>() as u64
    }

    pub(super) fn in_memory(medium: ByteMedium) -> Self {
        Self(Place::Memory(medium, None))
    }
}

impl Clone for DataMedium {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Place::Memory(medium, failure) => Place::Memory(medium.clone(), failure.clone()),
            Place::File(file) => match file.image.load(&file.table) {
                Ok(medium) => Place::Memory(medium, file.failure.get().cloned()),
                Err(error) => {
                    let failure = file.failure.get().cloned().unwrap_or_else(|| words("read", &error));
                    Place::Memory(ByteMedium::new(&file.image.info.geometry), Some(failure))
                }
            },
        })
    }
}

impl Medium for DataMedium {
    type Payload = UnitBytes;

    fn new(geometry: &Geometry) -> Self {
        Self::in_memory(ByteMedium::new(geometry))
    }

    fn store(&mut self, ppn: Ppn, first: Ppa, units: &[Unit<UnitBytes>], sequence: u64, cause: Cause) {
        match &mut self.0 {
            Place::File(file) => {
                let content = Content { units, sequence };
                file.attempt("written", |file| file.write_data(ppn, first, content, cause));
            }
            Place::Memory(medium, _) => medium.store(ppn, first, units, sequence, cause),
        }
    }

    fn load(&self, ppa: Ppa) -> UnitBytes {
        match &self.0 {
            Place::File(file) => file.content(ppa),
            Place::Memory(medium, _) => medium.load(ppa),
        }
    }

    fn record(&self, ppn: Ppn) -> Option<OobRecord> {
        match &self.0 {
            Place::File(file) => file
                .record(ppn)
                .map(|record| OobRecord { sequence: record.sequence.get(), checksum: record.oob_crc.get() }),
            Place::Memory(medium, _) => medium.record(ppn),
        }
    }

    fn store_meta(&mut self, ppn: Ppn, bytes: &[u8], cause: Cause) {
        match &mut self.0 {
            Place::File(file) => file.attempt("written", |file| file.write_meta(ppn, bytes, cause)),
            Place::Memory(medium, _) => medium.store_meta(ppn, bytes, cause),
        }
    }

    fn load_meta(&self, ppn: Ppn) -> Option<Arc<[u8]>> {
        match &self.0 {
            Place::File(file) => file.meta(ppn),
            Place::Memory(medium, _) => medium.load_meta(ppn),
        }
    }

    fn set_block(&mut self, block: BlockId, state: BlockState, erase: Option<Cause>) {
        if let Place::File(file) = &mut self.0 {
            file.attempt("written", |file| file.write_block(block, state, erase));
        }
    }

    fn erase(&mut self, first: Ppa, count: u32) {
        match &mut self.0 {
            Place::File(file) => file.punch(first, count),
            Place::Memory(medium, _) => medium.erase(first, count),
        }
    }

    fn failure(&self) -> Option<&str> {
        match &self.0 {
            Place::File(file) => file.failure.get().map(String::as_str),
            Place::Memory(_, failure) => failure.as_deref(),
        }
    }

    fn sync(&mut self, now: SimTime) {
        if let Place::File(file) = &mut self.0 {
            file.attempt("written", |file| file.sync(now));
        }
    }

    fn earlier_power_on_ns(&self) -> u64 {
        match &self.0 {
            Place::File(file) => file.earlier_power_on_ns,
            Place::Memory(..) => 0,
        }
    }

    fn footprint(geometry: &Geometry) -> (u64, u64) {
        ByteMedium::footprint(geometry)
    }

    fn empty_footprint(geometry: &Geometry) -> u64 {
        ByteMedium::empty_footprint(geometry)
    }
}

struct Content<'a> {
    units: &'a [Unit<UnitBytes>],
    sequence: u64,
}

#[derive(Debug)]
pub(super) struct FileMedium {
    image: Image,
    table: Vec<BlockEntry>,
    earlier_power_on_ns: u64,
    /// First failure; nothing is written after it.
    failure: OnceCell<String>,
    entries: Vec<UnitEntry>,
    bytes: Vec<u8>,
}

fn words(doing: &str, error: &dyn Display) -> String {
    format!("the image could not be {doing}: {error}")
}

impl FileMedium {
    pub(super) fn new(image: Image, table: Vec<BlockEntry>) -> Self {
        let earlier_power_on_ns = image.info.power_on_ns;
        let (failure, entries, bytes) = (OnceCell::new(), Vec::new(), Vec::new());
        Self { image, table, earlier_power_on_ns, failure, entries, bytes }
    }

    fn attempt(&mut self, doing: &str, step: impl FnOnce(&mut Self) -> io::Result<()>) {
        if self.failure.get().is_none()
            && let Err(error) = step(self)
        {
            let _ = self.failure.set(words(doing, &error));
        }
    }

    fn fetch<R>(&self, ppn: Ppn, get: impl FnOnce() -> io::Result<Option<R>>) -> Option<R> {
        if self.failure.get().is_some() {
            return None;
        }
        let failure = match get() {
            Ok(Some(found)) => return Some(found),
            Ok(None) => {
                let geometry = &self.image.info.geometry;
                let (block, page) = (geometry.block_of_page(ppn), geometry.page_in_block(ppn));
                format!("the image is damaged: block {block} page {page} is not as it was written")
            }
            Err(error) => words("read", &error),
        };
        let _ = self.failure.set(failure);
        None
    }

    fn content(&self, ppa: Ppa) -> UnitBytes {
        let ppn = self.image.info.geometry.page_of(ppa);
        self.fetch(ppn, || self.image.content(ppa, self.image.unit(ppa)?.crc.get()))
            .unwrap_or_else(UnitBytes::zero)
    }

    fn record(&self, ppn: Ppn) -> Option<PageRecord> {
        let block = self.image.info.geometry.block_of_page(ppn);
        self.fetch(ppn, || {
            Ok(match self.image.slot(ppn, self.table[block.index()].generation())? {
                Slot::Programmed(record) => Some(Some(record)),
                Slot::Free => Some(None),
                Slot::Damaged => None,
            })
        })
        .flatten()
    }

    fn meta(&self, ppn: Ppn) -> Option<Arc<[u8]>> {
        let record = self.record(ppn)?;
        if record.kind != META {
            return None;
        }
        self.fetch(ppn, || self.image.meta(ppn, &record))
    }

    fn write_data(&mut self, ppn: Ppn, first: Ppa, content: Content<'_>, cause: Cause) -> io::Result<()> {
        let Image { storage, layout, .. } = &self.image;
        let units = content.units;
        self.entries.clear();
        self.entries.extend(units.iter().map(|unit| UnitEntry {
            lpn: unit.lpn.get().into(),
            crc: content_checksum(&unit.payload).into(),
        }));
        // Consecutive units with data are written together; all-zero units are not written.
        let mut at = first;
        for run in units.chunk_by(|a, b| a.payload.bytes().is_some() == b.payload.bytes().is_some()) {
            self.bytes.clear();
            run.iter().filter_map(|unit| unit.payload.bytes()).for_each(|b| self.bytes.extend_from_slice(b));
            debug_assert!(self.bytes.len() <= run.len() * self.image.info.geometry.unit_bytes() as usize);
            storage.write(&self.bytes, layout.content(at))?;
            at = at.plus(run.len() as u32);
        }
        let entries = self.entries.as_bytes();
        storage.write(entries, layout.unit(first))?;
        // The record is written last. A process killed before that leaves the page unprogrammed.
        let record = PageRecord {
            generation: 0.into(),
            length: (units.len() as u32).into(),
            sequence: content.sequence.into(),
            oob_crc: page_checksum(units).into(),
            body_crc: crc32c::crc32c(entries).into(),
            kind: DATA,
            cause: cause as u8,
            zero: [0; 2],
        };
        self.write_record(ppn, record)
    }

    fn write_meta(&mut self, ppn: Ppn, bytes: &[u8], cause: Cause) -> io::Result<()> {
        let Image { storage, layout, .. } = &self.image;
        storage.write(bytes, layout.page_content(ppn))?;
        let record = PageRecord {
            generation: 0.into(),
            length: (bytes.len() as u32).into(),
            sequence: 0.into(),
            oob_crc: 0.into(),
            body_crc: crc32c::crc32c(bytes).into(),
            kind: META,
            cause: cause as u8,
            zero: [0; 2],
        };
        self.write_record(ppn, record)
    }

    fn write_record(&mut self, ppn: Ppn, mut record: PageRecord) -> io::Result<()> {
        let entry = &mut self.table[self.image.info.geometry.block_of_page(ppn).index()];
        // The count reaches the file with the next block entry; until then, the record stands for it.
        record.generation = entry.generation().into();
        entry.programs[usize::from(record.cause)] += 1;
        let slot: [u8; RECORD_SLOT] = layout::seal(ppn.get(), &record);
        self.image.storage.write(&slot, self.image.layout.record(ppn))
    }

    fn write_block(&mut self, block: BlockId, state: BlockState, erase: Option<Cause>) -> io::Result<()> {
        let entry = &mut self.table[block.index()];
        entry.set_state(state);
        if let Some(cause) = erase {
            entry.erases[cause as usize] += 1;
        }
        let slot: [u8; BLOCK_SLOT] = layout::seal(block.get(), entry);
        self.image.storage.write(&slot, self.image.layout.block(block))
    }

    /// Stores the power-on time. `now` is the time since the image was opened.
    fn sync(&mut self, now: SimTime) -> io::Result<()> {
        let Image { storage, info, .. } = &mut self.image;
        info.power_on_ns = self.earlier_power_on_ns.saturating_add(now.as_ns()).min(POWER_ON_MAX_NS);
        let header: [u8; ALIGN as usize] = layout::seal(0, &Header::new(info));
        storage.write(&header, 0)?;
        storage.sync()
    }

    fn punch(&mut self, first: Ppa, count: u32) {
        if self.failure.get().is_none() {
            let bytes = u64::from(count) * u64::from(self.image.info.geometry.unit_bytes());
            self.image.storage.punch(self.image.layout.content(first), bytes);
        }
    }
}

impl State for DataMedium {
    fn save_state(&self, out: &mut StateWriter<'_>) {
        match &self.0 {
            Place::Memory(medium, None) => medium.save_state(out),
            _ => out.refuse("its flash is an image (--image), which is saved already"),
        }
    }

    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        match &mut self.0 {
            Place::Memory(medium, None) => medium.load_state(from),
            _ => Err(StateError::Unfit("this drive's flash is an image")),
        }
    }
}
