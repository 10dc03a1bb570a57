//! Destinations of results: the only code of this program that writes files.
//!
//! A regular file appears under its name only when it is complete; until then the old file stays. Symbolic
//! links are followed. Devices and pipes are written directly. "-" is standard output. An input of the run is
//! never overwritten.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempPath;

/// Error of an output that cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The output is also an input of the run.
    #[error("{option} {target}: this file is an input of the run ({input}); name another file")]
    IsInput {
        /// The option.
        option: String,
        /// Value of the option.
        target: String,
        /// The input.
        input: String,
    },
    /// Two outputs are the same file.
    #[error("{option} and {other} are the same file, {target}; name another file for one of them")]
    Twice {
        /// First option.
        option: String,
        /// Second option.
        other: String,
        /// Shared file.
        target: String,
    },
    /// The name is no writable destination.
    #[error(
        "{option} \"{target}\": {reason}; name a file in an existing folder, a device or a pipe, or \"-\" for standard output"
    )]
    NoFile {
        /// The option.
        option: String,
        /// Value of the option.
        target: String,
        /// Reason.
        reason: String,
    },
    /// Writing failed.
    #[error("{option}: cannot write to {target}: {error}")]
    Write {
        /// The option.
        option: String,
        /// Value of the option.
        target: String,
        /// Error of the operating system.
        error: io::Error,
    },
}

impl OutputError {
    /// True if the request was wrong; false if writing failed.
    pub fn is_bad_request(&self) -> bool {
        !matches!(self, OutputError::Write { .. })
    }
}

fn no_file(option: &str, target: &str, reason: &str) -> OutputError {
    let [option, target, reason] = [option, target, reason].map(str::to_owned);
    OutputError::NoFile { option, target, reason }
}

/// If true, the runtime has opened /dev/null as standard output.
static IS_STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// Records that the program started with standard output closed.
pub fn mark_stdout_closed() {
    IS_STDOUT_CLOSED.store(true, Ordering::Relaxed);
}

/// Standard output; an error if it was closed at start.
pub fn stdout() -> io::Result<io::Stdout> {
    if IS_STDOUT_CLOSED.load(Ordering::Relaxed) {
        return Err(io::Error::other("it is closed; redirect it to a file or /dev/null"));
    }
    Ok(io::stdout())
}

const LINKS_MAX: usize = 40;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Stdout,
    /// A regular file or a name that is still free; links are resolved.
    File(PathBuf),
    /// A device or pipe under the given name: only the kernel can follow some of these links.
    Stream(PathBuf),
}

/// Destination of one result, checked before the run.
#[derive(Clone, Debug)]
pub struct Output {
    option: String,
    given: String,
    target: Target,
}

