//! Host files as seen by a guest: names and attributes as at the first access, contents as at each read.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use super::fuse::{About, Kind, ROOT_NODE, errno};
use crate::job::{MOUNT_POINT, shown_name};
use crate::machine::EPOCH_NS;

/// Folders that the guest replaces by its own; their host files are hidden.
const OWN_FOLDERS: [&str; 4] = ["/dev", "/proc", "/run", "/sys"];

/// Returns the guest's folder that hides the host file `path`, if any: a device or kernel folder, or
/// [`MOUNT_POINT`] of the drive.
pub fn hidden_by(path: &Path) -> Option<&'static str> {
    OWN_FOLDERS.into_iter().chain([MOUNT_POINT]).find(|folder| path.starts_with(folder))
}

/// True if the guest can be shown `path` at another place. False for `/proc`, `/sys`, and `/dev` except below
/// `/dev/shm`, and for `/run` and `/dev/shm` themselves.
pub fn can_be_shown(path: &Path) -> bool {
    match hidden_by(path) {
        Some("/dev") => path.starts_with("/dev/shm") && path != Path::new("/dev/shm"),
        Some("/run") => path != Path::new("/run"),
        Some("/proc" | "/sys") => false,
        _ => true,
    }
}

const OPEN_MAX: usize = 64;

pub(super) type Refused = i32;

struct Node {
    path: PathBuf,
    about: About,
    /// Sorted; `None` before the folder was read.
    names: Option<Vec<(OsString, u64)>>,
}

/// Host files shown to the guest. Equal values mean that the guest was shown the same data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostUse {
    /// Number of files read.
    pub files: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// SHA-256 of all names, attributes and contents shown.
    pub digest: String,
}

pub(super) struct Tree {
    top: PathBuf,
    more: Vec<PathBuf>,
    nodes: Vec<Node>,
    found: BTreeMap<(u64, OsString), Option<u64>>,
    open: Vec<(u64, File)>,
    is_read: Vec<bool>,
    shown: Sha256,
    use_: HostUse,
    /// User and group of the host process, mapped to the guest's root.
    user: (u32, u32),
}

impl Tree {
    pub(super) fn new(top: &Path, more: Vec<PathBuf>) -> io::Result<Self> {
        let user = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let mut tree = Self {
            top: top.to_owned(),
            more,
            nodes: Vec::new(),
            found: BTreeMap::new(),
            open: Vec::new(),
            is_read: Vec::new(),
            shown: Sha256::new(),
            use_: HostUse::default(),
            user,
        };
        let root = tree.about(top, &fs::metadata(top)?);
        let about = root.filter(|about| about.kind == Kind::Folder);
        let about = about.ok_or_else(|| io::Error::from(io::ErrorKind::NotADirectory))?;
        let node = tree.add(top.to_owned(), about);
        debug_assert_eq!(node, ROOT_NODE);
        Ok(tree)
    }

    pub(super) fn shown(&self) -> HostUse {
        let digest = self.shown.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        HostUse { digest, ..self.use_.clone() }
    }

    fn add(&mut self, path: PathBuf, about: About) -> u64 {
        self.nodes.push(Node { path, about, names: None });
        self.is_read.push(false);
        self.nodes.len() as u64
    }

    fn node(&self, node: u64) -> Result<&Node, Refused> {
        let at = usize::try_from(node).ok().and_then(|node| node.checked_sub(1));
        at.and_then(|at| self.nodes.get(at)).ok_or(errno::STALE)
    }

    /// Attributes shown to the guest; `None` for devices.
    fn about(&self, path: &Path, of: &Metadata) -> Option<About> {
        let kind = of.file_type();
        let kind = match () {
            () if kind.is_dir() => Kind::Folder,
            () if kind.is_file() => Kind::File,
            () if kind.is_symlink() => Kind::Link,
            () if kind.is_fifo() => Kind::Pipe,
            () if kind.is_socket() => Kind::Socket,
            () => return None,
        };
        let own = self.is_own(path);
        let changed = u64::try_from(of.mtime()).unwrap_or(0).saturating_mul(1_000_000_000);
        let changed = changed.saturating_add(u64::try_from(of.mtime_nsec()).unwrap_or(0));
        // The user of the host process is root in the guest.
        let mine = |id, own| if id == own { 0 } else { id };
        Some(About {
            kind,
            mode: if own { 0o755 } else { of.mode() & 0o7777 },
            size: match kind {
                Kind::File | Kind::Link => of.len(),
                _ => 4096,
            },
            // Hides later changes of the host: no file is newer than the guest's epoch.
            changed_ns: if kind == Kind::File { changed.min(EPOCH_NS) } else { EPOCH_NS },
            user: mine(of.uid(), self.user.0),
            group: mine(of.gid(), self.user.1),
        })
    }

    fn is_own(&self, path: &Path) -> bool {
        let Ok(below) = path.strip_prefix(&self.top) else { return false };
        OWN_FOLDERS.iter().any(|own| Path::new(own).strip_prefix("/").is_ok_and(|own| own == below))
    }

    pub(super) fn note(&mut self, what: &[&[u8]]) {
        for part in what {
            self.shown.update((part.len() as u64).to_le_bytes());
            self.shown.update(part);
        }
    }

