use std::path::{Path, PathBuf};

use crate::job::{Job, Step};
use crate::{LinuxError, Root};

use super::{FileSystem, LinuxRun};

/// Search path of programs, independent of the user's `PATH`.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const THIS_PROGRAM: &str = "/usr/local/bin/strobe";
const FIRST_PROCESS: &str = "/proc/1/exe";

/// Source of a guest's programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuestRoot {
    /// Packed root with only the files the command names, and a fixed environment.
    Packed {
        /// Additional files, folders and programs.
        with: Vec<String>,
    },
    /// Host files, read only, below an overlay in the guest's memory.
    Host {
        /// Environment of programs.
        environment: Vec<(String, String)>,
        /// Host files that a folder of the guest hides, shown at [`crate::job::shown_at`].
        shown: Vec<String>,
    },
}

impl Default for GuestRoot {
    fn default() -> Self {
        Self::Packed { with: Vec::new() }
    }
}

impl GuestRoot {
    /// Returns the host's root with the environment of this process, sorted.
    ///
    /// `PATH` is extended by the folders of mkfs programs. `OLDPWD` is the current folder.
    pub fn host() -> Self {
        let own = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let mut environment: Vec<_> =
            own.filter(|(name, _)| !matches!(&**name, "PWD" | "OLDPWD" | "PATH")).collect();
        let path = std::env::var("PATH").unwrap_or_default();
        let more = PATH.split(':').filter(|folder| !path.split(':').any(|has| has == *folder));
        let folders: Vec<_> = path.split(':').filter(|folder| !folder.is_empty()).chain(more).collect();
        environment.push(("PATH".into(), folders.join(":")));
        if let Some(here) =
            std::env::current_dir().ok().and_then(|here| here.into_os_string().into_string().ok())
        {
            environment.push(("OLDPWD".into(), here));
        }
        environment.sort();
        Self::Host { environment, shown: Vec::new() }
    }

    /// Name in results and on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Packed { .. } => "packed",
            Self::Host { .. } => "host",
        }
    }

    pub(super) fn job(&self, steps: Vec<Step>, seed: u64) -> Job {
        match self {
            Self::Packed { .. } => Job { steps, environment: environment(seed), ..Job::default() },
            Self::Host { environment, shown } => {
                let seed = ("STROBE_SEED".to_owned(), seed.to_string());
                let others = environment.iter().filter(|(name, _)| *name != seed.0).cloned();
                Job {
                    steps,
                    environment: others.chain([seed.clone()]).collect(),
                    shown: shown.clone(),
                    links: vec![(THIS_PROGRAM.to_owned(), FIRST_PROCESS.to_owned())],
                    ..Job::default()
                }
            }
        }
    }

    pub(super) fn make(
        &self,
        run: &LinuxRun,
        modules: &[PathBuf],
    ) -> Result<(Root, Vec<String>), LinuxError> {
        let Self::Packed { with } = self else {
            let root = Root::of_host(&crate::this_program())?;
            return Ok((root, found_here(&run.command)?));
        };
        let mut root = new_root()?;
        for module in modules {
            root.tree(module)?;
        }
        if run.partitions > 0 {
            root.program("addpart")?;
        }
        if run.file_system != FileSystem::None {
            root.program(&run.file_system.mkfs(0, &[])[0])?;
            if run.fsck
                && let Some(fsck) = run.file_system.fsck()
            {
                root.program(&fsck[0])?;
            }
        }
        for extra in with {
            match (extra.contains('/'), crate::find_program(extra)) {
                // A path that is not a program is a file or a folder.
                (true, Err(_)) => root.tree(Path::new(extra)).map_err(|error| named(extra, error))?,
                _ => drop(add_program(&mut root, extra)?),
            }
        }
        for step in &run.setup {
            if let Step::Run(run) = step {
                add_command(&mut root, &run.argv)?;
            }
        }
        let command = add_command(&mut root, &run.command)?;
        Ok((root, command))
    }
}

