//! Tiobench: several threads, each in its own large file.
//!
//! 1. Every flow writes its file sequentially.
//! 2. Blocks at random offsets are overwritten.
//! 3. Every file is read sequentially.
//! 4. Blocks at random offsets are read.
//!
//! Write phases end with a sync of every file. A generator derived from the seed (`"tiobench"`) picks the
//! flow of each access, and random offsets as multiples of the block size. The defaults are the logical-copy
//! paper's: 4 threads, files of 100 MB and 25 MB of random updates.

use super::error::check_range;
use super::session::Session;
use super::{FileError, FileId, FileWorkload, FileWorkloadError, Space, Tally};
use strobe_types::Prng;

settings! {
    /// Settings of Tiobench.
    pub struct TiobenchConfig {
        /// Number of threads. 1 to 1000, default 4.
        pub flows: u32 = 4, 1..=1000;
        /// Total size of all files in bytes; the share of each flow is rounded down to whole blocks. At least a
        /// block per flow, at most 2^40, default 100 MiB.
        #[schemars(range(min = 1, max = 1_099_511_627_776_u64))]
        pub file_bytes: u64 = 100 << 20;
        /// Bytes overwritten at random places, in whole blocks. 0 to 2^40, default 25 MiB.
        pub random_write_bytes: u64 = 25 << 20, 0..=1_099_511_627_776_u64;
        /// Bytes read at random places, in whole blocks. 0 to 2^40, default 0.
        pub random_read_bytes: u64 = 0, 0..=1_099_511_627_776_u64;
        /// True to read the files sequentially, too. Default false.
        pub sequential_read: bool = false;
        /// Bytes per read or write call. 1 to 2^20, default 4096.
        pub block_bytes: u32 = 4096, 1..=1_048_576;
        /// True to write the files sequentially. If false, they must exist from a run with `random_write_bytes
        /// = 0`. Default true.
        pub fill: bool = true;
    }
}

impl FileWorkload for TiobenchConfig {
    fn space(&self) -> Space {
        let files = u64::from(self.flows);
        Space { bytes: self.file_bytes, files, topmost: files }
    }

    fn begins_empty(&self) -> bool {
        self.fill
    }

    fn play<'a>(&'a self, mut session: Session<'a>, seed: u64) -> Result<Tally, FileWorkloadError> {
        self.check_ranges()?;
        let least = u64::from(self.block_bytes) * u64::from(self.flows);
        check_range("file_bytes", self.file_bytes, least..=1 << 40)?;
        let mut files = Vec::new();
        for flow in 0..self.flows {
            let name = format!("tio{flow:03}");
            files.push(if self.fill { session.create(&name)? } else { session.open(&name)? });
        }
        let rng = Prng::derive(seed, "tiobench");
        let block = u64::from(self.block_bytes);
        let blocks = self.file_bytes / u64::from(self.flows) / block;
        let buffer = vec![0; self.block_bytes as usize];
        let mut run = Run { session, files, rng, blocks, block, buffer, done: 0, total: 0 };
        run.run(self)?;
        Ok(run.session.tally)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Write,
    Read,
}

struct Run<'a> {
    session: Session<'a>,
    files: Vec<FileId>,
    rng: Prng,
    blocks: u64,
    block: u64,
    buffer: Vec<u8>,
    done: u64,
    total: u64,
}

impl Run<'_> {
    fn run(&mut self, config: &TiobenchConfig) -> Result<(), FileError> {
        let whole = self.blocks * self.files.len() as u64;
        let (writes, reads) = (config.random_write_bytes / self.block, config.random_read_bytes / self.block);
        let passes = u64::from(config.fill) + u64::from(config.sequential_read);
        self.total = whole * passes + writes + reads;
        if config.fill {
            self.sequential(Direction::Write)?;
        }
        self.random(writes, Direction::Write)?;
        if config.sequential_read {
            self.sequential(Direction::Read)?;
        }
        self.random(reads, Direction::Read)?;
        for &file in &self.files {
            self.session.close(file)?;
        }
        self.session.progress(self.total, self.total);
        Ok(())
    }

    fn sequential(&mut self, direction: Direction) -> Result<(), FileError> {
        let mut active: Vec<(FileId, u64)> = self.files.iter().map(|&file| (file, 0)).collect();
        while !active.is_empty() {
            // Threads are interleaved at random; each is sequential in its own file.
            let turn = self.rng.below(active.len() as u32) as usize;
            let (file, place) = active[turn];
            self.access(file, place, direction)?;
            active[turn].1 += 1;
            if active[turn].1 == self.blocks {
                active.remove(turn);
            }
        }
        self.finish(direction)
    }

    fn random(&mut self, accesses: u64, direction: Direction) -> Result<(), FileError> {
        if accesses == 0 {
            return Ok(());
        }
        for _ in 0..accesses {
            let file = self.files[self.rng.below(self.files.len() as u32) as usize];
            let place = self.rng.below_u64(self.blocks);
            self.access(file, place, direction)?;
        }
        self.finish(direction)
    }

    fn access(&mut self, file: FileId, place: u64, direction: Direction) -> Result<(), FileError> {
        self.session.progress(self.done, self.total);
        self.done += 1;
        let at = place * self.block;
        match direction {
            Direction::Write => {
                self.session.write_pattern(file, at, self.block, self.block as usize, self.done)
            }
            Direction::Read => self.session.read_at(file, at, &mut self.buffer).map(|_| ()),
        }
    }

    fn finish(&mut self, direction: Direction) -> Result<(), FileError> {
        if direction == Direction::Write {
            for &file in &self.files {
                self.session.sync(file)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{NullFileSystem, Operation};

    #[test]
    fn writes_what_the_study_says() {
        let mut fs = NullFileSystem::new();
        let tally = TiobenchConfig::default().run(&mut fs, 1, &mut ()).expect("runs");
        assert_eq!(tally.bytes_written, 125 << 20);
        assert_eq!((fs.files().count(), fs.bytes()), (4, 100 << 20));
        assert_eq!(tally.calls(Operation::Sync), 8);
    }

    #[test]
    fn updates_files_of_an_earlier_run() {
        let mut fs = NullFileSystem::new();
        let made = TiobenchConfig { file_bytes: 1 << 20, random_write_bytes: 0, ..TiobenchConfig::default() };
        made.run(&mut fs, 1, &mut ()).expect("runs");
        let updated = TiobenchConfig { random_write_bytes: 1 << 19, fill: false, ..made };
        let tally = updated.run(&mut fs, 1, &mut ()).expect("runs");
        assert_eq!((tally.bytes_written, fs.bytes()), (1 << 19, 1 << 20));
    }

    #[test]
    fn reads_when_asked() {
        let config = TiobenchConfig {
            file_bytes: 1 << 20,
            random_write_bytes: 0,
            random_read_bytes: 1 << 19,
            sequential_read: true,
            ..TiobenchConfig::default()
        };
        let tally = config.run(&mut NullFileSystem::new(), 1, &mut ()).expect("runs");
        assert_eq!((tally.bytes_written, tally.bytes_read), (1 << 20, 3 << 19));
    }
}
