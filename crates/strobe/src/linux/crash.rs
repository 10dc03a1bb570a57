//! Crash tests of real file systems: power fails while a guest works on files, and what it was told to be durable
//! must be there afterwards.
//!
//! A *writer* in the guest says on its standard output what it is about to do, and, once fsync(2) has returned, what
//! is durable. Each line is heard before any request that the guest sends after it; so, when power fails, all that
//! was heard to be durable must be found again, and nothing may be found that was not announced. A *verifier* in the
//! next guest holds the files against these lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use strobe_linux::job::{DEVICE, Job, Run, Step};
use strobe_linux::{End, LinuxError, Machine, Outcome, PoweredDrive, Root, Stream};
use strobe_ssd::{Engine, HostQueue, Pacing};
use strobe_types::{Lba, Op, Prng, Request, SimTime};

use super::{DRIVE_SETS, FileSystem, environment};
use crate::runner::RunError;
use crate::{ConfigError, Experiment};

const SECTOR_BYTES: usize = 512;
const BLOCK_BYTES: u64 = 4096;
/// Files that fill the volume: so many blocks each.
const FILL_BLOCKS: u32 = 256;
/// Where they are.
const FILL: &str = "fill";
/// Where all other files are.
const FOLDERS: [&str; 3] = ["d0", "d1", "d2"];
/// Where the verifier finds what the writer has said.
const NOTES_PATH: &str = "/notes";
/// What the verifier says before each violation.
const VIOLATION: &str = "violation: ";

/// What a file system promises, beyond what fsync(2) on a file and then on its folder does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Promises {
    /// Names change all or nothing; a new file that is synced has its name; no foreign data shows up. So do ext4 and
    /// F2FS.
    Journal,
    /// None: names that are being changed may be found anyhow, as may bytes that are not synced.
    Fat,
    /// As [`Promises::Fat`], but each write is durable when it returns, with all that was done before.
    FatSync,
}

impl Promises {
    fn is_fat(self) -> bool {
        self != Promises::Journal
    }

    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// What the writer says: what it is about to do, and what is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Note {
    /// Creates file `id`, empty.
    New { id: u32, path: String },
    /// Appends to it, up to `bytes`.
    Extend { id: u32, bytes: u64 },
    /// Overwrites blocks of it.
    Write { id: u32, block: u64, blocks: u64, version: u32 },
    /// All of the file is durable.
    Synced { id: u32 },
    /// Renames a file; one that has the new name goes.
    Rename { from: String, to: String },
    /// Removes a file.
    Remove { path: String },
    /// All names in a folder are durable.
    Folder { path: String },
}

