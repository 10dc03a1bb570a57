//! Ageing: fills a file system with large files and updates them at random.
//!
//! The logical-copy paper ages the file system before each benchmark: 1000 files sized for the wanted
//! utilisation, then random 16 KB updates until the file system would start cleaning. A generator derived
//! from the seed (`"ageing"`) draws files and offsets.

use super::error::check_range;
use super::session::Session;
use super::{FileWorkload, FileWorkloadError, Space, Tally};
use strobe_types::Prng;

settings! {
    /// Settings of ageing.
    pub struct AgeingConfig {
        /// Number of files. 1 to 100,000, default 1000.
        pub files: u32 = 1000, 1..=100_000;
        /// Size of each file in bytes, rounded down to whole blocks. At least a block, at most 2^32, default
        /// 1 MiB.
        #[schemars(range(min = 1, max = 4_294_967_296_u64))]
        pub file_bytes: u64 = 1 << 20;
        /// Total bytes updated. 0 to 2^44, default 256 MiB.
        pub update_bytes: u64 = 256 << 20, 0..=17_592_186_044_416_u64;
        /// Bytes per update. 512 to 2^20, default 16,384.
        pub block_bytes: u32 = 16_384, 512..=1_048_576;
    }
}

const FILL_BYTES: usize = 1 << 20;

impl FileWorkload for AgeingConfig {
    fn space(&self) -> Space {
        let files = u64::from(self.files);
        Space { bytes: files.saturating_mul(self.file_bytes), files, topmost: files }
    }

    fn play<'a>(&'a self, mut session: Session<'a>, seed: u64) -> Result<Tally, FileWorkloadError> {
        self.check_ranges()?;
        check_range("file_bytes", self.file_bytes, u64::from(self.block_bytes)..=1 << 32)?;
        let mut rng = Prng::derive(seed, "ageing");
        let block = u64::from(self.block_bytes);
        let (blocks, updates) = (self.file_bytes / block, self.update_bytes / block);
        let total = u64::from(self.files) * blocks + updates;
        let name = |file: u32| format!("age{file:05}");
        for number in 0..self.files {
            session.progress(u64::from(number) * blocks, total);
            let file = session.create(&name(number))?;
            session.write_pattern(file, 0, blocks * block, FILL_BYTES, rng.bits())?;
            session.close(file)?;
        }
        // All files stay open during the updates, so opening costs nothing between them.
        let mut files = Vec::new();
        for number in 0..self.files {
            files.push(session.open(&name(number))?);
        }
        for update in 0..updates {
            session.progress(total - updates + update, total);
            let file = files[rng.below(self.files) as usize];
            let place = rng.below_u64(blocks);
            session.write_pattern(file, place * block, block, block as usize, update)?;
        }
        for file in files {
            session.sync(file)?;
            session.close(file)?;
        }
        session.progress(total, total);
        Ok(session.tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::NullFileSystem;

    #[test]
    fn fills_and_updates_in_place() {
        let mut fs = NullFileSystem::new();
        let config =
            AgeingConfig { files: 10, file_bytes: 100_000, update_bytes: 1 << 20, ..Default::default() };
        let tally = config.run(&mut fs, 1, &mut ()).expect("runs");
        assert_eq!((fs.files().count(), fs.bytes()), (10, 10 * 6 * 16_384));
        assert_eq!(tally.bytes_written, 10 * 6 * 16_384 + (1 << 20));
    }
}
