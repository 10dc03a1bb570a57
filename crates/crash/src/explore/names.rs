//! Names that POSIX does not promise after a power cut: those whose folder was not synced since.
//!
//! A file system may keep them nevertheless, as ext4 does when the new file itself is synced; on another one, or in
//! another version, they are gone. The strict mode takes them away before the check looks:
//!
//! - A new name (file, link, folder) disappears, with everything below it.
//! - A name that was moved to a free one gets its old name back.
//! - A name that replaced another one stays: what the old one held is gone from the drive.
//!
//! Example: `create /d/new`, `fsync /d/new`, cut. Only `/d` was not synced, so `/d/new` is taken away.

use strobe_linux::job::Undo;

/// A change of names that no sync covers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Created(String),
    Moved { from: String, to: String },
}

/// Changes of names that no sync of their folder covers, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// Each with the number of changes before it.
    open: Vec<(u64, Change)>,
    changes: u64,
}

impl Names {
    /// The number of changes so far.
    pub(super) fn now(&self) -> u64 {
        self.changes
    }

    fn note(&mut self, change: Change) {
        self.open.push((self.changes, change));
        self.changes += 1;
    }

    /// A name is new.
    pub(super) fn created(&mut self, path: &str) {
        self.note(Change::Created(path.to_owned()));
    }

    /// A name is gone, and what was open about it.
    pub(super) fn removed(&mut self, path: &str) {
        self.changes += 1;
        self.open.retain(|(_, change)| change.name() != path);
    }

    /// `from` is called `to`, which was free if it is `new`.
    pub(super) fn renamed(&mut self, from: &str, to: &str, new: bool) {
        let was = self.open.iter().position(|(_, change)| change.name() == from);
        let was = was.map(|at| self.open.remove(at).1);
        if new {
            self.note(match was {
                // Neither name is promised.
                Some(Change::Created(_)) => Change::Created(to.to_owned()),
                Some(Change::Moved { from, .. }) => Change::Moved { from, to: to.to_owned() },
                None => Change::Moved { from: from.to_owned(), to: to.to_owned() },
            });
        } else {
            self.changes += 1;
        }
        for (_, change) in &mut self.open {
            change.follow(from, to);
        }
    }

    /// Two names have changed places: both existed, and both stay.
    pub(super) fn exchanged(&mut self, one: &str, other: &str) {
        self.changes += 1;
        for (_, change) in &mut self.open {
            if is_below(change.name(), one) {
                change.follow(one, other);
            } else {
                change.follow(other, one);
            }
        }
    }

    /// A sync of everything that began after `began` changes.
    pub(super) fn all_synced(&mut self, began: u64) {
        self.open.retain(|(at, _)| *at >= began);
    }

    /// A sync of `folder` (or of a file, which covers no name) that began after `began` changes.
    pub(super) fn folder_synced(&mut self, folder: &str, began: u64) {
        self.open.retain_mut(|(at, change)| {
            if *at >= began {
                return true;
            }
            if parent(change.name()) == folder {
                return false;
            }
            // The old name is durably gone, and the new one is not promised.
            if let Change::Moved { from, to } = change
                && parent(from) == folder
            {
                *change = Change::Created(std::mem::take(to));
            }
            true
        });
    }

    /// Steps that take them back: removals, then moves, what lies deeper and what changed later first. Each path is
    /// valid until its own folder moves.
    pub(super) fn undo(&self) -> Vec<Undo> {
        let (mut removals, mut moves) = (Vec::new(), Vec::new());
        for (_, change) in self.open.iter().rev() {
            match change.clone() {
                Change::Created(path) => removals.push(Undo::Remove(path)),
                Change::Moved { from, to } => {
                    moves.push((to.matches('/').count(), Undo::MoveBack { from, to }));
                }
            }
        }
        moves.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
        removals.into_iter().chain(moves.into_iter().map(|(_, undo)| undo)).collect()
    }
}

impl Change {
    /// The name that it made.
    fn name(&self) -> &str {
        match self {
            Self::Created(path) | Self::Moved { to: path, .. } => path,
        }
    }

    /// A folder `from` has moved to `to`: what lies below it has moved, too.
    fn follow(&mut self, from: &str, to: &str) {
        let moved = |path: &mut String| {
            if is_below(path, from) {
                path.replace_range(..from.len(), to);
            }
        };
        match self {
            Self::Created(path) => moved(path),
            Self::Moved { from: old, to: new } => {
                moved(old);
                moved(new);
            }
        }
    }
}

/// True if `path` lies below the folder `folder`.
fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// The folder that `path` lies in.
fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

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
        assert_eq!(names.undo(), [removal("/b"), removal("/d/a")]);
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
}
