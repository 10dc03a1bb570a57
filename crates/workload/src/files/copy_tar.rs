//! "Copy & tar": copies an archive to the drive and unpacks it there. Large sequential writes, then reads
//! mixed with many files.
//!
//! The logical-copy paper uses an archive of 150 MB with unknown contents. Here it holds a directory tree
//! drawn from the seed: directories of `directory_width` files, sizes gamma-distributed with shape 1 (many
//! small, few large). The archive is POSIX ustar (IEEE 1003.1-1988), readable by `tar`. Unpacking parses the
//! data read back, so data loss on the drive is detected.

use super::error::check_multiple;
use super::file_set::gamma;
use super::session::Session;
use super::{FileError, FileId, FileWorkload, FileWorkloadError, Space, Tally};
use strobe_types::Prng;

const ARCHIVE: &str = "archive.tar";

const BLOCK: usize = 512;

settings! {
    /// Settings of copy and unpack.
    pub struct CopyTarConfig {
        /// Size of the archive in bytes; the file that crosses the limit is the last. 1 to 2^32 - 1, default
        /// 150 MiB. The drive needs a little more than twice that.
        pub archive_bytes: u64 = 150 << 20, 1..=4_294_967_295_u64;
        /// Mean file size in bytes. 1 to 2^24, default 32,768.
        pub file_mean_bytes: u32 = 32_768, 1..=16_777_216;
        /// Files per directory. 1 to 10,000, default 50.
        pub directory_width: u32 = 50, 1..=10_000;
        /// Bytes per call for writing and reading the archive. A multiple of 512 up to 2^20, default 10,240 as
        /// in tar.
        #[schemars(range(min = 512, max = 1_048_576), extend("multipleOf" = 512))]
        pub block_bytes: u32 = 10_240;
    }
}

impl FileWorkload for CopyTarConfig {
    fn space(&self) -> Space {
        // Archive and unpacked files take a little over twice the archive; this estimate allows three times.
        let files = 2 + self.archive_bytes / u64::from(self.file_mean_bytes.max(1));
        Space {
            bytes: self.archive_bytes.saturating_mul(3),
            files,
            topmost: 2 + files / u64::from(self.directory_width.max(1)),
        }
    }

    fn play<'a>(&'a self, mut session: Session<'a>, seed: u64) -> Result<Tally, FileWorkloadError> {
        self.check_ranges()?;
        check_multiple("block_bytes", self.block_bytes, BLOCK as u32, 1 << 20)?;
        let size = self.copy(&mut session, seed)?;
        let file = session.open(ARCHIVE)?;
        let block = self.block_bytes as usize;
        let buffer = vec![0; block];
        Unpack { session: &mut session, file, size, at: 0, buffer, filled: 0, used: 0 }.run(block)?;
        session.close(file)?;
        session.progress(2 * size, 2 * size);
        Ok(session.tally)
    }
}

impl CopyTarConfig {
    fn copy(&self, session: &mut Session, seed: u64) -> Result<u64, FileError> {
        let mut sizes = Prng::derive(seed, "copy_tar size");
        let mut contents = Prng::derive(seed, "copy_tar contents");
        let block = self.block_bytes as usize;
        let file = session.create(ARCHIVE)?;
        let mut written = 0;
        let mut pending: Vec<u8> = Vec::new();
        let mut number = 0;
        while written + (pending.len() as u64) < self.archive_bytes {
            let directory = format!("d{:05}", number / self.directory_width);
            if number % self.directory_width == 0 {
                pending.extend(header(&directory, None));
            }
            let size = gamma(&mut sizes, self.file_mean_bytes.into(), 1.0) as usize;
            pending.extend(header(&format!("{directory}/f{number:07}"), Some(size as u64)));
            let padded = size.next_multiple_of(BLOCK);
            for place in (0..padded).step_by(8) {
                // Zeros pad the contents to whole blocks.
                let mut word = contents.bits().to_le_bytes();
                word[size.saturating_sub(place).min(8)..].fill(0);
                pending.extend(word);
            }
            number += 1;
            let whole = pending.len() - pending.len() % block;
            session.progress(written, 2 * self.archive_bytes);
            session.write_blocks(file, written, &pending[..whole], block)?;
            written += whole as u64;
            pending.drain(..whole);
        }
        // Two zero blocks mark the end of the archive, which is padded to a whole record.
        pending.resize((pending.len() + 2 * BLOCK).next_multiple_of(block), 0);
        session.write_blocks(file, written, &pending, block)?;
        session.sync(file)?;
        session.close(file)?;
        Ok(written + pending.len() as u64)
    }
}

