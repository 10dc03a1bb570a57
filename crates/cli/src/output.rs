//! Destinations of results: the only code of this program that writes files.
//!
//! A regular file appears when it is complete, under its own name (a symbolic link is followed), and what was
//! there before stays until then. Devices and pipes are written through. "-" is standard output. A file
//! that the run reads is never written.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

/// Why an output cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// It is read by the same run.
    #[error("{option} {target}: that is an input of this run (the same file as {input}); name another file")]
    IsInput {
        /// The option.
        option: String,
        /// Its value.
        target: String,
        /// The input.
        input: String,
    },
    /// Two outputs are one file.
    #[error("{option} and {other} are the same file, {target}; name another file for one of them")]
    Twice {
        /// An option.
        option: String,
        /// The other one.
        other: String,
        /// The file.
        target: String,
    },
    /// It names no file that could be written.
    #[error(
        "{option} \"{target}\": {reason}; name a file in an existing folder, a device or a pipe, or \"-\" for standard output"
    )]
    NoFile {
        /// The option.
        option: String,
        /// Its value.
        target: String,
        /// Why not.
        reason: String,
    },
    /// Writing failed.
    #[error("{option}: cannot write to {target}: {error}")]
    Write {
        /// The option.
        option: String,
        /// Its value.
        target: String,
        /// Error of the operating system.
        error: io::Error,
    },
}

impl OutputError {
    /// True if the request was wrong, rather than its execution.
    pub fn is_bad_request(&self) -> bool {
        !matches!(self, OutputError::Write { .. })
    }
}

fn no_file(option: &str, target: &str, reason: &str) -> OutputError {
    let [option, target, reason] = [option, target, reason].map(str::to_owned);
    OutputError::NoFile { option, target, reason }
}

/// Links that are followed before a chain of them is taken to have no end.
const LINKS_MAX: usize = 40;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Stdout,
    /// A regular file, or none yet; links are resolved.
    File(PathBuf),
    /// A device or a pipe, as it was named: some are links that only the kernel can follow.
    Stream(PathBuf),
}

/// Destination of one result, checked before the work that makes it.
#[derive(Clone, Debug)]
pub struct Output {
    option: String,
    given: String,
    target: Target,
}

impl Output {
    /// The output that `given`, the value of `option`, names. It must be writable and none of `inputs`.
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
                // What the run is about to make counts as well: an image is not there yet.
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

    /// Fails now rather than after hours of work, and leaves nothing behind.
    fn try_out(&self) -> Result<(), OutputError> {
        let tried = match &self.target {
            Target::Stdout => Ok(()),
            // A file that may not be written is not to be replaced either.
            Target::File(path) if path.exists() => OpenOptions::new()
                .write(true)
                .open(path)
                .and_then(|_| tempfile::tempfile_in(folder(path)).map(drop)),
            Target::File(path) => tempfile::tempfile_in(folder(path)).map(drop),
            // Opening a pipe would wait for its reader.
            Target::Stream(path) if is_pipe(path) => Ok(()),
            Target::Stream(path) => OpenOptions::new().write(true).open(path).map(drop),
        };
        tried.map_err(|error| no_file(&self.option, &self.given, &error.to_string()))
    }

    /// Refuses two outputs that are one file.
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
        // Two results may well go to /dev/null.
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

    /// Its name, as it was given.
    pub fn name(&self) -> &str {
        &self.given
    }

    /// True if it is standard output.
    pub fn is_stdout(&self) -> bool {
        self.target == Target::Stdout
    }

    /// Opens it. Nothing is there under its name before [`Sink::complete`], unless it is a stream.
    pub fn open(&self) -> Result<Sink, OutputError> {
        self.try_open().map_err(|error| self.failed(error))
    }

    fn try_open(&self) -> io::Result<Sink> {
        let (file, part) = match &self.target {
            Target::Stdout => (stdout_file()?, None),
            Target::Stream(path) => (OpenOptions::new().write(true).open(path)?, None),
            Target::File(path) => {
                let (file, part) = part_of(path)?.into_parts();
                (file, Some((part, path.clone())))
            }
        };
        Ok(Sink { output: self.clone(), file, part })
    }

    /// Writes `text` and the end of its line.
    pub fn write(&self, text: &str) -> Result<(), OutputError> {
        self.write_bytes(format!("{text}\n").as_bytes())
    }

    /// Writes `bytes`, and nothing else.
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
        OutputError::Write { option: self.option.clone(), target, error }
    }
}

/// An open output. One that is dropped before it is complete leaves nothing.
#[derive(Debug)]
pub struct Sink {
    output: Output,
    file: File,
    /// Temporary file, and the path it is renamed to.
    part: Option<(TempPath, PathBuf)>,
}

impl Sink {
    /// File to write to. The caller flushes its buffers before [`Sink::complete`].
    pub fn file(&self) -> Result<File, OutputError> {
        self.file.try_clone().map_err(|error| self.output.failed(error))
    }

    /// Puts what was written in its place.
    pub fn complete(self) -> Result<(), OutputError> {
        let Sink { output, file, part } = self;
        let Some((part, path)) = part else { return Ok(()) };
        let placed = file.sync_all().and_then(|()| part.persist(path).map_err(|error| error.error));
        placed.map_err(|error| output.failed(error))
    }
}

/// A temporary file beside `path`, with the rights that `path` has or a new file would have.
fn part_of(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    let prefix = format!(".{}.", path.file_name().unwrap_or_default().to_string_lossy());
    builder.prefix(&prefix).suffix(".part");
    builder.permissions(fs::Permissions::from_mode(0o666));
    let part = builder.tempfile_in(folder(path))?;
    if let Ok(there) = fs::metadata(path) {
        part.as_file().set_permissions(there.permissions())?;
    }
    Ok(part)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Path at which creating `path` would make a file. Links may point to a file that does not exist yet.
fn new_file(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(link) => path = folder(&path).join(link),
            Err(_) => {
                let name = path.file_name()?;
                // "name/" has a file name too.
                let is_folder = path.as_os_str().to_string_lossy().ends_with('/');
                let folder = fs::canonicalize(folder(&path)).ok().filter(|folder| folder.is_dir())?;
                return (!is_folder).then(|| folder.join(name));
            }
        }
    }
    None
}

/// True if `there` is the regular file at `path`; "-" is standard input.
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
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
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
