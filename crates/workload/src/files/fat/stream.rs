//! Byte stream over the cached volume, with a position: the storage interface of `fatfs`.

use super::cache::SectorCache;
use super::device::SectorDevice;
use std::cell::RefCell;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::rc::Rc;

#[derive(Debug)]
pub(super) struct Stream<D> {
    cache: Rc<RefCell<SectorCache<D>>>,
    position: u64,
}

impl<D> Stream<D> {
    pub(super) fn new(cache: Rc<RefCell<SectorCache<D>>>) -> Self {
        Self { cache, position: 0 }
    }
}

impl<D: SectorDevice> Read for Stream<D> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.cache.borrow_mut().read(self.position, buffer).map_err(io::Error::other)?;
        self.position += size as u64;
        Ok(size)
    }
}

impl<D: SectorDevice> Write for Stream<D> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let size = self.cache.borrow_mut().write(self.position, bytes).map_err(io::Error::other)?;
        self.position += size as u64;
        Ok(size)
    }

    fn flush(&mut self) -> io::Result<()> {
        // `fatfs` flushes at every close, but the mount options decide the time of writes.
        Ok(())
    }
}

impl<D: SectorDevice> Seek for Stream<D> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.cache.borrow().len().checked_add_signed(by),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
