//! filebench's "varmail": a mail server that keeps each message in a file and syncs it.
//!
//! Each of `flows` users repeats:
//!
//! 1. delete a message,
//! 2. create one, append, sync, close,
//! 3. open one, read it whole, append, sync, close,
//! 4. open one, read it whole, close.
//!
//! The personality stops by time; this workload stops after a number of steps. Before each step a generator
//! derived from the seed (`"varmail flow"`) picks the user. If no message is available for a step, the user
//! skips to the next group.

use super::file_set::{FileSet, gamma};
use super::session::Session;
use super::{FileError, FileId, FileWorkload, FileWorkloadError, Space, Tally};
use strobe_types::Prng;

settings! {
    /// Settings of varmail; the defaults are the personality's.
    pub struct VarmailConfig {
        /// Number of messages, existing or not. 2 to 1,000,000, default 1000.
        pub files: u32 = 1000, 2..=1_000_000;
        /// Mean message size at the start in bytes, gamma-distributed. 1 to 2^24, default 16,384.
        pub file_mean_bytes: u32 = 16_384, 1..=16_777_216;
        /// Shape of the size distribution. 1 to 1000, default 1.5.
        pub gamma_shape: f64 = 1.5, 1.0..=1000.0;
        /// Share of the messages that exist at the start. 0 to 1, default 0.8.
        pub existing_share: f64 = 0.8, 0.0..=1.0;
        /// Files per directory. 1 to 1,000,000, default 1,000,000.
        pub directory_width: u32 = 1_000_000, 1..=1_000_000;
        /// Upper limit of an append in bytes, excluded; sizes are uniform from 0. 1 to 2^24, default 16,384.
        pub append_bytes: u32 = 16_384, 1..=16_777_216;
        /// Number of concurrent users. 1 to 1000, default 16.
        pub flows: u32 = 16, 1..=1000;
        /// Total steps of all users. Default 50,000.
        pub steps: u64 = 50_000;
        /// Largest write call in bytes. 1 to 2^20, default 2^20.
        pub write_bytes: u32 = 1 << 20, 1..=1_048_576;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Delete,
    Create,
    OpenToAppend,
    OpenToRead,
    Append,
    Read,
    Sync,
    Close,
}

use Step::{Append, Close, Create, Delete, OpenToAppend, OpenToRead, Read, Sync};

/// Steps of a user. The steps from one of [`BEGINNINGS`] to the next share one message.
const LOOP: [Step; 13] = [
    Delete, //
    Create,
    Append,
    Sync,
    Close, //
    OpenToAppend,
    Read,
    Append,
    Sync,
    Close, //
    OpenToRead,
    Read,
    Close,
];

const BEGINNINGS: [usize; 4] = [0, 1, 5, 10];

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    place: usize,
    open: Option<(u32, FileId)>,
}

impl FileWorkload for VarmailConfig {
    fn space(&self) -> Space {
        // Appends enlarge messages by about half.
        let files = u64::from(self.files);
        Space {
            bytes: files * u64::from(self.file_mean_bytes) * 3 / 2,
            files,
            topmost: 1 + files / u64::from(self.directory_width.max(1)),
        }
    }

    fn play<'a>(&'a self, session: Session<'a>, seed: u64) -> Result<Tally, FileWorkloadError> {
        self.check_ranges()?;
        let mut run = Run {
            config: self,
            session,
            set: FileSet::new(self.files, self.directory_width),
            rng: Prng::derive(seed, "varmail"),
            contents: Prng::derive(seed, "varmail contents").bits(),
        };
        run.fill(seed)?;
        let mut turns = Prng::derive(seed, "varmail flow");
        let mut flows = vec![Flow::default(); self.flows as usize];
        for done in 0..self.steps {
            run.session.progress(done, self.steps);
            run.step(&mut flows[turns.below(self.flows) as usize])?;
        }
        for (_, file) in flows.iter().filter_map(|flow| flow.open) {
            run.session.close(file)?;
        }
        run.session.progress(self.steps, self.steps);
        Ok(run.session.tally)
    }
}

