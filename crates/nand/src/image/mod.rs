//! A flash array in a file: stored data outlives the process, even a killed one.
//!
//! **After `kill -9`** the file is as after a power cut between two flash operations. Every operation
//! takes effect with its last write: the record of a programmed page, or the block-table entry of an erased
//! block. That write is small and aligned, so the kernel does all of it or nothing; earlier writes are
//! invisible without it. Torn pages therefore do not exist: any checksum mismatch is damage and is reported.
//!
//! **After an error** (no space left, for example) the file stays as after a power cut at that moment, and
//! [`Nand::failure`](crate::Nand::failure) gives the reason.

mod layout;
mod medium;
mod read;
mod scan;
mod storage;
#[cfg(test)]
mod tests;

pub use medium::DataMedium;
pub use scan::{Damage, Scan};

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

use strobe_types::{BlockId, Geometry};

use crate::wear::factory_bad;
use crate::{BlockState, Chip, Timing, WearConfig};
use layout::{ALIGN, BLOCK_SLOT, BlockEntry, CONFIG_MAX, Header, Layout, MAGIC, POWER_ON_MAX_NS, VERSION};
use medium::FileMedium;
use storage::Storage;

/// Errors of an image file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// An error of the operating system.
    #[error("cannot {doing} it: {source}")]
    Io {
        /// Attempted operation.
        doing: &'static str,
        /// Reason of the failure.
        source: io::Error,
    },
    /// A directory, a device or a pipe.
    #[error("it is not a regular file")]
    NotAFile,
    /// Another process has it open.
    #[error("another process has it open; end that one first (a server: strobe ctl SOCKET stop)")]
    InUse,
    /// A file of another kind.
    #[error("it is not an image of a Strobe drive")]
    Foreign,
    /// A header of zeros.
    #[error("it is blank: not an image, or one whose creation was cut short")]
    Blank,
    /// A version unknown to this program.
    #[error(
        "it has format version {0}, this program reads version {VERSION}: use the version of Strobe that wrote it"
    )]
    Version(u32),
    /// A damaged or inconsistent header.
    #[error("its header is damaged: {0}")]
    Header(String),
    /// A file that ends before its tables do.
    #[error("it is truncated: {length} of {expected} bytes are left, and its tables are incomplete")]
    Truncated {
        /// Actual length in bytes.
        length: u64,
        /// Expected length in bytes.
        expected: u64,
    },
    /// An array of another geometry.
    #[error("it holds a drive of another geometry: {0}")]
    Geometry(String),
    /// A configuration text longer than an image can hold.
    #[error("a configuration of {0} bytes does not fit into an image, at most {CONFIG_MAX} do")]
    ConfigTooLong(usize),
    /// Damaged parts.
    #[error("it is damaged: {}", summary(.0))]
    Damaged(Vec<Damage>),
}

fn summary(damage: &[Damage]) -> String {
    let first: Vec<String> = damage.iter().take(3).map(ToString::to_string).collect();
    let more = match damage.len().saturating_sub(first.len()) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    first.join("; ") + &more
}

fn failed(doing: &'static str) -> impl FnOnce(io::Error) -> ImageError {
    move |source| ImageError::Io { doing, source }
}

/// Parameters at the creation of an image, and its power-on time.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageInfo {
    /// Geometry of the array.
    pub geometry: Geometry,
    /// Causes of bad blocks.
    pub wear: WearConfig,
    /// Seed of its random numbers.
    pub seed: u64,
    /// Bits of a cell if blocks can be in SLC mode; 0 if they cannot.
    pub slc_bits: u32,
    /// Virtual power-on time as of the last sync, in ns.
    pub power_on_ns: u64,
    /// Text of the layer above, at most 1 MiB, not interpreted.
    pub config: String,
}

impl ImageInfo {
    /// Refuses an image whose geometry differs from `wanted`, naming every difference.
    pub fn expect_geometry(&self, wanted: &Geometry) -> Result<(), ImageError> {
        let (image, wanted) = (self.geometry.spec(), wanted.spec());
        let differences: Vec<String> = [
            ("channels", image.channels, wanted.channels),
            ("dies_per_channel", image.dies_per_channel, wanted.dies_per_channel),
            ("planes_per_die", image.planes_per_die, wanted.planes_per_die),
            ("blocks_per_plane", image.blocks_per_plane, wanted.blocks_per_plane),
            ("pages_per_block", image.pages_per_block, wanted.pages_per_block),
            ("page_bytes", image.page_bytes, wanted.page_bytes),
            ("mapping_unit_bytes", image.unit_bytes, wanted.unit_bytes),
        ]
        .into_iter()
        .filter(|(_, image, wanted)| image != wanted)
        .map(|(key, image, wanted)| format!("{key} is {image} in the image, but {wanted} was requested"))
        .collect();
        if differences.is_empty() { Ok(()) } else { Err(ImageError::Geometry(differences.join("; "))) }
    }
}

