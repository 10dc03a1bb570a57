//! filebench's "filemicro_delete": creates files, then removes some.
//!
//! In the personality, 16 threads remove files until 1000 are gone. A removal is a single step, so threads
//! would make no difference: random files are removed one by one. The TRIM paper removes all of 30,000 files:
//! `files = 30000`, `deletes = 30000`.

use super::error::check_range;
use super::file_set::FileSet;
use super::session::Session;
use super::{FileWorkload, FileWorkloadError, Space, Tally};
use strobe_types::Prng;

settings! {
    /// Settings of filemicro_delete; the defaults are the personality's.
    pub struct FilemicroDeleteConfig {
        /// Number of files. 1 to 1,000,000, default 5000.
        pub files: u32 = 5000, 1..=1_000_000;
        /// File size in bytes. 0 to 2^24, default 16,384.
        pub file_bytes: u32 = 16_384, 0..=16_777_216;
        /// Files per directory. 1 to 1,000,000, default 100.
        pub directory_width: u32 = 100, 1..=1_000_000;
        /// Number of files removed. 0 to `files`, default 1000.
        #[schemars(range(max = 1_000_000))]
        pub deletes: u32 = 1000;
        /// Largest write call in bytes. 1 to 2^20, default 2^20.
        pub write_bytes: u32 = 1 << 20, 1..=1_048_576;
        /// Size in bytes of a spacer file created after each file in the same directory and kept. 0 to 2^24,
        /// default 0: no spacers. The removed files are then not adjacent on the drive, as in a used file
        /// system.
        pub spacer_bytes: u32 = 0, 0..=16_777_216;
        /// True to create the files. If false, they must all exist from a run with `deletes = 0`. Default true.
        pub fill: bool = true;
    }
}

impl FileWorkload for FilemicroDeleteConfig {
    fn space(&self) -> Space {
        let spacers = u64::from(self.spacer_bytes > 0);
        let files = u64::from(self.files) * (1 + spacers);
        let bytes = u64::from(self.files) * (u64::from(self.file_bytes) + u64::from(self.spacer_bytes));
        Space { bytes, files, topmost: u64::from(self.directory_width) }
    }

    fn begins_empty(&self) -> bool {
        self.fill
    }

    fn play<'a>(&'a self, mut session: Session<'a>, seed: u64) -> Result<Tally, FileWorkloadError> {
        self.check_ranges()?;
        check_range("deletes", self.deletes, 0..=self.files)?;
        let mut set = FileSet::new(self.files, self.directory_width);
        let mut rng = Prng::derive(seed, "filemicro_delete");
        let key = rng.bits();
        if self.fill {
            let write_bytes = self.write_bytes as usize;
            set.make_directories(&mut session)?;
            for number in 0..self.files {
                set.make(&mut session, number, write_bytes, key, self.file_bytes.into())?;
                if self.spacer_bytes > 0 {
                    let spacer = session.create(&format!("{}s", set.path(number)))?;
                    session.write_pattern(spacer, 0, self.spacer_bytes.into(), write_bytes, key)?;
                    session.close(spacer)?;
                }
            }
        }
        // Remove files in random order: filebench's tree of free files does not favour neighbours either.
        let mut left: Vec<u32> = (0..self.files).collect();
        for done in 0..self.deletes {
            session.progress(done.into(), self.deletes.into());
            let place = rng.below(left.len() as u32) as usize;
            let file = left.swap_remove(place);
            set.remove(&mut session, file)?;
        }
        session.progress(self.deletes.into(), self.deletes.into());
        Ok(session.tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{NullFileSystem, Operation};

    #[test]
    fn removes_as_many_as_asked() {
        let mut fs = NullFileSystem::new();
        let tally = FilemicroDeleteConfig::default().run(&mut fs, 1, &mut ()).expect("runs");
        assert_eq!(tally.calls(Operation::MakeDir), 50);
        assert_eq!((tally.calls(Operation::Create), tally.calls(Operation::Remove)), (5000, 1000));
        assert_eq!((fs.files().count(), fs.bytes()), (4000, 4000 * 16_384));
    }

    #[test]
    fn spacers_stay() {
        let mut fs = NullFileSystem::new();
        let config =
            FilemicroDeleteConfig { files: 50, deletes: 50, spacer_bytes: 4096, ..Default::default() };
        config.run(&mut fs, 1, &mut ()).expect("runs");
        assert_eq!((fs.files().count(), fs.bytes()), (50, 50 * 4096));
    }

    #[test]
    fn makes_and_removes_in_two_runs() {
        let mut fs = NullFileSystem::new();
        let made = FilemicroDeleteConfig { files: 500, deletes: 0, ..FilemicroDeleteConfig::default() };
        made.run(&mut fs, 1, &mut ()).expect("runs");
        let removed = FilemicroDeleteConfig { deletes: 500, fill: false, ..made };
        let tally = removed.run(&mut fs, 1, &mut ()).expect("runs");
        assert_eq!((tally.calls(Operation::Create), tally.calls(Operation::Remove)), (0, 500));
        assert_eq!(fs.files().count(), 0);
    }
}
