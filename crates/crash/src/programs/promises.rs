//! Guarantees of sync operations, and their verification.

use std::collections::{BTreeMap, BTreeSet};

use super::Op;
use super::model::{Model, Node, folder_of, is_within};

/// Entry of a tree found after a cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Folder.
    Folder,
    /// File with its content.
    File(Vec<u8>),
}

/// Entries by path relative to the root.
pub type Tree = BTreeMap<String, Entry>;

/// Operations after a sync, and the file system before each of them.
struct Later<'a> {
    ops: &'a [Op],
    models: &'a [Model],
}

impl Later<'_> {
    fn touch_name(&self, path: &str) -> bool {
        self.ops.iter().any(|op| touches_name(op, path))
    }

    fn touched(&self, file: usize) -> (Vec<(usize, usize)>, bool) {
        let (mut ranges, mut is_cut) = (Vec::new(), false);
        for (op, model) in self.ops.iter().zip(self.models) {
            match op {
                Op::Write { path, at, bytes, .. } if model.file(path) == Some(file) => {
                    ranges.push((*at as usize, (at + bytes) as usize));
                }
                Op::Truncate { path, .. } => is_cut |= model.file(path) == Some(file),
                _ => {}
            }
        }
        (ranges, is_cut)
    }

    /// New path of `path`. `None` unless the file is renamed exactly once and neither name changes otherwise.
    fn renamed(&self, path: &str) -> Option<&str> {
        let mut touching = self.ops.iter().filter(|op| touches_name(op, path));
        let (Some(Op::Rename(from, to)), None) = (touching.next(), touching.next()) else { return None };
        let others = self.ops.iter().filter(|op| touches_name(op, to)).count();
        (from == path && others == 1).then_some(to)
    }
}

fn touches_name(op: &Op, path: &str) -> bool {
    match op {
        Op::Create(other) | Op::Mkdir(other) | Op::Unlink(other) | Op::Link(_, other) => other == path,
        Op::Rename(from, to) => is_within(path, from) || is_within(path, to),
        _ => false,
    }
}

pub(super) fn broken(ops: &[Op], done: usize, tree: &Tree) -> Option<String> {
    // File system before each operation and after the last completed one.
    let mut models = vec![Model::new()];
    for op in &ops[..done] {
        let mut next = models[models.len() - 1].clone();
        next.apply(op);
        models.push(next);
    }
    // The operation after the completed ones may be executed in part, so its changes are not guaranteed
    // either.
    let until = (done + 1).min(ops.len());
    let later = |from: usize| Later { ops: &ops[from..until], models: &models[from..] };
    // The initial files are durable.
    broken_state("before the program", &models[..1], &later(0), tree).or_else(|| {
        (0..done).find_map(|at| {
            let after = &models[..at + 2];
            let model = &after[at + 1];
            let by = format!("by operation {} ({})", at + 1, super::command(&ops[at]));
            match &ops[at] {
                Op::Sync => broken_state(&by, after, &later(at + 1), tree),
                Op::Fsync(path) | Op::Fdatasync(path) => match model.file(path) {
                    Some(file) => {
                        let is_data = matches!(ops[at], Op::Fdatasync(_));
                        let old = old_paths(&ops[..at], &models, path, file, is_data);
                        broken_file(&by, path, &old, file, model, &later(at + 1), tree)
                    }
                    None => broken_folder(&by, path.trim_start_matches('.'), after, &later(at + 1), tree),
                },
                _ => None,
            }
        })
    })
}

/// Older paths at which `file`, synced as `path`, may still be found. `models` holds the state before each
/// of `ops`.
fn old_paths(ops: &[Op], models: &[Model], path: &str, file: usize, is_data: bool) -> Vec<String> {
    let (mut old, mut path) = (Vec::new(), path.to_owned());
    // An fsync writes the inode, with all changes before its last change; an fdatasync does not write it for
    // a new name alone. Neither does an fsync of an unchanged file, so the rename of a folder above may be
    // lost. Assumed from how ext4 and XFS log inodes; no cut has shown it yet.
    for (op, model) in ops.iter().zip(models).rev() {
        let changes = |path: &str| model.file(path) == Some(file);
        let before = match op {
            Op::Create(new) if *new == path => break,
            Op::Write { path, .. } | Op::Truncate { path, .. } if !is_data && changes(path) => break,
            Op::Rename(from, _) | Op::Link(from, _) | Op::Unlink(from) if !is_data && changes(from) => break,
            Op::Rename(from, to) if is_within(&path, to) => format!("{from}{}", &path[to.len()..]),
            Op::Link(from, to) if *to == path => from.clone(),
            _ => continue,
        };
        old.push(before.clone());
        path = before;
    }
    old
}

