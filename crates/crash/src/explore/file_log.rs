//! File changes of guest programs and the resulting block requests, as reported by the guest's kernel.
//!
//! 1. [`Line::parse`] reads a line of the kernel's file log.
//! 2. [`FileLog`] keeps the state needed at a cut: requests that the drive has not seen, running syncs, the
//!    last call, data not sent to the drive ([`Unsent`]), and unsynced names ([`Names`]).

use std::collections::BTreeMap;

use serde::Serialize;
use strobe_ssd::Command;
use strobe_types::SECTOR_BYTES;

use super::line::{Event, FileCall, Line, Origin};
use super::names::Names;
use super::pending::Piece;
use super::unsent::Unsent;

/// In-flight command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnderWay {
    /// write, flush, trim, copy or read.
    pub command: &'static str,
    /// First sector; 0 for a flush.
    pub lba: u64,
    /// Number of 512-byte sectors.
    pub sectors: u64,
    /// Origins of the command's data, in order of address. Empty if the kernel does not report them.
    pub origins: Vec<Origin>,
}

const PAGE_SECTORS: usize = 8;

#[derive(Default)]
pub(super) struct FileLog {
    begun: Vec<u8>,
    /// Requests that the drive has not seen, by first sector.
    coming: BTreeMap<u64, Piece>,
    /// Origin of the last flushing request.
    flusher: Option<Origin>,
    /// Running syncs by process, with the number of name changes before each.
    syncs: BTreeMap<u64, (FileCall, u64)>,
    last: Option<FileCall>,
    calls: u64,
    /// Running write of each process.
    writes: BTreeMap<u64, FileCall>,
    names: Names,
    unsent: Unsent,
    /// Origin of each written 4 KiB page, by first sector.
    written: BTreeMap<u64, Origin>,
}

