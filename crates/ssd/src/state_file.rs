//! Drives in files: all of the state of one, so that it need be brought there only once.
//!
//! An image (`--image`) is flash alone: a drive on it is found again as after a power cut. A state is the whole drive in
//! the midst of its work, and goes on as if nothing had happened.
//!
//! The file: eight bytes of magic; the version of the format, 4 bytes; then frames, each a length (4 bytes), a CRC-32C (4
//! bytes) of its number and its content, and up to 1 MiB of content. The first frames hold the header as JSON, with its
//! length (8 bytes) before it; then comes the state; a frame without content is the end. Integers are little-endian.

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
/// Raised with every change of what is in a state.
const VERSION: u32 = 11;
/// Most content of a frame.
const FRAME_BYTES: usize = 1 << 20;
/// Longest header.
const HEADER_BYTES_MAX: u64 = 1 << 24;

/// Description of the drive in a state file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateHeader {
    /// The program that wrote it: what a state holds changes with the program, so that no other version reads it.
    pub strobe_version: String,
    /// The drive.
    pub drive: DriveConfig,
    /// True if timing is enabled.
    pub timing: bool,
    /// Its seed.
    pub seed: u64,
    /// Data of the program that saved it.
    pub more: Value,
}

impl StateHeader {
    /// Header of a drive built like this, by this version.
    pub fn new(drive: &DriveConfig, timing: bool, seed: u64, more: Value) -> Self {
        Self {
            strobe_version: env!("CARGO_PKG_VERSION").to_owned(),
            drive: drive.clone(),
            timing,
            seed,
            more,
        }
    }

    /// Keys in which the drive of the state is another than one built like this, with both values, in words.
    pub fn differences(&self, drive: &DriveConfig, timing: bool) -> Vec<String> {
        let value = |drive: &DriveConfig, timing: bool| {
            // What it is called makes no difference.
            let drive = DriveConfig { preset: None, ..drive.clone() };
            serde_json::json!({ "drive": drive, "run": { "timing": timing } })
        };
        differences(&value(&self.drive, self.timing), &value(drive, timing))
    }
}

/// Why a state is not loaded.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct StateFileError {
    /// The file.
    pub path: String,
    /// Reason.
    pub problem: StateProblem,
}

/// Reason why a state cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateProblem {
    /// It cannot be read, or is damaged.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("that is no state of a drive (strobe run --save-state makes them)")]
    NoState,
    /// It was written by another version.
    #[error(
        "the state was saved by strobe {theirs} in format {format}, this is strobe {ours} with format {VERSION}; save it again with this one"
    )]
    Version {
        /// Version of the program that wrote it, if it is known.
        theirs: String,
        /// Its format.
        format: u32,
        /// Version of this program.
        ours: &'static str,
    },
    /// It is of another drive.
    #[error("the state is of another drive or warm-up: {0}")]
    Unlike(String),
    /// Its drive cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Its content does not describe a drive.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Writes all of the state of `drive`, which `header` describes, and what `more` adds to it. Cost: a pass over its memory;
/// the file is about as long as that is large.
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

/// A state in a file, opened.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    header: StateHeader,
    frames: FrameReader<BufReader<File>>,
    /// Bytes of the file: more than any part of it has.
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
        if length > bytes.min(HEADER_BYTES_MAX) {
            return Err(StateError::Short.into());
        }
        let mut text = vec![0; length as usize];
        frames.read_exact(&mut text)?;
        // Its version first: the configuration may have other keys by then.
        let value: Value = serde_json::from_slice(&text).map_err(|_| StateProblem::NoState)?;
        if value["strobe_version"] != ours {
            let theirs = value["strobe_version"].as_str().unwrap_or("of an unknown version").to_owned();
            return Err(StateProblem::Version { theirs, format, ours });
        }
        let header = StateHeader::deserialize(value).map_err(|error| {
            StateProblem::Unlike(format!("its header is not one of this program: {error}"))
        })?;
        Ok(Self { path: path.to_owned(), header, frames, bytes })
    }

    /// Header of the state.
    pub fn header(&self) -> &StateHeader {
        &self.header
    }

    /// Refuses a drive other than that of the state, with the keys in which it differs.
    pub fn expect_drive(&self, drive: &DriveConfig, timing: bool) -> Result<(), StateFileError> {
        self.expect_alike(self.header.differences(drive, timing))
    }

    /// Refuses what differs, if anything does.
    pub fn expect_alike(&self, differences: Vec<String>) -> Result<(), StateFileError> {
        if differences.is_empty() {
            Ok(())
        } else {
            Err(failed(&self.path, StateProblem::Unlike(differences.join("; "))))
        }
    }

    /// The drive as it was; `more` reads what was added to it. [`memory_bytes`](crate::memory_bytes) of the header's drive
    /// says how much memory it needs.
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

    /// Loads the state into a new drive that was built otherwise, for example with a custom victim policy.
    /// The drive must have the same configuration. After an error it cannot be used.
    pub fn load_into(
        mut self,
        drive: &mut dyn Simulated,
        more: &mut dyn FnMut(&mut StateReader<'_>) -> Result<(), StateError>,
    ) -> Result<(), StateFileError> {
        let loaded = self.try_load_into(drive, more);
        loaded.map_err(|error| match error {
            // What the system says, or the checksums, is plain enough.
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
        if reader.check_end()? && self.frames.at == self.bytes {
            Ok(())
        } else {
            Err(StateError::Unfit("there is more of it"))
        }
    }
}

fn failed(path: &Path, problem: StateProblem) -> StateFileError {
    StateFileError { path: path.display().to_string(), problem }
}

/// Keys in which two tables differ, with both values, in words.
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
        found.push(format!("{key} is {} in the state, {} is asked for", said(was), said(is)));
    }
}

/// The checksum of frame `number`.
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

/// The content of frames, checked before any of it is handed out.
#[derive(Debug)]
struct FrameReader<R> {
    input: R,
    number: u64,
    /// Position in the file.
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
                ErrorKind::UnexpectedEof => damaged(at, "the file ends within it"),
                _ => error,
            }
        };
        let (at, mut length, mut sum) = (self.at, [0; 4], [0; 4]);
        self.input.read_exact(&mut length).map_err(cut(at))?;
        self.input.read_exact(&mut sum).map_err(cut(at))?;
        let length = u32::from_le_bytes(length) as usize;
        if length > FRAME_BYTES {
            return Err(damaged(at, "a frame that is too long"));
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
