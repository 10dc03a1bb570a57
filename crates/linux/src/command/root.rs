//! Source of a guest's programs.

use std::path::{Path, PathBuf};

use crate::job::{Job, Step};
use crate::{LinuxError, Root};

use super::{FileSystem, LinuxRun};

/// Search path of programs, independent of the user's `PATH`.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// By which name programs of a guest that shows the host find this one.
const THIS_PROGRAM: &str = "/usr/local/bin/strobe";
/// The file of a guest's first process, which is this program.
const FIRST_PROCESS: &str = "/proc/1/exe";

/// Source of a guest's programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuestRoot {
    /// From a root that has what the command names and nothing else, with an environment that is the same everywhere.
    Packed {
        /// Files, folders and programs that the guest needs beside those that the command names.
        with: Vec<String>,
    },
    /// From the host: its files, read only, below a layer in the guest's memory.
    Host {
        /// The environment of programs.
        environment: Vec<(String, String)>,
        /// Host files below folders that the guest replaces by its own, shown at
        /// [`crate::job::shown_at`].
        shown: Vec<String>,
    },
}

impl Default for GuestRoot {
    fn default() -> Self {
        Self::Packed { with: Vec::new() }
    }
}

impl GuestRoot {
    /// The host, as this process sees it: its environment, in one order, and with the folders in `PATH` where programs
    /// for the making of file systems are; `OLDPWD` is where this process is.
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

    /// Its name in results and on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Packed { .. } => "packed",
            Self::Host { .. } => "host",
        }
    }

    /// A job of `steps`.
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

    /// The root for `run`, and its command as the guest knows it.
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

/// A word of the command where the guest's files are the host's: its program wherever `PATH` has it, and what names a
/// file or folder with a slash, from where the user is.
fn on_host((at, word): (usize, &String)) -> Result<String, LinuxError> {
    let seen = |path: PathBuf| match crate::hidden_by(&path) {
        Some(folder) => Err(LinuxError::Hidden { can_be_put: crate::can_be_shown(&path), path, folder }),
        None => Ok(path),
    };
    if at == 0 {
        return Ok(match &**word {
            "strobe" => THIS_PROGRAM.to_owned(),
            _ => seen(crate::find_program(word)?)?.display().to_string(),
        });
    }
    let mut path = std::path::absolute(word).ok().filter(|path| word.contains('/') && path.exists());
    if Path::new(word).is_relative() {
        // A full path may well be one of the guest's: /mnt/file, /dev/null.
        path = path.map(seen).transpose()?;
    }
    Ok(path.as_deref().and_then(Path::to_str).map_or_else(|| word.clone(), str::to_owned))
}

/// The words of a command with its program, and what else names a file with a slash, as seen from where the user is.
pub fn found_here(words: &[String]) -> Result<Vec<String>, LinuxError> {
    words.iter().enumerate().map(on_host).collect()
}

fn named(path: &str, error: LinuxError) -> LinuxError {
    match error {
        LinuxError::Io(error) => std::io::Error::new(error.kind(), format!("--with {path}: {error}")).into(),
        other => other,
    }
}

/// A root whose first process is this program.
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

/// Adds `program`, which may be this one.
fn add_program(root: &mut Root, program: &str) -> Result<String, LinuxError> {
    match program {
        "strobe" => Ok("/usr/bin/strobe".into()),
        _ => Ok(root.program(program)?.display().to_string()),
    }
}

/// Adds what a command needs: its program; what a script given to a shell names; and files among its
/// arguments, if they are written with a slash. Returns the command as the guest knows it.
fn add_command(root: &mut Root, argv: &[String]) -> Result<Vec<String>, LinuxError> {
    let Some((program, arguments)) = argv.split_first() else { return Ok(Vec::new()) };
    let mut command = vec![add_program(root, program)?];
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
        let word = |at, text: &str| on_host((at, &text.to_owned()));
        let error = word(0, "/proc/self/exe").expect_err("hidden").to_string();
        assert!(error.starts_with("/proc/self/exe: the guest has a /proc of its own"), "{error}");
        // A full path may be the guest's own.
        assert_eq!(word(1, "/dev/null").expect("there"), "/dev/null");
        assert_eq!(word(1, "no/such/file").expect("a word"), "no/such/file");
    }
}