impl Output {
    /// Returns the output named by `given`, the value of `option`.
    ///
    /// Fails if it is not writable or is one of `inputs`.
    pub fn new(option: &str, given: &str, inputs: &[&Path]) -> Result<Self, OutputError> {
        let output = |target| Self { option: option.to_owned(), given: given.to_owned(), target };
        let refuse = |reason: &str| no_file(option, given, reason);
        if given == "-" {
            return Ok(output(Target::Stdout));
        }
        let path = Path::new(given);
        let is_input = |input: &&&Path| OutputError::IsInput {
            option: option.to_owned(),
            target: given.to_owned(),
            input: input.display().to_string(),
        };
        let target = match fs::metadata(path) {
            Ok(there) => {
                if let Some(input) = inputs.iter().find(|input| is_file(input, &there)) {
                    return Err(is_input(&input));
                }
                if there.is_dir() {
                    return Err(refuse("that is a folder"));
                } else if is_stdout(&there) {
                    Target::Stdout
                } else if there.is_file() {
                    Target::File(fs::canonicalize(path).map_err(|error| refuse(&error.to_string()))?)
                } else {
                    Target::Stream(path.to_owned())
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let file = new_file(path).ok_or_else(|| refuse("there is no such folder"))?;
                // An input may not exist yet: the run creates a missing image.
                if let Some(input) = inputs.iter().find(|input| new_file(input).as_ref() == Some(&file)) {
                    return Err(is_input(&input));
                }
                Target::File(file)
            }
            Err(error) => return Err(refuse(&error.to_string())),
        };
        let output = output(target);
        output.try_out()?;
        Ok(output)
    }

    /// Checks before hours of work that the output can be written. Leaves no file behind.
    fn try_out(&self) -> Result<(), OutputError> {
        let tried = match &self.target {
            Target::Stdout => Ok(()),
            // A rename would replace a read-only file, so the file must be writable itself.
            Target::File(path) if path.exists() => OpenOptions::new()
                .write(true)
                .open(path)
                .and_then(|_| tempfile::tempfile_in(folder(path)).map(drop)),
            Target::File(path) => tempfile::tempfile_in(folder(path)).map(drop),
            // Opening a pipe blocks until it has a reader.
            Target::Stream(path) if is_pipe(path) => Ok(()),
            Target::Stream(path) => OpenOptions::new().write(true).open(path).map(drop),
        };
        tried.map_err(|error| no_file(&self.option, &self.given, &error.to_string()))
    }

    /// Refuses two outputs that are the same file.
    pub fn all_differ(outputs: &[&Output]) -> Result<(), OutputError> {
        for (at, output) in outputs.iter().enumerate() {
            if let Some(other) = outputs[..at].iter().find(|other| output.is_same(other)) {
                return Err(OutputError::Twice {
                    option: other.option.clone(),
                    other: output.option.clone(),
                    target: output.given.clone(),
                });
            }
        }
        Ok(())
    }

    fn is_same(&self, other: &Output) -> bool {
        // Streams are never the same file: two results may share /dev/null.
        match (&self.target, &other.target) {
            (Target::Stream(_), _) | (_, Target::Stream(_)) => false,
            (Target::File(one), Target::File(two)) => {
                one == two || fs::metadata(one).is_ok_and(|there| is_file(two, &there))
            }
            (one, two) => one == two,
        }
    }

    /// True for a regular file, which appears when complete; false for a stream.
    pub fn is_regular(&self) -> bool {
        matches!(self.target, Target::File(_))
    }

    /// Name as given by the user.
    pub fn name(&self) -> &str {
        &self.given
    }

    /// True for standard output.
    pub fn is_stdout(&self) -> bool {
        self.target == Target::Stdout
    }

    /// Opens the output. A regular file appears under its name only with [`Sink::complete`].
    pub fn open(&self) -> Result<Sink, OutputError> {
        self.try_open().map_err(|error| self.failed(error))
    }

    fn try_open(&self) -> io::Result<Sink> {
        let (file, part) = match &self.target {
            Target::Stdout => (stdout_file()?, None),
            Target::Stream(path) => (OpenOptions::new().write(true).open(path)?, None),
            Target::File(path) => {
                let (file, part) = Part::next_to(path)?;
                (file, Some((part, path.clone())))
            }
        };
        Ok(Sink { output: self.clone(), file, part })
    }

    /// Writes `text` and a newline.
    pub fn write(&self, text: &str) -> Result<(), OutputError> {
        self.write_bytes(format!("{text}\n").as_bytes())
    }

    /// Writes exactly `bytes`.
    pub fn write_bytes(&self, bytes: &[u8]) -> Result<(), OutputError> {
        let mut sink = self.open()?;
        match sink.file.write_all(bytes) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(self.failed(error)),
            Ok(()) => sink.complete(),
        }
    }

    fn failed(&self, error: io::Error) -> OutputError {
        let target = if self.is_stdout() { "standard output".to_owned() } else { self.given.clone() };
        OutputError::Write { option: self.option.clone(), target, error: explained(error) }
    }
}

