//! PostMark 1.5 (Katcher 1997): the life of small files on a mail or news server.
//!
//! Reproduces the program's random numbers and therefore every call: with equal settings all counts equal
//! those in its printed report, to the byte. Order of draws from MT19937 (seeding of 1999), where `RND(x)` is
//! the remainder by x:
//!
//! 1. `2 * size_max_bytes` characters, each `32 + RND(95)`, the source of all contents.
//! 2. Per file created: `RND(subdirectories)` if there are at least two, then the size, `size_min_bytes +
//!    RND(size_max_bytes - size_min_bytes)`. The table of files has `2 * files` slots. The file takes the
//!    slot after the last one used if that slot is empty, otherwise the first empty slot.
//! 3. Per transaction: if `RND(10) < read_bias`, a random file is read whole. Otherwise a random file grows
//!    by `1 + RND(size_max_bytes - size)`, unless it has the maximum size. Then, if `RND(10) < create_bias`,
//!    a file is created, otherwise a random one is deleted. A random file is the first occupied slot hit by
//!    `RND(2 * files)`.
//!
//! At the end all files and directories are deleted. The NVRAM paper (no. 23 of `docs/MODEL.md`) uses sizes
//! 512 to 32,768, 10,000 transactions and 10 subdirectories, all synchronous:
//! [`PostmarkConfig::hot_metadata`].

use super::error::check_range;
use super::mersenne::Mersenne;
use super::session::Session;
use super::{FileWorkload, FileWorkloadError, Space, Tally};

settings! {
    /// PostMark's settings and defaults. The seed, 42 by default, is separate.
    pub struct PostmarkConfig {
        /// Number of files before the transactions (`set number`). 1 to 1,000,000, default 500.
        pub files: u32 = 500, 1..=1_000_000;
        /// Smallest size of a new file in bytes (`set size`, first). 1 to 2^24, default 500.
        #[schemars(range(min = 1, max = 16_777_216))]
        pub size_min_bytes: u32 = 500;
        /// Largest file size in bytes (`set size`, second); new files are smaller. More than `size_min_bytes`,
        /// at most 2^24, default 10,000.
        pub size_max_bytes: u32 = 10_000, 2..=16_777_216;
        /// Number of transactions (`set transactions`). Default 500.
        pub transactions: u32 = 500;
        /// Number of directories to spread files over (`set subdirectories`); 0 and 1 use the root. At most
        /// 1000, default 0.
        pub subdirectories: u32 = 0, 0..=1000;
        /// Bytes per read call (`set read`). 1 to 2^20, default 512.
        pub read_bytes: u32 = 512, 1..=1_048_576;
        /// Bytes per write call (`set write`). 1 to 2^20, default 512.
        pub write_bytes: u32 = 512, 1..=1_048_576;
        /// Tenths of the transactions that read; the others append (`set bias read`). -1 does neither; at most
        /// 10, default 5.
        pub read_bias: i32 = 5, -1..=10;
        /// Tenths of the transactions that create; the others delete (`set bias create`). -1 does neither; at
        /// most 10, default 5.
        pub create_bias: i32 = 5, -1..=10;
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PostmarkReport {
    created: u64,
    deleted: u64,
    deleted_at_end: u64,
    read: u64,
    appended: u64,
}

impl PostmarkConfig {
    /// PostMark's default seed.
    pub const SEED: u64 = 42;

    /// Settings of the NVRAM paper.
    pub fn hot_metadata() -> Self {
        Self {
            size_min_bytes: 512,
            size_max_bytes: 32_768,
            transactions: 10_000,
            subdirectories: 10,
            ..Self::default()
        }
    }

    fn play_reported<'a>(
        &'a self,
        session: Session<'a>,
        seed: u64,
    ) -> Result<(Tally, PostmarkReport), FileWorkloadError> {
        self.check_ranges()?;
        check_range("size_min_bytes", self.size_min_bytes, 1..=self.size_max_bytes - 1)?;
        check_range("seed", seed, 0..=u64::from(u32::MAX))?;
        let mut run = Run::new(self, seed as u32, session);
        run.run()?;
        Ok((run.session.tally, run.report))
    }
}

impl FileWorkload for PostmarkConfig {
    fn space(&self) -> Space {
        // About half of the transactions create a file.
        let files = u64::from(self.files) + u64::from(self.transactions) / 2;
        let mean = (u64::from(self.size_min_bytes) + u64::from(self.size_max_bytes)) / 2;
        let topmost = if self.subdirectories > 0 { u64::from(self.subdirectories) } else { files };
        Space { bytes: files.saturating_mul(mean), files, topmost }
    }

    fn play<'a>(&'a self, session: Session<'a>, seed: u64) -> Result<Tally, FileWorkloadError> {
        self.play_reported(session, seed).map(|(tally, _)| tally)
    }
}

