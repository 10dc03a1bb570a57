//! Host files as a virtio-fs device (virtio 1.2, section 5.11).

use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use strobe_virtio::{Chain, Returned};
use vm_memory::{Bytes as _, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap, GuestMemoryRegion as _};

use super::fuse::{self, Header, IN_HEADER_BYTES, OUT_HEADER_BYTES, errno, op, u32_at, u64_at};
use super::tree::{HostUse, Refused, Tree};
use crate::job::Job;
use crate::port::Device;

pub(crate) const TAG: &str = "host";
/// Rings: one for FORGET, one for all other requests.
const RINGS: usize = 2;
const REQUEST_BYTES_MAX: usize = 1 << 16;
const RING_INDIRECT_DESC: u64 = 1 << 28;
const RING_EVENT_IDX: u64 = 1 << 29;
const VERSION_1: u64 = 1 << 32;

/// Host files below a folder, as a device of the guest.
pub struct HostFiles {
    tree: Tree,
    features: u64,
    done: Vec<(u64, Returned)>,
}

impl HostFiles {
    /// Shares the files below `top` for `job`.
    pub fn new(top: &Path, job: &Job) -> io::Result<Self> {
        let mut tree = Tree::new(top, job.shown.iter().map(Into::into).collect())?;
        // The environment comes from the host as well, so it is part of the digest.
        for (name, value) in &job.environment {
            tree.note(&[b"environment", name.as_bytes(), value.as_bytes()]);
        }
        Ok(Self { tree, features: 0, done: Vec::new() })
    }

    /// Host files shown to the guest.
    pub fn shown(&self) -> HostUse {
        self.tree.shown()
    }

    fn answer(&mut self, header: Header, body: &[u8], capacity: usize) -> Option<Result<Vec<u8>, Refused>> {
        let name = || body.strip_suffix(b"\0").ok_or(errno::INVALID);
        Some(match header.op {
            op::FORGET | op::BATCH_FORGET => return None,
            op::INIT => fuse::init(body).ok_or(errno::INVALID),
            op::LOOKUP => name().and_then(|name| {
                let found = self.tree.lookup(header.node, name)?;
                Ok(fuse::entry(found.as_ref().map(|(node, about)| (*node, about))))
            }),
            op::GETATTR => {
                self.tree.attributes(header.node).map(|about| fuse::attributes(header.node, &about))
            }
            op::READLINK => self.tree.link(header.node),
            op::READ => match (u64_at(body, 8), u32_at(body, 16)) {
                (Some(offset), Some(bytes)) => {
                    self.tree.read(header.node, offset, capacity.min(bytes as usize))
                }
                _ => Err(errno::INVALID),
            },
            op::READDIR => match (u64_at(body, 8), u32_at(body, 16)) {
                (Some(offset), Some(bytes)) => self.names(header.node, offset, capacity.min(bytes as usize)),
                _ => Err(errno::INVALID),
            },
            op::STATFS => Ok(fuse::statfs()),
            op::DESTROY => Ok(Vec::new()),
            op::SETATTR | op::WRITE | op::CREATE | op::SYMLINK..=op::LINK => Err(errno::READ_ONLY),
            // OPEN is one of these: after this answer, the guest does not send it again.
            _ => Err(errno::NO_SUCH_CALL),
        })
    }

    fn names(&mut self, folder: u64, offset: u64, capacity: usize) -> Result<Vec<u8>, Refused> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let mut answer = Vec::new();
        for (at, (node, kind, name)) in (offset + 1..).zip(self.tree.names(folder, from)?) {
            let entry = fuse::folder_entry(node, at, kind, name.as_bytes());
            if answer.len() + entry.len() > capacity {
                break;
            }
            answer.extend(entry);
        }
        Ok(answer)
    }
}

impl Device for HostFiles {
    fn rings(&self) -> usize {
        RINGS
    }

    fn offered_features(&self) -> u64 {
        RING_INDIRECT_DESC | RING_EVENT_IDX | VERSION_1
    }

