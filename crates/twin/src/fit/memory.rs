//! What has been simulated already, so that nothing is simulated twice: not in one fit, and not in one that goes on.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
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

/// What decides what a drive shows, besides what it is asked.
pub(super) fn key(drive: &DriveConfig) -> String {
    // Without blanks, and the same for the same drive: keys are written in the order of their definition.
    serde_json::to_string(drive).unwrap_or_default()
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
        let heading = Heading { version: VERSION, program: env!("CARGO_PKG_VERSION").to_owned(), inputs };
        let wrong = |error| MemoryError::File { path: path.clone(), error };
        let other = || MemoryError::Other { path: path.clone() };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(wrong(error)),
        };
        // A line without an end was cut short.
        let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let mut kept = 0;
        if let Some(first) = lines.next() {
            if serde_json::from_str::<Heading>(first).ok().as_ref() != Some(&heading) {
                return Err(other());
            }
            kept = first.len() as u64;
            for line in lines {
                let Line { drive, figures } = serde_json::from_str(line).map_err(|_| other())?;
                memory.known.insert(drive, figures);
                kept += line.len() as u64;
            }
        }
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(wrong)?;
        file.set_len(kept).map_err(wrong)?;
        memory.file = Some((path.clone(), file));
        if kept == 0 {
            memory.write(&heading)?;
        }
        Ok(memory)
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), MemoryError> {
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        let text = serde_json::to_string(line).map_err(std::io::Error::from);
        let written = text.and_then(|text| file.write_all(format!("{text}\n").as_bytes()));
        written.map_err(|error| MemoryError::File { path: path.clone(), error })
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
