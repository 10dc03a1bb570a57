//! Files kept from the first failing cut: the drive, and the kernel log of the boot after the cut.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use strobe_crash::{CrashReport, Explorer, SavedFiles};
use strobe_types::StopFlag;

use super::super::Failure;

/// Fails early if `folder` cannot be created or written to. Does not create it yet.
pub(super) fn check(folder: &Path) -> Result<(), Failure> {
    let probed = std::path::absolute(folder).and_then(|path| {
        let there = path.ancestors().find(|path| path.symlink_metadata().is_ok()).unwrap_or(&path);
        tempfile::Builder::new().prefix(".making-").tempdir_in(there).map(drop)
    });
    probed.map_err(|error| failed(folder, &error))
}

fn failed(folder: &Path, error: &io::Error) -> Failure {
    Failure::Run(anyhow!("--keep {}: {error}; name another folder, or none", folder.display()))
}

/// Keeps the first failing cut of `report` in `folder`.
///
/// Existing files stay: an equal one is reused, otherwise the new file gets a number.
pub(super) fn keep(
    explorer: &Explorer,
    report: &CrashReport,
    folder: &Path,
    stop: &StopFlag,
) -> Result<Option<SavedFiles>, Failure> {
    let Some(wrong) = report.first_wrong() else { return Ok(None) };
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    // The files are made on the destination's file system, because `put` links them.
    let made = tempfile::Builder::new().prefix(".making-").tempdir_in(folder);
    let made = made.map_err(|error| failed(folder, &error))?;
    let (image, log) = (made.path().join("image"), made.path().join("log"));
    explorer.keep(wrong.operation, &image, stop)?;
    fs::write(&log, &wrong.kernel_log).map_err(|error| failed(&log, &error))?;
    let kind = report.drive_kind.map(|kind| format!("-{kind}")).unwrap_or_default();
    let name = format!("{}{kind}-{}", report.file_system, wrong.operation);
    let put = |from: &Path, end: &str| {
        put(from, folder, &name, end)
            .map(|path| path.display().to_string())
            .map_err(|error| failed(folder, &error))
    };
    Ok(Some(SavedFiles {
        operation: wrong.operation,
        image: put(&image, "img")?,
        kernel_log: put(&log, "log")?,
    }))
}

/// Links `from` as NAME.END, NAME-2.END, …: the first name in `folder` that is free or has equal content.
fn put(from: &Path, folder: &Path, name: &str, end: &str) -> io::Result<PathBuf> {
    for number in 1_u32.. {
        let path = match number {
            1 => folder.join(format!("{name}.{end}")),
            _ => folder.join(format!("{name}-{number}.{end}")),
        };
        // Linking fails if the name exists: no file is overwritten.
        match fs::hard_link(from, &path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) if path.is_file() && is_same(from, &path)? => return Ok(path),
            Err(_) => {}
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut one, mut other) = (BufReader::new(one), BufReader::new(other));
    let (mut here, mut there) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let bytes = one.read(&mut here)?;
        if bytes == 0 {
            return Ok(true);
        }
        other.read_exact(&mut there[..bytes])?;
        if here[..bytes] != there[..bytes] {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_made_is_refused_and_none_is_made_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let (new, file) = (folder.path().join("new/below"), folder.path().join("file"));
        fs::write(&file, "").expect("written");
        assert!(check(&new).is_ok(), "it can be made");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "only the file is there");
        for wrong in [&file, &file.join("below")] {
            let Err(Failure::Run(error)) = check(wrong) else { panic!("{} is refused", wrong.display()) };
            assert!(error.to_string().contains("name another folder, or none"), "{error}");
        }
    }

    #[test]
    fn nothing_is_overwritten_and_equal_files_are_named_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let (at, one, two) = (folder.path(), folder.path().join("one"), folder.path().join("two"));
        fs::write(&one, "first").expect("written");
        fs::write(&two, "other").expect("written");
        let put = |from: &Path| put(from, at, "ext4-7", "img").expect("put");
        assert_eq!(put(&one), at.join("ext4-7.img"));
        assert_eq!(put(&two), at.join("ext4-7-2.img"));
        assert_eq!(put(&one), at.join("ext4-7.img"), "equal content");
        assert_eq!(fs::read_to_string(at.join("ext4-7.img")).expect("kept"), "first");
        assert_eq!(fs::read_to_string(at.join("ext4-7-2.img")).expect("kept"), "other");
    }
}
