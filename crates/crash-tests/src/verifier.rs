//! Verifier: a model of the allowed file contents after a power cut, derived from the writer's output.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::{BLOCK_BYTES, FILL, FOLDERS, Note, Promises, SECTOR_BYTES, VIOLATION, content, span};

/// Arguments of the verifier.
#[derive(Args, Clone, Debug)]
pub struct VerifierArgs {
    /// Seed of the writer
    #[arg(long)]
    seed: u64,
    /// Guarantees of the file system
    #[arg(long, value_enum)]
    promises: Promises,
    /// Size of the aligned pieces of a file that a write changes atomically, in bytes: a power of two, 512 to 4096
    #[arg(long)]
    piece_bytes: u32,
    /// File with the output of the writer
    #[arg(long)]
    notes: PathBuf,
}

/// Compares the files in the current folder with the writer's output. Prints each violation and returns their
/// number.
pub fn verify(args: &VerifierArgs) -> io::Result<usize> {
    let text = fs::read_to_string(&args.notes)?;
    let mut model = Model::new(args);
    // A line without an end was cut short, and its operation has not started.
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        model.take(&serde_json::from_str(line)?);
    }
    let mut violations = model.violations(Path::new("."))?;
    if let Err(error) = try_volume() {
        violations.push(format!("the volume cannot be used: {error}"));
    }
    let mut out = io::stdout().lock();
    for violation in &violations {
        writeln!(out, "{VIOLATION}{violation}")?;
    }
    out.flush()?;
    Ok(violations.len())
}

fn try_volume() -> io::Result<()> {
    let data = span(0, u32::MAX, 0, 100_000, 0);
    let mut file = File::create("probe")?;
    file.write_all(&data)?;
    file.sync_all()?;
    if fs::read("probe")? == data {
        fs::remove_file("probe")
    } else {
        Err(io::Error::other("the data read differs from the data written"))
    }
}

#[derive(Clone, Debug, Default)]
struct Held {
    /// Bytes that must be there.
    durable: u64,
    /// Bytes that may be there.
    most: u64,
    /// Allowed versions, the newest last. Blocks without an entry have version 0.
    blocks: BTreeMap<u64, Vec<u32>>,
    /// True if the file has its original name.
    is_plain: bool,
    /// True if the file must exist under one of its names.
    exists: bool,
}

impl Held {
    fn settle(&mut self) {
        self.durable = self.most;
        for versions in self.blocks.values_mut() {
            versions.drain(..versions.len() - 1);
        }
    }
}

/// Allowed state after a power cut.
///
/// A name may refer to any of its files since the last sync of its folder, or to none. A file has its content at
/// its last sync, and any data written since.
struct Model {
    seed: u64,
    promises: Promises,
    piece_bytes: u64,
    files: BTreeMap<u32, Held>,
    names: BTreeMap<String, Vec<Option<u32>>>,
}

impl Model {
    fn new(args: &VerifierArgs) -> Self {
        let (seed, promises, piece_bytes) = (args.seed, args.promises, u64::from(args.piece_bytes));
        Self { seed, promises, piece_bytes, files: BTreeMap::new(), names: BTreeMap::new() }
    }

    fn file(&mut self, id: u32) -> &mut Held {
        self.files.entry(id).or_default()
    }

    fn current(&self, path: &str) -> Option<u32> {
        self.names.get(path).and_then(|may| *may.last()?)
    }

    fn name(&mut self, path: &str, id: Option<u32>) {
        // The previous file of this name may be gone.
        if let Some(old) = self.current(path) {
            self.file(old).exists = false;
        }
        self.names.entry(path.to_owned()).or_insert_with(|| vec![None]).push(id);
    }

    fn settle_names(&mut self, wanted: impl Fn(&str, Option<u32>) -> bool) {
        for (path, may) in &mut self.names {
            let Some(&current) = may.last() else { continue };
            if wanted(path, current) {
                *may = vec![current];
                if let Some(held) = current.and_then(|id| self.files.get_mut(&id)) {
                    held.exists = true;
                }
            }
        }
    }

