//! Session of a workload: counts its file system calls and reports them to an observer.

use super::{FileError, FileId, FileSystem};
use strobe_types::named;

named! {
    /// Kinds of file system calls.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u8)]
    #[expect(missing_docs, reason = "named as the calls of FileSystem")]
    pub enum Operation {
        MakeDir => "make_dir",
        RemoveDir => "remove_dir",
        Create => "create",
        Open => "open",
        Read => "read",
        Write => "write",
        Sync => "sync",
        Close => "close",
        Remove => "remove",
    }
}

/// Counters of a workload. Only successful calls count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    calls: [u64; Operation::ALL.len()],
    /// Bytes written to the file system.
    pub bytes_written: u64,
    /// Bytes read from the file system.
    pub bytes_read: u64,
}

impl Tally {
    /// Number of calls of one kind.
    pub fn calls(&self, operation: Operation) -> u64 {
        self.calls[operation as usize]
    }
}

/// Observer of a run. All methods do nothing by default; `()` is an observer.
pub trait Observer {
    /// Called before a call.
    fn begins(&mut self, operation: Operation) {
        let _ = operation;
    }

    /// Called after a successful call; `bytes` is 0 unless it reads or writes.
    fn operation(&mut self, operation: Operation, bytes: u64) {
        let _ = (operation, bytes);
    }

    /// Reports `done` of `total` steps; the unit depends on the workload.
    fn progress(&mut self, done: u64, total: u64) {
        let _ = (done, total);
    }
}

impl Observer for () {}

/// A file system with counters, an observer, and block-wise reads and writes.
pub struct Session<'a> {
    fs: &'a mut dyn FileSystem,
    observer: &'a mut dyn Observer,
    pub(super) tally: Tally,
    buffer: Vec<u8>,
}

impl<'a> Session<'a> {
    pub(super) fn new(fs: &'a mut dyn FileSystem, observer: &'a mut dyn Observer) -> Self {
        Self { fs, observer, tally: Tally::default(), buffer: Vec::new() }
    }

    pub(super) fn progress(&mut self, done: u64, total: u64) {
        self.observer.progress(done, total);
    }

    fn call<T>(
        &mut self,
        operation: Operation,
        call: impl FnOnce(&mut dyn FileSystem) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        self.observer.begins(operation);
        call(self.fs).inspect(|_| self.count(operation, 0))
    }

    fn count(&mut self, operation: Operation, bytes: u64) {
        self.tally.calls[operation as usize] += 1;
        self.observer.operation(operation, bytes);
    }

    pub(super) fn make_dir(&mut self, path: &str) -> Result<(), FileError> {
        self.call(Operation::MakeDir, |fs| fs.make_dir(path))
    }

    pub(super) fn remove_dir(&mut self, path: &str) -> Result<(), FileError> {
        self.call(Operation::RemoveDir, |fs| fs.remove_dir(path))
    }

    pub(super) fn create(&mut self, path: &str) -> Result<FileId, FileError> {
        self.call(Operation::Create, |fs| fs.create(path))
    }

    pub(super) fn open(&mut self, path: &str) -> Result<FileId, FileError> {
        self.call(Operation::Open, |fs| fs.open(path))
    }

    pub(super) fn size(&mut self, file: FileId) -> Result<u64, FileError> {
        self.fs.size(file)
    }

    pub(super) fn write_at(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
        self.observer.begins(Operation::Write);
        self.fs.write_at(file, offset, bytes)?;
        self.tally.bytes_written += bytes.len() as u64;
        self.count(Operation::Write, bytes.len() as u64);
        Ok(())
    }

    pub(super) fn write_blocks(
        &mut self,
        file: FileId,
        offset: u64,
        bytes: &[u8],
        block: usize,
    ) -> Result<(), FileError> {
        let mut at = offset;
        for chunk in bytes.chunks(block) {
            self.write_at(file, at, chunk)?;
            at += chunk.len() as u64;
        }
        Ok(())
    }

    pub(super) fn write_pattern(
        &mut self,
        file: FileId,
        offset: u64,
        bytes: u64,
        block: usize,
        key: u64,
    ) -> Result<(), FileError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let end = offset + bytes;
        let mut at = offset;
        while at < end {
            let size = (end - at).min(block as u64) as usize;
            buffer.resize(size, 0);
            // Contents derive from `key` and the offset in the file: all blocks of a run differ.
            fill_pattern(key, at, &mut buffer);
            self.write_at(file, at, &buffer)?;
            at += size as u64;
        }
        self.buffer = buffer;
        Ok(())
    }

    pub(super) fn read_at(
        &mut self,
        file: FileId,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, FileError> {
        self.observer.begins(Operation::Read);
        let size = self.fs.read_at(file, offset, buffer)?;
        self.tally.bytes_read += size as u64;
        self.count(Operation::Read, size as u64);
        Ok(size)
    }

    pub(super) fn read_whole(&mut self, file: FileId, bytes: u64, block: usize) -> Result<(), FileError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(block, 0);
        let mut at = 0;
        while at < bytes {
            let want = (bytes - at).min(block as u64) as usize;
            let size = self.read_at(file, at, &mut buffer[..want])?;
            if size < want {
                return Err(FileError::Io(format!("a file of {bytes} bytes ends at {}", at + size as u64)));
            }
            at += size as u64;
        }
        self.buffer = buffer;
        Ok(())
    }

    pub(super) fn sync(&mut self, file: FileId) -> Result<(), FileError> {
        self.call(Operation::Sync, |fs| fs.sync(file))
    }

    pub(super) fn close(&mut self, file: FileId) -> Result<(), FileError> {
        self.call(Operation::Close, |fs| fs.close(file))
    }

    pub(super) fn remove(&mut self, path: &str) -> Result<(), FileError> {
        self.call(Operation::Remove, |fs| fs.remove(path))
    }
}

fn fill_pattern(key: u64, offset: u64, bytes: &mut [u8]) {
    // SplitMix64 (Steele et al. 2014), seeded with key and offset: eight bytes per step.
    let start = key ^ offset.wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mut state = start;
    for chunk in bytes.chunks_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}
