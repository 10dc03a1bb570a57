use super::{FileError, FileId, FileSystem};
use std::collections::{BTreeMap, BTreeSet};

/// File system that validates calls but stores only names and sizes; reads return zeros. For counting and
/// validating the calls of a workload.
#[derive(Clone, Debug, Default)]
pub struct NullFileSystem {
    directories: BTreeSet<String>,
    sizes: BTreeMap<String, u64>,
    open: Vec<Option<String>>,
}

impl NullFileSystem {
    /// Returns an empty file system.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names and sizes of all files, in order of names.
    pub fn files(&self) -> impl Iterator<Item = (&str, u64)> {
        self.sizes.iter().map(|(path, &size)| (path.as_str(), size))
    }

    /// Total size of all files in bytes.
    pub fn bytes(&self) -> u64 {
        self.sizes.values().sum()
    }

    fn check_new(&self, path: &str) -> Result<(), FileError> {
        if self.sizes.contains_key(path) || self.directories.contains(path) {
            return Err(FileError::Exists(path.into()));
        }
        match path.rsplit_once('/') {
            Some((parent, _)) if !self.directories.contains(parent) => {
                Err(FileError::NotFound(parent.into()))
            }
            _ => Ok(()),
        }
    }

    fn check_closed(&self, path: &str) -> Result<(), FileError> {
        if self.open.iter().flatten().any(|open| open == path) {
            return Err(FileError::Busy(path.into()));
        }
        Ok(())
    }

    fn add_handle(&mut self, path: &str) -> FileId {
        let index = self.open.iter().position(Option::is_none).unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        self.open[index] = Some(path.into());
        FileId::new(index)
    }

    fn size_of(&mut self, file: FileId) -> Result<&mut u64, FileError> {
        let path = self.open.get(file.index()).and_then(Option::as_ref).ok_or(FileError::NotOpen)?;
        self.sizes.get_mut(path).ok_or(FileError::NotOpen)
    }
}

impl FileSystem for NullFileSystem {
    fn make_dir(&mut self, path: &str) -> Result<(), FileError> {
        self.check_new(path)?;
        self.directories.insert(path.into());
        Ok(())
    }

    fn remove_dir(&mut self, path: &str) -> Result<(), FileError> {
        let inside = format!("{path}/");
        let first_from = |next: Option<&String>| next.is_some_and(|name| name.starts_with(&inside));
        if first_from(self.sizes.range(inside.clone()..).next().map(|(name, _)| name))
            || first_from(self.directories.range(inside.clone()..).next())
        {
            return Err(FileError::NotEmpty(path.into()));
        }
        if !self.directories.remove(path) {
            return Err(FileError::NotFound(path.into()));
        }
        Ok(())
    }

    fn create(&mut self, path: &str) -> Result<FileId, FileError> {
        self.check_new(path)?;
        self.sizes.insert(path.into(), 0);
        Ok(self.add_handle(path))
    }

    fn open(&mut self, path: &str) -> Result<FileId, FileError> {
        if !self.sizes.contains_key(path) {
            return Err(FileError::NotFound(path.into()));
        }
        self.check_closed(path)?;
        Ok(self.add_handle(path))
    }

    fn size(&mut self, file: FileId) -> Result<u64, FileError> {
        self.size_of(file).copied()
    }

    fn write_at(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
        let size = self.size_of(file)?;
        if offset > *size {
            return Err(FileError::Io(format!("a write at {offset} leaves a hole after byte {size}")));
        }
        *size = (*size).max(offset + bytes.len() as u64);
        Ok(())
    }

    fn read_at(&mut self, file: FileId, offset: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        let left = self.size_of(file)?.saturating_sub(offset);
        let size = left.min(buffer.len() as u64) as usize;
        buffer[..size].fill(0);
        Ok(size)
    }

    fn sync(&mut self, file: FileId) -> Result<(), FileError> {
        self.size_of(file).map(|_| ())
    }

    fn close(&mut self, file: FileId) -> Result<(), FileError> {
        let slot = self.open.get_mut(file.index()).ok_or(FileError::NotOpen)?;
        slot.take().map(|_| ()).ok_or(FileError::NotOpen)
    }

    fn remove(&mut self, path: &str) -> Result<(), FileError> {
        self.check_closed(path)?;
        self.sizes.remove(path).map(|_| ()).ok_or_else(|| FileError::NotFound(path.into()))
    }
}
