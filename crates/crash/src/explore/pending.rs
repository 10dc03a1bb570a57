//! Writes that a power cut may lose, and what of them is on the drive after the cut.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;
use strobe_ssd::{Command, Device, Range};
use strobe_types::{Lba, SECTOR_BYTES, SimTime};

use super::line::Origin;

/// Bytes of a [`Difference`], from its first differing line of 16 bytes.
const WINDOW: usize = 64;
const SECTOR: usize = SECTOR_BYTES as usize;
/// Tag of the only command in flight; hosts count theirs from 0.
const READ_TAG: u64 = u64::MAX;
/// Sectors of one read. It fails as a whole, so it is no longer than a page of most file systems.
const READ_SECTORS: usize = 8;

/// Write without a later flush at the cut: in flight, or in the drive's cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnflushedWrite {
    /// Origin of the data.
    pub origin: Origin,
    /// First byte in the file, or on the device for metadata in device blocks. `None` if the kernel does not
    /// report it.
    pub offset: Option<u64>,
    /// First sector on the drive.
    pub lba: u64,
    /// Length in sectors of 512 bytes.
    pub sectors: u64,
    /// True if the drive had completed the write; false if it was in flight.
    pub is_complete: bool,
    /// Sectors that have this write's data after the cut.
    pub kept: u64,
    /// Sectors with other data.
    pub lost: u64,
    /// First bytes that differ.
    pub difference: Option<Difference>,
}

/// Bytes written and bytes found after a power cut, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Offset in the write, in bytes.
    pub offset: u64,
    /// Bytes written.
    pub expected: String,
    /// Bytes on the drive after its recovery, before the file system's. Empty if they cannot be read.
    pub found: String,
}

/// Part of a write command that comes from one request of the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) lba: u64,
    pub(super) sectors: u64,
    pub(super) origin: Origin,
    pub(super) offset: Option<u64>,
}

/// Written, trimmed or copied sectors without a later flush.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) tag: u64,
    pub(super) piece: Piece,
    /// Data of a write. `None`: the content is not known, as after a trim.
    pub(super) data: Option<Arc<[u8]>>,
    /// Number of writes completed before this one, if it is complete.
    pub(super) completed: Option<u64>,
}

/// Compares `pending`, in order of submission, with the drive after a cut.
///
/// A sector is compared with its last write only.
pub(super) fn compare(pending: &[Pending], drive: &mut dyn Device, mut now: SimTime) -> Vec<UnflushedWrite> {
    let mut newer: BTreeSet<u64> = BTreeSet::new();
    let mut found = Vec::new();
    for write in pending.iter().rev() {
        let piece = &write.piece;
        let last: Vec<u64> =
            (piece.lba..piece.lba + piece.sectors).filter(|sector| newer.insert(*sector)).collect();
        let Some(data) = &write.data else { continue };
        // Later writes may have left parts of this one.
        let runs: Vec<&[u64]> = last.chunk_by(|sector, next| sector + 1 == *next).collect();
        for run in runs.into_iter().rev() {
            let from = run[0] - piece.lba;
            let mut unflushed = UnflushedWrite {
                origin: piece.origin.clone(),
                offset: piece.offset.map(|offset| offset + from * SECTOR_BYTES),
                lba: run[0],
                sectors: run.len() as u64,
                is_complete: write.completed.is_some(),
                kept: 0,
                lost: 0,
                difference: None,
            };
            for part in run.chunks(READ_SECTORS) {
                let content = read(drive, &mut now, part[0], part.len());
                for (index, sector) in part.iter().enumerate() {
                    let at = (sector - piece.lba) as usize * SECTOR;
                    let expected = &data[at..at + SECTOR];
                    let content = content.as_ref().map(|bytes| &bytes[index * SECTOR..][..SECTOR]);
                    if content == Some(expected) {
                        unflushed.kept += 1;
                        continue;
                    }
                    unflushed.lost += 1;
                    let at = at - from as usize * SECTOR;
                    unflushed.difference.get_or_insert_with(|| Difference::of(at, expected, content));
                }
            }
            found.push(unflushed);
        }
    }
    found.reverse();
    joined(found)
}

/// Reads sectors; `None` if one of them cannot be read.
fn read(drive: &mut dyn Device, now: &mut SimTime, sector: u64, count: usize) -> Option<Vec<u8>> {
    let range = Range::new(Lba::new(sector), u32::try_from(count).ok()?);
    drive.submit(*now, READ_TAG, &Command::Read { range }, None);
    let mut completions = Vec::new();
    loop {
        *now = drive.next_event()?.max(*now);
        drive.advance(*now, &mut completions);
        // Earlier commands may complete as well.
        if let Some(read) = completions.drain(..).find(|completion| completion.tag == READ_TAG) {
            let data = read.result.ok()?;
            return (data.len() == count * SECTOR).then_some(data);
        }
    }
}