/// One round of a mixing function (splitmix64).
fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What sector `sector` of file `id` holds at `version`: it says so in its first bytes, and is never zero.
fn content(seed: u64, id: u32, sector: u64, version: u32) -> [u8; SECTOR_BYTES] {
    let name = u64::from(id) << 32 | u64::from(version);
    let mut state = mix(mix(mix(seed) ^ name) ^ sector);
    let mut bytes = [0; SECTOR_BYTES];
    for (at, word) in bytes.chunks_exact_mut(8).enumerate() {
        state = mix(state);
        let value = match at {
            0 => name,
            1 => sector,
            _ => state | 1,
        };
        word.copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

/// The bytes from `from` up to `upto` of a file.
fn span(seed: u64, id: u32, from: u64, upto: u64, version: u32) -> Vec<u8> {
    let sector_bytes = SECTOR_BYTES as u64;
    let first = from / sector_bytes;
    let sectors = first..upto.div_ceil(sector_bytes);
    let mut bytes: Vec<u8> = sectors.flat_map(|sector| content(seed, id, sector, version)).collect();
    bytes.truncate((upto - first * sector_bytes) as usize);
    bytes.drain(..(from - first * sector_bytes) as usize);
    bytes
}

/// Arguments of the writer.
#[derive(Args, Clone, Debug)]
pub struct WriterArgs {
    /// Seed of what it does and writes
    #[arg(long)]
    seed: u64,
    /// What the file system promises
    #[arg(long, value_enum)]
    promises: Promises,
    /// Files of 1 MiB that fill the volume
    #[arg(long)]
    fill: u32,
    /// Only make these files, and age them
    #[arg(long)]
    prepare: bool,
    /// Steps of work, otherwise
    #[arg(long, default_value_t = 0)]
    steps: u32,
    /// KiB of files beside those that fill the volume
    #[arg(long, default_value_t = 2048)]
    spare_kib: u64,
}

/// The writer: works on files in the current folder and says what is durable.
pub fn write(args: &WriterArgs) -> io::Result<()> {
    let phase = if args.prepare { "prepare" } else { "work" };
    let mut writer = Writer {
        args: args.clone(),
        rng: Prng::derive(args.seed, phase),
        files: Vec::new(),
        // Those that fill the volume come first.
        next_id: args.fill + 1,
        version: if args.prepare { 0 } else { 1 << 20 },
    };
    match args.prepare {
        true => writer.prepare(),
        false => (0..args.steps).try_for_each(|_| writer.work()),
    }
}

/// A file of the writer's.
#[derive(Clone, Debug)]
struct Made {
    id: u32,
    folder: &'static str,
    path: String,
    bytes: u64,
}

struct Writer {
    args: WriterArgs,
    rng: Prng,
    files: Vec<Made>,
    next_id: u32,
    version: u32,
}

impl Writer {
    fn say(&self, note: &Note) -> io::Result<()> {
        let mut line = serde_json::to_vec(note)?;
        line.push(b'\n');
        let mut out = io::stdout().lock();
        out.write_all(&line)?;
        out.flush()
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.below(100) < percent
    }

    fn sync(&self, id: u32, file: &File) -> io::Result<()> {
        file.sync_all()?;
        self.say(&Note::Synced { id })
    }

    fn sync_folder(&self, path: &str) -> io::Result<()> {
        File::open(path)?.sync_all()?;
        self.say(&Note::Folder { path: path.to_owned() })
    }

    /// Syncs a folder, sometimes. On FAT always: clusters that become free before the names are durable may be
    /// another file's by then.
    fn maybe_sync_folder(&mut self, path: &str, percent: u32) -> io::Result<()> {
        match self.args.promises.is_fat() || self.chance(percent) {
            true => self.sync_folder(path),
            false => Ok(()),
        }
    }

    fn prepare(&mut self) -> io::Result<()> {
        for folder in FOLDERS.iter().chain([&FILL]) {
            fs::create_dir(folder)?;
        }
        self.sync_folder(".")?;
        for id in 1..=self.args.fill {
            let made = self.create(id, FILL, format!("{FILL}/{id}"))?;
            let file = self.extend(&made, u64::from(FILL_BLOCKS) * BLOCK_BYTES)?;
            self.sync(id, &file)?;
        }
        self.sync_folder(FILL)?;
        // Old and new lie mixed on a volume that is in use.
        for _ in 0..self.args.fill * 8 {
            self.overwrite(8, 0)?;
        }
        (1..=self.args.fill).try_for_each(|id| {
            let file = File::open(format!("{FILL}/{id}"))?;
            self.sync(id, &file)
        })
    }

    fn create(&self, id: u32, folder: &'static str, path: String) -> io::Result<Made> {
        self.say(&Note::New { id, path: path.clone() })?;
        File::create_new(&path)?;
        Ok(Made { id, folder, path, bytes: 0 })
    }

    /// A new file with some content; not synced.
    fn create_any(&mut self, bytes_max: u32) -> io::Result<(Made, File)> {
        let id = self.next_id;
        self.next_id += 1;
        let folder = self.any_folder();
        let mut made = self.create(id, folder, format!("{folder}/f{id}"))?;
        let bytes = u64::from(1 + self.rng.below(bytes_max));
        let file = self.extend(&made, bytes)?;
        made.bytes = bytes;
        Ok((made, file))
    }

    fn any_folder(&mut self) -> &'static str {
        FOLDERS[self.rng.below(FOLDERS.len() as u32) as usize]
    }

    /// Appends up to `bytes`.
    fn extend(&self, made: &Made, bytes: u64) -> io::Result<File> {
        let id = made.id;
        self.say(&Note::Extend { id, bytes })?;
        let mut file = OpenOptions::new().append(true).open(&made.path)?;
        file.write_all(&span(self.args.seed, id, made.bytes, bytes, 0))?;
        self.written(id)?;
        Ok(file)
    }

    /// A write has returned.
    fn written(&self, id: u32) -> io::Result<()> {
        match self.args.promises {
            Promises::FatSync => self.say(&Note::Synced { id }),
            Promises::Journal | Promises::Fat => Ok(()),
        }
    }

    /// Overwrites up to `runs` runs of blocks of a file that fills the volume.
    fn overwrite(&mut self, runs: u32, sync_percent: u32) -> io::Result<()> {
        let id = 1 + self.rng.below(self.args.fill);
        let file = OpenOptions::new().write(true).open(format!("{FILL}/{id}"))?;
        for _ in 0..=self.rng.below(runs) {
            let blocks = u64::from(1 + self.rng.below(4));
            let block = u64::from(self.rng.below(FILL_BLOCKS - 3));
            self.version += 1;
            let version = self.version;
            self.say(&Note::Write { id, block, blocks, version })?;
            let (from, upto) = (block * BLOCK_BYTES, (block + blocks) * BLOCK_BYTES);
            file.write_all_at(&span(self.args.seed, id, from, upto, version), from)?;
            self.written(id)?;
        }
        match self.chance(sync_percent) {
            true => self.sync(id, &file),
            false => Ok(()),
        }
    }

    /// One step of work.
    fn work(&mut self) -> io::Result<()> {
        let used: u64 = self.files.iter().map(|made| made.bytes).sum();
        if used > self.args.spare_kib * 1024 {
            return self.remove();
        }
        match self.rng.below(100) {
            0..35 => self.overwrite(12, 50),
            35..55 => self.append(),
            55..68 => {
                let (made, file) = self.create_any(32 << 10)?;
                if self.chance(80) {
                    self.sync(made.id, &file)?;
                }
                self.maybe_sync_folder(made.folder, 30)?;
                self.files.push(made);
                Ok(())
            }
            68..76 => self.rename(),
            76..84 => self.replace(),
            84..92 => self.remove(),
            92..96 => {
                // Nobody waits for this one.
                let (made, _) = self.create_any(256 << 10)?;
                self.maybe_sync_folder(made.folder, 0)?;
                self.files.push(made);
                Ok(())
            }
            // What the kernel does in its own time: dirty pages are old after 30 s, and journals commit.
            _ => {
                let seconds = u64::from(1 + self.rng.below(40));
                std::thread::sleep(Duration::from_secs(seconds));
                Ok(())
            }
        }
    }

    fn any_file(&mut self) -> Option<usize> {
        (!self.files.is_empty()).then(|| self.rng.below(self.files.len() as u32) as usize)
    }

    fn append(&mut self) -> io::Result<()> {
        let Some(at) = self.any_file() else { return Ok(()) };
        let bytes = self.files[at].bytes + u64::from(1 + self.rng.below(24_000));
        let file = self.extend(&self.files[at], bytes)?;
        self.files[at].bytes = bytes;
        match self.chance(60) {
            true => self.sync(self.files[at].id, &file),
            false => Ok(()),
        }
    }

    fn rename(&mut self) -> io::Result<()> {
        let Some(at) = self.any_file() else { return Ok(()) };
        let (from, left) = (self.files[at].path.clone(), self.files[at].folder);
        let folder = self.any_folder();
        let to = format!("{folder}/r{}", self.next_id);
        self.next_id += 1;
        self.say(&Note::Rename { from: from.clone(), to: to.clone() })?;
        fs::rename(from, &to)?;
        (self.files[at].path, self.files[at].folder) = (to, folder);
        self.sync_entry(at)?;
        self.maybe_sync_folder(folder, 50)?;
        match left == folder {
            true => Ok(()),
            false => self.maybe_sync_folder(left, 50),
        }
    }

    /// On FAT, an entry with a new name says where the file is, and how long, only when the file is synced.
    fn sync_entry(&mut self, at: usize) -> io::Result<()> {
        match self.args.promises.is_fat() && self.chance(70) {
            true => self.sync(self.files[at].id, &File::open(&self.files[at].path)?),
            false => Ok(()),
        }
    }

    /// What careful programs do to save a file: write a new one, sync it, give it the name of the old one.
    fn replace(&mut self) -> io::Result<()> {
        let Some(at) = self.any_file() else { return Ok(()) };
        let (made, file) = self.create_any(32 << 10)?;
        self.sync(made.id, &file)?;
        drop(file);
        let (to, folder) = (self.files[at].path.clone(), self.files[at].folder);
        self.say(&Note::Rename { from: made.path.clone(), to: to.clone() })?;
        fs::rename(&made.path, &to)?;
        let left = made.folder;
        self.files[at] = Made { path: to, folder, ..made };
        self.sync_entry(at)?;
        self.maybe_sync_folder(folder, 60)?;
        match left == folder {
            true => Ok(()),
            false => self.maybe_sync_folder(left, 60),
        }
    }

    fn remove(&mut self) -> io::Result<()> {
        let Some(at) = self.any_file() else { return Ok(()) };
        let made = self.files.swap_remove(at);
        self.say(&Note::Remove { path: made.path.clone() })?;
        fs::remove_file(made.path)?;
        self.maybe_sync_folder(made.folder, 50)
    }
}

/// Arguments of the verifier.
#[derive(Args, Clone, Debug)]
pub struct VerifierArgs {
    /// Seed of the writer
    #[arg(long)]
    seed: u64,
    /// What the file system promises
    #[arg(long, value_enum)]
    promises: Promises,
    /// Bytes of the aligned pieces of a file that a write changes all or nothing: a power of two, 512 to 4096
    #[arg(long)]
    piece_bytes: u32,
    /// What the writer has said
    #[arg(long)]
    notes: PathBuf,
}

/// The verifier: holds the files in the current folder against what the writer has said. Says each violation, and
/// returns how many there are.
pub fn verify(args: &VerifierArgs) -> io::Result<usize> {
    let text = fs::read_to_string(&args.notes)?;
    let mut model = Model::new(args);
    // A line without an end was cut short: what it announces has not begun.
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

/// A volume that was found again can be written to.
fn try_volume() -> io::Result<()> {
    let data = span(0, u32::MAX, 0, 100_000, 0);
    let mut file = File::create("probe")?;
    file.write_all(&data)?;
    file.sync_all()?;
    match fs::read("probe")? == data {
        true => fs::remove_file("probe"),
        false => Err(io::Error::other("it reads otherwise than it was written")),
    }
}

/// What a file may hold.
#[derive(Clone, Debug, Default)]
struct Held {
    /// Bytes that must be there.
    durable: u64,
    /// Bytes that may be there.
    most: u64,
    /// Versions that a block may have, the newest last; without an entry it has version 0.
    blocks: BTreeMap<u64, Vec<u32>>,
    /// It has the name that it was created with.
    is_plain: bool,
    /// It must be there, under one of its names.
    exists: bool,
}

impl Held {
    /// All that was done to it is durable.
    fn settle(&mut self) {
        self.durable = self.most;
        for versions in self.blocks.values_mut() {
            versions.drain(..versions.len() - 1);
        }
    }
}

/// What may be found after a power cut.
///
/// For each name: which files it may stand for, or none; that which it had when its folder was last synced, and all
/// since. For each file: what it held when last synced, or anything it was given since.
struct Model {
    seed: u64,
    promises: Promises,
    /// Pieces of a file that are old or new.
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

    /// What a name stands for now.
    fn current(&self, path: &str) -> Option<u32> {
        self.names.get(path).and_then(|may| *may.last()?)
    }

    fn name(&mut self, path: &str, id: Option<u32>) {
        // What had the name may be gone.
        if let Some(old) = self.current(path) {
            self.file(old).exists = false;
        }
        self.names.entry(path.to_owned()).or_insert_with(|| vec![None]).push(id);
    }

    /// The names that `wanted` picks are durable.
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
                    // It is under one of both names.
                    (held.is_plain, held.exists) = (false, exists);
                    // A new entry of FAT says where a file is, and how long, only when the file is synced.
                    held.durable = if is_bare { 0 } else { held.durable };
                }
            }
            Note::Remove { path } => self.name(path, None),
            Note::Folder { path } => {
                self.settle_names(|name, _| Path::new(name).parent() == Some(Path::new(path)));
            }
        }
    }

    /// What there is in the folder `root` that may not be, or is not that must be.
    fn violations(&self, root: &Path) -> io::Result<Vec<String>> {
        let mut violations = Vec::new();
        let mut found = BTreeSet::new();
        // With two entries for its clusters, a file of FAT loses them to either when the volume is repaired.
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
            for candidate in may.iter().collect::<BTreeSet<_>>() {
                let fault = match (candidate, &bytes) {
                    (None, None) => None,
                    (None, Some(bytes)) => Some(format!("is there, {} bytes", bytes.len())),
                    (Some(_), None) => Some("is not there".to_owned()),
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
        for (id, _) in self.files.iter().filter(|(id, held)| held.exists && !found.contains(*id)) {
            let names: Vec<_> =
                self.names.iter().filter(|(_, may)| may.contains(&Some(*id))).map(|(name, _)| name).collect();
            violations.push(format!("file {id} has none of its names {names:?}"));
        }
        for folder in FOLDERS.iter().chain([&FILL]) {
            for entry in fs::read_dir(root.join(folder))? {
                let path = format!("{folder}/{}", entry?.file_name().display());
                if !self.names.contains_key(&path) {
                    violations.push(format!("{path} was never made"));
                }
            }
        }
        Ok(violations)
    }

    /// What is wrong with `bytes` as the content of file `id`.
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
            let is_right = versions.iter().rev().any(|&version| {
                sectors().all(|(sector, data)| self.may_read(id, held, sector, version, data))
            });
            if !is_right {
                let heads: Vec<_> = sectors().map(|(_, data)| describe(data)).collect();
                return Some(format!(
                    "block {block} (durable are {} bytes, versions {versions:?}) holds {heads:?}",
                    held.durable
                ));
            }
        }
        None
    }

    /// Whether a sector may read as `data`, given its version. What is not durable may also be zero from somewhere
    /// on, or, where nothing is promised, anything.
    fn may_read(&self, id: u32, held: &Held, sector: u64, version: u32, data: &[u8]) -> bool {
        let expected = content(self.seed, id, sector, version);
        let at = sector * SECTOR_BYTES as u64;
        let must = (held.durable.saturating_sub(at) as usize).min(data.len());
        let (durable, rest) = data.split_at(must);
        let same = rest.iter().zip(&expected[must..]).take_while(|(is, should)| is == should).count();
        durable == &expected[..must] && (self.promises.is_fat() || rest[same..].iter().all(|&byte| byte == 0))
    }
}

