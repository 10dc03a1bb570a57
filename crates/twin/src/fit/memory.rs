//! What has been simulated already, so that nothing is simulated twice: not in one fit, and not in one that goes on.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use strobe_ssd::DriveConfig;

use super::FitOptions;
use crate::measurements::{Figures, Measurement, Measurements};

/// Version of the layout of the file.
const VERSION: u32 = 1;

/// Why what is kept cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is about something else.
    #[error(
        "{path} belongs to another fit: other measurements, options or version; remove it to begin anew, or choose another \
         --out"
    )]
    Other {
        /// Which.
        path: PathBuf,
    },
    /// A line of it is not what was written.
    #[error(
        "{path}, line {line}, is damaged: remove the file from there on, and what is before it is used; or all of it"
    )]
    Damaged {
        /// Which.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// Another fit writes to it.
    #[error("{path} is being written by another fit: wait until it ends, or choose another --out")]
    InUse {
        /// Which.
        path: PathBuf,
    },
}

/// The first line of the file: what all the others are about.
#[derive(PartialEq, Serialize, Deserialize)]
struct Heading {
    version: u32,
    program: String,
    inputs: String,
}

/// Every other line.
#[derive(Serialize, Deserialize)]
struct Line {
    drive: String,
    figures: Vec<Figures>,
}

/// What every drive that was simulated has shown.
pub(super) struct Memory {
    known: BTreeMap<String, Vec<Figures>>,
    file: Option<(PathBuf, File)>,
}

/// How keys of write amplifications begin; those of drives begin as JSON does.
pub(super) const WAF: &str = "waf ";

fn text_of(line: &impl Serialize) -> String {
    serde_json::to_string(line).expect("lines are plain data")
}

/// What decides what a drive shows, besides what it is asked.
pub(super) fn key(drive: &DriveConfig) -> String {
    // Without blanks, and the same for the same drive: keys are written in the order of their definition.
    serde_json::to_string(drive).expect("a configuration is plain data")
}

impl Memory {
    /// What is known of the fit of `options` to the rows `fitted`.
    pub(super) fn open(
        options: &FitOptions,
        measurements: &Measurements,
        fitted: &[Measurement],
    ) -> Result<Self, MemoryError> {
        let mut memory = Self { known: BTreeMap::new(), file: None };
        let Some(path) = &options.memory else { return Ok(memory) };
        let FitOptions { base, effort, seed, .. } = options;
        let inputs = format!("{:?} {fitted:?} {} {effort:?} {seed}", measurements.capacity_bytes, key(base));
        let heading = Heading { version: VERSION, program: strobe_lab::MODEL.to_owned(), inputs };
        let wrong = |error| MemoryError::File { path: path.clone(), error };
        let other = || MemoryError::Other { path: path.clone() };
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path).map_err(wrong)?;
        // Until this process ends, however it does. Where files cannot be locked it is up to the user.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(MemoryError::InUse { path: path.clone() });
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(wrong)?;
        // A line without an end was cut short.
        let mut lines = text.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n"));
        let mut kept = 0;
        if let Some(first) = lines.next() {
            if serde_json::from_slice::<Heading>(first).ok().as_ref() != Some(&heading) {
                return Err(other());
            }
            kept = first.len() as u64;
            for (at, line) in (2..).zip(lines) {
                let sound = serde_json::from_slice::<Line>(line).ok().filter(|line| {
                    line.figures.len() == if line.drive.starts_with(WAF) { 1 } else { fitted.len() }
                });
                let Line { drive, figures } =
                    sound.ok_or_else(|| MemoryError::Damaged { path: path.clone(), line: at })?;
                memory.known.insert(drive, figures);
                kept += line.len() as u64;
            }
        } else if !text_of(&heading).as_bytes().starts_with(&text) {
            // Somebody else's: only a heading that was cut short is overwritten.
            return Err(other());
        }
        file.set_len(kept).map_err(wrong)?;
        memory.file = Some((path.clone(), file));
        if kept == 0 {
            memory.write(&heading)?;
        }
        Ok(memory)
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), MemoryError> {
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        let written = file.write_all(format!("{}\n", text_of(line)).as_bytes());
        written.map_err(|error| MemoryError::File { path: path.clone(), error })
    }

    /// Removes the file if nothing is in it yet.
    pub(super) fn forget_if_empty(self) {
        if let Some((path, _)) = self.file.filter(|_| self.known.is_empty()) {
            // If it stays, the next fit says so.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Drives that are known.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn knows(&self, key: &str) -> bool {
        self.known.contains_key(key)
    }

    /// What the drive of `key` has shown; nothing if it is not known.
    pub(super) fn recall(&self, key: &str) -> &[Figures] {
        self.known.get(key).map_or(&[], Vec::as_slice)
    }

    pub(super) fn keep(&mut self, key: &str, figures: &[Figures]) -> Result<(), MemoryError> {
        self.known.insert(key.to_owned(), figures.to_vec());
        self.write(&Line { drive: key.to_owned(), figures: figures.to_vec() })
    }
}
