//! FUSE messages of a read-only file system (`include/uapi/linux/fuse.h`).

/// Supported protocol version. Later versions extend it.
pub(super) const VERSION: (u32, u32) = (7, 31);
pub(super) const ROOT_NODE: u64 = 1;
/// Validity of answers in the guest's cache, in seconds: practically forever.
const FOREVER_S: u64 = 1 << 30;

pub(super) mod op {
    pub(in crate::host) const LOOKUP: u32 = 1;
    pub(in crate::host) const FORGET: u32 = 2;
    pub(in crate::host) const GETATTR: u32 = 3;
    pub(in crate::host) const SETATTR: u32 = 4;
    pub(in crate::host) const READLINK: u32 = 5;
    pub(in crate::host) const SYMLINK: u32 = 6;
    pub(in crate::host) const LINK: u32 = 13;
    pub(in crate::host) const READ: u32 = 15;
    pub(in crate::host) const WRITE: u32 = 16;
    pub(in crate::host) const STATFS: u32 = 17;
    pub(in crate::host) const INIT: u32 = 26;
    pub(in crate::host) const READDIR: u32 = 28;
    pub(in crate::host) const CREATE: u32 = 35;
    pub(in crate::host) const DESTROY: u32 = 38;
    pub(in crate::host) const BATCH_FORGET: u32 = 42;
}

pub(super) mod errno {
    pub(in crate::host) const NO_ENTRY: i32 = 2;
    pub(in crate::host) const IO: i32 = 5;
    pub(in crate::host) const ACCESS: i32 = 13;
    pub(in crate::host) const NO_FOLDER: i32 = 20;
    pub(in crate::host) const INVALID: i32 = 22;
    pub(in crate::host) const READ_ONLY: i32 = 30;
    pub(in crate::host) const NO_SUCH_CALL: i32 = 38;
    pub(in crate::host) const STALE: i32 = 116;
}

/// Capabilities to accept: parallel and large reads, cached links and folders, no OPEN and RELEASE.
const WANTED: u32 = 1 | 1 << 17 | 1 << 18 | 1 << 22 | 1 << 23 | 1 << 24;
const READ_PAGES_MAX: u16 = 250;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) op: u32,
    pub(super) unique: u64,
    pub(super) node: u64,
}

pub(super) const IN_HEADER_BYTES: usize = 40;
pub(super) const OUT_HEADER_BYTES: usize = 16;

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

impl Header {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self { op: u32_at(bytes, 4)?, unique: u64_at(bytes, 8)?, node: u64_at(bytes, 16)? })
    }
}

pub(super) fn out_header(unique: u64, error: i32, bytes: usize) -> [u8; OUT_HEADER_BYTES] {
    let mut header = [0; OUT_HEADER_BYTES];
    header[..4].copy_from_slice(&((OUT_HEADER_BYTES + bytes) as u32).to_le_bytes());
    header[4..8].copy_from_slice(&(-error).to_le_bytes());
    header[8..].copy_from_slice(&unique.to_le_bytes());
    header
}

pub(super) fn init(asked: &[u8]) -> Option<Vec<u8>> {
    let (readahead, flags) = (u32_at(asked, 8)?, u32_at(asked, 12)?);
    let mut answer = Vec::with_capacity(64);
    for word in [VERSION.0, VERSION.1, readahead, flags & WANTED] {
        answer.extend(word.to_le_bytes());
    }
    // Maximum background requests, and the congestion threshold.
    answer.extend(64_u16.to_le_bytes());
    answer.extend(48_u16.to_le_bytes());
    // Maximum write, and time granularity in ns.
    answer.extend(4096_u32.to_le_bytes());
    answer.extend(1_u32.to_le_bytes());
    answer.extend(READ_PAGES_MAX.to_le_bytes());
    answer.resize(64, 0);
    Some(answer)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    Pipe = 0o010_000,
    Folder = 0o040_000,
    File = 0o100_000,
    Link = 0o120_000,
    Socket = 0o140_000,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct About {
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) changed_ns: u64,
    pub(super) user: u32,
    pub(super) group: u32,
}

impl About {
    pub(super) fn bytes(&self, node: u64) -> Vec<u8> {
        let (seconds, ns) = (self.changed_ns / 1_000_000_000, (self.changed_ns % 1_000_000_000) as u32);
        let mut bytes = Vec::with_capacity(88);
        for long in [node, self.size, self.size.div_ceil(512), seconds, seconds, seconds] {
            bytes.extend(long.to_le_bytes());
        }
        let mode = self.kind as u32 | self.mode;
        for word in [ns, ns, ns, mode, 1, self.user, self.group, 0, 4096, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes
    }
}

pub(super) fn entry(found: Option<(u64, &About)>) -> Vec<u8> {
    let mut answer = Vec::with_capacity(128);
    for long in [found.map_or(0, |(node, _)| node), 0, FOREVER_S, FOREVER_S, 0] {
        answer.extend(long.to_le_bytes());
    }
    answer.extend(found.map_or_else(|| vec![0; 88], |(node, about)| about.bytes(node)));
    answer
}

pub(super) fn attributes(node: u64, about: &About) -> Vec<u8> {
    [&FOREVER_S.to_le_bytes()[..], &[0; 8], &about.bytes(node)].concat()
}

/// File system statistics, equal on every host.
pub(super) fn statfs() -> Vec<u8> {
    let mut answer = Vec::with_capacity(80);
    for long in [1_u64 << 20, 0, 0, 1 << 20, 0] {
        answer.extend(long.to_le_bytes());
    }
    for word in [4096_u32, 255, 4096] {
        answer.extend(word.to_le_bytes());
    }
    answer.resize(80, 0);
    answer
}

pub(super) fn folder_entry(node: u64, next: u64, kind: Kind, name: &[u8]) -> Vec<u8> {
    let mut entry = Vec::with_capacity(24 + name.len().next_multiple_of(8));
    entry.extend(node.to_le_bytes());
    entry.extend(next.to_le_bytes());
    entry.extend((name.len() as u32).to_le_bytes());
    entry.extend((kind as u32 >> 12).to_le_bytes());
    entry.extend(name);
    entry.resize(entry.len().next_multiple_of(8), 0);
    entry
}
