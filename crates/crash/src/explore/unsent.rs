//! Data that programs wrote to files and that no request has taken to the drive: it is only in the guest's
//! memory.

use std::collections::BTreeMap;

use serde::Serialize;

use super::line::FileCall;

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

#[derive(Default)]
pub(super) struct Unsent {
    /// Ranges by path, in the order of their calls.
    files: BTreeMap<String, Vec<UnsentData>>,
}

impl Unsent {
    pub(super) fn written(&mut self, call: &FileCall) {
        let (Some(offset), Some(length)) = (call.offset, call.length.filter(|length| *length > 0)) else {
            return;
        };
        self.sent(&call.path, offset, length);
        let ranges = self.files.entry(call.path.clone()).or_default();
        match ranges.last_mut() {
            // Appends become one range.
            Some(last) if last.offset.saturating_add(last.length) == offset => {
                last.length = last.length.saturating_add(length);
                last.call = call.clone();
            }
            _ => ranges.push(UnsentData { path: call.path.clone(), offset, length, call: call.clone() }),
        }
    }

    /// Removes a range that a request has taken to the drive, or that is written anew.
    pub(super) fn sent(&mut self, path: &str, offset: u64, length: u64) {
        let Some(ranges) = self.files.get_mut(path) else { return };
        let end = offset.saturating_add(length);
        let mut left = Vec::with_capacity(ranges.len());
        for range in ranges.drain(..) {
            let range_end = range.offset.saturating_add(range.length);
            if range_end <= offset || range.offset >= end {
                left.push(range);
                continue;
            }
            if range.offset < offset {
                left.push(UnsentData { length: offset - range.offset, ..range.clone() });
            }
            if range_end > end {
                left.push(UnsentData { offset: end, length: range_end - end, ..range });
            }
        }
        *ranges = left;
        if ranges.is_empty() {
            self.files.remove(path);
        }
    }

    /// Removes all ranges of a removed file.
    pub(super) fn gone(&mut self, path: &str) {
        self.files.remove(path);
    }

    /// Removes what calls before number `before` wrote to `path`, or to any file.
    pub(super) fn synced(&mut self, path: Option<&str>, before: u64) {
        self.files.retain(|of, ranges| {
            if path.is_none_or(|path| of == path) {
                ranges.retain(|range| range.call.number > before);
            }
            !ranges.is_empty()
        });
    }

    pub(super) fn truncated(&mut self, path: &str, length: u64) {
        self.sent(path, length, u64::MAX);
    }

    /// Follows a rename of a file or folder.
    pub(super) fn moved(&mut self, from: &str, to: &str) {
        let (moved, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.files).into_iter().partition(|(path, _)| is_below(path, from));
        self.files = kept.into_iter().filter(|(path, _)| !is_below(path, to)).collect();
        for (path, mut ranges) in moved {
            let path = format!("{to}{}", &path[from.len()..]);
            for range in &mut ranges {
                range.path.clone_from(&path);
            }
            self.files.insert(path, ranges);
        }
    }

    /// Follows an exchange of two names.
    pub(super) fn exchanged(&mut self, one: &str, other: &str) {
        // A path of the file system begins with a slash, so this name is free.
        self.moved(one, "exchanged");
        self.moved(other, one);
        self.moved("exchanged", other);
    }

    /// Returns all ranges, in the order of their calls.
    pub(super) fn all(&self) -> Vec<UnsentData> {
        let mut all: Vec<UnsentData> = self.files.values().flatten().cloned().collect();
        all.sort_by_key(|range| (range.call.number, range.offset));
        all
    }
}

/// True if `path` is `folder` or below it.
fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use strobe_types::Prng;

    use super::*;

    fn write(number: u64, path: &str, offset: u64, length: u64) -> FileCall {
        let (offset, length) = (Some(offset), Some(length));
        FileCall {
            number,
            call: "write".to_owned(),
            path: path.to_owned(),
            offset,
            length,
            ..FileCall::default()
        }
    }

    fn bytes(unsent: &Unsent) -> BTreeMap<(String, u64), u64> {
        let all = unsent.all();
        let bytes = all.iter().flat_map(|range| {
            (range.offset..range.offset + range.length)
                .map(|byte| ((range.path.clone(), byte), range.call.number))
        });
        bytes.collect()
    }

    /// A model with one entry for each byte.
    #[test]
    fn ranges_equal_a_map_of_bytes() {
        let mut rng = Prng::derive(7, "unsent");
        let paths = ["/a", "/b", "/d/a", "/d/b", "/dd"];
        for _ in 0..200 {
            let (mut unsent, mut model) = (Unsent::default(), BTreeMap::<(String, u64), u64>::new());
            for number in 1..40 {
                let path = paths[rng.below(5) as usize];
                let (offset, length) = (u64::from(rng.below(30)), u64::from(rng.below(12)));
                match rng.below(8) {
                    0..4 => {
                        unsent.written(&write(number, path, offset, length));
                        // The number of a merged range is that of its last call, so the model has bytes only.
                        model.extend((offset..offset + length).map(|byte| ((path.to_owned(), byte), 0)));
                    }
                    4 => {
                        unsent.sent(path, offset, length);
                        model.retain(|(of, at), _| of != path || *at < offset || *at >= offset + length);
                    }
                    5 => {
                        unsent.truncated(path, offset);
                        model.retain(|(of, at), _| of != path || *at < offset);
                    }
                    6 => {
                        unsent.gone(path);
                        model.retain(|(of, _), _| of != path);
                    }
                    _ => {
                        let (from, to) = if rng.below(2) == 0 { ("/d", "/dd") } else { (path, "/c") };
                        if from == to {
                            continue;
                        }
                        let is_in =
                            |of: &str, folder: &str| of == folder || of.starts_with(&format!("{folder}/"));
                        let is_of = |of: &str| is_in(of, from);
                        unsent.moved(from, to);
                        let old = std::mem::take(&mut model);
                        let (moved, mut kept): (Vec<_>, BTreeMap<_, _>) = (
                            old.iter().filter(|((of, _), _)| is_of(of)).collect(),
                            old.iter()
                                .filter(|((of, _), _)| !is_of(of) && !is_in(of, to))
                                .map(|(key, value)| (key.clone(), *value))
                                .collect(),
                        );
                        let renamed = moved
                            .into_iter()
                            .map(|((of, at), value)| ((format!("{to}{}", &of[from.len()..]), *at), *value));
                        kept.extend(renamed);
                        model = kept;
                    }
                }
                let found: Vec<_> = bytes(&unsent).into_keys().collect();
                assert_eq!(found, model.keys().cloned().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn appends_are_one_range_with_the_last_call() {
        let mut unsent = Unsent::default();
        for number in 1..=3 {
            unsent.written(&write(number, "/log", 10 * (number - 1), 10));
        }
        unsent.written(&write(4, "/log", 5, 1));
        let all = unsent.all();
        let ranges: Vec<_> = all.iter().map(|one| (one.offset, one.length, one.call.number)).collect();
        assert_eq!(ranges, [(0, 5, 3), (6, 24, 3), (5, 1, 4)]);
        unsent.written(&write(5, "/other", 0, 4));
        unsent.exchanged("/log", "/other");
        let paths: Vec<_> = unsent.all().into_iter().map(|one| (one.path, one.length)).collect();
        assert_eq!(paths[3], ("/log".to_owned(), 4));
        assert_eq!(paths[0], ("/other".to_owned(), 5));
    }
}
