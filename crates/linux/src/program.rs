use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Folders searched after `PATH`, because some distributions hide root's tools.
const SYSTEM_FOLDERS: [&str; 6] =
    ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin"];
/// Missing program.
#[derive(Debug, thiserror::Error)]
#[error("{}", missing(.name))]
pub struct MissingProgram {
    /// Program name.
    pub name: String,
}

fn missing(name: &str) -> String {
    match (package_of(name), name.contains('/')) {
        (_, true) if Path::new(name).is_dir() => format!("{name}: this is a folder, not a program"),
        (_, true) if Path::new(name).exists() => {
            format!("{name}: this file is not executable; chmod +x {name}")
        }
        (_, true) => format!("{name}: there is no such file"),
        (Some(package), false) => format!("{name} is not installed: install the package {package}"),
        (None, false) => format!("{name} is not installed"),
    }
}

pub(crate) fn package_of(program: &str) -> Option<&'static str> {
    Some(match program {
        "mkfs.ext4" | "e2fsck" | "dumpe2fs" | "debugfs" => "e2fsprogs",
        "mkfs.f2fs" | "fsck.f2fs" => "f2fs-tools",
        "mkfs.vfat" | "fsck.fat" | "fsck.vfat" => "dosfstools",
        "mkfs.xfs" | "xfs_repair" => "xfsprogs",
        "mkfs.btrfs" | "btrfs" => "btrfs-progs",
        "mkfs.exfat" | "fsck.exfat" => "exfatprogs",
        "fio" => "fio",
        "dbench" => "dbench",
        "postmark" => "postmark",
        "flex" => "flex",
        "bison" => "bison",
        "bc" => "bc",
        "make" => "make",
        "gcc" | "cc" => "gcc",
        "xz" => "xz-utils",
        "tar" => "tar",
        "patch" => "patch",
        "ldd" => "libc-bin",
        _ => return None,
    })
}

/// File of the running program. Its name on disk is not used, because a new build may have replaced it.
pub fn this_program() -> PathBuf {
    format!("/proc/{}/exe", std::process::id()).into()
}

/// Finds `program`, a path or a name to search for.
pub fn find_program(program: &str) -> Result<PathBuf, MissingProgram> {
    let missing = || MissingProgram { name: program.to_owned() };
    let is_program = |path: &Path| {
        fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        let path = Path::new(program);
        return if is_program(path) {
            std::path::absolute(path).map_err(|_| missing())
        } else {
            Err(missing())
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|path| is_program(path)).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_no_program_says_why_and_a_name_what_to_install() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("script.sh");
        let said =
            |path: &Path| find_program(&path.display().to_string()).expect_err("no program").to_string();
        assert!(said(&file).ends_with("script.sh: there is no such file"));
        fs::write(&file, "#!/bin/sh\n").expect("written");
        assert!(said(&file).contains("not executable; chmod +x "));
        assert!(said(folder.path()).contains("a folder"));
        assert_eq!(
            find_program("no-such-program").expect_err("none").to_string(),
            "no-such-program is not installed"
        );
    }
}
