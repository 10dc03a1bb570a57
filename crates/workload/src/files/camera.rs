//! Camera-MS500: a phone that takes and deletes photos, from the NVRAM paper (no. 23 of `docs/MODEL.md`,
//! section 4.2).
//!
//! The study gives 10 transactions of 20 photos of 300 to 500 KB; half of them are deleted. With more than 60
//! files all are deleted. Photos and an index file are written synchronously in calls of 512 bytes; 79.67 MB
//! in all. The study leaves the rest open; this module chooses:
//!
//! - KB are 1000 bytes. Sizes are uniform in bytes, limits included: 80.0 MB on average.
//! - A random half of the 20 new photos is deleted after the last one was taken.
//! - The limit of 60 files is checked before the deletion. At most 70 photos exist, 28 MB in all. If the
//!   limit is exceeded, all photos are deleted in the order taken.
//! - Photos and index are in the root directory: the study's figure shows all metadata at the lowest
//!   addresses.
//! - The index has a 64-byte record per photo, in the first free slot. Taking or deleting a photo rewrites
//!   the 512 bytes around its record in one write: 0.2 MB in all.
//! - Generators derived from the seed draw sizes (`"camera size"`, one number per photo) and deletions
//!   (`"camera delete"`, ten numbers per transaction, without replacement).

use super::error::{check_multiple, check_range};
use super::session::Session;
use super::{FileError, FileId, FileWorkload, FileWorkloadError, Space, Tally};
use strobe_types::Prng;

const INDEX: &str = "INDEX.DAT";
const RECORD: usize = 64;

settings! {
    /// Settings of Camera-MS500; the defaults are the study's.
    pub struct CameraConfig {
        /// Number of transactions. 1 to 1,000,000, default 10.
        pub transactions: u32 = 10, 1..=1_000_000;
        /// Photos taken per transaction, half of which are deleted. 1 to 1000, default 20.
        pub photos: u32 = 20, 1..=1000;
        /// Smallest photo in bytes. 1 to 2^30, default 300,000.
        pub photo_min_bytes: u32 = 300_000, 1..=1_073_741_824;
        /// Largest photo in bytes. `photo_min_bytes` to 2^30, default 500,000.
        #[schemars(range(min = 1, max = 1_073_741_824))]
        pub photo_max_bytes: u32 = 500_000;
        /// Number of photos above which all are deleted. 0 to 100,000, default 60.
        pub photos_kept_max: u32 = 60, 0..=100_000;
        /// Bytes per write call. A multiple of 64 from 64 to 65,536, default 512.
        #[schemars(range(min = 64, max = 65536), extend("multipleOf" = 64))]
        pub write_bytes: u32 = 512;
    }
}

impl FileWorkload for CameraConfig {
    fn space(&self) -> Space {
        // With uniform sizes the mean is accurate for this number of photos.
        let mean = (u64::from(self.photo_min_bytes) + u64::from(self.photo_max_bytes)) / 2;
        let files = u64::from(self.photos_kept_max) + 1;
        Space { bytes: files.saturating_mul(mean), files, topmost: 1 }
    }

    fn play<'a>(&'a self, mut session: Session<'a>, seed: u64) -> Result<Tally, FileWorkloadError> {
        self.check_ranges()?;
        check_range("photo_max_bytes", self.photo_max_bytes, self.photo_min_bytes..=1 << 30)?;
        check_multiple("write_bytes", self.write_bytes, RECORD as u32, 65_536)?;
        let index = session.create(INDEX)?;
        let mut run = Run {
            config: self,
            sizes: Prng::derive(seed, "camera size"),
            choice: Prng::derive(seed, "camera delete"),
            contents: Prng::derive(seed, "camera contents").bits(),
            session,
            index: Index { file: index, records: Vec::new() },
            photos: Vec::new(),
            taken: 0,
        };
        for done in 0..self.transactions {
            run.session.progress(done.into(), self.transactions.into());
            run.transaction()?;
        }
        run.session.close(index)?;
        run.session.progress(self.transactions.into(), self.transactions.into());
        Ok(run.session.tally)
    }
}

struct Index {
    file: FileId,
    records: Vec<u32>,
}

