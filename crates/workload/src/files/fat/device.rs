//! Device below a FAT volume: sectors of 512 bytes, each write labelled with its class.

use crate::files::FileError;
use strobe_types::{SECTOR_BYTES, named};

named! {
    /// Part of a FAT volume that a write belongs to, as the file system itself knows it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Class {
        /// Contents of a file.
        Data => "data",
        /// The boot sector with the mark of an unclean volume, and anything else before the first table.
        Boot => "boot",
        /// Either copy of the file allocation table.
        Fat => "fat",
        /// The root directory, which has a fixed place.
        RootDirectory => "root_directory",
        /// A directory in the data area.
        Directory => "directory",
    }
}

impl Class {
    /// True for metadata: everything needed to find file contents again. The NVRAM paper keeps exactly this in
    /// non-volatile memory.
    pub fn is_metadata(self) -> bool {
        self != Self::Data
    }
}

/// A device of 512-byte sectors, numbered from 0.
///
/// The caller keeps within [`Self::sectors`]. What was written is what is read from then on; it need
/// not survive a power cut before the next [`Self::flush`] is complete.
pub trait SectorDevice {
    /// Number of sectors.
    fn sectors(&self) -> u64;
    /// Fills `buffer`, one or more whole sectors, from `sector` on.
    fn read(&mut self, sector: u64, buffer: &mut [u8]) -> Result<(), FileError>;
    /// Writes one or more whole sectors of one class as a single request.
    fn write(&mut self, sector: u64, bytes: &[u8], class: Class) -> Result<(), FileError>;
    /// `count` sectors hold nothing of use any more; they may read as anything. Does nothing by default.
    fn trim(&mut self, sector: u64, count: u64) -> Result<(), FileError> {
        let _ = (sector, count);
        Ok(())
    }
    /// Returns when everything written is durable. Called after a file is synced, at unmount, and in
    /// synchronous mode after each operation that has written something.
    fn flush(&mut self) -> Result<(), FileError>;
}

impl<D: SectorDevice + ?Sized> SectorDevice for &mut D {
    fn sectors(&self) -> u64 {
        (**self).sectors()
    }

    fn read(&mut self, sector: u64, buffer: &mut [u8]) -> Result<(), FileError> {
        (**self).read(sector, buffer)
    }

    fn write(&mut self, sector: u64, bytes: &[u8], class: Class) -> Result<(), FileError> {
        (**self).write(sector, bytes, class)
    }

    fn trim(&mut self, sector: u64, count: u64) -> Result<(), FileError> {
        (**self).trim(sector, count)
    }

    fn flush(&mut self) -> Result<(), FileError> {
        (**self).flush()
    }
}

/// One write request, as a [`MemoryDisk`] records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// First sector.
    pub sector: u64,
    /// Number of sectors.
    pub count: u32,
    /// Why it was written.
    pub class: Class,
}

/// Requests and sectors of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCount {
    /// Write requests.
    pub requests: u64,
    /// Sectors they carried.
    pub sectors: u64,
}

/// A device in memory that counts what it is asked to do.
#[derive(Clone, Debug)]
pub struct MemoryDisk {
    bytes: Vec<u8>,
    written: [ClassCount; Class::ALL.len()],
    sectors_read: u64,
    sectors_trimmed: u64,
    flushes: u64,
    log: Option<Vec<Recorded>>,
}

impl MemoryDisk {
    /// A disk of `sectors` sectors of zeros. Takes 512 bytes of memory for each that is used.
    pub fn new(sectors: u32) -> Self {
        Self::from_image(vec![0; sectors as usize * SECTOR_BYTES as usize])
    }

    /// A disk with the given contents; a remainder smaller than a sector is cut off.
    pub fn from_image(mut bytes: Vec<u8>) -> Self {
        bytes.truncate(bytes.len() - bytes.len() % SECTOR_BYTES as usize);
        let written = Default::default();
        Self { bytes, written, sectors_read: 0, sectors_trimmed: 0, flushes: 0, log: None }
    }

    /// Keeps a record of every write from now on, for figures of the write pattern. 16 bytes each.
    #[must_use]
    pub fn recorded(mut self) -> Self {
        self.log = Some(Vec::new());
        self
    }

    /// Forgets counts and record, for instance those of formatting.
    pub fn reset_counts(&mut self) {
        self.written = Default::default();
        (self.sectors_read, self.sectors_trimmed, self.flushes) = (0, 0, 0);
        if let Some(log) = &mut self.log {
            log.clear();
        }
    }

    /// The record, empty unless [`Self::recorded`].
    pub fn log(&self) -> &[Recorded] {
        self.log.as_deref().unwrap_or_default()
    }

    /// Writes of one class.
    pub fn written(&self, class: Class) -> ClassCount {
        self.written[class as usize]
    }

    /// Sectors read.
    pub fn sectors_read(&self) -> u64 {
        self.sectors_read
    }

    /// Sectors trimmed.
    pub fn sectors_trimmed(&self) -> u64 {
        self.sectors_trimmed
    }

    /// Flushes.
    pub fn flushes(&self) -> u64 {
        self.flushes
    }

    /// The contents.
    pub fn image(&self) -> &[u8] {
        &self.bytes
    }

    fn range(&self, sector: u64, bytes: usize) -> Result<std::ops::Range<usize>, FileError> {
        let start = sector.saturating_mul(SECTOR_BYTES);
        let end = start.saturating_add(bytes as u64);
        if end > self.bytes.len() as u64 {
            return Err(FileError::Io(format!("sector {sector} lies behind the end of the disk")));
        }
        Ok(start as usize..end as usize)
    }
}

impl SectorDevice for MemoryDisk {
    fn sectors(&self) -> u64 {
        self.bytes.len() as u64 / SECTOR_BYTES
    }

    fn read(&mut self, sector: u64, buffer: &mut [u8]) -> Result<(), FileError> {
        let range = self.range(sector, buffer.len())?;
        buffer.copy_from_slice(&self.bytes[range]);
        self.sectors_read += buffer.len() as u64 / SECTOR_BYTES;
        Ok(())
    }

    fn write(&mut self, sector: u64, bytes: &[u8], class: Class) -> Result<(), FileError> {
        let range = self.range(sector, bytes.len())?;
        self.bytes[range].copy_from_slice(bytes);
        let count = (bytes.len() as u64 / SECTOR_BYTES) as u32;
        let written = &mut self.written[class as usize];
        written.requests += 1;
        written.sectors += u64::from(count);
        if let Some(log) = &mut self.log {
            log.push(Recorded { sector, count, class });
        }
        Ok(())
    }

    fn trim(&mut self, sector: u64, count: u64) -> Result<(), FileError> {
        let range = self.range(sector, (count * SECTOR_BYTES) as usize)?;
        // Nobody may rely on what is read after a trim; a value that no file holds shows who does.
        self.bytes[range].fill(0xdb);
        self.sectors_trimmed += count;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), FileError> {
        self.flushes += 1;
        Ok(())
    }
}
