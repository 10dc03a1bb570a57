//! Decoding of NVM commands into drive work (NVM command set specification 1.0, section 3).

use strobe_ssd::{DataTag, Hint, Range};
use strobe_types::{Lba, SECTOR_BYTES};

use crate::entry::{Entry, Status};
use crate::options::Options;
use crate::pages::{ALL_NAMESPACES, DATA_BYTES_MAX, NAMESPACE};
use crate::placement;

mod opcode {
    pub(super) const FLUSH: u8 = 0x00;
    pub(super) const WRITE: u8 = 0x01;
    pub(super) const READ: u8 = 0x02;
    pub(super) const COMPARE: u8 = 0x05;
    pub(super) const WRITE_ZEROES: u8 = 0x08;
    pub(super) const DATASET_MANAGEMENT: u8 = 0x09;
    pub(super) const COPY: u8 = 0x19;
}

/// Work for the drive.
#[derive(Debug, PartialEq, Eq)]
pub enum Work {
    /// Makes completed writes durable.
    Flush,
    /// Reads a range.
    Read {
        /// Sectors to read.
        range: Range,
    },
    /// Compares stored data with the host's data.
    Compare {
        /// Sectors to compare.
        range: Range,
        /// Expected data.
        data: Vec<u8>,
    },
    /// Writes a range.
    Write {
        /// Sectors to write.
        range: Range,
        /// True for Force Unit Access.
        fua: bool,
        /// Hint and placement handle.
        tag: DataTag,
        /// Data of the whole range.
        data: Vec<u8>,
    },
    /// Writes zeros.
    WriteZeroes {
        /// Sectors to zero.
        range: Range,
        /// True if the range may be unmapped.
        deallocate: bool,
    },
    /// Unmaps ranges.
    Deallocate(Vec<Range>),
    /// Copies within the drive.
    Copy {
        /// First destination sector.
        destination: Lba,
        /// Source ranges.
        sources: Vec<Range>,
    },
    /// Moves these placement handles to empty reclaim units.
    Update(Vec<u16>),
}

fn range_of(entry: &Entry) -> Range {
    Range::new(Lba::new(entry.qword(10)), (entry.dword(12) & 0xffff) + 1)
}

/// Returns the size of the range in bytes, or an error above the maximum transfer size.
fn data_bytes(entry: &Entry) -> Result<usize, Status> {
    let bytes = range_of(entry).sectors as usize * SECTOR_BYTES as usize;
    if bytes > DATA_BYTES_MAX { Err(Status::INVALID_FIELD) } else { Ok(bytes) }
}

pub(crate) fn input_bytes(entry: &Entry, options: &Options) -> Result<usize, Status> {
    Ok(match entry.opcode() {
        opcode::WRITE | opcode::COMPARE => data_bytes(entry)?,
        opcode::DATASET_MANAGEMENT if options.discard_segments > 0 => {
            16 * ((entry.dword(10) & 0xff) as usize + 1)
        }
        opcode::COPY if options.copy => 32 * ((entry.dword(12) & 0xff) as usize + 1),
        _ => placement::input_bytes(entry),
    })
}

/// Decodes `entry` and the `data` sent with it.
///
/// `write_cache` is true if writes may stay in a volatile cache. Returns `None` for Dataset Management hints,
/// which the drive ignores.
pub(crate) fn parse(
    entry: &Entry,
    data: Vec<u8>,
    options: &Options,
    write_cache: bool,
) -> Result<Option<Work>, Status> {
    let is_flush = entry.opcode() == opcode::FLUSH;
    if entry.namespace() != NAMESPACE && !(is_flush && entry.namespace() == ALL_NAMESPACES) {
        return Err(Status::INVALID_NAMESPACE);
    }
    let range = range_of(entry);
    let changes = || if options.read_only { Err(Status::WRITE_PROTECTED) } else { Ok(()) };
    Ok(Some(match entry.opcode() {
        opcode::FLUSH => Work::Flush,
        opcode::WRITE => {
            changes()?;
            // Access frequencies of metadata: frequent writes with few (4) or many reads (5), overwrite in
            // the near future (8).
            let hint = match entry.dword(13) & 0xf {
                4 | 5 | 8 => Hint::Metadata,
                _ => Hint::None,
            };
            Work::Write { range, fua: has_fua(entry) || !write_cache, tag: hint.into(), data }
        }
        opcode::READ => {
            data_bytes(entry)?;
            Work::Read { range }
        }
        opcode::COMPARE => Work::Compare { range, data },
        opcode::WRITE_ZEROES => {
            changes()?;
            Work::WriteZeroes { range, deallocate: entry.dword(12) >> 25 & 1 == 1 }
        }
        opcode::DATASET_MANAGEMENT if options.discard_segments > 0 => {
            changes()?;
            // Without the attribute Deallocate, the command is only a hint.
            if entry.dword(11) & 4 == 0 {
                return Ok(None);
            }
            let ranges = data.chunks_exact(16).map(|entry| Range::new(lba(entry, 8), word(entry, 4)));
            if ranges.len() > options.discard_segments as usize {
                return Err(Status::SIZE_EXCEEDED);
            }
            Work::Deallocate(ranges.collect())
        }
        opcode::COPY if options.copy => {
            changes()?;
            // Only descriptor format 0 is supported.
            if entry.dword(12) >> 8 & 0xf != 0 {
                return Err(Status::INVALID_FIELD);
            }
            let sources = data.chunks_exact(32);
            let sources = sources.map(|entry| Range::new(lba(entry, 8), (word(entry, 16) & 0xffff) + 1));
            Work::Copy { destination: Lba::new(entry.qword(10)), sources: sources.collect() }
        }
        _ => return Err(Status::INVALID_OPCODE),
    }))
}

fn has_fua(entry: &Entry) -> bool {
    entry.dword(12) >> 30 & 1 == 1
}

/// True if a flush must follow `work`, decoded from `entry`, before the command completes.
pub(crate) fn is_forced(work: &Work, entry: &Entry, options: &Options, write_cache: bool) -> bool {
    // Controllers of a fabric share the drive, so a write-through controller leaves the drive's cache on. It
    // flushes after each change instead.
    let writes_through = !write_cache && options.fabrics.is_some();
    match work {
        // With FUA, the data that a read returns must be durable. A flush before the read would miss data
        // written in between.
        Work::Read { .. } | Work::Compare { .. } => has_fua(entry),
        Work::WriteZeroes { .. } | Work::Copy { .. } => has_fua(entry) || writes_through,
        Work::Deallocate(_) => writes_through,
        // A write carries FUA to the drive, which makes it durable itself.
        Work::Flush | Work::Write { .. } | Work::Update(_) => false,
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte))
}

fn lba(bytes: &[u8], at: usize) -> Lba {
    Lba::new(u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32)
}