fn seen(path: PathBuf) -> Result<PathBuf, LinuxError> {
    match crate::hidden_by(&path) {
        Some(folder) => Err(LinuxError::Hidden { can_be_put: crate::can_be_shown(&path), path, folder }),
        None => Ok(path),
    }
}

/// Path of a host program found through `PATH`, for a guest with the host's root.
pub fn program_here(word: &str) -> Result<String, LinuxError> {
    match word {
        "strobe" => Ok(THIS_PROGRAM.to_owned()),
        _ => Ok(seen(crate::find_program(word)?)?.display().to_string()),
    }
}

/// Returns the absolute path of an existing file or folder if `word` contains a slash; other words are
/// unchanged.
pub fn file_here(word: &str) -> Result<String, LinuxError> {
    let mut path = std::path::absolute(word).ok().filter(|path| word.contains('/') && path.exists());
    if Path::new(word).is_relative() {
        // An absolute path may refer to the guest: /mnt/file, /dev/null.
        path = path.map(seen).transpose()?;
    }
    Ok(path.as_deref().and_then(Path::to_str).map_or_else(|| word.to_owned(), str::to_owned))
}

fn found_here(command: &[String]) -> Result<Vec<String>, LinuxError> {
    let Some((program, arguments)) = command.split_first() else { return Ok(Vec::new()) };
    let files = arguments.iter().map(|word| file_here(word));
    [program_here(program)].into_iter().chain(files).collect()
}

fn named(path: &str, error: LinuxError) -> LinuxError {
    match error {
        LinuxError::Io(error) => std::io::Error::new(error.kind(), format!("--with {path}: {error}")).into(),
        other => other,
    }
}

fn new_root() -> Result<Root, LinuxError> {
    let mut root = Root::new(&crate::this_program())?;
    root.link("usr/bin/strobe", "/init");
    Ok(root)
}

/// Environment of programs in a packed root, equal on every host.
pub fn environment(seed: u64) -> Vec<(String, String)> {
    [
        ("PATH", PATH.to_owned()),
        ("HOME", "/tmp".to_owned()),
        ("LC_ALL", "C".to_owned()),
        ("TZ", "UTC".to_owned()),
        ("STROBE_SEED", seed.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn add_program(root: &mut Root, program: &str) -> Result<String, LinuxError> {
    match program {
        "strobe" => Ok("/usr/bin/strobe".into()),
        _ => Ok(root.program(program)?.display().to_string()),
    }
}

/// Adds the program of a command, its file arguments that contain a slash, and programs named in shell scripts.
/// Returns the command in guest paths.
fn add_command(root: &mut Root, argv: &[String]) -> Result<Vec<String>, LinuxError> {
    let Some((program, arguments)) = argv.split_first() else { return Ok(Vec::new()) };
    let mut command = vec![add_program(root, program)?];
    // Programs that a shell script names must be in the root.
    let is_shell = ["sh", "dash", "bash"].iter().any(|shell| Path::new(program).ends_with(shell));
    for argument in arguments {
        let file = std::path::absolute(argument).ok().filter(|file| argument.contains('/') && file.is_file());
        match file.as_deref().and_then(Path::to_str) {
            Some(file) => {
                root.tree(Path::new(file))?;
                if is_shell {
                    root.programs_named_in(&String::from_utf8_lossy(&std::fs::read(file)?))?;
                }
                command.push(file.to_owned());
            }
            None => {
                if is_shell {
                    root.programs_named_in(argument)?;
                }
                command.push(argument.clone());
            }
        }
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_the_guest_cannot_see_is_refused_by_name() {
        let error = program_here("/proc/self/exe").expect_err("hidden").to_string();
        assert!(error.starts_with("/proc/self/exe: the guest's /proc hides"), "{error}");
        assert_eq!(file_here("/dev/null").expect("there"), "/dev/null");
        assert_eq!(file_here("no/such/file").expect("a word"), "no/such/file");
    }
}
