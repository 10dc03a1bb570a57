//! Names that POSIX does not guarantee after a power cut, because their folder has not been synced since they
//! changed.
//!
//! A file system may keep such names, as ext4 does when the new file itself is synced. Another file system or
//! version may lose them. The strict mode undoes them before the check:
//!
//! - A new name (file, link, folder) is removed, with everything below it.
//! - A name that was moved to a free name is moved back, before new folders are removed.
//! - A name that replaced a durable one stays, with its folders, because the replaced content is no longer on
//!   the drive.
//!
//! Example: `create /d/new`, `fsync /d/new`, cut. Only `/d` was not synced, so `/d/new` is removed.

use strobe_linux::job::Undo;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Created(String),
    Moved { from: String, to: String },
}

/// Unsynced changes of names, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// Changes, each with the number of changes before it.
    open: Vec<(u64, Change)>,
    changes: u64,
}

impl Names {
    pub(super) fn now(&self) -> u64 {
        self.changes
    }

    pub(super) fn created(&mut self, path: &str) {
        self.open.push((self.changes, Change::Created(path.to_owned())));
        self.changes += 1;
    }

    /// Records a removal, and drops unsynced changes of the name.
    pub(super) fn removed(&mut self, path: &str) {
        self.changes += 1;
        self.take(path);
        self.no_way_back_to(path);
    }

    /// `new` is true if `to` was free.
    pub(super) fn renamed(&mut self, from: &str, to: &str, new: bool) {
        let now = self.changes;
        self.changes += 1;
        let replaced = self.take(to);
        // A name that was never durable counts as free.
        let is_free = match &replaced {
            _ if new => true,
            Some((_, Change::Created(_))) => true,
            Some((_, Change::Moved { .. })) => false,
            None => self.origin(to).is_none(),
        };
        if !new {
            self.no_way_back_to(to);
        }
        // The change keeps its earlier number, because no later sync has covered it.
        let (at, old) = match self.take(from) {
            Some((at, Change::Created(_))) => (at, None),
            Some((at, Change::Moved { from: old, .. })) => (at, Some(old)),
            None => (now, self.origin(from).map(|_| from.to_owned())),
        };
        for (_, change) in &mut self.open {
            change.rename(&|path| moved(path, from, to));
        }
        if !is_free {
            // The replaced content or the file's other durable name is gone, so the file must stay here.
            if old.is_some() || replaced.is_some() {
                self.stays(to);
            }
            return;
        }
        match old {
            None => self.open.push((at, Change::Created(to.to_owned()))),
            Some(old) if old == to => {}
            // Another open move also starts at `old`, and only one file can return there. This file stays.
            Some(old) if self.has_left(&old) => self.stays(to),
            Some(from) => self.open.push((at, Change::Moved { from, to: to.to_owned() })),
        }
    }

    pub(super) fn exchanged(&mut self, one: &str, other: &str) {
        self.changes += 1;
        let swapped = |path: &str| moved(path, one, other).or_else(|| moved(path, other, one));
        match (self.take(one), self.take(other)) {
            // Neither name is durable.
            (Some(first @ (_, Change::Created(_))), Some(second @ (_, Change::Created(_)))) => {
                self.open.extend([first, second]);
            }
            _ => [one, other].iter().for_each(|path| self.stays(path)),
        }
        for (_, change) in &mut self.open {
            change.rename(&swapped);
        }
        // The old path of a name may be within the exchanged folder.
        let is_inside = |change: &Change| matches!(change, Change::Moved { from, to } if is_below(from, to));
        let inside: Vec<_> = self.open.extract_if(.., |(_, change)| is_inside(change)).collect();
        inside.iter().for_each(|(_, change)| self.stays(change.name()));
    }

    fn has_left(&self, path: &str) -> bool {
        self.open.iter().any(|(_, change)| matches!(change, Change::Moved { from, .. } if from == path))
    }

    fn take(&mut self, path: &str) -> Option<(u64, Change)> {
        let at = self.open.iter().position(|(_, change)| change.name() == path)?;
        Some(self.open.remove(at))
    }

