//! The guest's kernel: building it once, and knowing what one can do.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest as _, Sha256};

use crate::root::{find_program, package_of};

/// What is switched on; everything else is off.
const CONFIG: &str = include_str!("../../../linux/kernel.config");

/// What a kernel can have besides, at the price of a longer build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// The largest of the file systems.
    Xfs,
    /// The newest way to asynchronous I/O.
    IoUring,
}

impl Extra {
    /// All there are.
    pub const ALL: [Self; 2] = [Self::Xfs, Self::IoUring];

    /// Its name for users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Xfs => "xfs",
            Self::IoUring => "io-uring",
        }
    }

    /// What it adds to the configuration.
    fn config(self) -> &'static str {
        match self {
            Self::Xfs => "CONFIG_XFS_FS=y\n",
            Self::IoUring => "CONFIG_IO_URING=y\n",
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
    ("0001-um-rng-seed.patch", include_str!("../../../linux/patches/0001-um-rng-seed.patch")),
    ("0002-ext4-discard-batch.patch", include_str!("../../../linux/patches/0002-ext4-discard-batch.patch")),
    ("0003-virtio-blk-copy.patch", include_str!("../../../linux/patches/0003-virtio-blk-copy.patch")),
    ("0004-f2fs-logical-copy.patch", include_str!("../../../linux/patches/0004-f2fs-logical-copy.patch")),
    ("0005-f2fs-discard-wait.patch", include_str!("../../../linux/patches/0005-f2fs-discard-wait.patch")),
    ("0006-ext4-discard-wait.patch", include_str!("../../../linux/patches/0006-ext4-discard-wait.patch")),
    ("0007-um-fp-state.patch", include_str!("../../../linux/patches/0007-um-fp-state.patch")),
];

/// The oldest version with shared memory in its time travel, and that of the patches.
const VERSION_MIN: (u32, u32) = (6, 12);
/// The end of the version of a kernel with our patches.
const LOCAL_VERSION: &str = "-strobe";
/// Where distributions put the kernel's source.
const SOURCE_FOLDER: &str = "/usr/src";
/// Programs that a build needs.
pub(crate) const BUILD_TOOLS: [&str; 8] = ["gcc", "make", "flex", "bison", "bc", "tar", "xz", "patch"];
/// Files that a build compiles, about: for the progress bar.
const BUILD_STEPS: u64 = 600;
const LOG_LINES_SHOWN: usize = 20;

/// What a kernel is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelInfo {
    /// Its version.
    pub version: String,
    /// Whether it can run in virtual time.
    pub time_travel: bool,
    /// Whether it has the patches of this project.
    pub is_ours: bool,
    /// What is compiled in.
    config: String,
}

impl KernelInfo {
    /// Whether the option `CONFIG_name` is built in.
    pub fn has(&self, name: &str) -> bool {
        self.config.lines().any(|line| line.strip_prefix("CONFIG_") == Some(&format!("{name}=y")))
    }

    /// Whether the file system is built in.
    pub fn has_file_system(&self, kind: &str) -> bool {
        self.has(&format!("{}_FS", kind.to_uppercase()))
    }
}

/// Why there is no kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// None was built.
    #[error(
        "there is no kernel yet: `strobe linux build-kernel` makes one, --kernel or STROBE_KERNEL names one"
    )]
    None,
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
    #[error("{path} (Linux {version}) is built without {kind}{}", xfs_hint(.kind))]
    NoFileSystem {
        /// The file.
        path: String,
        /// Its version.
        version: String,
        /// The file system.
        kind: String,
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
        /// Where.
        path: String,
        /// Why.
        reason: String,
    },
    /// A step of the build failed.
    #[error("{step} failed; the whole log is in {log}\n{end}")]
    Failed {
        /// What.
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

fn xfs_hint(kind: &str) -> &'static str {
    if kind == "xfs" { ": `strobe linux build-kernel --with xfs` makes one with it" } else { "" }
}

fn packages(tools: &[String]) -> String {
    let mut packages: Vec<_> = tools.iter().map(|tool| package_of(tool).unwrap_or(tool)).collect();
    packages.dedup();
    packages.join(" ")
}

/// What to build.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    /// A tarball or a folder; otherwise the newest of the distribution's.
    pub source: Option<PathBuf>,
    /// What it has besides.
    pub extras: Vec<Extra>,
    /// Compilers at a time; 0: one per processor.
    pub jobs: u32,
}

/// Where a build is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildProgress {
    /// What is being done.
    pub step: &'static str,
    /// Files compiled.
    pub done: u64,
    /// Files to compile, about.
    pub total: u64,
}

