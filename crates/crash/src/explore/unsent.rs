//! Data that programs wrote to files and that no request has taken to the drive: it is only in the guest's
//! memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::line::FileCall;

/// Most ranges that are listed at a cut.
const LISTED_MAX: usize = 1000;

/// Range of a file that was written, but not sent to the drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnsentData {
    /// Current path of the file, relative to the file system's root.
    pub path: String,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Last write call of the range.
    pub call: FileCall,
}

/// Ranges of a file by first byte; they do not overlap.
#[derive(Default)]
struct File {
    path: String,
    ranges: BTreeMap<u64, Written>,
}

struct Written {
    end: u64,
    call: Arc<FileCall>,
}

#[derive(Default)]
pub(super) struct Unsent {
    /// Files by inode.
    files: BTreeMap<u64, File>,
}

impl Unsent {
    pub(super) fn written(&mut self, call: &FileCall) {
        let (Some(offset), Some(length)) = (call.offset, call.length.filter(|length| *length > 0)) else {
            return;
        };
        // A file without a name ends with its last user.
        if call.names == Some(0) {
            return;
        }
        self.sent(call.inode, offset, length);
        let file = self.files.entry(call.inode).or_default();
        file.path.clone_from(&call.path);
        let end = offset.saturating_add(length);
        // Appends of one place in the program become one range.
        if let Some((_, last)) = file.ranges.range_mut(..offset).next_back()
            && last.end == offset
            && last.call.process == call.process
            && last.call.callers == call.callers
        {
            (last.end, last.call) = (end, Arc::new(call.clone()));
            return;
        }
        file.ranges.insert(offset, Written { end, call: Arc::new(call.clone()) });
    }

    /// Removes a range that a request has taken to the drive, or that is written anew.
    pub(super) fn sent(&mut self, inode: u64, offset: u64, length: u64) {
        let Some(file) = self.files.get_mut(&inode) else { return };
        let end = offset.saturating_add(length);
        let before = file.ranges.range(..offset).next_back().filter(|(_, range)| range.end > offset);
        let first = before.map_or(offset, |(at, _)| *at);
        let touched: Vec<u64> = file.ranges.range(first..end).map(|(at, _)| *at).collect();
        for at in touched {
            let Some(range) = file.ranges.remove(&at) else { continue };
            if range.end > end {
                file.ranges.insert(end, Written { end: range.end, call: Arc::clone(&range.call) });
            }
            if at < offset {
                file.ranges.insert(at, Written { end: offset, ..range });
            }
        }
        if file.ranges.is_empty() {
            self.files.remove(&inode);
        }
    }

    /// Corrects the last write to the bytes that it wrote.
    pub(super) fn corrected(&mut self, call: &FileCall, bytes: u64) {
        if let (Some(offset), Some(length)) = (call.offset, call.length) {
            self.sent(call.inode, offset.saturating_add(bytes), length.saturating_sub(bytes));
        }
    }

    /// Removes the ranges of a file that has lost a name, if that was the last.
    pub(super) fn unnamed(&mut self, call: &FileCall) {
        if call.names == Some(0) {
            self.files.remove(&call.inode);
        }
    }

    /// Removes what calls before number `before` wrote to `inode`, or to any file.
    pub(super) fn synced(&mut self, inode: Option<u64>, before: u64) {
        self.files.retain(|of, file| {
            if inode.is_none_or(|inode| *of == inode) {
                file.ranges.retain(|_, range| range.call.number > before);
            }
            !file.ranges.is_empty()
        });
    }

    pub(super) fn truncated(&mut self, inode: u64, length: u64) {
        self.sent(inode, length, u64::MAX);
    }

    /// Follows a rename of a file or folder.
    pub(super) fn moved(&mut self, from: &str, to: &str) {
        for file in self.files.values_mut() {
            let rest = file.path.strip_prefix(from).filter(|rest| rest.is_empty() || rest.starts_with('/'));
            if let Some(rest) = rest {
                file.path = format!("{to}{rest}");
            }
        }
    }

    /// Follows an exchange of two names.
    pub(super) fn exchanged(&mut self, one: &str, other: &str) {
        // A path of the file system begins with a slash, so this name is free.
        self.moved(one, "exchanged");
        self.moved(other, one);
        self.moved("exchanged", other);
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.values().map(|file| file.path.as_str())
    }

