//! Undo of unsynced names, which a file system may keep without a guarantee.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::job::Undo;

const WAY: &str = ".strobe-names";

/// Undoes `changes` below `top`. The file system may have kept only the first of them, or none.
///
/// 1. Remove new names, and move moved files to a temporary folder, in order. `changes` has the deepest names
///    first, so no folder moves before the names in it.
/// 2. Move these files to their old paths, from the top downwards.
///
/// If neither name of a move exists, the volume is in an intermediate state. Then nothing is undone, and that
/// move is returned.
pub fn take_back<'a>(top: &Path, changes: &'a [Undo]) -> io::Result<Option<&'a Undo>> {
    let below = |path: &str| top.join(path.trim_start_matches('/'));
    let is_there = |path: &str| fs::symlink_metadata(below(path)).is_ok();
    // If `from` exists and `to` does not, this move did not happen. A file at or below `from` is then the
    // original one there, not the result of another move.
    let is_unmoved = |path: &str| {
        changes.iter().any(|change| match change {
            Undo::MoveBack { from, to } => {
                Path::new(path).starts_with(from) && is_there(from) && !is_there(to)
            }
            Undo::Remove(_) => false,
        })
    };
    let is_moved = |to: &str| is_there(to) && !is_unmoved(to);
    let is_nowhere =
        |change: &&Undo| matches!(change, Undo::MoveBack { from, to } if !is_there(from) && !is_moved(to));
    if let Some(nowhere) = changes.iter().find(is_nowhere) {
        return Ok(Some(nowhere));
    }
    let way = below(WAY);
    let mut moving = Vec::new();
    for (number, change) in chosen(changes, &is_there, &is_moved).iter().enumerate() {
        match change {
            Undo::Remove(path) => remove(&below(path))?,
            Undo::MoveBack { from, to } => {
                if moving.is_empty() {
                    fs::create_dir(&way)?;
                }
                let held = way.join(number.to_string());
                fs::rename(below(to), &held)?;
                moving.push((from, held));
            }
        }
    }
    if moving.is_empty() {
        return Ok(None);
    }
    moving.sort_by_key(|(from, _)| from.matches('/').count());
    for (from, held) in moving {
        if is_there(from) {
            return Err(io::Error::new(ErrorKind::AlreadyExists, format!("{from} exists again")));
        }
        fs::rename(held, below(from))
            .map_err(|error| io::Error::new(error.kind(), format!("{from}: {error}")))?;
    }
    fs::remove_dir(way)?;
    Ok(None)
}

/// Selects moves whose new name exists and whose old name will be free, and removals of names that hold no
/// file to keep.
fn chosen<'a>(
    changes: &'a [Undo],
    is_there: &dyn Fn(&str) -> bool,
    is_moved: &dyn Fn(&str) -> bool,
) -> Vec<&'a Undo> {
    let mut chosen: Vec<&Undo> = Vec::new();
    let mut removals: Vec<&Undo> =
        changes.iter().filter(|change| matches!(change, Undo::Remove(_))).collect();
    loop {
        // A name becomes free when it is removed, or moved back itself.
        chosen.clone_from(&removals);
        loop {
            let is_left = |path: &str| {
                is_there(path)
                    && !chosen.iter().any(|change| match change {
                        Undo::Remove(left) | Undo::MoveBack { to: left, .. } => left == path,
                    })
            };
            // The old name's folder exists, or comes back with another move.
            let has_home = |old: &str| {
                let comes = |change: &&Undo| matches!(change, Undo::MoveBack { from, .. } if from != old && Path::new(old).starts_with(from));
                old.rfind('/').is_none_or(|at| at == 0 || is_there(&format!("{}/.", &old[..at])))
                    || chosen.iter().any(comes)
            };
            let next = changes.iter().find(|change| match change {
                Undo::MoveBack { from, to } => {
                    !chosen.contains(change) && is_moved(to) && !is_left(from) && has_home(from)
                }
                Undo::Remove(_) => false,
            });
            match next {
                Some(change) => chosen.push(change),
                None => break,
            }
        }
        // All other files stay in place, so their folders must not be removed.
        let stay: Vec<&String> = changes
            .iter()
            .filter(|change| !chosen.contains(change))
            .filter_map(|change| match change {
                Undo::MoveBack { from, to } => Some([from, to]),
                Undo::Remove(_) => None,
            })
            .flatten()
            .filter(|path| is_there(path))
            .collect();
        let count = removals.len();
        removals.retain(|change| match change {
            Undo::Remove(gone) => !stay
                .iter()
                .any(|path| Path::new(path).starts_with(gone) || Path::new(gone).starts_with(path)),
            Undo::MoveBack { .. } => false,
        });
        // A dropped removal may block a chosen move, so choose again until no removal is dropped.
        if removals.len() == count {
            break;
        }
    }
    changes.iter().filter(|change| chosen.contains(change)).collect()
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        // NotADirectory: in this state, a folder of the path is still a file.
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Err(error),
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
        let changes =
            [gone("/a"), gone("/d"), gone("/none"), back("/old", "/new"), back("/kept.old", "/kept")];
        assert_eq!(take_back(top, &changes).expect("taken back"), None);
        let mut left: Vec<_> =
            fs::read_dir(top).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["kept", "kept.old", "old"]);
        assert_eq!(fs::read_to_string(top.join("old")).expect("a file"), "new");
        let between = [gone("/old"), back("/x", "/y")];
        assert_eq!(take_back(top, &between).expect("looked at"), Some(&between[1]));
        assert!(top.join("old").exists(), "nothing is taken back");
    }

    #[test]
    fn a_file_leaves_a_new_folder_that_has_its_old_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path();
        fs::create_dir(top.join("data")).expect("a folder");
        fs::write(top.join("data/data"), "kept").expect("written");
        let back = Undo::MoveBack { from: "/data".to_owned(), to: "/data/data".to_owned() };
        take_back(top, &[back, Undo::Remove("/data".to_owned())]).expect("taken back");
        assert_eq!(fs::read_to_string(top.join("data")).expect("a file"), "kept");
        assert_eq!(fs::read_dir(top).expect("a folder").count(), 1);
    }
}