struct Run<'a> {
    config: &'a VarmailConfig,
    session: Session<'a>,
    set: FileSet,
    rng: Prng,
    contents: u64,
}

impl Run<'_> {
    fn fill(&mut self, seed: u64) -> Result<(), FileError> {
        let config = self.config;
        let existing = (f64::from(config.files) * config.existing_share + 0.5) as u32;
        let mut sizes = Prng::derive(seed, "varmail size");
        self.set.fill(&mut self.session, config.write_bytes as usize, self.contents, |number| {
            let mean = f64::from(config.file_mean_bytes);
            (number < existing).then(|| gamma(&mut sizes, mean, config.gamma_shape) as u64)
        })
    }

    fn step(&mut self, flow: &mut Flow) -> Result<(), FileError> {
        let step = LOOP[flow.place];
        flow.place = (flow.place + 1) % LOOP.len();
        // The steps after opening or creating a message work on it until it is closed.
        if let Some((number, file)) = flow.open {
            match step {
                Append => self.append(file)?,
                Read => {
                    let size = self.session.size(file)?;
                    self.session.read_whole(file, size, 1 << 20)?;
                }
                Sync => self.session.sync(file)?,
                _ => {
                    self.session.close(file)?;
                    self.set.release(number);
                    flow.open = None;
                }
            }
            return Ok(());
        }
        let Some(number) = self.set.pick(&mut self.rng, step != Create) else {
            // No message is idle: skip to the next group of steps.
            let next = BEGINNINGS.into_iter().find(|&beginning| beginning >= flow.place);
            flow.place = next.unwrap_or(0);
            return Ok(());
        };
        match step {
            Delete => {
                self.set.remove(&mut self.session, number)?;
                self.set.release(number);
            }
            Create => flow.open = Some((number, self.set.create(&mut self.session, number)?)),
            _ => flow.open = Some((number, self.session.open(&self.set.path(number))?)),
        }
        Ok(())
    }

    fn append(&mut self, file: FileId) -> Result<(), FileError> {
        let bytes = self.rng.below(self.config.append_bytes);
        let size = self.session.size(file)?;
        let key = self.contents ^ self.rng.bits();
        self.session.write_pattern(file, size, bytes.into(), self.config.write_bytes as usize, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{NullFileSystem, Operation};

    #[test]
    fn a_loop_has_the_mix_of_the_personality() {
        let steps = 130_000;
        let config = VarmailConfig { steps, ..VarmailConfig::default() };
        let mut fs = NullFileSystem::new();
        let tally = config.run(&mut fs, 1, &mut ()).expect("runs");
        let loops = steps / LOOP.len() as u64;
        let near = |calls: u64, per_loop: u64| calls.abs_diff(loops * per_loop) < 40;
        assert!(near(tally.calls(Operation::Remove), 1));
        assert!(near(tally.calls(Operation::Create) - 800, 1));
        assert!(near(tally.calls(Operation::Open), 2));
        assert!(near(tally.calls(Operation::Sync), 2));
        assert!(fs.files().count().abs_diff(800) <= 16);
    }

    #[test]
    fn a_flow_that_finds_no_file_goes_on() {
        let config = VarmailConfig {
            files: 2,
            existing_share: 0.0,
            flows: 1,
            steps: 2 + 384 * LOOP.len() as u64,
            ..VarmailConfig::default()
        };
        let tally = config.run(&mut NullFileSystem::new(), 3, &mut ()).expect("runs");
        assert_eq!((tally.calls(Operation::Create), tally.calls(Operation::Remove)), (385, 384));
    }

    #[test]
    fn more_flows_than_files_share_them() {
        let config = VarmailConfig { files: 2, existing_share: 0.5, ..VarmailConfig::default() };
        let mut fs = NullFileSystem::new();
        let tally = config.run(&mut fs, 3, &mut ()).expect("runs");
        let (created, removed) = (tally.calls(Operation::Create), tally.calls(Operation::Remove));
        assert_eq!(created - removed, fs.files().count() as u64);
        assert!(created > 500, "{created}");
    }
}