fn broken_file(
    by: &str,
    path: &str,
    old: &[String],
    file: usize,
    model: &Model,
    later: &Later<'_>,
    tree: &Tree,
) -> Option<String> {
    // After one later rename, either path is allowed. Other changes of the name void the guarantee.
    let mut paths: Vec<&str> = match later.renamed(path) {
        Some(to) => vec![path, to],
        None if later.touch_name(path) => return None,
        None => vec![path],
    };
    paths.extend(old.iter().map(String::as_str));
    let named = paths.join(" or ");
    let found: Vec<&Vec<u8>> = paths
        .iter()
        .filter_map(|path| match tree.get(*path) {
            Some(Entry::File(data)) => Some(data),
            _ => None,
        })
        .collect();
    if found.is_empty() {
        return Some(format!("{named} is missing, a file made durable {by}"));
    }
    let (ranges, is_cut) = later.touched(file);
    // After a later truncation, nothing is guaranteed about the content.
    if is_cut {
        return None;
    }
    let expected = &model.data[file];
    // Bytes changed by later operations may have any value.
    let is_changed = |at: usize| ranges.iter().any(|&(from, to)| (from..to).contains(&at));
    let differs = |data: &&Vec<u8>| {
        (0..expected.len()).find(|&at| !is_changed(at) && data.get(at) != Some(&expected[at]))
    };
    let is_long = |data: &&Vec<u8>| ranges.is_empty() && data.len() != expected.len();
    if found.iter().any(|data| differs(data).is_none() && !is_long(data)) {
        return None;
    }
    let (first, bytes) = (found[0], expected.len());
    Some(match differs(&first) {
        Some(at) if at < first.len() => {
            let (is, was) = (shown(first[at]), shown(expected[at]));
            format!("{named} has {is} at offset {at} of {bytes}, not {was} as made durable {by}")
        }
        _ => format!("{named} has {} bytes, not {bytes} as made durable {by}", first.len()),
    })
}

fn shown(byte: u8) -> String {
    if byte == 0 { "a zero".to_owned() } else { char::from(byte).to_string() }
}

/// Checks the names in `folder`. The last of `models` is the synced state.
fn broken_folder(by: &str, folder: &str, models: &[Model], later: &Later<'_>, tree: &Tree) -> Option<String> {
    let is_in = |path: &str| folder_of(path) == folder;
    broken_name(by, &is_in, models, later, tree)
}

fn broken_name(
    by: &str,
    is_in: &dyn Fn(&str) -> bool,
    models: &[Model],
    later: &Later<'_>,
    tree: &Tree,
) -> Option<String> {
    let now = models.last()?;
    for (path, node) in now.names.iter().filter(|(path, _)| is_in(path)) {
        let is_there = match (node, tree.get(path)) {
            (Node::Folder, Some(Entry::Folder)) | (Node::File(_), Some(Entry::File(_))) => true,
            (..) => later.renamed(path).is_some_and(|to| tree.contains_key(to)),
        };
        if !is_there && (!later.touch_name(path) || later.renamed(path).is_some()) {
            return Some(format!("{path} is missing, a name made durable {by}"));
        }
    }
    let before: BTreeSet<&String> = models.iter().flat_map(|model| model.names.keys()).collect();
    let gone = |path: &&&String| is_in(path) && !now.names.contains_key(path.as_str());
    // Names below a removed folder are removed with it.
    let is_back = |path: &&&String| tree.contains_key(path.as_str()) && !later.touch_name(path);
    before
        .iter()
        .find(|path| gone(path) && is_back(path))
        .map(|path| format!("{path} exists again, although its removal was made durable {by}"))
}

fn broken_state(by: &str, models: &[Model], later: &Later<'_>, tree: &Tree) -> Option<String> {
    let now = models.last()?;
    let files = || now.names.keys().filter_map(|path| Some((path, now.file(path)?)));
    files()
        .find_map(|(path, file)| broken_file(by, path, &[], file, now, later, tree))
        .or_else(|| broken_name(by, &|_| true, models, later, tree))
}
