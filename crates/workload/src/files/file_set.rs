//! A set of files to pick from, as in filebench.

use super::session::Session;
use super::{FileError, FileId};
use strobe_types::Prng;

#[derive(Clone, Copy, Debug)]
struct Entry {
    exists: bool,
    busy: bool,
}

/// Files numbered from 0 in directories `00001`, `00002` … of `directory_width` files each. filebench nests
/// directories deeper; the sectors written are the same.
#[derive(Clone, Debug)]
pub(super) struct FileSet {
    entries: Vec<Entry>,
    directory_width: u32,
}

impl FileSet {
    pub(super) fn new(files: u32, directory_width: u32) -> Self {
        let entries = vec![Entry { exists: false, busy: false }; files as usize];
        Self { entries, directory_width }
    }

    pub(super) fn path(&self, file: u32) -> String {
        format!("{:05}/{:08}", file / self.directory_width + 1, file + 1)
    }

    pub(super) fn fill(
        &mut self,
        session: &mut Session,
        write_bytes: usize,
        key: u64,
        mut size: impl FnMut(u32) -> Option<u64>,
    ) -> Result<(), FileError> {
        self.make_directories(session)?;
        for number in 0..self.entries.len() as u32 {
            if let Some(bytes) = size(number) {
                self.make(session, number, write_bytes, key, bytes)?;
            }
        }
        Ok(())
    }

    pub(super) fn make_directories(&self, session: &mut Session) -> Result<(), FileError> {
        let files = self.entries.len() as u32;
        for directory in 0..files.div_ceil(self.directory_width) {
            session.make_dir(&format!("{:05}", directory + 1))?;
        }
        Ok(())
    }

    pub(super) fn make(
        &mut self,
        session: &mut Session,
        number: u32,
        write_bytes: usize,
        key: u64,
        bytes: u64,
    ) -> Result<(), FileError> {
        let file = self.create(session, number)?;
        session.write_pattern(file, 0, bytes, write_bytes, key ^ u64::from(number))?;
        session.close(file)?;
        self.release(number);
        Ok(())
    }

    /// Picks a random idle file, which then is busy until released. One number is drawn: the search starts
    /// there and wraps around.
    pub(super) fn pick(&mut self, rng: &mut Prng, exists: bool) -> Option<u32> {
        let files = self.entries.len() as u32;
        let start = rng.below(files);
        let fits = |&file: &u32| {
            let entry = self.entries[file as usize];
            entry.exists == exists && !entry.busy
        };
        let file = (start..files).chain(0..start).find(fits)?;
        self.entries[file as usize].busy = true;
        Some(file)
    }

    pub(super) fn release(&mut self, file: u32) {
        self.entries[file as usize].busy = false;
    }

    pub(super) fn create(&mut self, session: &mut Session, file: u32) -> Result<FileId, FileError> {
        let id = session.create(&self.path(file))?;
        self.entries[file as usize].exists = true;
        Ok(id)
    }

    pub(super) fn remove(&mut self, session: &mut Session, file: u32) -> Result<(), FileError> {
        session.remove(&self.path(file))?;
        self.entries[file as usize].exists = false;
        Ok(())
    }
}

/// Draws a gamma-distributed number; `shape` is at least 1.
pub(super) fn gamma(rng: &mut Prng, mean: f64, shape: f64) -> f64 {
    // Marsaglia and Tsang 2000: the cube of a shifted normal variate, rarely rejected.
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(rng);
        let v = 1.0 + c * x;
        if v <= 0.0 {
            continue;
        }
        let v = v * v * v;
        if libm::log(1.0 - rng.unit()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
            return d * v * mean / shape;
        }
    }
}

fn normal(rng: &mut Prng) -> f64 {
    loop {
        let (x, y) = (2.0 * rng.unit() - 1.0, 2.0 * rng.unit() - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            // Polar method; the second variate of the pair is discarded.
            return x * (-2.0 * libm::log(square) / square).sqrt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_has_its_mean_and_variance() {
        for shape in [1.0, 1.5, 4.0] {
            let mut rng = Prng::new(5);
            let draws: Vec<f64> = (0..200_000).map(|_| gamma(&mut rng, 16384.0, shape)).collect();
            let mean = draws.iter().sum::<f64>() / draws.len() as f64;
            let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / draws.len() as f64;
            assert!((mean / 16384.0 - 1.0).abs() < 0.01, "{mean}");
            assert!((variance * shape / (16384.0 * 16384.0) - 1.0).abs() < 0.03, "{variance}");
        }
    }

    #[test]
    fn a_picked_file_is_not_picked_again() {
        let mut set = FileSet::new(2, 10);
        let mut rng = Prng::new(1);
        assert_eq!(set.pick(&mut rng, true), None);
        let first = set.pick(&mut rng, false).expect("two are free");
        assert_eq!(set.pick(&mut rng, false), Some(1 - first));
        assert_eq!(set.pick(&mut rng, false), None);
        set.release(first);
        assert_eq!(set.pick(&mut rng, false), Some(first));
    }
}
