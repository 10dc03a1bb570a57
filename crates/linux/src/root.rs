//! Root of the guest as a cpio archive in memory: host programs with their libraries, or only the first process
//! for the host's root.
//!
//! The archive depends only on the host's installed files, not on times or the order of directories.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cpio::newc::{Builder, ModeFileType};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::LinuxError;
use crate::job::{JOB_PATH, Job};
use crate::program::find_program;

const BASE_PROGRAMS: [&str; 1] = ["sh"];

enum Entry {
    Folder,
    Link(PathBuf),
    File { content: Vec<u8>, mode: u32 },
}

/// Root under construction.
#[derive(Default)]
pub struct Root {
    base: Option<Arc<Base>>,
    entries: BTreeMap<PathBuf, Entry>,
    shows_host: bool,
}

/// Archives for the host's root, by path of the first process. All guests share them, because packing one
/// takes longer than many guests run.
static HOST_ROOTS: Mutex<BTreeMap<PathBuf, Arc<Base>>> = Mutex::new(BTreeMap::new());

impl Root {
    /// Creates the host's root, read only, below an overlay in memory. `init`, this program, is the first
    /// process; its archive is packed once and shared.
    pub fn of_host(init: &Path) -> Result<Self, LinuxError> {
        let mut packed = lock(&HOST_ROOTS);
        let base = match packed.get(init) {
            Some(base) => Arc::clone(base),
            None => {
                let mut root = Self::default();
                root.libraries_of(init)?;
                root.put("init", 0o755, loaded_part(fs::read(init)?));
                let mut bytes = Vec::new();
                pack(root.entries.iter(), 0, &mut bytes)?;
                let base = Arc::new(Base { bytes, entries: root.entries.len(), idle: Mutex::default() });
                packed.insert(init.to_owned(), Arc::clone(&base));
                base
            }
        };
        Ok(Self { base: Some(base), shows_host: true, ..Self::default() })
    }

    /// True if the root is the host's.
    pub fn shows_host(&self) -> bool {
        self.shows_host
    }

    /// Creates a root with a shell, and `init`, this program, as its first process.
    pub fn new(init: &Path) -> Result<Self, LinuxError> {
        let mut root = Self::default();
        for folder in ["dev", "proc", "sys", "tmp", "mnt", "etc"] {
            root.entries.insert(folder.into(), Entry::Folder);
        }
        root.libraries_of(init)?;
        root.put("init", 0o755, loaded_part(fs::read(init)?));
        // For programs that look up their user.
        root.put("etc/passwd", 0o644, b"root:x:0:0:root:/tmp:/bin/sh\n".to_vec());
        root.put("etc/group", 0o644, b"root:x:0:\n".to_vec());
        for program in BASE_PROGRAMS {
            root.program(program)?;
        }
        Ok(root)
    }

    fn put(&mut self, path: impl Into<PathBuf>, mode: u32, content: Vec<u8>) {
        let path = path.into();
        self.parents(&path);
        self.entries.insert(path, Entry::File { content, mode });
    }

    /// Adds a file with the content `text`.
    pub fn text(&mut self, path: &str, text: &str) {
        self.put(relative(Path::new(path)), 0o644, text.into());
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.parents(Path::new(path));
        self.entries.insert(path.into(), Entry::Link(target.into()));
    }

    fn parents(&mut self, path: &Path) {
        for parent in path.ancestors().skip(1).filter(|parent| *parent != Path::new("")) {
            self.entries.entry(parent.to_owned()).or_insert(Entry::Folder);
        }
    }

    /// Adds a program with its libraries, or a script with its interpreter and all programs it names. Returns
    /// its path in the guest.
    pub fn program(&mut self, program: &str) -> Result<PathBuf, LinuxError> {
        let path = find_program(program)?;
        if self.entries.contains_key(&relative(&path)) {
            return Ok(path);
        }
        let content = fs::read(&path)?;
        self.file(&path)?;
        if content.starts_with(b"\x7fELF") {
            self.libraries_of(&path)?;
        } else {
            let text = String::from_utf8_lossy(&content);
            let interpreter = text.lines().next().and_then(|line| line.strip_prefix("#!"));
            for word in interpreter.unwrap_or_default().split_whitespace() {
                if find_program(word).is_ok() {
                    self.program(word)?;
                }
            }
            self.programs_named_in(&text)?;
        }
        Ok(path)
    }

    /// Adds all programs whose names are words of `script`.
    pub fn programs_named_in(&mut self, script: &str) -> Result<(), LinuxError> {
        let is_separator = |c: char| c.is_whitespace() || ";|&()`\"'<>${}=".contains(c);
        for word in script.split(is_separator).filter(|word| !word.is_empty()) {
            let is_name = word.chars().all(|c| c.is_ascii_alphanumeric() || "._-+/".contains(c));
            if is_name && !word.starts_with(['-', '.']) && find_program(word).is_ok() {
                self.program(word)?;
            }
        }
        Ok(())
    }

