//! Commands in flight, and the writes that a power cut may lose.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use strobe_ssd::Range;
use strobe_types::SECTOR_BYTES;

use super::file_log::UnderWay;
use super::line::Origin;
use super::pending::{Pending, Piece};

/// Most bytes of unflushed data that are kept to be compared; writes beyond are not.
const HELD_MAX: usize = 256 << 20;

/// Commands of a run, and the writes that a power cut may lose.
#[derive(Default)]
pub(super) struct Commands {
    pub(super) under_way: BTreeMap<u64, UnderWay>,
    /// Writes and trims in flight or not covered by a flush, in order of submission.
    pub(super) pending: Vec<Pending>,
    /// Bytes of data in `pending`.
    held: usize,
    /// Number of completed writes.
    pub(super) writes: u64,
    /// Number of writes covered by flushes.
    pub(super) covered: u64,
    /// In-flight flushes by tag, with the number of writes completed before their submission.
    pub(super) flushes: BTreeMap<u64, u64>,
    /// In-flight writes that are durable on completion, by tag.
    pub(super) durable: BTreeSet<u64>,
}

impl Commands {
    /// Ends a write that is durable, or failed. It stays as one of unknown content where it covers others.
    pub(super) fn settle(&mut self, tag: u64, is_ok: bool) {
        let is_of = |write: &Pending| write.tag == tag && write.completed.is_none();
        let range = |write: &Pending| (write.piece.lba, write.piece.lba + write.piece.sectors);
        let ranges: Vec<(u64, u64)> = self.pending.iter().filter(|write| is_of(write)).map(range).collect();
        let overlaps = |write: &Pending| {
            let (from, to) = range(write);
            ranges.iter().any(|(first, end)| from < *end && *first < to)
        };
        if is_ok && !self.pending.iter().any(|write| !is_of(write) && overlaps(write)) {
            self.retain(|write| !is_of(write));
            return;
        }
        let writes = self.writes;
        for write in self.pending.iter_mut().filter(|write| is_of(write)) {
            write.data = None;
            write.completed = Some(writes);
        }
        self.retain(|_| true);
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&Pending) -> bool) {
        self.pending.retain(keep);
        self.held = self.pending.iter().filter_map(|write| write.data.as_ref()).map(|data| data.len()).sum();
    }

    /// Records a submitted write, trim or copy of `range`. Without `data` the new content is not known.
    pub(super) fn written(&mut self, tag: u64, range: Range, pieces: Vec<Piece>, data: Option<&[u8]>) {
        let (first, sectors) = (range.lba.get(), u64::from(range.sectors));
        let mut at = first;
        let mut add = |piece: Piece| {
            let from = ((piece.lba - first) * SECTOR_BYTES) as usize;
            let length = (piece.sectors * SECTOR_BYTES) as usize;
            let data = data.filter(|_| self.held + length <= HELD_MAX);
            let data: Option<Arc<[u8]>> = data.and_then(|data| data.get(from..from + length)).map(Into::into);
            self.held += data.as_ref().map_or(0, |data| data.len());
            self.pending.push(Pending { tag, piece, data, completed: None });
        };
        let nobody =
            Origin { process: String::new(), kind: "none".to_owned(), inode: 0, path: String::new() };
        let unknown = |lba, sectors| Piece { lba, sectors, origin: nobody.clone(), offset: None };
        for piece in pieces {
            // A request is cut to the command, which may be a part of it.
            let from = piece.lba.max(at);
            let to = (piece.lba + piece.sectors).min(first + sectors);
            if from >= to {
                continue;
            }
            if from > at {
                add(unknown(at, from - at));
            }
            let offset = piece.offset.map(|offset| offset + (from - piece.lba) * SECTOR_BYTES);
            add(Piece { lba: from, sectors: to - from, offset, ..piece });
            at = to;
        }
        if at < first + sectors {
            add(unknown(at, first + sectors - at));
        }
    }
}
