//! Why there is no kernel.

use std::io;
use std::path::PathBuf;

use super::{SOURCE_FOLDER, VERSION_MIN};
use crate::program::package_of;

/// Why there is no kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// None was built.
    #[error(
        "there is no kernel yet in {}: `strobe linux build-kernel` makes one, --kernel or STROBE_KERNEL names one",
        .folder.display()
    )]
    None {
        /// Folder of the kernels.
        folder: PathBuf,
    },
    /// It is not User-Mode Linux.
    #[error("{path} is no User-Mode Linux kernel: {reason}")]
    Wrong {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// It cannot run in virtual time.
    #[error(
        "{path} (Linux {version}) is built without CONFIG_UML_TIME_TRAVEL_SUPPORT: use --real-time, or the kernel that \
         `strobe linux build-kernel` makes"
    )]
    NoTimeTravel {
        /// The file.
        path: String,
        /// Its version.
        version: String,
    },
    /// A file system is missing.
    #[error("{path} (Linux {version}) is built without {kind}{}", hint(.kind))]
    NoFileSystem {
        /// The file.
        path: String,
        /// Its version.
        version: String,
        /// The file system.
        kind: String,
    },
    /// The driver of NVMe drives is missing.
    #[error(
        "{path} (Linux {version}) has no driver of NVMe drives: `strobe linux build-kernel` makes one that has"
    )]
    NoNvme {
        /// The file.
        path: String,
        /// Its version.
        version: String,
    },
    /// It cannot show the host's files.
    #[error(
        "{path} (Linux {version}) cannot show the host's files, for want of virtio-fs and overlayfs: use --root packed, \
         or the kernel that `strobe linux build-kernel` makes"
    )]
    NoHostFiles {
        /// The file.
        path: String,
        /// Its version.
        version: String,
    },
    /// It cannot charge its processor.
    #[error(
        "{path} (Linux {version}) cannot charge system calls and processes: leave out --syscall-ns, --copy-ns-per-kib and --process-ns, or use the \
         kernel that `strobe linux build-kernel` makes"
    )]
    NoCpuCost {
        /// The file.
        path: String,
        /// Its version.
        version: String,
    },
    /// Tools are missing.
    #[error("to build the kernel, {} are missing: apt-get install {}", .0.join(", "), packages(.0))]
    Tools(Vec<String>),
    /// The source is missing.
    #[error(
        "there is no kernel source in {SOURCE_FOLDER}: apt-get install linux-source-6.12, or give a tarball or folder \
         of Linux {}.{} or newer with --source", VERSION_MIN.0, VERSION_MIN.1
    )]
    NoSource,
    /// The source is not usable.
    #[error("the kernel source {path} cannot be used: {reason}")]
    Source {
        /// Path.
        path: String,
        /// Why.
        reason: String,
    },
    /// A fragment of a configuration is not usable.
    #[error("--config {path}: {reason}")]
    Fragment {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// Patches do not apply.
    #[error(
        "of the patches, which are made for Linux 6.12, these do not apply to Linux {version}: {}; {log} says where",
        .names.join(", ")
    )]
    Patches {
        /// The source's version.
        version: String,
        /// Names of the patches.
        names: Vec<String>,
        /// The log.
        log: String,
    },
    /// A step of the build failed.
    #[error("{step} failed; the whole log is in {log}\n{end}")]
    Failed {
        /// Failed step.
        step: String,
        /// The log.
        log: String,
        /// Its last lines.
        end: String,
    },
    /// Something of the host failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Suggests how to build a kernel with the file system `kind`, if possible.
fn hint(kind: &str) -> String {
    match super::Extra::ALL.iter().map(|extra| extra.name()).find(|&name| name == kind) {
        Some(name) => format!(": `strobe linux build-kernel --with {name}` makes one with it"),
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
            error.to_string().ends_with("flex, xz are missing: apt-get install flex xz-utils"),
            "{error}"
        );
    }
}