/// Joins neighbours with the same origin.
fn joined(writes: Vec<UnflushedWrite>) -> Vec<UnflushedWrite> {
    let mut joined: Vec<UnflushedWrite> = Vec::new();
    for write in writes {
        let bytes = |sectors: u64| sectors * SECTOR_BYTES;
        match joined.last_mut() {
            Some(last)
                if last.origin == write.origin
                    && last.is_complete == write.is_complete
                    && last.lba + last.sectors == write.lba
                    && last.offset.map(|offset| offset + bytes(last.sectors)) == write.offset =>
            {
                if last.difference.is_none() {
                    last.difference = write.difference.map(|mut difference| {
                        difference.offset += bytes(last.sectors);
                        difference
                    });
                }
                last.sectors += write.sectors;
                last.kept += write.kept;
                last.lost += write.lost;
            }
            _ => joined.push(write),
        }
    }
    joined
}

impl Difference {
    /// `at` is the offset of both in the write.
    fn of(at: usize, expected: &[u8], found: Option<&[u8]>) -> Self {
        let first = found.and_then(|found| expected.iter().zip(found).position(|(one, other)| one != other));
        let from = first.unwrap_or(0) / 16 * 16;
        let hex = |bytes: &[u8]| {
            let window = &bytes[from..bytes.len().min(from + WINDOW)];
            window.iter().map(|byte| format!("{byte:02x}")).collect()
        };
        Self {
            offset: (at + from) as u64,
            expected: hex(expected),
            found: found.map(hex).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use strobe_ssd::{DataMode, DataTag, DriveConfig};

    use super::*;

    fn origin(path: &str) -> Origin {
        Origin { process: "sh".to_owned(), kind: "file".to_owned(), inode: 12, path: path.to_owned() }
    }

    fn pending(path: &str, lba: u64, offset: Option<u64>, data: Option<Vec<u8>>, sectors: u64) -> Pending {
        let piece = Piece { lba, sectors, origin: origin(path), offset };
        Pending { tag: 0, piece, data: data.map(Into::into), completed: Some(0) }
    }

    #[test]
    fn sectors_are_compared_with_their_last_write() {
        let mut config = DriveConfig::preset("jasmine-4g").expect("a preset");
        config.nand.data = DataMode::Bytes;
        let mut drive = strobe_ssd::build(&config, true, 1).expect("a drive");
        // On the drive: sectors 0 to 7 are 1, 8 to 15 are 2, except for sector 9, which is 3.
        let content: Vec<u8> =
            (0..16u8).flat_map(|sector| [if sector == 9 { 3 } else { 1 + sector / 8 }; SECTOR]).collect();
        let range = Range::new(Lba::new(0), 16);
        let write = Command::Write { range, fua: false, tag: DataTag::default() };
        drive.submit(SimTime::ZERO, 0, &write, Some(&content));
        let now = drive.settle(SimTime::ZERO).expect("settled");
        drive.advance(now, &mut Vec::new());
        let mut nearly = vec![1; 8 * SECTOR];
        nearly[SECTOR + 37] = 0xab;
        let writes = [
            pending("/old", 0, Some(0), Some(vec![9; 8 * SECTOR]), 8),
            // Its ends remain: sectors 30 and 33.
            pending("/ends", 30, Some(1000), Some(vec![0; 4 * SECTOR]), 4),
            pending("", 31, None, None, 2),
            pending("/a", 0, Some(4096), Some(nearly), 8),
            pending("/a", 8, Some(8192), Some(vec![2; 8 * SECTOR]), 8),
            pending("/trimmed", 100, None, Some(vec![1; SECTOR]), 1),
            pending("", 100, None, None, 8),
            pending("/zero", 40, None, Some(vec![0; SECTOR]), 1),
        ];
        let found = compare(&writes, &mut *drive, now);
        assert_eq!(found.len(), 4, "{found:?}");
        let ends: Vec<_> = found[..2].iter().map(|end| (end.lba, end.offset, end.kept)).collect();
        assert_eq!(ends, [(30, Some(1000), 1), (33, Some(1000 + 3 * SECTOR_BYTES), 1)]);
        let a = &found[2];
        assert_eq!((&*a.origin.path, a.offset, a.lba, a.sectors), ("/a", Some(4096), 0, 16));
        assert_eq!((a.kept, a.lost, a.is_complete), (14, 2, true), "{a:?}");
        let difference = a.difference.as_ref().expect("a difference");
        assert_eq!(difference.offset, SECTOR_BYTES + 32);
        assert_eq!(&difference.expected[..16], "0101010101ab0101");
        assert_eq!(difference.found, "01".repeat(WINDOW));
        assert_eq!((&*found[3].origin.path, found[3].kept, found[3].lost), ("/zero", 1, 0));
    }
}