/// Whose data a sector holds, by what it says itself.
fn describe(data: &[u8]) -> String {
    let word = |at: usize| Some(u64::from_le_bytes(data.get(at..at + 8)?.try_into().ok()?));
    match (word(0), word(8)) {
        (Some(0), Some(0)) => "zero".into(),
        (Some(name), Some(sector)) => format!("{}/{sector}v{}", name >> 32, name as u32),
        _ => format!("{} bytes", data.len()),
    }
}

/// A file system on a drive, and how it is used.
#[derive(Clone, Debug)]
pub struct Config {
    /// What it is called.
    pub name: &'static str,
    /// The file system.
    pub file_system: FileSystem,
    /// What it promises.
    pub promises: Promises,
    /// More arguments of mkfs.
    pub mkfs_options: Vec<String>,
    /// Options of the mount, separated by commas.
    pub mount_options: String,
    /// What to do after each mount before power fails: switches of the kernel. A kernel without one cannot be
    /// tested in this configuration.
    pub setup: Vec<Step>,
    /// Keys of the drive, beside those that all drives of these tests have.
    pub drive_sets: Vec<String>,
    /// Bytes of the pieces of a file that a write changes all or nothing: the file system's blocks, or sectors.
    pub piece_bytes: u32,
    /// MiB of files that fill the volume.
    pub fill_mib: u32,
    /// Steps of the writer's work.
    pub steps: u32,
    /// Whether the file system survives a power cut while it recovers from one. F2FS does not: its recovery writes
    /// nodes over the first ones of the chain that it follows, before its checkpoint is complete (Linux 6.12, where
    /// `recover_data` opens new segments for data only). What had been synced since the checkpoint before is lost.
    pub recovers_again: bool,
}

