//! File changes of guest programs and the resulting block requests, as reported by the guest's kernel.
//!
//! 1. [`Event::parse`] reads a line of the kernel's file log.
//! 2. [`FileLog`] keeps the state needed at a cut: requests that the drive has not seen, running syncs, the
//!    last completed call, and unsynced names ([`Names`]).

use std::collections::BTreeMap;

use serde::Serialize;
use strobe_ssd::Command;

use super::names::Names;

/// System call that changes or syncs a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileCall {
    /// create, link, mkdir, unlink, rmdir, rename, write, truncate, fsync, fdatasync, syncfs or sync.
    pub call: String,
    /// Path relative to the file system's root; empty for sync.
    pub path: String,
    /// New path of a rename.
    pub to: Option<String>,
    /// Process name.
    pub process: String,
}

/// Origin of a request: the file whose pages it writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// Name of the submitting process.
    pub process: String,
    /// Kind of pages: file, folder, other, block, memory or none.
    ///
    /// Other is metadata kept in an inode, block is metadata in device blocks. Memory is a journal's copy or
    /// direct I/O. None means no data.
    pub kind: String,
    /// Inode, or 0.
    pub inode: u64,
    /// Path relative to the file system's root; empty if the inode has no name.
    pub path: String,
}

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

#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Request {
        flushes: bool,
        sector: u64,
        sectors: u64,
        origin: Origin,
    },
    Call(FileCall),
    /// `new` is true if the target name was free.
    Rename {
        call: FileCall,
        new: bool,
        exchange: bool,
    },
    Sync(FileCall),
    Synced {
        is_ok: bool,
    },
}

struct Line(u64, Event);

impl Line {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split('\t');
        let mut next = || fields.next();
        let (what, pid, process) = (next()?, next()?.parse().ok()?, unescaped(next()?));
        let path = |field: Option<&str>| field.map(unescaped);
        let call = |call: &str, path: String, to| FileCall {
            call: call.to_owned(),
            path,
            to,
            process: process.clone(),
        };
        let event = match what {
            "bio" => {
                let (_, flushes) = (next()?, next()? == "1");
                let (sector, sectors) = (next()?.parse().ok()?, next()?.parse().ok()?);
                let (kind, inode) = (next()?.to_owned(), next()?.parse().ok()?);
                // An inode without a name has no path.
                let path = path(next()).unwrap_or_default();
                Event::Request { flushes, sector, sectors, origin: Origin { process, kind, inode, path } }
            }
            "move" | "replace" | "exchange" => {
                let (from, to) = (path(next())?, path(next())?);
                // The target of `move` was free; `replace` removes a file.
                let call = call("rename", from, Some(to));
                Event::Rename { call, new: what == "move", exchange: what == "exchange" }
            }
            "fsync" | "fdatasync" | "syncfs" | "sync" => {
                Event::Sync(call(what, path(next()).unwrap_or_default(), None))
            }
            "done" => Event::Synced { is_ok: next()? == "0" },
            _ => Event::Call(call(what, path(next())?, None)),
        };
        Some(Self(pid, event))
    }
}

