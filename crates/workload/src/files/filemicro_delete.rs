//! filebench's "filemicro_delete": files are made, then some of them removed.
//!
//! The personality lets 16 threads remove files until 1000 are gone. A removal is a single step, so it does
//! not matter which thread takes it, and there are none here: random files go one after the other. The TRIM
//! paper removes all of 30,000 files: `files = 30000`, `deletes = 30000`.

use super::error::check_range;
use super::file_set::FileSet;
use super::session::Session;
use super::{FileSystem, FileWorkload, FileWorkloadError, Observer, Space, Tally};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::Prng;

/// Settings of filemicro_delete, by default those of the personality.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FilemicroDeleteConfig {
    /// Files made. 1 to 1,000,000, default 5000.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub files: u32,
    /// Bytes of each. 0 to 2^24, default 16,384.
    #[schemars(range(max = 16_777_216))]
    pub file_bytes: u32,
    /// Files per directory. 1 to 1,000,000, default 100.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub directory_width: u32,
    /// Files removed. 0 to `files`, default 1000.
    #[schemars(range(max = 1_000_000))]
    pub deletes: u32,
    /// Bytes per write call at most. 1 to 2^20, which is the default.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub write_bytes: u32,
    /// Bytes of a file made behind each of the files, in the same directory, which stays: so the files removed
    /// are no neighbours on the drive, as in a file system that has been used. 0 to 2^24, default 0: none.
    #[schemars(range(max = 16_777_216))]
    pub spacer_bytes: u32,
    /// Whether to make the files. Otherwise they are there already, all of them, from a run with `deletes =
    /// 0`. Default true.
    pub fill: bool,
}

impl Default for FilemicroDeleteConfig {
    fn default() -> Self {
        Self {
            files: 5000,
            file_bytes: 16_384,
            directory_width: 100,
            deletes: 1000,
            write_bytes: 1 << 20,
            spacer_bytes: 0,
            fill: true,
        }
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

    fn run(
        &self,
        fs: &mut dyn FileSystem,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<Tally, FileWorkloadError> {
        check_range("files", self.files, 1..=1_000_000)?;
        check_range("file_bytes", self.file_bytes, 0..=1 << 24)?;
        check_range("directory_width", self.directory_width, 1..=1_000_000)?;
        check_range("deletes", self.deletes, 0..=self.files)?;
        check_range("write_bytes", self.write_bytes, 1..=1 << 20)?;
        check_range("spacer_bytes", self.spacer_bytes, 0..=1 << 24)?;
        let mut session = Session::new(fs, observer);
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
        // A shuffle, as filebench's tree of free files picks without favour for neighbours.
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