impl Config {
    fn new(name: &'static str, file_system: FileSystem, promises: Promises) -> Self {
        Self {
            name,
            file_system,
            promises,
            mkfs_options: Vec::new(),
            mount_options: String::new(),
            setup: Vec::new(),
            drive_sets: Vec::new(),
            piece_bytes: if promises.is_fat() { SECTOR_BYTES as u32 } else { BLOCK_BYTES as u32 },
            fill_mib: 60,
            steps: 250,
            recovers_again: true,
        }
    }

    /// All that are tested.
    pub fn all() -> Vec<Self> {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        // Of 36 MiB that F2FS leaves of such a small drive.
        let f2fs = |name, mode: &str| Self {
            mount_options: format!("mode={mode}"),
            // A drive with old data: it has to clean.
            mkfs_options: words("-t 0"),
            fill_mib: 28,
            recovers_again: false,
            ..Self::new(name, FileSystem::F2fs, Promises::Journal)
        };
        let logical = Step::Set { path: "/sys/fs/f2fs/vda/gc_logical_copy".into(), value: "1".into() };
        vec![
            Self {
                // Blocks of 1 KiB on such a small drive: it has to merge them into its units.
                mkfs_options: words("-K"),
                piece_bytes: 1024,
                ..Self::new("ext4", FileSystem::Ext4, Promises::Journal)
            },
            Self {
                mkfs_options: words("-b 4096"),
                mount_options: "discard".into(),
                ..Self::new("ext4-discard", FileSystem::Ext4, Promises::Journal)
            },
            f2fs("f2fs-lfs", "lfs"),
            f2fs("f2fs-adaptive", "adaptive"),
            Self {
                setup: vec![logical],
                drive_sets: words("drive.ftl.copy_mode=logical drive.nand.blocks_per_plane=58"),
                ..f2fs("f2fs-logical-copy", "lfs")
            },
            Self::new("vfat", FileSystem::Vfat, Promises::Fat),
            Self {
                mount_options: "sync".into(),
                steps: 150,
                ..Self::new("vfat-sync", FileSystem::Vfat, Promises::FatSync)
            },
        ]
    }

