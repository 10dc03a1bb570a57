//! The guest's kernel: sources, build, and selection.
//!
//! [`build`] builds it once; [`inspect`] reports the features of a kernel.

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

/// Version of the patches, and the oldest version searched for.
const VERSION: (u32, u32) = (6, 12);
/// Oldest version that can be built on request.
const VERSION_MIN: (u32, u32) = (6, 1);
const SOURCE_FOLDER: &str = "/usr/src";

const CONFIG: &str = include_str!("../../kernel/kernel.config");
const TESTS: &str = include_str!("../../kernel/tests.config");

named! {
    /// Optional kernel feature; it lengthens the build.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Extra {
        /// XFS, the largest of the file systems.
        Xfs => "xfs",
        /// Btrfs, with copy on write and checksums.
        Btrfs => "btrfs",
        /// XFS, Btrfs and the requirements of suites such as xfstests and blktests: device mapper, loop,
        /// null_blk, quotas and others.
        Tests => "tests",
    }
}

impl Extra {
    fn config(self) -> &'static str {
        match self {
            Self::Xfs => "CONFIG_XFS_FS=y\n",
            Self::Btrfs => "CONFIG_BTRFS_FS=y\n",
            Self::Tests => TESTS,
        }
    }
}

fn config(extras: &[Extra]) -> String {
    // A fixed order: the recipe must not depend on the order on the command line.
    let wanted = Extra::ALL.iter().filter(|extra| extras.contains(extra));
    [CONFIG].into_iter().chain(wanted.map(|extra| extra.config())).collect()
}

struct Patch {
    name: &'static str,
    text: &'static str,
    /// Feature added by the patch and missing in older versions; `None` if all versions need the patch.
    feature: Option<&'static str>,
}

impl Patch {
    fn is_for(&self, older: bool) -> bool {
        self.feature.is_none() || !older
    }

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

const PATCHES: &[Patch] = &[
    patch!("0001-um-rng-seed", None),
    patch!("0002-ext4-discard-batch", Some("multi-range discards of ext4")),
    patch!("0003-virtio-blk-copy", Some("Copy within the device over virtio-blk")),
    patch!("0004-f2fs-logical-copy", Some("logical copy of F2FS")),
    patch!("0005-f2fs-discard-wait", None),
    patch!("0006-ext4-discard-wait", Some("ext4 commits that wait for their discards")),
    patch!("0007-um-fp-state", None),
    patch!("0008-f2fs-first-fsync", None),
    patch!("0009-um-cpu-cost", None),
    patch!("0010-block-metadata-hint", Some("metadata hints of writes")),
    patch!("0011-um-heap-start", None),
    patch!("0012-block-write-life", Some("write lifetimes as placement handles")),
    patch!("0013-um-file-log", Some("file changes in `strobe crash`")),
    patch!("0014-um-cpu-spin", None),
    patch!("0015-um-nothing-of-the-host", None),
    patch!("0016-um-4-level-page-tables", Some("addresses above 511 GiB")),
    patch!("0017-um-process-cost", None),
    patch!("0018-um-virtual-tsc", Some("virtual time in the time stamp counter")),
    patch!("0019-um-added-syncs", Some("`strobe crash --find-sync`")),
];

/// Folder for built kernels: `$STROBE_CACHE`, or `strobe` in the user's cache. `$HOME` is not required.
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

fn recipe(config: &str) -> String {
    let mut hash = Sha256::new();
    for text in [config].into_iter().chain(PATCHES.iter().map(|patch| patch.text)) {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    short(hash)
}

fn short(hash: Sha256) -> String {
    hash.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the default kernel: `$STROBE_KERNEL`, or the newest one that this program would build.
///
/// Among equal versions, a kernel built for test suites comes last. Then the one with the most extras wins,
/// then the latest build.
pub fn installed() -> Result<PathBuf, KernelError> {
    if let Some(path) = std::env::var_os("STROBE_KERNEL").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let folder = cache_folder();
    // Each set of extras has a recipe, which is the suffix of its kernels' names.
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

fn is_older(version: &str) -> bool {
    parse_version(version).as_slice() < [VERSION.0, VERSION.1].as_slice()
}

fn parse_version(text: &str) -> Vec<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].split('.').map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