impl FileLog {
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte != b'\n' {
                self.begun.push(byte);
                continue;
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned();
            if let Some(Line(pid, event)) = Line::parse(&line) {
                self.take(pid, event);
            }
        }
    }

    fn take(&mut self, pid: u64, event: Event) {
        match event {
            Event::Request { flushes, sector, sectors, origin, offset } => {
                if flushes {
                    let process = origin.process.clone();
                    let (kind, path) = ("none".to_owned(), String::new());
                    self.flusher = Some(Origin { process, kind, inode: 0, path });
                }
                if sectors == 0 {
                    return;
                }
                if let Some(offset) = offset.filter(|_| origin.kind == "file") {
                    self.unsent.sent(origin.inode, offset, sectors * SECTOR_BYTES);
                }
                self.coming.insert(sector, Piece { lba: sector, sectors, origin, offset });
            }
            Event::Call(call) => {
                let call = self.numbered(call);
                match &*call.call {
                    "create" | "link" | "mkdir" => self.names.created(&call.path),
                    "unlink" | "rmdir" => {
                        self.names.removed(&call.path);
                        self.unsent.unnamed(&call);
                    }
                    "write" => {
                        self.unsent.written(&call);
                        self.writes.insert(pid, call.clone());
                    }
                    "truncate" => self.unsent.truncated(call.inode, call.offset.unwrap_or(0)),
                    _ => {}
                }
                self.last = Some(call);
            }
            Event::Direct(call) => self.last = Some(self.numbered(call)),
            Event::Rename { call, new, exchange } => {
                let to = call.to.clone().unwrap_or_default();
                if exchange {
                    self.names.exchanged(&call.path, &to);
                    self.unsent.exchanged(&call.path, &to);
                } else {
                    self.names.renamed(&call.path, &to, new);
                    self.unsent.unnamed(&call);
                    self.unsent.moved(&call.path, &to);
                }
                self.last = Some(self.numbered(call));
            }
            Event::Written(bytes) => {
                if let Some(call) = self.writes.remove(&pid) {
                    self.unsent.corrected(&call, bytes);
                }
            }
            // A sync does not cover changes made while it runs.
            Event::Sync(call) => {
                let call = self.numbered(call);
                self.syncs.insert(pid, (call, self.names.now()));
            }
            Event::Synced { is_ok } => {
                let Some((call, began)) = self.syncs.remove(&pid) else { return };
                if is_ok {
                    match &*call.call {
                        "sync" | "syncfs" => {
                            self.names.all_synced(began);
                            self.unsent.synced(None, call.number);
                        }
                        _ => {
                            self.names.folder_synced(&call.path, began);
                            self.unsent.synced(Some(call.inode), call.number);
                        }
                    }
                }
                self.last = Some(call);
            }
        }
    }

    fn numbered(&mut self, call: FileCall) -> FileCall {
        self.calls += 1;
        FileCall { number: self.calls, ..call }
    }

    /// Describes a submitted command and the requests it consists of, and records its origins for the pages it
    /// writes.
    pub(super) fn under_way(&mut self, command: &Command<'_>) -> (UnderWay, Vec<Piece>) {
        let (name, ranges) = match command {
            Command::Read { range } => ("read", vec![*range]),
            Command::Write { range, .. } | Command::WriteZeroes { range, .. } => ("write", vec![*range]),
            Command::Flush => ("flush", Vec::new()),
            Command::Deallocate(ranges) => ("trim", ranges.to_vec()),
            Command::Copy { sources, .. } => ("copy", sources.to_vec()),
        };
        let mut origins: Vec<Origin> = Vec::new();
        let mut pieces: Vec<Piece> = Vec::new();
        if name == "flush" {
            origins.extend(self.flusher.clone());
        } else if name != "read" {
            for range in &ranges {
                // A command may start within a request that begins before it, so the search starts at that
                // request.
                let end = range.lba.get() + u64::from(range.sectors);
                let first = self.coming.range(..=range.lba.get()).next_back();
                let first = first.filter(|(at, piece)| **at + piece.sectors > range.lba.get());
                let first = first.map_or(range.lba.get(), |(at, _)| *at);
                let found: Vec<u64> = self.coming.range(first..end).map(|(at, _)| *at).collect();
                for at in found {
                    let Some(piece) = self.coming.remove(&at) else { continue };
                    for page in (at..at + piece.sectors).step_by(PAGE_SECTORS) {
                        self.written.insert(page, piece.origin.clone());
                    }
                    if !origins.contains(&piece.origin) {
                        origins.push(piece.origin.clone());
                    }
                    pieces.push(piece);
                }
            }
        }
        let lba = ranges.first().map_or(0, |range| range.lba.get());
        let sectors = ranges.iter().map(|range| u64::from(range.sectors)).sum();
        (UnderWay { command: name, lba, sectors, origins }, pieces)
    }

    pub(super) fn syncs(&self) -> Vec<FileCall> {
        self.syncs.values().map(|(call, _)| call.clone()).collect()
    }

    pub(super) fn last(&self) -> Option<FileCall> {
        self.last.clone()
    }

    pub(super) fn unsent(&self) -> &Unsent {
        &self.unsent
    }

    pub(super) fn into_written(self) -> BTreeMap<u64, Origin> {
        self.written
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use strobe_linux::job::Undo;
    use strobe_ssd::Range;
    use strobe_types::Lba;

    use super::*;

    fn write(lba: u64, sectors: u32) -> Command<'static> {
        let tag = strobe_ssd::DataTag::default();
        Command::Write { range: Range::new(Lba::new(lba), sectors), fua: false, tag }
    }

    #[test]
    fn requests_have_the_origins_of_what_was_merged_into_them() {
        let mut log = FileLog::default();
        log.hear(b"bio\t7\tsync\t1\t0\t800\t8\tfile\t12\t/a\\011b\nbio\t7\tsync\t1\t0\t808\t8\tfile\t13\t/c\nbio\t9\tjbd2");
        log.hear(b"/vda-8\t1\t1\t64\t8\tmemory\t0\t\n");
        let (merged, pieces) = log.under_way(&write(800, 16));
        assert_eq!(
            pieces.iter().map(|piece| (piece.lba, piece.sectors)).collect::<Vec<_>>(),
            [(800, 8), (808, 8)]
        );
        assert_eq!((merged.command, merged.lba, merged.sectors), ("write", 800, 16));
        let paths: Vec<_> = merged.origins.iter().map(|origin| (origin.inode, &*origin.path)).collect();
        assert_eq!(paths, [(12, "/a\tb"), (13, "/c")]);
        assert_eq!(log.under_way(&Command::Flush).0.origins[0].process, "jbd2/vda-8");
        assert_eq!(log.under_way(&write(64, 8)).0.origins[0].kind, "memory");
        assert!(log.under_way(&write(64, 8)).0.origins.is_empty(), "a request is taken once");
    }

    #[test]
    fn a_sync_covers_what_was_there_when_it_began() {
        let mut log = FileLog::default();
        log.hear(b"create\t1\tsh\t/a\nfsync\t2\tsync\t/\ncreate\t1\tsh\t/b\n");
        assert_eq!(log.syncs()[0].call, "fsync");
        assert_eq!(log.last().expect("a call").path, "/b");
        log.hear(b"done\t2\tsync\t0\nnonsense\nbio\tx\n\n");
        assert!(log.syncs().is_empty());
        assert_eq!(log.names().undo(), [Undo::Remove("/b".to_owned())]);
        log.hear(b"sync\t2\tsync\ndone\t2\tsync\t-5\n");
        assert_eq!(log.names().undo().len(), 1, "a sync that fails covers nothing");
        log.hear(b"sync\t2\tsync\ndone\t2\tsync\t0\n");
        assert!(log.names().undo().is_empty());
    }

    #[test]
    fn data_is_unsent_until_a_request_or_a_sync_takes_it() {
        let mut log = FileLog::default();
        let unsent = |log: &FileLog| -> Vec<_> {
            let all = log.unsent().all().0;
            all.into_iter().map(|one| (one.path, one.offset, one.length, one.call.number)).collect()
        };
        log.hear(b"create\t1\tsh\t/a\t12\t1\nwrite\t1\tsh\t/a\t12\t1\t0\t9000\nwritten\t1\tsh\t5000\nmove\t1\tmv\t/a\t/b\t0\t0\n");
        assert_eq!(unsent(&log), [("/b".to_owned(), 0, 5000, 2)]);
        log.hear(b"bio\t9\tkworker\t1\t0\t800\t8\tfile\t12\t/b\t0\n");
        assert_eq!(unsent(&log), [("/b".to_owned(), 4096, 904, 2)]);
        log.hear(b"fsync\t1\tsh\t/b\t12\t1\nwrite\t2\tsh\t/b\t12\t1\t0\t1\ndone\t1\tsh\t0\n");
        assert_eq!(unsent(&log), [("/b".to_owned(), 0, 1, 5)], "a sync takes what was written before it");
        log.hear(b"direct\t1\tdd\t/b\t12\t1\t512\t512\nunlink\t1\trm\t/b\t12\t0\n");
        assert!(unsent(&log).is_empty());
        assert_eq!(log.last().expect("a call").number, 7);
    }
}