    /// A drive of 96 MiB on flash of 112 MiB: small, and with little room to spare.
    fn experiment(&self, seed: u64) -> Result<Experiment, ConfigError> {
        let mut sets = vec![format!("seed={seed}")];
        let common = [
            "drive.preset=jasmine-4g",
            "drive.nand.channels=2",
            "drive.nand.dies_per_channel=2",
            "drive.nand.blocks_per_plane=56",
            "drive.nand.pages_per_block=64",
            "drive.ftl.logical_pages=24576",
            "drive.controller.write_buffer_bytes=1048576",
        ];
        sets.extend(common.iter().chain(&DRIVE_SETS).map(|&set| set.to_owned()));
        sets.extend(self.drive_sets.iter().cloned());
        Experiment::from_table(toml::Table::new(), &sets, Path::new(""))
    }

    fn mount(&self) -> Step {
        let kind = self.file_system.kernel_name().unwrap_or_default().to_owned();
        Step::Mount { kind, options: self.mount_options.clone() }
    }

    fn writer(&self, seed: u64, prepare: bool) -> Step {
        let mut argv: Vec<String> = ["strobe", "crash-writer", "--promises"].map(str::to_owned).into();
        argv.extend([self.promises.name(), format!("--seed={seed}"), format!("--fill={}", self.fill_mib)]);
        match prepare {
            true => argv.push("--prepare".into()),
            false => argv.push(format!("--steps={}", self.steps)),
        }
        Run::must_succeed(argv)
    }

