use crate::files::FileError;
use strobe_types::{SECTOR_BYTES, named};

named! {
    /// Part of a FAT volume that a write belongs to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Class {
        /// File contents.
        Data => "data",
        /// The boot sector with the unclean mark, and everything else before the first table.
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
    /// True for metadata: everything needed to locate file contents. The NVRAM paper keeps these sectors in
    /// non-volatile memory.
    pub fn is_metadata(self) -> bool {
        self != Self::Data
    }
}

/// A device of 512-byte sectors, numbered from 0.
///
/// The caller stays within [`Self::sectors`]. Reads return the last write. A write survives a power cut only
/// after the next [`Self::flush`].
pub trait SectorDevice {
    /// Number of sectors.
    fn sectors(&self) -> u64;
    /// Fills `buffer`, one or more whole sectors, from `sector` on.
    fn read(&mut self, sector: u64, buffer: &mut [u8]) -> Result<(), FileError>;
    /// Writes one or more whole sectors of one class as a single request.
    fn write(&mut self, sector: u64, bytes: &[u8], class: Class) -> Result<(), FileError>;
    /// Deallocates `count` sectors; their contents become undefined. Does nothing by default.
    fn trim(&mut self, sector: u64, count: u64) -> Result<(), FileError> {
        let _ = (sector, count);
        Ok(())
    }
    /// Makes all completed writes durable. Called after formatting and a file sync, at unmount, and in
    /// synchronous mode after each operation that wrote something.
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

/// A write request recorded by a [`MemoryDisk`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// First sector.
    pub sector: u64,
    /// Number of sectors.
    pub count: u32,
    /// Class of the write.
    pub class: Class,
}

/// Requests and sectors of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCount {
    /// Write requests.
    pub requests: u64,
    /// Sectors written.
    pub sectors: u64,
}

/// A device in memory with counters.
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
    /// Returns a disk of `sectors` zeroed sectors. Takes 512 bytes of memory per sector in use.
    pub fn new(sectors: u32) -> Self {
        Self::from_image(vec![0; sectors as usize * SECTOR_BYTES as usize])
    }

    /// Returns a disk with the given contents; a partial last sector is cut off.
    pub fn from_image(mut bytes: Vec<u8>) -> Self {
        bytes.truncate(bytes.len() - bytes.len() % SECTOR_BYTES as usize);
        let written = Default::default();
        Self { bytes, written, sectors_read: 0, sectors_trimmed: 0, flushes: 0, log: None }
    }

    /// Records every write from now on, at 16 bytes each.
    #[must_use]
    pub fn recorded(mut self) -> Self {
        self.log = Some(Vec::new());
        self
    }

    /// Resets counters and record, for example after formatting.
    pub fn reset_counts(&mut self) {
        self.written = Default::default();
        (self.sectors_read, self.sectors_trimmed, self.flushes) = (0, 0, 0);
        if let Some(log) = &mut self.log {
            log.clear();
        }
    }

    /// Recorded writes; empty unless [`Self::recorded`].
    pub fn log(&self) -> &[Recorded] {
        self.log.as_deref().unwrap_or_default()
    }

    /// Writes of one class.
    pub fn written(&self, class: Class) -> ClassCount {
        self.written[class as usize]
    }

    /// Number of sectors read.
    pub fn sectors_read(&self) -> u64 {
        self.sectors_read
    }

    /// Number of sectors trimmed.
    pub fn sectors_trimmed(&self) -> u64 {
        self.sectors_trimmed
    }

    /// Number of flushes.
    pub fn flushes(&self) -> u64 {
        self.flushes
    }

    /// Contents of the disk.
    pub fn image(&self) -> &[u8] {
        &self.bytes
    }

    fn range(&self, sector: u64, bytes: usize) -> Result<std::ops::Range<usize>, FileError> {
        let start = sector.saturating_mul(SECTOR_BYTES);
        let end = start.saturating_add(bytes as u64);
        if end > self.bytes.len() as u64 {
            return Err(FileError::Io(format!("sector {sector} is beyond the end of the disk")));
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
        // Poison the sectors, so that a read of trimmed data is noticed.
        self.bytes[range].fill(0xdb);
        self.sectors_trimmed += count;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), FileError> {
        self.flushes += 1;
        Ok(())
    }
}
