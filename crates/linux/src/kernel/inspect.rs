use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use super::{KernelError, is_older};

const LOCAL_VERSION: &str = "-strobe";

/// Properties of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelInfo {
    /// Kernel version.
    pub version: String,
    /// True if virtual time is supported.
    pub time_travel: bool,
    /// True if the kernel has the project's patches.
    pub is_ours: bool,
    config: String,
}

impl KernelInfo {
    /// True if the option `CONFIG_name` is built in.
    pub fn has(&self, name: &str) -> bool {
        self.config.lines().any(|line| line.strip_prefix("CONFIG_") == Some(&format!("{name}=y")))
    }

    /// True if the host's files can be the root.
    pub fn can_show_host(&self) -> bool {
        ["VIRTIO_FS", "OVERLAY_FS", "TMPFS_XATTR"].iter().all(|name| self.has(name))
    }

    /// True if processor time can be charged for system calls and processes.
    pub fn can_charge_cpu(&self) -> bool {
        self.has("UML_PROCESS_COST")
    }

    /// True if changes of files and the resulting requests can be reported.
    pub fn can_log_files(&self) -> bool {
        self.has("UML_FILE_LOG")
    }

    /// True if the kernel can add syncs to a program's system calls (`um_added_syncs=`).
    pub fn can_add_syncs(&self) -> bool {
        self.has("UML_ADDED_SYNCS")
    }

    /// True if the calendar's memory is shared (Linux 6.12 and newer). Runs on older kernels are not all
    /// repeatable.
    pub fn shares_calendar(&self) -> bool {
        !is_older(&self.version)
    }

    /// True if virtual time can continue with computing programs.
    pub fn can_watch_spin(&self) -> bool {
        self.has("UML_CPU_SPIN")
    }

    /// True if the file system is built in.
    pub fn has_file_system(&self, kind: &str) -> bool {
        self.has(&format!("{}_FS", kind.to_uppercase()))
    }
}

/// Queries a kernel for its version and configuration.
pub fn inspect(path: &Path) -> Result<KernelInfo, KernelError> {
    let wrong = |reason: String| KernelError::Wrong { path: path.display().to_string(), reason };
    let ask = |question: &str| {
        let output = Command::new(path).arg(question).stdin(Stdio::null()).output();
        let output = output.map_err(|error| wrong(error.to_string()))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(wrong(format!("it does not support {question}")))
        }
    };
    let config = ask("--showconfig")?;
    if !config.contains("CONFIG_UML=y") {
        return Err(wrong("its configuration lacks CONFIG_UML".into()));
    }
    let version = ask("--version")?.lines().next().unwrap_or_default().trim().to_owned();
    let time_travel = config.lines().any(|line| line == "CONFIG_UML_TIME_TRAVEL_SUPPORT=y");
    let is_ours = version.ends_with(LOCAL_VERSION);
    Ok(KernelInfo { version, time_travel, is_ours, config })
}

/// Finds the module folder of a distribution's kernel.
pub fn modules_of(info: &KernelInfo) -> Option<PathBuf> {
    ["/usr/lib/uml/modules", "/lib/modules"]
        .iter()
        .map(|folder| Path::new(folder).join(&info.version))
        .find(|folder| folder.join("modules.dep").is_file())
}

/// Returns the modules to load, in order, for drivers and file systems `names`. Built-in ones need none.
pub fn needed_modules(info: &KernelInfo, names: &[&str]) -> io::Result<Vec<PathBuf>> {
    let Some(folder) = modules_of(info) else { return Ok(Vec::new()) };
    let index = fs::read_to_string(folder.join("modules.dep"))?;
    // No dependency lists modules that are requested by name: checksums of ext4 and F2FS, character tables of
    // FAT.
    let asked_for = ["crc32c_generic", "crc32_generic", "nls_cp437", "nls_iso8859_1", "nls_ascii"];
    let mut modules = Vec::new();
    for name in asked_for.iter().chain(names) {
        let is_it = |line: &&str| {
            let file = line.split(':').next().and_then(|path| Path::new(path).file_name());
            let stem = file.and_then(|file| file.to_str()).and_then(|file| file.split('.').next());
            stem.is_some_and(|stem| stem.replace('-', "_") == *name)
        };
        let Some((module, needs)) = index.lines().find(is_it).and_then(|line| line.split_once(':')) else {
            continue;
        };
        // In modules.dep, a dependency comes after its dependents, so the list is loaded in reverse.
        for path in needs.split_whitespace().rev().chain([module]) {
            let path = folder.join(path);
            if !modules.contains(&path) {
                modules.push(path);
            }
        }
    }
    Ok(modules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_kernel_is_refused() {
        for path in ["/bin/true", "/bin/ls", "/etc/passwd", "/nowhere"] {
            let error = inspect(Path::new(path)).unwrap_err();
            assert!(matches!(error, KernelError::Wrong { .. }), "{path}: {error}");
        }
    }
}