    /// How a volume is checked after a power cut and before it is mounted: only FAT needs that.
    fn repair(&self) -> Vec<Step> {
        let run = |option: &str, allowed: &[i32]| {
            let argv = ["fsck.fat", option, DEVICE].map(str::to_owned).into();
            Step::Run(Run { argv, quiet: false, allowed: allowed.into() })
        };
        match self.file_system {
            FileSystem::Vfat => vec![run("-a", &[0, 1]), run("-n", &[0])],
            _ => Vec::new(),
        }
    }
}

/// Why a test of power cuts could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CrashError {
    /// The drive's keys.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The drive.
    #[error(transparent)]
    Drive(#[from] RunError),
    /// The guest.
    #[error(transparent)]
    Guest(#[from] LinuxError),
    /// A step that has to succeed without a power cut failed.
    #[error("{0}")]
    Step(String),
    /// The kernel lacks a switch.
    #[error("this kernel cannot: {0}")]
    Lacking(String),
    /// The guest was done before the planned cut.
    #[error("no power cut at operation {0}: the guest was done before")]
    NotCut(u64),
}

/// What guests are made of.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The kernel.
    pub kernel: PathBuf,
    /// The `strobe` program.
    pub program: PathBuf,
}

/// What came of one power cut, or of two.
#[derive(Clone, Debug, Default)]
pub struct CutReport {
    /// The flash operation that was cut short.
    pub operation: u64,
    /// How often the writer had been told that something is durable.
    pub acknowledged: usize,
    /// Power failed once more, while the volume was found again.
    pub was_cut_again: bool,
    /// What must not be.
    pub violations: Vec<String>,
}

/// What a guest left.
struct Left {
    outcome: Outcome,
    /// Standard output.
    said: String,
    /// Standard error.
    errors: String,
    /// What the kernel should not have said.
    alarms: Vec<String>,
}

/// A volume that is about to be worked on, and what is known of this work.
pub struct Prepared {
    parts: Parts,
    config: Config,
    seed: u64,
    drive: Mutex<Box<dyn Engine>>,
    start: SimTime,
    /// What the writer said while it filled the volume.
    prepared: String,
    /// What it says while it works, without a power cut.
    worked: String,
    operations: RangeInclusive<u64>,
    collected_blocks: u64,
}

impl Prepared {
    /// Makes a volume, fills it, and lets the guest work without a power cut to learn the flash operations of that.
    /// `wrap` makes of the drive what is to be tested.
    pub fn new(
        parts: &Parts,
        config: &Config,
        seed: u64,
        wrap: fn(Box<dyn Engine>) -> Box<dyn Engine>,
    ) -> Result<Self, CrashError> {
        let (drive, start) = used_drive(config, seed)?;
        let mut volume = Self {
            parts: parts.clone(),
            config: config.clone(),
            seed,
            drive: Mutex::new(drive.freeze()),
            start,
            prepared: String::new(),
            worked: String::new(),
            operations: 0..=0,
            collected_blocks: 0,
        };
        let mut steps = vec![Run::tool(config.file_system.mkfs(seed, &config.mkfs_options)), config.mount()];
        steps.extend(config.setup.iter().cloned());
        steps.extend([config.writer(seed, true), Step::Unmount]);
        let left = volume.boot(&steps, "", wrap(drive), start)?;
        volume.must_be_done(&steps, &left)?;
        let Left { mut outcome, said, .. } = left;
        // Switched off as it should be: nothing waits in a cache any more.
        volume.start = outcome.engine.settle(outcome.at).map_err(RunError::Command)?;
        volume.prepared = said;
        let (first, before) = (outcome.engine.operations() + 1, outcome.engine.stats().gc);
        volume.drive = Mutex::new(outcome.engine);

        let steps = volume.work_steps();
        let left = volume.boot(&steps, "", volume.copy(), volume.start)?;
        volume.must_be_done(&steps, &left)?;
        let after = left.outcome.engine;
        volume.operations = first..=after.operations();
        volume.collected_blocks = after.stats().gc.victims - before.victims;
        volume.worked = left.said;
        Ok(volume)
    }

    /// The flash operations from the mount before the writer's work to the unmount after it.
    pub fn operations(&self) -> RangeInclusive<u64> {
        self.operations.clone()
    }

    /// Blocks that the drive's garbage collection emptied meanwhile.
    pub fn collected_blocks(&self) -> u64 {
        self.collected_blocks
    }