/// Access mode of an open image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read-only; several processes may read at the same time.
    Read,
    /// Read and write; no other process may have the image open.
    Write,
}

/// An image file: open, locked, with a valid header.
#[derive(Debug)]
pub struct Image {
    storage: Box<dyn Storage>,
    info: ImageInfo,
    layout: Layout,
    length: u64,
}

impl Image {
    /// Opens the image at `path` and checks its header. Tables and contents are checked when they are read.
    pub fn open(path: &Path, access: Access) -> Result<Self, ImageError> {
        // Checked first, because opening a pipe would block until its other end is open.
        if !fs::metadata(path).map_err(failed("open"))?.is_file() {
            return Err(ImageError::NotAFile);
        }
        let write = access == Access::Write;
        let file = OpenOptions::new().read(true).write(write).open(path).map_err(failed("open"))?;
        lock(&file, access)?;
        Self::on(Box::new(file))
    }

    /// Parameters at the creation of the image.
    pub fn info(&self) -> &ImageInfo {
        &self.info
    }

    fn on(storage: Box<dyn Storage>) -> Result<Self, ImageError> {
        let length = storage.length().map_err(failed("read"))?;
        let mut slot = [0; ALIGN as usize];
        storage.read(&mut slot, 0).map_err(failed("read"))?;
        // Check in order: blank, magic, version, length, checksum, plausibility, configuration.
        if slot.iter().all(|&byte| byte == 0) {
            return Err(ImageError::Blank);
        }
        let Some(version) = slot.strip_prefix(&MAGIC).and_then(|rest| rest.first_chunk::<4>()) else {
            return Err(ImageError::Foreign);
        };
        let found = u32::from_le_bytes(*version);
        if found != VERSION {
            return Err(ImageError::Version(found));
        }
        if length < ALIGN {
            return Err(ImageError::Truncated { length, expected: ALIGN });
        }
        let header: Header = layout::open(0, &slot)
            .ok_or_else(|| ImageError::Header("it does not match its checksum".to_owned()))?;
        let (geometry, layout) = shape(&header)?;
        if length < layout.contents {
            return Err(ImageError::Truncated { length, expected: layout.length });
        }
        let mut config = vec![0; header.config_bytes.get() as usize];
        storage.read(&mut config, ALIGN).map_err(failed("read"))?;
        if crc32c::crc32c(&config) != header.config_crc.get() {
            return Err(ImageError::Header("the configuration does not match its checksum".to_owned()));
        }
        let config = String::from_utf8(config)
            .map_err(|_| ImageError::Header("the configuration is not text".to_owned()))?;
        let (seed, slc_bits) = (header.seed.get(), header.slc_bits.get());
        let power_on_ns = header.power_on_ns.get();
        let info = ImageInfo { geometry, wear: header.wear(), seed, slc_bits, power_on_ns, config };
        Ok(Self { storage, info, layout, length })
    }

    fn format(
        storage: Box<dyn Storage>,
        info: ImageInfo,
        layout: Layout,
        bad: &[bool],
    ) -> io::Result<(Self, Vec<BlockEntry>)> {
        let entry = |&bad: &bool| {
            let mut entry = BlockEntry::default();
            entry.set_state(BlockState { bad, ..BlockState::default() });
            entry
        };
        let table: Vec<BlockEntry> = bad.iter().map(entry).collect();
        let mut slots = Vec::new();
        for (batch, entries) in table.chunks(1024).enumerate() {
            let first = batch as u32 * 1024;
            slots.clear();
            for (id, entry) in (first..).zip(entries) {
                slots.extend_from_slice(&layout::seal::<_, BLOCK_SLOT>(id, entry));
            }
            storage.write(&slots, layout.block(BlockId::new(first)))?;
        }
        storage.write(info.config.as_bytes(), ALIGN)?;
        // The header is written last: without it the file is not an image.
        let header = Header::new(&info);
        storage.write(&layout::seal::<_, { ALIGN as usize }>(0, &header), 0)?;
        Ok((Self { storage, info, length: layout.length, layout }, table))
    }
}

