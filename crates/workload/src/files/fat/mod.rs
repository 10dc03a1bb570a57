//! FAT16 on a sector device, with the write pattern of Linux VFAT.
//!
//! The `fatfs` crate implements the file system on a copy of the volume in memory, which acts as page cache.
//! This module decides the order and sizes of requests to the [`SectorDevice`].
//!
//! # Synchronous mode
//!
//! When an operation returns, its changes are on the device. Metadata is written one sector per request, file
//! contents in requests of up to [`MountOptions::sync_request_sectors`]:
//!
//! | operation | writes, in this order |
//! |---|---|
//! | append within a cluster | data, directory entry |
//! | append that takes a cluster | FAT 1, FAT 2, data, directory entry |
//! | overwrite | data |
//! | create | directory entry (one sector, two if its slots straddle a boundary) |
//! | make directory | FAT 1, FAT 2, its cluster, entry in the parent |
//! | remove | directory entry, each FAT sector of the chain, each again in FAT 2 |
//!
//! A power cut between two writes may leak clusters and let the two tables differ, which `fsck.fat -a`
//! repairs. It never costs a complete file.
//!
//! # Buffered mode
//!
//! Changes stay in memory until [`sync`](super::FileSystem::sync) or [`FatVolume::unmount`]. Then all dirty
//! sectors are written in ascending order; adjacent sectors of one class are merged up to 128 KiB. There is
//! no write-back by age or memory pressure. Dirty contents of a removed file are dropped.
//!
//! # Differences from Linux
//!
//! - When a file takes a cluster, Linux with mount option `sync` writes the tables twice: for the new entry
//!   and for its predecessor in the chain. `O_SYNC` on a plain mount writes them once, after data and
//!   directory entry. This module writes them once, before the data.
//! - Every name takes two directory slots, a long and a short one; Linux omits the long one for names such
//!   as `IMG1.JPG`. The root of 512 slots holds 256 files.
//! - Time stands still at 1980-01-01. An overwrite therefore changes no directory entry, and creating a file
//!   does not change the entry of its directory. Linux updates both, at most every two seconds.
//! - The unclean mark is set by the first change and cleared by unmount; Linux sets it at mount.
//! - The cache is never evicted. To read from the device again, unmount and open.

mod cache;
mod device;
mod format;
mod layout;
mod mount;
mod stream;
#[cfg(test)]
mod tests;

pub use device::{Class, ClassCount, MemoryDisk, Recorded, SectorDevice};
pub use format::FatFormat;
pub use mount::{FatMount, MountOptions};

use crate::files::{FileError, FileWorkloadError};
use cache::{SECTOR, SectorCache};
use layout::Layout;
use std::cell::RefCell;
use std::rc::Rc;
use stream::Stream;

/// Free and total clusters of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FatSpace {
    /// Cluster size in bytes.
    pub cluster_bytes: u32,
    /// Clusters of the volume.
    pub clusters: u32,
    /// Clusters in no file or directory.
    pub free_clusters: u32,
}

/// A FAT16 volume on a device, used through [`Self::mount`].
///
/// Dropping it without [`Self::unmount`] loses unwritten data, as in a power cut.
pub struct FatVolume<D: SectorDevice> {
    fs: fatfs::FileSystem<Stream<D>>,
    cache: Rc<RefCell<SectorCache<D>>>,
}

impl<D: SectorDevice> FatVolume<D> {
    /// Formats a volume on `device`: writes boot sector, tables and an empty root directory.
    pub fn format(device: D, format: &FatFormat) -> Result<Self, FileWorkloadError> {
        format.check(device.sectors())?;
        let sectors = format.volume_sectors;
        let first = u64::from(format.offset_sectors);
        let cache = SectorCache::new(device, first, sectors, Layout::default(), true);
        let cache = Rc::new(RefCell::new(cache));
        fatfs::format_volume(Stream::new(Rc::clone(&cache)), format.options())
            .map_err(|error| mount::error("", error))?;
        let layout = Self::layout(&mut cache.borrow_mut())?;
        cache.borrow_mut().set_layout(layout);
        cache.borrow_mut().write_back()?;
        Ok(Self::start(cache)?)
    }

    /// Opens the volume at `offset_sectors` of `device`. Tables and directories are not checked, so the
    /// volume must pass `fsck.fat`.
    ///
    /// After a power cut in synchronous mode its only faults are leaked clusters and an outdated second
    /// table.
    pub fn open(mut device: D, offset_sectors: u32) -> Result<Self, FileError> {
        let first = u64::from(offset_sectors);
        if first >= device.sectors() {
            return Err(FileError::Io(format!("the device has no sector {first}")));
        }
        let mut boot = [0; SECTOR];
        device.read(first, &mut boot)?;
        let layout = Layout::read(&boot)?;
        if first + u64::from(layout.sectors) > device.sectors() {
            return Err(FileError::Io("the volume is larger than its device".into()));
        }
        let sectors = layout.sectors;
        let cache = SectorCache::new(device, first, sectors, layout, false);
        Self::start(Rc::new(RefCell::new(cache)))
    }

    fn layout(cache: &mut SectorCache<D>) -> Result<Layout, FileError> {
        let mut boot = [0; SECTOR];
        cache.read(0, &mut boot)?;
        Layout::read(&boot)
    }

    fn start(cache: Rc<RefCell<SectorCache<D>>>) -> Result<Self, FileError> {
        let stream = Stream::new(Rc::clone(&cache));
        let fs = fatfs::FileSystem::new(stream, fatfs::FsOptions::new())
            .map_err(|error| mount::error("", error))?;
        Ok(Self { fs, cache })
    }

    /// Mounts the volume as a file system.
    pub fn mount(&mut self, options: MountOptions) -> FatMount<'_, D> {
        FatMount::new(self, options)
    }

    /// Accesses the device, for its counters. Unwritten data is not on it.
    pub fn with_device<R>(&mut self, look: impl FnOnce(&mut D) -> R) -> R {
        look(self.cache.borrow_mut().device())
    }

    /// Free and total space of the volume.
    pub fn space(&self) -> Result<FatSpace, FileError> {
        let stats = self.fs.stats().map_err(|error| mount::error("", error))?;
        Ok(FatSpace {
            cluster_bytes: stats.cluster_size(),
            clusters: stats.total_clusters(),
            free_clusters: stats.free_clusters(),
        })
    }

    /// First sector of the first cluster on the device. All metadata except subdirectories lies before it, so
    /// a cache can select metadata by address.
    pub fn data_start(&self) -> u64 {
        let cache = self.cache.borrow();
        cache.first() + u64::from(cache.layout().data_start())
    }

    /// Writes all changes, marks the volume clean and returns the device.
    pub fn unmount(self) -> Result<D, FileError> {
        let Self { fs, cache } = self;
        fs.unmount().map_err(|error| mount::error("", error))?;
        cache.borrow_mut().write_back()?;
        let cache = Rc::into_inner(cache).expect("the file system, which had the other reference, is gone");
        Ok(cache.into_inner().into_device())
    }
}