    /// Keeps the new names of files moved out of the folder `path`, which is gone.
    fn no_way_back_to(&mut self, path: &str) {
        let is_out = |change: &Change| matches!(change, Change::Moved { from, .. } if is_below(from, path));
        let out: Vec<_> = self.open.extract_if(.., |(_, change)| is_out(change)).collect();
        out.iter().for_each(|(_, change)| self.stays(change.name()));
    }

    /// Keeps the durable file at `path`, its folders, and files moved away from this name.
    fn stays(&mut self, path: &str) {
        self.open.retain(|(_, change)| match change {
            Change::Created(folder) => !is_below(path, folder),
            Change::Moved { .. } => true,
        });
        let was_here = |change: &Change| matches!(change, Change::Moved { from, .. } if from == path);
        let others: Vec<_> = self.open.extract_if(.., |(_, change)| was_here(change)).collect();
        others.iter().for_each(|(_, change)| self.stays(change.name()));
    }

    /// Returns the durable path of `path`, resolving moved folders. `None` if a folder above is not durable.
    fn origin(&self, path: &str) -> Option<String> {
        // `head` starts as a current path and becomes an old path, whose last name may be in use again. So
        // only the folders above it are resolved.
        let (mut head, mut rest) = (path, String::new());
        // Each step follows the move of one folder, and each folder moves at most once.
        for _ in 0..=self.open.len() {
            let above =
                self.open.iter().map(|(_, change)| change).filter(|change| is_below(head, change.name()));
            match above.max_by_key(|change| change.name().len()) {
                None => return Some(format!("{head}{rest}")),
                Some(Change::Created(_)) => return None,
                Some(Change::Moved { from, to }) => {
                    (head, rest) = (from, format!("{}{rest}", &head[to.len()..]))
                }
            }
        }
        None
    }

    /// Records a sync of everything, which started after `began` changes.
    pub(super) fn all_synced(&mut self, began: u64) {
        self.open.retain(|(at, _)| *at >= began);
    }

    /// Records a sync of `folder` that started after `began` changes. A sync of a file covers no name.
    pub(super) fn folder_synced(&mut self, folder: &str, began: u64) {
        let mut arrived = Vec::new();
        self.open.retain_mut(|(at, change)| {
            if *at >= began {
                return true;
            }
            if parent(change.name()) == folder {
                if let Change::Moved { to, .. } = change {
                    arrived.push(std::mem::take(to));
                }
                return false;
            }
            // The old name is durably gone, and the new one is not durable yet.
            if let Change::Moved { from, to } = change
                && parent(from) == folder
            {
                *change = Change::Created(std::mem::take(to));
            }
            true
        });
        arrived.iter().for_each(|path| self.stays(path));
    }

    /// Steps that undo all unsynced changes. Deepest names come first, which keeps each path valid. Old names
    /// refer to the tree before all moves.
    pub(super) fn undo(&self) -> Vec<Undo> {
        let mut steps: Vec<_> = self.open.iter().rev().map(|(_, change)| change.clone()).collect();
        steps.sort_by_key(|change| std::cmp::Reverse(change.name().matches('/').count()));
        let step = |change| match change {
            Change::Created(path) => Undo::Remove(path),
            Change::Moved { from, to } => match self.origin(&from) {
                Some(from) => Undo::MoveBack { from, to },
                // The old folder is not durable any more.
                None => Undo::Remove(to),
            },
        };
        steps.into_iter().map(step).collect()
    }
}

impl Change {
    fn name(&self) -> &str {
        match self {
            Self::Created(path) | Self::Moved { to: path, .. } => path,
        }
    }

    fn rename(&mut self, moved: &dyn Fn(&str) -> Option<String>) {
        let follow = |path: &mut String| {
            if let Some(to) = moved(path) {
                *path = to;
            }
        };
        match self {
            Self::Created(path) => follow(path),
            Self::Moved { from, to } => {
                follow(from);
                follow(to);
            }
        }
    }
}

