//! State files: the whole state of a drive, so a warm-up runs only once.
//!
//! An image (`--image`) holds only flash; its drive is recovered as after a power cut. A state file also
//! holds in-flight commands and caches; its drive continues as if uninterrupted.
//!
//! File format, integers little-endian:
//!
//! 1. Magic, 8 bytes, and the format version, 4 bytes.
//! 2. Frames: length (4 bytes), CRC-32C of the frame's number and content (4 bytes), up to 1 MiB of content.
//! 3. The content of the frames: length of the header (8 bytes), header as JSON, state.
//! 4. A frame without content ends the file.
//!
//! A new layout needs a new format version. A test with the states in `crates/cli/tests/data` detects a
//! changed layout.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strobe_types::{StateError, StateReader, StateWriter, Stored};

use crate::assembly::{BuildError, build};
use crate::config::DriveConfig;
use crate::device::Simulated;

const MAGIC: &[u8; 8] = b"strobe\xf0S";
/// Format version, raised with every change of the layout.
const VERSION: u32 = 18;
const FRAME_BYTES: usize = 1 << 20;
const HEADER_BYTES_MAX: u64 = 1 << 24;

/// Description of the drive in a state file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateHeader {
    /// Version of the writing program. No other version can read the state.
    pub strobe_version: String,
    /// The drive.
    pub drive: DriveConfig,
    /// True if timing is enabled.
    pub timing: bool,
    /// Seed of the drive.
    pub seed: u64,
    /// Data of the program that saved the state.
    pub more: Value,
}

impl StateHeader {
    /// Header of a drive built from these arguments, by this version.
    pub fn new(drive: &DriveConfig, timing: bool, seed: u64, more: Value) -> Self {
        Self {
            strobe_version: env!("CARGO_PKG_VERSION").to_owned(),
            drive: drive.clone(),
            timing,
            seed,
            more,
        }
    }

    /// One message for each key that differs from `drive` and `timing`, with both values.
    pub fn differences(&self, drive: &DriveConfig, timing: bool) -> Vec<String> {
        let value = |drive: &DriveConfig, timing: bool| {
            // Only the resulting keys matter, not the preset that set them.
            let drive = DriveConfig { preset: None, ..drive.clone() };
            serde_json::json!({ "drive": drive, "run": { "timing": timing } })
        };
        differences(&value(&self.drive, self.timing), &value(drive, timing))
    }
}

/// Error of loading a state file.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct StateFileError {
    /// The file.
    pub path: String,
    /// Reason of the error.
    pub problem: StateProblem,
}

/// Reason why a state cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateProblem {
    /// The file cannot be read, or is damaged.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is not a state.
    #[error("not a Strobe state file (strobe run --save-state writes one)")]
    NoState,
    /// Another version wrote the state.
    #[error(
        "the state was saved by strobe {theirs} in format {format}, this is strobe {ours} with format {VERSION}; save it again with this version"
    )]
    Version {
        /// Version of the program that wrote the state, if known.
        theirs: String,
        /// Format version of the state.
        format: u32,
        /// Version of this program.
        ours: &'static str,
    },
    /// The state belongs to another drive or warm-up.
    #[error("the state belongs to another drive or warm-up: {0}")]
    Unlike(String),
    /// The drive of the state cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The content of the state does not describe a drive.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Writes the whole state of `drive`, described by `header`, then the output of `more`. Cost: a pass over the
/// memory of the drive. The file is about as large as that memory.
pub fn write_state(
    out: &mut dyn Write,
    header: &StateHeader,
    drive: &dyn Simulated,
    more: &dyn Fn(&mut StateWriter<'_>),
) -> Result<(), StateError> {
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    let mut frames = FrameWriter { out, number: 0 };
    let mut writer = StateWriter::new(&mut frames);
    serde_json::to_vec(header).expect("a header is plain data").store(&mut writer);
    drive.save_state(&mut writer);
    more(&mut writer);
    writer.finish()?;
    frames.frame(&[])?;
    frames.out.flush()?;
    Ok(())
}

/// An open state file.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    header: StateHeader,
    frames: FrameReader<BufReader<File>>,
    /// Size of the file, the upper bound of any length in it.
    bytes: u64,
}