    /// Adds a file, or a folder with its contents, at its host path.
    pub fn tree(&mut self, path: &Path) -> Result<(), LinuxError> {
        let path = std::path::absolute(path)?;
        if !fs::metadata(&path)?.is_dir() {
            return self.file(&path);
        }
        self.parents(&relative(&path).join("x"));
        let mut children = fs::read_dir(&path)?.collect::<io::Result<Vec<_>>>()?;
        children.sort_by_key(fs::DirEntry::file_name);
        children.iter().try_for_each(|child| self.tree(&child.path()))
    }

    /// Adds a file. Folders of its path that are links on the host, such as /bin, become links.
    fn file(&mut self, path: &Path) -> Result<(), LinuxError> {
        let mut real = PathBuf::new();
        let components: Vec<_> = path.components().filter(|part| *part != Component::RootDir).collect();
        let Some((name, folders)) = components.split_last() else { return Ok(()) };
        for folder in folders {
            real.push(folder);
            let on_host = Path::new("/").join(&real);
            if fs::symlink_metadata(&on_host)?.file_type().is_symlink() {
                self.parents(&real);
                self.entries.entry(real.clone()).or_insert(Entry::Link(fs::read_link(&on_host)?));
                real = relative(&fs::canonicalize(&on_host)?);
            }
        }
        let target = real.join(name);
        let mode = fs::metadata(path)?.permissions().mode() & 0o777;
        self.put(target, mode, fs::read(path)?);
        Ok(())
    }

    /// Adds the libraries that `ldd` lists.
    fn libraries_of(&mut self, program: &Path) -> Result<(), LinuxError> {
        let ldd = find_program("ldd")?;
        let output = Command::new(ldd).arg(program).env("LC_ALL", "C").stderr(Stdio::null()).output()?;
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            if let Some((name, "not found")) = line.trim().split_once(" => ") {
                return Err(LinuxError::Library { program: program.to_owned(), library: name.to_owned() });
            }
            // "name => /path (0x...)", or "/path (0x...)" for the loader.
            let path = line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
            if let Some(path) = path.filter(|path| path.exists()) {
                self.file(&path)?;
            }
        }
        Ok(())
    }

    /// Returns the archive, including the job.
    pub fn archive(&self, job: &Job) -> Result<Vec<u8>, LinuxError> {
        let mut archive = self.base.as_ref().map_or_else(Vec::new, |base| base.bytes.clone());
        archive.extend(self.tail(job)?);
        Ok(archive)
    }

    pub(crate) fn archive_file(&self, job: &Job) -> Result<ArchiveFile, LinuxError> {
        // An idle file of a shared base is reused. Only the part after the base is rewritten.
        let (tail, base) = (self.tail(job)?, self.base.clone());
        let idle = base.as_ref().and_then(|base| lock(&base.idle).pop());
        let mut file = match idle {
            Some(file) => file,
            None => {
                let file = memfd_create("strobe-root", MemfdFlags::CLOEXEC).map_err(io::Error::from)?;
                let mut file = File::from(file);
                file.write_all(base.as_ref().map_or(&[][..], |base| &base.bytes))?;
                file
            }
        };
        let start = base.as_ref().map_or(0, |base| base.bytes.len() as u64);
        // A reused file still holds the tail of an earlier guest, which may be longer.
        file.set_len(start)?;
        file.seek(SeekFrom::Start(start))?;
        file.write_all(&tail)?;
        Ok(ArchiveFile { file: Some(file), base })
    }

    fn tail(&self, job: &Job) -> Result<Vec<u8>, LinuxError> {
        let mut archive = Vec::new();
        let job = Job { shows_host: self.shows_host, ..job.clone() };
        let job = serde_json::to_vec(&job).map_err(io::Error::from)?;
        let job = Entry::File { content: job, mode: 0o644 };
        let job_path = relative(Path::new(JOB_PATH));
        let all = self.entries.iter().chain([(&job_path, &job)]);
        pack(all, self.base.as_ref().map_or(0, |base| base.entries), &mut archive)?;
        cpio::newc::trailer(&mut archive)?;
        Ok(archive)
    }
}

struct Base {
    bytes: Vec<u8>,
    entries: usize,
    idle: Mutex<Vec<File>>,
}

pub(crate) struct ArchiveFile {
    file: Option<File>,
    base: Option<Arc<Base>>,
}

impl ArchiveFile {
    pub(crate) fn path(&self) -> PathBuf {
        let fd = self.file.as_ref().map_or(-1, |file| file.as_fd().as_raw_fd());
        PathBuf::from(format!("/proc/{}/fd/{fd}", std::process::id()))
    }
}

