//! A mounted volume: its open files, and the time when changes reach the device.

use super::FatVolume;
use super::cache::{Before, Order, SECTOR, SectorCache};
use super::device::SectorDevice;
use super::stream::Stream;
use crate::files::{FileError, FileId, FileSystem, Mode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use strobe_types::defaults;

defaults! {
    /// Mount options of a FAT volume.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct MountOptions {
        /// Time when changes are written: "sync" or "buffered". Default "sync".
        pub mode: Mode = Mode::Sync;
        /// True to trim freed clusters, as mount option `discard`. Default false. Synchronous mode trims after
        /// writing the tables, other modes immediately.
        pub discard: bool = false;
        /// Largest request for file contents in synchronous mode, in sectors. 1 (one request per sector as in
        /// the NVRAM paper) to 256, default 1. 0 counts as 1, larger values as 256.
        #[schemars(range(min = 1, max = 256))]
        pub sync_request_sectors: u32 = 1;
    }
}

/// A FAT volume as a [`FileSystem`].
///
/// An open file remembers its place in the cluster chain: sequential reads and appends cost the same at any
/// file size. A seek backwards walks the chain from its start. The cost of opening a file grows with the size
/// of the directories. Names are case-insensitive.
pub struct FatMount<'v, D: SectorDevice> {
    volume: &'v FatVolume<D>,
    options: MountOptions,
    files: Vec<Option<OpenFile<'v, D>>>,
}

struct OpenFile<'v, D: SectorDevice> {
    path: String,
    size: u64,
    file: fatfs::File<'v, Stream<D>>,
}

impl<'v, D: SectorDevice> FatMount<'v, D> {
    pub(super) fn new(volume: &'v FatVolume<D>, options: MountOptions) -> Self {
        Self { volume, options, files: Vec::new() }
    }

    /// Accesses the device, for its counters. Unwritten data is not on it.
    pub fn with_device<R>(&mut self, look: impl FnOnce(&mut D) -> R) -> R {
        look(self.volume.cache.borrow_mut().device())
    }

    fn check_closed(&self, path: &str) -> Result<(), FileError> {
        if self.files.iter().flatten().any(|open| open.path.eq_ignore_ascii_case(path)) {
            return Err(FileError::Busy(path.into()));
        }
        Ok(())
    }

    fn make<T>(
        &mut self,
        path: &str,
        operation: impl FnOnce(&'v fatfs::FileSystem<Stream<D>>) -> io::Result<T>,
    ) -> Result<T, FileError> {
        match self.atomically(path, Order::Grow, operation) {
            // `fatfs` opens an existing name without an error: no sector has changed.
            Ok((_, before)) if before.is_empty() => Err(FileError::Exists(path.into())),
            Ok((made, _)) => Ok(made),
            Err(FileError::NoSpace) => Err(FileError::NoSpace),
            Err(refused) => Err(self.check_new(path).err().unwrap_or(refused)),
        }
    }

    fn check_new(&self, path: &str) -> Result<(), FileError> {
        let root = self.volume.fs.root_dir();
        let found = match path.rsplit_once('/') {
            Some((parent, name)) => contains(&root.open_dir(parent).map_err(|e| error(parent, e))?, name),
            None => contains(&root, path),
        };
        if found.map_err(|e| error(path, e))? {
            return Err(FileError::Exists(path.into()));
        }
        Ok(())
    }

    fn add(&mut self, path: &str, mut file: fatfs::File<'v, Stream<D>>) -> Result<FileId, FileError> {
        let size = file.seek(SeekFrom::End(0)).map_err(|e| error(path, e))?;
        let index = self.files.iter().position(Option::is_none).unwrap_or_else(|| {
            self.files.push(None);
            self.files.len() - 1
        });
        self.files[index] = Some(OpenFile { path: path.into(), size, file });
        Ok(FileId::new(index))
    }

    fn open_file(&mut self, file: FileId) -> Result<&mut OpenFile<'v, D>, FileError> {
        self.files.get_mut(file.index()).and_then(Option::as_mut).ok_or(FileError::NotOpen)
    }