impl StateFile {
    /// Opens the state at `path` and reads its header.
    pub fn open(path: &Path) -> Result<Self, StateFileError> {
        Self::try_open(path).map_err(|problem| failed(path, problem))
    }

    fn try_open(path: &Path) -> Result<Self, StateProblem> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let mut input = BufReader::new(file);
        let (mut magic, mut version) = ([0; 8], [0; 4]);
        let start = input.read_exact(&mut magic).and_then(|()| input.read_exact(&mut version));
        match start {
            Err(error) if error.kind() != ErrorKind::UnexpectedEof => return Err(error.into()),
            Ok(()) if magic == *MAGIC => {}
            _ => return Err(StateProblem::NoState),
        }
        let format = u32::from_le_bytes(version);
        let ours = env!("CARGO_PKG_VERSION");
        if format != VERSION {
            return Err(StateProblem::Version { theirs: "of another version".to_owned(), format, ours });
        }
        let mut frames =
            FrameReader { input, number: 0, at: MAGIC.len() as u64 + 4, content: Vec::new(), given: 0 };
        let mut length = [0; 8];
        frames.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        // A damaged length must not cause a large allocation.
        if length > bytes.min(HEADER_BYTES_MAX) {
            return Err(StateError::Short.into());
        }
        let mut text = vec![0; length as usize];
        frames.read_exact(&mut text)?;
        // The version is checked before the keys, because another version may have other keys.
        let value: Value = serde_json::from_slice(&text).map_err(|_| StateProblem::NoState)?;
        if value["strobe_version"] != ours {
            let theirs = value["strobe_version"].as_str().unwrap_or("of an unknown version").to_owned();
            return Err(StateProblem::Version { theirs, format, ours });
        }
        let header = StateHeader::deserialize(value).map_err(|error| {
            StateProblem::Unlike(format!("its header does not fit this program: {error}"))
        })?;
        Ok(Self { path: path.to_owned(), header, frames, bytes })
    }

    /// Header of the state.
    pub fn header(&self) -> &StateHeader {
        &self.header
    }

    /// Rejects a drive unlike the drive of the state; the error names the differing keys.
    pub fn expect_drive(&self, drive: &DriveConfig, timing: bool) -> Result<(), StateFileError> {
        self.expect_alike(self.header.differences(drive, timing))
    }

    /// Fails if `differences` is not empty.
    pub fn expect_alike(&self, differences: Vec<String>) -> Result<(), StateFileError> {
        if differences.is_empty() {
            Ok(())
        } else {
            Err(failed(&self.path, StateProblem::Unlike(differences.join("; "))))
        }
    }

    /// Loads the drive; `more` reads the appended data. [`memory_bytes`](crate::memory_bytes) of the header's
    /// drive gives the memory needed.
    pub fn load(
        self,
        more: &mut dyn FnMut(&mut StateReader<'_>) -> Result<(), StateError>,
    ) -> Result<Box<dyn Simulated>, StateFileError> {
        let header = &self.header;
        let mut drive = build(&header.drive, header.timing, header.seed)
            .map_err(|error| failed(&self.path, error.into()))?;
        self.load_into(&mut *drive, more)?;
        Ok(drive)
    }

    /// Loads the state into a new drive of the same configuration, for example one with a custom victim
    /// policy. After an error the drive cannot be used.
    pub fn load_into(
        mut self,
        drive: &mut dyn Simulated,
        more: &mut dyn FnMut(&mut StateReader<'_>) -> Result<(), StateError>,
    ) -> Result<(), StateFileError> {
        let loaded = self.try_load_into(drive, more);
        loaded.map_err(|error| match error {
            // I/O errors include damaged frames. Their messages need no context.
            StateError::Io(error) => failed(&self.path, error.into()),
            error => failed(&self.path, error.into()),
        })
    }

    fn try_load_into(
        &mut self,
        drive: &mut dyn Simulated,
        more: &mut dyn FnMut(&mut StateReader<'_>) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let mut reader = StateReader::new(&mut self.frames, self.bytes);
        drive.load_state(&mut reader)?;
        more(&mut reader)?;
        // Bytes after the empty frame are not part of the state.
        if reader.check_end()? && self.frames.at == self.bytes {
            Ok(())
        } else {
            Err(StateError::Unfit("more data follows its end"))
        }
    }
}

fn failed(path: &Path, problem: StateProblem) -> StateFileError {
    StateFileError { path: path.display().to_string(), problem }
}

/// One message for each key that differs between two tables, with both values.
pub fn differences(was: &Value, is: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", was, is, &mut found);
    found
}

fn compare(key: &str, was: &Value, is: &Value, found: &mut Vec<String>) {
    if let (Value::Object(theirs), Value::Object(ours)) = (was, is) {
        let more = ours.keys().filter(|&name| !theirs.contains_key(name));
        for name in theirs.keys().chain(more) {
            let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            compare(
                &key,
                theirs.get(name).unwrap_or(&Value::Null),
                ours.get(name).unwrap_or(&Value::Null),
                found,
            );
        }
    } else if was != is {
        let said = |value: &Value| if value.is_null() { "not given".to_owned() } else { value.to_string() };
        found.push(format!("{key} is {} in the state, but {} was requested", said(was), said(is)));
    }
}

fn checksum(number: u64, content: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), content)
}

