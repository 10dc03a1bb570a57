//! Programs of the host: where they are, and what to install for those that are not there.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Where programs are looked for beside `PATH`: some distributions hide tools of root.
const SYSTEM_FOLDERS: [&str; 6] =
    ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin"];
/// A program that is not there.
#[derive(Debug, thiserror::Error)]
#[error("{name} is not installed{}", package_hint(.name))]
pub struct MissingProgram {
    /// Its name.
    pub name: String,
}

fn package_hint(name: &str) -> String {
    match package_of(name) {
        Some(package) => format!(": install the package {package}"),
        None => String::new(),
    }
}

/// The Debian package of a tool.
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

/// The file of the program that runs here. Its name on disk will not do: it may belong to another build by now, or to
/// nothing, as whoever runs a study for an hour builds the next version meanwhile.
pub fn this_program() -> PathBuf {
    format!("/proc/{}/exe", std::process::id()).into()
}

/// Where `program` is: a path, or a name that is looked for.
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