    fn set_features(&mut self, features: u64) {
        self.features = features;
    }

    fn uses_event_index(&self) -> bool {
        self.features & RING_EVENT_IDX != 0
    }

    fn config_space(&self) -> Vec<u8> {
        let mut space = TAG.as_bytes().to_vec();
        space.resize(36, 0);
        space.extend((RINGS as u32 - 1).to_le_bytes());
        space
    }

    fn set_config(&mut self, _offset: u32, _bytes: &[u8]) {}

    fn take(
        &mut self,
        ring: usize,
        guest_ns: u64,
        memory: &GuestMemoryMmap,
        chain: Chain<'_>,
    ) -> Result<(), String> {
        let broken = |what: &str| format!("a request for the host's files {what}");
        let no_memory = |_| broken("uses memory that the guest does not have");
        let mut input = chain.clone().reader(memory).map_err(no_memory)?;
        if input.available_bytes() > REQUEST_BYTES_MAX {
            return Err(broken("is too long"));
        }
        let mut request = Vec::new();
        input.read_to_end(&mut request).map_err(|_| broken("cannot be read"))?;
        let header = Header::parse(&request).ok_or_else(|| broken("has no header"))?;
        let body = request.get(IN_HEADER_BYTES..).ok_or_else(|| broken("has no header"))?;
        let head = chain.head_index();
        let segments: Vec<_> = chain.writable().map(|part| (part.addr(), part.len() as usize)).collect();
        let capacity = segments.iter().fold(0_usize, |sum, (_, bytes)| sum.saturating_add(*bytes));
        // Descriptors may repeat the same memory. The check bounds the size of an answer.
        let memory_bytes = memory.iter().fold(0, |sum: u64, region| sum.saturating_add(region.len()));
        if capacity as u64 > memory_bytes {
            return Err(broken("has an answer buffer larger than the guest's memory"));
        }
        let mut written = 0;
        if let Some(answer) = self.answer(header, body, capacity.saturating_sub(OUT_HEADER_BYTES)) {
            let (error, content) = match answer {
                Ok(content) => (0, content),
                Err(error) => (error, Vec::new()),
            };
            let answer = [&fuse::out_header(header.unique, error, content.len())[..], &content].concat();
            if answer.len() > capacity {
                return Err(broken(&format!("{} has no space for its answer", header.op)));
            }
            written = scatter(memory, &segments, &answer)?;
        }
        // The answer is due at the time of the request: host files take no virtual time.
        self.done.push((guest_ns, Returned { ring, head, written }));
        Ok(())
    }

    fn next_event(&self) -> Option<u64> {
        self.done.first().map(|(at, _)| *at)
    }

    fn advance(&mut self, guest_ns: u64, _memory: Option<&GuestMemoryMmap>) -> Result<Vec<Returned>, String> {
        let due = self.done.iter().take_while(|(at, _)| *at <= guest_ns).count();
        Ok(self.done.drain(..due).map(|(_, returned)| returned).collect())
    }
}

