//! A host directory as a file system.

use super::{FileError, FileId, FileSystem, Mode};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// Files below a directory, through POSIX system calls.
///
/// [`Mode::Sync`] opens files with `O_SYNC` and syncs a directory after each change to its entries, so its
/// guarantee holds even on a mount without `sync`.
#[derive(Debug)]
pub struct PosixFileSystem {
    root: PathBuf,
    mode: Mode,
    open: Vec<Option<(PathBuf, File)>>,
}

impl PosixFileSystem {
    /// Opens the directory `root`, which must exist. Files outside `root` are accessible only through
    /// symbolic links in it.
    pub fn new(root: impl Into<PathBuf>, mode: Mode) -> Result<Self, FileError> {
        let root = root.into();
        if !root.is_dir() {
            return Err(FileError::NotFound(root.display().to_string()));
        }
        Ok(Self { root, mode, open: Vec::new() })
    }

    fn path(&self, path: &str) -> Result<PathBuf, FileError> {
        if path.is_empty() || !Path::new(path).components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(FileError::Io(format!("{path:?} is not a path below the root")));
        }
        Ok(self.root.join(path))
    }

    fn check_closed(&self, name: &str, path: &Path) -> Result<(), FileError> {
        if self.open.iter().flatten().any(|(open, _)| open == path) {
            return Err(FileError::Busy(name.into()));
        }
        Ok(())
    }

    fn open_with(&mut self, name: &str, create: bool) -> Result<FileId, FileError> {
        let path = self.path(name)?;
        self.check_closed(name, &path)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(create);
        if self.mode == Mode::Sync {
            options.custom_flags(rustix::fs::OFlags::SYNC.bits().cast_signed());
        }
        let file = options.open(&path).map_err(|error| named(name, &error))?;
        if create {
            self.sync_parent(&path)?;
        }
        let index = self.open.iter().position(Option::is_none).unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        self.open[index] = Some((path, file));
        Ok(FileId::new(index))
    }

    fn sync_parent(&self, path: &Path) -> Result<(), FileError> {
        if self.mode == Mode::Buffered {
            return Ok(());
        }
        let parent = path.parent().unwrap_or(&self.root);
        File::open(parent).and_then(|directory| directory.sync_all()).map_err(|error| unnamed(&error))
    }

    fn file(&self, file: FileId) -> Result<&File, FileError> {
        self.open.get(file.index()).and_then(Option::as_ref).map(|(_, file)| file).ok_or(FileError::NotOpen)
    }
}

fn named(path: &str, error: &io::Error) -> FileError {
    match error.kind() {
        ErrorKind::NotFound => FileError::NotFound(path.into()),
        ErrorKind::AlreadyExists => FileError::Exists(path.into()),
        ErrorKind::DirectoryNotEmpty => FileError::NotEmpty(path.into()),
        _ => unnamed(error),
    }
}

fn unnamed(error: &io::Error) -> FileError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => FileError::NoSpace,
        _ => FileError::Io(error.to_string()),
    }
}

impl FileSystem for PosixFileSystem {
    fn make_dir(&mut self, path: &str) -> Result<(), FileError> {
        let full = self.path(path)?;
        fs::create_dir(&full).map_err(|error| named(path, &error))?;
        self.sync_parent(&full)
    }

    fn remove_dir(&mut self, path: &str) -> Result<(), FileError> {
        let full = self.path(path)?;
        fs::remove_dir(&full).map_err(|error| named(path, &error))?;
        self.sync_parent(&full)
    }

    fn create(&mut self, path: &str) -> Result<FileId, FileError> {
        self.open_with(path, true)
    }

    fn open(&mut self, path: &str) -> Result<FileId, FileError> {
        self.open_with(path, false)
    }

    fn size(&mut self, file: FileId) -> Result<u64, FileError> {
        self.file(file)?.metadata().map(|data| data.len()).map_err(|error| unnamed(&error))
    }

    fn write_at(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
        self.file(file)?.write_all_at(bytes, offset).map_err(|error| unnamed(&error))
    }

    fn read_at(&mut self, file: FileId, offset: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        let file = self.file(file)?;
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(size) => filled += size,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(unnamed(&error)),
            }
        }
        Ok(filled)
    }

    fn sync(&mut self, file: FileId) -> Result<(), FileError> {
        self.file(file)?.sync_all().map_err(|error| unnamed(&error))
    }

    fn close(&mut self, file: FileId) -> Result<(), FileError> {
        let slot = self.open.get_mut(file.index()).ok_or(FileError::NotOpen)?;
        slot.take().map(|_| ()).ok_or(FileError::NotOpen)
    }

    fn remove(&mut self, path: &str) -> Result<(), FileError> {
        let full = self.path(path)?;
        self.check_closed(path, &full)?;
        fs::remove_file(&full).map_err(|error| named(path, &error))?;
        self.sync_parent(&full)
    }
}