    pub(super) fn lookup(&mut self, folder: u64, name: &[u8]) -> Result<Option<(u64, About)>, Refused> {
        let name = OsStr::from_bytes(name);
        if name.is_empty()
            || name == "."
            || name == ".."
            || name.as_bytes().iter().any(|b| b"/\0".contains(b))
        {
            return Err(errno::INVALID);
        }
        let parent = self.node(folder)?;
        if parent.about.kind != Kind::Folder {
            return Err(errno::NO_FOLDER);
        }
        let more =
            self.more.iter().enumerate().find(|(at, _)| folder == ROOT_NODE && name == &*shown_name(*at));
        let path = more.map_or_else(|| parent.path.join(name), |(_, path)| path.clone());
        // Folders that the guest replaces by its own appear empty.
        let is_own = self.is_own(&parent.path);
        // A repeated lookup returns the first result, even if the host has changed.
        let found = match self.found.get(&(folder, name.to_owned())) {
            Some(&found) => found,
            None => {
                let about = if is_own {
                    None
                } else {
                    match fs::symlink_metadata(&path) {
                        Ok(of) => self.about(&path, &of),
                        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                            return Err(errno::ACCESS);
                        }
                        Err(_) => None,
                    }
                };
                let attributes = about.map_or_else(Vec::new, |about| about.bytes(0));
                // Missing names are part of the digest.
                self.note(&[b"name", path.as_os_str().as_bytes(), &attributes]);
                let node = about.map(|about| self.add(path, about));
                self.found.insert((folder, name.to_owned()), node);
                node
            }
        };
        found.map(|node| Ok((node, self.node(node)?.about))).transpose()
    }

    pub(super) fn attributes(&self, node: u64) -> Result<About, Refused> {
        Ok(self.node(node)?.about)
    }

    pub(super) fn link(&mut self, node: u64) -> Result<Vec<u8>, Refused> {
        let path = &self.node(node)?.path;
        let target = fs::read_link(path).map_err(|_| errno::INVALID)?;
        let (path, target) =
            (path.as_os_str().as_bytes().to_owned(), target.as_os_str().as_bytes().to_owned());
        self.note(&[b"link", &path, &target]);
        Ok(target)
    }

    pub(super) fn names(&mut self, folder: u64, from: usize) -> Result<Vec<(u64, Kind, OsString)>, Refused> {
        if self.node(folder)?.names.is_none() {
            self.read_folder(folder)?;
        }
        let names = self.node(folder)?.names.as_deref().unwrap_or_default();
        let names = names.iter().skip(from);
        names.map(|(name, node)| Ok((*node, self.node(*node)?.about.kind, name.clone()))).collect()
    }

    fn read_folder(&mut self, folder: u64) -> Result<(), Refused> {
        let path = self.node(folder)?.path.clone();
        let mut all = Vec::new();
        if !self.is_own(&path) {
            let entries = fs::read_dir(&path).map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => errno::ACCESS,
                io::ErrorKind::NotADirectory => errno::NO_FOLDER,
                _ => errno::IO,
            })?;
            all.extend(entries.flatten().map(|entry| entry.file_name()));
        }
        all.sort();
        let mut names = Vec::with_capacity(all.len());
        for name in all {
            // Names that just disappeared or are inaccessible are skipped.
            if let Ok(Some((node, _))) = self.lookup(folder, name.as_bytes()) {
                self.note(&[b"entry", name.as_bytes()]);
                names.push((name, node));
            }
        }
        let at = usize::try_from(folder).unwrap_or(0).saturating_sub(1);
        if let Some(node) = self.nodes.get_mut(at) {
            node.names = Some(names);
        }
        Ok(())
    }

    pub(super) fn read(&mut self, node: u64, offset: u64, bytes: usize) -> Result<Vec<u8>, Refused> {
        let Node { path, about, .. } = self.node(node)?;
        if about.kind != Kind::File {
            return Err(errno::INVALID);
        }
        let (path, size) = (path.clone(), about.size);
        let bytes = bytes.min(usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX));
        if bytes == 0 {
            return Ok(Vec::new());
        }
        let file = self.opened(node, &path)?;
        let mut content = vec![0; bytes];
        let mut done = 0;
        while done < bytes {
            match file.read_at(&mut content[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(more) => done += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(errno::IO),
            }
        }
        // A file that has become shorter ends in zeros, because the guest knows its original size.
        self.note(&[b"read", path.as_os_str().as_bytes(), &offset.to_le_bytes(), &content]);
        self.use_.bytes += bytes as u64;
        let at = usize::try_from(node).unwrap_or(0).saturating_sub(1);
        if let Some(is_read) = self.is_read.get_mut(at)
            && !std::mem::replace(is_read, true)
        {
            self.use_.files += 1;
        }
        Ok(content)
    }

    /// Opens the file of `node`. Does not block if a pipe has replaced it.
    fn opened(&mut self, node: u64, path: &Path) -> Result<&File, Refused> {
        let file = match self.open.iter().position(|(of, _)| *of == node) {
            Some(at) => self.open.remove(at).1,
            None => {
                let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
                let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
                opened.map_err(|error| match error.kind() {
                    io::ErrorKind::PermissionDenied => errno::ACCESS,
                    io::ErrorKind::NotFound => errno::NO_ENTRY,
                    _ => errno::IO,
                })?
            }
        };
        // The list is in order of use, so the file unused for longest is closed.
        if self.open.len() == OPEN_MAX {
            self.open.remove(0);
        }
        self.open.push((node, file));
        self.open.last().map(|(_, file)| file).ok_or(errno::IO)
    }
}
