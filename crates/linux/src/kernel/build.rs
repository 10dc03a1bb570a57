//! Builds the kernel once from the distribution's source.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest as _, Sha256};

use super::{
    Extra, Fragment, KernelError, PATCHES, Patch, SOURCE_FOLDER, VERSION, VERSION_MIN, cache_folder, config,
    inspect, is_older, parse_version, recipe, short,
};
use crate::program::find_program;

pub(super) const BUILD_TOOLS: [&str; 8] = ["gcc", "make", "flex", "bison", "bc", "tar", "xz", "patch"];
const BUILD_STEPS: u64 = 600;
const TESTS_STEPS: u64 = 1000;
const LOG_LINES_SHOWN: usize = 20;

/// Options of a kernel build.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    /// Source tarball or folder. `None` selects the newest of the distribution's.
    pub source: Option<PathBuf>,
    /// Additional features.
    pub extras: Vec<Extra>,
    /// Additional options, which override Strobe's.
    pub fragments: Vec<Fragment>,
    /// Parallel compilers; 0 uses one per processor.
    pub jobs: u32,
}

/// Progress of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildProgress {
    /// Current step.
    pub step: &'static str,
    /// Files compiled.
    pub done: u64,
    /// Approximate number of files to compile.
    pub total: u64,
}

/// Returns the missing build tools.
pub fn missing_tools() -> Vec<String> {
    BUILD_TOOLS.iter().filter(|tool| find_program(tool).is_err()).map(|tool| (*tool).to_owned()).collect()
}

/// Finds the newest usable kernel source of the distribution.
pub fn find_source() -> Result<PathBuf, KernelError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(SOURCE_FOLDER).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(version) = name.strip_prefix("linux-source-")
            && version.contains(".tar")
        {
            let version = parse_version(version);
            if version.as_slice() >= [VERSION.0, VERSION.1].as_slice() {
                found.push((version, entry.path()));
            }
        }
    }
    found.into_iter().max().map(|(_, path)| path).ok_or(KernelError::NoSource)
}

/// Kernel from this or an earlier build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Path of the kernel.
    pub path: PathBuf,
    /// Missing features, because the kernel is older than the patches.
    pub lacks: Vec<&'static str>,
}

impl Built {
    fn new(path: PathBuf, version: &str) -> Self {
        let is_older = is_older(version);
        let lacks = PATCHES.iter().filter(|patch| !patch.is_for(is_older)).filter_map(|patch| patch.feature);
        Self { path, lacks: lacks.collect() }
    }
}

/// Option for versions older than the patches. Without it, the seed on the command line is ignored, and
/// `/dev/urandom` blocks for entropy that never comes.
const OLDER: &str = "CONFIG_RANDOM_TRUST_BOOTLOADER=y\n";