/// Where kernels are kept: `$STROBE_CACHE`, or `strobe` in the user's cache.
pub fn cache_folder() -> PathBuf {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    from("STROBE_CACHE")
        .or_else(|| from("XDG_CACHE_HOME").map(|cache| cache.join("strobe")))
        .or_else(|| from("HOME").map(|home| home.join(".cache/strobe")))
        .unwrap_or_else(|| std::env::temp_dir().join("strobe-cache"))
}

/// The end of the file name of a kernel that this program builds: its recipe.
fn recipe(extras: &[Extra]) -> String {
    let config = config(extras);
    let mut hash = Sha256::new();
    for text in [config.as_str()].into_iter().chain(PATCHES.iter().map(|(_, text)| *text)) {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// The kernel to use if none is named: that of `$STROBE_KERNEL`, or the newest one that this program would build, and
/// of these the one with most extras.
pub fn installed() -> Result<PathBuf, KernelError> {
    if let Some(path) = std::env::var_os("STROBE_KERNEL").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let folder = cache_folder();
    let sets = (0..1 << Extra::ALL.len()).map(|set: usize| {
        let has = |at: &usize| set >> at & 1 == 1;
        (0..Extra::ALL.len()).filter(has).map(|at| Extra::ALL[at]).collect::<Vec<_>>()
    });
    let recipes: Vec<_> = sets.map(|extras| (format!("-{}", recipe(&extras)), extras.len())).collect();
    let mut kernels = Vec::new();
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(version) = name.strip_prefix("linux-")
            && let Some((_, extras)) = recipes.iter().find(|(end, _)| version.ends_with(end))
        {
            kernels.push((parse_version(version), *extras, entry.path()));
        }
    }
    kernels.into_iter().max().map(|(_, _, path)| path).ok_or(KernelError::None)
}

/// Looks at a kernel.
pub fn inspect(path: &Path) -> Result<KernelInfo, KernelError> {
    let wrong = |reason: String| KernelError::Wrong { path: path.display().to_string(), reason };
    let ask = |question: &str| {
        let output = Command::new(path).arg(question).stdin(Stdio::null()).output();
        let output = output.map_err(|error| wrong(error.to_string()))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(wrong(format!("it does not answer {question}"))),
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

/// Where the modules of a distribution's kernel are.
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

/// The numbers at the start of a version.
fn parse_version(text: &str) -> Vec<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].split('.').map_while(|part| part.parse().ok()).collect()
}

/// The tools for a build that are missing.
pub fn missing_tools() -> Vec<String> {
    BUILD_TOOLS.iter().filter(|tool| find_program(tool).is_err()).map(|tool| (*tool).to_owned()).collect()
}

/// The newest of the distribution's kernel sources that can be used.
pub fn find_source() -> Result<PathBuf, KernelError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(SOURCE_FOLDER).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(version) = name.strip_prefix("linux-source-")
            && version.contains(".tar")
        {
            let version = parse_version(version);
            if version.as_slice() >= [VERSION_MIN.0, VERSION_MIN.1].as_slice() {
                found.push((version, entry.path()));
            }
        }
    }
    found.into_iter().max().map(|(_, path)| path).ok_or(KernelError::NoSource)
}

/// Builds the kernel, unless it is there. `progress` hears how far it is.
pub fn build(
    options: &BuildOptions,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<PathBuf, KernelError> {
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
    let recipe = recipe(&options.extras);
    let stamp = stamp(&source)?;
    if let Some(kernel) = built_from(&cache, &recipe, &stamp) {
        return Ok(kernel);
    }
    let folder = tempfile::Builder::new().prefix("build-").tempdir_in(&cache)?;
    let mut build = Build {
        tree: folder.path().join("source"),
        log_path: cache.join("build.log"),
        log: File::create(cache.join("build.log"))?,
        progress,
    };
    build.unpack(&source)?;
    let version = build.version(&source)?;
    let name = format!("linux-{version}-{recipe}");
    let kernel = cache.join(&name);
    let stamped = cache.join(format!("{name}{STAMP}"));
    if kernel.exists() {
        fs::write(stamped, stamp)?;
        return Ok(kernel);
    }
    build.patch()?;
    build.configure(&options.extras)?;
    build.compile(options.jobs)?;
    // It appears when it is complete.
    let part = folder.path().join("kernel");
    fs::copy(build.tree.join("linux"), &part)?;
    inspect(&part)?;
    fs::rename(&part, &kernel)?;
    fs::write(stamped, stamp)?;
    Ok(kernel)
}

/// The end of the name of the file beside a kernel that says what it was made from.
const STAMP: &str = ".source";

/// What tells a source from others without reading it: unpacking one takes longer than any run.
fn stamp(source: &Path) -> Result<String, KernelError> {
    let unusable = |error: io::Error| KernelError::Source {
        path: source.display().to_string(),
        reason: error.to_string(),
    };
    // Of a folder, its version tells more than the folder's own time.
    let file = if source.is_dir() { source.join("Makefile") } else { source.to_owned() };
    let about = file.metadata().map_err(unusable)?;
    let changed = about.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    Ok(format!("{}\n{} bytes, {:?}\n", source.display(), about.len(), changed.unwrap_or_default()))
}

/// The kernel of `recipe` that was made from the source with this stamp.
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
    progress: &'a mut dyn FnMut(BuildProgress),
}

