use std::collections::BTreeMap;

use super::Op;

/// Initial files `(path, letter)`, each of 6000 bytes.
const FIRST: [(&str, u8); 2] = [("A/x", b'p'), ("y", b'q')];
const FIRST_BYTES: usize = 6000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Folder,
    File(usize),
}

/// Names and their targets, without the root.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) names: BTreeMap<String, Node>,
    pub(super) data: Vec<Vec<u8>>,
}

/// Parent folder of `path`; empty for the root.
pub(super) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

pub(super) fn is_within(path: &str, folder: &str) -> bool {
    path == folder || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

impl Model {
    pub(super) fn new() -> Self {
        let mut model = Self { names: BTreeMap::new(), data: Vec::new() };
        for folder in ["A", "B"] {
            model.names.insert(folder.to_owned(), Node::Folder);
        }
        for (path, letter) in FIRST {
            model.names.insert(path.to_owned(), Node::File(model.data.len()));
            model.data.push(vec![letter; FIRST_BYTES]);
        }
        model
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter(|(_, node)| matches!(node, Node::File(_))).map(|(path, _)| path.as_str())
    }

    pub(super) fn file(&self, path: &str) -> Option<usize> {
        match self.names.get(path) {
            Some(Node::File(number)) => Some(*number),
            _ => None,
        }
    }

    /// Length of a file; 0 if it is missing.
    pub(super) fn length(&self, path: &str) -> u64 {
        self.file(path).map_or(0, |number| self.data[number].len() as u64)
    }

    fn has_folder(&self, path: &str) -> bool {
        path.is_empty() || path == "." || self.names.get(path) == Some(&Node::Folder)
    }

    fn has_space(&self, path: &str) -> bool {
        !self.names.contains_key(path) && self.has_folder(folder_of(path))
    }

    /// Returns false and changes nothing if `op` cannot succeed.
    pub(super) fn apply(&mut self, op: &Op) -> bool {
        match op {
            Op::Create(path) if self.has_space(path) => {
                self.names.insert(path.clone(), Node::File(self.data.len()));
                self.data.push(Vec::new());
                true
            }
            Op::Mkdir(path) if self.has_space(path) => {
                self.names.insert(path.clone(), Node::Folder);
                true
            }
            Op::Write { path, at, bytes, fill } => {
                let Some(number) = self.file(path) else { return false };
                let (data, at, end) = (&mut self.data[number], *at as usize, (at + bytes) as usize);
                if data.len() < end {
                    // A gap before the offset reads as zeros.
                    data.resize(end, 0);
                }
                data[at..end].fill(*fill as u8);
                true
            }
            Op::Truncate { path, bytes } => {
                let Some(number) = self.file(path) else { return false };
                self.data[number].resize(*bytes as usize, 0);
                true
            }
            Op::Rename(from, to) => self.rename(from, to),
            Op::Link(from, to) => match self.file(from) {
                Some(number) if self.has_space(to) => {
                    self.names.insert(to.clone(), Node::File(number));
                    true
                }
                _ => false,
            },
            Op::Unlink(path) if self.file(path).is_some() => self.names.remove(path).is_some(),
            Op::Fsync(path) => self.file(path).is_some() || self.has_folder(path),
            Op::Fdatasync(path) => self.file(path).is_some(),
            Op::Sync => true,
            _ => false,
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> bool {
        let Some(&node) = self.names.get(from) else { return false };
        let replaced = self.names.get(to).copied();
        let is_allowed = match (node, replaced) {
            // A rename between two links of one file does nothing.
            (Node::File(a), Some(Node::File(b))) => a != b,
            (_, None) => self.has_folder(folder_of(to)),
            _ => false,
        };
        if from == to || is_within(to, from) || !is_allowed {
            return false;
        }
        let moved: Vec<String> = self.names.keys().filter(|path| is_within(path, from)).cloned().collect();
        for path in moved {
            if let Some(node) = self.names.remove(&path) {
                self.names.insert(format!("{to}{}", &path[from.len()..]), node);
            }
        }
        true
    }
}