    /// Returns the ranges, in the order of their calls, at most [`LISTED_MAX`], and their number.
    pub(super) fn all(&self) -> (Vec<UnsentData>, usize) {
        let ranges = self
            .files
            .values()
            .flat_map(|file| file.ranges.iter().map(|(at, range)| (&file.path, *at, range.end, &range.call)));
        let mut all: Vec<_> = ranges.collect();
        all.sort_by_key(|(_, offset, _, call)| (call.number, *offset));
        let count = all.len();
        let listed = all.into_iter().take(LISTED_MAX).map(|(path, offset, end, call)| UnsentData {
            path: path.clone(),
            offset,
            length: end - offset,
            call: FileCall::clone(call),
        });
        (listed.collect(), count)
    }
}

#[cfg(test)]
mod tests {
    use strobe_types::Prng;

    use super::*;

    fn write(number: u64, inode: u64, offset: u64, length: u64) -> FileCall {
        FileCall {
            number,
            call: "write".to_owned(),
            path: format!("/{inode}"),
            inode,
            offset: Some(offset),
            length: Some(length),
            ..FileCall::default()
        }
    }

    fn ranges(unsent: &Unsent) -> Vec<(String, u64, u64, u64)> {
        let all = unsent.all().0.into_iter();
        all.map(|one| (one.path, one.offset, one.length, one.call.number)).collect()
    }

    /// A model with one entry for each byte.
    #[test]
    fn ranges_equal_a_map_of_bytes() {
        let mut rng = Prng::derive(7, "unsent");
        for _ in 0..300 {
            let (mut unsent, mut model) = (Unsent::default(), BTreeMap::<(u64, u64), u64>::new());
            for number in 1..60 {
                let inode = 1 + u64::from(rng.below(3));
                let (offset, length) = (u64::from(rng.below(30)), u64::from(rng.below(12)));
                match rng.below(8) {
                    0..4 => {
                        let mut call = write(number, inode, offset, length);
                        // Writes of different places are not joined.
                        call.process = number.to_string();
                        unsent.written(&call);
                        model.extend((offset..offset + length).map(|byte| ((inode, byte), number)));
                        if rng.below(3) == 0 {
                            let bytes = u64::from(rng.below(12)).min(length);
                            unsent.corrected(&call, bytes);
                            model.retain(|(of, at), _| {
                                *of != inode || *at < offset + bytes || *at >= offset + length
                            });
                        }
                    }
                    4 => {
                        unsent.sent(inode, offset, length);
                        model.retain(|(of, at), _| *of != inode || *at < offset || *at >= offset + length);
                    }
                    5 => {
                        unsent.truncated(inode, offset);
                        model.retain(|(of, at), _| *of != inode || *at < offset);
                    }
                    6 => {
                        let names = Some(u64::from(rng.below(2)));
                        unsent.unnamed(&FileCall { names, ..write(number, inode, 0, 0) });
                        model.retain(|(of, _), _| *of != inode || names == Some(1));
                    }
                    _ => {
                        let before = number.saturating_sub(u64::from(rng.below(5)));
                        let of = Some(inode).filter(|_| rng.below(2) == 0);
                        unsent.synced(of, before);
                        model.retain(|(one, _), call| of.is_some_and(|of| *one != of) || *call > before);
                    }
                }
                let found: BTreeMap<(u64, u64), u64> = ranges(&unsent)
                    .into_iter()
                    .flat_map(|(path, offset, length, call)| {
                        let inode = path[1..].parse().expect("a number");
                        (offset..offset + length).map(move |byte| ((inode, byte), call))
                    })
                    .collect();
                assert_eq!(found, model);
            }
        }
    }

    #[test]
    fn appends_are_one_range_and_paths_follow_renames() {
        let mut unsent = Unsent::default();
        for number in 1..=3 {
            unsent.written(&write(number, 12, 10 * (number - 1), 10));
        }
        unsent.written(&write(4, 12, 5, 1));
        let path = || "/12".to_owned();
        assert_eq!(ranges(&unsent), [(path(), 6, 24, 3), (path(), 0, 6, 4)][..]);
        unsent.written(&FileCall { path: "/d/other".to_owned(), ..write(5, 13, 0, 4) });
        unsent.moved("/d", "/e");
        unsent.moved("/e/oth", "/no");
        unsent.exchanged("/12", "/e/other");
        let paths: Vec<_> = ranges(&unsent).into_iter().map(|(path, _, length, _)| (path, length)).collect();
        assert_eq!(paths[2], ("/12".to_owned(), 4));
        assert_eq!(paths[0], ("/e/other".to_owned(), 24));
        unsent.written(&FileCall { names: Some(0), ..write(6, 14, 0, 4) });
        assert_eq!(unsent.all().1, 3, "a file without a name has nothing to lose");
    }
}
