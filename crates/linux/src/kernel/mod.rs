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

pub use self::build::{BuildOptions, BuildProgress, Built, build, find_source, missing_tools};
pub use self::error::KernelError;
pub use self::fragment::Fragment;
pub use self::inspect::{KernelInfo, inspect, modules_of, needed_modules};

/// The version of the patches, and the oldest that is looked for.
const VERSION: (u32, u32) = (6, 12);
/// The oldest version that is built if it is named.
const VERSION_MIN: (u32, u32) = (6, 1);
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

/// A change to the kernel.
struct Patch {
    name: &'static str,
    text: &'static str,
    /// Feature that it adds, which versions before that of the patches do without; `None`: all versions need it.
    feature: Option<&'static str>,
}

impl Patch {
    /// True if a kernel that is `older` than the patches gets it.
    fn is_for(&self, older: bool) -> bool {
        self.feature.is_none() || !older
    }

    /// True if it adds the option of `line`, "CONFIG_NAME=y".
    fn adds(&self, line: &str) -> bool {
        let name = line.trim_start_matches("CONFIG_").trim_end_matches("=y");
        self.text.lines().any(|added| added.strip_prefix("+config ") == Some(name))
    }
}

macro_rules! patch {
    ($name:literal, $feature:expr) => {
        Patch {
            name: $name,
            text: include_str!(concat!("../../kernel/patches/", $name, ".patch")),
            feature: $feature,
        }
    };
}

/// Our changes to the kernel, in order.
const PATCHES: &[Patch] = &[
    patch!("0001-um-rng-seed", None),
    patch!("0002-ext4-discard-batch", Some("discards of several ranges in one command of ext4")),
    patch!("0003-virtio-blk-copy", Some("copies within the device over virtio-blk")),
    patch!("0004-f2fs-logical-copy", Some("logical copy of F2FS")),
    patch!("0005-f2fs-discard-wait", None),
    patch!("0006-ext4-discard-wait", Some("commits of ext4 that wait for their discards")),
    patch!("0007-um-fp-state", None),
    patch!("0008-f2fs-first-fsync", None),
    patch!("0009-um-cpu-cost", None),
    patch!("0010-block-metadata-hint", Some("marks of metadata writes")),
    patch!("0011-um-heap-start", None),
    patch!("0012-block-write-life", Some("write lifetimes as placement handles")),
    patch!("0013-um-file-log", Some("changes of files in `strobe crash`")),
    patch!("0014-um-cpu-spin", None),
    patch!("0015-um-nothing-of-the-host", None),
    patch!("0016-um-4-level-page-tables", Some("addresses above 511 GiB")),
    patch!("0017-um-process-cost", None),
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
    for text in [config].into_iter().chain(PATCHES.iter().map(|patch| patch.text)) {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    short(hash)
}

/// The first digits of a digest.
fn short(hash: Sha256) -> String {
    hash.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// The kernel to use if none is named: that of `$STROBE_KERNEL`, or the newest one that this program would build, and
/// of these the one with most extras and, where sources were named, the one that was built last; the one for
/// suites only if there is no other.
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
            let built = entry.metadata().and_then(|file| file.modified()).ok();
            kernels.push((parse_version(version), *extras, built, entry.path()));
        }
    }
    kernels.into_iter().max().map(|(.., path)| path).ok_or(KernelError::None { folder })
}

/// True if `version` is before that of the patches.
fn is_older(version: &str) -> bool {
    parse_version(version).as_slice() < [VERSION.0, VERSION.1].as_slice()
}

/// The numbers at the start of a version.
fn parse_version(text: &str) -> Vec<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].split('.').map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 6.1 gets what guests need, and is not asked for options of patches that it does not get.
    #[test]
    fn an_older_version_gets_the_patches_that_guests_need() {
        let of = |older| PATCHES.iter().filter(move |patch| patch.is_for(older));
        let names: Vec<_> = of(true).map(|patch| &patch.name[..4]).collect();
        assert_eq!(names, ["0001", "0005", "0007", "0008", "0009", "0011", "0014", "0015", "0017"]);
        assert_eq!(of(false).count(), PATCHES.len());
        let adds = |older, line: &str| of(older).any(|patch| patch.adds(line));
        assert!(adds(true, "CONFIG_UML_CPU_SPIN=y") && !adds(true, "CONFIG_UML_FILE_LOG=y"));
        assert!(adds(false, "CONFIG_UML_FILE_LOG=y") && !adds(false, "CONFIG_UML=y"));
    }

    #[test]
    fn versions_order_as_numbers() {
        assert_eq!(parse_version("6.12.117-strobe"), [6, 12, 117]);
        assert_eq!(parse_version("6.12.tar.xz"), [6, 12]);
        assert!(parse_version("6.12") > parse_version("6.9"));
    }
}