/// An open output. Dropping it before it is complete leaves no file.
#[derive(Debug)]
pub struct Sink {
    output: Output,
    file: File,
    part: Option<(Part, PathBuf)>,
}

impl Sink {
    /// Returns the file to write to. The caller flushes its buffers before [`Sink::complete`].
    pub fn file(&self) -> Result<File, OutputError> {
        self.file.try_clone().map_err(|error| self.output.failed(error))
    }

    /// Syncs the file and moves it to its final path.
    pub fn complete(self) -> Result<(), OutputError> {
        let Sink { output, file, part } = self;
        let Some((part, path)) = part else { return Ok(()) };
        // Sync before the rename: after a crash, the name must not refer to incomplete data.
        let placed = file.sync_all().and_then(|()| part.placed(&file, &path));
        placed.map_err(|error| output.failed(error))
    }
}

#[derive(Debug)]
enum Part {
    /// Without a name (`O_TMPFILE`): the kernel removes it however the program ends.
    Unnamed,
    /// Under a temporary name, on file systems without `O_TMPFILE`.
    Named(TempPath),
}

impl Part {
    /// Creates the part in the folder of `path`, with the permissions of an existing file there.
    fn next_to(path: &Path) -> io::Result<(File, Self)> {
        let (file, part) = match unnamed(folder(path)) {
            Some(file) => (file, Self::Unnamed),
            None => {
                let (prefix, mut builder) = (prefix_of(path), tempfile::Builder::new());
                builder.prefix(&prefix).suffix(PART).permissions(fs::Permissions::from_mode(0o666));
                let (file, part) = builder.tempfile_in(folder(path))?.into_parts();
                (file, Self::Named(part))
            }
        };
        if let Ok(there) = fs::metadata(path) {
            file.set_permissions(there.permissions())?;
        }
        Ok((file, part))
    }

    /// An unnamed file gets a temporary name first, because a link cannot replace a file.
    fn placed(self, file: &File, path: &Path) -> io::Result<()> {
        let part = match self {
            Self::Named(part) => part,
            Self::Unnamed => {
                let (prefix, mut builder) = (prefix_of(path), tempfile::Builder::new());
                builder.prefix(&prefix).suffix(PART);
                builder.make_in(folder(path), |name| link(file, name))?.into_temp_path()
            }
        };
        part.persist(path).map_err(|error| error.error)
    }
}

const PART: &str = ".part";

fn prefix_of(path: &Path) -> String {
    format!(".{}.", path.file_name().unwrap_or_default().to_string_lossy())
}

/// `None` where the file system has no `O_TMPFILE`.
#[cfg(target_os = "linux")]
fn unnamed(folder: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)).ok().map(File::from)
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_: &Path) -> Option<File> {
    None
}

#[cfg(target_os = "linux")]
fn link(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD};
    let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
    Ok(rustix::fs::linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn link(_: &File, _: &Path) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

/// Adds a fix to errors whose system message names none.
pub fn explained(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::FileTooLarge {
        return io::Error::new(
            error.kind(),
            "the file is larger than allowed: `ulimit -f unlimited` lifts the limit",
        );
    }
    error
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Path of the file that `path` would create; links may be dangling. `None` if none can be created.
fn new_file(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(link) => path = folder(&path).join(link),
            Err(_) => {
                let name = path.file_name()?;
                // "name/" has a file name, but can only be a folder.
                let is_folder = path.as_os_str().to_string_lossy().ends_with('/');
                let folder = fs::canonicalize(folder(&path)).ok().filter(|folder| folder.is_dir())?;
                return (!is_folder).then(|| folder.join(name));
            }
        }
    }
    None
}

/// The path "-" is standard input.
fn is_file(path: &Path, there: &Metadata) -> bool {
    let other = match path.to_str() {
        Some("-") => io::stdin().as_fd().try_clone_to_owned().and_then(|file| File::from(file).metadata()),
        _ => fs::metadata(path),
    };
    other.is_ok_and(|other| there.is_file() && is_same(&other, there))
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn is_stdout(there: &Metadata) -> bool {
    stdout_file().and_then(|file| file.metadata()).is_ok_and(|stdout| is_same(&stdout, there))
}

fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo())
}

