use std::io;
use std::path::PathBuf;

use super::{SOURCE_FOLDER, VERSION_MIN};
use crate::program::package_of;

/// Reason why no kernel is available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// No kernel was built.
    #[error(
        "there is no kernel in {}: build one with `strobe linux build-kernel`, or set --kernel or STROBE_KERNEL",
        .folder.display()
    )]
    None {
        /// Folder of the kernels.
        folder: PathBuf,
    },
    /// The file is not a User-Mode Linux kernel.
    #[error("{path} is not a User-Mode Linux kernel: {reason}")]
    Wrong {
        /// File.
        path: String,
        /// Reason.
        reason: String,
    },
    /// The kernel does not support virtual time.
    #[error(
        "{path} (Linux {version}) is built without CONFIG_UML_TIME_TRAVEL_SUPPORT: use --real-time, or a kernel \
         built by `strobe linux build-kernel`"
    )]
    NoTimeTravel {
        /// File.
        path: String,
        /// Kernel version.
        version: String,
    },
    /// The kernel lacks a file system.
    #[error("{path} (Linux {version}) is built without {kind}{}", hint(.kind))]
    NoFileSystem {
        /// File.
        path: String,
        /// Kernel version.
        version: String,
        /// File system.
        kind: String,
    },
    /// The kernel lacks the NVMe driver.
    #[error("{path} (Linux {version}) has no NVMe driver: build a kernel with `strobe linux build-kernel`")]
    NoNvme {
        /// File.
        path: String,
        /// Kernel version.
        version: String,
    },
    /// The kernel cannot show the host's files.
    #[error(
        "{path} (Linux {version}) cannot show the host's files, as it lacks virtio-fs or overlayfs: use --root packed, \
         or a kernel built by `strobe linux build-kernel`"
    )]
    NoHostFiles {
        /// File.
        path: String,
        /// Kernel version.
        version: String,
    },
    /// The kernel cannot charge processor time.
    #[error(
        "{path} (Linux {version}) cannot charge system calls and processes: leave out --syscall-ns, --copy-ns-per-kib and --process-ns, or use a \
         kernel built by `strobe linux build-kernel`"
    )]
    NoCpuCost {
        /// File.
        path: String,
        /// Kernel version.
        version: String,
    },
    /// Build tools are missing.
    #[error("missing build tools: {}; apt-get install {}", .0.join(", "), packages(.0))]
    Tools(Vec<String>),
    /// No kernel source was found.
    #[error(
        "there is no kernel source in {SOURCE_FOLDER}: apt-get install linux-source-6.12, or give a tarball or folder \
         of Linux {}.{} or newer with --source", VERSION_MIN.0, VERSION_MIN.1
    )]
    NoSource,
    /// The kernel source is unusable.
    #[error("the kernel source {path} cannot be used: {reason}")]
    Source {
        /// Path.
        path: String,
        /// Reason.
        reason: String,
    },
    /// A configuration fragment is unusable.
    #[error("--config {path}: {reason}")]
    Fragment {
        /// File.
        path: String,
        /// Reason.
        reason: String,
    },
    /// Patches do not apply.
    #[error(
        "patches for Linux 6.12 that do not apply to Linux {version}: {}; details in {log}",
        .names.join(", ")
    )]
    Patches {
        /// Source version.
        version: String,
        /// Names of the patches.
        names: Vec<String>,
        /// Log file.
        log: String,
    },
    /// A build step failed.
    #[error("{step} failed; the whole log is in {log}\n{end}")]
    Failed {
        /// Failed step.
        step: String,
        /// Log file.
        log: String,
        /// Last lines of the log.
        end: String,
    },
    /// A host operation failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

fn hint(kind: &str) -> String {
    match super::Extra::ALL.iter().map(|extra| extra.name()).find(|&name| name == kind) {
        Some(name) => format!(": `strobe linux build-kernel --with {name}` adds it"),
        None => String::new(),
    }
}

fn packages(tools: &[String]) -> String {
    let mut packages: Vec<_> = tools.iter().map(|tool| package_of(tool).unwrap_or(tool)).collect();
    packages.dedup();
    packages.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tools_are_named_with_their_packages() {
        let error = KernelError::Tools(vec!["flex".into(), "xz".into()]);
        assert!(
            error.to_string().ends_with("missing build tools: flex, xz; apt-get install flex xz-utils"),
            "{error}"
        );
    }
}