fn scatter(
    memory: &GuestMemoryMmap,
    segments: &[(GuestAddress, usize)],
    answer: &[u8],
) -> Result<u32, String> {
    let mut rest = answer;
    for &(address, bytes) in segments {
        let (part, behind) = rest.split_at(bytes.min(rest.len()));
        memory.write_slice(part, address).map_err(|error| format!("the guest's memory: {error}"))?;
        rest = behind;
    }
    Ok(answer.len() as u32)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    const CAPACITY: usize = 4096;

    fn files(top: &Path) -> HostFiles {
        HostFiles::new(top, &Job::default()).expect("a folder")
    }

    fn ask(files: &mut HostFiles, op: u32, node: u64, body: &[u8]) -> Result<Vec<u8>, Refused> {
        files.answer(Header { op, unique: 7, node }, body, CAPACITY).expect("has an answer")
    }

    fn node_of(files: &mut HostFiles, folder: u64, name: &str) -> u64 {
        let found = ask(files, op::LOOKUP, folder, format!("{name}\0").as_bytes()).expect("answered");
        u64_at(&found, 0).expect("a node")
    }

    fn part(offset: u64, bytes: u32) -> Vec<u8> {
        [&[0; 8][..], &offset.to_le_bytes(), &bytes.to_le_bytes(), &[0; 20]].concat()
    }

    fn sample() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("b")).expect("a folder");
        fs::write(folder.path().join("b/file"), (0..=255).collect::<Vec<u8>>().repeat(40)).expect("written");
        std::os::unix::fs::symlink("b/file", folder.path().join("a")).expect("a link");
        fs::create_dir(folder.path().join("proc")).expect("a folder");
        fs::write(folder.path().join("proc/hidden"), "").expect("written");
        folder
    }

    #[test]
    fn names_links_and_contents_are_those_of_the_host() {
        let folder = sample();
        let mut files = files(folder.path());
        let b = node_of(&mut files, fuse::ROOT_NODE, "b");
        let file = node_of(&mut files, b, "file");
        assert_eq!(node_of(&mut files, b, "file"), file, "the same name is the same file");
        assert_eq!(node_of(&mut files, b, "none"), 0);
        let about = ask(&mut files, op::GETATTR, file, &[0; 16]).expect("attributes");
        assert_eq!((u64_at(&about, 16), u64_at(&about, 24)), (Some(file), Some(256 * 40)));
        let content = fs::read(folder.path().join("b/file")).expect("read");
        for (offset, bytes) in [(0_usize, 100_u32), (10_000, 4096), (10_239, 1), (10_240, 5), (7, 4000)] {
            let read = ask(&mut files, op::READ, file, &part(offset as u64, bytes)).expect("read");
            let end = content.len().min(offset + bytes as usize);
            assert_eq!(read, &content[offset..end], "{offset} {bytes}");
        }
        let a = node_of(&mut files, fuse::ROOT_NODE, "a");
        assert_eq!(ask(&mut files, op::READLINK, a, &[]), Ok(b"b/file".to_vec()));
        assert_eq!(ask(&mut files, op::READ, a, &part(0, 1)), Err(errno::INVALID));
        let proc = node_of(&mut files, fuse::ROOT_NODE, "proc");
        assert_ne!(proc, 0);
        assert_eq!(node_of(&mut files, proc, "hidden"), 0);
        assert_eq!(ask(&mut files, op::READDIR, proc, &part(0, 4096)), Ok(Vec::new()));
        assert_eq!(files.shown().files, 1);
    }

    #[test]
    fn a_hidden_folder_is_shown_at_another_place_if_asked_for() {
        let folder = sample();
        let hidden = folder.path().join("b").to_str().expect("UTF-8").to_owned();
        let job = Job { shown: vec![hidden], ..Job::default() };
        let mut files = HostFiles::new(folder.path(), &job).expect("a folder");
        let listed = ask(&mut files, op::READDIR, fuse::ROOT_NODE, &part(0, 4096)).expect("read");
        assert!(!listed.windows(7).any(|bytes| bytes == b".strobe"), "in no listing");
        let shown = node_of(&mut files, fuse::ROOT_NODE, &crate::job::shown_at(0)[1..]);
        let file = node_of(&mut files, shown, "file");
        assert_eq!(ask(&mut files, op::READ, file, &part(1, 2)), Ok(vec![1, 2]));
        assert_eq!(node_of(&mut files, fuse::ROOT_NODE, &crate::job::shown_at(1)[1..]), 0, "and no other");
        assert_eq!(node_of(&mut files, shown, &crate::job::shown_at(0)[1..]), 0, "nor elsewhere");
    }

    #[test]
    fn folders_are_sorted_and_come_in_parts() {
        let folder = tempfile::tempdir().expect("a folder");
        for at in [5, 3, 9, 1, 7] {
            fs::write(folder.path().join(format!("name-{at}")), "").expect("written");
        }
        let mut files = files(folder.path());
        let (mut names, mut offset) = (Vec::new(), 0);
        loop {
            let entries = ask(&mut files, op::READDIR, fuse::ROOT_NODE, &part(offset, 70)).expect("read");
            if entries.is_empty() {
                break;
            }
            assert!(entries.len() <= 70 && entries.len().is_multiple_of(32));
            for entry in entries.chunks(32) {
                offset = u64_at(entry, 8).expect("the next");
                names.push(String::from_utf8_lossy(&entry[24..30]).into_owned());
            }
        }
        assert_eq!(names, [1, 3, 5, 7, 9].map(|at| format!("name-{at}")));
    }

    #[test]
    fn a_digest_says_whether_the_guest_was_shown_the_same() {
        let folder = sample();
        let digest = || {
            let mut files = files(folder.path());
            let b = node_of(&mut files, fuse::ROOT_NODE, "b");
            let file = node_of(&mut files, b, "file");
            ask(&mut files, op::READ, file, &part(0, 100)).expect("read");
            files.shown().digest
        };
        let first = digest();
        fs::write(folder.path().join("b/more"), "x").expect("written");
        assert_eq!(digest(), first);
        fs::write(folder.path().join("b/file"), vec![1; 256 * 40]).expect("written");
        assert_ne!(digest(), first);
    }

    #[test]
    fn what_is_seen_once_stays_and_what_is_gone_is_an_error() {
        let folder = sample();
        let mut files = files(folder.path());
        let b = node_of(&mut files, fuse::ROOT_NODE, "b");
        let file = node_of(&mut files, b, "file");
        fs::write(folder.path().join("b/file"), "short").expect("written");
        let read = ask(&mut files, op::READ, file, &part(0, 8)).expect("read");
        assert_eq!(read, b"short\0\0\0", "of the size that was seen");
        fs::write(folder.path().join("b/late"), "x").expect("written");
        assert_ne!(node_of(&mut files, b, "late"), 0, "it was not looked for before");
        let more = tempfile::tempdir_in(folder.path()).expect("a folder");
        let name = more.path().file_name().expect("a name").to_str().expect("UTF-8").to_owned();
        let node = node_of(&mut files, fuse::ROOT_NODE, &name);
        drop(more);
        assert_eq!(ask(&mut files, op::READDIR, node, &part(0, 4096)), Err(errno::IO));
        assert_eq!(node_of(&mut files, fuse::ROOT_NODE, &name), node);
    }

    #[test]
    fn there_is_no_request_that_changes_anything() {
        let folder = sample();
        let mut files = files(folder.path());
        let file = node_of(&mut files, fuse::ROOT_NODE, "a");
        for op in (4..=16).filter(|&op| op != op::READLINK && op != op::READ && op != 14).chain([35]) {
            let refused = ask(&mut files, op, file, &[0; 200]).expect_err("refused");
            assert!([errno::READ_ONLY, errno::NO_SUCH_CALL].contains(&refused), "{op}");
        }
    }

    proptest! {
        #[test]
        fn no_request_panics(
            op in 0_u32..60, node in prop_oneof![3 => 0..6_u64, 1 => any::<u64>()],
            body in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..80),
                Just(b"b\0".to_vec()), Just(b"../b\0".to_vec()), Just(b"..\0".to_vec()), Just(b"a\0".to_vec()),
                (any::<u64>(), any::<u32>()).prop_map(|(offset, bytes)| part(offset, bytes)),
            ],
            capacity in 0..CAPACITY,
        ) {
            let folder = sample();
            let mut files = files(folder.path());
            node_of(&mut files, fuse::ROOT_NODE, "a");
            let b = node_of(&mut files, fuse::ROOT_NODE, "b");
            node_of(&mut files, b, "file");
            if let Some(Ok(answer)) = files.answer(Header { op, unique: 1, node }, &body, capacity)
                && [op::READ, op::READDIR].contains(&op)
            {
                prop_assert!(answer.len() <= capacity);
            }
        }
    }
}