#[derive(Clone, Debug, Default)]
struct Slot {
    path: String,
    size: u32,
}

struct Run<'a> {
    config: &'a PostmarkConfig,
    rng: Mersenne,
    session: Session<'a>,
    contents: Vec<u8>,
    slots: Vec<Slot>,
    cursor: usize,
    occupied: u32,
    report: PostmarkReport,
}

impl<'a> Run<'a> {
    fn new(config: &'a PostmarkConfig, seed: u32, session: Session<'a>) -> Self {
        let mut rng = Mersenne::new(seed);
        let contents = (0..2 * config.size_max_bytes).map(|_| 32 + rng.below(95) as u8).collect();
        let slots = vec![Slot::default(); 2 * config.files as usize];
        Self { config, rng, session, contents, slots, cursor: 0, occupied: 0, report: Default::default() }
    }

    fn run(&mut self) -> Result<(), FileWorkloadError> {
        let config = self.config;
        let directories = if config.subdirectories > 1 { config.subdirectories } else { 0 };
        for directory in 0..directories {
            self.session.make_dir(&format!("s{directory}"))?;
        }
        for _ in 0..config.files {
            self.create()?;
        }
        for done in 0..config.transactions {
            self.session.progress(done.into(), config.transactions.into());
            // PostMark ends early when no file is left.
            if self.occupied == 0 {
                break;
            }
            self.transaction()?;
        }
        for slot in 0..self.slots.len() {
            if self.slots[slot].size > 0 {
                self.delete(slot)?;
                self.report.deleted_at_end += 1;
            }
        }
        for directory in 0..directories {
            self.session.remove_dir(&format!("s{directory}"))?;
        }
        self.session.progress(config.transactions.into(), config.transactions.into());
        Ok(())
    }

    fn transaction(&mut self) -> Result<(), FileWorkloadError> {
        if self.config.read_bias >= 0 {
            let reads = self.tenths() < self.config.read_bias;
            let slot = self.random_slot();
            if reads { self.read(slot)? } else { self.append(slot)? }
        }
        if self.config.create_bias >= 0 {
            if self.tenths() < self.config.create_bias {
                self.create()?;
            } else {
                let slot = self.random_slot();
                self.delete(slot)?;
                self.report.deleted += 1;
            }
        }
        Ok(())
    }

    fn tenths(&mut self) -> i32 {
        self.rng.below(10) as i32
    }

    fn free_slot(&mut self) -> Option<usize> {
        let slot = if self.slots.get(self.cursor).is_some_and(|slot| slot.size == 0) {
            self.cursor
        } else {
            self.slots.iter().position(|slot| slot.size == 0)?
        };
        self.cursor = slot + 1;
        Some(slot)
    }

    fn random_slot(&mut self) -> usize {
        // As in PostMark, an occupied slot must exist.
        assert!(self.occupied > 0, "a transaction begins with a file and removes one at its end only");
        loop {
            let slot = self.rng.below(self.slots.len() as u32) as usize;
            if self.slots[slot].size > 0 {
                return slot;
            }
        }
    }

    fn create(&mut self) -> Result<(), FileWorkloadError> {
        let config = self.config;
        let Some(slot) = self.free_slot() else { return Ok(()) };
        let number = self.report.created + 1;
        let path = if config.subdirectories > 1 {
            format!("s{}/{number}", self.rng.below(config.subdirectories))
        } else {
            number.to_string()
        };
        let size = config.size_min_bytes + self.rng.below(config.size_max_bytes - config.size_min_bytes);
        let file = self.session.create(&path)?;
        let block = config.write_bytes as usize;
        self.session.write_blocks(file, 0, &self.contents[..size as usize], block)?;
        self.session.close(file)?;
        self.slots[slot] = Slot { path, size };
        self.occupied += 1;
        self.report.created = number;
        Ok(())
    }

