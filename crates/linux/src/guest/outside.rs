//! Files written outside the drive, into the overlay above the host's files.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::job::Report;

const PATHS_MAX: usize = 4;
/// Cache folders of programs, whose files are not data.
const CACHE_FOLDERS: [&str; 2] = ["__pycache__", ".cache"];

/// Current time, at the resolution of the guest's file times.
pub(super) fn file_time() -> Timespec {
    clock_gettime(ClockId::RealtimeCoarse)
}

/// Reports files in `layer` changed at `since` or later; `None` without any. Files that a running program
/// removes during the scan are ignored.
pub(super) fn report(layer: &Path, since: Timespec) -> Option<Report> {
    let (mut files, mut paths) = (0, Vec::new());
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(layer.join(folder.trim_start_matches('/'))).into_iter().flatten().flatten();
        for entry in entries {
            let (name, Ok(meta)) = (entry.file_name(), entry.metadata()) else { continue };
            let path = format!("{folder}/{}", name.to_string_lossy());
            if meta.is_dir() && !CACHE_FOLDERS.iter().any(|&folder| name == folder) {
                folders.push(path);
            } else if meta.is_file() && (meta.ctime(), meta.ctime_nsec()) >= (since.tv_sec, since.tv_nsec) {
                files += 1;
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths.truncate(PATHS_MAX);
    (files > 0).then_some(Report::Outside { files, paths })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_changed_from_then_on_are_counted_and_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let layer = folder.path();
        fs::write(layer.join("old"), "a").expect("written");
        std::thread::sleep(std::time::Duration::from_millis(30));
        let since = file_time();
        let report = || report(layer, since);
        for name in ["db/__pycache__", ".cache", "db/deep"] {
            fs::create_dir_all(layer.join(name)).expect("made");
        }
        for name in ["db/__pycache__/x.pyc", ".cache/x"] {
            fs::write(layer.join(name), "a").expect("written");
        }
        std::os::unix::fs::symlink("/etc", layer.join("link")).expect("linked");
        assert!(report().is_none());
        for at in 0..6 {
            fs::write(layer.join(format!("db/deep/{at}")), "a").expect("written");
        }
        fs::write(layer.join("old"), "b").expect("written");
        let Some(Report::Outside { files, paths }) = report() else { panic!("some") };
        assert_eq!((files, &*paths.join(" ")), (7, "/db/deep/0 /db/deep/1 /db/deep/2 /db/deep/3"));
    }
}
