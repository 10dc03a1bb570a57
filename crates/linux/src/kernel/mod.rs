//! The guest's kernel: what it is made from, and which one to use.
//!
//! [`build`] makes it, once; [`inspect`] tells what one can do.

mod build;
mod error;
mod fragment;
mod inspect;

use std::fs;
use std::path::PathBuf;

use sha2::{Digest as _, Sha256};
use strobe_types::named;

pub use self::build::{BuildOptions, BuildProgress, build, find_source, missing_tools};
pub use self::error::KernelError;
pub use self::fragment::Fragment;
pub use self::inspect::{KernelInfo, inspect, modules_of, needed_modules};

/// The oldest version with shared memory in its time travel, and that of the patches.
const VERSION_MIN: (u32, u32) = (6, 12);
/// Folder where distributions install the kernel source.
const SOURCE_FOLDER: &str = "/usr/src";

/// Enabled options; all others are off.
const CONFIG: &str = include_str!("../../kernel/kernel.config");
/// Options that test suites look for.
const TESTS: &str = include_str!("../../kernel/tests.config");

named! {
    /// Optional kernel feature; it lengthens the build.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Extra {
        /// The largest of the file systems.
        Xfs => "xfs",
        /// Copy on write, checksums.
        Btrfs => "btrfs",
        /// Both, and what suites such as xfstests and blktests look for: device mapper, loop, null_blk, quotas, …
        Tests => "tests",
    }
}

impl Extra {
    /// Configuration lines of the feature.
    fn config(self) -> &'static str {
        match self {
            Self::Xfs => "CONFIG_XFS_FS=y\n",
            Self::Btrfs => "CONFIG_BTRFS_FS=y\n",
            Self::Tests => TESTS,
        }
    }
}

/// The configuration with `extras`.
fn config(extras: &[Extra]) -> String {
    // In one order, whatever the user's was.
    let wanted = Extra::ALL.iter().filter(|extra| extras.contains(extra));
    [CONFIG].into_iter().chain(wanted.map(|extra| extra.config())).collect()
}

/// Our changes to the kernel, in order.
pub const PATCHES: &[(&str, &str)] = &[
    ("0001-um-rng-seed.patch", include_str!("../../kernel/patches/0001-um-rng-seed.patch")),
    ("0002-ext4-discard-batch.patch", include_str!("../../kernel/patches/0002-ext4-discard-batch.patch")),
    ("0003-virtio-blk-copy.patch", include_str!("../../kernel/patches/0003-virtio-blk-copy.patch")),
    ("0004-f2fs-logical-copy.patch", include_str!("../../kernel/patches/0004-f2fs-logical-copy.patch")),
    ("0005-f2fs-discard-wait.patch", include_str!("../../kernel/patches/0005-f2fs-discard-wait.patch")),
    ("0006-ext4-discard-wait.patch", include_str!("../../kernel/patches/0006-ext4-discard-wait.patch")),
    ("0007-um-fp-state.patch", include_str!("../../kernel/patches/0007-um-fp-state.patch")),
    ("0008-f2fs-first-fsync.patch", include_str!("../../kernel/patches/0008-f2fs-first-fsync.patch")),
    ("0009-um-cpu-cost.patch", include_str!("../../kernel/patches/0009-um-cpu-cost.patch")),
    ("0010-block-metadata-hint.patch", include_str!("../../kernel/patches/0010-block-metadata-hint.patch")),
    ("0011-um-heap-start.patch", include_str!("../../kernel/patches/0011-um-heap-start.patch")),
    ("0012-block-write-life.patch", include_str!("../../kernel/patches/0012-block-write-life.patch")),
    ("0013-um-file-log.patch", include_str!("../../kernel/patches/0013-um-file-log.patch")),
    ("0014-um-cpu-spin.patch", include_str!("../../kernel/patches/0014-um-cpu-spin.patch")),
    (
        "0015-um-nothing-of-the-host.patch",
        include_str!("../../kernel/patches/0015-um-nothing-of-the-host.patch"),
    ),
    (
        "0016-um-4-level-page-tables.patch",
        include_str!("../../kernel/patches/0016-um-4-level-page-tables.patch"),
    ),
];

/// Folder for built kernels: `$STROBE_CACHE`, or `strobe` in the user's cache. The user's home is found without
/// `$HOME` as well.
pub fn cache_folder() -> PathBuf {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    from("STROBE_CACHE")
        .or_else(|| from("XDG_CACHE_HOME").map(|cache| cache.join("strobe")))
        .or_else(|| {
            let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
            home.map(|home| home.join(".cache/strobe"))
        })
        .unwrap_or_else(|| std::env::temp_dir().join("strobe-cache"))
}

/// The end of the file name of a kernel that this program builds with a configuration: its recipe.
fn recipe(config: &str) -> String {
    let mut hash = Sha256::new();
    for text in [config].into_iter().chain(PATCHES.iter().map(|(_, text)| *text)) {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// The kernel to use if none is named: that of `$STROBE_KERNEL`, or the newest one that this program would build, and
/// of these the one with most extras; the one for suites only if there is no other.
pub fn installed() -> Result<PathBuf, KernelError> {
    if let Some(path) = std::env::var_os("STROBE_KERNEL").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let folder = cache_folder();
    let sets = (0..1 << Extra::ALL.len()).map(|set: usize| {
        let has = |at: &usize| set >> at & 1 == 1;
        (0..Extra::ALL.len()).filter(has).map(|at| Extra::ALL[at]).collect::<Vec<_>>()
    });
    let rank = |extras: &[Extra]| (!extras.contains(&Extra::Tests), extras.len());
    let recipes: Vec<_> =
        sets.map(|extras| (format!("-{}", recipe(&config(&extras))), rank(&extras))).collect();
    let mut kernels = Vec::new();
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(version) = name.strip_prefix("linux-")
            && let Some((_, extras)) = recipes.iter().find(|(end, _)| version.ends_with(end))
        {
            kernels.push((parse_version(version), *extras, entry.path()));
        }
    }
    kernels.into_iter().max().map(|(_, _, path)| path).ok_or(KernelError::None { folder })
}

/// The numbers at the start of a version.
fn parse_version(text: &str) -> Vec<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].split('.').map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_order_as_numbers() {
        assert_eq!(parse_version("6.12.117-strobe"), [6, 12, 117]);
        assert_eq!(parse_version("6.12.tar.xz"), [6, 12]);
        assert!(parse_version("6.12") > parse_version("6.9"));
    }
}