    fn copy(&self) -> Box<dyn Engine> {
        self.drive.lock().unwrap_or_else(PoisonError::into_inner).freeze()
    }

    fn work_steps(&self) -> Vec<Step> {
        let mut steps = vec![self.config.mount()];
        steps.extend(self.config.setup.iter().cloned());
        steps.extend([self.config.writer(self.seed, false), Step::Unmount]);
        steps
    }

    /// Runs `steps` in a guest which finds `notes` in its root.
    fn boot(
        &self,
        steps: &[Step],
        notes: &str,
        drive: Box<dyn Engine>,
        start: SimTime,
    ) -> Result<Left, CrashError> {
        let mut root = Root::new(&self.parts.program)?;
        root.link("usr/bin/strobe", "/init");
        for step in steps {
            if let Step::Run(run) = step
                && run.argv[0] != "strobe"
            {
                root.program(&run.argv[0])?;
            }
        }
        root.text(NOTES_PATH, notes);
        let job = Job { steps: steps.into(), environment: environment(self.seed) };
        let machine = Machine { memory_mib: 256, seed: self.seed, ..Machine::new(self.parts.kernel.clone()) };
        let (mut said, mut errors, mut kernel) = (Vec::new(), Vec::new(), Vec::new());
        let drive = PoweredDrive::new(drive, start);
        let outcome =
            machine.run(&root, &job, drive, &AtomicBool::new(false), &mut |stream, bytes| match stream {
                Stream::Output => said.extend_from_slice(bytes),
                Stream::Error => errors.extend_from_slice(bytes),
                Stream::Kernel => kernel.extend_from_slice(bytes),
                Stream::Control => {}
            })?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut alarms: Vec<_> =
            text(&kernel).lines().filter(|line| is_alarm(line)).map(str::to_owned).collect();
        alarms.extend(outcome.drive_error.clone());
        Ok(Left { outcome, said: text(&said), errors: text(&errors), alarms })
    }

    /// Fails unless the guest has done all that it had to.
    fn must_be_done(&self, steps: &[Step], left: &Left) -> Result<(), CrashError> {
        match &left.outcome.failed {
            Some((step, reason)) if matches!(steps[*step], Step::Set { .. }) => {
                Err(CrashError::Lacking(reason.clone()))
            }
            Some((_, reason)) => {
                Err(CrashError::Step(format!("{}: {reason}\n{}", self.config.name, left.errors)))
            }
            None if !left.alarms.is_empty() => Err(CrashError::Step(left.alarms.join("\n"))),
            None => Ok(()),
        }
    }

    /// Lets the guest work until power fails during flash operation `operation`, and then looks what there is. With
    /// `again`, power fails once more, so many operations after the drive was ready, if they are reached.
    pub fn cut(&self, operation: u64, again: Option<u64>) -> Result<CutReport, CrashError> {
        let mut drive = self.copy();
        // A second opinion: the drive's own account of what it must keep.
        drive.watch();
        drive.plan_cut(operation);
        let Left { mut outcome, said, errors, alarms } =
            self.boot(&self.work_steps(), "", drive, self.start)?;
        if let Some((_, reason)) = outcome.failed {
            return Err(CrashError::Step(format!("{reason}\n{errors}")));
        }
        if outcome.ended.end != End::PowerCut {
            return Err(CrashError::NotCut(operation));
        }
        let acknowledged = said.matches("\"synced\"").count() + said.matches("\"folder\"").count();
        let mut report = CutReport { operation, acknowledged, violations: alarms, ..CutReport::default() };
        if !self.worked.starts_with(&said) {
            report.violations.push("the guest has worked otherwise than without a power cut".into());
        }
        let notes = self.prepared.clone() + &said;
        let mut again = again;
        loop {
            let (mut drive, recovery) = match outcome.engine.restart(outcome.at) {
                Ok(found) => found,
                Err(error) => {
                    report.violations.push(format!("the drive cannot be restarted: {error}"));
                    return Ok(report);
                }
            };
            if let Err(error) = drive.check() {
                report.violations.push(format!("the drive's state is wrong: {error}"));
            }
            if let Some(verdict) = drive.verify().filter(|verdict| !verdict.wrong.is_empty()) {
                report.violations.push(format!("the drive has lost or changed {:?}", verdict.wrong));
            }
            if let Some(after) = again.take() {
                let operation = drive.operations() + 1 + after;
                drive.plan_cut(operation);
            }
            let left = self.boot(&self.verify_steps(), &notes, drive, recovery.finished)?;
            if left.outcome.ended.end == End::PowerCut {
                report.was_cut_again = true;
                outcome = left.outcome;
                continue;
            }
            self.judge(&left, &mut report);
            return Ok(report);
        }
    }

