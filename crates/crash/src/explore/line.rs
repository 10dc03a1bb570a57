//! Lines of the kernel's file log: system calls on files, and requests that write.

use serde::Serialize;

use super::source::{Caller, SourceLine};

/// System call that changes or syncs a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileCall {
    /// Position among the calls since the file system was mounted, from 1.
    pub number: u64,
    /// create, link, mkdir, unlink, rmdir, rename, write, truncate, fsync, fdatasync, syncfs or sync.
    pub call: String,
    /// Path relative to the file system's root; empty for sync.
    pub path: String,
    /// New path of a rename.
    pub to: Option<String>,
    /// First byte of a write, or the new length of a truncation.
    pub offset: Option<u64>,
    /// Length of a write in bytes.
    pub length: Option<u64>,
    /// Inode of the file, or 0. For a rename, that of the file whose name was taken.
    pub inode: u64,
    /// Names that the inode has left, if the kernel reports it.
    #[serde(skip)]
    pub(super) names: Option<u64>,
    /// Process name.
    pub process: String,
    /// Line of source that made the call, if the program or library has debug information.
    pub source: Option<SourceLine>,
    #[serde(skip)]
    pub(super) callers: Vec<Caller>,
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Request {
        flushes: bool,
        sector: u64,
        sectors: u64,
        origin: Origin,
        /// Byte offset in the file.
        offset: Option<u64>,
    },
    Call(FileCall),
    /// Write that bypasses the page cache.
    Direct(FileCall),
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
    /// Bytes written by the process's running write.
    Written(u64),
}

/// Process ID and event.
pub(super) struct Line(pub(super) u64, pub(super) Event);

impl Line {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split('\t');
        let mut next = || fields.next();
        let (what, pid, process) = (next()?, next()?.parse().ok()?, unescaped(next()?));
        let path = |field: Option<&str>| field.map(unescaped);
        let number = |field: Option<&str>| field.and_then(|field| field.parse().ok());
        if what == "bio" {
            let (_, flushes) = (next()?, next()? == "1");
            let (sector, sectors) = (next()?.parse().ok()?, next()?.parse().ok()?);
            let (kind, inode) = (next()?.to_owned(), next()?.parse().ok()?);
            // An inode without a name has no path.
            let path = path(next()).unwrap_or_default();
            let offset = number(next());
            let origin = Origin { process, kind, inode, path };
            return Some(Self(pid, Event::Request { flushes, sector, sectors, origin, offset }));
        }
        if what == "done" {
            return Some(Self(pid, Event::Synced { is_ok: next()? == "0" }));
        }
        if what == "written" {
            // An error is negative.
            let bytes: i64 = next()?.parse().ok()?;
            return Some(Self(pid, Event::Written(u64::try_from(bytes).unwrap_or(0))));
        }
        let is_sync = ["fsync", "fdatasync", "syncfs", "sync"].contains(&what);
        let mut call = FileCall { call: what.to_owned(), process, ..FileCall::default() };
        call.path = if is_sync { path(next()).unwrap_or_default() } else { path(next())? };
        if ["move", "replace", "exchange"].contains(&what) {
            call.call = "rename".to_owned();
            call.to = Some(path(next())?);
        }
        (call.inode, call.names) = (number(next()).unwrap_or(0), number(next()));
        match what {
            "write" | "direct" => {
                call.call = "write".to_owned();
                (call.offset, call.length) = (number(next()), number(next()));
            }
            "truncate" => call.offset = number(next()),
            _ => {}
        }
        call.callers = fields.filter_map(caller).collect();
        let event = match what {
            // The target of `move` was free; `replace` removes a file.
            "move" | "replace" | "exchange" => {
                Event::Rename { call, new: what == "move", exchange: what == "exchange" }
            }
            "direct" => Event::Direct(call),
            _ if is_sync => Event::Sync(call),
            _ => Event::Call(call),
        };
        Some(Self(pid, event))
    }
}

/// Parses a caller, such as `@/usr/bin/app+1a2b`.
fn caller(field: &str) -> Option<Caller> {
    let (module, offset) = field.strip_prefix('@')?.rsplit_once('+')?;
    let offset = u64::from_str_radix(offset, 16).ok()?;
    Some(Caller { module: unescaped(module), offset })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_read_from_the_log() {
        let caller = |text| caller(text).map(|caller| (caller.module, caller.offset));
        assert_eq!(caller("@/a b/c\\011d+1f"), Some(("/a b/c\td".to_owned(), 0x1f)));
        assert_eq!(caller("@/a+b+10"), Some(("/a+b".to_owned(), 16)));
        for text in ["", "@", "@/a", "/a+1", "@/a+", "@/a+xyz", "@/a+11112222333344445"] {
            assert_eq!(caller(text), None, "{text}");
        }
    }

    #[test]
    fn calls_have_their_arguments_and_callers() {
        let call = |line: &str| match Line::parse(line) {
            Some(Line(7, Event::Call(call) | Event::Rename { call, .. } | Event::Sync(call))) => call,
            other => panic!("{line}: {:?}", other.map(|line| line.1)),
        };
        let write = call("write\t7\tsh\t/a\\011b\t12\t1\t4096\t10\t@/bin/sh+10\t@/lib/c\\134+20");
        assert_eq!((&*write.path, write.offset, write.length), ("/a\tb", Some(4096), Some(10)));
        assert_eq!((write.inode, write.names), (12, Some(1)));
        let modules: Vec<_> = write.callers.iter().map(|at| (&*at.module, at.offset)).collect();
        assert_eq!(modules, [("/bin/sh", 16), ("/lib/c\\", 32)]);
        let moved = call("replace\t7\tmv\t/a\t/b\t13\t0\t@/bin/mv+1");
        assert_eq!((&*moved.call, moved.to.as_deref(), moved.callers.len()), ("rename", Some("/b"), 1));
        assert_eq!(call("truncate\t7\tsh\t/a\t12\t1\t3").offset, Some(3));
        let sync = call("sync\t7\tsync\t\t0\t0\t@/bin/sync+1");
        assert_eq!((&*sync.path, sync.callers.len()), ("", 1));
        for (line, bytes) in [("written\t7\tsh\t12", 12), ("written\t7\tsh\t-28", 0)] {
            assert!(matches!(Line::parse(line), Some(Line(7, Event::Written(found))) if found == bytes));
        }
        for line in ["", "write", "write\tx\tsh\t/a", "move\t7\tmv\t/a", "bio\t7\tsh\t1\t0\tx\t8\tfile\t1"] {
            assert!(Line::parse(line).is_none(), "{line}");
        }
        assert!(matches!(Line::parse("direct\t7\tdd\t/a\t12\t1\t0\t512"), Some(Line(7, Event::Direct(_)))));
    }
}