    fn settle_all(&mut self) {
        self.files.values_mut().for_each(Held::settle);
        self.settle_names(|_, _| true);
    }

    fn take(&mut self, note: &Note) {
        match note {
            Note::New { id, path } => {
                self.file(*id).is_plain = true;
                self.name(path, Some(*id));
            }
            Note::Extend { id, bytes } => self.file(*id).most = *bytes,
            Note::Write { id, block, blocks, version } => {
                let held = self.file(*id);
                for block in *block..block + blocks {
                    held.blocks.entry(block).or_insert_with(|| vec![0]).push(*version);
                }
            }
            Note::Synced { .. } | Note::Folder { .. } if self.promises == Promises::FatSync => {
                self.settle_all();
            }
            Note::Synced { id } => {
                let held = self.file(*id);
                held.settle();
                if held.is_plain && self.promises == Promises::Journal {
                    self.settle_names(|_, current| current == Some(*id));
                }
            }
            Note::Rename { from, to } => {
                let id = self.current(from);
                let exists = id.is_some_and(|id| self.file(id).exists);
                self.name(to, id);
                self.name(from, None);
                let is_bare = self.promises.is_fat();
                if let Some(id) = id {
                    let held = self.file(id);
                    // The file has one of both names.
                    (held.is_plain, held.exists) = (false, exists);
                    // The new FAT entry has the file's location and length only after a sync.
                    held.durable = if is_bare { 0 } else { held.durable };
                }
            }
            Note::Remove { path } => self.name(path, None),
            Note::Folder { path } => {
                self.settle_names(|name, _| Path::new(name).parent() == Some(Path::new(path)));
            }
        }
    }

    fn violations(&self, root: &Path) -> io::Result<Vec<String>> {
        let mut violations = Vec::new();
        let mut found = BTreeSet::new();
        // On FAT, a file with two entries loses its clusters to either of them during repair.
        let changing = self.names.values().filter(|may| may.len() > 1).flatten().flatten();
        let changing: BTreeSet<u32> = changing.copied().collect();
        for (path, may) in &self.names {
            let bytes = match fs::read(root.join(path)) {
                Ok(bytes) => Some(bytes),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => {
                    violations.push(format!("{path}: {error}"));
                    continue;
                }
            };
            let is_changing = may.len() > 1 || may.iter().flatten().any(|id| changing.contains(id));
            if self.promises.is_fat() && is_changing {
                continue;
            }
            let mut wrong = None;
            let mut is_right = false;
            // One matching candidate is enough.
            for candidate in may.iter().collect::<BTreeSet<_>>() {
                let fault = match (candidate, &bytes) {
                    (None, None) => None,
                    (None, Some(bytes)) => Some(format!("exists, {} bytes", bytes.len())),
                    (Some(_), None) => Some("is missing".to_owned()),
                    (Some(id), Some(bytes)) => self.fault(*id, bytes),
                };
                match (fault, candidate) {
                    (Some(fault), Some(id)) => wrong = Some(format!("{path} (file {id}) {fault}")),
                    (Some(fault), None) => wrong = wrong.or(Some(format!("{path} {fault}"))),
                    (None, id) => {
                        found.extend(*id);
                        is_right = true;
                    }
                }
            }
            violations.extend(wrong.filter(|_| !is_right));
        }
        if self.promises.is_fat() {
            return Ok(violations);
        }
        // A durable file must have been found under one of its names.
        for (id, _) in self.files.iter().filter(|(id, held)| held.exists && !found.contains(*id)) {
            let names: Vec<_> =
                self.names.iter().filter(|(_, may)| may.contains(&Some(*id))).map(|(name, _)| name).collect();
            violations.push(format!("file {id} has none of its names {names:?}"));
        }
        // Names that the writer never announced must not exist.
        for folder in FOLDERS.iter().chain([&FILL]) {
            for entry in fs::read_dir(root.join(folder))? {
                let path = format!("{folder}/{}", entry?.file_name().display());
                if !self.names.contains_key(&path) {
                    violations.push(format!("{path} was never created"));
                }
            }
        }
        Ok(violations)
    }

