//! Names that are taken back: a file system may keep more of them than was synced.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::job::Undo;

/// Takes back `changes` below `top`, in order.
pub(super) fn all(top: &Path, changes: &[Undo]) -> io::Result<()> {
    let below = |path: &str| top.join(path.trim_start_matches('/'));
    changes.iter().try_for_each(|change| match change {
        Undo::Remove(path) => remove(&below(path)),
        Undo::MoveBack { from, to } => {
            let (from, to) = (below(from), below(to));
            // The file system has lost the new name, or kept the old one: nothing to take back.
            if fs::symlink_metadata(&to).is_err() || fs::symlink_metadata(&from).is_ok() {
                return Ok(());
            }
            match fs::rename(to, from) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        }
    })
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_removed_or_get_their_old_name_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path();
        let write = |name: &str| fs::write(top.join(name), name).expect("written");
        fs::create_dir(top.join("d")).expect("a folder");
        ["a", "d/x", "new", "kept", "kept.old"].into_iter().for_each(write);
        let back = |from: &str, to: &str| Undo::MoveBack { from: from.to_owned(), to: to.to_owned() };
        let gone = |path: &str| Undo::Remove(path.to_owned());
        let changes = [
            gone("/a"),
            gone("/d"),
            gone("/none"),
            back("/old", "/new"),
            back("/kept.old", "/kept"),
            back("/x", "/y"),
        ];
        all(top, &changes).expect("taken back");
        let mut left: Vec<_> =
            fs::read_dir(top).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["kept", "kept.old", "old"]);
        assert_eq!(fs::read_to_string(top.join("old")).expect("a file"), "new");
    }
}
