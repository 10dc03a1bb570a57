//! FAT16 on a device of sectors, with the write pattern of Linux VFAT.
//!
//! The file system itself is the `fatfs` crate. Between it and the [`SectorDevice`] lies a copy of the
//! volume in memory, the page cache of a kernel: what was read or written stays there, and whole sectors
//! go to the device, in an order and in request sizes that this module chooses.
//!
//! # Synchronous mode
//!
//! Every operation ends with what it changed on the device, metadata one sector per request and contents as
//! [`MountOptions::sync_request_sectors`] says:
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
//! So a power cut between two writes costs clusters (allocated, in no file) and lets the two tables
//! differ, which `fsck.fat -a` repairs, but no file that was complete. 512 bytes at a time with clusters of
//! 2 KiB that is 1.5 metadata writes per data write.
//!
//! # Buffered mode
//!
//! Changes stay in memory until [`sync`](super::FileSystem::sync) or [`FatVolume::unmount`]; then all of
//! them are written in ascending order, neighbours of the same class in one request of up to 128 KiB.
//! There is no write-back by age or memory pressure. Contents of a removed file are never written.
//!
//! # What differs from Linux
//!
//! - Linux with mount option `sync` writes the tables twice when a file takes a cluster, for the new entry
//!   and for the one that leads to it; with `O_SYNC` on a plain mount once, but after data and entry. Here
//!   it is once, before the data.
//! - Every name takes two slots of a directory, a long and a short one; Linux omits the long one for names
//!   such as `IMG1.JPG`. So a directory fills twice as fast: the root of 512 slots holds 256 files.
//! - Time stands still at 1980-01-01. An overwrite changes no entry, and neither does a directory's entry
//!   change when something is made in it; in Linux both happen, but at most every two seconds.
//! - The mark of an unclean volume is set with the first change and cleared by unmount, one write each;
//!   Linux does so when it mounts.
//! - Nothing is ever dropped from memory. To read from the device again, unmount and open.

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
    /// Bytes of a cluster.
    pub cluster_bytes: u32,
    /// Clusters of the volume.
    pub clusters: u32,
    /// Clusters that belong to no file or directory.
    pub free_clusters: u32,
}

/// A FAT16 volume on a device. It is used through [`Self::mount`].
///
/// If it is dropped without [`Self::unmount`], what is not yet on the device is lost, as in a power cut.
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

    /// Opens the volume that begins `offset_sectors` behind the start of `device`. It must be one that
    /// `fsck.fat` accepts, which every power cut in synchronous mode leaves but for lost clusters and second
    /// tables that lag behind; tables and directories are not checked.
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

    /// The volume as a file system, until that is dropped.
    pub fn mount(&mut self, options: MountOptions) -> FatMount<'_, D> {
        FatMount::new(self, options)
    }

    /// The device, for its counters; what is not yet written is not there.
    pub fn with_device<R>(&mut self, look: impl FnOnce(&mut D) -> R) -> R {
        look(self.cache.borrow_mut().device())
    }

    /// Used and free space of the volume.
    pub fn space(&self) -> Result<FatSpace, FileError> {
        let stats = self.fs.stats().map_err(|error| mount::error("", error))?;
        Ok(FatSpace {
            cluster_bytes: stats.cluster_size(),
            clusters: stats.total_clusters(),
            free_clusters: stats.free_clusters(),
        })
    }

    /// The sector of the device where the first cluster lies. Metadata with a fixed place, which is all
    /// but subdirectories, ends there; a cache that knows only addresses can use it.
    pub fn data_start(&self) -> u64 {
        let cache = self.cache.borrow();
        cache.first() + u64::from(cache.layout().data_start())
    }

    /// Writes what is in memory, marks the volume clean and returns the device.
    pub fn unmount(self) -> Result<D, FileError> {
        let Self { fs, cache } = self;
        fs.unmount().map_err(|error| mount::error("", error))?;
        cache.borrow_mut().write_back()?;
        let cache = Rc::into_inner(cache).expect("the file system, which had the other reference, is gone");
        Ok(cache.into_inner().into_device())
    }
}
