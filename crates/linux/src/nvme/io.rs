//! The commands of the NVM command set as those of the drive (NVM command set specification 1.0, section 3).

use strobe_ssd::{DataTag, Hint, Range};
use strobe_types::{Lba, SECTOR_BYTES};
use vm_memory::GuestMemoryMmap;

use super::pages::{ALL_NAMESPACES, DATA_BYTES_MAX, NAMESPACE, PAGE_BYTES};
use super::prp::Pieces;
use super::queue::{Entry, Status};
use crate::attached::DiskOptions;

/// A command of the guest's.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Flush,
    Read {
        range: Range,
        to: Pieces,
    },
    Write {
        range: Range,
        fua: bool,
        tag: DataTag,
        data: Vec<u8>,
    },
    WriteZeroes {
        range: Range,
        deallocate: bool,
    },
    Deallocate(Vec<Range>),
    Copy {
        destination: Lba,
        sources: Vec<Range>,
    },
    /// Advice that the drive does not take.
    Nothing,
}

/// Decodes `entry`. `write_cache`: true if writes may wait in a volatile cache.
pub(super) fn parse(
    entry: &Entry,
    memory: &GuestMemoryMmap,
    options: &DiskOptions,
    write_cache: bool,
) -> Result<Asked, Status> {
    let is_flush = entry.opcode() == 0x00;
    if entry.namespace() != NAMESPACE && !(is_flush && entry.namespace() == ALL_NAMESPACES) {
        return Err(Status::INVALID_NAMESPACE);
    }
    let fua = entry.dword(12) >> 30 & 1 == 1;
    let range = || Range::new(Lba::new(entry.qword(10)), (entry.dword(12) & 0xffff) + 1);
    let pieces = |bytes| match bytes {
        ..=DATA_BYTES_MAX => Pieces::of(memory, entry.pointers(), bytes, PAGE_BYTES),
        _ => Err(Status::INVALID_FIELD),
    };
    let data_of = |range: Range| pieces(range.sectors as usize * SECTOR_BYTES as usize);
    // The drive can make durable at once what it is sent, and nothing else.
    let only_cached = || if fua && write_cache { Err(Status::INVALID_FIELD) } else { Ok(()) };
    match entry.opcode() {
        0x00 => Ok(Asked::Flush),
        0x01 => {
            let data = data_of(range())?.read(memory)?;
            // Access frequency in the dataset management field: frequent writes, with few reads or many, and
            // what is going to be written over in the near future.
            let hint = match entry.dword(13) & 0xf {
                4 | 5 | 8 => Hint::Metadata,
                _ => Hint::None,
            };
            Ok(Asked::Write { range: range(), fua: fua || !write_cache, tag: hint.into(), data })
        }
        0x02 => Ok(Asked::Read { range: range(), to: data_of(range())? }),
        0x08 => {
            only_cached()?;
            Ok(Asked::WriteZeroes { range: range(), deallocate: entry.dword(12) >> 25 & 1 == 1 })
        }
        0x09 if options.discard_segments > 0 => {
            let count = (entry.dword(10) & 0xff) as usize + 1;
            let data = pieces(count * 16)?.read(memory)?;
            if entry.dword(11) & 4 == 0 {
                return Ok(Asked::Nothing);
            }
            if count > options.discard_segments as usize {
                return Err(Status::SIZE_EXCEEDED);
            }
            let ranges = data.chunks_exact(16).map(|entry| Range::new(lba(entry, 8), word(entry, 4)));
            Ok(Asked::Deallocate(ranges.collect()))
        }
        0x19 if options.copy => {
            only_cached()?;
            // Format 0 is the only one.
            if entry.dword(12) >> 8 & 0xf != 0 {
                return Err(Status::INVALID_FIELD);
            }
            let count = (entry.dword(12) & 0xff) as usize + 1;
            let data = pieces(count * 32)?.read(memory)?;
            let sources = data.chunks_exact(32);
            let sources = sources.map(|entry| Range::new(lba(entry, 8), (word(entry, 16) & 0xffff) + 1));
            Ok(Asked::Copy { destination: Lba::new(entry.qword(10)), sources: sources.collect() })
        }
        _ => Err(Status::INVALID_OPCODE),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte))
}

fn lba(bytes: &[u8], at: usize) -> Lba {
    Lba::new(u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32)
}
