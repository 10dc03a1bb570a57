//! Features of a kernel, and the modules it needs for them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use super::{KernelError, is_older};

/// The end of the version of a kernel with our patches.
const LOCAL_VERSION: &str = "-strobe";

/// Properties of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelInfo {
    /// Its version.
    pub version: String,
    /// True if it can run in virtual time.
    pub time_travel: bool,
    /// True if it has the patches of this project.
    pub is_ours: bool,
    /// Its configuration.
    config: String,
}

impl KernelInfo {
    /// True if the option `CONFIG_name` is built in.
    pub fn has(&self, name: &str) -> bool {
        self.config.lines().any(|line| line.strip_prefix("CONFIG_") == Some(&format!("{name}=y")))
    }

    /// True if its root can be the host's files.
    pub fn can_show_host(&self) -> bool {
        ["VIRTIO_FS", "OVERLAY_FS", "TMPFS_XATTR"].iter().all(|name| self.has(name))
    }

    /// True if it can charge the processor for system calls and processes.
    pub fn can_charge_cpu(&self) -> bool {
        self.has("UML_PROCESS_COST")
    }

    /// True if it can report changes of files and the requests that follow from them.
    pub fn can_log_files(&self) -> bool {
        self.has("UML_FILE_LOG")
    }

    /// True if it shares the calendar's memory, as Linux does from 6.12 on. Runs of others were not all alike.
    pub fn shares_calendar(&self) -> bool {
        !is_older(&self.version)
    }

    /// True if it can let virtual time go on with programs that compute.
    pub fn can_watch_spin(&self) -> bool {
        self.has("UML_CPU_SPIN")
    }

    /// True if the file system is built in.
    pub fn has_file_system(&self, kind: &str) -> bool {
        self.has(&format!("{}_FS", kind.to_uppercase()))
    }
}

/// Looks at a kernel.
pub fn inspect(path: &Path) -> Result<KernelInfo, KernelError> {
    let wrong = |reason: String| KernelError::Wrong { path: path.display().to_string(), reason };
    let ask = |question: &str| {
        let output = Command::new(path).arg(question).stdin(Stdio::null()).output();
        let output = output.map_err(|error| wrong(error.to_string()))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(wrong(format!("it does not answer {question}")))
        }
    };
    let config = ask("--showconfig")?;
    if !config.contains("CONFIG_UML=y") {
        return Err(wrong("its configuration does not say CONFIG_UML".into()));
    }
    let version = ask("--version")?.lines().next().unwrap_or_default().trim().to_owned();
    let time_travel = config.lines().any(|line| line == "CONFIG_UML_TIME_TRAVEL_SUPPORT=y");
    let is_ours = version.ends_with(LOCAL_VERSION);
    Ok(KernelInfo { version, time_travel, is_ours, config })
}

/// Folder with the modules of a distribution's kernel.
pub fn modules_of(info: &KernelInfo) -> Option<PathBuf> {
    ["/usr/lib/uml/modules", "/lib/modules"]
        .iter()
        .map(|folder| Path::new(folder).join(&info.version))
        .find(|folder| folder.join("modules.dep").is_file())
}

/// The modules to load, in order, for the drivers and file systems `names`; those built in need none.
pub fn needed_modules(info: &KernelInfo, names: &[&str]) -> io::Result<Vec<PathBuf>> {
    let Some(folder) = modules_of(info) else { return Ok(Vec::new()) };
    let index = fs::read_to_string(folder.join("modules.dep"))?;
    // ext4 and F2FS ask for checksums by name, FAT for its tables of characters.
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
        // What is needed stands behind what needs it.
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