struct Unpack<'s, 'a> {
    session: &'s mut Session<'a>,
    file: FileId,
    size: u64,
    at: u64,
    buffer: Vec<u8>,
    filled: usize,
    used: usize,
}

impl Unpack<'_, '_> {
    fn run(&mut self, block: usize) -> Result<(), FileError> {
        while let Some((path, size)) = self.entry()? {
            match size {
                None => self.session.make_dir(&path)?,
                Some(size) => self.extract(&path, size, block)?,
            }
        }
        Ok(())
    }

    fn blocks(&mut self, wanted: usize) -> Result<&[u8], FileError> {
        if self.used == self.filled {
            self.session.progress(self.size + self.at, 2 * self.size);
            self.filled = self.session.read_at(self.file, self.at, &mut self.buffer)?;
            self.used = 0;
            self.at += self.filled as u64;
        }
        if self.filled == 0 || !self.filled.is_multiple_of(BLOCK) {
            return Err(FileError::Io(format!("{ARCHIVE} ends at {}, in the middle of an entry", self.at)));
        }
        let start = self.used;
        self.used = self.filled.min(start + wanted * BLOCK);
        Ok(&self.buffer[start..self.used])
    }

    fn entry(&mut self) -> Result<Option<(String, Option<u64>)>, FileError> {
        // A header of zeros marks the end of the archive.
        let block = self.blocks(1)?;
        if block.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let bad = || FileError::Io(format!("a header of {ARCHIVE} reads back damaged"));
        let number = |field: &[u8]| {
            let digits = str::from_utf8(field).ok()?.trim_end_matches('\0');
            u64::from_str_radix(digits, 8).ok()
        };
        if number(&block[148..155]) != Some(checksum(block)) {
            return Err(bad());
        }
        let name = block[..100].split(|&byte| byte == 0).next().unwrap_or_default();
        let name = str::from_utf8(name).map_err(|_| bad())?.to_owned();
        let size = if block[156] == b'0' { Some(number(&block[124..136]).ok_or_else(bad)?) } else { None };
        Ok(Some((name, size)))
    }

    fn extract(&mut self, path: &str, size: u64, block: usize) -> Result<(), FileError> {
        let file = self.session.create(path)?;
        let mut at = 0;
        while at < size {
            // `blocks` returns at most the rest of the buffer, so a file may take several rounds.
            let left = (size - at) as usize;
            let wanted = left.div_ceil(BLOCK);
            let bytes = self.blocks(wanted)?;
            let bytes = bytes[..left.min(bytes.len())].to_vec();
            self.session.write_blocks(file, at, &bytes, block)?;
            at += bytes.len() as u64;
        }
        self.session.close(file)
    }
}

fn header(name: &str, size: Option<u64>) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, if size.is_some() { "0000644" } else { "0000755" });
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{:011o}", size.unwrap_or(0)));
    put(136, "00000000000");
    put(156, if size.is_some() { "0" } else { "5" });
    put(257, "ustar\x0000");
    let sum = checksum(&block);
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

fn checksum(block: &[u8]) -> u64 {
    // The checksum field itself counts as spaces.
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    sum(&block[..148]) + 8 * u64::from(b' ') + sum(&block[156..])
}