/// Builds the kernel unless it exists. `progress` receives the progress.
pub fn build(options: &BuildOptions, progress: &mut dyn FnMut(BuildProgress)) -> Result<Built, KernelError> {
    let missing = missing_tools();
    if !missing.is_empty() {
        return Err(KernelError::Tools(missing));
    }
    let source = match &options.source {
        Some(source) => fs::canonicalize(source).map_err(|error| KernelError::Source {
            path: source.display().to_string(),
            reason: error.to_string(),
        })?,
        None => find_source()?,
    };
    let cache = cache_folder();
    fs::create_dir_all(&cache)?;
    let added: String = options.fragments.iter().map(Fragment::config).collect();
    let wanted = config(&options.extras) + &added;
    let recipe = recipe(&wanted);
    let stamp = stamp(&source)?;
    // Kernels of the default source are shared, so their names omit the source.
    let is_default =
        find_source().and_then(|path| Ok(fs::canonicalize(path)?)).is_ok_and(|path| path == source);
    // The stamp next to a kernel identifies its source, which avoids unpacking for an existing kernel.
    if let Some(kernel) = built_from(&cache, &recipe, &stamp) {
        let name = kernel.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(Built::new(kernel, name.trim_start_matches("linux-")));
    }
    let folder = tempfile::Builder::new().prefix("build-").tempdir_in(&cache)?;
    let mut build = Build {
        tree: folder.path().join("source"),
        log_path: cache.join("build.log"),
        log: File::create(cache.join("build.log"))?,
        steps: if options.extras.contains(&Extra::Tests) { TESTS_STEPS } else { BUILD_STEPS },
        progress,
    };
    build.unpack(&source)?;
    let version = build.version(&source)?;
    let kernel = cache.join(kernel_name(&version, (!is_default).then_some(&stamp), &recipe));
    if kernel.exists() {
        fs::write(with_suffix(&kernel, STAMP), stamp)?;
        return Ok(Built::new(kernel, &version));
    }
    build.patch(&version)?;
    let older = if is_older(&version) { OLDER } else { "" };
    build.configure(&(older.to_owned() + &wanted), &options.fragments, &version)?;
    build.compile(options.jobs)?;
    // The kernel appears under its name only when it is complete.
    let part = folder.path().join("kernel");
    fs::copy(build.tree.join("linux"), &part)?;
    inspect(&part)?;
    fs::copy(build.tree.join(".config"), with_suffix(&kernel, ".config"))?;
    fs::rename(&part, &kernel)?;
    fs::write(with_suffix(&kernel, STAMP), stamp)?;
    Ok(Built::new(kernel, &version))
}

const STAMP: &str = ".source";

fn with_suffix(kernel: &Path, end: &str) -> PathBuf {
    let mut name = kernel.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn kernel_name(version: &str, stamp: Option<&str>, recipe: &str) -> String {
    match stamp {
        None => format!("linux-{version}-{recipe}"),
        Some(stamp) => format!("linux-{version}-s{}-{recipe}", short(Sha256::new().chain_update(stamp))),
    }
}

/// Fingerprint of a source from file metadata, so an archive need not be unpacked.
fn stamp(source: &Path) -> Result<String, KernelError> {
    let unusable = |error: io::Error| KernelError::Source {
        path: source.display().to_string(),
        reason: error.to_string(),
    };
    let about = if source.is_dir() {
        let mut tree = Sha256::new();
        add_folder(source, Path::new(""), &mut tree).map_err(unusable)?;
        format!("tree {:x}", tree.finalize())
    } else {
        about(&source.metadata().map_err(unusable)?)
    };
    Ok(format!("{}\n{about}\n", source.display()))
}

fn about(file: &fs::Metadata) -> String {
    let changed = file.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    format!("{} bytes, {:?}", file.len(), changed.unwrap_or_default())
}

/// Adds paths, sizes and times of files to `tree`, sorted. `.git` is skipped, because even reading commands
/// of Git change it.
fn add_folder(source: &Path, below: &Path, tree: &mut Sha256) -> io::Result<()> {
    let mut entries = fs::read_dir(source.join(below))?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries.iter().filter(|entry| entry.file_name() != ".git") {
        let (path, file) = (below.join(entry.file_name()), entry.metadata()?);
        if file.is_dir() {
            add_folder(source, &path, tree)?;
        } else {
            tree.update(format!("{path:?}: {}\n", about(&file)));
        }
    }
    Ok(())
}

fn built_from(cache: &Path, recipe: &str, stamp: &str) -> Option<PathBuf> {
    let end = format!("-{recipe}{STAMP}");
    let names = fs::read_dir(cache).ok()?.flatten().map(|entry| entry.path());
    let stamped = names.filter(|path| path.to_string_lossy().ends_with(&end));
    let same = stamped.filter(|path| fs::read_to_string(path).is_ok_and(|text| text == stamp));
    same.map(|path| path.with_extension("")).find(|kernel| kernel.is_file())
}

struct Build<'a> {
    tree: PathBuf,
    log_path: PathBuf,
    log: File,
    steps: u64,
    progress: &'a mut dyn FnMut(BuildProgress),
}