/// Path after `from` was moved to `to`; `None` if not below `from`.
fn moved(path: &str, from: &str, to: &str) -> Option<String> {
    is_below(path, from).then(|| format!("{to}{}", &path[from.len()..]))
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;

    fn removal(path: &str) -> Undo {
        Undo::Remove(path.to_owned())
    }

    fn back(from: &str, to: &str) -> Undo {
        Undo::MoveBack { from: from.to_owned(), to: to.to_owned() }
    }

    #[test]
    fn a_new_name_is_open_until_its_folder_is_synced() {
        let mut names = Names::default();
        names.created("/d/a");
        names.created("/b");
        names.folder_synced("/d/a", names.now());
        assert_eq!(names.undo(), [removal("/d/a"), removal("/b")]);
        names.folder_synced("/d", names.now());
        assert_eq!(names.undo(), [removal("/b")]);
        names.folder_synced("/", 1);
        assert_eq!(names.undo(), [removal("/b")], "created after the sync had begun");
        names.all_synced(names.now());
        assert!(names.undo().is_empty());
    }

    #[test]
    fn a_move_to_a_free_name_goes_back_and_a_replacement_stays() {
        let mut names = Names::default();
        names.renamed("/a", "/b", true);
        assert_eq!(names.undo(), [back("/a", "/b")]);
        names.renamed("/b", "/c", true);
        assert_eq!(names.undo(), [back("/a", "/c")]);
        names.removed("/c");
        assert!(names.undo().is_empty());
        names.created("/new");
        names.renamed("/new", "/free", true);
        assert_eq!(names.undo(), [removal("/free")], "it had no durable name before");
        names.created("/new");
        names.renamed("/new", "/config", false);
        assert_eq!(names.undo(), [removal("/free")], "the old content is not there any more");
    }

    #[test]
    fn a_move_between_folders_needs_both_synced() {
        let mut names = Names::default();
        names.renamed("/from/a", "/to/a", true);
        names.folder_synced("/from", names.now());
        assert_eq!(names.undo(), [removal("/to/a")], "the old name is durably gone");
        names.folder_synced("/to", names.now());
        assert!(names.undo().is_empty());
        names.renamed("/from/b", "/to/b", true);
        names.folder_synced("/to", names.now());
        assert!(names.undo().is_empty(), "the new name is there, with or without the old one");
    }

    #[test]
    fn what_lies_in_a_folder_moves_with_it() {
        let mut names = Names::default();
        names.created("/d");
        names.all_synced(names.now());
        names.created("/d/x");
        names.renamed("/d", "/e", true);
        assert_eq!(names.undo(), [removal("/e/x"), back("/d", "/e")]);
        names.folder_synced("/", names.now());
        assert_eq!(names.undo(), [removal("/e/x")]);
        names.created("/f/y");
        names.exchanged("/e", "/f");
        assert_eq!(names.undo(), [removal("/e/y"), removal("/f/x")]);
    }

    #[test]
    fn a_durable_file_comes_out_of_a_new_folder_before_that_goes() {
        let mut names = Names::default();
        names.created("/archive");
        names.renamed("/data", "/archive/data", true);
        assert_eq!(names.undo(), [back("/data", "/archive/data"), removal("/archive")]);
        names.folder_synced("/archive", names.now());
        assert!(names.undo().is_empty(), "without its folder the file would be nowhere");
    }

    #[test]
    fn a_replaced_name_has_no_old_place() {
        let mut names = Names::default();
        names.renamed("/a", "/b", true);
        names.renamed("/c", "/b", false);
        assert!(names.undo().is_empty(), "what was called /a is gone");
        names.created("/new");
        names.renamed("/d", "/new", false);
        assert_eq!(names.undo(), [back("/d", "/new")], "nothing durable was replaced");
        names.created("/other");
        names.exchanged("/other", "/e");
        assert_eq!(names.undo(), [back("/d", "/new")], "/other is a durable file now");
    }
}
