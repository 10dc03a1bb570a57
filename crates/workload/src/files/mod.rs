//! Workloads that use files, written once against a small file system contract.
//!
//! A block workload says which addresses are written; a file workload says what a program does,
//! and the file system decides what that means for the drive. That is the point of the NVRAM
//! paper that Strobe repeats: on a FAT volume whose files are written synchronously, more
//! than half of all writes go to a few metadata sectors.
//!
//! | workload | stands for |
//! |---|---|
//! | [`postmark`] | a mail or news server: many small files (Katcher 1997), byte-exact |
//! | [`camera`] | a phone that takes and deletes photos |
//! | [`varmail`] | a mail server that syncs every message (filebench) |
//! | [`filemicro_delete`] | removing files, nothing else (filebench) |
//! | [`tiobench`] | several threads in large files |
//! | [`copy_tar`] | copying an archive and unpacking it |
//! | [`ageing`] | what a file system has been through before a benchmark |
//!
//! They run on any [`FileSystem`]: [`fat`] is FAT16 on a device of 512-byte sectors, [`posix`] a
//! directory of the machine (Linux, in a guest, with any file system), [`NullFileSystem`] only checks
//! that the calls make sense. Threads of the original programs are flows whose steps a seeded
//! generator interleaves, so that a run is the same on every machine.

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

/// When what a program writes reaches the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Every operation is on the drive when it returns, data and metadata (VFAT mounted `sync`,
    /// files opened with `O_SYNC`).
    #[default]
    Sync,
    /// In memory until a file is synced or the volume unmounted.
    Buffered,
}

/// An open file: a small number that the file system reuses after the file is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(u32);

impl FileId {
    /// The handle in slot `index` of a file system's table.
    pub fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer than 4 billion files are open"))
    }

    /// The slot in the table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Minimal file-system interface for workloads.
///
/// Paths are relative to the root, with `/` between components and none at the start. A caller opens
/// no file twice and removes no open file; a file system may refuse both with
/// [`FileError::Busy`]. An operation that fails with anything but [`FileError::Io`] leaves the file
/// system consistent, and a failed create leaves nothing behind.
pub trait FileSystem {
    /// Makes an empty directory. Its parent must exist.
    fn make_dir(&mut self, path: &str) -> Result<(), FileError>;
    /// Removes an empty directory.
    fn remove_dir(&mut self, path: &str) -> Result<(), FileError>;
    /// Makes an empty file, which must not exist, and opens it.
    fn create(&mut self, path: &str) -> Result<FileId, FileError>;
    /// Opens an existing file for reading and writing.
    fn open(&mut self, path: &str) -> Result<FileId, FileError>;
    /// Bytes in an open file.
    fn size(&mut self, file: FileId) -> Result<u64, FileError>;
    /// Writes all of `bytes` at `offset`, which is at most the size (files have no holes). If space
    /// runs out on the way, what fitted stays in the file.
    fn write_at(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), FileError>;
    /// Fills `buffer` from `offset` on; fewer bytes than asked for are read only at the end.
    fn read_at(&mut self, file: FileId, offset: u64, buffer: &mut [u8]) -> Result<usize, FileError>;
    /// Returns when the file is on the drive (`fsync`).
    fn sync(&mut self, file: FileId) -> Result<(), FileError>;
    /// Closes the file. The handle is invalid from then on, also if this fails.
    fn close(&mut self, file: FileId) -> Result<(), FileError>;
    /// Removes a file.
    fn remove(&mut self, path: &str) -> Result<(), FileError>;
}

/// Room that a program needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes in files.
    pub bytes: u64,
    /// Files.
    pub files: u64,
    /// Files and folders in the topmost folder, which has a fixed size on FAT16.
    pub topmost: u64,
}

/// A program that uses files.
pub trait FileWorkload {
    /// True if the file system has to be empty at the start.
    fn begins_empty(&self) -> bool {
        true
    }

    /// Approximate peak space on the file system. It underestimates by at most a quarter.
    fn space(&self) -> Space;

    /// Checks the configuration, then does in `session` what the program does, to its end. The same seed causes
    /// the same calls on every machine.
    fn play<'a>(&'a self, session: Session<'a>, seed: u64) -> Result<Tally, FileWorkloadError>;

    /// Runs the program on a file system, which is empty if it has to be.
    fn run(
        &self,
        fs: &mut dyn FileSystem,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Tally, FileWorkloadError> {
        self.play(Session::new(fs, observer), seed)
    }
}