impl Build<'_> {
    fn says(&mut self, step: &'static str, done: u64) {
        (self.progress)(BuildProgress { step, done: done.min(self.steps), total: self.steps });
    }

    fn run(
        &mut self,
        step: impl fmt::Display,
        command: &mut Command,
        mut hears: impl FnMut(&mut Self, &str),
    ) -> Result<(), KernelError> {
        writeln!(self.log, "== {step}: {command:?}")?;
        // Standard error goes straight to the log. Standard output is logged line by line, and `hears` gets
        // each line.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(self.log.try_clone()?);
        let mut child = command.spawn()?;
        if let Some(output) = child.stdout.take() {
            for line in BufReader::new(output).split(b'\n') {
                let line = String::from_utf8_lossy(&line?).into_owned();
                writeln!(self.log, "{line}")?;
                hears(self, &line);
            }
        }
        if child.wait()?.success() {
            return Ok(());
        }
        let log = fs::read_to_string(&self.log_path).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        Err(KernelError::Failed {
            step: step.to_string(),
            log: self.log_path.display().to_string(),
            end: lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n"),
        })
    }

    fn unpack(&mut self, source: &Path) -> Result<(), KernelError> {
        self.says("unpacking", 0);
        fs::create_dir(&self.tree)?;
        let tree = self.tree.clone();
        if source.is_dir() {
            let from = source.join(".");
            return self.run(
                "copying the source",
                Command::new("cp").arg("-R").arg(from).arg(tree),
                |_, _| {},
            );
        }
        let mut tar = Command::new("tar");
        tar.arg("-xf").arg(source).arg("-C").arg(tree).args(["--strip-components=1", "--no-same-owner"]);
        // Most of the excluded files describe hardware that a guest does not have.
        for folder in
            ["Documentation", "drivers/gpu", "drivers/net/ethernet", "drivers/net/wireless", "sound/soc"]
        {
            tar.arg(format!("--exclude=*/{folder}/*.[chrS]*"));
        }
        self.run("unpacking the source", &mut tar, |_, _| {})
    }

    fn version(&self, source: &Path) -> Result<String, KernelError> {
        let unusable = |reason: &str| KernelError::Source {
            path: source.display().to_string(),
            reason: reason.to_owned(),
        };
        let makefile = fs::read_to_string(self.tree.join("Makefile"))
            .map_err(|_| unusable("no Makefile in its top folder: is it the Linux source?"))?;
        let value = |key: &str| {
            let line = makefile.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_prefix('='))?;
            line.trim().parse::<u32>().ok()
        };
        let (Some(version), Some(patch), Some(sub)) =
            (value("VERSION"), value("PATCHLEVEL"), value("SUBLEVEL"))
        else {
            return Err(unusable("its Makefile states no Linux version"));
        };
        let name = format!("{version}.{patch}.{sub}");
        if (version, patch) < VERSION_MIN {
            return Err(unusable(&format!(
                "it is Linux {name}; {}.{} or newer is required",
                VERSION_MIN.0, VERSION_MIN.1
            )));
        }
        Ok(name)
    }

    fn patch(&mut self, version: &str) -> Result<(), KernelError> {
        self.says("patching", 0);
        let mut names = Vec::new();
        // Every patch is tried, so the error names all that do not apply.
        for Patch { name, text, .. } in PATCHES.iter().filter(|patch| patch.is_for(is_older(version))) {
            let file = self.tree.join(name);
            fs::write(&file, text)?;
            let mut patch = Command::new("patch");
            patch.args(["-p1", "-N", "-i"]).arg(&file).current_dir(&self.tree);
            match self.run(format!("the patch {name}"), &mut patch, |_, _| {}) {
                Err(KernelError::Failed { .. }) => names.push((*name).to_owned()),
                result => result?,
            }
        }
        if names.is_empty() {
            return Ok(());
        }
        Err(KernelError::Patches {
            version: version.to_owned(),
            names,
            log: self.log_path.display().to_string(),
        })
    }

    fn make(&self) -> Command {
        let mut make = Command::new("make");
        make.current_dir(&self.tree).arg("ARCH=um").env("LC_ALL", "C");
        // A fixed time, user and host of the build fix the version string that programs see.
        make.envs([
            ("KBUILD_BUILD_TIMESTAMP", "2025-01-01"),
            ("KBUILD_BUILD_USER", "strobe"),
            ("KBUILD_BUILD_HOST", "strobe"),
        ]);
        make
    }

    fn configure(&mut self, wanted: &str, fragments: &[Fragment], version: &str) -> Result<(), KernelError> {
        self.says("configuring", 0);
        fragments.iter().try_for_each(|fragment| fragment.check_known(&self.tree))?;
        let file = self.tree.join("strobe.config");
        fs::write(&file, wanted)?;
        let mut make = self.make();
        make.env("KCONFIG_ALLCONFIG", &file).arg("allnoconfig");
        self.run("configuring the kernel", &mut make, |_, _| {})?;
        // kconfig ignores options without a message. A missing option would cause errors much later.
        let made = fs::read_to_string(self.tree.join(".config"))?;
        fragments.iter().try_for_each(|fragment| fragment.check_taken(&made))?;
        // Options that a fragment disables, or that a left-out patch adds, may be missing.
        let is_off = |line: &str| wanted.contains(&line.replace("=y", "=n"));
        let left_out: Vec<_> = PATCHES.iter().filter(|patch| !patch.is_for(is_older(version))).collect();
        let is_left_out = |line: &str| left_out.iter().any(|patch| patch.adds(line));
        let lines = wanted.lines().filter(|line| line.ends_with("=y") && !is_off(line) && !is_left_out(line));
        let mut not_taken = lines.filter(|wanted| !made.lines().any(|line| line == *wanted));
        match not_taken.next() {
            None => Ok(()),
            Some(option) => Err(KernelError::Source {
                path: self.tree.display().to_string(),
                reason: format!("this version does not accept {option}"),
            }),
        }
    }

    fn compile(&mut self, jobs: u32) -> Result<(), KernelError> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = if jobs == 0 { processors } else { jobs as usize };
        let mut compiled = 0;
        let mut make = self.make();
        make.arg(format!("-j{jobs}")).arg("linux");
        self.run("compiling the kernel", &mut make, |build, line| {
            if line.trim_start().starts_with("CC ") {
                compiled += 1;
                build.says("compiling", compiled);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_source_that_has_changed_has_a_kernel_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, cache) = (folder.path().join("source"), folder.path().join("cache"));
        [source.join("fs/ext4"), cache.clone()]
            .iter()
            .for_each(|folder| fs::create_dir_all(folder).expect("a folder"));
        let set = |name: &str, text: &str, seconds| {
            fs::write(source.join(name), text).expect("written");
            let file = File::options().write(true).open(source.join(name)).expect("opened");
            file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).expect("set");
        };
        let stamp = || stamp(&source).expect("a source");
        let name = |stamp: &str| kernel_name("6.12.1", Some(stamp), "0123abcd");
        set("Makefile", "VERSION = 6", 1);
        set("fs/ext4/super.c", "one", 1);
        let first = stamp();
        set(".git", "looked at", 5);
        assert_eq!(stamp(), first);
        fs::write(cache.join(name(&first)), "").expect("written");
        fs::write(with_suffix(&cache.join(name(&first)), STAMP), &first).expect("written");
        assert_eq!(built_from(&cache, "0123abcd", &first), Some(cache.join(name(&first))));
        for (name_of, text, seconds) in
            [("fs/ext4/super.c", "two", 2), ("fs/new.c", "", 1), ("fs/new.c", "x", 1)]
        {
            let before = stamp();
            set(name_of, text, seconds);
            assert_ne!(name(&stamp()), name(&before), "{name_of}");
            assert_eq!(built_from(&cache, "0123abcd", &stamp()), None);
        }
        assert!(name(&first).starts_with("linux-6.12.1-s") && name(&first).ends_with("-0123abcd"));
        assert_eq!(kernel_name("6.12.117", None, "da08105b"), "linux-6.12.117-da08105b");
    }
}