    fn read(&mut self, slot: usize) -> Result<(), FileWorkloadError> {
        let Slot { path, size } = &self.slots[slot];
        let file = self.session.open(path)?;
        self.session.read_whole(file, (*size).into(), self.config.read_bytes as usize)?;
        self.session.close(file)?;
        self.report.read += 1;
        Ok(())
    }

    fn append(&mut self, slot: usize) -> Result<(), FileWorkloadError> {
        let Slot { path, size } = &mut self.slots[slot];
        if *size >= self.config.size_max_bytes {
            return Ok(());
        }
        // A file of the maximum size draws no number.
        let more = 1 + self.rng.below(self.config.size_max_bytes - *size);
        let file = self.session.open(path)?;
        let block = self.config.write_bytes as usize;
        self.session.write_blocks(file, (*size).into(), &self.contents[..more as usize], block)?;
        self.session.close(file)?;
        *size += more;
        self.report.appended += 1;
        Ok(())
    }

    fn delete(&mut self, slot: usize) -> Result<(), FileWorkloadError> {
        let Slot { path, .. } = std::mem::take(&mut self.slots[slot]);
        self.session.remove(&path)?;
        self.occupied -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::NullFileSystem;

    #[track_caller]
    fn assert_report(config: &PostmarkConfig, files: [u64; 5], bytes_written: u64, bytes_read: u64) {
        let mut fs = NullFileSystem::new();
        let (tally, report) =
            config.play_reported(Session::new(&mut fs, &mut ()), PostmarkConfig::SEED).expect("runs");
        let [created, deleted, deleted_at_end, read, appended] = files;
        assert_eq!(report, PostmarkReport { created, deleted, deleted_at_end, read, appended });
        assert_eq!((tally.bytes_written, tally.bytes_read), (bytes_written, bytes_read));
        assert_eq!(fs.files().count(), 0);
    }

    // From published logs of the original program.
    #[test]
    fn defaults_as_the_original_prints_them() {
        assert_report(&PostmarkConfig::default(), [764, 236, 528, 243, 257], 4_662_068, 1_430_770);
    }

    // 113.29 MiB is the NVRAM paper's figure.
    #[test]
    fn settings_of_the_hot_metadata_study() {
        let files = [5430, 5070, 360, 4971, 4994];
        assert_report(&PostmarkConfig::hot_metadata(), files, 118_795_344, 108_515_596);
    }

    #[test]
    fn the_block_size_changes_calls_and_not_bytes() {
        let config = PostmarkConfig { write_bytes: 4096, read_bytes: 4096, ..PostmarkConfig::default() };
        assert_report(&config, [764, 236, 528, 243, 257], 4_662_068, 1_430_770);
    }

    #[test]
    fn biases_of_minus_one_switch_off() {
        let config = PostmarkConfig { read_bias: -1, create_bias: -1, ..PostmarkConfig::default() };
        let mut fs = NullFileSystem::new();
        let (_, report) = config.play_reported(Session::new(&mut fs, &mut ()), 42).expect("runs");
        assert_eq!((report.created, report.read, report.appended, report.deleted), (500, 0, 0, 0));
    }

    #[test]
    fn wrong_settings_are_refused() {
        let config = PostmarkConfig { size_min_bytes: 10_000, ..PostmarkConfig::default() };
        let error = config.run(&mut NullFileSystem::new(), 42, &mut ()).expect_err("no sizes");
        assert_eq!(error.to_string(), "size_min_bytes is 10000, it must be from 1 to 9999");
        let error = PostmarkConfig::default().run(&mut NullFileSystem::new(), 1 << 32, &mut ());
        let text = error.expect_err("a seed of 33 bits").to_string();
        assert_eq!(text, "seed is 4294967296, it must be from 0 to 4294967295");
    }
}