    /// Returns the fault of `bytes` as the content of file `id`.
    fn fault(&self, id: u32, bytes: &[u8]) -> Option<String> {
        let held = self.files.get(&id)?;
        let length = bytes.len() as u64;
        if !(held.durable..=held.most).contains(&length) {
            return Some(format!("has {length} bytes, not {} to {}", held.durable, held.most));
        }
        let sectors_per_piece = self.piece_bytes / SECTOR_BYTES as u64;
        for (piece, data) in (0..).zip(bytes.chunks(self.piece_bytes as usize)) {
            let block = piece * self.piece_bytes / BLOCK_BYTES;
            let versions = held.blocks.get(&block).map_or(&[0][..], Vec::as_slice);
            let sectors = || (piece * sectors_per_piece..).zip(data.chunks(SECTOR_BYTES));
            // A write changes a piece atomically, so all its sectors have the same version.
            let is_right = versions.iter().rev().any(|&version| {
                sectors().all(|(sector, data)| self.may_read(id, held, sector, version, data))
            });
            if !is_right {
                let heads: Vec<_> = sectors().map(|(_, data)| describe(data)).collect();
                return Some(format!(
                    "block {block} ({} bytes durable, versions {versions:?}) contains {heads:?}",
                    held.durable
                ));
            }
        }
        None
    }

    /// Data that is not durable may be zero from any byte on. Without guarantees, it may be anything.
    fn may_read(&self, id: u32, held: &Held, sector: u64, version: u32, data: &[u8]) -> bool {
        let expected = content(self.seed, id, sector, version);
        let at = sector * SECTOR_BYTES as u64;
        let must = (held.durable.saturating_sub(at) as usize).min(data.len());
        let (durable, rest) = data.split_at(must);
        let same = rest.iter().zip(&expected[must..]).take_while(|(is, should)| is == should).count();
        durable == &expected[..must] && (self.promises.is_fat() || rest[same..].iter().all(|&byte| byte == 0))
    }
}