struct FrameWriter<'a> {
    out: &'a mut dyn Write,
    number: u64,
}

impl FrameWriter<'_> {
    fn frame(&mut self, content: &[u8]) -> io::Result<()> {
        self.out.write_all(&(content.len() as u32).to_le_bytes())?;
        self.out.write_all(&checksum(self.number, content).to_le_bytes())?;
        self.number += 1;
        self.out.write_all(content)
    }
}

impl Write for FrameWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let content = &bytes[..bytes.len().min(FRAME_BYTES)];
        if !content.is_empty() {
            self.frame(content)?;
        }
        Ok(content.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reader that verifies each frame before it returns bytes of the frame.
#[derive(Debug)]
struct FrameReader<R> {
    input: R,
    number: u64,
    at: u64,
    content: Vec<u8>,
    given: usize,
}

impl<R: Read> FrameReader<R> {
    fn next_frame(&mut self) -> io::Result<()> {
        let damaged = |at: u64, what: &str| {
            io::Error::new(ErrorKind::InvalidData, format!("the state is damaged at byte {at}: {what}"))
        };
        let cut = |at: u64| {
            move |error: io::Error| match error.kind() {
                ErrorKind::UnexpectedEof => damaged(at, "the file ends here"),
                _ => error,
            }
        };
        let (at, mut length, mut sum) = (self.at, [0; 4], [0; 4]);
        self.input.read_exact(&mut length).map_err(cut(at))?;
        self.input.read_exact(&mut sum).map_err(cut(at))?;
        let length = u32::from_le_bytes(length) as usize;
        if length > FRAME_BYTES {
            return Err(damaged(at, "a frame is too long"));
        }
        self.content.resize(length, 0);
        self.input.read_exact(&mut self.content).map_err(cut(at))?;
        if checksum(self.number, &self.content) != u32::from_le_bytes(sum) {
            return Err(damaged(at, "the checksum is wrong"));
        }
        (self.number, self.at, self.given) = (self.number + 1, at + 8 + length as u64, 0);
        Ok(())
    }
}

impl<R: Read> Read for FrameReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let is_at_end = self.number > 0 && self.content.is_empty();
        if self.given == self.content.len() && !is_at_end {
            self.next_frame()?;
        }
        let count = out.len().min(self.content.len() - self.given);
        out[..count].copy_from_slice(&self.content[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}