fn lock(file: &File, access: Access) -> Result<(), ImageError> {
    let locked = match access {
        Access::Read => file.try_lock_shared(),
        Access::Write => file.try_lock(),
    };
    locked.map_err(|error| match error {
        TryLockError::WouldBlock => ImageError::InUse,
        TryLockError::Error(source) => ImageError::Io { doing: "lock", source },
    })
}

/// Geometry and layout from a header with a valid checksum, which may still be inconsistent.
fn shape(header: &Header) -> Result<(Geometry, Layout), ImageError> {
    let wrong = |what: &str| ImageError::Header(what.to_owned());
    let geometry = Geometry::new(header.spec()).map_err(|error| wrong(&error.to_string()))?;
    if header.endurance_limited.get() > 1 || !(0.0..=1.0).contains(&header.wear().program_fail_rate) {
        return Err(wrong("impossible wear"));
    }
    let bits = header.slc_bits.get();
    if bits > 0 && !geometry.pages_per_block().is_multiple_of(bits) {
        return Err(wrong("impossible cells"));
    }
    if header.power_on_ns.get() > POWER_ON_MAX_NS {
        return Err(wrong("impossible power-on time"));
    }
    let config_bytes = header.config_bytes.get();
    if config_bytes > CONFIG_MAX {
        return Err(wrong("impossible length of the configuration"));
    }
    let layout = Layout::new(&geometry, config_bytes).ok_or_else(|| wrong("impossible size"))?;
    Ok((geometry, layout))
}

impl<T: Timing> Chip<T, DataMedium> {
    /// A fresh array, as from [`Chip::new`], in a new file at `path`. The file has the length of the array,
    /// but is sparse: it occupies space only for stored data.
    pub fn create_image(path: &Path, info: ImageInfo, timing: T) -> Result<Self, ImageError> {
        if info.config.len() > CONFIG_MAX as usize {
            return Err(ImageError::ConfigTooLong(info.config.len()));
        }
        let layout = Layout::new(&info.geometry, info.config.len() as u32)
            .ok_or_else(|| failed("create")(io::ErrorKind::FileTooLarge.into()))?;
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(failed("create"))?;
        lock(&file, Access::Write)?;
        let made =
            file.set_len(layout.length).and_then(|()| Self::on_blank(Box::new(file), info, layout, timing));
        made.map_err(|source| {
            // The file holds nothing. If it cannot be removed, opening it later reports a blank image.
            let _ = fs::remove_file(path);
            ImageError::Io { doing: "create", source }
        })
    }

    fn on_blank(storage: Box<dyn Storage>, info: ImageInfo, layout: Layout, timing: T) -> io::Result<Self> {
        let ImageInfo { geometry, wear, seed, slc_bits, .. } = info.clone();
        let (image, table) =
            Image::format(storage, info, layout, &factory_bad(geometry.blocks(), &wear, seed))?;
        let medium = DataMedium::on(FileMedium::new(image, table));
        Ok(Self::on_medium(geometry, wear, timing, seed, medium).with_slc(slc_bits))
    }

    /// The array in `image`, which must be open with [`Access::Write`]. Program and erase counters are
    /// restored; reads count from zero. Refuses an image with damaged tables. Contents of mapping units are
    /// checked when read, so opening costs one pass over the tables: 8 bytes per stored mapping unit, 32 per
    /// page.
    pub fn open_image(image: Image, timing: T) -> Result<Self, ImageError> {
        let (scan, restored, table) = image.scan(false).map_err(failed("read"))?;
        if !scan.damage.is_empty() {
            return Err(ImageError::Damaged(scan.damage));
        }
        let ImageInfo { geometry, wear, seed, slc_bits, .. } = image.info.clone();
        let medium = DataMedium::on(FileMedium::new(image, table));
        Ok(Self::restore(geometry, wear, timing, seed, medium, restored).with_slc(slc_bits))
    }

    /// Reads all of `image` into memory and lists the damage. Damaged units read as zeros, pages with a
    /// damaged record are empty, and blocks with a damaged table entry are bad.
    pub fn load_image(image: &Image, timing: T) -> Result<(Self, Scan), ImageError> {
        let (scan, restored, table) = image.scan(true).map_err(failed("read"))?;
        let medium = DataMedium::in_memory(image.load(&table).map_err(failed("read"))?);
        let ImageInfo { geometry, wear, seed, slc_bits, .. } = image.info.clone();
        Ok((Self::restore(geometry, wear, timing, seed, medium, restored).with_slc(slc_bits), scan))
    }
}