impl Build<'_> {
    fn says(&mut self, step: &'static str, done: u64) {
        (self.progress)(BuildProgress { step, done: done.min(BUILD_STEPS), total: BUILD_STEPS });
    }

    /// Runs a command to its end; `hears` gets each line of its output.
    fn run(
        &mut self,
        step: impl fmt::Display,
        command: &mut Command,
        mut hears: impl FnMut(&mut Self, &str),
    ) -> Result<(), KernelError> {
        writeln!(self.log, "== {step}: {command:?}")?;
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
        // Half of the source describes hardware that a guest has not.
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
            .map_err(|_| unusable("it has no Makefile at its top: is it the source of Linux?"))?;
        let value = |key: &str| {
            let line = makefile.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_prefix('='))?;
            line.trim().parse::<u32>().ok()
        };
        let (Some(version), Some(patch), Some(sub)) =
            (value("VERSION"), value("PATCHLEVEL"), value("SUBLEVEL"))
        else {
            return Err(unusable("its Makefile does not say which version of Linux it is"));
        };
        let name = format!("{version}.{patch}.{sub}");
        if (version, patch) < VERSION_MIN {
            return Err(unusable(&format!(
                "it is Linux {name}; needed is {}.{} or newer",
                VERSION_MIN.0, VERSION_MIN.1
            )));
        }
        Ok(name)
    }

    fn patch(&mut self) -> Result<(), KernelError> {
        self.says("patching", 0);
        for (name, text) in PATCHES {
            let file = self.tree.join(name);
            fs::write(&file, text)?;
            let mut patch = Command::new("patch");
            patch.args(["-p1", "-N", "-i"]).arg(&file).current_dir(&self.tree);
            self.run(format!("the patch {name}, made for Linux 6.12,"), &mut patch, |_, _| {})?;
        }
        Ok(())
    }

    fn make(&self) -> Command {
        let mut make = Command::new("make");
        make.current_dir(&self.tree).arg("ARCH=um").env("LC_ALL", "C");
        // The version that programs in the guest see is the same on every machine.
        make.envs([
            ("KBUILD_BUILD_TIMESTAMP", "2025-01-01"),
            ("KBUILD_BUILD_USER", "strobe"),
            ("KBUILD_BUILD_HOST", "strobe"),
        ]);
        make
    }

    fn configure(&mut self, extras: &[Extra]) -> Result<(), KernelError> {
        self.says("configuring", 0);
        let file = self.tree.join("strobe.config");
        let wanted = config(extras);
        fs::write(&file, &wanted)?;
        let mut make = self.make();
        make.env("KCONFIG_ALLCONFIG", &file).arg("allnoconfig");
        self.run("configuring the kernel", &mut make, |_, _| {})?;
        // What the configuration did not take would show up much later.
        let made = fs::read_to_string(self.tree.join(".config"))?;
        match wanted
            .lines()
            .filter(|line| line.ends_with("=y"))
            .find(|wanted| !made.lines().any(|line| line == *wanted))
        {
            None => Ok(()),
            Some(option) => Err(KernelError::Source {
                path: self.tree.display().to_string(),
                reason: format!("this version does not take {option}"),
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
    use super::*;

    #[test]
    fn versions_order_as_numbers() {
        assert_eq!(parse_version("6.12.117-strobe"), [6, 12, 117]);
        assert_eq!(parse_version("6.12.tar.xz"), [6, 12]);
        assert!(parse_version("6.12") > parse_version("6.9"));
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        for path in ["/bin/true", "/bin/ls", "/etc/passwd", "/nowhere"] {
            let error = inspect(Path::new(path)).unwrap_err();
            assert!(matches!(error, KernelError::Wrong { .. }), "{path}: {error}");
        }
    }

    #[test]
    fn missing_tools_are_named_with_their_packages() {
        let error = KernelError::Tools(vec!["flex".into(), "xz".into()]);
        assert!(
            error.to_string().ends_with("flex, xz are missing: apt-get install flex xz-utils"),
            "{error}"
        );
    }
}