impl Drop for ArchiveFile {
    fn drop(&mut self) {
        if let (Some(base), Some(file)) = (&self.base, self.file.take()) {
            lock(&base.idle).push(file);
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pack<'a>(
    all: impl Iterator<Item = (&'a PathBuf, &'a Entry)>,
    before: usize,
    archive: &mut Vec<u8>,
) -> io::Result<()> {
    for (number, (path, entry)) in all.enumerate() {
        let (mode, kind, content): (_, _, &[u8]) = match entry {
            Entry::Folder => (0o755, ModeFileType::Directory, &[]),
            Entry::Link(target) => (0o777, ModeFileType::Symlink, os_bytes(target.as_os_str())),
            Entry::File { content, mode } => (*mode, ModeFileType::Regular, content),
        };
        let name =
            path.to_str().ok_or_else(|| io::Error::other(format!("the name {path:?} is not UTF-8")))?;
        let number = (before + number) as u32 + 1;
        let header = Builder::new(name).ino(number).mode(mode).set_mode_file_type(kind);
        let size = u32::try_from(content.len()).map_err(io::Error::other)?;
        let mut file = header.write(&mut *archive, size);
        file.write_all(content)?;
        file.finish()?;
    }
    Ok(())
}

fn os_bytes(text: &OsStr) -> &[u8] {
    use std::os::unix::ffi::OsStrExt as _;
    text.as_bytes()
}

fn relative(path: &Path) -> PathBuf {
    path.strip_prefix("/").unwrap_or(path).to_owned()
}

/// Strips an ELF program of data that is not loaded. Debugging information is nine tenths of a development
/// build. Other files are unchanged.
fn loaded_part(mut program: Vec<u8>) -> Vec<u8> {
    match loaded_bytes(&program) {
        Some(end) if end < program.len() => {
            program.truncate(end);
            // Clears the section headers: e_shoff, then e_shnum and e_shstrndx.
            program[0x28..0x30].fill(0);
            program[0x3c..0x40].fill(0);
            program
        }
        _ => program,
    }
}

fn loaded_bytes(program: &[u8]) -> Option<usize> {
    if program.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let long = |at: usize| Some(u64::from_le_bytes(program.get(at..at.checked_add(8)?)?.try_into().ok()?));
    let short = |at: usize| Some(u16::from_le_bytes(program.get(at..at + 2)?.try_into().ok()?));
    let table = usize::try_from(long(0x20)?).ok()?;
    let (entry_bytes, entries) = (usize::from(short(0x36)?), usize::from(short(0x38)?));
    // The end of the program headers, or of the last segment: p_offset plus p_filesz.
    let mut end = table.checked_add(entry_bytes.checked_mul(entries)?)?;
    for entry in 0..entries {
        let at = table + entry * entry_bytes;
        let segment_end = long(at.checked_add(8)?)?.checked_add(long(at.checked_add(0x20)?)?)?;
        end = end.max(usize::try_from(segment_end).ok()?);
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_the_same_every_time_and_runs() {
        let root = Root::new(Path::new("/bin/sh")).unwrap();
        let job = Job::default();
        assert_eq!(
            root.archive(&job).unwrap(),
            Root::new(Path::new("/bin/sh")).unwrap().archive(&job).unwrap()
        );
        assert!(root.entries.keys().any(|path| path.ends_with("libc.so.6")));
    }

    #[test]
    fn a_root_of_the_host_is_packed_once_and_its_files_are_used_again() {
        let root = || Root::of_host(Path::new("/bin/sh")).unwrap();
        let job = |name: &str| Job { device: name.to_owned(), ..Job::default() };
        let (first, second) = (root(), root());
        assert!(Arc::ptr_eq(first.base.as_ref().unwrap(), second.base.as_ref().unwrap()));
        let read = |file: &ArchiveFile| fs::read(file.path()).unwrap();
        let long = first.archive_file(&job("a-very-long-name-of-a-device")).unwrap();
        let other = second.archive_file(&job("b")).unwrap();
        assert_ne!(long.path(), other.path(), "two guests at a time");
        assert_eq!(read(&long), first.archive(&job("a-very-long-name-of-a-device")).unwrap());
        let path = long.path();
        drop(long);
        let again = first.archive_file(&job("c")).unwrap();
        assert_eq!((again.path(), read(&again)), (path, first.archive(&job("c")).unwrap()), "and shorter");
        assert_eq!(read(&other), second.archive(&job("b")).unwrap());
    }

    #[test]
    fn programs_still_run_without_what_is_not_loaded() {
        let this = std::env::current_exe().unwrap();
        let content = fs::read(&this).unwrap();
        let short = loaded_part(content.clone());
        assert!(short.len() < content.len(), "tests are built with debugging information");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, short).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Command::new(path).arg("--list").output().unwrap().status.success());
    }

    #[test]
    fn what_is_no_program_stays_as_it_is() {
        for content in [&b""[..], b"#!/bin/sh\n", b"\x7fELF\x02\x01", &[0x7f; 100], &[0xff; 64]] {
            assert_eq!(loaded_part(content.to_vec()), content);
        }
        let mut wrong = b"\x7fELF\x02\x01".to_vec();
        wrong.resize(64, 0xff);
        assert_eq!(loaded_part(wrong.clone()), wrong);
    }

    #[test]
    fn programs_of_a_script_come_along() {
        let mut root = Root::default();
        root.programs_named_in("x=$(ls /); cat a|sort -n && rm -f b").unwrap();
        for name in ["ls", "cat", "sort", "rm"] {
            assert!(root.entries.keys().any(|path| path.ends_with(name)), "{name}");
        }
    }
}