fn stdout_file() -> io::Result<File> {
    Ok(stdout()?.as_fd().try_clone_to_owned()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &Path) -> Result<Output, OutputError> {
        Output::new("--json", path.to_str().expect("a name"), &[])
    }

    #[test]
    fn a_file_appears_when_it_is_complete_and_what_was_there_stays_until_then() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        fs::write(&path, "old").expect("written");
        let sink = named(&path).expect("writable").open().expect("open");
        sink.file().expect("open").write_all(b"new").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "old");
        drop(sink);
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1, "a part is left");
        named(&path).expect("writable").write("new").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "new\n");
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1, "a part is left");
    }

    /// `mem::forget` stands for a kill.
    #[test]
    fn a_program_that_is_killed_leaves_no_part() {
        let folder = tempfile::tempdir().expect("a folder");
        if unnamed(folder.path()).is_none() {
            println!("SKIPPED: this file system has no files without a name");
            return;
        }
        let sink = named(&folder.path().join("out")).expect("writable").open().expect("open");
        sink.file().expect("open").write_all(b"new").expect("written");
        std::mem::forget(sink);
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0);
    }

    #[test]
    fn rights_of_a_file_stay_and_new_files_get_the_usual_ones() {
        let folder = tempfile::tempdir().expect("a folder");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        let (usual, new, old) = (folder.path().join("a"), folder.path().join("b"), folder.path().join("c"));
        fs::write(&usual, "").expect("written");
        fs::write(&old, "").expect("written");
        fs::set_permissions(&old, fs::Permissions::from_mode(0o640)).expect("set");
        named(&new).expect("writable").write("x").expect("written");
        named(&old).expect("writable").write("x").expect("written");
        assert_eq!((mode(&new), mode(&old)), (mode(&usual), 0o640));
    }

    #[test]
    fn links_are_followed_also_to_where_nothing_is_yet() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("there", at("one")).expect("linked");
        std::os::unix::fs::symlink("one", at("two")).expect("linked");
        for text in ["first", "second"] {
            named(&at("two")).expect("writable").write(text).expect("written");
            assert!(at("one").is_symlink() && at("two").is_symlink());
            assert_eq!(fs::read_to_string(at("there")).expect("there"), format!("{text}\n"));
        }
        std::os::unix::fs::symlink("loop", at("loop")).expect("linked");
        std::os::unix::fs::symlink("no/where", at("lost")).expect("linked");
        for name in ["loop", "lost", "", "no/where", "new/"] {
            let error = named(&at(name)).expect_err(name);
            assert!(error.is_bad_request() && error.to_string().contains("--json"), "{error}");
        }
    }

    #[test]
    fn an_input_is_never_an_output_by_whatever_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("input"), "precious").expect("written");
        fs::hard_link(at("input"), at("hard")).expect("linked");
        std::os::unix::fs::symlink("input", at("soft")).expect("linked");
        for name in ["input", "hard", "soft"] {
            let given = at(name);
            let error = Output::new("--trace", given.to_str().expect("a name"), &[&at("input")]);
            assert!(matches!(error, Err(OutputError::IsInput { .. })), "{name}: {error:?}");
        }
        let (one, two) = (named(&at("hard")).expect("fine"), named(&at("soft")).expect("fine"));
        assert!(matches!(Output::all_differ(&[&one, &two]), Err(OutputError::Twice { .. })));
        let (one, two) = (named(&at("new")).expect("fine"), named(&at("new")).expect("fine"));
        assert!(matches!(Output::all_differ(&[&one, &two]), Err(OutputError::Twice { .. })));
        let null = named(Path::new("/dev/null")).expect("fine");
        assert!(Output::all_differ(&[&null, &null.clone(), &one]).is_ok());
    }
}