impl Index {
    fn replace(&mut self, session: &mut Session, from: u32, to: u32, block: u32) -> Result<(), FileError> {
        let at = self.records.iter().position(|&record| record == from).unwrap_or_else(|| {
            self.records.push(0);
            self.records.len() - 1
        });
        self.records[at] = to;
        // Rewrite the whole block of the index that holds the record.
        let per_block = block as usize / RECORD;
        let first = at - at % per_block;
        let mut bytes = vec![0; block as usize];
        for (record, slot) in self.records[first..].iter().zip(bytes.chunks_exact_mut(RECORD)) {
            if *record != 0 {
                slot[..name(*record).len()].copy_from_slice(name(*record).as_bytes());
            }
        }
        session.write_at(self.file, (first * RECORD) as u64, &bytes)
    }
}

fn name(photo: u32) -> String {
    format!("IMG{photo:05}.JPG")
}

struct Run<'a> {
    config: &'a CameraConfig,
    sizes: Prng,
    choice: Prng,
    contents: u64,
    session: Session<'a>,
    index: Index,
    photos: Vec<u32>,
    taken: u32,
}

impl Run<'_> {
    fn transaction(&mut self) -> Result<(), FileError> {
        let before = self.photos.len();
        for _ in 0..self.config.photos {
            self.take()?;
        }
        if self.photos.len() > self.config.photos_kept_max as usize {
            for photo in std::mem::take(&mut self.photos) {
                self.delete(photo)?;
            }
            return Ok(());
        }
        for _ in 0..self.config.photos / 2 {
            // Only photos of this transaction are candidates; older ones stay until the limit is exceeded.
            let just_taken = (self.photos.len() - before) as u32;
            let photo = self.photos.remove(before + self.choice.below(just_taken) as usize);
            self.delete(photo)?;
        }
        Ok(())
    }

    fn take(&mut self) -> Result<(), FileError> {
        let config = self.config;
        self.taken += 1;
        let photo = self.taken;
        let range = config.photo_max_bytes - config.photo_min_bytes + 1;
        let size = config.photo_min_bytes + self.sizes.below(range);
        let file = self.session.create(&name(photo))?;
        let key = self.contents ^ u64::from(photo);
        self.session.write_pattern(file, 0, size.into(), config.write_bytes as usize, key)?;
        self.session.close(file)?;
        self.photos.push(photo);
        self.index.replace(&mut self.session, 0, photo, config.write_bytes)
    }

    fn delete(&mut self, photo: u32) -> Result<(), FileError> {
        self.session.remove(&name(photo))?;
        self.index.replace(&mut self.session, photo, 0, self.config.write_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{NullFileSystem, Observer, Operation};

    #[test]
    fn total_is_that_of_the_study() {
        let written = |seed| {
            let tally = CameraConfig::default().run(&mut NullFileSystem::new(), seed, &mut ()).expect("runs");
            assert_eq!(tally.calls(Operation::Create), 201);
            tally.bytes_written as f64 / 1e6
        };
        assert!((written(1) / 79.67 - 1.0).abs() < 0.03, "{}", written(1));
        let mean = (1..=30).map(written).sum::<f64>() / 30.0;
        assert!((79.6..80.8).contains(&mean), "{mean}");
    }

    #[test]
    fn never_more_than_seventy_photos() {
        struct Most(u64, u64);
        impl Observer for Most {
            fn operation(&mut self, operation: Operation, _bytes: u64) {
                self.0 += u64::from(operation == Operation::Create);
                self.0 -= u64::from(operation == Operation::Remove);
                self.1 = self.1.max(self.0);
            }
        }
        let mut most = Most(0, 0);
        CameraConfig::default().run(&mut NullFileSystem::new(), 7, &mut most).expect("runs");
        assert_eq!(most.1, 71, "70 photos and the index");
    }

    #[test]
    fn the_index_names_the_photos_that_exist() {
        let config =
            CameraConfig { transactions: 2, photo_min_bytes: 1, photo_max_bytes: 9, ..Default::default() };
        let mut fs = NullFileSystem::new();
        config.run(&mut fs, 1, &mut ()).expect("runs");
        let names: Vec<_> = fs.files().collect();
        assert_eq!(names.len(), 21);
        assert_eq!(names[20], (INDEX, 2048));
    }
}
