//! Temporary folders that are removed even after their process was killed.
//!
//! Each folder has a file locked by its process. The host releases the lock when the process ends for any
//! reason. Before a process creates its first folder, it removes this user's folders with unlocked files.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Once;

use rustix::process::geteuid;
use tempfile::{Builder, TempDir};

const PREFIX: &str = "strobe-";
const LOCK: &str = ".alive";

/// Temporary folder, removed on drop.
pub struct Scratch {
    folder: TempDir,
    _lock: File,
}

impl Scratch {
    /// Creates a folder `strobe-KIND-` plus random letters in the temporary folder.
    pub fn new(kind: &str) -> io::Result<Self> {
        static SWEPT: Once = Once::new();
        let top = std::env::temp_dir();
        SWEPT.call_once(|| sweep(&top));
        Self::in_folder(&top, kind)
    }

    fn in_folder(top: &Path, kind: &str) -> io::Result<Self> {
        let folder = Builder::new().prefix(&format!("{PREFIX}{kind}-")).tempdir_in(top)?;
        // The lock file gets its final name only after locking. Otherwise another process could remove the
        // folder as abandoned.
        let unlocked = folder.path().join(".new");
        let lock = File::create_new(&unlocked)?;
        if lock.try_lock().is_ok() {
            fs::rename(&unlocked, folder.path().join(LOCK))?;
        }
        Ok(Self { folder, _lock: lock })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn sweep(top: &Path) {
    for entry in fs::read_dir(top).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && fs::symlink_metadata(entry.path())
                .is_ok_and(|meta| meta.is_dir() && meta.uid() == geteuid().as_raw());
        if !is_ours {
            continue;
        }
        // A folder whose lock is free has no living owner.
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        if lock.try_lock().is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_whose_process_has_ended_are_swept() {
        let top = tempfile::tempdir().expect("a folder");
        let alive = Scratch::in_folder(top.path(), "linux").expect("made");
        let of = |name: &str, lock: &str| {
            let folder = top.path().join(name);
            fs::create_dir_all(folder.join("uml")).expect("made");
            fs::write(folder.join(lock), "").expect("written");
            folder
        };
        let dead = of("strobe-linux-dead", LOCK);
        let others = [of("strobe-linux-older", "disk"), of("another-folder", LOCK)];
        let linked = top.path().join("strobe-linux-link");
        std::os::unix::fs::symlink(&others[1], &linked).expect("linked");
        sweep(top.path());
        assert!(!dead.exists() && alive.path().exists() && linked.exists());
        assert!(others.iter().all(|folder| folder.join("uml").exists()));
        let path = alive.path().to_owned();
        drop(alive);
        assert!(!path.exists());
    }
}