fn unescaped(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_owned();
    }
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let octal = bytes.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\');
        let value = octal.and_then(|octal| u8::from_str_radix(std::str::from_utf8(octal).ok()?, 8).ok());
        out.push(value.unwrap_or(bytes[at]));
        at += if value.is_some() { 4 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

const PAGE_SECTORS: usize = 8;

#[derive(Default)]
pub(super) struct FileLog {
    begun: Vec<u8>,
    /// Requests that the drive has not seen, by first sector, with their lengths in sectors.
    coming: BTreeMap<u64, (u64, Origin)>,
    /// Origin of the last flushing request.
    flusher: Option<Origin>,
    /// Running syncs by process, with the number of name changes before each.
    syncs: BTreeMap<u64, (FileCall, u64)>,
    last: Option<FileCall>,
    names: Names,
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
            Event::Request { flushes, sector, sectors, origin } => {
                if flushes {
                    let process = origin.process.clone();
                    let (kind, path) = ("none".to_owned(), String::new());
                    self.flusher = Some(Origin { process, kind, inode: 0, path });
                }
                if sectors > 0 {
                    self.coming.insert(sector, (sectors, origin));
                }
            }
            Event::Call(call) => {
                match &*call.call {
                    "create" | "link" | "mkdir" => self.names.created(&call.path),
                    "unlink" | "rmdir" => self.names.removed(&call.path),
                    _ => {}
                }
                self.last = Some(call);
            }
            Event::Rename { call, new, exchange } => {
                let to = call.to.clone().unwrap_or_default();
                if exchange {
                    self.names.exchanged(&call.path, &to);
                } else {
                    self.names.renamed(&call.path, &to, new);
                }
                self.last = Some(call);
            }
            // A sync does not cover changes made while it runs.
            Event::Sync(call) => {
                self.syncs.insert(pid, (call, self.names.now()));
            }
            Event::Synced { is_ok } => {
                let Some((call, began)) = self.syncs.remove(&pid) else { return };
                if is_ok {
                    match &*call.call {
                        "sync" | "syncfs" => self.names.all_synced(began),
                        _ => self.names.folder_synced(&call.path, began),
                    }
                }
                self.last = Some(call);
            }
        }
    }

    /// Describes a submitted command, and records its origins for the pages it writes.
    pub(super) fn under_way(&mut self, command: &Command<'_>) -> UnderWay {
        let (name, ranges) = match command {
            Command::Read { range } => ("read", vec![*range]),
            Command::Write { range, .. } | Command::WriteZeroes { range, .. } => ("write", vec![*range]),
            Command::Flush => ("flush", Vec::new()),
            Command::Deallocate(ranges) => ("trim", ranges.to_vec()),
            Command::Copy { sources, .. } => ("copy", sources.to_vec()),
        };
        let mut origins: Vec<Origin> = Vec::new();
        if name == "flush" {
            origins.extend(self.flusher.clone());
        } else if name != "read" {
            for range in &ranges {
                // A command may start within a request that begins before it, so the search starts at that
                // request.
                let end = range.lba.get() + u64::from(range.sectors);
                let first = self.coming.range(..=range.lba.get()).next_back();
                let first = first.filter(|(at, (sectors, _))| **at + sectors > range.lba.get());
                let first = first.map_or(range.lba.get(), |(at, _)| *at);
                let found: Vec<u64> = self.coming.range(first..end).map(|(at, _)| *at).collect();
                for at in found {
                    let Some((sectors, origin)) = self.coming.remove(&at) else { continue };
                    for page in (at..at + sectors).step_by(PAGE_SECTORS) {
                        self.written.insert(page, origin.clone());
                    }
                    if !origins.contains(&origin) {
                        origins.push(origin);
                    }
                }
            }
        }
        let lba = ranges.first().map_or(0, |range| range.lba.get());
        let sectors = ranges.iter().map(|range| u64::from(range.sectors)).sum();
        UnderWay { command: name, lba, sectors, origins }
    }

    pub(super) fn syncs(&self) -> Vec<FileCall> {
        self.syncs.values().map(|(call, _)| call.clone()).collect()
    }

    pub(super) fn last(&self) -> Option<FileCall> {
        self.last.clone()
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
        let merged = log.under_way(&write(800, 16));
        assert_eq!((merged.command, merged.lba, merged.sectors), ("write", 800, 16));
        let paths: Vec<_> = merged.origins.iter().map(|origin| (origin.inode, &*origin.path)).collect();
        assert_eq!(paths, [(12, "/a\tb"), (13, "/c")]);
        assert_eq!(log.under_way(&Command::Flush).origins[0].process, "jbd2/vda-8");
        assert_eq!(log.under_way(&write(64, 8)).origins[0].kind, "memory");
        assert!(log.under_way(&write(64, 8)).origins.is_empty(), "a request is taken once");
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
}
