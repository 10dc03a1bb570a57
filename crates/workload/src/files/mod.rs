//! File workloads, written against a small file system interface.
//!
//! A file workload defines the file system calls of a program; the file system turns them into block
//! requests. The NVRAM paper shows the difference: on a FAT volume with synchronous writes, more than half of
//! all writes go to a few metadata sectors.
//!
//! Workloads run on any [`FileSystem`]: [`fat`], a host directory ([`posix`]), or [`NullFileSystem`], which
//! only validates the calls. Threads of the original programs become flows. A seeded generator interleaves
//! their steps, so a run is the same on every machine.

#[macro_use]
mod settings;

pub mod ageing;
pub mod camera;
pub mod copy_tar;
mod error;
pub mod fat;
mod file_set;
pub mod filemicro_delete;
mod mersenne;
mod null;
#[cfg(unix)]
pub mod posix;
pub mod postmark;
mod session;
pub mod tiobench;
pub mod varmail;

pub use error::{FileError, FileWorkloadError};
pub use null::NullFileSystem;
pub use session::{Observer, Operation, Session, Tally};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Time when writes of a program reach the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Data and metadata of every operation are on the drive when it returns (VFAT mounted `sync`, files opened
    /// with `O_SYNC`).
    #[default]
    Sync,
    /// Changes stay in memory until the file is synced or the volume unmounted.
    Buffered,
}

/// Handle of an open file, reused after the file is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(u32);

impl FileId {
    /// Returns the handle of slot `index` in a file system's table.
    ///
    /// Panics if `index` exceeds 32 bits.
    pub fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer than 4 billion files are open"))
    }

    /// Slot in the table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Minimal file-system interface for workloads.
///
/// Paths are relative to the root, with `/` between components and none at the start. A caller opens no file
/// twice and removes no open file; a file system may refuse both with [`FileError::Busy`]. After any error
/// except [`FileError::Io`] the file system is consistent, and a failed create leaves no file.
pub trait FileSystem {
    /// Creates an empty directory. Its parent must exist.
    fn make_dir(&mut self, path: &str) -> Result<(), FileError>;
    /// Removes an empty directory.
    fn remove_dir(&mut self, path: &str) -> Result<(), FileError>;
    /// Creates and opens an empty file, which must not exist.
    fn create(&mut self, path: &str) -> Result<FileId, FileError>;
    /// Opens an existing file for reading and writing.
    fn open(&mut self, path: &str) -> Result<FileId, FileError>;
    /// Size of an open file in bytes.
    fn size(&mut self, file: FileId) -> Result<u64, FileError>;
    /// Writes all of `bytes` at `offset`, which must not exceed the file size: files have no holes. If space
    /// runs out, the part that fitted stays in the file.
    fn write_at(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), FileError>;
    /// Fills `buffer` from `offset` on; returns fewer bytes only at the end of the file.
    fn read_at(&mut self, file: FileId, offset: u64, buffer: &mut [u8]) -> Result<usize, FileError>;
    /// Makes the file durable (`fsync`).
    fn sync(&mut self, file: FileId) -> Result<(), FileError>;
    /// Closes the file. The handle becomes invalid, even if this fails.
    fn close(&mut self, file: FileId) -> Result<(), FileError>;
    /// Removes a file.
    fn remove(&mut self, path: &str) -> Result<(), FileError>;
}

/// Space that a workload needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes in files.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
    /// Entries of the root directory, which has a fixed size on FAT16.
    pub topmost: u64,
}

/// A file workload.
pub trait FileWorkload {
    /// True if the file system must be empty at the start.
    fn begins_empty(&self) -> bool {
        true
    }

    /// Approximate peak space on the file system. It underestimates by at most a quarter.
    fn space(&self) -> Space;

    /// Checks the configuration and runs the workload to its end in `session`. Equal seeds cause equal calls on
    /// every machine.
    fn play<'a>(&'a self, session: Session<'a>, seed: u64) -> Result<Tally, FileWorkloadError>;

    /// Runs the workload on `fs`, which must be empty if [`Self::begins_empty`].
    fn run(
        &self,
        fs: &mut dyn FileSystem,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Tally, FileWorkloadError> {
        self.play(Session::new(fs, observer), seed)
    }
}