fn describe(data: &[u8]) -> String {
    let word = |at: usize| Some(u64::from_le_bytes(data.get(at..at + 8)?.try_into().ok()?));
    match (word(0), word(8)) {
        (Some(0), Some(0)) => "zero".into(),
        (Some(name), Some(sector)) => format!("{}/{sector}v{}", name >> 32, name as u32),
        _ => format!("{} bytes", data.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 3;

    fn model(promises: Promises, notes: &[Note]) -> Model {
        let mut model =
            Model::new(&VerifierArgs { seed: SEED, promises, piece_bytes: 4096, notes: PathBuf::new() });
        notes.iter().for_each(|note| model.take(note));
        model
    }

    fn new(id: u32, path: &str) -> Note {
        Note::New { id, path: path.into() }
    }

    fn rename(from: &str, to: &str) -> Note {
        Note::Rename { from: from.into(), to: to.into() }
    }

    fn folder(path: &str) -> Note {
        Note::Folder { path: path.into() }
    }

    #[test]
    fn blocks_are_as_last_synced_or_newer_and_never_mixed() {
        let write = |version| Note::Write { id: 1, block: 0, blocks: 2, version };
        let synced = Note::Synced { id: 1 };
        let notes = [
            new(1, "d0/a"),
            Note::Extend { id: 1, bytes: 8192 },
            synced.clone(),
            write(1),
            write(2),
            synced,
            write(3),
        ];
        let model = model(Promises::Journal, &notes);
        let read =
            |first, second| [span(SEED, 1, 0, 4096, first), span(SEED, 1, 4096, 8192, second)].concat();
        for (first, second) in [(2, 2), (2, 3), (3, 2), (3, 3)] {
            assert_eq!(model.fault(1, &read(first, second)), None);
        }
        for (first, second) in [(0, 2), (1, 2), (2, 1), (4, 3)] {
            assert!(model.fault(1, &read(first, second)).is_some(), "{first} {second}");
        }
        let mut torn = read(2, 2);
        torn[..512].copy_from_slice(&span(SEED, 1, 0, 512, 3));
        assert!(model.fault(1, &torn).is_some());
        assert!(model.fault(1, &read(2, 2)[..8000]).is_some());
    }

    #[test]
    fn what_is_not_synced_may_be_missing_or_zero_but_nothing_else() {
        let notes = [
            new(1, "d0/a"),
            Note::Extend { id: 1, bytes: 1000 },
            Note::Synced { id: 1 },
            Note::Extend { id: 1, bytes: 3000 },
        ];
        let whole = span(SEED, 1, 0, 3000, 0);
        let (journal, fat) = (model(Promises::Journal, &notes), model(Promises::Fat, &notes));
        let mut zeros = whole.clone();
        zeros[1300..].fill(0);
        let mut foreign = whole.clone();
        foreign[1300] ^= 1;
        for bytes in [&whole[..], &whole[..1000], &whole[..2000], &zeros] {
            assert_eq!(journal.fault(1, bytes), None);
        }
        assert!(journal.fault(1, &foreign).is_some());
        assert_eq!(fat.fault(1, &foreign), None);
        zeros[999] = !whole[999];
        for bytes in [&whole[..999], &[&whole[..], &[1]].concat(), &zeros] {
            assert!(journal.fault(1, bytes).is_some());
            assert!(fat.fault(1, bytes).is_some());
        }
    }

    #[test]
    fn names_change_when_their_folders_are_synced() {
        let root = tempfile::tempdir().unwrap();
        for folder in FOLDERS.iter().chain([&FILL]) {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        let content = |id| span(SEED, id, 0, 5000, 0);
        let [a, b, c] = ["d0/a", "d0/b", "d1/c"].map(|path| root.path().join(path));
        let mut notes = Vec::new();
        for (id, path) in [(1, "d0/a"), (2, "d0/b")] {
            notes.extend([new(id, path), Note::Extend { id, bytes: 5000 }, Note::Synced { id }]);
        }
        let violations =
            |notes: &[Note]| model(Promises::Journal, notes).violations(root.path()).unwrap().len();
        // Both files are synced, so both have their names.
        fs::write(&a, content(1)).unwrap();
        assert_ne!(violations(&notes), 0);
        fs::write(&b, content(2)).unwrap();
        assert_eq!(violations(&notes), 0);
        // A rename onto the other file: the old or the new one is there.
        notes.push(rename("d0/a", "d0/b"));
        assert_eq!(violations(&notes), 0);
        notes.push(folder("d0"));
        assert_ne!(violations(&notes), 0);
        fs::rename(&a, &b).unwrap();
        assert_eq!(violations(&notes), 0);
        // A move to another folder: the file has exactly one of both names.
        notes.push(rename("d0/b", "d1/c"));
        assert_eq!(violations(&notes), 0);
        fs::rename(&b, &c).unwrap();
        assert_eq!(violations(&notes), 0);
        fs::remove_file(&c).unwrap();
        assert_ne!(violations(&notes), 0);
        // A removed file may be there until its folder is synced.
        notes.extend([folder("d1"), folder("d0"), Note::Remove { path: "d1/c".into() }]);
        assert_eq!(violations(&notes), 0);
        fs::write(&c, content(1)).unwrap();
        assert_eq!(violations(&notes), 0);
        notes.push(folder("d1"));
        assert_ne!(violations(&notes), 0);
        fs::remove_file(&c).unwrap();
        // An unknown file is a violation.
        fs::write(root.path().join("d2/x"), "").unwrap();
        assert_ne!(violations(&notes), 0);
    }
}