    fn atomically<T>(
        &mut self,
        path: &str,
        order: Order,
        operation: impl FnOnce(&'v fatfs::FileSystem<Stream<D>>) -> io::Result<T>,
    ) -> Result<(T, Vec<Before>), FileError> {
        let volume = self.volume;
        volume.cache.borrow_mut().begin();
        // The cache saves each sector before its first change, for a rollback after an error.
        let done = operation(&volume.fs).and_then(|done| {
            shorten_dots(&mut volume.cache.borrow_mut()).map_err(io::Error::other)?;
            Ok(done)
        });
        match done {
            Ok(done) => {
                let before = volume.cache.borrow_mut().commit();
                self.settle(order)?;
                Ok((done, before))
            }
            Err(refused) => {
                volume.cache.borrow_mut().roll_back();
                Err(error(path, refused))
            }
        }
    }

    fn settle(&mut self, order: Order) -> Result<(), FileError> {
        match self.options.mode {
            Mode::Sync => {
                let request = self.options.sync_request_sectors as usize;
                self.volume.cache.borrow_mut().settle(order, request)
            }
            Mode::Buffered => Ok(()),
        }
    }

    fn unlink(&mut self, path: &str) -> Result<(), FileError> {
        let ((), before) = self.atomically(path, Order::Shrink, |fs| fs.root_dir().remove(path))?;
        let mut cache = self.volume.cache.borrow_mut();
        // Contents of freed clusters need not reach the device.
        for sectors in cache.freed(&before) {
            cache.forget(sectors.clone());
            if self.options.discard {
                cache.trim(sectors)?;
            }
        }
        Ok(())
    }
}

/// Removes the long names of `.` and `..` in a new directory: `fatfs` alone writes such names, and `fsck.fat`
/// reports them as damage.
fn shorten_dots<D: SectorDevice>(cache: &mut SectorCache<D>) -> Result<(), FileError> {
    const SLOT: usize = 32;
    let data_start = cache.layout().data_start();
    for sector in cache.touched().into_iter().filter(|&sector| sector >= data_start) {
        let at = u64::from(sector) * SECTOR as u64;
        let mut slots = [0; 4 * SLOT];
        cache.read(at, &mut slots)?;
        if slots[SLOT..].starts_with(b".          ") && slots[3 * SLOT..].starts_with(b"..         ") {
            slots.copy_within(SLOT..2 * SLOT, 0);
            slots.copy_within(3 * SLOT..4 * SLOT, SLOT);
            slots[2 * SLOT..].fill(0);
            cache.write(at, &slots)?;
        }
    }
    Ok(())
}

fn contains<D: SectorDevice>(directory: &fatfs::Dir<'_, Stream<D>>, name: &str) -> io::Result<bool> {
    match directory.open_file(name) {
        Ok(_) => Ok(true),
        Err(refused) if refused.kind() == ErrorKind::NotFound => Ok(false),
        Err(_) => directory.open_dir(name).map(|_| true),
    }
}

pub(super) fn error(path: &str, error: io::Error) -> FileError {
    if let Some(from_device) = error.get_ref().and_then(|inner| inner.downcast_ref::<FileError>()) {
        return from_device.clone();
    }
    // Only the text distinguishes a full volume from a directory that is not empty. A full root directory
    // appears as a write of 0 bytes.
    match (error.kind(), error.to_string().as_str()) {
        (ErrorKind::WriteZero, _) | (_, "No space left on device") => FileError::NoSpace,
        (ErrorKind::NotFound, _) => FileError::NotFound(path.into()),
        (ErrorKind::AlreadyExists, _) => FileError::Exists(path.into()),
        (_, "Directory not empty") => FileError::NotEmpty(path.into()),
        (_, text) if path.is_empty() => FileError::Io(text.into()),
        (_, text) => FileError::Io(format!("{path}: {text}")),
    }
}

impl<D: SectorDevice> FileSystem for FatMount<'_, D> {
    fn make_dir(&mut self, path: &str) -> Result<(), FileError> {
        self.make(path, |fs| fs.root_dir().create_dir(path).map(|_| ()))
    }

    fn remove_dir(&mut self, path: &str) -> Result<(), FileError> {
        self.volume.fs.root_dir().open_dir(path).map_err(|e| error(path, e))?;
        self.unlink(path)
    }

    fn create(&mut self, path: &str) -> Result<FileId, FileError> {
        let file = self.make(path, |fs| fs.root_dir().create_file(path))?;
        self.add(path, file)
    }

    fn open(&mut self, path: &str) -> Result<FileId, FileError> {
        self.check_closed(path)?;
        let file = self.volume.fs.root_dir().open_file(path).map_err(|e| error(path, e))?;
        self.add(path, file)
    }

    fn size(&mut self, file: FileId) -> Result<u64, FileError> {
        self.open_file(file).map(|open| open.size)
    }

    fn write_at(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
        let sync = self.options.mode == Mode::Sync;
        let cache = &self.volume.cache;
        let open = self.files.get_mut(file.index()).and_then(Option::as_mut).ok_or(FileError::NotOpen)?;
        if offset > open.size {
            let text = format!("{}: a write at {offset} leaves a hole after byte {}", open.path, open.size);
            return Err(FileError::Io(text));
        }
        let mut written = 0;
        // While this is set, data sectors that become dirty count as file contents, not as directories.
        cache.borrow_mut().set_payload(true);
        let mut result = open.file.seek(SeekFrom::Start(offset)).map(|_| ());
        while result.is_ok() && written < bytes.len() {
            result = match open.file.write(&bytes[written..]) {
                Ok(0) => Err(ErrorKind::WriteZero.into()),
                Ok(size) => {
                    written += size;
                    Ok(())
                }
                Err(refused) => Err(refused),
            };
        }
        cache.borrow_mut().set_payload(false);
        open.size = open.size.max(offset + written as u64);
        if sync {
            result = result.and(open.file.flush());
        }
        let result = result.map_err(|e| error(&open.path, e));
        // A partial write stays in the file and must reach the device even after an error.
        let settled = self.settle(Order::Grow);
        result.and(settled)
    }

    fn read_at(&mut self, file: FileId, offset: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        let open = self.open_file(file)?;
        if offset >= open.size {
            return Ok(0);
        }
        open.file.seek(SeekFrom::Start(offset)).map_err(|e| error(&open.path, e))?;
        let mut filled = 0;
        while filled < buffer.len() {
            match open.file.read(&mut buffer[filled..]).map_err(|e| error(&open.path, e))? {
                0 => break,
                size => filled += size,
            }
        }
        Ok(filled)
    }

    fn sync(&mut self, file: FileId) -> Result<(), FileError> {
        let open = self.open_file(file)?;
        open.file.flush().map_err(|e| error(&open.path, e))?;
        self.volume.cache.borrow_mut().write_back()
    }

    fn close(&mut self, file: FileId) -> Result<(), FileError> {
        let slot = self.files.get_mut(file.index()).ok_or(FileError::NotOpen)?;
        let mut open = slot.take().ok_or(FileError::NotOpen)?;
        open.file.flush().map_err(|e| error(&open.path, e))?;
        drop(open);
        self.settle(Order::Grow)
    }

    fn remove(&mut self, path: &str) -> Result<(), FileError> {
        self.check_closed(path)?;
        self.volume.fs.root_dir().open_file(path).map_err(|e| error(path, e))?;
        self.unlink(path)
    }
}