    fn verify_steps(&self) -> Vec<Step> {
        let mut steps = self.config.repair();
        let argv = [
            "strobe".to_owned(),
            "crash-verifier".into(),
            format!("--promises={}", self.config.promises.name()),
            format!("--seed={}", self.seed),
            format!("--piece-bytes={}", self.config.piece_bytes),
            format!("--notes={NOTES_PATH}"),
        ];
        steps.extend([self.config.mount(), Run::program(argv), Step::Unmount]);
        steps.extend(self.config.file_system.fsck().map(Run::program));
        steps
    }

    /// What the guest that verified says.
    fn judge(&self, left: &Left, report: &mut CutReport) {
        let found = left.said.lines().filter_map(|line| line.strip_prefix(VIOLATION));
        report.violations.extend(found.map(str::to_owned));
        report.violations.extend(left.alarms.iter().cloned());
        if let Some((_, reason)) = &left.outcome.failed {
            report.violations.push(format!("{reason}\n{}", left.said));
        }
        let steps = self.verify_steps();
        for (step, code) in &left.outcome.exits {
            if let Step::Run(run) = &steps[*step]
                && run.allowed.is_empty()
                && *code != 0
                && (run.argv[0] != "strobe" || !left.said.contains(VIOLATION))
            {
                let what = run.argv.join(" ");
                let said = format!("{}{}", left.said, left.errors);
                report.violations.push(format!("{what} ended with exit code {code}:\n{said}"));
            }
        }
        // What fsck.f2fs says of faults, whatever its exit code is.
        let faults = left.said.lines().filter(|line| {
            self.config.file_system == FileSystem::F2fs
                && ["[ASSERT]", "[FIX]", "[Fail]"].iter().any(|word| line.contains(word))
        });
        report.violations.extend(faults.map(str::to_owned));
    }
}

/// Whether a line of the kernel says that something is wrong.
fn is_alarm(line: &str) -> bool {
    let words = ["WARNING:", "BUG:", "Call Trace", "I/O error", "EXT4-fs error", "nconsisten", "orrupt"];
    words.iter().any(|word| line.contains(word)) || (line.contains("FAT-fs") && line.contains("error"))
}

/// A drive all of whose units have been written, a third of them twice: it collects garbage from now on.
fn used_drive(config: &Config, seed: u64) -> Result<(Box<dyn Engine>, SimTime), CrashError> {
    let experiment = config.experiment(seed)?;
    let mut drive = strobe_ssd::build(&experiment.drive, true, seed).map_err(RunError::from)?;
    let mut rng = Prng::derive(seed, "used-drive");
    let per_unit = drive.geometry().sectors_per_unit();
    let units = drive.logical_units();
    let write = |unit: u32, units: u32| {
        Request::new(Op::Write, Lba::new(u64::from(unit) * u64::from(per_unit)), units * per_unit)
    };
    let mut writes: Vec<_> = (0..units / 16).map(|run| write(run * 16, 16)).collect();
    writes.extend((0..units / 3).map(|_| write(rng.below(units), 1)));
    let mut queue = HostQueue::new(Pacing::Closed { depth: 32, interval_ns: 0 }, SimTime::ZERO);
    drive.run(&writes, &[], &mut queue).map_err(|(_, error)| RunError::Command(error))?;
    let start = drive.settle(queue.finished()).map_err(RunError::Command)?;
    Ok((drive, start))
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
        // Both are synced, so both have their names.
        fs::write(&a, content(1)).unwrap();
        assert_ne!(violations(&notes), 0);
        fs::write(&b, content(2)).unwrap();
        assert_eq!(violations(&notes), 0);
        // One takes the name of the other: before or after, but something is there.
        notes.push(rename("d0/a", "d0/b"));
        assert_eq!(violations(&notes), 0);
        notes.push(folder("d0"));
        assert_ne!(violations(&notes), 0);
        fs::rename(&a, &b).unwrap();
        assert_eq!(violations(&notes), 0);
        // To another folder: under either name, but under one.
        notes.push(rename("d0/b", "d1/c"));
        assert_eq!(violations(&notes), 0);
        fs::rename(&b, &c).unwrap();
        assert_eq!(violations(&notes), 0);
        fs::remove_file(&c).unwrap();
        assert_ne!(violations(&notes), 0);
        // What is removed may be there until its folder is synced.
        notes.extend([folder("d1"), folder("d0"), Note::Remove { path: "d1/c".into() }]);
        assert_eq!(violations(&notes), 0);
        fs::write(&c, content(1)).unwrap();
        assert_eq!(violations(&notes), 0);
        notes.push(folder("d1"));
        assert_ne!(violations(&notes), 0);
        fs::remove_file(&c).unwrap();
        // Nothing else is there.
        fs::write(root.path().join("d2/x"), "").unwrap();
        assert_ne!(violations(&notes), 0);
    }
}
