//! Writer: a program that works on files and prints which data is durable.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use clap::Args;
use strobe_types::Prng;

use crate::{BLOCK_BYTES, FILL, FILL_BLOCKS, FOLDERS, Note, Promises, span};

/// Arguments of the writer.
#[derive(Args, Clone, Debug)]
pub struct WriterArgs {
    /// Seed of the operations and data
    #[arg(long)]
    seed: u64,
    /// Guarantees of the file system
    #[arg(long, value_enum)]
    promises: Promises,
    /// Number of 1 MiB files that fill the volume
    #[arg(long)]
    fill: u32,
    /// Only create the filling files and age the volume
    #[arg(long)]
    prepare: bool,
    /// Number of steps without --prepare
    #[arg(long, default_value_t = 0)]
    steps: u32,
    /// Total size of all other files in KiB, above which the writer removes files
    #[arg(long, default_value_t = 2048)]
    spare_kib: u64,
}

/// Works on files in the current folder and prints which data is durable.
pub fn write(args: &WriterArgs) -> io::Result<()> {
    let phase = if args.prepare { "prepare" } else { "work" };
    let mut writer = Writer {
        args: args.clone(),
        rng: Prng::derive(args.seed, phase),
        files: Vec::new(),
        // The filling files come first.
        next_id: args.fill + 1,
        version: if args.prepare { 0 } else { 1 << 20 },
    };
    if args.prepare { writer.prepare() } else { (0..args.steps).try_for_each(|_| writer.work()) }
}

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

    /// Syncs with the given probability, on FAT always.
    ///
    /// FAT may reuse freed clusters for another file before the names are durable.
    fn maybe_sync_folder(&mut self, path: &str, percent: u32) -> io::Result<()> {
        if self.args.promises.is_fat() || self.chance(percent) { self.sync_folder(path) } else { Ok(()) }
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
        // Mixes old and new blocks, as on a volume in use.
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

    fn extend(&self, made: &Made, bytes: u64) -> io::Result<File> {
        let id = made.id;
        self.say(&Note::Extend { id, bytes })?;
        let mut file = OpenOptions::new().append(true).open(&made.path)?;
        file.write_all(&span(self.args.seed, id, made.bytes, bytes, 0))?;
        self.written(id)?;
        Ok(file)
    }

    fn written(&self, id: u32) -> io::Result<()> {
        match self.args.promises {
            Promises::FatSync => self.say(&Note::Synced { id }),
            Promises::Journal | Promises::Fat => Ok(()),
        }
    }

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
        if self.chance(sync_percent) { self.sync(id, &file) } else { Ok(()) }
    }

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
                // This file is never synced.
                let (made, _) = self.create_any(256 << 10)?;
                self.maybe_sync_folder(made.folder, 0)?;
                self.files.push(made);
                Ok(())
            }
            // Lets the kernel's own activity happen: dirty pages expire after 30 s, and journals commit.
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
        if self.chance(60) { self.sync(self.files[at].id, &file) } else { Ok(()) }
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
        if left == folder { Ok(()) } else { self.maybe_sync_folder(left, 50) }
    }

    /// FAT stores the file's location and length in the new entry only at a sync.
    fn sync_entry(&mut self, at: usize) -> io::Result<()> {
        if self.args.promises.is_fat() && self.chance(70) {
            self.sync(self.files[at].id, &File::open(&self.files[at].path)?)
        } else {
            Ok(())
        }
    }

    /// Writes a new file, syncs it, and renames it over the old one.
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
        if left == folder { Ok(()) } else { self.maybe_sync_folder(left, 60) }
    }

    fn remove(&mut self) -> io::Result<()> {
        let Some(at) = self.any_file() else { return Ok(()) };
        let made = self.files.swap_remove(at);
        self.say(&Note::Remove { path: made.path.clone() })?;
        fs::remove_file(made.path)?;
        self.maybe_sync_folder(made.folder, 50)
    }
}
